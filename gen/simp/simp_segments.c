// simp_segments.c: rules about attention over several key/value segments under one softmax (prefix
// tokens, learned keys, a previous segment): softmax(concat(q k1^T, q k2^T)). Probabilities are
// read whole, by concatenated values, or part by part:
//
//   concat(f(q k1^T), g(q k2^T)) = h(q concat(k1, k2)^T),   h: f for keys of k1, else g
//   w[:, from:to] v = w pad(v);   w a + w b = w (a + b);   w[:, from:to]^T x = (w^T x)[from:to]
//
// The nodes between the two matmuls then are attention. Gradients of the scores are computed per
// segment (simp_concat.c), from probabilities recomputed for the keys of each.
#include "simp.h"

#include <string.h>

enum { kMostSearched = 64, kMostParts = 8, kMostDepth = 256 }; // kMostSearched: nodes per search

static int last_of(const Node *n) {
  return n->type.rank - 1;
}

static bool is_wide(const Node *n) { // varies along keys
  return n->type.rank && n->type.dim[last_of(n)] > 1;
}

static Node *product_of(const Node *x) {
  int left = kMostSearched;
  return x->type.rank > 2 ? (Node *)reshape_product(x, NULL, &left) : NULL;
}

bool segments_beside(const Node *n) {
  const Node *first = NULL;
  int products = 0;
  bool scores = false;
  if (!node_is_move(n, MoveConcat) || n->attr.axis != last_of(n) || n->nin > kMostParts || n->fixed)
    return false;
  for (int i = 0; i < n->nin; i++) {
    const Node *p = product_of(n->in[i]);
    if (!p && is_wide(n->in[i])) return false;
    if (!p) continue;
    if (!first) first = p;
    if (p->in[0] != first->in[0] || p->precision != first->precision ||
        p->in[1]->type.dtype != first->in[1]->type.dtype)
      return false;
    products++;
    scores = scores || reshape_scores(n->in[i]);
  }
  // if the left operand is probabilities, these are not scores
  if (products < 2 || !scores || sum_power(first->in[0])) return false;
  int64_t depth = first->in[0]->type.dim[last_of(first->in[0])], rows = n->type.dim[last_of(n) - 1];
  // copies of keys and values are smaller than the scores
  return depth <= kMostDepth && depth <= rows;
}

// Finds the concatenated scores among the inputs of map x, and whether there are other products.
static void look(const Node *x, const Node **found, bool *others, int *left) {
  if (--*left < 0) *others = true;
  if (*left < 0 || x == *found) return;
  if (!*found && segments_beside(x))
    *found = x;
  else if (node_is_move(x, MoveConcat) || node_is_move(x, MovePad) || x->op->cls == OpContract)
    *others = true;
  for (int i = 0; x->op->cls == OpMap && i < x->nin; i++)
    if (type_same_shape(&x->in[i]->type, &x->type)) look(x->in[i], found, others, left);
}

bool segments_weigh(const Node *x) {
  const Node *found = NULL;
  bool others = false;
  int left = kMostSearched;
  if (x->op->cls == OpMap) look(x, &found, &others, &left);
  return found && !others;
}

// ---- probabilities read part by part ------------------------------------------------------------

// The probabilities of which x is a slice along keys only, or NULL.
static Node *sliced_weights(const Node *x) {
  if (!node_is_move(x, MoveSlice)) return NULL;
  for (int d = 0; d < last_of(x); d++)
    if (x->type.dim[d] != x->in[0]->type.dim[d]) return NULL;
  return segments_weigh(x->in[0]) ? x->in[0] : NULL;
}

Node *segments_whole(Graph *to, Node *n) {
  if (n->op->cls != OpContract || !n->op->maps->leading || to->c->options.no_flash) return NULL;
  bool turned = reshape_turns(n->in[0]);
  const Node *x = turned ? n->in[0]->in[0] : n->in[0];
  Node *in[2] = {sliced_weights(x), n->in[1]};
  if (!in[0]) return NULL;
  int64_t from = x->attr.dims[last_of(x)], end = x->attr.ends[last_of(x)];
  Attr attr = {0};
  if (!turned) {
    int rows = last_of(in[1]) - 1;
    attr.dims[rows] = from, attr.ends[rows] = in[0]->type.dim[last_of(x)] - end;
    in[1] = simp_make(to, op_need(to->c, "pad"), 1, &in[1], &attr, in[1]);
    return simp_make(to, n->op, 2, in, &n->attr, n);
  }
  in[0] = reshape_turned(to, in[0]);
  Node *all = simp_make(to, n->op, 2, in, &n->attr, n);
  memcpy(attr.ends, all->type.dim, sizeof all->type.dim);
  attr.dims[last_of(all) - 1] = from, attr.ends[last_of(all) - 1] = end;
  return simp_make(to, x->op, 1, &all, &attr, n);
}

