// jit.c: compiles the kernels of a plan, with NVRTC or with libcusim, in a pool of threads.
//
// One program per kernel: a change of one recompiles one, and they compile in parallel. Kernels
// that differ only in names are compiled once. jit_kernel.c handles one kernel.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jit/jit.h"

enum { MaxThreads = 64 };

// ---- the pool ----------------------------------------------------------------------------------

static void finish_one(JitBuild *build, int index, int rc, const Error *err) {
  const Progress *progress = &build->options->progress;
  pthread_mutex_lock(&build->lock);
  build->done++;
  if (rc && (build->failed_kernel < 0 || index < build->failed_kernel)) {
    build->failed_kernel = index;
    build->failure = *err;
    atomic_store(&build->failed, 1);
  }
  if (progress->step)
    progress->step(progress->user, "compiling kernels", build->done, build->plan->nkernels);
  pthread_mutex_unlock(&build->lock);
}

static void *work(void *user) {
  JitBuild *build = user;
  for (;;) {
    int next = atomic_fetch_add(&build->next, 1);
    if (next >= build->plan->nkernels || atomic_load(&build->failed)) return NULL;
    int index = build->order[next];
    Error err = {0};
    bool own = build->wanted[index] && build->images[index].same == index;
    int rc = own ? jit_kernel(build, index, &err) : ExitOk;
    finish_one(build, index, rc, &err);
  }
}

static int by_length(const void *a, const void *b, void *user) {
  const PlanKernel *kernels = user;
  int left = *(const int *)a, right = *(const int *)b;
  size_t x = strlen(kernels[left].source), y = strlen(kernels[right].source);
  return x != y ? (x < y) - (x > y) : left - right;
}

// Longest sources first, so that a long compile does not start last.
static void find_order(JitBuild *build) {
  for (int i = 0; i < build->plan->nkernels; i++) build->order[i] = i;
  qsort_r(build->order, (size_t)build->plan->nkernels, sizeof *build->order, by_length,
          build->plan->kernels);
}

