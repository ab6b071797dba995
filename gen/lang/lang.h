// lang.h: the model language: a sandboxed Lua state, in which model files call the layers of
// nn.lua; each call creates nodes that record their file and line.
#ifndef NNGEN_LANG_H
#define NNGEN_LANG_H

#include "gen/ir/ir.h"

#include <lauxlib.h>

#define kTensorType "nngen.tensor" // the Lua type of a node

typedef enum SettingOwner { // of nn.config; of nn.train; set only by the verb train
  SettingOfModel,
  SettingOfRun,
  SettingOfVerb
} SettingOwner;

struct Setting {
  const char *name, *value, *fallback; // as text
  SettingOwner owner;
};

struct Usage {
  size_t used, limit; // bytes of the Lua state
  int steps;          // of instructions
  bool hooked;        // both limits are active
};

// ---- model.c: runs a model file ----------------------------------------------------------------
void front_open(Compiler *c); // the Lua state, with ops and layers loaded
// Pushes one of nngen's Lua files as a function: the embedded version or, with NNGEN_DIR, the
// file's current text.
void front_load(Compiler *c, const char *name);
void front_run(Compiler *c);  // the pass `front`
// The files of the module `nn`, in load order; NULL-terminated.
extern const char *const front_layers[];
int front_call(lua_State *lua, int nargs, int nresults); // pcall of user code, within the limits

// ---- front.c: the calls of a model -------------------------------------------------------------
Compiler *front_compiler(lua_State *lua);
Loc front_here(lua_State *lua);    // the innermost line of a model file on the Lua stack
void front_begin(Compiler *c);     // a model file starts: no scope, no call
void front_push_core(Compiler *c); // pushes the table `core` for nn.lua

void front_check_name(lua_State *lua, const char *name); // raises an error if it is invalid
int front_push_node(lua_State *lua, Node *n);            // as a tensor; returns 1
Node *front_place_node(lua_State *lua, Node *n); // with line, name, precision and call; returns n

// ---- empty.c -----------------------------------------------------------------------------------
// The node just created, or a constant if it or an input of it has no elements.
Node *empty_replaced(Compiler *c, Node *n);

// ---- sources.c ---------------------------------------------------------------------------------
// The contents of an .npy next to the model, as nn.tensor reads it. `values` is freed by the
// caller.
struct Numbers {
  int rank;
  int64_t shape[MaxRank];
  double *values; // row-major
  bool whole;     // integers or booleans
};

extern const luaL_Reg source_functions[]; // of core; NULL-terminated
const char *source_beyond(Compiler *c, const char *state); // the state's `beyond` text, or NULL

// ---- rows.c: ops.lua and op_row{...} -----------------------------------------------------------
void rows_load(Compiler *c);           // runs ops.lua
const char *rows_typing(const Op *op); // "arith"
const char *rows_form(const Op *op);   // "reshape", or NULL if its class has no forms
int rows_declare(lua_State *lua);      // op{...} in Lua; upvalue 1: true in model files
// Fields of the table at this stack index; NULL, `fallback` or LUA_NOREF if absent.
const char *rows_text(lua_State *lua, int table, const char *name);
double rows_number(lua_State *lua, int table, const char *name, double fallback);
int rows_function(lua_State *lua, int table, const char *name);
bool rows_is_expression(const char *text); // of numbers, $1 $2 .., operators, nn_ functions

// ---- follow.c: positions of operands' parts in a contraction's result --------------------------
int front_follow(lua_State *lua);

// ---- map_rows.c: index maps of contractions ----------------------------------------------------
void maps_read(lua_State *lua,
               Op *op); // Op.maps, from the fields `maps` and `last` of the row at 1

// ---- monoid.c: accumulators of reductions -------------------------------------------------------
Monoid *monoid_read(lua_State *lua, const Op *op); // field `acc` of the row at 1, or NULL
void monoid_check(lua_State *lua, const Op *op);   // of a model file: only expressions
// Gives a row with `cuda` of two values its monoid; `whole`: the identity for integers, or NULL.
void monoid_complete(Compiler *c, Op *op, const char *whole);

// ---- program.c: traced `ref` of ops -------------------------------------------------------------

typedef enum Code {
  CodeConst,
  CodeAdd,
  CodeSub,
  CodeMul,
  CodeDiv,
  CodePow,
  CodeNeg,
  CodeCopy,
  CodeExp,
  CodeLog,
  CodeSqrt,
  CodeSin,
  CodeCos,
  CodeTanh,
  CodeErf,
  CodeErfc,
  CodeLog1p,
  CodeExpm1,
  CodeAtan,
  CodeAtan2,
  CodeMod,
  CodeFloor,
  CodeAbs,
  CodeMax,
  CodeMin,
  CodeLt,
  CodeLe,
  CodeEq,
  CodeWhere,
  CodeCount
} Code;

enum { kMostCodes = 64 };

typedef struct Step {
  Code code;
  int in[3];    // values
  double value; // of a constant
} Step;

typedef struct Program {
  int nin, nsteps; // values 0..nin-1 are the inputs, then one per step; the last is the result
  Step steps[kMostCodes];
} Program;

struct Traced { // of an op
  const Op *op;
  bool ok; // false: it branches on its inputs
  Program program;
  // of a reduction: the next value of each accumulator, and the result
  Program step[kMostAccumulators], result;
};
const Traced *program_of(Compiler *c, const Op *op); // traced at the first call
const char *program_code(Code code);                 // "add"
int program_inputs(Code code);

// ---- sandbox.c ---------------------------------------------------------------------------------
lua_State *sandbox_state(Compiler *c, size_t memory_limit);
void sandbox_open(lua_State *lua); // pushes the environment of a model file
void sandbox_limit(lua_State *lua, bool on);

#endif
