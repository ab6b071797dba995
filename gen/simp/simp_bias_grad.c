// simp_bias_grad.c: gradients of biases of scores that are reshaped to a grid (2-D relative
// positions): sums of probabilities (or their gradients) over part of the grid's row or key
// dimensions. They become matmuls with a 0/1 membership matrix, which maps each key, or row, to its
// sum: attention backward (attend_backward.c) computes these without storing the probabilities.
#include "simp.h"

#include <string.h>

enum { kMostSearched = 64 }; // nodes visited per search

// Probabilities, in the shape of their scores, reshaped to `grid` and summed over dimensions `axes`
// (bits).
typedef struct Parts {
  Node *weights;
  Type grid;
  int64_t axes;
  int keys, rows; // first dimension of the grid for keys, for rows; each ends where the next begin
} Parts;

// Dimensions of `in` that correspond to dimensions `axes` of its reshape `out`; false if `axes` has
// only a part of one.
static bool axes_below(const Type *in, const Type *out, int64_t axes, int64_t *below) {
  *below = 0;
  for (GridRun r = {0}; grid_run(in, out, &r);) {
    bool some = false, all = true;
    for (int d = r.j; d < r.j_end; d++) {
      bool summed = axes >> d & 1;
      if (out->dim[d] > 1) some = some || summed, all = all && summed;
    }
    if (some && !all) return false;
    for (int d = r.i; d < r.i_end && some; d++) *below |= 1 << d;
  }
  return true;
}

// The first grid dimension of dimension d of `t`, or -1 if its run contains other dimensions.
static int begins(const Type *grid, const Type *t, int d) {
  GridRun r = {0};
  while (grid_run(grid, t, &r) && !(d >= r.j && d < r.j_end)) {}
  return r.j_end - r.j == 1 ? r.i : -1;
}

// Appends a dimension to the grid; false if it would have too many.
static bool add_dim(Parts *p, int64_t size, bool summed) {
  if (p->grid.rank == MaxRank) return false;
  if (summed) p->axes |= 1 << p->grid.rank;
  p->grid.dim[p->grid.rank++] = size;
  return true;
}

// The grid of sum's input, where the sum is reshaped to `out` and summed over `axes`: `out` with
// the dimensions of `sum` inserted; false if they would split one of `out`.
static bool grid_below(Parts *p, const Node *sum, const Type *out, int64_t axes) {
  const Type *in = &sum->in[0]->type;
  int at = 0;
  Type kept = {0};
  for (int d = 0; d < in->rank; d++)
    if (!(sum->attr.axes >> d & 1)) kept.dim[kept.rank++] = in->dim[d];
  p->grid.rank = 0, p->axes = 0;
  for (GridRun r = {0}; grid_run(&kept, out, &r);) {
    for (; at < in->rank && sum->attr.axes >> at & 1; at++)
      if (!add_dim(p, in->dim[at], true)) return false;
    for (int end = at + r.i_end - r.i; at < end; at++)
      if (sum->attr.axes >> at & 1) return false;
    for (int d = r.j; d < r.j_end; d++)
      if (!add_dim(p, out->dim[d], axes >> d & 1)) return false;
  }
  for (; at < in->rank; at++)
    if (!add_dim(p, in->dim[at], true)) return false;
  return true;
}

// Is n 0 wherever an exponential of scores is? (The exponential is a factor of n, or of both its
// terms.)
static bool is_weights(const Node *n, const Type *scores, int *left) {
  if (--*left < 0 || n->op->cls != OpMap || !type_same_shape(&n->type, scores)) return false;
  if (n->op->flags & FlagExp) return true;
  bool chooses = n->op->typing == TypeWhere, any = n->op->flags & FlagMul || chooses,
       both = n->op->flags & (FlagAdd | FlagSub),
       one = n->op->flags & (FlagCopy | FlagDiv | FlagNeg) || n->op->typing == TypeConvert;
  if (both) return is_weights(n->in[0], scores, left) && is_weights(n->in[1], scores, left);
  bool found = false;
  for (int i = chooses; i < (any ? n->nin : one) && !found; i++) {
    const Node *other = chooses ? n->in[3 - i] : NULL;
    if (other && !(node_is_literal(other) && other->attr.value == 0)) continue;
    found = is_weights(n->in[i], scores, left);
  }
  return found;
}

// Walks from n's input up to probabilities, through sums and reshapes.
static bool find_parts(const Node *n, Parts *p) {
  Node *x = n->in[0];
  p->axes = n->attr.axes;
  for (; sum_of_floats(x) || (node_is_move(x, MoveReshape) && x->in[0]->op->cls == OpMove);
       x = x->in[0])
    if (sum_of_floats(x))
      p->axes |= x->attr.axes;
    else if (!axes_below(&x->in[0]->type, &x->type, p->axes, &p->axes))
      return false;
  if (!node_is_move(x, MoveReshape)) return false;
  Node *of = x->in[0];
  p->weights = sum_of_floats(of) ? of->in[0] : of;
  p->grid = x->type;
  if (sum_of_floats(of) && !grid_below(p, of, &x->type, p->axes)) return false;
  int rank = p->weights->type.rank, left = kMostSearched;
  if (!is_weights(p->weights, &p->weights->type, &left) || !reshape_scores(p->weights))
    return false;
  p->keys = begins(&p->grid, &p->weights->type, rank - 1);
  p->rows = begins(&p->grid, &p->weights->type, rank - 2);
  return p->rows >= 0 && p->keys > p->rows;
}

