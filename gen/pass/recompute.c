// recompute.c: activation checkpointing: large values of the forward pass are recomputed by the
// backward pass, so that they need not be stored (Options.level; compile.c finds one that fits). T.
// Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
//
// Before the memory peak, find cut sets: values through which every later value depends on earlier
// ones (apart from parameters and small values). Cuts are kept; values between two cuts are
// recomputed from the earlier one, for readers after the peak, as copies (Node.again). Levels l up
// to kAllAgain: only before the first cuts, up to which l/kAllAgain of the stored bytes are; those
// are stored longest. Higher levels: for all cuts, of which every second, fourth, ... is kept. If
// values bypass most of a network (a U-Net's skip connections, an LSTM's states), there are few
// single-value cuts: cuts are then all values live at a place, at places where these have the
// fewest bytes.
//
// Values computed only from positions and small values, such as dropout masks drawn from seed, step
// and position, cost no memory to recompute. They are ignored when finding cuts, and from level 1
// on each late reader gets a private copy, which fusion moves into its kernel.
#include "pass.h"

// values below this fraction of the largest one (that of all steps of an LSTM) are always kept
enum { kSmall = 256 };

typedef struct Recompute {
  int *last;    // by id: the last reader; for outputs the end
  int *forward; // the last reader in the forward pass
  bool *large;  // worth recomputing, and of the current entry
  bool *drawn;  // large, but computed only from positions and small values
  bool *again;  // is recomputed
  Node **copy;  // the copy of such a value
  int *reader;  // of a drawn value: the reader that its copy is for
  int *peak;    // by entry: id of the node at which most bytes are live
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

// Is n a map or move of positions, small values and drawn values?
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

// The node at which most bytes of large values are live.
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

// Finds single-value cuts: no other large value before them is read after them in the forward pass.
// Returns how many.
static int find_cuts(Recompute *r, const Graph *g, int peak, int *cuts) {
  int *ends = arena_alloc(g->arena, sizeof *ends * (size_t)(g->nnodes + 2)), live = 0, count = 0;
  int64_t sum = 0; // of the ids of live values: if only one is live, its id
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

// Is value n live after node `at` of the forward pass?
static bool is_live(const Recompute *r, const Graph *g, int n, int at) {
  return r->large[n] && n <= at && r->forward[n] > at && g->nodes[n]->uses;
}

// Bytes that are live after each node of the forward pass.
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

// Drops cuts that are recomputed from the one before by maps and moves only, if that one is stored
// anyway (the result of a contraction, for example). Returns how many are left.
static int drop_cheap_cuts(const Recompute *r, const Graph *g, int *cuts, int count) {
  int left = 0;
  bool stored = false; // the last cut that is left
  for (int i = 0, node = 0; i < count; i++) {
    bool cheap = true; // all nodes since the cut before
    for (; node <= cuts[i]; node++) cheap = cheap && (!r->large[node] || is_cheap(g->nodes[node]));
    if (cheap && stored) continue;
    stored = !is_cheap(g->nodes[cuts[i]]);
    cuts[left++] = cuts[i];
  }
  return left;
}

// Bytes of large values before node `end` that are live at the peak.
static int64_t waiting_before(const Recompute *r, const Graph *g, int peak, int end) {
  int64_t bytes = 0;
  for (int i = 0; i < end; i++)
    if (r->large[i] && r->last[i] > peak) bytes += type_bytes(&g->nodes[i]->type);
  return bytes;
}

// Are most of the stored bytes between two adjacent cuts?
static bool is_uncut(const Recompute *r, const Graph *g, int peak, const int *cuts, int count) {
  int64_t all = waiting_before(r, g, peak, peak), before = 0, most = 0;
  for (int i = 0; i <= count; i++) {
    int64_t here = i < count ? waiting_before(r, g, peak, cuts[i]) : all;
    if (here - before > most) most = here - before;
    before = here;
  }
  return most * 2 > all;
}

// Cuts of all live values, at places where these have the fewest bytes, about one place per
// 1/kPlaces of the stored bytes.
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

// How many cuts contain l/kAllAgain of the stored bytes before them.
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
  for (int i = 0; i < kept; i++) // outputs are stored anyway
    r->again[i] = r->again[i] || (r->large[i] && r->last[i] < g->nnodes);
  for (int i = 0; i < count; i += step)
    for (int n = 0; n <= cuts[i]; n++)
      if (is_live(r, g, n, cuts[i])) r->again[n] = false;
}

// The node that `reader` of the old graph, which may be recomputed itself, reads for `old`.
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

// Needs: dtypes. Produces copies of recomputed values, for their late readers.
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
