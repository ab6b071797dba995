// check_triton.c FOLDER: runs the PTX that triton_kernels.py left in FOLDER, against references.
#include "tests/sim/device.h"

#include <math.h>

static const char *folder;
static int failed, ran;

static float random_value(void) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)(int32_t)state * 0x1p-31f;
}

static uint16_t to_half(float x) {
  _Float16 h = (_Float16)x;
  uint16_t bits;
  memcpy(&bits, &h, 2);
  return bits;
}

static float from_half(uint16_t bits) {
  _Float16 h;
  memcpy(&h, &bits, 2);
  return (float)h;
}

static float from_e5m2(uint8_t bits) { return from_half((uint16_t)(bits << 8)); }

typedef struct Kernel {
  CUfunction f;
  int shared, warps, scratch;
} Kernel;

static long field(const char *json, const char *name) {
  const char *at = strstr(json, name);
  at = at ? strchr(at, ':') : NULL;
  return at ? strtol(at + 1, NULL, 10) : 0;
}

static bool load(const char *name, int arch, Kernel *kernel) {
  char path[512], symbol[64] = "", log[4096] = "";
  snprintf(path, sizeof path, "%s/%s_%d.ptx", folder, name, arch);
  char *ptx = file_read(path);
  snprintf(path, sizeof path, "%s/%s_%d.json", folder, name, arch);
  char *json = ptx ? file_read(path) : NULL;
  if (!json) return false;
  sscanf(strstr(json, "\"name\""), "\"name\": \"%63[^\"]\"", symbol);
  kernel->shared = (int)field(json, "\"shared\"");
  kernel->warps = (int)field(json, "\"warps\"");
  kernel->scratch = (int)field(json, "\"gs\"");
  CUmodule module;
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  CUresult r = cuModuleLoadDataEx(&module, ptx, 2, options, (void *[]){log, (void *)sizeof log});
  if (r == CUDA_SUCCESS) r = cuModuleGetFunction(&kernel->f, module, symbol);
  if (r == CUDA_SUCCESS)
    OK(cuFuncSetAttribute(kernel->f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                          kernel->shared));
  if (r != CUDA_SUCCESS)
    printf("not ok - %s sm_%d does not load: %d %s\n", name, arch, r, log), failed++;
  free(ptx);
  free(json);
  return r == CUDA_SUCCESS;
}

static CUresult launch(const Kernel *k, unsigned x, unsigned y, void **params, int count) {
  CUdeviceptr scratch = 0, profile = 0;
  if (k->scratch) scratch = device_upload(NULL, (size_t)k->scratch * x * y);
  params[count] = &scratch;
  params[count + 1] = &profile;
  CUresult r = cuLaunchKernel(k->f, x, y, 1, 32u * (unsigned)k->warps, 1, 1, (unsigned)k->shared,
                              NULL, params, NULL);
  return r == CUDA_SUCCESS ? cuCtxSynchronize() : r;
}

static void judge(const char *name, int arch, CUresult r, const float *got, const double *want,
                  size_t n, double bound) {
  double error = 0, size = 0;
  for (size_t i = 0; r == CUDA_SUCCESS && i < n; i++) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  bool ok = r == CUDA_SUCCESS && sqrt(error) <= bound * sqrt(size);
  printf("%sok %d - %s sm_%d: relative error %.2g%s\n", ok ? "" : "not ", ran + 1, name, arch,
         sqrt(error / (size ? size : 1)), r == CUDA_SUCCESS ? "" : ", launch failed");
  failed += !ok;
  ran++;
}

