// test_kernels.c: which kernels a module has, under which names, and their launch bounds:
// templates, overloads, specialisations, namespaces. The same on a GPU.
#include "tests/sim/device.h"

typedef struct Kernel {
  const char *name; // the linker's
  int threads;      // most in a block
  int result;       // what it writes to x[0]
} Kernel;

static const char *source =
    "template <int A, int B> struct Traits { static constexpr int threads = A * B; };\n"
    "enum Shape { kWide = 320 };\n"
    "template <class T> __global__ void __launch_bounds__(96, 2) k(T *x) { x[0] = 1; }\n"
    "template __global__ void k<float>(float *);\n"
    "template\n__global__ void k(double *);\n"
    "template <> __global__ void k<int>(int *x) { x[0] = 2; }\n"
    "template <class T, int N = 2 * (3 > 2)>\n"
    "__global__ void __launch_bounds__(N * 32) sized(T *x, T y = T(3)) { x[0] = y; }\n"
    "template __global__ void sized<int>(int *, int);\n"
    "template __global__ void sized<int, 5>(int *x, int y);\n"
    "template <int N> __global__ void __launch_bounds__(N) sized(float *x) { x[0] = N; }\n"
    "template __global__ void sized<64>(float *);\n"
    "template <template <class, int> class H, class... A>\n"
    "void __global__ __launch_bounds__((Traits<4, 16>::threads), 1) held(int *x, A... a) {\n"
    "  x[0] = sizeof...(a); }\n"
    "template <class T, int N> struct Held {};\n"
    "template __global__ void held<Held, int, float>(int *, int, float);\n"
    "__global__ void __launch_bounds__(Traits<8, 16>::threads, 2) comma(int *x) { x[0] = 4; }\n"
    "__global__ void __launch_bounds__(sizeof(int) < 3 ? 32 : 160) less(int *x) { x[0] = 5; }\n"
    "__global__ void __launch_bounds__(192) early(int *);\n"
    "__global__ void __launch_bounds__(192) early(int *x);\n"
    "__global__ void early(int *out) { out[0] = 6; }\n"
    "__global__ void early(float *out) { out[0] = 7; }\n"
    "namespace a { namespace {\n"
    "constexpr int kThreads = 224;\n"
    "}\n"
    "struct Data { int *x; };\n"
    "__global__ __launch_bounds__(kThreads) void inside(Data d) { d.x[0] = 8; }\n"
    "template <class T> __global__ __launch_bounds__(kThreads) void k(T d) { d.x[0] = 9; }\n"
    "template __global__ void k<Data>(Data);\n"
    "namespace b { template <class T> __global__ void deep(T *x) { x[0] = 10; } }\n"
    "template __global__ void b::deep<unsigned>(unsigned *);\n"
    "}\n"
    "template __global__ void a::b::deep<int>(int *);\n"
    "extern template __global__ void k<long>(long *);\n"
    "extern \"C\" {\n"
    "__global__ void __launch_bounds__(kWide) plain(int *x);\n"
    "__global__ void plain(int *x) { x[0] = 11; }\n"
    "}\n"
    "__launch_bounds__(288,\n 1) __global__ void before(int *x) { x[0] = 12; }\n"
    "template <int N> __launch_bounds__(N) __global__ void before(float *x) { x[0] = N; }\n"
    "template __global__ void before<32>(float *);\n"
    "#line 40\n"
    "extern \"C\" __global__ void __launch_bounds__(256,\n 1) single(int *x, const int n) {\n"
    "  x[0] = __LINE__ + n - n; }\n";

static const Kernel kernels[] = {
    {"_Z1kIfEvPT_", 96, 0x3f800000},
    {"_Z1kIdEvPT_", 96, 0},
    {"_Z1kIiEvPT_", 96, 2},
    {"_Z5sizedIiLi2EEvPT_S0_", 64, 3},
    {"_Z5sizedIiLi5EEvPT_S0_", 160, 3},
    {"_Z5sizedILi64EEvPf", 64, 0x42800000},
    {"_Z4heldI4HeldJifEEvPiDpT0_", 64, 2},
    {"_Z5commaPi", 128, 4},
    {"_Z4lessPi", 160, 5},
    {"_Z5earlyPi", 192, 6},
    {"_Z5earlyPf", 1024, 0x40e00000},
    {"_ZN1a6insideENS_4DataE", 224, 8},
    {"_ZN1a1kINS_4DataEEEvT_", 224, 9},
    {"_ZN1a1b4deepIjEEvPT_", 1024, 10},
    {"_ZN1a1b4deepIiEEvPT_", 1024, 10},
    {"plain", 320, 11},
    {"_Z6beforePi", 288, 12},
    {"_Z6beforeILi32EEvPf", 32, 0x42000000},
    {"single", 256, 42},
};

