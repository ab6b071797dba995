// grid.c: state shared by the blocks of a cooperative launch: their barrier, and the workspace of
// the barrier in NVIDIA's cooperative_groups.h.
#include "sim/exec/exec.h"

#include <string.h>

static const Launch *launch_here(void) {
  return fiber_running()->block->launch;
}

int cusim_grid_is_cooperative(void) {
  return launch_here()->cooperative;
}

void *cusim_grid_workspace(void) {
  Launch *launch = fiber_running()->block->launch;
  return launch->cooperative ? &launch->workspace : NULL;
}

// One thread of each block arrives and waits; block barriers around it synchronise the others.
void cusim_grid_barrier(void) {
  Fiber *fiber = fiber_running();
  Launch *launch = fiber->block->launch;
  const void *pc = __builtin_return_address(0);
  unsigned long blocks = launch->total;
  if (!launch->cooperative)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                "a barrier of the grid, in a launch that is not cooperative");
  cusim_barrier_named(0, 0, 0);
  if (fiber->self.linear == 0) {
    unsigned long turn = atomic_load(&launch->grid_arrived) / blocks;
    trace_grid(fiber->block);
    atomic_fetch_add(&launch->grid_arrived, 1);
    while (atomic_load(&launch->grid_arrived) / blocks == turn) cusim_yield();
    trace_grid(fiber->block);
  }
  cusim_barrier_named(0, 0, 0);
}

// ---- lanes that are together --------------------------------------------------------------------

unsigned cusim_lanes_here(void) {
  Fiber *fiber = fiber_running();
  Warp *warp = fiber_warp(fiber);
  const void *pc = __builtin_return_address(0);
  warp->gathering |= 1u << fiber->self.linear % kWarpLanes;
  block_wait(fiber, WaitLanes, NULL, pc);
  return warp->gathered[fiber->self.linear % kWarpLanes];
}

// No other lane of the warp can run: lanes that wait at one place are together.
bool grid_gather(Warp *warp) {
  unsigned together = 0;
  const void *pc = NULL;
  for (unsigned rest = warp->gathering; rest; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    if (!together) pc = warp->fibers[lane]->wait_pc;
    if (warp->fibers[lane]->wait_pc == pc) together |= 1u << lane;
  }
  for (unsigned rest = together; rest; rest &= rest - 1)
    warp->gathered[__builtin_ctz(rest)] = together;
  warp->gathering &= ~together;
  warp->ready |= together;
  return together != 0;
}
