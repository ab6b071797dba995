// nngen.h: every struct of the compiler, and its functions grouped by file in the order data
// passes.
//
//   model.lua -front-> nodes -shape-> typed -simp-> smaller -prec, layout-> dtypes, orders
//   -fuse-> groups -sched-> tiles, launches -mem-> arena offsets -emit-> CUDA -plan-> Plan
//
// A Graph owns all its memory (one arena, nothing is freed singly). User errors leave through
// err_at; a broken invariant of ours is `die`.
#ifndef NNGEN_H
#define NNGEN_H

#include "plan.h"

#include <lua.h>
#include <setjmp.h>

enum {
  MaxRank = PlanMaxRank,
  kMostRow = 16384 // elements of a row that is kept in the registers of one block
};

typedef struct Arena Arena;
typedef struct Graph Graph;
typedef struct Node Node;
typedef struct Group Group;
typedef struct Tuning Tuning; // tuning.h: measured tiles

// ---- facts of an op: one row of ops.lua -----------------------------------------------------

// CLASS: a pass branches on the class and flags of an op, never on its name. A new class has one
// row in each place marked with this word.
typedef enum OpClass {
  OpSource,
  OpMap,
  OpReduce,
  OpWindow,
  OpContract,
  OpMove,
  OpClassCount
} OpClass;

typedef enum SourceKind { SourceInput, SourceParam, SourceConst } SourceKind;
typedef enum ContractForm { FormMatmul, FormConv } ContractForm;
typedef enum MoveKind { MoveReshape, MovePermute, MoveSlice, MoveConcat, MovePad } MoveKind;

enum OpFlag {
  FlagCommutes = 1, // a op b = b op a
  FlagAdd = 2,      // addition: what a scale distributes over
  FlagMul = 4,      // multiplication: what moves into the weights of a contraction
  FlagSub = 8,
  FlagNeg = 16,
  FlagCopy = 32, // the identity; stays only where dtype or memory order change
  FlagCalm = 64  // an error of its inputs grows no larger: |f(x) - f(y)| <= |x - y|, summed
};

typedef struct Op {
  const char *name;
  OpClass cls;
  int form;         // SourceKind, ContractForm or MoveKind, by class
  int nin;          // inputs; -1: one or more
  unsigned flags;   // OpFlag
  unsigned attrs;   // bit i: takes the i-th row of attr_fields
  const char *cuda; // expression over $1 $2 ..: a map's value, a reduction's combination
  const char *init; // reduction, window: the neutral element, as CUDA text
  double ref_init;  // the same for the oracle
  int flops;        // per element, for the tables
  int ref;          // Lua reference: the op on numbers (LUA_NOREF: none)
  int grad;         // Lua reference: its gradient rule
  bool user;        // declared by a model file
} Op;

// ---- the graph ------------------------------------------------------------------------------

typedef struct Loc {
  const char *file; // as the user named it; null: made by a pass
  int line;
} Loc;

// Dtype and shape of a value, and how it lies in memory: dense, dimensions order[0] (outermost)
// to order[rank-1] (innermost).
typedef struct Type {
  Dtype dtype;
  int rank;
  int64_t dim[MaxRank];
  uint8_t order[MaxRank];
} Type;

// What an op is told besides its inputs. Which fields an op has is said by its row (Op.attrs);
// names and sizes are rows of attr_fields (op.c), so printing, reading and comparing are loops.
typedef struct Attr {
  double value;          // const: every element
  double init_a, init_b; // param: see PlanTensor
  int64_t init;          // param: InitKind
  int64_t axes;          // reduce: bit d set = dimension d becomes 1
  int64_t kernel[2];     // window: height, width
  int64_t stride[2];     // window, conv
  int64_t pad[4];        // window, conv: top, left, bottom, right
  int64_t dilation[2];   // window, conv
  int64_t groups;        // conv
  int64_t axis;          // concat
  int64_t dims[MaxRank]; // reshape: shape; permute: source of each dimension; slice: begin;
                         // pad: before
  int64_t ends[MaxRank]; // slice: end; pad: after
} Attr;

