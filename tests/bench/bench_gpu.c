// bench_gpu.c: contractions on a GPU, beside cuBLAS and cuDNN, and the ceilings of the machine. One
// JSON object a line on stdout; tests/bench/gpu.py runs it and gathers them.
//
//   bench_gpu ceilings [quick]                         copy, matrix product, launch gaps
//   bench_gpu model FILE DTYPE [quick] NAME=VALUE ... [-- FILE DTYPE NAME=VALUE ...] ... [--]
//                                                      each distinct contraction of each model
//
// With "--" every line tells its "job", from 0, and the end of each is a line {"job":, "done":
// true}. Every contender is a graph of many launches, replayed in turns; samples are microseconds a
// launch. On libcusim the same code runs, and its lines say "device": "sim": no figures of a GPU.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/cli/cli.h"
#include "libraries.h"
#include "plain_products.h"

enum { kRounds = 15, kQuickRounds = 2, kMostLaunches = 50 };

static Device *device;
static Libraries libraries;
static bool quick;
static int job = -1; // the model at hand, of several

static void fail(const Error *err) {
  fprintf(stderr, "bench_gpu: %s\n", err->message);
  exit(err->code ? err->code : 1);
}

// ---- lines --------------------------------------------------------------------------------------

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// {"stage":, "name":, "who":, "us": median, "samples_us": [...]}, and what else `more` holds.
static void put_line(const char *stage, const char *name, const char *who, const double *samples,
                     int count, json_t *more) {
  double sorted[kRounds];
  json_t *list = json_array();
  memcpy(sorted, samples, sizeof *sorted * (size_t)count);
  qsort(sorted, (size_t)count, sizeof *sorted, by_value);
  for (int i = 0; i < count; i++) json_array_append_new(list, json_real(samples[i]));
  json_t *o = json_pack("{s:s s:s s:s s:s s:f s:o}", "device",
                        device_info(device)->kind == DeviceSim ? "sim" : "cuda", "stage", stage,
                        "name", name, "who", who, "us",
                        count ? (sorted[(count - 1) / 2] + sorted[count / 2]) / 2 : 0, "samples_us",
                        list);
  if (more) json_object_update(o, more);
  if (job >= 0) json_object_set_new(o, "job", json_integer(job));
  json_decref(more);
  json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(7));
  json_decref(o);
  printf("\n");
  fflush(stdout);
}

static void put_missing(const char *stage, const char *name, const char *who, const char *why) {
  put_line(stage, name, who, NULL, 0, json_pack("{s:s}", "missing", why));
}

// ---- time ---------------------------------------------------------------------------------------

// One replay, in microseconds a launch.
static double time_replay(Loaded *loaded, Replay *replay, CUgraphExec exec, int launches) {
  const DriverApi *api = &device->api;
  Error err = {0};
  float ms = 0;
  int rc = CU(api, &err, cuEventRecord, loaded->begin, device->stream);
  if (!rc)
    rc = replay ? replay_enqueue(replay, &err) : CU(api, &err, cuGraphLaunch, exec, device->stream);
  if (!rc) rc = CU(api, &err, cuEventRecord, loaded->end, device->stream);
  if (!rc) rc = CU(api, &err, cuEventSynchronize, loaded->end);
  if (!rc) rc = CU(api, &err, cuEventElapsedTime, &ms, loaded->begin, loaded->end);
  if (rc) fail(&err);
  return ms * 1e3 / launches;
}

static int rounds(void) {
  return quick ? kQuickRounds : kRounds;
}

// ---- a model's contractions ---------------------------------------------------------------------

enum { kPattern = (1 << 20) - 3 }; // random values, repeated; odd, so that rows differ

static const float *pattern(void) { // near normal, made once
  static float values[kPattern];
  uint64_t state = 7;
  for (int i = 0; !values[kPattern - 1] && i < kPattern; i++) {
    float sum = -2; // of four uniform numbers
    for (int j = 0; j < 4; j++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += (float)(state >> 40) * 0x1p-24f;
    }
    values[i] = sum;
  }
  return values;
}

