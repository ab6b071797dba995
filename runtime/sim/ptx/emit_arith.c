// emit_arith.c: arithmetic, logic, comparisons: how they are written as C++.
#include "sim/ptx/ptx.h"

#include <string.h>

static bool is_int(PtxType t) {
  return t.kind == KindBits || t.kind == KindUnsigned || t.kind == KindSigned;
}

static PtxType bits_type(PtxType t, int times) { // unsigned, with `times` as many bits
  int bits = t.bits * times;
  return ptx_type_of(bits == 8 ? "u8" : bits == 16 ? "u16" : bits == 32 ? "u32" : "u64");
}

static PtxType wide_type(Emitter *e, PtxType t) {
  if (t.kind == KindUnsigned && t.bits == 16) return ptx_type_of("u32");
  if (t.kind == KindUnsigned && t.bits == 32) return ptx_type_of("u64");
  if (t.kind == KindSigned && t.bits == 16) return ptx_type_of("s32");
  if (t.kind == KindSigned && t.bits == 32) return ptx_type_of("s64");
  emit_fail(e, "`.wide` of this type");
}

// d = name(sources); each source has its own type.
static void call(Emitter *e, PtxType result, const char *name, int count, const PtxType *types) {
  emit_begin(e, need_op(e, 0), result);
  text_print(e->out, "%s(", name);
  for (int i = 0; i < count; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, need_op(e, i + 1), types[i]);
  }
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), result);
}

static void call_same(Emitter *e, const char *name, PtxType type, int count) {
  const PtxType types[] = {type, type, type, type};
  call(e, type, name, count, types);
}

// d = a op b, in unsigned arithmetic, which wraps around as PTX does.
static void infix(Emitter *e, const char *op, PtxType type) {
  emit_begin(e, need_op(e, 0), type);
  emit_value(e, need_op(e, 1), type);
  text_print(e->out, " %s ", op);
  emit_value(e, need_op(e, 2), type);
  emit_end(e, need_op(e, 0), type);
}

// ---- floating point: the name of a function by its modifiers ------------------------------------

// "x_fma" and its variants: _rz, _rm, _rp; template arguments: ftz, sat.
static void call_float(Emitter *e, const char *name, int count, const char *more) {
  PtxType type = instr_type(e, 0);
  char text[96];
  const Instr *in = e->instr;
  const char *mode = instr_has(in, "rz") ? "_rz" : instr_has(in, "rm") ? "_rm"
                   : instr_has(in, "rp") ? "_rp" : "";
  char known[128];
  snprintf(known, sizeof known, "rn rz rm rp ftz sat %s", more);
  only_parts(e, 1, in->nparts - 1, known);
  bool fused = !strcmp(name, "x_fma") && *type.name == 'b';
  if (*mode && strstr(type.name, "f16") && !fused) emit_fail(e, "of 16 bits it is to nearest");
  bool ftz = instr_has(in, "ftz"), sat = instr_has(in, "sat"), relu = instr_has(in, "relu");
  const char *around = sat ? "x_sat" : relu ? "x_relu" : "";
  snprintf(text, sizeof text, "%s%s%s", name, mode, ftz ? "_ftz" : "");
  const PtxType types[] = {type, type, type};
  emit_begin(e, need_op(e, 0), type);
  text_print(e->out, "%s(%s(", around, text);
  for (int i = 0; i < count; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, need_op(e, i + 1), types[i]);
  }
  text_print(e->out, "))");
  emit_end(e, need_op(e, 0), type);
}

static bool is_pair_of_integers(PtxType type) { // u16x2, s16x2
  return type.kind != KindFloat && strstr(type.name, "x2");
}

