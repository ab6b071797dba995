// train_save.c: the output folder of a training run: its lock, log and checkpoints; and the initial
// parameters of a run.
#include "train.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void path_of(const Train *t, const char *kind, char *path, size_t size) {
  snprintf(path, size, "%s/%s_%s.safetensors", t->folder, t->model, kind);
}

bool train_is_weight(const Train *t, const char *name) {
  return cli_is_weight(t->compiler.graph, name);
}

// ---- the folder -------------------------------------------------------------------------------

// The lock ends with the process, however that ends; the file stays.
static int lock_folder(Train *t, Error *err) {
  char path[4096], text[32] = "";
  snprintf(path, sizeof path, "%s/.lock", t->folder);
  t->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (t->lock < 0)
    return err_set(err, ExitBadInput, "--out-dir %s: %s", t->folder, strerror(errno));
  if (flock(t->lock, LOCK_EX | LOCK_NB)) {
    ssize_t length = pread(t->lock, text, sizeof text - 1, 0);
    text[length > 0 ? strcspn(text, "\n") : 0] = 0;
    return err_set(err, ExitUsage,
                   "another nngen train (process %s) writes to %s: wait until it ends, or give "
                   "another --out-dir",
                   text, t->folder);
  }
  int length = snprintf(text, sizeof text, "%ld\n", (long)getpid());
  if (ftruncate(t->lock, 0) || pwrite(t->lock, text, (size_t)length, 0) != length)
    log_to_stderr().write(NULL, LogWarning, "the lock of --out-dir cannot be written");
  return ExitOk;
}

void train_unlock(Train *t) {
  if (t->lock >= 0) close(t->lock);
  t->lock = -1;
}

int train_open_folder(Train *t, Error *err) {
  char path[512];
  if (t->silent || t->cli->profile_step) return ExitOk;
  snprintf(path, sizeof path, "%s_train", t->model);
  t->folder = t->cli->output ? t->cli->output : arena_dup(t->compiler.arena, path);
  if (!file_make_parents(t->folder, 0777) || (mkdir(t->folder, 0777) && errno != EEXIST))
    return err_set(err, ExitBadInput, "--out-dir %s: %s", t->folder, strerror(errno));
  return lock_folder(t, err);
}

// The log of a resumed run keeps the lines up to the checkpoint's step.
static int open_log(Train *t, int64_t step, Error *err) {
  if (t->silent || t->cli->profile_step) return ExitOk;
  int code = runlog_open(t->folder, t->cli->resume, t->cli->tensorboard, &t->log, err);
  return code || !t->cli->resume ? code : runlog_cut(t->log, step, err);
}

// ---- saving -----------------------------------------------------------------------------------

// Replaces each parameter by its moving average, where there is one.
static void take_averages(const Train *t, WeightTensor *kept, int nkept, const WeightTensor *all,
                          int count) {
  (void)t;
  for (int i = 0; i < nkept; i++)
    for (int j = 0; j < count; j++)
      if (!strncmp(all[j].name, "ema.", 4) && !strcmp(all[j].name + 4, kept[i].name))
        kept[i].data = all[j].data;
}

typedef struct Notes { // the metadata of a checkpoint: what a resumed run needs besides tensors
  Buffer settings;
  char step[32], batch[32], seed[32], pictures[32], best[64], bad[32],
      sums[32 * (2 * kMostMetrics + 1)];
  const char *pairs[24];
} Notes;

static int64_t pictures(const Train *t) { // for training; 0: the model generates its data
  return t->data ? dataset_count(t->data) : 0;
}

// The model's settings: a line each.
static void put_settings(const Compiler *c, Buffer *text) {
  for (int i = 0; i < c->nsettings; i++)
    buffer_put(text, "%s=%s\n", c->settings[i].name, c->settings[i].value);
}

static void note(Notes *notes, int *count, const char *key, const char *value) {
  notes->pairs[(*count)++] = key;
  notes->pairs[(*count)++] = value;
}

