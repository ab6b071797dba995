// test_calls.c: the calls of the driver API and NVRTC that test_api.c has no need of, each with
// what it must give and an error it must give: device facts, contexts, host memory, pools, 16-bit
// sets, stream facts, launches by configuration, graphs made node by node. The same on a GPU.
#include "tests/sim/device.h"

#include <pthread.h>

#define BAD(call) assert_int_equal(call, CUDA_ERROR_INVALID_VALUE)

enum { kN = 256 };

static const char *source = "extern \"C\" __global__ void add(int *x, int v) {\n"
                            "  x[blockIdx.x * blockDim.x + threadIdx.x] += v; }\n";

static void expect_ints(CUdeviceptr p, int want) {
  int x[kN];
  OK(cuMemcpyDtoH(x, p, sizeof x));
  for (int i = 0; i < kN; i++) assert_int_equal(x[i], want);
}

static void test_device(void **state) {
  (void)state;
  int version = 0, count = 0, major = 0;
  CUdevice device = -1;
  char name[64] = "";
  size_t bytes = 0, free_bytes, total;
  OK(cuDriverGetVersion(&version));
  assert_true(version >= 12000);
  BAD(cuDriverGetVersion(NULL));
  OK(cuDeviceGetCount(&count));
  assert_true(count >= 1);
  OK(cuDeviceGet(&device, 0));
  assert_int_equal(device, 0);
  assert_int_equal(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
  OK(cuDeviceGetName(name, sizeof name, 0));
  assert_true(strlen(name) > 3);
  OK(cuDeviceTotalMem(&bytes, 0));
  OK(cuMemGetInfo(&free_bytes, &total));
  assert_true(free_bytes <= total && total <= bytes);
  OK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  assert_true(major >= 7);
  int pitch = 0;
  OK(cuDeviceGetAttribute(&pitch, (CUdevice_attribute)11, 0)); // CU_DEVICE_ATTRIBUTE_MAX_PITCH
  assert_int_equal(pitch, 0x7fffffff);
  BAD(cuDeviceGetAttribute(&major, (CUdevice_attribute)100000, 0));
}

static void test_contexts(void **state) {
  (void)state;
  CUcontext primary, other, got;
  CUdevice device = -1;
  int least = 0, greatest = 0;
  OK(cuCtxGetCurrent(&primary));
  assert_non_null(primary);
  OK(cuCtxGetDevice(&device));
  assert_int_equal(device, 0);
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  assert_true(greatest <= least);
  OK(cuCtxPopCurrent(&got));
  assert_ptr_equal(got, primary);
  OK(cuCtxGetCurrent(&got));
  assert_null(got);
  assert_int_equal(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxPushCurrent(primary));
  OK(cuDevicePrimaryCtxRetain(&got, 0));
  assert_ptr_equal(got, primary);
  OK(cuDevicePrimaryCtxRelease(0));
  OK(cuCtxCreate(&other, CU_CTX_SCHED_AUTO, 0));
  OK(cuCtxGetCurrent(&got));
  assert_ptr_equal(got, other);
  OK(cuCtxDestroy(other));
  OK(cuCtxSetCurrent(primary));
}

static void test_host_memory(void **state) {
  (void)state;
  static int registered[kN];
  int *host = NULL, type = 0;
  void *back = NULL;
  CUdeviceptr device = 0, start = 0, p = device_upload(NULL, sizeof registered);
  OK(cuMemAllocHost((void **)&host, sizeof registered));
  OK(cuMemHostGetDevicePointer(&device, host, 0));
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
  assert_int_equal(type, CU_MEMORYTYPE_HOST);
  OK(cuPointerGetAttribute(&back, CU_POINTER_ATTRIBUTE_HOST_POINTER, device));
  assert_ptr_equal(back, host);
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
  assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
  OK(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 8));
  assert_true(start == p);
  int local;
  BAD(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                            (CUdeviceptr)(uintptr_t)&local));
  for (int i = 0; i < kN; i++) host[i] = 5, registered[i] = 6;
  OK(cuMemcpy(p, (CUdeviceptr)(uintptr_t)host, sizeof registered)); // unified addresses
  expect_ints(p, 5);
  OK(cuMemFreeHost(host));
  OK(cuMemHostRegister(registered, sizeof registered, 0));
  assert_int_equal(cuMemHostRegister(registered, sizeof registered, 0),
                   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(cuMemcpyHtoDAsync(p, registered, sizeof registered, NULL));
  OK(cuCtxSynchronize());
  expect_ints(p, 6);
  OK(cuMemHostUnregister(registered));
  assert_int_equal(cuMemHostUnregister(registered), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  OK(cuMemFree(p));
  if (!on_gpu()) assert_int_equal(cuMemAllocManaged(&p, 64, 1), CUDA_ERROR_NOT_SUPPORTED);
}

static void test_pools(void **state) {
  (void)state;
  CUmemoryPool pool, mine;
  CUdeviceptr p = 0;
  CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                          .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
  uint64_t threshold = 1 << 20, got = 0;
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &got));
  assert_true(got == threshold);
  OK(cuMemPoolTrimTo(pool, 0));
  OK(cuMemPoolCreate(&mine, &props));
  OK(cuMemAllocFromPoolAsync(&p, kN * 4, mine, NULL));
  OK(cuMemsetD32Async(p, 9, kN, NULL));
  expect_ints(p, 9);
  OK(cuMemFreeAsync(p, NULL));
  if (!on_gpu()) { // where naming it again is not defined
    BAD(cuMemFreeAsync(p, NULL));
    BAD(cuMemFree(p));
    BAD(cuMemsetD8(p, 0, 1));
  }
  OK(cuCtxSynchronize());
  OK(cuMemPoolDestroy(mine));
}

