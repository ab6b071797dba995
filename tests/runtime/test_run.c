// test_run.c: a small plan on a device: memory, parameters, runs, steps, replay, timing.
// NNGEN_DEVICE=cuda runs the same on a GPU.
#include <math.h>

#include "runtime/support.h"

static Device *device;
static Plan *plan;
static JitOptions jit;

static Loaded *load(void) {
  Error err = {0};
  Loaded *loaded;
  if (load_plan(device, plan, &jit, &loaded, &err)) fail_msg("%s", err.message);
  return loaded;
}

static float input_at(int i) {
  return (float)((i * 37) % 101) / 25 - 2;
}

static void set_input(Loaded *loaded, float scale) {
  float x[SmallCount];
  Error err = {0};
  for (int i = 0; i < SmallCount; i++) x[i] = scale * input_at(i);
  assert_int_equal(tensor_write_floats(loaded, SmallX, x, SmallCount, &err), ExitOk);
}

static void fill(Loaded *loaded, uint64_t seed, float *values) {
  Error err = {0};
  Params *params;
  ParamsReport report;
  assert_int_equal(params_open(NULL, seed, &params, &err), ExitOk);
  assert_int_equal(params_values(params, &plan->tensors[SmallP], values, &err), ExitOk);
  if (params_fill(params, loaded, &report, &err)) fail_msg("%s", err.message);
  assert_true(report.filled == 1 && report.count == SmallCount && report.nunused == 0);
  params_report_free(&report);
  params_close(params);
  float gone[SmallCount]; // what init read is freed
  assert_int_equal(tensor_read_floats(loaded, SmallP, gone, SmallCount, &err), ExitUsage);
}

static void check_output(Loaded *loaded, float scale, const float *p) {
  float y[SmallCount], t[SmallCount];
  Error err = {0};
  assert_int_equal(tensor_read_floats(loaded, SmallT, t, SmallCount, &err), ExitOk);
  assert_int_equal(tensor_read_floats(loaded, SmallY, y, SmallCount, &err), ExitOk);
  for (int i = 0; i < SmallCount; i++) {
    float want = fmaxf(0, 2 * scale * input_at(i) - p[i]);
    assert_true(t[i] == y[i]);
    if (!(fabsf(y[i] - want) <= 1e-6f * (1 + want))) fail_msg("y[%d] = %g, not %g", i, y[i], want);
  }
}

// ---- devices -----------------------------------------------------------------------------------

static void device_says_what_it_is(void **state) {
  (void)state;
  const DeviceInfo *info = device_info(device);
  assert_true(info->kind == DeviceSim || info->kind == DeviceCuda);
  assert_memory_equal(info->arch, "sm_", 3);
  assert_true(info->sm_count > 0 && info->warp_size == 32 && info->name[0]);
  assert_true(info->smem_per_block >= 48 << 10 && info->memory_total >= info->memory_free);
  assert_true(info->driver_version >= 12000 && info->nvrtc_version >= 12000);
  if (info->kind == DeviceCuda) assert_true(info->dram_gbs > 10 && info->peak_fp16 > 1);
}

static char logged[2048];
static void on_log(void *user, LogLevel level, const char *message) {
  (void)user, (void)level;
  snprintf(logged, sizeof logged, "%s", message);
}

static void no_device(void **state) {
  (void)state;
  Error err = {0};
  Device *other;
  DeviceOptions options = device_options();
  options.ordinal = 1000;
  assert_int_equal(device_open(&options, &other, &err), ExitNoDevice);
  assert_non_null(strstr(err.message, "there is no device 1000: the driver has "));
}

static void automatic(void **state) {
  (void)state;
  Error err = {0};
  Device *other;
  logged[0] = 0;
  DeviceOptions options = {.kind = DeviceAuto, .log = {on_log, NULL}};
  assert_int_equal(device_open(&options, &other, &err), ExitOk);
  if (device_info(other)->kind == DeviceSim) assert_memory_equal(logged, "no GPU (", 8);
  device_close(other);
}

