// test_planted.c: small kernels with one planted bug each, and their corrected twins.
//
// In each kernel BUG(faulty, correct) is the whole difference. The faulty one must be caught as its
// row says: by a report that names kernel, block, thread and line, or, where the check level is too
// low for one, by poison in the result (a wrong one, where it reads what is not poisoned). The twin
// must run with the right result and without a report, at every level and seed. Only on libcusim.
#include "tests/sim/device.h"

#include <elf.h>
#include <math.h>
#include <regex.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 64, kGrid = 2, kFloats = 1000, kSmem = 1024 };
static const char kBodyLine[] = "planted.cu:10"; // of the source that load() makes

typedef enum Seen {
  Named,   // a report names the kernel, block, thread and line
  Damage,  // a report names the allocation that was written outside of, after the launch
  Guard,   // a report names the kernel and the block, after it: static shared memory was overrun
  Poison,  // no report; NaN in the result: what was read was not there yet
  Wrong,   // no report; a wrong result: what was read is what happens to lie there, perhaps NaN
  Nothing, // not looked for
} Seen;

typedef struct Planted {
  const char *name;
  const char
      *body; // sees t, lane, warp, mem[1000] = 0, 1, 2.., fresh[1000] never written, s; sets y
  const char *want; // C expression of t, what y must be
  Seen basic, all;  // how it is caught at the default level, and with all checks
  const char *at;   // line in the report; null: kBodyLine
} Planted;

#define READ_NEIGHBOUR "y = s.x[t ^ 33];"

