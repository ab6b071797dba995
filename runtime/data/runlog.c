// runlog.c: the log of a training run: a JSON object per line, and scalars for TensorBoard.
//
// A line is appended whole or not at all; a partial last line after a kill is removed when the run
// resumes.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "data/data.h"

static const char kKind[] = "run log";

struct RunLog {
  char *path;
  int fd;
  Events *events; // or NULL
};

// ---- opening -----------------------------------------------------------------------------------

// Truncates a file after its last newline.
static int cut_last_line(int fd) {
  char bytes[4096];
  off_t end = lseek(fd, 0, SEEK_END);
  while (end > 0) {
    off_t begin = end > (off_t)sizeof bytes ? end - (off_t)sizeof bytes : 0;
    ssize_t count = pread(fd, bytes, (size_t)(end - begin), begin);
    if (count != end - begin) return -1;
    const char *last = memrchr(bytes, '\n', (size_t)count);
    if (last) return ftruncate(fd, begin + (last - bytes) + 1);
    end = begin;
  }
  return ftruncate(fd, 0);
}

static int open_lines(RunLog *log, bool append, Error *err) {
  int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | (append ? 0 : O_TRUNC);
  log->fd = open(log->path, flags, 0666);
  if (log->fd >= 0 && (!append || !cut_last_line(log->fd))) return ExitOk;
  return err_set(err, ExitBadInput, "%s '%s': %s", kKind, log->path, strerror(errno));
}

int runlog_open(const char *folder, bool append, bool tensorboard, RunLog **out, Error *err) {
  *out = NULL;
  if (mkdir(folder, 0777) && errno != EEXIST)
    return err_set(err, ExitBadInput, "%s '%s': %s", kKind, folder, strerror(errno));
  RunLog *log = heap_alloc(1, sizeof *log);
  if (!log) return heap_error(err, "opening a run log");
  log->fd = -1;
  log->path = heap_format("%s/log.jsonl", folder);
  int rc = log->path ? open_lines(log, append, err) : heap_error(err, "opening a run log");
  if (!rc && tensorboard) rc = events_open(folder, &log->events, err);
  if (rc)
    runlog_close(log);
  else
    *out = log;
  return rc;
}

// The step that a line begins with, or -1.
static long long step_of(const char *line) {
  long long step;
  return sscanf(line, "{\"step\":%lld", &step) == 1 ? step : -1;
}

int runlog_cut(RunLog *log, int64_t step, Error *err) {
  FILE *file = fopen(log->path, "rb");
  char *line = NULL;
  size_t room = 0;
  ssize_t length;
  off_t keep = 0;
  while (file && (length = getline(&line, &room, file)) >= 0 && step_of(line) <= step)
    keep += length;
  free(line);
  bool failed = !file || ferror(file);
  if (file) fclose(file);
  if (!failed && !ftruncate(log->fd, keep) && lseek(log->fd, 0, SEEK_END) >= 0) return ExitOk;
  return err_set(err, ExitBadInput, "%s '%s': %s", kKind, log->path, strerror(errno));
}

void runlog_close(RunLog *log) {
  if (!log) return;
  events_close(log->events);
  if (log->fd >= 0) close(log->fd);
  free(log->path);
  free(log);
}

// ---- writing -----------------------------------------------------------------------------------

// A count stays one: 2, not 2.0.
static json_t *describe(double value) {
  static const double most = 9007199254740992; // 2^53: whole numbers up to it are exact
  if (!isfinite(value)) return json_null();
  bool whole = fabs(value) <= most && value == trunc(value);
  return whole ? json_integer((json_int_t)value) : json_real(value);
}

// The line with its end; NULL: no memory, or a name that is not UTF-8.
static char *make_line(int64_t step, const LogValue *values, int count) {
  json_t *object = json_object();
  bool failed = json_object_set_new(object, "step", json_integer(step)) != 0;
  for (int i = 0; i < count; i++)
    failed = json_object_set_new(object, values[i].name, describe(values[i].value)) || failed;
  char *text = failed ? NULL : json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
  json_decref(object);
  char *line = text ? heap_format("%s\n", text) : NULL;
  free(text);
  return line;
}

int runlog_write(RunLog *log, int64_t step, const LogValue *values, int count, Error *err) {
  char *line = make_line(step, values, count);
  if (!line)
    return err_set(err, ExitBadInput, "%s '%s': out of memory, or a name that is not UTF-8", kKind,
                   log->path);
  int rc = file_append(kKind, log->path, log->fd, line, strlen(line), err);
  free(line);
  if (!rc && log->events) rc = events_write(log->events, step, values, count, err);
  return rc;
}
