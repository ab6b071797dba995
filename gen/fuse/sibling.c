// sibling.c: groups that read one value and run over the same elements become one kernel.
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

// Maps over the same elements that read one value become one kernel, and so do rows and maps, and
// reductions. Why these do not; null: nothing keeps them apart.
static const char *legal_siblings(Group *a, Group *b) {
  const Type *x = elements_of(a), *y = elements_of(b);
  bool both_rows = !a->tm->fusion->maps && !b->tm->fusion->maps;
  if (!x || !y) return "several kernels read it, not all of them element by element";
  if (only_reduces(a) != only_reduces(b))
    return "several kernels read it, of which one only reduces it";
  if (only_reduces(a) && state_words(a) + state_words(b) > kMostWords)
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
  return independent(a, b) ? NULL : "several kernels read it, of which one waits for another";
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

void sibling_join(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) // each group at its first node
    if (g->nodes[i]->group && g->nodes[i]->group->nodes[0] == g->nodes[i])
      group_borders(g->nodes[i]->group);
  for (int i = 0; i < g->nnodes; i++) {
    int count;
    Node **readers = fuse_readers(g, g->nodes[i], &count);
    for (int a = 0; a < count; a++)
      for (int b = a + 1; b < count; b++) {
        Group *to = readers[a]->group, *from = readers[b]->group;
        if (!to || !from || to == from) continue;
        bool large = is_large(to, g->nodes[i]) && is_large(from, g->nodes[i]);
        if (!large && !saves_launch(to, from, g->nodes[i])) continue;
        bool late = makes_again(to) || makes_again(from);
        if (late && (!large || node_is_computed(g->nodes[i]))) continue;
        if (has_others(to, from)) continue;
        const char *reason = legal_siblings(to, from);
        if (!g->nodes[i]->kept) g->nodes[i]->kept = reason;
        if (reason) continue;
        bool swap = to->tm->fusion->maps && !from->tm->fusion->maps;
        fuse_absorb(g, swap ? from : to, swap ? to : from);
        group_borders(swap ? from : to);
      }
  }
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
