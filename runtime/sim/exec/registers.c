// registers.c: setmaxnreg: the warps of a block exchange registers. At launch each thread has an
// equal part of the multiprocessor's, or what the kernel asked for.
#include "sim/exec/exec.h"

#include <string.h>

static int at_launch(const Block *block) {
  enum { kMost = 255, kStep = 8 };
  int asked = block->launch->function->kernel->limits.registers;
  int part = sim_device()->registers_per_sm /
             ((block->threads + kWarpLanes - 1) / kWarpLanes * kWarpLanes);
  int most = asked && asked < part ? asked : part;
  return (most < kMost ? most : kMost) / kStep * kStep;
}

// Registers of the whole block if that warp's threads had `registers` each.
static long total(const Block *block, int warp, int registers) {
  long sum = 0;
  int own = at_launch(block);
  for (int w = 0; w * kWarpLanes < block->threads; w++) {
    int now = block->registers[w] ? block->registers[w] : own;
    sum += (w == warp ? registers : now) * kWarpLanes;
  }
  return sum;
}

static void wake(Block *block) {
  for (int t = 0; t < block->threads; t++) {
    Warp *warp = &block->warps[t / kWarpLanes];
    unsigned bit = 1u << t % kWarpLanes;
    if (!(warp->live & bit) || ((warp->fresh | warp->ready) & bit)) continue;
    if (warp->fibers[t % kWarpLanes]->wait == WaitRegisters)
      block_ready(warp->fibers[t % kWarpLanes]);
  }
}

void cusim_set_registers(int registers) {
  Fiber *fiber = fiber_running();
  Block *block = fiber->block;
  int warp = (int)fiber->self.linear / kWarpLanes;
  const void *pc = __builtin_return_address(0);
  if (block->registers[warp] == registers) return; // another lane has requested it
  while (total(block, warp, registers) > sim_device()->registers_per_sm)
    block_wait(fiber, WaitRegisters, NULL, pc);
  block->registers[warp] = registers;
  wake(block);
}