static const Planted cases[] = {
    {"missing block barrier", "s.x[t] = t; BUG(, nn_sync();) y = s.x[63 - t];", "63 - t", Poison,
     Named, NULL},
    {"missing barrier before reuse",
     "for (int i = 0; i < 3; i++) { s.x[t] = t + i; nn_sync(); y = s.x[63 - t]; BUG(, nn_sync();) "
     "}",
     "63 - t + 2", Nothing, Named, NULL},
    {"missing syncwarp", "s.x[t] = t; BUG(, nn_syncwarp();) y = s.x[t ^ 31];", "t ^ 31", Poison,
     Named, NULL},
    {"syncwarp of the wrong lanes",
     "s.x[t] = t; nn_syncwarp(BUG(lane < 16 ? 0xffffu : 0xffff0000u, kFullMask)); y = s.x[t ^ 31];",
     "t ^ 31", Poison, Named, NULL},
    {"global read past the end", "y = mem[BUG(1000 + t, t)];", "t", Named, Named, NULL},
    {"global write past the end", "if (t == 63) mem[BUG(1000, 998) + blockIdx.x] = 5; y = t;", "t",
     Damage, Named, NULL},
    {"global write before the beginning", "if (t == 0) mem[BUG(-2, 0) + blockIdx.x] = 0; y = t;",
     "t", Named, Named, NULL},
    {"global read far away", "y = mem[BUG(1 << 28, 3)];", "3", Named, Named, NULL},
    {"null pointer", "float *p = BUG((float *)0, mem); y = *p + t;", "t", Named, Named, NULL},
    {"dynamic shared memory past the end", "s.x[t] = t; nn_sync(); y = s.x[BUG(t + 240, t ^ 1)];",
     "t ^ 1", Named, Named, NULL},
    {"dynamic shared memory that was not asked for",
     "s.x[BUG(4096, 0) + t] = t; nn_sync(); y = s.x[BUG(4096, 0) + (t ^ 1)];", "t ^ 1", Named,
     Named, NULL},
    {"static shared memory past the end",
     "__shared__ float z[64]; z[t] = t; nn_sync(); y = z[BUG(t + 64, 63 - t)];", "63 - t", Wrong,
     Named, NULL},
    {"shared memory nobody wrote", "if (t < BUG(60, 64)) s.x[t] = t; nn_sync(); y = s.x[63 - t];",
     "63 - t", Poison, Named, NULL},
    {"global memory nobody wrote", "y = BUG(fresh, mem)[t];", "t", Poison, Named, NULL},
    {"misaligned vector load", "y = nn_load<4>(mem + BUG(1, 4))[0] + t;", "4 + t", Named, Named,
     NULL},
    {"misaligned vector store",
     "Vec<float, 2> v; v[0] = v[1] = t; nn_store<2>(s.x + 2 * t + BUG(1, 0), v); nn_sync(); y = "
     "s.x[2 * t];",
     "t", Named, Named, NULL},
    {"misaligned asynchronous copy",
     "if (t < 16) nn_cp_async<16>(s.x + 4 * t, mem + 4 * t + BUG(1, 0)); nn_cp_async_commit();"
     "nn_cp_async_wait<0>(); nn_sync(); y = s.x[t];",
     "t", Named, Named, NULL},
    {"asynchronous copy without a wait",
     "nn_cp_async<4>(s.x + t, mem + t); nn_cp_async_commit(); BUG(, nn_cp_async_wait<0>();)"
     "nn_sync(); y = s.x[63 - t];",
     "63 - t", Poison, Named, NULL},
    {"wait for one group too few",
     "for (int i = 0; i < 2; i++) nn_cp_async<4>(s.x + 64 * i + t, mem + t), nn_cp_async_commit();"
     "nn_cp_async_wait<BUG(1, 0)>(); nn_sync(); y = s.x[64 + (t ^ 1)];",
     "t ^ 1", Poison, Named, NULL},
    {"asynchronous copy without a barrier",
     "nn_cp_async<4>(s.x + t, mem + t); nn_cp_async_commit(); nn_cp_async_wait<0>();"
     "BUG(, nn_sync();) y = s.x[63 - t];",
     "63 - t", Poison, Named, NULL},
    {"stage overwritten while it is read",
     "for (int i = 0; i < 4; i++) { nn_cp_async<4>(s.x + t, mem + t + i); nn_cp_async_commit();"
     "nn_cp_async_wait<0>(); nn_sync(); y = s.x[63 - t]; BUG(, nn_sync();) }",
     "63 - t + 3", Nothing, Named, NULL},
    {"barrier in a branch", "s.x[t] = t;\nBUG(if (t < 32) nn_sync();,)\nnn_sync();\ny = s.x[t];",
     "t", Named, Named, "planted.cu:12"},
    {"named barrier that half the threads reach",
     "s.x[t] = t; if (t < BUG(32, 64)) nn_bar_sync(1, 64); nn_sync(); y = s.x[63 - t];", "63 - t",
     Named, Named, NULL},
    {"named barrier with two counts",
     "if (t < 32) nn_bar_sync(1, 64); else nn_bar_sync(1, BUG(32, 64)); y = t;", "t", Named, Named,
     NULL},
    {"mbarrier that waits for one arrival too many",
     "if (t == 0) nn_mbar_init(&s.bar, BUG(65, 64)); nn_sync(); s.x[t] = t; nn_mbar_arrive(&s.bar);"
     "nn_mbar_wait(&s.bar, 0); y = s.x[63 - t];",
     "63 - t", Named, Named, NULL},
    {"mbarrier polled for ever",
     "if (t == 0) nn_mbar_init(&s.bar, BUG(65, 64)); nn_sync(); s.x[t] = t; nn_mbar_arrive(&s.bar);"
     "while (!nn_mbar_try_wait(&s.bar, 0)) {} y = s.x[63 - t];",
     "63 - t", Named, Named, NULL},
    {"mbarrier with the wrong phase",
     "if (t == 0) nn_mbar_init(&s.bar, 64); nn_sync(); s.x[t] = t; nn_mbar_arrive(&s.bar);"
     "nn_mbar_wait(&s.bar, BUG(1, 0)); y = s.x[63 - t];",
     "63 - t", Named, Named, NULL},
    {"mbarrier not initialised",
     "if (t == 0 && BUG(false, true)) nn_mbar_init(&s.bar, 64); nn_sync(); nn_mbar_arrive(&s.bar); "
     "y = t;",
     "t", Named, Named, NULL},
    {"mbarrier with too many arrivals",
     "if (t == 0) nn_mbar_init(&s.bar, 64); nn_sync(); if (t == 0) "
     "nn_mbar_arrive_expect_tx(&s.bar, 0);"
     "if (t || BUG(true, false)) nn_mbar_arrive(&s.bar); if (t == 1 && BUG(true, false))"
     "for (int i = 0; i < 64; i++) nn_mbar_arrive_expect_tx(&s.bar, 16); y = t;",
     "t", Named, Named, NULL},
    {"shuffle whose mask lacks the caller",
     "y = lane < 16 ? nn_shfl_xor(t, 1, BUG(0xffff0000u, 0xffffu)) : t ^ 1;", "t ^ 1", Named, Named,
     NULL},
    // no fault on a GPU: programs may read such a value and not use it; here it is poison
    {"shuffle from a lane that takes no part",
     "y = t; if (lane < 16) y = nn_shfl(float(t), BUG(20, 4), 0xffffu) + lane - 4;", "t", Poison,
     Poison, NULL},
    {"full mask in half a warp",
     "y = t; if (lane < 16) y = nn_shfl_xor(t, 1, BUG(kFullMask, 0xffffu)) ^ 1; nn_sync();", "t",
     Named, Named, NULL},
    {"shuffle meets ballot",
     "if (BUG(lane % 2, false)) y = nn_ballot(true) != 0; else y = nn_shfl(t, lane) + 0;", "t",
     Named, Named, NULL},
    {"counter without an atomic",
     "__shared__ int n; if (t == 0) n = 0; nn_sync();\nBUG(n = n + 1;, nn_atomic_add(&n, 1);)\n"
     "nn_sync(); y = n;",
     "64", Nothing, Named, "planted.cu:11"},
    {"two blocks write one place",
     "if (t == 0) mem[998 + BUG(0, blockIdx.x)] = 1 + blockIdx.x; y = t;", "t", Nothing, Named,
     NULL},
    {"two blocks add to one place",
     "if (t == 0) { BUG(mem[999] = mem[999] + 1;, nn_atomic_add(mem + 999, 1.0f);) } y = t;", "t",
     Nothing, Named, NULL},
    {"ldmatrix from a misaligned row",
     "s.x[t] = t; s.x[t + 64] = t; nn_sync(); unsigned r[1];"
     "nn_ldmatrix_x1(r, (char *)s.x + 16 * (lane % 8) + BUG(4, 0)); y = t;",
     "t", Named, Named, NULL},
    {"endless recursion", "y = BUG(deep(mem, t), t);", "t", Named, Named, "planted.cu:[456]"},
    {"misaligned float4 load",
     "float4 v = *(const float4 *)(mem + 4 * t + BUG(1, 0)); y = v.x + v.y + v.z + v.w - 15 * t - "
     "6;",
     "t", Nothing, Named, NULL},
    {"misaligned float4 copy", // by one instruction of the host
     "if (t < 32) ((float4 *)s.x)[t] = *(const float4 *)(mem + 4 * t + BUG(1, 0)); nn_sync();"
     "y = s.x[t];",
     "t", Named, Named, NULL},
    {"misaligned int2 store",
     "*(int2 *)(s.x + 2 * t + BUG(1, 0)) = make_int2(t, t); nn_sync(); y = ((int *)s.x)[2 * t];",
     "t", Nothing, Named, NULL},
    {"float4 load past the end", "float4 v = ((float4 *)mem)[BUG(250 + t, t)]; y = v.x - 3 * t;",
     "t", Named, Named, NULL},
    {"int2 store past the end",
     "if (t == 63) ((int2 *)mem)[BUG(500, 498) + blockIdx.x] = make_int2(0, 0); y = t;", "t",
     Damage, Named, NULL},
    {"static shared memory written past the end",
     "__shared__ float z[64]; z[BUG(t + 64, 63 - t)] = t; nn_sync(); y = z[t];", "63 - t", Guard,
     Named, NULL},
    {"static shared memory overrun by a vector",
     "__shared__ float z[64]; if (t < 16) ((float4 *)z)[BUG(t + 8, t)] = make_float4(4 * t, 4 * t +"
     " 1, 4 * t + 2, 4 * t + 3); nn_sync(); y = z[t];",
     "t", Guard, Named, NULL},
    {"lock that is not released",
     "__shared__ unsigned lock, n; if (t == 0) lock = n = 0; nn_sync(); if (lane == 0) {"
     "while (atomicCAS(&lock, 0u, 1u)) ; __threadfence(); n = n + 1; __threadfence();"
     "BUG(, atomicExch(&lock, 0u);) } nn_sync(); y = n;",
     "2", Named, Named, NULL},
    {"lock that is not taken",
     "__shared__ unsigned lock, n; if (t == 0) lock = n = 0; nn_sync(); if (lane == 0) {"
     "BUG(, while (atomicCAS(&lock, 0u, 1u)) ;) __threadfence(); n = n + 1; __threadfence();"
     "atomicExch(&lock, 0u); } nn_sync(); y = n;",
     "2", Nothing, Named, NULL},
    {"flag that nobody raises",
     "__shared__ unsigned flag; if (t == 0) flag = 0; nn_sync(); if (t == 40) { s.x[0] = 7;"
     "__threadfence(); BUG(, atomicExch(&flag, 1u);) } if (t == 0) { while (!atomicAdd(&flag, 0u)) "
     ";"
     "__threadfence(); s.x[1] = s.x[0]; } nn_sync(); y = s.x[1];",
     "7", Named, Named, NULL},
    {"flag raised without an atomic",
     "__shared__ unsigned flag; if (t == 0) flag = 0; nn_sync(); if (t == 40) { s.x[0] = 7;"
     "__threadfence(); BUG(*(volatile unsigned *)&flag = 1, atomicExch(&flag, 1u)); }"
     "if (t == 0) { while (!atomicAdd(&flag, 0u)) ; __threadfence(); s.x[1] = s.x[0]; }"
     "nn_sync(); y = s.x[1];",
     "7", Nothing, Named, NULL},
    {"flag raised before the data",
     "__shared__ unsigned flag; if (t == 0) flag = 0; nn_sync(); if (t == 40) {"
     "BUG(atomicExch(&flag, 1u);,) s.x[0] = 7; __threadfence(); BUG(, atomicExch(&flag, 1u);) }"
     "if (t == 0) { while (!atomicAdd(&flag, 0u)) ; __threadfence(); s.x[1] = s.x[0]; }"
     "nn_sync(); y = s.x[1];",
     "7", Nothing, Named, NULL},
    {"failed assertion", "assert(t < BUG(63, 64)); y = t;", "t", Named, Named, NULL},
};
enum { kCases = sizeof cases / sizeof *cases };

