// rewrite.c: preprocessed CUDA C++ -> C++ for the host compiler.
//
// cusim.h turns the CUDA keywords that C++ lacks into marker words. One pass over the tokens
//   - makes `__shared__` variables thread-local: one copy per OS thread, so one per block;
//   - makes `extern __shared__ T x[]` a pointer to the block's dynamic shared memory;
// - has kernels.c note each `__global__` function and emit the text to follow it;
// then the table `cusim_image` of the kernels follows. Lines stay in place, so that the
// compiler's messages and debug information refer to the source.
#include "sim/cc/cc.h"

#include <stdlib.h>
#include <string.h>

enum { kMaxDepth = 256 };

typedef struct Rewriter {
  Text *out;
  Token last;              // the token before the current one
  const char *template;    // `template` at the beginning of the declaration, or NULL
  bool elsewhere;          // it is `extern template`
  Token bounds, registers, cluster; // launch limits before `__global__`
  int depth;               // open braces
  int namespaces;          // how many of them are namespaces (or extern "C")
  Token names[kMaxDepth];  // of the open namespaces; empty for unnamed ones and extern "C"
  int name_depth[kMaxDepth];
  Kernels *kernels;
  Text after;      // text to insert after the kernel declaration
  int after_depth; // the open braces around it
  int barriers;    // calls of __syncthreads
} Rewriter;

static Token peek(const Rewriter *r, const char *p) {
  return token_at(token_skip_blank(p, r->out->data));
}

// Keeps the line breaks of source text that is left out.
static void keep_lines(Rewriter *r, const char *from, const char *to) {
  for (; from < to; from++)
    if (*from == '\n') text_append(r->out, "\n", 1);
}

// ---- shared memory ------------------------------------------------------------------------------

// The end of the declaration at p when it contains the marker before any bracket; else null.
static const char *shared_declaration(const Rewriter *r, const char *p) {
  bool shared = false;
  for (Token t = peek(r, p); t.begin < t.end; t = peek(r, t.end)) {
    if (token_is(t, "__cusim_shared__")) shared = true;
    if (*t.begin == ';') return shared ? t.end : NULL;
    if (*t.begin == '{' || *t.begin == '}' || *t.begin == '"') return NULL;
    if (*t.begin == '(' || *t.begin == '[') t.end = token_skip_brackets(t.begin);
  }
  return NULL;
}

// extern __shared__ T name[]...;  ->  T (*name)... = (T (*)...)(dynamic shared memory);
static const char *rewrite_dynamic(Rewriter *r, const char *p, const char *end) {
  Text type = {0};
  Token name = {p, p};
  const char *suffix = NULL, *at = p;
  while (!suffix) {
    Token t = peek(r, at);
    at = t.end;
    if (t.end >= end) break;
    if (token_is(t, "extern") || token_is(t, "__cusim_shared__")) continue;
    if (declaration_is_attribute(t)) {
      at = token_skip_brackets(peek(r, at).begin);
    } else if (*t.begin == '[') {
      suffix = token_skip_brackets(t.begin);
    } else {
      if (name.begin < name.end)
        text_append(&type, name.begin, (size_t)(name.end - name.begin)), text_append(&type, " ", 1);
      name = t;
    }
  }
  if (suffix) {
    int rest = (int)(end - 1 - suffix), length = (int)(name.end - name.begin);
    bool inside = r->depth > r->namespaces;
    const char *typed = type.data ? type.data : "";
    if (inside)
      text_print(r->out, "%s(*%.*s)%.*s = (%s(*)%.*s)cusim_self->smem;", typed, length, name.begin,
                 rest, suffix, typed, rest, suffix);
    else
      text_print(r->out, "static cusim::DynamicShared<%s%.*s> %.*s;", typed, rest, suffix, length,
                 name.begin);
  } else {
    text_append(r->out, p, (size_t)(end - p));
  }
  keep_lines(r, p, end);
  text_free(&type);
  return end;
}

// `__shared__ alignas(n)`: alignas may precede all other words; after one (`static`) it becomes an
// attribute, and n must be a number. Used: otherwise a variable that is never written would be
// folded to zeros.
static const char *rewrite_shared(Rewriter *r, Token marker) {
  static const char words[] = "static thread_local __attribute__((used))";
  bool is_static = token_is(r->last, "static"),
       first = !r->last.end || strchr("{};", *r->last.begin);
  Token word = peek(r, marker.end);
  if (!token_is(word, "alignas")) word.end = NULL;
  const char *open = word.end ? token_skip_blank(word.end, r->out->data) : NULL;
  const char *end = open ? token_skip_brackets(open) : marker.end;
  if (open && first) text_print(r->out, "alignas%.*s ", (int)(end - open), open);
  text_print(r->out, "%s", is_static ? words + strlen("static ") : words);
  if (open && !first) text_print(r->out, " __attribute__((aligned%.*s))", (int)(end - open), open);
  if (open) keep_lines(r, marker.end, open);
  return end;
}

