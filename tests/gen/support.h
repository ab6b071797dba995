// support.h: what the compiler's tests share.
#ifndef NNGEN_TESTS_GEN_SUPPORT_H
#define NNGEN_TESTS_GEN_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "gen/compile/compile.h"

#include <stdlib.h>
#include <string.h>

// A compiler with ops loaded and no model yet.
static inline void open_compiler(Compiler *c, Error *err, const char *lowering, const char *dtype) {
  *c = (Compiler){.error = err, .templates = compile_templates};
  c->options =
      (Options){.model = "test.lua", .lowering = lowering, .dtype = dtype, .arch = arch_default()};

  c->arena = arena_new(NULL, NULL);
  c->graph = graph_new(c, "test");
  c->entries = arena_grow(c->arena, NULL, 0, sizeof *c->entries);
  c->entries[c->nentries++] = "infer";
  front_open(c);
}

// The model of a file, compiled up to `stage` (null: all). Fails the test with its message.
static inline void compile_file(Compiler *c, const char *path, const char *lowering,
                                const char *dtype, const char *stage) {
  static Error err;
  Options o = {
      .model = path, .lowering = lowering, .dtype = dtype, .arch = arch_default(), .stage = stage};
  if (compile_model(c, &o, &err)) fail_msg("%s", err.message);
}

static inline char *graph_text(const Graph *g) { // to be freed
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  text_write(g, file);
  print_groups(g, file);
  fclose(file);
  return text;
}

static inline char *read_whole(const char *path) { // to be freed
  FILE *file = fopen(path, "rb");
  if (!file) fail_msg("cannot read %s", path);
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  rewind(file);
  char *text = calloc(1, size + 1);
  assert_int_equal(fread(text, 1, size, file), size);
  fclose(file);
  return text;
}

#endif
