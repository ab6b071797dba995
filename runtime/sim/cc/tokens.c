// tokens.c: the tokens of preprocessed C++, one at a time: as much of the language as rewriting
// needs.
#include "sim/cc/cc.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

bool token_is(Token t, const char *word) {
  size_t n = strlen(word);
  return (size_t)(t.end - t.begin) == n && !memcmp(t.begin, word, n);
}

static bool is_word_char(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '$';
}
bool token_is_name(Token t) {
  return t.begin < t.end && is_word_char(*t.begin) && !isdigit(*t.begin);
}

static const char *skip_raw_string(const char *p) { // at R"delim(
  const char *open = strchr(p, '(');
  if (!open) return p + strlen(p);
  char close[32];
  int n = snprintf(close, sizeof close, ")%.*s\"", (int)(open - p - 2), p + 2);
  const char *end = strstr(open, close);
  return end ? end + n : p + strlen(p);
}

static const char *skip_quoted(const char *p) {
  char quote = *p++;
  while (*p && *p != quote && *p != '\n') p += *p == '\\' && p[1] ? 2 : 1;
  return *p == quote ? p + 1 : p;
}

// Skips blanks, comments and the preprocessor's line markers before the next token.
const char *token_skip_blank(const char *p, const char *start) {
  for (;;) {
    if (isspace((unsigned char)*p))
      p++;
    else if (p[0] == '/' && p[1] == '/')
      p += strcspn(p, "\n");
    else if (p[0] == '/' && p[1] == '*')
      p = strstr(p + 2, "*/") ? strstr(p + 2, "*/") + 2 : p + strlen(p);
    else if (*p == '#' && (p == start || p[-1] == '\n'))
      p += strcspn(p, "\n");
    else
      return p;
  }
}

Token token_at(const char *p) {
  if (p[0] == 'R' && p[1] == '"') return (Token){p, skip_raw_string(p)};
  if (is_word_char(*p)) {
    const char *end = p;
    bool digits = isdigit((unsigned char)*p);
    while (is_word_char(*end) || (digits && (*end == '.' || *end == '\''))) end++;
    return (Token){p, end};
  }
  if (*p == '"' || *p == '\'') return (Token){p, skip_quoted(p)};
  return (Token){p, *p ? p + 1 : p};
}

// Past the bracket that closes the one at p.
const char *token_skip_brackets(const char *p) {
  int depth = 0;
  for (Token t = token_at(p); t.begin < t.end; t = token_at(token_skip_blank(t.end, ""))) {
    depth += *t.begin == '(' || *t.begin == '[' || *t.begin == '{';
    depth -= *t.begin == ')' || *t.begin == ']' || *t.begin == '}';
    if (!depth) return t.end;
  }
  return p + strlen(p);
}
