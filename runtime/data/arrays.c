// arrays.c: a data set of NumPy arrays: train_images.npy, train_labels.npy, test_images.npy,
// test_labels.npy. Images stay in their mapped file; labels are read and checked at once.
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

typedef struct Arrays {
  NpyView images;
  int32_t *labels;
  size_t bytes; // of a picture
} Arrays;

static bool arrays_matches(const char *path) {
  return dataset_has(path, "train_images.npy") || dataset_has(path, "test_images.npy") ||
         dataset_has(path, "train_labels.npy") || dataset_has(path, "test_labels.npy");
}

// PATH/train_images.npy or the like; errors when it is missing.
static int find_file(const Dataset *dataset, const char *what, char path[PathRoom], Error *err) {
  char name[32];
  bool train = dataset->options.split == DatasetTrain;
  snprintf(name, sizeof name, "%s_%s.npy", train ? "train" : "test", what);
  dataset_path(dataset->path, name, path);
  if (dataset_has(dataset->path, name)) return ExitOk;
  return err_set(err, ExitBadInput, "data set '%s': '%s' is missing; write it with numpy.save",
                 dataset->path, name);
}

static int open_images(Dataset *dataset, Error *err) {
  Arrays *own = dataset->own;
  NpyView *images = &own->images;
  char path[PathRoom];
  int rc = find_file(dataset, "images", path, err);
  if (!rc) rc = npy_view(path, images, err);
  if (rc) return rc;
  if (strcmp(images->dtype, "U8") || (images->rank != 3 && images->rank != 4))
    return err_set(err, ExitBadInput,
                   "npy '%s': %s of %d dimensions; images are uint8, (N, channels, height, width) "
                   "or (N, height, width)",
                   path, images->dtype, images->rank);
  if (images->fortran)
    return err_set(err, ExitBadInput,
                   "npy '%s': is column-major; save numpy.ascontiguousarray of it", path);
  dataset->count = images->shape[0];
  dataset->shape[0] = images->rank == 4 ? images->shape[1] : 1;
  dataset->shape[1] = images->shape[images->rank - 2];
  dataset->shape[2] = images->shape[images->rank - 1];
  own->bytes = images->shape[0] ? images->bytes / (size_t)images->shape[0] : 0;
  return ExitOk;
}

static int take_labels(Dataset *dataset, const char *path, const Npy *npy, Error *err) {
  Arrays *own = dataset->own;
  int32_t most = 0;
  if (!npy->integers || npy->rank != 1)
    return err_set(err, ExitBadInput,
                   "npy '%s': labels are integers of one dimension, a class number per picture",
                   path);
  if (npy->count != dataset->count)
    return err_set(err, ExitBadInput, "npy '%s': %lld labels for %lld pictures", path,
                   (long long)npy->count, (long long)dataset->count);
  own->labels = heap_alloc((size_t)npy->count, sizeof *own->labels);
  if (!own->labels) return heap_error(err, "the labels of a data set");
  for (int64_t i = 0; i < npy->count; i++) {
    int64_t label = npy->exact[i] < 0x1p62 ? (int64_t)npy->exact[i] : INT64_MAX;
    int rc = dataset_check_label(dataset, path, i, label, 0, err);
    if (rc) return rc;
    own->labels[i] = (int32_t)label;
    if (own->labels[i] > most) most = own->labels[i];
  }
  dataset->classes = dataset->options.classes ? dataset->options.classes : most + 1;
  return ExitOk;
}

static int arrays_open(Dataset *dataset, Error *err) {
  char path[PathRoom];
  Npy labels;
  dataset->own = heap_alloc(1, sizeof(Arrays));
  if (!dataset->own) return heap_error(err, "opening a data set");
  int rc = open_images(dataset, err);
  if (!rc) rc = find_file(dataset, "labels", path, err);
  if (!rc) rc = npy_read(path, &labels, err);
  if (rc) return rc;
  rc = take_labels(dataset, path, &labels, err);
  npy_free(&labels);
  return rc;
}

static int arrays_read(const Dataset *dataset, int64_t index, uint8_t *image, int32_t *label,
                       Error *err) {
  (void)err;
  const Arrays *own = dataset->own;
  memcpy(image, own->images.data + (size_t)index * own->bytes, own->bytes);
  *label = own->labels[index];
  return ExitOk;
}

static void arrays_close(Dataset *dataset) {
  Arrays *own = dataset->own;
  if (!own) return;
  npy_unview(&own->images);
  free(own->labels);
  free(own);
}

const DatasetForm arrays_form = {
    "npy",          "train_images.npy, train_labels.npy, test_images.npy, test_labels.npy",
    arrays_matches, arrays_open,
    arrays_read,    arrays_close};
