// error.c: the lock, the names of errors, the line that says why a call is refused, and the time.
#include "sim/base/base.h"

#include <stdarg.h>
#include <time.h>

pthread_mutex_t sim_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

const char *error_name(CUresult error) {
#define CASE(text, code, words)                                                                    \
  case code:                                                                                       \
    return "CUDA_ERROR_" #text;
  switch ((int)error) {
  case 0:
    return "CUDA_SUCCESS";
    CUDA_ERRORS(CASE)
  default:
    return NULL;
  }
#undef CASE
}

CUresult sim_refuse(CUresult error, const char *format, ...) {
  const char *name = error_name(error);
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  fprintf(stderr, "libcusim: %s (%s)\n", text, name ? name : "unknown error");
  return error;
}

int64_t sim_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}
