// sched.c: the scheduling pass, work counts and reports. Contractions are scheduled in
// sched_contract.c.
#include "sched.h"

#include <math.h>
#include <string.h>

// The GPU of each architecture: NVIDIA's dense figures, to three digits, fp32 and L2 at the clock
// of the tensor peak. L2: A100 5120 B/clk (whitepaper); others 47 B/clk per SM, the cap of
// DeepGEMM's model. Launch gap: 1.3 us between kernels of a graph on H100
// (hazyresearch.stanford.edu, "no bubbles"); 1.0 on Hopper, fitted on an H200, because the model
// counts the start of blocks separately (sched_cost.c). mma_share: sched_units.c; Blackwell:
// Hopper's rate per SM, assumed.
static const Arch archs[] = {
    {"sm_80", "A100", .sms = 108, .smem = 164 << 10, .regs = 65536, .l2 = 40 << 20, .clock = 1.41,
     .dram = 2.0e12, .l2_rate = 7.2e12, .fp32 = 19.5e12, .tensor16 = 312e12, .tf32 = 156e12,
     .mma_share = 0.95, .launch_gap = 1.3e-6},
    {"sm_90a", "H200", .sms = 132, .smem = 228 << 10, .regs = 65536, .l2 = 60 << 20, .clock = 1.83,
     .dram = 4.8e12, .l2_rate = 11.4e12, .fp32 = 61.9e12, .tensor16 = 989e12, .tf32 = 494e12,
     .mma_share = 0.62, .wgmma = true, .launch_gap = 1e-6},
    {"sm_100a", "B200", .sms = 148, .smem = 228 << 10, .regs = 65536, .l2 = 126 << 20,
     .clock = 1.85, .dram = 8.0e12, .l2_rate = 12.9e12, .fp32 = 70.1e12, .tensor16 = 2250e12,
     .tf32 = 1125e12, .mma_share = 0.31, .launch_gap = 1.3e-6},
};

const Arch *arch_find(const char *name) {
  for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
    if (!strcmp(archs[i].name, name)) return &archs[i];
  return NULL;
}

const Arch *arch_default(void) {
  return arch_find("sm_90a");
}

// Peak FLOP/s of a contraction in its precision; fp32 for everything else.
double sched_flop_rate(const Group *g, const Arch *arch) {
  return g->tm->rate ? g->tm->rate(g, arch) : arch->fp32;
}

// Lower bound by arithmetic: 790 of 989 TFLOP/s of dense bf16 were measured on random data on an
// H200; assumed for all GPUs.
double sched_flop_seconds(const Group *g, const Arch *arch) {
  return g->flops / (sched_flop_rate(g, arch) * 790 / 989);
}

// Lower bound by memory: copies reach 4.3 of the H200's 4.8 TB/s; assumed for all GPUs. Scratch
// stays in L2.
double sched_dram_seconds(const Group *g, const Arch *arch) {
  int64_t bytes = g->bytes_read + g->bytes_written - g->bytes_scratch;
  return (double)bytes / (arch->dram * 4.3 / 4.8);
}

void sched_explain(const Group *g, const Arch *arch, FILE *file) {
  fprintf(file, "  floor on %s: %.2f us of arithmetic, %.2f us of memory\n", arch->gpu,
          sched_flop_seconds(g, arch) * 1e6, sched_dram_seconds(g, arch) * 1e6);
  fprintf(file, "  expected: %.2f us: %s\n", g->tile.seconds * 1e6,
          cost_text(g->graph->arena, g->tile.term));
  if (g->first)
    fprintf(file,
            "  prologue: its blocks first compute the rows of %s, %lld jobs, and wait for all\n",
            g->first->layer, (long long)ceil_div(g->first->tile.grid[0], g->first->tile.runs));
  fuse_explain(g, "  ", file);
  if (g->tm->explain) g->tm->explain(g, arch, file);
}

// ---- work -------------------------------------------------------------------------------------

double sched_contract_flops(const Node *n) {
  return 2 * maps_multiplies(n);
}

// Operations of one node. CLASS
double sched_flops(const Node *n) {
  double out = (double)type_count(&n->type);
  switch (n->op->cls) {
  case OpMap:
    return out * n->op->flops;
  case OpReduce:
  case OpScan:
  case OpSelect:
  case OpSort:
    return (double)type_count(&n->in[0]->type) * n->op->flops;
  case OpScatter:
    return (double)type_count(&n->in[1]->type) * n->op->flops;
  case OpWindow:
    return out * (double)(n->attr.kernel[0] * n->attr.kernel[1]);
  case OpContract: // without the zeros that layout inserts between and around channels
    return sched_contract_flops(node_as_written(n));
  default:
    return 0;
  }
}

