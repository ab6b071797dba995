// cost.h: the cost model: parameters of an SM, cost terms, kernels that stream memory. A part of
// sched.h.
#ifndef NNGEN_SCHED_COST_H
#define NNGEN_SCHED_COST_H

#include "gen/fuse/fuse.h"

enum {                  // parameters of an SM, from data sheets and microbenchmarks
  kSmemPerBlock = 1024, // bytes of shared memory reserved per block
  kMostRegisters = 255, // per thread
  kSchedulers = 4,      // warp schedulers per SM; each issues one instruction per clock
  kSmemRate = 128,      // bytes of shared memory per clock
  kLoadClocks = 800,    // latency of a global load, under load
  kReadClocks = 30,     // latency of shared memory
  kMmaClocks = 33,      // latency of mma.sync
  kLastBlock = 1400,    // clocks to detect the last block: two fences, an atomic
  kBarrierClocks = 40   // one wait for the ring and for the block
};

// Bounds of a launch, and costs added to them, in seconds.
typedef struct Cost {
  int per_sm;   // blocks per SM
  double waves; // of blocks
  double math;  // bound: arithmetic
  double exp;   // bound: exponentials (attention)
  double smem;  // bound: shared memory bandwidth
  double issue; // bound: instruction issue
  double l2;    // bound: L2 bandwidth
  double dram;  // bound: DRAM bandwidth
  double wait;  // bound: latency of dependent steps, such as one block of k after the other
  double fill;  // added: first loads
  double split; // added: combining the parts of split kernels
  double gap;   // added: launch
  double sectors; // part of l2 and dram: sectors beyond the bytes needed
  double seconds;
} Cost;

// Indices of Tile.term and cost_terms: bounds, then added costs, then a part of the bounds.
enum { TermMath, TermExp, TermSmem, TermIssue, TermL2, TermDram, TermWait, CostBounds };
enum { TermFill = CostBounds, TermJoin, TermLaunch, CostTerms };
enum { TermSectors = CostTerms, CostNoted };
extern const char *const cost_terms[CostNoted]; // names
void cost_note(Tile *t, const Cost *c);         // stores the cost in the tile
// The terms of at least 0.01 us, largest first, and the part of sectors: "dram 3.20, launch 1.30".
const char *cost_text(Arena *arena, const double *term);
// Combined bounds: a little more than the largest, because they do not overlap perfectly.
double cost_together(const double *bounds, int count);

// ---- sectors.c ---------------------------------------------------------------------------------

typedef struct Sectors Sectors; // the accesses of a kernel
// How threads visit elements, as a matrix in memory order: a block has `rows` rows of `across`
// threads with `lanes` neighbouring elements each, and then perhaps others.
typedef struct Spread {
  int64_t columns; // of the matrix
  int rows, across, lanes;
} Spread;
typedef struct Excess {
  double accesses; // of single elements, where vectors were counted
  double l1;       // bytes of all requests' sectors; 0 if all are used
  double l2, dram; // bytes beyond those needed
} Excess;

// The accesses of g, which visits `elements`, if sectors may be used in part; else NULL. Freed with
// free().
Sectors *sectors_of(const Group *g, const Type *elements);
// Does an access of neighbours in a column of the matrix fill sectors that others use in part?
bool sectors_may_fill(const Sectors *s, int64_t columns);
// Of the launch, with `per_sm` blocks on an SM. s may be NULL.
Excess sectors_excess(const Sectors *s, const Spread *x, double per_sm, const Arch *arch);

// ---- sched_stream.c ----------------------------------------------------------------------------

// Work of a kernel that streams memory.
typedef struct Stream {
  double blocks;
  double threads;  // per block
  double elements; // of all threads
  double vectors;  // memory accesses for them
  double flops;    // per element
  double steps;    // per thread: dependent loads
  double barriers; // per block
  double joined;   // parts that the last block loads one after the other
  double again;    // bytes read again from L2
  double missed;   // bytes read again from DRAM
  Excess sectors;  // the same for sectors used in part
  double joins;    // per thread: instructions that combine accumulators
  double port;     // per thread: words through shared memory for that
  double turn;     // clocks between two instructions of a warp; 0: default
  int registers;   // per thread; 0: few
  double text;     // share of its instructions that are program text (loops); 0: all
  double smem;     // shared memory per block, bytes
  double at_once;  // blocks resident at the same time; 0: all that fit
} Stream;

int stream_per_sm(const Stream *s, const Arch *arch); // resident blocks of an SM
Cost stream_cost(const Stream *s, const Group *g, const Arch *arch);
double stream_under_way(const Stream *s, const Arch *arch); // resident blocks

#endif
