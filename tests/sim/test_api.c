// test_api.c: the driver API as a program meets it: memory, copies, streams, events, modules,
// graphs, occupancy, and the error each misuse gets. The same calls as on a GPU.
#include "tests/sim/device.h"

static const char *scale_source =
    "extern \"C\" __global__ void scale(float *x, float a, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= a; }\n"
    "extern \"C\" __global__ void add(float *x, const float *y, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += y[i]; }\n"
    "__device__ float table[4] = {1, 2, 3, 4};\n"
    "extern \"C\" __global__ void __launch_bounds__(128) bounded(float *x) {\n"
    "  __shared__ float s[1024]; s[threadIdx.x] = table[threadIdx.x % 4]; __syncthreads();\n"
    "  x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x]; }\n";

enum { kN = 1000 };

typedef struct Fixture {
  CUmodule module;
  CUfunction scale, add, bounded;
  CUdeviceptr x, y;
  CUstream a, b;
  float host[kN];
} Fixture;

static int setup(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  *state = f;
  f->module = device_module(scale_source);
  OK(cuModuleGetFunction(&f->scale, f->module, "scale"));
  OK(cuModuleGetFunction(&f->add, f->module, "add"));
  OK(cuModuleGetFunction(&f->bounded, f->module, "bounded"));
  for (int i = 0; i < kN; i++) f->host[i] = (float)i;
  f->x = device_upload(f->host, sizeof f->host);
  f->y = device_upload(f->host, sizeof f->host);
  OK(cuStreamCreate(&f->a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&f->b, CU_STREAM_NON_BLOCKING));
  return 0;
}

static int teardown(void **state) {
  Fixture *f = *state;
  OK(cuStreamDestroy(f->a));
  OK(cuStreamDestroy(f->b));
  OK(cuMemFree(f->x));
  OK(cuMemFree(f->y));
  OK(cuModuleUnload(f->module));
  free(f);
  return 0;
}

static CUresult scale_on(Fixture *f, CUstream stream, CUdeviceptr x, float a) {
  int n = kN;
  return cuLaunchKernel(f->scale, 8, 1, 1, 128, 1, 1, 0, stream, (void *[]){&x, &a, &n}, NULL);
}

static void expect(Fixture *f, CUdeviceptr x, float factor) {
  float out[kN];
  OK(cuMemcpyDtoH(out, x, sizeof out));
  for (int i = 0; i < kN; i++) assert_true(out[i] == f->host[i] * factor);
}

static void test_memory(void **state) {
  Fixture *f = *state;
  size_t before, after, total, bytes;
  CUdeviceptr p, base, q;
  OK(cuMemGetInfo(&before, &total));
  OK(cuMemAlloc(&p, 5 << 20));
  OK(cuMemGetInfo(&after, &total));
  assert_true(before - after >= 5 << 20);
  assert_int_equal(p % 256, 0);
  OK(cuMemGetAddressRange(&base, &bytes, p + 1234));
  assert_true(base == p && bytes == 5 << 20);
  OK(cuMemFree(p));
  assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuMemAlloc(&p, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemsetD32(f->x, 0x3f800000, kN));
  OK(cuMemsetD16(f->x, 0, 4));
  OK(cuMemsetD8(f->x + 8, 0, 4));
  float out[4];
  OK(cuMemcpyDtoH(out, f->x, sizeof out));
  assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0 && out[3] == 1);
  assert_int_equal(cuMemcpyHtoD(f->x, f->host, sizeof f->host + 4), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAllocAsync(&q, 4096, f->a));
  OK(cuMemsetD8Async(q, 7, 4096, f->a));
  OK(cuMemFreeAsync(q, f->a));
  OK(cuStreamSynchronize(f->a));
}

static void test_copies_2d(void **state) {
  (void)state;
  CUdeviceptr p;
  size_t pitch;
  OK(cuMemAllocPitch(&p, &pitch, 12, 5, 4));
  assert_true(pitch >= 12);
  int in[5][4], out[5][3];
  for (int i = 0; i < 20; i++) in[i / 4][i % 4] = i;
  CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = in,
                        .srcXInBytes = 4,
                        .srcPitch = 16,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = p,
                        .dstPitch = pitch,
                        .WidthInBytes = 12,
                        .Height = 5};
  OK(cuMemcpy2D(&copy));
  CUDA_MEMCPY2D back = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = p,
                        .srcPitch = pitch,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = out,
                        .dstPitch = 12,
                        .WidthInBytes = 12,
                        .Height = 5};
  OK(cuMemcpy2DAsync(&back, NULL));
  OK(cuCtxSynchronize());
  for (int i = 0; i < 15; i++) assert_int_equal(out[i / 3][i % 3], i / 3 * 4 + i % 3 + 1);
  OK(cuMemFree(p));
}

