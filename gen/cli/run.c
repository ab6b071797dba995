// run.c: `nngen run`: from a model file to results. Compiles, loads the plan on a device, fills
// parameters and inputs (run_input.c), runs, checks every kernel and output against the oracle
// (run_check.c), and prints a report (report.c).
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// ---- compiling --------------------------------------------------------------------------------

static Totals total(const Graph *g, int entry) {
  Totals t = {0};
  for (int i = 0; i < g->ngroups; i++) {
    if (g->groups[i]->fixed || g->groups[i]->anchor->entry != entry) continue;
    t.kernels++;
    t.flops += g->groups[i]->flops;
    t.bytes += g->groups[i]->bytes_read + g->groups[i]->bytes_written - g->groups[i]->bytes_scratch;
  }
  return t;
}

static int ops(const Graph *written, int entry) {
  int count = 0;
  for (int i = 0; i < written->nnodes; i++) {
    const Node *n = written->nodes[i];
    count += n->entry == entry && n->uses && n->op->cls != OpSource;
  }
  return count;
}

// The traffic of the unfused lowering, for comparison; compiled up to its schedule.
static int compile_unfused(Run *r, Options options, Error *err) {
  Compiler c;
  options.lowering = "unfused";
  options.stage = "sched";
  options.compares = true;
  int code = compile_model(&c, &options, err);
  int entry;
  if (!code) code = run_pick_entry(&c, r->cli->entry, &entry, err);
  if (!code) r->unfused = total(c.graph, entry);
  compile_close(&c);
  return code;
}

static void note_stale(const Run *r) {
  char text[512];
  if (!r->compiler.stale) return;
  snprintf(
      text, sizeof text,
      "a tuned tile is not a candidate any more (%s): the cost model chooses instead; nngen tune "
      "measures again",
      r->compiler.stale);
  log_to_stderr().write(NULL, LogWarning, text);
}

static int compile(Run *r, Error *err) {
  Options options;
  int code = cli_options(r->cli, &options, err);
  if (!code)
    code = compile_unfused(r, options,
                           err); // reports mistakes of the model before the device is opened
  double opening = now();
  if (!code && !r->cli->arch) code = cli_device(r->cli, &r->device, err);
  r->seconds_device = now() - opening;
  if (!code && r->device) {
    arch_of_device(device_info(r->device), &r->arch);
    options.arch = &r->arch;
  }
  if (!code) code = cli_tuning(r->cli, true, &r->tuning, err);
  if (code) return code;
  options.tuning = r->tuning;
  options.device = r->device ? device_info(r->device)->name : options.arch->gpu;
  cli_warn_tuning(r->cli, r->tuning, options.device);
  double begin = now();
  options.again = true;
  code = compile_model(&r->compiler, &options, err);
  if (code) return code;
  note_stale(r);
  r->plan = plan_build(&r->compiler);
  int entry;
  code = run_pick_entry(&r->compiler, r->cli->entry, &entry, err);
  if (code) return code;
  r->ops = ops(r->compiler.original, entry);
  r->fused = total(r->compiler.graph, entry);
  r->entry = &r->plan->entries[1 + entry]; // after init
  r->seconds_generate = now() - begin;
  return ExitOk;
}

static int check_labels(const Run *r, Error *err) {
  if (!r->compiler.original->noutputs)
    return err_set(err, ExitUsage, "--labels: %s has no output to take scores from", r->cli->model);
  const Output *out = &r->compiler.original->outputs[0];
  const Type *t = &out->node->type;
  if (!t->rank)
    return err_set(err, ExitUsage, "--labels: output '%s' is one number, not a score per class",
                   out->name);
  int64_t classes = t->dim[t->rank - 1];
  if (r->labels.count >= classes) return ExitOk;
  return err_set(err, ExitBadInput,
                 "--labels %s: %d line%s for the %lld classes of output '%s' %s; expected one each",
                 r->cli->labels, r->labels.count, r->labels.count == 1 ? "" : "s",
                 (long long)classes, out->name, type_shape(t).s);
}

static JitOptions jit_options(const Run *r) {
  const Cli *cli = r->cli;
  return (JitOptions){.arch = cli->arch,
                      .cuda_path = cli->cuda_path,
                      .cache_dir = cli->no_cache ? "" : cli->cache_dir,
                      .dump_dir = cli->dump,
                      .entry = r->entry ? r->entry->name : NULL,
                      .progress = cli->quiet ? (Progress){0} : progress_bar(),
                      .log = log_to_stderr()};
}

static int dump_plan(const Run *r, Error *err) {
  if (!r->cli->dump) return ExitOk;
  char path[4096];
  mkdir(r->cli->dump, 0777);
  snprintf(path, sizeof path, "%s/%s.plan.json", r->cli->dump, r->plan->model);
  FILE *file = fopen(path, "w");
  if (!file) return err_set(err, ExitBadInput, "--dump: %s: %s", path, strerror(errno));
  int code = plan_write(r->plan, file, err);
  if (fclose(file) && !code)
    code = err_set(err, ExitBadInput, "--dump: %s: %s", path, strerror(errno));
  return code;
}

