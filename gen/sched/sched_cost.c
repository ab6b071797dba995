// sched_cost.c: the cost of a contraction with a given tile, by a model of one SM.
//
// Five bounds of a launch: arithmetic, shared memory bandwidth, instruction issue, L2, DRAM; and,
// if few warps share an SM, the latency of dependent blocks of k, including their instructions (a
// warp issues one per kTurn clocks). The time is a little more than the largest bound, since they
// do not overlap perfectly. Only other blocks of the SM hide what a block does outside its loop.
// Parameters of the multiplying units: sched_units.c. Assumed: 800 clocks for a load under load, 40
// for a barrier, the instructions of gathered elements, and how many of the 155 to 256 before a
// loop are not its first copies. kTurn, kCopyIssue, kTapIssue, kOutputIssue, kRingClocks and the
// launch gap are fitted to ResNet-18 and the attention block on an H200 (tests/bench/NOTES.md).
#include "sched.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
  // instructions of a warp
  kSetupIssue = 130,  // before the loop: coordinates of the tile's rows and columns
  kLoopIssue = 28,    // per block of k: waits, stages, branches
  kCopyIssue = 5,     // per asynchronous copy (a 64-bit addition counts twice)
  kTapIssue = 4,      // per copy: looks up the filter tap and whether it is inside
  kOutputIssue = 9,   // per output in the epilogue: staged, read, converted, stored
  kKeptIssue = 1,     // per output of an epilogue in registers (counted in SASS)
  kScalarIssue = 3,   // more, per output that is stored singly (estimated)
  kExchangeIssue = 2, // per output exchanged with a neighbouring lane (by hand)
  kRowsIssue = 28,    // per word of 8 columns, reduced over the rows of a warp (by hand)
  kRunIssue = 6,      // per output added to a run of a column's moments (by hand)
  kStateIssue = 15,   // per output added to a row's statistics (SASS, minus an estimate)
  kJoinIssue = 30,    // per pair of accumulators combined (estimate)
  // clocks
  kJoinClocks = 40,   // combining four accumulators: a division and its dependents
  kRingClocks = 1100, // latency of a block of k, all SMs loading
  // registers of a thread
  kLoopRegisters = 38,   // besides accumulators, fragments and addresses
  kAcrossRegisters = 16, // per operand whose floats are read singly
  kWalkRegisters = 48,   // persistent: to store a tile while loading the next; 16 spilled
  // counts
  kAtOnce = 4,      // rows of outputs that an epilogue thread loads for (lib/epilogue.cuh)
  kSumsAtOnce = 16, // accumulators of blocks that the last block loads per column; 8 of 3 words
  kFewSums = 48,    // up to this many blocks combine in one stage, which is faster than two
  kManyParts = 12   // from this many splits of k on they are summed in two stages
};

static const double kTurn = 2.5;   // clocks between two instructions of a warp
static const double kTurnAcross = 4; // if both operands run across k; fitted to 16-bit wgrad

// ---- resources of a block ---------------------------------------------------------------------

int tile_tap_bytes(const Product *p) {
  int64_t block = kRowBytes / p->size;
  return p->tap_run ? (int)(round_up(p->longest, block) / p->tap_run) * kTapBytes : 0;
}

// Rows of a whose coordinates are tabulated: a multiple of the rows that all threads load at once.
static int table_rows(const Tile *t) {
  return (int)round_up(t->m, tile_threads(t) * 16 / kRowBytes);
}

int tile_staged(const Tile *t, const Product *p) {
  enum { kBehind = 4 }; // each column, if transposed (lib/tile.cuh)
  return (t->m + kBehind * p->transposed) * t->n;
}

// Shared memory of a block that processes one tile.
static int smem_of_one(const Tile *t, const Product *p) {
  int ring = t->stages * (t->m + t->n) * kRowBytes, out = tile_staged(t, p) * 4;
  int tables = p->tap_run ? tile_tap_bytes(p) + table_rows(t) * kTapBytes : 0;
  return (ring > out ? ring : out) + tables + kSmemLast;
}

int tile_threads(const Tile *t) {
  return t->m * t->n / (t->tm * t->tn) * kWarp;
}

double tile_warps(const Tile *t) {
  return tile_threads(t) / (double)kWarp;
}

// Copies per 16-byte chunk of an operand.
static int pieces(const Operand *o, int size) {
  return o->piece ? 16 / size / o->piece : 1;
}

