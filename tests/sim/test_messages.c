// test_messages.c: a call that is refused for what a program can do something about prints one line
// that says why, besides the driver's error. Only on libcusim.
#include "tests/sim/device.h"

#include <unistd.h>

static const char *source =
    "extern \"C\" __global__ void plain(float *x) { x[threadIdx.x] = 1; }\n"
    "extern \"C\" __global__ void __launch_bounds__(64) bounded(float *x) { x[threadIdx.x] = 1; }\n"
    "extern \"C\" __global__ void dynamic(float *x) {\n"
    "  extern __shared__ float s[]; s[threadIdx.x] = 1; x[threadIdx.x] = s[threadIdx.x]; }\n";
static CUmodule module;
static int kept; // stderr

static void listen(void) {
  fflush(stderr);
  kept = dup(2);
  assert_non_null(freopen("build/messages", "w", stderr));
}

// What was said since is one line with the text and the error's name.
static void expect(CUresult got, CUresult want, const char *text) {
  fflush(stderr);
  dup2(kept, 2);
  close(kept);
  char *said = file_read("build/messages");
  const char *name = NULL;
  cuGetErrorName(want, &name);
  assert_int_equal(got, want);
  if (strncmp(said, "libcusim: ", 10) != 0 || !strstr(said, text) || !strstr(said, name) ||
      strchr(said, '\n') != strrchr(said, '\n'))
    fail_msg("`%s` instead of `%s`", said, text);
  free(said);
}

#define EXPECT(call, want, text)                                                                   \
  do {                                                                                             \
    listen();                                                                                      \
    CUresult got = call;                                                                           \
    expect(got, want, text);                                                                       \
  } while (0)

static CUfunction get(const char *name) {
  CUfunction f;
  OK(cuModuleGetFunction(&f, module, name));
  return f;
}

static CUresult launch(const char *name, unsigned grid_x, unsigned grid_y, unsigned threads,
                       unsigned smem) {
  CUdeviceptr p = 0;
  return cuLaunchKernel(get(name), grid_x, grid_y, 1, threads, 1, 1, smem, NULL, (void *[]){&p},
                        NULL);
}

static void test_images(void **state) {
  (void)state;
  static _Alignas(64) char garbage[4096];
  CUmodule m;
  memset(garbage, 0x5a, sizeof garbage);
  EXPECT(cuModuleLoadData(&m, garbage), CUDA_ERROR_INVALID_IMAGE, "image was not made by");
  EXPECT(cuModuleLoadData(&m, ".hidden\n"), CUDA_ERROR_INVALID_IMAGE, "was not made by");
  EXPECT(cuModuleLoadData(&m, ".visible\n"), CUDA_ERROR_INVALID_PTX, "begins with .version");
  EXPECT(cuModuleLoadData(&m, ".version 8.0\n"), CUDA_ERROR_INVALID_PTX, "names no .target");
  EXPECT(cuModuleLoad(&m, "build/libcusim.so"), CUDA_ERROR_INVALID_IMAGE, "is damaged, or");
}

static void test_symbols(void **state) {
  (void)state;
  CUfunction f;
  CUdeviceptr p;
  EXPECT(cuModuleGetFunction(&f, module, "nope"), CUDA_ERROR_NOT_FOUND, "no kernel nope");
  EXPECT(cuModuleGetGlobal(&p, NULL, module, "nope"), CUDA_ERROR_NOT_FOUND, "no variable nope");
}

static void test_launches(void **state) {
  (void)state;
  const CUresult invalid = CUDA_ERROR_INVALID_VALUE;
  EXPECT(launch("plain", 0, 1, 32, 0), invalid, "kernel plain: a grid of (0,1,1) blocks");
  EXPECT(launch("plain", 1, 65536, 32, 0), invalid, "kernel plain: a grid of (1,65536,1) blocks");
  EXPECT(launch("plain", 1, 1, 1025, 0), invalid, "a block of (1025,1,1) threads");
  EXPECT(launch("bounded", 1, 1, 65, 0), invalid, "65 threads is above its launch bounds, 64");
  EXPECT(launch("dynamic", 1, 1, 32, 49153), invalid, "49153 bytes of dynamic shared memory");
  EXPECT(
      cuFuncSetAttribute(get("dynamic"), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
      invalid, "up to 232448 bytes of dynamic shared memory, not 1048576");
  EXPECT(cuLaunchKernel(get("plain"), 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), invalid,
         "it has 1 parameters, none are passed");
}

static int setup(void **state) {
  char *image, *log;
  if (device_setup(state) || device_compile(source, "m.cu", &image, &log)) return -1;
  OK(cuModuleLoadData(&module, image));
  free(image), free(log);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_images), cmocka_unit_test(test_symbols),
                                     cmocka_unit_test(test_launches)};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  return cmocka_run_group_tests(tests, setup, NULL);
}
