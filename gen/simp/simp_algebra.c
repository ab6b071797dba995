// simp_algebra.c: rules of sums, products, moves and constants (SimpRule: each returns the
// replacement, or NULL).
//
// Batch normalisation folds into the convolution before it by three general rules about values
// that are fixed at inference (Node.fixed): x - c = x + (-c);  (x + c1) * c2 = x * c2 + c1 * c2;
// contract(x, w) * c = contract(x, w * c) if c varies only along the output channels. The fixed
// parts are then computed once, by the plan's entry `init`.
#include "simp.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { kMostJoined = 64 };

// sort(x, run) = merge(x, sort(x, run / 2), run / 2), for runs longer than a block sorts.
Node *sort_by_merging(Graph *to, Node *n) {
  Attr attr = n->attr;
  int64_t length = n->op->cls == OpSort ? n->in[0]->type.dim[n->attr.axis] : 0, half = kSortRun;
  if (n->nin != 1 || attr.count <= kSortRun || length <= kSortRun) return NULL;
  if (attr.count < length && attr.count % 2)
    err_at(to->c, n->loc, "%s: runs of %lld: of more than %d elements, they must be even",
           n->op->name, (long long)attr.count, kSortRun);
  if (attr.count < length) half = attr.count / 2; // runs that end where those of `count` do
  while (2 * half < attr.count && 2 * half < length) half *= 2;
  attr.count = half;
  Node *in[2] = {n->in[0], simp_make(to, n->op, 1, n->in, &attr, n)};
  return simp_make(to, op_need(to->c, "sort_merge"), 2, in, &attr, n);
}

static bool is_value(const Node *n, double v) {
  return simp_is_const(n) && n->attr.value == v;
}

// The result of a reduction over size-1 dimensions only, or NULL if it stays.
static Node *one_element(Graph *to, Node *n) {
  Node *x = n->in[0];
  // plain monoids: the reduction of one element is that element
  if (n->op->cuda || n->op->flags & FlagOne) return x;
  if (!(n->op->flags & FlagOnline)) return NULL;
  Node *none = simp_make(to, op_need(to->c, "sub"), 2, (Node *[]){x, x}, &n->attr, n);
  return simp_make(to, op_need(to->c, "exp"), 1, &none, &n->attr, n); // 1, or NaN for an infinity
}

// x + 0, x - 0, x * 1, moves without effect, reductions of one element.
Node *drop_identity(Graph *to, Node *n) {
  Node *x = n->in[0];
  bool same = type_same_shape(&n->type, &x->type) && n->type.dtype == x->type.dtype;
  if (n->op->flags & FlagStop && same) return x; // stop_gradient has no effect after autodiff
  if (n->op->typing == TypeConvert && same &&
      !(x->op->cls == OpMap && dtype_is_float(n->type.dtype)))
    return x;
  if (n->op->cls == OpMove && same) {
    for (int d = 0; d < n->type.rank; d++)
      if ((n->op->form == MovePermute && n->attr.dims[d] != d) ||
          (n->op->form == MoveRoll && n->attr.dims[d] != 0))
        return NULL;
    return n->nin == 1 ? x : NULL;
  }
  if (n->op->cls == OpReduce && same) return one_element(to, n);
  if (n->nin != 2 || n->op->cls != OpMap) return NULL;
  double neutral = n->op->flags & FlagMul ? 1 : 0;
  if (!(n->op->flags & (FlagAdd | FlagSub | FlagMul))) return NULL;
  if (same && is_value(n->in[1], neutral)) return x;
  if (n->op->flags & FlagCommutes && is_value(x, neutral) &&
      n->type.dtype == n->in[1]->type.dtype && type_same_shape(&n->type, &n->in[1]->type))
    return n->in[1];
  return NULL;
}

