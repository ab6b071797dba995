// contract.c: a contraction seen as one matrix product per batch, out[m, n] = sum over k of
// a[m, k] * b[n, k], and how its operands reach shared memory. A convolution is the same product
// with m = (image, row, column), k = (tap row, tap column, channel), a batch per group of channels.
#include "sched.h"

enum {
  kMostCopied = 16, // bytes of one asynchronous copy
  kLeastCopied = 4,
  kMostTapBytes = 4096, // the table of taps
  kMostTold = 31        // rows and columns of taps, a bit each in the kernel
};

// The largest piece, in elements, that a copy can take: the run along `dim` comes in whole pieces,
// and where it begins and every other step is a multiple of one. 0: none.
static int piece_along(const Operand *o, int rank, int dim, int64_t run, int size) {
  int piece = o->stride[dim] > 1 ? 1 : kMostCopied / size;
  while (o->offset % piece) piece /= 2;
  for (int d = 0; d < rank; d++)
    while (piece > 1 && (d == dim ? run : o->stride[d]) % piece) piece /= 2;
  return piece * size >= kLeastCopied ? piece : 0;
}

// Fills in `o`, whose base and strides are known. k_dim, row_dim: the dimensions of k and of m or n
// (row_dim < 0: there is not one such dimension); run: how many k follow each other in memory.
static void choose_access(Operand *o, int rank, int k_dim, int64_t run, int row_dim, int64_t rows,
                          int size) {
  o->piece = piece_along(o, rank, k_dim, run, size);
  if (row_dim < 0 || o->stride[row_dim] != 1 || o->stride[k_dim] <= 1) return;
  int piece = piece_along(o, rank, row_dim, rows, size);
  if (piece > o->piece) o->piece = piece, o->across = true;
}

// The filter's taps and channels follow each other: k is one run.
static bool taps_follow(const Node *w, const int64_t *stride) {
  const int64_t *dim = w->type.dim;
  return (dim[1] == 1 || stride[1] == 1) && (dim[3] == 1 || stride[3] == dim[1]) &&
         (dim[2] == 1 || stride[2] == dim[1] * dim[3]);
}

static bool reachable(const Group *g, const Node *n, Operand *o) {
  o->base = view_of(g, n, o->stride, &o->offset);
  return o->base && o->base->type.dtype == prec_operand(g->anchor);
}

// Do taps of this convolution fall outside the image?
static bool taps_leave(const Node *n) {
  const Attr *a = &n->attr;
  for (int i = 0; i < 2; i++) {
    int64_t last = (n->type.dim[2 + i] - 1) * a->stride[i] - a->pad[i] +
                   (node_window(n, i) - 1) * a->dilation[i];
    if (a->pad[i] > 0 || last >= n->in[0]->type.dim[2 + i]) return true;
  }
  return false;
}

// How many elements of k share an entry of the table of taps: a block of k, where each lies in one
// tap, else the piece that a copy takes. 0: there is no table, or it would be too large.
static int tap_run(const Node *w, const Product *p) {
  int block = kRowBytes / p->size;
  if (!p->a.piece || w->type.dim[2] * w->type.dim[3] == 1) return 0;
  Product looked = *p;
  bool whole = w->type.dim[1] % block == 0 && p->a.piece * p->size == kMostCopied;
  looked.tap_run = whole ? block : p->a.piece;
  return tile_tap_bytes(&looked) <= kMostTapBytes ? looked.tap_run : 0;
}

static void conv_operands(const Group *g, const Node *n, Product *p) {
  const Node *x = n->in[0], *w = n->in[1];
  bool told = !p->taps_leave || w->type.dim[2] + w->type.dim[3] <= kMostTold;
  if (told && reachable(g, x, &p->a)) choose_access(&p->a, 4, 1, w->type.dim[1], -1, 0, p->size);
  p->tap_run = tap_run(w, p);
  if (!reachable(g, w, &p->b) || !taps_follow(w, p->b.stride)) return;
  p->b.stride[1] = 1;
  p->b.stride[2] = p->b.stride[3] = 0; // taps and channels count as one
  choose_access(&p->b, 4, 1, p->k, -1, 0, p->size);
}

// Is a value that the group computes made by maps alone, element by element?
static bool maps_alone(const Group *g, const Node *made) {
  const Node **seen = arena_alloc(g->graph->arena, sizeof *seen * (size_t)g->nnodes);
  int count = 0;
  seen[count++] = made;
  for (int i = 0; i < count; i++) {
    if (seen[i]->op->cls != OpMap) return false;
    for (int j = 0; j < seen[i]->nin; j++) {
      const Node *from = seen[i]->in[j];
      int k = 0;
      while (k < count && seen[k] != from) k++;
      if (from->group == g && k == count) seen[count++] = from;
    }
  }
  return true;
}

// Batch dimensions beside the rows become rows, from the innermost: those that B does not have, as
// long as A, where it lies in memory, steps through both by one stride. A linear layer over (batch,
// time, channels) is one product of batch * time rows. `lies`: A's base and strides are known.
static void merge_rows(const Group *g, const Node *n, bool lies, Product *p) {
  const Type *y = &n->type, *b = &n->in[1]->type;
  int rank_a = n->in[0]->type.rank;
  int64_t *step = &p->a.stride[rank_a - 2];
  if (!lies && !maps_alone(g, n->in[0])) return;
  for (int d = y->rank - 3; d >= 0; d--) {
    int d_a = d - (y->rank - rank_a), d_b = d - (y->rank - b->rank);
    if (y->dim[d] == 1) continue;
    if (d_b >= 0 && b->dim[d_b] > 1) return;
    if (lies && p->m > 1 && p->a.stride[d_a] != p->m * *step) return;
    if (lies && p->m == 1) *step = p->a.stride[d_a];
    if (lies) p->a.stride[d_a] = 0; // counted as rows
    p->m *= y->dim[d];
    p->first_row = d;
  }
}

static void matmul_operands(const Group *g, const Node *n, Product *p) {
  const Node *a = n->in[0], *b = n->in[1];
  int ra = a->type.rank, rb = b->type.rank;
  bool lies = reachable(g, a, &p->a);
  merge_rows(g, n, lies, p);
  if (lies) choose_access(&p->a, ra, ra - 1, p->k, ra - 2, p->m, p->size);
  if (reachable(g, b, &p->b)) choose_access(&p->b, rb, rb - 2, p->k, rb - 1, p->n, p->size);
}

Product contract_product(const Group *g) {
  const Node *n = g->anchor;
  const Type *w = &n->in[1]->type, *y = &n->type;
  Product p = {.size = (int)dtype_size(prec_operand(g->anchor))};
  if (n->op->form == FormConv) {
    p.batch = n->attr.groups;
    p.m = y->dim[0] * y->dim[2] * y->dim[3];
    p.n = w->dim[0] / p.batch;
    p.k = w->dim[1] * w->dim[2] * w->dim[3];
    p.taps_leave = taps_leave(n);
    conv_operands(g, n, &p);
  } else {
    p.m = y->dim[y->rank - 2];
    p.n = y->dim[y->rank - 1];
    p.k = w->dim[w->rank - 2];
    p.first_row = y->rank - 2;
    matmul_operands(g, n, &p);
    p.batch = type_count(y) / (p.m * p.n);
  }
  return p;
}
