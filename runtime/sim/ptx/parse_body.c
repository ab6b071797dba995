// parse_body.c: the body of a function: scopes, registers, variables, labels, instructions.
//
// Names live in one table, by the number of their scope: of registers their number, of a family
// `%r<100>` kFamily + the number of its first register, of variables kVar + theirs, of labels
// kLabel + the instruction. A register of a family is made when it is first used.
#include "sim/ptx/ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { kVar = 1 << 28, kFamily = 1 << 29, kLabel = kVar + kFamily, kMostRegs = 1 << 24 };

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
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (strlen(specials[i]) == n && !memcmp(specials[i], name, n)) return true;
  return false;
}

static bool is_reserved(const char *name) {
  return !strcmp(name, "%reserved_smem_offset_0") || !strcmp(name, "%reserved_smem_offset_1");
}

static void *more(Parser *p, void *list, int count, int *room, size_t size) {
  if (count < *room) return list;
  if (count && !*room) *room = count; // it was made elsewhere
  *room = *room ? 2 * *room : 32;
  void *grown = ptx_alloc(p->ptx, (size_t)*room * size);
  if (count) memcpy(grown, list, (size_t)count * size);
  return grown;
}

// ---- registers ----------------------------------------------------------------------------------

// `%rd12` is rd12, `%f$a` of scope 3 is f_a_s3: words of C that no header uses.
static const char *c_name(Parser *p, const char *name, int scope) {
  char text[256];
  bool plain = *name == '%' && isalpha((unsigned char)name[1]) && scope == 0;
  size_t n = 0;
  for (const char *at = name + (*name == '%'); *at && n < 200; at++)
    text[n++] = isalnum((unsigned char)*at) ? *at : '_';
  text[n] = 0;
  plain &= n > 1 && isdigit((unsigned char)text[n - 1]);
  if (plain && ptx_type_of(text).kind) text[n++] = '_', text[n] = 0; // `%f32` is no type
  if (!plain) snprintf(text + n, sizeof text - n, "_s%d_%d", scope, p->func->nregs);
  return ptx_string(p->ptx, text, strlen(text));
}

static int add_reg(Parser *p, const char *name, PtxType type, int scope) {
  PtxFunc *f = p->func;
  if (f->nregs == kMostRegs) parse_fail(p, "too many registers");
  f->regs = more(p, f->regs, f->nregs, &p->room_regs, sizeof *f->regs);
  f->regs[f->nregs] = (PtxReg){.c_name = c_name(p, name, scope), .type = type};
  table_put(p->ptx, &p->names, scope, name, f->nregs);
  return f->nregs++;
}

static int scope_now(const Parser *p) {
  return p->scopes[p->nscopes - 1];
}

// `.reg .b32 %r<10>, a;`: of a family, a register is kept that tells its type.
static void parse_registers(Parser *p) {
  PtxVar declared = {0};
  parse_next(p);
  if (parse_is(p, ".v2") || parse_is(p, ".v4")) parse_fail(p, "vectors as registers");
  declared.type = p->now.kind == TokName && *p->now.begin == '.'
                      ? ptx_type(p->now.begin + 1, p->now.length - 1)
                      : (PtxType){0};
  if (!declared.type.kind) parse_fail(p, "registers of which type?");
  parse_next(p);
  do {
    char *name = parse_name(p);
    OperandKind kind;
    if (parse_take(p, "<")) {
      int count = (int)parse_number(p, &kind);
      parse_need(p, ">");
      if (count < 0) parse_fail(p, "registers by a negative number");
      int first = add_reg(p, name, declared.type, scope_now(p));
      table_put(p->ptx, &p->names, scope_now(p), name, kFamily + first);
    } else {
      add_reg(p, name, declared.type, scope_now(p));
    }
  } while (parse_take(p, ","));
  parse_need(p, ";");
}

