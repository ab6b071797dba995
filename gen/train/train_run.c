// train_run.c: the steps of a training run; evaluation and checkpoints between epochs.
//
// A step copies a batch to the device and replays one captured graph; its results are read up to
// TapDepth steps later, so that host and device work at the same time.
#include "train.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ExitStopped = 130 }; // by a signal, whichever it was

static volatile sig_atomic_t interrupted;

static void on_signal(int signal) {
  interrupted = signal;
}

static void on_early_signal(int signal) { // before the first step
  static const char text[] = "nngen: stopped before the first step\n";
  ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
  (void)written, (void)signal;
  _exit(ExitStopped);
}

static void watch(void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler}, now;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGHUP, NULL, &now);
  if (now.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, NULL); // as nohup has it
}

void train_watch_early(void) {
  watch(on_early_signal);
}

int train_signal(void) {
  return interrupted;
}

static void warn(const char *format, const char *why) {
  char text[4300];
  snprintf(text, sizeof text, format, why);
  log_to_stderr().write(NULL, LogWarning, text);
}

// ---- batches ----------------------------------------------------------------------------------

int train_open_loader(Train *t, int64_t first, Error *err) {
  if (!t->data) return ExitOk;
  LoaderOptions options = {.batch = (int)t->batch,
                           .threads = (int)t->workers,
                           .train = true,
                           .seed = (uint64_t)t->seed,
                           .first = first,
                           .take = pinned_take,
                           .give = pinned_give,
                           .user = t->device};
  return loader_open(t->data, &options, &t->loader, err);
}

int train_put_batch(Train *t, const Batch *batch, Error *err) {
  const void *stored[3];
  int count = 0;
  t->valid_now = batch->valid;
  stored[count++] = batch->images;
  if (t->labels >= 0) stored[count++] = batch->labels;
  if (t->valid >= 0) stored[count++] = &t->valid_now;
  return feed_put(t->feed, stored, err);
}

int train_next_batch(Train *t, Error *err) {
  Batch batch;
  bool end;
  if (!t->loader) return ExitOk;
  range_push(t->device, "data_unpack");
  int code =
      feed_wait(t->feed, err); // the copy of the last batch has ended: the loader reuses its memory
  if (!code) code = loader_next(t->loader, &batch, &end, err);
  if (!code) code = train_put_batch(t, &batch, err);
  range_pop(t->device);
  return code;
}

// ---- steps ------------------------------------------------------------------------------------

// A log that cannot be written does not end the run.
static void write_log(Train *t, int64_t step, const LogValue *values, int count) {
  Error err = {0};
  if (!t->log || !runlog_write(t->log, step, values, count, &err) || t->warned_log) return;
  warn("%s; training continues without these lines", err.message);
  t->warned_log = true;
}

// Adds the step that was just read to the means. With --accumulate, norms of partial gradients are
// excluded. A step that overflows in f16 is skipped: it has no gradient norm, and if its loss is
// not finite either, none of its numbers count.
static void take_step(Train *t, const double *now) {
  Metrics *m = &t->metrics;
  bool lost = train_is_lost(t, now), part = t->read % t->accumulate;
  m->weight++;
  for (int i = 0; i < m->count; i++) {
    bool norm = !strcmp(m->name[i], "grad_norm");
    bool missed = lost || (norm && (part || !isfinite(now[i])));
    m->fresh[i] = !(norm && part);
    if (m->fresh[i]) m->value[i] = now[i];
    m->sum[i] += missed ? 0 : now[i];
    m->missed[i] += missed;
  }
}

static int read_step(Train *t, Error *err) {
  Metrics *m = &t->metrics;
  double now[kMostMetrics];
  int code = tap_take(m->tap, now, err);
  if (code || t->bad[0]) return code;
  t->read++;
  take_step(t, now);
  LogValue values[kMostMetrics + 3];
  int count = 0;
  for (int i = 0; i < m->count; i++)
    if (m->fresh[i]) values[count++] = (LogValue){m->name[i], m->value[i]};
  values[count++] = (LogValue){"epoch", (double)((t->read - 1) / t->per_epoch + 1)};
  values[count++] = (LogValue){"seconds", train_now() - t->begin};
  values[count++] = (LogValue){"examples_s", train_rate(t)};
  write_log(t, t->read, values, count);
  train_report_step(t);
  train_check_step(t, now);
  return ExitOk;
}

