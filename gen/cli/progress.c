// progress.c: progress and warnings, on stderr. The bar is one line, on a terminal only; NO_COLOR
// keeps warnings plain.
#include "cli.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool shown;

static int terminal_width(void) {
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20 ? 80 : size.ws_col;
}

void progress_draw(const char *what, int64_t done, int64_t total, const char *after) {
  enum { kWide = 24, kNarrow = 10 };
  char bar[kWide + 1];
  int columns = terminal_width(), width = columns < 80 ? kNarrow : kWide;
  int filled = total ? (int)(done * width / total) : 0;
  for (int i = 0; i < width; i++) bar[i] = i < filled ? '#' : '.';
  bar[width] = 0;
  Buffer line = {0};
  buffer_put(&line, "%s [%s] %lld/%lld%s", what, bar, (long long)done, (long long)total, after);
  fprintf(stderr, "\r\033[K%.*s", columns - 1, line.text); // a longer one would wrap
  fflush(stderr);
  buffer_free(&line);
  shown = true;
}

static void step(void *user, const char *what, int done, int total) {
  (void)user;
  progress_draw(what, done, total, "");
}

void progress_end(void) {
  if (shown) fputs("\r\033[K", stderr);
  shown = false;
}

Progress progress_bar(void) {
  return (Progress){isatty(STDERR_FILENO) ? step : NULL, NULL, NULL};
}

static void say_compiling(void *user, int compiled, int cached) {
  (void)user;
  fprintf(stderr, "compiling %d kernel%s", compiled, compiled == 1 ? "" : "s");
  fprintf(stderr, cached ? "; %d from the cache\n" : "\n", cached);
}

Progress progress_lines(void) {
  Progress bar = progress_bar();
  if (!bar.step) bar.compiling = say_compiling;
  return bar;
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
