// sched_units.c: the units that multiply tiles: fp32 FMA, mma.sync, wgmma. A unit's record, at the
// end of its section, holds all its properties: where it is legal, tile shapes to try, registers,
// and the clocks and instructions of a block of k. To add a unit: a section, a pointer in the last
// line, and templates/lib/NAME.cuh.
//
// Registers are fitted to ptxas; instructions are counted in SASS for sm_90a. Microbenchmarks:
// latency of mma 33 clocks, of ldmatrix 30 (A100, arXiv 2206.02874); mma.sync reaches 62 % of
// Hopper's tensor peak, which is wgmma's (arXiv 2402.13499).
#include "sched.h"

#include <math.h>

// Fragments of a step of k per warp: mmas, or outputs per lane.
typedef struct Parts {
  double rows, columns;
} Parts;

static int sums_of(const Tile *t) { // accumulators per thread
  return t->tm * t->tn / kWarp;
}

static int steps_of(const Tile *t) { // steps per block of k
  return kRowBytes / t->unit->step;
}

// Loads per float of an operand: four if floats across k are read singly.
static double reads_of(const Operand *o, const Product *p) {
  return p->size == 4 && o->across ? 4 : 1;
}

// Clocks of one step on the units of one scheduler.
static double step_clocks(const Tile *t, double math_clocks) {
  return math_clocks / tile_warps(t) * kSchedulers / steps_of(t);
}

// ---- fma: the fp32 units ------------------------------------------------------------------------

static const Cut fma_cuts[] = {
    {128, 128, 32, 64}, {128, 64, 32, 64}, {64, 128, 32, 64}, {64, 64, 32, 32},
    {64, 32, 16, 32},   {32, 64, 16, 32},  {32, 32, 16, 16},  {64, 16, 16, 16},
};

static bool fma_legal(const Node *n, const Product *p, const Arch *arch) {
  (void)p, (void)arch;
  return n->precision == PrecFp32;
}

static double fma_rate(const Arch *arch, int size) {
  (void)size;
  return arch->fp32;
}

static int fma_registers(const Tile *t) {
  return sums_of(t) + 2 * t->tm + t->tn + 56;
}

static Parts fma_parts(const Tile *t) { // a warp is 4 x 8 lanes
  return (Parts){t->tm / 4., t->tn / 8.};
}

// A lane reads 16 bytes in four cycles, or four single floats if they run across k.
static double fma_smem(const Tile *t) {
  Parts s = fma_parts(t);
  return tile_warps(t) * steps_of(t) * 4 * (s.rows + s.columns);
}

static double fma_issue(const Tile *t, const Product *p) {
  Parts s = fma_parts(t);
  double reads = s.rows * reads_of(&p->a, p) + s.columns * reads_of(&p->b, p);
  return steps_of(t) * (reads + s.rows * s.columns * 4);
}

// Barrier, first operands, then steps one after the other: operands, multiply-adds.
static double fma_serial(const Tile *t, double math_clocks) {
  double chain = kReadClocks + step_clocks(t, math_clocks);
  return kBarrierClocks + kReadClocks + steps_of(t) * chain;
}

const Unit unit_fma = {.name = "fma",
                       .prefix = "Fma",
                       .step = 16,
                       .cuts = fma_cuts,
                       .ncuts = LENGTH(fma_cuts),
                       .legal = fma_legal,
                       .rate = fma_rate,
                       .registers = fma_registers,
                       .smem = fma_smem,
                       .issue = fma_issue,
                       .serial = fma_serial};

// ---- mma: a warp on tensor cores ----------------------------------------------------------------

static const Cut mma_cuts[] = {
    {256, 128, 64, 64},
    {128, 128, 64, 64},
    {256, 64, 64, 64},
    {128, 128, 64, 32},
    {256, 64, 64, 32},
    {128, 64, 64, 32},
    {64, 128, 32, 64},
    {64, 64, 32, 32},
    {256, 32, 64, 32},
    {128, 32, 32, 32},
    {64, 32, 32, 16},
    {32, 64, 16, 32},
    {32, 32, 16, 16},
    {16, 64, 16, 16},
    {128, 16, 32, 16},
    // Swapped layout (lib/mma.cuh): images of 7 x 7, 14 x 14 or 28 x 28 fill tiles of 56 rows well.
    {112, 128, 56, 64},
    {112, 128, 56, 32},
    {112, 64, 56, 32},
    {56, 128, 56, 32},
    {56, 64, 56, 16},
    {56, 32, 56, 16},
    {8, 64, 8, 16},
};

static bool mma_legal(const Node *n, const Product *p, const Arch *arch) {
  (void)p, (void)arch;
  return n->precision != PrecFp32;
}

static double mma_rate(const Arch *arch, int size) {
  return (size == 4 ? arch->tf32 : arch->tensor16) * arch->mma_share;
}

