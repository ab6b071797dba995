// test_ops.c: every row of ops.lua, found by walking the table, so that a new row is tested without
// a test being written: `ref` against its traced program, `grad` against central differences.
#include "support.h"

#include <lauxlib.h>
#include <math.h>

static Compiler c;
static Error err;

static double call(const Op *op, const double *x) {
  lua_rawgeti(c.lua, LUA_REGISTRYINDEX, op->ref);
  for (int i = 0; i < op->nin; i++) lua_pushnumber(c.lua, x[i]);
  assert_int_equal(lua_pcall(c.lua, op->nin, 1, 0), LUA_OK);
  double y = lua_tonumber(c.lua, -1);
  lua_pop(c.lua, 1);
  return y;
}

// Positive, away from kinks and ties, different for each input.
static const double points[][3] = {{0.7, 1.3, 0.4}, {1.9, 0.6, 2.2}, {0.31, 2.7, 1.1}};

static void maps_trace(void **state) {
  (void)state;
  int traced = 0;
  for (int i = 0; i < c.nops; i++) {
    const Op *op = c.ops[i];
    if (op->ref == LUA_NOREF || op->typing == TypeDraw || op->typing == TypeWhole)
      continue; // draws are integer arithmetic
    lua_getglobal(c.lua, "trace");
    lua_rawgeti(c.lua, LUA_REGISTRYINDEX, op->ref);
    lua_pushinteger(c.lua, op->cls == OpMap ? op->nin : 2);
    assert_int_equal(lua_pcall(c.lua, 2, 1, 0), LUA_OK);
    if (!lua_istable(c.lua, -1)) fail_msg("op %s: ref cannot be traced", op->name);
    lua_pop(c.lua, 1);
    traced++;
  }
  assert_true(traced > 25);
}

static void check_grad(const Op *op, const double *x) {
  double y = call(op, x);
  int top = lua_gettop(c.lua);
  lua_rawgeti(c.lua, LUA_REGISTRYINDEX, op->grad);
  lua_pushnumber(c.lua, 1);
  lua_pushnumber(c.lua, y);
  for (int i = 0; i < op->nin; i++) lua_pushnumber(c.lua, x[i]);
  if (lua_pcall(c.lua, op->nin + 2, LUA_MULTRET, 0))
    fail_msg("%s: %s", op->name, lua_tostring(c.lua, -1));
  assert_int_equal(lua_gettop(c.lua) - top, op->nin);
  for (int i = 0; i < op->nin; i++) {
    if (lua_isnil(c.lua, top + 1 + i)) continue;
    double up[3] = {x[0], x[1], x[2]}, down[3] = {x[0], x[1], x[2]};
    up[i] += 1e-6, down[i] -= 1e-6;
    double want = (call(op, up) - call(op, down)) / 2e-6, got = lua_tonumber(c.lua, top + 1 + i);
    if (!(fabs(want - got) <= 1e-5 + 1e-3 * fabs(want)))
      fail_msg("op %s, input %d: gradient %g, differences give %g", op->name, i + 1, got, want);
  }
  lua_settop(c.lua, top);
}

static void gradients(void **state) {
  (void)state;
  int checked = 0;
  for (int i = 0; i < c.nops; i++)
    for (int p = 0; p < 3; p++)
      if (c.ops[i]->cls == OpMap && c.ops[i]->grad != LUA_NOREF)
        check_grad(c.ops[i], points[p]), checked++;
  assert_true(checked >= 60);
}

// The series of ref.lua against libm.
static void erf_and_tanh(void **state) {
  (void)state;
  for (double x = -6; x <= 6; x += 0.037) {
    double in[3] = {x};
    assert_true(fabs(call(op_need(&c, "erf"), in) - erf(x)) < 1e-14);
    assert_true(fabs(call(op_need(&c, "tanh"), in) - tanh(x)) < 1e-14);
  }
}

static void nan_propagates(void **state) {
  (void)state;
  static const char *const names[] = {"max", "min", "relu", "abs", "add", "reduce_max",
                                      "window_max"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const Op *op = op_need(&c, names[i]);
    for (int side = 0; side < (op->cls == OpMap ? op->nin : 2); side++) {
      lua_rawgeti(c.lua, LUA_REGISTRYINDEX, op->ref);
      int n = op->cls == OpMap ? op->nin : 2;
      for (int j = 0; j < n; j++) lua_pushnumber(c.lua, j == side ? NAN : 1);
      assert_int_equal(lua_pcall(c.lua, n, 1, 0), LUA_OK);
      if (!isnan(lua_tonumber(c.lua, -1)))
        fail_msg("%s drops a NaN in input %d", names[i], side + 1);
      lua_pop(c.lua, 1);
    }
  }
}

int main(void) {
  open_compiler(&c, &err, "fused", "fp32");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(maps_trace),
      cmocka_unit_test(gradients),
      cmocka_unit_test(erf_and_tanh),
      cmocka_unit_test(nan_propagates),
  };
  int failed = cmocka_run_group_tests_name("ops", tests, NULL, NULL);
  compile_close(&c);
  return failed;
}
