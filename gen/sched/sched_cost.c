// sched_cost.c: what a contraction would cost if it were cut in a given way, by a model of one SM.
//
// Five things bound a launch: arithmetic, the port of shared memory, the issue of instructions, L2,
// DRAM; and, where too few warps share an SM, the latency of one block of k after the other, of
// which its instructions are a part: a warp issues one in kTurn clocks. The time is a little more
// than the largest of them, since they do not overlap perfectly. What a block does before and after
// its loop only other blocks of its SM can hide. What depends on the unit that multiplies is in its
// record (sched_units.c). Assumed are 800 clocks for a load under load, 40 for a barrier, the
// instructions of an element that is gathered, and how many of the 155 to 256 before a loop are not
// its first copies. kTurn, kCopyIssue, kTapIssue, kOutputIssue, kRingClocks and the launch gap
// follow what kernels of ResNet-18 and the attention block took on an H200 (tests/bench/NOTES.md).
#include "sched.h"

#include <math.h>
#include <string.h>

enum {
  kSetupIssue = 130, // instructions of a warp before its loop: where its rows and columns lie,
  kLoopIssue = 28,   // for each block of k: waits, stages, branches,
  kCopyIssue = 5,    // of one asynchronous copy (a 64-bit addition takes two turns),
  kTapIssue = 4,     // and to find its tap and whether that is inside
  kOutputIssue = 9,  // of one output in the epilogue: staged, read, converted, stored
  kKeptIssue = 1,    // of one that its lane keeps: counted in SASS,
  kExchangeIssue = 2, // and to exchange it with a neighbour's: by hand
  kRowsIssue = 28,   // of a word of 8 columns, over the rows of a warp: by hand
  kRunIssue = 6,     // of an output that joins a run of a column's moments: by hand
  kStateIssue = 15,  // of one that a row's statistics take in: SASS, less an estimate of the rest
  kJoinIssue = 30,   // of two states joined: an estimate
  kJoinClocks = 40,  // four at once: a division and what depends on it
  kRingClocks = 1100, // until a block of k has landed in the ring, all SMs loading
  kLoopRegisters = 38, // of a thread, besides sums, fragments and addresses
  kAtOnce = 4,       // rows of outputs that a thread of the epilogue reads for (lib/epilogue.cuh)
  kSumsAtOnce = 16,  // blocks' states that the last one loads for a column: 8 of three words
  kFewSums = 48,     // of blocks, to be loaded at once: less than to meet again takes
  kManyParts = 12,   // of k: their sums are added in groups
  kAcrossRegisters = 16, // of an operand whose floats are read singly
  kWalkRegisters = 48    // to write a tile while the next one is loaded: with 16, some spilled
};

static const double kTurn = 2.5,   // clocks between two instructions of a warp
    kTurnAcross = 4; // where both operands lie across k: fitted to filter gradients in 16 bits

// ---- what a block needs -------------------------------------------------------------------------

int tile_tap_bytes(const Product *p) {
  int64_t block = kRowBytes / p->size;
  return p->tap_run ? (int)(round_up(p->longest, block) / p->tap_run) * kTapBytes : 0;
}

// Rows of a whose places stand in a table: as many as threads load at once, several times.
static int table_rows(const Tile *t) {
  return (int)round_up(t->m, tile_threads(t) * 16 / kRowBytes);
}

// Of a block for one tile.
static int smem_of_one(const Tile *t, const Product *p) {
  int ring = t->stages * (t->m + t->n) * kRowBytes, out = t->m * t->n * 4;
  int tables = p->tap_run ? tile_tap_bytes(p) + table_rows(t) * kTapBytes : 0;
  return (ring > out ? ring : out) + tables + kSmemLast;
}

int tile_threads(const Tile *t) {
  return t->m * t->n / (t->tm * t->tn) * kWarp;
}

double tile_warps(const Tile *t) {
  return tile_threads(t) / (double)kWarp;
}

