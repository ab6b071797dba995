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
    "  double dnan = n.dnan, dbig = n.dbig, dtwo = n.two, d, e; float f, g; unsigned u = 7;\n"
    "  __shared__ long long ll; __shared__ unsigned long long ull; ll = ull = n.ll;\n"
    "  __shared__ __half2 h2; h2 = __floats2half2_rn(1, 2);\n"
    "  __shared__ __nv_bfloat162 b2; b2 = __floats2bfloat162_rn(1, 2);\n"
    "  __shared__ unsigned short us[2]; us[0] = 5, us[1] = 6;\n"
    "  __half h = __float2half(two), hn = __float2half(nan);\n"
    "  __nv_bfloat16 b = __float2bfloat16(two);\n"
    "  __half2 p(h, __half(5.0f)), q = make_half2(h, hn), r = p; unsigned top = ~0u; bool yes;\n"
    "  __nv_bfloat162 c = make_bfloat162(b, __nv_bfloat16(3.0f)); (void)f, (void)g;\n"
    "  __shared__ float4 f4; f4 = make_float4(1, two, 3, 4); auto say = [&](bool v) { yes = v; };\n"
    "  say(true); h = h, b = b, q = q, r = r, c = c, hn = hn, top = top;\n";

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
  for (int i = 0; i < n; i++)
    fprintf(f, "#line %d \"line\"\nout[%d] = (%s);\n", i + 1, i, lines[i].text);
  fputs("}\n", f);
  fclose(f);
  return source;
}

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
      {"__double2int_ru(2147483647.0 * dtwo / 2)", 2147483647},
      {"__double2uint_rn(dbig) + 0.0", 4294967295.0},
      {"__double2uint_rz(-dtwo)", 0},
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
      {"__half_as_ushort(__ull2half_rn(two - 1)) + __half_as_ushort(__ll2half_rn(-two))",
       0x3c00 + 0xc000},
      {"__half_as_ushort(__float2half(nan))", 0x7fff},
      {"__half_as_ushort(__float2half(-nan))", 0x7fff},
      {"__bfloat16_as_ushort(__float2bfloat16(nan))", 0x7fff},
      {"__half_as_ushort(__double2half(1.00048828125 * dtwo / 2 + 1e-12))", 0x3c01},
      {"__half_as_ushort(__double2half(dbig)) + __half_as_ushort(__double2half(-1 / dbig))",
       0xfc00},
      {"__bfloat16_as_ushort(__int2bfloat16_rn(0x1010000 + i + 2))", 0x4b81},
      {"__bfloat16_as_ushort(__int2bfloat16_rn(0x40400000 + i + 2))", 0x4e81},
      {"__bfloat16_as_ushort(__ll2bfloat16_rn((ll << 22 | ll << 14) - i)) == 0x5e81", 1},
      {"__bfloat16_as_ushort(__ull2bfloat16_rn(ull)) == 0x5380", 1},
      {"bits(__floats2half2_rn(nan, -nan))", 0x7fff7fff},
      {"bits(__float22bfloat162_rn(make_float2(-nan, nan)))", 0x7fff7fff},
  };
  CHECK(lines);
}

// The variables keep what earlier lines did.
static void test_atomics(void **state) {
  (void)state;
  static const Line lines[] = {
      {"bits(atomicAdd(&h2, __floats2half2_rn(0.5f, two)))", 0x40003c00},
      {"bits(h2)", 0x44003e00},
      {"bits(atomicAdd(&b2, __floats2bfloat162_rn(0.5f, two)))", 0x40003f80},
      {"bits(b2)", 0x40803fc0},
      {"atomicCAS(us, 5, 9) * 100 + us[0] * 10 + us[1]", 596},
      {"atomicCAS(us + 1, 5, 9) * 10 + us[1]", 66},
      {"atomicOr(&ll, 5ll) == 1ll << 40 && ll == (1ll << 40 | 5)", 1},
      {"atomicAnd(&ll, 4ll), double(ll)", 4},
      {"atomicXor(&ll, -1ll), double(ll)", -5},
      {"atomicMin(&ll, -(1ll << 50)), double(ll)", -0x1p50},
      {"atomicMax(&ll, 7ll), double(ll)", 7},
      {"atomicOr(&ull, 5ull), atomicXor(&ull, 1ull), double(ull)", 0x1p40 + 4},
      {"atomicAnd(&ull, ~4ull), double(ull)", 0x1p40},
      {"atomicMin(&ull, ~0ull), atomicMax(&ull, 1ull << 63), double(ull)", 0x1p63},
  };
  CHECK(lines);
}