// Rows of two elements, eight bytes from row to row; of kN * 4 bytes at p.
static void expect_2d(CUdeviceptr p) {
  int x[kN];
  OK(cuMemsetD32(p, 0, kN));
  OK(cuMemsetD2D8(p, 8, 1, 2, 3));
  OK(cuMemsetD2D16(p + 24, 8, 2, 2, 3));
  OK(cuMemsetD2D32(p + 48, 12, 3, 2, 3));
  OK(cuMemsetD2D8Async(p + 84, 8, 4, 2, 1, NULL));
  OK(cuMemsetD2D16Async(p + 92, 8, 5, 2, 1, NULL));
  OK(cuMemsetD2D32Async(p + 100, 8, 6, 2, 1, NULL));
  OK(cuMemcpyDtoH(x, p, sizeof x));
  static const int want[] = {0x101, 0, 0x101, 0, 0x101, 0, 0x20002, 0, 0x20002, 0, 0x20002, 0, 3, 3,
                             0, 3, 3, 0, 3, 3, 0, 0x404, 0, 0x50005, 0, 6, 6, 0};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) assert_int_equal(x[i], want[i]);
  BAD(cuMemsetD2D32(p, 4, 1, 2, 2));             // rows that overlap
  BAD(cuMemsetD2D8(p, 4 * kN, 1, 1, 2));         // past the end
  BAD(cuMemsetD2D16Async(p + 1, 8, 1, 2, 2, NULL)); // not on two bytes
}

static void test_copies(void **state) {
  (void)state;
  int host[kN];
  CUdeviceptr a = device_upload(NULL, sizeof host), b = device_upload(NULL, sizeof host);
  OK(cuMemsetD16Async(a, 0x0003, 2 * kN, NULL));
  expect_ints(a, 0x00030003);
  OK(cuMemcpyDtoD(b, a, sizeof host));
  expect_ints(b, 0x00030003);
  OK(cuMemsetD32(a, 4, kN));
  OK(cuMemcpyAsync(b, a, sizeof host, NULL));
  OK(cuMemcpyDtoHAsync(host, b, sizeof host, NULL));
  OK(cuCtxSynchronize());
  for (int i = 0; i < kN; i++) assert_int_equal(host[i], 4);
  BAD(cuMemcpyDtoD(b + 4, a, sizeof host));
  BAD(cuMemsetD16Async(a + 1, 1, 4, NULL)); // not on two bytes
  expect_2d(a);
  OK(cuMemFree(a));
  OK(cuMemFree(b));
}

static void test_streams(void **state) {
  (void)state;
  CUstream stream;
  CUevent event;
  int priority = 99, least, greatest;
  unsigned flags = 99;
  OK(cuCtxGetStreamPriorityRange(&least, &greatest));
  OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
  OK(cuStreamGetPriority(stream, &priority));
  assert_int_equal(priority, greatest);
  OK(cuStreamGetFlags(stream, &flags));
  assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
  BAD(cuStreamGetFlags(stream, NULL));
  CUdeviceptr p = device_upload(NULL, 4 * kN);
  OK(cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cuMemsetD32Async(p, 1, kN, stream));
  OK(cuEventRecordWithFlags(event, stream, 0));
  CUresult r = cuStreamQuery(stream);
  assert_true(r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY);
  OK(cuEventSynchronize(event));
  OK(cuStreamSynchronize(stream));
  OK(cuStreamQuery(stream));
  expect_ints(p, 1);
  OK(cuMemFree(p));
  OK(cuEventDestroy(event));
  OK(cuStreamDestroy(stream));
}

