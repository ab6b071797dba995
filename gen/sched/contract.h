// contract.h: contractions as batched GEMMs, their units (FMA, MMA, WGMMA) and tiles. A part of
// sched.h.
#ifndef NNGEN_SCHED_CONTRACT_H
#define NNGEN_SCHED_CONTRACT_H

#include "cost.h"

enum {
  kTapBytes = 8, // per entry of a tap table
  kSmemLast = 16 // shared memory for the last-block flag and the job number
};

// ---- contract.c: a contraction as a GEMM -------------------------------------------------------

// How elements of an operand reach shared memory.
typedef struct Operand {
  const Node *base;        // the value in memory
  int64_t stride[MaxRank]; // of the operand's dimensions in it, in elements
  int64_t offset;          // of the operand's first element
  int piece;               // elements per asynchronous copy; 0: each element is computed
  bool across;             // copies run along m or n, not along k
  bool bounded;            // some indices are outside (padding)
  int issue;               // attention: instructions to compute an element
  int waits;               // attention: dependent loads for it
} Operand;

typedef struct Product {
  int64_t m;       // rows of all phases, per batch
  int64_t n;       // columns
  int64_t k;       // mean of the phases
  int64_t longest; // largest k of a phase
  int64_t batch;
  int phases;
  Maps *maps;  // per phase; axes in the order kernels count them, outermost first
  int size;    // bytes of an operand's element
  bool pair;   // a tile holds the same columns of both halves (Group.pair)
  bool transposed; // outputs are stored along m
  int whole;   // tile width must be a multiple of this
  int tap_run; // elements of k per entry of the tap table of a; 0: no table
  Operand a, b;
} Product;

Product contract_product(const Group *g);
Maps product_axes(const Node *n); // one phase: axes in kernel order, without those of size 1
int64_t product_row_tiles(const Product *p, int tile_m); // of all phases
// Memory stride of a step on an axis, in a tensor with these strides.
int64_t axis_stride(const Maps *m, int tensor, const int64_t *stride, int axis);
int axes_innermost(const Maps *m, AxisRole role); // the last axis of a role, or -1
// Are all positions of a role equally spaced in memory? *step: the distance.
bool axes_linear(const Maps *m, int tensor, const int64_t *stride, AxisRole role, int64_t *step);
int operand_taps(const Maps *m, int tensor); // bits of a tap mask, or -1

// ---- sched_units.c: the units that multiply ----------------------------------------------------

typedef struct Cut {
  int m, n, tm, tn; // tile of a block, of a warp
} Cut;

// One way to multiply tiles: PREFIXTile of lib/NAME.cuh; for attention PREFIXUnit of
// lib/attend_NAME.cuh. Costs are per block of k (kRowBytes long).
struct Unit {
  const char *name, *prefix;
  bool tensor_cores;
  bool truncates;  // truncates f32 operands to TF32 instead of rounding
  bool keeps;      // its accumulator layout allows an epilogue in registers (lib/tile.cuh)
  int step;        // bytes of k multiplied at once
  int in_flight;   // blocks of k still being multiplied while others are loaded
  const Cut *cuts; // tile shapes to try
  int ncuts;
  bool (*legal)(const Node *n, const Product *p, const Arch *arch);
  double (*rate)(const Arch *arch, int size); // attainable FLOP/s, by bytes of an element
  int (*registers)(const Tile *t);            // per thread, as ptxas allocates without limit
  // Registers for the operand fragments of a step; NULL: no tile spills.
  int (*fragments)(const Tile *t, int size);
  double (*smem)(const Tile *t);                       // clocks of shared memory reads
  double (*issue)(const Tile *t, const Product *p);    // instructions of a warp
  double (*serial)(const Tile *t, double math_clocks); // clocks of a single warp, steps dependent
};

extern const Unit unit_fma;
extern const Unit unit_mma;
extern const Unit unit_wgmma;
extern const Unit *const sched_units[]; // ends with NULL
bool unit_truncates(const Group *g);    // does g's unit truncate operands to TF32?

// ---- sched_cost.c: what a tile needs and costs -------------------------------------------------

int tile_threads(const Tile *t);
int tile_staged(const Tile *t, const Product *p); // floats of staged outputs, with padding
double tile_warps(const Tile *t);
int tile_tap_bytes(const Product *p); // shared memory of the tap table
int tile_smem(const Tile *t, const Product *p, const Group *g, const Arch *arch); // bytes
bool tile_spills(const Tile *t, const Product *p, const Group *g);
// Would `more` registers fit next to accumulators, fragments and addresses?
bool tile_leaves(const Tile *t, const Product *p, int more);
int tile_blocks_per_sm(const Tile *t, const Product *p, const Arch *arch);
// Does the epilogue run directly on accumulator registers?
bool tile_keeps(const Tile *t, const Product *p, const Group *g);
// Is the kernel persistent (blocks process several tiles)?
bool tile_walks(const Tile *t, const Product *p, const Group *g, const Arch *arch);

double tile_count(const Tile *t, const Product *p);      // output tiles
int64_t tile_step(const Tile *t, const Product *p);      // elements of k multiplied at once
double tile_multiplies(const Tile *t, const Product *p); // including padding
double tile_depth(const Tile *t, const Product *p); // elements of k per block, rounded up to steps

int tile_part_group(const Tile *t);    // split-K: parts summed together in the first stage
int tile_part_counts(const Tile *t);   // split-K: counters per tile: one per group, one for all
int tile_column_words(const Group *g); // words of each column's accumulator, or 0
// Column statistics: blocks that accumulate the same columns.
int tile_meeting(const Tile *t, const Product *p, const Group *g, const Arch *arch);
int meeting_group(int blocks);  // of these, blocks combined in the first stage
int meeting_groups(int blocks); // number of such groups; 0: one stage

double tile_setup_clocks(const Tile *t); // until a block knows its tile's position
Cost tile_cost(const Tile *t, const Product *p, const Group *g, const Arch *arch);

// ---- sched_contract.c: choosing a tile ---------------------------------------------------------

void sched_contract(Group *g, const Arch *arch);
// Fills tiles[most] with the cheapest candidates, cheapest first; returns how many.
int sched_candidates(const Group *g, const Arch *arch, Tile *tiles, int most);
// Inserts t into tiles[0..kept), sorted by cost, at most `most`; returns the new count.
int sched_keep_cheapest(Tile *tiles, int kept, int most, const Tile *t);
// The measured candidate if there is one; else, among those within the model's error of the
// cheapest (the first), the one with the fewest splits, since splits need memory.
Tile sched_pick(const Group *g, const Tile *list, int count);
void sched_use(Group *g, const Arch *arch, const Tile *candidate); // schedules g with this tile
void sched_explain_contract(const Group *g, const Arch *arch, FILE *file); // candidates by terms
double sched_contract_rate(const Group *g, const Arch *arch);
const char *sched_contract_tile(const Group *g);
// Multiplications: issued by the tiles; of the model as written (counted); of these, without those
// by padding (inside).
void sched_multiplies(const Group *g, double *issued, double *counted, double *inside);

#endif
