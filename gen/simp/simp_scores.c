// simp_scores.c: rules that bring softmax(QK^T) into the form attend.c matches: scale after the
// matmul, powers as exp, softmax over the last dimension, separate batch dimensions, and sums of
// matmuls as one.
#include "simp.h"

#include <math.h>
#include <string.h>

// ---- factors and sums moved out of matmuls ------------------------------------------------------

// Has c one value per matrix?
static bool is_of_matrices(const Node *c) {
  for (int d = 1; d <= 2 && d <= c->type.rank; d++)
    if (c->type.dim[c->type.rank - d] != 1) return false;
  return dtype_is_float(c->type.dtype);
}

// The input of n, a multiplication or division, that is scaled by one value per matrix, or -1.
static int scaled_input(const Node *n) {
  if (!node_is_map(n, FlagMul | FlagDiv) || n->nin != 2 || !dtype_is_float(n->type.dtype))
    return -1;
  for (int i = 0; i < (n->op->flags & FlagDiv ? 1 : 2); i++)
    if (type_same_shape(&n->in[i]->type, &n->type) && dtype_is_float(n->in[i]->type.dtype) &&
        is_of_matrices(n->in[1 - i]) && !is_of_matrices(n->in[i]))
      return i;
  return -1;
}

// Matmul n with operand i replaced by x; if the operand was transposed, by x transposed.
static Node *with_operand(Graph *to, const Node *n, int i, Node *x) {
  Node *in[2] = {n->in[0], n->in[1]};
  in[i] = reshape_turns(n->in[i]) ? reshape_turned(to, x) : x;
  return simp_make(to, n->op, 2, in, &n->attr, n);
}

static Node *unturned(Node *x) {
  return reshape_turns(x) ? x->in[0] : x;
}

static Node *softmax_sum(const Node *n);

// Is x of the form e / sum(e)?
static bool is_normalised(const Node *x) {
  return x->op->flags & FlagDiv && x->in[1]->op->cls == OpReduce && x->in[1]->in[0] == x->in[0];
}

// (a c) b = (a b) c, if c has one value per matrix. Not applied to constant weights (folded by
// simp.c), to scores (attend_backward.c expects the factor there), or to probability sums
// (sum_inside).
Node *scale_behind(Graph *to, Node *n) {
  if (!reshape_batched(n) || n->in[1]->fixed) return NULL;
  for (int i = 0; i < 2; i++) {
    Node *x = unturned(n->in[i]);
    int of = scaled_input(x);
    if (of < 0 || reshape_scores(x) || is_normalised(x)) continue;
    return simp_binary(to, x->op, with_operand(to, n, i, x->in[of]), x->in[1 - of], n);
  }
  return NULL;
}

// The value that x expands along batches, or NULL.
static Node *repeated(const Node *x) {
  if (x->op->cls != OpMap || x->op->typing != TypeWhere || x->in[1] != x->in[2]) return NULL;
  Node *one = x->in[1];
  const Type *all = &x->type, *t = &one->type;
  bool matrices = t->rank > 2 && t->dtype == all->dtype &&
                  t->dim[t->rank - 1] == all->dim[all->rank - 1] &&
                  t->dim[t->rank - 2] == all->dim[all->rank - 2];
  return matrices ? one : NULL;
}

// Removes the expand of an operand: batched matmul broadcasts by itself (grouped-query attention).
Node *repeats_read(Graph *to, Node *n) {
  if (!reshape_batched(n)) return NULL;
  for (int i = 0; i < 2; i++) {
    Node *one = repeated(unturned(n->in[i]));
    const Type *other = &n->in[1 - i]->type;
    bool has = one != NULL;
    for (int d = 3; has && d <= n->type.rank; d++) {
      int64_t wanted = n->type.dim[n->type.rank - d];
      bool own = d <= one->type.rank && one->type.dim[one->type.rank - d] == wanted;
      has = own || (d <= other->rank && other->dim[other->rank - d] == wanted);
    }
    if (has) return with_operand(to, n, i, one);
  }
  return NULL;
}

