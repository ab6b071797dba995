// support.h: what the tests of the runtime share: a seeded generator, temporary folders, files,
// and a small plan that any device can run.
#ifndef NNGEN_TESTS_RUNTIME_SUPPORT_H
#define NNGEN_TESTS_RUNTIME_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/data.h"

// ---- random numbers: the seed is printed, NNGEN_SEED repeats a run -----------------------------

static uint64_t random_state;

__attribute__((unused)) static uint64_t random_next(void) { // xorshift64*
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 0x2545F4914F6CDD1Dull;
}

__attribute__((unused)) static void random_seed(const char *test) {
  const char *given = getenv("NNGEN_SEED");
  random_state = given ? strtoull(given, NULL, 10) : (uint64_t)getpid() * 2654435761u + 1;
  if (!random_state) random_state = 1;
  fprintf(stderr, "%s: NNGEN_SEED=%llu\n", test, (unsigned long long)random_state);
}

// ---- files -------------------------------------------------------------------------------------

__attribute__((unused)) static const char *
temp_dir(void) { // one per process, never removed by name
  static char dir[64];
  if (!dir[0]) {
    snprintf(dir, sizeof dir, "/tmp/nngen-test-XXXXXX");
    assert_non_null(mkdtemp(dir));
  }
  return dir;
}

__attribute__((unused)) static void temp_remove(void) {
  char command[192];
  snprintf(command, sizeof command, "chmod -R u+w %s; rm -rf %s", temp_dir(), temp_dir());
  assert_int_equal(system(command), 0);
}

__attribute__((unused)) static int temp_clean(void **state) { // ends a group of tests
  (void)state;
  temp_remove();
  return 0;
}

__attribute__((unused)) static const char *
temp_path(const char *name) { // valid until 16 calls later
  static char paths[16][256];
  static int next;
  char *path = paths[next++ % 16];
  snprintf(path, sizeof paths[0], "%s/%s", temp_dir(), name);
  return path;
}

