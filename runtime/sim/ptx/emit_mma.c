// emit_mma.c: mma.sync of one product at a time: all that does not go into the runs of
// emit_matrix.c.
#include "sim/ptx/ptx.h"

#include <string.h>

typedef struct Element {
  const char *name, *text; // in C++
  int family;              // A and B must be of one family
  int group;               // elements of k that four lanes' registers hold
  int depths[3], small;    // k of mma with 16 rows, and with 8 rows; 0 if none
} Element;

static const Element elements[] = {
    {"f16", "F16", 0, 8, {8, 16}, 0},      {"bf16", "Bf16", 1, 8, {8, 16}, 0},
    {"tf32", "Tf32", 2, 4, {4, 8}, 0},     {"f64", "F64", 3, 4, {4, 8, 16}, 4},
    {"s8", "S8", 4, 16, {16, 32}, 16},     {"u8", "U8", 4, 16, {16, 32}, 16},
    {"s4", "S4", 5, 32, {32, 64}, 32},     {"u4", "U4", 5, 32, {32, 64}, 32},
    {"e4m3", "E4m3", 6, 16, {16, 32}, 0},  {"e5m2", "E5m2", 6, 16, {16, 32}, 0},
    {"b1", "B1", 7, 128, {128, 256}, 128},
};

static const Element *element(Emitter *e, const char *name) {
  for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
    if (!strcmp(elements[i].name, name)) return &elements[i];
  emit_fail(e, "mma of `%s` is not done", name);
}

// The type of C or D, as C++ text; fails if the elements do not allow it.
static const char *sum_of(Emitter *e, const char *name, const Element *a, bool saturate) {
  bool whole = strchr("sub", a->name[0]) && strcmp(a->name, "bf16") != 0;
  if (!strcmp(name, "s32") && whole) return saturate ? "SumInt<true>" : "SumInt<false>";
  if (!strcmp(name, "f64") && !strcmp(a->name, "f64")) return "SumDouble";
  if (!strcmp(name, "f32") && !whole && strcmp(a->name, "f64") != 0) return "SumFloat";
  if (!strcmp(name, "f16") && (!strcmp(a->name, "f16") || a->family == 6)) return "SumHalf";
  emit_fail(e, "sums of `%s` of `%s`", name, a->name);
}

// Begins a list of `count` registers' bits; the caller closes it.
static void take_in(Emitter *e, int index, int count, PtxType type, const char *name) {
  const Operand *op = need_op(e, index);
  int given = op->kind == OpVector ? op->nparts : 0;
  if (given != count) emit_fail(e, "operand %d holds %d registers", index + 1, count);
  text_print(e->out, "const %s %s[] = {", type.name, name);
  for (int i = 0; i < count; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, &op->parts[i], type);
  }
  text_print(e->out, "}; ");
}

static void give_out(Emitter *e, int count, PtxType type) {
  const Operand *op = need_op(e, 0);
  int given = op->kind == OpVector ? op->nparts : 0;
  if (given != count) emit_fail(e, "operand 1 holds %d registers", count);
  for (int i = 0; i < count; i++) {
    const Operand *to = &op->parts[i];
    text_print(e->out, " ");
    emit_begin(e, to, type);
    text_print(e->out, "d_[%d]", i);
    emit_end(e, to, type);
  }
}

static void shape_of(Emitter *e, const Element *a, int *rows, int *depth) {
  for (int i = 1; i < e->instr->nparts; i++) {
    if (sscanf(e->instr->part[i], "m%dn8k%d", rows, depth) != 2) continue;
    if (*rows == 8 && *depth == a->small) return;
    for (int k = 0; k < 3; k++)
      if (*rows == 16 && *depth == a->depths[k]) return;
  }
  emit_fail(e, "this shape is not done for `%s`", a->name);
}

// Multiplication and addition, as C++ text; `last`: index of the last type.
static const char *product_of(Emitter *e, const Element *a, int last) {
  static const char *const modes[][2] = {{"rz", "FusedRz"}, {"rm", "FusedRm"}, {"rp", "FusedRp"}};
  if (!strcmp(a->name, "b1")) {
    only_parts(e, last + 1, last + 2, "xor and");
    return !strcmp(e->instr->part[last + 1], "and") ? "AndCount" : "XorCount";
  }
  for (int i = 0; i < 3; i++) {
    if (!instr_has(e->instr, modes[i][0])) continue;
    if (strcmp(a->name, "f64") != 0) emit_fail(e, "`.%s` of `%s`", modes[i][0], a->name);
    return modes[i][1];
  }
  return "TimesPlus";
}

// mma.sync.aligned.shape.row.col[.satfinite|.rnd][.kind].d.a.b.c[.op.popc] d, a, b, c
static void emit_mma(Emitter *e) {
  const Instr *in = e->instr;
  int last = in->nparts - 1;
  if (!strcmp(in->part[last], "popc")) last -= 2;
  if (!strcmp(in->part[last], "satfinite")) last--; // ptxas accepts it after the types, too
  if (last < 5) emit_fail(e, "four types are awaited");
  const char *const *types = &in->part[last - 3]; // d, a, b, c
  const Element *a = element(e, types[1]), *b = element(e, types[2]);
  bool bits = !strcmp(a->name, "b1"), wide = !strcmp(a->name, "f64");
  int rows = 0, depth = 0;
  only_parts(e, 1, last - 3,
             "sync aligned row col satfinite rn rz rm rp kind::f8f6f4 m8n8k4 m8n8k16 m8n8k32 "
             "m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128 m16n8k256");
  if (!strcmp(types[0], "f16") && !strcmp(types[3], "f32"))
    emit_fail(e, "`f32` is added to what is kept as `f16`");
  if (a->family != b->family) emit_fail(e, "`%s` with `%s`", a->name, b->name);
  if (bits != instr_has(in, "popc")) emit_fail(e, "`.xor.popc` and `.and.popc` are of `b1`");
  shape_of(e, a, &rows, &depth);
  bool saturate = instr_has(in, "satfinite");
  const char *c = sum_of(e, types[3], a, saturate), *d = sum_of(e, types[0], a, saturate);
  const char *product = product_of(e, a, last);
  PtxType type = ptx_type_of(wide ? "u64" : "u32");
  int groups = depth / a->group, high = rows / 8;
  int in_c = strcmp(c, "SumHalf") != 0 ? 2 : 1, in_d = strcmp(d, "SumHalf") != 0 ? 2 : 1;
  text_print(e->out, "{ ");
  take_in(e, 1, high * groups, type, "a_");
  take_in(e, 2, groups, type, "b_");
  take_in(e, 3, high * in_c, type, "c_");
  text_print(e->out, "%s d_[%d]; cusim::mma_any<cusim::%s, cusim::%s, cusim::%s, cusim::%s, %d, ",
             type.name, high * in_d, a->text, b->text, c, d, rows);
  text_print(e->out, "%d, cusim::%s>(d_, a_, b_, c_);", bits ? depth / 32 : depth, product);
  give_out(e, high * in_d, type);
  text_print(e->out, " }");
}

static void emit_sparse(Emitter *e) {
  emit_fail(e, "products with a sparse matrix are not modelled");
}

const EmitRow emit_mma_rows[] = {{"mma", emit_mma},
                                 {"mma.sp", emit_sparse},
                                 {"mma.sp::ordered_metadata", emit_sparse},
                                 {"wgmma.mma_async.sp", emit_sparse},
                                 {0}};
