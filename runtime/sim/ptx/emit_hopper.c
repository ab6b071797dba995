// emit_hopper.c: asynchronous copies, mbarriers, tensor maps.
#include "sim/ptx/ptx.h"

#include <string.h>

static void value(Emitter *e, int index, const char *type) {
  emit_value(e, need_op(e, index), ptx_type_of(type));
}

// A shared address of this block; a cluster address if it is in this block.
static void shared_address(Emitter *e, int index) {
  if (instr_has(e->instr, "shared::cluster")) {
    text_print(e->out, "x_cluster_address((u32)(u64)");
    emit_address(e, need_op(e, index), SpaceGlobal); // the number itself
    text_print(e->out, ")");
    return;
  }
  emit_address(e, need_op(e, index), instr_space(e->instr));
}

// cp.async.ca|cg.shared.global [dst], [src], cp-size[, src-size | ignore-src][, policy]
static void emit_cp_async(Emitter *e) {
  const Instr *in = e->instr;
  only_parts(e, 1, in->nparts,
             "async ca cg shared shared::cta global L2::cache_hint L2::64B L2::128B L2::256B");
  bool hint = instr_has(in, "L2::cache_hint");
  const Operand *whole = need_op(e, 2);
  if (whole->kind == OpInt && whole->bits != 16 &&
      (instr_has(in, "cg") || (whole->bits != 4 && whole->bits != 8)))
    emit_fail(e, "%s bytes are awaited", instr_has(in, "cg") ? "16" : "4, 8 or 16");
  text_print(e->out, "cusim_cp_async(");
  emit_address(e, need_op(e, 0), SpaceShared);
  text_print(e->out, ", ");
  emit_address(e, need_op(e, 1), SpaceGlobal);
  text_print(e->out, ", ");
  value(e, 2, "s32");
  text_print(e->out, ", ");
  const Operand *size = in->nops - hint > 3 ? need_op(e, 3) : whole;
  if (size->kind == OpInt && whole->kind == OpInt && size->bits > whole->bits)
    emit_fail(e, "no more bytes can be read than are written");
  if (size->kind == OpReg && e->func->regs[size->reg].type.kind == KindPred) {
    emit_value(e, size, ptx_type_of("pred"));
    text_print(e->out, " ? 0 : ");
    value(e, 2, "s32");
  } else {
    emit_value(e, size, ptx_type_of("s32"));
  }
  text_print(e->out, ");");
}

static void emit_commit(Emitter *e) {
  text_print(e->out, "cusim_cp_async_commit();");
}

static void emit_wait_group(Emitter *e) {
  text_print(e->out, "cusim_cp_async_wait(");
  value(e, 0, "s32");
  text_print(e->out, ");");
}

static void emit_wait_all(Emitter *e) {
  text_print(e->out, "cusim_cp_async_commit(); cusim_cp_async_wait(0);");
}

static void emit_cp_mbarrier(Emitter *e) {
  only_parts(e, 3, e->instr->nparts, "arrive noinc shared shared::cta b64");
  if (!instr_has(e->instr, "noinc")) { // the phase needs one arrival more, which is this one
    text_print(e->out, "cusim_mbar_more((unsigned long long *)");
    shared_address(e, 0);
    text_print(e->out, "); ");
  }
  text_print(e->out, "cusim_cp_async_mbar_arrive((unsigned long long *)");
  shared_address(e, 0);
  text_print(e->out, ");");
}

// ---- mbarriers ----------------------------------------------------------------------------------

static void barrier(Emitter *e, int index) {
  text_print(e->out, "(unsigned long long *)");
  shared_address(e, index);
}

static const char kMbarParts[] = "expect_tx noComplete release relaxed acquire parity cta cluster "
                                 "shared shared::cta shared::cluster b64";

