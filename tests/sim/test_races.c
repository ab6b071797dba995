// test_races.c: what the race check accuses and what it must not: each case a kernel, with the
// words of its report or none; and what the check costs. In a process of its own, because a fault
// ends the device. Only on libcusim.
#include "tests/sim/device.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kThreads = 64, kGrid = 4 };

typedef struct Case {
  const char *name;
  const char *body;   // of kernel k(int *x, int *y): t, b, and the variables below
  const char *report; // in the report; null: none
} Case;

static const char *prologue =
    "__device__ unsigned count; __device__ int sum; __constant__ int table[4] = {1, 2, 3, 4};\n"
    "extern \"C\" __global__ void k(int *x, int *y) {\n"
    "  int t = threadIdx.x, b = blockIdx.x, i = b * blockDim.x + t; (void)i;\n";

static const Case cases[] = {
    {"a counter in a variable tells the last block",
     "__shared__ bool last; if (t == 0) { x[b] = b + 1; __threadfence();"
     "last = atomicAdd(&count, 1u) == gridDim.x - 1; } __syncthreads();"
     "if (last && t == 0) { int s = 0; for (int j = 0; j < gridDim.x; j++) s += x[j]; sum = s; }",
     NULL},
    {"the same without the counter",
     "if (t == 0) x[b] = b + 1; if (b == gridDim.x - 1 && t == 0) {"
     "int s = 0; for (int j = 0; j < gridDim.x; j++) s += x[j]; sum = s; }",
     "race on global memory"},
    {"threads count in a variable", "sum = sum + 1;", "variable sum"},
    {"blocks write one variable", "if (t == 0) sum = b;", "variable sum"},
    {"atomics on a variable", "atomicAdd(&sum, t); atomicAdd(&count, 1u);", NULL},
    {"threads store one value", "x[0] = 1; __shared__ int s; s = 7; __syncthreads(); y[i] = s;",
     NULL},
    {"a thread stores another", "__shared__ int s; s = t == 40 ? 8 : 7; __syncthreads(); y[i] = s;",
     "thread (40,0,0)"},
    {"the last thread stores another", "__shared__ volatile int s; s = t == 63;",
     "thread (63,0,0)"},
    {"bytes of one word", "((volatile char *)x)[i] = t; ((char *)y)[i] = t;", NULL},
    {"one value over an atomic", "if (t == 5) x[0] = 1; else if (t == 40) atomicExch(x, 1);",
     "race on global memory"},
    {"flags between blocks that are volatile", // decoupled look-back
     "volatile int *flag = x, *part = y; if (t == 0) { int s = b; part[b] = b; __threadfence();"
     "flag[b] = 1; for (int p = b - 1; p >= 0; p--) { while (!flag[p]) ; __threadfence();"
     "s += part[p]; } y[64 + b] = s; }",
     NULL},
    {"flags that are not", "if (t == 0) { y[b] = b; x[b] = 1; if (b) x[64 + b] = y[b - 1]; }",
     "race on global memory"},
    {"a thread that leaves before a barrier of the others has written",
     "if (t >= 32) { x[i] = t; return; } __syncthreads(); y[i] = x[i + 32];", NULL},
    {"the same without the barrier",
     "if (t >= 32) { x[i] = t; return; } __syncwarp(); y[i] = x[i + 32];", "race on global memory"},
    {"atomics of threads that leave before a barrier",
     "__shared__ int s; if (t == 0) s = 0; __syncthreads(); "
     "if (t >= 32) { atomicAdd(&s, 1); return; }"
     "__syncthreads(); y[i] = s;",
     NULL},
    {"a loop that compares and swaps, whose first read is plain",
     "unsigned long long *p = (unsigned long long *)x, old = *p, assumed; do { assumed = old;"
     "old = atomicCAS(p, assumed, (unsigned long long)__double_as_longlong(t + "
     "__longlong_as_double((long long)assumed))); } while (assumed != old);",
     NULL},
    {"the same of 32 bits, behind other reads",
     "int old = *x, assumed; do { assumed = old; old = atomicCAS(x, assumed, assumed + y[i]); }"
     "while (assumed != old);",
     NULL},
    {"a loop that compares and swaps only while it would win",
     "int old = *x, mine = (t * 37 + b) % 64; while (mine > old) { int assumed = old;"
     "old = atomicCAS(x, assumed, mine); if (old == assumed) break; }",
     NULL},
    {"the same that leaves in its midst, of shared memory",
     "__shared__ float m; if (t == 0) m = 0; __syncthreads(); float mine = (t * 37 + b) % 64;"
     "int *p = (int *)&m, old = *p, assumed; do { assumed = old; if (__int_as_float(assumed) >= "
     "mine) break; old = atomicCAS(p, assumed, __float_as_int(mine)); } while (assumed != old);",
     NULL},
    {"keys that are there are not put in again",
     "int key = t % 8 + 1, at = key % 4; for (;; at++) { int old = x[at]; if (old == key) break;"
     "if (old == 0) { old = atomicCAS(x + at, 0, key); if (old == 0 || old == key) break; } }",
     NULL},
    {"a loop that would win, beside a plain write",
     "if (b == 3 && t == 63) { *x = 7; return; } int old = *x, mine = t; while (mine > old) {"
     "int assumed = old; old = atomicCAS(x, assumed, mine); if (old == assumed) break; }",
     "race on global memory"},
    {"a loop that would win, and a plain read on another line",
     "if (t == 40) { __threadfence_block(); y[i] = *x;\n } else { int old = *x; while (t > old) {"
     "int assumed = old; old = atomicCAS(x, assumed, t); if (old == assumed) break; } }",
     "race on global memory"},
    {"a plain read of what others add to", "int old = *x; y[i] = old; atomicAdd(x, 1);",
     "race on global memory"},
    {"a plain read, and a swap elsewhere",
     "int old = *x; atomicCAS(x + 1, old, 1); atomicExch(x, t);", "race on global memory"},
    {"a plain read of what others swap, alone", "if (t == 40) y[i] = *x; else atomicCAS(x, t, 1);",
     "race on global memory"},
    {"warps that rely on volatile",
     "__shared__ volatile int s[64]; s[t] = t; if (t < 16) { s[t] += s[t + 16]; s[t] += s[t + 8]; "
     "}",
     "shared memory"},
    {"two barriers on one line", "if (t < 32) __syncthreads(); x[i] = t; __syncthreads();",
     "not all threads reach the barrier"},
    {"one barrier in copies of one line",
     "for (int j = 0; j < 3; j++) __syncthreads(); if (y[0]) x[i] = 2; __syncthreads();", NULL},
    {"vectors moved whole",
     "__shared__ int4 s[64]; s[t] = ((int4 *)y)[t]; __syncthreads(); x[i] = ((int *)s)[255 - t];",
     NULL},
    {"a vector moved whole without a barrier",
     "__shared__ int4 s[64]; s[t] = ((int4 *)y)[t]; x[i] = ((int *)s)[255 - t];", "shared memory"},
    {"what one atomic has passed on, another passes on",
     "__shared__ int f, g; if (t == 0) f = g = 0; __syncthreads();"
     "if (t == 0) { for (int j = 0; j < 3; j++) atomicAdd(&f, 1); x[i] = 5; atomicAdd(&f, 1); }"
     "if (t == 32) { while (atomicAdd(&f, 0) < 4); for (int j = 0; j < 3; j++) atomicAdd(&g, 1); }"
     "if (t == 33) { while (atomicAdd(&g, 0) < 3); y[i] = x[b * 64]; }",
     NULL},
    {"the same, but the one between has not looked",
     "__shared__ int f, g; if (t == 0) f = g = 0; __syncthreads();"
     "if (t == 0) { for (int j = 0; j < 3; j++) atomicAdd(&f, 1); x[i] = 5; atomicAdd(&f, 1); }"
     "if (t == 32) for (int j = 0; j < 3; j++) atomicAdd(&g, 1);"
     "if (t == 33) { while (atomicAdd(&g, 0) < 3); y[i] = x[b * 64]; }",
     "global memory"},
    {"a read before a shuffle, a write behind it",
     "__shared__ int s; if (t == 0) s = 7; __syncthreads(); if (t < 32) { int v = s;"
     "v += __shfl_up_sync(~0u, v, 1); if (t == 31) s = v; } __syncthreads(); y[i] = s;",
     NULL},
    {"reads before votes of other lanes",
     "int v = x[4 * b]; if (t < 8) { __any_sync(0xffu, v); if (t >= 6) { __ballot_sync(0xc0u, v);"
     "} } if (t < 32 && t >= 7) { __ballot_sync(0xffffff80u, v); if (t == 31) x[4 * b] = v + t; }"
     "__syncthreads();",
     "(32,0,0)"},
    {"reads of lanes that met one after the other",
     "if (t < 32) { int v = x[4 * b]; if (t < 8) __any_sync(0xffu, v); if (t >= 7) {"
     "__ballot_sync(0xffffff80u, v); if (t == 31) x[4 * b] = v + t; } }",
     NULL},
    {"a write before a shuffle, a read behind it",
     "__shared__ int s[64]; s[t] = t; int v = __shfl_xor_sync(~0u, t, 1); y[i] = s[t ^ 1] + v;",
     "shared memory"},
    {"a read behind a shuffle, a write behind it",
     "__shared__ int s[64]; s[t] = t; __syncthreads(); int v = __shfl_xor_sync(~0u, t, 1);"
     "v += s[t ^ 1]; s[t] = v; __syncthreads(); y[i] = s[t];",
     "shared memory"},
    {"a read before a shuffle of other lanes",
     "__shared__ int s[64]; s[t] = t; __syncthreads(); int v = s[t ^ 16];"
     "v += __shfl_xor_sync(t & 16 ? 0xffff0000u : 0xffffu, v, 1); s[t] = v; __syncthreads();"
     "y[i] = s[t];",
     "shared memory"},
    {"a place that the next thread has read, too",
     "int v = t < 63 ? x[i + 1] : 0; x[i] = x[i] + v;", "race on global memory"},
    {"the same behind a barrier",
     "int v = x[i]; if (t < 63) v += x[i + 1]; __syncthreads(); x[i] = v;", NULL},
    {"the same in shared memory",
     "__shared__ int s[65]; s[t] = t; if (t == 0) s[64] = 0; __syncthreads(); s[t] = s[t + 1] + "
     "s[t]; __syncthreads(); y[i] = s[t];",
     "race on shared memory"},
    {"a place that the block before has read, too",
     "if (t == 63 && b < 3) y[i] = x[i + 1]; if (t == 0) x[i] = x[i] + 1;",
     "another block's thread 63"},
    {"the same behind an atomic counter",
     "if (t == 63) { y[i] = x[64 * (b + 1) & 255]; __threadfence(); atomicAdd(&count, 1u); }"
     "__syncthreads(); __shared__ bool last; if (t == 0) last = atomicAdd(&count, 0u) == 4;"
     "__syncthreads(); if (last && t == 0) for (int j = 0; j < 4; j++) x[64 * j] = x[64 * j] + 1;",
     NULL},
    {"a read that is not ordered, then one that is",
     "__shared__ int s; if (t == 0) s = 7; __syncthreads(); if (t == 40 || t == 3) y[i] = s;"
     "__syncwarp(); if (t == 4) s = 8;",
     "by thread 40 "},
    {"two reads that are",
     "__shared__ int s; if (t == 0) s = 7; __syncthreads(); if (t == 40 || t == 3) y[i] = s;"
     "__syncthreads(); if (t == 4) s = 8;",
     NULL},
    {"all lanes of two warps read, one warp is ordered",
     "__shared__ int s; if (t == 0) s = 7; __syncthreads(); y[i] = s; __syncwarp();"
     "if (t == 5) s = 8;",
     "race on shared memory"},
    {"the same of one place in global memory", "y[i] = x[b]; __syncwarp(); if (t == 37) x[b] = 8;",
     "race on global memory"},
    {"the same, both warps ordered", "y[i] = x[b]; __syncthreads(); if (t == 37) x[b] = 8;", NULL},
    {"lanes read, and meet, before one of them writes",
     "y[i] = x[b * 64 + t / 32]; int v = __shfl_xor_sync(~0u, t, 1);"
     "if (t % 32 == 5) x[b * 64 + t / 32] = v;",
     NULL},
    {"constants", "x[i] = table[t & 3] + table[b];", NULL},
};

