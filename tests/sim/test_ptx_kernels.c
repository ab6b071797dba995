// test_ptx_kernels.c: small kernels of PTX written by hand, for instructions that compilers seldom
// write: mbarriers in all their forms, moves of matrices, the leader of a warp, hints. What each
// thread must leave is worked out from the PTX ISA. Each runs with all checks, in three orders.
#include <math.h>

#include "tests/sim/device.h"

enum { kThreads = 64, kWarp = 32 };

// x[i] is the thread's result, x[1024 + i] its input; p1: it is thread 0.
static const char head[] =
    ".version 8.6\n.target sm_90a\n.address_size 64\n.const .align 4 .u32 c[2] = {0, 1};\n"
    ".visible .entry k(.param .u64 x)\n{\n"
    " .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .f32 %f<4>;\n"
    " .shared .align 128 .b8 s[2048]; .shared .align 8 .b64 bar;\n"
    " ld.param.u64 %d1, [x]; cvta.to.global.u64 %d1, %d1; mov.u32 %r1, %tid.x;\n"
    " mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d1, %d2; add.u64 %d3, %d2, 4096;\n"
    " mov.u32 %r10, s; mov.u32 %r11, bar; shl.b32 %r12, %r1, 2; add.u32 %r13, %r10, %r12;\n"
    " xor.b32 %r14, %r13, 4; setp.eq.u32 %p1, %r1, 0; ld.global.u32 %r2, [%d3];\n"
    " mov.u32 %r3, 0; mov.u32 %r9, %laneid;\n";
static const char tail[] = " st.global.u32 [%d2], %r3;\n ret;\n}\n";

static uint32_t input(unsigned i) {
  return i * 2654435761u >> 3;
}

// ---- what is awaited ----------------------------------------------------------------------------

typedef bool (*Right)(const uint32_t *x, unsigned i);

static bool neighbour(const uint32_t *x, unsigned i) {
  return x[i] == input(i ^ 1);
}
static bool own(const uint32_t *x, unsigned i) {
  return x[i] == input(i);
}
// Of thread 0: how many were pending before each arrival.
static bool first_counts(const uint32_t *x, unsigned i) {
  return x[i] == (i ? 0 : 5 + 16 * 3 + 256 * 2);
}
static bool one(const uint32_t *x, unsigned i) {
  return x[i] == 1;
}
static bool one_leader(const uint32_t *x, unsigned i) { // 256 the leader, and its number
  unsigned leaders = 0, first = i / kWarp * kWarp, leader = x[i] & 255;
  for (unsigned l = 0; l < kWarp; l++) leaders += x[first + l] >> 8;
  return leaders == 1 && leader < kWarp && x[first + leader] >> 8 == 1;
}
static bool leader_of_high(const uint32_t *x, unsigned i) { // among lanes 16 to 31
  return i % kWarp < 16 ? x[i] == 0 : one_leader(x, i) && (x[i] & 255) >= 16;
}
static bool whole_warp(const uint32_t *x, unsigned i) {
  return x[i] == (i % kWarp < 8 ? 0xffu : 0xffffff00u);
}

static bool near(uint32_t bits, double want, double bound) {
  float got;
  memcpy(&got, &bits, 4);
  return fabs(got - want) <= bound;
}
static float angle(unsigned i) {
  return (float)((int)i - 32) / 16.0f;
}
static bool is_sin(const uint32_t *x, unsigned i) {
  return near(x[i], sin(angle(i)), 0x1p-20);
}
static bool is_cos(const uint32_t *x, unsigned i) {
  return near(x[i], cos(angle(i)), 0x1p-20);
}
static bool is_tanh(const uint32_t *x, unsigned i) {
  return near(x[i], tanh(angle(i)), 0x1p-10);
}

