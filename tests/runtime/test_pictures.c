// test_pictures.c: data sets of PNG folders and of made-up pictures; grids of pictures.
#include <arpa/inet.h>
#include <math.h>
#include <zlib.h>

#include "runtime/dataset.h"

// ---- PNG folders -------------------------------------------------------------------------------

// A picture whose pixel (x, y) is x + shade, y, shade.
static void write_png(const char *name, int width, int height, int shade) {
  Error err = {0};
  uint8_t *at = malloc((size_t)(width * height * 3));
  Image image = {width, height, at};
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      *at++ = (uint8_t)(x + shade), *at++ = (uint8_t)y, *at++ = (uint8_t)shade;
  assert_int_equal(image_write(temp_path(name), &image, &err), ExitOk);
  image_free(&image);
}

static void make_pngs(void) {
  static const char *const folders[] = {"p",         "p/train",   "p/train/dog", "p/train/cat",
                                        "p/train/B", "p/.hidden", "p/val",       "p/val/dog"};
  for (int i = 0; i < COUNT(folders); i++) make_folder(folders[i]);
  write_png("p/train/cat/1.png", 4, 2, 10), write_png("p/train/cat/2.PNG", 4, 2, 20);
  write_png("p/train/cat/10.png", 4, 2, 30), write_png("p/train/B/x.png", 4, 2, 40);
  write_png("p/train/dog/x.png", 8, 4, 50), write_png("p/val/dog/x.png", 4, 2, 60);
  write_bytes(temp_path("p/train/cat/._1.png"), "x", 1);
  write_bytes(temp_path("p/train/cat/notes.txt"), "x", 1);
  write_bytes(temp_path("p/train/notes.txt"), "x", 1);
}

static void folders(void **state) {
  (void)state;
  static const int labels[5] = {0, 1, 1, 1, 2}, shades[5] = {40, 10, 30, 20, 50};
  Error err = {0};
  uint8_t image[24];
  int32_t label;
  Dataset *train = open_set("p", kTrain), *test = open_set("p", kTest);
  assert_string_equal(dataset_kind(train), "PNG folders");
  assert_true(dataset_classes(train) == 3 && dataset_classes(test) == 3);
  assert_true(dataset_count(train) == 5 && dataset_count(test) == 1);
  assert_string_equal(dataset_class_name(test, 0), "B");
  assert_string_equal(dataset_class_name(test, 2), "dog");
  expect_shape(train, 3, 2, 4);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(dataset_read(train, i, image, &label, &err), ExitOk);
    assert_int_equal(label, labels[i]);
    assert_int_equal(image[16], shades[i]); // blue is the shade, also of the resized one
    for (int p = 0; p < 8 && i < 4; p++)
      assert_true(image[p] == p % 4 + shades[i] && image[8 + p] == p / 4);
  }
  assert_int_equal(dataset_read(test, 0, image, &label, &err), ExitOk);
  assert_true(label == 2 && image[16] == 60);
  dataset_close(train), dataset_close(test);
}

static void folders_fit_the_model(void **state) {
  (void)state;
  Error err = {0};
  uint8_t image[3 * 4 * 8];
  int32_t label;
  Dataset *dataset = open_set("p", (DatasetOptions){.shape = {3, 4, 8}, .classes = 3});
  assert_int_equal(dataset_read(dataset, 4, image, &label, &err), ExitOk); // as it is
  for (int p = 0; p < 32; p++) assert_true(image[p] == p % 8 + 50 && image[32 + p] == p / 8);
  assert_int_equal(dataset_read(dataset, 0, image, &label, &err), ExitOk); // twice as large
  for (int p = 0; p < 32; p++) assert_true(image[p] >= 40 && image[p] <= 43 && image[64 + p] == 40);
  dataset_close(dataset);
  dataset = open_set("p", (DatasetOptions){.shape = {1, 2, 4}}); // grey
  assert_int_equal(dataset_read(dataset, 1, image, &label, &err), ExitOk);
  assert_int_equal(image[7], (13 * 299 + 1 * 587 + 10 * 114 + 500) / 1000);
  dataset_close(dataset);
}

