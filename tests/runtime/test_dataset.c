// test_dataset.c: CIFAR and arrays read back, and every message about a bad data set.
#include "runtime/dataset.h"

// ---- making data sets --------------------------------------------------------------------------

static uint8_t cifar_pixel(int record, int at) {
  return (uint8_t)(record * 31 + at * 7 + at / 1024);
}

// Records whose label is `label` + their number; a CIFAR-100 record has a coarse label before it.
static void write_cifar(const char *name, int label_bytes, int label, int records, int cut) {
  size_t record = (size_t)label_bytes + 3072;
  uint8_t *bytes = calloc((size_t)records, record);
  for (int i = 0; i < records; i++) {
    uint8_t *at = bytes + (size_t)i * record;
    at[0] = 19;
    at[label_bytes - 1] = (uint8_t)(label + i);
    for (int p = 0; p < 3072; p++) at[label_bytes + p] = cifar_pixel(label + i, p);
  }
  write_bytes(temp_path(name), bytes, (size_t)records * record - (size_t)cut);
  free(bytes);
}

static void write_array(const char *name, Dtype dtype, const void *values, int rank,
                        const int64_t *shape) {
  Error err = {0};
  if (npy_write_stored(temp_path(name), dtype, values, rank, shape, &err))
    fail_msg("%s", err.message);
}

// ---- paths and options -------------------------------------------------------------------------

#define ACCEPTED                                                                                   \
  "; accepted are\n"                                                                               \
  "  synthetic: no folder: pictures generated from the seed\n"                                       \
  "  CIFAR-10: the binary version: data_batch_1.bin to data_batch_5.bin, test_batch.bin\n"         \
  "  CIFAR-100: the binary version: train.bin, test.bin\n"                                         \
  "  npy: train_images.npy, train_labels.npy, test_images.npy, test_labels.npy\n"                  \
  "  PNG folders: train/CLASS/*.png, test/CLASS/*.png (or val/)"

static void unknown_folders(void **state) {
  (void)state;
  char longest[5000] = "/";
  Error err = {0};
  Dataset *dataset;
  make_folder("empty"), make_folder("other");
  write_bytes(temp_path("other/notes"), "x", 1);
  refuse("empty", kTrain, "data set", "/empty': is an empty folder" ACCEPTED);
  refuse("other", kTrain, "data set", "/other': is a folder of no known format" ACCEPTED);
  refuse("other/notes", kTrain, "data set", "/other/notes': is a file, not a folder" ACCEPTED);
  refuse("none", kTrain, "data set", "/none': No such file or directory" ACCEPTED);
  memset(longest + 1, 'x', sizeof longest - 2);
  assert_int_equal(dataset_open(longest, &kTrain, &dataset, &err), ExitBadInput);
  assert_non_null(strstr(err.message, "': File name too long" ACCEPTED));
}

static void options_are_checked(void **state) {
  (void)state;
  Error err = {0};
  Dataset *dataset;
  DatasetOptions flat = {.shape = {3, 32, 0}}, huge = {.shape = {3, 1 << 20, 1 << 20}};
  assert_int_equal(dataset_open("synthetic", &flat, &dataset, &err), ExitBadInput);
  assert_string_equal(err.message, "data set 'synthetic': the model's input 3 x 32 x 0 is not a "
                                   "picture (channels, height, width)");
  assert_int_equal(dataset_open("synthetic", &huge, &dataset, &err), ExitBadInput);
  assert_int_equal(dataset_open("synthetic", &(DatasetOptions){.classes = -1}, &dataset, &err),
                   ExitUsage);
  assert_string_equal(err.message,
                      "data set 'synthetic': a negative number of classes or pictures");
}

// ---- CIFAR -------------------------------------------------------------------------------------