// ---- results ----------------------------------------------------------------------------------

bool run_makes(const Run *r, int tensor) {
  for (int e = 0; e < r->plan->nentries; e++) {
    const PlanEntry *entry = &r->plan->entries[e];
    bool ran = entry == r->entry || !strcmp(entry->name, "init");
    if (ran && plan_writes(r->plan, entry, tensor)) return true;
  }
  return false;
}

// Writes an output in its dtype; bf16, which NumPy lacks, as float32.
static int write_output(const Run *r, int tensor, const char *path, Error *err) {
  const PlanTensor *t = &r->plan->tensors[tensor];
  bool widened = t->dtype == DtBf16;
  size_t bytes = widened ? sizeof(float) * (size_t)tensor_count(t) : (size_t)t->bytes;
  void *stored = base_alloc(bytes, 1);
  int code = widened ? tensor_read_floats(r->loaded, tensor, stored, tensor_count(t), err)
                     : tensor_read(r->loaded, tensor, stored, bytes, err);
  if (!code) // row-major, as outputs are
    code = npy_write_stored(path, widened ? DtF32 : t->dtype, stored, t->rank, t->shape, err);
  free(stored);
  return code;
}

static int write_outputs(const Run *r, Error *err) {
  if (!r->cli->output) return ExitOk;
  mkdir(r->cli->output, 0777);
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->ntensors; i++) {
    const PlanTensor *t = &r->plan->tensors[i];
    if (t->role != RoleOutput || !run_makes(r, i)) continue;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.npy", r->cli->output, t->name);
    code = write_output(r, i, path, err);
  }
  return code;
}

static int time_steps(Run *r, int64_t repeat, int64_t warmup, Error *err) {
  const PlanEntry *infer = r->entry;
  bool sim = device_info(r->device)->kind == DeviceSim;
  NvtxLevel nvtx;
  if (!nvtx_parse(r->cli->nvtx, &nvtx))
    return err_set(err, ExitUsage, "--nvtx %s: expected off, model or layer", r->cli->nvtx);
  RunOptions options = {.warmup = sim ? 0 : (int)warmup,
                        .repeat = sim && repeat == 1 ? 1 : (int)(repeat > 5 ? repeat : 5),
                        .nvtx = nvtx,
                        .graph = false};
  if (sim) options.repeat = 1;
  r->ms = base_alloc((size_t)infer->nsteps, sizeof *r->ms);
  int code = run_time_steps(r->loaded, r->entry->name, &options, r->ms, err);
  if (code || (repeat <= 1 && !r->cli->graph)) return code;
  options.repeat = (int)repeat;
  options.graph = r->cli->graph;
  options.progress = r->cli->quiet ? (Progress){0} : progress_bar();
  code = run_time(r->loaded, r->entry->name, &options, &r->timing, err);
  progress_end();
  r->timed = !code;
  return code;
}

// --steps: more runs, each from the states of the one before; with --graph replays of one graph.
// The host waits between them only where states may lead to ids beyond a table.
static int go_on(Run *r, int64_t steps, Error *err) {
  bool stay = true;
  Replay *replay = NULL;
  const char *entry = r->entry->name;
  int code = ExitOk;
  if (steps > 1 && run_has_states(r) && run_wants_ids(r))
    code = run_ids_stay(r, steps - 1, &stay, err);
  r->steps = steps, r->waited = !stay;
  if (!code && steps > 1 && r->cli->graph) code = replay_capture(r->loaded, entry, &replay, err);
  for (int64_t done = 1; !code && done < steps; done++) {
    if (!stay) code = run_check_ids(r, err);
    if (!code) code = replay ? replay_enqueue(replay, err) : run_start(r->loaded, entry, err);
    if (!code && !stay) code = run_wait(r->loaded, err);
  }
  if (!code) code = run_wait(r->loaded, err);
  replay_close(replay);
  return code;
}

static int read_counts(Run *r, Error *err) {
  if (!r->cli->count) return ExitOk;
  r->counts = base_alloc((size_t)r->plan->nkernels, sizeof *r->counts);
  int code = ExitOk;
  for (int i = 0; !code && i < r->entry->nsteps; i++) {
    int kernel = r->entry->steps[i].kernel;
    if (r->entry->steps[i].kind == StepLaunch)
      code = count_kernel(r->loaded, kernel, &r->counts[kernel], err);
  }
  return code;
}

