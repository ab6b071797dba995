// fuse.c: nodes become groups; each group becomes one kernel.
//
// A group has at most one anchor (a node that is not a map or move) or, in a row group, several
// reductions over the same innermost dimensions of one full domain. Legality is about domains and
// dependence cycles (legal.c); gain.c estimates what a merge saves and costs on the target GPU.
//
// Graph rewrites before grouping (fuse_pass, copy_and_group), not with `unfused`:
//   position_tables.c         position tables that are expensive are computed once, by init
//   depthwise_wgrad.c           filter gradients of depthwise convolutions become sums
//   remat.c, remat_late.c  cheap maps are recomputed by each of their readers
//   attend_backward_own.c      each contraction of attention's backward gets its own copy of the
//   scores attend_own.c     attentions that share scores get a copy of the scores each
// Then attend.c and attend_backward.c find attention and its backward (both contractions and what
// is between them), and the table `steps` joins groups. split_rows.c decides which row reductions
// are split over blocks; as long as any is, grouping is repeated. `unfused` merges only within one
// call of a layer.
#include "fuse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const Fuse *fuse_of(const Graph *g) {
  return g->scratch;
}

static bool is_view(const Node *n) {
  return n->op->cls == OpMove;
}
static bool is_source(const Node *n) {
  return n->op->cls == OpSource;
}

bool fuse_fits_row(const Node *n) {
  int64_t count = n->op->cls == OpReduce ? type_count(&n->in[0]->type) / type_count(&n->type) : 0;
  return count > 1 && type_axes_innermost(&n->in[0]->type, n->attr.axes) && !n->many;
}

bool fuse_fits_across(const Node *n) {
  enum { kLeastRun = 8 }; // elements contiguous in memory: one sector of 32 bytes at 4 bytes each
  if (n->op->cls != OpReduce || n->many) return false;
  const Type *t = &n->in[0]->type;
  int64_t run = 1;
  if (!type_innermost_in(t, n->attr.axes)) return type_count(t) > type_count(&n->type);
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = t->order[i];
    if (t->dim[d] > 1 && !(n->attr.axes >> d & 1)) break;
    run *= t->dim[d];
  }
  return run >= kLeastRun;
}

// ---- groups -----------------------------------------------------------------------------------

static Group *new_group(Graph *g, Node *n) {
  Group *k = arena_alloc(g->arena, sizeof *k);
  k->graph = g;
  k->anchor = n;
  for (k->tm = g->c->templates; !k->tm->fusion->anchors(n);) k->tm++;
  k->fixed = n->fixed;
  k->nodes = arena_alloc(g->arena, sizeof n);
  k->nodes[0] = n;
  k->nnodes = 1;
  n->group = k;
  if (!k->tm->fusion->product) return k;
  k->tails = arena_alloc(g->arena, sizeof *k->tails);
  k->ntails = 1;
  return k;
}

static int first_id(const Group *k) {
  return k->nodes[0]->id;
}
static int last_id(const Group *k) {
  return k->nodes[k->nnodes - 1]->id;
}

void fuse_absorb(Graph *g, Group *to, Group *from) {
  Node **all = arena_alloc(g->arena, sizeof *all * (size_t)(to->nnodes + from->nnodes));
  int i = 0, j = 0, n = 0;
  while (i < to->nnodes || j < from->nnodes)
    all[n++] = j == from->nnodes || (i < to->nnodes && to->nodes[i]->id < from->nodes[j]->id)
                   ? to->nodes[i++]
                   : from->nodes[j++];
  to->nodes = all;
  to->nnodes = n;
  for (int k = 0; k < n; k++) all[k]->group = to;
  from->nnodes = 0;
}

static Node *last_map(const Group *k) { // or the last move, if it has no map
  Node *last = k->nodes[k->nnodes - 1];
  for (int i = 0; i < k->nnodes; i++)
    if (k->nodes[i]->op->cls == OpMap) last = k->nodes[i];
  return last;
}

