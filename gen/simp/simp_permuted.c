// simp_permuted.c: permuted values that are finally only reduced, or from which elements are
// chosen, such as logits of a segmentation model with classes moved last. The permutation moves
// after the maps that read it, to the small results, or cancels with its inverse (in a gradient),
// so that the value is read in its own layout. Dimensions may be joined by a reshape, for example
// to (pixels, classes).
#include "simp.h"

#include <string.h>

enum { kMostMaps = 32 }; // nodes per search

static bool is_small(const Node *n, const Node *beside) {
  return type_count(&n->type) * 2 <= type_count(&beside->type);
}

// A permuted value: `permute`, or a reshape of it.
typedef struct View {
  const Node *permute;
  const Type *as;
  bool joined; // reshaped
} View;

// Is x such a value? marked: only if its permutation is to be removed.
static bool sees(const Node *x, View *v, bool marked) {
  *v = (View){.permute = x, .as = &x->type};
  if (node_is_move(x, MoveReshape)) v->permute = x->in[0], v->joined = true;
  return node_is_move(v->permute, MovePermute) && (v->permute->undone || !marked);
}

static bool same_view(const Node *x, const View *v) {
  View own;
  if (!sees(x, &own, false) || own.joined != v->joined || !type_same_shape(own.as, v->as) ||
      !type_same_shape(&own.permute->type, &v->permute->type))
    return false;
  size_t size = sizeof own.permute->attr.dims[0] * (size_t)own.permute->type.rank;
  return !memcmp(own.permute->attr.dims, v->permute->attr.dims, size);
}

// The dimension of the unpermuted value for dimension d of the view, or -1 if it is not exactly
// one.
static int dim_of(const View *v, int d) {
  GridRun r = {0};
  while (grid_run(v->as, &v->permute->type, &r) && r.i_end <= d) {}
  bool alone = r.i_end - r.i == 1 && r.j_end - r.j == 1;
  return alone ? (int)v->permute->attr.dims[r.j] : -1;
}

// Could x, which broadcasts to the view, be put in the order of the value?
static bool has_view(const Node *x, const View *v) {
  int64_t dims[MaxRank];
  bool index = x->op->cls == OpSource && x->op->form == SourceIndex;
  if (index) return dim_of(v, x->attr.axis + v->as->rank - x->type.rank) >= 0;
  return grid_seen_as(&x->type, v->as, &v->permute->type, dims);
}

// Does the permutation reorder dimensions of size > 1?
static bool moves_elements(const Type *t, const int64_t *dims) {
  int64_t last = -1;
  bool moves = false;
  for (int d = 0; d < t->rank; d++) {
    if (t->dim[dims[d]] == 1) continue;
    moves = moves || dims[d] < last;
    last = dims[d];
  }
  return moves;
}

// ---- rewriting ----------------------------------------------------------------------------------

// permute(x, dims): dimension d of the result is dimension dims[d] of x.
static Node *permuted(Graph *to, Node *x, const int64_t *dims) {
  Attr attr = {0};
  int64_t shape[MaxRank];
  for (int d = 0; d < x->type.rank; d++) attr.dims[d] = dims[d], shape[d] = x->type.dim[dims[d]];
  if (!moves_elements(&x->type, dims)) return reshape_as(to, x, x->type.rank, shape);
  Node *y = simp_make(to, op_need(to->c, "permute"), 1, &x, &attr, x);
  y->undone = y->undone || node_is_move(y, MovePermute);
  return y;
}

// y, computed from the value itself, permuted and reshaped like the view, in n's shape.
static Node *viewed(Graph *to, Node *y, const View *v, const Node *n) {
  return reshape_as(to, permuted(to, y, v->permute->attr.dims), n->type.rank, n->type.dim);
}

// An index along a dimension of the view becomes one along the value's dimension.
static Node *index_back(Graph *to, const Node *x, const View *v) {
  int64_t dims[MaxRank];
  int axis = dim_of(v, x->attr.axis + v->as->rank - x->type.rank), rank = v->permute->type.rank;
  for (int d = 0; d < rank; d++) dims[d] = 1;
  dims[axis] = v->permute->in[0]->type.dim[axis];
  Type shape = type_make(DtI32, rank, dims);
  return simp_index(to, axis, &shape, x);
}

