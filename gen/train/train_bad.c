// train_bad.c: after a non-finite loss, gradient or weight, names the first value that is NaN or
// infinite. Restores the last checkpoint (or the initial states), repeats the steps since then on
// the same batches, and runs the failing step kernel by kernel. A step depends only on states and
// batch, so the repeated run is bit-equal.
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Search {
  Train *train;
  char found[512]; // the message, or ""
  bool given;      // it was in the weights that the run began with
} Search;

// *bad: the first value of a tensor that is not finite; 0 if all are finite.
static int find_in(Train *t, int tensor, double *bad, Error *err) {
  const PlanTensor *p = &t->plan->tensors[tensor];
  int64_t count = tensor_count(p);
  double *values = base_alloc((size_t)count, sizeof *values);
  int code = tensor_read_doubles(t->loaded, tensor, values, count, err);
  *bad = 0;
  for (int64_t i = 0; !code && i < count && !*bad; i++)
    if (!isfinite(values[i])) *bad = values[i];
  free(values);
  return code;
}

static const char *said(double bad) {
  return isnan(bad) ? "NaN" : "infinite";
}

// ---- is there one? ----------------------------------------------------------------------------

static bool is_finite(const Metrics *m, const char *name, const double *now) {
  for (int i = 0; i < m->count; i++)
    if (!strcmp(m->name[i], name)) return isfinite(now[i]);
  return true;
}

// True if the step is skipped for its overflow, and its loss is NaN or infinite, too.
bool train_is_lost(const Train *t, const double *now) {
  return t->scaled && !is_finite(&t->metrics, "loss", now) &&
         !is_finite(&t->metrics, "grad_norm", now);
}

static const char lower_rate[] = "a smaller --lr, a longer --warmup or --clip-norm 1 may help";

// Warns once of a loss that grows a thousandfold but stays finite.
static void warn_of_growth(Train *t, double loss) {
  const double most = 1000; // times the first loss, or this if it is smaller than 1
  char text[256];
  if (t->first_loss == 0) t->first_loss = fmax(fabs(loss), 1);
  if (t->warned_loss || !(fabs(loss) > most * t->first_loss)) return;
  t->warned_loss = true;
  snprintf(text, sizeof text,
           "the loss of step %lld is %.3g, more than %g times the first one: training diverges; %s",
           (long long)t->read, loss, most, lower_rate);
  log_to_stderr().write(NULL, LogWarning, text);
}

// Limits on consecutive skipped steps: beyond them the divergence is not due to the loss scale. The
// loss itself is not scaled, so for a non-finite loss the limit is lower.
void train_check_step(Train *t, const double *now) {
  enum { kMostSkipped = 32, kMostLost = 8 };
  bool lost = train_is_lost(t, now);
  t->lost = lost ? t->lost + 1 : 0;
  if (t->read % t->accumulate == 0)
    t->skipped = is_finite(&t->metrics, "grad_norm", now) ? 0 : t->skipped + 1;
  for (int i = 0; i < t->metrics.count; i++) {
    if (strcmp(t->metrics.name[i], "loss")) continue;
    if (isfinite(now[i]))
      warn_of_growth(t, now[i]);
    else if (!lost)
      snprintf(t->bad, sizeof t->bad, "the loss is %s at step %lld", said(now[i]),
               (long long)t->read);
  }
  if (t->lost == kMostLost)
    snprintf(t->bad, sizeof t->bad, "the loss of %d steps in a row, up to step %lld, is not finite",
             kMostLost, (long long)t->read);
  if (!t->bad[0] && t->skipped == kMostSkipped)
    snprintf(t->bad, sizeof t->bad,
             "the gradients of %d updates in a row, up to step %lld, are not finite", kMostSkipped,
             (long long)t->read);
}

// Fails if a weight that training updates is not finite: a checkpoint must not hold it.
int train_check_weights(Train *t, Error *err) {
  int code = ExitOk;
  for (int i = 0; !code && i < t->plan->ntensors && !t->bad[0]; i++) {
    const PlanTensor *tensor = &t->plan->tensors[i];
    double bad = 0;
    if (tensor->role != RoleState || !train_is_weight(t, tensor->name)) continue;
    code = find_in(t, i, &bad, err);
    if (!code && bad)
      snprintf(t->bad, sizeof t->bad, "'%.150s' is %s after step %lld", tensor->name, said(bad),
               (long long)t->done);
  }
  return code;
}

// ---- which is the first? ----------------------------------------------------------------------

