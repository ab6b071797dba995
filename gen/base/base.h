// base.h: arenas, string buffers, identifier tables, embedded files. Knows nothing of graphs.
#ifndef NNGEN_BASE_H
#define NNGEN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

// ---- base.c: memory and arithmetic -------------------------------------------------------------

typedef struct Arena Arena;
extern const int64_t arena_most; // bytes that an arena may grow to
// `full` is called once, when the arena exceeds arena_most (NULL: never).
Arena *arena_new(void (*full)(void *user), void *user);
void arena_free(Arena *arena);
void *arena_alloc(Arena *arena, size_t bytes); // zeroed, 16-byte aligned
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_dup(Arena *arena, const char *text);
// Makes room for one more element of `size` bytes in a list of `count`; returns the list, moved to
// twice the capacity if it was full.
void *arena_grow(Arena *arena, void *list, int count, size_t size);
void *base_alloc(size_t count, size_t size); // zeroed, never NULL; free with free()
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2))); // internal error

int64_t ceil_div(int64_t a, int64_t b);
int64_t gcd(int64_t a, int64_t b);         // gcd(0, 0) = 0
int64_t round_up(int64_t n, int64_t unit); // to a multiple of unit

// ---- base.c: text ------------------------------------------------------------------------------

// A growing string; `text` is always terminated.
typedef struct Buffer {
  char *text;
  size_t size, capacity;
} Buffer;
void buffer_put(Buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *buffer_take(Buffer *buffer, Arena *arena); // copies the text, frees the buffer
void buffer_free(Buffer *buffer);

const char *text_nearest(const char *word, const char *const *candidates, int count); // or NULL
const char *text_fit(Arena *arena, const char *text, int width); // truncated, marked by ".."

// Contents of a file embedded in the binary (NNGEN_DIR overrides it), or NULL.
const char *asset_text(Arena *arena, const char *name, size_t *length);
const char *asset_name(int i); // of the i-th embedded file; NULL at the end

// ---- names.c: unique identifiers ---------------------------------------------------------------

// The identifiers used in one kernel or plan; every generated name is taken from such a table.
typedef struct Names Names;
// `reserved` (or NULL): a shared table of words that cannot be taken.
Names *names_new(Arena *arena, Names *reserved);
void names_reserve(Names *names, const char *word);
void names_reserve_words(Names *names, const char *text); // identifiers in C or CUDA text
void names_reserve_cpp(Names *names); // keywords, and names of CUDA C++ and C's headers
// `wanted` as an identifier, with the first free suffix if it is in use: x, x_2, x_3 (x_1 if x is
// reserved).
const char *names_take(Names *names, const char *wanted);
bool names_has(const Names *names, const char *word); // reserved or taken?
const char *names_taken(const Names *names);          // all taken names, separated by blanks

#endif
