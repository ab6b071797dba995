// faults.c: each call of the driver, and of malloc, fails in turn in a life of an emitted LeNet:
// the failure is reported, nothing stays behind, and the next life goes well. Linked with --wrap by
// test_emit_api.sh.
#include "lenet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long left = -1; // calls until one fails; negative: none does

static int fails(void) {
  return left >= 0 && left-- == 0;
}

#define WRAP(name, parameters, arguments)                                                          \
  CUresult __real_##name parameters;                                                               \
  CUresult __wrap_##name parameters;                                                               \
  CUresult __wrap_##name parameters {                                                              \
    return fails() ? CUDA_ERROR_UNKNOWN : __real_##name arguments;                                 \
  }
WRAP(cuInit, (unsigned f), (f))
WRAP(cuDevicePrimaryCtxRetain, (CUcontext * c, CUdevice d), (c, d))
WRAP(cuMemAlloc_v2, (CUdeviceptr * p, size_t n), (p, n))
WRAP(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s),
     (to, from, n, s))
WRAP(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s), (to, from, n, s))
WRAP(cuMemsetD8Async, (CUdeviceptr p, unsigned char v, size_t n, CUstream s), (p, v, n, s))
WRAP(cuStreamSynchronize, (CUstream s), (s))
WRAP(cuStreamCreate, (CUstream * s, unsigned f), (s, f))
WRAP(cuModuleLoadData, (CUmodule * m, const void *image), (m, image))
WRAP(cuModuleGetFunction, (CUfunction * f, CUmodule m, const char *name), (f, m, name))
WRAP(cuFuncSetAttribute, (CUfunction f, CUfunction_attribute a, int v), (f, a, v))
WRAP(cuLaunchKernel,
     (CUfunction f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g,
      unsigned n, CUstream s, void **p, void **x),
     (f, a, b, c, d, e, g, n, s, p, x))
WRAP(cuStreamBeginCapture_v2, (CUstream s, CUstreamCaptureMode m), (s, m))
WRAP(cuGraphInstantiateWithFlags, (CUgraphExec * e, CUgraph g, unsigned long long f), (e, g, f))
WRAP(cuGraphLaunch, (CUgraphExec e, CUstream s), (e, s))
WRAP(cuEventCreate, (CUevent * e, unsigned f), (e, f))
WRAP(cuEventRecord, (CUevent e, CUstream s), (e, s))
WRAP(cuEventSynchronize, (CUevent e), (e))

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n) {
  return fails() ? NULL : __real_malloc(n);
}
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
  return fails() ? NULL : __real_calloc(n, size);
}

static float image[784], made[10];
static CUdeviceptr buffers;

static lenet_status live(lenet *net) {
  lenet_host_inputs host_in = {image};
  lenet_host_outputs host_out = {made};
  lenet_inputs in = {buffers};
  lenet_outputs out = {buffers + 4096};
  lenet_launch_time times[LENET_RUN_LAUNCHES];
  lenet_graph *graph = NULL;
  lenet_status status = lenet_run_host(net, &host_in, &host_out, NULL);
  if (!status) status = lenet_profile(net, &in, &out, NULL, times);
  if (!status) status = lenet_capture(net, &in, &out, &graph);
  if (!status) status = lenet_replay(graph, NULL);
  lenet_graph_destroy(graph);
  return status;
}

// A whole life; what was wrong with it, or null. *failed: a call did.
static const char *try_once(long n, int *failed) {
  char message[256] = "";
  lenet_options options = lenet_default_options();
  size_t before, after, all;
  lenet *net;
  cuMemGetInfo(&before, &all);
  options.message = message;
  options.message_bytes = sizeof message;
  left = n;
  lenet_status status = lenet_create(&net, &options);
  if (status && net) return "a handle after an error";
  if (status && status != LENET_ERROR_HOST_MEMORY && !message[0]) return "no message";
  if (!status) {
    status = live(net);
    if (status && !lenet_message(net)[0]) return "no message of a run";
  }
  *failed = left < 0 && n >= 0;
  left = -1;
  lenet_destroy(net);
  if (!*failed && status) return lenet_error_string(status);
  if (*failed && !status) return "a failure that was not reported";
  cuCtxSynchronize();
  cuMemGetInfo(&after, &all);
  return before == after ? NULL : "device memory is lost";
}

int main(void) {
  CUcontext context;
  CUdevice device;
  if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device)) return 1;
  if (cuCtxSetCurrent(context) || cuMemAlloc(&buffers, 8192)) return 2;
  cuCtxSetCurrent(NULL); // so that each life takes the device itself
  cuCtxPushCurrent(context);
  int failed = 1;
  long tried = 0, step = getenv("NNGEN_TEST_LONG") ? 1 : 4; // in the short run, one of four
  for (long n = 0; failed; n += step, tried++) {
    const char *wrong = try_once(n, &failed);
    if (wrong) return printf("call %ld fails: %s\n", n, wrong), 3;
  }
  printf("%ld calls failed, each in its turn\n", tried - 1);
  cuMemFree(buffers);
  cuDevicePrimaryCtxRelease(device);
  return tried * step < 50; // too few for a whole life
}
