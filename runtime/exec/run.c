// run.c: runs entries of a loaded plan: at once, step by step, or repeatedly with timing.
//
// All steps are enqueued on the device's stream, so they run in the plan's order. Times are
// measured between two events. Under NvtxLayer each launch is in a range of its layer.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/exec.h"

// ---- ranges ------------------------------------------------------------------------------------

// Names and colours of the entries' ranges in profilers.
static const struct {
  const char *entry, *name, *layer_suffix;
  NvtxCategory category;
  uint32_t color;
} entry_ranges[] = {{"infer", "forward", ":fwd", NvtxForward, ColorYellow},
                    {"train", "training_step", "", NvtxForward, ColorGreen},
                    {"eval", "validation", ":fwd", NvtxMetrics, ColorBlue},
                    {"init", "init", ":init", NvtxMemory, ColorMagenta},
                    {NULL, NULL, "", NvtxForward, ColorGrey}};

static const struct {
  const char *class_name;
  uint32_t color;
} class_colors[] = {{"contract", ColorRed},  {"window", ColorBlue},    {"map", ColorGreen},
                    {"reduce", ColorOrange}, {"rowwise", ColorPurple}, {"attend", ColorPink},
                    {NULL, ColorGrey}};

static int entry_row(const char *entry) {
  int row = 0;
  while (entry_ranges[row].entry && strcmp(entry_ranges[row].entry, entry)) row++;
  return row;
}

static uint32_t class_color(const char *class_name) {
  int row = 0;
  while (class_colors[row].class_name && strcmp(class_colors[row].class_name, class_name)) row++;
  return class_colors[row].color;
}

// The range of a kernel is named for its layer and, by the entry that runs it, its direction.
static void set_kernel_ranges(Loaded *loaded, const PlanEntry *entry) {
  char name[256];
  int row = entry_row(entry->name);
  for (int i = 0; i < entry->nsteps; i++) {
    if (entry->steps[i].kind != StepLaunch) continue;
    const PlanKernel *kernel = &loaded->plan->kernels[entry->steps[i].kernel];
    snprintf(name, sizeof name, "%.200s%s", kernel->layer, entry_ranges[row].layer_suffix);
    nvtx_range_set(loaded->device->nvtx, loaded->ranges, entry->steps[i].kernel, name,
                   entry_ranges[row].category, class_color(kernel->class_name));
  }
}

static void make_ranges(Loaded *loaded) {
  const Plan *plan = loaded->plan;
  if (!loaded->device->nvtx) loaded->device->nvtx = nvtx_open();
  loaded->ranges = nvtx_ranges(plan->nkernels + plan->nentries);
  for (int i = 0; i < plan->nentries; i++) {
    int row = entry_row(plan->entries[i].name);
    const char *name = entry_ranges[row].name ? entry_ranges[row].name : plan->entries[i].name;
    nvtx_range_set(loaded->device->nvtx, loaded->ranges, plan->nkernels + i, name,
                   entry_ranges[row].category, entry_ranges[row].color);
    set_kernel_ranges(loaded, &plan->entries[i]);
  }
}

void run_push(Loaded *loaded, int entry) {
  if (!loaded->nvtx_level) return;
  if (!loaded->ranges) make_ranges(loaded);
  nvtx_push(loaded->device->nvtx, loaded->ranges, loaded->plan->nkernels + entry, loaded->runs++);
}

void run_pop(Loaded *loaded) {
  if (loaded->nvtx_level) nvtx_pop(loaded->device->nvtx);
}

void run_ranges(Loaded *loaded, NvtxLevel level) {
  loaded->nvtx_level = level;
}

// ---- steps -------------------------------------------------------------------------------------

int run_find_entry(const Loaded *loaded, const char *name, int *entry, Error *err) {
  for (*entry = 0; *entry < loaded->plan->nentries; ++*entry)
    if (!strcmp(loaded->plan->entries[*entry].name, name)) return ExitOk;
  return err_set(err, ExitUsage, "plan '%s' has no entry '%s'", loaded->plan->model, name);
}

// Tells libcusim the name of the next launch and which tensors it may touch, for its reports.
static void name_launch(const Loaded *loaded, const PlanKernel *kernel) {
  enum { Most = 64 };
  CusimTensor tensors[Most];
  int count = 0;
  for (int i = 0; i < kernel->nargs && count < Most; i++) {
    if (kernel->args[i].scalar) continue;
    const PlanTensor *tensor = &loaded->plan->tensors[kernel->args[i].tensor];
    tensors[count++] = (CusimTensor){load_pointer(loaded, kernel->args[i].tensor),
                                     (size_t)tensor->bytes, tensor->name};
  }
  loaded->name_launch(kernel->layer, kernel->nargs <= Most ? count : 0, tensors);
}

// Converts a plan's attributes to the driver's; returns their number, at most two.
static unsigned launch_attributes(const PlanAttributes *plan, CUlaunchAttribute *attributes) {
  unsigned count = 0;
  if (!plan) return 0;
  const unsigned x = (unsigned)plan->cluster[0], y = (unsigned)plan->cluster[1],
                 z = (unsigned)plan->cluster[2];
  if (x * y * z > 1)
    attributes[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                              .value.clusterDim = {x, y, z}};
  if (plan->early)
    attributes[count++] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                            .value.programmaticStreamSerializationAllowed = 1};
  return count;
}