void fuse_part(Graph *g, Group *k, const bool *own) {
  Group *part = NULL;
  int left = 0;
  assert(k->tm->fusion->maps);
  for (int i = 0; i < k->nnodes; i++) {
    Node *n = k->nodes[i];
    if (!own[i]) {
      k->nodes[left++] = n;
      continue;
    }
    Group *single = new_group(g, n);
    if (part) fuse_absorb(g, part, single);
    if (!part) part = single;
  }
  assert(part && left); // some are moved out, not all
  k->nnodes = left;
  k->anchor = last_map(k);
  part->anchor = last_map(part);
}

// Does the group that writes n, or a part of it (a concat), depend on `on`? `reader` is skipped.
static bool maker_depends(const Node *n, const Group *reader, const Group *on, Group **seen,
                          int *nseen) {
  bool found = n->group && n->group != reader && fuse_depends(n->group, on, seen, nseen);
  for (int i = 0; n->placed && !found && i < n->nin; i++)
    found = maker_depends(n->in[i], reader, on, seen, nseen);
  return found;
}

// Does `from` depend on `on`? A group that ends before `on` begins usually cannot, except through a
// group that spans both; that case is checked only in exact mode, which is slow (fuse_pass).
bool fuse_depends(Group *from, const Group *on, Group **seen, int *nseen) {
  if (from == on) return true;
  bool ends = last_id(from) < first_id(on) && !fuse_of(from->graph)->exact;
  if (from->visited || ends) return false;
  from->visited = true;
  seen[(*nseen)++] = from;
  for (int i = 0; i < from->nnodes; i++)
    for (int j = 0; j < from->nodes[i]->nin; j++)
      if (maker_depends(from->nodes[i]->in[j], from, on, seen, nseen)) return true;
  return false;
}

bool fuse_reaches(Group *from, const Group *on) {
  Group **seen = fuse_of(on->graph)->seen;
  int nseen = 0;
  bool found = from && fuse_depends(from, on, seen, &nseen);
  for (int i = 0; i < nseen; i++) seen[i]->visited = false;
  return found;
}

static void find_readers(const Graph *g, Fuse *f) {
  f->readers = arena_alloc(g->arena, sizeof *f->readers * (size_t)(g->nnodes + 1));
  f->nreaders = arena_alloc(g->arena, sizeof *f->nreaders * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++)
      f->nreaders[g->nodes[i]->in[j]->id]++;
  for (int i = 0; i < g->nnodes; i++) {
    f->readers[i] = arena_alloc(g->arena, sizeof(Node *) * (size_t)(f->nreaders[i] + 1));
    f->nreaders[i] = 0;
  }
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++) {
      int id = g->nodes[i]->in[j]->id;
      f->readers[id][f->nreaders[id]++] = g->nodes[i];
    }
}

// The readers of n: *count of them.
Node **fuse_readers(const Graph *g, const Node *n, int *count) {
  const Fuse *f = fuse_of(g);
  *count = f->nreaders[n->id];
  return f->readers[n->id];
}

static void remove_reader(const Fuse *f, const Node *n, const Node *reader) {
  Node **readers = f->readers[n->id];
  int i = 0;
  while (readers[i] != reader) i++;
  readers[i] = readers[--f->nreaders[n->id]];
}

void fuse_replace(Graph *g, Node *n, Node *by) {
  const Fuse *f = fuse_of(g);
  int count = f->nreaders[n->id];
  for (int i = 0; i < count; i++)
    for (int j = 0; j < f->readers[n->id][i]->nin; j++)
      if (f->readers[n->id][i]->in[j] == n) f->readers[n->id][i]->in[j] = by;
  Node **all = arena_alloc(g->arena, sizeof *all * (size_t)(f->nreaders[by->id] + count));
  for (int i = 0; i < f->nreaders[by->id]; i++) all[i] = f->readers[by->id][i];
  for (int i = 0; i < count; i++) all[f->nreaders[by->id]++] = f->readers[n->id][i];
  f->readers[by->id] = all;
  by->uses += n->uses;
  for (int i = 0; i < n->nin; i++) {
    n->in[i]->uses--;
    remove_reader(f, n->in[i], n);
  }
  n->uses = f->nreaders[n->id] = 0;
  n->group = NULL;
}

