// multi_launch.c: small independent kernels share one launch (multi-tensor launch); each part keeps
// its own domain. Maps whose launch overhead is a large part of their time: those that read only
// sources run first, those whose results no kernel of the entry reads (and updates of any size)
// last, and those that read the results of one kernel (rotary embeddings of q and k) run after it.
// Also full reductions that one kernel reads together, such as the norm of all gradients.
#include "fuse.h"

#include <string.h>

enum { kLeastParts = 2, kMostParts = 1000 };

typedef enum End { RunsLast, RunsFirst, EndCount } End;

typedef struct Parts { // a bundle under construction
  Group *group[kMostParts];
  const Node *tensor[kMostPointers]; // read or written by any of them: a parameter each
  int count, ntensors;
  bool changes; // does one of them update a state?
} Parts;

Group *const *group_parts(Group *const *g, int *count) {
  *count = (*g)->nparts ? (*g)->nparts : 1;
  return (*g)->nparts ? (*g)->parts : g;
}

const Group *group_part(const Group *g, const Node *n) {
  return g->nparts ? g->parts[n->tail] : g;
}

static bool writes_states(const Graph *g, const Group *k) {
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].value->group == k) return true;
  return false;
}

// Does one of them update a state that the other reads? Blocks of one launch are not ordered.
bool multi_launch_in_the_way(const Group *a, const Group *b) {
  const Graph *g = a->graph;
  for (int i = 0; i < g->nupdates; i++) {
    const Group *by = g->updates[i].value->group, *other = by == a ? b : a;
    for (int j = 0; (by == a || by == b) && j < other->ninputs; j++)
      if (other->inputs[j] == g->updates[i].state) return true;
  }
  return false;
}

static bool reads_sources(const Group *k) {
  for (int i = 0; i < k->ninputs; i++)
    if ((k->inputs[i]->group || k->inputs[i]->placed) && !k->inputs[i]->fixed) return false;
  return !writes_states(k->graph, k);
}

static bool is_read(const Group *k) {
  for (int i = 0; i < k->nnodes; i++) {
    int count;
    Node **readers = fuse_readers(k->graph, k->nodes[i], &count);
    for (int j = 0; j < count; j++)
      if (readers[j]->group != k) return true;
  }
  return false;
}

// Would sharing a launch cost more than it saves, as k alone writes one position of a state, but
// with other parts all of it?
static bool writes_less_alone(const Group *k) {
  const Arch *arch = k->graph->c->options.arch;
  double seconds = 0; // of copying the states
  for (int i = 0; i < k->nnodes; i++)
    if (in_place_steps(k->graph, k->nodes[i]))
      seconds += gain_of_copy(arch, &k->nodes[i]->type) - arch->launch_gap;
  return seconds > arch->launch_gap;
}

// Recomputed values are produced next to their reader and share no launch.
static bool is_map(const Group *k, int entry) {
  if (!k->nnodes || !k->tm->fusion->maps || k->fixed || k->nparts || k->anchor->again) return false;
  if (writes_less_alone(k)) return false;
  return k->anchor->entry == entry && type_count(&k->anchor->type); // without elements: no launch
}

static bool is_small_map(const Group *k, int entry) {
  return is_map(k, entry) && gain_is_small(k->graph->c->options.arch, k);
}

// Updates of states may have any size: an optimizer is one launch over all tensors.
static bool fits(const Group *k, End end, int entry) {
  if (end == RunsFirst) return is_small_map(k, entry) && reads_sources(k);
  bool updates = is_map(k, entry) && writes_states(k->graph, k);
  return (updates || is_small_map(k, entry)) && !is_read(k);
}

// Collects the nodes of all parts, in topological order.
static void gather_nodes(Group *g) {
  int total = 0;
  for (int i = 0; i < g->nparts; i++) total += g->parts[i]->nnodes;
  g->nodes = arena_alloc(g->graph->arena, sizeof(Node *) * (size_t)total);
  for (int i = 0; i < g->graph->nnodes; i++) {
    Node *n = g->graph->nodes[i];
    for (int j = 0; n->group && j < g->nparts; j++)
      if (n->group == g->parts[j]) {
        n->tail = j;
        n->group = g;
        g->nodes[g->nnodes++] = n;
        break;
      }
  }
}

