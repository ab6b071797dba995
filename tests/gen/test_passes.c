// test_passes.c: random models compute the same before all passes and behind those of the graph, in
// double, and each of their kernels is written. Far more seeds than kernels could run for:
// NNGEN_PASSES_FIRST and NNGEN_PASSES_COUNT choose others.
#include "support.h"

#include "gen/oracle/oracle.h"

#include <math.h>
#include <stdio.h>

static const double kGate = 1e-5; // constants are joined as floats

static void fill(const Node *n, double *value) { // by its name
  unsigned seed = 2166136261u;
  for (const char *s = n->name; s && *s; s++) seed = (seed ^ (unsigned char)*s) * 16777619u;
  unsigned below = n->attr.below ? (unsigned)n->attr.below : 7;
  for (int64_t i = 0; i < type_count(&n->type); i++) {
    seed = seed * 1103515245u + 12345u;
    bool whole = !dtype_is_float(n->type.dtype);
    value[i] = whole ? (seed >> 8) % (n->type.dtype == DtBool ? 2 : below)
                     : (float)((seed >> 8) % 20001 / 5000. - 2);
  }
}

static double **evaluate(Graph *g) {
  double **value = calloc((size_t)g->nnodes + 1, sizeof *value);
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!node_has_memory(n)) continue;
    value[i] = calloc((size_t)type_count(&n->type) + 1, sizeof **value);
    fill(n, value[i]);
  }
  eval_graph(g, value, NULL, NULL);
  return value;
}

static bool agrees(const Node *written, const Node *made, const double *want, const double *got) {
  double error = 0, norm = 0;
  int64_t count = type_count(&written->type);
  if (!type_same_shape(&written->type, &made->type)) return false;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(want[i]) || !isfinite(got[i])) continue; // 0 times infinity, in packed groups
    error += (want[i] - got[i]) * (want[i] - got[i]);
    norm += want[i] * want[i];
  }
  return sqrt(error / fmax(norm, 1e-5 * (double)count)) <= kGate;
}

static void compare(Compiler *c, const char *model, const char *seed) {
  Graph *a = c->original, *b = c->graph;
  double **want = evaluate(a), **got = evaluate(b);
  assert_int_equal(a->noutputs, b->noutputs);
  assert_int_equal(a->nupdates, b->nupdates);
  for (int i = 0; i < a->noutputs; i++) {
    const Node *x = a->outputs[i].node, *y = b->outputs[i].node;
    if (!agrees(x, y, want[x->id], got[y->id]))
      fail_msg("%s --set seed=%s: output %s", model, seed, a->outputs[i].name);
  }
  for (int i = 0; i < a->nupdates; i++) {
    const Node *x = a->updates[i].value, *y = b->updates[i].value;
    if (!agrees(x, y, want[x->id], got[y->id]))
      fail_msg("%s --set seed=%s: state %s", model, seed, a->updates[i].state->name);
  }
  eval_free(a, want);
  eval_free(b, got);
  free(want);
  free(got);
}

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static void each_seed(const char *model, const char *dtype) {
  int first = number("NNGEN_PASSES_FIRST", 1);
  int count = number("NNGEN_PASSES_COUNT", getenv("NNGEN_TEST_LONG") ? 100 : 50);
  for (int i = first; i < first + count; i++) {
    char seed[16];
    snprintf(seed, sizeof seed, "%d", i);
    const char *name = "seed", *value = seed;
    Compiler c;
    Error err = {0};
    Options o = {.model = model,
                 .lowering = "fused",
                 .dtype = dtype,
                 .arch = arch_default(),
                 .nset = 1,
                 .set_name = &name,
                 .set_value = &value};
    if (compile_model(&c, &o, &err)) fail_msg("%s --set seed=%s: %s", model, seed, err.message);
    if (!strcmp(dtype, "fp32")) compare(&c, model, seed);
    compile_close(&c);
  }
}

static void test_graphs(void **state) {
  (void)state;
  each_seed("tests/models/graphs.lua", "fp32");
}
static void test_layouts(void **state) {
  (void)state;
  each_seed("tests/models/layouts.lua", "fp32");
  each_seed("tests/models/layouts.lua", "fp16");
}

static void test_meeting(void **state) {
  (void)state;
  each_seed("tests/models/meeting.lua", "fp32");
  each_seed("tests/models/meeting.lua", "fp16");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_graphs),
      cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_meeting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