// reshape(reshape(x)) is one reshape; the same for permute, slice and roll.
Node *join_moves(Graph *to, Node *n) {
  if (n->op->cls != OpMove || n->nin != 1 || n->in[0]->op != n->op) return NULL;
  Attr attr = n->attr;
  if (n->op->form == MovePermute)
    for (int d = 0; d < n->type.rank; d++) attr.dims[d] = n->in[0]->attr.dims[n->attr.dims[d]];
  else if (n->op->form == MoveSlice)
    for (int d = 0; d < n->type.rank; d++) {
      attr.dims[d] += n->in[0]->attr.dims[d];
      attr.ends[d] += n->in[0]->attr.dims[d];
    }
  else if (n->op->form == MoveRoll)
    for (int d = 0; d < n->type.rank; d++)
      attr.dims[d] = (attr.dims[d] + n->in[0]->attr.dims[d]) % n->type.dim[d];
  else if (n->op->form != MoveReshape)
    return NULL;
  return simp_make(to, n->op, 1, n->in[0]->in, &attr, n);
}

// If y has its shape only because a constant input was broadcast, returns y recomputed at the other
// input's shape, else NULL.
static Node *without_shape(Graph *to, Node *y) {
  if (y->op->cls != OpMap || y->nin != 2 || y->op->typing == TypeDraw) return NULL;
  for (int i = 0; i < 2; i++) {
    Node *c = y->in[i], *in[2] = {y->in[0], y->in[1]};
    if (!simp_is_const(c) || type_count(&c->type) <= type_count(&y->in[1 - i]->type)) continue;
    Type scalar = type_make(c->type.dtype, 0, NULL);
    in[i] = simp_const(to, c->attr.value, &scalar, c);
    return simp_make(to, y->op, 2, in, &y->attr, y);
  }
  return NULL;
}

// One element of a constant; it promotes as a 0-d tensor, not as a literal.
static Node *single(Graph *to, Node *c) {
  Attr attr = {.value = c->attr.value, .tensor = c->type.rank || c->attr.tensor};
  Node *n = graph_add(to, c->op, 0, NULL, &attr, c);
  n->type = type_make(c->type.dtype, 0, NULL);
  return simp_intern(to, n);
}

// A map broadcasts its inputs: inputs expanded only by a constant are shrunk if another input
// already has the full shape.
Node *broadcast_late(Graph *to, Node *n) {
  Node *in[MaxInputs];
  bool full = false, found = false;
  if (n->op->cls != OpMap || n->op->typing == TypeDraw) return NULL;
  for (int i = 0; i < n->nin; i++) {
    in[i] = n->in[i];
    Node *small = type_count(&n->in[i]->type) > 1 ? without_shape(to, n->in[i]) : NULL;
    if (simp_is_const(n->in[i])) small = single(to, n->in[i]);
    if (small && type_count(&small->type) < type_count(&n->in[i]->type))
      in[i] = small, found = true;
    else
      full = full || (type_same_shape(&n->in[i]->type, &n->type) && !simp_is_const(n->in[i]));
  }
  Node *y = found && full ? simp_make(to, n->op, n->nin, in, &n->attr, n) : NULL;
  return y && y->type.dtype == n->type.dtype ? y : NULL;
}

// Collects the addends of n, sorted by position, if each is a pad along the same single dimension.
static bool find_parts(Node *n, Node **part, int *count, int *axis) {
  if (n->op->cls == OpMap && n->op->flags & FlagAdd && n->nin == 2)
    return type_same_shape(&n->in[0]->type, &n->in[1]->type) &&
           find_parts(n->in[0], part, count, axis) && find_parts(n->in[1], part, count, axis);
  if (!node_is_move(n, MovePad) || *count == kMostJoined) return false;
  for (int d = 0; d < n->type.rank; d++) {
    if (!n->attr.dims[d] && !n->attr.ends[d]) continue;
    if (*axis >= 0 && *axis != d) return false;
    *axis = d;
  }
  int i = (*count)++;
  for (; i > 0 && *axis >= 0 && part[i - 1]->attr.dims[*axis] > n->attr.dims[*axis]; i--)
    part[i] = part[i - 1];
  part[i] = n;
  return *axis >= 0;
}

