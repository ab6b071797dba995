// device.c: opens a GPU through libcuda, or the simulator through libcusim; both look alike.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

bool device_parse(const char *name, DeviceKind *kind) {
  static const char *const names[] = {"auto", "cuda", "sim"};
  for (int i = 0; i < COUNT(names); i++)
    if (!strcmp(name, names[i])) return *kind = (DeviceKind)i, true;
  return false;
}

// ---- figures -----------------------------------------------------------------------------------

// Multiply-adds per clock and SM: fp32 on CUDA cores; tf32 and fp16 on tensor cores, dense, with
// fp32 accumulation. From NVIDIA's architecture white papers.
static const struct {
  int major, minor, fp32, tf32, fp16;
} rates[] = {{7, 5, 64, 0, 512},       {8, 0, 64, 512, 1024},   {8, 6, 128, 256, 512},
             {8, 9, 128, 256, 512},    {9, 0, 128, 1024, 2048}, {10, 0, 128, 2048, 4096},
             {10, 3, 128, 2048, 4096}, {12, 0, 128, 256, 512},  {12, 1, 128, 256, 512}};

static void fill_roofs(DeviceInfo *info) {
  double tera = 2e-12 * info->sm_count * info->clock_ghz * 1e9;
  double tensor = strstr(info->name, "GeForce") ? tera / 2 : tera; // half rate with fp32 sums
  for (int i = 0; i < COUNT(rates) && info->kind == DeviceCuda; i++) {
    if (rates[i].major != info->major || rates[i].minor != info->minor) continue;
    info->peak_fp32 = tera * rates[i].fp32;
    info->peak_tf32 = tensor * rates[i].tf32;
    info->peak_fp16 = tensor * rates[i].fp16;
  }
}

static int attribute(const Device *device, CUdevice_attribute which) {
  int value = 0; // an attribute the driver does not know stays 0
  device->api.cuDeviceGetAttribute(&value, which, device->handle);
  return value;
}

#define ATTRIBUTE(name) attribute(device, CU_DEVICE_ATTRIBUTE_##name)

static void fill_limits(Device *device) {
  DeviceInfo *info = &device->info;
  info->major = ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR);
  info->minor = ATTRIBUTE(COMPUTE_CAPABILITY_MINOR);
  info->sm_count = ATTRIBUTE(MULTIPROCESSOR_COUNT);
  info->max_threads_per_sm = ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR);
  info->regs_per_sm = ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR);
  info->warp_size = ATTRIBUTE(WARP_SIZE);
  info->smem_per_block = ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  info->smem_per_sm = ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  info->l2_bytes = ATTRIBUTE(L2_CACHE_SIZE);
  info->clock_ghz = ATTRIBUTE(CLOCK_RATE) * 1e-6; // the attribute is in kHz
  info->dram_gbs = info->kind == DeviceSim ? 0
                                           : 2.0 * ATTRIBUTE(MEMORY_CLOCK_RATE) *
                                                 ATTRIBUTE(GLOBAL_MEMORY_BUS_WIDTH) / 8e6;
}

static int fill_info(Device *device, Error *err) {
  DeviceInfo *info = &device->info;
  const DriverApi *api = &device->api;
  fill_limits(device);
  // From sm_90 on, the `a` architectures carry what kernels need (wgmma, setmaxnreg, tcgen05).
  snprintf(info->arch, sizeof info->arch, "sm_%d%d%s", info->major, info->minor,
           info->major >= 9 ? "a" : "");
  int rc = CU(api, err, cuDeviceGetName, info->name, sizeof info->name, device->handle);
  if (!rc) rc = CU(api, err, cuMemGetInfo, &info->memory_free, &info->memory_total);
  if (!rc) rc = CU(api, err, cuDriverGetVersion, &info->driver_version);
  if (!rc) fill_roofs(info);
  return rc;
}

// ---- opening -----------------------------------------------------------------------------------

