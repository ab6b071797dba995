// api.c: every function of an emitted network, here LeNet, and every error that it promises. Built
// and run by test_emit_api.sh, in the folder of the emitted files; prints what fails.
#include "lenet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef ON_LIBCUSIM
enum { kExact = 1 }; // its free memory tells of every byte
#else
enum { kExact = 0 };
#endif

static int failures;
#define EXPECT(holds)                                                                              \
  ((holds) ? (void)0 : (failures++, (void)printf("%s:%d: %s\n", __FILE__, __LINE__, #holds)))

enum { kIn = 784, kOut = 10 };
static float image[kIn], wanted[kOut];

typedef struct Device { // buffers of one run
  CUdeviceptr image, probabilities;
} Device;

static Device take(void) {
  Device d = {0, 0};
  EXPECT(!cuMemAlloc(&d.image, sizeof image));
  EXPECT(!cuMemAlloc(&d.probabilities, sizeof wanted));
  EXPECT(!cuMemcpyHtoD(d.image, image, sizeof image));
  EXPECT(!cuCtxSynchronize()); // the last of a copy may come later, and other streams do not wait
  return d;
}

static void give(Device d) {
  cuMemFree(d.image);
  cuMemFree(d.probabilities);
}

static int is_right(Device d) { // and spoils it
  float got[kOut];
  EXPECT(!cuCtxSynchronize());
  EXPECT(!cuMemcpyDtoH(got, d.probabilities, sizeof got));
  EXPECT(!cuMemsetD8(d.probabilities, 0xff, sizeof got));
  EXPECT(!cuCtxSynchronize());
  return !memcmp(got, wanted, sizeof got);
}

static lenet *create(lenet_options options) {
  char message[256] = "";
  lenet *net;
  options.message = message;
  options.message_bytes = sizeof message;
  lenet_status status = lenet_create(&net, &options);
  if (status) printf("create: %s: %s\n", lenet_error_string(status), message), failures++;
  return net;
}

// Creating must fail so, say why, and leave nothing.
static void expect_error(lenet_options options, lenet_status wanted_status, const char *word) {
  char message[256] = "";
  lenet *net = (lenet *)&options;
  size_t before, after, all;
  cuMemGetInfo(&before, &all);
  options.message = message;
  options.message_bytes = sizeof message;
  lenet_status status = lenet_create(&net, &options);
  cuMemGetInfo(&after, &all);
  if (status != wanted_status || !strstr(message, word) || net || (kExact && before != after))
    printf("wanted status %d and '%s', got %d and '%s'; %zu bytes are missing\n", wanted_status,
           word, status, message, before - after),
        failures++;
}

// ---- runs ---------------------------------------------------------------------------------------

static void run_from_host(lenet *net) {
  lenet_host_inputs in = {image};
  lenet_host_outputs out = {wanted};
  EXPECT(!lenet_run_host(net, &in, &out, NULL));
  float sum = 0;
  for (int i = 0; i < kOut; i++) sum += wanted[i];
  EXPECT(sum > 0.999f && sum < 1.001f);
}

static void run_on_device(lenet *net, CUstream stream) {
  Device d = take();
  lenet_inputs in = {d.image};
  lenet_outputs out = {d.probabilities};
  for (int i = 0; i < 2; i++) {
    EXPECT(!lenet_run(net, &in, &out, stream));
    EXPECT(is_right(d));
  }
  give(d);
}

static void replay(lenet *net, CUstream stream) {
  Device d = take();
  lenet_inputs in = {d.image};
  lenet_outputs out = {d.probabilities};
  lenet_graph *graph;
  EXPECT(!lenet_capture(net, &in, &out, &graph));
  for (int i = 0; i < 2; i++) {
    EXPECT(!lenet_replay(graph, stream));
    EXPECT(is_right(d));
  }
  lenet_graph_destroy(graph);
  give(d);
}

static void in_callers_graph(lenet *net, CUstream stream) {
  Device d = take();
  lenet_inputs in = {d.image};
  lenet_outputs out = {d.probabilities};
  CUgraph graph;
  CUgraphExec exec;
  EXPECT(!cuMemsetD8(d.image, 0, sizeof image));
  EXPECT(!cuCtxSynchronize());
  EXPECT(!cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT(!cuMemcpyHtoDAsync(d.image, image, sizeof image, stream)); // before it: the caller's own
  EXPECT(!lenet_run(net, &in, &out, stream));
  EXPECT(!cuStreamEndCapture(stream, &graph));
  EXPECT(!cuGraphInstantiate(&exec, graph, 0));
  EXPECT(!cuGraphLaunch(exec, stream));
  EXPECT(is_right(d));
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
  give(d);
}

static void profile(lenet *net) {
  Device d = take();
  lenet_inputs in = {d.image};
  lenet_outputs out = {d.probabilities};
  lenet_launch_time times[LENET_RUN_LAUNCHES];
  EXPECT(!lenet_profile(net, &in, &out, NULL, times));
  EXPECT(is_right(d));
  EXPECT(!strcmp(times[0].layer, "conv1") && !strcmp(times[0].kernel, "lenet__conv1_relu"));
  EXPECT(!strcmp(times[LENET_RUN_LAUNCHES - 1].layer, "softmax"));
  for (int i = 0; i < LENET_RUN_LAUNCHES; i++) EXPECT(times[i].ms >= 0);
  give(d);
}

static void refused_pointers(lenet *net) {
  lenet_inputs in = {0};
  lenet_outputs out = {256};
  EXPECT(lenet_run(net, &in, &out, NULL) == LENET_ERROR_ARGUMENT);
  EXPECT(strstr(lenet_message(net), "'image' is null"));
  in.image = 8;
  EXPECT(lenet_run(net, &in, &out, NULL) == LENET_ERROR_ARGUMENT);
  EXPECT(strstr(lenet_message(net), "not aligned"));
  EXPECT(lenet_run(NULL, &in, &out, NULL) == LENET_ERROR_ARGUMENT);
  EXPECT(lenet_create(NULL, NULL) == LENET_ERROR_ARGUMENT);
  lenet_destroy(NULL);
  lenet_graph_destroy(NULL);
}

// ---- create: where weights and memory come from
// ---------------------------------------------------

static void *read_all(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  if (!file) exit(puts("there is no weights file"));
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  void *bytes = malloc(*size);
  if (fread(bytes, 1, *size, file) != *size) exit(puts("it cannot be read"));
  fclose(file);
  return bytes;
}

static void damaged_weights(void) {
  lenet_options options = lenet_default_options();
  size_t size;
  char *bytes = (char *)read_all("lenet.safetensors", &size), *at;
  options.weights_path = "nowhere.safetensors";
  expect_error(options, LENET_ERROR_WEIGHTS_FILE, "nowhere.safetensors");
  options.weights_path = ".";
  expect_error(options, LENET_ERROR_WEIGHTS_FORMAT, ".");
  options.weights = bytes;
  options.weights_bytes = 4;
  expect_error(options, LENET_ERROR_WEIGHTS_FORMAT, "not a safetensors");
  options.weights_bytes = 100;
  expect_error(options, LENET_ERROR_WEIGHTS_FORMAT, "cut short");
  options.weights_bytes = size - 1;
  expect_error(options, LENET_ERROR_WEIGHTS_FORMAT, "ends before tensor");
  options.weights_bytes = size;
  at = strstr(bytes + 8, "fc1.bias");
  memcpy(at, "fc1.bios", 8);
  expect_error(options, LENET_ERROR_WEIGHTS_TENSOR, "no tensor 'fc1.bias'");
  memcpy(at, "fc1.bias", 8);
  at = strstr(bytes + 8, "[120,400]");
  memcpy(at, "[400,120]", 9);
  expect_error(options, LENET_ERROR_WEIGHTS_TENSOR, "'fc1.weight' has another shape");
  memcpy(at, "[120,400]", 9);
  at = strstr(bytes + 8, "F32");
  memcpy(at, "I32", 3);
  expect_error(options, LENET_ERROR_WEIGHTS_TENSOR, "is I32, not f32");
  memcpy(at, "F32", 3);
  for (size_t i = 8; i < 400; i++) { // no byte of the header makes it crash
    lenet *net = NULL;
    char kept = bytes[i];
    options.workspace = 1; // it fails anyway, before kernels are loaded
    bytes[i] = i % 2 ? '{' : '"';
    EXPECT(lenet_create(&net, &options) && !net);
    bytes[i] = kept;
  }
  free(bytes);
}

static size_t taken, released;

static CUresult allocate(void *user, size_t bytes, CUdeviceptr *pointer) {
  ++*(size_t *)user;
  return cuMemAlloc(pointer, bytes);
}

static CUresult refuse(void *user, size_t bytes, CUdeviceptr *pointer) {
  (void)user, (void)bytes, (void)pointer;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

static void release(void *user, CUdeviceptr pointer) {
  (void)user;
  released++;
  cuMemFree(pointer);
}

static void other_options(void) {
  lenet_options options = lenet_default_options();
  options.device = 1000;
  expect_error(options, LENET_ERROR_DEVICE, "no device 1000");
  options = lenet_default_options();
  options.weights_bytes = 100;
  expect_error(options, LENET_ERROR_ARGUMENT, "one of the two is 0");
  options = lenet_default_options();
  options.workspace_bytes = 10;
  expect_error(options, LENET_ERROR_ARGUMENT, "workspace is 0, workspace_bytes is 10");
  options = lenet_default_options();
  options.allocator.allocate = refuse;
  options.allocator.release = release;
  expect_error(options, LENET_ERROR_DEVICE_MEMORY, "bytes of device memory");
  options = lenet_default_options();
  EXPECT(!cuMemAlloc(&options.workspace, lenet_workspace_bytes()));
  options.workspace_bytes = lenet_workspace_bytes() - 1;
  expect_error(options, LENET_ERROR_WORKSPACE, "the network needs");
  options.workspace += 16;
  options.workspace_bytes = lenet_workspace_bytes();
  expect_error(options, LENET_ERROR_WORKSPACE, "not aligned");
  options.workspace -= 16;
  cuMemFree(options.workspace);
}

// A handle with everything from the caller: workspace, allocator, the bytes of the weights.
static lenet *create_from_memory(CUdeviceptr *workspace, void **bytes) {
  lenet_options options = lenet_default_options();
  *bytes = read_all("lenet.safetensors", &options.weights_bytes);
  options.weights = *bytes;
  EXPECT(!cuMemAlloc(workspace, lenet_workspace_bytes()));
  options.workspace = *workspace;
  options.workspace_bytes = lenet_workspace_bytes();
  options.allocator.allocate = allocate;
  options.allocator.release = release;
  options.allocator.user = &taken;
  return create(options);
}

// The values of a tensor of the weights file, on the device.
static CUdeviceptr upload(const char *header, const char *name, size_t bytes) {
  char key[64], *at;
  CUdeviceptr to = 0;
  unsigned long long begin = 0;
  snprintf(key, sizeof key, "\"%s\":", name);
  at = strstr((char *)header + 8, key);
  EXPECT(at && sscanf(strstr(at, "data_offsets"), "data_offsets\":[%llu", &begin) == 1);
  size_t length = 0;
  for (int i = 8; i-- > 0;) length = length << 8 | (unsigned char)header[i];
  EXPECT(!cuMemAlloc(&to, bytes));
  EXPECT(!cuMemcpyHtoD(to, header + 8 + length + begin, bytes));
  return to;
}

static void create_from_pointers(void) {
  size_t size;
  char *file = (char *)read_all("lenet.safetensors", &size);
  lenet_parameters p;
  p.conv1_weight = upload(file, "conv1.weight", 600);
  p.conv1_bias = upload(file, "conv1.bias", 24);
  p.conv2_weight = upload(file, "conv2.weight", 9600);
  p.conv2_bias = upload(file, "conv2.bias", 64);
  p.fc1_weight = upload(file, "fc1.weight", 192000);
  p.fc1_bias = upload(file, "fc1.bias", 480);
  p.fc2_weight = upload(file, "fc2.weight", 40320);
  p.fc2_bias = upload(file, "fc2.bias", 336);
  p.fc3_weight = upload(file, "fc3.weight", 3360);
  p.fc3_bias = 0;
  lenet_options options = lenet_default_options();
  options.parameters = &p;
  expect_error(options, LENET_ERROR_ARGUMENT, "'fc3.bias' is null");
  p.fc3_bias = upload(file, "fc3.bias", 40);
  lenet *net = create(options);
  CUdeviceptr *pointer = (CUdeviceptr *)&p;
  for (size_t i = 0; i < sizeof p / sizeof *pointer; i++) cuMemFree(pointer[i]); // no longer needed
  if (net) run_on_device(net, NULL);
  lenet_destroy(net);
  free(file);
}

int main(void) {
  CUcontext context;
  CUdevice device;
  CUstream stream;
  size_t before, after, all;
  EXPECT(!cuInit(0) && !cuDeviceGet(&device, 0) && !cuDevicePrimaryCtxRetain(&context, device));
  EXPECT(!cuCtxSetCurrent(context) && !cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (int i = 0; i < kIn; i++) image[i] = (float)(i * 7919 % 1000) / 1000;
  cuMemGetInfo(&before, &all);
  damaged_weights();
  other_options();
  lenet *net = create(lenet_default_options());
  if (!net) return 1;
  run_from_host(net);
  run_on_device(net, stream);
  replay(net, stream);
  in_callers_graph(net, stream);
  profile(net);
  refused_pointers(net);
  CUdeviceptr workspace;
  void *bytes;
  lenet *second = create_from_memory(&workspace, &bytes);
  if (second) run_on_device(second, stream);
  run_on_device(net, stream); // the two are independent
  lenet_destroy(net);
  lenet_destroy(second);
  EXPECT(taken && taken == released);
  create_from_pointers();
  cuMemFree(workspace);
  free(bytes);
  cuMemGetInfo(&after, &all);
  EXPECT(!kExact || before == after);
  cuStreamDestroy(stream);
  cuDevicePrimaryCtxRelease(device);
  if (!failures) puts("all as promised");
  return failures != 0;
}
