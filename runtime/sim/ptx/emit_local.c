// emit_local.c: bytes of .local memory that a thread of a kernel needs: its own variables, and
// those of its deepest chain of calls. A recursive function counts once: its depth is unknown.
#include "sim/ptx/ptx.h"

enum { kDeepest = 4096 }; // calls in each other

static size_t function_bytes(PtxModule *m, PtxFunc *func, int depth);

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

static size_t named_bytes(PtxModule *m, const char *name, int depth) {
  PtxFunc *func = module_func(m, name);
  return func ? function_bytes(m, func, depth) : 0;
}

// A function is called where it is named, or through a table of pointers to it.
static size_t operand_bytes(PtxModule *m, const Operand *op, int depth) {
  size_t most = 0;
  if (op->kind == OpFunc) most = named_bytes(m, op->name, depth);
  for (int i = 0; op->kind == OpVar && op->var->pointers && i < op->var->ninit; i++)
    if (op->var->init[i].symbol)
      most = larger(most, named_bytes(m, op->var->init[i].symbol, depth));
  for (int i = 0; i < op->nparts; i++) most = larger(most, operand_bytes(m, &op->parts[i], depth));
  return most;
}

static size_t own_bytes(const PtxFunc *func) {
  size_t bytes = 0;
  for (int i = 0; i < func->nvars; i++) {
    const PtxVar *var = func->vars[i];
    size_t align = (size_t)var->align;
    if (var->space != SpaceLocal) continue;
    bytes = (bytes + align - 1) / align * align + var->count * (size_t)(var->type.bits / 8);
  }
  return bytes;
}

static size_t function_bytes(PtxModule *m, PtxFunc *func, int depth) {
  if (func->local_state == LocalKnown) return func->local;
  if (func->local_state == LocalAsked || depth == kDeepest) return 0;
  func->local_state = LocalAsked;
  size_t most = 0;
  for (int i = 0; i < func->nbody; i++)
    for (int k = 0; k < func->body[i].nops; k++)
      most = larger(most, operand_bytes(m, &func->body[i].op[k], depth + 1));
  func->local_state = LocalKnown;
  return func->local = own_bytes(func) + most;
}

size_t emit_local_bytes(PtxModule *module, PtxFunc *func) {
  return function_bytes(module, func, 0);
}