// The shape of x's matrices, with the batches to which those of a and b broadcast.
static Type with_batches_of(const Type *a, const Type *b, const Node *x) {
  Type t = a->rank > b->rank ? *a : *b, less = a->rank > b->rank ? *b : *a;
  for (int d = 3; d <= less.rank; d++)
    if (less.dim[less.rank - d] > 1) t.dim[t.rank - d] = less.dim[less.rank - d];
  for (int d = 1; d <= 2; d++) t.dim[t.rank - d] = x->type.dim[last_of(x) + 1 - d];
  return type_make(x->type.dtype, t.rank, t.dim);
}

// x, padded or not, expanded to the batches of both.
static Node *with_batches(Graph *to, Node *x, const Node *other) {
  bool pads = node_is_move(x, MovePad);
  Node *inner = pads ? x->in[0] : x;
  Type t = with_batches_of(&x->type, &other->type, inner);
  Node *y = scores_expanded(to, inner, &t);
  if (y == inner) return x;
  Attr attr = {0};
  int before = t.rank - x->type.rank;
  for (int d = 0; pads && d < x->type.rank; d++)
    attr.dims[d + before] = x->attr.dims[d], attr.ends[d + before] = x->attr.ends[d];
  return pads ? simp_make(to, x->op, 1, &y, &attr, y) : y;
}

// The matmul that is x, or that x multiplies by `factor`, which both addends share; NULL: none.
static Node *addend(Node *x, const Node *factor) {
  bool scaled = factor && x->op->cls == OpMap && x->op->flags & FlagMul && x->in[1] == factor;
  Node *p = scaled && x->uses == 1 ? x->in[0] : factor ? NULL : x;
  return p && p->op->cls == OpContract && p->op->maps->leading && p->uses == 1 ? p : NULL;
}

Node *segments_summed(Graph *to, Node *n) {
  if (n->nin != 2 || n->op->cls != OpMap || !(n->op->flags & FlagAdd) || to->c->options.no_flash)
    return NULL;
  const Node *x = n->in[0];
  bool scaled = x->op->cls == OpMap && x->op->flags & FlagMul && node_is_literal(x->in[1]);
  Node *factor = scaled ? x->in[1] : NULL;
  Node *a = addend(n->in[0], factor), *b = addend(n->in[1], factor);
  if (!a || !b || a->op != b->op || a->in[0] != b->in[0] || a->precision != b->precision ||
      !type_same_shape(&a->type, &b->type) || !segments_weigh(a->in[0]))
    return NULL;
  Node *in[2] = {with_batches(to, a->in[1], b->in[1]), with_batches(to, b->in[1], a->in[1])};
  in[1] = simp_make(to, n->op, 2, in, &n->attr, a->in[1]);
  in[0] = a->in[0];
  in[0] = simp_make(to, a->op, 2, in, &a->attr, a);
  in[1] = factor;
  return factor ? simp_make(to, x->op, 2, in, &x->attr, n) : in[0];
}

// ---- concatenated scores ------------------------------------------------------------------------

typedef struct Join {
  Graph *to;
  const Node *all;               // the concat of scores
  Node *product;                 // of the queries and all keys
  Node *own[kMostParts];         // the matmul of each part; NULL if it is not scores
  int64_t begin[kMostParts + 1]; // where the part's keys begin
  int left;
} Join;

// The parts' values as one map of all keys, if all parts compute the same, else NULL.
static Node *alike(Join *j, Node *const *x) {
  bool own = true, same = true, maps = true;
  for (int i = 0; i < j->all->nin; i++) {
    own = own && x[i] == j->own[i];
    same = same && x[i] == x[0];
    maps = maps && simp_is_pure_map(x[i]) && x[i]->op == x[0]->op &&
           x[i]->type.dtype == x[0]->type.dtype;
  }
  if (own) return j->product;
  if (same && !is_wide(x[0])) return x[0];
  if (!maps || --j->left < 0) return NULL;
  Node *in[MaxInputs];
  for (int k = 0; k < x[0]->nin; k++) {
    Node *of[kMostParts];
    for (int i = 0; i < j->all->nin; i++) of[i] = x[i]->in[k];
    if (!(in[k] = alike(j, of))) return NULL;
  }
  return simp_make(j->to, x[0]->op, x[0]->nin, in, &x[0]->attr, x[0]);
}

