// test_values.c: values in host memory: the orders they are stored in, those of seeded parameters.
#include <math.h>

#include "runtime/support.h"

static void stored_orders(void **state) {
  (void)state;
  static const int orders[][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}, {3, 2, 1, 0}, {1, 0, 3, 2}};
  float values[2 * 3 * 4 * 5], back[2 * 3 * 4 * 5];
  for (int i = 0; i < 120; i++) values[i] = (float)(i % 90) - 40; // exact in 16 bits
  for (int o = 0; o < COUNT(orders); o++)
    for (int d = 0; d < DtCount; d++) {
      PlanTensor tensor = {.dtype = (Dtype)d, .rank = 4, .shape = {2, 3, 4, 5}};
      char stored[120 * 8];
      memcpy(tensor.order, orders[o], sizeof orders[o]);
      tensor_from_floats(&tensor, values, stored);
      tensor_to_floats(&tensor, stored, back);
      for (int i = 0; i < 120; i++)
        assert_true(back[i] == (d == DtBool                  ? values[i] != 0
                                : d == DtU8 && values[i] < 0 ? 0
                                                             : values[i]));
    }
  PlanTensor last = {.dtype = DtF32, .rank = 4, .shape = {2, 3, 4, 5}, .order = {0, 2, 3, 1}};
  float stored[120];
  tensor_from_floats(&last, values, stored);
  for (int n = 0; n < 2; n++)
    for (int c = 0; c < 3; c++)
      for (int h = 0; h < 4; h++)
        for (int w = 0; w < 5; w++)
          assert_true(stored[((n * 4 + h) * 5 + w) * 3 + c] ==
                      values[((n * 3 + c) * 4 + h) * 5 + w]);
}

static void saturation(void **state) {
  (void)state;
  const float values[4] = {300, -5, NAN, 2.5f};
  uint8_t bytes[4];
  PlanTensor tensor = {.dtype = DtU8, .rank = 1, .shape = {4}};
  tensor_from_floats(&tensor, values, bytes);
  assert_true(bytes[0] == 255 && bytes[1] == 0 && bytes[2] == 0 && bytes[3] == 2);
}

static void seeded_parameters(void **state) {
  (void)state;
  enum { Count = 40000 };
  float *values = malloc(Count * sizeof *values), *again = malloc(Count * sizeof *again);
  Error err = {0};
  Params *params;
  PlanTensor tensor = {.name = "w",
                       .role = RoleParam,
                       .rank = 1,
                       .shape = {Count},
                       .init = InitNormal,
                       .init_a = 1,
                       .init_b = 2,
                       .loc = "m.lua:1"};
  double sum = 0, squares = 0, low = 1e9, high = -1e9;
  assert_int_equal(params_open(NULL, 7, &params, &err), ExitOk);
  assert_int_equal(params_values(params, &tensor, values, &err), ExitOk);
  for (int i = 0; i < Count; i++) sum += values[i], squares += pow(values[i] - 1, 2);
  assert_true(fabs(sum / Count - 1) < .05 && fabs(sqrt(squares / Count) - 2) < .05);
  assert_int_equal(params_values(params, &tensor, again, &err), ExitOk);
  assert_memory_equal(values, again, Count * sizeof *values);
  tensor.name = "v"; // another name, other values
  assert_int_equal(params_values(params, &tensor, again, &err), ExitOk);
  assert_memory_not_equal(values, again, Count * sizeof *values);
  tensor.init = InitUniform, tensor.init_a = -3, tensor.init_b = 1, sum = 0;
  assert_int_equal(params_values(params, &tensor, values, &err), ExitOk);
  for (int i = 0; i < Count; i++)
    sum += values[i], low = fmin(low, values[i]), high = fmax(high, values[i]);
  assert_true(fabs(sum / Count + 1) < .05 && low >= -3 && low < -2.99 && high <= 1 && high > .99);
  int rounded = 0;
  tensor.dtype = DtF16; // values come as the device will have them
  assert_int_equal(params_values(params, &tensor, again, &err), ExitOk);
  for (int i = 0; i < Count; i++) {
    assert_true(again[i] == half_to_float(half_from_float(values[i])));
    rounded += again[i] != values[i];
  }
  assert_true(rounded > Count / 2);
  tensor.init = InitNone;
  assert_int_equal(params_values(params, &tensor, values, &err), ExitBadInput);
  assert_string_equal(err.message, "parameter 'v' (m.lua:1) has no initial value: give --weights");
  params_close(params);
  free(values), free(again);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stored_orders), cmocka_unit_test(saturation),
                                     cmocka_unit_test(seeded_parameters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
