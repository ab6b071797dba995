// test_foreign.c: CUDA C++ that was not written for nngen, compiled and run on libcusim: built-in
// variables, static and dynamic shared memory, warp intrinsics, atomics, vector types, half types,
// templates, namespaces, structs as parameters, printf. Only NVRTC's own environment is used.
#include "tests/sim/device.h"

#include <math.h>

static const char *source =
    "#include <cuda_fp16.h>\n"
    "#include <cuda_bf16.h>\n"
    "namespace outer { namespace inner {\n"
    "__constant__ float weights[4] = {1, 2, 3, 4};\n"
    "template <class T, int N> __global__ void reduce(const T *x, T *sum) {\n"
    "  __shared__ T part[N / 32];\n"
    "  T v = x[blockIdx.x * N + threadIdx.x];\n"
    "  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);\n"
    "  if (threadIdx.x % warpSize == 0) part[threadIdx.x / 32] = v;\n"
    "  __syncthreads();\n"
    "  if (threadIdx.x == 0) { T s = 0; for (T p : part) s += p; atomicAdd(sum, s); }\n"
    "}\n"
    "}}\n"
    "struct Params { float scale; int n; float4 offset; };\n"
    "extern __shared__ float pool[];\n"
    "static __device__ __forceinline__ float4 operator+(float4 a, float4 b) {\n"
    "  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }\n"
    "__global__ void __launch_bounds__(256, 2) affine(float4 *x, const Params p) {\n"
    "  int i = blockDim.x * blockIdx.x + threadIdx.x;\n"
    "  if (i >= p.n) return;\n"
    "  pool[threadIdx.x] = p.scale * outer::inner::weights[i & 3];\n"
    "  float4 v = x[i]; float s = pool[threadIdx.x];\n"
    "  x[i] = make_float4(v.x * s, v.y * s, v.z * s, v.w * s) + p.offset;\n"
    "}\n"
    "extern \"C\" __global__ void transpose(const float *in, float *out, int w, int h) {\n"
    "  __shared__ float tile[16][17];\n"
    "  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;\n"
    "  if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];\n"
    "  __syncthreads();\n"
    "  x = blockIdx.y * 16 + threadIdx.x, y = blockIdx.x * 16 + threadIdx.y;\n"
    "  if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y];\n"
    "}\n"
    "extern \"C\" __global__ void halves(__half *a, __nv_bfloat16 *b, int n) {\n"
    "  extern __shared__ unsigned char raw[]; half2 *pair = (half2 *)raw;\n"
    "  int i = threadIdx.x;\n"
    "  pair[i] = __floats2half2_rn(__half2float(a[i]), 1.5f);\n"
    "  a[i] = __hfma(pair[i].x, pair[i].y, __float2half(0.25f));\n"
    "  b[i] = b[i] * b[i] + __float2bfloat16(1.0f);\n"
    "}\n"
    "extern \"C\" __global__ void warps(unsigned *out) {\n"
    "  unsigned l = threadIdx.x & 31, m = __ballot_sync(~0u, l % 3 == 0);\n"
    "  unsigned any = __match_any_sync(~0u, l / 4), sum = __reduce_add_sync(~0u, l);\n"
    "  out[threadIdx.x] = __popc(m) + 100 * __popc(any) + 10000 * sum + (__clz(m) << 28)\n"
    "    + (__ffs(m) << 30);\n"
    "  if (threadIdx.x == 0 && blockIdx.x == 0) printf(\"# from the kernel: %d\\n\", 42);\n"
    "}\n"
    "extern \"C\" __global__ void lock(int *mutex, int *count) {\n"
    "  bool done = false;\n"
    "  while (!done) if (atomicCAS(mutex, 0, 1) == 0) {\n"
    "    volatile int *c = count; *c = *c + 1; __threadfence(); atomicExch(mutex, 0); done = true; "
    "}\n"
    "}\n";

static CUmodule module;
static char lowered[2][128];

static int load(void **state) {
  (void)state;
  if (!device_open()) return -1;
  nvrtcProgram program;
  const char *names[2] = {"outer::inner::reduce<int, 128>", "affine"};
  const char *include = on_gpu() ? "-I/usr/local/cuda/include" : "-DHERE=1";
  const char *options[] = {device_arch(), "--std=c++17", include};
  assert_int_equal(nvrtcCreateProgram(&program, source, "foreign.cu", 0, NULL, NULL), 0);
  for (int i = 0; i < 2; i++) assert_int_equal(nvrtcAddNameExpression(program, names[i]), 0);
  nvrtcResult r = nvrtcCompileProgram(program, 3, options);
  size_t bytes;
  assert_int_equal(nvrtcGetProgramLogSize(program, &bytes), 0);
  char *log = malloc(bytes);
  assert_int_equal(nvrtcGetProgramLog(program, log), 0);
  if (r) fail_msg("%s", log);
  free(log);
  for (int i = 0; i < 2; i++) {
    const char *name;
    assert_int_equal(nvrtcGetLoweredName(program, names[i], &name), 0);
    snprintf(lowered[i], sizeof lowered[i], "%s", name);
  }
  assert_int_equal(nvrtcGetCUBINSize(program, &bytes), 0);
  char *image = malloc(bytes);
  assert_int_equal(nvrtcGetCUBIN(program, image), 0);
  OK(cuModuleLoadData(&module, image));
  free(image);
  return nvrtcDestroyProgram(&program);
}

