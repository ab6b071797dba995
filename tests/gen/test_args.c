// test_args.c: what a kernel of a plan may take besides addresses of tensors: numbers, and tensor
// maps, which a kernel of sm_90 copies tiles by; and the attributes of its launch.
#include "support.h"

#include "nngen_runtime.h"

enum { kRows = 24, kColumns = 40, kTileRows = 8, kTileColumns = 16, kCount = kRows * kColumns };

// Each block copies a tile by the map, and stores value * scale + shift + large * factor.
static const char kSource[] =
    "#include \"lib/prim.cuh\"\n"
    "struct Smem { float tile[8 * 16]; Mbar bar; };\n"
    "extern \"C\" __global__ void tiles(float scale, const __grid_constant__ TensorMap map,\n"
    "                                 int shift, long long large, double factor, float *out) {\n"
    "  NN_SMEM(Smem, s);\n"
    "  const int x = blockIdx.x * 16, y = blockIdx.y * 8;\n"
    "  if (threadIdx.x == 0) { nn_mbar_init(&s.bar, 1); nn_mbar_init_fence(); }\n"
    "  nn_sync();\n"
    "  if (threadIdx.x == 0) {\n"
    "    nn_mbar_arrive_expect_tx(&s.bar, sizeof s.tile);\n"
    "    nn_tensor_load(s.tile, &map, x, y, &s.bar);\n"
    "  }\n"
    "  nn_mbar_wait(&s.bar, 0);\n"
    "  const int row = y + threadIdx.x / 16, column = x + threadIdx.x % 16;\n"
    "  if (row < 24 && column < 40)\n"
    "    out[row * 40 + column] = s.tile[threadIdx.x] * scale + shift + float(large * factor);\n"
    "}\n";

static PlanTensor matrix(const char *name, Role role, int64_t offset) {
  return (PlanTensor){.name = (char *)name, .role = role, .rank = 2, .shape = {kRows, kColumns},
                      .order = {0, 1}, .offset = offset, .bytes = kCount * 4, .value = -1,
                      .loc = ""};
}

static const PlanMap kMap = {.rank = 2, .extent = {kColumns, kRows}, .stride = {4, kColumns * 4},
                             .box = {kTileColumns, kTileRows}};

// A plan of one kernel, with the headers of `made`.
typedef struct Ours {
  Plan plan;
  PlanTensor tensors[2];
  PlanScalar scalars[4];
  PlanMap map;
  PlanArg args[6];
  PlanKernel kernel;
  PlanStep step;
  PlanEntry entry;
} Ours;

static void make_plan(Ours *o, const Plan *made) {
  enum { Bytes = (kCount * 4 + 255) / 256 * 256 };
  *o = (Ours){.plan = *made,
              .tensors = {matrix("in", RoleInput, 0), matrix("out", RoleOutput, Bytes)},
              .scalars = {{DtF32, 0.5}, {DtI32, -7}, {DtI64, 0x1p40}, {DtF64, 0x1p-42}},
              .map = kMap,
              .step = {.kind = StepLaunch}};
  PlanArg args[6] = {{.name = "scale", .tensor = -1, .scalar = &o->scalars[0]},
                     {.name = "map", .tensor = 0, .map = &o->map},
                     {.name = "shift", .tensor = -1, .scalar = &o->scalars[1]},
                     {.name = "large", .tensor = -1, .scalar = &o->scalars[2]},
                     {.name = "factor", .tensor = -1, .scalar = &o->scalars[3]},
                     {.name = "out", .tensor = 1, .written = true}};
  memcpy(o->args, args, sizeof args);
  o->kernel = (PlanKernel){.name = "tiles", .layer = "tiles", .ops = "copy", .class_name = "move",
                           .tile = "8x16", .source = (char *)kSource, .names = "",
                           .file = "k00_tiles.cu", .loc = "", .grid = {3, 3, 1},
                           .block = {kTileRows * kTileColumns, 1, 1}, .smem = 1024,
                           .args = o->args, .nargs = 6};
  o->entry = (PlanEntry){.name = "infer", .steps = &o->step, .nsteps = 1};
  o->plan.tensors = o->tensors, o->plan.ntensors = 2;
  o->plan.kernels = &o->kernel, o->plan.nkernels = 1;
  o->plan.entries = &o->entry, o->plan.nentries = 1;
  o->plan.static_bytes = 2 * Bytes, o->plan.arena_bytes = o->plan.init_bytes = 0;
}

