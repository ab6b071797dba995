// simp_batches.c: rules about batch dimensions of matmuls. einsum orders them differently from the
// maps that read them, if one operand lacks some (keys shared by all batches): scores are then
// computed in the order in which maps read them, and probabilities are read in their own order.
// Batches that were joined into rows are separated where the rows are summed over.
#include "simp.h"

#include <string.h>

enum { kMostSearched = 64 }; // nodes visited per search

// ---- in another order ---------------------------------------------------------------------------

// Does n permute batch dimensions, and possibly transpose the matrices (*turns)?
static bool moves_batches(const Node *n, bool *turns) {
  int rank = n->type.rank;
  if (!node_is_move(n, MovePermute) || rank < 4) return false;
  int64_t rows = n->attr.dims[rank - 2], columns = n->attr.dims[rank - 1];
  *turns = rows == rank - 1;
  if (rows + columns != 2 * rank - 3 || (rows != rank - 1 && rows != rank - 2)) return false;
  for (int d = 0; d < rank - 2; d++)
    if (n->attr.dims[d] != d) return true;
  return false;
}

// x with its batch dimensions permuted as n does, or with that undone.
static Node *moved(Graph *to, const Node *n, Node *x, bool back) {
  int rank = n->type.rank;
  Attr attr = {0};
  for (int d = 0; d < rank - 2; d++) {
    int from = (int)n->attr.dims[d];
    attr.dims[back ? from : d] = back ? d : from;
  }
  for (int d = rank - 2; d < rank; d++) attr.dims[d] = d;
  return simp_make(to, n->op, 1, &x, &attr, x);
}

// Is x attention probabilities, or those of one of several segments?
static bool is_weights(const Node *x) {
  if (node_is_move(x, MoveSlice)) return segments_weigh(x->in[0]);
  return sum_power(x) && reshape_scores(x);
}

// permute(matmul(a, b)) = matmul(permute(a), permute(b)), for scores read in another batch order.
static Node *scores_moved(Graph *to, Node *n) {
  bool turns;
  if (!moves_batches(n, &turns)) return NULL;
  Node *p = n->in[0], *in[2] = {NULL, NULL};
  if (!reshape_batched(p) || p->uses > 1) return NULL;
  for (int i = 0; i < 2; i++) {
    const Node *x = reshape_turns(p->in[i]) ? p->in[i]->in[0] : p->in[i];
    if (x->type.rank != n->type.rank || is_weights(x)) return NULL;
  }
  for (int i = 0; i < 2; i++) in[i] = moved(to, n, p->in[i], false);
  Node *y = simp_make(to, p->op, 2, in, &p->attr, p);
  return turns ? reshape_turned(to, y) : y;
}

// matmul(permute(p), v) = permute(matmul(p, permute^-1(v))), for probabilities p.
static Node *weights_moved(Graph *to, Node *n) {
  bool turns;
  if (!reshape_batched(n) || !moves_batches(n->in[0], &turns)) return NULL;
  const Node *move = n->in[0];
  Node *in[2] = {move->in[0], n->in[1]};
  if (in[1]->type.rank != move->type.rank || !is_weights(in[0])) return NULL;
  in[1] = moved(to, move, in[1], true);
  if (turns) in[0] = reshape_turned(to, in[0]);
  return moved(to, move, simp_make(to, n->op, 2, in, &n->attr, n), false);
}

Node *batches_in_order(Graph *to, Node *n) {
  Node *better = scores_moved(to, n);
  return better ? better : weights_moved(to, n);
}

// ---- rows of several batches --------------------------------------------------------------------

// The input of reshape x, if x joins all dimensions after `batches` and before the last into rows,
// else NULL.
static Node *rows_joined(Node *x, const Type *batches) {
  Node *of = node_is_move(x, MoveReshape) ? x->in[0] : NULL;
  if (!of || of->type.rank <= x->type.rank) return NULL;
  for (int d = 0; d < x->type.rank - 2; d++)
    if (of->type.dim[d] != batches->dim[d] || x->type.dim[d] != batches->dim[d]) return NULL;
  return of->type.dim[of->type.rank - 1] == x->type.dim[x->type.rank - 1] ? of : NULL;
}

// Is x probabilities over keys that all batches share: a softmax of one product, or the gradient,
// which depends on two? A map of only one product may be a classifier's output.
static bool are_of_attention(const Node *x) {
  int left = kMostSearched;
  const Node *one = x->type.rank > 2 && sum_power(x) ? reshape_product(x, NULL, &left) : NULL;
  bool softmax = x->op->flags & FlagDiv && x->in[1]->op->cls == OpReduce;
  return one && ((softmax && x->in[1]->in[0] == x->in[0]) || reshape_product(x, one, &left));
}

// Is x scores, or probabilities, that n contracts over joined rows? Batch permutations are looked
// through.
static bool is_of_rows(const Node *x, const Node *n) {
  int rank = x->type.rank;
  bool moved = node_is_move(x, MovePermute) && rank > 2;
  if (moved && x->attr.dims[rank - 2] == rank - 2 && x->attr.dims[rank - 1] == rank - 1)
    x = x->in[0]; // batch dimensions permuted
  if (node_is_move(x, MoveSlice) && segments_weigh(x->in[0])) return true;
  return reshape_batched(n) ? reshape_scores(x) : are_of_attention(x);
}

