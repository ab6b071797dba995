// device.c: settings, the modelled GPU, contexts, error names, and the sticky error.
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { kDriverVersion = 13000 };

// ---- settings --------------------------------------------------------------------------------

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text && *text ? strtol(text, NULL, 0) : otherwise;
}

Settings sim_current_settings;
static DeviceModel model;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const DeviceModel presets[] = {
    // arch, name, cc, SMs, threads, blocks, registers, smem: SM, opt-in, default, clocks, bus, L2
    {"sm_90a", "libcusim sm_90a", 9, 0, 132, 2048, 32, 65536, 228 << 10, 227 << 10, 48 << 10,
     1980000, 3201000, 6144, 60 << 20, 0},
    {"sm_80", "libcusim sm_80", 8, 0, 108, 2048, 32, 65536, 164 << 10, 163 << 10, 48 << 10, 1410000,
     1215000, 5120, 40 << 20, 0},
    {"sm_100a", "libcusim sm_100a", 10, 0, 148, 2048, 32, 65536, 228 << 10, 227 << 10, 48 << 10,
     1965000, 3996000, 8192, 126 << 20, 0},
};

static void read_checks(void) {
  const char *check = getenv("NNGEN_SIM_CHECK");
  if (!check || !*check) check = "basic";
  bool all = !strcmp(check, "all");
  sim_current_settings.basic = strcmp(check, "off") != 0;
  sim_current_settings.race = all || strstr(check, "race");
  sim_current_settings.address = all || strstr(check, "address");
  sim_current_settings.count = number("NNGEN_SIM_COUNT", 0) != 0;
  sim_current_settings.trace = sim_current_settings.race || sim_current_settings.address || sim_current_settings.count;
  if (sim_current_settings.basic && !strstr("basic race address all", check) && !sim_current_settings.trace)
    fprintf(stderr, "libcusim: NNGEN_SIM_CHECK=%s: off, basic, race, address or all; basic taken\n",
            check);
}

static void read_model(void) {
  const char *arch = getenv("NNGEN_SIM_DEVICE");
  model = presets[0];
  bool known = !arch || !*arch;
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
    if (arch && !strcasecmp(arch, presets[i].arch)) model = presets[i], known = true;
  if (!known)
    fprintf(stderr, "libcusim: NNGEN_SIM_DEVICE=%s is unknown; %s taken\n", arch, model.arch);
  model.multiprocessors = (int)number("NNGEN_SIM_MULTIPROCESSORS", model.multiprocessors);
  model.smem_optin = (int)number("NNGEN_SIM_SMEM", model.smem_optin);
  model.registers_per_sm = (int)number("NNGEN_SIM_REGISTERS", model.registers_per_sm);
  size_t host = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  long mib = number("NNGEN_SIM_MEMORY_MIB", 0);
  model.memory = mib > 0 ? (size_t)mib << 20 : host;
}

static void read_environment(void) {
  read_checks();
  read_model();
  sim_current_settings.seed = (uint64_t)number("NNGEN_SIM_SEED", 0);
  sim_current_settings.threads = (int)number("NNGEN_SIM_THREADS", sysconf(_SC_NPROCESSORS_ONLN));
  if (sim_current_settings.threads < 1) sim_current_settings.threads = 1;
  if (sim_current_settings.threads > 256) sim_current_settings.threads = 256;
  sim_current_settings.ready = true;
}

void sim_settings_read(void) { pthread_once(&once, read_environment); }

const DeviceModel *sim_device(void) {
  pthread_once(&once, read_environment);
  return &model;
}

// ---- state -------------------------------------------------------------------------------------

pthread_mutex_t sim_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

struct CUctx_st {
  int refs; // primary: retains; else 1 while it lives
};

enum { kContexts = 64, kStack = 16 };
static struct CUctx_st primary, contexts[kContexts];
static __thread CUcontext stack[kStack];
static __thread int depth;
static bool initialized;
static CUresult sticky;

bool sim_initialized(void) { return initialized; }
CUresult sim_error_take(void) { return sticky; }
void sim_error_set(CUresult error) {
  if (sticky == CUDA_SUCCESS) sticky = error;
}

static bool context_alive(CUcontext ctx) {
  if (ctx == &primary) return primary.refs > 0;
  return ctx >= contexts && ctx < contexts + kContexts && ctx->refs > 0;
}

