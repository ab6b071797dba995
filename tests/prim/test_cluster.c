// test_cluster.c: the primitives of lib/prim_hopper.cuh against their definitions: clusters, copies
// that reduce, registers, early launches, stmatrix, products of warp groups of tf32 and of 8 bits.
// The same on libcusim, by both front ends, and on a GPU.
#include "tests/sim/device.h"

#include <math.h>

static const char head[] = "#include \"lib/prim.cuh\"\n"
                           "struct Smem { alignas(1024) unsigned char a[8192], b[32768]; "
                           "alignas(8) Mbar bar; alignas(16) int x[256]; };\n"
                           "extern \"C\" __global__ ";

enum { kSmem = 44 << 10 };

static CUfunction function(const char *source, const char *name) {
  static char text[16384];
  snprintf(text, sizeof text, "%s%s", head, source);
  return device_function(text, name);
}

// ---- clusters -----------------------------------------------------------------------------------

#define CLUSTER                                                                                    \
  "void __cluster_dims__(4, 1, 1) k(const int *in, int *out) {\n  NN_SMEM(Smem, s);\n"             \
  "  int t = threadIdx.x, rank = nn_cluster_rank(), next = (rank + 1) % nn_cluster_size();\n"
#define READY                                                                                      \
  "  if (t == 0) { nn_mbar_init(&s.bar, 1); nn_mbar_init_fence(); }\n  nn_cluster_sync();\n"
#define OUT "  out[blockIdx.x * 64 + t] = s.x[t];\n  nn_cluster_sync();\n}\n"

static const struct {
  const char *name, *source;
} clusters[] = { // each gives: of the next block of the cluster, its in[]
    {"shared memory of the next block",
     CLUSTER "  s.x[t] = in[blockIdx.x * 64 + t];\n  nn_cluster_arrive(); nn_cluster_wait();\n"
             "  int there = *nn_cluster_map(&s.x[t], next);\n  nn_cluster_sync();\n"
             "  s.x[t] = there;\n" OUT},
    {"stores into the one before, and its mbarrier",
     CLUSTER READY
     "  int before = (rank + 3) % 4;\n"
     "  *nn_cluster_map(&s.x[t], before) = in[blockIdx.x * 64 + t];\n  nn_sync();\n"
     "  if (t == 0) nn_mbar_arrive_at(&s.bar, before);\n  nn_mbar_wait_cluster(&s.bar, 0);\n" OUT},
    {"a bulk copy into the one before",
     CLUSTER READY
     "  s.x[64 + t] = in[blockIdx.x * 64 + t];\n  nn_fence_proxy_async(); nn_sync();\n"
     "  if (t == 0) { nn_mbar_arrive_expect_tx(&s.bar, 256);\n"
     "    nn_bulk_copy_to(s.x, (rank + 3) % 4, s.x + 64, 256, &s.bar); }\n"
     "  nn_mbar_wait(&s.bar, 0);\n" OUT},
    {"multicast: each block a quarter, to all",
     CLUSTER READY
     "  if (t == 0) { nn_mbar_arrive_expect_tx(&s.bar, 1024);\n"
     "    nn_bulk_load_many(s.x + 64 * rank, in + 64 * blockIdx.x, 256, &s.bar, 15); }\n"
     "  nn_mbar_wait(&s.bar, 0);\n  int there = s.x[64 * next + t];\n  nn_sync();\n"
     "  s.x[t] = there;\n" OUT},
};

static void test_clusters(void **state) {
  (void)state;
  enum { kBlocks = 8, kCount = 64 * kBlocks };
  int in[kCount], got[kCount];
  for (int i = 0; i < kCount; i++) in[i] = 1000 + 7 * i;
  CUdeviceptr from = device_upload(in, sizeof in), to = device_upload(NULL, sizeof got);
  for (size_t c = 0; c < sizeof clusters / sizeof *clusters; c++) {
    CUfunction f = function(clusters[c].source, "k");
    OK(device_run(f, kBlocks, 64, kSmem, (void *[]){&from, &to}));
    OK(cuMemcpyDtoH(got, to, sizeof got));
    for (int i = 0; i < kCount; i++) {
      int block = i / 64, next = block / 4 * 4 + (block + 1) % 4;
      if (got[i] != in[next * 64 + i % 64])
        fail_msg("%s: %d at %d, not %d", clusters[c].name, got[i], i, in[next * 64 + i % 64]);
    }
  }
  CUfunction f = function(clusters[0].source, "k"); // 6 blocks are no whole clusters
  assert_int_not_equal(device_run(f, 6, 64, kSmem, (void *[]){&from, &to}), CUDA_SUCCESS);
}