static int mma_registers(const Tile *t) { // twice the accumulators and some
  return 64 + 2 * sums_of(t);
}

// TF32: two copies, because operands are rounded
static int mma_fragments(const Tile *t, int size) {
  return (t->tm + t->tn) / 4 * size / 2;
}

static Parts mma_parts(const Tile *t) {
  bool swapped = t->tm % 16 != 0; // the 16 outputs of an mma run along n
  return (Parts){(swapped ? t->tn : t->tm) / 16., (swapped ? t->tm : t->tn) / 8.};
}

static double mma_smem(const Tile *t) { // by ldmatrix, at full bandwidth
  return tile_warps(t) * (t->tm + t->tn) * kRowBytes / kSmemRate;
}

static double mma_issue(const Tile *t, const Product *p) {
  Parts s = mma_parts(t);
  double reads = s.rows * reads_of(&p->a, p) + ceil(s.columns / 2) * reads_of(&p->b, p);
  double rounds = p->size == 4 ? 4 * s.rows + 2 * s.columns : 0; // rounding to TF32
  return steps_of(t) * (reads + s.rows * s.columns + rounds);
}

// Barrier, first operands, then the mmas of each step, which depend on those before.
static double mma_serial(const Tile *t, double math_clocks) {
  double chain = fmax(kMmaClocks, step_clocks(t, math_clocks));
  return kBarrierClocks + kReadClocks + steps_of(t) * chain;
}

const Unit unit_mma = {.name = "mma",
                       .prefix = "Mma",
                       .tensor_cores = true,
                       .step = kMmaStep,
                       .cuts = mma_cuts,
                       .ncuts = LENGTH(mma_cuts),
                       .legal = mma_legal,
                       .rate = mma_rate,
                       .registers = mma_registers,
                       .fragments = mma_fragments,
                       .smem = mma_smem,
                       .issue = mma_issue,
                       .serial = mma_serial};

// ---- wgmma: four warps on tensor cores, which read shared memory --------------------------------

enum {
  kGroupRows = 64, // of one wgmma: 16 per warp
  kWarpRows = 16,
  kGroupIssue = 6 // two descriptors, the instruction
};

// A warp's tile is as wide as the block's.
static const Cut wgmma_cuts[] = {
    {128, 256, 16, 256}, {128, 192, 16, 192}, {256, 128, 32, 128}, {128, 128, 32, 128},
    {128, 128, 16, 128}, {256, 64, 32, 64},   {128, 64, 32, 64},
    {128, 64, 16, 64},   {64, 128, 16, 128},  {64, 64, 16, 64},
};

// If a phase has an empty k, ptxas serialises the wgmmas of a group. Only 16-bit tiles can be
// transposed.
static bool wgmma_legal(const Node *n, const Product *p, const Arch *arch) {
  for (int i = 0; i < p->phases; i++)
    if (!maps_count(&p->maps[i], AxisK)) return false;
  bool along = p->size == 2 || !(p->a.across || p->b.across);
  return arch->wgmma && n->precision != PrecFp32 && along;
}

static double wgmma_rate(const Arch *arch, int size) {
  return size == 4 ? arch->tf32 : arch->tensor16;
}

static int wgmma_registers(const Tile *t) {
  return 64 + sums_of(t);
}

static int wgmma_fragments(const Tile *t, int size) { // operands stay in shared memory
  (void)t, (void)size;
  return 0;
}

static double wgmma_smem(const Tile *t) { // per 64 rows those of a, and all of b
  return t->m / (double)kGroupRows * (kGroupRows + t->tn) * kRowBytes / kSmemRate;
}

static double wgmma_issue(const Tile *t, const Product *p) {
  (void)p;
  return steps_of(t) * (t->tm / (double)kWarpRows * kGroupIssue);
}

// The wgmmas of a group follow without a gap, also across blocks of k.
static double wgmma_serial(const Tile *t, double math_clocks) {
  return kBarrierClocks + math_clocks * kGroupRows / t->m * t->tm / kWarpRows;
}

const Unit unit_wgmma = {.name = "wgmma",
                         .prefix = "Wgmma",
                         .tensor_cores = true,
                         .truncates = true,
                         .keeps = true,
                         .step = kMmaStep,
                         .in_flight = 1,
                         .cuts = wgmma_cuts,
                         .ncuts = LENGTH(wgmma_cuts),
                         .legal = wgmma_legal,
                         .rate = wgmma_rate,
                         .registers = wgmma_registers,
                         .fragments = wgmma_fragments,
                         .smem = wgmma_smem,
                         .issue = wgmma_issue,
                         .serial = wgmma_serial};

// ---- all of them --------------------------------------------------------------------------------

const Unit *const sched_units[] = {&unit_fma, &unit_mma, &unit_wgmma, NULL};

bool unit_truncates(const Group *g) {
  return g->tile.unit && g->tile.unit->truncates && g->anchor->precision == PrecTf32;
}
