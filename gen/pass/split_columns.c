// split_columns.c: a linear layer whose columns are split into dimensions, of which another than
// the last ends up innermost: q, k and v of (B, N, H, D, 3), heads within channels. The columns of
// its weights, which init copies anyway, are put into the order in which the result is used, so
// that neighbours are stored together and q, k and v apart.
#include "pass.h"

#include <stdlib.h>
#include <string.h>

typedef struct Split { // of a reshape
  int first, count;    // the dimensions into which the columns are split
  int order[MaxRank];  // of these, outermost first, each from 0
} Split;

// The contraction with a fixed matrix whose result n is, or whose sum with a bias per column;
// *bias: the sum, or NULL.
static Node *product_below(Node *n, Node **bias) {
  *bias = n->op->cls == OpMap && n->op->flags & FlagAdd && n->nin == 2 && n->uses == 1 ? n : NULL;
  if (*bias) {
    const Type *t = &n->in[1]->type;
    bool columns = n->in[1]->fixed && t->rank == 1 && t->dim[0] == n->type.dim[n->type.rank - 1];
    n = columns ? n->in[0] : n;
  }
  if (n->op->cls != OpContract || n->uses != 1 || n->fixed || !n->in[1]->fixed) return NULL;
  Maps m = maps_of(n, 0);
  bool plain = maps_gives(n) == PartNone && maps_phases(n) == 1 && n->in[1]->type.rank == 2;
  int columns = plain ? maps_dim(&m, MapB, AxisN) : -1, last = n->type.rank - 1;
  return columns >= 0 && maps_dim(&m, MapOut, AxisN) == last &&
                 n->in[1]->type.dim[columns] == n->type.dim[last]
             ? n
             : NULL;
}

static bool split_columns(const Node *reshape, Split *s) {
  const Type *from = &reshape->in[0]->type, *to = &reshape->type;
  int64_t columns = from->rank ? from->dim[from->rank - 1] : 1, count = 1;
  s->first = to->rank;
  while (s->first > 0 && count < columns) count *= to->dim[--s->first];
  s->count = to->rank - s->first;
  return count == columns && s->count > 1 && s->count < MaxRank; // the weights have one more
}

// Is n a slice along dimension d only?
static bool cuts(const Node *n, int d) {
  bool only = node_is_move(n, MoveSlice) && n->type.dim[d] < n->in[0]->type.dim[d];
  for (int i = 0; only && i < n->type.rank; i++)
    only = i == d || n->type.dim[i] == n->in[0]->type.dim[i];
  return only;
}

static const Node *only_reader(const Graph *g, const Node *n) {
  for (int i = n->id + 1; n->uses == 1 && i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++)
      if (g->nodes[i]->in[j] == n) return g->nodes[i];
  return NULL;
}

// The dimension along which all readers of n are slices, or -1.
static int sliced(const Graph *g, const Node *n, const Split *s, const Node **slice) {
  int along = -1, readers = 0;
  for (int i = n->id + 1; i < g->nnodes && readers < n->uses; i++) {
    const Node *reader = g->nodes[i];
    if (!reader->uses || !reader->nin || reader->in[0] != n) continue;
    for (int d = s->first; along < 0 && d < n->type.rank; d++)
      if (cuts(reader, d)) along = d;
    if (along < 0 || !cuts(reader, along)) return -1;
    *slice = reader;
    readers++;
  }
  return readers == n->uses ? along : -1;
}

// Sets the order, from place `at`, to that of the split dimensions in the result of `permute`,
// whose input has the dimensions of the reshape but for `without` (-1: all of them).
static void order_of(const Node *permute, Split *s, int without, int at) {
  for (int i = 0; i < permute->type.rank; i++) {
    int d = (int)permute->attr.dims[i];
    d += without >= 0 && d >= without;
    if (d >= s->first) s->order[at++] = d - s->first;
  }
}

// Do maps combine slices of n again, as a GLU does its halves and a rotary embedding its pairs?
// They are neighbours in a thread then.
static bool meets_again(const Graph *g, const Node *n) {
  unsigned *parts = base_alloc((size_t)g->nnodes, sizeof *parts), next = 1; // a bit each slice of n
  bool found = false;
  for (int i = n->id + 1; i < g->nnodes && !found; i++) {
    const Node *reader = g->nodes[i];
    unsigned several = 0;
    if (!reader->uses || (reader->op->cls != OpMap && reader->op->cls != OpMove)) continue;
    for (int j = 0; j < reader->nin; j++) {
      unsigned of = parts[reader->in[j]->id];
      several |= parts[i] && of != parts[i] ? of : 0;
      parts[i] |= of;
      if (reader->in[j] != n || !node_is_move(reader, MoveSlice)) continue;
      parts[i] = next;
      if (next << 1) next <<= 1;
    }
    found = several != 0;
  }
  free(parts);
  return found;
}

