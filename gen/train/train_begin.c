// train_begin.c: initial values of a training run: from a checkpoint (--resume), a weights file
// (--init), or the seed.
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// ---- resuming ---------------------------------------------------------------------------------

static int check_number(const Weights *weights, const char *key, const char *option, int64_t now,
                        const char *path, Error *err) {
  const char *then = weights_metadata(weights, key);
  if (then && atoll(then) == now) return ExitOk;
  return err_set(err, ExitUsage, "--resume: %s was made with --%s %s, not %lld", path, option,
                 then ? then : "?", (long long)now);
}

// A resumed run must have the model, dtype, batch, seed and data of its checkpoint.
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
  if (code || (then && atoll(then) == train_pictures(t))) return code;
  return err_set(err, ExitUsage,
                 "--resume: %s was made with %s training pictures, --data has %lld: give it the "
                 "same, or load only its weights: --init",
                 path, then ? then : "?", (long long)train_pictures(t));
}

// Settings may differ from the checkpoint's if the states stay the same, for example a dropout rate
// or a schedule's length; but it is then another run, so a warning names them.
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
      if (same || (int)strlen(now->name) != name || strncmp(now->name, line, (size_t)name))
        continue;
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

// As many pictures, but others.
static void warn_of_pictures(const Train *t, const Weights *weights, const char *path) {
  char text[4400];
  const char *then = weights_metadata(weights, "nngen_sample");
  if (!then || !t->sample[0] || !strcmp(then, t->sample)) return;
  snprintf(
      text, sizeof text,
      "--resume: %s was made with other pictures or labels than --data has; continuing with "
      "these",
      path);
  log_to_stderr().write(NULL, LogWarning, text);
}

