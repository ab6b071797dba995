// clock.h: what a thread knows of the others (clock.c).
#ifndef CUSIM_CLOCK_H
#define CUSIM_CLOCK_H

#include "sim/check/check.h"

typedef int32_t Four __attribute__((vector_size(16))); // counts of releases: never negative

enum { kFours = kWarpLanes / 4 };

typedef struct Part { // what is known of a warp's threads; shared parts are not changed
  int refs;
  Four at[kFours];
} Part;

struct Clock {
  int refs;
  int last;        // the thread that published here last, if nothing else came since; else -1
  uint64_t id;     // of what it holds: another when it has grown
  uint64_t joined; // id of what was joined last: joining it again adds nothing; 0: none
  int warps;
  Part *parts[]; // of each warp; null: nothing
};

static inline uint32_t clock_count(const struct Clock *clock, int thread) {
  const Part *part = clock->parts[thread / kWarpLanes];
  return part ? ((const uint32_t *)part->at)[thread % kWarpLanes] : 0;
}

// The thread `now` knows the release that the earlier one made after its access, at `when`.
static inline bool clock_ordered(const Block *block, int earlier, uint32_t when, int now) {
  const struct Clock *known = block->known[now];
  return earlier == now || (known && clock_count(known, earlier) >= when);
}

#endif
