// emit.h: what emit.c and the emitters of single templates (emit_*.c) share.
#ifndef NNGEN_EMIT_H
#define NNGEN_EMIT_H

#include "nngen.h"

// One kernel being written: a Lua table of holes for its template is on top of the Lua stack.
typedef struct Emitter {
  Compiler *c;
  Group *g;
} Emitter;

void hole_text(Emitter *e, const char *name, const char *text);
void hole_take(Emitter *e, const char *name, Buffer *text); // and frees it
const char *hole_get(Emitter *e, const char *name);         // null when there is none
void hole_int(Emitter *e, const char *name, int64_t value);
void hole_bool(Emitter *e, const char *name, bool value);

// Letters for the indices of a value of this rank: n c h w, m n, ...
const char *const *emit_index_names(int rank);

// Fills the holes `loads`, `body`, `stores` with what the group does to the values of its domain
// `t` at index `at`; the values already at hand are bound in `s`. The hole `decode` defines those
// indices of `at` that are mentioned, from the linear offset `flat` (null: the template defines
// them itself).
void emit_epilogue(Emitter *e, Scope *s, const Type *t, const Index *at, const char *flat);

void emit_map(Emitter *e);
void emit_window(Emitter *e);
void emit_reduce(Emitter *e);
void emit_row(Emitter *e);
void emit_contract(Emitter *e);

#endif
