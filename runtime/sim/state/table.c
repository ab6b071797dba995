// table.c: the table of allocations, by address.
#include "sim/state/found.h"

#include <stdlib.h>
#include <string.h>

static Allocation **table; // by address
static int ntable, room;
unsigned memory_changes;

// Index of the first allocation that begins after the address.
static int above(uintptr_t address) {
  int low = 0, high = ntable;
  while (low < high) {
    int middle = (low + high) / 2;
    if (table[middle]->begin > address)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

bool memory_insert(Allocation *a) {
  if (ntable == room) {
    int more = room ? 2 * room : 64;
    Allocation **grown = realloc(table, (size_t)more * sizeof *grown);
    if (!grown) return false;
    table = grown, room = more;
  }
  __atomic_fetch_add(&memory_changes, 1, __ATOMIC_RELAXED);
  int at = above(a->begin);
  memmove(table + at + 1, table + at, (size_t)(ntable - at) * sizeof *table);
  table[at] = a;
  ntable++;
  return true;
}

void memory_take_out(Allocation *a) {
  __atomic_fetch_add(&memory_changes, 1, __ATOMIC_RELAXED);
  int at = above(a->begin) - 1;
  memmove(table + at, table + at + 1, (size_t)(ntable - at - 1) * sizeof *table);
  ntable--;
}

bool memory_inside(const Allocation *a, uintptr_t address) {
  return address >= a->begin && address - a->begin < (a->bytes ? a->bytes : 1);
}

const Allocation *memory_find(uintptr_t address) {
  int at = above(address);
  if (at > 0 && (memory_inside(table[at - 1], address) ||
                 address < (uintptr_t)table[at - 1]->map + table[at - 1]->map_bytes)) {
    unsigned changes = __atomic_load_n(&memory_changes, __ATOMIC_RELAXED);
    if (sim_worker) *memory_slot(sim_worker, address) = (MemoryFound){table[at - 1], changes};
    return table[at - 1];
  }
  if (at < ntable && table[at]->map && address >= (uintptr_t)table[at]->map) return table[at];
  return NULL;
}

const Allocation *memory_at(int index) { return index < ntable ? table[index] : NULL; }

Allocation *memory_find_begin(uintptr_t address) {
  int at = above(address);
  return at > 0 && table[at - 1]->begin == address ? table[at - 1] : NULL;
}
