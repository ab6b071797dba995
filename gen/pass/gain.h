// gain.h: what fusing saves and costs on the GPU at hand (gain.c).
#ifndef NNGEN_GAIN_H
#define NNGEN_GAIN_H

#include "pass.h"

bool gain_is_small(const Arch *arch, const Group *k); // is its launch what it costs?
double gain_of_copy(const Arch *arch, const Type *t); // seconds of a kernel that copies a value
// Is reading it less than a launch? Are its elements stored singly faster than copied?
bool gain_small_read(const Arch *, const Type *), gain_scatters(const Arch *, const Type *);
// Is computing a map cheaper than reading it? And of `work` operations?
bool gain_again(const Arch *, const Node *map), gain_again_work(const Arch *, const Node *, double);
// Is reading t from a table, `reads` times for `reader`, cheaper than `work` operations each time?
bool gain_of_table(const Arch *arch, const Type *t, const Type *reader, double reads, double work);
int64_t gain_behind(const Group *k, const Node *n); // bytes saved by computing n in k
bool gain_inside(const Arch *, const Group *k, double reads); // is k cheaper where it is read?
bool gain_taps(const Arch *, const Node *filter), // are taps summed faster than multiplied?
    gain_ends_tiles(const Arch *, const Group *k, int64_t rows); // with parts of so many rows?
bool gain_scores_again(const Arch *arch, const Node *sum, const Attention *a); // than kept?

#endif
