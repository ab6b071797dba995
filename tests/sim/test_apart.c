// test_apart.c: kernels, the program and other modules keep apart: names, templates, rounding
// modes, locks, misaligned vectors; and every atomic that changes nothing lets the others run.
#include "tests/sim/device.h"

#include <fenv.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 64 };

static CUmodule template_module(const char *tile) {
  static const char *source = "template <class T> __device__ T scale = 1;\n"
                              "template <class T> __global__ void k(T *out) {\n"
                              "  __shared__ T s[TILE];\n"
                              "  for (int i = threadIdx.x; i < TILE; i += 64) s[i] = i;\n"
                              "  __syncthreads();\n"
                              "  out[threadIdx.x] = s[TILE - 1 - threadIdx.x] * scale<T>;\n"
                              "  __syncthreads();\n"
                              "  if (threadIdx.x == 0) scale<T> = TILE;\n"
                              "}\n"
                              "template __global__ void k<float>(float *);\n";
  nvrtcProgram program;
  size_t bytes;
  assert_int_equal(nvrtcCreateProgram(&program, source, "tile.cu", 0, NULL, NULL), 0);
  assert_int_equal(nvrtcAddNameExpression(program, "k<float>"), 0);
  assert_int_equal(nvrtcCompileProgram(program, 2, (const char *[]){device_arch(), tile}), 0);
  assert_int_equal(nvrtcGetCUBINSize(program, &bytes), 0);
  char *image = malloc(bytes);
  assert_int_equal(nvrtcGetCUBIN(program, image), 0);
  CUmodule module;
  OK(cuModuleLoadData(&module, image));
  free(image);
  assert_int_equal(nvrtcDestroyProgram(&program), 0);
  return module;
}

static void expect_first(CUmodule module, const char *name, float want) {
  float x[kThreads] = {0};
  CUdeviceptr px = device_upload(x, sizeof x);
  CUfunction f;
  OK(cuModuleGetFunction(&f, module, name));
  OK(device_run(f, 1, kThreads, 0, (void *[]){&px}));
  OK(cuMemcpyDtoH(x, px, sizeof x));
  OK(cuMemFree(px));
  if (!(x[0] == want)) fail_msg("%s gave %g, not %g", name, (double)x[0], (double)want);
}

// Two modules instantiate the same template, with shared memory of different sizes.
static void test_templates(void **state) {
  (void)state;
  CUmodule small = template_module("-DTILE=64"), large = template_module("-DTILE=12000");
  expect_first(small, "_Z1kIfEvPT_", 63);
  expect_first(large, "_Z1kIfEvPT_", 11999);
  expect_first(small, "_Z1kIfEvPT_", 63 * 64);
  OK(cuModuleUnload(small));
  expect_first(large, "_Z1kIfEvPT_", 11999.f * 12000.f);
  OK(cuModuleUnload(large));
}

static void test_names(void **state) {
  (void)state;
  CUmodule module = device_module(
      "__device__ int environ = 5, time = 6;\n"
      "extern \"C\" __global__ void k(float *out) { out[threadIdx.x] = environ + time; }\n");
  expect_first(module, "k", 11);
}

static void test_rounding(void **state) {
  (void)state;
  CUmodule module =
      device_module("extern \"C\" __global__ void k(float *out) { out[threadIdx.x] = 1.f / 3.f + "
                    "out[threadIdx.x]; }\n"
                    "extern \"C\" __global__ void zero(float *out) { out[threadIdx.x] = 1.f / "
                    "out[threadIdx.x]; }\n");
  fesetround(FE_UPWARD);
  feenableexcept(FE_DIVBYZERO);
  expect_first(module, "k", 0x1.555556p-2f);
  expect_first(module, "zero", INFINITY);
  assert_int_equal(fegetround(), FE_UPWARD);
  assert_int_equal(fegetexcept(), FE_DIVBYZERO);
  fedisableexcept(FE_DIVBYZERO);
  fesetround(FE_TONEAREST);
}

// Thread 0 waits for thread 40 of another warp.
static void test_waits(void **state) {
  (void)state;
  static const char *const reads[] = {"atomicOr(p, 0)",  "atomicAnd(p, ~0)",      "atomicXor(p, 0)",
                                      "atomicMax(p, 0)", "atomicMin(p, 1 << 30)", "atomicSub(p, 0)",
                                      "atomicAdd(p, 0)", "atomicCAS(p, 0, 0)"};
  for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
    char source[512];
    snprintf(source, sizeof source,
             "extern \"C\" __global__ void k(float *out) {\n"
             "  int *p = (int *)out + 1;\n"
             "  if (threadIdx.x == 0) while (%s == 0) ;\n"
             "  if (threadIdx.x == 40) atomicAdd(p, 7);\n"
             "  if (threadIdx.x == 0) out[0] = 3;\n"
             "}\n",
             reads[i]);
    expect_first(device_module(source), "k", 3);
  }
}

