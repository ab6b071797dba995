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

static int begin(const char *kind, const char *path, FileWriter *writer, Error *err) {
  *writer = (FileWriter){.kind = kind};
  if ((size_t)snprintf(writer->path, sizeof writer->path, "%s", path) >= sizeof writer->path)
    return fail(err, kind, path, "the path is too long");
  return ExitOk;
}

static int begin_at(FileWriter *writer, int fd, Error *err) {
  if (fd < 0) return fail(err, writer->kind, writer->path, strerror(errno));
  writer->file = fdopen(fd, "wb");
  if (writer->file) return ExitOk;
  close(fd);
  unlink(writer->temp);
  return fail(err, writer->kind, writer->path, strerror(errno));
}

int file_begin(const char *kind, const char *path, FileWriter *writer, Error *err) {
  int rc = begin(kind, path, writer, err);
  if (rc) return rc;
  snprintf(writer->temp, sizeof writer->temp, "%s.tmp.XXXXXX", writer->path);
  int fd = mkstemp(writer->temp);
  mode_t mask = umask(0);
  umask(mask);
  if (fd >= 0) fchmod(fd, 0666 & ~mask); // mkstemp makes 0600; a result is an ordinary file
  return begin_at(writer, fd, err);
}

int file_begin_keeping(const char *kind, const char *path, FileWriter *writer, Error *err) {
  int rc = begin(kind, path, writer, err);
  if (rc) return rc;
  writer->keeps = true;
  snprintf(writer->temp, sizeof writer->temp, "%s.tmp", writer->path);
  int fd = open(writer->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return begin_at(writer, fd, err);
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

static int sync_folder(const char *path) {
  char folder[sizeof((FileWriter *)NULL)->path];
  const char *slash = strrchr(path, '/');
  int length = slash ? (int)(slash - path) + 1 : 1;
  snprintf(folder, sizeof folder, "%.*s", length, slash ? path : ".");
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int rc = must_fail() || (fsync(fd) && errno != EINVAL) ? -1 : 0; // EINVAL: not on this system
  close(fd);
  return rc;
}

static int put_in_place(const FileWriter *writer) {
  char previous[sizeof writer->temp];
  if (!writer->keeps) return rename(writer->temp, writer->path);
  snprintf(previous, sizeof previous, "%s.previous", writer->path);
  if (must_fail() || (rename(writer->path, previous) && errno != ENOENT)) return -1;
  if (must_fail() || rename(writer->temp, writer->path)) {
    int why = errno;
    int back = rename(previous, writer->path); // the previous file, if any
    (void)back;
    errno = why;
    return -1;
  }
  return sync_folder(writer->path);
}

int file_commit(FileWriter *writer, Error *err) {
  if (must_fail() || fflush(writer->file) || fsync(fileno(writer->file)))
    return abort_with(writer, err);
  FILE *file = writer->file;
  writer->file = NULL;
  if (fclose(file) || put_in_place(writer)) {
    int why = errno;
    unlink(writer->temp);
    return fail(err, writer->kind, writer->path, strerror(why));
  }
  return ExitOk;
}

int file_append(const char *kind, const char *path, int fd, const void *bytes, size_t size,
                Error *err) {
  off_t end = lseek(fd, 0, SEEK_END);
  if (end < 0) return fail(err, kind, path, strerror(errno));
  for (size_t done = 0; done < size;) {
    ssize_t written = must_fail() ? -1 : write(fd, (const uint8_t *)bytes + done, size - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      fail(err, kind, path, strerror(errno));
      int cut = ftruncate(fd, end);
      (void)cut; // nothing more can be done
      return err->code;
    }
    done += (size_t)written;
  }
  return ExitOk;
}

// ---- folders ----------------------------------------------------------------------------------

bool file_make_parents(const char *path, unsigned mode) {
  char part[4096];
  for (const char *at = path; (at = strchr(at + 1, '/'));) {
    size_t length = (size_t)(at - path);
    if (length >= sizeof part) return errno = ENAMETOOLONG, false;
    snprintf(part, sizeof part, "%.*s", (int)length, path);
    if (mkdir(part, mode) && errno != EEXIST) return false;
  }
  return true;
}