static void make_notes(const Train *t, bool weights_alone, const double *best, Notes *notes) {
  int count = 0, used;
  const Metrics *m = &t->metrics;
  *notes = (Notes){0};
  snprintf(notes->step, sizeof notes->step, "%lld", (long long)t->done);
  snprintf(notes->batch, sizeof notes->batch, "%lld", (long long)t->batch);
  snprintf(notes->seed, sizeof notes->seed, "%lld", (long long)t->seed);
  snprintf(notes->pictures, sizeof notes->pictures, "%lld", (long long)pictures(t));
  snprintf(notes->bad, sizeof notes->bad, "%lld", (long long)t->bad_epochs);
  used = snprintf(notes->sums, sizeof notes->sums, "%.17g", m->weight);
  for (int i = 0; i < m->count; i++)
    used += snprintf(notes->sums + used, sizeof notes->sums - (size_t)used, " %.17g", m->sum[i]);
  for (int i = 0; i < m->count; i++)
    used += snprintf(notes->sums + used, sizeof notes->sums - (size_t)used, " %.17g", m->missed[i]);
  note(notes, &count, "format", "pt");
  note(notes, &count, "nngen_model", t->model);
  note(notes, &count, "nngen_dtype", t->cli->dtype);
  note(notes, &count, "nngen_step", notes->step);
  note(notes, &count, "nngen_batch", notes->batch);
  note(notes, &count, "nngen_seed", notes->seed);
  note(notes, &count, "nngen_pictures", notes->pictures);
  note(notes, &count, "nngen_epoch_sums", notes->sums);
  note(notes, &count, "nngen_bad_epochs", notes->bad);
  if (!weights_alone) put_settings(&t->compiler, &notes->settings);
  if (notes->settings.text) note(notes, &count, "nngen_settings", notes->settings.text);
  if (!best) return;
  snprintf(notes->best, sizeof notes->best, "%.17g", *best);
  note(notes, &count, "nngen_best", notes->best);
}

static bool is_kept(const char *name) { // in a checkpoint; neighbours: of an evaluation alone
  return strncmp(name, "neighbours.", strlen("neighbours."));
}

struct Saving {
  WeightTensor *all, *kept;
  int count, nkept;
  Notes notes;
};

static void free_saving(Saving *s) {
  if (!s) return;
  params_snapshot_free(s->all, s->count);
  free(s->kept);
  buffer_free(&s->notes.settings);
  free(s);
}

// The states as they are now; with the value of the evaluation that _best holds, if there is one.
static int take_states(const Train *t, bool weights_alone, const double *best, Saving **out,
                       Error *err) {
  Saving *s = *out = base_alloc(1, sizeof *s);
  int code = params_snapshot(t->params, t->loaded, &s->all, &s->count, err);
  if (code) return free(s), *out = NULL, code;
  s->kept = base_alloc((size_t)s->count, sizeof *s->kept);
  for (int i = 0; i < s->count; i++)
    if (weights_alone ? train_is_weight(t, s->all[i].name) : is_kept(s->all[i].name))
      s->kept[s->nkept++] = s->all[i];
  if (weights_alone) take_averages(t, s->kept, s->nkept, s->all, s->count);
  make_notes(t, weights_alone, best, &s->notes);
  return ExitOk;
}

int train_save(Train *t, const char *kind, bool weights_alone, Error *err) {
  char path[4096];
  Saving *s;
  if (t->silent) return ExitOk;
  int code = take_states(t, weights_alone, t->has_stored ? &t->stored : NULL, &s, err);
  if (code) return code;
  path_of(t, kind, path, sizeof path);
  code = weights_alone ? weights_write(path, s->kept, s->nkept, s->notes.pairs, err)
                       : checkpoint_write(path, s->kept, s->nkept, s->notes.pairs, err);
  if (!code && !strcmp(kind, "last")) t->saved = t->done;
  free_saving(s);
  return code;
}

void train_drop_best(Train *t) {
  free_saving(t->unwritten);
  t->unwritten = NULL;
}

int train_keep_best(Train *t, Error *err) {
  train_drop_best(t);
  return t->silent ? ExitOk : take_states(t, false, &t->best, &t->unwritten, err);
}

int train_write_best(Train *t, Error *err) {
  char path[4096];
  Saving *s = t->unwritten;
  if (!s) return ExitOk;
  path_of(t, "best", path, sizeof path);
  int code = checkpoint_write(path, s->kept, s->nkept, s->notes.pairs, err);
  if (code) return code;
  t->has_stored = t->wrote_best = true;
  t->stored = t->best;
  train_drop_best(t);
  return ExitOk;
}

static bool exists(const char *path) {
  return !access(path, F_OK);
}

