// sched_row.c: rows that a block processes in sweeps: threads per row, and where values needed by
// later sweeps stay: registers, shared memory, or nowhere (each sweep reads the row again).
#include "sched.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

// ---- values kept between sweeps, and reads ----------------------------------------------------

// The largest number of a row's values that are live between two sweeps.
static int row_waiting(const Group *g, int sweeps) {
  int most = 0;
  for (int p = 0; p + 1 < sweeps; p++) {
    int count = 0;
    for (int i = 0; i < g->nnodes; i++) count += row_waits(g, g->nodes[i], p);
    for (int i = 0; i < g->ninputs; i++) count += row_waits(g, g->inputs[i], p);
    most = count > most ? count : most;
  }
  return most;
}

static int add_value(const Node **values, int count, const Node *n) {
  for (int i = 0; i < count; i++)
    if (values[i] == n) return count;
  if (count < kMostRowValues) values[count++] = n;
  return count;
}

int row_values(const Group *g, int sweeps, const Node **values) {
  int count = 0;
  for (int p = 0; p + 1 < sweeps; p++) {
    for (int i = 0; i < g->nnodes; i++)
      if (row_waits(g, g->nodes[i], p)) count = add_value(values, count, g->nodes[i]);
    for (int i = 0; i < g->ninputs; i++)
      if (row_waits(g, g->inputs[i], p)) count = add_value(values, count, g->inputs[i]);
  }
  return count;
}

// The first sweep that loads or computes n.
static int first_sweep(const Group *g, const Node *n) {
  int first = n->sweep;
  if (n->group == g) return first;
  first = INT_MAX;
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++)
      if (g->nodes[i]->in[j] == n && g->nodes[i]->sweep < first) first = g->nodes[i]->sweep;
  return first;
}

typedef struct Reading {
  const Group *g;
  const Node *values[kMostRowValues];
  int nvalues;
  uint64_t kept; // bits of values
  int sweep;
  int *seen;  // by node, then by input: the last sweep that read it, from 1
  int *times; // by input: number of sweeps that read it
} Reading;

static int place_of(const Node *n, Node *const *list, int count) {
  int i = 0;
  while (i < count && list[i] != n) i++;
  return i;
}

static bool at_hand(const Reading *r, const Node *n) {
  for (int i = 0; i < r->nvalues; i++)
    if (r->values[i] == n) return r->kept >> i & 1 && first_sweep(r->g, n) < r->sweep;
  return false;
}

// Counts the reads of computing n in this sweep, as the emitted kernel does.
static void compute(Reading *r, const Node *n) {
  const Group *g = r->g;
  bool ours = n->group == g;
  int input = ours ? 0 : place_of(n, g->inputs, g->ninputs);
  if (!ours && input == g->ninputs) return; // a constant or an index
  int *seen = &r->seen[ours ? place_of(n, g->nodes, g->nnodes) : g->nnodes + input];
  if (*seen == r->sweep + 1 || at_hand(r, n)) return;
  *seen = r->sweep + 1;
  if (!ours) r->times[input]++;
  if (!ours || (n->op->cls == OpReduce && n->sweep < r->sweep)) return;
  for (int i = 0; i < n->nin; i++) compute(r, n->in[i]);
}

static void sweep_over(Reading *r) {
  const Group *g = r->g;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (n->sweep == r->sweep && n->op->cls == OpReduce) compute(r, n);
  }
  for (int i = 0; i < r->nvalues; i++)
    if (r->kept >> i & 1 && first_sweep(g, r->values[i]) == r->sweep) compute(r, r->values[i]);
  for (int i = 0; i < g->noutputs; i++) {
    const Node *n = group_stored(g, g->outputs[i]);
    bool full = type_same_shape(&n->type, &g->anchor->in[0]->type);
    if (full && n->sweep == r->sweep && n->op->cls != OpReduce) compute(r, n);
  }
}

