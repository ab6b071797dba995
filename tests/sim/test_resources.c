// test_resources.c: libcusim when the machine gives it nothing: memory, mappings, threads, files,
// processes. Every n-th request fails in turn, once and then for good; what must come out is an
// error of the driver or NVRTC, or the right result, never a crash. Only on libcusim.
//
// The functions below stand in for the C library's: the program exports its symbols (-rdynamic).
// They fail only when libcusim is what calls.
#include "tests/sim/device.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uintptr_t sim_begin, sim_end; // libcusim's code
static int countdown = -1;           // calls until one fails; negative: none does
static bool for_good;                // all that follow fail, too
static int failed;

static bool fails(const void *caller) {
  uintptr_t pc = (uintptr_t)caller;
  if (pc < sim_begin || pc >= sim_end || countdown < 0) return false;
  if (countdown > 0) return countdown--, false;
  if (!for_good) countdown = -1;
  failed++;
  return true;
}

#define FAIL_WITH(error, value)                                                                    \
  if (fails(__builtin_return_address(0))) return errno = error, value
#define REAL(name) (__typeof__(&name))dlsym(RTLD_NEXT, #name)

void *malloc(size_t n) {
  extern void *__libc_malloc(size_t);
  FAIL_WITH(ENOMEM, NULL);
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t size) {
  extern void *__libc_calloc(size_t, size_t);
  FAIL_WITH(ENOMEM, NULL);
  return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n) {
  extern void *__libc_realloc(void *, size_t);
  FAIL_WITH(ENOMEM, NULL);
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t alignment, size_t n) {
  extern void *__libc_memalign(size_t, size_t);
  FAIL_WITH(ENOMEM, NULL);
  return __libc_memalign(alignment, n);
}
char *strdup(const char *text) {
  FAIL_WITH(ENOMEM, NULL);
  char *copy = malloc(strlen(text) + 1);
  return copy ? strcpy(copy, text) : NULL;
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
  FAIL_WITH(ENOMEM, MAP_FAILED);
  return (REAL(mmap))(at, n, protection, flags, fd, offset);
}
ssize_t write(int fd, const void *bytes, size_t n) {
  FAIL_WITH(ENOSPC, -1);
  return (REAL(write))(fd, bytes, n);
}
size_t fwrite(const void *bytes, size_t size, size_t n, FILE *f) {
  if (f != stderr) FAIL_WITH(ENOSPC, 0);
  return (REAL(fwrite))(bytes, size, n, f);
}
FILE *fopen(const char *path, const char *mode) {
  FAIL_WITH(EMFILE, NULL);
  return (REAL(fopen))(path, mode);
}
char *mkdtemp(char *path) {
  FAIL_WITH(EROFS, NULL);
  return (REAL(mkdtemp))(path);
}
int memfd_create(const char *name, unsigned flags) {
  FAIL_WITH(EMFILE, -1);
  return (REAL(memfd_create))(name, flags);
}
int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const args[], char *const env[]) {
  if (fails(__builtin_return_address(0))) return EAGAIN;
  return (REAL(posix_spawnp))(pid, file, actions, attributes, args, env);
}
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *data) {
  if (fails(__builtin_return_address(0))) return EAGAIN;
  return (REAL(pthread_create))(thread, attributes, start, data);
}

// ---- what is done while requests fail -----------------------------------------------------------

static const char *source = "extern \"C\" __global__ void k(float *x) {\n"
                            "  __shared__ float s[64]; int t = threadIdx.x;\n"
                            "  s[t] = x[64 * blockIdx.x + t]; __syncthreads();\n"
                            "  x[64 * blockIdx.x + t] = s[63 - t] + 1; }\n";
static char *image;
static float x[256];

static bool load_and_run(void) {
  CUmodule module = NULL;
  CUfunction f;
  CUdeviceptr p = 0;
  CUstream stream = NULL;
  CUgraph graph = NULL;
  CUgraphExec exec = NULL;
  for (int i = 0; i < 256; i++) x[i] = (float)(i % 64);
  bool ok = !cuModuleLoadData(&module, image) && !cuModuleGetFunction(&f, module, "k") &&
            !cuMemAlloc(&p, sizeof x) && !cuStreamCreate(&stream, 1) &&
            !cuMemcpyHtoDAsync(p, x, sizeof x, stream) &&
            !cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  if (ok) {
    CUresult launched = cuLaunchKernel(f, 4, 1, 1, 64, 1, 1, 0, stream, (void *[]){&p}, NULL);
    CUresult ended = cuStreamEndCapture(stream, &graph);
    ok = !launched && !ended && !cuGraphInstantiate(&exec, graph, 0) &&
         !cuGraphLaunch(exec, stream) && !cuStreamSynchronize(stream) &&
         !cuMemcpyDtoH(x, p, sizeof x);
  }
  if (exec) cuGraphExecDestroy(exec);
  if (graph) cuGraphDestroy(graph);
  if (stream) cuStreamDestroy(stream);
  if (p) cuMemFree(p);
  if (module) cuModuleUnload(module);
  for (int i = 0; ok && i < 256; i++)
    if (x[i] != (float)(64 - i % 64)) _exit(90);
  return ok;
}