static void make_cifar(void) {
  char name[64];
  make_folder("c"), make_folder("c/cifar-10-batches-bin");
  for (int i = 0; i < 5; i++) { // 1, 2, .. 5 records; labels go on from file to file below 10
    snprintf(name, sizeof name, "c/cifar-10-batches-bin/data_batch_%d.bin", i + 1);
    write_cifar(name, 1, i, i + 1, 0);
  }
  write_cifar("c/cifar-10-batches-bin/test_batch.bin", 1, 7, 3, 0);
  write_bytes(temp_path("c/cifar-10-batches-bin/batches.meta.txt"), "airplane\nauto\n\n", 15);
  make_folder("h");
  write_cifar("h/train.bin", 2, 90, 10, 0);
  write_cifar("h/test.bin", 2, 0, 2, 0);
}

static void expect_cifar(const Dataset *dataset, int64_t index, int number) {
  uint8_t image[3072];
  int32_t label = -1;
  Error err = {0};
  assert_int_equal(dataset_read(dataset, index, image, &label, &err), ExitOk);
  assert_int_equal(label, number);
  for (int p = 0; p < 3072; p++) assert_int_equal(image[p], cifar_pixel(number, p));
}

static void cifar(void **state) {
  (void)state;
  Error err = {0};
  uint8_t image[3072];
  int32_t label;
  Dataset *parent = open_set("c", kTrain), *itself = open_set("c/cifar-10-batches-bin", kTest);
  assert_string_equal(dataset_kind(parent), "CIFAR-10");
  assert_int_equal(dataset_count(parent), 15);
  assert_int_equal(dataset_classes(parent), 10);
  expect_shape(parent, 3, 32, 32);
  for (int file = 0, index = 0; file < 5; file++)
    for (int i = 0; i <= file; i++) expect_cifar(parent, index++, file + i);
  assert_string_equal(dataset_class_name(parent, 1), "auto");
  assert_null(dataset_class_name(parent, 2)); // an empty line
  assert_null(dataset_class_name(parent, -1));
  assert_null(dataset_class_name(parent, 10));
  assert_int_equal(dataset_count(itself), 3);
  expect_cifar(itself, 2, 9);
  assert_int_equal(dataset_read(itself, 3, image, &label, &err), ExitBadInput);
  char message[300];
  snprintf(message, sizeof message, "data set '%s': picture 3 of 3",
           temp_path("c/cifar-10-batches-bin"));
  assert_string_equal(err.message, message);
  dataset_close(parent), dataset_close(itself);
}

static void cifar_of_a_hundred(void **state) {
  (void)state;
  Dataset *dataset = open_set("h", (DatasetOptions){.classes = 100, .shape = {3, 32, 32}});
  assert_string_equal(dataset_kind(dataset), "CIFAR-100");
  assert_int_equal(dataset_count(dataset), 10);
  assert_int_equal(dataset_classes(dataset), 100);
  for (int i = 0; i < 10; i++) expect_cifar(dataset, i, 90 + i);
  assert_null(dataset_class_name(dataset, 0));
  dataset_close(dataset);
}

