// bundle.c: many small kernels become one. Maps whose launch is a good part of what they cost share
// one, each over elements of its own, where none can wait for another: those that read sources
// alone run first, those whose results no kernel of the entry reads, as updates of parameters, at
// the end; and those that read what one kernel makes, as rotary embeddings of queries and keys.
// Reductions of whole tensors that one kernel reads share a launch, too: the norm of all gradients.
#include "fuse.h"

#include <string.h>

enum { kLeastParts = 2, kMostParts = 96 };

typedef enum End { RunsLast, RunsFirst, EndCount } End;

typedef struct Parts { // of a bundle to be
  Group *group[kMostParts];
  int count, pointers;
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

// Does one of them update a state that the other reads? Blocks of one launch would not wait.
bool bundle_in_the_way(const Group *a, const Group *b) {
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

// What is computed again runs where it is read, and shares no launch.
static bool is_small_map(const Group *k, int entry) {
  if (!k->nnodes || !k->tm->fusion->maps || k->fixed || k->nparts || k->anchor->again) return false;
  return k->anchor->entry == entry && gain_is_small(k->graph->c->options.arch, k);
}

static bool fits(const Group *k, End end, int entry) {
  return is_small_map(k, entry) && (end == RunsLast ? !is_read(k) : reads_sources(k));
}

// The parts' nodes, in topological order.
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

static bool has_room(const Parts *p, const Group *k) {
  return p->count < kMostParts && p->pointers + k->ninputs + k->noutputs <= kMostPointers;
}

static void add_part(Parts *p, Group *k) {
  p->group[p->count++] = k;
  p->pointers += k->ninputs + k->noutputs;
}

// Adds a group whose place is not known, if it does not wait for a part, nor a part for it.
static bool add_apart(Parts *p, Group *k) {
  bool apart = has_room(p, k);
  for (int i = 0; i < p->count && apart; i++) {
    Group *part = p->group[i];
    apart = part != k && !bundle_in_the_way(part, k) && !fuse_reaches(part, k) &&
            !fuse_reaches(k, part);
  }
  if (apart) add_part(p, k);
  return apart;
}

static void bundle(Graph *g, End end, int entry) {
  Parts parts = {.count = 0};
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    if (!k || k->nodes[0] != g->nodes[i]) continue; // each group at its first node
    group_borders(k);
    if (!fits(k, end, entry)) continue;
    bool apart = true;
    for (int j = 0; j < parts.count && apart; j++) apart = !bundle_in_the_way(parts.group[j], k);
    if (!apart) continue;
    if (!has_room(&parts, k)) {
      if (parts.count >= kLeastParts) make_bundle(g, &fusion_map, &parts, end == RunsLast);
      parts.count = parts.pointers = 0;
    }
    if (has_room(&parts, k)) add_part(&parts, k); // else it is too large even alone
  }
  if (parts.count >= kLeastParts) make_bundle(g, &fusion_map, &parts, end == RunsLast);
}

// The maps that read what `from` computes, of which none waits for another.
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

// ---- reductions of whole tensors ----------------------------------------------------------------

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

bool bundle_shares(const Group *k) {
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

// Those that `reader` reads, of one monoid, of which none waits for another: of at most `most`
// parts; how many it has become one of.
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

// In as few bundles as hold them, about as large, so that none of a monoid is left alone.
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

// ---- why small kernels have launches of their own -----------------------------------------------

// Could `other`, a map or a launch of several, share k's launch but for a state?
static bool could_share(const Group *k, const Group *other) {
  int entry = k->anchor->entry;
  if (!other || other == k || other->anchor->entry != entry) return false;
  return other->nparts ? other->tm->fusion->maps : is_small_map(other, entry);
}

// Does k update a state that such a map reads, or such a map one that k reads?
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
  if (bundle_shares(k)) // with a reader that reads several, still
    return "the sums that are read with it are of another kind, or one waits for the other";
  if (!is_small_map(k, k->anchor->entry)) return NULL;
  if (is_in_the_way(k))
    return "it and another small kernel need one state, which one of them updates";
  if (is_read(k) && !reads_sources(k))
    return "it waits for other kernels, and others wait for it";
  return "no other small kernel can run at the same time";
}

static void note_alone(const Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    if (k && k->nodes[0] == g->nodes[i] && !k->fixed && !k->nparts) k->alone = why_alone(k);
  }
}

void bundle_groups(Graph *g) {
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
