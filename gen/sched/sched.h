// sched.h: how each group is cut and launched, what it computes and moves, and what it would cost.
#ifndef NNGEN_SCHED_H
#define NNGEN_SCHED_H

#include "gen/fuse/fuse.h"

// ---- sched.c -----------------------------------------------------------------------------------
void sched_pass(Compiler *c); // tiles
const Arch *arch_find(const char *name);
const Arch *arch_default(void);
double sched_flop_rate(const Group *g, const Arch *arch);    // of the units it runs on, data sheet
double sched_flop_seconds(const Group *g, const Arch *arch); // the floors of a kernel
double sched_dram_seconds(const Group *g, const Arch *arch); // of its bytes, as fast as copies
// Elements of a run (of `run` in memory) that a thread of the group handles at once: a power of 2
// that divides the run, and no more than 16 bytes of the widest value.
int sched_lanes(const Group *g, int64_t run);
int sched_divide_down(int lanes, int64_t run); // halved until it divides the run
double sched_contract_flops(const Node *n);
// What its time goes to, what it is not one kernel with, and its candidates.
void sched_explain(const Group *g, const Arch *arch, FILE *file);
const char *sched_lanes_tile(const Group *g), *sched_window_tile(const Group *g),
    *sched_row_tile(const Group *g),
    *sched_scatter_tile(const Group *g), *sched_reduce_tile(const Group *g),
    *sched_many_tile(const Group *g);
double sched_bytes_read(const Group *g, const Node *input); // of what it reads of the input, once
double sched_seconds(Group *g, const Arch *arch); // with the best tile; may be asked again
double sched_flops(const Node *n); // of what it computes
void sched_count_work(Group *g); // Group.flops, bytes_read, bytes_written: each tensor once
// Memory of a kernel's own, through which blocks meet, once that is counted. Counters (i32) begin
// at 0, and are left so.
void sched_scratch(Group *g, const char *name, Dtype dtype, int64_t count);

// A tensor map of a value that a kernel copies boxes of: a parameter, named when it is emitted.
typedef struct Box {
  const char *name;
  const Node *of;
  PlanMap map;
} Box;

enum {
  kTapBytes = 8, // of an entry in a table of taps
  kSmemLast = 16 // whether a block was the last to arrive, the next jobs
};
enum { // of an SM, as the models of costs have it; from data sheets and microbenchmarks
  kSmemPerBlock = 1024, // bytes that a block takes besides its own
  kMostRegisters = 255, // of a thread
  kSchedulers = 4,      // of an instruction a clock
  kSmemRate = 128,      // bytes per clock
  kLoadClocks = 800,    // until a load has landed
  kReadClocks = 30,     // of shared memory
  kMmaClocks = 33,
  kLastBlock = 1400,  // for the last block to know that it is: two fences, an atomic
  kBarrierClocks = 40 // one wait for the ring and for the block
};

// ---- contract.c: contractions as matrix products -----------------------------------------------

// How elements of an operand come to shared memory: `piece` at once by asynchronous copies, that
// run along k, or across it (along m or n). piece 0: each is computed.
typedef struct Operand {
  const Node *base;        // the value in memory
  int64_t stride[MaxRank]; // of the operand's dimensions in it, in elements
  int64_t offset;          // of the operand's first element
  int piece;
  bool across, bounded; // some products lie outside of it
  int issue, waits; // attention's: instructions to compute an element, loads one after the other
} Operand;

// Rows (of all phases) and columns of each batch, and k: the mean of the phases.
typedef struct Product {
  int64_t m, n, k, batch;
  int64_t longest; // k of any phase
  int phases;
  Maps *maps;  // of each phase; axes as kernels count them, the outermost first
  int size;    // bytes of an operand's element
  bool pair;   // each tile has as many columns of both halves (Group.pair)
  int whole;   // columns that a tile holds multiples of
  int tap_run; // elements of k that a tap of a is looked up for; 0: there is no table
  Operand a, b;
} Product;