const Node *fuse_only_reader(const Node *n) {
  int count;
  Node **readers = fuse_readers(n->group->graph, n, &count);
  return count == 1 && n->uses == 1 ? readers[0] : NULL;
}

bool fuse_listed(const Node *const *list, int count, const Node *n) {
  for (int i = 0; i < count; i++)
    if (list[i] == n) return true;
  return false;
}

int fuse_mapped(const Node *n, const Node **list) {
  int count = 0;
  list[count++] = n;
  for (int i = 0; i < count; i++) {
    int nreaders;
    Node **readers = fuse_readers(n->group->graph, list[i], &nreaders);
    for (int j = 0; j < nreaders && count < kMostNodes; j++)
      if (readers[j]->op->cls == OpMap && type_same_shape(&readers[j]->type, &n->type) &&
          !fuse_listed(list, count, readers[j]))
        list[count++] = readers[j];
  }
  return count;
}

// Would merging `a` (earlier) and `b` create a dependence cycle through a third group?
bool fuse_makes_cycle(const Group *a, const Group *b) {
  Group **seen = fuse_of(a->graph)->seen;
  int nseen = 0;
  bool found = false;
  for (int i = 0; !found && i < b->nnodes; i++)
    for (int j = 0; !found && j < b->nodes[i]->nin; j++)
      if (b->nodes[i]->in[j]->group != a) // a concat's part may still depend on `a` through memory
        found = maker_depends(b->nodes[i]->in[j], b, a, seen, &nseen);
  for (int i = 0; i < nseen; i++) seen[i]->visited = false;
  return found;
}

bool fuse_same_call(const Group *a, const Group *b) {
  return !fuse_of(a->graph)->one_call || a->nodes[0]->call == b->nodes[0]->call;
}

// ---- epilogues --------------------------------------------------------------------------------

static const char *why_elsewhere(int64_t gain) {
  return gain < 0 ? "computed there, it would cost more than it saves"
                  : "it was fused with another producer, which saves more";
}

// The group of an input of n that gains most from computing n, or NULL. Groups with an
// anchor that is not a map count 4 times.
static Group *best_producer(Node *n) {
  Group *best = NULL;
  int64_t most = 0; // below 0, fusing costs more than it saves
  n->apart = arena_alloc(n->group->graph->arena, sizeof *n->apart * (size_t)(n->nin + 1));
  for (int i = 0; i < n->nin; i++) {
    Group *k = n->in[i]->group;
    if (!k || k == n->group || (n->late && !n->in[i]->late)) continue;
    n->apart[i] = legal_epilogue(k, n);
    if (n->apart[i]) continue;
    int64_t gain = gain_behind(k, n) * (k->tm->fusion->maps ? 1 : 4);
    n->apart[i] = why_elsewhere(gain); // only printed if n is not fused there
    // on a tie the later one: n's other inputs are ready by then
    if (gain >= most) most = gain, best = k;
  }
  return best;
}

// Is n a reduction, or a map whose only reader is a row reduction?
static bool is_reduced(const Node *n) {
  const Node *next = n->op->cls == OpMap ? fuse_only_reader(n) : NULL;
  return n->op->cls == OpReduce || (next && next->op->cls == OpReduce && fuse_fits_row(next));
}

// A group of reductions over the same inputs (through private copies of maps) that n may join, or
// NULL.
static Group *sibling_of(Node *n) {
  const Node *list[kMostNodes] = {n}; // n, and its private producers
  for (int at = 0, nlist = 1; at < nlist; at++)
    for (int i = 0; i < list[at]->nin; i++) {
      int count;
      const Node *in = list[at]->in[i];
      Node **readers = fuse_readers(n->group->graph, in, &count);
      for (int j = 0; j < count && type_count(&in->type) > 1; j++) {
        Group *k = readers[j]->group;
        if (k && k->tm->fusion->sweeps && k != n->group && !legal_epilogue(k, n)) return k;
      }
      if (in->late && nlist < kMostNodes && !fuse_listed(list, nlist, in)) list[nlist++] = in;
    }
  return NULL;
}

