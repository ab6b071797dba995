// expr.h: fused expressions and indices as CUDA text. A part of emit.h.
#ifndef NNGEN_EMIT_EXPR_H
#define NNGEN_EMIT_EXPR_H

#include "gen/sched/attend.h"

// An index into one dimension: the value of `text`, plus the lane number if `lane`.
typedef struct Index {
  const char *text;
  bool lane;
} Index;

// A value available in the scope.
struct Bound {
  const Node *node;
  Index at[MaxRank];
  const char *text;
  const char *pred; // condition under which it was loaded, or NULL
  const char *made; // map: the expression that `text` names, else NULL
};

// The code being generated. A thread handles `lanes` adjacent elements in a loop over j: `loads`
// precedes that loop, `body` is inside it.
typedef struct Scope {
  const Group *group;
  int lanes;
  int tail;           // contraction: the epilogue output being written
  const char *indent; // of the body
  const char *pred;   // condition of loads, or NULL
  Buffer loads;
  Buffer body;
  struct Bound *bound;
  int nbound, capacity;
  const char **inner; // indices defined inside the lane loop
  int ninner;
  bool first;       // emit maps before the lane loop
  const char *flat; // known offset of the element at flat_at in flat_type, or NULL
  Type flat_type;
  Index flat_at[MaxRank];
  // computed rows of attention operands (emit_heads.c)
  const char *part; // index of a vector's begin, within part_begin..part_end - 1
  int64_t part_begin, part_end;
  const char *(*reduced)(struct Scope *s, const Node *n, const Index *at); // emits a reduction
  struct Head *head;
  // A copy of n's element at `offset` that the kernel has already loaded, or NULL.
  const char *(*brought)(struct Scope *s, const Node *n, const char *pointer, const char *offset);
  struct AttendText *attend;
} Scope;

Arena *scope_arena(const Scope *s);
const char *scope_find(const Scope *s, const Node *n, const Index *at); // bound value, or NULL
bool scope_zero_elsewhere(const Scope *s,
                          const char *value);            // was it loaded under s->pred, else 0?
void scope_note_inner(Scope *s, const char *name);       // declares an index of the lane loop
bool scope_is_inner(const Scope *s, const char *offset); // does it use such an index?
void scope_free(Scope *s);

// ---- index.c: indices as C text ----------------------------------------------------------------

bool index_is_zero(const char *text);
const char *index_atom(Arena *a, const char *text); // parenthesised unless a name or a number
const char *index_scaled(Arena *a, const char *text, int64_t by);
const char *index_sum(Arena *a, const char *x, const char *y);
Index index_shifted(Arena *a, Index at, int64_t by);
Index index_rolled(Arena *a, Index at, int64_t by, int64_t size, int lanes);
const char *index_whole(Arena *a, Index at); // with the lane written out
// The index in shape `from` of element `at` of the same value reshaped to `to`.
void index_reshape(Arena *arena, const Type *to, const Type *from, int lanes, const Index *at,
                   Index *out);
// Gives names to indices that are expressions; vector loads need plain names.
void index_name(const Group *g, Buffer *out, const char *indent, int rank, Index *at);
// Defines the indices of n dimensions (outermost first) from the linear index `i`.
void expr_decode(Buffer *out, const char *indent, const char *i, int n, const int64_t *size,
                 const char *const *name);

// ---- expr.c: values ----------------------------------------------------------------------------

// The value of node n at index `at`, as a CUDA expression: a local or a literal.
const char *expr_value(Scope *s, const Node *n, const Index *at);
const char *expr_moved(Scope *s, const Node *n, const Index *at); // of a move: expr_moves.c
void expr_bind(Scope *s, const Node *n, const Index *at, const char *text);
void expr_bind_as(Scope *s, const struct Bound *b); // copies a binding of another scope
// Index in the result of a reshape, permutation, slice or roll of input element `at`. A lane stays
// a lane if `lanes` adjacent elements stay adjacent.
void expr_follow(const Node *move, int lanes, const Index *at, Index *out);
// Index into `from`, which broadcasts to `to`, at `at`: broadcast dimensions become 0.
void expr_broadcast(const Type *from, const Type *to, const Index *at, Index *out);

// ---- expr.c: stores and names ------------------------------------------------------------------

// Stores n's value at `at`: as one vector after the lane loop if lanes are adjacent, else singly.
void expr_store(Scope *s, Buffer *stores, const Node *n, const Index *at, const char *value);
const char *expr_element(Scope *s, const Node *n,
                         const Index *at); // an output's element, in memory

const char *expr_pointer(const Group *g, const Node *n); // parameter of a value in memory
// Is the scope's flat offset that of element `at` of a value with these strides?
bool expr_is_flat(const Scope *s, const Type *t, const int64_t *stride, const Index *at);
bool expr_takes_pointer(const Group *g, int i); // is argument i a pointer, not only a tensor map?
void expr_name_args(Group *g);                  // sets Group.args from the model's names
const char *expr_name(const Group *g, const char *wanted); // an unused identifier
const char *expr_local(const Group *g, const Node *n);     // for n's value: conv1, conv1_add

const char *expr_literal(Arena *a, double v, Dtype dtype);
const char *expr_ctype(Dtype dtype);
const char *expr_compute_type(const Node *n);          // type of n in kernels: float, int, ..
const char *expr_cast(const Node *n);                  // function that converts to the stored dtype
const char *expr_as_tf32(Arena *a, const char *value); // rounded to TF32
// CUDA text of an op with arguments (names, literals or calls) for $1 $2 ..
const char *expr_substitute(Arena *arena, const char *cuda, const char *const *args);
bool expr_mentions(const char *text, const char *word);

#endif
