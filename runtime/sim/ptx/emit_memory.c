// emit_memory.c: loads, stores, atomics, addresses, conversions of width by mov.
#include "sim/ptx/ptx.h"

#include <string.h>

static const char kHints[] = // without effect here
    "ca cg cs lu cv wb wt nc L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last "
    "L1::no_allocate L2::64B L2::128B L2::256B L2::cache_hint L2::evict_first L2::evict_last "
    "L2::evict_normal level::eviction_priority unified mmio";
static const char kSpaces[] = "global shared shared::cta shared::cluster const local param "
                              "param::entry param::func";
static const char kOrders[] =
    "weak volatile relaxed acquire release acq_rel sc cta cluster gpu sys";

static void check_parts(Emitter *e, int end, const char *more) {
  char words[1024];
  snprintf(words, sizeof words, "%s %s %s %s", kHints, kSpaces, kOrders, more);
  only_parts(e, 1, end, words);
}

// Template argument of x_ld and x_st: whether it is traced, and its memory order.
static const char *access_kind(const Emitter *e, PtxSpace space) {
  if (space == SpaceParam) return "Own";
  if (space == SpaceLocal) return "Local";
  if (instr_has(e->instr, "volatile")) return "Volatile";
  if (instr_has(e->instr, "relaxed") || instr_has(e->instr, "acquire") ||
      instr_has(e->instr, "release"))
    return "Atomic";
  return space == SpaceConst ? "Constant" : "Plain";
}

static PtxSpace need_space(Emitter *e) {
  if (instr_has(e->instr, "shared::cluster")) return SpaceGeneric;
  return instr_space(e->instr);
}

// The address as text, of any space, also cluster shared memory.
static void address(Emitter *e, const Operand *op) {
  bool cluster = instr_has(e->instr, "shared::cluster");
  if (!cluster) {
    emit_address(e, op, instr_space(e->instr));
    return;
  }
  text_print(e->out, "x_cluster_address((u32)(u64)");
  emit_address(e, op, SpaceGlobal); // the number itself
  text_print(e->out, ")");
}

static int vector_count(Emitter *e, const Operand *op) {
  int n = instr_has(e->instr, "v2") ? 2 : instr_has(e->instr, "v4") ? 4
        : instr_has(e->instr, "v8") ? 8 : 1;
  int given = op->kind == OpVector ? op->nparts : 1;
  if (given != n || (n > 1 && op->kind != OpVector)) emit_fail(e, "as many registers as it says");
  return n;
}

// `{%r1}`, which compilers write for %r1.
static const Operand *alone(const Operand *op) {
  return op->kind == OpVector && op->nparts == 1 ? op->parts : op;
}

// A value's type in memory: floats as bits, except under their own names.
static PtxType memory_type(PtxType type) {
  return type;
}

// An access by a parameter's name must be inside of it; for a kernel's parameter, inside of all.
static void check_param(Emitter *e, const Operand *op, int bytes) {
  const PtxVar *var = op->nparts ? op->parts[0].var : NULL;
  if (op->kind != OpAddress || op->parts[0].kind != OpVar || var->space != SpaceParam) return;
  if (var->extern_array) return;
  bool kernel = is_kernel_param(e, var);
  int64_t at = (int64_t)(op->bits + op->parts[0].bits + (kernel ? var->offset : 0));
  size_t size = kernel ? e->func->param_bytes : var->count * (size_t)(var->type.bits / 8);
  if (at < 0 || (size_t)at + (size_t)bytes > size)
    emit_fail(e, "%d bytes at %lld of %zu: past the end of %s", bytes, (long long)at, size,
              kernel ? "the parameters" : var->name);
}

// A function's parameters are read-only by name.
static void check_target_param(Emitter *e, const Operand *op) {
  const PtxVar *var = op->kind == OpAddress && op->parts[0].kind == OpVar ? op->parts[0].var : NULL;
  for (int i = 0; var && i < e->func->nparams; i++)
    if (e->func->params[i] == var) emit_fail(e, "%.100s is only read", var->name);
}

