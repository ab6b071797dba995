// product_text.h: contractions as text: index maps, epilogues, computed attention operands, masks.
// A part of emit.h.
#ifndef NNGEN_EMIT_PRODUCT_TEXT_H
#define NNGEN_EMIT_PRODUCT_TEXT_H

#include "emit.h"

// ---- emit_maps.c: index maps as text -----------------------------------------------------------

typedef struct ProductText {
  Emitter *e;
  Arena *arena;
  Product p;
  const Maps *maps;              // of the first phase; axes are those of all phases
  const char *axis[kMostAxes];   // text: position on each axis
  const char *number[AxisRoles]; // text: linear index of each role: m, n, k, batch
  Buffer members;                // what differs between phases: member names,
  Buffer *values;                // and by phase the values, each after a comma
} ProductText;

enum { kRoleBatch = 1 << AxisBatch, kRoleM = 1 << AxisM, kRoleN = 1 << AxisN, kRoleK = 1 << AxisK };

extern const char *const product_letters[AxisRoles];
void product_open(ProductText *h, Emitter *e, const Product *p);
void product_name_axes(ProductText *h); // again, after a change of ProductText.number
const char *product_literal(const ProductText *h, int64_t value);
// Numbers, or members of `phase` if phases differ.
const char *product_size_text(ProductText *h, int axis);
const char *product_begin_text(ProductText *h, int tensor, int d);
// Statements that decompose the linear indices of some roles (bits) into the positions mentioned.
const char *product_decoded(ProductText *h, unsigned roles, const char *indent, int count,
                            const char *const *texts);
const char *product_joined(const ProductText *h, const char *x, const char *y, bool minus);
// The contribution of some roles to the index along dimension d; begin: with its begin.
const char *product_map_text(ProductText *h, int tensor, int d, unsigned roles, bool begin);
// The contribution of some roles to an element's offset, in a tensor with these strides.
const char *product_offset_text(ProductText *h, int tensor, const int64_t *stride, unsigned roles);
// The index of an element of a tensor: numbers, or names defined in `b`.
void product_index(ProductText *h, int tensor, unsigned roles, const char *indent, Buffer *b,
                   Index *at);
// The offset of an element if it is linear in the roles' linear indices, else NULL.
const char *product_flat_text(ProductText *h, int tensor, const Type *t, unsigned roles);

// ---- emit_tails.c: epilogues -------------------------------------------------------------------

void tails_put(ProductText *h); // sets `tails` and `pair`
// The lines of `decode` that one of the texts, or a later line, mentions.
const char *text_mentioned(Arena *arena, Buffer *decode, int count, const char *const *texts);

// ---- emit_heads.c: attention operands with a norm or rotary prologue ---------------------------

typedef struct HeadStates { // accumulators of all operands
  States *list;
  int count;
} HeadStates;
// Sets the parameters of operand i. rows: role of its row axes; along: role of a head's elements.
void emit_head(Emitter *e, HeadStates *states, const ProductText *h, int i, int tensor,
               AxisRole rows, AxisRole along);
void emit_head_states(Emitter *e, HeadStates *states);

// ---- emit_masking.c: masks ----------------------------------------------------------------------

// Pushes a table of template parameters that classify tiles of keys as masked, plain or mixed.
void emit_masking(Emitter *e, const ProductText *values, const Masking *masking,
                  const Index *element);

#endif
