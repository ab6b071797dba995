// frontend.c: NVIDIA's NVRTC as the front end instead of the host compiler: the ptx room translates
// its PTX (NNGEN_SIM_FRONTEND=nvrtc).
#include "sim/api/api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Vendor { // its functions
#define CUDA_API(name, symbol, params)
#define NVRTC_API(name, symbol, params) nvrtcResult(*name) params;
#define NVRTC_TEXT(name, symbol, params) const char *(*name)params;
#include "cuda_api.def"
} Vendor;

static Vendor vendor;
static bool found;
static char include[1100]; // "-I" and the folder of its toolkit's headers; or ""

static bool load(void *library) {
#define CUDA_API(name, symbol, params)
#define NVRTC_API(name, symbol, params)                                                            \
  *(void **)&vendor.name = dlsym(library, #symbol);                                                \
  if (!vendor.name) return false;
#define NVRTC_TEXT NVRTC_API
#include "cuda_api.def"
  return true;
}

// Not libcusim under another name.
static void *open_library(const char *name) {
  void *library = name && *name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library && dlsym(library, "cusimNameLaunch")) {
    dlclose(library);
    return NULL;
  }
  return library;
}

// NVRTC brings no headers: its toolkit's folder is searched last.
static void find_headers(void) {
  Dl_info info;
  void *function = NULL;
  memcpy(&function, &vendor.nvrtcVersion, sizeof function);
  char *real = dladdr(function, &info) ? realpath(info.dli_fname, NULL) : NULL;
  const char *above[] = {"/include", "/../include", "/../../include", "/../../../include"};
  char *slash = real ? strrchr(real, '/') : NULL;
  if (slash) *slash = 0;
  for (size_t i = 0; slash && i < sizeof above / sizeof *above && !*include; i++) {
    char file[1200];
    snprintf(file, sizeof file, "%s%s/cuda_fp16.h", real, above[i]);
    if (access(file, R_OK) == 0) snprintf(include, sizeof include, "-I%.900s%s", real, above[i]);
  }
  free(real);
}

static void find_vendor(void) {
  char in_path[1024] = "";
  const char *cuda = getenv("CUDA_PATH"), *named = getenv("NNGEN_SIM_NVRTC");
  bool given = named && *named; // no other will do
  if (cuda && *cuda) snprintf(in_path, sizeof in_path, "%s/lib64/libnvrtc.so", cuda);
  const char *names[] = {named, "libnvrtc.so.13", "libnvrtc.so.12",
                         in_path, "/usr/local/cuda/lib64/libnvrtc.so"};
  for (size_t i = 0; i < (given ? 1 : sizeof names / sizeof *names) && !found; i++) {
    void *library = open_library(names[i]);
    found = library && load(library);
  }
  if (found) find_headers();
}

bool frontend_found(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_vendor);
  return found;
}

nvrtcResult frontend_version(int *major, int *minor) {
  return frontend_found() ? vendor.nvrtcVersion(major, minor) : NVRTC_ERROR_INTERNAL_ERROR;
}

// ---- compiling ----------------------------------------------------------------------------------

// sm_90a becomes compute_90a (only PTX is needed); adds line info.
static int translate_options(int count, const char *const *words, const char **out, char *arch,
                             size_t size) {
  int n = 0;
  for (int i = 0; i < count; i++) {
    const char *sm = strstr(words[i], "sm_");
    bool is_arch = sm && strstr(words[i], "arch");
    bool for_ptxas = strstr(words[i], "ptxas-options") || !strcmp(words[i], "-Xptxas");
    if (for_ptxas) continue;
    if (is_arch) snprintf(arch, size, "-arch=compute_%s", sm + 3);
    out[n++] = is_arch ? arch : words[i];
  }
  bool debug = false;
  for (int i = 0; i < n; i++)
    debug |= !strcmp(out[i], "-G") || strstr(out[i], "lineinfo") || strstr(out[i], "line-info") ||
             !strcmp(out[i], "--device-debug");
  if (!debug) out[n++] = "-lineinfo";
  if (*include) out[n++] = include;
  return n;
}

static void take_log(nvrtcProgram program, Text *log) {
  size_t bytes = 0;
  char *text = NULL;
  if (vendor.nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS &&
      (text = calloc(bytes + 1, 1)))
    if (vendor.nvrtcGetProgramLog(program, text) == NVRTC_SUCCESS)
      text_append(log, text, strlen(text));
  free(text);
}

static nvrtcResult take_ptx(nvrtcProgram program, Text *ptx) {
  size_t bytes = 0;
  nvrtcResult r = vendor.nvrtcGetPTXSize(program, &bytes);
  char *text = r == NVRTC_SUCCESS ? calloc(bytes + 1, 1) : NULL;
  if (r == NVRTC_SUCCESS && !text) return NVRTC_ERROR_OUT_OF_MEMORY;
  if (text) r = vendor.nvrtcGetPTX(program, text);
  if (r == NVRTC_SUCCESS) text_append(ptx, text, strlen(text));
  free(text);
  return r;
}

static nvrtcResult compile(const CompileJob *job, nvrtcProgram program, int count,
                           const char *const *words, char **lowered, Text *ptx, Text *log) {
  char arch[64];
  const char **options = malloc(((size_t)count + 3) * sizeof *options);
  if (!options) return NVRTC_ERROR_OUT_OF_MEMORY;
  for (const char *const *e = job->expressions; e && *e; e++)
    vendor.nvrtcAddNameExpression(program, *e);
  int n = translate_options(count, words, options, arch, sizeof arch);
  nvrtcResult r = vendor.nvrtcCompileProgram(program, n, options);
  take_log(program, log);
  if (r == NVRTC_SUCCESS) r = take_ptx(program, ptx);
  for (int i = 0; r == NVRTC_SUCCESS && job->expressions && job->expressions[i]; i++) {
    const char *name = NULL;
    if (vendor.nvrtcGetLoweredName(program, job->expressions[i], &name) == NVRTC_SUCCESS)
      lowered[i] = strdup(name);
  }
  free(options);
  return r;
}

nvrtcResult frontend_compile(const CompileJob *job, int count, const char *const *words,
                             char **lowered, Text *ptx, Text *image, Text *log) {
  nvrtcProgram program = NULL;
  if (!frontend_found()) {
    text_print(log, "libcusim: NNGEN_SIM_FRONTEND=nvrtc: no NVRTC of NVIDIA's is found "
                    "(NNGEN_SIM_NVRTC, libnvrtc.so.13, CUDA_PATH)\n");
    return NVRTC_ERROR_INTERNAL_ERROR;
  }
  nvrtcResult r = vendor.nvrtcCreateProgram(&program, job->source, job->name, job->header_count,
                                            job->headers, job->header_names);
  if (r == NVRTC_SUCCESS) r = compile(job, program, count, words, lowered, ptx, log);
  if (program) vendor.nvrtcDestroyProgram(&program);
  if (r != NVRTC_SUCCESS) return r;
  PtxJob ptx_job = {job->arch, job->registers, job->checks};
  switch (ptx_compile(ptx->data, &ptx_job, image, log)) {
  case CUDA_SUCCESS: return NVRTC_SUCCESS;
  case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
  case CUDA_ERROR_OPERATING_SYSTEM: return NVRTC_ERROR_INTERNAL_ERROR;
  default: return NVRTC_ERROR_COMPILATION;
  }
}
