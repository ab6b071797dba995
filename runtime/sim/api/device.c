// device.c: devices, contexts, error names, and the sticky error.
#include "sim/api/api.h"

#include <stdlib.h>
#include <string.h>

enum { kDriverVersion = 13000 };

// ---- state -------------------------------------------------------------------------------------

struct CUctx_st {
  int refs; // primary: retains; else 1 while it lives
  struct CUctx_st *next;
};

enum { kStack = 16 };
// Destroyed contexts are kept, so that their address is not reused while on a thread's stack.
static struct CUctx_st primary, *contexts, *destroyed;
static __thread CUcontext stack[kStack];
static __thread int depth;
static bool initialized;
static CUresult sticky;
static CUcontext sticky_owner, blamed; // who caused it; whose work is running, or NULL

bool sim_initialized(void) {
  return initialized;
}
CUresult sim_error_take(void) {
  return sticky;
}
void sim_error_set(CUresult error) {
  if (sticky == CUDA_SUCCESS) sticky = error, sticky_owner = blamed ? blamed : sim_context();
}
CUcontext sim_error_blame(CUcontext ctx) {
  CUcontext before = blamed;
  blamed = ctx;
  return before;
}

// On a GPU a context stays dead after its fault; so does the device here, until that one ends.
static void error_clear(CUcontext ended) {
  if (sticky_owner == ended) sticky = CUDA_SUCCESS, sticky_owner = NULL;
}

static bool context_alive(CUcontext ctx) {
  if (ctx == &primary) return primary.refs > 0;
  pthread_mutex_lock(&sim_lock);
  CUcontext at = contexts;
  while (at && at != ctx) at = at->next;
  pthread_mutex_unlock(&sim_lock);
  return at;
}

CUcontext sim_context(void) {
  return depth ? stack[depth - 1] : NULL;
}

CUresult sim_context_usable(void) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!sim_context()) return CUDA_ERROR_INVALID_CONTEXT;
  return sim_context()->refs ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_context_check(void) {
  CUresult usable = sim_context_usable();
  return usable == CUDA_SUCCESS ? sticky : usable;
}

// ---- errors -------------------------------------------------------------------------------------

CUresult cuGetErrorName(CUresult error, const char **name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = error_name(error);
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = NULL;
#define CASE(name, code, words)                                                                    \
  case code:                                                                                       \
    *text = words;                                                                                 \
    break;
  switch ((int)error) {
  case 0:
    *text = "no error";
    break;
    CUDA_ERRORS(CASE)
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
#undef CASE
  return CUDA_SUCCESS;
}

// ---- initialisation and devices -----------------------------------------------------------------

CUresult cuInit(unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  sim_settings();
  initialized = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

// Symbol names that a program may ask for: also without version suffix, for the newest form of the
// requested CUDA version.
static const struct {
  const char *name, *symbol;
  int since;
  void (*function)(void);
} table[] = {
#define CUDA_API(name, symbol, params) {#name, #symbol, 0, (void (*)(void))symbol},
#define NVRTC_API(name, symbol, params)
#define NVRTC_TEXT(name, symbol, params)
#include "cuda_api.def"
#define NEWER_API(name, symbol, since, params) {#name, #symbol, since, (void (*)(void))symbol},
#include "sim/newer.def"
};

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             int *status) {
  enum { kFound = 0, kNotFound = 1 };
  (void)flags;
  if (!symbol || !function || version < 2000) return CUDA_ERROR_INVALID_VALUE;
  *function = NULL;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if ((!strcmp(symbol, table[i].name) && version >= table[i].since) ||
        (!*function && !strcmp(symbol, table[i].symbol)))
      memcpy(function, &table[i].function, sizeof *function);
  if (!*function) absent_find(symbol, function);
  if (status) *status = *function ? kFound : kNotFound;
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult device_check(const void *result, CUdevice device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!result) return CUDA_ERROR_INVALID_VALUE;
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  CUresult r = device_check(device, ordinal);
  if (r == CUDA_SUCCESS) *device = ordinal;
  return r;
}

CUresult cuDeviceGetCount(int *count) {
  CUresult r = device_check(count, 0);
  if (r == CUDA_SUCCESS) *count = 1;
  return r;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  CUresult r = device_check(name, device);
  if (r != CUDA_SUCCESS) return r;
  if (length <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, (size_t)length, "%s", sim_device()->name);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  CUresult r = device_check(bytes, device);
  if (r == CUDA_SUCCESS) *bytes = sim_device()->memory;
  return r;
}

enum { kMaxPitch = 11 }; // CU_DEVICE_ATTRIBUTE_MAX_PITCH

static bool attribute(CUdevice_attribute which, int *value) {
  const DeviceModel *d = sim_device();
  switch ((int)which) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    return *value = kMaxThreads, true;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
    return *value = 64, true;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    return *value = 0x7fffffff, true;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    return *value = 65535, true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    return *value = d->smem_default, true;
  case kMaxPitch:
    return *value = 0x7fffffff, true;
  case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    return *value = 65536, true;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    return *value = kWarpLanes, true;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    return *value = d->registers_per_sm, true;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    return *value = d->clock_khz, true;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return *value = d->multiprocessors, true;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    return *value = d->memory_clock_khz, true;
  case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
    return *value = d->bus_bits, true;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    return *value = d->l2_bytes, true;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    return *value = d->threads_per_sm, true;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
    return *value = d->blocks_per_sm, true;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return *value = d->major, true;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return *value = d->minor, true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    return *value = d->smem_per_sm, true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return *value = d->smem_optin, true;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
    return *value = 1024, true;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    return *value = 1, true;
  default:
    return *value = 0, (int)which > 0 && (int)which < 160; // attributes that are not modelled are 0
  }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  CUresult r = device_check(value, device);
  if (r != CUDA_SUCCESS) return r;
  return attribute(which, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- contexts: one device state behind all of them ----------------------------------------------

CUresult cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device) {
  CUresult r = device_check(ctx, device);
  if (r != CUDA_SUCCESS) return r;
  primary.refs++;
  *ctx = &primary;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  CUresult r = device_check(&primary, device);
  if (r != CUDA_SUCCESS) return r;
  if (!primary.refs) return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&sim_lock);
  if (primary.refs == 1) stream_drain_all();
  if (--primary.refs == 0) error_clear(&primary);
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device) {
  (void)flags;
  CUresult r = device_check(ctx, device);
  if (r != CUDA_SUCCESS) return r;
  CUcontext made = depth < kStack ? malloc(sizeof *made) : NULL;
  if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&sim_lock);
  *made = (struct CUctx_st){1, contexts};
  contexts = made;
  pthread_mutex_unlock(&sim_lock);
  return cuCtxPushCurrent_v2(*ctx = made);
}

