// emit_lint_forms.c: invalid combinations of modifiers: forms that NVIDIA's assembler rejects
// although each modifier is known; and the number of operands by modifiers.
#include "sim/ptx/ptx.h"

#include <limits.h>
#include <string.h>

#define INTEGERS "-u16 -s16 -u32 -s32 -u64 -s64"
#define BITS "-b16 -b32 -b64"
#define FLOATS "-f16 -f16x2 -bf16 -bf16x2 -f32 -f64"
#define SHARED "shared shared::cta shared::cluster"
#define PARAMS "param param::entry param::func"
#define L1_HINTS                                                                                   \
  "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"
#define HINTS L1_HINTS " L2::64B L2::128B L2::256B L2::cache_hint"
#define SCOPES "cta cluster gpu sys"
#define ROUNDED "rn rz rm rp"
#define BULK "cp.reduce.async.bulk.global cp.reduce.async.bulk.shared::cluster"

// Such a form is rejected: the opcode begins with one of the names, it has one modifier of each
// group (`;` between), and none of `lacks`. -u32: as the last type.
typedef struct Form {
  const char *names, *has, *lacks;
  int arch; // allowed for targets from there on; 0: for none
} Form;

static const Form forms[] = {
    {"cp.async.ca cp.async.cg", NULL, "shared shared::cta", 0},
    {"cp", "im2col im2col_no_offs;1d 2d", NULL, 0},
    {"bar", "aligned", NULL, 0},
    {"redux", "and or xor;s32 u32", NULL, 0},
    {"redux", "add min max;b32", NULL, 0},
    {"fence", NULL, "acq_rel sc acquire release proxy " SCOPES, 0},
    {"fence", "acq_rel sc acquire release", "proxy " SCOPES, 0},
    {"membar", "proxy", "alias", 0},
    {"mbarrier", "relaxed release acquire", "cta cluster", 0},
    {"mbarrier", "noComplete;relaxed cluster shared::cluster", NULL, 0},
    {"mbarrier", "cta cluster", "relaxed release acquire", 0},
    // Reductions: bits are combined by logic, numbers added and compared.
    {"red.async", NULL, "relaxed", 0},
    {"red.async " BULK, "and or xor;-u32 -s32 -u64 -s64 -f16 -bf16 -f32 -f64", NULL, 0},
    {"red.async " BULK, "inc dec;-s32 -u64 -s64 -b32 -b64 -f16 -bf16 -f32 -f64", NULL, 0},
    {"red.async " BULK, "add min max;-b32 -b64", NULL, 0},
    {BULK, "add;-s64", NULL, 0},
    {BULK, "min max;-f32 -f64", NULL, 0},
    {BULK, "noftz;and or xor inc dec min max", NULL, 0},
    {BULK, "noftz;-u32 -s32 -u64 -s64 -b32 -b64 -f32 -f64", NULL, 0},
    {BULK, "add;-f16 -bf16", "noftz", 0},
    {"cp.reduce.async.bulk.shared::cluster", "-s64 -b64 -f16 -bf16 -f32 -f64", NULL, 0},
    {"cp.reduce.async.bulk.shared::cluster", "min max;-u64", NULL, 0},
    {"red", "acquire acq_rel", NULL, 0},
    {"atom red", "add;f16 bf16 f16x2 bf16x2", "noftz", 0},
    {"atom red", "noftz", "f16 bf16 f16x2 bf16x2", 0},
    {"atom red", "noftz;min max", "v2 v4 v8", 0},
    {"atom red", SHARED ";v2 v4 v8", NULL, 0},
    // Orders are of memory that others see.
    {"ld st", "volatile relaxed acquire release mmio;const local " PARAMS, NULL, 0},
    {"ld", "release", NULL, 0},
    {"st", "acquire", NULL, 0},
    {"ld st", "mmio", "relaxed", 0},
    {"ld st", "mmio;v2 v4 v8", NULL, 0},
    {"ld st", "mmio;" SHARED, NULL, 0},
    {"ld st", "v8", "-b8 -s8 -u8", 100},
    {"ldu", "v8", NULL, 0},
    {"ldu", "v4;b64 u64 s64 f64", NULL, 0},
    {"ld ldu st", "v2 v4 v8;b128", NULL, 0},
    {"ld ldu st", NULL, "-b8 -u8 -s8 -b128 -f32 -f64 " INTEGERS " " BITS, 0},
    // Cache hints are for weak accesses to cached memory.
    {"ld ldu", "wb wt", NULL, 0},
    {"st", "ca lu cv nc L2::64B L2::128B L2::256B", NULL, 0},
    {"ld st", "relaxed acquire release", SCOPES, 0},
    {"ld", "nc", "global", 0},
    {"ld", "weak;nc", NULL, 0},
    {"ld st", "volatile relaxed acquire release mmio;ca cg cs lu cv wb wt nc", NULL, 0},
    {"ld", "cg cs lu cv;" HINTS, NULL, 0},
    {"ld st", HINTS ";const local " PARAMS " " SHARED, NULL, 0},
    {"ld st", "mmio;" HINTS, NULL, 0},
    {"ld st", "volatile;L2::cache_hint " L1_HINTS, NULL, 0},
    {"st", "param::entry", NULL, 0},
    {"ld st", "v4;b64 u64 s64 f64", NULL, 100},
    // Comparisons.
    {"setp set", "lo ls hi hs;-s16 -s32 -s64 " BITS " " FLOATS, NULL, 0},
    {"setp set", "equ neu ltu leu gtu geu num nan;" INTEGERS " " BITS, NULL, 0},
    {"setp set", "lt le gt ge;" BITS, NULL, 0},
    {"setp set", "ftz;-f64 -bf16 -bf16x2 " INTEGERS " " BITS, NULL, 0},
    {"setp set", "-bf16 -bf16x2", NULL, 90},
    // Arithmetic.
    {"add sub mul fma", "f32x2", NULL, 100},
    {"add sub mul fma", "sat;bf16 bf16x2", NULL, 0},
    {"add sub mul fma min max abs neg", "ftz;bf16 bf16x2", NULL, 0},
    {"add sub", "sat;-u32 -u64 -s64 -u16 -s16", NULL, 0},
    {"fma", NULL, "oob " ROUNDED, 0},
    {"fma", "sat;relu", NULL, 0},
    {"fma", "relu;f32 f64", NULL, 0},
    {"add sub mul fma mad", "f64;ftz sat", NULL, 0},
    {"mad", "f32 f64", ROUNDED, 0},
    {"sin cos lg2 ex2 rsqrt", ROUNDED, NULL, 0},
    {"sin cos lg2 ex2 tanh rsqrt", NULL, "approx", 0},
    {"sin cos lg2", "-f16 -f16x2 -bf16 -bf16x2 -f64 -f32x2", NULL, 0},
    {"ex2", "f64 f32x2", NULL, 0},
    {"sin cos lg2 ex2 tanh rsqrt rcp sqrt div", "sat", NULL, 0},
    {"ex2", "bf16 bf16x2", "ftz", 0},
    {"ex2", "ftz;f16 f16x2", NULL, 0},
    {"tanh", "ftz", NULL, 0},
    {"div", "approx full;f64", NULL, 0},
    {"sqrt", "approx ftz;f64", NULL, 0},
    {"rcp", "approx;f64", "ftz", 0},
    {"abs neg", "u16 u32 u64", NULL, 0},
    {"min max", "abs", "xorsign", 0},
    {"shl", NULL, "-b16 -b32 -b64", 0},
    {"shr", NULL, INTEGERS " " BITS, 0},
    {"abs neg", "ftz;f64", NULL, 0},
    {"abs neg", NULL, "-s16 -s32 -s64 " FLOATS, 0},
    {"add sub", NULL, "-s16x2 -u16x2 -f32x2 " INTEGERS " " FLOATS, 0},
    {"addc subc", NULL, INTEGERS, 0},
    {"add sub addc subc mad madc", "cc;-s16 -u16 -s16x2 -u16x2", NULL, 0},
    {"sub", "s16x2 u16x2", NULL, 0},
    {"mul", NULL, "-f32x2 " INTEGERS " " FLOATS, 0},
    {"mul mad", INTEGERS, "lo hi wide", 0},
    {"mad", "wide;sat", NULL, 0},
    {"fma", NULL, "-f32x2 " FLOATS, 0},
    {"mad", NULL, "-f32 -f64 " INTEGERS, 0},
    {"mad madc", "lo cc;sat", NULL, 0},
    {"mad madc", "hi;sat;-s16 -u16 -u32 -s64 -u64", NULL, 0},
    {"madc", NULL, "lo hi", 0},
    {"madc sad rem", NULL, INTEGERS, 0},
    {"madc", "wide", NULL, 0},
    {"sad", "sat cc relu lo hi wide NaN ftz " ROUNDED, NULL, 0},
    {"mul24 mad24", NULL, "lo hi wide", 0},
    {"mul24 mad24", NULL, "-u32 -s32", 0},
    {"div", NULL, "-f32 -f64 " INTEGERS, 0},
    {"div", "ftz;f64", NULL, 0},
    {"div sqrt rcp", "-f32 -f64", "approx full " ROUNDED, 0},
    {"sqrt rcp rsqrt testp", NULL, "-f32 -f64", 0},
    {"tanh", "f64", NULL, 0},
    {"min max", NULL, "-s16x2 -u16x2 " INTEGERS " " FLOATS, 0},
    {"min max", "NaN xorsign ftz;f64", NULL, 0},
    {"min max", "xorsign", NULL, 86},
    {"min max", "relu;s32", NULL, 90},
    {"min max", "relu;-s16 -u16 -u32 -s64 -u64 -u16x2 " FLOATS, NULL, 0},
    // Bits, choices, moves.
    {"not and or xor", NULL, "-pred " BITS, 0},
    {"cnot", NULL, BITS, 0},
    {"brev popc clz bfi", NULL, "-b32 -b64", 0},
    {"bfe bfind", NULL, "-u32 -s32 -u64 -s64", 0},
    {"fns shf shfl activemask", NULL, "-b32", 0},
    {"bmsk szext", NULL, "clamp wrap", 0},
    {"bmsk", NULL, "-b32", 0},
    {"szext", NULL, "-u32 -s32", 0},
    {"match", NULL, "-b32 -b64", 0},
    {"vote", "all any uni;-b32", NULL, 0},
    {"vote", "ballot;-pred", NULL, 0},
    {"selp", NULL, "-f32 -f64 " INTEGERS " " BITS, 0},
    {"slct", "f16 f16x2 bf16 bf16x2 s8 u8 b8 pred b128 s16x2 u16x2 f32x2 tf32", NULL, 0},
    {"slct", NULL, "-s32 -f32", 0},
    {"slct", "ftz;-s32", NULL, 0},
    {"setp set", NULL, INTEGERS " " BITS " " FLOATS, 0},
    {"set", "bf16 bf16x2", NULL, 90},
    {"mov", NULL, "-pred -b128 -f32 -f64 " INTEGERS " " BITS, 0},
    {"nanosleep", NULL, "-u32", 0},
    {"alloca stacksave stackrestore", NULL, "-u32 -u64", 0},
    // Addresses.
    {"cvta", NULL, "-u32 -u64", 0},
    {"cvta", NULL, "global const local param param::entry " SHARED, 0},
    {"mapa getctarank", NULL, "-u32 -u64 -s64", 0},
    {"mapa getctarank", "global const local param param::entry param::func shared shared::cta",
     NULL, 0},
    {"prefetch", NULL, "L1 L2 L2::evict_last L2::evict_normal tensormap", 0},
    {"prefetch", "L3", NULL, 0},
    {"prefetch", "shared shared::cta const param;L1 L2 L2::evict_last L2::evict_normal", NULL, 0},
    {"prefetch", "local;L2::evict_last L2::evict_normal", NULL, 0},
    {"prefetch", "global local " SHARED ";tensormap", NULL, 0},
    {"prefetchu", NULL, "L1", 0},
    {"prefetchu", "global local const " SHARED, NULL, 0},
    {"applypriority", NULL, "L2::evict_normal", 0},
    {"discard", NULL, "L2", 0},
    {"applypriority discard", SHARED, NULL, 0},
    // Barriers, fences, copies.
    {"barrier.cluster.arrive", "acquire", NULL, 0},
    {"barrier.cluster.wait", "release relaxed", NULL, 0},
    {"membar", NULL, "cta gl sys proxy", 0},
    {"fence", "sc acq_rel;sync_restrict::shared::cta sync_restrict::shared::cluster", NULL, 0},
    {"fence", "sync_restrict::shared::cta sync_restrict::shared::cluster", "acquire release", 0},
    {"fence", "acquire;sync_restrict::shared::cta", NULL, 0},
    {"fence", "release;sync_restrict::shared::cluster", NULL, 0},
    {"fence.mbarrier_init", "cta gpu sys", NULL, 0},
    {"fence.proxy", "shared", NULL, 0},
    {"cp.async.bulk.tensor", "im2col;bulk_group", NULL, 0},
    {"createpolicy", NULL, "-b64", 0},
    {"createpolicy.cvt", NULL, "L2", 0},
    {"createpolicy", NULL,
     "L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged cvt", 0},
    {"mma", "satfinite", "s8 u8 s4 u4", 0},
    {"mma", "e4m3 e5m2", NULL, 89},
    {"mma", "f64;m16n8k4 m16n8k8 m16n8k16", NULL, 90},
    {"setmaxnreg", NULL, "sync", 0},
    {"movmatrix", NULL, "trans", 0},
    {"mbarrier.pending_count", SHARED, NULL, 0},
    {"mbarrier.init mbarrier.inval mbarrier.test_wait mbarrier.try_wait", "shared::cluster", NULL,
     0},
    {"cp.async.bulk.prefetch.L2", NULL, "global", 0},
    {"cp.reduce.async.bulk.shared::cta", NULL, NULL, 0},
    {"cp.reduce.async.bulk", NULL, "shared::cta", 0},
    {"cp.reduce.async.bulk", NULL, "global shared::cluster", 0},
    {"cp.reduce.async.bulk", "shared::cluster;global", NULL, 0},
    {"cp.reduce.async.bulk.global", NULL, "bulk_group", 0},
    {"cp.reduce.async.bulk.global", "mbarrier::complete_tx::bytes", NULL, 0},
    {"cp.reduce.async.bulk.shared::cluster", NULL, "mbarrier::complete_tx::bytes", 0},
    {"cp.reduce.async.bulk.shared::cluster", "bulk_group", NULL, 0},
    {"cp.reduce.async.bulk.tensor", "cas im2col", NULL, 0},
    {"cp.async.bulk.shared::cta cp.async.bulk.shared::cluster", NULL,
     "mbarrier::complete_tx::bytes", 0},
    {"cp.async.bulk.shared::cta cp.async.bulk.shared::cluster", "bulk_group", NULL, 0},
    {"cp.async.bulk.shared::cta", NULL, "global", 0},
    {"cp.async.bulk.shared::cta", "shared::cluster", NULL, 0},
    {"cp.async.bulk.shared::cta cp.async.bulk.tensor", "multicast::cluster", "shared::cluster", 0},
    {"cp.async.bulk.shared::cluster", NULL, "global shared::cta", 0},
    {"cp.async.bulk.shared::cluster", "shared::cta;multicast::cluster L2::cache_hint", NULL, 0},
    {"cp.async.bulk.global", NULL, "shared::cta", 0},
    {"cp.async.bulk.global", "shared::cluster multicast::cluster", NULL, 0},
    {"cp.async.bulk.global", NULL, "bulk_group", 0},
    {"cp.async.bulk", NULL,
     "global shared::cta shared::cluster tensor prefetch commit_group wait_group", 0},
    {"cp.async.bulk.L2::cache_hint cp.async.bulk.multicast::cluster cp.async.bulk.bulk_group "
     "cp.async.bulk.mbarrier::complete_tx::bytes", NULL, NULL, 0},
};

