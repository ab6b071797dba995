// test_language.c: what NVRTC takes as CUDA C++ and libcusim therefore must: older standards.
// And what it does not take: one clear line says so. Only on libcusim.
#include "tests/sim/device.h"

// Compiles for this GPU; the image and the log are the caller's to free, the image null on failure.
static nvrtcResult compile(const char *source, const char *option, const char *expression,
                           char **image, char **log) {
  nvrtcProgram program;
  size_t bytes = 0;
  const char *options[] = {device_arch(), option};
  assert_int_equal(nvrtcCreateProgram(&program, source, "user.cu", 0, NULL, NULL), 0);
  if (expression) assert_int_equal(nvrtcAddNameExpression(program, expression), 0);
  nvrtcResult r = nvrtcCompileProgram(program, option ? 2 : 1, options);
  assert_int_equal(nvrtcGetProgramLogSize(program, &bytes), 0);
  *log = calloc(bytes + 1, 1);
  assert_int_equal(nvrtcGetProgramLog(program, *log), 0);
  *image = NULL;
  if (r == NVRTC_SUCCESS) {
    assert_int_equal(nvrtcGetCUBINSize(program, &bytes), 0);
    *image = malloc(bytes);
    assert_int_equal(nvrtcGetCUBIN(program, *image), 0);
  }
  assert_int_equal(nvrtcDestroyProgram(&program), 0);
  return r;
}

static const char *standard_source =
    "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    "template <class T> __device__ T twice(T x) { return x + x; }\n"
    "extern \"C\" __global__ void k(int *x) {\n"
    "  __shared__ int s[32]; s[threadIdx.x] = twice(x[threadIdx.x]); __syncthreads();\n"
    "  x[threadIdx.x] = s[31 - threadIdx.x] + int(__half2float(__float2half(1.0f))); }\n"
    "extern \"C\" __global__ void none() {}\n";

static void test_standards(void **state) {
  (void)state;
  static const char *const options[] = {"-std=c++03", "--std=c++11", "-std=c++14", "-std=c++17",
                                        "-std=c++20"};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    char *image, *log;
    CUmodule module;
    CUfunction k, none;
    int x[32];
    for (int j = 0; j < 32; j++) x[j] = j;
    if (compile(standard_source, options[i], NULL, &image, &log)) fail_msg("%s", log);
    OK(cuModuleLoadData(&module, image));
    OK(cuModuleGetFunction(&k, module, "k"));
    OK(cuModuleGetFunction(&none, module, "none"));
    CUdeviceptr p = device_upload(x, sizeof x);
    OK(device_run(k, 1, 32, 0, (void *[]){&p}));
    OK(device_run(none, 1, 32, 0, NULL));
    OK(cuMemcpyDtoH(x, p, sizeof x));
    for (int j = 0; j < 32; j++) assert_int_equal(x[j], 2 * (31 - j) + 1);
    OK(cuModuleUnload(module));
    free(image), free(log);
  }
}

static const char *warp_source =
    "extern \"C\" __global__ void k(int *x) {\n"
    "  __shared__ alignas(16) char a[3]; __shared__ char one;\n"
    "  __shared__ alignas(double4) char c[1]; c[0] = 2; x[64] = size_t(c) % 16 + c[0];\n"
    "  static __shared__ alignas(64) char b[5]; int t = threadIdx.x; a[0] = b[0] = one = 1;\n"
    "  x[t] = __shfl_down_sync(~0u, t, 40) + 100 * __shfl_up_sync(~0u, t, 33);\n"
    "  x[t] += 10000 * __shfl_xor_sync(~0u, t, 96 + 3) + 1000000 * __shfl_sync(~0u, t, 35);\n"
    "  x[32 + t] = __uni_sync(~0u, t < 32) + 10 * __uni_sync(~0u, t == 5);\n"
    "  x[32 + t] += 100 * __uni_sync(~0u, t > 40) + 1000 * (size_t(a) % 16) + (size_t(b) % 64);\n"
    "}\n";

