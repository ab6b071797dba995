// test_products.c: contractions and their index maps against plain loops, which know convolution
// from its definition: out[n, o, p, q] = sum of x[n, c, p * stride + r * dilation - pad, ..] * w[o,
// c, r, s].
#include "support.h"

#include <math.h>

static Compiler c;
static Error err;

typedef struct Case {
  int n, channels, h, w, out, r, s, stride[2], pad[4], dilation[2], groups;
} Case;

static const Case cases[] = {
    {2, 4, 7, 6, 6, 3, 3, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1},
    {1, 3, 9, 8, 5, 3, 2, {2, 3}, {1, 0, 2, 1}, {1, 2}, 1},
    {2, 6, 6, 7, 4, 2, 3, {3, 2}, {0, 2, 1, 1}, {2, 1}, 2},
    {1, 4, 5, 5, 4, 1, 1, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
    {2, 5, 8, 4, 5, 3, 1, {2, 1}, {2, 0, 2, 0}, {1, 1}, 5},
    {1, 2, 11, 3, 3, 4, 3, {4, 1}, {1, 1, 1, 1}, {3, 1}, 1},
};

static int positions(const Case *k, int i) {
  int size = i ? k->w : k->h, window = i ? k->s : k->r;
  return (size + k->pad[i] + k->pad[i + 2] - k->dilation[i] * (window - 1) - 1) / k->stride[i] + 1;
}

// Calls each product of a convolution: the offsets of x, w and the result in row-major tensors.
static void each_product(const Case *k, void (*each)(int x, int w, int y, double **v), double **v) {
  int P = positions(k, 0), Q = positions(k, 1), C = k->channels / k->groups, O = k->out / k->groups;
  for (int n = 0; n < k->n; n++)
    for (int o = 0; o < k->out; o++)
      for (int p = 0; p < P; p++)
        for (int q = 0; q < Q; q++)
          for (int i = 0; i < C; i++)
            for (int r = 0; r < k->r; r++)
              for (int s = 0; s < k->s; s++) {
                int y = p * k->stride[0] + r * k->dilation[0] - k->pad[0];
                int x = q * k->stride[1] + s * k->dilation[1] - k->pad[1];
                if (y < 0 || y >= k->h || x < 0 || x >= k->w) continue;
                int channel = o / O * C + i;
                each(((n * k->channels + channel) * k->h + y) * k->w + x,
                     ((o * C + i) * k->r + r) * k->s + s, ((n * k->out + o) * P + p) * Q + q, v);
              }
}

enum { X, W, Y, Sum };
static void into_result(int x, int w, int y, double **v) { v[Sum][y] += v[X][x] * v[W][w]; }
static void into_image(int x, int w, int y, double **v) { v[Sum][x] += v[Y][y] * v[W][w]; }
static void into_filter(int x, int w, int y, double **v) { v[Sum][w] += v[X][x] * v[Y][y]; }

static Node *source(const char *name, int64_t a, int64_t b, int64_t d, int64_t e) {
  Node *n = graph_add(c.graph, op_need(&c, "input"), 0, NULL, NULL, NULL);
  n->name = name;
  n->type = type_make(DtF32, 4, (int64_t[]){a, b, d, e});
  return n;
}

static double *noise(int64_t count, unsigned seed) {
  double *v = calloc((size_t)count, sizeof *v);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1103515245u + 12345u;
    v[i] = (seed >> 16) % 2001 / 1000. - 1;
  }
  return v;
}

// One op against its loop: `first`, `second` and the result are X, W or Y.
static void check(const Case *k, const char *name, int first, int second, int result,
                  void (*each)(int, int, int, double **)) {
  c.graph = graph_new(&c, "test");
  int P = positions(k, 0), Q = positions(k, 1);
  Node *of[3] = {source("x", k->n, k->channels, k->h, k->w),
                 source("w", k->out, k->channels / k->groups, k->r, k->s),
                 source("y", k->n, k->out, P, Q)};
  Attr attr = {.groups = k->groups, .size = {result == X ? k->h : k->r, result == X ? k->w : k->s}};
  for (int i = 0; i < 2; i++) attr.stride[i] = k->stride[i], attr.dilation[i] = k->dilation[i];
  for (int i = 0; i < 4; i++) attr.pad[i] = k->pad[i];
  Node *n =
      graph_add(c.graph, op_need(&c, name), 2, (Node *[]){of[first], of[second]}, &attr, NULL);
  shape_infer(&c, n);
  assert_true(type_same_shape(&n->type, &of[result]->type));
  int64_t count = type_count(&n->type);
  double *value[8] = {0}, *want = calloc((size_t)count, sizeof *want);
  double *v[] = {noise(type_count(&of[X]->type), 1), noise(type_count(&of[W]->type), 2),
                 noise(type_count(&of[Y]->type), 3), want};
  value[of[first]->id] = v[first];
  value[of[second]->id] = v[second];
  eval_node(&c, n, value);
  each_product(k, each, v);
  for (int64_t i = 0; i < count; i++)
    if (!(fabs(value[n->id][i] - want[i]) <= 1e-12 * (1 + fabs(want[i]))))
      fail_msg("%s, case %d: element %lld is %g, not %g", name, (int)(k - cases), (long long)i,
               value[n->id][i], want[i]);
  for (int i = 0; i < 4; i++) free(v[i]);
  free(value[n->id]);
}

