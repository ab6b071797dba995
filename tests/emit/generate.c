// generate.c: text from an emitted GPT-2: a prompt, then a token at a time on the states of the
// handle, launched and by a replayed graph; then all again after a reset. Run by
// test_emit_entries.sh.
#include "gpt2.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kPrompt = 16, kVocab = 97, kPositions = 40, kSteps = 5 };

static int must(gpt2 *net, gpt2_status status, const char *what) {
  if (status == GPT2_OK) return 1;
  printf("%s: %s: %s\n", what, gpt2_error_string(status), gpt2_message(net));
  exit(1);
}
#define MUST(call) must(net, call, #call)

static void read_prompt(int32_t *ids) {
  FILE *file = fopen("input_ids.bin", "rb");
  if (!file || fread(ids, 4, kPrompt, file) != kPrompt) exit(puts("no prompt"));
  fclose(file);
}

// Every state as a new handle has it; then the prompt.
static void begin(gpt2 *net, const int32_t *ids) {
  int32_t first;
  gpt2_prompt_host_inputs in = {ids};
  gpt2_prompt_host_outputs out = {&first};
  for (int i = 0; i < GPT2_STATES; i++) MUST(gpt2_state_reset(net, (gpt2_state)i, NULL));
  MUST(gpt2_prompt_host(net, &in, &out, NULL));
}

static void write_all(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, size, file) != size) exit(puts(path));
  fclose(file);
}

int main(void) {
  int32_t ids[kPrompt], tokens[kPositions], again[kPositions], count, token;
  float logits[kVocab];
  gpt2 *net;
  read_prompt(ids);
  if (gpt2_create(&net, NULL)) return puts("create");
  begin(net, ids);
  gpt2_next_host_outputs out = {logits, &token};
  for (int i = 0; i < kSteps; i++) MUST(gpt2_next_host(net, &out, NULL));
  write_all("next_logits.bin", logits, sizeof logits);
  MUST(gpt2_state_read(net, GPT2_STATE_TOKENS, tokens, NULL));
  MUST(gpt2_state_read(net, GPT2_STATE_COUNT, &count, NULL));
  cuStreamSynchronize(NULL);
  if (count != kPrompt + 1 + kSteps || tokens[count - 1] != token) return puts("the count is off");

  begin(net, ids); // the same by one graph
  CUdeviceptr on_device;
  CUcontext context;
  CUdevice device;
  if (cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
      cuCtxSetCurrent(context) || cuMemAlloc(&on_device, 1024))
    return puts("no memory");
  gpt2_next_outputs outputs = {on_device, on_device + 512};
  gpt2_graph *graph;
  MUST(gpt2_next_capture(net, &outputs, &graph));
  for (int i = 0; i < kSteps; i++) MUST(gpt2_replay(graph, NULL));
  MUST(gpt2_state_read(net, GPT2_STATE_TOKENS, again, NULL));
  cuStreamSynchronize(NULL);
  gpt2_graph_destroy(graph);
  if (memcmp(tokens, again, sizeof tokens)) return puts("the graph writes another text");

  memset(again, 0, sizeof again); // what is written is read
  MUST(gpt2_state_write(net, GPT2_STATE_TOKENS, again, NULL));
  MUST(gpt2_state_read(net, GPT2_STATE_TOKENS, tokens, NULL));
  cuStreamSynchronize(NULL);
  if (memcmp(tokens, again, gpt2_state_bytes(GPT2_STATE_TOKENS))) return puts("a state is lost");
  if (gpt2_state_read(net, GPT2_STATES, again, NULL) != GPT2_ERROR_ARGUMENT)
    return puts("no such state");
  if (!gpt2_state_pointer(net, GPT2_STATE_COUNT)) return puts("no pointer");
  cuMemFree(on_device);
  gpt2_destroy(net);
  cuDevicePrimaryCtxRelease(device);
  return 0;
}
