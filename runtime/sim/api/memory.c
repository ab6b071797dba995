// memory.c: device and host memory.
//
// Device memory is host memory, so a CUdeviceptr is an ordinary address. Each allocation is a
// separate mapping that ends at a guard page: an access past its end (rounded to 256 bytes)
// faults at once. Fresh memory is a NaN pattern; the bytes up to the rounding, and those before
// the allocation, are a red zone that is checked when it is freed and when the device is idle.
#include "sim/api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kAlign = 256, kRedByte = 0xa5, kPitch = 512, kFarGuard = 256 << 10 };

static size_t used;
static int serial;

static size_t page(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}
static size_t round_up(size_t n, size_t to) {
  return (n + to - 1) & ~(to - 1);
}

// ---- allocating and freeing ---------------------------------------------------------------------

static void *map_guarded(size_t bytes, Allocation *a) {
  a->reserved = round_up(bytes ? bytes : 1, kAlign);
  size_t body = round_up(a->reserved, page());
  a->map_bytes = body + page() + kFarGuard;
  a->map = mmap(NULL, a->map_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (a->map == MAP_FAILED) return NULL;
  mprotect(a->map, page(), PROT_NONE);
  mprotect((char *)a->map + page() + body, kFarGuard, PROT_NONE);
  return (char *)a->map + page() + body - a->reserved;
}

static void fill_fresh(const Allocation *a) {
  unsigned char *begin = (unsigned char *)a->begin;
  unsigned char *body = (unsigned char *)a->map + page();
  memset(body, kRedByte, (size_t)(begin - body));
  if (a->kind != MemoryHost) memset(begin, kPoisonByte, a->bytes);
  memset(begin + a->bytes, kRedByte, a->reserved - a->bytes);
}

static void unmake(Allocation *a) {
  if (a->map) munmap(a->map, a->map_bytes);
  free(a->written);
  free(a->touched[0]);
  free(a->touched[1]);
  free(a);
}

// Allocates the shadow memory of the active checks and counters. False: out of memory.
static bool make_shadows(Allocation *a) {
  if (sim_settings()->address && a->kind == MemoryDevice &&
      !(a->written = calloc(a->bytes / 8 + 1, 1)))
    return false;
  for (int i = 0; i < 2 && sim_settings()->count; i++)
    if (!(a->touched[i] = calloc(a->bytes / 64 + 1, sizeof(uint64_t)))) return false;
  return true;
}

CUresult memory_make(size_t bytes, MemoryKind kind, void **out) {
  if (!bytes || !out) return CUDA_ERROR_INVALID_VALUE;
  if (kind == MemoryDevice && (bytes > sim_device()->memory || used > sim_device()->memory - bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation *a = calloc(1, sizeof *a);
  void *begin = a ? map_guarded(bytes, a) : NULL;
  if (a && !begin && freed_drop()) begin = map_guarded(bytes, a);
  if (!begin) return free(a), CUDA_ERROR_OUT_OF_MEMORY;
  a->begin = (uintptr_t)begin;
  a->bytes = bytes;
  a->kind = kind;
  a->serial = ++serial;
  if (!make_shadows(a) || !memory_insert(a)) return unmake(a), CUDA_ERROR_OUT_OF_MEMORY;
  if (kind == MemoryDevice) used += bytes;
  if (sim_settings()->basic) fill_fresh(a);
  *out = begin;
  return CUDA_SUCCESS;
}

// The first byte of a red zone that was overwritten, or null.
static const unsigned char *red_zone_damage(const Allocation *a) {
  const unsigned char *begin = (unsigned char *)a->begin;
  const unsigned char *body = (unsigned char *)a->map + page();
  for (const unsigned char *p = body; p < begin; p++)
    if (*p != kRedByte) return p;
  for (const unsigned char *p = begin + a->bytes; p < begin + a->reserved; p++)
    if (*p != kRedByte) return p;
  return NULL;
}

static void report_damage(const Allocation *a) {
  const unsigned char *damage = red_zone_damage(a);
  if (!damage) return;
  fprintf(stderr,
          "libcusim: something wrote outside allocation %d of %zu bytes: at offset %ld (found at "
          "a synchronisation; NNGEN_SIM_CHECK=address names the access)\n",
          a->serial, a->bytes, (long)(damage - (unsigned char *)a->begin));
  sim_error_set(CUDA_ERROR_ILLEGAL_ADDRESS);
  fill_fresh(a); // once is enough
}

void memory_check_red_zones(void) {
  if (!sim_settings()->basic || sim_error_take() != CUDA_SUCCESS) return;
  const Allocation *a;
  for (int i = 0; (a = memory_at(i)); i++)
    if (a->map) report_damage(a);
}

static void destroy(Allocation *a) {
  if (a->map && sim_settings()->basic) report_damage(a);
  if (a->kind == MemoryDevice) used -= a->bytes;
  memory_take_out(a);
  if (a->map) freed_keep(a);
  a->map = NULL;
  unmake(a);
}

void memory_release(CUdeviceptr ptr) {
  Allocation *a = memory_find_begin((uintptr_t)ptr);
  if (a) destroy(a);
}

CUresult memory_range_check(CUdeviceptr ptr, size_t bytes) {
  const Allocation *a = memory_find((uintptr_t)ptr);
  if (!bytes) return CUDA_SUCCESS;
  if (a && a->freeing) return CUDA_ERROR_INVALID_VALUE;
  if (a && memory_inside(a, (uintptr_t)ptr))
    return bytes <= a->bytes - ((uintptr_t)ptr - a->begin) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
  return module_of_address((void *)(uintptr_t)ptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

size_t memory_used(void) {
  return used;
}

bool memory_free_later(CUdeviceptr ptr) {
  Allocation *a = memory_find_begin((uintptr_t)ptr);
  if (!a || a->kind != MemoryDevice || a->freeing) return false;
  return a->freeing = true;
}

bool memory_is_pageable(const void *ptr) {
  const Allocation *a = memory_find((uintptr_t)ptr);
  return !a || !memory_inside(a, (uintptr_t)ptr);
}

// ---- the API ------------------------------------------------------------------------------------

static CUresult locked_make(size_t bytes, MemoryKind kind, void **out) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  pthread_mutex_lock(&sim_lock);
  r = capture_unsafe_allowed();
  if (r == CUDA_SUCCESS) r = memory_make(bytes, kind, out);
  pthread_mutex_unlock(&sim_lock);
  return r;
}

static CUresult locked_free(uintptr_t address, bool host) {
  CUresult r = sim_context_usable();
  if (r != CUDA_SUCCESS) return r;
  if (!address) return CUDA_SUCCESS;
  pthread_mutex_lock(&sim_lock);
  CUresult allowed = capture_unsafe_allowed();
  Allocation *a = memory_find_begin(address);
  bool mine = a && !a->freeing && a->kind != MemoryRegistered && (a->kind == MemoryHost) == host;
  if (allowed == CUDA_SUCCESS && mine) {
    stream_drain_all(); // freeing waits for the work that may still use it
    destroy(a);
  }
  pthread_mutex_unlock(&sim_lock);
  if (allowed != CUDA_SUCCESS) return allowed;
  return mine ? sim_error_take() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes) {
  void *memory = NULL;
  CUresult r = ptr ? locked_make(bytes, MemoryDevice, &memory) : CUDA_ERROR_INVALID_VALUE;
  if (r == CUDA_SUCCESS) *ptr = (CUdeviceptr)(uintptr_t)memory;
  return r;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width, size_t height,
                            unsigned element) {
  if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  *pitch = round_up(width, kPitch);
  return cuMemAlloc_v2(ptr, *pitch * height);
}

CUresult cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned flags) {
  (void)ptr, (void)bytes, (void)flags;
  CUresult r = sim_context_check();
  return r == CUDA_SUCCESS ? CUDA_ERROR_NOT_SUPPORTED : r;
}

CUresult cuMemFree_v2(CUdeviceptr ptr) {
  return locked_free((uintptr_t)ptr, false);
}

CUresult cuMemHostAlloc(void **ptr, size_t bytes, unsigned flags) {
  if (!ptr || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  return locked_make(bytes, MemoryHost, ptr);
}

CUresult cuMemAllocHost_v2(void **ptr, size_t bytes) {
  return cuMemHostAlloc(ptr, bytes, 0);
}
CUresult cuMemFreeHost(void *ptr) {
  return locked_free((uintptr_t)ptr, true);
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!free_bytes || !total) return CUDA_ERROR_INVALID_VALUE;
  *total = sim_device()->memory;
  *free_bytes = *total - used;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr ptr) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  pthread_mutex_lock(&sim_lock);
  const Allocation *a = memory_find((uintptr_t)ptr);
  bool found = a && memory_inside(a, (uintptr_t)ptr);
  if (found && base) *base = a->begin;
  if (found && bytes) *bytes = a->bytes;
  pthread_mutex_unlock(&sim_lock);
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static CUresult pointer_attribute(void *value, CUpointer_attribute which, const Allocation *a,
                                  CUdeviceptr ptr) {
  bool host = a->kind == MemoryHost || a->kind == MemoryRegistered;
  switch ((int)which) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    return cuCtxGetCurrent(value);
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(unsigned *)value = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    *(CUdeviceptr *)value = ptr;
    break;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!host) return CUDA_ERROR_INVALID_VALUE;
    *(void **)value = (void *)(uintptr_t)ptr;
    break;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    *(bool *)value = false;
    break;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *(int *)value = 0;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    *(CUdeviceptr *)value = a->begin;
    break;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    *(size_t *)value = a->bytes;
    break;
  case CU_POINTER_ATTRIBUTE_MAPPED:
    *(bool *)value = true;
    break;
  default:
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute which, CUdeviceptr ptr) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  const Allocation *a = memory_find((uintptr_t)ptr);
  r = a && memory_inside(a, (uintptr_t)ptr) ? pointer_attribute(value, which, a, ptr)
                                     : CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *ptr, unsigned flags) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!device || flags || memory_is_pageable(ptr)) return CUDA_ERROR_INVALID_VALUE;
  *device = (CUdeviceptr)(uintptr_t)ptr;
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags) {
  (void)flags;
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!ptr || !bytes) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  Allocation *a = NULL;
  if (!memory_is_pageable(ptr) || !memory_is_pageable((char *)ptr + bytes - 1))
    r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  else if (!(a = calloc(1, sizeof *a)))
    r = CUDA_ERROR_OUT_OF_MEMORY;
  if (a) {
    *a = (Allocation){.begin = (uintptr_t)ptr, .bytes = bytes, .reserved = bytes,
                      .kind = MemoryRegistered, .serial = ++serial};
    if (!memory_insert(a)) free(a), r = CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuMemHostUnregister(void *ptr) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  pthread_mutex_lock(&sim_lock);
  Allocation *a = memory_find_begin((uintptr_t)ptr);
  bool mine = a && a->kind == MemoryRegistered;
  if (mine) {
    stream_drain_all();
    destroy(a);
  }
  pthread_mutex_unlock(&sim_lock);
  return mine ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
