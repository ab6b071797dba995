// emit_matrix.c: ldmatrix, stmatrix, movmatrix, runs of mma.
#include "sim/ptx/ptx.h"

#include <string.h>

static const Operand *parts_of(Emitter *e, int index, int count) {
  const Operand *op = need_op(e, index);
  if (op->kind != OpVector || op->nparts != count)
    emit_fail(e, "operand %d holds %d registers", index + 1, count);
  return op->parts;
}

static int matrix_count(Emitter *e) {
  int n = instr_has(e->instr, "x1") ? 1 : instr_has(e->instr, "x2") ? 2
        : instr_has(e->instr, "x4") ? 4 : 0;
  if (!n) emit_fail(e, "x1, x2 or x4?");
  return n;
}

static void emit_ldmatrix(Emitter *e) {
  int n = matrix_count(e);
  PtxType u32 = ptx_type_of("u32");
  only_parts(e, 1, e->instr->nparts, "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16");
  const Operand *to = parts_of(e, 0, n);
  text_print(e->out, "{ u32 t_[%d]; cusim::ldmatrix<%d, %s>(t_, ", n, n,
             instr_has(e->instr, "trans") ? "true" : "false");
  emit_address(e, need_op(e, 1), instr_space(e->instr));
  text_print(e->out, ");");
  for (int i = 0; i < n; i++) {
    text_print(e->out, " ");
    emit_begin(e, &to[i], u32);
    text_print(e->out, "t_[%d]", i);
    emit_end(e, &to[i], u32);
  }
  text_print(e->out, " }");
}

static void emit_stmatrix(Emitter *e) {
  int n = matrix_count(e);
  only_parts(e, 1, e->instr->nparts, "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16");
  const Operand *from = parts_of(e, 1, n);
  text_print(e->out, "{ const u32 t_[%d] = {", n);
  for (int i = 0; i < n; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, &from[i], ptx_type_of("u32"));
  }
  text_print(e->out, "}; cusim::stmatrix<%d, %s>(t_, ", n,
             instr_has(e->instr, "trans") ? "true" : "false");
  emit_address(e, need_op(e, 0), instr_space(e->instr));
  text_print(e->out, "); }");
}

static void emit_movmatrix(Emitter *e) {
  PtxType u32 = ptx_type_of("u32");
  only_parts(e, 1, e->instr->nparts, "sync aligned m8n8 trans b16");
  emit_begin(e, need_op(e, 0), u32);
  text_print(e->out, "cusim::movmatrix(");
  emit_value(e, need_op(e, 1), u32);
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), u32);
}

// ---- mma ----------------------------------------------------------------------------------------

typedef struct MmaForm {
  const char *shape, *a, *b; // types of A and B
  const char *cd;            // of C and D
  int na, nb, ncd;           // 32-bit registers of each, f64: 64-bit
  const char *text;          // C++: the kind of product
} MmaForm;

