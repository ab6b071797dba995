// gemv.c: matrix-vector products (batched, too), dot products, many pairs of small matrices, and
// 1 x 1 convolutions with one output channel. Each matrix element is used once or a few times, so
// that an mma tile would be empty except for a row or a corner. They are rewritten as a
// multiplication and a sum over k, in the matrix's memory order; if k is 1, without the sum.
#include "pass.h"

#include <string.h>

// Makes `made` the replacement of n: takes its type and uses.
static Node *instead(Node *n, Node *made) {
  made->type = n->type;
  made->uses = n->uses;
  n->uses = 0;
  return made;
}

static Node *multiply(Graph *to, Node *n, Node *a, Node *b) {
  Node *made = graph_add(to, op_need(to->c, "mul"), 2, (Node *[]){a, b}, NULL, n);
  shape_infer(to->c, made);
  return made;
}

static bool is_innermost(const Node *n, int d) {
  int64_t stride[MaxRank];
  type_strides(&n->type, stride);
  return stride[d] <= 1;
}

// Sets t's order to that of `matrix`, which has its last dimensions; k is innermost if it is in the
// matrix.
static void order_as(Type *t, const Node *matrix, int k) {
  int before = t->rank - matrix->type.rank, at = before;
  bool innermost = is_innermost(matrix, k - before);
  for (int d = 0; d < before; d++) t->order[d] = (uint8_t)d;
  for (int i = 0; i < matrix->type.rank; i++) {
    int d = before + (innermost ? i : matrix->type.order[i]);
    if (!innermost || d != k) t->order[at++] = (uint8_t)d;
  }
  if (innermost) t->order[at] = (uint8_t)k;
}

static Node *sum_along(Graph *to, Node *n, Node *products, int64_t axes) {
  products->type.dtype = DtF32;
  products->uses = 1;
  Node *sum = graph_add(to, op_need(to->c, "reduce_sum"), 1, &products, &(Attr){.axes = axes}, n);
  shape_infer(to->c, sum);
  return sum;
}

// The sum over dimension k of a * b, fused, so that a * b is not stored; a: the matrix.
static Node *sum_products(Graph *to, Node *n, Node *a, Node *b, int k) {
  Node *products = multiply(to, n, a, b);
  order_as(&products->type, a, k);
  Node *sum = sum_along(to, n, products, 1 << k);
  if (sum->type.rank == n->type.rank) return instead(n, sum);
  Attr attr = {0};
  for (int d = 0; d < n->type.rank; d++) attr.dims[d] = n->type.dim[d];
  sum->uses = 1;
  return instead(n, graph_move(to, "reshape", sum, n->type.rank, &attr));
}

// (..., K, 1) from (..., 1, K), or the reverse, with the same memory layout.
static Node *turned(Graph *to, Node *x) {
  int rank = x->type.rank;
  Attr attr = {0};
  for (int d = 0; d < rank; d++) attr.dims[d] = d;
  attr.dims[rank - 2] = rank - 1;
  attr.dims[rank - 1] = rank - 2;
  return graph_move(to, "permute", x, rank, &attr);
}

// x with a dimension of size 1 before its dimension `at`.
static Node *unsqueezed(Graph *to, Node *x, int at) {
  Attr attr = {0};
  for (int d = 0; d <= x->type.rank; d++)
    attr.dims[d] = d == at ? 1 : x->type.dim[d - (d > at)];
  return graph_move(to, "reshape", x, x->type.rank + 1, &attr);
}

// Are there many pairs of matrices so small that tiles would be mostly empty?
static bool are_small(const Node *n, int64_t k) {
  enum { kSide = 8, kDepth = 256, kBatch = 256 };
  const Type *x = &n->in[0]->type, *w = &n->in[1]->type, *t = &n->type;
  bool matrices = t->rank > 2 && t->rank < MaxRank && x->rank == t->rank && w->rank == t->rank;
  if (!matrices || !layout_row_major(x) || !layout_row_major(w)) return false;
  int64_t rows = t->dim[t->rank - 2], columns = t->dim[t->rank - 1];
  return rows <= kSide && columns <= kSide && k <= kDepth &&
         type_count(t) / (rows * columns) >= kBatch;
}

// Is n a 1 x 1 convolution with one output channel, or a gradient of one?
static bool is_one_filter(const Node *n) {
  const Attr *a = &n->attr;
  bool pixel = a->stride[0] == 1 && a->stride[1] == 1 && a->groups == 1;
  for (int i = 0; i < 4; i++) pixel = pixel && a->pad[i] == 0;
  const Type *filter = maps_type(n, PartFilter);
  return pixel && filter->dim[0] == 1 && filter->dim[2] == 1 && filter->dim[3] == 1;
}

// Such a convolution is a sum over channels, its data gradient no sum, its filter gradient a sum
// over pixels, in any memory order. Returns n itself if it is none of these.
Node *gemv_filter(Graph *to, Node *n) {
  if (maps_gives(n) == PartNone || !is_one_filter(n)) return n;
  bool filter = maps_gives(n) == PartFilter;
  Node *products = multiply(to, n, n->in[0], n->in[1]);
  if (maps_gives(n) == PartImage) return instead(n, products);
  const Type *image = maps_type(n, PartImage);
  memcpy(products->type.order, image->order, sizeof image->order);
  return instead(n, sum_along(to, n, products, filter ? 1 << 0 | 1 << 2 | 1 << 3 : 1 << 1));
}

// The replacement of contraction n, whose operands may have any order, or n itself.
Node *gemv_product(Graph *to, Node *n) {
  if (maps_gives(n) != PartNone) return n;
  Node *x = n->in[0], *w = n->in[1];
  int rx = x->type.rank, rank = n->type.rank;
  int64_t k = x->type.dim[rx - 1], multiplies = type_count(&n->type) * k;
  if (k == 1) return instead(n, multiply(to, n, x, w));
  if (type_count(&w->type) == multiplies) return sum_products(to, n, w, turned(to, x), rank - 2);
  if (type_count(&x->type) == multiplies) return sum_products(to, n, x, turned(to, w), rank - 1);
  if (!are_small(n, k)) return n;
  return sum_products(to, n, unsqueezed(to, w, rank - 2), unsqueezed(to, x, rank), rank - 1);
}