// An instruction has at most one of these modifiers, once.
typedef struct Choice {
  const char *names, *except; // instructions it applies to, or NULL for all; exceptions
  const char *words;
} Choice;

static const Choice choices[] = {
    {NULL, NULL, ROUNDED " rna rni rzi rmi rpi"},
    {NULL, NULL, "weak volatile relaxed acquire release acq_rel sc"},
    {NULL, NULL, SCOPES},
    {NULL, NULL, "v2 v4 v8"},
    {NULL, NULL, L1_HINTS},
    {NULL, NULL, "L2::64B L2::128B L2::256B"},
    {NULL, "cp tensormap", "global const local " PARAMS " " SHARED},
    {"ld ldu st", NULL, "ca cg cs lu cv wb wt"},
    {"atom red redux", NULL, "add min max inc dec and or xor exch cas"},
    {"mul mad madc mul24 mad24", NULL, "lo hi wide"},
    {"vote", NULL, "all any uni ballot"},
    {"div", NULL, "approx full"},
    {"prefetch", NULL, "L1 L2"},
    {"setmaxnreg", NULL, "inc dec"},
    {"membar", NULL, "cta gl sys"},
};

// Number of operands of forms with these modifiers, plus one for each of the others.
typedef struct Count {
  const char *names, *has, *lacks;
  int operands;
  const char *more;
} Count;

