// cli.h: the command line as data, one row per option with the verbs that accept it.
#ifndef NNGEN_CLI_H
#define NNGEN_CLI_H

#include <jansson.h>

#include "gen/compile/compile.h"
#include "nngen_runtime.h"
#include "nngen_train.h"

enum { kMostSets = 64, kMostInputs = 256, kMostSweeps = 4 };

// A verb: its function and help. A table of them ends with a NULL name.
typedef struct Cli Cli;
typedef struct Verb {
  const char *name;
  int (*run)(const Cli *cli, Error *err);
  bool takes_model;
  const char *help;
} Verb;

struct Cli {
  const Verb *verbs; // all there are
  const char *verb;
  const char *model; // the positional argument
  const char *set_name[kMostSets], *set_value[kMostSets];
  const char *set_flag[kMostSets]; // its option, for example label-smoothing; NULL: --set
  char setting[kMostSets][24];     // settings named by options, as label_smoothing
  int nset;
  char joined[1024]; // lists of options that were given more than once
  size_t njoined;
  const char *input[kMostInputs]; // FILE or NAME=FILE
  int ninput;
  const char *lowering, *dtype, *device, *arch, *weights, *labels, *output, *dump, *explain, *nvtx,
      *tuning, *candidate;
  const char *sim_frontend, *name, *diff, *lang, *recompute, *memory;
  const char *cache_dir, *cuda_path, *stage, *kernel, *ordinal, *seed, *entry, *save, *repeat,
      *warmup, *steps;
  const char *data, *amp, *workers, *save_every, *log_every, *warmup_iters, *profile_iter, *reset,
      *patience, *freeze; // train
  const char *sweep[kMostSweeps];
  int nsweep;
  bool resume, tensorboard, profile_step;
  bool json, markdown, count, check_finite, graph, check, no_check, no_cache, no_flash, cuda, plan,
      costs, dot, help, version, quiet, weights_in_code, kernels_only;
};

// Fills *cli from the arguments. Errors: ExitUsage, with the nearest option or verb.
int cli_parse(const Verb *verbs, int argc, char **argv, Cli *cli, Error *err);
// The value of a whole-number option, `least` or more, or `fallback` when not given. Errors:
// ExitUsage.
int cli_number(const char *option, const char *text, int64_t least, int64_t fallback,
               int64_t *value, Error *err);
void cli_help(FILE *file, const Verb *verbs, const char *verb); // null: all verbs

int cli_options(const Cli *cli, Options *options, Error *err);        // for compile_model
int cli_read_numbers(const char *path, Numbers *numbers, Error *err); // Options.read_numbers

int cli_device(const Cli *cli, Device **device, Error *err); // open.c: --device, --ordinal

int verb_run(const Cli *cli, Error *err);
int verb_train(const Cli *cli, Error *err);
int verb_show(const Cli *cli, Error *err);
int show_costs(const Compiler *c, bool json, int entry, Error *err); // costs.c
int verb_tune(const Cli *cli, Error *err);
int verb_emit(const Cli *cli, Error *err);

// --tuning: the file named, else the one in the cache when `fallback`. *tuning may become null.
int cli_tuning(const Cli *cli, bool fallback, Tuning **tuning, Error *err);
// Warns on stderr when the file of --tuning has entries, but none for this device.
void cli_warn_tuning(const Cli *cli, const Tuning *tuning, const char *device);
int verb_doctor(const Cli *cli, Error *err);
int verb_help(const Cli *cli, Error *err);
int verb_cache(const Cli *cli, Error *err);

// ---- pick.c ------------------------------------------------------------------------------------
// The kernels that the value `word` of --option names, in the graph's arena; if there are several,
// stderr lists them.
// Errors: ExitUsage, with the nearest name.
int pick_kernels(const Graph *graph, const char *option, const char *word, Group ***picked,
                 int *count, Error *err);

// ---- progress.c: one line on a terminal, nothing elsewhere -------------------------------------
Progress progress_bar(void);
Progress progress_lines(void); // elsewhere a line before kernels are compiled
// Replaces the line before, truncated to the terminal's width: "step [####....] 12/440 ...".
void progress_draw(const char *what, int64_t done, int64_t total, const char *after);
void progress_end(void);
Log log_to_stderr(void);

