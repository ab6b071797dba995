// launch_order.c: a launch order with lower peak memory. In node order the gradients of all weights
// may wait for the whole backward chain, for example if the first update needs the norm of all
// gradients, and their operands stay live with them.
//
// A *round* is the set of launches that still use one large value, plus their pending dependences,
// up to kMostOfRound. Algorithm:
// 1. Take launches in their order. Before each, run rounds that leave less memory live, if the
//    round's peak is at most the peak so far, or that of the next launch; lowest peak first.
// 2. Do this from the last launch to the first (rounds become as late as possible, which suits
//    recomputed values), then from the first to the last.
// 3. Repeat with some extra room from the beginning, for rounds that need much temporarily.
// 4. Use the order for which mem.c finds the smallest arena.
// Rounds are the valley-to-valley segments of J. W. H. Liu, "An application of generalized tree
// pebbling to sparse matrix factorization", 1987; for his trees the order is optimal, for graphs it
// is a heuristic.
//
// Needs: tiles, with their scratch memory; which updates are in place.
#include "launch_order.h"

#include <string.h>

enum {
  kMostOfRound = 16, // launches
  kSmall = 256,      // fraction 1/kSmall of the largest value: smaller values get no round
  kRooms = 8,        // fractions of the arena tried as extra room
  kLeastGain = 64    // 1/kLeastGain of the arena: for less gain the order stays
};

// ---- a sweep over the launches ----------------------------------------------------------------

typedef struct Sweep {
  const Launches *l;
  bool backward;
  const List *waits; // by launch: predecessors in sweep direction
  const List *wakes; // by launch: successors in sweep direction
  int *rank;         // by launch: position in the previous order
  int *order;        // launches scheduled so far
  int count;         // number of these
  bool *done;        // by launch: scheduled
  int *left;         // by value: its users that are not scheduled
  int64_t live;      // bytes live now
  int64_t most;      // peak so far
  int *heap;         // values whose rounds would reduce live bytes, by peak of the round
  int nheap;
  int *at;        // by value: position in the heap, from 1
  int64_t *needs; // by value in the heap: peak of its round
  // scratch
  int *then;  // by value: as `left`, within need_of
  int *tried; // by value: stamp of the last visit by need_of
  int *near;  // by value: the count at which it was last considered
  int *seen;  // by launch: stamp of the round that it is in
  int stamp;
} Sweep;

static Sweep new_sweep(Arena *arena, const Launches *l, const int *from, bool backward) {
  Sweep s = {.l = l, .backward = backward};
  s.waits = backward ? l->behind : l->before;
  s.wakes = backward ? l->before : l->behind;
  s.rank = launches_integers(arena, l->count), s.order = launches_integers(arena, l->count);
  s.seen = launches_integers(arena, l->count);
  s.done = arena_alloc(arena, sizeof *s.done * (size_t)(l->count + 1));
  s.left = launches_integers(arena, l->nvalues), s.heap = launches_integers(arena, l->nvalues);
  s.at = launches_integers(arena, l->nvalues), s.then = launches_integers(arena, l->nvalues);
  s.tried = launches_integers(arena, l->nvalues), s.near = launches_integers(arena, l->nvalues);
  s.needs = arena_alloc(arena, sizeof *s.needs * (size_t)(l->nvalues + 1));
  for (int i = 0; i < l->count; i++) s.rank[from[i]] = i;
  for (int i = 0; i < l->nvalues; i++) {
    s.left[i] = l->values[i].users.count;
    if (backward && l->values[i].kept) s.live += l->values[i].bytes;
  }
  s.most = s.live;
  return s;
}

static bool is_large(const Launches *l, int value) {
  return l->values[value].bytes * kSmall > l->largest;
}

// Bytes that become live if this is the first of the value's users (`left` remain), and bytes that
// die if none is left.
static int64_t begins(const Sweep *s, int value, int left) {
  const Value *v = &s->l->values[value];
  return left == v->users.count && !(s->backward && v->kept) ? v->bytes : 0;
}
static int64_t ends(const Sweep *s, int value, int left) {
  const Value *v = &s->l->values[value];
  return !left && (s->backward || !v->kept) ? v->bytes : 0;
}

