// remat_late.c: values that several kernels derive from one large value, its root, as backward
// kernels do from activations. A cheap map of a root is recomputed by each map of a later kernel
// that also reads other large values, if
// - the root is in memory anyway, or
// - two or more such maps would otherwise have to be stored: the root is stored instead; or
// - the map reads a conversion to more bytes: the unconverted value is read instead.
// The copies are marked late: no earlier kernel computes them (fuse.c).
#include "fuse.h"

// Arrays by id in the old graph.
struct Late {
  bool *stored; // is it in memory in any case?
  // The large value of which the node is a cheap map, directly or through others; the node itself
  // if it is not one; NULL if it depends on no large value. root: a stored node is its own root;
  // made: not.
  const Node **root, **made;
  double *work;        // operations from the root to the node
  // nodes other than maps on the longest path to it; beside: through large values only
  int *level, *beside;
  int *cuts;           // of a root: its maps that are read next to other values
  const Node **latest; // the last producer among the large values that is not a map
};

// Is it cheaper to do `work` again than to write a value like n's and to read it? Small values stay
// in the L2 cache: only the read counts.
static bool pays_again(const Arch *arch, const Node *n, double work) {
  return gain_again_work(arch, n, gain_small_read(arch, &n->type) ? work : work / 2);
}

static bool is_cheap(const Arch *arch, const Node *n) {
  return remat_may_copy(n) && pays_again(arch, n, n->op->flops);
}

static bool stays(const Late *c, const Node *n) {
  return c->stored[n->id] || node_has_memory(n) || n->fixed;
}

static void find_level(Late *c, const Node *n) {
  int level = 0, beside = 0, own = n->op->cls != OpMap && n->op->cls != OpSource;
  for (int i = 0; i < n->nin; i++) {
    const Node *in = n->in[i];
    if (c->level[in->id] > level) level = c->level[in->id];
    if ((own || remat_is_large(in, n)) && c->beside[in->id] > beside) beside = c->beside[in->id];
  }
  c->level[n->id] = level + own;
  c->beside[n->id] = beside + own;
}

// A value that a map of a later kernel reads is stored, unless it is a cheap map.
static void note_read_later(Late *c, const Arch *arch, const Node *m) {
  for (int i = 0; m->uses && m->op->cls == OpMap && i < m->nin; i++) {
    const Node *n = m->in[i];
    if (c->level[m->id] > c->level[n->id] && !is_cheap(arch, n)) c->stored[n->id] = true;
  }
}

// Sets root, made and work of n; its inputs are done.
static void find_root(Late *c, const Arch *arch, const Node *n) {
  const Node *root = NULL;
  c->root[n->id] = c->made[n->id] = n;
  c->work[n->id] = 0;
  if (!is_cheap(arch, n)) return;
  double work = n->op->flops;
  for (int i = 0; i < n->nin; i++) {
    const Node *in = n->in[i];
    if (!remat_is_large(in, n) || node_is_computed(in)) continue;
    const Node *from = c->root[in->id];
    if (from && root && from != root) return;
    if (from) root = from;
    work += c->work[in->id];
  }
  // small maps of reductions are computed where they are read
  bool sums = root && root->op->cls == OpReduce;
  if (root && (sums || !pays_again(arch, n, work))) return;
  c->made[n->id] = root;
  if (stays(c, n)) return;
  c->root[n->id] = root;
  c->work[n->id] = work;
}

// Does map m read n, which is not a root, and depend on a later kernel than n's root does?
static bool is_cut(const Late *c, const Node *m, const Node *n) {
  const Node *root = c->root[n->id];
  return root && root != n && root != c->made[m->id] && c->beside[m->id] > c->beside[root->id] &&
         type_count(&n->type) > 1;
}

static void count_cuts(Late *c, const Graph *g) {
  bool *seen = arena_alloc(g->arena, sizeof *seen * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++) {
    const Node *m = g->nodes[i];
    for (int j = 0; m->uses && m->op->cls == OpMap && j < m->nin; j++) {
      const Node *n = m->in[j];
      if (seen[n->id] || !is_cut(c, m, n)) continue;
      seen[n->id] = true;
      c->cuts[c->root[n->id]->id]++;
    }
  }
}

