// error.c: the lock, the names of errors, the text of a refusal, and the time.
#include "sim/base/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
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

// NOTE: allocated per thread on first use: the loader has little static TLS room for a library.
static pthread_key_t said_key;

static void make_key(void) {
  pthread_key_create(&said_key, free);
}

static char *said(size_t room) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_key);
  char *words = pthread_getspecific(said_key);
  if (words || !room) return words;
  words = calloc(1, room);
  pthread_setspecific(said_key, words);
  return words;
}

const char *sim_said(void) {
  char *words = said(0);
  return words ? words : "";
}

CUresult sim_refuse(CUresult error, const char *format, ...) {
  const char *name = error_name(error);
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  char *kept = said(sizeof text);
  if (kept) memcpy(kept, text, sizeof text);
  fprintf(stderr, "libcusim: %s (%s)\n", text, name ? name : "unknown error");
  return error;
}

int64_t sim_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}
