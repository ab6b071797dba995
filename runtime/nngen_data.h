// nngen_data.h: files that go in and out of a model: weights, arrays, pictures, data sets, logs.
//
// The part of the runtime's public C API that needs no device; nngen_runtime.h includes it, and
// describes rules common to both. Each group is named after the file that implements it.
#ifndef NNGEN_DATA_FILES_H
#define NNGEN_DATA_FILES_H

#include "plan.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- file.c: folders -------------------------------------------------------------------------

// Creates the missing parent folders of a path. False on failure; errno says why.
bool file_make_parents(const char *path, unsigned mode);

// ---- weights.c: safetensors ------------------------------------------------------------------

typedef struct WeightTensor {
  const char *name;
  const char *dtype; // as safetensors spells it: "F32", "BF16", "I64", ...
  int rank;
  int64_t shape[PlanMaxRank];
  const void *data; // little endian, row-major; unaligned
  size_t bytes;
} WeightTensor;

typedef struct Weights Weights;

// A safetensors file, or (PATH.json) an index of several, whose "weight_map" names each tensor's.
int weights_open(const char *path, Weights **weights, Error *err);
int weights_count(const Weights *weights);
const WeightTensor *weights_at(const Weights *weights, int index); // by offset in the file
const WeightTensor *weights_find(const Weights *weights, const char *name); // or NULL
const char *weights_metadata(const Weights *weights, const char *key);      // or NULL
int weights_floats(const WeightTensor *tensor, float *values, Error *err);
int weights_doubles(const WeightTensor *tensor, double *values, Error *err); // exact integers
void weights_close(Weights *weights);

// `metadata` is pairs of key, value, ended by NULL, or NULL. The file appears whole or not at all.
int weights_write(const char *path, const WeightTensor *tensors, int ntensors,
                  const char *const *metadata, Error *err);

// ---- npy.c, image.c, labels.c, photo.c: data files -------------------------------------------

typedef struct Npy {
  int rank;
  int64_t shape[PlanMaxRank];
  int64_t count;
  float *values; // row-major and float, in any order and dtype of the file
  double *exact; // the values as doubles if the file holds integers, booleans or doubles; else NULL
  bool integers; // the file holds integers or booleans
} Npy;

int npy_read(const char *path, Npy *npy, Error *err);
int npy_write(const char *path, const float *values, int rank, const int64_t *shape, Error *err);
// Writes a tensor's stored form, row-major; f16 stays f16; bf16 fails: NumPy has no such dtype.
int npy_write_stored(const char *path, Dtype dtype, const void *stored, int rank,
                     const int64_t *shape, Error *err);
void npy_free(Npy *npy);

typedef struct Image {
  int width, height;
  uint8_t *rgb; // height x width x 3
} Image;

int image_read(const char *path, Image *image, Error *err); // PNG, any kind, to 8-bit RGB
int image_write(const char *path, const Image *image, Error *err);
void image_free(Image *image);

typedef struct ImageTransform { // zero fields take the values of ImageNet inference
  int resize; // short side, pixels (256)
  int crop;   // side of the centre crop (224)
  float mean[3], std[3];
} ImageTransform;

// torchvision's inference transform: resize (bilinear, antialias), centre crop, to [0,1],
// normalise. Writes planes R G B of crop x crop to `chw`.
int image_transform(const Image *image, const ImageTransform *transform, float *chw, Error *err);

typedef struct Labels {
  char **names; // UTF-8
  int count;
} Labels;

int labels_read(const char *path, Labels *labels, Error *err); // a label per line
void labels_free(Labels *labels);
int labels_top(const float *scores, int count, int k, int *indices); // returns min(k, count)

// A generated picture with the look of a photograph: light, objects, texture, noise; deterministic.
int photo_make(int width, int height, uint64_t seed, Image *image, Error *err);

// ---- dataset.c: pictures with labels ----------------------------------------------------------

typedef struct Dataset Dataset;

typedef enum DatasetSplit { DatasetTrain, DatasetTest } DatasetSplit;

typedef struct DatasetOptions {
  DatasetSplit split;
  int64_t shape[3]; // channels, height, width that the model expects; all 0: the data set's
  int classes;      // of the model; 0: unknown. Labels must be below it
  uint64_t seed;    // of "synthetic"
  int64_t count;    // pictures of "synthetic"; 0: 2048 for training, 512 for the test
} DatasetOptions;

// `path` is "synthetic" (pictures generated from the seed), or a folder of
// - CIFAR-10 or CIFAR-100, the binary version: data_batch_1.bin to data_batch_5.bin and
//   test_batch.bin, or train.bin and test.bin; or the parent of their cifar-10-batches-bin or
//   cifar-100-binary;
// - train_images.npy, train_labels.npy, test_images.npy, test_labels.npy: images u8 (N, C, H, W) or
//   (N, H, W), labels (N) of any integer type;
// - train/CLASS/*.png and test/CLASS/*.png (or val/): classes by name; a PNG of another size is
//   resized to the model's size, and converted to grey for a model of one channel.
// Errors: ExitBadInput, naming the file and the record.
int dataset_open(const char *path, const DatasetOptions *options, Dataset **dataset, Error *err);
int64_t dataset_count(const Dataset *dataset);
const int64_t *dataset_shape(const Dataset *dataset); // channels, height, width