// ---- arch.c ------------------------------------------------------------------------------------
// The architecture's figures, or the driver's where it has them.
void arch_of_device(const DeviceInfo *info, Arch *arch);

// ---- run.c: the results of one `nngen run`, printed by report.c --------------------------------
typedef struct Totals { // of one lowering, per run of `infer`
  int kernels;
  double flops;
  int64_t bytes; // of DRAM traffic, without partial results that blocks exchange
} Totals;

typedef struct Run {
  const Cli *cli;
  Compiler compiler;
  Plan *plan;
  const PlanEntry *entry; // of the plan: --entry
  Tuning *tuning;         // NULL: tiles are chosen only by the cost model
  int ops;                // of the entry, as the model is written
  Totals fused, unfused;  // fused: of the lowering that runs
  Device *device;
  Arch arch; // of the device
  Loaded *loaded;
  Params *params;
  double **inputs;                                     // by tensor; null: written to the device
  ParamsReport filled;                                 // parameters as they were loaded
  JitReport *jit;                                      // owned by loaded, or by only_jit
  JitReport only_jit;                                  // --arch: compiled, not run
  double begin;                                        // when the verb began, by now()
  double seconds_generate;                             // Lua to plan
  double seconds_device, seconds_load, seconds_params; // opened; kernels loaded; parameters filled
  double seconds_ready; // from the start of the verb to a plan that can be launched
  double *ms;           // per step of `infer`; null: not timed
  RunTiming timing;     // --repeat
  bool timed, checked, mismatch;
  int64_t steps;          // --steps
  bool waited;            // the host waited for each of them, to check ids
  double *kernel_error;   // per kernel of the plan: relative error; negative: not checked
  KernelCounts *counts;   // per kernel of the plan, with --count; else null
  CheckResult *outputs;   // per output of the model; node null: not of this entry
  CheckResult *updates;   // per update of the model, as `outputs`
  double **states;        // before the run, by tensor, or NULL
  float **first_outputs;  // their values after the checked run, by tensor; null: not kept
  Labels labels;          // --labels
  char first_bad[1024];   // the first wrong kernel or output
  const char *input_note; // the source of the inputs
} Run;

// run_input.c: the values of all inputs, of files or drawn; then these go to the device.
int run_read_inputs(Run *r, uint64_t seed, Error *err);
int run_set_inputs(Run *r, Error *err);
void run_free_inputs(Run *r);
int run_check_finite(const char *weights, Error *err);

// run_state.c. The entry of this name; null: infer, or the first that is not empty.
int run_pick_entry(const Compiler *c, const char *name, int *entry, Error *err);
// True for a parameter or buffer of the model (even if an entry updates it).
bool cli_is_weight(const Graph *graph, const char *name);
// For --weights: parameters are required, states optional; passes the model's setting `prefix`.
void cli_choose_params(Params *params, const Compiler *c);
int run_keep_states(Run *r, Error *err); // saves the states before the run in Run.states
int run_restore_states(Run *r, Error *err);
int run_check_states(Run *r, Error *err); // after the run: integers out of the declared range
bool run_has_states(const Run *r);
// True if the entry uses r->filled.seeded[i], which --weights lacks.
bool run_lacks(const Run *r, int i);
void run_free_states(Run *r);

// run_check.c: run_afford_check clears *check, with a warning, if memory does not suffice for the
// oracle; with --check that is an error.
int run_afford_check(Run *r, bool *check, Error *err);
int run_checked(Run *r, Error *err);
// Before a run: checks ids that depend only on sources against their tables.
int run_check_ids(Run *r, Error *err);
int run_ids_stay(Run *r, int64_t runs, bool *stay, Error *err); // inside tables, for further runs?
bool run_wants_ids(const Run *r);
// True if this run, or `init`, writes the tensor.
bool run_makes(const Run *r, int tensor);
// After run_checked: run_forget saves the outputs and poisons all activations;
// run_compare_again compares the outputs of a later run with them, bit by bit.
int run_forget(Run *r, Error *err);
int run_compare_again(Run *r, Error *err);

// Prints a line with the first of the names, and the number of others; nothing without names.
void report_names(const char *what, const char *path, const char *how, char *const *names,
                  int count);