// a^T b over joined rows, one of them scores, becomes a sum over batches of a^T b: gradients of
// keys that heads or batches share. The scores become the left operand.
Node *rows_summed(Graph *to, Node *n) {
  bool matrices = n->op->cls == OpContract && n->op->maps->leading;
  if (!matrices || n->type.rank < 2 || !reshape_turns(n->in[0])) return NULL;
  Node *a = rows_joined(n->in[0]->in[0], &n->type), *b = rows_joined(n->in[1], &n->type);
  if (!a || !b || a->type.rank != b->type.rank) return NULL;
  int rank = n->type.rank, last = a->type.rank - 1;
  for (int d = 0; d < last; d++)
    if (a->type.dim[d] != b->type.dim[d]) return NULL;
  bool right = !is_of_rows(a, n);
  if (right && !is_of_rows(b, n)) return NULL;
  Node *in[2] = {reshape_turned(to, right ? b : a), right ? a : b};
  Node *product = simp_make(to, n->op, 2, in, &n->attr, n);
  Attr attr = {0};
  for (int d = rank - 2; d < last - 1; d++) attr.axes |= 1 << d;
  Node *sum = simp_make(to, op_need(to->c, "reduce_sum"), 1, &product, &attr, n);
  int64_t dims[MaxRank];
  memcpy(dims, n->type.dim, sizeof dims);
  for (int d = 0; d < 2; d++) dims[rank - 2 + d] = product->type.dim[last - 1 + d];
  sum = reshape_as(to, sum, rank, dims);
  return right ? reshape_turned(to, sum) : sum;
}

// ---- joined batch dimensions --------------------------------------------------------------------

static bool same_batches(const Node *a, const Node *b) {
  if (a->type.rank != b->type.rank) return false;
  for (int d = 0; d < a->type.rank - 2; d++)
    if (a->type.dim[d] != b->type.dim[d]) return false;
  return true;
}

// A concat, along rows or columns, of scores with joined batches is a reshape of the concat of the
// original ones.
Node *concat_apart(Graph *to, Node *n) {
  int rank = n->type.rank, more = 0;
  bool concat = node_is_move(n, MoveConcat);
  if (!concat || n->attr.axis < rank - 2) return NULL;
  bool scores = false;
  for (int i = 0; i < n->nin; i++) {
    const Node *x = n->in[i];
    if (!reshape_joins(x)) return NULL;
    if (!same_batches(x->in[0], n->in[0]->in[0])) return NULL;
    scores = scores || reshape_scores(x->in[0]);
    more = x->in[0]->type.rank - rank;
  }
  if (!scores) return NULL;
  Node **in = arena_alloc(to->arena, sizeof *in * (size_t)n->nin);
  for (int i = 0; i < n->nin; i++) in[i] = n->in[i]->in[0];
  Attr attr = {.axis = n->attr.axis + more};
  return reshape_as(to, simp_make(to, n->op, n->nin, in, &attr, n), rank, n->type.dim);
}

// A slice of rows or columns of scores with joined batches: the same.
Node *slice_apart(Graph *to, Node *n) {
  int rank = n->type.rank;
  const Node *x = node_is_move(n, MoveSlice) ? n->in[0] : n;
  if (x == n || !reshape_joins(x) || !reshape_scores(x->in[0])) return NULL;
  for (int d = 0; d < rank - 2; d++)
    if (n->type.dim[d] != x->type.dim[d]) return NULL;
  Node *inner = x->in[0];
  int more = inner->type.rank - rank;
  Attr attr = {0};
  memcpy(attr.ends, inner->type.dim, sizeof inner->type.dim);
  for (int d = rank - 2; d < rank; d++)
    attr.dims[d + more] = n->attr.dims[d], attr.ends[d + more] = n->attr.ends[d];
  return reshape_as(to, simp_make(to, n->op, 1, &inner, &attr, n), rank, n->type.dim);
}

// ---- some of the batches ------------------------------------------------------------------------

// The part of x, which broadcasts to n's input, that n takes of the batches, recomputed from sliced
// inputs.
static Node *cut(Graph *to, Node *x, const Node *n, int *left) {
  Attr attr = {0};
  int rank = x->type.rank, before = n->type.rank - rank;
  bool whole = true;
  for (int d = 0; d < rank; d++) {
    bool one = x->type.dim[d] == 1;
    attr.dims[d] = one ? 0 : n->attr.dims[d + before];
    attr.ends[d] = one ? 1 : n->attr.ends[d + before];
    if (d >= rank - 2) attr.dims[d] = 0, attr.ends[d] = x->type.dim[d];
    whole = whole && !attr.dims[d] && attr.ends[d] == x->type.dim[d];
  }
  if (whole) return x;
  bool map = x->op->cls == OpMap && x->op->typing != TypeDraw, product = reshape_batched(x);
  bool row = x->op->cls == OpReduce && x->attr.axes == 1 << (rank - 1);
  if (--*left < 0 || !(map || product || row)) return simp_make(to, n->op, 1, &x, &attr, x);
  Node *in[MaxInputs];
  for (int i = 0; i < x->nin; i++) in[i] = cut(to, x->in[i], n, left);
  return simp_make(to, x->op, x->nin, in, &x->attr, x);
}

// A batch slice of probabilities is computed from slices of q and k: differential attention reads
// every second head separately.
Node *weights_cut(Graph *to, Node *n) {
  if (!node_is_move(n, MoveSlice)) return NULL;
  const Node *x = n->in[0];
  for (int d = n->type.rank - 2; d >= 0 && d < n->type.rank; d++)
    if (n->type.dim[d] != x->type.dim[d]) return NULL;
  int left = kMostSearched;
  return sum_power(x) && reshape_scores(x) ? cut(to, n->in[0], n, &left) : NULL;
}
