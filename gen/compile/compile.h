// compile.h: the driver: which passes there are, and how a model goes through them.
#ifndef NNGEN_COMPILE_H
#define NNGEN_COMPILE_H

#include "gen/oracle/oracle.h"

// A row of the pass table: what it needs, gives and breaks are facts about the graph.
typedef struct Pass {
  const char *name;
  void (*run)(Compiler *);
  unsigned needs, gives, breaks;
} Pass;
extern const Pass compile_passes[]; // ends with a null name

extern const Template compile_templates[]; // templates.c; ends with a null name

// ---- gradients.c: a model's own rows whose `grad` is not the derivative of `ref` are its mistake
void gradients_check(Compiler *c);

// ---- compile.c ---------------------------------------------------------------------------------
// Runs the passes up to options.stage (or all). Returns an ExitCode with *err filled.
int compile_model(Compiler *c, const Options *options, Error *err);
// Runs f with err_at caught: returns f's result, or the error's code with *err filled.
int compile_guard(Compiler *c, int (*f)(void *user, Error *err), void *user, Error *err);
void compile_close(Compiler *c);

#endif