// ids.c: checks the ids of gathers before a run, because a kernel cannot report errors. Covers ids
// computed from sources by maps, moves and small reductions; ids that depend on contractions are
// checked with the kernels.
#include "gen/oracle/oracle.h"

#include <stdlib.h>

enum { kMostMade = 1 << 20 }; // elements of an intermediate value

// Is n's declared range (nn.input below, a constant) within the table's size?
static bool is_declared(const Node *n, int64_t size) {
  while (node_is_move(n, MoveReshape)) n = n->in[0];
  bool input = n->op->cls == OpSource && n->op->form == SourceInput;
  return (input && n->attr.below && n->attr.below <= size) || n->op->form == SourceConst;
}

static bool is_made(const Node *n) { // cheap and deterministic
  bool small = type_count(&n->type) <= kMostMade, draws = n->op->typing == TypeDraw;
  bool cheap = n->op->cls != OpContract && n->op->cls != OpWindow && !draws;
  for (int i = 0; i < n->nin; i++) cheap = cheap && type_count(&n->in[i]->type) <= kMostMade;
  return small && cheap;
}

// By id: can the node be evaluated before a run?
static bool *find_known(const Graph *g) {
  bool *known = arena_alloc(g->arena, sizeof *known * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++) {
    known[i] = is_made(g->nodes[i]);
    for (int j = 0; j < g->nodes[i]->nin; j++) known[i] = known[i] && known[g->nodes[i]->in[j]->id];
  }
  return known;
}

// Is n a live gather of the entry with ids to be checked?
static bool is_wanted(const Node *n, int entry, const bool *known) {
  return n->uses && node_is_gather(n) && n->entry == entry && known[n->in[1]->id] &&
         !is_declared(n->in[1], n->in[0]->type.dim[n->attr.axis]);
}

const bool *ids_gathers(Graph *g, int entry) {
  const bool *known = find_known(g);
  bool *wanted = arena_alloc(g->arena, sizeof *wanted * (size_t)(g->nnodes + 1));
  graph_count_uses(g);
  for (int i = 0; i < g->nnodes; i++) wanted[i] = is_wanted(g->nodes[i], entry, known);
  return wanted;
}

bool ids_wanted(Graph *g, int entry) {
  const bool *wanted = ids_gathers(g, entry);
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) any = any || wanted[i];
  return any;
}

// Sets value[n->id]; false if a source cannot be read.
static bool evaluate(Compiler *c, Node *n, double **value, CheckRead read, void *user) {
  if (value[n->id]) return true;
  for (int i = 0; i < n->nin; i++)
    if (!evaluate(c, n->in[i], value, read, user)) return false;
  if (!node_has_memory(n)) {
    eval_node(c, n, value);
    return true;
  }
  value[n->id] = base_alloc((size_t)type_count(&n->type), sizeof(double));
  return read(user, n, value[n->id]);
}

bool ids_check(Compiler *c, int entry, CheckRead read, void *user) {
  Graph *g = c->original;
  const bool *wanted = ids_gathers(g, entry);
  double **value = arena_alloc(c->arena, sizeof *value * (size_t)(g->nnodes + 1));
  bool ok = true;
  for (int i = 0; ok && i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!wanted[i]) continue;
    ok = evaluate(c, n->in[1], value, read, user);
    if (ok) eval_ids(c, n, value);
  }
  eval_free(g, value);
  return ok;
}
