// first.h: products whose kernel begins with rows that would be a kernel before it.
#ifndef NNGEN_FIRST_H
#define NNGEN_FIRST_H

#include "sched.h"

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
