// test_mma_runs.c: runs of mma.sync, of which libcusim makes several products at once, give what
// each product alone gives, whatever registers they share: A, B and C that are results of others.
#include "tests/sim/device.h"

enum { kPool = 24, kProducts = 32, kWarp = 32, kText = 16384 };

typedef struct Form {
  const char *name, *form;
  int a, b, d; // registers of A, B, and of C and D
} Form;

static const Form forms[] = {
    {"s8", "m16n8k32.row.col.s32.s8.s8.s32", 4, 2, 4},
    {"u8, half as deep", "m16n8k16.row.col.s32.u8.u8.s32", 2, 1, 4},
    {"f16 sums", "m16n8k16.row.col.f16.f16.f16.f16", 4, 2, 2},
    {"bf16", "m16n8k16.row.col.f32.bf16.bf16.f32", 4, 2, 4},
    {"tf32", "m16n8k8.row.col.f32.tf32.tf32.f32", 4, 2, 4},
};

static uint32_t state;
static int pick(int n) {
  state = state * 1664525u + 1013904223u;
  return (int)((state >> 16) % (unsigned)n);
}

// Registers of a pool, side by side from a multiple of their number on, as compilers have them, or
// any that differ.
static void registers(char *text, int n, bool any) {
  int first = any ? pick(kPool) : pick(kPool / n) * n;
  strcat(text, "{");
  for (int i = 0; i < n; i++)
    sprintf(text + strlen(text), "%s%%r%d", i ? "," : "", 1 + (first + i * (any ? 5 : 1)) % kPool);
  strcat(text, "}");
}

// k(x): the pool of each lane from x, products, and the pool back. apart: something between them.
static void write_kernel(char *text, const Form *f, unsigned seed, bool apart) {
  state = seed * 77 + 5;
  strcpy(text, ".version 8.6\n.target sm_90a\n.address_size 64\n"
               ".visible .entry k(.param .u64 x)\n{\n .reg .b32 %r<64>; .reg .b64 %d<4>;\n"
               " ld.param.u64 %d1, [x]; mov.u32 %r60, %tid.x;\n"
               " mul.wide.u32 %d2, %r60, 4; add.u64 %d1, %d1, %d2;\n");
  for (int i = 0; i < kPool; i++)
    sprintf(text + strlen(text), " ld.global.b32 %%r%d, [%%d1+%d];\n", 1 + i, i * kWarp * 4);
  char a[96] = "";
  for (int i = 0; i < kProducts; i++) {
    bool any = pick(3) == 0;
    if (!*a || pick(3) == 0) *a = 0, registers(a, f->a, any); // often the A of the one before
    sprintf(text + strlen(text), " mma.sync.aligned.%s ", f->form);
    char d[96] = "", c[96] = "";
    registers(d, f->d, any);
    registers(c, f->d, any);
    sprintf(text + strlen(text), "%s, %s, ", d, a);
    registers(text, f->b, any);
    sprintf(text + strlen(text), ", %s;%s\n", pick(2) ? d : c, apart ? " mov.u32 %r61, 0;" : "");
  }
  for (int i = 0; i < kPool; i++)
    sprintf(text + strlen(text), " st.global.b32 [%%d1+%d], %%r%d;\n", i * kWarp * 4, 1 + i);
  strcat(text, " ret;\n}\n");
}

static void run(const Form *f, unsigned seed, bool apart, uint32_t *x) {
  static char text[kText];
  CUmodule module;
  CUfunction k;
  write_kernel(text, f, seed, apart);
  CUdeviceptr p = device_upload(x, kPool * kWarp * 4);
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&k, module, "k"));
  OK(device_run(k, 1, kWarp, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(x, p, kPool * kWarp * 4));
  OK(cuMemFree(p));
  OK(cuModuleUnload(module));
}

// Equal bits, or for sums in f32 both NaN: which of two NaNs a sum passes on depends on the vector
// instructions of the host.
static bool is_nan(uint32_t x) {
  return (x & 0x7fffffff) > 0x7f800000;
}
static bool same(const Form *f, uint32_t x, uint32_t y) {
  return x == y || (strstr(f->form, ".f32.bf16") && is_nan(x) && is_nan(y));
}

static void test_runs(void **state_) {
  (void)state_;
  static uint32_t x[kPool * kWarp], y[kPool * kWarp];
  unsigned runs = getenv("NNGEN_TEST_LONG") ? 2 : 1;
  for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
    for (unsigned seed = 0; seed < runs; seed++) {
      state = seed + 99;
      for (int i = 0; i < kPool * kWarp; i++) // of floats: between 2^-8 and 2^8, no NaN
        x[i] = y[i] = 0x3c003c00u + (uint32_t)pick(64) * 0x00100010u;
      run(&forms[f], seed, false, x);
      run(&forms[f], seed, true, y);
      for (int i = 0; i < kPool * kWarp; i++)
        if (!same(&forms[f], x[i], y[i]))
          fail_msg("%s, seed %u: register %d of lane %d is %08x, not %08x", forms[f].name, seed,
                   i / kWarp + 1, i % kWarp, x[i], y[i]);
    }
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};
  return cmocka_run_group_tests_name("test_mma_runs", tests, device_setup, NULL);
}
