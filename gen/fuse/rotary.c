// rotary.c: rotary pairs: two slices of a contraction's moved result, of the same shape and in the
// same row, that maps combine, as rotary embeddings combine the halves of a head. If a tile holds
// whole runs of columns with both slices, the thread that has an element of one reads that of the
// other from the tile, and the maps need no separate kernel. A third slice may be the rest of the
// row (partial rotary). The cost model decides, since this leaves fewer tile sizes to choose from.
#include "fuse.h"

#include <math.h>

enum { kMostTwins = 4 }; // per contraction

// Slices a and b of y along dimension d, in which neighbours are columns of the contraction; and
// the rest of y, if it is read.
typedef struct Twins {
  Node *a, *b, *rest;
  int64_t apart, whole; // columns from a to b; columns of a run that has both
} Twins;

static bool is_scattered(const Node *n) {
  return n->op->cls == OpMove && n->op->form <= MoveSlice;
}

// Are slices a and b of y, along d, a rotary pair? t->a is the first of them.
static bool are_twins(const Node *y, Node *a, Node *b, int d, Twins *t) {
  bool ordered = a->attr.dims[d] < b->attr.dims[d];
  *t = (Twins){.a = ordered ? a : b, .b = ordered ? b : a, .whole = y->type.dim[d]};
  t->apart = t->b->attr.dims[d] - t->a->attr.dims[d];
  return t->apart >= t->a->type.dim[d] && type_same_shape(&t->a->type, &t->b->type) &&
         tail_meet(t->a, t->b);
}

// Finds the pair that n, a move of the result, leads to through moves that are only readers.
// `lane`: columns in the result.
static bool find_twins(const Graph *g, Node *n, Lane lane, Twins *t) {
  int count;
  Node **readers = fuse_readers(g, n, &count);
  for (lane = lane_follow(lane, n); count == 1 && n->uses == 1 && is_scattered(readers[0]);) {
    n = readers[0];
    lane = lane_follow(lane, n);
    readers = fuse_readers(g, n, &count);
  }
  if (count < 2 || count > 3 || n->uses != count || lane.run != n->type.dim[lane.dim]) return false;
  for (int i = 0; i < count; i++)
    if (node_sliced_dim(readers[i]) != lane.dim) return false;
  for (int i = 0; i < count; i++) // which of three is the rest
    if (are_twins(n, readers[(i + 1) % count], readers[(i + 2) % count], lane.dim, t)) {
      t->rest = count == 3 ? readers[i] : NULL;
      return true;
    }
  return false;
}

// The tail from `made`, the end of the maps of the result, to slice n.
static Tail tail_to(const Group *k, const Node *made, Node *slice) {
  Tail tail = {0};
  for (const Node *n = slice; n != made; n = n->in[0]) tail.nmoves++;
  tail.moves = arena_alloc(k->graph->arena, sizeof(Node *) * (size_t)tail.nmoves);
  int i = tail.nmoves;
  for (Node *n = slice; n != made; n = n->in[0]) tail.moves[--i] = n;
  return tail;
}

static void add_tail(Group *k, Tail tail) {
  Tail *list = arena_alloc(k->graph->arena, sizeof *list * (size_t)(k->ntails + 1));
  for (int i = 0; i < k->ntails; i++) list[i] = k->tails[i];
  list[k->ntails++] = tail;
  k->tails = list;
}

static void add_tails(Group *k, const Node *made, const Twins *t) {
  Tail tail = tail_to(k, made, t->a);
  tail.twin = t->b, tail.apart = (int)t->apart, tail.whole = (int)t->whole;
  add_tail(k, tail);
  if (t->rest) add_tail(k, tail_to(k, made, t->rest));
}

static double least_seconds(const Group *k) {
  Tile best;
  int count = k->tm->candidates(k, k->graph->c->options.arch, &best, 1);
  return count ? best.seconds : INFINITY;
}

// Is each move from `made` to n still a group by itself?
static bool are_apart(const Group *k, const Node *made, const Node *n) {
  for (; n != made; n = n->in[0])
    if (n->group->nnodes != 1 || !fuse_same_call(k, n->group)) return false;
  return true;
}

// Are the moves in the same call as the contraction, and is there a tile with which fusing is
// faster?
static bool pays(Group *k, const Node *made, const Twins *t) {
  const Arch *arch = k->graph->c->options.arch;
  int ntails = k->ntails;
  if (!are_apart(k, made, t->a) || (t->rest && !are_apart(k, made, t->rest))) return false;
  double apart = least_seconds(k) + gain_of_copy(arch, &t->a->in[0]->type);
  add_tails(k, made, t);
  double inside = least_seconds(k);
  k->ntails = ntails;
  return inside < apart;
}

static void join(Graph *g, Group *k, const Node *made, const Twins *t) {
  int tail = k->ntails;
  for (const Node *n = k->anchor; n != made;) {
    n = fuse_only_reader(n);
    if (n->group != k) fuse_absorb(g, k, n->group);
  }
  add_tails(k, made, t);
  for (int i = 0; i < k->tails[tail].nmoves; i++) {
    Node *n = k->tails[tail].moves[i];
    fuse_absorb(g, k, n->group);
    n->tail = tail;
  }
  fuse_absorb(g, k, t->b->group);
  t->b->tail = tail;
  if (!t->rest) return;
  fuse_absorb(g, k, t->rest->group);
  t->rest->tail = tail + 1;
}

// If only one reader of `made` is left outside, the contraction stores the result where the moves
// of that reader lead, although attend_backward_own.c marked these moves late.
static void store_the_rest(const Graph *g, const Group *k, const Node *made) {
  int count, left = 0;
  Node **readers = fuse_readers(g, made, &count), *rest = NULL;
  for (int i = 0; i < count; i++)
    if (readers[i]->group != k) rest = readers[i], left++;
  for (Node *n = left == 1 ? rest : NULL; n && is_scattered(n); n = (Node *)fuse_only_reader(n))
    n->late = false;
}

void rotary_find(Graph *g, Group *k) {
  Node *made = tail_mapped(k);
  Maps maps = maps_of(k->anchor, 0);
  int count, d = maps_dim(&maps, MapOut, AxisN);
  Node **readers = fuse_readers(g, made, &count);
  if (k->pair[0] || k->attention || maps_phases(k->anchor) > 1 ||
      maps_count(&maps, AxisN) != k->anchor->type.dim[d])
    return;
  for (int i = 0; i < count && k->ntails <= kMostTwins; i++) {
    Twins t;
    Lane lane = {tail_product_lane(k->anchor).dim, 0}; // rows begin at a tile
    if (!is_scattered(readers[i]) || !find_twins(g, readers[i], lane, &t)) continue;
    if (pays(k, made, &t)) join(g, k, made, &t);
  }
  if (k->ntails > 1) store_the_rest(g, k, made);
}
