// simp_sums.c: rules about sums: factors moved out; sums computed in the same sweep as another
// reduction; reductions of reductions; windows that are reductions.
#include "simp.h"

#include <math.h>
#include <string.h>

bool sum_of_floats(const Node *n) {
  return n->op->cls == OpReduce && n->op->flags & FlagAdd && dtype_is_float(n->in[0]->type.dtype);
}

// Is c, which broadcasts to the shape of x, constant along `axes` of x?
static bool same_along(const Node *c, const Node *x, int64_t axes) {
  int before = x->type.rank - c->type.rank;
  for (int d = 0; d < c->type.rank; d++)
    if (c->type.dim[d] > 1 && axes >> (d + before) & 1) return false;
  return true;
}

// sum(-x) = -sum(x); sum(x c) = sum(x) c and sum(x / c) = sum(x) / c, if c is constant along the
// summed axes; the sum of a constant is a constant. Equal sums then become one. Not if a matmul
// reads the map, as the gradient after a norm: it is stored anyway, its inputs need not be.
Node *sum_outside(Graph *to, Node *n) {
  if (!sum_of_floats(n)) return NULL;
  Node *m = n->in[0], *in[2];
  if (simp_is_const(m)) {
    double count = (double)type_count(&m->type) / (double)type_count(&n->type);
    return simp_const(to, m->attr.value * count, &n->type, n);
  }
  if (m->op->cls != OpMap || m->operand) return NULL;
  if (m->op->flags & FlagNeg) {
    simp_uses_of(m->in[0], m);
    in[0] = simp_make(to, n->op, 1, m->in, &n->attr, n);
    return simp_make(to, m->op, 1, in, &m->attr, m);
  }
  for (int i = 0; i < 2 && m->nin == 2 && m->op->flags & (FlagMul | FlagDiv); i++) {
    Node *x = m->in[i], *c = m->in[1 - i];
    if (i && m->op->flags & FlagDiv) break;
    if (!type_same_shape(&x->type, &m->type) || !dtype_is_float(x->type.dtype) ||
        !same_along(c, m, n->attr.axes))
      continue;
    simp_uses_of(x, m);
    in[i] = simp_make(to, n->op, 1, &x, &n->attr, n);
    in[1 - i] = c;
    return simp_make(to, m->op, 2, in, &m->attr, m);
  }
  return NULL;
}

// Is c the mean of y along `axes`, written as a sum times one over the count?
bool sum_is_mean(const Node *c, const Node *y, int64_t axes) {
  if (c->op->cls != OpMap || !(c->op->flags & FlagMul) || !simp_is_const(c->in[1])) return false;
  const Node *s = c->in[0];
  if (s->op->cls != OpReduce || !(s->op->flags & FlagAdd) || s->in[0] != y || s->attr.axes != axes)
    return false;
  double count = (double)type_count(&y->type) / (double)type_count(&s->type);
  return fabs(c->in[1]->attr.value * count - 1) < 1e-6;
}

Node *sum_deviates(const Node *n) {
  if (n->op->cls != OpReduce || !(n->op->flags & FlagAdd)) return NULL;
  const Node *square = n->in[0], *d = square->nin ? square->in[0] : NULL;
  int64_t axes = n->attr.axes;
  if (!(square->op->flags & FlagMul) || square->op->cls != OpMap || square->in[1] != d) return NULL;
  if (d->op->cls != OpMap || !(d->op->flags & FlagSub) || !sum_is_mean(d->in[1], d->in[0], axes))
    return NULL;
  return dtype_is_float(d->in[0]->type.dtype) ? d->in[0] : NULL;
}

// sum((y - mean(y))^2) = var(y) * count, in the same sweep over y as the mean. Not for rows held in
// registers, for which a second sweep is free.
Node *sum_joins_variance(Graph *to, Node *n) {
  Node *y = sum_deviates(n);
  if (!y) return NULL;
  int64_t count = type_count(&y->type) / type_count(&n->type);
  if (type_axes_innermost(&y->type, n->attr.axes) && count <= kSureRow) return NULL;
  Node *var = simp_make(to, op_need(to->c, "reduce_var"), 1, &y, &n->attr, n);
  Type scalar = type_make(DtF32, 0, NULL);
  Node *in[2] = {var, simp_const(to, (double)count, &scalar, n)};
  return simp_make(to, op_need(to->c, "mul"), 2, in, NULL, n);
}

// sum(exp(x - max(x))) of a row that may not fit in registers, in the same sweep as the maximum.
Node *sum_joins_exponentials(Graph *to, Node *n) {
  if (n->op->cls != OpReduce || !(n->op->flags & FlagAdd)) return NULL;
  const Node *e = n->in[0], *d = e->nin == 1 ? e->in[0] : NULL;
  if (!d || !(e->op->flags & FlagExp) || !(d->op->flags & FlagSub)) return NULL;
  Node *x = d->in[0], *most = d->in[1];
  bool largest = most->op->cls == OpReduce && most->op->flags & FlagMax && most->in[0] == x;
  if (!largest || most->attr.axes != n->attr.axes || !dtype_is_float(x->type.dtype)) return NULL;
  int64_t count = type_count(&x->type) / type_count(&n->type);
  if (type_axes_innermost(&x->type, n->attr.axes) && count <= kSureRow) return NULL;
  return simp_make(to, op_need(to->c, "reduce_expsum"), 1, &x, &n->attr, n);
}

