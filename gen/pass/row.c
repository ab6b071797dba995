// row.c: how often a kernel of rows goes over them. Each sweep accumulates the reductions that
// depend on those of the sweeps before it, and computes the maps between them.
#include "pass.h"

static bool is_full(const Group *g, const Node *n) {
  return type_same_shape(&n->type, &g->anchor->in[0]->type);
}

int row_sweeps(const Group *g) {
  int count = 0;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    n->sweep = 0;
    for (int j = 0; j < n->nin; j++) {
      if (n->in[j]->group != g) continue;
      int after = n->in[j]->sweep + (n->in[j]->op->cls == OpReduce);
      if (after > n->sweep) n->sweep = after;
    }
    if (n->sweep + 1 > count) count = n->sweep + 1;
  }
  return count;
}

bool row_needed_later(const Group *g, const Node *n, int sweep) {
  for (int i = 0; i < g->nnodes; i++) {
    const Node *user = g->nodes[i];
    for (int j = 0; j < user->nin; j++)
      if (user->in[j] == n && user->sweep > sweep &&
          (is_full(g, user) || user->op->cls == OpReduce))
        return true;
  }
  return false;
}

// Does a node of the sweep, or of one before it, read n?
static bool read_before(const Group *g, const Node *n, int sweep) {
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++)
      if (g->nodes[i]->in[j] == n && g->nodes[i]->sweep <= sweep) return true;
  return false;
}

static bool waits(const Group *g, const Node *n, int sweep) {
  bool at_hand = n->group == g ? n->sweep <= sweep : read_before(g, n, sweep);
  return at_hand && is_full(g, n) && n->op->cls != OpReduce && n->op->cls != OpMove &&
         row_needed_later(g, n, sweep);
}

int row_waiting(const Group *g, int sweeps) {
  int most = 0;
  for (int p = 0; p + 1 < sweeps; p++) {
    int count = 0;
    for (int i = 0; i < g->nnodes; i++) count += waits(g, g->nodes[i], p);
    for (int i = 0; i < g->ninputs; i++) count += waits(g, g->inputs[i], p);
    most = count > most ? count : most;
  }
  return most;
}
