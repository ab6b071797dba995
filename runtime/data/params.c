// params.c: parameter values, from a safetensors file or from a seed, and the entry `init`.
//
// Seeded values depend only on (seed, parameter name, position), not on the plan, the lowering or
// the device. So every lowering of a model, and the oracle, use the same numbers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "data/data.h"

struct Params {
  char *path;       // NULL: seeded
  Weights *weights; // NULL: seeded
  uint64_t seed;
  ParamsChoice choice; // may be null
  char *prefix;        // prefix of the model's names by its setting; NULL if it has none
  void *user;
};

// ---- seeded values -----------------------------------------------------------------------------

static double uniform(uint64_t key, uint64_t at) { // in (0, 1)
  return ((double)(random_at(key, at) >> 11) + 0.5) * 0x1p-53;
}

// Box and Muller 1958: two uniform numbers give a pair of normal ones, at 2k and 2k + 1.
static void fill_normal(uint64_t key, double mean, double deviation, float *values, int64_t count) {
  for (int64_t i = 0; i < count; i += 2) {
    double radius = deviation * sqrt(-2 * log(uniform(key, (uint64_t)i)));
    double angle = 2 * M_PI * uniform(key, (uint64_t)i + 1);
    values[i] = (float)(mean + radius * cos(angle));
    if (i + 1 < count) values[i + 1] = (float)(mean + radius * sin(angle));
  }
}

// Constant tables of the plan (PlanTensor.table, checked by plan_check).
static void fill_table(const PlanTensor *tensor, float *values) {
  for (int64_t i = 0; i < tensor_count(tensor); i++) {
    char digits[9] = {0};
    memcpy(digits, tensor->table + 8 * i, 8);
    uint32_t bits = (uint32_t)strtoul(digits, NULL, 16);
    memcpy(&values[i], &bits, sizeof bits);
  }
}

static int seeded(const Params *params, const PlanTensor *tensor, float *values, Error *err) {
  uint64_t key = XXH3_64bits_withSeed(tensor->name, strlen(tensor->name), params->seed);
  int64_t count = tensor_count(tensor);
  double a = tensor->init_a, b = tensor->init_b;
  if (tensor->init == InitNone)
    return err_set(err, ExitBadInput, "parameter '%s' (%s) has no initial value: give --weights",
                   tensor->name, tensor->loc);
  if (tensor->init == InitTable)
    fill_table(tensor, values);
  else if (tensor->init == InitNormal)
    fill_normal(key, a, b, values, count);
  else
    for (int64_t i = 0; i < count; i++)
      values[i] =
          (float)(tensor->init == InitConstant ? a : a + (b - a) * uniform(key, (uint64_t)i));
  return ExitOk;
}

// ---- values of a file --------------------------------------------------------------------------

static void weight_shape(const WeightTensor *weight, char *text, size_t size) {
  PlanTensor shaped = {.rank = weight->rank};
  memcpy(shaped.shape, weight->shape, sizeof shaped.shape);
  tensor_shape_text(&shaped, text, size);
}

// A tensor of the file whose name ends in ours: frameworks add prefixes ("module.").
static const char *similar(const Weights *weights, const char *name) {
  size_t length = strlen(name);
  for (int i = 0; i < weights_count(weights); i++) {
    const char *found = weights_at(weights, i)->name;
    size_t extra = strlen(found);
    if (extra > length && !strcmp(found + extra - length, name)) return found;
  }
  return NULL;
}

bool params_has(const PlanTensor *tensor) {
  return tensor->role == RoleParam || tensor->role == RoleState;
}

// Does it get its initial value, though there is a file? Tables of the plan are not weights.
static bool begins_anew(const Params *params, const PlanTensor *tensor) {
  if (tensor->init == InitTable) return true;
  ParamsFrom from = params->choice              ? params->choice(params->user, tensor)
                    : tensor->role == RoleState ? ParamsFileIfThere
                                                : ParamsFile;
  if (from != ParamsFileIfThere) return from == ParamsSeed;
  return tensor->init != InitNone && !weights_find(params->weights, tensor->name);
}

