// parse.h: what the files of the parser share.
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
  int piece; // of a text of several modules: which; 0: there is one alone
} Parser;

void parse_next(Parser *p);
bool parse_is(const Parser *p, const char *word);
bool parse_take(Parser *p, const char *word); // and goes on
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
Constant parse_term(Parser *p); // without sums: what stands behind a + of an address
void parse_fail(Parser *p, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));
// A variable's declaration behind its space: `.align 4 .b8 name[16] = {...}`, up to , or ;. before:
// the one ahead in its list, whose type it may share; or null.
PtxVar *parse_variable(Parser *p, PtxSpace space, bool with_init, const PtxVar *before);
// Of %reserved_smem_offset_0 and _1: its variable, made where it is first named.
PtxVar *parse_reserved(Parser *p, const char *name);
PtxSpace parse_space(const Parser *p); // of the word here; SpaceGeneric: it is none
void parse_body(Parser *p, PtxFunc *func);
// Under which name the module knows what has this name here: one that is no other piece's to see
// has the piece's number behind it.
const char *parse_known_as(const Parser *p, const char *name);
void *parse_more(Parser *p, void *list, int count, int *room, size_t size); // the same, faster

// What a name means in a body: a register by its number, a variable by kVar + its; the family
// `%r<100>` by kFamily + its first register, which tells the type of those made when they are used;
// a vector by kVector + its first; a label by kLabel + its instruction.
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
