// test_data.c: npy, PNG, the image transform, labels and the test picture.
#include <math.h>
#include <png.h>
#include <zlib.h>

#include "runtime/support.h"

// ---- npy ---------------------------------------------------------------------------------------

static const char *make_npy(int version, const char *dict, const void *data, size_t size) {
  static char bytes[1024];
  const char *path = temp_path("a.npy");
  size_t length = strlen(dict), begin = version == 1 ? 10 : 12;
  memcpy(bytes, "\x93NUMPY", 6);
  bytes[6] = (char)version, bytes[7] = 0;
  bytes[8] = (char)length, bytes[9] = (char)(length >> 8), bytes[10] = bytes[11] = 0;
  memcpy(bytes + begin, dict, length);
  memcpy(bytes + begin + length, data, size);
  write_bytes(path, bytes, begin + length + size);
  return path;
}

static void npy_round_trip(void **state) {
  (void)state;
  const char *path = temp_path("b.npy");
  const float values[6] = {1, -2, 3.5f, 4, 5, -0.f};
  const int64_t shapes[3][2] = {{2, 3}, {6}, {0}};
  for (int rank = 1; rank <= 2; rank++) {
    Error err = {0};
    Npy npy;
    size_t size;
    assert_int_equal(npy_write(path, values, rank, shapes[2 - rank], &err), ExitOk);
    assert_int_equal(npy_read(path, &npy, &err), ExitOk);
    assert_int_equal(npy.rank, rank);
    assert_memory_equal(npy.values, values, sizeof values);
    npy_free(&npy);
    free(read_bytes(path, &size));
    assert_int_equal(size, 256 + sizeof values);
  }
}

static void npy_reads_kinds(void **state) {
  (void)state;
  const double wide[2] = {1.5, -3};
  const float columns[6] = {1, 2, 3, 4, 5, 6}; // of a 2 x 3 array, column by column
  Error err = {0};
  Npy npy;
  const char *path =
      make_npy(2, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}\n", wide, 16);
  assert_int_equal(npy_read(path, &npy, &err), ExitOk);
  assert_true(npy.count == 2 && npy.values[0] == 1.5f && npy.values[1] == -3);
  npy_free(&npy);
  path = make_npy(3, "{'shape': (2, 3), 'fortran_order': True, 'descr': '<f4'}", columns, 24);
  assert_int_equal(npy_read(path, &npy, &err), ExitOk);
  assert_true(npy.values[0] == 1 && npy.values[1] == 3 && npy.values[3] == 2);
  npy_free(&npy);
  path = make_npy(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "\7", 1);
  assert_int_equal(npy_read(path, &npy, &err), ExitOk);
  assert_true(npy.rank == 0 && npy.count == 1 && npy.values[0] == 7);
  npy_free(&npy);
}

static void npy_refuses(void **state) {
  (void)state;
#define DICT "the header is not {'descr': ..., 'fortran_order': ..., 'shape': ...}"
  static const char *const bad[][2] = {
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2,)}",
       "dtype '|O' is not supported; save it as float32, integers as int32"},
      {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}",
       "dtype '>f4' is not supported; save it as float32, integers as int32"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", DICT},
      {"{'descr': '<f4', 'fortran_order': False}", DICT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'shape': (2,)}", DICT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", DICT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", DICT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", DICT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", DICT},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
       "8 bytes of data, its shape needs -1"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
       "8 bytes of data, its shape needs 12"},
  };
  for (int i = 0; i < COUNT(bad); i++) {
    Error err = {0};
    Npy npy;
    char message[600];
    const char *path = make_npy(1, bad[i][0], "12345678", 8);
    assert_int_equal(npy_read(path, &npy, &err), ExitBadInput);
    snprintf(message, sizeof message, "npy '%s': %s", path, bad[i][1]);
    assert_string_equal(err.message, message);
  }
}

// Reads damaged copies of a file with `reader`, which must refuse them or stay in bounds.
static void damage(const char *path, int rounds, void (*reader)(const char *path, bool cut)) {
  size_t size;
  char *bytes = read_bytes(path, &size);
  const char *copy = temp_path("damaged");
  for (int round = 0; round < rounds; round++) {
    size_t at = random_next() % size;
    char before = bytes[at];
    bool cut = round % 2;
    if (!cut) bytes[at] = (char)random_next();
    write_bytes(copy, bytes, cut ? at : size);
    reader(copy, cut);
    bytes[at] = before;
  }
  free(bytes);
}

static void read_npy(const char *path, bool cut) {
  Error err = {0};
  Npy npy;
  int rc = npy_read(path, &npy, &err);
  assert_true(rc == ExitBadInput || (rc == ExitOk && !cut));
  npy_free(&npy);
}

