// group.h: groups: what becomes one kernel, its template and its schedule.
#ifndef NNGEN_GROUP_H
#define NNGEN_GROUP_H

#include "gen/pass/pass.h"

// ---- templates ----------------------------------------------------------------------------------

// Why n does not join k, or NULL.
typedef const char *FuseRule(const Group *k, const Node *n);

// What a template can compute in one kernel.
typedef struct Fusion {
  bool (*anchors)(const Node *n);                // does this template implement n?
  FuseRule *joins[OpClassCount];                 // by class of n: its epilogue; NULL: never
  const char *(*takes)(Group *k, Group *before); // why maps `before` are not fused into k's loads
  const Type *(*elements)(const Group *k);       // domain, for horizontal fusion; NULL: none
  bool maps;     // maps and moves only: any template may compute such a group
  bool sweeps;   // reductions of the same elements join it
  bool product;  // the anchor is a contraction: its epilogue computes moves and column sums
  bool transposes; // its stores may be coalesced along rows, not columns
  bool anywhere; // can store to any layout
  bool in_place; // after the anchor, each element is read and written by one thread
} Fusion;

typedef struct Tile Tile;
typedef struct Unit Unit; // tensor or FMA unit (sched.h)
typedef struct Emitter Emitter;

// How a group of nodes becomes one kernel: a row of compile/templates.c. CLASS
typedef struct Template {
  const char *name; // templates/NAME.cu
  const Fusion *fusion;
  void (*schedule)(Group *g, const Arch *arch); // sets Group.tile
  const char *(*tile)(const Group *g);          // Group.tile as text
  void (*emit)(Emitter *e);
  // The rest may be NULL.
  double (*seconds)(Group *g, const Arch *arch);    // modelled time; schedules g
  double (*rate)(const Group *g, const Arch *arch); // peak FLOP/s; NULL: that of fp32
  int (*candidates)(const Group *g, const Arch *arch, Tile *tiles, int most); // returns the number
  void (*use)(Group *g, const Arch *arch, const Tile *candidate);             // schedules g so
  void (*explain)(const Group *g, const Arch *arch, FILE *file);              // its candidates
  void (*multiplies)(const Group *g, double *issued, double *counted, double *inside);
  double (*gate)(const Group *g);  // relative error allowed in addition to rounding its outputs
  bool (*bounded)(const Group *g); // does the bound c k u |a||b| hold for elements of the outputs?
  bool skips;                      // leaves out multiplications by masked attention probabilities
} Template;

// The schedule of a group: how its domain is cut and launched. Fields unused by a template are 0.
struct Tile {
  int lanes;        // elements of the innermost dimension per thread and access
  int threads;      // per block
  int m;            // contract: rows of a block's tile
  int n;            // contract: columns of a block's tile
  int k;            // contract: inner elements per stage
  int tm;           // contract: rows of a warp's tile
  int tn;           // contract: columns of a warp's tile
  const Unit *unit; // contract, attend: tensor or FMA unit
  int blocks;       // contract: blocks that should fit an SM
  int stages;       // contract: stages of the ring in shared memory
  int meeting;      // contract: blocks that contribute to the same column sums
  int group;        // contract: how many of these are added together before the last block adds all
  int splits;       // contract: split-K parts, summed by the last to arrive; reduce, scan: of a row
  int rows;         // row, reduce, scan: rows (or lane vectors) per block; map: of a matrix of
                    // `columns` columns, if these are not 0; sort: runs
  int64_t columns;
  int items;        // row: accesses per thread and row; scan: those in flight; window: pixels
  int runs;         // row, as a prologue: groups of `rows` rows that a block computes at a time
  uint64_t kept;    // row: bits of the row_values that are kept between sweeps
  uint64_t shared;  // row: those of `kept` in shared memory
  bool together;    // reduce, scan: a thread's lanes are reduced together
  int depth;        // reduce: accesses in flight
  int part;         // reduce, scan: elements of one of `splits` parts; sort: of a run
  int64_t grid[3];  // blocks
  int smem;         // dynamic shared memory, bytes
  double seconds;   // modelled time
  double term[11];  // its terms, seconds, named by cost_terms (sched.h)
  bool tuned;       // contract: measured as the fastest; the model is ignored
};

// ---- groups -------------------------------------------------------------------------------------

// Global memory used only by one kernel.
typedef struct Scratch {
  const char *name; // of the parameter
  Dtype dtype;
  int64_t count; // elements
  bool zeroed;   // before the first launch; the kernel leaves it zeroed
} Scratch;

// One output path of a contraction's epilogue: moves of the result, then maps (tail.c).
typedef struct Tail {
  Node **moves;
  Node *twin; // second slice of a rotary pair, which the thread has too (rotary.c), or NULL
  int nmoves;
  int apart; // columns from a slice to its twin
  int whole; // the tile width must be a multiple of this many columns
} Tail;

