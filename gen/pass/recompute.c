// recompute.c: large values of the forward part that the backward part computes again, so that they
// need not wait in memory for it (Options.level; compile.c finds one that fits). T. Chen et al.,
// "Training Deep Nets with Sublinear Memory Cost", 2016.
//
// Before the place where most is in memory, some values alone lead on: all that follows is made of
// them, parameters and small values. These cuts are kept; what lies between two of them is made
// again from the first one for those that read it behind that place, as copies (Node.again). Level
// l up to kAllAgain: for the first cuts, before which l/kAllAgain of the bytes wait, those that
// wait longest; then for all cuts, of which every second is kept, every fourth, ...
// Where values pass by most of a network, as those that a U-Net's decoder or the next step of an
// LSTM reads, hardly one leads on alone: a cut then is all that are live at a place, and places are
// those where these are fewest.
//
// What is made of positions and small values alone, as what dropout leaves out is drawn from seed,
// step and place, costs no memory to make again. It stands in no cut's way, and from level 1 on
// each late reader draws it for itself, so that fusion takes it into that kernel.
#include "pass.h"

enum { kSmall = 256 }; // parts of the largest value, as of all steps of an LSTM: less is kept

typedef struct Recompute {
  int *last;    // by id: the last reader; of outputs the end
  int *forward; // the last reader in the forward part
  bool *large;  // a value that is worth it, of the entry at hand
  bool *drawn;  // large, but made of positions and small values alone
  bool *again;  // is made again
  Node **copy;  // of what is
  int *reader;  // of what is drawn: whom the copy is for
  int *peak;    // by entry: where most is in memory
} Recompute;

static void note_reader(Recompute *r, const Node *n, int reader) {
  if (reader > r->last[n->id]) r->last[n->id] = reader;
}

static void find_readers(Recompute *r, const Graph *g) {
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++)
      note_reader(r, g->nodes[i]->in[j], i);
  for (int i = 0; i < g->noutputs; i++) note_reader(r, g->outputs[i].node, g->nnodes);
  for (int i = 0; i < g->nupdates; i++) note_reader(r, g->updates[i].value, g->nnodes);
}

static bool may_be(const Node *n, int entry) {
  return n->uses && n->op->cls != OpSource && n->entry == entry && !n->fixed;
}

static void find_large(Recompute *r, const Graph *g, int entry) {
  int64_t most = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (may_be(g->nodes[i], entry) && type_bytes(&g->nodes[i]->type) > most)
      most = type_bytes(&g->nodes[i]->type);
  for (int i = 0; i < g->nnodes; i++)
    r->large[i] = may_be(g->nodes[i], entry) && type_bytes(&g->nodes[i]->type) * kSmall > most;
}

// A map or a move of positions and small values, or of what is so itself.
static bool is_drawn(const Recompute *r, const Node *n) {
  bool drawn = n->op->cls == OpMap || (n->op->cls == OpMove && n->nin == 1);
  for (int i = 0; drawn && i < n->nin; i++) {
    const Node *in = n->in[i];
    bool small = node_has_memory(in) ? type_count(&in->type) == 1 : !r->large[in->id];
    drawn = small || r->drawn[in->id];
  }
  return drawn;
}

static void find_drawn(Recompute *r, const Graph *g) {
  for (int i = 0; i < g->nnodes; i++)
    r->drawn[i] = r->drawn[i] ||
                  (r->large[i] && r->last[i] < g->nnodes && is_drawn(r, g->nodes[i]));
  for (int i = 0; i < g->nnodes; i++) r->large[i] = r->large[i] && !r->drawn[i];
}

// Where most bytes of large values are between their making and their last reader.
static int find_peak(const Recompute *r, const Graph *g) {
  int64_t *change = arena_alloc(g->arena, sizeof *change * (size_t)(g->nnodes + 2)), now = 0,
          most = 0;
  int peak = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (!r->large[i]) continue;
    change[i] += type_bytes(&g->nodes[i]->type);
    change[r->last[i] < g->nnodes ? r->last[i] : g->nnodes] -= type_bytes(&g->nodes[i]->type);
  }
  for (int i = 0; i < g->nnodes; i++) {
    now += change[i];
    if (now > most) most = now, peak = i;
  }
  return peak;
}