static void folders_refused(void **state) {
  (void)state;
  Error err = {0};
  uint8_t image[24];
  int32_t label;
  make_folder("q"), make_folder("q/test");
  refuse("q", kTrain, "data set", "/q': has no folder train/, whose folders name the classes");
  refuse("q", kTest, "data set", "/q': has no folder train/, whose folders name the classes");
  make_folder("q/train");
  refuse("q", kTrain, "PNG folders", "/q/train': holds no folders, one of PNG files per class");
  make_folder("q/train/one"), make_folder("q/train/two");
  write_png("q/train/one/a.png", 4, 2, 0);
  write_bytes(temp_path("q/train/two/a.jpg"), "x", 1);
  refuse("q", kTrain, "PNG folders", "/q/train/two': holds no PNG files");
  refuse("q", kTest, "data set", "/q': the test set holds no pictures");
  refuse("q", (DatasetOptions){.classes = 1}, "PNG folders", "/q/train/two': holds no PNG files");
  make_folder("q/test/three");
  refuse("q", kTest, "PNG folders", "/q/test/three': train/ has no class of that name");
  write_png("q/train/two/a.png", 4, 2, 0);
  refuse("q", (DatasetOptions){.classes = 1}, "PNG folders",
         "/q/train': 2 classes, the model has 1; give it more classes, or take another data set");
  refuse("q", (DatasetOptions){.shape = {4, 2, 2}}, "data set",
         "/q': PNG files have 3 channels, or 1 if grey; the model expects 4 x 2 x 2");
  Dataset *dataset = open_set("q", kTrain);
  write_bytes(temp_path("q/train/two/a.png"), "x", 1);
  assert_int_equal(dataset_read(dataset, 1, image, &label, &err), ExitBadInput);
  assert_non_null(strstr(err.message, "/q/train/two/a.png': is not a PNG; convert it"));
  dataset_close(dataset);
  refuse("q", kTrain, "image",
         "/q/train/two/a.png': is not a PNG; convert it, for example with `convert in.jpg "
         "out.png`");
  write_bytes(temp_path("q/train/one/a.png"), "\x89PNG\r\n\x1a\n....", 12);
  refuse("q", kTrain, "image", "/q/train/one/a.png': broken PNG: the file is truncated");
  write_png("q/train/one/a.png", 4, 2, 0), write_png("q/train/two/a.png", 4, 2, 0);
  assert_int_equal(truncate(temp_path("q/train/two/a.png"), 60), 0);
  refuse("q", kTrain, "image", "/q/train/two/a.png': broken PNG: the file is truncated");
  assert_int_equal(rmdir(temp_path("q/test/three")) || rmdir(temp_path("q/test")), 0);
  refuse("q", kTest, "data set", "/q': has no folder test/ or val/ for the test set");
  make_folder("q/train/\x1b");
  refuse("q", kTrain, "PNG folders", "/q/train': a folder's name has control characters");
}

// Of what a picture needs every byte counts when the folders are opened, not only when it is read.
static void folders_sum_up(void **state) {
  (void)state;
  enum { End = 12 };
  static const char note[] = "\0\0\0\2teXt.......";
  Error err = {0};
  size_t size;
  make_folder("s"), make_folder("s/train"), make_folder("s/train/one");
  write_png("s/train/one/a.png", 4, 2, 7), write_png("s/train/one/b.png", 4, 2, 7);
  char path[300];
  snprintf(path, sizeof path, "%s", temp_path("s/train/one/b.png"));
  char *bytes = read_bytes(path, &size), *more = malloc(size + sizeof note);
  size_t pixels = (size_t)((char *)memmem(bytes, size, "IDAT", 4) - bytes) - 4;
  for (size_t at = pixels; at < size - End; at++) {
    bytes[at] ^= 0x10;
    write_bytes(path, bytes, size);
    Dataset *dataset = NULL;
    assert_int_equal(dataset_open(temp_path("s"), &kTrain, &dataset, &err), ExitBadInput);
    assert_non_null(strstr(err.message, "s/train/one/b.png': broken PNG: "));
    bytes[at] ^= 0x10;
  }
  memcpy(more, bytes, size - End); // a text whose checksum is wrong, which nobody reads
  memcpy(more + size - End, note, 14);
  memcpy(more + size - End + 14, bytes + size - End, End);
  write_bytes(path, more, size + 14);
  dataset_close(open_set("s", kTrain));
  free(bytes), free(more);
}

// A picture that no memory is given for is none when the folders are opened, either.
static void folders_too_large(void **state) {
  (void)state;
  size_t size;
  make_folder("l"), make_folder("l/train"), make_folder("l/train/one");
  write_png("l/train/one/a.png", 4, 2, 7), write_png("l/train/one/b.png", 4, 2, 7);
  char *bytes = read_bytes(temp_path("l/train/one/b.png"), &size);
  bytes[18] = bytes[22] = 0x50; // 20480 pixels and some, either way
  uint32_t sum = htonl((uint32_t)crc32(0, (const uint8_t *)bytes + 12, 17));
  memcpy(bytes + 29, &sum, 4);
  write_bytes(temp_path("l/train/one/b.png"), bytes, size);
  free(bytes);
  refuse("l", kTrain, "image", "/l/train/one/b.png': broken PNG: more than 2^28 pixels");
}

