// test_ptx_counters.c: libcusim counts the instructions of PTX by kind, once for each warp that
// issues them (NNGEN_SIM_COUNT=1): in straight code, loops, branches that part lanes, calls.
#include "sim/counters.h"
#include "tests/sim/device.h"

enum {
  Integer,
  Fp32,
  Fp64,
  Fp16,
  Convert,
  Compare,
  Move,
  Load,
  Store,
  Atomic,
  Control,
  Barrier,
  Warp,
  Matrix,
  Copy,
  Other,
  Kinds
};
enum { kWarps = 2, kBlocks = 3 };

typedef struct Case {
  const char *name, *body; // %r1: the thread's lane; %d1: 4 KiB of memory
  int want[Kinds];         // of a warp, besides what HEAD and ret do
} Case;

#define HEAD                                                                                       \
  ".version 8.5\n.target sm_80\n.address_size 64\n"                                                \
  ".func (.param .b32 r) twice(.param .b32 x) {\n .reg .b32 %a<3>;\n"                              \
  " ld.param.b32 %a1, [x];\n add.s32 %a2, %a1, %a1;\n st.param.b32 [r], %a2;\n ret;\n}\n"          \
  ".entry k(.param .u64 x) {\n .reg .b32 %r<40>;\n .reg .b64 %d<9>;\n .reg .pred %p<9>;\n"         \
  " .reg .f32 %f<40>;\n .reg .f64 %g<9>;\n .reg .b16 %h<9>;\n .param .b32 in;\n .param .b32 "      \
  "out;\n"                                                                                         \
  " .shared .b32 s[64];\n ld.param.u64 %d1, [x];\n mov.u32 %r1, %laneid;\n"

static const Case cases[] = {
    {"nothing", "", {0}},
    {"each kind",
     " add.s32 %r2, %r1, 1;\n mul.f32 %f1, 0f3f800000, 0f40000000;\n"
     " fma.rn.f64 %g1, 0d3ff0000000000000, 0d3ff0000000000000, 0d0000000000000000;\n"
     " mov.b16 %h1, 0;\n add.rn.f16 %h2, %h1, %h1;\n cvt.rn.f32.s32 %f2, %r1;\n"
     " setp.lt.s32 %p1, %r1, 99;\n selp.b32 %r3, 1, 2, %p1;\n"
     " atom.global.add.u32 %r4, [%d1], 1;\n red.global.add.u32 [%d1], 1;\n"
     " bar.sync 0;\n membar.gl;\n shfl.sync.idx.b32 %r5, %r1, 0, 31, -1;\n"
     " vote.sync.ballot.b32 %r6, %p1, -1;\n st.shared.b32 [s], 0;\n"
     " lop3.b32 %r7, %r1, %r1, %r1, 0x96;\n cp.async.commit_group;\n",
     {[Integer] = 2,
      [Fp32] = 1,
      [Fp64] = 1,
      [Fp16] = 1,
      [Convert] = 1,
      [Compare] = 2,
      [Move] = 1,
      [Atomic] = 2,
      [Barrier] = 2,
      [Warp] = 2,
      [Store] = 1,
      [Copy] = 1}},
    {"products in a row",
     " mov.b32 %r2, 0;\n mov.f32 %f1, 0f00000000;\n"
     " mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f1, %f1, %f1},"
     " {%r2, %r2}, {%r2}, {%f1, %f1, %f1, %f1};\n"
     " mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f1, %f1, %f1},"
     " {%r2, %r2}, {%r2}, {%f1, %f1, %f1, %f1};\n",
     {[Move] = 2, [Matrix] = 2}},
    {"a predicate that none of the lanes has",
     " setp.gt.s32 %p1, %r1, 99;\n"
     " @%p1 add.s32 %r2, %r1, 1;\n",
     {[Compare] = 1, [Integer] = 1}},
    // Lane l goes round l + 1 times, so the warp 32 times.
    {"a loop of the lane",
     " mov.b32 %r2, 0;\nL: add.s32 %r2, %r2, 1;\n"
     " setp.le.s32 %p1, %r2, %r1;\n @%p1 bra L;\n",
     {[Move] = 1, [Integer] = 32, [Compare] = 32, [Control] = 32}},
    {"both ways of a branch",
     " setp.lt.s32 %p1, %r1, 5;\n @%p1 bra A;\n sub.s32 %r2, %r1, 1;\n"
     " sub.s32 %r2, %r1, 2;\n bra B;\nA: cvt.u64.u32 %d2, %r1;\nB:\n",
     {[Compare] = 1, [Control] = 2, [Integer] = 2, [Convert] = 1}},
    {"a way that no lane goes",
     " setp.lt.s32 %p1, %r1, 0;\n @%p1 bra A;\n bra B;\n"
     "A: cvt.u64.u32 %d2, %r1;\nB:\n",
     {[Compare] = 1, [Control] = 2}},
    {"lanes that leave",
     " setp.lt.s32 %p1, %r1, 31;\n @%p1 exit;\n cvt.u64.u32 %d2, %r1;\n",
     {[Compare] = 1, [Control] = 1, [Convert] = 1}},
    {"a call",
     " st.param.b32 [in], %r1;\n call (out), twice, (in);\n ld.param.b32 %r2, [out];\n"
     " st.global.b32 [%d1+64], %r2;\n",
     {[Store] = 3, [Control] = 2, [Load] = 2, [Integer] = 1}},
};

static void test_kinds(void **state) {
  (void)state;
  CUresult (*counters)(CUfunction, KernelCounters *, size_t);
  *(void **)&counters = dlsym(sim_open(), "cusimKernelCounters");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const Case *c = &cases[i];
    char text[4096];
    CUmodule module;
    CUfunction f;
    KernelCounters got;
    snprintf(text, sizeof text, "%s%s ret;\n}\n", HEAD, c->body);
    OK(cuModuleLoadData(&module, text));
    OK(cuModuleGetFunction(&f, module, "k"));
    static char zeros[4096];
    CUdeviceptr x = device_upload(zeros, sizeof zeros);
    OK(device_run(f, kBlocks, 32 * kWarps, 0, (void *[]){&x}));
    OK(counters(f, &got, sizeof got));
    for (int k = 0; k < Kinds; k++) {
      int own = c->want[k] + (k == Load || k == Move || k == Control);
      if (got.instructions[k] != (uint64_t)(own * kWarps * kBlocks))
        fail_msg("%s: of kind %d %llu, not %d", c->name, k, (unsigned long long)got.instructions[k],
                 own * kWarps * kBlocks);
    }
    OK(cuMemFree(x));
    OK(cuModuleUnload(module));
  }
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  setenv("NNGEN_SIM_COUNT", "1", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds)};
  return cmocka_run_group_tests_name("test_ptx_counters", tests, device_setup, NULL);
}
