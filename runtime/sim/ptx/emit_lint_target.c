// emit_lint_target.c: checks the module's .target and .version against the requirements of
// instructions, like NVIDIA's assembler.
#include "sim/ptx/ptx.h"

#include <string.h>

static bool begins_with(const char *opcode, const char *name) {
  size_t n = strlen(name);
  return !strncmp(opcode, name, n) && (!opcode[n] || opcode[n] == '.');
}

// ---- targets ------------------------------------------------------------------------------------

typedef struct Need {
  const char *name; // first pieces of the opcode, or NULL for any
  const char *part; // the modifier that requires it, or NULL
  int arch;
  bool exact; // of `sm_90a`, not of sm_90
} Need;

static const Need needs[] = {
    {"wgmma", NULL, 90, true},
    {"setmaxnreg", NULL, 90, true},
    {"tensormap.replace", NULL, 90, true},
    {"barrier.cluster", NULL, 90, false},
    {"mapa", NULL, 90, false},
    {"getctarank", NULL, 90, false},
    {"elect", NULL, 90, false},
    {"stmatrix", NULL, 90, false},
    {"griddepcontrol", NULL, 90, false},
    {"cp.async.bulk", NULL, 90, false},
    {"cp.reduce.async.bulk", NULL, 90, false},
    {"st.async", NULL, 90, false},
    {"red.async", NULL, 90, false},
    {"fence.proxy.async", NULL, 90, false},
    {"mbarrier.try_wait", NULL, 90, false},
    {"mbarrier", "expect_tx", 90, false},
    {"mbarrier", "relaxed", 90, false},
    {"fence.proxy", "tensormap::generic", 90, false},
    {"tensormap.cp_fenceproxy", NULL, 90, false},
    {"prefetch", "tensormap", 90, false},
    {"add", "bf16", 90, false},
    {"add", "bf16x2", 90, false},
    {"sub", "bf16", 90, false},
    {"sub", "bf16x2", 90, false},
    {"mul", "bf16", 90, false},
    {"mul", "bf16x2", 90, false},
    {"ex2", "bf16", 90, false},
    {"ex2", "bf16x2", 90, false},
    {"tanh", "bf16", 90, false},
    {"tanh", "bf16x2", 90, false},
    {NULL, "s16x2", 90, false},
    {NULL, "u16x2", 90, false},
    {NULL, "cluster", 90, false}, // as a scope
    {NULL, "shared::cluster", 90, false},
    {NULL, "multicast::cluster", 90, false},
    {"cvt", "e4m3x2", 89, false},
    {"cvt", "e5m2x2", 89, false},
};

static void check_arch(const Emitter *e) {
  const char *target = e->module->target;
  bool exact = strchr("af", target[strlen(target) - 1]) != NULL;
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
    const Need *need = &needs[i];
    if (need->name && !begins_with(e->instr->opcode, need->name)) continue;
    if (need->part && !instr_has(e->instr, need->part)) continue;
    if (e->module->arch < need->arch || (need->exact && !exact))
      emit_fail(e, "it needs .target sm_%d%s, not %s", need->arch, need->exact ? "a" : "", target);
  }
}

// ---- versions of PTX ----------------------------------------------------------------------------

typedef struct Since {
  const char *name; // first pieces of the opcode, or NULL for any
  const char *part; // the modifier that requires it, or NULL
  int version;      // the first that has it
} Since;

static const Since firsts[] = {
    {"alloca", NULL, 73},
    {"stacksave", NULL, 73},
    {"stackrestore", NULL, 73},
    {"createpolicy", NULL, 74},
    {"applypriority", NULL, 74},
    {"discard", NULL, 74},
    {NULL, "L1::evict_normal", 74},
    {NULL, "L1::evict_unchanged", 74},
    {NULL, "L1::evict_first", 74},
    {NULL, "L1::evict_last", 74},
    {NULL, "L1::no_allocate", 74},
    {NULL, "L2::cache_hint", 74},
    {NULL, "L2::64B", 74},
    {NULL, "L2::128B", 74},
    {NULL, "L2::256B", 74},
    {"bmsk", NULL, 76},
    {"szext", NULL, 76},
    {NULL, "shared::cta", 78},
    {NULL, "shared::cluster", 78},
    {"bar.cta", NULL, 78},
    {"barrier.cta", NULL, 78},
    {"barrier.cluster", NULL, 78},
    {"mbarrier.try_wait", NULL, 78},
    {"movmatrix", NULL, 78},
    {"mma", "and", 71},
    {"mma.sync.aligned.m16n8k4", "f64", 78},
    {"mma.sync.aligned.m16n8k8", "f64", 78},
    {"mma.sync.aligned.m16n8k16", "f64", 78},
    {"mbarrier.test_wait", "parity", 71},
    {"wgmma", NULL, 80},
    {"cp.async.bulk", NULL, 80},
    {"cp.reduce.async.bulk", NULL, 80},
    {"elect", NULL, 80},
    {"setmaxnreg", NULL, 80},
    {"max.s32", "relu", 80},
    {"min.s32", "relu", 80},
    {NULL, "s16x2", 80},
    {NULL, "u16x2", 80},
    {"prefetch", "tensormap", 80},
    {"fence.mbarrier_init", NULL, 80},
    {"mbarrier", "expect_tx", 80},
    {"mbarrier", "acquire", 80},
    {"mbarrier", "release", 80},
    {"mbarrier", "shared::cluster", 80},
    {"barrier.cluster", "acquire", 80},
    {"barrier.cluster", "release", 80},
    {"barrier.cluster", "relaxed", 80},
    {"fence.proxy.async", NULL, 80},
    {"st.async", NULL, 81},
    {"red.async", NULL, 81},
    {"red", "v2", 81},
    {"red", "v4", 81},
    {"red", "v8", 81},
    {"atom", "v2", 81},
    {"atom", "v4", 81},
    {"atom", "v8", 81},
    {NULL, "mmio", 82},
    {"lop3", "and", 82},
    {"lop3", "or", 82},
    {"lop3", "xor", 82},
    {NULL, "b128", 83},
    {NULL, "param::entry", 83},
    {NULL, "param::func", 83},
    {"tensormap", NULL, 83},
    {"fence.proxy", "tensormap::generic", 83},
    {"cp.async.bulk.shared::cta", NULL, 86},
    {"fence", "sync_restrict::shared::cta", 86},
    {"fence", "sync_restrict::shared::cluster", 86},
    {"mbarrier.arrive", "relaxed", 86},
    {"mbarrier.arrive_drop", "relaxed", 86},
    {"mbarrier.test_wait", "relaxed", 86},
    {"mbarrier.try_wait", "relaxed", 86},
    {"mma", "e4m3", 84},
    {"mma", "e5m2", 84},
    {"mma.sync.aligned.m16n8k16", "e4m3", 87},
    {"mma.sync.aligned.m16n8k16", "e5m2", 87},
    {"mma.sync.aligned.m16n8k32.row.col.f16", "e4m3", 87},
    {"mma.sync.aligned.m16n8k32.row.col.f16", "e5m2", 87},
};

static void check_version(const Emitter *e) {
  for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
    const Since *s = &firsts[i];
    if (s->name && !begins_with(e->instr->opcode, s->name)) continue;
    if (s->part && !instr_has(e->instr, s->part)) continue;
    if (e->module->version < s->version)
      emit_fail(e, "it needs .version %d.%d", s->version / 10, s->version % 10);
  }
}

void lint_target(const Emitter *e) {
  check_arch(e);
  check_version(e);
}
