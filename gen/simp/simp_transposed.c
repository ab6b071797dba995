// simp_transposed.c: rules about transposed scores: dimensions in another order than the matmul's,
// such as (B, N, M, H), or softmax along columns. Softmax and maps are computed in the matmul's
// order, and the result is permuted.
#include "simp.h"

#include <string.h>

enum { kMostDeep = 64 }; // nodes visited per search

typedef struct Order { // dimension d is dimension dims[d] of the matmul
  int rank;
  int64_t dims[MaxRank];
} Order;

static Order exchanged(int rank) { // the last two dimensions exchanged
  Order order = {.rank = rank};
  for (int d = 0; d < rank; d++) order.dims[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
  return order;
}
static Order order_of(const Node *permute) {
  Order order = {.rank = permute->type.rank};
  memcpy(order.dims, permute->attr.dims, sizeof order.dims);
  return order;
}
static bool same_order(const Order *a, const Order *b) {
  return a->rank == b->rank && !memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->rank);
}

static Node *in_order(Graph *to, Node *x, const Order *order) {
  Attr attr = {0};
  memcpy(attr.dims, order->dims, sizeof order->dims);
  return simp_make(to, op_need(to->c, "permute"), 1, &x, &attr, x);
}

// ---- in the matmul's order ----------------------------------------------------------------------

// An index along one dimension; later dimensions have size 1.
static Node *index_back(Graph *to, Node *x, const Order *order) {
  Attr attr = x->attr;
  int rank = order->rank, more = rank - x->type.rank;
  int64_t dims[MaxRank];
  for (int d = 0; d < rank; d++) dims[order->dims[d]] = d < more ? 1 : x->type.dim[d - more];
  attr.axis = (int)order->dims[more + x->attr.axis];
  Node *index = graph_add(to, x->op, 0, NULL, &attr, x);
  index->type = type_make(x->type.dtype, rank, dims);
  return simp_intern(to, index);
}

static Node *back(Graph *to, Node *x, const Order *order, int *left);

// x of fewer dimensions, which broadcasts, in the matmul's order.
static Node *fewer_back(Graph *to, Node *x, const Order *order, int *left) {
  int64_t dims[MaxRank];
  int rank = order->rank, more = rank - x->type.rank;
  if (x->type.rank == 1) { // later dimensions have size 1, earlier ones may be missing
    int at = (int)order->dims[rank - 1];
    for (int d = 0; d < rank - at; d++) dims[d] = d ? 1 : x->type.dim[0];
    return reshape_as(to, x, rank - at, dims);
  }
  for (int d = 0; d < rank; d++) dims[d] = d < more ? 1 : x->type.dim[d - more];
  return back(to, reshape_as(to, x, rank, dims), order, left);
}

// (a b)^T = b^T a^T, for batched matmuls.
static Node *product_back(Graph *to, Node *x) {
  Node *in[2] = {reshape_turned(to, x->in[1]), reshape_turned(to, x->in[0])};
  return simp_make(to, x->op, 2, in, &x->attr, x);
}

// x with `order` undone: maps and reductions are recomputed from their inputs in the matmul's
// order.
static Node *back(Graph *to, Node *x, const Order *order, int *left) {
  Order inverse = {.rank = order->rank}, turned = exchanged(order->rank);
  for (int d = 0; d < order->rank; d++) inverse.dims[order->dims[d]] = d;
  if (!x->type.rank) return x;
  if (x->op->cls == OpSource && x->op->form == SourceIndex) return index_back(to, x, order);
  if (x->type.rank < order->rank) return fewer_back(to, x, order, left);
  if (node_is_move(x, MovePermute)) {
    Order own = order_of(x);
    if (same_order(&own, order)) return x->in[0];
  }
  bool map = x->op->cls == OpMap && x->op->typing != TypeDraw;
  if (reshape_batched(x) && same_order(order, &turned)) return product_back(to, x);
  if (--*left < 0 || (!map && x->op->cls != OpReduce)) return in_order(to, x, &inverse);
  Node *in[MaxInputs];
  for (int i = 0; i < x->nin; i++) in[i] = back(to, x->in[i], order, left);
  Attr attr = x->attr;
  attr.axes = 0;
  for (int d = 0; d < order->rank; d++) attr.axes |= (x->attr.axes >> d & 1) << order->dims[d];
  return simp_make(to, x->op, x->nin, in, &attr, x);
}

