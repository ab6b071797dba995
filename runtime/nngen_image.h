// nngen_image.h: compiles CUDA source to images that other programs load: machine code for several
// GPUs and PTX in one fat binary. Needs NVRTC, no device. Part of the runtime's public C API, with
// the rules of nngen_runtime.h.
#ifndef NNGEN_IMAGE_H
#define NNGEN_IMAGE_H

#include "nngen_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- image.c -----------------------------------------------------------------------------------

// Finds kernels of the plan that differ only in names: same[i] is the first kernel with the program
// of kernel i (i itself if none is before it). Needs no toolkit.
int image_twins(const Plan *plan, int *same, Error *err);

// Compiles `source`, which includes no headers, for every architecture ("sm_90a", or "compute_80"
// for PTX) and packs the images into a fat binary (malloc). `file`: its name in messages. Options
// used: cuda_path, cache_dir, progress, log. Errors: those of jit_compile.
int image_build(const char *source, const char *file, const char *const *archs, int narchs,
                const JitOptions *options, void **bytes, size_t *size, Error *err);

// ---- fatbin.c ----------------------------------------------------------------------------------

typedef struct FatImage {
  const char *arch; // "sm_90a": `bytes` is a cubin; "compute_80": PTX text
  const void *bytes;
  size_t size;
} FatImage;

// Packs images into a fat binary (malloc), like NVIDIA's `fatbinary --compress=false`. Errors:
// ExitNoToolchain if an image does not match its architecture.
int fatbin_make(const FatImage *images, int count, void **bytes, size_t *size, Error *err);

#ifdef __cplusplus
}
#endif
#endif