static void run(const Case *c, int report) {
  setenv("NNGEN_SIM_CHECK", "race", 1);
  dup2(report, 2);
  if (!device_open()) _exit(96);
  char source[2048];
  snprintf(source, sizeof source, "%s%s }\n", prologue, c->body);
  CUfunction k = device_function(source, "k");
  int zeros[kThreads * kGrid] = {0};
  CUdeviceptr x = device_upload(zeros, sizeof zeros), y = device_upload(zeros, sizeof zeros);
  CUresult r = device_run(k, kGrid, kThreads, 0, (void *[]){&x, &y});
  _exit(r == CUDA_SUCCESS ? 0 : 1);
}

static void test_cases(void **state) {
  (void)state;
  int wrong = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[4096] = "";
    FILE *report = tmpfile();
    assert_non_null(report);
    pid_t pid = fork();
    if (pid == 0) run(&cases[i], fileno(report));
    int status = 0;
    waitpid(pid, &status, 0);
    rewind(report);
    text[fread(text, 1, sizeof text - 1, report)] = 0;
    fclose(report);
    const char *want = cases[i].report;
    bool right = WIFEXITED(status) && WEXITSTATUS(status) == (want != NULL) &&
                 (want ? strstr(text, want) != NULL : !*text);
    if (!right) fprintf(stderr, "%s: %s\n", cases[i].name, *text ? text : "no report"), wrong++;
  }
  assert_int_equal(wrong, 0);
}