static int missable; // bugs that this compiler's kernels may hide
static char folder[] = "/tmp/planted-XXXXXX"; // images, by case, variant and instrumentation

// The case's module; compiled by the first that asks, read from the folder by later ones.
static CUmodule load(const Planted *c, bool faulty) {
  char path[64];
  CUmodule module;
  bool basic = !strcmp(getenv("NNGEN_SIM_CHECK"), "basic");
  snprintf(path, sizeof path, "%s/%d%d%d", folder, (int)(c - cases), faulty, basic);
  if (cuModuleLoad(&module, path) == CUDA_SUCCESS) return module;
  char source[4096];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "#define BUG(faulty, correct) %s\n"
           "struct Smem { float x[128]; Mbar bar; };\n"
           "__device__ __noinline__ float deep(float *mem, int n) {\n"
           "  volatile float a[64]; a[n & 63] = mem[n & 63];\n"
           "  return n < -1000000 ? 0.0f : deep(mem, n - 1) + a[n & 63]; }\n"
           "extern \"C\" __global__ void k(float *out, float *mem, float *fresh) {\n"
           "  NN_SMEM(Smem, s); int t = threadIdx.x, lane = nn_lane(), warp = t / 32;\n"
           "  float y = 0; (void)warp; (void)lane; (void)fresh; (void)s;\n"
           "%s\n"
           "  out[blockIdx.x * blockDim.x + t] = y;\n}\n",
           faulty ? "faulty" : "correct", c->body);
  char *image, *log;
  if (device_compile(source, "planted.cu", &image, &log) != NVRTC_SUCCESS) {
    fprintf(stderr, "%s: %s\n", c->name, log);
    _exit(99);
  }
  FILE *file = fopen(path, "wb");
  Elf64_Ehdr *head = (Elf64_Ehdr *)image;
  size_t bytes = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  if (!file || fwrite(image, 1, bytes, file) != bytes || fclose(file)) _exit(95);
  if (cuModuleLoad(&module, path)) _exit(98);
  free(image);
  free(log);
  return module;
}