typedef struct Need { // bytes relative to those live now
  int64_t most, behind;
} Need;

static Need need_of(Sweep *s, const int *launches, int count) {
  Need need = {0, 0};
  s->stamp++;
  for (int i = 0; i < count; i++) {
    const List *uses = &s->l->uses[launches[i]];
    for (int j = 0; j < uses->count; j++) {
      int value = uses->of[j];
      if (s->tried[value] != s->stamp) s->then[value] = s->left[value];
      s->tried[value] = s->stamp;
      need.behind += begins(s, value, s->then[value]);
    }
    if (need.behind > need.most) need.most = need.behind;
    for (int j = 0; j < uses->count; j++)
      need.behind -= ends(s, uses->of[j], --s->then[uses->of[j]]);
  }
  return need;
}

// ---- rounds -----------------------------------------------------------------------------------

// Adds a launch that has not run; false if the round is full.
static bool join_round(Sweep *s, int *round, int *count, int launch) {
  if (s->done[launch] || s->seen[launch] == s->stamp) return true;
  if (*count == kMostOfRound) return false;
  s->seen[launch] = s->stamp;
  round[(*count)++] = launch;
  return true;
}

static void sort_round(const Sweep *s, int *round, int count) {
  for (int i = 1; i < count; i++) {
    int launch = round[i], j = i;
    for (; j && s->rank[round[j - 1]] > s->rank[launch]; j--) round[j] = round[j - 1];
    round[j] = launch;
  }
}

// The launches that still use the value and all their dependences, in order; 0: too many.
static int find_round(Sweep *s, int value, int *round) {
  const List *users = &s->l->values[value].users;
  int count = 0;
  if (s->left[value] > kMostOfRound) return 0;
  s->stamp++;
  for (int i = 0; i < users->count; i++)
    if (!join_round(s, round, &count, users->of[i])) return 0;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < s->waits[round[i]].count; j++)
      if (!join_round(s, round, &count, s->waits[round[i]].of[j])) return 0;
  sort_round(s, round, count);
  return count;
}

static bool is_sooner(const Sweep *s, int a, int b) {
  return s->needs[a] != s->needs[b] ? s->needs[a] < s->needs[b] : a < b;
}

static void put_at(Sweep *s, int place, int value) {
  s->heap[place] = value;
  s->at[value] = place + 1;
}

// Restores the heap order at `place`.
static void sift(Sweep *s, int place) {
  int value = s->heap[place];
  for (; place && is_sooner(s, value, s->heap[(place - 1) / 2]); place = (place - 1) / 2)
    put_at(s, place, s->heap[(place - 1) / 2]);
  for (int child; (child = 2 * place + 1) < s->nheap; place = child) {
    if (child + 1 < s->nheap && is_sooner(s, s->heap[child + 1], s->heap[child])) child++;
    if (!is_sooner(s, s->heap[child], value)) break;
    put_at(s, place, s->heap[child]);
  }
  put_at(s, place, value);
}

static void put(Sweep *s, int value, int64_t needs) {
  s->needs[value] = needs;
  if (!s->at[value]) put_at(s, s->nheap++, value);
  sift(s, s->at[value] - 1);
}

static int take(Sweep *s) {
  int value = s->heap[0], last = s->heap[--s->nheap];
  s->at[value] = 0;
  if (s->nheap) put_at(s, 0, last), sift(s, 0);
  return value;
}

// Puts a value used near launch number s->count into the heap if its round now reduces live bytes.
static void consider(Sweep *s, int value) {
  int round[kMostOfRound];
  if (s->near[value] == s->count || !s->left[value] || !is_large(s->l, value)) return;
  s->near[value] = s->count;
  int count = find_round(s, value, round);
  Need need = need_of(s, round, count);
  if (need.behind < 0) put(s, value, need.most);
}