static void make_bundle(Graph *graph, const Fusion *fusion, const Parts *parts, bool last) {
  Group *g = arena_alloc(graph->arena, sizeof *g);
  const Template *tm = graph->c->templates;
  while (tm->fusion != fusion) tm++;
  *g = (Group){.graph = graph, .tm = tm, .anchor = parts->group[0]->anchor, .last = last};
  size_t bytes = sizeof *parts->group * (size_t)parts->count;
  g->nparts = parts->count;
  g->parts = arena_alloc(graph->arena, bytes);
  memcpy(g->parts, parts->group, bytes);
  gather_nodes(g);
}

static bool add_tensor(Parts *p, const Node *tensor) {
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensor[i] == tensor) return true;
  if (p->ntensors == kMostPointers) return false;
  p->tensor[p->ntensors++] = tensor;
  return true;
}

// False if there is no room for k.
static bool add_part(Parts *p, Group *k) {
  int before = p->ntensors;
  bool room = p->count < kMostParts;
  for (int i = 0; room && i < k->ninputs; i++) room = add_tensor(p, k->inputs[i]);
  for (int i = 0; room && i < k->noutputs; i++) room = add_tensor(p, k->outputs[i]);
  if (room)
    p->group[p->count++] = k;
  else
    p->ntensors = before;
  return room;
}

// Adds k if no part depends on it, nor it on any part.
static bool add_apart(Parts *p, Group *k) {
  bool changes = p->changes || writes_states(k->graph, k);
  for (int i = 0; i < p->count; i++) {
    Group *part = p->group[i];
    if (part == k || (changes && multi_launch_in_the_way(part, k))) return false;
    if (fuse_reaches(part, k) || fuse_reaches(k, part)) return false;
  }
  if (!add_part(p, k)) return false;
  p->changes = changes;
  return true;
}

static void bundle(Graph *g, End end, int entry) {
  Parts parts = {.count = 0};
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    if (!k || k->nodes[0] != g->nodes[i]) continue; // each group once, at its first node
    group_borders(k);
    if (!fits(k, end, entry)) continue;
    bool apart = true;
    for (int j = 0; j < parts.count && apart; j++)
      apart = !multi_launch_in_the_way(parts.group[j], k);
    if (!apart) continue;
    if (add_part(&parts, k)) continue;
    if (parts.count >= kLeastParts) make_bundle(g, &fusion_map, &parts, end == RunsLast);
    parts.count = parts.ntensors = 0;
    add_part(&parts, k); // fails if it is too large even for a bundle of one
  }
  if (parts.count >= kLeastParts) make_bundle(g, &fusion_map, &parts, end == RunsLast);
}

// Bundles the small maps that read results of `from` and do not depend on each other.
static void bundle_readers(const Group *from) {
  Graph *g = from->graph;
  Parts parts = {.count = 0};
  int nreaders;
  for (int i = 0; i < from->nnodes; i++) {
    Node **readers = fuse_readers(g, from->nodes[i], &nreaders);
    for (int r = 0; r < nreaders; r++) {
      Group *k = readers[r]->group;
      if (k && k != from && is_small_map(k, from->anchor->entry)) add_apart(&parts, k);
    }
  }
  if (parts.count >= kLeastParts) make_bundle(g, &fusion_map, &parts, false);
}

// ---- full reductions ----------------------------------------------------------------------------

const Node *bundle_reduction(const Group *k) {
  const Node *found = NULL;
  if (!k->tm->fusion->sweeps || k->fixed || type_count(&k->anchor->type) != 1) return NULL;
  for (int i = 0; i < k->nnodes; i++) {
    if (k->nodes[i]->op->cls != OpReduce) continue;
    if (found) return NULL;
    found = k->nodes[i];
  }
  for (int i = 0; i < k->noutputs; i++)
    if (type_count(&k->outputs[i]->type) != 1) return NULL;
  return found;
}

static bool reads_several(const Group *reader) {
  int count = 0;
  for (int i = 0; i < reader->ninputs; i++) {
    const Group *k = reader->inputs[i]->group;
    count += k && !k->nparts && bundle_reduction(k);
  }
  return count >= kLeastParts;
}