static CUfunction get(const char *name) {
  CUfunction f;
  OK(cuModuleGetFunction(&f, module, name));
  return f;
}

static void test_template(void **state) {
  (void)state;
  assert_string_equal(lowered[0], "_ZN5outer5inner6reduceIiLi128EEEvPKT_PS2_");
  int x[512], sum = 0, want = 0;
  for (int i = 0; i < 512; i++) want += x[i] = i * i % 77;
  CUdeviceptr px = device_upload(x, sizeof x), ps = device_upload(&sum, sizeof sum);
  OK(device_run(get(lowered[0]), 4, 128, 0, (void *[]){&px, &ps}));
  OK(cuMemcpyDtoH(&sum, ps, sizeof sum));
  assert_int_equal(sum, want);
}

static void test_struct_parameter(void **state) {
  (void)state;
  struct {
    float scale;
    int n;
    _Alignas(16) float offset[4];
  } params = {2, 300, {1, 2, 3, 4}};
  float x[300][4];
  for (int i = 0; i < 1200; i++) x[i / 4][i % 4] = (float)i;
  CUdeviceptr px = device_upload(x, sizeof x);
  OK(device_run(get(lowered[1]), 2, 256, 1024, (void *[]){&px, &params}));
  OK(cuMemcpyDtoH(x, px, sizeof x));
  for (int i = 0; i < 1200; i++)
    assert_true(x[i / 4][i % 4] == (float)i * 2 * (float)(i / 4 % 4 + 1) + (float)(i % 4 + 1));
}

static void test_two_dimensions(void **state) {
  (void)state;
  enum { kW = 50, kH = 37 };
  float in[kH][kW], out[kW][kH];
  for (int i = 0; i < kW * kH; i++) in[i / kW][i % kW] = (float)i;
  CUdeviceptr pi = device_upload(in, sizeof in), po = device_upload(NULL, sizeof out);
  int w = kW, h = kH;
  OK(cuLaunchKernel(get("transpose"), 4, 3, 1, 16, 16, 1, 0, NULL, (void *[]){&pi, &po, &w, &h},
                    NULL));
  OK(cuMemcpyDtoH(out, po, sizeof out));
  for (int i = 0; i < kW * kH; i++) assert_true(out[i % kW][i / kW] == in[i / kW][i % kW]);
}

static void test_halves(void **state) {
  (void)state;
  unsigned short a[32], b[32];
  for (int i = 0; i < 32; i++) a[i] = 0x4000, b[i] = 0x4040; // 2 and 3
  CUdeviceptr pa = device_upload(a, sizeof a), pb = device_upload(b, sizeof b);
  int n = 32;
  OK(device_run(get("halves"), 1, 32, 128, (void *[]){&pa, &pb, &n}));
  OK(cuMemcpyDtoH(a, pa, sizeof a));
  OK(cuMemcpyDtoH(b, pb, sizeof b));
  for (int i = 0; i < 32; i++) {
    assert_int_equal(a[i], 0x4280); // 3.25
    assert_int_equal(b[i], 0x4120); // 10
  }
}

static void test_warps(void **state) {
  (void)state;
  unsigned out[64];
  CUdeviceptr p = device_upload(NULL, sizeof out);
  OK(device_run(get("warps"), 1, 64, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(out, p, sizeof out));
  unsigned want = 11 + 100 * 4 + 10000 * 496 + (1u << 28) + (1u << 30);
  for (int i = 0; i < 64; i++) assert_int_equal(out[i], want);
}

static void test_lock(void **state) {
  (void)state;
  int zero = 0, count = 0;
  CUdeviceptr mutex = device_upload(&zero, 4), counter = device_upload(&zero, 4);
  OK(device_run(get("lock"), 8, 64, 0, (void *[]){&mutex, &counter}));
  OK(cuMemcpyDtoH(&count, counter, 4));
  assert_int_equal(count, 512);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_template),       cmocka_unit_test(test_struct_parameter),
      cmocka_unit_test(test_two_dimensions), cmocka_unit_test(test_halves),
      cmocka_unit_test(test_warps),          cmocka_unit_test(test_lock)};
  return cmocka_run_group_tests(tests, load, NULL);
}
