// run.c: `nngen run`: model text to results. Compiles, loads the plan on a device, fills parameters
// and inputs, runs, checks every kernel and output against the oracle, and shows what happened.
#include "run.h"

#include <errno.h>
#include <math.h>
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

static void *alloc(size_t count, size_t size) {
  void *p = calloc(count ? count : 1, size);
  if (!p) die("out of memory");
  return p;
}

// ---- compiling --------------------------------------------------------------------------------

static Totals total(const Graph *g) {
  Totals t = {0};
  for (int i = 0; i < g->ngroups; i++) {
    if (g->groups[i]->fixed) continue;
    t.kernels++;
    t.flops += g->groups[i]->flops;
    t.bytes += g->groups[i]->bytes_read + g->groups[i]->bytes_written;
  }
  return t;
}

// What the other lowering would move, for comparison; it is compiled up to its schedule.
static int compile_unfused(Run *r, Options options, Error *err) {
  Compiler c;
  options.lowering = "unfused";
  options.stage = "sched";
  int code = compile_model(&c, &options, err);
  if (!code) r->unfused = total(c.graph);
  compile_close(&c);
  return code;
}

static int open_device(Run *r, Error *err) {
  DeviceOptions options = {.cuda_path = r->cli->cuda_path, .log = log_to_stderr()};
  int64_t ordinal;
  const char *name = getenv("NNGEN_DEVICE");
  if (strcmp(r->cli->device, "auto") || !name) name = r->cli->device;
  if (!device_parse(name, &options.kind))
    return err_set(err, ExitUsage, "--device %s: wants auto, cuda or sim", name);
  if (r->cli->count) setenv("NNGEN_SIM_COUNT", "1", 1);
  int code = cli_number("ordinal", r->cli->ordinal, 0, &ordinal, err);
  options.ordinal = (int)ordinal;
  return code ? code : device_open(&options, &r->device, err);
}

static int compile(Run *r, Error *err) {
  Options options;
  int code = cli_options(r->cli, &options, err);
  if (!code) code = compile_unfused(r, options, err); // also finds the model's mistakes first
  if (!code && !r->cli->arch) code = open_device(r, err);
  if (!code && r->device) {
    const Arch *arch = arch_find(device_info(r->device)->arch);
    if (arch) options.arch = arch; // else the default's figures
  }
  double begin = now();
  if (!code) code = compile_model(&r->compiler, &options, err);
  if (code) return code;
  r->plan = plan_build(&r->compiler);
  r->fused = total(r->compiler.graph);
  r->seconds_generate = now() - begin;
  return ExitOk;
}

static JitOptions jit_options(const Run *r) {
  const Cli *cli = r->cli;
  return (JitOptions){.arch = cli->arch, .cuda_path = cli->cuda_path,
                      .cache_dir = cli->no_cache ? "" : cli->cache_dir, .dump_dir = cli->dump,
                      .progress = cli->quiet ? (Progress){0} : progress_bar(), .log = log_to_stderr()};
}

static int dump_plan(const Run *r, Error *err) {
  if (!r->cli->dump) return ExitOk;
  char path[4096];
  mkdir(r->cli->dump, 0777);
  snprintf(path, sizeof path, "%s/%s.plan.json", r->cli->dump, r->plan->model);
  FILE *file = fopen(path, "w");
  if (!file) return err_set(err, ExitBadInput, "--dump: %s: %s", path, strerror(errno));
  int code = plan_write(r->plan, file, err);
  if (fclose(file) && !code) code = err_set(err, ExitBadInput, "--dump: %s: %s", path, strerror(errno));
  return code;
}

// ---- inputs -----------------------------------------------------------------------------------

// A seeded normal value: splitmix64, then Box and Muller.
static double next_normal(uint64_t *state) {
  double u[2];
  for (int i = 0; i < 2; i++) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    u[i] = (double)((z ^ z >> 31) >> 11) * 0x1p-53;
  }
  return sqrt(-2 * log(u[0] + 0x1p-54)) * cos(6.283185307179586 * u[1]);
}

static bool is_image(const PlanTensor *t) {
  return t->rank == 4 && t->shape[1] == 3 && t->shape[2] == t->shape[3] && t->shape[2] >= 8;
}

