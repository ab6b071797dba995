// resize.c: torchvision's inference transform: resize, centre crop, to [0,1], normalise.
//
// The resize is PIL's bilinear with antialias, to the bit: a triangle filter as wide as the
// reduction, horizontally then vertically, in fixed point of 22 bits, rounded to 8 bits after each
// pass. torchvision takes the long side rounded down, and the crop's corner rounded to even.
#include <math.h>
#include <stdlib.h>

#include "data/data.h"

enum { FractionBits = 22 };

// For each output pixel: the first input pixel, how many, and their weights (at i * width).
typedef struct Filter {
  int width;
  int *first, *count;
  int32_t *weights;
} Filter;

static void filter_free(Filter *filter) {
  free(filter->first);
  free(filter->count);
  free(filter->weights);
}

static void filter_fill(Filter *filter, int out, int in, double scale) {
  double reach = scale > 1 ? scale : 1, center = (out + 0.5) * scale, norm = 0;
  int first = (int)(center - reach + 0.5), last = (int)(center + reach + 0.5);
  int32_t *weights = filter->weights + (size_t)out * filter->width;
  filter->first[out] = first = first < 0 ? 0 : first;
  filter->count[out] = (last > in ? in : last) - first;
  for (int pass = 0; pass < 2; pass++) { // first the sum, then the weights
    double total = 0;
    for (int i = 0; i < filter->count[out]; i++) {
      double weight = fmax(0, 1 - fabs((i + first - center + 0.5) * (1 / reach)));
      total += weight;
      if (pass) weights[i] = (int32_t)(weight * norm * (1 << FractionBits) + 0.5);
    }
    norm = 1 / total;
  }
}

static bool filter_make(Filter *filter, int in, int out) {
  double scale = (double)in / out;
  filter->width = (int)ceil(scale > 1 ? scale : 1) * 2 + 1;
  filter->first = heap_alloc((size_t)out, sizeof(int));
  filter->count = heap_alloc((size_t)out, sizeof(int));
  filter->weights = heap_alloc((size_t)out * (size_t)filter->width, sizeof(int32_t));
  if (!filter->first || !filter->count || !filter->weights) return false;
  for (int i = 0; i < out; i++) filter_fill(filter, i, in, scale);
  return true;
}

// One output value: `pixels` is the first contributing byte, `step` the distance to the next.
static uint8_t blend(const uint8_t *pixels, size_t step, const int32_t *weights, int count) {
  int32_t sum = 1 << (FractionBits - 1);
  for (int i = 0; i < count; i++) sum += pixels[(size_t)i * step] * weights[i];
  sum >>= FractionBits;
  return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static int resize_x(const Image *in, int width, Image *out, Error *err) {
  Filter filter = {0};
  *out = (Image){width, in->height, heap_alloc((size_t)width * (size_t)in->height, 3)};
  bool made = filter_make(&filter, in->width, width) && out->rgb;
  for (int y = 0; made && y < in->height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < 3; c++)
        out->rgb[((size_t)y * (size_t)width + (size_t)x) * 3 + (size_t)c] =
            blend(in->rgb + ((size_t)y * (size_t)in->width + (size_t)filter.first[x]) * 3 + c, 3,
                  filter.weights + (size_t)x * (size_t)filter.width, filter.count[x]);
  filter_free(&filter);
  return made ? ExitOk : heap_error(err, "resizing an image");
}

static int resize_y(const Image *in, int height, Image *out, Error *err) {
  Filter filter = {0};
  size_t row = (size_t)in->width * 3;
  *out = (Image){in->width, height, heap_alloc(row, (size_t)height)};
  bool made = filter_make(&filter, in->height, height) && out->rgb;
  for (int y = 0; made && y < height; y++)
    for (size_t x = 0; x < row; x++)
      out->rgb[(size_t)y * row + x] =
          blend(in->rgb + (size_t)filter.first[y] * row + x, row,
                filter.weights + (size_t)y * (size_t)filter.width, filter.count[y]);
  filter_free(&filter);
  return made ? ExitOk : heap_error(err, "resizing an image");
}

int resize_image(const Image *in, int width, int height, Image *out, Error *err) {
  Image wide = {0};
  *out = (Image){0};
  int rc = resize_x(in, width, &wide, err);
  if (!rc) rc = resize_y(&wide, height, out, err);
  image_free(&wide);
  if (rc) image_free(out);
  return rc;
}

// Rounds (have - want) / 2 to even, as Python's round.
static int crop_begin(int have, int want) {
  return (int)nearbyint((have - want) / 2.0);
}

static void normalise(const Image *image, const ImageTransform *t, float *chw) {
  int left = crop_begin(image->width, t->crop), top = crop_begin(image->height, t->crop);
  for (int c = 0; c < 3; c++)
    for (int y = 0; y < t->crop; y++)
      for (int x = 0; x < t->crop; x++) {
        size_t pixel = (size_t)(y + top) * (size_t)image->width + (size_t)(x + left);
        *chw++ = (image->rgb[pixel * 3 + (size_t)c] / 255.f - t->mean[c]) / t->std[c];
      }
}

static ImageTransform with_defaults(const ImageTransform *given) {
  static const ImageTransform imagenet = {256, 224, {.485f, .456f, .406f}, {.229f, .224f, .225f}};
  ImageTransform t = given ? *given : imagenet;
  if (!t.resize) t.resize = imagenet.resize;
  if (!t.crop) t.crop = imagenet.crop;
  for (int c = 0; c < 3; c++) {
    if (!t.std[c]) t.mean[c] = imagenet.mean[c], t.std[c] = imagenet.std[c];
  }
  return t;
}

int image_transform(const Image *image, const ImageTransform *transform, float *chw, Error *err) {
  ImageTransform t = with_defaults(transform);
  int64_t short_side = image->width < image->height ? image->width : image->height;
  int64_t width = (int64_t)t.resize * image->width / short_side;
  int64_t height = (int64_t)t.resize * image->height / short_side;
  if (t.resize < t.crop || t.crop < 1)
    return err_set(err, ExitBadInput, "image: cannot crop %d from a short side of %d", t.crop,
                   t.resize);
  if (width * height > (int64_t)1 << 28)
    return err_set(err, ExitBadInput, "image: %d x %d is too oblong to resize to %d", image->width,
                   image->height, t.resize);
  Image resized;
  int rc = resize_image(image, (int)width, (int)height, &resized, err);
  if (rc) return rc;
  normalise(&resized, &t, chw);
  image_free(&resized);
  return ExitOk;
}