static void emit_mbar_init(Emitter *e) {
  only_parts(e, 2, e->instr->nparts, kMbarParts);
  text_print(e->out, "cusim_mbar_init(");
  barrier(e, 0);
  text_print(e->out, ", ");
  value(e, 1, "s32");
  text_print(e->out, ");");
}

static void emit_mbar_inval(Emitter *e) {
  only_parts(e, 2, e->instr->nparts, kMbarParts);
  text_print(e->out, "*");
  barrier(e, 0);
  text_print(e->out, " = 0;");
}

// mbarrier.arrive[_drop][.expect_tx][.noComplete].b64 [state,] [addr][, count or bytes]
static void emit_mbar_arrive(Emitter *e) {
  const Instr *in = e->instr;
  only_parts(e, 2, in->nparts, kMbarParts);
  int at = need_op(e, 0)->kind == OpAddress ? 0 : 1;
  bool tx = instr_has(in, "expect_tx"), drop = !strcmp(in->part[1], "arrive_drop");
  bool to = at && need_op(e, 0)->kind != OpSink;
  if (to && instr_has(in, "shared::cluster")) emit_fail(e, "`_` is awaited as its state");
  if (in->nops > at + 1 && !instr_has(in, "noComplete") && e->module->arch < 90)
    emit_fail(e, "with a count it needs .target sm_90, not %s", e->module->target);
  if (to) emit_begin(e, need_op(e, 0), ptx_type_of("u64"));
  text_print(e->out, "cusim_mbar_arrive_many(");
  barrier(e, at);
  text_print(e->out, ", ");
  if (in->nops > at + 1 && !tx)
    value(e, at + 1, "s32");
  else
    text_print(e->out, "1");
  text_print(e->out, ", ");
  if (tx)
    value(e, at + 1, "s32");
  else
    text_print(e->out, "0");
  text_print(e->out, ", %d)", drop);
  if (to)
    emit_end(e, need_op(e, 0), ptx_type_of("u64"));
  else
    text_print(e->out, ";");
}

static void emit_mbar_tx(Emitter *e) {
  only_parts(e, 2, e->instr->nparts, kMbarParts);
  text_print(e->out, !strcmp(e->instr->part[1], "expect_tx") ? "cusim_mbar_expect("
                                                             : "cusim_mbar_complete(");
  barrier(e, 0);
  text_print(e->out, ", ");
  value(e, 1, "s32");
  text_print(e->out, ");");
}

static void emit_mbar_pending(Emitter *e) {
  emit_begin(e, need_op(e, 0), ptx_type_of("u32"));
  text_print(e->out, "cusim_mbar_pending(");
  value(e, 1, "u64");
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), ptx_type_of("u32"));
}

// mbarrier.test_wait|try_wait[.parity].b64 p, [addr], parity or state[, time]
static void emit_mbar_wait(Emitter *e) {
  const Instr *in = e->instr;
  PtxType pred = ptx_type_of("pred");
  only_parts(e, 2, in->nparts, kMbarParts);
  emit_begin(e, need_op(e, 0), pred);
  text_print(e->out, "cusim_mbar_try_wait(");
  barrier(e, 1);
  text_print(e->out, ", ");
  if (instr_has(in, "parity")) {
    value(e, 2, "s32");
  } else {
    text_print(e->out, "x_mbar_phase(");
    value(e, 2, "u64");
    text_print(e->out, ")");
  }
  text_print(e->out, ") != 0");
  emit_end(e, need_op(e, 0), pred);
}

// ---- bulk copies --------------------------------------------------------------------------------

static const char kBulkParts[] =
    "async bulk tensor 1d 2d 3d 4d 5d shared::cluster shared::cta global tile im2col "
    "im2col_no_offs "
    "mbarrier::complete_tx::bytes bulk_group multicast::cluster L2::cache_hint prefetch L2 reduce "
    "add "
    "min max and or xor inc dec u32 s32 u64 s64 f16 bf16 b32 b64 noftz f32 f64";

