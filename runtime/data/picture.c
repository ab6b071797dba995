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

static int bad_row(const char *path, const PictureRow *row, int columns, Error *err) {
  return err_set(err, ExitBadInput,
                 "image '%s': %d pictures of %lld x %lld x %lld in a row: a grid has 1 or 3 "
                 "channels and at most %d pixels a side",
                 path, columns, (long long)row->shape[0], (long long)row->shape[1],
                 (long long)row->shape[2], MostSide);
}

// Computes the sizes of the grid and of its columns.
static int measure(const char *path, const PictureRow *rows, int nrows, int columns, Image *grid,
                   int64_t *column, Error *err) {
  int64_t width = 0, height = 0;
  *column = 0;
  for (int i = 0; i < nrows; i++) {
    const int64_t *shape = rows[i].shape;
    bool fits = (shape[0] == 1 || shape[0] == 3) && columns > 0;
    for (int k = 1; k < 3; k++) fits = fits && shape[k] > 0 && shape[k] <= MostSide;
    if (!fits) return bad_row(path, &rows[i], columns, err);
    if (shape[2] > *column) *column = shape[2];
    width = (*column + Gap) * columns - Gap;
    height += shape[1] + (i ? Gap : 0);
    if (width > MostSide || height > MostSide) return bad_row(path, &rows[i], columns, err);
  }
  *grid = (Image){(int)width, (int)height, NULL};
  return ExitOk;
}

int picture_grid(const char *path, const PictureRow *rows, int nrows, int columns, Error *err) {
  Image grid;
  int64_t column, top = 0;
  int code = measure(path, rows, nrows, columns, &grid, &column, err);
  if (code) return code;
  size_t pixels = (size_t)grid.width * (size_t)grid.height;
  grid.rgb = heap_alloc(pixels, 3);
  if (!grid.rgb) return heap_error(err, "a grid of pictures");
  memset(grid.rgb, Background, pixels * 3);
  for (int i = 0; i < nrows; i++) {
    const int64_t *shape = rows[i].shape;
    for (int k = 0; k < columns; k++)
      paint(rows[i].planes + k * shape[0] * shape[1] * shape[2], shape,
            grid.rgb + (top * grid.width + k * (column + Gap)) * 3, grid.width);
    top += shape[1] + Gap;
  }
  code = image_write(path, &grid, err);
  image_free(&grid);
  return code;
}
