// train_report.c: what a training run prints: progress lines on stderr, a line per epoch and a
// summary on stdout.
#include "train.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_time(FILE *file, double seconds) {
  long s = (long)(seconds + 0.5);
  if (s >= 3600)
    fprintf(file, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
  else
    fprintf(file, "%ld:%02ld", s / 60, s % 60);
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

void train_report_begin(const Train *t) {
  const DeviceInfo *info = device_info(t->device);
  if (t->cli->json || t->silent) return;
  printf("model     %s, %s, %lld parameters and buffers\n", t->model, t->cli->dtype,
         (long long)count_parameters(t));
  printf("device    %s%s\n", info->name,
         info->kind == DeviceSim ? ": no GPU here, kernels run on the CPU" : "");
  if (t->data) {
    printf("data      %s, %lld training pictures", dataset_kind(t->data),
           (long long)dataset_count(t->data));
    if (t->test) printf(", %lld test pictures", (long long)dataset_count(t->test));
    printf("; batch %lld, %lld steps per epoch\n", (long long)t->batch, (long long)t->per_epoch);
  }
  printf("step      %d kernels in one graph; evaluation %d\n", train_launches(t, "train"),
         train_launches(t, "eval"));
  printf("memory    arena %.4g MB; parameters, states, inputs and outputs %.4g MB\n",
         (double)t->plan->arena_bytes / 1e6, (double)t->plan->static_bytes / 1e6);
  if (t->done) printf("resumed   after step %lld\n", (long long)t->done);
  fflush(stdout);
}

int train_report_profiled(const Train *t, Error *err) {
  double step = (double)t->warmup_iters + 1;
  if (t->step >= 0 && tensor_read_doubles(t->loaded, t->step, &step, 1, err)) return err->code;
  if (!t->cli->json)
    printf("profiled  step %.0f, after %lld of warmup\n", step, (long long)t->warmup_iters);
  return ExitOk;
}

static void print_values(FILE *file, const Metrics *m, bool mean) {
  for (int i = 0; i < m->count; i++)
    fprintf(file, "  %s %.4g", m->name[i], mean ? m->sum[i] / m->weight : m->value[i]);
}

// On a terminal one line, rewritten at most ten times a second; elsewhere a line every --log-every
// steps.
void train_report_step(Train *t) {
  bool terminal = isatty(STDERR_FILENO);
  double now = train_now();
  bool due = t->read % t->log_every == 0 || t->read == t->total;
  if (t->cli->quiet || !(due || (terminal && now - t->drawn > 0.1))) return;
  t->drawn = now;
  double rate = (double)(t->read - t->first) / (now - t->begin - t->aside);
  if (terminal) fputs("\r\033[K", stderr);
  fprintf(stderr, "step %lld of %lld", (long long)t->read, (long long)t->total);
  print_values(stderr, &t->metrics, false);
  fprintf(stderr, "  %.4g examples/s  left ", rate * (double)t->batch);
  print_time(stderr, (double)(t->total - t->read) / rate);
  if (due) fputc('\n', stderr);
}

void train_report_epoch(Train *t, int64_t epoch, bool evaluated) {
  if (t->cli->json || t->silent) return;
  progress_end();
  if (isatty(STDERR_FILENO)) fputs("\r\033[K", stderr);
  printf("epoch %-3lld train", (long long)epoch);
  print_values(stdout, &t->metrics, true);
  if (evaluated) {
    printf("  eval");
    print_values(stdout, &t->eval, true);
    print_values(stdout, &t->near, true);
  }
  printf("  ");
  print_time(stdout, train_now() - t->begin);
  printf("\n");
  fflush(stdout);
}

void train_report_last(const Train *t, double seconds) {
  printf("trained   %lld steps in ", (long long)(t->done - t->first));
  print_time(stdout, seconds);
  if (t->has_best && t->test)
    for (int i = 0; i < t->eval.count; i++)
      if (!strcmp(t->eval.name[i], "accuracy")) printf(", best accuracy %.4g", t->best);
  if (t->patience && t->bad_epochs >= t->patience)
    printf("; stopped: no improvement in %lld evaluations", (long long)t->bad_epochs);
  printf("\nwrote     %s/%s_%s.safetensors, log.jsonl\n", t->folder, t->model,
         t->saved == t->done ? "{last,final_weights}" : "final_weights");
}