// Without gaps and of a float type: the pattern goes to the device once, which doubles it.
static bool fill_dense(Loaded *loaded, int tensor) {
  const PlanTensor *t = &load_get_plan(loaded)->tensors[tensor];
  const DriverApi *api = &device->api;
  int64_t count = tensor_count(t);
  bool half = t->dtype == DtF16 || t->dtype == DtBf16;
  size_t size = half ? 2 : 4;
  CUdeviceptr at = load_pointer(loaded, tensor);
  if (!at || (!half && t->dtype != DtF32) || t->bytes != count * (int64_t)size) return false;
  static uint16_t halves[kPattern];
  const float *values = pattern();
  for (int i = 0; half && i < kPattern && i < count; i++)
    halves[i] = t->dtype == DtBf16 ? bf16_from_float(values[i]) : half_from_float(values[i]);
  Error err = {0};
  size_t bytes = (size_t)t->bytes, done = size * (size_t)(count < kPattern ? count : kPattern);
  int rc = CU(api, &err, cuMemcpyHtoDAsync, at, half ? (const void *)halves : values, done,
              device->stream);
  for (; !rc && done < bytes; done *= 2)
    rc = CU(api, &err, cuMemcpyDtoDAsync, at + done, at, done < bytes - done ? done : bytes - done,
            device->stream);
  if (!rc) rc = CU(api, &err, cuStreamSynchronize, device->stream);
  if (rc) fail(&err);
  return true;
}

static void fill_random(Loaded *loaded) { // everything that kernel 0 reads
  const Plan *plan = load_get_plan(loaded);
  const PlanKernel *kernel = &plan->kernels[0];
  for (int i = 0; i < kernel->nargs; i++) {
    int tensor = kernel->args[i].tensor;
    if (kernel->args[i].written || fill_dense(loaded, tensor)) continue;
    int64_t count = tensor_count(&plan->tensors[tensor]);
    Error err = {0};
    float *values = base_alloc((size_t)count, sizeof *values);
    for (int64_t k = 0; k < count; k++) values[k] = pattern()[k % kPattern];
    if (tensor_write_floats(loaded, tensor, values, count, &err)) fail(&err);
    free(values);
  }
}

// `problem`, of a matmul, is "DTYPE matmul SHAPE[ transposed| computed] by SHAPE[...]".
static bool is_transposed(const char *problem, bool second) {
  static const char word[] = " transposed";
  const char *by = strstr(problem, " by "), *end = second ? problem + strlen(problem) : by;
  return by && (size_t)(end - problem) >= strlen(word) &&
         !strncmp(end - strlen(word), word, strlen(word));
}

static Shape shape_of(const Group *g, Dtype dtype) {
  const Node *n = node_as_written(g->anchor);
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type, *y = &n->type;
  Shape s = {.conv = maps_gives(n) == PartPositions, .dtype = dtype, .batch = 1};
  if (s.conv) {
    s.batch = n->attr.groups;
    for (int d = 0; d < 4; d++)
      s.x[d] = (int)a->dim[d], s.w[d] = (int)b->dim[d], s.y[d] = (int)y->dim[d];
    for (int i = 0; i < 2; i++) {
      s.stride[i] = (int)n->attr.stride[i], s.pad[i] = (int)n->attr.pad[i];
      s.dilation[i] = (int)n->attr.dilation[i];
    }
    return s;
  }
  s.m = y->dim[y->rank - 2], s.n = y->dim[y->rank - 1], s.k = b->dim[b->rank - 2];
  s.batch = type_count(y) / (s.m * s.n);
  s.a_transposed = is_transposed(tuning_problem(g), false);
  s.transposed = is_transposed(tuning_problem(g), true);
  return s;
}

