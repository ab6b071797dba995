// fuse.h: nodes into groups, one kernel each; what a kernel, its template and its schedule are.
#ifndef NNGEN_FUSE_H
#define NNGEN_FUSE_H

#include "gen/pass/pass.h"

// ---- kernels --------------------------------------------------------------------------------

typedef const char *FuseRule(const Group *k, const Node *n); // why n does not join k, or null
typedef struct Fusion {
  bool (*anchors)(const Node *n); // is it the template for n?
  // Behind what group k computes, by the class of n; null: never.
  FuseRule *joins[OpClassCount];
  // A group of maps where k reads what it makes.
  const char *(*takes)(Group *k, Group *before);
  // What its threads go through element by element: groups with the same become one; null: nothing.
  const Type *(*elements)(const Group *k);
  bool maps;     // of maps and moves alone: any template may compute what it computes
  bool sweeps;   // reductions of the same elements join it
  bool product;  // its anchor is a matrix product: what it stores follows moves, it sums columns
  bool anywhere; // stores element by element, wherever they lie
  bool in_place; // each element behind the anchor is read and written by one thread
} Fusion;

typedef struct Tile Tile;
typedef struct Unit Unit; // what multiplies tiles (sched.h)
typedef struct Emitter Emitter;

// How a group of nodes becomes one kernel: a row of compile/templates.c. CLASS
typedef struct Template {
  const char *name; // templates/NAME.cu
  const Fusion *fusion;
  void (*schedule)(Group *g, const Arch *arch); // Group.tile
  const char *(*tile)(const Group *g);          // as text
  void (*emit)(Emitter *e);
  // The rest: null where there is nothing to say.
  double (*seconds)(Group *g, const Arch *arch);    // what the model expects of it, scheduled
  double (*rate)(const Group *g, const Arch *arch); // FLOP/s at the most; null: those of fp32
  int (*candidates)(const Group *g, const Arch *arch, Tile *tiles, int most); // returns how many
  void (*use)(Group *g, const Arch *arch, const Tile *candidate);             // schedules it so
  void (*explain)(const Group *g, const Arch *arch, FILE *file);              // the candidates
  void (*multiplies)(const Group *g, double *issued, double *counted, double *inside);
  double (*gate)(const Group *g); // the relative error it may have beside rounding its outputs
  bool (*bounded)(const Group *g); // are elements, by c k u |a||b|, through to the outputs?
  bool skips; // it multiplies nothing by weights of scores that nobody sees
} Template;

// The schedule of a group: how its domain is cut and launched. Fields unused by a template are 0.
struct Tile {
  int lanes;        // elements of the innermost dimension a thread handles at once
  int threads;      // per block
  int m, n, k, tm, tn; // contract: tile of a block, of a warp
  const Unit *unit; // contract, attend: what multiplies
  int blocks;       // contract: blocks that should fit an SM
  int stages;       // contract: blocks of k in flight
  int meeting, group; // contract: blocks that have sums of the same columns; those added together
  int splits; // contract: parts of k, summed by the last block of each tile to arrive; reduce, scan
  int rows;   // row, reduce, scan: rows (or lane vectors) per block
  int items;  // row: accesses of a row per thread; scan: of those in flight; window: pixels
  int runs;        // row, within a product's kernel: of `rows` rows, that a block takes at once
  uint64_t kept, shared; // row: bits of the row_values that stay between sweeps; in shared memory
  bool together;         // reduce, scan: a thread's lanes are reduced together
  int depth, part; // reduce: accesses in flight; reduce, scan: elements of one of `splits` parts
  int64_t grid[3];
  int smem;        // dynamic shared memory, bytes
  double seconds;  // what the model expects
  double term[10]; // what it is made of, in seconds: as cost_terms names them (sched.h)
  bool tuned;      // contract: measured as the fastest, whatever the model says
};

// Memory of a kernel's own, that no other one reads.
typedef struct Scratch {
  const char *name; // the parameter
  Dtype dtype;
  int64_t count; // elements
  bool zeroed;   // once, before the first launch; the kernel leaves it zeroed
} Scratch;

