// synthetic.c: pictures generated from a seed, for runs without a data set: learnable, and the same
// on every machine.
//
// A class has a smooth pattern (random numbers on a coarse grid, interpolated linearly) that
// depends only on seed and class; a picture is its class's pattern plus individual noise. All
// arithmetic is integer. Training and test differ in the noise.
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

enum { Grid = 5, Amplitude = 60, FractionBits = 8, Middle = 128 };

typedef struct Synthetic {
  int8_t *grids; // (classes, channels, Grid, Grid)
  uint64_t noise;
} Synthetic;

static bool synthetic_matches(const char *path) {
  return !strcmp(path, "synthetic");
}

static int synthetic_open(Dataset *dataset, Error *err) {
  static const int64_t usual[3] = {3, 32, 32};
  const DatasetOptions *options = &dataset->options;
  bool train = options->split == DatasetTrain;
  memcpy(dataset->shape, options->shape[0] ? options->shape : usual, sizeof dataset->shape);
  dataset->classes = options->classes ? options->classes : 10;
  dataset->count = options->count ? options->count : train ? 2048 : 512;
  size_t grid = (size_t)dataset->shape[0] * Grid * Grid, count = (size_t)dataset->classes * grid;
  Synthetic *own = dataset->own = heap_alloc(1, sizeof *own);
  if (own) own->grids = heap_alloc((size_t)dataset->classes, grid);
  if (!own || !own->grids) return heap_error(err, "the patterns of synthetic pictures");
  uint64_t patterns = random_at(options->seed, 0);
  for (size_t i = 0; i < count; i++)
    own->grids[i] = (int8_t)((int)(random_at(patterns, i) % (2 * Amplitude + 1)) - Amplitude);
  own->noise = random_at(options->seed, train ? 1 : 2);
  return ExitOk;
}

// Position of pixel `at` of `size` on the grid, in fixed point.
static int on_grid(int at, int size) {
  return size > 1 ? (int)(((unsigned)at * (Grid - 1) << FractionBits) / (unsigned)(size - 1)) : 0;
}

static int mix(int a, int b, int part) {
  return a + ((b - a) * part >> FractionBits);
}

static int pattern(const int8_t *grid, int y, int x) {
  int row = y >> FractionBits, column = x >> FractionBits, mask = (1 << FractionBits) - 1;
  int below = row + (row < Grid - 1), right = column + (column < Grid - 1);
  int top = mix(grid[row * Grid + column], grid[row * Grid + right], x & mask);
  int bottom = mix(grid[below * Grid + column], grid[below * Grid + right], x & mask);
  return mix(top, bottom, y & mask);
}

static int noise(uint64_t bits) { // four bytes' sum: nearly normal, deviation 37
  int sum = (int)((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24 & 255));
  return (sum - 510) / 4;
}

static int synthetic_read(const Dataset *dataset, int64_t index, uint8_t *image, int32_t *label,
                          Error *err) {
  (void)err;
  const Synthetic *own = dataset->own;
  int channels = (int)dataset->shape[0], height = (int)dataset->shape[1];
  int width = (int)dataset->shape[2];
  uint64_t key = random_at(own->noise, (uint64_t)index), at = 0;
  *label = (int32_t)(index % dataset->classes);
  const int8_t *grid = own->grids + (size_t)*label * (size_t)channels * Grid * Grid;
  for (int c = 0; c < channels; c++, grid += Grid * Grid)
    for (int y = 0; y < height; y++)
      for (int x = 0; x < width; x++) {
        int value = Middle + pattern(grid, on_grid(y, height), on_grid(x, width)) +
                    noise(random_at(key, at));
        image[at++] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
      }
  return ExitOk;
}

static void synthetic_close(Dataset *dataset) {
  Synthetic *own = dataset->own;
  if (own) free(own->grids);
  free(own);
}

const DatasetForm synthetic_form = {
    "synthetic",       "no folder: pictures generated from the seed",
    synthetic_matches, synthetic_open,
    synthetic_read,    synthetic_close};