static int reduction(Emitter *e) {
  static const char *const names[] = {"",    "add", "min", "max", "inc",
                                      "dec", "and", "or",  "xor"};
  if (strcmp(e->instr->part[1], "reduce") != 0) return 0;
  for (int i = 1; i < 9; i++)
    if (instr_has(e->instr, names[i])) return i;
  emit_fail(e, "this reduction is not done");
}

static bool to_shared(const Instr *in) {
  return instr_has(in, "mbarrier::complete_tx::bytes");
}

static void target_shared(Emitter *e, int index) {
  bool many = instr_has(e->instr, "multicast::cluster");
  text_print(e->out,
             many ? "x_cluster_address(x_in_rank((u32)(u64)" : "x_cluster_address((u32)(u64)");
  emit_address(e, need_op(e, index), SpaceGlobal); // the number itself
  text_print(e->out, many ? ", r_))" : ")");
}

// Multicast: once for each block of a mask, its rank in r_; the mask is that operand.
static void begin_blocks(Emitter *e, int index) {
  if (!instr_has(e->instr, "multicast::cluster")) return;
  text_print(e->out, "for (u32 r_ = 0, k_ = ");
  value(e, index, "u16");
  text_print(e->out, "; k_; r_++, k_ >>= 1) if (k_ & 1) { ");
}

static void end_blocks(Emitter *e) {
  if (instr_has(e->instr, "multicast::cluster")) text_print(e->out, " }");
}

static int element_type(Emitter *e) { // as tensor maps number them
  static const struct {
    const char *name;
    int number;
  } types[] = {{"u32", 2}, {"s32", 3}, {"u64", 4},   {"s64", 5}, {"f16", 6},
               {"f32", 7}, {"f64", 9}, {"bf16", 10}, {"b32", 2}, {"b64", 4}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (instr_has(e->instr, types[i].name)) return types[i].number;
  return 0;
}

static void emit_bulk(Emitter *e) {
  const Instr *in = e->instr;
  only_parts(e, 1, in->nparts, kBulkParts);
  if (instr_has(in, "prefetch")) return;
  if (to_shared(in)) {
    int how = reduction(e);
    begin_blocks(e, 4);
    text_print(e->out, how ? "cusim_bulk_reduce(" : "cusim_bulk_load(");
    target_shared(e, 0);
    text_print(e->out, ", ");
    emit_address(e, need_op(e, 1), instr_has(in, "global") ? SpaceGlobal : SpaceShared);
    text_print(e->out, ", ");
    value(e, 2, "u32");
    text_print(e->out, ", (unsigned long long *)");
    target_shared(e, 3);
    if (how) text_print(e->out, ", %d, %d", how, element_type(e));
    text_print(e->out, ");");
    end_blocks(e);
    return;
  }
  text_print(e->out, "cusim_bulk_store(");
  emit_address(e, need_op(e, 0), SpaceGlobal);
  text_print(e->out, ", ");
  emit_address(e, need_op(e, 1), SpaceShared);
  text_print(e->out, ", ");
  value(e, 2, "u32");
  text_print(e->out, ", %d, %d);", reduction(e), element_type(e));
}

static int dimensions(Emitter *e) {
  for (int i = 1; i < e->instr->nparts; i++)
    if (strlen(e->instr->part[i]) == 2 && e->instr->part[i][1] == 'd')
      return e->instr->part[i][0] - '0';
  emit_fail(e, "how many dimensions?");
}

// `[map, {x, y}]` as two variables of the C text: m_ and c_.
static void emit_tensor_place(Emitter *e, int index, int rank) {
  const Operand *op = need_op(e, index);
  if (op->kind != OpAddress || op->nparts != 2 || op->parts[1].kind != OpVector ||
      op->parts[1].nparts != rank)
    emit_fail(e, "`[map, {%d coordinates}]` is awaited", rank);
  text_print(e->out, "{ const u8 *m_ = ");
  emit_address(e, op, SpaceGeneric);
  text_print(e->out, "; const int c_[] = {");
  for (int i = 0; i < rank; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, &op->parts[1].parts[i], ptx_type_of("s32"));
  }
  text_print(e->out, "}; ");
}

