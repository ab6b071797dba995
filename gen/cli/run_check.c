// run_check.c: a run step by step: every kernel is compared with the oracle on the inputs that it
// read, and the outputs with the oracle's evaluation of the model as written.
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Reader {
  Run *run;
  Error *err;
} Reader;

// A state updated in place shares its tensor with the new value.
static int find_tensor(const Run *r, const Node *n) {
  const Graph *g = r->compiler.graph;
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].in_place && g->updates[i].value == n) n = g->updates[i].state;
  for (int i = 0; i < r->plan->ntensors; i++)
    if (r->plan->tensors[i].value == n->id) return i;
  return -1;
}

static bool to_doubles(Reader *reader, int tensor, bool parameter, double *values) {
  Run *r = reader->run;
  const PlanTensor *t = &r->plan->tensors[tensor];
  int64_t count = tensor_count(t);
  if (!parameter)
    return tensor_read_doubles(r->loaded, tensor, values, count, reader->err) == ExitOk;
  float *floats = base_alloc((size_t)count, sizeof *floats);
  int code = params_values(r->params, t, floats, reader->err);
  for (int64_t i = 0; i < count; i++) values[i] = floats[i];
  free(floats);
  return code == ExitOk;
}

static bool copy_state(const Run *r, int tensor, double *values) {
  memcpy(values, r->states[tensor],
         sizeof *values * (size_t)tensor_count(&r->plan->tensors[tensor]));
  return true;
}

static bool read_value(void *user, const Node *n, double *values);

// Reads n, a part of a concat, row-major.
static bool read_part(Reader *reader, const Node *n, double *values) {
  const Type *all = &n->parent->type;
  int axis = (int)n->parent->attr.axis;
  double *whole = base_alloc((size_t)type_count(all), sizeof *whole);
  bool ok = read_value(reader, n->parent, whole);
  int64_t inner = 1, run, rows;
  for (int d = axis + 1; d < all->rank; d++) inner *= all->dim[d];
  run = n->type.dim[axis] * inner, rows = type_count(&n->type) / run;
  for (int64_t i = 0; ok && i < rows; i++)
    memcpy(values + i * run, whole + (i * all->dim[axis] + n->begin) * inner,
           sizeof *values * (size_t)run);
  free(whole);
  return ok;
}

static bool read_value(void *user, const Node *n, double *values) {
  Reader *reader = user;
  if (n->parent && n->parent->op->form != MoveConcat) // a reshape of it
    return read_value(user, n->parent, values);
  if (n->parent) return read_part(reader, n, values);
  int tensor = find_tensor(reader->run, n);
  if (tensor < 0) die("no tensor of '%s'", n->name ? n->name : n->op->name);
  if (n->op->cls == OpSource && reader->run->states[tensor]) // its kernel may have updated it
    return copy_state(reader->run, tensor, values);
  return to_doubles(reader, tensor, false, values);
}

// For the reference: inputs as the device has them, parameters as the file has them.
static bool read_source(void *user, const Node *n, double *values) {
  Reader *reader = user;
  for (int i = 0; i < reader->run->plan->ntensors; i++) {
    const PlanTensor *t = &reader->run->plan->tensors[i];
    if ((t->role != RoleInput && !params_has(t)) || strcmp(t->name, n->name)) continue;
    if (t->role == RoleState) return copy_state(reader->run, i, values);
    return to_doubles(reader, i, t->role == RoleParam, values);
  }
  die("no tensor '%s' in the plan", n->name);
}

