// test_scalar.c: conversions, vector accesses and arithmetic of prim.cuh against their definitions.
#include "tests/sim/device.h"

#include <math.h>

static unsigned bits_of(float x) {
  unsigned bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(unsigned bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// A 16-bit format by its definition: sign, exponent, mantissa.
static double decode(unsigned h, int exponent_bits, int mantissa_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
  int exponent = (int)(h >> mantissa_bits) & top;
  double mantissa = h & ((1u << mantissa_bits) - 1), one = 1 << mantissa_bits;
  double size = exponent == top ? (mantissa != 0 ? (double)NAN : (double)INFINITY)
                : exponent      ? ldexp(1 + mantissa / one, exponent - bias)
                                : ldexp(mantissa / one, 1 - bias);
  return h >> (exponent_bits + mantissa_bits) & 1 ? -size : size;
}

// The nearest value of the format, ties to the even pattern, by search among its positive values.
static unsigned encode(double x, int exponent_bits, int mantissa_bits) {
  unsigned sign = signbit(x) ? 0x8000u : 0, infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  double size = fabs(x), step = decode(infinity - 1, exponent_bits, mantissa_bits) -
                                decode(infinity - 2, exponent_bits, mantissa_bits);
  unsigned low = 0, high = infinity;
  while (high - low > 1) {
    unsigned middle = (low + high) / 2;
    if (decode(middle, exponent_bits, mantissa_bits) <= size)
      low = middle;
    else
      high = middle;
  }
  double below = decode(low, exponent_bits, mantissa_bits);
  double above = high == infinity ? below + step : decode(high, exponent_bits, mantissa_bits);
  double middle = (below + above) / 2;
  if (size > middle || (size == middle && low % 2)) return sign | high;
  return sign | low;
}

static void run_elementwise(const char *body, const char *in, const char *out, const void *x,
                            void *y, size_t in_size, size_t out_size, int n) {
  char source[2048];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "extern \"C\" __global__ void k(const %s *X, %s *Y, int n) {\n"
           "  int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;\n"
           "  %s x = X[i]; %s y; %s; Y[i] = y;\n}\n",
           in, out, in, out, body);
  CUfunction f = device_function(source, "k");
  CUdeviceptr px = device_upload(x, in_size * (size_t)n),
              py = device_upload(NULL, out_size * (size_t)n);
  OK(device_run(f, (n + 255) / 256, 256, 0, (void *[]){&px, &py, &n}));
  OK(cuMemcpyDtoH(y, py, out_size * (size_t)n));
  OK(cuMemFree(px)), OK(cuMemFree(py));
}

static void check_decode(const char *type, int exponent_bits, int mantissa_bits) {
  static unsigned short x[65536];
  static float y[65536];
  char body[64];
  for (int i = 0; i < 65536; i++) x[i] = (unsigned short)i;
  snprintf(body, sizeof body, "y = nn_float(x)");
  run_elementwise(body, type, "float", x, y, 2, 4, 65536);
  for (unsigned i = 0; i < 65536; i++) {
    double want = decode(i, exponent_bits, mantissa_bits);
    if (isnan(want) ? !isnan(y[i]) : bits_of(y[i]) != bits_of((float)want))
      fail_msg("%s %04x: %g, want %g", type, i, (double)y[i], want);
  }
}

enum { kSamples = 200000 };
static float samples[kSamples];

static void make_samples(void) {
  unsigned state = 7;
  const float special[] = {0,
                           -0.0f,
                           1,
                           -1,
                           65504,
                           65519.996f,
                           65520,
                           65536,
                           1e-8f,
                           5.9604645e-8f,
                           2.9802322e-8f,
                           2.9802326e-8f,
                           6.1e-5f,
                           3.4e38f,
                           -3.4e38f,
                           INFINITY,
                           -INFINITY,
                           NAN,
                           1.00048828125f,
                           1.00146484375f,
                           1.00390625f,
                           1.01171875f};
  int n = sizeof special / sizeof *special;
  for (int i = 0; i < kSamples; i++) {
    state = state * 1664525u + 1013904223u;
    samples[i] = i < n ? special[i] : float_of(state);
    if (i >= n && i % 2) samples[i] = ((float)(int)state) * 0x1p-30f; // near 1
  }
}

static void check_encode(const char *type, int exponent_bits, int mantissa_bits) {
  static unsigned short y[kSamples];
  char body[64];
  make_samples();
  snprintf(body, sizeof body, "y = nn_cast<%s>(x)", type);
  run_elementwise(body, "float", type, samples, y, 4, 2, kSamples);
  for (int i = 0; i < kSamples; i++) {
    if (isnan(samples[i])) {
      assert_int_equal(y[i], 0x7fff);
      continue;
    }
    unsigned want = encode(samples[i], exponent_bits, mantissa_bits);
    if (y[i] != want) fail_msg("%s(%a) = %04x, want %04x", type, (double)samples[i], y[i], want);
  }
}

static void test_half(void **state) {
  (void)state;
  check_decode("f16", 5, 10);
  check_encode("f16", 5, 10);
}

static void test_bfloat(void **state) {
  (void)state;
  check_decode("bf16", 8, 7);
  check_encode("bf16", 8, 7);
}

static void test_tf32(void **state) {
  (void)state;
  static unsigned y[kSamples];
  make_samples();
  run_elementwise("y = nn_tf32(x)", "float", "unsigned", samples, y, 4, 4, kSamples);
  for (int i = 0; i < kSamples; i++) {
    unsigned b = bits_of(samples[i]);
    if (isnan(samples[i]) || (b & 0x7fffffff) >= 0x7f7ff000) continue; // rounds past the largest
    unsigned low = b & 0x1fff, want = (b & ~0x1fffu) + (low >= 0x1000 ? 0x2000 : 0);
    if ((y[i] & ~0x1fffu) != want)
      fail_msg("tf32(%a) = %08x, want %08x", (double)samples[i], y[i], want);
  }
}

static void test_casts(void **state) {
  (void)state;
  const float x[8] = {-1e10f, 1e10f, NAN, 2.9f, -2.9f, 255.5f, 300, -3};
  const int want_int[8] = {-2147483647 - 1, 2147483647, 0, 2, -2, 255, 300, -3};
  const unsigned char want_byte[8] = {0, 255, 0, 2, 0, 255, 255, 0};
  int ints[8];
  unsigned char bytes[8];
  double doubles[8];
  run_elementwise("y = nn_cast<int>(x)", "float", "int", x, ints, 4, 4, 8);
  run_elementwise("y = nn_cast<unsigned char>(x)", "float", "unsigned char", x, bytes, 4, 1, 8);
  run_elementwise("y = nn_cast<double>(nn_float(nn_cast<int>(x)))", "float", "double", x, doubles,
                  4, 8, 8);
  for (int i = 0; i < 8; i++) {
    assert_int_equal(ints[i], want_int[i]);
    assert_int_equal(bytes[i], want_byte[i]);
    assert_true(doubles[i] == (double)(float)want_int[i]);
  }
  unsigned packed[8];
  run_elementwise("y = nn_pack<f16>(x, 1.0f)", "float", "unsigned", x, packed, 4, 4, 8);
  assert_int_equal(packed[7], 0x3c00c200);
  run_elementwise("y = nn_pack<bf16>(x, 1.0f)", "float", "unsigned", x, packed, 4, 4, 8);
  assert_int_equal(packed[7], 0x3f80c040);
}

// Vectors of every width convert to the bits that their elements do: the type's values (any bits)
// to float, and floats to the type.
static void check_vectors(const char *type, const void *values, size_t size) {
  char source[2048];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "typedef %s T;\n"
           "template <class V> __device__ int differs(V a, V b) {\n"
           "  int bad = 0;\n"
           "  for (int i = 0; i < int(sizeof(V)); i++)\n"
           "    bad |= reinterpret_cast<char *>(&a)[i] ^ reinterpret_cast<char *>(&b)[i];\n"
           "  return bad; }\n"
           "template <int N> __device__ int check(const T *x, const float *y) {\n"
           "  const Vec<float, N> wide = nn_float(nn_load<N>(x));\n"
           "  const Vec<T, N> narrow = nn_cast<T>(nn_load<N>(y));\n"
           "  int bad = 0;\n"
           "  for (int j = 0; j < N; j++)\n"
           "    bad |= differs(wide[j], nn_float(x[j])) | differs(narrow[j], nn_cast<T>(y[j]));\n"
           "  return bad; }\n"
           "extern \"C\" __global__ void k(const T *x, const float *y, int *bad) {\n"
           "  int i = blockIdx.x * 256 + threadIdx.x; x += 16 * i; y += 16 * i;\n"
           "  bad[i] = check<1>(x, y) | check<2>(x, y) | check<3>(x, y) | check<4>(x, y)\n"
           "    | check<8>(x, y) | check<16>(x, y); }\n",
           type);
  enum { kEach = 16, kBlock = 256, kBlocks = 65536 / kEach / kBlock, kThreads = kBlocks * kBlock };
  static int bad[kThreads];
  CUfunction f = device_function(source, "k");
  CUdeviceptr px = device_upload(values, size * 65536);
  CUdeviceptr py = device_upload(samples, sizeof *samples * 65536);
  CUdeviceptr pb = device_upload(NULL, sizeof bad);
  OK(device_run(f, kBlocks, kBlock, 0, (void *[]){&px, &py, &pb}));
  OK(cuMemcpyDtoH(bad, pb, sizeof bad));
  for (int i = 0; i < kThreads; i++)
    if (bad[i]) fail_msg("%s: elements %d to %d", type, kEach * i, kEach * i + kEach - 1);
  OK(cuMemFree(px)), OK(cuMemFree(py)), OK(cuMemFree(pb));
}

