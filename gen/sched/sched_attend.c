// sched_attend.c: attention, and products that weigh rows by maps of scores: how rows of queries
// are cut, and what a tile costs.
//
// A block keeps kTileM rows of queries and goes through all keys, a tile at a time; a warp has some
// of the rows, and all keys of a tile. Bounds are those of products, and the units that compute
// exponentials: 16 a clock of an SM (CUDA C++ Programming Guide, throughput of arithmetic).
#include "sched.h"

#include <math.h>
#include <string.h>

enum {
  kStep = 16,       // elements of an mma's k
  kRowUnit = 32,    // bytes that rows in shared memory are whole multiples of
  kMostHeld = 2048, // elements of a warp's queries that stay in registers (lib/attend_mma.cuh)
  kMostSums = 196,  // registers of sums that leave room for the rest
  kOtherRegs = 64,  // what that is
  kUnheldRegs = 20, // what addresses of queries take, where a warp reads 32 rows again
  kSecondRegs = 48, // and what two products need more
  kExpRate = 16,    // per clock
  kScoreIssue = 5,  // instructions of a score: scale, largest, exponential, sum, half a pack
  kTileIssue = 60,  // of a warp for each tile of keys: the rows' largest, waits, branches
  kMostExplained = 12
};

// Rows, keys of a tile, rows of a warp: on tensor cores, on the fp32 units.
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
    {.unit = &unit_fma, .m = 128, .n = 64, .tm = 32},
    {.unit = &unit_fma, .m = 64, .n = 64, .tm = 32},
    {.unit = &unit_fma, .m = 128, .n = 32, .tm = 32},
    {.unit = &unit_fma, .m = 64, .n = 64, .tm = 16},
    {.unit = &unit_fma, .m = 64, .n = 32, .tm = 16},
    {.unit = &unit_fma, .m = 32, .n = 32, .tm = 16},
    {.unit = &unit_fma, .m = 32, .n = 32, .tm = 8},
    {.unit = &unit_fma, .m = 16, .n = 32, .tm = 8},
};

// And of weights that are a map of scores, which need more registers.
static const Tile weigh_tiles[] = {
    {.unit = &unit_mma, .m = 64, .n = 32, .tm = 32},
    {.unit = &unit_mma, .m = 128, .n = 32, .tm = 32},
    {.unit = &unit_mma, .m = 64, .n = 16, .tm = 16},
};

static const int splits[] = {1, 2, 4, 8, 16}; // of the keys

enum { kMostList = LENGTH(tiles) * LENGTH(splits) + LENGTH(weigh_tiles) };

// ---- the problem -------------------------------------------------------------------------------

static int axis_of(const Maps *m, int tensor, int d) {
  int i = 0;
  while (i < m->naxes && !m->dim[tensor][d].by[i]) i++;
  return i;
}

static int axis_dim(const Maps *m, int axis) { // of the left operand
  int d = 0;
  while (!m->dim[MapA][d].by[axis]) d++;
  return d;
}

static void put_axis(Maps *to, const Maps *from, int j, AxisRole role) {
  int i = to->naxes++;
  to->axis[i] = from->axis[j];
  to->axis[i].role = role;
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < from->rank[t]; d++) to->dim[t][d].by[i] = from->dim[t][d].by[j];
}

// The axes of scores in the order of those of the values: a dimension of the first's result is one
// of the second's left operand. Turned, its right operand stands for its left one.
static Maps aligned_axes(const Node *product, bool turned, const Maps *values) {
  Maps from = product_axes(product), to = from;
  to.naxes = 0;
  for (int role = 0; role < AxisRoles; role++) // what is summed over is columns of scores
    for (int i = 0; i < values->naxes; i++) {
      if ((int)values->axis[i].role != role || role == AxisN) continue;
      int j = axis_of(&from, MapOut, axis_dim(values, i));
      put_axis(&to, &from, j, role == AxisK ? AxisN : (AxisRole)role);
    }
  for (int j = 0; j < from.naxes; j++)
    if (from.axis[j].role == AxisK) put_axis(&to, &from, j, AxisK);
  if (!turned) return to;
  Maps left = to;
  for (int t = MapA; t <= MapB; t++) {
    to.rank[t] = left.rank[MapB - t], to.type[t] = left.type[MapB - t];
    memcpy(to.dim[t], left.dim[MapB - t], sizeof to.dim[t]);
  }
  return to;
}

