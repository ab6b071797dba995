// test_programs.c: kernels as anyone writes them in CUDA C++ (not for nngen): a tiled product, a
// histogram, a reduction, a softmax in half, a stencil with constant memory, type-generic kernels,
// device globals, 64-bit and floating-point atomics, integer intrinsics. On a GPU by the same test,
// but for the last, whose lines need CUDA's headers there.
#include "tests/sim/device.h"

#include <math.h>

static CUmodule build(const char *source, int count, const char *const *expressions,
                      char lowered[][128]) {
  nvrtcProgram program;
  size_t bytes;
  const char *include = on_gpu() ? "-I/usr/local/cuda/include" : "-DHERE=1";
  const char *options[] = {device_arch(), "-std=c++17", include, "--use_fast_math", "-lineinfo"};
  assert_int_equal(nvrtcCreateProgram(&program, source, "user.cu", 0, NULL, NULL), 0);
  for (int i = 0; i < count; i++)
    assert_int_equal(nvrtcAddNameExpression(program, expressions[i]), 0);
  nvrtcResult r = nvrtcCompileProgram(program, 5, options);
  assert_int_equal(nvrtcGetProgramLogSize(program, &bytes), 0);
  char *log = malloc(bytes + 1);
  assert_int_equal(nvrtcGetProgramLog(program, log), 0);
  if (r) fail_msg("%s", log);
  free(log);
  for (int i = 0; i < count; i++) {
    const char *name;
    assert_int_equal(nvrtcGetLoweredName(program, expressions[i], &name), 0);
    snprintf(lowered[i], 128, "%s", name);
  }
  assert_int_equal(nvrtcGetPTXSize(program, &bytes), 0);
  char *image = malloc(bytes);
  assert_int_equal(nvrtcGetPTX(program, image), 0);
  CUmodule module;
  OK(cuModuleLoadData(&module, image));
  free(image);
  nvrtcDestroyProgram(&program);
  return module;
}

static CUfunction find(CUmodule module, const char *name) {
  CUfunction f;
  OK(cuModuleGetFunction(&f, module, name));
  return f;
}

static void test_tiled_product(void **state) {
  (void)state;
  enum { kM = 50, kN = 37, kK = 70 };
  CUmodule m = build(
      "#define TILE 16\n"
      "extern \"C\" __global__ void matmul(const float *__restrict__ A, const float *__restrict__ "
      "B,\n"
      "                                  float *C, int M, int N, int K) {\n"
      "  __shared__ float As[TILE][TILE + 1], Bs[TILE][TILE];\n"
      "  const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;\n"
      "  float acc = 0.f;\n"
      "  for (int k0 = 0; k0 < (K + TILE - 1) / TILE * TILE; k0 += TILE) {\n"
      "    As[threadIdx.y][threadIdx.x] = row < M && k0 + threadIdx.x < K ? A[row * K + k0 + "
      "threadIdx.x] : 0.f;\n"
      "    Bs[threadIdx.y][threadIdx.x] = k0 + threadIdx.y < K && col < N ? __ldg(&B[(k0 + "
      "threadIdx.y) * N + col]) : 0.f;\n"
      "    __syncthreads();\n"
      "#pragma unroll\n"
      "    for (int k = 0; k < TILE; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];\n"
      "    __syncthreads();\n"
      "  }\n"
      "  if (row < M && col < N) C[row * N + col] = acc;\n"
      "}\n",
      0, NULL, NULL);
  static float a[kM][kK], b[kK][kN], c[kM][kN];
  for (int i = 0; i < kM * kK; i++) a[i / kK][i % kK] = (float)(i * 7 % 11 - 5);
  for (int i = 0; i < kK * kN; i++) b[i / kN][i % kN] = (float)(i * 5 % 13 - 6);
  CUdeviceptr pa = device_upload(a, sizeof a), pb = device_upload(b, sizeof b),
              pc = device_upload(NULL, sizeof c);
  int sizes[3] = {kM, kN, kK};
  OK(cuLaunchKernel(find(m, "matmul"), (kN + 15) / 16, (kM + 15) / 16, 1, 16, 16, 1, 0, NULL,
                    (void *[]){&pa, &pb, &pc, &sizes[0], &sizes[1], &sizes[2]}, NULL));
  OK(cuMemcpyDtoH(c, pc, sizeof c));
  for (int i = 0; i < kM; i++)
    for (int j = 0; j < kN; j++) {
      float want = 0;
      for (int k = 0; k < kK; k++) want += a[i][k] * b[k][j];
      assert_true(c[i][j] == want); // small integers: exact
    }
}

