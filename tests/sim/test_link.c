// test_link.c: cuLink*: two modules of PTX that name each other's functions and variables become
// one; what cannot be linked is refused with its line.
#include "tests/sim/device.h"

#include "sim/graph_nodes.h"

#define HEAD ".version 8.5\n.target sm_80\n.address_size 64\n"
static const char caller[] = HEAD
    ".extern .func (.param .b32 r) twice(.param .b32 n);\n.extern .global .u32 added;\n"
    ".visible .entry k(.param .u64 x)\n{\n.reg .b32 %r<5>;\n.reg .b64 %d<4>;\n"
    "ld.param.u64 %d1, [x];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d2, %r1, 4;\nadd.u64 %d3, %d1, "
    "%d2;\n"
    "{ .param .b32 n; .param .b32 r; st.param.b32 [n], %r1; call.uni (r), twice, (n); ld.param.b32 "
    "%r2, [r]; }\n"
    "ld.global.u32 %r3, [added];\nadd.u32 %r2, %r2, %r3;\nst.global.u32 [%d3], %r2;\nret;\n}\n";
static const char callee[] = HEAD
    ".visible .global .u32 added = 5;\n.visible .func (.param .b32 r) twice(.param .b32 n)\n{\n"
    ".reg .b32 %r<3>;\nld.param.b32 %r1, [n];\nadd.u32 %r2, %r1, %r1;\nst.param.b32 [r], "
    "%r2;\nret;\n}\n";

enum { kPtx = 1 };

static struct {
  CUresult (*create)(unsigned, CUjit_option *, void **, CUlinkState *);
  CUresult (*add)(CUlinkState, int, void *, size_t, const char *, unsigned, CUjit_option *,
                  void **);
  CUresult (*add_file)(CUlinkState, int, const char *, unsigned, CUjit_option *, void **);
  CUresult (*complete)(CUlinkState, void **, size_t *);
  CUresult (*destroy)(CUlinkState);
} link_api;

static int setup(void **state) {
  if (device_setup(state)) return -1;
  void *sim = sim_open();
  *(void **)&link_api.create = dlsym(sim, "cuLinkCreate_v2");
  *(void **)&link_api.add = dlsym(sim, "cuLinkAddData_v2");
  *(void **)&link_api.add_file = dlsym(sim, "cuLinkAddFile_v2");
  *(void **)&link_api.complete = dlsym(sim, "cuLinkComplete");
  *(void **)&link_api.destroy = dlsym(sim, "cuLinkDestroy");
  return 0;
}

static void run(void *image) {
  CUmodule module;
  CUfunction f;
  unsigned got[32];
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr x = device_upload(NULL, sizeof got);
  OK(device_run(f, 1, 32, 0, (void *[]){&x}));
  OK(cuMemcpyDtoH(got, x, sizeof got));
  for (unsigned i = 0; i < 32; i++) assert_int_equal(got[i], 2 * i + 5);
  OK(cuModuleUnload(module));
}

// In either order; the second time one of the two comes from a file.
static void test_two(void **state) {
  (void)state;
  for (int turn = 0; turn < 2; turn++) {
    CUlinkState link;
    void *image;
    size_t bytes;
    OK(link_api.create(0, NULL, NULL, &link));
    if (turn) {
      FILE *file = fopen("build/link.ptx", "w");
      fputs(callee, file);
      fclose(file);
      OK(link_api.add_file(link, kPtx, "build/link.ptx", 0, NULL, NULL));
    }
    OK(link_api.add(link, kPtx, (void *)caller, sizeof caller, "caller", 0, NULL, NULL));
    if (!turn) OK(link_api.add(link, kPtx, (void *)callee, sizeof callee, "callee", 0, NULL, NULL));
    OK(link_api.complete(link, &image, &bytes));
    assert_true(bytes > 0);
    run(image);
    OK(link_api.destroy(link));
    assert_int_equal(link_api.destroy(link), CUDA_ERROR_INVALID_VALUE);
  }
}

// ---- who sees what ------------------------------------------------------------------------------

// A function that gives n and a variable that holds it.
#define PIECE(linkage, n)                                                                          \
  HEAD linkage " .global .u32 g = " n ";\n" linkage " .func (.param .b32 r) f()\n{\n"              \
  ".reg .b32 %r<2>;\nmov.u32 %r1, " n ";\nst.param.b32 [r], %r1;\nret;\n}\n"
#define USER(name)                                                                                 \
  "\n.visible .entry " name "(.param .u64 x)\n{\n.reg .b32 %r<5>;\n.reg .b64 %d<2>;\n"             \
  "ld.param.u64 %d1, [x];\n{ .param .b32 r; call (r), f, (); ld.param.b32 %r1, [r]; }\n"           \
  "ld.global.u32 %r2, [g];\nmul.lo.u32 %r3, %r1, 10;\nadd.u32 %r3, %r3, %r2;\n"                   \
  "st.global.u32 [%d1], %r3;\nret;\n}\n"

