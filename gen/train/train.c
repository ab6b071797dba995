// train.c: the verb `train`: compiles the entries train and eval of a model, opens its data and the
// output folder, and loads the initial parameters and states. train_run.c runs the steps.
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double train_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double train_mean(const Metrics *m, int i) {
  double weight = m->weight - m->missed[i];
  return weight > 0 ? m->sum[i] / weight : NAN;
}

void train_forget(Metrics *m) {
  memset(m->sum, 0, sizeof m->sum);
  memset(m->missed, 0, sizeof m->missed);
  m->weight = 0;
}

// ---- compiling --------------------------------------------------------------------------------

static const char *setting(const Train *t, const char *name) { // of the model file, or null
  for (int i = 0; i < t->compiler.nsettings; i++)
    if (!strcmp(t->compiler.settings[i].name, name)) return t->compiler.settings[i].value;
  return NULL;
}

static int64_t whole_setting(const Train *t, const char *name, int64_t fallback) {
  const char *text = setting(t, name);
  return text ? strtoll(text, NULL, 10) : fallback;
}

static int find_metrics(const Train *t, const char *entry, Metrics *m, Error *err) {
  size_t length = strlen(entry);
  m->count = 0;
  for (int i = 0; i < t->plan->ntensors; i++) {
    const PlanTensor *tensor = &t->plan->tensors[i];
    if (tensor->role != RoleOutput || tensor_count(tensor) != 1) continue;
    if (strncmp(tensor->name, entry, length) || tensor->name[length] != '.') continue;
    if (m->count == kMostMetrics)
      return err_set(err, ExitUsage, "%s: the entry `%s` has more than %d values: return fewer",
                     t->cli->model, entry, kMostMetrics);
    m->tensor[m->count] = i;
    m->value[m->count] = NAN;
    m->name[m->count++] = tensor->name + length + 1;
  }
  return ExitOk;
}

static int need_train(const Train *t, Error *err) {
  for (int i = 0; i < t->plan->nentries; i++)
    if (!strcmp(t->plan->entries[i].name, "train") && t->plan->entries[i].nsteps) return ExitOk;
  return err_set(
      err, ExitUsage,
      "%s has no entry `train`: declare it by nn.train(batch, function() ... return {loss "
      "= ...} end, {lr = 0.1})",
      t->cli->model);
}

// `moves`: the pattern must match a weight that training changes. A frozen tensor that changes is a
// running statistic.
static int need_one_fit(const Train *t, const char *option, bool moves, const char *pattern,
                        Error *err) {
  char names[256] = "";
  const char *moving = NULL;
  for (int i = 0; i < t->plan->ntensors; i++) {
    const char *name = t->plan->tensors[i].name;
    if (!params_has(&t->plan->tensors[i]) || !train_is_weight(t, name)) continue;
    bool fit = train_fits(pattern, name), moved = t->plan->tensors[i].role == RoleState;
    if (fit && (moves || !moved)) return ExitOk;
    if (fit) moving = name;
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
  }
  if (moving)
    return err_set(err, ExitUsage,
                   "--%s '%s': '%s' is a statistic, which training keeps, but does not train",
                   option, pattern, moving);
  return err_set(err, ExitUsage, "--%s '%s' matches no parameter of %s: %s%s", option, pattern,
                 t->cli->model, names, strlen(names) == sizeof names - 1 ? "..." : "");
}

// Each pattern of --freeze or --reset must match a parameter.
static int need_fit(const Train *t, const char *option, bool moves, const char *patterns,
                    Error *err) {
  char one[1024];
  int code = ExitOk;
  for (const char *at = patterns; at && *at && !code;) {
    size_t length = strcspn(at, ",");
    snprintf(one, sizeof one, "%.*s", (int)length, at);
    if (!length)
      code = err_set(err, ExitUsage, "--%s '%s': expected patterns separated by commas", option,
                     patterns);
    if (!code) code = need_one_fit(t, option, moves, one, err);
    at += length + (at[length] == ',');
  }
  return code;
}