static int after_kernel(void *user, int step, const PlanStep *what, double ms, Error *err) {
  (void)step, (void)ms;
  Search *search = user;
  Train *t = search->train;
  if (what->kind != StepLaunch || search->found[0]) return ExitOk;
  const PlanKernel *kernel = &t->plan->kernels[what->kernel];
  for (int i = 0; i < kernel->nargs; i++) {
    const PlanTensor *tensor = &t->plan->tensors[kernel->args[i].tensor];
    double bad = 0;
    if (!kernel->args[i].written || !dtype_is_float(tensor->dtype)) continue;
    int code = find_in(t, kernel->args[i].tensor, &bad, err);
    if (code) return code;
    if (!bad) continue;
    snprintf(search->found, sizeof search->found,
             "the first value that is %s: '%s' of the layer %s (%s), kernel %s", said(bad),
             tensor->name, kernel->layer, kernel->loc, kernel->name);
    break;
  }
  return ExitOk;
}

static int search_states(Search *search, int64_t step, Error *err) {
  Train *t = search->train;
  int code = ExitOk;
  for (int i = 0; !code && i < t->plan->ntensors && !search->found[0]; i++) {
    const PlanTensor *tensor = &t->plan->tensors[i];
    double bad = 0;
    if (tensor->role != RoleState || !dtype_is_float(tensor->dtype)) continue;
    code = find_in(t, i, &bad, err);
    if (code || !bad) continue;
    search->given = step == 1;
    if (search->given)
      snprintf(search->found, sizeof search->found, "'%s' was %s before the first step",
               tensor->name, said(bad));
    else
      snprintf(search->found, sizeof search->found, "'%s' was already %s after step %lld",
               tensor->name, said(bad), (long long)step - 1);
  }
  return code;
}

// Restores the states of this process's last checkpoint, or those it started with.
static int go_back(Train *t, Error *err) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s_last.safetensors", t->folder, t->model);
  if (t->saved >= 0) {
    params_close(t->params);
    t->params = NULL;
    int code = params_open(path, (uint64_t)t->seed, &t->params, err);
    if (code) return code;
  }
  int code = params_fill(t->params, t->loaded, NULL, err);
  if (!code) code = train_write_steps(t, err);
  t->done = t->saved >= 0 ? t->saved : t->first;
  if (code) return code;
  loader_close(t->loader);
  t->loader = NULL;
  return train_open_loader(t, t->done, err);
}

// Repeats the steps from the last checkpoint to `step`, then runs it kernel by kernel. *before: one
// of the repeated steps left a state that is not finite.
static int search_step(Search *search, int64_t step, bool *before, Error *err) {
  Train *t = search->train;
  int code = go_back(t, err);
  int64_t from = t->done;
  *before = false;
  for (; !code && t->done < step - 1 && !train_signal(); t->done++) {
    code = train_next_batch(t, err);
    if (!code) code = replay_enqueue(t->replay, err);
  }
  if (!code) code = run_wait(t->loaded, err);
  if (!code) code = search_states(search, step, err);
  *before = search->found[0] && t->done > from;
  if (code || search->found[0]) return code;
  code = train_next_batch(t, err);
  return code ? code : run_steps(t->loaded, "train", after_kernel, search, err);
}

// Searches backwards from the step with the bad loss to the step that made a state bad.
static int search_steps(Search *search, int64_t *step, Error *err) {
  Train *t = search->train;
  bool before = true;
  int code = run_wait(t->loaded, err);
  if (!code) code = feed_wait(t->feed, err);
  for (; !code && before; *step -= before) {
    search->found[0] = 0;
    code = search_step(search, *step, &before, err);
  }
  return code;
}

int train_find_bad(Train *t, Error *err) {
  Search search = {.train = t};
  int64_t began = t->read;
  progress_end();
  fprintf(stderr, "nngen: %s: looking for the cause\n", t->bad);
  Error failed = {0};
  if (search_steps(&search, &began, &failed) && !search.found[0])
    snprintf(search.found, sizeof search.found, "the cause was not found: %.400s", failed.message);
  const char *found =
      search.found[0] ? search.found : "run again kernel by kernel, all values are finite";
  const char *cure =
      search.given ? "begin with other weights (--check-finite looks at them first)" : lower_rate;
  return err_set(err, ExitMismatch, "%s; step %lld: %s\n%s; %s", t->bad, (long long)began, found,
                 cure,
                 t->saved < 0 && !t->cli->resume ? "there is no checkpoint yet"
                                                 : "the last checkpoint is kept");
}
