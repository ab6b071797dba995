// emit_control.c: branches, calls, ends; barriers and fences.
#include "sim/ptx/ptx.h"

#include <string.h>

static void emit_bra(Emitter *e) {
  only_parts(e, 1, e->instr->nparts, "uni");
  if (need_op(e, 0)->kind != OpLabel) emit_fail(e, "a label is awaited");
  text_print(e->out, "goto %s;", need_op(e, 0)->name);
}

static const Instr *label_named(Emitter *e, const Operand *op) {
  for (int i = 0; op->kind == OpLabel && i < e->func->nbody; i++)
    if (e->func->body[i].label && !strcmp(e->func->body[i].label, op->name))
      return &e->func->body[i];
  emit_fail(e, "a list of targets or a prototype is awaited");
}

static void emit_brx(Emitter *e) {
  const Instr *list = label_named(e, need_op(e, 1));
  text_print(e->out, "switch (");
  emit_value(e, need_op(e, 0), ptx_type_of("u32"));
  text_print(e->out, ") {");
  for (int i = 0; i < list->ntargets; i++)
    text_print(e->out, " case %d: goto %s;", i, list->targets[i]);
  text_print(e->out, " default: cusim_trap(); }");
}

// The parameter of the callee, if it is known: results first.
static const PtxVar *formal(Emitter *e, const Operand *callee, int at, int result, int i) {
  const PtxFunc *func = callee->kind == OpFunc ? module_func(e->module, callee->name) : NULL;
  if (!func && at < e->instr->nops) {
    const Instr *label = label_named(e, &e->instr->op[at]);
    func = label->prototype;
  }
  if (!func) return NULL;
  if (result) return i < func->nreturns ? func->returns[i] : NULL;
  return i < func->nparams ? func->params[i] : NULL;
}

// A register or a number as an argument or result: t<number>_ is its place, of this type.
static PtxType place_type(Emitter *e, const Operand *op, const PtxVar *formal) {
  if (op->kind != OpReg && op->kind != OpInt && op->kind != OpFloat && op->kind != OpDouble)
    emit_fail(e, "arguments are parameters, registers or numbers");
  PtxType type = formal                 ? formal->type
                 : op->kind == OpReg    ? e->func->regs[op->reg].type
                 : op->kind == OpDouble ? ptx_type_of("b64")
                                        : ptx_type_of("b32");
  if (type.bits < 8 || (formal && formal->count != 1)) emit_fail(e, "arguments are numbers");
  if (op->kind == OpFloat || op->kind == OpDouble) return type;
  return ptx_type_of(type.bits == 8    ? "u8"
                     : type.bits == 16 ? "u16"
                     : type.bits == 32 ? "u32"
                     : type.bits == 64 ? "u64"
                                       : "b128");
}

typedef struct Call {
  const Operand *lists[2]; // results, parameters; or null
  const Operand *callee;
  int prototype; // index of its operand
} Call;

static Call parts_of_call(Emitter *e) {
  const Instr *in = e->instr;
  int at = in->nops && in->op[0].kind == OpList && in->nops > 1 ? 1 : 0;
  Call call = {.callee = need_op(e, at), .prototype = at + 1};
  if (at) call.lists[0] = &in->op[0];
  if (at + 1 < in->nops && in->op[at + 1].kind == OpList) {
    call.lists[1] = &in->op[at + 1];
    call.prototype++;
  }
  return call;
}

static bool is_place(const Operand *op) {
  return op->kind == OpVar && op->var->space == SpaceParam;
}

