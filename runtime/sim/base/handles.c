// handles.c: the valid handles that the program was given: streams, events, graphs, their nodes,
// executable graphs, modules, functions. A wild or freed handle is looked up, never dereferenced.
#include "sim/base/base.h"

#include <stdlib.h>
#include <string.h>

typedef struct Handle {
  uintptr_t address;
  HandleKind kind;
} Handle;

static Handle *handles; // by address
static size_t count, room;

// Index of the first handle at or after the address.
static size_t find(const void *handle) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (handles[middle].address < (uintptr_t)handle)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool make_room(void) {
  if (count < room) return true;
  size_t more = room ? 2 * room : 64;
  Handle *grown = realloc(handles, more * sizeof *grown);
  if (grown) handles = grown, room = more;
  return grown;
}

bool handle_add(HandleKind kind, const void *handle) {
  pthread_mutex_lock(&sim_lock);
  bool ok = make_room();
  if (ok) {
    size_t at = find(handle);
    memmove(handles + at + 1, handles + at, (count++ - at) * sizeof *handles);
    handles[at] = (Handle){(uintptr_t)handle, kind};
  }
  pthread_mutex_unlock(&sim_lock);
  return ok;
}

void handle_drop(const void *handle) {
  pthread_mutex_lock(&sim_lock);
  size_t at = find(handle);
  if (at < count && handles[at].address == (uintptr_t)handle)
    memmove(handles + at, handles + at + 1, (--count - at) * sizeof *handles);
  pthread_mutex_unlock(&sim_lock);
}

bool handle_is(HandleKind kind, const void *handle) {
  pthread_mutex_lock(&sim_lock);
  size_t at = find(handle);
  bool is = at < count && handles[at].address == (uintptr_t)handle && handles[at].kind == kind;
  pthread_mutex_unlock(&sim_lock);
  return is;
}

void *handle_next(HandleKind kind, size_t *index) {
  while (*index < count && handles[*index].kind != kind) ++*index;
  return *index < count ? (void *)handles[(*index)++].address : NULL;
}