// Of grid dimensions [from, to): are some summed, are some kept?
static void summed(const Parts *p, int from, int to, bool *some, bool *kept) {
  *some = *kept = false;
  for (int d = from; d < to; d++)
    if (p->grid.dim[d] > 1) *(p->axes >> d & 1 ? some : kept) = true;
}

// Membership matrix: a row per element of grid dimensions [from, end), a column per element of
// those kept; 1 where they correspond, else 0.
static Node *membership(Graph *to, const Parts *p, int from, int end, const Node *like) {
  int64_t after = 1, columns = 1;
  Node *of = NULL;
  for (int d = end - 1; d >= from; after *= p->grid.dim[d--]) {
    int64_t size = p->grid.dim[d];
    if (p->axes >> d & 1 || size == 1) continue;
    int64_t rows = 1;
    for (int i = from; i < end; i++) rows *= p->grid.dim[i];
    Type shape = type_make(DtI32, 2, (int64_t[]){rows, 1});
    Node *at = simp_with(to, "floordiv", simp_index(to, 0, &shape, like), (double)after);
    at = simp_with(to, "mod", at, (double)size);
    at = simp_with(to, "mul", at, (double)columns);
    Node *both[2] = {of, at};
    of = of ? simp_make(to, op_need(to->c, "add"), 2, both, NULL, like) : at;
    columns *= size;
  }
  Type shape = type_make(DtI32, 2, (int64_t[]){1, columns});
  Node *equal[2] = {of, simp_index(to, 1, &shape, like)}, *in[3];
  Type scalar = type_make(DtF32, 0, NULL);
  in[0] = simp_make(to, op_need(to->c, "eq"), 2, equal, NULL, like);
  in[1] = simp_const(to, 1, &scalar, like), in[2] = simp_const(to, 0, &scalar, like);
  return simp_make(to, op_need(to->c, "where"), 3, in, NULL, like);
}

// x has the grid's shape, except that summed dimensions in [from, end) have size 1: sums over the
// rest, in the shape of n.
static Node *rest_summed(Graph *to, const Parts *p, Node *x, int from, int end, const Node *n) {
  int64_t dims[MaxRank];
  Attr attr = {0};
  for (int d = 0; d < p->grid.rank; d++) {
    bool inside = d >= from && d < end, sums = p->axes >> d & 1;
    dims[d] = inside && sums ? 1 : p->grid.dim[d];
    if (!inside && sums && p->grid.dim[d] > 1) attr.axes |= 1 << d;
  }
  x = reshape_as(to, x, p->grid.rank, dims);
  if (attr.axes) x = simp_make(to, n->op, 1, &x, &attr, n);
  return reshape_as(to, x, n->type.rank, n->type.dim);
}

static Node *times(Graph *to, Node *weights, Node *by) {
  int left = kMostSearched;
  const Node *of = reshape_turns(weights) ? weights->in[0] : weights;
  const Node *like = reshape_product(of, NULL, &left);
  Node *in[2] = {weights, by};
  return like ? simp_make(to, like->op, 2, in, &like->attr, like) : NULL;
}

// Sums over whole dimensions of the scores need no grid.
static Node *whole_summed(Graph *to, const Parts *p, const Node *n) {
  Attr attr = {0};
  Node *x = p->weights;
  if (!axes_below(&x->type, &p->grid, p->axes, &attr.axes)) return NULL;
  for (int d = 0; d < x->type.rank; d++)
    if (x->type.dim[d] == 1) attr.axes &= ~(1 << d);
  if (attr.axes) x = simp_make(to, n->op, 1, &x, &attr, n);
  return reshape_as(to, x, n->type.rank, n->type.dim);
}

// Is recomputing the scores for a matmul fast enough: 16 bits and many rows? TF32 would keep too
// few bits for such sums, whose terms cancel.
static bool product_pays(const Parts *p) {
  enum { kLeastRows = 16 };
  int left = kMostSearched;
  const Node *like = reshape_product(p->weights, NULL, &left);
  bool narrow = like && (like->precision == PrecFp16 || like->precision == PrecBf16);
  return narrow && p->weights->type.dim[p->weights->type.rank - 2] >= kLeastRows;
}

Node *parts_summed(Graph *to, Node *n) {
  Parts p;
  if (!options_flash(&to->c->options) || !sum_of_floats(n)) return NULL;
  if (!find_parts(n, &p) || !product_pays(&p)) return NULL;
  bool of_keys, of_rows, keys, rows;
  int end = p.grid.rank;
  summed(&p, p.keys, end, &of_keys, &keys);
  summed(&p, p.rows, p.keys, &of_rows, &rows);
  if (of_keys && keys) {
    Node *product = times(to, p.weights, membership(to, &p, p.keys, end, n));
    return product ? rest_summed(to, &p, product, p.keys, end, n) : NULL;
  }
  if (of_rows && rows && !of_keys) {
    Node *turned = reshape_turned(to, p.weights);
    Node *product = times(to, turned, membership(to, &p, p.rows, p.keys, n));
    return product ? rest_summed(to, &p, reshape_turned(to, product), p.rows, p.keys, n) : NULL;
  }
  return whole_summed(to, &p, n);
}
