// heap.c: host memory that may run out, errors, and the log.
//
// Every allocation of the runtime goes through here, so that a test can make the n-th one fail.
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static atomic_llong allocations_left = -1;

void heap_fail_after(int64_t allocations) {
  atomic_store(&allocations_left, allocations);
}

// Counts one allocation; true when it is the one that has to fail.
static bool must_fail(void) {
  long long left = atomic_load(&allocations_left);
  while (left >= 0 && !atomic_compare_exchange_weak(&allocations_left, &left, left - 1)) {
  }
  return left == 0;
}

void *heap_alloc(size_t count, size_t size) {
  if (must_fail()) return NULL;
  return calloc(count ? count : 1, size);
}

void *heap_grow(void *block, size_t count, size_t size) {
  size_t bytes;
  if (must_fail() || __builtin_mul_overflow(count, size, &bytes)) return NULL;
  return realloc(block, bytes ? bytes : 1);
}

char *heap_copy(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = heap_alloc(size, 1);
  return copy ? memcpy(copy, text, size) : NULL;
}

char *heap_format(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = length < 0 ? NULL : heap_alloc((size_t)length + 1, 1);
  if (!text) return NULL;
  va_start(args, format);
  vsnprintf(text, (size_t)length + 1, format, args);
  va_end(args);
  return text;
}

int heap_error(Error *err, const char *what) {
  return err_set(err, ExitNoDevice, "out of host memory: %s; free some, or make the model smaller",
                 what);
}

int err_set(Error *err, int code, const char *format, ...) {
  char message[sizeof err->message]; // an argument may be err->message itself
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  err->code = code;
  memcpy(err->message, message, sizeof message);
  return code;
}

static void log_write(const Log *log, LogLevel level, const char *format, va_list args) {
  static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; // kernels are compiled by many threads
  char message[2048];
  if (!log || !log->write) return;
  vsnprintf(message, sizeof message, format, args);
  pthread_mutex_lock(&turn);
  log->write(log->user, level, message);
  pthread_mutex_unlock(&turn);
}

void log_warn(const Log *log, const char *format, ...) {
  va_list args;
  va_start(args, format);
  log_write(log, LogWarning, format, args);
  va_end(args);
}

void log_info(const Log *log, const char *format, ...) {
  va_list args;
  va_start(args, format);
  log_write(log, LogInfo, format, args);
  va_end(args);
}
