// test_precompiled.c: with NNGEN_SIM_PRECOMPILED programs mean what they mean without, and so do
// their messages; a file that GCC refuses is made anew. Only on libcusim, where GCC compiles.
#include "tests/sim/device.h"

#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[64], file[512];

static void set(const void *user) {
  setenv("NNGEN_SIM_PRECOMPILED", user, 1);
}

// With shared memory and a barrier, which libcusim's headers are for; another text each time, so
// that nothing compiled earlier is taken for it.
static void run(const void *user) {
  static const char *format = "extern \"C\" __global__ void k(float *x) { // %d\n"
                              "  __shared__ float s[64]; s[threadIdx.x] = sqrtf(threadIdx.x);\n"
                              "  __syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x]; }\n"
                              "__device__ const int number = %d;\n";
  char source[512];
  (void)user;
  snprintf(source, sizeof source, format, (int)getpid(), (int)getpid());
  CUfunction f = device_function(source, "k");
  float x[64];
  CUdeviceptr p = device_upload(NULL, sizeof x);
  OK(device_run(f, 1, 64, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(x, p, sizeof x));
  for (int i = 0; i < 64; i++) assert_true(x[i] == sqrtf(63 - i));
}

static char *log_of(const char *kept, const char *source) {
  int ends[2];
  char *text = calloc(1, 4096);
  assert_int_equal(pipe(ends), 0);
  pid_t pid = fork();
  if (pid == 0) {
    char *image, *log;
    set(kept);
    if (!device_open() || device_compile(source, "wrong.cu", &image, &log) == NVRTC_SUCCESS)
      _exit(1);
    _exit(write(ends[1], log, strlen(log)) < 0);
  }
  close(ends[1]);
  for (ssize_t n, at = 0; (n = read(ends[0], text + at, 4095 - (size_t)at)) > 0;) at += n;
  close(ends[0]);
  waitpid(pid, NULL, 0);
  return text;
}

// The only one in the folder, beside those of test_prefix.c, which go; its size, or 0.
static long find_file(void) {
  struct stat info;
  int count = 0;
  char found[sizeof file] = "";
  DIR *entries = opendir(folder);
  assert_non_null(entries);
  for (struct dirent *e; (e = readdir(entries));)
    if (*e->d_name != '.') {
      snprintf(file, sizeof file, "%s/%s", folder, e->d_name);
      bool precompiled = strstr(e->d_name, ".gch");
      count += precompiled;
      if (!precompiled) unlink(file);
      else snprintf(found, sizeof found, "%s", file);
    }
  closedir(entries);
  assert_true(count <= 1);
  snprintf(file, sizeof file, "%s", found);
  return count && stat(file, &info) == 0 ? (long)info.st_size : 0;
}

static void test_made_once(void **state) {
  struct stat first, second;
  (void)state;
  device_child(set, run, folder);
  if (!find_file()) fail_msg("no file in %s", folder);
  assert_int_equal(stat(file, &first), 0);
  device_child(set, run, folder);
  assert_true(find_file() > 0);
  assert_int_equal(stat(file, &second), 0);
  assert_true(first.st_ino == second.st_ino && first.st_mtime == second.st_mtime);
}

static void test_refused(void **state) {
  (void)state;
  assert_true(find_file() > 0);
  FILE *f = fopen(file, "wb");
  fputs("this is no precompiled header", f);
  fclose(f);
  device_child(set, run, folder);
  assert_int_equal(find_file(), 0); // so GCC read it
  device_child(set, run, folder);
  assert_true(find_file() > 1 << 20);
}

static void test_messages(void **state) {
  static const char *wrong[] = {
      "extern \"C\" __global__ void k(float *x) {\n  int i = 0;\n  x[i] = y;\n}\n",
      "#include \"none.cuh\"\n", "__global__ void k(int n) { __shared__ float s[n]; }\n",
      "}\n"};
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char *with = log_of(folder, wrong[i]), *without = log_of("", wrong[i]);
    assert_string_equal(with, without);
    assert_non_null(strstr(with, "error"));
    free(with);
    free(without);
  }
}

// What PTX is made into stands on other headers.
static void run_ptx(const void *user) {
  static const char *ptx = ".version 8.0\n.target sm_90\n.address_size 64\n"
                           ".visible .entry k(.param .u64 p) {\n"
                           "  .reg .u64 %a; .reg .u32 %t;\n"
                           "  ld.param.u64 %a, [p]; mov.u32 %t, %d;\n"
                           "  st.global.u32 [%a], %t; ret;\n}\n";
  char text[512];
  unsigned x = 0, pid = (unsigned)getpid();
  CUmodule module;
  CUfunction f;
  (void)user;
  char *number = strstr(memcpy(text, ptx, strlen(ptx) + 1), "%d");
  snprintf(number, sizeof text - (size_t)(number - text), "%u%s", pid, strstr(ptx, "%d") + 2);
  CUdeviceptr p = device_upload(&x, sizeof x);
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&f, module, "k"));
  OK(device_run(f, 1, 1, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(&x, p, sizeof x));
  assert_int_equal(x, pid);
}

static void test_ptx(void **state) {
  (void)state;
  assert_true(find_file() > 0);
  assert_int_equal(unlink(file), 0);
  device_child(set, run_ptx, folder);
  assert_true(find_file() > 1 << 20);
  FILE *f = fopen(file, "wb");
  fputs("this is no precompiled header", f);
  fclose(f);
  device_child(set, run_ptx, folder);
  assert_int_equal(find_file(), 0); // so GCC read it
}

static int finish(void **state) {
  (void)state;
  if (find_file()) unlink(file);
  return rmdir(folder);
}

int main(void) {
  if (on_gpu() || through_nvrtc()) return printf("1..0 # SKIP only with the front end cxx\n"), 0;
  const char *cxx = getenv("NNGEN_CXX");
  if (cxx && strstr(cxx, "clang")) return printf("1..0 # SKIP only with GCC\n"), 0;
  snprintf(folder, sizeof folder, "build/precompiled-%d", (int)getpid());
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_made_once),
                                     cmocka_unit_test(test_refused),
                                     cmocka_unit_test(test_messages),
                                     cmocka_unit_test(test_ptx)};
  return cmocka_run_group_tests(tests, NULL, finish);
}
