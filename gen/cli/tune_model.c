// tune_model.c: measures the candidate tiles of a compiled model. Equal contractions are one
// problem, measured once. Every candidate runs on random data and is compared with the oracle,
// element by element; wrong ones are discarded, the others timed, and the fastest is stored.
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Session { // one problem on the device
  const TuneOptions *options;
  Compiler *compiler;
  Variants variants;
  Loaded *loaded;
  Error *err;
} Session;

// ---- data -------------------------------------------------------------------------------------

// The state that this value overwrites in place, or NULL.
static const Node *state_of(const Graph *g, const Node *value) {
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].in_place && g->updates[i].value == value) return g->updates[i].state;
  return NULL;
}

static int tensor_of(const Session *s, const Node *n) {
  const Plan *p = s->variants.plan;
  const Node *state = state_of(s->compiler->graph, n);
  if (state) n = state;
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i].value == n->id) return i;
  die("the plan has no tensor for %%%d", n->id);
}

static int fill_inputs(Session *s) { // values between -1 and 1, the same in every session
  const Group *g = s->variants.group;
  uint64_t state = 1;
  int code = ExitOk;
  for (int i = 0; !code && i < g->ninputs; i++) {
    int tensor = tensor_of(s, g->inputs[i]);
    int64_t count = tensor_count(&s->variants.plan->tensors[tensor]);
    float *values = base_alloc((size_t)count, sizeof *values);
    for (int64_t k = 0; k < count; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u; // Knuth's MMIX generator
      values[k] = (float)((double)(state >> 40) * 0x1p-23 - 1);
    }
    code = tensor_write_floats(s->loaded, tensor, values, count, s->err);
    free(values);
  }
  return code;
}

static int poison_outputs(Session *s) { // all ones: a NaN in every float format we store
  const Group *g = s->variants.group;
  int code = ExitOk;
  for (int i = 0; !code && i < g->noutputs; i++) {
    int tensor = tensor_of(s, g->outputs[i]);
    size_t bytes = (size_t)s->variants.plan->tensors[tensor].bytes;
    char *ones = base_alloc(bytes, 1);
    memset(ones, 0xff, bytes);
    code = tensor_write(s->loaded, tensor, ones, bytes, s->err);
    free(ones);
  }
  return code;
}

static bool read_value(void *user, const Node *n, double *values) {
  Session *s = user;
  int tensor = tensor_of(s, n);
  int64_t count = type_count(&n->type);
  float *floats = base_alloc((size_t)count, sizeof *floats);
  int code = tensor_read_floats(s->loaded, tensor, floats, count, s->err);
  for (int64_t i = 0; i < count; i++) values[i] = floats[i];
  free(floats);
  return code == ExitOk;
}

// ---- checking ---------------------------------------------------------------------------------

static int check_one(Session *s, int index, const CheckWant *want, bool *right, TuneRow *row) {
  char entry[16], text[512];
  snprintf(entry, sizeof entry, "v%d", index);
  int code = poison_outputs(s);
  if (!code) code = run_entry(s->loaded, entry, s->err);
  if (code) return code;
  CheckResult r = check_against(want, read_value, s);
  if (r.failed_read) return s->err->code;
  *right = r.passed;
  if (r.passed) return ExitOk;
  const char *tile = tuning_tile(s->compiler->arena, &s->variants.tiles[index]);
  if (!row->wrong++) snprintf(row->wrong_tile, sizeof row->wrong_tile, "%s", tile);
  snprintf(text, sizeof text,
           "%s: tile %s gives wrong results on this device (relative error %.3g, allowed %.3g): "
           "discarded",
           row->problem, tile, r.relative, r.gate);
  s->options->log.write(s->options->log.user, LogWarning, text);
  return ExitOk;
}

static int check_all(Session *s, bool *right, TuneRow *row) {
  CheckWant *want = check_want(s->compiler, s->variants.group, read_value, s);
  if (!want) return s->err->code;
  int code = ExitOk, good = 0;
  for (int i = 0; !code && i < s->variants.count; i++) {
    code = check_one(s, i, want, &right[i], row);
    good += right[i];
  }
  check_free(want);
  if (!code && !good)
    code = err_set(s->err, ExitMismatch, "%s (%s): none of %d candidates gives correct results",
                   row->problem, row->layer, s->variants.count);
  return code;
}