static void run_pool(JitBuild *build) {
  pthread_t threads[MaxThreads];
  int wanted = build->options->threads, started = 0;
  if (wanted <= 0) wanted = (int)sysconf(_SC_NPROCESSORS_ONLN);
  if (wanted > MaxThreads) wanted = MaxThreads;
  if (wanted > build->plan->nkernels) wanted = build->plan->nkernels;
  while (started < wanted - 1 && !pthread_create(&threads[started], NULL, work, build)) started++;
  work(build); // this thread is one of them
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

// ---- the whole ---------------------------------------------------------------------------------

static void set_flags(JitBuild *build) {
  snprintf(build->arch_flag, sizeof build->arch_flag, "--gpu-architecture=%.20s", build->arch);
  build->flags[build->nflags++] = build->arch_flag;
  build->flags[build->nflags++] = "--std=c++17";
  build->flags[build->nflags++] = "--ptxas-options=-v";
  if (build->options->line_info) build->flags[build->nflags++] = "-lineinfo";
  // NVRTC's own cache (12.9 and newer, with a driver) returns images without a log: disabled.
  if (!build->toolkit->simulator && build->toolkit->version >= 12090)
    build->flags[build->nflags++] = "--no-cache";
}

static bool allocate(JitBuild *build) {
  size_t kernels = (size_t)build->plan->nkernels, headers = (size_t)build->plan->nheaders;
  build->header_texts = heap_alloc(headers, sizeof *build->header_texts);
  build->header_names = heap_alloc(headers, sizeof *build->header_names);
  build->keys = heap_alloc(kernels, sizeof *build->keys);
  build->images = heap_alloc(kernels, sizeof *build->images);
  build->reports = heap_alloc(kernels, sizeof *build->reports);
  build->wanted = heap_alloc(kernels, sizeof *build->wanted);
  build->order = heap_alloc(kernels, sizeof *build->order);
  if (!build->header_texts || !build->header_names || !build->keys || !build->images ||
      !build->reports || !build->wanted || !build->order)
    return false;
  for (size_t i = 0; i < headers; i++) {
    build->header_texts[i] = build->plan->headers[i].text;
    build->header_names[i] = build->plan->headers[i].name;
  }
  return true;
}

static void want_entry(JitBuild *build, const PlanEntry *entry) {
  const char *name = build->options->entry;
  if (!name || (strcmp(entry->name, name) && strcmp(entry->name, "init"))) return;
  for (int i = 0; i < entry->nsteps; i++) {
    if (entry->steps[i].kind != StepLaunch) continue;
    int kernel = entry->steps[i].kernel;
    build->wanted[kernel] = build->wanted[build->images[kernel].same] = true;
  }
}

static void copy_twins(JitBuild *build) {
  for (int i = 0; i < build->plan->nkernels; i++) {
    if (build->images[i].same == i || !build->wanted[i]) continue;
    build->reports[i] = build->reports[build->images[i].same];
    build->reports[i].shared = true;
    build->reports[i].seconds = 0;
  }
}

static void sum_up(const JitBuild *build, double begin, JitReport *report) {
  *report = (JitReport){.seconds = jit_seconds() - begin,
                        .kernels = build->reports,
                        .nkernels = build->plan->nkernels};
  for (int i = 0; i < report->nkernels; i++) {
    const KernelReport *kernel = &report->kernels[i];
    if (!build->wanted[i]) continue;
    if (kernel->shared)
      report->shared++;
    else if (kernel->cached)
      report->cached++;
    else
      report->compiled++;
  }
}

// Counts the programs to be compiled and those in the cache, judged by cache file names.
static void announce(const JitBuild *build) {
  const Progress *progress = &build->options->progress;
  int count[2] = {0, 0};
  if (!progress->compiling) return;
  for (int i = 0; i < build->plan->nkernels; i++)
    if (build->wanted[i] && build->images[i].same == i)
      count[cache_has(&build->cache, build->keys[i])]++;
  if (count[0]) progress->compiling(progress->user, count[0], count[1]);
}

static int build_all(JitBuild *build, Error *err) {
  char compiler[512];
  if (!allocate(build)) return heap_error(err, "compiling kernels");
  int rc = jit_find_twins(build, err);
  if (rc) return rc;
  for (int i = 0; i < build->plan->nkernels; i++) build->wanted[i] = !build->options->entry;
  for (int i = 0; i < build->plan->nentries; i++) want_entry(build, &build->plan->entries[i]);
  cache_open(build->options->cache_dir, &build->options->log, &build->cache);
  find_order(build);
  announce(build);
  run_pool(build);
  if (build->failed_kernel >= 0) {
    *err = build->failure;
    rc = err->code;
    if (build->toolkit->simulator && !host_compiler(compiler, sizeof compiler))
      rc = err_set(err, ExitNoToolchain,
                   "the simulator compiles kernels with a C++ compiler, and "
                   "there is none; install one: apt-get install g++");
  }
  cache_close(&build->cache);
  copy_twins(build);
  jit_dump(build);
  return rc;
}

int jit_build(const Toolkit *toolkit, const Plan *plan, const char *arch, const JitOptions *options,
              KernelImage **images, JitReport *report, Error *err) {
  static const JitOptions none = {0};
  double begin = jit_seconds();
  JitBuild build = {.toolkit = toolkit,
                    .plan = plan,
                    .options = options ? options : &none,
                    .arch = arch,
                    .failed_kernel = -1,
                    .lock = PTHREAD_MUTEX_INITIALIZER};
  set_flags(&build);
  int rc = build_all(&build, err);
  free(build.header_texts);
  free(build.header_names);
  free(build.keys);
  free(build.order);
  if (rc) {
    jit_images_free(build.images, plan->nkernels);
    free(build.reports);
    free(build.wanted);
    return rc;
  }
  sum_up(&build, begin, report);
  free(build.wanted);
  *images = build.images;
  return ExitOk;
}

void jit_images_free(KernelImage *images, int count) {
  for (int i = 0; images && i < count; i++) free(images[i].bytes);
  free(images);
}

void jit_report_free(JitReport *report) {
  free(report->kernels);
  *report = (JitReport){0};
}

int jit_compile(const Plan *plan, const JitOptions *options, JitReport *report, Error *err) {
  Toolkit toolkit;
  KernelImage *images = NULL;
  *report = (JitReport){0};
  int rc = plan_check(plan, err);
  if (!rc) rc = toolkit_open(options->cuda_path, 0, &toolkit, err);
  if (rc) return rc;
  rc = toolkit_check_arch(&toolkit, options->arch, err);
  if (!rc) rc = jit_build(&toolkit, plan, options->arch, options, &images, report, err);
  if (!rc) jit_images_free(images, plan->nkernels);
  toolkit_close(&toolkit);
  return rc;
}