static void check_run(Device *device, const Plan *plan) {
  static float in[kCount], out[kCount];
  static Error err;
  Loaded *loaded;
  for (int i = 0; i < kCount; i++) in[i] = (float)(i % 97);
  if (load_plan(device, plan, &(JitOptions){0}, &loaded, &err)) fail_msg("%s", err.message);
  if (tensor_write_floats(loaded, 0, in, kCount, &err) || run_entry(loaded, "infer", &err) ||
      tensor_read_floats(loaded, 1, out, kCount, &err))
    fail_msg("%s", err.message);
  for (int i = 0; i < kCount; i++) assert_true(out[i] == in[i] * 0.5f - 7 + 0.25f);
  load_close(loaded);
}

// Two launches. The second may begin early, and waits; of its two blocks in a cluster each stores
// what the other one has in shared memory, and the cluster's size.
static const char kPairs[] =
    "#include \"lib/prim.cuh\"\n"
    "extern \"C\" __global__ void twice(const float *in, float *middle) {\n"
    "  nn_launch_dependents();\n"
    "  middle[blockIdx.x * 32 + threadIdx.x] = 2 * in[blockIdx.x * 32 + threadIdx.x];\n"
    "}\n"
    "struct Smem { float mine[32]; };\n"
    "extern \"C\" __global__ void pairs(const float *middle, float *out) {\n"
    "  NN_SMEM(Smem, s);\n"
    "  nn_wait_before();\n"
    "  s.mine[threadIdx.x] = middle[blockIdx.x * 32 + threadIdx.x];\n"
    "  nn_cluster_sync();\n"
    "  const int other = (nn_cluster_rank() + 1) % nn_cluster_size();\n"
    "  out[blockIdx.x * 32 + threadIdx.x] =\n"
    "      *nn_cluster_map(&s.mine[threadIdx.x], other) + 1000 * nn_cluster_size();\n"
    "  nn_cluster_sync();\n"
    "}\n";
enum { kBlocks = 30 }; // of 32 elements: all of a matrix

static void make_pairs(Ours *o, PlanKernel *kernels, PlanStep *steps, PlanTensor *tensors,
                       PlanAttributes *attributes) {
  static PlanArg args[4] = {{.name = "in", .tensor = 0},
                            {.name = "middle", .tensor = 2, .written = true},
                            {.name = "middle", .tensor = 2},
                            {.name = "out", .tensor = 1, .written = true}};
  *attributes = (PlanAttributes){.cluster = {2, 1, 1}, .early = true};
  memcpy(tensors, o->tensors, sizeof o->tensors);
  tensors[2] = matrix("middle", RoleTemp, 2 * o->tensors[1].offset);
  for (int i = 0; i < 2; i++) {
    kernels[i] = o->kernel;
    kernels[i].name = kernels[i].layer = i ? "pairs" : "twice";
    kernels[i].source = (char *)kPairs;
    kernels[i].file = "k00_pairs.cu";
    kernels[i].grid[0] = kBlocks, kernels[i].grid[1] = 1;
    kernels[i].block[0] = 32, kernels[i].smem = 128;
    kernels[i].args = args + 2 * i, kernels[i].nargs = 2;
    kernels[i].attributes = i ? attributes : NULL;
    steps[i] = (PlanStep){.kind = StepLaunch, .kernel = i};
  }
  o->entry = (PlanEntry){.name = "infer", .steps = steps, .nsteps = 2};
  o->plan.tensors = tensors, o->plan.ntensors = 3;
  o->plan.kernels = kernels, o->plan.nkernels = 2;
  o->plan.static_bytes = 3 * o->tensors[1].offset;
}

static Plan *through_json(const Plan *plan) {
  char *text = NULL;
  size_t length;
  Error err = {0};
  Plan *again;
  FILE *file = open_memstream(&text, &length);
  assert_int_equal(plan_write(plan, file, &err), ExitOk);
  fclose(file);
  if (plan_read(&again, text, length, &err)) fail_msg("%s", err.message);
  free(text);
  return again;
}

static Plan *headers; // a plan of a model, for its headers
static Device *device;

static void scalars_and_maps(void **state) {
  (void)state;
  Ours ours;
  make_plan(&ours, headers);
  if (strtol(device_info(device)->arch + 3, NULL, 10) < 90) skip(); // "sm_90a"
  check_run(device, &ours.plan);
  Plan *again = through_json(&ours.plan);
  check_run(device, again);
  plan_free(again);
}