// The exponential that is a factor of all terms of n; *mixed: there are several.
static const Node *power_of(const Node *n, bool *mixed) {
  if (!node_is_map(n, FlagAdd | FlagSub)) return sum_power(n);
  const Node *a = power_of(n->in[0], mixed), *b = a ? power_of(n->in[1], mixed) : NULL;
  *mixed = *mixed || (b && a != b);
  return b;
}

// (a + b) v = a v + b v, where a and b are probabilities of different scores, maybe scaled per
// matrix: each is attention.
Node *weights_apart(Graph *to, Node *n) {
  if (!reshape_batched(n)) return NULL;
  for (int i = 0; i < 2; i++) {
    Node *x = unturned(n->in[i]), *part[2];
    int of = scaled_input(x);
    Node *sum = of < 0 ? x : x->in[of];
    bool mixed = false;
    if (!node_is_map(sum, FlagAdd | FlagSub) || !power_of(sum, &mixed) || !mixed ||
        !type_same_shape(&sum->in[0]->type, &sum->in[1]->type))
      continue;
    for (int j = 0; j < 2; j++) {
      part[j] = of < 0 ? sum->in[j] : simp_binary(to, x->op, sum->in[j], x->in[1 - of], x);
      part[j] = with_operand(to, n, i, part[j]);
    }
    return simp_binary(to, sum->op, part[0], part[1], n);
  }
  return NULL;
}

// Is r a map of the row sum of w and of literals only?
static bool is_of_sum(const Node *r, const Node *w) {
  if (r->op->cls == OpReduce)
    return r->op->flags & FlagAdd && r->in[0] == w && r->attr.axes == 1 << (w->type.rank - 1);
  bool found = false;
  for (int i = 0; r->op->cls == OpMap && i < r->nin; i++) {
    if (node_is_literal(r->in[i])) continue;
    if (!is_of_sum(r->in[i], w)) return false;
    found = true;
  }
  return found;
}

// (w v) / r = (w / r) v, if r is computed from the row sums of w, and w has an exponential as
// factor.
Node *sum_inside(Graph *to, Node *n) {
  Node *y = node_is_map(n, FlagDiv) ? n->in[0] : NULL, *r = y ? n->in[1] : NULL;
  if (!y || !reshape_batched(y) || y->uses > 1 || !sum_power(y->in[0]) ||
      !is_of_sum(r, y->in[0]) || !type_same_shape(&n->type, &y->type))
    return NULL;
  return with_operand(to, y, 0, simp_binary(to, n->op, y->in[0], r, y->in[0]));
}

// (p m) / sum(p m) = (e m) / sum(e m), where p = e / r is a softmax, and m a mask or dropout
// factor.
Node *sums_once(Graph *to, Node *n) {
  Node *w = node_is_map(n, FlagDiv) ? n->in[0] : NULL, *in[MaxInputs], *sum;
  bool chooses = w && w->op->typing == TypeWhere;
  if (!w || !is_normalised(n) || w->op->cls != OpMap || !(chooses || w->op->flags & FlagMul) ||
      n->in[1]->attr.axes != 1 << (w->type.rank - 1) || !reshape_scores(w))
    return NULL;
  for (int i = chooses; i < w->nin; i++) {
    const Node *p = w->in[i], *other = chooses ? w->in[3 - i] : NULL;
    if (other && !(node_is_literal(other) && other->attr.value == 0)) continue;
    const Node *r = type_same_shape(&p->type, &w->type) ? softmax_sum(p) : NULL;
    if (!r || r->type.dim[r->type.rank - 1] != 1) continue; // it varies along the row
    for (int j = 0; j < w->nin; j++) in[j] = j == i ? p->in[0] : w->in[j];
    w = simp_make(to, w->op, w->nin, in, &w->attr, w);
    sum = simp_make(to, n->in[1]->op, 1, &w, &n->in[1]->attr, n->in[1]);
    return simp_binary(to, n->op, w, sum, n);
  }
  return NULL;
}

// ---- exponentials -------------------------------------------------------------------------------

static bool is_largest(const Node *n, const Node *of) {
  return n->op->cls == OpReduce && n->op->flags & FlagMax && n->in[0] == of;
}