static int find_tensors(Train *t, Error *err) {
  t->model = t->plan->model;
  t->images = train_find_input(t, "images");
  t->labels = train_find_input(t, "labels");
  t->valid = train_find_input(t, "valid");
  t->step = tensor_find(t->plan, "train.step");
  t->steps = tensor_find(t->plan, "train.steps");
  t->embedding = tensor_find(t->plan, "eval.embedding");
  t->picture = tensor_find(t->plan, "eval.reconstruction");
  const char *scaled = setting(t, "loss_scaling");
  t->accumulate = whole_setting(t, "accumulate", 1);
  t->scaled = scaled && !strcmp(scaled, "true");
  int code = find_metrics(t, "train", &t->metrics, err);
  if (!code) code = find_metrics(t, "eval", &t->eval, err);
  return code ? code : find_metrics(t, "neighbours", &t->near, err);
}

static int compile(Train *t, Error *err) {
  Options options;
  int code = cli_options(t->cli, &options, err);
  if (code) return code;
  options.arch = &t->arch;
  options.tuning = t->tuning;
  options.device = device_info(t->device)->name;
  code = compile_model(&t->compiler, &options, err);
  if (code) return code;
  t->plan = plan_build(&t->compiler);
  code = need_train(t, err);
  if (!code) code = find_tensors(t, err);
  if (!code) code = train_need_inputs(t, err);
  if (!code) code = need_fit(t, "freeze", false, setting(t, "freeze"), err);
  return code ? code : need_fit(t, "reset", true, t->cli->reset, err);
}

// ---- data -------------------------------------------------------------------------------------

static int open_split(Train *t, DatasetSplit split, Dataset **data, Error *err) {
  const PlanTensor *images = &t->plan->tensors[t->images];
  DatasetOptions options = {.split = split, .seed = (uint64_t)t->seed, .classes = train_classes(t)};
  memcpy(options.shape, images->shape + 1, sizeof options.shape);
  return dataset_open(t->cli->data, &options, data, err);
}

// A last batch that is short is filled up with copies of its last example.
static void warn_of_padding(const Train *t) {
  const char *names = setting(t, "counts_padding"),
             *cure = "return one number for each example, computed from it only, or give";
  char text[512];
  long long count = t->test ? (long long)dataset_count(t->test) : 0, left = count % t->batch;
  if (!names && t->valid < 0) names = "numbers", cure = "give"; // of an entry without nn.train
  if (!names || !left || t->silent) return;
  snprintf(text, sizeof text,
           "eval %.200s: the last batch has %lld of %lld examples, and copies of the last one "
           "count for the rest; %s a --batch that divides %lld",
           names, left, (long long)t->batch, cure, count);
  log_to_stderr().write(NULL, LogWarning, text);
}

static int need_neighbours(const Train *t, Error *err) {
  if (!t->test || t->embedding < 0 || dataset_count(t->test) > 1) return ExitOk;
  return err_set(err, ExitBadInput,
                 "--data %s: mar_at_5 compares embeddings of test pictures with each other: "
                 "expected at least 2",
                 t->cli->data);
}