Product contract_product(const Group *g);
Maps product_axes(const Node *n); // of one phase: axes as kernels count them, but those of size 1
int64_t product_row_tiles(const Product *p, int tile_m); // of all phases
// What a step on an axis adds in a tensor of these strides.
int64_t axis_stride(const Maps *m, int tensor, const int64_t *stride, int axis);
int axes_innermost(const Maps *m, AxisRole role); // the last axis of a role; -1: none
// Are all positions of a role at multiples of one step?
bool axes_linear(const Maps *m, int tensor, const int64_t *stride, AxisRole role, int64_t *step);
int operand_taps(const Maps *m, int tensor);

// ---- span.c: interval arithmetic ---------------------------------------------------------------

typedef struct Span {
  double lo, hi;
} Span;

Span span_any(void);
bool span_is_open(Span s); // nothing is known of it
bool span_true(Span s), span_false(Span s);
bool span_has_code(Code code);                 // lib/span.cuh has a function for it
bool span_rounds(Code code);                   // of floats, to one near
bool span_of_floats(const Node *n);            // what it gives or reads
double span_number(double value, bool floats); // as kernels have it
Span span_run(const Program *p, const Span *in, bool floats);
// What a conversion makes of s; the whole numbers that a dtype holds, false: it is none of
// integers.
Span span_converted(Dtype from, Dtype to, Span s);
bool span_holds(Dtype to, double *least, double *most);
// Which dimension of the result each dimension of the input becomes, -1: its only index; false: a
// move that is no permutation, slice or reshape around dimensions of 1.
bool span_follow(const Node *move, int *from);
// What n, of g or read by it, can be where dimension d is within at[d].
Span span_of(const Group *g, const Node *n, const Span *at);
bool span_wraps(const Group *g, const Node *n); // an integer map: may it leave 32 bits?

// ---- sched_units.c: what multiplies ------------------------------------------------------------

typedef struct Cut { // outputs of a block, of a warp
  int m, n, tm, tn;
} Cut;

// One way to multiply tiles: PREFIXTile of lib/NAME.cuh, for attention PREFIXUnit of
// lib/attend_NAME.cuh. Costs are those of one block of k, kRowBytes long.
struct Unit {
  const char *name, *prefix;
  bool tensor_cores, truncates; // else products are what is issued; does it cut floats to TF32?
  bool keeps;      // a lane can keep its outputs, b's rows ordered for it (lib/tile.cuh)
  int step;        // bytes of k multiplied at once
  int in_flight;   // blocks of k whose products still run while others are loaded
  const Cut *cuts; // to try
  int ncuts;
  bool (*legal)(const Node *n, const Product *p, const Arch *arch); // may it multiply n?
  double (*rate)(const Arch *arch, int size); // FLOP/s that it reaches, by bytes of an element
  int (*registers)(const Tile *t);            // ptxas takes for a thread where they are plenty
  // Registers of a thread for the operands of a step; null: no tile of it spills.
  int (*fragments)(const Tile *t, int size);
  double (*smem)(const Tile *t);                       // clocks of the port, for what warps read
  double (*issue)(const Tile *t, const Product *p);    // instructions of a warp: reads, products
  double (*serial)(const Tile *t, double math_clocks); // clocks of a warp, alone, step after step
};

extern const Unit unit_fma, unit_mma, unit_wgmma, *const sched_units[]; // all; ends with null
bool unit_truncates(const Group *g); // does the product of g cut floats that it reads to TF32?

// ---- sched_cost.c ------------------------------------------------------------------------------

// What bounds a launch and what comes on top, in seconds; kept apart, so that they can be shown.
typedef struct Cost {
  int per_sm;                               // blocks that fit an SM
  double waves;                             // of blocks
  double math, smem, issue, l2, dram, wait; // bounds; wait: for one block of k after the other
  double exp;                               // a bound, of attention: exponentials
  double fill, split, gap;                  // the first loads; the sums of parts; the launch
  double seconds;
} Cost;

