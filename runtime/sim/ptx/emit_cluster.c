// emit_cluster.c: clusters, setmaxnreg, programmatic dependent launch.
#include "sim/ptx/ptx.h"

#include <string.h>

static void value(Emitter *e, int index, const char *type) {
  emit_value(e, need_op(e, index), ptx_type_of(type));
}

// mapa[.shared::cluster].type d, a, rank; getctarank[.shared::cluster].type d, a: without the space
// of generic addresses.
static void emit_of_rank(Emitter *e, const char *name, PtxType result) {
  PtxType type = instr_type(e, 0);
  emit_begin(e, need_op(e, 0), result);
  text_print(e->out, instr_has(e->instr, "shared::cluster") ? "x_%s(" : "x_%s_generic(", name);
  value(e, 1, type.name);
  if (e->instr->nops > 2) {
    text_print(e->out, ", ");
    value(e, 2, "u32");
  }
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), result);
}

static void emit_mapa(Emitter *e) {
  emit_of_rank(e, "mapa", instr_type(e, 0));
}

static void emit_getctarank(Emitter *e) {
  emit_of_rank(e, "getctarank", ptx_type_of("u32"));
}

static void emit_cluster_barrier(Emitter *e) {
  only_parts(e, 2, e->instr->nparts, "arrive wait release acquire relaxed aligned");
  text_print(e->out,
             instr_has(e->instr, "wait") ? "cusim_cluster_wait();" : "cusim_cluster_arrive();");
}

static void emit_nothing(Emitter *e) {
  text_print(e->out, ";");
}

// setmaxnreg.inc|dec.sync.aligned.u32 n
static void emit_setmaxnreg(Emitter *e) {
  const Operand *n = need_op(e, 0);
  only_parts(e, 1, e->instr->nparts, "inc dec sync aligned u32");
  if (n->kind != OpInt || n->bits < 24 || n->bits > 256 || n->bits % 8)
    emit_fail(e, "24 to 256 registers are awaited, a multiple of 8");
  text_print(e->out, "cusim_set_registers(%d);", (int)n->bits);
}

static void emit_grid_wait(Emitter *e) {
  text_print(e->out, "cusim_grid_wait();");
}

const EmitRow emit_cluster_rows[] = {{"mapa", emit_mapa},
                                     {"getctarank", emit_getctarank},
                                     {"barrier.cluster", emit_cluster_barrier},
                                     {"setmaxnreg", emit_setmaxnreg},
                                     {"griddepcontrol.wait", emit_grid_wait},
                                     {"griddepcontrol.launch_dependents", emit_nothing},
                                     {0}};
