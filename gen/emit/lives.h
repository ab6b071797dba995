// lives.h: the launches of all entries, what they use of the arena, and which must wait for which
// (launches.c); for the orders that lives.c makes of them.
#ifndef NNGEN_LIVES_H
#define NNGEN_LIVES_H

#include "emit.h"

typedef struct List {
  int *of, count;
} List;

typedef struct Value { // in the arena
  int64_t bytes;
  List users; // launches that write or read it
  bool kept;  // until the end: a copy to a state reads it then
} Value;

typedef struct Launches { // in the order of Graph.groups
  int count, nvalues;
  Value *values;
  List *uses, *before, *behind; // by launch: values; launches that must come before it, behind it
  int64_t largest;              // bytes of a value
} Launches;

Launches launches_find(const Graph *g);
int64_t launches_arena(Arena *, const Launches *, const int *order); // bytes, in this order
int64_t launches_least(const Launches *);        // bytes that one launch alone needs, at the most
int *launches_integers(Arena *arena, int count); // zeros
#endif
