// fuse.h: nodes into groups: the steps of the pass, by file.
#ifndef NNGEN_FUSE_H
#define NNGEN_FUSE_H

#include "group.h"

// ---- fuse.c -------------------------------------------------------------------------------------

enum {
  kMostValues = 256, // values computed per element of a kernel
  kMostWords = 8     // accumulator words per thread, with other elements in flight
};

// The node of graph `made` that n, of a graph before it, became, or NULL.
Node *fuse_made_of(const Graph *made, Node *n);

// What the steps of make_groups know of the graph (Graph.scratch).
typedef struct Fuse {
  bool one_call;   // unfused: merge only within one call of a layer
  bool exact;      // check dependences whatever the order of groups (slow)
  Group **seen;    // scratch of graph walks, one place per node
  Node ***readers; // by id: the node's readers, with multiplicity
  int *nreaders;   // by id
} Fuse;

void fuse_pass(Compiler *c);
const Fuse *fuse_of(const Graph *g);

// Nodes of `from` become nodes of `to`.
void fuse_absorb(Graph *g, Group *to, Group *from);
// Moves the nodes i with own[i] of k, a group of maps, to a new group.
void fuse_part(Graph *g, Group *k, const bool *own);
// Readers of n read `by`, an equal node, instead; n becomes unused.
void fuse_replace(Graph *g, Node *n, Node *by);

// Does `from` depend on `on`? Appends the groups it visits to `seen`.
bool fuse_depends(Group *from, const Group *on, Group **seen, int *nseen);
bool fuse_reaches(Group *from,
                  const Group *on); // the same, with scratch of its own; from may be NULL
bool fuse_makes_cycle(const Group *a, const Group *b);
bool fuse_same_call(const Group *a, const Group *b);

Node **fuse_readers(const Graph *g, const Node *n, int *count);
const Node *fuse_only_reader(const Node *n); // or NULL
// Fills list (kMostNodes) with n and the maps of its shape computed from it; returns the number.
int fuse_mapped(const Node *n, const Node **list);
bool fuse_listed(const Node *const *list, int count, const Node *n); // is n in the list?

// Is n a reduction whose rows are contiguous, one block (or part of one) each?
bool fuse_fits_row(const Node *n);
// The same for strided rows, of which a block holds neighbouring ones.
bool fuse_fits_across(const Node *n);
// By id: would the node become attention? Makes groups in g, which is of no use afterwards.
bool *fuse_attentions(Graph *g);

// ---- legal.c, legal_columns.c -------------------------------------------------------------------

extern const Fusion fusion_map;
extern const Fusion fusion_reduce;
extern const Fusion fusion_row;
extern const Fusion fusion_window;
extern const Fusion fusion_contract;
extern const Fusion fusion_scan;
extern const Fusion fusion_select;
extern const Fusion fusion_sort;
extern const Fusion fusion_scatter;
extern const Fusion fusion_attend;
extern const Fusion fusion_attend_backward;
extern const Fusion fusion_sums;
extern const Fusion fusion_many;
extern const Fusion fusion_heads;

// Reasons, or NULL.
const char *legal_epilogue(const Group *k, const Node *n); // why n does not join k
const char *legal_columns(const Group *k, const Node *n);  // why not as column reduction
const char *legal_size(const Group *a, const Group *b);    // why both together are too large
const char *legal_values(Node *const *nodes, int count);   // why these nodes are, in order
bool legal_keeps_places(const Node *move);
bool legal_moved(const Node *n, const Group *k);
bool legal_lies_alike(const Group *k, const Node *n);
// Are stores of t along this lane coalesced, or still cheaper than a copy?
bool legal_stores_runs(const Group *k, Lane lane, const Type *t);
bool legal_alone(const Group *k, const Node *n); // is n the only reader of k's results?
// Prints the reasons why g is not fused with others, each line after `before`.
void fuse_explain(const Group *g, const char *before, FILE *file);

// ---- prologue.c ---------------------------------------------------------------------------------

void prologue_grow(Graph *g);
// Reasons, or NULL: why group k is not fused into its reader.
const char *legal_prologue(const Group *reader, const Group *k);
// By template (Fusion.takes): why maps `before` are not fused into the loads of k.
const char *prologue_of_product(Group *k, Group *before);
const char *prologue_of_window(Group *k, Group *before);
const char *prologue_of_attention(Group *k, Group *before);
const char *prologue_of_elements(Group *k, Group *before);
const char *prologue_of_scatter(Group *k, Group *before);

// ---- remat.c, remat_late.c ----------------------------------------------------------------------

typedef struct Late Late; // what remat_late.c knows of a graph

Graph *remat_own(Graph *g);
bool remat_is_large(const Node *n, const Node *beside); // more than half as many elements?
bool remat_may_copy(const Node *n);                     // may a reader compute map n again?
bool remat_is_cheap(const Arch *arch, const Node *n);   // and is that cheaper than to read it?
bool remat_is_shape(const Node *n);                     // a reshape of a map, of the same layout?
Node *remat_copy(Graph *to, Node *n, Node **in);        // a private copy of n, for one reader
// Finds levels only; stored: by id, is the value in memory anyway?
Late *remat_late_begin(const Graph *g, bool *stored);
void remat_late_find(Late *late, const Graph *g); // finds the rest; adds to `stored`
bool remat_late_wants(const Late *late, const Node *map, const Node *n); // should map recompute n?
Node *remat_late_copy(Graph *to, const Late *late, Node *old); // a private copy, marked late
bool remat_late_sums_columns(const Late *late,
                             const Node *n); // may its contraction's epilogue reduce n?

