// emit_wgmma.c: products of a warp group.
#include "sim/ptx/ptx.h"

#include <string.h>

static void value(Emitter *e, int index, const char *type) {
  emit_value(e, need_op(e, index), ptx_type_of(type));
}

static void emit_fence(Emitter *e) {
  only_parts(e, 1, e->instr->nparts, "fence sync aligned");
  text_print(e->out, "cusim_self->product_fences++;");
}

static void emit_commit(Emitter *e) {
  only_parts(e, 1, e->instr->nparts, "commit_group sync aligned");
  text_print(e->out, "cusim_self->product_groups++;");
}

static void emit_wait(Emitter *e) {
  only_parts(e, 1, e->instr->nparts, "wait_group sync aligned");
  if (need_op(e, 0)->kind != OpInt) emit_fail(e, "a number of groups is awaited");
  text_print(e->out, "x_wgmma_wait(%u);", (unsigned)need_op(e, 0)->bits);
}

typedef struct WgmmaType {
  const char *name, *text;
  int depth; // of one instruction, in elements
} WgmmaType;

static const WgmmaType *wgmma_type(const char *name) {
  static const WgmmaType types[] = {{"f16", "cusim::F16", 16},   {"bf16", "cusim::Bf16", 16},
                                    {"tf32", "cusim::Tf32", 8},  {"e4m3", "cusim::E4m3", 32},
                                    {"e5m2", "cusim::E5m2", 32}, {"s8", "cusim::S8", 32},
                                    {"u8", "cusim::U8", 32}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, name)) return &types[i];
  return NULL;
}

static void emit_scale_d(Emitter *e) {
  if (need_op(e, 3)->kind == OpReg)
    value(e, 3, "pred");
  else
    text_print(e->out, "%s", need_op(e, 3)->bits ? "true" : "false");
}

// wgmma.mma_async.sync.aligned.m64nNkK.d.a.b d, a, b, scale-d[, scale-a, scale-b[, trans-a][,
// trans-b]]; .satfinite before, among or after the types (CUTLASS: after)
typedef struct WgmmaForm {
  const WgmmaType *a, *b;
  int n, words; // registers of D
  bool half, saturate, regs;
} WgmmaForm;

static WgmmaForm read_form(Emitter *e) {
  const Instr *in = e->instr;
  if (in->nparts < 8) emit_fail(e, "a shape and types are awaited");
  int m = 0, n = 0, k = 0, count = 0;
  const char *types[3] = {"", "", ""};
  for (int i = 5; i < in->nparts; i++) {
    if (!strcmp(in->part[i], "satfinite")) continue;
    if (count == 3) emit_fail(e, "`.%s` is not known here", in->part[i]);
    types[count++] = in->part[i];
  }
  const char *d = types[0];
  bool integer = !strcmp(d, "s32"), saturate = instr_has(in, "satfinite");
  if (sscanf(in->part[4], "m%dn%dk%d", &m, &n, &k) != 3 || m != 64 || n < 8 || n > 256 || n % 8 ||
      (integer && n > 32 && n % 16))
    emit_fail(e, "`%s` is no shape of it", in->part[4]);
  WgmmaForm f = {wgmma_type(types[1]), wgmma_type(types[2]), n, n / 2,
                 !strcmp(d, "f16"), saturate, need_op(e, 1)->kind == OpVector};
  if (!f.a || !f.b || f.a->depth != k || f.b->depth != k ||
      (!f.half && !integer && strcmp(d, "f32") != 0))
    emit_fail(e, "these types are not done");
  only_parts(e, 1, 4, "mma_async sync aligned");
  if (saturate && !integer) emit_fail(e, "`.satfinite` is of integers");
  if (f.half) f.words = n / 4;
  const Operand *to = need_op(e, 0), *from = need_op(e, 1);
  if (to->kind != OpVector || to->nparts != f.words || (f.regs && from->nparts != 4))
    emit_fail(e, "D has %d registers, A four or a descriptor", f.words);
  return f;
}

// Emits the factors of a wgmma as the next step of its run.
static void emit_step(Emitter *e, const WgmmaForm *f, int index) {
  text_print(e->out, "g_[%d] = {", index);
  if (f->regs)
    text_print(e->out, "0");
  else
    value(e, 1, "u64");
  text_print(e->out, ", ");
  value(e, 2, "u64");
  text_print(e->out, ", {");
  for (int i = 0; f->regs && i < 4; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, &need_op(e, 1)->parts[i], ptx_type_of("u32"));
  }
  text_print(e->out, "}, ");
  if (f->saturate)
    text_print(e->out, "false"); // only the products, which never overflow
  else
    emit_scale_d(e);
  text_print(e->out, "};");
}

