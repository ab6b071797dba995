// test_hopper.c: bulk and tensor copies and products of warp groups, against their definitions and
// the layouts of tests/prim/layouts.txt. The same on libcusim, by both front ends, and on a GPU.
#include "tests/sim/device.h"

enum { kRows = 64, kDepth = 64, kThreads = 128 };

static const char head[] =
    "#include \"lib/prim.cuh\"\n"
    "struct Smem { alignas(1024) bf16 a[64 * 64]; alignas(1024) bf16 b[256 * 64]; "
    "alignas(8) Mbar bar; };\n";

static uint16_t brain(float x) { // of small whole numbers: exact
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return (uint16_t)(bits >> 16);
}

static float small_random(void) {
  static uint32_t state = 7;
  state = state * 1664525u + 1013904223u;
  return (float)((int)(state >> 28) - 8);
}

// `row: offsets of columns 0, 8, 16, ..` of a block of layouts.txt; rows beyond it go on by 8 rows
// of `stride` bytes.
static int offsets[256][16], per_row;
static void read_offsets(const char *title, int rows, int stride) {
  char *text = file_read("tests/prim/layouts.txt"), *at = text ? strstr(text, title) : NULL;
  assert_non_null(at);
  for (int r = 0; r < 16; r++) {
    int row, used, n;
    at = strchr(at, '\n') + 1;
    assert_int_equal(sscanf(at, "%d:%n", &row, &used), 1);
    for (per_row = 0; at[used] != '\n' && sscanf(at + used, " %d%n", &offsets[r][per_row], &n) == 1;
         per_row++)
      used += n;
  }
  for (int r = 16; r < rows; r++)
    for (int i = 0; i < per_row; i++) offsets[r][i] = offsets[r - 8][i] + stride;
  free(text);
}

// ---- copies -------------------------------------------------------------------------------------

static void test_bulk(void **state) {
  (void)state;
  char source[4096];
  snprintf(source, sizeof source, "%s%s", head,
           "extern \"C\" __global__ void k(const float *in, float *out) {\n"
           "  NN_SMEM(Smem, s); float *x = reinterpret_cast<float *>(s.a);\n"
           "  if (threadIdx.x == 0) { nn_mbar_init(&s.bar, 1); nn_mbar_init_fence(); }\n"
           "  nn_sync();\n"
           "  if (threadIdx.x == 0) { nn_mbar_arrive_expect_tx(&s.bar, 1024); "
           "nn_bulk_load(x, in, 512, &s.bar);\n"
           "    nn_bulk_load(x + 128, in + 128, 512, &s.bar); }\n"
           "  nn_mbar_wait(&s.bar, 0);\n"
           "  for (int i = threadIdx.x; i < 256; i += 128) x[i] *= 2;\n"
           "  nn_fence_proxy_async(); nn_sync();\n"
           "  if (threadIdx.x == 0) { nn_bulk_store(out, x, 1024); nn_bulk_commit(); "
           "nn_bulk_wait<0>(); }\n"
           "}\n");
  CUfunction f = device_function(source, "k");
  float x[256], y[256];
  for (int i = 0; i < 256; i++) x[i] = (float)i;
  CUdeviceptr in = device_upload(x, sizeof x), out = device_upload(NULL, sizeof y);
  OK(device_run(f, 1, kThreads, 42 << 10, (void *[]){&in, &out}));
  OK(cuMemcpyDtoH(y, out, sizeof y));
  for (int i = 0; i < 256; i++) assert_true(y[i] == 2 * x[i]);
}

