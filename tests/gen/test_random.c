// test_random.c: Philox4x32-10 against the known answers of Random123 (kat_vectors): the oracle's,
// and the kernels' on the device at hand.
#include "support.h"

#include <lauxlib.h>

#include "nngen_runtime.h"

static const uint32_t known[][10] = { // counter, key, result
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e,
     0xa20bc7c6, 0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
     0x5001e420, 0x24126ea1},
};
enum { kVectors = sizeof known / sizeof known[0] };

static void oracle(void **state) {
  (void)state;
  static Compiler c;
  static Error err;
  open_compiler(&c, &err, "fused", "fp32");
  for (int v = 0; v < kVectors; v++) {
    lua_getglobal(c.lua, "philox");
    for (int i = 0; i < 6; i++) lua_pushinteger(c.lua, known[v][i]);
    assert_int_equal(lua_pcall(c.lua, 6, 4, 0), LUA_OK);
    for (int i = 0; i < 4; i++)
      assert_int_equal((uint32_t)lua_tointeger(c.lua, i - 4), known[v][6 + i]);
    lua_pop(c.lua, 4);
  }
  compile_close(&c);
}

// One thread per vector; a plan of one kernel, whose input and output are the words as integers.
static const char kSource[] =
    "#include \"lib/prim.cuh\"\n#include \"lib/random.cuh\"\n"
    "extern \"C\" __global__ void known_answers(const int *__restrict__ in, "
    "int *__restrict__ out) {\n"
    "  const int *w = in + threadIdx.x * 6;\n"
    "  const Philox p = nn_philox(Philox{{unsigned(w[0]), unsigned(w[1]), "
    "unsigned(w[2]), unsigned(w[3])}},\n"
    "                             unsigned(w[4]), unsigned(w[5]));\n"
    "  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = int(p.word[i]);\n}\n";

static void kernels(void **state) {
  (void)state;
  static Compiler c;
  static Error err;
  Options o = {
      .model = "models/mlp.lua", .lowering = "fused", .dtype = "fp32", .arch = arch_default()};
  if (compile_model(&c, &o, &err)) fail_msg("%s", err.message);
  Plan *plan = plan_build(&c); // for its headers: one kernel of it is replaced by ours
  PlanTensor tensors[2] = {
      {.name = "in", .role = RoleInput, .dtype = DtI32, .rank = 1, .shape = {kVectors * 6},
       .bytes = kVectors * 24, .value = -1, .loc = ""},
      {.name = "out", .role = RoleOutput, .dtype = DtI32, .rank = 1, .shape = {kVectors * 4},
       .offset = 256, .bytes = kVectors * 16, .value = -1, .loc = ""}};
  PlanArg args[2] = {{.name = "in", .tensor = 0},
                     {.name = "out", .tensor = 1, .written = true}};
  PlanKernel kernel = {.name = "known_answers", .layer = "philox", .ops = "draw",
                       .class_name = "map", .tile = "", .source = (char *)kSource, .names = "",
                       .file = "k00_philox.cu", .loc = "", .grid = {1, 1, 1},
                       .block = {kVectors, 1, 1}, .args = args, .nargs = 2};
  PlanStep step = {.kind = StepLaunch};
  PlanEntry entry = {.name = "infer", .steps = &step, .nsteps = 1};
  Plan ours = *plan;
  ours.tensors = tensors, ours.ntensors = 2;
  ours.kernels = &kernel, ours.nkernels = 1;
  ours.entries = &entry, ours.nentries = 1;
  ours.static_bytes = 512, ours.arena_bytes = ours.init_bytes = 0;
  const char *name = getenv("NNGEN_DEVICE");
  DeviceOptions where = {0};
  assert_true(device_parse(name ? name : "sim", &where.kind));
  Device *device;
  Loaded *loaded;
  if (device_open(&where, &device, &err) ||
      load_plan(device, &ours, &(JitOptions){0}, &loaded, &err))
    fail_msg("%s", err.message);
  int32_t in[kVectors * 6], out[kVectors * 4];
  for (int i = 0; i < kVectors * 6; i++) in[i] = (int32_t)known[i / 6][i % 6];
  if (tensor_write(loaded, 0, in, sizeof in, &err) || run_entry(loaded, "infer", &err) ||
      tensor_read(loaded, 1, out, sizeof out, &err))
    fail_msg("%s", err.message);
  for (int i = 0; i < kVectors * 4; i++)
    assert_int_equal((uint32_t)out[i], known[i / 4][6 + i % 4]);
  load_close(loaded);
  device_close(device);
  plan_free(plan);
  compile_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(oracle), cmocka_unit_test(kernels)};
  return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
