// work.c: work in streams and graphs: kernels, copies, fills, host calls, events, frees; and the
// API calls that create copies and fills.
#include "sim/api/api.h"

#include <stdlib.h>
#include <string.h>

// True if memory that work of a graph or a queue uses has been freed: then nothing runs.
static bool is_freed(const void *ptr, const char *what) {
  const Allocation *a = freed_find((uintptr_t)ptr);
  if (!a) return false;
  sim_error_set(sim_refuse(CUDA_ERROR_ILLEGAL_ADDRESS,
                           "%s at %p, of allocation %d of %zu bytes, which was freed", what, ptr,
                           a->serial, a->bytes));
  return true;
}

static void run_copy(const Work *work) {
  const unsigned char *source = work->copy.staging ? work->copy.staging : work->copy.source;
  for (size_t row = 0; row < work->copy.height; row++)
    memmove(work->copy.target + row * work->copy.target_pitch,
            source + row * work->copy.source_pitch, work->copy.width);
  if (!sim_settings()->address) return;
  for (size_t row = 0; row < work->copy.height; row++)
    trace_host_write((uintptr_t)work->copy.target + row * work->copy.target_pitch,
                     work->copy.width);
}

static void run_fill(const Work *work) {
  size_t count = work->fill.count;
  for (size_t row = 0; row < work->fill.height; row++) {
    void *target = (void *)(uintptr_t)(work->fill.ptr + row * work->fill.pitch);
    if (work->fill.size == 1) memset(target, (int)work->fill.value, count);
    for (size_t i = 0; work->fill.size == 2 && i < count; i++)
      ((uint16_t *)target)[i] = (uint16_t)work->fill.value;
    for (size_t i = 0; work->fill.size == 4 && i < count; i++)
      ((uint32_t *)target)[i] = work->fill.value;
    if (sim_settings()->address)
      trace_host_write((uintptr_t)target, count * (size_t)work->fill.size);
  }
}

// After a fault nothing more runs on the device, as on a GPU; events are still recorded.
void work_run(Work *work) {
  bool dead = sim_error_take() != CUDA_SUCCESS;
  switch (work->kind) {
  case WorkKernel:
    if (!dead) {
      CUresult r = launch_run(work->launch);
      if (r != CUDA_SUCCESS) sim_error_set(r);
    }
    break;
  case WorkCopy:
    if (!dead && !is_freed(work->copy.target, "a copy writes") &&
        (work->copy.staging || !is_freed(work->copy.source, "a copy reads")))
      run_copy(work);
    break;
  case WorkFill:
    if (!dead && !is_freed((void *)(uintptr_t)work->fill.ptr, "a fill writes")) run_fill(work);
    break;
  case WorkHost:
    if (!dead) work->host.function(work->host.data);
    break;
  case WorkEvent:
    if (handle_is(HandleEvent, work->event)) work->event->when = sim_now(); // a graph keeps none
    break;
  case WorkFree:
    memory_release(work->ptr);
    break;
  case WorkGraph:
    if (!dead) graph_run(work->exec);
    break;
  case WorkNothing:
    break;
  }
}

void work_free(Work *work) {
  if (work->kind == WorkKernel && work->launch) launch_free(work->launch), free(work->launch);
  if (work->kind == WorkCopy) free(work->copy.staging);
  if (work->kind == WorkGraph) graph_exec_release(work->exec);
  work->kind = WorkNothing;
}

