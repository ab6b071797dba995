// $(k.name).c: the network $(k.model) over the CUDA $(k.runtime and "runtime" or "driver") API; $(k.name).h documents each function.
//
// In this order: errors, device memory, $(#k.parameters + #k.states > 0 and "weights, " or "")launches,
// the work of create, the entries (their launches in order), create and destroy,
// graphs$(#k.states > 0 and ", states" or "").
//
// $(k.made)
#include "$(k.name).h"

//@ if k.runtime and k.maps then
#include <cudaTypedefs.h>
//@ end
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "$(k.name)_fatbin.h" // $(k.name)_fatbin: machine code and PTX of all kernels
//@ if k.weights_in_code then
#include "$(k.name)_weights.h" // $(k.name)_weights: a safetensors file
//@ end

#ifdef $(k.NAME)_NVTX // ranges for profilers
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <nvtx3/nvToolsExt.h>
#pragma GCC diagnostic pop
#else
#define nvtxRangePushA(name) ((void)(name))
#define nvtxRangePop() ((void)0)
#endif

typedef $(k.name)_status Status;
typedef $(k.name)_launch_time LaunchTime;

// Returns from the function at the first failure.
#define TRY(call) do { Status status_ = (call); if (status_) return status_; } while (0)

typedef struct Kernel {
  CUfunction function;
  const char *name; // of its symbol
} Kernel;

typedef struct Kernels {
//@ for _, kernel in ipairs(k.distinct) do
  Kernel $(kernel.ident);
//@ end
} Kernels;

// Device memory that lives as long as the network: parameters as kernels read them, states, counters.
typedef struct Tensors {
//@ for _, t in ipairs(k.memory) do
  CUdeviceptr $(t.ident); // $(t.what)
//@ end
//@ if #k.memory == 0 then
  char none;
//@ end
} Tensors;

#define kMemoryBytes ((size_t)$(k.memory_bytes))    // of all Tensors
#define kScratchBytes ((size_t)$(k.init_bytes))   // needed only by create
#define kWorkspaceBytes ((size_t)$(k.arena_bytes)) // values between kernels
#define kBorderBytes ((size_t)$(k.border_bytes))     // inputs and outputs, for runs from host memory

struct $(k.name) {
//@ if k.runtime then
  int device, opened;
  int before; // the caller's device, while a function runs
//@ else
  CUcontext context;
  CUdevice device;
  int retained; // the primary context of `device` is held
//@ end
  $(k.name)_allocator allocator;
  CUmodule module;
  Kernels kernels;
  Tensors tensors;
  $(k.address)memory; // `tensors` points into it
  $(k.address)workspace;
  $(k.address)own_workspace;
  $(k.address)borders; // 0: no run from host memory yet
  char message[256];
};

// ---- errors -----------------------------------------------------------------------------------

const char *$(k.name)_error_string(Status status) {
  switch (status) {
  case $(k.NAME)_OK: return "no error";
  case $(k.NAME)_ERROR_ARGUMENT: return "an argument is null, or not aligned";
  case $(k.NAME)_ERROR_DEVICE: return "no CUDA driver, or no such device";
  case $(k.NAME)_ERROR_ARCHITECTURE: return "no machine code and no PTX for this GPU";
  case $(k.NAME)_ERROR_HOST_MEMORY: return "out of host memory";
  case $(k.NAME)_ERROR_DEVICE_MEMORY: return "out of device memory";
  case $(k.NAME)_ERROR_WORKSPACE: return "the workspace is too small, or not aligned";
  case $(k.NAME)_ERROR_WEIGHTS_FILE: return "the weights file cannot be read";
  case $(k.NAME)_ERROR_WEIGHTS_FORMAT: return "the weights are not a safetensors file, or truncated";
  case $(k.NAME)_ERROR_WEIGHTS_TENSOR: return "a tensor is missing, or of another shape or dtype";
  case $(k.NAME)_ERROR_DRIVER: return "a call of CUDA failed";
  }
  return "unknown status";
}

const char *$(k.name)_message(const $(k.name) *net) {
  return net ? net->message : "";
}

static Status fail($(k.name) *net, Status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(net->message, sizeof net->message, format, arguments);
  va_end(arguments);
//@ if k.runtime then
  (void)cudaGetLastError(); // cleared, so that the caller does not see it later
//@ end
  return status;
}

// The error of a null pointer, or of a state that does not exist.
static Status refuse($(k.name) *net) {
  return net ? fail(net, $(k.NAME)_ERROR_ARGUMENT, "an argument is null, or the state does not exist")
      : $(k.NAME)_ERROR_ARGUMENT;
}

static Status check($(k.name) *net, CUresult result, const char *what) {
//@ if k.runtime then
  if (result == cudaSuccess) return $(k.NAME)_OK;
  return fail(net, $(k.NAME)_ERROR_DRIVER, "%s: %s (%d)", what, cudaGetErrorName(result),
              (int)result);
//@ else
  const char *name = NULL;
  if (result == CUDA_SUCCESS) return $(k.NAME)_OK;
  cuGetErrorName(result, &name);
  return fail(net, $(k.NAME)_ERROR_DRIVER, "%s: %s (%d)", what, name ? name : "unknown error",
              (int)result);
//@ end
}

