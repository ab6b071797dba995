// simp.c: algebraic simplification. One forward walk rebuilds the graph through simp_make, which
// applies the rules until none matches, and keeps one node of each kind (common subexpression
// elimination). Dead nodes are not visited.
//
// Batch normalisation folds into the convolution before it by three general rules about values that
// are fixed at inference (Node.fixed): x - c = x + (-c);  (x + c1) * c2 = x * c2 + c1 * c2;
// contract(x, w) * c = contract(x, w * c) if c varies only along the output channels. The fixed
// parts are then computed once, by the plan's entry `init`.
#include "simp.h"

#include <float.h>
#include <assert.h>
#include <math.h>
#include <string.h>
#include <uthash.h>

enum { kMostJoined = 64 };

typedef struct Entry { // an existing node, keyed by what it computes
  Node *node;
  UT_hash_handle hh;
} Entry;

enum { kMostRules = 48 };

// Nodes of the graph under construction (Graph.scratch).
typedef struct Known {
  Entry *table;
  int other; // number of maps made in place of one that computes in another dtype
  int nested[kMostRules]; // current recursion depth of each rule
} Known;

typedef struct Key {
  const Op *op;
  Attr attr;
  int64_t dims[MaxRank]; // const, reshape: the shape
  uint8_t order[MaxRank];
  Dtype dtype;
  int rank, nin, precision, entry;
  Node *in[];
} Key;

// Attributes that the op does not have are left out: stale values must not affect the key.
void *simp_key(Arena *arena, const Node *n, Node *const *in, size_t *size) {
  *size = sizeof(Key) + sizeof n->in[0] * (size_t)n->nin;
  Key *key = arena_alloc(arena, *size);
  key->op = n->op;
  op_copy_attrs(n->op, &n->attr, &key->attr);
  key->nin = n->nin;
  key->dtype = n->type.dtype;
  key->precision = (int)n->precision;
  key->entry = n->fixed ? 0 : n->entry;
  key->rank = n->type.rank;
  memcpy(key->dims, n->type.dim, sizeof n->type.dim[0] * (size_t)n->type.rank);
  memcpy(key->order, n->type.order, sizeof key->order[0] * (size_t)n->type.rank);
  if (n->nin) memcpy(key->in, in, sizeof *in * (size_t)n->nin);
  return key;
}

Node *simp_intern(Graph *to, Node *n) {
  if (node_has_memory(n)) return n; // named: never merged
  Known *known = to->scratch;
  size_t size;
  void *key = simp_key(to->arena, n, n->in, &size);
  Entry *e;
  HASH_FIND(hh, known->table, key, size, e);
  if (e) {
    // otherwise it is dead, and removed with the others
    if (to->nodes[to->nnodes - 1] == n) to->nnodes--;
    return e->node;
  }
  e = arena_alloc(to->arena, sizeof *e);
  e->node = n;
  HASH_ADD_KEYPTR(hh, known->table, key, size, e);
  return n;
}

Node *simp_const(Graph *to, double value, const Type *shape, const Node *like) {
  Attr attr = {.value = value};
  Node *n = graph_add(to, op_need(to->c, "const"), 0, NULL, &attr, (Node *)like);
  n->type = type_make(shape->dtype, shape->rank, shape->dim);
  return simp_intern(to, n);
}

Node *simp_with(Graph *to, const char *op, Node *x, double number) {
  Type scalar = type_make(x->type.dtype, 0, NULL);
  Node *in[2] = {x, simp_const(to, number, &scalar, x)};
  return simp_make(to, op_need(to->c, op), 2, in, NULL, x);
}

Node *simp_index(Graph *to, int axis, const Type *shape, const Node *like) {
  Node *n = graph_add(to, op_need(to->c, "index"), 0, NULL, &(Attr){.axis = axis}, (Node *)like);
  n->type = type_make(DtI32, shape->rank, shape->dim);
  return simp_intern(to, n);
}

bool simp_is_const(const Node *n) {
  return n->op->cls == OpSource && n->op->form == SourceConst;
}
static bool is_value(const Node *n, double v) {
  return simp_is_const(n) && n->attr.value == v;
}

