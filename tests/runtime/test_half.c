// test_half.c: every 16-bit pattern, and rounding at every boundary between two of them.
#include <math.h>

#include "runtime/support.h"

static void every_pattern(void **state) {
  (void)state;
  for (int i = 0; i < 65536; i++) {
    float half = half_to_float((uint16_t)i), bf16 = bf16_to_float((uint16_t)i);
    if (isnan(half))
      assert_true(isnan(half_to_float(half_from_float(half))));
    else
      assert_int_equal(half_from_float(half), i);
    if (isnan(bf16))
      assert_true(isnan(bf16_to_float(bf16_from_float(bf16))));
    else
      assert_int_equal(bf16_from_float(bf16), i);
  }
}

// Between two neighbours: below the middle goes down, above goes up, the middle to the even one.
static void half_rounds_to_even(void **state) {
  (void)state;
  for (int i = 0; i < 0x7bff; i++) {
    float low = half_to_float((uint16_t)i), high = half_to_float((uint16_t)(i + 1));
    float middle = (low + high) / 2;
    assert_int_equal(half_from_float(middle), i + (i & 1));
    assert_int_equal(half_from_float(nextafterf(middle, 0)), i);
    assert_int_equal(half_from_float(nextafterf(middle, INFINITY)), i + 1);
    assert_int_equal(half_from_float(-middle), 0x8000 + i + (i & 1));
  }
}

static void known_values(void **state) {
  (void)state;
  assert_true(half_to_float(0x3c00) == 1 && half_to_float(0x0001) == 0x1p-24f);
  assert_true(half_to_float(0x7bff) == 65504 && half_to_float(0xfc00) == -INFINITY);
  assert_int_equal(half_from_float(65519.99f), 0x7bff);
  assert_int_equal(half_from_float(65520), 0x7c00);
  assert_int_equal(half_from_float(-0.f), 0x8000);
  assert_int_equal(bf16_from_float(1), 0x3f80);
  assert_int_equal(bf16_from_float(1.00390625f), 0x3f80); // the middle, to even
  assert_int_equal(bf16_from_float(1.01171875f), 0x3f82);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_pattern),
                                     cmocka_unit_test(half_rounds_to_even),
                                     cmocka_unit_test(known_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
