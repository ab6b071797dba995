// sched_cost.c: what a contraction would cost if it were cut in a given way, by a model of one SM.
//
// Five things bound a launch: arithmetic, the port of shared memory, the issue of instructions, L2,
// DRAM; and, where too few warps share an SM, the latency of one block of k after the other. The
// time is a little more than the largest of them, since they do not overlap perfectly. Nothing here
// has been fitted; figures are of data sheets and of published microbenchmarks:
//
//   shared memory    128 bytes per clock and SM, one instruction per clock and scheduler of four
//   mma              33 clocks from operands to sums, ldmatrix 30 (A100, arXiv 2206.02874)
//   mma.sync         reaches 62 % of Hopper's tensor peak, which is wgmma's (arXiv 2402.13499)
//   a load           800 clocks from L2 or DRAM under load, an assumption
#include "sched.h"

#include <math.h>

enum {
  kSmemPerBlock = 1024, // what a block costs besides
  kMostThreads = 2048,  // on an SM
  kMostRegisters = 255, // of a thread
  kSpareRegisters = 38,
  kSchedulers = 4,
  kSmemRate = 128,   // bytes per clock
  kLoadClocks = 800, // until a load has landed
  kMmaClocks = 33,
  kReadClocks = 30,    // of shared memory
  kBarrierClocks = 40, // one wait for the ring and for the block
  kCopyIssue = 4,      // instructions of one asynchronous copy,
  kTapIssue = 2,       // and to tell whether its tap is inside
  kGatherIssue = 15,   // of an element that is computed
  kOutputIssue = 6     // of one output in the epilogue
};

// ---- what a block needs
// --------------------------------------------------------------------------

int tile_smem(const Tile *t) {
  int ring = t->stages * (t->m + t->n) * kRowBytes, out = t->m * t->n * 4;
  return (ring > out ? ring : out) + kSmemLast;
}

int tile_threads(const Tile *t) {
  return t->m * t->n / (t->tm * t->tn) * kWarp;
}

// Registers that ptxas takes for a thread of these kernels: the sums, and what waits for them.
static int tile_registers(const Tile *t) {
  int acc = t->tm * t->tn / kWarp;
  int mma = 64 + 2 * acc;
  if (t->mma) return mma < kMostRegisters ? mma : kMostRegisters;
  return acc + 2 * t->tm + t->tn + 56;
}

// The sums, one step's fragments (twice for TF32, which are rounded), where each row that a thread
// loads begins (a's with its taps, for every piece of a chunk), and some to compute with.
bool tile_spills(const Tile *t, const Product *p) {
  if (!t->mma) return false;
  int chunks = kRowBytes / 16, threads = tile_threads(t), pack = 16 / p->size;
  int acc = t->tm * t->tn / kWarp, fragments = (t->tm + t->tn) / 4 * p->size / 2;
  int pieces_a = p->a.piece ? pack / p->a.piece : 1, pieces_b = p->b.piece ? pack / p->b.piece : 1;
  int addresses = (2 * t->m * pieces_a + t->n * pieces_b) * chunks / threads;
  return acc + fragments + addresses + kSpareRegisters > kMostRegisters;
}

int tile_blocks_per_sm(const Tile *t, const Arch *arch) {
  int by_threads = kMostThreads / tile_threads(t);
  int by_regs = arch->regs / (tile_threads(t) * tile_registers(t));
  int by_smem = arch->smem / (tile_smem(t) + kSmemPerBlock);
  int least = by_threads < by_regs ? by_threads : by_regs;
  return least < by_smem ? least : by_smem;
}

double tile_count(const Tile *t, const Product *p) {
  return (double)(sched_ceil_div(p->m, t->m) * sched_ceil_div(p->n, t->n) * p->batch);
}

int64_t tile_step(const Tile *t, const Product *p) {
  return (t->mma ? kMmaStep : kFmaStep) / p->size;
}

double tile_depth(const Tile *t, const Product *p) {
  int64_t row = kRowBytes / p->size, step = tile_step(t, p);
  int64_t longest = sched_ceil_div(sched_ceil_div(p->k, row), t->splits) * row;
  int64_t whole = sched_ceil_div(p->k, step) * step;
  return (double)(longest < whole ? longest : whole);
}

// ---- one block of k: clocks of an SM, or of one warp
// ----------------------------------------------

// Rows and columns of mmas, or of a lane's outputs, that one step of k of a warp has.
typedef struct Steps {
  int count; // in a block of k
  double rows, columns;
} Steps;

static Steps steps_of(const Tile *t) {
  if (!t->mma) return (Steps){kRowBytes / kFmaStep, t->tm / 4., t->tn / 8.};
  bool turned = t->tm % 16 != 0; // 16 outputs of an mma lie along n
  return (Steps){kRowBytes / kMmaStep, (turned ? t->tn : t->tm) / 16.,
                 (turned ? t->tm : t->tn) / 8.};
}

