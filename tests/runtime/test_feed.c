// test_feed.c: batches that go to the device while it computes, results that come back meanwhile,
// the phases of a step. NNGEN_DEVICE=cuda runs the same on a GPU.
#include <math.h>

#include "runtime/support.h"

enum { Steps = 24 };

static Device *device;
static Plan *plan;
static Loaded *loaded;

static float value_at(int step, int i) {
  return (float)((i * 37 + step * 11) % 101) / 25 - 2;
}

static void must(int code, const Error *err) {
  if (code) fail_msg("%s", err->message);
}

// Memory is written anew as soon as feed_wait allows: no step may see another one's batch.
static void steps_overlap(void **state) {
  (void)state;
  Error err = {0};
  Feed *feed;
  Tap *tap;
  Replay *replay;
  const int in = SmallX, out = SmallY;
  float *batch = pinned_take(device, SmallCount * sizeof *batch), w[SmallCount];
  double got[SmallCount];
  int taken = 0;
  assert_non_null(batch);
  must(feed_open(loaded, &in, 1, &feed, &err), &err);
  must(tap_open(loaded, &out, 1, &tap, &err), &err);
  must(replay_capture(loaded, "infer", &replay, &err), &err);
  must(tensor_read_floats(loaded, SmallW, w, SmallCount, &err), &err);
  for (int step = 0; taken < Steps; step += step < Steps) {
    if (step < Steps) {
      must(feed_wait(feed, &err), &err);
      for (int i = 0; i < SmallCount; i++) batch[i] = value_at(step, i);
      must(feed_put(feed, (const void *[]){batch}, &err), &err);
      must(replay_enqueue(replay, &err), &err);
      must(tap_put(tap, &err), &err);
      if (tap_pending(tap) < TapDepth) continue;
      assert_int_equal(tap_put(tap, &err), ExitUsage); // full
    }
    must(tap_take(tap, got, &err), &err);
    for (int i = 0; i < SmallCount; i++) {
      float want = fmaxf(0, 2 * value_at(taken, i) + w[i]);
      if (!(fabs(got[i] - want) <= 1e-6 * (1 + want)))
        fail_msg("step %d: y[%d] = %g, not %g", taken, i, got[i], want);
    }
    taken++;
  }
  assert_int_equal(tap_take(tap, got, &err), ExitUsage); // empty
  must(run_wait(loaded, &err), &err);
  tap_close(tap);
  feed_close(feed);
  replay_close(replay);
  pinned_give(device, batch);
}

static void several_tensors(void **state) {
  (void)state;
  Error err = {0};
  Feed *feed;
  Tap *tap;
  const int both[] = {SmallX, SmallW}, wrong = SmallTensors;
  float x[SmallCount], w[SmallCount];
  double got[2 * SmallCount];
  for (int i = 0; i < SmallCount; i++) x[i] = value_at(1, i), w[i] = value_at(2, i);
  assert_int_equal(feed_open(loaded, &wrong, 1, &feed, &err), ExitUsage);
  assert_int_equal(tap_open(loaded, &wrong, 1, &tap, &err), ExitUsage);
  assert_int_equal(feed_open(loaded, both, 0, &feed, &err), ExitUsage);
  must(feed_open(loaded, both, 2, &feed, &err), &err);
  must(tap_open(loaded, both, 2, &tap, &err), &err);
  must(feed_put(feed, (const void *[]){x, w}, &err), &err);
  must(tap_put(tap, &err), &err);
  must(tap_take(tap, got, &err), &err);
  for (int i = 0; i < SmallCount; i++) assert_true(got[i] == x[i] && got[SmallCount + i] == w[i]);
  feed_close(feed);
  tap_close(tap);
}

static void rows(void **state) {
  (void)state;
  Error err = {0};
  float y[SmallCount], x[SmallCount];
  PlanTensor *source = &plan->tensors[SmallX];
  PlanTensor whole = *source;
  source->shape[0] = 3, source->bytes = 1200; // rows 5, 6 and 7 of y
  for (int i = 0; i < SmallCount; i++) x[i] = value_at(3, i), y[i] = -1;
  must(tensor_write_floats(loaded, SmallX, x, 300, &err), &err);
  must(tensor_write_floats(loaded, SmallY, y, SmallCount, &err), &err);
  must(tensor_put_rows(loaded, SmallX, SmallY, 5, &err), &err);
  must(tensor_read_floats(loaded, SmallY, y, SmallCount, &err), &err);
  for (int i = 0; i < SmallCount; i++) assert_true(y[i] == (i >= 500 && i < 800 ? x[i - 500] : -1));
  assert_int_equal(tensor_put_rows(loaded, SmallX, SmallY, 8, &err), ExitUsage);
  assert_int_equal(tensor_put_rows(loaded, SmallX, SmallY, -1, &err), ExitUsage);
  *source = whole;
}

