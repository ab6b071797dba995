// bench_checks.c: what libcusim's checks cost: small kernels under NNGEN_SIM_CHECK=off, race and
// all, each in a process of its own. Prints microseconds of processor time and how many times `off`
// that is; the last lines have the median and the most. Gates nothing. Arguments: parts of the
// kernels' names (else all).
#include "tests/sim/device.h"

#include <signal.h>
#include <time.h>

typedef struct Case {
  const char *name;
  int grid, block;
  const char *body; // of k(float *p, int *q, int n); T and B: the thread in the grid, in its block
} Case;

enum { kItems = 1 << 16, kTurns = 8 };
#define kSlice 0.05 // seconds

static const Case cases[] = {
    {"scan in shared memory", 64, 256,
     "__shared__ float s[256]; s[B] = p[T]; __syncthreads();\n"
     "for (int d = 1; d < 256; d *= 2) { float x = B >= d ? s[B - d] : 0; __syncthreads();\n"
     "  s[B] += x; __syncthreads(); } p[T] = s[B] * 0.5f;"},
    {"scan by shuffles", 64, 256,
     "float x = p[T]; for (int d = 1; d < 32; d *= 2) {\n"
     "  float y = __shfl_up_sync(~0u, x, d); if (B % 32 >= d) x += y; } p[T] = x * 0.5f;"},
    {"reduction", 64, 256,
     "__shared__ float s[256]; s[B] = p[T]; for (int d = 128; d; d /= 2) { __syncthreads();\n"
     "  if (B < d) s[B] += s[B + d]; } if (!B) p[T] = s[0];"},
    {"transposition by tiles", 64, 256,
     "__shared__ float s[16][17]; int x = B % 16, y = B / 16, tile = blockIdx.x * 256;\n"
     "s[y][x] = p[tile + B]; __syncthreads(); p[tile + B] = s[x][y];"},
    {"product by tiles", 16, 256,
     "__shared__ float a[16][16], b[16][16]; int x = B % 16, y = B / 16; float sum = 0;\n"
     "int row = blockIdx.x / 4 * 16 + y, column = blockIdx.x % 4 * 16 + x;\n"
     "for (int i = 0; i < 4; i++) { a[y][x] = p[row * 64 + i * 16 + x];\n"
     "  b[y][x] = p[4096 + (i * 16 + y) * 64 + column]; __syncthreads();\n"
     "  for (int j = 0; j < 16; j++) sum += a[y][j] * b[j][x]; __syncthreads(); }\n"
     "p[8192 + row * 64 + column] = sum;"},
    {"product from global memory", 16, 256,
     "int row = T / 64, column = T % 64; float sum = 0;\n"
     "for (int i = 0; i < 64; i++) sum += p[row * 64 + i] * p[4096 + i * 64 + column];\n"
     "p[8192 + T] = sum;"},
    {"histogram in shared memory", 64, 256,
     "__shared__ int s[64]; if (B < 64) s[B] = 0; __syncthreads();\n"
     "for (int i = T; i < n; i += 16384) atomicAdd(&s[q[i] & 63], 1);\n"
     "__syncthreads(); if (B < 64) atomicAdd(&q[65536 + B], s[B]);"},
    {"histogram in global memory", 64, 256,
     "for (int i = T; i < n; i += 16384) atomicAdd(&q[65536 + (q[i] & 63)], 1);"},
    {"sums by atomics of floats", 64, 256,
     "for (int i = 0; i < 16; i++) atomicAdd(&p[65536 + (B + i & 63)], 1.0f);"},
    {"maxima by compare and swap", 64, 256,
     "int *at = &q[65536 + B % 64], old = *at, value = T;\n"
     "while (old < value) { int was = atomicCAS(at, old, value); if (was == old) break;\n"
     "  old = was; }"},
    {"sums of two arrays", 64, 256,
     "for (int i = T; i < n; i += 16384) p[i] = 2 * p[i] + (float)q[i];"},
    {"loop that reads and writes", 64, 256,
     "for (int i = 0; i < 16; i++) p[T] = p[T] * 0.5f + 1; "},
    {"rows, a thread each", 4, 256,
     "float *row = p + T * 64, most = row[0], sum = 0;\n"
     "for (int i = 1; i < 64; i++) most = fmaxf(most, row[i]);\n"
     "for (int i = 0; i < 64; i++) sum += row[i] = row[i] - most;\n"
     "for (int i = 0; i < 64; i++) row[i] /= sum + 1;"},
    {"stencil", 64, 256,
     "for (int i = T + 1; i < n - 1; i += 16384)\n"
     "  p[65536 + i] = 0.25f * (p[i - 1] + 2 * p[i] + p[i + 1]);"},
    {"bytes", 64, 256,
     "unsigned char *c = (unsigned char *)q;\n"
     "for (int i = T; i < 4 * n; i += 16384) c[i + 262144] = c[i] ^ 85;"},
};
enum { kCases = sizeof cases / sizeof *cases };

