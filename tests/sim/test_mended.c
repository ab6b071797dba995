// test_mended.c: what foreign programs found: kernels that are right and were accused, and faults that
// were not seen, with all checks.
#include "tests/sim/device.h"

typedef struct Case {
  const char *name, *source;
  int threads;
  CUresult want;
  const char *report; // null: nothing is said
} Case;

#define KERNEL(text) "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nextern \"C\" __global__ void k(float *x) {\n" \
                     "  int t = threadIdx.x;\n" text "\n}\n"

static const Case cases[] = {
    {"shared halves",
     KERNEL("__shared__ half s[64]; s[t] = __float2half(t); __syncthreads(); x[t] = __half2float(s[63 - t]);"),
     64, CUDA_SUCCESS, NULL},
    {"shared pairs of halves",
     KERNEL("__shared__ half2 s[64]; s[t] = __float2half2_rn(t); __syncthreads(); x[t] = __low2float(s[63 - t]);"),
     64, CUDA_SUCCESS, NULL},
    {"shared bfloats",
     KERNEL("__shared__ __nv_bfloat16 s[64]; s[t] = __float2bfloat16(t); __syncthreads(); x[t] = __bfloat162float(s[63 - t]);"),
     64, CUDA_SUCCESS, NULL},
    {"a shared class with a constructor",
     "struct P { float a; __device__ P() {} __device__ P(float v) : a(v) {} };\n"
     "extern \"C\" __global__ void k(float *x) {\n  int t = threadIdx.x;\n"
     "  __shared__ P s[64]; s[t] = P(t); __syncthreads(); x[t] = s[63 - t].a;\n}\n",
     64, CUDA_SUCCESS, NULL},
    {"NULL", KERNEL("float *p = NULL; if (p == NULL) x[t] = 63 - t;"), 64, CUDA_SUCCESS, NULL},
    {"a shuffle from a lane that is not there",
     KERNEL("x[t] = __shfl_down_sync(0xffffffff, float(t), 8);"), 48, CUDA_ERROR_LAUNCH_FAILED,
     "shuffles from lane"},
    {"a shuffle from a lane that has exited",
     KERNEL("if (t == 5) return; x[t] = __shfl_sync(0xffffffff, float(t), 5);"), 32,
     CUDA_ERROR_LAUNCH_FAILED, "shuffles from lane 5"},
};

static void all_checks(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", "all", 1);
}

static void run(const void *user) {
  const Case *c = user;
  float got[64];
  CUfunction f = device_function(c->source, "k");
  CUdeviceptr x = device_upload(NULL, sizeof got);
  assert_non_null(freopen("build/mended", "w", stderr));
  CUresult r = device_run(f, 1, c->threads, 0, (void *[]){&x});
  fflush(stderr);
  char *said = file_read("build/mended");
  bool right = r == c->want && (c->report ? strstr(said, c->report) != NULL : !*said);
  if (right && r == CUDA_SUCCESS) {
    OK(cuMemcpyDtoH(got, x, sizeof got));
    for (int t = 0; t < c->threads; t++) right &= got[t] == (float)(63 - t);
  }
  if (!right) printf("# %s: %d: %s\n", c->name, r, said), fflush(stdout), _exit(1);
}

static void test_cases(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) device_child(all_checks, run, &cases[i]);
}

// ---- a barrier of the grid ----------------------------------------------------------------------

static const char grid_barrier[] =
    "extern \"C\" __global__ void k(float *x, unsigned *count) {\n"
    "  int t = threadIdx.x, n = blockDim.x, b = blockIdx.x, other = gridDim.x - 1 - b;\n"
    "  for (int turn = 1; turn < 4; turn++) {\n"
    "    x[b * n + t] = turn * 1000 + b * n + t;\n"
    "    __syncthreads();\n"
    "    if (t == 0) { __threadfence(); atomicAdd(count, 1); WAIT __threadfence(); }\n"
    "    __syncthreads();\n"
    "    float y = x[other * n + n - 1 - t];\n"
    "    __syncthreads();\n"
    "    if (t == 0) { __threadfence(); atomicAdd(count + 1, 1); AGAIN __threadfence(); }\n"
    "    __syncthreads();\n"
    "    x[b * n + t] = y;\n"
    "  }\n}\n";
static const char *const waits[] = {
    "#define WAIT while (*(volatile unsigned *)count < turn * gridDim.x) {}\n"
    "#define AGAIN while (*(volatile unsigned *)(count + 1) < turn * gridDim.x) {}\n",
    "#define WAIT while (atomicAdd(count, 0) < turn * gridDim.x) {}\n"
    "#define AGAIN while (atomicAdd(count + 1, 0) < turn * gridDim.x) {}\n",
};

static void run_grid(const void *user) {
  char source[4096];
  snprintf(source, sizeof source, "%s%s", (const char *)user, grid_barrier);
  enum { kBlocks = 4, kThreads = 64 };
  CUfunction f = device_function(source, "k");
  unsigned zeros[2] = {0};
  CUdeviceptr x = device_upload(NULL, kBlocks * kThreads * 4), count = device_upload(zeros, sizeof zeros);
  OK(cuLaunchCooperativeKernel(f, kBlocks, 1, 1, kThreads, 1, 1, 0, NULL, (void *[]){&x, &count}));
  OK(cuCtxSynchronize());
}

static void test_grid_barrier(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) device_child(all_checks, run_grid, waits[i]);
}

// ---- the rest of cuda.h -------------------------------------------------------------------------

static int called;
static void on_stream(CUstream stream, CUresult result, void *data) {
  (void)stream;
  called += result == CUDA_SUCCESS && data == &called;
}

static void test_calls(void **state) {
  (void)state;
  void *sim = sim_open(), *function = NULL;
  CUresult (*absent)(int) = (CUresult(*)(int))dlsym(sim, "cuArrayCreate_v2");
  assert_non_null(absent);
  assert_int_equal(absent(0), 801); // NOT_SUPPORTED
  OK(cuGetProcAddress("cuMipmappedArrayCreate", &function, 12000, 0, NULL));
  assert_non_null(function);
  CUresult (*add)(CUstream, void *, void *, unsigned) =
      (CUresult(*)(CUstream, void *, void *, unsigned))dlsym(sim, "cuStreamAddCallback");
  OK(add(NULL, (void *)on_stream, &called, 0));
  OK(cuCtxSynchronize());
  assert_int_equal(called, 1);
}

static void test_libraries(void **state) {
  (void)state;
  void *sim = sim_open();
  CUresult (*load)(CUmodule *, const void *, void *, void *, unsigned, void *, void *, unsigned);
  CUresult (*kernel)(CUfunction *, CUmodule, const char *);
  *(void **)&load = dlsym(sim, "cuLibraryLoadData");
  *(void **)&kernel = dlsym(sim, "cuLibraryGetKernel");
  char *image, *log;
  assert_int_equal(device_compile(cases[4].source, "a.cu", &image, &log), NVRTC_SUCCESS);
  CUmodule library;
  CUfunction f;
  OK(load(&library, image, NULL, NULL, 0, NULL, NULL, 0));
  OK(kernel(&f, library, "k"));
  CUdeviceptr x = device_upload(NULL, 256);
  OK(device_run(f, 1, 64, 0, (void *[]){&x}));
  free(image);
  free(log);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_grid_barrier),
                                     cmocka_unit_test_setup(test_calls, device_setup),
                                     cmocka_unit_test(test_libraries)};
  return cmocka_run_group_tests_name("test_mended", tests, NULL, NULL);
}
