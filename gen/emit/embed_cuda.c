// embed_cuda.c: all kernels of a plan as one self-contained CUDA file: the included files of lib/,
// each once, then the kernels, each in its own namespace; kernels that differ only in names are
// written once. The JIT compiles the same text.
#include "emit.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <string.h>

typedef struct Text {
  Embed *e;
  Buffer out;
  bool *included; // by header of the plan: already written
} Text;

static bool begins(const char *line, const char *with) {
  return !strncmp(line, with, strlen(with));
}

// Index of the header that the line includes, or -1.
static int included_header(const Text *t, const char *line) {
  static const char word[] = "#include \"";
  if (!begins(line, word)) return -1;
  const char *name = line + strlen(word);
  size_t n = strcspn(name, "\"\n");
  for (int i = 0; i < t->e->plan->nheaders; i++)
    if (strlen(t->e->plan->headers[i].name) == n && !strncmp(t->e->plan->headers[i].name, name, n))
      return i;
  return -1;
}

// Is the line an include guard? ends: #endif of a guard.
static bool is_guard(const char *line) {
  return begins(line, "#pragma once") || begins(line, "#ifndef NNGEN_") ||
         (begins(line, "#define NNGEN_") && strcspn(line, "\n") == strcspn(line + 8, " \n") + 8);
}

static void put_header(Text *t, int header);

// Writes a file's lines without guards and includes; of prim.cuh only the GPU variant.
static void put_lines(Text *t, const char *text) {
  bool skipped = false; // inside a part for libcusim
  for (const char *line = text; *line;) {
    size_t n = strcspn(line, "\n");
    int header = included_header(t, line);
    if (begins(line, "#ifdef __CUSIM__"))
      skipped = true;
    else if (begins(line, "#else"))
      skipped = false;
    else if (header >= 0 && !skipped)
      put_header(t, header);
    else if (header < 0 && !skipped && !begins(line, "#endif") && !begins(line, "#line") &&
             !is_guard(line))
      buffer_put(&t->out, "%.*s\n", (int)n, line);
    line += n + (line[n] == '\n');
  }
}

static void put_header(Text *t, int header) {
  if (t->included[header]) return;
  t->included[header] = true;
  put_lines(t, t->e->plan->headers[header].text);
  buffer_put(&t->out, "\n");
}

// Writes the headers that the kernels include.
static void put_library(Text *t) {
  for (int i = 0; i < t->e->plan->nkernels; i++)
    for (const char *line = t->e->plan->kernels[i].source; *line;) {
      int header = included_header(t, line);
      if (header >= 0) put_header(t, header);
      line += strcspn(line, "\n");
      line += *line == '\n';
    }
}

// ---- kernels ------------------------------------------------------------------------------------

static void put_twins(Text *t, int kernel) { // names the other launches of the kernel
  const Plan *p = t->e->plan;
  bool any = false;
  for (int i = kernel + 1; i < p->nkernels; i++) {
    if (t->e->options->same[i] != kernel) continue;
    buffer_put(&t->out, "%s%s", any ? ", " : "// the same for ", p->kernels[i].layer);
    any = true;
  }
  if (any) buffer_put(&t->out, "\n");
}

// Writes a kernel's opening comment, then its code in a namespace.
static void put_kernel(Text *t, int kernel) {
  bool open = false;
  for (const char *line = t->e->plan->kernels[kernel].source; *line;) {
    size_t n = strcspn(line, "\n");
    bool left_out = begins(line, "#line") || begins(line, "#include");
    if (!open && !left_out && !begins(line, "//")) {
      put_twins(t, kernel);
      buffer_put(&t->out, "namespace %s_ {\n", t->e->kernel[kernel]);
      open = true;
    }
    if (!left_out) buffer_put(&t->out, "%.*s\n", (int)n, line);
    line += n + (line[n] == '\n');
  }
  buffer_put(&t->out, "} // namespace %s_\n\n", t->e->kernel[kernel]);
}

