// op.h: the facts of an op, one row of ops.lua: a part of ir.h.
#ifndef NNGEN_OP_H
#define NNGEN_OP_H

#include "gen/base/base.h"
#include "plan.h"

typedef struct Loc {
  const char *file; // as the user named it; null: made by a pass, or ours
  int line;
} Loc;

// CLASS: a pass branches on the class and flags of an op, never on its name. A new class has one
// row in each place marked with this word.
typedef enum OpClass {
  OpSource,
  OpMap,
  OpReduce,
  OpScan,
  OpSelect,
  OpScatter,
  OpWindow,
  OpContract,
  OpMove,
  OpClassCount
} OpClass;

// A constant and an index are expressions: they have no memory.
typedef enum { SourceInput, SourceParam, SourceConst, SourceIndex, SourceState } SourceKind;
// How the shape of a contraction's result follows from its operands'.
typedef enum ContractForm { FormMatmul, FormConv, FormConvData, FormConvFilter } ContractForm;
// A gather reads by integers: row ids[i] of axis; along: the element ids[.., i, ..] of its own row.
typedef enum MoveKind {
  MoveReshape,
  MovePermute,
  MoveSlice,
  MoveConcat,
  MovePad,
  MoveRoll,
  MoveGather,
  MoveAlong
} MoveKind;

// What a map computes in, and gives. Promoted: as PyTorch promotes its inputs' dtypes; a number of
// the model, like 2 or 0.5, counts by its kind alone.
typedef enum Typing {
  TypeFloat,   // floats: integers are converted
  TypeArith,   // the promoted dtype
  TypeCompare, // in the promoted dtype; gives bool
  TypeWhere,   // a bool, then the promoted dtype of the others
  TypeLogic,   // bools
  TypeConvert, // gives what its attribute says
  TypeDraw,    // i32 to a float: a random number at a position
  TypeWhole,   // i32, of integers alone
  TypingCount
} Typing;

enum OpFlag {
  FlagCommutes = 1, // a op b = b op a
  FlagAdd = 2,      // addition: what a scale distributes over
  FlagMul = 4,      // multiplication: what moves into the weights of a contraction
  FlagSub = 8,
  FlagNeg = 16,
  FlagCopy = 32,       // the identity; stays only where dtype or memory order change
  FlagStop = 1024,     // a constant for derivatives
  FlagExact = 8192,    // it rounds nothing: its result is a whole number, or one of its inputs
  FlagWide = 128,      // its result wants more than 16 bits where it is stored
  FlagExp = 256,       // the exponential
  FlagMax = 512,       // of a reduction: the largest element
  FlagDiv = 2048,      // division
  FlagShrinks = 32768, // of large inputs it makes small results
  FlagBounded = 65536, // its results are small, of any input
  FlagPower = 131072,  // of its first input, the second one's
  FlagLog = 262144,    // the natural logarithm
  FlagOne = 524288, // of a reduction that combines more than values: of one element it is that one
  FlagEqual = 16384,   // true where its inputs are equal
  FlagOnline = 4096, // of a reduction: made of the largest element and the sum of exp(x - largest)
  FlagLipschitz = 64 // an error of its inputs grows no larger: |f(x) - f(y)| <= |x - y|, summed
};

// What a reduction accumulates: one or several accumulators, joined in any order. CUDA text; in
// `element`, $1 is the element's value and $i its place among those that are reduced; in `combine`,
// a.NAME and b.NAME are the accumulators of two parts; `append` is the same where all elements of b
// are in places behind those of a. Threads may accumulate a run of some dozens of elements in
// another way, which takes less (rows of ops.lua alone): `run` is another accumulator, `add` what
// becomes of it when element $1 joins the run a, `join` of two runs, `whole` what this one is of
// the run a. In all of them both.NAME is what those before it have become.
typedef struct Accumulator {
  const char *name, *type; // float, int
  const char *init;        // of no element: the neutral one
  const char *element, *combine, *append; // append null: it is no shorter than combine
  const char *run, *add, *join, *whole; // null: of all accumulators, as there is no other way
  double ref_init;                      // the same for the oracle
  int ref;         // Lua reference: (accumulators.., value, place) -> the next of this one
} Accumulator;

enum { kMostAccumulators = 4 };

typedef struct Monoid {
  const char *name;
  int count;
  Accumulator part[kMostAccumulators];
} Monoid;

bool monoid_same(const Monoid *a, const Monoid *b); // the same texts: they accumulate together
bool monoid_wants_places(const Monoid *m);          // do its accumulators ask for $i?

// ---- contractions as index maps ----------------------------------------------------------------

// The axis of the d-th dimension before those of a row; null: there are not so many.
const char *maps_leading_name(int d);

enum { kMostAxes = 16, kMostTerms = 4, kMostMapDims = 4 };

// What a row says of one dimension of a tensor: an index, as a sum of terms, maybe divided. A term
// is an axis, an attribute, or the product of both.
typedef struct MapTerm {
  int axis; // of MapRow.axis; -1: none
  int sign; // 1 or -1
  int attr; // index of a field in attr_fields; -1: none
  int element;
} MapTerm;

typedef struct MapDim {
  int nterms;
  MapTerm term[kMostTerms];
  bool joined;  // g:c, two axes as one: g times the size of c, plus c
  MapTerm over; // the attribute that the sum is divided by, where it divides it; attr -1: none
} MapDim;

// The operands a and b, and the result, of a sum of products: what axes their dimensions run over.
// An axis of a and the result alone is a row (m), of b and the result a column (n), of a and b
// reduced (k), of all a batch.
typedef struct MapRow {
  int naxes;
  const char *axis[kMostAxes];
  bool leading; // any number of dimensions before these, broadcast
  int rank[3];
  MapDim dim[3][kMostMapDims];
} MapRow;

typedef struct Op {
  const char *name;
  OpClass cls;
  int form;            // SourceKind, ContractForm or MoveKind, by class
  int nin;             // inputs; -1: one or more
  unsigned flags;      // OpFlag
  Typing typing;       // map
  unsigned attrs;      // bit i: takes the i-th row of attr_fields
  const char *cuda;    // expression over $1 $2 ..: a map's value, a reduction's combination
  const char *wraps;   // the same of integers that may leave 32 bits; null: cuda is for them too
  const char *narrow;  // map: the same where the result has 16 bits; null: cuda is for them too
  const char *init;    // reduction, window: the neutral element, as CUDA text
  double ref_init;     // the same for the oracle
  const MapRow *maps;  // contraction
  int last[3];         // contraction: the dimension that its tensors want innermost; -1: any
  const Monoid *acc;   // reduction; rows of equal texts accumulate together
  const Monoid *whole; // the same of integers, which gives i32; null: they are refused
  const char *result;  // reduction: its value, of a.NAME
  int ref_result;      // Lua reference: (accumulators..) -> the value; LUA_NOREF: the first
  Dtype gives;         // reduction: of the result; DtF32: a float, stored as the policy says
  int flops;           // per element, for the tables
  int ref;             // Lua reference: the op on numbers (LUA_NOREF: none)
  int grad;            // Lua reference: its gradient rule
  bool user;           // declared by a model file
  Loc loc;             // there
} Op;

// Of moves: does one take each element of its input to one place, or away, as a slice; does it read
// each from elsewhere, as a roll or a gather?
bool op_scatters(const Op *op), op_gathers(const Op *op);

#endif