// ---- copies that reduce -------------------------------------------------------------------------

static void test_reductions(void **state) {
  (void)state;
  CUfunction f = function(
      "void k(float *x, int *y, f16 *z, bf16 *w, int *most) {\n  NN_SMEM(Smem, s);\n"
      "  float *a = reinterpret_cast<float *>(s.a); int *b = s.x;\n"
      "  f16 *c = reinterpret_cast<f16 *>(s.b); bf16 *d = reinterpret_cast<bf16 *>(s.b + 1024);\n"
      "  int t = threadIdx.x, v = t * (int(blockIdx.x) - 1);\n"
      "  a[t] = v; b[t] = v; c[t] = nn_cast<f16>(v); d[t] = nn_cast<bf16>(v);\n"
      "  nn_fence_proxy_async(); nn_sync();\n"
      "  if (t == 0) { nn_bulk_add(x, a, 256); nn_bulk_add(y, b, 256); nn_bulk_add(z, c, 128);\n"
      "    nn_bulk_add(w, d, 128); nn_bulk_max(most, b, 256); nn_bulk_commit(); "
      "nn_bulk_wait_read<0>(); nn_bulk_wait<0>(); }\n}\n", "k");
  float x[64] = {0};
  int y[64] = {0}, most[64] = {0};
  uint16_t z[64] = {0}, w[64] = {0};
  CUdeviceptr dx = device_upload(x, sizeof x), dy = device_upload(y, sizeof y),
              dz = device_upload(z, sizeof z), dw = device_upload(w, sizeof w),
              dm = device_upload(most, sizeof most);
  OK(device_run(f, 4, 64, kSmem, (void *[]){&dx, &dy, &dz, &dw, &dm}));
  OK(cuMemcpyDtoH(x, dx, sizeof x));
  OK(cuMemcpyDtoH(y, dy, sizeof y));
  OK(cuMemcpyDtoH(z, dz, sizeof z));
  OK(cuMemcpyDtoH(w, dw, sizeof w));
  OK(cuMemcpyDtoH(most, dm, sizeof most));
  for (int t = 0; t < 64; t++) { // -t + 0 + t + 2 t
    _Float16 half = (_Float16)(2 * t);
    float sum = (float)(2 * t);
    uint32_t bits;
    memcpy(&bits, &sum, 4);
    assert_true(x[t] == sum);
    assert_int_equal(y[t], 2 * t);
    assert_int_equal(most[t], 2 * t);
    assert_memory_equal(&z[t], &half, 2);
    assert_int_equal(w[t], bits >> 16);
  }
}

// ---- warps --------------------------------------------------------------------------------------

static void test_warps(void **state) {
  (void)state;
  CUfunction f = function(
      "void __maxnreg__(32) k(int *out) {\n  int chosen = nn_popc(nn_ballot(nn_elect()));\n"
      "  if (threadIdx.x < 128) { nn_registers_give<24>(); out[threadIdx.x] = chosen; }\n"
      "  else { nn_registers_take<40>(); out[threadIdx.x] = chosen + 1; }\n}\n", "k");
  int got[256];
  CUdeviceptr out = device_upload(NULL, sizeof got);
  OK(device_run(f, 1, 256, 0, (void *[]){&out}));
  OK(cuMemcpyDtoH(got, out, sizeof got));
  for (int t = 0; t < 256; t++) assert_int_equal(got[t], 1 + (t >= 128));
}

