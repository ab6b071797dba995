// dataset.c: data sets of pictures with labels: detects the format of a path, and checks common to
// all formats.
//
// A form (CIFAR, arrays, folders of PNGs, synthetic) is a row of `forms`: it recognises its folder,
// opens it and reads a picture. All but PNG files are mapped, so that a picture is a copy.
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/data.h"

static const DatasetForm *const forms[] = {&synthetic_form, &cifar10_form, &cifar100_form,
                                           &arrays_form, &folders_form};

enum { MaxFolder = 4096, MaxPicture = 1 << 30 };

void dataset_path(const char *folder, const char *name, char path[PathRoom]) {
  snprintf(path, PathRoom, "%s/%s", folder, name);
}

bool dataset_has(const char *folder, const char *name) {
  char path[PathRoom];
  dataset_path(folder, name, path);
  return !access(path, F_OK);
}

const char *dataset_split(const Dataset *dataset) {
  return dataset->options.split == DatasetTrain ? "training" : "test";
}

int dataset_check_label(const Dataset *dataset, const char *path, int64_t record, int64_t label,
                        int classes, Error *err) {
  const char *kind = dataset->form->kind;
  int most = (classes ? classes : INT_MAX) - 1, model = dataset->options.classes;
  if (label < 0)
    return err_set(err, ExitBadInput, "%s '%s', record %lld: label %lld: classes count from 0",
                   kind, path, (long long)record, (long long)label);
  if (label > most)
    return err_set(err, ExitBadInput,
                   "%s '%s', record %lld: label %lld, expected 0 to %d; is the file damaged?", kind,
                   path, (long long)record, (long long)label, most);
  if (model && label >= model)
    return err_set(err, ExitBadInput,
                   "%s '%s', record %lld: label %lld, the model has %d classes; give it more "
                   "classes, or take another data set",
                   kind, path, (long long)record, (long long)label, model);
  return ExitOk;
}

// ---- which form --------------------------------------------------------------------------------

// Fails with "data set 'PATH': WHY; accepted are" and a line for each format.
static int refuse(const char *path, const char *why, Error *err) {
  err_set(err, ExitBadInput, "data set '%.*s': %s; accepted are", MaxFolder / 2, path, why);
  for (int i = 0; i < COUNT(forms); i++)
    err_set(err, ExitBadInput, "%s\n  %s: %s", err->message, forms[i]->kind, forms[i]->files);
  return ExitBadInput;
}

static bool is_empty(DIR *folder) {
  struct dirent *entry;
  while ((entry = readdir(folder)))
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) return false;
  return true;
}

static int refuse_folder(const char *path, Error *err) {
  struct stat info;
  if (stat(path, &info)) return refuse(path, strerror(errno), err);
  if (!S_ISDIR(info.st_mode)) return refuse(path, "is a file, not a folder", err);
  DIR *folder = opendir(path);
  if (!folder) return refuse(path, strerror(errno), err);
  bool empty = is_empty(folder);
  closedir(folder);
  return refuse(path, empty ? "is an empty folder" : "is a folder of no known format", err);
}

static int find_form(const char *path, const DatasetForm **form, Error *err) {
  *form = NULL;
  if (strlen(path) >= MaxFolder) return refuse(path, strerror(ENAMETOOLONG), err);
  for (int i = 0; i < COUNT(forms); i++) {
    if (!forms[i]->matches(path)) continue;
    if (*form)
      return err_set(err, ExitBadInput,
                     "data set '%s': holds both %s and %s; give the folder of one of them", path,
                     (*form)->kind, forms[i]->kind);
    *form = forms[i];
  }
  return *form ? ExitOk : refuse_folder(path, err);
}

// ---- common to all formats ---------------------------------------------------------------------

static int64_t picture_bytes(const int64_t *shape) { // -1: no shape of a picture
  int64_t bytes = 1;
  for (int i = 0; i < 3; i++)
    if (shape[i] < 1 || __builtin_mul_overflow(bytes, shape[i], &bytes) || bytes > MaxPicture)
      return -1;
  return bytes;
}