// ---- tensors -----------------------------------------------------------------------------------

static void tensor_errors(void **state) {
  (void)state;
  Loaded *loaded = load();
  float x[8];
  Error err = {0};
  assert_int_equal(tensor_read(loaded, 99, x, 4, &err), ExitUsage);
  assert_string_equal(err.message, "there is no tensor 99");
  assert_int_equal(tensor_read(loaded, SmallX, x, 4, &err), ExitUsage);
  assert_string_equal(err.message, "tensor 'x' has 4000 bytes, not 4");
  assert_int_equal(tensor_write_floats(loaded, SmallX, x, 8, &err), ExitUsage);
  assert_string_equal(err.message, "tensor 'x' has 1000 elements, not 8");
  assert_int_equal(tensor_read_floats(loaded, SmallP, x, SmallCount, &err), ExitUsage);
  assert_string_equal(err.message, "tensor 'fc.weight' exists only while parameters are loaded");
  assert_int_equal(tensor_read_floats(loaded, -1, x, 8, &err), ExitUsage);
  assert_int_equal(run_entry(loaded, "train", &err), ExitUsage);
  assert_string_equal(err.message, "plan 'small' has no entry 'train'");
  load_close(loaded);
}

// ---- parameters --------------------------------------------------------------------------------

static int fill_from(const char *name, const WeightTensor *tensors, int count, Loaded *loaded,
                     ParamsReport *report, Error *err) {
  Params *params;
  const char *path = temp_path(name);
  assert_int_equal(weights_write(path, tensors, count, NULL, err), ExitOk);
  assert_int_equal(params_open(path, 0, &params, err), ExitOk);
  int rc = params_fill(params, loaded, report, err);
  params_close(params);
  return rc;
}

static ParamsFrom chosen(void *from, const PlanTensor *tensor) {
  (void)tensor;
  return *(const ParamsFrom *)from;
}

// What the file lacks, and may lack, is named; not what is wanted from the seed.
static void parameters_that_a_file_lacks(void **state) {
  (void)state;
  float w[3] = {0};
  Error err = {0};
  Params *params;
  ParamsReport report;
  Loaded *loaded = load();
  ParamsFrom from = ParamsFileIfThere;
  WeightTensor extra = {"extra", "F32", 1, {3}, w, 12};
  const char *path = temp_path("lacks.st");
  assert_int_equal(weights_write(path, &extra, 1, NULL, &err), ExitOk);
  assert_int_equal(params_open(path, 0, &params, &err), ExitOk);
  params_choose(params, chosen, &from);
  assert_int_equal(params_fill(params, loaded, &report, &err), ExitOk);
  assert_int_equal(report.nseeded, 1);
  assert_string_equal(report.seeded[0], "fc.weight");
  params_report_free(&report);
  from = ParamsSeed;
  assert_int_equal(params_fill(params, loaded, &report, &err), ExitOk);
  assert_int_equal(report.nseeded, 0);
  params_report_free(&report);
  params_close(params);
  load_close(loaded);
}

static void parameters_of_a_file(void **state) {
  (void)state;
  float w[SmallCount];
  char message[600];
  Error err = {0};
  ParamsReport report;
  Loaded *loaded = load();
  for (int i = 0; i < SmallCount; i++) w[i] = input_at(7 * i);
  WeightTensor tensors[] = {{"fc.weight", "F32", 2, {10, 100}, w, sizeof w},
                            {"extra", "F32", 1, {3}, w, 12}};
  assert_int_equal(fill_from("w.st", tensors, 2, loaded, &report, &err), ExitOk);
  assert_true(report.filled == 1 && report.nunused == 1);
  assert_string_equal(report.unused[0], "extra");
  params_report_free(&report);
  set_input(loaded, 1);
  assert_int_equal(run_entry(loaded, "infer", &err), ExitOk);
  check_output(loaded, 1, w);
  tensors[0].shape[0] = 100, tensors[0].shape[1] = 10;
  assert_int_equal(fill_from("w.st", tensors, 2, loaded, NULL, &err), ExitBadInput);
  snprintf(message, sizeof message,
           "weights '%s': tensor 'fc.weight' is 100x10, the model (small.lua:1) needs 10x100",
           temp_path("w.st"));
  assert_string_equal(err.message, message);
  tensors[0].name = "module.fc.weight";
  assert_int_equal(fill_from("w.st", tensors, 1, loaded, NULL, &err), ExitBadInput);
  snprintf(message, sizeof message,
           "weights '%s': no tensor 'fc.weight' (10x100, small.lua:1); did you mean "
           "'module.fc.weight'?",
           temp_path("w.st"));
  assert_string_equal(err.message, message);
  load_close(loaded);
}