static CUcontext current(void) { return depth ? stack[depth - 1] : NULL; }

CUresult sim_context_check(void) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!current() || !context_alive(current())) return CUDA_ERROR_INVALID_CONTEXT;
  return sticky;
}

// ---- errors --------------------------------------------------------------------------------------

CUresult cuGetErrorName(CUresult error, const char **name) {
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  *name = NULL;
#define CASE(text, code, words)                                                                    \
  case code: *name = "CUDA_ERROR_" #text; break;
  switch ((int)error) {
  case 0: *name = "CUDA_SUCCESS"; break;
    CUDA_ERRORS(CASE)
  default: return CUDA_ERROR_INVALID_VALUE;
  }
#undef CASE
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  if (!text) return CUDA_ERROR_INVALID_VALUE;
  *text = NULL;
#define CASE(name, code, words)                                                                    \
  case code: *text = words; break;
  switch ((int)error) {
  case 0: *text = "no error"; break;
    CUDA_ERRORS(CASE)
  default: return CUDA_ERROR_INVALID_VALUE;
  }
#undef CASE
  return CUDA_SUCCESS;
}

// ---- initialisation and devices --------------------------------------------------------------------

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

// Symbol names as a program may ask for them: without the version suffix, too.
static const struct {
  const char *name, *symbol;
  void (*function)(void);
} table[] = {
#define CUDA_API(name, symbol, params) {#name, #symbol, (void (*)(void))symbol},
#define NVRTC_API(name, symbol, params)
#define NVRTC_TEXT(name, symbol, params)
#include "cuda_api.def"
};

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags,
                             int *status) {
  enum { kFound = 0, kNotFound = 1 };
  (void)flags;
  if (!symbol || !function || version < 2000) return CUDA_ERROR_INVALID_VALUE;
  *function = NULL;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (!strcmp(symbol, table[i].name) || !strcmp(symbol, table[i].symbol))
      memcpy(function, &table[i].function, sizeof *function);
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

static bool attribute(CUdevice_attribute which, int *value) {
  const DeviceModel *d = sim_device();
  switch ((int)which) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return *value = kMaxThreads, true;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return *value = 64, true;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return *value = 0x7fffffff, true;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return *value = 65535, true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return *value = d->smem_default, true;
  case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY: return *value = 65536, true;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return *value = kWarpLanes, true;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    return *value = d->registers_per_sm, true;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return *value = d->clock_khz, true;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return *value = d->multiprocessors, true;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return *value = d->memory_clock_khz, true;
  case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: return *value = d->bus_bits, true;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return *value = d->l2_bytes, true;
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: return *value = d->threads_per_sm, true;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR: return *value = d->blocks_per_sm, true;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return *value = d->major, true;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return *value = d->minor, true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: return *value = d->smem_per_sm, true;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return *value = d->smem_optin, true;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: return *value = 1024, true;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED: return *value = 1, true;
  default: return *value = 0, (int)which > 0 && (int)which < 160; // what is not modelled is absent
  }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice device) {
  CUresult r = device_check(value, device);
  if (r != CUDA_SUCCESS) return r;
  return attribute(which, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- contexts: one device state behind all of them -------------------------------------------------

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
  if (--primary.refs == 0) sticky = CUDA_SUCCESS;
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned flags, CUdevice device) {
  (void)flags;
  CUresult r = device_check(ctx, device);
  if (r != CUDA_SUCCESS) return r;
  for (int i = 0; i < kContexts; i++) {
    if (contexts[i].refs) continue;
    contexts[i].refs = 1;
    *ctx = &contexts[i];
    return cuCtxPushCurrent_v2(*ctx);
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuCtxDestroy_v2(CUcontext ctx) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (ctx == &primary || !context_alive(ctx)) return CUDA_ERROR_INVALID_CONTEXT;
  pthread_mutex_lock(&sim_lock);
  stream_drain_all();
  sticky = CUDA_SUCCESS;
  ctx->refs = 0;
  if (current() == ctx) depth--;
  pthread_mutex_unlock(&sim_lock);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *ctx) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!ctx) return CUDA_ERROR_INVALID_VALUE;
  *ctx = current();
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
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (!current()) return CUDA_ERROR_INVALID_CONTEXT;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}
