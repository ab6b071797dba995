// test_jit.c: kernels compiled with NVRTC for architectures that need not be present, the cache
// around it, the log of a kernel that does not compile, and the search for the library.
// Skipped where there is no NVRTC.
#include <dlfcn.h>

#include "runtime/support.h"

static bool has_nvrtc;
static char warning[2048];

static void on_log(void *user, LogLevel level, const char *message) {
  (void)user;
  if (level == LogWarning) snprintf(warning, sizeof warning, "%s", message);
}

static JitOptions options_for(const char *arch) {
  return (JitOptions){.arch = arch, .cache_dir = temp_path("cache"), .log = {on_log, NULL}};
}

#define NEED_NVRTC()                                                                               \
  if (!has_nvrtc) skip()

// ---- without NVRTC -----------------------------------------------------------------------------

static const char kLog[] = "ptxas info    : 0 bytes gmem\n"
                           "ptxas info    : Compiling entry function 'k1' for 'sm_90a'\n"
                           "ptxas info    : Function properties for k1\n"
                           "    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
                           "ptxas info    : Used 32 registers, used 1 barriers, 16 bytes stack, "
                           "1024 bytes smem, 380 bytes "
                           "cmem[0]\n"
                           "ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async "
                           "instructions are serialized due to a reason in the function 'k2'\n"
                           "ptxas info    : Compiling entry function 'k2' for 'sm_90a'\n"
                           "ptxas info    : Function properties for k2\n"
                           "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                           "ptxas info    : Used 8 registers, used 0 barriers, 380 bytes cmem[0]\n";

static void assembler_log(void **state) {
  (void)state;
  KernelReport report = {0};
  ptxas_parse(kLog, "k1", &report);
  assert_true(report.registers == 32 && report.spill_bytes == 20 && report.stack_bytes == 16 &&
              report.smem_static == 1024 && !report.serialized);
  ptxas_parse(kLog, "k2", &report);
  assert_true(report.registers == 8 && report.spill_bytes == 0 && report.smem_static == 0);
  assert_true(report.serialized);
  ptxas_parse(kLog, "k", &report); // not a part of a name
  assert_int_equal(report.registers, -1);
  ptxas_parse("", "k1", &report);
  assert_int_equal(report.registers, -1);
}

static void canonical(void **state) {
  (void)state;
  static const char *const pairs[][2] = {
      {"// c\n#line 3 \"m.lua\"\nint a; // kept\n\n  // d\nint b;", "int a; // kept\nint b;\n"},
      {"// c \\\nint a;\nint b;\n", "// c \\\nint a;\nint b;\n"}, // the comment goes on
      {"#define M \\\n// x\n 1\n", "#define M \\\n// x\n 1\n"},
      {"// c\nint a = __LINE__;\n", "// c\nint a = __LINE__;\n"},
      {"auto s = R\"(\n// c\n)\";\n", "auto s = R\"(\n// c\n)\";\n"},
      {"", ""},
  };
  for (int i = 0; i < COUNT(pairs); i++) {
    char *text = source_canonical(pairs[i][0]);
    assert_string_equal(text, pairs[i][1]);
    free(text);
  }
}

static void no_library(void **state) {
  (void)state;
  FoundLibrary found;
  setenv("CUDA_PATH", temp_path("nowhere"), 1);
  setenv("NNGEN_SIM", temp_path("nowhere"), 1);
  void *library = find_library(FindSim, NULL, 3, &found); // past the last name: nothing fits
  char text[2000];
  find_describe(&found, text, sizeof text);
  assert_null(library);
  assert_non_null(strstr(text, "libcusim: cannot be loaded: "));
  assert_true(found.nsearched >= 2);
  find_free(&found);
  unsetenv("CUDA_PATH");
  unsetenv("NNGEN_SIM");
}

// A driver of the toolkit's stub folder must not be taken for one.
static void stub_driver(void **state) {
  (void)state;
  FoundLibrary found;
  void *library = find_library(FindDriver, NULL, 0, &found);
  if (library) assert_null(strstr(found.path, "/stubs/"));
  if (library) dlclose(library);
  find_free(&found);
}

