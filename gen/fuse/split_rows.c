// split_rows.c: reduce each row in one block (strided rows: some neighbouring rows per block), or
// split rows over several blocks?
//
// One block reads a row once (twice if it does not fit in registers) and keeps it in registers for
// later sweeps and maps. The split version needs a kernel per sweep and one for the maps after
// them, each of which reads the rows again, but keeps all SMs busy if there are few rows. Which is
// faster depends on both sizes, the computation and the GPU. So groups are first made with one
// block per row; the templates then estimate each such kernel and the kernels that would replace
// it. If the split version is faster, all reductions of the kernel are marked (Node.many; reason:
// Node.blocks), and groups are made again; then other reductions may be in such a kernel.
#include "fuse.h"

#include <math.h>
#include <stdlib.h>

// Does n have as many elements as the rows, in any shape?
static bool is_full(const Group *rows, const Node *n) {
  return type_count(&n->type) == type_count(&rows->anchor->in[0]->type);
}

// ---- the split version --------------------------------------------------------------------------

// One kernel of the split version, after `sweep` sweeps: what it computes, by place in Group.nodes.
typedef struct Part {
  Group *rows;
  bool *in, *stored; // stored: written by an earlier kernel of maps
  int sweep, kernels; // kernels: number so far
} Part;

static int place_of(const Group *rows, const Node *n) {
  int i = 0;
  while (i < rows->nnodes && rows->nodes[i] != n) i++;
  return i;
}

// Has an earlier kernel stored n?
static bool is_made(const Part *p, const Node *n) {
  if (p->stored[place_of(p->rows, n)]) return true;
  if (n->op->cls == OpReduce) return n->sweep < p->sweep;
  return !is_full(p->rows, n) && n->sweep > 0 && n->sweep <= p->sweep;
}

// Adds n and the nodes of the rows from which it is computed.
static void take(Part *p, const Node *n) {
  int at = place_of(p->rows, n);
  if (at == p->rows->nnodes || p->in[at] || is_made(p, n)) return;
  p->in[at] = true;
  for (int i = 0; i < n->nin; i++) take(p, n->in[i]);
}

static bool read_apart(const Part *p, const Node *n) { // by another of the kernels
  for (int i = 0; i < p->rows->nnodes; i++)
    for (int j = 0; !p->in[i] && j < p->rows->nodes[i]->nin; j++)
      if (p->rows->nodes[i]->in[j] == n) return true;
  return false;
}

static bool leaves(const Node *n, const Group *rows) {
  for (int i = 0; i < rows->noutputs; i++)
    if (rows->outputs[i] == n) return true;
  return false;
}

static bool is_written(const Part *p, const Node *n, bool maps) {
  if (maps) return leaves(n, p->rows) && !is_made(p, n);
  return !is_full(p->rows, n) && n->sweep - (n->op->cls != OpReduce) == p->sweep &&
         (leaves(n, p->rows) || read_apart(p, n));
}

static void add_inputs(Group *k, const Node *n) {
  for (int i = 0; i < n->nin; i++) {
    Node *in = n->in[i];
    bool read = in->group ? in->group != k : node_has_memory(in) || in->placed;
    if (read) group_add_once(k->inputs, &k->ninputs, in);
  }
}

enum { kMostLarge = 2, kMostAsked = 48 };   // as in remat.c
typedef struct Large {                      // stored values from which a node is computed
  const Node *node[kMostLarge];
  int count, asked;
} Large;

// Adds the stored values as large as the rows from which n is computed; false if storing n is
// cheaper than recomputing it.
static bool find_large(const Part *p, const Node *n, Large *large) {
  if (large->asked == kMostAsked) return false;
  large->asked++;
  bool ours = place_of(p->rows, n) < p->rows->nnodes;
  if (!is_full(p->rows, n) || (ours && n->op->cls == OpReduce)) return true;
  if (!ours || is_made(p, n)) {
    for (int i = 0; i < large->count; i++)
      if (large->node[i] == n) return true;
    if (large->count == kMostLarge) return false;
    large->node[large->count++] = n;
    return true;
  }
  bool again = n->op->cls == OpMove || remat_is_cheap(p->rows->graph->c->options.arch, n);
  for (int i = 0; i < n->nin && again; i++) again = find_large(p, n->in[i], large);
  return again;
}

