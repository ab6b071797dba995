// wild.c: classifies faults that x86 reports without an address: a misaligned aligned-vector
// access, or a pointer beyond the address space.
//
// By the instruction: only moves of the `aligned` kind (movaps, movdqa, movntdq, with their VEX
// and EVEX forms) and, without VEX, other vector instructions require alignment.
#include "sim/check/check.h"

#if defined(__x86_64__)

enum { kMap0f = 1, kPrefix66 = 1 };

static bool moves_aligned(int map, int prefix, unsigned char opcode) {
  if (map != kMap0f) return false;
  return opcode == 0x28 || opcode == 0x29 || opcode == 0x2b || opcode == 0xe7 ||
         ((opcode == 0x6f || opcode == 0x7f) && prefix == kPrefix66);
}

bool fault_is_wild(const unsigned char *code) {
  bool scalar = false;
  for (;; code++) { // prefixes
    if (*code == 0xf2 || *code == 0xf3)
      scalar = true;
    else if (*code != 0x66 && *code != 0x67 && (*code & 0xf0) != 0x40 && *code != 0x64)
      break;
  }
  if (*code == 0xc5) return !moves_aligned(kMap0f, code[1] & 3, code[2]);
  if (*code == 0xc4) return !moves_aligned(code[1] & 31, code[2] & 3, code[3]);
  if (*code == 0x62) return !moves_aligned(code[1] & 7, code[2] & 3, code[4]);
  return *code != 0x0f || scalar; // legacy forms that are not vector instructions
}

#else

bool fault_is_wild(const unsigned char *code) {
  (void)code;
  return false;
}

#endif