__attribute__((unused)) static void write_bytes(const char *path, const void *bytes, size_t size) {
  unlink(path); // closing a truncated file waits for the disk: a thousand of them take long
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

__attribute__((unused)) static char *read_bytes(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char *bytes = malloc(*size + 1);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  bytes[*size] = 0;
  fclose(file);
  return bytes;
}

// ---- a plan: y = relu(2 x + w), w = -p made by init; zeros of y by memset; t = y at the end ----

// Tensors of the small plan, in order.
enum { SmallX, SmallY, SmallP, SmallW, SmallT, SmallTensors };
enum { SmallCount = 1000 };

__attribute__((unused)) static PlanTensor small_tensor(const char *name, Role role, Space space,
                                                       int64_t offset) {
  return (PlanTensor){.name = strdup(name),
                      .role = role,
                      .space = space,
                      .dtype = DtF32,
                      .rank = 2,
                      .shape = {10, 100},
                      .order = {0, 1},
                      .offset = offset,
                      .bytes = 4000,
                      .value = -1,
                      .init = role == RoleParam ? InitNormal : InitNone,
                      .init_b = 0.5,
                      .loc = strdup("small.lua:1")};
}

__attribute__((unused)) static PlanKernel small_kernel(const char *name, const char *body, int in,
                                                       int other, int out) {
  char source[1024], file[64];
  snprintf(source, sizeof source,
           "#include \"lib/small.cuh\"\n"
           "extern \"C\" __global__ void %s(const float *a, const float *b, float *c) {\n"
           "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
           "  if (i < kSmallCount) c[i] = %s;\n}\n",
           name, body);
  snprintf(file, sizeof file, "%s.cu", name);
  PlanArg *args = calloc(3, sizeof *args);
  args[0] = (PlanArg){.name = strdup("a"), .tensor = in, .written = false};
  args[1] = (PlanArg){.name = strdup("b"), .tensor = other, .written = false};
  args[2] = (PlanArg){.name = strdup("c"), .tensor = out, .written = true};
  return (PlanKernel){.name = strdup(name),
                      .layer = strdup(name),
                      .ops = strdup("mul+add"),
                      .class_name = strdup("map"),
                      .tile = strdup("128"),
                      .source = strdup(source),
                      .names = strdup("a b c"),
                      .file = strdup(file),
                      .loc = strdup("small.lua:2"),
                      .grid = {8, 1, 1},
                      .block = {128, 1, 1},
                      .flops = 2000,
                      .bytes_read = 8000,
                      .bytes_written = 4000,
                      .args = args,
                      .nargs = 3};
}

__attribute__((unused)) static PlanEntry small_entry(const char *name, int nsteps,
                                                     const PlanStep *steps) {
  PlanStep *copy = calloc((size_t)nsteps, sizeof *copy);
  memcpy(copy, steps, (size_t)nsteps * sizeof *copy);
  return (PlanEntry){strdup(name), copy, nsteps};
}

__attribute__((unused)) static Plan *small_plan(void) {
  Plan *plan = calloc(1, sizeof *plan);
  *plan = (Plan){.model = strdup("small"),
                 .lowering = strdup("fused"),
                 .dtype = strdup("fp32"),
                 .arch = strdup("sm_80"),
                 .static_bytes = 3 * 4096,
                 .arena_bytes = 4096,
                 .init_bytes = 4096,
                 .arena_bound = 4000};
  plan->tensors = calloc(plan->ntensors = SmallTensors, sizeof *plan->tensors);
  plan->tensors[SmallX] = small_tensor("x", RoleInput, SpaceStatic, 0);
  plan->tensors[SmallY] = small_tensor("y", RoleOutput, SpaceStatic, 4096);
  plan->tensors[SmallP] = small_tensor("fc.weight", RoleParam, SpaceInit, 0);
  plan->tensors[SmallW] = small_tensor("w", RoleTemp, SpaceStatic, 8192);
  plan->tensors[SmallT] = small_tensor("t", RoleTemp, SpaceArena, 0);
  plan->kernels = calloc(plan->nkernels = 3, sizeof *plan->kernels);
  plan->kernels[0] = small_kernel("small__neg", "-a[i] + 0.f * b[i]", SmallP, SmallP, SmallW);
  plan->kernels[1] = small_kernel("small__add", "2.f * a[i] + b[i]", SmallX, SmallW, SmallT);
  plan->kernels[2] =
      small_kernel("small__relu", "a[i] > 0.f ? b[i] : c[i]", SmallT, SmallT, SmallY);
  plan->entries = calloc(plan->nentries = 2, sizeof *plan->entries);
  plan->entries[0] = small_entry("init", 1, &(PlanStep){StepLaunch, 0, -1, -1});
  plan->entries[1] = small_entry("infer", 4,
                                 (PlanStep[]){{StepMemset, -1, -1, SmallY},
                                              {StepLaunch, 1, -1, -1},
                                              {StepLaunch, 2, -1, -1},
                                              {StepCopy, -1, SmallY, SmallT}});
  plan->headers = calloc(plan->nheaders = 1, sizeof *plan->headers);
  plan->headers[0] =
      (PlanHeader){strdup("lib/small.cuh"), strdup("enum { kSmallCount = 1000 };\n")};
  return plan;
}

// ---- a device: the simulator, or with NNGEN_DEVICE=cuda the GPU --------------------------------

__attribute__((unused)) static DeviceOptions device_options(void) {
  DeviceOptions options = {.kind = DeviceSim};
  const char *named = getenv("NNGEN_DEVICE");
  char path[600];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 40);
  assert_true(length > 0);
  path[length] = 0;
  strcpy(strstr(path, "/tests/runtime/"), "/libcusim.so"); // build/tests/runtime/test_x
  setenv("NNGEN_SIM", path, 0);
  if (named && *named) assert_true(device_parse(named, &options.kind));
  return options;
}

__attribute__((unused)) static Device *open_device(void) {
  Error err = {0};
  Device *device;
  DeviceOptions options = device_options();
  if (device_open(&options, &device, &err)) fail_msg("%s", err.message);
  return device;
}

#endif