static void npy_damaged(void **state) {
  (void)state;
  const float values[6] = {1, 2, 3, 4, 5, 6};
  Error err = {0};
  random_seed("npy damaged");
  const char *path = temp_path("c.npy");
  assert_int_equal(npy_write(path, values, 2, (int64_t[]){2, 3}, &err), ExitOk);
  damage(path, 1500, read_npy);
}

// ---- images ------------------------------------------------------------------------------------

static Image pattern(int width, int height) {
  Image image = {width, height, malloc((size_t)(width * height * 3))};
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < 3; c++)
        image.rgb[(y * width + x) * 3 + c] = (uint8_t)((x * 7 + y * 13 + c * 50) ^ (x * y + c));
  return image;
}

static void png_round_trip(void **state) {
  (void)state;
  const char *path = temp_path("a.png");
  Error err = {0};
  Image image = pattern(37, 21), again;
  assert_int_equal(image_write(path, &image, &err), ExitOk);
  assert_int_equal(image_read(path, &again, &err), ExitOk);
  assert_true(again.width == 37 && again.height == 21);
  assert_memory_equal(image.rgb, again.rgb, 37 * 21 * 3);
  image_free(&image), image_free(&again);
}

static void quiet_png(png_structp png, png_const_charp why) {
  (void)png, (void)why;
}

// Writes a 16 x 16 PNG of one kind whose every sample is the byte pattern 0x55 or index 1.
static void write_kind(const char *path, int color, int depth, int interlace) {
  FILE *file = fopen(path, "wb");
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = png_create_info_struct(png);
  png_color palette[2] = {{0, 0, 0}, {0x55, 0x55, 0x55}};
  png_byte row[128];
  memset(row, color == PNG_COLOR_TYPE_PALETTE ? (depth == 1 ? 0xff : 1) : 0x55, sizeof row);
  png_init_io(png, file);
  png_set_IHDR(png, info, 16, 16, depth, color, interlace, 0, 0);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 2);
  png_write_info(png, info);
  int passes = png_set_interlace_handling(png);
  for (int i = 0; i < passes * 16; i++) png_write_row(png, row);
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
  fclose(file);
}

static void png_kinds(void **state) {
  (void)state;
  static const int kinds[][2] = {
      {PNG_COLOR_TYPE_GRAY, 2},       {PNG_COLOR_TYPE_GRAY, 4},
      {PNG_COLOR_TYPE_GRAY, 8},       {PNG_COLOR_TYPE_GRAY, 16},
      {PNG_COLOR_TYPE_RGB, 8},        {PNG_COLOR_TYPE_RGB, 16},
      {PNG_COLOR_TYPE_RGB_ALPHA, 8},  {PNG_COLOR_TYPE_RGB_ALPHA, 16},
      {PNG_COLOR_TYPE_GRAY_ALPHA, 8}, {PNG_COLOR_TYPE_GRAY_ALPHA, 16},
      {PNG_COLOR_TYPE_PALETTE, 8},    {PNG_COLOR_TYPE_PALETTE, 1},
  };
  const char *path = temp_path("k.png");
  for (int i = 0; i < 2 * COUNT(kinds); i++) {
    Error err = {0};
    Image image;
    write_kind(path, kinds[i / 2][0], kinds[i / 2][1],
               i % 2 ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE);
    assert_int_equal(image_read(path, &image, &err), ExitOk);
    assert_true(image.width == 16 && image.height == 16);
    for (int k = 0; k < 16 * 16 * 3; k++) assert_int_equal(image.rgb[k], 0x55);
    image_free(&image);
  }
}

// 16 x 16 pixels, each a place among five colours: the file has these, or but four.
static void write_palette(const char *path, int depth, int count) {
  FILE *file = fopen(path, "wb");
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, quiet_png);
  png_infop info = png_create_info_struct(png);
  png_color palette[5];
  png_byte row[16];
  for (int i = 0; i < 5; i++)
    palette[i] = (png_color){(png_byte)i, (png_byte)(10 + i), (png_byte)(20 + i)};
  png_init_io(png, file);
  png_set_IHDR(png, info, 16, 16, depth, PNG_COLOR_TYPE_PALETTE, 0, 0, 0);
  png_set_PLTE(png, info, palette, count);
  png_write_info(png, info);
  png_set_packing(png);
  for (int y = 0; y < 16; y++) {
    for (int x = 0; x < 16; x++) row[x] = (png_byte)((x + y) % 5);
    png_write_row(png, row);
  }
  png_write_end(png, NULL);
  png_destroy_write_struct(&png, &info);
  fclose(file);
}

