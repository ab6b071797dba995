// parse_constant.c: PTX's constant expressions, by precedence: 64-bit integers, signed unless an
// operand is unsigned, or doubles.
#include "sim/ptx/parse.h"

#include <string.h>

enum { kProduct = 10, kUnary = 11, kMostNested = 32 };

typedef struct Binary {
  const char *sign;
  int level; // the higher, the closer it binds
} Binary;

static const Binary binaries[] = { // the longer first
    {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"==", 6}, {"!=", 6}, {"&&", 2}, {"||", 1},
    {"*", kProduct}, {"/", kProduct}, {"%", kProduct}, {"+", 9}, {"-", 9}, {"<", 7}, {">", 7},
    {"&", 5}, {"^", 4}, {"|", 3}};

static Constant parse_level(Parser *p, int level);

static double as_double(Constant c) {
  double d;
  if (c.kind == OpInt) return c.is_unsigned ? (double)c.bits : (double)(int64_t)c.bits;
  if (c.kind == OpDouble) return memcpy(&d, &c.bits, sizeof d), d;
  uint32_t word = (uint32_t)c.bits;
  float f;
  return memcpy(&f, &word, sizeof f), f;
}

static Constant of_double(double d) {
  Constant c = {.kind = OpDouble};
  memcpy(&c.bits, &d, sizeof d);
  return c;
}

static Constant of_bool(bool b) {
  return (Constant){.kind = OpInt, .bits = b};
}

static bool holds(Constant c) {
  return c.kind == OpInt ? c.bits != 0 : as_double(c) != 0;
}

// ---- one operand --------------------------------------------------------------------------------

static Constant minus(Constant c) {
  if (c.kind == OpInt) c.bits = -c.bits;
  else c.bits ^= c.kind == OpFloat ? 1ull << 31 : 1ull << 63;
  return c;
}

static Constant parse_literal(Parser *p) {
  Constant c = {.kind = OpInt, .bits = 32};
  if (parse_take(p, "WARP_SZ")) return c;
  char last = p->now.length ? p->now.begin[p->now.length - 1] : 0;
  c.bits = parse_number(p, &c.kind);
  c.is_unsigned = last == 'U' || last == 'u' || c.bits >> 63;
  return c;
}

// (.s64) or (.u64) before a value, else an expression in brackets.
static Constant parse_bracket(Parser *p) {
  bool u64 = parse_is(p, ".u64"), cast = u64 || parse_is(p, ".s64");
  if (cast) parse_next(p);
  Constant c = cast ? of_bool(false) : parse_constant(p);
  parse_need(p, ")");
  if (!cast) return c;
  c = parse_level(p, kUnary);
  if (c.kind != OpInt) parse_fail(p, "a whole number is awaited");
  c.is_unsigned = u64;
  return c;
}

static Constant parse_unary(Parser *p) {
  if (parse_take(p, "(")) return parse_bracket(p);
  if (parse_take(p, "+")) return parse_level(p, kUnary);
  if (parse_take(p, "-")) return minus(parse_level(p, kUnary));
  if (parse_take(p, "!")) return of_bool(!holds(parse_level(p, kUnary)));
  if (!parse_take(p, "~")) return parse_literal(p);
  Constant c = parse_level(p, kUnary);
  if (c.kind != OpInt) parse_fail(p, "`~` of no whole number");
  c.bits = ~c.bits;
  return c;
}

// ---- two ----------------------------------------------------------------------------------------

static Constant of_doubles(Parser *p, const char *sign, double a, double b) {
  switch (*sign) {
  case '*': return of_double(a * b);
  case '/': return of_double(a / b);
  case '+': return of_double(a + b);
  case '-': return of_double(a - b);
  case '=': return of_bool(a == b);
  case '!': return of_bool(a != b);
  case '<': if (sign[1] != '<') return of_bool(sign[1] ? a <= b : a < b); break;
  case '>': if (sign[1] != '>') return of_bool(sign[1] ? a >= b : a > b); break;
  }
  parse_fail(p, "`%s` of numbers with a point", sign);
}