// Declares places for arguments that are not variables, and copies inputs.
static void emit_places(Emitter *e, const Call *call) {
  for (int l = 0, n = 0; l < 2; l++)
    for (int i = 0; call->lists[l] && i < call->lists[l]->nparts; i++, n++) {
      const Operand *op = &call->lists[l]->parts[i];
      if (is_place(op)) continue;
      PtxType type = place_type(e, op, formal(e, call->callee, call->prototype, !l, i));
      text_print(e->out, "alignas(16) u8 t%d_[16]; ", n);
      if (l == 0) continue;
      text_print(e->out, "x_st<Own>(t%d_, (%s)(", n, type.name);
      emit_value(e, op, type);
      text_print(e->out, ")); ");
    }
}

static void emit_results(Emitter *e, const Call *call) {
  for (int i = 0; call->lists[0] && i < call->lists[0]->nparts; i++) {
    const Operand *op = &call->lists[0]->parts[i];
    if (is_place(op)) continue;
    PtxType type = place_type(e, op, formal(e, call->callee, call->prototype, true, i));
    text_print(e->out, " ");
    emit_begin(e, op, type);
    text_print(e->out, "x_ld<%s, Own>(t%d_)", type.name, i);
    emit_end(e, op, type);
  }
}

static void emit_arguments(Emitter *e, const Call *call) {
  text_print(e->out, "u8 *const A_[] = {");
  for (int l = 0, n = 0; l < 2; l++)
    for (int i = 0; call->lists[l] && i < call->lists[l]->nparts; i++, n++) {
      const Operand *op = &call->lists[l]->parts[i];
      if (is_place(op)) text_print(e->out, "%s, ", op->var->c_name);
      else text_print(e->out, "t%d_, ", n);
    }
  text_print(e->out, "0}; ");
}

// call[.uni] (results), function, (parameters)[, prototype]
static void emit_call(Emitter *e) {
  const Call call = parts_of_call(e);
  const Operand *callee = call.callee;
  text_print(e->out, "{ ");
  emit_places(e, &call);
  emit_arguments(e, &call);
  if (callee->kind == OpFunc) {
    const PtxFunc *func = module_func(e->module, callee->name);
    int given = (call.lists[0] ? call.lists[0]->nparts : 0) +
                (call.lists[1] ? call.lists[1]->nparts : 0);
    if (given != func->nreturns + func->nparams)
      emit_fail(e, "%s takes other arguments", callee->name);
    bool host = !strcmp(func->name, "vprintf") || !strcmp(func->name, "malloc") ||
                !strcmp(func->name, "free") || !strcmp(func->name, "__assertfail");
    if (!func->defined && !host) emit_fail(e, "%s is declared and not defined", callee->name);
    text_print(e->out, "%s(A_);", func->c_name);
  } else {
    text_print(e->out, "((void (*)(u8 *const *))");
    emit_value(e, callee, ptx_type_of("u64"));
    text_print(e->out, ")(A_);");
  }
  emit_results(e, &call);
  text_print(e->out, " }");
}

static void emit_ret(Emitter *e) {
  only_parts(e, 1, e->instr->nparts, "uni");
  emit_returns(e);
  text_print(e->out, "return;");
}

static void emit_exit(Emitter *e) {
  text_print(e->out, e->func->entry ? "return;" : "cusim_exit();");
}

static void emit_trap(Emitter *e) { // brkpt, too: NVIDIA's debugger is not there
  text_print(e->out, "cusim_trap();");
}

static void emit_nothing(Emitter *e) {
  text_print(e->out, ";");
}

// ---- barriers -----------------------------------------------------------------------------------

static void operand_or(Emitter *e, int index, const char *otherwise) {
  if (index < e->instr->nops)
    emit_value(e, need_op(e, index), ptx_type_of("s32"));
  else
    text_print(e->out, "%s", otherwise);
}

// A barrier's number is 0 to 15, its threads whole warps.
static void check_bar(const Emitter *e, int first) {
  for (int i = first; i < first + 2 && i < e->instr->nops; i++) {
    const Operand *op = &e->instr->op[i];
    if (op->kind == OpInt && (i == first ? op->bits > 15 : op->bits % 32 != 0))
      emit_fail(e, i == first ? "barriers are 0 to 15" : "threads are counted by whole warps");
  }
}

