// base.h: what every room stands on: arenas, growing text, tables of names, embedded files. Knows
// nothing of graphs.
#ifndef NNGEN_BASE_H
#define NNGEN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

// ---- base.c: memory, text ----------------------------------------------------------------------
typedef struct Arena Arena;
// `full` is called, once, when the arena grows beyond what a model may take (null: never).
Arena *arena_new(void (*full)(void *user), void *user);
void arena_free(Arena *arena);
void *arena_alloc(Arena *arena, size_t bytes); // zeroed, 16-byte aligned
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_dup(Arena *arena, const char *text);
// Room for one more in a list of `count` in the arena: as it is, or a copy of twice the size.
void *arena_grow(Arena *arena, void *list, int count, size_t size);
extern const int64_t arena_most;             // bytes
void *base_alloc(size_t count, size_t size); // zeroed, never null; to be freed
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
int64_t ceil_div(int64_t a, int64_t b);
int64_t gcd(int64_t a, int64_t b); // of zeros 0
int64_t round_up(int64_t n, int64_t unit); // to a multiple of it

// A growing text; `text` is always terminated.
typedef struct Buffer {
  char *text;
  size_t size, capacity;
} Buffer;
void buffer_put(Buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *buffer_take(Buffer *buffer, Arena *arena); // its text, in the arena; frees the buffer
void buffer_free(Buffer *buffer);
const char *text_nearest(const char *word, const char *const *candidates, int count);
const char *text_fit(Arena *arena, const char *text, int width); // cut, and marked by ".."

// The text of a file that the binary carries (NNGEN_DIR overrides it); null: there is none.
const char *asset_text(Arena *arena, const char *name, size_t *length);
const char *asset_name(int i); // of all embedded files; null at the end

// ---- names.c: one meaning for every identifier
// --------------------------------------------------- A table of the identifiers in use, of a
// kernel or of a plan. Whatever names something asks it.
typedef struct Names Names;
// `reserved` (may be null): words that nobody can take, a table shared by others.
Names *names_new(Arena *arena, Names *reserved);
void names_reserve(Names *names, const char *word);       // it can be taken no more
void names_reserve_words(Names *names, const char *text); // identifiers; not of strings, comments
void names_reserve_cpp(Names *names); // keywords, and what CUDA C++ and C's headers define
// `wanted` made an identifier, if nobody has it; else with the first free number behind: x_2, x_3
// (x_1 where x itself is reserved).
const char *names_take(Names *names, const char *wanted);
bool names_has(const Names *names, const char *word); // is it reserved, or taken?
// All names taken so far, blanks between.
const char *names_taken(const Names *names);

#endif
