// eval_program.c: evaluates one op on rows of doubles by its `ref`: as a traced program
// (lang/program.c), or by calling the Lua function for each element.
#include "oracle.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

// Remainder with the sign of b, exact.
static double python_mod(double a, double b) {
  double rest = fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

#define CODE(name, e)                                                                              \
  static void name(double *y, const double *a, const double *b, const double *c, int n) {          \
    (void)b, (void)c;                                                                              \
    for (int i = 0; i < n; i++) y[i] = e;                                                          \
  }
CODE(do_add, a[i] + b[i])
CODE(do_sub, a[i] - b[i])
CODE(do_mul, a[i] * b[i])
CODE(do_div, a[i] / b[i])
CODE(do_pow, pow(a[i], b[i]))
CODE(do_neg, -a[i])
CODE(do_copy, a[i])
CODE(do_exp, exp(a[i]))
CODE(do_log, log(a[i]))
CODE(do_sqrt, sqrt(a[i]))
CODE(do_sin, sin(a[i]))
CODE(do_cos, cos(a[i]))
CODE(do_tanh, tanh(a[i]))
CODE(do_erf, erf(a[i]))
CODE(do_erfc, erfc(a[i]))
CODE(do_log1p, log1p(a[i]))
CODE(do_expm1, expm1(a[i]))
CODE(do_atan, atan(a[i]))
CODE(do_atan2, atan2(a[i], b[i]))
CODE(do_mod, python_mod(a[i], b[i]))
CODE(do_floor, floor(a[i]))
CODE(do_abs, fabs(a[i]))
CODE(do_max, isnan(a[i]) || a[i] > b[i] ? a[i] : b[i])
CODE(do_min, isnan(a[i]) || a[i] < b[i] ? a[i] : b[i])
CODE(do_lt, a[i] < b[i])
CODE(do_le, a[i] <= b[i])
CODE(do_eq, a[i] == b[i])
CODE(do_where, a[i] != 0 ? b[i] : c[i])

// Product of integers modulo 2^32; it may exceed what a double represents exactly.
static double whole_product(double a, double b) {
  double product = a * b;
  if (fabs(product) < 0x1p53 || !(fabs(a) < 0x1p63 && fabs(b) < 0x1p63)) return product;
  return (int32_t)(uint32_t)((uint64_t)(int64_t)a * (uint64_t)(int64_t)b);
}
CODE(do_whole_mul, whole_product(a[i], b[i]))

typedef void (*Compute)(double *, const double *, const double *, const double *, int);

static const Compute codes[CodeCount] = {
    [CodeAdd] = do_add,   [CodeSub] = do_sub,    [CodeMul] = do_mul,     [CodeDiv] = do_div,
    [CodePow] = do_pow,   [CodeNeg] = do_neg,    [CodeCopy] = do_copy,   [CodeExp] = do_exp,
    [CodeLog] = do_log,   [CodeSqrt] = do_sqrt,  [CodeSin] = do_sin,     [CodeCos] = do_cos,
    [CodeTanh] = do_tanh, [CodeErf] = do_erf,    [CodeFloor] = do_floor, [CodeAbs] = do_abs,
    [CodeMax] = do_max,   [CodeMin] = do_min,    [CodeLt] = do_lt,       [CodeLe] = do_le,
    [CodeEq] = do_eq,     [CodeWhere] = do_where,  [CodeErfc] = do_erfc,   [CodeLog1p] = do_log1p,
    [CodeExpm1] = do_expm1, [CodeAtan] = do_atan, [CodeAtan2] = do_atan2, [CodeMod] = do_mod};

void eval_program(const Program *p, bool whole, const double *const *in, double *out, int n) {
  double values[kMostCodes][kChunk];
  const double *slot[kMostCodes + kMostOperands];
  for (int i = 0; i < p->nin; i++) slot[i] = in[i];
  for (int i = 0; i < p->nsteps; i++) {
    const Step *s = &p->steps[i];
    slot[p->nin + i] = values[i];
    Compute compute = whole && s->code == CodeMul ? do_whole_mul : codes[s->code];
    if (s->code == CodeConst)
      for (int k = 0; k < n; k++) values[i][k] = s->value;
    else
      compute(values[i], slot[s->in[0]], slot[s->in[1]], slot[s->in[2]], n);
  }
  memcpy(out, values[p->nsteps - 1], sizeof *out * (size_t)n);
}

double eval_held(Dtype dtype, double x) {
  if (!isfinite(x)) return x;
  if (dtype == DtU8) return x - 256 * floor(x / 256);
  if (dtype != DtI32 && dtype != DtI64) return x;
  return x - 0x1p32 * floor((x + 0x1p31) / 0x1p32);
}

void eval_lua(Compiler *c, const Op *op, const double *const *in, double *out, int n) {
  lua_State *lua = c->lua;
  for (int k = 0; k < n; k++) {
    lua_rawgeti(lua, LUA_REGISTRYINDEX, op->ref);
    for (int i = 0; i < op->nin; i++) lua_pushnumber(lua, in[i][k]);
    if (front_call(lua, op->nin, 1))
      err_code(c, ExitUsage, "op '%s': its ref failed: %s", op->name, lua_tostring(lua, -1));
    if (!lua_isnumber(lua, -1))
      err_code(c, ExitUsage, "op '%s': its ref returned a %s, expected a number", op->name,
               luaL_typename(lua, -1));
    out[k] = lua_tonumber(lua, -1);
    lua_pop(lua, 1);
  }
}
