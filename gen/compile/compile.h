// compile.h: the driver: the table of passes, and compiling a model with them.
#ifndef NNGEN_COMPILE_H
#define NNGEN_COMPILE_H

#include "gen/oracle/oracle.h"

// A row of the pass table. needs, gives, breaks: facts about the graph (enum Fact in compile.c).
typedef struct Pass {
  const char *name;
  void (*run)(Compiler *);
  unsigned needs, gives, breaks;
} Pass;
extern const Pass compile_passes[]; // ends with a NULL name

extern const Template compile_templates[]; // templates.c; ends with a NULL name

// ---- gradients.c: err_at if `grad` of an op of the model is not the derivative of its `ref`
void gradients_check(Compiler *c);

// ---- compile.c ---------------------------------------------------------------------------------
// Runs the passes up to options.stage (or all). Returns an ExitCode with *err filled.
int compile_model(Compiler *c, const Options *options, Error *err);
// Runs f and catches err_at: returns f's result, or the error's code with *err filled.
int compile_guard(Compiler *c, int (*f)(void *user, Error *err), void *user, Error *err);
void compile_close(Compiler *c);

#endif