// Address registers of an operand: `words` per row that a thread loads; 14 for copies below 16
// bytes; one per two rows for tf32 operands read across k.
static int64_t address_registers(const Operand *o, int size, int rows, int words, const Tile *t,
                                 int warp_rows) {
  int64_t loads = ceil_div(rows * kRowBytes / 16, tile_threads(t));
  int64_t in_pieces = pieces(o, size) > 1 ? 14 : 0;
  int64_t across = o->across && size == 4 ? warp_rows / 2 : 0;
  return loads * words + in_pieces + across;
}

bool tile_leaves(const Tile *t, const Product *p, int more) {
  if (!t->unit->fragments) return true;
  int64_t acc = t->tm * t->tn / kWarp, fragments = t->unit->fragments(t, p->size);
  int64_t addresses = address_registers(&p->a, p->size, t->m, 3, t, t->tm) +
                      address_registers(&p->b, p->size, t->n, 2, t, t->tn);
  return acc + fragments + addresses + more <= kMostRegisters;
}

int tile_column_words(const Group *g) {
  bool found = false;
  for (int i = 0; i < g->nnodes; i++) found = found || group_reduces_columns(g, g->nodes[i]);
  return found ? state_words(g) : 0;
}

// True if accumulators, fragments, addresses and kLoopRegisters exceed the limit. Empirical: with
// these 38 no tile tried spills, except for column accumulators of more than two words (16 more: a
// 112 x 128 tile did) and for TF32 with partial tiles (10 more).
bool tile_spills(const Tile *t, const Product *p, const Group *g) {
  enum { kFewWords = 2, kOfStates = 16, kOfLimits = 10 };
  bool limits = p->size == 4 && (p->m % t->m || p->n % t->n);
  return !tile_leaves(t, p, kLoopRegisters + (limits ? kOfLimits : 0) +
                              (tile_column_words(g) > kFewWords ? kOfStates : 0));
}

// Does the epilogue read tensors as large as the result?
static bool reads_more(const Group *g, const Product *p) {
  for (int i = 0; i < g->ninputs; i++) {
    const Node *x = g->inputs[i];
    bool operand = x == p->a.base || x == p->b.base;
    if (!operand && type_count(&x->type) >= p->batch * p->m * p->n) return true;
  }
  return false;
}

// The epilogue runs on accumulator registers unless the tile must pass through shared memory: for
// split-K, rotary pairs, or tensors read for column statistics, which need too many registers.
bool tile_keeps(const Tile *t, const Product *p, const Group *g) {
  bool keeps = t->unit->keeps && t->splits == 1 && !(p->pair && group_statistic(g));
  for (int i = 0; i < g->ntails; i++) keeps = keeps && !g->tails[i].twin;
  return keeps && !(tile_column_words(g) && (reads_more(g, p) || group_statistic(g)));
}

int tile_blocks_per_sm(const Tile *t, const Product *p, const Arch *arch) {
  int registers = t->unit->registers(t), most = kMostRegisters;
  if (t->unit->tensor_cores && p->size == 4) // floats across k are read singly
    registers += kAcrossRegisters * (p->a.across + p->b.across);
  // Registers are split between the schedulers and allocated by whole warps.
  int warps = arch->regs / kSchedulers / (kWarp * (registers < most ? registers : most));
  int by_regs = warps * kSchedulers / (tile_threads(t) / kWarp);
  int by_smem = arch->smem / (smem_of_one(t, p) + kSmemPerBlock);
  return by_regs < by_smem ? by_regs : by_smem;
}

double tile_count(const Tile *t, const Product *p) {
  return (double)(product_row_tiles(p, t->m) * ceil_div(p->n, t->n) * p->batch);
}

// Registers of a persistent thread. For few accumulators, if the epilogue reads no large tensor,
// three per four accumulators suffice: no epilogue tried spilled.
static int walk_registers(const Tile *t, const Product *p, const Group *g) {
  int more = kWalkRegisters, few = t->tm * t->tn / kWarp * 3 / 4;
  if (few < more && !reads_more(g, p)) more = few;
  return t->unit->registers(t) + more;
}

// Shared memory for the column accumulators of a block's warps, in bytes.
static int column_bytes(const Tile *t, const Group *g) {
  return tile_column_words(g) * tile_threads(t) / kWarp * t->n * 4;
}

