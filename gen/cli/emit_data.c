// emit_data.c: the numbers of `nngen emit`: parameters as a safetensors file under the model's
// names.
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char *const stored_as[DtCount] = {
    [DtF32] = "F32", [DtF16] = "F16", [DtBf16] = "BF16", [DtF64] = "F64",
    [DtI32] = "I32", [DtU8] = "U8",   [DtI64] = "I64",   [DtBool] = "BOOL"};

// Parameters, and states whose values no constant gives.
static bool is_stored(const PlanTensor *t, const Weights *given) {
  if (t->role == RoleState && given && weights_find(given, t->name)) return true;
  return t->role == RoleParam || (t->role == RoleState && t->init != InitConstant);
}

// As the file has it, or as f32.
static int store(const Emission *e, const PlanTensor *t, const Weights *given, WeightTensor *out,
                 Error *err) {
  const WeightTensor *found = given ? weights_find(given, t->name) : NULL;
  if (found && !dtype_is_float(t->dtype)) {
    *out = *found;
    out->data = memcpy(base_alloc(found->bytes + 1, 1), found->data, found->bytes);
    return ExitOk;
  }
  *out = (WeightTensor){.name = t->name, .dtype = stored_as[DtF32], .rank = t->rank};
  memcpy(out->shape, t->shape, sizeof out->shape);
  out->bytes = (size_t)tensor_count(t) * sizeof(float);
  float *values = base_alloc(out->bytes, 1);
  out->data = values;
  return params_values(e->params, t, values, err);
}

int emit_weights(const Emission *e, const char *path, Error *err) {
  static const char *const metadata[] = {"writer", "nngen emit", NULL};
  const Plan *plan = e->plan;
  WeightTensor *tensors = base_alloc((size_t)plan->ntensors + 1, sizeof *tensors);
  Weights *given = NULL;
  int count = 0, code = e->cli->weights ? weights_open(e->cli->weights, &given, err) : ExitOk;
  for (int i = 0; i < plan->ntensors && !code; i++)
    if (is_stored(&plan->tensors[i], given))
      code = store(e, &plan->tensors[i], given, &tensors[count++], err);
  if (!code) code = weights_write(path, tensors, count, metadata, err);
  for (int i = 0; i < count; i++) free((void *)tensors[i].data);
  free(tensors);
  if (given) weights_close(given);
  return code;
}

// ---- stored results -----------------------------------------------------------------------------

typedef struct Source { // of the values that the oracle reads
  Emission *e;
  double **inputs; // by tensor
  Error *err;
} Source;

static uint64_t next_random(uint64_t *state) { // SplitMix64
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Uniform from -1 to 1, or integers that the model allows.
static double *make_input(const Emission *e, const PlanTensor *t, uint64_t *state) {
  enum { kSmall = 16 };
  int64_t below = e->compiler.graph->nodes[t->value]->attr.below;
  double *values = base_alloc((size_t)tensor_count(t) + 1, sizeof *values);
  if (t->dtype == DtBool) below = 2;
  for (int64_t i = 0; i < tensor_count(t); i++) {
    uint64_t bits = next_random(state) >> 40; // 24
    values[i] = dtype_is_float(t->dtype) ? (double)bits * 0x1p-23 - 1
                                         : (double)(bits % (uint64_t)(below ? below : kSmall));
  }
  void *stored = base_alloc((size_t)t->bytes + 1, 1); // as the device has them
  tensor_from_doubles(t, values, stored);
  tensor_to_doubles(t, stored, values);
  free(stored);
  return values;
}

static bool is_first(const Plan *plan, int tensor) { // of its name
  for (int i = 0; i < tensor; i++)
    if (plan->tensors[i].role == plan->tensors[tensor].role &&
        !strcmp(plan->tensors[i].name, plan->tensors[tensor].name))
      return false;
  return true;
}

static bool read_source(void *user, const Node *n, double *values) {
  Source *source = user;
  const Plan *plan = source->e->plan;
  for (int i = 0; i < plan->ntensors; i++) {
    const PlanTensor *t = &plan->tensors[i];
    if ((t->role != RoleInput && !params_has(t)) || strcmp(t->name, n->name)) continue;
    int64_t count = tensor_count(t);
    if (t->role == RoleInput) return memcpy(values, source->inputs[i], (size_t)count * 8), true;
    float *floats = base_alloc((size_t)count + 1, sizeof *floats);
    int code = params_values(source->e->params, t, floats, source->err);
    for (int64_t k = 0; k < count; k++) values[k] = floats[k];
    free(floats);
    return code == ExitOk;
  }
  die("no tensor '%s' in the plan", n->name);
}

static bool put_values(FILE *file, const Emission *e, int tensor, const double *values) {
  const PlanTensor *t = &e->plan->tensors[tensor];
  void *stored = base_alloc((size_t)t->bytes + 1, 1);
  tensor_from_doubles(t, values, stored);
  bool ok = fwrite(stored, 1, (size_t)t->bytes, file) == (size_t)t->bytes;
  free(stored);
  return ok;
}

static const double *output_value(const Emission *e, double **value, const char *name) {
  const Graph *g = e->compiler.original;
  for (int i = 0; i < g->noutputs; i++)
    if (!strcmp(g->outputs[i].name, name)) return value[g->outputs[i].node->id];
  die("no output '%s'", name);
}

static int write_check(Source *source, double **value, const char *path) {
  static const char mark[16] = "nngen emit check";
  Emission *e = source->e;
  int *tensors = base_alloc((size_t)e->plan->ntensors + 1, sizeof *tensors);
  FILE *file = fopen(path, "wb");
  bool ok = file && fwrite(mark, 1, sizeof mark, file) == sizeof mark;
  int count = embed_border(e->embed, false, tensors);
  for (int i = 0; i < count && ok; i++)
    ok = put_values(file, e, tensors[i], source->inputs[tensors[i]]);
  count = embed_border(e->embed, true, tensors);
  for (int i = 0; i < count && ok; i++) {
    const PlanTensor *t = &e->plan->tensors[tensors[i]];
    size_t elements = (size_t)tensor_count(t);
    ok = fwrite(output_value(e, value, t->name), sizeof(double), elements, file) == elements;
  }
  free(tensors);
  if (file) ok = !fclose(file) && ok;
  return ok ? ExitOk : err_set(source->err, ExitBadInput, "%s: %m", path);
}

int emit_check(Emission *e, const char *path, Error *err) {
  Source source = {e, base_alloc((size_t)e->plan->ntensors + 1, sizeof *source.inputs), err};
  uint64_t state = 1;
  double **value;
  for (int i = 0; i < e->plan->ntensors; i++) // of the first batch, where there are several
    if (e->plan->tensors[i].role == RoleInput && is_first(e->plan, i))
      source.inputs[i] = make_input(e, &e->plan->tensors[i], &state);
  int code = check_reference(&e->compiler, read_source, &source, &value) ? ExitOk : err->code;
  if (!code) {
    code = write_check(&source, value, path);
    eval_free(e->compiler.original, value);
    free(value);
  }
  for (int i = 0; i < e->plan->ntensors; i++) free(source.inputs[i]);
  free(source.inputs);
  return code;
}