// ---- attend.c, attend_own.c ---------------------------------------------------------------------

Graph *attend_own(Graph *g);
// Makes k, a single contraction, an attention group if it matches.
void attend_find(Graph *g, Group *k);
const char *attend_joins(const Group *k, const Node *n); // why map n does not, or NULL
// Elements per asynchronous copy of operand i, 0 if it cannot be copied. stride, offset: in *base.
int attend_piece(const Group *g, const Attention *a, int i, int64_t stride[MaxRank],
                 int64_t *offset, const Node **base);

// ---- attend_backward.c, attend_backward_own.c, attend_backward_axes.c: attention backward -------

typedef struct Weights {
  const Node *last; // the contraction, or sum, that reads W
  Node *root;       // W, below copies and permutations
  Node *scaled;     // the multiplication of the root by a literal, or NULL
  Attention a;
  Node *seen[kMostNodes]; // the root, and the maps and contractions from which it is computed
  int count;              // of `seen`
  int visits;             // of the search for the exponential
} Weights;

Graph *attend_backward_own(Graph *g);
// Makes k, a single contraction or sum, a group of attention's backward if it matches.
void attend_backward_find(Graph *g, Group *k);
// Does n match? `inner`: only through nodes marked inner.
bool attend_backward_seek(Weights *w, const Arch *arch, const Node *n, bool inner);
// A sum of W, or a copy of it, which stores W itself.
bool attend_backward_is_sum(const Node *n);
// Does n vary along rows and along the summed dimension, as scores do?
bool attend_backward_is_matrix(const Weights *w, const Maps *values, const Node *n);
void attend_backward_apart(Attention *a, const Node *last,
                           const Maps *values); // sets Attention.apart
Maps attend_backward_sum_axes(const Node *sum, const Node *product, const int *place);
AxisRole attend_backward_role(const Attention *a, const Maps *values, int d);

// ---- tail.c, rotary.c ---------------------------------------------------------------------------

const Node *tail_made(const Group *g, int tail); // the value that a tail's maps have the shape of
Lane tail_product_lane(const Node *product);     // neighbouring columns of a contraction's result
Lane tail_lane(const Group *g, int tail);        // after the tail's moves
Lane tail_row_lane(const Group *g, int tail);    // neighbouring rows, after the tail's moves
// May a contraction store its only value of type t transposed, `rows` being neighbours in memory?
bool tail_transposed(const Group *g, Lane rows, const Type *t);
bool tail_all_transposed(const Group *g); // does it store all outputs so?
// The tail from which n reads k: an index, kRowTail or kFootTail; below both if there are several.
int tail_of_inputs(const Group *k, const Node *n);
void tail_join(Group *k, Node *n);                  // n has joined k: sets its tail
bool tail_writes(const Group *g, int tail);         // does the tail store or reduce anything?
bool tail_may_begin(const Group *k, const Node *n); // may move n extend or begin a tail?
bool tail_goes_on(const Group *k, const Node *n);   // is n the only reader of its tail?
Node *tail_mapped(const Group *k);                  // the end of the maps of the result
bool tail_meet(const Node *a, const Node *b);       // do maps combine a and b?
void tail_pair(Graph *g, Group *k);                 // finds GLU halves of a single contraction
void rotary_find(Graph *g, Group *k);               // finds rotary pairs of it

// ---- gain.c -------------------------------------------------------------------------------------

bool gain_is_small(const Arch *arch, const Group *k); // does the launch dominate its time?
int64_t gain_behind(const Group *k, const Node *n);   // bytes saved by computing n in k
bool gain_inside(const Arch *arch, const Group *k, double reads);     // cheaper inside its reader?
bool gain_ends_tiles(const Arch *arch, const Group *k, int64_t rows); // cheaper to end tiles so?
// Is recomputing the scores for `sum` cheaper than storing them?
bool gain_scores_again(const Arch *arch, const Node *sum, const Attention *a);

// ---- the other steps of make_groups -------------------------------------------------------------

void heads_find(Graph *g);
void place_concats(Graph *g);
void merge_copies(Graph *g);
void merge_group(Graph *g, Group *k);
void horizontal_join(Graph *g);
void horizontal_join_numbers(Graph *g);
void horizontal_join_stored(Graph *g);
void sibling_meet(Graph *g, const Node *n); // before map n joins a group
void row_join_readers(Graph *g);
bool row_holds_states(const Group *a, const Group *b); // do strided accumulators of both fit?
void multi_launch_groups(Graph *g);
const Node *bundle_reduction(const Group *k); // the full reduction that is all k computes, or NULL
bool multi_launch_shares(const Group *k);     // is it such a one, to be bundled with others?
bool multi_launch_in_the_way(const Group *a,
                             const Group *b); // does one update a state the other reads?
// Marks reductions of g that should be split over blocks; false if there are none.
bool split_rows_choose(Graph *g, Graph *grouped);

// ---- sorted_scatter.c ---------------------------------------------------------------------------

// Of g, which `grouped` was made from: the groups with the ids of scatters sorted where that is
// faster. group: makes the groups of a graph.
Graph *scatter_choose(Graph *g, Graph *grouped, Graph *(*group)(Compiler *, Graph *));
#endif
