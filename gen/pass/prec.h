// prec.h: what the policy of precision (prec.c) asks of a value beside its own op: what it is made
// of, and where it leads (prec_facts.c).
#ifndef NNGEN_PREC_H
#define NNGEN_PREC_H

#include "pass.h"

typedef struct Facts {
  bool told;      // readers tell an infinity of it from a large number, and no product reads it
  bool told_once; // one reader does
  bool again;     // maps of sources alone: each kernel that reads it may compute it
  bool of_sums;   // maps of sums, positions, numbers and, in training, states and parameters alone
  bool of_integers;  // maps and windows of 32-bit integers and numbers alone
  bool ranked;       // the order of its elements counts, as for topk
  bool compared;     // with its own largest or smallest element
  bool multiplied;   // products alone read it, through moves
  bool to_states;    // all of it leads, through maps and moves, to new values of states
  const Node *state; // whose new value it is, and nothing else; null: of none
} Facts;

Facts *prec_facts(const Graph *g); // by id; needs Node.uses

// Of one op, beside what it reads.
const Node *prec_unmoved(const Node *n);       // n, or what moves of one value have it from
const Node *prec_compared(const Node *n);      // whose elements n compares with what they reduce to
bool prec_adds_up(const Node *n);              // elements to one: a reduction, a scan, a scatter
bool prec_shrinks(const Node *n, double most); // makes little of much: it multiplies by `most`
#endif
