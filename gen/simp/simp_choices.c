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

typedef bool Fold(Compiler *c, const Node *n, const double *in, double *v);

// Evaluates n at a position by `fold`; false if it depends on anything but positions and literals.
static bool value_by(Fold *fold, Graph *to, const Node *n, const int64_t *at, int *left,
                     double *v) {
  double in[MaxInputs];
  int64_t from[MaxRank];
  if (--*left < 0) return false;
  if (simp_is_const(n)) return *v = n->attr.value, true;
  if (n->op->cls == OpSource && n->op->form == SourceIndex)
    return *v = (double)at[n->attr.axis], true;
  if (is_move(n)) {
    place_before(n, at, from);
    return value_by(fold, to, n->in[0], from, left, v);
  }
  if (n->op->cls != OpMap || n->op->typing == TypeDraw) return false;
  for (int i = 0; i < n->nin; i++) {
    const Type *t = &n->in[i]->type;
    for (int d = 0; d < t->rank; d++) from[d] = t->dim[d] > 1 ? at[d + n->type.rank - t->rank] : 0;
    if (i && is_choice(n) && (i == 1) != (in[0] != 0))
      in[i] = 0; // not chosen
    else if (!value_by(fold, to, n->in[i], from, left, &in[i]))
      return false;
  }
  return is_choice(n) ? fold_map(to->c, n, in, v) : fold(to->c, n, in, v);
}

// The same, but also false if kernels would round or wrap a value on the way.
static bool value_at(Graph *to, const Node *n, const int64_t *at, int *left, double *v) {
  return value_by(fold_exact, to, n, at, left, v);
}

