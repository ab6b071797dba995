// emit_lint_cvt.c: the conversions that NVIDIA's assembler accepts: from which type to which, with
// which rounding and modifiers.
#include "sim/ptx/ptx.h"

#include <string.h>

enum { Ftz = 1, Sat = 2, Relu = 4, SatFinite = 8, Must = 16 }; // Must: SatFinite has to be there

typedef struct Conversion {
  const char *to, *from, *rounding; // modifiers, or - for none
  int modifiers;                    // any of them
  int arch;
} Conversion;

#define WHOLE "s8 u8 s16 u16 s32 u32 s64 u64"
#define NUMBER "rn rz rm rp"
#define TO_WHOLE "rni rzi rmi rpi"

static const Conversion conversions[] = {
    {WHOLE, "f16 f64", TO_WHOLE, Sat, 0},
    {WHOLE, "f32", TO_WHOLE, Ftz | Sat, 0},
    {WHOLE, "bf16", TO_WHOLE, 0, 90},
    {"f16 f64", WHOLE, NUMBER, Sat, 0},
    {"f32", WHOLE " f64", NUMBER, Ftz | Sat, 0},
    {"bf16", WHOLE " f64", NUMBER, 0, 90},
    {"f16", "f64", NUMBER, Sat, 0},
    {"f16", "f16", "- " TO_WHOLE, Sat, 0},
    {"f64", "f64", "- " TO_WHOLE, Sat, 0},
    {"f32", "f32", "- " TO_WHOLE, Ftz | Sat, 0},
    {"bf16", "bf16", "- " TO_WHOLE, 0, 90},
    {"f16 f64", "bf16", "- " NUMBER, 0, 90},
    {"bf16", "f16", "- " NUMBER, 0, 90},
    {"f64", "f16", "-", Sat, 0},
    {"f32", "f16", "-", Ftz | Sat, 0},
    {"f64", "f32", "-", Ftz | Sat, 0},
    {"f32", "bf16", "- " NUMBER, 0, 80},
    {"f32", "bf16", "- " NUMBER, Ftz, 90},
    {"f16", "f32", NUMBER, Ftz | Sat, 0},
    {"f16", "f32", "rn rz", Relu | SatFinite, 80},
    {"bf16", "f32", NUMBER, Ftz, 80},
    {"bf16", "f32", "rn rz", Relu | SatFinite, 80},
    {"tf32", "f32", "rna", SatFinite, 80},
    {"tf32", "f32", "rn rz", Relu, 90},
    {"tf32", "f32", "rn rz", Relu | SatFinite, 100},
    {"f16x2 bf16x2", "f32", "rn rz", Relu | SatFinite, 80},
    {"f16x2", "e4m3x2 e5m2x2", "rn", Relu, 89},
    {"e4m3x2 e5m2x2", "f32 f16x2", "rn", Relu | SatFinite | Must, 89},
};

static bool among(const char *words, const char *word) {
  size_t n = strlen(word);
  for (const char *at = words; (at = strstr(at, word)); at += n)
    if ((at == words || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
  return false;
}

// Between integers: .sat only if a value may not fit.
static bool fits(PtxType to, PtxType from) {
  if (to.kind == from.kind) return to.bits >= from.bits;
  return to.kind == KindSigned && to.bits > from.bits;
}

static int modifiers_of(const Instr *in, const char **rounding) {
  static const char *const names[] = {"ftz", "sat", "relu", "satfinite"};
  int seen = 0;
  *rounding = "-";
  for (int i = 1; i < in->nparts - 2; i++) {
    bool known = false;
    for (int k = 0; k < 4; k++)
      if (!strcmp(in->part[i], names[k])) seen |= 1 << k, known = true;
    if (!known) *rounding = in->part[i];
  }
  return seen;
}

// For bf16 bytes only registers of 8 bits; other types also use wider ones.
static void check_byte(const Emitter *e, const Operand *op, PtxType byte) {
  if (byte.bits != 8 || op->kind != OpReg) return;
  const PtxReg *reg = &e->func->regs[op->reg];
  if (reg->type.bits != 8)
    emit_fail(e, "%s has %d bits: a byte of bf16 needs a register of 8", reg->c_name,
              reg->type.bits);
}

void lint_convert(const Emitter *e, PtxType to, PtxType from) {
  const char *rounding, *to_name = to.name, *from_name = from.name;
  int seen = modifiers_of(e->instr, &rounding);
  bool two = strstr(to_name, "x2") && !strcmp(from_name, "f32");
  if (e->instr->nops != 2 + two) emit_fail(e, "%d operands are awaited", 2 + two);
  if (!strcmp(from_name, "bf16")) check_byte(e, &e->instr->op[0], to);
  if (!strcmp(to_name, "bf16")) check_byte(e, &e->instr->op[1], from);
  bool pair = false, rounded = false, whole = among(WHOLE, to_name) && among(WHOLE, from_name);
  if (whole && *rounding == '-' && (!seen || (seen == Sat && !fits(to, from)))) return;
  for (size_t i = 0; i < sizeof conversions / sizeof *conversions; i++) {
    const Conversion *c = &conversions[i];
    if (!among(c->to, to_name) || !among(c->from, from_name)) continue;
    pair = true;
    if (!among(c->rounding, rounding)) continue;
    rounded = true;
    if (seen & ~c->modifiers || (c->modifiers & Must && !(seen & SatFinite))) continue;
    if (seen & SatFinite && !(c->modifiers & Must) && e->module->version < 81)
      emit_fail(e, "`.satfinite` needs .version 8.1");
    if (e->module->arch >= c->arch) return;
  }
  if (!pair && !whole) emit_fail(e, "there is none from `%s` to `%s`", from_name, to_name);
  if (!rounded && !whole) emit_fail(e, "its rounding is none of this conversion");
  emit_fail(e, "this conversion does not have these modifiers, or not on %s", e->module->target);
}
