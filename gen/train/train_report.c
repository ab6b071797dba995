// train_report.c: output of a training run: progress lines on stderr, a line per epoch and a
// summary on stdout.
#include "train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_time(Buffer *line, double seconds) {
  long s = (long)(seconds + 0.5);
  if (s >= 3600)
    buffer_put(line, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    buffer_put(line, "%ld:%02ld", s / 60, s % 60);
}

static void print_time(double seconds) {
  Buffer text = {0};
  put_time(&text, seconds);
  fputs(text.text, stdout);
  buffer_free(&text);
}

static int64_t count_parameters(const Train *t) {
  int64_t count = 0;
  const Graph *g = t->compiler.graph;
  for (int i = 0; i < t->plan->ntensors; i++) {
    const PlanTensor *p = &t->plan->tensors[i];
    if (!params_has(p) || p->value < 0) continue;
    const Node *n = g->nodes[p->value];
    if (n->op->cls == OpSource && n->op->form == SourceParam) count += tensor_count(p);
  }
  return count;
}

int train_launches(const Train *t, const char *entry) {
  int count = 0;
  for (int i = 0; i < t->plan->nentries; i++)
    for (int j = 0; !strcmp(t->plan->entries[i].name, entry) && j < t->plan->entries[i].nsteps; j++)
      count += t->plan->entries[i].steps[j].kind == StepLaunch;
  return count;
}

static void report_scaling(const Dataset *data, const char *split) {
  Scaling s = dataset_scaling(data);
  const int64_t *shape = dataset_shape(data);
  if (s.count)
    printf("scaled    %lld of %lld %s pictures, of %d x %d pixels (width, height)%s, to %lld x "
           "%lld\n",
           (long long)s.count, (long long)dataset_count(data), split, s.width, s.height,
           s.others ? " and other sizes" : "", (long long)shape[2], (long long)shape[1]);
}

static void report_ignored(const Dataset *data, const char *split) {
  Ignored files = dataset_ignored(data);
  if (files.count)
    printf("ignored   %lld %s files that are not PNGs of a class, the first '%s'\n",
           (long long)files.count, split, files.first);
}

void train_report_begin(const Train *t) {
  const DeviceInfo *info = device_info(t->device);
  if (t->cli->json || t->silent) return;
  printf("model     %s, %s, %lld parameters and buffers\n", t->model, t->cli->dtype,
         (long long)count_parameters(t));
  printf("device    %s%s\n", info->name,
         info->kind == DeviceSim ? ": no GPU, kernels run on the CPU" : "");
  if (t->data) {
    printf("data      %s, %lld training pictures", dataset_kind(t->data),
           (long long)dataset_count(t->data));
    if (t->test) printf(", %lld test pictures", (long long)dataset_count(t->test));
    printf("; batch %lld, %lld steps per epoch\n", (long long)t->batch, (long long)t->per_epoch);
    report_scaling(t->data, "training");
    report_ignored(t->data, "training");
    if (t->test) report_scaling(t->test, "test");
    if (t->test) report_ignored(t->test, "test");
  }
  printf("step      %d kernels in one graph; evaluation %d\n", train_launches(t, "train"),
         train_launches(t, "eval"));
  const JitReport *jit = load_report(t->loaded);
  printf("compile   %d kernels compiled, %d from the cache, %.3g s\n", jit->compiled, jit->cached,
         jit->seconds);
  printf("memory    arena %.4g MB; parameters, states, inputs and outputs %.4g MB\n",
         (double)t->plan->arena_bytes / 1e6, (double)t->plan->static_bytes / 1e6);
  if (t->cli->weights)
    report_names("of", t->cli->weights, "not used", t->filled.unused,
                 t->filled.nunused);
  if (t->done) printf("resumed   after step %lld\n", (long long)t->done);
  fflush(stdout);
}

