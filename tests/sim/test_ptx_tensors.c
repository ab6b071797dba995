// test_ptx_tensors.c: what reduces: copies of the asynchronous proxy, bulk and tensor, red.async,
// atomics of all types; im2col boxes; tensor maps that a kernel changes. What they leave is worked
// out here from the PTX ISA. Four
// blocks do the same, with all checks and in their own OS threads.
#include <math.h>

#include "tests/sim/tensor_map.h"

enum { kBlocks = 4, kBytes = 256, kOut = 0, kIn = 4096, kSize = 65536 };

typedef struct Sums { // element i of the results is that of `old` and `blocks` times `in`
  const char *op, *type;
} Sums;

static const char *seed = "0", *checked = "all";

static void settings(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", checked, 1);
  setenv("NNGEN_SIM_SEED", seed, 1);
}

// Runs k(x, map) of `text` on kBlocks blocks of one warp; *data is changed.
static void run_text(const char *text, int blocks, void *data, const void *map) {
  CUmodule module;
  CUfunction f;
  Map params = {{0}};
  if (map) memcpy(params.bytes, map, 128);
  CUresult r = cuModuleLoadData(&module, text);
  if (r) printf("# %d: %s\n", r, text), fflush(stdout), _exit(1);
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr ptr = *(CUdeviceptr *)data;
  r = device_run(f, blocks, 32, 0, (void *[]){&ptr, params.bytes});
  if (r) printf("# %d: %s\n", r, text), fflush(stdout), _exit(1);
}

#define HEAD                                                                                       \
  ".version 8.6\n.target sm_90a\n.address_size 64\n"                                               \
  ".visible .entry k(.param .u64 x, .param .align 64 .b8 map[128])\n{\n"                           \
  " .reg .pred %%p<4>; .reg .b16 %%h<4>; .reg .b32 %%r<20>; .reg .b64 %%d<12>;\n"                  \
  " .shared .align 1024 .b8 s[8192]; .shared .align 8 .b64 bar;\n"                                 \
  " ld.param.u64 %%d1, [x]; mov.u32 %%r1, %%tid.x; mul.wide.u32 %%d2, %%r1, 8;\n"                  \
  " mov.u32 %%r2, s; mov.u32 %%r3, bar; shl.b32 %%r4, %%r1, 3; add.u32 %%r4, %%r4, %%r2;\n"        \
  " mov.b64 %%d3, map; cvta.param.u64 %%d3, %%d3; setp.eq.u32 %%p1, %%r1, 0; mov.u32 %%r9, 0;\n"
// 256 bytes of the input to shared memory.
#define FILL                                                                                       \
  " add.u64 %%d4, %%d1, %%d2; ld.global.u64 %%d5, [%%d4+4096]; st.shared.u64 [%%r4], %%d5;\n"      \
  " fence.proxy.async.shared::cta; bar.warp.sync 0xffffffff;\n"

// ---- values of every type -----------------------------------------------------------------------

static int bytes_of(const char *type) {
  return strstr(type, "16") ? 2 : strstr(type, "64") ? 8 : 4;
}

static double wide(const char *type, uint64_t bits) {
  float f;
  double d;
  uint32_t low = (uint32_t)bits;
  if (!strcmp(type, "f64")) return memcpy(&d, &bits, 8), d;
  if (!strcmp(type, "bf16")) low <<= 16;
  if (!strcmp(type, "f16")) { // normal numbers and zero
    double sign = low & 0x8000 ? -1 : 1;
    return low & 0x7c00 ? sign * ldexp((low & 0x3ff) + 1024, (int)(low >> 10 & 31) - 25) : 0;
  }
  return memcpy(&f, &low, 4), f;
}

static uint64_t narrow(const char *type, double value) { // exact, but for 16 bits: to nearest
  uint64_t bits = 0;
  float f = (float)value;
  uint32_t low;
  if (!strcmp(type, "f64")) return memcpy(&bits, &value, 8), bits;
  memcpy(&low, &f, 4);
  if (!strcmp(type, "f32")) return low;
  if (!strcmp(type, "bf16")) return (low + 0x7fff + (low >> 16 & 1)) >> 16 & 0xffff;
  if (value == 0) return 0;
  int exponent;
  double m = nearbyint(ldexp(frexp(fabs(value), &exponent), 11)); // 1024 to 2048
  if (m == 2048) m = 1024, exponent++;
  return (value < 0 ? 0x8000u : 0) | (unsigned)(exponent + 14) << 10 | ((unsigned)m & 0x3ff);
}