// Values that alone lead on: no other large one before them is read behind them, in the forward
// part. Returns how many.
static int find_cuts(Recompute *r, const Graph *g, int peak, int *cuts) {
  int *ends = arena_alloc(g->arena, sizeof *ends * (size_t)(g->nnodes + 2)), live = 0, count = 0;
  int64_t sum = 0; // of the ids of those that are live: one alone is the sum
  int64_t *gone = arena_alloc(g->arena, sizeof *gone * (size_t)(g->nnodes + 2));
  for (int i = 0; i < g->nnodes; i++) r->forward[i] = -1;
  for (int i = 0; i <= peak; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++)
      r->forward[g->nodes[i]->in[j]->id] = i;
  for (int i = 0; i <= peak; i++)
    if (r->large[i] && r->forward[i] > i) ends[r->forward[i]]++, gone[r->forward[i]] += i;
  for (int i = 0; i <= peak; i++) {
    live -= ends[i], sum -= gone[i];
    if (!r->large[i] || r->forward[i] <= i) continue;
    live++, sum += i;
    if (live == 1) cuts[count++] = i;
  }
  return count;
}

// Is n live behind node `at` of the forward part?
static bool is_live(const Recompute *r, const Graph *g, int n, int at) {
  return r->large[n] && n <= at && r->forward[n] > at && g->nodes[n]->uses;
}

// Bytes that are live behind each node of the forward part.
static int64_t *live_bytes(const Recompute *r, const Graph *g, int peak) {
  int64_t *live = arena_alloc(g->arena, sizeof *live * (size_t)(g->nnodes + 2)), now = 0;
  for (int i = 0; i <= peak; i++)
    for (int more = 0; r->large[i] && r->forward[i] > i && more < 2; more++)
      live[more ? r->forward[i] : i] += (more ? -1 : 1) * type_bytes(&g->nodes[i]->type);
  for (int i = 0; i <= peak; i++) live[i] = now += live[i];
  return live;
}

static bool is_cheap(const Node *n) {
  return n->op->cls == OpMap || n->op->cls == OpMove;
}

// A cut that maps and moves alone make of the one before is made again at no great cost, where that
// one is in memory anyway: a product, say. Returns how many are left.
static int drop_cheap_cuts(const Recompute *r, const Graph *g, int *cuts, int count) {
  int left = 0;
  bool stored = false; // the last cut that is left
  for (int i = 0, node = 0; i < count; i++) {
    bool cheap = true; // all since the cut before
    for (; node <= cuts[i]; node++) cheap = cheap && (!r->large[node] || is_cheap(g->nodes[node]));
    if (cheap && stored) continue;
    stored = !is_cheap(g->nodes[cuts[i]]);
    cuts[left++] = cuts[i];
  }
  return left;
}

// Bytes of large values before node `end` that wait at the peak.
static int64_t waiting_before(const Recompute *r, const Graph *g, int peak, int end) {
  int64_t bytes = 0;
  for (int i = 0; i < end; i++)
    if (r->large[i] && r->last[i] > peak) bytes += type_bytes(&g->nodes[i]->type);
  return bytes;
}

// Is most of what waits before the peak between two cuts?
static bool is_uncut(const Recompute *r, const Graph *g, int peak, const int *cuts, int count) {
  int64_t all = waiting_before(r, g, peak, peak), before = 0, most = 0;
  for (int i = 0; i <= count; i++) {
    int64_t here = i < count ? waiting_before(r, g, peak, cuts[i]) : all;
    if (here - before > most) most = here - before;
    before = here;
  }
  return most * 2 > all;
}

// Cuts of all values that are live, where these are fewest. Each time some 1/kPlaces of what waits
// lies between.
static int find_places(const Recompute *r, const Graph *g, int peak, int *cuts) {
  enum { kPlaces = 16 };
  const int64_t *live = live_bytes(r, g, peak);
  int64_t part = waiting_before(r, g, peak, peak) / kPlaces + 1, since = 0;
  int count = 0, best = -1;
  for (int i = 0; i < peak; i++) {
    if (!r->large[i]) continue;
    if (r->last[i] > peak) since += type_bytes(&g->nodes[i]->type);
    if (since < part || r->forward[i] <= i) continue;
    if (best < 0 || live[i] <= live[best]) best = i;
    if (since < 2 * part) continue;
    cuts[count++] = best;
    best = -1, since = 0;
  }
  return count;
}