typedef struct Tail {       // of a product's result: moves, and maps of where they lead (tail.c)
  Node **moves, *twin;      // twin: what a thread has besides (twins.c); null: nothing
  int nmoves, apart, whole; // columns to the twin; tiles hold multiples of so many
} Tail;

struct Group {
  Graph *graph;
  int id;
  const Template *tm;
  Node *anchor; // the node that is no map or move; the last node of a map group
  Node **nodes; // in topological order
  int nnodes;
  Node **inputs; // values read from memory, in the order of the kernel's arguments
  int ninputs;
  Node **outputs; // values written
  int noutputs;
  const char **args; // parameter names: of the inputs, then of the outputs
  Names *names;      // the identifiers of its text that the model names
  Tail *tails;       // contract: what follows its result, at least one
  int ntails;
  Node *pair[2];        // contract: the halves of its columns that it combines; null: none
  Attention *attention; // null: it is none
  Type domain;          // what the epilogue runs over: the outputs' shape
  const char *name, *layer, *ops; // the kernel's symbol; dotted place; "conv2d+add+relu"
  bool fixed;           // belongs to `init`
  Group **parts;        // map: groups of different domains in one launch (bundle.c); Node.tail
  int nparts;           // numbers them; 0: it is one
  bool last, visited;   // nobody waits for what it makes: it runs at the end; scratch
  const char *alone;    // why it shares its launch with no other small kernel; null: not asked
  Node *changes;        // map: where it is false, what is written in place keeps its value, unread
  Tile tile;
  Scratch scratch[8]; // parameters after the outputs
  int nscratch, nboxes;
  struct Box *boxes; // and after these (sched.h)
  bool *asked; // by args: some text has asked for the address
  Group *first, *inside; // contract: rows that its kernel makes at first (sched_first.c); of these
                         // rows: that kernel; null: none
  Node **reads, **writes; // with them: what the kernel reads, but for those rows, and writes
  int nreads, nwrites;
  double flops;
  int64_t bytes_read, bytes_written, bytes_scratch; // of both: what blocks leave for each other
  const char *source;                               // CUDA text, set by emit
};

void fuse_pass(Compiler *);
Graph *weigh_own(Graph *g), *attend_own(Graph *g), *chain_own(Graph *g);

// ---- fuse.c: what its sweeps share --------------------------------------------------------------
// Of a group, a text, a kernel; of states, which registers hold beside elements in flight.
enum { kMostValues = 256, kMostWords = 8 };
typedef struct Fuse { // what the sweeps know of the graph (Graph.scratch)
  bool one_call, exact; // unfused, of one call; dependences are found however groups lie
  Group **seen;         // room for as many as there are nodes
  Node ***readers;      // by id: who reads the node, once for each of their inputs that it is
  int *nreaders;
} Fuse;
const Fuse *fuse_of(const Graph *g);
const char *legal_epilogue(const Group *k, const Node *n), // why n does not follow k, or null
    *legal_prologue(const Group *reader, const Group *k),  // why k is not computed there
    *legal_columns(const Group *k, const Node *n); // why a product does not reduce n's input
bool legal_keeps_places(const Node *move), legal_moved(const Node *n, const Group *k),
    legal_lies_alike(const Group *k, const Node *n), // a move whose elements lie as there
    // Does it store neighbours of this lane side by side, or is that cheaper than a copy?
    legal_stores_runs(const Group *k, Lane lane, const Type *t),
    legal_alone(const Group *k, const Node *n); // nobody but n reads what k makes
// Why one kernel of both, or of these nodes in order, is too large.
const char *legal_size(const Group *a, const Group *b), *legal_values(Node *const *, int count);
extern const Fusion fusion_map, fusion_reduce, fusion_row, fusion_window, fusion_contract,
    fusion_scan, fusion_select, fusion_scatter, fusion_attend, fusion_weigh, fusion_sums,
    fusion_many, fusion_heads;
const char *prologue_of_product(Group *k, Group *before),
    *prologue_of_window(Group *k, Group *before), *prologue_of_attention(Group *k, Group *before),
    *prologue_of_elements(Group *k, Group *before), *prologue_of_scatter(Group *k, Group *before);
