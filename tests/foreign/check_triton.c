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

static float from_e4m3(uint8_t bits) {
  int power = bits >> 3 & 15, part = bits & 7;
  float size = power ? ldexpf((float)(8 + part), power - 10) : ldexpf((float)part, -9);
  return bits & 128 ? -size : size;
}

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

typedef enum Element { ElemTf32, ElemF16, ElemE5m2, ElemE4m3, ElemS8 } Element;

// n random values as a kernel reads them, in bytes, and what they are worth. Returns their size.
static size_t random_elements(Element type, size_t n, uint8_t *bytes, double *worth) {
  size_t size = type == ElemTf32 ? 4 : type == ElemF16 ? 2 : 1;
  for (size_t i = 0; i < n; i++) {
    float x = random_value();
    uint16_t half = to_half(x);
    uint8_t byte = (uint8_t)(int)(127 * x);
    if (type == ElemE5m2) byte = (uint8_t)((half + 0x80) >> 8);
    if (type == ElemE4m3 && (byte & 127) == 127) byte--; // no NaN
    memcpy(bytes + i * size, size == 4 ? (void *)&x : size == 2 ? (void *)&half : &byte, size);
    worth[i] = size == 4 ? x : size == 2 ? from_half(half) : type == ElemE5m2 ? from_e5m2(byte)
             : type == ElemE4m3 ? from_e4m3(byte) : (int8_t)byte;
  }
  return n * size;
}

// halves: so the results are.
static void check_matmul(const char *name, int arch, Element type, int tile, bool halves,
                         double bound) {
  enum { M = 256, N = 128, K = 192 };
  Kernel k;
  if (!load(name, arch, &k)) return;
  static uint8_t a[M * K * 4], b[K * N * 4];
  static double va[M * K], vb[K * N], want[M * N];
  static float got[M * N];
  static uint16_t made[M * N];
  CUdeviceptr da = device_upload(a, random_elements(type, M * K, a, va));
  CUdeviceptr db = device_upload(b, random_elements(type, K * N, b, vb));
  CUdeviceptr out = device_upload(NULL, sizeof got);
  memset(want, 0, sizeof want);
  for (int m = 0; m < M; m++)
    for (int i = 0; i < K; i++)
      for (int n = 0; n < N; n++) want[m * N + n] += va[m * K + i] * vb[i * N + n];
  int sizes[] = {M, N, K};
  CUresult r = launch(&k, (unsigned)(M / tile), (unsigned)(N / tile),
                      (void *[8]){&da, &db, &out, &sizes[0], &sizes[1], &sizes[2]}, 6);
  if (r == CUDA_SUCCESS) OK(cuMemcpyDtoH(got, out, sizeof got));
  if (r == CUDA_SUCCESS && halves) {
    OK(cuMemcpyDtoH(made, out, sizeof made));
    for (int i = 0; i < M * N; i++) got[i] = from_half(made[i]);
  }
  judge(name, arch, r, got, want, M * N, bound);
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

enum { kRows = 256, kDepth = 64, kBlock = 64 };

// Causal attention's probabilities, the logarithms of their rows' sums, and gradients.
typedef struct Attention {
  uint16_t q[kRows * kDepth], k[kRows * kDepth], v[kRows * kDepth], go[kRows * kDepth];
  float top[kRows], delta[kRows];
  double gq[kRows * kDepth], gk[kRows * kDepth], gv[kRows * kDepth];
} Attention;

static double row_product(const uint16_t *a, int i, const uint16_t *b, int k) {
  double sum = 0;
  for (int d = 0; d < kDepth; d++)
    sum += (double)from_half(a[i * kDepth + d]) * from_half(b[k * kDepth + d]);
  return sum;
}

static void add_row(double *to, int i, double scale, const uint16_t *from, int k) {
  for (int d = 0; d < kDepth; d++) to[i * kDepth + d] += scale * from_half(from[k * kDepth + d]);
}

static void attention_gradients(Attention *a, double scale) {
  double p[kRows], gp[kRows];
  for (int i = 0; i < kRows * kDepth; i++) {
    a->q[i] = to_half(random_value()), a->k[i] = to_half(random_value());
    a->v[i] = to_half(random_value()), a->go[i] = to_half(random_value());
  }
  for (int r = 0; r < kRows; r++) {
    double sum = 0, delta = 0;
    for (int c = 0; c <= r; c++) sum += p[c] = exp2(scale * row_product(a->q, r, a->k, c));
    for (int c = 0; c <= r; c++) p[c] /= sum, gp[c] = row_product(a->go, r, a->v, c);
    for (int c = 0; c <= r; c++) delta += p[c] * gp[c];
    a->top[r] = (float)log2(sum), a->delta[r] = (float)delta;
    for (int c = 0; c <= r; c++) {
      double gs = p[c] * (gp[c] - delta) * scale * log(2);
      add_row(a->gv, c, p[c], a->go, r);
      add_row(a->gk, c, gs, a->q, r);
      add_row(a->gq, r, gs, a->k, c);
    }
  }
}

static void check_flash_back(int arch) {
  static Attention a;
  static float got[3][kRows * kDepth];
  static double want[3][kRows * kDepth];
  Kernel k;
  if (!load("flash_back", arch, &k)) return;
  float scale = 0.18f;
  a = (Attention){.top = {0}};
  attention_gradients(&a, scale);
  CUdeviceptr q = device_upload(a.q, sizeof a.q), kk = device_upload(a.k, sizeof a.k),
              v = device_upload(a.v, sizeof a.v), go = device_upload(a.go, sizeof a.go),
              top = device_upload(a.top, sizeof a.top),
              delta = device_upload(a.delta, sizeof a.delta), out[3];
  for (int i = 0; i < 3; i++) out[i] = device_upload(NULL, sizeof got[i]);
  int n = kRows;
  CUresult r = launch(&k, kRows / kBlock, 1,
                      (void *[13]){&q, &kk, &v, &go, &top, &delta, &out[0], &out[1], &out[2],
                                   &scale, &n}, 11);
  for (int i = 0; i < 3 && r == CUDA_SUCCESS; i++) OK(cuMemcpyDtoH(got[i], out[i], sizeof got[i]));
  memcpy(want[0], a.gq, sizeof want[0]);
  memcpy(want[1], a.gk, sizeof want[1]);
  memcpy(want[2], a.gv, sizeof want[2]);
  judge("flash_back", arch, r, got[0], want[0], 3 * kRows * kDepth, 1e-3);
}

int main(int argc, char **argv) {
  if (argc < 2 || !device_open()) return 2;
  printf("1..23\n");
  folder = argv[1];
  for (int arch = 80; arch <= 90; arch += 10) {
    check_add(arch);
    check_rows("softmax", arch);
    check_rows("layernorm", arch);
    check_histogram(arch);
    check_matmul("matmul32", arch, ElemTf32, 64, false, 1e-3);
    check_matmul("matmul16", arch, ElemF16, 64, false, 1e-5);
    check_matmul("matmul8", arch, ElemE5m2, 64, false, 1e-5);
    check_matmul("matmul8_e4m3", arch == 80 ? 89 : 90, ElemE4m3, 64, false, 1e-5);
    check_matmul("matmul_int8", arch, ElemS8, 64, false, 0);
    check_matmul("matmul_tma", arch, ElemF16, 128, true, 5e-4);
    check_flash(arch);
    check_flash_back(arch);
  }
  return failed != 0 || !ran;
}
