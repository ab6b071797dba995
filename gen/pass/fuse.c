// fuse.c: nodes become groups, one kernel each.
//
// Every group has at most one anchor (a node that is no map or move), or, in a row group,
// reductions over the same innermost dimensions of one full domain. In this order:
//   chain.c     a reduction that reads its row again gets the cheap maps before it for itself
//   epilogue    forward: a map joins the group that makes one of its inputs, when it runs over the
//               same domain; a reduction joins the maps before it, and others of the same elements;
//               a contraction follows moves of its result, and stores where they lead
//   place.c     concats whose parts can be written where they belong need no kernel
//   prologue.c  backward: a group of maps and moves joins its only reader, when that template can
//               evaluate an expression at each element it reads
//   sibling.c   groups that read one value and run over the same elements become one
// Legality is about domains and cycles; cost is about bytes: a merge must save more traffic than
// recomputation or worse access adds. `unfused` merges only within one call of the model, and takes
// only the epilogues and prologues.
#include "pass.h"

#include <stdlib.h>
#include <string.h>

enum { kMostColumnSums = 4 };

const Fuse *fuse_of(const Graph *g) {
  return g->scratch;
}

static bool is_view(const Node *n) {
  return n->op->cls == OpMove;
}
static bool is_source(const Node *n) {
  return n->op->cls == OpSource;
}
// Does each element of its input go to one place, or none?
static bool scatters(const Node *n) {
  return is_view(n) && n->op->form <= MoveSlice;
}

// ---- domains ----------------------------------------------------------------------------------

static int64_t reduced_count(const Node *n) {
  return type_count(&n->in[0]->type) / type_count(&n->type);
}

bool fuse_fits_row(const Node *n) {
  return n->op->cls == OpReduce && reduced_count(n) > 1 &&
         type_axes_innermost(&n->in[0]->type, n->attr.axes) && reduced_count(n) <= kMostRow;
}

// The template of a group with this anchor. CLASS
static Template template_of(const Node *n) {
  switch (n->op->cls) {
  case OpReduce:
    return fuse_fits_row(n) ? TmRow : TmReduce;
  case OpScan:
    return TmScan;
  case OpSelect:
    return TmSelect;
  case OpWindow:
    return TmWindow;
  case OpContract:
    return node_depthwise(n) ? TmWindow : TmContract;
  default:
    return TmMap;
  }
}

// May a value of this shape be computed in the group's epilogue?
static bool in_domain(const Group *g, const Type *t) {
  if (g->tm == TmRow && type_same_shape(&g->anchor->in[0]->type, t)) return true;
  return type_same_shape(&group_last_made(g)->type, t);
}

// ---- groups -----------------------------------------------------------------------------------

static Group *new_group(Graph *g, Node *n) {
  Group *k = arena_alloc(g->arena, sizeof *k);
  k->graph = g;
  k->anchor = n;
  k->tm = template_of(n);
  k->fixed = n->fixed;
  k->nodes = arena_alloc(g->arena, sizeof n);
  k->nodes[0] = n;
  k->nnodes = 1;
  n->group = k;
  return k;
}

static int first_id(const Group *k) {
  return k->nodes[0]->id;
}
static int last_id(const Group *k) {
  return k->nodes[k->nnodes - 1]->id;
}

// Moves the nodes of `from` into `to`, in topological order.
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

// Does `from` depend on `on`? Groups that end before `on` begins cannot.
bool fuse_depends(Group *from, const Group *on, Group **seen, int *nseen) {
  if (from == on) return true;
  if (from->visited || last_id(from) < first_id(on)) return false;
  from->visited = true;
  seen[(*nseen)++] = from;
  for (int i = 0; i < from->nnodes; i++)
    for (int j = 0; j < from->nodes[i]->nin; j++) {
      Group *before = from->nodes[i]->in[j]->group;
      if (before && before != from && fuse_depends(before, on, seen, nseen)) return true;
    }
  return false;
}

