// test_handles.c: handles that were never given or are freed are answered with an error, never
// followed; a graph whose module is gone is refused. Only on libcusim.
#include "tests/sim/device.h"

static const char *source = "extern \"C\" __global__ void k(float *x) { x[threadIdx.x] = 1; }\n";
static _Alignas(64) char garbage[4096];

static void check_events(CUevent e) {
  CUevent good;
  float ms;
  OK(cuEventCreate(&good, 0));
  OK(cuEventRecord(good, NULL));
  assert_int_equal(cuEventRecord(e, NULL), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventSynchronize(e), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuStreamWaitEvent(NULL, e, 0), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventElapsedTime(&ms, good, e), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuEventDestroy(e), CUDA_ERROR_INVALID_HANDLE);
  OK(cuEventDestroy(good));
}

static void check_graphs(CUgraph g, CUgraphExec x, CUgraphNode n) {
  CUgraph graph;
  CUgraphExec exec;
  CUgraphNode node;
  CUgraphNodeType type;
  CUDA_KERNEL_NODE_PARAMS params = {0};
  size_t count = 0;
  OK(cuGraphCreate(&graph, 0));
  OK(cuGraphInstantiate(&exec, graph, 0));
  assert_int_equal(cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphInstantiate(&exec, g, 0), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphGetNodes(g, NULL, &count), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphLaunch(x, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphUpload(x, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphExecDestroy(x), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphExecUpdate(x, graph, NULL), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphNodeGetType(n, &type), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphKernelNodeGetParams(n, &params), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphExecKernelNodeSetParams(exec, n, &params), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphAddKernelNode(&node, graph, &n, 1, &params), CUDA_ERROR_INVALID_VALUE);
  OK(cuGraphExecDestroy(exec));
  OK(cuGraphDestroy(graph));
}

static void check_rest(CUstream s, CUmodule m, CUfunction f) {
  int value;
  assert_int_equal(cuStreamSynchronize(s), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuModuleGetFunction(&f, m, "k"), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f),
                   CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&value}, NULL),
                   CUDA_ERROR_INVALID_HANDLE);
}

static void test_wild(void **state) {
  (void)state;
  memset(garbage, 0x5a, sizeof garbage);
  void *const wild[] = {NULL, (void *)0x1234, garbage, (void *)-1l};
  for (int i = 0; i < 4; i++) {
    check_events(wild[i]);
    check_graphs(wild[i], wild[i], wild[i]);
    if (i) check_rest(wild[i], wild[i], wild[i]);
  }
}

static CUmodule load(CUfunction *f) {
  char *image, *log;
  CUmodule module;
  if (device_compile(source, "k.cu", &image, &log)) fail_msg("%s", log);
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(f, module, "k"));
  free(image), free(log);
  return module;
}

static CUgraph capture(CUstream s, CUfunction f, CUdeviceptr *p) {
  CUgraph graph;
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, (void *[]){p}, NULL));
  OK(cuStreamEndCapture(s, &graph));
  return graph;
}

static void test_freed(void **state) {
  (void)state;
  CUevent e;
  CUstream s;
  CUfunction f;
  CUgraphExec x;
  CUgraphNode n;
  size_t count = 1;
  CUmodule m = load(&f);
  CUdeviceptr p = device_upload(NULL, 128);
  OK(cuEventCreate(&e, 0));
  OK(cuStreamCreate(&s, 0));
  CUgraph g = capture(s, f, &p);
  OK(cuGraphGetNodes(g, &n, &count));
  OK(cuGraphInstantiate(&x, g, 0));
  OK(cuEventDestroy(e));
  OK(cuGraphDestroy(g));
  OK(cuGraphExecDestroy(x));
  OK(cuStreamDestroy(s));
  OK(cuModuleUnload(m));
  check_rest(s, m, f);
  assert_int_equal(cuEventDestroy(e), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
  assert_int_equal(cuGraphLaunch(x, NULL), CUDA_ERROR_INVALID_VALUE);
  CUgraphNodeType type;
  assert_int_equal(cuGraphNodeGetType(n, &type), CUDA_ERROR_INVALID_VALUE);
}

static void test_module_gone(void **state) {
  (void)state;
  CUstream s;
  CUfunction f;
  CUgraphExec x, y;
  CUmodule m = load(&f);
  CUdeviceptr p = device_upload(NULL, 128);
  OK(cuStreamCreate(&s, 0));
  CUgraph g = capture(s, f, &p);
  OK(cuGraphInstantiate(&x, g, 0));
  OK(cuGraphLaunch(x, s));
  OK(cuModuleUnload(m)); // what is queued runs before
  float got;
  OK(cuMemcpyDtoH(&got, p, 4));
  assert_true(got == 1);
  CUmodule again = load(&f); // where the old one was, perhaps
  assert_int_equal(cuGraphLaunch(x, s), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuGraphInstantiate(&y, g, 0), CUDA_ERROR_INVALID_HANDLE);
  assert_int_equal(cuGraphExecUpdate(x, g, NULL), CUDA_ERROR_INVALID_HANDLE);
  CUgraph fresh = capture(s, f, &p);
  OK(cuGraphExecUpdate(x, fresh, NULL));
  OK(cuGraphLaunch(x, s));
  OK(cuStreamSynchronize(s));
  OK(cuModuleUnload(again));
}

// A graph outlives the event it records, an event the capture it was recorded in.
static void test_events_of_graphs(void **state) {
  (void)state;
  CUstream s, other;
  CUevent e, in;
  CUgraph g;
  CUgraphExec x;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&e, 0));
  OK(cuEventCreate(&in, 0));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuEventRecord(in, s));
  OK(cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphInstantiate(&x, g, 0));
  OK(cuEventDestroy(e));
  OK(cuGraphLaunch(x, s));
  OK(cuStreamSynchronize(s));
  assert_int_equal(cuStreamWaitEvent(other, in, 0), CUDA_ERROR_CAPTURED_EVENT);
  OK(cuEventRecord(in, s));
  OK(cuStreamWaitEvent(other, in, 0));
  OK(cuEventDestroy(in));
}

// A graph outlives the memory it fills: the fault is the driver's error, not the program's end.
static void test_memory_gone(void **state) {
  (void)state;
  CUstream s;
  CUgraph g;
  CUgraphExec x;
  CUcontext ctx;
  CUdeviceptr p;
  OK(cuCtxCreate(&ctx, 0, 0));
  OK(cuMemAlloc(&p, 256));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemsetD8Async(p, 1, 256, s));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphInstantiate(&x, g, 0));
  OK(cuMemFree(p));
  OK(cuGraphLaunch(x, s));
  assert_int_equal(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
  OK(cuCtxDestroy(ctx));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_wild), cmocka_unit_test(test_freed),
      cmocka_unit_test(test_module_gone), cmocka_unit_test(test_events_of_graphs),
      cmocka_unit_test(test_memory_gone)};
  if (on_gpu()) return printf("1..0 # SKIP only on libcusim\n"), 0;
  return cmocka_run_group_tests(tests, device_setup, NULL);
}