// If at least half of the file's names have a prefix that ours lack, adds a hint and the setting
// that makes the names match: "; 148 of its 149 tensors begin with 'module.'".
static void say_prefix(const Params *params, const char *name, const char *hint, char *text,
                       size_t size) {
  int length = (int)(strlen(hint) - strlen(name)), count = weights_count(params->weights), so = 0;
  for (int i = 0; i < count; i++)
    so += !strncmp(weights_at(params->weights, i)->name, hint, (size_t)length);
  if (hint[length - 1] != '.' || so < 2 || 2 * so < count) return;
  int used = snprintf(text, size, " %d of its %d tensors begin with '%.*s'", so, count, length, hint);
  const char *own = params->prefix;
  size_t taken = own ? strlen(own) : 0;
  bool begins = own && !strncmp(name, own, taken) && (!taken || name[taken] == '.');
  if (!begins || used < 0 || (size_t)used >= size) return;
  snprintf(text + used, size - (size_t)used, ": --set prefix=%.*s%s", length - !taken, hint, own);
}

static int missing(const Params *params, const PlanTensor *tensor, Error *err) {
  char shape[128], prefix[256] = "";
  const char *hint = similar(params->weights, tensor->name);
  if (hint) say_prefix(params, tensor->name, hint, prefix, sizeof prefix);
  tensor_shape_text(tensor, shape, sizeof shape);
  return err_set(err, ExitBadInput, "weights '%s': no tensor '%s' (%s, %s)%s%s%s%s", params->path,
                 tensor->name, shape, tensor->loc, hint ? "; did you mean '" : "", hint ? hint : "",
                 hint ? "'?" : "", prefix);
}

// Finds the tensor of that name; fails if it is missing or has another shape.
static int find_weight(const Params *params, const PlanTensor *tensor, const WeightTensor **out,
                       Error *err) {
  const WeightTensor *weight = *out = weights_find(params->weights, tensor->name);
  char expected[128], found[128];
  if (!weight) return missing(params, tensor, err);
  if (weight->rank != tensor->rank ||
      memcmp(weight->shape, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape)) {
    tensor_shape_text(tensor, expected, sizeof expected);
    weight_shape(weight, found, sizeof found);
    return err_set(err, ExitBadInput, "weights '%s': tensor '%s' is %s, the model (%s) needs %s",
                   params->path, tensor->name, found, tensor->loc, expected);
  }
  bool floats = strchr(weight->dtype, 'F') != NULL; // F32, BF16
  if (floats != dtype_is_float(tensor->dtype))
    return err_set(err, ExitBadInput, "weights '%s': tensor '%s' is %s, the model (%s) needs %s",
                   params->path, tensor->name, weight->dtype, tensor->loc,
                   floats ? "integers" : "floats");
  return ExitOk;
}

static int from_file(const Params *params, const PlanTensor *tensor, float *values, Error *err) {
  const WeightTensor *weight;
  int rc = find_weight(params, tensor, &weight, err);
  return rc ? rc : weights_floats(weight, values, err);
}

// ---- public ------------------------------------------------------------------------------------

int params_open(const char *weights, uint64_t seed, Params **out, Error *err) {
  *out = NULL;
  Params *params = heap_alloc(1, sizeof *params);
  if (!params) return heap_error(err, "opening parameters");
  params->seed = seed;
  int rc = ExitOk;
  if (weights) {
    params->path = heap_copy(weights);
    rc = params->path ? weights_open(weights, &params->weights, err)
                      : heap_error(err, "opening parameters");
  }
  if (rc)
    params_close(params);
  else
    *out = params;
  return rc;
}

int params_of_weights(Weights *weights, const char *path, uint64_t seed, Params **out, Error *err) {
  *out = NULL;
  Params *params = heap_alloc(1, sizeof *params);
  char *copy = heap_copy(path);
  if (!params || !copy) {
    free(params), free(copy), weights_close(weights);
    return heap_error(err, "opening parameters");
  }
  *params = (Params){.path = copy, .weights = weights, .seed = seed};
  *out = params;
  return ExitOk;
}

void params_choose(Params *params, ParamsChoice choice, void *user) {
  params->choice = choice;
  params->user = user;
}

void params_prefix(Params *params, const char *prefix) {
  free(params->prefix);
  params->prefix = strdup(prefix);
}

void params_close(Params *params) {
  if (!params) return;
  free(params->prefix);
  weights_close(params->weights);
  free(params->path);
  free(params);
}

static float round_to(Dtype dtype, float value) {
  return dtype == DtF16    ? half_to_float(half_from_float(value))
         : dtype == DtBf16 ? bf16_to_float(bf16_from_float(value))
                           : value;
}