static const Count counts[] = {
    {"bar barrier", "arrive", "cluster", 2, ""},
    {"mbarrier.arrive mbarrier.arrive_drop", "noComplete", NULL, 3, ""},
    {"fence.proxy", "acquire", "async::generic", 2, ""},
    {"fence.proxy", "release", "async::generic", 0, ""},
    {"cp.async.bulk.global cp.reduce.async.bulk.global", NULL, "cp_mask", 3, "L2::cache_hint"},
    {"cp.async.bulk.shared::cluster", NULL, NULL, 4, "multicast::cluster L2::cache_hint"},
    {"cp.async.bulk.prefetch.L2", NULL, NULL, 2, "L2::cache_hint"},
    {"cp.async.bulk.tensor cp.reduce.async.bulk.tensor", "bulk_group", "tile::scatter4", 2,
     "L2::cache_hint"},
    {"cp.async.bulk.tensor", "mbarrier::complete_tx::bytes", "tile::gather4 im2col::w", 3,
     "im2col multicast::cluster L2::cache_hint"},
    {"cp.async.bulk.prefetch.tensor", NULL, "tile::gather4 im2col::w", 1, "im2col L2::cache_hint"},
    {"brev popc clz", NULL, NULL, 2, ""},
    {"mbarrier.test_wait", NULL, NULL, 3, ""},
    {"mbarrier.inval", NULL, NULL, 1, ""},
    {"mapa", NULL, NULL, 3, ""},
    {"getctarank", NULL, NULL, 2, ""},
    {"ld", NULL, NULL, 2, "L2::cache_hint"},
    {"st", NULL, "async bulk", 2, "L2::cache_hint"},
    {"tensormap.replace", "box_dim global_dim global_stride element_stride", NULL, 3, ""},
    {"tensormap.replace", NULL, "box_dim global_dim global_stride element_stride", 2, ""},
};