// Work on two streams, ordered by an event alone; pinned memory is read when the copy runs.
static void test_streams(void **state) {
  Fixture *f = *state;
  CUevent event;
  float *pinned;
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuMemHostAlloc((void **)&pinned, sizeof f->host, 0));
  for (int i = 0; i < kN; i++) pinned[i] = 2 * f->host[i];
  OK(cuMemcpyHtoDAsync(f->x, pinned, sizeof f->host, f->a));
  OK(scale_on(f, f->a, f->x, 3));
  OK(cuEventRecord(event, f->a));
  OK(cuStreamWaitEvent(f->b, event, 0));
  OK(scale_on(f, f->b, f->x, 5));
  OK(cuStreamSynchronize(f->b));
  expect(f, f->x, 30);
  OK(cuEventQuery(event));
  OK(cuEventDestroy(event));
  OK(cuMemFreeHost(pinned));
  assert_int_equal(cuStreamSynchronize((CUstream)(uintptr_t)0x1234), CUDA_ERROR_INVALID_HANDLE);
}

static void test_events(void **state) {
  Fixture *f = *state;
  CUevent begin, end;
  OK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  OK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  float ms = -1;
  assert_int_equal(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_INVALID_HANDLE);
  OK(cuEventRecord(begin, f->a));
  for (int i = 0; i < 10; i++) OK(scale_on(f, f->a, f->x, 1));
  OK(cuEventRecord(end, f->a));
  OK(cuEventSynchronize(end));
  OK(cuEventElapsedTime(&ms, begin, end));
  assert_true(ms > 0 && ms < 10000);
  OK(cuEventDestroy(begin));
  OK(cuEventDestroy(end));
}

static void bump(void *data) {
  ++*(int *)data;
}

static void test_host_functions(void **state) {
  Fixture *f = *state;
  int count = 0;
  OK(cuLaunchHostFunc(f->a, bump, &count));
  OK(cuLaunchHostFunc(f->a, bump, &count));
  OK(cuStreamSynchronize(f->a));
  assert_int_equal(count, 2);
}

static void test_modules(void **state) {
  Fixture *f = *state;
  CUfunction none;
  CUdeviceptr table;
  size_t bytes;
  assert_int_equal(cuModuleGetFunction(&none, f->module, "nothing"), CUDA_ERROR_NOT_FOUND);
  OK(cuModuleGetGlobal(&table, &bytes, f->module, "table"));
  assert_int_equal(bytes, 16);
  float values[4] = {5, 6, 7, 8};
  OK(cuMemcpyHtoD(table, values, sizeof values));
  OK(device_run(f->bounded, 1, 128, 0, (void *[]){&f->x}));
  float out[128];
  OK(cuMemcpyDtoH(out, f->x, sizeof out));
  for (int i = 0; i < 128; i++) assert_true(out[i] == values[(127 - i) % 4]);
  assert_int_equal(cuModuleGetGlobal(&table, &bytes, f->module, "nope"), CUDA_ERROR_NOT_FOUND);
  CUmodule bad;
  char garbage[4096] = "no image of ours";
  assert_int_not_equal(cuModuleLoadData(&bad, garbage), CUDA_SUCCESS);
}

static void test_functions(void **state) {
  Fixture *f = *state;
  int value, blocks, grid, block;
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f->bounded));
  assert_int_equal(value, 128);
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f->bounded));
  assert_int_equal(value, 4096);
  OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f->bounded));
  assert_in_range(value, 1, 255);
  OK(cuFuncSetAttribute(f->scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10));
  assert_int_equal(
      cuFuncSetAttribute(f->scale, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
      CUDA_ERROR_INVALID_VALUE);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f->scale, 1024, 0));
  assert_in_range(blocks, 1, 2);
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f->scale, 64, 90 << 10));
  assert_in_range(blocks, 1, 2);
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f->bounded, NULL, 0, 0));
  assert_in_range(block, 32, 128);
}