static void note_bad(Run *r, const char *what, const char *loc, const CheckResult *c) {
  r->mismatch = true;
  if (r->first_bad[0]) return;
  if (c->differ) {
    snprintf(r->first_bad, sizeof r->first_bad,
             "%s%s%s: %lld integers differ that must be equal, first at %lld: %.9g, expected %.9g",
             what, *loc ? ", " : "", loc, (long long)c->differ, (long long)c->worst, c->got,
             c->want);
    return;
  }
  if (c->unlike) {
    snprintf(r->first_bad, sizeof r->first_bad,
             "%s%s%s: %lld elements are finite where the oracle's are not, or the reverse, first "
             "at %lld: %.9g, expected %.9g",
             what, *loc ? ", " : "", loc, (long long)c->unlike, (long long)c->worst, c->got,
             c->want);
    return;
  }
  int used =
      snprintf(r->first_bad, sizeof r->first_bad, "%s%s%s: relative error %.3g, allowed %.3g", what,
               *loc ? ", " : "", loc, c->relative, c->gate);
  if (c->bad)
    snprintf(r->first_bad + used, sizeof r->first_bad - (size_t)used,
             "; %lld elements outside their bound, first at %lld: %.9g, expected %.9g",
             (long long)c->bad, (long long)c->worst, c->got, c->want);
}

static int check_kernel(Reader *reader, int kernel) {
  Run *r = reader->run;
  const Group *g = r->compiler.graph->groups[kernel];
  CheckResult c = {.passed = true};
  if (g->first) c = check_group(&r->compiler, g->first, read_value, reader);
  if (c.passed) { // else warned about its rows
    CheckResult own = check_group(&r->compiler, g, read_value, reader);
    own.relative = fmax(own.relative, c.relative);
    c = own;
  }
  if (c.failed_read) return reader->err->code ? reader->err->code : ExitNoDevice;
  r->kernel_error[kernel] = c.relative;
  if (!c.passed) note_bad(r, r->plan->kernels[kernel].name, r->plan->kernels[kernel].loc, &c);
  return ExitOk;
}

static int after_step(void *user, int step, const PlanStep *what, double ms, Error *err) {
  (void)ms, (void)step, (void)err;
  Reader *reader = user;
  if (!reader->run->cli->quiet && progress_bar().step)
    progress_bar().step(NULL, "checking", what->kernel + 1, reader->run->plan->nkernels);
  return what->kind == StepLaunch ? check_kernel(reader, what->kernel) : ExitOk;
}

static int check_value(Reader *reader, const char *kind, const char *name, const Node *node,
                       double **value, CheckResult *result) {
  Run *r = reader->run;
  int tensor = tensor_find(r->plan, name);
  Dtype stored = r->plan->tensors[tensor].dtype;
  double *got = base_alloc((size_t)type_count(&node->type), sizeof *got);
  int code = to_doubles(reader, tensor, false, got) ? ExitOk : reader->err->code;
  if (!code)
    *result = check_model_output(r->compiler.original, node, value, got, r->cli->dtype, stored);
  result->node = node;
  free(got);
  char what[256];
  snprintf(what, sizeof what, "%s '%s'", kind, name);
  if (!code && !result->passed) note_bad(r, what, "", result);
  return code;
}

static int entry_of(const Run *r) { // index in the model: without init
  return (int)(r->entry - r->plan->entries) - 1;
}

static int check_outputs(Run *r, Reader *reader, double **value) {
  Graph *g = r->compiler.original;
  int entry = entry_of(r), code = ExitOk;
  for (int i = 0; !code && i < g->noutputs; i++) {
    const Output *o = &g->outputs[i];
    if (o->entry == entry)
      code = check_value(reader, "output", o->name, o->node, value, &r->outputs[i]);
  }
  for (int i = 0; !code && i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    if (u->entry == entry)
      code = check_value(reader, "state", u->state->name, u->value, value, &r->updates[i]);
  }
  return code;
}

// Runs once, step by step, and compares every kernel on the inputs that it read. The reference
// comes first, because it reports user errors more clearly than a device.
static int run_guarded(void *user, Error *err) {
  Run *r = user;
  Reader reader = {r, err};
  r->checked = true;
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->nkernels; i++)
    if (r->compiler.graph->groups[i]->fixed) code = check_kernel(&reader, i);
  load_keep_init(r->loaded, false);
  double **value = NULL;
  if (!code) code = check_reference(&r->compiler, read_source, &reader, &value) ? code : err->code;
  if (!code) code = run_steps(r->loaded, r->entry->name, after_step, &reader, err);
  progress_end();
  if (!code) code = check_outputs(r, &reader, value);
  if (value) eval_free(r->compiler.original, value);
  free(value);
  return code;
}