int params_values(const Params *params, const PlanTensor *tensor, float *values, Error *err) {
  bool file = params->weights && !begins_anew(params, tensor);
  int rc = file ? from_file(params, tensor, values, err) : seeded(params, tensor, values, err);
  int64_t count = rc || tensor->dtype == DtF32 ? 0 : tensor_count(tensor);
  for (int64_t i = 0; i < count; i++) values[i] = round_to(tensor->dtype, values[i]);
  return rc;
}

int params_check(const Params *params, const Plan *plan, Error *err) {
  const WeightTensor *weight;
  for (int i = 0; params->weights && i < plan->ntensors; i++) {
    const PlanTensor *t = &plan->tensors[i];
    int rc = params_has(t) && !begins_anew(params, t) ? find_weight(params, t, &weight, err)
                                                      : ExitOk;
    if (rc) return rc;
  }
  return ExitOk;
}

// True if its values on the device are those of params_values.
static bool is_plain(const PlanTensor *t) {
  bool plain = t->dtype == DtF32;
  for (int d = 0; d < t->rank; d++) plain = plain && t->order[d] == d;
  return plain;
}

static int fill_integers(Loaded *loaded, int tensor, const WeightTensor *weight, Error *err) {
  int64_t count = tensor_count(&loaded->plan->tensors[tensor]);
  double *values = heap_alloc((size_t)count, sizeof *values);
  if (!values) return heap_error(err, "loading states");
  int rc = weights_doubles(weight, values, err);
  if (!rc) rc = tensor_write_doubles(loaded, tensor, values, count, err);
  free(values);
  return rc;
}

static int fill_one(const Params *params, Loaded *loaded, int tensor, Error *err) {
  const PlanTensor *t = &loaded->plan->tensors[tensor];
  int64_t count = tensor_count(t);
  const WeightTensor *weight = NULL;
  bool file = params->weights && !begins_anew(params, t);
  int rc = file ? find_weight(params, t, &weight, err) : ExitOk;
  if (rc) return rc;
  if (weight && !dtype_is_float(t->dtype)) return fill_integers(loaded, tensor, weight, err);
  if (weight && is_plain(t) && !strcmp(weight->dtype, "F32")) // straight from the file
    return tensor_write(loaded, tensor, weight->data, (size_t)t->bytes, err);
  float *values = heap_grow(NULL, (size_t)count, sizeof *values); // not zeroed: it is all written
  if (!values) return heap_error(err, "loading parameters");
  rc = params_values(params, t, values, err);
  if (!rc)
    rc = is_plain(t) ? tensor_write(loaded, tensor, values, (size_t)t->bytes, err)
                     : tensor_write_floats(loaded, tensor, values, count, err);
  free(values);
  return rc;
}

static bool is_param(const Plan *plan, const char *name) {
  int tensor = tensor_find(plan, name);
  return tensor >= 0 && params_has(&plan->tensors[tensor]);
}

// True if no file has it although its initial value was not asked for.
static bool is_lacking(const Params *params, const PlanTensor *tensor) {
  return params->weights && tensor->init != InitTable && begins_anew(params, tensor) &&
         !weights_find(params->weights, tensor->name) &&
         !(params->choice && params->choice(params->user, tensor) == ParamsSeed);
}

static int list_seeded(const Params *params, const Plan *plan, ParamsReport *report, Error *err) {
  report->seeded = heap_alloc((size_t)plan->ntensors, sizeof *report->seeded);
  if (!report->seeded) return heap_error(err, "loading parameters");
  for (int i = 0; i < plan->ntensors; i++) {
    const PlanTensor *tensor = &plan->tensors[i];
    if (!params_has(tensor) || !is_lacking(params, tensor)) continue;
    report->seeded[report->nseeded] = heap_copy(tensor->name);
    if (!report->seeded[report->nseeded]) return heap_error(err, "loading parameters");
    report->nseeded++;
  }
  return ExitOk;
}

static int list_unused(const Params *params, const Plan *plan, ParamsReport *report, Error *err) {
  int count = params->weights ? weights_count(params->weights) : 0;
  report->unused = heap_alloc((size_t)count, sizeof *report->unused);
  if (!report->unused) return heap_error(err, "loading parameters");
  for (int i = 0; i < count; i++) {
    const char *name = weights_at(params->weights, i)->name;
    if (is_param(plan, name)) continue;
    report->unused[report->nunused] = heap_copy(name);
    if (!report->unused[report->nunused]) return heap_error(err, "loading parameters");
    report->nunused++;
  }
  return ExitOk;
}

