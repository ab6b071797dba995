// test_errors.c: what libcusim says to bad images, bad programs and a bad environment: an error
// code and a clear line, never a crash; and how long the error of a fault stays.
#include "tests/sim/device.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
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
  CXX_ONLY("the form of the messages is its own");
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
  const char *bad_registers[] = {"-maxrregcount=many"}, *no_registers[] = {"--maxrregcount="};
  free(log_of(good, 1, bad_registers, NVRTC_ERROR_INVALID_OPTION));
  free(log_of(good, 1, no_registers, NVRTC_ERROR_INVALID_OPTION));
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

// Headers before the source: of the program, of the working folder, of an include path that is
// relative to it; after the -D options.
static void test_included_first(void **state) {
  (void)state;
  char folder[] = "build/include-XXXXXX", file[64], option[96];
  assert_non_null(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/own.h", folder);
  FILE *f = fopen(file, "w");
  fputs("#define OWN (N + 1)\n", f);
  fclose(f);
  snprintf(option, sizeof option, "--pre-include=%s", file);
  const char *by_file[] = {option, "-DN=3", "-include", "own.h", "-I", folder};
  const char *source = "static_assert(OWN == 4, \"\");\n";
  free(log_of(source, 2, by_file, 0));
  free(log_of(source, 5, by_file + 1, 0));
  free(log_of(source, 1, by_file + 1, NVRTC_ERROR_COMPILATION));
  const char *none[] = {"-include=none.h"};
  char *log = log_of("", 1, none, NVRTC_ERROR_COMPILATION);
  assert_non_null(strstr(log, "none.h"));
  free(log);
  remove(file), remove(folder);

  nvrtcProgram program;
  const char *name = "sub/given.h", *text = "#define GIVEN 5\n", *given[] = {"-include", name};
  assert_int_equal(nvrtcCreateProgram(&program, "static_assert(GIVEN == 5, \"\");", "x.cu", 1,
                                      &text, &name),
                   0);
  assert_int_equal(nvrtcCompileProgram(program, 2, given), 0);
  nvrtcDestroyProgram(&program);
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
  setenv("NNGEN_CXX", "/bin/false", 1);
  expect_log(good, "/bin/false: ended with exit code 1 and said nothing", NVRTC_ERROR_COMPILATION);
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
  setenv("TMPDIR", "/proc", 1); // a folder, in which no file can be made
  expect_log(good, "", NVRTC_SUCCESS);
  unsetenv("TMPDIR");
}

// A context that was destroyed below others stays in the stack, dead; no other takes its handle.
static void test_destroyed_context(void **state) {
  (void)state;
  CUcontext below, top, later, got;
  CUdeviceptr p, q;
  CUdevice device;
  OK(cuMemAlloc(&q, 16));
  OK(cuCtxCreate(&below, 0, 0));
  OK(cuCtxCreate(&top, 0, 0));
  OK(cuCtxDestroy(below));
  assert_int_equal(cuCtxDestroy(below), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxCreate(&later, 0, 0));
  assert_ptr_not_equal(later, below);
  OK(cuCtxDestroy(later));
  OK(cuCtxDestroy(top));
  OK(cuCtxGetCurrent(&got));
  assert_ptr_equal(got, below);
  assert_int_equal(cuMemAlloc(&p, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  assert_int_equal(cuMemFree(q), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  assert_int_equal(cuCtxGetDevice(&device), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  assert_int_equal(cuCtxSetCurrent(below), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxPopCurrent(&got));
  OK(cuMemAlloc(&p, 16));
  OK(cuMemFree(p));
  OK(cuMemFree(q));
}

// An error stays until the context whose work caused it ends, whoever waits for that work.
static void test_fault_of_context(void **state) {
  (void)state;
  static const char *const bad =
      "extern \"C\" __global__ void k(float *p) { *(volatile float *)p = 1; }";
  CUcontext faulty, other;
  CUdeviceptr null = 0, p;
  CUfunction f = device_function(bad, "k");
  for (int waits = 0; waits < 2; waits++) {
    OK(cuCtxCreate(&faulty, 0, 0));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&null}, NULL));
    if (waits) assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxCreate(&other, 0, 0));
    OK(cuCtxDestroy(other));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAlloc(&p, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxDestroy(faulty));
    OK(cuMemAlloc(&p, 16));
    OK(cuMemFree(p));
  }
}

static volatile sig_atomic_t signals;
static void count_signal(int signal) {
  (void)signal;
  signals++;
}

// The program's own handlers are called for its own signals after a launch, and SIGVTALRM's while a
// kernel runs: this one waits for it.
static void test_own_signals(void **state) {
  (void)state;
  CUfunction f = device_function(
      "extern \"C\" __global__ void k(volatile int *seen) { while (!*seen) ; }", "k");
  const struct itimerval soon = {.it_value = {0, 1000}};
  volatile sig_atomic_t *seen = &signals;
  void (*old_alarm)(int) = signal(SIGVTALRM, count_signal);
  void (*old_fault)(int) = signal(SIGFPE, count_signal);
  assert_int_equal(setitimer(ITIMER_VIRTUAL, &soon, NULL), 0);
  OK(device_run(f, 1, 1, 0, (void *[]){&seen}));
  assert_int_equal(signals, 1);
  raise(SIGVTALRM);
  assert_int_equal(signals, 2);
  raise(SIGFPE);
  assert_int_equal(signals, 3);
  signal(SIGVTALRM, old_alarm);
  signal(SIGFPE, old_fault);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_flipped_images),    cmocka_unit_test(test_cut_images),
      cmocka_unit_test(test_compile_errors),    cmocka_unit_test(test_programs),
      cmocka_unit_test(test_included_first),
      cmocka_unit_test(test_no_compiler),       cmocka_unit_test(test_no_temporary_folder),
      cmocka_unit_test(test_destroyed_context), cmocka_unit_test(test_fault_of_context),
      cmocka_unit_test(test_own_signals)};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