static void cifar_refused(void **state) {
  (void)state;
  make_folder("d"), make_folder("two"), make_folder("two/cifar-10-batches-bin");
  write_cifar("d/data_batch_1.bin", 1, 0, 2, 0);
  write_cifar("d/data_batch_2.bin", 1, 8, 2, 0);
  refuse("d", kTrain, "CIFAR-10",
         "/d': 'data_batch_3.bin' of the training set is missing; unpack the archive again");
  refuse("d", kTest, "CIFAR-10",
         "/d': 'test_batch.bin' of the test set is missing; unpack the archive again");
  write_cifar("d/data_batch_2.bin", 1, 9, 2, 0);
  refuse("d", kTrain, "CIFAR-10",
         "/d/data_batch_2.bin', record 1: label 10, expected 0 to 9; is the file "
         "damaged?");
  write_cifar("d/data_batch_1.bin", 1, 0, 2, 100);
  refuse("d", kTrain, "CIFAR-10",
         "/d/data_batch_1.bin': 6046 bytes, not a multiple of a record's 3073; is it truncated, or "
         "not the binary version? Download it again");
  write_bytes(temp_path("d/data_batch_1.bin"), "", 0);
  refuse("d", kTrain, "CIFAR-10",
         "/d/data_batch_1.bin': 0 bytes, not a multiple of a record's 3073; is it truncated, or "
         "not the binary version? Download it again");
  make_folder("e");
  write_cifar("e/train.bin", 2, 0, 2, 0);
  size_t size;
  char *bytes = read_bytes(temp_path("e/train.bin"), &size);
  bytes[3074] = 20;
  write_bytes(temp_path("e/train.bin"), bytes, size);
  free(bytes);
  refuse("e", kTrain, "CIFAR-100",
         "/e/train.bin', record 1: coarse label 20, expected 0 to 19; is the file damaged?");
  refuse("h", (DatasetOptions){.classes = 95}, "CIFAR-100",
         "/h/train.bin', record 5: label 95, the model has 95 classes; give it more classes, or "
         "take another data set");
  refuse("h", (DatasetOptions){.shape = {1, 28, 28}}, "data set",
         "/h': its pictures are 3 x 32 x 32 (channels, height, width), the model expects 1 x 28 x "
         "28; change the model's input, or convert the pictures");
  write_cifar("two/test.bin", 2, 0, 1, 0);
  write_cifar("two/cifar-10-batches-bin/test_batch.bin", 1, 0, 1, 0);
  refuse("two", kTest, "data set",
         "/two': holds both CIFAR-10 and CIFAR-100; give the folder of one of them");
  make_folder("d/test_batch.bin");
  refuse("d", kTest, "CIFAR-10", "/d/test_batch.bin': is not a regular file");
  write_bytes(temp_path("h/fine_label_names.txt"), "\x1b[2J\n", 5);
  refuse("h", kTrain, "labels", "/h/fine_label_names.txt', line 1: control characters");
}

// ---- npy ---------------------------------------------------------------------------------------

static const uint8_t kImages[24] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                    12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 255};

static void arrays(void **state) {
  (void)state;
  Error err = {0};
  uint8_t image[12];
  int32_t label;
  make_folder("n");
  write_array("n/train_images.npy", DtU8, kImages, 4, (int64_t[]){2, 3, 2, 2});
  write_array("n/train_labels.npy", DtI64, (int64_t[]){4, 0}, 1, (int64_t[]){2});
  write_array("n/test_images.npy", DtU8, kImages, 3, (int64_t[]){4, 2, 3});
  write_array("n/test_labels.npy", DtU8, (uint8_t[]){1, 2, 3, 0}, 1, (int64_t[]){4});
  Dataset *train = open_set("n", kTrain),
          *test = open_set("n", (DatasetOptions){.split = DatasetTest, .classes = 7});
  assert_string_equal(dataset_kind(train), "npy");
  expect_shape(train, 3, 2, 2), expect_shape(test, 1, 2, 3);
  assert_true(dataset_count(train) == 2 && dataset_count(test) == 4);
  assert_true(dataset_classes(train) == 5 && dataset_classes(test) == 7);
  assert_int_equal(dataset_read(train, 0, image, &label, &err), ExitOk);
  assert_memory_equal(image, kImages, 12);
  assert_int_equal(label, 4);
  assert_int_equal(dataset_read(test, 3, image, &label, &err), ExitOk);
  assert_memory_equal(image, kImages + 18, 6);
  assert_int_equal(label, 0);
  dataset_close(train), dataset_close(test);
}

