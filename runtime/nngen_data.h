// nngen_data.h: the data files that go in and out of a model: weights, arrays, pictures, labels.
//
// The part of the runtime's public C API that needs no device; nngen_runtime.h includes it, and says
// what holds for both. Each group carries the name of the file that implements it.
#ifndef NNGEN_DATA_FILES_H
#define NNGEN_DATA_FILES_H

#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- weights.c: safetensors ------------------------------------------------------------------

typedef struct WeightTensor {
  const char *name;
  const char *dtype; // as safetensors spells it: "F32", "BF16", "I64", ...
  int rank;
  int64_t shape[PlanMaxRank];
  const void *data; // little endian, row-major; unaligned
  size_t bytes;
} WeightTensor;

typedef struct Weights Weights;

int weights_open(const char *path, Weights **weights, Error *err);
int weights_count(const Weights *weights);
const WeightTensor *weights_at(const Weights *weights, int index); // by offset in the file
const WeightTensor *weights_find(const Weights *weights, const char *name); // or NULL
const char *weights_metadata(const Weights *weights, const char *key);      // or NULL
int weights_floats(const WeightTensor *tensor, float *values, Error *err);
int weights_doubles(const WeightTensor *tensor, double *values, Error *err); // exact integers
void weights_close(Weights *weights);

// `metadata` is pairs of key, value, ended by NULL, or NULL. The file appears whole or not at all.
int weights_write(const char *path, const WeightTensor *tensors, int ntensors,
                  const char *const *metadata, Error *err);

// ---- npy.c, image.c, labels.c, photo.c: data files -------------------------------------------

typedef struct Npy {
  int rank;
  int64_t shape[PlanMaxRank];
  int64_t count;
  float *values; // row-major, whatever the file's order and dtype
  double *exact; // the same of a file of integers, booleans or doubles; else null
  bool integers; // the file holds integers or booleans
} Npy;

int npy_read(const char *path, Npy *npy, Error *err);
int npy_write(const char *path, const float *values, int rank, const int64_t *shape, Error *err);
// The same of a tensor's stored form, row-major; f16 stays f16, bf16 is no dtype of NumPy's.
int npy_write_stored(const char *path, Dtype dtype, const void *stored, int rank,
                     const int64_t *shape, Error *err);
void npy_free(Npy *npy);

typedef struct Image {
  int width, height;
  uint8_t *rgb; // height x width x 3
} Image;

int image_read(const char *path, Image *image, Error *err); // PNG, any kind, to 8-bit RGB
int image_write(const char *path, const Image *image, Error *err);
void image_free(Image *image);

typedef struct ImageTransform { // zero fields take the values of ImageNet inference
  int resize; // short side, pixels (256)
  int crop;   // side of the centre crop (224)
  float mean[3], std[3];
} ImageTransform;

// torchvision's inference transform: resize (bilinear, antialias), centre crop, to [0,1],
// normalise. Writes planes R G B of crop x crop to `chw`.
int image_transform(const Image *image, const ImageTransform *transform, float *chw, Error *err);

typedef struct Labels {
  char **names; // UTF-8
  int count;
} Labels;

int labels_read(const char *path, Labels *labels, Error *err); // a label per line
void labels_free(Labels *labels);
int labels_top(const float *scores, int count, int k, int *indices); // returns min(k, count)

// A picture that looks like a photograph, always the same: light, objects, texture, noise.
int photo_make(int width, int height, uint64_t seed, Image *image, Error *err);

#ifdef __cplusplus
}
#endif
#endif
