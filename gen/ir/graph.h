// graph.h: functions on ops, graphs, nodes and types: a part of ir.h.
#ifndef NNGEN_GRAPH_H
#define NNGEN_GRAPH_H

#include "ir.h"

// ---- op.c: the table of ops --------------------------------------------------------------------

typedef struct AttrField {
  const char *name;
  size_t offset; // in Attr
  int count;     // elements; -1: the rank of the node
  bool real;     // double, else int64_t
  bool optional; // not printed when 0
} AttrField;
extern const AttrField attr_fields[];
extern const int attr_nfields;

const Op *op_find(const Compiler *c, const char *name); // NULL if unknown
const Op *op_need(const Compiler *c, const char *name); // dies if unknown
const Monoid *op_monoid(const Node *reduction);         // for floats or for integers, by its input
const char *op_class_name(OpClass cls);
void op_copy_attrs(const Op *op, const Attr *from, Attr *to); // the fields that op has

// ---- graph.c -----------------------------------------------------------------------------------

Graph *graph_new(Compiler *c, const char *model);
Node *graph_add(Graph *g, const Op *op, int nin, Node **in, const Attr *attr, Node *like);
Node *graph_move(Graph *g, const char *op, Node *in, int rank, const Attr *attr);
// A node that the model as written does not have, with the rank, dtype and order of `as`, and a
// shape that follows from its inputs.
Node *graph_derive(Graph *g, const Op *op, int nin, Node **in, const Attr *attr, const Node *like,
                   const Type *as);
Output graph_output_of(const char *name, Node *node, Loc loc, int entry); // with default dtype
void graph_output(Graph *g, Output output);
void graph_update(Graph *g, Node *state, Node *value, Loc loc, int entry);
// A new graph in which each live node is replaced by the result of `rewrite`. Graph.scratch of the
// new graph is `scratch`.
Graph *graph_rebuild(Graph *g, Node *(*rewrite)(Graph *to, Node *node, Node **in), void *scratch);
Node *graph_same(Graph *to, Node *n, Node **in); // for `rewrite`: n as it is, of these inputs
Graph *graph_copy(Graph *g);
Graph *graph_split(Graph *g); // split.c: entries share only sources and fixed values
void graph_count_uses(Graph *g);
void graph_verify(Graph *g, bool grouped); // dies naming the invalid node

bool node_depthwise(const Node *n); // a depthwise convolution, or its data gradient
// The contraction that n was in the model, before channels were padded; else n itself.
const Node *node_as_written(const Node *n);
int64_t node_window(const Node *n, int i);       // height (0), width (1) of a window or filter
bool node_is_move(const Node *n, int form);      // a move of this form (MoveReshape ...)
int node_sliced_dim(const Node *n);              // the only one along which n is a slice, or -1
bool node_is_gather(const Node *n);              // a move that reads ids: its second input
bool node_is_map(const Node *n, unsigned flags); // a map whose op has one of these flags
bool node_is_literal(const Node *n);             // a 0-dimensional constant
bool node_is_number(const Node *n);              // a literal of the model file, like 2 or 0.5
bool node_has_memory(const Node *n);             // a source read from memory
bool node_is_computed(const Node *n);            // a source computed in kernels: constant, index

// ---- type.c ------------------------------------------------------------------------------------

Type type_make(Dtype dtype, int rank, const int64_t *dim); // row-major
int64_t type_count(const Type *t);                         // elements
int64_t type_bytes(const Type *t);
void type_strides(const Type *t, int64_t stride[MaxRank]); // elements; 0 for dimensions of size 1
bool type_same_shape(const Type *a, const Type *b);
bool type_same_order(const Type *a, const Type *b);    // of equal shapes: equal strides?
bool type_axes_innermost(const Type *t, int64_t axes); // are these dimensions the innermost?
// Neighbours in memory that differ in none of these dimensions.
int64_t type_kept_run(const Type *t, int64_t axes);
bool type_innermost_in(const Type *t, int64_t axes); // is the innermost of size > 1 among these?
typedef struct ShapeText {
  char s[MaxRank * 22 + 4];
} ShapeText;
ShapeText type_shape(const Type *t); // .s: "(1, 3, 224, 224)"

Dtype type_compute(Dtype dtype);          // dtype in kernels: f32, i32, u8 or bool
Dtype type_operand(const Node *n, int i); // dtype to which map n converts input i
Dtype type_result(const Node *n);         // result dtype of map n

const char *precision_name(Precision precision); // "fp16"
bool precision_parse(const char *name, Precision *precision);
Dtype precision_dtype(Precision precision); // of stored values and of contraction operands

// ---- shape.c -----------------------------------------------------------------------------------

void shape_infer(Compiler *c, Node *node);                    // sets node->type from its inputs
void check_elements(Compiler *c, const Node *n, bool stored); // err_at if there are too many

// ---- text.c: the IR as text --------------------------------------------------------------------

void text_write(const Graph *g, FILE *file);
Graph *text_read(Compiler *c, const char *text);
const char *text_rows(Compiler *c, const char *text); // file that declares its ops, or NULL

#endif