static void find_users(const Graph *g, Fuse *f) {
  int total = 0, *first_user = arena_alloc(g->arena, sizeof *first_user * (size_t)(g->nnodes + 2));
  int *count = first_user + 2; // shifted, so that filling leaves the starts in place
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++, total++)
      count[g->nodes[i]->in[j]->id]++;
  for (int i = 1; i + 2 < g->nnodes + 2; i++) first_user[i + 1] += first_user[i];
  Node **users = arena_alloc(g->arena, sizeof *users * (size_t)(total + 1));
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++)
      users[first_user[g->nodes[i]->in[j]->id + 1]++] = g->nodes[i];
  f->users = users;
  f->first_user = first_user;
}

// The readers of n: *count of them.
Node **fuse_readers(const Graph *g, const Node *n, int *count) {
  const Fuse *f = fuse_of(g);
  *count = f->first_user[n->id + 1] - f->first_user[n->id];
  return f->users + f->first_user[n->id];
}

// Would one kernel of `a` (earlier) and `b` wait for itself, through a third group?
bool fuse_makes_cycle(const Group *a, const Group *b) {
  Group **seen = fuse_of(a->graph)->seen;
  int nseen = 0;
  bool found = false;
  for (int i = 0; !found && i < b->nnodes; i++)
    for (int j = 0; !found && j < b->nodes[i]->nin; j++) {
      Group *before = b->nodes[i]->in[j]->group;
      if (before && before != a && before != b) found = fuse_depends(before, a, seen, &nseen);
    }
  for (int i = 0; i < nseen; i++) seen[i]->visited = false;
  return found;
}

bool fuse_same_call(const Group *a, const Group *b) {
  return !fuse_of(a->graph)->one_call || a->nodes[0]->call == b->nodes[0]->call;
}

// ---- epilogues --------------------------------------------------------------------------------

// A transposing store writes one element of each sector: only small values may be stored so.
static bool stores_runs(Lane lane, const Type *t) {
  int64_t stride[MaxRank];
  type_strides(t, stride);
  return (lane.dim >= 0 && stride[lane.dim] == 1) || type_bytes(t) < 1 << 16;
}

// Would the group store this map in runs?
static bool stores_well(const Group *k, const Node *n) {
  const Type *made = &k->anchor->type, *t = &n->type;
  if (k->nmoves) return stores_runs(group_lane(k), t);
  if (k->tm == TmMap || !type_same_shape(made, t)) return true;
  int64_t a[MaxRank], b[MaxRank];
  type_strides(made, a);
  type_strides(t, b);
  bool same = !memcmp(a, b, sizeof a[0] * (size_t)t->rank);
  return same || type_bytes(t) < 1 << 16;
}

// A reduction joins the group of its input: maps over its full domain, or the same rows.
static bool rows_join(const Group *k, const Node *n) {
  if (!fuse_fits_row(n)) return false;
  if (k->tm == TmMap) return type_same_shape(&k->anchor->type, &n->in[0]->type);
  return k->tm == TmRow && k->anchor->attr.axes == n->attr.axes &&
         type_same_shape(&k->anchor->in[0]->type, &n->in[0]->type);
}

// Reductions of one shape along the same axes, in any order of memory, share a sweep.
static bool sweeps_join(const Group *k, const Node *n) {
  Group **seen = fuse_of(k->graph)->seen;
  int nseen = 0;
  bool waits = fuse_depends(n->group, k, seen, &nseen); // for what k has reduced
  for (int m = 0; m < nseen; m++) seen[m]->visited = false;
  return !waits && k->tm == TmReduce && n->op->cls == OpReduce && !fuse_fits_row(n) &&
         k->anchor->attr.axes == n->attr.axes &&
         type_same_shape(&k->anchor->in[0]->type, &n->in[0]->type);
}