// ---- sum(w (a v^T)) -----------------------------------------------------------------------------

enum { kMostFactors = 8 };

typedef struct Factors { // factors of a map of multiplications and divisions
  const Node *node[kMostFactors];
  bool below[kMostFactors]; // it divides
  int count;
  double scale;
} Factors;

static bool factors_of(Factors *f, const Node *n, bool below) {
  bool map = n->op->cls == OpMap && dtype_is_float(n->type.dtype);
  if (map && n->op->flags & FlagNeg) {
    f->scale = -f->scale;
    return factors_of(f, n->in[0], below);
  }
  if (map && n->nin == 2 && n->op->flags & (FlagMul | FlagDiv))
    return factors_of(f, n->in[0], below) &&
           factors_of(f, n->in[1], below != ((n->op->flags & FlagDiv) != 0));
  bool picks = map && n->op->typing == TypeWhere && node_is_literal(n->in[2]);
  // where(c, x, 0): the condition is a factor of 1 or 0
  if (picks && n->in[2]->attr.value == 0 && !below)
    return factors_of(f, n->in[0], below) && factors_of(f, n->in[1], below);
  if (node_is_literal(n) && n->attr.value) {
    f->scale *= below ? 1 / n->attr.value : n->attr.value;
    return true;
  }
  if (f->count == kMostFactors) return false;
  f->node[f->count] = n;
  f->below[f->count++] = below;
  return true;
}

// Have a, without its factor `without`, and b the same factors?
static bool same_factors(const Factors *a, int without, const Factors *b) {
  bool used[kMostFactors] = {false};
  if (a->count != b->count + 1) return false;
  for (int i = 0; i < a->count; i++) {
    int j = 0;
    while (j < b->count && (used[j] || a->node[i] != b->node[j] || a->below[i] != b->below[j])) j++;
    if (i == without) continue;
    if (j == b->count) return false;
    used[j] = true;
  }
  return true;
}

static bool permutes(const Node *n) {
  return node_is_move(n, MovePermute);
}

// Are a and b transposes of each other (last two dimensions), both permutations of one value or
// that value?
static bool is_turned(const Node *a, const Node *b) {
  const Node *x = permutes(a) ? a->in[0] : a, *y = permutes(b) ? b->in[0] : b;
  if (x == b) y = b;
  if (y == a) x = a;
  int last = a->type.rank - 1;
  if (x != y || a->type.rank != b->type.rank || last < 1) return false;
  for (int d = 0; d <= last; d++) {
    int other = d == last ? last - 1 : d == last - 1 ? last : d;
    if ((a == x ? d : a->attr.dims[d]) != (b == y ? other : b->attr.dims[other])) return false;
  }
  return true;
}

// Is n a matmul (..., m, k) by (..., k, n), or by one matrix for all batches?
static bool is_matrix_product(const Node *n) {
  int last = n->type.rank - 1;
  if (n->op->cls != OpContract || last < 1 || maps_phases(n) > 1) return false;
  Maps m = maps_of(n, 0);
  int b = m.rank[MapB] - 1;
  return m.rank[MapA] == last + 1 && (b == last || b == 1) &&
         maps_uses(&m.dim[MapA][last], &m, AxisK) && maps_uses(&m.dim[MapB][b - 1], &m, AxisK) &&
         maps_uses(&m.dim[MapB][b], &m, AxisN);
}

static const Node *power_in(const Factors *f) {
  for (int i = 0; i < f->count; i++)
    if (f->node[i]->op->cls == OpMap && f->node[i]->op->flags & FlagExp) return f->node[i];
  return NULL;
}

const Node *sum_power(const Node *n) {
  Factors f = {.scale = 1};
  return factors_of(&f, n, false) ? power_in(&f) : NULL;
}

// The existing matmul w v, if a v^T is factor `at` of `all` and w the other factors, up to a
// number, *scale. If a could be exchanged with w v, the one whose w is a softmax, or else the
// smaller one.
static Node *weighed_by(Graph *to, const Factors *all, int at, int entry, double *scale) {
  const Node *t = all->node[at];
  for (int i = 0; i < to->nnodes; i++) {
    Node *y = to->nodes[i];
    Factors weights = {.scale = 1}, left = {.scale = 1};
    if (y->op->cls != OpContract || !is_matrix_product(y) || y->entry != entry ||
        !type_same_shape(&y->in[0]->type, &t->type) ||
        !type_same_shape(&y->type, &t->in[0]->type) || !is_turned(t->in[1], y->in[1]) ||
        !factors_of(&weights, y->in[0], false) || !same_factors(all, at, &weights))
      continue;
    bool power = power_in(&weights), other = factors_of(&left, t->in[0], false) && power_in(&left);
    if (power == other ? type_count(&y->type) >= type_count(&t->type) : other) continue;
    *scale = all->scale / weights.scale;
    return y;
  }
  return NULL;
}

