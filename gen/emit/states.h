// states.h: accumulators and iteration domains of reductions as CUDA text. A part of emit.h.
#ifndef NNGEN_EMIT_STATES_H
#define NNGEN_EMIT_STATES_H

#include "expr.h"

// ---- emit_monoid.c: accumulators ---------------------------------------------------------------

// A monoid over the elements of one value; several reductions may read results of it.
typedef struct Member {
  const Monoid *monoid;
  const Node *value;
  const char *type; // name of its struct
  const char *name; // name of its field in States
  const char *run;  // name of its struct for runs, if States.run is used
} Member;

// All accumulators of one sweep over the elements.
typedef struct States {
  const Group *group;
  const char *type; // name of the struct
  const char *run;  // struct for short runs of elements (cheaper inner accumulation), or NULL
  Member *member;
  int count;
  bool ordered; // elements come in index order
} States;

void states_add(States *s, const Node *reduction);
Member *states_member(States *s, const Node *reduction); // NULL if not added
// Writes the structs of several sweeps, with clear() and combine().
void states_put(States *sweeps, int count, Buffer *b);
// Statements that set variable `state` to the accumulators of one element, from its value and
// index.
void states_element(const States *s, const Member *m, const char *state, const char *value,
                    const char *place, Buffer *b);
const char *states_path(const States *s, const Member *m, const char *state); // member of `state`
bool states_have_runs(const States *s); // are runs cheaper, and indices of elements not needed?
// A statement that adds an element to a run.
void states_add_element(const States *s, const Member *m, const char *run, const char *value,
                        Buffer *b);
// The reduction's value, from variable `state`.
const char *states_result(States *s, const Node *reduction, const char *state);
const char *monoid_result(Arena *arena, const Node *reduction, const char *state); // single monoid

// ---- emit_domain.c: iteration domains ----------------------------------------------------------

// Dimensions of t larger than 1 that are (in) or are not in `axes`, in memory order; returns how
// many.
int domain_dims(const Type *t, int64_t axes, bool in, int *dims);
// Indices of an element (full) and of the output it is reduced into (out).
void domain_index(const Type *t, int64_t axes, Index *full, Index *out);
// Defines those indices of `dims` that a text mentions, from the linear variable `from`.
void domain_decode(Buffer *b, const char *from, const Type *t, const int *dims, int count,
                   const char *const *texts, int ntexts);
// Sets the scope's flat offset of the element at `full` if outputs and reduced elements are
// separate in memory; output, element: their linear variables.
void domain_flat(Scope *s, Arena *arena, const Type *t, int64_t axes, const Index *full,
                 const char *output, const char *element);
// Row-major index of the element at `full` among those along `axes`.
const char *domain_place(Arena *arena, const Type *t, int64_t axes, const Index *full);

#endif
