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

// wgmma.mma_async.sync.aligned.m64nNkK[.satfinite].d.a.b d, a, b, scale-d[, scale-a, scale-b[,
// trans-a][, trans-b]]
static void emit_wgmma(Emitter *e) {
  const Instr *in = e->instr;
  if (in->nparts < 8) emit_fail(e, "a shape and types are awaited");
  int m = 0, n = 0, k = 0, last = in->nparts - 1;
  bool saturate = instr_has(in, "satfinite");
  if (sscanf(in->part[4], "m%dn%dk%d", &m, &n, &k) != 3 || m != 64 || n < 8 || n > 256 || n % 8)
    emit_fail(e, "`%s` is no shape of it", in->part[4]);
  const WgmmaType *a = wgmma_type(in->part[last - 1]), *b = wgmma_type(in->part[last]);
  const char *d = in->part[last - 2];
  bool half = !strcmp(d, "f16"), integer = !strcmp(d, "s32");
  if (!a || !b || a->depth != k || b->depth != k || (!half && !integer && strcmp(d, "f32") != 0))
    emit_fail(e, "these types are not done");
  only_parts(e, 1, 4, "mma_async sync aligned");
  only_parts(e, 5, last - 2, integer ? "satfinite" : "");
  const Operand *to = need_op(e, 0), *from = need_op(e, 1);
  int words = half ? n / 4 : n / 2;
  bool regs = from->kind == OpVector;
  if (to->kind != OpVector || to->nparts != words || (regs && from->nparts != 4))
    emit_fail(e, "D has %d registers, A four or a descriptor", words);
  PtxType u32 = ptx_type_of("u32");
  text_print(e->out, "{ u32 t_[%d] = {", words);
  for (int i = 0; i < words; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, &to->parts[i], u32);
  }
  text_print(e->out, "}; ");
  if (regs) {
    text_print(e->out, "const u32 a_[4] = {");
    for (int i = 0; i < 4; i++) {
      if (i) text_print(e->out, ", ");
      emit_value(e, &from->parts[i], u32);
    }
    text_print(e->out, "}; ");
  }
  if (saturate) text_print(e->out, "u32 p_[%d]; ", words);
  text_print(e->out, "cusim::wgmma<%s, %s, %d, %s, %s>(%s, %s, ", a->text, b->text, n,
             half ? "true" : "false", regs ? "true" : "false", saturate ? "p_" : "t_",
             regs ? "a_" : "0");
  if (regs)
    text_print(e->out, "0");
  else
    value(e, 1, "u64");
  text_print(e->out, ", ");
  value(e, 2, "u64");
  text_print(e->out, ", SB, ");
  if (saturate)
    text_print(e->out, "false"); // the products alone, which never overflow
  else
    emit_scale_d(e);
  bool trans = k == 16; // of 16 bits alone
  int scale_a = in->nops > 4 ? (int)need_op(e, 4)->bits : 1;
  int scale_b = in->nops > 5 ? (int)need_op(e, 5)->bits : 1;
  int trans_a = trans && !regs && in->nops > 6 ? (int)need_op(e, 6)->bits : 0;
  int trans_b = trans && in->nops > (regs ? 6 : 7) ? (int)need_op(e, regs ? 6 : 7)->bits : 0;
  text_print(e->out, ", %d, %d, %d, %d);", scale_a, scale_b, trans_a, trans_b);
  if (saturate) {
    text_print(e->out, " for (int i_ = 0; i_ < %d; i_++) t_[i_] = (", words);
    emit_scale_d(e);
    text_print(e->out, ") ? x_addsat(s32(t_[i_]), s32(p_[i_])) : p_[i_];");
  }
  for (int i = 0; i < words; i++) {
    text_print(e->out, " ");
    emit_begin(e, &to->parts[i], u32);
    text_print(e->out, "t_[%d]", i);
    emit_end(e, &to->parts[i], u32);
  }
  text_print(e->out, " }");
}

const EmitRow emit_wgmma_rows[] = {{"wgmma.mma_async", emit_wgmma},
                                   {"wgmma.fence", emit_fence},
                                   {"wgmma.commit_group", emit_commit},
                                   {"wgmma.wait_group", emit_wait},
                                   {0}};
