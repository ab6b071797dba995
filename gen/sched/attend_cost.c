// attend_cost.c: cost of a tile of attention, of its backward kernels, or of sums of attention
// gradients: shared memory, registers, time.
//
// A block keeps kTileM query rows and loops over all keys, one tile at a time; a warp has some of
// the rows and all keys of a tile. Sum kernels keep a tile of sums instead and loop over all tiles
// of probabilities added to it, or over a part of them. Bounds are those of contractions, and the
// exponential units: 16 per clock and SM (CUDA C++ Programming Guide, arithmetic throughput).
#include "attend.h"

#include <math.h>

enum {
  kStep = 16,       // k of an mma, in elements
  kRowUnit = 32,    // rows in shared memory are multiples of this, bytes
  kMostHeld = 2048, // elements of a warp's queries that may stay in registers (lib/attend_mma.cuh)
  kMostSums = 196,  // accumulator registers that leave enough for the rest
  kOtherRegs = 64,  // registers for the rest
  kUnheldRegs = 20, // more, for query addresses, if a warp reloads 32 rows
  kSecondRegs = 48, // more, if there are two score products
  kExpRate = 16,    // per clock
  kTileIssue = 60   // per warp and tile of keys: row maxima, waits, branches
};

// The least power of 2 from 16 on that holds the values' columns.
int attend_staged(const Attending *a) {
  int staged = kStep;
  while (staged < a->width) staged *= 2;
  return staged;
}

// ---- tiles -------------------------------------------------------------------------------------

// Computing warps.
int attend_warps(const Tile *t) {
  return t->m / t->tm;
}

// Output tiles: of rows, or of sums.
static double tile_count_of(const Attending *a, const Tile *t) {
  int64_t rows = a->sums_rows ? 1 : ceil_div(a->rows, t->m);
  int64_t keys = !a->sums || a->sums_keys ? 1 : ceil_div(a->keys, t->n);
  return (double)(rows * keys * (a->sums ? a->batch / a->looped : a->batch));
}

int64_t attend_jobs(const Attending *a, const Tile *t) {
  return (int64_t)tile_count_of(a, t);
}

// Tiles of scores processed per output tile.
double attend_steps(const Attending *a, const Tile *t) {
  int64_t rows = a->sums_rows ? ceil_div(a->rows, t->m) : 1;
  int64_t keys = !a->sums || a->sums_keys ? ceil_div(a->keys, t->n) : 1;
  return (double)(rows * keys * (a->sums ? a->looped : 1));
}

static int row_bytes(const Attending *a, int64_t elements) {
  return (int)round_up(elements * a->size, kRowUnit);
}

// Bytes of a query row over all heads; of a key and its value.
static int query_bytes(const Attending *a) {
  int bytes = 0;
  for (int i = 0; i < a->nproducts; i++) bytes += row_bytes(a, a->depth[i]);
  return bytes;
}
static int key_bytes(const Attending *a) {
  return query_bytes(a) + (a->shared < 2 * a->nproducts ? 0 : row_bytes(a, a->width));
}

int attend_smem(const Attending *a, const Tile *t) {
  int ring = (a->sums ? t->stages : 1) * t->m * query_bytes(a) + t->stages * t->n * key_bytes(a);
  int out = t->m * (a->sums ? t->n : attend_staged(a)) * 4,
      bits = (int)ceil(ceil(attend_steps(a, t) / (a->sums ? t->splits : 1)) / kWarp) * 4;
  int states = t->splits > 1 && !a->sums ? t->m * 8 + attend_rows(a, t) * 4 * attend_joined(t) : 0;
  if (t->splits > 1 || a->sums) states += kSmemLast;
  int of_keys = a->key_values * t->stages * t->n * 4;
  Loaders loaders = attend_loaders(a, t);
  if (loaders.threads) // rings of jobs, keys and values; counters and mask bits of two jobs
    return ring + (loaders.places - 1) * t->m * query_bytes(a) + out +
           (loaders.places + 2 * t->stages) * 2 * 8 + 16 + (int)round_up(4 * bits, 16);
  // two bits per tile
  return (ring > out ? ring : out) + of_keys + states + (int)round_up(2 * bits, 16);
}

// Clocks of an SM per tile of keys.
typedef struct TileClocks {
  double math, smem, issue, exponentials;
} TileClocks;

