// emit_video.c: video instructions: scalar (vadd, vset, vmad ...) and with two or four parts
// (vadd2, vset4 ...).
#include "sim/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

typedef struct OpRow {
  const char *name, *text;
} OpRow;

// The operation's name in C++; the comparison's of vset.
static const char *op_of(Emitter *e) {
  static const OpRow ops[] = {{"vadd", "VideoAdd"},      {"vsub", "VideoSub"},
                              {"vmin", "VideoMin"},      {"vmax", "VideoMax"},
                              {"vshl", "VideoShl"},      {"vshr", "VideoShr"},
                              {"vavrg", "VideoAverage"}, {"vabsdiff", "VideoAbsdiff"},
                              {"eq", "VideoEq"},         {"ne", "VideoNe"},
                              {"lt", "VideoLt"},         {"le", "VideoLe"},
                              {"gt", "VideoGt"},         {"ge", "VideoGe"}};
  char name[16];
  bool compares = !strncmp(e->instr->part[0], "vset", 4);
  if (compares && e->instr->nparts < 4) emit_fail(e, "a comparison is missing");
  snprintf(name, sizeof name, "%.15s", e->instr->part[compares ? 3 : 0]);
  name[strcspn(name, "24")] = 0;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (!strcmp(ops[i].name, name)) return ops[i].text;
  emit_fail(e, "`%s` is not known here", name);
}

// Whether piece `index`, a type, is s32.
static bool is_signed(Emitter *e, int index) {
  if (index >= e->instr->nparts) emit_fail(e, "a type is missing");
  only_parts(e, index, index + 1, "u32 s32");
  return e->instr->part[index][0] == 's';
}

static const char *truth(bool value) {
  return value ? "true" : "false";
}

// A selector of a scalar: b0 to b3, h0, h1, or none: all.
static void selected(Emitter *e, const Operand *op, int *shift, int *bits) {
  *shift = 0, *bits = 32;
  if (!op->select) return;
  int part = op->select[1] - '0';
  *bits = op->select[0] == 'b' ? 8 : 16;
  *shift = part * *bits;
  if (op->select[2] || *shift >= 32) emit_fail(e, "the selector `.%s`", op->select);
}

static void part(Emitter *e, int index, bool with_sign) {
  const Operand *op = need_op(e, index);
  int shift, bits;
  selected(e, op, &shift, &bits);
  text_print(e->out, "x_video_part(");
  emit_value(e, op, ptx_type_of("u32"));
  text_print(e->out, ", %d, %d, %s)", shift, bits, truth(with_sign));
}

static void no_minus(Emitter *e) {
  for (int i = 0; i < e->instr->nops; i++)
    if (e->instr->op[i].minus) emit_fail(e, "a minus sign before operand %d", i + 1);
}

// vop.dtype.atype.btype[.sat][.op2] d[.sel], a[.sel], b[.sel][, c]; vset has no dtype: u32.
static void emit_scalar(Emitter *e) {
  const Instr *in = e->instr;
  bool compares = !strcmp(in->part[0], "vset"), shifts = !strncmp(in->part[0], "vsh", 3);
  int first = compares ? 1 : 2; // type of a
  bool to_signed = !compares && is_signed(e, 1);
  only_parts(e, first + 2, in->nparts,
             shifts     ? "sat clamp wrap add min max"
             : compares ? "eq ne lt le gt ge add min max"
                        : "sat add min max");
  PtxType u32 = ptx_type_of("u32");
  const Operand *to = need_op(e, 0);
  int shift, bits;
  no_minus(e);
  if (shifts && (is_signed(e, 3) || instr_has(in, "clamp") == instr_has(in, "wrap")))
    emit_fail(e, "it shifts by `.u32`, with one of `.clamp` and `.wrap`");
  selected(e, to, &shift, &bits);
  char second = instr_has(in, "add")   ? '+'
                : instr_has(in, "min") ? '<'
                : instr_has(in, "max") ? '>'
                                       : '=';
  if ((second != '=' || to->select) != (in->nops == 4) || (second != '=' && to->select))
    emit_fail(e, "a third source belongs to `.add`, `.min`, `.max` or to a part of the result");
  text_print(e->out, "{ x_video t_ = x_video_do(%s, ", op_of(e));
  part(e, 1, is_signed(e, first));
  text_print(e->out, ", ");
  if (shifts) text_print(e->out, "x_video_shift(");
  part(e, 2, is_signed(e, first + 1));
  if (shifts) text_print(e->out, ", %s)", truth(instr_has(in, "wrap")));
  text_print(e->out, "); ");
  if (instr_has(in, "sat"))
    text_print(e->out, "t_ = x_video_clamp(t_, %d, %s); ", bits, truth(to_signed));
  emit_begin(e, to, u32);
  text_print(e->out, to->select ? "x_video_merge(t_, " : "x_video_second('%c', t_, ", second);
  if (in->nops == 4)
    emit_value(e, need_op(e, 3), u32);
  else
    text_print(e->out, "0u");
  if (to->select)
    text_print(e->out, ", %d, %d)", shift, bits);
  else
    text_print(e->out, ", %s)", truth(to_signed));
  emit_end(e, to, u32);
  text_print(e->out, " }");
}

