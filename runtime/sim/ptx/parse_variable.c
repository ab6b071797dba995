// parse_variable.c: a variable's declaration, and its initial values.
#include "sim/ptx/parse.h"

#include <string.h>

enum { kMostBytes = 1 << 30, kMostDepth = 16 };

PtxSpace parse_space(const Parser *p) {
  static const struct {
    const char *word;
    PtxSpace space;
  } spaces[] = {{".reg", SpaceReg},       {".global", SpaceGlobal}, {".const", SpaceConst},
                {".shared", SpaceShared}, {".local", SpaceLocal},   {".param", SpaceParam}};
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
    if (parse_is(p, spaces[i].word)) return spaces[i].space;
  return SpaceGeneric;
}

static void add_init(Parser *p, PtxVar *var, PtxInit init) {
  var->init = list_more(p->ptx, var->init, var->ninit, sizeof init);
  var->init[var->ninit++] = init;
  var->pointers |= init.symbol != NULL;
}

// name, generic(name), generic(name) + 4 - 2
static void parse_symbol(Parser *p, PtxInit *init) {
  bool generic = parse_is(p, "generic");
  init->symbol = parse_known_as(p, parse_name(p));
  if (generic) {
    parse_need(p, "(");
    init->symbol = parse_known_as(p, parse_name(p));
    parse_need(p, ")");
  }
  while (parse_is(p, "+") || parse_is(p, "-")) {
    bool minus = parse_is(p, "-");
    parse_next(p);
    Constant c = parse_term(p);
    if (c.kind != OpInt) parse_fail(p, "a whole number is awaited");
    init->bits += minus ? -c.bits : c.bits;
  }
}

static bool at_mask(Parser *p) { // 0xff00(symbol)
  PtxToken after = ptx_lex(p->ptx, p->now.begin + p->now.length, p->now.line);
  return p->now.kind == TokNumber && *after.begin == '(';
}

static void parse_mask(Parser *p, PtxInit *init) {
  init->mask = parse_integer(p);
  uint64_t low = init->mask >> (init->mask ? __builtin_ctzll(init->mask) : 0);
  if (!low || (low & (low + 1))) parse_fail(p, "a mask is a run of ones");
  parse_need(p, "(");
  parse_symbol(p, init);
  parse_need(p, ")");
}

static uint64_t single(uint64_t bits) { // of a double
  double d;
  float f;
  memcpy(&d, &bits, sizeof d);
  f = (float)d;
  bits = 0;
  memcpy(&bits, &f, sizeof f);
  return bits;
}

static void parse_initialiser(Parser *p, PtxVar *var, int depth) {
  if (depth > kMostDepth) parse_fail(p, "too many brackets in each other");
  if (parse_take(p, "{")) {
    while (!parse_is(p, "}")) {
      parse_initialiser(p, var, depth + 1);
      if (!parse_take(p, ",")) break;
    }
    parse_need(p, "}");
    return;
  }
  PtxInit init = {0};
  if (at_mask(p)) {
    parse_mask(p, &init);
  } else if (parse_at_constant(p)) {
    Constant c = parse_constant(p);
    bool fraction = c.kind == OpDouble && var->type.bits == 32; // a decimal one
    init.bits = fraction ? single(c.bits) : c.bits;
  } else {
    parse_symbol(p, &init);
  }
  add_init(p, var, init);
}

static void parse_qualifiers(Parser *p, PtxVar *var) {
  var->vector = 1;
  for (;;) {
    if (parse_take(p, ".align")) {
      var->align = (int)parse_integer(p);
      if (var->align < 1 || var->align > 1 << 16 || var->align & (var->align - 1))
        parse_fail(p, "an alignment is a power of two");
    } else if (parse_take(p, ".v2")) {
      var->vector = 2;
    } else if (parse_take(p, ".v4")) {
      var->vector = 4;
    } else if (parse_take(p, ".ptr")) { // facts about its target: no effect here
      if (parse_space(p) != SpaceGeneric) parse_next(p);
      if (parse_take(p, ".align")) parse_integer(p);
    } else if (parse_take(p, ".attribute")) {
      parse_need(p, "(");
      while (!parse_take(p, ")")) {
        if (p->now.kind == TokEnd || parse_is(p, ".managed"))
          parse_fail(p, "managed memory is not modelled");
        parse_next(p);
      }
    } else if (p->now.kind == TokName && *p->now.begin == '.') {
      PtxType type = ptx_type(p->now.begin + 1, p->now.length - 1);
      if (!type.kind)
        parse_fail(p, "`%.*s` is no type that is modelled", parse_shown(p), p->now.begin);
      var->type = type;
      parse_next(p);
    } else {
      break;
    }
  }
  if (!var->type.kind)
    parse_fail(p, "a type is awaited before `%.*s`", parse_shown(p), p->now.begin);
}

PtxVar *parse_variable(Parser *p, PtxSpace space, bool with_init, const PtxVar *before) {
  PtxVar *var = ptx_alloc(p->ptx, sizeof *var);
  var->space = space;
  var->line = p->now.line;
  if (before && p->now.kind == TokName && *p->now.begin != '.')
    var->type = before->type, var->vector = before->vector, var->align = before->align;
  else
    parse_qualifiers(p, var);
  var->count = (size_t)var->vector;
  var->name = parse_name(p);
  bool open_end = false;
  while (parse_take(p, "[")) {
    uint64_t n = 1;
    if (parse_is(p, "]"))
      open_end = true;
    else
      n = parse_constant(p).bits;
    parse_need(p, "]");
    if (n > kMostBytes || var->count * n > kMostBytes) parse_fail(p, "%s is too large", var->name);
    var->count *= n;
  }
  if (with_init && parse_take(p, "=")) {
    if (space != SpaceGlobal && space != SpaceConst)
      parse_fail(p, "%s: values are of global and constant memory", var->name);
    parse_initialiser(p, var, 0);
  }
  if (open_end && var->ninit) var->count = (size_t)var->ninit;
  var->extern_array = open_end && !var->ninit;
  if ((size_t)var->ninit > var->count) parse_fail(p, "%s has too many values", var->name);
  int natural = var->vector * (var->type.bits >= 8 ? var->type.bits / 8 : 1);
  if (!var->align) var->align = natural;
  var->c_name = var->name;
  return var;
}