struct Node {
  int id; // position in Graph.nodes: inputs come before users
  const Op *op;
  int nin;
  Node **in;
  Type type;
  Attr attr;
  const char *name; // dotted place in the model: layer1.0.conv1
  Loc loc;
  int call;            // which call of a layer made it; what `unfused` may still join
  bool fixed;          // depends on parameters and constants alone: computed once, by `init`
  const Node *written; // what it was in the model as written; null: not from a model file
  int uses;            // how many inputs of live nodes and outputs of the graph it is
  Group *group;        // set by fuse; null for sources
  Node *subst;         // scratch of a rewriting pass: its replacement
};

typedef struct Output {
  const char *name;
  Node *node;
  Loc loc;
} Output;

struct Graph {
  Arena *arena;
  const char *model; // a C identifier, from the file name
  Node **nodes;
  int nnodes, capacity;
  Output *outputs;
  int noutputs;
  Group **groups; // in launch order
  int ngroups;
  int nops; // ops of the model as written
};

// ---- kernels --------------------------------------------------------------------------------

// How a group of nodes becomes one kernel. CLASS
typedef enum Template { TmMap, TmReduce, TmRow, TmWindow, TmContract, TmCount } Template;

// The schedule of a group: how its domain is cut and launched. Fields unused by a template are 0.
typedef struct Tile {
  int lanes;   // elements of the innermost dimension a thread handles at once
  int threads; // per block
  int m, n, k; // contract: block tile
  int tm, tn;  // contract: tile of a warp
  bool mma;    // contract: on tensor cores
  int blocks;  // contract: blocks that should fit an SM
  int stages;  // contract: blocks of k in flight
  int group;   // contract: blocks of rows whose sums of columns are added together
  int splits;  // contract: parts of k, summed by the last block of each tile to arrive
  int rows;    // row, reduce: rows (or lane vectors) per block
  int items;   // row: elements of a row per thread
  int64_t grid[3];
  int smem;       // dynamic shared memory, bytes
  double seconds; // what the model expects
  bool tuned;     // contract: measured as the fastest, whatever the model says
} Tile;

// Memory of a kernel's own, that no other one reads.
typedef struct Scratch {
  const char *name; // the parameter
  Dtype dtype;
  int64_t count; // elements
  bool zeroed;   // once, before the first launch; the kernel leaves it zeroed
} Scratch;

struct Group {
  int id;
  Template tm;
  Node *anchor; // the node that is no map or move; the last node of a map group
  Node **nodes; // in topological order
  int nnodes;
  Node **inputs; // values read from memory, in the order of the kernel's arguments
  int ninputs;
  Node **outputs; // values written
  int noutputs;
  const char **args; // parameter names: of the inputs, then of the outputs
  const char **told; // one text: identifiers of the kernel that are named after layers
  Node **moves;      // contract: those its epilogue follows before it stores, in order
  int nmoves;
  Type domain;       // what the epilogue runs over: the outputs' shape
  const char *name;  // the kernel's symbol
  const char *layer; // dotted place
  const char *ops;   // "conv2d+add+relu"
  bool fixed;        // belongs to `init`
  Tile tile;
  Scratch scratch[4]; // parameters after the outputs
  int nscratch;
  double flops;
  int64_t bytes_read, bytes_written;
  int64_t bytes_scratch; // of both: what blocks leave for each other, which stays in L2
  const char *source;    // CUDA text, set by emit
  bool visited;          // scratch
};

// One GPU the scheduler knows. Rates are per second.
typedef struct Arch {
  const char *name;            // sm_90a
  const char *gpu;             // whose figures these are
  int sms, smem, regs;         // per SM: shared memory bytes, 32-bit registers
  int64_t l2;                  // bytes
  double clock;                // GHz, the highest
  double dram, l2_rate;        // bytes
  double fp32, tensor16, tf32; // floating-point operations
  double mma_share;            // of the tensor rates that mma.sync reaches
  double launch_gap;           // seconds between kernels of a replayed graph
} Arch;

