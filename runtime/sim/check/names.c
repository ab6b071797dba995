// names.c: a launch's layer and tensors, for reports and for the check that a kernel stays inside
// of its tensors if many share an allocation.
#include "sim/check/check.h"

#include <stdlib.h>
#include <string.h>

struct LaunchNames { // shared by the copies of a launch; the tensors, then the text
  int refs;
  const char *layer;
  int count;
  CusimTensor tensors[];
};

static __thread struct LaunchNames *next; // of this thread's next launch

static char *put(char **at, const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = memcpy(*at, text, bytes);
  *at += bytes;
  return copy;
}

static const char *name_of(const CusimTensor *tensor) {
  return tensor->name ? tensor->name : "?";
}

static struct LaunchNames *make(const char *layer, int count, const CusimTensor *tensors) {
  size_t bytes = strlen(layer) + 1;
  for (int i = 0; i < count; i++) bytes += strlen(name_of(&tensors[i])) + 1;
  struct LaunchNames *names = malloc(sizeof *names + (size_t)count * sizeof *tensors + bytes);
  if (!names) return NULL;
  char *at = (char *)(names->tensors + count);
  names->refs = 1;
  names->count = count;
  names->layer = put(&at, layer);
  for (int i = 0; i < count; i++) {
    names->tensors[i] = tensors[i];
    names->tensors[i].name = put(&at, name_of(&tensors[i]));
  }
  return names;
}

CUresult cusimNameLaunch(const char *layer, int count, const CusimTensor *tensors) {
  if (count < 0 || (count && !tensors)) return CUDA_ERROR_INVALID_VALUE;
  names_release(next);
  next = make(layer ? layer : "", count, tensors);
  return next ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

struct LaunchNames *names_take(void) {
  struct LaunchNames *names = next;
  next = NULL;
  return names;
}

struct LaunchNames *names_keep(struct LaunchNames *names) {
  if (names) names->refs++;
  return names;
}

void names_release(struct LaunchNames *names) {
  if (names && --names->refs == 0) free(names);
}

const char *names_layer(const Launch *launch) {
  return launch->names && *launch->names->layer ? launch->names->layer : NULL;
}

static bool holds(const CusimTensor *tensor, uintptr_t address) {
  return address - (uintptr_t)tensor->ptr < tensor->bytes;
}

bool names_outside(const Launch *launch, const Allocation *a, uintptr_t address, int bytes) {
  bool any = false;
  for (int i = 0; launch->names && i < launch->names->count; i++) {
    const CusimTensor *tensor = &launch->names->tensors[i];
    if (tensor->ptr - a->begin >= a->bytes) continue;
    if (holds(tensor, address) && holds(tensor, address + (uintptr_t)bytes - 1)) return false;
    any = true;
  }
  return any;
}

// The tensor that holds the address, else the one that ends or begins nearest to it.
void names_describe(const Launch *launch, uintptr_t address, char *text, size_t size) {
  const CusimTensor *best = NULL;
  size_t least = SIZE_MAX;
  for (int i = 0; launch->names && i < launch->names->count; i++) {
    const CusimTensor *tensor = &launch->names->tensors[i];
    size_t away = holds(tensor, address) ? 0
                  : address < (uintptr_t)tensor->ptr
                      ? (uintptr_t)tensor->ptr - address
                      : address - (uintptr_t)tensor->ptr - tensor->bytes + 1;
    if (away < least) best = tensor, least = away;
  }
  *text = 0;
  enum { kNear = 64 << 10 };
  if (!best || least > kNear) return;
  long into = (long)(address - (uintptr_t)best->ptr);
  if (!least)
    snprintf(text, size, ": byte %ld of tensor %s", into, best->name);
  else if (into < 0)
    snprintf(text, size, ": %ld bytes before tensor %s", -into, best->name);
  else
    snprintf(text, size, ": %ld bytes past the end of tensor %s", into - (long)best->bytes,
             best->name);
}