// x, of part i, along all keys; its value at other parts' keys does not matter.
static Node *extended(Join *j, int i, Node *x) {
  Graph *to = j->to;
  int last = last_of(x);
  if (x == j->own[i]) return j->product;
  if (!is_wide(x)) return x;
  Type wide = x->type, scalar = type_make(DtI32, 0, NULL);
  wide.dim[last] = j->begin[j->all->nin];
  if (simp_is_const(x)) return simp_const(to, x->attr.value, &wide, x);
  if (x->op->cls == OpSource && x->op->form == SourceIndex) {
    Node *index = graph_add(to, x->op, 0, NULL, &x->attr, x);
    index->type = type_make(x->type.dtype, wide.rank, wide.dim);
    Node *in[2] = {simp_intern(to, index), simp_const(to, (double)j->begin[i], &scalar, x)};
    return x->attr.axis == last ? simp_make(to, op_need(to->c, "sub"), 2, in, NULL, x) : in[0];
  }
  if (simp_is_pure_map(x) && --j->left >= 0) {
    Node *in[MaxInputs];
    for (int k = 0; k < x->nin; k++) in[k] = extended(j, i, x->in[k]);
    return simp_make(to, x->op, x->nin, in, &x->attr, x);
  }
  Attr attr = {0};
  attr.dims[last] = j->begin[i], attr.ends[last] = wide.dim[last] - j->begin[i + 1];
  return simp_make(to, op_need(to->c, "pad"), 1, &x, &attr, x);
}

// All keys as the right operand, zeros for parts without keys.
static Node *keys_of(const Join *j) {
  Node *rows[kMostParts];
  const Node *first = NULL;
  Type t = {0};
  for (int i = 0; i < j->all->nin; i++) {
    Node *b = j->own[i] ? j->own[i]->in[1] : NULL;
    if (!b) continue;
    rows[i] = reshape_turns(b) ? b->in[0] : reshape_turned(j->to, b);
    t = first ? with_batches_of(&t, &rows[i]->type, rows[i]) : rows[i]->type;
    first = rows[i];
  }
  for (int i = 0; i < j->all->nin; i++) {
    Type own = type_make(first->type.dtype, t.rank, t.dim);
    own.dim[t.rank - 2] = j->begin[i + 1] - j->begin[i];
    rows[i] = j->own[i] ? scores_expanded(j->to, rows[i], &own) : simp_const(j->to, 0, &own, first);
  }
  Attr attr = {.axis = t.rank - 2};
  return reshape_turned(
      j->to, simp_make(j->to, op_need(j->to->c, "concat"), j->all->nin, rows, &attr, first));
}

// Part i for its keys and those before, `rest` for the later ones.
static Node *chosen(Join *j, int i, Node *rest, Node *like) {
  Type scalar = type_make(DtI32, 0, NULL);
  Type keys = type_make(DtI32, 1, &j->begin[j->all->nin]);
  Node *end = simp_const(j->to, (double)j->begin[i + 1], &scalar, like);
  Node *in[3] = {simp_index(j->to, 0, &keys, like), end};
  in[0] = simp_make(j->to, op_need(j->to->c, "lt"), 2, in, NULL, like);
  in[1] = extended(j, i, j->all->in[i]), in[2] = rest;
  return simp_make(j->to, op_need(j->to->c, "where"), 3, in, NULL, like);
}

// A matmul padded with zero columns is a matmul with a padded right operand: the gradient of
// probabilities of which only some have values.
static Node *product_padded(Graph *to, Node *n) {
  Node *p = node_is_move(n, MovePad) ? n->in[0] : NULL,
       *b = p && reshape_batched(p) ? p->in[1] : NULL;
  if (!b) return NULL;
  Attr attr = {0};
  for (int d = 0; d < last_of(n); d++)
    if (n->attr.dims[d] || n->attr.ends[d]) return NULL;
  int rows = last_of(b) - 1;
  attr.dims[rows] = n->attr.dims[last_of(n)], attr.ends[rows] = n->attr.ends[last_of(n)];
  Node *in[2] = {p->in[0], reshape_turns(b) ? b->in[0] : reshape_turned(to, b)};
  in[1] = reshape_turned(to, simp_make(to, n->op, 1, &in[1], &attr, b));
  return simp_make(to, p->op, 2, in, &p->attr, p);
}

Node *segments_joined(Graph *to, Node *n) {
  if (!segments_beside(n)) return product_padded(to, n);
  Join j = {.to = to, .all = n, .left = kMostSearched};
  for (int i = 0; i < n->nin; i++) {
    j.own[i] = product_of(n->in[i]);
    j.begin[i + 1] = j.begin[i] + n->in[i]->type.dim[last_of(n)];
  }
  Node *one = NULL;
  for (int i = 0; i < n->nin && !one; i++) one = j.own[i];
  Node *in[2] = {one->in[0], keys_of(&j)};
  j.product = simp_make(to, one->op, 2, in, &one->attr, one);
  Node *y = alike(&j, n->in);
  if (y) return y;
  y = extended(&j, n->nin - 1, n->in[n->nin - 1]);
  for (int i = n->nin - 2; i >= 0; i--) y = chosen(&j, i, y, n);
  return y;
}