// Persistent kernel: launch one wave and loop over tiles, prefetching the next tile during the
// epilogue. Requires copied operands, more tiles than resident blocks, and enough registers and
// shared memory. Column sums are accumulated over a block's tiles, which must have the same
// columns.
bool tile_walks(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  int per_sm = tile_blocks_per_sm(t, p, arch);
  bool alike = tile_keeps(t, p, g) && !group_statistic(g) && p->phases == 1,
       same = !tile_column_words(g) || (p->n <= t->n && p->batch == 1);
  int smem = smem_of_one(t, p) + column_bytes(t, g) + kSmemPerBlock;
  return alike && same && p->a.piece && p->b.piece &&
         tile_count(t, p) > (double)(arch->sms * per_sm) && smem * per_sm <= arch->smem &&
         walk_registers(t, p, g) * tile_threads(t) * per_sm <= arch->regs;
}

int tile_smem(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  return smem_of_one(t, p) + (tile_walks(t, p, g, arch) ? column_bytes(t, g) : 0);
}

int tile_meeting(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  if (!tile_column_words(g)) return 0;
  if (tile_walks(t, p, g, arch)) return arch->sms * tile_blocks_per_sm(t, p, arch);
  return (int)product_row_tiles(p, t->m);
}

int meeting_group(int blocks) {
  return blocks <= kFewSums ? blocks : (int)ceil(sqrt(blocks));
}

int meeting_groups(int blocks) {
  int group = meeting_group(blocks);
  return group < blocks ? (int)ceil_div(blocks, group) : 0;
}

int64_t tile_step(const Tile *t, const Product *p) {
  return t->unit->step / p->size;
}

// Blocks of k are whole, except the last, which is rounded up to steps.
double tile_multiplies(const Tile *t, const Product *p) {
  int64_t step = tile_step(t, p);
  return tile_count(t, p) * t->m * t->n * (double)round_up(p->k, step);
}

double tile_depth(const Tile *t, const Product *p) {
  int64_t row = kRowBytes / p->size, step = tile_step(t, p);
  int64_t longest = ceil_div(ceil_div(p->k, row), t->splits) * row;
  int64_t whole = round_up(p->k, step);
  return (double)(longest < whole ? longest : whole);
}

// ---- one block of k: clocks of an SM ------------------------------------------------------------

// Both operands are written once, and read by all warps that need them.
static double smem_clocks(const Tile *t) {
  return t->unit->smem(t) + (t->m + t->n) * kRowBytes / (double)kSmemRate;
}

// Instructions that load `rows` rows of an operand into shared memory.
static double load_issue(const Operand *o, bool taps, int rows, int size) {
  double chunks = rows * (double)kRowBytes / 16 / kWarp;
  if (!o->piece) return chunks * 16 / size * kGatherIssue;
  return chunks * pieces(o, size) * (kCopyIssue + (taps ? kTapIssue : 0));
}

static double issue_clocks(const Tile *t, const Product *p) {
  double loads =
      load_issue(&p->a, p->a.bounded, t->m, p->size) + load_issue(&p->b, false, t->n, p->size);
  return (tile_warps(t) * (t->unit->issue(t, p) + kLoopIssue) + loads) / kSchedulers;
}

// Clocks per instruction of every warp of a block that is alone on its SM.
static double turn_clocks(const Tile *t) {
  return fmax(tile_warps(t) / kSchedulers, kTurn);
}

// Latency of the instructions of one block of k.
static double chain_clocks(const Tile *t, const Product *p) {
  double turn = p->a.across && p->b.across && p->size == 2 ? kTurnAcross : kTurn;
  return issue_clocks(t, p) * kSchedulers / tile_warps(t) * turn;
}

// ---- the launch --------------------------------------------------------------------------------

// Time of overlapping parts: two equal ones cost a fifth more than one.
double cost_together(const double *bounds, int count) {
  double sum = 0, most = 0;
  for (int i = 0; i < count; i++) most = fmax(most, bounds[i]);
  for (int i = 0; i < count; i++) sum += pow(bounds[i] / most, 4);
  return most * pow(sum, 0.25);
}

const char *const cost_terms[CostNoted] = {
    [TermMath] = "math", [TermExp] = "exp",       [TermSmem] = "smem",       [TermIssue] = "issue",
    [TermL2] = "l2",     [TermDram] = "dram",     [TermWait] = "wait",       [TermFill] = "fill",
    [TermJoin] = "join", [TermLaunch] = "launch", [TermSectors] = "sectors",
};