// Lane l of an m8n8 matrix of 16 bits holds row l / 4, columns 2 * (l % 4) and the next.
static uint16_t element(unsigned warp, unsigned row, unsigned column) { // of the inputs of a warp
  uint32_t word = input(warp * kWarp + row * 4 + column / 2);
  return (uint16_t)(column % 2 ? word >> 16 : word);
}
static uint32_t two(uint16_t low, uint16_t high) {
  return low | (uint32_t)high << 16;
}
static bool transposed(const uint32_t *x, unsigned i) {
  unsigned w = i / kWarp, row = i % kWarp / 4, column = i % 4 * 2;
  return x[i] == two(element(w, column, row), element(w, column + 1, row));
}
// Matrix m of x4 holds each word with m added to it, and lies at row r of its own 16 bytes.
static uint16_t stored(unsigned m, unsigned row, unsigned column, bool trans) {
  unsigned r = trans ? column : row, c = trans ? row : column;
  uint32_t word = input(r * 4 + c / 2) + m * 0x10001;
  return (uint16_t)(c % 2 ? word >> 16 : word);
}
static bool matrices(const uint32_t *x, unsigned i, int count, bool trans) {
  for (unsigned m = 0; i < kWarp && m < (unsigned)count; m++) {
    unsigned row = i / 4, column = i % 4 * 2; // of the word that the thread read back
    uint32_t want = two(stored(m, row, column, trans), stored(m, row, column + 1, trans));
    if (x[64 * m + i] != want) return false;
  }
  return true;
}
static bool stored_1(const uint32_t *x, unsigned i) {
  return matrices(x, i, 1, false);
}
static bool stored_2t(const uint32_t *x, unsigned i) {
  return matrices(x, i, 2, true);
}
static bool stored_4(const uint32_t *x, unsigned i) {
  return matrices(x, i, 4, false);
}
static bool stored_4t(const uint32_t *x, unsigned i) {
  return matrices(x, i, 4, true);
}

// ---- the kernels --------------------------------------------------------------------------------

#define INIT(count) " @%p1 mbarrier.init.shared.b64 [%r11], " #count ";\n bar.sync 0;\n"
#define SWAP_AT(wait)                                                                              \
  INIT(64) " st.shared.u32 [%r13], %r2;\n" wait " ld.shared.u32 %r3, [%r14];\n"
// The first warp stores its words, one more for each matrix, and reads all back as they lie.
#define STORE_MATRIX(count, regs, trans)                                                           \
  " setp.gt.u32 %p2, %r1, 31; @%p2 bra E;\n"                                                       \
  " add.u32 %r20, %r2, 65537; add.u32 %r21, %r20, 65537; add.u32 %r22, %r21, 65537;\n"             \
  " shl.b32 %r4, %r9, 4; add.u32 %r4, %r4, %r10;\n"                                                \
  " stmatrix.sync.aligned.m8n8." count trans ".shared.b16 [%r4], " regs ";\n"                      \
  " bar.warp.sync 0xffffffff;\n mov.u32 %r5, 0;\n"                                                 \
  "L: shl.b32 %r6, %r5, 7; add.u32 %r6, %r6, %r13; ld.shared.u32 %r7, [%r6];\n"                    \
  " mul.wide.u32 %d5, %r5, 256; add.u64 %d5, %d5, %d2; st.global.u32 [%d5], %r7;\n"                \
  " add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r8; @%p3 bra L;\n ret;\nE:\n"

typedef struct Case {
  const char *name, *body;
  Right right; // null: the launch fails, and says `report`
  const char *report;
} Case;

