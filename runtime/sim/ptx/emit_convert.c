// emit_convert.c: cvt, between all pairs of types.
#include "sim/ptx/ptx.h"

#include <string.h>

// cvt[.rounding][.ftz][.sat|.relu|.satfinite].dtype.atype d, a[, b]; packed: two sources make one
// value of two halves, the first the upper one.
static void emit_cvt(Emitter *e) {
  const Instr *in = e->instr;
  PtxType from = instr_type(e, 0), to = instr_type(e, 1);
  only_parts(e, 1, in->nparts - 2,
             "rn rz rm rp rni rzi rmi rpi rna rs ftz sat relu satfinite");
  if (instr_has(in, "rs")) emit_fail(e, "stochastic rounding");
  lint_convert(e, to, from);
  const char *mode = "rn";
  static const char *const modes[] = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna"};
  bool given = false;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (instr_has(in, modes[i])) mode = modes[i], given = true;
  bool packed = strstr(to.name, "x2") && in->nops == 3;
  emit_begin(e, need_op(e, 0), to);
  text_print(e->out, "x_cvt<%s, x_%s, %d>(", to.name, given ? mode : "none",
             (instr_has(in, "ftz") ? 1 : 0) | (instr_has(in, "sat") ? 2 : 0) |
                 (instr_has(in, "relu") ? 4 : 0) | (instr_has(in, "satfinite") ? 8 : 0));
  emit_value(e, need_op(e, 1), from);
  if (packed) {
    text_print(e->out, ", ");
    emit_value(e, need_op(e, 2), from);
  }
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), to);
}

// cvt.pack.sat.s8.s32.b32 d, a, b, c
static void emit_cvt_pack(Emitter *e) {
  const Instr *in = e->instr;
  PtxType s32 = ptx_type_of("s32"), u32 = ptx_type_of("u32");
  if (in->nparts < 5) emit_fail(e, "types are missing");
  only_parts(e, 2, in->nparts, "sat u8 s8 u16 s16 u4 s4 u2 s2 s32 b32");
  emit_begin(e, need_op(e, 0), u32);
  text_print(e->out, "x_cvt_pack_%s(", in->part[3]);
  emit_value(e, need_op(e, 1), s32);
  text_print(e->out, ", ");
  emit_value(e, need_op(e, 2), s32);
  text_print(e->out, ", ");
  if (in->nops > 3)
    emit_value(e, need_op(e, 3), u32);
  else
    text_print(e->out, "0u");
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), u32);
}

const EmitRow emit_convert_rows[] = {{"cvt", emit_cvt}, {"cvt.pack", emit_cvt_pack}, {0}};
