// run.h: what one `nngen run` learns, gathered by run.c and shown by report.c.
#ifndef NNGEN_RUN_H
#define NNGEN_RUN_H

#include "check.h"
#include "cli.h"

typedef struct Totals { // of one lowering, per run of `infer`
  int kernels;
  double flops;
  int64_t bytes; // between DRAM and the chip: without what blocks leave for each other
} Totals;

typedef struct Run {
  const Cli *cli;
  Compiler compiler;
  Plan *plan;
  Tuning *tuning;        // null: the model of sched.c alone chooses tiles
  Totals fused, unfused; // fused: of the lowering that runs
  Device *device;
  Arch arch; // of the device
  Loaded *loaded;
  Params *params;
  JitReport *jit;                                      // owned by loaded, or by only_jit
  JitReport only_jit;                                  // --arch: compiled, not run
  double begin;                                        // when the verb began, by now()
  double seconds_generate;                             // Lua to plan
  double seconds_device, seconds_load, seconds_params; // opened; kernels loaded; parameters filled
  double seconds_init;                                 // of seconds_params, on the device
  double seconds_ready; // from the start of the verb to a plan that can be launched
  double *ms;           // per step of `infer`; null: not timed
  RunTiming timing;     // --repeat
  bool timed, checked, mismatch;
  double *kernel_error;   // per kernel of the plan: relative error; negative: not checked
  KernelCounts *counts;   // per kernel of the plan, with --count; else null
  CheckResult *outputs;   // per output of the model
  float **first_outputs;  // their values after the checked run, by tensor; null: not kept
  Labels labels;          // --labels
  char first_bad[1024];   // the first kernel or output that is off
  const char *input_note; // where the inputs came from
} Run;

int run_set_inputs(Run *r, uint64_t seed, Error *err); // run_input.c
int run_check_finite(const char *weights, Error *err);

// run_check.c: the first keeps *check only when there is memory for the oracle (a warning, or with
// --check an error).
int run_afford_check(Run *r, bool *check, Error *err);
int run_checked(Run *r, Error *err);
// After run_checked: keeps the outputs, forgets all activations, and after more runs compares.
int run_forget(Run *r, Error *err);
int run_compare_again(Run *r, Error *err);

void report_text(const Run *run);               // stdout
int report_json(const Run *run, Error *err);    // stdout
int report_explain(const Run *run, Error *err); // --explain KERNEL
int report_top(const Run *run, Error *err);     // --labels

#endif
