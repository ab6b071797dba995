// rewrite.c: preprocessed CUDA C++ -> C++ for the host compiler.
//
// cusim.h turns the CUDA keywords that C++ lacks into marker words. One pass over the tokens
//   - makes `__shared__` variables thread-local: one copy per OS thread, so one per block;
//   - makes `extern __shared__ T x[]` a pointer to the block's dynamic shared memory;
//   - notes each `__global__` function with its namespaces and launch bounds;
// and then appends the table `cusim_image` of the kernels. Lines stay where they are, so that the
// compiler's messages and debug information name the source's own.
#include "sim/compile.h"

#include <stdlib.h>
#include <string.h>

enum { kMaxDepth = 256, kMaxKernels = 512 };

typedef struct Kernel {
  Text name;   // with its namespaces
  Text bounds; // the first launch bound's text, or empty
} Kernel;

typedef struct Rewriter {
  const char *at;
  Text *out;
  Token last;             // the token before the current one
  bool template;          // inside a declaration that began with `template`
  int depth;              // open braces
  int namespaces;         // how many of them are namespaces (or extern "C")
  Token names[kMaxDepth]; // of the open namespaces; empty for unnamed ones and extern "C"
  int name_depth[kMaxDepth];
  Kernel kernels[kMaxKernels];
  int nkernels;
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

static bool is_attribute(Token t) {
  return token_is(t, "__attribute__") || token_is(t, "alignas");
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
    if (is_attribute(t)) {
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

// ---- kernels ------------------------------------------------------------------------------------

// Notes `ns::name` unless it is there already (an overload).
static void note_kernel(Rewriter *r, Token name, Token bounds) {
  Text full = {0};
  for (int i = 0; i < r->namespaces; i++)
    if (r->names[i].begin < r->names[i].end)
      text_print(&full, "%.*s::", (int)(r->names[i].end - r->names[i].begin), r->names[i].begin);
  text_append(&full, name.begin, (size_t)(name.end - name.begin));
  int i = 0;
  while (i < r->nkernels && strcmp(r->kernels[i].name.data, full.data) != 0) i++;
  if (i == kMaxKernels || full.failed) {
    text_free(&full);
    return;
  }
  if (i == r->nkernels)
    r->kernels[r->nkernels++] = (Kernel){.name = full};
  else
    text_free(&full);
  if (bounds.begin < bounds.end && !r->kernels[i].bounds.length)
    text_append(&r->kernels[i].bounds, bounds.begin, (size_t)(bounds.end - bounds.begin));
}

// The first argument of (a, b): up to a comma outside brackets.
static Token first_argument(const char *open) {
  const char *end = token_skip_brackets(open) - 1;
  const char *at = open + 1;
  while (at < end) {
    Token t = token_at(token_skip_blank(at, ""));
    if (*t.begin == ',' || t.begin >= end) return (Token){open + 1, t.begin};
    at = *t.begin == '(' ? token_skip_brackets(t.begin) : t.end;
  }
  return (Token){open + 1, end};
}

// From the marker to the parameter list: drops launch bounds, finds the name.
static const char *rewrite_global(Rewriter *r, const char *p) {
  static const char attributes[] = "__attribute__((visibility(\"default\")))";
  Token name = {p, p}, bounds = {p, p};
  bool template = r->template;
  text_append(r->out, attributes, sizeof attributes - 1);
  for (;;) {
    const char *begin = token_skip_blank(p, "");
    Token t = token_at(begin);
    if (t.begin == t.end || *t.begin == ';' || *t.begin == '{') break;
    if (token_is(t, "__cusim_bounds__")) {
      const char *open = token_skip_blank(t.end, "");
      bounds = first_argument(open);
      text_append(r->out, " ", 1);
      keep_lines(r, p, token_skip_brackets(open));
      p = token_skip_brackets(open);
      continue;
    }
    if (is_attribute(t)) t.end = token_skip_brackets(token_skip_blank(t.end, ""));
    if (*t.begin == '(') break;
    if (token_is_name(t) && !is_attribute((Token){t.begin, t.begin + strcspn(t.begin, " (")})) name = t;
    if (*t.begin == '<') template = true; // an explicit specialisation
    text_append(r->out, p, (size_t)(t.end - p));
    p = t.end;
  }
  bool defined = *peek(r, token_skip_brackets(token_skip_blank(p, ""))).begin == '{';
  if (!template && defined && name.begin < name.end) note_kernel(r, name, bounds);
  return p;
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
  if (*t.begin == '{' || *t.begin == '}' || *t.begin == ';') r->template = false;
  if (token_is(t, "template")) r->template = true;
}

// After `namespace` or `extern`: copies up to and with the opening brace, if there is one.
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

static const char *rewrite_token(Rewriter *r, Token t) {
  const char *end;
  if (token_is(t, "namespace") && !token_is(r->last, "using") && (end = try_namespace(r, t))) return end;
  if (token_is(t, "extern") && (end = try_namespace(r, t))) return end;
  if (token_is(t, "extern") && (end = shared_declaration(r, t.begin)))
    return rewrite_dynamic(r, t.begin, end);
  if (token_is(t, "__cusim_global__")) return rewrite_global(r, t.end);
  if (token_is(t, "__cusim_shared__")) { // used: never written, it would be folded to zeros
    const char *words = token_is(r->last, "static") ? "thread_local __attribute__((used))"
                                              : "static thread_local __attribute__((used))";
    text_append(r->out, words, strlen(words));
    return t.end;
  }
  if (token_is(t, "__cusim_bounds__")) return token_skip_brackets(token_skip_blank(t.end, ""));
  follow_braces(r, t);
  text_append(r->out, t.begin, (size_t)(t.end - t.begin));
  return t.end;
}

// ---- the table ----------------------------------------------------------------------------------

static void print_row(Text *out, const char *name, const char *bounds) {
  text_print(out,
             "  {\"%s\", (const void *)(&%s), cusim::Describe<decltype((&%s)), (&%s)>::enter,\n"
             "   cusim::Describe<decltype((&%s)), (&%s)>::loop,\n"
             "   cusim::Describe<decltype((&%s)), (&%s)>::sizes, int(%s)},\n",
             name, name, name, name, name, name, name, name, bounds ? bounds : "0");
}

static void print_table(Rewriter *r, const CompileJob *job) {
  const char *const *expressions = job->expressions;
  text_print(r->out, "\n# 1 \"cusim-table\"\nstatic const CusimKernel cusim_kernels[] = {\n");
  for (int i = 0; i < r->nkernels; i++)
    print_row(r->out, r->kernels[i].name.data, r->kernels[i].bounds.data);
  for (; expressions && *expressions; expressions++) {
    const char *name = *expressions + strspn(*expressions, "& ");
    int i = 0;
    while (i < r->nkernels && strcmp(r->kernels[i].name.data, name) != 0) i++;
    if (i == r->nkernels) print_row(r->out, name, NULL);
  }
  text_print(r->out,
             "  {0, 0, 0, 0, 0, 0}};\n"
             "extern \"C\" __attribute__((visibility(\"default\"))) const CusimImage cusim_image = "
             "{%d, %d, %d, \"%s\", cusim_kernels};\n",
             CUSIM_ABI, job->checks, 10 * job->arch, host_cpu());
}

void rewrite_source(const CompileJob *job, const char *source, Text *out) {
  Rewriter *r = calloc(1, sizeof *r);
  if (!r) {
    out->failed = true;
    return;
  }
  r->out = out;
  const char *p = source;
  while (*p) {
    const char *begin = token_skip_blank(p, source);
    text_append(out, p, (size_t)(begin - p));
    Token t = token_at(begin);
    p = t.begin < t.end ? rewrite_token(r, t) : begin;
    if (t.begin == t.end && !*begin) break;
    r->last = t;
  }
  print_table(r, job);
  for (int i = 0; i < r->nkernels; i++) {
    text_free(&r->kernels[i].name);
    text_free(&r->kernels[i].bounds);
  }
  free(r);
}
