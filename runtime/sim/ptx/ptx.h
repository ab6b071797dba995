// ptx.h: from PTX to a kernel image: text -> tokens -> a small typed form (parse.c, parse_body.c)
// -> C text (emit.c and its parts) -> the host's compiler (translate.c). Uses only base.
//
// All parsed data is in one arena, until the module's text is complete.
#ifndef CUSIM_PTX_H
#define CUSIM_PTX_H

#include <setjmp.h>

#include "sim/base/base.h"
#include "sim/device/cusim_abi.h"

#pragma GCC visibility push(hidden)

// ---- types (types.c) ----------------------------------------------------------------------------

typedef enum PtxKind { KindNone, KindPred, KindBits, KindUnsigned, KindSigned, KindFloat } PtxKind;

typedef struct PtxType { // KindNone: no type
  const char *name;      // "f16x2"; as C++ text, too
  PtxKind kind;
  int bits;
} PtxType;

PtxType ptx_type(const char *name, size_t length);
PtxType ptx_type_of(const char *name); // one that exists

// ---- the arena and errors (arena.c) -------------------------------------------------------------

typedef struct Ptx { // one translation
  struct Chunk *chunks;
  Text *log;
  jmp_buf failed;
  CUresult error;
  bool error_set;
} Ptx;

void *ptx_alloc(Ptx *ptx, size_t bytes); // zeros
char *ptx_string(Ptx *ptx, const char *begin, size_t length);
void ptx_free(Ptx *ptx);
// Ends the translation, with a line in the log.
void ptx_fail(Ptx *ptx, CUresult error, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

typedef struct PtxTable { // from names to numbers
  struct PtxSlot *slots;
  size_t room, count;
} PtxTable;

void table_put(Ptx *ptx, PtxTable *table, int scope, const char *name, int value);
int table_get(const PtxTable *table, int scope, const char *name); // -1: it is not there

// ---- tokens (lex.c) -----------------------------------------------------------------------------

typedef enum PtxTokenKind { TokEnd, TokName, TokNumber, TokString, TokSign } PtxTokenKind;

typedef struct PtxToken { // names hold their dots: "%tid.x", "ld.global.v4.f32", ".reg"
  PtxTokenKind kind;
  const char *begin;
  size_t length;
  int line;
} PtxToken;

PtxToken ptx_lex(Ptx *ptx, const char *p, int line); // the one at or after p; line: that of p

// ---- the module ---------------------------------------------------------------------------------

typedef enum PtxSpace {
  SpaceGeneric,
  SpaceReg,
  SpaceGlobal,
  SpaceConst,
  SpaceShared,
  SpaceLocal,
  SpaceParam
} PtxSpace;

typedef struct PtxInit { // a value, or the address of a symbol and a distance
  const char *symbol;
  uint64_t bits;
  uint64_t mask; // of the address's bits, moved down to bit 0; 0: whole
} PtxInit;

typedef struct PtxVar {
  const char *name, *c_name; // c_name: in the C text
  PtxSpace space;
  PtxType type;
  int align, line;
  int vector;   // elements of one value: 1, 2 or 4
  size_t count; // of all
  bool external, weak, extern_array;
  bool in_reg; // a parameter of a function that is a register there
  int reg;     // which
  PtxInit *init;
  int ninit;
  bool pointers; // some of init are addresses
  int scope;
  size_t offset; // of a parameter, of a shared variable
} PtxVar;

typedef struct PtxReg {
  const char *c_name;
  PtxType type;
  bool is_float; // kept as a float or double
  int floats;    // uses as float, less uses as integer
  int vector;    // the first of that many registers with one name; else 0
  int family;    // 9 for `%r<9>`, in the register that has the family's type
} PtxReg;

typedef enum OperandKind {
  OpNone,
  OpReg,
  OpInt,
  OpFloat,   // bits of an f32
  OpDouble,  // bits of an f64
  OpVar,     // a variable's address
  OpFunc,    // a function's
  OpLabel,
  OpSpecial, // %tid.x
  OpSink,    // _
  OpAddress, // [parts[0] + bits], further parts: coordinates
  OpVector,  // {parts}
  OpPair,    // parts[0] | parts[1]
  OpList     // (parts)
} OperandKind;

typedef struct Operand {
  OperandKind kind;
  bool negated; // !p
  bool minus;   // -%r1, of video instructions
  const char *select; // "b0" of %r1.b0, of video instructions; or null
  int reg;
  uint64_t bits;
  PtxVar *var;
  const char *name; // of a label, a special register, a function
  struct Operand *parts;
  int nparts;
} Operand;

enum { kMaxParts = 24, kMaxOperands = 12 };

typedef struct Instr {
  const char *opcode;          // whole: "mad.wide.s32"
  const char *part[kMaxParts]; // its pieces
  int nparts;
  Operand *op;
  int nops;
  int pred; // register, or -1
  bool pred_not;
  int line; // in the PTX text
  int loc;  // of the module's, or 0
  const char *label;   // not an instruction, but a label
  const char **targets; // .branchtargets
  int ntargets;
  struct PtxFunc *prototype;
} Instr;

typedef struct PtxFunc {
  const char *name, *c_name;
  bool entry, external, defined, weak;
  int line;
  PtxVar **returns, **params;
  int nreturns, nparams;
  Instr *body;
  int nbody;
  PtxReg *regs;
  int nregs;
  PtxVar **vars; // of the body: .local, .param, .shared
  int nvars;
  CusimLimits limits;
  int cluster[3];
  size_t param_bytes, smem; // of shared variables that it reaches
  bool *reaches;            // by number of a shared variable
  size_t local;             // bytes of .local variables, including the deepest calls
  enum { LocalUnknown, LocalAsked, LocalKnown } local_state;
} PtxFunc;

typedef struct PtxLoc {
  int file, line, column;
  int outer; // where it was inlined, or 0
} PtxLoc;

typedef struct PtxModule {
  Ptx *ptx;
  int version; // 90 for 9.0
  const char *target;
  int arch; // 90
  PtxVar **vars;
  int nvars;
  PtxFunc **funcs;
  int nfuncs;
  const char **files; // of .file, by number
  int nfiles;
  PtxLoc *locs; // the first is none
  int nlocs;
  PtxTable names; // variables and functions: their index, functions' as -2 - index
} PtxModule;

PtxModule *ptx_parse(Ptx *ptx, const char *text);

PtxFunc *module_func(const PtxModule *module, const char *name);
PtxVar *module_var(const PtxModule *module, const char *name);

// ---- C text -------------------------------------------------------------------------------------

typedef struct BlockCounts { // instructions of a basic block, by kind
  int kinds[CusimCountKinds];
} BlockCounts;

typedef struct Emitter {
  Ptx *ptx;
  PtxModule *module;
  PtxFunc *func;
  const Instr *instr;
  int most; // index of the last operand that was read
  Text *out;
  int file, line; // of the last #line for the C compiler
  int temps;
  bool counts; // instructions are counted
  bool traced; // accesses are watched
  bool in_block;
  struct Pending *pending; // of a function with products of warp groups; else null
  BlockCounts *blocks;
  int nblocks, room_blocks;
} Emitter;

struct PtxJob;
void emit_module(PtxModule *module, const struct PtxJob *job, Text *out);
void emit_function(Emitter *e, PtxFunc *func);
void emit_instr(Emitter *e, const Instr *instr);
void emit_fail(const Emitter *e, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
// Rejects what NVIDIA's assembler rejects (emit_lint.c).
void lint_instr(const Emitter *e);
void lint_width(const Emitter *e, const PtxReg *reg, PtxType type);
void lint_address(const Emitter *e, const Operand *base, PtxSpace space);
void lint_target(const Emitter *e); // .target and .version (emit_lint_target.c)
void lint_form(const Emitter *e); // modifiers, and operands with them (emit_lint_forms.c)
void lint_convert(const Emitter *e, PtxType to, PtxType from); // cvt (emit_lint_cvt.c)
// Before and after an instruction's text: checks that accumulators are complete and fenced.
void pending_begin(Emitter *e, const PtxFunc *func); // the registers it concerns
void pending_label(Emitter *e);
void pending_before(Emitter *e);
void pending_behind(Emitter *e);
size_t emit_local_bytes(PtxModule *module, PtxFunc *func); // emit_local.c
void emit_counted(Emitter *e, const Instr *instr); // before the instruction's text; or a label
void emit_returns(Emitter *e); // a function's results in registers, to their places
void emit_counts(Emitter *e); // the module's table, at its end
bool emit_wide_run(Emitter *e, const Instr *instr, int *count);

// How an instruction is written: by rows of name, function.
typedef struct EmitRow {
  const char *name; // its first pieces: "cp.async.bulk"
  void (*emit)(Emitter *e);
} EmitRow;
extern const EmitRow emit_arith_rows[], emit_convert_rows[], emit_memory_rows[],
    emit_control_rows[], emit_warp_rows[], emit_matrix_rows[], emit_mma_rows[], emit_video_rows[],
    emit_wmma_rows[], emit_hopper_rows[], emit_cluster_rows[], emit_wgmma_rows[];

const char *emit_int_name(PtxType type); // "u32", by its bits
bool is_integer(PtxType type);
void emit_line(Emitter *e, const Instr *instr); // `#line`, if it changes
// The value of an operand as this type; text like `(s32)r1`.
void emit_value(Emitter *e, const Operand *op, PtxType type);
void emit_address(Emitter *e, const Operand *op, PtxSpace space);
// Text before and after a value: emit_store(e, op, type, "x_add(%s)") uses both.
void emit_begin(Emitter *e, const Operand *target, PtxType type);
void emit_end(Emitter *e, const Operand *target, PtxType type);
bool is_kernel_param(const Emitter *e, const PtxVar *var); // of the kernel that is written
bool instr_has(const Instr *instr, const char *part);
PtxType instr_type(Emitter *e, int from_end); // of the last piece, the one before
PtxSpace instr_space(const Instr *instr);
const Operand *need_op(Emitter *e, int index);
// Fails if a piece from the first on is not one of these blank-separated words.
void only_parts(Emitter *e, int first, int end, const char *words);

// ---- the whole (translate.c) --------------------------------------------------------------------

typedef struct PtxJob {
  int arch;      // of the device, 90; 0: any
  int registers; // of -maxrregcount; 0: not given
  int checks;    // CusimCheck bits
} PtxJob;

// Translates PTX to an image, as host_compile does for C++. CUDA_SUCCESS, or INVALID_PTX,
// UNSUPPORTED_PTX_VERSION, NO_BINARY_FOR_GPU with lines in the log.
CUresult ptx_translate(const char *text, const PtxJob *job, Text *c_text, Text *log);
CUresult ptx_check(const char *text, Text *log); // whether it can be read
CUresult ptx_compile(const char *text, const PtxJob *job, Text *image, Text *log);
bool ptx_is_text(const void *image); // it looks like PTX; reads no more than its first line

#pragma GCC visibility pop
#endif
