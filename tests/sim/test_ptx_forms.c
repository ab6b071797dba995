// test_ptx_forms.c: what PTX may look like: words in another order, expressions, declarations,
// initial values. Each text leaves a number in %r1 of its thread.
#include "tests/sim/device.h"

#define HEAD ".version 8.6\n.target sm_90a\n.address_size 64\n"
#define BEGIN                                                                                      \
  ".entry k(.param .u64 out)\n{\n.reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n.reg .b16 %h<9>;\n"       \
  ".reg .f32 %f<9>;\n.reg .f64 %d<9>;\n.reg .pred %p<9>;\nmov.u32 %r9, %tid.x;\n"
#define END                                                                                        \
  "\nld.param.u64 %rd18, [out];\nmul.wide.u32 %rd19, %r9, 4;\nadd.u64 %rd19, %rd18, %rd19;\n"     \
  "st.global.u32 [%rd19], %r1;\nret;\n}\n"
#define TEXT(body) HEAD BEGIN body END
#define WITH(before, body) HEAD before BEGIN body END

enum { kThreads = 32 };

typedef struct Form {
  const char *text;
  unsigned want;
} Form;

static CUresult load(const char *text, CUmodule *module, char *log, size_t bytes) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  *log = 0;
  return cuModuleLoadDataEx(module, text, 2, options, (void *[]){log, (void *)bytes});
}

static void run_forms(const Form *forms, size_t count) {
  CUdeviceptr out = device_upload(NULL, 4 * kThreads);
  for (size_t i = 0; i < count; i++) {
    CUmodule module;
    CUfunction f;
    unsigned got[kThreads];
    char log[2048];
    CUresult r = load(forms[i].text, &module, log, sizeof log);
    if (r != CUDA_SUCCESS) fail_msg("form %zu: %s", i, log);
    OK(cuModuleGetFunction(&f, module, "k"));
    OK(device_run(f, 1, kThreads, 0, (void *[]){&out}));
    OK(cuMemcpyDtoH(got, out, sizeof got));
    for (int t = 0; t < kThreads; t++)
      if (got[t] != forms[i].want)
        fail_msg("form %zu, thread %d: %#x, not %#x", i, t, got[t], forms[i].want);
    OK(cuModuleUnload(module));
  }
}
#define RUN(forms) run_forms(forms, sizeof forms / sizeof *forms)

// ---- words in another order ---------------------------------------------------------------------

static const Form orders[] = {
    {TEXT("mov.b16 %h1, 5;\nmov.b32 %r2, {%h1, _};\nand.b32 %r1, %r2, 0xffff;"), 5},
    {TEXT("mov.b16 %h1, 5;\nmov.b32 %r2, {_, %h1};\nshr.u32 %r1, %r2, 16;"), 5},
    {TEXT("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %rd1, 0.5;\n"
          "createpolicy.cvt.L2.b64 %rd2, %rd1;\ncvt.u32.u64 %r1, %rd2;\nand.b32 %r1, %r1, 0;"), 0},
    {TEXT("mov.s32 %r2, -5;\nmov.s32 %r3, -9;\nmax.s32.relu %r1, %r2, %r3;"), 0},
    {TEXT("mov.s32 %r2, 5;\nmov.s32 %r3, -9;\nmax.s32.relu %r1, %r2, %r3;"), 5},
    {TEXT("mov.s32 %r2, 5;\nmov.s32 %r3, 9;\nmin.s32.relu %r1, %r2, %r3;"), 5},
    {TEXT("mov.b32 %r2, 0xfffb0007;\nmov.b32 %r3, 0xfff00003;\nmax.s16x2.relu %r1, %r2, %r3;"), 7},
    {TEXT("mov.b32 %r2, 0x00050007;\nmov.b32 %r3, 0xfff00003;\nmin.s16x2.relu %r1, %r2, %r3;"), 3},
    {TEXT("mov.f32 %f2, 0f40000000;\nex2.approx.f32.ftz %f1, %f2;\nmov.b32 %r1, %f1;"),
     0x40800000},
    {TEXT("mov.f32 %f2, 0f40800000;\nrsqrt.approx.f32.ftz %f1, %f2;\nmov.b32 %r1, %f1;"),
     0x3f000000},
    {TEXT("mov.f32 %f2, 0f3f800000;\nadd.f32.rn %f1, %f2, %f2;\nmov.b32 %r1, %f1;"), 0x40000000},
    {TEXT("mov.f32 %f2, 0f3f800000;\nsetp.f32.lt %p1, %f2, 0f40000000;\nselp.u32 %r1, 3, 4, %p1;"),
     3},
    {TEXT("setp.lt.u32 %p1, %r9, 5;\nvote.ballot.sync.b32 %r1, %p1, 0xffffffff;"), 31},
    {TEXT("setp.lt.u32 %p1, %r9, 5;\nvote.sync.ballot.b32 %r1, %p1, 0xffffffff;"), 31},
    {TEXT("setp.lt.u32 %p1, %r9, 5;\nvote.any.sync.pred %p2, %p1, -1;\nselp.u32 %r1, 3, 4, %p2;"),
     3},
};