// How many copies fill a chunk of an operand.
static int pieces(const Operand *o, int size) {
  return o->piece ? 16 / size / o->piece : 1;
}

// Registers that an operand of `rows` rows needs: `words` for each row that a thread loads, some
// where chunks come in pieces, and where each float is that is read across k.
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

// Would the sums, one step's fragments, the addresses (pointers, with a's the taps that miss the
// image) and 38 more to compute with not fit? With 38, none of the tiles tried spills; where states
// of columns have more than two words, with 16 more: without, a tile of 112 x 128 did; in TF32 it
// does, too, where rows or columns are no whole tiles.
bool tile_spills(const Tile *t, const Product *p, const Group *g) {
  enum { kFewWords = 2, kOfStates = 16, kOfLimits = 10 };
  bool limits = p->size == 4 && (p->m % t->m || p->n % t->n);
  return !tile_leaves(t, p, kLoopRegisters + (limits ? kOfLimits : 0) +
                              (tile_column_words(g) > kFewWords ? kOfStates : 0));
}

// Does the epilogue read tensors as large as the product?
static bool reads_more(const Group *g, const Product *p) {
  for (int i = 0; i < g->ninputs; i++) {
    const Node *x = g->inputs[i];
    bool operand = x == p->a.base || x == p->b.base;
    if (!operand && type_count(&x->type) >= p->batch * p->m * p->n) return true;
  }
  return false;
}

// The epilogue takes outputs from the registers that have them, where nothing else wants the tile:
// no other parts of k, no twin; nor tensors to be read for states of columns, which would take more
// registers than there are.
bool tile_keeps(const Tile *t, const Product *p, const Group *g) {
  bool keeps = t->unit->keeps && t->splits == 1 && !(p->pair && group_statistic(g));
  for (int i = 0; i < g->ntails; i++) keeps = keeps && !g->tails[i].twin;
  return keeps && !(tile_column_words(g) && (reads_more(g, p) || group_statistic(g)));
}

int tile_blocks_per_sm(const Tile *t, const Product *p, const Arch *arch) {
  int registers = t->unit->registers(t), most = kMostRegisters;
  if (t->unit->tensor_cores && p->size == 4) // floats across k are read singly
    registers += kAcrossRegisters * (p->a.across + p->b.across);
  // Each scheduler has its part of the registers, for whole warps.
  int warps = arch->regs / kSchedulers / (kWarp * (registers < most ? registers : most));
  int by_regs = warps * kSchedulers / (tile_threads(t) / kWarp);
  int by_smem = arch->smem / (smem_of_one(t, p) + kSmemPerBlock);
  return by_regs < by_smem ? by_regs : by_smem;
}

double tile_count(const Tile *t, const Product *p) {
  return (double)(product_row_tiles(p, t->m) * ceil_div(p->n, t->n) * p->batch);
}

// Registers of a thread of a block that walks. Of few sums, as long as nothing is read beside them,
// three for four are enough: none of the epilogues tried spilled.
static int walk_registers(const Tile *t, const Product *p, const Group *g) {
  int more = kWalkRegisters, few = t->tm * t->tn / kWarp * 3 / 4;
  if (few < more && !reads_more(g, p)) more = few;
  return t->unit->registers(t) + more;
}

// The states of columns that the warps of a block have, of all its tiles: bytes of shared memory.
static int column_bytes(const Tile *t, const Group *g) {
  return tile_column_words(g) * tile_threads(t) / kWarp * t->n * 4;
}

// Blocks that find no room at first would begin where others end. Where operands are copied and
// tiles alike, as many as have room take tile after tile, and load for the next while they write
// one: if there are registers for both. Sums of columns are then those of a block's tiles, if these
// have the same columns, and there is shared memory for them beside the ring.
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

// Blocks of k are whole but the last, which is multiplied in steps.
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

// Both operands are written once and read by all that need them.
static double smem_clocks(const Tile *t) {
  return t->unit->smem(t) + (t->m + t->n) * kRowBytes / (double)kSmemRate;
}

// Instructions that bring `rows` rows of an operand to shared memory.
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