// Sums down the columns of a product, over all of its rows: one for each channel of a convolution,
// or element of the last dimension of a matmul.
static bool columns_join(const Group *k, const Node *n) {
  const Node *y = k->anchor, *x = n->in[0];
  if (k->tm != TmContract || !(n->op->flags & FlagAdd) || !type_same_shape(&x->type, &y->type))
    return false;
  if (k->nmoves) return false; // other rows, in other columns
  Maps maps = maps_of(y, 0);
  int channel = maps_dim(&maps, MapOut, AxisN), sums = 0;
  if (maps_phases(y) > 1 || maps_count(&maps, AxisBatch) > 1) return false;
  if (maps_count(&maps, AxisN) != y->type.dim[channel]) return false;
  for (int d = 0; d < y->type.rank; d++)
    if (y->type.dim[d] > 1 && (n->attr.axes >> d & 1) == (d == channel)) return false;
  for (int i = 0; i < k->nnodes; i++) sums += k->nodes[i]->op->cls == OpReduce;
  return sums < kMostColumnSums;
}

// Does n read a sum of columns of k? It is not there before the kernel's end.
static bool reads_columns(const Group *k, const Node *n) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->group == k && group_sums_columns(k, n->in[i])) return true;
  return false;
}

// The only node that reads n, or null.
static const Node *only_user(const Node *n) {
  int count;
  Node **readers = fuse_readers(n->group->graph, n, &count);
  return count == 1 && n->uses == 1 ? readers[0] : NULL;
}

static bool goes_on(const Node *n, const Node *next) {
  if (fuse_of(n->group->graph)->one_call && next->call != n->call) return false;
  return scatters(next) || (next->op->cls == OpMap && type_same_shape(&next->type, &n->type));
}

// What an epilogue stores in the end when it follows move n: what further moves and maps make of
// it, as long as nothing else reads it. `lane` is followed there.
static const Node *stored_after(const Node *n, Lane *lane) {
  for (const Node *next = n; next; next = only_user(n)) {
    if (next != n && !goes_on(n, next)) break;
    n = next;
    if (scatters(n)) *lane = lane_follow(*lane, n);
  }
  return n;
}

// Nobody but n reads what the group makes.
static bool alone_reads(const Group *k, const Node *n) {
  for (int i = 0; i < k->nnodes; i++) {
    const Node *made = k->nodes[i];
    int count;
    Node **readers = fuse_readers(k->graph, made, &count);
    if (count != made->uses) return false; // it leaves the model
    for (int j = 0; j < count; j++)
      if (readers[j] != n && readers[j]->group != k) return false;
  }
  return true;
}

// A reshape or permutation of what k has made, whose elements lie as they do there: it is stored
// so.
static bool lies_alike(const Group *k, const Node *n) {
  return k->tm != TmContract && n->nin == 1 && n->in[0]->group == k &&
         in_domain(k, &n->in[0]->type) && view_same_memory(n);
}

// The elements that a select has found the places of.
static bool takes_found(const Group *k, const Node *n) {
  return k->tm == TmSelect && n->op->form == MoveAlong && n->in[1]->group == k &&
         in_domain(k, &n->type);
}

// A contraction follows a move of its result when it stores runs where the moves lead in the end.
static bool move_joins(const Group *k, const Node *n) {
  if (k->tm != TmContract || !alone_reads(k, n)) return false;
  Lane lane = group_lane(k);
  const Node *stored = stored_after(n, &lane);
  return stores_runs(lane, &stored->type);
}

// CLASS
static bool may_follow(const Group *k, const Node *n) {
  switch (n->op->cls) {
  case OpMap:
    return in_domain(k, &n->type) && stores_well(k, n);
  case OpReduce:
    return rows_join(k, n) || columns_join(k, n) || sweeps_join(k, n);
  case OpMove:
    return lies_alike(k, n) || takes_found(k, n) || (scatters(n) && move_joins(k, n));
  default:
    return false;
  }
}

static bool epilogue_legal(const Group *k, const Node *n) {
  if (k->fixed != n->fixed || k->anchor->entry != n->entry || !k->nnodes ||
      k->nnodes >= kMostNodes || !fuse_same_call(k, n->group))
    return false;
  return may_follow(k, n) && !reads_columns(k, n) && !fuse_makes_cycle(k, n->group);
}

// Bytes saved when n is computed where its input is: that input need not be read again, nor written
// when nobody else reads it.
static int64_t epilogue_gain(const Group *k, const Node *n) {
  int64_t gain = 0;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->group == k) gain += type_bytes(&n->in[i]->type) * (n->in[i]->uses == 1 ? 2 : 1);
  return gain;
}