static bool shape_is_known(const int64_t *shape) {
  return shape[0] || shape[1] || shape[2];
}

static int check_options(const char *path, const DatasetOptions *options, Error *err) {
  const int64_t *shape = options->shape;
  if (shape_is_known(shape) && picture_bytes(shape) < 0)
    return err_set(
        err, ExitBadInput,
        "data set '%s': the model's input %lld x %lld x %lld is not a picture (channels, "
        "height, width)",
        path, (long long)shape[0], (long long)shape[1], (long long)shape[2]);
  if (options->classes < 0 || options->count < 0)
    return err_set(err, ExitUsage, "data set '%s': a negative number of classes or pictures", path);
  return ExitOk;
}

static int check_opened(const Dataset *dataset, Error *err) {
  const int64_t *has = dataset->shape, *wants = dataset->options.shape;
  if (!dataset->count)
    return err_set(err, ExitBadInput, "data set '%s': the %s set holds no pictures", dataset->path,
                   dataset_split(dataset));
  if (picture_bytes(has) < 0)
    return err_set(err, ExitBadInput, "data set '%s': %lld x %lld x %lld is not a picture",
                   dataset->path, (long long)has[0], (long long)has[1], (long long)has[2]);
  if (shape_is_known(wants) && memcmp(has, wants, sizeof dataset->shape))
    return err_set(err, ExitBadInput,
                   "data set '%s': its pictures are %lld x %lld x %lld (channels, height, width), "
                   "the model expects %lld x %lld x %lld; change the model's input, or convert the "
                   "pictures",
                   dataset->path, (long long)has[0], (long long)has[1], (long long)has[2],
                   (long long)wants[0], (long long)wants[1], (long long)wants[2]);
  return ExitOk;
}

int dataset_open(const char *path, const DatasetOptions *options, Dataset **out, Error *err) {
  const DatasetForm *form;
  *out = NULL;
  int rc = find_form(path, &form, err);
  if (!rc) rc = check_options(path, options, err);
  if (rc) return rc;
  Dataset *dataset = heap_alloc(1, sizeof *dataset);
  char *copy = heap_copy(path);
  if (!dataset || !copy) {
    free(dataset);
    free(copy);
    return heap_error(err, "opening a data set");
  }
  *dataset = (Dataset){.form = form, .path = copy, .options = *options};
  rc = form->open(dataset, err);
  if (!rc) rc = check_opened(dataset, err);
  if (rc)
    dataset_close(dataset);
  else
    *out = dataset;
  return rc;
}

void dataset_close(Dataset *dataset) {
  if (!dataset) return;
  dataset->form->close(dataset);
  labels_free(&dataset->names);
  free(dataset->first_ignored);
  free((char *)(uintptr_t)dataset->path);
  free(dataset);
}

int dataset_read(const Dataset *dataset, int64_t index, uint8_t *image, int32_t *label,
                 Error *err) {
  if (index < 0 || index >= dataset->count)
    return err_set(err, ExitBadInput, "data set '%s': picture %lld of %lld", dataset->path,
                   (long long)index, (long long)dataset->count);
  return dataset->form->read(dataset, index, image, label, err);
}

int64_t dataset_count(const Dataset *dataset) {
  return dataset->count;
}
const int64_t *dataset_shape(const Dataset *dataset) {
  return dataset->shape;
}
Scaling dataset_scaling(const Dataset *dataset) {
  return dataset->scaling;
}
Ignored dataset_ignored(const Dataset *dataset) {
  return (Ignored){dataset->ignored, dataset->first_ignored};
}
int dataset_classes(const Dataset *dataset) {
  return dataset->classes;
}
const char *dataset_kind(const Dataset *dataset) {
  return dataset->form->kind;
}
const char *dataset_class_name(const Dataset *dataset, int label) {
  bool named = label >= 0 && label < dataset->names.count && label < dataset->classes;
  return named && *dataset->names.names[label] ? dataset->names.names[label] : NULL;
}
