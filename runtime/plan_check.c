// plan_check.c: what the runtime relies on in a Plan, checked field by field.
//
// A plan may come from a file or from another process. After plan_check every index is inside its
// array, every tensor inside its space, and every name is fit to be a file name or a symbol.
#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1 // a name that finds no memory is not checked against later ones
#include <uthash.h>

#include "base/base.h"

enum {
  MaxName = 200,
  MaxThreads = 1024,        // of a block
  MaxGridYz = 65535,        // CUDA's limit; x is limited by int
  MaxSmem = 256 * 1024,     // no GPU has more shared memory per block
  MaxParamBytes = 32764,    // of a kernel's parameters, since CUDA 12.1: 8 for each, 128 for a map
  MaxBox = 256,             // elements along a dimension of a tensor map's box
  MaxCluster = 8,           // largest portable cluster of sm_90
  Align = 256               // of tensors in their space
};
static const int64_t kMaxSpace = (int64_t)1 << 46; // 64 TiB: sums of sizes cannot overflow

#define FAIL(...) return err_set(err, ExitBadInput, "plan: " __VA_ARGS__)

// ---- names -------------------------------------------------------------------------------------

static bool is_printable(const char *text) {
  for (const unsigned char *c = (const unsigned char *)text; *c; c++)
    if (*c < ' ' || *c == 127) return false;
  return true;
}

static bool has_only(const char *text, const char *extra) {
  for (const unsigned char *c = (const unsigned char *)text; *c; c++)
    if (*c >= 128 || (!isalnum(*c) && !strchr(extra, *c))) return false;
  return *text && strlen(text) <= MaxName;
}

static bool is_symbol(const char *text) {
  return has_only(text, "_") && !isdigit((uint8_t)*text);
}
static bool is_file(const char *text) {
  return has_only(text, "_.-") && *text != '.';
}
static bool is_word(const char *text) {
  return has_only(text, "_.:-") && *text != '.';
}

// A relative path that stays below its root: "lib/prim.cuh".
static bool is_path(const char *text) {
  return has_only(text, "_./-") && *text != '/' && *text != '.' && !strstr(text, "/.") &&
         !strstr(text, "//") && text[strlen(text) - 1] != '/';
}

typedef struct Name {
  const char *text;
  UT_hash_handle hh;
} Name;

// The names seen so far; `next` is the next free one of a block of enough of them.
typedef struct Names {
  Name *seen, *block, *next;
} Names;

static bool names_open(Names *names, int count) {
  *names = (Names){NULL, heap_alloc((size_t)count, sizeof(Name)), NULL};
  names->next = names->block;
  return names->block;
}

static bool names_add(Names *names, const char *text) { // false: seen before
  Name *found;
  HASH_FIND_STR(names->seen, text, found);
  if (found) return false;
  names->next->text = text;
  HASH_ADD_KEYPTR(hh, names->seen, text, strlen(text), names->next);
  names->next++;
  return true;
}

static void names_close(Names *names) {
  HASH_CLEAR(hh, names->seen);
  free(names->block);
}

// ---- tensors -----------------------------------------------------------------------------------

static int64_t space_bytes(const Plan *plan, Space space) {
  return space == SpaceStatic  ? plan->static_bytes
         : space == SpaceArena ? plan->arena_bytes
                               : plan->init_bytes;
}

static int check_shape(const PlanTensor *tensor, int index, Error *err) {
  int64_t bytes = (int64_t)dtype_size(tensor->dtype);
  unsigned seen = 0;
  if (tensor->rank < 0 || tensor->rank > PlanMaxRank)
    FAIL("tensors[%d]: rank %d is not from 0 to %d", index, tensor->rank, PlanMaxRank);
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->shape[i] < 0 || __builtin_mul_overflow(bytes, tensor->shape[i], &bytes))
      FAIL("tensors[%d]: shape[%d] = %lld is out of range", index, i, (long long)tensor->shape[i]);
    if (tensor->order[i] < 0 || tensor->order[i] >= tensor->rank)
      FAIL("tensors[%d]: order[%d] = %d is not a dimension", index, i, tensor->order[i]);
    seen |= 1u << tensor->order[i];
  }
  if (seen != (1u << tensor->rank) - 1) FAIL("tensors[%d]: order names a dimension twice", index);
  if (bytes != tensor->bytes)
    FAIL("tensors[%d]: bytes is %lld, its shape and dtype make %lld", index,
         (long long)tensor->bytes, (long long)bytes);
  return ExitOk;
}