// The sum of adjacent pads is a concat (the gradient of slices).
Node *pads_to_concat(Graph *to, Node *n) {
  Node *part[kMostJoined];
  int count = 0, axis = -1;
  if (!(n->op->flags & FlagAdd) || n->op->cls != OpMap || !find_parts(n, part, &count, &axis))
    return NULL;
  int64_t end = 0;
  for (int i = 0; i < count; i++) {
    if (part[i]->attr.dims[axis] != end || part[i]->type.dtype != n->type.dtype) return NULL;
    part[i] = part[i]->in[0];
    end += part[i]->type.dim[axis];
  }
  if (end != n->type.dim[axis]) return NULL;
  Attr attr = {.axis = axis};
  return simp_make(to, op_need(to->c, "concat"), count, part, &attr, n);
}

// A commuting map has its fixed input second, so that the rules below look there only.
Node *fixed_second(Graph *to, Node *n) {
  if (!(n->op->flags & FlagCommutes) || n->nin != 2) return NULL;
  if (!n->in[0]->fixed || n->in[1]->fixed) return NULL;
  Node *swapped[2] = {n->in[1], n->in[0]};
  return simp_make(to, n->op, 2, swapped, &n->attr, n);
}

// x - c = x + (-c), if c is negated in the dtype of the result: as u8, -1 is 255.
Node *subtract_to_add(Graph *to, Node *n) {
  if (!(n->op->flags & FlagSub) || !n->in[1]->fixed || n->in[0]->fixed) return NULL;
  Dtype dtype = n->in[1]->type.dtype;
  bool number = node_is_number(n->in[1]) && dtype != DtBool;
  if (!number && !simp_same_arithmetic(dtype, n->type.dtype)) return NULL;
  Node *negative = simp_make(to, op_need(to->c, "neg"), 1, &n->in[1], NULL, n);
  return simp_binary(to, op_need(to->c, "add"), n->in[0], negative, n);
}

// Is combining literals safe? 1e30 * 1e30 is infinite, tiny products underflow, and (x - 1) * inf
// is not x * inf - inf.
static bool can_join(const Node *c1, const Node *c2, bool product) {
  double a = node_is_literal(c1) ? c1->attr.value : 1, b = node_is_literal(c2) ? c2->attr.value : 1;
  float joined = (float)(product ? a * b : a + b);
  bool lost = product && a != 0 && b != 0 && fabsf(joined) < FLT_MIN;
  return isfinite(a) && isfinite(b) && isfinite(joined) && !lost;
}

// (x + c1) + c2 = x + (c1 + c2), the same for *, and (x + c1) * c2 = x * c2 + c1 * c2.
Node *join_fixed(Graph *to, Node *n) {
  if (n->nin != 2 || !(n->op->flags & (FlagAdd | FlagMul))) return NULL;
  Node *inner = n->in[0], *c2 = n->in[1];
  if (!c2->fixed || inner->fixed || inner->uses > 1 || inner->nin != 2) return NULL;
  if (!(inner->op->flags & (FlagAdd | FlagMul)) || !inner->in[1]->fixed) return NULL;
  Node *x = inner->in[0], *c1 = inner->in[1];
  if (!can_join(c1, c2, n->op->flags & FlagMul)) return NULL;
  if (!simp_same_arithmetic(inner->type.dtype, n->type.dtype)) return NULL;
  if (inner->op == n->op) return simp_binary(to, n->op, x, simp_binary(to, n->op, c1, c2, n), n);
  if (!(n->op->flags & FlagMul)) return NULL;
  Node *scaled = simp_binary(to, n->op, x, c2, n);
  return simp_binary(to, inner->op, scaled, simp_binary(to, n->op, c1, c2, n), n);
}