static double warps_of(const Tile *t) {
  return tile_threads(t) / (double)kWarp;
}

// Both operands are written once and read by every warp that needs them. Without tensor cores a
// warp reads 16 bytes of 4 rows of a, which is one access, and of 8 of b, each lane's own: four.
static double smem_clocks(const Tile *t) {
  Steps s = steps_of(t);
  double reads =
      t->mma ? (t->tm + t->tn) * kRowBytes / (double)kSmemRate : s.count * (s.rows + 4 * s.columns);
  return warps_of(t) * reads + (t->m + t->n) * kRowBytes / (double)kSmemRate;
}

// Instructions that bring `rows` rows of an operand to shared memory.
static double load_issue(const Operand *o, bool taps, int rows, int size) {
  if (!o->piece) return rows * (double)(kRowBytes / size) * kGatherIssue / kWarp;
  return rows * (double)(kRowBytes / (o->piece * size)) * (kCopyIssue + (taps ? kTapIssue : 0)) /
         kWarp;
}

static double issue_clocks(const Tile *t, const Product *p) {
  Steps s = steps_of(t);
  double reads = t->mma ? s.rows + s.columns / 2 : s.rows + s.columns;
  double math = s.rows * s.columns * (t->mma ? 1 : 4);
  double rounds = t->mma && p->size == 4 ? 4 * s.rows + 2 * s.columns : 0; // to TF32
  double loads =
      load_issue(&p->a, p->taps, t->m, p->size) + load_issue(&p->b, false, t->n, p->size);
  return (warps_of(t) * s.count * (reads + math + rounds) + loads) / kSchedulers;
}

// One warp alone, a step after the other: the barrier, the first operands, then the sums, each of
// which waits for the step before.
static double serial_clocks(const Tile *t, double math_clocks) {
  Steps s = steps_of(t);
  double alone = math_clocks / warps_of(t) * kSchedulers / s.count; // on one scheduler's units
  double chain = t->mma ? fmax(kMmaClocks, alone) : kReadClocks + alone;
  return kBarrierClocks + kReadClocks + s.count * chain;
}

// ---- the launch
// ----------------------------------------------------------------------------------

// Bounds overlap, but not quite: two equal ones cost a fifth more than one.
static double together(const double *bounds, int count) {
  double sum = 0, most = 0;
  for (int i = 0; i < count; i++) most = fmax(most, bounds[i]);
  for (int i = 0; i < count; i++) sum += pow(bounds[i] / most, 4);
  return most * pow(sum, 0.25);
}

// Parts of k are written to L2 and read by one block of each tile, once all have arrived (a
// microsecond, assumed).
static double split_seconds(const Tile *t, double blocks, const Arch *arch) {
  if (t->splits == 1) return 0;
  double tile = t->m * t->n * 4.;
  return 1e-6 + t->splits * tile / (arch->l2_rate / arch->sms) + 2 * blocks * tile / arch->l2_rate;
}

Cost tile_cost(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  Cost c = {.per_sm = tile_blocks_per_sm(t, arch), .gap = arch->launch_gap};
  if (!c.per_sm) return (Cost){.seconds = INFINITY};
  double blocks = tile_count(t, p) * t->splits, clock = 1 / (arch->clock * 1e9);
  double on_sm = ceil(blocks / arch->sms), rounds = ceil(on_sm / c.per_sm);
  double row = kRowBytes / (double)p->size, depth = tile_depth(t, p) / row; // blocks of k
  double rate = sched_flop_rate(g, arch) * (t->mma ? arch->mma_share : 1);
  double math = 2 * t->m * t->n * row / (rate / arch->sms * clock);
  double outputs = t->m * (double)t->n;
  c.waves = ceil(blocks / ((double)arch->sms * c.per_sm));
  c.math = on_sm * depth * math * clock;
  c.smem = on_sm * (depth * smem_clocks(t) + 2 * outputs * 4 / kSmemRate) * clock;
  c.issue =
      on_sm * clock * (depth * issue_clocks(t, p) + outputs * kOutputIssue / kWarp / kSchedulers);
  c.l2 = on_sm * depth * (t->m + t->n) * kRowBytes / (arch->l2_rate / arch->sms);
  c.dram = sched_dram_seconds(g, arch);
  double turn[] = {serial_clocks(t, math), kLoadClocks / (double)(t->stages - 1)};
  c.wait = rounds * ceil(depth) * together(turn, 2) * clock;
  // The ring fills once; later blocks fill it while others of their SM multiply.
  c.fill = kLoadClocks * (1 + (rounds - 1) / c.per_sm) * clock;
  c.split = split_seconds(t, blocks, arch);
  c.seconds = together((double[]){c.math, c.smem, c.issue, c.l2, c.dram, c.wait}, 6) + c.fill +
              c.split + c.gap;
  return c;
}
