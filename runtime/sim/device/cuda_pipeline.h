// cuda_pipeline.h: asynchronous copies of a thread to shared memory, in groups.
#ifndef CUSIM_CUDA_PIPELINE_H
#define CUSIM_CUDA_PIPELINE_H

CUSIM_FN void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
  cusim_cp_async(to, from, int(bytes), int(bytes - zeros));
}
CUSIM_FN void __pipeline_commit() { cusim_cp_async_commit(); }
CUSIM_FN void __pipeline_wait_prior(size_t groups) { cusim_cp_async_wait(int(groups)); }

#endif
