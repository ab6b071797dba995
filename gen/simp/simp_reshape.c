// simp_reshape.c: moves reshapes after maps and slices, keeps batch dimensions separate, so that
// everything between two matmuls has one shape, as attend.c requires. (bmm and einsum join (B, H)
// to B*H, while masks are (B, H, N, M).)
#include "simp.h"

#include <string.h>

enum { kMostSearched = 64, kMostBeside = 16 }; // nodes visited per search; maps recomputed

Node *reshape_as(Graph *to, Node *x, int rank, const int64_t *dims) {
  Node like = *x;
  Attr attr = {0};
  like.type.rank = rank;
  memcpy(attr.dims, dims, sizeof *dims * (size_t)rank);
  return simp_make(to, op_need(to->c, "reshape"), 1, &x, &attr, &like);
}

// ---- batches ------------------------------------------------------------------------------------

bool reshape_same_matrices(const Type *a, const Type *b) {
  return a->rank >= 2 && b->rank >= 2 && a->dim[a->rank - 1] == b->dim[b->rank - 1] &&
         a->dim[a->rank - 2] == b->dim[b->rank - 2];
}

// Is n a matmul whose right operand has batches?
bool reshape_batched(const Node *n) {
  return n->op->cls == OpContract && n->op->maps->leading && n->in[1]->type.rank > 2;
}

// The matmul with matrices of this size from which maps and reductions compute n, or NULL.
static const Node *made_of_product(const Node *n, const Type *matrices, int *left) {
  if (reshape_batched(n)) return reshape_same_matrices(&n->type, matrices) ? n : NULL;
  if (--*left < 0 || (n->op->cls != OpMap && n->op->cls != OpReduce)) return NULL;
  for (int i = 0; i < n->nin; i++) {
    const Node *product = made_of_product(n->in[i], matrices, left);
    if (product) return product;
  }
  return NULL;
}

const Node *reshape_product(const Node *n, const Node *but, int *left) {
  bool product = n->op->cls == OpContract && n->op->maps->leading;
  if (product || --*left < 0 || n->op->cls != OpMap) return product && n != but ? n : NULL;
  const Node *found = NULL;
  for (int i = 0; i < n->nin && !found; i++)
    if (type_same_shape(&n->in[i]->type, &n->type)) found = reshape_product(n->in[i], but, left);
  return found;
}

static int dims_of_batches(const Type *t) { // without those of size 1
  int count = 0;
  for (int d = 0; d < t->rank - 2; d++) count += t->dim[d] > 1;
  return count;
}

// Does reshape n join batch dimensions of its input? Dropping a size-1 dimension counts if only one
// batch dimension remains (bmm over heads, batch 1), or for scores.
bool reshape_joins(const Node *n) {
  if (!node_is_move(n, MoveReshape) || n->in[0]->type.rank <= n->type.rank) return false;
  if (!reshape_same_matrices(&n->in[0]->type, &n->type)) return false;
  return n->type.rank == 3 || reshape_scores(n->in[0]) ||
         dims_of_batches(&n->in[0]->type) > dims_of_batches(&n->type);
}

bool reshape_scores(const Node *n) {
  int left = kMostSearched;
  return n->type.rank > 2 && made_of_product(n, &n->type, &left);
}

static bool made_of_scores(const Node *n) {
  return reshape_scores(reshape_turns(n) ? n->in[0] : n);
}

// Is operand x probabilities, or a map of them?
static bool is_weights(const Node *x) {
  return sum_power(reshape_turns(x) ? x->in[0] : x);
}

// Is n computed from scores whose operands are not probabilities?
bool reshape_first_scores(const Node *n) {
  int left = kMostSearched;
  const Node *product = n->type.rank > 2 ? made_of_product(n, &n->type, &left) : NULL;
  return product && !is_weights(product->in[0]) && !is_weights(product->in[1]);
}

// Does reshape n join leading dimensions but keep the last one?
static bool joins_rows(const Node *n) {
  if (!node_is_move(n, MoveReshape) || n->in[0]->type.rank <= n->type.rank || n->type.rank < 2)
    return false;
  const Type *from = &n->in[0]->type;
  return from->dim[from->rank - 1] == n->type.dim[n->type.rank - 1];
}

