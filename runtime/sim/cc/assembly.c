// assembly.c: counts the arithmetic in a kernel's compiled code (NNGEN_SIM_COUNT=1).
//
// A counted kernel is compiled to assembly, with a call at the head of each basic block
// (-fsanitize-coverage=trace-pc). One pass over the text counts the floating-point instructions
// from each such call to the next, puts a label after the call, and appends the table
// cusim_blocks: the label's address and the counts. Instructions that the scheduler moved before
// the call, after the last label or jump, belong to the block. While the kernel runs, the
// return address of the call finds the row (flow.c). So optimised code is counted,
// as by a GPU's counters: a multiplication and an addition that became one fma count as one.
#include "sim/cc/cc.h"

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

typedef struct Pass {
  Text *out, table;
  Row row;    // of the last announced block
  Row ahead;  // since the last label or jump: belongs to the next block if it is announced soon
  bool fresh; // there was one since the announcement
  int rows;
} Pass;

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

// The kind of an operation by its name without prefix and type; CusimOps if not counted.
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

// fadd s0, s1, s2; fadd v0.4s, v1.4s, v2.4s: the register gives the type and the number.
static void count_instruction(Row *row, const Line *line) {
  int kind = *line->op == 'f' ? kind_of(line->op + 1, strlen(line->op + 1)) : CusimOps;
  if (kind == CusimOps || line->operands == line->end) return;
  char type = *line->operands;
  int count = 1;
  if (type == 'v' && sscanf(line->operands, "v%*d.%d%c", &count, &type) != 2) return;
  if (type == 's' || type == 'd') row->ops[type == 's' ? CusimFp32 : CusimFp64][kind] += count;
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

// How many values the registers of a packed instruction hold.
static int packed_count(const Line *line, int bytes) {
  int width = 16;
  for (const char *at = line->operands; at + 4 < line->end; at++)
    if (!memcmp(at, "%ymm", 4) || !memcmp(at, "%zmm", 4)) width = at[1] == 'y' ? 32 : 64;
  return width / bytes;
}

// vaddss, mulsd, vfmadd231ss; vaddps counts each addition: counted kernels are compiled without
// vectorising, but some are written with vectors.
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
  bool single = type[1] == 's';
  row->ops[single ? CusimFp32 : CusimFp64][kind] +=
      *type == 's' ? 1 : packed_count(line, single ? 4 : 8);
}

static bool is_branch(const Line *line) {
  if (!strncmp(line->op, "jmp", 3)) return line->operands < line->end && *line->operands == '*';
  return *line->op == 'j';
}

#endif

// ---- calls --------------------------------------------------------------------------------------

// A call of a math function counts as one special operation, fma as fma.
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

static void add_row(Row *to, const Row *from) {
  for (int i = 0; i < CusimWidths * CusimOps; i++)
    to->ops[i / CusimOps][i % CusimOps] += from->ops[i / CusimOps][i % CusimOps];
}

static void print_row(Text *table, const Row *row, int number) {
  text_print(table, "\t.quad .Lcusim_block%d\n\t.short ", number);
  for (int i = 0; i < CusimWidths * CusimOps; i++)
    text_print(table, "%s%d", i ? "," : "", row->ops[i / CusimOps][i % CusimOps]);
  text_print(table, "\n\t.byte %d\n\t.balign 8\n", row->branches);
}

// A block begins at a label or after a jump. One that is not announced belongs to the last one that
// was.
static void settle(Pass *p) {
  add_row(&p->row, &p->ahead);
  p->ahead = (Row){.open = false};
  p->fresh = true;
}

static void close_row(Pass *p) {
  if (p->row.open) print_row(&p->table, &p->row, p->rows++);
  p->row.open = false;
}

// At a call that announces a block.
static void open_row(Pass *p) {
  if (!p->fresh) settle(p);
  close_row(p);
  p->row = p->ahead;
  p->row.open = true;
  p->ahead = (Row){.open = false};
  p->fresh = false;
  text_print(p->out, ".Lcusim_block%d:\n", p->rows);
}

// GCC's .L12: and Clang's .LBB3_4:, not the labels of debug information.
static bool is_block_label(const char *op) {
  if (strncmp(op, ".L", 2) != 0) return false;
  op += strncmp(op, ".LBB", 4) == 0 && strchr(op, '_') ? 4 : 2;
  return *op && op[strspn(op, "0123456789_")] == ':';
}

static bool is_announcement(const char *name, size_t length) {
  static const char *const announce[] = {"__sanitizer_cov_trace_pc", NULL};
  return is_one_of(name, length, announce);
}

static void take_line(Pass *p, const Line *line) {
  size_t name = strcspn(line->operands, "@ \t\n");
  bool calls = is_call(line);
  if (calls && is_announcement(line->operands, name)) {
    open_row(p);
  } else if (!strcmp(line->op, ".size")) { // the function's end
    settle(p);
    close_row(p);
  } else if (is_block_label(line->op)) {
    settle(p);
  } else {
    if (calls) count_call(&p->ahead, line->operands, name);
    count_instruction(&p->ahead, line);
    bool branches = is_branch(line);
    p->row.branches = p->row.branches || branches;
    if (branches) settle(p);
  }
}

void assembly_count(const char *source, Text *out) {
  Pass p = {.out = out};
  for (const char *at = source; *at;) {
    const char *end = at + strcspn(at, "\n"), *next = end + (*end == '\n');
    Line line = split(at, end);
    text_append(out, at, (size_t)(next - at));
    take_line(&p, &line);
    at = next;
  }
  settle(&p);
  close_row(&p);
  text_print(out,
             "\t.section .data.rel.ro.cusim,\"aw\"\n\t.balign 8\n\t.globl cusim_blocks\n"
             "cusim_blocks:\n%s\t.quad 0,0,0,0,0\n",
             p.table.data ? p.table.data : "");
  out->failed = out->failed || p.table.failed;
  text_free(&p.table);
}