static void emit_ld(Emitter *e) {
  PtxType type = memory_type(instr_type(e, 0));
  PtxSpace space = need_space(e);
  check_parts(e, e->instr->nparts - 1, "v2 v4 v8");
  int n = vector_count(e, need_op(e, 0));
  const char *kind = access_kind(e, space);
  const Operand *target = n == 1 ? alone(need_op(e, 0)) : need_op(e, 0);
  check_param(e, need_op(e, 1), n * type.bits / 8);
  if (n == 1) {
    emit_begin(e, target, type);
    text_print(e->out, "x_ld<%s, %s>(", type.name, kind);
    address(e, need_op(e, 1));
    text_print(e->out, ")");
    emit_end(e, target, type);
    return;
  }
  text_print(e->out, "{ auto t_ = x_ld<x_vector<%s, %d>, %s>(", type.name, n, kind);
  address(e, need_op(e, 1));
  text_print(e->out, ");");
  for (int i = 0; i < n; i++) {
    if (target->parts[i].kind == OpSink) continue;
    text_print(e->out, " ");
    emit_begin(e, &target->parts[i], type);
    text_print(e->out, "t_.v[%d]", i);
    emit_end(e, &target->parts[i], type);
  }
  text_print(e->out, " }");
}

static void emit_st(Emitter *e) {
  PtxType type = memory_type(instr_type(e, 0));
  PtxSpace space = need_space(e);
  check_parts(e, e->instr->nparts - 1, "v2 v4 v8");
  const Operand *value = need_op(e, 1);
  int n = vector_count(e, value);
  if (space == SpaceConst) emit_fail(e, "constant memory is only read");
  check_target_param(e, need_op(e, 0));
  check_param(e, need_op(e, 0), n * type.bits / 8);
  text_print(e->out, "x_st<%s>(", access_kind(e, space));
  address(e, need_op(e, 0));
  if (n == 1) {
    text_print(e->out, ", (%s)(", type.name);
    emit_value(e, alone(value), type);
    text_print(e->out, "));");
    return;
  }
  text_print(e->out, ", x_vector<%s, %d>{", type.name, n);
  for (int i = 0; i < n; i++) {
    text_print(e->out, "%s(%s)", i ? ", " : "", type.name);
    emit_value(e, &value->parts[i], type);
  }
  text_print(e->out, "});");
}

// ---- mov ----------------------------------------------------------------------------------------

static PtxType part_type(Emitter *e, PtxType whole, int n) {
  int bits = whole.bits / n;
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) emit_fail(e, "parts of this size");
  return ptx_type_of(bits == 8 ? "u8" : bits == 16 ? "u16" : bits == 32 ? "u32" : "u64");
}

static PtxType register_type(Emitter *e, PtxType type) {
  (void)e;
  if (type.kind == KindPred || type.kind == KindFloat || type.bits == 128) return type;
  return ptx_type_of(type.bits == 16   ? "u16"
                     : type.bits == 32 ? "u32"
                     : type.bits == 8  ? "u8"
                                       : "u64");
}

// mov.v4.u32 q, %tid; or of another vector.
static void emit_mov_vector(Emitter *e, PtxType type) {
  static const char *const tails[] = {".x", ".y", ".z", ".w"};
  const Operand *to = need_op(e, 0), *from = need_op(e, 1);
  int n = vector_count(e, to);
  only_parts(e, 2, e->instr->nparts - 1, "");
  if (from->kind != OpSpecial && (from->kind != OpVector || from->nparts != n))
    emit_fail(e, "as many values as it says");
  text_print(e->out, "{ const %s t_[] = {", type.name);
  for (int i = 0; i < n; i++) {
    char name[64];
    snprintf(name, sizeof name, "%.40s%s", from->kind == OpSpecial ? from->name : "", tails[i % 4]);
    Operand part = {.kind = OpSpecial, .name = name};
    text_print(e->out, "%s(%s)", i ? ", " : "", type.name);
    emit_value(e, from->kind == OpSpecial ? &part : &from->parts[i], type);
  }
  text_print(e->out, "};");
  for (int i = 0; i < n; i++) {
    text_print(e->out, " ");
    emit_begin(e, &to->parts[i], type);
    text_print(e->out, "t_[%d]", i);
    emit_end(e, &to->parts[i], type);
  }
  text_print(e->out, " }");
}

