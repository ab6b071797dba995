// parse_operand.c: parses registers and operands: names, addresses, vectors, constants.
//
// All names are in one table, with the number of their scope (enum PtxNames).
#include "sim/ptx/parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { kMostRegs = 1 << 24 };

static const char *const specials[] = {
    "tid", "ntid", "ctaid", "nctaid", "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid",
    "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "clock", "clock_hi",
    "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi", "dynamic_smem_size",
    "total_smem_size", "aggr_smem_size", "is_explicit_cluster", "clusterid", "nclusterid",
    "cluster_ctaid", "cluster_nctaid", "cluster_ctarank", "cluster_nctarank", "current_graph_exec",
    "reserved_smem_offset_begin", "reserved_smem_offset_end", "reserved_smem_offset_cap"};

static bool is_special(const char *name) {
  if (*name++ != '%') return false;
  size_t n = strcspn(name, ".");
  if (!strncmp(name, "envreg", 6)) return true;
  if (n >= 3 && !strncmp(name, "pm", 2) && name[2] >= '0' && name[2] <= '7')
    return !name[3] || !strcmp(name + 3, "_64");
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (strlen(specials[i]) == n && !memcmp(specials[i], name, n)) return true;
  return false;
}

static bool is_reserved(const char *name) {
  return !strcmp(name, "%reserved_smem_offset_0") || !strcmp(name, "%reserved_smem_offset_1");
}

// ---- registers ----------------------------------------------------------------------------------

// `%rd12` becomes rd12, `%f$a` of scope 3 f_a_s3: C identifiers that no header uses.
static const char *c_name(Parser *p, const char *name, int scope) {
  char text[256];
  bool plain = *name == '%' && isalpha((unsigned char)name[1]) && scope == 0;
  size_t n = 0;
  for (const char *at = name + (*name == '%'); *at && n < 200; at++)
    text[n++] = isalnum((unsigned char)*at) ? *at : '_';
  text[n] = 0;
  plain &= n > 1 && isdigit((unsigned char)text[n - 1]);
  if (plain && ptx_type_of(text).kind) text[n++] = '_', text[n] = 0; // `%f32` is not a type
  if (!plain) snprintf(text + n, sizeof text - n, "_s%d_%d", scope, p->func->nregs);
  return ptx_string(p->ptx, text, strlen(text));
}

int parse_add_reg(Parser *p, const char *name, PtxType type, int scope) {
  PtxFunc *f = p->func;
  if (f->nregs == kMostRegs) parse_fail(p, "too many registers");
  f->regs = parse_more(p, f->regs, f->nregs, &p->room_regs, sizeof *f->regs);
  f->regs[f->nregs] = (PtxReg){.c_name = c_name(p, name, scope), .type = type};
  table_put(p->ptx, &p->names, scope, name, f->nregs);
  return f->nregs++;
}

int parse_scope(const Parser *p) {
  return p->scopes[p->nscopes - 1];
}

// `.reg .v4 .u32 q;`: q.x or q.r and so on, and q for all.
static void add_vector(Parser *p, const char *name, PtxType type, int count) {
  static const char *const tails[] = {"xr", "yg", "zb", "wa"};
  size_t n = strlen(name);
  int first = p->func->nregs;
  for (int i = 0; i < count; i++)
    for (int k = 0; k < 2; k++) {
      char *whole = ptx_alloc(p->ptx, n + 3);
      memcpy(whole, name, n);
      whole[n] = '.';
      whole[n + 1] = tails[i][k];
      if (k == 0) parse_add_reg(p, whole, type, parse_scope(p));
      else table_put(p->ptx, &p->names, parse_scope(p), whole, first + i);
    }
  p->func->regs[first].vector = count;
  table_put(p->ptx, &p->names, parse_scope(p), name, kVector + first);
}

// True if a family of the scope has the name (its stem and a number); sets *family.
static bool is_of_family(Parser *p, const char *name, int scope, int *family) {
  size_t n = strlen(name);
  char stem[256];
  while (n > 1 && isdigit((unsigned char)name[n - 1])) n--;
  if (!name[n] || n >= sizeof stem) return false;
  memcpy(stem, name, n);
  stem[n] = 0;
  *family = table_get(&p->names, scope, stem);
  return *family >= kFamily && *family < kVector &&
         strtol(name + n, NULL, 10) < p->func->regs[*family - kFamily].family;
}