static void test_vector_conversions(void **state) {
  (void)state;
  static unsigned short halves[65536];
  for (int i = 0; i < 65536; i++) halves[i] = (unsigned short)i;
  make_samples();
  check_vectors("f16", halves, 2);
  check_vectors("bf16", halves, 2);
  check_vectors("float", samples, 4);
  check_vectors("int", samples, 4);
  check_vectors("unsigned char", halves, 1);
}

typedef struct Function {
  const char *call;
  double (*reference)(double);
  double low, high, ulps;
} Function;

static double rsqrt_reference(double x) {
  return 1 / sqrt(x);
}
static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
static double rest_of_3(double x) {
  return fmod(x, 3);
}
static double angle_of_2(double y) {
  return atan2(y, 2);
}
static double square(double x) {
  return x * x;
}

static void test_functions(void **state) {
  (void)state;
  static const Function functions[] = {{"nn_exp(x)", exp, -80, 80, 2},
                                       {"nn_exp2(x)", exp2, -100, 100, 2},
                                       {"nn_exp2_fast(x)", exp2, -100, 100, 4},
                                       {"nn_log(x)", log, 1e-6, 1e6, 2},
                                       {"nn_sqrt(x)", sqrt, 0, 1e9, 0.51},
                                       {"nn_rsqrt(x)", rsqrt_reference, 1e-6, 1e6, 2},
                                       {"nn_tanh(x)", tanh, -9, 9, 2},
                                       {"nn_erf(x)", erf, -4, 4, 2},
                                       {"nn_erfc(x)", erfc, -3, 3, 4},
                                       {"nn_tanh_fast(x)", tanh, -50, 50, 64},
                                       {"nn_tanh_fast(x)", tanh, -0.2, 0.2, 64},
                                       {"nn_erf_fast(x)", erf, -20, 20, 128},
                                       {"nn_erf_fast(x)", erf, -0.2, 0.2, 128},
                                       {"nn_sigmoid_fast(x)", sigmoid, -80, 80, 64},
                                       {"nn_expm1(x)", expm1, -20, 80, 2},
                                       {"nn_log1p(x)", log1p, -0.9, 1e6, 2},
                                       {"nn_atan(x)", atan, -50, 50, 2},
                                       {"nn_atan2(x, 2.0f)", angle_of_2, -50, 50, 3},
                                       {"nn_fmod(x, 3.0f)", rest_of_3, -1e6, 1e6, 0},
                                       {"nn_trunc(x)", trunc, -100, 100, 0},
                                       {"nn_sin(x)", sin, -30, 30, 2},
                                       {"nn_cos(x)", cos, -30, 30, 2},
                                       {"nn_pow(x, 2.0f)", square, -1e5, 1e5, 8},
                                       {"nn_floor(x)", floor, -100, 100, 0},
                                       {"nn_ceil(x)", ceil, -100, 100, 0},
                                       {"nn_round(x)", rint, -100, 100, 0},
                                       {"nn_abs(x)", fabs, -100, 100, 0}};
  enum { kPoints = 20001 };
  static float x[kPoints], y[kPoints];
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
    const Function *fn = &functions[f];
    char body[64];
    for (int i = 0; i < kPoints; i++)
      x[i] = (float)(fn->low + (fn->high - fn->low) * i / (kPoints - 1));
    x[kPoints / 2] = 0.5f, x[kPoints / 2 + 1] = 2.5f; // ties
    snprintf(body, sizeof body, "y = %s", fn->call);
    run_elementwise(body, "float", "float", x, y, 4, 4, kPoints);
    for (int i = 0; i < kPoints; i++) {
      double want = fn->reference(x[i]);
      double ulp = ldexp(1, ilogb(fmax(fabs(want), 1e-37)) - 23);
      if (!(fabs(y[i] - want) <= fn->ulps * ulp + 1e-37))
        fail_msg("%s at %a: %a, want %a", fn->call, (double)x[i], (double)y[i], want);
    }
  }
}

