// test_functions.c: CUDA's device functions by their values, one line each: conversions out of
// range, atomics, arithmetic. All lines of a table are one kernel, whose operands the compiler does
// not know.
#include "tests/sim/device.h"

#include <math.h>

typedef struct Line {
  const char *text; // an expression over the kernel's variables, below
  double want;
} Line;

static const char *prologue =
    "#include <cuda_fp16.h>\n"
    "#include <cuda_bf16.h>\n"
    "__device__ unsigned bits(__half2 v) { return *reinterpret_cast<unsigned *>(&v); }\n"
    "__device__ unsigned bits(__nv_bfloat162 v) { return *reinterpret_cast<unsigned *>(&v); }\n"
    "struct Numbers { float nan, inf, big, two; double dnan, dbig; long long ll; int i; };\n"
    "extern \"C\" __global__ void k(Numbers n, double *out) {\n"
    "  float nan = n.nan, inf = n.inf, big = n.big, two = n.two; int i = n.i;\n"
    "  double dnan = n.dnan, dbig = n.dbig; long long ll = n.ll; unsigned long long ull = n.ll;\n"
    "  __half2 h2(__floats2half2_rn(1, 2)); __nv_bfloat162 b2(__floats2bfloat162_rn(1, 2));\n"
    "  unsigned short us[2] = {5, 6}; float f, g; double d, e; unsigned u = 7;\n";

typedef struct Numbers {
  float nan, inf, big, two;
  double dnan, dbig;
  long long ll;
  int i;
} Numbers;

static char *write_kernel(const Line *lines, int n) {
  char *source = NULL;
  size_t bytes;
  FILE *f = open_memstream(&source, &bytes);
  fputs(prologue, f);
  for (int i = 0; i < n; i++) fprintf(f, "#line %d \"line\"\nout[%d] = (%s);\n", i, i, lines[i].text);
  fputs("}\n", f);
  fclose(f);
  return source;
}

// The results of the lines, each alone in the sense that the variables keep what earlier ones did.
static void check_lines(const Line *lines, int n) {
  char *source = write_kernel(lines, n);
  CUfunction k = device_function(source, "k");
  Numbers numbers = {NAN, INFINITY, 1e20f, 2, (double)NAN, 1e300, 1ll << 40, -1};
  double out[256];
  assert_true(n <= 256);
  CUdeviceptr p = device_upload(NULL, sizeof out);
  OK(device_run(k, 1, 1, 0, (void *[]){&numbers, &p}));
  OK(cuMemcpyDtoH(out, p, sizeof out));
  int wrong = 0;
  for (int i = 0; i < n; i++) {
    double want = lines[i].want, room = 4e-16 * fabs(want);
    if (!(out[i] == want || fabs(out[i] - want) <= room))
      fprintf(stderr, "`%s` is %.17g, not %.17g\n", lines[i].text, out[i], want), wrong++;
  }
  assert_int_equal(wrong, 0);
  OK(cuMemFree(p));
  free(source);
}

#define CHECK(lines) check_lines(lines, (int)(sizeof lines / sizeof *lines))

// As PTX's cvt: the ends of the type, and NaN.
static void test_conversions(void **state) {
  (void)state;
  static const Line lines[] = {
      {"__float2int_rn(big)", 2147483647},
      {"__float2int_rz(-big)", -2147483648.0},
      {"__float2int_rd(inf) + 1.0", 2147483648.0},
      {"__float2int_ru(-inf)", -2147483648.0},
      {"__float2int_rn(nan)", 0},
      {"__float2int_rz(-2147483648.0f * (two - 1))", -2147483648.0},
      {"__float2int_rn(two + 0.5f) * 10 + __float2int_ru(two + 0.25f)", 23},
      {"__float2uint_rn(-two)", 0},
      {"__float2uint_rz(big)", 4294967295.0},
      {"__float2uint_rd(nan)", 0},
      {"__float2uint_ru(3e9f * (two - 1))", 3e9},
      {"__float2ll_rz(big) == 0x7fffffffffffffffll", 1},
      {"__float2ll_rd(-big) == -0x7fffffffffffffffll - 1", 1},
      {"__float2ll_rn(nan) == -0x7fffffffffffffffll - 1", 1},
      {"__float2ull_rn(-big)", 0},
      {"__float2ull_ru(big) == ~0ull", 1},
      {"__float2ull_rz(1e19f * (two - 1)) == 9999999980506447872ull", 1},
      {"__double2int_rn(dbig)", 2147483647},
      {"__double2int_rz(-dbig)", -2147483648.0},
      {"__double2int_rd(dnan)", -2147483648.0},
      {"__double2int_ru(2147483647.0 * n.two / 2)", 2147483647},
      {"__double2uint_rn(dbig) + 0.0", 4294967295.0},
      {"__double2uint_rz(-n.two)", 0},
      {"__double2uint_rn(dnan)", 2147483648.0},
      {"__double2ll_rn(-dbig) == -0x7fffffffffffffffll - 1", 1},
      {"__double2ull_rn(dbig) == ~0ull", 1},
      {"__double2ull_rn(dnan) == 1ull << 63", 1},
      {"__half2int_rn(__float2half(inf))", 2147483647},
      {"__half2int_rz(__float2half(nan))", 0},
      {"__half2short_rn(__float2half(65504.0f * (two - 1)))", 32767},
      {"__half2short_rd(__float2half(-inf))", -32768},
      {"__half2ushort_ru(__float2half(-two))", 0},
      {"__bfloat162uint_rn(__float2bfloat16(big))", 4294967295.0},
      {"__bfloat162int_rz(__float2bfloat16(nan))", 0},
      {"__half_as_ushort(__float2half(nan))", 0x7fff},
      {"__half_as_ushort(__float2half(-nan))", 0x7fff},
      {"__bfloat16_as_ushort(__float2bfloat16(nan))", 0x7fff},
      {"__half_as_ushort(__double2half(1.00048828125 * n.two / 2 + 1e-12))", 0x3c01},
      {"__half_as_ushort(__double2half(dbig)) + __half_as_ushort(__double2half(-1 / dbig))", 0xfc00},
      {"__bfloat16_as_ushort(__int2bfloat16_rn(0x1010000 + i + 2))", 0x4b81},
      {"__bfloat16_as_ushort(__int2bfloat16_rn(0x40400000 + i + 2))", 0x4e81},
      {"__bfloat16_as_ushort(__ll2bfloat16_rn((ll << 22 | ll << 14) - i)) == 0x5e81", 1},
      {"__bfloat16_as_ushort(__ull2bfloat16_rn(ull)) == 0x5380", 1},
      {"bits(__floats2half2_rn(nan, -nan))", 0x7fff7fff},
      {"bits(__float22bfloat162_rn(make_float2(-nan, nan)))", 0x7fff7fff},
  };
  CHECK(lines);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conversions)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