static void test_histogram(void **state) {
  (void)state;
  CUmodule m =
      build("__device__ unsigned int total;\n"
            "__device__ unsigned long long checksum = 7ULL;\n"
            "extern \"C\" __global__ void histogram(const unsigned char *data, size_t n, unsigned "
            "*bins) {\n"
            "  extern __shared__ unsigned local[];\n"
            "  for (unsigned i = threadIdx.x; i < 256u; i += blockDim.x) local[i] = 0u;\n"
            "  __syncthreads();\n"
            "  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n;\n"
            "       i += size_t(gridDim.x) * blockDim.x) {\n"
            "    atomicAdd(&local[data[i]], 1u);\n"
            "    atomicAdd(&checksum, static_cast<unsigned long long>(data[i]));\n"
            "  }\n"
            "  __syncthreads();\n"
            "  for (unsigned i = threadIdx.x; i < 256u; i += blockDim.x)\n"
            "    if (local[i]) { atomicAdd(bins + i, local[i]); atomicAdd(&total, local[i]); }\n"
            "}\n",
            0, NULL, NULL);
  enum { kN = 10000 };
  static unsigned char data[kN];
  unsigned bins[256] = {0}, want[256] = {0}, total = 0;
  unsigned long long sum = 0, want_sum = 7;
  for (int i = 0; i < kN; i++) {
    data[i] = (unsigned char)(i * i / 7);
    want[data[i]]++, want_sum += data[i];
  }
  CUdeviceptr pd = device_upload(data, kN), pb = device_upload(bins, sizeof bins), pt, ps;
  size_t n = kN, bytes;
  OK(cuModuleGetGlobal(&pt, &bytes, m, "total"));
  assert_int_equal(bytes, 4);
  OK(cuMemsetD32(pt, 0, 1));
  OK(device_run(find(m, "histogram"), 5, 96, 1024, (void *[]){&pd, &n, &pb}));
  OK(cuMemcpyDtoH(bins, pb, sizeof bins));
  OK(cuMemcpyDtoH(&total, pt, 4));
  OK(cuModuleGetGlobal(&ps, &bytes, m, "checksum"));
  OK(cuMemcpyDtoH(&sum, ps, 8));
  assert_memory_equal(bins, want, sizeof bins);
  assert_int_equal(total, kN);
  assert_int_equal(sum, want_sum);
}

