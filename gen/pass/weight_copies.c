// weight_copies.c: copies of trained parameters, in 16 bits or rounded to TF32, that persist across
// runs like the parameters: `init` makes them, and the kernel that updates a parameter writes its
// copy, too, so that no step begins with casts.
#include "pass.h"

// Is n an output or a new value of a state? Then its entry computes it.
static bool leaves(const Graph *g, const Node *n) {
  for (int i = 0; i < g->noutputs; i++)
    if (g->outputs[i].node == n) return true;
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].value == n) return true;
  return false;
}

// The parameter that n casts or copies in its memory order, perhaps permuted, or NULL.
static Node *cast_of(const Node *n) {
  Node *of = n->op->cls == OpMap && n->op->flags & FlagCopy ? n->in[0] : NULL;
  if (of && node_is_move(of, MovePermute)) of = of->in[0];
  bool param = of && of->updated && of->op->cls == OpSource && of->op->form == SourceParam;
  if (!param) return NULL;
  const Node *from = n->in[0]; // a copy in the same order is there to be rounded: layout.c
  bool lies = type_same_order(&from->type, &n->type) && (from == of || view_same_memory(from));
  return lies || of->type.dtype != n->type.dtype ? of : NULL;
}

// A node like n, with input `in`, in the same memory order.
static Node *again(Graph *to, Node *n, Node *in) {
  Node *same = graph_add(to, n->op, 1, &in, &n->attr, n);
  same->type = n->type;
  same->type.dtype = in->type.dtype;
  return same;
}

// All entries read one copy (Node.subst of the parameter), in the parameter's memory order; it is
// read in place or copied to another order.
static Node *rewrite(Graph *to, Node *node, Node **in) {
  Node *n = graph_add(to, node->op, node->nin, in, &node->attr, node);
  n->type = node->type;
  Node *param = cast_of(n);
  if (!param || leaves(to->scratch, node)) return n;
  Node *copy = param->subst;
  if (!copy) {
    copy = param->subst = again(to, n, param);
    copy->type = param->type;
    copy->type.dtype = n->type.dtype;
    copy->follows = copy->fixed = true;
  }
  if (copy->type.dtype != n->type.dtype) return n;
  Node *moved = node_is_move(n->in[0], MovePermute) ? again(to, n->in[0], copy) : copy;
  return type_same_order(&moved->type, &n->type) ? moved : again(to, n, moved);
}

static void update_with(Graph *g, Node *copy) {
  for (int i = 0, before = g->nupdates; i < before; i++) {
    Update u = g->updates[i];
    if (u.state != copy->in[0]) continue;
    Node *value = again(g, copy, u.value);
    value->type.dtype = copy->type.dtype;
    value->entry = u.entry;
    value->follows = value->fixed = false;
    value->updated = true;
    graph_update(g, copy, value, u.loc, u.entry);
  }
}

// Needs: memory orders; entries that share only sources and fixed values.
Graph *weight_copies_follow(Graph *g) {
  g = graph_rebuild(g, rewrite, g);
  for (int i = 0, count = g->nnodes; i < count; i++)
    if (g->nodes[i]->follows && g->nodes[i]->uses) update_with(g, g->nodes[i]);
  g->scratch = NULL;
  return g;
}
