// parse_body.c: the body of a function: scopes, variables, labels, instructions.
#include "sim/ptx/parse.h"

#include <stdlib.h>
#include <string.h>

void *parse_more(Parser *p, void *list, int count, int *room, size_t size) {
  if (count < *room) return list;
  if (count && !*room) *room = count; // it was made elsewhere
  *room = *room ? 2 * *room : 32;
  void *grown = ptx_alloc(p->ptx, (size_t)*room * size);
  if (count) memcpy(grown, list, (size_t)count * size);
  return grown;
}

// ---- instructions -------------------------------------------------------------------------------

static Instr *add_instr(Parser *p) {
  PtxFunc *f = p->func;
  f->body = parse_more(p, f->body, f->nbody, &p->room_body, sizeof *f->body);
  Instr *instr = &f->body[f->nbody++];
  *instr = (Instr){.pred = -1, .line = p->now.line, .loc = p->loc};
  return instr;
}

// Moves types to the end: `max.s32.relu` is `max.relu.s32`. ptxas accepts any order.
static void put_types_last(Instr *instr) {
  static const char *const names[] = {"add", "sub",  "mul",   "mad", "fma",  "div", "rem",  "abs",
                                      "neg", "min",  "max",   "rcp", "sqrt", "sin", "cos",  "lg2",
                                      "ex2", "tanh", "rsqrt", "set", "setp", "cvt", "selp", "slct",
                                      "ld",  "ldu",  "st",    "red", "atom"};
  const char *types[kMaxParts];
  bool known = false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    known |= !strcmp(names[i], instr->part[0]);
  int count = 0, others = 1;
  if (!known) return;
  for (int i = 1; i < instr->nparts; i++) {
    const char *part = instr->part[i];
    if (ptx_type_of(part).kind) types[count++] = part;
    else instr->part[others++] = part;
  }
  memcpy(instr->part + others, types, (size_t)count * sizeof *types);
}

static void split_opcode(Parser *p, Instr *instr) {
  char *pieces = ptx_string(p->ptx, instr->opcode, strlen(instr->opcode));
  for (char *at = pieces; at;) {
    if (instr->nparts == kMaxParts) parse_fail(p, "`%.80s`: too many pieces", instr->opcode);
    instr->part[instr->nparts++] = at;
    at = strchr(at, '.');
    if (at) *at++ = 0;
  }
  put_types_last(instr);
  for (int i = instr->nparts; i < kMaxParts; i++) instr->part[i] = ""; // absent pieces match none
}

// NOTE: ptxas accepts blanks before a piece: `mov .u32`.
static const char *parse_opcode(Parser *p) {
  char *opcode = parse_name(p);
  while (p->now.kind == TokName && *p->now.begin == '.') {
    size_t n = strlen(opcode);
    char *longer = ptx_alloc(p->ptx, n + p->now.length + 1);
    memcpy(longer, opcode, n);
    memcpy(longer + n, p->now.begin, p->now.length);
    opcode = longer;
    parse_next(p);
  }
  return opcode;
}

static void parse_instr(Parser *p) {
  Instr *instr = add_instr(p);
  if (parse_take(p, "@")) {
    instr->pred_not = parse_take(p, "!");
    int line = p->now.line;
    char *name = parse_name(p);
    instr->pred = parse_lookup(p, name);
    if (instr->pred < 0 || instr->pred >= kVar || p->func->regs[instr->pred].type.kind != KindPred)
      ptx_fail(p->ptx, CUDA_ERROR_INVALID_PTX, line, "%.100s is no predicate", name);
  }
  instr->line = p->now.line;
  instr->opcode = parse_opcode(p);
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
  if (table_get(&p->names, parse_scope(p), name) >= 0) parse_fail(p, "%.100s is there twice", name);
  table_put(p->ptx, &p->names, parse_scope(p), name, kLabel + p->func->nbody);
  Instr *label = add_instr(p);
  label->label = ptx_string(p->ptx, unique, strlen(unique));
  label->pred_not = false;
  if (parse_take(p, ".branchtargets") || parse_take(p, ".calltargets")) {
    parse_targets(p, label);
    label->loc = parse_scope(p); // the scope in which its names are resolved
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
      PtxFunc *func = module_func(p->module, parse_known_as(p, instr->targets[k]));
      instr->targets[k] = func ? func->name
                               : find_label(p, outer, instr->loc, instr->targets[k],
                                            instr->line);
    }
  }
}

// ---- statements ---------------------------------------------------------------------------------

static void add_var(Parser *p, PtxVar *var) {
  PtxFunc *f = p->func;
  f->vars = parse_more(p, f->vars, f->nvars, &p->room_vars, sizeof *f->vars);
  var->scope = parse_scope(p);
  table_put(p->ptx, &p->names, var->scope, var->name, kVar + f->nvars);
  f->vars[f->nvars++] = var;
}

static void add_param(Parser *p, PtxVar *var) {
  add_var(p, var);
  if (var->in_reg) var->reg = parse_add_reg(p, var->name, var->type, 0); // which the name means
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
  m->locs = parse_more(p, m->locs, m->nlocs, &p->room_locs, sizeof *m->locs);
  m->locs[m->nlocs] = place;
  table_put(p->ptx, &p->places, 0, ptx_string(p->ptx, key, strlen(key)), m->nlocs);
  return m->nlocs++;
}

// .loc file line column[, function_name label[+n], inlined_at file line column]: the inlining
// position is that of the last `.loc` for the same place.
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
  for (int i = 0; i < func->nreturns; i++) add_param(p, func->returns[i]);
  for (int i = 0; i < func->nparams; i++) add_param(p, func->params[i]);
  parse_need(p, "{");
  for (int depth = 1; depth;) {
    if (p->now.kind == TokEnd) parse_fail(p, "the text ends inside of %.100s", func->name);
    if (parse_take(p, "{")) {
      if (p->nscopes == 64) parse_fail(p, "too many scopes in each other");
      outer = parse_more(p, outer, p->last_scope + 1, &room, sizeof *outer);
      outer[++p->last_scope] = parse_scope(p);
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
