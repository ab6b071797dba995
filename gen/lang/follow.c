// follow.c: maps a part of an operand's dimension to the result of a contraction, by the index maps
// of its row (gen/ir/maps.c).
// A part is a digit of a coordinate: c / each % count, along one dimension. If a dimension runs
// over several nested axes, each axis is a digit of it, too.
#include "lang.h"

#include <lauxlib.h>

// Is this dimension a list of nested axes that covers all its positions?
static bool is_digits(const Maps *m, int tensor, int d) {
  const IndexMap *map = &m->dim[tensor][d];
  int64_t run = 1;
  for (int i = 0; i < m->naxes && !map->begin; i++)
    if (map->by[i] == run && m->axis[i].size > 1) run *= m->axis[i].size, i = -1;
  return run == m->type[tensor]->dim[d];
}

// The axis of dimension d that contains the digit, or -1 if there is none.
static int axis_of(const Maps *m, int tensor, int d, int64_t each, int64_t count) {
  const IndexMap *map = &m->dim[tensor][d];
  for (int i = 0; i < m->naxes && is_digits(m, tensor, d); i++) {
    int64_t by = map->by[i], size = m->axis[i].size;
    if (by > 0 && each % by == 0 && by * size % (each * count) == 0) return i;
  }
  return -1;
}

// follow(result, input, dimension, each, count) -> dimension, each of the result; nil if its
// elements combine several parts. Inputs count from 1, dimensions from 0.
int front_follow(lua_State *lua) {
  Node *n = *(Node **)luaL_checkudata(lua, 1, kTensorType);
  int input = (int)luaL_checkinteger(lua, 2) - 1, d = (int)luaL_checkinteger(lua, 3);
  int64_t each = luaL_checkinteger(lua, 4), count = luaL_checkinteger(lua, 5);
  Maps m = maps_of(n, 0);
  int axis = axis_of(&m, input, d, each, count);
  for (int r = 0; axis >= 0 && r < m.rank[MapOut]; r++) {
    if (!m.dim[MapOut][r].by[axis] || !is_digits(&m, MapOut, r)) continue;
    lua_pushinteger(lua, r);
    lua_pushinteger(lua, each / m.dim[input][d].by[axis] * m.dim[MapOut][r].by[axis]);
    return 2;
  }
  return 0;
}
