// report.c: output of `nngen run`: a summary, a row per kernel, the check, the best labels; and
// --explain. report_json.c prints the same as JSON.
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double seconds_of(const Run *r, int step) {
  return r->ms ? r->ms[step] * 1e-3 : 0;
}

static double total_seconds(const Run *r) {
  double sum = 0;
  for (int i = 0; i < r->entry->nsteps; i++) sum += seconds_of(r, i);
  return sum;
}

static bool on_gpu(const Run *r) {
  return r->device && device_info(r->device)->kind == DeviceCuda;
}

static double peak_flops(const DeviceInfo *d, const char *dtype) { // FLOP/s
  if (!strcmp(dtype, "tf32")) return d->peak_tf32 * 1e12;
  if (!strcmp(dtype, "fp16") || !strcmp(dtype, "bf16")) return d->peak_fp16 * 1e12;
  return d->peak_fp32 * 1e12;
}

// The share of the roofline that a kernel reached: lower bound / time. 0: unknown.
static double roofline_share(const Run *r, const PlanKernel *k, double seconds) {
  if (!on_gpu(r) || seconds <= 0) return 0;
  const DeviceInfo *d = device_info(r->device);
  double peak = peak_flops(d, r->cli->dtype), bytes = d->dram_gbs * 1e9;
  if (peak <= 0 || bytes <= 0) return 0;
  return fmax(k->flops / peak, (double)(k->bytes_read + k->bytes_written) / bytes) / seconds;
}

// ---- text -------------------------------------------------------------------------------------

static const char *human(double v, const char *const *units, double step) {
  static char text[4][32];
  static int at;
  at = (at + 1) % 4;
  int u = 0;
  while (v >= step && units[u + 1]) v /= step, u++;
  snprintf(text[at], sizeof text[at],
           v < 10 && u    ? "%.2f %s"
           : v < 100 && u ? "%.1f %s"
                          : "%.0f %s",
           v, units[u]);
  return text[at];
}

static const char *bytes_text(double v) {
  static const char *const units[] = {"B", "KB", "MB", "GB", "TB", NULL};
  return human(v, units, 1000);
}

static const char *flops_text(double v) {
  static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", NULL};
  return human(v, units, 1000);
}

static const char *time_text(double seconds) {
  static const char *const units[] = {"us", "ms", "s", NULL};
  return human(seconds * 1e6, units, 1000);
}

static void print_device(const Run *r) {
  if (!r->device) {
    printf("compiled for %s, not run\n", r->plan->arch);
    return;
  }
  const DeviceInfo *d = device_info(r->device);
  if (d->kind == DeviceSim)
    printf("device    %s: no GPU, kernels run on the CPU%s (times are the simulator's)\n", d->name,
           r->cli->sim_frontend && !strcmp(r->cli->sim_frontend, "nvrtc") ? ", from NVRTC's PTX"
                                                                          : "");
  else
    printf("device    %s, %s, %d SMs, %s, driver %d.%d\n", d->name, d->arch, d->sm_count,
           bytes_text((double)d->memory_total), d->driver_version / 1000,
           d->driver_version % 1000 / 10);
}

void report_names(const char *what, const char *path, const char *how, char *const *names,
                  int count) {
  enum { kMostNames = 6 };
  if (!count) return;
  printf("weights   %s %s, %s:", what, path, how);
  for (int i = 0; i < count && i < kMostNames; i++) printf("%s %s", i ? "," : "", names[i]);
  if (count > kMostNames) printf(" and %d more", count - kMostNames);
  printf("\n");
}

// States that the weights file lacks: they have their initial values.
static void print_seeded(const Run *r) {
  char **names = base_alloc((size_t)r->filled.nseeded, sizeof *names);
  int count = 0;
  for (int i = 0; i < r->filled.nseeded; i++)
    if (run_lacks(r, i)) names[count++] = r->filled.seeded[i];
  report_names("not in", r->cli->weights, "initialised", names, count);
  free(names);
}

static void print_steps(const Run *r) {
  if (r->steps <= 1) return;
  printf("steps     %lld, %s; the host waited %s\n", (long long)r->steps,
         r->cli->graph ? "all but the first as replays of one graph" : "each launched by the host",
         r->waited ? "for each, to check the ids that states lead to" : "after the last");
}

