// test_find.c: the search for libraries, with copies of a small one under NVRTC's name (the search
// looks at names, not into them), and what `nngen doctor` learns.
#include <dlfcn.h>

#include "runtime/support.h"

// A folder of the temporary one that holds `name`, a copy of the cmocka this test runs with.
static const char *plant(const char *folder, const char *name) {
  char command[1200];
  Dl_info cmocka;
  assert_true(dladdr(dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"), &cmocka));
  snprintf(command, sizeof command, "mkdir -p %s && cp %s %s/%s", temp_path(folder),
           cmocka.dli_fname, temp_path(folder), name);
  assert_int_equal(system(command), 0);
  return temp_path(folder);
}

static FoundLibrary find(FindKind kind, const char *cuda_path, int newest) {
  FoundLibrary found;
  void *library = find_library(kind, cuda_path, newest, &found);
  if (library) dlclose(library);
  return found;
}

static void expect(FoundLibrary found, const char *how, const char *folder, const char *name) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_string_equal(found.how, how);
  assert_string_equal(found.path, path);
  find_free(&found);
}

static void named_path_comes_first(void **state) {
  (void)state;
  const char *lib64 = plant("a/lib64", "libnvrtc.so.13"), *flat = plant("b", "libnvrtc.so.13");
  char top[256];
  snprintf(top, sizeof top, "%s", temp_path("a"));
  setenv("NNGEN_CUDA_PATH", top, 1);
  expect(find(FindNvrtc, NULL, 0), "NNGEN_CUDA_PATH", lib64, "libnvrtc.so.13");
  expect(find(FindNvrtc, flat, 0), "--cuda-path", flat, "libnvrtc.so.13");
  unsetenv("NNGEN_CUDA_PATH");
}

// A driver for CUDA 12 cannot run what NVRTC 13 makes: only the older one may be taken.
static void older_toolkit(void **state) {
  (void)state;
  char top[256];
  snprintf(top, sizeof top, "%s", plant("c/lib", "libnvrtc.so.13"));
  *strrchr(top, '/') = 0;
  FoundLibrary found = find(FindNvrtc, top, 1);
  assert_true(!found.path || !strstr(found.path, "/c/lib/"));
  find_free(&found);
  const char *folder = plant("c/lib", "libnvrtc.so.12");
  expect(find(FindNvrtc, top, 1), "--cuda-path", folder, "libnvrtc.so.12");
}

// Each place is found by its own variable, on a machine that has no NVRTC 12 of its own.
static void every_place(void **state) {
  (void)state;
  static const struct {
    const char *variable, *folder;
    int up; // how many folders above it the variable points
  } places[] = {{"CONDA_PREFIX", "conda/lib", 1},
                {"CUDA_PATH", "path/targets/x86_64-linux/lib", 3},
                {"CUDA_HOME", "home/lib64", 1},
                {"VIRTUAL_ENV", "venv/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib", 6}};
  char *saved = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
  FoundLibrary found = find(FindNvrtc, NULL, 1);
  bool has_own = found.path != NULL;
  find_free(&found);
  if (has_own) skip();
  for (int i = 0; i < COUNT(places); i++) {
    char folder[300], top[300];
    snprintf(folder, sizeof folder, "%s", plant(places[i].folder, "libnvrtc.so.12"));
    snprintf(top, sizeof top, "%s", folder);
    for (int k = 0; k < places[i].up; k++) *strrchr(top, '/') = 0;
    setenv(places[i].variable, top, 1);
    expect(find(FindNvrtc, NULL, 1), places[i].variable, folder, "libnvrtc.so.12");
    unsetenv(places[i].variable);
  }
  char folder[300];
  snprintf(
      folder, sizeof folder, "%s",
      plant("user/.local/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib", "libnvrtc.so.12"));
  setenv("HOME", temp_path("user"), 1);
  expect(find(FindNvrtc, NULL, 1), "~/.local", folder, "libnvrtc.so.12");
  if (saved) setenv("HOME", saved, 1);
  free(saved);
}

static void stubs_and_rubbish(void **state) {
  (void)state;
  const char *stubs = plant("d/stubs", "libnvrtc.so.13");
  FoundLibrary found = find(FindNvrtc, stubs, 0);
  assert_true(!found.path || !strstr(found.path, "/stubs/"));
  assert_string_equal(found.searched[0], stubs);
  find_free(&found);
  const char *rubbish = plant("e", "libcublas.so.13");
  write_bytes(temp_path("e/libcublas.so.13"), "not ELF at all", 14);
  found = find(FindCublas, rubbish, 0); // goes on behind it
  assert_true(!found.path || !strstr(found.path, "/e/"));
  if (!found.path) assert_non_null(strstr(found.note, "cannot be loaded: "));
  find_free(&found);
}

static void simulator(void **state) {
  (void)state;
  FoundLibrary found = find(FindSim, NULL, 0);
  assert_string_equal(found.how, "NNGEN_SIM");
  find_free(&found);
  char *sim = strdup(getenv("NNGEN_SIM"));
  setenv("NNGEN_SIM", "", 1); // empty is not set
  found = find(FindSim, NULL, 0);
  assert_true(!found.path || strcmp(found.how, "NNGEN_SIM"));
  find_free(&found);
  setenv("NNGEN_SIM", sim, 1);
  free(sim);
}

static void doctor(void **state) {
  (void)state;
  FindReport report;
  setenv("NNGEN_CACHE_DIR", "/somewhere", 1);
  find_report(NULL, &report);
  assert_int_equal(report.nlibraries, FindCount);
  assert_string_equal(report.cache_dir, "/somewhere");
  for (int i = 0; i < report.nlibraries; i++) {
    const FoundLibrary *found = &report.libraries[i];
    assert_true(found->role && found->version && found->how && found->note);
    assert_true(found->nsearched > 0 || found->path);
    if (!found->path) assert_true(found->note[0]);
  }
  assert_string_equal(report.libraries[FindSim].role, "libcusim");
  assert_string_equal(report.libraries[FindSim].note, "1 device");
  assert_true(atof(report.libraries[FindSim].version) >= 12);
  find_report_free(&report);
  unsetenv("NNGEN_CACHE_DIR");
}

static void host_of_the_simulator(void **state) {
  (void)state;
  char path[600], one[64], other[64];
  host_identity(one, sizeof one);
  setenv("NNGEN_SIM_CHECK", "race", 1); // other checks, other code
  host_identity(other, sizeof other);
  assert_string_not_equal(one, other);
  unsetenv("NNGEN_SIM_CHECK");
  host_identity(other, sizeof other);
  assert_string_equal(one, other);
  assert_true(host_compiler(path, sizeof path) && *path == '/');
  setenv("NNGEN_CXX", "/nonexistent/c++", 1); // the user's choice is not passed over
  assert_false(host_compiler(path, sizeof path));
  Error err = {0};
  Loaded *loaded;
  Device *device = open_device();
  Plan *plan = small_plan();
  JitOptions jit = {.cache_dir = ""};
  if (device_info(device)->kind == DeviceSim) {
    assert_int_equal(load_plan(device, plan, &jit, &loaded, &err), ExitNoToolchain);
    assert_string_equal(err.message,
                        "the simulator compiles kernels with a C++ compiler, and there "
                        "is none; install one: apt-get install g++");
  }
  plan_free(plan);
  device_close(device);
  unsetenv("NNGEN_CXX");
}

static int prepare(void **state) {
  (void)state;
  device_options(); // sets NNGEN_SIM
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(named_path_comes_first),
      cmocka_unit_test(older_toolkit),
      cmocka_unit_test(every_place),
      cmocka_unit_test(stubs_and_rubbish),
      cmocka_unit_test(simulator),
      cmocka_unit_test(doctor),
      cmocka_unit_test(host_of_the_simulator),
  };
  return cmocka_run_group_tests(tests, prepare, temp_clean);
}
