// simp_slices.c: slices of reshaped products, as slices of their columns: halves of a GLU, and q, k
// and v.
#include "simp.h"

#include <string.h>

enum { kMostSearched = 64 }; // nodes visited per search

static int64_t count_before(const Type *t, int d) { // elements of the dimensions before d
  int64_t count = 1;
  for (int i = 0; i < d; i++) count *= t->dim[i];
  return count;
}

// The dimension of x that begins where dimension d of its reshape n begins, and is longer, or -1.
static int dim_split(const Node *n, int d) {
  const Type *x = &n->in[0]->type;
  int64_t before = count_before(&n->type, d);
  for (int i = 0; i < x->rank; i++)
    if (x->dim[i] > n->type.dim[d] && count_before(x, i) == before)
      return x->dim[i] % n->type.dim[d] ? -1 : i;
  return -1;
}

// slice(reshape(x)) = reshape(slice(x)) of a product x, or maps of one, if the reshape splits a
// dimension and the slice cuts the outer part of it: halves of columns (GLU) written as a dimension
// of 2.
Node *slice_first(Graph *to, Node *n) {
  int left = kMostSearched;
  Node *moved = node_is_move(n, MoveSlice) && type_count(&n->type) ? n->in[0] : NULL;
  if (!moved || !node_is_move(moved, MoveReshape) || moved->fixed) return NULL;
  Node *x = moved->in[0];
  int d = node_sliced_dim(n), of = d < 0 ? -1 : dim_split(moved, d);
  if (of < 0 || !reshape_product(x, NULL, &left)) return NULL;
  Attr attr = {0};
  memcpy(attr.ends, x->type.dim, sizeof x->type.dim);
  int64_t inner = x->type.dim[of] / moved->type.dim[d];
  attr.dims[of] = n->attr.dims[d] * inner, attr.ends[of] = n->attr.ends[d] * inner;
  Node *slice = simp_make(to, n->op, 1, &x, &attr, n);
  return reshape_as(to, slice, n->type.rank, n->type.dim);
}

// A slice of a reshaped product, of one of equal parts of a dimension, splits that dimension: q, k
// and v of each head side by side, cut as (H, 3 D), become those of (H, 3, D). Not of two parts:
// the halves of rotary embeddings stay halves.
Node *slice_split(Graph *to, Node *n) {
  int left = kMostSearched, d;
  Node *moved = node_is_move(n, MoveSlice) && type_count(&n->type) ? n->in[0] : NULL;
  if (!moved || !node_is_move(moved, MoveReshape) || moved->fixed) return NULL;
  if (moved->type.rank == MaxRank || (d = node_sliced_dim(n)) != n->type.rank - 1) return NULL;
  int64_t size = n->type.dim[d], whole = moved->type.dim[d], dims[MaxRank];
  if (size < 2 || whole % size || whole / size < 3 || n->attr.dims[d] % size) return NULL;
  if (!reshape_product(moved->in[0], NULL, &left)) return NULL;
  Attr attr = {0};
  for (int i = 0; i <= moved->type.rank; i++) {
    dims[i] = i < d ? moved->type.dim[i] : i == d ? whole / size : moved->type.dim[i - 1];
    if (i == d + 1) dims[i] = size;
    attr.ends[i] = dims[i];
  }
  attr.dims[d] = n->attr.dims[d] / size, attr.ends[d] = attr.dims[d] + 1;
  Node *split = reshape_as(to, moved, moved->type.rank + 1, dims);
  Node *slice = simp_make(to, n->op, 1, &split, &attr, n);
  return reshape_as(to, slice, n->type.rank, n->type.dim);
}
