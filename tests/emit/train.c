// train.c: three steps of training by an emitted network, then inference with what it has learned.
// Run by test_emit_entries.sh.
#include "step.h"

#include <stdio.h>
#include <stdlib.h>

enum { kCount = 2 * 3 * 8 * 8, kSteps = 3 };
static float x[kCount], y[2 * 4];

static void must(step *net, step_status status) {
  if (status == STEP_OK) return;
  printf("%s: %s\n", step_error_string(status), step_message(net));
  exit(1);
}

static void write_all(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, size, file) != size) exit(puts(path));
  fclose(file);
}

int main(void) {
  step *net;
  float loss;
  FILE *file = fopen("image.bin", "rb");
  if (!file || fread(x, sizeof *x, kCount, file) != kCount) return puts("no input");
  fclose(file);
  if (step_create(&net, NULL)) return puts("create");
  step_train_host_inputs in = {x};
  step_train_host_outputs out = {&loss};
  for (int i = 0; i < kSteps; i++) must(net, step_train_host(net, &in, &out, NULL));
  write_all("loss.bin", &loss, sizeof loss);
  step_host_inputs given = {x};
  step_host_outputs made = {y};
  must(net, step_run_host(net, &given, &made, NULL));
  write_all("y.bin", y, sizeof y);
  if (step_state_reset(net, STEP_STATE_HEAD_WEIGHT, NULL) != STEP_ERROR_ARGUMENT)
    return puts("learned values are no constant");
  must(net, step_state_reset(net, STEP_STATE_MOMENTUM1, NULL));
  step_destroy(net);
  return 0;
}