// Thread 0 waits for thread 64, then for thread 32, which has waited for thread 0 and knows nothing
// of thread 64: what was written before the first wait is still there behind the second.
static void test_two_waits(void **state) {
  (void)state;
  CUfunction f = device_function(
      "#include \"lib/prim.cuh\"\n"
      "struct Smem { Mbar first, second, third; int value; };\n"
      "extern \"C\" __global__ void k(int *out) {\n"
      "  NN_SMEM(Smem, s);\n"
      "  if (threadIdx.x == 0) {\n"
      "    nn_mbar_init(&s.first, 1); nn_mbar_init(&s.second, 1); nn_mbar_init(&s.third, 1);\n"
      "  }\n"
      "  nn_sync();\n"
      "  if (threadIdx.x == 32) { nn_mbar_wait(&s.first, 0); nn_mbar_arrive(&s.second); }\n"
      "  if (threadIdx.x == 64) { s.value = 7; nn_mbar_arrive(&s.third); }\n"
      "  if (threadIdx.x == 0) {\n"
      "    nn_mbar_arrive(&s.first); nn_mbar_wait(&s.third, 0); nn_mbar_wait(&s.second, 0);\n"
      "    out[0] = s.value;\n"
      "  }\n"
      "}\n",
      "k");
  int value = 0;
  CUdeviceptr out = device_upload(NULL, sizeof value);
  OK(device_run(f, 1, kThreads, 1024, (void *[]){&out}));
  OK(cuMemcpyDtoH(&value, out, sizeof value));
  assert_int_equal(value, 7);
}

static void make_map(void *map, CUdeviceptr at, uint64_t columns, uint64_t rows,
                     uint32_t box_columns, uint32_t box_rows, int swizzle) {
  enum { kBfloat = 9 };
  OK(cuTensorMapEncodeTiled(map, kBfloat, 2, (void *)(uintptr_t)at, (uint64_t[]){columns, rows},
                            (uint64_t[]){columns * 2}, (uint32_t[]){box_columns, box_rows},
                            (uint32_t[]){1, 1}, 0, swizzle, 0, 0));
}

static void test_tensor(void **state) {
  (void)state;
  static const struct {
    const char *title;
    int columns, mode, stride;
  } cases[] = {{"# K-major 128B swizzle", 64, 3, 1024}, {"# K-major 64B swizzle", 32, 2, 512},
               {"# K-major 32B swizzle", 16, 1, 256}};
  char source[4096];
  snprintf(source, sizeof source, "%s%s", head,
           "extern \"C\" __global__ void k(const __grid_constant__ TensorMap map, int x, int y, "
           "int bytes,\n"
           "                               const __grid_constant__ TensorMap to, "
           "unsigned short *out) {\n"
           "  NN_SMEM(Smem, s);\n"
           "  if (threadIdx.x == 0) { nn_mbar_init(&s.bar, 1); nn_mbar_init_fence(); }\n"
           "  nn_sync();\n"
           "  if (threadIdx.x == 0) { nn_mbar_arrive_expect_tx(&s.bar, bytes);\n"
           "    nn_tensor_load(s.a, &map, x, y, &s.bar); }\n"
           "  nn_mbar_wait(&s.bar, 0);\n"
           "  for (int i = threadIdx.x; i < bytes / 2; i += 128) out[i] = s.a[i].bits;\n"
           "  nn_fence_proxy_async(); nn_sync();\n"
           "  if (threadIdx.x == 0) { nn_tensor_store(&to, 0, 0, s.a); nn_bulk_commit(); "
           "nn_bulk_wait<0>(); }\n"
           "}\n");
  CUfunction f = device_function(source, "k");
  enum { kColumns = 80, kTall = 40 };
  static uint16_t tensor[kTall * kColumns], raw[16 * 64], back[16 * 64];
  for (int i = 0; i < kTall * kColumns; i++) tensor[i] = (uint16_t)(i + 1);
  CUdeviceptr in = device_upload(tensor, sizeof tensor), out = device_upload(NULL, sizeof raw),
              copy = device_upload(NULL, sizeof back);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    _Alignas(64) char map[128], to[128];
    int columns = cases[c].columns, x = 24, y = 30, bytes = 16 * columns * 2;
    read_offsets(cases[c].title, 16, cases[c].stride);
    make_map(map, in, kColumns, kTall, (uint32_t)columns, 16, cases[c].mode);
    make_map(to, copy, (uint64_t)columns, 16, (uint32_t)columns, 16, cases[c].mode);
    OK(device_run(f, 1, kThreads, 42 << 10, (void *[]){map, &x, &y, &bytes, to, &out}));
    OK(cuMemcpyDtoH(raw, out, (size_t)bytes));
    OK(cuMemcpyDtoH(back, copy, (size_t)bytes));
    for (int r = 0; r < 16; r++)
      for (int k = 0; k < columns; k++) {
        bool inside = y + r < kTall && x + k < kColumns;
        uint16_t want = inside ? tensor[(y + r) * kColumns + x + k] : 0;
        assert_int_equal(raw[offsets[r][k / 8] / 2 + k % 8], want);
        assert_int_equal(back[r * columns + k], want);
      }
  }
}