static const char *const checks[] = {"off", "race", "all"};
enum { kChecks = sizeof checks / sizeof *checks };

// Seconds that this process has had of processors: others on the machine change them least.
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct Kernel {
  const Case *of;
  CUfunction function;
  CUdeviceptr p, q;
} Kernel;

static Kernel compile(const Case *c) {
  char source[2048];
  snprintf(source, sizeof source,
           "extern \"C\" __global__ void k(float *p, int *q, int n) {\n"
           "const int B = threadIdx.x, T = blockIdx.x * blockDim.x + B;\n%s}",
           c->body);
  return (Kernel){c, device_function(source, "k"), device_upload(NULL, kItems * 8),
                  device_upload(NULL, kItems * 8)};
}

// The least of as many launches as fit into kSlice.
static double measure(const Kernel *k) {
  int n = kItems;
  void *params[] = {(void *)&k->p, (void *)&k->q, &n};
  double best = 1e9, begin = now();
  while (now() - begin < kSlice) {
    OK(cuMemsetD32(k->p, 0x3f800000, kItems * 2));
    OK(cuMemsetD32(k->q, 7, kItems * 2));
    OK(cuCtxSynchronize());
    double start = now();
    OK(cuLaunchKernel(k->function, (unsigned)k->of->grid, 1, 1, (unsigned)k->of->block, 1, 1, 0,
                      NULL, params, NULL));
    OK(cuCtxSynchronize());
    double took = now() - start;
    best = took < best ? took : best;
  }
  return best;
}

// ---- a process for each kind of check -----------------------------------------------------------

typedef struct Child {
  pid_t pid;
  int ask, answer; // our ends of its pipes
} Child;

static void serve(const Case *c, const char *check, int asked, int answers) {
  char go;
  setenv("NNGEN_SIM_CHECK", check, 1);
  if (!device_open()) _exit(3);
  Kernel k = compile(c);
  while (read(asked, &go, 1) == 1) {
    double took = measure(&k);
    if (write(answers, &took, sizeof took) != sizeof took) break;
  }
  _exit(0);
}

static Child child_start(const Case *c, const char *check) {
  int down[2], up[2];
  assert_int_equal(pipe(down), 0);
  assert_int_equal(pipe(up), 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(down[1]);
    serve(c, check, down[0], up[1]);
  }
  close(down[0]);
  close(up[1]);
  return (Child){pid, down[1], up[0]};
}

static double child_measure(const Child *child) {
  double took = 1e9;
  if (write(child->ask, "g", 1) != 1 || read(child->answer, &took, sizeof took) != sizeof took)
    fprintf(stderr, "bench_checks: a process has failed\n");
  return took;
}

static void child_end(const Child *child) {
  close(child->ask);
  close(child->answer);
  waitpid(child->pid, NULL, 0);
}

// In turns, so that a slow moment of the machine is none of one check's.
static void measure_case(const Case *c, double best[kChecks]) {
  Child children[kChecks];
  for (int k = 0; k < kChecks; k++) children[k] = child_start(c, checks[k]), best[k] = 1e9;
  for (int turn = 0; turn < kTurns; turn++)
    for (int k = 0; k < kChecks; k++) {
      double took = child_measure(&children[k]);
      best[k] = took < best[k] ? took : best[k];
    }
  for (int k = kChecks; k-- > 0;) child_end(&children[k]); // later ones hold the others' pipes
}

// ---- the table ----------------------------------------------------------------------------------

static int by_size(const void *a, const void *b) {
  const double *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

static bool is_asked(const Case *c, int argc, char **argv) {
  bool found = argc < 2;
  for (int i = 1; i < argc; i++) found |= strstr(c->name, argv[i]) != NULL;
  return found;
}

int main(int argc, char **argv) {
  double times[kChecks][kCases];
  int n = 0;
  signal(SIGPIPE, SIG_IGN);
  printf("%-28s %9s %9s %9s %7s %7s\n", "kernel", "off, us", "race, us", "all, us", "race", "all");
  for (int i = 0; i < kCases; i++) {
    double took[kChecks];
    if (!is_asked(&cases[i], argc, argv)) continue;
    measure_case(&cases[i], took);
    for (int k = 0; k < kChecks; k++) times[k][n] = took[k] / took[0];
    printf("%-28s %9.1f %9.1f %9.1f %6.1fx %6.1fx\n", cases[i].name, took[0] * 1e6, took[1] * 1e6,
           took[2] * 1e6, times[1][n], times[2][n]);
    fflush(stdout);
    n++;
  }
  for (int k = 1; k < kChecks && n; k++) {
    qsort(times[k], (size_t)n, sizeof **times, by_size);
    printf("%s: %.1fx at the median, %.1fx at most\n", checks[k], times[k][n / 2], times[k][n - 1]);
  }
  return 0;
}