typedef struct Scaling { // pictures that are read in another size than theirs
  int64_t count;
  int height, width; // of the first of them
  bool others;       // there are other sizes
} Scaling;
Scaling dataset_scaling(const Dataset *dataset);
typedef struct Ignored { // files that are not pictures, or of no class
  int64_t count;
  const char *first; // its path, or NULL
} Ignored;
Ignored dataset_ignored(const Dataset *dataset);
int dataset_classes(const Dataset *dataset); // npy, which does not say: the model's, if known
const char *dataset_class_name(const Dataset *dataset, int label); // or NULL
const char *dataset_kind(const Dataset *dataset); // "CIFAR-10", "PNG folders", "npy", ...
// One picture, channels first, and its label. May be called from any thread.
int dataset_read(const Dataset *dataset, int64_t index, uint8_t *image, int32_t *label, Error *err);
void dataset_close(Dataset *dataset);

// ---- loader.c: batches, read by threads -------------------------------------------------------

// Training: shuffled, endless over epochs, the last short batch of an epoch dropped. Else: in
// order, once, the last batch padded with its last picture.
enum { LoaderMaxThreads = 256 };

typedef struct LoaderOptions {
  int batch;
  int threads; // at most LoaderMaxThreads; 0: 2
  bool train;
  uint64_t seed; // of the shuffle; the order of an epoch depends only on seed and epoch
  int64_t first; // batches already used, over all epochs; where a resumed run continues
  void *(*take)(void *user, size_t bytes); // memory for batches, pinned perhaps; NULL: from malloc
  void (*give)(void *user, void *memory);  // frees it
  void *user;
} LoaderOptions;

typedef struct Batch {
  const uint8_t *images; // (batch, channels, height, width)
  const int32_t *labels; // (batch)
  int valid;             // pictures of the data set; the rest is padding
  int64_t index, epoch;  // index within the epoch
} Batch;

typedef struct Loader Loader;

// `dataset` must outlive the loader. Errors: in training, a data set smaller than a batch.
int loader_open(const Dataset *dataset, const LoaderOptions *options, Loader **loader, Error *err);
int64_t loader_batches(const Loader *loader); // of an epoch
// The batch is valid until the next call; the next one is read in the background. *end: no batch is
// left. An error is returned again by each call. One thread at a time.
int loader_next(Loader *loader, Batch *batch, bool *end, Error *err);
void loader_close(Loader *loader);

// ---- checkpoint.c: weights that survive a kill at any moment ----------------------------------

// Writes safetensors at `path` as weights_write does; the file before stays as PATH.previous.
// Checksums (XXH3, 64 bits) go to the metadata: "xxh3.NAME" of a tensor's bytes, "xxh3" of all that
// the header says; so no key of `metadata` may begin with "xxh3". One writer at a time.
int checkpoint_write(const char *path, const WeightTensor *tensors, int ntensors,
                  const char *const *metadata, Error *err);
// Opens a checkpoint and verifies its checksums: `path`, or if it is missing or damaged,
// PATH.previous; then *fell_back says why and what was opened (to be freed), else it is NULL.
int checkpoint_open(const char *path, Weights **weights, char **fell_back, Error *err);

// ---- runlog.c, events.c: logs of a training run ----------------------------------------------

typedef struct RunLog RunLog;

typedef struct LogValue {
  const char *name; // UTF-8
  double value;
} LogValue;

// Opens FOLDER/log.jsonl, new or (`append`) continued, and if asked a new
// FOLDER/events.out.tfevents.<time>.<host>. Creates the folder if its parent exists.
int runlog_open(const char *folder, bool append, bool tensorboard, RunLog **log, Error *err);
// Appends a line {"step":1,"loss":2.5,"epoch":1}: numbers have 15 digits, whole ones no point,
// non-finite ones are null; and scalars of the same names for TensorBoard. On an error, for example
// a full disk, no part of the line remains.
int runlog_write(RunLog *log, int64_t step, const LogValue *values, int count, Error *err);
// Drops the lines of steps after `step`, which a run resumed from there repeats.
int runlog_cut(RunLog *log, int64_t step, Error *err);
void runlog_close(RunLog *log);

// ---- picture.c --------------------------------------------------------------------------------

typedef struct PictureRow {
  const uint8_t *planes; // of the pictures of a row, consecutive
  int64_t shape[3];      // of each: channels (1 or 3), height, width
} PictureRow;

// Writes rows of `columns` pictures as one PNG, 2 white pixels between them; rows may differ in
// their pictures' sizes: columns are as wide as the widest. The file appears whole or not at all.
int picture_grid(const char *path, const PictureRow *rows, int nrows, int columns, Error *err);

#ifdef __cplusplus
}
#endif
#endif