bool multi_launch_shares(const Group *k) {
  if (!bundle_reduction(k)) return false;
  for (int i = 0; i < k->noutputs; i++) {
    int count;
    Node **readers = fuse_readers(k->graph, k->outputs[i], &count);
    for (int j = 0; j < count; j++)
      if (readers[j]->group && readers[j]->group != k && reads_several(readers[j]->group))
        return true;
  }
  return false;
}

// Bundles up to `most` independent full reductions with the same monoid that `reader` reads;
// returns how many were bundled.
static int bundle_some(const Group *reader, int most) {
  Parts parts = {.count = 0};
  const Monoid *monoid = NULL;
  for (int i = 0; i < reader->ninputs && parts.count < most; i++) {
    Group *k = reader->inputs[i]->group;
    if (!k || k->nparts || k->anchor->entry != reader->anchor->entry) continue;
    group_borders(k);
    const Node *reduction = bundle_reduction(k);
    if (!reduction || (monoid && !monoid_same(op_monoid(reduction), monoid))) continue;
    if (add_apart(&parts, k)) monoid = op_monoid(reduction);
  }
  if (parts.count < kLeastParts) return 0;
  make_bundle(reader->graph, &fusion_many, &parts, false);
  return parts.count;
}

// As few bundles as possible, of about equal size, so that none is left with a single reduction.
static void bundle_reductions(const Group *reader) {
  int count = 0;
  for (int i = 0; i < reader->ninputs; i++) {
    Group *k = reader->inputs[i]->group;
    if (!k || k->nparts) continue;
    group_borders(k);
    count += bundle_reduction(k) != NULL;
  }
  int bundles = (int)ceil_div(count, kMostParts);
  while (bundles && bundle_some(reader, (int)ceil_div(count, bundles))) continue;
}

// ---- reasons printed by --explain ---------------------------------------------------------------

// Could `other`, a small map or a bundle of maps, share k's launch, state updates aside?
static bool could_share(const Group *k, const Group *other) {
  int entry = k->anchor->entry;
  if (!other || other == k || other->anchor->entry != entry) return false;
  return other->nparts ? other->tm->fusion->maps : is_small_map(other, entry);
}

// Is there a state that k reads and such a kernel updates, or the reverse?
static bool is_in_the_way(const Group *k) {
  const Graph *g = k->graph;
  for (int i = 0; i < g->nupdates; i++) {
    const Node *state = g->updates[i].state;
    const Group *by = g->updates[i].value->group;
    for (int j = 0; j < k->ninputs; j++)
      if (k->inputs[j] == state && could_share(k, by)) return true;
    int count = 0;
    Node **readers = by == k ? fuse_readers(g, state, &count) : NULL;
    for (int j = 0; j < count; j++)
      if (could_share(k, readers[j]->group)) return true;
  }
  return false;
}

static const char *why_alone(Group *k) {
  if (multi_launch_shares(k)) // although its reader reads several such reductions
    return "the reductions read together with it differ in kind, or one depends on another";
  if (!is_small_map(k, k->anchor->entry)) return NULL;
  if (is_in_the_way(k))
    return "it and another small kernel share a state that one of them updates";
  if (is_read(k) && !reads_sources(k))
    return "it depends on other kernels, and others depend on it";
  return "no other small kernel can run at the same time";
}

static void note_alone(const Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    if (k && k->nodes[0] == g->nodes[i] && !k->fixed && !k->nparts) k->alone = why_alone(k);
  }
}

void multi_launch_groups(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    if (!k || k->nodes[0] != g->nodes[i] || k->fixed || k->nparts) continue;
    group_borders(k);
    bundle_reductions(k);
  }
  for (int entry = 0; entry < g->c->nentries; entry++)
    for (End end = 0; end < EndCount; end++) bundle(g, end, entry);
  for (int i = 0; i < g->nnodes; i++) {
    const Group *k = g->nodes[i]->group;
    if (k && k->nodes[0] == g->nodes[i] && !k->fixed) bundle_readers(k);
  }
  note_alone(g);
}