// The left operand of the values in the order of the scores' dimensions.
static void turn_weights(Maps *m, const Attention *a) {
  IndexMap dim[MaxRank];
  memcpy(dim, m->dim[MapA], sizeof dim);
  for (int d = 0; d < m->rank[MapA]; d++) m->dim[MapA][d] = dim[a->place[d]];
}

// Are rows of values those of operand i, keys, whatever the order of its dimensions?
static bool values_are_keys(const Attending *a, int i) {
  const Operand *keys = &a->operand[i], *rows = &a->operand[2 * a->nproducts];
  const Maps *scores = &a->scores[i / 2], *values = a->values.maps;
  if (keys->base != rows->base || keys->offset != rows->offset || a->depth[i / 2] != a->width)
    return false;
  int j = 0; // axes of both follow each other alike: batches, rows, keys
  for (int role = 0; role < AxisRoles; role++)
    for (int x = 0; x < values->naxes; x++) {
      if ((int)values->axis[x].role != role || role == AxisN) continue;
      if (axis_stride(scores, MapB, keys->stride, j) != axis_stride(values, MapB, rows->stride, x))
        return false;
      j++;
    }
  return true;
}

// Instructions of a score, but for products: the softmax's, or those of the maps that weigh.
static int score_issue(const Group *g, bool softmax) {
  enum { kExponential = 2 };
  int issue = 1; // half a pack, half a load of a row's value
  for (int i = 0; i < g->nnodes && !softmax; i++) {
    const Node *n = g->nodes[i];
    bool map = n->op->cls == OpMap && type_same_shape(&n->type, &g->attention->score->type);
    if (map && n->id < g->anchor->id) issue += n->op->flags & FlagExp ? kExponential : n->op->flops;
  }
  return softmax ? kScoreIssue : issue;
}

Attending attend_problem(const Group *g) {
  const Attention *attention = g->attention;
  int count = attention->nproducts;
  Attending a = {.values = contract_product(g), .nproducts = count, .shared = 2 * count};
  turn_weights(a.values.maps, attention);
  a.softmax = attention->nsteps >= 0;
  a.rows = a.values.m, a.keys = a.values.k, a.width = a.values.n, a.batch = a.values.batch;
  for (int i = 0; i < count; i++) {
    a.scores[i] = aligned_axes(attention->product[i], attention->turned[i], a.values.maps);
    a.depth[i] = maps_count(&a.scores[i], AxisK);
  }
  a.size = a.values.size;
  a.score_issue = score_issue(g, a.softmax);
  for (int i = 0; i <= 2 * count; i++) {
    Operand *o = &a.operand[i];
    o->piece = attend_piece(g, attention, i, o->stride, &o->offset, &o->base);
    if (!o->piece) die("%s: an operand of attention does not lie in runs", g->anchor->name);
  }
  for (int i = 1; i < 2 * count && !a.softmax; i += 2)
    if (values_are_keys(&a, i)) a.shared = i;
  return a;
}

// A power of 2 from 16 on.
int attend_staged(const Attending *a) {
  int staged = kStep;
  while (staged < a->width) staged *= 2;
  return staged;
}

// ---- tiles -------------------------------------------------------------------------------------

static int row_bytes(const Attending *a, int64_t elements) {
  return (int)round_up(elements * a->size, kRowUnit);
}

// Bytes of a row of all heads: those of the queries, and those of a key and its value.
static int query_bytes(const Attending *a) {
  int bytes = 0;
  for (int i = 0; i < a->nproducts; i++) bytes += row_bytes(a, a->depth[i]);
  return bytes;
}
static int key_bytes(const Attending *a) {
  return query_bytes(a) + (a->shared < 2 * a->nproducts ? 0 : row_bytes(a, a->width));
}