// The one group of its inputs that gains most from taking n in; contractions before others.
static Group *best_producer(Node *n) {
  Group *best = NULL;
  int64_t most = 0;
  for (int i = 0; i < n->nin; i++) {
    Group *k = n->in[i]->group;
    if (!k || k == best || k == n->group || !epilogue_legal(k, n)) continue;
    int64_t gain = epilogue_gain(k, n) * (k->tm == TmMap ? 1 : 4);
    if (gain >= most) most = gain, best = k; // the later one: its other inputs are ready
  }
  return best;
}

// Does n reduce, or is it a map that is made to be reduced alone?
static bool is_reduced(const Node *n) {
  const Node *next = n->op->cls == OpMap ? only_user(n) : NULL;
  return n->op->cls == OpReduce || (next && next->op->cls == OpReduce && fuse_fits_row(next));
}

// A reduction that no producer takes joins another one over the same elements, which reads one of
// its inputs too: it is read once.
static Group *best_sibling(Node *n) {
  if (!is_reduced(n)) return NULL;
  for (int i = 0; i < n->nin; i++) {
    int count;
    Node **readers = fuse_readers(n->group->graph, n->in[i], &count);
    for (int j = 0; j < count && type_count(&n->in[i]->type) > 1; j++) {
      Group *k = readers[j]->group;
      bool reduces = k && (k->tm == TmRow || k->tm == TmReduce);
      if (reduces && k != n->group && epilogue_legal(k, n)) return k;
    }
  }
  return NULL;
}

// n is in k now: other maps over the same domain that feed it come along.
static void gather_feeders(Graph *g, Group *k, const Node *n) {
  for (int i = 0; i < n->nin; i++) {
    Group *other = n->in[i]->group;
    if (!other || other == k || other->tm != TmMap || k->tm != TmMap || other->fixed != k->fixed ||
        !fuse_same_call(other, k) || !type_same_shape(&other->anchor->type, &n->type) ||
        other->anchor->op->cls != OpMap || fuse_makes_cycle(other, k) || fuse_makes_cycle(k, other))
      continue;
    fuse_absorb(g, k, other);
  }
}

static void add_move(Graph *g, Group *k, Node *n) {
  Node **moves = arena_alloc(g->arena, sizeof n * (size_t)(k->nmoves + 1));
  for (int i = 0; i < k->nmoves; i++) moves[i] = k->moves[i];
  moves[k->nmoves++] = n;
  k->moves = moves;
}

static void grow_epilogues(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    if (!n->group || n->group->nnodes != 1) continue;
    Group *k = best_producer(n), *own = n->group;
    if (!k) k = best_sibling(n);
    if (!k) continue;
    bool alike = is_view(n) && lies_alike(k, n);
    bool goes_on = alike && k->tm == TmMap && alone_reads(k, n); // in the new shape
    fuse_absorb(g, k, own);
    if (is_view(n) && !alike) add_move(g, k, n);
    if (n->op->cls == OpReduce && k->tm == TmMap)
      k->tm = TmRow, k->anchor = n;
    else if (k->tm == TmMap && (!alike || goes_on))
      k->anchor = n;
    gather_feeders(g, k, n);
  }
}

// ---- the pass ---------------------------------------------------------------------------------

// Needs: dtypes and orders. Gives: Graph.groups in launch order, with names, inputs and outputs.
void fuse_pass(Compiler *c) {
  bool unfused = !strcmp(c->options.lowering, "unfused");
  if (!unfused) c->graph = graph_copy(graph_rebuild(c->graph, chain_own, NULL));
  Graph *g = c->graph;
  Fuse f = {.one_call = unfused};
  f.seen = arena_alloc(g->arena, sizeof *f.seen * (size_t)(g->nnodes + 1));
  g->scratch = &f;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->uses && !is_source(g->nodes[i])) new_group(g, g->nodes[i]);
  find_users(g, &f);
  grow_epilogues(g);
  if (!unfused && !c->options.apart) place_concats(g);
  prologue_grow(g);
  if (!unfused) sibling_join(g);
  g->scratch = NULL;
  group_finish(g);
}