RowReads row_reads(const Group *g, int sweeps, uint64_t kept) {
  Reading r = {.g = g, .kept = kept};
  r.nvalues = row_values(g, sweeps, r.values);
  r.seen = base_alloc((size_t)(g->nnodes + 2 * g->ninputs), sizeof *r.seen);
  r.times = r.seen + g->nnodes + g->ninputs;
  for (r.sweep = 0; r.sweep < sweeps; r.sweep++) sweep_over(&r);
  RowReads reads = {0};
  int64_t row = type_count(&g->anchor->in[0]->type);
  for (int i = 0; i < g->ninputs; i++) {
    const Node *n = g->inputs[i];
    int times = r.times[i];
    reads.count += times;
    if (type_count(&n->type) < row) continue; // shared by several rows: cached
    if (times > reads.most) reads.most = times;
    if (times > 1) reads.again += (times - 1) * sched_bytes_read(g, n);
  }
  free(r.seen);
  return reads;
}

// ---- tiles --------------------------------------------------------------------------------------

// Number of row values that fit into registers next to those of a sweep.
static int fit_registers(const Group *g, const Arch *arch) {
  enum { kSweepRegisters = 40 };
  const Tile *t = &g->tile;
  int all = arch->regs / t->threads / (t->blocks ? t->blocks : 1);
  if (all > kMostRegisters) all = kMostRegisters;
  int room = all - kSweepRegisters - 2 * state_words(g);
  return room > 0 ? room / (t->items * t->lanes) : 0;
}

static int value_bytes(const Tile *t) { // of all threads, in compute dtypes
  return t->items * t->lanes * t->threads * 4;
}

static int fit_shared(const Group *g, const Arch *arch) {
  const Tile *t = &g->tile;
  int states = state_words(g) * 4 * (t->together ? t->threads / kWarp : t->threads);
  return (arch->smem - kSmemPerBlock - states) / value_bytes(t);
}

static int count_bits(uint64_t set) {
  int count = 0;
  for (; set; set &= set - 1) count++;
  return count;
}

// Chooses `room` of `count` values to keep such that reads are fewest, then those of the most read
// input.
static uint64_t choose_values(const Group *g, int sweeps, int count, int room) {
  enum { kMostTried = 8 }; // of the values, in the order of sweeps
  uint64_t best = 0;
  RowReads least = row_reads(g, sweeps, 0);
  for (uint64_t set = 1; count && set < UINT64_C(1) << (count < kMostTried ? count : kMostTried);
       set++) {
    if (count_bits(set) > room) continue;
    RowReads r = row_reads(g, sweeps, set);
    if (r.most > least.most || (r.most == least.most && r.count >= least.count)) continue;
    best = set, least = r;
  }
  return best;
}

static uint64_t lowest(uint64_t set, int count) {
  uint64_t some = 0;
  for (; set && count > 0; count--, set &= set - 1) some |= set & -set;
  return some;
}

// Where values stay: all in registers; else those that save most reads, in shared memory if
// `shared`. Only few stay in registers in that case, since a sweep that reads the rest again needs
// more registers.
static void place_values(Group *g, const Arch *arch, int sweeps, bool shared) {
  Tile *t = &g->tile;
  const Node *values[kMostRowValues];
  int count = row_values(g, sweeps, values), registers = fit_registers(g, arch);
  t->shared = 0, t->smem = 0;
  t->kept = count == kMostRowValues ? UINT64_MAX : (UINT64_C(1) << count) - 1;
  if (row_waiting(g, sweeps) <= registers) return;
  registers /= 3;
  t->kept = choose_values(g, sweeps, count, registers + (shared ? fit_shared(g, arch) : 0));
  t->shared = t->kept & ~lowest(t->kept, registers);
  t->smem = count_bits(t->shared) * value_bytes(t);
}

// Fully unrolled long rows would exceed the instruction cache.
int row_unrolled(const Tile *t, bool again) {
  enum { kFew = 16, kMostElements = 64 }; // accesses; elements of a thread
  if (t->kept & ~t->shared) return t->items; // values in registers need static indices
  if (again || t->shared) return t->items < kFew ? 1 : 4;
  return t->items * t->lanes > kMostElements ? 8 : t->items;
}