static void test_extremes(void **state) {
  (void)state;
  const float x[4] = {NAN, 1, -INFINITY, 3};
  float y[4];
  run_elementwise("y = nn_max(x, 2.0f)", "float", "float", x, y, 4, 4, 4);
  assert_true(isnan(y[0]) && y[1] == 2 && y[2] == 2 && y[3] == 3);
  run_elementwise("y = nn_min(2.0f, x)", "float", "float", x, y, 4, 4, 4);
  assert_true(isnan(y[0]) && y[1] == 1 && y[2] == -INFINITY && y[3] == 2);
  run_elementwise("y = nn_isnan(x) ? nn_inf() : nn_fma(x, 2.0f, 1.0f)", "float", "float", x, y, 4,
                  4, 4);
  assert_true(y[0] == INFINITY && y[1] == 3 && y[3] == 7);
}

// Each vector width moves its own elements and no other.
static void test_vectors(void **state) {
  (void)state;
  const char *source =
      "#include \"lib/prim.cuh\"\n"
      "template <int N, class T> __device__ void move(const T *x, T *y) {\n"
      "  int i = threadIdx.x * N;\n"
      "  Vec<T, N> a = nn_load<N>(x + i), b = nn_load_ro<N>(x + i);\n"
      "  for (int j = 0; j < N; j++) if (j % 2) a[j] = b[j];\n"
      "  nn_store<N>(y + i, a);\n"
      "}\n"
      "extern \"C\" __global__ void k(const float *x, float *y) {\n"
      "  if (blockIdx.x == 0) move<1>(x, y);\n"
      "  if (blockIdx.x == 1) move<2>(x + 1024, y + 1024);\n"
      "  if (blockIdx.x == 2) move<4>(x + 2048, y + 2048);\n"
      "  if (blockIdx.x == 3) move<8>((const f16 *)(x + 3072), (f16 *)(y + 3072));\n"
      "  if (blockIdx.x == 4) move<8>(x + 4096, y + 4096);\n"
      "  if (blockIdx.x == 5) move<3>(x + 5120, y + 5120);\n"
      "}\n";
  CUfunction f = device_function(source, "k");
  static float x[6144], y[6144];
  for (int i = 0; i < 6144; i++) x[i] = (float)i;
  memset(y, 0, sizeof y);
  CUdeviceptr px = device_upload(x, sizeof x), py = device_upload(y, sizeof y);
  OK(device_run(f, 6, 32, 0, (void *[]){&px, &py}));
  OK(cuMemcpyDtoH(y, py, sizeof y));
  const int moved[6] = {32, 64, 128, 128, 256, 96};
  for (int i = 0; i < 6144; i++) assert_true(y[i] == (i % 1024 < moved[i / 1024] ? x[i] : 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_half),
                                     cmocka_unit_test(test_bfloat),
                                     cmocka_unit_test(test_tf32),
                                     cmocka_unit_test(test_casts),
                                     cmocka_unit_test(test_vector_conversions),
                                     cmocka_unit_test(test_functions),
                                     cmocka_unit_test(test_extremes),
                                     cmocka_unit_test(test_vectors)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
