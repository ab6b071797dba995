// counters.h: libcusim's counters, for libcusim and for programs that read them (include cuda.h
// first).
#ifndef CUSIM_COUNTERS_H
#define CUSIM_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

// Counters of one kernel over all launches, with NNGEN_SIM_COUNT=1 (launches, loops: always).
typedef struct KernelCounters {
  uint64_t launches, blocks, threads;
  uint64_t global_read, global_written; // bytes, each access
  uint64_t distinct_read, distinct_written; // global bytes of the last launch, each counted once
  uint64_t shared_read, shared_written;
  uint64_t flops[3]; // multiply-adds twice: mma of 16-bit, TF32, 8-bit operands
  uint64_t barriers, meetings;                                    // arrivals of threads, of lanes
  uint64_t global_requests, global_sectors, global_ideal_sectors; // of warps; 32 bytes a sector
  uint64_t shared_requests, shared_wavefronts, bank_conflicts;    // wavefronts beyond the ideal
  uint64_t ops[3][4];                   // fp32, fp64, 16-bit: additions, products, fma, special
  uint64_t branches, divergent_branches; // of warps, conditional; lanes that part
  uint64_t loops; // launches whose blocks ran as loops over their threads, without fibers
  // For a kernel from PTX: its instructions, counted once per executing warp: integers, fp32, fp64,
  // 16-bit floats, conversions, comparisons and selections, moves, loads, stores, atomics, branches
  // and calls, barriers and fences, lane exchanges, matrices, copies, others.
  uint64_t instructions[16];
} KernelCounters;

#if defined(CUDA_VERSION) || defined(NNGEN_CUDA_API_H)
#ifdef __cplusplus
extern "C"
#endif
    // size: sizeof *counters; for an older, shorter struct only the first fields are filled.
    CUresult
    cusimKernelCounters(CUfunction function, KernelCounters *counters, size_t size);
#endif

#endif