static uint64_t combine(const char *op, const char *type, uint64_t a, uint64_t b) {
  bool wide64 = strstr(type, "64"), is_signed = type[0] == 's';
  uint64_t mask = wide64 ? ~0ull : 0xffffffffull;
  if (!strcmp(op, "and")) return a & b;
  if (!strcmp(op, "or")) return a | b;
  if (!strcmp(op, "xor")) return a ^ b;
  if (!strcmp(op, "inc")) return a >= b ? 0 : a + 1;
  if (!strcmp(op, "dec")) return a == 0 || a > b ? b : a - 1;
  bool add = !strncmp(op, "add", 3), least = !strncmp(op, "min", 3);
  if (type[0] == 'f' || type[0] == 'b') {
    double x = wide(type, a), y = wide(type, b);
    return narrow(type, add ? x + y : least ? fmin(x, y) : fmax(x, y));
  }
  if (add) return (a + b) & mask;
  bool less = !is_signed ? a < b
              : wide64   ? (int64_t)a < (int64_t)b
                         : (int32_t)a < (int32_t)b;
  return less == least ? a : b;
}

// Element i of what is there before, and of what is added.
static uint64_t value_at(const char *type, const char *op, int i, bool old) {
  uint64_t n = (uint64_t)(i * 7 + 3) * 0x9e3779b97f4a7c15ull >> (old ? 3 : 7);
  if (!strcmp(op, "inc") || !strcmp(op, "dec")) return n % 7 + (old ? 0 : 2);
  if (type[0] == 'f' || !strcmp(type, "bf16")) return narrow(type, (double)(n % 41) - 20 + 0.25);
  return strstr(type, "64") ? n : n & 0xffffffff;
}

static void fill(void *to, const Sums *s, bool old) {
  int bytes = bytes_of(s->type);
  for (int i = 0; i < kBytes / bytes; i++) {
    uint64_t v = value_at(s->type, s->op, i, old);
    memcpy((char *)to + i * bytes, &v, (size_t)bytes);
  }
}

static void hold_to(const Sums *s, const char *how, const unsigned char *out, int times) {
  int bytes = bytes_of(s->type);
  for (int i = 0; i < kBytes / bytes; i++) {
    uint64_t want = value_at(s->type, s->op, i, true), got = 0;
    for (int k = 0; k < times; k++)
      want = combine(s->op, s->type, want, value_at(s->type, s->op, i, false));
    memcpy(&got, out + i * bytes, (size_t)bytes);
    if (got == want) continue;
    printf("# %s of %s.%s: element %d is %llx, not %llx\n", how, s->op, s->type, i,
           (unsigned long long)got, (unsigned long long)want);
    fflush(stdout), _exit(1);
  }
}

// ---- bulk copies that reduce --------------------------------------------------------------------

static const Sums to_global[] = {
    {"add", "u32"}, {"add", "s32"},  {"add", "u64"},       {"add.noftz", "f16"},
    {"add", "f32"}, {"add", "f64"},  {"add.noftz", "bf16"}, {"min", "u32"},
    {"min", "s32"}, {"max", "u64"},  {"max", "s64"},       {"min", "f16"},
    {"max", "f16"}, {"min", "bf16"}, {"max", "bf16"},      {"inc", "u32"},
    {"dec", "u32"}, {"and", "b32"},  {"or", "b64"},        {"xor", "b32"},
};
static const Sums to_cluster[] = {
    {"add", "u32"}, {"add", "s32"}, {"add", "u64"}, {"min", "s32"}, {"max", "u32"},
    {"inc", "u32"}, {"dec", "u32"}, {"and", "b32"}, {"or", "b32"},  {"xor", "b32"},
};

static void run_global(const void *user) {
  const Sums *s = user;
  char text[8192];
  static unsigned char x[kSize];
  fill(x + kOut, s, true), fill(x + kIn, s, false);
  snprintf(text, sizeof text,
           HEAD FILL "@%%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.%s.%s [%%d1], "
                     "[%%r2], 256;\n"
                     " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\n ret;\n}\n",
           s->op, s->type);
  CUdeviceptr ptr = device_upload(x, sizeof x);
  run_text(text, kBlocks, &ptr, NULL);
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  hold_to(s, "bulk to global memory", x, kBlocks);
}