// D has C's type in all forms that compilers emit, except for f16, where either may be f16 or f32.
static const MmaForm forms[] = {
    {"m16n8k16", "f16", "f16", "f32", 4, 2, 4, "cusim::Mma<cusim::F16, 16, 8, 16>"},
    {"m16n8k16", "bf16", "bf16", "f32", 4, 2, 4, "cusim::Mma<cusim::Bf16, 16, 8, 16>"},
    {"m16n8k8", "f16", "f16", "f32", 2, 1, 4, "cusim::Mma<cusim::F16, 16, 8, 8>"},
    {"m16n8k8", "bf16", "bf16", "f32", 2, 1, 4, "cusim::Mma<cusim::Bf16, 16, 8, 8>"},
    {"m16n8k16", "f16", "f16", "f16", 4, 2, 2, "cusim::Mma<cusim::F16, 16, 8, 16>"},
    {"m16n8k8", "f16", "f16", "f16", 2, 1, 2, "cusim::Mma<cusim::F16, 16, 8, 8>"},
    {"m16n8k8", "tf32", "tf32", "f32", 4, 2, 4, "cusim::Mma<cusim::Tf32, 16, 8, 8>"},
    {"m16n8k4", "tf32", "tf32", "f32", 2, 1, 4, "cusim::Mma<cusim::Tf32, 16, 8, 4>"},
    {"m16n8k32", "s8", "s8", "s32", 4, 2, 4, "cusim::Mma<cusim::S8, 16, 8, 32>"},
    {"m16n8k32", "u8", "u8", "s32", 4, 2, 4, "cusim::Mma<cusim::U8, 16, 8, 32>"},
    {"m16n8k16", "s8", "s8", "s32", 2, 1, 4, "cusim::Mma<cusim::S8, 16, 8, 16>"},
    {"m16n8k16", "u8", "u8", "s32", 2, 1, 4, "cusim::Mma<cusim::U8, 16, 8, 16>"},
    {"m16n8k32", "e4m3", "e4m3", "f32", 4, 2, 4, "cusim::Mma<cusim::E4m3, 16, 8, 32>"},
    {"m16n8k32", "e5m2", "e5m2", "f32", 4, 2, 4, "cusim::Mma<cusim::E5m2, 16, 8, 32>"},
    {"m16n8k16", "e4m3", "e4m3", "f32", 2, 1, 4, "cusim::Mma<cusim::E4m3, 16, 8, 16>"},
    {"m16n8k16", "e5m2", "e5m2", "f32", 2, 1, 4, "cusim::Mma<cusim::E5m2, 16, 8, 16>"},
};

static const MmaForm *find_form(const Instr *in) {
  if (in->nparts < 6 || strcmp(in->part[0], "mma") != 0) return NULL;
  const char *const *types = &in->part[in->nparts - 4]; // d, a, b, c
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (instr_has(in, forms[i].shape) && !strcmp(types[1], forms[i].a) &&
        !strcmp(types[2], forms[i].b) && !strcmp(types[3], forms[i].cd) &&
        !strcmp(types[0], forms[i].cd))
      return &forms[i];
  return NULL;
}

static bool same_products(const Instr *a, const Instr *b) {
  return b->label == NULL && !strcmp(a->opcode, b->opcode) && b->pred < 0 && b->nops == 4;
}

typedef struct Slots { // the registers of a run of products, each once
  int reg[512];
  int count, used_as_a_result[512];
} Slots;

static int slot_of(Slots *slots, const Operand *op) {
  if (op->kind != OpReg) return -1;
  for (int i = 0; i < slots->count; i++)
    if (slots->reg[i] == op->reg) return i;
  if (slots->count == 512) return -1;
  slots->used_as_a_result[slots->count] = 0;
  slots->reg[slots->count] = op->reg;
  return slots->count++;
}

static bool gather(Emitter *e, const Instr *in, const MmaForm *form, Slots *slots, int *out) {
  const int counts[] = {form->ncd, form->na, form->nb, form->ncd};
  e->instr = in;
  for (int o = 0, n = 0; o < 4; o++) {
    const Operand *parts = parts_of(e, o, counts[o]);
    for (int i = 0; i < counts[o]; i++) {
      if (o == 3 && parts[i].kind != OpReg) { // a constant: 0
        if (parts[i].bits) return false;
        out[n++] = -1;
        continue;
      }
      int slot = slot_of(slots, &parts[i]);
      if (slot < 0) return false;
      if (o == 0) slots->used_as_a_result[slot] = 1;
      out[n++] = slot;
    }
  }
  return true;
}

enum { kMostRun = 64, kRow = 17, kMostGroup = 8 }; // a row of the table: operands of MmaRun's map

static bool share(const int *a, int na, const int *b, int nb) {
  for (int i = 0; i < na; i++)
    for (int k = 0; k < nb; k++)
      if (a[i] == b[k] && a[i] >= 0) return true;
  return false;
}

static bool same(const int *a, const int *b, int n) {
  return !memcmp(a, b, (size_t)n * sizeof *a);
}

// True if mma `at` can join the group from `first` on: same A, and it neither reads nor writes
// their results.
static bool joins(int (*table)[kRow], const MmaForm *form, int first, int at) {
  int a = 1 + form->ncd, all = 2 * form->ncd + form->na + form->nb;
  if (!same(&table[at][a], &table[first][a], form->na)) return false;
  for (int i = first; i < at; i++)
    if (share(&table[i][1], form->ncd, &table[at][1], all)) return false;
  return true;
}

