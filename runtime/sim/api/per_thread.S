// per_thread.S: the names of per_thread.def. NOTE: each is the call without its suffix: the legacy
// stream 0, which orders more than a per-thread stream.
#if defined(__x86_64__)
#define JUMP(name) jmp name@PLT
#elif defined(__aarch64__)
#define JUMP(name) b name
#endif

#ifdef JUMP
.text
#define PER_THREAD(name, end)                                                                      \
  .globl name##end;                                                                                \
  .type name##end, %function;                                                                      \
  name##end: JUMP(name);
#include "sim/per_thread.def"
#endif

.section .note.GNU-stack, "", %progbits
