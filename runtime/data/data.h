// data.h: data files and parameters, by file.
#ifndef NNGEN_RUNTIME_DATA_H
#define NNGEN_RUNTIME_DATA_H

#include "exec/exec.h"

// ---- resize.c ---------------------------------------------------------------------------------

int resize_image(const Image *in, int width, int height, Image *out, Error *err);

#endif