static CUresult run_case(const Planted *c, bool faulty, float out[kThreads * kGrid]) {
  CUmodule module = load(c, faulty);
  CUfunction f;
  CUdeviceptr pm, po, pf;
  float mem[kFloats];
  for (int i = 0; i < kFloats; i++) mem[i] = (float)i;
  if (cuModuleGetFunction(&f, module, "k") || cuMemAlloc(&pm, sizeof mem) ||
      cuMemAlloc(&pf, sizeof mem) || cuMemAlloc(&po, sizeof(float) * kThreads * kGrid) ||
      cuMemcpyHtoD(pm, mem, sizeof mem))
    _exit(98);
  CUresult r = device_run(f, kGrid, kThreads, 520, (void *[]){&po, &pm, &pf});
  if (r == CUDA_SUCCESS && cuMemcpyDtoH(out, po, sizeof(float) * kThreads * kGrid)) _exit(97);
  cuModuleUnload(module);
  CUresult f1 = cuMemFree(pm), f2 = cuMemFree(pf), f3 = cuMemFree(po);
  return r ? r : f1 ? f1 : f2 ? f2 : f3;
}

// The expressions of `want`, evaluated here: of t and small constants, left to right, ^ last.
static float wanted(const char *text, int t) {
  int sum = 0, sign = 1, used = 0;
  const char *at = text;
  for (int value; *at && *at != '^'; at += used) {
    while (*at == ' ' || *at == '+' || *at == '-')
      sign = *at == '-' ? -1 : *at == '+' ? 1 : sign, at++;
    if (*at == 't')
      value = t, used = 1;
    else if (sscanf(at, "%d%n", &value, &used) != 1)
      break;
    sum += sign * value;
    sign = 1;
    while (at[used] == ' ') used++;
  }
  if (*at == '^') sum ^= atoi(at + 1);
  return (float)sum;
}

