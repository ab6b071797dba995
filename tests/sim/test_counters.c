// test_counters.c: libcusim's counters must match what kernels do: bytes, sectors, banks, floating-
// point operations, divergent branches (NNGEN_SIM_COUNT=1). Only on libcusim.
#include "tests/sim/device.h"

typedef struct Counters { // KernelCounters of libcusim
  uint64_t launches, blocks, threads, global_read, global_written;
  uint64_t distinct_read, distinct_written, shared_read, shared_written;
  uint64_t flops[3], barriers, meetings;
  uint64_t global_requests, global_sectors, global_ideal_sectors;
  uint64_t shared_requests, shared_wavefronts, bank_conflicts;
  uint64_t ops[3][4], branches, divergent_branches; // fp32, fp64, 16-bit: add, mul, fma, special
} Counters;

static Counters counters_of(CUfunction f) {
  CUresult (*counters)(CUfunction, Counters *, size_t);
  *(void **)&counters = dlsym(
      dlopen(getenv("CUSIM_LIBRARY") ? getenv("CUSIM_LIBRARY") : "build/libcusim.so", RTLD_NOW),
      "cusimKernelCounters");
  assert_non_null(counters);
  Counters c;
  OK(counters(f, &c, sizeof c));
  return c;
}

static void test_counters(void **state) {
  (void)state;
  CUfunction f = device_function("#include \"lib/prim.cuh\"\n"
                                 "extern \"C\" __global__ void k(const float *x, float *y) {\n"
                                 "  __shared__ float s[64]; int t = threadIdx.x;\n"
                                 "  s[t] = x[t]; nn_sync();\n"
                                 "  nn_store<4>(y + 4 * t, Vec<float, 4>{{s[t ^ 1], 0, 0, 0}});\n"
                                 "  unsigned a[4] = {}, b[2] = {}; float d[4] = {};\n"
                                 "  nn_mma_m16n8k16(d, a, b, bf16{}); if (d[0] > 1) y[0] = d[0];\n"
                                 "}\n",
                                 "k");
  float x[64] = {0};
  CUdeviceptr px = device_upload(x, sizeof x), py = device_upload(NULL, 4096);
  OK(device_run(f, 3, 64, 0, (void *[]){&px, &py}));
  Counters c = counters_of(f);
  assert_int_equal(c.launches, 1);
  assert_int_equal(c.blocks, 3);
  assert_int_equal(c.threads, 3 * 64);
  assert_int_equal(c.global_read, 3 * 64 * 4);
  assert_int_equal(c.global_written, 3 * 64 * 16);
  assert_int_equal(c.distinct_read, 64 * 4); // the three blocks read and write the same
  assert_int_equal(c.distinct_written, 64 * 16);
  assert_int_equal(c.shared_read, 3 * 64 * 4);
  assert_int_equal(c.shared_written, 3 * 64 * 4);
  assert_int_equal(c.flops[0], 3 * 2 * 2 * 16 * 8 * 16);
  assert_int_equal(c.barriers, 3 * 64);
  assert_int_equal(c.meetings, 3 * 64);
}

// One access by each lane of one warp; what it costs in sectors and wavefronts.
static Counters pattern(const char *access) {
  char source[1024];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "struct Smem { alignas(16) float x[4096]; };\n"
           "extern \"C\" __global__ void k(float *p, unsigned *out) {\n"
           "  NN_SMEM(Smem, s); int t = threadIdx.x; unsigned r[4] = {}; float y = 0;\n"
           "  for (int i = 0; i < 2; i++) { float *q = p + 1024 * i, *z = s.x + 1024 * i; (void)q; "
           "(void)z; %s; }\n"
           "  if (y == 12345.0f) out[0] = r[0]; (void)s; }\n",
           access);
  CUfunction f = device_function(source, "k");
  float x[4096] = {0};
  CUdeviceptr p = device_upload(x, sizeof x);
  OK(device_run(f, 1, 32, 16384, (void *[]){&p, &p}));
  OK(cuMemFree(p));
  return counters_of(f);
}

static void expect_global(const char *access, int requests, int sectors, int ideal) {
  Counters c = pattern(access);
  assert_int_equal(c.global_requests, requests);
  assert_int_equal(c.global_sectors, sectors);
  assert_int_equal(c.global_ideal_sectors, ideal);
}