static int smem_of(const Attending *a, const Tile *t) {
  int ring = t->m * query_bytes(a) + t->stages * t->n * key_bytes(a);
  int out = t->m * attend_staged(a) * 4, bits = (int)ceil_div(a->keys, (int64_t)t->n * kWarp) * 4;
  int states = t->splits > 1 ? t->m * (8 + 4 * t->splits) + kSmemLast : 0;
  return (ring > out ? ring : out) + states + (int)round_up(2 * bits, 16); // two for each tile
}

// Clocks of an SM for a tile of keys.
typedef struct TileClocks {
  double math, smem, issue, exponentials;
} TileClocks;

// What attention takes of a unit, beside what products do (Unit).
typedef struct AttendUnit {
  const Unit *unit;
  int size;     // bytes of an element
  double chain; // clocks that rows of kRowUnit bytes wait, product after product
  int (*registers)(const Attending *a, const Tile *t); // a thread keeps: outputs, scores, operands
  int (*unheld)(const Attending *a, const Tile *t);    // and for queries that it does not keep
  void (*reads)(const Attending *a, const Tile *t, TileClocks *c); // of operands, and products
} AttendUnit;

static double elements_of(const Attending *a) { // of a query and a value
  return (query_bytes(a) + row_bytes(a, a->width)) / (double)a->size;
}

// ---- the fp32 units

static int fma_registers(const Attending *a, const Tile *t) { // the operands of a step
  int width = row_bytes(a, a->width) / a->size, scores = a->nproducts * t->n;
  return t->tm / 4 * (scores / 8 + (int)ceil_div(width, 32) * 4) + t->tm + t->n / 2;
}

static int fma_unheld(const Attending *a, const Tile *t) {
  (void)a, (void)t;
  return 0;
}

// Operands are read again by each warp; weights go from lane to lane.
static void fma_reads(const Attending *a, const Tile *t, TileClocks *c) {
  double warps = t->threads / (double)kWarp, depth = query_bytes(a) / (double)a->size;
  double reads =
      (t->tm / 4. + t->n / 8.) * depth / 4 + t->n * (t->tm / 4. + (double)ceil_div(a->width, 32));
  c->smem = warps * reads;
  c->issue += warps * (reads + t->tm * t->n * elements_of(a) / kWarp);
}

// ---- tensor cores

static bool holds_queries(const Attending *a, const Tile *t) {
  return a->softmax && t->tm * a->depth[0] <= kMostHeld;
}

static int mma_registers(const Attending *a, const Tile *t) { // the queries, or those of a step
  int width = row_bytes(a, a->width) / a->size, scores = a->nproducts * t->n;
  int steps = holds_queries(a, t) ? (int)ceil_div(a->depth[0], kStep) : a->softmax;
  int queries = t->tm / 16 * 4 * steps;
  return t->tm * (width + scores) / kWarp + queries;
}

static int mma_unheld(const Attending *a, const Tile *t) {
  return a->softmax && t->tm > 16 && !holds_queries(a, t) ? kUnheldRegs : 0;
}

// A fragment of 16 x 16 for four instructions, one of which reads it.
static void mma_reads(const Attending *a, const Tile *t, TileClocks *c) {
  double warps = t->threads / (double)kWarp, both = elements_of(a), read = t->n * both * a->size;
  double again = holds_queries(a, t) ? 0 : t->tm * query_bytes(a); // queries, by each warp
  c->smem = warps * (read + again) / kSmemRate;
  c->issue += warps * (t->n * both / (16 * 16) + t->tm / 16. * t->n * both / (8 * 16) +
                       again / a->size / (16 * 16));
}

static const AttendUnit units[] = {
    {&unit_fma, 4, 0, fma_registers, fma_unheld, fma_reads},
    {&unit_mma, 2, kMmaClocks / 4., mma_registers, mma_unheld, mma_reads},
};

static const AttendUnit *unit_of(const Tile *t) {
  const AttendUnit *u = units;
  while (u->unit != t->unit) u++;
  return u;
}

// ---- what a tile costs -------------------------------------------------------------------------

