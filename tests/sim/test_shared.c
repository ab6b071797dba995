// test_shared.c: each kernel of a module is charged for the static shared memory that its own code
// reaches, by all checks and by both compilers that are here. Only on libcusim.
#include "tests/sim/device.h"

static const char *source =
    "#define BODY(s) s[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = s[31 - threadIdx.x];\n"
    "__shared__ float common[256];\n"
    "__device__ __noinline__ float sum(float v) {\n"
    "  __shared__ float part[512]; part[threadIdx.x] = v; __syncthreads(); return part[0]; }\n"
    "template <int N> __device__ float of(float v) {\n"
    "  __shared__ float part[N]; part[threadIdx.x] = v; __syncthreads(); return part[0]; }\n"
    "static __device__ float (*const table[2])(float) = {of<64>, of<128>};\n"
    "extern \"C\" {\n"
    "__global__ void first(float *x) { __shared__ float s[8192]; BODY(s) }\n"
    "__global__ void second(float *x) { __shared__ float s[8192]; BODY(s) }\n"
    "__global__ void none(float *x) { x[threadIdx.x] = 3; }\n"
    "__global__ void dynamic(float *x) { extern __shared__ float s[]; BODY(s) }\n"
    "__global__ void calls(float *x) { x[threadIdx.x] = sum(threadIdx.x); }\n"
    "__global__ void both(float *x) { x[threadIdx.x] = sum(threadIdx.x); BODY(common) }\n"
    "__global__ void made(float *x) { x[threadIdx.x] = of<96>(threadIdx.x); }\n"
    "__global__ void points(float *x, int i) { x[threadIdx.x] = table[i & 1](threadIdx.x); }\n"
    "}\n";

static const struct {
  const char *name;
  int bytes;
  unsigned dynamic;
} kernels[] = {{"first", 32768, 0}, {"second", 32768, 0}, {"none", 0, 0},   {"dynamic", 0, 49152},
               {"calls", 2048, 0},  {"both", 3072, 0},    {"made", 384, 0}, {"points", 768, 0}};

static void check_kernel(CUmodule module, int k, CUdeviceptr p) {
  CUfunction f;
  int bytes, most, blocks, i = 1;
  OK(cuModuleGetFunction(&f, module, kernels[k].name));
  OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
  if (bytes != kernels[k].bytes) fail_msg("%s: %d bytes", kernels[k].name, bytes);
  OK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
  assert_int_equal(most, 49152 - bytes);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 32, 0));
  assert_int_equal(blocks, bytes == 32768 ? 6 : 32);
  OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, kernels[k].dynamic, NULL, (void *[]){&p, &i}, NULL));
  OK(cuCtxSynchronize());
  OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (227 << 10) - bytes));
}

static void check_all(const void *user) {
  (void)user;
  char *image, *log;
  CUmodule module;
  if (device_compile(source, "shared.cu", &image, &log)) fail_msg("%s", log);
  OK(cuModuleLoadData(&module, image));
  CUdeviceptr p = device_upload(NULL, 128);
  for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) check_kernel(module, (int)k, p);
  free(image), free(log);
}

static void set(const void *user) {
  const char *const *setting = user; // a variable and its value
  setenv(setting[0], setting[1], 1);
}

static void test_case(void **state) {
  device_child(set, check_all, *state);
}

int main(void) {
  static const char *settings[][2] = {{"NNGEN_SIM_CHECK", "basic"},
                                      {"NNGEN_SIM_CHECK", "all"},
                                      {"NNGEN_SIM_COUNT", "1"},
                                      {"NNGEN_CXX", "clang++"}};
  struct CMUnitTest tests[4];
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  int count = system("clang++ --version >/dev/null 2>&1") ? 3 : 4;
  for (int i = 0; i < count; i++)
    tests[i] = (struct CMUnitTest){settings[i][1], test_case, NULL, NULL, settings[i]};
  return _cmocka_run_group_tests("shared", tests, (size_t)count, NULL, NULL);
}