static void test_sectors(void **state) {
  (void)state;
  CXX_ONLY("it reads one element of a vector of which one is used");
  expect_global("y += q[t]", 2, 8, 8);
  expect_global("y += q[t * 32]", 2, 64, 8);
  expect_global("y += q[0]", 2, 2, 8);
  expect_global("y += nn_load<4>(q + 4 * t)[1]", 2, 32, 32);
  expect_global("y += q[t * 2]", 2, 16, 8);
  expect_global("if (t < 16) y += q[t]", 2, 4, 4);
}

static void expect_shared(const char *access, int requests, int wavefronts, int conflicts) {
  Counters c = pattern(access);
  assert_int_equal(c.shared_requests, requests);
  assert_int_equal(c.shared_wavefronts, wavefronts);
  assert_int_equal(c.bank_conflicts, conflicts);
}

static void test_banks(void **state) {
  (void)state;
  expect_shared("z[t] = y", 2, 2, 0);
  expect_shared("z[t * 33] = y", 2, 2, 0);
  expect_shared("z[t * 32] = y", 2, 64, 62);
  expect_shared("z[t * 2] = y", 2, 4, 2);
  expect_shared("y += z[7]", 2, 2, 0);
  expect_shared("nn_store<4>(z + 4 * t, Vec<float, 4>{{y, y, y, y}})", 2, 8, 0);
  expect_shared("nn_ldmatrix_x4(r, z + 4 * t); y += r[0]", 2, 8, 0);
  expect_shared("nn_ldmatrix_x4(r, z + 32 * t); y += r[0]", 2, 64, 56);
}

// ---- operations and branches --------------------------------------------------------------------

enum { kWarps = 2, kBlocks = 3, kThreads = 32 * kWarps * kBlocks };

// Runs `body` in every thread; it sees t, the block's thread, and x, y, n = 10, none known to the
// compiler.
static Counters counted(const char *body) {
  char source[2048];
  snprintf(source, sizeof source,
           "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include \"lib/prim.cuh\"\n"
           "__device__ __noinline__ float repeat(float x, int n) {\n"
           "  for (int i = 0; i < n; i++) x = expf(x);\n"
           "  return x; }\n"
           "__device__ __noinline__ float nested(float x, int n) {\n"
           "  if (!n) return x;\n"
           "  x = nested(x, n - 1);\n"
           "  return x > 3 ? expf(x) : logf(x); }\n"
           "extern \"C\" __global__ void k(float *p, double *q, __half *h, int n) {\n"
           "  int t = threadIdx.x; float x = p[t], y = p[t + 64]; (void)x; (void)y;\n"
           "  %s\n}\n",
           body);
  CUfunction f = device_function(source, "k");
  double data[512] = {0};
  CUdeviceptr p = device_upload(data, sizeof data);
  int n = 10;
  OK(device_run(f, kBlocks, 32 * kWarps, 0, (void *[]){&p, &p, &p, &n}));
  OK(cuMemFree(p));
  return counters_of(f);
}

// What each thread does of one width: fma counts 2, whether the host has it or not.
static void expect_ops(const char *body, int width, int adds, int muls, int special) {
  static int calls; // of which the short run takes every second
  if (!device_few(calls++, 2)) return;
  Counters c = counted(body);
  for (int w = 0; w < 3; w++) {
    uint64_t fma = c.ops[w][2];
    bool wanted = w == width;
    assert_int_equal(c.ops[w][0] + fma, wanted ? adds * kThreads : 0);
    assert_int_equal(c.ops[w][1] + fma, wanted ? muls * kThreads : 0);
    assert_int_equal(c.ops[w][3], wanted ? special * kThreads : 0);
  }
}

