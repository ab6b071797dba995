// fiber_switch.S: fiber_switch(void **save, void *load): saves the callee-saved registers on the
// running stack, stores the stack pointer in *save, continues the fiber whose stack is `load`.
// NOTE: it ends with `ret`: fibers mostly wait in the same function, so the processor's return
// predictor is right for this and all outer returns; with an indirect jump a barrier took 1.7x as long.
// The floating-point control words are the same in all fibers and are not saved.
#if defined(CUSIM_UCONTEXT) // fiber.c switches
#elif defined(__x86_64__)
        .text
        .globl  fiber_switch
        .hidden fiber_switch
        .type   fiber_switch, @function
fiber_switch:
        .cfi_startproc
        endbr64
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        ret
        .cfi_endproc
        .size   fiber_switch, .-fiber_switch
#elif defined(__aarch64__)
        .text
        .globl  fiber_switch
        .hidden fiber_switch
        .type   fiber_switch, %function
fiber_switch:
        sub     sp, sp, #160
        stp     x19, x20, [sp, #0]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        mov     x9, sp
        str     x9, [x0]
        mov     sp, x1
        ldp     x19, x20, [sp, #0]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #160
        ret
        .size   fiber_switch, .-fiber_switch
#endif
        .section .note.GNU-stack,"",%progbits
