// launches.c: the launches of all entries, their use of the arena, and their dependences: readers
// wait for all writers of a value or its parts; in-place updates of a state wait for readers of the
// old value.
#include "launch_order.h"

#include <stdlib.h>

int *launches_integers(Arena *arena, int count) {
  return arena_alloc(arena, sizeof(int) * (size_t)(count + 1));
}

static void add(Arena *arena, List *list, int i) {
  list->of = arena_grow(arena, list->of, list->count, sizeof *list->of);
  list->of[list->count++] = i;
}

// ---- values -----------------------------------------------------------------------------------

static const Node *whole(const Node *n) {
  while (n->parent) n = n->parent;
  return n;
}

enum { kUnseen, kElsewhere, kNumbers }; // by node; from kNumbers on: the value's number

// Marks nodes that are permanently in memory, or an updated state: plan.c places them.
static int *find_elsewhere(const Graph *g) {
  int *number = launches_integers(g->arena, g->nnodes);
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->fixed || g->nodes[i]->op->cls == OpSource) number[i] = kElsewhere;
  for (int i = 0; i < g->noutputs; i++) number[whole(g->outputs[i].node)->id] = kElsewhere;
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].in_place) number[g->updates[i].value->id] = kElsewhere;
  return number;
}

static void use(Arena *arena, Launches *l, int launch, int value) {
  List *users = &l->values[value].users;
  if (users->count && users->of[users->count - 1] == launch) return;
  add(arena, users, launch);
  add(arena, &l->uses[launch], value);
}

static int new_value(Launches *l, int64_t bytes) {
  if (bytes > l->largest) l->largest = bytes;
  l->values[l->nvalues] = (Value){.bytes = bytes};
  return l->nvalues++;
}

static void use_all(const Graph *g, Launches *l, int *number, int launch, Node *const *nodes,
                    int count) {
  for (int i = 0; i < count; i++) {
    const Node *n = whole(nodes[i]);
    if (number[n->id] == kElsewhere) continue;
    if (number[n->id] == kUnseen) number[n->id] = kNumbers + new_value(l, type_bytes(&n->type));
    use(g->arena, l, launch, number[n->id] - kNumbers);
  }
}

static void find_values(const Graph *g, Launches *l) {
  int *number = find_elsewhere(g), count;
  for (int i = 0; i < g->ngroups; i++) {
    const Group *k = g->groups[i];
    Node *const *nodes = group_reads(k, &count);
    use_all(g, l, number, i, nodes, count);
    nodes = group_writes(k, &count);
    use_all(g, l, number, i, nodes, count);
    for (int j = 0; j < k->nscratch && !k->fixed; j++) {
      const Scratch *s = &k->scratch[j];
      int64_t bytes = s->count * (int64_t)dtype_size(s->dtype);
      if (!s->zeroed) use(g->arena, l, i, new_value(l, bytes));
    }
  }
  for (int i = 0; i < g->nupdates; i++) {
    int value = number[whole(g->updates[i].value)->id] - kNumbers;
    if (!g->updates[i].in_place && value >= 0) l->values[value].kept = true;
  }
}

// ---- dependences ------------------------------------------------------------------------------

// Does a run before b, or in the same run?
static bool are_ordered(const Group *a, const Group *b) {
  return a->fixed || (!b->fixed && a->anchor->entry == b->anchor->entry);
}

static void add_order(const Graph *g, Launches *l, int first, int then) {
  const List *before = &l->before[then];
  if (first >= then || !are_ordered(g->groups[first], g->groups[then])) return;
  if (before->count && before->of[before->count - 1] == first) return;
  add(g->arena, &l->before[then], first);
  add(g->arena, &l->behind[first], then);
}

// By node: the launch that writes it, from 1, or 0.
static int *find_writers(const Graph *g) {
  int *writer = launches_integers(g->arena, g->nnodes), count;
  for (int i = 0; i < g->ngroups; i++) {
    Node *const *nodes = group_writes(g->groups[i], &count);
    for (int j = 0; j < count; j++) writer[nodes[j]->id] = i + 1;
  }
  return writer;
}

// `launch` depends on the writers of n or its parts.
static void wait_for(const Graph *g, Launches *l, const int *writer, const Node *n, int launch) {
  int by = writer[n->id] - 1;
  if (by > launch && are_ordered(g->groups[by], g->groups[launch]))
    die("%s runs before %s, whose result it reads", g->groups[launch]->name, g->groups[by]->name);
  if (by >= 0) add_order(g, l, by, launch);
  for (int i = 0; n->placed && i < n->nin; i++) wait_for(g, l, writer, n->in[i], launch);
}

// By node: the launches that update it in place, one per entry.
static List *find_changes(const Graph *g, const int *writer) {
  List *changes = arena_alloc(g->arena, sizeof *changes * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    int launch = writer[u->value->id] - 1;
    if (u->in_place && launch >= 0) add(g->arena, &changes[u->state->id], launch);
  }
  return changes;
}

static void find_orders(const Graph *g, Launches *l) {
  const int *writer = find_writers(g);
  const List *changes = find_changes(g, writer);
  for (int i = 0; i < g->ngroups; i++) {
    int count;
    Node *const *nodes = group_reads(g->groups[i], &count);
    for (int j = 0; j < count; j++) {
      const List *by = &changes[nodes[j]->id];
      wait_for(g, l, writer, nodes[j], i);
      for (int m = 0; m < by->count; m++) add_order(g, l, i, by->of[m]);
    }
  }
}

Launches launches_find(const Graph *g) {
  size_t count = (size_t)g->ngroups + 1, values = (size_t)g->nnodes + 1;
  for (int i = 0; i < g->ngroups; i++) values += (size_t)g->groups[i]->nscratch;
  Launches l = {.count = g->ngroups,
                .values = arena_alloc(g->arena, sizeof *l.values * values),
                .uses = arena_alloc(g->arena, sizeof *l.uses * count),
                .before = arena_alloc(g->arena, sizeof *l.before * count),
                .behind = arena_alloc(g->arena, sizeof *l.behind * count)};
  find_values(g, &l);
  find_orders(g, &l);
  return l;
}

// ---- memory -----------------------------------------------------------------------------------

int64_t launches_least(const Launches *l) {
  int64_t least = 0;
  for (int i = 0; i < l->count; i++) {
    int64_t bytes = 0;
    for (int j = 0; j < l->uses[i].count; j++) bytes += l->values[l->uses[i].of[j]].bytes;
    if (bytes > least) least = bytes;
  }
  return least;
}

int64_t launches_arena(Arena *arena, const Launches *l, const int *order) {
  int n = l->nvalues;
  int *first = launches_integers(arena, n), *last = launches_integers(arena, n);
  int64_t *bytes = arena_alloc(arena, sizeof *bytes * (size_t)(n + 1)),
          *offset = arena_alloc(arena, sizeof *offset * (size_t)(n + 1)), total, bound;
  for (int i = 0; i < n; i++) bytes[i] = l->values[i].bytes, first[i] = l->count;
  for (int i = 0; i < l->count; i++)
    for (int j = 0; j < l->uses[order[i]].count; j++) {
      int value = l->uses[order[i]].of[j];
      if (i < first[value]) first[value] = i;
      last[value] = l->values[value].kept ? l->count - 1 : i;
    }
  mem_plan(n, bytes, first, last, offset, &total, &bound);
  return total;
}