static void check_rows(const char *name, int arch) {
  enum { kRows = 37, kCols = 400 };
  Kernel k;
  if (!load(name, arch, &k)) return;
  static float x[kRows * kCols], w[kCols], b[kCols], got[kRows * kCols];
  static double want[kRows * kCols];
  for (int i = 0; i < kRows * kCols; i++) x[i] = 3 * random_value();
  for (int i = 0; i < kCols; i++) w[i] = random_value(), b[i] = random_value();
  bool softmax = !strcmp(name, "softmax");
  for (int r = 0; r < kRows; r++) {
    double sum = 0, square = 0, most = -1e30;
    for (int c = 0; c < kCols; c++) most = fmax(most, x[r * kCols + c]);
    for (int c = 0; c < kCols; c++)
      sum += softmax ? exp(x[r * kCols + c] - most) : x[r * kCols + c];
    for (int c = 0; c < kCols; c++) square += pow(x[r * kCols + c] - sum / kCols, 2);
    for (int c = 0; c < kCols; c++)
      want[r * kCols + c] =
          softmax ? exp(x[r * kCols + c] - most) / sum
                  : (x[r * kCols + c] - sum / kCols) / sqrt(square / kCols + 1e-5) * w[c] + b[c];
  }
  CUdeviceptr dx = device_upload(x, sizeof x), dw = device_upload(w, sizeof w),
              db = device_upload(b, sizeof b), out = device_upload(NULL, sizeof got);
  int n = kCols, stride = kCols;
  CUresult r = softmax ? launch(&k, kRows, 1, (void *[6]){&out, &dx, &stride, &n}, 4)
                       : launch(&k, kRows, 1, (void *[7]){&out, &dx, &dw, &db, &n}, 5);
  if (r == CUDA_SUCCESS) OK(cuMemcpyDtoH(got, out, sizeof got));
  judge(name, arch, r, got, want, kRows * kCols, 1e-6);
}

static void check_add(int arch) {
  enum { kCount = 5000 };
  Kernel k;
  if (!load("add", arch, &k)) return;
  static float x[kCount], y[kCount], got[kCount];
  static double want[kCount];
  for (int i = 0; i < kCount; i++)
    x[i] = random_value(), y[i] = random_value(), want[i] = x[i] + y[i];
  CUdeviceptr dx = device_upload(x, sizeof x), dy = device_upload(y, sizeof y),
              out = device_upload(NULL, sizeof got);
  int n = kCount;
  CUresult r = launch(&k, (kCount + 1023) / 1024, 1, (void *[6]){&dx, &dy, &out, &n}, 4);
  if (r == CUDA_SUCCESS) OK(cuMemcpyDtoH(got, out, sizeof got));
  judge("add", arch, r, got, want, kCount, 1e-7);
}

static void check_histogram(int arch) {
  enum { kCount = 3000, kBins = 50 };
  Kernel k;
  if (!load("histogram", arch, &k)) return;
  static int x[kCount], bins[kBins];
  float got[kBins];
  double want[kBins] = {0};
  memset(bins, 0, sizeof bins);
  for (int i = 0; i < kCount; i++)
    x[i] = (int)((random_value() + 1) * kBins / 2) % kBins, want[x[i]]++;
  CUdeviceptr dx = device_upload(x, sizeof x), out = device_upload(bins, sizeof bins);
  int n = kCount;
  CUresult r = launch(&k, (kCount + 255) / 256, 1, (void *[5]){&dx, &out, &n}, 3);
  if (r == CUDA_SUCCESS) OK(cuMemcpyDtoH(bins, out, sizeof bins));
  for (int i = 0; i < kBins; i++) got[i] = (float)bins[i];
  judge("histogram", arch, r, got, want, kBins, 0);
}