static void convolutions(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(cases); i++) check(&cases[i], "conv2d", X, W, Y, into_result);
}
static void image_gradients(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(cases); i++) check(&cases[i], "conv2d_data", Y, W, X, into_image);
}
static void filter_gradients(void **state) {
  (void)state;
  for (size_t i = 0; i < LENGTH(cases); i++)
    check(&cases[i], "conv2d_filter", Y, X, W, into_filter);
}

// A stride cuts the gradient by the image into phases without products of zeros: together as many
// as the convolution has, but for the borders.
static void phases(void **state) {
  (void)state;
  c.graph = graph_new(&c, "test");
  Node *y = source("y", 1, 8, 8, 8), *w = source("w", 8, 4, 3, 3);
  Attr attr = {
      .stride = {2, 2}, .pad = {1, 1, 1, 1}, .dilation = {1, 1}, .groups = 1, .size = {16, 16}};
  Node *n = graph_add(c.graph, op_need(&c, "conv2d_data"), 2, (Node *[]){y, w}, &attr, NULL);
  shape_infer(&c, n);
  assert_int_equal(maps_phases(n), 4);
  int taps = 0;
  for (int i = 0; i < 4; i++) {
    Maps m = maps_of(n, i);
    assert_int_equal(maps_count(&m, AxisM), 64);
    taps += (int)maps_count(&m, AxisK) / 8;
  }
  assert_int_equal(taps, 9);
  assert_true(maps_multiplies(n) == 64 * 9 * 8 * 4);
}

// The maps tell which tensor is the image, the filter, or has an element per position.
static void parts(void **state) {
  (void)state;
  c.graph = graph_new(&c, "test");
  Node *x = source("x", 2, 4, 8, 8), *w = source("w", 6, 4, 3, 3), *y = source("y", 2, 6, 6, 6);
  Node *of[] = {[PartImage] = x, [PartFilter] = w, [PartPositions] = y};
  const struct {
    const char *op;
    WindowPart a, b, result;
  } rows[] = {{"conv2d", PartImage, PartFilter, PartPositions},
              {"conv2d_data", PartPositions, PartFilter, PartImage},
              {"conv2d_filter", PartPositions, PartImage, PartFilter}};
  for (size_t i = 0; i < LENGTH(rows); i++) {
    Node *in[] = {of[rows[i].a], of[rows[i].b]};
    Attr attr = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
    for (int d = 0; d < 2; d++) attr.size[d] = of[rows[i].result]->type.dim[2 + d];
    Node *n = graph_add(c.graph, op_need(&c, rows[i].op), 2, in, &attr, NULL);
    shape_infer(&c, n);
    assert_int_equal(maps_gives(n), rows[i].result);
    assert_int_equal(maps_tensor(n, rows[i].a), MapA);
    assert_int_equal(maps_tensor(n, rows[i].b), MapB);
    for (WindowPart p = PartImage; p <= PartPositions; p++)
      assert_true(type_same_shape(maps_type(n, p), &of[p]->type));
  }
  assert_int_equal(op_need(&c, "matmul")->maps->part[MapOut], PartNone);
  assert_int_equal(maps_gives(x), PartNone);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions), cmocka_unit_test(image_gradients),
      cmocka_unit_test(filter_gradients), cmocka_unit_test(phases), cmocka_unit_test(parts)};
  open_compiler(&c, &err, "fused", "fp32");
  return cmocka_run_group_tests_name("products", tests, NULL, NULL);
}