static void test_softmax_half(void **state) {
  (void)state;
  CUmodule m =
      build("#include <cuda_fp16.h>\n"
            "template <typename T> __device__ inline T warp_max(T v) {\n"
            "  for (int o = 16; o > 0; o >>= 1) v = max(v, __shfl_xor_sync(0xffffffffu, v, o));\n"
            "  return v;\n"
            "}\n"
            "__device__ __forceinline__ float warp_sum(float v) {\n"
            "#pragma unroll\n"
            "  for (int o = warpSize / 2; o > 0; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);\n"
            "  return __shfl_sync(0xffffffff, v, 0);\n"
            "}\n"
            "extern \"C\" __global__ __launch_bounds__(128) void softmax(const __half2 "
            "*__restrict__ in,\n"
            "                                                        __half2 *out, int pairs) {\n"
            "  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;\n"
            "  const __half2 *row = in + (blockIdx.x * 4 + warp) * pairs;\n"
            "  float most = __int_as_float(0xff800000), sum = 0.0f;\n"
            "  for (int i = lane; i < pairs; i += 32) {\n"
            "    const __half2 v = row[i];\n"
            "    most = fmaxf(most, fmaxf(__low2float(v), __high2float(v)));\n"
            "  }\n"
            "  most = warp_max(most);\n"
            "  for (int i = lane; i < pairs; i += 32) {\n"
            "    float2 f = __half22float2(row[i]);\n"
            "    sum += __expf(f.x - most) + __expf(f.y - most);\n"
            "  }\n"
            "  sum = warp_sum(sum);\n"
            "  const __half2 scale = __float2half2_rn(__frcp_rn(sum));\n"
            "  for (int i = lane; i < pairs; i += 32) {\n"
            "    __half2 e = h2exp(__hsub2(row[i], __half2half2(__float2half(most))));\n"
            "    out[(blockIdx.x * 4 + warp) * pairs + i] = __hmul2(e, scale);\n"
            "  }\n"
            "}\n",
            0, NULL, NULL);
  enum { kRows = 8, kPairs = 40 };
  static unsigned short in[kRows][2 * kPairs], out[kRows][2 * kPairs];
  for (int i = 0; i < kRows * kPairs * 2; i++) // 0 to 7 in steps of 1/8: exact halves
    ((_Float16 *)in)[i] = (_Float16)((float)(i * 29 % 57) / 8.0f);
  CUdeviceptr pi = device_upload(in, sizeof in), po = device_upload(NULL, sizeof out);
  int pairs = kPairs;
  OK(device_run(find(m, "softmax"), kRows / 4, 128, 0, (void *[]){&pi, &po, &pairs}));
  OK(cuMemcpyDtoH(out, po, sizeof out));
  for (int r = 0; r < kRows; r++) {
    double sum = 0;
    for (int i = 0; i < 2 * kPairs; i++) sum += exp((double)((_Float16 *)in[r])[i]);
    for (int i = 0; i < 2 * kPairs; i++) {
      double want = exp((double)((_Float16 *)in[r])[i]) / sum;
      double got = (double)((_Float16 *)out[r])[i];
      if (!(fabs(got - want) < 4e-3 * want + 1e-6)) fail_msg("%d %d: %g, %g", r, i, got, want);
    }
  }
}