// sum over keys of w (a v^T) = sum over n of a (w v), if w v exists: the term that softmax's
// gradient subtracts, computed from rows as long as a head instead of as many as keys.
Node *sum_joins_product(Graph *to, Node *n) {
  Node *x = n->in[0];
  int last = x->type.rank - 1;
  Factors all = {.scale = 1};
  if (!sum_of_floats(n) || n->attr.axes != 1ll << last || x->op->cls != OpMap ||
      !factors_of(&all, x, false))
    return NULL;
  for (int i = 0; i < all.count; i++) {
    const Node *t = all.node[i];
    double scale;
    if (all.below[i] || !is_matrix_product(t) || !type_same_shape(&t->type, &x->type)) continue;
    Node *y = weighed_by(to, &all, i, n->entry, &scale);
    if (!y) continue;
    Type scalar = type_make(DtF32, 0, NULL);
    Node *in[2] = {t->in[0], y}, *made;
    made = simp_make(to, op_need(to->c, "mul"), 2, in, NULL, x);
    made = simp_make(to, n->op, 1, &made, &n->attr, n);
    in[0] = made, in[1] = simp_const(to, scale, &scalar, n);
    return simp_make(to, op_need(to->c, "mul"), 2, in, NULL, n);
  }
  return NULL;
}

// ---- reductions of reductions ------------------------------------------------------------------

// Dimensions `axes` of t as dimensions of `from`; they differ only in size-1 dimensions.
static int64_t axes_before(const Type *t, const Type *from, int64_t axes) {
  int64_t before = 0;
  for (int d = 0, i = 0; d < t->rank; d++) {
    if (t->dim[d] == 1) continue;
    while (from->dim[i] == 1) i++;
    if (axes >> d & 1) before |= 1ll << i;
    i++;
  }
  return before;
}

// A reduction of a reduction of the same kind, apart from size-1 dimensions between, is one over
// both.
Node *reduced_once(Graph *to, Node *n) {
  const Node *x = n->in[0];
  if (n->op->cls != OpReduce || !n->op->cuda || x->uses > 1) return NULL;
  if (node_is_move(x, MoveReshape)) {
    int from[MaxRank], count = 0;
    for (int d = 0; d < x->type.rank; d++)
      if (x->type.dim[d] != 1) from[count++] = d;
    const Type *t = &x->in[0]->type;
    for (int d = 0, i = 0; d < t->rank; d++)
      if (t->dim[d] != 1 && (i == count || x->type.dim[from[i++]] != t->dim[d])) return NULL;
    x = x->in[0];
  }
  if (x->op != n->op || x->uses > 1 || x->type.dtype != n->in[0]->type.dtype) return NULL;
  Attr attr = {.axes = x->attr.axes | axes_before(&n->in[0]->type, &x->type, n->attr.axes)};
  return reshape_as(to, simp_make(to, n->op, 1, x->in, &attr, n), n->type.rank, n->type.dim);
}

// ---- windows -----------------------------------------------------------------------------------

// The reduction that combines elements as the window does, or NULL.
static const Op *reduction_like(const Compiler *c, const Op *window) {
  for (int i = 0; i < c->nops; i++) {
    const Op *op = c->ops[i];
    if (op->cls == OpReduce && op->cuda && op->init && !strcmp(op->cuda, window->cuda) &&
        !strcmp(op->init, window->init))
      return op;
  }
  return NULL;
}

// Windows that do not overlap and cover the picture, or are large, are reductions over its
// dimensions, each split in two.
Node *window_reduced(Graph *to, Node *n) {
  enum { kSmall = 64 }; // smaller windows stay windows
  const Attr *a = &n->attr;
  const Type *t = &n->in[0]->type;
  if (n->op->cls != OpWindow || n->nin != 1 || t->rank != 4) return NULL;
  bool apart = true, whole = true;
  for (int i = 0; i < 2; i++) {
    int64_t size = t->dim[2 + i], kernel = a->kernel[i];
    whole = whole && kernel == size;
    apart = apart && a->dilation[i] == 1 && !a->pad[i] && !a->pad[i + 2] && size % kernel == 0 &&
            (kernel == size || a->stride[i] == kernel);
  }
  const Op *op = apart && n->op->cuda && n->op->init ? reduction_like(to->c, n->op) : NULL;
  if (!op || (!whole && a->kernel[0] * a->kernel[1] < kSmall)) return NULL;
  int64_t rows = t->dim[2] / a->kernel[0], columns = t->dim[3] / a->kernel[1];
  const int64_t seen[] = {t->dim[0], t->dim[1], rows, a->kernel[0], columns, a->kernel[1]};
  Node *x = whole ? n->in[0] : reshape_as(to, n->in[0], 6, seen);
  Attr over = {.axes = whole ? 1 << 2 | 1 << 3 : 1 << 3 | 1 << 5};
  Node *reduced = simp_make(to, op, 1, &x, &over, n);
  return whole ? reduced : reshape_as(to, reduced, 4, n->type.dim);
}