// Special registers have 32 bits, some 64; old ones may be read by their lower 16. One is a
// predicate.
static void check_special(Emitter *e, const Operand *op, PtxType type) {
  static const char *const wide[] = {"%clock64", "%globaltimer", "%current_graph_exec", "%gridid"};
  static const char *const narrow[] = {"%tid", "%ntid", "%ctaid", "%nctaid", "%gridid"};
  bool is_wide = strstr(op->name, "_64") != NULL, is_narrow = false;
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) is_wide |= !strcmp(op->name, wide[i]);
  for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
    is_narrow |= !strncmp(op->name, narrow[i], strlen(narrow[i])) &&
                 strchr(".", op->name[strlen(narrow[i])]);
  bool is_pred = !strcmp(op->name, "%is_explicit_cluster");
  bool cluster = is_pred || !strncmp(op->name, "%cluster", 8) ||
                 !strncmp(op->name, "%ncluster", 9) ||
                 !strcmp(op->name, "%aggr_smem_size");
  bool fits = is_pred || type.kind == KindPred ? is_pred && type.kind == KindPred
              : type.bits == 32                ? !is_wide || is_narrow
              : type.bits == 16                ? is_narrow
                                               : is_wide && type.bits == 64;
  if (cluster && e->module->arch < 90) emit_fail(e, "%s needs .target sm_90", op->name);
  if (!fits || type.kind == KindFloat) emit_fail(e, "%s is no .%s", op->name, type.name);
}

// At least one part of a vector must be a register, which gives the type; in a packed operand, `_`
// is a half of 32 bits.
static void check_sinks(Emitter *e, const Operand *op, bool allowed) {
  int sinks = 0;
  for (int i = 0; i < op->nparts; i++) sinks += op->parts[i].kind == OpSink;
  if (op->kind == OpVector && sinks && (!allowed || sinks == op->nparts))
    emit_fail(e, allowed ? "every part is `_`" : "`_` in what is packed");
}

static void emit_mov(Emitter *e) {
  PtxType type = register_type(e, instr_type(e, 0));
  const Operand *to = alone(need_op(e, 0)), *from = alone(need_op(e, 1));
  if (instr_has(e->instr, "v2") || instr_has(e->instr, "v4")) {
    emit_mov_vector(e, type);
    return;
  }
  only_parts(e, 1, e->instr->nparts - 1, "");
  if (from->kind == OpSpecial) check_special(e, from, instr_type(e, 0));
  if (to->kind == OpVector && from->kind == OpVector) emit_fail(e, "between vectors");
  check_sinks(e, to, true);
  check_sinks(e, from, type.bits == 32);
  bool parts = to->kind == OpVector || from->kind == OpVector;
  if (parts && instr_type(e, 0).kind != KindBits) emit_fail(e, "`.b` of so many bits is awaited");
  bool fixed = from->kind == OpInt || from->kind == OpVar;
  if (type.kind == KindFloat && fixed) emit_fail(e, "an integer or address");
  if (type.kind == KindPred && from->kind == OpVar) emit_fail(e, "an address");
  if (to->kind == OpVector) { // unpack
    PtxType part = part_type(e, type, to->nparts);
    text_print(e->out, "{ %s t_ = ",
               type.bits == 128  ? "b128"
               : type.bits == 64 ? "u64"
               : type.bits == 32 ? "u32"
                                 : "u16");
    emit_value(e, from,
               type.kind == KindFloat ? ptx_type_of(type.bits == 64 ? "u64" : "u32") : type);
    text_print(e->out, ";");
    for (int i = 0; i < to->nparts; i++) {
      if (to->parts[i].kind == OpSink) continue;
      text_print(e->out, " ");
      emit_begin(e, &to->parts[i], part);
      text_print(e->out, "(%s)(t_ >> %d)", part.name, i * part.bits);
      emit_end(e, &to->parts[i], part);
    }
    text_print(e->out, " }");
    return;
  }
  emit_begin(e, to, type);
  if (from->kind == OpVector) { // pack
    PtxType part = part_type(e, type, from->nparts);
    const char *whole = type.bits == 128 ? "b128" : type.bits == 64 ? "u64" : "u32";
    for (int i = 0; i < from->nparts; i++) {
      text_print(e->out, "%s(%s)", i ? " | " : "", whole);
      if (from->parts[i].kind != OpSink) // `_`: any bits; all of them, NaN in halves of floats
        emit_value(e, &from->parts[i], part);
      else
        text_print(e->out, "(%s)~0ull", part.name);
      text_print(e->out, " << %d", i * part.bits);
    }
  } else {
    emit_value(e, from, type);
  }
  emit_end(e, to, type);
}