// Boxes of three to five dimensions: of a tensor whose element (x, y, z, ...) is its offset, the
// last ones of each dimension among them, with zeros behind them.
static void test_tensor_ranks(void **state) {
  (void)state;
  enum { kBfloat = 9, kColumns = 24, kOther = 3, kMost = 8 * 4 };
  static uint16_t tensor[kColumns * kOther * kOther * kOther * kOther], raw[kMost];
  for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++) tensor[i] = (uint16_t)(i + 1);
  CUdeviceptr in = device_upload(tensor, sizeof tensor), out = device_upload(NULL, sizeof raw);
  for (int rank = 1; rank <= 5; rank++) {
    char source[2048];
    snprintf(source, sizeof source, "%s%s%d%s", head,
             "extern \"C\" __global__ void k(const __grid_constant__ TensorMap map, int x, int y,\n"
             "                               unsigned short *out) {\n"
             "  NN_SMEM(Smem, s);\n"
             "  if (threadIdx.x == 0) { nn_mbar_init(&s.bar, 1); nn_mbar_init_fence(); }\n"
             "  nn_sync();\n"
             "  if (threadIdx.x == 0) { nn_mbar_arrive_expect_tx(&s.bar, 64);\n"
             "    const int five[] = {x, y, 1, 2, 0};\n"
             "    int at[", rank, "];\n"
             "    for (int d = 0; d < int(sizeof at / sizeof *at); d++) at[d] = five[d];\n"
             "    nn_tensor_load(s.a, &map, at, &s.bar); }\n"
             "  nn_mbar_wait(&s.bar, 0);\n"
             "  if (threadIdx.x < 32) out[threadIdx.x] = s.a[threadIdx.x].bits;\n"
             "}\n");
    CUfunction f = device_function(source, "k");
    _Alignas(64) char map[128];
    uint64_t dims[5] = {kColumns, kOther, kOther, kOther, kOther}, strides[4] = {kColumns * 2};
    uint32_t box[5] = {rank > 1 ? 8 : 32, 4, 1, 1, 1}, steps[5] = {1, 1, 1, 1, 1};
    for (int d = 1; d < 4; d++) strides[d] = strides[d - 1] * kOther;
    int x = 16, y = 1;
    OK(cuTensorMapEncodeTiled(map, kBfloat, (unsigned)rank, (void *)(uintptr_t)in, dims, strides,
                              box, steps, 0, 0, 0, 0));
    OK(device_run(f, 1, kThreads, 42 << 10, (void *[]){map, &x, &y, &out}));
    OK(cuMemcpyDtoH(raw, out, sizeof raw));
    int behind = (rank > 2) * kColumns * kOther + (rank > 3) * 2 * kColumns * kOther * kOther;
    for (int i = 0; i < kMost; i++) {
      int column = x + (rank > 1 ? i % 8 : i), row = rank > 1 ? y + i / 8 : 0;
      bool inside = column < kColumns && row < kOther;
      assert_int_equal(raw[i], inside ? tensor[behind + row * kColumns + column] : 0);
    }
  }
}

