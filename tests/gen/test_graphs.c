// test_graphs.c: nn.grad of random graphs (tests/models/graphs.lua) against central differences of
// their loss, in double, by some elements of each input and parameter: as the model wrote the
// derivatives, and as the passes made of them, fused and unfused. NNGEN_GRAPHS=N: the N-th alone.
#include "support.h"

#include <math.h>

enum { kGraphs = 70, kGraphsLong = 500, kElements = 6, kMostSources = 40 };

static const double kMove = 1e-6;
static Compiler c;
static int compared, left_out; // elements

static void open_graph(int seed, const char *lowering, const char *stage) {
  static const char *names[] = {"seed", "grads"}, *values[] = {NULL, "2"};
  static char number[16];
  static Error err;
  snprintf(number, sizeof number, "%d", seed);
  values[0] = number;
  Options o = {.model = "tests/models/graphs.lua", .lowering = lowering, .dtype = "fp32",
               .arch = arch_default(), .stage = stage, .nset = 2, .set_name = names,
               .set_value = values};
  if (compile_model(&c, &o, &err)) fail_msg("graph %d: %s", seed, err.message);
}

// ---- values ------------------------------------------------------------------------------------

// By name: the passes keep it. A parameter that begins as a constant stays near it.
static double at_start(const Node *n, int64_t i) {
  unsigned seed = (unsigned)i * 2654435761u + 12345u;
  for (const char *s = n->name; *s; s++) seed = (seed ^ (unsigned char)*s) * 16777619u;
  seed ^= seed >> 15, seed *= 2246822519u, seed ^= seed >> 13;
  if (!dtype_is_float(n->type.dtype))
    return n->type.dtype == DtBool ? seed % 2 : seed % (n->attr.below ? n->attr.below : 3);
  double u = seed / 4294967296.;
  bool constant = n->op->form != SourceInput && n->attr.init == InitConstant;
  return constant ? n->attr.init_a + 0.4 * (u - 0.4) : 2.5 * u - 1;
}

static double *start(const Node *n) {
  int64_t count = type_count(&n->type);
  double *x = base_alloc((size_t)count, sizeof *x);
  for (int64_t e = 0; e < count; e++) x[e] = at_start(n, e);
  return x;
}

static double **start_all(const Graph *g) {
  double **value = base_alloc((size_t)g->nnodes, sizeof *value);
  for (int i = 0; i < g->nnodes; i++)
    value[i] = node_has_memory(g->nodes[i]) ? start(g->nodes[i]) : NULL;
  return value;
}

static const Node *output_named(const Graph *g, const char *kind, int number) {
  char name[24];
  snprintf(name, sizeof name, number ? "%s%d" : "%s", kind, number);
  for (int i = 0; i < g->noutputs; i++)
    if (!strcmp(g->outputs[i].name, name)) return g->outputs[i].node;
  return NULL;
}

// The loss where element e of `moved` is more by `by`; value: of all nodes where it is not.
static double loss_at(double **value, const Node *moved, int64_t e, double by) {
  const Graph *g = c.original;
  const Node *loss = output_named(g, "loss", 0);
  double **now = base_alloc((size_t)loss->id + 1, sizeof *now);
  for (int i = 0; i <= loss->id; i++) {
    Node *n = g->nodes[i];
    bool changes = n == moved;
    for (int j = 0; j < n->nin; j++) changes = changes || now[n->in[j]->id] != value[n->in[j]->id];
    now[i] = changes ? NULL : value[i];
    if (n == moved) now[i] = start(n), now[i][e] += by;
    if (changes && n != moved) eval_node(&c, n, now);
  }
  double result = *now[loss->id];
  for (int i = 0; i <= loss->id; i++)
    if (now[i] != value[i]) free(now[i]);
  free(now);
  return result;
}

// ---- a graph -----------------------------------------------------------------------------------

static void check_element(int seed, double **value, const Node *x, int64_t e, double got) {
  double here = *value[output_named(c.original, "loss", 0)->id];
  double up = (loss_at(value, x, e, kMove) - here) / kMove;
  double down = (here - loss_at(value, x, e, -kMove)) / kMove, want = (up + down) / 2;
  // A kink; or no derivative, as of the deviation of equal numbers.
  if (!isfinite(got) || !(fabs(up - down) <= 1e-4 + 1e-4 * fabs(want))) {
    left_out++;
    return;
  }
  compared++;
  if (!(fabs(want - got) <= 1e-5 + 1e-3 * fabs(want)))
    fail_msg("graph %d: the gradient of element %lld of %s is %g, differences give %g", seed,
             (long long)e, x->name, got, want);
}

typedef struct Gradients {
  int count;
  int64_t size[kMostSources];
  double *value[kMostSources];
} Gradients;

// As the model wrote them; held to differences.
static Gradients written(int seed) {
  Gradients g = {0};
  open_graph(seed, "fused", "shape");
  double **value = start_all(c.original);
  for (int i = 0; i < c.original->nnodes; i++)
    if (!value[i]) eval_node(&c, c.original->nodes[i], value);
  const Node *x;
  for (; g.count < kMostSources && (x = output_named(c.original, "from", g.count + 1)); g.count++) {
    const Node *d = output_named(c.original, "slope", g.count + 1);
    assert_true(type_same_shape(&d->type, &x->type));
    int64_t size = g.size[g.count] = type_count(&x->type);
    for (int k = 0; k < kElements && k < size; k++) {
      int64_t e = (seed * 31 + k * 7919) % size;
      check_element(seed, value, x, e, value[d->id][e]);
    }
    g.value[g.count] = value[d->id];
    value[d->id] = NULL;
  }
  eval_free(c.original, value);
  free(value);
  compile_close(&c);
  return g;
}

// The same of what the passes made of them.
static void check_passes(int seed, const Gradients *want, const char *lowering) {
  open_graph(seed, lowering, "fuse");
  double **value = start_all(c.graph);
  eval_graph(c.graph, value, NULL, NULL);
  for (int i = 0; i < want->count; i++) {
    const double *got = value[output_named(c.graph, "slope", i + 1)->id];
    CheckResult r = check_compare(want->value[i], got, NULL, want->size[i], 1e-5, INFINITY);
    if (!r.passed)
      fail_msg("graph %d, %s: the passes change the gradient from%d by %g", seed, lowering, i + 1,
               r.relative);
  }
  eval_free(c.graph, value);
  free(value);
  compile_close(&c);
}

static void check_graph(int seed) {
  Gradients g = written(seed);
  check_passes(seed, &g, "fused");
  check_passes(seed, &g, "unfused");
  for (int i = 0; i < g.count; i++) free(g.value[i]);
}

static void differences(void **state) {
  (void)state;
  const char *only = getenv("NNGEN_GRAPHS");
  int most = getenv("NNGEN_TEST_LONG") ? kGraphsLong : kGraphs;
  for (int seed = 1; seed <= most; seed++)
    if (!only || seed == atoi(only)) check_graph(seed);
  print_message("# %d elements, %d left out\n", compared, left_out);
  assert_true(compared >= 4 * left_out);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(differences)};
  return cmocka_run_group_tests_name("graphs", tests, NULL, NULL);
}
