// exec.h: how a launch runs: OS threads claim blocks, whose threads run as fibers.
#ifndef CUSIM_EXEC_H
#define CUSIM_EXEC_H

#include "sim/check/check.h"

#pragma GCC visibility push(hidden)

void fiber_switch(void **save, void *load); // fiber_switch.S, or fiber.c with ucontext
// From the free list, or made, with stack enough for the launch; null without memory.
Fiber *fiber_take(Worker *worker, const Launch *launch);
bool fiber_ready(Worker *worker);           // at least one is in the free list, or was made
void fiber_reset(Fiber *fiber);             // its stack starts over
void fiber_free(Fiber *fiber);

void cluster_run(Worker *worker, struct Launch *launch, unsigned long index);
void block_wait(Fiber *fiber, WaitKind kind, const void *object, const void *pc);
void block_ready(Fiber *fiber); // the fiber may continue
void block_yield(Fiber *fiber);
void block_abandon(void) __attribute__((noreturn)); // ends the running block
uint64_t block_random(Block *block);

void meeting_exit(Fiber *fiber); // a lane has exited: meetings may be complete
bool grid_gather(Warp *warp); // lanes that query which lanes are with them; true: some continue
Block *cluster_owner(Block *block, const void *address); // whose shared memory it is of
bool cluster_lives(const Cluster *cluster);
Block *cluster_next(Block *block);
void cluster_exit(Fiber *fiber);
void barrier_exit(Block *block, int thread);
bool mbar_done(unsigned long long *bar, int parity);
void mbar_arrive(Fiber *fiber, unsigned long long *bar, int expect_bytes, const void *pc);
bool mbar_wake_trying(Block *block);
void copy_land_all(Fiber *fiber);
bool copy_land_deferred(Block *block); // lands copies that an mbarrier waits for; false if none

void mbar_complete(Block *block, unsigned long long *bar, int bytes, int thread, const void *pc);
bool bulk_land_one(Block *block); // a load that is waited for; false if none
void bulk_land_stores(Fiber *fiber, unsigned group); // of the groups before this one
void bulk_drop(Block *block);     // drops copies that have not landed

void launch_run_lower(Launch *launch); // those of lower_next
// Clusters before a spinning one that have not begun (lower.c).
void lower_make(Launch *launch);
bool lower_claim(Launch *launch, unsigned long index); // no other worker has it
bool lower_next(Launch *launch, unsigned long *index); // the first of them, claimed
void lower_begin(Launch *launch);                      // the thread for them waits for its turn
void lower_spin(Block *block);                         // a thread of it spins
void lower_end(Launch *launch);                        // when all have run
CUresult launch_run(Launch *launch); // run.c: all blocks, on all cores

#pragma GCC visibility pop
#endif