// ---- blocks that wait for those before them -----------------------------------------------------

static const char *back_source =
    "extern \"C\" __global__ void k(volatile int *x, int *y) { int b = blockIdx.x;\n"
    "  __shared__ int before; if (threadIdx.x == 0) { x[2 * b] = b; __threadfence();\n"
    "    x[2 * b + 1] = 1; int s = 0; for (int p = b - 1; p >= 0; p--) {\n"
    "      while (!x[2 * p + 1]) ; __threadfence(); s += x[2 * p]; } before = s; }\n"
    "  __syncthreads(); y[b * blockDim.x + threadIdx.x] = before + b; }\n";

static void any_order(const void *user) {
  const char *const *words = user;
  setenv("NNGEN_SIM_CHECK", words[0], 1);
  setenv("NNGEN_SIM_SEED", words[1], 1);
  setenv("NNGEN_SIM_THREADS", words[2], 1);
  setenv("NNGEN_SIM_TIMEOUT", "5", 1);
}

static void look_back(const void *user) {
  (void)user;
  enum { kBlocks = 48, kWide = 32 };
  static int zeros[kBlocks * kWide], sums[kBlocks * kWide];
  CUfunction k = device_function(back_source, "k");
  CUdeviceptr x = device_upload(zeros, sizeof zeros), y = device_upload(zeros, sizeof zeros);
  OK(device_run(k, kBlocks, kWide, 0, (void *[]){&x, &y}));
  OK(cuMemcpyDtoH(sums, y, sizeof sums));
  for (int i = 0; i < kBlocks * kWide; i++)
    assert_int_equal(sums[i], i / kWide * (i / kWide + 1) / 2);
}

