// macros.c: expands macros in a program's own text without the preprocessor: kernels use few simple
// ones. Everything else is left to the preprocessor: directives except #line and #pragma unroll, #
// and ## in a macro, names that only it defines, recursive macros.
#include "sim/cc/cc.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { kMaxParams = 16, kMaxDeep = 32 };

typedef struct Macro {
  Token name, params, body; // params: with their brackets; empty if none
} Macro;

struct Macros {
  Macro *all; // by name
  int count;
};

// An expansion in progress: text goes to `out`; the macros around it are not expanded again.
typedef struct Expansion {
  const Macros *macros;
  Token active[kMaxDeep];
  int depth;
} Expansion;

static int length(Token t) {
  return (int)(t.end - t.begin);
}

static int compare_names(Token a, Token b) {
  int shorter = length(a) < length(b) ? length(a) : length(b);
  int order = memcmp(a.begin, b.begin, (size_t)shorter);
  return order ? order : length(a) - length(b);
}

static int by_name(const void *a, const void *b) {
  return compare_names(((const Macro *)a)->name, ((const Macro *)b)->name);
}

// ---- reading ------------------------------------------------------------------------------------

// "#define name(a, b) body", as the preprocessor lists it (-dM).
static bool read_macro(const char *line, const char *end, Macro *macro) {
  static const char define[] = "#define ";
  if (strncmp(line, define, strlen(define)) != 0) return false;
  macro->name = token_at(line + strlen(define));
  const char *p = macro->name.end, *close = *p == '(' ? memchr(p, ')', (size_t)(end - p)) : NULL;
  macro->params = (Token){p, close ? close + 1 : p};
  p = macro->params.end + (macro->params.end < end && *macro->params.end == ' ');
  macro->body = (Token){p, end};
  return token_is_name(macro->name) && (*macro->name.end == '(') == (close != NULL);
}

Macros *macros_read(const char *text) {
  Macros *macros = calloc(1, sizeof *macros);
  int lines = 0;
  for (const char *p = text; *p; p++) lines += *p == '\n';
  if (macros) macros->all = calloc((size_t)lines + 1, sizeof *macros->all);
  if (!macros || !macros->all) return macros_free(macros), NULL;
  for (const char *end; (end = strchr(text, '\n')); text = end + 1)
    if (read_macro(text, end, &macros->all[macros->count])) macros->count++;
  qsort(macros->all, (size_t)macros->count, sizeof *macros->all, by_name);
  return macros;
}

void macros_free(Macros *macros) {
  if (macros) free(macros->all);
  free(macros);
}

static const Macro *find(const Macros *macros, Token name) {
  Macro wanted = {.name = name};
  return bsearch(&wanted, macros->all, (size_t)macros->count, sizeof *macros->all, by_name);
}

// Of these the preprocessor makes something, though no list of macros has them.
static bool is_its_own(Token name) {
  static const char *const words[] = {"_Pragma",      "__LINE__",          "__FILE__",
                                      "__COUNTER__",  "__DATE__",          "__TIME__",
                                      "__TIMESTAMP__", "__INCLUDE_LEVEL__", "__BASE_FILE__",
                                      "__FILE_NAME__", "__VA_ARGS__",       "__VA_OPT__"};
  if (*name.begin != '_') return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (token_is(name, words[i])) return true;
  return length(name) > 6 && !memcmp(name.begin, "__has_", 6);
}

// ---- expanding ----------------------------------------------------------------------------------

static bool expand(Expansion *e, Token text, Text *out);

// The text between brackets, at its commas. How many parts; -1: they are not plain.
static int split(Token brackets, Token parts[kMaxParams]) {
  int n = 0, depth = 0;
  const char *begin = brackets.begin + 1, *end = brackets.end - 1;
  for (Token t = {begin, begin}; begin <= end;) {
    t = token_at(t.end);
    const char *at = t.begin;
    if (at < end && (*at == '#' || (*at == '/' && (at[1] == '/' || at[1] == '*')))) return -1;
    if (at < end) depth += (*at == '(') - (*at == ')');
    if (at >= end || (*at == ',' && !depth)) {
      if (n == kMaxParams) return -1;
      parts[n++] = (Token){begin, at < end ? at : end};
      begin = at < end ? at + 1 : end + 1;
    }
  }
  return n;
}

static Token trim(Token t) {
  while (t.begin < t.end && isspace((unsigned char)*t.begin)) t.begin++;
  while (t.begin < t.end && isspace((unsigned char)t.end[-1])) t.end--;
  return t;
}

static bool is_blank(Token t) {
  return !length(trim(t));
}

// The body, with arguments, whose macros are expanded first, in place of parameters.
static bool substitute(Expansion *e, const Macro *macro, Token brackets, Text *out) {
  Token params[kMaxParams], arguments[kMaxParams];
  int n = split(macro->params, params), given = split(brackets, arguments);
  if (n < 0 || n != given || memchr(macro->params.begin, '.', (size_t)length(macro->params)))
    return false;
  if (is_blank(params[0]) && !is_blank(arguments[0])) return false;
  for (const char *p = macro->body.begin; p < macro->body.end;) {
    Token t = token_at(p);
    int i = 0;
    while (i < n && (is_blank(params[i]) || compare_names(trim(params[i]), t) != 0)) i++;
    text_append(out, " ", i < n);
    if (i == n) text_append(out, t.begin, (size_t)length(t));
    else if (!expand(e, arguments[i], out)) return false;
    text_append(out, " ", i < n);
    p = t.end;
  }
  return true;
}