// The part as a group: a group of maps that writes `stored`, or the rows' outputs if NULL, or a
// group of reductions. NULL if it writes nothing.
static Group *part_group(const Part *p, bool maps, const Node *stored) {
  const Group *rows = p->rows;
  Arena *arena = rows->graph->arena;
  Group *k = arena_alloc(arena, sizeof *k);
  int most = 0;
  for (int i = 0; i < rows->nnodes; i++) most += rows->nodes[i]->nin;
  *k = (Group){.graph = rows->graph, .tm = rows->graph->c->templates};
  while (k->tm->fusion != (maps ? &fusion_map : &fusion_reduce)) k->tm++;
  k->nodes = arena_alloc(arena, sizeof *k->nodes * (size_t)rows->nnodes);
  k->outputs = arena_alloc(arena, sizeof *k->outputs * (size_t)rows->nnodes);
  k->inputs = arena_alloc(arena, sizeof *k->inputs * (size_t)(most + 1));
  for (int i = 0; i < rows->nnodes; i++) {
    Node *n = rows->nodes[i];
    if (!p->in[i]) continue;
    k->nodes[k->nnodes++] = n;
    n->group = k;
    if (stored ? n == stored : is_written(p, n, maps)) k->outputs[k->noutputs++] = n;
    if (maps || (!k->anchor && n->op->cls == OpReduce)) k->anchor = n;
  }
  if (!k->noutputs) return NULL;
  for (int i = 0; i < k->nnodes; i++) add_inputs(k, k->nodes[i]);
  k->domain = k->outputs[k->noutputs - 1]->type;
  return k;
}

static double part_seconds(Part *p, bool maps, const Node *stored) {
  Group *k = part_group(p, maps, stored);
  double seconds = k ? k->tm->seconds(k, p->rows->graph->c->options.arch) : 0;
  p->kernels += k != NULL;
  for (int i = 0; i < p->rows->nnodes; i++) p->rows->nodes[i]->group = p->rows;
  return seconds;
}

static void begin(Part *p) {
  for (int i = 0; i < p->rows->nnodes; i++) p->in[i] = false;
}

static bool reduces_now(const Part *p, const Node *n) {
  return n->op->cls == OpReduce && n->sweep == p->sweep;
}

// Is a value of the part read by anything except the reductions of x in this sweep?
static bool is_shared(const Part *p, const Node *x) {
  bool shared = false;
  for (int i = 0; i < p->rows->nnodes && !shared; i++) {
    const Node *n = p->rows->nodes[i];
    if (p->in[i]) shared = is_full(p->rows, n) && leaves(n, p->rows);
    for (int j = 0; !p->in[i] && j < n->nin && !(reduces_now(p, n) && n->in[0] == x); j++) {
      int at = place_of(p->rows, n->in[j]);
      shared = shared || (at < p->rows->nnodes && p->in[at]);
    }
  }
  return shared;
}

// Seconds of the kernel that stores x for its reductions, or 0 if each of them recomputes it.
static double stored_seconds(Part *p, const Node *x) {
  Large large = {0};
  int at = place_of(p->rows, x);
  if (at == p->rows->nnodes || is_made(p, x) || find_large(p, x, &large)) return 0;
  begin(p);
  take(p, x);
  if (!is_shared(p, x)) return 0;
  double seconds = part_seconds(p, true, x);
  p->stored[at] = true;
  return seconds;
}

// Seconds of the reductions after `sweep` sweeps, including maps of their results.
static double sweep_seconds(Part *p) {
  const Group *rows = p->rows;
  double seconds = 0;
  for (int i = 0; i < rows->nnodes; i++)
    if (reduces_now(p, rows->nodes[i])) seconds += stored_seconds(p, rows->nodes[i]->in[0]);
  begin(p);
  for (int i = 0; i < rows->nnodes; i++) {
    const Node *n = rows->nodes[i];
    bool of_rows = !is_full(rows, n) && n->sweep == p->sweep + 1 && n->op->cls == OpMap;
    if (reduces_now(p, n) || of_rows) take(p, n);
  }
  return seconds + part_seconds(p, false, NULL);
}

