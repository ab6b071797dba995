// cifar.c: CIFAR-10 and CIFAR-100, the binary version.
//
// A record is the label (CIFAR-100: coarse, then fine, which is used) and 3 x 32 x
// 32 pixels: planes R, G, B (https://www.cs.toronto.edu/~kriz/cifar.html). Files are mapped; all
// labels are checked at once.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/data.h"

enum { Side = 32, Pixels = 3 * Side * Side, MaxFiles = 5 };

typedef struct Layout {
  const char *folder; // the archive's
  const char *train[MaxFiles + 1], *test[2], *names;
  int classes, label_bytes;
  int coarse; // classes of the coarse label before it; 0 if there is none
} Layout;

static const Layout ten = {"cifar-10-batches-bin",
                           {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                            "data_batch_4.bin", "data_batch_5.bin"},
                           {"test_batch.bin"},
                           "batches.meta.txt",
                           10,
                           1,
                           0};
static const Layout hundred = {"cifar-100-binary",     {"train.bin"}, {"test.bin"},
                               "fine_label_names.txt", 100,           2,            20};

typedef struct Cifar {
  FileView files[MaxFiles];
  int64_t records[MaxFiles];
  int count, label_bytes;
} Cifar;

static const Layout *layout_of(const Dataset *dataset) {
  return dataset->form == &cifar10_form ? &ten : &hundred;
}

// The folder of the files: `path` or the archive's folder in it. False: neither holds one.
static bool find_folder(const char *path, const Layout *layout, char folder[PathRoom]) {
  for (int inner = 0; inner < 2; inner++) {
    if (inner)
      dataset_path(path, layout->folder, folder);
    else
      snprintf(folder, PathRoom, "%s", path);
    if (dataset_has(folder, layout->test[0])) return true;
    for (int i = 0; layout->train[i]; i++)
      if (dataset_has(folder, layout->train[i])) return true;
  }
  return false;
}

static bool matches_ten(const char *path) {
  char folder[PathRoom];
  return find_folder(path, &ten, folder);
}

static bool matches_hundred(const char *path) {
  char folder[PathRoom];
  return find_folder(path, &hundred, folder);
}

static int check_labels(const Dataset *dataset, const char *path, int64_t record,
                        const uint8_t *labels, Error *err) {
  const Layout *layout = layout_of(dataset);
  if (layout->coarse && labels[0] >= layout->coarse)
    return err_set(err, ExitBadInput,
                   "%s '%s', record %lld: coarse label %d, expected 0 to %d; is the file damaged?",
                   dataset->form->kind, path, (long long)record, labels[0], layout->coarse - 1);
  int label = labels[layout->label_bytes - 1];
  return dataset_check_label(dataset, path, record, label, layout->classes, err);
}

static int check_file(const Dataset *dataset, const Cifar *cifar, const char *path, Error *err) {
  const Layout *layout = layout_of(dataset);
  const FileView *view = &cifar->files[cifar->count];
  size_t record = (size_t)layout->label_bytes + Pixels;
  if (!view->size || view->size % record)
    return err_set(err, ExitBadInput,
                   "%s '%s': %zu bytes, not a multiple of a record's %zu; is it truncated, or not "
                   "the binary version? Download it again",
                   dataset->form->kind, path, view->size, record);
  for (size_t i = 0; i < view->size / record; i++) {
    int rc = check_labels(dataset, path, (int64_t)i, view->bytes + i * record, err);
    if (rc) return rc;
  }
  return ExitOk;
}

static int open_file(Dataset *dataset, const char *folder, const char *name, Error *err) {
  Cifar *cifar = dataset->own;
  char path[PathRoom];
  if (!dataset_has(folder, name))
    return err_set(err, ExitBadInput,
                   "%s '%s': '%s' of the %s set is missing; unpack the archive again",
                   dataset->form->kind, folder, name, dataset_split(dataset));
  dataset_path(folder, name, path);
  int rc = file_view(dataset->form->kind, path, &cifar->files[cifar->count], err);
  if (!rc) rc = check_file(dataset, cifar, path, err);
  if (rc) {
    file_unview(&cifar->files[cifar->count]);
    return rc;
  }
  int64_t records = (int64_t)cifar->files[cifar->count].size / (cifar->label_bytes + Pixels);
  cifar->records[cifar->count++] = records;
  dataset->count += records;
  return ExitOk;
}

static int open_names(Dataset *dataset, const char *folder, const char *name, Error *err) {
  char path[PathRoom];
  dataset_path(folder, name, path);
  return dataset_has(folder, name) ? labels_read(path, &dataset->names, err) : ExitOk;
}

static int cifar_open(Dataset *dataset, Error *err) {
  const Layout *layout = layout_of(dataset);
  bool train = dataset->options.split == DatasetTrain;
  const char *const *names = train ? layout->train : layout->test;
  char folder[PathRoom];
  find_folder(dataset->path, layout, folder);
  Cifar *cifar = dataset->own = heap_alloc(1, sizeof *cifar);
  if (!cifar) return heap_error(err, "opening CIFAR");
  cifar->label_bytes = layout->label_bytes;
  dataset->shape[0] = 3;
  dataset->shape[1] = dataset->shape[2] = Side;
  dataset->classes = layout->classes;
  for (; *names; names++) {
    int rc = open_file(dataset, folder, *names, err);
    if (rc) return rc;
  }
  return open_names(dataset, folder, layout->names, err);
}

static int cifar_read(const Dataset *dataset, int64_t index, uint8_t *image, int32_t *label,
                      Error *err) {
  (void)err;
  const Cifar *cifar = dataset->own;
  int file = 0;
  while (index >= cifar->records[file]) index -= cifar->records[file++];
  const uint8_t *pixels =
      cifar->files[file].bytes + (index + 1) * (cifar->label_bytes + Pixels) - Pixels;
  memcpy(image, pixels, Pixels);
  *label = pixels[-1];
  return ExitOk;
}

static void cifar_close(Dataset *dataset) {
  Cifar *cifar = dataset->own;
  for (int i = 0; cifar && i < cifar->count; i++) file_unview(&cifar->files[i]);
  free(cifar);
}

const DatasetForm cifar10_form = {
    "CIFAR-10",  "the binary version: data_batch_1.bin to data_batch_5.bin, test_batch.bin",
    matches_ten, cifar_open,
    cifar_read,  cifar_close};
const DatasetForm cifar100_form = {"CIFAR-100",     "the binary version: train.bin, test.bin",
                                   matches_hundred, cifar_open,
                                   cifar_read,      cifar_close};