static void test_stencil(void **state) {
  (void)state;
  CUmodule m =
      build("#define R 2\n"
            "__constant__ double coefficients[2 * R + 1];\n"
            "struct __align__(16) Grid { int nx, ny; double dx; };\n"
            "__constant__ Grid grid;\n"
            "extern \"C\" __global__ void stencil(const double *in, double *out) {\n"
            "  __shared__ double tile[8 + 2 * R][32 + 2 * R];\n"
            "  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + "
            "threadIdx.y;\n"
            "  for (int j = threadIdx.y; j < 8 + 2 * R; j += blockDim.y)\n"
            "    for (int i = threadIdx.x; i < 32 + 2 * R; i += blockDim.x) {\n"
            "      int gx = min(max(int(blockIdx.x * 32 + i) - R, 0), grid.nx - 1);\n"
            "      int gy = min(max(int(blockIdx.y * 8 + j) - R, 0), grid.ny - 1);\n"
            "      tile[j][i] = in[gy * grid.nx + gx];\n"
            "    }\n"
            "  __syncthreads();\n"
            "  if (x >= grid.nx || y >= grid.ny) return;\n"
            "  double sum = 0.0;\n"
            "  for (int k = -R; k <= R; ++k)\n"
            "    sum = fma(coefficients[k + R], tile[threadIdx.y + R][threadIdx.x + R + k] +\n"
            "                                   tile[threadIdx.y + R + k][threadIdx.x + R], sum);\n"
            "  out[y * grid.nx + x] = sum / (grid.dx * grid.dx);\n"
            "}\n",
            0, NULL, NULL);
  enum { kX = 45, kY = 21 };
  static double in[kY][kX], out[kY][kX];
  const double c[5] = {-1, 16, -30, 16, -1};
  struct {
    int nx, ny;
    double dx;
  } grid = {kX, kY, 0.5};
  for (int i = 0; i < kX * kY; i++) in[i / kX][i % kX] = i * 13 % 101;
  CUdeviceptr pc, pg, pi = device_upload(in, sizeof in), po = device_upload(NULL, sizeof out);
  size_t bytes;
  OK(cuModuleGetGlobal(&pc, &bytes, m, "coefficients"));
  assert_int_equal(bytes, sizeof c);
  OK(cuMemcpyHtoD(pc, c, sizeof c));
  OK(cuModuleGetGlobal(&pg, &bytes, m, "grid"));
  assert_int_equal(bytes, sizeof grid);
  OK(cuMemcpyHtoD(pg, &grid, sizeof grid));
  OK(cuLaunchKernel(find(m, "stencil"), 2, 3, 1, 32, 8, 1, 0, NULL, (void *[]){&pi, &po}, NULL));
  OK(cuMemcpyDtoH(out, po, sizeof out));
#define CLAMP(v, most) ((v) < 0 ? 0 : (v) > (most) ? (most) : (v))
  for (int y = 0; y < kY; y++)
    for (int x = 0; x < kX; x++) {
      double want = 0;
      for (int k = -2; k <= 2; k++)
        want += c[k + 2] * (in[y][CLAMP(x + k, kX - 1)] + in[CLAMP(y + k, kY - 1)][x]);
      assert_true(out[y][x] == want * 4);
    }
}

static void test_names_and_types(void **state) {
  (void)state;
  const char *expressions[] = {"user::apply<float, user::Square>", "user::apply<int, user::Square>",
                               through_nvrtc() ? "&user::scale" : "user::scale", "&user::table"};
  char lowered[4][128];
  CUmodule m = build(
      "namespace user {\n"
      "struct Square { template <class T> __host__ __device__ T operator()(T v) const { return v * "
      "v; } };\n"
      "__device__ float scale = 1.0f;\n"
      "__constant__ int table[8];\n"
      "template <typename T, typename F> __global__ void apply(T *x, int n, F f) {\n"
      "  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)\n"
      "    x[i] = f(x[i]) * static_cast<T>(scale) + static_cast<T>(table[i & 7]);\n"
      "}\n"
      "}\n",
      4, expressions, lowered);
  const int table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float scale = 3, x[100];
  int y[100], n = 100;
  for (int i = 0; i < 100; i++) x[i] = (float)(y[i] = i);
  CUdeviceptr pt, ps, px = device_upload(x, sizeof x), py = device_upload(y, sizeof y);
  OK(cuModuleGetGlobal(&ps, NULL, m, lowered[2]));
  OK(cuModuleGetGlobal(&pt, NULL, m, lowered[3]));
  OK(cuMemcpyHtoD(ps, &scale, 4));
  OK(cuMemcpyHtoD(pt, table, sizeof table));
  char square = 0; // an empty struct
  OK(device_run(find(m, lowered[0]), 2, 32, 0, (void *[]){&px, &n, &square}));
  OK(device_run(find(m, lowered[1]), 2, 32, 0, (void *[]){&py, &n, &square}));
  OK(cuMemcpyDtoH(x, px, sizeof x));
  OK(cuMemcpyDtoH(y, py, sizeof y));
  for (int i = 0; i < 100; i++) {
    assert_int_equal(y[i], 3 * i * i + table[i & 7]);
    assert_true(x[i] == (float)y[i]);
  }
  CUfunction none;
  assert_int_equal(cuModuleGetFunction(&none, m, lowered[2]), CUDA_ERROR_NOT_FOUND);
}