// One picture for every image of the batch.
static int fill_image(const Image *image, const PlanTensor *t, float *values, Error *err) {
  int side = (int)t->shape[2];
  ImageTransform transform = {.resize = side * 256 / 224, .crop = side};
  int64_t one = 3 * (int64_t)side * side;
  int code = image_transform(image, &transform, values, err);
  for (int64_t i = 1; !code && i < t->shape[0]; i++)
    memcpy(values + i * one, values, sizeof *values * (size_t)one);
  return code;
}

static int fill_from_png(const char *path, const PlanTensor *t, float *values, Error *err) {
  if (!is_image(t))
    return err_set(err, ExitBadInput, "--input %s: '%s' is no image of shape (N, 3, S, S); give an .npy", path, t->name);
  Image image;
  int code = image_read(path, &image, err);
  if (code) return code;
  code = fill_image(&image, t, values, err);
  image_free(&image);
  return code;
}

static int fill_from_npy(const char *path, const PlanTensor *t, float *values, Error *err) {
  Npy npy;
  int code = npy_read(path, &npy, err);
  if (code) return code;
  bool same = npy.rank == t->rank;
  for (int d = 0; same && d < t->rank; d++) same = npy.shape[d] == t->shape[d];
  if (!same) {
    Type want = type_make(DtF32, t->rank, t->shape), found = type_make(DtF32, npy.rank, npy.shape);
    code = err_set(err, ExitBadInput, "--input %s: '%s' has shape %s, the file has %s", path, t->name,
                   type_shape_text(&want), type_shape_text(&found));
  } else {
    memcpy(values, npy.values, sizeof *values * (size_t)npy.count);
  }
  npy_free(&npy);
  return code;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && !strcmp(text + n - m, end);
}

// The file given for this input: NAME=FILE, or FILE alone when the model has one input.
static const char *given_file(const Cli *cli, const PlanTensor *t) {
  size_t n = strlen(t->name);
  for (int i = 0; i < cli->ninput; i++) {
    const char *text = cli->input[i];
    if (!strncmp(text, t->name, n) && text[n] == '=') return text + n + 1;
    if (!strchr(text, '=')) return text;
  }
  return NULL;
}

static int fill_input(Run *r, const PlanTensor *t, uint64_t seed, float *values, Error *err) {
  const char *path = given_file(r->cli, t);
  if (path && ends_with(path, ".png")) return fill_from_png(path, t, values, err);
  if (path && ends_with(path, ".npy")) return fill_from_npy(path, t, values, err);
  if (path) return err_set(err, ExitUsage, "--input %s: wants a .png or .npy file", path);
  if (is_image(t)) {
    Image photo;
    r->input_note = "a generated photograph";
    int code = photo_make(500, 375, seed, &photo, err);
    if (!code) code = fill_image(&photo, t, values, err);
    image_free(&photo);
    return code;
  }
  r->input_note = "seeded normal noise";
  uint64_t state = seed * 0x2545f4914f6cdd1du + 88172645463325252u;
  for (int64_t i = 0; i < tensor_count(t); i++) values[i] = (float)next_normal(&state);
  return ExitOk;
}

static int check_input_names(const Run *r, Error *err) {
  for (int i = 0; i < r->cli->ninput; i++) {
    const char *equal = strchr(r->cli->input[i], '=');
    if (!equal) continue;
    bool known = false;
    for (int j = 0; j < r->plan->ntensors; j++)
      known = known || (r->plan->tensors[j].role == RoleInput &&
                        strlen(r->plan->tensors[j].name) == (size_t)(equal - r->cli->input[i]) &&
                        !strncmp(r->plan->tensors[j].name, r->cli->input[i], (size_t)(equal - r->cli->input[i])));
    if (!known) return err_set(err, ExitUsage, "--input %s: the model has no such input", r->cli->input[i]);
  }
  return ExitOk;
}