static int read_all(Train *t, Error *err) {
  int code = ExitOk;
  while (!code && tap_pending(t->metrics.tap)) code = read_step(t, err);
  return code;
}

static int launch(Train *t, Error *err) {
  return strcmp(t->cli->nvtx, "layer") ? replay_enqueue(t->replay, err)
                                       : phases_run(t->loaded, "train", err);
}

// *begun: the batch was there, and the states may have changed.
static int one_step(Train *t, bool *begun, Error *err) {
  range_push(t->device, "training_step");
  int code = train_next_batch(t, err);
  *begun = !code;
  if (!code) code = launch(t, err);
  if (!code) code = tap_put(t->metrics.tap, err);
  range_pop(t->device);
  if (code) return code;
  t->done++;
  return tap_pending(t->metrics.tap) < TapDepth ? ExitOk : read_step(t, err);
}

// ---- between epochs ---------------------------------------------------------------------------

// Lists numbers of the last evaluation that are NaN or infinite, "eval loss is NaN"; or "".
static void list_bad(const Train *t, char *text, size_t size) {
  const Metrics *both[] = {&t->eval, &t->near};
  text[0] = 0;
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < both[k]->count; i++) {
      double mean = train_mean(both[k], i);
      size_t used = strlen(text);
      if (!isfinite(mean))
        snprintf(text + used, size - used, "%seval %.50s is %s", used ? ", " : "",
                 both[k]->name[i], isnan(mean) ? "NaN" : "infinite");
    }
}

// The weights may still be good: the run continues.
static void warn_of_bad(const Train *t, int64_t epoch) {
  char bad[64 * 2 * kMostMetrics], text[sizeof bad + 128];
  list_bad(t, bad, sizeof bad);
  if (!bad[0] || t->silent) return;
  snprintf(text, sizeof text, "epoch %lld: %s; this evaluation cannot be the best",
           (long long)epoch, bad);
  log_to_stderr().write(NULL, LogWarning, text);
}

// True if this evaluation is the best so far, by accuracy, or by loss if there is none. One with a
// non-finite number never is.
static bool is_best(Train *t) {
  char bad[64];
  list_bad(t, bad, sizeof bad);
  if (bad[0]) return false;
  double value = NAN;
  for (int i = 0; i < t->eval.count; i++) {
    double mean = train_mean(&t->eval, i);
    if (!strcmp(t->eval.name[i], "loss") && isnan(value)) value = -mean;
    if (!strcmp(t->eval.name[i], "accuracy")) value = mean;
  }
  if (t->has_best && !(value > t->best)) return false;
  t->has_best = true;
  t->best = value;
  return true;
}

static void log_evaluation(Train *t) {
  LogValue values[2 * kMostMetrics];
  char names[2 * kMostMetrics][64];
  int count = 0;
  const Metrics *both[] = {&t->eval, &t->near};
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < both[k]->count; i++, count++) {
      snprintf(names[count], sizeof names[count], "eval_%.50s", both[k]->name[i]);
      values[count] = (LogValue){names[count], train_mean(both[k], i)};
    }
  write_log(t, t->done, values, count);
}

// The previous checkpoint stays when this one cannot be written.
static void save_or_warn(Train *t) {
  Error err = {0};
  bool had = t->saved >= 0 || t->cli->resume;
  if (train_save(t, "last", false, &err))
    warn(had ? "the checkpoint is not written: %s; training continues, the previous one is kept"
             : "the checkpoint is not written: %s; training continues, there is none yet",
         err.message);
}

// The best that could not be written waits in memory, while it is the best; says so once.
static void write_best(Train *t) {
  Error err = {0};
  if (!train_write_best(t, &err) || t->warned_best) return;
  warn("the best checkpoint is not written: %s; training continues, it is tried again after each "
       "epoch",
       err.message);
  t->warned_best = true;
}

