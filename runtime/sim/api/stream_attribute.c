// stream_attribute.c: a stream's attributes. None has a visible effect here: caches, memory domains
// and ways of waiting are not modelled. Values are checked, stored and returned.
#include "sim/api/api.h"

#include <string.h>

// True if the driver accepts the value; clamps a priority to its range.
static bool take_value(CUstream stream, int which, const StreamValue *value) {
  StreamAttributes *kept = &stream->attributes;
  switch (which) {
  case StreamWindow:
    if (!(value->window.ratio >= 0 && value->window.ratio <= 1)) return false;
    if ((unsigned)value->window.hit > 2 || (unsigned)value->window.miss > 1) return false;
    return kept->window = value->window, true;
  case StreamWaiting: // as the host likes, spinning, yielding, blocked
    if (value->number < 1 || value->number > 4) return false;
    return kept->waiting = value->number, true;
  case StreamPriority:
    stream->priority = value->number > 0 ? 0 : value->number < -5 ? -5 : value->number;
    return true;
  case StreamDomainMap: // Hopper has four
    if (value->domains[0] > 3 || value->domains[1] > 3) return false;
    return memcpy(kept->domains, value->domains, sizeof kept->domains), true;
  case StreamDomain:
    if (value->number < 0 || value->number > 1) return false;
    return kept->domain = value->number, true;
  default:
    return false;
  }
}

static bool give_value(CUstream stream, int which, StreamValue *value) {
  const StreamAttributes *kept = &stream->attributes;
  switch (which) {
  case StreamWindow:
    return value->window = kept->window, true;
  case StreamWaiting:
    return value->number = kept->waiting ? kept->waiting : 1, true;
  case StreamPriority:
    return value->number = stream->priority, true;
  case StreamDomainMap:
    return memcpy(value->domains, kept->domains, sizeof kept->domains), true;
  case StreamDomain:
    return value->number = kept->domain, true;
  default:
    return false;
  }
}

static CUresult refuse(const char *call, int which) {
  return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                    "%s: attribute %d: streams have none of this number, or not this value", call,
                    which);
}

CUresult cuStreamSetAttribute(CUstream handle, int which, const void *value) {
  CUstream stream;
  CUresult r = sim_context_check();
  pthread_mutex_lock(&sim_lock);
  if (r == CUDA_SUCCESS) r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS && !value) r = CUDA_ERROR_INVALID_VALUE;
  if (r == CUDA_SUCCESS && !take_value(stream, which, value))
    r = refuse("cuStreamSetAttribute", which);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuStreamGetAttribute(CUstream handle, int which, void *value) {
  CUstream stream;
  CUresult r = sim_context_check();
  pthread_mutex_lock(&sim_lock);
  if (r == CUDA_SUCCESS) r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS && !value) r = CUDA_ERROR_INVALID_VALUE;
  if (r == CUDA_SUCCESS && !give_value(stream, which, value))
    r = refuse("cuStreamGetAttribute", which);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  CUstream target, source;
  CUresult r = sim_context_check();
  pthread_mutex_lock(&sim_lock);
  if (r == CUDA_SUCCESS) r = stream_find(to, &target);
  if (r == CUDA_SUCCESS) r = stream_find(from, &source);
  if (r == CUDA_SUCCESS) {
    target->attributes = source->attributes;
    target->priority = source->priority;
  }
  pthread_mutex_unlock(&sim_lock);
  return r;
}
