// horizontal.c: groups that read one value and run over the same elements become one kernel: maps
// with maps, with rows, reductions with reductions. A reduction and an elementwise kernel over the
// same elements merge if that is modelled faster: the maps' results are then stored as elements are
// reduced.
#include "fuse.h"

#include <string.h>

static bool independent(Group *a, Group *b) {
  return !fuse_reaches(a, b) && !fuse_reaches(b, a);
}

// Reductions whose elements are not stored by their kernel.
static bool only_reduces(const Group *k) {
  return k->tm->fusion->sweeps && !k->tm->fusion->elements;
}

// Domain of a group of maps, rows or reductions; NULL for other templates.
static const Type *elements_of(const Group *k) {
  if (only_reduces(k)) return &k->anchor->in[0]->type;
  return k->tm->fusion->elements ? k->tm->fusion->elements(k) : NULL;
}

// Is one of its values the new value of a state?
static bool updates(const Group *k) {
  const Graph *g = k->graph;
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].value->group == k) return true;
  return false;
}

// Is n stored once per element, in the elements' order?
static bool is_by_element(const Group *maps, const Node *n, const Type *elements) {
  while (n->op->cls == OpMove && n->nin == 1 && n->in[0]->group == maps && view_same_memory(n) &&
         (!n->parent || view_whole_part(n)))
    n = n->in[0];
  return type_same_shape(&n->type, elements) &&
         !memcmp(n->type.order, elements->order, sizeof elements->order);
}

// Does the reduction use the maps' results only element by element?
static bool reads_by_element(const Group *reduce, const Group *maps) {
  const Type *in = &reduce->anchor->in[0]->type;
  bool alike = true;
  for (int i = 0; i < reduce->nnodes; i++) {
    const Node *n = reduce->nodes[i];
    bool element = n->op->cls == OpReduce || (n->op->cls == OpMap && type_same_shape(&n->type, in));
    for (int j = 0; j < n->nin; j++)
      alike = alike && (n->in[j]->group != maps ||
                        (element && type_same_shape(&n->in[j]->type, in)));
  }
  return alike;
}

// Is anything read at other positions than the elements', for example by a gather?
static bool reads_elsewhere(const Group *maps) {
  bool found = false;
  for (int i = 0; i < maps->nnodes; i++)
    found = found || (maps->nodes[i]->op->cls == OpMove && maps->nodes[i]->op->form > MoveSlice);
  return found;
}

// Can the reduction's kernel store the maps' results as it goes over its elements?
static bool may_store(const Group *reduce, const Group *maps) {
  const Type *in = &reduce->anchor->in[0]->type;
  if (!reads_by_element(reduce, maps) || reads_elsewhere(maps)) return false;
  if (!maps->tm->fusion->maps || maps->nparts) return false;
  // state updates must stay in place
  if (updates(maps) || multi_launch_in_the_way(reduce, maps)) return false;
  for (int i = 0; i < maps->noutputs; i++)
    if (!is_by_element(maps, maps->outputs[i], in)) return false;
  return maps->noutputs && type_count(in) > type_count(&reduce->anchor->type);
}

// Why two groups that read one value cannot be one kernel, or NULL. (Printed for that value.)
static const char *legal_siblings(Group *a, Group *b) {
  Group *reduce = only_reduces(a) ? a : b, *maps = reduce == a ? b : a;
  const Type *x = elements_of(a), *y = elements_of(b);
  bool both_rows = !a->tm->fusion->maps && !b->tm->fusion->maps;
  if (!x || !y) return "its readers are not merged: not all of them are elementwise";
  bool both_reduce = only_reduces(a) && only_reduces(b);
  bool mixed = only_reduces(a) != only_reduces(b);
  if (mixed && !may_store(reduce, maps))
    return "its readers are not merged: one of them only reduces it";
  if (both_reduce && state_words(a) + state_words(b) > kMostWords)
    return "its readers are not merged: their accumulators do not fit in registers";
  if (a->fixed != b->fixed) return "its readers are not merged: one of them runs once, in init";
  if (a->nnodes + b->nnodes > kMostNodes)
    return "its readers are not merged: together they are too large";
  if (!type_same_shape(x, y) || memcmp(x->order, y->order, sizeof x->order))
    return "its readers are not merged: their iteration domains differ";
  if (both_rows && a->anchor->attr.axes != b->anchor->attr.axes)
    return "its readers are not merged: they reduce different axes";
  if (both_rows && !row_holds_states(a, b))
    return "its readers are not merged: their accumulators do not fit in shared memory";
  if (a->anchor->again != b->anchor->again)
    return "its readers are not merged: one of them recomputes values late";
  if (a->anchor->entry != b->anchor->entry)
    return "its readers are not merged: they belong to different entries";
  if (!fuse_same_call(a, b))
    return "its readers are not merged: lowering is unfused, and their layers differ";
  bool apart = mixed ? !fuse_reaches(maps, reduce) && !fuse_makes_cycle(maps, reduce)
                     : independent(a, b);
  return apart ? NULL : "its readers are not merged: one depends on another";
}

