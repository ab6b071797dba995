// services.c: host services for kernels: text output, the time, ending themselves.
#include "sim/exec/exec.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

// A kernel's printf. The text is formatted first, so that a bad pointer in the arguments faults
// without holding a lock that the program needs.
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

void cusim_early_read(void) {
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, __builtin_return_address(0),
              "an accumulator of wgmma is read before wgmma.wait_group");
}

void cusim_no_fence(void) {
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, __builtin_return_address(0),
              "wgmma.fence is missing: a register of this wgmma.mma_async was written after the "
              "last one, or there was none");
}

// vprintf of device code: its values are consecutive, each aligned to its size.
static const unsigned char *take(const unsigned char *values, const unsigned char **at,
                                 size_t size) {
  size_t offset = ((size_t)(*at - values) + size - 1) / size * size;
  *at = values + offset + size;
  return values + offset;
}

// One conversion, `%-8.3lld`, whose letter is at spec[length - 1].
static void print_one(const char *spec, int length, const unsigned char *values,
                      const unsigned char **at) {
  char one[64];
  int stars[2] = {0}, nstars = 0;
  if (length >= (int)sizeof one) return;
  snprintf(one, sizeof one, "%.*s", length, spec);
  for (int i = 0; i < length && nstars < 2; i++)
    if (one[i] == '*') memcpy(&stars[nstars++], take(values, at, 4), 4);
  char kind = one[length - 1];
  bool wide = strstr(one, "ll") || strchr(one, 'l') || strchr(one, 'z') || strchr(one, 'j');
  if (strchr("fFeEgGaA", kind)) {
    double d;
    memcpy(&d, take(values, at, 8), 8);
    if (nstars == 2) printf(one, stars[0], stars[1], d);
    else if (nstars) printf(one, stars[0], d);
    else printf(one, d);
  } else if (wide || strchr("sp", kind)) {
    uint64_t v;
    memcpy(&v, take(values, at, 8), 8);
    if (nstars == 2) printf(one, stars[0], stars[1], v);
    else if (nstars) printf(one, stars[0], v);
    else printf(one, v);
  } else {
    uint32_t v;
    memcpy(&v, take(values, at, 4), 4);
    if (nstars == 2) printf(one, stars[0], stars[1], v);
    else if (nstars) printf(one, stars[0], v);
    else printf(one, v);
  }
}

int cusim_vprintf(const char *format, const unsigned char *values) {
  const unsigned char *at = values;
  int count = 0;
  if (!format) return -1;
  (void)*(const volatile char *)format; // a bad pointer faults here, without a lock
  for (const char *p = format; *p;) {
    size_t plain = strcspn(p, "%");
    fwrite(p, 1, plain, stdout);
    p += plain;
    if (!*p) break;
    if (p[1] == '%') {
      putchar('%');
      p += 2;
      continue;
    }
    int length = 1 + (int)strspn(p + 1, "-+ #0123456789.*hlzjt") + 1;
    if (!p[length - 1]) break;
    print_one(p, length, values, &at);
    count++;
    p += length;
  }
  return count;
}

void *cusim_malloc(unsigned long long bytes) {
  return bytes < 1ull << 40 ? heap_take(bytes) : NULL;
}

void cusim_free(void *p) {
  if (!heap_give(p))
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, __builtin_return_address(0),
                "free of %p, which malloc of a kernel did not give, or which was freed before", p);
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

int cusim_multiprocessors(void) {
  return sim_device()->multiprocessors;
}

void *cusim_scratch(unsigned long long bytes) {
  Worker *worker = sim_worker;
  if (bytes > worker->scratch_bytes) {
    free(worker->scratch);
    worker->scratch = aligned_alloc(64, (bytes + 63) & ~63ull);
    worker->scratch_bytes = worker->scratch ? bytes : 0;
    if (!worker->scratch)
      fault_raise(CUDA_ERROR_OUT_OF_MEMORY, __builtin_return_address(0), "no memory for a product");
  }
  return worker->scratch;
}