static bool is_table(const PlanTensor *tensor) {
  size_t digits = tensor->table ? strspn(tensor->table, "0123456789abcdef") : 0, count = 1;
  for (int d = 0; d < tensor->rank; d++) count *= (size_t)tensor->shape[d];
  return digits == 8 * count && tensor->table && !tensor->table[digits];
}

static int check_tensor(const Plan *plan, int index, Names *names, Error *err) {
  const PlanTensor *tensor = &plan->tensors[index];
  int64_t space = space_bytes(plan, tensor->space);
  int rc = check_shape(tensor, index, err);
  if (rc) return rc;
  if (tensor->role != RoleTemp && !is_word(tensor->name))
    FAIL("tensors[%d]: name '%.80s' has characters other than letters, digits and _.:-", index,
         tensor->name);
  if (!is_printable(tensor->name) || !is_printable(tensor->loc))
    FAIL("tensors[%d]: name or loc has control characters", index);
  if (tensor->role != RoleTemp && !names_add(names, tensor->name))
    FAIL("tensors[%d]: a second input, output or parameter named '%s'", index, tensor->name);
  if (tensor->offset < 0 || tensor->offset % Align || tensor->offset > space ||
      tensor->bytes > space - tensor->offset)
    FAIL("tensors[%d]: offset %lld, bytes %lld is not inside its space of %lld, or not a multiple "
         "of %d",
         index, (long long)tensor->offset, (long long)tensor->bytes, (long long)space, Align);
  if (!isfinite(tensor->init_a) || !isfinite(tensor->init_b))
    FAIL("tensors[%d]: init is not finite", index);
  if (tensor->init == InitTable && !is_table(tensor))
    FAIL("tensors[%d]: table is not of 8 hexadecimal digits for each element", index);
  return ExitOk;
}

// ---- kernels, entries, headers -----------------------------------------------------------------

static int check_launch(const PlanKernel *kernel, int index, Error *err) {
  int64_t threads = 1;
  for (int i = 0; i < 3; i++) {
    if (kernel->grid[i] < 1 || (i > 0 && kernel->grid[i] > MaxGridYz))
      FAIL("kernels[%d]: grid[%d] = %d is out of range", index, i, kernel->grid[i]);
    if (kernel->block[i] < 1 || kernel->block[i] > MaxThreads)
      FAIL("kernels[%d]: block[%d] = %d is out of range", index, i, kernel->block[i]);
    threads *= kernel->block[i];
  }
  if (threads > MaxThreads)
    FAIL("kernels[%d]: %lld threads in a block, most is %d", index, (long long)threads, MaxThreads);
  if (kernel->smem < 0 || kernel->smem > MaxSmem)
    FAIL("kernels[%d]: smem %d is out of range", index, kernel->smem);
  if (kernel->resident < 0 || kernel->resident > 64)
    FAIL("kernels[%d]: %d resident blocks is out of range", index, kernel->resident);
  if (!isfinite(kernel->flops) || kernel->flops < 0 || kernel->bytes_read < 0 ||
      kernel->bytes_written < 0)
    FAIL("kernels[%d]: flops or bytes is out of range", index);
  return ExitOk;
}

static int check_attributes(const PlanKernel *kernel, int index, Error *err) {
  const PlanAttributes *a = kernel->attributes;
  int64_t blocks = 1;
  for (int i = 0; a && i < 3; i++) {
    if (a->cluster[i] < 1 || a->cluster[i] > MaxCluster || kernel->grid[i] % a->cluster[i])
      FAIL("kernels[%d]: attributes.cluster[%d] = %d does not divide the grid's %d, or is not from "
           "1 to %d",
           index, i, a->cluster[i], kernel->grid[i], MaxCluster);
    blocks *= a->cluster[i];
  }
  if (blocks > MaxCluster)
    FAIL("kernels[%d]: %lld blocks in a cluster, most is %d", index, (long long)blocks, MaxCluster);
  return ExitOk;
}

