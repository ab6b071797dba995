// base.c: arenas, string buffers, nearest words, embedded files.
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- arenas -----------------------------------------------------------------------------------

typedef struct Block {
  struct Block *next;
  size_t used, size;
  _Alignas(16) char data[];
} Block;

struct Arena {
  Block *block;
  int64_t bytes;
  void (*full)(void *user);
  void *user;
};

enum { kBlockBytes = 1 << 18 };
const int64_t arena_most = 1 << 30; // enough for a model of two million nodes

Arena *arena_new(void (*full)(void *user), void *user) {
  Arena *arena = base_alloc(1, sizeof *arena);
  arena->full = full;
  arena->user = user;
  return arena;
}

void arena_free(Arena *arena) {
  if (!arena) return;
  for (Block *b = arena->block, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free(arena);
}

void *arena_alloc(Arena *arena, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  Block *b = arena->block;
  if (!b || b->size - b->used < bytes) {
    size_t size = bytes > kBlockBytes ? bytes : kBlockBytes;
    if ((arena->bytes += (int64_t)size) > arena_most && arena->full) arena->full(arena->user);
    b = calloc(1, sizeof *b + size);
    if (!b) die("out of memory");
    b->size = size;
    b->next = arena->block;
    arena->block = b;
  }
  void *p = b->data + b->used;
  b->used += bytes;
  return p;
}

char *arena_printf(Arena *arena, const char *format, ...) {
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, format, ap);
  va_end(ap);
  char *text = arena_alloc(arena, (size_t)n + 1);
  vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  return text;
}

char *arena_dup(Arena *arena, const char *text) {
  size_t n = strlen(text) + 1;
  return memcpy(arena_alloc(arena, n), text, n);
}

void *arena_grow(Arena *arena, void *list, int count, size_t size) {
  if (count & (count - 1)) return list; // count is not a power of two: not full
  void *grown = arena_alloc(arena, size * (size_t)(count ? count * 2 : 1));
  return count ? memcpy(grown, list, size * (size_t)count) : grown;
}

void *base_alloc(size_t count, size_t size) {
  void *p = calloc(count ? count : 1, size);
  if (!p) die("out of memory");
  return p;
}

// ---- growing text -----------------------------------------------------------------------------

void buffer_put(Buffer *b, const char *format, ...) {
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  size_t n = (size_t)vsnprintf(b->text, 0, format, ap);
  va_end(ap);
  if (b->size + n + 1 > b->capacity) {
    b->capacity = (b->size + n + 1) * 2;
    b->text = realloc(b->text, b->capacity);
    if (!b->text) die("out of memory");
  }
  vsnprintf(b->text + b->size, n + 1, format, again);
  va_end(again);
  b->size += n;
}

const char *buffer_take(Buffer *b, Arena *arena) {
  const char *text = b->text ? arena_dup(arena, b->text) : "";
  buffer_free(b);
  return text;
}

void buffer_free(Buffer *b) {
  free(b->text);
  *b = (Buffer){0};
}

// ---- errors and arithmetic --------------------------------------------------------------------

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

int64_t round_up(int64_t n, int64_t unit) {
  return ceil_div(n, unit) * unit;
}

void die(const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  fputs("nngen: internal error: ", stderr);
  vfprintf(stderr, format, ap);
  fputs("\n", stderr);
  va_end(ap);
  abort();
}

// Edit distance of two words, cut off at `limit` (words are short: one row on the stack).
static int distance(const char *a, const char *b) {
  enum { kMost = 63 };
  int row[kMost + 1], na = (int)strlen(a), nb = (int)strlen(b);
  if (na > kMost || nb > kMost) return kMost;
  for (int j = 0; j <= nb; j++) row[j] = j;
  for (int i = 1; i <= na; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= nb; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[nb];
}

// The candidate closest to `word` for "did you mean", or NULL if none is close.
const char *text_nearest(const char *word, const char *const *candidates, int count) {
  const char *best = NULL;
  int length = (int)strlen(word), least = length / 3 + 2;
  if (least > length / 2 + 1) least = length / 2 + 1; // half of a short word must match
  for (int i = 0; i < count; i++) {
    int d = distance(word, candidates[i]);
    if (d < least) least = d, best = candidates[i];
  }
  return best;
}

const char *text_fit(Arena *arena, const char *text, int width) {
  return (int)strlen(text) <= width
             ? text
             : arena_printf(arena, "%.*s..", width - (int)strlen(".."), text);
}

// ---- embedded files ---------------------------------------------------------------------------

extern const struct { const char *name, *begin, *end; } assets[];

static const char *asset_override(Arena *arena, const char *name, size_t *length) {
  const char *dir = getenv("NNGEN_DIR");
  if (!dir) return NULL;
  FILE *file = fopen(arena_printf(arena, "%s/%s", dir, name), "rb");
  if (!file) return NULL;
  Buffer b = {0};
  char chunk[4096];
  for (size_t n; (n = fread(chunk, 1, sizeof chunk, file)) > 0;)
    buffer_put(&b, "%.*s", (int)n, chunk);
  fclose(file);
  *length = b.size;
  return buffer_take(&b, arena);
}

const char *asset_text(Arena *arena, const char *name, size_t *length) {
  const char *text = asset_override(arena, name, length);
  for (int i = 0; !text && assets[i].name; i++) {
    if (strcmp(assets[i].name, name)) continue;
    *length = (size_t)(assets[i].end - assets[i].begin);
    text = assets[i].begin; // the byte after the end is 0
  }
  return text;
}

const char *asset_name(int i) {
  return assets[i].name;
}
