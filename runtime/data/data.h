// data.h: data files and parameters, by file.
#ifndef NNGEN_RUNTIME_DATA_H
#define NNGEN_RUNTIME_DATA_H

#include "exec/exec.h"

// ---- weights.c, weights_shards.c, weights_write.c ---------------------------------------------

// Opens the files that an index names (a JSON file next to the safetensors files).
int weights_open_index(const char *path, Weights **weights, Error *err);
// Joins the tensors of several files; takes ownership of both lists and of the files.
int weights_join(Weights **files, int nfiles, WeightTensor *tensors, int count, Weights **weights,
                 Error *err);

// All metadata, as pairs of key, value ended by NULL; the list is to be freed, the texts are not.
int weights_metadata_pairs(const Weights *weights, const char ***pairs, Error *err);
// weights_write to a file that has been begun; commits or aborts it.
int weights_write_to(FileWriter *writer, const WeightTensor *tensors, int ntensors,
                     const char *const *metadata, Error *err);

// ---- npy.c ------------------------------------------------------------------------------------

typedef struct NpyView { // an array in its mapped file
  FileView view;
  const char *dtype; // as safetensors spells it
  bool fortran;      // column-major
  int rank;
  int64_t shape[PlanMaxRank], count;
  const uint8_t *data;
  size_t bytes; // bytes of the data of `count` elements
} NpyView;

int npy_view(const char *path, NpyView *npy, Error *err);
void npy_unview(NpyView *npy);

// ---- image.c ----------------------------------------------------------------------------------

// Reads a PNG's header (only the size) and checks that the file is complete and, if that is fast,
// its checksums.
int image_check(const char *path, Image *size, Error *err);

// ---- resize.c ---------------------------------------------------------------------------------

int resize_image(const Image *in, int width, int height, Image *out, Error *err);

// ---- dataset.c and its forms: cifar.c, arrays.c, folders.c, synthetic.c ------------------------

enum { PathRoom = 4352 }; // bytes of a data set's file path; more than a folder's may have

struct Dataset {
  const struct DatasetForm *form;
  const char *path; // as it was given
  DatasetOptions options;
  int64_t count, shape[3];
  int classes;
  Labels names; // of the classes; may be fewer
  Scaling scaling;
  int64_t ignored;
  char *first_ignored;
  void *own;    // of the form
};

typedef struct DatasetForm {
  const char *kind, *files; // `files`: contents of a folder of this format
  bool (*matches)(const char *path);
  int (*open)(Dataset *dataset, Error *err); // sets count, shape, classes; `close` follows always
  int (*read)(const Dataset *dataset, int64_t index, uint8_t *image, int32_t *label, Error *err);
  void (*close)(Dataset *dataset);
} DatasetForm;

extern const DatasetForm synthetic_form, cifar10_form, cifar100_form, arrays_form, folders_form;

void dataset_path(const char *folder, const char *name, char path[PathRoom]); // FOLDER/NAME
bool dataset_has(const char *folder, const char *name); // a file or folder in it
const char *dataset_split(const Dataset *dataset);      // "training", "test"
// Errors unless 0 <= label < the classes of the format (0: any number) and of the model.
int dataset_check_label(const Dataset *dataset, const char *path, int64_t record, int64_t label,
                        int classes, Error *err);

// ---- events.c: TensorBoard's files ------------------------------------------------------------

typedef struct Events Events;

int events_open(const char *folder, Events **events, Error *err); // a new file
int events_write(Events *events, int64_t step, const LogValue *values, int count, Error *err);
void events_close(Events *events);

#endif
