// gemv_halves.c: slices of a matrix-vector product that maps combine, such as the halves of a GLU,
// become products with slices of the matrix, read in place. Reductions of equal length are one
// kernel, which then combines the results itself. (gemv.c has made reductions of the products; a
// product with more rows computes such columns side by side, fuse/tail.c.)
#include "pass.h"

#include <string.h>

enum { kMostHalves = 4 };

typedef struct Halves { // by node id
  const Node **end; // the last of the maps of its shape that all that is computed from it passes
  bool *uncut;      // read by something else than slices, or an output
  Node **product;   // the sum of products whose result it is, or a map of that; else NULL
  bool *half;       // it becomes a product with a slice of the matrix
} Halves;

// Is n the sum of products of a fixed matrix and a vector, a single row of columns of the matrix?
static bool is_one_row(const Node *n) {
  const Node *of = n->in[0], *w = of->nin ? of->in[0] : NULL;
  int last = of->type.rank - 1;
  bool sums = n->op->flags & FlagAdd && of->op->cls == OpMap && of->op->flags & FlagMul;
  if (!sums || of->nin != 2 || of->uses != 1 || !w->fixed || of->in[1]->fixed) return false;
  return last > 0 && w->type.rank > 0 && n->type.rank == of->type.rank &&
         !(n->attr.axes >> last & 1) && type_count(&n->type) == n->type.dim[last] &&
         w->type.dim[w->type.rank - 1] > 1 && type_count(&w->type) == type_count(&of->type) &&
         of->in[1]->type.rank == of->type.rank && of->in[1]->type.dim[last] == 1;
}

// If n is a product, or a map in its shape of nothing else but numbers and values per column: the
// product.
static Node *product_of(const Halves *h, Node *n) {
  if (n->op->cls == OpReduce) return is_one_row(n) ? n : NULL;
  Node *found = NULL;
  for (int i = 0; n->op->cls == OpMap && i < n->nin; i++) {
    Node *in = n->in[i], *p = type_same_shape(&in->type, &n->type) ? h->product[in->id] : NULL;
    bool beside = type_count(&in->type) == 1 || (in->type.rank == 1 && in->fixed);
    if (p ? found || in->uses > 1 : !beside) return NULL;
    if (p) found = p;
  }
  return found;
}

static bool is_cut(const Node *n) { // along its last dimension
  int d = node_sliced_dim(n);
  return d >= 0 && d == n->type.rank - 1;
}

// Sets end and uncut, of the last node first.
static void find_ends(const Graph *g, const Halves *h) {
  bool *stops = arena_alloc(g->arena, (size_t)g->nnodes + 1); // its readers lead to several
  for (int i = 0; i < g->noutputs; i++) stops[g->outputs[i].node->id] = true;
  for (int i = 0; i < g->nupdates; i++) stops[g->updates[i].value->id] = true;
  memcpy(h->uncut, stops, (size_t)g->nnodes);
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    if (!n->uses) continue;
    if (stops[i] || !h->end[i]) h->end[i] = n;
    for (int j = 0; j < n->nin; j++) {
      const Node *in = n->in[j], **end = &h->end[in->id];
      bool map = n->op->cls == OpMap && type_same_shape(&in->type, &n->type);
      stops[in->id] = stops[in->id] || !map || (*end && *end != h->end[i]);
      if (!*end) *end = h->end[i];
      h->uncut[in->id] = h->uncut[in->id] || !is_cut(n);
    }
  }
}

// Sets `half` of the readers of x, if all are equally long slices that maps combine.
static void find_halves(const Graph *g, const Halves *h, const Node *x) {
  Node *cut[kMostHalves];
  int count = 0;
  for (int i = x->id + 1; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    if (!n->uses || !n->nin || n->in[0] != x) continue;
    if (count == kMostHalves) return;
    cut[count++] = n;
  }
  for (int i = 0; i < count; i++)
    if (cut[i] == h->end[cut[i]->id] || h->end[cut[i]->id] != h->end[cut[0]->id] ||
        !type_same_shape(&cut[i]->type, &cut[0]->type))
      return;
  for (int i = 0; i < count; i++) h->half[cut[i]->id] = true;
}

// The part of n, a node of the new graph, that `cut` takes along its last dimension.
static Node *part_of(Graph *to, Node *n, const Node *cut, int d) {
  int last = cut->type.rank - 1;
  Attr attr = {0};
  for (int i = 0; i < n->type.rank; i++) attr.ends[i] = n->type.dim[i];
  attr.dims[d] = cut->attr.dims[last];
  attr.ends[d] = cut->attr.ends[last];
  return graph_derive(to, op_need(to->c, "slice"), 1, &n, &attr, n, &n->type);
}

static Node *like(Graph *to, Node **in, Node *n) {
  return graph_derive(to, n->op, n->nin, in, &n->attr, n, &n->type);
}

// Moves of the matrix for a single reader, as shared ones would be a kernel of init.
static Node *own_view(Graph *to, Node *n) {
  if (n->op->cls != OpMove || n->nin != 1) return n->subst;
  Node *in = own_view(to, n->in[0]);
  return like(to, &in, n);
}

// The same as n, a node of the old graph, but of the matrix's columns that `cut` takes.
static Node *columns_of(Graph *to, Node *n, const Node *cut) {
  Node *in[MaxInputs];
  for (int i = 0; i < n->nin; i++) {
    Node *from = n->in[i];
    int last = from->type.rank - 1;
    bool columns = last >= 0 && from->type.dim[last] == n->type.dim[n->type.rank - 1];
    in[i] = from->subst;
    if (n->op->cls == OpReduce) {
      Node *of[2] = {part_of(to, own_view(to, from->in[0]), cut, from->in[0]->type.rank - 1),
                     from->in[1]->subst};
      in[i] = like(to, of, from);
    } else if (type_same_shape(&from->type, &n->type)) {
      in[i] = columns_of(to, from, cut);
    } else if (type_count(&from->type) > 1 && columns) {
      in[i] = part_of(to, from->subst, cut, last);
    }
  }
  return like(to, in, n);
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Halves *h = to->scratch;
  if (h->half[node->id]) {
    Node *part = columns_of(to, node->in[0], node);
    part->written = node->written;
    part->type.dtype = node->type.dtype;
    return part;
  }
  return graph_same(to, node, in);
}

Graph *gemv_halves(Graph *g) {
  graph_count_uses(g);
  size_t count = (size_t)g->nnodes + 1;
  Halves h = {.end = arena_alloc(g->arena, sizeof *h.end * count),
              .uncut = arena_alloc(g->arena, count),
              .product = arena_alloc(g->arena, sizeof *h.product * count),
              .half = arena_alloc(g->arena, count)};
  find_ends(g, &h);
  bool found = false;
  for (int i = 0; i < g->nnodes; i++) {
    h.product[i] = g->nodes[i]->uses ? product_of(&h, g->nodes[i]) : NULL;
    if (h.product[i] && !h.uncut[i]) find_halves(g, &h, g->nodes[i]);
  }
  for (int i = 0; i < g->nnodes; i++) found = found || h.half[i];
  if (!found) return g;
  g = graph_rebuild(g, rewrite, &h);
  g->scratch = NULL;
  return g;
}