enum { TermMath, TermExp, TermSmem, TermIssue, TermL2, TermDram, TermWait, CostBounds };
enum { TermFill = CostBounds, TermJoin, TermLaunch, CostTerms }; // Tile.term: on top of bounds
extern const char *const cost_terms[CostTerms];
void cost_note(Tile *t, const Cost *c); // in the tile: what it takes, and of what
// The terms of at least 0.01 us, the largest first: "dram 3.20, launch 1.30".
const char *cost_text(Arena *arena, const double *term);
// A little more than the largest: bounds do not overlap perfectly.
double cost_together(const double *bounds, int count);
int tile_threads(const Tile *t);
double tile_warps(const Tile *t);
int tile_tap_bytes(const Product *p); // shared memory of the table of taps
int tile_smem(const Tile *t, const Product *p, const Group *g, const Arch *arch); // bytes
bool tile_spills(const Tile *t, const Product *p, const Group *g);
bool tile_keeps(const Tile *t, const Product *p, const Group *g); // lanes keep their outputs
bool tile_walks(const Tile *t, const Product *p, const Group *g, const Arch *arch); // and blocks
// Blocks that have states of the same columns; of these, those whose states are joined first; how
// many such groups there are, 0: all are joined at once.
int tile_meeting(const Tile *t, const Product *p, const Group *g, const Arch *arch);
int meeting_group(int blocks), meeting_groups(int blocks);
int tile_column_words(const Group *g); // of the state of each column of a product; 0: none
int tile_blocks_per_sm(const Tile *t, const Product *p, const Arch *arch);
double tile_count(const Tile *t, const Product *p); // tiles of all outputs
int tile_part_group(const Tile *t);                 // parts of k whose sums are added first
int tile_part_counts(const Tile *t); // counters of a tile: those parts, then all groups of them
int64_t tile_step(const Tile *t, const Product *p);      // elements of k multiplied at once
double tile_multiplies(const Tile *t, const Product *p); // with what is padding
double tile_depth(const Tile *t, const Product *p); // elements of k, whole steps, the most of any
Cost tile_cost(const Tile *t, const Product *p, const Group *g, const Arch *arch);

// ---- sched_stream.c and others: kernels that stream memory --------------------------------------
typedef struct Stream {
  double blocks, threads; // threads of a block
  double elements;        // that all threads handle
  double vectors;         // accesses for them
  double flops;           // of an element
  double steps;           // of a thread: loads one after the other
  double barriers;        // of a block
  double joined;          // parts that the last block reads, one after the other
  double again, missed;   // bytes that are read again from the second-level cache, from DRAM
  double joins, port;     // of a thread, for joins: instructions; words that pass shared memory
  double turn;            // clocks between two instructions of a warp; 0: of those that wait
  int registers;          // of a thread; 0: few
  double text;            // of its instructions, the share that a loop's text has; 0: all
  double smem, at_once;   // shared memory of a block, bytes; blocks under way, 0: all that fit
} Stream;

Cost stream_cost(const Stream *s, const Group *g, const Arch *arch);
double stream_under_way(const Stream *s, const Arch *arch); // blocks, at once
int64_t sched_innermost(const Type *t); // size of the innermost dimension larger than 1
void sched_map(Group *g, const Arch *arch);
void sched_window(Group *g, const Arch *arch);
int window_columns(const Node *n, int pixels), // of the image, that a row of taps reads for them
    window_rows_at_once(const Node *n, const Tile *t); // rows of taps that are unrolled
void sched_reduce(Group *g, const Arch *arch);
void sched_reduce_many(Group *g, const Arch *arch);
void sched_row(Group *g, const Arch *arch), sched_heads(Group *g, const Arch *arch);
enum { kMostRowValues = 64 };
int row_values(const Group *g, int sweeps, const Node **values); // that later sweeps need
typedef struct RowReads {
  int count, most; // reads of an element, over all inputs and sweeps; of the input read most often
  double again;    // bytes, besides those of the first sweep that reads them
} RowReads;
int row_unrolled(const Tile *t, bool again); // accesses of a sweep that its text has one by one
RowReads row_reads(const Group *g, int sweeps, uint64_t kept); // if these row_values stay
void sched_scan(Group *g, const Arch *arch), sched_select(Group *g, const Arch *arch),
    sched_scatter(Group *g, const Arch *arch);