static Node *one_number(Graph *to, const Node *x, int rank) {
  int64_t dims[MaxRank];
  for (int d = 0; d < rank; d++) dims[d] = 1;
  Type shape = type_make(x->type.dtype, rank, dims);
  return simp_const(to, x->attr.value, &shape, x);
}

// x, which broadcasts to the view, in the shape and order of the value.
static Node *put_back(Graph *to, Node *x, const View *v) {
  int64_t dims[MaxRank], inverse[MaxRank];
  if (!x->type.rank) return x;
  if (x->op->cls == OpSource && x->op->form == SourceIndex) return index_back(to, x, v);
  int rank = v->permute->type.rank, more = rank - x->type.rank;
  if (simp_is_const(x)) return one_number(to, x, rank);
  grid_seen_as(&x->type, v->as, &v->permute->type, dims);
  for (int d = 0; d < rank; d++) {
    inverse[v->permute->attr.dims[d]] = d;
    if (!v->joined) dims[d] = d < more ? 1 : x->type.dim[d - more]; // indices may be fewer
  }
  return permuted(to, reshape_as(to, x, rank, dims), inverse);
}

// x recomputed without the view, if follows() is true.
static Node *before(Graph *to, Node *x, const Node *n, const View *v) {
  if (same_view(x, v)) return v->joined ? x->in[0]->in[0] : x->in[0];
  if (x->op->cls != OpMap || (x != n && is_small(x, n))) return put_back(to, x, v);
  Node *in[MaxInputs];
  for (int i = 0; i < x->nin; i++) in[i] = before(to, x->in[i], n, v);
  return simp_make(to, x->op, x->nin, in, &x->attr, x);
}

// Can x, an input (or itself) of map n, be computed without the view, from views and small values?
static bool follows(const Node *x, const Node *n, const View *v, int *left) {
  if (same_view(x, v) || !x->type.rank) return true;
  if (x->op->cls != OpMap || (x != n && is_small(x, n)))
    return (is_small(x, n) || node_is_computed(x)) && has_view(x, v);
  bool all = --*left > 0 && x->op->typing != TypeDraw;
  for (int i = 0; i < x->nin && all; i++) all = follows(x->in[i], n, v, left);
  return all;
}

// Is its result a position within what it reduces?
static bool counts_places(const Node *n) {
  return n->op->acc && n->op->gives == DtI32;
}

// The reduced dimensions as dimensions of the value, or 0 if they do not correspond.
static int64_t axes_of(const Node *n, const View *v) {
  int64_t axes = 0;
  int last = -1;
  for (int d = 0; d < n->type.rank; d++) {
    if (!(n->attr.axes >> d & 1)) continue;
    int at = dim_of(v, d);
    if (at < 0 || (counts_places(n) && at < last)) return 0;
    axes |= 1ll << at, last = at;
  }
  return axes;
}

// May n, which chooses elements along one dimension, choose from the value itself?
static bool chooses(const Node *n, const View *v) {
  bool along = node_is_move(n, MoveAlong);
  if (!(along || n->op->cls == OpSelect) || !is_small(n, n->in[0])) return false;
  if (dim_of(v, (int)n->attr.axis) < 0) return false;
  return !v->joined || n->type.dim[n->attr.axis] == 1;
}

// reduce(permute(x)) = permute(reduce(x)); the same for selects and gathers along a dimension.
Node *permute_behind(Graph *to, Node *n) {
  View v;
  Attr attr = n->attr;
  if (!n->nin || !sees(n->in[0], &v, true)) return NULL;
  Node *in[2] = {v.permute->in[0]};
  if (n->op->cls == OpReduce && axes_of(n, &v))
    attr.axes = axes_of(n, &v);
  else if (chooses(n, &v))
    attr.axis = dim_of(&v, (int)n->attr.axis);
  else
    return NULL;
  if (n->nin > 1) in[1] = put_back(to, n->in[1], &v);
  return viewed(to, simp_make(to, n->op, n->nin, in, &attr, n), &v, n);
}