// Attention's parameters of a unit, in addition to Unit.
typedef struct AttendUnit {
  const Unit *unit;
  int size;         // bytes of an element
  double chain;     // latency per kRowUnit bytes of a row, in clocks, products being dependent
  int part_keys;    // keys multiplied while exponentials of others are computed; 0: no overlap
  int part_outputs; // most elements of a warp's outputs with enough registers for that overlap
  int drawn, drawn_too; // registers for random numbers of many scores per lane: backward; forward
  bool (*legal)(const Attending *a, const Arch *arch); // or NULL: always
  int (*registers)(const Attending *a, const Tile *t); // per thread: outputs, scores, operands
  int (*unheld)(const Attending *a, const Tile *t);    // more, for queries not kept in registers
  void (*reads)(const Attending *a, const Tile *t, TileClocks *c); // operand reads and products
} AttendUnit;

// Bytes loaded per tile of scores.
static double loaded_of(const Attending *a, const Tile *t) {
  return t->n * (double)key_bytes(a) + (a->sums ? t->m * (double)query_bytes(a) : 0);
}

static double elements_of(const Attending *a) { // elements of a query and a value
  return (query_bytes(a) + row_bytes(a, a->width)) / (double)a->size;
}

// ---- the fp32 units

static int fma_registers(const Attending *a, const Tile *t) { // operands of a step
  int width = row_bytes(a, a->width) / a->size, scores = a->nproducts * t->n;
  int outputs = a->sums ? t->n / 8 : (int)ceil_div(width, 32) * 4;
  return t->tm / 4 * (scores / 8 + outputs) + t->tm + t->n / 2;
}

static int no_unheld(const Attending *a, const Tile *t) {
  (void)a, (void)t;
  return 0;
}

// Each warp reads the operands again; probabilities are exchanged between lanes.
static void fma_reads(const Attending *a, const Tile *t, TileClocks *c) {
  double warps = attend_warps(t), depth = query_bytes(a) / (double)a->size;
  double reads =
      (t->tm / 4. + t->n / 8.) * depth / 4 + t->n * (t->tm / 4. + (double)ceil_div(a->width, 32));
  c->smem = warps * reads;
  c->issue += warps * (reads + t->tm * t->n * elements_of(a) / kWarp);
}

// ---- tensor cores

static bool holds_queries(const Attending *a, const Tile *t) {
  return a->softmax && t->tm * a->depth[0] <= kMostHeld;
}

// the queries, or the fragments of a step
static int mma_registers(const Attending *a, const Tile *t) {
  int width = a->sums ? t->n : row_bytes(a, a->width) / a->size, scores = a->nproducts * t->n;
  int steps = holds_queries(a, t) ? (int)ceil_div(a->depth[0], kStep) : a->softmax;
  int queries = t->tm / 16 * 4 * steps;
  return t->tm * (width + scores) / kWarp + queries;
}

static int mma_unheld(const Attending *a, const Tile *t) {
  return a->softmax && t->tm > 16 && !holds_queries(a, t) ? kUnheldRegs : 0;
}

// A 16 x 16 fragment serves four instructions, one of which loads it.
static void mma_reads(const Attending *a, const Tile *t, TileClocks *c) {
  double warps = attend_warps(t), both = elements_of(a), read = t->n * both * a->size;
  double again = holds_queries(a, t) ? 0 : t->tm * query_bytes(a); // queries, by each warp
  c->smem = warps * (read + again) / kSmemRate;
  c->issue += warps * (t->n * both / (16 * 16) + t->tm / 16. * t->n * both / (8 * 16) +
                       again / a->size / (16 * 16));
}

// ---- warp groups on tensor cores

// Supported output widths (lib/prim.cuh).
static bool wgmma_legal(const Attending *a, const Arch *arch) {
  static const int columns[] = {16, 32, 48, 64, 80, 96, 128, 256};
  bool found = false;
  for (size_t i = 0; i < LENGTH(columns); i++)
    found = found || round_up(a->width, kStep) == columns[i];
  return arch->wgmma && !a->sums && found;
}

static bool keeps_queries(const Attending *a, const Tile *t) { // in registers
  enum { kGroupHeld = 64 };                                    // lib/attend_wgmma.cuh
  Loaders loaders = attend_loaders(a, t);
  return a->softmax && a->depth[0] <= (loaders.threads ? loaders.most_held : kGroupHeld);
}