// ---- synthetic ---------------------------------------------------------------------------------

static Dataset *open_synthetic(DatasetOptions options) {
  Error err = {0};
  Dataset *dataset = NULL;
  if (dataset_open("synthetic", &options, &dataset, &err)) fail_msg("%s", err.message);
  return dataset;
}

static void read_pictures(const Dataset *dataset, int count, uint8_t *images, int32_t *labels) {
  const int64_t *shape = dataset_shape(dataset);
  Error err = {0};
  for (int i = 0; i < count; i++)
    assert_int_equal(
        dataset_read(dataset, i, images + i * shape[0] * shape[1] * shape[2], &labels[i], &err),
        ExitOk);
}

static void synthetic_is_seeded(void **state) {
  (void)state;
  static uint8_t images[5][20][3072];
  int32_t labels[20];
  const DatasetOptions options[5] = {{.seed = 1},
                                     {.seed = 1, .count = 20},
                                     {.seed = 2},
                                     {.seed = 1, .split = DatasetTest},
                                     {.seed = 1, .classes = 4}};
  for (int i = 0; i < 5; i++) {
    Dataset *dataset = open_synthetic(options[i]);
    expect_shape(dataset, 3, 32, 32);
    assert_int_equal(dataset_count(dataset), i == 1 ? 20 : i == 3 ? 512 : 2048);
    assert_int_equal(dataset_classes(dataset), i == 4 ? 4 : 10);
    read_pictures(dataset, 20, images[i][0], labels);
    for (int k = 0; k < 20; k++) assert_int_equal(labels[k], k % (i == 4 ? 4 : 10));
    dataset_close(dataset);
  }
  assert_memory_equal(images[0], images[1], sizeof images[0]);
  for (int k = 0; k < 20; k++) {
    assert_memory_not_equal(images[0][k], images[2][k], 3072);
    assert_memory_not_equal(images[0][k], images[3][k], 3072);
    if (k >= 10) assert_memory_not_equal(images[0][k], images[0][k - 10], 3072);
  }
  assert_memory_equal(images[0][0], images[4][0], 3072); // a pattern: of seed and class alone
}

static void synthetic_fits_the_model(void **state) {
  (void)state;
  static uint8_t images[3 * 5 * 7];
  int32_t labels[3];
  static const int64_t shapes[3][3] = {{1, 5, 7}, {1, 1, 1}, {2, 1, 3}};
  for (int i = 0; i < 3; i++) {
    DatasetOptions options = {.classes = 3, .count = 3};
    memcpy(options.shape, shapes[i], sizeof options.shape);
    Dataset *dataset = open_synthetic(options);
    expect_shape(dataset, shapes[i][0], shapes[i][1], shapes[i][2]);
    read_pictures(dataset, 3, images, labels);
    dataset_close(dataset);
  }
}

// The nearest of the classes' mean pictures: a linear classifier.
static void synthetic_is_learnable(void **state) {
  (void)state;
  enum { Train = 200, Test = 200, Pixels = 3072 };
  static uint8_t images[Train + Test][Pixels];
  static double means[10][Pixels];
  int32_t labels[Train + Test], right = 0;
  Dataset *train = open_synthetic(kTrain), *test = open_synthetic(kTest);
  read_pictures(train, Train, images[0], labels);
  read_pictures(test, Test, images[Train], labels + Train);
  dataset_close(train), dataset_close(test);
  for (int i = 0; i < Train; i++)
    for (int p = 0; p < Pixels; p++) means[labels[i]][p] += images[i][p] * 10. / Train;
  for (int i = Train; i < Train + Test; i++) {
    double nearest = INFINITY;
    int found = -1;
    for (int c = 0; c < 10; c++) {
      double distance = 0;
      for (int p = 0; p < Pixels; p++)
        distance += (images[i][p] - means[c][p]) * (images[i][p] - means[c][p]);
      if (distance < nearest) nearest = distance, found = c;
    }
    right += found == labels[i];
  }
  assert_true(right >= Test * 98 / 100);
}

// ---- grids of pictures -------------------------------------------------------------------------

// The value of channel c at (x, y) of a grid's PNG.
static int at(const Image *image, int x, int y, int c) {
  return image->rgb[(y * image->width + x) * 3 + c];
}