// The order in which the readers of reshape n have the split dimensions: slices, then permuted, or
// a permutation. Does another one than the last become the innermost?
static bool find_order(const Graph *g, const Node *n, Split *s) {
  const Node *slice = NULL, *reader = only_reader(g, n);
  int last = s->count - 1;
  if (reader && node_is_move(reader, MovePermute)) {
    order_of(reader, s, -1, 0);
    return s->order[last] != last && !meets_again(g, reader);
  }
  int along = sliced(g, n, s, &slice);
  if (along < 0) return false;
  s->order[0] = along - s->first;
  for (int i = 0, at = 1; i < s->count; i++)
    if (i != s->order[0]) s->order[at++] = i;
  const Node *same = only_reader(g, slice); // without the dimension of size 1
  bool drops = same && node_is_move(same, MoveReshape) && same->type.rank == n->type.rank - 1;
  for (int i = 0; drops && i < same->type.rank; i++)
    drops = same->type.dim[i] == slice->type.dim[i + (i >= along)];
  const Node *permute = drops ? only_reader(g, same) : NULL;
  if (permute && node_is_move(permute, MovePermute)) order_of(permute, s, along, 1);
  return s->order[last] != last && !meets_again(g, n);
}

// ---- the new graph ------------------------------------------------------------------------------

static Node *move(Graph *to, const char *op, Node *in, int rank, const Attr *attr) {
  Node *n = graph_add(to, op_need(to->c, op), 1, &in, attr, in);
  n->type.rank = rank;
  shape_infer(to->c, n);
  n->type.dtype = in->type.dtype;
  n->written = NULL;
  return n;
}

// Dimension d of n, split as in `like`, in the new order, and joined again.
static Node *reordered(Graph *to, Node *n, int d, const Split *s, const Node *like) {
  int rank = n->type.rank + s->count - 1;
  Attr split = {0}, permute = {0}, join = {0};
  for (int i = 0; i < rank; i++) {
    bool inside = i >= d && i < d + s->count;
    permute.dims[i] = inside ? d + s->order[i - d] : i;
    split.dims[i] =
        inside ? like->type.dim[s->first + i - d] : n->type.dim[i < d ? i : i - s->count + 1];
  }
  for (int i = 0; i < n->type.rank; i++) join.dims[i] = n->type.dim[i];
  Node *apart = move(to, "reshape", n, rank, &split);
  return move(to, "reshape", move(to, "permute", apart, rank, &permute), n->type.rank, &join);
}

static Node *of_columns(Graph *to, Node *n, Node *a, Node *b) {
  Node *made = graph_add(to, n->op, 2, (Node *[]){a, b}, &n->attr, n);
  made->type = n->type;
  made->written = NULL;
  return made;
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Split *split = to->scratch, *s = &split[node->id];
  if (!s->count) {
    Node *same = graph_add(to, node->op, node->nin, in, &node->attr, node);
    same->type = node->type;
    return same;
  }
  Node *bias, *product = product_below(node->in[0], &bias);
  Maps m = maps_of(product, 0);
  Node *w = reordered(to, product->in[1]->subst, maps_dim(&m, MapB, AxisN), s, node);
  Node *y = of_columns(to, product, product->in[0]->subst, w);
  if (bias) y = of_columns(to, bias, y, reordered(to, bias->in[1]->subst, 0, s, node));
  Attr seen = {0}, back = {0}; // the reshape, and its dimensions in the model's order
  for (int i = 0; i < node->type.rank; i++) {
    int from = i < s->first ? i : s->first + s->order[i - s->first];
    seen.dims[i] = node->type.dim[from];
    back.dims[from] = i;
  }
  Node *made =
      move(to, "permute", move(to, "reshape", y, node->type.rank, &seen), node->type.rank, &back);
  made->written = node->written;
  made->name = node->name, made->loc = node->loc, made->call = node->call;
  return made;
}

// What the weights of a product are, moved or not.
static Node *unmoved(Node *w) {
  while (w->op->cls == OpMove && w->nin == 1) w = w->in[0];
  return w;
}

// Weights that something else reads in the model's order, or another reshape in another one, keep
// it, as they would be stored twice.
static void keep_shared(const Graph *g, Split *split) {
  int *readers = base_alloc((size_t)g->nnodes, sizeof *readers); // by id of the weights
  const Split **first = base_alloc((size_t)g->nnodes, sizeof *first);
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i], *bias;
    for (int j = 0; n->uses && j < n->nin && !(n->op->cls == OpMove && n->nin == 1); j++)
      readers[unmoved(n->in[j])->id]++;
    if (!split[i].count) continue;
    int w = unmoved(product_below(n->in[0], &bias)->in[1])->id;
    if (!first[w]) first[w] = &split[i];
    bool same = first[w]->count == split[i].count &&
                !memcmp(first[w]->order, split[i].order, sizeof split[i].order);
    readers[w] -= same;
  }
  for (int i = 0; i < g->nnodes; i++) {
    Node *bias;
    if (split[i].count && readers[unmoved(product_below(g->nodes[i]->in[0], &bias)->in[1])->id])
      split[i] = (Split){0};
  }
  free(readers);
  free(first);
}

Graph *split_columns_order(Graph *g) {
  graph_count_uses(g);
  Split *split = arena_alloc(g->arena, sizeof *split * ((size_t)g->nnodes + 1));
  bool found = false;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i], *bias;
    Split s = {0};
    if (!n->uses || !node_is_move(n, MoveReshape) || n->fixed || n->in[0]->uses > 1) continue;
    if (!split_columns(n, &s) || !find_order(g, n, &s) || !product_below(n->in[0], &bias)) continue;
    split[i] = s;
    found = true;
  }
  if (!found) return g;
  keep_shared(g, split);
  g = graph_rebuild(g, rewrite, split);
  g->scratch = NULL;
  return g;
}