static int open_context(Device *device, int ordinal, Error *err) {
  const DriverApi *api = &device->api;
  int count = 0, rc = CU(api, err, cuInit, 0);
  if (!rc) rc = CU(api, err, cuDeviceGetCount, &count);
  if (rc) return rc;
  if (ordinal < 0 || ordinal >= count)
    return err_set(err, ExitNoDevice, "there is no device %d: the driver has %d", ordinal, count);
  rc = CU(api, err, cuDeviceGet, &device->handle, ordinal);
  if (!rc) rc = CU(api, err, cuDevicePrimaryCtxRetain, &device->context, device->handle);
  if (!rc) rc = CU(api, err, cuCtxSetCurrent, device->context);
  if (!rc) rc = CU(api, err, cuStreamCreate, &device->stream, CU_STREAM_NON_BLOCKING);
  device->info.ordinal = ordinal;
  return rc ? rc : fill_info(device, err);
}

static int open_library(Device *device, FindKind kind, Error *err) {
  FoundLibrary found;
  char where[3000];
  const char *missing = NULL;
  device->library = find_library(kind, NULL, 0, &found);
  find_describe(&found, where, sizeof where);
  snprintf(device->info.driver_library, sizeof device->info.driver_library, "%s",
           found.path ? found.path : "");
  find_free(&found);
  if (!device->library) return err_set(err, ExitNoDevice, "%s", where);
  if (!api_load_driver(device->library, &device->api, &missing))
    return err_set(err, ExitNoDevice, "'%s' has no %s; nngen needs a driver for CUDA 12 or newer",
                   device->info.driver_library, missing);
  return ExitOk;
}

// A driver runs code of toolkits up to its own major version.
static int open_nvrtc(Device *device, const char *cuda_path, Error *err) {
  int newest = device->info.driver_version >= 13000 ? 0 : 1;
  return toolkit_open(cuda_path, newest, &device->toolkit, err);
}

static int open_kind(const DeviceOptions *options, DeviceKind kind, Device *device, Error *err) {
  device->info.kind = kind;
  int rc = open_library(device, kind == DeviceSim ? FindSim : FindDriver, err);
  if (!rc) rc = open_context(device, options->ordinal, err);
  if (rc) return rc;
  rc = kind == DeviceSim
           ? toolkit_open_sim(device->library, device->info.driver_library, &device->toolkit, err)
           : open_nvrtc(device, options->cuda_path, err);
  if (rc) return rc;
  device->info.nvrtc_version = device->toolkit.version;
  snprintf(device->info.nvrtc_library, sizeof device->info.nvrtc_library, "%s",
           device->toolkit.path);
  return toolkit_check_arch(&device->toolkit, device->info.arch, err);
}

static int open_new(const DeviceOptions *options, DeviceKind kind, Device **out, Error *err) {
  Device *device = heap_alloc(1, sizeof *device);
  if (!device) return heap_error(err, "opening a device");
  device->log = options->log;
  device->nvtx_level = options->nvtx;
  if (options->nvtx) device->nvtx = nvtx_open();
  int rc = open_kind(options, kind, device, err);
  if (rc)
    device_close(device);
  else
    *out = device;
  return rc;
}

int device_open(const DeviceOptions *options, Device **device, Error *err) {
  static const DeviceOptions none = {0};
  if (!options) options = &none;
  *device = NULL;
  if (options->kind != DeviceAuto) return open_new(options, options->kind, device, err);
  Error why = {0};
  if (!open_new(options, DeviceCuda, device, &why)) return ExitOk;
  // A GPU that cannot be used is worth a warning; no GPU at all is the ordinary case.
  if (why.code == ExitNoToolchain)
    log_warn(&options->log, "the GPU is not used: %s", why.message);
  else
    log_info(&options->log, "no GPU (%s): using the simulator", why.message);
  int rc = open_new(options, DeviceSim, device, err);
  if (rc) err_set(err, rc, "no GPU: %s\nno simulator: %.1500s", why.message, err->message);
  return rc;
}

const DeviceInfo *device_info(const Device *device) {
  return &device->info;
}

void device_close(Device *device) {
  if (!device) return;
  if (device->stream) device->api.cuStreamDestroy(device->stream);
  if (device->context) {
    device->api.cuCtxSetCurrent(NULL);
    device->api.cuDevicePrimaryCtxRelease(device->handle);
  }
  toolkit_close(&device->toolkit);
  nvtx_close(device->nvtx);
  if (device->library) dlclose(device->library);
  free(device);
}
