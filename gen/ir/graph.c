// graph.c: building, rewriting and verifying graphs. Nodes are in topological order: an input
// always has a smaller id than its users.
#include "ir.h"

#include <string.h>

bool options_fused(const Options *o) {
  return strcmp(o->lowering, "unfused") != 0;
}

bool options_flash(const Options *o) {
  return options_fused(o) && !o->no_flash;
}

Graph *graph_new(Compiler *c, const char *model) {
  Graph *g = arena_alloc(c->arena, sizeof *g);
  g->c = c;
  g->arena = c->arena;
  g->model = model;
  return g;
}

// Adds a node. Its model position (name, loc, call, written) and pass flags are copied from `like`
// unless that is NULL; shape_infer computes its type.
Node *graph_add(Graph *g, const Op *op, int nin, Node **in, const Attr *attr, Node *like) {
  Node *n = arena_alloc(g->arena, sizeof *n);
  n->id = g->nnodes;
  n->op = op;
  n->nin = nin;
  n->in = arena_alloc(g->arena, sizeof *in * (size_t)(nin ? nin : 1));
  if (nin) memcpy(n->in, in, sizeof *in * (size_t)nin);
  if (attr) n->attr = *attr;
  if (like) n->name = like->name, n->loc = like->loc, n->call = like->call;
  if (like) n->written = like->written, n->precision = like->precision;
  if (like && like->op == op) n->updated = like->updated;
  if (like) n->late = like->late, n->inner = like->inner, n->again = like->again;
  if (like && like->op == op) n->foot = like->foot, n->follows = like->follows;
  if (like && like->op == op) n->many = like->many, n->blocks = like->blocks;
  if (like && op->cls != OpSource) n->entry = like->entry;
  bool varies = op->cls == OpSource && op->form != SourceConst && op->form != SourceParam &&
                !(op->form == SourceIndex && n->attr.fixed);
  n->fixed = !varies && !n->updated;
  for (int i = 0; i < nin; i++) n->fixed = n->fixed && in[i]->fixed && !in[i]->follows;
  n->fixed = n->fixed || n->follows;
  g->nodes = arena_grow(g->arena, g->nodes, g->nnodes, sizeof *g->nodes);
  return g->nodes[g->nnodes++] = n;
}

// A move of `in` with these attributes: an existing node if there is one, else a new one.
Node *graph_move(Graph *g, const char *op, Node *in, int rank, const Attr *attr) {
  const Op *move = op_need(g->c, op);
  for (int i = 0; i < g->nnodes; i++) {
    Node *same = g->nodes[i];
    if (same->op != move || same->in[0] != in || memcmp(&same->attr, attr, sizeof *attr)) continue;
    same->uses++;
    return same;
  }
  Node *n = graph_add(g, move, 1, &in, attr, in);
  n->type.rank = rank;
  shape_infer(g->c, n);
  n->uses = 1;
  return n;
}

Node *graph_derive(Graph *g, const Op *op, int nin, Node **in, const Attr *attr, const Node *like,
                   const Type *as) {
  Node *n = graph_add(g, op, nin, in, attr, (Node *)like);
  n->type.rank = as->rank;
  shape_infer(g->c, n);
  n->type.dtype = as->dtype;
  memcpy(n->type.order, as->order, sizeof n->type.order);
  n->written = NULL;
  return n;
}

Output graph_output_of(const char *name, Node *node, Loc loc, int entry) {
  bool wide = dtype_is_float(node->type.dtype) && node->op->typing != TypeConvert;
  return (Output){name, node, wide ? DtF32 : node->type.dtype, loc, entry};
}

void graph_output(Graph *g, Output output) {
  output.name = arena_dup(g->arena, output.name);
  g->outputs = arena_grow(g->arena, g->outputs, g->noutputs, sizeof *g->outputs);
  g->outputs[g->noutputs++] = output;
}

void graph_update(Graph *g, Node *state, Node *value, Loc loc, int entry) {
  g->updates = arena_grow(g->arena, g->updates, g->nupdates, sizeof *g->updates);
  g->updates[g->nupdates++] = (Update){state, value, loc, entry, false};
}

// Recomputes Node.uses; dead nodes have 0.
void graph_count_uses(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) g->nodes[i]->uses = 0;
  for (int i = 0; i < g->noutputs; i++) g->outputs[i].node->uses++;
  for (int i = 0; i < g->nupdates; i++) g->updates[i].value->uses++;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    Node *n = g->nodes[i];
    for (int j = 0; n->uses && j < n->nin; j++) n->in[j]->uses++;
  }
}

static bool stays_unused(const Node *n) {
  return n->op->cls == OpSource && (n->op->form == SourceInput || n->updated);
}

