// split_columns.c: a linear layer whose columns are split into dimensions, of which another than
// the last ends up innermost: q, k and v of (B, N, H, D, 3), heads within channels. The columns of
// its weights are put into the order in which the result is used, so that neighbours are stored
// together and q, k and v apart. init copies the weights for it, in 16 bits as it does anyway.
#include "pass.h"

#include <stdlib.h>
#include <string.h>

typedef struct Split { // of a reshape
  int first, count;    // the dimensions into which the columns are split
  int order[MaxRank];  // of these, outermost first, each from 0
} Split;

// The contraction with a fixed matrix whose result n is, or NULL. n may be its sum with a bias per
// column: *bias is that sum, or NULL.
static Node *product_below(Node *n, Node **bias) {
  *bias = NULL;
  if (n->op->cls == OpMap && n->op->flags & FlagAdd && n->nin == 2 && n->uses == 1) {
    const Type *t = &n->in[1]->type;
    bool columns = n->in[1]->fixed && t->rank == 1 && t->dim[0] == n->type.dim[n->type.rank - 1];
    if (!columns || !type_same_shape(&n->in[0]->type, &n->type)) return NULL;
    *bias = n;
    n = n->in[0];
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

static const Node *only_reader(const Graph *g, const Node *n) {
  for (int i = n->id + 1; n->uses == 1 && i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++)
      if (g->nodes[i]->in[j] == n) return g->nodes[i];
  return NULL;
}

// A value on the way from the reshape, and which split dimension (from 0) each of its own is, or
// -1.
typedef struct Seen {
  const Node *node;
  int of[MaxRank];
} Seen;

// Continues with `reader`, a permutation or a reshape that leaves out dimensions of size 1; false
// if it is neither.
static bool follow(Seen *s, const Node *reader) {
  Seen next = {.node = reader};
  int at = 0;
  if (node_is_move(reader, MovePermute)) {
    for (int d = 0; d < reader->type.rank; d++) next.of[d] = s->of[reader->attr.dims[d]];
    return *s = next, true;
  }
  if (!node_is_move(reader, MoveReshape)) return false;
  for (int d = 0; d < s->node->type.rank; d++) {
    int64_t size = s->node->type.dim[d];
    if (at < reader->type.rank && reader->type.dim[at] == size)
      next.of[at++] = s->of[d];
    else if (size > 1)
      return false;
  }
  if (at < reader->type.rank) return false;
  return *s = next, true;
}

// The split dimension along which all readers are slices, the last one *slice; or -1.
static int sliced(const Graph *g, const Seen *s, const Node **slice) {
  int along = -1, readers = 0;
  for (int i = s->node->id + 1; i < g->nnodes && readers < s->node->uses; i++) {
    const Node *reader = g->nodes[i];
    if (!reader->uses || !reader->nin || reader->in[0] != s->node) continue;
    int d = node_sliced_dim(reader);
    if (d < 0 || s->of[d] < 0 || (along >= 0 && along != d)) return -1;
    along = d;
    *slice = reader;
    readers++;
  }
  return along >= 0 && readers == s->node->uses ? s->of[along] : -1;
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
      if (next << 1) next <<= 1; // those after the 31st share one
    }
    found = several != 0;
  }
  free(parts);
  return found;
}

// Sets the order in which the split dimensions are used: that along which slices are cut, then as
// permutations before and behind these have them. Does another one than the last become the
// innermost?
static bool find_order(const Graph *g, const Node *n, Split *s) {
  Seen seen = {.node = n};
  const Node *cut_of = NULL, *slice = NULL;
  int cut = -1, at = 0, last = s->count - 1;
  for (int d = 0; d < n->type.rank; d++) seen.of[d] = d < s->first ? -1 : d - s->first;
  for (;;) {
    const Node *reader = only_reader(g, seen.node);
    if (reader && follow(&seen, reader)) continue;
    if (cut_of || (cut = sliced(g, &seen, &slice)) < 0) break;
    cut_of = seen.node;
    seen.node = slice;
  }
  bool left[MaxRank] = {false};
  for (int d = 0; d < seen.node->type.rank; d++)
    if (seen.of[d] >= 0) left[seen.of[d]] = true;
  if (cut_of) s->order[at++] = cut;
  for (int i = 0; i < s->count; i++) // of size 1, left out by a reshape
    if (!left[i] && i != cut) s->order[at++] = i;
  for (int d = 0; d < seen.node->type.rank; d++)
    if (seen.of[d] >= 0 && seen.of[d] != cut) s->order[at++] = seen.of[d];
  return s->order[last] != last && !(cut_of && meets_again(g, cut_of));
}

// ---- the new graph ------------------------------------------------------------------------------

static Node *move(Graph *to, const char *op, Node *in, int rank, const Attr *attr) {
  Type plain = type_make(in->type.dtype, rank, attr->dims); // row-major
  return graph_derive(to, op_need(to->c, op), 1, &in, attr, in, &plain);
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
  return graph_derive(to, n->op, 2, (Node *[]){a, b}, &n->attr, n, &n->type);
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Split *split = to->scratch, *s = &split[node->id];
  if (!s->count) return graph_same(to, node, in);
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

// Weights that something else reads in the model's order, or another reshape in another one, keep
// it, as they would be stored twice.
static void keep_shared(const Graph *g, Split *split) {
  int *readers = base_alloc((size_t)g->nnodes, sizeof *readers); // by id of the weights
  const Split **first = base_alloc((size_t)g->nnodes, sizeof *first);
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i], *bias;
    for (int j = 0; n->uses && j < n->nin && !(n->op->cls == OpMove && n->nin == 1); j++)
      readers[prec_unmoved(n->in[j])->id]++;
    if (!split[i].count) continue;
    int w = prec_unmoved(product_below(n->in[0], &bias)->in[1])->id;
    if (!first[w]) first[w] = &split[i];
    bool same = first[w]->count == split[i].count &&
                !memcmp(first[w]->order, split[i].order, sizeof split[i].order);
    readers[w] -= same;
  }
  for (int i = 0; i < g->nnodes; i++) {
    Node *bias;
    if (split[i].count &&
        readers[prec_unmoved(product_below(g->nodes[i]->in[0], &bias)->in[1])->id])
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
    if (!split_columns(n, &s) || !product_below(n->in[0], &bias) || !find_order(g, n, &s)) continue;
    split[i] = s;
    found = true;
  }
  if (!found) return g;
  keep_shared(g, split);
  g = graph_rebuild(g, rewrite, split);
  g->scratch = NULL;
  return g;
}
