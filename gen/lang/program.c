// program.c: traces the `ref` of an op once (ref.lua) into a short program.
#include "lang.h"

#include <lauxlib.h>

#include <string.h>

static const char *const names[CodeCount] = {
    [CodeConst] = "const", [CodeAdd] = "add",   [CodeSub] = "sub",    [CodeMul] = "mul",
    [CodeDiv] = "div",     [CodePow] = "pow",   [CodeNeg] = "neg",    [CodeCopy] = "copy",
    [CodeExp] = "exp",     [CodeLog] = "log",   [CodeSqrt] = "sqrt",  [CodeSin] = "sin",
    [CodeCos] = "cos",     [CodeTanh] = "tanh", [CodeErf] = "erf",    [CodeFloor] = "floor",
    [CodeErfc] = "erfc",   [CodeLog1p] = "log1p", [CodeExpm1] = "expm1",
    [CodeAtan] = "atan",   [CodeAtan2] = "atan2", [CodeMod] = "mod",
    [CodeAbs] = "abs",     [CodeMax] = "max",   [CodeMin] = "min",    [CodeLt] = "lt",
    [CodeLe] = "le",       [CodeEq] = "eq",     [CodeWhere] = "where"};

const char *program_code(Code code) {
  return names[code];
}

int program_inputs(Code code) {
  switch (code) {
  case CodeConst:
    return 0;
  case CodeWhere:
    return 3;
  case CodeAdd:
  case CodeSub:
  case CodeMul:
  case CodeDiv:
  case CodePow:
  case CodeAtan2:
  case CodeMod:
  case CodeMax:
  case CodeMin:
  case CodeLt:
  case CodeLe:
  case CodeEq:
    return 2;
  default:
    return 1;
  }
}

static Code find_code(const char *name) {
  for (int i = 0; i < CodeCount; i++)
    if (!strcmp(names[i], name)) return (Code)i;
  die("ref.lua has no code %s", name);
}

static void read_step(lua_State *lua, Step *step) { // from the table on top
  lua_geti(lua, -1, 1);
  step->code = find_code(lua_tostring(lua, -1));
  lua_pop(lua, 1);
  lua_geti(lua, -1, 2);
  step->value = lua_tonumber(lua, -1);
  lua_pop(lua, 1);
  for (int j = 0; j < 3; j++) {
    lua_geti(lua, -1, 2 + j);
    step->in[j] = (int)lua_tointeger(lua, -1);
    lua_pop(lua, 1);
  }
}

// Traces a row's function of `nin` values; false if it cannot be traced.
static bool trace(Compiler *c, const Op *op, int ref, int nin, Program *p) {
  lua_State *lua = c->lua;
  lua_getglobal(lua, "trace");
  lua_rawgeti(lua, LUA_REGISTRYINDEX, ref);
  p->nin = nin;
  lua_pushinteger(lua, p->nin);
  if (front_call(lua, 2, 1)) die("%s: %s", op->name, lua_tostring(lua, -1));
  bool ok = lua_istable(lua, -1) && lua_rawlen(lua, -1) <= kMostCodes;
  p->nsteps = ok ? (int)lua_rawlen(lua, -1) : 0;
  for (int i = 0; i < p->nsteps; i++) {
    lua_geti(lua, -1, i + 1);
    read_step(lua, &p->steps[i]);
    lua_pop(lua, 1);
  }
  lua_pop(lua, 1);
  return ok;
}

static bool trace_reduction(Compiler *c, const Op *op, Traced *t) {
  const Monoid *m = op->acc;
  bool ok = true;
  int nin = op->cuda ? 2 : m->count + 2; // a combination of two values; or with the position
  for (int i = 0; i < m->count; i++) ok = trace(c, op, m->part[i].ref, nin, &t->step[i]) && ok;
  t->result = (Program){0};
  if (op->ref_result != LUA_NOREF) ok = trace(c, op, op->ref_result, m->count, &t->result) && ok;
  return ok;
}

const Traced *program_of(Compiler *c, const Op *op) {
  for (int i = 0; i < c->nprograms; i++)
    if (c->programs[i]->op == op) return c->programs[i];
  c->programs = arena_grow(c->arena, c->programs, c->nprograms, sizeof *c->programs);
  Traced *t = c->programs[c->nprograms++] = arena_alloc(c->arena, sizeof *t);
  t->op = op;
  t->ok = op->cls == OpReduce || op->cls == OpScan
              ? trace_reduction(c, op, t)
              : trace(c, op, op->ref, op->cls == OpMap ? op->nin : 2, &t->program);
  return t;
}