// kind: 32 floats (of TF32), 16 halves, 8 e5m2; tma: results are halves.
static void check_matmul(const char *name, int arch, int kind, int tile, bool tma) {
  enum { M = 256, N = 128, K = 192 };
  Kernel k;
  if (!load(name, arch, &k)) return;
  static float a[M * K], b[K * N], got[M * N];
  static uint16_t halves[M * N], ha[M * K], hb[K * N];
  static uint8_t ba[M * K], bb[K * N];
  static double want[M * N];
  for (int i = 0; i < M * K; i++)
    a[i] = random_value(), ha[i] = to_half(a[i]), ba[i] = (uint8_t)((to_half(a[i]) + 0x80) >> 8);
  for (int i = 0; i < K * N; i++)
    b[i] = random_value(), hb[i] = to_half(b[i]), bb[i] = (uint8_t)((to_half(b[i]) + 0x80) >> 8);
  for (int i = 0; i < M * K; i++)
    a[i] = kind == 32 ? a[i] : kind == 16 ? from_half(ha[i]) : from_e5m2(ba[i]);
  for (int i = 0; i < K * N; i++)
    b[i] = kind == 32 ? b[i] : kind == 16 ? from_half(hb[i]) : from_e5m2(bb[i]);
  memset(want, 0, sizeof want);
  for (int m = 0; m < M; m++)
    for (int i = 0; i < K; i++)
      for (int n = 0; n < N; n++) want[m * N + n] += (double)a[m * K + i] * b[i * N + n];
  CUdeviceptr da = device_upload(kind == 32 ? (void *)a : kind == 16 ? (void *)ha : ba,
                                 (size_t)(M * K * kind / 8));
  CUdeviceptr db = device_upload(kind == 32 ? (void *)b : kind == 16 ? (void *)hb : bb,
                                 (size_t)(K * N * kind / 8));
  CUdeviceptr out = device_upload(NULL, sizeof got);
  int sizes[] = {M, N, K};
  CUresult r = launch(&k, (unsigned)(M / tile), (unsigned)(N / tile),
                      (void *[8]){&da, &db, &out, &sizes[0], &sizes[1], &sizes[2]}, 6);
  if (r == CUDA_SUCCESS) OK(cuMemcpyDtoH(got, out, sizeof got));
  if (r == CUDA_SUCCESS && tma) {
    OK(cuMemcpyDtoH(halves, out, sizeof halves));
    for (int i = 0; i < M * N; i++) got[i] = from_half(halves[i]);
  }
  judge(name, arch, r, got, want, M * N, kind == 32 ? 1e-3 : tma ? 5e-4 : 1e-5);
}

static void check_flash(int arch) {
  enum { N = 256, D = 64 };
  Kernel k;
  if (!load("flash", arch, &k)) return;
  static uint16_t in[3][N * D];
  static float got[N * D];
  static double want[N * D], p[N];
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < N * D; i++) in[t][i] = to_half(random_value());
  float scale = 0.18f;
  for (int r = 0; r < N; r++) {
    double sum = 0;
    for (int c = 0; c < N; c++) {
      double dot = 0;
      for (int d = 0; d < D; d++)
        dot += (double)from_half(in[0][r * D + d]) * from_half(in[1][c * D + d]);
      sum += p[c] = exp2(dot * scale);
    }
    for (int d = 0; d < D; d++) {
      want[r * D + d] = 0;
      for (int c = 0; c < N; c++) want[r * D + d] += p[c] / sum * from_half(in[2][c * D + d]);
    }
  }
  CUdeviceptr q = device_upload(in[0], sizeof in[0]), kk = device_upload(in[1], sizeof in[1]),
              v = device_upload(in[2], sizeof in[2]), out = device_upload(NULL, sizeof got);
  int n = N;
  CUresult r = launch(&k, N / 64, 1, (void *[8]){&q, &kk, &v, &out, &scale, &n}, 6);
  if (r == CUDA_SUCCESS) OK(cuMemcpyDtoH(got, out, sizeof got));
  judge("flash", arch, r, got, want, N * D, 1e-3);
}

int main(int argc, char **argv) {
  if (argc < 2 || !device_open()) return 2;
  printf("1..17\n");
  folder = argv[1];
  for (int arch = 80; arch <= 90; arch += 10) {
    check_add(arch);
    check_rows("softmax", arch);
    check_rows("layernorm", arch);
    check_histogram(arch);
    check_matmul("matmul32", arch, 32, 64, false);
    check_matmul("matmul16", arch, 16, 64, false);
    check_matmul("matmul8", arch, 8, 64, false);
    check_matmul("matmul_tma", arch, 16, 128, true);
    check_flash(arch);
  }
  return failed != 0 || !ran;
}
