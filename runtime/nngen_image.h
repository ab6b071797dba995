// nngen_image.h: CUDA text to images that other programs load: machine code for several GPUs and
// PTX in one fat binary. Needs NVRTC, no device. A part of the runtime's public C API, with the
// rules of nngen_runtime.h.
#ifndef NNGEN_IMAGE_H
#define NNGEN_IMAGE_H

#include "nngen_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- image.c -----------------------------------------------------------------------------------

// Which kernels of the plan are one program but for names: same[i] is the first of them, i itself
// where there is none before it. Needs no toolkit.
int image_twins(const Plan *plan, int *same, Error *err);

// Compiles `source` (no header of its own is found) for every architecture, "sm_90a", or
// "compute_80" for PTX, and makes a fat binary of them (malloc). `file`: for messages. Of the
// options: cuda_path, cache_dir, progress, log. Errors: those of jit_compile.
int image_build(const char *source, const char *file, const char *const *archs, int narchs,
                const JitOptions *options, void **bytes, size_t *size, Error *err);

// ---- fatbin.c ----------------------------------------------------------------------------------

typedef struct FatImage {
  const char *arch; // "sm_90a": `bytes` is a cubin; "compute_80": PTX text
  const void *bytes;
  size_t size;
} FatImage;

// The fat binary of the images (malloc), as NVIDIA's `fatbinary --compress=false` writes it.
// Errors: ExitNoToolchain: an image is not what its architecture says.
int fatbin_make(const FatImage *images, int count, void **bytes, size_t *size, Error *err);

#ifdef __cplusplus
}
#endif
#endif