static const Case cases[] = {
    {"test_wait for a state",
     SWAP_AT(" mbarrier.arrive.shared.b64 %d4, [%r11];\n"
             "W: mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @!%p2 bra W;\n"),
     neighbour, 0},
    {"test_wait for a parity, try_wait with a time",
     SWAP_AT(" mbarrier.arrive.release.cta.shared::cta.b64 _, [%r11];\n"
             "W: mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r11], 0;\n"
             " @!%p2 bra W;\n mbarrier.arrive.shared.b64 %d4, [%r11];\n"
             "V: mbarrier.try_wait.shared.b64 %p2, [%r11], %d4, 1000; @!%p2 bra V;\n"),
     neighbour, 0},
    {"test_wait does not wait",
     INIT(1) " @!%p1 bra D; mov.u32 %r4, 0;\n"
             "L: mbarrier.test_wait.parity.shared.b64 %p2, [%r11], 0; @%p2 trap;\n"
             " mbarrier.test_wait.parity.shared.b64 %p2, [%r11], 1; @!%p2 trap;\n"
             " add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 100; @%p3 bra L;\n"
             " mbarrier.arrive.shared.b64 _, [%r11];\n"
             " mbarrier.test_wait.parity.shared.b64 %p2, [%r11], 0; @!%p2 trap;\n"
             "D: mov.u32 %r3, %r2;\n",
     own, 0},
    {"try_wait may be asked often", // it gives false when its time is over
     INIT(1) " @!%p1 bra D; mov.u32 %r4, 0;\n"
             "L: mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0, 10; @%p2 trap;\n"
             " add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 100; @%p3 bra L;\n"
             " mbarrier.arrive.shared.b64 _, [%r11];\n"
             "D: mov.u32 %r3, %r2;\n",
     own, 0},
    {"test_wait for ever", INIT(65) " mbarrier.arrive.shared.b64 %d4, [%r11];\n"
                                    "W: mbarrier.test_wait.shared.b64 %p2, [%r11], %d4;"
                                    " @!%p2 bra W;\n",
     NULL, "never completes"},
    {"pending_count",
     INIT(5) " @!%p1 bra D;\n mbarrier.arrive.noComplete.release.cta.shared.b64 %d4, [%r11], 2;\n"
             " mbarrier.pending_count.b64 %r4, %d4;\n mbarrier.arrive.shared.b64 %d5, [%r11];\n"
             " mbarrier.pending_count.b64 %r5, %d5;\n mbarrier.arrive.shared.b64 %d6, [%r11], 2;\n"
             " mbarrier.pending_count.b64 %r6, %d6;\n"
             " mbarrier.test_wait.shared.b64 %p2, [%r11], %d6; @!%p2 trap;\n"
             " mad.lo.u32 %r3, %r5, 16, %r4; mad.lo.u32 %r3, %r6, 256, %r3;\nD:\n",
     first_counts, 0},
    {"arrive_drop: the next phase needs half as many",
     SWAP_AT(" and.b32 %r4, %r1, 1; setp.eq.u32 %p4, %r4, 1;\n"
             " @%p4 mbarrier.arrive_drop.shared.b64 %d4, [%r11];\n"
             " @!%p4 mbarrier.arrive.shared.b64 %d4, [%r11];\n"
             "W: mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @!%p2 bra W;\n"
             " @!%p4 mbarrier.arrive.shared.b64 _, [%r11];\n"
             "V: mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 1; @!%p2 bra V;\n"),
     neighbour, 0},
    {"arrive_drop with bytes and counts",
     INIT(4) " @!%p1 bra D;\n"
             " mbarrier.arrive_drop.expect_tx.relaxed.cluster.shared::cta.b64 _, [%r11], 32;\n"
             " mbarrier.arrive_drop.noComplete.release.cta.shared.b64 %d4, [%r11], 2;\n"
             " mbarrier.arrive.shared.b64 %d4, [%r11];\n"
             " mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @%p2 trap;\n"
             " mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r11], 32;\n"
             " mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @!%p2 trap;\n"
             " mbarrier.arrive.shared.b64 %d4, [%r11];\n" // one is left
             " mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @!%p2 trap;\n"
             "D: mov.u32 %r3, %r2;\n",
     own, 0},
    {"expect_tx and complete_tx",
     INIT(1) " @!%p1 bra D;\n"
             " mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r11], 64;\n"
             " mbarrier.arrive.shared.b64 %d4, [%r11];\n"
             " mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @%p2 trap;\n"
             " mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r11], 48;\n"
             " mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @%p2 trap;\n"
             " mbarrier.complete_tx.shared::cta.b64 [%r11], 16;\n"
             " mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @!%p2 trap;\n"
             "D: mov.u32 %r3, %r2;\n",
     own, 0},
    {"inval: the place is memory again, and an mbarrier again",
     INIT(1) " @%p1 mbarrier.inval.shared.b64 [%r11];\n @%p1 st.shared.u32 [%r11], %r2;\n"
             " @%p1 ld.shared.u32 %r3, [%r11];\n bar.sync 0;\n" SWAP_AT(
                 " mbarrier.arrive.shared.b64 %d4, [%r11];\n"
                 "W: mbarrier.test_wait.shared.b64 %p2, [%r11], %d4; @!%p2 bra W;\n"),
     neighbour, 0},
    {"an arrival behind inval", INIT(1) " @%p1 mbarrier.inval.shared::cta.b64 [%r11];\n"
                                        " @%p1 mbarrier.arrive.shared.b64 _, [%r11];\n",
     NULL, "never initialised"},
    {"movmatrix", " movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;\n", transposed, 0},
    {"stmatrix x1", " mov.u32 %r8, 1;\n" STORE_MATRIX("x1", "{%r2}", ""), stored_1, 0},
    {"stmatrix x2 trans", " mov.u32 %r8, 2;\n" STORE_MATRIX("x2", "{%r2, %r20}", ".trans"),
     stored_2t, 0},
    {"stmatrix x4", " mov.u32 %r8, 4;\n" STORE_MATRIX("x4", "{%r2, %r20, %r21, %r22}", ""),
     stored_4, 0},
    {"stmatrix x4 trans",
     " mov.u32 %r8, 4;\n" STORE_MATRIX("x4", "{%r2, %r20, %r21, %r22}", ".trans"), stored_4t, 0},
    {"elect", " elect.sync %r3|%p2, 0xffffffff; @%p2 add.u32 %r3, %r3, 256;\n", one_leader, 0},
    {"elect among some",
     " setp.lt.u32 %p3, %r9, 16; @%p3 bra D; elect.sync %r3|%p2, 0xffff0000;\n"
     " @%p2 add.u32 %r3, %r3, 256;\nD:\n",
     leader_of_high, 0},
    {"elect by a lane that is not named", " elect.sync _|%p2, 0xffff;\n", NULL,
     "not in its own mask"},
    {"activemask on both sides of a branch",
     " setp.lt.u32 %p3, %r9, 8; @%p3 bra D; activemask.b32 %r3; bra E;\n"
     "D: activemask.b32 %r3;\nE:\n",
     whole_warp, 0},
    {"hints and pauses",
     " .reg .b64 %q; createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %q, 0.5;\n"
     " createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %q, [%d1], 128, 256;\n"
     " prefetch.global.L1 [%d3]; prefetch.global.L2::evict_last [%d3]; prefetchu.L1 [%d3];\n"
     " applypriority.global.L2::evict_normal [%d1], 128;\n"
     " ldu.global.u32 %r3, [%d3]; nanosleep.u32 20; pmevent 3; pmevent.mask 5;\n"
     " ld.global.L1::evict_last.L2::cache_hint.u32 %r4, [%d3], %q;\n"
     " setp.ne.u32 %p2, %r3, %r4; @%p2 trap;\n"
     " cp.async.bulk.prefetch.L2.global [%d1], 256;\n",
     own, 0},
    {"discard, then a write",
     " bar.sync 0; add.u64 %d6, %d1, 4096; @%p1 discard.global.L2 [%d6], 128;\n"
     " @%p1 discard.global.L2 [%d6+128], 128; bar.sync 0;\n st.global.u32 [%d3], %r2;\n"
     " ld.global.u32 %r3, [%d3];\n",
     own, 0},
    {"launches that depend on each other, without the attribute",
     " griddepcontrol.wait;\n mov.u32 %r3, %r2;\n griddepcontrol.launch_dependents;\n", own, 0},
    {"sin", " cvt.rn.f32.u32 %f1, %r1; fma.rn.f32 %f1, %f1, 0f3d800000, 0fc0000000;\n"
            " sin.approx.f32 %f2, %f1; mov.b32 %r3, %f2;\n",
     is_sin, 0},
    {"cos", " cvt.rn.f32.u32 %f1, %r1; fma.rn.f32 %f1, %f1, 0f3d800000, 0fc0000000;\n"
            " cos.approx.ftz.f32 %f2, %f1; mov.b32 %r3, %f2;\n",
     is_cos, 0},
    {"tanh", " cvt.rn.f32.u32 %f1, %r1; fma.rn.f32 %f1, %f1, 0f3d800000, 0fc0000000;\n"
             " tanh.approx.f32 %f2, %f1; mov.b32 %r3, %f2;\n",
     is_tanh, 0},
    {"cp.async.mbarrier.arrive, counted by itself",
     INIT(1) " add.u32 %r4, %r13, 0; cp.async.ca.shared.global [%r4], [%d3], 4;\n"
             " cp.async.mbarrier.arrive.shared.b64 [%r11];\n bar.sync 0;\n"
             " @%p1 mbarrier.arrive.shared.b64 _, [%r11];\n"
             "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r11], 0; @!%p2 bra W;\n"
             " ld.shared.u32 %r3, [%r14];\n",
     neighbour, 0},
    {"memory of the stack",
     " stacksave.u64 %d9; add.u32 %r4, %r1, 8; cvt.u64.u32 %d8, %r4; alloca.u64 %d7, %d8, 64;\n"
     " and.b64 %d6, %d7, 63; setp.ne.u64 %p2, %d6, 0; @%p2 trap;\n"
     " st.local.u32 [%d7+4], %r2; ld.local.u32 %r3, [%d7+4]; stackrestore.u64 %d9;\n",
     own, 0},
    {"a constant's address",
     " cvta.const.u64 %d5, c; isspacep.const %p2, %d5; isspacep.global %p3, %d5; @%p3 trap;\n"
     " isspacep.const %p3, %d1; @%p3 trap; cvta.shared.u64 %d6, 0; isspacep.const %p3, %d6;\n"
     " @%p3 trap; cvta.to.const.u64 %d7, %d5; ld.const.u32 %r3, [%d7+4]; @!%p2 trap;\n",
     one, 0},
    {"a warp that spins on a flag of another's",
     " @%p1 st.shared.u32 [%r11], 0; bar.sync 0; setp.lt.u32 %p2, %r1, 32; @%p2 bra A;\n"
     "W: ld.acquire.cta.shared.u32 %r4, [%r11]; setp.ne.u32 %p3, %r4, 1; @%p3 bra W;\n"
     " ld.shared.u32 %r3, [%r10]; bra D;\nA: mov.u32 %r3, 1; @%p1 st.shared.u32 [%r10], 1;\n"
     " @%p1 st.release.cta.shared.u32 [%r11], 1;\nD:\n",
     one, 0},
    {"memory that is kept for cooperative groups",
     " mov.u32 %r4, %reserved_smem_offset_1; add.u32 %r5, %r4, %r12; st.shared.u32 [%r5], %r2;\n"
     " st.shared.u32 [%r13], %r1; bar.sync 0; xor.b32 %r5, %r5, 4; ld.shared.u32 %r3, [%r5];\n",
     neighbour, 0},
    {"where the thread's stack ends",
     " .local .align 8 .b8 own[64]; mov.u64 %d5, own; cvta.local.u64 %d6, %d5;\n"
     " isspacep.local %p2, %d6; isspacep.global %p3, %d6; @%p3 trap; add.u64 %d6, %d6, 65000;\n"
     " isspacep.local %p3, %d6; @%p3 trap; selp.u32 %r3, 1, 0, %p2;\n",
     one, 0},
    {"counters of the hardware stand still",
     " mov.u32 %r4, %pm0; mov.u32 %r5, %pm7; mov.u64 %d5, %pm3_64; cvt.u32.u64 %r6, %d5;\n"
     " or.b32 %r4, %r4, %r5; or.b32 %r4, %r4, %r6; setp.eq.u32 %p2, %r4, 0;\n"
     " selp.u32 %r3, 1, 0, %p2;\n",
     one, 0},
    {"where an address lies",
     " cvta.shared.u64 %d5, 0; isspacep.shared %p2, %d5; isspacep.global %p3, %d5;\n"
     " isspacep.global %p4, %d1; isspacep.shared %p5, %d1; isspacep.local %p6, %d1;\n"
     " not.pred %p3, %p3; and.pred %p2, %p2, %p3; and.pred %p2, %p2, %p4;\n"
     " or.pred %p5, %p5, %p6; not.pred %p5, %p5; and.pred %p2, %p2, %p5;\n"
     " selp.u32 %r3, 1, 0, %p2;\n",
     one, 0},
};

