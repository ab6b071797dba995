// twins.c: two slices of what moves lead a product's result to, of one shape and beside each other
// in each row, that maps combine, as rotary embeddings combine the halves of a head. Where tiles
// hold whole runs of columns that both are in, the thread that has an element of one reads that of
// the other from the tile: these maps need no kernel of their own. The cost model decides: fewer
// tiles may be cut so.
#include "pass.h"

#include <math.h>

enum { kMostTwins = 4 }; // of a product

// Slices a and b of y along dimension d, and from there on columns of the product that lie
// together.
typedef struct Twins {
  Node *y, *a, *b;
  int64_t apart, whole; // columns between them; of a run with both
} Twins;

// Is n a slice along one dimension alone? Which; -1: it is not.
static int sliced_dim(const Node *n) {
  int found = -1;
  if (n->op->cls != OpMove || n->op->form != MoveSlice) return -1;
  for (int d = 0; d < n->type.rank; d++)
    if (n->type.dim[d] < n->in[0]->type.dim[d]) found = found < 0 ? d : n->type.rank;
  return found < n->type.rank ? found : -1;
}

static bool is_scattered(const Node *n) {
  return n->op->cls == OpMove && n->op->form <= MoveSlice;
}

// The twins that n, a move of the product's result, leads to through moves that nobody else reads;
// `lane` tells where columns are in the result.
static bool find_twins(const Graph *g, Node *n, Lane lane, Twins *t) {
  int count;
  Node **readers = fuse_readers(g, n, &count);
  for (lane = lane_follow(lane, n); count == 1 && n->uses == 1 && is_scattered(readers[0]);) {
    n = readers[0];
    lane = lane_follow(lane, n);
    readers = fuse_readers(g, n, &count);
  }
  if (count != 2 || n->uses != 2) return false;
  int d = sliced_dim(readers[0]), first;
  if (d < 0 || d != sliced_dim(readers[1]) || d != lane.dim || lane.run != n->type.dim[d])
    return false;
  first = readers[0]->attr.dims[d] > readers[1]->attr.dims[d];
  *t = (Twins){.y = n, .a = readers[first], .b = readers[1 - first], .whole = lane.run};
  t->apart = t->b->attr.dims[d] - t->a->attr.dims[d];
  return t->apart >= t->a->type.dim[d] && type_same_shape(&t->a->type, &t->b->type) &&
         tail_meet(t->a, t->b);
}

// The tail that leads to them from what maps make of the product, `made`.
static Tail tail_of(const Group *k, const Node *made, const Twins *t) {
  Tail tail = {.twin = t->b, .apart = (int)t->apart, .whole = (int)t->whole};
  for (const Node *n = t->a; n != made; n = n->in[0]) tail.nmoves++;
  tail.moves = arena_alloc(k->graph->arena, sizeof(Node *) * (size_t)tail.nmoves);
  int i = tail.nmoves;
  for (Node *n = t->a; n != made; n = n->in[0]) tail.moves[--i] = n;
  return tail;
}

static void add_tail(Group *k, Tail tail) {
  Tail *list = arena_alloc(k->graph->arena, sizeof *list * (size_t)(k->ntails + 1));
  for (int i = 0; i < k->ntails; i++) list[i] = k->tails[i];
  list[k->ntails++] = tail;
  k->tails = list;
}

static double least_seconds(const Group *k) {
  Tile best;
  int count = k->tm->candidates(k, k->graph->c->options.arch, &best, 1);
  return count ? best.seconds : INFINITY;
}

// Do its moves run where the product does, and can a tile be cut so that it pays?
static bool pays(Group *k, const Tail *tail) {
  const Arch *arch = k->graph->c->options.arch;
  for (int i = 0; i < tail->nmoves; i++)
    if (tail->moves[i]->group->nnodes != 1 || !fuse_same_call(k, tail->moves[i]->group))
      return false;
  double apart = least_seconds(k) + gain_of_copy(arch, &tail->twin->in[0]->type);
  add_tail(k, *tail);
  double inside = least_seconds(k);
  k->ntails--;
  return inside < apart;
}

static void join(Graph *g, Group *k, const Node *made, const Tail *tail) {
  for (const Node *n = k->anchor; n != made;) {
    n = fuse_only_reader(n);
    if (n->group != k) fuse_absorb(g, k, n->group);
  }
  for (int i = 0; i < tail->nmoves; i++) {
    fuse_absorb(g, k, tail->moves[i]->group);
    tail->moves[i]->tail = k->ntails;
  }
  fuse_absorb(g, k, tail->twin->group);
  tail->twin->tail = k->ntails;
  add_tail(k, *tail);
}

// What twins leave of the result is all that others read: where moves alone lead one of them to it,
// the product stores it there, though weigh.c left it in place.
static void store_the_rest(const Graph *g, const Group *k, const Node *made) {
  int count, left = 0;
  Node **readers = fuse_readers(g, made, &count), *rest = NULL;
  for (int i = 0; i < count; i++)
    if (readers[i]->group != k) rest = readers[i], left++;
  for (Node *n = left == 1 ? rest : NULL; n && is_scattered(n); n = (Node *)fuse_only_reader(n))
    n->late = false;
}

void twins_find(Graph *g, Group *k) {
  Node *made = tail_mapped(k);
  Maps maps = maps_of(k->anchor, 0);
  int count, d = maps_dim(&maps, MapOut, AxisN);
  Node **readers = fuse_readers(g, made, &count);
  if (k->pair[0] || k->attention || maps_phases(k->anchor) > 1 ||
      maps_count(&maps, AxisN) != k->anchor->type.dim[d])
    return;
  for (int i = 0; i < count && k->ntails <= kMostTwins; i++) {
    Twins t;
    Lane lane = {tail_product_lane(k->anchor).dim, 0}; // rows begin with a tile
    if (!is_scattered(readers[i]) || !find_twins(g, readers[i], lane, &t)) continue;
    Tail tail = tail_of(k, made, &t);
    if (pays(k, &tail)) join(g, k, made, &tail);
  }
  if (k->ntails > 1) store_the_rest(g, k, made);
}