// A box for both blocks of a cluster, which the first one asks for.
static void test_tensor_many(void **state) {
  (void)state;
  enum { kSide = 16, kCount = kSide * kSide };
  char source[4096];
  snprintf(source, sizeof source, "%s%s", head,
           "extern \"C\" __global__ void __cluster_dims__(2, 1, 1)\n"
           "    k(const __grid_constant__ TensorMap map, unsigned short *out) {\n"
           "  NN_SMEM(Smem, s);\n"
           "  if (threadIdx.x == 0) { nn_mbar_init(&s.bar, 1); nn_mbar_init_fence(); }\n"
           "  nn_cluster_sync();\n"
           "  if (threadIdx.x == 0) { nn_mbar_arrive_expect_tx(&s.bar, 512);\n"
           "    if (nn_cluster_rank() == 0) nn_tensor_load_many(s.a, &map, 0, 0, &s.bar, 3); }\n"
           "  nn_mbar_wait(&s.bar, 0);\n"
           "  for (int i = threadIdx.x; i < 256; i += 128)\n"
           "    out[256 * blockIdx.x + i] = s.a[i].bits;\n"
           "  nn_cluster_sync();\n}\n");
  CUfunction f = device_function(source, "k");
  uint16_t tensor[kCount], got[2 * kCount];
  for (int i = 0; i < kCount; i++) tensor[i] = (uint16_t)(i + 1);
  CUdeviceptr in = device_upload(tensor, sizeof tensor), out = device_upload(NULL, sizeof got);
  _Alignas(64) char map[128];
  make_map(map, in, kSide, kSide, kSide, kSide, 0);
  OK(device_run(f, 2, kThreads, 42 << 10, (void *[]){map, &out}));
  OK(cuMemcpyDtoH(got, out, sizeof got));
  for (int i = 0; i < 2 * kCount; i++) assert_int_equal(got[i], tensor[i % kCount]);
}

// ---- products -----------------------------------------------------------------------------------

// Row and column of each value of each thread, `count` of a thread, from a block of layouts.txt.
typedef struct Places {
  const char *title;
  int count;
  bool ready;
  int at[kThreads][16][2];
} Places;

static const int *place_of(Places *p, int thread, int value) {
  if (!p->ready) {
    char *text = file_read("tests/prim/layouts.txt"), *at = strstr(text, p->title);
    assert_non_null(at);
    for (int t = 0; t < kThreads; t++) {
      int used, n, l, *place;
      at = strchr(at, '\n') + 1;
      assert_int_equal(sscanf(at, "%d:%n", &l, &used), 1);
      for (int v = 0; v < p->count; v++, used += n) {
        place = p->at[t][v];
        assert_int_equal(sscanf(at + used, " %d,%d%n", &place[0], &place[1], &n), 2);
      }
    }
    free(text);
    p->ready = true;
  }
  return p->at[thread][value];
}

// Of a thread's values in the accumulator: N = 32, repeating.
static void accumulator_place(int thread, int value, int *row, int *column) {
  static Places places = {.title = "# wgmma m64nNk16 accumulator", .count = 16};
  const int *at = place_of(&places, thread, value % 16);
  *row = at[0], *column = at[1] + value / 16 * 32;
}

// Of a thread's values of A in registers.
static void operand_place(int thread, int value, int *row, int *column) {
  static Places places = {.title = "# wgmma m64k16 A from registers", .count = 8};
  const int *at = place_of(&places, thread, value);
  *row = at[0], *column = at[1];
}

// The place of an element of a tile, in elements: as read_offsets has it; of a transposed tile, of
// which each 64 rows are a block of 64 k, 128 bytes each.
static int element(int row, int k, bool across) {
  if (!across) return offsets[row][k / 8] / 2 + k % 8;
  return row / 64 * 64 * 64 + k / 8 * 512 + offsets[k % 8][row % 64 / 8] / 2 + row % 8;
}