static void grid(void **state) {
  (void)state;
  const char *path = temp_path("g.png");
  uint8_t pictures[2 * 3 * 3 * 2 * 4]; // rows x columns, channels, height, width
  Error err = {0};
  Image image;
  for (size_t i = 0; i < sizeof pictures; i++) pictures[i] = (uint8_t)i;
  for (int channels = 1; channels <= 3; channels += 2) {
    const PictureRow rows[2] = {{pictures, {channels, 2, 4}},
                                {pictures + 3 * channels * 2 * 4, {channels, 2, 4}}};
    assert_int_equal(picture_grid(path, rows, 2, 3, &err), ExitOk);
    assert_int_equal(image_read(path, &image, &err), ExitOk);
    assert_true(image.width == 3 * 4 + 2 * 2 && image.height == 2 * 2 + 2);
    for (int y = 0; y < image.height; y++)
      for (int x = 0; x < image.width; x++)
        for (int c = 0; c < 3; c++) {
          bool gap = x % 6 >= 4 || y % 4 >= 2;
          int picture = y / 4 * 3 + x / 6, plane = picture * channels + (channels == 3 ? c : 0);
          int value = plane * 8 + y % 4 * 4 + x % 6;
          assert_int_equal(at(&image, x, y, c), gap ? 255 : value);
        }
    image_free(&image);
  }
}

// One row in grey, below it one of larger pictures in colour.
static void grid_of_sizes(void **state) {
  (void)state;
  const char *path = temp_path("s.png");
  static const uint8_t small[2 * 1 * 2] = {1, 2, 3, 4}; // two pictures of 1 x 1 x 2
  uint8_t large[2 * 3 * 3 * 4];                         // two of 3 x 3 x 4
  const PictureRow rows[2] = {{small, {1, 1, 2}}, {large, {3, 3, 4}}};
  Error err = {0};
  Image image;
  for (size_t i = 0; i < sizeof large; i++) large[i] = (uint8_t)(100 + i);
  assert_int_equal(picture_grid(path, rows, 2, 2, &err), ExitOk);
  assert_int_equal(image_read(path, &image, &err), ExitOk);
  assert_true(image.width == 4 + 2 + 4 && image.height == 1 + 2 + 3);
  for (int y = 0; y < image.height; y++)
    for (int x = 0; x < image.width; x++)
      for (int c = 0; c < 3; c++) {
        int value = 255, picture = x / 6, column = x % 6;
        if (y == 0 && column < 2) value = 1 + picture * 2 + column;
        if (y >= 3 && column < 4) value = 100 + (picture * 3 + c) * 12 + (y - 3) * 4 + column;
        assert_int_equal(at(&image, x, y, c), value);
      }
  image_free(&image);
}

static void grids_refused(void **state) {
  (void)state;
  static const struct {
    int rows, columns;
    int64_t shape[3];
  } bad[] = {{1, 1, {2, 4, 4}},     {1, 0, {3, 4, 4}}, {1, 1, {3, 0, 4}},
             {1, 1000, {3, 4, 40}}, {2, 1, {3, 32768, 4}}};
  const char *path = temp_path("bad.png");
  char expected[400];
  for (int i = 0; i < COUNT(bad); i++) {
    Error err = {0};
    PictureRow rows[2] = {{(uint8_t[16]){0}, {0}}};
    memcpy(rows[0].shape, bad[i].shape, sizeof rows[0].shape);
    rows[1] = rows[0];
    assert_int_equal(picture_grid(path, rows, bad[i].rows, bad[i].columns, &err), ExitBadInput);
    snprintf(expected, sizeof expected,
             "image '%s': %d pictures of %d x %d x %d in a row: a grid has 1 or 3 channels and at "
             "most 32768 pixels a side",
             path, bad[i].columns, (int)bad[i].shape[0], (int)bad[i].shape[1],
             (int)bad[i].shape[2]);
    assert_string_equal(err.message, expected);
    assert_int_not_equal(access(path, F_OK), 0);
  }
}

// ---- memory ------------------------------------------------------------------------------------

static void no_memory(void **state) {
  (void)state;
  starve_open(temp_path("p")), starve_open("synthetic");
}

static int make(void **state) {
  (void)state;
  make_pngs();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(folders),
      cmocka_unit_test(folders_fit_the_model),
      cmocka_unit_test(folders_refused),
      cmocka_unit_test(folders_sum_up),
      cmocka_unit_test(folders_too_large),
      cmocka_unit_test(synthetic_is_seeded),
      cmocka_unit_test(synthetic_fits_the_model),
      cmocka_unit_test(synthetic_is_learnable),
      cmocka_unit_test(grid),
      cmocka_unit_test(grid_of_sizes),
      cmocka_unit_test(grids_refused),
      cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, make, temp_clean);
}