static const char names_both[] =
    HEAD ".extern .global .u32 g;\n.extern .func (.param .b32 r) f();\n" USER("k");
static const char strong[] = PIECE(".visible", "1"), weak[] = PIECE(".weak", "2"),
                  weak_too[] = PIECE(".weak", "3"), own[] = PIECE("", "4") USER("own");

typedef struct Seen {
  const char *pieces[4];
  unsigned want, own; // 10 times what f gives, and g; of the piece with its own
} Seen;

static const Seen seen[] = {
    {{names_both, strong, weak}, 11, 0}, {{names_both, weak, strong}, 11, 0},
    {{weak, names_both, strong}, 11, 0}, {{names_both, weak, weak_too}, 22, 0},
    {{names_both, weak}, 22, 0},         {{names_both, strong, own}, 11, 44},
    {{own, names_both, strong}, 11, 44}, {{own, weak, names_both, weak_too}, 22, 44},
};

static unsigned give(CUmodule module, const char *kernel) {
  CUfunction f;
  unsigned got = 0;
  CUdeviceptr x = device_upload(NULL, sizeof got);
  OK(cuModuleGetFunction(&f, module, kernel));
  OK(device_run(f, 1, 1, 0, (void *[]){&x}));
  OK(cuMemcpyDtoH(&got, x, sizeof got));
  return got;
}

// What is weak gives way to what is not, and to what came before it; what no other piece sees is
// beside others of its name.
static void test_seen(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
    CUlinkState link;
    CUmodule module;
    void *image;
    size_t bytes;
    OK(link_api.create(0, NULL, NULL, &link));
    for (int k = 0; k < 4 && seen[i].pieces[k]; k++)
      OK(link_api.add(link, kPtx, (void *)seen[i].pieces[k], strlen(seen[i].pieces[k]) + 1, "", 0,
                      NULL, NULL));
    OK(link_api.complete(link, &image, &bytes));
    OK(cuModuleLoadData(&module, image));
    assert_int_equal(give(module, "k"), seen[i].want);
    if (seen[i].own) assert_int_equal(give(module, "own"), seen[i].own);
    OK(cuModuleUnload(module));
    OK(link_api.destroy(link));
  }
}

static void test_refused(void **state) {
  (void)state;
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)sizeof log}, *image;
  CUlinkState link;
  OK(link_api.create(2, options, values, &link));
  assert_int_equal(link_api.add(link, kPtx, HEAD ".entry k(", 60, NULL, 0, NULL, NULL),
                   CUDA_ERROR_INVALID_PTX);
  assert_non_null(strstr(log, "input 1: ptx, line 4"));
  OK(link_api.add(link, kPtx, (void *)caller, sizeof caller, NULL, 0, NULL, NULL));
  assert_int_equal(link_api.complete(link, &image, NULL), CUDA_ERROR_INVALID_PTX);
  assert_non_null(strstr(log, "input 2: ptx, line 5"));
  assert_non_null(strstr(log, "declared and not defined"));
  assert_int_equal(link_api.add_file(link, kPtx, "build/none", 0, NULL, NULL),
                   CUDA_ERROR_FILE_NOT_FOUND);
  assert_int_equal(link_api.add(link, 0, "x", 2, NULL, 0, NULL, NULL), 801); // machine code
  assert_int_equal(link_api.add(link, 3, "x", 2, NULL, 0, NULL, NULL), CUDA_ERROR_INVALID_IMAGE);
  OK(link_api.destroy(link));
}

// An input's name and its own line, though others stand before it.
static void test_names(void **state) {
  (void)state;
  static const char twice[] = HEAD ".visible .global .u32 added;\n";
  char log[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)sizeof log}, *image;
  CUlinkState link;
  OK(link_api.create(2, options, values, &link));
  assert_int_equal(link_api.add(link, kPtx, HEAD ".entry k(", 60, "cut", 0, NULL, NULL),
                   CUDA_ERROR_INVALID_PTX);
  assert_non_null(strstr(log, "cut: ptx, line 4"));
  OK(link_api.add(link, kPtx, (void *)caller, sizeof caller, "caller", 0, NULL, NULL));
  OK(link_api.destroy(link));
  OK(link_api.create(2, options, values, &link));
  OK(link_api.add(link, kPtx, (void *)callee, sizeof callee, "callee", 0, NULL, NULL));
  OK(link_api.add(link, kPtx, (void *)twice, sizeof twice, "second", 0, NULL, NULL));
  assert_int_equal(link_api.complete(link, &image, NULL), CUDA_ERROR_INVALID_PTX);
  assert_non_null(strstr(log, "second: ptx, line 4: error: added is defined twice"));
  OK(link_api.destroy(link));
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_two), cmocka_unit_test(test_refused),
                                      cmocka_unit_test(test_names), cmocka_unit_test(test_seen)};
  return cmocka_run_group_tests_name("test_link", tests, setup, NULL);
}
