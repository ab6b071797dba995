// clock.c: which memory accesses of a block are ordered, by vector clocks (NNGEN_SIM_CHECK=race).
//
// Each thread counts its own releases; a Clock says how far every thread's past is known. Arriving
// at a barrier publishes the thread's knowledge there; leaving it takes what was published. After
// a block barrier all threads share one Clock, so that joining them again is cheap; so are atomic
// operations of one thread at one place, as long as no other thread comes there.
// L. Lamport 1978; the representation follows C. Flanagan, S. Freund, "FastTrack", PLDI 2009.
#include "sim/check/check.h"

#include <stdlib.h>
#include <string.h>

typedef int32_t Four __attribute__((vector_size(16))); // counts of releases: never negative

struct Clock {
  int refs;
  int last;        // the thread that published here last, if nothing else came since; else -1
  uint64_t id;     // of what it holds: another when it has grown
  uint64_t joined; // id of what was joined last: joining it again adds nothing; 0: none
  _Alignas(16) uint32_t at[]; // per thread of the block, a multiple of four
};

static __thread uint64_t last_id __attribute__((tls_model("initial-exec"))); // a block's clocks are one OS thread's

static size_t fours(int threads) {
  return ((size_t)threads + 3) / 4;
}

static struct Clock *make(int threads) {
  struct Clock *clock = calloc(1, sizeof *clock + fours(threads) * sizeof(Four));
  if (!clock) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for the race detector");
  clock->refs = 1;
  clock->last = -1;
  clock->id = ++last_id;
  return clock;
}

static void drop(struct Clock *clock) {
  if (clock && --clock->refs == 0) free(clock);
}

static void keep(struct Clock **slot, struct Clock *clock) {
  if (clock) clock->refs++;
  drop(*slot);
  *slot = clock;
}

static void join(struct Clock *into, const struct Clock *from, int threads) {
  if (!from || into->joined == from->id) return;
  Four *to = (Four *)into->at;
  const Four *more = (const Four *)from->at;
  for (size_t i = 0; i < fours(threads); i++) {
    Four later = more[i] > to[i];
    to[i] = (more[i] & later) | (to[i] & ~later);
  }
  into->joined = from->id;
  into->id = ++last_id;
  into->last = -1;
}

// Adds `from` to what the thread knows, in a copy of its own: `from` may still grow.
static void learn(Block *block, const struct Clock *from, int thread) {
  struct Clock *mine = block->known[thread];
  if (!mine || mine->refs > 1) {
    mine = make(block->threads);
    join(mine, block->known[thread], block->threads);
    drop(block->known[thread]);
    block->known[thread] = mine;
  }
  join(mine, from, block->threads);
}

void clock_begin(Block *block) {
  if (!sim_settings()->race) return;
  for (int t = 0; t < block->threads; t++) {
    keep(&block->known[t], NULL);
    block->own[t] = 1;
    block->proxy[t] = 0;
    block->atomic_open[t] = false;
  }
  for (int i = 0; i < kAtomicClocks; i++) clock_drop(&block->atomics[i]);
}

void clock_publish_slowly(Block *block, struct Clock **place, int thread) {
  if (!*place) *place = make(block->threads);
  join(*place, block->known[thread], block->threads);
  (*place)->at[thread] = block->own[thread]++;
  (*place)->id = ++last_id;
  (*place)->last = thread;
}

void clock_take(Block *block, struct Clock *from, int thread) {
  if (!sim_settings()->race || !from) return;
  if (from->at[thread] + 1 == block->own[thread]) { // it arrived there: `from` knows all it knows
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

void clock_join(const Block *block, struct Clock **place, const struct Clock *from) {
  if (!from || !*place) return;
  join(*place, from, block->threads);
}

void clock_drop_slowly(struct Clock **place) {
  drop(*place);
  *place = NULL;
}

bool clock_ordered(const Block *block, int earlier, uint32_t when, int now) {
  return earlier == now || (block->known[now] && block->known[now]->at[earlier] >= when);
}
