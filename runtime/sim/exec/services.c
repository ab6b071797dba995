// services.c: what a kernel asks the host for: text, the time, its own end.
#include "sim/exec/exec.h"

#include <stdarg.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

// A kernel's printf. The text is made first: a bad pointer in the arguments faults there, where no
// lock is held that the rest of the program would wait for.
int cusim_printf(const char *format, ...) {
  char text[2048], *all = text;
  va_list ap, again;
  va_start(ap, format);
  va_copy(again, ap);
  int length = vsnprintf(text, sizeof text, format, ap);
  if (length >= (int)sizeof text && (all = malloc((size_t)length + 1)))
    vsnprintf(all, (size_t)length + 1, format, again);
  va_end(again);
  va_end(ap);
  if (length > 0 && all) fwrite(all, 1, (size_t)length, stdout);
  if (all != text) free(all);
  return length;
}

void cusim_trap(void) {
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, __builtin_return_address(0), "the kernel trapped");
}

void cusim_assert_fail(const char *condition, const char *file, int line, const char *function) {
  fault_raise(CUDA_ERROR_ASSERT, __builtin_return_address(0), "%s:%d: %s: assertion `%s` failed",
              file, line, function, condition);
}

long long cusim_clock(void) {
#if defined(__x86_64__)
  return (long long)__rdtsc();
#else
  return sim_now();
#endif
}

long long cusim_nanotime(void) {
  return sim_now();
}
