// sched_stream.c: kernels that stream memory: their cost; tiles of reductions and windows.
//
// Bounds of a launch: DRAM, L2 (of the SMs that have blocks), shared memory and instructions of
// combining accumulators, instruction issue, and the latency of dependent loads; a grid too small
// for the GPU is limited by all but the first. Clocks: cost.h.
#include "sched.h"

#include <math.h>
#include <stdlib.h>

enum {
  kMostThreads = 2048, // per SM
  kMostBlocks = 32,
  kThreadIssue = 20, // instructions per thread: indices, bounds, the store
  kVectorIssue = 8,  // per vector of elements: address, load, conversion
  // Clocks between two instructions of a warp; the same if they exceed the instruction cache. On an
  // H200 rows of 1024 floats took 2.8 us as a prologue of a product; those of normal random
  // numbers, 4700 instructions per thread, 13 us, and 27 us as a separate kernel.
  kTurn = 5,
  kTurnFetched = 11,
  kCached = 2048, // instructions, of 16 bytes
  kStateless = 16 // registers per thread besides accumulators
};

int stream_per_sm(const Stream *s, const Arch *arch) {
  double by_smem = s->smem > 0 ? arch->smem / (s->smem + kSmemPerBlock) : kMostBlocks;
  double threads = kMostThreads;
  if (s->registers > 0) threads = fmin(threads, arch->regs / (double)round_up(s->registers, 8));
  return (int)fmin(fmin(kMostBlocks, by_smem), fmax(1, floor(threads / s->threads)));
}

double stream_under_way(const Stream *s, const Arch *arch) {
  return fmin(s->blocks, (double)arch->sms * stream_per_sm(s, arch));
}

Cost stream_cost(const Stream *s, const Group *g, const Arch *arch) {
  double clock = 1 / (arch->clock * 1e9);
  Cost c = {.gap = arch->launch_gap};
  c.per_sm = stream_per_sm(s, arch);
  double at_once = s->at_once > 0 ? s->at_once : (double)arch->sms * c.per_sm;
  double busy = fmin(fmin(s->blocks, at_once), arch->sms), rounds = ceil(s->blocks / at_once);
  double all_threads = s->blocks * s->threads;
  double instructions = (s->vectors + s->sectors.accesses) * kVectorIssue + s->elements * s->flops +
                        all_threads * (kThreadIssue + s->joins);
  double bytes = (double)(g->bytes_read + g->bytes_written - g->bytes_scratch);
  c.waves = rounds;
  double l2_rate = arch->l2_rate / arch->sms * busy;
  double dram_rate = fmax(bytes, 1) / sched_dram_seconds(g, arch);
  c.dram = sched_dram_seconds(g, arch) * (1 + (s->missed + s->sectors.dram) / fmax(bytes, 1));
  c.l2 = (bytes + s->again + s->sectors.l2) / l2_rate;
  c.sectors = s->sectors.l2 / l2_rate + (s->sectors.dram > 0 ? s->sectors.dram / dram_rate : 0);
  c.issue = instructions / kWarp / kSchedulers / busy * clock;
  c.smem = (all_threads * s->port * 4 + s->sectors.l1) / kSmemRate / busy * clock;
  double each = instructions / all_threads, text = s->text > 0 ? fmin(1, s->text) : 1;
  double turn = each * text > kCached ? kTurnFetched : s->turn > 0 ? s->turn : kTurn;
  c.wait = rounds * (s->steps * kLoadClocks + each * turn) * clock;
  c.fill = (kLoadClocks + s->barriers * kBarrierClocks) * clock;
  if (s->joined > 0)
    c.split = (kLastBlock + s->joined * kLoadClocks + s->barriers * kBarrierClocks) * clock;
  double bounds = cost_together((double[]){c.dram, c.l2, c.issue, c.wait, c.smem}, 5);
  c.seconds = bounds + c.fill + c.split + c.gap;
  return c;
}

