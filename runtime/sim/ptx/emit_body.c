// emit_body.c: a statement per instruction: values, addresses, results, lines.
#include "sim/ptx/ptx.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void emit_fail(const Emitter *e, const char *format, ...) {
  char text[400];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  ptx_fail(e->ptx, CUDA_ERROR_INVALID_PTX, e->instr ? e->instr->line : 0, "%s: %s",
           e->instr ? e->instr->opcode : e->func->name, text);
}

bool instr_has(const Instr *instr, const char *part) {
  for (int i = 1; i < instr->nparts; i++)
    if (!strcmp(instr->part[i], part)) return true;
  return false;
}

PtxType instr_type(Emitter *e, int from_end) {
  int i = e->instr->nparts - 1 - from_end;
  PtxType type = i > 0 ? ptx_type_of(e->instr->part[i]) : (PtxType){0};
  if (!type.kind) emit_fail(e, "a type is missing");
  return type;
}

const Operand *need_op(Emitter *e, int index) {
  if (index >= e->instr->nops) emit_fail(e, "operand %d is missing", index + 1);
  if (index > e->most) e->most = index;
  return &e->instr->op[index];
}

static bool in_words(const char *words, const char *part) {
  size_t n = strlen(part);
  for (const char *at = words; (at = strstr(at, part)); at += n)
    if ((at == words || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

void only_parts(Emitter *e, int first, int end, const char *words) {
  if (end > e->instr->nparts) emit_fail(e, "it needs more pieces");
  for (int i = first; i < end; i++)
    if (!in_words(words, e->instr->part[i]))
      emit_fail(e, "`.%s` is not known here", e->instr->part[i]);
}

PtxSpace instr_space(const Instr *instr) {
  static const struct {
    const char *word;
    PtxSpace space;
  } spaces[] = {{"global", SpaceGlobal}, {"shared", SpaceShared},     {"shared::cta", SpaceShared},
                {"const", SpaceConst},   {"local", SpaceLocal},       {"param", SpaceParam},
                {"param::entry", SpaceParam}, {"param::func", SpaceParam}};
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
    if (instr_has(instr, spaces[i].word)) return spaces[i].space;
  return SpaceGeneric;
}

// ---- special registers --------------------------------------------------------------------------

static int component(Emitter *e, const char *name) {
  const char *dot = strchr(name, '.');
  int i = dot ? dot[1] - 'x' : 0;
  if (dot && dot[1] == 'w') return 3;
  if (i < 0 || i > 2) emit_fail(e, "%s: there is no such component", name);
  return i;
}

static void emit_special(Emitter *e, const Operand *op) {
  static const struct {
    const char *name, *text;
  } plain[] = {
      {"%laneid", "x_lane()"},
      {"%warpid", "(cusim_self->linear / 32)"},
      {"%nwarpid", "x_warps()"},
      {"%smid", "x_smid()"},
      {"%nsmid", "u32(cusim_multiprocessors())"},
      {"%gridid", "0ull"},
      {"%lanemask_eq", "(1u << x_lane())"},
      {"%lanemask_le", "((2u << x_lane()) - 1)"},
      {"%lanemask_lt", "((1u << x_lane()) - 1)"},
      {"%lanemask_ge", "(~0u << x_lane())"},
      {"%lanemask_gt", "(~0u << x_lane() << 1)"},
      {"%clock", "u32(cusim_clock())"},
      {"%clock_hi", "u32(cusim_clock() >> 32)"},
      {"%clock64", "u64(cusim_clock())"},
      {"%globaltimer", "u64(cusim_nanotime())"},
      {"%globaltimer_lo", "u32(cusim_nanotime())"},
      {"%globaltimer_hi", "u32(u64(cusim_nanotime()) >> 32)"},
      {"%dynamic_smem_size", "(cusim_self->smem_bytes - cusim_self->smem_static)"},
      {"%total_smem_size", "cusim_self->smem_bytes"},
      {"%aggr_smem_size", "(cusim_self->smem_bytes + 1024)"},
      {"%reserved_smem_offset_begin", "0u"},
      {"%current_graph_exec", "0ull"},
      {"%reserved_smem_offset_end", "1024u"},
      {"%reserved_smem_offset_cap", "1024u"},
  };
  static const struct {
    const char *name, *field;
  } vectors[] = {{"%tid", "thread"},       {"%ntid", "block_dim"},       {"%ctaid", "block"},
                 {"%nctaid", "grid_dim"}};
  size_t n = strcspn(op->name, ".");
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (!strcmp(plain[i].name, op->name)) {
      text_print(e->out, "%s", plain[i].text);
      return;
    }
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
    if (strlen(vectors[i].name) == n && !strncmp(vectors[i].name, op->name, n)) {
      int c = component(e, op->name);
      text_print(e->out, c < 3 ? "cusim_self->%s[%d]" : "0u", vectors[i].field, c);
      return;
    }
  if (!strncmp(op->name, "%pm", 3)) // hardware counters, which are not running
    text_print(e->out, strstr(op->name, "_64") ? "0ull" : "0u");
  else if (!strncmp(op->name, "%envreg", 7))
    text_print(e->out, "x_envreg(%d)", atoi(op->name + 7));
  else if (!strncmp(op->name, "%cluster", 8) || !strncmp(op->name, "%nclusterid", 11) ||
           !strncmp(op->name, "%is_explicit_cluster", 20))
    text_print(e->out, "x_%.*s(%d)", (int)n - 1, op->name + 1, component(e, op->name));
  else
    emit_fail(e, "%s is not modelled", op->name);
}

// ---- values -------------------------------------------------------------------------------------

const char *emit_int_name(PtxType type) {
  static const char *const names[] = {"u8", "u16", "u32", "u64", "b128"};
  return names[type.bits <= 8 ? 0 : type.bits == 16 ? 1 : type.bits == 32 ? 2
                                : type.bits == 64   ? 3 : 4];
}

bool is_integer(PtxType type) {
  return type.kind == KindBits || type.kind == KindUnsigned || type.kind == KindSigned;
}

static bool is_host_float(PtxType type) {
  return !strcmp(type.name, "f32") || !strcmp(type.name, "f64");
}

static void emit_reg(Emitter *e, const Operand *op, PtxType type) {
  const PtxReg *reg = &e->func->regs[op->reg];
  if (type.kind == KindPred || reg->type.kind == KindPred) {
    if (type.kind != KindPred || reg->type.kind != KindPred)
      emit_fail(e, "%s: a predicate and a number", reg->c_name);
    text_print(e->out, "%s%s", op->negated ? "!" : "", reg->c_name);
    return;
  }
  lint_width(e, reg, type);
  bool same = reg->type.bits == type.bits;
  if (reg->is_float && same && is_host_float(type))
    text_print(e->out, "%s", reg->c_name);
  else if (is_host_float(type) && same)
    text_print(e->out, "flt(%s)", reg->c_name);
  else if (is_integer(type) && !reg->is_float)
    text_print(e->out, same && type.kind != KindSigned ? "%s%s" : "(%s)%s",
               same && type.kind != KindSigned ? "" : type.name, reg->c_name);
  else if (is_integer(type))
    text_print(e->out, "(%s)bits(%s)", type.name, reg->c_name);
  else if (is_host_float(type))
    text_print(e->out, "flt((%s)%s)", emit_int_name(type), reg->c_name);
  else
    text_print(e->out, "%s{(%s)%s%s%s}", type.name, emit_int_name(type),
               reg->is_float ? "bits(" : "",
               reg->c_name, reg->is_float ? ")" : "");
}

static void emit_constant(Emitter *e, const Operand *op, PtxType type) {
  uint64_t bits = op->bits;
  if (type.kind == KindPred) {
    text_print(e->out, "%s", (bits != 0) != op->negated ? "true" : "false");
    return;
  }
  if (!strcmp(type.name, "f32") && op->kind == OpDouble) {
    double d;
    memcpy(&d, &bits, sizeof d);
    float f = (float)d;
    bits = 0;
    memcpy(&bits, &f, sizeof f);
  } else if (!strcmp(type.name, "f64") && op->kind == OpFloat) {
    uint32_t word = (uint32_t)bits;
    float f;
    memcpy(&f, &word, sizeof f);
    double d = f;
    memcpy(&bits, &d, sizeof d);
  }
  if (type.bits < 64) bits &= (1ull << type.bits) - 1;
  const char *tail = type.bits > 32 ? "ull" : "u";
  if (is_host_float(type))
    text_print(e->out, "flt(0x%llx%s)", (unsigned long long)bits, tail);
  else if (is_integer(type))
    text_print(e->out, "(%s)%llu%s", type.name, (unsigned long long)bits, tail);
  else
    text_print(e->out, "%s{(%s)0x%llx%s}", type.name, emit_int_name(type), (unsigned long long)bits,
               tail);
}

bool is_kernel_param(const Emitter *e, const PtxVar *var) {
  for (int i = 0; e->func->entry && i < e->func->nparams; i++)
    if (e->func->params[i] == var) return true;
  return false;
}

// Its address in its space: for a kernel's parameter the distance from the first one.
static void emit_var_address(Emitter *e, const PtxVar *var, uint64_t distance) {
  if (is_kernel_param(e, var))
    text_print(e->out, "%lluull", (unsigned long long)(var->offset + distance));
  else
    text_print(e->out, "(u64(%s) + %lldll)", var->c_name, (long long)distance);
}

void emit_value(Emitter *e, const Operand *op, PtxType type) {
  switch (op->kind) {
  case OpReg:
    emit_reg(e, op, type);
    break;
  case OpInt:
  case OpFloat:
  case OpDouble:
    emit_constant(e, op, type);
    break;
  case OpVar:
    text_print(e->out, "(%s)", emit_int_name(type));
    emit_var_address(e, op->var, op->bits);
    break;
  case OpFunc:
    text_print(e->out, "(u64)&%s", module_func(e->module, op->name)->c_name);
    break;
  case OpSpecial:
    text_print(e->out, "(%s)", emit_int_name(type));
    emit_special(e, op);
    break;
  default:
    emit_fail(e, "an operand that is no value");
  }
}

void emit_address(Emitter *e, const Operand *op, PtxSpace space) {
  if (op->kind != OpAddress) emit_fail(e, "`[address]` is awaited");
  const Operand *base = &op->parts[0];
  PtxType wide = ptx_type_of("u64");
  bool zero = base->kind == OpInt;
  lint_address(e, base, space);
  int bits = base->kind == OpReg ? e->func->regs[base->reg].type.bits : 64;
  if (bits < 64) wide = ptx_type_of(bits == 32 ? "u32" : "u16");
  if (base->kind == OpVar && space == SpaceGeneric && base->var->space != SpaceGlobal)
    space = base->var->space;
  const char *before = space == SpaceShared  ? "(SB + (u32)("
                       : space == SpaceParam ? "(PB + (u32)("
                                             : "(u8 *)(u64)((";
  bool local = base->kind == OpVar && space == SpaceParam && !is_kernel_param(e, base->var);
  if (local) before = "(u8 *)((";
  text_print(e->out, "%s", before);
  if (zero)
    text_print(e->out, "0ull");
  else
    emit_value(e, base, wide);
  if (op->bits) text_print(e->out, " + %lldll", (long long)op->bits);
  text_print(e->out, "))");
}

// ---- results ------------------------------------------------------------------------------------

void emit_begin(Emitter *e, const Operand *target, PtxType type) {
  if (target->kind == OpSink) {
    text_print(e->out, "(void)(");
    return;
  }
  if (target->kind != OpReg) emit_fail(e, "the result's place is no register");
  const PtxReg *reg = &e->func->regs[target->reg];
  if ((type.kind == KindPred) != (reg->type.kind == KindPred))
    emit_fail(e, "%s: a predicate and a number", reg->c_name);
  lint_width(e, reg, type);
  bool same = reg->type.bits == type.bits;
  text_print(e->out, "%s = ", reg->c_name);
  if (type.kind == KindPred)
    text_print(e->out, "(");
  else if (reg->is_float && same && is_host_float(type))
    text_print(e->out, "(");
  else if (reg->is_float)
    text_print(e->out, "flt((%s)bits(", emit_int_name(reg->type));
  else
    text_print(e->out, "(%s)(%s(", emit_int_name(reg->type), is_integer(type) ? "" : "bits");
}

void emit_end(Emitter *e, const Operand *target, PtxType type) {
  bool plain = target->kind == OpSink || type.kind == KindPred;
  if (!plain) {
    const PtxReg *reg = &e->func->regs[target->reg];
    plain = reg->is_float && reg->type.bits == type.bits && is_host_float(type);
  }
  text_print(e->out, plain ? ");" : "));");
}

// ---- instructions -------------------------------------------------------------------------------

// The row whose pieces the opcode begins with; the longest of several.
static const EmitRow *find_row(const Instr *instr) {
  const EmitRow *const tables[] = {emit_arith_rows,  emit_convert_rows, emit_memory_rows,
                                   emit_control_rows, emit_warp_rows,   emit_matrix_rows,
                                   emit_mma_rows,     emit_wmma_rows,    emit_hopper_rows,
                                   emit_cluster_rows, emit_wgmma_rows,   emit_video_rows};
  const EmitRow *best = NULL;
  size_t length = 0;
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const EmitRow *row = tables[t]; row->name; row++) {
      size_t n = strlen(row->name);
      if (n < length || strncmp(row->name, instr->opcode, n) != 0) continue;
      if (instr->opcode[n] && instr->opcode[n] != '.') continue;
      best = row, length = n;
    }
  return best;
}

static bool is_video(const EmitRow *row) {
  for (const EmitRow *r = emit_video_rows; r->name; r++)
    if (r == row) return true;
  return false;
}

static bool is_changed(const Operand *op) { // a register in it
  if (op->select || op->minus) return true;
  for (int i = 0; i < op->nparts; i++)
    if (is_changed(&op->parts[i])) return true;
  return false;
}

static const char *escape(const char *name, char text[512]) {
  size_t n = 0;
  for (; *name && n < 500; name++)
    if (*name != '"' && *name != '\n') text[n++] = *name;
  text[n] = 0;
  return text;
}

// True for library code: a report names the line that called it.
static bool is_library(const PtxModule *m, int file) {
  const char *name = file > 0 && file < m->nfiles ? m->files[file] : NULL;
  return name && (strstr(name, "lib/prim_cuda") || strstr(name, "/include/"));
}

// Reports and gdb name the line of CUDA source; without .loc, that of the PTX text.
void emit_line(Emitter *e, const Instr *instr) {
  const PtxModule *m = e->module;
  const PtxLoc *loc = &m->locs[instr->loc];
  char name[512];
  for (int i = 0; i < 64 && loc->outer && is_library(m, loc->file); i++) loc = &m->locs[loc->outer];
  bool known = loc->file > 0 && loc->file < m->nfiles && m->files[loc->file];
  int file = known ? loc->file : 0, line = known ? loc->line : instr->line;
  if (file == e->file && line == e->line) {
    text_print(e->out, " ");
    return;
  }
  text_print(e->out, "\n#line %d", line ? line : 1);
  if (file != e->file)
    text_print(e->out, " \"%s\"", known ? escape(m->files[file], name) : "ptx");
  text_print(e->out, "\n");
  e->file = file;
  e->line = line;
}

static bool is_arith(const EmitRow *row) {
  const EmitRow *at = emit_arith_rows;
  while (at->name && at != row) at++;
  return at->name;
}

void emit_instr(Emitter *e, const Instr *instr) {
  e->instr = instr;
  const EmitRow *row = find_row(instr);
  if (!row) emit_fail(e, "this instruction is not known");
  lint_instr(e);
  for (int i = 0; i < instr->nops; i++)
    if (is_changed(&instr->op[i]) && !is_video(row))
      emit_fail(e, "a part of a register, or a minus sign before one");
  if (instr->pred >= 0)
    text_print(e->out, "if (%s%s) { ", instr->pred_not ? "!" : "",
               e->func->regs[instr->pred].c_name);
  pending_before(e);
  e->most = -1;
  row->emit(e);
  if (is_arith(row) && e->most < instr->nops - 1) // hints of other instructions are not read
    emit_fail(e, "%d operands are awaited", e->most + 1);
  pending_behind(e);
  if (instr->pred >= 0) text_print(e->out, " }");
}