static void test_launch_errors(void **state) {
  Fixture *f = *state;
  CUdeviceptr x = f->x;
  float a = 1;
  int n = kN;
  void *params[] = {&x, &a, &n};
  CUfunction s = f->scale;
#define LAUNCH(gx, gy, bx, by, smem)                                                               \
  cuLaunchKernel(s, gx, gy, 1, bx, by, 1, smem, NULL, params, NULL)
  assert_int_equal(LAUNCH(0, 1, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(LAUNCH(1, 65536, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(LAUNCH(1u << 31, 1, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(LAUNCH(1, 1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(LAUNCH(1, 1, 1025, 1, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(LAUNCH(1, 1, 64, 32, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(LAUNCH(1, 1, 32, 1, 49 << 10), CUDA_ERROR_INVALID_VALUE);
#undef LAUNCH
  assert_int_equal(cuLaunchKernel(f->bounded, 1, 1, 1, 256, 1, 1, 0, NULL, (void *[]){&x}, NULL),
                   on_gpu() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_VALUE);
  OK(cuCtxSynchronize());
  expect(f, f->x, 1);
}

static void capture_chain(Fixture *f, CUgraph *graph, float factor) {
  CUevent fork, join;
  OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  int n = kN;
  OK(cuStreamBeginCapture(f->a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(scale_on(f, f->a, f->x, factor));
  OK(cuEventRecord(fork, f->a));
  OK(cuStreamWaitEvent(f->b, fork, 0));
  OK(cuMemcpyDtoDAsync(f->y, f->x, sizeof f->host, f->b));
  OK(cuEventRecord(join, f->b));
  OK(cuStreamWaitEvent(f->a, join, 0));
  OK(cuLaunchKernel(f->add, 8, 1, 1, 128, 1, 1, 0, f->a, (void *[]){&f->x, &f->y, &n}, NULL));
  CUstreamCaptureStatus status;
  OK(cuStreamIsCapturing(f->b, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  OK(cuStreamEndCapture(f->a, graph));
  OK(cuStreamIsCapturing(f->a, &status));
  assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
  OK(cuEventDestroy(fork));
  OK(cuEventDestroy(join));
}

static void test_graphs(void **state) {
  Fixture *f = *state;
  CUgraph graph, other;
  CUgraphExec exec;
  capture_chain(f, &graph, 3);
  expect(f, f->x, 1); // capturing runs nothing
  OK(cuGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; i++) OK(cuGraphLaunch(exec, f->a));
  OK(cuStreamSynchronize(f->a));
  expect(f, f->x, 36); // (x * 3 + x * 3) twice
  size_t count = 0;
  OK(cuGraphGetNodes(graph, NULL, &count));
  assert_int_equal(count, 3);
  CUgraphNode nodes[3];
  OK(cuGraphGetNodes(graph, nodes, &count));
  int kernels = 0;
  for (int i = 0; i < 3; i++) {
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(nodes[i], &type));
    CUDA_KERNEL_NODE_PARAMS params;
    if (type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    OK(cuGraphKernelNodeGetParams(nodes[i], &params));
    assert_int_equal(params.blockDimX, 128);
    kernels++;
  }
  assert_int_equal(kernels, 2);
  capture_chain(f, &other, 0.5f); // halves, then doubles
  CUgraphExecUpdateResultInfo info;
  OK(cuGraphExecUpdate(exec, other, &info));
  OK(cuGraphLaunch(exec, f->a));
  OK(cuStreamSynchronize(f->a));
  expect(f, f->x, 36);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuGraphDestroy(other));
}

static void test_capture_errors(void **state) {
  Fixture *f = *state;
  CUgraph graph;
  OK(cuStreamBeginCapture(f->a, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(scale_on(f, f->a, f->x, 2));
  assert_int_equal(cuStreamSynchronize(f->a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  assert_int_equal(cuStreamEndCapture(f->a, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  assert_null(graph);
  CUevent event;
  OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cuStreamBeginCapture(f->a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(scale_on(f, f->a, f->x, 2));
  OK(cuEventRecord(event, f->a));
  OK(cuStreamWaitEvent(f->b, event, 0));
  OK(scale_on(f, f->b, f->x, 2)); // forked, never joined
  assert_int_equal(cuStreamEndCapture(f->a, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  OK(cuEventDestroy(event));
  assert_int_equal(cuStreamEndCapture(f->a, &graph), CUDA_ERROR_ILLEGAL_STATE);
  OK(cuCtxSynchronize());
  expect(f, f->x, 1);
}

static void test_cooperative(void **state) {
  Fixture *f = *state;
  int n = kN;
  float a = 2;
  void *params[] = {&f->x, &a, &n};
  CUresult r = cuLaunchCooperativeKernel(f->scale, 8, 1, 1, 128, 1, 1, 0, f->a, params);
  OK(r);
  OK(cuStreamSynchronize(f->a));
  expect(f, f->x, 2);
  assert_int_equal(cuLaunchCooperativeKernel(f->scale, 1 << 20, 1, 1, 128, 1, 1, 0, f->a, params),
                   CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

// Blocks that wait for each other, more of them than the host has cores.
static void test_grid_barrier(void **state) {
  (void)state;
  enum { kBlocks = 24 };
  CUfunction f = device_function(
      "extern \"C\" __global__ void k(int *arrived, int *x, int *y) {\n"
      "  int b = blockIdx.x, n = gridDim.x;\n"
      "  if (threadIdx.x == 0) { x[b] = b; __threadfence(); atomicAdd(arrived, 1);\n"
      "    while (atomicAdd(arrived, 0) < n) {} __threadfence();\n"
      "    y[b] = *(volatile int *)&x[(b + 7) % n]; }\n"
      "  __syncthreads(); }\n",
      "k");
  int zero = 0, y[kBlocks];
  CUdeviceptr arrived = device_upload(&zero, 4), px = device_upload(NULL, sizeof y);
  CUdeviceptr py = device_upload(NULL, sizeof y);
  void *params[] = {&arrived, &px, &py};
  CUresult r = cuLaunchCooperativeKernel(f, kBlocks, 1, 1, 64, 1, 1, 0, NULL, params);
  OK(r);
  OK(cuMemcpyDtoH(y, py, sizeof y));
  for (int b = 0; b < kBlocks; b++) assert_int_equal(y[b], (b + 7) % kBlocks);
}

// Each thread of a kernel without barriers runs once, as itself, with its own copy of the
// parameters, whichever threads before it returned early.
static void test_shape(void **state) {
  (void)state;
  CUfunction f = device_function(
      "struct Params { int *out, offset[3]; };\n"
      "extern \"C\" __global__ void k(Params p) {\n"
      "  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;\n"
      "  int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;\n"
      "  p.offset[1] += block * blockDim.x * blockDim.y * blockDim.z + t;\n"
      "  if (p.offset[1] % 5 == 3) return;\n"
      "  p.out[p.offset[1] - p.offset[0]] += p.offset[1]; }\n",
      "k");
  enum { kThreads = 3 * 1 * 2 * 5 * 7 * 4 };
  int out[kThreads] = {0};
  struct {
    CUdeviceptr out;
    int offset[3];
  } params = {device_upload(out, sizeof out), {2, 2, 0}};
  OK(cuLaunchKernel(f, 3, 1, 2, 5, 7, 4, 0, NULL, (void *[]){&params}, NULL));
  OK(cuMemcpyDtoH(out, params.out, sizeof out));
  for (int i = 0; i < kThreads; i++) assert_int_equal(out[i], (i + 2) % 5 == 3 ? 0 : i + 2);
  OK(cuMemFree(params.out));
}

// After a fault every call reports it, as on a GPU; so this comes last.
static void test_sticky_error(void **state) {
  (void)state;
  CUfunction f = device_function("extern \"C\" __global__ void k(float *p) { *p = 1; }", "k");
  CUdeviceptr null = 0, p;
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&null}, NULL));
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(cuMemAlloc(&p, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
}

#define API_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {API_TEST(test_memory),
                                     API_TEST(test_copies_2d),
                                     API_TEST(test_streams),
                                     API_TEST(test_events),
                                     API_TEST(test_host_functions),
                                     API_TEST(test_modules),
                                     API_TEST(test_functions),
                                     API_TEST(test_launch_errors),
                                     API_TEST(test_graphs),
                                     API_TEST(test_capture_errors),
                                     API_TEST(test_cooperative),
                                     cmocka_unit_test(test_grid_barrier),
                                     cmocka_unit_test(test_shape),
                                     cmocka_unit_test(test_sticky_error)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
