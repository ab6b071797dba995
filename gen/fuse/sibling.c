// sibling.c: groups that read one value and run over the same elements become one kernel: maps,
// rows and maps, reductions. And reductions and maps, of one value or of what the maps make: where
// the model says that this takes less, the maps' results are stored as elements are reduced.
#include "fuse.h"

#include <string.h>

static bool independent(Group *a, Group *b) {
  return !fuse_reaches(a, b) && !fuse_reaches(b, a);
}

// Reductions whose elements are not stored.
static bool only_reduces(const Group *k) {
  return k->tm->fusion->sweeps && !k->tm->fusion->elements;
}

// The elements that a group of maps, rows or reductions runs over; null: of another template.
static const Type *elements_of(const Group *k) {
  if (only_reduces(k)) return &k->anchor->in[0]->type;
  return k->tm->fusion->elements ? k->tm->fusion->elements(k) : NULL;
}

// Does it give one of its values to a state?
static bool updates(const Group *k) {
  const Graph *g = k->graph;
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].value->group == k) return true;
  return false;
}

// Is it stored for each of the elements, in their order?
static bool is_by_element(const Group *maps, const Node *n, const Type *elements) {
  while (n->op->cls == OpMove && n->nin == 1 && n->in[0]->group == maps && view_same_memory(n) &&
         (!n->parent || view_whole_part(n)))
    n = n->in[0];
  return type_same_shape(&n->type, elements) &&
         !memcmp(n->type.order, elements->order, sizeof elements->order);
}

// Are the elements that are reduced all that is read of what the maps make, each by itself?
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

// Is anything read at other places than those of the elements, as by a gather?
static bool reads_elsewhere(const Group *maps) {
  bool found = false;
  for (int i = 0; i < maps->nnodes; i++)
    found = found || (maps->nodes[i]->op->cls == OpMove && maps->nodes[i]->op->form > MoveSlice);
  return found;
}

// May reductions store what maps make, as they go over their elements?
static bool may_store(const Group *reduce, const Group *maps) {
  const Type *in = &reduce->anchor->in[0]->type;
  if (!reads_by_element(reduce, maps) || reads_elsewhere(maps)) return false;
  if (!maps->tm->fusion->maps || maps->nparts) return false;
  if (updates(maps) || bundle_in_the_way(reduce, maps)) return false; // a state stays in place
  for (int i = 0; i < maps->noutputs; i++)
    if (!is_by_element(maps, maps->outputs[i], in)) return false;
  return maps->noutputs && type_count(in) > type_count(&reduce->anchor->type);
}

// Maps over the same elements that read one value become one kernel, and so do rows and maps, and
// reductions. Why these do not; null: nothing keeps them apart.
static const char *legal_siblings(Group *a, Group *b) {
  Group *reduce = only_reduces(a) ? a : b, *maps = reduce == a ? b : a;
  const Type *x = elements_of(a), *y = elements_of(b);
  bool both_rows = !a->tm->fusion->maps && !b->tm->fusion->maps;
  if (!x || !y) return "several kernels read it, not all of them element by element";
  bool both_reduce = only_reduces(a) && only_reduces(b);
  bool mixed = only_reduces(a) != only_reduces(b);
  if (mixed && !may_store(reduce, maps))
    return "several kernels read it, of which one only reduces it";
  if (both_reduce && state_words(a) + state_words(b) > kMostWords)
    return "several kernels read it, whose sums registers do not hold together";
  if (a->fixed != b->fixed) return "several kernels read it, one of them run once, by init";
  if (a->nnodes + b->nnodes > kMostNodes) return "several kernels read it, too large to be one";
  if (!type_same_shape(x, y) || memcmp(x->order, y->order, sizeof x->order))
    return "several kernels read it, which run over other elements";
  if (both_rows && a->anchor->attr.axes != b->anchor->attr.axes)
    return "several kernels read it, along other axes";
  if (both_rows && !row_holds_states(a, b))
    return "several kernels read it, whose sums shared memory does not hold together";
  if (a->anchor->again != b->anchor->again)
    return "several kernels read it, one of them late, to compute again";
  if (a->anchor->entry != b->anchor->entry) return "kernels of several entries read it";
  if (!fuse_same_call(a, b)) return "unfused, kernels of several layers read it";
  bool apart = mixed ? !fuse_reaches(maps, reduce) && !fuse_makes_cycle(maps, reduce)
                     : independent(a, b);
  return apart ? NULL : "several kernels read it, of which one waits for another";
}