// Each scheduler of an SM has its part of the registers, for whole warps.
static int blocks_per_sm(const Attending *a, const Tile *t, const Arch *arch) {
  int registers = unit_of(t)->registers(a, t) + kOtherRegs + (a->nproducts - 1) * kSecondRegs;
  int warps = arch->regs / kSchedulers / (kWarp * (registers < 255 ? registers : 255));
  int by_regs = warps * kSchedulers / (t->threads / kWarp);
  int by_smem = arch->smem / (smem_of(a, t) + kSmemPerBlock);
  int blocks = by_regs < by_smem ? by_regs : by_smem;
  return blocks < 16 ? blocks : 16;
}

static TileClocks clocks_of(const Attending *a, const Tile *t, const Arch *arch) {
  double warps = t->threads / (double)kWarp, scores = t->m * (double)t->n;
  double loaded = t->n * (double)key_bytes(a), rate = t->unit->rate(arch, a->size);
  TileClocks c = {.math = 2 * scores * elements_of(a) / (rate / arch->sms / (arch->clock * 1e9)),
                  .exponentials = scores / kExpRate};
  c.issue = scores * a->score_issue / kWarp + warps * kTileIssue + loaded / 16 / kWarp * 3;
  unit_of(t)->reads(a, t, &c);
  c.smem += loaded / kSmemRate;
  c.issue /= kSchedulers;
  return c;
}

static double tile_blocks(const Attending *a, const Tile *t) {
  return (double)(ceil_div(a->rows, t->m) * a->batch * t->splits);
}

// Parts of the keys leave rows in L2, which one block of each tile joins when all have arrived (a
// microsecond, assumed).
static double split_seconds(const Attending *a, const Tile *t, const Arch *arch) {
  double part = t->m * attend_staged(a) * 4.;
  if (t->splits == 1) return 0;
  return 1e-6 + t->splits * part / (arch->l2_rate / arch->sms) +
         2 * tile_blocks(a, t) * part / arch->l2_rate;
}

static Cost attend_cost(const Attending *a, const Tile *t, const Group *g, const Arch *arch) {
  double clock = 1 / (arch->clock * 1e9), warps = t->threads / (double)kWarp;
  double blocks = tile_blocks(a, t), on_sm = ceil(blocks / arch->sms);
  double keys = ceil((double)ceil_div(a->keys, t->n) / t->splits) * attend_share(g, a, t);
  double rounds = ceil(on_sm / t->blocks), loaded = t->n * key_bytes(a);
  TileClocks c = clocks_of(a, t, arch);
  double alone = (c.math + c.exponentials + c.issue) / warps * kSchedulers;
  double chain = loaded / t->n / kRowUnit * unit_of(t)->chain;
  Cost cost = {.math = on_sm * keys * c.math * clock,
               .exp = on_sm * keys * c.exponentials * clock,
               .smem = on_sm * keys * c.smem * clock,
               .issue = on_sm * keys * c.issue * clock,
               .l2 = on_sm * keys * loaded / (arch->l2_rate / arch->sms),
               .dram = sched_dram_seconds(g, arch),
               .wait = rounds * keys * (alone + chain) * clock,
               .fill = kLoadClocks * 2 * clock,
               .split = split_seconds(a, t, arch),
               .gap = arch->launch_gap};
  double bounds[] = {cost.math, cost.exp, cost.smem, cost.issue, cost.l2, cost.dram, cost.wait};
  cost.seconds =
      cost_together(bounds, (int)LENGTH(bounds)) + cost.fill + cost.gap + cost.split;
  return cost;
}

static bool may_cut(const Attending *a, const Tile *t, int lanes) {
  int along = attend_staged(a) / lanes; // threads that store a row
  bool divides = t->splits == 1 || (ceil_div(a->keys, t->n) >= 2 * t->splits &&
                                    tile_blocks(a, t) * t->m * attend_staged(a) <= INT32_MAX);
  const AttendUnit *unit = unit_of(t);
  int most = kMostSums - (a->nproducts - 1) * kSecondRegs - unit->unheld(a, t);
  return unit->registers(a, t) <= most && t->threads % along == 0 && divides;
}

