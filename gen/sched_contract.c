// sched_contract.c: how contractions are cut. Candidates -> cost -> the cheapest, over the small
// structs Arch, Product and Tile, so that every choice can be printed and argued with.
#include "sched.h"
#include "tuning.h"

#include <math.h>
#include <string.h>

// Block tiles of contractions: m, n, then outputs per warp, then stages. k is a row of 128 bytes.
static const Tile fma_tiles[] = {
    {.m = 128, .n = 128, .tm = 32, .tn = 64, .stages = 2},
    {.m = 128, .n = 64, .tm = 32, .tn = 64, .stages = 3},
    {.m = 64, .n = 128, .tm = 32, .tn = 64, .stages = 3},
    {.m = 64, .n = 64, .tm = 32, .tn = 32, .stages = 3},
    {.m = 64, .n = 32, .tm = 16, .tn = 32, .stages = 3},
    {.m = 32, .n = 64, .tm = 16, .tn = 32, .stages = 3},
    {.m = 32, .n = 32, .tm = 16, .tn = 16, .stages = 4},
    {.m = 64, .n = 16, .tm = 16, .tn = 16, .stages = 4},
};

static const Tile mma_tiles[] = {
    {.mma = true, .m = 128, .n = 128, .tm = 64, .tn = 32, .stages = 3},
    {.mma = true, .m = 256, .n = 64, .tm = 64, .tn = 32, .stages = 3},
    {.mma = true, .m = 128, .n = 64, .tm = 64, .tn = 32, .stages = 3},
    {.mma = true, .m = 64, .n = 128, .tm = 32, .tn = 64, .stages = 3},
    {.mma = true, .m = 64, .n = 64, .tm = 32, .tn = 32, .stages = 4},
    {.mma = true, .m = 64, .n = 32, .tm = 32, .tn = 16, .stages = 4},
    {.mma = true, .m = 32, .n = 64, .tm = 16, .tn = 32, .stages = 4},
    {.mma = true, .m = 32, .n = 32, .tm = 16, .tn = 16, .stages = 4},
    {.mma = true, .m = 16, .n = 64, .tm = 16, .tn = 16, .stages = 4},
    {.mma = true, .m = 128, .n = 16, .tm = 32, .tn = 16, .stages = 4},
};

static const int splits[] = {1, 2, 3, 4, 6, 8, 12, 16};

enum {
  kRowBytes = 128,      // of k in shared memory
  kSmemPerBlock = 1024, // what a block costs besides
  kWarp = 32,
  kMostThreads = 2048, // on an SM
  kMmaStep = 32,       // bytes of k in one mma
  kFmaStep = 16,       // bytes of k that a thread reads at once
  kSmemLast = 16,      // whether a block was the last to arrive
  kMostExplained = 12,
  kMostCandidates = 128,
  kMostBlocksZ = 65535 // of a launch's grid
};

// What one tile costs on one SM, in seconds, and how many share an SM. The terms are kept, so that
// they can be shown.
typedef struct Cost {
  int per_sm;                                 // blocks that fit an SM
  double waves;                               // of blocks
  double math, l2, dram, split, gap, seconds; // seconds each, for the whole launch
} Cost;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int tile_smem(const Tile *t) {
  int ring = t->stages * (t->m + t->n) * kRowBytes, out = t->m * t->n * 4;
  return (ring > out ? ring : out) + kSmemLast;
}

static int tile_threads(const Tile *t) {
  return t->m * t->n / (t->tm * t->tn) * kWarp;
}

// Registers that ptxas takes for a thread of these kernels: the sums, and what waits for them.
static int tile_registers(const Tile *t) {
  int acc = t->tm * t->tn / kWarp;
  return t->mma ? 3 * acc + 32 : acc + 2 * t->tm + t->tn + 56;
}

static int blocks_per_sm(const Tile *t, const Arch *arch) {
  int64_t by_threads = kMostThreads / tile_threads(t);
  int64_t by_regs = arch->regs / (tile_threads(t) * tile_registers(t));
  int64_t by_smem = arch->smem / (tile_smem(t) + kSmemPerBlock);
  return (int)least(by_threads, least(by_regs, by_smem));
}

static double tile_count(const Tile *t, const Product *p) {
  return (double)(sched_ceil_div(p->m, t->m) * sched_ceil_div(p->n, t->n) * p->batch);
}

// Of k, what the longest block multiplies: whole steps of 32 bytes (16 without tensor cores).
static double block_depth(const Tile *t, const Product *p) {
  int64_t row = kRowBytes / p->size, step = (t->mma ? kMmaStep : kFmaStep) / p->size;
  int64_t blocks = sched_ceil_div(sched_ceil_div(p->k, row), t->splits);
  return (double)least(blocks * row, sched_ceil_div(p->k, step) * step);
}

// The share of the peak that the product of a warp can reach; slim tiles wait for shared memory.
static double warp_efficiency(const Tile *t) {
  double m = t->tm, n = t->tn;
  if (t->mma) return 0.6 * fmin(1, 0.4 + 0.8 * 2 * m * n / (m + n) / 64); // mma.sync on Hopper
  // Cycles of an SM per step of 4 k: its four schedulers multiply, one unit loads 4 wavefronts for
  // each row of b and one for each row of a.
  double rows = m / 4, columns = n / 8;
  return 0.8 * fmin(1, rows * columns / (4 * columns + rows));
}