static void emit_add(Emitter *e) {
  PtxType type = instr_type(e, 0);
  bool minus = !strcmp(e->instr->part[0], "sub");
  if (type.kind == KindFloat) {
    call_float(e, minus ? "x_sub" : "x_add", 2, "");
  } else if (instr_has(e->instr, "cc") || strlen(e->instr->part[0]) == 4) {
    bool in = strlen(e->instr->part[0]) == 4, out = instr_has(e->instr, "cc");
    minus = !strncmp(e->instr->part[0], "sub", 3);
    only_parts(e, 1, e->instr->nparts - 1, "cc");
    emit_begin(e, need_op(e, 0), bits_type(type, 1));
    text_print(e->out, "x_%s%s%s(CC, ", minus ? "sub" : "add", in ? "c" : "", out ? "cc" : "");
    emit_value(e, need_op(e, 1), bits_type(type, 1));
    text_print(e->out, ", ");
    emit_value(e, need_op(e, 2), bits_type(type, 1));
    text_print(e->out, ")");
    emit_end(e, need_op(e, 0), bits_type(type, 1));
  } else if (is_pair_of_integers(type)) {
    only_parts(e, 1, e->instr->nparts - 1, "");
    call_same(e, minus ? "x_sub16x2" : "x_add16x2", ptx_type_of("u32"), 2);
  } else if (instr_has(e->instr, "sat")) {
    call_same(e, minus ? "x_subsat" : "x_addsat", type, 2);
  } else {
    only_parts(e, 1, e->instr->nparts - 1, "");
    infix(e, minus ? "-" : "+", bits_type(type, 1));
  }
}

static void emit_mul(Emitter *e) {
  PtxType type = instr_type(e, 0);
  if (type.kind == KindFloat) {
    call_float(e, "x_mul", 2, "");
    return;
  }
  only_parts(e, 1, e->instr->nparts - 1, "lo hi wide");
  if (instr_has(e->instr, "wide")) {
    PtxType wide = wide_type(e, type);
    emit_begin(e, need_op(e, 0), wide);
    text_print(e->out, "(%s)", wide.name);
    emit_value(e, need_op(e, 1), type);
    text_print(e->out, " * (%s)", wide.name);
    emit_value(e, need_op(e, 2), type);
    emit_end(e, need_op(e, 0), wide);
  } else if (instr_has(e->instr, "hi")) {
    call_same(e, "x_mulhi", type, 2);
  } else {
    call_same(e, "x_mullo", bits_type(type, 1), 2);
  }
}

// madc.hi.sat.s32 d, a, b, c
static void emit_mad_carry_sat(Emitter *e, PtxType type) {
  emit_begin(e, need_op(e, 0), type);
  text_print(e->out, "x_madchisat(CC");
  for (int i = 1; i < 4; i++) {
    text_print(e->out, ", ");
    emit_value(e, need_op(e, i), type);
  }
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), type);
}

static void emit_mad(Emitter *e) {
  PtxType type = instr_type(e, 0);
  if (type.kind == KindFloat) {
    call_float(e, "x_fma", 3, "");
    return;
  }
  if (instr_has(e->instr, "wide")) {
    PtxType wide = wide_type(e, type);
    const PtxType types[] = {type, type, wide};
    call(e, wide, type.kind == KindSigned ? "x_madwide_s" : "x_madwide_u", 3, types);
    return;
  }
  bool carry = instr_has(e->instr, "cc") || !strcmp(e->instr->part[0], "madc");
  if (carry) {
    bool in = !strcmp(e->instr->part[0], "madc"), out = instr_has(e->instr, "cc");
    only_parts(e, 1, e->instr->nparts - 1, "lo hi cc sat");
    if (instr_has(e->instr, "sat")) {
      emit_mad_carry_sat(e, type);
      return;
    }
    emit_begin(e, need_op(e, 0), bits_type(type, 1));
    text_print(e->out, "x_add%s%s(CC, (u%d)%s(", in ? "c" : "", out ? "cc" : "", type.bits,
               instr_has(e->instr, "hi") ? "x_mulhi" : "x_mullo");
    emit_value(e, need_op(e, 1), instr_has(e->instr, "hi") ? type : bits_type(type, 1));
    text_print(e->out, ", ");
    emit_value(e, need_op(e, 2), instr_has(e->instr, "hi") ? type : bits_type(type, 1));
    text_print(e->out, "), ");
    emit_value(e, need_op(e, 3), bits_type(type, 1));
    text_print(e->out, ")");
    emit_end(e, need_op(e, 0), bits_type(type, 1));
    return;
  }
  only_parts(e, 1, e->instr->nparts - 1, "lo hi sat");
  if (instr_has(e->instr, "sat"))
    call_same(e, "x_madhisat", type, 3);
  else if (instr_has(e->instr, "hi"))
    call_same(e, "x_madhi", type, 3);
  else
    call_same(e, "x_madlo", bits_type(type, 1), 3);
}

