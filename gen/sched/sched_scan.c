// sched_scan.c: scans: rows per block, elements in flight per thread, and splits of a row if there
// are too few rows for the GPU.
#include "sched.h"

#include <math.h>

typedef struct Shape {
  int64_t rows, length;
  int words; // 4-byte words of an accumulator
} Shape;

// Cost of a tile of `columns` rows per block, each in `parts` splits.
static Cost scan_cost(Tile *t, const Shape *x, const Group *g, const Arch *arch, int columns,
                      int64_t parts) {
  int per_row = t->threads / columns, owners = t->together ? per_row / kWarp : per_row;
  int64_t chunk = (int64_t)owners * t->items * (t->together ? kWarp * t->lanes : 1);
  t->rows = columns;
  t->part = (int)round_up(ceil_div(x->length, parts), chunk);
  t->splits = (int)ceil_div(x->length, t->part);
  t->grid[0] = ceil_div(x->rows, columns) * t->splits;
  if (t->splits == 1) t->part = (int)x->length;
  double sweeps = t->splits > 1 ? 2 : 1, chunks = ceil((double)t->part / (double)chunk);
  Stream s = {.blocks = (double)t->grid[0], .threads = t->threads};
  s.elements = (double)x->rows * (double)x->length;
  s.vectors = s.elements / t->lanes * (g->ninputs * sweeps + g->noutputs);
  // Each element is combined three times; a vector five more times across the warp, moving each
  // word.
  double across = t->together ? 5. * (1 + x->words) / t->lanes : 0;
  s.flops = g->flops / s.elements * (2 + sweeps) + across;
  s.steps = chunks * sweeps;
  s.barriers = 2 * chunks + owners / 4.; // owners' sums are combined serially
  s.joined = t->splits > 1 ? ceil(t->splits / (double)per_row) : 0;
  double bytes = (double)g->bytes_read;
  s.missed = sweeps > 1 && bytes > (double)arch->l2 / 2 ? bytes : 0;
  return stream_cost(&s, g, arch);
}

static void add_scratch(Group *g, const Shape *x) {
  int64_t states = g->tile.splits * x->rows * x->words, counts = g->tile.grid[0] + 2;
  sched_scratch(g, "own_states", DtF32, states);
  sched_scratch(g, "own_arrived", DtI32, counts);
}

void sched_scan(Group *g, const Arch *arch) {
  // words of a thread; elements of a row that one thread processes
  enum { kMostFlight = 32, kShort = 8 };
  Tile *t = &g->tile, best = {.seconds = INFINITY};
  const Node *n = g->anchor;
  const Type *in = &n->in[0]->type;
  int64_t length = in->dim[n->attr.axis];
  Shape x = {type_count(in) / length, length, op_monoid(n)->count};
  int last = in->rank - 1;
  while (last > 0 && in->dim[in->order[last]] == 1) last--;
  t->together = length > kShort && in->order[last] == n->attr.axis;
  t->lanes = t->together ? sched_lanes(g, length) : 1;
  while (t->lanes > 1 && t->lanes * x.words > 8) t->lanes /= 2;
  t->threads = 256;
  int most = t->together ? t->threads / kWarp : t->threads;
  for (t->items = 1; t->items * t->lanes * x.words <= kMostFlight && t->items <= 8; t->items *= 2)
    for (int columns = t->together ? 1 : 8; columns <= most; columns *= 2)
      for (int64_t parts = 1; parts <= 1024 && parts <= length; parts *= 2) {
        Cost c = scan_cost(t, &x, g, arch, columns, parts);
        cost_note(t, &c);
        if (c.seconds < best.seconds * (1 - 1e-9)) best = *t;
      }
  *t = best;
  if (t->splits > 1) add_scratch(g, &x);
}
