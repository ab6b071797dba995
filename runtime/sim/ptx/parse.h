// parse.h: interfaces between the parser's files.
#ifndef CUSIM_PTX_PARSE_H
#define CUSIM_PTX_PARSE_H

#include "sim/ptx/ptx.h"

#pragma GCC visibility push(hidden)

typedef struct Parser {
  Ptx *ptx;
  PtxModule *module;
  const char *p;
  int line; // of the token that was taken last
  PtxToken now;
  PtxFunc *func; // whose body is read
  PtxTable names; // of the body: registers, families, variables, labels, by scope
  int scopes[64], nscopes, last_scope;
  PtxTable places; // of .loc, by its numbers
  int loc, room_locs;
  int room_body, room_regs, room_vars, depth;
  int piece; // index of the module in a linked text; 0 if there is only one
} Parser;

void parse_next(Parser *p);
bool parse_is(const Parser *p, const char *word);
bool parse_take(Parser *p, const char *word); // and advances
void parse_need(Parser *p, const char *word);
char *parse_name(Parser *p);
uint64_t parse_number(Parser *p, OperandKind *kind);
uint64_t parse_integer(Parser *p); // with its sign
int parse_shown(const Parser *p);  // how much of the token here a message shows
// A list with room for one more: lists grow by doubling, in the arena.
void *list_more(Ptx *ptx, void *list, int count, size_t size);
typedef struct Constant { // OpInt, OpFloat or OpDouble
  OperandKind kind;
  bool is_unsigned;
  uint64_t bits;
} Constant;
bool parse_at_constant(Parser *p); // whether a constant expression begins here (parse_constant.c)
Constant parse_constant(Parser *p);
Constant parse_term(Parser *p); // without sums: the term after a + in an address
void parse_fail(Parser *p, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
// Parses a declaration after its space: `.align 4 .b8 name[16] = {...}`, up to , or ;. before: the
// previous one in its list, whose type it may share; or NULL.
PtxVar *parse_variable(Parser *p, PtxSpace space, bool with_init, const PtxVar *before);
// The variable of %reserved_smem_offset_0 or _1, created at first use.
PtxVar *parse_reserved(Parser *p, const char *name);
PtxSpace parse_space(const Parser *p); // of this word, or SpaceGeneric
void parse_body(Parser *p, PtxFunc *func);
// The module's name for `name` in this piece: private names have the piece's number appended.
const char *parse_known_as(const Parser *p, const char *name);
void *parse_more(Parser *p, void *list, int count, int *room, size_t size); // the same, faster

// Meaning of a name in a body: a register's number; kVar + a variable's; for the family `%r<100>`
// kFamily + its first register, which has the type of those created on use; for a vector kVector +
// its first; for a label kLabel + its instruction.
enum PtxNames {
  kVar = 1 << 28,
  kFamily = 1 << 29,
  kVector = kFamily + kVar / 2,
  kLabel = kVar + kFamily
};
int parse_lookup(Parser *p, const char *name); // from the innermost scope outwards; or -1
int parse_scope(const Parser *p);              // the innermost
int parse_add_reg(Parser *p, const char *name, PtxType type, int scope);
void parse_registers(Parser *p); // `.reg ...;`
Operand parse_operand(Parser *p);
int parse_signature(Parser *p, PtxFunc *func); // (returns) name (params)

#pragma GCC visibility pop
#endif
