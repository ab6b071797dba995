// test_errors.c: what libcusim says to bad images, bad programs and a bad environment: an error
// code and a clear line, never a crash. And its counters, which must match what kernels do.
#include "tests/sim/device.h"

#include <sys/stat.h>
#include <unistd.h>

static const char *good = "extern \"C\" __global__ void k(float *x) { x[threadIdx.x] += 1; }\n";

static char *good_image(size_t *bytes) {
  nvrtcProgram program;
  assert_int_equal(nvrtcCreateProgram(&program, good, "good.cu", 0, NULL, NULL), 0);
  assert_int_equal(nvrtcCompileProgram(program, 0, NULL), 0);
  assert_int_equal(nvrtcGetCUBINSize(program, bytes), 0);
  char *image = malloc(*bytes);
  assert_int_equal(nvrtcGetCUBIN(program, image), 0);
  nvrtcDestroyProgram(&program);
  return image;
}

// Every 97th byte flipped in turn; the image is refused each time, or (in the file's padding)
// works.
static void test_flipped_images(void **state) {
  (void)state;
  size_t bytes;
  char *image = good_image(&bytes);
  for (size_t i = 0; i < bytes; i += 97) {
    CUmodule module;
    image[i] ^= 0x10;
    assert_int_not_equal(cuModuleLoadData(&module, image), CUDA_SUCCESS);
    image[i] ^= 0x10;
  }
  CUmodule module;
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleUnload(module));
  assert_int_equal(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  free(image);
}

// A page that ends where the file was cut, with nothing mapped behind it.
static void test_cut_images(void **state) {
  (void)state;
  size_t bytes;
  char *image = good_image(&bytes);
  for (size_t cut = 0; cut < bytes; cut = cut ? cut * 3 : 1) {
    FILE *f = fopen("build/cut_image", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(image, 1, cut, f), cut);
    assert_int_equal(fclose(f), 0);
    CUmodule module;
    assert_int_not_equal(cuModuleLoad(&module, "build/cut_image"), CUDA_SUCCESS);
  }
  CUmodule module;
  assert_int_equal(cuModuleLoad(&module, "build/no_such_file"), CUDA_ERROR_FILE_NOT_FOUND);
  assert_int_equal(cuModuleLoadData(&module, (void *)16), CUDA_ERROR_INVALID_IMAGE);
  unlink("build/cut_image");
  free(image);
}

// Compiles and returns the log; the caller frees it.
static char *log_of(const char *source, int count, const char *const *options, nvrtcResult want) {
  nvrtcProgram program;
  size_t bytes;
  assert_int_equal(nvrtcCreateProgram(&program, source, "model.cu", 0, NULL, NULL), 0);
  nvrtcResult r = nvrtcCompileProgram(program, count, options);
  assert_int_equal(nvrtcGetProgramLogSize(program, &bytes), 0);
  char *log = malloc(bytes);
  assert_int_equal(nvrtcGetProgramLog(program, log), 0);
  if (r != want)
    fail_msg("%s instead of %s: %s", nvrtcGetErrorString(r), nvrtcGetErrorString(want), log);
  if (r) assert_int_equal(nvrtcGetCUBINSize(program, &bytes), NVRTC_ERROR_INVALID_PROGRAM);
  nvrtcDestroyProgram(&program);
  return log;
}

static void expect_log(const char *source, const char *text, nvrtcResult want) {
  char *log = log_of(source, 0, NULL, want);
  if (!strstr(log, text)) fail_msg("log lacks `%s`: %s", text, log);
  free(log);
}

static void test_compile_errors(void **state) {
  (void)state;
  expect_log("\n\n__global__ void k(float *x) { x[0] = nothing; }\n",
             "model.cu:3:", NVRTC_ERROR_COMPILATION);
  expect_log("#line 77 \"templates/map.cu\"\n__global__ void k() { oops }\n",
             "templates/map.cu:77:", NVRTC_ERROR_COMPILATION);
  expect_log("#include \"lib/none.cuh\"\n", "lib/none.cuh", NVRTC_ERROR_COMPILATION);
  expect_log("__global__ void k( {\n", "model.cu:1:", NVRTC_ERROR_COMPILATION);
  expect_log("__global__ void k() { \"\n", "model.cu:1:", NVRTC_ERROR_COMPILATION);
  expect_log("namespace { __global__ void k(", "model.cu:", NVRTC_ERROR_COMPILATION);
  const char *bad_option[] = {"--no-such-option"}, *bad_arch[] = {"-arch=sm_12"};
  free(log_of(good, 1, bad_option, NVRTC_ERROR_INVALID_OPTION));
  free(log_of(good, 1, bad_arch, NVRTC_ERROR_INVALID_OPTION));
  const char *fine[] = {"-arch=sm_90a",
                        "-D",
                        "N=3",
                        "-DM=4",
                        "--define-macro=P=5",
                        "-lineinfo",
                        "--use_fast_math",
                        "--fmad=false",
                        "-std=c++17",
                        "-maxrregcount=64"};
  free(log_of("static_assert(N + M + P == 12 && __CUDA_ARCH__ == 900, \"\");\n", 10, fine, 0));
}