static void find_latest(Late *c, const Node *n) {
  const Node *latest = NULL;
  for (int i = 0; n->op->cls == OpMap && i < n->nin; i++) {
    const Node *from = c->latest[n->in[i]->id];
    if (remat_is_large(n->in[i], n) && (!latest || from->id > latest->id)) latest = from;
  }
  c->latest[n->id] = latest ? latest : n;
}

bool remat_late_sums_columns(const Late *c, const Node *n) {
  const Node *product = c->latest[n->id];
  bool waits = c->level[n->id] > c->level[product->id]; // it depends on a later kernel, too
  if (product->op->cls != OpContract || waits) return false;
  Maps maps = maps_of(product, 0);
  return maps_count(&maps, AxisBatch) == 1;
}

static bool is_kept(const Late *c, const Node *root) { // NULL: nothing to keep
  return !root || stays(c, root) || c->cuts[root->id] > 1;
}

// Is n a conversion to more bytes, such as a condition to 0 or 1? Its input is stored instead.
static bool widens(const Node *n) {
  return n->op->typing == TypeConvert && n->uses == 1 &&
         type_bytes(&n->in[0]->type) < type_bytes(&n->type);
}

bool remat_late_wants(const Late *c, const Node *map, const Node *n) {
  return is_cut(c, map, n) && (is_kept(c, c->root[n->id]) || widens(n));
}

Node *remat_late_copy(Graph *to, const Late *c, Node *old) {
  Node *in[MaxInputs];
  if (c->root[old->id] == old) return old->subst;
  for (int i = 0; i < old->nin; i++)
    in[i] = remat_is_large(old->in[i], old) && is_kept(c, c->root[old->id])
                ? remat_late_copy(to, c, old->in[i])
                : old->in[i]->subst;
  Node *copy = remat_copy(to, old, in);
  copy->late = true;
  return copy;
}

Late *remat_late_begin(const Graph *g, bool *stored) {
  size_t count = (size_t)g->nnodes + 1;
  Late *c = arena_alloc(g->arena, sizeof *c);
  *c = (Late){.stored = stored,
              .root = arena_alloc(g->arena, sizeof(Node *) * count),
              .made = arena_alloc(g->arena, sizeof(Node *) * count),
              .work = arena_alloc(g->arena, sizeof(double) * count),
              .level = arena_alloc(g->arena, sizeof(int) * count),
              .beside = arena_alloc(g->arena, sizeof(int) * count),
              .cuts = arena_alloc(g->arena, sizeof(int) * count),
              .latest = arena_alloc(g->arena, sizeof(Node *) * count)};
  for (int i = 0; i < g->nnodes; i++) {
    find_level(c, g->nodes[i]);
    find_latest(c, g->nodes[i]);
  }
  return c;
}

// The result of a contraction's epilogue is stored if a map of a later kernel reads it without
// recomputing it.
static void note_epilogues(Late *c, const Graph *g) {
  bool *stored = arena_alloc(g->arena, sizeof *stored * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++) {
    const Node *m = g->nodes[i];
    for (int j = 0; m->uses && m->op->cls == OpMap && j < m->nin; j++) {
      const Node *n = m->in[j];
      const Node *product = c->latest[n->id];
      bool own = product->op->cls == OpContract && c->level[n->id] == c->level[product->id];
      bool later = own && n->op->cls == OpMap && c->level[m->id] > c->level[n->id];
      stored[n->id] = stored[n->id] || (later && !remat_late_wants(c, m, n));
    }
  }
  for (int i = 0; i < g->nnodes; i++) c->stored[i] = c->stored[i] || stored[i];
}

void remat_late_find(Late *c, const Graph *g) {
  const Arch *arch = g->c->options.arch;
  for (int i = 0; i < g->nnodes; i++) note_read_later(c, arch, g->nodes[i]);
  for (int i = 0; i < g->nnodes; i++) find_root(c, arch, g->nodes[i]);
  count_cuts(c, g);
  note_epilogues(c, g);
}
