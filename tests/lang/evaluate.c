// evaluate.c: what a model's outputs are by the oracle, in double, with no kernel compiled:
// evaluate MODEL.lua --output DIR [--input NAME=FILE.npy]... [--weights FILE]
//
// Takes the flags of nngen that torch_cases.py gives it, and writes DIR/NAME.npy as nngen does.
#include "gen/compile/compile.h"
#include "runtime/nngen_data.h"

#include <stdlib.h>
#include <string.h>

enum { kMostInputs = 32 };

typedef struct Files {
  const char *model, *output, *weights;
  const char *input[kMostInputs]; // NAME=FILE
  int ninputs;
  Weights *opened; // or null
} Files;

static Compiler compiler;
static Error err;

static int failed(void) {
  fprintf(stderr, "evaluate: %s\n", err.message);
  return 1;
}

static bool read_flags(Files *f, char **arg) {
  for (; *arg; arg++) {
    if (!strcmp(*arg, "--quiet")) continue;
    if (**arg != '-') {
      f->model = *arg;
      continue;
    }
    if (!arg[1]) return false;
    if (!strcmp(*arg, "--output"))
      f->output = arg[1];
    else if (!strcmp(*arg, "--weights"))
      f->weights = arg[1];
    else if (!strcmp(*arg, "--input") && f->ninputs < kMostInputs)
      f->input[f->ninputs++] = arg[1];
    else
      return false;
    arg++;
  }
  return f->model && f->output;
}

static bool same_shape(const Node *n, int rank, const int64_t *shape) {
  bool same = rank == n->type.rank;
  for (int d = 0; same && d < rank; d++) same = shape[d] == n->type.dim[d];
  if (!same) err_set(&err, ExitBadInput, "the file of '%s' has another shape", n->name);
  return same;
}

static bool read_input(const char *path, const Node *n, double *values) {
  Npy npy;
  if (npy_read(path, &npy, &err)) return false;
  bool ok = same_shape(n, npy.rank, npy.shape);
  for (int64_t i = 0; ok && i < npy.count; i++)
    values[i] = npy.exact ? npy.exact[i] : npy.values[i];
  npy_free(&npy);
  return ok;
}

// Elements that the model has in its text: Compiler.tables.
static void read_table(const Node *n, double *values) {
  const char *digits = compiler.tables[n->attr.table - 1];
  for (int64_t i = 0; i < type_count(&n->type); i++, digits += 8) {
    unsigned bits;
    float value;
    sscanf(digits, "%8x", &bits);
    memcpy(&value, &bits, sizeof value);
    values[i] = value;
  }
}

// An input, or a parameter under its name in the weights.
static bool read_source(void *user, const Node *n, double *values) {
  const Files *f = user;
  if (n->attr.init == InitTable) {
    read_table(n, values);
    return true;
  }
  size_t length = strlen(n->name);
  for (int i = 0; i < f->ninputs; i++)
    if (!strncmp(f->input[i], n->name, length) && f->input[i][length] == '=')
      return read_input(f->input[i] + length + 1, n, values);
  const WeightTensor *t = f->opened ? weights_find(f->opened, n->name) : NULL;
  if (t) return same_shape(n, t->rank, t->shape) && !weights_doubles(t, values, &err);
  err_set(&err, ExitBadInput, "neither --input nor --weights has '%s'", n->name);
  return false;
}

// Integers as i32, the rest as f32.
static bool write_output(const Files *f, const Output *o, const double *values) {
  const Type *t = &o->node->type;
  int64_t count = type_count(t);
  bool whole = !dtype_is_float(t->dtype);
  float *floats = base_alloc((size_t)count, sizeof *floats);
  int32_t *integers = base_alloc((size_t)count, sizeof *integers);
  for (int64_t i = 0; i < count; i++)
    if (whole)
      integers[i] = (int32_t)values[i];
    else
      floats[i] = (float)values[i];
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.npy", f->output, o->name);
  const void *stored = whole ? (const void *)integers : floats;
  int code = npy_write_stored(path, whole ? DtI32 : DtF32, stored, t->rank, t->dim, &err);
  free(floats);
  free(integers);
  return !code;
}

int main(int argc, char **argv) {
  Files f = {0};
  double **value;
  if (argc < 2 || !read_flags(&f, argv + 1)) {
    fprintf(stderr, "evaluate MODEL.lua --output DIR [--input NAME=FILE]... [--weights FILE]\n");
    return 2;
  }
  Options options = {.model = f.model,
                     .lowering = "fused",
                     .dtype = "fp32",
                     .arch = arch_default(),
                     .stage = "shape"};
  if (f.weights && weights_open(f.weights, &f.opened, &err)) return failed();
  if (compile_model(&compiler, &options, &err)) return failed();
  bool ok = check_reference(&compiler, read_source, &f, &value);
  for (int i = 0; ok && i < compiler.original->noutputs; i++) {
    const Output *o = &compiler.original->outputs[i];
    ok = write_output(&f, o, value[o->node->id]);
  }
  return ok ? 0 : failed();
}
