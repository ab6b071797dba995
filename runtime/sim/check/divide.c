// divide.c: the integer division that traps on the host's processor but not on a GPU: INT_MIN / -1.
//
// A GPU divides magnitudes: the quotient 2^31 has the bits of INT_MIN, and the remainder
// is 0; likewise for 64 bits. x86 raises SIGFPE, as for a divisor of 0. The signal handler
// decodes the instruction, sets its result and skips it. aarch64's sdiv does not trap.
#include "sim/check/check.h"

#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)

typedef struct Decoder {
  const unsigned char *at;
  const greg_t *registers;
  int rex; // its low bits extend the register numbers; kWide: operands of 64 bits
} Decoder;

enum { kWide = 8, kIndexHigh = 2, kBaseHigh = 1 };

static uintptr_t register_value(const Decoder *d, int number) {
  static const int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                              REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                              REG_R12, REG_R13, REG_R14, REG_R15};
  return (uintptr_t)d->registers[order[number]];
}

static int base_number(const Decoder *d, int low) {
  return low | (d->rex & kBaseHigh ? 8 : 0);
}

static long displacement(Decoder *d, int bytes) {
  int32_t wide = 0;
  int8_t narrow = 0;
  if (bytes == 1) memcpy(&narrow, d->at, 1);
  if (bytes == 4) memcpy(&wide, d->at, 4);
  d->at += bytes;
  return (long)wide + narrow;
}

// The address of a memory operand: base + index * scale + displacement.
static const void *memory_operand(Decoder *d, int mod, int rm) {
  enum { kScaled = 4, kNoBase = 5, kNoIndex = 4 };
  uintptr_t address = 0;
  int base = rm;
  if (rm == kScaled) {
    int sib = *d->at++, index = (sib >> 3 & 7) | (d->rex & kIndexHigh ? 8 : 0);
    base = sib & 7;
    if (index != kNoIndex) address = register_value(d, index) << (sib >> 6);
  }
  bool absolute = mod == 0 && base == kNoBase;
  if (!absolute) address += register_value(d, base_number(d, base));
  address += (uintptr_t)displacement(d, absolute || mod == 2 ? 4 : mod);
  if (absolute && rm == kNoBase) address += (uintptr_t)d->at; // from the next instruction on
  return (const void *)address;
}

static int64_t read_divisor(Decoder *d, int modrm) {
  int64_t divisor = 0;
  uintptr_t value = 0;
  const void *from = &value;
  if (modrm >> 6 == 3)
    value = register_value(d, base_number(d, modrm & 7));
  else
    from = memory_operand(d, modrm >> 6, modrm & 7);
  memcpy(&divisor, from, d->rex & kWide ? 8 : 4);
  return d->rex & kWide ? divisor : (int32_t)divisor;
}

bool divide_overflowed(void *data) {
  enum { kRexMask = 0xf0, kRex = 0x40, kGroup3 = 0xf7, kIdiv = 7 };
  greg_t *registers = ((ucontext_t *)data)->uc_mcontext.gregs;
  Decoder d = {(const unsigned char *)registers[REG_RIP], registers, 0};
  if ((*d.at & kRexMask) == kRex) d.rex = *d.at++;
  if (*d.at++ != kGroup3) return false;
  int modrm = *d.at++;
  if ((modrm >> 3 & 7) != kIdiv || read_divisor(&d, modrm) != -1) return false;
  registers[REG_RAX] = d.rex & kWide ? INT64_MIN : (greg_t)0x80000000;
  registers[REG_RDX] = 0;
  registers[REG_RIP] = (greg_t)d.at;
  return true;
}

#else

bool divide_overflowed(void *data) {
  (void)data;
  return false;
}

#endif