// Matrix m of the warp's, row i, column j holds 100 * m + 8 * i + j.
static void test_stmatrix(void **state) {
  (void)state;
  for (int count = 1; count <= 4; count *= 2)
    for (int trans = 0; trans < 2; trans++) {
      char source[1024];
      uint16_t got[4 * 64];
      snprintf(source, sizeof source,
               "void k(unsigned short *out) {\n  NN_SMEM(Smem, s);\n"
               "  auto *m = reinterpret_cast<unsigned short *>(s.a);\n"
               "  int l = threadIdx.x; unsigned r[4];\n"
               "  for (int i = 0; i < 4; i++) { unsigned at = 100 * i + 8 * (l / 4) + l %% 4 * 2;\n"
               "    r[i] = at | (at + 1) << 16; }\n"
               "  nn_stmatrix_x%d%s(m + 8 * l, r);\n  nn_syncwarp();\n"
               "  for (int i = l; i < %d; i += 32) out[i] = m[i];\n}\n",
               count, trans ? "_trans" : "", 64 * count);
      CUfunction f = function(source, "k");
      CUdeviceptr out = device_upload(NULL, sizeof got);
      OK(device_run(f, 1, 32, kSmem, (void *[]){&out}));
      OK(cuMemcpyDtoH(got, out, (size_t)(128 * count)));
      for (int i = 0; i < 64 * count; i++) {
        int row = i % 64 / 8, column = i % 8;
        assert_int_equal(got[i], 100 * (i / 64) + (trans ? 8 * column + row : 8 * row + column));
      }
    }
}

// ---- launches that begin early ------------------------------------------------------------------

static void test_early(void **state) {
  (void)state;
  CUfunction first = function("void k(int *x) {\n  nn_launch_dependents();\n"
                              "  x[blockIdx.x * 64 + threadIdx.x] = blockIdx.x + 5;\n}\n", "k");
  CUfunction second = function("void k(const int *x, int *y) {\n  nn_wait_before();\n"
                               "  int i = blockIdx.x * 64 + threadIdx.x; y[i] = x[i];\n}\n", "k");
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = 1};
  CUlaunchConfig config = {.gridDimX = 4, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64,
                           .blockDimY = 1, .blockDimZ = 1, .attrs = &attribute, .numAttrs = 1};
  int zeros[256] = {0}, got[256];
  CUdeviceptr x = device_upload(zeros, sizeof zeros), y = device_upload(zeros, sizeof zeros);
  OK(cuLaunchKernel(first, 4, 1, 1, 64, 1, 1, 0, NULL, (void *[]){&x}, NULL));
  OK(cuLaunchKernelEx(&config, second, (void *[]){&x, &y}, NULL));
  OK(cuMemcpyDtoH(got, y, sizeof got));
  for (int i = 0; i < 256; i++) assert_int_equal(got[i], i / 64 + 5);
}

// ---- products -----------------------------------------------------------------------------------

static const struct {
  const char *call; // what is called, with its type
  int bytes;        // of an element
  const char *sum;
} products[] = {{"nn_wgmma_m64k8_tf32<%d>(d, a, b, k != 0)", 4, "float"},
                {"nn_wgmma_m64k32<%d>(d, a, b, k != 0, e4m3())", 1, "float"},
                {"nn_wgmma_m64k32<%d>(d, a, b, k != 0, e5m2())", 1, "float"},
                {"nn_wgmma_m64k32<%d>(d, a, b, k != 0, (signed char)0)", 1, "int"},
                {"nn_wgmma_m64k32<%d>(d, a, b, k != 0, (unsigned char)0)", 1, "int"}};

// A small whole number as the product's element; of a float also bits that TF32 does not have.
static void put(unsigned char *at, int product, int value, uint32_t low) {
  float x = (float)value;
  uint32_t bits;
  _Float16 half = (_Float16)value;
  int power;
  float part = frexpf(fabsf(x), &power); // of 8 units of a half, in e4m3: exact to 16
  memcpy(&bits, &x, 4);
  bits |= low & 0x1fff;
  if (product == 0) memcpy(at, &bits, 4);
  if (product == 1)
    *at = (unsigned char)((value < 0) << 7 |
                          (value ? (power + 6) << 3 | ((int)(part * 16) & 7) : 0));
  if (product == 2) *at = ((unsigned char *)&half)[1];
  if (product > 2) *at = (unsigned char)value;
}

static int places[128][16][2]; // row, column of a thread's values, N = 32, repeating
static int units[16][8];       // offset of the 16 bytes of a row, swizzled