//@ if k.runtime then
// Every function of the header runs on the network's device, and restores the thread's.
static Status enter($(k.name) *net) {
  TRY(check(net, cudaGetDevice(&net->before), "cudaGetDevice"));
  return check(net, cudaSetDevice(net->device), "cudaSetDevice");
}

static Status leave($(k.name) *net, Status status) {
  cudaError_t result = cudaSetDevice(net->before);
  return status ? status : check(net, result, "cudaSetDevice");
}
//@ else
// Every function of the header runs in the network's context, and restores the thread's.
static Status enter($(k.name) *net) {
  return check(net, cuCtxPushCurrent(net->context), "cuCtxPushCurrent");
}

static Status leave($(k.name) *net, Status status) {
  CUcontext context;
  CUresult result = cuCtxPopCurrent(&context);
  return status ? status : check(net, result, "cuCtxPopCurrent");
}
//@ end

// ---- device memory ----------------------------------------------------------------------------

static Status allocate($(k.name) *net, size_t bytes, const char *what, $(k.address)*pointer) {
  CUdeviceptr made = 0;
  *pointer = 0;
  if (!bytes) return $(k.NAME)_OK;
  CUresult result = net->allocator.allocate
                        ? net->allocator.allocate(net->allocator.user, bytes, &made)
                        : cuMemAlloc(&made, bytes);
  if (result == CUDA_SUCCESS) {
    *pointer = $(k.as_address)made;
    return $(k.NAME)_OK;
  }
  return fail(net, $(k.NAME)_ERROR_DEVICE_MEMORY, "no %zu bytes of device memory for %s", bytes,
              what);
}

static void release($(k.name) *net, CUdeviceptr pointer) {
  if (!pointer) return;
  if (net->allocator.release)
    net->allocator.release(net->allocator.user, pointer);
  else
    cuMemFree(pointer);
}

//@ part("embed/weights.c")
// ---- launches ---------------------------------------------------------------------------------

// One run being enqueued. With `times`, an event is recorded before each launch and at the end.
typedef struct Run {
  $(k.name) *net;
  CUstream stream;
  LaunchTime *times; // null: not timed
  CUevent *events;
  int count;
} Run;

static Status begin_launch(Run *run, const char *layer, const char *kernel) {
  nvtxRangePushA(layer);
  if (!run->times) return $(k.NAME)_OK;
  run->times[run->count].layer = layer;
  run->times[run->count].kernel = kernel;
  return check(run->net, cuEventRecord(run->events[run->count++], run->stream), "cuEventRecord");
}

static Status end_launch(Run *run, CUresult result, const char *layer) {
  nvtxRangePop();
  return check(run->net, result, layer);
}

static Status launch(Run *run, const char *layer, Kernel kernel, void **args, unsigned grid_x,
                     unsigned grid_y, unsigned grid_z, unsigned threads, unsigned shared_bytes) {
  TRY(begin_launch(run, layer, kernel.name));
//@ if k.runtime then
  dim3 grid = {grid_x, grid_y, grid_z}, per_block = {threads, 1, 1};
  cudaError_t result = cudaLaunchKernel((const void *)kernel.function, grid, per_block, args,
                                        shared_bytes, run->stream);
//@ else
  CUresult result = cuLaunchKernel(kernel.function, grid_x, grid_y, grid_z, threads, 1, 1,
                                   shared_bytes, run->stream, args, NULL);
//@ end
  return end_launch(run, result, kernel.name);
}
//@ if k.maps then

// A TMA tensor map: dimensions innermost first, strides in bytes from the second dimension on, and
// the box of one copy. It is passed to the kernel by value.
static Status tensor_map(Run *run, CUtensorMap *map, CUtensorMapDataType type, uintptr_t at,
                         int rank, const uint64_t *extents, const uint64_t *strides,
                         const uint32_t *box, CUtensorMapSwizzle swizzle) {
  static const uint32_t steps[5] = {1, 1, 1, 1, 1};
//@   if k.runtime then
  void *found = NULL; // the driver's function: the runtime has no such function
  enum cudaDriverEntryPointQueryResult known;
  TRY(check(run->net, cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                       cudaEnableDefault, &known),
            "cudaGetDriverEntryPointByVersion"));
  if (!found)
    return fail(run->net, $(k.NAME)_ERROR_DRIVER, "the driver has no cuTensorMapEncodeTiled");
  PFN_cuTensorMapEncodeTiled_v12000 encode;
  memcpy(&encode, &found, sizeof encode);
  int failed = (int)encode(
//@   else
  int failed = (int)cuTensorMapEncodeTiled(
//@   end
      map, type, (uint32_t)rank, (void *)at, extents, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (!failed) return $(k.NAME)_OK;
  return fail(run->net, $(k.NAME)_ERROR_DRIVER, "cuTensorMapEncodeTiled: %d", failed);
}
//@ end
//@ if k.copies then

static Status copy(Run *run, const char *what, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  TRY(begin_launch(run, what, "copy"));
  return end_launch(run, cuMemcpyDtoDAsync(to, from, bytes, run->stream), what);
}
//@ end
//@ if k.clears then

static Status clear(Run *run, const char *what, CUdeviceptr to, size_t bytes) {
  return check(run->net, cuMemsetD8Async(to, 0, bytes, run->stream), what);
}
//@ end

//@ part("embed/entries.c")
//@ part("embed/create.c")