static void emit_run(Emitter *e, const WgmmaForm *f, int count) {
  const Instr *in = e->instr;
  const Operand *to = need_op(e, 0);
  PtxType u32 = ptx_type_of("u32");
  text_print(e->out, " { u32 t_[%d] = {", f->words);
  for (int i = 0; i < f->words; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, &to->parts[i], u32);
  }
  text_print(e->out, "}; ");
  if (f->saturate) text_print(e->out, "u32 p_[%d]; ", f->words);
  text_print(e->out, "cusim::wgmma_run<%s, %s, %d, %s, %s>(%s, g_, %d, SB", f->a->text, f->b->text,
             f->n, f->half ? "true" : "false", f->regs ? "true" : "false",
             f->saturate ? "p_" : "t_", count);
  bool trans = f->a->depth == 16; // 16-bit types only
  int scale_a = in->nops > 4 ? (int)need_op(e, 4)->bits : 1;
  int scale_b = in->nops > 5 ? (int)need_op(e, 5)->bits : 1;
  int trans_a = trans && !f->regs && in->nops > 6 ? (int)need_op(e, 6)->bits : 0;
  int at_b = f->regs ? 6 : 7;
  int trans_b = trans && in->nops > at_b ? (int)need_op(e, at_b)->bits : 0;
  text_print(e->out, ", %d, %d, %d, %d);", scale_a, scale_b, trans_a, trans_b);
  if (f->saturate) {
    text_print(e->out, " for (int i_ = 0; i_ < %d; i_++) t_[i_] = (", f->words);
    emit_scale_d(e);
    text_print(e->out, ") ? x_addsat(s32(t_[i_]), s32(p_[i_])) : p_[i_];");
  }
  for (int i = 0; i < f->words; i++) {
    text_print(e->out, " ");
    emit_begin(e, &to->parts[i], u32);
    text_print(e->out, "t_[%d]", i);
    emit_end(e, &to->parts[i], u32);
  }
  text_print(e->out, " }");
}

// ---- runs ---------------------------------------------------------------------------------------

enum { kMostSteps = 8 }; // of g_

static bool is_wgmma(const Instr *in) {
  return !in->label && in->nparts > 1 && !strcmp(in->part[0], "wgmma") &&
         !strcmp(in->part[1], "mma_async");
}

static bool same_operand(const Operand *a, const Operand *b) {
  if (a->kind != b->kind || a->nparts != b->nparts || a->reg != b->reg || a->bits != b->bits)
    return false;
  for (int i = 0; i < a->nparts; i++)
    if (!same_operand(&a->parts[i], &b->parts[i])) return false;
  return true;
}

static bool same_product(const Instr *a, const Instr *b) {
  if (!is_wgmma(b) || b->pred >= 0 || strcmp(a->opcode, b->opcode) != 0 || a->nops != b->nops ||
      a->op[1].kind != b->op[1].kind || !same_operand(&a->op[0], &b->op[0]))
    return false;
  for (int i = 4; i < a->nops; i++)
    if (!same_operand(&a->op[i], &b->op[i])) return false;
  return true;
}

static bool names_any(const Operand *op, const Operand *registers) {
  for (int i = 0; i < op->nparts; i++)
    if (names_any(&op->parts[i], registers)) return true;
  for (int i = 0; op->kind == OpReg && i < registers->nparts; i++)
    if (registers->parts[i].kind == OpReg && registers->parts[i].reg == op->reg) return true;
  return false;
}

// Arithmetic on other registers (descriptors) between the wgmma of a run.
static bool may_stand_between(const Instr *in, const Operand *sums) {
  static const char *const known[] = {"mov", "add", "sub",  "shl",  "shr", "and",
                                      "or",  "xor", "setp", "selp", "cvt", "mad"};
  bool found = false;
  for (size_t i = 0; !in->label && i < sizeof known / sizeof *known; i++)
    found |= !strcmp(in->part[0], known[i]);
  for (int i = 0; found && i < in->nops; i++) found = !names_any(&in->op[i], sums);
  return found;
}

// The next or previous wgmma of a run, or NULL.
static const Instr *neighbour(Emitter *e, const Instr *from, int direction) {
  const Instr *begin = e->func->body, *end = begin + e->func->nbody;
  if (from->pred >= 0 || instr_has(from, "satfinite")) return NULL;
  for (const Instr *in = from + direction; in >= begin && in < end; in += direction) {
    if (same_product(from, in)) return in;
    if (!may_stand_between(in, &from->op[0])) return NULL;
  }
  return NULL;
}

// Consecutive wgmma with the same accumulators are one warp collective, at the last one.
static void emit_wgmma(Emitter *e) {
  WgmmaForm form = read_form(e);
  int before = 0;
  for (const Instr *in = e->instr; (in = neighbour(e, in, -1));) before++;
  int index = before % kMostSteps;
  emit_step(e, &form, index);
  if (index + 1 < kMostSteps && neighbour(e, e->instr, 1)) return;
  emit_run(e, &form, index + 1);
}

const EmitRow emit_wgmma_rows[] = {{"wgmma.mma_async", emit_wgmma},
                                   {"wgmma.fence", emit_fence},
                                   {"wgmma.commit_group", emit_commit},
                                   {"wgmma.wait_group", emit_wait},
                                   {0}};
