// emit_hopper.c: asynchronous copies and mbarriers.
#include "sim/ptx/ptx.h"

#include <string.h>

static void value(Emitter *e, int index, const char *type) {
  emit_value(e, need_op(e, index), ptx_type_of(type));
}

static void shared_address(Emitter *e, int index) {
  PtxSpace space = instr_space(e->instr);
  emit_address(e, need_op(e, index), space);
}

// cp.async.ca|cg.shared.global [dst], [src], cp-size[, src-size | ignore-src][, policy]
static void emit_cp_async(Emitter *e) {
  const Instr *in = e->instr;
  only_parts(e, 1, in->nparts, "async ca cg shared shared::cta global L2::cache_hint L2::64B L2::128B L2::256B");
  bool hint = instr_has(in, "L2::cache_hint");
  text_print(e->out, "cusim_cp_async(");
  emit_address(e, need_op(e, 0), SpaceShared);
  text_print(e->out, ", ");
  emit_address(e, need_op(e, 1), SpaceGlobal);
  text_print(e->out, ", ");
  value(e, 2, "s32");
  text_print(e->out, ", ");
  const Operand *size = in->nops - hint > 3 ? need_op(e, 3) : need_op(e, 2);
  if (size->kind == OpReg && e->func->regs[size->reg].type.kind == KindPred) {
    emit_value(e, size, ptx_type_of("pred"));
    text_print(e->out, " ? 0 : ");
    value(e, 2, "s32");
  } else {
    emit_value(e, size, ptx_type_of("s32"));
  }
  text_print(e->out, ");");
}

static void emit_commit(Emitter *e) {
  text_print(e->out, "cusim_cp_async_commit();");
}

static void emit_wait_group(Emitter *e) {
  text_print(e->out, "cusim_cp_async_wait(");
  value(e, 0, "s32");
  text_print(e->out, ");");
}

static void emit_wait_all(Emitter *e) {
  text_print(e->out, "cusim_cp_async_commit(); cusim_cp_async_wait(0);");
}

static void emit_cp_mbarrier(Emitter *e) {
  only_parts(e, 3, e->instr->nparts, "arrive noinc shared shared::cta b64");
  if (!instr_has(e->instr, "noinc")) emit_fail(e, "without `.noinc`");
  text_print(e->out, "cusim_cp_async_mbar_arrive((unsigned long long *)");
  shared_address(e, 0);
  text_print(e->out, ");");
}

// ---- mbarriers ----------------------------------------------------------------------------------

static void barrier(Emitter *e, int index) {
  text_print(e->out, "(unsigned long long *)");
  shared_address(e, index);
}

static void emit_mbar_init(Emitter *e) {
  only_parts(e, 2, e->instr->nparts, "shared shared::cta b64");
  text_print(e->out, "cusim_mbar_init(");
  barrier(e, 0);
  text_print(e->out, ", ");
  value(e, 1, "s32");
  text_print(e->out, ");");
}

static void emit_mbar_inval(Emitter *e) {
  only_parts(e, 2, e->instr->nparts, "shared shared::cta b64");
  text_print(e->out, "*");
  barrier(e, 0);
  text_print(e->out, " = 0;");
}

// mbarrier.arrive[.expect_tx].b64 state, [addr][, count or bytes]: the state is the word before.
static void emit_mbar_arrive(Emitter *e) {
  const Instr *in = e->instr;
  only_parts(e, 2, in->nparts, "expect_tx release relaxed cta cluster shared shared::cta b64");
  int at = need_op(e, 0)->kind == OpAddress ? 0 : 1;
  bool tx = instr_has(in, "expect_tx");
  if (in->nops > at + 1 && !tx && (need_op(e, at + 1)->kind != OpInt || need_op(e, at + 1)->bits != 1))
    emit_fail(e, "by a count");
  text_print(e->out, "{ unsigned long long *b_ = ");
  barrier(e, at);
  text_print(e->out, "; u64 s_ = *b_; cusim_mbar_arrive(b_, ");
  if (tx)
    value(e, at + 1, "s32");
  else
    text_print(e->out, "0");
  text_print(e->out, "); ");
  if (at && need_op(e, 0)->kind != OpSink) {
    emit_begin(e, need_op(e, 0), ptx_type_of("u64"));
    text_print(e->out, "s_");
    emit_end(e, need_op(e, 0), ptx_type_of("u64"));
  }
  text_print(e->out, " }");
}

// mbarrier.test_wait|try_wait.parity.b64 p, [addr], parity[, time]
static void emit_mbar_wait(Emitter *e) {
  const Instr *in = e->instr;
  PtxType pred = ptx_type_of("pred");
  only_parts(e, 2, in->nparts, "parity acquire relaxed cta cluster shared shared::cta b64");
  emit_begin(e, need_op(e, 0), pred);
  text_print(e->out, "cusim_mbar_try_wait(");
  barrier(e, 1);
  text_print(e->out, ", ");
  if (instr_has(in, "parity")) {
    value(e, 2, "s32");
  } else {
    text_print(e->out, "x_mbar_phase(");
    value(e, 2, "u64");
    text_print(e->out, ")");
  }
  text_print(e->out, ") != 0");
  emit_end(e, need_op(e, 0), pred);
}

const EmitRow emit_hopper_rows[] = {{"cp.async", emit_cp_async},
                                    {"cp.async.commit_group", emit_commit},
                                    {"cp.async.wait_group", emit_wait_group},
                                    {"cp.async.wait_all", emit_wait_all},
                                    {"cp.async.mbarrier", emit_cp_mbarrier},
                                    {"mbarrier.init", emit_mbar_init},
                                    {"mbarrier.inval", emit_mbar_inval},
                                    {"mbarrier.arrive", emit_mbar_arrive},
                                    {"mbarrier.test_wait", emit_mbar_wait},
                                    {"mbarrier.try_wait", emit_mbar_wait},
                                    {0}};
