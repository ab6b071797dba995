// test_mma.c: libcusim's mma.h: wmma of every type and shape and in both layouts gives the sums,
// and its fragments hold what those of NVIDIA's header hold, whose PTX runs beside it.
#include "tests/sim/both.h"

typedef struct Kind {
  const char *type, *kept, *c, *d; // of A and B; in memory; of the sums
  int m, n, k;
} Kind;

static const Kind kinds[] = {
    {"half", "half", "float", "float", 16, 16, 16},
    {"half", "half", "half", "half", 32, 8, 16},
    {"double", "double", "double", "double", 8, 8, 4},
    {"half", "half", "half", "float", 8, 32, 16},
    {"half", "half", "float", "half", 16, 16, 16},
    {"__nv_bfloat16", "__nv_bfloat16", "float", "float", 16, 16, 16},
    {"__nv_bfloat16", "__nv_bfloat16", "float", "float", 32, 8, 16},
    {"__nv_bfloat16", "__nv_bfloat16", "float", "float", 8, 32, 16},
    {"signed char", "signed char", "int", "int", 16, 16, 16},
    {"unsigned char", "unsigned char", "int", "int", 32, 8, 16},
    {"signed char", "signed char", "int", "int", 8, 32, 16},
    {"wmma::precision::tf32", "float", "float", "float", 16, 16, 8},
};

enum { kOut = 4096 }; // D by rows, then A, B and D as lanes hold them, 16 places each
static const char kernel[] =
    "template <class F> __device__ void show(double *out, const F &f) {\n"
    "  for (int i = 0; i < f.num_elements; i++) out[threadIdx.x * 16 + i] = "
    "double(float(f.x[i]));\n"
    "}\n"
    "extern \"C\" __global__ void k(double *out) {\n"
    "  __shared__ alignas(256) Kept a[M * K], b[K * N]; __shared__ alignas(256) C c[M * N];\n"
    "  __shared__ alignas(256) D d[M * N];\n"
    "  for (int i = threadIdx.x; i < M * K; i += 32) a[i] = Kept(float(A_AT(i)));\n"
    "  for (int i = threadIdx.x; i < K * N; i += 32) b[i] = Kept(float(B_AT(i)));\n"
    "  for (int i = threadIdx.x; i < M * N; i += 32) c[i] = C(float(C_AT(i)));\n"
    "  __syncwarp();\n"
    "  wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::ROW_A> fa;\n"
    "  wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::ROW_B> fb;\n"
    "  wmma::fragment<wmma::accumulator, M, N, K, C> fc;\n"
    "  wmma::fragment<wmma::accumulator, M, N, K, D> fd;\n"
    "  wmma::load_matrix_sync(fa, a, STRIDE_A); wmma::load_matrix_sync(fb, b, STRIDE_B);\n"
    "  wmma::load_matrix_sync(fc, c, STRIDE_C, wmma::ROW_C); wmma::fill_fragment(fd, D(0));\n"
    "  wmma::mma_sync(fd, fa, fb, fc);\n"
    "  wmma::store_matrix_sync(d, fd, STRIDE_C, wmma::ROW_C); __syncwarp();\n"
    "  for (int i = threadIdx.x; i < M * N; i += 32) out[i] = double(float(d[i]));\n"
    "  show(out + 512, fa); show(out + 1024, fb); show(out + 1536, fd); }\n";

// Eighths and quarters, or whole numbers, so that every sum is exact.
static double a_at(bool whole, int i) {
  return (i * 5 + i / 7) % 16 / (whole ? 1 : 8.0);
}
static double b_at(bool whole, int i) {
  return ((i * 3 + i / 5) % 8) / (whole ? 1 : 4.0);
}
#define HEADERS                                                                                    \
  "#include <mma.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda;\n"
#define AT                                                                                         \
  "#define A_AT(i) ((i * 5 + i / 7) %% 16 / (WHOLE ? 1 : 8.0))\n"                                  \
  "#define B_AT(i) ((i * 3 + i / 5) %% 8 / (WHOLE ? 1 : 4.0))\n#define C_AT(i) (i %% 8)\n"

static const char *source_of(const Kind *q, int layout, bool whole) {
  static char text[8192];
  bool a = layout & 1, b = layout & 2, c = layout & 4;
  snprintf(text, sizeof text,
           HEADERS AT
           "#define M %d\n#define N %d\n#define K %d\ntypedef %s T;\ntypedef %s Kept;\n"
           "typedef %s C;\ntypedef %s D;\n#define ROW_A %s_major\n#define ROW_B %s_major\n"
           "#define ROW_C mem_%s_major\n#define STRIDE_A %d\n#define STRIDE_B %d\n"
           "#define STRIDE_C %d\n#define WHOLE %d\n%s",
           q->m, q->n, q->k, q->type, q->kept, q->c, q->d, a ? "col" : "row", b ? "col" : "row",
           c ? "col" : "row", a ? q->m : q->k, b ? q->k : q->n, c ? q->m : q->n, whole, kernel);
  return text;
}

static void check_sums(const Kind *q, int layout, bool whole, const double *d) {
  for (int row = 0; row < q->m; row++)
    for (int col = 0; col < q->n; col++) {
      int at = layout & 4 ? col * q->m + row : row * q->n + col;
      double sum = at % 8;
      for (int k = 0; k < q->k; k++)
        sum += a_at(whole, layout & 1 ? k * q->m + row : row * q->k + k) *
               b_at(whole, layout & 2 ? col * q->k + k : k * q->n + col);
      if (d[at] != sum)
        fail_msg("%s m%dn%dk%d, layout %d [%d][%d]: %g, not %g", q->type, q->m, q->n, q->k, layout,
                 row, col, d[at], sum);
    }
}