static void *see_no_capture(void *status) {
  CUcontext ctx;
  CUresult r = cuDevicePrimaryCtxRetain(&ctx, 0);
  if (!r) r = cuCtxSetCurrent(ctx);
  if (!r) r = cuStreamIsCapturing(CU_STREAM_PER_THREAD, status);
  return (void *)(intptr_t)r;
}

// Each thread has a default stream of its own, which waits for the legacy one, and can be captured.
static void test_stream_of_a_thread(void **state) {
  (void)state;
  CUstreamCaptureStatus mine, its = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CUgraph graph;
  pthread_t thread;
  void *result;
  CUdeviceptr p = device_upload(NULL, 4 * kN);
  OK(cuMemsetD32Async(p, 1, kN, NULL));
  OK(cuMemsetD32Async(p, 2, kN, CU_STREAM_PER_THREAD));
  OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  expect_ints(p, 2);
  OK(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cuMemsetD32Async(p, 3, kN, CU_STREAM_PER_THREAD));
  OK(cuStreamIsCapturing(CU_STREAM_PER_THREAD, &mine));
  assert_int_equal(mine, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  assert_int_equal(pthread_create(&thread, NULL, see_no_capture, &its), 0);
  assert_int_equal(pthread_join(thread, &result), 0);
  assert_null(result);
  assert_int_equal(its, CU_STREAM_CAPTURE_STATUS_NONE);
  OK(cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
  OK(cuGraphDestroy(graph));
  expect_ints(p, 2);
  OK(cuMemFree(p));
}

static void test_launch_by_configuration(void **state) {
  (void)state;
  CUmodule module = device_module(source);
  CUfunction add;
  OK(cuModuleGetFunction(&add, module, "add"));
  OK(cuFuncSetCacheConfig(add, 0));
  CUdeviceptr p = device_upload(NULL, 4 * kN);
  OK(cuMemsetD32(p, 10, kN));
  int v = 7;
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
  attribute.value.cooperative = 1;
  CUlaunchConfig config = {2, 1, 1, kN / 2, 1, 1, 0, NULL, &attribute, 1};
  OK(cuLaunchKernelEx(&config, add, (void *[]){&p, &v}, NULL));
  expect_ints(p, 17);
  config.sharedMemBytes = 48 << 10; // what a kernel has without asking for more
  v = 1;
  OK(cuLaunchKernelEx(&config, add, (void *[]){&p, &v}, NULL));
  expect_ints(p, 18);
  config.sharedMemBytes++;
  BAD(cuLaunchKernelEx(&config, add, (void *[]){&p, &v}, NULL));
  config.gridDimX = 0;
  BAD(cuLaunchKernelEx(&config, add, (void *[]){&p, &v}, NULL));
  if (!on_gpu()) {
    BAD(cuLaunchKernelEx(NULL, add, (void *[]){&p, &v}, NULL));
    BAD(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL)); // it has parameters
    BAD(cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&p, NULL}, NULL));
  }
  OK(cuMemFree(p));
  OK(cuModuleUnload(module));
}

static void test_graph_by_nodes(void **state) {
  (void)state;
  CUmodule module = device_module(source);
  CUfunction add;
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode first, second, from[4], to[4];
  size_t edges = 4, nodes = 0;
  OK(cuModuleGetFunction(&add, module, "add"));
  CUdeviceptr p = device_upload(NULL, 4 * kN);
  OK(cuMemsetD32(p, 0, kN));
  int v = 1, w = 20;
  CUDA_KERNEL_NODE_PARAMS params = {add,  2,    1,   1, kN / 2, 1, 1, 0, (void *[]){&p, &v},
                                    NULL, NULL, NULL};
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphAddKernelNode(&first, graph, NULL, 0, &params));
  params.kernelParams = (void *[]){&p, &w};
  OK(cuGraphAddKernelNode(&second, graph, &first, 1, &params));
  OK(cuGraphGetNodes(graph, NULL, &nodes));
  assert_int_equal(nodes, 2);
  OK(cuGraphGetEdges(graph, from, to, &edges));
  assert_int_equal(edges, 1);
  assert_true(from[0] == first && to[0] == second);
  OK(cuGraphInstantiate(&exec, graph, 0));
  OK(cuGraphUpload(exec, NULL));
  OK(cuGraphLaunch(exec, NULL));
  expect_ints(p, 21);
  w = 300;
  OK(cuGraphExecKernelNodeSetParams(exec, second, &params));
  OK(cuGraphLaunch(exec, NULL));
  expect_ints(p, 21 + 301);
  params.gridDimX = 0;
  BAD(cuGraphExecKernelNodeSetParams(exec, second, &params));
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
  OK(cuMemFree(p));
  OK(cuModuleUnload(module));
}