// Constraint on an operand of such a form if it is a number; and whether it must be one, or may be
// a register.
typedef struct Number {
  const char *names, *has;
  int operand, low, high;
  bool must;
} Number;

static const Number numbers[] = {
    {"applypriority discard", NULL, 1, 128, 128, true},
    {"fence.proxy.tensormap::generic.acquire", NULL, 1, 128, 128, true},
    {"tensormap.cp_fenceproxy", NULL, 2, 128, 128, true},
    {"tensormap.replace", "box_dim global_dim global_stride element_stride", 1, 0, 4, true},
    {"tensormap.replace", "elemtype", 1, 0, 15, true},
    {"tensormap.replace", "interleave_layout", 1, 0, 2, true},
    {"tensormap.replace", "swizzle_mode", 1, 0, 3, true},
    {"tensormap.replace", "fill_mode", 1, 0, 1, true},
    {"cp.async.wait_group", NULL, 0, 0, INT_MAX, true},
    {"cp.async.bulk.wait_group", NULL, 0, 0, INT_MAX, true},
    {"bar.arrive bar.cta.arrive barrier.arrive barrier.cta.arrive", NULL, 1, 1, 1024, false},
    {"pmevent", NULL, 0, 0, 15, true},
};

static bool is_named(const char *opcode, const char *names) {
  while (*names) {
    size_t n = strcspn(names, " ");
    if (!strncmp(opcode, names, n) && (!opcode[n] || opcode[n] == '.')) return true;
    names += n + (names[n] == ' ');
  }
  return false;
}