// Warps read no keys and values into registers, so the rest needs less than kOtherRegs.
static int wgmma_registers(const Attending *a, const Tile *t) {
  // kPlaces: addresses of queries not kept in registers
  enum { kLess = 32, kLessOfFew = 8, kPlaces = 24 };
  int width = row_bytes(a, a->width) / a->size, queries = query_bytes(a) / a->size;
  int sums = t->tm * (width + a->nproducts * t->n) / kWarp - kLess;
  sums += (a->nproducts - 1) * ((t->n > 64 ? t->n / 2 : 0) - kSecondRegs);
  bool few = !a->softmax && a->score_issue <= 2 + 2 * a->nproducts; // few values per row and key
  if (few) sums -= kLessOfFew;
  return sums + (keeps_queries(a, t) ? t->tm * queries / kWarp : kPlaces);
}

// Each group of 64 rows reads all keys and values, and, if queries are not in registers, the
// queries again for each part of the keys.
static void wgmma_reads(const Attending *a, const Tile *t, TileClocks *c) {
  enum { kGroupRows = 64, kGroupKeys = 64, kProductIssue = 4 }; // descriptors, the instruction
  bool whole = attend_loaders(a, t).threads;                    // tiles are multiplied at once
  double groups = t->m / (double)kGroupRows, parts = whole ? 1 : t->n / (double)kGroupKeys;
  double again = keeps_queries(a, t) ? 0 : parts * kGroupRows * query_bytes(a);
  double products = parts * query_bytes(a) / kRowUnit + t->n / (double)kStep;
  c->smem = groups * (t->n * elements_of(a) * a->size + again) / kSmemRate;
  c->issue += groups * 4 * products * kProductIssue;
}

static const AttendUnit units[] = {
    {&unit_fma, 4, 0, 0, 0, 0, 0, NULL, fma_registers, no_unheld, fma_reads},
    {&unit_mma, 2, kMmaClocks / 4., 32, 32 * 80, 60, 20, NULL, mma_registers, mma_unheld,
     mma_reads},
    {&unit_wgmma, 2, kMmaClocks, 64, 16 * 128, 36, 0, wgmma_legal, wgmma_registers, no_unheld,
     wgmma_reads},
};

static const AttendUnit *unit_of(const Tile *t) {
  const AttendUnit *u = units;
  while (u->unit != t->unit) u++;
  return u;
}

bool attend_unit_legal(const Attending *a, const Tile *t, const Arch *arch) {
  const AttendUnit *unit = unit_of(t);
  return unit->size == a->size && (!unit->legal || unit->legal(a, arch));
}

int attend_parts(const Attending *a, const Tile *t) {
  const AttendUnit *u = unit_of(t);
  bool whole = a->softmax && u->part_keys && t->n % u->part_keys == 0;
  bool fits = whole && t->tm * a->width <= u->part_outputs && !attend_loaders(a, t).threads;
  return fits ? t->n / u->part_keys : 1;
}

// Warp specialisation: two or three groups compute and one loads boxes by TMA, in one persistent
// block per SM. Not used for heads of 32, which are as fast without (more groups share an SM;
// tests/bench/NOTES.md), nor for heads above 128 or dropout, which need too many registers.
Loaders attend_loaders(const Attending *a, const Tile *t) {
  enum { kSmall = 32, kLarge = 128, kGroup = 128, kAll = 65536, kMostGroups = 3, kLeast = 32 };
  enum { kTwice = 96 }; // up to this depth, shared memory holds the queries of two jobs
  // Registers of the score function; of mask spans, which loaders compute.
  enum { kOfScores = 44, kOfSpans = 80 };
  int groups = attend_warps(t) * kWarp / kGroup;
  bool sized = a->width > kSmall && a->width <= kLarge;
  bool may = t->unit->in_flight && a->softmax && sized && !a->draws && t->splits <= 1;
  if (!may || groups < 2 || groups > kMostGroups - !a->simple) return (Loaders){0};
  Loaders l = {.threads = kGroup, .registers = groups < kMostGroups ? 40 : 32};
  if (!a->simple) l.registers = kOfSpans;
  l.of_others = (kAll / kGroup - l.registers) / groups / 8 * 8;
  // Registers: scores and probabilities of a tile, outputs; queries if there is room.
  l.spare = l.of_others - (t->n / 2 + t->n / 4 + row_bytes(a, a->width) / a->size / 2 + kLeast);
  l.most_held = l.spare * 4;
  if (!a->simple) l.spare -= kOfScores;
  l.places = a->depth[0] <= kTwice ? 2 : 1;
  AttendBox box;
  l.queries = attend_box(a, t, 0, &box);
  return attend_box(a, t, 1, &box) && attend_box(a, t, 2, &box) ? l : (Loaders){0};
}