// Partitions of the device and graphics contexts are not modelled.
CUresult cuCtxCreate_v3(CUcontext *ctx, void *affinity, int count, unsigned flags,
                        CUdevice device) {
  return affinity || count ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(ctx, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned flags,
                        CUdevice device) {
  bool special = params && (params->numExecAffinityParams || params->cigParams);
  return special ? CUDA_ERROR_NOT_SUPPORTED : cuCtxCreate_v2(ctx, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (ctx == &primary || !context_alive(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&sim_lock);
  stream_drain_all();
  error_clear(ctx);
  CUcontext *at = &contexts;
  while (*at != ctx) at = &(*at)->next;
  *at = ctx->next;
  *ctx = (struct CUctx_st){0, destroyed};
  destroyed = ctx;
  if (sim_context() == ctx) depth--;
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ctx) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!ctx) return CUDA_ERROR_INVALID_VALUE;
  *ctx = sim_context();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (ctx && !context_alive(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!depth) depth = 1;
  stack[depth - 1] = ctx;
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!ctx || !context_alive(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  if (depth == kStack) return CUDA_ERROR_OUT_OF_MEMORY;
  stack[depth++] = ctx;
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *ctx) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!depth) return CUDA_ERROR_INVALID_CONTEXT;
  depth--;
  if (ctx) *ctx = stack[depth];
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  CUresult r = sim_context_usable();
  if (r != CUDA_SUCCESS) return r;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  CUresult r = sim_context_usable();
  if (r != CUDA_SUCCESS) return r;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

// ---- limits -------------------------------------------------------------------------------------
// CUlimit: stack, printf's buffer, malloc's heap, depth and number of launches by kernels, L2. A
// thread's stack grows as requested; the others are stored without effect.

enum { kLimits = 7, kMostStack = 512 << 10 };
static size_t limits[kLimits] = {1024, 1 << 20, 8 << 20, 2, 2048, 128, 0};

CUresult cuCtxSetLimit(int limit, size_t value) {
  CUresult r = sim_context_usable();
  if (r != CUDA_SUCCESS) return r;
  if (limit < 0 || limit >= kLimits || (limit == 0 && value > kMostStack))
    return CUDA_ERROR_INVALID_VALUE;
  limits[limit] = value;
  if (limit == 0) settings_stack(value);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, int limit) {
  CUresult r = sim_context_usable();
  if (r != CUDA_SUCCESS) return r;
  if (!value || limit < 0 || limit >= kLimits) return CUDA_ERROR_INVALID_VALUE;
  *value = limits[limit];
  return CUDA_SUCCESS;
}
