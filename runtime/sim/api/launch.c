// launch.c: checks a launch, copies its parameters, and passes it to its stream.
#include "sim/api/api.h"

#include <stdlib.h>
#include <string.h>

// ---- checks -------------------------------------------------------------------------------------

static CUresult check_shape(CUfunction function, const unsigned grid[3], const unsigned block[3]) {
  const unsigned grid_most[3] = {0x7fffffff, 65535, 65535}, block_most[3] = {1024, 1024, 64};
  const char *name = function->name;
  bool grid_fits = true, block_fits = true;
  for (int i = 0; i < 3; i++) {
    grid_fits &= grid[i] && grid[i] <= grid_most[i];
    block_fits &= block[i] && block[i] <= block_most[i];
  }
  unsigned long threads = (unsigned long)block[0] * block[1] * block[2];
  int bound = function->kernel->limits.threads, most = function_threads(function);
  if (!grid_fits)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: a grid of (%u,%u,%u) blocks is not within (1,1,1) to (%u,%u,%u)",
                      name, grid[0], grid[1], grid[2], grid_most[0], grid_most[1], grid_most[2]);
  if (!block_fits || threads > kMaxThreads)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: a block of (%u,%u,%u) threads is not within (1,1,1) to "
                      "(%u,%u,%u), of %d at most",
                      name, block[0], block[1], block[2], block_most[0], block_most[1],
                      block_most[2], kMaxThreads);
  if (bound > 0 && threads > (unsigned long)bound)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: a block of %lu threads is above its launch bounds, %d", name,
                      threads, bound);
  if ((int)threads > most)
    return sim_refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                      "kernel %s: there are registers for %d threads of a block, not for %lu",
                      name, most, threads);
  return CUDA_SUCCESS;
}

static CUresult check_smem(CUfunction function, unsigned smem) {
  size_t fixed = function->static_smem;
  size_t most = function->max_dynamic_smem ? (size_t)function->max_dynamic_smem
                                           : (size_t)sim_device()->smem_default - fixed;
  if (fixed > (size_t)sim_device()->smem_default)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: %zu bytes of static shared memory are more than %d",
                      function->name, fixed, sim_device()->smem_default);
  if (smem > most)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                      "kernel %s: %u bytes of dynamic shared memory are more than %zu, which "
                      "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES) raises to %d",
                      function->name, smem, most, sim_device()->smem_optin - (int)fixed);
  return CUDA_SUCCESS;
}

// The buffer of all parameters in `extra`, and its size; false if the list is malformed.
static bool read_extra(void **extra, const char **buffer, size_t *bytes) {
  bool sized = false;
  *buffer = NULL;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      *buffer = extra[1];
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && (sized = extra[1]))
      *bytes = *(const size_t *)extra[1];
    else
      return false;
  }
  return *buffer && sized;
}

