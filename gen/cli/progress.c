// progress.c: progress and warnings, on stderr. The bar is one line, on a terminal only; NO_COLOR
// keeps warnings plain.
#include "cli.h"

#include <stdlib.h>
#include <unistd.h>

static bool shown;

static void step(void *user, const char *what, int done, int total) {
  (void)user;
  enum { kWidth = 32 };
  int filled = total ? done * kWidth / total : 0;
  char bar[kWidth + 1];
  for (int i = 0; i < kWidth; i++) bar[i] = i < filled ? '#' : '.';
  bar[kWidth] = 0;
  fprintf(stderr, "\r\033[K%s [%s] %d/%d", what, bar, done, total);
  fflush(stderr);
  shown = true;
}

void progress_end(void) {
  if (shown) fputs("\r\033[K", stderr);
  shown = false;
}

Progress progress_bar(void) {
  return (Progress){isatty(STDERR_FILENO) ? step : NULL, NULL};
}

static void write_line(void *user, LogLevel level, const char *message) {
  (void)user;
  progress_end();
  bool color = isatty(STDERR_FILENO) && !getenv("NO_COLOR");
  if (level == LogWarning)
    fprintf(stderr, color ? "\033[33mnngen: warning: %s\033[0m\n" : "nngen: warning: %s\n",
            message);
  else if (getenv("NNGEN_VERBOSE"))
    fprintf(stderr, "nngen: %s\n", message);
}

Log log_to_stderr(void) {
  return (Log){write_line, NULL};
}