// Shared memory from 4096 on holds what was there; three copies reduce into it.
static void run_cluster(const void *user) {
  const Sums *s = user;
  char text[8192];
  static unsigned char x[kSize];
  fill(x + kOut, s, true), fill(x + kIn, s, false);
  snprintf(text, sizeof text, HEAD
           " add.u64 %%d4, %%d1, %%d2; ld.global.u64 %%d5, [%%d4];\n"
           " st.shared.u64 [%%r4+4096], %%d5;\n"
           " @%%p1 mbarrier.init.shared.b64 [%%r3], 1;\n" FILL " add.u32 %%r5, %%r2, 4096;\n"
           " @!%%p1 bra W; mbarrier.arrive.expect_tx.shared.b64 _, [%%r3], 768;\n"
           "L: cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.%s.%s "
           "[%%r5], [%%r2], 256, [%%r3];\n add.u32 %%r9, %%r9, 1; setp.lt.u32 %%p2, %%r9, 3;\n"
           " @%%p2 bra L;\nW: mbarrier.try_wait.parity.shared.b64 %%p2, [%%r3], 0; @!%%p2 bra W;\n"
           " ld.shared.u64 %%d5, [%%r4+4096]; st.global.u64 [%%d4], %%d5;\n ret;\n}\n",
           s->op, s->type);
  CUdeviceptr ptr = device_upload(x, sizeof x);
  run_text(text, 1, &ptr, NULL);
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  hold_to(s, "bulk to shared memory", x, 3);
}

// red.async: every lane into the place of its word, twice.
static const Sums by_lanes[] = {{"add", "u32"}, {"add", "u64"}, {"min", "s32"}, {"max", "u32"},
                                {"inc", "u32"}, {"dec", "u32"}, {"and", "b32"}, {"xor", "b32"}};

static void run_lanes(const void *user) {
  const Sums *s = user;
  char text[8192];
  static unsigned char x[kSize];
  int bytes = bytes_of(s->type), steps = 8 / bytes;
  const char *reg = bytes == 8 ? "%d5" : "%r6";
  fill(x + kOut, s, true), fill(x + kIn, s, false);
  int n = snprintf(
      text, sizeof text, HEAD
      " add.u64 %%d4, %%d1, %%d2; ld.global.u64 %%d5, [%%d4]; st.shared.u64 [%%r4], %%d5;\n"
      " @%%p1 mbarrier.init.shared.b64 [%%r3], 1; bar.warp.sync -1;\n"
      " @%%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%%r3], 512; bar.warp.sync -1;\n");
  for (int i = 0; i < 2 * steps; i++)
    n += snprintf(text + n, sizeof text - (size_t)n,
                  " ld.global.b%d %s, [%%d4+%d];\n red.async.relaxed.cluster.shared::cluster."
                  "mbarrier::complete_tx::bytes.%s.%s [%%r4+%d], %s, [%%r3];\n",
                  8 * bytes, reg, kIn + i % steps * bytes, s->op, s->type, i % steps * bytes, reg);
  snprintf(text + n, sizeof text - (size_t)n,
           "W: mbarrier.try_wait.parity.shared.b64 %%p2, [%%r3], 0; @!%%p2 bra W;\n"
           " ld.shared.u64 %%d5, [%%r4]; st.global.u64 [%%d4], %%d5;\n ret;\n}\n");
  for (char *p = text; (p = strstr(p, "%%")); p++) memmove(p, p + 1, strlen(p));
  CUdeviceptr ptr = device_upload(x, sizeof x);
  run_text(text, 1, &ptr, NULL);
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  hold_to(s, "red.async", x, 2);
}

// ---- atomics ------------------------------------------------------------------------------------

// Each lane does eight bytes' worth: atom in global memory by four blocks, red in shared memory.
typedef struct Atomic {
  Sums sums;        // of elements
  const char *form; // what follows `atom.global.`
  int bits, count;  // of a register; registers
} Atomic;