void cost_note(Tile *t, const Cost *c) {
  static_assert(LENGTH(t->term) == CostNoted, "a place for each term");
  const double term[CostNoted] = {
      [TermMath] = c->math,   [TermExp] = c->exp,         [TermSmem] = c->smem,
      [TermIssue] = c->issue, [TermL2] = c->l2,           [TermDram] = c->dram,
      [TermWait] = c->wait,   [TermFill] = c->fill,       [TermJoin] = c->split,
      [TermLaunch] = c->gap,  [TermSectors] = c->sectors,
  };
  t->seconds = c->seconds;
  memcpy(t->term, term, sizeof t->term);
}

const char *cost_text(Arena *arena, const double *term) {
  const double least = 5e-9; // seconds
  bool done[CostTerms] = {false};
  const char *text = "";
  for (;;) {
    int most = -1;
    for (int i = 0; i < CostTerms; i++)
      if (!done[i] && term[i] >= least && (most < 0 || term[i] > term[most])) most = i;
    if (most < 0) break;
    done[most] = true;
    text = arena_printf(arena, "%s%s%s %.2f", text, *text ? ", " : "", cost_terms[most],
                        term[most] * 1e6);
  }
  if (term[TermSectors] < least) return text;
  return arena_printf(arena, "%s; of these, %s %.2f", text, cost_terms[TermSectors],
                      term[TermSectors] * 1e6);
}

int tile_part_group(const Tile *t) {
  return t->splits < kManyParts ? t->splits : (int)ceil(sqrt(t->splits));
}

int tile_part_counts(const Tile *t) {
  int groups = (int)ceil_div(t->splits, tile_part_group(t));
  return groups > 1 ? groups + 1 : 1;
}

// Split-K: partial sums are written, and read by one block per group and one per tile after all
// have arrived (a microsecond, assumed); in L2, beyond half of its size in DRAM.
static double split_seconds(const Tile *t, double blocks, const Arch *arch) {
  if (t->splits == 1) return 0;
  int group = tile_part_group(t), groups = tile_part_counts(t) - 1;
  double tile = t->m * t->n * 4., sums = blocks * tile * (1 + groups / (double)t->splits),
         spilled = fmax(0, sums - (double)arch->l2 / 2);
  return (groups ? 2e-6 : 1e-6) + (group + groups) * tile / (arch->l2_rate / arch->sms) +
         2 * sums / arch->l2_rate + 2 * spilled / arch->dram;
}

// Groups of columns reduced together (group norm): combined serially by the last block.
static double together_clocks(const Tile *t, const Product *p, const Group *g) {
  int64_t together;
  group_dims_kept(g, NULL, &together);
  if (together == 1) return 0;
  double lanes = 1, groups = (double)p->n / (double)together; // as lanes_of_group
  while (2 * lanes <= kWarp && 2 * lanes * groups <= tile_threads(t) && 2 * lanes <= together)
    lanes *= 2;
  double own = ceil((double)together / lanes), turns = ceil(groups * lanes / tile_threads(t));
  return (p->n > t->n ? kLastBlock : 0) +
         turns * (ceil(own / 4) * kLoadClocks + (own + log2(lanes)) * kJoinClocks);
}

// The last blocks to arrive load the column accumulators of their group, then of all groups.
static double meeting_clocks(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  int blocks = tile_meeting(t, p, g, arch), groups = meeting_groups(blocks);
  if (!blocks) return 0;
  int64_t loads = ceil_div(meeting_group(blocks), kSumsAtOnce) + ceil_div(groups, kSumsAtOnce);
  return (groups ? 2 : 1) * kLastBlock + (double)loads * kLoadClocks + together_clocks(t, p, g);
}

// Latency of loading one block of k: through the ring, or row by row for computed elements.
static double load_clocks(const Tile *t, const Product *p) {
  int at_once = tile_threads(t) * 16 / kRowBytes;
  double rows = (p->a.piece ? 0 : ceil(t->m / (double)at_once)) +
                (p->b.piece ? 0 : ceil(t->n / (double)at_once));
  return kRingClocks / (double)(t->stages - 1 - t->unit->in_flight) + kLoadClocks * rows;
}

// Row statistics: instructions of a block for its tile, and clocks of the last block of these rows
// for combining all tiles.
static double state_issue(const Tile *t, const Product *p, const Group *g) {
  const double vector = 4; // least columns of a thread
  if (!group_statistic(g)) return 0;
  double joined = tile_keeps(t, p, g) ? 4 * 2 : t->n / vector; // over four lanes, or over threads
  return t->m * (t->n * kStateIssue + joined * kJoinIssue);
}
static double state_clocks(const Tile *t, const Product *p, const Group *g) {
  double tiles = (double)ceil_div(p->n, t->n);
  if (!group_statistic(g)) return 0;
  double of_tile = tile_keeps(t, p, g) ? 0 : t->n / 4. * kJoinClocks,
         of_all = tiles > 1 ? kLastBlock + kLoadClocks + tiles * kJoinClocks : 0;
  return of_tile + of_all;
}