static int execute(Run *r, Error *err) {
  int64_t seed, repeat, warmup, steps;
  int code = cli_number("seed", r->cli->seed, 0, 0, &seed, err);
  if (!code) code = cli_number("repeat", r->cli->repeat, 1, 1, &repeat, err);
  if (!code) code = cli_number("warmup", r->cli->warmup, 0, 3, &warmup, err);
  if (!code) code = cli_number("steps", r->cli->steps, 1, 1, &steps, err);
  if (!code) code = params_open(r->cli->weights, (uint64_t)seed, &r->params, err);
  if (!code) cli_choose_params(r->params, &r->compiler);
  if (!code) code = params_check(r->params, r->plan, err);
  if (!code) code = run_read_inputs(r, (uint64_t)seed, err);
  JitOptions jit = jit_options(r);
  double begin = now();
  if (!code) code = load_plan(r->device, r->plan, &jit, &r->loaded, err);
  progress_end();
  if (code) return code;
  r->jit = (JitReport *)load_report(r->loaded);
  double loaded = now();
  bool cold = r->jit->compiled > 0, sim = device_info(r->device)->kind == DeviceSim;
  bool check = r->cli->check || (!r->cli->no_check && (sim || cold));
  code = run_afford_check(r, &check, err);
  if (code) return code;
  load_keep_init(r->loaded, check);
  code = params_fill(r->params, r->loaded, &r->filled, err);
  r->seconds_load = loaded - begin;
  r->seconds_params = now() - loaded;
  r->seconds_ready = now() - r->begin;
  if (!code) code = run_set_inputs(r, err);
  if (!code) code = run_keep_states(r, err);
  if (!code && run_wants_ids(r)) code = run_check_ids(r, err);
  if (!code) code = check ? run_checked(r, err) : run_entry(r->loaded, r->entry->name, err);
  if (!code) code = go_on(r, steps, err);
  if (!code) code = write_outputs(r, err);
  if (!code && r->cli->save) code = params_save(r->params, r->loaded, r->cli->save, err);
  if (!code) code = run_check_states(r, err);
  if (!code) code = read_counts(r, err);
  bool again = check && steps <= 1; // a second run must give the same bits
  if (!code && again) code = run_forget(r, err);
  if (!code && steps > 1) code = run_restore_states(r, err); // where --steps ended, a table may end
  if (!code) code = time_steps(r, repeat, warmup, err);
  if (!code && run_has_states(r)) { // timing has changed the states
    code = run_restore_states(r, err);
    if (!code) code = run_entry(r->loaded, r->entry->name, err);
  }
  if (!code && again) code = run_compare_again(r, err);
  return code;
}

static void close_run(Run *r) {
  run_timing_free(&r->timing);
  free(r->ms);
  free(r->kernel_error);
  free(r->outputs);
  free(r->updates);
  run_free_states(r);
  run_free_inputs(r);
  for (int i = 0; r->first_outputs && i < r->plan->ntensors; i++) free(r->first_outputs[i]);
  free(r->first_outputs);
  free(r->counts);
  labels_free(&r->labels);
  params_report_free(&r->filled);
  if (r->params) params_close(r->params);
  if (r->loaded) load_close(r->loaded);
  if (r->device) device_close(r->device);
  if (r->cli->arch) jit_report_free(&r->only_jit);
  plan_free(r->plan);
  compile_close(&r->compiler);
  tuning_free(r->tuning);
}

int verb_run(const Cli *cli, Error *err) {
  Run r = {.cli = cli, .begin = now()};
  int code = cli->check && cli->no_check
                 ? err_set(err, ExitUsage, "--check and --no-check: one of the two")
                 : ExitOk;
  if (!code && cli->labels) code = labels_read(cli->labels, &r.labels, err); // before the long work
  if (!code && cli->check_finite && cli->weights) code = run_check_finite(cli->weights, err);
  if (!code) code = compile(&r, err);
  if (!code && cli->labels) code = check_labels(&r, err);
  if (!code) {
    r.kernel_error = base_alloc((size_t)r.plan->nkernels, sizeof *r.kernel_error);
    for (int i = 0; i < r.plan->nkernels; i++) r.kernel_error[i] = -1;
    r.outputs = base_alloc((size_t)r.compiler.original->noutputs, sizeof *r.outputs);
    r.updates = base_alloc((size_t)r.compiler.original->nupdates, sizeof *r.updates);
    code = dump_plan(&r, err);
  }
  JitOptions jit = jit_options(&r);
  if (!code && cli->explain) {
    code = report_explain(&r, err);
    close_run(&r);
    return code;
  }
  if (!code && cli->arch)
    code = jit_compile(r.plan, &jit, &r.only_jit, err), r.jit = &r.only_jit;
  else if (!code)
    code = execute(&r, err);
  progress_end();
  if (!code && cli->json)
    code = report_json(&r, err);
  else if (!code)
    report_text(&r);
  if (!code && cli->labels && !cli->json) code = report_top(&r, err);
  if (!code && r.mismatch) code = err_set(err, ExitMismatch, "wrong result: %s", r.first_bad);
  close_run(&r);
  return code;
}