static void print_summary(const Run *r) {
  const Plan *p = r->plan;
  printf("model     %s, %s, %s\n", p->model, p->dtype, p->lowering);
  print_device(r);
  printf("kernels   %d ops -> %d kernels (unfused %d)\n", r->ops, r->fused.kernels,
         r->unfused.kernels);
  printf("work      %s (unfused %s)\n", flops_text(r->fused.flops), flops_text(r->unfused.flops));
  printf("traffic   %s planned (unfused %s, %.2fx)\n", bytes_text((double)r->fused.bytes),
         bytes_text((double)r->unfused.bytes),
         r->fused.bytes ? (double)r->unfused.bytes / (double)r->fused.bytes : 1.);
  printf("memory    arena %s, %.3f of its lower bound; parameters, inputs and outputs %s\n",
         bytes_text((double)p->arena_bytes),
         p->arena_bound ? (double)p->arena_bytes / (double)p->arena_bound : 1.,
         bytes_text((double)p->static_bytes));
  int distinct = r->jit->compiled + r->jit->cached; // kernels of the entry and of init
  printf("compile   Lua to CUDA %s; %d of %d kernels are distinct: %d compiled, %d from the cache, "
         "%s\n",
         time_text(r->seconds_generate), distinct, distinct + r->jit->shared, r->jit->compiled,
         r->jit->cached, time_text(r->jit->seconds));
  if (r->device) printf("input     %s\n", r->input_note);
  print_steps(r);
  print_seeded(r);
  report_names("of", r->cli->weights, "not in the model", r->filled.unused, r->filled.nunused);
}

static const char *number_or_dash(int v) {
  static char text[4][16];
  static int at;
  at = (at + 1) % 4;
  if (v < 0) return "-";
  snprintf(text[at], sizeof text[at], "%d", v);
  return text[at];
}

static const char *short_name(const Run *r, const PlanKernel *k) { // without the model's name
  size_t n = strlen(r->plan->model);
  return strncmp(k->name, r->plan->model, n) ? k->name : k->name + n + 2;
}

// Columns of text are as wide as their widest entry, within bounds.
typedef struct Widths {
  int name, ops, template, tile, launch;
} Widths;

static const Widths kLeast = {.name = 24, .ops = 16, .template = 12, .tile = 16, .launch = 12};
static const Widths kMost = {.name = 56, .ops = 32, .template = 16, .tile = 32, .launch = 24};

static const char *launch_text(const PlanKernel *k) {
  static char text[64];
  int n = snprintf(text, sizeof text, "%d", k->grid[0]);
  if (k->grid[1] > 1 || k->grid[2] > 1)
    n += snprintf(text + n, sizeof text - (size_t)n, "x%d", k->grid[1]);
  if (k->grid[2] > 1) n += snprintf(text + n, sizeof text - (size_t)n, "x%d", k->grid[2]);
  snprintf(text + n, sizeof text - (size_t)n, " x %d", k->block[0]);
  return text;
}

static void widen(int *width, const char *text, int most) {
  int n = (int)strlen(text);
  if (n > *width) *width = n < most ? n : most;
}

bool report_is_launch(const Run *r, int step) {
  return r->entry->steps[step].kind == StepLaunch;
}

static Widths widths_of(const Run *r) {
  const PlanEntry *e = r->entry;
  Widths w = kLeast;
  for (int i = 0; i < e->nsteps; i++) {
    if (!report_is_launch(r, i)) continue;
    const PlanKernel *k = &r->plan->kernels[e->steps[i].kernel];
    widen(&w.name, short_name(r, k), kMost.name);
    widen(&w.ops, k->ops, kMost.ops);
    widen(&w.template, k->class_name, kMost.template);
    widen(&w.tile, k->tile, kMost.tile);
    widen(&w.launch, launch_text(k), kMost.launch);
  }
  return w;
}

static void print_row(const Run *r, const Widths *w, int step, double total) {
  int index = r->entry->steps[step].kernel;
  const PlanKernel *k = &r->plan->kernels[index];
  const KernelReport *j = &r->jit->kernels[index];
  printf("%-*s %-*s %-*s %-*s %-*s %5s %5s %7s  %11s %9s", w->name,
         text_fit(r->compiler.arena, short_name(r, k), w->name), w->ops,
         text_fit(r->compiler.arena, k->ops, w->ops), w->template, k->class_name, w->tile,
         text_fit(r->compiler.arena, k->tile, w->tile), w->launch,
         text_fit(r->compiler.arena, launch_text(k), w->launch), number_or_dash(j->registers),
         number_or_dash(j->spill_bytes),
         bytes_text(k->smem + (j->smem_static > 0 ? j->smem_static : 0)), flops_text(k->flops),
         bytes_text((double)(k->bytes_read + k->bytes_written)));
  double s = seconds_of(r, step);
  if (r->ms) printf(" %9s %5.1f%%", time_text(s), total > 0 ? 100 * s / total : 0);
  if (on_gpu(r)) printf(" %5.1f%%", 100 * roofline_share(r, k, s));
  if (r->checked && r->kernel_error[index] >= 0) printf("  %.1e", r->kernel_error[index]);
  printf("\n");
}

