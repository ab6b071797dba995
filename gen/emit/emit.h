// emit.h: groups become CUDA text, and the Plan that the runtime executes.
#ifndef NNGEN_EMIT_H
#define NNGEN_EMIT_H

#include "gen/sched/attend.h"

// ---- emit.c ------------------------------------------------------------------------------------
void emit_pass(Compiler *c);            // CUDA text
void emit_group(Compiler *c, Group *g); // again, after the pass, under another name or schedule
const char *emit_template_file(const Group *g);
void emit_push_render(lua_State *lua, Arena *arena); // render(file, k, plain) of render.lua

// ---- plan.c, mem.c, lives.c --------------------------------------------------------------------
Plan *plan_build(Compiler *c);
void mem_plan(int count, const int64_t *bytes, const int *first, const int *last, int64_t *offset,
              int64_t *total, int64_t *bound);
void lives_pass(Compiler *c); // Graph.groups in an order in which less is in memory

// ---- expr.c: fused expressions as CUDA text ----------------------------------------------------

// An index into one dimension: the value of `text`, plus the lane number when `lane`.
typedef struct Index {
  const char *text;
  bool lane;
} Index;

// What expr_value writes into. A thread handles `lanes` neighbouring elements in a loop over j:
// `loads` stands before that loop, `body` inside it.
typedef struct Scope {
  const Group *group;
  int lanes;
  int tail;           // of a product, whose outputs are written
  const char *indent; // of the body
  const char *pred;   // loads happen only where this holds; null: always
  Buffer loads, body;
  struct Bound { // values already at hand
    const Node *node;
    Index at[MaxRank];
    const char *text, *pred; // pred: where it is; null: everywhere
    const char *made;        // the expression that it is a name for; null: it is no map
  } * bound;
  int nbound, capacity;
  const char **inner; // indices that are computed inside the loop
  int ninner;
  bool first; // maps are computed before the loop
  const char *flat; // offset of the current element in `flat_type`, when at hand
  Type flat_type;
  Index flat_at[MaxRank]; // the index it stands for
  // Of rows that are computed (emit_heads.c): an index from part_begin to before part_end, which
  // begins a vector; what gives the result of a reduction that is not bound.
  const char *part;
  int64_t part_begin, part_end;
  const char *(*reduced)(struct Scope *s, const Node *n, const Index *at);
  struct Head *head;
  // Where the kernel has brought the element of n at this offset already; null: nowhere.
  const char *(*brought)(struct Scope *s, const Node *n, const char *pointer, const char *offset);
  struct AttendText *attend;
} Scope;

// ---- index.c: indices as C text
bool index_is_zero(const char *text);
const char *index_atom(Arena *a, const char *text); // in parentheses, unless a name or a number
const char *index_scaled(Arena *a, const char *text, int64_t by);
const char *index_sum(Arena *a, const char *x, const char *y);
Index index_shifted(Arena *a, Index at, int64_t by);
const char *index_whole(Arena *a, Index at); // with its lane, for arithmetic that is no sum
// Element `at` of a value of shape `to`, seen in shape `from`.
void index_reshape(Arena *arena, const Type *to, const Type *from, int lanes, const Index *at,
                   Index *out);
Index index_rolled(Arena *a, Index at, int64_t by, int64_t size, int lanes);
// Names each index that is neither a name nor another for each lane: a vector wants a bare one.
void index_name(const Group *g, Buffer *out, const char *indent, int rank, Index *at);