// ---- sched_contract.c --------------------------------------------------------------------------
void sched_contract(Group *g, const Arch *arch);
void sched_explain_contract(const Group *g, const Arch *arch, FILE *file); // candidates by terms
double sched_contract_rate(const Group *g, const Arch *arch);
const char *sched_contract_tile(const Group *g);
// Multiplies of a contraction: what its tiles issue, what the model as written asks for, and those
// of them that are not with the zeros around an image.
void sched_multiplies(const Group *g, double *issued, double *counted, double *inside);
int sched_candidates(const Group *g, const Arch *arch, Tile *tiles, int most); // returns how many
// The cheapest so far are tiles[0..kept), of `most` at the most; returns how many with t.
int sched_keep_cheapest(Tile *tiles, int kept, int most, const Tile *t);
// Of candidates, the cheapest first: the measured one; else, of those that the model cannot tell
// from the cheapest, the one with the fewest parts, since parts take memory.
Tile sched_pick(const Group *g, const Tile *list, int count);
void sched_use(Group *g, const Arch *arch, const Tile *candidate); // schedules a contraction so

// ---- tuning.h: measured choices of tiles, kept in a JSON file that people may read and edit
//
//   { "schema_version": 1,
//     "devices": { "NVIDIA H200": {
//         "fp16 conv 1x64x56x56 by 64x64x3x3 stride 1x1 pad 1,1,1,1":
//           { "tile": "64x32 warps 32x16 stages 4 parts 1", "us": 3.1, "us_cold": 6.2,
//           "model_us": 4.4 } } } }
//
// A compilation takes the tile of its device and problem; `tile` alone must be there, the rest is
// for people. An entry whose tile is no candidate any more is passed over, with a message.
typedef struct TuningEntry { // microseconds; 0: not given
  const char *tile;
  double us, us_cold, model_us; // warm and cold L2; what the model expected of this tile
} TuningEntry;

Tuning *tuning_new(void);
void tuning_free(Tuning *tuning);

// Errors: ExitBadInput, "FILE:LINE: why". A missing file is one too, unless `may_lack`: then empty.
int tuning_read(const char *path, bool may_lack, Tuning **tuning, Error *err);
// Written whole or not at all; entries it held for other devices and problems stay.
int tuning_write(const Tuning *tuning, const char *path, Error *err);

// False: nothing is stored. Names of devices are compared whole, or, for a compilation without a
// device, with the GPU the architecture is known by: "NVIDIA H200" is an "H200".
bool tuning_find(const Tuning *tuning, const char *device, const char *problem, TuningEntry *entry);
// Entries for other devices than this one, of which *other is one; *own: those for it.
int tuning_count(const Tuning *tuning, const char *device, int *own, const char **other);
void tuning_put(Tuning *tuning, const char *device, const char *problem, const TuningEntry *entry);

// For a compilation: the candidate that was measured as the fastest for the problem of this group
// on Options.device. Null: none was; or it is no candidate any more (then Compiler.stale says so).
const Tile *tuning_pick(const Group *g, const Tile *candidates, int count);
void tuning_explain(const Group *g, FILE *file); // the entry it would have; whether it was tuned

const char *tuning_problem(const Group *g);           // in the compiler's arena
const char *tuning_tile(Arena *arena, const Tile *t); // what tells one candidate from the others

// ---- sched_first.c: products whose kernel begins with rows that would be a kernel before it -----
void sched_first(Compiler *c); // Group.first; Graph.groups are then without those rows
// Does the product's kernel load its right operand while it makes them?
bool first_loads_early(const Group *product, const Arch *arch);
// sched_row.c: cuts rows for the blocks of a product, whose tile is `in`: runs of as many rows as
// its threads have at once, a warp for each or less, in jobs. False: they are too long for that.
bool row_cut_inside(Group *g, const Arch *arch, const Tile *in, Cost *cost);
// sched_cost.c: would `more` registers fit besides sums, one step's fragments and addresses?
bool tile_leaves(const Tile *t, const Product *p, int more);
double tile_setup_clocks(const Tile *t); // sched_cost.c: until a block knows where its tile is

#endif