static json_t *facts(const Group *g, int layers, const Shape *s) {
  // Of a and b, as the library gets them.
  static const char *const forms[] = {"nn", "nt", "tn", "tt"};
  const char *form = s->conv ? "conv" : forms[2 * s->a_transposed + s->transposed];
  return json_pack("{s:s s:s s:i s:s s:f s:f s:I}", "form", form, "layer", g->layer, "layers",
                   layers, "tile", tuning_tile(g->graph->arena, &g->tile), "model_us",
                   g->tile.seconds * 1e6, "flops", g->flops, "bytes",
                   (json_int_t)(g->bytes_read + g->bytes_written));
}

static void measure_group(Compiler *c, Group *g, int layers, Dtype dtype) {
  Variants v;
  Loaded *loaded;
  Error err = {0};
  double ours[kRounds], theirs[kRounds];
  const char *name = tuning_problem(g);
  int launches = (int)fmin(kMostLaunches, fmax(3, 500e-6 / g->tile.seconds));
  variants_make(c, g, 0, quick ? 1 : launches, 0, &v);
  JitOptions jit = {0};
  if (load_plan(device, v.plan, &jit, &loaded, &err)) fail(&err);
  if (run_entry(loaded, "init", &err)) fail(&err);
  fill_random(loaded);
  Replay *replay;
  if (replay_capture(loaded, "v0", &replay, &err)) fail(&err);
  Shape shape = shape_of(g, dtype);
  CUgraphExec exec = libraries_graph(&libraries, &shape, v.launches);
  for (int i = -1; i < rounds(); i++) { // in turns; the first round warms up
    double a = time_replay(loaded, replay, NULL, v.launches);
    double b = exec ? time_replay(loaded, NULL, exec, v.launches) : 0;
    if (i >= 0) ours[i] = a, theirs[i] = b;
  }
  const char *who = shape.conv ? "cuDNN" : "cuBLAS";
  put_line("contraction", name, "nngen", ours, rounds(), facts(g, layers, &shape));
  if (exec)
    put_line("contraction", name, who, theirs, rounds(), NULL);
  else
    put_missing("contraction", name, who, libraries.why);
  libraries_drop(&libraries, exec);
  replay_close(replay);
  load_close(loaded);
  variants_free(&v);
}

// A contraction of the model that no contraction kernel computes: reported, not measured.
static void tell_left_out(const Compiler *c, const Group *g) {
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < c->original->nnodes; k++) {
      const Node *o = c->original->nodes[k], *n = g->nodes[i];
      if (o->op->cls != OpContract || !o->name || !n->name || strcmp(o->name, n->name)) continue;
      put_missing("contraction", n->name, "nngen",
                  maps_gives(o) == PartPositions
                      ? "a depthwise convolution is no contraction kernel"
                      : "a product with a vector is no contraction kernel");
      return;
    }
}

static int measure_model(void *user, Error *err) {
  Compiler *c = user;
  (void)err;
  for (int i = 0; i < c->graph->ngroups; i++) {
    const Group *g = c->graph->groups[i];
    if (!g->tm->candidates && !g->fixed) tell_left_out(c, g);
  }
  for (int i = 0; i < c->graph->ngroups; i++) {
    Group *g = c->graph->groups[i];
    if (!g->tm->candidates || g->fixed) continue;
    Dtype dtype = prec_operand(g->anchor);
    int layers = 0, first = -1;
    for (int k = 0; k < c->graph->ngroups; k++) {
      const Group *o = c->graph->groups[k];
      if (!o->tm->candidates || o->fixed || strcmp(tuning_problem(o), tuning_problem(g))) continue;
      if (first < 0) first = k;
      layers++;
    }
    if (first == i) measure_group(c, g, layers, dtype);
  }
  return ExitOk;
}