CUresult work_copy(Work *to, const Work *from) {
  *to = *from;
  if (from->kind == WorkKernel) {
    to->launch = launch_copy(from->launch);
    if (!to->launch) return to->kind = WorkNothing, CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (from->kind == WorkCopy && from->copy.staging) {
    size_t bytes = from->copy.source_pitch * from->copy.height;
    to->copy.staging = malloc(bytes);
    if (!to->copy.staging) return to->kind = WorkNothing, CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(to->copy.staging, from->copy.staging, bytes);
  }
  return CUDA_SUCCESS;
}

// ---- copies -------------------------------------------------------------------------------------

typedef enum Place { PlaceDevice, PlaceHost, PlaceAny } Place;

typedef struct CopyRequest {
  Work work;
  Place target, source;
  CUstream stream;
  bool async;
} CopyRequest;

static CUresult check_place(Place place, const void *ptr, size_t bytes) {
  if (!ptr) return CUDA_ERROR_INVALID_VALUE;
  return place == PlaceDevice ? memory_range_check((CUdeviceptr)(uintptr_t)ptr, bytes)
                              : CUDA_SUCCESS;
}

static size_t span(size_t pitch, size_t width, size_t height) {
  return height ? pitch * (height - 1) + width : 0;
}

// Pageable host memory: the source is taken now; to a pageable target the call waits, as on a GPU.
static CUresult stage(Work *work, Place source) {
  size_t bytes = work->copy.source_pitch * work->copy.height;
  if (source == PlaceDevice || !memory_is_pageable(work->copy.source)) return CUDA_SUCCESS;
  work->copy.staging = malloc(bytes ? bytes : 1);
  if (!work->copy.staging) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(work->copy.staging, work->copy.source,
         span(work->copy.source_pitch, work->copy.width, work->copy.height));
  return CUDA_SUCCESS;
}

static CUresult submit_copy(CopyRequest *request) {
  Work *work = &request->work;
  work->kind = WorkCopy;
  CUresult r = check_place(request->target, work->copy.target,
                           span(work->copy.target_pitch, work->copy.width, work->copy.height));
  if (r == CUDA_SUCCESS)
    r = check_place(request->source, work->copy.source,
                    span(work->copy.source_pitch, work->copy.width, work->copy.height));
  CUstream stream = NULL;
  if (r == CUDA_SUCCESS) r = stream_find(request->stream, &stream);
  if (r != CUDA_SUCCESS) return r;
  bool waits = !request->async || (request->target != PlaceDevice && !stream->capture &&
                                   memory_is_pageable(work->copy.target));
  if (!request->async) r = stream_sync_allowed(stream);
  if (r == CUDA_SUCCESS && !waits && !stream->capture) r = stage(work, request->source);
  if (r == CUDA_SUCCESS) r = stream_submit(request->stream, work);
  if (r != CUDA_SUCCESS || !waits) return r;
  stream_drain(stream, NULL);
  return sim_error_take();
}

static CUresult copy_2d(CopyRequest request) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS || !request.work.copy.width || !request.work.copy.height) return r;
  pthread_mutex_lock(&sim_lock);
  r = submit_copy(&request);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

static CUresult copy(uintptr_t target, Place to, uintptr_t source, Place from, size_t bytes,
                     CUstream stream, bool async) {
  CopyRequest request = {.target = to, .source = from, .stream = stream, .async = async};
  request.work.copy.target = (unsigned char *)target;
  request.work.copy.source = (const unsigned char *)source;
  request.work.copy.target_pitch = request.work.copy.source_pitch = bytes;
  request.work.copy.width = bytes;
  request.work.copy.height = 1;
  return copy_2d(request);
}

CUresult cuMemcpy(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return copy((uintptr_t)target, PlaceAny, (uintptr_t)source, PlaceAny, bytes, NULL, false);
}
CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy((uintptr_t)target, PlaceAny, (uintptr_t)source, PlaceAny, bytes, stream, true);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t bytes) {
  return copy((uintptr_t)target, PlaceDevice, (uintptr_t)source, PlaceHost, bytes, NULL, false);
}
CUresult cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t bytes) {
  return copy((uintptr_t)target, PlaceHost, (uintptr_t)source, PlaceDevice, bytes, NULL, false);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return copy((uintptr_t)target, PlaceDevice, (uintptr_t)source, PlaceDevice, bytes, NULL, true);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes,
                              CUstream stream) {
  return copy((uintptr_t)target, PlaceDevice, (uintptr_t)source, PlaceHost, bytes, stream, true);
}
CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy((uintptr_t)target, PlaceHost, (uintptr_t)source, PlaceDevice, bytes, stream, true);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes,
                              CUstream stream) {
  return copy((uintptr_t)target, PlaceDevice, (uintptr_t)source, PlaceDevice, bytes, stream, true);
}