// One line each of what else kernels use; out[i] of thread 0 must be what stands beside it.
static void test_odds_and_ends(void **state) {
  (void)state;
  if (on_gpu()) skip();
  static const struct {
    const char *text;
    double want;
  } lines[] = {
      {"atomicAdd(&d, 2.5), d", 3.5},
      {"atomicMin(&ll, 5ll), double(ll)", 5},
      {"atomicMax(&ull, 9ull), double(ull)", 9},
      {"atomicExch(&f, 4.0f) + f", 5},
      {"atomicCAS(&ull, 9ull, 11ull), double(ull)", 11},
      {"atomicInc(&u, 3u), u", 2},
      {"atomicAdd_block(&i, 4), i", 5},
      {"atomicExch(&u, 9u), atomicDec(&u, 5u), u", 5},
      {"atomicExch(&u, 4u), atomicDec(&u, 5u), u", 3},
      {"atomicOr(&u, 12u), u", 14},
      {"rsqrtf(4.0f) + sqrtf(9.0f) + cbrtf(8.0f)", 5.5},
      {"powf(2.0f, 10.0f) + exp2(3.0) + log2f(8.0f)", 1035},
      {"fminf(1.0f, NAN) + fmax(2.0, 1.0)", 3},
      {"__fdividef(6.0f, 4.0f) + fabsf(-1.0f) + floorf(1.5f) + ceilf(1.5f)", 5.5},
      {"__popc(0xf0u) + __popcll(7ull) + __clz(1) + __ffs(8) + __clzll(1ll)", 105},
      {"__brev(1u) == 0x80000000u && __brevll(1ull) == 1ull << 63", 1},
      {"__mulhi(1 << 30, 8) + __mul24(3, 5) + __umulhi(1u << 31, 4u)", 19},
      {"__float_as_int(1.0f) == 0x3f800000 && __int_as_float(0x40000000) == 2.0f", 1},
      {"__float2int_rn(2.5f) + __float2int_rz(-1.5f) + __double2int_rn(3.5)", 5},
      {"__int2float_rn(7) + __uint2float_rn(3u) + __int2double_rn(2)", 12},
      {"__double_as_longlong(1.0) == 0x3ff0000000000000ll", 1},
      {"__byte_perm(0x33221100, 0x77665544, 0x7531) == 0x77553311", 1},
      {"__funnelshift_l(0x80000000u, 1u, 1)", 3},
      {"__sad(3, 7, 1u) + __usad(9u, 4u, 0u)", 10},
      {"make_int3(1, 2, 3).z + make_double2(4, 5).y + make_uchar4(1, 2, 3, 4).w", 12},
      {"__syncthreads_count(1) + __syncthreads_or(0) + __syncthreads_and(1)", 33},
      {"__all_sync(~0u, 1) + __any_sync(~0u, 0) + __popc(__ballot_sync(~0u, 1))", 33},
      {"__reduce_max_sync(~0u, threadIdx.x) + __reduce_add_sync(~0u, 1)", 63},
      {"__shfl_up_sync(~0u, 3.0, 1) + __shfl_sync(~0u, 4ll, 5, 8)", 7},
      {"__shfl_sync(~0u, __shfl_down_sync(~0u, int(threadIdx.x), 6, 8), 5)", 5}, // the segment ends
      {"__shfl_sync(~0u, __shfl_down_sync(~0u, int(threadIdx.x), 2, 8), 5)", 7},
      {"__shfl_sync(~0u, __shfl_up_sync(~0u, int(threadIdx.x), 3, 8), 9)", 9},
      {"__shfl_sync(~0u, __shfl_up_sync(~0u, int(threadIdx.x), 1, 8), 9)", 8},
      {"__shfl_sync(~0u, __shfl_xor_sync(~0u, int(threadIdx.x), 8, 8), 3)", 3},
      {"__shfl_sync(~0u, __shfl_xor_sync(~0u, int(threadIdx.x), 8, 8), 11)", 3}, // an earlier one
      {"isnan(NAN) + isinf(INFINITY) + isfinite(1.0f) + signbit(-1.0f)", 4},
      {"sincosf(0.0f, &f, &g), f + g", 1},
      {"modff(2.75f, &f) * 4 + f + fmodf(7.0f, 4.0f) + frexpf(8.0f, &i) + i", 12.5},
      {"lroundf(2.5f) + llrint(3.0) + lrintf(4.0f) + scalbnf(1.0f, 3)", 18},
      {"norm3df(1.0f, 2.0f, 2.0f) + rhypotf(3.0f, 4.0f) + hypotf(3, 4)", 8.2},
      {"norm3df(1e30f, 2e30f, 2e30f) / 3e30f + norm3d(1e300, 2e300, 2e300) / 3e300", 2},
      {"rhypotf(3e38f, 3e38f) > 0 && rhypot(1.7e308, 1.7e308) > 0", 1},
      {"clock64() > 0 && clock() != 0", 1},
      {"__nv_bfloat16(1.5f) + __nv_bfloat16(2.0f) > __nv_bfloat16(3.0f)", 1},
      {"__bfloat162float(__hmul(__float2bfloat16(3.0f), __float2bfloat16_rn(0.5f)))", 1.5},
      {"__half2float(__hmax(__half(1.0f), __half(2.0f)) - __int2half_rn(4))", -2},
      {"__half2int_rn(__ushort2half_rn(7)) + __half2float(hrcp(__half(4.0f)))", 7.25},
      {"__half2float(__shfl_xor_sync(~0u, __float2half(2.0f), 1))", 2},
      {"__low2float(__hadd2(__floats2half2_rn(1, 2), __halves2half2(__half(2), __half(3))))", 3},
      {"__hgt(__half(2.0f), __half(1.0f)) + __hisnan(__half(NAN)) + __hisinf(__half(INFINITY))", 3},
      {"alignof(float4) + sizeof(double3) + sizeof(dim3)", 52},
  };
  enum { kLines = sizeof lines / sizeof *lines };
  static char text[kLines * 512];
  strcpy(text, "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#ifndef NAN\n"
               "#define NAN __int_as_float(0x7fffffff)\n#define INFINITY "
               "__int_as_float(0x7f800000)\n#endif\n");
  for (int i = 0; i < kLines; i++) // each with variables of its own
    sprintf(text + strlen(text),
            "namespace line%d {\n"
            "__device__ double d = 1; __device__ float f = 1, g; __device__ int i = 1;\n"
            "__device__ unsigned u = %d; __device__ long long ll = 8;\n"
            "__device__ unsigned long long ull = %d;\n"
            "extern \"C\" __global__ void k%d(double *out) {\n"
            "  double v = (%s); if (threadIdx.x == 0) out[0] = v; }\n}\n",
            i, strstr(lines[i].text, "12u") ? 2 : 1, strstr(lines[i].text, "9ull, 11ull") ? 9 : 1,
            i, lines[i].text);
  char *image, *log;
  if (device_compile(text, "lines.cu", &image, &log) != NVRTC_SUCCESS) fail_msg("%s", log);
  CUmodule module;
  OK(cuModuleLoadData(&module, image));
  int wrong = 0;
  for (int i = 0; i < kLines; i++) {
    char name[16];
    double got = -1;
    bool alone = strstr(lines[i].text, "atomic") || strchr(lines[i].text, '&');
    CUdeviceptr p = device_upload(NULL, 8);
    snprintf(name, sizeof name, "k%d", i);
    OK(device_run(find(module, name), 1, alone ? 1 : 32, 0, (void *[]){&p}));
    OK(cuMemcpyDtoH(&got, p, 8));
    OK(cuMemFree(p));
    if (!(fabs(got - lines[i].want) < 1e-5))
      fprintf(stderr, "`%s` is %g, not %g\n", lines[i].text, got, lines[i].want), wrong++;
  }
  OK(cuModuleUnload(module));
  free(image), free(log);
  assert_int_equal(wrong, 0);
}