static void run_model(int argc, char **argv) {
  Compiler c;
  Error err = {0};
  const char *names[16], *values[16];
  Options o = {.model = argv[0], .lowering = "fused", .dtype = argv[1], .arch = arch_default(),
               .set_name = names, .set_value = values};
  for (int i = 2; i < argc && o.nset < 16; i++) {
    char *equal = strchr(argv[i], '=');
    if (!equal) continue;
    *equal = 0;
    names[o.nset] = argv[i], values[o.nset++] = equal + 1;
  }
  char *path = tuning_default_path(NULL);
  Tuning *tuning = NULL;
  if (path && tuning_read(path, true, &tuning, &err)) fail(&err);
  o.tuning = tuning;
  o.device = device_info(device)->name;
  const Arch *arch = arch_find(device_info(device)->arch);
  if (arch) o.arch = arch;
  if (compile_model(&c, &o, &err)) fail(&err);
  if (compile_guard(&c, measure_model, &c, &err)) fail(&err);
  compile_close(&c);
  tuning_free(tuning);
  free(path);
}

static void run_models(int argc, char **argv) { // between each "--"
  int begin = 0;
  for (int i = 0; i <= argc; i++) {
    if (i < argc && strcmp(argv[i], "--")) continue;
    if (i == argc && begin == argc && begin) return; // a "--" at the end
    if (i < argc || begin) job++;
    if (i - begin < 2) exit(ExitUsage);
    run_model(i - begin, argv + begin);
    if (job >= 0) printf("{\"job\":%d,\"done\":true}\n", job), fflush(stdout);
    begin = i + 1;
  }
}

// ---- ceilings -----------------------------------------------------------------------------------

static char *copy_text(const char *text) {
  char *copy = strdup(text);
  if (!copy) die("out of memory");
  return copy;
}

// A plan of one entry "run": `copies` of `bytes` from one tensor to another, and `launches` of an
// empty kernel.
static Plan *ceiling_plan(int64_t bytes, int copies, int launches) {
  Plan *p = base_alloc(1, sizeof *p);
  *p = (Plan){.model = copy_text("ceilings"), .lowering = copy_text("fused"),
              .dtype = copy_text("fp32"), .arch = copy_text("sm_80"), .ntensors = 2, .nkernels = 1,
              .nentries = 1, .static_bytes = 2 * bytes};
  p->tensors = base_alloc(2, sizeof *p->tensors);
  for (int i = 0; i < 2; i++)
    p->tensors[i] = (PlanTensor){.name = copy_text(i ? "to" : "from"), .role = RoleTemp,
                                 .dtype = DtU8, .rank = 1, .shape = {bytes}, .bytes = bytes,
                                 .offset = i * bytes, .value = -1, .loc = copy_text("")};
  p->kernels = base_alloc(1, sizeof *p->kernels);
  p->kernels[0] = (PlanKernel){.name = copy_text("empty"), .layer = copy_text("empty"),
                               .ops = copy_text(""), .class_name = copy_text("map"),
                               .tile = copy_text(""), .names = copy_text(""),
                               .file = copy_text("empty.cu"),
                               .source = copy_text("extern \"C\" __global__ void empty() {}\n"),
                               .loc = copy_text(""), .grid = {1, 1, 1}, .block = {32, 1, 1}};
  p->entries = base_alloc(1, sizeof *p->entries);
  p->entries[0] =
      (PlanEntry){copy_text("run"), base_alloc((size_t)(copies + launches), sizeof(PlanStep)), 0};
  for (int i = 0; i < copies; i++)
    p->entries[0].steps[p->entries[0].nsteps++] =
        (PlanStep){.kind = StepCopy, .source = 0, .target = 1};
  for (int i = 0; i < launches; i++)
    p->entries[0].steps[p->entries[0].nsteps++] = (PlanStep){.kind = StepLaunch, .kernel = 0};
  return p;
}