// ---- kernels ------------------------------------------------------------------------------------

// Launch limits before `__global__`: drops them, but keeps their line breaks.
static const char *take_limits(Rewriter *r, Token marker) {
  const char *open = token_skip_blank(marker.end, "");
  Token brackets = {open, token_skip_brackets(open)};
  *(token_is(marker, "__cusim_bounds__")    ? &r->bounds
    : token_is(marker, "__cusim_cluster__") ? &r->cluster
                                            : &r->registers) = brackets;
  keep_lines(r, marker.begin, brackets.end);
  return brackets.end;
}

// From the marker to the parameter list: drops launch limits, notes the kernel.
static const char *rewrite_global(Rewriter *r, const char *p) {
  static const char attributes[] = "__attribute__((visibility(\"default\")))";
  Declaration d;
  Text scope = {0};
  declaration_parse(p, r->template, &d);
  if (r->bounds.end) d.bounds = r->bounds;
  if (r->registers.end) d.registers = r->registers;
  if (r->cluster.end) d.cluster = r->cluster;
  text_append(r->out, attributes, sizeof attributes - 1);
  for (int i = 0; i < 3 && d.limits[i].end; i++) {
    text_append(r->out, p, (size_t)(d.limits[i].begin - p));
    keep_lines(r, d.limits[i].begin, d.limits[i].end);
    p = d.limits[i].end;
  }
  text_append(r->out, p, (size_t)(d.end - p));
  for (int i = 0; i < r->namespaces; i++)
    if (r->names[i].begin < r->names[i].end)
      text_print(&scope, "%.*s::", (int)(r->names[i].end - r->names[i].begin), r->names[i].begin);
  r->after.length = 0;
  r->after_depth = r->depth;
  if (!r->elsewhere) kernels_note(r->kernels, scope.data ? scope.data : "", &d, &r->after);
  text_free(&scope);
  return d.end;
}

// `asm volatile("bar.sync 0;" ...)` inside a function -> a call that the compiler rejects unless it
// is dropped as unused; with empty text it only separates memory accesses, and stays.
static const char *rewrite_asm(Rewriter *r, Token t) {
  Token next = peek(r, t.end);
  while (token_is_name(next)) next = peek(r, next.end); // volatile, goto
  if (*next.begin != '(' || r->depth == r->namespaces) return NULL;
  Token text = peek(r, next.end);
  while (*text.begin == '"' && text.end - text.begin == 2) text = peek(r, text.end);
  if (*text.begin != '"' && *text.begin != 'R') return NULL;
  const char *end = token_skip_brackets(next.begin);
  text_print(r->out, "cusim_inline_ptx()");
  keep_lines(r, t.begin, end);
  return end;
}

// `__syncthreads()` gets the number of its place: two on one line are two barriers.
static const char *number_barrier(Rewriter *r, Token t) {
  Token open = peek(r, t.end), close = peek(r, open.end);
  if (*open.begin != '(' || *close.begin != ')') return NULL;
  text_print(r->out, "__syncthreads(%d)", ++r->barriers);
  keep_lines(r, t.end, close.end);
  return close.end;
}

// `while (*flag == 0) {}` and `while (*flag == 0);` wait for another block: inserts a yield. After
// } it may be the end of a `do` loop, and stays; after ; both are written alike.
static const char *rewrite_spin(Rewriter *r, Token t) {
  Token open = peek(r, t.end);
  if (*open.begin != '(' || !r->last.end || *r->last.begin == '}') return NULL;
  const char *end = token_skip_brackets(open.begin);
  Token body = peek(r, end), close = peek(r, body.end);
  bool braces = *body.begin == '{' && *close.begin == '}';
  if (!braces && *body.begin != ';') return NULL;
  text_print(r->out, "while (%.*s && (cusim_yield(), true))", (int)(end - open.begin), open.begin);
  return end;
}

// ---- the pass -----------------------------------------------------------------------------------

// Follows `namespace a::b {` and `extern "C" {`, so that kernels get their full names.
static void open_namespace(Rewriter *r, Token name) {
  if (r->namespaces == kMaxDepth) return;
  r->names[r->namespaces] = name;
  r->name_depth[r->namespaces++] = r->depth;
}

