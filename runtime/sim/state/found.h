// found.h: allocations that an OS thread found last.
#ifndef CUSIM_FOUND_H
#define CUSIM_FOUND_H

#include "sim/state/state.h"

#pragma GCC visibility push(hidden)

extern unsigned memory_changes; // of the table of allocations

static inline MemoryFound *memory_slot(Worker *worker, uintptr_t address) {
  return &worker->found[(uint32_t)(address >> 16) * 0x9e3779b1u >> (32 - kFoundBits)];
}

// memory_find's result if it is the worker's last one and contains the access, else NULL.
static inline const Allocation *memory_find_again(Worker *worker, uintptr_t address, int bytes) {
  const MemoryFound *found = memory_slot(worker, address);
  const Allocation *a = found->a;
  if (!a || found->changes != __atomic_load_n(&memory_changes, __ATOMIC_RELAXED)) return NULL;
  return address >= a->begin && address - a->begin + (size_t)bytes <= a->bytes ? a : NULL;
}

#pragma GCC visibility pop
#endif