static bool is_large(const Group *k, const Node *x) { // as large as what is computed of it
  const Type *t = elements_of(k);
  return t && type_count(&x->type) * 2 > type_count(t);
}

// Do a and b save a launch at least, where what they read together is little? Nearly everything
// reads a single number: what is left of that is for bundles.
static bool saves_launch(const Group *a, const Group *b, const Node *x) {
  const Arch *arch = a->graph->c->options.arch;
  if (type_count(&x->type) == 1 || !a->tm->fusion->maps || !b->tm->fusion->maps) return false;
  return gain_is_small(arch, a) && gain_is_small(arch, b);
}

// Each of what is made again should be there as late as it can: a launch is no reason to make it
// with others, nor are positions, which are read from nowhere.
static bool makes_again(const Group *k) {
  for (int i = 0; i < k->nnodes; i++)
    if (k->nodes[i]->again) return true;
  return false;
}

// Small ones that have others to share a launch with: a sum of many that one kernel reads, and a
// map.
static bool has_others(const Group *a, const Group *b) {
  const Arch *arch = a->graph->c->options.arch;
  return gain_is_small(arch, a) && gain_is_small(arch, b) && bundle_shares(a) != bundle_shares(b);
}

static void absorb(Graph *g, Group *to, Group *from) {
  fuse_absorb(g, to, from);
  group_borders(to);
}

// Makes them one kernel, unless the model says that reductions and maps take less apart: why.
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
  to->tile = (Tile){0}; // sched_pass gives it one
  to->nscratch = 0;
  if (pays) merge_group(g, to);
  if (pays) return NULL;
  *to = a;
  *from = b;
  for (int i = 0; i < from->nnodes; i++) from->nodes[i]->group = from;
  return "several kernels read it, which take longer as one";
}

// Makes them one kernel if they may be; why they are not, null: they are, or it is not to be said.
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

// ---- reductions whose results meet --------------------------------------------------------------

// Values as large as what k reduces, which maps alone make that of; returns how many.
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

// Another one that shares a value with each, as the sum of p m does where those of p and of m meet.
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

// Reductions of one value, whose results map n combines, become one kernel before n is computed by
// one of them, which would wait for the others.
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

// Those that read one value, of one kind; `mixed`: of two, of which one reduces alone, or maps that
// make the value and reductions of it.
static void join_all(Graph *g, bool mixed) {
  for (int i = 0; i < g->nnodes; i++) // each group at its first node
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

void sibling_join(Graph *g) {
  join_all(g, false);
}

void sibling_join_stored(Graph *g) {
  join_all(g, true);
}

// Does it make numbers alone, as a loss or a metric, in less time than a few launches take?
static bool makes_numbers(const Group *k) {
  return k->tm->fusion->sweeps && !k->fixed && !k->nparts && type_count(&k->anchor->type) == 1 &&
         gain_is_small(k->graph->c->options.arch, k) && !makes_again(k) && !bundle_shares(k);
}

void sibling_join_numbers(Graph *g) {
  enum { kMostGroups = 64 }; // all pairs are looked at
  Group *found[kMostGroups];
  int count = 0;
  for (int i = 0; i < g->nnodes && count < kMostGroups; i++) { // each group at its first node
    Group *k = g->nodes[i]->group;
    if (!k || k->nodes[0] != g->nodes[i]) continue;
    group_borders(k);
    if (makes_numbers(k)) found[count++] = k;
  }
  for (int a = 0; a < count; a++)
    for (int b = a + 1; b < count; b++) {
      bool whole = found[a]->nnodes && found[b]->nnodes && !legal_size(found[a], found[b]);
      if (!whole || bundle_in_the_way(found[a], found[b])) continue;
      if (legal_siblings(found[a], found[b])) continue;
      fuse_absorb(g, found[a], found[b]);
      group_borders(found[a]);
    }
}
