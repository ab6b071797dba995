// weights.c: safetensors files, read through mmap and written.
//
// Format: 8 bytes little endian N, N bytes of JSON, then the data. The file is untrusted: the
// header must fit, name each tensor once, and cover the data without holes, overlaps or trailing
// bytes, as the reference reader demands (huggingface/safetensors, tensor.rs).
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "data/data.h"

static const size_t kMaxHeader = 100000000;

typedef struct WeightDtype {
  const char *name;
  size_t size;
} WeightDtype;

static const WeightDtype dtypes[] = {{"F64", 8},  {"I64", 8},     {"U64", 8},    {"F32", 4},
                                     {"I32", 4},  {"U32", 4},     {"F16", 2},    {"BF16", 2},
                                     {"I16", 2},  {"U16", 2},     {"I8", 1},     {"U8", 1},
                                     {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};

struct Weights {
  FileView view;
  const char *path; // only while opening
  json_t *root;     // owns the names
  WeightTensor *tensors;
  int count;
  struct Weights **files; // of a joined one: whose tensors these are
  int nfiles;
};

static const WeightDtype *find_dtype(const char *name) {
  for (int i = 0; i < COUNT(dtypes); i++)
    if (!strcmp(dtypes[i].name, name)) return &dtypes[i];
  return NULL;
}

// ---- reading -----------------------------------------------------------------------------------

#define FAIL(...) return wrong(weights, err, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) static int wrong(const Weights *weights, Error *err,
                                                       const char *format, ...) {
  char why[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  return err_set(err, ExitBadInput, "weights '%s': %s", weights->path, why);
}

static int read_shape(const Weights *weights, json_t *list, WeightTensor *tensor, uint64_t *bytes,
                      Error *err) {
  size_t rank = json_array_size(list);
  if (!json_is_array(list) || rank > PlanMaxRank)
    FAIL("'%s': shape is not a list of at most %d numbers", tensor->name, PlanMaxRank);
  tensor->rank = (int)rank;
  for (size_t i = 0; i < rank; i++) {
    json_t *size = json_array_get(list, i);
    if (!json_is_integer(size) || json_integer_value(size) < 0)
      FAIL("'%s': shape has an element that is not a size", tensor->name);
    tensor->shape[i] = json_integer_value(size);
    if (__builtin_mul_overflow(*bytes, (uint64_t)tensor->shape[i], bytes))
      FAIL("'%s': shape is too large for any file", tensor->name);
  }
  return ExitOk;
}

static int read_offsets(const Weights *weights, json_t *list, const char *name, uint64_t *begin,
                        uint64_t *end, Error *err) {
  json_t *first = json_array_get(list, 0), *second = json_array_get(list, 1);
  if (json_array_size(list) != 2 || !json_is_integer(first) || !json_is_integer(second) ||
      json_integer_value(first) < 0 || json_integer_value(second) < json_integer_value(first))
    FAIL("'%s': data_offsets is not [begin, end]", name);
  *begin = (uint64_t)json_integer_value(first);
  *end = (uint64_t)json_integer_value(second);
  return ExitOk;
}

static int read_tensor(const Weights *weights, const char *name, json_t *entry, size_t data,
                       WeightTensor *tensor, Error *err) {
  uint64_t begin = 0, end = 0, room = weights->view.size - data;
  const char *dtype_text = json_string_value(json_object_get(entry, "dtype"));
  const WeightDtype *dtype = dtype_text ? find_dtype(dtype_text) : NULL;
  *tensor = (WeightTensor){.name = name};
  if (!*name) FAIL("a tensor has an empty name");
  if (!dtype) FAIL("'%s': dtype '%.40s' is not known", name, dtype_text ? dtype_text : "");
  uint64_t bytes = dtype->size;
  int rc = read_shape(weights, json_object_get(entry, "shape"), tensor, &bytes, err);
  if (!rc)
    rc = read_offsets(weights, json_object_get(entry, "data_offsets"), name, &begin, &end, err);
  if (rc) return rc;
  if (end > room)
    FAIL("'%s': ends at byte %llu of %llu data bytes; is the file truncated?", name,
         (unsigned long long)end, (unsigned long long)room);
  if (end - begin != bytes)
    FAIL("'%s': data_offsets span %llu bytes, shape and dtype make %llu", name,
         (unsigned long long)(end - begin), (unsigned long long)bytes);
  tensor->dtype = dtype->name;
  tensor->data = weights->view.bytes + data + begin;
  tensor->bytes = bytes;
  return ExitOk;
}

static int by_offset(const void *a, const void *b) {
  const WeightTensor *left = a, *right = b;
  if (left->data != right->data) return left->data < right->data ? -1 : 1;
  return (left->bytes > right->bytes) - (left->bytes < right->bytes); // empty ones first
}

static int check_cover(const Weights *weights, const uint8_t *data, Error *err) {
  const uint8_t *expected = data, *end = weights->view.bytes + weights->view.size;
  for (int i = 0; i < weights->count; i++) {
    const uint8_t *begin = weights->tensors[i].data;
    if (begin != expected)
      FAIL("'%s': begins at data byte %lld, the tensor before ends at %lld: %s",
           weights->tensors[i].name, (long long)(begin - data), (long long)(expected - data),
           begin < expected ? "they overlap" : "a hole");
    expected = begin + weights->tensors[i].bytes;
  }
  if (expected != end) FAIL("%lld bytes follow the last tensor", (long long)(end - expected));
  return ExitOk;
}

static int check_metadata(const Weights *weights, json_t *metadata, Error *err) {
  const char *key;
  json_t *value;
  if (!json_is_object(metadata)) FAIL("__metadata__ is not an object");
  json_object_foreach(metadata, key, value) if (!json_is_string(value))
      FAIL("__metadata__ '%.80s' is not a string", key);
  return ExitOk;
}

static int read_entries(Weights *weights, size_t data, Error *err) {
  const char *name;
  json_t *entry;
  int rc = ExitOk;
  weights->tensors = heap_alloc(json_object_size(weights->root), sizeof *weights->tensors);
  if (!weights->tensors) return heap_error(err, "reading weights");
  json_object_foreach(weights->root, name, entry) {
    if (!strcmp(name, "__metadata__"))
      rc = check_metadata(weights, entry, err);
    else
      rc = read_tensor(weights, name, entry, data, &weights->tensors[weights->count++], err);
    if (rc) return rc;
  }
  qsort(weights->tensors, (size_t)weights->count, sizeof *weights->tensors, by_offset);
  return check_cover(weights, weights->view.bytes + data, err);
}

static int read_header(Weights *weights, Error *err) {
  uint64_t length = 0;
  json_error_t where;
  size_t size = weights->view.size;
  if (size < 8) FAIL("has %zu bytes, a safetensors file has at least 8", size);
  for (int i = 7; i >= 0; i--) length = length << 8 | weights->view.bytes[i];
  const char *text = (const char *)weights->view.bytes + 8;
  if (size == 8 || *text != '{')
    FAIL("the header does not begin with '{': this is not a safetensors file; in Python, "
         "safetensors.torch.save_file(model.state_dict(), FILE) writes one");
  if (length > kMaxHeader)
    FAIL("header of %llu bytes, most is %zu; is this a safetensors file?",
         (unsigned long long)length, kMaxHeader);
  if (length > size - 8)
    FAIL("header of %llu bytes in a file of %zu; is the file truncated?",
         (unsigned long long)length, size);
  if (!length) FAIL("the header is empty");
  weights->root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
  if (!weights->root) FAIL("header, byte %d: %s", where.position, where.text);
  return read_entries(weights, 8 + length, err);
}

int weights_open(const char *path, Weights **out, Error *err) {
  size_t length = strlen(path);
  *out = NULL;
  if (length > 5 && !strcmp(path + length - 5, ".json")) return weights_open_index(path, out, err);
  Weights *weights = heap_alloc(1, sizeof *weights);
  if (!weights) return heap_error(err, "reading weights");
  weights->path = path;
  int rc = file_view("weights", path, &weights->view, err);
  if (!rc) rc = read_header(weights, err);
  weights->path = NULL;
  if (rc)
    weights_close(weights);
  else
    *out = weights;
  return rc;
}

int weights_join(Weights **files, int nfiles, WeightTensor *tensors, int count, Weights **out,
                 Error *err) {
  Weights *weights = *out = heap_alloc(1, sizeof *weights);
  if (!weights) return heap_error(err, "reading weights");
  *weights = (Weights){.tensors = tensors, .count = count, .files = files, .nfiles = nfiles};
  return ExitOk;
}

void weights_close(Weights *weights) {
  if (!weights) return;
  for (int i = 0; i < weights->nfiles; i++) weights_close(weights->files[i]);
  free(weights->files);
  json_decref(weights->root);
  file_unview(&weights->view);
  free(weights->tensors);
  free(weights);
}

int weights_count(const Weights *weights) {
  return weights->count;
}
const WeightTensor *weights_at(const Weights *weights, int index) {
  return &weights->tensors[index];
}

const WeightTensor *weights_find(const Weights *weights, const char *name) {
  for (int i = 0; i < weights->count; i++)
    if (!strcmp(weights->tensors[i].name, name)) return &weights->tensors[i];
  return NULL;
}

const char *weights_metadata(const Weights *weights, const char *key) {
  return json_string_value(json_object_get(json_object_get(weights->root, "__metadata__"), key));
}

int weights_metadata_pairs(const Weights *weights, const char ***pairs, Error *err) {
  json_t *metadata = json_object_get(weights->root, "__metadata__"), *value;
  const char *key;
  size_t count = 0;
  *pairs = heap_alloc(2 * json_object_size(metadata) + 1, sizeof **pairs);
  if (!*pairs) return heap_error(err, "reading weights");
  json_object_foreach(metadata, key, value) {
    (*pairs)[count++] = key;
    (*pairs)[count++] = json_string_value(value);
  }
  return ExitOk;
}