static void test_orders(void **state) {
  (void)state;
  RUN(orders);
}

// ---- variables ----------------------------------------------------------------------------------

static const Form variables[] = {
    {WITH(".global .u8 odd = 1;\n.global .v4 .f32 vector = {1.0, 2.0, 3.0, 4.0};\n",
          "mov.u64 %rd1, vector;\nand.b64 %rd2, %rd1, 15;\ncvt.u32.u64 %r2, %rd2;\n"
          "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [vector];\ncvt.rni.u32.f32 %r1, %f4;\n"
          "add.u32 %r1, %r1, %r2;"), 4},
    {WITH(".shared .u8 odd;\n.shared .v2 .u32 pair[2];\n",
          "mov.u32 %r2, pair;\nand.b32 %r1, %r2, 7;"), 0},
};

static void test_variables(void **state) {
  (void)state;
  RUN(variables);
}

// An address by bytes behind a byte, as compilers write packed structs that hold pointers.
#define BYTES(space)                                                                               \
  ".global .u32 array[5] = {1, 2, 3, 4, 5};\n" space " .u8 packed[9] = {7, "                      \
  "0xFF(generic(array)+12), 0xFF00(generic(array)+12), 0xFF0000(generic(array)+12), "              \
  "0xFF000000(generic(array)+12), 0xFF00000000(generic(array)+12), "                               \
  "0xFF0000000000(generic(array)+12), 0xFF000000000000(generic(array)+12), "                       \
  "0xFF00000000000000(generic(array)+12)};\n"
#define BYTE(space, at, shift)                                                                     \
  "ld" space ".u8 %rd2, [packed+" at "];\nshl.b64 %rd2, %rd2, " shift ";\n"                        \
  "or.b64 %rd1, %rd1, %rd2;\n"
#define POINTER(space)                                                                             \
  "mov.u64 %rd1, 0;\n" BYTE(space, "1", "0") BYTE(space, "2", "8") BYTE(space, "3", "16")         \
  BYTE(space, "4", "24") BYTE(space, "5", "32") BYTE(space, "6", "40") BYTE(space, "7", "48")      \
  BYTE(space, "8", "56") "ld.u32 %r1, [%rd1];\nld" space ".u8 %r2, [packed];\n"                   \
  "mad.lo.u32 %r1, %r2, 100, %r1;"