// Is n a map of a row reduction of scores?
static bool is_rows_of_scores(const Node *n) {
  while (n->op->cls == OpMap && n->nin && type_same_shape(&n->in[0]->type, &n->type)) n = n->in[0];
  return n->op->cls == OpReduce && n->attr.axes >> (n->type.rank - 1) & reshape_scores(n->in[0]);
}

static bool joins_of_product(const Node *n) {
  if (!reshape_joins(n)) return joins_rows(n) && reshape_first_scores(n->in[0]);
  return reshape_scores(n->in[0]) || is_rows_of_scores(n->in[0]);
}

static Type batches_of(const Type *t) {
  return type_make(t->dtype, t->rank - 2, t->dim);
}

bool reshape_turns(const Node *n) {
  if (!node_is_move(n, MovePermute)) return false;
  int rows = n->type.rank - 2;
  for (int d = 0; d < rows; d++)
    if (n->attr.dims[d] != d) return false;
  return rows >= 0 && n->attr.dims[rows] == rows + 1;
}

Node *reshape_turned(Graph *to, Node *x) { // its last two dimensions exchanged
  Attr attr = {0};
  int rank = x->type.rank;
  for (int d = 0; d < rank; d++) attr.dims[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
  return simp_make(to, op_need(to->c, "permute"), 1, &x, &attr, x);
}

// Operand x of a matmul with batches `joined`, with batches `apart` instead, or NULL if impossible.
static Node *with_batches(Graph *to, Node *x, const Type *joined, const Type *apart) {
  int64_t dims[MaxRank];
  if (x->type.rank <= 2) return x;
  if (reshape_turns(x)) {
    Node *inner = with_batches(to, x->in[0], joined, apart);
    return inner ? reshape_turned(to, inner) : NULL;
  }
  Type own = batches_of(&x->type);
  if (!grid_seen_as(&own, joined, apart, dims)) return NULL;
  memcpy(dims + apart->rank, x->type.dim + own.rank, 2 * sizeof *dims);
  return reshape_as(to, x, apart->rank + 2, dims);
}

Node *reshape_with_batches(Graph *to, Node *n, const Type *apart) {
  Type joined = batches_of(&n->type);
  Node *in[2];
  for (int i = 0; i < 2; i++) {
    in[i] = with_batches(to, n->in[i], &joined, apart);
    if (!in[i]) return NULL;
  }
  return simp_make(to, n->op, 2, in, &n->attr, n);
}

// matmul(reshape(x), y) = reshape(matmul(x, reshape(y))), if the reshape only joins batch
// dimensions.
Node *batches_last(Graph *to, Node *n) {
  if (!reshape_batched(n)) return NULL;
  Type joined = batches_of(&n->type);
  for (int i = 0; i < 2; i++) {
    const Node *x = reshape_turns(n->in[i]) ? n->in[i]->in[0] : n->in[i];
    if (!reshape_joins(x)) continue;
    Type own = batches_of(&x->type), apart = batches_of(&x->in[0]->type);
    if (!type_same_shape(&own, &joined)) continue;
    Node *y = reshape_with_batches(to, n, &apart);
    if (y) return reshape_as(to, y, n->type.rank, n->type.dim);
  }
  return NULL;
}

// x with `count` size-1 dimensions inserted after the batches; below a permutation, so that it
// stays the last move.
static Node *with_ones(Graph *to, Node *x, int count) {
  bool permuted = node_is_move(x, MovePermute);
  int rank = x->type.rank, batches = rank - 2, at = permuted ? 0 : batches;
  Node *moved = permuted ? x->in[0] : x;
  int64_t dims[MaxRank] = {0};
  for (int d = 0; d < rank + count; d++)
    dims[d] = d >= at && d < at + count ? 1 : moved->type.dim[d < at ? d : d - count];
  Node *y = reshape_as(to, moved, rank + count, dims);
  if (!permuted) return y;
  Attr attr = {0};
  for (int d = 0; d < count; d++) attr.dims[batches + d] = d;
  for (int d = 0; d < rank; d++) attr.dims[d < batches ? d : d + count] = x->attr.dims[d] + count;
  return simp_make(to, x->op, 1, &y, &attr, x);
}

// reshape(matmul(reshape(x), y)) = matmul(x, y'), if the reshapes join rows and separate them
// again, as einsum does for heads that share keys.
Node *rows_apart(Graph *to, Node *n) {
  Node *product = n->in[0], *x = node_is_move(n, MoveReshape) ? product : NULL;
  if (!x || !reshape_batched(x) || x->uses > 1 || !node_is_move(x->in[0], MoveReshape)) return NULL;
  x = x->in[0]->in[0];
  int rank = product->type.rank, more = n->type.rank - rank;
  if (more <= 0 || x->type.rank != n->type.rank || product->in[1]->type.rank != rank) return NULL;
  for (int d = 0; d < n->type.rank - 1; d++)
    if (x->type.dim[d] != n->type.dim[d] ||
        (d < rank - 2 && n->type.dim[d] != product->type.dim[d]))
      return NULL;
  if (n->type.dim[n->type.rank - 1] != product->type.dim[rank - 1] ||
      x->type.dim[n->type.rank - 1] != product->in[0]->type.dim[rank - 1])
    return NULL;
  Node *in[2] = {x, with_ones(to, product->in[1], more)};
  return simp_make(to, product->op, 2, in, &product->attr, product);
}

// a w = (w^T a^T)^T, where w are probabilities, maybe transposed: for example channels before
// positions.
static Node *weights_turned(Graph *to, Node *n) {
  const Node *w = reshape_turns(n->in[1]) ? n->in[1]->in[0] : n->in[1];
  if (n->in[0]->type.rank != n->type.rank || w->type.rank != n->type.rank || !is_weights(w) ||
      !reshape_scores(w) || made_of_scores(n->in[0]))
    return NULL;
  Node *in[2] = {reshape_turned(to, n->in[1]), reshape_turned(to, n->in[0])};
  return reshape_turned(to, simp_make(to, n->op, 2, in, &n->attr, n));
}

// permute(a w) with rows innermost = permute'(w^T a^T), if w is computed from scores: the
// probabilities become the left operand, as attend_backward.c requires.
Node *weights_first(Graph *to, Node *n) {
  int rank = n->type.rank;
  if (reshape_batched(n)) return weights_turned(to, n);
  if (!node_is_move(n, MovePermute) || !reshape_batched(n->in[0])) return NULL;
  const Node *product = n->in[0];
  Node *in[2] = {product->in[1], product->in[0]};
  if (n->attr.dims[rank - 1] != rank - 2 || product->uses > 1 || in[0]->type.rank != rank ||
      in[1]->type.rank != rank || !made_of_scores(in[0]))
    return NULL;
  Attr turn = {0}, back = n->attr;
  for (int d = 0; d < rank; d++) turn.dims[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
  for (int d = 0; d < rank; d++) back.dims[d] = turn.dims[n->attr.dims[d]];
  for (int i = 0; i < 2; i++) in[i] = simp_make(to, n->op, 1, &in[i], &turn, n);
  Node *turned = simp_make(to, product->op, 2, in, &product->attr, product);
  return simp_make(to, n->op, 1, &turned, &back, n);
}

// (a b)^T = b^T a^T, for a 2-D matmul that is only read transposed: weight gradients get the
// weights' layout.
Node *transposed_product(Graph *to, Node *n) {
  Node *product = reshape_turns(n) && n->type.rank == 2 ? n->in[0] : NULL;
  if (!product || product->op->cls != OpContract || !product->op->maps->leading ||
      product->uses > 1 || product->in[1]->type.rank != 2 || product->in[0]->type.rank != 2)
    return NULL;
  Node *in[2];
  for (int i = 0; i < 2; i++) in[i] = simp_make(to, n->op, 1, &product->in[1 - i], &n->attr, n);
  return simp_make(to, product->op, 2, in, &product->attr, product);
}

// reduce(reshape(x)) = reshape(reduce(x)), if the reshape only joins batches or rows of scores.
Node *reduce_inside(Graph *to, Node *n) {
  if (n->op->cls != OpReduce || !joins_of_product(n->in[0])) return NULL;
  Node *x = n->in[0]->in[0];
  int rank = n->type.rank, more = x->type.rank - rank, whole = reshape_joins(n->in[0]) ? 2 : 1;
  if (n->attr.axes & ((1 << (rank - whole)) - 1)) return NULL;
  Attr attr = n->attr;
  attr.axes <<= more;
  return reshape_as(to, simp_make(to, n->op, 1, &x, &attr, n), rank, n->type.dim);
}

// Does reshape n split batch dimensions of scores?
static bool parts_batches(const Node *n) {
  return node_is_move(n, MoveReshape) && n->in[0]->type.rank < n->type.rank &&
         n->in[0]->type.rank > 2 && reshape_same_matrices(&n->in[0]->type, &n->type) &&
         reshape_first_scores(n->in[0]);
}

// x, which broadcasts to `from`, with the batch dimensions of `as`, or NULL if impossible.
static Node *seen_apart(Graph *to, Node *x, const Type *from, const Type *as) {
  int64_t dims[MaxRank];
  bool full = type_same_shape(&x->type, from);
  if (full && reshape_batched(x)) {
    Type apart = batches_of(as);
    Node *y = reshape_with_batches(to, x, &apart);
    return y && type_same_shape(&y->type, as) ? y : NULL;
  }
  if (full && x->op->cls == OpMap && x->op->typing != TypeDraw && reshape_scores(x)) {
    Node *in[MaxInputs];
    for (int i = 0; i < x->nin; i++)
      if (!(in[i] = seen_apart(to, x->in[i], from, as))) return NULL;
    return simp_make(to, x->op, x->nin, in, &x->attr, x);
  }
  bool row = x->op->cls == OpReduce && x->attr.axes == 1 << (x->type.rank - 1);
  if (row && type_same_shape(&x->in[0]->type, from) && reshape_scores(x->in[0])) {
    Node *of = seen_apart(to, x->in[0], from, as);
    Attr attr = x->attr;
    attr.axes = 1 << (as->rank - 1);
    return of ? simp_make(to, x->op, 1, &of, &attr, x) : NULL;
  }
  if (!x->type.rank) return x;
  return grid_seen_as(&x->type, from, as, dims) ? reshape_as(to, x, as->rank, dims) : NULL;
}

// reshape(scores) = scores with separate batch dimensions, for example of windows of pictures with
// masks.
Node *batches_apart(Graph *to, Node *n) {
  if (!parts_batches(n) || n->in[0]->uses > 1) return NULL;
  return seen_apart(to, n->in[0], &n->in[0]->type, &n->type);
}

// ---- maps ---------------------------------------------------------------------------------------

// x, an index along a dimension of `shape`, in shape `from`, which has more batches: an index, or
// the linear index of the dimensions that were joined. NULL if dimensions of `shape` were split.
static Node *index_as(Graph *to, const Node *x, const Type *shape, const Type *from) {
  int64_t dims[MaxRank], before = 1, begin = 1;
  if (!grid_seen_as(&x->type, shape, from, dims)) return NULL;
  int at = x->attr.axis + shape->rank - x->type.rank, d = 0;
  for (int i = 0; i < at; i++) begin *= shape->dim[i];
  while (before < begin) before *= from->dim[d++];
  if (before != begin) return NULL;
  Node *sum = NULL;
  for (int64_t left = shape->dim[at]; left > 1 || !sum; d++) {
    if (d == from->rank || left % from->dim[d]) return NULL;
    left /= from->dim[d];
    Node *index =
        graph_add(to, x->op, 0, NULL, &(Attr){.axis = d, .fixed = x->attr.fixed}, (Node *)x);
    index->type = type_make(x->type.dtype, from->rank, dims);
    Type scalar = type_make(x->type.dtype, 0, NULL);
    Node *stride[2] = {simp_intern(to, index), simp_const(to, (double)left, &scalar, x)};
    Node *term = simp_make(to, op_need(to->c, "mul"), 2, stride, NULL, x);
    Node *both[2] = {sum, term};
    sum = sum ? simp_make(to, op_need(to->c, "add"), 2, both, NULL, x) : term;
  }
  return sum;
}

// x, maps of positions, literals and values in memory, which broadcasts to `shape`, recomputed in
// shape `from`: for random masks, for example. NULL if it has other inputs.
static Node *computed_as(Graph *to, Node *x, const Type *shape, const Type *from, int *left) {
  bool source = x->op->cls == OpSource;
  int64_t dims[MaxRank];
  if (!x->type.rank) return x;
  if (source && x->op->form == SourceIndex) return index_as(to, x, shape, from);
  // from a step counter, for example; computed once
  bool number = type_count(&x->type) == 1 && x->op->cls == OpMap;
  if (number || node_has_memory(node_is_move(x, MoveReshape) ? x->in[0] : x))
    return grid_seen_as(&x->type, shape, from, dims) ? reshape_as(to, x, from->rank, dims) : NULL;
  if (--*left < 0 || x->op->cls != OpMap) return NULL;
  Node *in[MaxInputs];
  for (int i = 0; i < x->nin; i++) {
    in[i] = computed_as(to, x->in[i], shape, from, left);
    if (!in[i]) return NULL;
  }
  return simp_make(to, x->op, x->nin, in, &x->attr, x);
}

// Is n a reduction or a map of reductions?
static bool made_of_reduced(const Node *n, int *left) {
  if (n->fixed || --*left < 0) return false;
  bool found = n->op->cls == OpReduce;
  for (int i = 0; i < n->nin && n->op->cls == OpMap; i++)
    found = found || made_of_reduced(n->in[i], left);
  return found;
}

// May the other operands of n take the shape of the reduction result that `moved` reshapes? Not if
// one of them is itself a reduction of n's shape: the rule would ping-pong.
static bool may_follow_reduced(const Node *moved, const Node *n) {
  int left = kMostSearched;
  bool may = type_count(&n->type) > 1 && units_only(moved) && made_of_reduced(moved->in[0], &left);
  for (int i = 0; i < n->nin && may; i++) {
    left = kMostSearched;
    may = !type_same_shape(&n->in[i]->type, &n->type) || !made_of_reduced(n->in[i], &left);
  }
  return may;
}

// Is n made by maps of a reduction of the rows of `elements` values: a norm of these rows?
static bool made_of_rows(const Node *n, int64_t elements, int *left) {
  if (n->fixed || --*left < 0) return false;
  if (n->op->cls == OpReduce)
    return type_count(&n->in[0]->type) == elements && n->attr.axes == 1 << (n->type.rank - 1);
  bool found = false;
  for (int i = 0; i < n->nin && n->op->cls == OpMap && !found; i++)
    found = made_of_rows(n->in[i], elements, left);
  return found;
}

// Is `moved` a reshape of normalised rows, of heads for example? What map n has beside it takes
// their shape, so that their kernel computes it, too; unless that is made of reductions in another
// shape itself: the rule would ping-pong.
static bool is_of_rows(const Node *moved, const Node *n) {
  int left = kMostSearched;
  const Node *x = moved->in[0];
  bool found = x->op->cls == OpMap && !made_of_scores(x) && type_count(&x->type) > 1 &&
               made_of_rows(x, type_count(&x->type), &left);
  for (int i = 0; i < n->nin && found; i++) {
    const Node *other = n->in[i];
    left = kMostSearched;
    if (node_is_move(other, MoveReshape)) other = other->in[0];
    found = type_same_shape(&other->type, &x->type) || !made_of_reduced(other, &left);
  }
  return found;
}

// Can one kernel compute both reductions?
static bool reduced_alike(const Node *a, const Node *b) {
  return a->op->cls == OpReduce && b->op->cls == OpReduce && a->attr.axes == b->attr.axes &&
         type_same_shape(&a->in[0]->type, &b->in[0]->type);
}

// Is `moved`, an input of map n, a reshape of a map or reduction? Then the map can be fused into
// that kernel. NOTE: scalars that n combines keep their common shape, so that one kernel can reduce
// them all and the next combine them; except a mean, whose count is reduced together with its sum.
static bool may_be_last(const Node *moved, const Node *n) {
  const Node *x = moved->in[0];
  int left = kMostSearched;
  bool part = node_is_move(x, MoveSlice) && reshape_product(x->in[0], NULL, &left);
  int visits = kMostSearched; // rows: the maps join their kernel, even if several read the reshape
  bool rows = x->op->cls == OpMap && !made_of_scores(x) && made_of_reduced(x, &visits);
  if (x->op->cls == OpMap || part) return moved->uses == 1 || rows;
  bool alone = x->op->cls == OpReduce, counts = !(n->op->flags & FlagCommutes);
  for (int i = 0; i < n->nin && type_count(&n->type) == 1; i++) {
    bool beside =
        node_is_move(n->in[i], MoveReshape) && counts && reduced_alike(n->in[i]->in[0], x);
    bool given = n->in[i]->op->cls == OpSource && n->in[i]->op->form == SourceInput;
    alone = alone && (n->in[i] == moved || simp_is_const(n->in[i]) || given || beside);
  }
  return alone;
}

// The inputs of map n next to a reshape of `from`, and how they take its shape.
typedef struct Beside {
  const Node *n;
  const Type *from;
  bool scores; // `from` is scores
  bool units;  // units_may_follow()
  bool reduced; // may_follow_reduced()
  bool rows;    // is_of_rows()
  int left; // nodes that may still be visited
} Beside;

// x, which broadcasts to the shape of n, in the shape `from`, or NULL if impossible.
static Node *beside_reshape(Graph *to, Node *x, Beside *b) {
  int64_t dims[MaxRank];
  int left = kMostSearched;
  if (node_is_move(x, MoveReshape) && type_same_shape(&x->in[0]->type, b->from)) {
    simp_uses_of(x->in[0], x); // each reader of the reshape may read it now
    return x->in[0];
  }
  if (!x->type.rank) return x;
  bool free = b->reduced && (x->op->cls == OpSource || node_is_move(x, MoveReshape));
  free = free || b->units || (b->rows && x->op->typing != TypeDraw);
  bool numbers = type_count(&x->type) == 1; // maps of scalars share a kernel
  bool follows = b->reduced || (b->rows && x->uses <= 1 && type_same_shape(&x->type, &b->n->type));
  if (follows && x->op->cls == OpMap && !x->fixed && x->op->typing != TypeDraw && !numbers) {
    Node *in[MaxInputs];
    bool found = --b->left > 0;
    for (int i = 0; i < x->nin && found; i++) found = (in[i] = beside_reshape(to, x->in[i], b));
    return found ? simp_make(to, x->op, x->nin, in, &x->attr, x) : NULL;
  }
  if (!(b->scores || x->fixed || free) || !grid_seen_as(&x->type, &b->n->type, b->from, dims))
    return NULL;
  Node *computed = b->scores ? computed_as(to, x, &b->n->type, b->from, &left) : NULL;
  return computed ? computed : reshape_as(to, x, b->from->rank, dims);
}

// map(reshape(x)) = reshape(map(x)), so that a chain of maps has one shape. NOTE: fixed inputs take
// the shape of one that is not; two fixed ones would ping-pong.
Node *reshape_last(Graph *to, Node *n) {
  if (n->op->cls != OpMap || n->op->typing == TypeDraw) return NULL;
  Node *moved = NULL, *in[MaxInputs];
  for (int i = n->nin - 1; i >= 0; i--) {
    Node *x = n->in[i];
    bool seen = node_is_move(x, MoveReshape) && !x->fixed && type_same_shape(&x->type, &n->type);
    if (seen && (joins_of_product(x) || may_be_last(x, n) || units_may_follow(x, n))) moved = x;
    // for scalars only the last input counts
    if (moved || (seen && type_count(&n->type) == 1)) break;
  }
  if (!moved) return NULL;
  Beside beside = {.n = n, .from = &moved->in[0]->type, .left = kMostBeside};
  beside.scores = joins_of_product(moved);
  beside.reduced = !beside.scores && may_follow_reduced(moved, n);
  beside.units = !beside.scores && units_may_follow(moved, n);
  beside.rows = !beside.scores && is_of_rows(moved, n);
  for (int i = 0; i < n->nin; i++) {
    in[i] = beside_reshape(to, n->in[i], &beside);
    if (!in[i]) return NULL;
  }
  Node *inner = simp_make(to, n->op, n->nin, in, &n->attr, n);
  return reshape_as(to, inner, n->type.rank, n->type.dim);
}