int run_checked(Run *r, Error *err) {
  return compile_guard(&r->compiler, run_guarded, r, err);
}

// Values for ids: the device's current ones; for parameters the file's.
static bool read_now(void *user, const Node *n, double *values) {
  Reader *reader = user;
  const Plan *plan = reader->run->plan;
  for (int i = 0; i < plan->ntensors; i++) {
    const PlanTensor *t = &plan->tensors[i];
    if ((t->role == RoleInput || params_has(t)) && !strcmp(t->name, n->name))
      return to_doubles(reader, i, t->role == RoleParam, values);
  }
  die("no tensor '%s' in the plan", n->name);
}

static int check_ids(void *user, Error *err) {
  Run *r = user;
  Reader reader = {r, err};
  return ids_check(&r->compiler, entry_of(r), read_now, &reader) ? ExitOk : err->code;
}

// --steps: ids are checked before each run only where their ranges do not show that they stay
// inside their tables.
typedef struct Stay {
  Run *run;
  int64_t runs;
  bool stay;
} Stay;

static int find_stay(void *user, Error *err) {
  Stay *s = user;
  Reader reader = {s->run, err};
  s->stay = ids_stay(&s->run->compiler, entry_of(s->run), s->runs, read_now, &reader);
  return err->code;
}

int run_ids_stay(Run *r, int64_t runs, bool *stay, Error *err) {
  Stay s = {r, runs, false};
  int code = compile_guard(&r->compiler, find_stay, &s, err);
  *stay = s.stay;
  return code;
}

bool run_wants_ids(const Run *r) {
  return ids_wanted(r->compiler.original, entry_of(r));
}

int run_check_ids(Run *r, Error *err) {
  return compile_guard(&r->compiler, check_ids, r, err);
}

// ---- later runs must give the same bits ---------------------------------------------------------

static int read_outputs(Run *r, float **values, Error *err) {
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->ntensors; i++) {
    const PlanTensor *t = &r->plan->tensors[i];
    if (t->role != RoleOutput || !run_makes(r, i)) continue;
    values[i] = base_alloc((size_t)tensor_count(t), sizeof *values[i]);
    code = tensor_read_floats(r->loaded, i, values[i], tensor_count(t), err);
  }
  return code;
}

int run_forget(Run *r, Error *err) {
  r->first_outputs = base_alloc((size_t)r->plan->ntensors, sizeof *r->first_outputs);
  int code = read_outputs(r, r->first_outputs, err);
  return code ? code : load_poison(r->loaded, err);
}

int run_compare_again(Run *r, Error *err) {
  float **again = base_alloc((size_t)r->plan->ntensors, sizeof *again);
  int code = read_outputs(r, again, err);
  for (int i = 0; !code && i < r->plan->ntensors; i++) {
    const PlanTensor *t = &r->plan->tensors[i];
    if (!again[i] ||
        !memcmp(again[i], r->first_outputs[i], sizeof *again[i] * (size_t)tensor_count(t)))
      continue;
    r->mismatch = true;
    if (!r->first_bad[0])
      snprintf(r->first_bad, sizeof r->first_bad, "output '%s': a later run gave different bits",
               t->name);
  }
  for (int i = 0; i < r->plan->ntensors; i++) free(again[i]);
  free(again);
  return code;
}

// Is there memory for the oracle? Without --check, checking is skipped with a warning.
int run_afford_check(Run *r, bool *check, Error *err) {
  double need = (double)check_bytes(r->compiler.original) * 1e-9;
  double have = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) * 1e-9;
  if (!*check || need < have) return ExitOk;
  if (r->cli->check)
    return err_set(err, ExitNoDevice,
                   "--check: the oracle needs about %.1f GB, this machine has %.1f GB free; "
                   "try a smaller batch",
                   need, have);
  char text[160];
  snprintf(text, sizeof text,
           "not checked: the oracle needs about %.1f GB, this machine has %.1f GB free", need,
           have);
  log_to_stderr().write(NULL, LogWarning, text);
  *check = false;
  return ExitOk;
}