// Whether the group at `next` has the B of the one before it, which no result has changed.
static bool keeps_b(int (*table)[kRow], const MmaForm *form, int before, int next, int n) {
  int b = 1 + form->ncd + form->na;
  for (int i = 0; i < n; i++) {
    if (!same(&table[before + i][b], &table[next + i][b], form->nb)) return false;
    for (int k = 0; k < n; k++)
      if (share(&table[before + k][1], form->ncd, &table[next + i][b], form->nb)) return false;
  }
  return true;
}

// The first number of each row: the size of its group, a power of two, that is executed at once.
static void make_groups(int (*table)[kRow], const MmaForm *form, int count) {
  int before = -1, before_n = 0;
  for (int first = 0, n; first < count; first += n) {
    int most = 1;
    while (most < kMostGroup && first + most < count && joins(table, form, first, first + most))
      most++;
    for (n = 1; 2 * n <= most; n *= 2) {
    }
    bool kept = before_n == n && keeps_b(table, form, before, first, n);
    for (int i = 0; i < n; i++) table[first + i][0] = i ? 0 : kept ? -n : n;
    before = first, before_n = n;
  }
}

// Consecutive mma of one kind are one warp collective: their registers are copied to slots, a table
// maps each mma to slots, and the results are copied back.
bool emit_wide_run(Emitter *e, const Instr *instr, int *count) {
  const MmaForm *form = find_form(instr);
  if (!form || instr->pred >= 0 || instr_has(instr, "satfinite")) return false;
  int room = (int)(e->func->body + e->func->nbody - instr), n = 0;
  int table[kMostRun][kRow];
  Slots *slots = ptx_alloc(e->ptx, sizeof *slots);
  while (n < kMostRun && n < room && same_products(instr, &instr[n])) {
    if (slots->count > 400 || !gather(e, &instr[n], form, slots, &table[n][1])) break;
    n++;
  }
  e->instr = instr;
  if (!n) return false;
  for (int i = 0; i < n; i++) {
    e->instr = &instr[i];
    lint_instr(e);
  }
  e->instr = instr;
  only_parts(e, 1, instr->nparts - 4,
             "sync aligned row col m16n8k4 m16n8k8 m16n8k16 m16n8k32 kind::f8f6f4");
  make_groups(table, form, n);
  int words = 1 + 2 * form->ncd + form->na + form->nb;
  text_print(e->out, "{ u32 t_[%d] = {", slots->count);
  PtxType u32 = ptx_type_of("u32");
  for (int i = 0; i < slots->count; i++) {
    Operand op = {.kind = OpReg, .reg = slots->reg[i]};
    if (i) text_print(e->out, ", ");
    emit_value(e, &op, u32);
  }
  text_print(e->out, "}; static const short map_[%d][%d] = {", n, words);
  for (int i = 0; i < n; i++) {
    text_print(e->out, "%s{", i ? ", " : "");
    for (int k = 0; k < words; k++) text_print(e->out, "%s%d", k ? "," : "", table[i][k]);
    text_print(e->out, "}");
  }
  text_print(e->out, "}; cusim::mma_run<%s, %s>(t_, &map_[0][0], %d);", form->text,
             !strcmp(form->cd, "f16") ? "true" : "false", n);
  for (int i = 0; i < slots->count; i++) {
    if (!slots->used_as_a_result[i]) continue;
    Operand op = {.kind = OpReg, .reg = slots->reg[i]};
    text_print(e->out, " ");
    emit_begin(e, &op, u32);
    text_print(e->out, "t_[%d]", i);
    emit_end(e, &op, u32);
  }
  text_print(e->out, " }");
  *count = n;
  return true;
}

const EmitRow emit_matrix_rows[] = {{"ldmatrix", emit_ldmatrix},
                                    {"stmatrix", emit_stmatrix},
                                    {"movmatrix", emit_movmatrix},
                                    {0}};
