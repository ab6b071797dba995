// arena.c: the memory and names of one translation, and its error exit.
#include "sim/ptx/ptx.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { kChunk = 1 << 20, kAlign = 16 };

typedef struct Chunk {
  struct Chunk *next;
  size_t used, room;
  _Alignas(kAlign) char bytes[];
} Chunk;

void *ptx_alloc(Ptx *ptx, size_t bytes) {
  bytes = (bytes + kAlign - 1) & ~(size_t)(kAlign - 1);
  Chunk *chunk = ptx->chunks;
  if (!chunk || chunk->room - chunk->used < bytes) {
    size_t room = bytes > kChunk ? bytes : kChunk;
    chunk = calloc(1, sizeof *chunk + room);
    if (!chunk) ptx_fail(ptx, CUDA_ERROR_OUT_OF_MEMORY, 0, "no memory for the module");
    chunk->room = room;
    chunk->next = ptx->chunks;
    ptx->chunks = chunk;
  }
  void *at = chunk->bytes + chunk->used;
  chunk->used += bytes;
  return at;
}

char *ptx_string(Ptx *ptx, const char *begin, size_t length) {
  return memcpy(ptx_alloc(ptx, length + 1), begin, length);
}

void ptx_free(Ptx *ptx) {
  for (Chunk *chunk = ptx->chunks, *next; chunk; chunk = next) {
    next = chunk->next;
    free(chunk);
  }
  ptx->chunks = NULL;
}

void ptx_fail(Ptx *ptx, CUresult error, int line, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (line)
    text_print(ptx->log, "ptx, line %d: error: %s\n", line, text);
  else
    text_print(ptx->log, "ptx: error: %s\n", text);
  ptx->error = error;
  longjmp(ptx->failed, 1);
}

// ---- names --------------------------------------------------------------------------------------

typedef struct PtxSlot {
  const char *name; // null: free
  int scope, value;
} PtxSlot;

static size_t hash(int scope, const char *name) {
  size_t h = 14695981039346656037u ^ (size_t)scope * 0x9e3779b97f4a7c15u;
  for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
  return h ^ h >> 29;
}

static PtxSlot *slot_of(const PtxTable *table, int scope, const char *name) {
  size_t i = hash(scope, name) & (table->room - 1);
  while (table->slots[i].name &&
         (table->slots[i].scope != scope || strcmp(table->slots[i].name, name) != 0))
    i = (i + 1) & (table->room - 1);
  return &table->slots[i];
}

static void grow(Ptx *ptx, PtxTable *table) {
  PtxTable bigger = {.room = table->room ? 2 * table->room : 64, .count = table->count};
  bigger.slots = ptx_alloc(ptx, bigger.room * sizeof *bigger.slots);
  for (size_t i = 0; i < table->room; i++)
    if (table->slots[i].name)
      *slot_of(&bigger, table->slots[i].scope, table->slots[i].name) = table->slots[i];
  *table = bigger;
}

void table_put(Ptx *ptx, PtxTable *table, int scope, const char *name, int value) {
  if (2 * (table->count + 1) > table->room) grow(ptx, table);
  PtxSlot *slot = slot_of(table, scope, name);
  table->count += !slot->name;
  *slot = (PtxSlot){name, scope, value};
}

int table_get(const PtxTable *table, int scope, const char *name) {
  const PtxSlot *slot = table->room ? slot_of(table, scope, name) : NULL;
  return slot && slot->name ? slot->value : -1;
}