// Whatever call of the driver fails, all is closed again.
static void calls_fail(void **state) {
  (void)state;
  Error err = {0};
  const int in = SmallX, out = SmallY;
  int code = ExitNoDevice;
  float x[SmallCount] = {0};
  for (int calls = 0; code; calls++) {
    Feed *feed = NULL;
    Tap *tap = NULL;
    double got[SmallCount];
    api_fail_after(calls);
    code = feed_open(loaded, &in, 1, &feed, &err);
    if (!code) code = tap_open(loaded, &out, 1, &tap, &err);
    for (int step = 0; step < 3 && !code; step++) {
      code = feed_put(feed, (const void *[]){x}, &err);
      if (!code) code = tap_put(tap, &err);
      if (!code) code = tap_take(tap, got, &err);
      if (!code) code = feed_wait(feed, &err);
    }
    api_fail_after(-1);
    if (code) assert_string_not_equal(err.message, "");
    feed_close(feed);
    tap_close(tap);
    assert_true(calls < 200);
  }
}

static void rename_layer(int kernel, const char *layer, const char *ops) {
  free(plan->kernels[kernel].layer);
  free(plan->kernels[kernel].ops);
  plan->kernels[kernel].layer = strdup(layer);
  plan->kernels[kernel].ops = strdup(ops);
}

// infer: a memset, kernels 1 and 2, a copy.
static void expect_phases(const char *first, const char *first_ops, const char *second,
                          const char *second_ops, Phase want_first, Phase want_second) {
  Error err = {0};
  Phase phases[4];
  rename_layer(1, first, first_ops);
  rename_layer(2, second, second_ops);
  must(phases_find(plan, "infer", phases, &err), &err);
  if (phases[1] != want_first || phases[2] != want_second)
    fail_msg("%s, %s: %s, %s", first, second, phase_name(phases[1]), phase_name(phases[2]));
  must(phases_run(loaded, "infer", &err), &err);
  must(run_wait(loaded, &err), &err);
}

static void phases(void **state) {
  (void)state;
  Error err = {0};
  Phase none[1];
  char *name = plan->tensors[SmallY].name;
  plan->tensors[SmallY].name = "infer.loss";
  expect_phases("conv1", "conv2d", "loss.mean", "sum", PhaseForward, PhaseLoss);
  expect_phases("loss", "sum", "add", "mul+add", PhaseLoss, PhaseBackward);
  expect_phases("add", "mul+add", "loss", "sum", PhaseForward, PhaseLoss);
  expect_phases("bn_grad.mul", "mul", "loss", "sum", PhaseBackward, PhaseLoss); // stored at last
  expect_phases("loss", "sum", "conv1", "conv2d", PhaseLoss, PhaseBackward);    // computed again
  expect_phases("losses", "sum", "conv1_grad.conv2d", "conv2d", PhaseForward, PhaseBackward);
  expect_phases("conv1_grad", "conv2d", "optimizer_step.sub", "sub", PhaseBackward, PhaseOptimizer);
  assert_int_equal(phases_find(plan, "train", none, &err), ExitUsage);
  plan->tensors[SmallY].name = name;
}

int main(void) {
  Error err = {0};
  JitOptions jit = {0};
  Params *params;
  device = open_device();
  plan = small_plan();
  jit.cache_dir = strdup(temp_path("cache"));
  if (load_plan(device, plan, &jit, &loaded, &err) || params_open(NULL, 1, &params, &err) ||
      params_fill(params, loaded, NULL, &err)) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_overlap), cmocka_unit_test(several_tensors), cmocka_unit_test(rows),
      cmocka_unit_test(calls_fail),    cmocka_unit_test(phases),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  params_close(params);
  load_close(loaded);
  device_close(device);
  plan_free(plan);
  free((char *)jit.cache_dir);
  temp_remove();
  return failed;
}