// ---- the cost of a tile -----------------------------------------------------------------------

// Registers for random numbers: more if there are conditions, or if a lane has more scores.
static int draw_registers(const Attending *a, const Tile *t) {
  enum { kDraws = 24, kOfWeights = 36, kBeside = 20, kMostBeside = 4, kFew = 64, kFewOfLane = 32 };
  int beside = kBeside * (a->beside < kMostBeside ? a->beside : kMostBeside);
  if (!a->draws) return 0;
  bool many = t->tm * t->n / kWarp > kFewOfLane;
  if (!a->softmax) return kOfWeights + beside + (many ? unit_of(t)->drawn : 0);
  int most = kDraws * t->tm / 16 * (t->n > kFew ? 2 : 1) + beside / 2;
  return most + (many ? unit_of(t)->drawn_too : 0);
}

// Registers for values per row, per key and scalars, and what is derived from them.
static int number_registers(const Attending *a) {
  enum { kFew = 4, kFewOfWeights = 6, kOfNumber = 6, kOfWeights = 8 };
  if (a->softmax) return a->numbers > kFew ? kOfNumber * a->numbers : 0;
  return a->numbers > kFewOfWeights ? kOfWeights * a->numbers : 0;
}

int attend_registers(const Attending *a, const Tile *t) {
  return unit_of(t)->registers(a, t) + kOtherRegs + (a->nproducts - 1) * kSecondRegs +
         draw_registers(a, t) + number_registers(a);
}

bool attend_is_wide(const Attending *a) {
  return a->draws || number_registers(a) > 0;
}

// Registers for copying `rows` rows per thread. If the chunks of a row do not divide the threads,
// the addresses in global and shared memory are not equally spaced and each is kept
// (lib/attend.cuh).
static int copy_registers(const Tile *t, int rows, int bytes) {
  enum { kChunk = 16, kUnrolled = 8 };
  int threads = attend_warps(t) * kWarp, copies = (int)ceil_div(rows * bytes / kChunk, threads);
  return threads % (bytes / kChunk) && copies <= kUnrolled ? 2 * copies : 0;
}

static int all_copy_registers(const Attending *a, const Tile *t) {
  int registers = 0;
  for (int i = 0; i < a->nproducts; i++)
    registers += copy_registers(t, t->n, row_bytes(a, a->depth[i]));
  if (!a->sums && a->shared == 2 * a->nproducts)
    registers += copy_registers(t, t->n, row_bytes(a, a->width));
  return registers;
}

// Dropout in backward kernels with 32 rows per warp leaves no room for kept addresses.
int attend_most_registers(const Attending *a, const Tile *t) {
  bool both = a->draws && !a->softmax && t->unit->tensor_cores && t->tm > 16;
  return attend_registers(a, t) + (both ? all_copy_registers(a, t) : 0);
}

bool attend_registers_are_few(const Attending *a, const Tile *t) {
  enum { kAllRegs = 65536 }; // per SM
  int there = kAllRegs / (attend_warps(t) * kWarp * t->blocks) / 8 * 8;
  if (there > kMostRegs) there = kMostRegs;
  bool may = (a->softmax || a->draws) && t->unit->tensor_cores && a->takes_in;
  may = may && !attend_loaders(a, t).threads;
  return may && attend_registers(a, t) + all_copy_registers(a, t) > there;
}

// Row by row, values computed or drawn per key are kept for all rows of a lane; key by key, values
// per row are. With a bias matrix the latter needs more registers, unless there are few keys.
bool attend_by_keys(const Attending *a, const Tile *t) {
  int rows = t->tm / 8, keys = t->n / 4; // of a lane, on tensor cores
  bool few = a->nproducts == 1 && keys <= 2 * rows;
  return t->unit->tensor_cores && a->takes_in && (!a->takes_matrix || few);
}