static int open_data(Train *t, Error *err) {
  if (t->images < 0) {
    t->batch = whole_setting(t, "train_batch", 1);
    if (t->patience)
      return err_set(err, ExitUsage,
                     "--patience counts evaluations: %s generates its own data, without a test set",
                     t->cli->model);
    if (t->cli->data)
      return err_set(err, ExitUsage, "--data: %s generates its own data (it has no input `images`)",
                     t->cli->model);
    return ExitOk;
  }
  t->batch = t->plan->tensors[t->images].shape[0];
  int64_t wanted = whole_setting(t, "batch", t->batch);
  if (wanted != t->batch)
    return err_set(err, ExitUsage, "--batch %lld: %s trains on batches of %lld whatever is set",
                   (long long)wanted, t->cli->model, (long long)t->batch);
  if (t->patience && !t->eval.count)
    return err_set(err, ExitUsage, "--patience counts evaluations: %s has no entry `eval`",
                   t->cli->model);
  if (!t->cli->data)
    return err_set(err, ExitUsage,
                   "%s trains on pictures: give --data DIR (CIFAR, folders of PNGs, .npy "
                   "arrays) or --data synthetic",
                   t->cli->model);
  int code = open_split(t, DatasetTrain, &t->data, err);
  if (!code && t->eval.count) code = open_split(t, DatasetTest, &t->test, err);
  if (!code) code = need_neighbours(t, err);
  if (!code) warn_of_padding(t);
  if (!code && dataset_count(t->data) < t->batch)
    code = err_set(err, ExitBadInput,
                   "--data %s: its %lld pictures for training are fewer than a batch of %lld; give "
                   "a smaller --batch",
                   t->cli->data, (long long)dataset_count(t->data), (long long)t->batch);
  return code;
}

static void warn_of_apart(const Train *t) {
  char text[1024];
  const char *names = setting(t, "apart_from_loss");
  if (!names || t->silent) return;
  snprintf(text, sizeof text, "the loss does not depend on %.900s: not updated", names);
  log_to_stderr().write(NULL, LogWarning, text);
}

// The embeddings of a whole evaluation are a state; its size follows from the test set.
static int compile_again(Train *t, Cli *cli, Error *err) {
  if (t->embedding < 0 || !t->test || cli->nset == kMostSets) return ExitOk;
  int64_t batches = (dataset_count(t->test) + t->batch - 1) / t->batch;
  snprintf(t->examples, sizeof t->examples, "%lld", (long long)(batches * t->batch));
  cli->set_name[cli->nset] = "eval_examples";
  cli->set_value[cli->nset++] = t->examples;
  plan_free(t->plan);
  compile_close(&t->compiler);
  t->plan = NULL;
  t->compiler = (Compiler){0};
  return compile(t, err);
}

// Computes the number of steps before anything of an earlier run in the same folder is touched.
static int count_steps(Train *t, Error *err) {
  enum { kWithoutData = 100 };
  t->per_epoch = t->data ? dataset_count(t->data) / t->batch : kWithoutData;
  t->total = t->per_epoch * whole_setting(t, "epochs", 1);
  if (t->most_steps) t->total = t->most_steps;
  if (t->total < 1) t->total = 1;
  if (t->total >= t->accumulate) return ExitOk;
  return err_set(err, ExitUsage, "--accumulate %lld: this run of %lld steps makes no update",
                 (long long)t->accumulate, (long long)t->total);
}

// Only for a given --warmup: a short run of a model that sets its own is often a trial.
static void warn_of_warmup(const Train *t) {
  char text[256];
  const char *given = NULL;
  int64_t updates = t->total / t->accumulate;
  for (int i = 0; i < t->cli->nset; i++)
    if (!strcmp(t->cli->set_name[i], "warmup")) given = t->cli->set_value[i];
  if (!given || t->silent || strtod(given, NULL) <= (double)updates) return;
  snprintf(text, sizeof text,
           "--warmup %.40s: this run makes %lld updates, and ends while the learning rate rises",
           given, (long long)updates);
  log_to_stderr().write(NULL, LogWarning, text);
}

// If the number of steps is not a multiple of --accumulate, the last ones make no update.
static void warn_of_parts(const Train *t) {
  char text[256];
  int64_t left = t->total % t->accumulate;
  if (!left || t->silent) return;
  snprintf(text, sizeof text, "--accumulate %lld: the last %lld of %lld steps make no update",
           (long long)t->accumulate, (long long)left, (long long)t->total);
  log_to_stderr().write(NULL, LogWarning, text);
}