static void emit_fma(Emitter *e) {
  if (instr_has(e->instr, "oob"))
    emit_fail(e, "`.oob`: which NaN stands for an element out of bounds is not known");
  call_float(e, "x_fma", 3, "relu");
}

static void emit_div(Emitter *e) {
  PtxType type = instr_type(e, 0);
  if (type.kind == KindFloat) {
    call_float(e, "x_div", 2, "approx full");
    return;
  }
  only_parts(e, 1, e->instr->nparts - 1, "");
  call_same(e, e->instr->part[0][0] == 'd' ? "x_div" : "x_rem", type, 2);
}

static void emit_unary_float(Emitter *e) { // rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh
  char name[32];
  snprintf(name, sizeof name, "x_%s%s", e->instr->part[0],
           instr_has(e->instr, "approx") ? "_approx" : "");
  call_float(e, name, 1, "approx");
}

static void emit_abs_neg(Emitter *e) {
  PtxType type = instr_type(e, 0);
  char name[32];
  bool ftz = instr_has(e->instr, "ftz");
  only_parts(e, 1, e->instr->nparts - 1, type.kind == KindFloat ? "ftz" : "");
  snprintf(name, sizeof name, "x_%s%s", e->instr->part[0], ftz ? "_ftz" : "");
  call_same(e, name, type, 1);
}

static void emit_min_max(Emitter *e) {
  PtxType type = instr_type(e, 0);
  const Instr *in = e->instr;
  char name[48];
  only_parts(e, 1, in->nparts - 1, type.kind == KindFloat ? "ftz NaN xorsign abs relu" : "relu");
  snprintf(name, sizeof name, "x_%s%s%s%s%s", in->part[0], instr_has(in, "NaN") ? "_nan" : "",
           instr_has(in, "xorsign") ? "_xorsign" : "", instr_has(in, "ftz") ? "_ftz" : "",
           instr_has(in, "relu") ? "_relu" : "");
  if (is_pair_of_integers(type)) {
    snprintf(name + strlen(name), sizeof name - strlen(name), "_%s", type.name);
    type = ptx_type_of("u32");
  }
  if (in->nops > 3) emit_fail(e, "of three operands it is an instruction of sm_100");
  call_same(e, name, type, 2);
}

// ---- integers -----------------------------------------------------------------------------------

static void emit_count(Emitter *e) { // popc, clz, bfind: a u32 of any type
  PtxType type = instr_type(e, 0);
  char name[32];
  only_parts(e, 1, e->instr->nparts - 1, "shiftamt");
  snprintf(name, sizeof name, "x_%s%s", e->instr->part[0],
           instr_has(e->instr, "shiftamt") ? "_shiftamt" : "");
  call(e, ptx_type_of("u32"), name, 1, &type);
}

static void emit_plain(Emitter *e) { // d = x_name(sources of the instruction's type)
  char name[32];
  only_parts(e, 1, e->instr->nparts - 1, "");
  snprintf(name, sizeof name, "x_%s", e->instr->part[0]);
  call_same(e, name, instr_type(e, 0), e->instr->nops - 1);
}

// mul24, mad24: bits 0 to 31 or 16 to 47 of a product of 24-bit factors; `.sat`: for signed `.hi`.
static void emit_24(Emitter *e) {
  PtxType type = instr_type(e, 0);
  bool hi = instr_has(e->instr, "hi"), sat = instr_has(e->instr, "sat");
  bool mad = !strcmp(e->instr->part[0], "mad24");
  char name[32];
  only_parts(e, 1, e->instr->nparts - 1, mad && hi && type.kind == KindSigned ? "hi sat" : "lo hi");
  snprintf(name, sizeof name, "x_%s%s%s", e->instr->part[0], hi ? "_hi" : "", sat ? "_sat" : "");
  call_same(e, name, type, mad ? 3 : 2);
}

static void emit_bfe(Emitter *e) {
  PtxType type = instr_type(e, 0), u = ptx_type_of("u32");
  const PtxType types[] = {type, u, u};
  call(e, type, "x_bfe", 3, types);
}