// What the user asked of a compilation.
typedef struct Options {
  const char *model;    // path of the model file
  const char *lowering; // fused, unfused
  const char *dtype;    // fp32, tf32, fp16, bf16
  const Arch *arch;
  int nset; // --set name=value
  const char **set_name, **set_value;
  const char *stage;    // show: stop after this pass
  const Tuning *tuning; // measured tiles; null: the model alone decides
  const char *device;   // whose measurements count
  int candidate;        // every contraction takes the tile in this place, from 1 (0: the best)
  bool again;           // the model file ran before: its prints stay silent
} Options;

typedef struct Setting {
  const char *name, *value, *fallback; // nn.config, as text
} Setting;

// All that one compilation knows.
typedef struct Compiler {
  Options options;
  lua_State *lua;
  Arena *arena;
  Graph *graph;    // as the passes have it
  Graph *original; // as the model wrote it: what the oracle evaluates
  Op **ops;
  int nops;
  Setting *settings;
  int nsettings;
  int ncalls;
  Error *error;
  jmp_buf recover;         // where err_at goes outside Lua
  Loc error_loc;           // where the model was when Lua itself complained
  bool in_lua;             // err_at raises a Lua error instead
  const char *source_path; // the model file of the last node made
  const char *stale;       // a tuned tile that is no candidate any more: "problem: tile"
} Compiler;

extern Compiler *compiler; // the one being used; a process compiles one model at a time

