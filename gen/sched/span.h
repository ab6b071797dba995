// span.h: interval arithmetic. A part of sched.h.
#ifndef NNGEN_SCHED_SPAN_H
#define NNGEN_SCHED_SPAN_H

#include "gen/fuse/fuse.h"

typedef struct Span {
  double lo, hi;
} Span;

Span span_any(void);
bool span_is_open(Span s); // no information
bool span_true(Span s);
bool span_false(Span s);

bool span_has_code(Code code);                 // is there a function for it in lib/span.cuh?
bool span_rounds(Code code);                   // does it round, on floats?
bool span_of_floats(const Node *n);            // are its result or inputs floats?
double span_number(double value, bool floats); // as represented in kernels
Span span_run(const Program *p, const Span *in, bool floats);
Span span_converted(Dtype from, Dtype to, Span s);
// Range of an integer dtype; false for others.
bool span_holds(Dtype to, double *least, double *most);

// from[d]: the result dimension that input dimension d becomes, or -1 if it has size 1. False: not
// a permutation, slice or reshape by dimensions of size 1.
bool span_follow(const Node *move, int *from);
// Range of node n, computed or read in g, if its dimension d is restricted to at[d].
Span span_of(const Group *g, const Node *n, const Span *at);
bool span_wraps(const Group *g, const Node *n); // may an integer map overflow 32 bits?

#endif
