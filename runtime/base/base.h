// base.h: memory, errors, files and numbers for all folders of the runtime, by file.
#ifndef NNGEN_RUNTIME_BASE_H
#define NNGEN_RUNTIME_BASE_H

#include "nngen_runtime.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// ---- heap.c: host memory ----------------------------------------------------------------------

void *heap_alloc(size_t count, size_t size); // zeroed; NULL if out of memory or on overflow
void *heap_grow(void *block, size_t count, size_t size); // realloc; the new part is not zeroed
char *heap_copy(const char *text);
char *heap_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
int heap_error(Error *err, const char *what); // "out of memory: WHAT"
void heap_fail_after(int64_t allocations);    // tests: the call after this many fails; -1: none

// ---- random.c ---------------------------------------------------------------------------------

uint64_t random_at(uint64_t key, uint64_t at); // depends only on both, on every machine

// ---- file.c: files read whole, files replaced whole -------------------------------------------

typedef struct FileView { // a regular file, mapped for reading
  const uint8_t *bytes;
  size_t size;
} FileView;

// Errors: ExitBadInput, "KIND 'PATH': why".
int file_view(const char *kind, const char *path, FileView *view, Error *err);
void file_unview(FileView *view);

typedef struct FileWriter { // bytes for a file that appears under its name only when complete
  FILE *file;
  const char *kind;
  char path[512], temp[544];
  bool keeps;
} FileWriter;

int file_begin(const char *kind, const char *path, FileWriter *writer, Error *err);
// For files that must survive a kill at any moment: the previous file stays as PATH.previous; the
// temporary file is PATH.tmp, so that the next writer replaces one that a kill left.
int file_begin_keeping(const char *kind, const char *path, FileWriter *writer, Error *err);
int file_write(FileWriter *writer, const void *bytes, size_t size, Error *err); // aborts on error
int file_commit(FileWriter *writer, Error *err);                                // aborts on error
void file_abort(FileWriter *writer);
// All bytes or none at the end of an open file: a full disk leaves it as it was.
int file_append(const char *kind, const char *path, int fd, const void *bytes, size_t size,
                Error *err);
void file_fail_after(int64_t writes); // tests: the next write after this many fails; -1: none

// ---- log --------------------------------------------------------------------------------------

void log_warn(const Log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_info(const Log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
