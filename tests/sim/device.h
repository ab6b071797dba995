// device.h: what tests of device code stand on: the driver API and NVRTC through one table, of
// libcusim (DEVICE=sim, the default) or of the GPU's libraries (DEVICE=cuda).
#ifndef TESTS_DEVICE_H
#define TESTS_DEVICE_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda_api.h"

#define CUDA_API(name, symbol, params) static CUresult(*name) params;
#define NVRTC_API(name, symbol, params) static nvrtcResult(*name) params;
#define NVRTC_TEXT(name, symbol, params) static const char *(*name)params;
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "cuda_api.def"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

static bool on_gpu(void) {
  const char *device = getenv("DEVICE");
  return device && !strcmp(device, "cuda");
}

// NNGEN_SIM_FRONTEND=nvrtc: kernels come from NVIDIA's NVRTC.
__attribute__((unused)) static bool through_nvrtc(void) {
  const char *front = getenv("NNGEN_SIM_FRONTEND");
  return front && !strcmp(front, "nvrtc");
}

// A test that is of libcusim's own reading of CUDA C++ alone: with NVRTC it is skipped.
#define CXX_ONLY(reason)                                                                           \
  if (through_nvrtc()) {                                                                           \
    puts("# not through NVRTC: " reason);                                                          \
    skip();                                                                                        \
  }

static void *library_open(const char *const *names) {
  for (; *names; names++) {
    void *handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
  }
  return NULL;
}

static void *sim_open(void) {
  const char *other = getenv("CUSIM_LIBRARY"); // another build of it
  return library_open((const char *[]){other ? other : "build/libcusim.so", NULL});
}

#define NOTHING(name, symbol, params)
#define LOAD(name, symbol, params)                                                                 \
  *(void **)&name = dlsym(library, #symbol);                                                       \
  if (!name) return fprintf(stderr, "no %s\n", #symbol), false;

static bool load_driver(void *library) {
#define CUDA_API LOAD
#define NVRTC_API NOTHING
#define NVRTC_TEXT NOTHING
#include "cuda_api.def"
  return true;
}

static bool load_compiler(void *library) {
#define CUDA_API NOTHING
#define NVRTC_API LOAD
#define NVRTC_TEXT LOAD
#include "cuda_api.def"
  return true;
}

// Loads the table and makes a context current. False: there is no such device.
static bool device_open(void) {
  const char *driver[] = {"libcuda.so.1", NULL};
  const char *nvrtc[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                         "/usr/local/cuda/lib64/libnvrtc.so", NULL};
  void *cuda = on_gpu() ? library_open(driver) : sim_open();
  void *compiler = on_gpu() ? library_open(nvrtc) : cuda;
  if (!cuda || !compiler) return fprintf(stderr, "%s\n", dlerror()), false;
  if (!load_driver(cuda) || !load_compiler(compiler)) return false;
  CUcontext ctx;
  return cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&ctx, 0) == CUDA_SUCCESS &&
         cuCtxSetCurrent(ctx) == CUDA_SUCCESS;
}

// For the i-th of many like cases: in the short run, every n-th alone; as `few` of tap.sh.
static inline bool device_few(int i, int n) {
  return i % n == 0 || getenv("NNGEN_TEST_LONG");
}

static int device_setup(void **state) {
  (void)state;
  return device_open() ? 0 : -1;
}

// Runs `test` with a device, after `set`, in a process of its own, because libcusim reads its
// settings once; fails where it does, or where it lasts a minute.
__attribute__((unused)) static void device_child(void (*set)(const void *),
                                                 void (*test)(const void *), const void *user) {
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) {
    setenv("CMOCKA_TEST_ABORT", "1", 1); // a failure ends this process
    set(user);
    if (!device_open()) _exit(96);
    alarm(60);
    test(user);
    _exit(0);
  }
  waitpid(pid, &status, 0);
  assert_int_equal(status, 0);
}

static char *file_read(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  char *text = NULL;
  size_t length = 0, got;
  do {
    text = realloc(text, length + 65537);
    got = fread(text + length, 1, 65536, f);
    length += got;
    text[length] = 0;
  } while (got);
  fclose(f);
  return text;
}

