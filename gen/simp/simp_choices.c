// simp_choices.c: rules about where() between two constants, as in additive and multiplicative
// masks. A map of such a choice becomes a choice again, so that span.c sees the condition. And the
// lowest finite float in the scores of a softmax becomes -inf.
#include "simp.h"

#include <math.h>

static bool is_choice(const Node *n) {
  return n->op->cls == OpMap && n->op->typing == TypeWhere && n->in[0]->type.dtype == DtBool;
}

static bool is_scalar(const Node *n) {
  return simp_is_const(n) && type_count(&n->type) == 1;
}

// Is n where(c, A, B) of c's shape, with A and B constants?
static bool of_constants(const Node *n) {
  return is_choice(n) && is_scalar(n->in[1]) && is_scalar(n->in[2]) && !is_scalar(n->in[0]) &&
         type_same_shape(&n->in[0]->type, &n->type);
}

// f(where(c, A, B)) = where(c, f(A), f(B)), if f's other inputs are constants, too.
Node *choice_mapped(Graph *to, Node *n) {
  Node *chosen = NULL, *side[2];
  if (n->op->cls != OpMap || n->op->typing == TypeDraw || is_choice(n)) return NULL;
  for (int i = 0; i < n->nin; i++) {
    if (is_scalar(n->in[i])) continue;
    if (chosen || !of_constants(n->in[i])) return NULL;
    chosen = n->in[i];
  }
  if (!chosen || !type_same_shape(&chosen->type, &n->type)) return NULL;
  for (int s = 0; s < 2; s++) {
    Node *in[MaxInputs];
    for (int i = 0; i < n->nin; i++) in[i] = n->in[i] == chosen ? chosen->in[1 + s] : n->in[i];
    side[s] = simp_make(to, n->op, n->nin, in, &n->attr, n);
    if (!simp_is_const(side[s]) || side[s]->type.dtype != n->type.dtype) return NULL;
  }
  Node *in[3] = {chosen->in[0], side[0], side[1]};
  return simp_make(to, chosen->op, 3, in, NULL, n);
}

// where(c, true, false) = c; where(c, false, true) = not c; where(not c, a, b) = where(c, b, a);
// not not c = c.
Node *choice_plain(Graph *to, Node *n) {
  const Op *negation = op_need(to->c, "logical_not");
  Node *c = n->nin ? n->in[0] : NULL;
  bool turned = c && c->op == negation && c->in[0]->type.dtype == DtBool;
  if (turned && n->op == negation) return c->in[0];
  if (!c || !is_choice(n)) return NULL;
  bool same = type_same_shape(&c->type, &n->type);
  if (same && n->type.dtype == DtBool && is_scalar(n->in[1]) && is_scalar(n->in[2])) {
    bool yes = n->in[1]->attr.value != 0, no = n->in[2]->attr.value != 0;
    if (yes && !no) return c;
    if (no && !yes) return simp_make(to, negation, 1, &c, NULL, n);
  }
  Node *in[3] = {turned ? c->in[0] : NULL, n->in[2], n->in[1]};
  return turned ? simp_make(to, n->op, 3, in, NULL, n) : NULL;
}

// ---- lowest finite float in scores --------------------------------------------------------------

enum { kMostRows = 65536, kMostAsked = 32 }; // rows that are checked; nodes of a condition

// The position in `move`'s input of its element at `at`.
static void place_before(const Node *move, const int64_t *at, int64_t *in) {
  const Type *t = &move->in[0]->type;
  int64_t i = 0;
  for (int d = 0; d < move->type.rank; d++) i = i * move->type.dim[d] + at[d];
  for (int d = t->rank - 1; d >= 0; d--) {
    if (move->op->form == MoveReshape) in[d] = i % t->dim[d], i /= t->dim[d];
    if (move->op->form == MovePermute) in[move->attr.dims[d]] = at[d];
    if (move->op->form == MoveSlice) in[d] = at[d] + move->attr.dims[d];
  }
}

static bool is_move(const Node *n) {
  return n->op->cls == OpMove && n->nin == 1 && n->op->form <= MoveSlice;
}

// Evaluates n at a position; false if it depends on anything but positions and literals, or on
// values that kernels would round or wrap. An unknown score chosen by a where() counts as 0.
static bool value_at(Graph *to, const Node *n, const int64_t *at, int *left, double *v) {
  double in[MaxInputs];
  int64_t from[MaxRank];
  if (--*left < 0) return false;
  if (simp_is_const(n)) return *v = n->attr.value, true;
  if (n->op->cls == OpSource && n->op->form == SourceIndex)
    return *v = (double)at[n->attr.axis], true;
  if (is_move(n)) {
    place_before(n, at, from);
    return value_at(to, n->in[0], from, left, v);
  }
  if (n->op->cls != OpMap || n->op->typing == TypeDraw) return false;
  for (int i = 0; i < n->nin; i++) {
    const Type *t = &n->in[i]->type;
    for (int d = 0; d < t->rank; d++) from[d] = t->dim[d] > 1 ? at[d + n->type.rank - t->rank] : 0;
    if (i && is_choice(n) && (i == 1) != (in[0] != 0))
      in[i] = 0; // not chosen
    else if (!value_at(to, n->in[i], from, left, &in[i])) {
      if (!i || !is_choice(n)) return false;
      in[i] = 0;
    }
  }
  return is_choice(n) ? fold_map(to->c, n, in, v) : fold_exact(to->c, n, in, v);
}

