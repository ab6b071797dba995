// test_mma_shapes.c: mma.sync of PTX, of the shapes and types that few programs use: 4-bit and
// 1-bit integers, double, 8 rows, mixed types, saturated sums, behind a predicate. Against sums of
// whole numbers, with fragments laid out as PTX describes them: by rows of eight, and by the groups
// of k that four lanes hold.
#include "tests/sim/device.h"

typedef struct Form {
  const char *name; // behind mma.sync.aligned., of row.col and the types
  const char *a, *b, *sum;
  int m, k;
} Form;

static const Form forms[] = {
    {"m8n8k32.row.col.s32.s4.s4.s32", "s4", "s4", "s32", 8, 32},
    {"m16n8k32.row.col.s32.s4.u4.s32", "s4", "u4", "s32", 16, 32},
    {"m16n8k64.row.col.s32.u4.s4.s32", "u4", "s4", "s32", 16, 64},
    {"m16n8k64.row.col.s32.u4.u4.s32", "u4", "u4", "s32", 16, 64},
    {"m8n8k128.row.col.s32.b1.b1.s32.xor.popc", "b1", "b1", "s32", 8, 128},
    {"m16n8k128.row.col.s32.b1.b1.s32.and.popc", "b1", "b1", "s32", 16, 128},
    {"m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "b1", "b1", "s32", 16, 256},
    {"m16n8k256.row.col.s32.b1.b1.s32.and.popc", "b1", "b1", "s32", 16, 256},
    {"m8n8k4.row.col.f64.f64.f64.f64", "f64", "f64", "f64", 8, 4},
    {"m16n8k4.row.col.f64.f64.f64.f64", "f64", "f64", "f64", 16, 4},
    {"m16n8k8.row.col.f64.f64.f64.f64", "f64", "f64", "f64", 16, 8},
    {"m16n8k16.row.col.f64.f64.f64.f64", "f64", "f64", "f64", 16, 16},
    {"m8n8k16.row.col.s32.s8.u8.s32", "s8", "u8", "s32", 8, 16},
    {"m16n8k32.row.col.s32.u8.s8.s32", "u8", "s8", "s32", 16, 32},
    {"m16n8k32.row.col.f32.e4m3.e5m2.f32", "e4m3", "e5m2", "f32", 16, 32},
    {"m16n8k32.row.col.f16.e5m2.e4m3.f16", "e5m2", "e4m3", "f16", 16, 32},
    // As a run of one, and behind a predicate, the same.
    {"m16n8k16.row.col.f32.f16.f16.f32", "f16", "f16", "f32", 16, 16},
    {"m16n8k16.row.col.f16.f16.f16.f16", "f16", "f16", "f16", 16, 16},
    {"m16n8k16.row.col.f32.bf16.bf16.f32", "bf16", "bf16", "f32", 16, 16},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", "tf32", "tf32", "f32", 16, 8},
};

static int width(const char *type) { // bits
  if (!strcmp(type, "e4m3") || !strcmp(type, "e5m2")) return 8;
  return atoi(type + strcspn(type, "0123456789"));
}

// A whole number that the type has, of those that sum up exactly in fp16.
static int number(const char *type, int i) {
  unsigned bits = (unsigned)i * 2654435761u >> 7;
  if (!strcmp(type, "b1")) return bits & 1;
  if (!strcmp(type, "s4")) return (int)(bits & 15) - 8;
  if (!strcmp(type, "u4")) return bits & 15;
  if (!strcmp(type, "s8")) return (int)(bits & 255) - 128;
  if (!strcmp(type, "u8")) return bits & 255;
  return (int)(bits % 5) - 2;
}

static uint64_t encode(const char *type, int v) {
  float f = (float)v;
  double d = v;
  uint32_t bits;
  uint64_t wide;
  unsigned size = (unsigned)abs(v), sign = v < 0;
  memcpy(&bits, &f, 4), memcpy(&wide, &d, 8);
  if (!strcmp(type, "f64")) return wide;
  if (!strcmp(type, "f32") || !strcmp(type, "tf32")) return bits;
  if (!strcmp(type, "bf16")) return bits >> 16;
  if (!strcmp(type, "f16"))
    return v ? (bits >> 16 & 0x8000) | ((bits >> 13 & 0x3ffff) - 0x1c000) : 0;
  if (!strcmp(type, "e4m3")) return sign << 7 | (size == 0 ? 0 : size == 1 ? 0x38 : 0x40);
  if (!strcmp(type, "e5m2")) return sign << 7 | (size == 0 ? 0 : size == 1 ? 0x3c : 0x40);
  return (uint32_t)v;
}

// Element i of the registers that begin at r.
static void set(uint64_t *r, const char *type, int i, int v) {
  int bits = width(type), each = bits == 64 ? 1 : 32 / bits;
  uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  r[i / each] |= (encode(type, v) & mask) << i % each * bits;
}

enum { kA = 8, kB = 4, kC = 4, kLane = kA + kB + 2 * kC }; // registers, 64 bits each

static const char *text_of(const Form *q, bool predicated) {
  static char text[8192];
  bool wide = width(q->a) == 64;
  int group = wide ? 4 : 4 * 32 / width(q->a), groups = q->k / group, rows = q->m / 8;
  int na = rows * groups, nc = rows * (!strcmp(q->sum, "f16") ? 1 : 2), at = 0;
  const struct {
    char name;
    int count, offset;
  } lists[] = {{'a', na, 0}, {'b', groups, kA}, {'c', nc, kA + kB}, {'d', nc, kA + kB + kC}};
  at += sprintf(text,
                ".version 8.7\n.target sm_90a\n.address_size 64\n.entry k(.param .u64 x) {\n"
                ".reg .b%d %%a<9>, %%b<9>, %%c<9>, %%d<9>;\n.reg .b64 %%x<4>;\n"
                ".reg .b32 %%r<4>;\n.reg .pred %%p<3>;\nld.param.u64 %%x1, [x];\n"
                "mov.u32 %%r1, %%laneid;\nmul.wide.u32 %%x2, %%r1, %d;\n"
                "add.u64 %%x1, %%x1, %%x2;\nsetp.lt.u32 %%p1, %%r1, 32;\n",
                wide ? 64 : 32, kLane * 8);
  for (int l = 0; l < 3; l++)
    for (int i = 0; i < lists[l].count; i++)
      at += sprintf(text + at, "ld.global.b%d %%%c%d, [%%x1+%d];\n", wide ? 64 : 32, lists[l].name,
                    i, (lists[l].offset + i) * 8);
  at += sprintf(text + at, "%smma.sync.aligned.%s ", predicated ? "@%p1 " : "", q->name);
  for (int o = 0; o < 4; o++) {
    int l = (o + 3) % 4;
    at += sprintf(text + at, "%s{", o ? ", " : "");
    for (int i = 0; i < lists[l].count; i++)
      at += sprintf(text + at, "%s%%%c%d", i ? ", " : "", lists[l].name, i);
    at += sprintf(text + at, "}");
  }
  at += sprintf(text + at, ";\n");
  for (int i = 0; i < nc; i++)
    at += sprintf(text + at, "st.global.b%d [%%x1+%d], %%d%d;\n", wide ? 64 : 32,
                  (lists[3].offset + i) * 8, i);
  sprintf(text + at, "ret;\n}\n");
  return text;
}

static void run(const char *text, void *x, size_t bytes) {
  CUmodule module;
  CUfunction f;
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr p = device_upload(x, bytes);
  OK(device_run(f, 1, 32, 0, (void *[]){&p}));
  OK(cuMemcpyDtoH(x, p, bytes));
  OK(cuMemFree(p));
  OK(cuModuleUnload(module));
}

static int product(const Form *q, int a, int b) {
  return strstr(q->name, "xor") ? a ^ b : strstr(q->name, "and.") ? a & b : a * b;
}

static void check(const Form *q, bool predicated) {
  static uint64_t x[32][kLane];
  int bits = width(q->a), each = bits == 64 ? 1 : 32 / bits, group = 4 * each;
  int rows = q->m / 8, halves = !strcmp(q->sum, "f16"), a[16][256], b[256][8], c[16][8];
  memset(x, 0, sizeof x);
  for (int l = 0; l < 32; l++) {
    for (int i = 0; i < rows * (q->k / group) * each; i++) {
      int r = i / each, row = l / 4 + r % rows * 8, k = r / rows * group + l % 4 * each + i % each;
      set(x[l], q->a, i, a[row][k] = number(q->a, row * q->k + k));
    }
    for (int i = 0; i < q->k / group * each; i++) {
      int k = i / each * group + l % 4 * each + i % each;
      set(x[l] + kA, q->b, i, b[k][l / 4] = number(q->b, k * 8 + l / 4 + 9999));
    }
    for (int i = 0; i < 2 * rows; i++) {
      int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2;
      set(x[l] + kA + kB, q->sum, i, c[row][col] = row - col);
    }
  }
  run(text_of(q, predicated), x, sizeof x);
  for (int l = 0; l < 32; l++) {
    uint64_t want[kC] = {0};
    for (int i = 0; i < 2 * rows; i++) {
      int row = l / 4 + i / 2 * 8, col = l % 4 * 2 + i % 2, sum = c[row][col];
      for (int k = 0; k < q->k; k++) sum += product(q, a[row][k], b[k][col]);
      set(want, q->sum, i, sum);
    }
    for (int i = 0; i < 2 * rows / (1 + halves); i++)
      if (x[l][kA + kB + kC + i] != want[i])
        fail_msg("%s%s: lane %d, register %d: %llx, not %llx", predicated ? "@p " : "", q->name, l,
                 i, (unsigned long long)x[l][kA + kB + kC + i], (unsigned long long)want[i]);
  }
}

static void test_shapes(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check(&forms[i], false);
}

static void test_predicated(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i += 3) check(&forms[i], true);
  check(&forms[sizeof forms / sizeof *forms - 4], true);
}