static void png_palettes(void **state) {
  (void)state;
  const char *path = temp_path("p.png");
  char message[400];
  for (int depth = 4; depth <= 8; depth += 4) {
    Error err = {0};
    Image image;
    write_palette(path, depth, 5);
    assert_int_equal(image_read(path, &image, &err), ExitOk);
    for (int i = 0; i < 16 * 16 * 3; i++)
      assert_int_equal(image.rgb[i], (i / 3 % 16 + i / 48) % 5 + i % 3 * 10);
    image_free(&image);
    write_palette(path, depth, 4);
    assert_int_equal(image_read(path, &image, &err), ExitBadInput);
    snprintf(message, sizeof message,
             "image '%s': broken PNG: pixels name colours beyond its palette", path);
    assert_string_equal(err.message, message);
  }
}

static void read_png(const char *path, bool cut) {
  (void)cut; // libpng forgives a missing IEND checksum
  Error err = {0};
  Image image;
  int rc = image_read(path, &image, &err);
  assert_true(rc == ExitOk || (rc == ExitBadInput && strstr(err.message, "PNG")));
  image_free(&image);
}

static void png_damaged(void **state) {
  (void)state;
  const char *path = temp_path("d.png");
  Error err = {0};
  Image image = pattern(9, 8);
  random_seed("png damaged");
  assert_int_equal(image_write(path, &image, &err), ExitOk);
  damage(path, 1000, read_png);
  write_kind(path, PNG_COLOR_TYPE_PALETTE, 1, PNG_INTERLACE_ADAM7);
  damage(path, 700, read_png);
  image_free(&image);
}

static void png_messages(void **state) {
  (void)state;
  const char *path = temp_path("m.png");
  char message[400];
  Error err = {0};
  Image image;
  size_t size;
  write_bytes(path, "\xff\xd8\xff\xe0 a JPEG", 11);
  assert_int_equal(image_read(path, &image, &err), ExitBadInput);
  snprintf(message, sizeof message,
           "image '%s': is not a PNG; convert it, for example with "
           "`convert in.jpg out.png`",
           path);
  assert_string_equal(err.message, message);
  write_kind(path, PNG_COLOR_TYPE_RGB, 8, 0);
  char *bytes = read_bytes(path, &size);
  write_bytes(path, bytes, 40);
  assert_int_equal(image_read(path, &image, &err), ExitBadInput);
  snprintf(message, sizeof message, "image '%s': broken PNG: the file is truncated", path);
  assert_string_equal(err.message, message);
  free(bytes);
}

// Checksums of what PIL 13.0 makes of the same pattern with Image.resize(size, BILINEAR).
static void resize_is_pil(void **state) {
  (void)state;
  static const struct {
    int width, height, to_width, to_height;
    uint32_t crc;
  } cases[] = {
      {37, 53, 20, 31, 0x0108b07e},     {500, 375, 341, 256, 0x4f074dc2},
      {40, 30, 97, 64, 0xaec88aac},     {300, 10, 10, 300, 0x31cb3f41},
      {256, 256, 256, 256, 0xe751f154},
  };
  for (int i = 0; i < COUNT(cases); i++) {
    Error err = {0};
    Image image = pattern(cases[i].width, cases[i].height), out;
    assert_int_equal(resize_image(&image, cases[i].to_width, cases[i].to_height, &out, &err),
                     ExitOk);
    uLong crc = crc32(0, out.rgb, (uInt)(out.width * out.height * 3));
    assert_int_equal(crc, cases[i].crc);
    image_free(&image), image_free(&out);
  }
}

static void transform(void **state) {
  (void)state;
  Error err = {0};
  float *chw = malloc(sizeof(float) * 3 * 224 * 224);
  Image image = {500, 375, malloc(500 * 375 * 3)};
  for (int i = 0; i < 500 * 375; i++) memcpy(image.rgb + 3 * i, "\x10\x80\xff", 3);
  assert_int_equal(image_transform(&image, NULL, chw, &err), ExitOk);
  assert_true(fabsf(chw[0] - (16 / 255.f - .485f) / .229f) < 1e-6f);
  assert_true(fabsf(chw[224 * 224 + 5] - (128 / 255.f - .456f) / .224f) < 1e-6f);
  assert_true(fabsf(chw[3 * 224 * 224 - 1] - (1 - .406f) / .225f) < 1e-6f);
  assert_int_equal(image_transform(&image, &(ImageTransform){.resize = 100}, chw, &err),
                   ExitBadInput);
  assert_string_equal(err.message, "image: cannot crop 224 from a short side of 100");
  free(chw), image_free(&image);
}

static void photo_is_a_picture(void **state) {
  (void)state;
  Error err = {0};
  Image image;
  long histogram[256] = {0};
  double step = 0, mean = 0;
  assert_int_equal(photo_make(500, 375, 1, &image, &err), ExitOk);
  for (int i = 0; i < 500 * 375 * 3; i++) histogram[image.rgb[i]]++, mean += image.rgb[i];
  for (int i = 3; i < 500 * 375 * 3; i++) step += abs(image.rgb[i] - image.rgb[i - 3]);
  mean /= 500 * 375 * 3, step /= 500 * 375 * 3;
  int used = 0;
  for (int i = 0; i < 256; i++) used += histogram[i] > 100;
  assert_true(used > 200 && mean > 80 && mean < 180); // the whole range, neither dark nor burnt
  assert_true(step > 1 && step < 20);                 // neighbours are alike, yet not the same
  assert_int_equal(crc32(0, image.rgb, 500 * 375 * 3), 0xe7a31e39);
  image_free(&image);
}

