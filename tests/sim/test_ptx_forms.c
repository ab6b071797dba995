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
    {TEXT("mov.s32 %r2, -5;\nmov.s32 %r3, -9;\nmax.s32.relu %r1, %r2, %r3;"), 0},
    {TEXT("mov.s32 %r2, 5;\nmov.s32 %r3, -9;\nmax.s32.relu %r1, %r2, %r3;"), 5},
    {TEXT("mov.s32 %r2, 5;\nmov.s32 %r3, 9;\nmin.s32.relu %r1, %r2, %r3;"), 5},
    {TEXT("mov.b32 %r2, 0xfffb0007;\nmov.b32 %r3, 0xfff00003;\nmax.s16x2.relu %r1, %r2, %r3;"), 7},
    {TEXT("mov.b32 %r2, 0x00050007;\nmov.b32 %r3, 0xfff00003;\nmin.s16x2.relu %r1, %r2, %r3;"), 3},
    {TEXT("mov.f32 %f2, 0f40000000;\nex2.approx.f32.ftz %f1, %f2;\nmov.b32 %r1, %f1;"),
     0x40800000},
    {TEXT("mov.f32 %f2, 0f40800000;\nrsqrt.approx.f32.ftz %f1, %f2;\nmov.b32 %r1, %f1;"),
     0x3f000000},
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

// ---- what is refused ----------------------------------------------------------------------------

typedef struct Refused {
  const char *text, *log;
} Refused;

static const Refused refused[] = {
    {TEXT("max.f32 %f1, %f2, %f3, %f4;"), "max.f32: of three operands it is an instruction of sm_100"},
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

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP a GPU's driver is not what is tested"), 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_orders, device_setup),
      cmocka_unit_test(test_variables),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests_name("test_ptx_forms", tests, NULL, NULL);
}