static const char *device_arch(void) {
  static char option[32];
  int major = 0, minor = 0;
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  OK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  snprintf(option, sizeof option, "-arch=sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
  return option;
}

// Compiles CUDA source, which may include lib/prim.cuh and rows of attention. *image is the
// caller's to free.
static nvrtcResult device_compile(const char *source, const char *name, char **image, char **log) {
  static const char *names[] = {"lib/prim.cuh", "lib/prim_cuda.cuh", "lib/prim_cuda_matrix.cuh",
                                "lib/prim_hopper.cuh", "lib/prim_cuda_hopper.cuh",
                                "lib/prim_fast.cuh",
                                "lib/prim_sim_hopper.h", "lib/prim_sim_math.h",
                                "lib/prim_sim.h", "lib/prim_sim_matrix.h", "lib/tile.cuh",
                                "lib/attend.cuh", "lib/attend_wgmma.cuh"};
  enum { kHeaders = sizeof names / sizeof *names };
  const char *headers[kHeaders];
  for (int i = 0; i < kHeaders; i++) {
    char path[64];
    snprintf(path, sizeof path, "templates/%s", names[i]);
    headers[i] = file_read(path);
    assert_non_null(headers[i]);
  }
  nvrtcProgram program;
  const char *options[] = {device_arch(), "-std=c++17"};
  assert_int_equal(nvrtcCreateProgram(&program, source, name, kHeaders, headers, names),
                   NVRTC_SUCCESS);
  nvrtcResult r = nvrtcCompileProgram(program, 2, options);
  size_t bytes = 0;
  assert_int_equal(nvrtcGetProgramLogSize(program, &bytes), NVRTC_SUCCESS);
  *log = calloc(bytes + 1, 1);
  assert_int_equal(nvrtcGetProgramLog(program, *log), NVRTC_SUCCESS);
  *image = NULL;
  if (r == NVRTC_SUCCESS) {
    assert_int_equal(nvrtcGetCUBINSize(program, &bytes), NVRTC_SUCCESS);
    *image = malloc(bytes);
    assert_int_equal(nvrtcGetCUBIN(program, *image), NVRTC_SUCCESS);
  }
  nvrtcDestroyProgram(&program);
  for (int i = 0; i < kHeaders; i++) free((char *)headers[i]);
  return r;
}

// NNGEN_TEST_NVRTC names an NVRTC: the source must also compile for the GPU that libcusim models.
static void check_compiles_for_gpu(const char *source) {
  char *image, *log;
  const char *nvrtc = getenv("NNGEN_TEST_NVRTC");
  if (!nvrtc) return;
  assert_true(load_compiler(library_open((const char *[]){nvrtc, NULL})));
  if (device_compile(source, "test.cu", &image, &log) != NVRTC_SUCCESS)
    fail_msg("%s: %s\n%s", device_arch(), log, source);
  free(image);
  free(log);
  assert_true(load_compiler(sim_open()));
}

static CUmodule device_module(const char *source) {
  char *image, *log;
  nvrtcResult r = device_compile(source, "test.cu", &image, &log);
  if (r != NVRTC_SUCCESS) fail_msg("%s: %s", nvrtcGetErrorString(r), log);
  CUmodule module;
  OK(cuModuleLoadData(&module, image));
  free(image);
  free(log);
  check_compiles_for_gpu(source);
  return module;
}

static CUfunction device_function(const char *source, const char *name) {
  CUfunction function;
  OK(cuModuleGetFunction(&function, device_module(source), name));
  return function;
}

static CUdeviceptr device_upload(const void *data, size_t bytes) {
  CUdeviceptr ptr;
  OK(cuMemAlloc(&ptr, bytes));
  if (data) OK(cuMemcpyHtoD(ptr, data, bytes));
  return ptr;
}

// Runs one kernel on the legacy stream and waits; its result or the launch's error.
static CUresult device_run(CUfunction function, int grid, int block, int smem, void **params) {
  CUresult r = cuLaunchKernel(function, (unsigned)grid, 1, 1, (unsigned)block, 1, 1, (unsigned)smem,
                              NULL, params, NULL);
  return r == CUDA_SUCCESS ? cuCtxSynchronize() : r;
}
#endif
