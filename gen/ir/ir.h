// ir.h: the graph that all rooms of the compiler work on, its text, shapes and views; and the
// context of a compilation, which every function gets that can fail by a user's mistake.
//
//   model.lua -front-> nodes -shape-> typed -simp-> smaller -prec, layout-> dtypes, orders
//   -fuse-> groups -sched-> tiles, launches -mem-> arena offsets -emit-> CUDA -plan-> Plan
//
// A Graph owns all its memory (the compiler's arena, nothing is freed singly). User errors leave
// through err_at; a broken invariant of ours is `die`.
#ifndef NNGEN_IR_H
#define NNGEN_IR_H

#include "op.h"

#include <lua.h>
#include <setjmp.h>

enum {
  MaxRank = PlanMaxRank,
  MaxInputs = 4,     // of a map
  kMostSelected = 64 // elements that a select finds
};

typedef struct Compiler Compiler;
typedef struct Graph Graph;
typedef struct Node Node;
typedef struct Group Group;
typedef struct Arch Arch;       // pass.h: a GPU the scheduler knows
typedef struct Traced Traced;   // eval.c
typedef struct Setting Setting; // lang.h: one of nn.config
typedef struct Usage Usage;     // lang.h: what the model file has used of its limits
typedef struct Tuning Tuning;   // sched.h: measured tiles
typedef struct Numbers Numbers; // lang.h: of an .npy beside the model

// ---- the graph ------------------------------------------------------------------------------

// Dtype and shape of a value, and how it lies in memory: dense, dimensions order[0] (outermost)
// to order[rank-1] (innermost).
typedef struct Type {
  Dtype dtype;
  int rank;
  int64_t dim[MaxRank];
  uint8_t order[MaxRank];
} Type;

// The attributes of an op, besides its inputs. Its row says which fields it has (Op.attrs);
// names and sizes are rows of attr_fields (op.c), so printing, reading and comparing are loops.
typedef struct Attr {
  double value;            // const: every element
  double init_a, init_b;   // param: see PlanTensor
  int64_t init, table;     // param: InitKind; its numbers in Compiler.tables, from 1
  int64_t axes;            // reduce: bit d set = dimension d becomes 1
  int64_t kernel[2];       // window: height, width
  int64_t stride[2];       // window, conv
  int64_t pad[4];          // window, conv: top, left, bottom, right
  int64_t dilation[2];     // window, conv
  int64_t groups;          // conv
  int64_t size[2];         // conv's gradients: height, width of an image, of a filter
  int64_t axis;            // concat, index, scan, select
  int64_t count;           // select: how many elements
  int64_t smallest, fixed; // 1: select: the smallest ones; index: of a table that `init` makes
  int64_t dtype, tensor;   // to: a Dtype; const without dimensions: 1: no number of the model
  int64_t below;           // input of integers: they are 0 to below - 1; 0: any
  int64_t dims[MaxRank];   // reshape: shape; permute: each one's source; slice: begin; roll: by
  int64_t ends[MaxRank];   // slice: end; pad: after
} Attr;

// The precisions of --dtype; what each means for a value: prec.c.
typedef enum Precision { PrecFp32, PrecTf32, PrecFp16, PrecBf16, PrecCount } Precision;

struct Node {
  int id, nin; // position in Graph.nodes: inputs come before users; how many inputs it has
  const Op *op;
  Node **in;
  Type type;
  Attr attr;
  const char *name; // dotted place in the model: layer1.0.conv1
  Loc loc;
  Precision precision; // of the policy that stores it: prec.c
  int call;            // which call of a layer made it; what `unfused` may still join
  int entry;           // of the model that it is computed in; sources belong to all
  bool updated;        // a state or parameter that an entry writes, or what is written there
  bool fixed; // of parameters, constants and positions of tables alone: computed once, by `init`
  const Node *written;     // what it was in the model as written; null: not from a model file
  int uses;                // how many inputs of live nodes and outputs of the graph it is
  int sweep;               // in a kernel of rows: the one over the row that computes it
  Group *group;            // set by fuse; null for sources
  int tail;                // of a product's group, that computes it; kRowTail: none
  const char **apart;      // by input: why the kernel that makes it does not compute this
  const char *kept, *wide, *blocks; // why no reader computes it; is f32: prec.c; `many`, or not
  Node *parent; // that it is a part of in memory, or another shape: a concat, such a part of one
  int64_t begin;           // of its part, along the axis of the concat
  bool placed, operand;    // a parent: what it is made of is written where it lies; of a product
  bool undone; // a permutation, by what reads it: simp_permuted.c
  bool late, inner, again; // its reader's own copy: chain.c; of scores: weigh.c; recompute.c
  bool foot, many; // a reduction: at the end of a product's kernel: norms.c; of parts: many.c
  bool follows, tf32; // a parameter's copy, updated with it: copies.c; rounded as stored: sched.c
  Node *subst;             // scratch of a rewriting pass: its replacement
};

typedef struct Output {
  const char *name;
  Node *node;
  Dtype dtype; // as it is stored; floats in 32 bits, unless the model converts them
  Loc loc;
  int entry;
} Output;

