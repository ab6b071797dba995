// emit.h: groups to CUDA text, and the Plan that the runtime executes. Includes expr.h, states.h,
// product_text.h and embed.h.
#ifndef NNGEN_EMIT_H
#define NNGEN_EMIT_H

#include "gen/sched/attend.h"

#include "expr.h"
#include "states.h"

// One kernel being emitted: the Lua table of its template's parameters ("holes") is on top of the
// Lua stack.
typedef struct Emitter {
  Compiler *c;
  Group *g;
  States *rows;    // contraction: row statistics, or NULL
  States *columns; // contraction: column reductions, or NULL
} Emitter;

// ---- emit.c: the pass, and what templates share ------------------------------------------------

void emit_pass(Compiler *c);            // sets Group.source of all groups
void emit_group(Compiler *c, Group *g); // emits one again, after a change of name or schedule
const char *emit_template_file(const Group *g);
void emit_push_render(lua_State *lua, Arena *arena); // pushes render(file, k, plain) of render.lua

// Set template parameter `name`.
void hole_text(Emitter *e, const char *name, const char *text);
void hole_take(Emitter *e, const char *name, Buffer *text); // frees the buffer
void hole_int(Emitter *e, const char *name, int64_t value);
void hole_bool(Emitter *e, const char *name, bool value);
const char *hole_get(Emitter *e, const char *name); // NULL if not set

const char *const *emit_index_names(int rank); // index names by rank: n c h w, m n, ...
// The index of a vector of t: names; 0 for dimensions of size 1; the innermost has the lane.
void emit_lane_index(const Type *t, const char *const *names, Index *at);

// Sets parameters `loads`, `body`, `stores`: the group's maps and stores for the elements of domain
// `t` at index `at`, starting from the values bound in `s`. `decode` defines the used indices of
// `at` from the linear offset `flat`; if that is NULL the template defines them.
void emit_epilogue(Emitter *e, Scope *s, const Type *t, const Index *at, const char *flat);

void emit_header(Emitter *e); // emit_header.c: parameter `header`, the kernel's opening comment

// ---- one template each: emit_NAME.c ------------------------------------------------------------

void emit_map(Emitter *e); // emit.c
void emit_window(Emitter *e);
void emit_reduce(Emitter *e);
void emit_reduce_many(Emitter *e); // emit_reduce.c
void emit_row(Emitter *e);
void emit_scan(Emitter *e);
void emit_select(Emitter *e);
void emit_sort(Emitter *e);
void emit_scatter(Emitter *e);
void emit_contract(Emitter *e);
void emit_attend(Emitter *e);
void emit_attend_backward(Emitter *e);
void emit_attend_bias(Emitter *e); // emit_attend_backward.c
void emit_heads(Emitter *e);

#include "product_text.h"

// ---- plan.c, mem.c, launch_order.c --------------------------------------------------------------

Plan *plan_build(Compiler *c);
// Offsets in an arena of `count` values, live from step first[i] to last[i]. *total: arena size;
// *bound: lower bound, the most bytes live at a step.
void mem_plan(int count, const int64_t *bytes, const int *first, const int *last, int64_t *offset,
              int64_t *total, int64_t *bound);
void launch_order_pass(Compiler *c); // reorders Graph.groups to lower peak memory

#include "embed.h"

#endif