static void read_layouts(void) {
  char *text = file_read("tests/prim/layouts.txt"), *at;
  assert_non_null(text);
  assert_non_null(at = strstr(text, "# wgmma m64nNk16 accumulator"));
  for (int t = 0, used, n, l; t < 128; t++) {
    at = strchr(at, '\n') + 1;
    assert_int_equal(sscanf(at, "%d:%n", &l, &used), 1);
    for (int v = 0; v < 16; v++, used += n)
      assert_int_equal(sscanf(at + used, " %d,%d%n", &places[t][v][0], &places[t][v][1], &n), 2);
  }
  assert_non_null(at = strstr(text, "# K-major 128B swizzle"));
  for (int r = 0, used, n, l; r < 16; r++) {
    at = strchr(at, '\n') + 1;
    assert_int_equal(sscanf(at, "%d:%n", &l, &used), 1);
    for (int i = 0; i < 8; i++, used += n)
      assert_int_equal(sscanf(at + used, " %d%n", &units[r][i], &n), 1);
  }
  free(text);
}

static void product(int p, int n) {
  static unsigned char ta[8192], tb[32768];
  static int a[64][128], b[256][128];
  static uint32_t got[128][128];
  static uint32_t random = 5;
  char source[2048], call[128];
  int depth = 128 / products[p].bytes;
  snprintf(call, sizeof call, products[p].call, n);
  snprintf(source, sizeof source,
           "void k(const unsigned char *in, const unsigned char *more, %s *out) {\n"
           "  NN_SMEM(Smem, s);\n"
           "  for (int i = threadIdx.x; i < 8192; i += 128) s.a[i] = in[i];\n"
           "  for (int i = threadIdx.x; i < 32768; i += 128) s.b[i] = more[i];\n"
           "  nn_fence_proxy_async(); nn_sync();\n  %s d[%d];\n  nn_wgmma_fence();\n"
           "  for (int k = 0; k < 4; k++) {\n"
           "    auto a = nn_wgmma_tile(s.a + 32 * k, 1024, 0, kSwizzle128);\n"
           "    auto b = nn_wgmma_tile(s.b + 32 * k, 1024, 0, kSwizzle128);\n    %s;\n  }\n"
           "  nn_wgmma_commit(); nn_wgmma_wait<0>();\n"
           "  for (int i = 0; i < %d; i++) { nn_wgmma_hold(d[i]); "
           "out[threadIdx.x * 128 + i] = d[i]; }\n}\n",
           products[p].sum, products[p].sum, n / 2, call, n / 2);
  CUfunction f = function(source, "k");
  for (int r = 0; r < n; r++)
    for (int k = 0; k < depth; k++) {
      int at = k * products[p].bytes, place = units[r % 16][at / 16] + r / 16 * 2048 + at % 16;
      random = random * 1664525u + 1013904223u;
      b[r][k] = (int)(random >> 28) - (p == 4 ? 0 : 8);
      put(tb + place, p, b[r][k], random);
      if (r >= 64) continue;
      a[r][k] = (int)(random >> 24 & 15) - (p == 4 ? 0 : 8);
      put(ta + place, p, a[r][k], random >> 8);
    }
  CUdeviceptr da = device_upload(ta, sizeof ta), db = device_upload(tb, sizeof tb),
              out = device_upload(NULL, sizeof got);
  OK(device_run(f, 1, 128, kSmem, (void *[]){&da, &db, &out}));
  OK(cuMemcpyDtoH(got, out, sizeof got));
  for (int t = 0; t < 128; t++)
    for (int v = 0; v < n / 2; v++) {
      int row = places[t][v % 16][0], column = places[t][v % 16][1] + v / 16 * 32, want = 0;
      float x;
      memcpy(&x, &got[t][v], 4);
      int value = products[p].sum[0] == 'i' ? (int)got[t][v] : (int)x;
      for (int k = 0; k < depth; k++) want += a[row][k] * b[column][k];
      if (value != want)
        fail_msg("%s: thread %d, value %d: %d, not %d", call, t, v, value, want);
    }
}

static void test_products(void **state) {
  (void)state;
  read_layouts();
  for (int p = 0; p < (int)(sizeof products / sizeof *products); p++)
    for (int i = 0; i < 4; i++)
      if (device_few(i + p, 2)) product(p, 64 * (i + 1));
}

int main(void) {
  int major = 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_clusters), cmocka_unit_test(test_reductions),
      cmocka_unit_test(test_warps),    cmocka_unit_test(test_stmatrix),
      cmocka_unit_test(test_early),    cmocka_unit_test(test_products)};
  if (device_open()) cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  if (major != 9) return puts("1..0 # SKIP the device is not sm_90"), 0;
  return cmocka_run_group_tests_name("test_cluster", tests, device_setup, NULL);
}
