// heap.c: memory that kernels allocate with malloc and new. It outlives its launch, as on a GPU. A
// tree of ranges detects accesses next to a piece, and to a freed one.
#include "sim/check/check.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

typedef struct Piece {
  uintptr_t begin, end;
} Piece;

static void *pieces; // a tree of tsearch
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int order(const void *a, const void *b) { // pieces that overlap are equal
  const Piece *x = a, *y = b;
  return x->end <= y->begin ? -1 : x->begin >= y->end ? 1 : 0;
}

void *heap_take(size_t bytes) {
  Piece *piece = malloc(sizeof *piece);
  char *p = bytes && piece ? malloc(bytes) : NULL;
  if (!p) return free(piece), NULL;
  if (sim_settings()->basic) memset(p, 255, bytes); // poison: NaN
  *piece = (Piece){(uintptr_t)p, (uintptr_t)p + bytes};
  pthread_mutex_lock(&lock);
  bool kept = tsearch(piece, &pieces, order) != NULL;
  pthread_mutex_unlock(&lock);
  if (!kept) free(p), free(piece), p = NULL;
  return p;
}

bool heap_give(void *p) {
  Piece key = {(uintptr_t)p, (uintptr_t)p + 1}, *piece = NULL;
  if (!p) return true;
  pthread_mutex_lock(&lock);
  Piece **found = tfind(&key, &pieces, order);
  if (found && (*found)->begin == key.begin) {
    piece = *found;
    tdelete(piece, &pieces, order);
  }
  pthread_mutex_unlock(&lock);
  if (piece) free(p);
  free(piece);
  return piece != NULL;
}

bool heap_holds(uintptr_t address, int bytes) {
  Piece key = {address, address + (uintptr_t)bytes};
  pthread_mutex_lock(&lock);
  Piece **found = tfind(&key, &pieces, order);
  bool inside = found && (*found)->begin <= key.begin && key.end <= (*found)->end;
  pthread_mutex_unlock(&lock);
  return inside;
}