// Is n the sum of exp(d), where d is a row minus its maximum? Both reduce the same axes.
static bool sums_powers(const Node *n, const Node *d) {
  if (n->op->cls != OpReduce || n->attr.axes != d->in[1]->attr.axes) return false;
  const Node *of = n->in[0];
  bool online = n->op->flags & FlagOnline && !(n->op->flags & FlagOne) && of == d->in[0];
  return online || (n->op->flags & FlagAdd && node_is_map(of, FlagExp) && of->in[0] == d);
}

// c^x = exp(x log c), for scores x; the row maximum is taken after scaling.
static Node *power_as_exp(Graph *to, Node *n) {
  Node *c = n->in[0], *x = n->in[1];
  if (!node_is_literal(c) || c->attr.value <= 1 || !reshape_scores(x)) return NULL;
  Type scalar = type_make(DtF32, 0, NULL);
  Node *by = simp_const(to, log(c->attr.value), &scalar, n);
  const Op *mul = op_need(to->c, "mul");
  Node *y;
  if (node_is_map(x, FlagSub) && is_largest(x->in[1], x->in[0])) {
    Node *scaled = simp_binary(to, mul, x->in[0], by, x->in[0]);
    Node *most = simp_make(to, x->in[1]->op, 1, &scaled, &x->in[1]->attr, x->in[1]);
    y = simp_binary(to, x->op, scaled, most, x);
  } else
    y = simp_binary(to, mul, x, by, x);
  return simp_make(to, op_need(to->c, "exp"), 1, &y, NULL, n);
}

// exp(x - log(sum of exp(x))) = exp(x) / sum of exp(x), if the maximum of x is 0.
static Node *exp_of_log(Graph *to, Node *n) {
  Node *d = n->in[0], *x = node_is_map(d, FlagSub) ? d->in[0] : NULL;
  if (!x || !node_is_map(d->in[1], FlagLog) || !node_is_map(x, FlagSub) ||
      !is_largest(x->in[1], x->in[0]))
    return NULL;
  Node *sum = d->in[1]->in[0];
  if (!sums_powers(sum, x)) return NULL;
  Node *e = simp_make(to, n->op, 1, &x, NULL, n);
  return simp_binary(to, op_need(to->c, "div"), e, sum, n);
}

// exp(x - max(x)) = exp(x), if x = y - max(y).
static Node *exp_shifted_once(Graph *to, Node *n) {
  Node *d = n->in[0], *x = node_is_map(d, FlagSub) ? d->in[0] : NULL;
  if (!x || !is_largest(d->in[1], x) || !node_is_map(x, FlagSub) ||
      !is_largest(x->in[1], x->in[0]) || x->in[1]->attr.axes != d->in[1]->attr.axes)
    return NULL;
  return simp_make(to, n->op, 1, &x, NULL, n);
}

Node *powers_plain(Graph *to, Node *n) {
  if (node_is_map(n, FlagPower)) return power_as_exp(to, n);
  Node *once = node_is_map(n, FlagExp) ? exp_shifted_once(to, n) : NULL;
  return !once && node_is_map(n, FlagExp) ? exp_of_log(to, n) : once;
}

// If x = a e or a (e / r), with e an exponential of scores: a, or a / r; else NULL.
static Node *beside_power(Graph *to, const Node *x, const Node **power) {
  if (!node_is_map(x, FlagMul) || x->uses > 1) return NULL;
  for (int i = 0; i < 2; i++) {
    const Node *e = x->in[i];
    bool over = node_is_map(e, FlagDiv) && !type_same_shape(&e->in[1]->type, &e->type);
    *power = over ? e->in[0] : e;
    if (!node_is_map(*power, FlagExp) || !reshape_scores(*power)) continue;
    return over ? simp_binary(to, e->op, x->in[1 - i], e->in[1], x) : x->in[1 - i];
  }
  return NULL;
}