// Operations of the epilogue's maps.
static double output_flops(const Group *g, double outputs) {
  double flops = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool map = n->op->cls == OpMap && (double)type_count(&n->type) >= outputs;
    flops += map ? n->op->flops : 0;
  }
  return flops;
}

// Operations that accumulate an output into its column, beyond one per word.
static double column_flops(const Group *g) {
  double flops = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (!group_reduces_columns(g, g->nodes[i])) continue;
    const Op *op = g->nodes[i]->op;
    double one = op->acc->part[0].run ? kRunIssue : op->flops - 1;
    if (one > flops) flops = one; // accumulators of one value are shared
  }
  return flops;
}

// From the last block of k to the end: the epilogue's operations and stores and, unless outputs
// stay in registers, staging through shared memory.
static double finish_clocks(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  bool keeps = tile_keeps(t, p, g);
  double outputs = t->m * (double)t->n, all = (double)(p->batch * p->m * p->n), lanes = 8;
  double words = tile_column_words(g);
  double kept = kKeptIssue + (p->b.across ? kExchangeIssue : 0) +
                words * kRowsIssue / t->tm; // a lane has tm / 8 rows of a column
  double of_one = (keeps ? kept : kOutputIssue) + p->transposed * kScalarIssue +
                  output_flops(g, all) + column_flops(g);
  double issue = outputs * of_one + state_issue(t, p, g);
  double reads = reads_more(g, p) ? ceil(outputs / (tile_threads(t) * lanes * kAtOnce)) : 0;
  double written = (double)g->bytes_written * fmin(1, outputs / all);
  return issue / kWarp / tile_warps(t) * turn_clocks(t) +
         (keeps ? 0 : 2 * outputs * 4 / kSmemRate) + reads * kLoadClocks +
         written / (arch->l2_rate / arch->sms) * arch->clock * 1e9;
}

double tile_setup_clocks(const Tile *t) {
  return kSetupIssue * turn_clocks(t);
}

Cost tile_cost(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  Cost c = {.per_sm = tile_blocks_per_sm(t, p, arch), .gap = arch->launch_gap};
  if (!c.per_sm) return (Cost){.seconds = INFINITY};
  double blocks = tile_count(t, p) * t->splits, clock = 1 / (arch->clock * 1e9);
  double on_sm = ceil(blocks / arch->sms), rounds = ceil(on_sm / c.per_sm);
  double row = kRowBytes / (double)p->size, depth = tile_depth(t, p) / row; // blocks of k
  double math = 2 * t->m * t->n * row / (t->unit->rate(arch, p->size) / arch->sms * clock);
  c.waves = ceil(blocks / ((double)arch->sms * c.per_sm));
  c.math = on_sm * depth * math * clock;
  c.smem = on_sm * depth * smem_clocks(t) * clock;
  c.issue = on_sm * depth * issue_clocks(t, p) * clock;
  c.l2 = on_sm * depth * (t->m + t->n) * kRowBytes / (arch->l2_rate / arch->sms);
  c.dram = sched_dram_seconds(g, arch);
  double turn[] = {t->unit->serial(t, math), load_clocks(t, p), chain_clocks(t, p)};
  c.wait = rounds * ceil(depth) * cost_together(turn, 3) * clock;
  // The first block sets up, fills its ring and finishes without overlap; later ones overlap with
  // other blocks of the SM. A persistent block fills its ring while it multiplies.
  double begin = tile_setup_clocks(t) + kLoadClocks, end = finish_clocks(t, p, g, arch),
         later = tile_walks(t, p, g, arch) ? end : begin + end;
  c.fill = (begin + end + later * (rounds - 1) / c.per_sm) * clock;
  c.split = split_seconds(t, blocks, arch) + state_clocks(t, p, g) * clock +
            meeting_clocks(t, p, g, arch) * clock;
  // Without tensor cores, the multiplications are themselves issued instructions.
  double math_bound = t->unit->tensor_cores ? c.math : fmax(c.math, c.issue),
         issue_bound = t->unit->tensor_cores ? c.issue : 0;
  c.seconds = cost_together((double[]){math_bound, issue_bound, c.smem, c.l2, c.dram, c.wait}, 6) +
              c.fill + c.split + c.gap;
  return c;
}
