// pool.c: stream-ordered memory. All pools allocate ordinary memory at once; freeing is queued like
// any work.
#include "sim/api/api.h"

struct CUmemPoolHandle_st {
  bool live;
  uint64_t threshold;
};

enum { kPools = 16 };
static struct CUmemPoolHandle_st default_pool = {true, 0}, pools[kPools];

static bool pool_valid(CUmemoryPool pool) {
  return pool == &default_pool || (pool >= pools && pool < pools + kPools && pool->live);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  if (device) return CUDA_ERROR_INVALID_DEVICE;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  *pool = &default_pool;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
  if (!sim_initialized()) return CUDA_ERROR_NOT_INITIALIZED;
  if (!pool || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props->location.type != CU_MEM_LOCATION_TYPE_DEVICE || props->location.id)
    return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < kPools; i++)
    if (!pools[i].live) return pools[i].live = true, *pool = &pools[i], CUDA_SUCCESS;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  if (!pool_valid(pool) || pool == &default_pool) return CUDA_ERROR_INVALID_VALUE;
  pool->live = false;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value) {
  if (!pool_valid(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) pool->threshold = *(uint64_t *)value;
  return which >= 1 && which <= CU_MEMPOOL_ATTR_USED_MEM_HIGH ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which, void *value) {
  if (!pool_valid(pool) || !value) return CUDA_ERROR_INVALID_VALUE;
  if (which >= 1 && which <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)
    *(int *)value = 1;
  else if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    *(uint64_t *)value = pool->threshold;
  else if (which <= CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    *(uint64_t *)value = memory_used();
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep) {
  (void)bytes_to_keep; // nothing is kept
  return pool_valid(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
                                 CUstream handle) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  CUstream stream;
  if (!ptr || !pool_valid(pool)) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  r = stream_find(handle, &stream);
  if (r == CUDA_SUCCESS && stream->capture) r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  void *memory = NULL;
  if (r == CUDA_SUCCESS) r = memory_make(bytes, MemoryDevice, &memory);
  if (r == CUDA_SUCCESS) *ptr = (CUdeviceptr)(uintptr_t)memory;
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream) {
  return cuMemAllocFromPoolAsync(ptr, bytes, &default_pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS || !ptr) return r;
  pthread_mutex_lock(&sim_lock);
  Work work = {WorkFree, .ptr = ptr};
  CUstream found;
  r = stream_find(stream, &found);
  if (r == CUDA_SUCCESS && found->capture) r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (r == CUDA_SUCCESS && !memory_free_later(ptr)) r = CUDA_ERROR_INVALID_VALUE;
  if (r == CUDA_SUCCESS) r = stream_submit(stream, &work);
  pthread_mutex_unlock(&sim_lock);
  return r;
}
