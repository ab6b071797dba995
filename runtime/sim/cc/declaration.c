// declaration.c: parses a kernel's declaration by its tokens.
#include "sim/cc/cc.h"

// Past the > that matches the < at p; NULL if it is a comparison.
static const char *skip_angles(const char *p) {
  int depth = 0;
  char before = 0;
  for (Token t = token_at(p); t.begin < t.end; t = token_at(token_skip_blank(t.end, ""))) {
    char c = *t.begin;
    if (c == ';' || c == '{' || c == '}' || c == ')' || c == ']') return NULL;
    if (c == '(' || c == '[') t.end = token_skip_brackets(t.begin);
    depth += c == '<';
    depth -= c == '>' && before != '-';
    if (!depth) return t.end;
    before = c;
  }
  return NULL;
}

static Token next_token(const char *p) {
  return token_at(token_skip_blank(p, ""));
}

// `template <class T>` from the word on; empty if no < follows.
static Token template_header(const char *word) {
  Token open = next_token(token_at(word).end);
  const char *end = *open.begin == '<' ? skip_angles(open.begin) : NULL;
  return (Token){word, end ? end : word};
}

// Skips the brackets after a marker of launch limits.
static const char *take_limits(Declaration *d, Token marker, Token *out) {
  const char *open = token_skip_blank(marker.end, "");
  *out = (Token){open, token_skip_brackets(open)};
  int n = 0;
  while (n < 2 && d->limits[n].end) n++;
  d->limits[n] = (Token){marker.begin, out->end};
  return out->end;
}

bool declaration_is_attribute(Token t) {
  return token_is(t, "__attribute__") || token_is(t, "alignas");
}

// A word of the name; goes_on: appended to the one before, as in ns::k.
static void take_name(Declaration *d, Token word, bool goes_on) {
  d->path = (Token){goes_on ? d->path.begin : word.begin, word.end};
  d->last = word;
  d->arguments = (Token){word.end, word.end};
}

static void take_template(Declaration *d, const char *word) {
  Token header = template_header(word), open = next_token(token_at(word).end);
  d->instantiates = header.begin == header.end;
  bool specialises = !d->instantiates && *next_token(open.end).begin == '>';
  if (!d->instantiates && !specialises) d->header = header;
}

void declaration_parse(const char *p, const char *template, Declaration *d) {
  *d = (Declaration){.path = {p, p}, .last = {p, p}};
  if (template) take_template(d, template);
  char before = 0;
  for (Token t = next_token(p); t.begin < t.end; t = next_token(p)) {
    if (*t.begin == ';' || *t.begin == '{' || *t.begin == '(') break;
    p = t.end;
    const char *angles = *t.begin == '<' ? skip_angles(t.begin) : NULL;
    if (token_is(t, "__cusim_bounds__"))
      p = take_limits(d, t, &d->bounds);
    else if (token_is(t, "__cusim_registers__"))
      p = take_limits(d, t, &d->registers);
    else if (token_is(t, "__cusim_cluster__"))
      p = take_limits(d, t, &d->cluster);
    else if (declaration_is_attribute(t))
      p = token_skip_brackets(token_skip_blank(t.end, ""));
    else if (token_is_name(t))
      take_name(d, t, before == ':');
    else if (angles)
      d->arguments = (Token){t.begin, p = angles};
    before = *t.begin;
  }
  d->end = p;
  Token open = next_token(p);
  if (*open.begin != '(') return;
  d->params = (Token){open.begin, token_skip_brackets(open.begin)};
  d->defined = *next_token(d->params.end).begin == '{';
}

// ---- writing parts down -------------------------------------------------------------------------

void declaration_copy(Text *out, Token part) {
  for (const char *p = part.begin; p < part.end;) {
    const char *begin = token_skip_blank(p, "");
    if (begin >= part.end) break;
    if (begin > p) text_append(out, " ", 1);
    Token t = token_at(begin);
    text_append(out, t.begin, (size_t)(t.end - t.begin));
    p = t.end;
  }
}

// Past a default argument, from its = on.
static const char *skip_default(const char *p) {
  for (Token t = next_token(p); t.begin < t.end; t = next_token(p)) {
    if (*t.begin == ',' || *t.begin == ')') break;
    const char *angles = *t.begin == '<' ? skip_angles(t.begin) : NULL;
    bool opens = *t.begin == '(' || *t.begin == '[' || *t.begin == '{';
    p = angles ? angles : opens ? token_skip_brackets(t.begin) : t.end;
  }
  return p;
}

// Drops the default arguments: a pointer to a function has none.
void declaration_copy_params(Text *out, Token params) {
  const char *p = params.begin;
  for (int depth = 0; p < params.end;) {
    Token t = next_token(p);
    depth += *t.begin == '(' || *t.begin == '[' || *t.begin == '{';
    depth -= *t.begin == ')' || *t.begin == ']' || *t.begin == '}';
    if (*t.begin == '=' && depth == 1) {
      p = skip_default(t.end);
      continue;
    }
    if (t.begin > p) text_append(out, " ", 1);
    text_append(out, t.begin, (size_t)(t.end - t.begin));
    p = t.end;
  }
}
