// absent.c: the rest of cuda.h: so that a program starts which looks all its symbols up. Each
// answers CUDA_ERROR_NOT_SUPPORTED, with one line the first time.
#include "sim/api/api.h"

#include <stdatomic.h>
#include <string.h>

static CUresult refuse(const char *name, atomic_bool *said) {
  if (!atomic_exchange(said, true))
    return sim_refuse(CUDA_ERROR_NOT_SUPPORTED, "%s is not done", name);
  return CUDA_ERROR_NOT_SUPPORTED;
}

#define ABSENT(name)                                                                               \
  __attribute__((visibility("default"))) CUresult name(void);                                      \
  CUresult name(void) {                                                                            \
    static atomic_bool said;                                                                       \
    return refuse(#name, &said);                                                                   \
  }
#include "sim/absent.def"

static const struct {
  const char *name;
  CUresult (*function)(void);
} table[] = {
#define ABSENT(name) {#name, name},
#include "sim/absent.def"
};

bool absent_find(const char *name, void **function) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].name, name) != 0) continue;
    memcpy(function, &table[i].function, sizeof *function);
    return true;
  }
  return false;
}
