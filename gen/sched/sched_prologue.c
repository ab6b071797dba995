// sched_prologue.c: GEMM kernels with a fused normalisation prologue, for norms whose statistics no
// preceding product can compute (fold_norms.c), such as that of the model's input. All blocks
// compute the rows, job by job, store them as the separate kernel would, and wait for all
// (lib/first.cuh): this saves a launch and costs the wait, during which each block loads its first
// right operand.
//
// Fusion is decided after tiles are chosen, since the cost depends on them. The rows' group
// remains, with its own nodes and a tile for the product's threads, as Group.first of the product.
#include "sched.h"

#include <math.h>
#include <string.h>

// ---- legality ---------------------------------------------------------------------------------

static bool reads(const Group *k, const Node *n) {
  for (; n; n = n->parent)
    for (int i = 0; i < k->ninputs; i++)
      if (k->inputs[i] == n) return true;
  return false;
}

static bool reads_any(const Group *k, const Group *of) {
  for (int i = 0; i < of->noutputs; i++)
    if (reads(k, of->outputs[i])) return true;
  return false;
}

// Does k update in place a state that `rows` reads or is?
static bool changes_state(const Group *k, const Group *rows) {
  const Graph *g = k->graph;
  for (int i = 0; i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    if (u->in_place && u->value->group == k && (k == rows || reads(rows, u->state))) return true;
  }
  return false;
}

// Does a launch between the two depend on the rows, or change their inputs?
static bool is_between(const Group *rows, const Group *product) {
  const Graph *g = product->graph;
  for (int i = rows->id + 1; i < product->id; i++)
    if (reads_any(g->groups[i], rows) || changes_state(g->groups[i], rows)) return true;
  return false;
}

// Does k compute n (or NULL), or a part of it?
static bool has_part(const Node *n, const Group *k) {
  bool found = n && n->group == k;
  for (int i = 0; n && n->placed && i < n->nin; i++) found = found || has_part(n->in[i], k);
  return found;
}

static int pointers(const Group *k) {
  return k->ninputs + k->noutputs + k->nscratch;
}

static const char *legal_first(const Group *rows, const Group *product) {
  enum { kRegisters = 50 }; // 38 that a product needs anyway, and 12: with 8, one tile spilled
  Product p = contract_product(product);
  if (!rows->tile.together)
    return "its rows are strided in memory, which a product's prologue does not support";
  if (has_part(p.b.base, rows)) return "both operands of the product read these rows";
  if (is_between(rows, product)) return "a kernel between them reads it or changes a state";
  if (changes_state(rows, rows) || changes_state(product, rows))
    return "a state is updated in place";
  if (!tile_leaves(&product->tile, &p, kRegisters))
    return "the product's tile leaves no registers";
  if (pointers(rows) + pointers(product) >= kMostPointers)
    return "the combined kernel would have too many pointers";
  return NULL;
}

// ---- cost -------------------------------------------------------------------------------------

// Not if a block might begin its second tile with an empty ring.
bool first_loads_early(const Group *product, const Arch *arch) {
  Product p = contract_product(product);
  const Tile *t = &product->tile;
  int64_t blocks = ceil_div(p.k, t->k);
  return p.b.piece &&
         (!tile_walks(t, &p, product, arch) || blocks >= t->stages - 1 - t->unit->in_flight);
}

// Seconds until all blocks know that the rows are complete: the first job number, and detecting the
// last arrival. Meanwhile a block sets up and loads its first right operand.
static double waiting_seconds(const Group *product, const Arch *arch, double jobs_of_block) {
  const Tile *t = &product->tile;
  double clocks = kLoadClocks + kLastBlock + jobs_of_block * kBarrierClocks;
  double share = t->n / (double)(t->m + t->n), early = tile_setup_clocks(t);
  if (first_loads_early(product, arch)) early += share * kLoadClocks;
  return (clocks - early) / (arch->clock * 1e9);
}

// The tile of the fused kernel: the terms of both, minus a launch.
static Tile joined_tile(const Group *product, const Cost *rows, double waiting) {
  Tile made = {0}, t = product->tile;
  cost_note(&made, rows);
  for (int i = 0; i < CostNoted; i++) t.term[i] += i == TermLaunch ? 0 : made.term[i];
  t.term[TermJoin] += waiting;
  t.seconds += rows->seconds - rows->gap + waiting;
  return t;
}

