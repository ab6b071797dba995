// test_reports.c: a fault's report names the kernel, its layer, block, thread, source line, address
// and tensor, and ends the launch with the driver's error; a launch that never ends has one, too.
// Each case runs in a process of its own, because a fault ends the device. Only on libcusim.
#include "tests/sim/device.h"

#include <sys/wait.h>
#include <unistd.h>

#include "sim/names.h"

typedef struct Case {
  const char *name, *check, *body; // of kernel k(float *a, float *b, int n), at line 3
  CUresult error;
  const char *texts[8]; // all in the report
} Case;

#define WHERE "kernel k, layer block1.conv, block (1,0,0), thread (5,0,0), fault.cu:3"

static const Case cases[] = {
    {"past the end of a tensor inside an allocation",
     "address",
     "if (blockIdx.x == 1 && t == 5) a[128] = 1;",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"write of 4 bytes at 0x", "0 bytes past the end of tensor conv.out",
      "offset 512 of allocation 1 of 1024 bytes", WHERE, "CUDA_ERROR_ILLEGAL_ADDRESS"}},
    {"read of memory nobody wrote",
     "address",
     "if (blockIdx.x == 1 && t == 5) b[0] = b[3];",
     CUDA_ERROR_LAUNCH_FAILED,
     {"read of 4 bytes that nobody wrote", "byte 12 of tensor conv.out", WHERE}},
    {"several checks",
     "race,address",
     "if (blockIdx.x == 1 && t == 5) b[0] = b[3];",
     CUDA_ERROR_LAUNCH_FAILED,
     {"read of 4 bytes that nobody wrote", WHERE}},
    {"a part of a check's name",
     "addr",
     "if (blockIdx.x == 1 && t == 5) b[0] = b[3];",
     CUDA_SUCCESS,
     {"NNGEN_SIM_CHECK=addr: `addr` is ignored: expected off, or some of basic, race"}},
    {"more than a check's name",
     "addresses,all",
     "if (blockIdx.x == 1 && t == 5) b[0] = b[3];",
     CUDA_ERROR_LAUNCH_FAILED,
     {"NNGEN_SIM_CHECK=addresses,all: `addresses` is ignored", WHERE}},
    {"race of two blocks",
     "race",
     "if (t == 5) b[3] = blockIdx.x;",
     CUDA_ERROR_LAUNCH_FAILED,
     {"race on global memory", "byte 12 of tensor conv.out", WHERE}},
    {"race of two blocks of a cooperative launch",
     "race",
     "if (t == 5) b[3] = blockIdx.x;",
     CUDA_ERROR_LAUNCH_FAILED,
     {"race on global memory", "byte 12 of tensor conv.out", "kernel k, layer block1.conv"}},
    {"a block that waits for one that failed, cooperative",
     "basic",
     "if (blockIdx.x == 1 && t == 5) a[1 << 28] = 1; else while (!atomicAdd((int *)a, 0)) ;",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"illegal access to 0x", WHERE}},
    {"wild pointer, default checks",
     "basic",
     "if (blockIdx.x == 1 && t == 5) a[1 << 28] = 1;",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"illegal access to 0x", WHERE}},
    {"wild pointer, three dimensions",
     "basic",
     "if (blockIdx.x == 1 && t == 1 && threadIdx.y == 2 && threadIdx.z == 3) a[1 << 28] = 1;",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"illegal access to 0x", "block (1,0,0), thread (1,2,3), fault.cu:3"}},
    {"just past the allocation, default checks",
     "basic",
     "if (blockIdx.x == 1 && t == 5) b[192] = 1;",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"illegal access to 0x", ", a write: 512 bytes past the end of tensor conv.out", WHERE,
      "fault.cu:3 (CUDA_ERROR_ILLEGAL_ADDRESS)"}},
    {"read past the allocation, default checks",
     "basic",
     "if (blockIdx.x == 1 && t == 5) a[0] = b[192];",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"illegal access to 0x", ", a read: 512 bytes past the end of tensor conv.out", WHERE}},
    {"a pointer that no address space has",
     "basic",
     "if (blockIdx.x == 1 && t == 5) a[0] = *(float *)0x5a5a5a5a5a5a5a58ull;",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"illegal access t", WHERE, "CUDA_ERROR_ILLEGAL_ADDRESS"}},
