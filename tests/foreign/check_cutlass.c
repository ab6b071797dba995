// check_cutlass.c PTX LIBRARY: runs a CUTLASS GEMM or convolution of halves, whose parameters its
// own host code in LIBRARY makes, against a reference.
#include "tests/sim/device.h"

#include <time.h>

enum { M = 384, N = 256, K = 320, kMostParams = 4096 };

static uint16_t to_half(float x) {
  _Float16 h = (_Float16)x;
  uint16_t bits;
  memcpy(&bits, &h, 2);
  return bits;
}

static float random_value(void) { // eighths: halves hold them, and their products are exact
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)((int)(state >> 28) - 8) / 8;
}

// What the library computes: a GEMM, D = A * B + C / 2; or, where it has a conv_shape (n, h, w, c,
// k, r, s, pad), a convolution of images A with filters B. Both sums are exact.
static float reference(const int *conv, const float *fa, const float *fb, int i) {
  float sum = 0;
  if (!conv) {
    for (int k = 0; k < K; k++) sum += fa[i / N * K + k] * fb[i % N * K + k];
    return sum;
  }
  int h = conv[1], w = conv[2], c = conv[3], k = i % conv[4], q = i / conv[4] % w,
      p = i / conv[4] / w % h, n = i / conv[4] / w / h;
  for (int r = 0; r < conv[5]; r++)
    for (int s = 0; s < conv[6]; s++) {
      int y = p + r - conv[7], x = q + s - conv[7];
      if (y < 0 || y >= h || x < 0 || x >= w) continue;
      const float *pixel = fa + ((n * h + y) * w + x) * c,
                  *filter = fb + ((k * conv[5] + r) * conv[6] + s) * c;
      for (int j = 0; j < c; j++) sum += pixel[j] * filter[j];
    }
  return sum;
}

// The name behind the first .entry.
static char *entry_name(const char *ptx) {
  const char *at = strstr(ptx, ".entry ");
  at = at ? at + 7 : "";
  return strndup(at, strcspn(at, "(\n "));
}

int main(int argc, char **argv) {
  if (argc < 3 || !device_open()) return 2;
  typedef int (*MakeParams)(CUdeviceptr, CUdeviceptr, CUdeviceptr, CUdeviceptr, int, int, int,
                            void *, int *, int *, int *, int *);
  void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  MakeParams make = library ? (MakeParams)dlsym(library, "make_params") : NULL;
  const int *conv = library ? dlsym(library, "conv_shape") : NULL;
  char *ptx = file_read(argv[1]);
  if (!make || !ptx) return fprintf(stderr, "%s\n", dlerror()), 2;
  static uint16_t a[M * K], b[N * K];
  static float fa[M * K], fb[N * K], c[M * N], got[M * N];
  for (int i = 0; i < M * K; i++) fa[i] = random_value(), a[i] = to_half(fa[i]);
  for (int i = 0; i < N * K; i++) fb[i] = random_value(), b[i] = to_half(fb[i]);
  for (int i = 0; i < M * N; i++) c[i] = random_value();
  CUdeviceptr da = device_upload(a, sizeof a), db = device_upload(b, sizeof b),
              dc = device_upload(c, sizeof c), dd = device_upload(NULL, sizeof got);
  _Alignas(128) char params[kMostParams];
  int bytes = 0, smem = 0, threads = 0, grid[3];
  if (make(da, db, dc, dd, M, N, K, params, &bytes, &smem, &threads, grid)) return 2;
  CUmodule module;
  CUfunction f;
  struct timespec t0, t1, t2;
  clock_gettime(CLOCK_MONOTONIC, &t0);
  OK(cuModuleLoadData(&module, ptx));
  clock_gettime(CLOCK_MONOTONIC, &t1);
  OK(cuModuleGetFunction(&f, module, entry_name(ptx)));
  OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, smem));
  CUresult r =
      cuLaunchKernel(f, (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2], (unsigned)threads,
                     1, 1, (unsigned)smem, NULL, (void *[]){params}, NULL);
  if (r == CUDA_SUCCESS) r = cuCtxSynchronize();
  clock_gettime(CLOCK_MONOTONIC, &t2);
  if (r == CUDA_SUCCESS) OK(cuMemcpyDtoH(got, dd, sizeof got));
  int wrong = 0, outputs = conv ? conv[0] * conv[1] * conv[2] * conv[4] : M * N;
  for (int i = 0; r == CUDA_SUCCESS && i < outputs; i++)
    wrong += got[i] != reference(conv, fa, fb, i) + 0.5f * c[i];
  printf("%sok - %s: %d, %d wrong, %zu bytes of PTX loaded in %.1f s, run in %.2f s\n",
         r || wrong ? "not " : "", argv[1], r, wrong, strlen(ptx),
         (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) * 1e-9,
         (double)(t2.tv_sec - t1.tv_sec) + (double)(t2.tv_nsec - t1.tv_nsec) * 1e-9);
  return r || wrong;
}