// An evaluation interrupted by a signal is repeated by the resumed run. If the last step's loss is
// not finite, no checkpoint is written except at the end, because the weights may be beyond f16.
static int after_epoch(Train *t, Error *err) {
  double begin = train_now();
  int64_t epoch = (t->done + t->per_epoch - 1) / t->per_epoch;
  int code = t->test ? train_evaluate(t, epoch, err) : ExitOk;
  if (code || interrupted) return code;
  if (t->test) log_evaluation(t);
  train_report_epoch(t, epoch, t->test != NULL);
  train_forget(&t->metrics);
  bool doubtful = t->lost && t->done < t->total, best = t->test && !doubtful && is_best(t);
  t->bad_epochs = best ? 0 : t->bad_epochs + 1;
  code = train_check_weights(t, err);
  if (code || t->bad[0]) return code;
  if (t->test) warn_of_bad(t, epoch);
  if (best) code = train_keep_best(t, err);
  if (code) return code;
  write_best(t);
  if ((epoch % t->save_every == 0 && !doubtful) || t->done >= t->total) save_or_warn(t);
  t->aside += train_now() - begin;
  return ExitOk;
}

static bool epoch_ends(const Train *t) {
  return t->metrics.weight > 0 && (t->done % t->per_epoch == 0 || t->done >= t->total);
}

// ---- the run ----------------------------------------------------------------------------------

// After SIGINT, SIGTERM or SIGHUP: writes a checkpoint; one exit code for all.
static int stop(Train *t, Error *err) {
  int code = train_check_weights(t, err);
  if (!code && t->bad[0])
    return err_set(err, ExitMismatch, "stopped after step %lld of %lld without a checkpoint: %s",
                   (long long)t->done, (long long)t->total, t->bad);
  write_best(t);
  if (!code) code = train_save(t, "last", false, err);
  if (code) return train_say_kept(t, err);
  return err_set(err, ExitStopped, "stopped after step %lld of %lld%s", (long long)t->done,
                 (long long)t->total, t->silent ? "" : "; --resume continues");
}

// After an error between two steps, for example a picture that cannot be read: writes a checkpoint,
// so that no training is lost. Fails if the device has failed.
static int leave(Train *t, Error *err) {
  Error failed = {0};
  if (t->silent || t->done == t->first) return err->code;
  int code = read_all(t, &failed);
  if (!code && !t->bad[0]) code = train_check_weights(t, &failed);
  if (!code && !t->bad[0] && t->saved != t->done) code = train_save(t, "last", false, &failed);
  if (code || t->bad[0]) return train_say_kept(t, err);
  write_best(t);
  return err_set(err, err->code, "%.2000s; stopped after step %lld of %lld; --resume continues",
                 err->message, (long long)t->done, (long long)t->total);
}

static int run_steps_of(Train *t, Error *err) {
  int code = ExitOk;
  bool begun = false;
  for (;;) {
    // after a signal at the end of an epoch, the resumed run evaluates
    bool at_end = t->done >= t->total || (t->done && t->done % t->per_epoch == 0);
    if (at_end || interrupted) code = read_all(t, err);
    if (!code && t->bad[0]) return train_find_bad(t, err);
    if (code || interrupted) return code ? code : stop(t, err);
    if (at_end && epoch_ends(t)) code = after_epoch(t, err);
    if (!code && t->bad[0]) return train_find_bad(t, err);
    if (code || interrupted) return code ? leave(t, err) : stop(t, err);
    if (t->done >= t->total) return ExitOk;
    if (t->patience && t->bad_epochs >= t->patience) {
      save_or_warn(t);
      return ExitOk;
    }
    code = one_step(t, &begun, err);
    if (code) return begun ? code : leave(t, err);
  }
}

static int profile_one(Train *t, Error *err) {
  int code = ExitOk;
  for (int64_t i = 0; !code && !interrupted && i < t->warmup_iters; i++) {
    code = train_next_batch(t, err);
    if (!code) code = replay_enqueue(t->replay, err);
  }
  if (!code) code = run_wait(t->loaded, err);
  if (!code && interrupted)
    return err_set(err, ExitStopped, "stopped before the step that is profiled");
  range_push(t->device, "train_step");
  if (!code) code = train_next_batch(t, err);
  if (!code) code = phases_run(t->loaded, "train", err);
  if (!code) code = run_wait(t->loaded, err);
  range_pop(t->device);
  return code ? code : train_report_profiled(t, err);
}

int train_run(Train *t, Error *err) {
  watch(on_signal);
  int code = replay_capture(t->loaded, "train", &t->replay, err);
  if (!code) code = train_open_loader(t, t->done, err);
  if (!code && t->cli->profile_step) return profile_one(t, err);
  t->begin = train_now();
  if (!code) code = run_steps_of(t, err);
  if (code) return code;
  write_best(t);
  code = train_save(t, "final_weights", true, err);
  return code ? train_say_kept(t, err) : ExitOk;
}