static const Atomic atomics[] = {
    {{"add", "u32"}, "add.u32", 32, 1},
    {{"add", "s32"}, "add.s32", 32, 1},
    {{"add", "u64"}, "add.u64", 64, 1},
    {{"add", "f32"}, "add.f32", 32, 1},
    {{"add", "f64"}, "add.f64", 64, 1},
    {{"add", "f16"}, "add.noftz.f16", 16, 1},
    {{"add", "f16"}, "add.noftz.f16x2", 32, 1},
    {{"add", "bf16"}, "add.noftz.bf16", 16, 1},
    {{"add", "bf16"}, "add.noftz.bf16x2", 32, 1},
    {{"min", "u32"}, "min.u32", 32, 1},
    {{"min", "s32"}, "min.s32", 32, 1},
    {{"min", "s64"}, "min.s64", 64, 1},
    {{"max", "u32"}, "max.u32", 32, 1},
    {{"max", "s32"}, "max.s32", 32, 1},
    {{"max", "u64"}, "max.u64", 64, 1},
    {{"inc", "u32"}, "inc.u32", 32, 1},
    {{"dec", "u32"}, "dec.u32", 32, 1},
    {{"and", "b32"}, "and.b32", 32, 1},
    {{"or", "b64"}, "or.b64", 64, 1},
    {{"xor", "b32"}, "xor.b32", 32, 1},
    {{"add", "f32"}, "v2.f32.add", 32, 2},
    {{"add", "f16"}, "v4.f16.add.noftz", 16, 4},
    {{"min", "f16"}, "v2.f16x2.min.noftz", 32, 2},
    {{"max", "bf16"}, "v4.bf16.max.noftz", 16, 4},
    {{"add", "bf16"}, "v2.bf16x2.add.noftz", 32, 2},
};

static void atomic_step(char *text, size_t room, const Atomic *a, int at, bool shared) {
  char from[64] = "", to[64] = "";
  char kind = a->bits == 16 ? 'h' : a->bits == 32 ? 'r' : 'd';
  int n = 0, first = kind == 'd' ? 5 : 10;
  for (int i = 0; i < a->count; i++) {
    n += snprintf(text + n, room - (size_t)n, " ld.global.b%d %%%c%d, [%%d4+%d];\n", a->bits, kind,
                  first + i, kIn + at + i * a->bits / 8);
    sprintf(from + strlen(from), "%s%%%c%d", i ? ", " : "", kind, first + i);
    sprintf(to + strlen(to), "%s%%%c%d", i ? ", " : "", kind, first + 5 + i);
  }
  const char *begin = a->count > 1 ? "{" : "", *end = a->count > 1 ? "}" : "";
  if (shared)
    snprintf(text + n, room - (size_t)n, " red.shared.%s [%%r4+%d], %s;\n", a->form, at, from);
  else
    snprintf(text + n, room - (size_t)n, " atom.global.%s %s%s%s, [%%d4+%d], %s%s%s;\n", a->form,
             begin, to, end, at, begin, from, end);
}

static void run_atomics(const void *user) {
  const Atomic *a = user;
  static unsigned char x[kSize];
  for (int shared = 0; shared < 2 - (a->count > 1); shared++) {
    char text[8192];
    fill(x + kOut, &a->sums, true), fill(x + kIn, &a->sums, false);
    snprintf(text, sizeof text, HEAD " .reg .b16 %%h<30>; add.u64 %%d4, %%d1, %%d2;\n%s", shared
                 ? " ld.global.u64 %d5, [%d4]; st.shared.u64 [%r4], %d5;\n" : "");
    char *reg = strstr(text, ".reg .b16 %h<4>;");
    memset(reg, ' ', strlen(".reg .b16 %h<4>;"));
    for (int at = 0; at < 8; at += a->bits * a->count / 8)
      atomic_step(text + strlen(text), sizeof text - strlen(text), a, at, shared);
    strcat(text, shared ? " ld.shared.u64 %d5, [%r4]; st.global.u64 [%d4], %d5;\n ret;\n}\n"
                        : " ret;\n}\n");
    CUdeviceptr ptr = device_upload(x, sizeof x);
    run_text(text, shared ? 1 : kBlocks, &ptr, NULL);
    OK(cuMemcpyDtoH(x, ptr, sizeof x));
    hold_to(&a->sums, shared ? "red in shared memory" : "atom", x, shared ? 1 : kBlocks);
  }
}

