// sched_attend.c: tiles of attention, of its backward kernels and of sums of attention gradients:
// the cheapest by attend_cost.c.
#include "attend.h"

#include <math.h>

enum { kMostExplained = 12 };

// Rows and keys of a tile, rows of a warp: tensor cores, then fp32 units.
static const Tile tiles[] = {
    {.unit = &unit_mma, .m = 128, .n = 64, .tm = 32},
    {.unit = &unit_mma, .m = 128, .n = 64, .tm = 16},
    {.unit = &unit_mma, .m = 64, .n = 64, .tm = 16},
    {.unit = &unit_mma, .m = 64, .n = 32, .tm = 16},
    {.unit = &unit_mma, .m = 32, .n = 64, .tm = 16},
    {.unit = &unit_mma, .m = 16, .n = 64, .tm = 16},
    {.unit = &unit_mma, .m = 128, .n = 32, .tm = 16},
    {.unit = &unit_mma, .m = 128, .n = 128, .tm = 16},
    {.unit = &unit_mma, .m = 128, .n = 32, .tm = 32},
    {.unit = &unit_wgmma, .m = 128, .n = 128, .tm = 16},
    {.unit = &unit_wgmma, .m = 128, .n = 64, .tm = 16},
    {.unit = &unit_wgmma, .m = 64, .n = 128, .tm = 16},
    {.unit = &unit_wgmma, .m = 64, .n = 64, .tm = 16},
    {.unit = &unit_wgmma, .m = 192, .n = 128, .tm = 16},
    {.unit = &unit_wgmma, .m = 192, .n = 64, .tm = 16},
    {.unit = &unit_fma, .m = 128, .n = 64, .tm = 32},
    {.unit = &unit_fma, .m = 64, .n = 64, .tm = 32},
    {.unit = &unit_fma, .m = 128, .n = 32, .tm = 32},
    {.unit = &unit_fma, .m = 64, .n = 64, .tm = 16},
    {.unit = &unit_fma, .m = 64, .n = 32, .tm = 16},
    {.unit = &unit_fma, .m = 32, .n = 32, .tm = 16},
    {.unit = &unit_fma, .m = 32, .n = 32, .tm = 8},
    {.unit = &unit_fma, .m = 16, .n = 32, .tm = 8},
};

// More tiles for backward kernels, which need more registers.
static const Tile attend_backward_tiles[] = {
    {.unit = &unit_mma, .m = 64, .n = 32, .tm = 32},
    {.unit = &unit_mma, .m = 128, .n = 32, .tm = 32},
    {.unit = &unit_mma, .m = 64, .n = 16, .tm = 16},
};

static const int splits[] = {1, 2, 4, 8, 16, 32, 64, 128}; // of the keys

enum { kMostList = LENGTH(tiles) * LENGTH(splits) + LENGTH(attend_backward_tiles) };

static int lanes_of(const Group *g) {
  int lanes = g->ntails ? 8 : 1;
  for (int i = 0; i < g->ntails; i++)
    if (tail_writes(g, i)) lanes = (int)fmin(lanes, sched_lanes(g, tail_lane(g, i).run));
  return lanes;
}

// The s-th number of splits to try; for sums: as many as fill the GPU once, half, twice.
static int splits_of(const Attending *a, const Tile *t, const Arch *arch, size_t s) {
  if (!a->sums || s == 0) return splits[s];
  double most = attend_steps(a, t), parts = arch->sms * t->blocks * splits[s - 1] / 2.;
  parts = ceil(parts / (double)attend_jobs(a, t));
  return (int)fmax(1, fmin(parts, most));
}

// Collects candidates. Kernels that draw or keep many values: only those within `registers`.
// *least: registers of the best tile.
static int find_candidates(const Group *g, const Arch *arch, Tile *list, int most, int registers,
                           int *least) {
  Attending a = attend_problem(g);
  int kept = 0, lanes = lanes_of(g);
  size_t ntiles = LENGTH(tiles) + (a.softmax ? 0 : LENGTH(attend_backward_tiles)),
         nsplits = a.softmax ? LENGTH(splits)
                   : a.sums  ? 4
                             : 1;
  for (size_t i = 0; i < ntiles; i++)
    for (size_t s = 0; s < nsplits; s++) {
      Tile t = i < LENGTH(tiles) ? tiles[i] : attend_backward_tiles[i - LENGTH(tiles)];
      if (!attend_unit_legal(&a, &t, arch)) break;
      t.stages = 2, t.splits = splits[s], t.lanes = lanes;
      t.threads = attend_warps(&t) * kWarp + attend_loaders(&a, &t).threads;
      t.blocks = attend_blocks(&a, &t, arch);
      t.splits = splits_of(&a, &t, arch, s);
      if (s && t.splits == 1) continue;
      if (!attend_fits(&a, &t, lanes) || !t.blocks) break;
      if (attend_most_registers(&a, &t) < *least) *least = attend_most_registers(&a, &t);
      bool spills = attend_most_registers(&a, &t) > registers;
      if (attend_is_wide(&a) && spills) break;
      Cost cost = attend_cost(&a, &t, g, arch);
      cost_note(&t, &cost);
      kept = sched_keep_cheapest(list, kept, most, &t);
    }
  return kept;
}

