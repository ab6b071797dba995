// sched.h: what the files of the scheduler share.
#ifndef NNGEN_SCHED_H
#define NNGEN_SCHED_H

#include "nngen.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

int64_t sched_ceil_div(int64_t a, int64_t b);
// Elements of a run (of `run` in memory) that a thread of the group handles at once: a power of 2
// that divides the run, and no more than 16 bytes of the widest value.
int sched_lanes(const Group *g, int64_t run);
double sched_contract_flops(const Node *n);
void sched_count_work(Group *g); // Group.flops, bytes_read, bytes_written: each tensor once

// sched_contract.c
void sched_contract(Group *g, const Arch *arch);

#endif
