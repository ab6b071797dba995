// test_fault.c: a kernel that fails on the device is named, and so is its place in the model.
// A program of its own: on a GPU the context is lost with the kernel.
#include "runtime/support.h"

static void failing_kernel(void **state) {
  (void)state;
  Error err = {0};
  Loaded *loaded;
  Device *device = open_device();
  Plan *plan = small_plan();
  JitOptions jit = {.cache_dir = ""};
  free(plan->kernels[1].source);
  plan->kernels[1].source =
      strdup("extern \"C\" __global__ void small__add(const float *a, const float *b, float *c) {\n"
             "  if (threadIdx.x == 3) *(volatile float *)8 = a[0];\n}\n");
  if (load_plan(device, plan, &jit, &loaded, &err)) fail_msg("%s", err.message);
  int rc = run_steps(loaded, "infer", NULL, NULL, &err);
  assert_int_equal(rc, ExitNoDevice);
  assert_memory_equal(err.message, "kernel small__add (small.lua:2): cu", 35);
  assert_non_null(strstr(err.message, " failed: CUDA_ERROR_ILLEGAL_ADDRESS (700): "));
  load_close(loaded); // must not hang or crash on a device that is lost
  plan_free(plan);
  device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(failing_kernel)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