static void refuse_twice(Parser *p, const char *name) {
  int family;
  if (table_get(&p->names, parse_scope(p), name) >= 0 ||
      is_of_family(p, name, parse_scope(p), &family))
    parse_fail(p, "%.100s is there twice", name);
}

// None of the family's registers, of the first ones, was declared by itself.
static void refuse_members(Parser *p, const char *stem, int count) {
  char name[256];
  for (int i = 0; i < count && i < 1 << 12; i++) {
    snprintf(name, sizeof name, "%.240s%d", stem, i);
    if (table_get(&p->names, parse_scope(p), name) >= 0)
      parse_fail(p, "%.100s is there twice", name);
  }
}

// `.reg .b32 %r<10>, a;`: for a family, one register is kept for its type.
void parse_registers(Parser *p) {
  PtxVar declared = {0};
  parse_next(p);
  int vector = parse_take(p, ".v2") ? 2 : parse_take(p, ".v4") ? 4 : 0;
  declared.type = p->now.kind == TokName && *p->now.begin == '.'
                      ? ptx_type(p->now.begin + 1, p->now.length - 1)
                      : (PtxType){0};
  if (!declared.type.kind) parse_fail(p, "registers of which type?");
  parse_next(p);
  do {
    char *name = parse_name(p);
    OperandKind kind;
    refuse_twice(p, name);
    if (vector) {
      add_vector(p, name, declared.type, vector);
    } else if (parse_take(p, "<")) {
      int count = (int)parse_number(p, &kind);
      parse_need(p, ">");
      if (count < 0) parse_fail(p, "registers by a negative number");
      refuse_members(p, name, count);
      int first = parse_add_reg(p, name, declared.type, parse_scope(p));
      p->func->regs[first].family = count;
      table_put(p->ptx, &p->names, parse_scope(p), name, kFamily + first);
    } else {
      parse_add_reg(p, name, declared.type, parse_scope(p));
    }
  } while (parse_take(p, ","));
  parse_need(p, ";");
}

// The register of a family that the name's digits pick: -1, or its number.
static int find_in_family(Parser *p, const char *name, int scope) {
  int family;
  if (!is_of_family(p, name, scope, &family)) return -1;
  return parse_add_reg(p, name, p->func->regs[family - kFamily].type, scope);
}

// Resolves a name from the innermost scope on: its entry in the table, or -1.
int parse_lookup(Parser *p, const char *name) {
  for (int i = p->nscopes - 1; i >= 0; i--) {
    int found = table_get(&p->names, p->scopes[i], name);
    if (found >= 0 && (found < kFamily || found >= kVector)) return found;
    found = find_in_family(p, name, p->scopes[i]);
    if (found >= 0) return found;
  }
  return -1;
}

// ---- operands -----------------------------------------------------------------------------------

// Up to the closing sign, into op.
static void parse_parts(Parser *p, Operand *op, const char *close) {
  enum { kMost = 300 };
  Operand parts[kMost];
  while (!parse_is(p, close)) {
    if (op->nparts == kMost) parse_fail(p, "too many operands in one bracket");
    parts[op->nparts++] = parse_operand(p);
    if (!parse_take(p, ",")) break;
  }
  parse_need(p, close);
  op->parts = ptx_alloc(p->ptx, (size_t)op->nparts * sizeof *parts + 1);
  memcpy(op->parts, parts, (size_t)op->nparts * sizeof *parts);
}

// The offset of an address: `+ 4 * 2 - 1`, or none.
static uint64_t parse_distance(Parser *p) {
  uint64_t distance = 0;
  while (parse_is(p, "+") || parse_is(p, "-")) {
    bool minus = parse_is(p, "-");
    parse_next(p);
    Constant c = parse_term(p);
    if (c.kind != OpInt) parse_fail(p, "a whole number is awaited");
    distance += minus ? -c.bits : c.bits;
  }
  return distance;
}

// [base + 12], [base, {x, y}], [12]; bits: the distance.
static void parse_address(Parser *p, Operand *op) {
  Operand parts[4];
  op->kind = OpAddress;
  parts[0] = parse_operand(p);
  if (parts[0].kind == OpInt) op->bits = parts[0].bits;
  op->nparts = 1;
  op->bits += parse_distance(p);
  while (parse_take(p, ",")) {
    if (op->nparts == 4) parse_fail(p, "too many parts of an address");
    parts[op->nparts++] = parse_operand(p);
  }
  parse_need(p, "]");
  op->parts = ptx_alloc(p->ptx, sizeof parts);
  memcpy(op->parts, parts, (size_t)op->nparts * sizeof *parts);
}