// One side of a CUDA_MEMCPY2D: its first byte, and the kind of memory.
static CUresult side(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
                     size_t pitch, size_t width, Place *place, uintptr_t *begin) {
  if (pitch && pitch < width + x) return CUDA_ERROR_INVALID_VALUE;
  switch ((int)type) {
  case CU_MEMORYTYPE_HOST:
    *place = PlaceHost, *begin = (uintptr_t)host;
    break;
  case CU_MEMORYTYPE_DEVICE:
    *place = PlaceDevice, *begin = (uintptr_t)device;
    break;
  case CU_MEMORYTYPE_UNIFIED:
    *place = PlaceAny, *begin = (uintptr_t)device;
    break;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *begin += y * pitch + x;
  return CUDA_SUCCESS;
}

static CUresult copy_described(const CUDA_MEMCPY2D *c, CUstream stream, bool async) {
  if (!c) return CUDA_ERROR_INVALID_VALUE;
  CopyRequest request = {.stream = stream, .async = async};
  uintptr_t target = 0, source = 0;
  CUresult r = side(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY,
                    c->dstPitch, c->WidthInBytes, &request.target, &target);
  if (r == CUDA_SUCCESS)
    r = side(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, c->srcPitch,
             c->WidthInBytes, &request.source, &source);
  if (r != CUDA_SUCCESS) return r;
  request.work.copy.target = (unsigned char *)target;
  request.work.copy.source = (const unsigned char *)source;
  request.work.copy.target_pitch = c->dstPitch ? c->dstPitch : c->WidthInBytes;
  request.work.copy.source_pitch = c->srcPitch ? c->srcPitch : c->WidthInBytes;
  request.work.copy.width = c->WidthInBytes;
  request.work.copy.height = c->Height;
  return copy_2d(request);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *c) {
  return copy_described(c, NULL, false);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream stream) {
  return copy_described(c, stream, true);
}

// ---- fills --------------------------------------------------------------------------------------

static CUresult fill_2d(CUdeviceptr ptr, size_t pitch, unsigned value, int size, size_t width,
                        size_t height, CUstream stream) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (ptr % (unsigned)size || width > SIZE_MAX / 4) return CUDA_ERROR_INVALID_VALUE;
  size_t bytes = width * (size_t)size, last;
  if (height > 1 && (pitch % (unsigned)size || pitch < bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!width || !height) return CUDA_SUCCESS;
  if (__builtin_mul_overflow(pitch, height - 1, &last) || last > SIZE_MAX - bytes)
    return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  r = memory_range_check(ptr, last + bytes);
  Work work = {WorkFill, .fill = {ptr, value, size, width, pitch, height}};
  if (r == CUDA_SUCCESS) r = stream_submit(stream, &work);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

static CUresult fill(CUdeviceptr ptr, unsigned value, int size, size_t count, CUstream stream) {
  return fill_2d(ptr, 0, value, size, count, 1, stream);
}

CUresult cuMemsetD8_v2(CUdeviceptr ptr, unsigned char value, size_t count) {
  return fill(ptr, value, 1, count, NULL);
}
CUresult cuMemsetD16_v2(CUdeviceptr ptr, unsigned short value, size_t count) {
  return fill(ptr, value, 2, count, NULL);
}
CUresult cuMemsetD32_v2(CUdeviceptr ptr, unsigned value, size_t count) {
  return fill(ptr, value, 4, count, NULL);
}
CUresult cuMemsetD8Async(CUdeviceptr ptr, unsigned char value, size_t count, CUstream stream) {
  return fill(ptr, value, 1, count, stream);
}
CUresult cuMemsetD16Async(CUdeviceptr ptr, unsigned short value, size_t count, CUstream stream) {
  return fill(ptr, value, 2, count, stream);
}
CUresult cuMemsetD32Async(CUdeviceptr ptr, unsigned value, size_t count, CUstream stream) {
  return fill(ptr, value, 4, count, stream);
}
CUresult cuMemsetD2D8_v2(CUdeviceptr ptr, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return fill_2d(ptr, pitch, value, 1, width, height, NULL);
}
CUresult cuMemsetD2D16_v2(CUdeviceptr ptr, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return fill_2d(ptr, pitch, value, 2, width, height, NULL);
}
CUresult cuMemsetD2D32_v2(CUdeviceptr ptr, size_t pitch, unsigned value, size_t width,
                          size_t height) {
  return fill_2d(ptr, pitch, value, 4, width, height, NULL);
}
CUresult cuMemsetD2D8Async(CUdeviceptr ptr, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return fill_2d(ptr, pitch, value, 1, width, height, stream);
}
CUresult cuMemsetD2D16Async(CUdeviceptr ptr, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return fill_2d(ptr, pitch, value, 2, width, height, stream);
}
CUresult cuMemsetD2D32Async(CUdeviceptr ptr, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream stream) {
  return fill_2d(ptr, pitch, value, 4, width, height, stream);
}