static const Form initial[] = {
    {WITH(BYTES(".global"), POINTER(".global")), 704},
    {WITH(BYTES(".const"), POINTER(".const")), 704},
    {WITH(".global .u32 a[3] = {1+2, 4*5, -1};\n",
          "ld.global.u32 %r2, [a];\nld.global.u32 %r3, [a+4];\nld.global.u32 %r4, [a+2*4];\n"
          "mad.lo.u32 %r1, %r3, 100, %r2;\nadd.u32 %r1, %r1, %r4;"), 2002},
    {WITH(".global .u32 a[2*2] = {(1 << 4) | 3, 0x1e+1, 5 > 3 ? 7 : 9, ~0};\n"
          ".global .u64 p = generic(a) + 4*2 - 4;\n",
          "ld.global.u64 %rd1, [p];\nld.u32 %r2, [%rd1];\nld.global.u32 %r3, [a];\n"
          "ld.u32 %r4, [%rd1+(1+1)*2];\nmad.lo.u32 %r1, %r2, 100, %r3;\n"
          "mad.lo.u32 %r1, %r4, 10000, %r1;"), 73119},
    {WITH(".global .f64 a[2] = {1.5 * 2.0, -(0.5)};\n",
          "ld.global.f64 %d1, [a];\nld.global.f64 %d2, [a+8];\nadd.f64 %d1, %d1, %d2;\n"
          "mul.f64 %d1, %d1, 0d4024000000000000;\ncvt.rni.u32.f64 %r1, %d1;"), 25},
};

static void test_initial(void **state) {
  (void)state;
  RUN(initial);
}

// ---- expressions --------------------------------------------------------------------------------

#define VALUE(expression) TEXT("mov.u32 %r1, " expression ";")
static const Form expressions[] = {
    {VALUE("(3+4)*2-1"), 13},
    {VALUE("5>3?7:9"), 7},
    {VALUE("5>3 && 2>=3 ? 7 : 0 || 4 ? 8 : 9"), 8},
    {VALUE("-(2)"), 0xfffffffe},
    {VALUE("~0"), 0xffffffff},
    {VALUE("!5 + !0"), 1},
    {VALUE("(1<<4)|3"), 19},
    {VALUE("1 << 4 + 1"), 32},
    {VALUE("6 & 3 ^ 1 | 8"), 11},
    {VALUE("-7 / 2"), 0xfffffffd},
    {VALUE("-7 % 3"), 0xffffffff},
    {VALUE("-8 >> 1"), 0xfffffffc},
    {VALUE("(.u64) -1 / 0x100000000 == 0xffffffff"), 1},
    {VALUE("-1 < 0"), 1},
    {VALUE("-1 < 0U"), 0},
    {VALUE("WARP_SZ * 2 != 64"), 0},
    {VALUE("1.5 < 2.5"), 1},
    {VALUE("10 - 4 - 3"), 3},
    {TEXT("mov.u32 %r2, 5;\nadd.u32 %r1, %r2, ~0;"), 4},
    {TEXT("mov.u32 %r2, 5;\nmad.lo.u32 %r1, %r2, (2+1), -(-(1));"), 16},
    {TEXT("mov.f32 %f1, 1.5 + 0.25*2.0;\ncvt.rni.u32.f32 %r1, %f1;"), 2},
};

static void test_expressions(void **state) {
  (void)state;
  RUN(expressions);
}

// ---- 128 bits -----------------------------------------------------------------------------------

