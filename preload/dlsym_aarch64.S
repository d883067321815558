/* dlsym and dlvsym for 64-bit Arm; see dlsym_x86_64.S. */
    .text

    .macro tail_or_answer name, decide, target
    .globl \name
    .type \name, %function
\name:
    .cfi_startproc
    stp x29, x30, [sp, #-48]!
    .cfi_adjust_cfa_offset 48
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    bl \decide
    mov x9, x0
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_adjust_cfa_offset -48
    .cfi_restore x29
    .cfi_restore x30
    cbz x9, 1f
    cmp x9, #1
    csel x0, xzr, x9, eq
    ret
1:  adrp x9, \target
    ldr x9, [x9, #:lo12:\target]
    br x9
    .cfi_endproc
    .size \name, . - \name
    .endm

    tail_or_answer dlsym, drawbridge_decide, drawbridge_real_dlsym
    tail_or_answer dlvsym, drawbridge_decide_version, drawbridge_real_dlvsym

    .section .note.GNU-stack, "", %progbits