static const char *sums_source =
    "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    "extern \"C\" __global__ void k(__half2 *h, __nv_bfloat162 *b, float4 *f, unsigned *top) {\n"
    "  atomicAdd(h, __floats2half2_rn(1, 2)); atomicAdd(b, __floats2bfloat162_rn(0.5f, 1));\n"
    "  atomicAdd(f, make_float4(1, 2, 3, 4)); atomicAdd((float2 *)f + 1, make_float2(1, 2));\n"
    "  unsigned short *s = (unsigned short *)top, old = *s, seen;\n"
    "  while ((seen = atomicCAS(s, old, (unsigned short)(old + 1))) != old) old = seen; }\n";

// From many blocks at once none is lost.
static void test_atomic_sums(void **state) {
  (void)state;
  const unsigned zero[8] = {0};
  unsigned short sums[12], count[2];
  float f[4];
  CUdeviceptr h = device_upload(zero, 4), b = device_upload(zero, 4), p = device_upload(zero, 16),
              top = device_upload(zero, 4);
  OK(device_run(device_function(sums_source, "k"), 4, 64, 0, (void *[]){&h, &b, &p, &top}));
  OK(cuMemcpyDtoH(sums, h, 4));
  OK(cuMemcpyDtoH(sums + 2, b, 4));
  OK(cuMemcpyDtoH(f, p, sizeof f));
  OK(cuMemcpyDtoH(count, top, 4));
  assert_true(sums[0] == 0x5c00 && sums[1] == 0x6000); // 256, 512
  assert_true(sums[2] == 0x4300 && sums[3] == 0x4380); // 128, 256
  assert_true(f[0] == 256 && f[1] == 512 && f[2] == 1024 && f[3] == 1536);
  assert_true(count[0] == 256 && count[1] == 0);
}