// The value of node n at index `at` (its rank) as a CUDA float expression: a local or a literal.
const char *expr_value(Scope *s, const Node *n, const Index *at);
void expr_bind(Scope *s, const Node *n, const Index *at, const char *text);
void expr_bind_as(Scope *s, const struct Bound *b); // as in another scope
// Where element `at` of its input is in the result of a reshape, permutation, slice or roll; a lane
// stays one while `lanes` neighbours stay together.
void expr_follow(const Node *move, int lanes, const Index *at, Index *out);
// n at `at` of a value of the shape `from`, aligned at the right: broadcast dimensions become 0.
void expr_broadcast(const Type *from, const Type *to, const Index *at, Index *out);
// Stores n's value at `at`: one vector store after the loop where lanes are neighbours, else each.
void expr_store(Scope *s, Buffer *stores, const Node *n, const Index *at, const char *value);
const char *expr_element(Scope *s, const Node *n, const Index *at); // of an output, in memory
// C text that defines the indices of dimension dims[0..n) (outermost first) from linear `i`.
void expr_decode(Buffer *out, const char *indent, const char *i, int n, const int64_t *size,
                 const char *const *name);
const char *expr_pointer(const Group *g, const Node *n); // the parameter for a value in memory
bool expr_takes_pointer(const Group *g, int i); // of Group.args: or is it read by boxes alone?
void expr_name_args(Group *g);                           // Group.args: like the model's names
const char *expr_name(const Group *g, const char *wanted); // of its own, `wanted` if it is free
const char *expr_local(const Group *g, const Node *n);     // for what n makes: conv1, conv1_add
const char *expr_literal(Arena *a, double v, Dtype dtype); // the number as a value of this dtype
const char *expr_ctype(Dtype dtype);
const char *expr_cast(const Node *n);         // the function that makes a stored value of one
const char *expr_as_tf32(Arena *a, const char *value); // rounded, as products would else cut it
const char *expr_compute_type(const Node *n); // of its values in a kernel: float, int, ..
// An op's CUDA text with the arguments (names, literals or calls) in place of $1 $2 ..
const char *expr_substitute(Arena *arena, const char *cuda, const char *const *args);
bool expr_mentions(const char *text, const char *word);
// expr_moves.c: the same of a move.
const char *expr_moved(Scope *s, const Node *n, const Index *at);
Arena *scope_arena(const Scope *s);
const char *scope_find(const Scope *s, const Node *n, const Index *at); // bound before; null: not
bool scope_zero_elsewhere(const Scope *s, const char *value); // was it read where s->pred holds?
void scope_note_inner(Scope *s, const char *name); // it is there in the loop over lanes alone
bool scope_is_inner(const Scope *s, const char *offset); // does it mention such a name?
void scope_free(Scope *s);

// ---- emit_monoid.c: what the threads of a kernel accumulate ------------------------------------

// One monoid, over the elements of one value; several reductions may read their results of it.
typedef struct Member {
  const Monoid *monoid;
  const Node *value;
  const char *type, *name; // the struct's name, the field's
  const char *run;         // the struct's name of a run, where States.run is asked for
} Member;

typedef struct States { // all that is accumulated in one sweep over the elements
  const Group *group;
  const char *type; // the struct's name
  const char *run;  // null, or that of what a thread accumulates: elements are added to it
  Member *member;
  int count;
  bool ordered; // elements come in the order of their places
} States;

void states_add(States *s, const Node *reduction);
Member *states_member(States *s, const Node *reduction); // null: it is not among them
void states_put(States *sweeps, int count, Buffer *b);   // the structs, clear() and combine()
// Statements that make the state of one element, of its value and its place, in variable `state`.
void states_element(const States *s, const Member *m, const char *state, const char *value,
                    const char *place, Buffer *b);
const char *states_path(const States *s, const Member *m, const char *state); // where it is there
bool states_have_runs(const States *s); // that take less, and no places of elements
// A statement that adds an element to a run.
void states_add_element(const States *s, const Member *m, const char *run, const char *value,
                        Buffer *b);
// The reduction's value, as an expression of the variable `state`.
const char *states_result(States *s, const Node *reduction, const char *state);
const char *monoid_result(Arena *arena, const Node *reduction, const char *state); // of it alone

// ---- emit_domain.c: the elements that a reduction runs over ------------------------------------

