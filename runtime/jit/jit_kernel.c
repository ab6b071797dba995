// jit_kernel.c: one kernel from source to machine code: its key, the cache, the compiler, its log.
//
// The key is a hash of everything that determines the machine code, so a cache entry is never
// out of date. It excludes comments, #line and layer names, and the kernel is compiled as
// kNeutral, so that layers of one shape share one program, unless line info is requested.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "jit/jit.h"

enum { CacheFormat = 2 }; // part of every key

double jit_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const char kNeutral[] = "nn_kernel"; // the kernel's name in a shared program

static bool own_symbols(const JitBuild *build) {
  return build->options->line_info || build->options->own_symbols;
}

// The text that decides the machine code. The caller frees; NULL: no memory.
static char *program_text(const JitBuild *build, const PlanKernel *kernel) {
  if (build->options->line_info) return heap_copy(kernel->source);
  char *text = source_canonical(kernel->source), *renamed = NULL;
  if (!text || own_symbols(build)) return text;
  renamed = source_rename(text, kernel->name, kNeutral, kernel->names);
  free(text);
  return renamed;
}

// ---- keys --------------------------------------------------------------------------------------

static void hash_text(XXH3_state_t *state, const char *text) {
  XXH3_128bits_update(state, text, strlen(text) + 1); // with its end: "ab","c" is not "a","bc"
}

static bool make_key(const JitBuild *build, const PlanKernel *kernel, CacheKey *key) {
  XXH3_state_t *state = XXH3_createState();
  char *canonical = program_text(build, kernel);
  int format = CacheFormat;
  if (state && canonical) {
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, &format, sizeof format);
    hash_text(state, build->toolkit->identity);
    for (int i = 0; i < build->nflags; i++) hash_text(state, build->flags[i]); // with the arch
    for (int i = 0; i < build->plan->nheaders; i++) {
      hash_text(state, build->plan->headers[i].name);
      hash_text(state, build->plan->headers[i].text);
    }
    hash_text(state, canonical);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    *key = (CacheKey){hash.low64, hash.high64};
  }
  bool made = state && canonical;
  XXH3_freeState(state);
  free(canonical);
  return made;
}

static int by_key(const void *a, const void *b, void *user) {
  const CacheKey *keys = user;
  int left = *(const int *)a, right = *(const int *)b;
  if (keys[left].high != keys[right].high) return keys[left].high < keys[right].high ? -1 : 1;
  if (keys[left].low != keys[right].low) return keys[left].low < keys[right].low ? -1 : 1;
  return left - right;
}

// Sets images[].same: sorted by key, equal programs are neighbours, the first in the plan first.
int jit_find_twins(JitBuild *build, Error *err) {
  size_t count = (size_t)build->plan->nkernels;
  int *sorted = heap_alloc(count, sizeof *sorted);
  if (!sorted) return heap_error(err, "compiling kernels");
  for (int i = 0; i < (int)count; i++) {
    sorted[i] = i;
    build->images[i].symbol = own_symbols(build) ? build->plan->kernels[i].name : kNeutral;
    if (!make_key(build, &build->plan->kernels[i], &build->keys[i]))
      return free(sorted), heap_error(err, "compiling kernels");
  }
  qsort_r(sorted, count, sizeof *sorted, by_key, build->keys);
  for (size_t i = 0; i < count; i++) {
    const CacheKey *key = &build->keys[sorted[i]];
    bool twin = i && !memcmp(key, &build->keys[sorted[i - 1]], sizeof *key);
    build->images[sorted[i]].same = twin ? build->images[sorted[i - 1]].same : sorted[i];
  }
  free(sorted);
  return ExitOk;
}

// ---- one kernel --------------------------------------------------------------------------------

// Writes a text or an image to the dump folder; failures do not stop a run.
static bool dump(const JitBuild *build, const char *dir, const char *name, const char *suffix,
                 const void *bytes, size_t size) {
  char path[512];
  Error err = {0};
  FileWriter writer;
  mkdir(dir, 0777);
  snprintf(path, sizeof path, "%s/%s%s", dir, name, suffix);
  int rc = file_begin("dump", path, &writer, &err);
  if (!rc) rc = file_write(&writer, bytes, size, &err);
  if (!rc) rc = file_commit(&writer, &err);
  if (rc) log_warn(&build->options->log, "%s", err.message);
  return !rc;
}

// Finds a folder for a source that does not compile: the dump folder, the cache, else the system's
// temporary folder. Returns false if none is writable.
static bool keep_source(const JitBuild *build, const PlanKernel *kernel, char *dir, size_t size) {
  const char *temp = getenv("TMPDIR");
  if (build->options->dump_dir)
    snprintf(dir, size, "%s", build->options->dump_dir);
  else if (build->cache.dir)
    snprintf(dir, size, "%s/failed", build->cache.dir);
  else {
    snprintf(dir, size, "%s/nngen-XXXXXX", temp && *temp ? temp : "/tmp");
    if (!mkdtemp(dir)) return false;
  }
  return dump(build, dir, kernel->file, "", kernel->source, strlen(kernel->source));
}

static int compile_error(const JitBuild *build, const PlanKernel *kernel, const char *why,
                         const char *log, Error *err) {
  char dir[480], kept[600] = "";
  if (keep_source(build, kernel, dir, sizeof dir))
    snprintf(kept, sizeof kept, "\nits source is kept in '%s/%s'", dir, kernel->file);
  return err_set(err, ExitMismatch, "kernel %s (%s) does not compile for %s: %s\n%.3000s%s",
                 kernel->name, kernel->loc, build->arch, why, log ? log : "", kept);
}