static void follow_braces(Rewriter *r, Token t) {
  if (*t.begin == '{') r->depth++;
  if (*t.begin == '}') {
    if (r->namespaces && r->name_depth[r->namespaces - 1] == r->depth) r->namespaces--;
    r->depth--;
  }
  if (*t.begin == '{' || *t.begin == '}' || *t.begin == ';') {
    r->template = NULL;
    r->elsewhere = false;
    r->bounds = r->registers = r->cluster = (Token){0};
  }
  if (!token_is(t, "template") || r->template) return;
  r->template = t.begin;
  r->elsewhere = token_is(r->last, "extern");
}

// After `namespace` or `extern`: copies up to and including the opening brace, if any.
static const char *try_namespace(Rewriter *r, Token t) {
  const char *p = t.end;
  Token name = {p, p}, next = peek(r, p);
  if (token_is(t, "extern") && *next.begin != '"') return NULL;
  while (next.begin < next.end && *next.begin != '{') {
    if (*next.begin == ';' || *next.begin == '=' || *next.begin == '}') return NULL;
    if (token_is(t, "extern") && *next.begin != '"') return NULL;
    if (token_is_name(next) || *next.begin == ':')
      name = (Token){name.begin == name.end ? next.begin : name.begin, next.end};
    next = peek(r, next.end);
  }
  if (next.begin == next.end) return NULL;
  r->depth++;
  open_namespace(r, token_is(t, "extern") ? (Token){p, p} : name);
  text_append(r->out, t.begin, (size_t)(next.end - t.begin));
  return next.end;
}

// A static variable outside of functions: a program may write it by name, so it is no constant.
static bool is_static_variable(const Rewriter *r, Token t) {
  if (!token_is(t, "static") || r->depth != r->namespaces) return false;
  for (Token next = peek(r, t.end); next.begin < next.end; next = peek(r, next.end)) {
    if (*next.begin == ';' || *next.begin == '=' || *next.begin == '[' || *next.begin == '{')
      return true;
    if (token_is(next, "__cusim_shared__") || token_is(next, "__cusim_global__")) return false;
    if (declaration_is_attribute(next))
      next.end = token_skip_brackets(peek(r, next.end).begin);
    else if (*next.begin == '(' || *next.begin == '}')
      return false;
  }
  return false;
}

static const char *rewrite_token(Rewriter *r, Token t) {
  const char *end;
  if (token_is(t, "namespace") && !token_is(r->last, "using") && (end = try_namespace(r, t)))
    return end;
  if (token_is(t, "extern") && (end = try_namespace(r, t))) return end;
  if (token_is(t, "extern") && (end = shared_declaration(r, t.begin)))
    return rewrite_dynamic(r, t.begin, end);
  if ((token_is(t, "asm") || token_is(t, "__asm__")) && (end = rewrite_asm(r, t))) return end;
  if (token_is(t, "__syncthreads") && (end = number_barrier(r, t))) return end;
  if (token_is(t, "while") && (end = rewrite_spin(r, t))) return end;
  if (token_is(t, "__cusim_global__")) return rewrite_global(r, t.end);
  if (token_is(t, "__cusim_shared__")) return rewrite_shared(r, t);
  if (token_is(t, "__cusim_bounds__") || token_is(t, "__cusim_registers__") ||
      token_is(t, "__cusim_cluster__"))
    return take_limits(r, t);
  follow_braces(r, t);
  text_append(r->out, t.begin, (size_t)(t.end - t.begin));
  if (is_static_variable(r, t)) text_print(r->out, " __attribute__((used))");
  if ((*t.begin == '}' || *t.begin == ';') && r->depth == r->after_depth && r->after.length) {
    text_append(r->out, r->after.data, r->after.length);
    r->after.length = 0;
  }
  return t.end;
}

bool rewrite_part(Kernels *kernels, const char *source, int *barriers, Text *out) {
  Rewriter *r = calloc(1, sizeof *r);
  if (!r) return out->failed = true, false;
  r->out = out;
  r->kernels = kernels;
  r->barriers = *barriers;
  const char *p = source;
  while (*p) {
    const char *begin = token_skip_blank(p, source);
    text_append(out, p, (size_t)(begin - p));
    Token t = token_at(begin);
    p = t.begin < t.end ? rewrite_token(r, t) : begin;
    if (t.begin == t.end && !*begin) break;
    r->last = t;
  }
  bool closed = !r->depth && (!r->last.end || strchr("};", *r->last.begin));
  *barriers = r->barriers;
  out->failed |= r->after.failed;
  text_free(&r->after);
  free(r);
  return closed;
}

void rewrite_source(const CompileJob *job, const char *source, Text *out) {
  Kernels *kernels = kernels_make();
  int barriers = 0;
  if (!kernels) {
    out->failed = true;
    return;
  }
  rewrite_part(kernels, source, &barriers, out);
  kernels_table(kernels, job, out);
  kernels_free(kernels);
}