static bool is_number_of(const PlanScalar *scalar) {
  double value = scalar->value;
  switch (scalar->dtype) {
  case DtF64: return isfinite(value);
  case DtF32: return fabs(value) <= FLT_MAX && (double)(float)value == value;
  case DtI32: return value >= INT32_MIN && value <= INT32_MAX && value == trunc(value);
  case DtI64: return fabs(value) <= 0x1p53 && value == trunc(value);
  default: return false;
  }
}

// True if cuTensorMapEncodeTiled accepts the map, and no copy leaves the tensor.
static bool is_map_of(const PlanTensor *tensor, const PlanMap *map) {
  int64_t size = (int64_t)dtype_size(tensor->dtype), end = map->offset + size;
  if (map->offset < 0 || map->offset % 16 || map->offset > tensor->bytes - size) return false;
  if (tensor->dtype == DtBool || map->rank < 1 || map->rank > 5 || map->stride[0] != size)
    return false;
  for (int d = 0; d < map->rank; d++) {
    int64_t extent = map->extent[d], stride = map->stride[d];
    if (extent < 1 || extent > tensor->bytes || stride < 1 || stride > tensor->bytes) return false;
    if ((d && stride % 16) || map->box[d] < 1 || map->box[d] > MaxBox) return false;
    if (extent > 1 && stride > (tensor->bytes - end) / (extent - 1)) return false;
    end += (extent - 1) * stride;
  }
  int64_t row = map->box[0] * size;
  bool known = !map->swizzle || map->swizzle == 32 || map->swizzle == 64 || map->swizzle == 128;
  return row % 16 == 0 && known && (!map->swizzle || row <= map->swizzle);
}

static int check_arg(const Plan *plan, const PlanArg *arg, int index, int i, Error *err) {
  if (!is_symbol(arg->name)) FAIL("kernels[%d]: args[%d].name is not an identifier", index, i);
  if (arg->scalar && (arg->map || arg->written || arg->tensor != -1))
    FAIL("kernels[%d]: args[%d] is a scalar and something else", index, i);
  if (arg->scalar && !is_number_of(arg->scalar))
    FAIL("kernels[%d]: args[%d].scalar is not f32, f64, i32 or i64", index, i);
  if (arg->scalar) return ExitOk;
  if (arg->tensor < 0 || arg->tensor >= plan->ntensors)
    FAIL("kernels[%d]: args[%d].tensor = %d is not a tensor", index, i, arg->tensor);
  if (arg->map && !is_map_of(&plan->tensors[arg->tensor], arg->map))
    FAIL("kernels[%d]: args[%d].map is not a tensor map of its tensor", index, i);
  return ExitOk;
}

static int check_args(const Plan *plan, const PlanKernel *kernel, int index, Error *err) {
  int bytes = 0, rc = ExitOk;
  if (kernel->nargs < 0 || kernel->nargs > MaxParamBytes / 8)
    FAIL("kernels[%d]: %d arguments, most is %d", index, kernel->nargs, MaxParamBytes / 8);
  for (int i = 0; i < kernel->nargs && !rc; i++) {
    bytes += kernel->args[i].map ? 128 : 8;
    rc = check_arg(plan, &kernel->args[i], index, i, err);
  }
  if (!rc && bytes > MaxParamBytes)
    FAIL("kernels[%d]: %d bytes of arguments, most is %d", index, bytes, MaxParamBytes);
  return rc;
}

// A plan may contain a kernel again for other tensors: same name, same program.
static bool has_twin(const Plan *plan, int index) {
  const PlanKernel *kernel = &plan->kernels[index];
  for (int i = 0; i < index; i++)
    if (!strcmp(plan->kernels[i].name, kernel->name))
      return !strcmp(plan->kernels[i].source, kernel->source) &&
             !strcmp(plan->kernels[i].file, kernel->file);
  return false;
}

static int check_kernel(const Plan *plan, int index, Names *names, Error *err) {
  const PlanKernel *kernel = &plan->kernels[index];
  if (!is_symbol(kernel->name)) FAIL("kernels[%d]: name is not an identifier", index);
  if (!is_file(kernel->file)) FAIL("kernels[%d]: file is not a plain file name", index);
  if (!names_add(names, kernel->name) && !has_twin(plan, index))
    FAIL("kernels[%d]: a second kernel named '%s'", index, kernel->name);
  if (!is_printable(kernel->layer) || !is_printable(kernel->ops) || !is_printable(kernel->tile) ||
      !is_printable(kernel->class_name) || !is_printable(kernel->loc) ||
      !is_printable(kernel->names))
    FAIL("kernels[%d]: layer, ops, class_name, tile, names or loc has control characters", index);
  int rc = check_launch(kernel, index, err);
  if (!rc) rc = check_attributes(kernel, index, err);
  return rc ? rc : check_args(plan, kernel, index, err);
}

