// train_save.c: the output folder of a training run: its lock, log and checkpoints.
#include "train.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

void train_path(const Train *t, const char *kind, char *path, size_t size) {
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
int train_open_log(Train *t, int64_t step, Error *err) {
  if (t->silent || t->cli->profile_step) return ExitOk;
  int code = runlog_open(t->folder, t->cli->resume, t->cli->tensorboard, &t->log, err);
  return code || !t->cli->resume ? code : runlog_cut(t->log, step, err);
}

// ---- saving -----------------------------------------------------------------------------------

// Replaces each parameter by its moving average, if it has one.
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
  const char *pairs[28];
} Notes;

int64_t train_pictures(const Train *t) {
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
  snprintf(notes->pictures, sizeof notes->pictures, "%lld", (long long)train_pictures(t));
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
  if (t->sample[0]) note(notes, &count, "nngen_sample", t->sample);
  note(notes, &count, "nngen_epoch_sums", notes->sums);
  note(notes, &count, "nngen_bad_epochs", notes->bad);
  if (!weights_alone) put_settings(&t->compiler, &notes->settings);
  if (notes->settings.text) note(notes, &count, "nngen_settings", notes->settings.text);
  if (!best) return;
  snprintf(notes->best, sizeof notes->best, "%.17g", *best);
  note(notes, &count, "nngen_best", notes->best);
}

bool train_is_kept(const char *name) { // in a checkpoint; neighbours is only for evaluations
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
    if (weights_alone ? train_is_weight(t, s->all[i].name) : train_is_kept(s->all[i].name))
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
  train_path(t, kind, path, sizeof path);
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
  train_path(t, "best", path, sizeof path);
  int code = checkpoint_write(path, s->kept, s->nkept, s->notes.pairs, err);
  if (code) return code;
  t->has_stored = t->wrote_best = true;
  t->stored = t->best;
  train_drop_best(t);
  return ExitOk;
}

bool train_has_file(const char *path) {
  return !access(path, F_OK);
}

int train_say_kept(const Train *t, Error *err) {
  char path[4096];
  Buffer text = {0};
  train_path(t, "last", path, sizeof path);
  bool last = (t->saved >= 0 || t->cli->resume) && train_has_file(path);
  if (last)
    buffer_put(&text, "%s of step %lld", path, (long long)(t->saved < 0 ? t->first : t->saved));
  train_path(t, "best", path, sizeof path);
  if (t->has_stored && train_has_file(path)) buffer_put(&text, "%s%s", last ? ", " : "", path);
  if (!text.text) buffer_put(&text, "no weights");
  train_path(t, "final_weights", path, sizeof path);
  if (train_has_file(path)) buffer_put(&text, "; %s is of an earlier run", path);
  int code =
      err_set(err, err->code, "%.1500s; saved by this run: %.2000s", err->message, text.text);
  buffer_free(&text);
  return code;
}
