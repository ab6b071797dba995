// jit.h: from source to machine code, and the cache, by file.
#ifndef NNGEN_RUNTIME_JIT_H
#define NNGEN_RUNTIME_JIT_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"

// ---- cache.c, cache_list.c: compiled kernels on disk ------------------------------------------

typedef struct CacheKey {
  uint64_t low, high;
} CacheKey;

typedef struct CacheItem { // contents of an entry
  char kernel[128], arch[16];
  int registers, spill_bytes, stack_bytes, smem_static; // as in KernelReport
  bool serialized;
  void *image;                                          // malloc
  size_t size;
} CacheItem;

typedef struct Cache {
  char *dir;            // NULL: no cache
  atomic_bool writable; // until a write fails
  atomic_bool stored;   // something was put
  Log log;
} Cache;

// None of these fails: without a usable folder there is no cache, and a warning says why. Threads
// may get and put concurrently.
void cache_open(const char *dir, const Log *log, Cache *cache);
bool cache_get(Cache *cache, CacheKey key, CacheItem *item);
bool cache_has(const Cache *cache, CacheKey key); // a file of this key, which is not read
void cache_put(Cache *cache, CacheKey key, const CacheItem *item);
void cache_close(Cache *cache); // drops the least recently used entries beyond the limit
void cache_evict(const char *dir, int64_t limit);

// Reads and verifies one file of the cache. Returns NULL and fills *item (the image only if
// `with_image`), or a description of the fault; *missing: there is no such file.
const char *cache_read(const char *path, const CacheKey *key, bool with_image, CacheItem *item,
                       bool *missing);

// ---- jit.c, ptxas.c ---------------------------------------------------------------------------

typedef struct KernelImage {
  void *bytes; // NULL when `same` has them
  size_t size;
  int same; // index of the first kernel with the same program (may be itself)
  const char *symbol; // the kernel's name in the image; lives as long as the plan
} KernelImage;

enum { JitMaxFlags = 6 };

// One run of jit_build; shared by its threads.
typedef struct JitBuild {
  const Toolkit *toolkit;
  const Plan *plan;
  const JitOptions *options;
  const char *arch;
  const char *flags[JitMaxFlags]; // NVRTC's options
  int nflags;
  char arch_flag[48];
  const char **header_texts, **header_names;
  CacheKey *keys;
  KernelImage *images;
  KernelReport *reports;
  bool *wanted; // by kernel: needed by JitOptions.entry or init, or the program of such a kernel
  Cache cache;
  int *order;      // in which they are taken
  atomic_int next; // of `order`
  atomic_int failed;
  pthread_mutex_t lock; // guards the following
  int done, failed_kernel;
  Error failure; // of the failed kernel with the lowest index
} JitBuild;

double jit_seconds(void);
int jit_find_twins(JitBuild *build, Error *err);        // makes the keys, sets images[].same
int jit_kernel(JitBuild *build, int index, Error *err); // from the cache, or compiled
void jit_dump(const JitBuild *build); // sources and images to options->dump_dir, if set

// The image of `kernel` under its own name (malloc), from the shared one. On libcusim the shared
// name stays. *bytes is NULL if the image cannot be parsed. Errors: out of memory.
int jit_image(const Toolkit *toolkit, const PlanKernel *kernel, const KernelImage *image,
              void **bytes, size_t *size, Error *err);

// Compiles or fetches every kernel of the plan. On success the caller frees images[nkernels] with
// jit_images_free and *report with jit_report_free; on failure nothing needs to be freed.
int jit_build(const Toolkit *toolkit, const Plan *plan, const char *arch, const JitOptions *options,
              KernelImage **images, JitReport *report, Error *err);
void jit_images_free(KernelImage *images, int count);

void ptxas_parse(const char *log, const char *kernel, KernelReport *report);

// ---- source.c, cubin.c ------------------------------------------------------------------------

// Both return NULL if out of memory; the caller frees.
char *source_canonical(const char *source); // without text that does not affect machine code
// Renames the kernel `symbol` to `neutral`, and the blank-separated `names` (or NULL) to $1, $2,
// ... in order of appearance. Two sources with equal results are one program.
char *source_rename(const char *source, const char *symbol, const char *neutral, const char *names);

// A copy of a cubin (malloc) whose kernel `from` is renamed to `to`; *out is NULL if the file
// cannot be parsed: the caller then compiles the kernel under its own name. Errors: out of memory.
int cubin_rename(const void *image, size_t size, const char *from, const char *to, void **out,
                 size_t *out_size, Error *err);

#endif