// A seed's order begins blocks before those that they wait for: all end.
static void test_look_back(void **state) {
  (void)state;
  static const char *const orders[][3] = {{"basic", "1", "1"}, {"basic", "2", "2"},
                                          {"race", "1", "1"},  {"race", "2", "2"},
                                          {"all", "3", "2"},   {"off", "4", "1"}};
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    device_child(any_order, look_back, orders[i]);
}

// ---- modules that come and go -------------------------------------------------------------------

enum { kModules = 4 };

static const char *loop_source =
    "extern \"C\" __global__ void k(int *x, int *y, int loops) { int t = threadIdx.x, old = 0;\n"
    "  if (loops || t) old = *x;\n"
    "  if (loops) { while (t > old) { int was = atomicCAS(x, old, t);\n"
    "    if (was == old) break; old = was; } }\n"
    "  else { y[t] = old; if (t == 0) atomicCAS(x, 0, 1); } }\n";

// In the last of several modules of the same code the read begins no loop.
static void load_again(const void *user) {
  static int zeros[kThreads];
  int report = *(const int *)user;
  setenv("NNGEN_SIM_CHECK", "race", 1);
  dup2(report, 2);
  if (!device_open()) _exit(96);
  CUdeviceptr x = device_upload(zeros, sizeof zeros), y = device_upload(zeros, sizeof zeros);
  for (int i = 0; i < kModules; i++) {
    CUmodule module = device_module(loop_source);
    CUfunction k;
    int loops = i < kModules - 1;
    OK(cuModuleGetFunction(&k, module, "k"));
    CUresult r = device_run(k, 1, kThreads, 0, (void *[]){&x, &y, &loops});
    if (!loops) _exit(r == CUDA_ERROR_LAUNCH_FAILED ? 0 : 1);
    OK(r);
    OK(cuModuleUnload(module));
  }
}