static void print_table(const Run *r) {
  const PlanEntry *e = r->entry;
  Widths w = widths_of(r);
  printf("\n%-*s %-*s %-*s %-*s %-*s %5s %5s %7s  %11s %9s", w.name, "kernel", w.ops, "ops",
         w.template, "template", w.tile, "tile", w.launch, "grid x block", "regs", "spill", "smem",
         "work", "traffic");
  if (r->ms) printf(" %9s %6s", "time", "share");
  if (on_gpu(r)) printf(" %6s", "roof");
  if (r->checked) printf("  %s", "error");
  printf("\n");
  double sum = total_seconds(r);
  for (int i = 0; i < e->nsteps; i++)
    if (report_is_launch(r, i)) print_row(r, &w, i, sum);
  int spills = 0, serialized = 0;
  for (int i = 0; i < r->plan->nkernels; i++) {
    spills += r->jit->kernels[i].spill_bytes > 0;
    serialized += r->jit->kernels[i].serialized;
  }
  if (spills) printf("%d kernels spill registers\n", spills);
  if (serialized) printf("%d kernels have serialized wgmma instructions\n", serialized);
  if (r->ms) printf("sum of kernels: %s\n", time_text(sum));
}

// libcusim's counters of each kernel next to the planned bytes: bytes of all accesses (also those
// served by caches), sectors over the fewest possible, FLOP, divergent branches, bank conflicts.
static void print_counts(const Run *r) {
  if (!r->counts) return;
  const PlanEntry *e = r->entry;
  int width = widths_of(r).name;
  printf("\n%-*s %10s %10s %10s %9s %9s %11s %9s %9s\n", width, "counted by libcusim", "planned",
         "distinct", "accessed", "sectors", "ideal", "MFLOP", "divergent", "conflicts");
  for (int i = 0; i < e->nsteps; i++) {
    if (!report_is_launch(r, i)) continue;
    const PlanKernel *k = &r->plan->kernels[e->steps[i].kernel];
    const KernelCounts *c = &r->counts[e->steps[i].kernel];
    int64_t n = c->launches ? c->launches : 1;
    printf("%-*s %10s %10s %10s", width, text_fit(r->compiler.arena, short_name(r, k), width),
           bytes_text((double)(k->bytes_read + k->bytes_written)),
           bytes_text((double)c->distinct_bytes),
           bytes_text((double)((c->bytes_read + c->bytes_written) / n)));
    printf(" %9lld %8.2fx %11.3f %9lld %9lld\n", (long long)(c->sectors / n),
           c->ideal_sectors ? (double)c->sectors / (double)c->ideal_sectors : 1.,
           (double)(c->flops / n) * 1e-6, (long long)(c->divergent_branches / n),
           (long long)(c->bank_conflicts / n));
  }
}

static const double kFewDigits = 0.1; // of an allowed error: it is said that mistakes may hide

static void print_result(const char *kind, const char *name, const Type *t, const CheckResult *c) {
  if (!c->node) return; // of another entry
  bool whole = !dtype_is_float(c->node->type.dtype);
  char gate[64], rounding[64] = "";
  snprintf(gate, sizeof gate, "gate %.0e", c->gate);
  if (isinf(c->gate))
    snprintf(gate, sizeof gate, "no gate: %s",
             whole ? "integers of rounded values" : "a derivative is discontinuous");
  if (c->rounding > 0)
    snprintf(rounding, sizeof rounding, "; rounding alone explains up to %.1e", c->rounding);
  printf("%-9s %s %s: %s error %.2e (%s%s) %s\n", kind, name, type_shape(t).s,
         whole ? "share in" : "relative", c->relative, gate, rounding, c->passed ? "ok" : "WRONG");
  if (c->rounding > kFewDigits)
    printf("%-9s of so few digits that mistakes up to there are not found; a finer --dtype or "
           "nn.precision leaves more\n",
           "");
  if (c->unlike)
    printf("%-9s %lld of its elements are finite where the oracle's are not, or the reverse\n", "",
           (long long)c->unlike);
  if (c->infinite)
    printf("%-9s %lld of its elements are beyond the range of this dtype, and infinite\n", "",
           (long long)c->infinite);
}

