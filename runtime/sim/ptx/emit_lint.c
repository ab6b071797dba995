// emit_lint.c: rejects what NVIDIA's assembler rejects although its meaning would be clear:
// registers of a width or kind that the instruction does not allow, with emit_lint_*.c.
#include "sim/ptx/ptx.h"

#include <string.h>

static bool begins_with(const char *opcode, const char *name) {
  size_t n = strlen(name);
  return !strncmp(opcode, name, n) && (!opcode[n] || opcode[n] == '.');
}

static bool has_word(const char *words, const char *word) {
  size_t n = strlen(word);
  for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ')
    if (strcspn(at, " ") == n && !strncmp(at, word, n)) return true;
  return false;
}

// ---- registers ----------------------------------------------------------------------------------

// As wide as the type; one of a load, a store or a conversion may be wider.
void lint_width(const Emitter *e, const PtxReg *reg, PtxType type) {
  static const char *const loose[] = {"ld", "ldu", "st", "cvt"};
  if (reg->type.bits == type.bits) return;
  bool wide = false;
  for (size_t i = 0; i < sizeof loose / sizeof *loose; i++)
    wide |= e->instr && !strcmp(e->instr->part[0], loose[i]) && reg->type.bits > type.bits;
  if (!wide) emit_fail(e, "%s has %d bits, not %d", reg->c_name, reg->type.bits, type.bits);
}

static bool is_arithmetic(const char *name) {
  static const char *const others[] = {"ld", "ldu", "st", "mov", "atom", "red"};
  for (const EmitRow *row = emit_arith_rows; row->name; row++)
    if (!strcmp(row->name, name)) return true;
  for (const EmitRow *row = emit_video_rows; row->name; row++)
    if (!strcmp(row->name, name)) return true;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (!strcmp(others[i], name)) return true;
  return false;
}

static void refuse_kind(const Emitter *e, const Operand *op, bool floats) {
  if (op->kind != OpReg) return;
  const PtxReg *reg = &e->func->regs[op->reg];
  PtxKind kind = reg->type.kind;
  if (floats ? kind == KindUnsigned || kind == KindSigned : kind == KindFloat)
    emit_fail(e, "%s is .%s", reg->c_name, reg->type.name);
}

// If all its types are integers, no register may be float, and vice versa. Untyped (.b) ones match
// either; vectors are not checked.
static void check_kinds(const Emitter *e) {
  const Instr *in = e->instr;
  bool seen[KindFloat + 1] = {false};
  if (!is_arithmetic(in->part[0])) return;
  for (int i = 1; i < in->nparts; i++) seen[ptx_type_of(in->part[i]).kind] = true;
  bool integers = seen[KindUnsigned] || seen[KindSigned];
  if (seen[KindBits] || seen[KindPred] || integers == seen[KindFloat]) return;
  for (int i = 0; i < in->nops; i++) refuse_kind(e, &in->op[i], seen[KindFloat]);
}

// slct's first type is that of the selected value.
static void check_choice(const Emitter *e) {
  const Instr *in = e->instr;
  if (strcmp(in->part[0], "slct") || in->nparts < 3) return;
  PtxKind kind = ptx_type_of(in->part[in->nparts - 2]).kind;
  for (int i = 0; i < in->nops && i < 3 && kind != KindBits; i++)
    refuse_kind(e, &in->op[i], kind == KindFloat);
}

// set.op[.bool].to.from: to 16 bits only from such floats, and pairs as pairs or as bits.
static void check_set(const Emitter *e) {
  static const char *const rows[][2] = {{"u32 s32", ""}, // of any
                                        {"f32", "u16 s16 b16 u32 s32 b32 u64 s64 b64 f32 f64"},
                                        {"u16 s16", "f16 bf16"},
                                        {"f16", "f16 f32 f64 u16 s16 b16 u32 s32 b32 u64 s64 b64"},
                                        {"bf16", "bf16 f16 f32 f64 u16 s16 b16 u32 s32 b32 u64 "
                                                 "s64 b64"},
                                        {"f16x2", "f16x2"},
                                        {"bf16x2", "bf16x2"}};
  const Instr *in = e->instr;
  if (strcmp(in->part[0], "set") || in->nparts < 4) return;
  const char *to = in->part[in->nparts - 2], *from = in->part[in->nparts - 1];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (has_word(rows[i][0], to) && (i == 0 || has_word(rows[i][1], from))) return;
  emit_fail(e, "`.%s` of `.%s`", to, from);
}

