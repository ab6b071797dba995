// clock.h: vector clocks: a thread's knowledge of the others (clock.c).
#ifndef CUSIM_CLOCK_H
#define CUSIM_CLOCK_H

#include "sim/check/check.h"

typedef int32_t Four __attribute__((vector_size(16))); // counts of releases: never negative

enum { kFours = kWarpLanes / 4 };

typedef struct Part { // the clocks of a warp's threads; shared parts are immutable
  int refs;
  Four at[kFours];
} Part;

struct Clock {
  int refs;
  int last;        // the thread that published here last, if nothing was joined since; else -1
  uint64_t id;     // of the contents; changes when they grow
  uint64_t joined; // id of what was joined last, or 0: joining it again adds nothing
  int warps;
  Part *parts[]; // per warp, or NULL
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