// Nodes that become one kernel.
struct Group {
  Graph *graph;
  int id; // position in Graph.groups, in launch order
  const Template *tm;
  Node *anchor; // the node that is not a map or move; of a group of maps: the last one
  Node **nodes; // in topological order
  int nnodes;
  Node **inputs; // values read from memory, in the order of the kernel's parameters
  int ninputs;
  Node **outputs; // values written
  int noutputs;
  const char **args; // parameter names: inputs, then outputs
  Names *names;      // identifiers of the kernel text that come from the model
  Tail *tails;       // contract: its output paths, at least one
  int ntails;
  Node *pair[2];        // contract: GLU halves of its columns, or NULL
  Attention *attention; // or NULL
  Type domain;          // shape that the epilogue runs over
  const char *name;     // the kernel's symbol
  const char *layer;    // dotted place in the model
  const char *ops;      // "conv2d+add+relu"
  bool fixed;           // belongs to `init`
  Group **parts;        // bundle: its groups of different domains, by Node.tail (multi_launch.c)
  int nparts;           // 0: not a bundle
  bool last;            // no kernel of this entry reads its results: launched at the end
  bool visited;         // scratch of graph walks
  const char *alone;    // why it shares no launch with other small kernels, or NULL
  Node *changes;        // map: condition under which a state updated in place changes, or NULL
  Tile tile;
  Scratch scratch[8]; // parameters after the outputs
  int nscratch;
  int nboxes;
  struct Box *boxes; // tensor maps, parameters after `scratch` (sched.h)
  bool *asked;       // by args: the kernel text uses the pointer
  Group *first;      // contract: the row group fused as its prologue (sched_prologue.c), or NULL
  Group *inside;     // row: the contraction that computes it as prologue, or NULL
  Node **reads;      // with `first`: inputs of both kernels, except values passed between them
  Node **writes;     // with `first`: outputs of both
  int nreads;
  int nwrites;
  double flops;
  int64_t bytes_read;
  int64_t bytes_written;
  int64_t bytes_scratch; // read and written: data that blocks exchange
  const char *source;    // CUDA text, set by emit
};

// ---- group.c ------------------------------------------------------------------------------------

// Orders, borders, names of all groups: sets Graph.groups; false if two depend on each other.
bool group_finish(Graph *g);
// Sets inputs, outputs and domain; needs the graph's readers (fuse_readers).
void group_borders(Group *k);
// Inputs and outputs of the kernel, its prologue `first` included.
Node *const *group_reads(const Group *, int *count);
Node *const *group_writes(const Group *, int *count);
// Appends n unless it is in the list.
void group_add_once(Node **list, int *count, Node *n);

// Is n a reduction in a contraction's epilogue?
bool group_reduces(const Group *g, const Node *n);
// Such a reduction of columns; of rows, for a norm (fold_norms.c).
bool group_reduces_columns(const Group *g, const Node *n);
bool group_joins_rows(const Group *g, const Node *n);
// The first row statistic of the epilogue, or NULL. All of a kernel share one state.
const Node *group_statistic(const Group *g);
// Dimensions of the result (bits), apart from columns, that a column reduction keeps. together: how
// many neighbouring columns it reduces to one, 0 if it is not of that form. reduction NULL: g's
// own.
unsigned group_dims_kept(const Group *g, const Node *reduction, int64_t *together);
// 4-byte words of all accumulators of g's reductions; equal ones count once.
int state_words(const Group *g);
// Does g's i-th node share the accumulators of an earlier one?
bool group_shares_state(const Group *g, int i);

// n, or the value of which n is a view and in whose shape it is stored.
const Node *group_stored(const Group *g, const Node *n);
// True for moves that take each element to one position, and copies to another memory order.
bool group_leads(const Node *n);
// Row kernel: the element of the row that moves take to n's position, whose thread stores it there;
// NULL if n is laid out like the rows.
const Node *group_led(const Group *g, const Node *n);
// Does a kernel of reductions store n once per reduced element?
bool group_by_element(const Group *g, const Node *n);

// The groups of a launch: g itself, or the parts of a bundle.
Group *const *group_parts(Group *const *g, int *count);
const Group *group_part(const Group *g, const Node *n); // the one that computes n

// ---- in_place.c ---------------------------------------------------------------------------------

// Sets Update.in_place and Group.changes.
void in_place_find(Graph *g);
// Is n the new value of a state of which a single position changes?
bool in_place_steps(const Graph *g, const Node *n);
// Elements of n that its kernel computes: fewer than it has if it is such a value.
double in_place_computed(const Graph *g, const Node *n);
// The share of input or output n that k accesses: less than 1 if only one position is updated.
double in_place_share(const Group *k, const Node *n);
// The value, an integer, that is the one position which changes along dimension *d of k's domain;
// NULL if all elements are visited.
Node *in_place_position(const Group *k, int *d);
int64_t in_place_elements(const Group *k); // of its anchor that a map computes
// Bytes that k reads and writes if it updates states in place.
double in_place_bytes(const Group *k);
// Does k update in place, with n the old or the new value?
bool group_aliases(const Group *k, const Node *n);

// ---- row.c --------------------------------------------------------------------------------------

// Sets Node.sweep of g's nodes; returns the number of sweeps.
int row_sweeps(const Group *g);
// Does a sweep after `sweep` need n for each element?
bool row_needed_later(const Group *g, const Node *n, int sweep);
// Is elementwise value n available by the end of `sweep`, and needed later?
bool row_waits(const Group *g, const Node *n, int sweep);

// ---- print.c ------------------------------------------------------------------------------------

void print_groups(const Graph *g, FILE *file);
void print_dot(const Graph *g, FILE *file);
#endif