int attend_candidates(const Group *g, const Arch *arch, Tile *list, int most) {
  int least = INT32_MAX, kept = find_candidates(g, arch, list, most, kMostRegs, &least);
  return kept ? kept : find_candidates(g, arch, list, most, least, &least);
}

// Scratch of splits: output rows, softmax states, arrival counters.
static void add_scratch(Group *g, const Attending *a) {
  const Tile *t = &g->tile;
  int64_t outputs = t->grid[0] * (int64_t)attend_part_count(a, t),
          rows = a->sums ? 0 : t->grid[0] * attend_rows(a, t);
  int64_t counts = t->grid[0] / t->splits * tile_part_counts(t);
  sched_scratch(g, "own_parts", DtF32, outputs);
  if (rows) sched_scratch(g, "own_states", DtF32, rows * 2);
  sched_scratch(g, "own_arrived", DtI32, counts);
}

// Persistent blocks: tensor maps of queries (if loaded by TMA), keys and values; one block per slot
// and a job counter.
static void use_jobs(Group *g, const Attending *a, const Arch *arch) {
  g->boxes = arena_alloc(g->graph->arena, 3 * sizeof *g->boxes);
  for (int i = attend_loaders(a, &g->tile).queries ? 0 : 1; i <= 2; i++) {
    AttendBox box;
    attend_box(a, &g->tile, i, &box);
    g->boxes[g->nboxes++] = (Box){.of = a->operand[i].base, .map = box.map};
  }
  if (g->tile.grid[0] > arch->sms) g->tile.grid[0] = arch->sms;
  sched_scratch(g, "own_taken", DtI32, 1);
}

void attend_use(Group *g, const Arch *arch, const Tile *candidate) {
  Attending a = attend_problem(g);
  Tile *t = &g->tile;
  *t = *candidate;
  t->smem = attend_smem(&a, t);
  t->grid[0] = attend_jobs(&a, t) * t->splits;
  g->nscratch = g->nboxes = 0;
  sched_count_work(g);
  g->flops *= attend_share(g, &a, t);
  if (t->splits > 1) add_scratch(g, &a);
  if (attend_loaders(&a, t).threads) use_jobs(g, &a, arch);
}

void sched_attend(Group *g, const Arch *arch) {
  Tile list[kMostList];
  int count = attend_candidates(g, arch, list, kMostList);
  if (!count)
    err_at(g->graph->c, g->anchor->loc, "attention: no tile fits a block of %s", arch->gpu);
  Tile best = sched_pick(g, list, count);
  attend_use(g, arch, &best);
}

const char *attend_kind(const Attending *a) {
  return a->sums             ? "sums of weights of two products"
         : a->softmax        ? "attention"
         : a->nproducts == 1 ? "weights of one product"
                             : "weights of two products";
}

void attend_explain(const Group *g, const Arch *arch, FILE *file) {
  Attending a = attend_problem(g);
  Tile list[kMostList];
  int count = attend_candidates(g, arch, list, kMostList);
  TileShares s = attend_tiles(g, &a, &g->tile);
  double all = s.skipped + s.mixed + s.plain;
  fprintf(file, "  %s of %lld queries to %lld keys, heads of %lld and %lld, batch %lld\n",
          attend_kind(&a), (long long)a.rows, (long long)a.keys, (long long)a.depth[0],
          (long long)a.width, (long long)a.batch);
  for (int i = 0; i < (a.softmax ? 3 : 0); i++)
    if (!a.operand[i].piece)
      fprintf(file, "  %c is computed while loading: about %d instructions per element\n", "qkv"[i],
              a.operand[i].issue);
  fprintf(file, "  tiles of scores: %.1f %% skipped, %.1f %% with conditions, %.1f %% plain\n",
          100 * s.skipped / all, 100 * s.mixed / all, 100 * s.plain / all);
  fprintf(file, "  candidates (us):\n      place  rows  keys warps unit  split  on SM   total\n");
  for (int i = 0; i < count; i++) {
    const Tile *t = &list[i];
    bool chosen = t->m == g->tile.m && t->n == g->tile.n && t->tm == g->tile.tm &&
                  t->splits == g->tile.splits && t->unit == g->tile.unit;
    if (i >= kMostExplained && !chosen) continue;
    fprintf(file, "  %c %6d %5d %5d %5d %-5s %5d %6d %7.2f\n", chosen ? '*' : ' ', i + 1, t->m,
            t->n, attend_warps(t), t->unit->name, t->splits, t->blocks, t->seconds * 1e6);
  }
  tuning_explain(g, file);
}

const char *attend_tile(const Group *g) {
  const Tile *t = &g->tile;
  return arena_printf(g->graph->arena,
                      t->splits > 1 ? "%d rows x %d keys x%d %s /%d" : "%d rows x %d keys x%d %s",
                      t->m, t->n, t->stages, t->unit->name, t->splits);
}