static int launch(Loaded *loaded, int index, Error *err) {
  const PlanKernel *kernel = &loaded->plan->kernels[index];
  CUlaunchAttribute attributes[2];
  if (loaded->name_launch) name_launch(loaded, kernel);
  const CUlaunchConfig config = {.gridDimX = (unsigned)kernel->grid[0],
                                 .gridDimY = (unsigned)kernel->grid[1],
                                 .gridDimZ = (unsigned)kernel->grid[2],
                                 .blockDimX = (unsigned)kernel->block[0],
                                 .blockDimY = (unsigned)kernel->block[1],
                                 .blockDimZ = (unsigned)kernel->block[2],
                                 .sharedMemBytes = (unsigned)kernel->smem,
                                 .hStream = loaded->device->stream,
                                 .attrs = attributes,
                                 .numAttrs = launch_attributes(kernel->attributes, attributes)};
  int rc = CU(&loaded->device->api, err, cuLaunchKernelEx, &config, loaded->functions[index],
              loaded->params + loaded->first_param[index], NULL);
  if (!rc) return ExitOk;
  return err_set(err, rc, "kernel %s (%s): %.3000s", kernel->name, kernel->loc, err->message);
}

static int launch_in_range(Loaded *loaded, int index, Error *err) {
  if (loaded->nvtx_level != NvtxLayer) return launch(loaded, index, err);
  nvtx_push(loaded->device->nvtx, loaded->ranges, index, 0);
  int rc = launch(loaded, index, err);
  nvtx_pop(loaded->device->nvtx);
  return rc;
}

int run_enqueue_step(Loaded *loaded, const PlanStep *step, Error *err) {
  const DriverApi *api = &loaded->device->api;
  CUstream stream = loaded->device->stream;
  switch (step->kind) {
  case StepLaunch:
    return launch_in_range(loaded, step->kernel, err);
  case StepCopy:
    return CU(api, err, cuMemcpyDtoDAsync, load_pointer(loaded, step->target),
              load_pointer(loaded, step->source), (size_t)loaded->plan->tensors[step->target].bytes,
              stream);
  case StepMemset:
    return CU(api, err, cuMemsetD8Async, load_pointer(loaded, step->target), 0,
              (size_t)loaded->plan->tensors[step->target].bytes, stream);
  default:
    return err_set(err, ExitUsage,
                   "plan '%s' has library or host steps, which this nngen cannot "
                   "run",
                   loaded->plan->model);
  }
}

int run_enqueue(Loaded *loaded, int entry, Error *err) {
  const PlanEntry *what = &loaded->plan->entries[entry];
  int rc = ExitOk;
  run_push(loaded, entry);
  for (int i = 0; i < what->nsteps && !rc; i++) rc = run_enqueue_step(loaded, &what->steps[i], err);
  run_pop(loaded);
  return rc;
}

int run_wait(Loaded *loaded, Error *err) {
  return CU(&loaded->device->api, err, cuStreamSynchronize, loaded->device->stream);
}

int run_start(Loaded *loaded, const char *name, Error *err) {
  int entry, rc = run_find_entry(loaded, name, &entry, err);
  return rc ? rc : run_enqueue(loaded, entry, err);
}

int run_entry(Loaded *loaded, const char *name, Error *err) {
  int rc = run_start(loaded, name, err);
  return rc ? rc : run_wait(loaded, err);
}

static int elapsed(const Loaded *loaded, double *ms, Error *err) {
  const DriverApi *api = &loaded->device->api;
  float time = 0;
  int rc = CU(api, err, cuEventSynchronize, loaded->end);
  if (!rc) rc = CU(api, err, cuEventElapsedTime, &time, loaded->begin, loaded->end);
  *ms = time;
  return rc;
}

static int record(const Loaded *loaded, CUevent event, Error *err) {
  return CU(&loaded->device->api, err, cuEventRecord, event, loaded->device->stream);
}

// A failure that only shows when the device is waited for still names its step.
static int name_step(const Loaded *loaded, const PlanStep *step, int rc, Error *err) {
  if (step->kind != StepLaunch || !strncmp(err->message, "kernel ", 7)) return rc;
  const PlanKernel *kernel = &loaded->plan->kernels[step->kernel];
  return err_set(err, rc, "kernel %s (%s): %.3000s", kernel->name, kernel->loc, err->message);
}

static int run_one_step(Loaded *loaded, const PlanStep *step, double *ms, Error *err) {
  int rc = record(loaded, loaded->begin, err);
  if (!rc) rc = run_enqueue_step(loaded, step, err);
  if (!rc) rc = record(loaded, loaded->end, err);
  if (!rc) rc = elapsed(loaded, ms, err);
  return rc ? name_step(loaded, step, rc, err) : ExitOk;
}

int run_steps(Loaded *loaded, const char *name, RunHook hook, void *user, Error *err) {
  int entry, rc = run_find_entry(loaded, name, &entry, err);
  if (rc) return rc;
  const PlanEntry *what = &loaded->plan->entries[entry];
  run_push(loaded, entry);
  for (int i = 0; i < what->nsteps && !rc; i++) {
    double ms = 0;
    rc = run_one_step(loaded, &what->steps[i], &ms, err);
    if (!rc && hook) rc = hook(user, i, &what->steps[i], ms, err);
  }
  run_pop(loaded);
  return rc;
}
