// chain.c: cheap maps before a reduction that cannot keep its row in registers are computed by it
// alone: it reads the row again in any case, and what it reduces need not be in memory for it.
#include "pass.h"

// Is n as cheap to compute again as to read: few operations on one value of its size?
static bool is_cheap(const Graph *g, const Node *n) {
  int large = 0;
  for (int i = 0; i < n->nin; i++) {
    bool again = false;
    for (int j = 0; j < i; j++) again = again || n->in[j] == n->in[i];
    large += !again && type_count(&n->in[i]->type) * 2 > type_count(&n->type);
  }
  return n->op->cls == OpMap && gain_again(g->c->options.arch, n) && large == 1 && !n->fixed &&
         n->op->typing != TypeDraw;
}

// n, or a copy of it that nobody else reads, if it is cheap.
static Node *own_chain(Graph *to, Node *n) {
  if (!is_cheap(to, n)) return n;
  Node *in[MaxInputs];
  for (int i = 0; i < n->nin; i++) {
    in[i] = own_chain(to, n->in[i]);
    for (int j = 0; j < i; j++)
      if (n->in[j] == n->in[i]) in[i] = in[j];
  }
  bool same = n->uses <= 1;
  for (int i = 0; i < n->nin; i++) same = same && in[i] == n->in[i];
  if (same) return n;
  Node *copy = graph_add(to, n->op, n->nin, in, &n->attr, n);
  copy->type = n->type;
  copy->uses = 1;
  return copy;
}

// A reduction that cannot keep its row in registers reads it again: what it reduces need not be in
// memory for it.
Node *chain_own(Graph *to, Node *node, Node **in) {
  bool reads = node->op->cls == OpReduce && !fuse_fits_row(node);
  Node *own = reads ? own_chain(to, in[0]) : NULL;
  Node *n = graph_add(to, node->op, node->nin, reads ? &own : in, &node->attr, node);
  n->type = node->type;
  n->uses = node->uses;
  return n;
}
