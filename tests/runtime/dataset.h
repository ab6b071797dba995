// dataset.h: what the tests of data sets share: folders, and what opening one gives.
#ifndef NNGEN_TESTS_RUNTIME_DATASET_H
#define NNGEN_TESTS_RUNTIME_DATASET_H

#include "runtime/support.h"

__attribute__((unused)) static void make_folder(const char *name) {
  assert_int_equal(mkdir(temp_path(name), 0777), 0);
}

__attribute__((unused)) static Dataset *open_set(const char *name, DatasetOptions options) {
  Error err = {0};
  Dataset *dataset = NULL;
  if (dataset_open(temp_path(name), &options, &dataset, &err)) fail_msg("%s", err.message);
  return dataset;
}

__attribute__((unused)) static void expect_shape(const Dataset *dataset, int64_t channels,
                                                 int64_t height, int64_t width) {
  const int64_t *shape = dataset_shape(dataset);
  assert_true(shape[0] == channels && shape[1] == height && shape[2] == width);
}

// `expected` begins behind "KIND 'DIR", where DIR is the tests' folder.
__attribute__((unused)) static void refuse(const char *name, DatasetOptions options,
                                           const char *kind, const char *expected) {
  Error err = {0};
  Dataset *dataset;
  char message[1200];
  assert_int_equal(dataset_open(temp_path(name), &options, &dataset, &err), ExitBadInput);
  assert_null(dataset);
  snprintf(message, sizeof message, "%s '%s%s", kind, temp_dir(), expected);
  assert_string_equal(err.message, message);
}

__attribute__((unused)) static const DatasetOptions kTrain = {.split = DatasetTrain},
                                                    kTest = {.split = DatasetTest};

// Every allocation fails once while `path` is opened.
__attribute__((unused)) static void starve_open(const char *path) {
  Dataset *dataset = NULL;
  for (int n = 0, rc = 1; rc; n++) {
    Error err = {0};
    heap_fail_after(n);
    rc = dataset_open(path, &kTrain, &dataset, &err);
    heap_fail_after(-1);
    if (rc && !strstr(err.message, "out of host memory") && !strstr(err.message, "out of memory"))
      fail_msg("%s", err.message);
    if (!rc) assert_true(n >= 3);
  }
  dataset_close(dataset);
}

#endif