#define WIDE "{ .reg .b128 q, a, b;\nmov.u64 %rd1, 0;\ncvt.u64.u32 %rd2, %r9;\n"
static const Form wide[] = {
    // Each thread adds 1 to the low and 2 to the high half, by compare-and-swap.
    {WITH(".global .align 16 .b64 g[2] = {0xffffffffffffffff, 4};\n.global .u32 done;\n",
          WIDE "ld.relaxed.gpu.global.b128 q, [g];\nL:\nmov.b128 {%rd3, %rd4}, q;\n"
          "add.u64 %rd5, %rd3, 1;\nadd.u64 %rd6, %rd4, 2;\nmov.b128 a, {%rd5, %rd6};\n"
          "atom.global.cas.b128 b, [g], q, a;\nmov.b128 {%rd7, %rd8}, b;\nmov.b128 q, b;\n"
          "setp.ne.u64 %p1, %rd7, %rd3;\n@%p1 bra L;\nsetp.ne.u64 %p1, %rd8, %rd4;\n@%p1 bra L;\n"
          "atom.global.add.u32 %r2, [done], 1;\nW: ld.relaxed.gpu.global.u32 %r2, [done];\n"
          "setp.lt.u32 %p1, %r2, 32;\n@%p1 bra W;\nld.relaxed.gpu.global.b128 q, [g];\n"
          "mov.b128 {%rd3, %rd4}, q;\nmad.lo.u64 %rd3, %rd4, 1000, %rd3;\n"
          "cvt.u32.u64 %r1, %rd3;\n}"), 68031},
    // Each takes what another has left: all numbers come round.
    {WITH(".global .align 16 .b64 g[2] = {100, 100};\n.global .u32 sum, done;\n",
          WIDE "mov.b128 q, {%rd2, %rd2};\natom.global.exch.b128 a, [g], q;\n"
          "mov.b128 {%rd3, %rd4}, a;\nadd.u64 %rd5, %rd3, %rd4;\ncvt.u32.u64 %r2, %rd5;\n"
          "red.global.add.u32 [sum], %r2;\natom.global.add.u32 %r2, [done], 1;\n"
          "W: ld.relaxed.gpu.global.u32 %r2, [done];\nsetp.lt.u32 %p1, %r2, 32;\n@%p1 bra W;\n"
          "ld.relaxed.gpu.global.u32 %r1, [sum];\nld.relaxed.gpu.global.b128 q, [g];\n"
          "mov.b128 {%rd3, %rd4}, q;\nadd.u64 %rd5, %rd3, %rd4;\ncvt.u32.u64 %r2, %rd5;\n"
          "add.u32 %r1, %r1, %r2;\n}"), 200 + 2 * 496},
};

static void test_wide(void **state) {
  (void)state;
  RUN(wide);
}

// ---- registers ----------------------------------------------------------------------------------

#define PARAMETERS                                                                                 \
  ".func (.reg .u32 r) f(.reg .u32 x, .reg .f32 y) {\n.reg .pred p;\n.reg .u32 t;\n"              \
  "cvt.rni.u32.f32 t, y;\nadd.u32 r, x, t;\nsetp.gt.u32 p, r, 100;\n@!p ret;\nmov.u32 r, 100;\n}\n"
static const Form registers[] = {
    {TEXT(".reg .v4 .u32 q;\nmov.u32 q.x, 1;\nmov.u32 q.y, 2;\nmov.u32 q.b, 3;\nmov.u32 q.w, 4;\n"
          "mad.lo.u32 %r1, q.x, 10, q.g;\nmad.lo.u32 %r1, %r1, 10, q.z;\n"
          "mad.lo.u32 %r1, %r1, 10, q.a;"), 1234},
    {TEXT(".reg .v2 .u32 q, w;\nmov.v2.u32 q, {5, 6};\nmov.v2.u32 w, {q.y, q.x};\n"
          "mov.v2.u32 q, w;\nmad.lo.u32 %r1, q.x, 10, q.y;"), 65},
    {TEXT(".reg .v4 .u32 q, w;\nmov.v4.u32 q, %tid;\nmov.v4.u32 w, %ntid;\nsub.u32 %r1, q.x, %r9;\n"
          "add.u32 %r1, %r1, w.x;\nadd.u32 %r1, %r1, w.y;\nadd.u32 %r1, %r1, q.w;"), 33},
    {WITH(".global .align 16 .v4 .u32 a = {1, 2, 3, 4};\n",
          ".reg .v4 .u32 q;\nld.global.v4.u32 q, [a];\nadd.u32 %r1, q.x, q.w;"), 5},
    {TEXT("mov .u32 %r2, 5;\nadd .u32 %r1, %r2, 3;\nmad .lo .u32 %r1, %r1, 2, 1;"), 17},
    {WITH(PARAMETERS, "mov.u32 %r2, 7;\nmov.f32 %f1, 2.0;\ncall (%r1), f, (%r2, %f1);"), 9},
    {WITH(PARAMETERS, "call (%r1), f, (7, 0f40400000);"), 10},
    {WITH(PARAMETERS, "call (%r1), f, (99, 0f40400000);"), 100},
    {WITH(PARAMETERS,
          "P: .callprototype (.reg .u32 r) _ (.reg .u32 x, .reg .f32 y);\nmov.u64 %rd1, f;\n"
          "mov.f32 %f1, 2.0;\ncall (%r1), %rd1, (7, %f1), P;"), 9},
    {WITH(".func (.param .b32 r) g(.param .b32 x) {\n.reg .b32 %r<3>;\nld.param.u32 %r1, [x];\n"
          "add.u32 %r2, %r1, 1;\nst.param.b32 [r], %r2;\nret;\n}\n",
          "mov.u32 %r2, 7;\ncall (%r1), g, (%r2);"), 8},
};