// Clocks for each instruction of every warp of a block, alone on its SM.
static double turn_clocks(const Tile *t) {
  return fmax(tile_warps(t) / kSchedulers, kTurn);
}

// The instructions of one block of k, one after the other.
static double chain_clocks(const Tile *t, const Product *p) {
  double turn = p->a.across && p->b.across && p->size == 2 ? kTurnAcross : kTurn;
  return issue_clocks(t, p) * kSchedulers / tile_warps(t) * turn;
}

// ---- the launch --------------------------------------------------------------------------------

// The time of parts that overlap, but not quite: two equal ones cost a fifth more than one.
double cost_together(const double *bounds, int count) {
  double sum = 0, most = 0;
  for (int i = 0; i < count; i++) most = fmax(most, bounds[i]);
  for (int i = 0; i < count; i++) sum += pow(bounds[i] / most, 4);
  return most * pow(sum, 0.25);
}

const char *const cost_terms[CostTerms] = {
    [TermMath] = "math",   [TermExp] = "exp",   [TermSmem] = "smem",    [TermIssue] = "issue",
    [TermL2] = "l2",       [TermDram] = "dram", [TermWait] = "wait",    [TermFill] = "fill",
    [TermJoin] = "join",   [TermLaunch] = "launch",
};

void cost_note(Tile *t, const Cost *c) {
  const double term[CostTerms] = {
      [TermMath] = c->math,   [TermExp] = c->exp,   [TermSmem] = c->smem, [TermIssue] = c->issue,
      [TermL2] = c->l2,       [TermDram] = c->dram, [TermWait] = c->wait, [TermFill] = c->fill,
      [TermJoin] = c->split,  [TermLaunch] = c->gap,
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
    if (most < 0) return text;
    done[most] = true;
    text = arena_printf(arena, "%s%s%s %.2f", text, *text ? ", " : "", cost_terms[most],
                        term[most] * 1e6);
  }
}

int tile_part_group(const Tile *t) {
  return t->splits < kManyParts ? t->splits : (int)ceil(sqrt(t->splits));
}

int tile_part_counts(const Tile *t) {
  int groups = (int)ceil_div(t->splits, tile_part_group(t));
  return groups > 1 ? groups + 1 : 1;
}

// Parts of k are written and read by one block of each group and one of each tile, once all have
// arrived (a microsecond, assumed): in L2, and beyond half of it in DRAM.
static double split_seconds(const Tile *t, double blocks, const Arch *arch) {
  if (t->splits == 1) return 0;
  int group = tile_part_group(t), groups = tile_part_counts(t) - 1;
  double tile = t->m * t->n * 4., sums = blocks * tile * (1 + groups / (double)t->splits),
         spilled = fmax(0, sums - (double)arch->l2 / 2);
  return (groups ? 2e-6 : 1e-6) + (group + groups) * tile / (arch->l2_rate / arch->sms) +
         2 * sums / arch->l2_rate + 2 * spilled / arch->dram;
}

// Of columns that are reduced together: the last block of all of them joins one after the other.
static double together_clocks(const Tile *t, const Product *p, const Group *g) {
  int64_t together;
  group_dims_kept(g, NULL, &together);
  if (together == 1) return 0;
  double lanes = 1, groups = (double)p->n / (double)together; // as lanes_of_group has it
  while (2 * lanes <= kWarp && 2 * lanes * groups <= tile_threads(t) && 2 * lanes <= together)
    lanes *= 2;
  double own = ceil((double)together / lanes), turns = ceil(groups * lanes / tile_threads(t));
  return (p->n > t->n ? kLastBlock : 0) +
         turns * (ceil(own / 4) * kLoadClocks + (own + log2(lanes)) * kJoinClocks);
}

