// ir.h: the graph that all passes work on, and the context of a compilation, which every function
// gets that can report a user error. Functions: graph.h, maps.h and view.h, included at the end.
//
//   model.lua -front-> nodes -shape-> typed -simp-> simplified -prec, layout-> dtypes, orders
//   -fuse-> groups -sched-> tiles, launches -mem-> arena offsets -emit-> CUDA -plan-> Plan
//
// A Graph is allocated in the compiler's arena; nothing is freed singly. User errors leave through
// err_at; a violated internal invariant calls `die`.
#ifndef NNGEN_IR_H
#define NNGEN_IR_H

#include "op.h"

#include <lua.h>
#include <setjmp.h>

enum {
  MaxRank = PlanMaxRank,
  MaxInputs = 4,     // inputs of a map
  kMostSelected = 64 // elements that a select finds
};

typedef struct Compiler Compiler;
typedef struct Graph Graph;
typedef struct Node Node;
typedef struct Group Group;
typedef struct Arch Arch;       // pass.h: GPU parameters of the cost models
typedef struct Traced Traced;   // lang.h: a traced `ref`
typedef struct Setting Setting; // lang.h: one entry of nn.config
typedef struct Usage Usage;     // lang.h: resources used by the model file
typedef struct Tuning Tuning;   // sched.h: measured tiles
typedef struct Numbers Numbers; // lang.h: contents of an .npy file next to the model

// ---- the graph ------------------------------------------------------------------------------

// Dtype, shape and memory order of a value. Memory is dense; order[0] is the outermost dimension,
// order[rank - 1] the innermost.
typedef struct Type {
  Dtype dtype;
  int rank;
  int64_t dim[MaxRank];
  uint8_t order[MaxRank];
} Type;

// Attributes of a node, apart from its inputs. Op.attrs says which fields an op has; names and
// sizes are rows of attr_fields (op.c), so printing, parsing and comparing are loops.
typedef struct Attr {
  double value;          // const: every element
  double init_a, init_b; // param: see PlanTensor
  int64_t init;          // param: InitKind
  int64_t table;         // param: 1-based index in Compiler.tables, or 0
  int64_t axes;          // reduce: bit d set = dimension d is reduced to size 1
  int64_t kernel[2];     // window: height, width
  int64_t stride[2];     // window, conv
  int64_t pad[4];        // window, conv: top, left, bottom, right
  int64_t dilation[2];   // window, conv
  int64_t groups;        // conv
  int64_t size[2];       // conv gradients: height, width of the image or the filter
  int64_t axis;          // concat, index, scan, select, sort, gather, along
  int64_t count;         // select: number of elements; sort: of a run; scatter: number of places
  int64_t smallest;      // select, sort: 1 = the smallest elements first
  int64_t fixed;         // index: 1 = part of a table computed by `init`
  int64_t dtype;         // to: a Dtype
  int64_t tensor;        // 0-dimensional const: 1 = a tensor, not a literal of the model
  int64_t below;         // integer input: values are 0 to below - 1; 0 = unrestricted
  int64_t dims[MaxRank]; // reshape: shape; permute: source dimension; slice: begin; pad: before;
                         // roll: shift
  int64_t ends[MaxRank]; // slice: end; pad: after
} Attr;

// The precisions of --dtype; prec.c says what each means for a value.
typedef enum Precision { PrecFp32, PrecTf32, PrecFp16, PrecBf16, PrecCount } Precision;

struct Node {
  // set when the node is created (graph.c, front.c)
  int id;  // index in Graph.nodes; inputs precede users
  int nin; // number of inputs
  const Op *op;
  Node **in;
  Type type;
  Attr attr;
  const char *name; // dotted path in the model: layer1.0.conv1
  Loc loc;
  const Node *written; // the node of the model as written; NULL if not from a model file
  int call;            // layer call that created it; `unfused` fuses only within a call
  int entry;           // entry that computes it; sources belong to all
  bool updated;        // a state or parameter that an entry writes, or the value written
  bool fixed;          // depends on parameters, constants and table indices only: computed
                       // once, by the entry `init`
  Precision precision; // storage policy (prec.c)
  int uses;            // inputs of live nodes and graph outputs that refer to it; 0 = dead

  // memory placement (concat_in_place.c)
  Node *parent;  // value whose memory it shares: a concat it is a part of, or a reshape
  int64_t begin; // part of a concat: offset along the concat's axis
  bool placed;   // parent: its parts are written in place, it needs no kernel

  // marks of passes
  bool operand; // operand of a contraction (simp.c)
  bool undone;  // permutation that its readers undo (simp_permuted.c)
  bool late;    // copy recomputed by each reader: not fused into producers (remat.c)
  bool inner;   // private copy of attention scores (attend_backward_own.c)
  bool again;   // forward value recomputed in the backward pass (recompute.c)
  bool foot;    // reduction at the end of a contraction's kernel (fold_norms.c)
  bool many;    // reduction split over several blocks per row (split_rows.c)
  bool follows; // copy of a parameter, updated together with it (weight_copies.c)
  bool tf32;    // rounded to TF32 when stored (sched.c)