// ---- one problem ------------------------------------------------------------------------------

static TuningEntry entry_of(const Variants *v, int i, const double *us, const double *cold) {
  return (TuningEntry){tuning_tile(v->group->graph->arena, &v->tiles[i]), us[i], cold[i],
                       v->tiles[i].seconds * 1e6};
}

static int measure(Session *s, TuneRow *row) {
  const Variants *v = &s->variants;
  double us[kMostVariants] = {0}, cold[kMostVariants] = {0};
  int code = run_entry(s->loaded, "init", s->err);
  if (!code) code = fill_inputs(s);
  if (!code) code = check_all(s, row->right, row);
  if (!code) code = s->options->timer(s->options->user, s->loaded, v, us, cold, s->err);
  if (code) return code;
  int best = -1;
  for (int i = 0; i < v->count; i++)
    if (row->right[i] && (best < 0 || us[i] < us[best])) best = i;
  for (int i = 0; i < v->count; i++) row->all[i] = entry_of(v, i, us, cold);
  row->candidates = v->count;
  row->model = row->all[0];
  row->best = row->all[best];
  return ExitOk;
}

static int tune_group(Compiler *c, Device *device, const TuneOptions *o, Group *g, TuneRow *row,
                      Error *err) {
  Session s = {.options = o, .compiler = c, .err = err};
  variants_make(c, g, o->most, o->launches, o->flush_bytes, &s.variants);
  int code = load_plan(device, s.variants.plan, &o->jit, &s.loaded, err);
  if (!code) code = measure(&s, row);
  if (s.loaded) load_close(s.loaded);
  variants_free(&s.variants);
  return code;
}

// ---- the model --------------------------------------------------------------------------------

// Does the kernel read a state that it writes? Each run would have other inputs.
static bool changes_its_input(const Group *g) {
  for (int i = 0; i < g->noutputs; i++)
    for (int k = 0; k < g->ninputs; k++)
      if (state_of(g->graph, g->outputs[i]) == g->inputs[k]) return true;
  return false;
}

// A row for each problem among the contractions of `infer`; where[] is the group of each.
static int list_problems(Compiler *c, TuneRow *rows, Group **where) {
  int count = 0;
  for (int i = 0; i < c->graph->ngroups; i++) {
    Group *g = c->graph->groups[i];
    if (!g->tm->candidates || g->fixed || changes_its_input(g)) continue;
    const char *problem = tuning_problem(g);
    int at = 0;
    while (at < count && strcmp(rows[at].problem, problem)) at++;
    if (at == count) {
      rows[at] = (TuneRow){.problem = problem, .layer = g->layer};
      where[count++] = g;
    }
    rows[at].layers++;
  }
  return count;
}

typedef struct Job { // the argument of tune_all
  Compiler *compiler;
  Device *device;
  const TuneOptions *options;
  Tuning *tuning;
  TuneReport *report;
} Job;

static int tune_all(void *user, Error *err) {
  Job *j = user;
  Compiler *c = j->compiler;
  Group **where = arena_alloc(c->arena, sizeof *where * (size_t)(c->graph->ngroups + 1));
  j->report->rows = base_alloc((size_t)c->graph->ngroups + 1, sizeof(TuneRow));
  int count = list_problems(c, j->report->rows, where), code = ExitOk;
  const Progress *p = &j->options->progress;
  for (int i = 0; !code && i < count; i++) {
    TuneRow *row = &j->report->rows[i];
    code = tune_group(c, j->device, j->options, where[i], row, err);
    if (code) break;
    tuning_put(j->tuning, device_info(j->device)->name, row->problem, &row->best);
    j->report->nrows++;
    if (j->options->path) code = tuning_write(j->tuning, j->options->path, err);
    if (p->step) p->step(p->user, "tuning", i + 1, count);
  }
  return code;
}

int tune_model(Compiler *c, Device *device, const TuneOptions *options, Tuning *tuning,
               TuneReport *report, Error *err) {
  Job job = {c, device, options, tuning, report};
  *report = (TuneReport){0};
  return compile_guard(c, tune_all, &job, err);
}
