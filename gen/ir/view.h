// view.h: values as strided views of memory: a part of ir.h.
#ifndef NNGEN_VIEW_H
#define NNGEN_VIEW_H

#include "ir.h"

// Strides and first element of n in the memory that holds it (its own, or its parent's).
void view_memory(const Node *n, int64_t stride[MaxRank], int64_t *first);
// The stored value that n, in a kernel of g, is a view of, with n's strides in it and the offset of
// its first element; NULL if n must be computed. Views: permutations, slices, reshapes expressible
// by strides, and copies that change only the order.
const Node *view_of(const Group *g, const Node *n, int64_t stride[MaxRank], int64_t *offset);
bool view_whole_part(const Node *n);  // is n, a part of a concat, contiguous there?
bool view_reorders(const Node *n);    // a move that is a bijection of elements
bool view_same_memory(const Node *n); // a reshape or permutation that leaves memory unchanged

// Elements that are neighbours in memory, followed through moves.
typedef struct Lane {
  int dim;     // dimension in which they are neighbours, or -1
  int64_t run; // they stay together in aligned runs of this length
} Lane;
Lane lane_follow(Lane lane, const Node *move); // a reshape, permutation, slice or roll

#endif
