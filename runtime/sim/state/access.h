// access.h: accesses to memory as the race check records them, pending suspicions, and recently
// found allocations.
#ifndef CUSIM_ACCESS_H
#define CUSIM_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Access { // as the race check remembers it
  const void *pc;
  uint32_t block;   // serial of the block, or 0
  uint32_t clock;   // of the thread
  uint32_t atomics; // atomic operations in the launch before it
  uint16_t thread;
  uint8_t bytes;              // of the cell, as a mask
  bool atomic : 1, async : 1; // async: by a copy of the asynchronous proxy
  bool compare : 1;           // atomic: compare and swap
} Access;

// A plain read that races with an atomic operation, unless its thread's next operation is a
// compare-and-swap there: then a stale value only costs another iteration (first_read.c).
typedef struct EarlyRead {
  uintptr_t base; // of the access, or 0
  Access old, now;
  uintptr_t address; // of the cell
  bool shared;
} EarlyRead;

enum { kCellBytes = 4, kSuspects = 8 }; // one access has 5 cells at most

typedef struct Suspect { // a store that is a race unless it changes nothing
  Access old, now;
  uintptr_t address;
  bool shared;
  unsigned char before[kCellBytes];
} Suspect;

enum { kFoundBits = 8 };

typedef struct MemoryFound { // holds as long as the table is as it was
  const struct Allocation *a;
  unsigned changes;
} MemoryFound;

#endif