static void emit_bfi(Emitter *e) {
  PtxType type = instr_type(e, 0), u = ptx_type_of("u32");
  const PtxType types[] = {bits_type(type, 1), bits_type(type, 1), u, u};
  call(e, bits_type(type, 1), "x_bfi", 4, types);
}

static void emit_fns(Emitter *e) {
  const PtxType types[] = {ptx_type_of("u32"), ptx_type_of("u32"), ptx_type_of("s32")};
  call(e, ptx_type_of("u32"), "x_fns", 3, types);
}

static void emit_bmsk(Emitter *e) {
  const PtxType u = ptx_type_of("u32"), types[] = {u, u};
  only_parts(e, 1, e->instr->nparts - 1, "clamp wrap");
  call(e, u, instr_has(e->instr, "wrap") ? "x_bmsk_wrap" : "x_bmsk_clamp", 2, types);
}

static void emit_szext(Emitter *e) {
  PtxType type = instr_type(e, 0);
  const PtxType types[] = {type, ptx_type_of("u32")};
  only_parts(e, 1, e->instr->nparts - 1, "clamp wrap");
  call(e, type, instr_has(e->instr, "wrap") ? "x_szext_wrap" : "x_szext_clamp", 2, types);
}

static void emit_shift(Emitter *e) {
  PtxType type = instr_type(e, 0);
  bool left = !strcmp(e->instr->part[0], "shl");
  const PtxType types[] = {left ? bits_type(type, 1) : type.kind == KindBits ? bits_type(type, 1)
                                                                             : type,
                           ptx_type_of("u32")};
  only_parts(e, 1, e->instr->nparts - 1, "");
  call(e, types[0], left ? "x_shl" : "x_shr", 2, types);
}

static void emit_shf(Emitter *e) {
  PtxType u = ptx_type_of("u32");
  const PtxType types[] = {u, u, u};
  char name[32];
  if (e->instr->nparts != 4) emit_fail(e, "`shf.l|r.clamp|wrap.b32` is awaited");
  only_parts(e, 1, 3, "l r clamp wrap");
  snprintf(name, sizeof name, "x_shf_%s_%s", e->instr->part[1], e->instr->part[2]);
  call(e, u, name, 3, types);
}

static void emit_logic(Emitter *e) {
  PtxType type = instr_type(e, 0);
  const char *name = e->instr->part[0];
  bool pred = type.kind == KindPred;
  if (!pred && !is_int(type)) emit_fail(e, "of numbers with a point");
  if (!pred) type = bits_type(type, 1);
  only_parts(e, 1, e->instr->nparts - 1, "");
  if (!strcmp(name, "not")) {
    emit_begin(e, need_op(e, 0), type);
    text_print(e->out, pred ? "!" : "~");
    emit_value(e, need_op(e, 1), type);
    emit_end(e, need_op(e, 0), type);
  } else {
    infix(e, !strcmp(name, "and") ? "&" : !strcmp(name, "or") ? "|" : "^", type);
  }
}

static const char *boolean(const Instr *in) { // `.BoolOp` in C++
  return instr_has(in, "and") ? "&" : instr_has(in, "or") ? "|" : instr_has(in, "xor") ? "^" : NULL;
}

// lop3[.BoolOp].b32 d[|p], a, b, c, table[, q]: p = (d != 0) BoolOp q
static void emit_lop3(Emitter *e) {
  PtxType u = ptx_type_of("u32"), pred = ptx_type_of("pred");
  const char *op = boolean(e->instr);
  const Operand *to = need_op(e, 0);
  only_parts(e, 1, e->instr->nparts - 1, "and or xor");
  if ((op != NULL) != (to->kind == OpPair)) emit_fail(e, "`d|p` is awaited with an operation");
  if (need_op(e, 4)->kind != OpInt) emit_fail(e, "the table is a constant");
  text_print(e->out, "{ u32 t_ = x_lop3<%d>(", (int)(need_op(e, 4)->bits & 255));
  for (int i = 0; i < 3; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, need_op(e, i + 1), u);
  }
  text_print(e->out, "); ");
  const Operand *word = op ? &to->parts[0] : to;
  if (word->kind != OpSink) {
    emit_begin(e, word, u);
    text_print(e->out, "t_");
    emit_end(e, word, u);
  }
  if (op) {
    emit_begin(e, &to->parts[1], pred);
    text_print(e->out, "(t_ != 0) %s ", op);
    emit_value(e, need_op(e, 5), pred);
    emit_end(e, &to->parts[1], pred);
  }
  text_print(e->out, " }");
}

