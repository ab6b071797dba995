// test_mem.c: the arena planner: what is alive at the same time never overlaps, and the arena is
// close to its lower bound.
#include "support.h"

static unsigned seed = 12345;
static int next(int below) { return (int)((seed = seed * 1664525u + 1013904223u) >> 8) % below; }

static void no_overlap(void **state) {
  (void)state;
  enum { kMost = 120 };
  for (int round = 0; round < 200; round++) {
    int64_t bytes[kMost], offset[kMost], total, bound;
    int first[kMost], last[kMost], n = 1 + next(kMost);
    for (int i = 0; i < n; i++) {
      bytes[i] = 1 + next(5000);
      first[i] = next(60);
      last[i] = first[i] + next(12);
    }
    mem_plan(n, bytes, first, last, offset, &total, &bound);
    assert_true(total >= bound);
    for (int i = 0; i < n; i++) {
      assert_int_equal(offset[i] % 256, 0);
      assert_true(offset[i] + bytes[i] <= total);
      for (int j = 0; j < i; j++) {
        bool together = first[i] <= last[j] && first[j] <= last[i];
        bool apart = offset[i] + bytes[i] <= offset[j] || offset[j] + bytes[j] <= offset[i];
        if (together && !apart) fail_msg("round %d: values %d and %d share memory", round, i, j);
      }
    }
  }
}

static void chain_is_exact(void **state) { // a -> b -> c ...: two alive at a time
  (void)state;
  enum { kSteps = 50 };
  int64_t bytes[kSteps], offset[kSteps], total, bound;
  int first[kSteps], last[kSteps];
  for (int i = 0; i < kSteps; i++) bytes[i] = 1024, first[i] = i, last[i] = i + 1;
  mem_plan(kSteps, bytes, first, last, offset, &total, &bound);
  assert_int_equal(bound, 2048);
  assert_int_equal(total, 2048);
}

static void models_near_bound(void **state) {
  (void)state;
  static const char *const models[] = {"resnet18", "resnet34", "lenet", "mlp"};
  static const char *const lowerings[] = {"fused", "unfused"};
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 2; j++) {
      Compiler c;
      char path[64];
      snprintf(path, sizeof path, "models/%s.lua", models[i]);
      compile_file(&c, path, lowerings[j], "fp16", NULL);
      Plan *p = plan_build(&c);
      double ratio = (double)p->arena_bytes / (double)(p->arena_bound ? p->arena_bound : 1);
      if (ratio > 1.05)
        fail_msg("%s %s: the arena is %.3f of its bound", models[i], lowerings[j], ratio);
      plan_free(p);
      compile_close(&c);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_overlap),
      cmocka_unit_test(chain_is_exact),
      cmocka_unit_test(models_near_bound),
  };
  return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