// Number of the `size` rows (or columns) that a window or filter reads.
static int64_t reached(const Node *n, int i, int64_t size, int64_t kernel) {
  const Attr *a = &n->attr;
  int64_t count = 0;
  for (int64_t y = 0; y < size; y++) {
    bool hit = false;
    for (int64_t r = 0; r < kernel && !hit; r++) {
      int64_t at = y + a->pad[i] - r * a->dilation[i];
      hit = at >= 0 && at % a->stride[i] == 0 && at / a->stride[i] < n->type.dim[2 + i];
    }
    count += hit;
  }
  return count;
}

// The share of its first input that an anchor reads: below 1 if strides skip pixels.
static double share_read(const Node *n) {
  const Type *x = n->nin ? &n->in[0]->type : NULL;
  double share = 1;
  for (int d = 0; n->op->cls == OpContract && d < x->rank; d++)
    share *= maps_share_read(n, MapA, d);
  if (n->op->cls != OpWindow) return share;
  for (int i = 0; i < 2; i++) {
    share *= (double)reached(n, i, x->dim[2 + i], node_window(n, i)) / (double)x->dim[2 + i];
  }
  return share;
}

// The share of a value that gathers and slices of the group read, if nothing else reads it: at most
// one element per element of the domain.
static double share_moved(const Group *g, const Node *x) {
  double count = 0;
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++) {
      const Node *n = g->nodes[i];
      if (n->in[j] != x) continue;
      if ((!op_gathers(n->op) && !node_is_move(n, MoveSlice)) || j) return 1;
      const Type *all =
          g->tm->fusion->elements ? g->tm->fusion->elements(group_part(g, n)) : &n->type;
      count += fmin((double)type_count(&n->type), (double)type_count(all));
    }
  return fmin(1, count / (double)type_count(&x->type));
}

double sched_bytes_read(const Group *g, const Node *input) {
  const Node *x = g->anchor->nin ? g->anchor->in[0] : NULL;
  bool alone = input == x; // no other node of the group reads all of x
  for (int j = 0; j < g->nnodes; j++)
    for (int k = 0; k < g->nodes[j]->nin; k++)
      alone = alone && (g->nodes[j] == g->anchor || g->nodes[j]->in[k] != x);
  double share = (alone ? share_read(g->anchor) : 1) * share_moved(g, input);
  return share * in_place_share(g, input) * (double)type_bytes(&input->type);
}

void sched_scratch(Group *g, const char *name, Dtype dtype, int64_t count) {
  int64_t bytes = count * (int64_t)dtype_size(dtype);
  if (g->nscratch == LENGTH(g->scratch)) die("%s: too many scratch buffers", g->name);
  g->scratch[g->nscratch++] = (Scratch){name, dtype, count, .zeroed = dtype == DtI32};
  g->bytes_read += bytes;
  g->bytes_written += bytes;
  g->bytes_scratch += 2 * bytes;
}

void sched_count_work(Group *g) {
  g->flops = 0;
  g->bytes_read = g->bytes_written = g->bytes_scratch = 0;
  for (int i = 0; i < g->nnodes; i++)
    g->flops +=
        group_shares_state(g, i) ? 0 : in_place_share(g, g->nodes[i]) * sched_flops(g->nodes[i]);
  for (int i = 0; i < g->ninputs; i++) g->bytes_read += (int64_t)sched_bytes_read(g, g->inputs[i]);
  for (int i = 0; i < g->noutputs; i++)
    g->bytes_written +=
        (int64_t)(in_place_share(g, g->outputs[i]) * (double)type_bytes(&g->outputs[i]->type));
}

// ---- lanes ------------------------------------------------------------------------------------

// The widest dtype used by the group decides how many elements fit into 16 bytes.
static int most_lanes(const Group *g) {
  size_t widest = 2;
  for (int i = 0; i < g->ninputs; i++) {
    size_t size = dtype_size(g->inputs[i]->type.dtype);
    if (size > widest && type_count(&g->inputs[i]->type) * 2 > type_count(&g->domain))
      widest = size;
  }
  for (int i = 0; i < g->noutputs; i++) {
    size_t size = dtype_size(g->outputs[i]->type.dtype);
    bool of_columns = group_reduces(g, g->outputs[i]) || g->outputs[i]->tail == kFootTail;
    if (size > widest && !of_columns) widest = size;
  }
  return (int)(16 / widest);
}