// NOTE: the size is that of the parameters, without a struct's padding after the last one: a driver
// rejects the padded size, too (llvm-project, pull request 172249). cuda.h treats arguments "of the
// wrong size" like too many; a smaller buffer gets the same error.
static CUresult find_params(const Launch *launch, void **params, void **extra,
                            const char **buffer) {
  int count = launch->function->param_count;
  size_t bytes = 0;
  *buffer = NULL;
  if (!extra && count && !params)
    return sim_refuse(CUDA_ERROR_INVALID_VALUE, "kernel %s: it has %d parameters, none are passed",
                      launch->function->name, count);
  if (!extra) return CUDA_SUCCESS;
  if (params || !read_extra(extra, buffer, &bytes)) return CUDA_ERROR_INVALID_VALUE;
  return bytes == launch->function->kernel->param_offsets[count]
             ? CUDA_SUCCESS
             : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

// Copies the parameters' values: the pointers, then the values in the layout of a buffer.
static CUresult take_params(Launch *launch, void **params, void **extra) {
  enum { kAlign = 128 }; // a tensor map's is 64
  const CusimKernel *kernel = launch->function->kernel;
  const char *buffer;
  CUresult r = find_params(launch, params, extra, &buffer);
  if (r != CUDA_SUCCESS) return r;
  int count = launch->function->param_count;
  size_t list = ((size_t)count * sizeof(void *) + kAlign - 1) & ~(size_t)(kAlign - 1);
  size_t bytes = list + kernel->param_offsets[count] + 16;
  launch->params = aligned_alloc(kAlign, (bytes + kAlign - 1) & ~(size_t)(kAlign - 1));
  if (!launch->params) return CUDA_ERROR_OUT_OF_MEMORY;
  launch->params_bytes = bytes;
  for (int i = 0; i < count; i++) {
    const void *from = buffer ? buffer + kernel->param_offsets[i] : params[i];
    if (!from) {
      free(launch->params);
      launch->params = NULL;
      return CUDA_ERROR_INVALID_VALUE;
    }
    char *at = (char *)launch->params + list + kernel->param_offsets[i];
    launch->params[i] = memcpy(at, from, kernel->param_sizes[i]);
  }
  return CUDA_SUCCESS;
}

// A kernel from PTX has its static shared memory before the dynamic one, which is aligned.
static unsigned static_part(const CusimKernel *kernel) {
  if (!kernel->from_ptx) return 0;
  return (kernel->static_smem + kernel->smem_align - 1) / kernel->smem_align * kernel->smem_align;
}

static CUresult check_cluster(const Launch *launch, const unsigned dim[3], unsigned long size) {
  const struct CUfunc_st *f = launch->function;
  const unsigned *own = f->kernel->limits.cluster;
  unsigned long most = f->wide_clusters ? kMostCluster : 8;
  if (size > 1 && sim_device()->major < 9)
    return sim_refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "kernel %s: sm_%d0 has no clusters", f->name,
                      sim_device()->major);
  if (size > most)
    return sim_refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                      "kernel %s: a cluster of %lu blocks is above %lu%s", f->name, size, most,
                      f->wide_clusters ? "" : " (NON_PORTABLE_CLUSTER_SIZE_ALLOWED: 16)");
  for (int i = 0; i < 3; i++) {
    if (launch->grid[i] % dim[i])
      return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                        "kernel %s: a grid of (%u,%u,%u) blocks is not made of clusters of "
                        "(%u,%u,%u)",
                        f->name, launch->grid[0], launch->grid[1], launch->grid[2], dim[0], dim[1],
                        dim[2]);
    if (own[0] && own[i] != dim[i])
      return sim_refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                        "kernel %s: it is for clusters of (%u,%u,%u) blocks", f->name, own[0],
                        own[1], own[2]);
  }
  if (size > 1 && f->static_smem && !f->kernel->from_ptx)
    return sim_refuse(CUDA_ERROR_NOT_SUPPORTED,
                      "kernel %s: clusters of kernels with static shared memory need PTX "
                      "(NNGEN_SIM_FRONTEND=nvrtc)", f->name);
  return CUDA_SUCCESS;
}

static CUresult set_cluster(Launch *launch, const unsigned dim[3]) {
  unsigned given[3] = {dim[0] ? dim[0] : 1, dim[1] ? dim[1] : 1, dim[2] ? dim[2] : 1};
  unsigned long size = (unsigned long)given[0] * given[1] * given[2];
  CUresult r = check_cluster(launch, given, size);
  if (r != CUDA_SUCCESS) return r;
  memcpy(launch->cluster, given, sizeof given);
  launch->units = launch->total / size;
  return CUDA_SUCCESS;
}

CUresult launch_make(Launch *launch, CUfunction function, const unsigned grid[3],
                     const unsigned block[3], unsigned smem, void **params, void **extra) {
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  *launch = (Launch){.function = function, .smem = smem};
  launch->smem_static = static_part(function->kernel);
  CUresult r = check_shape(function, grid, block);
  if (r == CUDA_SUCCESS) r = check_smem(function, smem);
  if (r != CUDA_SUCCESS) return r;
  memcpy(launch->grid, grid, sizeof launch->grid);
  memcpy(launch->block, block, sizeof launch->block);
  launch->total = launch->units = (unsigned long)grid[0] * grid[1] * grid[2];
  r = set_cluster(launch, function->kernel->limits.cluster);
  if (r != CUDA_SUCCESS) return r;
  return take_params(launch, params, extra);
}