// The dimensions of t in memory order that are (or are not) in `axes`, larger than 1.
int domain_dims(const Type *t, int64_t axes, bool in, int *dims);
// Indices of an element, and of the output it belongs to.
void domain_index(const Type *t, int64_t axes, Index *full, Index *out);
// Defines the indices of `dims` that one of the texts mentions, from the linear variable `from`.
void domain_decode(Buffer *b, const char *from, const Type *t, const int *dims, int count,
                   const char *const *texts, int ntexts);
// Gives the scope the offset of the element at `full` in memory, where outputs and what is reduced
// into each are apart there: C text of their linear variables.
void domain_flat(Scope *s, Arena *arena, const Type *t, int64_t axes, const Index *full,
                 const char *output, const char *element);
// The place of the element at `full` among those along `axes`, row-major.
const char *domain_place(Arena *arena, const Type *t, int64_t axes, const Index *full);

// ---- emit.c and emit_*.c: one template each ----------------------------------------------------

// One kernel being written: a Lua table of holes for its template is on top of the Lua stack.
struct Emitter {
  Compiler *c;
  Group *g;
  struct States *rows, *columns; // of a product's rows, and columns; null: it reduces none
};

void hole_text(Emitter *e, const char *name, const char *text);
void hole_take(Emitter *e, const char *name, Buffer *text); // and frees it
const char *hole_get(Emitter *e, const char *name);         // null when there is none
void hole_int(Emitter *e, const char *name, int64_t value);
void hole_bool(Emitter *e, const char *name, bool value);

// Fills the hole `header`: the comment that a kernel opens with.
void emit_header(Emitter *e);

// Letters for the indices of a value of this rank: n c h w, m n, ...
const char *const *emit_index_names(int rank);
// Those of t; dimensions of size 1 are 0; the innermost carries the lane.
void emit_lane_index(const Type *t, const char *const *names, Index *at);

// Fills the holes `loads`, `body`, `stores` with what the group does to the values of its domain
// `t` at index `at`; the values already at hand are bound in `s`. The hole `decode` defines those
// indices of `at` that are mentioned, from the linear offset `flat` (null: the template defines
// them itself).
void emit_epilogue(Emitter *e, Scope *s, const Type *t, const Index *at, const char *flat);

// ---- emit_maps.c: index maps as text -----------------------------------------------------------

typedef struct ProductText {
  Emitter *e;
  Arena *arena;
  Product p;
  const Maps *maps;              // of the first phase: the axes of all
  const char *axis[kMostAxes];   // the position on an axis, as text
  const char *number[AxisRoles]; // the positions of a role as one number: m, n, k, batch
  Buffer members, *values; // what differs between phases: names, and after commas each one's values
} ProductText;

enum { kRoleBatch = 1 << AxisBatch, kRoleM = 1 << AxisM, kRoleN = 1 << AxisN, kRoleK = 1 << AxisK };

extern const char *const product_letters[AxisRoles];
void product_open(ProductText *h, Emitter *e, const Product *p);
void product_name_axes(ProductText *h); // anew, after ProductText.number
const char *product_literal(const ProductText *h, int64_t value);
// Numbers, or members of `phase` where phases differ.
const char *product_size_text(ProductText *h, int axis);
const char *product_begin_text(ProductText *h, int tensor, int d);
// Statements that cut the numbers of some roles (bits) into those positions that the texts mention.
const char *product_decoded(ProductText *h, unsigned roles, const char *indent, int count,
                            const char *const *texts);
const char *product_joined(const ProductText *h, const char *x, const char *y, bool minus);
// The index along dimension d of a tensor, as far as some roles make it; with where it begins.
const char *product_map_text(ProductText *h, int tensor, int d, unsigned roles, bool begin);
// The offset of an element in a tensor of these strides, as far as some roles make it.
const char *product_offset_text(ProductText *h, int tensor, const int64_t *stride, unsigned roles);
// The index of an element of a tensor: names, which `b` gives a value, or numbers.
void product_index(ProductText *h, int tensor, unsigned roles, const char *indent, Buffer *b,
                   Index *at);
