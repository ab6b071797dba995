// test_loops.c: which kernels libcusim runs as a loop over a block's threads, and which on fibers.
// Threads that can wait for each other must not be in a loop: it would never end. Only on libcusim.
#include "tests/sim/device.h"

#include "sim/counters.h"

typedef struct Case {
  const char *name, *body; // of kernel k(float *x, int n); t is the thread
  bool loops;
  const char *check, *seed; // null: the default
} Case;

static const Case cases[] = {
    {"elementwise", "x[t] = x[t] * 2 + 1;", true, NULL, NULL},
    {"libm", "x[t] = expf(x[t]) + powf(x[t], 3) + sinf(x[t]) / sqrtf(x[t] + n);", true, NULL, NULL},
    {"vectors", "nn_store<4>(x + 4 * t, nn_load<4>(x + 4 * t));", true, NULL, NULL},
    {"integers", "x[t] = t / n % (n + 3);", true, NULL, NULL},
    {"bytes", "float y[64]; memset(y, t, n); memcpy(x + t, y, n & 4); memmove(x, x, n & 4);", true,
     NULL, NULL},
    {"shared memory of each thread's own", "__shared__ float s[64]; s[t] = t; x[t] = s[t];", true,
     NULL, NULL},
    {"fences", "x[t] = t; __threadfence();", true, NULL, NULL},
    {"assertions and text", "assert(n); if (!n) printf(\"%d\", t); if (!n) __trap();", true, NULL,
     NULL},
    {"clocks", "if (clock64() == n) x[t] = 1;", true, NULL, NULL},
    {"a random order", "x[t] = t;", false, NULL, "5"},
    {"traced", "x[t] = t;", false, "race", NULL},
    {"block barrier", "x[t] = t; __syncthreads();", false, NULL, NULL},
    {"barrier that counts", "x[t] = __syncthreads_count(t);", false, NULL, NULL},
    {"named barrier", "nn_bar_sync(1, 64);", false, NULL, NULL},
    {"warp barrier", "__syncwarp();", false, NULL, NULL},
    {"shuffle", "x[t] = __shfl_xor_sync(~0u, x[t], 1);", false, NULL, NULL},
    {"vote", "x[t] = __ballot_sync(~0u, t > n);", false, NULL, NULL},
    {"flag", "if (t == 63) atomicExch(x, 1.0f); while (atomicAdd(x, 0.0f) == 0) ;", false, NULL,
     NULL},
    {"lock", "while (atomicCAS((int *)x, 0, 1)) ; atomicExch((int *)x, 0);", false, NULL, NULL},
    {"flag and sleep", "volatile float *f = x; f[63 - t] = 1; while (!f[t]) __nanosleep(20);",
     false, NULL, NULL},
    {"asynchronous copy",
     "__shared__ float s[64]; nn_cp_async<4>(s + t, x + t); nn_cp_async_commit();"
     "nn_cp_async_wait<0>(); x[t] = s[t];",
     false, NULL, NULL},
    {"mbarrier",
     "__shared__ Mbar bar; if (t == 0) nn_mbar_init(&bar, 64); nn_sync(); nn_mbar_arrive(&bar);"
     "nn_mbar_wait(&bar, 0);",
     false, NULL, NULL},
    {"a function of the program", "if (t > 63) sched_yield();", false, NULL, NULL},
    {"barrier in a function", "x[t] = meet(x, t);", false, NULL, NULL},
};
enum { kCases = sizeof cases / sizeof *cases };

static uint64_t loops_of(CUfunction f) {
  const char *library = getenv("CUSIM_LIBRARY");
  CUresult (*read)(CUfunction, KernelCounters *, size_t);
  *(void **)&read =
      dlsym(dlopen(library ? library : "build/libcusim.so", RTLD_NOW), "cusimKernelCounters");
  KernelCounters counters;
  assert_non_null(read);
  OK(read(f, &counters, sizeof counters));
  assert_int_equal(counters.launches, 1);
  return counters.loops;
}

static void run_case(const void *user) {
  const Case *c = user;
  char source[2048];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "%s\n"
           "%s\n"
           "extern \"C\" __global__ void k(float *x, int n) {\n"
           "  int t = threadIdx.x; (void)t; %s\n}\n",
           strstr(c->body, "sched_yield") ? "extern \"C\" int sched_yield();" : "",
           strstr(c->body, "meet(")
               ? "__device__ float meet(float *x, int t) { __syncthreads(); return x[t ^ 1]; }"
               : "",
           c->body);
  CUfunction f = device_function(source, "k");
  float x[256] = {0};
  int n = 3;
  CUdeviceptr p = device_upload(x, sizeof x);
  OK(device_run(f, 1, 64, 0, (void *[]){&p, &n}));
  assert_int_equal(loops_of(f), c->loops);
}

// In a process of its own, because libcusim reads its settings once.
static void set(const void *user) {
  const Case *c = user;
  unsetenv("NNGEN_SIM_COUNT");
  setenv("NNGEN_SIM_CHECK", c->check ? c->check : "basic", 1);
  setenv("NNGEN_SIM_SEED", c->seed ? c->seed : "0", 1);
}

static void test_case(void **state) {
  const char *body = ((const Case *)*state)->body;
  if (strstr(body, "sched_yield") || strstr(body, "memmove")) CXX_ONLY("it has no such functions");
  device_child(set, run_case, *state);
}

int main(void) {
  struct CMUnitTest tests[kCases];
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  for (int i = 0; i < kCases; i++)
    tests[i] = (struct CMUnitTest){cases[i].name, test_case, NULL, NULL, (void *)&cases[i]};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