static void check_vectors(const Emitter *e) {
  for (int i = 0; i < e->instr->nops; i++) {
    const Operand *op = &e->instr->op[i];
    int bits = 0;
    for (int k = 0; op->kind == OpVector && k < op->nparts; k++) {
      if (op->parts[k].kind != OpReg) continue;
      const PtxReg *reg = &e->func->regs[op->parts[k].reg];
      if (bits && reg->type.bits != bits)
        emit_fail(e, "%s is not as wide as those beside it", reg->c_name);
      bits = reg->type.bits;
    }
  }
}

// 32-bit addresses, generic or global, are not supported from sm_90 on; ptxas does not check them
// in all instructions.
static void lint_wide_address(const Emitter *e, const PtxReg *reg, PtxSpace space) {
  static const char *const looked_at[] = {"ld", "ldu", "st", "atom", "red", "prefetch", "mbarrier",
                                          "applypriority", "discard", "prefetchu"};
  bool cluster = instr_has(e->instr, "shared::cluster");
  if (reg->type.bits != 32 || cluster || e->module->arch < 90) return;
  if (space != SpaceGeneric && space != SpaceGlobal) return;
  for (size_t i = 0; i < sizeof looked_at / sizeof *looked_at; i++)
    if (!strcmp(e->instr->part[0], looked_at[i]))
      emit_fail(e, "%s has 32 bits: %s has no such addresses", reg->c_name, e->module->target);
}

// Registers of 16 to 64 bits, and variables in the instruction's space.
void lint_address(const Emitter *e, const Operand *base, PtxSpace space) {
  bool cluster = instr_has(e->instr, "shared::cluster"); // includes this block's
  if (base->kind == OpVar && !cluster && space != SpaceGeneric && base->var->space != space)
    emit_fail(e, "%.100s lies in another space", base->var->name);
  if (base->kind == OpInt && space != SpaceLocal)
    emit_fail(e, "a number is an address of local memory alone");
  if (base->kind != OpReg) return;
  const PtxReg *reg = &e->func->regs[base->reg];
  PtxKind kind = reg->type.kind;
  if (kind == KindFloat || kind == KindPred || reg->type.bits < 16 || reg->type.bits > 64)
    emit_fail(e, "%s is .%s, no address", reg->c_name, reg->type.name);
  lint_wide_address(e, reg, space);
}

// ---- forms --------------------------------------------------------------------------------------

// Pairs of integers have only these instructions; others would treat them as 32 bits.
static void check_pairs(const Emitter *e) {
  const Instr *in = e->instr;
  if (!instr_has(in, "s16x2") && !instr_has(in, "u16x2")) return;
  if (!strstr("add sub min max", in->part[0])) emit_fail(e, "pairs of integers");
}

// A result needs a destination, at least `_`.
static void check_result(const Emitter *e) {
  const Instr *in = e->instr;
  bool arrives = begins_with(in->opcode, "mbarrier.arrive") ||
                 begins_with(in->opcode, "mbarrier.arrive_drop");
  if (arrives && in->nops && in->op[0].kind == OpAddress) emit_fail(e, "a result is awaited");
}

static void refuse_floats(const Emitter *e, const Operand *op) {
  for (int i = 0; i < op->nparts; i++) refuse_kind(e, &op->parts[i], false);
}

// A is by rows and B by columns, in this order.
static void check_layout(const Emitter *e) {
  bool mma = !strcmp(e->instr->part[0], "mma") && !begins_with(e->instr->opcode, "mma.sp");
  if (mma && !strstr(e->instr->opcode, ".row.col.")) emit_fail(e, "`.row.col` is awaited");
  for (int i = 0; i < e->instr->nops && i < 4 && mma && instr_has(e->instr, "s32"); i++)
    refuse_floats(e, &e->instr->op[i]);
}

// The policy of a cache, the last operand, has 64 bits.
static void check_policy(const Emitter *e) {
  const Instr *in = e->instr;
  if (!instr_has(in, "L2::cache_hint") || !in->nops || in->op[in->nops - 1].kind != OpReg) return;
  const PtxReg *reg = &e->func->regs[in->op[in->nops - 1].reg];
  if (reg->type.bits != 64) emit_fail(e, "%s has %d bits, not 64", reg->c_name, reg->type.bits);
}

void lint_instr(const Emitter *e) {
  check_layout(e);
  check_policy(e);
  check_pairs(e);
  lint_form(e);
  lint_target(e);
  check_kinds(e);
  check_choice(e);
  check_set(e);
  check_result(e);
  check_vectors(e);
}