static void test_modules(void **state) {
  (void)state;
  FILE *report = tmpfile();
  assert_non_null(report);
  int fd = fileno(report), status = 0;
  pid_t pid = fork();
  if (pid == 0) load_again(&fd);
  waitpid(pid, &status, 0);
  fclose(report);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// ---- what the check costs -----------------------------------------------------------------------

static void all_checks(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", "all", 1);
}

// Seconds of processor time, at least, that 8192 threads take in which each does `body` 100 times.
static double cost(const char *body) {
  char source[1024];
  double least = 1e9;
  snprintf(source, sizeof source,
           "extern \"C\" __global__ void k(int *x) { int t = threadIdx.x;\n"
           "  for (int i = 0; i < 100; i++) { %s } }\n",
           body);
  CUfunction k = device_function(source, "k");
  static int zeros[8192];
  CUdeviceptr x = device_upload(zeros, sizeof zeros);
  for (int turn = 0; turn < 4; turn++) {
    clock_t begin = clock();
    OK(device_run(k, 32, 256, 0, (void *[]){&x}));
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds < least) least = seconds;
  }
  OK(cuMemFree(x));
  return least;
}

static void compare_costs(const void *user) {
  (void)user;
  double plain = cost("x[blockIdx.x * 256 + t] = i;");
  double one = cost("atomicAdd(x, 1);"), many = cost("atomicAdd(x + i % 64, 1);");
  printf("# atomic operations cost %.1f and %.1f plain accesses\n", one / plain, many / plain);
  fflush(stdout);
  assert_true(one < 4 * plain);
  assert_true(many < 6 * plain);
}

// Atomic operations, at one place and all over, cost a few times what plain accesses cost: not as
// many times as the block has threads.
static void test_cost_of_atomics(void **state) {
  (void)state;
  CXX_ONLY("it drops 99 of the 100 plain stores");
  device_child(all_checks, compare_costs, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases),
                                     cmocka_unit_test(test_look_back),
                                     cmocka_unit_test(test_modules),
                                     cmocka_unit_test(test_cost_of_atomics)};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