// `%r1.b0`: the register without its part, which op keeps; else -1.
static int lookup_part(Parser *p, char *name, Operand *op) {
  char *dot = strrchr(name, '.');
  if (!dot || !dot[1] || !strchr("bh", dot[1]) || !dot[2]) return -1;
  if (strspn(dot + 2, "01234567") != strlen(dot + 2)) return -1;
  *dot = 0;
  int found = parse_lookup(p, name);
  if (found >= 0 && found < kVar) return op->select = dot + 1, found;
  *dot = '.';
  return -1;
}

static void take_vector(Parser *p, int first, Operand *op) {
  op->kind = OpVector;
  op->nparts = p->func->regs[first].vector;
  op->parts = ptx_alloc(p->ptx, (size_t)op->nparts * sizeof *op);
  for (int i = 0; i < op->nparts; i++) op->parts[i] = (Operand){.kind = OpReg, .reg = first + i};
}

static void parse_named(Parser *p, Operand *op) {
  int line = p->now.line;
  char *name = parse_name(p);
  int found = parse_lookup(p, name);
  if (found < 0) found = lookup_part(p, name, op);
  op->name = name;
  if (!strcmp(name, "_")) {
    op->kind = OpSink;
  } else if (is_reserved(name) && found < 0) {
    op->kind = OpVar, op->var = parse_reserved(p, name);
  } else if (is_special(name) && found < 0) {
    op->kind = OpSpecial;
  } else if (found >= 0 && found < kVar) {
    op->kind = OpReg, op->reg = found;
  } else if (found >= kVector && found < kLabel) {
    take_vector(p, found - kVector, op);
  } else if (found >= kVar && found < kFamily) {
    op->kind = OpVar, op->var = p->func->vars[found - kVar];
  } else if ((op->var = module_var(p->module, parse_known_as(p, name)))) {
    op->kind = OpVar;
  } else if (module_func(p->module, parse_known_as(p, name))) {
    op->kind = OpFunc, op->name = parse_known_as(p, name);
  } else if (*name == '%') {
    ptx_fail(p->ptx, CUDA_ERROR_INVALID_PTX, line, "there is no register %.100s", name);
  } else {
    op->kind = OpLabel; // resolved when all are known
    op->reg = parse_scope(p);
  }
}

// A bracket of a call holds its arguments.
static bool in_call(const Parser *p) {
  const char *opcode = p->func->body[p->func->nbody - 1].opcode;
  return opcode && !strncmp(opcode, "call", 4);
}

static Operand parse_plain_operand(Parser *p) {
  Operand op = {0};
  if (parse_at_constant(p) && !(parse_is(p, "(") && in_call(p))) {
    Constant c = parse_constant(p);
    return (Operand){.kind = c.kind, .bits = c.bits};
  }
  if (parse_take(p, "!")) {
    op = parse_operand(p);
    op.negated = !op.negated;
    return op;
  }
  if (parse_take(p, "-")) {
    op = parse_operand(p);
    if (op.kind != OpReg) parse_fail(p, "a minus sign before something that is no number");
    op.minus = !op.minus;
    return op;
  }
  if (parse_take(p, "{")) {
    op.kind = OpVector;
    parse_parts(p, &op, "}");
  } else if (parse_take(p, "(")) {
    op.kind = OpList;
    parse_parts(p, &op, ")");
  } else if (parse_take(p, "[")) {
    parse_address(p, &op);
    return op;
  } else {
    parse_named(p, &op);
    if (op.kind == OpVar) op.bits = parse_distance(p);
  }
  if (!parse_take(p, "|")) return op;
  Operand pair = {.kind = OpPair, .nparts = 2, .parts = ptx_alloc(p->ptx, 2 * sizeof op)};
  pair.parts[0] = op;
  pair.parts[1] = parse_operand(p);
  return pair;
}

Operand parse_operand(Parser *p) {
  if (++p->depth > 8) parse_fail(p, "too many brackets in each other");
  Operand op = parse_plain_operand(p);
  p->depth--;
  return op;
}
