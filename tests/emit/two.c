// two.c: two networks in one program, each on threads of its own, all at once. Run by
// test_emit_programs.sh.
#include "lenet.h"
#include "mlp.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { kRuns = 3 };
static float image[784], x[8 * 784];

static void *run_lenet(void *first) {
  float out[10];
  lenet *net;
  lenet_options options = lenet_default_options();
  options.weights_path = "lenet/lenet.safetensors";
  if (lenet_create(&net, &options)) return "lenet_create";
  lenet_host_inputs in = {image};
  lenet_host_outputs made = {out};
  for (int i = 0; i < kRuns; i++) {
    if (lenet_run_host(net, &in, &made, NULL)) return "lenet_run_host";
    if (i == 0) memcpy(first, out, sizeof out);
    if (memcmp(first, out, sizeof out)) return "lenet gives other bits";
  }
  lenet_destroy(net);
  return NULL;
}

static void *run_mlp(void *first) {
  float out[80];
  mlp *net;
  mlp_options options = mlp_default_options();
  options.weights_path = "mlp/mlp.safetensors";
  if (mlp_create(&net, &options)) return "mlp_create";
  mlp_host_inputs in = {x};
  mlp_host_outputs made = {out};
  for (int i = 0; i < kRuns; i++) {
    if (mlp_run_host(net, &in, &made, NULL)) return "mlp_run_host";
    if (i == 0) memcpy(first, out, sizeof out);
    if (memcmp(first, out, sizeof out)) return "mlp gives other bits";
  }
  mlp_destroy(net);
  return NULL;
}

int main(void) {
  static float made[4][80];
  pthread_t thread[4];
  int failed = 0;
  for (int i = 0; i < 784; i++) image[i] = (float)(i % 13) / 13;
  for (int i = 0; i < 8 * 784; i++) x[i] = (float)(i % 17) / 17;
  for (int i = 0; i < 4; i++)
    pthread_create(&thread[i], NULL, i % 2 ? run_mlp : run_lenet, made[i]);
  for (int i = 0; i < 4; i++) {
    void *said;
    pthread_join(thread[i], &said);
    if (said) puts((char *)said), failed = 1;
  }
  if (memcmp(made[0], made[2], 40) || memcmp(made[1], made[3], 320))
    failed = puts("the threads differ");
  return failed;
}
