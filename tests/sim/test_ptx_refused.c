// test_ptx_refused.c: PTX text that is refused: each with its error, its line and why. Damaged texts:
// test_ptx_fuzz.c.
#include "tests/sim/device.h"

#define HEAD ".version 8.6\n.target sm_90\n.address_size 64\n"
#define BODY_OF(head, text)                                                                        \
  head ".entry k(.param .u64 a)\n{\n.reg .b32 %r<5>;\n.reg .pred %p<2>;\n.reg .f32 %f<3>;\n" text  \
       "\nret;\n}\n"
#define BODY(text) BODY_OF(HEAD, text)
#define BODY_80(text) BODY_OF(".version 8.6\n.target sm_80\n.address_size 64\n", text)
#define BODY_90A(text) BODY_OF(".version 8.6\n.target sm_90a\n.address_size 64\n", text)

#define BRACES "{{{{{{{{{{{{{{{{"

typedef struct Refused {
  const char *text;
  CUresult error;
  const char *log;
} Refused;

static const Refused refused[] = {
    {".version 11.0\n.target sm_90\n", CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
     "line 1: error: PTX of version 11.0"},
    {".version 9.5\n.target sm_90\n", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "version 9.5"},
    {".version 7.7\n.target sm_90\n", CUDA_ERROR_INVALID_PTX, "line 2: error: sm_90 needs PTX"},
    {".version 9.4\n.target sm_120\n.address_size 64\n", CUDA_ERROR_NO_BINARY_FOR_GPU, "sm_120"},
    {".version 8.6\n.target sm_100a\n.address_size 64\n", CUDA_ERROR_NO_BINARY_FOR_GPU, "sm_100a"},
    {".version 8.6\n.address_size 64\n", CUDA_ERROR_INVALID_PTX, "no .target"},
    {".version 8.6\n.target sm_90\n.address_size 32\n", CUDA_ERROR_INVALID_PTX,
     "line 3: error: addresses"},
    {BODY("frobnicate.u32 %r1, %r2;"), CUDA_ERROR_INVALID_PTX, "line 9: error: frobnicate.u32"},
    {BODY("{ .reg .b16 h; fma.rz.f16 h, h, h, h; }"), CUDA_ERROR_INVALID_PTX, "to nearest"},
    {".target sm_90\n.address_size 64\n.entry k() { ret; }\n", CUDA_ERROR_INVALID_PTX,
     "line 1: error: a module begins with .version"},
    {HEAD ".entry k() .maxntid 0 { ret; }\n", CUDA_ERROR_INVALID_PTX, "a thread at least"},
    {HEAD ".entry k() .maxntid 4, 0 { ret; }\n", CUDA_ERROR_INVALID_PTX, "a thread at least"},
    {HEAD ".entry k() .minnctapersm 0 { ret; }\n", CUDA_ERROR_INVALID_PTX, "1 at least"},
    {HEAD ".entry k() .maxntid 32 .reqntid 32 { ret; }\n", CUDA_ERROR_INVALID_PTX,
     "a limit and a size"},
    {".version 8.6\n.target sm_80\n.address_size 64\n.entry k() .reqnctapercluster 2 { ret; }\n",
     CUDA_ERROR_INVALID_PTX, "line 4: error: `.reqnctapercluster` needs .target sm_90"},
    {BODY(".reg .b32 %r1;"), CUDA_ERROR_INVALID_PTX, "%r1 is there twice"},
    {BODY(".reg .b32 %t1, %t<4>;"), CUDA_ERROR_INVALID_PTX, "%t1 is there twice"},
    {HEAD ".entry k() { .shared .b8 x[49153]; .reg .b32 %r; mov.u32 %r, x; ret; }\n",
     CUDA_ERROR_INVALID_PTX, "line 4: error: k has 49153 bytes of static shared memory"},
    {BODY("bar.arrive 1;"), CUDA_ERROR_INVALID_PTX, "bar.arrive: 2 operands are awaited"},
    {BODY("cp.async.cg.shared.global [%r1], [%r2], 4;"), CUDA_ERROR_INVALID_PTX, "16 bytes"},
    {BODY("red.acquire.gpu.global.add.u32 [%r1], %r2;"), CUDA_ERROR_INVALID_PTX,
     "do not go with each other"},
    {BODY("setp.lo.f32 %p1, %f1, %f2;"), CUDA_ERROR_INVALID_PTX, "do not go with each other"},
    {BODY("fma.f32 %f1, %f1, %f2, %f2;"), CUDA_ERROR_INVALID_PTX, "do not go with each other"},
    {BODY("bra nowhere;"), CUDA_ERROR_INVALID_PTX, "line 9: error: there is no nowhere"},
    {BODY("add.u32 %r1, %r2;"), CUDA_ERROR_INVALID_PTX, "operand 3 is missing"},
    {BODY("add.u32 %r1, %r2, %r3, %r4;"), CUDA_ERROR_INVALID_PTX, "3 operands are awaited"},
    {BODY("add.u32 %r1, %r2, %r99999;"), CUDA_ERROR_INVALID_PTX, "no register %r99999"},
    {BODY(".reg .b32 t;\n.reg .b32 t;"), CUDA_ERROR_INVALID_PTX, "t is there twice"},
    {BODY("mov.u32 %r1, 0x10000000000000000;"), CUDA_ERROR_INVALID_PTX, "more than 64 bits"},
    {BODY_OF(HEAD ".const .u32 c;\n", "st.const.u32 [c], %r1;"), CUDA_ERROR_INVALID_PTX,
     "only read"},
    {BODY(".shared .u32 s = 5;"), CUDA_ERROR_INVALID_PTX, "of global and constant memory"},
    {BODY("bar.sync 16;"), CUDA_ERROR_INVALID_PTX, "0 to 15"},
    {BODY("bar.sync 0, 33;"), CUDA_ERROR_INVALID_PTX, "whole warps"},
    {BODY("add.u32 %q1, %r2, %r3;"), CUDA_ERROR_INVALID_PTX, "there is no register %q1"},
    {BODY("add.u64 %r1, %r2, %r3;"), CUDA_ERROR_INVALID_PTX, "r1 has 32 bits, not 64"},
    {BODY("{ .reg .b64 d;\nadd.u32 d, %r2, %r3; }"), CUDA_ERROR_INVALID_PTX,
     "line 10: error: add.u32: d_s1_3 has 64 bits, not 32"},
    {BODY("{ .reg .b64 d; popc.b64 d, d; }"), CUDA_ERROR_INVALID_PTX, "has 64 bits, not 32"},
    {BODY("{ .reg .b64 d; shl.b64 d, d, d; }"), CUDA_ERROR_INVALID_PTX, "has 64 bits, not 32"},
    {BODY("{ .reg .b16 h; ld.global.u32 h, [a]; }"), CUDA_ERROR_INVALID_PTX, "has 16 bits, not 32"},
    {BODY("add.u32 %r1, %f1, %r3;"), CUDA_ERROR_INVALID_PTX, "line 9: error: add.u32: f1 is .f32"},
    {BODY("{ .reg .u32 u; add.f32 %f1, %f2, u; }"), CUDA_ERROR_INVALID_PTX, "is .u32"},
    {BODY("ld.global.u32 %r1, [%f1];"), CUDA_ERROR_INVALID_PTX, "f1 is .f32, no address"},
    {BODY("{ .reg .b64 d; ld.global.v2.u32 {%r1, d}, [d]; }"), CUDA_ERROR_INVALID_PTX,
     "not as wide as those beside it"},
    {BODY("add.u32 {%r1}, %r1, %r2;"), CUDA_ERROR_INVALID_PTX, "the result's place"},
    {BODY("wgmma.fence.sync.aligned;"), CUDA_ERROR_INVALID_PTX,
     "line 9: error: wgmma.fence.sync.aligned: it needs .target sm_90a, not sm_90"},
    {BODY("setmaxnreg.inc.sync.aligned.u32 40;"), CUDA_ERROR_INVALID_PTX, "needs .target sm_90a"},
    {BODY_80("barrier.cluster.arrive;"), CUDA_ERROR_INVALID_PTX,
     "line 9: error: barrier.cluster.arrive: it needs .target sm_90, not sm_80"},
    {BODY_80("{ .reg .b16 h;\nadd.bf16 h, h, h; }"), CUDA_ERROR_INVALID_PTX,
     "line 10: error: add.bf16: it needs .target sm_90, not sm_80"},
    {BODY("multimem.ld_reduce.global.add.f32 %f1, [a];"), CUDA_ERROR_INVALID_PTX,
     "line 9: error: multimem.ld_reduce.global.add.f32: multicast objects are memory of several"},
    {BODY_90A("{ .reg .b16 h;\nfma.rn.oob.f16 h, h, h, h; }"), CUDA_ERROR_INVALID_PTX,
     "line 10: error: fma.rn.oob.f16: `.oob`: which NaN stands for an element out of bounds"},
    {BODY("istypep.texref %p1, a;"), CUDA_ERROR_INVALID_PTX, "textures and surfaces"},
    {BODY("{ .reg .b16 h;\nld.global.v8.b16 {h, h, h, h, h, h, h, h}, [a]; }"),
     CUDA_ERROR_INVALID_PTX, "it needs .target sm_100"},
    {BODY("mbarrier.init.b64 [%r1], 1;"), CUDA_ERROR_INVALID_PTX, "has 32 bits: sm_90 has no such"},
    {BODY("add.ftz.ftz.f32 %f1, %f1, %f1;"), CUDA_ERROR_INVALID_PTX, "`.ftz` is there twice"},
    {BODY("bar.sync;"), CUDA_ERROR_INVALID_PTX, "operand 1 is missing"},
    {BODY_90A("{ .reg .b64 d;\nwgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc "
              "{%r1, %r2, %r3, %r4}, d, d, 1; }"),
     CUDA_ERROR_INVALID_PTX, "line 10: error: wgmma.mma_async.sync.aligned.m64n8k256.s32.b1"},
    {BODY("add.rq.f32 %f1, %f1, %f2;"), CUDA_ERROR_INVALID_PTX, "`.rq` is not known here"},
    {BODY("add.f32 %p1, %f1, %f2;"), CUDA_ERROR_INVALID_PTX, "a predicate and a number"},
    {BODY("tex.1d.v4.f32.s32 {%f1, %f1, %f1, %f1}, [a, {%r1}];"), CUDA_ERROR_INVALID_PTX, "tex.1d"},
    {BODY("abs.s16x2 %r1, %r2;"), CUDA_ERROR_INVALID_PTX, "pairs of integers"},
    {BODY("call nothing, ();"), CUDA_ERROR_INVALID_PTX, "nothing"},
    {BODY("mov.u32 %r1, %clusterfoo;"), CUDA_ERROR_INVALID_PTX, "%clusterfoo"},
    {BODY("x: add.u32 %r1, %r1, 1;\nx: bra x;"), CUDA_ERROR_INVALID_PTX,
     "line 10: error: x is there twice"},
    {BODY("ld.global.u32 %r1, %r2;"), CUDA_ERROR_INVALID_PTX, "`[address]` is awaited"},
    {BODY("mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%f1}, {%r1}, {%r1}, {%f1}, %r1, 0;"),
     CUDA_ERROR_INVALID_PTX,
     "line 9: error: mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: products with a sparse"},
    {BODY("mov.u32 %r1, 0;\nmma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%f1}, {%r1}, {%r1}, {%f1}, %r1, 0;"),
     CUDA_ERROR_INVALID_PTX, "line 10: error: mma.sp::ordered_metadata.sync"},
    {BODY_90A("{ .reg .b64 d;\nwgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 "
          "{%f1, %f1, %f1, %f1}, d, d, %r1, 0, 1, 1, 1; }"),
     CUDA_ERROR_INVALID_PTX,
     "line 10: error: wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16: products with a "
     "sparse"},
    {BODY("isspacep;"), CUDA_ERROR_INVALID_PTX, "line 9: error: isspacep: it needs more pieces"},
    {BODY("mma.sync.aligned.m16n8k8.col.row.f32.f16.f16.f32 "
          "{%f1, %f1, %f1, %f1}, {%r1, %r1}, {%r1}, {%f1, %f1, %f1, %f1};"),
     CUDA_ERROR_INVALID_PTX, "`.row.col` is awaited"},
    {BODY_80("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
             "{%f1, %f1, %f1, %f1}, {%r1, %r1, %r1, %r1}, {%r1, %r1}, {%f1, %f1, %f1, %f1};"),
     CUDA_ERROR_INVALID_PTX, "it needs .target sm_89, not sm_80"},
    {BODY("mov.u32 %r1, %globaltimer;"), CUDA_ERROR_INVALID_PTX, "%globaltimer is no .u32"},
    {BODY("ld.volatile.global.ca.u32 %r1, [a];"), CUDA_ERROR_INVALID_PTX, "these words do not go"},
    {BODY("pmevent 16;"), CUDA_ERROR_INVALID_PTX, "operand 1 is a number from 0 to 15"},
    {BODY("set.eq.u64.f32 %r1, %f1, %f2;"), CUDA_ERROR_INVALID_PTX, "`.u64` of `.f32`"},
    {BODY("mul24.wide.u32 %r1, %r2, %r3;"), CUDA_ERROR_INVALID_PTX, "`.wide` is not known here"},
    {".version 2147483647.9\n", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "version 2147483647.9"},
    {HEAD ".global .u8 a[1] = " BRACES BRACES "1", CUDA_ERROR_INVALID_PTX,
     "line 4: error: too many brackets in each other"},
    {HEAD ".global .u8 a[65536][281474976710656];", CUDA_ERROR_INVALID_PTX, "a is too large"},
    {BODY("/* never"), CUDA_ERROR_INVALID_PTX, "a comment that does not end"},
    {HEAD ".entry k()\n{\n.reg .b32 %r<5>;\nadd.u32 %r1, %r1,", CUDA_ERROR_INVALID_PTX, "line 7"},
    {HEAD ".tex .u64 t;\n", CUDA_ERROR_INVALID_PTX, "textures"},
    {HEAD ".extern .func f();\n.entry k()\n{\ncall f, ();\n}\n", CUDA_ERROR_INVALID_PTX,
     "declared and not defined"},
};

static void test_refused(void **state) {
  (void)state;
  char log[1024] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)sizeof log};
  CUmodule module;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    CUresult r = cuModuleLoadDataEx(&module, refused[i].text, 2, options, values);
    if (r != refused[i].error || !strstr(log, refused[i].log))
      fail_msg("%s\n%d, `%s` instead of %d, `%s`", refused[i].text, r, log, refused[i].error,
               refused[i].log);
  }
  char cubin[64] = "\177ELF\2\1\1";
  cubin[18] = (char)190; // EM_CUDA
  assert_int_equal(cuModuleLoadDataEx(&module, cubin, 2, options, values),
                   CUDA_ERROR_NO_BINARY_FOR_GPU);
  assert_non_null(strstr(log, "machine code: libcusim takes PTX"));
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_refused, device_setup)};
  return cmocka_run_group_tests_name("test_ptx_refused", tests, NULL, NULL);
}
