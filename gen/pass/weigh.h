// weigh.h: weights that are a map of products, and what they are made of (weigh.c, weigh_own.c).
#ifndef NNGEN_WEIGH_H
#define NNGEN_WEIGH_H

#include "pass.h"

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
#endif