static bool is_word_of(const char *words, const char *word) {
  size_t n = strlen(word);
  for (const char *at = words; *at; at += strcspn(at, " "), at += *at == ' ')
    if (strcspn(at, " ") == n && !strncmp(at, word, n)) return true;
  return false;
}

static bool is_word(const Instr *in, const char *word, size_t n) {
  bool last = *word == '-';
  if (last) word++, n--;
  for (int i = last ? in->nparts - 1 : 1; i < in->nparts; i++)
    if (strlen(in->part[i]) == n && !strncmp(in->part[i], word, n)) return true;
  return false;
}

// How many of the modifiers up to the end or a `;` it has.
static int words_of(const Instr *in, const char *words) {
  int count = 0;
  while (*words && *words != ';') {
    size_t n = strcspn(words, " ;");
    count += is_word(in, words, n);
    words += n + (words[n] == ' ');
  }
  return count;
}

// Rejects repeated modifiers, except types and those that NVIDIA's assembler accepts.
static void check_twice(const Emitter *e) {
  static const char passed[] = "approx cc NaN sat satfinite sync uni";
  const Instr *in = e->instr;
  if (is_named(in->opcode, "mma wmma wgmma.mma_async createpolicy")) return; // types of their own
  for (int i = 1; i < in->nparts; i++)
    for (int k = 1; k < i && !ptx_type_of(in->part[i]).kind; k++)
      if (!strcmp(in->part[i], in->part[k]) && !is_word_of(passed, in->part[i]))
        emit_fail(e, "`.%s` is there twice", in->part[i]);
}

