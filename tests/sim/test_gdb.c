// test_gdb.c: gdb stops at a line of a kernel, shows its variables and which CUDA thread runs, and
// steps. Runs itself under gdb; skipped where there is none. Only on libcusim.
#include "tests/sim/device.h"

#include <unistd.h>

static const char *source = "__device__ int twice(int v) {\n"
                            "  return 2 * v;\n" // line 2
                            "}\n"
                            "extern \"C\" __global__ void stepped(int *out, int n) {\n"
                            "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                            "  int value = twice(i + n);\n" // line 6
                            "  out[i] = value;\n"           // line 7
                            "}\n";

static int run_kernel(void) {
  if (!device_open()) return 3;
  nvrtcProgram program;
  size_t bytes;
  const char *options[] = {"-G"};
  if (nvrtcCreateProgram(&program, source, "stepped.cu", 0, NULL, NULL) ||
      nvrtcCompileProgram(program, 1, options) || nvrtcGetCUBINSize(program, &bytes))
    return 4;
  char *image = malloc(bytes);
  CUmodule module;
  CUfunction f;
  CUdeviceptr p;
  int n = 5;
  if (nvrtcGetCUBIN(program, image) || cuModuleLoadData(&module, image) ||
      cuModuleGetFunction(&f, module, "stepped") || cuMemAlloc(&p, 256))
    return 5;
  return device_run(f, 2, 32, 0, (void *[]){&p, &n}) ? 6 : 0;
}

static void test_stepping(void **state) {
  CXX_ONLY("PTX has no names of local variables");
  char command[2048];
  snprintf(command, sizeof command,
           "NNGEN_SIM_THREADS=1 gdb -nx -batch -ex 'set breakpoint pending on' "
           "-ex 'set debuginfod enabled off' "
           "-ex 'break stepped.cu:6 if i == 35' -ex run -ex 'print i' -ex 'print n' "
           "-ex 'print cusim_self->block' -ex 'print cusim_self->thread' -ex step -ex step "
           "-ex 'info locals' -ex finish -ex backtrace -ex delete -ex continue "
           "--args %s inner 2>&1 </dev/null",
           (const char *)*state);
  FILE *gdb = popen(command, "r");
  assert_non_null(gdb);
  static char text[1 << 16];
  size_t length = fread(text, 1, sizeof text - 1, gdb);
  text[length] = 0;
  pclose(gdb);
  const char *const wanted[] = {"stepped.cu:6",      "= 35",        "= 5",
                                "= {1, 0, 0}",       "= {3, 0, 0}", "twice (v=40) at stepped.cu:2",
                                "Value returned is", "= 80",        "exited normally"};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    if (!strstr(text, wanted[i])) fail_msg("`%s` is not in: %s", wanted[i], text);
}

int main(int argc, char **argv) {
  if (argc > 1) return run_kernel();
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  if (system("gdb -nx -batch -ex 'run' --args true >/dev/null 2>&1"))
    return printf("1..0 # SKIP gdb is not installed, or may not trace\n"), 0;
  const struct CMUnitTest tests[] = {
      {"gdb steps through a kernel", test_stepping, NULL, NULL, argv[0]}};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