// How many of the cuts have l/kAllAgain of what waits before them.
static int share_of_cuts(const Recompute *r, const Graph *g, int peak, const int *cuts, int count,
                         int level) {
  int share = 1;
  if (level >= kAllAgain || !count) return count;
  int64_t all = waiting_before(r, g, peak, cuts[count - 1]);
  while (share < count &&
         waiting_before(r, g, peak, cuts[share - 1]) * kAllAgain < all * level)
    share++;
  return share;
}

static void choose(Recompute *r, const Graph *g, int entry, int level) {
  find_large(r, g, entry);
  find_drawn(r, g);
  int peak = r->peak[entry] = find_peak(r, g);
  int *cuts = arena_alloc(g->arena, sizeof *cuts * (size_t)(g->nnodes + 1)), kept = -1;
  int count = drop_cheap_cuts(r, g, cuts, find_cuts(r, g, peak, cuts));
  if (is_uncut(r, g, peak, cuts, count)) count = find_places(r, g, peak, cuts);
  int step = level > kAllAgain ? 1 << (level - kAllAgain) : 1;
  int share = share_of_cuts(r, g, peak, cuts, count, level);
  for (int i = 0; i < share; i += step) kept = cuts[i];
  for (int i = 0; i < kept; i++) // an output is in memory anyway
    r->again[i] = r->again[i] || (r->large[i] && r->last[i] < g->nnodes);
  for (int i = 0; i < count; i += step)
    for (int n = 0; n <= cuts[i]; n++)
      if (is_live(r, g, n, cuts[i])) r->again[n] = false;
}

// For node `reader` of the graph before, which may be one that is made again itself.
static Node *made_again(Graph *to, Recompute *r, Node *old, int reader) {
  bool drawn = r->drawn[old->id] && old->id < r->peak[old->entry];
  if (!r->again[old->id] && !drawn) return old->subst;
  if (r->copy[old->id] && (!drawn || r->reader[old->id] == reader)) return r->copy[old->id];
  Node **in = arena_alloc(to->arena, sizeof *in * (size_t)(old->nin + 1));
  for (int i = 0; i < old->nin; i++)
    in[i] = made_again(to, r, old->in[i], drawn ? reader : old->id);
  r->reader[old->id] = reader;
  Node *copy = graph_add(to, old->op, old->nin, in, &old->attr, old);
  copy->type = old->type;
  copy->again = true;
  return r->copy[old->id] = copy;
}

static Node *rewrite(Graph *to, Node *n, Node **in) {
  Recompute *r = to->scratch;
  for (int i = 0; i < n->nin; i++)
    if (n->op->cls != OpSource && n->id > r->peak[n->entry] && n->in[i]->entry == n->entry)
      in[i] = made_again(to, r, n->in[i], n->id);
  Node *same = graph_add(to, n->op, n->nin, in, &n->attr, n);
  same->type = n->type;
  return same;
}

// Needs: dtypes. Gives: copies of what is computed again, for those that read it late.
void recompute_pass(Compiler *c) {
  Graph *g = c->graph;
  size_t count = (size_t)g->nnodes + 1;
  if (!c->options.level) return;
  graph_count_uses(g);
  Recompute r = {.last = arena_alloc(g->arena, sizeof(int) * count),
                 .forward = arena_alloc(g->arena, sizeof(int) * count),
                 .large = arena_alloc(g->arena, sizeof(bool) * count),
                 .drawn = arena_alloc(g->arena, sizeof(bool) * count),
                 .again = arena_alloc(g->arena, sizeof(bool) * count),
                 .copy = arena_alloc(g->arena, sizeof(Node *) * count),
                 .reader = arena_alloc(g->arena, sizeof(int) * count),
                 .peak = arena_alloc(g->arena, sizeof(int) * (size_t)(c->nentries + 1))};
  find_readers(&r, g);
  for (int e = 0; e < c->nentries; e++) choose(&r, g, e, c->options.level);
  c->graph = graph_rebuild(g, rewrite, &r);
}
