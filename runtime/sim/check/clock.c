// clock.c: which memory accesses of a block are ordered, by vector clocks (NNGEN_SIM_CHECK=race).
//
// Each thread counts its own releases; a Clock holds the known count of every thread. Arriving
// at a barrier publishes the thread's clock there; leaving it joins the published ones. After
// a block barrier all threads share one Clock, so that joining again is cheap; likewise for atomic
// operations of one thread at one place while no other thread uses it. Clocks share their parts
// per warp, because threads that pass one after the other mostly know the same about most warps.
// L. Lamport 1978; the representation follows C. Flanagan, S. Freund, "FastTrack", PLDI 2009.
#include "sim/check/clock.h"

#include <stdlib.h>
#include <string.h>

// A block's clocks are one OS thread's.
static __thread uint64_t last_id __attribute__((tls_model("initial-exec")));

static void *room(size_t bytes) {
  void *room = calloc(1, bytes);
  if (!room) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for the race detector");
  return room;
}

static struct Clock *make(int threads) {
  int warps = (threads + kWarpLanes - 1) / kWarpLanes;
  struct Clock *clock = room(sizeof *clock + (size_t)warps * sizeof *clock->parts);
  clock->refs = 1;
  clock->last = -1;
  clock->id = ++last_id;
  clock->warps = warps;
  return clock;
}

static void drop_part(Part *part) {
  if (part && --part->refs == 0) free(part);
}

static void keep_part(Part **slot, Part *part) {
  part->refs++;
  drop_part(*slot);
  *slot = part;
}

// The slot's part, which no other clock has.
static Part *own_part(Part **slot) {
  Part *old = *slot;
  if (old && old->refs == 1) return old;
  Part *part = room(sizeof *part);
  if (old) memcpy(part->at, old->at, sizeof part->at);
  part->refs = 1;
  drop_part(old);
  return *slot = part;
}

static bool any(Four v) {
  typedef int64_t Two __attribute__((vector_size(16)));
  Two halves = (Two)v;
  return halves[0] | halves[1];
}

static void join_part(Part **slot, Part *from) {
  Four ahead = {0}, behind = {0};
  if (*slot == from || !from) return;
  for (int i = 0; *slot && i < kFours; i++) {
    ahead |= (*slot)->at[i] > from->at[i];
    behind |= (*slot)->at[i] < from->at[i];
  }
  if (!any(ahead)) {
    keep_part(slot, from);
  } else if (any(behind)) {
    Part *into = own_part(slot);
    for (int i = 0; i < kFours; i++) {
      Four later = from->at[i] > into->at[i];
      into->at[i] = (from->at[i] & later) | (into->at[i] & ~later);
    }
  }
}

static void drop(struct Clock *clock) {
  if (!clock || --clock->refs) return;
  for (int w = 0; w < clock->warps; w++) drop_part(clock->parts[w]);
  free(clock);
}

static void keep(struct Clock **slot, struct Clock *clock) {
  if (clock) clock->refs++;
  drop(*slot);
  *slot = clock;
}

static void join(struct Clock *into, const struct Clock *from) {
  if (!from || into->joined == from->id) return;
  for (int w = 0; w < into->warps; w++) join_part(&into->parts[w], from->parts[w]);
  into->joined = from->id;
  into->id = ++last_id;
  into->last = -1;
}

// Joins `from` into a private copy of the thread's clock: `from` may still grow.
static void learn(Block *block, const struct Clock *from, int thread) {
  struct Clock *mine = block->known[thread];
  block->learned[thread] = true;
  if (!mine || mine->refs > 1) {
    mine = make(block->threads);
    join(mine, block->known[thread]);
    drop(block->known[thread]);
    block->known[thread] = mine;
  }
  join(mine, from);
}

void clock_begin(Block *block) {
  if (!sim_settings()->race) return;
  for (int t = 0; t < block->threads; t++) {
    keep(&block->known[t], NULL);
    block->own[t] = 1;
    block->proxy[t] = 0;
    block->learned[t] = block->atomic_open[t] = false;
  }
  for (int i = 0; i < kAtomicClocks; i++) clock_drop(&block->atomics[i]);
}

void clock_publish_slowly(Block *block, struct Clock **place, int thread) {
  if (!*place) *place = make(block->threads);
  join(*place, block->known[thread]);
  block->learned[thread] = false;
  Part *part = own_part(&(*place)->parts[thread / kWarpLanes]);
  ((uint32_t *)part->at)[thread % kWarpLanes] = block->own[thread]++;
  (*place)->id = ++last_id;
  (*place)->last = thread;
}

void clock_pass(Block *block, struct Clock **place, int thread) {
  if (!block->known[thread]) return;
  if (!*place) *place = make(block->threads);
  join(*place, block->known[thread]);
}

void clock_take(Block *block, struct Clock *from, int thread) {
  if (!sim_settings()->race || !from) return;
  // Its last release is in `from` and it has joined nothing since: `from` includes its clock.
  if (!block->learned[thread] && clock_count(from, thread) + 1 == block->own[thread]) {
    block->learned[thread] = true;
    keep(&block->known[thread], from);
    return;
  }
  learn(block, from, thread);
}

void clock_learn(Block *block, const struct Clock *from, int thread) {
  if (from) learn(block, from, thread);
}

void clock_learn_atomic(Block *block, const struct Clock *from, int thread) {
  if (from && from->last != thread) learn(block, from, thread);
}

void clock_join(struct Clock **place, const struct Clock *from) {
  if (!from || !*place) return;
  join(*place, from);
}

void clock_drop_slowly(struct Clock **place) {
  drop(*place);
  *place = NULL;
}