static void test_operations(void **state) {
  (void)state;
  CXX_ONLY("of PTX, instructions are counted: test_ptx_counters");
  expect_ops("p[t] = t;", 0, 0, 0, 0);
  expect_ops("p[t] = x + y;", 0, 1, 0, 0);
  expect_ops("p[t] = x * y - x;", 0, 1, 1, 0);
  expect_ops("p[t] = fmaf(x, y, 1.5f);", 0, 1, 1, 0);
  expect_ops("p[t] = expf(x) / y;", 0, 0, 0, 2);
  expect_ops("p[t] = erff(x) + fmaxf(y, floorf(x));", 0, 1, 0, 1);
  expect_ops("for (int i = 0; i < n; i++) x = x * y + 1.0f; p[t] = x;", 0, 10, 10, 0);
  expect_ops("q[t] = q[t + 64] * q[t] + 1.0;", 1, 1, 1, 0);
  expect_ops("q[t] = pow(q[t], q[t + 64]) - sqrt(q[t]);", 1, 1, 0, 2);
  expect_ops("h[t] = __hadd(h[t], h[t + 64]);", 2, 1, 0, 0);
  expect_ops("h[t] = __hfma(h[t], h[t + 64], h[t]) * h[t] / h[t + 64];", 2, 1, 2, 1);
  expect_ops("h[t] = hexp(h[t]) - h[t];", 2, 1, 0, 1);
  expect_ops("half2 *v = (half2 *)h; v[t] = __hmul2(v[t], v[t + 64]);", 2, 0, 2, 0);
  expect_ops("__nv_bfloat16 *v = (__nv_bfloat16 *)h; v[t] += v[t + 64];", 2, 1, 0, 0);
  expect_ops("p[t] = __half2float(h[t]) * x;", 0, 0, 1, 0); // as on a GPU: in fp32
  expect_ops("p[t] = nn_warp_sum(x);", 0, 5, 0, 0);
  expect_ops("p[t] = nn_warp_max(x);", 0, 0, 0, 0);
}

// Work that depends on the thread: the loop of lane l runs l times.
static void test_operations_of_some(void **state) {
  (void)state;
  CXX_ONLY("of PTX, instructions are counted: test_ptx_counters");
  Counters c = counted("for (int i = 0; i < t % 32; i++) x += y; p[t] = x;");
  assert_int_equal(c.ops[0][0], kWarps * kBlocks * 31 * 32 / 2);
  assert_int_equal(c.ops[0][1], 0);
}

static void expect_branches(const char *body, int branches, int divergent) {
  static int calls; // of which the short run takes every second
  if (!device_few(calls++, 2)) return;
  Counters c = counted(body);
  assert_int_equal(c.branches, branches * kWarps * kBlocks);
  assert_int_equal(c.divergent_branches, divergent * kWarps * kBlocks);
}

static void test_branches(void **state) {
  (void)state;
  CXX_ONLY("of PTX, instructions are counted: test_ptx_counters");
  expect_branches("p[t] = x;", 0, 0);
  expect_branches("if (t & 1) p[t] = expf(x); else p[t] = logf(x);", 1, 1);
  expect_branches("if (t < 32) p[t] = expf(x); else p[t] = logf(x);", 1, 0);
  expect_branches("if (t % 32 >= n) return; p[t] = expf(x);", 1, 1);
  expect_branches("for (int i = 0; i < n; i++) x = expf(x); p[t] = x;", 11, 0);
  // Lane 0 leaves at the first test, lane l after l turns; at the last only lane 31 is left.
  expect_branches("for (int i = 0; i < t % 32; i++) x = expf(x); p[t] = x;", 32, 31);
  expect_branches("for (int i = 0; i < t % 32; i++) { x = expf(x); p[t] = x; }", 32, 31);
  // The branch of a block that calls a function, which branches, too.
  expect_branches("x = repeat(x, n); if (t & 1) p[t] = expf(x); else p[t] = logf(x);", 12, 1);
  expect_branches("x = repeat(x, t % 32); if (t & 1) p[t] = expf(x); else p[t] = logf(x);", 33, 32);
  // Blocks that call and then branch, twenty deep; the innermost call of the odd lanes alone.
  expect_branches("p[t] = nested(x, 20);", 41, 0);
  expect_branches("p[t] = nested(x, 19 + t % 2);", 41, 1);
  expect_branches("if (nn_warp_sum(x) > 3) p[t] = expf(x); __syncthreads();"
                  "p[t] = nn_shfl_xor(x, 1);",
                  1, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_counters),
                                     cmocka_unit_test(test_sectors),
                                     cmocka_unit_test(test_banks),
                                     cmocka_unit_test(test_operations),
                                     cmocka_unit_test(test_operations_of_some),
                                     cmocka_unit_test(test_branches)};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  setenv("NNGEN_SIM_COUNT", "1", 1);
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
