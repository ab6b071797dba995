// test_matrix.c: ldmatrix and mma against their definitions and the fragment layouts of
// tests/prim/layouts.txt, which were computed independently of nngen. The same on libcusim and GPU.
#include "tests/sim/device.h"

#include <math.h>

enum { kLanes = 32, kMaxValues = 8 };

// Fragment layout: for lane l, value v: row and column.
typedef struct Layout {
  int row[kLanes][kMaxValues], col[kLanes][kMaxValues], values;
} Layout;

static Layout layout_read(const char *title) {
  char *text = file_read("tests/prim/layouts.txt");
  assert_non_null(text);
  char *at = strstr(text, title);
  assert_non_null(at);
  Layout layout = {.values = 0};
  for (int lane = 0; lane < kLanes; lane++) {
    at = strchr(at, '\n') + 1;
    int read = 0, l = -1, used = 0;
    assert_int_equal(sscanf(at, "%d:%n", &l, &used), 1);
    assert_int_equal(l, lane);
    for (read = 0; read < kMaxValues; read++) {
      int n = 0;
      if (at[used] == '\n' ||
          sscanf(at + used, " %d,%d%n", &layout.row[lane][read], &layout.col[lane][read], &n) != 2)
        break;
      used += n;
    }
    layout.values = read;
  }
  free(text);
  return layout;
}

static unsigned random_state = 12345;
static int small_random(void) { // -8..7
  random_state = random_state * 1664525u + 1013904223u;
  return (int)(random_state >> 28) - 8;
}

// The bits of a small integer in each operand type.
static unsigned as_f32(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static unsigned as_bf16(int x) {
  return as_f32((float)x) >> 16;
}
static unsigned as_f16(int x) { // exact for small integers
  if (!x) return 0;
  unsigned bits = as_f32((float)x);
  return (bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 0x3ff);
}
static unsigned as_tf32(int x) {
  return as_f32((float)x);
}
static unsigned as_e5m2(int x) {
  return as_f16(x) >> 8;
}
static unsigned as_s8(int x) {
  return (unsigned)x & 0xff;
}
static unsigned as_e4m3(int x) {
  if (!x) return 0;
  unsigned bits = as_f32((float)x);
  return (bits >> 24 & 0x80) | (((bits >> 23 & 255) - 120) << 3) | (bits >> 20 & 7);
}

typedef struct Case {
  const char *call;   // of the primitive
  const char *result; // float or int
  int depth, per_register;
  unsigned (*encode)(int);
  const char *a, *b; // titles in layouts.txt; null: the 8-bit layout of the PTX ISA
  int min_arch;
  int limit; // operands are cut to -limit..limit, to be exact in the type
} Case;

static const Case cases[] = {
    {"nn_mma_m16n8k16(d, a, b, f16{})", "float", 16, 2, as_f16, "# mma.sync m16n8k16 A",
     "# mma.sync m16n8k16 B", 80, 8},
    {"nn_mma_m16n8k16(d, a, b, bf16{})", "float", 16, 2, as_bf16, "# mma.sync m16n8k16 A",
     "# mma.sync m16n8k16 B", 80, 8},
    {"nn_mma_m16n8k8_tf32(d, a, b)", "float", 8, 1, as_tf32, "# mma.sync m16n8k8 tf32 A",
     "# mma.sync m16n8k8 tf32 B", 80, 8},
    {"nn_mma_m16n8k32(d, a, b, (signed char)0)", "int", 32, 4, as_s8, NULL, NULL, 80, 8},
    {"nn_mma_m16n8k32(d, a, b, (unsigned char)0)", "int", 32, 4, as_s8, NULL, NULL, 80, 0},
    {"nn_mma_m16n8k32(d, a, b, e4m3{})", "float", 32, 4, as_e4m3, NULL, NULL, 89, 8},
    {"nn_mma_m16n8k32(d, a, b, e5m2{})", "float", 32, 4, as_e5m2, NULL, NULL, 89, 4},
};

// The 8-bit fragments of the PTX ISA: 4 values a register, registers as in the 16-bit shapes.
static void byte_place(int lane, int reg, int i, bool is_a, int *row, int *k) {
  *row = lane / 4 + (is_a && reg % 2 ? 8 : 0);
  *k = lane % 4 * 4 + i + (is_a ? reg / 2 : reg) * 16;
}

// Packs a matrix [row][k] into 32 lanes of `registers` registers.
static void pack(const Case *c, const Layout *layout, const int *matrix, int registers, bool is_a,
                 unsigned *out) {
  memset(out, 0, sizeof *out * (size_t)(kLanes * registers));
  for (int lane = 0; lane < kLanes; lane++)
    for (int v = 0; v < registers * c->per_register; v++) {
      int reg = v / c->per_register, i = v % c->per_register, row, k;
      if (c->a)
        row = layout->row[lane][v], k = layout->col[lane][v];
      else
        byte_place(lane, reg, i, is_a, &row, &k);
      int bits = 32 / c->per_register;
      out[lane * registers + reg] |= c->encode(matrix[row * c->depth + k]) << (bits * i);
    }
}

static int operand(const Case *c) {
  int x = small_random();
  if (c->limit == 0) return abs(x);
  return x > c->limit ? c->limit : x < -c->limit ? -c->limit : x;
}

static void run_case(const Case *c) {
  char source[1024];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "extern \"C\" __global__ void k(const unsigned *A, const unsigned *B, %s *D) {\n"
           "  unsigned a[4], b[2]; %s d[4]; int l = threadIdx.x;\n"
           "  for (int i = 0; i < 4; i++) a[i] = A[4 * l + i], d[i] = D[4 * l + i];\n"
           "  for (int i = 0; i < 2; i++) b[i] = B[2 * l + i];\n"
           "  %s;\n"
           "  for (int i = 0; i < 4; i++) D[4 * l + i] = d[i];\n"
           "}\n",
           c->result, c->result, c->call);
  CUfunction f = device_function(source, "k");
  Layout la = {.values = 0}, lb = la;
  if (c->a) la = layout_read(c->a), lb = layout_read(c->b);
  Layout ld = layout_read("# mma.sync m16n8k16 C/D");
  int a[16 * 32], b[8 * 32], d[16 * 8];
  for (int i = 0; i < 16 * c->depth; i++) a[i] = operand(c);
  for (int i = 0; i < 8 * c->depth; i++) b[i] = operand(c);
  for (int i = 0; i < 16 * 8; i++) d[i] = small_random();
  unsigned fa[kLanes * 4], fb[kLanes * 2], fd[kLanes * 4];
  pack(c, &la, a, 4, true, fa);
  pack(c, &lb, b, 2, false, fb);
  bool is_float = !strcmp(c->result, "float");
  for (int l = 0; l < kLanes; l++)
    for (int v = 0; v < 4; v++) {
      int x = d[ld.row[l][v] * 8 + ld.col[l][v]];
      fd[4 * l + v] = is_float ? as_f32((float)x) : (unsigned)x;
    }
  CUdeviceptr pa = device_upload(fa, sizeof fa), pb = device_upload(fb, sizeof fb);
  CUdeviceptr pd = device_upload(fd, sizeof fd);
  OK(device_run(f, 1, 32, 0, (void *[]){&pa, &pb, &pd}));
  OK(cuMemcpyDtoH(fd, pd, sizeof fd));
  for (int l = 0; l < kLanes; l++)
    for (int v = 0; v < 4; v++) {
      int row = ld.row[l][v], col = ld.col[l][v], want = d[row * 8 + col];
      for (int k = 0; k < c->depth; k++) want += a[row * c->depth + k] * b[col * c->depth + k];
      if (fd[4 * l + v] != (is_float ? as_f32((float)want) : (unsigned)want))
        fail_msg("%s: row %d col %d: bits %08x, want %d", c->call, row, col, fd[4 * l + v], want);
    }
  OK(cuMemFree(pa)), OK(cuMemFree(pb)), OK(cuMemFree(pd));
}