// The type of a mixed minimum shows in its sign, or in its size.
static void test_arithmetic(void **state) {
  (void)state;
  static const Line lines[] = {
      {"max(i, 2u) + 0.0", 4294967295.0},
      {"min(2u, i)", 2},
      {"max(-1ll, ull) == ~0ull", 1},
      {"min(two, 1.0) + sizeof(max(1.0, two))", 9},
      {"llabs(-ll) + labs(-3l * i)", 0x1p40 + 3},
      {"abs(-3l) + sizeof(abs(i))", 7},
      {"int(1u << 31) * (i + 2) / i", -2147483648.0}, // the quotient's bits
      {"int(1u << 31) * (i + 2) % i + 7", 7},
      {"int(1u << 31) * (i + 2) / *(volatile int *)&n.i", -2147483648.0},
      {"int(1u << 31) * (i + 2) % ((volatile int *)&n)[i + 11]", 0},
      {"(long long)(1ull << 63) * (i + 2) / (long long)i", -0x1p63},
      {"(long long)(1ull << 63) * (i + 2) % (long long)i - 5", -5},
      {"sinpi(two * 1048576.5) + sinpif(two * 100)", 0},
      {"sinpi(dtwo / 12)", 0.5},
      {"cospi(dtwo / 6)", 0.5},
      {"cospif(two * 8388607.5f) + cospif(two / 4)", -1},
      {"sincospif(two / 4, &f, &g), f * 10 + g", 10},
      {"sincospi(dtwo / 12, &d, &e), d", 0.5},
      {"erfinv(dtwo / 4)", 0.4769362762044699},
      {"erfinv(erf(dtwo / 16)) * 8", 1},
      {"erfinvf(-1.0f * (two - 1)) == -inf", 1},
      {"fabs(erfinv(1 - 1e-10 * dtwo / 2) - 4.572824967389486) < 1e-6", 1},
      {"fabs(erfcinv(1e-300 * dtwo / 2) / 26.209469960516 - 1) < 1e-13", 1},
      {"fabs(erfc(erfcinv(1e-200 * dtwo / 2)) / 1e-200 - 1) < 1e-12", 1},
      {"fabs(normcdfinv(0.975 * dtwo / 2) - 1.959963984540054) < 4e-16", 1},
      {"fabs(normcdfinvf(0.025f * two / 2) + 1.959964f) < 3e-7f", 1},
      {"fabs(normcdf(1.959963984540054 * dtwo / 2) - 0.975) < 4e-16", 1},
      {"fabs(normcdf(-37 * dtwo / 2) / 5.7255712225245771e-300 - 1) < 8e-16", 1},
      {"fabs(normcdf(-30.3 * dtwo / 2) / 5.7317235033154957e-202 - 1) < 8e-16", 1},
      {"fabs(normcdf(-20.7 * dtwo / 2) / 1.7318518790197378e-95 - 1) < 8e-16", 1},
      {"fabs(normcdf(-8.1 * dtwo / 2) / 2.7479593923982286e-16 - 1) < 8e-16", 1},
      {"fabs(normcdf(-3.3 * dtwo / 2) / 0.0004834241423837775 - 1) < 8e-16", 1},
      {"normcdf(-inf) + normcdf(-40 * dtwo) + normcdf(inf) + normcdf(100 * dtwo)", 2},
      {"isnan(normcdf(dtwo * __longlong_as_double(0x7ff8000000000000)))", 1},
      {"fmaxf(__int_as_float(0x7f800000 | (i & 1)), 3) +"
       "fminf(3, __int_as_float(0x7f800000 | (i & 1)))", 6},
      {"fmax(__longlong_as_double(0x7ff0000000000000 | (i & 1)), 3.0) +"
       "fmin(3.0, __longlong_as_double(0x7ff0000000000000 | (i & 1)))", 6},
      {"max(__int_as_float(0xff800000u | (i & 1)), two) + min(two, inf) + fmaxf(-inf, two)", 6},
      {"1 / fmaxf(-0.0f * two, 0 * two) > 0 && 1 / fmaxf(0 * two, -0.0f * two) > 0", 1},
      {"1 / fmin(-0.0 * dtwo, 0 * dtwo) < 0 && 1 / fmin(0 * dtwo, -0.0 * dtwo) < 0", 1},
      {"isnan(fmaxf(__int_as_float(0x7f800000 | (i & 1)), __int_as_float(0x7ffffffe | (i & 1))))",
       1},
      {"fabs(erfcx(dtwo / 2) - 0.427583576155807) < 4e-16", 1},
      {"fabs(erfcx(25.999999999 * dtwo / 2) / erfcx(26.000000001 * dtwo / 2) - 1) < 1e-10", 1},
      {"fabs(erfcxf(50 * two) - 5.641613782989432e-3f) < 1e-9f", 1},
      {"fabs(j0f(two) - 0.22389078f) + fabs(y1(dtwo) + 0.1070324315409375) < 1e-7", 1},
      {"__hiloint2double(__double2hiint(-dtwo / 3), __double2loint(-dtwo / 3)) == -dtwo / 3", 1},
      {"fabs(jn(2, dtwo) - 0.3528340286156377) < 1e-15", 1},
      {"__dadd_rn(dtwo, __dmul_rn(3, dtwo)) + __fma_rn(2, dtwo, 1)", 13},
      {"__dsub_rn(__ddiv_rn(dtwo, 4), __dsqrt_rn(4.0)) + __drcp_rn(dtwo)", -1},
      {"__fma_rn(1 + 0x1p-52 * dtwo, 1 - 0x1p-51, -1.0) == -0x1p-102", 1},
      {"__fns(0xf0u, 4, 2) * 10 + __fns(0xf0u, 31, -1)", 57},
      {"__fns(0xf0u, 0, 5) == ~0u && __fns(0xf0u, 3, 0) == ~0u && __fns(0xf0u, 5, 0) == 5", 1},
      {"__dp2a_lo(0x0003fffe, 0x0504ff02, i) * 10 + __dp2a_hi(0x0003fffe, 0x0504ff02, 1)", -72},
      {"__dp2a_lo(0x0003fffeu, 0x0504ff02u, 1u)", 131070 - 2 + 3 * 255 + 1},
      {"__dp4a(0x01ff02u, 0x010203u, 1u)", 1 + 510 + 6 + 1},
      {"__dp4a(0x01ff02, 0x010203, 1)", 1 - 2 + 6 + 1},
      {"__stwt(&u, 5u), __stwb(us, (unsigned short)3), __ldcv(&u) + __ldlu(us) + 0.0", 8},
  };
  CHECK(lines);
}

static void test_not_nvrtc(void **state) {
  (void)state;
  CXX_ONLY("it lacks these overloads and __assume");
  static const Line lines[] = {
      {"sqrt(i + 5) + pow(i + 3, 3) + floor(5u) == 15", 1},
      {"__builtin_assume(u > 0), __assume(u == 7), sizeof(clock_t)", 8},
  };
  CHECK(lines);
}