// vmad.dtype.atype.btype[.po][.sat][.scale] d, {-}a[.sel], {-}b[.sel], {-}c
static void emit_vmad(Emitter *e) {
  const Instr *in = e->instr;
  bool signs[2] = {is_signed(e, 2), is_signed(e, 3)}, one = instr_has(in, "po");
  is_signed(e, 1); // dtype
  only_parts(e, 4, in->nparts, "po sat shr7 shr15");
  bool minus_ab = need_op(e, 1)->minus != need_op(e, 2)->minus, minus_c = need_op(e, 3)->minus;
  if ((one && (minus_ab || minus_c)) || (minus_ab && minus_c))
    emit_fail(e, "the product or the third source may be negated, neither with `.po`");
  PtxType u32 = ptx_type_of("u32");
  emit_begin(e, need_op(e, 0), u32);
  text_print(e->out, "x_vmad(");
  part(e, 1, signs[0]);
  text_print(e->out, ", ");
  part(e, 2, signs[1]);
  text_print(e->out, ", ");
  emit_value(e, need_op(e, 3), u32);
  text_print(e->out, ", %s, %s, %s, %d, %d, %s)", truth(signs[0] || signs[1]), truth(minus_ab),
             truth(minus_c), one,
             instr_has(in, "shr7")    ? 7
             : instr_has(in, "shr15") ? 15
                                      : 0,
             truth(instr_has(in, "sat")));
  emit_end(e, need_op(e, 0), u32);
}

// `.b7610` or `.h32`: a digit for each part, highest part first; `otherwise` if absent.
static unsigned picks(Emitter *e, const Operand *op, int n, unsigned otherwise) {
  if (!op->select) return otherwise;
  unsigned value = 0;
  const char *at = op->select + 1;
  if (op->select[0] != (n == 4 ? 'b' : 'h') || strlen(at) != (size_t)n)
    emit_fail(e, "the selector `.%s`", op->select);
  for (; *at; at++) {
    if (*at - '0' >= 2 * n) emit_fail(e, "the selector `.%s`", op->select);
    value = value << 4 | (unsigned)(*at - '0');
  }
  return value;
}

static int mask_of(Emitter *e, const Operand *op, int n) {
  int mask = 0;
  if (!op->select) return (1 << n) - 1;
  if (op->select[0] != (n == 4 ? 'b' : 'h')) emit_fail(e, "the mask `.%s`", op->select);
  for (const char *at = op->select + 1; *at; at++) {
    if (*at - '0' >= n) emit_fail(e, "the mask `.%s`", op->select);
    mask |= 1 << (*at - '0');
  }
  return mask;
}

// vop2 and vop4: .dtype.atype.btype[.sat|.add] d[.mask], a[.sel], b[.sel], c; vset without dtype
static void emit_simd(Emitter *e) {
  const Instr *in = e->instr;
  bool compares = !strncmp(in->part[0], "vset", 4);
  int n = in->part[0][strlen(in->part[0]) - 1] - '0', first = compares ? 1 : 2;
  bool to_signed = !compares && is_signed(e, 1);
  only_parts(e, first + 2, in->nparts, compares ? "eq ne lt le gt ge add" : "sat add");
  if (instr_has(in, "sat") && instr_has(in, "add")) emit_fail(e, "`.sat` with `.add`");
  no_minus(e);
  PtxType u32 = ptx_type_of("u32");
  const Operand *to = need_op(e, 0);
  for (int i = 1; i <= 3; i++)
    if (need_op(e, i)->kind == OpInt) emit_fail(e, "its sources are registers");
  emit_begin(e, to, u32);
  text_print(e->out, "x_video_simd(%s, %d", op_of(e), n);
  for (int i = 1; i <= 3; i++) {
    text_print(e->out, ", ");
    emit_value(e, need_op(e, i), u32);
  }
  text_print(e->out, ", 0x%xu, 0x%xu, %s, %s, %s, %d, %s, %s)",
             picks(e, need_op(e, 1), n, n == 4 ? 0x3210 : 0x10),
             picks(e, need_op(e, 2), n, n == 4 ? 0x7654 : 0x32), truth(is_signed(e, first)),
             truth(is_signed(e, first + 1)), truth(to_signed), mask_of(e, to, n),
             truth(instr_has(in, "sat")), truth(instr_has(in, "add")));
  emit_end(e, to, u32);
}

const EmitRow emit_video_rows[] = {
    {"vadd", emit_scalar},    {"vsub", emit_scalar},    {"vabsdiff", emit_scalar},
    {"vmin", emit_scalar},    {"vmax", emit_scalar},    {"vshl", emit_scalar},
    {"vshr", emit_scalar},    {"vset", emit_scalar},    {"vmad", emit_vmad},
    {"vadd2", emit_simd},     {"vsub2", emit_simd},     {"vavrg2", emit_simd},
    {"vabsdiff2", emit_simd}, {"vmin2", emit_simd},     {"vmax2", emit_simd},
    {"vset2", emit_simd},     {"vadd4", emit_simd},     {"vsub4", emit_simd},
    {"vavrg4", emit_simd},    {"vabsdiff4", emit_simd}, {"vmin4", emit_simd},
    {"vmax4", emit_simd},     {"vset4", emit_simd},     {0}};