int train_write_steps(Train *t, Error *err) {
  double total = (double)t->total;
  return t->steps < 0 ? ExitOk : tensor_write_doubles(t->loaded, t->steps, &total, 1, err);
}

// ---- loading ----------------------------------------------------------------------------------

static int open_feed(Train *t, Error *err) {
  int tensors[3], count = 0;
  if (t->images < 0) return ExitOk;
  tensors[count++] = t->images;
  if (t->labels >= 0) tensors[count++] = t->labels;
  if (t->valid >= 0) tensors[count++] = t->valid;
  return feed_open(t->loaded, tensors, count, &t->feed, err);
}

static int load(Train *t, Error *err) {
  const Cli *cli = t->cli;
  JitOptions jit = {.cuda_path = cli->cuda_path,
                    .cache_dir = cli->no_cache ? "" : cli->cache_dir,
                    .progress = cli->quiet ? (Progress){0} : progress_lines(),
                    .log = log_to_stderr()};
  range_push(t->device, "memory");
  int code = load_plan(t->device, t->plan, &jit, &t->loaded, err);
  progress_end();
  if (!code) run_ranges(t->loaded, NvtxOff); // train_run.c pushes its own NVTX ranges
  if (!code) code = train_open_params(t, err);
  if (!code) code = params_fill(t->params, t->loaded, &t->filled, err);
  range_pop(t->device);
  t->done = t->read = t->first;
  if (!code) code = open_feed(t, err);
  if (!code) code = tap_open(t->loaded, t->metrics.tensor, t->metrics.count, &t->metrics.tap, err);
  return code ? code : train_write_steps(t, err);
}

static void close_train(Train *t) {
  runlog_close(t->log);
  train_drop_best(t);
  params_report_free(&t->filled);
  feed_close(t->feed);
  loader_close(t->loader);
  dataset_close(t->data);
  dataset_close(t->test);
  replay_close(t->replay);
  replay_close(t->replay_eval);
  replay_close(t->replay_near);
  tap_close(t->metrics.tap);
  tap_close(t->eval.tap);
  tap_close(t->near.tap);
  if (t->params) params_close(t->params);
  if (t->loaded) load_close(t->loaded);
  if (t->device) device_close(t->device);
  train_unlock(t);
  plan_free(t->plan);
  compile_close(&t->compiler);
  tuning_free(t->tuning);
}

// ---- the verb ---------------------------------------------------------------------------------

// An option of the verb that is a setting of the model, too. Room for four was checked (set_up).
static void give(Cli *cli, const char *name, const char *value, const char *flag) {
  cli->set_name[cli->nset] = name;
  cli->set_flag[cli->nset] = flag;
  cli->set_value[cli->nset++] = value;
}

static int take_amp(Cli *cli, Error *err) {
  if (!cli->amp) return ExitOk;
  if (strcmp(cli->amp, "fp16") && strcmp(cli->amp, "bf16"))
    return err_set(err, ExitUsage, "--amp %s: expected fp16 or bf16", cli->amp);
  if (strcmp(cli->dtype, "fp32") && strcmp(cli->dtype, cli->amp))
    return err_set(err, ExitUsage, "--amp %s and --dtype %s: one of the two", cli->amp, cli->dtype);
  cli->dtype = cli->amp;
  if (!strcmp(cli->amp, "fp16")) give(cli, "loss_scaling", "true", "amp");
  return ExitOk;
}

// The steps before the one that is marked.
static int take_profile(const Cli *cli, Train *t, Error *err) {
  int64_t marked;
  int code = cli_number("warmup-iters", cli->warmup_iters, 0, 10, &t->warmup_iters, err);
  if (!code) code = cli_number("profile-iter", cli->profile_iter, 1, 0, &marked, err);
  if (code) return code;
  if (cli->profile_step && cli->resume)
    return err_set(err, ExitUsage,
                   "--profile-one-step starts from scratch and writes nothing: omit --resume");
  if (!marked) return ExitOk;
  if (!cli->profile_step)
    return err_set(err, ExitUsage,
                   "--profile-iter %s is the step that --profile-one-step marks: give that, too",
                   cli->profile_iter);
  if (cli->warmup_iters && marked <= t->warmup_iters)
    return err_set(err, ExitUsage, "--profile-iter %s: it is one of the %s steps of --warmup-iters",
                   cli->profile_iter, cli->warmup_iters);
  t->warmup_iters = marked - 1;
  return ExitOk;
}