int train_say_kept(const Train *t, Error *err) {
  char path[4096];
  Buffer text = {0};
  path_of(t, "last", path, sizeof path);
  bool last = (t->saved >= 0 || t->cli->resume) && exists(path);
  if (last)
    buffer_put(&text, "%s of step %lld", path, (long long)(t->saved < 0 ? t->first : t->saved));
  path_of(t, "best", path, sizeof path);
  if (t->has_stored && exists(path)) buffer_put(&text, "%s%s", last ? ", " : "", path);
  if (!text.text) buffer_put(&text, "no weights");
  path_of(t, "final_weights", path, sizeof path);
  if (exists(path)) buffer_put(&text, "; %s is of an earlier one", path);
  int code =
      err_set(err, err->code, "%.1500s; there is of this run: %.2000s", err->message, text.text);
  buffer_free(&text);
  return code;
}

// ---- resuming ---------------------------------------------------------------------------------

static int check_number(const Weights *weights, const char *key, const char *option, int64_t now,
                        const char *path, Error *err) {
  const char *then = weights_metadata(weights, key);
  if (then && atoll(then) == now) return ExitOk;
  return err_set(err, ExitUsage, "--resume: %s was made with --%s %s, not %lld", path, option,
                 then ? then : "?", (long long)now);
}

// A run resumes with the model, dtype, batch, seed and data of its checkpoint.
static int check_same(const Train *t, const Weights *weights, const char *path, Error *err) {
  const char *model = weights_metadata(weights, "nngen_model"),
             *dtype = weights_metadata(weights, "nngen_dtype");
  if (!model || !dtype)
    return err_set(err, ExitBadInput, "--resume: %s is not a checkpoint of nngen train", path);
  if (strcmp(model, t->model))
    return err_set(err, ExitBadInput, "--resume: %s is of the model %s, not %s", path, model,
                   t->model);
  if (strcmp(dtype, t->cli->dtype))
    return err_set(err, ExitUsage,
                   "--resume: %s was made in %s, this run is in %s: resume with the same --amp and "
                   "--dtype",
                   path, dtype, t->cli->dtype);
  int code = check_number(weights, "nngen_batch", "batch", t->batch, path, err);
  if (!code) code = check_number(weights, "nngen_seed", "seed", t->seed, path, err);
  const char *then = weights_metadata(weights, "nngen_pictures");
  if (code || (then && atoll(then) == pictures(t))) return code;
  return err_set(err, ExitUsage,
                 "--resume: %s was made of %s pictures for training, --data has %lld: give it the "
                 "same, or take its weights alone: --init",
                 path, then ? then : "?", (long long)pictures(t));
}

// Settings of the model may differ from the checkpoint's as long as the states are the same ones,
// as the rate of a dropout or a schedule's length may; but the run is not the one that was begun.
static void warn_of_settings(const Train *t, const Weights *weights, const char *path) {
  const char *line = weights_metadata(weights, "nngen_settings");
  Buffer text = {0};
  for (; line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
    int length = (int)strcspn(line, "\n"), name = (int)strcspn(line, "=\n");
    for (int i = 0; i < t->compiler.nsettings; i++) {
      const Setting *now = &t->compiler.settings[i];
      const char *then = line + name + 1;
      int size = length - name - 1;
      bool same = (int)strlen(now->value) == size && !strncmp(now->value, then, (size_t)size);
      if (same || (int)strlen(now->name) != name || strncmp(now->name, line, (size_t)name)) continue;
      buffer_put(&text, "%s%.*s, not %s", text.text ? "; " : "", length, line, now->value);
    }
  }
  if (text.text) {
    char all[4096];
    snprintf(all, sizeof all, "--resume: %.1500s was made with %.2000s", path, text.text);
    log_to_stderr().write(NULL, LogWarning, all);
  }
  buffer_free(&text);
}

// Another optimizer, averages that are begun or left out, other frozen layers: other states.
static int check_states(const Train *t, const Weights *weights, const char *path, Error *err) {
  static const char why[] = "; resume with that run's --optimizer, --amp, --ema, --accumulate and "
                            "--freeze, or take its weights alone: --init";
  for (int i = 0; i < t->plan->ntensors; i++) {
    const PlanTensor *p = &t->plan->tensors[i];
    if (params_has(p) && is_kept(p->name) && !weights_find(weights, p->name))
      return err_set(err, ExitUsage, "--resume: %s has no '%s'%s", path, p->name, why);
  }
  for (int i = 0; i < weights_count(weights); i++) {
    const WeightTensor *w = weights_at(weights, i);
    bool found = false;
    for (int j = 0; j < t->plan->ntensors && !found; j++)
      found = params_has(&t->plan->tensors[j]) && !strcmp(t->plan->tensors[j].name, w->name);
    if (!found)
      return err_set(err, ExitUsage, "--resume: %s has '%s', which this run does not need%s", path,
                     w->name, why);
  }
  return ExitOk;
}