// What a state, or a parameter, holds after a run of an entry.
typedef struct Update {
  Node *state, *value;
  Loc loc;
  int entry;
  bool in_place; // its kernel writes the state itself; else a copy at the end of the run
} Update;

// What an entry reads in the place of a source.
typedef struct Instead { int entry; Node *source, *other; } Instead;
struct Graph {
  Compiler *c;
  Arena *arena;
  const char *model; // a C identifier, from the file name
  Node **nodes;
  Output *outputs;
  Update *updates;
  Instead *instead; // that graph_split follows
  int nnodes, noutputs, nupdates, ninstead;
  Group **groups; // in launch order
  Names *symbols; // of kernels
  int ngroups;
  void *scratch; // of the pass that makes the graph
};

// ---- a compilation ---------------------------------------------------------------------------

typedef struct Options {        // what the user asked of a compilation
  const char *model;            // path of the model file
  const char *lowering, *dtype; // fused, unfused; fp32, tf32, fp16, bf16
  const Arch *arch;
  int nset; // --set name=value; flag: the option that it was given by, null: --set; none: null
  const char **set_name, **set_value, **set_flag;
  int (*read_numbers)(const char *path, Numbers *numbers, Error *err);
  const Tuning *tuning;  // measured tiles; null: the model alone decides
  const char *device;    // whose measurements count
  int candidate, level;  // contractions take the tile in this place, from 1 (0: the best)
  bool no_flash, apart;  // attention is products and rows; concats, norms are kernels to run alone
  const char *stage, *recompute; // show: stop after this pass; none, auto, all, null: auto
  int64_t memory;        // bytes that the arena may have, 0: any; level: see recompute.c
  bool again, trains; // the model file ran before: its prints stay silent; train and eval are made
  bool embeds;   // programs of users write parameters, which lie row-major then, as they do
  bool compares; // it is made for its figures alone: values may have more than 2^31 elements
} Options;

// All that one compilation knows.
struct Compiler {
  Options options;
  lua_State *lua;
  Arena *arena;
  Graph *graph;                     // as the passes have it
  Graph *original;                  // as the model wrote it: what the oracle evaluates
  const struct Template *templates; // compile/templates.c; ends with a null name
  Op **ops;
  Names *reserved;   // words of templates/: kernels name nothing so
  Traced **programs; // what `ref` of the ops computes, as far as asked
  Setting *settings;
  const char **tables;  // of params: see PlanTensor.table
  const char **entries; // names; 0: infer
  int nops, nprograms, nsettings, ntables, nentries;
  int entry;           // that the next output or update belongs to
  const char *scope;   // where the next node stands in the model, as nn.lua says
  int call, ncalls;    // call 0: every op is a call of its own
  Precision precision; // of the next node
  Usage *usage;
  Error *error;
  jmp_buf recover;         // where err_at goes outside Lua
  Loc error_loc;           // where the model was when Lua itself complained
  bool in_lua;             // err_at raises a Lua error instead
  const char *source_path; // the model file of the last node made
  const char *rows;        // that declares ops of the IR text; null: there are none
  const char *stale;       // a tuned tile that is no candidate any more: "problem: tile"
};

#define FAILS __attribute__((noreturn, format(printf, 3, 4)))
FAILS void err_at(Compiler *c, Loc loc, const char *format, ...);
FAILS void err_code(Compiler *c, int code, const char *format, ...);
// ---- op.c: the table of ops --------------------------------------------------------------------
typedef struct AttrField {
  const char *name;
  size_t offset;
  int count;     // elements; -1: as many as the rank of the node
  bool real;     // double, else int64_t
  bool optional; // not written where it is 0
} AttrField;
extern const AttrField attr_fields[];
extern const int attr_nfields;
const Op *op_find(const Compiler *c, const char *name); // null when unknown
const Op *op_need(const Compiler *c, const char *name);
const Monoid *op_monoid(const Node *reduction); // of floats or of integers
const char *op_class_name(OpClass cls);
void op_copy_attrs(const Op *op, const Attr *from, Attr *to); // those that the op has