// ---- tensor copies that reduce ------------------------------------------------------------------

static Map tiled_map(CUdeviceptr at, int type, const uint64_t *dims, uint64_t stride,
                     const uint32_t *box, const uint32_t *steps) {
  Map map;
  uint32_t ones[] = {1, 1};
  OK(cuTensorMapEncodeTiled(&map, type, 2, (void *)(uintptr_t)at, dims, &stride, box,
                            steps ? steps : ones, 0, 0, 0, 0));
  return map;
}

static const Sums tensors[] = {{"add", "u32"}, {"add", "s32"}, {"add", "u64"}, {"add", "f16"},
                               {"add", "bf16"}, {"add", "f32"}, {"add", "f64"}, {"min", "s32"},
                               {"max", "u32"}, {"min", "f16"}, {"max", "bf16"}, {"inc", "u32"},
                               {"dec", "u32"}, {"and", "u32"}, {"or", "u64"}, {"xor", "s32"}};

static int type_number(const char *type) {
  static const char *const names[] = {"u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16"};
  int i = 0;
  while (strcmp(names[i], type) != 0) i++;
  return U32 + i;
}

// A tensor of 16 rows of 64 bytes, of which a box of 4 whole rows is moved, from row 2.
static void run_tensor(const void *user) {
  const Sums *s = user;
  char text[8192];
  static unsigned char x[kSize], before[kSize];
  unsigned row = 64 / (unsigned)bytes_of(s->type);
  fill(x + 128, s, true), fill(x + kIn, s, false);
  memcpy(before, x, sizeof x);
  snprintf(text, sizeof text,
           HEAD FILL "mov.u32 %%r5, 2;\n@%%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta.%s."
                     "tile.bulk_group [%%d3, {%%r9, %%r5}], [%%r2];\n"
                     " cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\n ret;\n}\n",
           s->op);
  CUdeviceptr ptr = device_upload(x, sizeof x);
  Map map = tiled_map(ptr, type_number(s->type), (uint64_t[]){row, 16}, 64, (uint32_t[]){row, 4},
                      NULL);
  run_text(text, kBlocks, &ptr, &map);
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  const char *type = s->op[0] == 'a' && s->op[1] == 'n' ? "b32" : s->type;
  hold_to(&(Sums){s->op, type}, "tensor", x + 128, kBlocks);
  if (memcmp(x, before, 128) || memcmp(x + 384, before + 384, sizeof x - 384))
    printf("# %s.%s: beside the box\n", s->op, s->type), fflush(stdout), _exit(1);
}

// ---- boxes --------------------------------------------------------------------------------------

#define LOAD_BOX(what, bytes)                                                                      \
  " @%%p1 mbarrier.init.shared.b64 [%%r3], 1; fence.mbarrier_init.release.cluster;\n"              \
  " bar.warp.sync -1; @!%%p1 bra W;\n mbarrier.arrive.expect_tx.shared.b64 _, [%%r3], " bytes      \
  ";\n" what "W: mbarrier.try_wait.parity.shared.b64 %%p2, [%%r3], 0; @!%%p2 bra W;\n"
#define STORE_WORDS /* of shared memory to the output: 512 of them */                              \
  "O: shl.b32 %%r6, %%r1, 2; add.u32 %%r6, %%r6, %%r2; ld.shared.u32 %%r7, [%%r6];\n"              \
  " mul.wide.u32 %%d6, %%r1, 4; add.u64 %%d6, %%d6, %%d1; st.global.u32 [%%d6], %%r7;\n"           \
  " add.u32 %%r1, %%r1, 32; setp.lt.u32 %%p3, %%r1, %%r8; @%%p3 bra O;\n ret;\n}\n"

static void differ(const char *what, unsigned i, uint32_t got, uint32_t want) {
  if (got == want) return;
  printf("# %s: word %u is %u, not %u\n", what, i, got, want);
  fflush(stdout), _exit(1);
}

