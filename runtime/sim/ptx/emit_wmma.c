// emit_wmma.c: wmma.load, wmma.store and wmma.mma.
#include "sim/ptx/ptx.h"

#include <string.h>

typedef struct Shape {
  int m, n, k;
} Shape;

static Shape shape_of(Emitter *e) {
  static const Shape known[] = {{16, 16, 16}, {32, 8, 16}, {8, 32, 16}, {16, 16, 8},
                                {8, 8, 4},    {8, 8, 32},  {8, 8, 128}};
  for (int i = 1; i < e->instr->nparts; i++) {
    Shape s;
    if (sscanf(e->instr->part[i], "m%dn%dk%d", &s.m, &s.n, &s.k) != 3) continue;
    for (size_t j = 0; j < sizeof known / sizeof *known; j++)
      if (!memcmp(&s, &known[j], sizeof s)) return s;
  }
  emit_fail(e, "this shape is not done");
}

// Number and width of an operand's registers.
static int registers(Emitter *e, const Operand *op, PtxType *type) {
  int n = op->kind == OpVector ? op->nparts : 0;
  const Operand *first = n ? &op->parts[0] : op;
  if (!n || first->kind != OpReg) emit_fail(e, "registers are awaited");
  *type = ptx_type_of(e->func->regs[first->reg].type.bits == 64 ? "u64" : "u32");
  return n;
}

static const Operand *part(const Operand *op, int i) {
  return op->kind == OpVector ? &op->parts[i] : op;
}

static int take_in(Emitter *e, const Operand *op, const char *name) { // its bytes
  PtxType type;
  int n = registers(e, op, &type);
  text_print(e->out, "const %s %s[] = {", type.name, name);
  for (int i = 0; i < n; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, part(op, i), type);
  }
  text_print(e->out, "}; ");
  return n * type.bits / 8;
}

static int declare_out(Emitter *e, const Operand *op) {
  PtxType type;
  int n = registers(e, op, &type);
  text_print(e->out, "%s d_[%d]; ", type.name, n);
  return n * type.bits / 8;
}

static void give_out(Emitter *e, const Operand *op) {
  PtxType type;
  int n = registers(e, op, &type);
  for (int i = 0; i < n; i++) {
    text_print(e->out, " ");
    emit_begin(e, part(op, i), type);
    text_print(e->out, "d_[%d]", i);
    emit_end(e, part(op, i), type);
  }
}