static int set_inputs(Run *r, uint64_t seed, Error *err) {
  int code = check_input_names(r, err);
  r->input_note = "files";
  for (int i = 0; !code && i < r->plan->ntensors; i++) {
    const PlanTensor *t = &r->plan->tensors[i];
    if (t->role != RoleInput) continue;
    int64_t count = tensor_count(t);
    float *values = alloc((size_t)count, sizeof *values);
    code = fill_input(r, t, seed, values, err);
    if (!code) code = tensor_write_floats(r->loaded, i, values, count, err);
    free(values);
  }
  return code;
}

// ---- checking ---------------------------------------------------------------------------------

typedef struct Reader {
  Run *run;
  Error *err;
  double **fixed; // oracle values of fixed nodes, by id of the compiled graph
} Reader;

static int find_tensor(const Run *r, const Node *n) {
  for (int i = 0; i < r->plan->ntensors; i++)
    if (r->plan->tensors[i].value == n->id) return i;
  return -1;
}

static bool to_doubles(Reader *reader, int tensor, bool parameter, double *values) {
  Run *r = reader->run;
  const PlanTensor *t = &r->plan->tensors[tensor];
  int64_t count = tensor_count(t);
  float *floats = alloc((size_t)count, sizeof *floats);
  int code = parameter ? params_values(r->params, t, floats, reader->err)
                       : tensor_read_floats(r->loaded, tensor, floats, count, reader->err);
  for (int64_t i = 0; i < count; i++) values[i] = floats[i];
  free(floats);
  return code == ExitOk;
}

// Evaluates a fixed node, and what it depends on, once.
static bool find_fixed(Reader *reader, Node *n) {
  double **fixed = reader->fixed;
  if (fixed[n->id]) return true;
  for (int j = 0; j < n->nin; j++)
    if (!find_fixed(reader, n->in[j])) return false;
  if (n->op->cls != OpSource || n->op->form != SourceParam) {
    eval_node(n, fixed);
    return true;
  }
  int tensor = find_tensor(reader->run, n);
  fixed[n->id] = alloc((size_t)type_count(&n->type), sizeof(double));
  return tensor >= 0 && to_doubles(reader, tensor, true, fixed[n->id]);
}

// What `init` made and freed again, from the oracle.
static bool read_fixed(Reader *reader, const Node *n, double *values) {
  if (!find_fixed(reader, (Node *)n)) return false;
  memcpy(values, reader->fixed[n->id], sizeof *values * (size_t)type_count(&n->type));
  return true;
}

static bool read_value(void *user, const Node *n, double *values) {
  Reader *reader = user;
  int tensor = find_tensor(reader->run, n);
  if (tensor < 0) return read_fixed(reader, n, values);
  const PlanTensor *t = &reader->run->plan->tensors[tensor];
  if (t->space == SpaceInit) return read_fixed(reader, n, values);
  return to_doubles(reader, tensor, false, values);
}

// For the reference: inputs as the device has them, parameters as the file has them.
static bool read_source(void *user, const Node *n, double *values) {
  Reader *reader = user;
  for (int i = 0; i < reader->run->plan->ntensors; i++) {
    const PlanTensor *t = &reader->run->plan->tensors[i];
    if ((t->role != RoleInput && t->role != RoleParam) || strcmp(t->name, n->name)) continue;
    return to_doubles(reader, i, t->role == RoleParam, values);
  }
  die("no tensor '%s' in the plan", n->name);
}

static void note_bad(Run *r, const char *what, const char *loc, const CheckResult *c) {
  r->mismatch = true;
  if (r->first_bad[0]) return;
  int used = snprintf(r->first_bad, sizeof r->first_bad, "%s%s%s: relative error %.3g, may be %.3g", what,
                      *loc ? ", " : "", loc, c->relative, c->gate);
  if (c->bad)
    snprintf(r->first_bad + used, sizeof r->first_bad - (size_t)used,
             "; %lld elements outside their bound, first at %lld: %.9g, want %.9g", (long long)c->bad,
             (long long)c->worst, c->got, c->want);
}

static int check_kernel(Reader *reader, int kernel) {
  Run *r = reader->run;
  const Group *g = r->compiler.graph->groups[kernel];
  for (int i = 0; i < g->noutputs; i++) { // gone after `init`: checked through what reads it
    int tensor = find_tensor(r, g->outputs[i]);
    if (g->fixed && r->plan->tensors[tensor].space == SpaceInit) return ExitOk;
  }
  CheckResult c = check_group(&r->compiler, g, read_value, reader);
  if (c.failed_read) return reader->err->code ? reader->err->code : ExitNoDevice;
  r->kernel_error[kernel] = c.relative;
  if (!c.passed) note_bad(r, r->plan->kernels[kernel].name, r->plan->kernels[kernel].loc, &c);
  return ExitOk;
}