// The tiles of A (64 x 64) and B (N x 64), swizzled as the title says, of `columns` in k each; the
// kernel computes 64 x N x columns. across: transposed.
static void product(const char *title, const char *mode, int columns, int stride, int n,
                    bool across) {
  char source[4096];
  int leading = across ? 8192 : 0, step = across ? 1024 : 16;
  const char *form = across ? "true, true" : "false, false";
  snprintf(source, sizeof source,
           "%sextern \"C\" __global__ void k(const unsigned short *a, const unsigned short *b, "
           "float *out) {\n"
           "  NN_SMEM(Smem, s);\n"
           "  for (int i = threadIdx.x; i < 64 * 64; i += 128) s.a[i].bits = a[i];\n"
           "  for (int i = threadIdx.x; i < 256 * 64; i += 128) s.b[i].bits = b[i];\n"
           "  nn_fence_proxy_async(); nn_sync();\n"
           "  float d[%d];\n"
           "  nn_wgmma_fence();\n"
           "  for (int k = 0; k < %d; k++)\n"
           "    nn_wgmma_m64k16<%d, %s>(d, nn_wgmma_tile(s.a + %d * k, %d, %d, %s),\n"
           "                            "
           "nn_wgmma_tile(s.b + %d * k, %d, %d, %s), k != 0, bf16());\n"
           "  nn_wgmma_commit(); nn_wgmma_wait<0>();\n"
           "  for (int i = 0; i < %d; i++) out[threadIdx.x * %d + i] = d[i];\n}\n",
           head, n / 2, columns / 16, n, form, step, stride, leading, mode, step, stride, leading,
           mode, n / 2, n / 2);
  CUfunction f = device_function(source, "k");
  static float a[64][64], b[256][64], got[kThreads][128];
  static uint16_t ta[64 * 64], tb[256 * 64];
  read_offsets(title, 256, stride);
  for (int r = 0; r < n; r++)
    for (int k = 0; k < columns; k++) {
      int at = element(r, k, across);
      if (r < 64) ta[at] = brain(a[r][k] = small_random());
      tb[at] = brain(b[r][k] = small_random());
    }
  CUdeviceptr da = device_upload(ta, sizeof ta), db = device_upload(tb, sizeof tb),
              out = device_upload(NULL, sizeof got);
  OK(device_run(f, 1, kThreads, 42 << 10, (void *[]){&da, &db, &out}));
  OK(cuMemcpyDtoH(got, out, (size_t)(kThreads * n / 2) * 4));
  for (int t = 0; t < kThreads; t++)
    for (int v = 0; v < n / 2; v++) {
      int row, column;
      float want = 0;
      accumulator_place(t, v, &row, &column);
      for (int k = 0; k < columns; k++) want += a[row][k] * b[column][k];
      if (((float *)got)[t * n / 2 + v] != want)
        fail_msg("%s: thread %d, value %d: %g, not %g", title, t, v, ((float *)got)[t * n / 2 + v],
                 want);
    }
}

