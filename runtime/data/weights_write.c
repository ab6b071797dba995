// weights_write.c: writes a safetensors file.
//
// Tensors are in the order of the reference writer: widest dtype first, then by name, so that
// every tensor is aligned; the header is padded with spaces to a multiple of 8.
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "data/data.h"

static size_t element_size(const WeightTensor *tensor) {
  size_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= (size_t)tensor->shape[i];
  return count ? tensor->bytes / count : 0;
}

static int by_width(const void *a, const void *b) {
  const WeightTensor *left = *(const WeightTensor *const *)a,
                     *right = *(const WeightTensor *const *)b;
  size_t left_size = element_size(left), right_size = element_size(right);
  if (left_size != right_size) return left_size > right_size ? -1 : 1;
  return strcmp(left->name, right->name);
}

static json_t *describe(const WeightTensor *tensor, size_t begin) {
  json_t *shape = json_array();
  for (int i = 0; i < tensor->rank; i++)
    json_array_append_new(shape, json_integer(tensor->shape[i]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->dtype, "shape", shape, "data_offsets",
                   (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
}

static json_t *describe_metadata(const char *const *metadata) {
  json_t *object = json_object();
  for (; *metadata; metadata += 2)
    json_object_set_new(object, metadata[0], json_string(metadata[1]));
  return object;
}

// The padded header, its length in *length; NULL when a name is not UTF-8 or is used twice.
static char *make_header(const WeightTensor **sorted, int count, const char *const *metadata,
                         size_t *length) {
  size_t begin = 0;
  json_t *root = json_object();
  if (metadata) json_object_set_new(root, "__metadata__", describe_metadata(metadata));
  bool failed = false;
  for (int i = 0; i < count; i++) {
    failed = failed || !*sorted[i]->name || json_object_get(root, sorted[i]->name) ||
             json_object_set_new(root, sorted[i]->name, describe(sorted[i], begin));
    begin += sorted[i]->bytes;
  }
  char *text = failed ? NULL : json_dumps(root, JSON_COMPACT);
  json_decref(root);
  if (!text) return NULL;
  char *header = heap_format("%s%*s", text, (int)((8 - strlen(text) % 8) % 8), "");
  free(text);
  if (header) *length = strlen(header);
  return header;
}

static int write_bytes(FileWriter *writer, const WeightTensor **sorted, int count,
                       const char *header, size_t length, Error *err) {
  uint8_t size[8];
  for (int i = 0; i < 8; i++) size[i] = (uint8_t)((uint64_t)length >> (8 * i));
  int rc = file_write(writer, size, sizeof size, err);
  if (!rc) rc = file_write(writer, header, length, err);
  for (int i = 0; i < count && !rc; i++)
    rc = file_write(writer, sorted[i]->data, sorted[i]->bytes, err);
  return rc ? rc : file_commit(writer, err);
}

int weights_write_to(FileWriter *writer, const WeightTensor *tensors, int ntensors,
                     const char *const *metadata, Error *err) {
  size_t length = 0;
  const WeightTensor **sorted = heap_alloc((size_t)ntensors, sizeof *sorted);
  for (int i = 0; sorted && i < ntensors; i++) sorted[i] = &tensors[i];
  if (sorted) qsort(sorted, (size_t)ntensors, sizeof *sorted, by_width);
  char *header = sorted ? make_header(sorted, ntensors, metadata, &length) : NULL;
  int rc = header   ? write_bytes(writer, sorted, ntensors, header, length, err)
           : sorted ? err_set(err, ExitBadInput,
                              "%s '%s': a tensor's name is empty, used twice or not UTF-8",
                              writer->kind, writer->path)
                    : heap_error(err, "writing weights");
  file_abort(writer); // no effect after a commit
  free(header);
  free(sorted);
  return rc;
}

int weights_write(const char *path, const WeightTensor *tensors, int ntensors,
                  const char *const *metadata, Error *err) {
  FileWriter writer;
  int rc = file_begin("weights", path, &writer, err);
  return rc ? rc : weights_write_to(&writer, tensors, ntensors, metadata, err);
}