static void emit_bulk_tensor(Emitter *e) {
  const Instr *in = e->instr;
  only_parts(e, 1, in->nparts, kBulkParts);
  if (instr_has(in, "prefetch")) return;
  int rank = dimensions(e);
  bool offsets = instr_has(in, "im2col") && to_shared(in);
  emit_tensor_place(e, to_shared(in) ? 1 : 0, rank);
  if (offsets) {
    const Operand *op = need_op(e, 3);
    if (op->kind != OpVector || op->nparts != rank - 2)
      emit_fail(e, "%d offsets are awaited", rank - 2);
    text_print(e->out, "const int o_[] = {");
    for (int i = 0; i < op->nparts; i++) {
      if (i) text_print(e->out, ", ");
      emit_value(e, &op->parts[i], ptx_type_of("u16"));
    }
    text_print(e->out, "}; ");
  }
  if (to_shared(in)) {
    begin_blocks(e, offsets ? 4 : 3);
    text_print(e->out, "cusim_tensor_load(");
    target_shared(e, 0);
    text_print(e->out, ", m_, c_, %d, (unsigned long long *)", rank);
    target_shared(e, 2);
    text_print(e->out, offsets ? ", o_);" : ", 0);");
    end_blocks(e);
    text_print(e->out, " }");
  } else {
    text_print(e->out, "cusim_tensor_store(m_, c_, %d, ", rank);
    emit_address(e, need_op(e, 1), SpaceShared);
    text_print(e->out, ", %d); }", reduction(e));
  }
}

static void emit_bulk_commit(Emitter *e) {
  text_print(e->out, "cusim_bulk_commit();");
}

static void emit_bulk_wait(Emitter *e) {
  only_parts(e, 4, e->instr->nparts, "read");
  text_print(e->out, "cusim_bulk_wait(");
  value(e, 0, "s32");
  text_print(e->out, ", %d);", instr_has(e->instr, "read"));
}

// ---- tensor maps --------------------------------------------------------------------------------

// tensormap.replace.tile.field.space.b1024.type [map][, index], value
static void emit_replace(Emitter *e) {
  const Instr *in = e->instr;
  static const struct {
    const char *name, *field;
    bool indexed;
  } fields[] = {{"global_address", "address", false},
                {"rank", "rank", false},
                {"box_dim", "box", true},
                {"global_dim", "dims", true},
                {"global_stride", "strides", true},
                {"element_stride", "steps", true},
                {"elemtype", "type", false},
                {"interleave_layout", "interleave", false},
                {"swizzle_mode", "swizzle", false},
                {"fill_mode", "fill", false}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (!instr_has(in, fields[i].name)) continue;
    text_print(e->out, "((CusimTensorMap *)");
    emit_address(e, need_op(e, 0), instr_space(in));
    text_print(e->out, ")->%s", fields[i].field);
    if (fields[i].indexed) {
      text_print(e->out, "[");
      value(e, 1, "u32");
      text_print(e->out, "]");
    }
    text_print(e->out, " = ");
    value(e, fields[i].indexed ? 2 : 1, instr_has(in, "b64") ? "u64" : "u32");
    text_print(e->out, ";");
    return;
  }
  emit_fail(e, "which field?");
}

static void emit_map_copy(Emitter *e) {
  text_print(e->out, "__builtin_memcpy(");
  emit_address(e, need_op(e, 0), SpaceGlobal);
  text_print(e->out, ", ");
  emit_address(e, need_op(e, 1), SpaceShared);
  text_print(e->out, ", 128);");
}