// A (64 x 16) in registers times B, whose rows of `depth` elements attention has in shared memory:
// across: the 16 rows that k counts, N = depth; else N rows, of which elements 16 step to 16 step +
// 15 count.
static void product_of_registers(int depth, int n, int step, bool across) {
  char source[4096];
  int rows = across ? 16 : n;
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n#include \"lib/attend_wgmma.cuh\"\n"
           "using Rows = HeadRows<bf16, %d, %d>;\n"
           "struct Smem { char b[%d * Rows::kBytes]; };\n"
           "extern \"C\" __global__ void k(const unsigned *a, const unsigned short *b, "
           "float *out) {\n"
           "  NN_SMEM(Smem, s);\n"
           "  for (int i = threadIdx.x; i < %d * %d; i += 128) {\n"
           "    bf16 x; x.bits = b[i];\n"
           "    *TileRow<bf16, %d, %d>{s.b, i / %d, true}.place(i %% %d) = x;\n  }\n"
           "  nn_fence_proxy_async(); nn_sync();\n"
           "  unsigned mine[4];\n"
           "  for (int i = 0; i < 4; i++) mine[i] = a[threadIdx.x * 4 + i];\n"
           "  float d[%d];\n"
           "  nn_wgmma_fence();\n"
           "  nn_wgmma_m64k16<%d, %s>(d, mine, GroupTile<Rows>::%s(s.b, %d), false, bf16());\n"
           "  nn_wgmma_commit(); nn_wgmma_wait<0>();\n"
           "  for (int i = 0; i < %d; i++) {\n"
           "    nn_wgmma_hold(d[i]); out[threadIdx.x * %d + i] = d[i];\n  }\n}\n",
           depth, rows, rows, rows, depth, depth, rows, depth, depth, n / 2, n,
           across ? "true" : "false", across ? "across" : "along", step, n / 2, n / 2);
  CUfunction f = device_function(source, "k");
  static float a[64][16], b[256][256], got[kThreads][128];
  static uint16_t ta[kThreads][8], tb[256 * 256];
  for (int r = 0; r < 64; r++)
    for (int k = 0; k < 16; k++) a[r][k] = small_random();
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < depth; i++) tb[r * depth + i] = brain(b[r][i] = small_random());
  for (int t = 0; t < kThreads; t++)
    for (int v = 0; v < 8; v++) {
      int row, column;
      operand_place(t, v, &row, &column);
      ta[t][v] = brain(a[row][column]);
    }
  CUdeviceptr da = device_upload(ta, sizeof ta), db = device_upload(tb, sizeof tb),
              out = device_upload(NULL, sizeof got);
  OK(device_run(f, 1, kThreads, 42 << 10, (void *[]){&da, &db, &out}));
  OK(cuMemcpyDtoH(got, out, (size_t)(kThreads * n / 2) * 4));
  for (int t = 0; t < kThreads; t++)
    for (int v = 0; v < n / 2; v++) {
      int row, column;
      float want = 0;
      accumulator_place(t, v, &row, &column);
      for (int k = 0; k < 16; k++)
        want += a[row][k] * (across ? b[k][column] : b[column][step * 16 + k]);
      if (((float *)got)[t * n / 2 + v] != want)
        fail_msg("rows of %d, N = %d: thread %d, value %d: %g, not %g", depth, n, t, v,
                 ((float *)got)[t * n / 2 + v], want);
    }
}

static void test_products_of_registers(void **state) {
  (void)state;
  static const int sizes[] = {16, 32, 48, 64, 80, 96, 128, 256};
  for (int i = 0; i < 8; i++) {
    if (!device_few(i, 3)) continue;
    product_of_registers(sizes[i], sizes[i], 0, true);
    product_of_registers(sizes[i], 64, sizes[i] / 16 - 1, false);
  }
  product_of_registers(48, 128, 1, false);
}

static void test_products(void **state) {
  (void)state;
  for (int n = 64; n <= 256; n += 64) {
    product("# K-major 128B swizzle", "kSwizzle128", 64, 1024, n, false);
    product("# MN-major 128B swizzle", "kSwizzle128", 64, 1024, n, true);
  }
  product("# K-major 64B swizzle", "kSwizzle64", 32, 512, 64, false);
  product("# K-major 32B swizzle", "kSwizzle32", 16, 256, 128, false);
}

int main(void) {
  int major = 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bulk), cmocka_unit_test(test_tensor),
                                     cmocka_unit_test(test_tensor_ranks),
                                     cmocka_unit_test(test_two_waits),
                                     cmocka_unit_test(test_tensor_many),
                                     cmocka_unit_test(test_products),
                                     cmocka_unit_test(test_products_of_registers)};
  if (device_open()) cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  if (major != 9) return puts("1..0 # SKIP the device is not sm_90"), 0;
  return cmocka_run_group_tests_name("test_hopper", tests, device_setup, NULL);
}
