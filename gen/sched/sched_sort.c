// sched_sort.c: sorting rows by runs: a block's tile of keys, in shared memory.
#include "sched.h"

#include <math.h>

typedef struct Shape {
  int64_t rows, length, run;
  bool merges;
} Shape;

enum { // estimates, not measured
  kItems = 8,
  kLeastThreads = 32,
  kMostThreads = 256,
  kNetworkIssue = 20, // instructions per key: sorting a thread's own
  kMergeIssue = 14,   // per key and merge
  kProbeIssue = 12,   // per step of a thread's search
  kKeyIssue = 8,      // per element read
  kMergeClocks = 45   // latency of a key merged, of a step of a search
};

static int64_t slots_of(const Shape *x) { // keys of a run in a tile
  int64_t slots = kItems;
  while (slots < x->run) slots *= 2;
  return slots;
}

static Cost sort_cost(Tile *t, const Shape *x, const Group *g, const Arch *arch) {
  int64_t size = (int64_t)t->threads * kItems;
  int64_t pairs = ceil_div(x->length, 2 * x->run), runs = x->rows * ceil_div(x->length, x->run);
  t->grid[0] =
      x->merges ? x->rows * pairs * ceil_div(2 * x->run, size) : ceil_div(runs, size / slots_of(x));
  t->rows = x->merges ? 1 : (int)(size / slots_of(x));
  t->part = (int)x->run;
  double keys = (double)t->grid[0] * (double)size;
  double merged = x->merges ? 1 : log2((double)slots_of(x) / kItems); // merges of a tile
  double width = x->merges ? (double)size : (double)slots_of(x), probes = 0;
  for (double m = 0; m < merged; m++) probes += log2(width) - m;
  double searched = x->merges ? ceil(log2((double)x->run + 1) / 5) : 0; // of a warp, in memory
  Stream s = {.blocks = (double)t->grid[0], .threads = t->threads};
  s.elements = (double)(x->rows * x->length);
  s.vectors = s.elements * (x->merges ? 2 : 1) + keys / kItems * searched;
  double issue = kKeyIssue + (x->merges ? 0 : kNetworkIssue) + merged * kMergeIssue +
                 probes * kProbeIssue / kItems;
  s.flops = issue * keys / s.elements + g->flops / s.elements;
  double latency = (merged * kItems + probes) * kMergeClocks / kLoadClocks;
  s.steps = (x->merges ? 2 : 1) * (1 + searched) + latency;
  s.barriers = 3 + 2 * merged;
  s.smem = (double)size * 8.5;
  // Elements read by position: a sector each, from L2.
  s.again = x->merges ? s.elements * 32 : 0;
  return stream_cost(&s, g, arch);
}

void sched_sort(Group *g, const Arch *arch) {
  Tile *t = &g->tile, best = {.seconds = INFINITY};
  const Node *n = g->anchor;
  const Type *in = &n->in[0]->type;
  int64_t length = in->dim[n->attr.axis];
  Shape x = {type_count(in) / length, length, n->attr.count < length ? n->attr.count : length,
             n->nin > 1};
  if (!x.merges && x.run > kSortRun)
    err_at(g->graph->c, n->loc, "%s: runs of %lld elements: a block sorts up to %d", n->op->name,
           (long long)x.run, kSortRun);
  t->lanes = 1, t->items = kItems, t->splits = 1;
  for (t->threads = kLeastThreads; t->threads <= kMostThreads; t->threads *= 2) {
    if (!x.merges && (int64_t)t->threads * kItems < slots_of(&x)) continue;
    Cost c = sort_cost(t, &x, g, arch);
    cost_note(t, &c);
    if (t->grid[0] <= INT32_MAX && c.seconds < best.seconds * (1 - 1e-9)) best = *t;
  }
  *t = best;
}