// bar.sync a[, b]; bar.arrive a, b; bar.red.popc.u32 d, a[, b], p; also barrier.cta.
static void emit_bar(Emitter *e) {
  const Instr *in = e->instr;
  only_parts(e, 1, in->nparts, "cta sync arrive red popc and or aligned pred u32");
  check_bar(e, instr_has(in, "red"));
  if (instr_has(in, "red")) {
    int last = in->nops - 1;
    PtxType type = instr_has(in, "popc") ? ptx_type_of("u32") : ptx_type_of("pred");
    if (in->nops < 3) emit_fail(e, "operands are missing");
    emit_begin(e, need_op(e, 0), type);
    text_print(e->out, "x_bar_red_%s(",
               instr_has(in, "popc")  ? "popc"
               : instr_has(in, "and") ? "and"
                                      : "or");
    operand_or(e, 1, "0");
    text_print(e->out, ", ");
    if (in->nops > 3) operand_or(e, 2, "0");
    else text_print(e->out, "0");
    text_print(e->out, ", ");
    emit_value(e, need_op(e, last), ptx_type_of("pred"));
    text_print(e->out, ")");
    emit_end(e, need_op(e, 0), type);
    return;
  }
  bool arrive = instr_has(in, "arrive");
  if (!arrive && !instr_has(in, "sync")) emit_fail(e, "sync, arrive or red?");
  text_print(e->out, arrive ? "cusim_barrier_arrive(" : "cusim_barrier_named(");
  emit_value(e, need_op(e, 0), ptx_type_of("s32"));
  text_print(e->out, ", ");
  operand_or(e, 1, "0");
  text_print(e->out, arrive ? ");" : ", %d);", in->line);
}

static void emit_bar_warp(Emitter *e) {
  only_parts(e, 1, e->instr->nparts, "warp sync");
  text_print(e->out, "cusim_meet(");
  emit_value(e, need_op(e, 0), ptx_type_of("u32"));
  text_print(e->out, ", 0, 0);");
}

static void emit_fence(Emitter *e) {
  only_parts(e, 1, e->instr->nparts,
             "cta gl sys cluster gpu sc acq_rel acquire release mbarrier_init proxy alias async "
             "async::generic tensormap::generic async.global async.shared::cta global shared::cta "
             "shared::cluster async::global async::shared::cta sync_restrict::shared::cta "
             "sync_restrict::shared::cluster");
  text_print(e->out, "__atomic_thread_fence(__ATOMIC_SEQ_CST);");
}

static void emit_nanosleep(Emitter *e) {
  text_print(e->out, "cusim_yield();");
}

static void emit_multimem(Emitter *e) {
  emit_fail(e, "multicast objects are memory of several GPUs, and not modelled");
}

static void emit_texture(Emitter *e) {
  emit_fail(e, "textures and surfaces are not modelled");
}

const EmitRow emit_control_rows[] = {{"tex", emit_texture},
                                     {"tld4", emit_texture},
                                     {"txq", emit_texture},
                                     {"suld", emit_texture},
                                     {"sust", emit_texture},
                                     {"sured", emit_texture},
                                     {"suq", emit_texture},
                                     {"istypep", emit_texture},
                                     {"multimem", emit_multimem},
                                     {"bra", emit_bra},
                                     {"brx.idx", emit_brx},
                                     {"call", emit_call},
                                     {"ret", emit_ret},
                                     {"exit", emit_exit},
                                     {"trap", emit_trap},
                                     {"brkpt", emit_trap},
                                     {"pmevent", emit_nothing},
                                     {"bar", emit_bar},
                                     {"barrier", emit_bar},
                                     {"bar.warp", emit_bar_warp},
                                     {"membar", emit_fence},
                                     {"fence", emit_fence},
                                     {"nanosleep", emit_nanosleep},
                                     {0}};