// ---- with NVRTC --------------------------------------------------------------------------------

static void compiles_and_caches(void **state) {
  (void)state;
  NEED_NVRTC();
  static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
  Plan *plan = small_plan();
  for (int i = 0; i < COUNT(archs); i++) {
    JitOptions options = options_for(archs[i]);
    for (int again = 0; again < 2; again++) {
      Error err = {0};
      JitReport report;
      int rc = jit_compile(plan, &options, &report, &err);
      if (rc == ExitNoToolchain) skip(); // an older NVRTC
      assert_int_equal(rc, ExitOk);
      assert_int_equal(again ? report.cached : report.compiled, 3);
      assert_true(report.kernels[1].registers > 0 && report.kernels[1].registers < 64);
      assert_int_equal(report.kernels[1].spill_bytes, 0);
      assert_true(report.kernels[1].image_bytes > 500);
      jit_report_free(&report);
    }
  }
  plan_free(plan);
}

// What must and what must not ask for a new compilation.
static void keys(void **state) {
  (void)state;
  NEED_NVRTC();
  Plan *plan = small_plan();
  JitOptions options = options_for("sm_80");
  Error err = {0};
  JitReport report;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  jit_report_free(&report);
  char *commented = heap_format("// another line\n%s", plan->kernels[0].source);
  free(plan->kernels[0].source);
  plan->kernels[0].source = commented;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  assert_int_equal(report.compiled, 0);
  jit_report_free(&report);
  plan->headers[0].text[strlen(plan->headers[0].text) - 1] = ' ';
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  assert_int_equal(report.compiled, 3);
  jit_report_free(&report);
  options.line_info = true;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  assert_int_equal(report.compiled, 3);
  jit_report_free(&report);
  plan_free(plan);
}

static void twins(void **state) {
  (void)state;
  NEED_NVRTC();
  Plan *plan = small_plan();
  for (int i = 0; i < 3; i++) {
    char **fields[] = {&plan->kernels[1].name, &plan->kernels[1].file, &plan->kernels[1].source};
    char *const first[] = {plan->kernels[0].name, plan->kernels[0].file, plan->kernels[0].source};
    free(*fields[i]);
    *fields[i] = strdup(first[i]);
  }
  JitOptions options = options_for("sm_80");
  options.cache_dir = "";
  Error err = {0};
  JitReport report;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  assert_true(report.compiled == 2 && report.shared == 1 && report.kernels[1].shared);
  assert_int_equal(report.kernels[1].registers, report.kernels[0].registers);
  jit_report_free(&report);
  plan_free(plan);
}

static void failing_kernel(void **state) {
  (void)state;
  NEED_NVRTC();
  Plan *plan = small_plan();
  free(plan->kernels[1].source);
  plan->kernels[1].source = strdup("#line 12 \"templates/map.cu\"\n__device__ int x = nonsense;\n");
  for (int dumped = 0; dumped < 3; dumped++) {
    JitOptions options = options_for("sm_80");
    Error err = {0};
    JitReport report;
    size_t size;
    char kept[600];
    if (dumped == 1) options.dump_dir = temp_path("dump");
    if (dumped == 2) options.cache_dir = "";
    assert_int_equal(jit_compile(plan, &options, &report, &err), ExitMismatch);
    static const char begin[] =
        "kernel small__add (small.lua:2) does not compile for sm_80: NVRTC_ERROR_COMPILATION\n"
        "templates/map.cu(12): error: identifier \"nonsense\" is undefined";
    if (strncmp(err.message, begin, sizeof begin - 1)) fail_msg("%s", err.message);
    const char *where = strstr(err.message, "its source is kept in '");
    assert_non_null(where);
    assert_int_equal(sscanf(where, "its source is kept in '%599[^']", kept), 1);
    char *source = read_bytes(kept, &size);
    assert_string_equal(source, plan->kernels[1].source);
    free(source);
    if (dumped == 2) unlink(kept);
  }
  plan_free(plan);
}