// True if its last word is a macro that takes arguments from the following text.
static bool ends_open(const Expansion *e, Token text) {
  Token last = {text.begin, text.begin}, t = last;
  while ((t = token_at(token_skip_blank(t.end, ""))).begin < text.end && length(t)) last = t;
  const Macro *macro = token_is_name(last) ? find(e->macros, last) : NULL;
  return macro && length(macro->params);
}

// One use of a macro, up to *end. False: it is not plain.
static bool expand_use(Expansion *e, const Macro *macro, Token use, Text *out) {
  Text text = {0};
  bool ok = e->depth < kMaxDeep && !memchr(macro->body.begin, '#', (size_t)length(macro->body));
  for (int i = 0; i < e->depth; i++) ok = ok && compare_names(e->active[i], macro->name) != 0;
  if (ok && length(macro->params))
    ok = substitute(e, macro, use, &text);
  else if (ok)
    text_append(&text, macro->body.begin, (size_t)length(macro->body));
  if (ok && text.length) {
    e->active[e->depth++] = macro->name;
    Token body = {text.data, text.data + text.length};
    text_append(out, " ", 1); // keeps words separate
    ok = !ends_open(e, body) && expand(e, body, out);
    text_append(out, " ", 1);
    e->depth--;
  }
  ok = ok && !text.failed;
  text_free(&text);
  return ok;
}

// Expands a name, on as many lines as it had. *end: after it and its arguments.
static bool expand_name(Expansion *e, Token name, const char *text_end, Text *out,
                        const char **end) {
  const Macro *macro = find(e->macros, name);
  bool raw = name.end[-1] == 'R' && *name.end == '"'; // u8R"(..)"
  *end = name.end;
  if (is_its_own(name) || raw) return false;
  Token use = {name.end, name.end};
  if (macro && length(macro->params)) {
    use.begin = use.end = token_skip_blank(name.end, "");
    if (use.begin < text_end && *use.begin == '(') use.end = token_skip_brackets(use.begin);
    if (use.end > text_end) return false;
    if (use.begin == use.end) macro = NULL;
  }
  if (!macro) return text_append(out, name.begin, (size_t)length(name)), true;
  if (length(macro->params)) *end = use.end;
  if (!expand_use(e, macro, use, out)) return false;
  for (const char *p = name.end; p < *end; p++) text_append(out, "\n", *p == '\n');
  return true;
}

static bool expand(Expansion *e, Token text, Text *out) {
  const char *p = text.begin;
  while (p < text.end) {
    Token t = token_at(p);
    if (!token_is_name(t)) {
      text_append(out, t.begin, (size_t)length(t));
      p = t.end;
    } else if (!expand_name(e, t, text.end, out, &p)) {
      return false;
    }
  }
  return true;
}

// ---- a program's text ---------------------------------------------------------------------------

// Copies a line that begins with #, for the compiler; `line` is after the #.
static bool copy_directive(Token line, Text *out) {
  size_t n = (size_t)length(line);
  Token word = token_at(line.begin + strspn(line.begin, " \t"));
  const char *rest = word.end + strspn(word.end, " \t");
  while (out->length && (out->data[out->length - 1] == ' ' || out->data[out->length - 1] == '\t'))
    out->length--; // it begins its line there, too
  if (memmem(line.begin, n, "/*", 2) || memmem(line.begin, n, "//", 2)) return false;
  if (token_is(word, "line")) {
    text_append(out, "# ", 2);
    text_append(out, rest, (size_t)(line.end - rest));
    return isdigit((unsigned char)*rest) && memchr(rest, '"', (size_t)(line.end - rest));
  }
  Token next = token_at(rest);
  text_append(out, "#", 1);
  text_append(out, line.begin, n);
  rest = next.end;
  while (rest < line.end && (isdigit((unsigned char)*rest) || *rest == ' ')) rest++;
  return token_is(word, "pragma") && token_is(next, "unroll") && rest == line.end;
}

// Skips the comment at p, which becomes a blank and its line breaks; NULL if it does not end.
static const char *skip_comment(const char *p, Text *out) {
  if (p[1] == '/') return p + strcspn(p, "\n");
  const char *close = strstr(p + 2, "*/");
  text_append(out, " ", 1);
  for (; close && p < close; p++) text_append(out, "\n", *p == '\n');
  return close ? close + 2 : NULL;
}

// The lines before `own` are the includes, which have been read.
static const char *expand_at(Expansion *e, const char *p, const char *own, bool begins_line,
                             Text *out) {
  Token t = token_at(p);
  const char *line_end = p + strcspn(p, "\n"), *end = t.end;
  if (*p == '#' && p < own && token_is(token_at(p + 1), "include")) return line_end;
  if (*p == '#' && begins_line && copy_directive((Token){p + 1, line_end}, out)) return line_end;
  if (*p == '#') return NULL;
  if (*p == '/' && (p[1] == '/' || p[1] == '*')) return skip_comment(p, out);
  if (token_is_name(t)) return expand_name(e, t, p + strlen(p), out, &end) ? end : NULL;
  text_append(out, t.begin, (size_t)length(t));
  return t.end;
}

bool macros_expand(const Macros *macros, const char *source, const char *own, Text *out) {
  Expansion e = {.macros = macros};
  bool begins_line = true;
  // Continued lines, and other spellings of #.
  if (strstr(source, "\\\n") || strchr(source, '\r') || strstr(source, "%:")) return false;
  for (const char *p = source; p && *p;) {
    bool blank = isspace((unsigned char)*p) || (*p == '/' && (p[1] == '/' || p[1] == '*'));
    const char *next = expand_at(&e, p, own, begins_line, out);
    begins_line = *p == '\n' || (begins_line && blank);
    p = next;
    if (!p) return false;
  }
  return !out->failed;
}
