// vector.c: products of a matrix and a vector (as many as there are), and of two vectors. Each
// element of the matrix is used once: an mma tile would be empty but for one row. They are written
// as products that are added up along k, where k is innermost in both operands and a row of
// rowwise.cu; where k is 1, there is nothing to add up.
#include "pass.h"

// Takes the place of n: its type, and its uses.
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

// The sum over dimension k of a * b, which is never in memory.
static Node *sum_products(Graph *to, Node *n, Node *a, Node *b, int k) {
  Node *products = multiply(to, n, a, b);
  Type *t = &products->type;
  t->dtype = DtF32;
  for (int d = 0, at = 0; d < t->rank; d++) // k innermost
    if (d != k) t->order[at++] = (uint8_t)d;
  t->order[t->rank - 1] = (uint8_t)k;
  products->uses = 1;
  Node *sum = graph_add(to, op_need(to->c, "reduce_sum"), 1, &products, &(Attr){.axes = 1 << k}, n);
  shape_infer(to->c, sum);
  return instead(n, sum);
}

// (..., K, 1) of (..., 1, K), and the other way round: it lies the same.
static Node *turned(Graph *to, Node *x) {
  int rank = x->type.rank;
  Attr attr = {0};
  for (int d = 0; d < rank; d++) attr.dims[d] = d;
  attr.dims[rank - 2] = rank - 1;
  attr.dims[rank - 1] = rank - 2;
  return graph_move(to, "permute", x, rank, &attr);
}

static bool k_innermost(const Node *n, int k) {
  int64_t stride[MaxRank];
  type_strides(&n->type, stride);
  return stride[k] <= 1;
}

// What takes the place of product n, whose operands lie as they will: itself, where it is none of
// these.
Node *vector_product(Graph *to, Node *n) {
  if (n->op->form != FormMatmul) return n;
  Node *x = n->in[0], *w = n->in[1];
  int rx = x->type.rank, rw = w->type.rank, rank = n->type.rank;
  int64_t k = x->type.dim[rx - 1], multiplies = type_count(&n->type) * k;
  if (k == 1) return instead(n, multiply(to, n, x, w));
  if (!k_innermost(x, rx - 1) || !k_innermost(w, rw - 2)) return n;
  if (type_count(&w->type) == multiplies) return sum_products(to, n, w, turned(to, x), rank - 2);
  if (type_count(&x->type) == multiplies) return sum_products(to, n, x, turned(to, w), rank - 1);
  return n;
}
