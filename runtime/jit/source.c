// source.c: the part of a kernel's source that determines its machine code. Layers of one shape
// have sources that differ only in comments and names; they are compiled once, under a neutral
// symbol, and each gets its own symbol in the image (cubin.c) or from libcusim.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"

// True for a comment or #line, which does not affect machine code. A comment that ends in a
// backslash continues on the next line, and is kept.
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

// Names to be replaced, in lists by first character, because few words of a source are among them.
typedef struct Name {
  const char *text;
  size_t length;
  int number, next; // in order of appearance, 0: not yet; the next of its list, or -1
} Name;

typedef struct Names {
  Name *all;
  int first[256], known;
} Names;

// Parses the blank-separated `list`, or NULL.
static bool open_names(Names *names, const char *list) {
  int count = 0, at = 1;
  for (const char *s = list; s && *s; s++) at += *s == ' ';
  *names = (Names){.all = heap_alloc((size_t)at, sizeof *names->all)};
  for (int i = 0; i < 256; i++) names->first[i] = -1;
  for (const char *s = list; names->all && s && *s; count++) {
    size_t n = strcspn(s, " ");
    int *first = &names->first[(unsigned char)*s];
    names->all[count] = (Name){.text = s, .length = n, .next = *first};
    *first = count;
    s += n + (s[n] == ' ');
  }
  return names->all;
}

static Name *find_name(const Names *names, const char *word, size_t length) {
  for (int i = names->first[(unsigned char)*word]; i >= 0; i = names->all[i].next)
    if (names->all[i].length == length && !memcmp(names->all[i].text, word, length))
      return &names->all[i];
  return NULL;
}

char *source_rename(const char *source, const char *symbol, const char *neutral, const char *list) {
  size_t room = strlen(source) + 1, used = 0, longest = strlen(neutral) + 12;
  size_t of_symbol = strlen(symbol);
  Names names;
  char *out = open_names(&names, list) ? heap_alloc(room += longest, 1) : NULL;
  for (const char *at = source; out && *at;) {
    size_t length = 0;
    while (is_word(at[length])) length++;
    if (!length) length = 1;
    if (used + length + longest > room) {
      char *more = heap_grow(out, room = room * 2 + length + longest, 1);
      if (!more) free(out);
      out = more;
      if (!out) break;
    }
    Name *name = find_name(&names, at, length);
    if (length == of_symbol && !memcmp(at, symbol, length)) {
      used += (size_t)sprintf(out + used, "%s", neutral);
    } else if (name) { // $ is in no identifier of ours: the text cannot be mistaken
      if (!name->number) name->number = ++names.known;
      used += (size_t)sprintf(out + used, "$%d", name->number);
    } else {
      memcpy(out + used, at, length);
      used += length;
    }
    at += length;
  }
  if (out) out[used] = 0;
  free(names.all);
  return out;
}
