// runtime.c: a program over the CUDA runtime API that runs networks of `nngen emit --lang
// cuda-runtime`.
//
//   ./runtime IMAGE.bin PROBABILITIES.bin
#include "counter.h"
#include "lenet.h"

#include <stdio.h>
#include <string.h>

// Ends the program with the number of the line where something is wrong.
#define WANT(holds)                                                                                \
  do {                                                                                             \
    if (!(holds)) {                                                                                \
      fprintf(stderr, "runtime.c:%d: %s\n", __LINE__, #holds);                                     \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

static int run_counter(void) {
  float x[4] = {1, 2, 3, 4}, y[4], back[4];
  counter_host_inputs in = {x};
  counter_host_outputs out = {y};
  counter *net;
  WANT(!counter_create(&net, NULL));
  WANT(!counter_run_host(net, &in, &out, NULL) && y[0] == 2.5f && y[3] == 2.5f);
  WANT(!counter_run_host(net, &in, &out, NULL) && y[0] == 3.5f && y[3] == 6.5f);
  WANT(!counter_state_read(net, COUNTER_STATE_COUNT, back, NULL) && !cudaStreamSynchronize(NULL));
  WANT(back[0] == 4.5f && back[3] == 10.5f);
  WANT(!counter_state_write(net, COUNTER_STATE_COUNT, x, NULL));
  WANT(!counter_run_host(net, &in, &out, NULL) && !memcmp(x, y, sizeof y));
  WANT(!counter_state_reset(net, COUNTER_STATE_COUNT, NULL));
  WANT(!counter_run_host(net, &in, &out, NULL) && y[0] == 2.5f && y[3] == 2.5f);
  counter_destroy(net);
  return 0;
}

static int fail_create(lenet_options options, lenet_status status) {
  char message[256] = "";
  lenet *net;
  options.message = message;
  options.message_bytes = sizeof message;
  WANT(lenet_create(&net, &options) == status && !net && *message);
  WANT(cudaGetLastError() == cudaSuccess); // nothing stays behind for the caller
  return 0;
}

static int refuse(void) {
  lenet_options options = lenet_default_options(), broken = options;
  void *memory;
  broken.device = 99;
  if (fail_create(broken, LENET_ERROR_DEVICE)) return 1;
  broken = options;
  broken.weights_path = "nowhere";
  if (fail_create(broken, LENET_ERROR_WEIGHTS_FILE)) return 1;
  broken = options;
  WANT(!cudaMalloc(&memory, lenet_workspace_bytes()));
  broken.workspace = memory;
  broken.workspace_bytes = lenet_workspace_bytes() - 1;
  if (fail_create(broken, LENET_ERROR_WORKSPACE)) return 1;
  broken.workspace_bytes++;
  lenet *net;
  WANT(!lenet_create(&net, &broken));
  lenet_destroy(net);
  return cudaFree(memory) != cudaSuccess;
}

int main(int argc, char **argv) {
  static float image[784];
  float made[10], again[10];
  char *memory;
  lenet *net;
  FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
  WANT(file && fread(image, 4, 784, file) == 784 && !fclose(file));
  WANT(!refuse() && !run_counter());

  WANT(!lenet_create(&net, NULL) && !cudaMalloc((void **)&memory, 4096));
  WANT(!cudaMemcpyAsync(memory, image, sizeof image, cudaMemcpyHostToDevice, NULL));
  lenet_inputs in = {memory};
  lenet_outputs out = {memory + 3136};
  WANT(!lenet_run(net, &in, &out, NULL));
  WANT(!cudaMemcpyAsync(made, out.probabilities, 40, cudaMemcpyDeviceToHost, NULL) &&
       !cudaStreamSynchronize(NULL));

  lenet_graph *graph;
  WANT(!cudaMemsetAsync(out.probabilities, 0, 40, NULL) && !lenet_capture(net, &in, &out, &graph));
  WANT(!lenet_replay(graph, NULL));
  WANT(!cudaMemcpyAsync(again, out.probabilities, 40, cudaMemcpyDeviceToHost, NULL) &&
       !cudaStreamSynchronize(NULL));
  WANT(!memcmp(made, again, sizeof made));
  lenet_graph_destroy(graph);

  lenet_launch_time times[LENET_RUN_LAUNCHES];
  WANT(!lenet_profile(net, &in, &out, NULL, times) && times[0].ms >= 0 &&
       times[LENET_RUN_LAUNCHES - 1].layer);
  out.probabilities = memory + 3138;
  WANT(lenet_run(net, &in, &out, NULL) == LENET_ERROR_ARGUMENT &&
       strstr(lenet_message(net), "16 bytes"));
  lenet_destroy(net);
  WANT(!cudaFree(memory) && (file = fopen(argv[2], "wb")) && fwrite(made, 4, 10, file) == 10);
  return fclose(file);
}
