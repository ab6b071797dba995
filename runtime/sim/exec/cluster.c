// cluster.c: blocks that run together and access each other's shared memory: the barrier of a
// cluster, and the owner of a shared address. A cluster's blocks are fibers of one OS thread; a
// single block is a cluster of one.
#include "sim/exec/exec.h"

Block *cluster_owner(Block *block, const void *address) {
  const Cluster *c = block->cluster;
  for (int r = 0; r < c->size && c->size > 1; r++)
    if ((uintptr_t)address - (uintptr_t)c->smem[r] < block->place.smem_bytes) return c->blocks[r];
  return block;
}

bool cluster_lives(const Cluster *c) {
  for (int r = 0; r < c->size; r++)
    if (c->blocks[r]->live) return true;
  return false;
}

// A block of the cluster with a runnable lane, from the next one on, or NULL.
Block *cluster_next(Block *block) {
  const Cluster *c = block->cluster;
  int first = (int)block->place.cluster_rank;
  if (block->random) first += (int)(block_random(block) % (unsigned)c->size);
  for (int i = 1; i <= c->size; i++) {
    Block *next = c->blocks[(first + i) % c->size];
    if (next->ready_warps) return next;
  }
  return NULL;
}

void cusim_no_rank(unsigned rank) {
  fault_raise(CUDA_ERROR_ILLEGAL_INSTRUCTION, __builtin_return_address(0),
              "there is no block %u in a cluster of %u", rank, cusim_self->cluster_size);
}

// ---- the barrier --------------------------------------------------------------------------------

static int live_threads(const Cluster *c) {
  int live = 0;
  for (int r = 0; r < c->size; r++) live += c->blocks[r]->live;
  return live;
}

static void wake(Block *block) {
  for (int t = 0; t < block->threads; t++) {
    Warp *warp = &block->warps[t / kWarpLanes];
    unsigned bit = 1u << t % kWarpLanes;
    if (!(warp->live & bit) || ((warp->fresh | warp->ready) & bit)) continue;
    if (warp->fibers[t % kWarpLanes]->wait == WaitCluster)
      block_ready(warp->fibers[t % kWarpLanes]);
  }
}

static void turn_if_all(Cluster *c) {
  if (!c->arrived || c->arrived < live_threads(c)) return;
  c->phase++;
  c->arrived = 0;
  for (int r = 0; r < c->size; r++) {
    clock_drop(
        &c->blocks[r]->cluster_clocks[c->phase & 1]); // of the phase before: all have left it
    wake(c->blocks[r]);
  }
}

void cusim_cluster_arrive(void) {
  Fiber *fiber = fiber_running();
  Block *block = fiber->block;
  Cluster *c = block->cluster;
  if (fiber->cluster_arrived)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, __builtin_return_address(0),
                "a thread arrives at the cluster's barrier again, without a wait between");
  trace_grid(block);
  block->arrivals++;
  fiber->cluster_arrived = true;
  fiber->cluster_phase = c->phase;
  clock_publish(block, &block->cluster_clocks[c->phase & 1], (int)fiber->self.linear);
  c->arrived++;
  turn_if_all(c);
}

void cusim_cluster_wait(void) {
  Fiber *fiber = fiber_running();
  Block *block = fiber->block;
  const void *pc = __builtin_return_address(0);
  if (!fiber->cluster_arrived)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                "a thread waits at the cluster's barrier without having arrived");
  while (fiber->cluster_phase == block->cluster->phase)
    block_wait(fiber, WaitCluster, block->cluster, pc);
  fiber->cluster_arrived = false;
  clock_learn(block, block->cluster_clocks[fiber->cluster_phase & 1], (int)fiber->self.linear);
  trace_grid(block);
}

// A thread that exits is not waited for.
void cluster_exit(Fiber *fiber) {
  Cluster *c = fiber->block->cluster;
  if (fiber->cluster_arrived && fiber->cluster_phase == c->phase) c->arrived--;
  turn_if_all(c);
}
