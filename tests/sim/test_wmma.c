// test_wmma.c: PTX's wmma of every type and shape, in both layouts, and mma of f64, against sums of
// small whole numbers, which are exact in every type.
#include "tests/sim/device.h"

typedef struct Kind {
  const char *a, *c, *types; // types: of wmma.mma, d first
  int m, n, k;
  int na, nb, nc; // registers
  int bits_a, bits_c;
} Kind;

static const Kind kinds[] = {
    {"f16", "f32", "f32.f32", 16, 16, 16, 8, 8, 8, 16, 32},
    {"f16", "f32", "f32.f32", 32, 8, 16, 8, 8, 8, 16, 32},
    {"f16", "f32", "f32.f32", 8, 32, 16, 8, 8, 8, 16, 32},
    {"f16", "f16", "f16.f16", 16, 16, 16, 8, 8, 4, 16, 16},
    {"bf16", "f32", "f32.bf16.bf16.f32", 16, 16, 16, 4, 4, 8, 16, 32},
    {"bf16", "f32", "f32.bf16.bf16.f32", 8, 32, 16, 2, 8, 8, 16, 32},
    {"tf32", "f32", "f32.tf32.tf32.f32", 16, 16, 8, 4, 4, 8, 32, 32},
    {"s8", "s32", "s32.s8.s8.s32", 16, 16, 16, 2, 2, 8, 8, 32},
    {"u8", "s32", "s32.u8.u8.s32", 32, 8, 16, 4, 1, 8, 8, 32},
    {"f64", "f64", "f64.f64.f64.f64", 8, 8, 4, 1, 1, 2, 64, 64},
};

static int list(char *at, const char *name, int n) {
  char *begin = at;
  *at++ = '{';
  for (int i = 0; i < n; i++) at += sprintf(at, "%s%s%d", i ? ", " : "", name, i);
  *at++ = '}', *at = 0;
  return (int)(at - begin);
}

static const char *text_of(const Kind *q, bool a_col, bool b_col, bool d_col) {
  static char text[8192];
  char *at = text, a[256], b[256], c[256];
  const char *la = a_col ? "col" : "row", *lb = b_col ? "col" : "row", *ld = d_col ? "col" : "row";
  int sa = a_col ? q->m : q->k, sb = b_col ? q->k : q->n, sd = d_col ? q->m : q->n;
  list(a, "%a", q->na), list(b, "%b", q->nb), list(c, "%c", q->nc);
  at += sprintf(at,
                ".version 8.5\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 a, .param "
                ".u64 b, .param .u64 c)\n{\n"
                ".reg .b%d %%a<9>, %%b<9>;\n.reg .b%d %%c<9>;\n.reg .b64 %%d<4>;\n"
                "ld.param.u64 %%d1, [a];\nld.param.u64 %%d2, [b];\nld.param.u64 %%d3, [c];\n",
                q->bits_a == 64 ? 64 : 32, q->bits_c == 64 ? 64 : 32);
  char shape[32];
  sprintf(shape, "m%dn%dk%d", q->m, q->n, q->k);
  at += sprintf(at, "wmma.load.a.sync.aligned.%s.%s.global.%s %s, [%%d1], %d;\n", la, shape, q->a,
                a, sa);
  at += sprintf(at, "wmma.load.b.sync.aligned.%s.%s.global.%s %s, [%%d2], %d;\n", lb, shape, q->a,
                b, sb);
  at += sprintf(at, "wmma.load.c.sync.aligned.%s.%s.global.%s %s, [%%d3], %d;\n", ld, shape, q->c,
                c, sd);
  at += sprintf(at, "wmma.mma.sync.aligned.%s.%s.%s.%s %s, %s, %s, %s;\n", la, lb, shape, q->types,
                c, a, b, c);
  at += sprintf(at, "wmma.store.d.sync.aligned.%s.%s.global.%s [%%d3], %s, %d;\nret;\n}\n", ld,
                shape, q->c, c, sd);
  return text;
}

// Whole numbers from 0 to 7.
static void put(unsigned char *at, const char *type, int i, int v) {
  float f = (float)v;
  double d = v;
  uint32_t bits;
  memcpy(&bits, &f, 4);
  uint16_t brain = (uint16_t)(bits >> 16), half = v ? (uint16_t)((bits >> 13) - (112 << 10)) : 0;
  if (!strcmp(type, "f16"))
    memcpy(at + 2 * i, &half, 2);
  else if (!strcmp(type, "bf16"))
    memcpy(at + 2 * i, &brain, 2);
  else if (!strcmp(type, "f64"))
    memcpy(at + 8 * i, &d, 8);
  else if (!strcmp(type, "s32"))
    memcpy(at + 4 * i, &v, 4);
  else if (!strcmp(type, "s8") || !strcmp(type, "u8"))
    at[i] = (unsigned char)v;
  else
    memcpy(at + 4 * i, &f, 4);
}

