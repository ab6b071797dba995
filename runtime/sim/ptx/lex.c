// lex.c: the tokens of PTX. Names include dots and colons: an opcode with its modifiers, a
// directive, a special register with its component are one token.
#include "sim/ptx/ptx.h"

#include <ctype.h>
#include <string.h>

static bool in_name(const char *p) {
  return isalnum((unsigned char)*p) || *p == '_' || *p == '$' || *p == '%';
}

static const char *skip_comment(Ptx *ptx, const char *p, int *line) {
  if (p[1] == '/') return p + strcspn(p, "\n");
  int begin = *line;
  for (p += 2; *p && (p[0] != '*' || p[1] != '/'); p++) *line += *p == '\n';
  if (!*p) ptx_fail(ptx, CUDA_ERROR_INVALID_PTX, begin, "a comment that does not end");
  return p + 2;
}

static const char *skip_blank(Ptx *ptx, const char *p, int *line) {
  for (;;) {
    if (*p == '/' && (p[1] == '/' || p[1] == '*'))
      p = skip_comment(ptx, p, line);
    else if (isspace((unsigned char)*p))
      *line += *p++ == '\n';
    else
      return p;
  }
}

// A dot belongs to a name where another piece follows; a directive (`.reg`) ends at the next one.
static const char *name_end(const char *p) {
  const char *begin = p;
  for (p += *p == '.';; p++) {
    if (in_name(p)) continue;
    if (*p == '.' && *begin != '.' && in_name(p + 1)) continue;
    if (p > begin && p[0] == ':' && p[1] == ':' && in_name(p + 2)) {
      p++;
      continue;
    }
    return p;
  }
}

static const char *number_end(const char *p) {
  if (*p == 'x' || *p == 'X') { // where e is a digit
    while (isalnum((unsigned char)*p)) p++;
    return p;
  }
  while (isalnum((unsigned char)*p) || *p == '.' ||
         ((*p == '-' || *p == '+') && (p[-1] == 'e' || p[-1] == 'E') &&
          isdigit((unsigned char)p[1])))
    p++;
  return p;
}

static const char *string_end(Ptx *ptx, const char *p, int line) {
  for (p++; *p && *p != '"' && *p != '\n'; p++)
    if (*p == '\\' && p[1]) p++;
  if (*p != '"') ptx_fail(ptx, CUDA_ERROR_INVALID_PTX, line, "a string that does not end");
  return p + 1;
}

PtxToken ptx_lex(Ptx *ptx, const char *p, int line) {
  p = skip_blank(ptx, p, &line);
  PtxToken t = {TokSign, p, 1, line};
  const char *end = p + 1;
  if (!*p)
    t.kind = TokEnd, end = p;
  else if (isdigit((unsigned char)*p))
    t.kind = TokNumber, end = number_end(p + 1);
  else if (*p == '"')
    t.kind = TokString, end = string_end(ptx, p, line);
  else if ((in_name(p) && (*p != '%' || in_name(p + 1))) || (*p == '.' && in_name(p + 1)))
    t.kind = TokName, end = name_end(p);
  t.length = (size_t)(end - p);
  return t;
}
