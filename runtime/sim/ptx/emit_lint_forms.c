// emit_lint_forms.c: words that PTX has, but not with each other: forms that NVIDIA's assembler
// refuses, although each of their words is known; and how many operands go with the words.
#include "sim/ptx/ptx.h"

#include <string.h>

#define INTEGERS "-u16 -s16 -u32 -s32 -u64 -s64"
#define BITS "-b16 -b32 -b64"
#define FLOATS "-f16 -f16x2 -bf16 -bf16x2 -f32 -f64"
#define SHARED "shared shared::cta shared::cluster"
#define SCOPES "cta cluster gpu sys"
#define ROUNDED "rn rz rm rp"
#define BULK "cp.reduce.async.bulk.global cp.reduce.async.bulk.shared::cluster"

// Such a form is refused: the opcode begins with one of the names, it has one word of each group
// (`;` between), and none of those that it lacks. -u32: as the last type.
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
    // Reductions: bits are masked, numbers added and compared.
    {"red.async", NULL, "relaxed", 0},
    {"red.async " BULK, "and or xor;-u32 -s32 -u64 -s64 -f16 -bf16 -f32 -f64", NULL, 0},
    {"red.async " BULK, "inc dec;-s32 -u64 -s64 -b32 -b64 -f16 -bf16 -f32 -f64", NULL, 0},
    {"red.async " BULK, "add min max;-b32 -b64", NULL, 0},
    {"red.async " BULK, "add;-s64", NULL, 0},
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
    {"ld st", "volatile relaxed acquire release mmio;const param local", NULL, 0},
    {"ld", "release", NULL, 0},
    {"st", "acquire", NULL, 0},
    {"ld st", "mmio", "relaxed", 0},
    {"ld st", "mmio;v2 v4 v8", NULL, 0},
    {"ld st", "mmio;" SHARED, NULL, 0},
    {"ld st", "v8", NULL, 100},
    {"ld st", "v4;b64 u64 s64 f64", NULL, 100},
    // Comparisons.
    {"setp set", "lo ls hi hs;-s16 -s32 -s64 " BITS " " FLOATS, NULL, 0},
    {"setp set", "equ neu ltu leu gtu geu num nan;" INTEGERS " " BITS, NULL, 0},
    {"setp set", "lt le gt ge;" BITS, NULL, 0},
    {"setp set", "ftz;-f64 -bf16 -bf16x2 " INTEGERS " " BITS, NULL, 0},
    {"setp set", "-bf16 -bf16x2", NULL, 90},
    {"set", "f32;-f16 -bf16", NULL, 0},
    {"set", "f16;-bf16", NULL, 0},
    {"set", "u16;-s16 -u32 -s32 -u64 -s64 -f32 -f64 " BITS, NULL, 0},
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
    {"shl", INTEGERS, NULL, 0},
};

// So many operands have forms with these words, and one more for each of the others it has.
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
};

static bool is_named(const char *opcode, const char *names) {
  while (*names) {
    size_t n = strcspn(names, " ");
    if (!strncmp(opcode, names, n) && (!opcode[n] || opcode[n] == '.')) return true;
    names += n + (names[n] == ' ');
  }
  return false;
}

static bool is_word(const Instr *in, const char *word, size_t n) {
  bool last = *word == '-';
  if (last) word++, n--;
  for (int i = last ? in->nparts - 1 : 1; i < in->nparts; i++)
    if (strlen(in->part[i]) == n && !strncmp(in->part[i], word, n)) return true;
  return false;
}

// Of the words up to the end or a `;`: how many it has.
static int words_of(const Instr *in, const char *words) {
  int count = 0;
  while (*words && *words != ';') {
    size_t n = strcspn(words, " ;");
    count += is_word(in, words, n);
    words += n + (words[n] == ' ');
  }
  return count;
}

static bool fits(const Instr *in, const char *names, const char *has, const char *lacks) {
  if (!is_named(in->opcode, names)) return false;
  for (const char *group = has; group; group = strchr(group, ';')) {
    group += *group == ';';
    if (!words_of(in, group)) return false;
  }
  return !lacks || !words_of(in, lacks);
}

void lint_form(const Emitter *e) {
  const Instr *in = e->instr;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const Form *f = &forms[i];
    if ((f->arch && e->module->arch >= f->arch) || !fits(in, f->names, f->has, f->lacks)) continue;
    if (f->arch) emit_fail(e, "it needs .target sm_%d, not %s", f->arch, e->module->target);
    emit_fail(e, "these words do not go with each other");
  }
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    const Count *c = &counts[i];
    if (!fits(in, c->names, c->has, c->lacks)) continue;
    int awaited = c->operands + words_of(in, c->more);
    if (in->nops != awaited) emit_fail(e, "%d operands are awaited", awaited);
  }
}
