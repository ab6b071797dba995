// weights_shards.c: weights in several safetensors files with an index: a JSON object with a
// "weight_map" from each tensor's name to a file next to the index, like Hugging Face's
// model.safetensors.index.json.
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "data/data.h"

typedef struct Shards {
  const char *path; // of the index
  json_t *root, *map;
  const char **names; // of the files, each once
  Weights **files;
  int nfiles;
  WeightTensor *tensors;
  int count;
} Shards;

#define WRONG(...) err_set(err, ExitBadInput, "weights '" __VA_ARGS__)

static int read_index(Shards *s, Error *err) {
  json_error_t where;
  FileView view;
  int rc = file_view("weights", s->path, &view, err);
  if (rc) return rc;
  s->root = json_loadb((const char *)view.bytes, view.size, JSON_REJECT_DUPLICATES, &where);
  file_unview(&view);
  if (!s->root) return WRONG("%s': line %d: %s", s->path, where.line, where.text);
  s->map = json_object_get(s->root, "weight_map");
  size_t count = json_object_size(s->map);
  if (!count) return WRONG("%s': there is no \"weight_map\" of tensors and their files", s->path);
  s->names = heap_alloc(count, sizeof *s->names);
  s->files = heap_alloc(count, sizeof *s->files);
  s->tensors = heap_alloc(count, sizeof *s->tensors);
  return s->names && s->files && s->tensors ? ExitOk : heap_error(err, "reading weights");
}

// The file of this name next to the index, opened on first use.
static int find_file(Shards *s, const char *name, Weights **file, Error *err) {
  for (int i = 0; i < s->nfiles; i++)
    if (!strcmp(s->names[i], name)) {
      *file = s->files[i];
      return ExitOk;
    }
  size_t length = strlen(name);
  if (strchr(name, '/') || length < 13 || strcmp(name + length - 12, ".safetensors"))
    return WRONG("%s': '%.80s' is not a .safetensors file in its folder", s->path, name);
  const char *slash = strrchr(s->path, '/');
  size_t folder = slash ? (size_t)(slash - s->path) + 1 : 0, room = folder + length + 1;
  char *path = heap_alloc(room, 1);
  if (!path) return heap_error(err, "reading weights");
  snprintf(path, room, "%.*s%s", (int)folder, s->path, name);
  int rc = weights_open(path, file, err);
  free(path);
  if (rc) return rc;
  s->names[s->nfiles] = name;
  s->files[s->nfiles++] = *file;
  return ExitOk;
}

static int read_map(Shards *s, Error *err) {
  const char *name;
  json_t *value;
  json_object_foreach(s->map, name, value) {
    Weights *file = NULL;
    const char *of = json_string_value(value);
    if (!of) return WRONG("%s': the file of '%.80s' is not a string", s->path, name);
    int rc = find_file(s, of, &file, err);
    if (rc) return rc;
    const WeightTensor *tensor = weights_find(file, name);
    if (!tensor) return WRONG("%s': '%.80s' is not in %s", s->path, name, of);
    s->tensors[s->count++] = *tensor;
  }
  return ExitOk;
}

int weights_open_index(const char *path, Weights **weights, Error *err) {
  Shards s = {.path = path};
  int rc = read_index(&s, err);
  if (!rc) rc = read_map(&s, err);
  if (!rc) rc = weights_join(s.files, s.nfiles, s.tensors, s.count, weights, err);
  if (rc) { // else they are the result's
    for (int i = 0; i < s.nfiles; i++) weights_close(s.files[i]);
    free(s.files);
    free(s.tensors);
  }
  free(s.names);
  json_decref(s.root);
  return rc;
}
