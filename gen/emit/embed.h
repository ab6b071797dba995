// embed.h: a Plan as source files that other programs build (nngen emit). Depends only on the Plan.
#ifndef NNGEN_EMIT_EMBED_H
#define NNGEN_EMIT_EMBED_H

#include "gen/sched/attend.h"

typedef struct EmbedOptions {
  const char *name;         // prefix of every symbol; a C identifier
  const char *file;         // model file, for comments
  const char *settings;     // model settings given by the user: "batch=8"
  const char *const *archs; // "sm_80" ..., lowest first
  int narchs;
  const char *ptx;      // "compute_80": PTX for newer GPUs; with suffix "a": none
  const int *same;      // per kernel: the first kernel with the same program
  bool weights_in_code; // weights as C arrays
  bool check;           // include a self-check with stored results
  bool runtime_api;     // host code uses the CUDA runtime API instead of the driver API
  double gate;          // relative error allowed by the self-check
} EmbedOptions;

typedef struct Embed { // one emission; its texts live until embed_close
  Arena *arena;
  lua_State *lua;
  const Plan *plan;
  const EmbedOptions *options;
  const char **tensor; // identifiers
  const char **kernel;
  const char **entry;
} Embed;

// ---- embed.c -----------------------------------------------------------------------------------

Embed *embed_open(const Plan *plan, const EmbedOptions *options); // both must outlive it
void embed_close(Embed *e);
const char *embed_text(Embed *e, const char *template); // a rendered file of templates/embed/
// Tensors of the plan that are "inputs", "outputs" or written "states" of an entry (from 0, not
// counting `init`); returns how many.
int embed_border(Embed *e, int entry, const char *kind, int *tensors);

// ---- embed_names.c -----------------------------------------------------------------------------

void embed_name_all(Embed *e);         // chooses the identifiers
bool embed_reserves(const char *name); // is the word used by the emitted C itself?

// ---- embed_cuda.c ------------------------------------------------------------------------------

const char *embed_cuda(Embed *e);                         // all kernels, and the parts of lib/ used
const char *embed_hash(Arena *arena, const char *source); // of a kernel's text, in hex
// The bytes as a C array of 64-bit words.
const char *embed_array(Embed *e, const char *name, const char *comment, const void *bytes,
                        size_t size);

// ---- embed_merge.c -----------------------------------------------------------------------------

// Merges plans of one model for several batch sizes. tags: "b1" ..; same: for the concatenated
// kernels of all plans, the first with the same program (image_twins). The caller frees *out even
// on failure. Errors: ExitUsage.
int embed_merge(const Plan *const *plans, const char *const *tags, int count, const int *same,
                Plan **out, Error *err);

#endif