// The seed of initial weights, data order and the model's random numbers: --seed, --set seed=, or a
// sweep's.
static int take_seed(Cli *cli, Train *t, Error *err) {
  const char *set = NULL;
  for (int i = 0; i < cli->nset; i++)
    if (!strcmp(cli->set_name[i], "seed")) set = cli->set_value[i];
  if (set && cli->seed && strcmp(set, cli->seed))
    return err_set(err, ExitUsage, "--seed %s and --set seed=%s: one of the two", cli->seed, set);
  if (cli->seed && !set) give(cli, "seed", cli->seed, "seed");
  return cli_number(set ? "set seed" : "seed", set ? set : cli->seed, 0, 0, &t->seed, err);
}

static int set_up(Cli *cli, Train *t, Error *err) {
  int code = cli_number("steps", cli->steps, 1, 0, &t->most_steps, err);
  if (!code) code = cli_number("save-every", cli->save_every, 1, 1, &t->save_every, err);
  if (!code) code = cli_number("log-every", cli->log_every, 1, 50, &t->log_every, err);
  if (!code) code = cli_number("patience", cli->patience, 0, 0, &t->patience, err);
  if (!code) code = cli_number("workers", cli->workers, 1, 2, &t->workers, err);
  if (!code) code = take_profile(cli, t, err);
  if (code) return code;
  if (t->workers > LoaderMaxThreads)
    return err_set(err, ExitUsage, "--workers %s: at most %d", cli->workers, LoaderMaxThreads);
  if (cli->reset && !cli->weights) return err_set(err, ExitUsage, "--reset needs --init FILE");
  if (cli->resume && cli->weights)
    return err_set(err, ExitUsage, "--resume continues from the checkpoint: omit --init");
  if (cli->nset + 4 > kMostSets) return err_set(err, ExitUsage, "too many settings");
  if (cli->freeze) give(cli, "freeze", cli->freeze, "freeze");
  code = take_seed(cli, t, err);
  return code ? code : take_amp(cli, err);
}

static int open_all(Train *t, Cli *cli, Error *err) {
  int code = cli_device(cli, &t->device, err);
  if (code) return code;
  arch_of_device(device_info(t->device), &t->arch);
  code = cli_tuning(cli, true, &t->tuning, err);
  if (!code) code = compile(t, err);
  if (!code) code = open_data(t, err);
  if (!code) code = compile_again(t, cli, err);
  if (!code) code = count_steps(t, err);
  if (!code) warn_of_apart(t);
  if (!code) warn_of_warmup(t);
  if (!code) warn_of_parts(t);
  if (!code) code = train_open_folder(t, err);
  return code ? code : load(t, err);
}

int train_one(const Cli *given, TrainSummary *summary, Error *err) {
  Cli cli = *given;
  Train t = {.cli = &cli, .saved = -1, .lock = -1, .silent = summary != NULL};
  train_watch_early();
  int code = set_up(&cli, &t, err);
  if (!code) code = open_all(&t, &cli, err);
  if (!code) train_report_begin(&t);
  if (!code) code = train_run(&t, err);
  progress_end();
  TrainSummary own;
  if (!code && !cli.profile_step) code = train_report_end(&t, summary ? summary : &own, err);
  close_train(&t);
  return code;
}

int verb_train(const Cli *cli, Error *err) {
  return cli->nsweep ? train_sweep(cli, err) : train_one(cli, NULL, err);
}