void report_text(const Run *run);                // stdout
int report_json(const Run *run, Error *err);     // stdout
int report_explain(const Run *run, Error *err);  // --explain KERNEL
int report_top(const Run *run, Error *err);      // --labels
bool report_is_launch(const Run *run, int step); // else a state is copied
json_t *report_number(double x);                 // of JSON; null: not finite

// The labels of the highest scores of a row of the first output, highest first. Probabilities are
// the values themselves if they are probabilities, else their softmax.
enum { kBestLabels = 5 };
typedef struct BestLabels {
  const char *name[kBestLabels];
  double probability[kBestLabels];
  int count;
} BestLabels;
int report_best(const Run *run, BestLabels **best, int64_t *rows, Error *err); // best: to be freed

// ---- emit.c, emit_files.c, emit_data.c, emit_diff.c --------------------------------------------

enum { kMostArchs = 8, kMostBatches = 8 };

typedef struct Emission {
  const Cli *cli;
  const char *dir;
  bool new_folder;                  // created by this emission
  char name[128];                   // the prefix of every symbol
  Compiler compilers[kMostBatches]; // of the model, or of each batch size
  int entries_of[kMostBatches];     // entries of the plan from each compiler, in this order
  int ncompilers;
  Tuning *tuning; // --tuning; NULL: tiles are chosen only by the cost model
  Plan *plan;
  Params *params;
  Embed *embed;
  const Arch *arch[kMostArchs];        // in ascending order
  const char *targets[kMostArchs + 1]; // their names, then, for PTX, compute_80
  int narchs;
  int *same;
  char settings[512], ptx[16];
  EmbedOptions options;
} Emission;

bool emit_has_lang(const Cli *cli, const char *name); // in the list of --lang
int emit_files(Emission *e, Error *err);              // into the folder, compiled
int emit_weights(const Emission *e, const char *path, Error *err);
// Writes the file that NAME_check.c reads: for each entry random inputs, and the outputs and states
// that the oracle computes from them.
int emit_check(Emission *e, const char *path, Error *err);
int emit_diff(const Emission *e, Error *err); // emit_diff.c, to stdout: against the folder --diff

// ---- tune.c: every candidate tile of every contraction, checked and measured -------------------
// The path of the file of measured tiles in the cache folder, or null; to be freed.
char *tuning_default_path(const char *cache_dir);

enum { kMostVariants = 96 };

// ---- tune_plan.c -------------------------------------------------------------------------------

// One contraction with each of its candidate tiles, as one plan over shared tensors. Its entries:
// `init`; `infer` (each candidate once); v0, v1, ...: one candidate `launches` times; `cold`: each
// once, after a memset that evicts the L2.
typedef struct Variants {
  Group *group;
  int count, launches;
  Tile tiles[kMostVariants]; // the model's choice first
  Plan *plan;
  const PlanEntry *entry; // of the plan: --entry
} Variants;

// The `most` cheapest candidates by the cost model; 0: only the group's own tile. The group is not
// changed. Sources live in the compiler's arena. The caller frees *v with variants_free.
void variants_make(Compiler *c, Group *g, int most, int launches, int64_t flush_bytes, Variants *v);
void variants_free(Variants *v);

// ---- tune_model.c ------------------------------------------------------------------------------

// Times every variant: microseconds per launch, warm and with a cold L2 (0: not measured).
typedef int (*TuneTimer)(void *user, Loaded *loaded, const Variants *v, double *us, double *us_cold,
                         Error *err);

typedef struct TuneRow {       // one problem
  const char *problem, *layer; // layer: the first that has it
  int layers;                  // launches of `infer` that have this problem
  int candidates, wrong;       // wrong: discarded for wrong results
  char wrong_tile[64];         // the first of them
  TuningEntry model, best;     // the model's choice and the fastest
  TuningEntry all[kMostVariants]; // in the model's order
  bool right[kMostVariants];
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
  int64_t flush_bytes; // of the memset that evicts the L2; 0: no cold times
  const char *path;    // written after each problem, for interrupted runs; may be null
  JitOptions jit;
  Progress progress;
  Log log;
} TuneOptions;

// Measures every problem of the compiled model and stores the fastest correct tile of each in
// `tuning`. Errors: of the runtime; ExitMismatch if no candidate of a problem is correct. The
// caller frees report->rows.
int tune_model(Compiler *c, Device *device, const TuneOptions *options, Tuning *tuning,
               TuneReport *report, Error *err);

#endif