int64_t sched_innermost(const Type *t) {
  for (int i = t->rank - 1; i >= 0; i--)
    if (t->dim[t->order[i]] > 1) return t->dim[t->order[i]];
  return 1;
}

// ---- windows -----------------------------------------------------------------------------------

// Image columns that a row of filter taps reads for `pixels` adjacent outputs.
int window_columns(const Node *n, int pixels) {
  bool back = maps_gives(n) == PartImage;
  int64_t stride = back ? 1 : n->attr.stride[1];
  return (int)((pixels - 1) * stride + (node_window(n, 1) - 1) * n->attr.dilation[1] + 1);
}

// Filter rows unrolled: limited so that the text stays in the instruction cache.
int window_rows_at_once(const Node *n, const Tile *t) {
  enum { kMostText = 1024 };
  int64_t rows = node_window(n, 0), one = node_window(n, 1) * t->items * t->lanes;
  return t->items > 1 && rows * one > kMostText ? 1 : (int)rows;
}

// Is this number of pixels per thread valid? Outputs, a row of weights and an image column are in
// registers; pixels must share loads, and fit a row of outputs.
static bool may_have_pixels(const Node *n, int lanes, int pixels) {
  enum { kMostHeld = 128 };
  const int64_t *stride = n->attr.stride;
  bool weighted = n->op->cls == OpContract, back = maps_gives(n) == PartImage;
  int64_t kernel = node_window(n, 1), held = pixels + (weighted ? kernel : 0) + 1;
  bool last = n->type.order[3] == 1 && n->type.order[2] == 3 && n->type.dim[1] > 1;
  if (pixels == 1) return true;
  return last && !(back && (stride[0] > 1 || stride[1] > 1)) && held * lanes <= kMostHeld &&
         window_columns(n, pixels) < pixels * kernel && n->type.dim[3] >= pixels;
}

// Instructions of a thread, fitted to SASS for sm_90a of 3 x 3 to 7 x 7 kernels: per tap of one
// pixel (14 to 39, without those per lane), per image column, per weight, per multiply-add.
static double window_issue(const Node *n, const Tile *t) {
  enum { kTap = 30, kColumn = 12, kWeight = 3 };
  double lanes = t->lanes, rows = (double)node_window(n, 0), width = (double)node_window(n, 1);
  bool weighted = n->op->cls == OpContract;
  double narrow = dtype_size(n->in[0]->type.dtype) == 2 ? lanes : 0; // converted to float
  if (t->items == 1) return rows * width * (kTap + lanes + narrow * (weighted ? 2 : 1));
  double column = kColumn + lanes + narrow, weight = weighted ? kWeight + narrow : 0;
  return rows * (window_columns(n, t->items) * column + width * (weight + t->items * lanes));
}

static void cost_window(Group *g, const Arch *arch) {
  const double turn = 2.5; // independent sums; as in contractions, assumed
  const Node *n = g->anchor;
  const Type *y = &n->type;
  Tile *t = &g->tile;
  double count = (double)type_count(y), outputs = t->items * t->lanes;
  int64_t vectors = type_count(y) / y->dim[3] * ceil_div(y->dim[3], t->items) / t->lanes;
  t->grid[0] = ceil_div(vectors, t->threads);
  Stream s = {.blocks = (double)t->grid[0], .threads = t->threads, .elements = count, .steps = 1};
  s.vectors = count / t->lanes;
  s.flops = (g->flops - sched_flops(n)) / count + window_issue(n, t) / outputs;
  if (window_rows_at_once(n, t) == 1) s.text = 1 / (double)node_window(n, 0);
  if (t->items > 1) {
    int weights = n->op->cls == OpContract ? (int)node_window(n, 1) : 0;
    s.registers = (t->items + weights + 2) * t->lanes + 24;
    s.turn = turn;
  }
  Cost c = stream_cost(&s, g, arch);
  cost_note(t, &c);
}

