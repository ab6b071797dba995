// doctor.c: what `nngen doctor` shows: every library, where it was looked for, its version; the
// host compiler of the simulator; the cache folder.
#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

#include "runtime.h"

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

void find_report(const char *cuda_path, FindReport *report) {
  char compiler[PATH_MAX];
  *report = (FindReport){.libraries = heap_alloc(FindCount, sizeof(FoundLibrary)),
                         .nvtx = nvtx_available()};
  for (int i = 0; report->libraries && i < FindCount; i++) {
    FoundLibrary *found = &report->libraries[report->nlibraries++];
    void *library = find_library((FindKind)i, cuda_path, 0, found);
    if (!library) continue;
    if (i == FindDriver || i == FindSim) ask_driver(library, found);
    if (i == FindNvrtc) ask_nvrtc(library, found);
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