// c as a factor of the weights of contraction y, or NULL if it varies along more than the output
// channels.
static Node *weight_factor(Graph *to, const Node *y, Node *c) {
  Maps maps = maps_of(y, 0);
  int channel = maps_dim(&maps, MapOut, AxisN), columns = maps_dim(&maps, MapB, AxisN);
  if (y->type.dim[channel] != y->in[1]->type.dim[columns]) return NULL; // grouped convolution
  for (int d = 0; d < c->type.rank; d++) {
    int of_y = y->type.rank - c->type.rank + d;
    if (c->type.dim[d] != 1 && of_y != channel) return NULL;
  }
  int64_t count = type_count(&c->type);
  if (count == 1 && !c->type.rank) return c;
  Attr attr = {.dims = {count, 1, 1, 1, 1, 1, 1, 1}};
  Node *n = graph_add(to, op_need(to->c, "reshape"), 1, &c, &attr, c);
  n->type.rank = y->in[1]->type.rank - columns;
  shape_infer(to->c, n);
  return simp_intern(to, n);
}

// Can c be folded into the weights without leaving f16's range? Most weights are near 1.
static bool factor_fits(const Node *y, const Node *c) {
  const double most = 64;
  double size = node_is_literal(c) ? fabs(c->attr.value) : 1;
  return precision_dtype(y->precision) != DtF16 || (size <= most && size >= 1 / most);
}

// contract(x, w) * c = contract(x, w * c)
Node *scale_into_weights(Graph *to, Node *n) {
  if (!(n->op->flags & FlagMul) || n->nin != 2) return NULL;
  Node *y = n->in[0], *c = n->in[1];
  if (y->op->cls != OpContract || y->uses > 1 || !c->fixed || !y->in[1]->fixed) return NULL;
  if (!type_same_shape(&y->type, &n->type) || !factor_fits(y, c)) return NULL;
  Node *factor = weight_factor(to, y, c);
  if (!factor) return NULL;
  Node *in[2] = {y->in[0], simp_binary(to, n->op, y->in[1], factor, n)};
  return simp_make(to, y->op, 2, in, &y->attr, y);
}

// Taps [*first, *end) of a filter are the ones that reach the image, along dimension 2 + i.
static void useful_taps(const Node *n, int i, int64_t *first, int64_t *end) {
  const Attr *a = &n->attr;
  *first = *end = 0;
  for (int64_t r = 0; r < node_window(n, i); r++) {
    bool reaches = false;
    for (int64_t p = 0; p < n->type.dim[2 + i] && !reaches; p++) {
      int64_t at = p * a->stride[i] - a->pad[i] + r * a->dilation[i];
      reaches = at >= 0 && at < n->in[0]->type.dim[2 + i];
    }
    if (reaches && *end == 0) *first = r;
    if (reaches) *end = r + 1;
  }
}

// Removes filter taps that only ever see padding: 8 of 9 on an image of one pixel.
Node *drop_taps(Graph *to, Node *n) {
  if (maps_gives(n) != PartPositions) return NULL;
  Node *w = n->in[1];
  Attr attr = n->attr, cut = {.ends = {w->type.dim[0], w->type.dim[1]}};
  bool fewer = false;
  for (int i = 0; i < 2; i++) {
    int64_t first, end, taps = node_window(n, i);
    useful_taps(n, i, &first, &end);
    attr.pad[i] -= first * attr.dilation[i];
    attr.pad[i + 2] -= (taps - end) * attr.dilation[i];
    if (first == end || attr.pad[i] < 0 || attr.pad[i + 2] < 0) return NULL;
    cut.dims[2 + i] = first, cut.ends[2 + i] = end;
    fewer = fewer || end - first < taps;
  }
  if (!fewer) return NULL;
  Node *in[2] = {n->in[0], simp_make(to, op_need(to->c, "slice"), 1, &w, &cut, w)};
  return simp_make(to, n->op, 2, in, &attr, n);
}