static void test_programs(void **state) {
  (void)state;
  nvrtcProgram program;
  const char *name;
  size_t bytes;
  assert_int_equal(nvrtcCreateProgram(&program, NULL, "x", 0, NULL, NULL),
                   NVRTC_ERROR_INVALID_INPUT);
  assert_int_equal(nvrtcCreateProgram(&program, good, NULL, 0, NULL, NULL), 0);
  assert_int_equal(nvrtcGetPTXSize(program, &bytes), NVRTC_ERROR_INVALID_PROGRAM);
  assert_int_equal(nvrtcGetLoweredName(program, "k", &name),
                   NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
  assert_int_equal(nvrtcAddNameExpression(program, "&k"), 0);
  assert_int_equal(nvrtcCompileProgram(program, 0, NULL), 0);
  assert_int_equal(nvrtcAddNameExpression(program, "j"),
                   NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION);
  assert_int_equal(nvrtcGetLoweredName(program, "&k", &name), 0);
  assert_string_equal(name, "k");
  assert_int_equal(nvrtcGetLoweredName(program, "other", &name),
                   NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID);
  assert_int_equal(nvrtcDestroyProgram(&program), 0);
  assert_int_equal(nvrtcDestroyProgram(&program), NVRTC_ERROR_INVALID_PROGRAM);
}

static void test_no_compiler(void **state) {
  (void)state;
  char *old = getenv("NNGEN_CXX"), *kept = old ? strdup(old) : NULL;
  setenv("NNGEN_CXX", "/nowhere/c++", 1);
  expect_log(good, "no host C++ compiler: looked for /nowhere/c++", NVRTC_ERROR_INTERNAL_ERROR);
  if (kept)
    setenv("NNGEN_CXX", kept, 1);
  else
    unsetenv("NNGEN_CXX");
  free(kept);
  expect_log(good, "", NVRTC_SUCCESS);
}

static void test_no_temporary_folder(void **state) {
  (void)state;
  setenv("TMPDIR", "/nowhere", 1); // others are tried
  expect_log(good, "", NVRTC_SUCCESS);
  unsetenv("TMPDIR");
}

typedef struct Counters { // KernelCounters of libcusim
  uint64_t launches, blocks, threads, global_read, global_written;
  uint64_t distinct_read, distinct_written, shared_read, shared_written;
  uint64_t flops[3], barriers, meetings;
  uint64_t global_requests, global_sectors, global_ideal_sectors;
  uint64_t shared_requests, shared_wavefronts, bank_conflicts;
} Counters;

static Counters counters_of(CUfunction f) {
  CUresult (*counters)(CUfunction, Counters *, size_t);
  *(void **)&counters = dlsym(dlopen("build/libcusim.so", RTLD_NOW), "cusimKernelCounters");
  assert_non_null(counters);
  Counters c;
  OK(counters(f, &c, sizeof c));
  return c;
}

static void test_counters(void **state) {
  (void)state;
  CUfunction f = device_function("#include \"lib/prim.cuh\"\n"
                                 "extern \"C\" __global__ void k(const float *x, float *y) {\n"
                                 "  __shared__ float s[64]; int t = threadIdx.x;\n"
                                 "  s[t] = x[t]; nn_sync();\n"
                                 "  nn_store<4>(y + 4 * t, Vec<float, 4>{{s[t ^ 1], 0, 0, 0}});\n"
                                 "  unsigned a[4] = {}, b[2] = {}; float d[4] = {};\n"
                                 "  nn_mma_m16n8k16(d, a, b, bf16{}); if (d[0] > 1) y[0] = d[0];\n"
                                 "}\n",
                                 "k");
  float x[64] = {0};
  CUdeviceptr px = device_upload(x, sizeof x), py = device_upload(NULL, 4096);
  OK(device_run(f, 3, 64, 0, (void *[]){&px, &py}));
  Counters c = counters_of(f);
  assert_int_equal(c.launches, 1);
  assert_int_equal(c.blocks, 3);
  assert_int_equal(c.threads, 3 * 64);
  assert_int_equal(c.global_read, 3 * 64 * 4);
  assert_int_equal(c.global_written, 3 * 64 * 16);
  assert_int_equal(c.distinct_read, 64 * 4); // the three blocks read and write the same
  assert_int_equal(c.distinct_written, 64 * 16);
  assert_int_equal(c.shared_read, 3 * 64 * 4);
  assert_int_equal(c.shared_written, 3 * 64 * 4);
  assert_int_equal(c.flops[0], 3 * 2 * 2 * 16 * 8 * 16);
  assert_int_equal(c.barriers, 3 * 64);
  assert_int_equal(c.meetings, 3 * 64);
}

// One access by each lane of one warp; what it costs in sectors and wavefronts.
static Counters pattern(const char *access) {
  char source[1024];
  snprintf(source, sizeof source,
           "#include \"lib/prim.cuh\"\n"
           "struct Smem { alignas(16) float x[4096]; };\n"
           "extern \"C\" __global__ void k(float *p, unsigned *out) {\n"
           "  NN_SMEM(Smem, s); int t = threadIdx.x; unsigned r[4] = {}; float y = 0;\n"
           "  for (int i = 0; i < 2; i++) { float *q = p + 1024 * i, *z = s.x + 1024 * i; (void)q; "
           "(void)z; %s; }\n"
           "  if (y == 12345.0f) out[0] = r[0]; (void)s; }\n",
           access);
  CUfunction f = device_function(source, "k");
  float x[4096] = {0};
  CUdeviceptr p = device_upload(x, sizeof x);
  OK(device_run(f, 1, 32, 16384, (void *[]){&p, &p}));
  OK(cuMemFree(p));
  return counters_of(f);
}

static void expect_global(const char *access, int requests, int sectors, int ideal) {
  Counters c = pattern(access);
  assert_int_equal(c.global_requests, requests);
  assert_int_equal(c.global_sectors, sectors);
  assert_int_equal(c.global_ideal_sectors, ideal);
}

static void test_sectors(void **state) {
  (void)state;
  expect_global("y += q[t]", 2, 8, 8);
  expect_global("y += q[t * 32]", 2, 64, 8);
  expect_global("y += q[0]", 2, 2, 8);
  expect_global("y += nn_load<4>(q + 4 * t)[1]", 2, 32, 32);
  expect_global("y += q[t * 2]", 2, 16, 8);
  expect_global("if (t < 16) y += q[t]", 2, 4, 4);
}

static void expect_shared(const char *access, int requests, int wavefronts, int conflicts) {
  Counters c = pattern(access);
  assert_int_equal(c.shared_requests, requests);
  assert_int_equal(c.shared_wavefronts, wavefronts);
  assert_int_equal(c.bank_conflicts, conflicts);
}

static void test_banks(void **state) {
  (void)state;
  expect_shared("z[t] = y", 2, 2, 0);
  expect_shared("z[t * 33] = y", 2, 2, 0);
  expect_shared("z[t * 32] = y", 2, 64, 62);
  expect_shared("z[t * 2] = y", 2, 4, 2);
  expect_shared("y += z[7]", 2, 2, 0);
  expect_shared("nn_store<4>(z + 4 * t, Vec<float, 4>{{y, y, y, y}})", 2, 8, 0);
  expect_shared("nn_ldmatrix_x4(r, z + 4 * t); y += r[0]", 2, 8, 0);
  expect_shared("nn_ldmatrix_x4(r, z + 32 * t); y += r[0]", 2, 64, 56);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_flipped_images), cmocka_unit_test(test_cut_images),
      cmocka_unit_test(test_compile_errors), cmocka_unit_test(test_programs),
      cmocka_unit_test(test_no_compiler),    cmocka_unit_test(test_no_temporary_folder),
      cmocka_unit_test(test_counters),       cmocka_unit_test(test_sectors),
      cmocka_unit_test(test_banks)};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  setenv("NNGEN_SIM_COUNT", "1", 1);
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