static double maps_seconds(Part *p) {
  begin(p);
  for (int i = 0; i < p->rows->noutputs; i++) take(p, p->rows->outputs[i]);
  return part_seconds(p, true, NULL);
}

static bool reduces_again(const Part *p) {
  bool found = false;
  for (int i = 0; i < p->rows->nnodes; i++) found = found || reduces_now(p, p->rows->nodes[i]);
  return found;
}

// Seconds of the split version; sets the number of its kernels.
static double many_seconds(Group *rows, int *kernels) {
  double seconds = 0;
  size_t count = (size_t)rows->nnodes + 1;
  row_sweeps(rows);
  Part p = {.rows = rows, .in = base_alloc(2 * count, sizeof *p.in)};
  p.stored = p.in + count;
  for (; reduces_again(&p); p.sweep++) seconds += sweep_seconds(&p);
  seconds += maps_seconds(&p);
  free(p.in);
  *kernels = p.kernels;
  return seconds;
}

// ---- the choice ---------------------------------------------------------------------------------

// Lower bound of the split version: one launch per sweep.
static bool may_pay(const Group *rows, const Arch *arch, double seconds) {
  return seconds > row_sweeps(rows) * arch->launch_gap;
}

static bool choose(Group *rows) {
  enum { kMicro = 1000000 };
  // If registers hold a row, the split version must save a fifth, as must more threads per row
  // (sched_row.c). Otherwise, if it needs several kernels, a twentieth or half a launch, whichever
  // is less: about the error of the model. By hand.
  const double much = 0.8, err = 0.05;
  const Arch *arch = rows->graph->c->options.arch;
  const Type *full = &rows->anchor->in[0]->type;
  bool held = type_innermost_in(full, rows->anchor->attr.axes) &&
              type_count(full) / type_count(&rows->anchor->type) <= kSureRow;
  double one = rows->tm->seconds(rows, arch);
  rows->tile = (Tile){0}; // sched_pass sets it again
  if (!may_pay(rows, arch, one)) return false;
  int kernels;
  double many = many_seconds(rows, &kernels);
  double least = kernels > 1 ? fmin(err * one, arch->launch_gap / 2) : 0;
  bool cheaper = held ? many < much * one : many < one - least;
  const char *format = cheaper ? "split reduction (template reduce): %.2f us modelled; "
                                 "one block per row (rowwise): %.2f us"
                               : "one block per row (template rowwise): %.2f us modelled; "
                                 "split reduction (reduce): %.2f us";
  double chosen = cheaper ? many : one, other = cheaper ? one : many;
  const char *why = arena_printf(rows->graph->arena, format, chosen * kMicro, other * kMicro);
  for (int i = 0; i < rows->nnodes; i++)
    if (rows->nodes[i]->op->cls == OpReduce)
      rows->nodes[i]->many = cheaper, rows->nodes[i]->blocks = why;
  return cheaper;
}

// Has the choice been made for all reductions of k?
static bool is_chosen(const Group *k) {
  bool chosen = true;
  for (int i = 0; i < k->nnodes; i++)
    chosen = chosen && (k->nodes[i]->op->cls != OpReduce || k->nodes[i]->blocks);
  return chosen;
}

bool split_rows_choose(Graph *g, Graph *grouped) {
  bool any = false;
  for (int i = 0; i < grouped->ngroups; i++) {
    Group *k = grouped->groups[i];
    if (k->tm->fusion == &fusion_row && !k->fixed && !is_chosen(k)) any = choose(k) || any;
  }
  for (int i = 0; i < g->nnodes && any; i++) {
    Node *n = g->nodes[i];
    const Node *made = n->uses && n->op->cls == OpReduce ? fuse_made_of(grouped, n) : NULL;
    if (made) n->many = made->many, n->blocks = made->blocks;
  }
  return any;
}
