// empty.c: values without elements. They are never computed, and no pass handles them: a node that
// is empty, or reads an empty value, is replaced by a constant when it is created. Only sources,
// constants, and outputs and updates of an entry can be empty afterwards. CLASS
#include "lang.h"

#include <lauxlib.h>
#include <math.h>
#include <string.h>

static bool is_empty(const Node *n) {
  return type_count(&n->type) == 0;
}

static Node *constant(Compiler *c, const Node *n, double value) {
  Attr attr = {.value = value};
  Node *made = graph_add(c->graph, op_need(c, "const"), 0, NULL, &attr, (Node *)n);
  made->type = n->type;
  return made;
}

// The result of reducing no elements: the accumulators' initial values. An error for an
// extreme or its position.
static double reduced(Compiler *c, const Node *n) {
  const Op *op = n->op;
  const Monoid *m = op->acc;
  if (isinf(m->part[0].ref_init) && !(op->flags & FlagOnline))
    err_at(c, n->loc, "%s: %s has no elements to choose from",
           op->name + (strncmp(op->name, "reduce_", 7) ? 0 : 7), type_shape(&n->in[0]->type).s);
  if (op->ref_result == LUA_NOREF) return m->part[0].ref_init;
  lua_rawgeti(c->lua, LUA_REGISTRYINDEX, op->ref_result);
  for (int i = 0; i < m->count; i++) lua_pushnumber(c->lua, m->part[i].ref_init);
  lua_call(c->lua, m->count, 1);
  double value = luaL_checknumber(c->lua, -1);
  lua_pop(c->lua, 1);
  return value;
}

static Node *joined(Node *n) { // a concat of the non-empty ones
  int count = 0;
  for (int i = 0; i < n->nin; i++)
    if (!is_empty(n->in[i])) n->in[count++] = n->in[i];
  n->nin = count;
  return count == 1 ? n->in[0] : n;
}

Node *empty_replaced(Compiler *c, Node *n) {
  bool reads = false;
  for (int i = 0; i < n->nin; i++) reads = reads || is_empty(n->in[i]);
  if (is_empty(n)) return constant(c, n, 0);
  if (!reads) return n;
  if (n->op->cls == OpReduce) return constant(c, n, reduced(c, n));
  if (n->op->cls == OpContract || n->op->cls == OpScatter) return constant(c, n, 0);
  if (node_is_move(n, MoveConcat)) return joined(n);
  if (node_is_move(n, MovePad)) return constant(c, n, 0);
  err_at(c, n->loc, "%s: %s has no elements to take", n->op->name, type_shape(&n->in[0]->type).s);
}
