// image.c: compiles one CUDA source for several architectures, each in its own thread or from the
// kernel cache, and packs a fat binary.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"
#include "nngen_image.h"

enum { MaxTargets = 16 };

int image_twins(const Plan *plan, int *same, Error *err) {
  static const JitOptions none = {0};
  static const Toolkit no_toolkit = {0};
  size_t kernels = (size_t)plan->nkernels;
  JitBuild build = {.toolkit = &no_toolkit, .plan = plan, .options = &none};
  build.keys = heap_alloc(kernels, sizeof *build.keys);
  build.images = heap_alloc(kernels, sizeof *build.images);
  int rc = build.keys && build.images ? jit_find_twins(&build, err)
                                      : heap_error(err, "comparing kernels");
  for (int i = 0; i < plan->nkernels && !rc; i++) same[i] = build.images[i].same;
  free(build.keys);
  free(build.images);
  return rc;
}

// ---- compiling ---------------------------------------------------------------------------------

typedef struct Target {
  const Toolkit *toolkit;
  const Plan *plan; // of one kernel: the whole text
  const char *arch;
  const JitOptions *options;
  KernelImage *image;
  pthread_t thread;
  bool started;
  int rc;
  Error err;
} Target;

static void *compile_target(void *user) {
  Target *target = user;
  JitReport report = {0};
  target->rc = jit_build(target->toolkit, target->plan, target->arch, target->options,
                         &target->image, &report, &target->err);
  jit_report_free(&report);
  return NULL;
}

static int check_target(const Toolkit *toolkit, const char *arch, Error *err) {
  char machine[32];
  const char *digits = strchr(arch, '_');
  snprintf(machine, sizeof machine, "sm%.20s", digits ? digits : arch);
  return toolkit_check_arch(toolkit, machine, err);
}

static int pack(const Target *targets, int count, void **bytes, size_t *size, Error *err) {
  FatImage images[MaxTargets];
  for (int i = 0; i < count; i++)
    images[i] = (FatImage){targets[i].arch, targets[i].image->bytes, targets[i].image->size};
  return fatbin_make(images, count, bytes, size, err);
}

static int build_targets(Target *targets, int count, void **bytes, size_t *size, Error *err) {
  for (int i = 1; i < count; i++)
    targets[i].started = !pthread_create(&targets[i].thread, NULL, compile_target, &targets[i]);
  for (int i = 0; i < count; i++)
    if (!targets[i].started) compile_target(&targets[i]);
  int rc = ExitOk;
  for (int i = 0; i < count; i++) {
    if (targets[i].started) pthread_join(targets[i].thread, NULL);
    if (!rc && targets[i].rc) *err = targets[i].err, rc = targets[i].rc;
  }
  if (!rc) rc = pack(targets, count, bytes, size, err);
  for (int i = 0; i < count; i++)
    if (targets[i].image) jit_images_free(targets[i].image, 1);
  return rc;
}

int image_build(const char *source, const char *file, const char *const *archs, int narchs,
                const JitOptions *options, void **bytes, size_t *size, Error *err) {
  static char name[] = "the program", nowhere[] = "", none[] = "";
  PlanKernel kernel = {
      .name = name, .source = (char *)source, .names = none, .file = (char *)file, .loc = nowhere};
  Plan plan = {.kernels = &kernel, .nkernels = 1};
  JitOptions own = *options;
  own.own_symbols = true; // the text has the names it is to have
  Target targets[MaxTargets] = {0};
  Toolkit toolkit;
  if (narchs > MaxTargets) return err_set(err, ExitUsage, "more than %d architectures", MaxTargets);
  int rc = toolkit_open(options->cuda_path, 0, &toolkit, err);
  if (rc) return rc;
  for (int i = 0; i < narchs && !rc; i++) {
    targets[i] = (Target){&toolkit, &plan, archs[i], &own, NULL, 0, false, 0, {0}};
    rc = check_target(&toolkit, archs[i], err);
  }
  if (!rc) rc = build_targets(targets, narchs, bytes, size, err);
  toolkit_close(&toolkit);
  return rc;
}