// Every second row, and a step of dimension 0, which counts for nothing.
static void run_steps(const void *user) {
  (void)user;
  char text[8192];
  static uint32_t x[kSize / 4];
  for (unsigned i = 0; i < 512; i++) x[kIn / 4 + i] = 100 + i;
  snprintf(text, sizeof text,
           HEAD LOAD_BOX(" mov.u32 %%r5, 1;\n cp.async.bulk.tensor.2d.shared::cluster.global.tile."
                     "mbarrier::complete_tx::bytes [%%r2], [%%d3, {%%r9, %%r5}], [%%r3];\n",
                     "256") " mov.u32 %%r8, 64;\n" STORE_WORDS);
  CUdeviceptr ptr = device_upload(x, sizeof x);
  Map map = tiled_map(ptr + kIn, U32, (uint64_t[]){16, 32}, 64, (uint32_t[]){16, 8},
                      (uint32_t[]){2, 2});
  run_text(text, 1, &ptr, &map);
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  for (unsigned i = 0; i < 64; i++)
    differ("rows by two", i, x[i], 100 + (1 + i / 16 * 2) * 16 + i % 16);
}

// A kernel makes the map: it takes one of nothing like it, changes every field, and publishes it.
static void run_replace(const void *user) {
  (void)user;
  char text[8192];
  static uint32_t x[kSize / 4];
  for (unsigned i = 0; i < 2048; i++) x[kIn / 4 + i] = 100 + i;
  snprintf(text, sizeof text, HEAD
           " mul.wide.u32 %%d4, %%r1, 4; add.u64 %%d4, %%d4, %%d3; ld.b32 %%r6, [%%d4];\n"
           " shl.b32 %%r5, %%r1, 2; add.u32 %%r5, %%r5, %%r2; st.shared.b32 [%%r5+4096], %%r6;\n"
           " bar.warp.sync -1; add.u32 %%r5, %%r2, 4096; add.u64 %%d5, %%d1, 4096;\n"
           " add.u64 %%d7, %%d1, 32768; mov.u32 %%r6, 20; mov.u64 %%d8, 80;\n @!%%p1 bra P;\n"
           " tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%%r5], %%d5;\n"
           " tensormap.replace.tile.rank.shared::cta.b1024.b32 [%%r5], 1;\n" // two dimensions
           " tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%%r5], 0, 8;\n"
           " tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%%r5], 1, 4;\n"
           " tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%%r5], 0, %%r6;\n"
           " tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%%r5], 1, 10;\n"
           " tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%%r5], 0, %%d8;\n"
           " tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%%r5], 1, 1;\n"
           " tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%%r5], 2;\n"
           " tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%%r5], 0;\n"
           " tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%%r5], 0;\n"
           " tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%%r5], 0;\n"
           "P: bar.warp.sync -1;\n"
           " tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync."
           "aligned [%%d7], [%%r5], 128;\n"
           " fence.proxy.tensormap::generic.acquire.gpu [%%d7], 128;\n" LOAD_BOX(
               " mov.u32 %%r5, 7; mov.u32 %%r6, 16;\n cp.async.bulk.tensor.2d.shared::cluster."
               "global.tile.mbarrier::complete_tx::bytes [%%r2], [%%d7, {%%r6, %%r5}], [%%r3];\n",
               "128") " mov.u32 %%r8, 32;\n" STORE_WORDS);
  CUdeviceptr ptr = device_upload(x, sizeof x);
  Map map = tiled_map(ptr, F16, (uint64_t[]){64, 64}, 128, (uint32_t[]){32, 32},
                      (uint32_t[]){1, 4});
  run_text(text, 1, &ptr, &map);
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  for (unsigned i = 0; i < 32; i++) {
    unsigned row = 7 + i / 8, column = 16 + i % 8;
    unsigned want = row < 10 && column < 20 ? 100 + row * 20 + column : 0;
    differ("a map made by a kernel", i, x[i], want);
  }
}

// im2col of (images, H, W, C): pixel number n of the box's walk, at an offset in the filter. The
// box goes from its lower corner to the tensor's end plus its upper corner, by steps.
typedef struct Walk {
  const char *name;
  int lower, upper, step, first_w, first_h, first_image, offset_w, offset_h, pixels;
} Walk;

static const Walk walks[] = {
    {"3x3, padded, the filter's first place", -1, -1, 1, -1, -1, 0, 0, 0, 40},
    {"3x3, padded, the last place", -1, -1, 1, 2, 1, 0, 2, 2, 40},
    {"1x1", 0, 0, 1, 0, 0, 1, 0, 0, 30},
    {"by steps of two", -1, -1, 2, -1, -1, 0, 1, 2, 20},
    {"2x2 without padding", 0, -1, 1, 3, 2, 0, 1, 0, 33},
};

