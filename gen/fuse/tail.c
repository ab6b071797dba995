// tail.c: epilogue outputs of a contraction. A tail is a chain of moves of the result and maps of
// the moved values, stored at the end; a product of several matrices side by side has one tail for
// each. The first tail has no moves. Two halves of the columns that are combined with each other
// (GLU) form a pair, and one thread has both. Maps of column reductions are the final reduction:
// the last block to finish computes them.
#include "fuse.h"

enum { kMostTails = 8 };

const Node *tail_made(const Group *g, int tail) {
  const Tail *t = g->ntails ? &g->tails[tail] : NULL;
  return t && t->nmoves ? t->moves[t->nmoves - 1] : g->pair[0] ? g->pair[0] : g->anchor;
}

// Neighbouring columns (AxisN) or rows (AxisM) of a contraction's result.
static Lane product_lane(const Node *product, AxisRole role) {
  const Type *y = &product->type;
  Maps maps = maps_of(product, 0);
  int dim = maps_dim(&maps, MapOut, role);
  if (dim < 0) return (Lane){-1, 1};
  for (int i = 0; i < y->rank; i++) // the innermost in memory
    if (maps_uses(&maps.dim[MapOut][y->order[i]], &maps, role)) dim = y->order[i];
  return (Lane){dim, maps_run(&maps, MapOut, dim)};
}

Lane tail_product_lane(const Node *product) {
  return product_lane(product, AxisN);
}

static Lane lane_after(const Group *g, int tail, Lane lane) {
  for (int i = 0; i < g->tails[tail].nmoves; i++) lane = lane_follow(lane, g->tails[tail].moves[i]);
  return lane;
}

Lane tail_lane(const Group *g, int tail) {
  Lane lane = tail_product_lane(g->anchor);
  if (g->pair[0]) lane.run /= 2;
  return lane_after(g, tail, lane);
}

Lane tail_row_lane(const Group *g, int tail) {
  return lane_after(g, tail, product_lane(g->anchor, AxisM));
}

bool tail_transposed(const Group *g, Lane rows, const Type *t) {
  enum { kLeastRun = 4 }; // half of a sector of floats
  int64_t stride[MaxRank];
  type_strides(t, stride);
  for (int i = 0; i < g->nnodes; i++)
    if (group_reduces(g, g->nodes[i])) return false;
  return g->tm->fusion->transposes && !g->pair[0] && rows.run >= kLeastRun && stride[rows.dim] == 1;
}

bool tail_all_transposed(const Group *g) {
  bool all = g->tm->fusion->transposes && g->noutputs > 0;
  for (int i = 0; i < g->noutputs && all; i++) {
    const Node *n = g->outputs[i];
    all = n->tail >= 0 && tail_transposed(g, tail_row_lane(g, n->tail), &n->type);
  }
  return all;
}

int tail_of_inputs(const Group *k, const Node *n) {
  enum { kNone = -4, kSeveral = -3 };
  int tail = kNone;
  for (int i = 0; i < n->nin; i++) {
    const Node *from = n->in[i];
    if (from->group != k || (from->id < k->anchor->id && from->tail != kRowTail)) continue;
    int of = group_reduces(k, from) ? kFootTail : from->tail;
    if (tail != kNone && tail != of) return kSeveral;
    tail = of;
  }
  return tail == kNone ? 0 : tail;
}

bool tail_writes(const Group *g, int tail) {
  for (int i = 0; i < g->nnodes; i++)
    if (group_reduces(g, g->nodes[i]) && g->nodes[i]->tail == tail) return true;
  for (int i = 0; i < g->noutputs; i++)
    if (g->outputs[i]->tail == tail) return true;
  return false;
}

// Is n the only reader of the tail's results?
static bool alone(const Group *k, int tail, const Node *n) {
  for (int i = 0; i < k->nnodes; i++) {
    const Node *made = k->nodes[i];
    int count;
    if (made == n || made->id < k->anchor->id || made->tail != tail) continue;
    Node **readers = fuse_readers(k->graph, made, &count);
    if (count != made->uses) return false; // it is an output of the model
    for (int j = 0; j < count; j++)
      if (readers[j] != n && (readers[j]->group != k || readers[j]->tail != tail)) return false;
  }
  return true;
}

bool tail_may_begin(const Group *k, const Node *n) {
  return alone(k, tail_of_inputs(k, n), n) || k->ntails < kMostTails;
}
bool tail_goes_on(const Group *k, const Node *n) {
  return alone(k, tail_of_inputs(k, n), n);
}