// Registers are split between the schedulers and allocated by whole warps.
int attend_blocks(const Attending *a, const Tile *t, const Arch *arch) {
  int most = attend_registers(a, t), registers = most < kMostRegs ? most : kMostRegs;
  int warps = arch->regs / kSchedulers / (kWarp * registers);
  int by_regs = attend_loaders(a, t).threads ? 1 : warps * kSchedulers / attend_warps(t);
  int by_smem = arch->smem / (attend_smem(a, t) + kSmemPerBlock);
  int blocks = by_regs < by_smem ? by_regs : by_smem;
  return blocks < 16 ? blocks : 16;
}

// Clocks of an SM to compute `rows` rows of operand i (norm and rotary prologues).
static double computed_issue(const Attending *a, int i, int rows) {
  double elements = rows * (double)(i < 2 ? a->depth[0] : a->width);
  return a->operand[i].piece ? 0 : elements * a->operand[i].issue / kWarp / kSchedulers;
}

// Latency of that for a block on its own: some loads of each thread are in flight; reductions have
// their elements in registers then, but each sweep waits.
static double computed_clocks(const Attending *a, const Tile *t, int i, int rows) {
  enum { kInFlight = 32, kAgain = 200 }; // kInFlight: elements
  double each = rows * (double)(i < 2 ? a->depth[0] : a->width) / (attend_warps(t) * kWarp);
  double issue = computed_issue(a, i, rows) * fmax(1, kSchedulers / (double)attend_warps(t));
  if (a->operand[i].piece) return 0;
  return issue + ceil(each / kInFlight) * (kLoadClocks + (a->operand[i].waits - 1) * kAgain);
}

static TileClocks clocks_of(const Attending *a, const Tile *t, const Arch *arch) {
  double warps = attend_warps(t), scores = t->m * (double)t->n;
  double loaded = loaded_of(a, t), rate = t->unit->rate(arch, a->size);
  TileClocks c = {.math = 2 * scores * elements_of(a) / (rate / arch->sms / (arch->clock * 1e9)),
                  .exponentials = scores / kExpRate};
  c.issue = scores * a->score_issue / kWarp + warps * kTileIssue + loaded / 16 / kWarp * 3;
  unit_of(t)->reads(a, t, &c);
  c.smem += loaded / kSmemRate;
  c.issue /= kSchedulers;
  return c;
}

static double tile_blocks(const Attending *a, const Tile *t) {
  return tile_count_of(a, t) * t->splits;
}

int attend_joined(const Tile *t) {
  int group = tile_part_group(t), groups = (int)ceil_div(t->splits, group);
  return group > groups ? group : groups;
}

int attend_rows(const Attending *a, const Tile *t) {
  return a->rows < t->m ? (int)a->rows : t->m;
}

// Floats that a split writes.
double attend_part_count(const Attending *a, const Tile *t) {
  if (!a->sums) return attend_rows(a, t) * (double)attend_staged(a);
  return (double)round_up((a->sums_rows ? 1 : t->m) * (a->sums_keys ? 1 : t->n), 4);
}

// Splits of the keys write rows to L2; the last block of each tile combines them (detecting it: a
// microsecond, assumed), waiting for L2 once per kAtOnce loads of a thread.
static double split_seconds(const Attending *a, const Tile *t, const Arch *arch) {
  const double kAtOnce = 12; // lib/attend_join.cuh
  double part = attend_part_count(a, t) * 4;
  if (t->splits == 1) return 0;
  int group = tile_part_group(t), groups = tile_part_counts(t) - 1;
  double turns = a->sums ? 0 : 1 + ceil(part / 16 / t->threads); // and once for the softmax states
  double waits = ceil(group / kAtOnce) + ceil(groups / kAtOnce);
  waits *= turns * kLoadClocks / (arch->clock * 1e9);
  double joined = (group + groups) * part / (arch->l2_rate / arch->sms);
  return (groups ? 2e-6 : 1e-6) + fmax(waits, joined) +
         2 * tile_blocks(a, t) * part / arch->l2_rate;
}

// Fraction of exp, issue and MMA time that does not overlap, by number of warp groups per SM;
// fitted to kernels on an H200 (tests/bench/NOTES.md). Groups of a block with a softmax wait for
// each other, unless other warps load for them.
static double group_share(const Attending *a, const Tile *t, double groups) {
  if (attend_loaders(a, t).threads) return 0.585 + 0.09 / groups;
  double waits = a->softmax ? 0.02 * (attend_warps(t) / kSchedulers - 1) : 0;
  double some = fmax(1, groups); // with less than one group nothing overlaps
  double others = attend_parts(a, t) > 1 ? 0.47 + 0.85 / some : 0.4 + 1.5 / some;
  return (waits + others) * some / groups;
}