static void measure_plan(const char *name, int64_t bytes, int copies, int launches, bool graph) {
  Plan *plan = ceiling_plan(bytes, copies, launches);
  Loaded *loaded;
  Error err = {0};
  JitOptions jit = {0};
  RunTiming timing;
  RunOptions options = {.warmup = 2, .repeat = rounds(), .graph = graph};
  if (load_plan(device, plan, &jit, &loaded, &err)) fail(&err);
  if (run_time(loaded, "run", &options, &timing, &err)) fail(&err);
  double us[kRounds];
  for (int i = 0; i < timing.runs; i++) us[i] = timing.samples[i] * 1e3 / (copies + launches);
  put_line("ceiling", name, "driver", us, timing.runs,
           json_pack("{s:I s:f}", "bytes", (json_int_t)(copies ? 2 * bytes : 0), "enqueue_us",
                     timing.enqueue * 1e3 / (copies + launches)));
  run_timing_free(&timing);
  load_close(loaded);
  plan_free(plan);
}

static void measure_product(const char *name, Dtype dtype, int64_t size) {
  Shape s = {.m = size, .n = size, .k = size, .batch = 1, .transposed = true, .dtype = dtype};
  enum { kProducts = 10 };
  Plan *plan = ceiling_plan(256, 1, 0); // for its events
  Loaded *loaded;
  Error err = {0};
  JitOptions jit = {0};
  double us[kRounds];
  CUgraphExec exec = libraries_graph(&libraries, &s, kProducts);
  if (load_plan(device, plan, &jit, &loaded, &err)) fail(&err);
  for (int i = -1; exec && i < rounds(); i++) {
    double t = time_replay(loaded, NULL, exec, kProducts);
    if (i >= 0) us[i] = t;
  }
  if (exec)
    put_line("ceiling", name, "cuBLAS", us, rounds(),
             json_pack("{s:f}", "flops", 2. * (double)size * (double)size * (double)size));
  else
    put_missing("ceiling", name, "cuBLAS", libraries.why);
  libraries_drop(&libraries, exec);
  load_close(loaded);
  plan_free(plan);
}

static void run_ceilings(void) {
  measure_plan("copy", quick ? 1 << 20 : (int64_t)1 << 30, quick ? 1 : 4, 0, true);
  measure_plan("launches in a graph", 256, 0, quick ? 10 : 1000, true);
  measure_plan("launches one by one", 256, 0, quick ? 10 : 1000, false);
  measure_product("product fp16 8192", DtF16, quick ? 64 : 8192);
  measure_product("product bf16 8192", DtBf16, quick ? 64 : 8192);
}

// ---- the program --------------------------------------------------------------------------------

static void open_device(void) {
  char path[600];
  Error err = {0};
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 40);
  path[length > 0 ? length : 0] = 0;
  char *tests = strstr(path, "/tests/bench/");
  if (tests) strcpy(tests, "/libcusim.so"), setenv("NNGEN_SIM", path, 0);
  DeviceOptions options = {0};
  const char *named = getenv("NNGEN_DEVICE");
  device_parse(named && *named ? named : "auto", &options.kind);
  if (device_open(&options, &device, &err)) fail(&err);
  libraries_open(&libraries, device);
}

int main(int argc, char **argv) {
  for (int i = 2; i < argc; i++) quick = quick || !strcmp(argv[i], "quick");
  bool model = argc > 3 && !strcmp(argv[1], "model");
  if (!model && !(argc > 1 && !strcmp(argv[1], "ceilings"))) {
    fprintf(stderr, "usage: bench_gpu ceilings [quick] | model FILE DTYPE [quick] [NAME=VALUE ...] "
                    "[-- FILE DTYPE ...]\n");
    return ExitUsage;
  }
  open_device();
  if (model)
    run_models(argc - 2, argv + 2);
  else
    run_ceilings();
  libraries_close(&libraries);
  device_close(device);
  return ExitOk;
}