static bool is_low(double v) {
  return v <= -1e38;
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

static bool is_ordinary(double v) { // a score that no mask has made
  return fabs(v) < 1e30;
}

// Is n computed from positions and literals, and an ordinary number everywhere (ALiBi's slopes)?
static bool is_table(Graph *to, const Node *n) {
  int64_t at[MaxRank] = {0}, count = type_count(&n->type);
  for (int64_t i = 0; i < count; i++) {
    int left = kMostAsked;
    double v;
    if (i == kMostRows || !value_by(fold_map, to, n, at, &left, &v) || !is_ordinary(v))
      return false;
    for (int d = n->type.rank - 1; d >= 0 && ++at[d] == n->type.dim[d]; d--) at[d] = 0;
  }
  return true;
}

// Are these scores computed from contractions, parameters, positions and ordinary literals, so that
// they are not the lowest float themselves?
static bool is_plain(Graph *to, const Node *n, int *left) {
  if (--*left < 0) return false;
  if (simp_is_const(n)) return is_ordinary(n->attr.value);
  if (n->op->cls == OpContract || node_is_computed(n)) return true;
  if (n->op->cls == OpSource && n->op->form == SourceParam) return true;
  if (n->op->cls == OpMove && n->op->form == MoveGather) return is_plain(to, n->in[0], left);
  bool plain = n->op->cls == OpMap ? keeps_finite(n) : n->op->cls == OpMove;
  if (n->op->cls == OpMap && !plain) return is_table(to, n);
  for (int i = 0; i < n->nin && plain; i++) plain = is_plain(to, n->in[i], left);
  return plain;
}

// The input that map n scales by a positive number, or NULL.
static Node *scaled(const Node *n, double *by) {
  if (n->op->cls != OpMap || !(n->op->flags & (FlagMul | FlagDiv)) || n->nin != 2) return NULL;
  if (!is_scalar(n->in[1]) || n->in[1]->attr.value <= 0) return NULL;
  *by = n->op->flags & FlagDiv ? 1 / n->in[1]->attr.value : n->in[1]->attr.value;
  return n->in[0];
}

static bool is_sum(const Node *n) {
  return n->op->cls == OpMap && n->op->flags & FlagAdd && n->nin == 2;
}

// Does n vary only along its last two dimensions?
static bool is_matrix(const Type *t) {
  for (int d = 0; d < t->rank - 2; d++)
    if (t->dim[d] != 1) return false;
  return true;
}

typedef enum Sight { // of a condition, Hidden: it holds
  Shown,
  Hidden,
  Unknown
} Sight;

typedef struct Hiding { // of scores
  Graph *to;
  int left;                         // nodes that may still be visited
  const Node *ordinary[kMostAsked]; // those in which nothing is hidden
  int count;
} Hiding;

// Is the lowest float, or minus infinity, in the score n at this row and key? The same for all
// batches and heads, or unknown.
static Sight sight_of(const Hiding *h, const Node *n, int64_t row, int64_t key, int *left) {
  double v, by;
  int rank = n->type.rank, asked = kMostAsked;
  int64_t at[MaxRank] = {0};
  for (int i = 0; i < h->count; i++)
    if (h->ordinary[i] == n) return Shown;
  if (--*left < 0) return Unknown;
  if (is_choice(n)) {
    Sight first = sight_of(h, n->in[0], row, key, left);
    return first == Unknown ? Unknown : sight_of(h, n->in[first == Hidden ? 1 : 2], row, key, left);
  }
  if (scaled(n, &by)) return sight_of(h, scaled(n, &by), row, key, left);
  if (is_sum(n)) {
    Sight a = sight_of(h, n->in[0], row, key, left), b = sight_of(h, n->in[1], row, key, left);
    return a > b ? a : b;
  }
  if (rank > 1 && n->type.dim[rank - 2] > 1) at[rank - 2] = row;
  if (rank && n->type.dim[rank - 1] > 1) at[rank - 1] = key;
  if (is_matrix(&n->type) && value_at(h->to, n, at, &asked, &v))
    return (n->type.dtype == DtBool ? v != 0 : !is_ordinary(v)) ? Hidden : Shown;
  bool seen = node_is_move(n, MoveReshape) && reshape_same_matrices(&n->type, &n->in[0]->type);
  return seen ? sight_of(h, n->in[0], row, key, left) : Unknown;
}

// Does each row of scores provably have a position that is not hidden?
static bool in_each_row(const Hiding *h, const Node *n) {
  int64_t rows = n->type.dim[n->type.rank - 2], keys = n->type.dim[n->type.rank - 1];
  bool each = rows <= kMostRows;
  for (int64_t r = 0; r < rows && each; r++) {
    const int64_t own = r + keys - rows, places[] = {own, r, 0, keys - 1};
    each = false;
    for (int i = 0; i < 4 && !each; i++) {
      int left = kMostAsked;
      int64_t key = places[i] < 0 ? 0 : places[i] < keys ? places[i] : keys - 1;
      each = sight_of(h, n, r, key, &left) == Shown;
    }
  }
  return each;
}

// n, which is multiplied by `scale` behind, with -inf in the place of the lowest float; n itself if
// it has none; or NULL if that is unknown. *hides: has it one of the two?
static Node *with_infinity(Hiding *h, Node *n, double scale, bool *hides) {
  double by = 1;
  *hides = is_scalar(n) && is_low(n->attr.value);
  if (--h->left < 0 || (*hides && is_ordinary(n->attr.value * scale))) return NULL;
  if (is_lowest(n)) {
    Type scalar = type_make(n->type.dtype, 0, NULL);
    return simp_const(h->to, -INFINITY, &scalar, n);
  }
  bool smaller = scaled(n, &by), first = is_choice(n), same = true, found = false;
  bool through = first || is_sum(n) || smaller || is_move(n);
  int asked = kMostAsked;
  if (!through && !*hides && !is_plain(h->to, n, &asked)) return NULL;
  Node *in[3] = {n->nin ? n->in[0] : NULL};
  for (int i = first; i < n->nin && through; i++) {
    in[i] = smaller && i ? n->in[i] : with_infinity(h, n->in[i], scale * by, &found);
    if (!in[i]) return NULL;
    same = same && in[i] == n->in[i];
    *hides = *hides || found;
  }
  if (!*hides && h->count < kMostAsked) h->ordinary[h->count++] = n;
  return same ? n : simp_make(h->to, n->op, n->nin, in, &n->attr, n);
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
  Hiding h = {.to = to, .left = kMostAsked};
  bool hides;
  Node *hidden = with_infinity(&h, x, 1, &hides);
  if (!hidden || hidden == x || !in_each_row(&h, x)) return NULL;
  Node *in[2] = {hidden, simp_make(to, most->op, 1, &hidden, &most->attr, most)};
  Node *less = simp_make(to, from->op, 2, in, &from->attr, from);
  return simp_make(to, n->op, 1, &less, &n->attr, n);
}