// Where an element of a tensor is, if that is a sum of multiples of its numbers; else null.
const char *product_flat_text(ProductText *h, int tensor, const Type *t, unsigned roles);

// ---- emit_tails.c ------------------------------------------------------------------------------
void tails_put(ProductText *h); // the holes `tails` and `pair`
// Of the lines that define indices, those that one of the texts, or a later line, mentions.
const char *text_mentioned(Arena *arena, Buffer *decode, int count, const char *const *texts);

// ---- emit_heads.c: operands of attention that are computed where they are loaded ----------------
typedef struct HeadStates { // what all of them accumulate
  States *list;
  int count;
} HeadStates;
// Fills the holes of operand i: `rows` tells which axes its rows are, `along` those of a head.
void emit_head(Emitter *e, HeadStates *states, const ProductText *h, int i, int tensor,
               AxisRole rows, AxisRole along);
void emit_head_states(Emitter *e, HeadStates *states);

// ---- emit_span.c -------------------------------------------------------------------------------
// Pushes a table of holes: what tells which tiles of keys are masked or plain.
void emit_masking(Emitter *e, const ProductText *values, const Masking *masking,
                  const Index *element);

void emit_map(Emitter *e);
void emit_window(Emitter *e);
void emit_reduce(Emitter *e);
void emit_reduce_many(Emitter *e);
void emit_row(Emitter *e);
void emit_scan(Emitter *e), emit_scatter(Emitter *e);
void emit_select(Emitter *e);
void emit_contract(Emitter *e);
void emit_attend(Emitter *e);
void emit_heads(Emitter *e);
void emit_weigh(Emitter *e);
void emit_sum_weights(Emitter *e);

// ---- embed.c, embed_cuda.c: a plan as files that other programs build ---------------------------

typedef struct EmbedOptions {
  const char *name;         // stands before every symbol; a C identifier
  const char *file;         // the model's, for comments
  const char *settings;     // of the model, as the user gave them: "batch=8"
  const char *const *archs; // "sm_80" ..., the lowest first
  int narchs;
  const char *ptx;             // "compute_80": for newer ones; an "a" behind: none
  const int *same;             // of each kernel of the plan: the first with the same program
  bool weights_in_code, check; // check: stored results go with it
  bool runtime_api;            // host code over the CUDA runtime API, not the driver's
  double gate;                 // the relative error that results may have
} EmbedOptions;

typedef struct Embed { // one emission; its texts live until embed_close
  Arena *arena;
  lua_State *lua;
  const Plan *plan;
  const EmbedOptions *options;
  const char **tensor, **kernel, **entry; // their identifiers
} Embed;

void embed_name_all(Embed *e);         // embed_names.c: the identifiers
bool embed_reserves(const char *name); // does the C of networks use this word itself?
Embed *embed_open(const Plan *plan, const EmbedOptions *options); // both must outlive it
const char *embed_text(Embed *e, const char *template);           // of templates/embed/, filled in
// The "inputs", "outputs" or written "states" of an entry, from 0 and without `init`, as tensors of
// the plan; returns how many.
int embed_border(Embed *e, int entry, const char *kind, int *tensors);
const char *embed_cuda(Embed *e);                         // all kernels, and what they use of lib/
const char *embed_hash(Arena *arena, const char *source); // of a kernel's text, in hex
// An array of 64-bit words that holds the bytes, as C.
const char *embed_array(Embed *e, const char *name, const char *comment, const void *bytes,
                        size_t size);
void embed_close(Embed *e);
// embed_merge.c: plans of one model for several batches as one; tags: "b1" ..; same: of the kernels
// of all plans in a row, as image_twins tells. *out is the caller's even when it fails. Errors:
// ExitUsage.
int embed_merge(const Plan *const *plans, const char *const *tags, int count, const int *same,
                Plan **out, Error *err);

#endif
