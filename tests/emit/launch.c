// launch.c NAME IMAGE: host code of its own for `nngen emit --kernels-only`: compiles NAME.cu, and
// launches what NAME.json lists on the weights of NAME.safetensors. Writes each output to
// NAME_launched.bin.
#include <cuda.h>
#include <nvrtc.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 512 };

typedef struct Network {
  json_t *plan;
  CUdeviceptr memory, workspace, scratch, at[kMost]; // at: of each tensor
  CUfunction kernel[kMost];
} Network;

static void must(int code, const char *what) {
  if (code) printf("%s: %d\n", what, code), exit(1);
}
#define MUST(call) must((int)(call), #call)

static char *read_all(const char *name, const char *suffix, size_t *size) {
  char path[256];
  snprintf(path, sizeof path, "%s%s", name, suffix);
  FILE *file = fopen(path, "rb");
  if (!file) printf("%s: not there\n", path), exit(1);
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char *bytes = calloc(*size + 1, 1);
  MUST(fread(bytes, 1, *size, file) != *size);
  fclose(file);
  return bytes;
}

static int64_t number(json_t *object, const char *key) {
  return json_integer_value(json_object_get(object, key));
}
static const char *text(json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}
static unsigned item(json_t *object, const char *key, size_t i) {
  return (unsigned)json_integer_value(json_array_get(json_object_get(object, key), i));
}

static CUmodule compile(const char *name) {
  size_t size;
  char *source = read_all(name, ".cu", &size), arch[64];
  const char *options[] = {arch, "--std=c++17"};
  nvrtcProgram program;
  CUmodule module;
  int major, minor;
  MUST(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  MUST(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  snprintf(arch, sizeof arch, "--gpu-architecture=compute_%d%d", major, minor);
  MUST(nvrtcCreateProgram(&program, source, "kernels.cu", 0, NULL, NULL));
  MUST(nvrtcCompileProgram(program, 2, options));
  MUST(nvrtcGetPTXSize(program, &size));
  char *ptx = malloc(size);
  MUST(nvrtcGetPTX(program, ptx));
  nvrtcDestroyProgram(&program);
  MUST(cuModuleLoadData(&module, ptx));
  free(ptx);
  free(source);
  return module;
}

static void place(Network *net) {
  json_t *bytes = json_object_get(net->plan, "bytes"), *t;
  size_t i;
  MUST(cuMemAlloc(&net->memory, (size_t)number(bytes, "memory") + 1));
  MUST(cuMemAlloc(&net->workspace, (size_t)number(bytes, "workspace") + 1));
  MUST(cuMemAlloc(&net->scratch, (size_t)number(bytes, "scratch") + 1));
  json_array_foreach(json_object_get(net->plan, "tensors"), i, t) {
    const char *where = text(t, "where");
    CUdeviceptr base = !strcmp(where, "memory")      ? net->memory
                       : !strcmp(where, "workspace") ? net->workspace
                                                     : net->scratch;
    net->at[i] = base + (CUdeviceptr)number(t, "offset");
    if (!strcmp(where, "caller")) MUST(cuMemAlloc(&net->at[i], (size_t)number(t, "bytes")));
  }
}

static void load_kernels(Network *net, CUmodule module) {
  json_t *k;
  size_t i;
  json_array_foreach(json_object_get(net->plan, "kernels"), i, k) {
    MUST(cuModuleGetFunction(&net->kernel[i], module, text(k, "symbol")));
    if (number(k, "shared_bytes") > 48 * 1024)
      MUST(cuFuncSetAttribute(net->kernel[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              (int)number(k, "shared_bytes")));
  }
}

static void load_weights(Network *net, const char *name) {
  size_t size, i;
  uint64_t length;
  char *file = read_all(name, ".safetensors", &size);
  memcpy(&length, file, 8);
  json_t *header = json_loadb(file + 8, length, 0, NULL), *t;
  json_array_foreach(json_object_get(net->plan, "tensors"), i, t) {
    if (strcmp(text(t, "role"), "param")) continue;
    json_t *found = json_object_get(header, text(t, "name"));
    MUST(cuMemcpyHtoD(net->at[i], file + 8 + length + item(found, "data_offsets", 0),
                      (size_t)number(t, "bytes")));
  }
  json_decref(header);
  free(file);
}

static void launch(Network *net, size_t index) {
  json_t *k = json_array_get(json_object_get(net->plan, "kernels"), index), *arg;
  void *args[64];
  size_t i;
  json_array_foreach(json_object_get(k, "args"), i, arg) args[i] = &net->at[number(arg, "tensor")];
  MUST(cuLaunchKernel(net->kernel[index], item(k, "grid", 0), item(k, "grid", 1),
                      item(k, "grid", 2), item(k, "block", 0), item(k, "block", 1),
                      item(k, "block", 2), (unsigned)number(k, "shared_bytes"), NULL, args, NULL));
}

static void run(Network *net, const char *name) {
  json_t *entry, *step, *tensors = json_object_get(net->plan, "tensors");
  size_t i, j;
  json_array_foreach(json_object_get(net->plan, "entries"), i, entry) {
    if (strcmp(text(entry, "name"), name)) continue;
    json_array_foreach(json_object_get(entry, "steps"), j, step) {
      int64_t zero = number(step, "zero"), to = number(step, "to");
      if (json_object_get(step, "launch"))
        launch(net, (size_t)number(step, "launch"));
      else if (json_object_get(step, "zero"))
        MUST(cuMemsetD8(net->at[zero], 0,
                        (size_t)number(json_array_get(tensors, (size_t)zero), "bytes")));
      else
        MUST(cuMemcpyDtoD(net->at[to], net->at[number(step, "copy")],
                          (size_t)number(json_array_get(tensors, (size_t)to), "bytes")));
    }
  }
  MUST(cuCtxSynchronize());
}

// The only input from a file, the outputs to files.
static void borders(Network *net, const char *role, const char *path) {
  json_t *t;
  size_t i;
  json_array_foreach(json_object_get(net->plan, "tensors"), i, t) {
    if (strcmp(text(t, "role"), role)) continue;
    size_t bytes = (size_t)number(t, "bytes");
    char *data = calloc(bytes, 1), name[256];
    bool in = !strcmp(role, "input");
    snprintf(name, sizeof name, in ? "%s" : "%s_launched.bin", in ? path : text(t, "c_name"));
    FILE *file = fopen(name, in ? "rb" : "wb");
    if (!in) MUST(cuMemcpyDtoH(data, net->at[i], bytes));
    MUST(!file || (in ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file)) != bytes);
    if (in) MUST(cuMemcpyHtoD(net->at[i], data, bytes));
    fclose(file);
    free(data);
  }
}

int main(int argc, char **argv) {
  static Network net;
  CUcontext context;
  size_t size;
  if (argc != 3) return puts("launch NAME INPUT");
  MUST(cuInit(0));
  MUST(cuDevicePrimaryCtxRetain(&context, 0));
  MUST(cuCtxSetCurrent(context));
  char *list = read_all(argv[1], ".json", &size);
  net.plan = json_loads(list, 0, NULL);
  MUST(!net.plan);
  place(&net);
  load_kernels(&net, compile(argv[1]));
  load_weights(&net, argv[1]);
  borders(&net, "input", argv[2]);
  run(&net, "init");
  run(&net, "infer");
  borders(&net, "output", NULL);
  json_decref(net.plan);
  free(list);
  return 0;
}
