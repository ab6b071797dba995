// tensor.c: tensors between the device, their stored form, and floats in the model's order.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"

int64_t tensor_count(const PlanTensor *tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
  return count;
}

void tensor_shape_text(const PlanTensor *tensor, char *text, size_t size) {
  size_t at = 0;
  snprintf(text, size, "scalar");
  for (int i = 0; i < tensor->rank && at < size; i++)
    at +=
        (size_t)snprintf(text + at, size - at, "%s%lld", i ? "x" : "", (long long)tensor->shape[i]);
}

int tensor_find(const Plan *plan, const char *name) {
  int value = -1;
  for (int i = 0; i < plan->ntensors; i++) {
    if (strcmp(plan->tensors[i].name, name)) continue;
    if (plan->tensors[i].role != RoleTemp) return i;
    if (value < 0) value = i;
  }
  return value;
}

// ---- one element -------------------------------------------------------------------------------

static double load_element(Dtype dtype, const void *stored, int64_t at) {
  switch (dtype) {
  case DtF16:
    return half_to_float(((const uint16_t *)stored)[at]);
  case DtBf16:
    return bf16_to_float(((const uint16_t *)stored)[at]);
  case DtF64:
    return ((const double *)stored)[at];
  case DtI32:
    return ((const int32_t *)stored)[at];
  case DtI64:
    return (double)((const int64_t *)stored)[at];
  case DtU8:
    return ((const uint8_t *)stored)[at];
  case DtBool:
    return ((const uint8_t *)stored)[at] != 0;
  default:
    return ((const float *)stored)[at];
  }
}

static double saturate(double value, double low, double high) { // NaN becomes 0
  return isnan(value) ? 0 : value < low ? low : value > high ? high : nearbyint(value);
}

static void store_element(Dtype dtype, void *stored, int64_t at, double value) {
  switch (dtype) {
  case DtF16:
    ((uint16_t *)stored)[at] = half_from_float((float)value);
    break;
  case DtBf16:
    ((uint16_t *)stored)[at] = bf16_from_float((float)value);
    break;
  case DtF64:
    ((double *)stored)[at] = value;
    break;
  case DtI32:
    ((int32_t *)stored)[at] = (int32_t)saturate(value, INT32_MIN, INT32_MAX);
    break;
  case DtI64:
    ((int64_t *)stored)[at] = (int64_t)saturate(value, -0x1p53, 0x1p53);
    break;
  case DtU8:
    ((uint8_t *)stored)[at] = (uint8_t)saturate(value, 0, 255);
    break;
  case DtBool:
    ((uint8_t *)stored)[at] = value != 0;
    break;
  default:
    ((float *)stored)[at] = (float)value;
  }
}

// ---- all elements ------------------------------------------------------------------------------

// Iterates in the model's order; `at` is the element's index in memory.
typedef struct Walk {
  int rank;
  int64_t shape[PlanMaxRank], stride[PlanMaxRank], index[PlanMaxRank], at;
} Walk;

static Walk walk_begin(const PlanTensor *tensor) {
  Walk walk = {.rank = tensor->rank};
  int64_t stride = 1;
  for (int i = tensor->rank - 1; i >= 0; i--) {
    int dimension = tensor->order[i];
    walk.shape[dimension] = tensor->shape[dimension];
    walk.stride[dimension] = stride;
    stride *= tensor->shape[dimension];
  }
  return walk;
}

static void walk_next(Walk *walk) {
  for (int i = walk->rank - 1; i >= 0; i--) {
    walk->at += walk->stride[i];
    if (++walk->index[i] < walk->shape[i]) return;
    walk->at -= walk->stride[i] * walk->shape[i];
    walk->index[i] = 0;
  }
}

void tensor_to_floats(const PlanTensor *tensor, const void *stored, float *values) {
  Walk walk = walk_begin(tensor);
  int64_t count = tensor_count(tensor);
  for (int64_t i = 0; i < count; i++, walk_next(&walk))
    values[i] = (float)load_element(tensor->dtype, stored, walk.at);
}

void tensor_from_floats(const PlanTensor *tensor, const float *values, void *stored) {
  Walk walk = walk_begin(tensor);
  int64_t count = tensor_count(tensor);
  for (int64_t i = 0; i < count; i++, walk_next(&walk))
    store_element(tensor->dtype, stored, walk.at, values[i]);
}

void tensor_to_doubles(const PlanTensor *tensor, const void *stored, double *values) {
  Walk walk = walk_begin(tensor);
  int64_t count = tensor_count(tensor);
  for (int64_t i = 0; i < count; i++, walk_next(&walk))
    values[i] = load_element(tensor->dtype, stored, walk.at);
}

void tensor_from_doubles(const PlanTensor *tensor, const double *values, void *stored) {
  Walk walk = walk_begin(tensor);
  int64_t count = tensor_count(tensor);
  for (int64_t i = 0; i < count; i++, walk_next(&walk))
    store_element(tensor->dtype, stored, walk.at, values[i]);
}

// ---- the device --------------------------------------------------------------------------------

static int check_tensor(const Loaded *loaded, int tensor, size_t bytes, CUdeviceptr *at,
                        Error *err) {
  if (tensor < 0 || tensor >= loaded->plan->ntensors)
    return err_set(err, ExitUsage, "there is no tensor %d", tensor);
  const PlanTensor *t = &loaded->plan->tensors[tensor];
  if ((size_t)t->bytes != bytes)
    return err_set(err, ExitUsage, "tensor '%s' has %lld bytes, not %zu", t->name,
                   (long long)t->bytes, bytes);
  *at = load_pointer(loaded, tensor);
  if (*at || !bytes) return ExitOk;
  return err_set(err, ExitUsage, "tensor '%s' exists only while parameters are loaded", t->name);
}