// A reduction that joins no producer joins a reduction over the same elements that shares one of
// its inputs, which is then read only once.
static Group *best_sibling(Node *n) {
  return is_reduced(n) ? sibling_of(n) : NULL;
}

// True for maps, and for moves that read by computed index (gather, roll).
static bool makes_each(const Node *n) {
  return n->op->cls == OpMap || op_gathers(n->op);
}

// n has just joined k: maps over the same domain that feed n join k as well.
static void gather_feeders(Graph *g, Group *k, const Node *n) {
  for (int i = 0; i < n->nin; i++) {
    Group *other = n->in[i]->group;
    if (!other || other == k || !other->tm->fusion->maps || !k->tm->fusion->maps ||
        (n->late && !n->in[i]->late) || other->fixed != k->fixed ||
        other->anchor->again != k->anchor->again || !fuse_same_call(other, k) ||
        legal_size(k, other) || !type_same_shape(&other->anchor->type, &n->type) ||
        !makes_each(other->anchor) || fuse_makes_cycle(other, k) || fuse_makes_cycle(k, other))
      continue;
    fuse_absorb(g, k, other);
  }
}

static void grow_epilogues(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    if (!n->group || n->group->nnodes != 1) continue;
    if (n->op->cls == OpMap && !fuse_of(g)->one_call) sibling_meet(g, n);
    bool late = n->op->cls == OpReduce && n->in[0]->late; // its maps are gathered afterwards
    Group *k = late ? best_sibling(n) : NULL, *own = n->group;
    if (!k) k = best_producer(n);
    if (!k) k = best_sibling(n);
    if (!k) continue;
    bool maps = k->tm->fusion->maps, alike = is_view(n) && legal_lies_alike(k, n);
    bool goes_on = alike && maps && legal_alone(k, n); // k's domain becomes the new shape
    fuse_absorb(g, k, own);
    if (k->tm->fusion->product) tail_join(k, n);
    if (maps && !own->tm->fusion->maps)
      k->tm = own->tm, k->anchor = n;
    else if (maps && (!alike || goes_on))
      k->anchor = n;
    gather_feeders(g, k, n);
  }
}

// ---- small constant kernels --------------------------------------------------------------------

// Is n computed only from positions, literals and init's results, and read only by kernels? Not for
// attention, which computes its masks itself to classify tiles.
static bool is_known(const Group *k, const Node *n) {
  int count;
  Node **readers = fuse_readers(k->graph, n, &count);
  bool known = count == n->uses && !n->parent && n->op->typing != TypeDraw && !n->again;
  for (int i = 0; i < n->nin; i++) {
    const Node *x = n->in[i];
    // a parameter's copy changes with it
    bool fixed = (x->fixed && !x->follows) || node_is_computed(x);
    known = known && (x->group == k || fixed);
  }
  for (int i = 0; i < count; i++)
    known = known && !(readers[i]->group && readers[i]->group->attention);
  return known && !n->follows;
}

// Small kernels whose result is the same in every run move to init; larger ones become tables if
// that pays (position_tables.c).
static void fix_known(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    bool known = k && !k->fixed && k->nodes[0] == g->nodes[i] && k->tm->fusion->maps &&
                 gain_is_small(g->c->options.arch, k);
    for (int j = 0; known && j < k->nnodes; j++) known = is_known(k, k->nodes[j]);
    if (!known) continue;
    k->fixed = true;
    for (int j = 0; j < k->nnodes; j++) k->nodes[j]->fixed = true;
  }
}

// ---- the pass ---------------------------------------------------------------------------------

// One group for each node; then attention forward and backward, which span several nodes.
static void begin_groups(Graph *g, Fuse *f) {
  f->seen = arena_alloc(g->arena, sizeof *f->seen * (size_t)(g->nnodes + 1));
  g->scratch = f;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->uses && !is_source(g->nodes[i])) new_group(g, g->nodes[i]);
  find_readers(g, f);
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    if (!k || k->nnodes != 1 || f->one_call || g->c->options.no_flash) continue;
    attend_backward_find(g, k);
    if (!k->attention && k->tm->fusion->product) attend_find(g, k);
  }
}

