# Behind a module's static shared memory (its thread-local segment): linked last, nothing may write here.
        .section .tbss,"awT",@nobits
        .zero 4096
        .section .note.GNU-stack,"",@progbits