// Vector lanes of a window are channels, if these are innermost. Adjacent pixels share most reads.
void sched_window(Group *g, const Arch *arch) {
  enum { kMostPixels = 8, kFewLanes = 4 };
  Tile best = {0}, *t = &g->tile;
  const Type *y = &g->anchor->type;
  int most = y->order[3] == 1 ? sched_lanes(g, sched_innermost(y)) : 1;
  most = sched_divide_down(most, y->dim[1]);
  t->threads = 256;
  for (t->items = 1; t->items <= kMostPixels; t->items *= 2)
    for (t->lanes = most; t->lanes == most || (t->items > 1 && t->lanes >= kFewLanes);
         t->lanes /= 2) {
      if (!may_have_pixels(g->anchor, t->lanes, t->items)) continue;
      cost_window(g, arch);
      if (!best.threads || t->seconds < best.seconds) best = *t;
    }
  *t = best;
}

// ---- reductions --------------------------------------------------------------------------------

typedef struct Shape {
  int64_t outputs, reduced;
  int words;           // words of an accumulator
  int accesses;        // per element: inputs, and outputs stored during the pass
  int64_t run;      // outputs contiguous in memory, before the next element of the same outputs
  int size;         // bytes per element of the largest input
  int64_t moved;    // bytes read, or stored during the pass
} Shape;

static int largest_size(const Group *g) {
  const Type *most = NULL;
  for (int i = 0; i < g->ninputs; i++)
    if (!most || type_count(&g->inputs[i]->type) > type_count(most)) most = &g->inputs[i]->type;
  return most ? (int)dtype_size(most->dtype) : 4;
}

// Factor by which L2 traffic exceeds the bytes read, for a block that reads elements of this many
// adjacent outputs. NOTE: sums of 411 MB in runs of 32 bytes took 155 us on an H200, of 205 MB in
// runs of 16 bytes 97 us.
static double line_share(const Shape *x, int64_t neighbours) {
  const double line = 128;
  double all = (double)x->run / (double)neighbours; // at least 1
  return fmax(1, fmin(all, line / (double)(neighbours * x->size)));
}

// Cost per thread of combining accumulators of `rows` threads as a tree: at each level every second
// thread moves one through shared memory or a shuffle, and all combine.
static void cost_joins(Stream *s, const Group *g, const Shape *x, int rows) {
  double levels = log2(rows), states = g->tile.together ? 1 : g->tile.lanes, flops = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->op->cls == OpReduce) flops += g->nodes[i]->op->flops;
  s->port = levels * states * x->words * 1.5;
  s->joins = levels * states * (x->words * 2 + flops);
}

// Dependent loads of a thread with `count` vectors: Tile.depth of them overlap.
static double load_steps(const Tile *t, double count) {
  return floor(count / t->depth) + fmod(count, t->depth);
}

// Sectors used in part, with `columns` threads over outputs.
static Excess reduce_excess(const Group *g, const Sectors *sectors, const Shape *x,
                            const Arch *arch, int columns) {
  const Tile *t = &g->tile;
  int rows = t->threads / columns;
  Spread s = {x->run, rows, columns, t->lanes};
  if (t->together) s = (Spread){x->reduced, columns, rows, t->lanes};
  Stream own = {.threads = t->threads};
  return sectors_excess(sectors, &s, stream_per_sm(&own, arch), arch);
}