static void test_mma(void **state) {
  (void)state;
  int arch = atoi(strchr(device_arch(), '_') + 1);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (arch >= cases[i].min_arch) run_case(&cases[i]);
}

// nn_mma_tile gives the same bits as the single products, for values that round.
static void run_tile(const char *type, const char *tile, const char *one) {
  char source[2048];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "extern \"C\" __global__ void k(const unsigned *X, float *D) {\n"
           "  unsigned a[2][4], b[3][2]; float d[2][3][4], e[2][3][4]; int l = threadIdx.x;\n"
           "  for (int i = 0; i < 8; i++) a[i / 4][i %% 4] = X[i * 32 + l];\n"
           "  for (int i = 0; i < 6; i++) b[i / 2][i %% 2] = X[(8 + i) * 32 + l];\n"
           "  for (int i = 0; i < 24; i++)\n"
           "    d[i / 12][i / 4 %% 3][i %% 4] = e[i / 12][i / 4 %% 3][i %% 4] = 0.1f * i + l;\n"
           "  (void)%s{}; %s;\n"
           "  for (int m = 0; m < 2; m++) for (int n = 0; n < 3; n++) %s;\n"
           "  for (int i = 0; i < 24; i++)\n"
           "    D[i * 32 + l] = nn_bits(d[i / 12][i / 4 %% 3][i %% 4]) ^ \n"
           "                    nn_bits(e[i / 12][i / 4 %% 3][i %% 4]);\n"
           "}\n",
           type, tile, one);
  CUfunction f = device_function(source, "k");
  unsigned x[14 * 32];
  for (int i = 0; i < 14 * 32; i++)
    x[i] =
        0x3c003c00u ^ ((unsigned)(small_random() + 8) << 20 | (unsigned)(small_random() + 8) << 3);
  float out[24 * 32];
  CUdeviceptr px = device_upload(x, sizeof x), pd = device_upload(NULL, sizeof out);
  OK(device_run(f, 1, 32, 0, (void *[]){&px, &pd}));
  OK(cuMemcpyDtoH(out, pd, sizeof out));
  for (int i = 0; i < 24 * 32; i++)
    if (out[i] != 0) fail_msg("%s: value %d of lane %d differs", tile, i / 32, i % 32);
}

