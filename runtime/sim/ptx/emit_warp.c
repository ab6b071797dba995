// emit_warp.c: data exchange between a warp's lanes.
#include "sim/ptx/ptx.h"

#include <string.h>

static void value(Emitter *e, int index, const char *type) {
  emit_value(e, need_op(e, index), ptx_type_of(type));
}

// shfl.sync.mode.b32 d[|p], a, b, c, mask
static void emit_shfl(Emitter *e) {
  const Instr *in = e->instr;
  if (!instr_has(in, "sync") || in->nparts != 4) emit_fail(e, "`shfl.sync.mode.b32` is awaited");
  only_parts(e, 2, 3, "up down bfly idx");
  const Operand *to = need_op(e, 0), *pred = NULL;
  if (to->kind == OpPair) pred = &to->parts[1], to = &to->parts[0];
  if (to->kind == OpSink) emit_fail(e, "what it gives goes nowhere");
  PtxType u32 = ptx_type_of("u32");
  text_print(e->out, "{ x_shuffled t_ = x_shfl_%s(", in->part[2]);
  for (int i = 1; i <= 4; i++) {
    if (i > 1) text_print(e->out, ", ");
    value(e, i, "u32");
  }
  text_print(e->out, "); ");
  emit_begin(e, to, u32);
  text_print(e->out, "t_.value");
  emit_end(e, to, u32);
  if (pred && pred->kind != OpSink) {
    text_print(e->out, " ");
    emit_begin(e, pred, ptx_type_of("pred"));
    text_print(e->out, "t_.inside");
    emit_end(e, pred, ptx_type_of("pred"));
  }
  text_print(e->out, " }");
}

// vote.sync.mode.type d, p, mask; or vote.mode.sync.type
static void emit_vote(Emitter *e) {
  const Instr *in = e->instr;
  if (!instr_has(in, "sync")) emit_fail(e, "without `.sync`");
  int at = strcmp(in->part[1], "sync") != 0 ? 1 : 2;
  only_parts(e, at, at + 1, "all any uni ballot");
  only_parts(e, 3 - at, 4 - at, "sync");
  PtxType type = instr_type(e, 0);
  const char *name = in->part[at];
  emit_begin(e, need_op(e, 0), type);
  text_print(e->out, "__%s_sync(", name);
  value(e, 2, "u32");
  text_print(e->out, ", ");
  value(e, 1, "pred");
  text_print(e->out, ")%s", type.kind == KindPred ? " != 0" : "");
  emit_end(e, need_op(e, 0), type);
}

// match.any.sync.type d, a, mask; match.all.sync.type d[|p], a, mask
static void emit_match(Emitter *e) {
  const Instr *in = e->instr;
  PtxType u32 = ptx_type_of("u32");
  only_parts(e, 1, in->nparts - 1, "any all sync");
  bool all = instr_has(in, "all");
  const Operand *to = need_op(e, 0), *pred = NULL;
  if (to->kind == OpPair) pred = &to->parts[1], to = &to->parts[0];
  if (pred && !all) emit_fail(e, "`.any` gives no predicate");
  text_print(e->out,
             all ? "{ int all_; u32 t_ = __match_all_sync(" : "{ u32 t_ = __match_any_sync(");
  value(e, 2, "u32");
  text_print(e->out, ", ");
  value(e, 1, instr_type(e, 0).bits == 64 ? "u64" : "u32");
  text_print(e->out, all ? ", &all_); " : "); ");
  if (to->kind != OpSink) {
    emit_begin(e, to, u32);
    text_print(e->out, "t_");
    emit_end(e, to, u32);
  }
  if (pred && pred->kind != OpSink) {
    text_print(e->out, " ");
    emit_begin(e, pred, ptx_type_of("pred"));
    text_print(e->out, "all_ != 0");
    emit_end(e, pred, ptx_type_of("pred"));
  }
  text_print(e->out, " }");
}

// redux.sync.op.type d, a, mask
static void emit_redux(Emitter *e) {
  const Instr *in = e->instr;
  PtxType type = instr_type(e, 0);
  if (type.kind == KindFloat) emit_fail(e, "of floating point");
  only_parts(e, 1, in->nparts - 1, "sync add min max and or xor");
  bool number = type.kind == KindSigned;
  emit_begin(e, need_op(e, 0), ptx_type_of("u32"));
  text_print(e->out, "__reduce_%s_sync(", in->part[2]);
  value(e, 2, "u32");
  text_print(e->out, ", ");
  value(e, 1, number ? "s32" : "u32");
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), ptx_type_of("u32"));
}

static void emit_activemask(Emitter *e) {
  emit_begin(e, need_op(e, 0), ptx_type_of("u32"));
  text_print(e->out, "x_activemask<%d>()", (int)(e->instr - e->func->body));
  emit_end(e, need_op(e, 0), ptx_type_of("u32"));
}

// elect.sync d|p, mask: the lowest lane.
static void emit_elect(Emitter *e) {
  const Operand *to = need_op(e, 0);
  if (to->kind != OpPair) emit_fail(e, "`d|p` is awaited");
  text_print(e->out, "{ u32 m_ = ");
  value(e, 1, "u32");
  text_print(e->out, "; cusim_meet(m_, 0, 0); u32 t_ = __builtin_ctz(m_);");
  if (to->parts[0].kind != OpSink) {
    text_print(e->out, " ");
    emit_begin(e, &to->parts[0], ptx_type_of("u32"));
    text_print(e->out, "t_");
    emit_end(e, &to->parts[0], ptx_type_of("u32"));
  }
  if (to->parts[1].kind != OpSink) {
    text_print(e->out, " ");
    emit_begin(e, &to->parts[1], ptx_type_of("pred"));
    text_print(e->out, "t_ == x_lane()");
    emit_end(e, &to->parts[1], ptx_type_of("pred"));
  }
  text_print(e->out, " }");
}

const EmitRow emit_warp_rows[] = {{"shfl", emit_shfl},     {"vote", emit_vote},
                                  {"match", emit_match},   {"redux", emit_redux},
                                  {"elect", emit_elect},   {"activemask", emit_activemask},
                                  {0}};
