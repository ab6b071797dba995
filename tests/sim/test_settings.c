// test_settings.c: an environment that makes no sense is named in one line and passed over; the
// kernel runs as if the variable were not set. Only on libcusim.
#include "tests/sim/device.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct Case {
  const char *name, *value;
  bool named; // in a warning
} Case;

static const Case cases[] = {
    {"NNGEN_SIM_SMEM", "0", true},          {"NNGEN_SIM_SMEM", "-5", true},
    {"NNGEN_SIM_SMEM", "4294967296", true}, {"NNGEN_SIM_SMEM", "99999999999999999999", true},
    {"NNGEN_SIM_SMEM", "1 MiB", true},      {"NNGEN_SIM_SMEM", "65536", false},
    {"NNGEN_SIM_SMEM", "1048576", false},   {"NNGEN_SIM_SMEM", "", false},
    {"NNGEN_SIM_SEED", "abc", true},        {"NNGEN_SIM_SEED", "0x10", false},
    {"NNGEN_SIM_COUNT", "yes", true},       {"NNGEN_SIM_TIMEOUT", "abc", true},
    {"NNGEN_SIM_TIMEOUT", "-1", true},      {"NNGEN_SIM_TIMEOUT", "nan", true},
    {"NNGEN_SIM_TIMEOUT", "2.5", false},    {"NNGEN_SIM_STACK_KIB", "15", true},
    {"NNGEN_SIM_STACK_KIB", "128k", true},  {"NNGEN_SIM_STACK_KIB", "128", false},
    {"NNGEN_SIM_THREADS", "0", true},       {"NNGEN_SIM_THREADS", "2", false},
    {"NNGEN_SIM_REGISTERS", "0", true},     {"NNGEN_SIM_MULTIPROCESSORS", "-1", true},
    {"NNGEN_SIM_MEMORY_MIB", "-1", true},   {"NNGEN_SIM_KERNEL_REGISTERS", "many", true},
    {"NNGEN_SIM_OPTIMIZE", "4", true},      {"NNGEN_SIM_OPTIMIZE", "fast", true},
    {"NNGEN_SIM_OPTIMIZE", "0", false},     {"NNGEN_SIM_OPTIMIZE", "g", false},
    {"NNGEN_SIM_PRECOMPILED", "", false},   {"NNGEN_SIM_PRECOMPILED", "/dev/null/headers", true},
};
enum { kCases = sizeof cases / sizeof *cases };

static int run(void) {
  static const char *source = "extern \"C\" __global__ void k(float *x) {\n"
                              "  extern __shared__ float s[]; s[threadIdx.x] = 2;\n"
                              "  __syncthreads(); x[threadIdx.x] = s[31 - threadIdx.x]; }\n";
  if (!device_open()) return 96;
  CUfunction f = device_function(source, "k");
  float x[32];
  CUdeviceptr p = device_upload(NULL, sizeof x);
  OK(cuLaunchKernel(f, 40, 1, 1, 32, 1, 1, 4096, NULL, (void *[]){&p}, NULL));
  OK(cuMemcpyDtoH(x, p, sizeof x));
  for (int i = 0; i < 32; i++) assert_true(x[i] == 2);
  return 0;
}

static void test_case(void **state) {
  const Case *c = *state;
  char file[64], want[128];
  snprintf(file, sizeof file, "build/settings-%d", (int)getpid());
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    setenv(c->name, c->value, 1);
    if (!freopen(file, "w", stderr)) _exit(97);
    setvbuf(stderr, NULL, _IONBF, 0);
    _exit(run());
  }
  waitpid(pid, &status, 0);
  char *said = file_read(file);
  unlink(file);
  if (status) fail_msg("status %x: %s", status, said);
  snprintf(want, sizeof want, "libcusim: %s=%s is ignored: expected ", c->name, c->value);
  if (c->named ? strncmp(said, want, strlen(want)) != 0 : *said)
    fail_msg("%s=%s: `%s`", c->name, c->value, said);
  if (c->named) assert_ptr_equal(strchr(said, '\n'), strrchr(said, '\n')); // one line
  free(said);
}

int main(void) {
  struct CMUnitTest tests[kCases];
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  for (int i = 0; i < kCases; i++)
    tests[i] = (struct CMUnitTest){cases[i].name, test_case, NULL, NULL, (void *)&cases[i]};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
