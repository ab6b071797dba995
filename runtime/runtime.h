// runtime.h: what the runtime's files share with each other, grouped by file in the order data passes.
#ifndef NNGEN_RUNTIME_INTERNAL_H
#define NNGEN_RUNTIME_INTERNAL_H

#include "nngen_runtime.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

// ---- heap.c: host memory ---------------------------------------------------------------------

void *heap_alloc(size_t count, size_t size); // zeroed; NULL when there is none or it overflows
void *heap_grow(void *block, size_t count, size_t size); // realloc; the new part is not zeroed
char *heap_copy(const char *text);
char *heap_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
int heap_error(Error *err, const char *what); // "out of memory: WHAT"
void heap_fail_after(int64_t allocations);    // tests: the allocation after so many fails; -1: none

// ---- log -------------------------------------------------------------------------------------

void log_warn(const Log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_info(const Log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

// ---- plan_check.c ----------------------------------------------------------------------------

// Everything the runtime relies on. Errors: ExitBadInput, naming the field.
int plan_check(const Plan *plan, Error *err);

#endif
