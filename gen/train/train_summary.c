// train_summary.c: the time of a step by phase and by layer, measured after the last checkpoint by
// runs with an event between every two kernels.
#include "train.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { kTop = 8 };

typedef struct Operation { // all kernel launches of a layer
  const char *layer;
  double ms;
} Operation;

static int slower_first(const void *a, const void *b) {
  double left = ((const Operation *)a)->ms, right = ((const Operation *)b)->ms;
  return (left < right) - (left > right);
}

static const PlanEntry *find_entry(const Plan *plan, const char *name) {
  for (int i = 0; i < plan->nentries; i++)
    if (!strcmp(plan->entries[i].name, name)) return &plan->entries[i];
  return NULL;
}

// Sums by layer, the slowest first; returns their number.
static int add_up(const Plan *plan, const PlanEntry *entry, const double *ms, Operation *all) {
  int count = 0;
  for (int i = 0; i < entry->nsteps; i++) {
    if (entry->steps[i].kind != StepLaunch) continue;
    const char *layer = plan->kernels[entry->steps[i].kernel].layer;
    int at = 0;
    while (at < count && strcmp(all[at].layer, layer)) at++;
    if (at == count) all[count++] = (Operation){layer, 0};
    all[at].ms += ms[i];
  }
  qsort(all, (size_t)count, sizeof *all, slower_first);
  return count;
}

static double mean_of(const Metrics *m, const char *name) {
  for (int i = 0; i < m->count; i++)
    if (!strcmp(m->name[i], name)) return train_mean(m, i);
  return NAN;
}

static void fill(const Train *t, const PlanEntry *entry, const double *ms, const Phase *phases,
                 TrainSummary *s) {
  double seconds = train_now() - t->begin - t->aside;
  int64_t steps = t->done - t->first;
  *s = (TrainSummary){.bytes = t->plan->static_bytes + t->plan->arena_bytes};
  s->ms_step = steps ? 1e3 * seconds / (double)steps : 0;
  s->rate = steps ? (double)(steps * t->batch) / seconds : 0;
  for (int i = 0; i < entry->nsteps; i++) s->ms += ms[i], s->ms_phase[phases[i]] += ms[i];
  s->accuracy = mean_of(&t->eval, "accuracy");
  train_fusion(t, &s->fusion);
  s->loss = NAN;
  for (int i = 0; i < t->metrics.count; i++)
    if (!strcmp(t->metrics.name[i], "loss")) s->loss = t->metrics.value[i];
}

// ---- as text and as JSON ----------------------------------------------------------------------

static void print_fusion(const Train *t, const FusionLeft *f) {
  printf(
      "fusion    %d kernels; by the cost model for %s %.4g of %.4g MB of DRAM traffic are between\n"
      "          kernels: with launches and first loads at most %.4g of %.4g us, %.3g %%, is left "
      "to gain\n",
      f->kernels, t->compiler.options.arch->gpu, f->between / 1e6, f->bytes / 1e6, f->gain * 1e6,
      f->seconds * 1e6, f->seconds > 0 ? 100 * f->gain / f->seconds : 0);
}

static void print_text(const Train *t, const TrainSummary *s, const Operation *all, int count) {
  printf("speed     %.4g examples/s, %.4g ms per step of %lld examples\n", s->rate, s->ms_step,
         (long long)t->batch);
  printf("a step    %.4g ms by events:", s->ms);
  for (int i = 0; i < PhaseCount; i++)
    printf("%s %s %.4g", i ? "," : "", phase_name(i), s->ms_phase[i]);
  printf("\n          optimizer updates fused into gradient kernels count as backward\n");
  printf("peak      %.4g MB of device memory\n", (double)s->bytes / 1e6);
  if (!isnan(s->accuracy)) printf("accuracy  %.4g, of the last evaluation\n", s->accuracy);
  print_fusion(t, &s->fusion);
  printf("slowest   share   ms  operation, of %d\n", count);
  for (int i = 0; i < count && i < kTop; i++)
    printf("        %5.1f %%  %7.4g  %s\n", 100 * all[i].ms / s->ms, all[i].ms, all[i].layer);
}