// ---- labels ------------------------------------------------------------------------------------

static void labels(void **state) {
  (void)state;
  const char *path = temp_path("l.txt");
  char message[300];
  Error err = {0};
  Labels names;
  write_bytes(path, "cat\r\ntiger cat\n\nchat \xc3\xa9", 23);
  assert_int_equal(labels_read(path, &names, &err), ExitOk);
  assert_int_equal(names.count, 4);
  assert_string_equal(names.names[1], "tiger cat");
  assert_string_equal(names.names[2], "");
  assert_string_equal(names.names[3], "chat \xc3\xa9");
  labels_free(&names);
  write_bytes(path, "cat\n\x1b[2J\n", 9);
  assert_int_equal(labels_read(path, &names, &err), ExitBadInput);
  snprintf(message, sizeof message, "labels '%s', line 2: control characters", path);
  assert_string_equal(err.message, message);
  write_bytes(path, "", 0);
  assert_int_equal(labels_read(path, &names, &err), ExitBadInput);
  snprintf(message, sizeof message, "labels '%s': is empty", path);
  assert_string_equal(err.message, message);
}

static void top(void **state) {
  (void)state;
  const float scores[] = {1, NAN, 5, 3, 5, -1};
  int indices[8];
  assert_int_equal(labels_top(scores, 6, 4, indices), 4);
  assert_true(indices[0] == 2 && indices[1] == 4 && indices[2] == 3 && indices[3] == 0);
  assert_int_equal(labels_top(scores, 6, 8, indices), 6);
  assert_true(indices[4] == 5 && indices[5] == 1);
}

// ---- no memory ---------------------------------------------------------------------------------

// Calls `use` with the n-th allocation failing, until none fails; each failure must be reported.
static void starve(int (*use)(Error *err), int least) {
  int rc = ExitNoDevice, n = 0;
  for (; rc; n++) {
    Error err = {0};
    heap_fail_after(n);
    rc = use(&err);
    heap_fail_after(-1);
    if (rc && !strstr(err.message, "out of ")) fail_msg("%d: %s", n, err.message);
  }
  assert_true(n > least);
}

static int use_npy(Error *err) {
  Npy npy;
  int rc = npy_read(temp_path("o.npy"), &npy, err);
  if (!rc) npy_free(&npy);
  return rc;
}

static int use_image(Error *err) {
  static float chw[3 * 8 * 8];
  Image image;
  int rc = image_read(temp_path("o.png"), &image, err);
  if (rc) return rc;
  rc = image_transform(&image, &(ImageTransform){.resize = 10, .crop = 8}, chw, err);
  if (!rc) rc = image_write(temp_path("o2.png"), &image, err);
  image_free(&image);
  return rc;
}

static int use_labels(Error *err) {
  Labels names;
  int rc = labels_read(temp_path("o.txt"), &names, err);
  if (!rc) labels_free(&names);
  return rc;
}

static int use_photo(Error *err) {
  Image image;
  int rc = photo_make(20, 15, 1, &image, err);
  if (!rc) image_free(&image);
  return rc;
}

static void no_memory(void **state) {
  (void)state;
  Error err = {0};
  Image image = pattern(17, 13);
  const float columns[6] = {1, 2, 3, 4, 5, 6};
  const char *npy =
      make_npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", columns, 24);
  assert_int_equal(rename(npy, temp_path("o.npy")), 0);
  assert_int_equal(image_write(temp_path("o.png"), &image, &err), ExitOk);
  write_bytes(temp_path("o.txt"), "cat\ndog\n", 8);
  image_free(&image);
  starve(use_npy, 1);
  starve(use_image, 8);
  starve(use_labels, 3);
  starve(use_photo, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(npy_round_trip),
      cmocka_unit_test(npy_reads_kinds),
      cmocka_unit_test(npy_refuses),
      cmocka_unit_test(npy_damaged),
      cmocka_unit_test(png_round_trip),
      cmocka_unit_test(png_kinds),
      cmocka_unit_test(png_palettes),
      cmocka_unit_test(png_damaged),
      cmocka_unit_test(png_messages),
      cmocka_unit_test(resize_is_pil),
      cmocka_unit_test(transform),
      cmocka_unit_test(photo_is_a_picture),
      cmocka_unit_test(labels),
      cmocka_unit_test(top),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, temp_clean);
}
