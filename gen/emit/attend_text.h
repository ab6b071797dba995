// attend_text.h: what the texts of attention kernels and of those that weigh rows by maps of scores
// have in common: operands, products, conditions, where rows are (attend_text.c).
#ifndef NNGEN_ATTEND_TEXT_H
#define NNGEN_ATTEND_TEXT_H

#include "emit.h"

typedef struct AttendText {
  Emitter *e;
  Attending a;
  ProductText values, scores[kMostScores]; // the products, on the same rows and batches
  Index element[MaxRank];                  // of a score
  const char *product[kMostScores];        // names
  const char *decode;                      // defines it, of m, key and batch
  HeadStates heads;                        // of operands that are computed
  const char *of_key[kMostKeyValues];      // where a value of `key` is that stands in shared memory
  int nof_key;
  int nboxes; // rows come by tensor maps
} AttendText;

void attend_open(AttendText *t, Emitter *e);
void attend_put_shape(AttendText *t); // tiles and operands
void attend_put_rows(AttendText *t);  // what kernels that make rows of values have besides
Scope attend_scope(const AttendText *t);
void attend_bind_products(const AttendText *t, Scope *s);
void attend_bind_conditions(const AttendText *t, Scope *s, const Masking *holding); // of a score
void attend_put_function(AttendText *t, Scope *s, const char *value); // decode, body and value
void attend_put_masking(AttendText *t, const Masking *masking); // which tiles are masked or plain

#endif