static uint64_t quotient(Parser *p, bool rest, uint64_t a, uint64_t b, bool is_unsigned) {
  if (!b) parse_fail(p, "a division by 0");
  if (is_unsigned) return rest ? a % b : a / b;
  if (b == ~0ull) return rest ? 0 : -a; // which may overflow
  return (uint64_t)(rest ? (int64_t)a % (int64_t)b : (int64_t)a / (int64_t)b);
}

static uint64_t shifted(const char *sign, uint64_t a, uint64_t by, bool is_unsigned) {
  if (*sign == '<') return by > 63 ? 0 : a << by;
  if (is_unsigned) return by > 63 ? 0 : a >> by;
  return (uint64_t)((int64_t)a >> (by > 63 ? 63 : by));
}

static bool less(uint64_t a, uint64_t b, bool is_unsigned) {
  return is_unsigned ? a < b : (int64_t)a < (int64_t)b;
}

static Constant apply(Parser *p, const char *sign, Constant x, Constant y) {
  if (!strcmp(sign, "&&")) return of_bool(holds(x) && holds(y));
  if (!strcmp(sign, "||")) return of_bool(holds(x) || holds(y));
  if (x.kind != OpInt || y.kind != OpInt) return of_doubles(p, sign, as_double(x), as_double(y));
  uint64_t a = x.bits, b = y.bits;
  bool shift = !strcmp(sign, "<<") || !strcmp(sign, ">>");
  Constant c = {.kind = OpInt, .is_unsigned = x.is_unsigned || (y.is_unsigned && !shift)};
  bool u = c.is_unsigned;
  if (shift) return c.bits = shifted(sign, a, b, u), c;
  switch (*sign) {
  case '*': c.bits = a * b; break;
  case '/': c.bits = quotient(p, false, a, b, u); break;
  case '%': c.bits = quotient(p, true, a, b, u); break;
  case '+': c.bits = a + b; break;
  case '-': c.bits = a - b; break;
  case '&': c.bits = a & b; break;
  case '^': c.bits = a ^ b; break;
  case '|': c.bits = a | b; break;
  case '=': return of_bool(a == b);
  case '!': return of_bool(a != b);
  case '<': return of_bool(sign[1] ? !less(b, a, u) : less(a, b, u));
  default: return of_bool(sign[1] ? !less(a, b, u) : less(b, a, u));
  }
  return c;
}

static const Binary *binary_here(const Parser *p) {
  for (size_t i = 0; p->now.kind == TokSign && i < sizeof binaries / sizeof *binaries; i++)
    if (!strncmp(p->now.begin, binaries[i].sign, strlen(binaries[i].sign))) return &binaries[i];
  return NULL;
}

static Constant parse_level(Parser *p, int level) {
  if (++p->depth > kMostNested) parse_fail(p, "too many brackets in each other");
  Constant c = parse_unary(p);
  for (const Binary *b; (b = binary_here(p)) && b->level >= level;) {
    for (size_t i = 0; b->sign[i]; i++) parse_next(p);
    c = apply(p, b->sign, c, parse_level(p, b->level + 1));
  }
  p->depth--;
  return c;
}

Constant parse_term(Parser *p) {
  return parse_level(p, kProduct);
}

Constant parse_constant(Parser *p) {
  if (++p->depth > kMostNested) parse_fail(p, "too many brackets in each other");
  Constant c = parse_level(p, 1);
  if (parse_take(p, "?")) {
    Constant yes = parse_constant(p);
    parse_need(p, ":");
    Constant no = parse_constant(p);
    c = holds(c) ? yes : no;
  }
  p->depth--;
  return c;
}

bool parse_at_constant(Parser *p) {
  PtxToken t = p->now;
  for (int i = 0; i < kMostNested; i++) {
    if (t.kind == TokNumber) return true;
    if (t.kind == TokName)
      return t.length == 7 && !memcmp(t.begin, "WARP_SZ", 7);
    if (t.kind != TokSign || !strchr("+-!~(", *t.begin)) return false;
    bool bracket = *t.begin == '(';
    t = ptx_lex(p->ptx, t.begin + t.length, t.line);
    if (bracket && (!strncmp(t.begin, ".s64", 4) || !strncmp(t.begin, ".u64", 4))) return true;
  }
  return false;
}
