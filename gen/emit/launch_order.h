// launch_order.h: the launches of all entries, their use of the arena, and their dependences
// (launches.c); input of the orders that launch_order.c computes.
#ifndef NNGEN_LAUNCH_ORDER_H
#define NNGEN_LAUNCH_ORDER_H

#include "emit.h"

typedef struct List {
  int *of, count;
} List;

typedef struct Value { // a value in the arena
  int64_t bytes;
  List users; // launches that write or read it
  bool kept;  // live until the end of the entry: copied to a state there
} Value;

typedef struct Launches { // in the order of Graph.groups
  int count, nvalues;
  Value *values;
  List *uses;      // by launch: values it uses
  List *before;    // by launch: launches that must precede it
  List *behind;    // by launch: launches that must follow it
  int64_t largest; // bytes of the largest value
} Launches;

Launches launches_find(const Graph *g);
int64_t launches_arena(Arena *, const Launches *, const int *order); // arena bytes in this order
int64_t launches_least(const Launches *);        // lower bound: most bytes of a single launch
int *launches_integers(Arena *arena, int count); // zeroed

#endif