static char *get_log(const NvrtcApi *api, nvrtcProgram program) {
  size_t size = 0;
  if (api->nvrtcGetProgramLogSize(program, &size)) return NULL;
  char *log = heap_alloc(size + 1, 1);
  if (log && size) api->nvrtcGetProgramLog(program, log);
  for (size_t end = log ? strlen(log) : 0; end && log[end - 1] == '\n'; end--) log[end - 1] = 0;
  return log;
}

static bool wants_ptx(const JitBuild *build) {
  return !strncmp(build->arch, "compute_", strlen("compute_"));
}

static int get_image(const JitBuild *build, nvrtcProgram program, KernelImage *image, Error *err) {
  const NvrtcApi *api = &build->toolkit->api;
  bool ptx = wants_ptx(build);
  nvrtcResult result = (ptx ? api->nvrtcGetPTXSize : api->nvrtcGetCUBINSize)(program, &image->size);
  if (result)
    return err_set(err, ExitNoToolchain, "NVRTC returns no %s: %s", ptx ? "PTX" : "machine code",
                   api->nvrtcGetErrorString(result));
  image->bytes = heap_alloc(image->size, 1);
  if (!image->bytes) return heap_error(err, "compiling kernels");
  (ptx ? api->nvrtcGetPTX : api->nvrtcGetCUBIN)(program, image->bytes);
  return ExitOk;
}

static int compile_program(const JitBuild *build, const PlanKernel *kernel, nvrtcProgram program,
                           KernelImage *image, KernelReport *report, Error *err) {
  const NvrtcApi *api = &build->toolkit->api;
  nvrtcResult result = api->nvrtcCompileProgram(program, build->nflags, build->flags);
  char *log = get_log(api, program);
  if (!log) return heap_error(err, "compiling kernels");
  int rc = result ? compile_error(build, kernel, api->nvrtcGetErrorString(result), log, err)
                  : get_image(build, program, image, err);
  ptxas_parse(log, image->symbol, report);
  free(log);
  return rc;
}

static int compile(JitBuild *build, int index, Error *err) {
  const PlanKernel *kernel = &build->plan->kernels[index];
  const NvrtcApi *api = &build->toolkit->api;
  nvrtcProgram program = NULL;
  char *source = source_rename(kernel->source, kernel->name, build->images[index].symbol, NULL);
  if (!source) return heap_error(err, "compiling kernels");
  nvrtcResult result =
      api->nvrtcCreateProgram(&program, source, kernel->file, build->plan->nheaders,
                              build->header_texts, build->header_names);
  free(source);
  if (result) return compile_error(build, kernel, api->nvrtcGetErrorString(result), NULL, err);
  int rc =
      compile_program(build, kernel, program, &build->images[index], &build->reports[index], err);
  api->nvrtcDestroyProgram(&program);
  return rc;
}

static void from_cache(JitBuild *build, int index, const CacheItem *item) {
  KernelReport *report = &build->reports[index];
  *report = (KernelReport){.registers = item->registers,
                           .spill_bytes = item->spill_bytes,
                           .stack_bytes = item->stack_bytes,
                           .smem_static = item->smem_static,
                           .serialized = item->serialized,
                           .cached = true};
  build->images[index].bytes = item->image;
  build->images[index].size = item->size;
}

static void to_cache(JitBuild *build, int index) {
  const KernelReport *report = &build->reports[index];
  CacheItem item = {.registers = report->registers,
                    .spill_bytes = report->spill_bytes,
                    .stack_bytes = report->stack_bytes,
                    .smem_static = report->smem_static,
                    .serialized = report->serialized,
                    .image = build->images[index].bytes,
                    .size = build->images[index].size};
  snprintf(item.kernel, sizeof item.kernel, "%.127s", build->plan->kernels[index].name);
  snprintf(item.arch, sizeof item.arch, "%.15s", build->arch);
  cache_put(&build->cache, build->keys[index], &item);
}

int jit_kernel(JitBuild *build, int index, Error *err) {
  CacheItem item = {0};
  double begin = jit_seconds();
  int rc = ExitOk;
  if (cache_get(&build->cache, build->keys[index], &item))
    from_cache(build, index, &item);
  else
    rc = compile(build, index, err);
  if (rc) return rc;
  if (!build->reports[index].cached) to_cache(build, index);
  build->reports[index].seconds = jit_seconds() - begin;
  build->reports[index].image_bytes = build->images[index].size;
  return ExitOk;
}

// ---- what a user looks at -----------------------------------------------------------------------

int jit_image(const Toolkit *toolkit, const PlanKernel *kernel, const KernelImage *image,
              void **bytes, size_t *size, Error *err) {
  if (!toolkit->simulator && strcmp(image->symbol, kernel->name))
    return cubin_rename(image->bytes, image->size, image->symbol, kernel->name, bytes, size, err);
  *bytes = heap_alloc(image->size, 1);
  if (!*bytes) return heap_error(err, "loading kernels");
  memcpy(*bytes, image->bytes, *size = image->size);
  return ExitOk;
}

void jit_dump(const JitBuild *build) {
  const char *dir = build->options->dump_dir;
  Error err = {0};
  for (int i = 0; dir && i < build->plan->nkernels; i++) {
    const PlanKernel *kernel = &build->plan->kernels[i];
    const KernelImage *image = &build->images[build->images[i].same];
    void *bytes = NULL;
    size_t size = 0;
    dump(build, dir, kernel->file, "", kernel->source, strlen(kernel->source));
    if (image->bytes && !jit_image(build->toolkit, kernel, image, &bytes, &size, &err) && bytes)
      dump(build, dir, kernel->name, build->toolkit->simulator ? ".so" : ".cubin", bytes, size);
    free(bytes);
  }
}