void fuse_explain(const Group *g, const char *before, FILE *file); // what it is apart from, why
bool *fuse_attentions(Graph *g); // by id: would it be attention? g is for this question alone
void fuse_absorb(Graph *g, Group *to, Group *from); // the nodes of `from` become those of `to`
void fuse_part(Graph *g, Group *k, const bool *own), // of a group of maps: these become one
    fuse_replace(Graph *g, Node *n, Node *by); // who reads n reads what is like it; n is gone
bool fuse_depends(Group *from, const Group *on, Group **seen, int *nseen),
    fuse_reaches(Group *from, const Group *on), fuse_same_call(const Group *a, const Group *b),
    fuse_makes_cycle(const Group *a, const Group *b); // one kernel of both would wait for itself
bool fuse_fits_row(const Node *n), // has a block of its own each row of a reduction?
    fuse_fits_across(const Node *n); // may a block hold its rows, which do not lie in one piece?
bool many_choose(Graph *g, Graph *grouped); // marks reductions of g; false: groups may stay
Node **fuse_readers(const Graph *g, const Node *n, int *count);
const Node *fuse_only_reader(const Node *n); // null: there is not one alone
int fuse_mapped(const Node *n, const Node **list); // n, and what maps of its shape make of it
bool fuse_listed(const Node *const *list, int count, const Node *n); // is it in the list?
const Node *bundle_reduction(const Group *k); // that makes one value of a tensor, all k is for
bool bundle_shares(const Group *k), // is it such a one, and will share a launch with others?
    bundle_in_the_way(const Group *a, const Group *b); // does one update what the other reads?
void heads_find(Graph *g), place_concats(Graph *g), prologue_grow(Graph *g), merge_copies(Graph *g),
    merge_group(Graph *g, Group *k), sibling_join(Graph *g), sibling_join_numbers(Graph *g),
    sibling_meet(Graph *g, const Node *n), // before n is computed
    sibling_join_stored(Graph *g), bundle_groups(Graph *g), row_join_readers(Graph *g);

// ---- chain.c, late.c ---------------------------------------------------------------------------
typedef struct Late Late; // chain_is_shape: is it another shape of what maps make?
bool chain_is_large(const Node *n, const Node *beside), chain_is_cheap(const Arch *, const Node *n),
    chain_is_shape(const Node *n);
Late *late_begin(const Graph *g, bool *stored); // levels alone; stored: by id
void late_find(Late *late, const Graph *g);     // the rest; adds to `stored`
bool late_wants(const Late *late, const Node *map, const Node *n); // should map compute n itself?
Node *chain_copy(Graph *, Node *n, Node **in), *late_copy(Graph *, const Late *, Node *); // for one
bool late_sums_columns(const Late *late, const Node *n); // may a product's own kernel sum it?

// ---- tail.c ------------------------------------------------------------------------------------
const Node *tail_made(const Group *g, int tail); // what its maps have the shape of
Lane tail_product_lane(const Node *product), tail_lane(const Group *g, int tail); // neighbours
// The tail of what n reads of k, kRowTail and kFootTail among them; less: there are several.
int tail_of_inputs(const Group *k, const Node *n);
void tail_join(Group *k, Node *n); // n is in k now
bool tail_writes(const Group *g, int tail), tail_may_begin(const Group *k, const Node *n),
    tail_goes_on(const Group *k, const Node *n);
Node *tail_mapped(const Group *k);            // what maps alone make of the product
bool tail_meet(const Node *a, const Node *b); // do maps lead from both to one?
void tail_pair(Graph *g, Group *k), twins_find(Graph *g, Group *k); // of a product that is alone

// ---- gain.c ------------------------------------------------------------------------------------
bool gain_is_small(const Arch *arch, const Group *k); // is its launch what it costs?
int64_t gain_behind(const Group *k, const Node *n);   // bytes saved by computing n in k
bool gain_inside(const Arch *, const Group *k, double reads); // is k cheaper where it is read?
bool gain_ends_tiles(const Arch *, const Group *k, int64_t rows); // with parts of so many rows?
bool gain_scores_again(const Arch *arch, const Node *sum, const Attention *a); // than kept?