// The register of a family that the name's digits pick: -1, or its number.
static int find_in_family(Parser *p, const char *name, int scope) {
  size_t n = strlen(name);
  char stem[256];
  while (n > 1 && isdigit((unsigned char)name[n - 1])) n--;
  if (!name[n] || n >= sizeof stem) return -1;
  memcpy(stem, name, n);
  stem[n] = 0;
  int family = table_get(&p->names, scope, stem);
  if (family < kFamily || family >= kLabel) return -1;
  return add_reg(p, name, p->func->regs[family - kFamily].type, scope);
}

// What a name means here, from the innermost scope: its entry in the table, or -1.
static int lookup(Parser *p, const char *name) {
  for (int i = p->nscopes - 1; i >= 0; i--) {
    int found = table_get(&p->names, p->scopes[i], name);
    if (found >= 0 && (found < kFamily || found >= kLabel)) return found;
    found = find_in_family(p, name, p->scopes[i]);
    if (found >= 0) return found;
  }
  return -1;
}

// ---- operands -----------------------------------------------------------------------------------

static Operand parse_operand(Parser *p);

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

// What is added to an address here: `+ 4 * 2 - 1`, or nothing.
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
  int found = lookup(p, name);
  if (found >= 0 && found < kVar) return op->select = dot + 1, found;
  *dot = '.';
  return -1;
}