// Removes blank lines at both ends and repeated ones.
static const char *tidy(Arena *arena, const char *text) {
  char *out = arena_alloc(arena, strlen(text) + 2), *to = out;
  for (const char *s = text; *s; s++) {
    bool blank = *s == '\n' && (to == out || to[-1] == '\n');
    if (blank && (to == out || (to - out > 1 && to[-2] == '\n'))) continue;
    *to++ = *s;
  }
  while (to - out > 1 && to[-1] == '\n' && to[-2] == '\n') to--;
  *to = 0;
  return out;
}

// Keeps only the parts of the library that the kernels use: prune.lua.
static const char *pruned(Embed *e, const char *library, const char *kernels) {
  size_t length;
  const char *file = "gen/emit/prune.lua", *text = asset_text(e->arena, file, &length);
  if (!text || luaL_loadbufferx(e->lua, text, length, file, "t") || lua_pcall(e->lua, 0, 1, 0))
    die("%s", text ? lua_tostring(e->lua, -1) : file);
  lua_pushstring(e->lua, library);
  lua_pushstring(e->lua, kernels);
  if (lua_pcall(e->lua, 2, 1, 0)) die("%s: %s", file, lua_tostring(e->lua, -1));
  const char *out = arena_dup(e->arena, lua_tostring(e->lua, -1));
  lua_settop(e->lua, 0);
  return out;
}

// Adds the note on the library to the list of launches.
static const char *note_library(Embed *e, const char *library) {
  lua_getglobal(e->lua, "plan");
  lua_pushstring(e->lua, embed_hash(e->arena, library));
  lua_setfield(e->lua, -2, "library");
  lua_settop(e->lua, 0);
  return library;
}

const char *embed_cuda(Embed *e) {
  Text t = {.e = e,
            .included = arena_alloc(e->arena, sizeof(bool) * (size_t)(e->plan->nheaders + 1))};
  put_library(&t);
  const char *library = buffer_take(&t.out, e->arena);
  t.out = (Buffer){0};
  for (int i = 0; i < e->plan->nkernels; i++)
    if (e->options->same[i] == i) put_kernel(&t, i);
  const char *kernels = buffer_take(&t.out, e->arena);
  return tidy(e->arena,
              arena_printf(e->arena, "%s\n%s\n// ---- kernels %s\n\n%s", embed_text(e, "net.cu"),
                           note_library(e, pruned(e, library, kernels)),
                           "---------------------------------------------------------"
                           "----------------------",
                           kernels));
}

// FNV-1a of the text, without lines that only locate messages: #line and model lines.
const char *embed_hash(Arena *arena, const char *source) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char *line = source; *line;) {
    size_t n = strcspn(line, "\n");
    bool counts = !begins(line, "#line") && !begins(line, "// from ");
    for (size_t i = 0; counts && i <= n && line[i]; i++)
      hash = (hash ^ (unsigned char)line[i]) * 0x100000001b3u;
    line += n + (line[n] == '\n');
  }
  return arena_printf(arena, "%016" PRIx64, hash);
}

const char *embed_array(Embed *e, const char *name, const char *comment, const void *bytes,
                        size_t size) {
  enum { kWord = 8, kPerLine = 5 };
  Buffer b = {0};
  size_t words = (size + kWord - 1) / kWord;
  buffer_put(&b, "// %s\n#include <stdint.h>\n\n", comment);
  buffer_put(&b, "static const uint64_t %s[%zu] = { // %zu bytes, little endian", name, words,
             size);
  for (size_t i = 0; i < words; i++) {
    uint64_t word = 0;
    size_t left = size - i * kWord;
    memcpy(&word, (const char *)bytes + i * kWord, left < kWord ? left : kWord);
    buffer_put(&b, i % kPerLine ? " 0x%016" PRIx64 "," : "\n0x%016" PRIx64 ",", word);
  }
  buffer_put(&b, "\n};\n");
  return buffer_take(&b, e->arena);
}