int sched_divide_down(int lanes, int64_t run) {
  while (lanes > 1 && run % lanes) lanes /= 2;
  return lanes;
}

int sched_lanes(const Group *g, int64_t run) {
  return sched_divide_down(most_lanes(g), run);
}

// ---- schedules as text -------------------------------------------------------------------------

const char *sched_lanes_tile(const Group *g) {
  const Tile *t = &g->tile;
  int across = t->columns ? t->threads / t->rows : 0;
  return arena_printf(g->graph->arena, across ? "x%d, %d rows x %d" : "x%d", t->lanes, t->rows,
                      across * t->lanes);
}

const char *sched_window_tile(const Group *g) {
  const Tile *t = &g->tile;
  return arena_printf(g->graph->arena, t->items > 1 ? "x%d of %d pixels" : "x%d", t->lanes,
                      t->items);
}

const char *sched_row_tile(const Group *g) {
  const Tile *t = &g->tile;
  return arena_printf(g->graph->arena,
                      t->splits > 1 ? "%d rows x %d x %d /%d" : "%d rows x %d x %d", t->rows,
                      t->items, t->lanes, t->splits);
}

const char *sched_reduce_tile(const Group *g) {
  const Tile *t = &g->tile;
  return arena_printf(g->graph->arena, t->splits > 1 ? "%d columns x %d /%d" : "%d columns x %d",
                      t->rows, t->lanes, t->splits);
}

// ---- the pass ----------------------------------------------------------------------------------

// Does n, or the concat it is a part of, leave the graph?
static bool leaves_graph(const Graph *g, const Node *n) {
  bool leaves = n->parent && leaves_graph(g, n->parent);
  for (int i = 0; i < g->noutputs; i++) leaves = leaves || g->outputs[i].node == n;
  for (int i = 0; i < g->nupdates; i++) leaves = leaves || g->updates[i].value == n;
  return leaves;
}

// May n be rounded when stored? Not if it leaves the graph or no kernel expression stores it.
static bool may_round(const Graph *g, const Node *n) {
  const Group *k = n->group; // NULL for sources, and for concats written in place
  bool stored = k && k->tm->fusion != &fusion_heads && !group_reduces_columns(k, n);
  if ((!stored && !n->placed) || leaves_graph(g, n)) return false;
  for (int i = 0; i < n->nin && n->placed; i++)
    if (!may_round(g, n->in[i])) return false;
  return true;
}

static void mark_rounded(Node *n) {
  n->tf32 = true;
  for (int i = 0; i < n->nin && n->placed; i++) mark_rounded(n->in[i]);
}

static void round_stored(const Graph *g, const Operand *o) {
  if (o->piece && may_round(g, o->base)) mark_rounded(g->nodes[o->base->id]);
}

// If the unit truncates floats to TF32, operands are rounded when stored instead: the error of a
// term is then 2.9e-4 of either sign, instead of 7.7e-4, of which 7.0e-4 are bias.
static void round_operands(const Group *g) {
  if (!unit_truncates(g)) return;
  Product p = contract_product(g);
  round_stored(g->graph, &p.a);
  round_stored(g->graph, &p.b);
}

double sched_seconds(Group *g, const Arch *arch) {
  g->tile = (Tile){0};
  g->nscratch = 0;
  sched_count_work(g);
  g->tm->schedule(g, arch);
  double floor = fmax(g->flops / sched_flop_rate(g, arch), sched_dram_seconds(g, arch));
  if (g->tile.seconds < floor) g->tile.seconds = floor + arch->launch_gap;
  return g->tile.seconds;
}

// Needs: groups. Sets Group.tile, flops, bytes, Group.first; Node.tf32.
void sched_pass(Compiler *c) {
  for (int i = 0; i < c->graph->ngroups; i++) {
    Group *g = c->graph->groups[i];
    sched_seconds(g, c->options.arch);
    for (int d = 0; d < 3; d++)
      if (!g->tile.grid[d]) g->tile.grid[d] = 1;
  }
  for (int i = 0; i < c->graph->ngroups; i++) round_operands(c->graph->groups[i]);
  sched_prologue(c);
}
