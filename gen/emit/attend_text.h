// attend_text.h: template parameters shared by attention forward and backward kernels: operands,
// products, conditions, row addresses (emit_attend_common.c).
#ifndef NNGEN_ATTEND_TEXT_H
#define NNGEN_ATTEND_TEXT_H

#include "emit.h"

typedef struct AttendText {
  Emitter *e;
  Attending a;
  ProductText values;
  ProductText scores[kMostScores];    // on the same rows and batches as values
  Index element[MaxRank];             // index of a score
  const char *decode;                 // defines it, from m, key and batch
  const char *product[kMostScores];   // names of the score products
  HeadStates heads;                   // accumulators of computed operands
  const char *of_key[kMostKeyValues]; // values per key copied to shared memory: their addresses
  int nof_key;
  int nboxes; // tensor maps; 0: rows are loaded by threads
} AttendText;

void attend_open(AttendText *t, Emitter *e);
void attend_put_shape(AttendText *t); // tiles and operands
void attend_put_rows(AttendText *t);  // more, for kernels whose output is rows of values
Scope attend_scope(const AttendText *t);
void attend_bind_products(const AttendText *t, Scope *s);
void attend_bind_conditions(const AttendText *t, Scope *s, const Masking *holding);
void attend_put_function(AttendText *t, Scope *s, const char *value); // decode, body and value
void attend_put_masking(AttendText *t, const Masking *masking);       // classification of tiles

#endif
