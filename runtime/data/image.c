// image.c: PNG files in and out, through libpng.
//
// Any colour type, bit depth and interlacing becomes 8-bit RGB; alpha is dropped, as PIL's
// convert("RGB") does.
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>

#include "data/data.h"

enum { MaxSide = 32768 };
static const size_t kMaxPixels = (size_t)1 << 28;

// libpng reports errors by longjmp: state that must survive that is here, not in locals.
typedef struct Reader {
  const char *path;
  FileView view;
  size_t at;
  png_structp png;
  png_infop info;
  Image *image;
  png_bytep *rows;
  bool palette; // pixels are places in one
  char why[256];
} Reader;

static void on_error(png_structp png, png_const_charp why) {
  Reader *reader = png_get_error_ptr(png);
  snprintf(reader->why, sizeof reader->why, "%s", why);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp why) {
  (void)png, (void)why;
}

static void on_read(png_structp png, png_bytep bytes, size_t count) {
  Reader *reader = png_get_io_ptr(png);
  if (count > reader->view.size - reader->at) png_error(png, "the file is truncated");
  memcpy(bytes, reader->view.bytes + reader->at, count);
  reader->at += count;
}

// The size of the picture.
static void read_header(Reader *reader) {
  png_set_user_limits(reader->png, MaxSide, MaxSide);
  png_set_read_fn(reader->png, reader, on_read);
  png_read_info(reader->png, reader->info);
  size_t width = png_get_image_width(reader->png, reader->info);
  size_t height = png_get_image_height(reader->png, reader->info);
  if (width * height > kMaxPixels) png_error(reader->png, "more than 2^28 pixels");
  reader->image->width = (int)width;
  reader->image->height = (int)height;
}

// Makes libpng convert any pixel format to 8-bit RGB; palette pixels stay indices of one byte.
static void ask_for_rgb(Reader *reader) {
  png_structp png = reader->png;
  png_byte color = png_get_color_type(png, reader->info);
  reader->palette = color == PNG_COLOR_TYPE_PALETTE;
  if (reader->palette)
    png_set_packing(png);
  else
    png_set_expand(png);
  png_set_scale_16(png);
  if (!(color & PNG_COLOR_MASK_COLOR)) png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  png_read_update_info(png, reader->info);
}

static void allocate(Reader *reader) {
  size_t width = (size_t)reader->image->width, height = (size_t)reader->image->height;
  size_t bytes = reader->palette ? 1 : 3; // of a pixel, as it is read: to the end of its row
  if (png_get_rowbytes(reader->png, reader->info) != bytes * width)
    png_error(reader->png, "an unknown pixel format");
  reader->image->rgb = heap_alloc(width * height, 3);
  reader->rows = heap_alloc(height, sizeof *reader->rows);
  if (!reader->image->rgb || !reader->rows) png_error(reader->png, "out of memory");
  for (size_t y = 0; y < height; y++)
    reader->rows[y] = reader->image->rgb + width * (3 * (y + 1) - bytes);
}

// Replaces palette indices by colours, row by row, in place. libpng would read indices beyond the
// palette as black.
static void look_up(Reader *reader) {
  png_colorp colors = NULL;
  int count = 0;
  size_t width = (size_t)reader->image->width, height = (size_t)reader->image->height;
  png_get_PLTE(reader->png, reader->info, &colors, &count);
  for (size_t y = 0; y < height; y++) {
    uint8_t *rgb = reader->image->rgb + 3 * width * y;
    for (size_t x = 0; x < width; x++) {
      int place = reader->rows[y][x];
      if (place >= count) png_error(reader->png, "pixels name colours beyond its palette");
      rgb[3 * x] = colors[place].red;
      rgb[3 * x + 1] = colors[place].green;
      rgb[3 * x + 2] = colors[place].blue;
    }
  }
}

static bool decode(Reader *reader) {
  if (setjmp(png_jmpbuf(reader->png))) return false;
  read_header(reader);
  ask_for_rgb(reader);
  allocate(reader);
  png_read_image(reader->png, reader->rows);
  png_read_end(reader->png, NULL);
  if (reader->palette) look_up(reader);
  return true;
}

// ---- is the file whole? ------------------------------------------------------------------------