// Another optimizer, averages that are begun or left out, other frozen layers: other states.
static int check_states(const Train *t, const Weights *weights, const char *path, Error *err) {
  static const char why[] = "; resume with that run's --optimizer, --amp, --ema, --accumulate and "
                            "--freeze, or load only its weights: --init";
  for (int i = 0; i < t->plan->ntensors; i++) {
    const PlanTensor *p = &t->plan->tensors[i];
    if (params_has(p) && train_is_kept(p->name) && !weights_find(weights, p->name))
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

// If no last checkpoint is intact, the best one may be.
static int say_best(const Train *t, Error *err) {
  char best[4096], last[4096], *fell_back = NULL;
  Error why;
  Weights *weights = NULL;
  int code = err->code;
  train_path(t, "best", best, sizeof best);
  train_path(t, "last", last, sizeof last);
  if (code != ExitBadInput || !train_has_file(best) ||
      checkpoint_open(best, &weights, &fell_back, &why))
    return code;
  bool whole = !fell_back;
  const char *step = weights_metadata(weights, "nngen_step");
  if (whole)
    err_set(err, code,
            "%.2000s; '%.500s' of step %.20s is intact: copy it to '%.500s' to resume",
            err->message, best, step ? step : "?", last);
  free(fell_back);
  weights_close(weights);
  return code;
}

static int resume(Train *t, Error *err) {
  char path[4096], previous[4200], *fell_back = NULL;
  Weights *weights = NULL;
  train_path(t, "last", path, sizeof path);
  snprintf(previous, sizeof previous, "%s.previous", path);
  int code = ExitOk;
  if (!train_has_file(path) && !train_has_file(previous))
    code = err_set(err, ExitBadInput,
                   "--resume: there is no checkpoint %s; omit --resume to start from scratch",
                   path);
  if (!code) code = checkpoint_open(path, &weights, &fell_back, err);
  if (code) return say_best(t, err);
  if (!code && fell_back) log_to_stderr().write(NULL, LogWarning, fell_back);
  free(fell_back);
  if (!code) code = check_same(t, weights, path, err);
  if (!code) code = check_states(t, weights, path, err);
  if (!code) warn_of_settings(t, weights, path);
  if (!code) warn_of_pictures(t, weights, path);
  const char *step = code ? NULL : weights_metadata(weights, "nngen_step");
  if (!code) code = train_open_log(t, step ? atoll(step) : 0, err);
  if (code) {
    weights_close(weights);
    return code;
  }
  take_notes(t, weights);
  return params_of_weights(weights, path, (uint64_t)t->seed, &t->params, err);
}

// ---- beginning --------------------------------------------------------------------------------

// * matches any characters.
static bool fits(const char *pattern, const char *name) {
  if (*pattern == '*') return fits(pattern + 1, name) || (*name && fits(pattern, name + 1));
  if (!*pattern || *pattern == ',') return !*name || *name == '.';
  return *pattern == *name && fits(pattern + 1, name + 1);
}

bool train_fits(const char *patterns, const char *name) {
  const char *next = strchr(patterns, ',');
  return fits(patterns, name) || (next && train_fits(next + 1, name));
}

// --init loads only parameters: optimizer states and the step count start from scratch.
static ParamsFrom choose(void *user, const PlanTensor *tensor) {
  const Train *t = user;
  if (!train_is_weight(t, tensor->name)) return ParamsSeed;
  return t->cli->reset && train_fits(t->cli->reset, tensor->name) ? ParamsSeed : ParamsFile;
}

typedef struct Checked { // the weights of --init, up to the one that does not fit
  const Train *train;
  const char *last; // the name that was requested last
} Checked;

static ParamsFrom choose_checked(void *user, const PlanTensor *tensor) {
  Checked *checked = user;
  ParamsFrom from = choose((void *)checked->train, tensor);
  if (from == ParamsFile) checked->last = tensor->name;
  return from;
}

// Suggests --reset for a layer that is missing in the file, or has another size.
static int check_init(Train *t, Error *err) {
  Checked checked = {t, NULL};
  params_choose(t->params, choose_checked, &checked);
  int code = params_check(t->params, t->plan, err);
  params_choose(t->params, choose, t);
  if (code != ExitBadInput || !checked.last) return code;
  const char *dot = strrchr(checked.last, '.');
  return err_set(err, code, "%.3000s; --reset %.*s begins that layer from the seed", err->message,
                 dot ? (int)(dot - checked.last) : (int)strlen(checked.last), checked.last);
}

static void warn_of_earlier(const Train *t) {
  char path[4096], text[4400];
  train_path(t, "last", path, sizeof path);
  if (t->silent || t->cli->profile_step || !train_has_file(path)) return;
  snprintf(text, sizeof text,
           "this run replaces %s of an earlier one: --resume continues that, another --out-dir "
           "keeps it",
           path);
  log_to_stderr().write(NULL, LogWarning, text);
}

// t->sample: a checksum of some training pictures and labels; "" if one cannot be read.
static void sum_sample(Train *t) {
  enum { kSamples = 8 };
  if (!t->data) return;
  const int64_t *shape = dataset_shape(t->data);
  int64_t count = dataset_count(t->data), bytes = shape[0] * shape[1] * shape[2];
  uint8_t *image = base_alloc((size_t)bytes, 1);
  XXH64_hash_t sum = 0;
  Error failed = {0};
  for (int64_t i = 0; i < kSamples && !failed.code; i++) {
    int32_t label;
    if (dataset_read(t->data, i * (count - 1) / (kSamples - 1), image, &label, &failed)) break;
    sum = XXH3_64bits_withSeed(image, (size_t)bytes, sum);
    sum = XXH3_64bits_withSeed(&label, sizeof label, sum);
  }
  free(image);
  if (!failed.code) snprintf(t->sample, sizeof t->sample, "%016llx", (unsigned long long)sum);
}

int train_open_params(Train *t, Error *err) {
  if (!t->silent && !t->cli->profile_step) sum_sample(t);
  if (t->cli->resume) return resume(t, err);
  int code =
      t->cli->weights && t->cli->check_finite ? run_check_finite(t->cli->weights, err) : ExitOk;
  if (!code) code = params_open(t->cli->weights, (uint64_t)t->seed, &t->params, err);
  if (!code && t->cli->weights) code = check_init(t, err);
  if (!code) warn_of_earlier(t);
  return code ? code : train_open_log(t, 0, err);
}
