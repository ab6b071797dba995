// emit_data.c: the data files of `nngen emit`: parameters as safetensors under the model's names,
// and inputs with the oracle's results for NAME_check.c.
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static const char *const stored_as[DtCount] = {
    [DtF32] = "F32", [DtF16] = "F16", [DtBf16] = "BF16", [DtF64] = "F64",
    [DtI32] = "I32", [DtU8] = "U8",   [DtI64] = "I64",   [DtBool] = "BOOL"};

// Parameters, and states whose initial value is not a constant.
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

typedef struct Source { // the values that the oracle reads
  Emission *e;
  Compiler *compiler;
  int first, end;  // its entries
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
static double *make_input(const PlanTensor *t, int64_t below, uint64_t *state) {
  enum { kSmall = 16 };
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

// The "inputs", "outputs" or "states" of an entry, as the plan's tensors; to be freed.
static int *border(const Source *source, int entry, const char *kind, int *count) {
  int *tensors = base_alloc((size_t)source->e->plan->ntensors + 1, sizeof *tensors);
  *count = embed_border(source->e->embed, entry, kind, tensors);
  return tensors;
}

static int64_t allowed_below(const Source *source, const char *name) {
  const Graph *g = source->compiler->original;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->name && !strcmp(g->nodes[i]->name, name)) return g->nodes[i]->attr.below;
  return 0;
}

static int find_input(const Source *source, const char *name) {
  for (int i = 0; i < source->e->plan->ntensors; i++)
    if (source->inputs[i] && !strcmp(source->e->plan->tensors[i].name, name)) return i;
  return -1;
}

static bool read_source(void *user, const Node *n, double *values) {
  Source *source = user;
  const Plan *plan = source->e->plan;
  int input = find_input(source, n->name);
  if (input >= 0) {
    size_t count = (size_t)tensor_count(&plan->tensors[input]);
    return memcpy(values, source->inputs[input], count * sizeof *values), true;
  }
  for (int i = 0; i < plan->ntensors; i++) {
    const PlanTensor *t = &plan->tensors[i];
    int64_t count = tensor_count(t);
    if (!params_has(t) || strcmp(t->name, n->name) || count != type_count(&n->type)) continue;
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

static const double *output_value(const Source *source, double **value, const char *name) {
  const Graph *g = source->compiler->original;
  for (int i = 0; i < g->noutputs; i++)
    if (!strcmp(g->outputs[i].name, name)) return value[g->outputs[i].node->id];
  die("no output '%s'", name);
}

// True if the plan's entry (from 0, without `init`) is the model's entry of this name. The plan's
// name for `infer` is run, with _b8 appended for one of several batch sizes.
static bool is_entry(const Plan *plan, int entry, const char *name) {
  int at = 0;
  for (; at < plan->nentries; at++)
    if (strcmp(plan->entries[at].name, "init") && !entry--) break;
  const char *own = plan->entries[at].name;
  if (!strcmp(name, "infer")) return !strcmp(own, "infer") || !strncmp(own, "run_b", 5);
  size_t n = strlen(name);
  return !strncmp(own, name, n) && (!own[n] || !strncmp(own + n, "_b", 2));
}

// The value of a state after a run of an entry.
static const double *state_value(const Source *source, double **value, int entry,
                                 const char *name) {
  const Graph *g = source->compiler->original;
  for (int i = 0; i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    if (!strcmp(u->state->name, name) &&
        is_entry(source->e->plan, entry, source->compiler->entries[u->entry]))
      return value[u->value->id];
  }
  die("no update of state '%s'", name);
}

static bool put_doubles(FILE *file, const PlanTensor *t, const double *values) {
  size_t count = (size_t)tensor_count(t);
  return fwrite(values, sizeof *values, count, file) == count;
}

static bool put_entry(Source *source, int entry, double **value, FILE *file) {
  const PlanTensor *all = source->e->plan->tensors;
  int count, noutputs, nstates;
  int *inputs = border(source, entry, "inputs", &count);
  int *outputs = border(source, entry, "outputs", &noutputs);
  int *states = border(source, entry, "states", &nstates);
  bool ok = true;
  for (int i = 0; i < count && ok && noutputs + nstates; i++)
    ok = put_values(file, source->e, inputs[i], source->inputs[inputs[i]]);
  for (int i = 0; i < noutputs && ok; i++)
    ok = put_doubles(file, &all[outputs[i]], output_value(source, value, all[outputs[i]].name));
  for (int i = 0; i < nstates && ok; i++)
    ok = put_doubles(file, &all[states[i]],
                     state_value(source, value, entry, all[states[i]].name));
  free(inputs);
  free(outputs);
  free(states);
  return ok;
}

// Writes the inputs and results of the entries of one compilation.
static bool put_compilation(Source *source, FILE *file) {
  Plan *plan = source->e->plan;
  uint64_t state = 1;
  for (int entry = source->first; entry < source->end; entry++) {
    int count, *inputs = border(source, entry, "inputs", &count);
    for (int i = 0; i < count; i++) {
      const PlanTensor *t = &plan->tensors[inputs[i]];
      if (!source->inputs[inputs[i]])
        source->inputs[inputs[i]] = make_input(t, allowed_below(source, t->name), &state);
    }
    free(inputs);
  }
  double **value;
  bool ok = check_reference(source->compiler, read_source, source, &value);
  if (ok) {
    for (int entry = source->first; entry < source->end && ok; entry++)
      ok = put_entry(source, entry, value, file);
    eval_free(source->compiler->original, value);
    free(value);
  }
  for (int i = 0; i < plan->ntensors; i++) free(source->inputs[i]), source->inputs[i] = NULL;
  return ok;
}

int emit_check(Emission *e, const char *path, Error *err) {
  static const char mark[16] = "nngen emit check";
  Source source = {.e = e, .err = err};
  source.inputs = base_alloc((size_t)e->plan->ntensors + 1, sizeof *source.inputs);
  FILE *file = fopen(path, "wb");
  bool ok = file && fwrite(mark, 1, sizeof mark, file) == sizeof mark;
  for (int i = 0; i < e->ncompilers && ok; i++) {
    source.compiler = &e->compilers[i];
    source.first = source.end;
    source.end += e->entries_of[i];
    ok = put_compilation(&source, file);
  }
  free(source.inputs);
  if (file) ok = !fclose(file) && ok;
  if (ok) return ExitOk;
  return err->code ? err->code : err_set(err, ExitBadInput, "%s: %m", path);
}
