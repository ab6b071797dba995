// folders.c: a data set of PNG files, a folder per class: PATH/train/CLASS/*.png, and PATH/test or
// PATH/val.
//
// Classes are the folders of train/ in the order of their bytes, also for the test set. Files are
// checked when the data set is opened (image_check) and decoded when they are read. A picture of
// another size is resized (resize.c) to the model's, or if that is unknown, to the first
// picture's.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "data/data.h"

typedef struct Picture {
  char *path;
  int32_t label;
} Picture;

typedef struct Folders {
  Picture *pictures; // room for `room`
  int64_t room;
} Folders;

static bool folders_matches(const char *path) {
  return dataset_has(path, "train") || dataset_has(path, "test") || dataset_has(path, "val");
}

// ---- listing -----------------------------------------------------------------------------------

static int by_bytes(const struct dirent **a, const struct dirent **b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_shown(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static bool named_png(const char *name) {
  size_t length = strlen(name);
  return length > 4 && !strcasecmp(name + length - 4, ".png");
}

static int is_png(const struct dirent *entry) {
  return is_shown(entry) && named_png(entry->d_name);
}

typedef struct Listing {
  struct dirent **entries;
  int count;
} Listing;

static int list(const char *folder, int (*wanted)(const struct dirent *), Listing *listing,
                Error *err) {
  listing->count = scandir(folder, &listing->entries, wanted, by_bytes);
  if (listing->count >= 0) return ExitOk;
  listing->count = 0;
  return err_set(err, ExitBadInput, "PNG folders '%s': %s", folder, strerror(errno));
}

static void free_listing(Listing *listing) {
  for (int i = 0; i < listing->count; i++) free(listing->entries[i]);
  free(listing->entries);
  *listing = (Listing){NULL, 0};
}

static bool is_folder(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISDIR(info.st_mode);
}

// ---- classes -----------------------------------------------------------------------------------

static int refuse_empty(const char *folder, Error *err) {
  return err_set(err, ExitBadInput, "PNG folders '%s': holds no PNG files", folder);
}

static int add_class(Dataset *dataset, const char *folder, const char *name, Error *err) {
  Labels *names = &dataset->names;
  for (const char *c = name; *c; c++) // names are printed to a terminal
    if ((unsigned char)*c < ' ' || *c == 127)
      return err_set(err, ExitBadInput, "PNG folders '%s': a folder's name has control characters",
                     folder);
  char **grown = heap_grow(names->names, (size_t)names->count + 1, sizeof *grown);
  if (grown) names->names = grown;
  char *copy = grown ? heap_copy(name) : NULL;
  if (!copy) return heap_error(err, "the classes of a data set");
  names->names[names->count++] = copy;
  return ExitOk;
}

// A folder without pictures is named: more likely that it should not be there than that it should.
static int check_filled(const Dataset *dataset, const char *folder, Error *err) {
  char path[PathRoom];
  Listing files;
  int rc = ExitOk;
  for (int i = 0; i < dataset->names.count && !rc; i++) {
    dataset_path(folder, dataset->names.names[i], path);
    rc = list(path, is_png, &files, err);
    if (!rc && !files.count) rc = refuse_empty(path, err);
    free_listing(&files);
  }
  return rc;
}

static int check_classes(const Dataset *dataset, const char *folder, Error *err) {
  int count = dataset->names.count, model = dataset->options.classes;
  if (!count)
    return err_set(err, ExitBadInput,
                   "PNG folders '%s': holds no folders, one of PNG files per class", folder);
  if (!model || count <= model) return ExitOk;
  int rc = check_filled(dataset, folder, err);
  if (rc) return rc;
  return err_set(err, ExitBadInput,
                 "PNG folders '%s': %d classes, the model has %d; give it more classes, or take "
                 "another data set",
                 folder, count, model);
}

static int read_classes(Dataset *dataset, Error *err) {
  char folder[PathRoom], path[PathRoom];
  Listing found;
  dataset_path(dataset->path, "train", folder);
  if (!is_folder(folder))
    return err_set(err, ExitBadInput,
                   "data set '%s': has no folder train/, whose folders name the classes",
                   dataset->path);
  int rc = list(folder, is_shown, &found, err);
  for (int i = 0; i < found.count && !rc; i++) {
    dataset_path(folder, found.entries[i]->d_name, path);
    if (is_folder(path)) rc = add_class(dataset, folder, found.entries[i]->d_name, err);
  }
  free_listing(&found);
  if (!rc) rc = check_classes(dataset, folder, err);
  dataset->classes = dataset->names.count;
  return rc;
}

static int find_class(const Dataset *dataset, const char *name) { // or -1
  int label = dataset->names.count - 1;
  while (label >= 0 && strcmp(dataset->names.names[label], name)) label--;
  return label;
}

// ---- pictures ----------------------------------------------------------------------------------

static int add_picture(Dataset *dataset, const char *path, int label, Error *err) {
  Folders *own = dataset->own;
  if (dataset->count == own->room) {
    int64_t room = own->room ? 2 * own->room : 64;
    Picture *grown = heap_grow(own->pictures, (size_t)room, sizeof *grown);
    if (!grown) return heap_error(err, "the files of a data set");
    own->pictures = grown;
    own->room = room;
  }
  char *copy = heap_copy(path);
  if (!copy) return heap_error(err, "the files of a data set");
  own->pictures[dataset->count++] = (Picture){copy, label};
  return ExitOk;
}

static int note_ignored(Dataset *dataset, const char *path, Error *err) {
  if (dataset->ignored++) return ExitOk;
  dataset->first_ignored = heap_copy(path);
  return dataset->first_ignored ? ExitOk : heap_error(err, "the files of a data set");
}

static int read_class(Dataset *dataset, const char *folder, int label, Error *err) {
  char path[PathRoom];
  Listing files;
  int64_t before = dataset->count;
  int rc = list(folder, is_shown, &files, err);
  for (int i = 0; i < files.count && !rc; i++) {
    const char *name = files.entries[i]->d_name;
    dataset_path(folder, name, path);
    rc =
        named_png(name) ? add_picture(dataset, path, label, err) : note_ignored(dataset, path, err);
  }
  if (!rc && dataset->count == before) rc = refuse_empty(folder, err);
  free_listing(&files);
  return rc;
}

// Reads a split. A class of the test set must be in the training set; other files are ignored.
static int read_split(Dataset *dataset, const char *folder, Error *err) {
  char path[PathRoom];
  Listing found;
  int rc = list(folder, is_shown, &found, err);
  for (int i = 0; i < found.count && !rc; i++) {
    const char *name = found.entries[i]->d_name;
    dataset_path(folder, name, path);
    int label = find_class(dataset, name);
    if (!is_folder(path))
      rc = note_ignored(dataset, path, err);
    else
      rc = label < 0 ? err_set(err, ExitBadInput,
                               "PNG folders '%s': train/ has no class of that name", path)
                     : read_class(dataset, path, label, err);
  }
  free_listing(&found);
  return rc;
}

static void note_size(Dataset *dataset, const Image *size) {
  Scaling *s = &dataset->scaling;
  if (size->height == dataset->shape[1] && size->width == dataset->shape[2]) return;
  if (!s->count++) s->height = size->height, s->width = size->width;
  s->others = s->others || s->height != size->height || s->width != size->width;
}

// A broken file ends the run before hours of training, not after them.
static int check_pictures(Dataset *dataset, Error *err) {
  const Folders *own = dataset->own;
  Image size;
  int rc = ExitOk;
  for (int64_t i = 0; i < dataset->count && !rc; i++) {
    rc = image_check(own->pictures[i].path, &size, err);
    if (!rc) note_size(dataset, &size);
  }
  return rc;
}

static int find_shape(Dataset *dataset, Error *err) {
  const Folders *own = dataset->own;
  const int64_t *wanted = dataset->options.shape;
  Image first;
  memcpy(dataset->shape, wanted, sizeof dataset->shape);
  if (wanted[0] && wanted[0] != 1 && wanted[0] != 3)
    return err_set(err, ExitBadInput,
                   "data set '%s': PNG files have 3 channels, or 1 if grey; the model expects "
                   "%lld x %lld x %lld",
                   dataset->path, (long long)wanted[0], (long long)wanted[1], (long long)wanted[2]);
  if (wanted[0] || !dataset->count) return ExitOk;
  int rc = image_read(own->pictures[0].path, &first, err);
  if (rc) return rc;
  dataset->shape[0] = 3;
  dataset->shape[1] = first.height;
  dataset->shape[2] = first.width;
  image_free(&first);
  return ExitOk;
}

static int folders_open(Dataset *dataset, Error *err) {
  char folder[PathRoom];
  bool train = dataset->options.split == DatasetTrain;
  dataset->own = heap_alloc(1, sizeof(Folders));
  if (!dataset->own) return heap_error(err, "opening a data set");
  int rc = read_classes(dataset, err);
  if (rc) return rc;
  dataset_path(dataset->path,
               train                                ? "train"
               : dataset_has(dataset->path, "test") ? "test"
                                                    : "val",
               folder);
  if (!is_folder(folder))
    return err_set(err, ExitBadInput, "data set '%s': has no folder test/ or val/ for the test set",
                   dataset->path);
  rc = read_split(dataset, folder, err);
  if (!rc) rc = find_shape(dataset, err);
  return rc ? rc : check_pictures(dataset, err);
}

// ---- reading -----------------------------------------------------------------------------------

// Pixels to planes; for one channel, PIL's convert("L").
static void to_planes(const Image *image, int64_t channels, uint8_t *planes) {
  size_t pixels = (size_t)image->width * (size_t)image->height;
  for (size_t i = 0; i < pixels; i++) {
    const uint8_t *rgb = image->rgb + 3 * i;
    if (channels == 1)
      planes[i] = (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
    else
      for (size_t c = 0; c < 3; c++) planes[c * pixels + i] = rgb[c];
  }
}

static int folders_read(const Dataset *dataset, int64_t index, uint8_t *planes, int32_t *label,
                        Error *err) {
  const Picture *picture = &((const Folders *)dataset->own)->pictures[index];
  int height = (int)dataset->shape[1], width = (int)dataset->shape[2];
  Image image, resized;
  int rc = image_read(picture->path, &image, err);
  if (rc) return rc;
  if (image.width != width || image.height != height) {
    rc = resize_image(&image, width, height, &resized, err);
    image_free(&image);
    if (rc) return rc;
    image = resized;
  }
  to_planes(&image, dataset->shape[0], planes);
  *label = picture->label;
  image_free(&image);
  return ExitOk;
}

static void folders_close(Dataset *dataset) {
  Folders *own = dataset->own;
  for (int64_t i = 0; own && i < dataset->count; i++) free(own->pictures[i].path);
  if (own) free(own->pictures);
  free(own);
}

const DatasetForm folders_form = {"PNG folders",   "train/CLASS/*.png, test/CLASS/*.png (or val/)",
                                  folders_matches, folders_open,
                                  folders_read,    folders_close};
