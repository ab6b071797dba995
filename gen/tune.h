// tune.h: `nngen tune`: every candidate tile of every contraction, checked and measured.
#ifndef NNGEN_TUNE_H
#define NNGEN_TUNE_H

#include "check.h"
#include "nngen_runtime.h"
#include "tuning.h"

enum { kMostVariants = 96 };

// ---- tune_plan.c -------------------------------------------------------------------------------

// One contraction under each of its candidate tiles, as a plan of its own on shared tensors. Its
// entries: `init`; `infer` (each once); v0, v1, ...: one of them `launches` times; `cold`: each
// once after a memset that takes the L2.
typedef struct Variants {
  Group *group;
  int count, launches;
  Tile tiles[kMostVariants]; // the model's choice first
  Plan *plan;
} Variants;

// The `most` candidates that the model finds cheapest; 0: the tile the group has. The group is left
// as it was. Sources live in the compiler's arena. The caller frees *v with variants_free.
void variants_make(Compiler *c, Group *g, int most, int launches, int64_t flush_bytes, Variants *v);
void variants_free(Variants *v);

// ---- tune_model.c ------------------------------------------------------------------------------

// Times every variant: microseconds per launch, warm and with a cold L2 (0: not measured).
typedef int (*TuneTimer)(void *user, Loaded *loaded, const Variants *v, double *us, double *us_cold,
                         Error *err);

typedef struct TuneRow {       // one problem
  const char *problem, *layer; // layer: the first that has it
  int layers;                  // launches of `infer` that it stands for
  int candidates, wrong;       // wrong: results off, thrown out
  char wrong_tile[64];         // the first of them
  TuningEntry model, best;     // the model's choice and the fastest
} TuneRow;

typedef struct TuneReport {
  TuneRow *rows;
  int nrows;
} TuneReport;

typedef struct TuneOptions {
  TuneTimer timer;
  void *user;
  int most;            // candidates of a problem, at most kMostVariants
  int launches;        // of a variant in one replayed graph
  int64_t flush_bytes; // what empties the L2; 0: no cold times
  const char *path; // written after each problem, so that a run cut short keeps them; may be null
  JitOptions jit;
  Progress progress;
  Log log;
} TuneOptions;

// Measures every problem of the compiled model and puts the fastest correct tile of each into
// `tuning`. Errors: of the runtime; ExitMismatch when no candidate of a problem is right. The
// caller frees report->rows.
int tune_model(Compiler *c, Device *device, const TuneOptions *options, Tuning *tuning,
               TuneReport *report, Error *err);

#endif