static void test_registers(void **state) {
  (void)state;
  RUN(registers);
}

// ---- what is refused ----------------------------------------------------------------------------

typedef struct Refused {
  const char *text, *log;
} Refused;

static const Refused refused[] = {
    {TEXT("max.f32 %f1, %f2, %f3, %f4;"), "max.f32: of three operands it is an instruction of sm"},
    {TEXT("{ .reg .b128 q; atom.global.add.b128 q, [%rd1], q; }"), "of 128 bits it is exch or cas"},
    {TEXT("ld.param.u32 %r1, [out+8];"), "4 bytes at 8 of 8: past the end of the parameters"},
    {TEXT("ld.param.u64 %rd1, [out+100];"), "line 13: error: ld.param.u64: 8 bytes at 100 of 8"},
    {TEXT("{ .param .b32 a;\nst.param.b32 [a+4], %r1; }"), "past the end of a"},
    {TEXT("mov.u32 %r1, 1 / 0;"), "line 13: error: a division by 0"},
    {TEXT("mov.u32 %r1, 1.5 % 2.0;"), "`%` of numbers with a point"},
    {TEXT("mov.u32 %r1, (1 + 2;"), "`)` is awaited"},
    {TEXT("mov.u32 %r1, ((((((((((((((((((((((((((((((((((((1"), "too many brackets"},
    {WITH(".global .u32 a;\n.global .u8 b = 0xf0f(a);\n", ""), "a mask is a run of ones"},
};

static void test_refused(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    CUmodule module;
    char log[2048];
    assert_int_equal(load(refused[i].text, &module, log, sizeof log), CUDA_ERROR_INVALID_PTX);
    if (!strstr(log, refused[i].log)) fail_msg("refused %zu: %s", i, log);
  }
}

// ---- the device's multiprocessors ---------------------------------------------------------------

static void seven_multiprocessors(const void *user) {
  (void)user;
  setenv("NNGEN_SIM_MULTIPROCESSORS", "7", 1);
}

static void read_multiprocessors(const void *user) {
  (void)user;
  static const Form forms[] = {
      {TEXT("mov.u32 %r1, %nsmid;"), 7},
      {TEXT("mov.u32 %r2, %smid;\nsetp.lt.u32 %p1, %r2, 7;\nselp.u32 %r1, 1, 0, %p1;"), 1},
  };
  RUN(forms);
}

static void test_multiprocessors(void **state) {
  (void)state;
  device_child(seven_multiprocessors, read_multiprocessors, NULL);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  setenv("NNGEN_SIM_CHECK", "all", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_multiprocessors), // before this process opens the device
      cmocka_unit_test_setup(test_orders, device_setup),
      cmocka_unit_test(test_variables),
      cmocka_unit_test(test_initial),
      cmocka_unit_test(test_expressions),
      cmocka_unit_test(test_wide),
      cmocka_unit_test(test_registers),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests_name("test_ptx_forms", tests, NULL, NULL);
}
