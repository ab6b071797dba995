// test_fatbins.c FOLDER: loads the fat binaries that test_fatbin.sh had nvcc make. Alone it skips.
#include "tests/sim/device.h"

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
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_run), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests_name("test_fatbins", tests, device_setup, NULL);
}