static void dumps(void **state) {
  (void)state;
  NEED_NVRTC();
  Plan *plan = small_plan();
  JitOptions options = options_for("sm_80");
  options.dump_dir = temp_path("dumped");
  Error err = {0};
  JitReport report;
  size_t size;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  jit_report_free(&report);
  char *source = read_bytes(temp_path("dumped/small__add.cu"), &size);
  assert_string_equal(source, plan->kernels[1].source);
  free(source);
  char *image = read_bytes(temp_path("dumped/small__add.cubin"), &size);
  assert_memory_equal(image, "\177ELF", 4);
  free(image);
  plan_free(plan);
}

static void unknown_arch(void **state) {
  (void)state;
  NEED_NVRTC();
  Plan *plan = small_plan();
  JitOptions options = options_for("sm_10");
  Error err = {0};
  JitReport report;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitNoToolchain);
  assert_non_null(strstr(err.message, "does not know sm_10; it knows sm_"));
  plan_free(plan);
}

// A file damaged between two runs is compiled again, with a warning.
static void damaged_entry(void **state) {
  (void)state;
  NEED_NVRTC();
  Plan *plan = small_plan();
  JitOptions options = options_for("sm_80");
  options.cache_dir = temp_path("damaged");
  Error err = {0};
  JitReport report;
  CacheList list;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  jit_report_free(&report);
  assert_int_equal(cache_list(options.cache_dir, &list, &err), ExitOk);
  assert_int_equal(list.nentries, 3);
  char path[400];
  snprintf(path, sizeof path, "%s/%s", list.dir, list.entries[1].name);
  cache_list_free(&list);
  assert_int_equal(truncate(path, 300), 0);
  warning[0] = 0;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  assert_true(report.compiled == 1 && report.cached == 2);
  assert_non_null(strstr(warning, "is truncated: it is compiled again"));
  jit_report_free(&report);
  plan_free(plan);
}

// Found by path alone, without the loader's help, NVRTC must still find its builtins.
static void builtins(void **state) {
  (void)state;
  NEED_NVRTC();
  FoundLibrary found;
  void *library = find_library(FindNvrtc, NULL, 0, &found);
  char folder[600];
  snprintf(folder, sizeof folder, "%s", found.path);
  *strrchr(folder, '/') = 0;
  find_free(&found);
  dlclose(library);
  Plan *plan = small_plan();
  JitOptions options = options_for("sm_80");
  options.cuda_path = folder;
  options.cache_dir = "";
  Error err = {0};
  JitReport report;
  assert_int_equal(jit_compile(plan, &options, &report, &err), ExitOk);
  jit_report_free(&report);
  plan_free(plan);
}

static void no_memory(void **state) {
  (void)state;
  NEED_NVRTC();
  Plan *plan = small_plan();
  JitOptions options = options_for("sm_80");
  JitReport report;
  int failed = 0;
  for (int n = 0; n < 80; n++) { // some failures are survived: no memory for the cache, no cache
    Error err = {0};
    options.threads = 1;
    heap_fail_after(n);
    int rc = jit_compile(plan, &options, &report, &err);
    heap_fail_after(-1);
    assert_true(!rc || err.message[0]);
    failed += rc != 0;
    jit_report_free(&report);
  }
  assert_in_range(failed, 10, 60);
  plan_free(plan);
}

static int prepare(void **state) {
  (void)state;
  Error err = {0};
  Toolkit toolkit;
  has_nvrtc = !toolkit_open(NULL, 0, &toolkit, &err);
  if (has_nvrtc)
    toolkit_close(&toolkit);
  else
    fprintf(stderr, "%s\n", err.message);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(assembler_log),
      cmocka_unit_test(canonical),
      cmocka_unit_test(no_library),
      cmocka_unit_test(stub_driver),
      cmocka_unit_test(compiles_and_caches),
      cmocka_unit_test(keys),
      cmocka_unit_test(twins),
      cmocka_unit_test(failing_kernel),
      cmocka_unit_test(dumps),
      cmocka_unit_test(unknown_arch),
      cmocka_unit_test(damaged_entry),
      cmocka_unit_test(builtins),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, prepare, temp_clean);
}
