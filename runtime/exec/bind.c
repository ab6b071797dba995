// bind.c: every kernel's argument list for its launches: addresses of tensors, scalars, tensor
// maps. Bound once per space, when its memory is allocated.
#include <stdlib.h>

#include "exec/exec.h"

union ParamWord {
  CUdeviceptr pointer;
  float f32;
  double f64;
  int32_t i32;
  int64_t i64;
};

typedef struct ParamMap { // CUtensorMap
  _Alignas(64) uint64_t opaque[16];
} ParamMap;

CUdeviceptr load_pointer(const Loaded *loaded, int tensor) {
  const PlanTensor *t = &loaded->plan->tensors[tensor];
  CUdeviceptr base = loaded->spaces[t->space];
  return base ? base + (CUdeviceptr)t->offset : 0;
}

static union ParamWord scalar_word(const PlanScalar *scalar) {
  switch (scalar->dtype) {
  case DtF32:
    return (union ParamWord){.f32 = (float)scalar->value};
  case DtF64:
    return (union ParamWord){.f64 = scalar->value};
  case DtI64:
    return (union ParamWord){.i64 = (int64_t)scalar->value};
  default:
    return (union ParamWord){.i32 = (int32_t)scalar->value};
  }
}

bool bind_allocate(Loaded *loaded) {
  const Plan *plan = loaded->plan;
  size_t params = 0, maps = 0;
  loaded->first_param = heap_alloc((size_t)plan->nkernels, sizeof *loaded->first_param);
  if (!loaded->first_param) return false;
  for (int k = 0; k < plan->nkernels; k++) {
    loaded->first_param[k] = (int)params;
    for (int a = 0; a < plan->kernels[k].nargs; a++) maps += plan->kernels[k].args[a].map != NULL;
    params += (size_t)plan->kernels[k].nargs;
  }
  loaded->words = heap_alloc(params, sizeof *loaded->words);
  loaded->params = heap_alloc(params, sizeof *loaded->params);
  if (maps) loaded->maps = aligned_alloc(sizeof(ParamMap), maps * sizeof *loaded->maps);
  if (!loaded->words || !loaded->params || (maps && !loaded->maps)) return false;
  ParamMap *map = loaded->maps;
  for (int k = 0, i = 0; k < plan->nkernels; k++)
    for (int a = 0; a < plan->kernels[k].nargs; a++, i++) {
      const PlanArg *arg = &plan->kernels[k].args[a];
      loaded->params[i] = arg->map ? (void *)map++ : &loaded->words[i];
      if (arg->scalar) loaded->words[i] = scalar_word(arg->scalar);
    }
  return true;
}

void bind_free(Loaded *loaded) {
  free(loaded->first_param);
  free(loaded->words);
  free(loaded->params);
  free(loaded->maps);
}

// CUtensorMapDataType of a dtype.
static const int map_types[DtCount] = {
    [DtU8] = 0, [DtI32] = 3, [DtI64] = 5, [DtF16] = 6, [DtF32] = 7, [DtF64] = 8, [DtBf16] = 9};

static int encode_map(Loaded *loaded, const PlanArg *arg, ParamMap *to, Error *err) {
  enum { Dims = 5, L2Promotion128 = 2 };
  const PlanMap *map = arg->map;
  int swizzle = 0; // CUtensorMapSwizzle: 1 for 32 bytes, 2 for 64, 3 for 128
  while (map->swizzle >> (4 + swizzle) > 1) swizzle++;
  uint64_t extents[Dims], strides[Dims];
  uint32_t box[Dims], steps[Dims];
  for (int d = 0; d < map->rank; d++) {
    extents[d] = (uint64_t)map->extent[d];
    box[d] = (uint32_t)map->box[d];
    steps[d] = 1;
    if (d) strides[d - 1] = (uint64_t)map->stride[d];
  }
  CUdeviceptr at = load_pointer(loaded, arg->tensor) + (CUdeviceptr)map->offset;
  return CU(&loaded->device->api, err, cuTensorMapEncodeTiled, to,
            map_types[loaded->plan->tensors[arg->tensor].dtype], (unsigned)map->rank,
            (void *)(uintptr_t)at, extents, strides, box, steps, 0, swizzle, L2Promotion128, 0);
}

void bind_pointers(Loaded *loaded, Space space) {
  const Plan *plan = loaded->plan;
  for (int k = 0, i = 0; k < plan->nkernels; k++)
    for (int a = 0; a < plan->kernels[k].nargs; a++, i++) {
      const PlanArg *arg = &plan->kernels[k].args[a];
      if (!arg->scalar && !arg->map && plan->tensors[arg->tensor].space == space)
        loaded->words[i].pointer = load_pointer(loaded, arg->tensor);
    }
}

int bind_maps(Loaded *loaded, Space space, Error *err) {
  const Plan *plan = loaded->plan;
  int rc = ExitOk;
  for (int k = 0, i = 0; k < plan->nkernels; k++)
    for (int a = 0; a < plan->kernels[k].nargs && !rc; a++, i++) {
      const PlanArg *arg = &plan->kernels[k].args[a];
      if (arg->map && plan->tensors[arg->tensor].space == space)
        rc = encode_map(loaded, arg, loaded->params[i], err);
    }
  return rc;
}
