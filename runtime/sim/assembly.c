// assembly.c: what the host compiler made of a kernel's arithmetic (NNGEN_SIM_COUNT=1).
//
// A counted kernel is compiled to assembly, with a call at the head of each basic block
// (-fsanitize-coverage=trace-pc). One pass over the text counts the scalar floating-point
// instructions from each such call to the next, puts a label behind the call, and appends the
// table cusim_blocks: the label's address and the counts. While the kernel runs, the return address
// of the call finds the row (flow.c). Counted is thus what runs after optimisation, as a GPU's
// counters do: a product and a sum that became one fma are one.
#include "sim/sim.h"

#include <ctype.h>
#include <string.h>

typedef struct Line { // of assembly: "vaddss %xmm0, %xmm1, %xmm2"
  char op[32];
  const char *operands, *end;
} Line;

typedef struct Row {
  int ops[CusimWidths][CusimOps];
  bool open, branches;
} Row;

// ---- instructions -------------------------------------------------------------------------------

static Line split(const char *text, const char *end) {
  Line line = {.operands = end, .end = end};
  while (text < end && isspace((unsigned char)*text)) text++;
  size_t n = 0;
  while (text + n < end && !isspace((unsigned char)text[n])) n++;
  if (n >= sizeof line.op) return line;
  memcpy(line.op, text, n);
  line.operands = text + n;
  while (line.operands < end && isspace((unsigned char)*line.operands)) line.operands++;
  return line;
}

static bool is_one_of(const char *word, size_t length, const char *const *list) {
  for (; *list; list++)
    if (strlen(*list) == length && !memcmp(*list, word, length)) return true;
  return false;
}

// The kind of an operation by its name without prefix and type; CusimOps: none of ours.
static int kind_of(const char *name, size_t length) {
  static const char *const adds[] = {"add", "sub", NULL}, *const muls[] = {"mul", "nmul", NULL};
  static const char *const specials[] = {"div", "sqrt", NULL};
  static const char *const fmas[] = {"madd", "msub", "nmadd", "nmsub", NULL};
  if (is_one_of(name, length, adds)) return CusimAdd;
  if (is_one_of(name, length, muls)) return CusimMul;
  if (is_one_of(name, length, fmas)) return CusimFma;
  return is_one_of(name, length, specials) ? CusimSpecial : CusimOps;
}

#if defined(__aarch64__)

static const char *const kCalls[] = {"bl", "b", NULL};

// fadd s0, s1, s2: the register says the type.
static void count_instruction(Row *row, const Line *line) {
  int kind = *line->op == 'f' ? kind_of(line->op + 1, strlen(line->op + 1)) : CusimOps;
  if (kind == CusimOps || line->operands == line->end) return;
  char type = *line->operands;
  if (type == 's' || type == 'd') row->ops[type == 's' ? CusimFp32 : CusimFp64][kind]++;
}

static bool is_branch(const Line *line) {
  static const char *const tests[] = {"cbz", "cbnz", "tbz", "tbnz", "br", NULL};
  static const char *const conditions[] = {"eq", "ne", "cs", "hs", "cc", "lo", "mi", "pl", "vs",
                                           "vc", "hi", "ls", "ge", "lt", "gt", "le", NULL};
  const char *condition = line->op + 1 + (line->op[0] && line->op[1] == '.');
  if (*line->op == 'b' && is_one_of(condition, strlen(condition), conditions)) return true;
  return is_one_of(line->op, strlen(line->op), tests);
}

#else

static const char *const kCalls[] = {"call", "callq", "jmp", NULL};

// vaddss, mulsd, vfmadd231ss. A packed form counts once: kernels that are counted are compiled
// without vectorising.
static void count_instruction(Row *row, const Line *line) {
  const char *name = line->op + (*line->op == 'v');
  size_t length = strlen(name);
  if (length < 5) return;
  const char *type = name + length - 2;
  if ((type[0] != 's' && type[0] != 'p') || (type[1] != 's' && type[1] != 'd')) return;
  length -= 2;
  bool fused = *name == 'f' && length > 4;
  if (fused) name++, length -= 4; // fmadd231
  int kind = kind_of(name, length);
  if (kind == CusimOps || fused != (kind == CusimFma)) return;
  row->ops[type[1] == 's' ? CusimFp32 : CusimFp64][kind]++;
}

static bool is_branch(const Line *line) {
  if (!strncmp(line->op, "jmp", 3)) return line->operands < line->end && *line->operands == '*';
  return *line->op == 'j';
}

#endif

// ---- calls --------------------------------------------------------------------------------------

// A call of the C library's mathematics counts as one special operation, fma as what it is.
static void count_call(Row *row, const char *name, size_t length) {
  static const char *const specials[] = {
      "exp",   "exp2",  "expm1",     "log",  "log2", "log10",  "log1p",  "sqrt",  "cbrt", "sin",
      "cos",   "tan",   "asin",      "acos", "atan", "sinh",   "cosh",   "tanh",  "pow",  "fmod",
      "atan2", "hypot", "remainder", "erf",  "erfc", "tgamma", "lgamma", "exp10", NULL};
  static const char *const fmas[] = {"fma", NULL};
  bool single = length > 1 && name[length - 1] == 'f' && !(length == 3 && !memcmp(name, "erf", 3));
  int width = single ? CusimFp32 : CusimFp64;
  if (is_one_of(name, length - single, fmas)) row->ops[width][CusimFma]++;
  if (is_one_of(name, length - single, specials)) row->ops[width][CusimSpecial]++;
}

static bool is_call(const Line *line) {
  return is_one_of(line->op, strlen(line->op), kCalls);
}

// ---- the pass -----------------------------------------------------------------------------------

static void print_row(Text *table, const Row *row, int number) {
  text_print(table, "\t.quad .Lcusim_block%d\n\t.short ", number);
  for (int i = 0; i < CusimWidths * CusimOps; i++)
    text_print(table, "%s%d", i ? "," : "", row->ops[i / CusimOps][i % CusimOps]);
  text_print(table, "\n\t.byte %d\n\t.balign 8\n", row->branches);
}

void assembly_count(const char *source, Text *out) {
  static const char announce[] = "__sanitizer_cov_trace_pc";
  Text table = {0};
  Row row = {.open = false};
  int rows = 0;
  for (const char *at = source; *at;) {
    const char *end = at + strcspn(at, "\n");
    Line line = split(at, end);
    text_append(out, at, (size_t)(end - at) + (*end == '\n'));
    at = end + (*end == '\n');
    size_t name = strcspn(line.operands, "@ \t\n");
    bool calls = is_call(&line);
    if (calls && name == sizeof announce - 1 && !memcmp(line.operands, announce, name)) {
      if (row.open) print_row(&table, &row, rows++);
      row = (Row){.open = true};
      text_print(out, ".Lcusim_block%d:\n", rows);
    } else if (!strcmp(line.op, ".size")) { // the function's end
      if (row.open) print_row(&table, &row, rows++);
      row.open = false;
    } else if (row.open) {
      if (calls) count_call(&row, line.operands, name);
      count_instruction(&row, &line);
      row.branches = row.branches || is_branch(&line);
    }
  }
  if (row.open) print_row(&table, &row, rows++);
  text_print(out,
             "\t.section .data.rel.ro.cusim,\"aw\"\n\t.balign 8\n\t.globl cusim_blocks\n"
             "cusim_blocks:\n%s\t.quad 0,0,0,0,0\n",
             table.data ? table.data : "");
  out->failed = out->failed || table.failed;
  text_free(&table);
}