void launch_free(Launch *launch) {
  free(launch->params);
  launch->params = NULL;
  names_release(launch->names);
  launch->names = NULL;
}

Launch *launch_copy(const Launch *from) {
  Launch *to = malloc(sizeof *to);
  if (!to) return NULL;
  memcpy(to, from, sizeof *to);
  if (take_params(to, from->params, NULL) != CUDA_SUCCESS) return free(to), NULL;
  names_keep(to->names);
  return to;
}

// ---- the API ------------------------------------------------------------------------------------

// All blocks of a cooperative launch must be on the device at once.
static bool fits_at_once(const Launch *launch) {
  const unsigned *block = launch->block;
  int threads = (int)(block[0] * block[1] * block[2]);
  int blocks = function_blocks_per_sm(launch->function, threads, launch->smem);
  return launch->total <= (unsigned long)blocks * (unsigned long)sim_device()->multiprocessors;
}

static CUresult submit(CUfunction function, const unsigned grid[3], const unsigned block[3],
                       unsigned smem, bool cooperative, bool early, const unsigned *cluster,
                       CUstream stream, void **params,
                       void **extra) {
  CUresult r = sim_context_check();
  Launch *launch = r == CUDA_SUCCESS ? calloc(1, sizeof *launch) : NULL;
  struct LaunchNames *names = names_take();
  if (r == CUDA_SUCCESS && !launch) r = CUDA_ERROR_OUT_OF_MEMORY;
  if (r != CUDA_SUCCESS) return names_release(names), r;
  pthread_mutex_lock(&sim_lock);
  r = launch_make(launch, function, grid, block, smem, params, extra);
  launch->names = names;
  if (r == CUDA_SUCCESS && cluster) r = set_cluster(launch, cluster);
  if (r == CUDA_SUCCESS && cooperative && !fits_at_once(launch))
    r = sim_refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                   "kernel %s: %lu blocks are not on the device at once", function->name,
                   launch->total);
  if (r != CUDA_SUCCESS) {
    launch_free(launch);
    free(launch);
  } else {
    launch->cooperative = cooperative;
    launch->early = early && !cooperative;
    Work work = {WorkKernel, .launch = launch};
    r = stream_submit(stream, &work);
  }
  pthread_mutex_unlock(&sim_lock);
  return r;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned smem,
                        CUstream stream, void **params, void **extra) {
  return submit(function, (unsigned[]){grid_x, grid_y, grid_z},
                (unsigned[]){block_x, block_y, block_z}, smem, false, false, NULL, stream, params,
                extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned smem, CUstream stream,
                                   void **params) {
  return submit(function, (unsigned[]){grid_x, grid_y, grid_z},
                (unsigned[]){block_x, block_y, block_z}, smem, true, false, NULL, stream, params,
                NULL);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                          void **extra) {
  if (!config || (config->numAttrs && !config->attrs)) return CUDA_ERROR_INVALID_VALUE;
  bool cooperative = false;
  bool early = false;
  const unsigned *cluster = NULL;
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const CUlaunchAttribute *a = &config->attrs[i];
    if (a->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) cooperative = a->value.cooperative != 0;
    if (a->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      early = a->value.programmaticStreamSerializationAllowed != 0;
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) cluster = &a->value.clusterDim.x;
  }
  unsigned grid[3] = {config->gridDimX, config->gridDimY, config->gridDimZ};
  unsigned block[3] = {config->blockDimX, config->blockDimY, config->blockDimZ};
  return submit(function, grid, block, config->sharedMemBytes, cooperative, early, cluster,
                config->hStream, params, extra);
}