// Bytes read again from DRAM: resident rows that exceed L2.
static double missed_bytes(const Group *g, const Arch *arch, double again, double blocks) {
  const Tile *t = &g->tile;
  int64_t rows = type_count(&g->anchor->type);
  double under_way = 0;
  for (int i = 0; i < g->ninputs; i++) under_way += sched_bytes_read(g, g->inputs[i]);
  under_way *= fmin(1, blocks * t->rows / (double)rows);
  return under_way > (double)arch->l2 ? again * (1 - (double)arch->l2 / under_way) : 0;
}

// Sectors used in part. Strided rows: neighbouring threads have neighbouring rows.
static Excess row_excess(const Group *g, const Stream *s, const Arch *arch, int per_row) {
  const Tile *t = &g->tile;
  const Type *full = &g->anchor->in[0]->type;
  int64_t columns = type_count(full) / type_count(&g->anchor->type);
  Spread x = {columns, t->rows, per_row, t->lanes};
  if (!t->together) x = (Spread){type_kept_run(full, g->anchor->attr.axes), per_row, t->rows, 1};
  Sectors *sectors = sectors_of(g, full);
  Excess excess = sectors_excess(sectors, &x, stream_per_sm(s, arch), arch);
  free(sectors);
  return excess;
}

// Cost of a tile of t->rows rows with per_row threads each; at_once: Stream.at_once.
static Cost row_cost(Group *g, const Arch *arch, int per_row, int sweeps, bool shared,
                     double at_once) {
  enum { kInFlight = 8 }; // accesses
  Tile *t = &g->tile;
  const Type *full = &g->anchor->in[0]->type;
  int64_t rows = type_count(&g->anchor->type), columns = type_count(full) / rows;
  t->threads = per_row * t->rows;
  t->items = (int)ceil_div(ceil_div(columns, t->lanes), per_row);
  t->grid[0] = ceil_div(rows, t->rows);
  place_values(g, arch, sweeps, shared);
  RowReads reads = row_reads(g, sweeps, t->kept);
  Stream s = {.blocks = (double)t->grid[0], .threads = t->threads, .smem = t->smem};
  s.elements = (double)type_count(full);
  s.vectors = s.elements / t->lanes * (reads.count + g->noutputs);
  s.flops = g->flops / s.elements + 2 * count_bits(t->shared);
  s.steps = ceil(t->items / (double)kInFlight) * (reads.most > 1 ? reads.most : 1);
  s.barriers = !t->together ? sweeps * (log2(per_row) + 2) : per_row > 32 ? sweeps : 0;
  s.text = row_unrolled(t, reads.most > 1) / (double)t->items;
  s.at_once = at_once;
  s.again = reads.again;
  s.missed = missed_bytes(g, arch, reads.again, stream_under_way(&s, arch));
  s.sectors = row_excess(g, &s, arch, per_row);
  return stream_cost(&s, g, arch);
}

// The cheaper of registers and shared memory, if registers do not hold all values.
static Cost row_cost_least(Group *g, const Arch *arch, int per_row, int sweeps) {
  Cost plain = row_cost(g, arch, per_row, sweeps, false, 0);
  if (row_waiting(g, sweeps) <= fit_registers(g, arch)) return plain;
  Tile without = g->tile;
  Cost with = row_cost(g, arch, per_row, sweeps, true, 0);
  if (with.seconds < plain.seconds * (1 - 1e-9)) return with;
  g->tile = without;
  return plain;
}

// Strided rows: neighbouring threads have neighbouring rows, at least a sector's worth.
static void choose_across(Group *g, const Arch *arch, int sweeps) {
  enum { kMostOfBlock = 512, kLeastOfBlock = 64, kMostRows = 32 }; // threads; rows
  Tile *t = &g->tile, best = {.seconds = INFINITY};
  int least = 32 / (int)dtype_size(g->anchor->in[0]->type.dtype);
  t->lanes = 1;
  for (t->rows = least; t->rows <= kMostRows; t->rows *= 2)
    for (int per_row = 1; per_row * t->rows <= kMostOfBlock; per_row *= 2) {
      if (per_row * t->rows < kLeastOfBlock) continue;
      Cost c = row_cost_least(g, arch, per_row, sweeps);
      cost_note(t, &c);
      if (c.seconds < best.seconds * (1 - 1e-9)) best = *t;
    }
  *t = best;
}