static void arrays_refused(void **state) {
  (void)state;
  static const char *const no_labels =
      "/a/train_labels.npy': labels are integers of one dimension, a class number per picture";
  make_folder("a");
  write_array("a/train_labels.npy", DtI32, (int32_t[]){1, -1, 5}, 1, (int64_t[]){3});
  refuse("a", kTrain, "data set", "/a': 'train_images.npy' is missing; write it with numpy.save");
  refuse("a", kTest, "data set", "/a': 'test_images.npy' is missing; write it with numpy.save");
  write_array("a/train_images.npy", DtF32, kImages, 3, (int64_t[]){1, 2, 3});
  refuse("a", kTrain, "npy",
         "/a/train_images.npy': F32 of 3 dimensions; images are uint8, (N, channels, height, "
         "width) or (N, height, width)");
  write_array("a/train_images.npy", DtU8, kImages, 2, (int64_t[]){4, 6});
  refuse("a", kTrain, "npy",
         "/a/train_images.npy': U8 of 2 dimensions; images are uint8, (N, channels, height, "
         "width) or (N, height, width)");
  write_array("a/train_images.npy", DtU8, kImages, 3, (int64_t[]){4, 2, 3});
  refuse("a", kTrain, "npy", "/a/train_labels.npy': 3 labels for 4 pictures");
  write_array("a/train_images.npy", DtU8, kImages, 3, (int64_t[]){3, 2, 4});
  refuse("a", kTrain, "npy",
         "/a/train_labels.npy', record 1: label -1: classes count from 0");
  write_array("a/train_labels.npy", DtI64, (int64_t[]){1, INT64_MAX, 5}, 1, (int64_t[]){3});
  refuse(
      "a", kTrain, "npy",
      "/a/train_labels.npy', record 1: label 9223372036854775807, expected 0 to 2147483646; is the "
      "file damaged?");
  write_array("a/train_labels.npy", DtI32, (int32_t[]){1, 4, 5}, 1, (int64_t[]){3});
  refuse("a", (DatasetOptions){.classes = 5}, "npy",
         "/a/train_labels.npy', record 2: label 5, the model has 5 classes; give it more classes, "
         "or take another data set");
  write_array("a/train_labels.npy", DtF32, (float[]){1, 4, 5}, 1, (int64_t[]){3});
  refuse("a", kTrain, "npy", no_labels);
  write_array("a/train_labels.npy", DtI32, (int32_t[]){1, 4, 5}, 2, (int64_t[]){3, 1});
  refuse("a", kTrain, "npy", no_labels);
  write_array("a/train_images.npy", DtU8, kImages, 3, (int64_t[]){0, 2, 4});
  write_array("a/train_labels.npy", DtI32, kImages, 1, (int64_t[]){0});
  refuse("a", kTrain, "data set", "/a': the training set holds no pictures");
  write_array("a/train_images.npy", DtU8, kImages, 3, (int64_t[]){3, 0, 4});
  write_array("a/train_labels.npy", DtI32, kImages, 1, (int64_t[]){3});
  refuse("a", kTrain, "data set", "/a': 1 x 0 x 4 is not a picture");
  write_bytes(temp_path("a/train_images.npy"), "junk", 4);
  refuse("a", kTrain, "npy", "/a/train_images.npy': is not an npy file");
  static const char fortran[] = "\x93NUMPY\1\0\x3c\0{'descr': '|u1', 'fortran_order': True, "
                                "'shape': (1, 1, 2)}\n12";
  assert_int_equal(sizeof fortran - 1, 10 + 0x3c + 2);
  write_bytes(temp_path("a/train_images.npy"), fortran, sizeof fortran - 1);
  refuse("a", kTrain, "npy",
         "/a/train_images.npy': is column-major; save numpy.ascontiguousarray of it");
}

// ---- memory ------------------------------------------------------------------------------------

static void no_memory(void **state) {
  (void)state;
  make_folder("h2");
  write_cifar("h2/train.bin", 2, 0, 1, 0);
  starve_open(temp_path("c")), starve_open(temp_path("h2")), starve_open(temp_path("n"));
}

static int make(void **state) {
  (void)state;
  make_cifar();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unknown_folders), cmocka_unit_test(options_are_checked),
      cmocka_unit_test(cifar),           cmocka_unit_test(cifar_of_a_hundred),
      cmocka_unit_test(cifar_refused),   cmocka_unit_test(arrays),
      cmocka_unit_test(arrays_refused),  cmocka_unit_test(no_memory),
  };
  return cmocka_run_group_tests(tests, make, temp_clean);
}
