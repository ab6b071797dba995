// load.c: a plan on a device: its kernels as functions, its spaces as memory, every kernel's
// argument list bound. Nothing is allocated while a step runs.
#include <dlfcn.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"

// ---- memory ------------------------------------------------------------------------------------

static int64_t space_bytes(const Plan *plan, Space space) {
  return space == SpaceStatic  ? plan->static_bytes
         : space == SpaceArena ? plan->arena_bytes
                               : plan->init_bytes;
}

typedef struct Bytes {
  char text[24]; // "1.20 GiB"
} Bytes;

static Bytes bytes_text(int64_t bytes) {
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
  Bytes out;
  double size = (double)bytes;
  int unit = 0;
  for (; size >= 1024 && unit < 3; unit++) size /= 1024;
  snprintf(out.text, sizeof out.text, "%.*f %s", unit == 3 ? 2 : unit > 0, size, units[unit]);
  return out;
}

// The three largest tensors, each as "name NxCxHxW 1.20 GiB (model.lua:12)".
static void largest_tensors(const Plan *plan, char *text, size_t size) {
  int taken[3], count = 0;
  size_t at = 0;
  *text = 0;
  while (count < 3 && count < plan->ntensors) {
    int best = -1;
    for (int i = 0; i < plan->ntensors; i++) {
      bool used = false;
      for (int k = 0; k < count; k++) used = used || taken[k] == i;
      if (!used && (best < 0 || plan->tensors[i].bytes > plan->tensors[best].bytes)) best = i;
    }
    const PlanTensor *tensor = &plan->tensors[taken[count++] = best];
    char shape[128];
    tensor_shape_text(tensor, shape, sizeof shape);
    at += (size_t)snprintf(text + at, size - at, "%s%s %s %s %s (%s)", count > 1 ? ", " : "",
                           tensor->name, shape, dtype_name(tensor->dtype),
                           bytes_text(tensor->bytes).text, tensor->loc);
    if (at >= size) return;
  }
}

static int out_of_memory(const Loaded *loaded, Error *err) {
  const Plan *plan = loaded->plan;
  size_t free_bytes = 0, total = 0;
  char largest[1200];
  loaded->device->api.cuMemGetInfo(&free_bytes, &total);
  largest_tensors(plan, largest, sizeof largest);
  int64_t need = plan->static_bytes + plan->arena_bytes + plan->init_bytes;
  return err_set(
      err, ExitNoDevice,
      "out of device memory: %s needs %s (%s parameters, inputs and outputs, %s activations, %s "
      "while loading), '%s' has %s free of %s\nthe largest tensors: %s\na smaller batch, "
      "or --dtype fp16, needs less",
      plan->model, bytes_text(need).text, bytes_text(plan->static_bytes).text,
      bytes_text(plan->arena_bytes).text, bytes_text(plan->init_bytes).text,
      loaded->device->info.name, bytes_text((int64_t)free_bytes).text,
      bytes_text((int64_t)total).text, largest);
}

// Checks all spaces together before any is taken: a plan that cannot fit fails at once.
static int check_memory(const Loaded *loaded, Error *err) {
  const Plan *plan = loaded->plan;
  size_t free_bytes = 0, total = 0;
  int rc = CU(&loaded->device->api, err, cuMemGetInfo, &free_bytes, &total);
  if (rc) return rc;
  int64_t need = plan->static_bytes + plan->arena_bytes + plan->init_bytes;
  return (uint64_t)need > free_bytes ? out_of_memory(loaded, err) : ExitOk;
}