static bool is_large(const Group *k, const Node *x) { // x is about as large as the domain
  const Type *t = elements_of(k);
  return t && type_count(&x->type) * 2 > type_count(t);
}

// Does merging a and b save at least a launch, though they share little data? Single numbers do not
// count, as nearly every kernel reads one; bundles handle these.
static bool saves_launch(const Group *a, const Group *b, const Node *x) {
  const Arch *arch = a->graph->c->options.arch;
  if (type_count(&x->type) == 1 || !a->tm->fusion->maps || !b->tm->fusion->maps) return false;
  return gain_is_small(arch, a) && gain_is_small(arch, b);
}

// Recomputed values should be produced as late as possible: they are not merged just to save a
// launch, or because they read the same positions.
static bool makes_again(const Group *k) {
  for (int i = 0; i < k->nnodes; i++)
    if (k->nodes[i]->again) return true;
  return false;
}

// Do bundles merge small groups better: a reduction that one kernel reads together with others, and
// a map?
static bool has_others(const Group *a, const Group *b) {
  const Arch *arch = a->graph->c->options.arch;
  return gain_is_small(arch, a) && gain_is_small(arch, b) &&
         multi_launch_shares(a) != multi_launch_shares(b);
}

static void absorb(Graph *g, Group *to, Group *from) {
  fuse_absorb(g, to, from);
  group_borders(to);
}

// Merges them, unless a reduction and maps are modelled slower as one: then returns the reason.
static const char *join(Graph *g, Group *to, Group *from) {
  const Arch *arch = g->c->options.arch;
  Group a = *to, b = *from;
  if (only_reduces(to) == only_reduces(from)) {
    absorb(g, to, from);
    return NULL;
  }
  double apart = to->tm->seconds(to, arch) + from->tm->seconds(from, arch);
  absorb(g, to, from);
  bool pays = to->tm->seconds(to, arch) < apart;
  to->tile = (Tile){0}; // sched_pass sets it again
  to->nscratch = 0;
  if (pays) merge_group(g, to);
  if (pays) return NULL;
  *to = a;
  *from = b;
  for (int i = 0; i < from->nnodes; i++) from->nodes[i]->group = from;
  return "its readers are not merged: as one kernel they would be slower";
}

// Merges them if legal; returns the reason if not, NULL if merged or if there is nothing to report.
static const char *try_join(Graph *g, const Node *x, Group *to, Group *from) {
  bool large = is_large(to, x) && is_large(from, x);
  if (!large && !saves_launch(to, from, x)) return NULL;
  bool late = makes_again(to) || makes_again(from);
  if (late && (!large || node_is_computed(x))) return NULL;
  if (has_others(to, from)) return NULL;
  const char *reason = legal_siblings(to, from);
  bool swap = to->tm->fusion->maps && !from->tm->fusion->maps;
  return reason ? reason : join(g, swap ? from : to, swap ? to : from);
}

static bool may_try(const Group *to, const Group *from, bool mixed) {
  return to && from && to != from && (only_reduces(to) != only_reduces(from)) == mixed;
}

// ---- reductions whose results are combined ------------------------------------------------------

// Values as large as k's input from which maps compute it, and the input itself; returns the
// number.
static int reduced_of(const Group *k, const Node **list) {
  int count = 0;
  for (int i = 0; i < k->nnodes && count < kMostNodes; i++)
    if (k->nodes[i]->op->cls == OpReduce && !fuse_listed(list, count, k->nodes[i]->in[0]))
      list[count++] = k->nodes[i]->in[0];
  for (int at = 0; at < count; at++)
    for (int i = 0; list[at]->op->cls == OpMap && i < list[at]->nin && count < kMostNodes; i++) {
      const Node *in = list[at]->in[i];
      if (is_large(k, in) && !fuse_listed(list, count, in)) list[count++] = in;
    }
  return count;
}