// ---- base.c: memory, text, errors ------------------------------------------------------------
Arena *arena_new(void);
void arena_free(Arena *arena);
void *arena_alloc(Arena *arena, size_t bytes); // zeroed, 16-byte aligned
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_dup(Arena *arena, const char *text);
void *base_alloc(size_t count, size_t size); // zeroed, never null; to be freed
// A growing text; `text` is always terminated.
typedef struct Buffer {
  char *text;
  size_t size, capacity;
} Buffer;
void buffer_put(Buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(Buffer *buffer);
void err_at(Loc loc, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void err_code(int code, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
const char *text_nearest(const char *word, const char *const *candidates, int count);
const char *text_fit(const char *text, int width);        // as it is, or cut and marked by ".."
const char *asset_text(const char *name, size_t *length); // NNGEN_DIR overrides the embedded file

// ---- op.c: the table of ops -------------------------------------------------------------------
typedef struct AttrField {
  const char *name;
  size_t offset;
  int count; // elements; -1: as many as the rank of the node
  bool real; // double, else int64_t
} AttrField;
extern const AttrField attr_fields[];
extern const int attr_nfields;
void op_load(Compiler *c);           // runs ops.lua
const Op *op_find(const char *name); // null when unknown
const Op *op_need(const char *name);
const char *op_class_name(OpClass cls);
int op_lua_declare(lua_State *lua); // op{...} in Lua

// ---- graph.c ----------------------------------------------------------------------------------
Graph *graph_new(Arena *arena, const char *model);
Node *graph_add(Graph *g, const Op *op, int nin, Node **in, const Attr *attr, Node *like);
Node *graph_move(Graph *g, const char *op, Node *in, int rank, const Attr *attr);
void graph_output(Graph *g, const char *name, Node *node, Loc loc);
Graph *graph_rebuild(Graph *g, Node *(*rewrite)(Graph *to, Node *node, Node **in)); // + dead code
void graph_count_uses(Graph *g);
void graph_verify(const Graph *g, bool grouped); // dies naming the node that is wrong
Graph *graph_copy(Graph *g);
bool node_depthwise(const Node *n); // a convolution of each channel alone
// The contraction that n was in the model as written, before channels were padded; else n itself.
const Node *node_as_written(const Node *n);
int64_t node_window(const Node *n, int i); // height (0), width (1) of a window or filter
int64_t type_count(const Type *t);         // elements
int64_t type_bytes(const Type *t);
void type_strides(const Type *t, int64_t stride[MaxRank]); // elements; 0 for dimensions of size 1
Type type_make(Dtype dtype, int rank, const int64_t *dim); // row-major
bool type_same_shape(const Type *a, const Type *b);
const char *type_shape_text(const Type *t); // "(1, 3, 224, 224)", in the compiler's arena

// ---- model.c, front.c, sandbox.c: Lua state, the model API -------------------------------------
void front_open(Compiler *c);
void front_run(Compiler *c);
int front_call(lua_State *lua, int nargs, int nresults); // a pcall of the user's text, with limits
Loc front_here(lua_State *lua);    // the innermost line of a model file on the Lua stack
void sandbox_open(lua_State *lua); // pushes the environment of a model file
void sandbox_limit(lua_State *lua, bool on);
lua_State *sandbox_state(size_t memory_limit);

// ---- the passes, in order ----------------------------------------------------------------------
void shape_infer(Node *node); // shape.c: the type of one node from its inputs
void shape_pass(Compiler *c);
void simp_pass(Compiler *c);          // simp.c: algebra, BN folding, CSE, dead code
void prec_pass(Compiler *c);          // prec.c: storage dtypes
Dtype prec_storage(const char *name); // of fp32, tf32, fp16, bf16
void layout_pass(Compiler *c);        // layout.c: memory orders, copies at the border
void channels_pack_groups(Graph *to, Node *conv, Dtype dtype); // channels.c: both for layout
void channels_make_even(Graph *to, Node *conv, Dtype dtype);   // channels.c: for layout
Node *vector_product(Graph *to, Node *matmul); // vector.c: what takes its place, or itself
void fuse_pass(Compiler *c);                   // fuse.c: groups
void sched_pass(Compiler *c);                  // sched.c: tiles
void sched_explain(const Group *g, const Arch *arch, FILE *file); // the candidates, term by term
double sched_flop_rate(const Group *g, const Arch *arch);    // of the units it runs on, data sheet
double sched_flop_seconds(const Group *g, const Arch *arch); // the floors of a kernel
double sched_dram_seconds(const Group *g,
                          const Arch *arch); // what it moves, at the rate copies reach
// Multiplies of a contraction: what its tiles issue, what the model as written asks for, and those
// of them that are not with the zeros around an image.
void sched_multiplies(const Group *g, double *issued, double *counted, double *inside);
int sched_candidates(const Group *g, const Arch *arch, Tile *tiles, int most); // returns how many
void sched_use(Group *g, const Arch *arch, const Tile *candidate); // schedules a contraction so
void emit_pass(Compiler *c);                                       // emit.c: CUDA text
void emit_group(Compiler *c, Group *g); // again, after the pass, under another name or schedule
const char *emit_template_file(const Group *g);
Plan *plan_build(Compiler *c); // plan.c (with mem.c)
void mem_plan(int count, const int64_t *bytes, const int *first, const int *last, int64_t *offset,
              int64_t *total, int64_t *bound);
const Arch *arch_find(const char *name);
const Arch *arch_default(void);
struct DeviceInfo;
void arch_of_device(const struct DeviceInfo *info,
                    Arch *arch); // its own figures where they are known

// ---- text.c: the IR as text --------------------------------------------------------------------
void text_write(const Graph *g, FILE *file);
Graph *text_read(Compiler *c, const char *text);
void text_dot(const Graph *g, FILE *file);

// ---- view.c ------------------------------------------------------------------------------------
// The value in memory that n is a view of (permutations, slices, reshapes that strides can tell,
// copies that only change the order), with the stride of each of n's dimensions and where its first
// element is; null when its elements must be computed.
const Node *view_of(const Group *g, const Node *n, int64_t stride[MaxRank], int64_t *offset);

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
  const char *indent; // of the body
  const char *pred;   // loads happen only where this holds; null: always
  Buffer loads, body;
  struct Bound { // values already at hand
    const Node *node;
    Index at[MaxRank];
    const char *text;
  } * bound;
  int nbound, capacity;
  int names;        // locals named so far
  const char *flat; // offset of the current element in `flat_type`, when at hand
  Type flat_type;
  Index flat_at[MaxRank]; // the index it stands for
} Scope;

// The value of node n at index `at` (its rank) as a CUDA float expression: a local or a literal.
const char *expr_value(Scope *s, const Node *n, const Index *at);
void expr_bind(Scope *s, const Node *n, const Index *at, const char *text);
// Where element `at` of its input is in the result of a reshape, permutation or slice; a lane stays
// one while `lanes` neighbours stay together.
void expr_follow(const Node *move, int lanes, const Index *at, Index *out);
// n at `at` of a value of the shape `from`, aligned at the right: broadcast dimensions become 0.
void expr_broadcast(const Type *from, const Type *to, const Index *at, Index *out);
// Stores n's value at `at`: one vector store after the loop where lanes are neighbours, else each.
void expr_store(Scope *s, Buffer *stores, const Node *n, const Index *at, const char *value);
// The offset of element `at` in memory, without the lane; lane_step: what one lane adds.
const char *expr_offset(Scope *s, const Type *t, const Index *at, int64_t *lane_step);
// C text that defines the indices of dimension dims[0..n) (outermost first) from linear `i`.
void expr_decode(Buffer *out, const char *indent, const char *i, int n, const int64_t *size,
                 const char *const *name);
const char *expr_pointer(const Group *g, const Node *n); // the parameter for a value in memory
void expr_name_args(Group *g); // Group.args: like the model's names, told apart
// Notes an identifier that speaks to people alone: kernels that differ in nothing else are compiled
// once (PlanKernel.names). Returns `name`.
const char *expr_label(const Group *g, const char *name);
const char *expr_ctype(Dtype dtype);
// An op's CUDA text with the arguments (names, literals or calls) in place of $1 $2 ..
const char *expr_substitute(const char *cuda, const char *const *args);
bool expr_mentions(const char *text, const char *word);
void scope_free(Scope *s);

// ---- group.c -----------------------------------------------------------------------------------
// n: a reduction of a contraction's epilogue.
bool group_sums_columns(const Group *g, const Node *n);
const Node *group_last_made(const Group *g); // what the epilogue has made when it ends
// The end of the pass fuse: Graph.groups in the order of launches, with inputs, outputs and names.
void group_finish(Graph *g);

// ---- contract.c: contractions as matrix products -----------------------------------------------

// How elements of an operand come to shared memory: `piece` at once by asynchronous copies, that
// run along k, or across it (along m or n). piece 0: each is computed.
typedef struct Operand {
  const Node *base;        // the value in memory
  int64_t stride[MaxRank]; // of the operand's dimensions in it, in elements
  int64_t offset;          // of the operand's first element
  int piece;
  bool across;
} Operand;

typedef struct Product { // of each batch
  int64_t m, n, k, batch;
  int first_row;   // matmul: dimensions of the result from here to the last but one are the rows
  int size;        // bytes of an operand's element
  bool taps_leave; // the image, somewhere
  int tap_run;     // elements of k that a tap is looked up for; 0: there is no table
  Operand a, b;
} Product;

Product contract_product(const Group *g);
// Where neighbours along n of a contraction's product are, after moves.
typedef struct Lane {
  int dim;     // they are neighbours in this dimension; -1: in none
  int64_t run; // they stay together in whole runs of so many
} Lane;
Lane contract_follow(Lane lane, const Node *move); // a reshape, permutation or slice
Lane contract_lane(const Group *g);                // at the end of its epilogue

// ---- eval.c, check.c: the oracle ---------------------------------------------------------------
// Evaluates g in double, row-major. value[id] is set (malloc) for inputs and parameters by the
// caller, and for the outputs on return; free with eval_free.
void eval_graph(Graph *g, double **value);
void eval_node(Node *node, double **value);
void eval_free(Graph *g, double **value);

// ---- compile.c: the driver ----------------------------------------------------------------------
// A row of the pass table: what it needs, gives and breaks are facts about the graph.
typedef struct Pass {
  char letter;
  const char *name;
  void (*run)(Compiler *);
  unsigned needs, gives, breaks;
} Pass;
extern const Pass compile_passes[]; // ends with a null name

// Runs the passes up to options.stage (or all). Returns an ExitCode with *err filled.
int compile_model(Compiler *c, const Options *options, Error *err);
// Runs f with err_at caught: returns f's result, or the error's code with *err filled.
int compile_guard(Compiler *c, int (*f)(void *user, Error *err), void *user, Error *err);
void compile_close(Compiler *c);

#endif