static void consider_all(Sweep *s, int launch) {
  const List *uses = &s->l->uses[launch];
  for (int i = 0; !s->done[launch] && i < uses->count; i++) consider(s, uses->of[i]);
}

static void run(Sweep *s, int launch) {
  const List *uses = &s->l->uses[launch];
  Need need = need_of(s, &launch, 1);
  if (s->live + need.most > s->most) s->most = s->live + need.most;
  s->live += need.behind;
  s->done[launch] = true;
  s->order[s->count++] = launch;
  for (int i = 0; i < uses->count; i++) s->left[uses->of[i]]--;
  for (int i = 0; i < uses->count; i++) {
    const Value *v = &s->l->values[uses->of[i]];
    bool few = is_large(s->l, uses->of[i]) && s->left[uses->of[i]] <= kMostOfRound;
    for (int j = 0; few && j < v->users.count; j++) consider_all(s, v->users.of[j]);
  }
  for (int i = 0; i < s->wakes[launch].count; i++) consider_all(s, s->wakes[launch].of[i]);
}

// Runs the round with the lowest peak, if one may precede launch `next`.
static bool run_round(Sweep *s, int next) {
  int round[kMostOfRound];
  int64_t room = need_of(s, &next, 1).most;
  if (s->most - s->live > room) room = s->most - s->live;
  while (s->nheap && s->needs[s->heap[0]] <= room) {
    int value = take(s), count = find_round(s, value, round);
    Need need = need_of(s, round, count);
    if (need.behind < 0 && need.most > room) put(s, value, need.most);
    if (need.behind >= 0 || need.most > room) continue;
    for (int i = 0; i < count; i++) run(s, round[i]);
    return true;
  }
  return false;
}

// ---- the order --------------------------------------------------------------------------------

// `room`: bytes that rounds may use in any case.
static int *sweep(Arena *arena, const Launches *l, const int *from, bool backward, int64_t room) {
  Sweep s = new_sweep(arena, l, from, backward);
  if (room > s.most) s.most = room;
  for (int i = 0; i < l->count; i++)
    while (!s.done[from[i]])
      if (!run_round(&s, from[i])) run(&s, from[i]);
  return s.order;
}

static void turn(int *order, int count) {
  for (int i = 0; i < count / 2; i++) {
    int other = order[i];
    order[i] = order[count - 1 - i];
    order[count - 1 - i] = other;
  }
}

static void set_order(Graph *g, const int *order) {
  Group **old = arena_alloc(g->arena, sizeof *old * (size_t)(g->ngroups + 1));
  memcpy(old, g->groups, sizeof *old * (size_t)g->ngroups);
  for (int i = 0; i < g->ngroups; i++) {
    g->groups[i] = old[order[i]];
    g->groups[i]->id = i;
  }
}

typedef struct Best {
  const int *order;
  int64_t bytes; // of its arena
} Best;

static void compare(Arena *arena, const Launches *l, const int *order, Best *best) {
  int64_t bytes = launches_arena(arena, l, order);
  if (bytes < best->bytes) *best = (Best){order, bytes};
}

void launch_order_pass(Compiler *c) {
  Graph *g = c->graph;
  Launches l = launches_find(g);
  int *order = launches_integers(g->arena, l.count);
  for (int i = 0; i < l.count; i++) order[i] = i;
  Best best = {order, launches_arena(g->arena, &l, order)};
  int64_t was = best.bytes, least = launches_least(&l), most = was - was / kLeastGain;
  if (least >= most) return;
  int *turned = launches_integers(g->arena, l.count);
  for (int i = 0; i < l.count; i++) turned[i] = l.count - 1 - i;
  for (int part = 0; part < kRooms; part++) {
    int64_t room = was * part / kRooms;
    if (part && (room < least || room >= best.bytes)) continue;
    int *late = sweep(g->arena, &l, turned, true, room);
    turn(late, l.count);
    compare(g->arena, &l, late, &best);
    compare(g->arena, &l, sweep(g->arena, &l, late, false, room), &best);
  }
  if (best.bytes < most) set_order(g, best.order);
}
