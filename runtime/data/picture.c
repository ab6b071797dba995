// picture.c: many small pictures as one PNG, to look at.
#include <string.h>

#include "data/data.h"

enum { Gap = 2, MostSide = 32768, Background = 255 };

// Planes of one picture to its place: `to` is its first pixel, in rows of `width` pixels.
static void paint(const uint8_t *planes, const int64_t shape[3], uint8_t *to, int64_t width) {
  int64_t pixels = shape[1] * shape[2];
  for (int64_t y = 0; y < shape[1]; y++)
    for (int64_t x = 0; x < shape[2]; x++)
      for (int64_t c = 0; c < 3; c++)
        to[(y * width + x) * 3 + c] = planes[(shape[0] == 3 ? c * pixels : 0) + y * shape[2] + x];
}

static int64_t side(int count, int64_t pixels) { // -1: too long
  int64_t length;
  if (count < 1 || pixels < 1 || pixels > MostSide) return -1;
  length = (pixels + Gap) * count - Gap;
  return length > MostSide ? -1 : length;
}

int picture_grid(const char *path, const uint8_t *images, int rows, int columns,
                 const int64_t shape[3], Error *err) {
  int64_t width = side(columns, shape[2]), height = side(rows, shape[1]);
  if ((shape[0] != 1 && shape[0] != 3) || width < 0 || height < 0)
    return err_set(err, ExitBadInput,
                   "image '%s': %d x %d pictures of %lld x %lld x %lld: a grid has 1 or 3 channels "
                   "and at most %d pixels a side",
                   path, rows, columns, (long long)shape[0], (long long)shape[1],
                   (long long)shape[2], MostSide);
  Image grid = {(int)width, (int)height, heap_alloc((size_t)(width * height), 3)};
  if (!grid.rgb) return heap_error(err, "a grid of pictures");
  memset(grid.rgb, Background, (size_t)(width * height) * 3);
  for (int row = 0; row < rows; row++)
    for (int column = 0; column < columns; column++) {
      int64_t top = row * (shape[1] + Gap), left = column * (shape[2] + Gap);
      paint(images, shape, grid.rgb + (top * width + left) * 3, width);
      images += shape[0] * shape[1] * shape[2];
    }
  int rc = image_write(path, &grid, err);
  image_free(&grid);
  return rc;
}
