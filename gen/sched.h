// sched.h: what the files of the scheduler share.
#ifndef NNGEN_SCHED_H
#define NNGEN_SCHED_H

#include "nngen.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

int64_t sched_ceil_div(int64_t a, int64_t b);
int64_t sched_round_up(int64_t n, int64_t unit); // to a multiple of it
// Elements of a run (of `run` in memory) that a thread of the group handles at once: a power of 2
// that divides the run, and no more than 16 bytes of the widest value.
int sched_lanes(const Group *g, int64_t run);
double sched_contract_flops(const Node *n);
void sched_count_work(Group *g); // Group.flops, bytes_read, bytes_written: each tensor once

enum {
  kRowBytes = 128, // of k in shared memory
  kWarp = 32,
  kMmaStep = 32,     // bytes of k in one mma
  kFmaStep = 16,     // bytes of k that a thread reads at once
  kGatherIssue = 15, // instructions of an element that is computed where it is loaded: an estimate
  kTapBytes = 8,     // of an entry in a table of taps
  kSmemLast = 16     // whether a block was the last to arrive
};

// ---- sched_cost.c ----

// What bounds a launch and what comes on top, in seconds; kept apart, so that they can be shown.
typedef struct Cost {
  int per_sm;                               // blocks that fit an SM
  double waves;                             // of blocks
  double math, smem, issue, l2, dram, wait; // bounds; wait: for one block of k after the other
  double fill, split, gap;                  // the first loads; the sums of parts; the launch
  double seconds;
} Cost;

int tile_threads(const Tile *t);
int tile_tap_bytes(const Product *p);           // shared memory of the table of taps
int tile_smem(const Tile *t, const Product *p); // bytes
bool tile_spills(const Tile *t, const Product *p);
int tile_blocks_per_sm(const Tile *t, const Product *p, const Arch *arch);
double tile_count(const Tile *t, const Product *p);      // tiles of all outputs
int64_t tile_step(const Tile *t, const Product *p);      // elements of k multiplied at once
double tile_multiplies(const Tile *t, const Product *p); // with what is padding
double tile_depth(const Tile *t,
                  const Product *p); // elements of k, whole steps, of the longest block
Cost tile_cost(const Tile *t, const Product *p, const Group *g, const Arch *arch);

// ---- sched_contract.c ----
void sched_contract(Group *g, const Arch *arch);

#endif
