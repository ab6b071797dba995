// sched.h: schedules: how each kernel is tiled and launched, its work, and its modelled cost.
// Includes contract.h, cost.h, span.h and tuning.h.
#ifndef NNGEN_SCHED_H
#define NNGEN_SCHED_H

#include "contract.h"
#include "cost.h"
#include "span.h"
#include "tuning.h"

// A tensor map (TMA descriptor) of a value of which a kernel copies boxes: a kernel parameter,
// named when emitted.
typedef struct Box {
  const char *name;
  const Node *of;
  PlanMap map;
} Box;

// ---- sched.c: the pass, work, reports ----------------------------------------------------------

void sched_pass(Compiler *c); // chooses tiles
const Arch *arch_find(const char *name);
const Arch *arch_default(void);

double sched_flops(const Node *n);          // operations of one node
double sched_contract_flops(const Node *n); // of a contraction, as in the model
void sched_count_work(Group *g);            // sets flops, bytes_read, bytes_written of the group
double sched_bytes_read(const Group *g, const Node *input);  // each element counted once
double sched_flop_rate(const Group *g, const Arch *arch);    // peak FLOP/s of its unit
double sched_flop_seconds(const Group *g, const Arch *arch); // roofline: arithmetic
double sched_dram_seconds(const Group *g, const Arch *arch); // roofline: memory
double sched_seconds(Group *g, const Arch *arch); // modelled, with the best tile; may be repeated
// Adds scratch memory, through which blocks of a kernel communicate; called after sched_count_work.
// Counters (i32) are zero before and after each launch.
void sched_scratch(Group *g, const char *name, Dtype dtype, int64_t count);

// Vector width: the largest power of two of elements that divides `run` (elements contiguous in
// memory) and is at most 16 bytes of the widest value.
int sched_lanes(const Group *g, int64_t run);
int sched_divide_down(int lanes, int64_t run); // halves lanes until it divides run
int64_t sched_innermost(const Type *t);        // size of the innermost dimension larger than 1

// Prints cost terms, fusion refusals and candidate tiles.
void sched_explain(const Group *g, const Arch *arch, FILE *file);
// Template callbacks: the tile as text.
const char *sched_lanes_tile(const Group *g);
const char *sched_window_tile(const Group *g);
const char *sched_row_tile(const Group *g);
const char *sched_reduce_tile(const Group *g); // also scan
const char *sched_many_tile(const Group *g);
const char *sched_scatter_tile(const Group *g); // sched_scatter.c

// ---- kernels that stream memory: one file each, tiles by stream_cost ---------------------------

void sched_map(Group *g, const Arch *arch);
void sched_window(Group *g, const Arch *arch);      // sched_stream.c
void sched_reduce(Group *g, const Arch *arch);      // sched_stream.c
void sched_reduce_many(Group *g, const Arch *arch); // sched_many.c
void sched_row(Group *g, const Arch *arch);
void sched_heads(Group *g, const Arch *arch);
void sched_scan(Group *g, const Arch *arch);
void sched_select(Group *g, const Arch *arch);
void sched_sort(Group *g, const Arch *arch);
void sched_scatter(Group *g, const Arch *arch);

int window_columns(const Node *n, int pixels); // image columns read by `pixels` adjacent outputs
int window_rows_at_once(const Node *n, const Tile *t); // rows of filter taps that are unrolled

enum { kMostRowValues = 64 };
// Values of a row kernel that later sweeps over the row need; returns how many.
int row_values(const Group *g, int sweeps, const Node **values);
typedef struct RowReads {
  int count;    // reads per element, over all inputs and sweeps
  int most;     // of the input read most often
  double again; // bytes read by sweeps after the first that reads them
} RowReads;
RowReads row_reads(const Group *g, int sweeps, uint64_t kept); // kept: bits of row_values
int row_unrolled(const Tile *t, bool again); // accesses of a sweep that are unrolled
// Tiles rows inside a contraction's kernel, whose tile is `in`: runs of as many rows as its threads
// process at once (at most a warp per row), in jobs. False: the rows are too long.
bool row_cut_inside(Group *g, const Arch *arch, const Tile *in, Cost *cost);

// ---- sched_prologue.c: contraction kernels with a fused normalisation prologue ------------------

// Sets Group.first; removes the fused row kernels from Graph.groups.
void sched_prologue(Compiler *c);
// Does the kernel load its right operand while the prologue runs?
bool first_loads_early(const Group *product, const Arch *arch);

#endif
