// api.c: loads the functions of the CUDA driver and NVRTC from the library that was opened.
//
// The symbols in cuda_api.def carry their version (cuMemAlloc_v2), so plain dlsym finds the same
// functions in libcuda and in libcusim.
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "device/device.h"

// dlsym gives an object pointer; POSIX lets its bits be a function's.
static bool load(void *library, const char *symbol, void *slot, const char **missing) {
  void *address = dlsym(library, symbol);
  memcpy(slot, &address, sizeof address);
  if (!address) *missing = symbol;
  return address != NULL;
}

bool api_load_driver(void *library, DriverApi *api, const char **missing) {
#define CUDA_API(name, symbol, parameters)                                                         \
  if (!load(library, #symbol, &api->name, missing)) return false;
#define NVRTC_API(name, symbol, parameters)
#define NVRTC_TEXT(name, symbol, parameters)
#include "cuda_api.def"
  return true;
}

bool api_load_nvrtc(void *library, NvrtcApi *api, const char **missing) {
#define CUDA_API(name, symbol, parameters)
#define NVRTC_API(name, symbol, parameters)                                                        \
  if (!load(library, #symbol, &api->name, missing)) return false;
#define NVRTC_TEXT NVRTC_API
#include "cuda_api.def"
  return true;
}

static atomic_llong calls_left = -1;

void api_fail_after(int64_t calls) {
  atomic_store(&calls_left, calls);
}

// Counts one call; true when it has to be taken for failed.
static bool must_fail(void) {
  long long left = atomic_load(&calls_left);
  if (left >= 0) atomic_store(&calls_left, left - 1);
  return left == 0;
}

int api_check(const DriverApi *api, CUresult result, const char *call, Error *err) {
  const char *name = NULL, *text = NULL;
  if (must_fail()) result = CUDA_ERROR_UNKNOWN;
  if (result == CUDA_SUCCESS) return ExitOk;
  api->cuGetErrorName(result, &name);
  api->cuGetErrorString(result, &text);
  return err_set(err, ExitNoDevice, "%s failed: %s (%d): %s", call, name ? name : "unknown",
                 (int)result, text ? text : "");
}