// ---- arrays of a function that calls nothing ----------------------------------------------------

// They lie on the stack, where wide vectors fill and move them; of five such functions one was
// wrong. The same text for the kernel and for the host.
#define LEAF(n, T, R, C, PARAMS, SUM)                                                              \
  LEAF_FN void leaf##n(const unsigned *l, int s, T *a, T z PARAMS) {                               \
    for (int t = 0; t < 64; t++) {                                                                 \
      T w[R * C];                                                                                  \
      const unsigned *r = l + t % 4 + s * 4;                                                       \
      for (int k = 0; k < R; k++)                                                                  \
        for (int i = 0; i < C; i++) w[k * C + i] = (T)(r[k] >> i & 255);                           \
      for (int q = 0; q < R * C; q++) w[q] += w[(q + s) % (R * C)];                                \
      for (int k = 0; k < R; k++)                                                                  \
        for (int i = 0; i < C; i++)                                                                \
          a[((t / 32 * 16 + t % 32 / 4 + k % 2 * 8) * 32 + k / 2 * 16 + t % 4 * 4 + i + (SUM)) &   \
            4095] = w[k * C + i] * z;                                                              \
    }                                                                                              \
  }
#define COMMA ,
#define ONE COMMA int b
#define THREE ONE COMMA int c COMMA int d
#define FIVE THREE COMMA int e COMMA int f
#define LEAVES                                                                                     \
  LEAF(0, float, 4, 4, FIVE, (b + c + d + e + f) * t)                                              \
  LEAF(1, float, 4, 4, THREE, (b + c + d) * t)                                                     \
  LEAF(2, float, 4, 8, FIVE, (b + c + d + e + f) * t)                                              \
  LEAF(3, int, 4, 4, FIVE, (b + c + d + e + f) * t)                                                \
  LEAF(4, double, 4, 4, FIVE, (b + c + d + e + f) * t)                                             \
  LEAF(5, float, 2, 4, ONE, b * t)