// ---- rules: each returns the replacement, or NULL ----------------------------------------------

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
static Node *drop_identity(Graph *to, Node *n) {
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
static Node *join_moves(Graph *to, Node *n) {
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
static Node *broadcast_late(Graph *to, Node *n) {
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
  if (n->op->cls != OpMove || n->op->form != MovePad || *count == kMostJoined) return false;
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

// Is arithmetic the same in both dtypes? Integers wrap at different sizes.
static bool same_arithmetic(Dtype a, Dtype b) {
  return a == b || (dtype_is_float(a) && dtype_is_float(b));
}

// The sum of adjacent pads is a concat (the gradient of slices).
static Node *pads_to_concat(Graph *to, Node *n) {
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
static Node *fixed_second(Graph *to, Node *n) {
  if (!(n->op->flags & FlagCommutes) || n->nin != 2) return NULL;
  if (!n->in[0]->fixed || n->in[1]->fixed) return NULL;
  Node *swapped[2] = {n->in[1], n->in[0]};
  return simp_make(to, n->op, 2, swapped, &n->attr, n);
}

static Node *binary(Graph *to, const Op *op, Node *a, Node *b, const Node *like) {
  Node *in[2] = {a, b};
  return simp_make(to, op, 2, in, NULL, like);
}

// x - c = x + (-c), if c is negated in the dtype of the result: as u8, -1 is 255.
static Node *subtract_to_add(Graph *to, Node *n) {
  if (!(n->op->flags & FlagSub) || !n->in[1]->fixed || n->in[0]->fixed) return NULL;
  Dtype dtype = n->in[1]->type.dtype;
  bool number = node_is_number(n->in[1]) && dtype != DtBool;
  if (!number && !same_arithmetic(dtype, n->type.dtype)) return NULL;
  Node *negative = simp_make(to, op_need(to->c, "neg"), 1, &n->in[1], NULL, n);
  return binary(to, op_need(to->c, "add"), n->in[0], negative, n);
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
static Node *join_fixed(Graph *to, Node *n) {
  if (n->nin != 2 || !(n->op->flags & (FlagAdd | FlagMul))) return NULL;
  Node *inner = n->in[0], *c2 = n->in[1];
  if (!c2->fixed || inner->fixed || inner->uses > 1 || inner->nin != 2) return NULL;
  if (!(inner->op->flags & (FlagAdd | FlagMul)) || !inner->in[1]->fixed) return NULL;
  Node *x = inner->in[0], *c1 = inner->in[1];
  if (!can_join(c1, c2, n->op->flags & FlagMul)) return NULL;
  if (!same_arithmetic(inner->type.dtype, n->type.dtype)) return NULL;
  if (inner->op == n->op) return binary(to, n->op, x, binary(to, n->op, c1, c2, n), n);
  if (!(n->op->flags & FlagMul)) return NULL;
  Node *scaled = binary(to, n->op, x, c2, n);
  return binary(to, inner->op, scaled, binary(to, n->op, c1, c2, n), n);
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
static Node *scale_into_weights(Graph *to, Node *n) {
  if (!(n->op->flags & FlagMul) || n->nin != 2) return NULL;
  Node *y = n->in[0], *c = n->in[1];
  if (y->op->cls != OpContract || y->uses > 1 || !c->fixed || !y->in[1]->fixed) return NULL;
  if (!type_same_shape(&y->type, &n->type) || !factor_fits(y, c)) return NULL;
  Node *factor = weight_factor(to, y, c);
  if (!factor) return NULL;
  Node *in[2] = {y->in[0], binary(to, n->op, y->in[1], factor, n)};
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
static Node *drop_taps(Graph *to, Node *n) {
  if (n->op->cls != OpContract || n->op->form != FormConv) return NULL;
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

static SimpRule *const always[] = {fold_constants, drop_identity, join_moves};
static SimpRule *const rules[] = {
    fixed_second,     subtract_to_add, join_fixed,         scale_into_weights,
    drop_taps,        sum_outside,     sum_joins_variance, sum_joins_exponentials,
    broadcast_late,   reshape_last,    sum_joins_product,  pads_to_concat,
    batches_last,     reduce_inside,   weights_first,      turned_product,
    concat_simpler,   powers_plain,    scores_turned,      batches_apart,
    nan_of_row,       weights_apart,   scale_behind,       sum_inside,
    repeats_read,     rows_apart,      rows_summed,        products_joined,
    memories_whole,   memories_summed, concat_apart,       slice_apart,
    batches_in_order, powers_factored, weights_cut,        grids_last,
    parts_summed,     sums_once,       choice_mapped,      choice_plain,
    lowest_hidden,    window_reduced,  reduced_once,       window_mapped,
    permute_behind,   permute_last,
};

static_assert(LENGTH(rules) <= kMostRules, "a place for each rule");

// Recursion limit per rule. Rules that move an op through the graph recurse once per node; rules
// that reshape scores could undo each other forever.
static int most_nested(SimpRule *rule) {
  enum { kSeen = 4, kMoved = 1000 };
  return rule == grids_last || rule == batches_apart ? kSeen : kMoved;
}

// The rule's replacement, unless it changed the arithmetic dtype (for example u8 instead of i32).
static Node *apply_rule(Graph *to, Node *n, SimpRule *rule) {
  Known *known = to->scratch;
  int before = known->other;
  Node *better = rule(to, n);
  bool other = known->other != before;
  known->other = before;
  return better && !other && same_arithmetic(better->type.dtype, n->type.dtype) ? better : NULL;
}

static Node *apply(Graph *to, Node *n) {
  for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
    Node *better = apply_rule(to, n, always[i]);
    if (better) return better;
  }
  // Not for `unfused`, which shows the model as written.
  bool algebra = strcmp(to->c->options.lowering, "unfused") != 0;
  int *nested = ((Known *)to->scratch)->nested;
  for (size_t i = 0; algebra && i < LENGTH(rules); i++) {
    if (nested[i] == most_nested(rules[i])) continue;
    nested[i]++;
    Node *better = apply_rule(to, n, rules[i]);
    nested[i]--;
    if (better) return better;
  }
  return NULL;
}

Node *simp_make(Graph *to, const Op *op, int nin, Node **in, const Attr *attr, const Node *like) {
  Node *n = graph_add(to, op, nin, in, attr, (Node *)like);
  n->uses = 1;
  if (op->form == MoveReshape && op->cls == OpMove) n->type.rank = like->type.rank;
  shape_infer(to->c, n);
  bool other = op == like->op && op->cls == OpMap &&
               !same_arithmetic(n->type.dtype, like->type.dtype);
  Node *better = apply(to, n), *made = better ? better : simp_intern(to, n);
  if (other && !simp_is_const(made)) ((Known *)to->scratch)->other++;
  return made;
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  Node *n;
  if (node->op->cls == OpSource) {
    n = graph_add(to, node->op, 0, NULL, &node->attr, node);
    n->type = node->type;
    n = simp_intern(to, n);
  } else {
    n = simp_make(to, node->op, node->nin, in, &node->attr, node);
  }
  n->uses = node->uses > n->uses ? node->uses : n->uses;
  n->operand = n->operand || node->operand;
  n->undone = n->undone || (node->undone && n->op == node->op);
  return n;
}

static Node *rewrite_memories(Graph *to, Node *node, Node **in) {
  Node *n = rewrite(to, node, in), *joined = memories_joined(to, n);
  return joined ? joined : n;
}

static Node *rewrite_cut(Graph *to, Node *node, Node **in) {
  Node *n = rewrite(to, node, in), *made = rows_cut(to, n);
  return made ? made : n;
}

static void find_operands(Graph *g) {
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->op->cls == OpContract && j < g->nodes[i]->nin; j++)
      g->nodes[i]->in[j]->operand = true;
}

static Graph *simplified(Graph *g, Node *(*rewrites)(Graph *, Node *, Node **)) {
  Known known = {0};
  find_operands(g);
  Graph *to = graph_rebuild(g, rewrites, &known);
  HASH_CLEAR(hh, known.table);
  return graph_copy(to); // without dead nodes
}

static bool has_memories(const Graph *g) {
  bool found = !strcmp(g->c->options.lowering, "fused") && !g->c->options.no_flash;
  int i = 0;
  while (found && i < g->nnodes && !memories_beside(g->nodes[i])) i++;
  return found && i < g->nnodes;
}

// Needs: types. Produces the same outputs from fewer nodes. Attention over several segments is
// merged in a second walk, after readers of partial probabilities have been rewritten.
void simp_pass(Compiler *c) {
  c->graph = simplified(c->graph, rewrite);
  if (has_memories(c->graph)) c->graph = simplified(c->graph, rewrite_memories);
  bool fused = !strcmp(c->options.lowering, "fused");
  if (fused && permutes_go(c->graph)) c->graph = simplified(c->graph, rewrite);
  if (fused && rows_may_be_cut(c->graph)) c->graph = simplified(c->graph, rewrite_cut);
}