enum { kW = 6, kH = 5, kChannels = 8, kImages = 3 };

static void run_walk(const void *user) {
  const Walk *k = user;
  char text[8192];
  static uint32_t x[kSize / 4];
  int box_w = kW + k->upper - k->lower, box_h = kH + k->upper - k->lower;
  int per_row = (box_w + k->step - 1) / k->step, rows = (box_h + k->step - 1) / k->step;
  int words = k->pixels * 4; // four channels, from the second on
  for (unsigned i = 0; i < kImages * kH * kW * kChannels; i++) x[kIn / 4 + i] = 100 + i;
  snprintf(text, sizeof text,
           HEAD " mov.u32 %%r10, 2; mov.u32 %%r11, %d; mov.u32 %%r12, %d; mov.u32 %%r13, %d;\n"
                " mov.u16 %%h1, %d; mov.u16 %%h2, %d;\n" LOAD_BOX(
                    " cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx"
                    "::bytes [%%r2], [%%d3, {%%r10, %%r11, %%r12, %%r13}], [%%r3], {%%h1, %%h2};\n",
                    "%d") " mov.u32 %%r8, %d;\n" STORE_WORDS,
           k->first_w, k->first_h, k->first_image, k->offset_w, k->offset_h, words * 4, words);
  CUdeviceptr ptr = device_upload(x, sizeof x);
  EncodeIm2col encode = encode_im2col();
  Map map;
  uint64_t dims[] = {kChannels, kW, kH, kImages};
  uint64_t strides[] = {4 * kChannels, 4 * kChannels * kW, 4 * kChannels * kW * kH};
  uint32_t steps[] = {1, (uint32_t)k->step, (uint32_t)k->step, 1};
  int lower[] = {k->lower, k->lower}, upper[] = {k->upper, k->upper};
  OK(encode(&map, U32, 4, (void *)(uintptr_t)(ptr + kIn), dims, strides, lower, upper, 4,
            (uint32_t)k->pixels, steps, 0, 0, 0, 0));
  run_text(text, 1, &ptr, &map);
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  int start = (k->first_image * rows + (k->first_h - k->lower) / k->step) * per_row +
              (k->first_w - k->lower) / k->step;
  for (int i = 0; i < words; i++) {
    int p = start + i / 4, w = k->lower + p % per_row * k->step + k->offset_w;
    int h = k->lower + p / per_row % rows * k->step + k->offset_h, image = p / per_row / rows;
    bool inside = w >= 0 && w < kW && h >= 0 && h < kH && image < kImages;
    int number = ((image * kH + h) * kW + w) * kChannels + 2 + i % 4;
    differ(k->name, (unsigned)i, x[i], inside ? 100 + (uint32_t)number : 0);
  }
}

// ---- all of them --------------------------------------------------------------------------------

#define EACH(list, run) FEW(list, run, 1)
#define FEW(list, run, n) /* in the short run, one of n */                                         \
  for (int i = 0; i < (int)(sizeof list / sizeof *list); i++)                                      \
    if (device_few(i, n)) device_child(settings, run, &list[i])

static void test_global(void **state) {
  (void)state;
  EACH(to_global, run_global);
  seed = "1", checked = "basic";
  FEW(to_global, run_global, 3);
  seed = "0", checked = "all";
}
static void test_cluster(void **state) {
  (void)state;
  EACH(to_cluster, run_cluster);
}
static void test_lanes(void **state) {
  (void)state;
  EACH(by_lanes, run_lanes);
}
static void test_atomics(void **state) {
  (void)state;
  FEW(atomics, run_atomics, 2);
}
static void test_tensors(void **state) {
  (void)state;
  EACH(tensors, run_tensor);
}
static void test_boxes(void **state) {
  (void)state;
  EACH(walks, run_walk);
  device_child(settings, run_steps, NULL);
  device_child(settings, run_replace, NULL);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_global), cmocka_unit_test(test_cluster), cmocka_unit_test(test_lanes),
      cmocka_unit_test(test_atomics),
      cmocka_unit_test(test_tensors), cmocka_unit_test(test_boxes)};
  return cmocka_run_group_tests_name("test_ptx_tensors", tests, NULL, NULL);
}