// ---- running them -------------------------------------------------------------------------------

static char *seed;

static void checks(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_CHECK", "all", 1);
  setenv("NNGEN_SIM_SEED", seed, 1);
}

static void run(const void *user) {
  const Case *c = user;
  char text[8192];
  uint32_t x[2048] = {0};
  CUmodule module;
  CUfunction f;
  for (unsigned i = 0; i < kThreads; i++) {
    x[1024 + i] = input(i);
  }
  snprintf(text, sizeof text, "%s%s%s", head, c->body, tail);
  CUresult loaded = cuModuleLoadData(&module, text);
  if (loaded) printf("# %s: %d when it is loaded\n", c->name, loaded), fflush(stdout), _exit(1);
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr ptr = device_upload(x, sizeof x);
  assert_non_null(freopen("build/ptx_kernels", "w", stderr));
  CUresult r = device_run(f, 1, kThreads, 0, (void *[]){&ptr});
  fflush(stderr);
  char *said = file_read("build/ptx_kernels");
  if (c->right ? r || *said : !r || !strstr(said, c->report))
    printf("# %s, seed %s: %d: %s\n", c->name, seed, r, said), fflush(stdout), _exit(1);
  if (r) return;
  OK(cuMemcpyDtoH(x, ptr, sizeof x));
  for (unsigned i = 0; i < kThreads; i++)
    if (!c->right(x, i)) {
      printf("# %s, seed %s: x[%u] is %x\n", c->name, seed, i, x[i]);
      fflush(stdout), _exit(1);
    }
}

static void test_case(void **state) {
  for (char s[] = "0"; *s < '3'; ++*s) seed = s, device_child(checks, run, *state);
}

int main(void) {
  enum { kCases = sizeof cases / sizeof *cases };
  static struct CMUnitTest tests[kCases];
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  for (int i = 0; i < kCases; i++)
    tests[i] = (struct CMUnitTest){cases[i].name, test_case, NULL, NULL, (void *)&cases[i]};
  return cmocka_run_group_tests_name("test_ptx_kernels", tests, NULL, NULL);
}