// ---- graph.c, type.c ---------------------------------------------------------------------------
Graph *graph_new(Compiler *c, const char *model);
Node *graph_add(Graph *g, const Op *op, int nin, Node **in, const Attr *attr, Node *like);
Node *graph_move(Graph *g, const char *op, Node *in, int rank, const Attr *attr);
Output graph_output_of(const char *name, Node *node, Loc loc, int entry); // stored as it says
void graph_output(Graph *g, Output output);
void graph_update(Graph *g, Node *state, Node *value, Loc loc, int entry);
// A graph in which entries share sources and what is fixed alone.
Graph *graph_split(Graph *g);
// A new graph of what `rewrite` makes of each live node; Graph.scratch is `scratch` meanwhile.
Graph *graph_rebuild(Graph *g, Node *(*rewrite)(Graph *to, Node *node, Node **in), void *scratch);
void graph_count_uses(Graph *g);
void graph_verify(Graph *g, bool grouped); // dies naming the node that is wrong
Graph *graph_copy(Graph *g);
bool node_depthwise(const Node *n); // a convolution of each channel alone, or its gradient
// The contraction that n was in the model as written, before channels were padded; else n itself.
const Node *node_as_written(const Node *n);
int64_t node_window(const Node *n, int i); // height (0), width (1) of a window or filter
int64_t type_count(const Type *t), type_bytes(const Type *t); // elements, bytes
Dtype type_compute(Dtype dtype);           // what kernels compute it in: f32, i32, u8 or bool
Dtype type_operand(const Node *n, int i);  // what map n computes its input i in
Dtype type_result(const Node *n);          // what map n gives
bool node_is_literal(const Node *n), node_is_number(const Node *n); // a number; of the model file
bool node_has_memory(const Node *n), node_is_computed(const Node *n); // a source: read, or not
void type_strides(const Type *t, int64_t stride[MaxRank]); // elements; 0 for dimensions of size 1
Type type_make(Dtype dtype, int rank, const int64_t *dim); // row-major
const char *precision_name(Precision precision);           // "fp16"
Dtype precision_dtype(Precision precision); // of values between kernels, and operands of products
bool precision_parse(const char *name, Precision *precision);
bool type_axes_innermost(const Type *t, int64_t axes); // are these dimensions so in memory?
bool type_innermost_in(const Type *t, int64_t axes);   // is the innermost, larger than 1, of these?
bool type_same_shape(const Type *a, const Type *b), type_same_order(const Type *a, const Type *b);
typedef struct ShapeText { char s[MaxRank * 22 + 4]; } ShapeText;
ShapeText type_shape(const Type *t);       // .s: "(1, 3, 224, 224)"
void shape_infer(Compiler *c, Node *node); // shape.c: the type of one node from its inputs
void check_elements(Compiler *c, const Node *n, bool stored); // are there too many?

// ---- maps.c: contractions as index maps ---------------------------------------------------------

typedef enum AxisRole { AxisBatch, AxisM, AxisN, AxisK, AxisRoles } AxisRole;
enum { MapA, MapB, MapOut }; // the tensors: two operands and the result

typedef struct Axis {
  const char *name;
  AxisRole role;
  int64_t size;
} Axis;

// Where a product is along one dimension of a tensor: begin, plus by[i] for each step on axis i.
typedef struct IndexMap {
  int64_t begin, by[kMostAxes];
} IndexMap;

// out[batch, m, n] = sum over k of a[batch, m, k] * b[batch, n, k], where a tensor's element is the
// one that its maps lead to; outside of it, 0.
typedef struct Maps {
  int naxes;
  Axis axis[kMostAxes];
  int rank[3];
  const Type *type[3]; // of the tensors
  IndexMap dim[3][MaxRank];
} Maps;

// A division in a map cuts a contraction into phases, each a product of its own: results at one
// distance from a multiple of the stride. A phase may have no k: its results are 0.
int maps_phases(const Node *n);
Maps maps_of(const Node *n, int phase);
int64_t maps_count(const Maps *m, AxisRole role);       // positions on all axes of this role
bool maps_leave(const Maps *m, int tensor, int d);      // do some products read beyond dimension d?
int maps_dim(const Maps *m, int tensor, AxisRole role); // the last dimension with such an axis; -1
int64_t maps_run(const Maps *m, int tensor, int d); // of a row, column or k by ones; -1: the last
bool maps_uses(const IndexMap *map, const Maps *m, AxisRole role);
bool maps_axis_leaves(const Maps *m, int tensor, int axis); // the same by positions on one axis
bool maps_part_rows(Maps *m, unsigned dims); // those along dims (bits) are a batch; false: not
// The share of positions of dimension d of a tensor that are read at all, over all phases.
double maps_share_read(const Node *n, int tensor, int d);
double maps_share_inside(const Node *n); // of all products, those inside their operands
double maps_multiplies(const Node *n);   // those with the zeros around an operand counted

// ---- text.c: the IR as text --------------------------------------------------------------------
void text_write(const Graph *g, FILE *file);
Graph *text_read(Compiler *c, const char *text);
const char *text_rows(Compiler *c, const char *text); // the file that declares its ops; null: none

// ---- view.c ------------------------------------------------------------------------------------
// The value in memory that n is a view of (permutations, slices, reshapes that strides can tell,
// copies that only change the order), with the stride of each of n's dimensions and where its first
// element is; null when its elements must be computed.
void view_memory(const Node *n, int64_t stride[MaxRank], int64_t *first); // of n, where it begins
bool view_whole_part(const Node *n); // is it, a part of a concat, in one piece there?
bool view_reorders(const Node *n);   // a move that takes each element to one place, and none away
bool view_same_memory(const Node *n); // a reshape or permutation whose elements lie as its input's
const Node *view_of(const Group *g, const Node *n, int64_t stride[MaxRank], int64_t *offset);
// Where neighbours of a value are, after moves.
typedef struct Lane {
  int dim;     // they are neighbours in this dimension; -1: in none
  int64_t run; // they stay together in whole runs of so many
} Lane;
Lane lane_follow(Lane lane, const Node *move); // a reshape, permutation, slice or roll
#endif