// Waves of blocks, each bound by arithmetic or by what it reads from L2; all of it by DRAM. Parts
// of k are written to L2 and read by one block of each tile, once all have arrived (a microsecond,
// assumed).
static Cost contract_cost(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  Cost c = {.per_sm = blocks_per_sm(t, arch), .gap = arch->launch_gap};
  if (!c.per_sm) return (Cost){.seconds = INFINITY};
  double k = block_depth(t, p), l2_rate = arch->l2_rate / arch->sms;
  double blocks = tile_count(t, p) * t->splits;
  c.waves = ceil(blocks / ((double)arch->sms * c.per_sm));
  double busy = fmin(ceil(blocks / arch->sms), c.per_sm); // blocks that share an SM in a wave
  // Latency is covered by other warps (a scheduler has one of every four), and by the independent
  // sums of each, counted from 16 a lane.
  double cover = busy * tile_threads(t) / (4 * kWarp) * sqrt(t->tm * t->tn / (16. * kWarp));
  double efficiency = warp_efficiency(t) * fmin(1, 0.35 + 0.2 * cover);
  c.math =
      c.waves * busy * 2 * t->m * t->n * k / (sched_flop_rate(g, arch) / arch->sms * efficiency);
  c.l2 = c.waves * busy * p->size * (t->m + t->n) * k / l2_rate;
  c.dram = sched_dram_seconds(g, arch);
  double sums = blocks * t->m * t->n * 4; // bytes
  if (t->splits > 1)
    c.split = 1e-6 + t->splits * t->m * t->n * 4. / l2_rate + 2 * sums / arch->l2_rate;
  c.seconds = fmax(fmax(c.math, c.l2), c.dram) + c.split + c.gap;
  return c;
}

// The block tiles for the asked dtype.
static const Tile *block_tiles(int *count) {
  bool mma = strcmp(compiler->options.dtype, "fp32") != 0;
  *count = (int)(mma ? COUNT(mma_tiles) : COUNT(fma_tiles));
  return mma ? mma_tiles : fma_tiles;
}

// May the product be cut so? Operands that are copied across k lie in shared memory as whole rows
// of 128 bytes along m or n; each part of k is two blocks of it at least, and their sums can be
// indexed.
static bool may_cut(const Product *p, const Tile *t) {
  int row = kRowBytes / p->size;
  if ((p->a.across && t->m % row) || (p->b.across && t->n % row)) return false;
  int64_t blocks_of_k = sched_ceil_div(p->k * p->size, kRowBytes);
  return t->splits == 1 || (blocks_of_k >= 2 * t->splits && p->batch * t->splits <= kMostBlocksZ &&
                            tile_count(t, p) * t->splits * t->m * t->n <= INT32_MAX);
}

// Fills tiles[most] with every tile and number of parts that fits the device, the cheapest by the
// model first.
int sched_candidates(const Group *g, const Arch *arch, Tile *tiles, int most) {
  Product p = contract_product(g);
  int count, kept = 0;
  const Tile *list = block_tiles(&count);
  for (int i = 0; i < count; i++)
    for (size_t s = 0; s < COUNT(splits); s++) {
      Tile t = list[i];
      t.splits = splits[s];
      if (!may_cut(&p, &t)) break;
      t.seconds = contract_cost(&t, &p, g, arch).seconds;
      if (isinf(t.seconds) || (kept == most && tiles[most - 1].seconds <= t.seconds)) continue;
      int at = kept < most ? kept++ : most - 1;
      for (; at > 0 && tiles[at - 1].seconds > t.seconds; at--) tiles[at] = tiles[at - 1];
      tiles[at] = t;
    }
  return kept;
}

static void count_scratch(Group *g, int64_t bytes) {
  g->bytes_read += bytes;
  g->bytes_written += bytes;
  g->bytes_scratch += 2 * bytes;
}

// The parts of k meet in memory: sums of every part of every tile, and how many have arrived.
static void add_scratch(Group *g, const Product *p) {
  const Tile *t = &g->tile;
  int64_t tiles = (int64_t)tile_count(t, p), sums = tiles * t->splits * t->m * t->n;
  g->scratch[g->nscratch++] = (Scratch){"own_sums", DtF32, sums, false};
  g->scratch[g->nscratch++] = (Scratch){"own_arrived", DtI32, tiles, true};
  count_scratch(g, (sums + tiles) * 4);
}

// Sums of columns meet in memory too: those of each block of rows, then of groups of such blocks.
static void add_column_scratch(Group *g, const Product *p) {
  Tile *t = &g->tile;
  int64_t count = 0, blocks = sched_ceil_div(p->m, t->m);
  for (int i = 0; i < g->noutputs; i++) count += group_sums_columns(g, g->outputs[i]);
  if (!count) return;
  t->group = (int)ceil(sqrt((double)blocks));
  int64_t groups = sched_ceil_div(blocks, t->group), sums = count * (blocks + groups) * p->n;
  int64_t counts = sched_ceil_div(p->n, t->n) * (groups + 1);
  g->scratch[g->nscratch++] = (Scratch){"own_columns", DtF32, sums, false};
  g->scratch[g->nscratch++] = (Scratch){"own_met", DtI32, counts, true};
  count_scratch(g, (sums + counts) * 4);
}