static int lanes_of(const Group *g) {
  int lanes = 8;
  for (int i = 0; i < g->ntails; i++)
    if (tail_writes(g, i)) lanes = (int)fmin(lanes, sched_lanes(g, tail_lane(g, i).run));
  return lanes;
}

int attend_candidates(const Group *g, const Arch *arch, Tile *list, int most) {
  Attending a = attend_problem(g);
  int kept = 0, lanes = lanes_of(g);
  size_t ntiles = LENGTH(tiles) + (a.softmax ? 0 : LENGTH(weigh_tiles)),
         nsplits = a.softmax ? LENGTH(splits) : 1;
  for (size_t i = 0; i < ntiles; i++)
    for (size_t s = 0; s < nsplits; s++) {
      Tile t = i < LENGTH(tiles) ? tiles[i] : weigh_tiles[i - LENGTH(tiles)];
      if (unit_of(&t)->size != a.size) break;
      t.stages = 2, t.splits = splits[s], t.lanes = lanes;
      t.threads = t.m / t.tm * kWarp;
      t.blocks = blocks_per_sm(&a, &t, arch);
      if (!may_cut(&a, &t, lanes) || !t.blocks) break;
      Cost cost = attend_cost(&a, &t, g, arch);
      cost_note(&t, &cost);
      kept = sched_keep_cheapest(list, kept, most, &t);
    }
  return kept;
}

// What the parts of the keys leave: rows of outputs, states of their softmax, how many have
// arrived.
static void add_scratch(Group *g, const Attending *a) {
  const Tile *t = &g->tile;
  int64_t tiles_of_rows = t->grid[0] / t->splits, rows = t->grid[0] * t->m;
  int64_t outputs = rows * attend_staged(a), bytes = (outputs + rows * 2 + tiles_of_rows) * 4;
  g->scratch[g->nscratch++] = (Scratch){"own_parts", DtF32, outputs, false};
  g->scratch[g->nscratch++] = (Scratch){"own_states", DtF32, rows * 2, false};
  g->scratch[g->nscratch++] = (Scratch){"own_arrived", DtI32, tiles_of_rows, true};
  g->bytes_read += bytes, g->bytes_written += bytes, g->bytes_scratch += 2 * bytes;
}

void attend_use(Group *g, const Arch *arch, const Tile *candidate) {
  (void)arch;
  Attending a = attend_problem(g);
  Tile *t = &g->tile;
  *t = *candidate;
  t->smem = smem_of(&a, t);
  t->grid[0] = (int64_t)tile_blocks(&a, t);
  g->nscratch = 0;
  sched_count_work(g);
  g->flops *= attend_share(g, &a, t);
  if (t->splits > 1) add_scratch(g, &a);
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
  return a->softmax          ? "attention"
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
  fprintf(file, "  tiles of scores: %.1f %% skipped, %.1f %% with conditions, %.1f %% plain\n",
          100 * s.skipped / all, 100 * s.mixed / all, 100 * s.plain / all);
  fprintf(file, "  candidates (us):\n      place  rows  keys warps split  on SM   total\n");
  for (int i = 0; i < count; i++) {
    const Tile *t = &list[i];
    bool chosen = t->m == g->tile.m && t->n == g->tile.n && t->tm == g->tile.tm &&
                  t->splits == g->tile.splits;
    if (i >= kMostExplained && !chosen) continue;
    fprintf(file, "  %c %6d %5d %5d %5d %5d %6d %7.2f\n", chosen ? '*' : ' ', i + 1, t->m, t->n,
            t->threads / kWarp, t->splits, t->blocks, t->seconds * 1e6);
  }
  tuning_explain(g, file);
}

const char *attend_tile(const Group *g) {
  const Tile *t = &g->tile;
  return arena_printf(g->graph->arena,
                      t->splits > 1 ? "%d rows x %d keys x%d %s /%d" : "%d rows x %d keys x%d %s",
                      t->m, t->n, t->stages, t->unit->name, t->splits);
}