static void print_checks(const Run *r) {
  if (!r->checked) return;
  int count = 0;
  for (int i = 0; i < r->plan->nkernels; i++) count += r->kernel_error[i] >= 0;
  printf("\nchecked   %d kernels against the oracle, each on the inputs it read%s\n", count,
         r->first_outputs && !r->mismatch ? "; a later run gave the same bits" : "");
  const Graph *g = r->compiler.original;
  for (int i = 0; i < g->noutputs; i++)
    print_result("output", g->outputs[i].name, &g->outputs[i].node->type, &r->outputs[i]);
  for (int i = 0; i < g->nupdates; i++)
    print_result("state", g->updates[i].state->name, &g->updates[i].state->type, &r->updates[i]);
}

static void print_timing(const Run *r) {
  if (!r->timed) return;
  const RunTiming *t = &r->timing;
  printf("\n%d runs%s: min %s, mean %s, median %s, p99 %s; enqueue %s\n", t->runs,
         r->cli->graph ? " of the captured graph" : "", time_text(t->min * 1e-3),
         time_text(t->mean * 1e-3), time_text(t->median * 1e-3), time_text(t->p99 * 1e-3),
         time_text(t->enqueue * 1e-3));
  if (!r->cli->graph && t->enqueue > 0.8 * t->median) printf("bound by launching: try --graph\n");
}

void report_text(const Run *r) {
  print_summary(r);
  print_table(r);
  print_counts(r);
  print_checks(r);
  print_timing(r);
}

// ---- labels -----------------------------------------------------------------------------------

static double softmax_of(const float *x, int64_t n, int64_t i) { // a probability, of logits
  double most = x[0], sum = 0;
  for (int64_t j = 0; j < n; j++) most = fmax(most, x[j]);
  for (int64_t j = 0; j < n; j++) sum += exp(x[j] - most);
  return exp(x[i] - most) / sum;
}

// Values that are probabilities already stay as they are.
static bool is_distribution(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!(x[i] >= 0)) return false;
    sum += x[i];
  }
  return fabs(sum - 1) < 1e-2;
}

int report_best(const Run *r, BestLabels **best, int64_t *rows, Error *err) {
  int tensor = tensor_find(r->plan, r->compiler.original->outputs[0].name);
  const PlanTensor *t = &r->plan->tensors[tensor];
  int64_t count = tensor_count(t), classes = t->shape[t->rank - 1];
  *rows = count / classes;
  *best = base_alloc((size_t)*rows + 1, sizeof **best);
  float *values = base_alloc((size_t)count, sizeof *values);
  int code = tensor_read_floats(r->loaded, tensor, values, count, err);
  for (int64_t row = 0; !code && row < *rows; row++) {
    const float *x = values + row * classes;
    BestLabels *b = &(*best)[row];
    int at[kBestLabels];
    b->count = labels_top(x, (int)classes, kBestLabels, at);
    bool shares = is_distribution(x, classes);
    for (int i = 0; i < b->count; i++) {
      b->name[i] = r->labels.names[at[i]];
      b->probability[i] = shares ? x[at[i]] : softmax_of(x, classes, at[i]);
    }
  }
  free(values);
  return code;
}

int report_top(const Run *r, Error *err) {
  BestLabels *best;
  int64_t rows;
  int code = report_best(r, &best, &rows, err);
  for (int64_t row = 0; !code && row < rows; row++) {
    printf(rows > 1 ? "\nrow %lld\n" : "\n", (long long)row);
    for (int i = 0; i < best[row].count; i++)
      printf("%5.1f%%  %s\n", 100 * best[row].probability[i], best[row].name[i]);
  }
  free(best);
  return code;
}

// ---- --explain --------------------------------------------------------------------------------

static void explain_kernel(const Run *r, const Group *g) {
  const PlanKernel *k = &r->plan->kernels[g->id];
  printf("%s\n  %s, from %s\n", k->name, k->ops, k->loc);
  for (int j = 0; j < k->nargs; j++) {
    const PlanTensor *t = &r->plan->tensors[k->args[j].tensor];
    Type shape = type_make(t->dtype, t->rank, t->shape);
    printf("  %s %s: %s %s, %s\n", k->args[j].written ? "writes" : "reads ", t->name,
           dtype_name(t->dtype), type_shape(&shape).s, bytes_text((double)t->bytes));
  }
  sched_explain(g, r->compiler.options.arch, stdout);
}

int report_explain(const Run *r, Error *err) {
  Group **picked;
  int count;
  int code = pick_kernels(r->compiler.graph, "explain", r->cli->explain, &picked, &count, err);
  for (int i = 0; !code && i < count; i++) {
    if (i) printf("\n");
    explain_kernel(r, picked[i]);
  }
  return code;
}