int tensor_read(Loaded *loaded, int tensor, void *stored, size_t bytes, Error *err) {
  const Device *device = loaded->device;
  CUdeviceptr at = 0;
  int rc = check_tensor(loaded, tensor, bytes, &at, err);
  if (rc || !bytes) return rc;
  rc = CU(&device->api, err, cuMemcpyDtoHAsync, stored, at, bytes, device->stream);
  return rc ? rc : CU(&device->api, err, cuStreamSynchronize, device->stream);
}

int tensor_read_plain(Loaded *loaded, int tensor, void *values, size_t bytes, Error *err) {
  int rc = tensor_read(loaded, tensor, values, bytes, err);
  const PlanTensor *t = &loaded->plan->tensors[tensor];
  bool plain = true;
  for (int d = 0; !rc && d < t->rank; d++) plain = plain && t->order[d] == d;
  if (rc || plain || !bytes) return rc;
  char *stored = heap_alloc(bytes, 1), *to = values;
  if (!stored) return heap_error(err, "reading a tensor");
  memcpy(stored, values, bytes);
  Walk walk = walk_begin(t);
  size_t size = dtype_size(t->dtype), count = bytes / size;
  for (size_t i = 0; i < count; i++, walk_next(&walk))
    memcpy(to + i * size, stored + (size_t)walk.at * size, size);
  free(stored);
  return ExitOk;
}

int tensor_write(Loaded *loaded, int tensor, const void *stored, size_t bytes, Error *err) {
  const Device *device = loaded->device;
  CUdeviceptr at = 0;
  int rc = check_tensor(loaded, tensor, bytes, &at, err);
  if (rc || !bytes) return rc;
  rc = CU(&device->api, err, cuMemcpyHtoDAsync, at, stored, bytes, device->stream);
  return rc ? rc : CU(&device->api, err, cuStreamSynchronize, device->stream);
}

int tensor_put_rows(Loaded *loaded, int from, int to, int64_t row, Error *err) {
  const Device *device = loaded->device;
  const PlanTensor *source = &loaded->plan->tensors[from], *target = &loaded->plan->tensors[to];
  bool plain = source->dtype == target->dtype && source->rank == target->rank;
  for (int d = 0; d < source->rank && plain; d++)
    plain = source->order[d] == d && target->order[d] == d &&
            (!d || source->shape[d] == target->shape[d]);
  if (!plain || row < 0 || row + source->shape[0] > target->shape[0])
    return err_set(err, ExitUsage, "'%s' cannot be copied to row %lld of '%s'", source->name,
                   (long long)row, target->name);
  size_t bytes = (size_t)source->bytes;
  if (!bytes) return ExitOk;
  CUdeviceptr at =
      load_pointer(loaded, to) + (CUdeviceptr)row * (bytes / (size_t)source->shape[0]);
  return CU(&device->api, err, cuMemcpyDtoDAsync, at, load_pointer(loaded, from), bytes,
            device->stream);
}

// A buffer for the stored form of a tensor whose element count the caller has right.
static int stage(const Loaded *loaded, int tensor, int64_t count, void **stored, Error *err) {
  CUdeviceptr at;
  const PlanTensor *t = &loaded->plan->tensors[tensor];
  bool known = tensor >= 0 && tensor < loaded->plan->ntensors;
  int rc = check_tensor(loaded, tensor, known ? (size_t)t->bytes : 0, &at, err);
  if (rc) return rc;
  if (tensor_count(t) != count)
    return err_set(err, ExitUsage, "tensor '%s' has %lld elements, not %lld", t->name,
                   (long long)tensor_count(t), (long long)count);
  *stored = heap_alloc((size_t)t->bytes, 1);
  return *stored ? ExitOk : heap_error(err, "staging a tensor");
}

// To one of two arrays, the other null.
static int read_values(Loaded *loaded, int tensor, float *floats, double *doubles, int64_t count,
                       Error *err) {
  void *stored = NULL;
  int rc = stage(loaded, tensor, count, &stored, err);
  if (rc) return rc;
  const PlanTensor *t = &loaded->plan->tensors[tensor];
  rc = tensor_read(loaded, tensor, stored, (size_t)t->bytes, err);
  if (!rc && floats) tensor_to_floats(t, stored, floats);
  if (!rc && doubles) tensor_to_doubles(t, stored, doubles);
  free(stored);
  return rc;
}

static int write_values(Loaded *loaded, int tensor, const float *floats, const double *doubles,
                        int64_t count, Error *err) {
  void *stored = NULL;
  int rc = stage(loaded, tensor, count, &stored, err);
  if (rc) return rc;
  const PlanTensor *t = &loaded->plan->tensors[tensor];
  if (floats) tensor_from_floats(t, floats, stored);
  if (doubles) tensor_from_doubles(t, doubles, stored);
  rc = tensor_write(loaded, tensor, stored, (size_t)t->bytes, err);
  free(stored);
  return rc;
}

int tensor_read_floats(Loaded *loaded, int tensor, float *values, int64_t count, Error *err) {
  return read_values(loaded, tensor, values, NULL, count, err);
}

int tensor_write_floats(Loaded *loaded, int tensor, const float *values, int64_t count,
                        Error *err) {
  return write_values(loaded, tensor, values, NULL, count, err);
}

int tensor_read_doubles(Loaded *loaded, int tensor, double *values, int64_t count, Error *err) {
  return read_values(loaded, tensor, NULL, values, count, err);
}

int tensor_write_doubles(Loaded *loaded, int tensor, const double *values, int64_t count,
                         Error *err) {
  return write_values(loaded, tensor, NULL, values, count, err);
}