bool *fuse_attentions(Graph *g) {
  bool *found = arena_alloc(g->arena, sizeof *found * (size_t)(g->nnodes + 1));
  Fuse f = {0};
  begin_groups(g, &f);
  for (int i = 0; i < g->nnodes; i++) {
    const Group *k = g->nodes[i]->group;
    found[i] = k && k->attention && k->anchor == g->nodes[i];
  }
  g->scratch = NULL;
  return found;
}

Node *fuse_made_of(const Graph *made, Node *n) {
  while (n && (n->id >= made->nnodes || made->nodes[n->id] != n))
    n = n->subst == n ? NULL : n->subst;
  return n;
}

// Which lowerings run a step.
enum When { Always, Fused, JoinsKernels }; // JoinsKernels: fused, and not --apart

static bool is_wanted(const Compiler *c, enum When when) {
  if (when == JoinsKernels && c->options.apart) return false;
  return when == Always || options_fused(&c->options);
}

// The two halves of a GLU (tail.c) and pairs of slices, as in rotary embeddings (rotary.c).
static void pair_products(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    if (!k || k->nnodes != 1 || !k->tm->fusion->product) continue;
    tail_pair(g, k);
    if (options_fused(&g->c->options)) rotary_find(g, k);
  }
}

static const struct FuseStep {
  void (*run)(Graph *);
  enum When when;
} steps[] = {
    {pair_products, Always},
    // Forward: a map joins the group of one of its inputs if it has the same domain; a reduction
    // joins maps before it or reductions of the same elements; a contraction stores where moves of
    // its result lead.
    {grow_epilogues, Always},
    {heads_find, Always},          // maps of q, k and v that attention computes as it loads them
    {place_concats, JoinsKernels}, // parts of a concat that are written in place
    // Backward: maps and moves join their only reader, if its template can evaluate an expression
    // at each element it loads.
    {prologue_grow, Always},
    {merge_copies, Always},              // copies that one kernel computes become one value
    {horizontal_join, Fused},            // groups that read one value over the same elements
    {row_join_readers, Fused},           // row kernels and what reads their results
    {merge_copies, Always},              // of rows that were joined
    {fix_known, Fused},                  // small kernels of constants belong to init
    {horizontal_join_numbers, Fused},    // reductions to single numbers
    {multi_launch_groups, JoinsKernels}, // small independent maps become one launch
    {horizontal_join_stored, Fused},     // reductions store maps of their elements; last, as row
                                         // kernels and bundles have priority
};

// Makes the groups; false if two of them would depend on each other.
static bool make_groups(Compiler *c, Graph *g, bool exact) {
  Fuse f = {.one_call = !options_fused(&c->options), .exact = exact};
  begin_groups(g, &f);
  for (size_t i = 0; i < LENGTH(steps); i++)
    if (is_wanted(c, steps[i].when)) steps[i].run(g);
  bool ordered = group_finish(g);
  g->scratch = NULL;
  return ordered;
}

// Copies values that several kernels recompute, then groups.
static Graph *copy_and_group(Compiler *c, Graph *g) {
  g = options_fused(&c->options) ? remat_own(g) : graph_copy(g);
  if (options_flash(&c->options)) g = attend_own(attend_backward_own(g));
  if (make_groups(c, g, false)) return g;
  g = graph_copy(g);
  if (!make_groups(c, g, true)) die("two kernels wait for each other");
  return g;
}

// Needs: dtypes and memory orders. Produces Graph.groups in launch order, with names, inputs,
// outputs.
void fuse_pass(Compiler *c) {
  Graph *g =
      options_fused(&c->options) ? depthwise_wgrad_make(position_tables_make(c->graph)) : c->graph;
  enum { kMostChoices = 4 };
  c->graph = copy_and_group(c, g);
  for (int i = 0; i < kMostChoices && split_rows_choose(g, c->graph); i++)
    c->graph = copy_and_group(c, g);
  if (options_fused(&c->options)) c->graph = scatter_choose(g, c->graph, copy_and_group);
}
