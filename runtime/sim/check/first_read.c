// first_read.c: recognises the initial plain load of a compare-and-swap loop.
//
// A loop that continues only while its value would win (a maximum of floats, a hash table's insert)
// ends without a swap in most threads: their read races with the others' swaps, but a stale value
// is harmless. Such a thread does not show what its read is for; but a thread that does swap has
// executed the same read. So a read is taken for such a load if some thread swapped next, or one
// on the same line did (the compiler copies loops).
#include "sim/check/shadow.h"

#include <string.h>

enum { kFirstReads = 64, kLine = 512 };

static const void *reads[kFirstReads];

static const void *read_at(int i) {
  return __atomic_load_n(&reads[i], __ATOMIC_RELAXED);
}

bool first_read_known(const void *pc) {
  for (int i = 0; i < kFirstReads && read_at(i); i++)
    if (read_at(i) == pc) return true;
  return false;
}

void first_read_add(const void *pc) {
  if (first_read_known(pc)) return;
  for (int i = 0; i < kFirstReads; i++) {
    const void *none = NULL;
    if (__atomic_compare_exchange_n(&reads[i], &none, pc, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return;
  }
}

void first_read_forget(uintptr_t begin, size_t bytes) {
  int kept = 0;
  for (int i = 0; i < kFirstReads && reads[i]; i++)
    if ((uintptr_t)reads[i] - begin >= bytes) reads[kept++] = reads[i];
  while (kept < kFirstReads) reads[kept++] = NULL;
}

bool first_read_is(const void *pc) {
  char line[kLine], other[kLine];
  if (first_read_known(pc)) return true;
  if (read_at(0)) fault_line(pc, line, sizeof line);
  for (int i = 0; i < kFirstReads && read_at(i); i++) {
    if (strcmp(line, fault_line(read_at(i), other, sizeof other))) continue;
    first_read_add(pc);
    return true;
  }
  return false;
}