static bool result_is_right(const Planted *c, const float *out) {
  for (int i = 0; i < kThreads * kGrid; i++)
    if (!(out[i] == wanted(c->want, i % kThreads))) return false;
  return true;
}

static bool has_nan(const float *out) {
  int i = 0;
  while (i < kThreads * kGrid && !isnan(out[i])) i++;
  return i < kThreads * kGrid;
}

// In a process of its own, because a fault ends the device: 0 right, 1 an error, 2 wrong result,
// 3 wrong with NaN. What it writes to stderr goes to `report`.
static int outcome(const Planted *c, bool faulty, const char *const *setting, int report) {
  pid_t pid = fork();
  if (pid == 0) {
    setenv("NNGEN_SIM_CHECK", setting[0], 1);
    setenv("NNGEN_SIM_SEED", setting[1], 1);
    setenv("NNGEN_SIM_TIMEOUT", "1", 1);
    float out[kThreads * kGrid];
    dup2(report, 2);
    if (!device_open()) _exit(96);
    CUresult r = run_case(c, faulty, out);
    _exit(r != CUDA_SUCCESS ? 1 : result_is_right(c, out) ? 0 : has_nan(out) ? 3 : 2);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static bool matches(const char *text, const char *pattern) {
  regex_t regex;
  assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
  bool found = regexec(&regex, text, 0, NULL, 0) == 0;
  regfree(&regex);
  return found;
}

// Whether the outcome and the report are what the case says; the report is the caller's to free.
static bool run_seen(const Planted *c, bool faulty, const char *const *setting, Seen seen,
                     int *code, char **report) {
  char path[64], pattern[160];
  snprintf(path, sizeof path, "%s/report", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  *code = outcome(c, faulty, setting, fileno(file));
  fclose(file);
  *report = file_read(path);
  assert_non_null(*report);
  snprintf(pattern, sizeof pattern,
           "kernel k, block \\([01],0,0\\), thread \\([0-9]+,0,0\\), %s[^0-9]",
           c->at ? c->at : kBodyLine);
  if (!faulty) return *code == 0 && !**report;
  if (seen == Poison) return *code == 3 && !**report;
  if (seen == Wrong) return (*code == 2 || *code == 3) && !**report;
  if (seen == Damage) return *code == 1 && matches(*report, "wrote outside allocation [0-9]+ of");
  if (seen == Guard)
    return *code == 1 && matches(*report, "past the end of static shared memory of 256 bytes\n"
                                          "libcusim:   in kernel k, block \\([01],0,0\\)");
  return *code == 1 && matches(*report, pattern);
}

// In the short run, one of three: with each setting others.
static bool is_left_out(int i, const char *const *setting) {
  return !getenv("NNGEN_TEST_LONG") && i % 3 != atoi(setting[1]) % 3;
}

static void test_twins(void **state) {
  const char **setting = *state;
  int alarms = 0, tried = 0;
  for (int i = 0; i < kCases; i++) {
    int code;
    char *report;
    if (is_left_out(i, setting)) continue;
    tried++;
    if (!run_seen(&cases[i], false, setting, Nothing, &code, &report))
      fprintf(stderr, "false alarm (%d): %s\n%s", code, cases[i].name, report), alarms++;
    free(report);
  }
  printf("# twins accused: %d of %d, NNGEN_SIM_CHECK=%s NNGEN_SIM_SEED=%s\n", alarms, tried,
         setting[0], setting[1]);
  assert_int_equal(alarms, 0);
}

static void test_bugs(void **state) {
  const char **setting = *state;
  int missed = 0, tried = 0;
  bool all = !strcmp(setting[0], "all");
  for (int i = 0; i < kCases; i++) {
    Seen seen = all ? cases[i].all : cases[i].basic;
    int code;
    char *report;
    if (seen == Nothing || is_left_out(i, setting)) continue;
    tried++;
    bool found = run_seen(&cases[i], true, setting, seen, &code, &report);
    if (!found) fprintf(stderr, "missed (%d): %s\n%s", code, cases[i].name, report), missed++;
    free(report);
  }
  printf("# bugs caught: %d of %d, NNGEN_SIM_CHECK=%s NNGEN_SIM_SEED=%s\n", tried - missed, tried,
         setting[0], setting[1]);
  assert_in_range(missed, 0, missable);
}

// With a number, the short form: all checks, one order, and that many bugs may be missed.
int main(int argc, char **argv) {
  static const char *all[] = {"all", "0"}, *seeded[] = {"all", "7"}, *basic[] = {"basic", "2"};
  const struct CMUnitTest tests[] = {
      {"bugs are caught, all checks", test_bugs, NULL, NULL, all},
      {"bugs are caught, all checks, seed 7", test_bugs, NULL, NULL, seeded},
      {"bugs are caught, default checks", test_bugs, NULL, NULL, basic},
      {"twins pass, all checks", test_twins, NULL, NULL, all},
      {"twins pass, all checks, seed 7", test_twins, NULL, NULL, seeded},
      {"twins pass, default checks", test_twins, NULL, NULL, basic}};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  printf("# %d planted bugs\n", kCases);
  if (!mkdtemp(folder)) return perror(folder), 1;
  const struct CMUnitTest few[] = {tests[0], tests[3]};
  const struct CMUnitTest some[] = {tests[1], tests[2], tests[4]}; // the rest: NNGEN_TEST_LONG=1
  if (through_nvrtc()) missable = 3; // whose reads it drops, or which hit dynamic shared memory
  if (argc > 1) missable = atoi(argv[1]);
  int failed = argc > 1                    ? cmocka_run_group_tests(few, NULL, NULL)
               : getenv("NNGEN_TEST_LONG") ? cmocka_run_group_tests(tests, NULL, NULL)
                                           : cmocka_run_group_tests(some, NULL, NULL);
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) ? 1 : failed;
}
