/* Launches of kernels with arguments on the stack. Where the process has one share, and that is not limited, the call
 * goes on to the driver with everything as the caller left it: a compiler would copy the arguments first, which costs
 * more than all the rest. Any other case is decided in wrap_launch.cpp. */
#include "preload/launch_words.h"

    .text

    .macro launch name, place
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    endbr64
    mov drawbridge_open_launches(%rip), %rax
    test %rax, %rax
    jz 1f
    cmpl $LAUNCH_ALL_CORES, LAUNCH_CORE_PERMILLE(%rax)
    jb 1f
    cmpq $0, LAUNCH_PAUSED_UNTIL(%rax)
    jne 1f
    jmp *drawbridge_open_launches+8+8*\place(%rip)
1:  jmp decided_\name
    .cfi_endproc
    .size \name, . - \name
    .endm

    launch cuLaunchKernel, 0
    launch cuLaunchKernel_ptsz, 1
    launch cuLaunchCooperativeKernel, 2
    launch cuLaunchCooperativeKernel_ptsz, 3

    .section .note.GNU-stack, "", @progbits