// 1, 2, 3, 5 of fp16: 3c00 4000 4200 4500; of bf16: 3f80 4000 4040 40a0.
static void test_16_bits(void **state) {
  (void)state;
  static const Line lines[] = {
      {"bits(p)", 0x45004000},
      {"bits(c)", 0x40404000},
      {"bits(__low2half2(p)) == 0x40004000 && bits(__high2half2(p)) == 0x45004500", 1},
      {"bits(__low2bfloat162(c)) == 0x40004000 && bits(__high2bfloat162(c)) == 0x40404040", 1},
      {"bits(__lowhigh2highlow(p))", 0x40004500},
      {"bits(__lowhigh2highlow(c))", 0x40004040},
      {"__half_raw(h).x * 2.0 + __nv_bfloat16_raw(b).x", 0x4000 * 3},
      {"float(__half(__half_raw{0x4500})) + float(__nv_bfloat16(__nv_bfloat16_raw{0x40a0}))", 10},
      {"bits(__half2(__half2_raw{0x3c00, 0x4200}))", 0x42003c00},
      {"__half2_raw(p).y", 0x4500},
      {"bits(__nv_bfloat162(__nv_bfloat162_raw{1, 2}))", 0x20001},
      {"__half_as_short(__short_as_half(short(-5)))", -5},
      {"__bfloat16_as_short(__short_as_bfloat16(short(-7)))", -7},
      {"__half2char_rz(__half(-200.5f)) * 1000 + __half2uchar_rz(__half(3.9f))", -127997},
      {"h++, float(h)", 3},
      {"float(h++) * 10 + float(++h) + float(h--) * 100 + float(--h) * 1000", 3535},
      {"b--, float(b) + float(+b)", 2},
      {"bits(r++) == 0x45004000 && bits(r) == 0x46004200", 1},
      {"bits(--r)", 0x45004000},
      {"r == p && !(r != p) && r <= p && r >= p && !(r < p) && !(r > p)", 1},
      {"r.y = __half(7.0f), r > p || r == p || !(r >= p) || r != p", 0},
      {"r != make_half2(__half(1.0f), h)", 1},
      {"__hbgt2(make_half2(3.0f, 6.0f), p) + 2 * __hbgt2(p, p) + 4 * __hbge2(p, p)", 5},
      {"__hbeq2(q, q) + 2 * __hbequ2(q, q) + 4 * __hbne2(q, q) + 8 * __hbltu2(q, p)", 2},
      {"__heq(hn, hn) + 2 * __hne(hn, hn) + 4 * __hneu(hn, h) + 8 * (hn != hn)", 12},
      {"hn == hn", 0},
      {"__hgtu(hn, h) + 2 * __hgt(hn, h) + 4 * __hleu(h, hn) + 8 * __hle(h, hn)", 5},
      {"bits(__heq2(q, q))", 0x3c00},
      {"bits(__hneu2(q, q))", 0x3c000000},
      {"__heq2_mask(q, q) == 0xffff && __hneu2_mask(q, q) == 0xffff0000", 1},
      {"__hlt2_mask(p, p)", 0},
      {"c == c && __hbne2(c, __lowhigh2highlow(c))", 1},
      {"float(htanh(__float2half(inf))) + float(htanh(__float2bfloat16(-inf))) * 3", -2},
      {"fabs(float(htanh(__half(0.5f))) - 0.46211716f) < 3e-4", 1},
      {"bits(h2tanh(make_half2(__float2half(inf), __half(0.0f))))", 0x3c00},
  };
  CHECK(lines);
}