#if defined(__x86_64__) // others move it
    {"a vector moved whole that is not aligned",
     "basic",
     "if (blockIdx.x == 1 && t == 5) *(float4 *)(a + 20) = *(float4 *)(a + 1);",
     CUDA_ERROR_MISALIGNED_ADDRESS,
     {"misaligned ", "access", WHERE, "CUDA_ERROR_MISALIGNED_ADDRESS"}},
#endif
    {"misaligned vector",
     "basic",
     "if (blockIdx.x == 1 && t == 5) { auto v = nn_load<4>(a + 1);"
     " b[t] = v[0] + v[1] + v[2] + v[3];"
     " }",
     CUDA_ERROR_MISALIGNED_ADDRESS,
     {"misaligned access", "byte 4 of tensor conv.weight", WHERE}},
    {"misaligned vector of which a member is used, as by a GPU's scalar load",
     "all",
     "if (blockIdx.x == 1 && t == 5) { float4 *v = (float4 *)(a + 1); v->w = v->y + 1; }",
     CUDA_SUCCESS,
     {""}},
    {"static shared memory nobody wrote",
     "race",
     "__shared__ float s[64]; if (n == 0) s[t] = 1; if (blockIdx.x == 1 && t == 5) b[t] = s[t];",
     CUDA_ERROR_LAUNCH_FAILED,
     {"no thread of this block wrote", "offset 20 of static shared memory of 256 bytes", WHERE}},
    {"division by zero, which a GPU does not report",
     "basic",
     "if (blockIdx.x == 1 && t == 5) b[0] = t / (n - 3);",
     CUDA_ERROR_LAUNCH_FAILED,
     {"integer division by zero: a GPU continues", WHERE, "CUDA_ERROR_LAUNCH_FAILED"}},
    {"remainder of zero, unsigned",
     "basic",
     "if (blockIdx.x == 1 && t == 5) b[0] = (unsigned)t % (n - 3);",
     CUDA_ERROR_LAUNCH_FAILED,
     {"integer division by zero: a GPU continues", WHERE}},
    {"freed memory",
     "basic",
     "if (blockIdx.x == 1 && t == 5) a[3] = 1;",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"offset 12 of allocation 1 of 1024 bytes, which was freed", WHERE}},
    {"freed memory, every access traced",
     "address",
     "if (blockIdx.x == 1 && t == 5) a[3] = 1;",
     CUDA_ERROR_ILLEGAL_ADDRESS,
     {"write of 4 bytes at 0x", "offset 12 of allocation 1 of 1024 bytes, which was freed", WHERE}},
    {"calls deeper than the stack", // of PTX, variables have their room, calls in themselves none
     "basic",
     "struct Sum { static __device__ float of(int k) { volatile float v[500]; v[k & 255] = k; "
     "return k ? of(k - 1) + v[k & 255] : v[0]; } };"
     "if (blockIdx.x == 1 && t == 5) b[0] = Sum::of(1000 + n);",
     CUDA_ERROR_HARDWARE_STACK_ERROR,
     {"stack overflow: NNGEN_SIM_STACK_KIB gives each thread more than 64 KiB", "kernel k",
      "CUDA_ERROR_HARDWARE_STACK_ERROR"}},
    {"spinning on a plain load",
     "basic",
     "if (blockIdx.x == 1 && t == 5) while (!((volatile float *)a)[0]) ;",
     CUDA_ERROR_LAUNCH_TIMEOUT,
     {"does not end", WHERE, "CUDA_ERROR_LAUNCH_TIMEOUT"}},
    {"slow threads that all end", // each in a tenth of the timeout, all of them in six times that
     "basic",
     "for (long long begin = clock64(); clock64() - begin < 20000000;) ;",
     CUDA_SUCCESS,
     {""}},
    {"endless loop with barriers",
     "basic",
     "if (blockIdx.x == 1) for (;;) __syncthreads();",
     CUDA_ERROR_LAUNCH_TIMEOUT,
     {"does not end", "kernel k, layer block1.conv, block (1,0,0)"}},
    {"endless loop with atomics",
     "basic",
     "if (blockIdx.x == 1) while (!atomicAdd((int *)a, 0)) ;",
     CUDA_ERROR_LAUNCH_TIMEOUT,
     {"does not end", "kernel k, layer block1.conv, block (1,0,0)"}},
    {"endless loop, every access traced",
     "all",
     "if (blockIdx.x == 1 && t == 5) while (!((volatile float *)a)[0]) ;",
     CUDA_ERROR_LAUNCH_TIMEOUT,
     {"does not end", "kernel k, layer block1.conv, block (1,0,0)"}},
};
enum { kCases = sizeof cases / sizeof *cases };

