// simp.h: rules of algebra, and what they share (simp.c, simp_*.c).
#ifndef NNGEN_SIMP_H
#define NNGEN_SIMP_H

#include "gen/lang/lang.h"

enum {                 // what kernels are measured in
  kMostPointers = 400, // of a kernel
  kSureRow = 16384 // elements of a row that is surely kept in registers; a sweep may read longer
};

void simp_pass(Compiler *);
typedef Node *SimpRule(Graph *to, Node *n); // gives what n is replaced with, or null
Node *simp_make(Graph *to, const Op *op, int nin, Node **in, const Attr *attr, const Node *like);
Node *simp_const(Graph *to, double value, const Type *shape, const Node *like);
Node *simp_intern(Graph *to, Node *n); // the node like n that exists already, else n itself
void *simp_key(Arena *arena, const Node *n, Node *const *in, size_t *size); // n's, of these inputs
bool simp_is_const(const Node *n);
bool simp_is_pure_map(const Node *n); // computing it again gives the same: not a draw
Node *simp_binary(Graph *to, const Op *op, Node *a, Node *b, const Node *like);
Node *simp_with(Graph *to, const char *op, Node *x, double number); // x op number, of x's dtype
Node *simp_index(Graph *to, int axis, const Type *shape, const Node *like); // positions along it

bool simp_same_arithmetic(Dtype a, Dtype b);

SimpRule drop_identity, join_moves, broadcast_late, pads_to_concat, fixed_second, subtract_to_add,
    join_fixed, scale_into_weights, drop_taps; // simp_algebra.c

SimpRule fold_constants; // simp_fold.c
// What map n makes of these numbers; false: its `ref` cannot tell.
bool fold_map(Compiler *c, const Node *n, const double *in, double *v);
// And that the dtype of n holds it: kernels, which round and wrap, have the same; else false.
bool fold_exact(Compiler *c, const Node *n, const double *in, double *v);
bool sum_of_floats(const Node *n);
SimpRule sum_outside, sum_joins_variance, sum_joins_exponentials, sum_joins_product,
    window_reduced, reduced_once; // simp_sums.c
Node *sum_deviates(const Node *n);    // y, where n sums (y - mean(y))^2 up; null: it does not
const Node *sum_power(const Node *n); // the exponential that is a factor of n; null: there is none
bool sum_is_mean(const Node *c, const Node *y, int64_t axes);

SimpRule reshape_last, batches_last, batches_apart, reduce_inside, weights_first, turned_product,
    rows_apart, reshape_turned; // simp_reshape.c
bool reshape_same_matrices(const Type *a, const Type *b); // are the last two dimensions alike?
// Does n see the batches of its input as fewer dimensions?
bool reshape_joins(const Node *n);
Node *reshape_as(Graph *to, Node *x, int rank, const int64_t *dims);
Node *reshape_with_batches(Graph *to, Node *product, const Type *apart); // null: they cannot be
// Are the last two dimensions exchanged? Is it a product by batches? Is one in it?
bool reshape_turns(const Node *), reshape_batched(const Node *), reshape_scores(const Node *);
bool reshape_first_scores(const Node *n); // is a product in it, which weighs nothing?
// A product of the shape of n that maps make n of, but for `but`; null: there is none.
const Node *reshape_product(const Node *n, const Node *but, int *left);

SimpRule concat_simpler;                                           // simp_concat.c
SimpRule batches_in_order, rows_summed, concat_apart, slice_apart, weights_cut; // simp_batches.c
SimpRule powers_plain, powers_factored, nan_of_row, weights_apart, scale_behind, sum_inside,
    sums_once, repeats_read, products_joined; // simp_scores.c
SimpRule permute_behind, permute_last; // simp_permuted.c
bool permutes_go(Graph *g); // marks the permutes that vanish (Node.undone)
SimpRule scores_turned; // simp_turned.c
SimpRule window_mapped; // simp_windows.c
const Node *turned_reduced(const Node *n, int *left); // rows of scores that maps make n of; null
SimpRule choice_mapped, choice_plain, lowest_hidden; // simp_choices.c
SimpRule grids_last, parts_summed; // simp_grids.c, simp_parts.c
typedef struct GridRun { // dimensions [i, i_end) of one shape that are [j, j_end) of another one
  int i, i_end, j, j_end;
} GridRun;
// The next such run, of as many elements each, from {0} on; false: there is none left.
bool grid_run(const Type *a, const Type *b, GridRun *r);
// The shape that x, which broadcasts to `full`, has where this is seen as `as`; false: it varies
// along a part of a dimension.
bool grid_seen_as(const Type *x, const Type *full, const Type *as, int64_t *dims);
// x, repeated where `shape` has more than one element along a dimension, as expand writes it.
Node *scores_expanded(Graph *to, Node *x, const Type *shape);

SimpRule rows_cut; // simp_cut.c: when uses are known, those of a graph that rules have left
bool rows_may_be_cut(Graph *g);

SimpRule memories_whole, memories_summed, memories_joined; // simp_memories.c
bool memories_beside(const Node *n); // does n put scores of several memories beside each other?
bool memories_weigh(const Node *n);  // is it weights that are made of such scores alone?
#endif
