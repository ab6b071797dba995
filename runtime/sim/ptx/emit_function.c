// emit_function.c: a function: its registers, variables and parameters, then its body.
#include "sim/ptx/ptx.h"

#include <string.h>

// ---- registers ----------------------------------------------------------------------------------

// A register is a C float if most of its uses are float; its bits are the same either way.
static void count_uses(PtxFunc *func, const Instr *instr, const Operand *op) {
  if (op->kind == OpReg) {
    PtxReg *reg = &func->regs[op->reg];
    for (int i = 1; i < instr->nparts; i++) {
      if (!strcmp(instr->part[i], "f32") && reg->type.bits == 32) reg->floats++;
      if (!strcmp(instr->part[i], "f64") && reg->type.bits == 64) reg->floats++;
      PtxType type = ptx_type_of(instr->part[i]);
      if (is_integer(type) && type.kind != KindBits && type.bits == reg->type.bits) reg->floats--;
    }
  }
  if (op->kind != OpAddress)
    for (int i = 0; i < op->nparts; i++) count_uses(func, instr, &op->parts[i]);
  else if (op->parts[0].kind == OpReg)
    func->regs[op->parts[0].reg].floats -= 4;
}

static void choose_kinds(PtxFunc *func) {
  for (int i = 0; i < func->nbody; i++)
    for (int k = 0; k < func->body[i].nops; k++)
      if (!instr_has(&func->body[i], "sync"))
        count_uses(func, &func->body[i], &func->body[i].op[k]);
  for (int i = 0; i < func->nregs; i++) {
    PtxReg *reg = &func->regs[i];
    bool wide = reg->type.bits == 32 || reg->type.bits == 64;
    reg->is_float = wide && reg->floats > 0 && reg->type.kind != KindPred;
  }
}

static void emit_registers(Emitter *e, const PtxFunc *func) {
  for (int i = 0; i < func->nregs; i++) {
    const PtxReg *reg = &func->regs[i];
    const char *type = reg->type.kind == KindPred ? "bool"
                       : reg->is_float            ? (reg->type.bits == 32 ? "float" : "double")
                                                  : emit_int_name(reg->type);
    text_print(e->out, " %s %s;", type, reg->c_name);
  }
}

static bool has_alloca(const PtxFunc *func) {
  for (int i = 0; i < func->nbody; i++)
    if (func->body[i].opcode && !strcmp(func->body[i].part[0], "alloca")) return true;
  return false;
}

static void emit_variables(Emitter *e, const PtxFunc *func) {
  for (int i = 0; i < func->nvars; i++) {
    const PtxVar *var = func->vars[i];
    if (i < func->nreturns + func->nparams) {
      if (!func->entry) text_print(e->out, " u8 *const %s = A[%d];", var->c_name, i);
      continue;
    }
    if (var->space == SpaceShared) continue;
    if (var->space != SpaceLocal && var->space != SpaceParam)
      ptx_fail(e->ptx, CUDA_ERROR_INVALID_PTX, var->line, "%s: no such variable in a function",
               var->name);
    size_t bytes = var->count * (size_t)(var->type.bits / 8) + !var->count;
    text_print(e->out, " alignas(%d) u8 %s[%zu];", var->align, var->c_name, bytes);
    if (e->traced && var->space == SpaceLocal)
      text_print(e->out, " x_local l%d_(%s, %zu);", i, var->c_name, bytes);
  }
  if (e->traced && has_alloca(func)) text_print(e->out, " x_local any_(0, 1ull << 62);");
}

static PtxType bits_of(PtxType type) {
  return ptx_type_of(emit_int_name(type));
}

static void take_params(Emitter *e, const PtxFunc *func) {
  for (int i = 0; i < func->nparams; i++) {
    const PtxVar *var = func->params[i];
    if (!var->in_reg) continue;
    Operand reg = {.kind = OpReg, .reg = var->reg};
    text_print(e->out, " ");
    emit_begin(e, &reg, bits_of(var->type));
    text_print(e->out, "x_ld<%s, Own>(%s)", emit_int_name(var->type), var->c_name);
    emit_end(e, &reg, bits_of(var->type));
  }
}

void emit_returns(Emitter *e) {
  for (int i = 0; i < e->func->nreturns; i++) {
    const PtxVar *var = e->func->returns[i];
    if (!var->in_reg) continue;
    Operand reg = {.kind = OpReg, .reg = var->reg};
    text_print(e->out, "x_st<Own>(%s, ", var->c_name);
    emit_value(e, &reg, bits_of(var->type));
    text_print(e->out, "); ");
  }
}

// A fault at a function's entry, where its variables are declared (a stack overflow), is at the
// line of its first instruction: everything up to there is one line of C.
static void emit_entry_line(Emitter *e, const PtxFunc *func) {
  for (int i = 0; i < func->nbody; i++)
    if (!func->body[i].label) {
      emit_line(e, &func->body[i]);
      return;
    }
}

// NOTE: several consecutive products of one kind are one meeting of the warp (emit_matrix.c).
void emit_function(Emitter *e, PtxFunc *func) {
  e->func = func;
  e->instr = NULL;
  e->file = -1;
  e->in_block = false;
  choose_kinds(func);
  text_print(e->out, "\n");
  emit_entry_line(e, func);
  if (func->entry)
    text_print(e->out, "static __attribute__((noinline, used)) void %s(u8 *PB) {", func->c_name);
  else
    text_print(e->out, "static void %s(u8 *const *A) { u8 *const PB = 0;", func->c_name);
  text_print(e->out, " u8 *const SB = cusim_self->smem - 1024; u32 CC; (void)SB; (void)PB;");
  emit_registers(e, func);
  emit_variables(e, func);
  take_params(e, func);
  pending_begin(e, func);
  for (int i = 0; i < func->nbody; i++) {
    const Instr *instr = &func->body[i];
    int run = 1;
    if (instr->label) {
      pending_label(e);
      if (!instr->ntargets && !instr->prototype) text_print(e->out, " %s:;", instr->label);
      if (e->counts) emit_counted(e, instr);
      continue;
    }
    emit_line(e, instr);
    if (e->counts) emit_counted(e, instr);
    if (e->pending || !emit_wide_run(e, instr, &run)) emit_instr(e, instr);
    for (int k = 1; e->counts && k < run; k++) emit_counted(e, &instr[k]);
    i += run - 1;
  }
  text_print(e->out, "\n");
  emit_returns(e);
  text_print(e->out, "}\n");
  if (e->out->failed) ptx_fail(e->ptx, CUDA_ERROR_OUT_OF_MEMORY, 0, "no memory for the C text");
}
