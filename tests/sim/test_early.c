// test_early.c: programmatic dependent launch: a kernel that may begin before the one ahead of it
// has ended does so under a seed; one that does not wait is a race, and reads what is not there
// yet.
#include "tests/sim/device.h"

#define PTX(name, what)                                                                            \
  ".version 8.5\n.target sm_90a\n.address_size 64\n.visible .entry " name                          \
  "(.param .u64 x, .param .u64 y)\n{\n"                                                            \
  ".reg .b32 %r<5>;\n.reg .b64 %d<8>;\nld.param.u64 %d1, [x];\nld.param.u64 %d2, [y];\nmov.u32 "   \
  "%r1, %tid.x;\n"                                                                                 \
  "mov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r1, %r2, 64, %r1;\nmul.wide.u32 %d3, %r1, 4;\n"             \
  "add.u64 %d4, %d1, %d3;\nadd.u64 %d5, %d2, %d3;\n" what "ret;\n}\n"

static const char
    first[] =
        PTX("first",
            "griddepcontrol.launch_dependents;\nadd.u32 %r3, %r1, 7;\nst.global.u32 [%d4], %r3;\n"),
    quiet[] = PTX("first", "add.u32 %r3, %r1, 7;\nst.global.u32 [%d4], %r3;\n"),
    waits[] = PTX("second",
                  "griddepcontrol.wait;\nld.global.u32 %r3, [%d4];\nst.global.u32 [%d5], %r3;\n"),
    hurries[] = PTX("second", "ld.global.u32 %r3, [%d4];\nst.global.u32 [%d5], %r3;\n"),
    late[] = PTX("second",
                 "ld.global.u32 %r3, [%d4];\ngriddepcontrol.wait;\nst.global.u32 [%d5], %r3;\n");

// The same in C++, by nngen's primitives.
#define CXX(name, what)                                                                            \
  "#include \"lib/prim.cuh\"\nextern \"C\" __global__ void " name                                   \
  "(unsigned *x, unsigned *y) {\n  unsigned i = 64 * blockIdx.x + threadIdx.x;\n  " what "\n}\n"
static const char first_cxx[] = CXX("first", "nn_launch_dependents(); x[i] = i + 7;"),
                  quiet_cxx[] = CXX("first", "x[i] = i + 7;"),
                  waits_cxx[] = CXX("second", "nn_wait_before(); y[i] = x[i];"),
                  hurries_cxx[] = CXX("second", "y[i] = x[i];");

typedef struct Case {
  const char *name, *first, *second, *checks, *seed;
  bool attribute, right;
  const char *report;
} Case;

static const Case cases[] = {
    {"waits, in order", first, waits, "all", "0", true, true, NULL},
    {"waits", first, waits, "race,address", "1", true, true, NULL},
    {"waits, another order", first, waits, "all", "2", true, true, NULL},
    {"waits, as it is by default", first, waits, "basic", "3", true, true, NULL},
    {"no wait, in order", first, hurries, "basic", "0", true, true, NULL},
    {"no wait", first, hurries, "basic", "1", true, false, NULL},
    {"no wait, seen as a race", first, hurries, "race", "1", true, false, "race on global memory"},
    {"a wait that comes too late", first, late, "race", "2", true, false, "race on global memory"},
    {"no wait, without the attribute", first, hurries, "race", "1", false, true, NULL},
    {"C++ waits", first_cxx, waits_cxx, "race", "1", true, true, NULL},
    {"C++, no wait", first_cxx, hurries_cxx, "race", "1", true, false, "race on global memory"},
    {"C++, no wait, behind one that lets nothing begin", quiet_cxx, hurries_cxx, "race", "1", true,
     true, NULL},
    {"no wait, behind a kernel that lets nothing begin", quiet, hurries, "race", "1", true, true,
     NULL},
};

static void set(const void *user) {
  const Case *c = user;
  setenv("NNGEN_SIM_CHECK", c->checks, 1);
  setenv("NNGEN_SIM_SEED", c->seed, 1);
}

static CUfunction load(const char *text, const char *name) {
  CUmodule module;
  CUfunction f;
  if (*text == '#') return device_function(text, name);
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&f, module, name));
  return f;
}

static void run(const void *user) {
  const Case *c = user;
  enum { kCount = 256 };
  unsigned zeros[kCount] = {0}, got[kCount];
  CUfunction a = load(c->first, "first"), b = load(c->second, "second");
  CUdeviceptr x = device_upload(zeros, sizeof zeros), y = device_upload(zeros, sizeof zeros);
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = c->attribute};
  CUlaunchConfig config = {.gridDimX = 4,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = 64,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .attrs = &attribute,
                           .numAttrs = 1};
  CUresult (*launch)(const CUlaunchConfig *, CUfunction, void **, void **);
  *(void **)&launch = dlsym(sim_open(), "cuLaunchKernelEx");
  assert_non_null(freopen("build/early", "w", stderr));
  OK(cuLaunchKernel(a, 4, 1, 1, 64, 1, 1, 0, NULL, (void *[]){&x, &y}, NULL));
  OK(launch(&config, b, (void *[]){&x, &y}, NULL));
  CUresult r = cuCtxSynchronize();
  fflush(stderr);
  char *said = file_read("build/early");
  bool right = r == CUDA_SUCCESS && cuMemcpyDtoH(got, y, sizeof got) == CUDA_SUCCESS;
  for (unsigned i = 0; right && i < kCount; i++) right = got[i] == i + 7;
  bool reported = c->report ? strstr(said, c->report) != NULL : !*said;
  if (right != c->right || !reported)
    printf("# %s: %d, %d: %s\n", c->name, r, right, said), fflush(stdout), _exit(1);
}

static void test_cases(void **state) {
  (void)state;
  int faults = 0, right = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    device_child(set, run, &cases[i]);
    *(cases[i].right ? &right : &faults) += 1;
  }
  printf("# %d planted faults are caught, %d right texts run\n", faults, right);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
  return cmocka_run_group_tests_name("test_early", tests, NULL, NULL);
}
