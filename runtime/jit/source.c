// source.c: the part of a kernel's source that decides its machine code. Layers of one shape have
// sources that differ in comments and in names alone; they are compiled once, under a neutral
// symbol, and each gets its own symbol in the image (cubin.c) or from libcusim.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"

// A line that is only a comment or a #line changes no machine code; a comment that ends in a
// backslash takes the next line with it and stays.
static bool is_idle(const char *line, size_t length) {
  while (length && (*line == ' ' || *line == '\t')) line++, length--;
  if (length && line[length - 1] == '\\') return false;
  return length == 0 || (length >= 2 && !memcmp(line, "//", 2)) ||
         (length >= 6 && !memcmp(line, "#line ", 6));
}

char *source_canonical(const char *source) {
  size_t size = strlen(source), used = 0;
  char *out = heap_alloc(size + 2, 1);
  if (!out) return NULL;
  if (strstr(source, "__LINE__") || strstr(source, "R\"")) return memcpy(out, source, size);
  bool continued = false; // by a backslash on the line before
  for (const char *line = source; *line;) {
    size_t length = strcspn(line, "\n");
    if (continued || !is_idle(line, length)) {
      memcpy(out + used, line, length);
      used += length;
      out[used++] = '\n';
    }
    continued = length && line[length - 1] == '\\';
    line += length + (line[length] == '\n');
  }
  out[used] = 0;
  return out;
}

// ---- names -------------------------------------------------------------------------------------

static bool is_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

// Which of the blank-separated `names` the word is, from 0; -1: none.
static int find_name(const char *names, const char *word, size_t length) {
  int i = 0;
  for (const char *at = names; at && *at; i++) {
    size_t n = strcspn(at, " ");
    if (n == length && !memcmp(at, word, n)) return i;
    at += n + (at[n] == ' ');
  }
  return -1;
}

char *source_rename(const char *source, const char *symbol, const char *neutral,
                    const char *names) {
  size_t n = strlen(source), room = n + 1, used = 0, longest = strlen(neutral) + 12;
  int count = 1, known = 0;
  for (const char *s = names; s && *s; s++) count += *s == ' ';
  int *number = heap_alloc((size_t)count, sizeof *number); // of each name, by first appearance
  char *out = heap_alloc(room += longest, 1);
  for (const char *at = source; number && out && *at;) {
    size_t length = 0;
    while (is_word(at[length])) length++;
    if (!length) length = 1;
    if (used + length + longest > room) {
      char *more = heap_grow(out, room = room * 2 + length + longest, 1);
      if (!more) free(out);
      out = more;
      if (!out) break;
    }
    int name = find_name(names, at, length);
    if (length == strlen(symbol) && !memcmp(at, symbol, length)) {
      used += (size_t)sprintf(out + used, "%s", neutral);
    } else if (name >= 0) { // $ is in no identifier of ours: the text cannot be mistaken
      if (!number[name]) number[name] = ++known;
      used += (size_t)sprintf(out + used, "$%d", number[name]);
    } else {
      memcpy(out + used, at, length);
      used += length;
    }
    at += length;
  }
  if (out && !number) free(out), out = NULL;
  if (out) out[used] = 0;
  free(number);
  return out;
}
