// op.h: the description of an op, one row of ops.lua: a part of ir.h.
#ifndef NNGEN_OP_H
#define NNGEN_OP_H

#include "gen/base/base.h"
#include "plan.h"

typedef struct Loc {
  const char *file; // as the user named it; NULL if created by a pass or by the compiler
  int line;
} Loc;

// CLASS: passes branch on the class and flags of an op, never on its name. A new class needs one
// row in each place marked with this word.
typedef enum OpClass {
  OpSource,
  OpMap,
  OpReduce,
  OpScan,
  OpSelect,
  OpSort,
  OpScatter,
  OpWindow,
  OpContract,
  OpMove,
  OpClassCount
} OpClass;

// Constants and indices are expressions without memory.
typedef enum { SourceInput, SourceParam, SourceConst, SourceIndex, SourceState } SourceKind;
// Gather: result row i is input row ids[i] of the axis. Along: as torch.gather, element
// ids[.., i, ..] of the same row.
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

// Dtype in which a map computes, and of its result. Promoted: as PyTorch promotes the inputs; a
// literal of the model, like 2 or 0.5, matters only by its kind.
typedef enum Typing {
  TypeFloat,   // float; integers are converted
  TypeArith,   // promoted dtype
  TypeCompare, // computes in the promoted dtype, returns bool
  TypeWhere,   // first input bool, the others promoted
  TypeLogic,   // bool
  TypeConvert, // result: the dtype of its attribute
  TypeDraw,    // i32 position to a random float
  TypeWhole,   // i32; inputs must be integers
  TypingCount
} Typing;

enum OpFlag {
  // which operation it is
  FlagAdd = 2,        // addition: scales distribute over it
  FlagSub = 8,        // subtraction
  FlagMul = 4,        // multiplication: may move into the weights of a contraction
  FlagDiv = 2048,     // division
  FlagNeg = 16,       // negation
  FlagExp = 256,      // natural exponential
  FlagLog = 262144,   // natural logarithm
  FlagPower = 131072, // first input to the power of the second
  FlagMax = 512,      // reduction: maximum
  FlagEqual = 16384,  // true if its inputs are equal
  FlagCopy = 32,      // identity; kept only where dtype or memory order change
  FlagStop = 1024,    // stops gradients
  // properties
  FlagCommutes = 1,    // a op b = b op a
  FlagExact = 8192,    // rounds nothing: the result is a whole number or one of the inputs
  FlagWide = 128,      // its result needs more than 16 bits when stored
  FlagShrinks = 32768, // maps large inputs to small results
  FlagBounded = 65536, // results are small for any input
  FlagLipschitz = 64,  // |f(x) - f(y)| <= sum of |x - y|: errors do not grow
  FlagOne = 524288,    // reduction: reducing a single element returns it unchanged
  FlagPlace = 1048576, // reduction: the index of one of the elements
  FlagOnline = 4096    // reduction: a function of the maximum and the sum of exp(x - maximum)
};

// One accumulator of a reduction, as CUDA text; accumulators are joined in any order. In `element`
// $1 is the element and $i its index among the reduced ones; in `combine` a.NAME and b.NAME are the
// accumulators of two parts. run, add, join, whole: optional cheaper scheme for short runs of some
// dozens of elements (rows of ops.lua only): both.NAME are accumulators already combined.
typedef struct Accumulator {
  const char *name;
  const char *type;    // float, int
  const char *init;    // neutral element
  const char *element; // after one more element
  const char *combine;
  const char *append; // combine if all elements of b follow those of a; NULL: use combine
  const char *run;    // struct of a run; NULL for all accumulators if there is no such scheme
  const char *add;    // the run a after element $1
  const char *join;   // of two runs
  const char *whole;  // this accumulator, from the run a
  double ref_init;    // init, for the oracle
  int ref;            // Lua reference: (accumulators.., element, index) -> this accumulator
} Accumulator;

enum { kMostAccumulators = 4 };

typedef struct Monoid {
  const char *name;
  int count;
  Accumulator part[kMostAccumulators];
} Monoid;

bool monoid_same(const Monoid *a, const Monoid *b); // equal texts: can share accumulators
bool monoid_wants_places(const Monoid *m);          // does an accumulator use $i?

// ---- contractions as index maps ----------------------------------------------------------------

// Name of the axis of the d-th leading dimension, or NULL if there are not that many.
const char *maps_leading_name(int d);

enum { kMostAxes = 16, kMostTerms = 4, kMostMapDims = 4 };

// The index along one dimension of a tensor: a sum of terms, optionally divided. A term is an axis,
// an attribute, or their product.
typedef struct MapTerm {
  int axis;    // index in MapRow.axis, or -1
  int sign;    // 1 or -1
  int attr;    // index in attr_fields, or -1
  int element; // of that attribute
} MapTerm;

typedef struct MapDim {
  int nterms;
  MapTerm term[kMostTerms];
  bool joined;  // g:c, two axes as one dimension: g * size of c + c
  MapTerm over; // the attribute that the sum is divided by (must divide it); attr -1: none
} MapDim;

// What a tensor is to windows that slide: the image below them, the filter, with an element for
// each tap, or one element for each position. A convolution computes the third from the others, its
// gradients the image or the filter.
typedef enum WindowPart { PartNone, PartImage, PartFilter, PartPositions } WindowPart;

// Axes of the dimensions of operands a, b and the result. An axis of a and the result is a row (m),
// of b and the result a column (n), of a and b reduced (k), of all three a batch.
typedef struct MapRow {
  int naxes;
  const char *axis[kMostAxes];
  bool leading; // any number of leading dimensions, broadcast
  int rank[3];
  MapDim dim[3][kMostMapDims];
  WindowPart part[3]; // PartNone for all: no windows slide
} MapRow;

typedef struct Op {
  const char *name;
  OpClass cls;
  int form;       // SourceKind or MoveKind, by class
  int nin;        // inputs; -1: one or more
  unsigned flags; // OpFlag
  unsigned attrs; // bit i: has the i-th field of attr_fields
  int flops;      // per element, for reports
  // maps
  Typing typing;
  const char *cuda;   // CUDA expression in $1 $2 ..; reduction: combination of two values
  const char *wraps;  // cuda for integers that may overflow 32 bits, or NULL
  const char *narrow; // cuda for 16-bit results, or NULL
  // reductions, windows, scans
  const char *init;    // neutral element, as CUDA text
  double ref_init;     // the same for the oracle
  const Monoid *acc;   // accumulators
  const Monoid *whole; // accumulators for integers (result i32); NULL: integers are rejected
  const char *result;  // value computed from a.NAME
  int ref_result;      // Lua reference: (accumulators..) -> value; LUA_NOREF: the first one
  Dtype gives;         // result dtype; DtF32: a float, stored by the precision policy
  // contractions
  const MapRow *maps;
  int last[3]; // preferred innermost dimension of a, b, result; -1: any
  // Lua references
  int ref;   // the op on numbers, or LUA_NOREF
  int grad;  // gradient rule
  bool user; // declared by a model file
  Loc loc;   // where it is declared
} Op;

bool op_ranks(const Op *op);    // its result depends on the order of the elements
bool op_scatters(const Op *op); // a move that sends each input element to at most one place
bool op_gathers(const Op *op); // a move that reads each element from a computed place: roll, gather

#endif