// ---- runs --------------------------------------------------------------------------------------

static void runs(void **state) {
  (void)state;
  float p[SmallCount];
  Error err = {0};
  Loaded *loaded = load();
  fill(loaded, 3, p);
  for (int i = 1; i < 4; i++) {
    set_input(loaded, (float)i);
    assert_int_equal(load_poison(loaded, &err), ExitOk);
    heap_fail_after(0); // nothing is allocated while steps run
    assert_int_equal(run_entry(loaded, "infer", &err), ExitOk);
    heap_fail_after(-1);
    check_output(loaded, (float)i, p);
  }
  load_close(loaded);
}

static void loads_from_the_cache(void **state) {
  (void)state;
  Loaded *loaded = load();
  assert_int_equal(load_report(loaded)->cached + load_report(loaded)->compiled, 3);
  load_close(loaded);
  loaded = load();
  assert_int_equal(load_report(loaded)->cached, 3);
  load_close(loaded);
}

typedef struct Seen {
  int steps[8], count, stop_at;
} Seen;

static int on_step(void *user, int step, const PlanStep *what, double ms, Error *err) {
  Seen *seen = user;
  assert_ptr_equal(what, &plan->entries[1].steps[step]);
  assert_true(ms >= 0);
  seen->steps[seen->count++] = step;
  return step == seen->stop_at ? err_set(err, ExitMismatch, "step %d is off", step) : ExitOk;
}

static void steps_one_by_one(void **state) {
  (void)state;
  float p[SmallCount];
  Error err = {0};
  Loaded *loaded = load();
  Seen seen = {.stop_at = -1};
  fill(loaded, 4, p);
  set_input(loaded, 1);
  assert_int_equal(run_steps(loaded, "infer", on_step, &seen, &err), ExitOk);
  assert_int_equal(seen.count, 4);
  check_output(loaded, 1, p);
  seen = (Seen){.stop_at = 1};
  assert_int_equal(run_steps(loaded, "infer", on_step, &seen, &err), ExitMismatch);
  assert_string_equal(err.message, "step 1 is off");
  assert_int_equal(seen.count, 2);
  load_close(loaded);
}

static void replay_is_a_run(void **state) {
  (void)state;
  float p[SmallCount];
  Error err = {0};
  Replay *replay;
  Loaded *loaded = load();
  fill(loaded, 5, p);
  set_input(loaded, 1);
  if (replay_capture(loaded, "infer", &replay, &err)) fail_msg("%s", err.message);
  for (int i = 1; i < 5; i++) { // new inputs, the same graph
    set_input(loaded, (float)i);
    assert_int_equal(load_poison(loaded, &err), ExitOk);
    heap_fail_after(0);
    assert_int_equal(replay_run(replay, &err), ExitOk);
    heap_fail_after(-1);
    check_output(loaded, (float)i, p);
  }
  replay_close(replay);
  assert_int_equal(replay_capture(loaded, "none", &replay, &err), ExitUsage);
  assert_null(replay);
  load_close(loaded);
}

