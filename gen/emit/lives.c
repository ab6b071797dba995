// lives.c: an order of launches in which less is in memory at once. In the order of nodes the
// gradients of all weights may wait for the whole chain of the others, as where the first update
// needs the norm of them all, and what they read waits with them.
//
// Launches go in the order they had, but before each of them others may come that leave less in
// memory: of a large value all launches that still need it, with those that these wait for, where
// they are few: a round. It runs at once if fewer bytes are live behind it, and in it no more than
// were before anywhere, or than the next launch in order takes anyway; that with the least in it is
// first. So it goes once from the last launch to the first, where a round is what comes as late as
// it can, as what is computed again should, and then from the first to the last; and again with
// some room from the beginning, for rounds whose launches need much for themselves. (Rounds are
// what J. W. H. Liu, "An application of generalized tree pebbling to sparse matrix factorization",
// 1987, has from valley to valley; his trees have one order that is best, graphs have not.) The
// order of which mem.c makes the smallest arena is taken.
//
// Needs: tiles, with what kernels keep for themselves; what is updated in place.
#include "lives.h"

#include <string.h>

enum {
  kMostOfRound = 16, // launches
  kSmall = 256,      // parts of the largest value: for less no round is looked for
  kRooms = 8,        // shares of the arena that are tried as room for rounds
  kLeastGain = 64    // part of the arena: for less the order stays
};

// ---- a sweep over them ------------------------------------------------------------------------

typedef struct Sweep {
  const Launches *l;
  bool backward;
  const List *waits, *wakes; // by launch: whom it waits for in this direction, who waits for it
  int *rank, *order, count;  // by launch: its place before; those that have run
  bool *done;                // by launch
  int *left;                 // by value: launches that use it and have not run
  int64_t live, most;        // bytes: now, and the most so far
  int *heap, *at, nheap;     // values whose rounds would leave less; by value: its place, from 1
  int64_t *needs;            // by value in the heap: bytes, at the most, in its round
  int *then, *tried, *near, *seen, stamp; // scratch: by value, by value, by value, by launch
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

// Bytes that become live when the first of `left` launches runs that use a value, or are live no
// more when none is left.
static int64_t begins(const Sweep *s, int value, int left) {
  const Value *v = &s->l->values[value];
  return left == v->users.count && !(s->backward && v->kept) ? v->bytes : 0;
}
static int64_t ends(const Sweep *s, int value, int left) {
  const Value *v = &s->l->values[value];
  return !left && (s->backward || !v->kept) ? v->bytes : 0;
}

typedef struct Need { // bytes beside those that are live now
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

// Adds a launch that has not run; false: there is no room.
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

// Those that still use the value, and all that they wait for, in order; 0: they are too many.
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

// Where the value at `place` belongs.
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

// A value beside the launch that runs as number s->count: does its round leave less now?
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

// Runs the round that takes least meanwhile, if one is to come before the launch `next`.
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

// `room`: bytes that rounds may take in any case.
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

void lives_pass(Compiler *c) {
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
