// access.h: accesses to memory as the race check remembers them, and those that it is not sure of
// yet; allocations that were found.
#ifndef CUSIM_ACCESS_H
#define CUSIM_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Access { // as the race check remembers it
  const void *pc;
  uint32_t block;   // serial of the block; 0: none
  uint32_t clock;   // of the thread
  uint32_t atomics; // atomic operations in the launch before it
  uint16_t thread;
  uint8_t bytes;              // of the cell, as a mask
  bool atomic : 1, async : 1; // async: by a copy of the asynchronous proxy
  bool compare : 1;           // atomic: compare and swap
} Access;

// A plain read that races with an atomic operation, unless its thread next compares and swaps at
// that place: then a stale value only costs another turn of its loop (first_read.c).
typedef struct EarlyRead {
  uintptr_t base; // of the access; 0: there is none
  Access old, now;
  uintptr_t address; // of the cell
  bool shared;
} EarlyRead;

enum { kCellBytes = 4, kSuspects = 8 }; // one access has 5 cells at most

typedef struct Suspect { // a store that races unless it changes nothing
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