static int after_step(void *user, int step, const PlanStep *what, double ms, Error *err) {
  (void)ms, (void)step, (void)err;
  Reader *reader = user;
  if (!reader->run->cli->quiet && progress_bar().step)
    progress_bar().step(NULL, "checking", what->kernel + 1, reader->run->plan->nkernels);
  return what->kind == StepLaunch ? check_kernel(reader, what->kernel) : ExitOk;
}

static int check_outputs(Run *r, Reader *reader, Error *err) {
  double **value;
  Graph *g = r->compiler.original;
  compiler = &r->compiler;
  int code = check_reference(&r->compiler, read_source, reader, &value) ? ExitOk : err->code;
  for (int i = 0; !code && i < g->noutputs; i++) {
    int tensor = tensor_find(r->plan, g->outputs[i].name);
    int64_t count = type_count(&g->outputs[i].node->type);
    double *got = alloc((size_t)count, sizeof *got);
    if (!to_doubles(reader, tensor, false, got)) code = err->code;
    else
      r->outputs[i] = check_compare(value[g->outputs[i].node->id], got, NULL, count,
                                    check_model_gate(r->cli->dtype));
    free(got);
    char what[256];
    snprintf(what, sizeof what, "output '%s'", g->outputs[i].name);
    if (!code && !r->outputs[i].passed) note_bad(r, what, "", &r->outputs[i]);
  }
  eval_free(g, value);
  free(value);
  return code;
}

// Runs once, step by step, with every kernel compared on the inputs it really read.
static int run_checked(Run *r, Error *err) {
  Reader reader = {r, err, alloc((size_t)r->compiler.graph->nnodes, sizeof(double *))};
  r->checked = true;
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->nkernels; i++)
    if (r->compiler.graph->groups[i]->fixed) code = check_kernel(&reader, i);
  if (!code) code = run_steps(r->loaded, "infer", after_step, &reader, err);
  progress_end();
  if (!code) code = check_outputs(r, &reader, err);
  for (int i = 0; i < r->compiler.graph->nnodes; i++) free(reader.fixed[i]);
  free(reader.fixed);
  return code;
}

// ---- results ----------------------------------------------------------------------------------

static int write_outputs(const Run *r, Error *err) {
  if (!r->cli->output) return ExitOk;
  mkdir(r->cli->output, 0777);
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->ntensors; i++) {
    const PlanTensor *t = &r->plan->tensors[i];
    if (t->role != RoleOutput) continue;
    int64_t count = tensor_count(t);
    float *values = alloc((size_t)count, sizeof *values);
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.npy", r->cli->output, t->name);
    code = tensor_read_floats(r->loaded, i, values, count, err);
    if (!code) code = npy_write(path, values, t->rank, t->shape, err);
    free(values);
  }
  return code;
}

static int time_steps(Run *r, int64_t repeat, int64_t warmup, Error *err) {
  const PlanEntry *infer = &r->plan->entries[1];
  bool sim = device_info(r->device)->kind == DeviceSim;
  NvtxLevel nvtx;
  if (!nvtx_parse(r->cli->nvtx, &nvtx))
    return err_set(err, ExitUsage, "--nvtx %s: wants off, model or layer", r->cli->nvtx);
  RunOptions options = {.warmup = sim ? 0 : (int)warmup, .repeat = sim && repeat == 1 ? 1 : (int)(repeat > 5 ? repeat : 5),
                        .nvtx = nvtx, .graph = false};
  if (sim) options.repeat = 1;
  r->ms = alloc((size_t)infer->nsteps, sizeof *r->ms);
  int code = run_time_steps(r->loaded, "infer", &options, r->ms, err);
  if (code || (repeat <= 1 && !r->cli->graph)) return code;
  options.repeat = (int)repeat;
  options.graph = r->cli->graph;
  options.progress = r->cli->quiet ? (Progress){0} : progress_bar();
  code = run_time(r->loaded, "infer", &options, &r->timing, err);
  progress_end();
  r->timed = !code;
  return code;
}

