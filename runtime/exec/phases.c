// phases.c: the phases of a training step, by the layer names of its kernels, and ranges for
// profilers around them.
//
// A gradient's layer has "_grad" in its name, the optimizer's begin with optimizer_step, losses and
// metrics with the name of their output. All others are before the loss (forward) or after it
// (backward). The loss is the last kernel of that name with gradients after it, because parts of
// it may be stored at the end; if there is none, the backward pass begins at the first gradient.
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"

const char *phase_name(Phase phase) {
  static const char *const names[] = {"forward", "loss", "backward", "optimizer_step"};
  return names[phase];
}

// ---- which phase -------------------------------------------------------------------------------

static bool begins(const char *layer, const char *scope, size_t length) {
  return !strncmp(layer, scope, length) && (!layer[length] || layer[length] == '.');
}

static bool is_output(const Plan *plan, const char *entry, const char *layer) {
  size_t length = strlen(entry), first = strcspn(layer, ".");
  for (int i = 0; i < plan->ntensors; i++) {
    const char *name = plan->tensors[i].name;
    if (plan->tensors[i].role != RoleOutput || strncmp(name, entry, length)) continue;
    if (name[length] == '.' && strlen(name + length + 1) == first &&
        !strncmp(name + length + 1, layer, first))
      return true;
  }
  return false;
}

// True if the layer's name is only that of one of the kernel's ops.
static bool is_unnamed(const PlanKernel *kernel) {
  size_t length = strlen(kernel->layer);
  for (const char *op = kernel->ops; (op = strstr(op, kernel->layer)); op++)
    if ((op == kernel->ops || op[-1] == '+') && (op[length] == '+' || !op[length])) return true;
  return false;
}

// The phase by the layer's name, or PhaseCount if it does not say.
static Phase named(const Plan *plan, const char *entry, const PlanKernel *kernel) {
  static const char kOptimizer[] = "optimizer_step";
  if (begins(kernel->layer, kOptimizer, strlen(kOptimizer))) return PhaseOptimizer;
  if (strstr(kernel->layer, "_grad")) return PhaseBackward;
  if (is_output(plan, entry, kernel->layer)) return PhaseLoss;
  return is_unnamed(kernel) ? PhaseCount : PhaseForward;
}

int phases_find(const Plan *plan, const char *name, Phase *phases, Error *err) {
  const PlanEntry *entry = NULL;
  for (int i = 0; i < plan->nentries; i++)
    if (!strcmp(plan->entries[i].name, name)) entry = &plan->entries[i];
  if (!entry) return err_set(err, ExitUsage, "plan '%s' has no entry '%s'", plan->model, name);
  int loss = -1, last = -1, forward = -1; // last steps: of losses before a gradient, of all
  int backward = -1;                      // the first
  for (int i = 0; i < entry->nsteps; i++) {
    const PlanStep *step = &entry->steps[i];
    phases[i] =
        step->kind == StepLaunch ? named(plan, name, &plan->kernels[step->kernel]) : PhaseCount;
    if (phases[i] == PhaseLoss) last = i;
    if (phases[i] == PhaseForward) forward = i;
    if (phases[i] == PhaseBackward) loss = last, backward = backward < 0 ? i : backward;
  }
  int turn = loss >= 0 ? loss : backward >= 0 ? backward - 1 : last >= 0 ? last : forward;
  for (int i = 0; i < entry->nsteps; i++)
    if (phases[i] != PhaseLoss && phases[i] != PhaseOptimizer)
      phases[i] = i <= turn ? PhaseForward : PhaseBackward;
  return ExitOk;
}

// ---- ranges ------------------------------------------------------------------------------------

static const struct {
  const char *name;
  NvtxCategory category;
  uint32_t color;
} ranges[] = {{"training_step", NvtxForward, ColorGreen},
              {"train_step", NvtxForward, ColorGreen},
              {"data_unpack", NvtxData, ColorCyan},
              {"forward", NvtxForward, ColorYellow},
              {"loss", NvtxForward, ColorOrange},
              {"backward", NvtxBackward, ColorRed},
              {"optimizer_step", NvtxOptimizer, ColorPurple},
              {"validation", NvtxMetrics, ColorBlue},
              {"mar_at_5", NvtxMetrics, ColorPurple},
              {"reconstructions", NvtxMetrics, ColorPink},
              {"memory", NvtxMemory, ColorMagenta}};

void range_push(Device *device, const char *name) {
  int row = 0;
  if (!device || !device->nvtx) return;
  while (row < COUNT(ranges) && strcmp(ranges[row].name, name)) row++;
  if (row < COUNT(ranges))
    nvtx_push_named(device->nvtx, name, ranges[row].category, ranges[row].color);
  else
    nvtx_push_named(device->nvtx, name, NvtxForward, ColorYellow);
}

void range_pop(Device *device) {
  if (device) nvtx_pop(device->nvtx);
}

typedef struct Marks { // the ranges that are open
  Device *device;
  Phase phase;     // or PhaseCount
  char layer[128]; // first part of its name, inside of the forward pass; "" if none
} Marks;

static void close_layer(Marks *marks) {
  if (marks->layer[0]) range_pop(marks->device);
  marks->layer[0] = 0;
}

static void close_phase(Marks *marks) {
  close_layer(marks);
  if (marks->phase != PhaseCount) range_pop(marks->device);
  marks->phase = PhaseCount;
}

static void mark(Marks *marks, Phase phase, const PlanKernel *kernel) {
  if (marks->phase != phase) {
    close_phase(marks);
    range_push(marks->device, phase_name(phase));
    marks->phase = phase;
  }
  if (phase != PhaseForward || !kernel) return;
  char layer[sizeof marks->layer];
  snprintf(layer, sizeof layer, "%.*s", (int)strcspn(kernel->layer, "."), kernel->layer);
  char *grad = strstr(layer, "_grad"); // a forward kernel that a gradient's op leads
  if (grad && !grad[5]) *grad = 0;
  if (!strcmp(layer, marks->layer)) return;
  close_layer(marks);
  snprintf(marks->layer, sizeof marks->layer, "%s", layer);
  range_push(marks->device, layer);
}

int phases_run(Loaded *loaded, const char *name, Error *err) {
  int index, rc = run_find_entry(loaded, name, &index, err);
  if (rc) return rc;
  const PlanEntry *entry = &loaded->plan->entries[index];
  Phase *phases = heap_alloc((size_t)entry->nsteps + 1, sizeof *phases);
  if (!phases) return heap_error(err, "running a step");
  Marks marks = {.device = loaded->device, .phase = PhaseCount};
  NvtxLevel level = loaded->nvtx_level;
  loaded->nvtx_level = NvtxOff; // the phases' ranges replace those of layers
  rc = phases_find(loaded->plan, name, phases, err);
  for (int i = 0; i < entry->nsteps && !rc; i++) {
    const PlanStep *step = &entry->steps[i];
    mark(&marks, phases[i], step->kind == StepLaunch ? &loaded->plan->kernels[step->kernel] : NULL);
    rc = run_enqueue_step(loaded, step, err);
  }
  close_phase(&marks);
  loaded->nvtx_level = level;
  free(phases);
  return rc;
}