// Shared memory and registers that nobody wrote are NaN, or so large that no result hides it.
static void test_unwritten(void **state) {
  (void)state;
  if (on_gpu()) skip(); // where they are what was there before
  static const char *const sources[] = {"extern \"C\" __global__ void k(float *out) {\n"
                                        "  __shared__ float s[64];\n"
                                        "  out[threadIdx.x] = s[threadIdx.x];\n"
                                        "}\n",
                                        "extern \"C\" __global__ void k(float *out) {\n"
                                        "  float r[8];\n"
                                        "  if (threadIdx.x > 100) r[threadIdx.x % 8] = 1;\n"
                                        "  out[threadIdx.x] = r[(threadIdx.x + 1) % 8];\n"
                                        "}\n"};
  for (int i = 0; i < 2; i++) {
    float x[kThreads] = {0};
    CUdeviceptr px = device_upload(x, sizeof x);
    OK(device_run(device_function(sources[i], "k"), 1, kThreads, 0, (void *[]){&px}));
    OK(cuMemcpyDtoH(x, px, sizeof x));
    for (int t = 0; t < kThreads; t++) assert_false(fabsf(x[t]) < 1e30f);
  }
}

static void expect_fault(const char *source, CUresult want) {
  pid_t child = fork(); // an error stays
  if (child == 0) {
    float x[kThreads] = {0};
    if (!device_open()) _exit(2);
    CUdeviceptr px = device_upload(x, sizeof x);
    CUresult r = device_run(device_function(source, "k"), 40, 32, 128, (void *[]){&px});
    printf("stdout can be written\n");
    fflush(stdout);
    _exit(r == want ? 0 : 1);
  }
  int status;
  alarm(120);
  assert_int_equal(waitpid(child, &status, 0), child);
  alarm(0);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_misaligned_vector(void **state) {
  (void)state;
  expect_fault("extern \"C\" __global__ void k(float *x) {\n"
               "  *(float4 *)(x + 2) = *(float4 *)(x + 5);\n"
               "}\n",
               CUDA_ERROR_MISALIGNED_ADDRESS);
}

// The host would not mind: the checks that see every access do.
static void test_misaligned_scalar(void **state) {
  (void)state;
  setenv("NNGEN_SIM_CHECK", "race", 1);
  expect_fault("extern \"C\" __global__ void k(float *x) {\n"
               "  double *p = (double *)(x + 1);\n"
               "  p[threadIdx.x % 8] += 1;\n"
               "}\n",
               CUDA_ERROR_MISALIGNED_ADDRESS);
  unsetenv("NNGEN_SIM_CHECK");
}

// What lies behind is not the host's.
static void test_static_shared_overrun(void **state) {
  (void)state;
  if (on_gpu()) skip(); // which need not notice
  CXX_ONLY("dynamic shared memory begins where PTX's static one ends");
  expect_fault("extern \"C\" __global__ void k(float *x) {\n"
               "  __shared__ float s[64];\n"
               "  s[threadIdx.x + (blockIdx.x == 7 ? 64 : 0)] = 1;\n"
               "  __syncthreads();\n"
               "  x[threadIdx.x] = s[threadIdx.x + 32];\n"
               "}\n",
               CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_dynamic_shared_overrun(void **state) {
  (void)state;
  if (on_gpu()) skip();
  expect_fault("extern __shared__ float s[];\n"
               "extern \"C\" __global__ void k(float *x) {\n"
               "  s[threadIdx.x + (blockIdx.x == 7)] = 1;\n"
               "  x[threadIdx.x] = s[threadIdx.x];\n"
               "}\n",
               CUDA_ERROR_ILLEGAL_ADDRESS);
  expect_fault("extern __shared__ float s[];\n"
               "extern \"C\" __global__ void k(float *x) {\n"
               "  s[int(threadIdx.x) - (blockIdx.x == 7)] = 1;\n"
               "  x[threadIdx.x] = s[threadIdx.x];\n"
               "}\n",
               CUDA_ERROR_ILLEGAL_ADDRESS);
}

// The lock of stdout is not held for ever.
static void test_fault_in_printf(void **state) {
  (void)state;
  expect_fault("extern \"C\" __global__ void k(float *x) {\n"
               "  if (threadIdx.x == 3) printf(\"%s\\n\", (const char *)(8 + blockIdx.x));\n"
               "}\n",
               CUDA_ERROR_ILLEGAL_ADDRESS);
}

static int setup(void **state) {
  return device_setup(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_misaligned_vector), // these fork, before any thread is made
      cmocka_unit_test(test_misaligned_scalar),      cmocka_unit_test(test_static_shared_overrun),
      cmocka_unit_test(test_dynamic_shared_overrun), cmocka_unit_test(test_fault_in_printf),
      cmocka_unit_test_setup(test_templates, setup), cmocka_unit_test_setup(test_names, setup),
      cmocka_unit_test_setup(test_rounding, setup),  cmocka_unit_test_setup(test_waits, setup),
      cmocka_unit_test_setup(test_unwritten, setup)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