static void emit_prmt(Emitter *e) {
  PtxType u = ptx_type_of("u32");
  const PtxType types[] = {u, u, u};
  char name[32] = "x_prmt";
  if (e->instr->nparts == 3) {
    only_parts(e, 2, 3, "f4e b4e rc8 ecl ecr rc16");
    snprintf(name, sizeof name, "x_prmt_%s", e->instr->part[2]);
  }
  call(e, u, name, 3, types);
}

static void emit_dp(Emitter *e) { // dp4a.atype.btype, dp2a.mode.atype.btype
  const Instr *in = e->instr;
  PtxType u = ptx_type_of("u32");
  char name[48];
  bool lo = instr_has(in, "lo"), hi = instr_has(in, "hi"), halves = in->part[0][2] == '2';
  if (halves != (lo || hi) || in->nparts != (halves ? 4 : 3)) emit_fail(e, "two types are awaited");
  only_parts(e, 1, in->nparts, "lo hi u32 s32");
  snprintf(name, sizeof name, "x_%s%s<%s, %s>", in->part[0], lo ? "_lo" : hi ? "_hi" : "",
           in->part[in->nparts - 2][0] == 's' ? "true" : "false",
           in->part[in->nparts - 1][0] == 's' ? "true" : "false");
  const PtxType types[] = {u, u, u};
  call(e, u, name, 3, types);
}

static void emit_sad(Emitter *e) {
  PtxType type = instr_type(e, 0);
  const PtxType types[] = {type, type, bits_type(type, 1)};
  call(e, bits_type(type, 1), "x_sad", 3, types);
}

static void emit_testp(Emitter *e) {
  PtxType type = instr_type(e, 0);
  char name[32];
  only_parts(e, 1, 2, "finite infinite number notanumber normal subnormal");
  snprintf(name, sizeof name, "x_testp_%s", e->instr->part[1]);
  call(e, ptx_type_of("pred"), name, 1, &type);
}

// ---- comparisons and selections -----------------------------------------------------------------

// The comparison of setp and set, of operands `first` and `first` + 1: an expression.
static void emit_compare(Emitter *e, PtxType type, const char *how, int first) {
  bool ftz = instr_has(e->instr, "ftz");
  if (type.kind == KindBits) type = bits_type(type, 1);
  text_print(e->out, "x_%s%s(", how, ftz ? "_ftz" : "");
  emit_value(e, need_op(e, first), type);
  text_print(e->out, ", ");
  emit_value(e, need_op(e, first + 1), type);
  text_print(e->out, ")");
}

static const char *comparison(Emitter *e) {
  static const char known[] = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan";
  only_parts(e, 1, 2, known);
  return e->instr->part[1];
}

// setp.CmpOp[.BoolOp][.ftz].type p[|q], a, b[, c]; f16x2 gives p of the low, q of the high half.
static void emit_setp(Emitter *e) {
  PtxType type = instr_type(e, 0), pred = ptx_type_of("pred");
  const char *how = comparison(e), *op = boolean(e->instr);
  only_parts(e, 2, e->instr->nparts - 1, "and or xor ftz");
  const Operand *target = need_op(e, 0);
  bool pair = target->kind == OpPair, packed = strstr(type.name, "x2");
  if (type.kind == KindFloat && type.bits == 16 && pair) emit_fail(e, "one predicate is awaited");
  if (!pair && !packed) { // without braces: GCC scans all labels at the end of a scope
    emit_begin(e, target, pred);
    emit_compare(e, type, how, 1);
    if (op) {
      text_print(e->out, " %s ", op);
      emit_value(e, need_op(e, 3), pred);
    }
    emit_end(e, target, pred);
    return;
  }
  text_print(e->out, packed ? "{ pred2 t_ = " : "{ bool t_ = ");
  emit_compare(e, type, how, 1);
  text_print(e->out, "; ");
  for (int i = 0; i < 1 + pair; i++) {
    const Operand *place = pair ? &target->parts[i] : target;
    if (place->kind == OpSink) continue;
    emit_begin(e, place, pred);
    text_print(e->out, packed ? (i ? "t_.high" : "t_.low") : i ? "!t_" : "t_");
    if (op) {
      text_print(e->out, " %s ", op);
      emit_value(e, need_op(e, 3), pred);
    }
    emit_end(e, place, pred);
    text_print(e->out, " ");
  }
  text_print(e->out, "}");
}