// a: 64 floats, zero; b: 64 floats behind them, never written; 128 more, all one allocation.
static CUresult run_case(const Case *c) {
  char source[1024];
  snprintf(
      source, sizeof source,
      "#include \"lib/prim.cuh\"\nextern \"C\" __global__ void k(float *a, float *b, int n) {\n"
      "int t = threadIdx.x; (void)t; %s\n}\n",
      c->body);
  char *image, *log;
  CUmodule module;
  CUfunction f;
  CUdeviceptr memory;
  int n = 3;
  CusimNameLaunch name;
  *(void **)&name = dlsym(
      dlopen(getenv("CUSIM_LIBRARY") ? getenv("CUSIM_LIBRARY") : "build/libcusim.so", RTLD_NOW),
      "cusimNameLaunch");
  if (device_compile(source, "fault.cu", &image, &log) != NVRTC_SUCCESS)
    return fprintf(stderr, "%s", log), CUDA_ERROR_UNKNOWN;
  if (!name || cuModuleLoadData(&module, image) || cuModuleGetFunction(&f, module, "k") ||
      cuMemAlloc(&memory, 1024) || cuMemsetD8(memory, 0, 256))
    return CUDA_ERROR_UNKNOWN;
  CUdeviceptr b = memory + 256, again;
  if (strstr(c->name, "freed") && (cuMemFree(memory) || cuMemAlloc(&again, 1024)))
    return CUDA_ERROR_UNKNOWN;
  const CusimTensor tensors[] = {{memory, 256, "conv.weight"}, {b, 256, "conv.out"}};
  void *params[] = {&memory, &b, &n};
  if (name("block1.conv", 2, tensors)) return CUDA_ERROR_UNKNOWN;
  unsigned side = strstr(c->name, "three dimensions") ? 4 : 1;
  if (strstr(c->name, "cooperative")
          ? cuLaunchCooperativeKernel(f, 2, 1, 1, 64, 1, 1, 0, NULL, params)
          : cuLaunchKernel(f, 2, 1, 1, 64 / side / side, side, side, 0, NULL, params, NULL))
    return CUDA_ERROR_UNKNOWN;
  return cuCtxSynchronize();
}

static void test_case(void **state) {
  const Case *c = *state;
  char path[] = "/tmp/report-XXXXXX";
  int fd = mkstemp(path), status = 0;
  assert_true(fd >= 0);
  pid_t pid = fork();
  if (pid == 0) {
    setenv("NNGEN_SIM_CHECK", c->check, 1);
    setenv("NNGEN_SIM_TIMEOUT", "0.2", 1);
    setenv("NNGEN_SIM_SEED", "0", 1);
    dup2(fd, 2);
    if (!device_open()) _exit(96);
    alarm(120);
    _exit(run_case(c) == c->error ? 0 : 1);
  }
  waitpid(pid, &status, 0);
  close(fd);
  char *report = file_read(path);
  unlink(path);
  assert_non_null(report);
  if (status) fail_msg("status %x, %s", status, report);
  for (int i = 0; c->texts[i]; i++)
    if (!strstr(report, c->texts[i])) fail_msg("`%s` is not in: %s", c->texts[i], report);
  free(report);
}

int main(void) {
  struct CMUnitTest tests[kCases];
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  for (int i = 0; i < kCases; i++)
    tests[i] = (struct CMUnitTest){cases[i].name, test_case, NULL, NULL, (void *)&cases[i]};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
