// sched_scatter.c: rows added up by ids: places and columns of a block's table, and splits of the
// ids if there are too few tables for the GPU.
#include "sched.h"

#include <math.h>

// Instructions and clocks are estimates, not measured.
enum {
  kThreads = 256,
  kItems = 4,      // ids per thread, examined together
  kStaged = 2048,  // elements of rows loaded together
  kLookIssue = 12, // instructions per id: its place, and its rank among those found
  kAddIssue = 10,  // of a warp, per row added
  kAddClocks = 70, // latency of that
  kSector = 32,
  kMostParts = 1024
};

typedef struct Shape {
  int64_t batches, rows, places, width;
  bool sorted;
} Shape;

static int64_t tables_of(const Tile *t, const Shape *x) {
  return x->batches * ceil_div(x->places, t->m) * ceil_div(x->width, t->n);
}

// Cost of a table of t->m places and t->n columns, ids in `parts` splits. Each table examines all
// ids; each row is read once and added by one warp, or by several along it.
static Cost scatter_cost(Tile *t, const Shape *x, const Group *g, const Arch *arch, int64_t parts) {
  int64_t chunk = kThreads * kItems;
  int warps = kThreads / kWarp, along = t->n > kWarp ? t->n / kWarp : 1;
  t->part = (int)round_up(ceil_div(x->rows, parts), chunk);
  t->splits = (int)ceil_div(x->rows, t->part);
  if (t->splits == 1) t->part = (int)x->rows;
  t->rows = (int)fmin(fmax(kStaged / t->n, 1), (double)chunk);
  t->smem = (int)(4 * (t->m * t->n + t->rows * t->n + chunk + kItems * warps) + kSmemLast);
  double tables = (double)tables_of(t, x), rows = (double)(x->batches * x->rows);
  double looks = tables * (double)x->rows; // ids examined, over all tables
  t->grid[0] = (int64_t)tables * t->splits;
  double across = (double)ceil_div(x->width, t->n), found = rows * across / (double)t->grid[0];
  double chunks = ceil((double)t->part / (double)chunk), cells = (double)t->m * t->n;
  Stream s = {.blocks = (double)t->grid[0], .threads = kThreads, .smem = t->smem};
  s.elements = rows * (double)x->width;
  s.vectors = looks + s.elements + cells * s.blocks / 4;
  double adds = rows * across * along * kAddIssue * kWarp;
  s.flops = (looks * kLookIssue + adds + 4 * cells * s.blocks + g->flops) / s.elements;
  double piece = fmax(4. * t->n, x->width > 1 ? kSector : 0); // bytes moved per row and part
  s.again = (looks - rows) * 4 + rows * (across * piece - 4. * (double)x->width);
  double added = found * along / warps * kAddClocks / kLoadClocks; // rows of a warp, serially
  s.steps = chunks + fmin(chunks, found) + added;
  s.barriers = 2 * chunks + 2 * fmin(ceil(found / t->rows) + chunks, found);
  int joins = tile_part_group(t) + tile_part_counts(t) - 1;
  s.joined = t->splits > 1 ? joins * ceil(cells / (kThreads * 16)) : 0;
  return stream_cost(&s, g, arch);
}

// The same of sorted ids: each table finds its rows by two searches, and reads only these: groups
// of t->n threads a share each, kSortedItems at a time. Rows are assumed to be spread evenly over
// the tables.
static Cost sorted_cost(Tile *t, const Shape *x, const Group *g, const Arch *arch, int64_t parts) {
  enum { kSortedItems = 8, kSearchIssue = 20 };
  double groups = (double)kThreads / t->n, cells = (double)t->m * t->n;
  double tables = (double)tables_of(t, x), rows = (double)(x->batches * x->rows);
  double across = (double)ceil_div(x->width, t->n), searched = ceil(log2((double)x->rows + 1) / 5);
  t->part = 0, t->rows = kSortedItems;
  t->splits = (int)parts;
  t->smem = (int)(4 * (t->m * t->n + kThreads + groups) + 2 * kSmemLast);
  t->grid[0] = (int64_t)tables * parts;
  double found = rows * across / (double)t->grid[0];
  Stream s = {.blocks = (double)t->grid[0], .threads = kThreads, .smem = t->smem};
  s.elements = rows * (double)x->width;
  s.vectors = 3 * rows * across * t->n + cells * s.blocks / 4 + s.blocks * searched * 4 * kWarp;
  s.flops = (rows * across * t->n * kAddIssue + s.blocks * searched * kSearchIssue * 2 * kWarp +
             4 * cells * s.blocks + g->flops) /
            s.elements;
  double piece = fmax(4. * t->n, x->width > 1 ? kSector : 0);
  s.again = rows * across * 2 * kSector + rows * (across * piece - 4. * (double)x->width);
  s.steps = 2 * searched + 3 * ceil(found / groups / kSortedItems);
  s.barriers = 4;
  int joins = tile_part_group(t) + tile_part_counts(t) - 1;
  s.joined = t->splits > 1 ? joins * ceil(cells / (kThreads * 16)) : 0;
  return stream_cost(&s, g, arch);
}

static void add_scratch(Group *g, int64_t tables) {
  const Tile *t = &g->tile;
  int64_t sums = tables * t->splits * t->m * t->n, counts = tables * tile_part_counts(t);
  sched_scratch(g, "own_sums", DtF32, sums);
  sched_scratch(g, "own_arrived", DtI32, counts);
}

void sched_scatter(Group *g, const Arch *arch) {
  enum { kMostColumns = 256, kLeastPlaces = 16, kMostCells = 8192, kMostSums = 1 << 24 };
  Tile *t = &g->tile, best = {.seconds = INFINITY};
  const Node *n = g->anchor;
  const Type *ids = &n->in[0]->type;
  Shape x = {ids->rank > 1 ? ids->dim[0] : 1, ids->dim[ids->rank - 1], n->attr.count,
             n->type.rank > ids->rank ? n->type.dim[ids->rank] : 1, n->nin > 2};
  t->threads = kThreads, t->lanes = 1, t->items = kItems;
  for (t->n = 1; t->n <= kMostColumns; t->n *= 2) {
    for (t->m = kLeastPlaces; t->m * t->n <= kMostCells; t->m *= 2) {
      for (int64_t parts = 1; parts <= kMostParts && parts <= x.rows; parts *= 2) {
        Cost c = (x.sorted ? sorted_cost : scatter_cost)(t, &x, g, arch, parts);
        int64_t sums = t->grid[0] * t->m * t->n;
        if (t->grid[0] > INT32_MAX || (parts > 1 && sums > kMostSums)) continue;
        cost_note(t, &c);
        if (c.seconds < best.seconds * (1 - 1e-9)) best = *t;
      }
      if (t->m >= x.places) break; // one table holds all places
    }
    if (t->n >= x.width) break;
  }
  *t = best;
  if (t->splits > 1) add_scratch(g, tables_of(t, &x));
}

const char *sched_scatter_tile(const Group *g) {
  const Tile *t = &g->tile;
  const char *format = t->splits > 1 ? "%d places x %d /%d" : "%d places x %d";
  return arena_printf(g->graph->arena, format, t->m, t->n, t->splits);
}
