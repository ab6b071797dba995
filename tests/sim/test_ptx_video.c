// test_ptx_video.c: PTX's video instructions, scalar and of two or four parts: hundreds of forms by
// chance, each of 32 triples of numbers, against what the PTX ISA says, written anew here.
#include "tests/sim/device.h"

enum { kForms = 160, kLanes = 32 };

typedef __int128 Wide;

typedef struct Form {
  char op[16], text[320];
  int kind;                            // index of the operation
  bool d, a, b, sat;                   // signed
  int dsel, asel, bsel;                // of scalars: index into sels
  int second;                          // 0: none, 1: add, 2: min, 3: max
  int n, picks_a[4], picks_b[4], mask; // of parts
  bool wrap, minus_ab, minus_c, one;
  int scale;
} Form;

static unsigned seed = 1;
static int chance(int n) {
  seed = seed * 1664525u + 1013904223u;
  return (int)((seed >> 10) % (unsigned)n);
}

static const char *const sels[] = {"", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"};
static const char *const scalars[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax",
                                      "vshl", "vshr", "vset",     "vmad"};
static const char *const packed[] = {"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"};
static const char *const compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
static const char *const seconds[] = {"", ".add", ".min", ".max"};

static const char *type(bool is_signed) {
  return is_signed ? "s32" : "u32";
}

static void make_scalar(Form *f) {
  const char *name = scalars[chance(9)];
  char middle[64] = "";
  snprintf(f->op, sizeof f->op, "%s", name);
  bool set = !strcmp(name, "vset"), mad = !strcmp(name, "vmad"), shift = !strncmp(name, "vsh", 3);
  f->kind = chance(6), f->d = !set && chance(2), f->a = chance(2), f->b = !shift && chance(2);
  f->sat = !set && chance(2), f->wrap = chance(2), f->asel = chance(7), f->bsel = chance(7);
  if (mad) {
    f->scale = (int[]){0, 7, 15}[chance(3)], f->one = chance(3) == 0;
    f->minus_ab = !f->one && chance(3) == 0, f->minus_c = !f->one && !f->minus_ab && chance(3) == 0;
    snprintf(f->text, sizeof f->text, "vmad.%s.%s.%s%s%s%s %%d, %s%%a%s, %%b%s, %s%%c;", type(f->d),
             type(f->a), type(f->b), f->one ? ".po" : "", f->sat ? ".sat" : "",
             f->scale == 7 ? ".shr7"
             : f->scale    ? ".shr15"
                           : "",
             f->minus_ab ? "-" : "", sels[f->asel], sels[f->bsel], f->minus_c ? "-" : "");
    return;
  }
  f->second = chance(4), f->dsel = f->second ? 0 : chance(7);
  if (set)
    snprintf(middle, sizeof middle, "%s.%s.%s", type(f->a), type(f->b), compares[f->kind]);
  else
    snprintf(middle, sizeof middle, "%s.%s.%s%s%s", type(f->d), type(f->a), type(f->b),
             f->sat ? ".sat" : "", shift ? f->wrap ? ".wrap" : ".clamp" : "");
  snprintf(f->text, sizeof f->text, "%s.%s%s %%d%s, %%a%s, %%b%s%s;", name, middle,
           seconds[f->second], sels[f->dsel], sels[f->asel], sels[f->bsel],
           f->second || f->dsel ? ", %c" : "");
}

static void make_packed(Form *f) {
  const char *name = packed[chance(7)];
  char middle[64], asel[64] = "", bsel[64] = "", mask[64] = "";
  f->n = chance(2) ? 2 : 4;
  bool set = !strcmp(name, "vset"), chosen = chance(2);
  snprintf(f->op, sizeof f->op, "%s", name);
  f->kind = chance(6), f->d = !set && chance(2), f->a = chance(2), f->b = chance(2);
  f->second = chance(2), f->sat = !set && !f->second && chance(2);
  f->mask = chance(3) ? 1 + chance((1 << f->n) - 1) : (1 << f->n) - 1;
  int at_a = sprintf(asel, ".%c", f->n == 2 ? 'h' : 'b'), at_b = sprintf(bsel, "%s", asel),
      at_m = sprintf(mask, "%s", asel);
  for (int i = f->n - 1; i >= 0; i--) {
    f->picks_a[i] = chosen ? chance(2 * f->n) : i;
    f->picks_b[i] = chosen ? chance(2 * f->n) : f->n + i;
    at_a += sprintf(asel + at_a, "%d", f->picks_a[i]);
    at_b += sprintf(bsel + at_b, "%d", f->picks_b[i]);
    if (f->mask >> i & 1) at_m += sprintf(mask + at_m, "%d", i);
  }
  bool all = f->mask == (1 << f->n) - 1 && chance(2);
  if (set)
    snprintf(middle, sizeof middle, "%s.%s.%s", type(f->a), type(f->b), compares[f->kind]);
  else
    snprintf(middle, sizeof middle, "%s.%s.%s%s", type(f->d), type(f->a), type(f->b),
             f->sat ? ".sat" : "");
  snprintf(f->text, sizeof f->text, "%s%d.%s%s %%d%s, %%a%s, %%b%s, %%c;", name, f->n, middle,
           f->second ? ".add" : "", all ? "" : mask, chosen ? asel : "", chosen ? bsel : "");
}

// ---- what they mean -----------------------------------------------------------------------------

static int64_t cut(uint64_t x, int shift, int bits, bool is_signed) {
  uint64_t v = x >> shift & ((1ull << bits) - 1);
  return is_signed && v >> (bits - 1) & 1 ? (int64_t)v - (1ll << bits) : (int64_t)v;
}

static int64_t select_one(uint32_t x, int sel, bool is_signed) {
  if (!sel) return cut(x, 0, 32, is_signed);
  return sel < 5 ? cut(x, 8 * (sel - 1), 8, is_signed) : cut(x, 16 * (sel - 5), 16, is_signed);
}

static Wide clamp(Wide x, int bits, bool is_signed) {
  Wide low = is_signed ? -((Wide)1 << (bits - 1)) : 0,
       high = is_signed ? ((Wide)1 << (bits - 1)) - 1 : ((Wide)1 << bits) - 1;
  return x < low ? low : x > high ? high : x;
}

static Wide operate(const Form *f, int64_t a, int64_t b) {
  const char *op = f->op;
  if (!strcmp(op, "vadd")) return a + b;
  if (!strcmp(op, "vsub")) return a - b;
  if (!strcmp(op, "vabsdiff")) return a > b ? a - b : b - a;
  if (!strcmp(op, "vmin")) return a < b ? a : b;
  if (!strcmp(op, "vmax")) return a > b ? a : b;
  if (!strcmp(op, "vavrg")) return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
  if (!strcmp(op, "vset")) return (bool[]){a == b, a != b, a<b, a <= b, a> b, a >= b}[f->kind];
  b = f->wrap ? b & 31 : b > 32 ? 32 : b;
  return !strcmp(op, "vshl") ? (Wide)a * ((Wide)1 << b) : a >> b;
}

static uint32_t mad(const Form *f, uint32_t a, uint32_t b, uint32_t c) {
  bool is_signed = f->a || f->b || f->minus_ab;
  Wide ab = (Wide)select_one(a, f->asel, f->a) * select_one(b, f->bsel, f->b);
  Wide third = is_signed ? (Wide)(int32_t)c : (Wide)c;
  Wide x = (f->minus_ab ? -ab : ab) + (f->minus_c ? -third : third) + f->one;
  x >>= f->scale;
  return (uint32_t)(f->sat ? clamp(x, 32, is_signed || f->minus_c) : x);
}

static uint32_t scalar(const Form *f, uint32_t a, uint32_t b, uint32_t c) {
  int bits = !f->dsel ? 32 : f->dsel < 5 ? 8 : 16;
  int shift = !f->dsel ? 0 : f->dsel < 5 ? 8 * (f->dsel - 1) : 16 * (f->dsel - 5);
  Wide t = operate(f, select_one(a, f->asel, f->a), select_one(b, f->bsel, f->b));
  if (f->sat) t = clamp(t, bits, f->d);
  uint32_t x = (uint32_t)t, mask = (uint32_t)(((1ull << bits) - 1) << shift);
  bool less = f->d ? (int32_t)x < (int32_t)c : x < c;
  if (f->dsel) return (x << shift & mask) | (c & ~mask);
  return f->second == 1 ? x + c : f->second == 2 ? (less ? x : c) : f->second ? (less ? c : x) : x;
}

static uint32_t parts(const Form *f, uint32_t a, uint32_t b, uint32_t c) {
  uint64_t both = (uint64_t)b << 32 | a;
  int bits = 32 / f->n;
  uint32_t sum = c, merged = 0;
  for (int i = 0; i < f->n; i++) {
    Wide t = operate(f, cut(both, f->picks_a[i] * bits, bits, f->a),
                     cut(both, f->picks_b[i] * bits, bits, f->b));
    if (f->sat) t = clamp(t, bits, f->d);
    bool on = f->mask >> i & 1;
    if (on) sum += (uint32_t)t;
    merged |= (uint32_t)cut(on ? (uint64_t)t : c >> bits * i, 0, bits, false) << bits * i;
  }
  return f->second ? sum : merged;
}

static uint32_t meaning(const Form *f, uint32_t a, uint32_t b, uint32_t c) {
  return f->n ? parts(f, a, b, c) : !strcmp(f->op, "vmad") ? mad(f, a, b, c) : scalar(f, a, b, c);
}

static uint32_t value(void) { // often at an end
  static const uint32_t ends[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x80008000, 0x7f80ff00};
  uint32_t high = (uint32_t)chance(65536);
  return chance(3) ? high << 16 | (uint32_t)chance(65536) : ends[chance(7)];
}

static void test_forms(void **state) {
  (void)state;
  static Form forms[kForms];
  static uint32_t in[kLanes][3], out[kForms][kLanes];
  char *text = malloc(kForms * 400 + 2048);
  int at =
      sprintf(text, ".version 8.5\n.target sm_80\n.address_size 64\n.entry k(.param .u64 x, "
                    ".param .u64 y) {\n.reg .b32 %%a, %%b, %%c, %%d, %%r;\n.reg .b64 %%x<5>;\n"
                    "ld.param.u64 %%x1, [x];\nld.param.u64 %%x2, [y];\nmov.u32 %%r, %%laneid;\n"
                    "mul.wide.u32 %%x3, %%r, 12;\nadd.u64 %%x1, %%x1, %%x3;\n"
                    "mul.wide.u32 %%x3, %%r, 4;\nadd.u64 %%x2, %%x2, %%x3;\n"
                    "ld.global.u32 %%a, [%%x1];\nld.global.u32 %%b, [%%x1+4];\n"
                    "ld.global.u32 %%c, [%%x1+8];\n");
  for (int i = 0; i < kForms; i++) {
    if (i % 2)
      make_packed(&forms[i]);
    else
      make_scalar(&forms[i]);
    at += sprintf(text + at, "%s\nst.global.u32 [%%x2+%d], %%d;\n", forms[i].text, i * 4 * kLanes);
  }
  sprintf(text + at, "ret;\n}\n");
  for (int l = 0; l < kLanes; l++)
    for (int i = 0; i < 3; i++) in[l][i] = value();
  CUmodule module;
  CUfunction f;
  OK(cuModuleLoadData(&module, text));
  OK(cuModuleGetFunction(&f, module, "k"));
  CUdeviceptr x = device_upload(in, sizeof in), y = device_upload(out, sizeof out);
  OK(device_run(f, 1, kLanes, 0, (void *[]){&x, &y}));
  OK(cuMemcpyDtoH(out, y, sizeof out));
  for (int i = 0; i < kForms; i++)
    for (int l = 0; l < kLanes; l++) {
      uint32_t want = meaning(&forms[i], in[l][0], in[l][1], in[l][2]);
      if (out[i][l] != want)
        fail_msg("%s of %08x %08x %08x: %08x, not %08x", forms[i].text, in[l][0], in[l][1],
                 in[l][2], out[i][l], want);
    }
  free(text);
}

static void test_refused(void **state) {
  (void)state;
  static const char *const wrong[] = {"add.u32 %a, %b.b0, %c;",
                                      "add.u32 %a, -%b, %c;",
                                      "vadd.s32.s32.s32 %a, %b.b4, %c;",
                                      "vset.s32.s32 %a, %b, %c;",
                                      "vadd2.s32.s32.s32.sat.add %a, %b, %c, %a;",
                                      "vadd4.s32.s32.s32 %a.h0, %b, %c, %a;",
                                      "vmad.s32.s32.s32.po %a, -%b, %c, %a;",
                                      "vadd.s32.s32.s32.min %a, %b, %c;"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    char text[512];
    CUmodule module;
    snprintf(text, sizeof text,
             ".version 8.5\n.target sm_80\n.address_size 64\n.entry k() {\n"
             ".reg .b32 %%a, %%b, %%c;\n%s\nret;\n}\n",
             wrong[i]);
    if (cuModuleLoadData(&module, text) != CUDA_ERROR_INVALID_PTX)
      fail_msg("%s is taken", wrong[i]);
  }
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests_name("test_ptx_video", tests, device_setup, NULL);
}