static int fill_all(const Params *params, Loaded *loaded, ParamsReport *report, Error *err) {
  const Plan *plan = loaded->plan;
  int rc = load_space(loaded, SpaceInit, err), entry;
  for (int i = 0; i < plan->ntensors && !rc; i++) {
    if (!params_has(&plan->tensors[i])) continue;
    rc = fill_one(params, loaded, i, err);
    report->filled++;
    report->count += tensor_count(&plan->tensors[i]);
  }
  Error none = {0};
  bool has_init = !run_find_entry(loaded, "init", &entry, &none);
  double begin = jit_seconds();
  if (!rc && has_init) rc = run_entry(loaded, "init", err);
  report->seconds_init = jit_seconds() - begin;
  if (!loaded->keep_init) load_free_space(loaded, SpaceInit);
  if (!rc) rc = list_seeded(params, plan, report, err);
  return rc ? rc : list_unused(params, plan, report, err);
}

int params_fill(const Params *params, Loaded *loaded, ParamsReport *report, Error *err) {
  ParamsReport own = {0};
  nvtx_push_named(loaded->device->nvtx, "weights loading", NvtxMemory, ColorMagenta);
  int rc = fill_all(params, loaded, &own, err);
  nvtx_pop(loaded->device->nvtx);
  if (report && !rc)
    *report = own;
  else
    params_report_free(&own);
  return rc;
}

void params_report_free(ParamsReport *report) {
  for (int i = 0; i < report->nunused; i++) free(report->unused[i]);
  for (int i = 0; i < report->nseeded; i++) free(report->seeded[i]);
  free(report->unused);
  free(report->seeded);
  *report = (ParamsReport){0};
}

// ---- saving ------------------------------------------------------------------------------------

static const char *const stored_as[DtCount] = {
    [DtF32] = "F32", [DtF16] = "F16", [DtBf16] = "BF16", [DtF64] = "F64",
    [DtI32] = "I32", [DtU8] = "U8",   [DtI64] = "I64",   [DtBool] = "BOOL"};

// States from the device; parameters without updates from `params`.
static int save_one(const Params *params, Loaded *loaded, int tensor, WeightTensor *out,
                    Error *err) {
  const PlanTensor *t = &loaded->plan->tensors[tensor];
  bool state = t->role == RoleState;
  Dtype dtype = state ? t->dtype : DtF32;
  int64_t count = tensor_count(t);
  *out = (WeightTensor){.name = t->name, .dtype = stored_as[dtype], .rank = t->rank};
  memcpy(out->shape, t->shape, sizeof out->shape);
  out->bytes = (size_t)count * dtype_size(dtype);
  void *data = heap_alloc(out->bytes, 1);
  if (!data) return heap_error(err, "saving parameters");
  out->data = data;
  return state ? tensor_read_plain(loaded, tensor, data, out->bytes, err)
               : params_values(params, t, data, err);
}

void params_snapshot_free(WeightTensor *tensors, int count) {
  for (int i = 0; i < count; i++) free((void *)tensors[i].data);
  free(tensors);
}

int params_snapshot(const Params *params, Loaded *loaded, WeightTensor **out, int *count,
                    Error *err) {
  const Plan *plan = loaded->plan;
  int rc = ExitOk;
  *count = 0;
  *out = heap_alloc((size_t)plan->ntensors + 1, sizeof **out);
  if (!*out) return heap_error(err, "saving parameters");
  for (int i = 0; i < plan->ntensors && !rc; i++)
    if (params_has(&plan->tensors[i])) rc = save_one(params, loaded, i, &(*out)[(*count)++], err);
  if (!rc) return ExitOk;
  params_snapshot_free(*out, *count);
  *out = NULL;
  return rc;
}

int params_save(const Params *params, Loaded *loaded, const char *path, Error *err) {
  WeightTensor *tensors;
  int count, rc = params_snapshot(params, loaded, &tensors, &count, err);
  if (rc) return rc;
  rc = weights_write(path, tensors, count, NULL, err);
  params_snapshot_free(tensors, count);
  return rc;
}