// a e + b e = (a + b) e, for exponentials e of scores (gradients of softmax).
Node *powers_factored(Graph *to, Node *n) {
  if (!node_is_map(n, FlagAdd) || n->nin != 2) return NULL;
  const Node *power[2];
  Node *beside[2];
  for (int i = 0; i < 2; i++)
    if (!(beside[i] = beside_power(to, n->in[i], &power[i]))) return NULL;
  if (power[0] != power[1]) return NULL;
  return simp_binary(to, n->in[0]->op, simp_binary(to, n->op, beside[0], beside[1], n),
                     (Node *)power[0], n);
}

// ---- sums of matmuls ----------------------------------------------------------------------------

Node *scores_expanded(Graph *to, Node *x, const Type *shape) {
  if (type_same_shape(&x->type, shape)) return x;
  Type scalar = type_make(DtI32, 0, NULL);
  Node *in[3] = {simp_index(to, 0, shape, x), simp_const(to, 0, &scalar, x)};
  in[0] = simp_make(to, op_need(to->c, "ge"), 2, in, NULL, x);
  in[1] = in[2] = x;
  return simp_make(to, op_need(to->c, "where"), 3, in, NULL, x);
}

// Operands a and b concatenated along the head dimension.
static Node *heads_beside(Graph *to, Node *a, Node *b, const Type *product) {
  Node *in[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    Type t = *product;
    for (int d = t.rank - 2; d < t.rank; d++) t.dim[d] = in[i]->type.dim[d];
    in[i] = scores_expanded(to, in[i], &t);
  }
  return simp_make(to, op_need(to->c, "concat"), 2, in, &(Attr){.axis = product->rank - 1}, a);
}

// A matmul in a sum, maybe scaled per matrix (`by`, else NULL).
typedef struct Addend {
  Node *product, *by;
  const Op *op;
} Addend;

static Addend addend(Node *x) {
  int of = x->uses > 1 ? -1 : scaled_input(x);
  return of < 0 ? (Addend){x, NULL, NULL} : (Addend){x->in[of], x->in[1 - of], x->op};
}

// Is n the sum of two matmuls whose heads, concatenated, have at most 256 elements and are smaller
// than the scores?
static bool adds_products(const Node *n, Addend of[2]) {
  enum { kMostDepth = 256 };
  int rank = n->type.rank;
  if (!node_is_map(n, FlagAdd) || n->nin != 2 || n->uses > 1) return false;
  int64_t depth = 0, rows = n->type.dim[rank - 2], keys = n->type.dim[rank - 1];
  for (int i = 0; i < 2; i++) {
    const Node *p = (of[i] = addend(n->in[i])).product;
    if (!reshape_batched(p) || p->uses > 1 || !type_same_shape(&p->type, &n->type) ||
        p->in[0]->type.rank != rank || p->in[1]->type.rank != rank || p->in[0]->fixed ||
        p->in[1]->fixed || p->in[0]->type.dtype != of[0].product->in[0]->type.dtype)
      return false;
    depth += p->in[0]->type.dim[rank - 1];
  }
  return of[0].product->precision == of[1].product->precision && depth <= kMostDepth &&
         (rows + keys) * depth <= 4 * rows * keys;
}

// A common scale is applied after the joined matmul, different scales are folded into the operands.
static Node *join_products(Graph *to, const Addend of[2]) {
  const Node *product = of[0].product;
  bool alike = of[0].by == of[1].by && of[0].op == of[1].op;
  Node *left[2], *right[2], *in[2];
  for (int i = 0; i < 2; i++) {
    Node *a = of[i].product->in[0], *b = of[i].product->in[1];
    left[i] = alike || !of[i].by ? a : simp_binary(to, of[i].op, a, of[i].by, a);
    right[i] = reshape_turns(b) ? b->in[0] : reshape_turned(to, b);
  }
  in[0] = heads_beside(to, left[0], left[1], &product->type);
  in[1] = reshape_turned(to, heads_beside(to, right[0], right[1], &product->type));
  Node *all = simp_make(to, product->op, 2, in, &product->attr, product);
  return alike && of[0].by ? simp_binary(to, of[0].op, all, of[0].by, product) : all;
}

