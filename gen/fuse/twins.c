// twins.c: two slices of what moves lead a product's result to, of one shape and beside each other
// in each row, that maps combine, as rotary embeddings combine the halves of a head. Where tiles
// hold whole runs of columns that both are in, the thread that has an element of one reads that of
// the other from the tile: these maps need no kernel of their own. A third slice of the row may be
// the rest of it, as where a part of each head alone is turned. The cost model decides: fewer tiles
// may be cut so.
#include "fuse.h"

#include <math.h>

enum { kMostTwins = 4 }; // of a product

// Slices a and b of y along dimension d, and from there on columns of the product that lie
// together; the rest of y, if it is read, too.
typedef struct Twins {
  Node *a, *b, *rest;
  int64_t apart, whole; // columns between them; of a run with both
} Twins;

// Is n a slice along one dimension alone? Which; -1: it is not.
static int sliced_dim(const Node *n) {
  int found = -1;
  if (!node_is_move(n, MoveSlice)) return -1;
  for (int d = 0; d < n->type.rank; d++)
    if (n->type.dim[d] < n->in[0]->type.dim[d]) found = found < 0 ? d : n->type.rank;
  return found < n->type.rank ? found : -1;
}

static bool is_scattered(const Node *n) {
  return n->op->cls == OpMove && n->op->form <= MoveSlice;
}

// Are slices a and b of y, along d, twins? The first is the one that begins first.
static bool are_twins(const Node *y, Node *a, Node *b, int d, Twins *t) {
  bool ordered = a->attr.dims[d] < b->attr.dims[d];
  *t = (Twins){.a = ordered ? a : b, .b = ordered ? b : a, .whole = y->type.dim[d]};
  t->apart = t->b->attr.dims[d] - t->a->attr.dims[d];
  return t->apart >= t->a->type.dim[d] && type_same_shape(&t->a->type, &t->b->type) &&
         tail_meet(t->a, t->b);
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
  if (count < 2 || count > 3 || n->uses != count || lane.run != n->type.dim[lane.dim]) return false;
  for (int i = 0; i < count; i++)
    if (sliced_dim(readers[i]) != lane.dim) return false;
  for (int i = 0; i < count; i++) // all but this one, of three
    if (are_twins(n, readers[(i + 1) % count], readers[(i + 2) % count], lane.dim, t)) {
      t->rest = count == 3 ? readers[i] : NULL;
      return true;
    }
  return false;
}

// The tail that leads to slice n from what maps make of the product, `made`.
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

// Are the moves from `made` to n each a group of its own?
static bool are_apart(const Group *k, const Node *made, const Node *n) {
  for (; n != made; n = n->in[0])
    if (n->group->nnodes != 1 || !fuse_same_call(k, n->group)) return false;
  return true;
}

// Do the moves run where the product does, and can a tile be cut so that it pays?
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
    if (pays(k, made, &t)) join(g, k, made, &t);
  }
  if (k->ntails > 1) store_the_rest(g, k, made);
}
