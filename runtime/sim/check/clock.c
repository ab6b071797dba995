// clock.c: which memory accesses of a block are ordered, by vector clocks (NNGEN_SIM_CHECK=race).
//
// Each thread counts its own releases; a Clock says how far every thread's past is known. Arriving
// at a barrier publishes the thread's knowledge there; leaving it takes what was published. After
// a block barrier all threads share one Clock, so that joining them again is cheap.
// L. Lamport 1978; the representation follows C. Flanagan, S. Freund, "FastTrack", PLDI 2009.
#include "sim/check/check.h"

#include <stdlib.h>
#include <string.h>

struct Clock {
  int refs;
  const struct Clock *joined; // the last one joined: joining it again adds nothing
  uint32_t at[];              // per thread of the block
};

static struct Clock *make(int threads) {
  struct Clock *clock = calloc(1, sizeof *clock + (size_t)threads * sizeof clock->at[0]);
  if (!clock) fault_raise(CUDA_ERROR_OUT_OF_MEMORY, NULL, "no memory for the race detector");
  clock->refs = 1;
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
  if (!from || into->joined == from) return;
  for (int i = 0; i < threads; i++)
    if (from->at[i] > into->at[i]) into->at[i] = from->at[i];
  into->joined = from;
}

// Adds `from` to what the thread knows, in a copy of its own: `from` may still grow.
static void learn(Block *block, const struct Clock *from, int thread) {
  struct Clock *mine = make(block->threads);
  join(mine, block->known[thread], block->threads);
  join(mine, from, block->threads);
  mine->joined = NULL;
  drop(block->known[thread]);
  block->known[thread] = mine;
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

void clock_join(const Block *block, struct Clock **place, const struct Clock *from) {
  if (!from || !*place) return;
  join(*place, from, block->threads);
  (*place)->joined = NULL; // `from` may still grow
}

void clock_drop_slowly(struct Clock **place) {
  drop(*place);
  *place = NULL;
}

bool clock_ordered(const Block *block, int earlier, uint32_t when, int now) {
  return earlier == now || (block->known[now] && block->known[now]->at[earlier] >= when);
}