// The last blocks to arrive load the states of columns of their group, and of all groups.
static double meeting_clocks(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  int blocks = tile_meeting(t, p, g, arch), groups = meeting_groups(blocks);
  if (!blocks) return 0;
  int64_t loads = ceil_div(meeting_group(blocks), kSumsAtOnce) + ceil_div(groups, kSumsAtOnce);
  return (groups ? 2 : 1) * kLastBlock + (double)loads * kLoadClocks + together_clocks(t, p, g);
}

// Until one block of k has been loaded: in the ring, or row after row where elements are computed.
static double load_clocks(const Tile *t, const Product *p) {
  int at_once = tile_threads(t) * 16 / kRowBytes;
  double rows = (p->a.piece ? 0 : ceil(t->m / (double)at_once)) +
                (p->b.piece ? 0 : ceil(t->n / (double)at_once));
  return kRingClocks / (double)(t->stages - 1 - t->unit->in_flight) + kLoadClocks * rows;
}

// Statistics of rows: instructions of a block for those of its tile, and the clocks that the last
// block of these rows needs for those of all tiles.
static double state_issue(const Tile *t, const Product *p, const Group *g) {
  const double vector = 4; // columns of a thread, at the least
  if (!group_statistic(g)) return 0;
  double joined = tile_keeps(t, p, g) ? 4 * 2 : t->n / vector; // of four lanes, of threads
  return t->m * (t->n * kStateIssue + joined * kJoinIssue);
}
static double state_clocks(const Tile *t, const Product *p, const Group *g) {
  double tiles = (double)ceil_div(p->n, t->n);
  if (!group_statistic(g)) return 0;
  double of_tile = tile_keeps(t, p, g) ? 0 : t->n / 4. * kJoinClocks,
         of_all = tiles > 1 ? kLastBlock + kLoadClocks + tiles * kJoinClocks : 0;
  return of_tile + of_all;
}

// Operations of maps on each output.
static double output_flops(const Group *g, double outputs) {
  double flops = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool map = n->op->cls == OpMap && (double)type_count(&n->type) >= outputs;
    flops += map ? n->op->flops : 0;
  }
  return flops;
}

// Operations that add an output to the states of its column, beside one for each word.
static double column_flops(const Group *g) {
  double flops = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (!group_reduces_columns(g, g->nodes[i])) continue;
    const Op *op = g->nodes[i]->op;
    double one = op->acc->part[0].run ? kRunIssue : op->flops - 1;
    if (one > flops) flops = one; // those of one value share their states
  }
  return flops;
}

// From the last block of k to the end: the outputs are computed with and written, before that
// staged and read by neighbours where lanes do not keep them.
static double finish_clocks(const Tile *t, const Product *p, const Group *g, const Arch *arch) {
  bool keeps = tile_keeps(t, p, g);
  double outputs = t->m * (double)t->n, all = (double)(p->batch * p->m * p->n), lanes = 8;
  double words = tile_column_words(g);
  double kept = kKeptIssue + (p->b.across ? kExchangeIssue : 0) +
                words * kRowsIssue / t->tm; // a lane has tm / 8 rows of a column
  double of_one = (keeps ? kept : kOutputIssue) + output_flops(g, all) + column_flops(g);
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
  // A block finds its place and fills its ring once, and ends once; later ones while others of
  // their SM multiply. One that goes on with other tiles fills its ring while it multiplies.
  double begin = tile_setup_clocks(t) + kLoadClocks, end = finish_clocks(t, p, g, arch),
         later = tile_walks(t, p, g, arch) ? end : begin + end;
  c.fill = (begin + end + later * (rounds - 1) / c.per_sm) * clock;
  c.split = split_seconds(t, blocks, arch) + state_clocks(t, p, g) * clock +
            meeting_clocks(t, p, g, arch) * clock;
  // Without tensor cores the products are themselves what is issued.
  double math_bound = t->unit->tensor_cores ? c.math : fmax(c.math, c.issue),
         issue_bound = t->unit->tensor_cores ? c.issue : 0;
  c.seconds = cost_together((double[]){math_bound, issue_bound, c.smem, c.l2, c.dram, c.wait}, 6) +
              c.fill + c.split + c.gap;
  return c;
}