static void take_notes(Train *t, const Weights *weights) {
  const char *step = weights_metadata(weights, "nngen_step"),
             *best = weights_metadata(weights, "nngen_best"),
             *sums = weights_metadata(weights, "nngen_epoch_sums"),
             *bad = weights_metadata(weights, "nngen_bad_epochs");
  if (best && isfinite(atof(best))) // NaN, once kept as the best, is none
    t->has_best = t->has_stored = true, t->best = t->stored = atof(best);
  if (step) t->first = atoll(step);
  if (bad) t->bad_epochs = atoll(bad);
  char *at = (char *)sums;
  if (sums) t->metrics.weight = strtod(sums, &at);
  for (int i = 0; sums && i < t->metrics.count; i++) t->metrics.sum[i] = strtod(at, &at);
  for (int i = 0; sums && i < t->metrics.count; i++) t->metrics.missed[i] = strtod(at, &at);
}

static int resume(Train *t, Error *err) {
  char path[4096], previous[4200], *fell_back = NULL;
  Weights *weights = NULL;
  path_of(t, "last", path, sizeof path);
  snprintf(previous, sizeof previous, "%s.previous", path);
  if (!exists(path) && !exists(previous))
    return err_set(err, ExitBadInput,
                   "--resume: there is no checkpoint %s; leave out --resume to start from scratch",
                   path);
  int code = checkpoint_open(path, &weights, &fell_back, err);
  if (!code && fell_back) log_to_stderr().write(NULL, LogWarning, fell_back);
  free(fell_back);
  if (!code) code = check_same(t, weights, path, err);
  if (!code) code = check_states(t, weights, path, err);
  if (!code) warn_of_settings(t, weights, path);
  const char *step = code ? NULL : weights_metadata(weights, "nngen_step");
  if (!code) code = open_log(t, step ? atoll(step) : 0, err);
  if (code) {
    weights_close(weights);
    return code;
  }
  take_notes(t, weights);
  return params_of_weights(weights, path, (uint64_t)t->seed, &t->params, err);
}

// ---- beginning --------------------------------------------------------------------------------

// * stands for any characters.
static bool fits(const char *pattern, const char *name) {
  if (*pattern == '*') return fits(pattern + 1, name) || (*name && fits(pattern, name + 1));
  if (!*pattern || *pattern == ',') return !*name || *name == '.';
  return *pattern == *name && fits(pattern + 1, name + 1);
}

bool train_fits(const char *patterns, const char *name) {
  const char *next = strchr(patterns, ',');
  return fits(patterns, name) || (next && train_fits(next + 1, name));
}

// --init takes parameters alone: optimizer states and the step count start from scratch.
static ParamsFrom choose(void *user, const PlanTensor *tensor) {
  const Train *t = user;
  if (!train_is_weight(t, tensor->name)) return ParamsSeed;
  return t->cli->reset && train_fits(t->cli->reset, tensor->name) ? ParamsSeed : ParamsFile;
}

static void warn_of_earlier(const Train *t) {
  char path[4096], text[4400];
  path_of(t, "last", path, sizeof path);
  if (t->silent || t->cli->profile_step || !exists(path)) return;
  snprintf(text, sizeof text,
           "this run replaces %s of an earlier one: --resume continues that, another --out-dir "
           "keeps it",
           path);
  log_to_stderr().write(NULL, LogWarning, text);
}

int train_open_params(Train *t, Error *err) {
  if (t->cli->resume) return resume(t, err);
  int code =
      t->cli->weights && t->cli->check_finite ? run_check_finite(t->cli->weights, err) : ExitOk;
  if (!code) code = params_open(t->cli->weights, (uint64_t)t->seed, &t->params, err);
  if (!code && t->cli->weights) params_choose(t->params, choose, t);
  if (!code) code = params_check(t->params, t->plan, err);
  if (!code) warn_of_earlier(t);
  return code ? code : open_log(t, 0, err);
}