static int most_threads(CUfunction f) {
  int threads;
  OK(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
  return threads;
}

static void test_names(void **state) {
  (void)state;
  CUmodule module = device_module(source);
  CUdeviceptr p = device_upload((int[2]){0}, 8);
  int three = 3, x;
  float y = 1;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    const Kernel *k = &kernels[i];
    CUfunction f;
    if (cuModuleGetFunction(&f, module, k->name)) fail_msg("%s is not found", k->name);
    if (most_threads(f) != k->threads) fail_msg("%s: %d threads", k->name, most_threads(f));
    OK(device_run(f, 1, k->threads, 0, (void *[]){&p, &three, &y}));
    OK(cuMemcpyDtoH(&x, p, 4));
    if (x != k->result) fail_msg("%s gave %d", k->name, x);
    if (k->threads < 1024)
      assert_int_equal(device_run(f, 1, k->threads + 1, 0, (void *[]){&p, &three, &y}),
                       CUDA_ERROR_INVALID_VALUE);
  }
  CUfunction f; // neither in the image: it has the linker's names, of what was instantiated
  assert_int_equal(cuModuleGetFunction(&f, module, "comma"), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(cuModuleGetFunction(&f, module, "k<float>"), CUDA_ERROR_NOT_FOUND);
  assert_int_equal(cuModuleGetFunction(&f, module, "_Z1kIlEvPT_"), CUDA_ERROR_NOT_FOUND);
  OK(cuMemFree(p));
  OK(cuModuleUnload(module));
}

// ---- name expressions ---------------------------------------------------------------------------

static CUmodule module_of_expressions(const char *text, int count, const char *const *expressions,
                                      char (*lowered)[128]) {
  nvrtcProgram program;
  size_t bytes;
  const char *name;
  CUmodule module;
  assert_int_equal(nvrtcCreateProgram(&program, text, "names.cu", 0, NULL, NULL), 0);
  for (int i = 0; i < count; i++)
    assert_int_equal(nvrtcAddNameExpression(program, expressions[i]), 0);
  if (nvrtcCompileProgram(program, 1, (const char *[]){device_arch()})) {
    char log[4096];
    OK(nvrtcGetProgramLogSize(program, &bytes));
    if (bytes <= sizeof log) nvrtcGetProgramLog(program, log);
    fail_msg("%s", bytes <= sizeof log ? log : "long errors");
  }
  for (int i = 0; i < count; i++) {
    assert_int_equal(nvrtcGetLoweredName(program, expressions[i], &name), 0);
    snprintf(lowered[i], sizeof lowered[i], "%s", name);
  }
  assert_int_equal(nvrtcGetCUBINSize(program, &bytes), 0);
  char *image = malloc(bytes);
  assert_int_equal(nvrtcGetCUBIN(program, image), 0);
  OK(cuModuleLoadData(&module, image));
  free(image);
  nvrtcDestroyProgram(&program);
  return module;
}

static void test_bounds_of_expressions(void **state) {
  (void)state;
  static const struct {
    const char *expression;
    int threads;
  } cases[] = {{"k<float, 3>", 96},       {"a::k<a::Data>", 224}, {"&plain", 64},
               {"a::b::free<int>", 1024}, {"free<float>", 1024},  {"k<char, sizeof(int)>", 128},
               {"a::named", 32}};
  enum { kCount = sizeof cases / sizeof *cases };
  const char *expressions[kCount];
  char lowered[kCount][128];
  for (int i = 0; i < kCount; i++) expressions[i] = cases[i].expression;
  CUmodule module = module_of_expressions(
      "template <class T, int N> __global__ __launch_bounds__(32 * N) void k(T *x) { x[0] = N; }\n"
      "namespace a {\n"
      "struct Data { int *x; };\n"
      "template <class T> __global__ __launch_bounds__(224) void k(T d) { d.x[0] = 9; }\n"
      "namespace b { template <class T> __global__ void free(T *x) { x[0] = 1; } }\n"
      "__global__ void __launch_bounds__(32) named(int *x) { x[0] = 3; }\n"
      "}\n"
      "using namespace a::b;\n"
      "namespace c { template <class T> __global__ __launch_bounds__(64) void free(T *x) {} }\n"
      "__global__ void __launch_bounds__(64) plain(int *x) { x[0] = 2; }\n",
      kCount, expressions, lowered);
  for (int i = 0; i < kCount; i++) {
    CUfunction f;
    OK(cuModuleGetFunction(&f, module, lowered[i]));
    if (most_threads(f) != cases[i].threads)
      fail_msg("%s: %d threads", cases[i].expression, most_threads(f));
  }
  OK(cuModuleUnload(module));
}

// ---- many ---------------------------------------------------------------------------------------

static void test_many_kernels(void **state) {
  (void)state;
  enum { kMany = 520 };
  char *text = NULL, name[32];
  size_t bytes;
  FILE *f = open_memstream(&text, &bytes);
  for (int i = 0; i < kMany; i++)
    fprintf(f, "extern \"C\" __global__ void k%d(int *x) { x[0] = %d; }\n", i, i);
  fclose(f);
  CUmodule module = device_module(text);
  free(text);
  CUdeviceptr p = device_upload(NULL, 4);
  for (int i = 0, x = -1; i < kMany; i += 173) {
    CUfunction k;
    snprintf(name, sizeof name, "k%d", i);
    OK(cuModuleGetFunction(&k, module, name));
    OK(device_run(k, 1, 1, 0, (void *[]){&p}));
    OK(cuMemcpyDtoH(&x, p, 4));
    assert_int_equal(x, i);
  }
  OK(cuMemFree(p));
  OK(cuModuleUnload(module));
}

static void test_two_limits(void **state) {
  (void)state;
  char *image, *log;
  assert_int_equal(
      device_compile("__global__ void __maxnreg__(40) __launch_bounds__(64) k(int *x) { *x = 1; }",
                     "two.cu", &image, &log),
      NVRTC_ERROR_COMPILATION);
  assert_non_null(strstr(log, "cannot be applied to the same kernel"));
  free(log);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names), cmocka_unit_test(test_bounds_of_expressions),
      cmocka_unit_test(test_many_kernels), cmocka_unit_test(test_two_limits)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
