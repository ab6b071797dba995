// meeting.c: how the lanes of a warp wait for each other: each brings its operands, the last one to
// arrive does the work.
#include "sim/exec/exec.h"

// A collective without work is __syncwarp, which also orders memory. NOTE: a shuffle or vote does
// not (except for earlier reads: passed.c), but other lanes may rely on what a lane learned by an
// atomic operation, as in NVIDIA's cooperative-groups barriers of several warps. The lane's own
// writes are excluded.
static inline void tell(Fiber *fiber, Meeting *meeting) {
  Block *block = fiber->block;
  int thread = (int)fiber->self.linear;
  if (!meeting->work)
    clock_publish(block, &meeting->clock, thread);
  else if (block->last_atomic)
    clock_pass(block, &meeting->clock, thread);
}

static void order_lanes(Block *block, Warp *warp, Meeting *meeting, unsigned lanes) {
  for (unsigned rest = lanes; rest && meeting->clock; rest &= rest - 1)
    clock_take(block, meeting->clock,
               (int)(warp - block->warps) * kWarpLanes + __builtin_ctz(rest));
}

static void close_meeting(Warp *warp, Meeting *meeting) {
  clock_drop(&meeting->clock);
  *meeting = warp->meetings[--warp->open];
}

static inline void do_work(Block *block, Warp *warp, CusimWork work, unsigned lanes,
                           const void *pc) {
  passed_meet(block, (int)(warp - block->warps), lanes);
  block->working = true;
  block->work_pc = pc;
  work(warp->operands, lanes);
  block->working = false;
}

// All live lanes have arrived: does the work and releases them.
static void finish(Block *block, Warp *warp, Meeting *meeting) {
  if (meeting->work) do_work(block, warp, meeting->work, meeting->arrived, meeting->pc);
  order_lanes(block, warp, meeting, meeting->arrived);
  warp->ready |= meeting->arrived;
  block->ready_warps |= 1u << (warp - block->warps);
  close_meeting(warp, meeting);
}

static Meeting *find(Warp *warp, unsigned mask, CusimWork work, const void *pc) {
  for (int i = 0; i < warp->open; i++) {
    Meeting *meeting = &warp->meetings[i];
    if (meeting->mask == mask && meeting->work == work) return meeting;
    if (meeting->mask == mask)
      fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                  "lanes of one warp, all of mask %08x, execute different collectives", mask);
  }
  Meeting *meeting = &warp->meetings[warp->open++];
  *meeting = (Meeting){mask, 0, work, pc, NULL};
  return meeting;
}

void cusim_meet(unsigned mask, CusimWork work, void *operands) {
  Fiber *fiber = fiber_running();
  Warp *warp = fiber_warp(fiber);
  int lane = fiber->self.linear % kWarpLanes;
  const void *pc = __builtin_return_address(0);
  if (!(mask >> lane & 1))
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "lane %d is not in its own mask %08x", lane, mask);
  Meeting *meeting = find(warp, mask, work, pc);
  warp->operands[lane] = operands;
  fiber->block->meetings++;
  meeting->arrived |= 1u << lane;
  tell(fiber, meeting);
  if (warp->live & mask & ~meeting->arrived) {
    block_wait(fiber, WaitMeeting, meeting, pc);
    return;
  }
  meeting->arrived &= ~(1u << lane); // this one runs on
  unsigned others = meeting->arrived;
  if (work) do_work(fiber->block, warp, work, others | 1u << lane, pc);
  order_lanes(fiber->block, warp, meeting, others | 1u << lane);
  close_meeting(warp, meeting);
  warp->ready |= others;
  fiber->block->ready_warps |= 1u << (warp - fiber->block->warps);
}

void meeting_exit(Fiber *fiber) {
  Warp *warp = fiber_warp(fiber);
  for (int i = warp->open - 1; i >= 0; i--) {
    Meeting *meeting = &warp->meetings[i];
    if (!(warp->live & meeting->mask & ~meeting->arrived)) finish(fiber->block, warp, meeting);
  }
}

void cusim_missing_lane(int reader, int source) {
  fault_raise(CUDA_ERROR_LAUNCH_FAILED, fiber_running()->block->work_pc,
              "lane %d shuffles from lane %d, which is in its mask but has exited or is "
              "not there",
              reader, source);
}

// ---- warp groups --------------------------------------------------------------------------------

void cusim_meet_group(CusimWork work, void *operands) {
  Fiber *fiber = fiber_running();
  Block *block = fiber->block;
  const void *pc = __builtin_return_address(0);
  int first = (int)fiber->self.linear / kGroupThreads * kGroupThreads;
  GroupMeeting *group = &block->groups[first / kGroupThreads];
  if (first + kGroupThreads > block->threads)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc, "the last warp group has fewer than 128 threads");
  if (group->arrived && group->work != work)
    fault_raise(CUDA_ERROR_LAUNCH_FAILED, pc,
                "threads of one warp group execute different collectives");
  group->work = work;
  group->operands[(int)fiber->self.linear - first] = operands;
  if (++group->arrived < kGroupThreads) {
    block_wait(fiber, WaitMeeting, group, pc);
    return;
  }
  group->arrived = 0;
  block->working = true;
  work(group->operands, ~0u);
  block->working = false;
  for (int t = first; t < first + kGroupThreads; t++) {
    if (t == (int)fiber->self.linear) continue;
    block->warps[t / kWarpLanes].ready |= 1u << t % kWarpLanes;
    block->ready_warps |= 1u << t / kWarpLanes;
  }
}
