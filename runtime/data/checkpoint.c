// checkpoint.c: safetensors files that survive a kill at any moment, with checksums that detect
// damage.
//
// A new file replaces the old one by renames (base/file.c), which stays as PATH.previous: at any
// moment one of PATH, PATH.previous and, between the two renames, PATH.tmp is whole. XXH3 sums in
// the metadata cover each tensor's bytes and, key "xxh3", the header.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "data/data.h"

static const char kWhole[] = "xxh3", kTensor[] = "xxh3.";

typedef char Sum[17]; // 16 hexadecimal digits

static void print_sum(uint64_t hash, Sum sum) {
  snprintf(sum, sizeof(Sum), "%016llx", (unsigned long long)hash);
}

static void sum_tensor(const WeightTensor *tensor, Sum sum) {
  print_sum(XXH3_64bits(tensor->data, tensor->bytes), sum);
}

static uint64_t hash_text(const char *text, uint64_t seed) {
  return XXH3_64bits_withSeed(text, strlen(text), seed);
}

// Checksum of names, dtypes, shapes and metadata (without itself), independent of their order.
static void sum_header(const WeightTensor *tensors, int count, const char *const *metadata,
                       Sum sum) {
  enum { OfTensor = 1, OfPair = 2 };
  uint64_t total = 0;
  for (int i = 0; i < count; i++) {
    const WeightTensor *tensor = &tensors[i];
    uint64_t hash = hash_text(tensor->dtype, hash_text(tensor->name, OfTensor));
    total +=
        XXH3_64bits_withSeed(tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape, hash);
  }
  for (; *metadata; metadata += 2)
    if (strcmp(metadata[0], kWhole))
      total += hash_text(metadata[1], hash_text(metadata[0], OfPair));
  print_sum(total, sum);
}

// ---- writing -----------------------------------------------------------------------------------

typedef struct Sums { // the metadata with checksums
  const char **pairs; // the caller's, the tensors', the whole's, NULL
  char **keys;        // of the tensors
  Sum *sums, whole;
  int count;
} Sums;

static void free_sums(Sums *sums) {
  for (int i = 0; sums->keys && i < sums->count; i++) free(sums->keys[i]);
  free(sums->pairs);
  free(sums->keys);
  free(sums->sums);
}

static bool make_sums(Sums *sums, const WeightTensor *tensors, int count,
                      const char *const *metadata) {
  size_t given = 0;
  while (metadata && metadata[given]) given += 2;
  *sums = (Sums){.count = count};
  sums->pairs = heap_alloc(given + 2 * (size_t)count + 3, sizeof *sums->pairs);
  sums->keys = heap_alloc((size_t)count, sizeof *sums->keys);
  sums->sums = heap_alloc((size_t)count, sizeof *sums->sums);
  if (!sums->pairs || !sums->keys || !sums->sums) return false;
  const char **pair = sums->pairs + given;
  if (given) memcpy(sums->pairs, metadata, given * sizeof *metadata);
  for (int i = 0; i < count; i++) {
    sums->keys[i] = heap_format("%s%s", kTensor, tensors[i].name);
    if (!sums->keys[i]) return false;
    sum_tensor(&tensors[i], sums->sums[i]);
    *pair++ = sums->keys[i];
    *pair++ = sums->sums[i];
  }
  sum_header(tensors, count, sums->pairs, sums->whole);
  *pair++ = kWhole;
  *pair++ = sums->whole;
  return true;
}

int checkpoint_write(const char *path, const WeightTensor *tensors, int ntensors,
                     const char *const *metadata, Error *err) {
  Sums sums;
  FileWriter writer;
  int rc = make_sums(&sums, tensors, ntensors, metadata) ? ExitOk
                                                         : heap_error(err, "writing a checkpoint");
  if (!rc) rc = file_begin_keeping("checkpoint", path, &writer, err);
  if (!rc) rc = weights_write_to(&writer, tensors, ntensors, sums.pairs, err);
  free_sums(&sums);
  return rc;
}

// ---- reading -----------------------------------------------------------------------------------

static int verify_header(const char *path, const Weights *weights, Error *err) {
  const char *expected = weights_metadata(weights, kWhole), **pairs;
  Sum sum;
  if (!expected)
    return err_set(err, ExitBadInput,
                   "weights '%s': has no checksums; it is not a checkpoint of a training run",
                   path);
  int rc = weights_metadata_pairs(weights, &pairs, err);
  if (rc) return rc;
  sum_header(weights_at(weights, 0), weights_count(weights), pairs, sum);
  free(pairs);
  if (!strcmp(sum, expected)) return ExitOk;
  return err_set(err, ExitBadInput, "weights '%s': the header does not match its checksum", path);
}

static int verify_tensor(const char *path, const Weights *weights, const WeightTensor *tensor,
                         Error *err) {
  Sum sum;
  char *key = heap_format("%s%s", kTensor, tensor->name);
  if (!key) return heap_error(err, "reading a checkpoint");
  const char *expected = weights_metadata(weights, key);
  free(key);
  sum_tensor(tensor, sum);
  if (expected && !strcmp(sum, expected)) return ExitOk;
  return err_set(err, ExitBadInput, "weights '%s': '%s' does not match its checksum", path,
                 tensor->name);
}

static int open_verified(const char *path, Weights **weights, Error *err) {
  int rc = weights_open(path, weights, err);
  if (rc) return rc;
  rc = verify_header(path, *weights, err);
  for (int i = 0; i < weights_count(*weights) && !rc; i++)
    rc = verify_tensor(path, *weights, weights_at(*weights, i), err);
  if (!rc) return ExitOk;
  weights_close(*weights);
  *weights = NULL;
  return rc;
}

// Opens the checkpoint at one of its paths; collects the errors of damaged ones in *why.
static int open_at(const char *path, const char *ending, Weights **weights, Error *why,
                   Error *err) {
  Error wrong = {0};
  char *place = heap_format("%s%s", path, ending);
  if (!place) return heap_error(err, "reading a checkpoint");
  int rc = open_verified(place, weights, &wrong);
  if (rc && !*ending)
    *why = wrong;
  else if (rc && (!access(place, F_OK) || errno != ENOENT))
    err_set(why, rc, "%.2000s; %s", why->message, wrong.message);
  if (rc != ExitOk && rc != ExitBadInput) *err = wrong;
  free(place);
  return rc;
}

int checkpoint_open(const char *path, Weights **weights, char **fell_back, Error *err) {
  static const char *const endings[] = {"", ".previous", ".tmp"};
  Error why = {0};
  int i = 0, rc;
  *weights = NULL, *fell_back = NULL;
  do {
    rc = open_at(path, endings[i], weights, &why, err);
  } while (rc == ExitBadInput && ++i < COUNT(endings));
  if (rc == ExitBadInput) *err = why;
  if (rc || !i) return rc;
  *fell_back = heap_format("%s; continuing from '%s%s'", why.message, path, endings[i]);
  if (*fell_back) return ExitOk;
  weights_close(*weights);
  *weights = NULL;
  return heap_error(err, "reading a checkpoint");
}