static double get(const unsigned char *at, const char *type, int i) {
  float f;
  double d;
  int v;
  uint16_t h;
  if (!strcmp(type, "f64")) return memcpy(&d, at + 8 * i, 8), d;
  if (!strcmp(type, "s32")) return memcpy(&v, at + 4 * i, 4), v;
  if (!strcmp(type, "f32")) return memcpy(&f, at + 4 * i, 4), (double)f;
  memcpy(&h, at + 2 * i, 2);
  uint32_t bits = h ? ((uint32_t)h << 13) + (112u << 23) : 0;
  return memcpy(&f, &bits, 4), (double)f;
}

static void check(const Kind *q, bool a_col, bool b_col, bool d_col) {
  static unsigned char a[4096], b[4096], c[4096];
  static int va[512], vb[512], vc[512];
  for (int i = 0; i < q->m * q->k; i++) va[i] = (i * 5 + i / 7) % 8;
  for (int i = 0; i < q->k * q->n; i++) vb[i] = (i * 3 + i / 5) % 8;
  for (int i = 0; i < q->m * q->n; i++) vc[i] = i % 8;
  for (int r = 0; r < q->m; r++)
    for (int k = 0; k < q->k; k++)
      put(a, q->a, a_col ? k * q->m + r : r * q->k + k, va[r * q->k + k]);
  for (int k = 0; k < q->k; k++)
    for (int n = 0; n < q->n; n++)
      put(b, q->a, b_col ? n * q->k + k : k * q->n + n, vb[k * q->n + n]);
  for (int r = 0; r < q->m; r++)
    for (int n = 0; n < q->n; n++)
      put(c, q->c, d_col ? n * q->m + r : r * q->n + n, vc[r * q->n + n]);
  CUmodule module;
  CUfunction f;
  OK(cuModuleLoadData(&module, text_of(q, a_col, b_col, d_col)));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr pa = device_upload(a, sizeof a), pb = device_upload(b, sizeof b),
              pc = device_upload(c, sizeof c);
  OK(device_run(f, 1, 32, 0, (void *[]){&pa, &pb, &pc}));
  OK(cuMemcpyDtoH(c, pc, sizeof c));
  for (int r = 0; r < q->m; r++)
    for (int n = 0; n < q->n; n++) {
      int sum = vc[r * q->n + n];
      for (int k = 0; k < q->k; k++) sum += va[r * q->k + k] * vb[k * q->n + n];
      double got = get(c, q->c, d_col ? n * q->m + r : r * q->n + n);
      if (got != sum)
        fail_msg("%s m%dn%dk%d [%d][%d]: %g, not %d", q->types, q->m, q->n, q->k, r, n, got, sum);
    }
  OK(cuMemFree(pa)), OK(cuMemFree(pb)), OK(cuMemFree(pc));
  OK(cuModuleUnload(module));
}

static void test_wmma(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int layout = 0; layout < 8; layout += i ? 3 : 1) // all eight of the first
      check(&kinds[i], layout & 1, layout & 2, layout & 4);
}

// mma.m8n8k4 of f64: what each lane brings is where PTX says.
static void test_f64(void **state) {
  (void)state;
  static const char text[] =
      ".version 8.5\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 x)\n{\n"
      ".reg .f64 %f<8>;\n.reg .b64 %d<4>;\n.reg .b32 %r<4>;\nld.param.u64 %d1, [x];\nmov.u32 %r1, "
      "%tid.x;\n"
      "mul.wide.u32 %d2, %r1, 32;\nadd.u64 %d2, %d1, %d2;\nld.global.f64 %f1, "
      "[%d2];\nld.global.f64 %f2, [%d2+8];\n"
      "ld.global.f64 %f3, [%d2+16];\nld.global.f64 %f4, [%d2+24];\n"
      "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%f5, %f6}, {%f1}, {%f2}, {%f3, %f4};\n"
      "st.global.f64 [%d2+16], %f5;\nst.global.f64 [%d2+24], %f6;\nret;\n}\n";
  double x[32][4], a[8][4], b[4][8], c[8][8];
  for (int l = 0; l < 32; l++) {
    x[l][0] = a[l / 4][l % 4] = l * 7 % 11 + 0.5;
    x[l][1] = b[l % 4][l / 4] = l * 5 % 13 - 2;
    for (int i = 0; i < 2; i++) x[l][2 + i] = c[l / 4][l % 4 * 2 + i] = l + i;
  }
  CUmodule module;
  CUfunction f;
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr p = device_upload(x, sizeof x);
  OK(device_run(f, 1, 32, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(x, p, sizeof x));
  for (int r = 0; r < 8; r++)
    for (int n = 0; n < 8; n++) {
      double sum = c[r][n];
      for (int k = 0; k < 4; k++) sum += a[r][k] * b[k][n];
      assert_true(x[r * 4 + n / 2][2 + n % 2] == sum);
    }
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_wmma), cmocka_unit_test(test_f64)};
  return cmocka_run_group_tests_name("test_wmma", tests, device_setup, NULL);
}