// ---- addresses ----------------------------------------------------------------------------------

static void emit_cvta(Emitter *e) {
  PtxType type = instr_type(e, 0);
  bool to = instr_has(e->instr, "to");
  PtxSpace space = instr_space(e->instr);
  only_parts(e, 1, e->instr->nparts - 1,
             "to global shared shared::cta shared::cluster const local param param::entry");
  bool cluster = instr_has(e->instr, "shared::cluster");
  const char *base = space == SpaceShared ? "SB" : space == SpaceParam ? "PB" : NULL;
  PtxType u64 = ptx_type_of("u64"), result = type.bits == 32 ? ptx_type_of("u32") : u64;
  const Operand *from = need_op(e, 1);
  bool narrow = type.bits == 32 && from->kind == OpReg;
  if (to && from->kind == OpVar) emit_fail(e, "a register is awaited");
  if (type.bits == 32 && e->module->arch >= 90) emit_fail(e, "addresses have 64 bits");
  if (from->kind == OpVar) lint_address(e, from, space);
  emit_begin(e, need_op(e, 0), result);
  if (cluster) text_print(e->out, to ? "x_to_cluster(" : "(u64)x_cluster_address((u32)");
  if (base && !to) text_print(e->out, "(u64)(%s + (u32)", base);
  emit_value(e, from, narrow ? ptx_type_of("u32") : u64);
  if (base) text_print(e->out, to ? " - (u64)%s" : ")", base);
  if (cluster) text_print(e->out, ")");
  emit_end(e, need_op(e, 0), result);
}

static void emit_isspacep(Emitter *e) {
  only_parts(e, 1, 2, "global shared shared::cta shared::cluster const local param param::entry");
  emit_begin(e, need_op(e, 0), ptx_type_of("pred"));
  const char *space = e->instr->part[1];
  text_print(e->out, "x_isspacep_%s((u8 *)",
             !strcmp(space, "shared::cta")       ? "shared"
             : !strcmp(space, "shared::cluster") ? "cluster"
             : !strncmp(space, "param", 5)       ? "param"
                                                 : space);
  const Operand *op = need_op(e, 1);
  if (op->kind == OpVar) emit_fail(e, "a register is awaited");
  bool narrow = op->kind == OpReg && e->func->regs[op->reg].type.bits == 32;
  emit_value(e, op, ptx_type_of(narrow ? "u32" : "u64"));
  text_print(e->out, ")");
  emit_end(e, need_op(e, 0), ptx_type_of("pred"));
}