// Builds a new graph in which each live node is replaced by the result of `rewrite`, a node of the
// new graph (existing or added). `rewrite` gets the inputs already rewritten. Inputs and updated
// sources are kept even if unused.
Graph *graph_rebuild(Graph *g, Node *(*rewrite)(Graph *to, Node *node, Node **in), void *scratch) {
  graph_count_uses(g);
  Graph *to = graph_new(g->c, g->model);
  to->scratch = scratch;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    if (!n->uses && !stays_unused(n)) continue;
    Node *small[4], **in = n->nin <= 4 ? small : arena_alloc(g->arena, sizeof *in * (size_t)n->nin);
    for (int j = 0; j < n->nin; j++) in[j] = n->in[j]->subst;
    n->subst = rewrite(to, n, in);
  }
  for (int i = 0; i < g->noutputs; i++) {
    Output o = g->outputs[i];
    o.node = o.node->subst;
    graph_output(to, o);
  }
  for (int i = 0; i < g->nupdates; i++)
    graph_update(to, g->updates[i].state->subst, g->updates[i].value->subst, g->updates[i].loc,
                 g->updates[i].entry);
  graph_count_uses(to);
  return to;
}

Node *graph_same(Graph *to, Node *n, Node **in) {
  Node *same = graph_add(to, n->op, n->nin, in, &n->attr, n);
  same->type = n->type;
  return same;
}

Graph *graph_copy(Graph *g) {
  return graph_rebuild(g, graph_same, NULL);
}

// ---- nodes ------------------------------------------------------------------------------------

bool node_is_move(const Node *n, int form) {
  return n->op->cls == OpMove && (int)n->op->form == form;
}

int node_sliced_dim(const Node *n) {
  int found = -1;
  if (!node_is_move(n, MoveSlice)) return -1;
  for (int d = 0; d < n->type.rank; d++)
    if (n->type.dim[d] < n->in[0]->type.dim[d]) found = found < 0 ? d : n->type.rank;
  return found < n->type.rank ? found : -1;
}

bool node_is_gather(const Node *n) {
  return n->op->cls == OpMove && n->op->form >= MoveGather;
}

bool node_is_map(const Node *n, unsigned flags) {
  return n->op->cls == OpMap && n->op->flags & flags;
}

bool node_is_literal(const Node *n) {
  return n->op->cls == OpSource && n->op->form == SourceConst && !n->type.rank;
}

bool node_is_number(const Node *n) {
  return node_is_literal(n) && !n->attr.tensor;
}

bool node_has_memory(const Node *n) {
  return n->op->cls == OpSource && n->op->form != SourceConst && n->op->form != SourceIndex;
}

bool node_is_computed(const Node *n) {
  return n->op->cls == OpSource && !node_has_memory(n);
}

bool node_depthwise(const Node *n) {
  WindowPart part = maps_gives(n);
  return (part == PartPositions || part == PartImage) && n->in[MapB]->type.dim[1] == 1 &&
         n->in[MapB]->type.dim[0] == n->attr.groups;
}

int64_t node_window(const Node *n, int i) {
  return n->op->cls == OpContract ? n->in[1]->type.dim[2 + i] : n->attr.kernel[i];
}

const Node *node_as_written(const Node *n) {
  return n->written && n->written->op == n->op ? n->written : n;
}

// ---- the verifier -----------------------------------------------------------------------------

static void verify_node(Graph *g, const Node *n, bool grouped) {
  if (n->op->nin >= 0 && n->nin != n->op->nin)
    die("%%%d %s has %d inputs, expects %d", n->id, n->op->name, n->nin, n->op->nin);
  for (int j = 0; j < n->nin; j++)
    if (n->in[j]->id >= n->id || g->nodes[n->in[j]->id] != n->in[j])
      die("%%%d %s: input %d is not an earlier node of this graph", n->id, n->op->name, j);
  Node again = *n;
  if (n->op->cls != OpSource) {
    shape_infer(g->c, &again);
    if (!type_same_shape(&again.type, &n->type))
      die("%%%d %s: shape %s, but its inputs imply %s", n->id, n->op->name, type_shape(&n->type).s,
          type_shape(&again.type).s);
  }
  unsigned seen = 0;
  for (int d = 0; d < n->type.rank; d++) seen |= 1u << n->type.order[d];
  if (seen != (1u << n->type.rank) - 1) die("%%%d: its order is not a permutation", n->id);
  if (grouped && n->uses && n->op->cls != OpSource && !n->group && !n->placed)
    die("%%%d %s is in no group", n->id, n->op->name);
}

void graph_verify(Graph *g, bool grouped) {
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i]->id != i) die("node %d has id %d", i, g->nodes[i]->id);
    verify_node(g, g->nodes[i], grouped);
  }
  for (int i = 0; i < g->noutputs; i++)
    if (g->nodes[g->outputs[i].node->id] != g->outputs[i].node)
      die("output '%s' is not a node of this graph", g->outputs[i].name);
  for (int i = 0; i < g->nupdates; i++)
    if (g->nodes[g->updates[i].value->id] != g->updates[i].value ||
        g->nodes[g->updates[i].state->id] != g->updates[i].state)
      die("an update of '%s' is not a node of this graph", g->updates[i].state->name);
}
