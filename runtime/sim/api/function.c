// function.c: a kernel's resources on a multiprocessor, and the calls that query or set them.
//
// Only the device compiler knows a kernel's registers: here NNGEN_SIM_KERNEL_REGISTERS per thread
// are assumed, else few enough for a multiprocessor full of threads; both
// within the limits that the program sets, as with ptxas. All answers follow from that number.
#include "sim/api/api.h"

#include <string.h>

// A multiprocessor has four partitions with a quarter of the registers each; a warp is in one of
// them, and its registers are allocated in units of 256.
enum { kParts = 4, kUnit = 256 / kWarpLanes, kMostRegisters = 255, kLowestLimit = 24 };

static int warps_of(int threads) {
  return (threads + kWarpLanes - 1) / kWarpLanes;
}

// Registers per thread if `warps` warps share a multiprocessor.
static int share(int warps) {
  int in_part = (warps + kParts - 1) / kParts;
  return sim_device()->registers_per_sm / kParts / in_part / kWarpLanes / kUnit * kUnit;
}

// The most that the compiler may use: by launch bounds, else by __maxnreg__, else -maxrregcount.
static int register_limit(CUfunction function) {
  const CusimLimits *limits = &function->kernel->limits;
  int most = kMostRegisters, blocks = limits->blocks > 0 ? limits->blocks : 1;
  int stated = limits->registers ? limits->registers : function->module->image->registers;
  if (blocks > sim_device()->blocks_per_sm) blocks = sim_device()->blocks_per_sm;
  if (limits->threads > 0)
    most = share(warps_of(limits->threads) * blocks);
  else if (stated > 0)
    most = stated > kLowestLimit ? stated : kLowestLimit;
  return most < kMostRegisters ? most : kMostRegisters;
}

static int registers(CUfunction function) {
  int given = sim_settings()->kernel_registers, limit = register_limit(function);
  int wanted = given > 0 ? given : share(warps_of(sim_device()->threads_per_sm));
  int count = wanted < limit ? wanted : limit;
  return count > kUnit ? count : kUnit;
}

// Warps that a multiprocessor has registers for.
static int fitting_warps(CUfunction function) {
  int of_warp = (registers(function) + kUnit - 1) / kUnit * kUnit * kWarpLanes;
  return sim_device()->registers_per_sm / kParts / of_warp * kParts;
}

int function_threads(CUfunction function) {
  int bound = function->kernel->limits.threads;
  int most = bound > 0 && bound < kMaxThreads ? bound : kMaxThreads;
  int fitting = fitting_warps(function) * kWarpLanes;
  return most < fitting ? most : fitting;
}

int function_blocks_per_sm(CUfunction function, int threads, size_t smem) {
  const DeviceModel *device = sim_device();
  int warps = warps_of(threads), fitting = fitting_warps(function) / warps;
  size_t need = smem + function->static_smem + 1024;
  int blocks = device->threads_per_sm / (warps * kWarpLanes);
  if (blocks > device->blocks_per_sm) blocks = device->blocks_per_sm;
  if (blocks > fitting) blocks = fitting;
  if ((size_t)blocks > (size_t)device->smem_per_sm / need)
    blocks = (int)((size_t)device->smem_per_sm / need);
  return blocks;
}

// ---- the API ------------------------------------------------------------------------------------

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction function) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  int arch = function->module->image->arch / 10;
  switch ((int)which) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *value = function_threads(function);
    break;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *value = (int)function->static_smem;
    break;
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: // of a kernel from PTX
    *value = (int)function->kernel->local_bytes;
    break;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *value = registers(function);
    break;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *value = arch;
    break;
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *value = function->max_dynamic_smem
                 ? function->max_dynamic_smem
                 : sim_device()->smem_default - (int)function->static_smem;
    break;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *value = function->carveout;
    break;
  default:
    if ((int)which < 0 || (int)which > 15) return CUDA_ERROR_INVALID_VALUE;
    *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    int most = sim_device()->smem_optin - (int)function->static_smem;
    if (value < 0 || value > most)
      return sim_refuse(CUDA_ERROR_INVALID_VALUE,
                        "kernel %s: it may have up to %d bytes of dynamic shared memory, not %d",
                        function->name, most, value);
    function->max_dynamic_smem = value;
  } else if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
    function->carveout = value;
  } else if (which == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
    function->wide_clusters = value != 0;
  } else {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction function, int config) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  return config >= 0 && config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                     int block_size, size_t smem) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!blocks || block_size < 1 || block_size > kMaxThreads) return CUDA_ERROR_INVALID_VALUE;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  *blocks = function_blocks_per_sm(function, block_size, smem);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *min_grid, int *block_size, CUfunction function,
                                          CUoccupancyB2DSize smem_of_block, size_t smem,
                                          int limit) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!min_grid || !block_size) return CUDA_ERROR_INVALID_VALUE;
  if (!module_owns(function)) return CUDA_ERROR_INVALID_HANDLE;
  int most = 0;
  cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
  if (limit > 0 && limit < most) most = limit;
  int best = 0;
  for (int size = most / kWarpLanes * kWarpLanes; size > 0; size -= kWarpLanes) {
    int blocks = function_blocks_per_sm(function, size, smem_of_block ? smem_of_block(size) : smem);
    if (blocks * size <= best) continue;
    best = blocks * size;
    *block_size = size;
    *min_grid = blocks * sim_device()->multiprocessors;
  }
  return best ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

__attribute__((visibility("default"))) CUresult
cusimKernelCounters(CUfunction function, KernelCounters *counters, size_t size) {
  if (!counters || size > sizeof *counters) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&sim_lock);
  bool known = module_owns(function);
  if (known) memcpy(counters, function->counters, size);
  pthread_mutex_unlock(&sim_lock);
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