int load_space(Loaded *loaded, Space space, Error *err) {
  size_t bytes = (size_t)space_bytes(loaded->plan, space);
  if (!bytes || loaded->spaces[space]) return ExitOk;
  CUresult result = loaded->device->api.cuMemAlloc(&loaded->spaces[space], bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return out_of_memory(loaded, err);
  int rc = api_check(&loaded->device->api, result, "cuMemAlloc", err);
  bind_pointers(loaded, space);
  return rc ? rc : bind_maps(loaded, space, err);
}

void load_free_space(Loaded *loaded, Space space) {
  if (loaded->spaces[space]) loaded->device->api.cuMemFree(loaded->spaces[space]);
  loaded->spaces[space] = 0;
  bind_pointers(loaded, space);
}

void load_keep_init(Loaded *loaded, bool keep) {
  loaded->keep_init = keep;
  if (!keep) load_free_space(loaded, SpaceInit);
}

// True if `init` writes it: an output of parameters only, which no later run writes again.
static bool made_by_init(const Plan *plan, int tensor) {
  for (int e = 0; e < plan->nentries; e++)
    if (!strcmp(plan->entries[e].name, "init") && plan_writes(plan, &plan->entries[e], tensor))
      return true;
  return false;
}

int load_poison(Loaded *loaded, Error *err) {
  const DriverApi *api = &loaded->device->api;
  const Plan *plan = loaded->plan;
  int rc = ExitOk;
  // All ones is a NaN in every float format we store.
  if (loaded->spaces[SpaceArena])
    rc = CU(api, err, cuMemsetD8Async, loaded->spaces[SpaceArena], 0xff, (size_t)plan->arena_bytes,
            loaded->device->stream);
  for (int i = 0; !rc && i < plan->ntensors; i++)
    if (plan->tensors[i].role == RoleOutput && !made_by_init(plan, i))
      rc = CU(api, err, cuMemsetD8Async, load_pointer(loaded, i), 0xff,
              (size_t)plan->tensors[i].bytes, loaded->device->stream);
  return rc ? rc : CU(api, err, cuStreamSynchronize, loaded->device->stream);
}

// ---- kernels -----------------------------------------------------------------------------------

static int check_smem(const Loaded *loaded, int index, Error *err) {
  const PlanKernel *kernel = &loaded->plan->kernels[index];
  int smem = loaded->report.kernels[index].smem_static;
  int need = kernel->smem + (smem > 0 ? smem : 0), most = loaded->device->info.smem_per_block;
  if (need <= most) return ExitOk;
  return err_set(err, ExitNoDevice,
                 "kernel %s (%s) needs %d bytes of shared memory per block, '%s' has %d; compile "
                 "the model for this device",
                 kernel->name, kernel->loc, need, loaded->device->info.name, most);
}

static bool refuse_renamed; // tests: as a driver would that refuses renamed images

void load_refuse_renamed(bool refuse) {
  refuse_renamed = refuse;
}

// On a GPU each kernel gets a separate module: the image, renamed. *refused: the image cannot be
// renamed, or the driver rejects it.
static int load_module(Loaded *loaded, int index, const KernelImage *image, bool *refused,
                       Error *err) {
  const DriverApi *api = &loaded->device->api;
  const PlanKernel *kernel = &loaded->plan->kernels[index];
  void *bytes = NULL;
  size_t size;
  int rc = jit_image(&loaded->device->toolkit, kernel, image, &bytes, &size, err);
  *refused = !bytes;
  if (rc) return rc;
  if (!bytes) return err_set(err, ExitNoDevice, "the kernel image cannot be renamed");
  CUresult result = api->cuModuleLoadData(&loaded->modules[index], bytes);
  free(bytes);
  rc = api_check(api, result, "cuModuleLoadData", err);
  if (!rc) {
    result =
        api->cuModuleGetFunction(&loaded->functions[index], loaded->modules[index], kernel->name);
    rc = api_check(api, result, "cuModuleGetFunction", err);
  }
  *refused = result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY;
  return rc;
}

// On libcusim a function of a shared module gets another name and separate counters.
static int load_alias(Loaded *loaded, int index, const KernelImage *images, bool *refused,
                      Error *err) {
  CUresult (*alias)(CUfunction *, CUmodule, const char *, const char *) = NULL;
  const DriverApi *api = &loaded->device->api;
  int same = images[index].same, rc = ExitOk;
  void *address = dlsym(loaded->device->library, "cusimModuleAlias");
  *refused = !address;
  if (!address) return err_set(err, ExitNoDevice, "this libcusim does not support kernel aliases");
  memcpy(&alias, &address, sizeof alias);
  if (same == index)
    rc = CU(api, err, cuModuleLoadData, &loaded->modules[index], images[index].bytes);
  return rc ? rc
            : api_check(api,
                        alias(&loaded->functions[index], loaded->modules[same], images[same].symbol,
                              loaded->plan->kernels[index].name),
                        "cusimModuleAlias", err);
}

static int load_function(Loaded *loaded, int index, const KernelImage *images, bool *refused,
                         Error *err) {
  const KernelImage *image = &images[images[index].same];
  bool own = !strcmp(image->symbol, loaded->plan->kernels[index].name);
  *refused = refuse_renamed && !own;
  if (*refused) return err_set(err, ExitNoDevice, "refused by a test");
  if (loaded->device->info.kind == DeviceSim && !own)
    return load_alias(loaded, index, images, refused, err);
  int rc = load_module(loaded, index, image, refused, err);
  *refused = *refused && !own;
  return rc;
}

// Shared memory and L1 share an SM's memory: requests the carveout for the number of blocks per SM
// that the schedule assumes, each with the KiB that the system reserves. The driver's default may
// leave room for fewer.
static int ask_carveout(Loaded *loaded, int index, Error *err) {
  enum { SystemSmem = 1024 };
  const PlanKernel *kernel = &loaded->plan->kernels[index];
  int64_t all = loaded->device->info.smem_per_sm;
  int64_t needed = (int64_t)kernel->resident * (kernel->smem + SystemSmem);
  if (!kernel->resident || !kernel->smem || all <= 0) return ExitOk;
  int64_t percent = (needed * 100 + all - 1) / all;
  return CU(&loaded->device->api, err, cuFuncSetAttribute, loaded->functions[index],
            CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent < 100 ? (int)percent : 100);
}

static int load_kernel(Loaded *loaded, int index, const KernelImage *images, bool *refused,
                       Error *err) {
  enum { FreeSmem = 48 * 1024 }; // more needs an opt-in
  const PlanKernel *kernel = &loaded->plan->kernels[index];
  const DriverApi *api = &loaded->device->api;
  int rc = check_smem(loaded, index, err);
  if (!rc) rc = load_function(loaded, index, images, refused, err);
  if (!rc && kernel->smem > FreeSmem)
    rc = CU(api, err, cuFuncSetAttribute, loaded->functions[index],
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel->smem);
  if (!rc) rc = ask_carveout(loaded, index, err);
  if (!rc || strncmp(err->message, "cu", 2)) return rc; // only driver calls need their kernel named
  return err_set(err, rc, "kernel %s (%s): %.3000s", kernel->name, kernel->loc, err->message);
}

static void unload_kernels(Loaded *loaded) {
  for (int i = 0; i < loaded->plan->nkernels; i++) {
    if (loaded->modules[i]) loaded->device->api.cuModuleUnload(loaded->modules[i]);
    loaded->modules[i] = NULL;
  }
}

// *refused: a kernel failed to load under the name that was given to it.
static int build_and_load(Loaded *loaded, const JitOptions *options, bool *refused, Error *err) {
  Device *device = loaded->device;
  KernelImage *images = NULL;
  int rc = jit_build(&device->toolkit, loaded->plan, device->info.arch, options, &images,
                     &loaded->report, err);
  *refused = false;
  for (int i = 0; i < loaded->plan->nkernels && !rc; i++)
    if (images[images[i].same].bytes) rc = load_kernel(loaded, i, images, refused, err);
  jit_images_free(images, loaded->plan->nkernels);
  return rc;
}

// If the driver rejects a renamed image, every kernel is compiled under its own name instead.
static int load_kernels(Loaded *loaded, const JitOptions *options, Error *err) {
  JitOptions own = *options;
  Error first;
  bool refused;
  nvtx_push_named(loaded->device->nvtx, "compile", NvtxCompile, ColorGrey);
  int rc = build_and_load(loaded, options, &refused, err);
  if (rc && refused) {
    first = *err;
    own.own_symbols = true;
    unload_kernels(loaded);
    jit_report_free(&loaded->report);
    rc = build_and_load(loaded, &own, &refused, err);
    if (!rc)
      log_warn(&options->log, "kernels shared by layers are compiled once per layer: %s",
               first.message);
  }
  nvtx_pop(loaded->device->nvtx);
  return rc;
}

static bool allocate(Loaded *loaded) {
  size_t kernels = (size_t)loaded->plan->nkernels;
  loaded->modules = heap_alloc(kernels, sizeof *loaded->modules);
  loaded->functions = heap_alloc(kernels, sizeof *loaded->functions);
  return loaded->modules && loaded->functions && bind_allocate(loaded);
}

// ---- the whole ---------------------------------------------------------------------------------

static int load_memory(Loaded *loaded, Error *err) {
  const DriverApi *api = &loaded->device->api;
  nvtx_push_named(loaded->device->nvtx, "allocation", NvtxMemory, ColorMagenta);
  int rc = check_memory(loaded, err);
  if (!rc) rc = load_space(loaded, SpaceStatic, err);
  if (!rc) rc = load_space(loaded, SpaceArena, err);
  if (!rc) rc = CU(api, err, cuEventCreate, &loaded->begin, CU_EVENT_DEFAULT);
  if (!rc) rc = CU(api, err, cuEventCreate, &loaded->end, CU_EVENT_DEFAULT);
  nvtx_pop(loaded->device->nvtx);
  return rc;
}

static int load_all(Loaded *loaded, const JitOptions *options, Error *err) {
  const DriverApi *api = &loaded->device->api;
  int rc = plan_check(loaded->plan, err);
  if (!rc && !allocate(loaded)) rc = heap_error(err, "loading a plan");
  if (!rc) rc = CU(api, err, cuCtxSetCurrent, loaded->device->context);
  if (!rc) rc = load_memory(loaded, err); // first: it fails fast, compiling takes seconds
  return rc ? rc : load_kernels(loaded, options, err);
}

int load_plan(Device *device, const Plan *plan, const JitOptions *options, Loaded **out,
              Error *err) {
  *out = NULL;
  JitOptions jit = options ? *options : (JitOptions){0};
  if (!jit.log.write) jit.log = device->log;
  Loaded *loaded = heap_alloc(1, sizeof *loaded);
  if (!loaded) return heap_error(err, "loading a plan");
  loaded->device = device;
  loaded->plan = plan;
  loaded->nvtx_level = device->nvtx_level;
  if (device->info.kind == DeviceSim) {
    void *address = dlsym(device->library, "cusimNameLaunch");
    memcpy(&loaded->name_launch, &address, sizeof address);
  }
  int rc = load_all(loaded, &jit, err);
  if (rc)
    load_close(loaded);
  else
    *out = loaded;
  return rc;
}

const JitReport *load_report(const Loaded *loaded) {
  return &loaded->report;
}
const Plan *load_get_plan(const Loaded *loaded) {
  return loaded->plan;
}

void load_close(Loaded *loaded) {
  if (!loaded) return;
  const DriverApi *api = &loaded->device->api;
  for (int i = 0; i < 3; i++)
    if (loaded->spaces[i]) api->cuMemFree(loaded->spaces[i]);
  if (loaded->modules) unload_kernels(loaded);
  if (loaded->begin) api->cuEventDestroy(loaded->begin);
  if (loaded->end) api->cuEventDestroy(loaded->end);
  nvtx_ranges_free(loaded->ranges);
  jit_report_free(&loaded->report);
  free(loaded->modules);
  free(loaded->functions);
  bind_free(loaded);
  free(loaded);
}
