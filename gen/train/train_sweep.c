// train_sweep.c: --sweep: a short run for each combination of some settings, and a table of
// results; for a failed run, the reason.
#include "train.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Sweep {
  const Cli *cli;
  char *text[kMostSweeps]; // "batch\0" "16,32,64", split at the =
  const char *value[kMostSweeps];
  char cell[kMostSweeps][64], model[4096];
  json_t *rows;
  int failed; // of the rows
} Sweep;

static void free_sweep(Sweep *s) {
  for (int i = 0; i < s->cli->nsweep; i++) free(s->text[i]);
  json_decref(s->rows);
}

// A model named without a path is in the folder of the given one.
static void set_model(Sweep *s, Cli *cli, const char *name) {
  const char *slash = strrchr(cli->model, '/');
  size_t n = strlen(name);
  bool whole = strchr(name, '/') || (n > 4 && !strcmp(name + n - 4, ".lua"));
  if (whole)
    snprintf(s->model, sizeof s->model, "%s", name);
  else
    snprintf(s->model, sizeof s->model, "%.*s%s.lua", slash ? (int)(slash - cli->model) + 1 : 0,
             cli->model, name);
  cli->model = s->model;
}

static int set(Sweep *s, Cli *cli, const char *name, const char *value, Error *err) {
  if (!strcmp(name, "model"))
    set_model(s, cli, value);
  else if (!strcmp(name, "amp"))
    cli->amp = value;
  else if (!strcmp(name, "dtype"))
    cli->dtype = value;
  else {
    int at = 0; // overrides a setting of the command line
    while (at < cli->nset && strcmp(cli->set_name[at], name)) at++;
    if (at >= kMostSets - 4) return err_set(err, ExitUsage, "too many settings");
    cli->set_name[at] = name;
    cli->set_value[at] = value;
    cli->set_flag[at] = "sweep";
    if (at == cli->nset) cli->nset++;
    if (!strcmp(name, "seed")) cli->seed = NULL;
  }
  return ExitOk;
}

static void print_head(const Sweep *s) {
  for (int i = 0; i < s->cli->nsweep; i++) printf("%-12s ", s->text[i]);
  printf("%12s %10s %10s %10s %10s %10s %10s %11s %10s\n", "examples/s", "ms a step", "forward",
         "loss", "backward", "optimizer", "peak MB", "loss at end", "accuracy");
}

static json_t *add_row(Sweep *s) {
  json_t *row = json_object();
  for (int i = 0; i < s->cli->nsweep; i++)
    json_object_set_new(row, s->text[i], json_string(s->cell[i]));
  json_array_append_new(s->rows, row);
  for (int i = 0; i < s->cli->nsweep && !s->cli->json; i++) printf("%-12s ", s->cell[i]);
  return row;
}

// Of a run that failed: why.
static void print_failed(Sweep *s, const Error *why) {
  json_object_set_new(add_row(s), "error", json_string(why->message));
  s->failed++;
  if (s->cli->json) return;
  printf("failed: %.*s\n", (int)strcspn(why->message, "\n"), why->message);
  fflush(stdout);
}

static void print_row(Sweep *s, const TrainSummary *t) {
  json_t *row = add_row(s), *phases = json_object();
  for (int i = 0; i < PhaseCount; i++)
    json_object_set_new(phases, phase_name(i), json_real(t->ms_phase[i]));
  json_object_set_new(row, "examples_per_second", json_real(t->rate));
  json_object_set_new(row, "ms_step", json_real(t->ms_step));
  json_object_set_new(row, "ms_phases", phases);
  json_object_set_new(row, "peak_bytes", json_integer(t->bytes));
  json_object_set_new(row, "loss", report_number(t->loss));
  json_object_set_new(row, "accuracy", report_number(t->accuracy));
  if (s->cli->json) return;
  printf("%12.5g %10.4g", t->rate, t->ms_step);
  for (int i = 0; i < PhaseCount; i++) printf(" %10.4g", t->ms_phase[i]);
  printf(" %10.4g %11.4g", (double)t->bytes / 1e6, t->loss);
  if (isnan(t->accuracy))
    printf(" %10s\n", "-");
  else
    printf(" %10.4g\n", t->accuracy);
  fflush(stdout);
}

static int run_cell(Sweep *s, Error *err) {
  Cli cli = *s->cli;
  TrainSummary summary;
  cli.nsweep = 0;
  cli.quiet = true;
  if (!cli.steps) cli.steps = "20";
  int code = ExitOk;
  for (int i = 0; i < s->cli->nsweep && !code; i++)
    code = set(s, &cli, s->text[i], s->cell[i], err);
  if (code) return code;
  Error why = {0};
  if (!train_one(&cli, &summary, &why))
    print_row(s, &summary);
  else if (train_signal())
    *err = why, code = why.code;
  else
    print_failed(s, &why); // the others run
  return code;
}

// Runs every value of setting `at`, each with all values of the settings after it.
static int run_from(Sweep *s, int at, Error *err) {
  if (at == s->cli->nsweep) return run_cell(s, err);
  int code = ExitOk;
  for (const char *value = s->value[at]; *value && !code;) {
    size_t length = strcspn(value, ",");
    snprintf(s->cell[at], sizeof s->cell[at], "%.*s", (int)length, value);
    value += length + (value[length] == ',');
    code = run_from(s, at + 1, err);
  }
  return code;
}

// All lists are checked before the first run.
static int check(const Sweep *s, Error *err) {
  const Cli *cli = s->cli;
  if (cli->resume)
    return err_set(err, ExitUsage, "--sweep starts each run from scratch: omit --resume");
  if (cli->profile_step)
    return err_set(err, ExitUsage, "--sweep and --profile-one-step: one of the two");
  for (int i = 0; i < cli->nsweep; i++) {
    bool good = *s->text[i] && *s->value[i];
    for (const char *value = s->value[i]; good && *value;) {
      size_t length = strcspn(value, ",");
      good = length && length < sizeof s->cell[i] && (!value[length] || value[length + 1]);
      value += length + (value[length] == ',');
    }
    if (!good)
      return err_set(err, ExitUsage,
                     "--sweep %s: expected NAME=A,B,..., values of at most %d characters",
                     cli->sweep[i], (int)sizeof s->cell[i] - 1);
    for (int j = 0; j < i; j++)
      if (!strcmp(s->text[i], s->text[j]))
        return err_set(err, ExitUsage, "--sweep %s: '%s' is given twice: expected one list, %s=A,B",
                       cli->sweep[i], s->text[i], s->text[i]);
  }
  return ExitOk;
}

int train_sweep(const Cli *cli, Error *err) {
  Sweep s = {.cli = cli, .rows = json_array()};
  for (int i = 0; i < cli->nsweep; i++) {
    s.text[i] = strdup(cli->sweep[i]);
    if (!s.text[i]) die("out of memory");
    char *equal = strchr(s.text[i], '=');
    *equal = 0;
    s.value[i] = equal + 1;
  }
  int code = check(&s, err);
  if (!code && !cli->json) print_head(&s);
  if (!code) code = run_from(&s, 0, err);
  if (cli->json && (!code || json_array_size(s.rows))) {
    json_t *o = json_pack("{s:i, s:O}", "schema_version", 1, "sweep", s.rows);
    if (json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) && !code)
      code = err_set(err, ExitBadInput, "stdout cannot be written");
    json_decref(o);
    printf("\n");
  }
  if (!code && s.failed)
    code = err_set(err, ExitMismatch, "--sweep: %d of %d runs failed", s.failed,
                   (int)json_array_size(s.rows));
  free_sweep(&s);
  return code;
}