static void attributes_of_launches(void **state) {
  (void)state;
  static float in[kCount], out[kCount];
  static Error err;
  Ours ours;
  PlanKernel kernels[2];
  PlanStep steps[2];
  PlanTensor tensors[3];
  PlanAttributes attributes;
  Loaded *loaded;
  make_plan(&ours, headers);
  make_pairs(&ours, kernels, steps, tensors, &attributes);
  if (strtol(device_info(device)->arch + 3, NULL, 10) < 90) skip();
  Plan *plan = through_json(&ours.plan);
  assert_true(plan->kernels[1].attributes->early && !plan->kernels[0].attributes);
  for (int i = 0; i < kCount; i++) in[i] = (float)(i % 97);
  if (load_plan(device, plan, &(JitOptions){0}, &loaded, &err)) fail_msg("%s", err.message);
  if (tensor_write_floats(loaded, 0, in, kCount, &err) || run_entry(loaded, "infer", &err) ||
      tensor_read_floats(loaded, 1, out, kCount, &err))
    fail_msg("%s", err.message);
  for (int i = 0; i < kCount; i++) assert_true(out[i] == 2 * in[i ^ 32] + 2000);
  load_close(loaded);
  plan_free(plan);
}

static void refused(void **state) {
  (void)state;
  static Error err;
  Ours o;
#define REFUSED(change, expected)                                                                  \
  make_plan(&o, headers), change, assert_int_equal(plan_check(&o.plan, &err), ExitBadInput),       \
      assert_string_equal(err.message, "plan: kernels[0]: " expected)
  PlanAttributes attributes = {.cluster = {3, 1, 1}};
  make_plan(&o, headers);
  o.kernel.attributes = &attributes;
  assert_int_equal(plan_check(&o.plan, &err), ExitOk);
  REFUSED(o.scalars[1].value = 0.5, "args[2].scalar is not f32, f64, i32 or i64");
  REFUSED(o.scalars[0].value = 0.1, "args[0].scalar is not f32, f64, i32 or i64");
  REFUSED(o.scalars[2].value = 0x1p60, "args[3].scalar is not f32, f64, i32 or i64");
  REFUSED(o.args[0].tensor = 0, "args[0] is a scalar and something else");
  REFUSED(o.args[0].written = true, "args[0] is a scalar and something else");
  REFUSED(o.args[1].tensor = 2, "args[1].tensor = 2 is not a tensor");
  REFUSED(o.map.offset = 8, "args[1].map is not a tensor map of its tensor");
  REFUSED(o.map.offset = -16, "args[1].map is not a tensor map of its tensor");
  REFUSED(o.map.offset = 16, "args[1].map is not a tensor map of its tensor"); // ends too late
  REFUSED(o.map.extent[1]++, "args[1].map is not a tensor map of its tensor");
  REFUSED(o.map.stride[1] = 168, "args[1].map is not a tensor map of its tensor");
  REFUSED(o.map.box[0] = 3, "args[1].map is not a tensor map of its tensor");
  REFUSED(o.map.swizzle = 32, "args[1].map is not a tensor map of its tensor");
  REFUSED(o.map.swizzle = 48, "args[1].map is not a tensor map of its tensor");
  REFUSED(o.map.rank = 6, "args[1].map is not a tensor map of its tensor");
  attributes.cluster[0] = 2;
  REFUSED(o.kernel.attributes = &attributes,
          "attributes.cluster[0] = 2 does not divide the grid's 3, or is not from 1 to 8");
  attributes = (PlanAttributes){.cluster = {3, 3, 1}};
  REFUSED(o.kernel.attributes = &attributes, "9 blocks in a cluster, most is 8");
}

int main(void) {
  static Compiler c;
  static Error err;
  Options o = {
      .model = "models/mlp.lua", .lowering = "fused", .dtype = "fp32", .arch = arch_default()};
  const char *name = getenv("NNGEN_DEVICE");
  DeviceOptions where = {0};
  if (!device_parse(name ? name : "sim", &where.kind) || compile_model(&c, &o, &err) ||
      device_open(&where, &device, &err)) {
    printf("Bail out! %s\n", err.message);
    return 1;
  }
  headers = plan_build(&c);
  const struct CMUnitTest tests[] = {cmocka_unit_test(scalars_and_maps),
                                     cmocka_unit_test(attributes_of_launches),
                                     cmocka_unit_test(refused)};
  int failed = cmocka_run_group_tests_name("args", tests, NULL, NULL);
  device_close(device);
  plan_free(headers);
  compile_close(&c);
  return failed;
}