// ---- attend.c, weigh.c, weigh_own.c, weigh_axes.c -----------------------------------------------
void attend_find(Graph *g, Group *k); // makes a product alone in its group attention, if it is
const char *attend_joins(const Group *k, const Node *n); // the rule for maps behind it
// How many elements an asynchronous copy takes of operand i, with where they lie; 0: none can.
int attend_piece(const Group *, const Attention *, int i, int64_t stride[MaxRank], int64_t *offset,
                 const Node **base);
typedef struct Weights {
  const Node *last; // the product, or the sum, that reads them
  Node *root;       // below its copies and permutations
  Node *scaled;     // and below its multiplication by a number; null: there is none
  Attention a;
  Node *seen[kMostNodes]; // maps of the scores' shape, from the root on, and the products
  int count, visits;      // visits: of the search for the exponential
} Weights;

// Is n a product that is weighed so, or a sum? `inner`: of maps that are marked so alone.
bool weigh_seek(Weights *w, const Arch *arch, const Node *n, bool inner);
// A sum of the root, or a copy: then weights themselves are stored, a sum over nothing.
bool weigh_is_sum(const Node *n);
// Has n elements along rows and along what is summed over, as scores have?
bool weigh_is_matrix(const Weights *w, const Maps *values, const Node *n);
void weigh_find(Graph *g, Group *k), weigh_apart(Attention *a, const Node *last, const Maps *m);
Maps weigh_sum_axes(const Node *sum, const Node *product, const int *place);
AxisRole weigh_role(const Attention *a, const Maps *values, int d);

// ---- group.c, row.c, print.c -------------------------------------------------------------------
bool group_reduces(const Group *g, const Node *n), // at the end of a product's epilogue
    group_reduces_columns(const Group *, const Node *); // so, and down the product's columns
bool group_joins_rows(const Group *g, const Node *n);   // or along its rows, for a norm (norms.c)
const Node *group_statistic(const Group *g); // of its rows; null: none. All have one state
// Beside its columns, the dimensions of a product's result (bits) that a reduction keeps, and how
// many neighbouring columns it reduces to one, 0: it goes otherwise; null: those that g has.
unsigned group_dims_kept(const Group *g, const Node *reduction, int64_t *together);
int state_words(const Group *g); // 4-byte fields of its states
bool group_shares_state(const Group *g, int i); // does its i-th node reduce to one before it?
const Node *group_stored(const Group *g, const Node *n); // n, or what n is another shape of
// A move that takes each element to one place, or a copy to other places in memory.
bool group_leads(const Node *n);
// Of a kernel of rows: the element of a row that n is in another place, to which moves lead; its
// thread stores it there. Null: n lies as rows do.
const Node *group_led(const Group *g, const Node *n);
// Does a kernel of reductions store n as it goes over what it reduces?
bool group_by_element(const Group *g, const Node *n);
Group *const *group_parts(Group *const *g, int *count); // of one launch: g, or those of a bundle
const Group *group_part(const Group *, const Node *n); // the one that computes n
void group_add_once(Node **list, int *count, Node *n); // unless it is in the list
// What its kernel reads and writes: of its own, and of the rows that it makes at first.
Node *const *group_reads(const Group *, int *count), *const *group_writes(const Group *, int *);
void group_borders(Group *k); // what it reads and writes; while the graph's readers are known
bool group_finish(Graph *g);  // Graph.groups in the order of launches, named; false: there is none
void in_place_find(Graph *g); // in_place.c: Update.in_place, Group.changes
double in_place_share(const Group *k, const Node *n); // of input or output n, what is accessed
double in_place_bytes(const Group *k); // that k reads and writes, if it changes states in place
bool group_aliases(const Group *k, const Node *n); // is n updated in place, its input or output?
bool row_holds_states(const Group *a, const Group *b); // one kernel of both, across memory
int row_sweeps(const Group *g); // sets Node.sweep of g's nodes; how many there are
bool row_needed_later(const Group *g, const Node *n, int sweep), // is the full value n?
    row_waits(const Group *g, const Node *n, int sweep); // is it at hand by then, and needed?
void print_groups(const Graph *g, FILE *file), print_dot(const Graph *g, FILE *file);
#endif