// Is there memory for the oracle? When checking was not asked for, it is left out with a warning.
static int afford_check(Run *r, bool *check, Error *err) {
  double need = (double)check_bytes(r->compiler.original) * 1e-9;
  double have = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) * 1e-9;
  if (!*check || need < have) return ExitOk;
  if (r->cli->check)
    return err_set(err, ExitNoDevice, "--check: the oracle needs some %.1f GB, this machine has %.1f GB free; "
                   "try a smaller batch", need, have);
  char text[160];
  snprintf(text, sizeof text, "not checked: the oracle needs some %.1f GB, this machine has %.1f GB free", need, have);
  log_to_stderr().write(NULL, LogWarning, text);
  *check = false;
  return ExitOk;
}

static int read_counts(Run *r, Error *err) {
  if (!r->cli->count) return ExitOk;
  r->counts = alloc((size_t)r->plan->nkernels, sizeof *r->counts);
  int code = ExitOk;
  for (int i = 0; !code && i < r->plan->nkernels; i++) code = count_kernel(r->loaded, i, &r->counts[i], err);
  return code;
}

static int execute(Run *r, Error *err) {
  int64_t seed, repeat, warmup;
  int code = cli_number("seed", r->cli->seed, 0, &seed, err);
  if (!code) code = cli_number("repeat", r->cli->repeat, 1, &repeat, err);
  if (!code) code = cli_number("warmup", r->cli->warmup, 3, &warmup, err);
  if (!code) code = params_open(r->cli->weights, (uint64_t)seed, &r->params, err);
  JitOptions jit = jit_options(r);
  if (!code) code = load_plan(r->device, r->plan, &jit, &r->loaded, err);
  progress_end();
  if (code) return code;
  r->jit = (JitReport *)load_report(r->loaded);
  code = params_fill(r->params, r->loaded, NULL, err);
  if (!code) code = set_inputs(r, (uint64_t)seed, err);
  bool cold = r->jit->compiled > 0, sim = device_info(r->device)->kind == DeviceSim;
  bool check = r->cli->check || (!r->cli->no_check && (sim || cold));
  if (!code) code = afford_check(r, &check, err);
  if (!code) code = check ? run_checked(r, err) : run_entry(r->loaded, "infer", err);
  if (!code) code = write_outputs(r, err);
  if (!code) code = read_counts(r, err);
  if (!code) code = time_steps(r, repeat, warmup, err);
  return code;
}

static void close_run(Run *r) {
  run_timing_free(&r->timing);
  free(r->ms);
  free(r->kernel_error);
  free(r->outputs);
  free(r->counts);
  if (r->params) params_close(r->params);
  if (r->loaded) load_close(r->loaded);
  if (r->device) device_close(r->device);
  if (r->cli->arch) jit_report_free(&r->only_jit);
  plan_free(r->plan);
  compile_close(&r->compiler);
}

int verb_run(const Cli *cli, Error *err) {
  Run r = {.cli = cli};
  int code = compile(&r, err);
  if (!code) {
    r.kernel_error = alloc((size_t)r.plan->nkernels, sizeof *r.kernel_error);
    for (int i = 0; i < r.plan->nkernels; i++) r.kernel_error[i] = -1;
    r.outputs = alloc((size_t)r.compiler.original->noutputs, sizeof *r.outputs);
    code = dump_plan(&r, err);
  }
  JitOptions jit = jit_options(&r);
  if (!code && cli->arch) code = jit_compile(r.plan, &jit, &r.only_jit, err), r.jit = &r.only_jit;
  else if (!code) code = execute(&r, err);
  progress_end();
  if (!code && cli->explain) code = report_explain(&r, err);
  else if (!code && cli->json) code = report_json(&r, err);
  else if (!code) report_text(&r);
  if (!code && cli->labels && !cli->json && !cli->arch) code = report_top(&r, err);
  if (!code && r.mismatch) code = err_set(err, ExitMismatch, "wrong result: %s", r.first_bad);
  close_run(&r);
  return code;
}
