// cudart.c: of the CUDA runtime API what networks of `nngen emit --lang cuda-runtime` call, over
// the driver API, so that they run on libcusim, which NVIDIA's libcudart does not take for a
// driver. On a GPU the tests link NVIDIA's.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <stddef.h>

static _Thread_local int current;
static _Thread_local cudaError_t last;

static cudaError_t done(CUresult result) {
  cudaError_t error = result == CUDA_ERROR_INVALID_PTX         ? cudaErrorInvalidPtx
                      : result == CUDA_ERROR_NO_BINARY_FOR_GPU ? cudaErrorNoKernelImageForDevice
                      : result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                          ? cudaErrorUnsupportedPtxVersion
                      : result == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation
                                                           : (cudaError_t)result;
  if (error) last = error;
  return error;
}

#define TRY(call) do { CUresult result_ = (call); if (result_) return done(result_); } while (0)

cudaError_t cudaGetLastError(void) {
  cudaError_t error = last;
  last = cudaSuccess;
  return error;
}

const char *cudaGetErrorName(cudaError_t error) {
  const char *name = NULL;
  cuGetErrorName((CUresult)error, &name);
  return name ? name : "unknown error";
}

cudaError_t cudaGetDeviceCount(int *count) {
  TRY(cuInit(0));
  return done(cuDeviceGetCount(count));
}

cudaError_t cudaSetDevice(int device) {
  CUdevice handle;
  CUcontext context;
  TRY(cuDeviceGet(&handle, device));
  TRY(cuDevicePrimaryCtxRetain(&context, handle));
  TRY(cuCtxSetCurrent(context));
  current = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *known) {
  CUdriverProcAddressQueryResult found;
  TRY(cuGetProcAddress(symbol, function, (int)version, flags, &found));
  *known = found == CU_GET_PROC_ADDRESS_SUCCESS ? cudaDriverEntryPointSuccess
                                                : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  return done(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

// ---- memory -------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  return done(cuMemAlloc((CUdeviceptr *)pointer, bytes));
}

cudaError_t cudaFree(void *pointer) {
  return done(cuMemFree((CUdeviceptr)pointer));
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (kind == cudaMemcpyHostToDevice)
    return done(cuMemcpyHtoDAsync((CUdeviceptr)to, from, bytes, stream));
  if (kind == cudaMemcpyDeviceToHost)
    return done(cuMemcpyDtoHAsync(to, (CUdeviceptr)from, bytes, stream));
  return done(cuMemcpyDtoDAsync((CUdeviceptr)to, (CUdeviceptr)from, bytes, stream));
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  return done(cuMemsetD8Async((CUdeviceptr)to, (unsigned char)value, bytes, stream));
}

// ---- kernels ------------------------------------------------------------------------------------

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit,
                                void **jit_values, unsigned njit, enum cudaLibraryOption *options,
                                void **values, unsigned count) {
  (void)jit, (void)jit_values, (void)options, (void)values;
  if (njit || count) return done(CUDA_ERROR_NOT_SUPPORTED);
  return done(cuLibraryLoadData((CUlibrary *)library, code, NULL, NULL, 0, NULL, NULL, 0));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  return done(cuLibraryUnload((CUlibrary)library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name) {
  return done(cuLibraryGetKernel((CUkernel *)kernel, (CUlibrary)library, name));
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                 int value) {
  return done(
      cuKernelSetAttribute((CUfunction_attribute)attribute, value, (CUkernel)function, current));
}

cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                             size_t shared, cudaStream_t stream) {
  CUfunction made;
  TRY(cuKernelGetFunction(&made, (CUkernel)function));
  return done(cuLaunchKernel(made, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                             (unsigned)shared, stream, arguments, NULL));
}

// ---- streams, events, graphs --------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return done(cuStreamCreate(stream, flags));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return done(cuStreamDestroy(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return done(cuStreamSynchronize(stream));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  return done(cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  return done(cuStreamEndCapture(stream, graph));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return done(cuGraphInstantiate(exec, graph, flags));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return done(cuGraphLaunch(exec, stream));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return done(cuGraphExecDestroy(exec));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return done(cuGraphDestroy(graph));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  return done(cuEventCreate(event, flags));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return done(cuEventRecord(event, stream));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return done(cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
  return done(cuEventElapsedTime(ms, begin, end));
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return done(cuEventDestroy(event));
}