// st.async[.weak|.cluster].shared::cluster.mbarrier::complete_tx::bytes[.v2|.v4].type
// [addr], value, [mbar]
static void emit_st_async(Emitter *e) {
  PtxType type = instr_type(e, 0);
  const Operand *from = need_op(e, 1);
  int n = from->kind == OpVector ? from->nparts : 1;
  only_parts(e, 1, e->instr->nparts - 1,
             "async weak cluster shared::cluster mbarrier::complete_tx::bytes v2 v4");
  if (type.bits != 32 && type.bits != 64) emit_fail(e, "32 or 64 bits are awaited");
  text_print(e->out, "{ const %s t_[] = {", type.bits == 32 ? "u32" : "u64");
  for (int i = 0; i < n; i++) {
    if (i) text_print(e->out, ", ");
    emit_value(e, from->kind == OpVector ? &from->parts[i] : from,
               ptx_type_of(type.bits == 32 ? "u32" : "u64"));
  }
  text_print(e->out, "}; cusim_store_async(");
  target_shared(e, 0);
  text_print(e->out, ", t_, sizeof t_, (unsigned long long *)");
  target_shared(e, 2);
  text_print(e->out, "); }");
}

// red.async[.sem.scope].shared::cluster.mbarrier::complete_tx::bytes.op.type [addr], value, [mbar]
static void emit_red_async(Emitter *e) {
  const Instr *in = e->instr;
  PtxType type = instr_type(e, 0);
  const char *op = in->part[in->nparts - 2];
  bool add = !strcmp(op, "add"), bits = type.kind == KindBits;
  only_parts(e, 1, in->nparts - 1,
             "async relaxed cluster shared::cluster mbarrier::complete_tx::bytes add min max inc "
             "dec and or xor");
  if (type.kind == KindFloat || (type.bits != 32 && !(add && type.bits == 64)))
    emit_fail(e, "of this type");
  if (bits) type = ptx_type_of(type.bits == 64 ? "u64" : "u32");
  text_print(e->out, "x_atom_%s<%s>(", op, type.name);
  target_shared(e, 0);
  text_print(e->out, ", ");
  emit_value(e, need_op(e, 1), type);
  text_print(e->out, "); cusim_mbar_complete((unsigned long long *)");
  target_shared(e, 2);
  text_print(e->out, ", %d);", type.bits / 8);
}

static void emit_proxy_fence(Emitter *e) {
  text_print(e->out, "cusim_proxy_fence();");
}

const EmitRow emit_hopper_rows[] = {{"cp.async", emit_cp_async},
                                    {"cp.async.commit_group", emit_commit},
                                    {"cp.async.wait_group", emit_wait_group},
                                    {"cp.async.wait_all", emit_wait_all},
                                    {"cp.async.mbarrier", emit_cp_mbarrier},
                                    {"mbarrier.init", emit_mbar_init},
                                    {"mbarrier.inval", emit_mbar_inval},
                                    {"mbarrier.arrive", emit_mbar_arrive},
                                    {"mbarrier.arrive_drop", emit_mbar_arrive},
                                    {"mbarrier.expect_tx", emit_mbar_tx},
                                    {"mbarrier.complete_tx", emit_mbar_tx},
                                    {"mbarrier.pending_count", emit_mbar_pending},
                                    {"cp.async.bulk", emit_bulk},
                                    {"cp.reduce.async.bulk", emit_bulk},
                                    {"cp.async.bulk.tensor", emit_bulk_tensor},
                                    {"cp.reduce.async.bulk.tensor", emit_bulk_tensor},
                                    {"cp.async.bulk.commit_group", emit_bulk_commit},
                                    {"cp.async.bulk.wait_group", emit_bulk_wait},
                                    {"tensormap.replace", emit_replace},
                                    {"tensormap.cp_fenceproxy", emit_map_copy},
                                    {"st.async", emit_st_async},
                                    {"red.async", emit_red_async},
                                    {"fence.proxy.async", emit_proxy_fence},
                                    {"mbarrier.test_wait", emit_mbar_wait},
                                    {"mbarrier.try_wait", emit_mbar_wait},
                                    {0}};