static size_t number(const uint8_t *bytes) { // of 4 bytes, the largest first
  return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

enum { Signature = 8, AroundData = 12 }; // bytes; around a chunk's: its length, type, checksum

// True if the file reaches the end of its last chunk, IEND. That is usually the end of the file, so
// its last bytes are checked first, without walking the chunks.
static bool is_whole(const FileView *view) {
  const uint8_t *bytes = view->bytes;
  size_t at = view->size - AroundData;
  if (view->size >= Signature + AroundData && !number(bytes + at) &&
      !memcmp(bytes + at + 4, "IEND", 4))
    return true;
  for (at = Signature; at + AroundData <= view->size; at += number(bytes + at) + AroundData)
    if (!memcmp(bytes + at + 4, "IEND", 4)) return true;
  return false;
}

// The first chunk with a wrong checksum among the critical ones (type begins with a capital
// letter), or NULL. The file is complete.
static const uint8_t *find_damaged(const FileView *view) {
  const uint8_t *bytes = view->bytes;
  for (size_t at = Signature; at + AroundData <= view->size;) {
    const uint8_t *type = bytes + at + 4;
    size_t length = number(bytes + at), room = view->size - at - AroundData;
    bool needed = !(type[0] & 32), end = !memcmp(type, "IEND", 4);
    if (length > room) return type;
    if (needed && crc32(0, type, (uInt)(4 + length)) != number(type + 4 + length)) return type;
    if (end) break;
    at += length + AroundData;
  }
  return NULL;
}

// Checksums take 1 us per KB of a file that is in memory once its header was read. A file longer
// than the system's read-ahead takes longer, and is checked when it is read.
static bool check(Reader *reader) {
  static const size_t kMostSummed = (size_t)128 << 10;
  if (setjmp(png_jmpbuf(reader->png))) return false;
  read_header(reader);
  if (!is_whole(&reader->view)) png_error(reader->png, "the file is truncated");
  if (reader->view.size > kMostSummed || !find_damaged(&reader->view)) return true;
  png_error(reader->png, "the bytes of a chunk do not match its checksum");
}

// ---- reading -----------------------------------------------------------------------------------

static int read_view(Reader *reader, bool (*read_png)(Reader *reader), Error *err) {
  if (reader->view.size < 8 || png_sig_cmp(reader->view.bytes, 0, 8))
    return err_set(err, ExitBadInput,
                   "image '%s': is not a PNG; convert it, for example with "
                   "`convert in.jpg out.png`",
                   reader->path);
  reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, on_error, on_warning);
  if (reader->png) reader->info = png_create_info_struct(reader->png);
  bool read = reader->info && read_png(reader);
  png_destroy_read_struct(&reader->png, &reader->info, NULL);
  free(reader->rows);
  if (read) return ExitOk;
  return err_set(err, ExitBadInput, "image '%s': broken PNG: %s", reader->path,
                 reader->why[0] ? reader->why : "out of memory");
}

int image_read(const char *path, Image *image, Error *err) {
  Reader reader = {.path = path, .image = image};
  *image = (Image){0};
  int rc = file_view("image", path, &reader.view, err);
  if (!rc) rc = read_view(&reader, decode, err);
  file_unview(&reader.view);
  if (rc) image_free(image);
  return rc;
}

int image_check(const char *path, Image *size, Error *err) {
  Reader reader = {.path = path, .image = size};
  *size = (Image){0};
  int rc = file_view("image", path, &reader.view, err);
  if (!rc) rc = read_view(&reader, check, err);
  file_unview(&reader.view);
  return rc;
}

void image_free(Image *image) {
  free(image->rgb);
  *image = (Image){0};
}

int image_write(const char *path, const Image *image, Error *err) {
  png_image png = {.version = PNG_IMAGE_VERSION,
                   .width = (png_uint_32)image->width,
                   .height = (png_uint_32)image->height,
                   .format = PNG_FORMAT_RGB};
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  void *bytes = heap_alloc(size, 1);
  if (!bytes) return heap_error(err, "writing an image");
  FileWriter writer;
  int rc = ExitOk;
  if (!png_image_write_to_memory(&png, bytes, &size, 0, image->rgb, 0, NULL))
    rc = err_set(err, ExitBadInput, "image '%s': cannot be written: %s", path, png.message);
  if (!rc) rc = file_begin("image", path, &writer, err);
  if (!rc) rc = file_write(&writer, bytes, size, err);
  if (!rc) rc = file_commit(&writer, err);
  free(bytes);
  return rc;
}