static void parse_named(Parser *p, Operand *op) {
  int line = p->now.line;
  char *name = parse_name(p);
  int found = lookup(p, name);
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
  } else if (found >= kVar && found < kFamily) {
    op->kind = OpVar, op->var = p->func->vars[found - kVar];
  } else if ((op->var = module_var(p->module, name))) {
    op->kind = OpVar;
  } else if (module_func(p->module, name)) {
    op->kind = OpFunc;
  } else if (*name == '%') {
    ptx_fail(p->ptx, CUDA_ERROR_INVALID_PTX, line, "there is no register %.100s", name);
  } else {
    op->kind = OpLabel; // resolved when all are known
    op->reg = scope_now(p);
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

static Operand parse_operand(Parser *p) {
  if (++p->depth > 8) parse_fail(p, "too many brackets in each other");
  Operand op = parse_plain_operand(p);
  p->depth--;
  return op;
}

// ---- instructions -------------------------------------------------------------------------------

static Instr *add_instr(Parser *p) {
  PtxFunc *f = p->func;
  f->body = more(p, f->body, f->nbody, &p->room_body, sizeof *f->body);
  Instr *instr = &f->body[f->nbody++];
  *instr = (Instr){.pred = -1, .line = p->now.line, .loc = p->loc};
  return instr;
}

// The type is the last piece: `max.s32.relu` is `max.relu.s32`.
static void put_type_last(Instr *instr) {
  const char **end = &instr->part[instr->nparts - 1];
  if (instr->nparts < 3 || !ptx_type_of(end[-1]).kind) return;
  if (strcmp(*end, "relu") != 0 && strcmp(*end, "ftz") != 0) return;
  const char *type = end[-1];
  end[-1] = *end;
  *end = type;
}

static void split_opcode(Parser *p, Instr *instr) {
  char *pieces = ptx_string(p->ptx, instr->opcode, strlen(instr->opcode));
  for (char *at = pieces; at;) {
    if (instr->nparts == kMaxParts) parse_fail(p, "`%.80s`: too many pieces", instr->opcode);
    instr->part[instr->nparts++] = at;
    at = strchr(at, '.');
    if (at) *at++ = 0;
  }
  put_type_last(instr);
  for (int i = instr->nparts; i < kMaxParts; i++) instr->part[i] = ""; // not there: like no word
}

static void parse_instr(Parser *p) {
  Instr *instr = add_instr(p);
  if (parse_take(p, "@")) {
    instr->pred_not = parse_take(p, "!");
    int line = p->now.line;
    char *name = parse_name(p);
    instr->pred = lookup(p, name);
    if (instr->pred < 0 || instr->pred >= kVar || p->func->regs[instr->pred].type.kind != KindPred)
      ptx_fail(p->ptx, CUDA_ERROR_INVALID_PTX, line, "%.100s is no predicate", name);
  }
  instr->line = p->now.line;
  instr->opcode = parse_name(p);
  split_opcode(p, instr);
  Operand ops[kMaxOperands];
  while (!parse_is(p, ";")) {
    if (instr->nops == kMaxOperands) parse_fail(p, "too many operands");
    ops[instr->nops++] = parse_operand(p);
    if (!parse_take(p, ",")) break;
  }
  parse_need(p, ";");
  instr = &p->func->body[p->func->nbody - 1];
  instr->op = ptx_alloc(p->ptx, (size_t)instr->nops * sizeof *ops + 1);
  memcpy(instr->op, ops, (size_t)instr->nops * sizeof *ops);
}

// ---- labels -------------------------------------------------------------------------------------

static void parse_targets(Parser *p, Instr *label) {
  const char *targets[1024];
  do {
    if (label->ntargets == 1024) parse_fail(p, "too many targets");
    targets[label->ntargets++] = parse_name(p);
  } while (parse_take(p, ","));
  parse_need(p, ";");
  label->targets = ptx_alloc(p->ptx, (size_t)label->ntargets * sizeof *targets);
  memcpy(label->targets, targets, (size_t)label->ntargets * sizeof *targets);
}

static void parse_label(Parser *p, char *name) {
  char unique[64];
  snprintf(unique, sizeof unique, "L%d", p->func->nbody);
  if (table_get(&p->names, scope_now(p), name) >= 0) parse_fail(p, "%.100s is there twice", name);
  table_put(p->ptx, &p->names, scope_now(p), name, kLabel + p->func->nbody);
  Instr *label = add_instr(p);
  label->label = ptx_string(p->ptx, unique, strlen(unique));
  label->pred_not = false;
  if (parse_take(p, ".branchtargets") || parse_take(p, ".calltargets")) {
    parse_targets(p, label);
    label->loc = scope_now(p); // where its names are looked up
  } else if (parse_take(p, ".callprototype")) {
    label->prototype = ptx_alloc(p->ptx, sizeof *label->prototype);
    parse_signature(p, label->prototype);
    while (!parse_is(p, ";") && p->now.kind != TokEnd) parse_next(p);
    parse_need(p, ";");
  }
}

typedef struct Scopes { // the scope around each
  int *outer;
} Scopes;

static const char *find_label(Parser *p, const int *outer, int scope, const char *name, int line) {
  for (; scope >= 0; scope = outer[scope]) {
    int found = table_get(&p->names, scope, name);
    if (found >= kLabel) return p->func->body[found - kLabel].label;
  }
  ptx_fail(p->ptx, CUDA_ERROR_INVALID_PTX, line, "there is no %.100s", name);
}

static void resolve_operand(Parser *p, const int *outer, Operand *op, int line) {
  if (op->kind == OpLabel) op->name = find_label(p, outer, op->reg, op->name, line);
  for (int i = 0; i < op->nparts; i++) resolve_operand(p, outer, &op->parts[i], line);
}

static void resolve_labels(Parser *p, const int *outer) {
  for (int i = 0; i < p->func->nbody; i++) {
    Instr *instr = &p->func->body[i];
    for (int k = 0; k < instr->nops; k++) resolve_operand(p, outer, &instr->op[k], instr->line);
    for (int k = 0; k < instr->ntargets; k++) {
      PtxFunc *func = module_func(p->module, instr->targets[k]);
      instr->targets[k] = func ? func->name
                               : find_label(p, outer, instr->loc, instr->targets[k],
                                            instr->line);
    }
  }
}

// ---- statements ---------------------------------------------------------------------------------

static void add_var(Parser *p, PtxVar *var) {
  PtxFunc *f = p->func;
  f->vars = more(p, f->vars, f->nvars, &p->room_vars, sizeof *f->vars);
  var->scope = scope_now(p);
  table_put(p->ptx, &p->names, var->scope, var->name, kVar + f->nvars);
  f->vars[f->nvars++] = var;
}

static void parse_variables(Parser *p, PtxSpace space) {
  parse_next(p);
  PtxVar *var = NULL;
  do add_var(p, var = parse_variable(p, space, true, var));
  while (parse_take(p, ","));
  parse_need(p, ";");
}

static PtxLoc parse_place(Parser *p) {
  OperandKind kind;
  PtxLoc place = {.outer = 0};
  place.file = (int)parse_number(p, &kind);
  place.line = (int)parse_number(p, &kind);
  place.column = p->now.kind == TokNumber ? (int)parse_number(p, &kind) : 0;
  if (place.file < 0 || place.line < 0) parse_fail(p, "`.loc` of what?");
  return place;
}

// The number of a place of the module; places with one around them differ by that.
static int add_place(Parser *p, PtxLoc place) {
  PtxModule *m = p->module;
  char key[96];
  snprintf(key, sizeof key, "%d %d %d", place.file, place.line, place.column);
  int known = table_get(&p->places, 0, key);
  if (known >= 0 && m->locs[known].outer == place.outer) return known;
  m->locs = more(p, m->locs, m->nlocs, &p->room_locs, sizeof *m->locs);
  m->locs[m->nlocs] = place;
  table_put(p->ptx, &p->places, 0, ptx_string(p->ptx, key, strlen(key)), m->nlocs);
  return m->nlocs++;
}

// .loc file line column[, function_name label[+n], inlined_at file line column]: what is inlined
// there was inlined where the last `.loc` of that place was.
static void parse_loc(Parser *p) {
  int line = p->now.line;
  PtxLoc place = parse_place(p);
  while (p->now.line == line && p->now.kind != TokEnd && !parse_is(p, "}")) {
    if (!parse_take(p, "inlined_at")) {
      parse_next(p);
      continue;
    }
    char key[96];
    PtxLoc outer = parse_place(p);
    snprintf(key, sizeof key, "%d %d %d", outer.file, outer.line, outer.column);
    int known = table_get(&p->places, 0, key);
    place.outer = known > 0 ? known : add_place(p, outer);
  }
  p->loc = add_place(p, place);
}

static void parse_statement(Parser *p) {
  PtxSpace space = parse_space(p);
  if (space == SpaceReg) {
    parse_registers(p);
  } else if (space != SpaceGeneric) {
    parse_variables(p, space);
  } else if (parse_take(p, ".loc")) {
    parse_loc(p);
  } else if (parse_take(p, ".pragma")) {
    while (!parse_take(p, ";") && p->now.kind != TokEnd) parse_next(p);
  } else if (parse_is(p, "@")) {
    parse_instr(p);
  } else if (p->now.kind != TokName || *p->now.begin == '.') {
    parse_need(p, ";"); // an empty statement, or none at all
  } else {
    PtxToken after = ptx_lex(p->ptx, p->now.begin + p->now.length, p->now.line);
    if (*after.begin != ':') {
      parse_instr(p);
      return;
    }
    char *name = parse_name(p);
    parse_next(p);
    parse_label(p, name);
  }
}

void parse_body(Parser *p, PtxFunc *func) {
  p->func = func;
  p->names = (PtxTable){0};
  p->room_body = p->room_regs = p->room_vars = 0;
  p->nscopes = 1;
  p->scopes[0] = p->last_scope = 0;
  p->loc = 0;
  int room = 64, *outer = ptx_alloc(p->ptx, (size_t)room * sizeof *outer);
  outer[0] = -1;
  for (int i = 0; i < func->nreturns; i++) add_var(p, func->returns[i]);
  for (int i = 0; i < func->nparams; i++) add_var(p, func->params[i]);
  parse_need(p, "{");
  for (int depth = 1; depth;) {
    if (p->now.kind == TokEnd) parse_fail(p, "the text ends inside of %.100s", func->name);
    if (parse_take(p, "{")) {
      if (p->nscopes == 64) parse_fail(p, "too many scopes in each other");
      outer = more(p, outer, p->last_scope + 1, &room, sizeof *outer);
      outer[++p->last_scope] = scope_now(p);
      p->scopes[p->nscopes++] = p->last_scope;
      depth++;
    } else if (parse_take(p, "}")) {
      p->nscopes--, depth--;
    } else {
      parse_statement(p);
    }
  }
  p->nscopes = 1;
  resolve_labels(p, outer);
}