// alloca.type p, bytes[, alignment]: until the function ends, whatever stackrestore says.
static void emit_alloca(Emitter *e) {
  PtxType type = instr_type(e, 0);
  int align = e->instr->nops > 2 ? (int)need_op(e, 2)->bits : 16;
  if (align < 1 || align > 1 << 14 || (align & (align - 1))) emit_fail(e, "the alignment");
  emit_begin(e, need_op(e, 0), type);
  text_print(e->out, "((%s)(u64)__builtin_alloca(", type.name);
  emit_value(e, need_op(e, 1), type);
  text_print(e->out, " + %d) + %d) / %d * %d", align, align - 1, align, align);
  emit_end(e, need_op(e, 0), type);
}

static void emit_stacksave(Emitter *e) {
  PtxType type = instr_type(e, 0);
  emit_begin(e, need_op(e, 0), type);
  text_print(e->out, "0");
  emit_end(e, need_op(e, 0), type);
}

static void emit_stackrestore(Emitter *e) {
  if (need_op(e, 0)->kind != OpReg) emit_fail(e, "a register is awaited");
  text_print(e->out, "(void)(");
  emit_value(e, need_op(e, 0), instr_type(e, 0));
  text_print(e->out, ");");
}

static void emit_touch(Emitter *e) { // evaluates the address; for hints without effect
  text_print(e->out, "(void)");
  emit_address(e, need_op(e, 0), need_space(e));
  text_print(e->out, ";");
}

// ---- policies of caches -------------------------------------------------------------------------

static void check_second_priority(Emitter *e) {
  const char *second = e->instr->part[e->instr->nparts - 2];
  int count = 0;
  for (int i = 2; i < e->instr->nparts; i++) count += !strncmp(e->instr->part[i], "L2::", 4);
  if (count > 2) emit_fail(e, "two priorities at most");
  if (count > 1 && strcmp(second, "L2::evict_first") != 0 &&
      strcmp(second, "L2::evict_unchanged") != 0)
    emit_fail(e, "`.%s` as the second priority", second);
}

static void check_fraction(Emitter *e) {
  const Operand *op = need_op(e, 1);
  float f = 0;
  double d = 0;
  memcpy(&f, &op->bits, sizeof f);
  memcpy(&d, &op->bits, sizeof d);
  if (op->kind == OpFloat) d = f;
  if (op->kind == OpInt || (op->kind != OpReg && !(d > 0 && d <= 1)))
    emit_fail(e, "a fraction above 0, at most 1, is awaited");
}

// createpolicy.fractional.priority[.second].b64 d[, fraction]; .range[.global].priority[.second]
// .b64 d, [a], bytes, bytes; .cvt.L2.b64 d, a: a policy, without effect here.
static void emit_policy(Emitter *e) {
  PtxType b64 = ptx_type_of("b64"), u32 = ptx_type_of("u32");
  const char *how = e->instr->nparts > 1 ? e->instr->part[1] : "";
  check_second_priority(e);
  text_print(e->out, "{ ");
  if (!strcmp(how, "fractional") && e->instr->nops > 1) {
    check_fraction(e);
    text_print(e->out, "(void)");
    emit_value(e, need_op(e, 1), ptx_type_of("f32"));
    text_print(e->out, "; ");
  }
  for (int i = 2; i < 4 && !strcmp(how, "range"); i++) {
    text_print(e->out, "(void)");
    emit_value(e, need_op(e, i), u32);
    text_print(e->out, "; ");
  }
  emit_begin(e, need_op(e, 0), b64);
  if (!strcmp(how, "cvt"))
    emit_value(e, need_op(e, 1), b64);
  else
    text_print(e->out, "0");
  emit_end(e, need_op(e, 0), b64);
  text_print(e->out, " }");
}

// ---- atomics ------------------------------------------------------------------------------------