// The taps of a filter that fall inside the image, of all outputs along dimension 2 + i.
static double taps_inside(const Node *n, int i) {
  const Attr *a = &n->attr;
  int64_t size = n->in[0]->type.dim[2 + i], count = 0;
  for (int64_t y = 0; y < n->type.dim[2 + i]; y++)
    for (int64_t r = 0; r < node_window(n, i); r++) {
      int64_t at = y * a->stride[i] - a->pad[i] + r * a->dilation[i];
      count += at >= 0 && at < size;
    }
  return (double)count;
}

void sched_multiplies(const Group *g, double *issued, double *counted, double *inside) {
  const Node *n = g->anchor;
  Product p = contract_product(g);
  const Tile *t = &g->tile;
  // Blocks of k are whole but the last, which is multiplied in steps of 32 (16) bytes.
  int64_t step = (t->mma ? kMmaStep : kFmaStep) / p.size, depth = sched_ceil_div(p.k, step) * step;
  *issued = tile_count(t, &p) * t->m * t->n * (double)depth;
  *counted = sched_contract_flops(node_as_written(compiler, n)) / 2;
  *inside = *counted;
  for (int i = 0; i < 2 && n->op->form == FormConv; i++)
    *inside *= taps_inside(n, i) / (double)(n->type.dim[2 + i] * n->in[1]->type.dim[2 + i]);
}

void sched_use(Group *g, const Arch *arch, const Tile *candidate) {
  Product p = contract_product(g);
  Tile *t = &g->tile;
  *t = *candidate;
  t->threads = tile_threads(t);
  t->blocks = blocks_per_sm(t, arch);
  t->smem = tile_smem(t);
  t->k = kRowBytes / p.size;
  t->lanes = sched_lanes(g, contract_lane(g).run);
  t->grid[0] = sched_ceil_div(p.m, t->m) * sched_ceil_div(p.n, t->n);
  t->grid[2] = p.batch * t->splits;
  g->nscratch = 0;
  sched_count_work(g);
  if (t->splits > 1) add_scratch(g, &p);
  add_column_scratch(g, &p);
}

void sched_contract(Group *g, const Arch *arch) {
  Tile list[kMostCandidates];
  int count = sched_candidates(g, arch, list, kMostCandidates);
  int forced = compiler->options.candidate;
  if (!count)
    err_at(g->anchor->loc, "%s: no tile fits a block of %s", g->anchor->op->name, arch->gpu);
  const Tile *measured = tuning_pick(g, list, count);
  Tile best = measured ? *measured : list[forced ? (forced - 1) % count : 0];
  best.tuned = measured != NULL;
  sched_use(g, arch, &best);
}

static bool same_cut(const Tile *a, const Tile *b) {
  return a->m == b->m && a->n == b->n && a->tm == b->tm && a->tn == b->tn &&
         a->stages == b->stages && a->splits == b->splits;
}

void sched_explain(const Group *g, const Arch *arch, FILE *file) {
  fprintf(file, "  floor on %s: %.2f us of arithmetic, %.2f us of memory\n", arch->gpu,
          g->flops / sched_flop_rate(g, arch) * 1e6, sched_dram_seconds(g, arch) * 1e6);
  if (g->tm != TmContract) return;
  Product p = contract_product(g);
  Tile list[kMostCandidates];
  int count = sched_candidates(g, arch, list, kMostCandidates);
  fprintf(file, "  product m %lld, n %lld, k %lld, batch %lld; the best of %d candidates (us):\n",
          (long long)p.m, (long long)p.n, (long long)p.k, (long long)p.batch, count);
  fprintf(file,
          "      place tile         warps stages split  blocks  on SM  waves  padding    math      "
          "L2    DRAM   split   total\n");
  for (int i = 0; i < count; i++) {
    const Tile *t = &list[i];
    bool chosen = same_cut(t, &g->tile);
    if (i >= kMostExplained && !chosen) continue;
    Cost c = contract_cost(t, &p, g, arch);
    double blocks = tile_count(t, &p) * t->splits;
    double useful = (double)(p.m * p.n * p.k) * (double)p.batch;
    fprintf(file,
            "  %c %6d %4dx%-8d %4d %5d %5d %8.0f %6d %6.0f %7.2fx %7.2f %7.2f %7.2f %7.2f %7.2f\n",
            chosen ? '*' : ' ', i + 1, t->m, t->n, tile_threads(t) / kWarp, t->stages, t->splits,
            blocks, c.per_sm, c.waves, blocks * t->m * t->n * block_depth(t, &p) / useful,
            c.math * 1e6, c.l2 * 1e6, c.dram * 1e6, c.split * 1e6, c.seconds * 1e6);
  }
  tuning_explain(g, file);
}