// map(permute(x), small) = permute(map(x, small')).
Node *permute_last(Graph *to, Node *n) {
  View v;
  int left = kMostMaps;
  for (int i = 0; n->op->cls == OpMap && i < n->nin; i++)
    if (sees(n->in[i], &v, true) && type_same_shape(v.as, &n->type))
      return follows(n, n, &v, &left) ? viewed(to, before(to, n, n, &v), &v, n) : NULL;
  return NULL;
}

// ---- which permutations -------------------------------------------------------------------------

// CSR lists: readers of node id are node[first[id]] to node[first[id + 1] - 1]
typedef struct Readers {
  const Node **node;
  int *first;
  bool *leaves, *asked; // is it an output; has goes() visited it?
} Readers;

static Readers readers_of(const Graph *g) {
  size_t count = (size_t)g->nnodes + 2;
  Readers r = {.first = arena_alloc(g->arena, sizeof(int) * count),
               .leaves = arena_alloc(g->arena, count), .asked = arena_alloc(g->arena, count)};
  int total = 0;
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++, total++) r.first[g->nodes[i]->in[j]->id + 2]++;
  for (int i = 2; i < g->nnodes + 2; i++) r.first[i] += r.first[i - 1];
  r.node = arena_alloc(g->arena, sizeof(Node *) * (size_t)(total + 1));
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++)
      r.node[r.first[g->nodes[i]->in[j]->id + 1]++] = g->nodes[i];
  for (int i = 0; i < g->noutputs; i++) r.leaves[g->outputs[i].node->id] = true;
  for (int i = 0; i < g->nupdates; i++) r.leaves[g->updates[i].value->id] = true;
  return r;
}

static bool goes(const Readers *r, const Node *x, const View *v);

// Does n reduce or choose so that the rest needs no permutation?
static bool ends(const Node *n, const Node *x, const View *v) {
  Type left = v->permute->in[0]->type;
  if (n->op->cls == OpReduce) {
    int64_t axes = axes_of(n, v);
    for (int d = 0; d < left.rank; d++)
      if (axes >> d & 1) left.dim[d] = 1;
    return axes && !moves_elements(&left, v->permute->attr.dims);
  }
  if (!chooses(n, v) || n->in[0] != x || (n->nin > 1 && !has_view(n->in[1], v))) return false;
  left.dim[dim_of(v, (int)n->attr.axis)] = n->type.dim[n->attr.axis];
  return !moves_elements(&left, v->permute->attr.dims);
}

// Can the permutation be removed from reader n of x, a view?
static bool goes_at(const Readers *r, const Node *n, const Node *x, const View *v) {
  int left = kMostMaps, rank = x->type.rank;
  if (ends(n, x, v)) return true;
  if (node_is_move(n, MoveSlice)) return is_small(n, x);
  if (n->op->cls == OpMap)
    return type_same_shape(&n->type, v->as) && follows(n, n, v, &left) && goes(r, n, v);
  if (node_is_move(n, MovePermute) && !v->joined) {
    bool undoes = true;
    for (int d = 0; d < rank; d++) undoes = undoes && v->permute->attr.dims[n->attr.dims[d]] == d;
    return undoes;
  }
  View other = {.permute = v->permute, .as = &n->type, .joined = !v->joined};
  bool whole = other.joined || type_same_shape(&n->type, &v->permute->type);
  return node_is_move(n, MoveReshape) && whole && goes(r, n, &other);
}

// Can it be removed from all readers of x, and of their results?
static bool goes(const Readers *r, const Node *x, const View *v) {
  if (r->leaves[x->id]) return false;
  if (r->asked[x->id]) return true;
  r->asked[x->id] = true;
  bool all = true;
  for (int i = r->first[x->id]; i < r->first[x->id + 1] && all; i++)
    all = goes_at(r, r->node[i], x, v);
  return all;
}

// Marks the permutations to be removed (Node.undone); returns whether there are any.
bool permutes_go(Graph *g) {
  bool found = false;
  Readers r = {0};
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    n->undone = false;
    if (!node_is_move(n, MovePermute) || n->fixed || reshape_scores(n->in[0])) continue;
    if (!r.node) r = readers_of(g);
    memset(r.asked, 0, (size_t)g->nnodes);
    n->undone = goes(&r, n, &(View){.permute = n, .as = &n->type});
    found = found || n->undone;
  }
  return found;
}