static Tail longer(const Group *k, const Tail *t, Node *n) {
  Tail made = *t;
  made.moves = arena_alloc(k->graph->arena, sizeof n * (size_t)(t->nmoves + 1));
  made.nmoves++;
  for (int i = 0; i < t->nmoves; i++) made.moves[i] = t->moves[i];
  made.moves[t->nmoves] = n;
  return made;
}

void tail_join(Group *k, Node *n) {
  int tail = n->tail = tail_of_inputs(k, n);
  if (n->op->cls != OpMove || tail < 0) return;
  Tail made = longer(k, &k->tails[tail], n);
  if (alone(k, tail, n)) {
    k->tails[tail] = made;
    return;
  }
  Tail *list = arena_alloc(k->graph->arena, sizeof *list * (size_t)(k->ntails + 1));
  for (int i = 0; i < k->ntails; i++) list[i] = k->tails[i];
  n->tail = k->ntails;
  list[k->ntails++] = made;
  k->tails = list;
}

// ---- pairs (GLU) -------------------------------------------------------------------------------

// Is n the first (or second) half of y along dimension d?
static bool is_half(const Node *n, const Node *y, int d, int half) {
  if (!node_is_move(n, MoveSlice)) return false;
  for (int i = 0; i < y->type.rank; i++) {
    int64_t size = i == d ? y->type.dim[i] / 2 : y->type.dim[i], begin = i == d ? half * size : 0;
    if (n->attr.dims[i] != begin || n->attr.ends[i] != begin + size) return false;
  }
  return true;
}

// Is there a value that maps of one shape compute from both a and b?
bool tail_meet(const Node *a, const Node *b) {
  const Node *of_a[kMostNodes], *of_b[kMostNodes];
  int na = fuse_mapped(a, of_a), nb = fuse_mapped(b, of_b);
  for (int i = 1; i < na; i++)
    for (int j = 1; j < nb; j++)
      if (of_a[i] == of_b[j]) return true;
  return false;
}

// Does n have another input, apart from y, that depends on k?
static bool waits_besides(const Group *k, const Node *n, const Node *y) {
  bool waits = false;
  for (int i = 0; i < n->nin; i++)
    waits = waits || (n->in[i] != y && fuse_reaches(n->in[i]->group, k));
  return waits;
}

// The last value of a chain of maps of the result, each the only reader of the one before.
Node *tail_mapped(const Group *k) {
  Node *y = k->anchor;
  for (Node *next = y; next; next = (Node *)fuse_only_reader(y)) {
    if (next != y && (next->op->cls != OpMap || !type_same_shape(&next->type, &y->type) ||
                      !fuse_same_call(k, next->group) || waits_besides(k, next, y)))
      break;
    y = next;
  }
  return y;
}

// A half must be a multiple of this many columns: a few; whole rows of shared memory if the right
// operand is contiguous along n, because it is copied by rows.
static int64_t least_columns(const Group *k, const Maps *maps) {
  enum { kLeast = 8, kRow = 128 }; // kRow: bytes
  const Node *b = k->anchor->in[1];
  bool across = b->type.order[b->type.rank - 1] == maps_dim(maps, MapB, AxisN);
  return across ? kRow / (int64_t)dtype_size(prec_operand(k->anchor)) : kLeast;
}

void tail_pair(Graph *g, Group *k) {
  Node *y = tail_mapped(k);
  Maps maps = maps_of(k->anchor, 0);
  int count, d = maps_dim(&maps, MapOut, AxisN);
  Node **readers = fuse_readers(g, y, &count);
  if (count != 2 || y->uses != 2 || maps_phases(k->anchor) > 1 || maps_count(&maps, AxisBatch) > 1)
    return;
  if (maps_count(&maps, AxisN) != y->type.dim[d] || y->type.dim[d] % (2 * least_columns(k, &maps)))
    return;
  int first = is_half(readers[0], y, d, 0) ? 0 : 1;
  Node *a = readers[first], *b = readers[1 - first];
  if (!is_half(a, y, d, 0) || !is_half(b, y, d, 1) || !tail_meet(a, b)) return;
  if (!fuse_same_call(k, a->group) || !fuse_same_call(k, b->group)) return;
  for (Node *n = k->anchor; n != y;) {
    n = (Node *)fuse_only_reader(n);
    fuse_absorb(g, k, n->group);
  }
  fuse_absorb(g, k, a->group);
  fuse_absorb(g, k, b->group);
  k->pair[0] = a, k->pair[1] = b;
}