static void timings(void **state) {
  (void)state;
  float p[SmallCount];
  double ms[4] = {-1, -1, -1, -1};
  Error err = {0};
  Loaded *loaded = load();
  fill(loaded, 6, p);
  for (int graph = 0; graph < 2; graph++) {
    RunTiming timing;
    RunOptions options = {.warmup = 1, .repeat = 7, .graph = graph};
    assert_int_equal(run_time(loaded, "infer", &options, &timing, &err), ExitOk);
    assert_int_equal(timing.runs, 7);
    assert_true(timing.min > 0 && timing.min <= timing.median && timing.median <= timing.p99);
    assert_true(timing.p99 <= timing.max && timing.mean >= timing.min && timing.enqueue > 0);
    run_timing_free(&timing);
  }
  RunOptions options = {.warmup = 1, .repeat = 3};
  assert_int_equal(run_time_steps(loaded, "infer", &options, ms, &err), ExitOk);
  for (int i = 0; i < 4; i++) assert_true(ms[i] >= 0);
  load_close(loaded);
}

// ---- what does not fit -------------------------------------------------------------------------

static void out_of_memory(void **state) {
  (void)state;
  Error err = {0};
  Loaded *loaded;
  Plan *large = small_plan();
  large->entries[1].nsteps--; // without the copy into t
  PlanTensor *t = &large->tensors[SmallT];
  t->shape[0] = (int64_t)1 << 32, t->shape[1] = 1024;
  t->bytes = large->arena_bytes = (int64_t)1 << 44;
  assert_int_equal(load_plan(device, large, &jit, &loaded, &err), ExitNoDevice);
  assert_null(loaded);
  assert_memory_equal(err.message, "out of device memory: small needs 16384.00 GiB (", 48);
  assert_non_null(strstr(err.message, "the largest tensors: t 4294967296x1024 f32 16384.00 GiB "
                                      "(small.lua:1), "));
  plan_free(large);
}

static void too_much_shared_memory(void **state) {
  (void)state;
  Error err = {0};
  Loaded *loaded;
  char expected[600];
  Plan *large = small_plan();
  int most = device_info(device)->smem_per_block;
  large->kernels[1].smem = most + 16;
  assert_int_equal(load_plan(device, large, &jit, &loaded, &err), ExitNoDevice);
  snprintf(expected, sizeof expected,
           "kernel small__add (small.lua:2) needs %d bytes of shared memory per block, '%s' has "
           "%d; compile the model for this device",
           most + 16, device_info(device)->name, most);
  assert_string_equal(err.message, expected);
  plan_free(large);
}

// More shared memory than a kernel has without asking.
// The percentage of an SM's memory that was asked for as shared memory; -1: the driver's choice.
static int carveout(Loaded *loaded, int kernel) {
  const CUfunction_attribute asked = CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
  int percent = 0;
  CUresult rc = device->api.cuFuncGetAttribute(&percent, asked, loaded->functions[kernel]);
  assert_int_equal(rc, CUDA_SUCCESS);
  return percent;
}

static void large_shared_memory(void **state) {
  (void)state;
  enum { Bytes = 96 * 1024 };
  float p[SmallCount];
  Error err = {0};
  Loaded *loaded;
  if (device_info(device)->smem_per_block < Bytes) skip();
  Plan *large = small_plan();
  PlanKernel *kernel = &large->kernels[1];
  free(kernel->source);
  kernel->source =
      strdup("extern \"C\" __global__ void small__add(const float *a, const float *b, float *c) {\n"
             "  extern __shared__ float tile[];\n"
             "  int i = blockIdx.x * blockDim.x + threadIdx.x, at = 24 * 1024 - 1 - threadIdx.x;\n"
             "  if (i < 1000) tile[at] = 2.f * a[i];\n"
             "  if (i < 1000) c[i] = tile[at] + b[i];\n}\n");
  kernel->smem = Bytes;
  kernel->resident = 1;
  if (load_plan(device, large, &jit, &loaded, &err)) fail_msg("%s", err.message);
  int64_t asked = (int64_t)carveout(loaded, 1) * device_info(device)->smem_per_sm;
  assert_true(asked >= 100 * (Bytes + 1024) || carveout(loaded, 1) == 100);
  assert_int_equal(carveout(loaded, 0), -1);
  fill(loaded, 8, p);
  set_input(loaded, 1);
  if (run_entry(loaded, "infer", &err)) fail_msg("%s", err.message);
  check_output(loaded, 1, p);
  load_close(loaded);
  plan_free(large);
}