// ---- the rules ----------------------------------------------------------------------------------

// The row reduction of scores from which n is computed, or NULL.
const Node *turned_reduced(const Node *n, int *left) {
  if (--*left < 0) return NULL;
  if (n->op->cls == OpReduce)
    return n->attr.axes >> (n->type.rank - 1) & reshape_scores(n->in[0]) ? n : NULL;
  const Node *found = NULL;
  for (int i = 0; n->op->cls == OpMap && i < n->nin && !found; i++)
    found = turned_reduced(n->in[i], left);
  return found;
}

// Is n a permutation of scores that moves their rows or columns?
static bool moves_scores(const Node *n) {
  int last = n->type.rank - 1;
  return node_is_move(n, MovePermute) && last > 1 &&
         (n->attr.dims[last] != last || n->attr.dims[last - 1] != last - 1);
}

// The scores, or a permutation of them, from which maps compute n, or NULL.
static const Node *scores_in(const Node *n, int *left) {
  if (reshape_scores(moves_scores(n) ? n->in[0] : n)) return n->type.rank > 2 ? n : NULL;
  if (--*left < 0 || n->op->cls != OpMap) return NULL;
  for (int i = 0; i < n->nin; i++) {
    const Node *scores =
        type_same_shape(&n->in[i]->type, &n->type) ? scores_in(n->in[i], left) : NULL;
    if (scores) return scores;
  }
  return NULL;
}

// Have n and the scores of which it is a map no other readers?
static bool is_alone(const Node *n) {
  if (n->uses > 1 || (n->op->cls != OpMap && !reshape_batched(n))) return false;
  for (int i = 0; n->op->cls == OpMap && i < n->nin; i++)
    if (reshape_scores(n->in[i]) && !is_alone(n->in[i])) return false;
  return true;
}

// Is it a reduction of a softmax: the maximum, or a sum of exponentials?
static bool is_of_softmax(const Node *n) {
  const Node *x = node_is_move(n->in[0], MovePermute) ? n->in[0]->in[0] : n->in[0];
  return n->op->cls == OpReduce && (n->op->flags & (FlagMax | FlagOnline) ||
                                    (n->op->flags & FlagAdd && node_is_map(x, FlagExp)));
}

// Does n reduce rows or columns of the matmul in this order? (Plain transposed rows are left as
// they are.)
static bool reduces_moved(const Node *n, const Order *order) {
  int axis = 0, last = order->rank - 1;
  Order turned = exchanged(order->rank);
  while (axis < last && !(n->attr.axes >> axis & 1)) axis++;
  return n->attr.axes == 1ll << axis && order->dims[axis] >= last - 1 &&
         !(axis == last && same_order(order, &turned));
}

// n computed in the matmul's order, then permuted to `order`.
static Node *moved(Graph *to, Node *n, const Order *order) {
  int left = kMostDeep;
  return in_order(to, back(to, n, order, &left), order);
}

// softmax(permute(scores)) = permute(softmax(scores)), along rows or columns; maps of permuted
// softmax results are permuted maps; scores that are only read transposed become a transposed
// matmul.
Node *scores_transposed(Graph *to, Node *n) {
  int last = n->type.rank - 1, left = kMostDeep;
  if (last < 2) return NULL;
  if (n->op->cls == OpReduce && is_of_softmax(n)) {
    const Node *scores = scores_in(n->in[0], &left);
    if (!scores) return NULL;
    Order order = moves_scores(scores) ? order_of(scores) : exchanged(n->type.rank);
    return reduces_moved(n, &order) ? moved(to, n, &order) : NULL;
  }
  if (n->op->cls == OpMap && n->op->typing != TypeDraw) {
    for (int i = 0; i < n->nin; i++)
      if (n->in[i]->type.rank == n->type.rank && moves_scores(n->in[i]) &&
          turned_reduced(n->in[i]->in[0], &left)) {
        Order order = order_of(n->in[i]);
        return moved(to, n, &order);
      }
    return NULL;
  }
  bool alone = reshape_turns(n) && n->in[0]->op->cls == OpMap && is_alone(n->in[0]) &&
               reshape_scores(n->in[0]) && !turned_reduced(n->in[0], &left) && left >= 0;
  Order order = exchanged(n->type.rank);
  left = kMostDeep;
  return alone ? back(to, n->in[0], &order, &left) : NULL;
}