static void test_integers(void **state) {
  (void)state;
  static const Line lines[] = {
      {"__hadd(0x7fffffff + i + 1, 0x7ffffffd)", 0x7ffffffe},
      {"__hadd(i, -2) * 10 + __rhadd(i, -2)", -21},
      {"__rhadd(0x7fffffff, 0x7ffffffe + i + 1)", 0x7fffffff},
      {"__uhadd(top, top - 1) + 0.0", 4294967294.0},
      {"__urhadd(top, top - 1) + 0.0", 4294967295.0},
      {"umin(top, 3u) + umax(1u, 2u) * 10", 23},
      {"llmin(-ll, 3) + llmax(-ll, 3)", -0x1p40 + 3},
      {"ullmin(ull, ~0ull) + 0.0 == 0x1p40 && ullmax(ull, ~0ull) == ~0ull", 1},
      {"__funnelshift_lc(0x89abcdefu, 0x01234567u, u + 1)", 0x23456789},
      {"__funnelshift_lc(0x09abcdefu, 0x01234567u, 25 + u) == 0x09abcdef", 1},
      {"__funnelshift_lc(0x09abcdefu, 0x01234567u, top) == 0x09abcdef", 1},
      {"__funnelshift_l(0x09abcdefu, 0x01234567u, 25 + u) == 0x01234567", 1},
      {"__funnelshift_rc(0x89abcdefu, 0x01234567u, u + 1)", 0x6789abcd},
      {"__funnelshift_rc(0x89abcdefu, 0x01234567u, 25 + u)", 0x01234567},
      {"__vimax3_s32(i, -5, -3) * 10 + __vimin3_s32(i, -5, -3)", -15},
      {"__vimax3_u32(1, top, 2) + 0.0", 4294967295.0},
      {"__vimin3_u32(4, top, 2)", 2},
      {"__viaddmax_s32(i, -5, -7) * 10 + __viaddmin_s32(i, 5, 7)", -56},
      {"__viaddmax_s32(0x7fffffff + i + 1, 1, 3)", 3},
      {"__viaddmin_u32(top, 2, 9) * 10 + __viaddmax_u32(top, 2, 9)", 19},
      {"__vibmax_s32(i, 3, &yes) * 10 + yes", 30},
      {"__vibmin_s32(i, 3, &yes) * 10 + yes", -9},
      {"__vibmax_u32(top, 3, &yes) + 0.0 + yes", 4294967296.0},
      {"__vibmin_u32(3, u - 4, &yes) * 10 + yes", 31},
      {"__vimax_s32_relu(i, -3) + __vimin_s32_relu(i, 3) + __vimax_s32_relu(i, 3)", 3},
      {"__vimax3_s32_relu(i, -3, -2) + __vimin3_s32_relu(4, 5, u)", 4},
      {"__viaddmax_s32_relu(i, -3, -2) * 10 + __viaddmin_s32_relu(i, 5, 9)", 4},
      {"__sincosf(two, &f, &g), fabs(f - sinf(two)) + fabs(g - cosf(two)) < 1e-5", 1},
      {"fabs(__tanhf(two / 2) - 0.7615942f) < 1e-6", 1},
      {"isnan(nanf(\"\")) && isnan(::nan(\"\")) && !(nanf(\"\") == nanf(\"\"))", 1},
      {"scalblnf(two, 3l) + scalbln(dtwo, -1l)", 17},
      {"__fmaf_ieee_rn(two, 3, 4)", 10},
      {"__ldcv(&f4).w + __ldcv(&f4.y) * 10", 24},
      {"*(float *)__cvta_global_to_generic(__cvta_generic_to_global(&n.two))", 2},
      {"*(float *)__cvta_shared_to_generic(__cvta_generic_to_shared(&f4.z))", 3},
      {"__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__", 1300},
      {"__CUDA_ARCH_LIST__ == __CUDA_ARCH__", 1},
      {"__CUDA_ARCH_FEAT_SM90_ALL", 1},
  };
  CHECK(lines);
}

static const char *bytes_source =
    "struct Row { int v[64]; };\n"
    "extern \"C\" __global__ void k(char *x, const char *y, int n) {\n"
    "  __shared__ Row row; memset(&row, 7, sizeof row); __syncthreads();\n"
    "  char local[16]; memcpy(local, y, 16); memcpy(x, local, 16); memcpy(x + 16, y + 16, n);\n"
    "  memmove(x + 1, x, n); memset(x + 40, 5, 8); x[50] = ((char *)&row)[9];\n"
    "  ::memcpy(x + 51, y + 3, 1); }\n";

static void test_bytes(void **state) {
  (void)state;
  CXX_ONLY("it has no memmove");
  char y[64], x[64], want[64] = {0};
  for (int i = 0; i < 64; i++) y[i] = (char)i;
  int n = 20;
  memcpy(want, y, 36), memmove(want + 1, want, 20), memset(want + 40, 5, 8);
  want[50] = 7, want[51] = 3;
  CUdeviceptr py = device_upload(y, sizeof y), out = device_upload((char[64]){0}, 64);
  CUfunction k = device_function(bytes_source, "k");
  OK(device_run(k, 1, 1, 0, (void *[]){&out, &py, &n}));
  OK(cuMemcpyDtoH(x, out, sizeof x));
  assert_memory_equal(x, want, sizeof x);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conversions),
                                     cmocka_unit_test(test_arithmetic),
                                     cmocka_unit_test(test_not_nvrtc),
                                     cmocka_unit_test(test_bytes),
                                     cmocka_unit_test(test_16_bits),
                                     cmocka_unit_test(test_integers),
                                     cmocka_unit_test(test_atomics),
                                     cmocka_unit_test(test_atomic_sums)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
