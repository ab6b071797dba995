// test_limits.c: registers and threads: what a kernel's attributes, the occupancy calls and
// launches say under the limits of the program and of the modelled GPU agrees. Only on libcusim.
#include "tests/sim/device.h"

typedef struct Case {
  const char *name, *attributes, *option; // of kernel k; of NVRTC, or null
  const char *file, *needs; // NNGEN_SIM_REGISTERS, NNGEN_SIM_KERNEL_REGISTERS, or null
  int registers, threads;   // NUM_REGS, MAX_THREADS_PER_BLOCK
  int blocks;               // of 256 threads (or of all it may have) on a multiprocessor
} Case;

static const Case cases[] = {
    {"nothing said", "", NULL, NULL, NULL, 32, 1024, 8},
    {"launch bounds", "__launch_bounds__(256)", NULL, NULL, NULL, 32, 256, 8},
    {"option", "", "-maxrregcount=24", NULL, NULL, 24, 1024, 8},
    {"option, below the lowest limit", "", "--maxrregcount=1", NULL, NULL, 24, 1024, 8},
    {"option above", "", "-maxrregcount=128", NULL, NULL, 32, 1024, 8},
    {"needs 40", "", NULL, NULL, "40", 40, 1024, 6},
    {"needs 65", "", NULL, NULL, "65", 65, 896, 3}, // given as 72
    {"needs 96", "", NULL, NULL, "96", 96, 640, 2}, // five warps in each part of an SM
    {"needs 128", "", NULL, NULL, "128", 128, 512, 2},
    {"needs more than there are", "", NULL, NULL, "1000", 255, 256, 1},
    {"needs 128, option", "", "-maxrregcount=64", NULL, "128", 64, 1024, 4},
    {"needs 128, attribute", "__maxnreg__(100)", NULL, NULL, "128", 100, 512, 2},
    {"needs 128, attribute over option", "__maxnreg__(80)", "-maxrregcount=64", NULL, "128", 80,
     768, 3},
    {"needs 255, launch bounds", "__launch_bounds__(384)", NULL, NULL, "255", 168, 384, 1},
    {"needs 255, bounds over option", "__launch_bounds__(512)", "-maxrregcount=64", NULL, "255",
     128, 512, 2},
    {"needs 255, blocks", "__launch_bounds__(320, 2)", NULL, NULL, "255", 96, 320, 2},
    {"needs 255, small blocks", "__launch_bounds__(64, 9)", NULL, NULL, "255", 96, 64, 10},
    {"needs 255, more blocks than can be", "__launch_bounds__(64, 1 << 30)", NULL, NULL, "255", 32,
     64, 32},
    {"half the registers", "", NULL, "32768", NULL, 16, 1024, 8},
    {"half the registers, needs 64", "", NULL, "32768", "64", 64, 512, 2},
    {"half the registers, needs 64, bounds", "__launch_bounds__(1024)", NULL, "32768", "64", 32,
     1024, 4},
    {"few registers", "", NULL, "4096", NULL, 8, 512, 2},
    {"fewer than the bounds need", "__launch_bounds__(1024)", NULL, "4096", NULL, 8, 512, 2},
};
enum { kCases = sizeof cases / sizeof *cases };

static CUfunction compile(const Case *c) {
  char source[256];
  const char *options[] = {device_arch(), c->option};
  nvrtcProgram program;
  size_t bytes;
  CUmodule module;
  CUfunction f;
  snprintf(source, sizeof source, "extern \"C\" __global__ void %s k(int *x) { x[0] = 1; }",
           c->attributes);
  assert_int_equal(nvrtcCreateProgram(&program, source, "k.cu", 0, NULL, NULL), 0);
  assert_int_equal(nvrtcCompileProgram(program, c->option ? 2 : 1, options), 0);
  assert_int_equal(nvrtcGetCUBINSize(program, &bytes), 0);
  char *image = malloc(bytes);
  assert_int_equal(nvrtcGetCUBIN(program, image), 0);
  OK(cuModuleLoadData(&module, image));
  free(image);
  nvrtcDestroyProgram(&program);
  OK(cuModuleGetFunction(&f, module, "k"));
  return f;
}

static void check(const void *user) {
  const Case *c = user;
  CUfunction f = compile(c);
  CUdeviceptr p = device_upload(NULL, 4);
  int registers, threads, blocks, grid, block, file;
  OK(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
  OK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
  OK(cuDeviceGetAttribute(&file, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 0));
  assert_int_equal(registers, c->registers);
  assert_int_equal(threads, c->threads);
  assert_true(registers * threads <= file);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, threads < 256 ? threads : 256, 0));
  if (threads == 320) OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 320, 0));
  if (threads == 384) OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 384, 0));
  assert_int_equal(blocks, c->blocks);
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, NULL, 0, 0));
  assert_true(block <= threads);
  OK(device_run(f, 1, threads, 0, (void *[]){&p}));
  OK(device_run(f, 1, block, 0, (void *[]){&p}));
  bool bounded = strstr(c->attributes, "launch_bounds") && strcmp(c->name, cases[kCases - 1].name);
  if (threads < 1024)
    assert_int_equal(device_run(f, 1, threads + 1, 0, (void *[]){&p}),
                     bounded ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  assert_int_equal(device_run(f, 1, 1025, 0, (void *[]){&p}), CUDA_ERROR_INVALID_VALUE);
  OK(cuCtxSynchronize()); // a launch that was refused leaves no error
}

static void set(const void *user) {
  const Case *c = user;
  if (c->file) setenv("NNGEN_SIM_REGISTERS", c->file, 1);
  if (c->needs) setenv("NNGEN_SIM_KERNEL_REGISTERS", c->needs, 1);
}

static void test_case(void **state) {
  device_child(set, check, *state);
}

int main(void) {
  struct CMUnitTest tests[kCases];
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  for (int i = 0; i < kCases; i++)
    tests[i] = (struct CMUnitTest){cases[i].name, test_case, NULL, NULL, (void *)&cases[i]};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