static PtxType element(Emitter *e, const char *name) {
  static const char *const known[] = {"f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i], name)) return ptx_type_of(name);
  emit_fail(e, "`%s` is not done", name);
}

// Its type in memory: untyped bits.
static const char *bits_of(PtxType type) {
  return type.bits == 8 ? "u8" : type.bits == 16 ? "u16" : type.bits == 32 ? "u32" : "u64";
}

// Integers of 4 bits and 1 bit: moved as words, and multiplied like mma of 8 rows
// (cusim_mma_any.h), with the same fragments.
typedef struct Narrow {
  const char *name, *text; // in C++
  int bits, k;
} Narrow;

static const Narrow *narrow_of(const char *name) {
  static const Narrow known[] = {{"s4", "S4", 4, 32}, {"u4", "U4", 4, 32}, {"b1", "B1", 1, 128}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strcmp(known[i].name, name)) return &known[i];
  return NULL;
}

static void emit_load_narrow(Emitter *e, const Narrow *narrow) {
  const Instr *in = e->instr;
  if (shape_of(e).k != narrow->k || !instr_has(in, *in->part[2] == 'a' ? "row" : "col"))
    emit_fail(e, "`%s` has no such shape and layout", narrow->name);
  text_print(e->out, "{ ");
  if (declare_out(e, need_op(e, 0)) != 4) emit_fail(e, "operand 1 holds 1 register");
  text_print(e->out, "x_wmma_load<u32, 8, 4, 1, false>(d_, ");
  emit_address(e, need_op(e, 1), instr_space(in));
  text_print(e->out, ", ");
  if (in->nops > 2)
    emit_value(e, need_op(e, 2), ptx_type_of("u32"));
  else
    text_print(e->out, "%d", narrow->k);
  text_print(e->out, " / %d);", 32 / narrow->bits);
  give_out(e, need_op(e, 0));
  text_print(e->out, " }");
}

static const char kMoveParts[] =
    "load store a b c d sync aligned row col m16n16k16 m32n8k16 m8n32k16 m16n16k8 "
    "m8n8k4 m8n8k32 m8n8k128 global shared shared::cta";

// wmma.load.a.sync.aligned.layout.shape[.space].type {d}, [p][, stride]; wmma.store.d [p], {s}[,
// stride]
static void emit_move(Emitter *e, bool loads) {
  const Instr *in = e->instr;
  only_parts(e, 1, in->nparts - 1, kMoveParts);
  const Narrow *narrow = narrow_of(in->part[in->nparts - 1]);
  if (narrow && loads && strchr("ab", *in->part[2])) {
    emit_load_narrow(e, narrow);
    return;
  }
  Shape s = shape_of(e);
  PtxType type = element(e, in->part[in->nparts - 1]);
  const char *which = in->part[2];
  int rows = *which == 'b' ? s.k : s.m, cols = *which == 'a' ? s.k : s.n;
  bool columns = instr_has(in, "col");
  const Operand *fragment = need_op(e, loads ? 0 : 1), *place = need_op(e, loads ? 1 : 0);
  text_print(e->out, "{ ");
  int bytes = loads ? declare_out(e, fragment) : take_in(e, fragment, "d_");
  text_print(e->out, "x_wmma_%s<%s, %d, %d, %d, %s>(d_, ", loads ? "load" : "store", bits_of(type),
             rows, cols, bytes / (type.bits / 8), columns ? "true" : "false");
  emit_address(e, place, instr_space(in));
  text_print(e->out, ", ");
  if (in->nops > 2)
    emit_value(e, need_op(e, 2), ptx_type_of("u32"));
  else
    text_print(e->out, "%d", columns ? rows : cols);
  text_print(e->out, ");");
  if (loads) give_out(e, fragment);
  text_print(e->out, " }");
}

static void emit_load(Emitter *e) {
  emit_move(e, true);
}

static void emit_store(Emitter *e) {
  emit_move(e, false);
}

static void print_type(Emitter *e, PtxType type, int bytes) {
  text_print(e->out, "cusim::WmmaPart<%s, %d>, ", type.name, bytes / (type.bits / 8));
}

// wmma.mma[.xor.popc].sync.aligned.row.col.shape.s32.type.type.s32[.satfinite]
static void emit_product_narrow(Emitter *e, const Narrow *narrow, int last) {
  const Instr *in = e->instr;
  const char *saturate = instr_has(in, "satfinite") ? "true" : "false";
  if (shape_of(e).k != narrow->k || strcmp(in->part[last - 1], narrow->name) != 0 ||
      strcmp(in->part[last], "s32") != 0 || strcmp(in->part[last - 3], "s32") != 0)
    emit_fail(e, "`%s` has no such product", narrow->name);
  if ((narrow->bits == 1) != instr_has(in, "popc"))
    emit_fail(e, ".popc is awaited for b1, and for b1 alone");
  text_print(e->out, "{ ");
  if (take_in(e, need_op(e, 1), "a_") != 4 || take_in(e, need_op(e, 2), "b_") != 4 ||
      take_in(e, need_op(e, 3), "c_") != 8 || declare_out(e, need_op(e, 0)) != 8)
    emit_fail(e, "one register is awaited for a and b, two for c and d");
  text_print(e->out,
             "cusim::mma_any<cusim::%s, cusim::%s, cusim::SumInt<%s>, cusim::SumInt<%s>, 8, %d, "
             "cusim::%s>(d_, a_, b_, c_);",
             narrow->text, narrow->text, saturate, saturate, narrow->bits == 1 ? 4 : 32,
             narrow->bits == 4       ? "TimesPlus"
             : instr_has(in, "and") ? "AndCount"
                                     : "XorCount");
  give_out(e, need_op(e, 0));
  text_print(e->out, " }");
}

// wmma.mma.sync.aligned.layout.layout.shape.d.c of f16; .d.a.b.c of the others
static void emit_product(Emitter *e) {
  const Instr *in = e->instr;
  int last = in->nparts - 1, types = 0;
  if (!strcmp(in->part[last], "satfinite") || !strcmp(in->part[last], "rn")) last--;
  while (types < 4 && strncmp(in->part[last - types], "m", 1) != 0) types++;
  if (types != 2 && types != 4) emit_fail(e, "two types are awaited, or four");
  only_parts(e, 1, last - types,
             "mma xor and popc sync aligned row col m16n16k16 m32n8k16 m8n32k16 m16n16k8 m8n8k4 "
             "m8n8k32 m8n8k128 rn");
  const Narrow *narrow = types == 4 ? narrow_of(in->part[last - 2]) : NULL;
  if (narrow) {
    emit_product_narrow(e, narrow, last);
    return;
  }
  Shape s = shape_of(e);
  PtxType c = element(e, in->part[last]), d = element(e, in->part[last - types + 1]);
  PtxType a = types == 2 ? ptx_type_of("f16") : element(e, in->part[last - 2]);
  PtxType b = types == 2 ? a : element(e, in->part[last - 1]);
  text_print(e->out, "{ ");
  int in_a = take_in(e, need_op(e, 1), "a_"), in_b = take_in(e, need_op(e, 2), "b_"),
      in_c = take_in(e, need_op(e, 3), "c_"), in_d = declare_out(e, need_op(e, 0));
  text_print(e->out, "cusim::wmma<");
  print_type(e, a, in_a);
  print_type(e, b, in_b);
  print_type(e, c, in_c);
  print_type(e, d, in_d);
  text_print(e->out, "%d, %d, %d, %s>(d_, a_, b_, c_);", s.m, s.n, s.k,
             instr_has(in, "satfinite") && c.kind == KindSigned ? "true" : "false");
  give_out(e, need_op(e, 0));
  text_print(e->out, " }");
}

const EmitRow emit_wmma_rows[] = {{"wmma.load", emit_load},
                                  {"wmma.store", emit_store},
                                  {"wmma.mma", emit_product},
                                  {0}};