// Cost of a tile with `columns` threads over outputs, elements in `parts` splits.
static Cost reduce_cost(Tile *t, const Shape *x, const Group *g, const Arch *arch, int columns,
                        int64_t parts, Excess excess) {
  int rows = t->threads / columns, run = t->together ? t->lanes : 1;
  t->rows = columns;
  t->part = (int)round_up(ceil_div(x->reduced, parts), run);
  t->splits = (int)ceil_div(x->reduced, t->part);
  t->grid[0] = ceil_div(ceil_div(x->outputs, t->together ? 1 : t->lanes), columns);
  t->grid[1] = t->splits;
  Stream s = {.blocks = (double)(t->grid[0] * t->splits), .threads = t->threads};
  s.elements = (double)x->outputs * (double)x->reduced;
  s.vectors = s.elements / t->lanes * x->accesses;
  s.flops = g->flops / s.elements;
  s.steps = load_steps(t, ceil((double)t->part / run / rows));
  s.text = t->depth / ceil((double)t->part / run / rows);
  s.registers = kStateless + t->depth * t->lanes * x->words;
  cost_joins(&s, g, x, rows);
  s.barriers = t->together ? log2(rows / 32.) : log2(rows);
  if (!t->together)
    s.again = (double)x->moved * (line_share(x, (int64_t)columns * t->lanes) - 1);
  s.sectors = excess;
  if (t->splits > 1) { // partial accumulators are written and read
    s.joined = ceil(t->splits / (double)rows);
    s.again += 8. * t->splits * (double)x->outputs * x->words;
  }
  return stream_cost(&s, g, arch);
}

static void add_scratch(Group *g, const Shape *x) {
  int64_t states = g->tile.splits * x->outputs * x->words, counts = g->tile.grid[0];
  sched_scratch(g, "own_states", DtF32, states);
  sched_scratch(g, "own_arrived", DtI32, counts);
}

// The widest vectors and most accesses in flight that accumulators leave registers and shared
// memory for.
static void choose_lanes(Group *g, const Shape *x, int64_t run) {
  enum { kMostState = 32, kMostFlight = 64 }; // words of a thread
  Tile *t = &g->tile;
  t->lanes = sched_lanes(g, run);
  while (t->lanes > 1 && !t->together && t->lanes * x->words > kMostState) t->lanes /= 2;
  t->depth = 4;
  while (t->depth > 1 && t->depth * t->lanes * x->words > kMostFlight) t->depth /= 2;
}

void sched_reduce(Group *g, const Arch *arch) {
  const double kOfParts = 1.05; // splits need memory: only if they gain more than the model's error
  Tile *t = &g->tile, best = {.seconds = INFINITY};
  Cost cost = {0};
  const Node *n = g->anchor;
  const Type *in = &n->in[0]->type;
  Shape x = {type_count(&n->type),
             type_count(in) / type_count(&n->type),
             state_words(g),
             row_reads(g, 1, 0).count,
             type_kept_run(in, n->attr.axes),
             largest_size(g),
             g->bytes_read};
  for (int i = 0; i < g->noutputs; i++) {
    if (!group_by_element(g, g->outputs[i])) continue;
    x.accesses++;
    x.moved += type_bytes(&g->outputs[i]->type);
  }
  int last = in->rank - 1;
  while (last > 0 && in->dim[in->order[last]] == 1) last--;
  t->together = n->attr.axes >> in->order[last] & 1;
  choose_lanes(g, &x, in->dim[in->order[last]]);
  t->threads = 256;
  while (t->threads > 32 && t->threads * (t->together ? 1 : t->lanes) * x.words > 8192)
    t->threads /= 2; // limit shared memory to 32 KiB
  int most = t->together ? t->threads / 32 : t->threads;
  Sectors *sectors = sectors_of(g, in);
  for (int columns = 1; columns <= most && columns <= t->threads; columns *= 2) {
    Excess excess = reduce_excess(g, sectors, &x, arch, columns);
    for (int64_t parts = 1; parts <= 4096 && parts <= x.reduced; parts *= 2) {
      if (x.reduced / parts > INT32_MAX) continue; // elements of a part are counted in 31 bits
      Cost c = reduce_cost(t, &x, g, arch, columns, parts, excess);
      cost_note(t, &c);
      if (t->splits > 1) t->seconds *= kOfParts;
      if (t->grid[1] <= 65535 && t->seconds < best.seconds * (1 - 1e-9)) best = *t, cost = c;
    }
  }
  free(sectors);
  *t = best;
  cost_note(t, &cost);
  if (t->splits > 1) add_scratch(g, &x);
}