static json_t *values_json(const Metrics *m, bool mean) {
  json_t *o = json_object();
  for (int i = 0; i < m->count; i++)
    json_object_set_new(o, m->name[i], report_number(mean ? train_mean(m, i) : m->value[i]));
  return o;
}

static json_t *summary_json(const TrainSummary *s, const Operation *all, int count) {
  const FusionLeft *f = &s->fusion;
  json_t *o = json_pack("{s:f, s:f, s:f, s:I}", "examples_per_second", s->rate, "ms_step",
                        s->ms_step, "ms_kernels", s->ms, "peak_bytes", (json_int_t)s->bytes);
  json_t *phases = json_object(), *top = json_array();
  for (int i = 0; i < PhaseCount; i++)
    json_object_set_new(phases, phase_name(i), json_real(s->ms_phase[i]));
  for (int i = 0; i < count && i < kTop; i++)
    json_array_append_new(top, json_pack("{s:s, s:f, s:f}", "operation", all[i].layer, "ms",
                                         all[i].ms, "share", s->ms > 0 ? all[i].ms / s->ms : 0));
  json_object_set_new(o, "ms_phases", phases);
  json_object_set_new(o, "operations", top);
  json_object_set_new(o, "accuracy", report_number(s->accuracy));
  json_object_set_new(o, "fusion",
                      json_pack("{s:i, s:f, s:f, s:f, s:f}", "kernels", f->kernels, "dram_bytes",
                                f->bytes, "dram_bytes_between", f->between, "modelled_us",
                                f->seconds * 1e6, "at_most_gain_us", f->gain * 1e6));
  return o;
}

static int print_json(const Train *t, const TrainSummary *s, const Operation *all, int count,
                      Error *err) {
  json_t *eval = values_json(&t->eval, true);
  const JitReport *jit = load_report(t->loaded);
  json_object_update_new(eval, values_json(&t->near, true));
  json_t *o =
      json_pack("{s:i, s:s, s:s, s:s, s:I, s:I, s:f, s:i, s:I, s:o, s:o, s:o}", "schema_version", 1,
                "model", t->model, "dtype", t->cli->dtype, "device", device_info(t->device)->name,
                "steps", (json_int_t)t->done, "batch", (json_int_t)t->batch, "seconds",
                train_now() - t->begin, "kernels", train_launches(t, "train"), "arena_bytes",
                (json_int_t)t->plan->arena_bytes, "train", values_json(&t->metrics, false), "eval",
                eval, "summary", summary_json(s, all, count));
  json_object_update_new(o, json_pack("{s:f, s:i, s:i, s:i}", "compile_seconds", jit->seconds,
                                      "compiled", jit->compiled, "cached", jit->cached, "shared",
                                      jit->shared));
  int failed = json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
  json_decref(o);
  printf("\n");
  return failed ? err_set(err, ExitBadInput, "stdout cannot be written") : ExitOk;
}

int train_report_end(Train *t, TrainSummary *summary, Error *err) {
  const PlanEntry *entry = find_entry(t->plan, "train");
  size_t steps = (size_t)entry->nsteps;
  double *ms = base_alloc(steps, sizeof *ms);
  Phase *phases = base_alloc(steps, sizeof *phases);
  Operation *all = base_alloc(steps, sizeof *all);
  RunOptions once = {.warmup = 1, .repeat = 3};
  bool ran = t->done > t->first; // else no batch is on the device to measure a step with
  double seconds = train_now() - t->begin;
  int code = phases_find(t->plan, "train", phases, err);
  double begin = train_now();
  if (!code && ran) code = run_time_steps(t->loaded, "train", &once, ms, err);
  t->aside += train_now() - begin;
  if (!code) fill(t, entry, ms, phases, summary);
  int count = code || !ran ? 0 : add_up(t->plan, entry, ms, all);
  if (!code && t->cli->json && !t->silent) code = print_json(t, summary, all, count, err);
  if (!code && !t->cli->json && !t->silent) {
    train_report_last(t, seconds);
    if (ran)
      print_text(t, summary, all, count);
    else
      printf("nothing to train: the checkpoint has all %lld steps; give more --epochs or "
             "--steps to continue\n",
             (long long)t->total);
  }
  free(ms);
  free(phases);
  free(all);
  return code;
}