// ---- joining ------------------------------------------------------------------------------------

static void gather_borders(Group *product) {
  Group *rows = product->first;
  Arena *arena = product->graph->arena;
  product->reads =
      arena_alloc(arena, sizeof(Node *) * (size_t)(pointers(rows) + pointers(product)));
  product->writes =
      arena_alloc(arena, sizeof(Node *) * (size_t)(pointers(rows) + pointers(product)));
  for (int i = 0; i < rows->ninputs; i++)
    group_add_once(product->reads, &product->nreads, rows->inputs[i]);
  for (int i = 0; i < product->ninputs; i++) {
    bool made = false;
    for (int j = 0; j < rows->noutputs; j++) made = made || rows->outputs[j] == product->inputs[i];
    if (!made) group_add_once(product->reads, &product->nreads, product->inputs[i]);
  }
  for (int i = 0; i < rows->noutputs; i++)
    group_add_once(product->writes, &product->nwrites, rows->outputs[i]);
  for (int i = 0; i < product->noutputs; i++)
    group_add_once(product->writes, &product->nwrites, product->outputs[i]);
}

// The symbol: the rows', then the product's without their common scope.
static const char *joined_name(const Group *product, const Group *rows) {
  enum { kMost = 120 }; // bytes; a plan allows 200
  Graph *g = product->graph;
  size_t scope = strlen(g->model) + 2;
  for (size_t i = scope; rows->name[i] && rows->name[i] == product->name[i]; i++)
    if (rows->name[i] == '_') scope = i + 1;
  const char *both = arena_printf(g->arena, "%s_%s", rows->name, product->name + scope);
  return names_take(g->symbols, arena_printf(g->arena, "%.*s", kMost, both));
}

// The layer name stays the product's.
static void join(Group *product, Group *rows) {
  enum { kCounts = 3 };
  Arena *arena = product->graph->arena;
  product->first = rows, rows->inside = product;
  gather_borders(product);
  sched_scratch(product, "own_first", DtI32, kCounts);
  product->flops += rows->flops;
  product->bytes_read += rows->bytes_read;
  product->bytes_written += rows->bytes_written;
  product->name = joined_name(product, rows);
  product->ops = arena_printf(arena, "%s+%s", rows->ops, product->ops);
}

// fuse up to this factor: equal to the model, and one kernel less
static const double kNoWorse = 1.04;

// Fuses the rows of the product's left operand if that is cheaper; else notes why.
static void join_first(Group *product, const Arch *arch) {
  Product p = contract_product(product);
  Node *base = (Node *)p.a.base;
  Group *rows = base ? base->group : NULL;
  if (!rows || rows == product || rows->tm->fusion != &fusion_row || rows->inside) return;
  if (rows->fixed || product->fixed || rows->anchor->entry != product->anchor->entry) return;
  const char *reason = legal_first(rows, product);
  Tile alone = rows->tile, joined;
  Cost cost;
  if (!reason && !row_cut_inside(rows, arch, &product->tile, &cost))
    reason = "its rows are too long for a warp's registers";
  if (!reason) {
    double at_once = fmin((double)product->tile.grid[0], (double)arch->sms * product->tile.blocks);
    double jobs = ceil((double)ceil_div(rows->tile.grid[0], rows->tile.runs) / at_once);
    joined = joined_tile(product, &cost, waiting_seconds(product, arch, jobs));
    if (joined.seconds >= (alone.seconds + product->tile.seconds) * kNoWorse)
      reason = "the product would wait longer for its rows than a launch costs";
  }
  if (reason) {
    rows->tile = alone;
    if (!base->kept) base->kept = reason; // a reason for scores in memory is more informative
    return;
  }
  product->tile = joined;
  join(product, rows);
}

void sched_prologue(Compiler *c) {
  Graph *g = c->graph;
  int count = 0;
  if (!options_fused(&c->options) || c->options.apart) return;
  for (int i = 0; i < g->ngroups; i++)
    if (g->groups[i]->tm->fusion == &fusion_contract) join_first(g->groups[i], c->options.arch);
  for (int i = 0; i < g->ngroups; i++) {
    if (g->groups[i]->inside) continue;
    g->groups[i]->id = count;
    g->groups[count++] = g->groups[i];
  }
  g->ngroups = count;
}