// SpaceInit is freed after `init`: only `init` may use it.
static bool may_use(const Plan *plan, const PlanEntry *entry, int tensor) {
  return tensor >= 0 && tensor < plan->ntensors &&
         (plan->tensors[tensor].space != SpaceInit || !strcmp(entry->name, "init"));
}

static int check_step(const Plan *plan, const PlanEntry *entry, int index, Error *err) {
  const PlanStep *step = &entry->steps[index];
  if (step->kind == StepLaunch) {
    if (step->kernel < 0 || step->kernel >= plan->nkernels)
      FAIL("entry %s: steps[%d].kernel = %d is not a kernel", entry->name, index, step->kernel);
    const PlanKernel *kernel = &plan->kernels[step->kernel];
    for (int i = 0; i < kernel->nargs; i++)
      if (!kernel->args[i].scalar && !may_use(plan, entry, kernel->args[i].tensor))
        FAIL("entry %s: steps[%d] uses a tensor that is freed after init", entry->name, index);
  }
  bool copy = step->kind == StepCopy, memset = step->kind == StepMemset;
  if ((copy || memset) && !may_use(plan, entry, step->target))
    FAIL("entry %s: steps[%d].target = %d is out of range", entry->name, index, step->target);
  if (copy && (!may_use(plan, entry, step->source) ||
               plan->tensors[step->source].bytes != plan->tensors[step->target].bytes))
    FAIL("entry %s: steps[%d].source = %d is out of range", entry->name, index, step->source);
  return ExitOk;
}

static int check_entry(const Plan *plan, int index, Names *names, Error *err) {
  const PlanEntry *entry = &plan->entries[index];
  if (!is_symbol(entry->name)) FAIL("entries[%d]: name is not an identifier", index);
  if (!names_add(names, entry->name))
    FAIL("entries[%d]: a second entry named '%s'", index, entry->name);
  for (int i = 0; i < entry->nsteps; i++) {
    int rc = check_step(plan, entry, i, err);
    if (rc) return rc;
  }
  return ExitOk;
}

static int check_header(const Plan *plan, int index, Names *names, Error *err) {
  if (!is_path(plan->headers[index].name)) FAIL("headers[%d]: name is not a plain path", index);
  if (!names_add(names, plan->headers[index].name))
    FAIL("headers[%d]: a second header named '%s'", index, plan->headers[index].name);
  return ExitOk;
}

static int check_sizes(const Plan *plan, Error *err) {
  const int64_t sizes[] = {plan->static_bytes, plan->arena_bytes, plan->init_bytes,
                           plan->arena_bound};
  for (int i = 0; i < COUNT(sizes); i++)
    if (sizes[i] < 0 || sizes[i] > kMaxSpace) FAIL("a space of %lld bytes", (long long)sizes[i]);
  if (!is_file(plan->model)) FAIL("model is not a plain name");
  if (!is_word(plan->arch) || !is_word(plan->dtype) || !is_word(plan->lowering))
    FAIL("arch, dtype or lowering is not a plain word");
  return ExitOk;
}

typedef int CheckOne(const Plan *plan, int index, Names *names, Error *err);

// Runs `check` over a list in which each item adds at most two names.
static int check_all(const Plan *plan, int count, CheckOne *check, Error *err) {
  Names names;
  int rc = ExitOk;
  if (!names_open(&names, 2 * count)) return heap_error(err, "checking a plan");
  for (int i = 0; i < count && !rc; i++) rc = check(plan, i, &names, err);
  names_close(&names);
  return rc;
}

int plan_check(const Plan *plan, Error *err) {
  int rc = check_sizes(plan, err);
  if (!rc) rc = check_all(plan, plan->ntensors, check_tensor, err);
  if (!rc) rc = check_all(plan, plan->nkernels, check_kernel, err);
  if (!rc) rc = check_all(plan, plan->nentries, check_entry, err);
  if (!rc) rc = check_all(plan, plan->nheaders, check_header, err);
  return rc;
}
