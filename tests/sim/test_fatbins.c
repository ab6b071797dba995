// test_fatbins.c FOLDER: loads the fat binaries that test_fatbin.sh had nvcc make. Alone it skips.
#include "tests/sim/device.h"

#include "sim/graph_nodes.h"

static const char *folder;
static char log_text[512];

static CUresult load(const char *name, CUmodule *module, size_t cut) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  char *bytes = calloc(1 << 20, 1);
  size_t length = fread(bytes, 1, 1 << 20, f);
  fclose(f);
  if (cut && cut < length) memset(bytes + cut, 0, length - cut);
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log_text, (void *)sizeof log_text};
  CUresult r = cuModuleLoadDataEx(module, bytes, 2, options, values);
  free(bytes);
  return r;
}

static void test_run(void **state) {
  (void)state;
  const char *names[] = {"zstd", "plain", "speed"};
  for (int i = 0; i < 3; i++) {
    CUmodule module;
    CUfunction f;
    int x[32];
    OK(load(names[i], &module, 0));
    OK(cuModuleGetFunction(&f, module, "k"));
    CUdeviceptr p = device_upload(NULL, sizeof x);
    OK(device_run(f, 1, 32, 0, (void *[]){&p}));
    OK(cuMemcpyDtoH(x, p, sizeof x));
    for (int t = 0; t < 32; t++) assert_int_equal(x[t], 3 * t);
  }
}

// ---- objects and archives of the host, linked ---------------------------------------------------

enum { kObject = 3, kLibrary = 4 };

static struct {
  CUresult (*create)(unsigned, CUjit_option *, void **, CUlinkState *);
  CUresult (*add)(CUlinkState, int, void *, size_t, const char *, unsigned, CUjit_option *,
                  void **);
  CUresult (*complete)(CUlinkState, void **, size_t *);
  CUresult (*destroy)(CUlinkState);
} link_api;

// Adds a file, or its first bytes.
static CUresult add(CUlinkState link, int type, const char *name, size_t bytes) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  char *data = malloc(1 << 20);
  size_t length = fread(data, 1, 1 << 20, f);
  fclose(f);
  char *own = malloc(bytes && bytes < length ? bytes : length); // what lies behind is not read
  if (bytes && bytes < length) length = bytes;
  memcpy(own, data, length);
  CUresult r = link_api.add(link, type, own, length, name, 0, NULL, NULL);
  free(own);
  free(data);
  return r;
}

static void link_and_run(int type, const char *first, const char *second) {
  CUlinkState link;
  CUmodule module;
  CUfunction f;
  void *image;
  int x[32];
  OK(link_api.create(0, NULL, NULL, &link));
  OK(add(link, type, first, 0));
  if (second) OK(add(link, type, second, 0));
  OK(link_api.complete(link, &image, NULL));
  OK(cuModuleLoadData(&module, image));
  OK(link_api.destroy(link));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr p = device_upload(NULL, sizeof x);
  OK(device_run(f, 1, 32, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(x, p, sizeof x));
  for (int t = 0; t < 32; t++) assert_int_equal(x[t], 3 * t);
}

static void test_objects(void **state) {
  (void)state;
  void *sim = sim_open();
  *(void **)&link_api.create = dlsym(sim, "cuLinkCreate_v2");
  *(void **)&link_api.add = dlsym(sim, "cuLinkAddData_v2");
  *(void **)&link_api.complete = dlsym(sim, "cuLinkComplete");
  *(void **)&link_api.destroy = dlsym(sim, "cuLinkDestroy");
  link_and_run(kObject, "calls.o", "twice.o");
  link_and_run(kObject, "whole.o", NULL);
  link_and_run(kLibrary, "both.a", NULL);
  CUlinkState link;
  OK(link_api.create(0, NULL, NULL, &link));
  assert_int_equal(add(link, kObject, "none.o", 0), CUDA_ERROR_INVALID_IMAGE);
  for (size_t bytes = 1; bytes < 4096; bytes += 61) // cut short: never more than its bytes is read
    add(link, kObject, "calls.o", bytes), add(link, kLibrary, "both.a", bytes);
  OK(link_api.destroy(link));
}

static void test_refused(void **state) {
  (void)state;
  CUmodule module;
  assert_int_equal(load("sass", &module, 0), CUDA_ERROR_NO_BINARY_FOR_GPU);
  assert_int_equal(load("lto", &module, 0), CUDA_ERROR_NO_BINARY_FOR_GPU);
  assert_non_null(strstr(log_text, "only LTO IR"));
  for (size_t cut = 20; cut < 200; cut += 60)
    assert_int_not_equal(load("zstd", &module, cut), CUDA_SUCCESS);
}

int main(int argc, char **argv) {
  if (argc < 2) return puts("1..0 # SKIP test_fatbin.sh calls it"), 0;
  folder = argv[1];
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_run), cmocka_unit_test(test_objects),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests_name("test_fatbins", tests, device_setup, NULL);
}