// NVRTC's result is an error with a log, or an image that loads.
static bool compile(void) {
  nvrtcProgram program = NULL;
  size_t bytes = 0;
  const char *header = "// nothing\n", *name = "h.h";
  if (nvrtcCreateProgram(&program, source, "k.cu", 1, &header, &name)) return false;
  bool ok = !nvrtcAddNameExpression(program, "k") && !nvrtcCompileProgram(program, 0, NULL) &&
            !nvrtcGetCUBINSize(program, &bytes);
  if (ok) {
    image = realloc(image, bytes);
    ok = !nvrtcGetCUBIN(program, image);
  }
  return nvrtcDestroyProgram(&program), ok;
}

enum { kNever = 3 }; // exit code: n was more than all requests

// One child per n. Its exit code 0: an error or a right result, and all is well afterwards.
static int outcome(bool (*what)(void), int n, bool good) {
  pid_t pid = fork();
  if (pid == 0) {
    int null = open("/dev/null", O_WRONLY);
    dup2(null, 2);
    alarm(60);
    signal(SIGSEGV, SIG_DFL); // not the test framework's
    signal(SIGFPE, SIG_DFL);
    countdown = n;
    for_good = good;
    bool ok = what();
    countdown = -1;
    if (!failed) _exit(ok ? kNever : 91);
    if (what == compile && !what()) _exit(92); // the next program is not harmed
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static void fail_in_turn(bool (*what)(void), int step) {
  int bad = 0, n = 0;
  for (int good = 0; good < 2; good++) {
    int r = 0;
    for (n = 0; r != kNever && n < 5000; n += step) {
      r = outcome(what, n, good);
      if (r != 0 && r != kNever)
        fprintf(stderr, "request %d%s: %d\n", n, good ? " and on" : "", r), bad++;
    }
    assert_true(n > 10);
  }
  assert_int_equal(bad, 0);
}

static void test_running(void **state) {
  (void)state;
  fail_in_turn(load_and_run, 1);
}

static void test_compiling(void **state) {
  (void)state;
  fail_in_turn(compile, 19);
}

// ---- files
// ---------------------------------------------------------------------------------------

// No file may grow beyond `bytes`, as on a full disk: what NVRTC says.
static void expect_full(long bytes) {
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit limit = {(rlim_t)bytes, (rlim_t)bytes};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    nvrtcProgram program;
    size_t n;
    char log[65536] = "";
    if (nvrtcCreateProgram(&program, source, "k.cu", 0, NULL, NULL)) _exit(1);
    nvrtcResult r = nvrtcCompileProgram(program, 0, NULL);
    if (nvrtcGetProgramLogSize(program, &n) || n > sizeof log || nvrtcGetProgramLog(program, log))
      _exit(2);
    if (r != NVRTC_ERROR_INTERNAL_ERROR && r != NVRTC_ERROR_COMPILATION) _exit(3);
    if (!strstr(log, "too large") && !strstr(log, "cannot be written") && !strstr(log, "error"))
      _exit(4);
    CUmodule module;
    _exit(cuModuleLoadData(&module, image) == CUDA_ERROR_OPERATING_SYSTEM ? 0 : 5);
  }
  int status;
  waitpid(pid, &status, 0);
  assert_int_equal(status, 0);
}

static void test_full_disk(void **state) {
  (void)state;
  expect_full(0);
  expect_full(1000);
  expect_full(8000); // the sources are written, the preprocessor's output is not
}

// A compiler that fails, one that says nothing, one that is killed, one that writes rubbish.
static void expect_compiler(const char *script, nvrtcResult want, const char *text) {
  FILE *f = fopen("build/fake_cxx", "w");
  assert_non_null(f);
  fprintf(f, "#!/bin/sh\n%s\n", script);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(chmod("build/fake_cxx", 0755), 0);
  setenv("NNGEN_CXX", "build/fake_cxx", 1);
  char cwd[4096], path[4200];
  assert_non_null(getcwd(cwd, sizeof cwd));
  snprintf(path, sizeof path, "%s/build/fake_cxx", cwd);
  setenv("NNGEN_CXX", path, 1);
  nvrtcProgram program;
  size_t n;
  assert_int_equal(nvrtcCreateProgram(&program, source, "k.cu", 0, NULL, NULL), 0);
  assert_int_equal(nvrtcCompileProgram(program, 0, NULL), want);
  assert_int_equal(nvrtcGetProgramLogSize(program, &n), 0);
  char *log = malloc(n);
  assert_int_equal(nvrtcGetProgramLog(program, log), 0);
  if (!strstr(log, text)) fail_msg("`%s` is not in: %s", text, log);
  free(log);
  nvrtcDestroyProgram(&program);
  unsetenv("NNGEN_CXX");
  unlink("build/fake_cxx");
}

static void test_bad_compilers(void **state) {
  (void)state;
  expect_compiler("echo no licence; exit 1", NVRTC_ERROR_COMPILATION, "no licence");
  expect_compiler("exit 0", NVRTC_ERROR_INTERNAL_ERROR, "made no file");
  expect_compiler("kill -9 $$", NVRTC_ERROR_COMPILATION, "ended by signal 9");
  expect_compiler("case \"$*\" in *image.so*) echo rubbish >image.so;; *) echo >source.ii;; esac",
                  NVRTC_ERROR_INTERNAL_ERROR, "is not a shared object");
}

// More modules than the loader has static thread-local storage for.
static void test_many_modules(void **state) {
  (void)state;
  enum { kModules = 200 };
  static CUmodule modules[kModules];
  CUdeviceptr p = device_upload(x, sizeof x);
  for (int i = 0; i < kModules; i++) {
    CUfunction f;
    OK(cuModuleLoadData(&modules[i], image));
    OK(cuModuleGetFunction(&f, modules[i], "k"));
    OK(device_run(f, 4, 64, 0, (void *[]){&p}));
  }
  for (int i = 0; i < kModules; i++) OK(cuModuleUnload(modules[i]));
  OK(cuMemFree(p));
}

// Run again with checks and counters on: what they keep about an allocation is asked for, too.
static void test_allocating(void **state) {
  (void)state;
  CUresult r;
  CUdeviceptr p;
  int i = 0;
  do {
    failed = 0, for_good = false, countdown = i++;
    r = cuMemAlloc(&p, 4096);
    countdown = -1;
    if (failed) assert_int_equal(r, CUDA_ERROR_OUT_OF_MEMORY);
  } while (failed);
  assert_true(r == CUDA_SUCCESS &&
              i > 5); // the allocation, its mapping, three more, one that works
  OK(cuMemFree(p));
}

static void test_allocating_with_checks(void **state) {
  (void)state;
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) {
    setenv("NNGEN_SIM_CHECK", "all", 1);
    setenv("NNGEN_SIM_COUNT", "1", 1);
    if (!freopen("/dev/null", "w", stdout)) _exit(99);
    execl("/proc/self/exe", "test_resources", "allocating", NULL);
    _exit(98);
  }
  waitpid(pid, &status, 0);
  assert_int_equal(status, 0);
}

static int setup(void **state) {
  (void)state;
  if (!device_open() || !compile()) return -1;
  Dl_info info;
  dladdr((void *)cuInit, &info);
  sim_begin = (uintptr_t)info.dli_fbase;
  FILE *maps = (REAL(fopen))("/proc/self/maps", "r");
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    unsigned long begin, end;
    if (strstr(line, "libcusim") && sscanf(line, "%lx-%lx", &begin, &end) == 2) sim_end = end;
  }
  return fclose(maps);
}

int main(int argc, char **argv) {
  (void)argv;
  const struct CMUnitTest again[] = {cmocka_unit_test(test_allocating)};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_running),      cmocka_unit_test(test_compiling),
      cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_bad_compilers),
      cmocka_unit_test(test_many_modules), cmocka_unit_test(test_allocating_with_checks)};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  setenv("NNGEN_SIM_THREADS", "2", 1);
  if (argc > 1) return cmocka_run_group_tests(again, setup, NULL);
  return cmocka_run_group_tests(tests, setup, NULL);
}
