// sched_contract.c: chooses tiles of contractions: candidates -> cost -> the cheapest, over the
// small printable structs Arch, Product and Tile.
#include "sched.h"

#include <math.h>
#include <string.h>

static const double kAlike = 1.02; // costs within this factor are equal to the model

static const int splits[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
enum { kLeastStages = 2, kMostStages = 5 };

enum { kMostExplained = 12, kMostCandidates = 1024, kMostLanes = 8, kMostParts = 192 };

// Is the tile valid? Staged epilogues distribute columns over threads by powers of two. Operands
// copied across k need whole 128-byte rows along m or n. Each split of k has at least two blocks of
// k, and the partial sums must be indexable.
static bool may_cut(const Product *p, const Group *g, const Tile *t) {
  int row = kRowBytes / p->size;
  if ((t->n & (t->n - 1)) && !tile_keeps(t, p, g)) return false;
  if (tile_spills(t, p, g)) return false;
  // A tile holds both halves of a pair next to each other.
  if (p->pair && (p->n % t->n || (p->b.across && t->n / 2 % row))) return false;
  if (t->n % p->whole) return false;
  if ((p->a.across && t->m % row) || (p->b.across && t->n % row)) return false;
  int64_t blocks_of_k = ceil_div(p->k * p->size, kRowBytes);
  return t->splits == 1 || (blocks_of_k >= 2 * t->splits &&
                            tile_count(t, p) * t->splits * tile_staged(t, p) <= INT32_MAX);
}

// Keeps tiles[0..kept) the cheapest so far, sorted, at most `most`.
int sched_keep_cheapest(Tile *tiles, int kept, int most, const Tile *t) {
  if (isinf(t->seconds) || (kept == most && tiles[most - 1].seconds <= t->seconds)) return kept;
  int last = kept < most ? kept : most - 1, at = last;
  while (at > 0 && tiles[at - 1].seconds > t->seconds) at--;
  memmove(&tiles[at + 1], &tiles[at], sizeof *tiles * (size_t)(last - at));
  tiles[at] = *t;
  return last + 1;
}

// The two best pipeline depths of a tile and split count; not deeper than the k loop unless the
// kernel is persistent.
static int best_rings(const Tile *cut, const Product *p, const Group *g, const Arch *arch,
                      Tile rings[2]) {
  int64_t part = ceil_div(ceil_div(p->k * p->size, kRowBytes), cut->splits);
  int kept = 0;
  Tile t = *cut;
  int least = kLeastStages + cut->unit->in_flight;
  for (t.stages = least; t.stages <= kMostStages; t.stages++) {
    if (t.stages > least && t.stages > part && !tile_walks(&t, p, g, arch)) break;
    Cost cost = tile_cost(&t, p, g, arch);
    cost_note(&t, &cost);
    kept = sched_keep_cheapest(rings, kept, 2, &t);
  }
  return kept;
}

// The s-th split count: the fixed list, then the values that fill the GPU once or twice; 0: skip.
static int parts_of(const Tile *t, const Product *p, const Arch *arch, size_t s) {
  if (s < LENGTH(splits)) return splits[s];
  int parts = (int)((double)(arch->sms * (int64_t)(s - LENGTH(splits) + 1)) / tile_count(t, p));
  for (size_t i = 0; i < LENGTH(splits); i++)
    if (parts == splits[i]) return 0;
  return parts <= kMostParts ? parts : 0;
}

// Fills tiles[most] with every tile and split count that fits the device, each with its two best
// pipeline depths, cheapest first.
int sched_candidates(const Group *g, const Arch *arch, Tile *tiles, int most) {
  Product p = contract_product(g);
  int kept = 0;
  for (int u = 0; sched_units[u]; u++) {
    const Unit *unit = sched_units[u];
    bool legal = unit->legal(g->anchor, &p, arch);
    for (int i = 0; legal && i < unit->ncuts; i++)
      for (size_t s = 0; s < LENGTH(splits) + 2; s++) {
        Cut cut = unit->cuts[i];
        Tile t = {.unit = unit, .m = cut.m, .n = cut.n, .tm = cut.tm, .tn = cut.tn}, rings[2];
        t.splits = parts_of(&t, &p, arch, s);
        if (!t.splits || !may_cut(&p, g, &t)) continue;
        int found = best_rings(&t, &p, g, arch, rings);
        for (int r = 0; r < found; r++) kept = sched_keep_cheapest(tiles, kept, most, &rings[r]);
      }
  }
  return kept;
}

Tile sched_pick(const Group *g, const Tile *list, int count) {
  int forced = g->graph->c->options.candidate;
  Tile best = list[forced ? (forced - 1) % count : 0];
  for (int i = 1; i < count && !forced && list[i].seconds < kAlike * list[0].seconds; i++)
    if (list[i].splits < best.splits) best = list[i];
  const Tile *measured = tuning_pick(g, list, count);
  if (measured) best = *measured;
  best.tuned = measured != NULL;
  return best;
}

// Split-K scratch: partial sums of every split of every tile (reused for the first-stage sums, if
// there are two stages), and arrival counters.
static void add_scratch(Group *g, const Product *p) {
  const Tile *t = &g->tile;
  int64_t tiles = (int64_t)tile_count(t, p), tile = tile_staged(t, p), counts = tile_part_counts(t);
  int64_t sums = tiles * t->splits * tile;
  sched_scratch(g, "own_sums", DtF32, sums);
  sched_scratch(g, "own_arrived", DtI32, tiles * counts);
}

// Scratch of column reductions: accumulators per block, then per group of blocks; for columns
// reduced together, then per column. Arrival counters.
static void add_column_scratch(Group *g, const Product *p) {
  Tile *t = &g->tile;
  int64_t words = tile_column_words(g), rows = t->meeting + meeting_groups(t->meeting), together;
  if (!words) return;
  t->group = meeting_group(t->meeting);
  int64_t tiles = ceil_div(p->n, t->n), columns = words * p->n * p->batch;
  int64_t counts = tiles * (meeting_groups(t->meeting) + 1) * p->batch;
  sched_scratch(g, "own_columns", DtF32, columns * rows);
  sched_scratch(g, "own_met", DtI32, counts);
  group_dims_kept(g, NULL, &together);
  if (together == 1) return;
  sched_scratch(g, "own_whole", DtF32, columns);
  sched_scratch(g, "own_whole_met", DtI32, p->batch);
}

// Scratch of row statistics: per tile along n, and arrival counters.
static void add_row_scratch(Group *g, const Product *p) {
  int64_t tiles = ceil_div(p->n, g->tile.n), counts = ceil_div(p->m, g->tile.m);
  const Node *statistic = group_statistic(g);
  if (!statistic || tiles == 1) return;
  int64_t words = op_monoid(statistic)->count * tiles * p->m;
  sched_scratch(g, "own_rows", DtF32, words);
  sched_scratch(g, "own_met", DtI32, counts);
}

void sched_multiplies(const Group *g, double *issued, double *counted, double *inside) {
  const Node *n = node_as_written(g->anchor);
  Product p = contract_product(g);
  *issued = tile_multiplies(&g->tile, &p);
  *counted = sched_contract_flops(n) / 2;
  *inside = *counted * maps_share_inside(n);
}

void sched_use(Group *g, const Arch *arch, const Tile *candidate) {
  Product p = contract_product(g);
  Tile *t = &g->tile;
  *t = *candidate;
  t->threads = tile_threads(t);
  t->blocks = tile_blocks_per_sm(t, &p, arch);
  t->smem = tile_smem(t, &p, g, arch);
  t->meeting = tile_meeting(t, &p, g, arch);
  t->k = kRowBytes / p.size;
  t->lanes = tile_keeps(t, &p, g) && p.b.across ? kMostLanes / 2 : kMostLanes;
  for (int i = 0; i < g->ntails; i++)
    if (tail_writes(g, i)) t->lanes = (int)fmin(t->lanes, sched_lanes(g, tail_lane(g, i).run));
  if (p.transposed) t->lanes = 1;
  bool walks = tile_walks(t, &p, g, arch);
  t->grid[0] = walks ? t->blocks * arch->sms : (int64_t)tile_count(t, &p) * t->splits;
  g->nscratch = 0;
  sched_count_work(g);
  if (t->splits > 1) add_scratch(g, &p);
  add_column_scratch(g, &p);
  add_row_scratch(g, &p);
}

void sched_contract(Group *g, const Arch *arch) {
  Tile list[kMostCandidates];
  int count = sched_candidates(g, arch, list, kMostCandidates);
  if (!count)
    err_at(g->graph->c, g->anchor->loc, "%s: no tile fits a block of %s", g->anchor->op->name,
           arch->gpu);
  Tile best = sched_pick(g, list, count);
  sched_use(g, arch, &best);
}

double sched_contract_rate(const Group *g, const Arch *arch) {
  Precision precision = g->anchor->precision;
  return precision == PrecFp32 ? arch->fp32 : precision == PrecTf32 ? arch->tf32 : arch->tensor16;
}

const char *sched_contract_tile(const Group *g) {
  const Tile *t = &g->tile;
  return arena_printf(g->graph->arena, t->splits > 1 ? "%dx%dx%d x%d %s /%d" : "%dx%dx%d x%d %s",
                      t->m, t->n, t->k, t->stages, t->unit->name, t->splits);
}

static bool same_cut(const Tile *a, const Tile *b) {
  return a->unit == b->unit && a->m == b->m && a->n == b->n && a->tm == b->tm && a->tn == b->tn &&
         a->stages == b->stages && a->splits == b->splits;
}

void sched_explain_contract(const Group *group, const Arch *arch, FILE *file) {
  // Candidates are ranked without scratch traffic and without the fused prologue: remove both.
  Group alone = *group;
  const Group *g = &alone, *first = group->first;
  alone.bytes_read -= group->bytes_scratch / 2 + (first ? first->bytes_read : 0);
  alone.bytes_written -= group->bytes_scratch / 2 + (first ? first->bytes_written : 0);
  alone.bytes_scratch = 0;
  for (int i = 0; i < alone.nnodes; i++) alone.nodes[i]->group = &alone;
  Product p = contract_product(g);
  Tile list[kMostCandidates];
  int count = sched_candidates(g, arch, list, kMostCandidates);
  fprintf(file,
          "  product m %lld, n %lld, k %lld, batch %lld; the best %d of %d candidates (us):\n",
          (long long)p.m, (long long)p.n, (long long)p.k, (long long)p.batch,
          count < kMostExplained ? count : kMostExplained, count);
  fprintf(
      file,
      "      place tile         warps stages split  blocks  on SM  waves  padding    math    smem  "
      " issue      L2    DRAM    wait    fill   split   total\n");
  for (int i = 0; i < count; i++) {
    const Tile *t = &list[i];
    bool chosen = same_cut(t, &g->tile);
    if (i >= kMostExplained && !chosen) continue;
    Cost c = tile_cost(t, &p, g, arch);
    double blocks = tile_count(t, &p) * t->splits;
    double useful = (double)(p.m * p.n * p.k) * (double)p.batch;
    fprintf(file,
            "  %c %6d %4dx%-8d %4d %5d %5d %8.0f %6d %6.0f %7.2fx %7.2f %7.2f %7.2f %7.2f "
            "%7.2f %7.2f %7.2f %7.2f %7.2f\n",
            chosen ? '*' : ' ', i + 1, t->m, t->n, tile_threads(t) / kWarp, t->stages, t->splits,
            blocks, c.per_sm, c.waves, tile_multiplies(t, &p) / useful, c.math * 1e6, c.smem * 1e6,
            c.issue * 1e6, c.l2 * 1e6, c.dram * 1e6, c.wait * 1e6, c.fill * 1e6, c.split * 1e6,
            c.seconds * 1e6);
  }
  fprintf(
      file,
      "  total: fourth root of the sum of fourth powers of the bounds, math to wait%s; then fill, "
      "split and %.2f between launches\n",
      g->tile.unit->tensor_cores ? "" : " (of math and issue the larger)", arch->launch_gap * 1e6);
  tuning_explain(g, file);
  for (int i = 0; i < alone.nnodes; i++) alone.nodes[i]->group = (Group *)group;
}
