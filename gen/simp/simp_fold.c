// simp_fold.c: the rule that folds constants.
#include "simp.h"

#include <lauxlib.h>
#include <math.h>

// Is v in the range of the dtype? Integers beyond it wrap when they are computed.
static bool holds(Dtype dtype, double v) {
  if (dtype == DtU8) return v >= 0 && v <= UINT8_MAX;
  return dtype_is_float(dtype) || dtype == DtBool || (v >= INT32_MIN && v <= INT32_MAX);
}

// v converted to the dtype as kernels convert: floats truncate toward zero, u8 is modulo 256.
static double converted(Dtype dtype, double v) {
  if (dtype == DtF16) return half_to_float(half_from_float((float)v));
  if (dtype == DtBf16) return bf16_to_float(bf16_from_float((float)v));
  if (dtype == DtBool) return v != 0;
  if (dtype_is_float(dtype)) return (float)v;
  double whole = isnan(v) ? 0 : fmin(fmax(trunc(v), INT32_MIN), INT32_MAX);
  return dtype == DtU8 ? whole - 256 * floor(whole / 256) : whole;
}

bool fold_map(Compiler *c, const Node *n, const double *in, double *v) {
  lua_State *lua = c->lua;
  if (n->op->ref == LUA_NOREF) return false;
  lua_rawgeti(lua, LUA_REGISTRYINDEX, n->op->ref);
  for (int i = 0; i < n->nin; i++) lua_pushnumber(lua, in[i]);
  bool done = !front_call(lua, n->nin, 1) && lua_isnumber(lua, -1);
  *v = done ? lua_tonumber(lua, -1) : 0;
  lua_pop(lua, 1);
  return done;
}

bool fold_exact(Compiler *c, const Node *n, const double *in, double *v) {
  Dtype dtype = n->type.dtype;
  bool rounds = n->op->typing == TypeConvert && dtype != DtF16 && dtype != DtBf16;
  if (!fold_map(c, n, in, v)) return false;
  if (rounds || dtype == DtBool) *v = converted(dtype, *v);
  return holds(dtype, *v) && *v == (dtype_is_float(dtype) ? converted(dtype, *v) : floor(*v));
}

// A constant in the place of n: a literal if all inputs of n are literals, else a tensor, which
// promotes as one (type.c).
static Node *constant(Graph *to, double value, const Node *n) {
  bool number = n->op->cls == OpMap && n->op->typing != TypeConvert;
  for (int i = 0; i < n->nin; i++) number = number && node_is_number(n->in[i]);
  Attr attr = {.value = value, .tensor = !n->type.rank && !number};
  Node *made = graph_add(to, op_need(to->c, "const"), 0, NULL, &attr, (Node *)n);
  made->type = type_make(n->type.dtype, n->type.rank, n->type.dim);
  return simp_intern(to, made);
}

// Is n computed from positions and literals, like indices that a model computes? Indices in memory
// are range-checked where they are read.
static bool is_of_positions(const Node *n, int *left) {
  bool made = --*left >= 0 && (node_is_computed(n) || n->op->cls == OpMap);
  for (int i = 0; i < n->nin && made; i++) made = is_of_positions(n->in[i], left);
  return made;
}

// A map of constants is a constant, and so is a move of one.
Node *fold_constants(Graph *to, Node *n) {
  enum { kMostAsked = 16 };
  int left = kMostAsked;
  bool moves = op_scatters(n->op);
  if (node_is_move(n, MoveGather))
    moves = simp_is_const(n->in[0]) && is_of_positions(n->in[1], &left);
  if (moves && simp_is_const(n->in[0])) return constant(to, n->in[0]->attr.value, n);
  if (n->op->cls != OpMap) return NULL;
  double in[MaxInputs], v;
  for (int i = 0; i < n->nin; i++) {
    if (!simp_is_const(n->in[i])) return NULL;
    in[i] = n->in[i]->attr.value;
  }
  if (!fold_map(to->c, n, in, &v)) return NULL;
  Dtype dtype = n->type.dtype;
  if (n->op->typing == TypeConvert || dtype == DtBool) v = converted(dtype, v);
  return holds(dtype, v) ? constant(to, v, n) : NULL;
}