static void check_choice(const Emitter *e, const Choice *c) {
  const Instr *in = e->instr;
  if (c->names && !is_named(in->opcode, c->names)) return;
  if (!c->except || !is_named(in->opcode, c->except))
    if (words_of(in, c->words) > 1) emit_fail(e, "one of `%s` is awaited", c->words);
}

static bool fits(const Instr *in, const char *names, const char *has, const char *lacks) {
  if (!is_named(in->opcode, names)) return false;
  for (const char *group = has; group; group = strchr(group, ';')) {
    group += *group == ';';
    if (!words_of(in, group)) return false;
  }
  return !lacks || !words_of(in, lacks);
}

static void check_number(const Emitter *e, const Number *n) {
  const Operand *op = n->operand < e->instr->nops ? &e->instr->op[n->operand] : NULL;
  if (!op || (op->kind != OpInt && !n->must)) return;
  int64_t value = op->kind == OpInt ? (int64_t)op->bits : -1;
  if (value < n->low || value > n->high)
    emit_fail(e, "operand %d is a number from %d to %d", n->operand + 1, n->low, n->high);
}

void lint_form(const Emitter *e) {
  const Instr *in = e->instr;
  check_twice(e);
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) check_choice(e, &choices[i]);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const Form *f = &forms[i];
    if ((f->arch && e->module->arch >= f->arch) || !fits(in, f->names, f->has, f->lacks)) continue;
    if (f->arch) emit_fail(e, "it needs .target sm_%d, not %s", f->arch, e->module->target);
    emit_fail(e, "these words do not go with each other");
  }
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (fits(in, numbers[i].names, numbers[i].has, NULL)) check_number(e, &numbers[i]);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    const Count *c = &counts[i];
    if (!fits(in, c->names, c->has, c->lacks)) continue;
    int awaited = c->operands + words_of(in, c->more);
    if (in->nops != awaited) emit_fail(e, "%d operands are awaited", awaited);
  }
}