static bool share_reduced(const Group *a, const Group *b) {
  const Node *of_a[kMostNodes], *of_b[kMostNodes];
  int na = reduced_of(a, of_a), nb = reduced_of(b, of_b);
  bool found = false;
  for (int i = 0; i < nb; i++) found = found || fuse_listed(of_a, na, of_b[i]);
  return found;
}

// A third group that shares an input with both: sum(p * m) shares p with sum(p) and m with sum(m).
static Group *between(const Graph *g, Group *a, Group *b) {
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    bool other = k && k->anchor == g->nodes[i] && k != a && k != b && only_reduces(k) &&
                 type_same_shape(elements_of(k), elements_of(a));
    other = other && share_reduced(k, a) && share_reduced(k, b);
    if (other && !legal_siblings(a, k) && !legal_siblings(b, k)) return k;
  }
  return NULL;
}

// Reductions of one value whose results map n combines are merged before n joins one of them, which
// would then depend on the others.
void sibling_meet(Graph *g, const Node *n) {
  for (int i = 0; i < n->nin; i++)
    for (int j = 0; j < i; j++) {
      Group *a = n->in[j]->group, *b = n->in[i]->group;
      if (!a || !b || a == b || !only_reduces(a) || !only_reduces(b)) continue;
      if (legal_siblings(a, b)) continue;
      Group *k = share_reduced(a, b) ? NULL : between(g, a, b);
      if (k) fuse_absorb(g, a, k);
      if (share_reduced(a, b) && !legal_siblings(a, b)) fuse_absorb(g, a, b);
    }
}

// ---- readers of one value -----------------------------------------------------------------------

// Merges readers of one value that are of one kind; `mixed`: a reduction with maps, which may also
// be the producers of the value that it reduces.
static void join_all(Graph *g, bool mixed) {
  for (int i = 0; i < g->nnodes; i++) // each group once, at its first node
    if (g->nodes[i]->group && g->nodes[i]->group->nodes[0] == g->nodes[i])
      group_borders(g->nodes[i]->group);
  for (int i = 0; i < g->nnodes; i++) {
    int count;
    Node *x = g->nodes[i], **readers = fuse_readers(g, x, &count);
    for (int a = 0; a < count; a++) {
      Group *maker = x->group;
      if (mixed && maker && maker->tm->fusion->maps && may_try(maker, readers[a]->group, mixed))
        try_join(g, x, maker, readers[a]->group);
      for (int b = a + 1; b < count; b++) {
        if (!may_try(readers[a]->group, readers[b]->group, mixed)) continue;
        const char *reason = try_join(g, x, readers[a]->group, readers[b]->group);
        if (!x->kept) x->kept = reason;
      }
    }
  }
}

void horizontal_join(Graph *g) {
  join_all(g, false);
}

void horizontal_join_stored(Graph *g) {
  join_all(g, true);
}

// Does it compute only single numbers, such as a loss or a metric, in a few launches' time?
static bool makes_numbers(const Group *k) {
  return k->tm->fusion->sweeps && !k->fixed && !k->nparts && type_count(&k->anchor->type) == 1 &&
         gain_is_small(k->graph->c->options.arch, k) && !makes_again(k) && !multi_launch_shares(k);
}

void horizontal_join_numbers(Graph *g) {
  enum { kMostGroups = 64 }; // all pairs are tried
  Group *found[kMostGroups];
  int count = 0;
  for (int i = 0; i < g->nnodes && count < kMostGroups; i++) { // each group once, at its first node
    Group *k = g->nodes[i]->group;
    if (!k || k->nodes[0] != g->nodes[i]) continue;
    group_borders(k);
    if (makes_numbers(k)) found[count++] = k;
  }
  for (int a = 0; a < count; a++)
    for (int b = a + 1; b < count; b++) {
      bool whole = found[a]->nnodes && found[b]->nnodes && !legal_size(found[a], found[b]);
      if (!whole || multi_launch_in_the_way(found[a], found[b])) continue;
      if (legal_siblings(found[a], found[b])) continue;
      fuse_absorb(g, found[a], found[b]);
      group_borders(found[a]);
    }
}