  // fusion
  Group *group; // NULL for sources, and before fuse
  int tail;     // index of the epilogue output of a contraction that computes it, or
                // kRowTail, kFootTail, kLoadTail (pass.h)
  int sweep;    // row kernels: the sweep over the row that computes it

  // reasons printed by --explain, or NULL
  const char **apart; // per input: why it is not fused with the producer
  const char *kept;   // why no reader recomputes it
  const char *wide;   // why it is f32 (prec.c)
  const char *blocks; // why `many` is set, or not

  Node *subst; // scratch of rewriting passes: its replacement
};

typedef struct Output {
  const char *name;
  Node *node;
  Dtype dtype; // stored dtype: floats are f32 unless the model converts them
  Loc loc;
  int entry;
} Output;

// What a state or parameter holds after a run of an entry.
typedef struct Update {
  Node *state, *value;
  Loc loc;
  int entry;
  bool in_place; // the kernel writes the state itself; else it is copied at the end of the run
} Update;

// In `entry`, `other` is read instead of `source` (graph_split).
typedef struct Instead {
  int entry;
  Node *source, *other;
} Instead;

struct Graph {
  Compiler *c;
  Arena *arena;
  const char *model; // C identifier, from the file name
  Node **nodes;      // in topological order
  int nnodes;
  Output *outputs;
  int noutputs;
  Update *updates;
  int nupdates;
  Instead *instead;
  int ninstead;
  Group **groups; // in launch order
  int ngroups;
  Names *symbols; // names of kernels
  void *scratch;  // of the pass that builds the graph
};

// ---- a compilation ---------------------------------------------------------------------------

// What the user requested.
typedef struct Options {
  const char *model;    // path of the model file
  const char *lowering; // fused, unfused
  const char *dtype;    // fp32, tf32, fp16, bf16
  const Arch *arch;
  const char **set_name; // nn.config settings, from --set name=value or an option
  const char **set_value;
  const char **set_flag; // the option that set it, or NULL for --set
  int nset;
  int (*read_numbers)(const char *path, Numbers *numbers, Error *err);
  const Tuning *tuning;  // measured tiles, or NULL: cost model only
  const char *device;    // GPU whose measurements apply
  int candidate;         // force the n-th best tile of contractions, from 1; 0 = the best
  int level;             // recomputation level (recompute.c)
  bool no_flash;         // attention as separate contractions and row kernels
  bool apart;            // concats and norms as separate kernels
  const char *stage;     // show: stop after this pass; NULL = none
  const char *recompute; // none, auto, all; NULL = auto
  int64_t memory;        // limit of the arena in bytes; 0 = none
  bool again;            // the model file ran before: suppress its prints
  bool trains;           // compile the training entries
  bool embeds;           // user programs write parameters, which are then stored row-major
  bool compares;         // only figures are wanted: values may exceed 2^31 elements
} Options;

bool options_fused(const Options *o); // the lowering joins kernels of several layer calls
bool options_flash(const Options *o); // and attention is one kernel

// All state of one compilation.
struct Compiler {
  Options options;
  lua_State *lua;
  Arena *arena;
  Graph *graph;                     // current graph
  Graph *original;                  // the model as written, evaluated by the oracle
  const struct Template *templates; // compile/templates.c; ends with a NULL name
  Op **ops;
  int nops;
  Names *reserved;   // identifiers of templates/, which kernels must not use
  Traced **programs; // traced `ref` functions, by op, made on demand
  int nprograms;
  Setting *settings;
  int nsettings;
  const char **tables; // initial values of params: see PlanTensor.table
  int ntables;
  const char **entries; // names; entries[0] is infer
  int nentries;
  int entry;         // entry of the next output or update
  const char *scope; // dotted path of the next node (nn.lua)
  int call;          // layer call of the next node; 0 = each op is its own call
  int ncalls;
  Precision precision; // of the next node
  Usage *usage;
  Error *error;
  jmp_buf recover;         // target of err_at outside Lua
  bool in_lua;             // err_at raises a Lua error instead
  Loc error_loc;           // model line of an error raised by Lua itself
  const char *source_path; // model file of the last node
  const char *rows;        // file that declares ops of the IR text, or NULL
  const char *stale;       // a tuned tile that is no longer a candidate: "problem: tile", or NULL
};

#define FAILS __attribute__((noreturn, format(printf, 3, 4)))
// Reports a user error at a line of the model (exit code ExitUsage); does not return.
FAILS void err_at(Compiler *c, Loc loc, const char *format, ...);
// The same without a line, with exit code `code`.
FAILS void err_code(Compiler *c, int code, const char *format, ...);

#include "graph.h"
#include "maps.h"
#include "view.h"

#endif