#define TEXT(...) #__VA_ARGS__
#define TEXT_OF(...) TEXT(__VA_ARGS__)

#define LEAF_FN static
LEAVES
#undef LEAF_FN
#define LEAF_FN __device__ __noinline__

#define CALLS(l, a)                                                                                \
  leaf0(l, 1, a, 3, 1, 2, 3, 4, 5), leaf1(l, 1, a + 4096, 3, 1, 2, 3),                             \
      leaf2(l, 1, a + 2 * 4096, 3, 1, 2, 3, 4, 5),                                                 \
      leaf3(l, 1, (int *)(a + 3 * 4096), 3, 1, 2, 3, 4, 5),                                        \
      leaf4(l, 1, (double *)(a + 4 * 4096), 3, 1, 2, 3, 4, 5), leaf5(l, 1, a + 6 * 4096, 3, 1)

static void test_leaves(void **state) {
  (void)state;
  enum { kFloats = 7 * 4096 };
  static float want[kFloats], got[kFloats];
  unsigned words[64];
  for (int i = 0; i < 64; i++) words[i] = (unsigned)i * 2654435761u;
  CALLS(words, want);
  static const char source[] = TEXT_OF(LEAVES)
      "\nextern \"C\" __global__ void k(unsigned *l, float *a) { " TEXT_OF(CALLS(l, a)) "; }\n";
  CUfunction f = device_function(source, "k");
  CUdeviceptr l = device_upload(words, sizeof words), a = device_upload(got, sizeof got);
  OK(device_run(f, 1, 1, 0, (void *[]){&l, &a}));
  OK(cuMemcpyDtoH(got, a, sizeof got));
  assert_memory_equal(got, want, sizeof got);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiled_product),   cmocka_unit_test(test_histogram),
      cmocka_unit_test(test_softmax_half),    cmocka_unit_test(test_stencil),
      cmocka_unit_test(test_names_and_types), cmocka_unit_test(test_odds_and_ends),
      cmocka_unit_test(test_leaves)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