// With .satfinite sums stop at the ends of s32, without it they come round.
static void test_saturated(void **state) {
  (void)state;
  for (int saturate = 0; saturate < 2; saturate++) {
    uint64_t x[32][kLane];
    char name[64];
    snprintf(name, sizeof name, "m16n8k16.row.col%s.s32.s8.s8.s32", saturate ? ".satfinite" : "");
    Form q = {name, "s8", "s8", "s32", 16, 16};
    memset(x, 0, sizeof x);
    for (int l = 0; l < 32; l++) {
      x[l][0] = x[l][1] = x[l][kA] = 0x01010101;
      for (int i = 0; i < 4; i++) x[l][kA + kB + i] = 0x7ffffff8;
    }
    run(text_of(&q, false), x, sizeof x);
    for (int l = 0; l < 32; l++)
      assert_int_equal(x[l][kA + kB + kC], saturate ? 0x7fffffff : 0x80000008);
  }
}

// Of doubles: 1 + 1e-30, and -1 - 1e-30, by every rounding.
static void test_rounded(void **state) {
  (void)state;
  static const struct {
    const char *mode;
    int up, down; // last places of 1 and of -1, away from 0
  } modes[] = {{".rn", 0, 0}, {".rz", 0, 0}, {".rm", 0, 1}, {".rp", 1, 0}, {"", 0, 0}};
  static const double one = 1, tiny = 1e-30;
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    uint64_t x[32][kLane], bits;
    char name[64];
    snprintf(name, sizeof name, "m8n8k4.row.col%s.f64.f64.f64.f64", modes[m].mode);
    Form q = {name, "f64", "f64", "f64", 8, 4};
    memset(x, 0, sizeof x);
    memcpy(&bits, &one, 8);
    for (int l = 0; l < 32; l++) {
      uint64_t sign = l / 4 % 2 ? 1ull << 63 : 0; // of odd rows
      memcpy(&x[l][0], &tiny, 8);
      if (l % 4) x[l][0] = 0; // one product alone
      x[l][0] |= sign;
      x[l][kA] = bits;
      x[l][kA + kB] = x[l][kA + kB + 1] = bits | sign;
    }
    run(text_of(&q, false), x, sizeof x);
    for (int l = 0; l < 32; l++)
      assert_int_equal((x[l][kA + kB + kC] & ~(1ull << 63)) - bits,
                       l / 4 % 2 ? modes[m].down : modes[m].up);
  }
}

// What PTX does not have is refused with the instruction's name.
static void test_refused(void **state) {
  (void)state;
  static const Form wrong[] = {{"m16n8k64.row.col.s32.s8.s8.s32", "s8", "s8", "s32", 16, 64},
                               {"m16n8k32.row.col.s32.s8.s4.s32", "s8", "s8", "s32", 16, 32},
                               {"m16n8k256.row.col.s32.b1.b1.s32", "b1", "b1", "s32", 16, 256},
                               {"m16n8k8.row.col.rz.f32.f16.f16.f32", "f16", "f16", "f32", 16, 8},
                               {"m16n8k16.row.col.f32.f64.f64.f32", "f64", "f64", "f64", 16, 16}};
  CUmodule module;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(cuModuleLoadData(&module, text_of(&wrong[i], false)), CUDA_ERROR_INVALID_PTX);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shapes), cmocka_unit_test(test_predicated),
      cmocka_unit_test(test_saturated), cmocka_unit_test(test_rounded),
      cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests_name("test_mma_shapes", tests, device_setup, NULL);
}