static void test_warps_and_shared(void **state) {
  (void)state;
  CXX_ONLY("it takes no alignas behind `static __shared__`");
  int x[65];
  CUfunction k = device_function(warp_source, "k");
  CUdeviceptr p = device_upload(NULL, sizeof x);
  OK(device_run(k, 1, 32, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(x, p, sizeof x));
  for (int t = 0; t < 32; t++) {
    int down = t + 8 < 32 ? t + 8 : t, up = t ? t - 1 : t;
    assert_int_equal(x[t], down + 100 * up + 10000 * (t ^ 3) + 3000000);
    assert_int_equal(x[32 + t], 101);
  }
  assert_int_equal(x[64], 2);
}

static int count(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)); text += strlen(word)) n++;
  return n;
}

#define KERNEL(body) "extern \"C\" __global__ void k(int *x) {" body "}\n"

// The program does not compile, and its log has one error, with the text.
static void test_one_line(void **state) {
  (void)state;
  CXX_ONLY("it has what is refused, and messages of its own");
  static const struct {
    const char *source, *expression, *text;
  } cases[] = {
      {"\n" KERNEL("x[0] = 1; asm volatile(\"bar.sync 0;\");"), NULL, "user.cu:2:"},
      {KERNEL("asm(\"\" \"mov.u32 %0, 1;\" : \"=r\"(x[0]));"), NULL,
       "inline PTX (asm) is not there"},
      {"#include <cuda_fp8.h>\n", NULL, "no cuda_fp8.h"},
      {"template <class T> __global__ void t(T *x) {}\n", "t<flot>", "name expression t<flot>: "},
      {"template <int N> __global__ void t(int *x) {}\n", "s<3>", "name expression s<3>: "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char *image, *log;
    nvrtcResult r = compile(cases[i].source, NULL, cases[i].expression, &image, &log);
    if (r != NVRTC_ERROR_COMPILATION || count(log, ": error: ") != 1 || count(log, "\n") > 2 ||
        !strstr(log, cases[i].text))
      fail_msg("%d for %s\n%s", (int)r, cases[i].source, log);
    free(image), free(log);
  }
}

// PTX that is not used is no error; asm without text keeps memory accesses apart.
static void test_unused_ptx(void **state) {
  (void)state;
  OK(cuModuleUnload(device_module(
      "static __device__ inline void bar() { asm volatile(\"bar.sync 0;\" ::: \"memory\"); }\n"
      "template <int N> __device__ void sleep() { asm volatile(\"nanosleep.u32 %0;\" ::\"r\"(N)); "
      "}\n" KERNEL("x[0] = 1; asm volatile(\"\" ::: \"memory\"); x[0] = 2;"))));
}

static void test_printf(void **state) {
  (void)state;
  int x[4];
  CUfunction k = device_function(
      KERNEL("x[0] = printf(\"# %d %s %g\\n\", 1, \"two\", 3.0f); x[1] = printf(\"# none\\n\");"
             "const char *null = 0; x[2] = printf(null); x[3] = printf(\"%c\", '\\n');"),
      "k");
  CUdeviceptr p = device_upload(NULL, sizeof x);
  OK(device_run(k, 1, 1, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(x, p, sizeof x));
  assert_true(x[0] == 3 && x[1] == 0 && x[2] == -1 && x[3] == 1);
}

// The last test: the fault stays.
static void test_misaligned_atomic(void **state) {
  (void)state;
  int x[4] = {0};
  CUfunction k = device_function(KERNEL("atomicAdd((int *)((char *)x + 2), 1);"), "k");
  CUdeviceptr p = device_upload(x, sizeof x);
  assert_int_equal(device_run(k, 1, 1, 0, (void *[]){&p}), CUDA_ERROR_MISALIGNED_ADDRESS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_standards), cmocka_unit_test(test_warps_and_shared),
      cmocka_unit_test(test_one_line),  cmocka_unit_test(test_unused_ptx),
      cmocka_unit_test(test_printf),    cmocka_unit_test(test_misaligned_atomic)};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
