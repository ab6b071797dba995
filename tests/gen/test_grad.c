// test_grad.c: nn.grad of each class of ops (grad.lua) against central differences, in double.
#include "support.h"

#include <math.h>

static const char *const cases[] = {
    "add", "mul", "shared", "functions", "choices", "sums", "extremes", "norms", "softmax",
    "cancelled", "cancelled_masked", "not_cancelled", "not_cancelled_masked",
    "not_cancelled_alone", "prod", "scan", "products", "log_sums",
    "log_sums_twice", "log_sums_thrice", "matmul", "batched", "conv", "transposed",
    "filter", "pooled", "max_pooled", "max_pooled_over", "max_pooled_dilated", "max_pooled_dense",
    "moved", "gathered", "chosen", "top", "network", "twice", "batch_norm",
    "batch_norm_twice", "custom", "own", "own_reduction"};

static Compiler c;

static void open_case(const char *name) {
  static const char *names[1] = {"case"}, *values[1];
  static Error err;
  values[0] = name;
  Options o = {.model = "tests/gen/grad.lua", .lowering = "fused", .dtype = "fp32",
               .arch = arch_default(), .stage = "shape", .nset = 1, .set_name = names,
               .set_value = values};
  if (compile_model(&c, &o, &err)) fail_msg("%s: %s", name, err.message);
}

// Inputs in [0.4, 1.6], no two near each other; ids below 4.
static double at_start(const Node *n, int64_t i, unsigned *seed) {
  if (!dtype_is_float(n->type.dtype)) return (double)((i * 7 + 1) % 4);
  *seed = *seed * 1103515245u + 12345u;
  return 0.4 + 1.2 * ((double)((i * 37 + (*seed >> 16) % 5) % 101) + 0.37) / 101 + 1e-3 * n->id;
}

static void fill(double **value) {
  unsigned seed = 7;
  for (int i = 0; i < c.original->nnodes; i++) {
    const Node *n = c.original->nodes[i];
    if (!node_has_memory(n)) continue;
    int64_t count = type_count(&n->type);
    value[i] = calloc((size_t)count, sizeof(double));
    for (int64_t e = 0; e < count; e++) value[i][e] = at_start(n, e, &seed);
  }
}

// The value of an output; element `e` of input `moved` is more by `by`.
static double *evaluate(const Node *output, const Node *moved, int64_t e, double by) {
  double **value = calloc((size_t)c.original->nnodes, sizeof *value);
  fill(value);
  if (moved) value[moved->id][e] += by;
  eval_graph(c.original, value, NULL, NULL);
  double *result = value[output->id];
  value[output->id] = NULL;
  eval_free(c.original, value);
  free(value);
  return result;
}

static const Node *output_named(const char *name) {
  for (int i = 0; i < c.original->noutputs; i++)
    if (!strcmp(c.original->outputs[i].name, name)) return c.original->outputs[i].node;
  return NULL;
}

static double loss_at(const Node *moved, int64_t e, double by) {
  double *loss = evaluate(output_named("loss"), moved, e, by), value = *loss;
  free(loss);
  return value;
}

static void check_input(const char *name, const Node *x) {
  char output[80];
  snprintf(output, sizeof output, "d%s", x->name);
  const Node *g = output_named(output);
  assert_non_null(g);
  assert_true(type_same_shape(&g->type, &x->type));
  double *got = evaluate(g, NULL, 0, 0);
  for (int64_t e = 0; e < type_count(&x->type); e++) {
    double want = (loss_at(x, e, 1e-6) - loss_at(x, e, -1e-6)) / 2e-6;
    if (!(fabs(want - got[e]) <= 1e-5 + 1e-3 * fabs(want)))
      fail_msg("%s: the gradient of element %lld of %s is %g, differences give %g", name,
               (long long)e, x->name, got[e], want);
  }
  free(got);
}

static void differences(void **state) {
  const char *name = *state;
  int checked = 0;
  open_case(name);
  for (int i = 0; i < c.original->nnodes; i++) {
    const Node *n = c.original->nodes[i];
    if (n->op->cls != OpSource || n->op->form != SourceInput || !dtype_is_float(n->type.dtype))
      continue;
    check_input(name, n);
    checked++;
  }
  assert_true(checked > 0);
  compile_close(&c);
}

static void stops(void **state) { // d(x * stop(x)) = x, not 2 x
  (void)state;
  open_case("stopped");
  double *x = evaluate(output_named("da"), NULL, 0, 0);
  const Node *a = NULL;
  for (int i = 0; i < c.original->nnodes && !a; i++)
    if (c.original->nodes[i]->op->form == SourceInput && c.original->nodes[i]->op->cls == OpSource)
      a = c.original->nodes[i];
  double whole = (loss_at(a, 0, 1e-6) - loss_at(a, 0, -1e-6)) / 2e-6;
  // Half of it goes through the factor that is not stopped.
  assert_true(fabs(2 * x[0] - whole) < 1e-4);
  free(x);
  compile_close(&c);
}

int main(void) {
  struct CMUnitTest tests[LENGTH(cases) + 1] = {{0}};
  for (size_t i = 0; i < LENGTH(cases); i++)
    tests[i] = (struct CMUnitTest){cases[i], differences, NULL, NULL, (void *)cases[i]};
  tests[LENGTH(cases)] = (struct CMUnitTest)cmocka_unit_test(stops);
  return cmocka_run_group_tests_name("grad", tests, NULL, NULL);
}
