// simp.c: algebraic simplification. One forward walk rebuilds the graph through simp_make, which
// applies the rules until none matches, and keeps one node of each kind (common subexpression
// elimination). Dead nodes are not visited.
#include "simp.h"

#include <assert.h>
#include <string.h>
#include <uthash.h>

typedef struct Entry { // an existing node, keyed by what it computes
  Node *node;
  UT_hash_handle hh;
} Entry;

enum { kMostRules = 64 };

// Nodes of the graph under construction (Graph.scratch).
typedef struct Known {
  Entry *table;
  int other;              // number of maps made in place of one that computes in another dtype
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

Node *simp_binary(Graph *to, const Op *op, Node *a, Node *b, const Node *like) {
  Node *in[2] = {a, b};
  return simp_make(to, op, 2, in, NULL, like);
}

bool simp_is_pure_map(const Node *n) {
  return n->op->cls == OpMap && n->op->typing != TypeDraw;
}

bool simp_is_const(const Node *n) {
  return n->op->cls == OpSource && n->op->form == SourceConst;
}

// Is arithmetic the same in both dtypes? Integers wrap at different sizes.
bool simp_same_arithmetic(Dtype a, Dtype b) {
  return a == b || (dtype_is_float(a) && dtype_is_float(b));
}

// Recursion limits. Rules that move an op through the graph recurse once per node; rules that
// reshape scores could undo each other forever.
enum { kSeen = 4, kMoved = 1000 };

typedef struct Rule {
  SimpRule *rule;
  int limit;
} Rule;

// For every lowering.
static SimpRule *const always[] = {fold_constants, drop_identity, join_moves, sort_by_merging};

// Not for `unfused`, which shows the model as written. In the order in which they are tried; each
// rule states its conditions. c: a fixed value; v: values of attention; e: an exponential of
// scores; p: a softmax.
static const Rule rules[] = {
    {fixed_second, kMoved},           // c + x = x + c
    {subtract_to_add, kMoved},        // x - c = x + (-c)
    {join_fixed, kMoved},             // (x + c1) * c2 = x * c2 + c1 * c2
    {scale_into_weights, kMoved},     // contract(x, w) * c = contract(x, w * c)
    {drop_taps, kMoved},              // filter taps that only see padding
    {sum_outside, kMoved},            // sum(x * c) = sum(x) * c, sum(-x) = -sum(x)
    {sum_joins_variance, kMoved},     // sum((y - mean(y))^2) = var(y) * count
    {sum_joins_exponentials, kMoved}, // sum(exp(x - max(x))) in the sweep that finds max(x)
    {broadcast_late, kMoved},         // a map broadcasts its operands itself
    {reshape_last, kMoved},           // f(reshape(x)) = reshape(f(x))
    {slice_first, kMoved},            // slice(reshape(a b)) = reshape(slice(a b)), of halves
    {slice_split, kMoved},            // slice(x(H, 3 D)) = slice(x(H, 3, D))
    {sum_joins_product, kMoved},      // sum over k of w (a v^T) = sum over n of a (w v)
    {pads_to_concat, kMoved},         // pad(a) + pad(b) = concat(a, b)
    {batches_last, kMoved},           // matmul(reshape(a), reshape(b)) = reshape(matmul(a, b))
    {reduce_inside, kMoved},          // reduce(reshape(x)) = reshape(reduce(x)), of batches
    {units_last, kMoved},             // the same, also of scans, if only dimensions of 1 change
    {units_after_along, kMoved},      // the same of elements at positions
    {units_after_product, kMoved},    // the same of products
    {weights_first, kMoved},          // a w = (w^T a^T)^T
    {transposed_product, kMoved},     // (a b)^T = b^T a^T
    {concat_simpler, kMoved},         // concats of parts, of maps, of one value
    {powers_plain, kMoved},           // exp(log(x)) = x, pow(2, x) = exp(x log(2))
    {scores_transposed, kMoved},      // softmax of (q k^T)^T
    {batches_apart, kSeen},           // reshape(q k^T) = reshape(q) reshape(k)^T, of batches
    {nan_of_row, kMoved},             // where(isnan(p), 0, p) is decided once a row
    {weights_apart, kMoved},          // (p1 + p2) v = p1 v + p2 v
    {scale_behind, kMoved},           // (a c) b = (a b) c
    {sum_inside, kMoved},             // (e v) / sum(e) = (e / sum(e)) v
    {repeats_read, kMoved},           // matmul(expand(a), b) reads a once for its batches
    {rows_apart, kMoved},             // the same of rows that were joined
    {rows_summed, kMoved},            // a^T b of joined rows = a sum of such products
    {products_joined, kMoved},        // softmax(a b + c d) = softmax(concat(a, c) concat(b, d))
    {segments_whole, kMoved},         // slices of p of several key segments
    {segments_summed, kMoved},        // p1 v1 + p2 v2 = concat(p1, p2) concat(v1, v2)
    {concat_apart, kMoved},           // concat of reshaped products = reshape of their concat
    {slice_apart, kMoved},            // slice of a reshaped product = reshape of its slice
    {batches_in_order, kMoved},       // products whose batches are permuted
    {powers_factored, kMoved},        // a e + b e = (a + b) e
    {weights_cut, kMoved},            // p[some batches] = softmax of these batches
    {grids_last, kSeen},              // softmax(reshape(scores)) = reshape(softmax(scores))
    {parts_summed, kMoved},           // sums of score gradients by row and column of a grid
    {sums_once, kMoved},              // (p m) / sum(p m) = (e m) / sum(e m)
    {choice_mapped, kMoved},          // f(where(c, A, B)) = where(c, f(A), f(B)), of constants
    {choice_plain, kMoved},           // where(c, true, false) = c
    {lowest_hidden, kMoved},          // the lowest float among scores = minus infinity
    {window_reduced, kMoved},         // pooling without overlap = a reduction
    {reduced_once, kMoved},           // sum(sum(x, 1), 2) = sum(x, {1, 2})
    {window_mapped, kMoved},          // f(windows(x)) = windows(f(x))
    {convolution_cut, kMoved},        // a slice of a convolution's pixels = one with less padding
    {permute_behind, kMoved},         // reduce(permute(x)) = permute(reduce(x))
    {permute_last, kMoved},           // f(permute(x)) = permute(f(x))
};

static_assert(LENGTH(rules) <= kMostRules, "a place for each rule");

// The rule's replacement, unless it changed the arithmetic dtype (for example u8 instead of i32).
static Node *apply_rule(Graph *to, Node *n, SimpRule *rule) {
  Known *known = to->scratch;
  int before = known->other;
  Node *better = rule(to, n);
  bool other = known->other != before;
  known->other = before;
  bool same = better && !other && simp_same_arithmetic(better->type.dtype, n->type.dtype);
  return same ? better : NULL;
}

static Node *apply(Graph *to, Node *n) {
  for (size_t i = 0; i < LENGTH(always); i++) {
    Node *better = apply_rule(to, n, always[i]);
    if (better) return better;
  }
  bool algebra = options_fused(&to->c->options);
  int *nested = ((Known *)to->scratch)->nested;
  for (size_t i = 0; algebra && i < LENGTH(rules); i++) {
    if (nested[i] == rules[i].limit) continue;
    nested[i]++;
    Node *better = apply_rule(to, n, rules[i].rule);
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
  bool other =
      op == like->op && op->cls == OpMap && !simp_same_arithmetic(n->type.dtype, like->type.dtype);
  Node *better = apply(to, n), *made = better ? better : simp_intern(to, n);
  if (other && !simp_is_const(made)) ((Known *)to->scratch)->other++;
  return made;
}

void simp_uses_of(Node *x, const Node *other) {
  if (x->uses < other->uses) x->uses = other->uses;
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
  simp_uses_of(n, node);
  n->operand = n->operand || node->operand;
  n->undone = n->undone || (node->undone && n->op == node->op);
  return n;
}

static Node *rewrite_memories(Graph *to, Node *node, Node **in) {
  Node *n = rewrite(to, node, in), *joined = segments_joined(to, n);
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

static bool has_memories(Graph *g) {
  bool found = !g->c->options.no_flash;
  int i = 0;
  while (found && i < g->nnodes && !segments_beside(g->nodes[i])) i++;
  return found && i < g->nnodes;
}

// Walks after the first one, of fused graphs that need them: their rules depend on use counts of
// the simplified graph.
static const struct Walk {
  bool (*needed)(Graph *g);
  Node *(*rewrites)(Graph *, Node *, Node **);
} walks[] = {
    {has_memories, rewrite_memories}, // scores of several key segments under one softmax
    {permutes_go, rewrite},           // permutes that cancel out with later ones
    {rows_may_be_cut, rewrite_cut},   // rows of which only a part is read
};

// Needs: types. Produces the same outputs from fewer nodes.
void simp_pass(Compiler *c) {
  c->graph = simplified(c->graph, rewrite);
  bool fused = options_fused(&c->options);
  for (size_t i = 0; fused && i < LENGTH(walks); i++)
    if (walks[i].needed(c->graph)) c->graph = simplified(c->graph, walks[i].rewrites);
}