static bool is_low(double v) {
  return v <= -1e38;
}

// Does each row of scores have an unmasked position? Masked are those where n is the lowest float
// or, if n is a condition, where it equals `when`.
static bool in_each_row(Graph *to, const Node *n, const Type *scores, bool when) {
  int64_t rows = scores->dim[scores->rank - 2], keys = scores->dim[scores->rank - 1];
  int first = n->type.rank - 2; // the dimension of rows
  bool each = rows <= kMostRows && first >= 0;
  for (int d = 0; d < first; d++) each = each && n->type.dim[d] == 1;
  for (int64_t r = 0; r < rows && each; r++) {
    const int64_t own = r + keys - rows, places[] = {own, r, 0, keys - 1};
    bool found = false;
    for (int i = 0; i < 4 && !found; i++) {
      int left = kMostAsked;
      double v;
      int64_t key = places[i] < 0 ? 0 : places[i] < keys ? places[i] : keys - 1;
      int64_t at[MaxRank] = {0};
      at[first] = n->type.dim[first] > 1 ? r : 0;
      at[first + 1] = n->type.dim[first + 1] > 1 ? key : 0;
      if (!value_at(to, n, at, &left, &v)) return false;
      found = n->type.dtype == DtBool ? (v != 0) != when : !is_low(v);
    }
    each = found;
  }
  return each;
}

static bool is_lowest(const Node *n) {
  return is_scalar(n) && dtype_is_float(n->type.dtype) && is_low(n->attr.value) &&
         !isinf(n->attr.value);
}

// Is n finite if its float inputs are? (Not true of a logarithm or a quotient.)
static bool keeps_finite(const Node *n) {
  unsigned finite = FlagAdd | FlagSub | FlagMul | FlagLipschitz;
  bool by_number = n->op->flags & FlagDiv && is_scalar(n->in[1]) && n->in[1]->attr.value != 0;
  return n->op->flags & finite || by_number || is_choice(n) || !dtype_is_float(n->type.dtype);
}

// Are these scores computed from a contraction, positions and ordinary literals, so that they
// cannot all be the lowest float themselves?
static bool is_plain(const Node *n, int *left) {
  if (--*left < 0) return false;
  if (simp_is_const(n)) return fabs(n->attr.value) < 1e30;
  if (n->op->cls == OpContract || node_is_computed(n)) return true;
  bool plain = n->op->cls == OpMap ? keeps_finite(n)
                                   : n->op->cls == OpMove && n->op->form <= MovePermute;
  for (int i = 0; i < n->nin && plain; i++) plain = is_plain(n->in[i], left);
  return plain;
}

// n recomputed with x in the place of `was`; only moves are between.
static Node *moved_alike(Graph *to, const Node *n, const Node *was, Node *x) {
  if (n == was) return x;
  Node *in = moved_alike(to, n->in[0], was, x);
  return simp_make(to, n->op, 1, &in, &n->attr, n);
}

// n, scores or a mask added to them, with -inf in the place of the lowest float, if each row has
// other positions. NULL if not, or if n is not such a choice behind moves.
static Node *with_infinity(Graph *to, Node *n, const Type *scores) {
  Node *choice = n;
  int left = kMostAsked;
  while (is_move(choice)) choice = choice->in[0];
  if (!is_choice(choice)) return NULL;
  int side = is_lowest(choice->in[1]) ? 1 : 2;
  Node *lowest = choice->in[side], *in[3] = {choice->in[0], choice->in[1], choice->in[2]};
  if (!is_lowest(lowest) || !is_plain(choice->in[3 - side], &left) ||
      !in_each_row(to, n == choice ? in[0] : n, scores, side == 1))
    return NULL;
  Type scalar = type_make(lowest->type.dtype, 0, NULL);
  in[side] = simp_const(to, -INFINITY, &scalar, lowest);
  return moved_alike(to, n, choice, simp_make(to, choice->op, 3, in, NULL, choice));
}

// exp(x - max(x)): the lowest float in x becomes -inf, if each row has other positions. Both give
// probability 0, but -inf lets attention skip whole tiles.
Node *lowest_hidden(Graph *to, Node *n) {
  if (!(n->op->flags & FlagExp) || n->in[0]->op->cls != OpMap) return NULL;
  Node *from = n->in[0], *x = from->nin == 2 ? from->in[0] : NULL;
  Node *most = x && from->op->flags & FlagSub ? from->in[1] : NULL;
  bool row = most && most->op->cls == OpReduce && most->op->flags & FlagMax && most->in[0] == x &&
             x->type.rank >= 2 && most->attr.axes == 1 << (x->type.rank - 1);
  if (!row || x->uses > 2 || !type_same_shape(&x->type, &n->type)) return NULL;
  Node *hidden = with_infinity(to, x, &x->type);
  for (int i = 0; i < 2 && !hidden && x->op->cls == OpMap && x->op->flags & FlagAdd; i++) {
    int left = kMostAsked;
    Node *in[2] = {x->in[0], x->in[1]};
    in[i] = is_plain(x->in[1 - i], &left) ? with_infinity(to, x->in[i], &x->type) : NULL;
    if (in[i]) hidden = simp_make(to, x->op, 2, in, &x->attr, x);
  }
  if (!hidden) return NULL;
  Node *in[2] = {hidden, simp_make(to, most->op, 1, &hidden, &most->attr, most)};
  Node *less = simp_make(to, from->op, 2, in, &from->attr, from);
  return simp_make(to, n->op, 1, &less, &n->attr, n);
}
