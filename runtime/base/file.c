// file.c: reading a file whole, and replacing a file whole.
//
// A written file appears under its name only when every byte is on disk: temporary file in the same
// folder, fsync, rename. A reader, or a crash, sees the old file or the new one.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

static int fail(Error *err, const char *kind, const char *path, const char *why) {
  return err_set(err, ExitBadInput, "%s '%s': %s", kind, path, why);
}

static int map_file(int fd, const char *kind, const char *path, FileView *view, Error *err) {
  struct stat info;
  if (fstat(fd, &info)) return fail(err, kind, path, strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail(err, kind, path, "is not a regular file");
  view->size = (size_t)info.st_size;
  if (!view->size) return ExitOk; // mmap refuses an empty file
  void *bytes = mmap(NULL, view->size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) return fail(err, kind, path, strerror(errno));
  view->bytes = bytes;
  return ExitOk;
}

int file_view(const char *kind, const char *path, FileView *view, Error *err) {
  *view = (FileView){(const uint8_t *)"", 0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not hang
  if (fd < 0) return fail(err, kind, path, strerror(errno));
  int rc = map_file(fd, kind, path, view, err);
  close(fd);
  return rc;
}

void file_unview(FileView *view) {
  if (view->size) munmap((void *)(uintptr_t)view->bytes, view->size);
  *view = (FileView){NULL, 0};
}

// ---- writing -----------------------------------------------------------------------------------

static atomic_llong writes_left = -1;

void file_fail_after(int64_t writes) {
  atomic_store(&writes_left, writes);
}

static bool must_fail(void) {
  long long left = atomic_load(&writes_left);
  if (left >= 0) atomic_store(&writes_left, left - 1);
  if (left == 0) errno = ENOSPC;
  return left == 0;
}

int file_begin(const char *kind, const char *path, FileWriter *writer, Error *err) {
  *writer = (FileWriter){.kind = kind};
  if ((size_t)snprintf(writer->path, sizeof writer->path, "%s", path) >= sizeof writer->path)
    return fail(err, kind, path, "the path is too long");
  snprintf(writer->temp, sizeof writer->temp, "%s.tmp.XXXXXX", path);
  int fd = mkstemp(writer->temp);
  if (fd < 0) return fail(err, kind, path, strerror(errno));
  mode_t mask = umask(0);
  umask(mask);
  fchmod(fd, 0666 & ~mask); // mkstemp makes 0600; a result is an ordinary file
  writer->file = fdopen(fd, "wb");
  if (writer->file) return ExitOk;
  close(fd);
  unlink(writer->temp);
  return fail(err, kind, path, strerror(errno));
}

void file_abort(FileWriter *writer) {
  if (!writer->file) return;
  fclose(writer->file);
  unlink(writer->temp);
  writer->file = NULL;
}

static int abort_with(FileWriter *writer, Error *err) {
  int why = errno;
  file_abort(writer);
  return fail(err, writer->kind, writer->path, strerror(why));
}

int file_write(FileWriter *writer, const void *bytes, size_t size, Error *err) {
  if (must_fail() || fwrite(bytes, 1, size, writer->file) != size) return abort_with(writer, err);
  return ExitOk;
}

int file_commit(FileWriter *writer, Error *err) {
  if (must_fail() || fflush(writer->file) || fsync(fileno(writer->file)))
    return abort_with(writer, err);
  FILE *file = writer->file;
  writer->file = NULL;
  if (fclose(file) || rename(writer->temp, writer->path)) {
    int why = errno;
    unlink(writer->temp);
    return fail(err, writer->kind, writer->path, strerror(why));
  }
  return ExitOk;
}
