/* dlsym and dlvsym. The decision is made in look_up.cpp: null = jump to the real function with every register as the
 * caller left it, so that the C library sees the true caller (RTLD_NEXT starts there); 1 = answer null; else the answer. */
    .text

    .globl dlsym
    .type dlsym, @function
dlsym:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    sub $8, %rsp
    .cfi_adjust_cfa_offset 8
    call drawbridge_decide
    add $8, %rsp
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %rax, %rax
    jz 1f
    cmp $1, %rax
    jne 2f
    xor %eax, %eax
2:  ret
1:  jmp *drawbridge_real_dlsym(%rip)
    .cfi_endproc
    .size dlsym, . - dlsym

    .globl dlvsym
    .type dlvsym, @function
dlvsym:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    call drawbridge_decide_version
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %rax, %rax
    jz 1f
    cmp $1, %rax
    jne 2f
    xor %eax, %eax
2:  ret
1:  jmp *drawbridge_real_dlvsym(%rip)
    .cfi_endproc
    .size dlvsym, . - dlvsym

    .section .note.GNU-stack, "", @progbits