int train_report_profiled(const Train *t, Error *err) {
  double step = (double)t->warmup_iters + 1;
  if (t->step >= 0 && tensor_read_doubles(t->loaded, t->step, &step, 1, err)) return err->code;
  if (t->cli->json)
    printf("{\n  \"schema_version\": 1,\n  \"profiled_step\": %.0f,\n  \"warmup_steps\": %lld\n}\n",
           step, (long long)t->warmup_iters);
  else
    printf("profiled  step %.0f, after %lld of warmup\n", step, (long long)t->warmup_iters);
  return ExitOk;
}

// Values of the last step, or means over the epoch; the learning rate is always the last step's
// (the mean if an earlier process ran the whole epoch).
static void put_values(Buffer *line, const Metrics *m, bool mean) {
  for (int i = 0; i < m->count; i++) {
    if (mean ? m->missed[i] >= m->weight : !m->fresh[i]) continue; // no step had such a number
    bool last = !mean || (!strcmp(m->name[i], "lr") && !isnan(m->value[i]));
    double value = last ? m->value[i] : train_mean(m, i);
    buffer_put(line, "  %s %.4g", m->name[i], isnan(value) ? NAN : value); // of either sign: nan
  }
}

static void print_values(const Metrics *m, bool mean) {
  Buffer line = {0};
  put_values(&line, m, mean);
  if (line.text) fputs(line.text, stdout);
  buffer_free(&line);
}

double train_rate(const Train *t) {
  double seconds = train_now() - t->begin - t->aside;
  return (double)(t->read - t->first) * (double)t->batch / seconds;
}

// On a terminal a bar, drawn at most ten times a second; elsewhere a line every --log-every steps.
void train_report_step(Train *t) {
  bool terminal = isatty(STDERR_FILENO), last = t->read == t->total;
  double now = train_now();
  bool due = terminal ? last || now - t->drawn > 0.1 : last || t->read % t->log_every == 0;
  if (t->cli->quiet || !due) return;
  t->drawn = now;
  double rate = train_rate(t);
  Buffer line = {0};
  buffer_put(&line, "  left ");
  put_time(&line, (double)(t->total - t->read) * (double)t->batch / rate);
  put_values(&line, &t->metrics, false);
  buffer_put(&line, "  %.4g examples/s", rate);
  if (terminal)
    progress_draw("step", t->read, t->total, line.text);
  else
    fprintf(stderr, "step %lld of %lld%s\n", (long long)t->read, (long long)t->total, line.text);
  buffer_free(&line);
}

void train_report_epoch(Train *t, int64_t epoch, bool evaluated) {
  if (t->cli->json || t->silent) return;
  progress_end();
  printf("epoch %-3lld train", (long long)epoch);
  print_values(&t->metrics, true);
  if (evaluated) {
    printf("  eval");
    print_values(&t->eval, true);
    print_values(&t->near, true);
  }
  printf("  ");
  print_time(train_now() - t->begin);
  printf("\n");
  fflush(stdout);
}

void train_report_last(const Train *t, double seconds) {
  printf("trained   %lld steps in ", (long long)(t->done - t->first));
  print_time(seconds);
  if (t->has_best && t->test)
    for (int i = 0; i < t->eval.count; i++)
      if (!strcmp(t->eval.name[i], "accuracy")) printf(", best accuracy %.4g", t->best);
  if (t->patience && t->bad_epochs >= t->patience)
    printf("; stopped: no improvement in %lld evaluations", (long long)t->bad_epochs);
  bool last = t->saved == t->done, more = last || t->wrote_best;
  printf("\nwrote     %s/%s_%s%s%s%s.safetensors, log.jsonl%s%s%s\n", t->folder, t->model,
         more ? "{" : "", last ? "last," : "", t->wrote_best ? "best," : "",
         more ? "final_weights}" : "final_weights",
         t->cli->tensorboard ? ", events.out.tfevents.*" : "",
         t->picture >= 0 && t->test ? ", reconstructions_*.png" : "",
         t->unwritten ? "; the best checkpoint could not be written" : "");
}