// set.CmpOp[.BoolOp][.ftz].dtype.stype: all ones or 1.0.
static void emit_set(Emitter *e) {
  PtxType from = instr_type(e, 0), to = instr_type(e, 1);
  const char *how = comparison(e), *op = boolean(e->instr);
  only_parts(e, 2, e->instr->nparts - 2, "and or xor ftz");
  emit_begin(e, need_op(e, 0), to);
  text_print(e->out, "x_set<%s>(", to.name);
  emit_compare(e, from, how, 1);
  if (op) {
    text_print(e->out, " %s ", op);
    emit_value(e, need_op(e, 3), ptx_type_of("pred"));
  }
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), to);
}

static void emit_selp(Emitter *e) {
  PtxType type = instr_type(e, 0);
  if (is_int(type) && type.bits <= 64) type = bits_type(type, 1);
  emit_begin(e, need_op(e, 0), type);
  emit_value(e, need_op(e, 3), ptx_type_of("pred"));
  text_print(e->out, " ? ");
  emit_value(e, need_op(e, 1), type);
  text_print(e->out, " : ");
  emit_value(e, need_op(e, 2), type);
  emit_end(e, need_op(e, 0), type);
}

static void emit_slct(Emitter *e) {
  PtxType by = instr_type(e, 0), type = instr_type(e, 1);
  if (is_int(type)) type = bits_type(type, 1);
  only_parts(e, 1, e->instr->nparts - 2, "ftz");
  emit_begin(e, need_op(e, 0), type);
  text_print(e->out, "(");
  emit_value(e, need_op(e, 3), by);
  text_print(e->out, " >= 0) ? ");
  emit_value(e, need_op(e, 1), type);
  text_print(e->out, " : ");
  emit_value(e, need_op(e, 2), type);
  emit_end(e, need_op(e, 0), type);
}

const EmitRow emit_arith_rows[] = {{"add", emit_add},
                                   {"sub", emit_add},
                                   {"addc", emit_add},
                                   {"subc", emit_add},
                                   {"mul", emit_mul},
                                   {"mad", emit_mad},
                                   {"madc", emit_mad},
                                   {"mul24", emit_24},
                                   {"mad24", emit_24},
                                   {"fma", emit_fma},
                                   {"div", emit_div},
                                   {"rem", emit_div},
                                   {"rcp", emit_unary_float},
                                   {"sqrt", emit_unary_float},
                                   {"rsqrt", emit_unary_float},
                                   {"sin", emit_unary_float},
                                   {"cos", emit_unary_float},
                                   {"lg2", emit_unary_float},
                                   {"ex2", emit_unary_float},
                                   {"tanh", emit_unary_float},
                                   {"abs", emit_abs_neg},
                                   {"neg", emit_abs_neg},
                                   {"min", emit_min_max},
                                   {"max", emit_min_max},
                                   {"copysign", emit_plain},
                                   {"testp", emit_testp},
                                   {"popc", emit_count},
                                   {"clz", emit_count},
                                   {"bfind", emit_count},
                                   {"brev", emit_plain},
                                   {"cnot", emit_plain},
                                   {"bfe", emit_bfe},
                                   {"bfi", emit_bfi},
                                   {"fns", emit_fns},
                                   {"bmsk", emit_bmsk},
                                   {"szext", emit_szext},
                                   {"shl", emit_shift},
                                   {"shr", emit_shift},
                                   {"shf", emit_shf},
                                   {"and", emit_logic},
                                   {"or", emit_logic},
                                   {"xor", emit_logic},
                                   {"not", emit_logic},
                                   {"lop3", emit_lop3},
                                   {"prmt", emit_prmt},
                                   {"dp4a", emit_dp},
                                   {"dp2a", emit_dp},
                                   {"sad", emit_sad},
                                   {"setp", emit_setp},
                                   {"set", emit_set},
                                   {"selp", emit_selp},
                                   {"slct", emit_slct},
                                   {0}};
