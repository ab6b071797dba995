// simp_units.c: reshapes that only add or drop dimensions of size 1 move after other operations, so
// that these do not separate what can be fused. Maps: reshape_last() (simp_reshape.c).
#include "simp.h"

// Does reshape n only add or drop size-1 dimensions?
bool units_only(const Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->type;
  int i = 0, j = 0;
  for (;; i++, j++) {
    while (i < a->rank && a->dim[i] == 1) i++;
    while (j < b->rank && b->dim[j] == 1) j++;
    if (i == a->rank || j == b->rank || a->dim[i] != b->dim[j]) break;
  }
  return i == a->rank && j == b->rank;
}

// Does reshape n, of a computed value, only add or drop size-1 dimensions?
static bool adds_units(const Node *n) {
  return node_is_move(n, MoveReshape) && !n->fixed && n->in[0]->op->cls != OpSource &&
         units_only(n);
}

// The dimension of reshape n's input that its dimension d is, where it only adds or drops others of
// size 1; -1 if d has size 1.
static int dim_before(const Node *n, int d) {
  const Type *a = &n->in[0]->type, *b = &n->type;
  int at = -1;
  if (b->dim[d] == 1) return -1;
  for (int i = 0; i <= d; i++) {
    if (b->dim[i] == 1) continue;
    do at++;
    while (a->dim[at] == 1);
  }
  return at;
}

// f(reshape(x)) = reshape(f(x)) of reductions, scans and selections, if the reshape only adds or
// drops size-1 dimensions. Not of reductions to one number, which can share a kernel if they reduce
// the same shape.
Node *units_last(Graph *to, Node *n) {
  bool along = n->op->cls == OpScan || op_ranks(n->op);
  bool reduces = n->op->cls == OpReduce && type_count(&n->type) > 1;
  if (!(along || reduces) || n->nin != 1 || n->in[0]->fixed ||
      !node_is_move(n->in[0], MoveReshape) || !units_only(n->in[0]))
    return NULL;
  Attr attr = n->attr;
  Node *x = n->in[0]->in[0];
  // Maps that read a reshaped source stay behind the reshape, so its reductions do, too.
  if (node_has_memory(x) && n->in[0]->uses > 1) return NULL;
  if (along) {
    attr.axis = dim_before(n->in[0], (int)n->attr.axis);
    if (attr.axis < 0) return NULL;
  } else {
    attr.axes = 0;
    for (int d = 0; d < n->in[0]->type.rank; d++) {
      int before = n->attr.axes >> d & 1 ? dim_before(n->in[0], d) : -1;
      if (before >= 0) attr.axes |= (int64_t)1 << before;
    }
    if (!attr.axes) return NULL;
  }
  simp_uses_of(x, n->in[0]);
  return reshape_as(to, simp_make(to, n->op, 1, &x, &attr, n), n->type.rank, n->type.dim);
}

// take_along(reshape(x), reshape(places)) = reshape(take_along(x, places)), if both reshapes add or
// drop the same dimensions of size 1.
Node *units_after_along(Graph *to, Node *n) {
  if (!node_is_move(n, MoveAlong) || !adds_units(n->in[0]) || !adds_units(n->in[1])) return NULL;
  const Node *x = n->in[0], *places = n->in[1];
  Attr attr = {.axis = dim_before(x, (int)n->attr.axis)};
  bool same = attr.axis >= 0 && x->in[0]->type.rank == places->in[0]->type.rank;
  for (int d = 0; d < n->type.rank && same; d++) same = dim_before(x, d) == dim_before(places, d);
  if (!same) return NULL;
  Node *in[2] = {x->in[0], places->in[0]};
  return reshape_as(to, simp_make(to, n->op, 2, in, &attr, n), n->type.rank, n->type.dim);
}

bool units_slice_before(const Node *n, Attr *slice) {
  if (!node_is_move(n, MoveSlice) || !adds_units(n->in[0]) || !type_count(&n->type)) return false;
  const Type *x = &n->in[0]->in[0]->type;
  *slice = (Attr){0};
  for (int d = 0; d < x->rank; d++) slice->ends[d] = x->dim[d];
  for (int d = 0; d < n->type.rank; d++) {
    int before = dim_before(n->in[0], d);
    if (before >= 0) slice->dims[before] = n->attr.dims[d], slice->ends[before] = n->attr.ends[d];
  }
  return true;
}

// matmul(reshape(a), b) = reshape(matmul(a, b)) of a matrix b, if the reshape only adds or drops
// dimensions of size 1 before the rows of a: products of one operand become one.
Node *units_after_product(Graph *to, Node *n) {
  bool product = n->op->cls == OpContract && n->op->maps->leading && n->in[1]->type.rank == 2;
  Node *moved = product && node_is_move(n->in[0], MoveReshape) ? n->in[0] : NULL;
  if (!moved || moved->fixed || !units_only(moved)) return NULL;
  Node *in[2] = {moved->in[0], n->in[1]};
  int rank = in[0]->type.rank;
  if (rank < 2 || rank >= n->type.rank || in[0]->type.dim[rank - 1] != n->in[1]->type.dim[0])
    return NULL;
  Node *made = simp_make(to, n->op, 2, in, &n->attr, n);
  return reshape_as(to, made, n->type.rank, n->type.dim);
}

// An order of shapes with the same sizes but for those of 1: fewer dimensions come first.
static bool is_before(const Type *a, const Type *b) {
  if (a->rank != b->rank) return a->rank < b->rank;
  for (int d = 0; d < a->rank; d++)
    if (a->dim[d] != b->dim[d]) return a->dim[d] < b->dim[d];
  return false;
}

// May map n be computed in the shape that `moved` had before it got or lost size-1 dimensions? If
// another input is computed in n's shape, the shape that comes first is taken.
bool units_may_follow(const Node *moved, const Node *n) {
  bool first = is_before(&moved->in[0]->type, &n->type);
  if (!adds_units(moved) || type_count(&n->type) == 1) return false;
  for (int i = 0; i < n->nin; i++) {
    const Node *x = n->in[i];
    bool free = x->op->cls == OpSource || x->fixed || node_is_move(x, MoveReshape);
    if (!free && !first) return false;
  }
  return true;
}
