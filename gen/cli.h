// cli.h: the command line, as data: one row per option, and the verbs that take it.
#ifndef NNGEN_CLI_H
#define NNGEN_CLI_H

#include "nngen.h"
#include "nngen_runtime.h"

enum { kMostSets = 64, kMostInputs = 16 };

typedef struct Cli {
  const char *verb;
  const char *model; // the positional argument
  const char *set_name[kMostSets], *set_value[kMostSets];
  int nset;
  const char *input[kMostInputs]; // FILE or NAME=FILE
  int ninput;
  const char *lowering, *dtype, *device, *arch, *weights, *labels, *output, *dump, *explain, *nvtx,
      *tuning, *candidate;
  const char *cache_dir, *cuda_path, *stage, *kernel, *ordinal, *seed, *repeat, *warmup;
  bool json, count, check_finite, graph, check, no_check, no_cache, cuda, plan, costs, dot, help,
      version, quiet;
} Cli;

// Fills *cli from the arguments. Errors: ExitUsage, with the nearest option or verb.
int cli_parse(int argc, char **argv, Cli *cli, Error *err);
// The value of a whole-number option, or `fallback` when not given. Errors: ExitUsage.
int cli_number(const char *option, const char *text, int64_t fallback, int64_t *value, Error *err);
void cli_help(FILE *file, const char *verb); // null: all verbs

// A verb: what it does, and with what.
typedef struct Verb {
  const char *name;
  int (*run)(const Cli *cli, Error *err);
  bool takes_model;
  const char *help;
} Verb;
extern const Verb verbs[]; // main.c; ends with a null name

int cli_options(const Cli *cli, Options *options, Error *err); // for compile_model

int verb_run(const Cli *cli, Error *err);
int verb_show(const Cli *cli, Error *err);
int show_costs(const Compiler *c, bool json, Error *err); // costs.c
int verb_tune(const Cli *cli, Error *err);

// --tuning: the file named, else the one in the cache when `fallback`. *tuning may become null.
int cli_tuning(const Cli *cli, bool fallback, Tuning **tuning, Error *err);
// Says on stderr that the file named by --tuning holds entries, but none for this device.
void cli_tell_tuning(const Cli *cli, const Tuning *tuning, const char *device);
int verb_doctor(const Cli *cli, Error *err);
int verb_cache(const Cli *cli, Error *err);

// ---- pick.c ------------------------------------------------------------------------------------
// The kernels that `word` of --option names, in the graph's arena; several are told on stderr.
// Errors: ExitUsage, with the nearest name.
int pick_kernels(const Graph *graph, const char *option, const char *word, Group ***picked,
                 int *count, Error *err);

// ---- progress.c: one line on a terminal, nothing elsewhere -------------------------------------
Progress progress_bar(void);
void progress_end(void);
Log log_to_stderr(void);

#endif
