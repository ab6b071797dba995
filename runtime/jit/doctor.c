// doctor.c: the report of `nngen doctor`: every library, where it was searched, its version; the
// host compiler of the simulator; the cache folder.
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"

static void replace(char **field, char *text) {
  if (!text) return;
  free(*field);
  *field = text;
}

static void ask_driver(void *library, FoundLibrary *found) {
  DriverApi api;
  const char *missing = NULL;
  int version = 0, count = 0;
  if (!api_load_driver(library, &api, &missing)) {
    replace(&found->note, heap_format("has no %s; too old", missing));
    return;
  }
  api.cuDriverGetVersion(&version);
  replace(&found->version, heap_format("%d.%d", version / 1000, version / 10 % 100));
  CUresult result = api.cuInit(0);
  if (!result) result = api.cuDeviceGetCount(&count);
  Error err = {0};
  if (api_check(&api, result, "cuInit", &err))
    replace(&found->note, heap_copy(err.message));
  else
    replace(&found->note, heap_format("%d device%s", count, count == 1 ? "" : "s"));
}

static void ask_nvrtc(void *library, FoundLibrary *found) {
  NvrtcApi api;
  const char *missing = NULL;
  int major = 0, minor = 0;
  if (!api_load_nvrtc(library, &api, &missing)) {
    replace(&found->note, heap_format("has no %s; too old", missing));
    return;
  }
  api.nvrtcVersion(&major, &minor);
  replace(&found->version, heap_format("%d.%d", major, minor));
}

// cuBLAS and cuDNN report exact versions, file names may not. Both calls need no device.
static void ask_cublas(void *library, FoundLibrary *found) {
  int (*get)(int property, int *value) = NULL;
  int parts[3] = {0};
  void *symbol = dlsym(library, "cublasGetProperty");
  memcpy(&get, &symbol, sizeof get);
  for (int i = 0; i < 3; i++) // major, minor, patch
    if (!get || get(i, &parts[i])) return;
  replace(&found->version, heap_format("%d.%d.%d", parts[0], parts[1], parts[2]));
}

static void ask_cudnn(void *library, FoundLibrary *found) {
  size_t (*get)(void) = NULL;
  void *symbol = dlsym(library, "cudnnGetVersion");
  memcpy(&get, &symbol, sizeof get);
  size_t version = get ? get() : 0; // 91002 is 9.10.2
  if (version >= 90000)
    replace(&found->version,
            heap_format("%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100));
}

static void ask(FindKind kind, void *library, FoundLibrary *found) {
  if (kind == FindDriver || kind == FindSim) ask_driver(library, found);
  if (kind == FindNvrtc) ask_nvrtc(library, found);
  if (kind == FindCublas) ask_cublas(library, found);
  if (kind == FindCudnn) ask_cudnn(library, found);
}

void find_report(const char *cuda_path, FindReport *report) {
  char compiler[PATH_MAX];
  *report = (FindReport){.libraries = heap_alloc(FindCount, sizeof(FoundLibrary)),
                         .nvtx = nvtx_available()};
  for (int i = 0; report->libraries && i < FindCount; i++) {
    FoundLibrary *found = &report->libraries[report->nlibraries++];
    void *library = find_library((FindKind)i, cuda_path, 0, found);
    if (!library) continue;
    ask((FindKind)i, library, found);
    dlclose(library);
  }
  host_compiler(compiler, sizeof compiler);
  report->host_compiler = heap_copy(compiler);
  report->cache_dir = cache_default_dir();
}

void find_report_free(FindReport *report) {
  for (int i = 0; i < report->nlibraries; i++) find_free(&report->libraries[i]);
  free(report->libraries);
  free(report->host_compiler);
  free(report->cache_dir);
  *report = (FindReport){0};
}