// All parameters in one buffer: each at its alignment, nothing behind the last. 701 is for a size
// that is not theirs; that of a struct of them, padded, is not.
static void test_parameter_buffer(void **state) {
  (void)state;
  CUfunction f = device_function(
      "extern \"C\" __global__ void k(char a, int *p, double d, short s) {\n"
      "  p[threadIdx.x] = a + 10 * int(d) + 100 * s; }\n",
      "k");
  struct {
    char a;
    CUdeviceptr p;
    double d;
    short s;
  } values = {3, device_upload(NULL, 4 * kN), 4.5, 7};
  assert_int_equal(sizeof values, 32);
  size_t bytes = 26;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &values, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  void *params[] = {&values.a, &values.p, &values.d, &values.s};
#define LAUNCH(params, extra) cuLaunchKernel(f, 1, 1, 1, kN, 1, 1, 0, NULL, params, extra)
  OK(LAUNCH(NULL, extra));
  expect_ints(values.p, 743);
  void *swapped[] = {extra[2], extra[3], extra[0], extra[1], CU_LAUNCH_PARAM_END};
  values.s = 8;
  OK(LAUNCH(NULL, swapped));
  expect_ints(values.p, 843);
  bytes = sizeof values;
  assert_int_equal(LAUNCH(NULL, extra), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  bytes = 4096;
  assert_int_equal(LAUNCH(NULL, extra), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  bytes = 26;
  assert_int_equal(LAUNCH(params, extra), CUDA_ERROR_INVALID_VALUE);
  if (!on_gpu()) {
    bytes = 24;
    assert_int_equal(LAUNCH(NULL, extra), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    void *unsized[] = {extra[0], extra[1], CU_LAUNCH_PARAM_END};
    assert_int_equal(LAUNCH(NULL, unsized), CUDA_ERROR_INVALID_VALUE);
    void *unknown[] = {(void *)7, &values, CU_LAUNCH_PARAM_END};
    assert_int_equal(LAUNCH(NULL, unknown), CUDA_ERROR_INVALID_VALUE);
  }
#undef LAUNCH
  OK(cuCtxSynchronize());
  expect_ints(values.p, 843);
  OK(cuMemFree(values.p));
}

// A call that a capture forbids is let through for a thread in relaxed mode.
static void test_capture_mode(void **state) {
  (void)state;
  CUstream stream;
  CUgraph graph;
  CUdeviceptr p;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  OK(cuMemAlloc(&p, 64));
  OK(cuMemFree(p));
  OK(cuThreadExchangeStreamCaptureMode(&mode));
  assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  OK(cuStreamEndCapture(stream, &graph));
  OK(cuGraphDestroy(graph));
  OK(cuStreamDestroy(stream));
}

// Neither an ELF file that is no kernel image, nor one that is no ELF file.
static void test_foreign_images(void **state) {
  (void)state;
  static const char text[] =
      "not a kernel image, but long enough for the header of one: 0123456789";
  CUmodule module;
  assert_int_equal(cuModuleLoadDataEx(&module, text, 0, NULL, NULL), CUDA_ERROR_INVALID_IMAGE);
  if (on_gpu()) return;
  assert_int_equal(cuModuleLoad(&module, "/proc/self/exe"), CUDA_ERROR_INVALID_IMAGE);
  assert_int_equal(cuModuleLoad(&module, "build/libcusim.so"), CUDA_ERROR_INVALID_IMAGE);
}

static void test_nvrtc(void **state) {
  (void)state;
  int major = 0, minor = 0, count = 0, list[64];
  assert_int_equal(nvrtcVersion(&major, &minor), NVRTC_SUCCESS);
  assert_true(major >= 12);
  assert_int_equal(nvrtcVersion(NULL, &minor), NVRTC_ERROR_INVALID_INPUT);
  assert_int_equal(nvrtcGetNumSupportedArchs(&count), NVRTC_SUCCESS);
  assert_true(count > 3 && count <= 64);
  assert_int_equal(nvrtcGetSupportedArchs(list), NVRTC_SUCCESS);
  bool hopper = false;
  for (int i = 0; i < count; i++) hopper = hopper || list[i] == 90;
  assert_true(hopper);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_device),
                                     cmocka_unit_test(test_contexts),
                                     cmocka_unit_test(test_host_memory),
                                     cmocka_unit_test(test_pools),
                                     cmocka_unit_test(test_copies),
                                     cmocka_unit_test(test_streams),
                                     cmocka_unit_test(test_stream_of_a_thread),
                                     cmocka_unit_test(test_launch_by_configuration),
                                     cmocka_unit_test(test_parameter_buffer),
                                     cmocka_unit_test(test_graph_by_nodes),
                                     cmocka_unit_test(test_capture_mode),
                                     cmocka_unit_test(test_foreign_images),
                                     cmocka_unit_test(test_nvrtc)};
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
