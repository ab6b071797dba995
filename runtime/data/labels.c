// labels.c: class names, one a line, and the k largest scores.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/data.h"

static int wrong(const char *path, int line, Error *err, const char *why) {
  return err_set(err, ExitBadInput, "labels '%s', line %d: %s", path, line, why);
}

// Names are printed to a terminal: control characters are refused.
static bool is_plain(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)text[i] < ' ' || text[i] == 127) return false;
  return true;
}

static int add(Labels *labels, const char *path, const char *text, size_t length, Error *err) {
  if (length && text[length - 1] == '\r') length--;
  if (!is_plain(text, length)) return wrong(path, labels->count + 1, err, "control characters");
  char **names = heap_grow(labels->names, (size_t)labels->count + 1, sizeof *names);
  if (names) labels->names = names;
  char *name = names ? heap_alloc(length + 1, 1) : NULL;
  if (!name) return heap_error(err, "reading labels");
  labels->names[labels->count++] = memcpy(name, text, length);
  return ExitOk;
}

static int split(Labels *labels, const char *path, const FileView *view, Error *err) {
  const char *at = (const char *)view->bytes, *end = at + view->size;
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    int rc = add(labels, path, at, (size_t)(stop - at), err);
    if (rc) return rc;
    at = stop + 1;
  }
  return labels->count ? ExitOk : err_set(err, ExitBadInput, "labels '%s': is empty", path);
}

int labels_read(const char *path, Labels *labels, Error *err) {
  FileView view;
  *labels = (Labels){0};
  int rc = file_view("labels", path, &view, err);
  if (!rc) rc = split(labels, path, &view, err);
  file_unview(&view);
  if (rc) labels_free(labels);
  return rc;
}

void labels_free(Labels *labels) {
  for (int i = 0; i < labels->count; i++) free(labels->names[i]);
  free(labels->names);
  *labels = (Labels){0};
}

// NaN ranks last; equal scores by index.
static bool ranks_before(float left, float right) {
  return left > right || (isnan(right) && !isnan(left));
}

int labels_top(const float *scores, int count, int k, int *indices) {
  int taken = 0;
  for (int i = 0; i < count; i++) {
    int at = taken < k ? taken++ : k;
    for (; at > 0 && ranks_before(scores[i], scores[indices[at - 1]]); at--)
      if (at < k) indices[at] = indices[at - 1];
    if (at < k) indices[at] = i;
  }
  return taken;
}
