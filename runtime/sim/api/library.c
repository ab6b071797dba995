// library.c: cuLibrary* and cuKernel*: a library is its module, a kernel its function.
#include "sim/api/api.h"

#include <stdlib.h>

CUresult cuLibraryLoadData(CUmodule *library, const void *code, CUjit_option *options,
                           void **values, unsigned count, void *library_options,
                           void **library_values, unsigned library_count) {
  (void)library_options, (void)library_values, (void)library_count;
  return cuModuleLoadDataEx(library, code, count, options, values);
}

CUresult cuLibraryLoadFromFile(CUmodule *library, const char *path, CUjit_option *options,
                               void **values, unsigned count, void *library_options,
                               void **library_values, unsigned library_count) {
  (void)options, (void)values, (void)count;
  (void)library_options, (void)library_values, (void)library_count;
  return cuModuleLoad(library, path);
}

CUresult cuLibraryUnload(CUmodule library) {
  return cuModuleUnload(library);
}

CUresult cuLibraryGetKernel(CUfunction *kernel, CUmodule library, const char *name) {
  return cuModuleGetFunction(kernel, library, name);
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUmodule library) {
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(HandleModule, library)) return CUDA_ERROR_INVALID_HANDLE;
  *count = 0;
  for (CUfunction f = library->functions; f; f = f->next) *count += f->kernel->enter != NULL;
  return CUDA_SUCCESS;
}

// In the order of the module's table, as many as there is room for.
CUresult cuLibraryEnumerateKernels(CUfunction *kernels, unsigned count, CUmodule library) {
  if (!kernels && count) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(HandleModule, library)) return CUDA_ERROR_INVALID_HANDLE;
  for (CUfunction f = library->functions; f && count; f = f->next)
    if (f->kernel->enter) *kernels++ = f, count--;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module) {
  return cuLibraryGetKernelCount(count, module);
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module) {
  return cuLibraryEnumerateKernels(functions, count, module);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
  return cuModuleLoadData(module, image);
}

CUresult cuLibraryGetModule(CUmodule *module, CUmodule library) {
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(HandleModule, library)) return CUDA_ERROR_INVALID_HANDLE;
  *module = library;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *ptr, size_t *bytes, CUmodule library, const char *name) {
  return cuModuleGetGlobal_v2(ptr, bytes, library, name);
}

CUresult cuKernelGetFunction(CUfunction *function, CUfunction kernel) {
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  if (!module_owns(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  *function = kernel;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUmodule *library, CUfunction kernel) {
  return cuFuncGetModule(library, kernel);
}

// The index after the last parameter returns INVALID_VALUE, by which programs count them.
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *bytes) {
  if (!offset) return CUDA_ERROR_INVALID_VALUE;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  const unsigned *sizes = function->kernel->param_sizes;
  size_t count = 0;
  while (sizes[count]) count++;
  if (index >= count) return CUDA_ERROR_INVALID_VALUE;
  *offset = function->kernel->param_offsets[index];
  if (bytes) *bytes = sizes[index];
  return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUfunction kernel, size_t index, size_t *offset, size_t *bytes) {
  return cuFuncGetParamInfo(kernel, index, offset, bytes);
}

CUresult cuKernelSetCacheConfig(CUfunction kernel, int config, CUdevice device) {
  enum { kKinds = 4 };
  if (device) return CUDA_ERROR_INVALID_DEVICE;
  if (!module_owns(kernel)) return CUDA_ERROR_INVALID_HANDLE;
  return config < 0 || config >= kKinds ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function) { // modules are loaded whole
  return module_owns(function) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuFuncIsLoaded(int *state, CUfunction function) {
  enum { kLoaded = 1 };
  if (!state) return CUDA_ERROR_INVALID_VALUE;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  *state = kLoaded;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute which, CUfunction kernel,
                              CUdevice device) {
  return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncGetAttribute(value, which, kernel);
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUfunction kernel,
                              CUdevice device) {
  return device ? CUDA_ERROR_INVALID_DEVICE : cuFuncSetAttribute(kernel, which, value);
}

CUresult cuFuncGetName(const char **name, CUfunction function) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  *name = function->name;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUfunction kernel) {
  return cuFuncGetName(name, kernel);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
  if (!module) return CUDA_ERROR_INVALID_VALUE;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  *module = function->module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(int *mode) {
  enum { kEager = 1 };
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = kEager;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned *version) {
  (void)ctx;
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  int driver;
  CUresult r = cuDriverGetVersion(&driver);
  *version = (unsigned)driver;
  return r;
}

// A callback is a host function that is also given its stream.
typedef struct Callback {
  void (*function)(CUstream, CUresult, void *);
  CUstream stream;
  void *data;
} Callback;

static void call_back(void *data) {
  Callback callback = *(Callback *)data;
  free(data);
  callback.function(callback.stream, sim_error_take(), callback.data);
}

CUresult cuStreamAddCallback(CUstream stream, void (*function)(CUstream, CUresult, void *),
                             void *data, unsigned flags) {
  if (!function || flags) return CUDA_ERROR_INVALID_VALUE;
  Callback *callback = malloc(sizeof *callback);
  if (!callback) return CUDA_ERROR_OUT_OF_MEMORY;
  *callback = (Callback){function, stream, data};
  CUresult r = cuLaunchHostFunc(stream, call_back, callback);
  if (r != CUDA_SUCCESS) free(callback);
  return r;
}