// x with sums of two matmuls joined, or NULL if it has none.
static Node *with_joined(Graph *to, Node *x) {
  Addend of[2];
  if (x->op->cls != OpMap || x->op->typing == TypeDraw || x->type.rank < 3) return NULL;
  if (adds_products(x, of)) return join_products(to, of);
  Node *in[MaxInputs];
  bool found = false;
  for (int i = 0; i < x->nin; i++) {
    bool alike = type_same_shape(&x->in[i]->type, &x->type);
    Node *joined = alike && x->in[i]->uses <= 1 ? with_joined(to, x->in[i]) : NULL;
    in[i] = joined ? joined : x->in[i];
    found = found || joined;
  }
  return found ? simp_make(to, x->op, x->nin, in, &x->attr, x) : NULL;
}

// Scores of a softmax that have no other reader: a b + c d = concat(a, c) concat(b, d).
Node *products_joined(Graph *to, Node *n) {
  if (n->op->cls == OpReduce && n->op->flags & FlagMax) {
    Node *x = n->in[0]->uses <= 2 ? with_joined(to, n->in[0]) : NULL;
    return x ? simp_make(to, n->op, 1, &x, &n->attr, n) : NULL;
  }
  Node *d = node_is_map(n, FlagExp) ? n->in[0] : n;
  if (d == n || !node_is_map(d, FlagSub) || d->in[0]->uses > 2) return NULL;
  Node *x = with_joined(to, d->in[0]);
  if (!x) return NULL;
  Node *shifted = simp_binary(to, d->op, x, d->in[1], d);
  return simp_make(to, n->op, 1, &shifted, NULL, n);
}

// ---- NaN tests of softmax -----------------------------------------------------------------------

// The sum of the row's exponentials, if n is their softmax. It is >= 1 or NaN; n is NaN exactly if
// it is.
static Node *softmax_sum(const Node *n) {
  const Node *e = node_is_map(n, FlagDiv) ? n->in[0] : NULL,
             *d = e && node_is_map(e, FlagExp) ? e->in[0] : n;
  if (!node_is_map(d, FlagSub) || !is_largest(d->in[1], d->in[0])) return NULL;
  return sums_powers(n->in[1], d) ? n->in[1] : NULL;
}

// The NaN test c (x != x) on a softmax, rewritten as a test of its row sum.
static Node *row_condition(Graph *to, Node *c) {
  if (c->op->cls == OpMap && c->nin == 1 && c->op->typing == TypeLogic) {
    Node *in = row_condition(to, c->in[0]);
    return in ? simp_make(to, c->op, 1, &in, NULL, c) : NULL;
  }
  if (c->op->cls != OpMap || c->op->typing != TypeCompare || c->in[0] != c->in[1]) return NULL;
  Node *sum = softmax_sum(c->in[0]);
  return sum ? simp_binary(to, c->op, sum, sum, c) : NULL;
}

// Is n certainly not infinite?
static bool is_finite(const Node *n, int depth) {
  if (node_is_literal(n)) return isfinite(n->attr.value);
  if (n->op->typing == TypeWhere && depth)
    return is_finite(n->in[1], depth - 1) && is_finite(n->in[2], depth - 1);
  return softmax_sum(n);
}

// Does c test whether a softmax is infinite?
static bool never(const Node *c) {
  enum { kMostDeep = 4 };
  return node_is_map(c, FlagEqual) && node_is_literal(c->in[1]) && isinf(c->in[1]->attr.value) &&
         is_finite(c->in[0], kMostDeep);
}

// where(p is NaN, 0, p) tests once per row of softmax p; where(never, a, b) = b.
Node *nan_of_row(Graph *to, Node *n) {
  if (n->op->cls != OpMap || n->op->typing != TypeWhere) return NULL;
  Node *other = n->in[2];
  bool same = type_same_shape(&other->type, &n->type) && other->type.dtype == n->type.dtype;
  if (never(n->in[0]) && same) return other;
  Node *in[3] = {row_condition(to, n->in[0]), n->in[1], n->in[2]};
  bool full = type_same_shape(&in[1]->type, &n->type) || same;
  return in[0] && full ? simp_make(to, n->op, 3, in, NULL, n) : NULL;
}