static const char *atomic_op(Emitter *e) {
  static const char *const known[] = {"add", "min", "max", "inc",  "dec",
                                      "and", "or",  "xor", "exch", "cas"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (instr_has(e->instr, known[i])) return known[i];
  emit_fail(e, "which operation?");
}

// The operation precedes the type; for vectors it may also follow: `.v2.f32.add`.
static PtxType atomic_type(Emitter *e) {
  int last = e->instr->nparts - 1, at = last;
  while (at > 1 && !ptx_type_of(e->instr->part[at]).kind) at--;
  check_parts(e, at, "add min max inc dec and or xor exch cas noftz v2 v4 v8");
  if (at < last) only_parts(e, at + 1, last + 1, "add min max noftz");
  return instr_type(e, last - at);
}

// Bits are exchanged and combined by logic, numbers added and compared; PTX has no other forms.
static void check_atomic(const Emitter *e, const char *op, PtxType type) {
  if (type.bits == 128) return;
  bool counts = !strcmp(op, "inc") || !strcmp(op, "dec"), adds = !strcmp(op, "add");
  bool numbers = adds || !strcmp(op, "min") || !strcmp(op, "max");
  if (counts ? strcmp(type.name, "u32") != 0
             : numbers == (type.kind == KindBits) || (adds && !strcmp(type.name, "s64")))
    emit_fail(e, "`.%s` is not of `%s`", op, type.name);
}

static void emit_atom(Emitter *e) {
  PtxType type = atomic_type(e);
  bool reads = !strcmp(e->instr->part[0], "atom");
  const char *op = atomic_op(e);
  int n = instr_has(e->instr, "v2")   ? 2
          : instr_has(e->instr, "v4") ? 4
          : instr_has(e->instr, "v8") ? 8
                                      : 1;
  bool cas = !strcmp(op, "cas");
  check_atomic(e, op, type);
  if (type.kind == KindBits)
    type = type.bits == 128 ? type
                            : ptx_type_of(type.bits == 16   ? "u16"
                                          : type.bits == 32 ? "u32"
                                                            : "u64");
  bool wide = type.bits == 128;
  if (wide && ((!cas && strcmp(op, "exch") != 0) || !reads || n > 1))
    emit_fail(e, "of 128 bits it is exch or cas");
  int at = reads ? 1 : 0;
  text_print(e->out, "{ u8 *a_ = ");
  address(e, need_op(e, at));
  text_print(e->out, "; ");
  if (n > 1) text_print(e->out, "x_atom_vector(a_, %d); ", n * type.bits / 8);
  for (int i = 0; i < n; i++) {
    const Operand *to = reads ? (n > 1 ? &need_op(e, 0)->parts[i] : need_op(e, 0)) : NULL;
    const Operand *value = need_op(e, at + 1);
    if (n > 1 && (value->kind != OpVector || value->nparts != n))
      emit_fail(e, "as many values as it says");
    if (to && n > 1 && need_op(e, 0)->nparts != n) emit_fail(e, "as many registers as it says");
    if (n > 1) value = &value->parts[i];
    if (to) emit_begin(e, to, type);
    text_print(e->out, wide ? "x_atom_%s(" : "x_atom_%s<%s>(", op, type.name);
    text_print(e->out, "a_ + %d, ", i * type.bits / 8);
    emit_value(e, value, type);
    if (cas) {
      text_print(e->out, ", ");
      emit_value(e, need_op(e, at + 2), type);
    }
    text_print(e->out, ")");
    if (to)
      emit_end(e, to, type);
    else
      text_print(e->out, ";");
    text_print(e->out, " ");
  }
  text_print(e->out, "}");
}

const EmitRow emit_memory_rows[] = {{"ld", emit_ld},
                                    {"ldu", emit_ld},
                                    {"st", emit_st},
                                    {"mov", emit_mov},
                                    {"cvta", emit_cvta},
                                    {"isspacep", emit_isspacep},
                                    {"prefetch", emit_touch},
                                    {"prefetchu", emit_touch},
                                    {"applypriority", emit_touch},
                                    {"discard", emit_touch},
                                    {"createpolicy", emit_policy},
                                    {"alloca", emit_alloca},
                                    {"stacksave", emit_stacksave},
                                    {"stackrestore", emit_stackrestore},
                                    {"atom", emit_atom},
                                    {"red", emit_atom},
                                    {0}};