static void test_tile(void **state) {
  (void)state;
  run_tile("f16", "nn_mma_tile(d, a, b, f16{})", "nn_mma_m16n8k16(e[m][n], a[m], b[n], f16{})");
  run_tile("bf16", "nn_mma_tile(d, a, b, bf16{})", "nn_mma_m16n8k16(e[m][n], a[m], b[n], bf16{})");
  run_tile("f16", "nn_mma_tile_tf32(d, a, b)", "nn_mma_m16n8k8_tf32(e[m][n], a[m], b[n])");
}

// Element (row, col) of matrix m holds 256 * m + 8 * row + col.
static void run_ldmatrix(int count, bool trans) {
  char source[1024];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "extern \"C\" __global__ void k(unsigned *out) {\n"
           "  __shared__ __align__(16) unsigned short s[4][8][8]; int l = threadIdx.x;\n"
           "  for (int i = l; i < 256; i += 32) s[i / 64][i / 8 %% 8][i %% 8] = i / 64 * 256 + i "
           "%% 64;\n"
           "  nn_sync();\n"
           "  unsigned r[%d];\n"
           "  nn_ldmatrix_x%d%s(r, s[l / 8][l %% 8]);\n"
           "  for (int i = 0; i < %d; i++) out[i * 32 + l] = r[i];\n"
           "}\n",
           count, count, trans ? "_trans" : "", count);
  CUfunction f = device_function(source, "k");
  unsigned out[128];
  CUdeviceptr p = device_upload(NULL, sizeof out);
  OK(device_run(f, 1, 32, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(out, p, sizeof out));
  for (int m = 0; m < count; m++)
    for (int l = 0; l < kLanes; l++)
      for (int h = 0; h < 2; h++) {
        int row = l / 4, col = l % 4 * 2 + h;
        int want = trans ? 256 * m + 8 * col + row : 256 * m + 8 * row + col;
        assert_int_equal(out[m * 32 + l] >> 16 * h & 0xffff, want);
      }
}

static void test_ldmatrix(void **state) {
  (void)state;
  for (int count = 1; count <= 4; count *= 2)
    for (int trans = 0; trans < 2; trans++) run_ldmatrix(count, trans);
}

// Each step rounded once, e rising: the bits of fmaf.
static void test_fma_tile(void **state) {
  (void)state;
  enum { M = 2, N = 4, kThreads = 32 };
  CUfunction f = device_function(
      "#include \"lib/prim.cuh\"\n"
      "extern \"C\" __global__ void k(const float *x, float *y) {\n"
      "  nn_assume(threadIdx.x < 32); x += 24 * threadIdx.x; y += 8 * threadIdx.x;\n"
      "  Vec<float, 4> a[2] = {nn_load<4>(x), nn_load<4>(x + 4)};\n"
      "  Vec<float, 4> b[4];\n"
      "  for (int i = 0; i < 4; i++) b[i] = nn_load<4>(x + 8 + 4 * i);\n"
      "  float d[2][4];\n"
      "  for (int i = 0; i < 8; i++) d[i / 4][i % 4] = x[nn_index(i + 7, 24)];\n"
      "  nn_fma_tile(d, a, b);\n"
      "  for (int i = 0; i < 8; i++) y[i] = d[i / 4][i % 4];\n}\n", "k");
  float x[kThreads][24], y[kThreads][M * N];
  unsigned state_bits = 3;
  for (int i = 0; i < kThreads * 24; i++) {
    state_bits = state_bits * 1664525u + 1013904223u;
    x[i / 24][i % 24] = (float)(int)state_bits * 0x1p-30f;
  }
  CUdeviceptr in = device_upload(x, sizeof x), out = device_upload(NULL, sizeof y);
  OK(device_run(f, 1, kThreads, 0, (void *[]){&in, &out}));
  OK(cuMemcpyDtoH(y, out, sizeof y));
  for (int t = 0; t < kThreads; t++)
    for (int i = 0; i < M * N; i++) {
      float want = x[t][i + 7];
      for (int e = 0; e < 4; e++)
        want = fmaf(x[t][4 * (i / N) + e], x[t][8 + 4 * (i % N) + e], want);
      assert_memory_equal(&y[t][i], &want, sizeof want);
    }
}

int main(void) {
  setenv("NNGEN_SIM_OPTIMIZE", "2", 1); // GCC joins multiplications and additions from 1 on
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mma), cmocka_unit_test(test_tile),
                                     cmocka_unit_test(test_ldmatrix),
                                     cmocka_unit_test(test_fma_tile)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