static void test_sums_and_fragments(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const Kind *q = &kinds[i];
    int layout = (int)(i * 3 + 1) % 8;
    bool whole = strstr(q->type, "char");
    const char *source = source_of(q, layout, whole);
    double *ours = both_get("cxx", source, 32, kOut * 8), *theirs;
    check_sums(q, layout, whole, ours);
    if (i % 2 && !getenv("NNGEN_TEST_LONG")) continue; // NVRTC takes its time
    theirs = both_get("nvrtc", source, 32, kOut * 8);
    for (int k = 0; theirs && k < kOut; k++)
      if (ours[k] != theirs[k])
        fail_msg("%s: place %d holds %g, and %g by NVIDIA's header", q->type, k, ours[k],
                 theirs[k]);
  }
}

// Sums that leave int stop there when asked to, and else come round.
static void test_saturated(void **state) {
  (void)state;
  static const char source[] =
      "#include <mma.h>\nusing namespace nvcuda;\nextern \"C\" __global__ void k(int *out) {\n"
      "  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;\n"
      "  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;\n"
      "  wmma::fragment<wmma::accumulator, 16, 16, 16, int> c, d;\n"
      "  wmma::fill_fragment(a, 100); wmma::fill_fragment(b, -100);\n"
      "  wmma::fill_fragment(c, -0x7fffffff); wmma::mma_sync(d, a, b, c, true);\n"
      "  out[threadIdx.x] = d.x[0]; wmma::mma_sync(d, a, b, c); out[32 + threadIdx.x] = d.x[7];\n"
      "  wmma::fill_fragment(b, 100); wmma::fill_fragment(c, 0x7fffffff);\n"
      "  wmma::mma_sync(d, a, b, c, true); out[64 + threadIdx.x] = d.x[1]; }\n";
  for (int front = 0; front < 2; front++) {
    int *got = both_get(front ? "nvrtc" : "cxx", source, 32, 96 * 4);
    for (int i = 0; got && i < 32; i++) {
      assert_int_equal(got[i], INT32_MIN);
      assert_int_equal(got[32 + i], INT32_MAX - 160000 + 2);
      assert_int_equal(got[64 + i], INT32_MAX);
    }
  }
}

// 4 bits and 1 bit: sums over words that take every value, against sums made here; the header that
// NVIDIA's compiler takes goes by PTX.
static void test_narrow(void **state) {
  (void)state;
  static const char source[] =
      "#include <mma.h>\nusing namespace nvcuda;\nnamespace types = wmma::experimental;\n"
      "template <class T, int k> __device__ void product(unsigned *p, int *out) {\n"
      "  wmma::fragment<wmma::matrix_a, 8, 8, k, T, wmma::row_major> a;\n"
      "  wmma::fragment<wmma::matrix_b, 8, 8, k, T, wmma::col_major> b;\n"
      "  wmma::fragment<wmma::accumulator, 8, 8, k, int> c, d;\n"
      "  wmma::load_matrix_sync(a, p, 2 * k); wmma::load_matrix_sync(b, p + 64, k);\n"
      "  wmma::fill_fragment(c, 5);\n"
      "  if constexpr (k == 32) wmma::mma_sync(d, a, b, c);\n"
      "  else { wmma::bmma_sync(d, a, b, c);\n"
      "    wmma::bmma_sync(d, a, b, d, types::bmmaBitOpAND, types::bmmaAccumulateOpPOPC); }\n"
      "  wmma::store_matrix_sync(out, d, 8, wmma::mem_row_major); }\n"
      "extern \"C\" __global__ void k(int *out) { __shared__ unsigned p[96];\n"
      "  for (unsigned i = threadIdx.x; i < 96; i += 32) p[i] = i * 2654435761u ^ i << 7;\n"
      "  __syncthreads(); product<types::precision::s4, 32>(p, out);\n"
      "  product<types::precision::u4, 32>(p, out + 64);\n"
      "  product<types::precision::b1, 128>(p, out + 128); }\n";
  unsigned p[96];
  for (unsigned i = 0; i < 96; i++) p[i] = i * 2654435761u ^ i << 7;
  for (int front = 0; front < 2; front++) {
    int *got = both_get(front ? "nvrtc" : "cxx", source, 32, 192 * 4);
    for (int i = 0; got && i < 64; i++) {
      int fours = 5, unsigned_fours = 5, bits = 5;
      for (int w = 0; w < 4; w++) {
        unsigned a = p[i / 8 * 8 + w], b = p[64 + i % 8 * 4 + w];
        bits += __builtin_popcount(a ^ b) + __builtin_popcount(a & b);
        for (int at = 0; at < 32; at += 4) {
          unsigned x = a >> at & 15, y = b >> at & 15;
          fours += ((int)(x ^ 8) - 8) * ((int)(y ^ 8) - 8);
          unsigned_fours += (int)(x * y);
        }
      }
      assert_int_equal(got[i], fours);
      assert_int_equal(got[64 + i], unsigned_fours);
      assert_int_equal(got[128 + i], bits);
    }
  }
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums_and_fragments),
                                     cmocka_unit_test(test_saturated),
                                     cmocka_unit_test(test_narrow)};
  return cmocka_run_group_tests_name("test_mma", tests, NULL, NULL);
}
