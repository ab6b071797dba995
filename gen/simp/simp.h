// simp.h: algebraic rules, and what they share (simp.c, simp_*.c).
#ifndef NNGEN_SIMP_H
#define NNGEN_SIMP_H

#include "gen/lang/lang.h"

enum {                  // limits of generated kernels
  kMostPointers = 4000, // parameters of a kernel: 32764 bytes, since CUDA 12.1
  kMostConcat = 500,    // parts of a concat
  kSureRow = 16384,     // rows of up to this many elements always fit in registers
  kSortRun = 2048       // elements that a block sorts
};

// ---- simp.c -------------------------------------------------------------------------------------

void simp_pass(Compiler *c);

// Returns the replacement of n, or NULL.
typedef Node *SimpRule(Graph *to, Node *n);

// A new node, simplified; layer, location and entry are those of `like`.
Node *simp_make(Graph *to, const Op *op, int nin, Node **in, const Attr *attr, const Node *like);
// x has at least as many readers as `other`, which it replaces, or whose readers may come to read
// x: rules query Node.uses before all readers are made.
void simp_uses_of(Node *x, const Node *other);
Node *simp_const(Graph *to, double value, const Type *shape, const Node *like);
Node *simp_with(Graph *to, const char *op, Node *x, double number); // x op number, of x's dtype
// Positions along dimension `axis` of `shape`, i32.
Node *simp_index(Graph *to, int axis, const Type *shape, const Node *like);
// The existing node equal to n, else n itself.
Node *simp_intern(Graph *to, Node *n);
// The hash key of n, as if its inputs were in[].
void *simp_key(Arena *arena, const Node *n, Node *const *in, size_t *size);
bool simp_is_const(const Node *n);
bool simp_is_pure_map(const Node *n); // evaluating it again gives the same: not a random draw
Node *simp_binary(Graph *to, const Op *op, Node *a, Node *b, const Node *like);
bool simp_same_arithmetic(Dtype a, Dtype b);

// ---- simp_algebra.c -----------------------------------------------------------------------------

SimpRule drop_identity;
SimpRule join_moves;
SimpRule sort_by_merging;
SimpRule broadcast_late;
SimpRule pads_to_concat;
SimpRule fixed_second;
SimpRule subtract_to_add;
SimpRule join_fixed;
SimpRule scale_into_weights;
SimpRule drop_taps;

// ---- simp_fold.c --------------------------------------------------------------------------------

SimpRule fold_constants;
// Evaluates map n on constants; false if its `ref` is undefined there.
bool fold_map(Compiler *c, const Node *n, const double *in, double *v);
// The same; also false if kernels, which round and wrap, would get another result.
bool fold_exact(Compiler *c, const Node *n, const double *in, double *v);

// ---- simp_sums.c --------------------------------------------------------------------------------

SimpRule sum_outside;
SimpRule sum_joins_variance;
SimpRule sum_joins_exponentials;
SimpRule sum_joins_product;
SimpRule window_reduced;
SimpRule reduced_once;
bool sum_of_floats(const Node *n);
Node *sum_deviates(const Node *n);    // if n is a sum of (y - mean(y))^2: y, else NULL
const Node *sum_power(const Node *n); // the exponential that is a factor of n, or NULL
bool sum_is_mean(const Node *c, const Node *y, int64_t axes);

// ---- simp_reshape.c -----------------------------------------------------------------------------

SimpRule reshape_last;
SimpRule slice_first;
SimpRule slice_split;
SimpRule batches_last;
SimpRule batches_apart;
SimpRule reduce_inside;
SimpRule weights_first;
SimpRule transposed_product;
SimpRule rows_apart;
bool reshape_same_matrices(const Type *a, const Type *b); // are the last two dimensions equal?
bool reshape_joins(const Node *n);   // a reshape that joins batch dimensions of its input
bool reshape_turns(const Node *n);   // a transposition of the last two dimensions
bool reshape_batched(const Node *n); // a batched matmul
// Is n computed by maps and reductions from a batched matmul of the same matrix size? And are its
// operands no probabilities?
bool reshape_scores(const Node *n);
bool reshape_first_scores(const Node *n);
// The matmul of n's shape, other than `but`, from which maps compute n, or NULL.
const Node *reshape_product(const Node *n, const Node *but, int *left);
Node *reshape_as(Graph *to, Node *x, int rank, const int64_t *dims);
Node *reshape_turned(Graph *to, Node *x); // x with its last two dimensions exchanged
// The matmul with batch dimensions `apart`, or NULL if impossible.
Node *reshape_with_batches(Graph *to, Node *product, const Type *apart);

// ---- simp_units.c -------------------------------------------------------------------------------

SimpRule units_last;
SimpRule units_after_along;
SimpRule units_after_product;
bool units_only(const Node *n); // does reshape n only add or drop dimensions of size 1?
// May map n be computed in the shape that `moved` had before it got or lost dimensions of size 1?
bool units_may_follow(const Node *moved, const Node *n);
// Is slice n of such a reshape of a computed value? Then *slice is that of the reshape's input.
bool units_slice_before(const Node *n, Attr *slice);

// ---- simp_batches.c, simp_concat.c, simp_transposed.c, simp_windows.c, simp_choices.c -----------

SimpRule batches_in_order;
SimpRule rows_summed;
SimpRule concat_apart;
SimpRule slice_apart;
SimpRule weights_cut;
SimpRule concat_simpler;
SimpRule scores_transposed;
// The row reduction of scores from which n is computed, or NULL.
const Node *turned_reduced(const Node *n, int *left);
SimpRule window_mapped;
SimpRule convolution_cut;
SimpRule choice_mapped;
SimpRule choice_plain;
SimpRule lowest_hidden;

// ---- simp_scores.c ------------------------------------------------------------------------------

SimpRule powers_plain;
SimpRule powers_factored;
SimpRule nan_of_row;
SimpRule weights_apart;
SimpRule scale_behind;
SimpRule sum_inside;
SimpRule sums_once;
SimpRule repeats_read;
SimpRule products_joined;
// x expanded to `shape`, in the form that expand has in a model.
Node *scores_expanded(Graph *to, Node *x, const Type *shape);

// ---- simp_permuted.c ----------------------------------------------------------------------------

SimpRule permute_behind;
SimpRule permute_last;
bool permutes_go(Graph *g); // marks permutations to be removed; are there any?

// ---- simp_bias_2d.c, simp_bias_grad.c -----------------------------------------------------------

SimpRule grids_last;
SimpRule parts_summed;
// Dimensions [i, i_end) of one shape correspond to dimensions [j, j_end) of a reshape of it.
typedef struct GridRun {
  int i, i_end;
  int j, j_end;
} GridRun;
// The next run, starting from {0}; false if there is none left.
bool grid_run(const Type *a, const Type *b, GridRun *r);
// The shape of x, which broadcasts to `full`, when `full` is reshaped to `as`; false if x varies
// along only a part of a run.
bool grid_seen_as(const Type *x, const Type *full, const Type *as, int64_t *dims);

// ---- simp_cut.c ---------------------------------------------------------------------------------

SimpRule rows_cut; // in a walk of its own, when uses are known
bool rows_may_be_cut(Graph *g);

// ---- simp_segments.c ----------------------------------------------------------------------------

SimpRule segments_whole;
SimpRule segments_summed;
SimpRule segments_joined;
bool segments_beside(const Node *n); // is n a concat of the scores of several segments?
bool segments_weigh(const Node *n);  // is n an elementwise function of such scores only?
#endif