static void no_host_memory(void **state) {
  (void)state;
  int failed = 0;
  for (int n = 0; n < 80; n++) {
    Error err = {0};
    Loaded *loaded;
    heap_fail_after(n);
    int rc = load_plan(device, plan, &jit, &loaded, &err);
    heap_fail_after(-1);
    assert_true(!rc == !!loaded && (!rc || err.message[0]));
    failed += rc != 0;
    load_close(loaded);
  }
  assert_in_range(failed, 10, 70);
}

// The n-th driver call fails, for every n: an error is reported, nothing is left behind.
static int whole_run(Error *err) {
  Loaded *loaded = NULL;
  Params *params = NULL;
  Replay *replay = NULL;
  double ms[4];
  int rc = load_plan(device, plan, &jit, &loaded, err);
  if (!rc) rc = params_open(NULL, 1, &params, err);
  if (!rc) rc = params_fill(params, loaded, NULL, err);
  if (!rc) rc = run_entry(loaded, "infer", err);
  if (!rc) rc = run_steps(loaded, "infer", NULL, NULL, err);
  if (!rc) rc = replay_capture(loaded, "infer", &replay, err);
  if (!rc) rc = replay_run(replay, err);
  if (!rc) rc = run_time_steps(loaded, "infer", NULL, ms, err);
  replay_close(replay);
  params_close(params);
  load_close(loaded);
  return rc;
}

static void failing_calls(void **state) {
  (void)state;
  size_t before, after, total;
  int rc = ExitNoDevice, n = 0;
  device->api.cuMemGetInfo(&before, &total);
  for (; rc; n++) {
    Error err = {0};
    api_fail_after(n);
    rc = whole_run(&err);
    api_fail_after(-1);
    assert_true(!rc || (rc == ExitNoDevice && strstr(err.message, "failed: CUDA_ERROR_UNKNOWN")));
    CUstreamCaptureStatus capturing;
    assert_int_equal(device->api.cuStreamIsCapturing(device->stream, &capturing), 0);
    assert_int_equal(capturing, CU_STREAM_CAPTURE_STATUS_NONE);
    device->api.cuStreamSynchronize(device->stream);
  }
  assert_true(n > 40);
  device->api.cuMemGetInfo(&after, &total);
  if (device_info(device)->kind == DeviceSim) assert_int_equal(before, after);
}

// ---- ends --------------------------------------------------------------------------------------

static int prepare(void **state) {
  (void)state;
  device = open_device();
  plan = small_plan();
  static char cache[256];
  snprintf(cache, sizeof cache, "%s", temp_path("cache"));
  jit.cache_dir = cache;
  return 0;
}

static int clean(void **state) {
  (void)state;
  plan_free(plan);
  device_close(device);
  temp_remove();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(device_says_what_it_is),
      cmocka_unit_test(no_device),
      cmocka_unit_test(automatic),
      cmocka_unit_test(tensor_errors),
      cmocka_unit_test(parameters_that_a_file_lacks),
      cmocka_unit_test(parameters_of_a_file),
      cmocka_unit_test(runs),
      cmocka_unit_test(loads_from_the_cache),
      cmocka_unit_test(steps_one_by_one),
      cmocka_unit_test(replay_is_a_run),
      cmocka_unit_test(timings),
      cmocka_unit_test(out_of_memory),
      cmocka_unit_test(too_much_shared_memory),
      cmocka_unit_test(no_host_memory),
      cmocka_unit_test(large_shared_memory),
      cmocka_unit_test(failing_calls),
  };
  return cmocka_run_group_tests(tests, prepare, clean);
}