// Time that never overlaps: clocks per tile of keys, and per job after the first until its MMAs
// start.
static double turn_clocks(const Attending *a, const Tile *t, double chain) {
  enum { kLoadedTurn = 60 };
  return attend_loaders(a, t).threads ? chain + kLoadedTurn : 0;
}
static double job_clocks(const Attending *a, const Tile *t) {
  enum { kLoadedJob = 3100, kJob = 1500, kElement = 25 };
  if (!a->softmax) return 0;
  return attend_loaders(a, t).threads ? kLoadedJob : (kJob + kElement * elements_of(a)) / t->blocks;
}

Cost attend_cost(const Attending *a, const Tile *t, const Group *g, const Arch *arch) {
  double clock = 1 / (arch->clock * 1e9), warps = attend_warps(t);
  double blocks = tile_blocks(a, t), on_sm = ceil(blocks / arch->sms);
  double keys = ceil(attend_steps(a, t) / t->splits) * attend_share(g, a, t);
  double rounds = ceil(on_sm / t->blocks), loaded = loaded_of(a, t);
  TileClocks c = clocks_of(a, t, arch);
  double all = c.exponentials + c.issue + c.math, groups = on_sm / rounds * warps / kSchedulers;
  double chain = (double)key_bytes(a) / kRowUnit * unit_of(t)->chain;
  double each = all * group_share(a, t, groups) + turn_clocks(a, t, chain);
  double later = fmax(0, on_sm - t->blocks) * job_clocks(a, t);
  double waits = t->unit->tensor_cores ? on_sm * keys * each + later : 0;
  double alone = (c.exponentials + c.issue + c.math) / warps * kSchedulers;
  double first = 0; // of all blocks of an SM, before the first product
  if (a->softmax) {
    first = on_sm * computed_issue(a, 0, t->m);
    first = fmax(first, rounds * computed_clocks(a, t, 0, t->m));
    c.issue += computed_issue(a, 1, t->n) + computed_issue(a, 2, t->n);
    chain += computed_clocks(a, t, 1, t->n) + computed_clocks(a, t, 2, t->n);
  }
  Cost cost = {.math = on_sm * keys * c.math * clock,
               .exp = on_sm * keys * c.exponentials * clock,
               .smem = on_sm * keys * c.smem * clock,
               .issue = on_sm * keys * c.issue * clock,
               .l2 = on_sm * keys * loaded / (arch->l2_rate / arch->sms),
               .dram = sched_dram_seconds(g, arch),
               .wait = fmax(waits, rounds * keys * (alone + chain)) * clock,
               .fill = (kLoadClocks * 2 + first) * clock,
               .split = split_seconds(a, t, arch),
               .gap = arch->launch_gap};
  double bounds[] = {cost.math, cost.exp, cost.smem, cost.issue, cost.l2, cost.dram, cost.wait};
  cost.seconds = cost_together(bounds, (int)LENGTH(bounds)) + cost.fill + cost.gap + cost.split;
  return cost;
}

bool attend_fits(const Attending *a, const Tile *t, int lanes) {
  enum { kTwoGroups = 256 };
  int along = attend_staged(a) / lanes; // threads that store a row, or a part of it at a time
  bool divides = t->splits == 1 || (attend_steps(a, t) >= (a->sums ? 1 : 2) * t->splits &&
                                    tile_blocks(a, t) * attend_part_count(a, t) <= INT32_MAX);
  const AttendUnit *unit = unit_of(t);
  int most = kMostSums - (a->nproducts - 1) * kSecondRegs - unit->unheld(a, t);
  int threads = attend_warps(t) * kWarp;
  Loaders loaders = attend_loaders(a, t);
  bool fits = loaders.threads ? loaders.spare >= 0 : unit->registers(a, t) <= most;
  // with three groups, scores have no more registers
  bool three = t->unit->in_flight && threads > kTwoGroups;
  if (a->softmax && three && !a->simple) return false;
  return fits && divides && (a->sums || threads % along == 0 || along % threads == 0);
}