// Short rows: part of a warp reads a row in one access each; several rows per block.
static void choose_short(Group *g, const Arch *arch, int per_row, int sweeps) {
  enum { kMostOfBlock = 256 };
  Tile *t = &g->tile, best = {.seconds = INFINITY};
  for (t->rows = kMostOfBlock / per_row; t->rows * per_row >= kWarp; t->rows /= 2) {
    Cost c = row_cost_least(g, arch, per_row, sweeps);
    cost_note(t, &c);
    if (c.seconds < best.seconds * (1 - 1e-9)) best = *t;
  }
  *t = best;
}

bool row_cut_inside(Group *g, const Arch *arch, const Tile *in, Cost *cost) {
  enum { kJobsOfBlock = 4 }; // if there are many: late blocks get fewer
  Tile *t = &g->tile;
  const Type *full = &g->anchor->in[0]->type;
  int64_t rows = type_count(&g->anchor->type);
  int per_row = 1, sweeps = row_sweeps(g);
  if (!t->together) return false;
  *t = (Tile){.together = true, .lanes = t->lanes, .blocks = in->blocks};
  while (per_row < kWarp && per_row < ceil_div(type_count(full) / rows, t->lanes)) per_row *= 2;
  t->rows = in->threads / per_row;
  // a job is a run of rows
  double room = (double)arch->sms * in->blocks, jobs = (double)ceil_div(rows, t->rows);
  double at_once = fmin(fmin(room, jobs), (double)in->grid[0]);
  *cost = row_cost(g, arch, per_row, sweeps, false, at_once);
  t->runs = (int)fmax(1, jobs / (kJobsOfBlock * at_once));
  return row_waiting(g, sweeps) <= fit_registers(g, arch);
}

// Contiguous rows: threads such that each has kPerThread accesses; more if much cheaper, as when an
// element takes hundreds of instructions.
static void choose_along(Group *g, const Arch *arch, int64_t accesses, int64_t rows, int sweeps) {
  enum { kPerThread = 8, kFewWords = 4 };
  const double much = 0.8;
  // Larger accumulators need registers that 1024 threads do not have.
  const int most_per_row = state_words(g) <= kFewWords ? 1024 : 512;
  Tile *t = &g->tile, best = {.seconds = INFINITY};
  int per_row = kWarp;
  while (per_row < most_per_row && accesses > per_row * kPerThread) per_row *= 2;
  for (; per_row <= most_per_row; per_row *= 2) {
    t->rows = per_row == kWarp && rows >= 8 ? 8 : 1;
    Cost c = row_cost_least(g, arch, per_row, sweeps);
    cost_note(t, &c);
    if (c.seconds < best.seconds * much) best = *t;
    if (per_row * 2 > accesses) break;
  }
  *t = best;
}

void sched_row(Group *g, const Arch *arch) {
  Tile *t = &g->tile;
  const Type *full = &g->anchor->in[0]->type;
  int64_t rows = type_count(&g->anchor->type), columns = type_count(full) / rows;
  int per_row = 1, sweeps = row_sweeps(g);
  t->together = type_innermost_in(full, g->anchor->attr.axes);
  if (!t->together) {
    choose_across(g, arch, sweeps);
    return;
  }
  t->lanes = sched_divide_down(4, sched_innermost(full));
  int64_t accesses = ceil_div(columns, t->lanes);
  while (per_row < kWarp && per_row < accesses) per_row *= 2;
  if (per_row < kWarp) {
    choose_short(g, arch, per_row, sweeps);
    return;
  }
  choose_along(g, arch, accesses, rows, sweeps);
}
