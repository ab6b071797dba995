// test_names.c: layers of one shape are compiled once, and each still has its own symbol: in the
// cubin for a GPU, as a second name of the function on libcusim.
#include <elf.h>
#include <math.h>

#include "runtime/support.h"

static char warning[2048];

static void on_log(void *user, LogLevel level, const char *message) {
  (void)user;
  if (level == LogWarning) snprintf(warning, sizeof warning, "%s", message);
}

// The small plan with small__relu and small__add of one program, under other names of everything.
static Plan *plan_of_twins(void) {
  Plan *plan = small_plan();
  PlanKernel *k = &plan->kernels[2];
  free(k->source);
  free(k->names);
  k->source = strdup("// small__relu, of another layer\n#include \"lib/small.cuh\"\n"
                     "extern \"C\" __global__ void small__relu(const float *g_x, const float *g_b, "
                     "float *g_out_2) {\n"
                     "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                     "  if (i < kSmallCount) g_out_2[i] = 2.f * g_x[i] + g_b[i];\n}\n");
  k->names = strdup("g_b g_out_2 g_x");
  return plan;
}

// ---- sources -----------------------------------------------------------------------------------

static void rename_source(void **state) {
  (void)state;
  static const char *const rows[][4] = {
      // source, symbol, names, expected
      {"k(a, b) { b = a + ab; }", "k", "a b", "nn($1, $2) { $2 = $1 + ab; }"},
      {"k(a, b) { b = a + ab; }", "k", "b a", "nn($1, $2) { $2 = $1 + ab; }"},
      {"kk(k_) 1k k", "k", NULL, "kk(k_) 1k nn"},
      {"", "k", "", ""},
      {"x y", "k", "x", "$1 y"},
      {"aaaaaaaaaaaaaaaaaaaaaaaaaaaa k k k k k k k k k", "k", "k",
       "aaaaaaaaaaaaaaaaaaaaaaaaaaaa nn nn nn nn nn nn nn nn nn"},
  };
  for (int i = 0; i < COUNT(rows); i++) {
    char *text = source_rename(rows[i][0], rows[i][1], "nn", rows[i][2]);
    assert_string_equal(text, rows[i][3]);
    free(text);
  }
}

// ---- cubins ------------------------------------------------------------------------------------

// Bytes of section `name`; NULL when there is none.
static const uint8_t *section(const char *image, const char *name, size_t *size) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  const Elf64_Shdr *s = (const Elf64_Shdr *)(image + head->e_shoff);
  for (int i = 0; i < head->e_shnum; i++) {
    *size = s[i].sh_size;
    if (!strcmp(image + s[head->e_shstrndx].sh_offset + s[i].sh_name, name))
      return (const uint8_t *)image + s[i].sh_offset;
  }
  return NULL;
}

static bool has_symbol(const char *image, const char *name) {
  size_t bytes, text_bytes;
  const Elf64_Sym *symbols = (const Elf64_Sym *)section(image, ".symtab", &bytes);
  const char *text = (const char *)section(image, ".strtab", &text_bytes);
  for (size_t i = 0; symbols && i < bytes / sizeof *symbols; i++)
    if (!strcmp(text + symbols[i].st_name, name)) return true;
  return false;
}

static void compile_to(const Plan *plan, const char *arch, const char *dir, bool own, bool lines,
                       JitReport *report) {
  Error err = {0};
  JitOptions options = {.arch = arch,
                        .cache_dir = "",
                        .dump_dir = temp_path(dir),
                        .own_symbols = own,
                        .line_info = lines};
  int rc = jit_compile(plan, &options, report, &err);
  if (rc == ExitNoToolchain) skip();
  if (rc) fail_msg("%s", err.message);
}

// The renamed image of a shared program is what a compilation under its own name gives.
static void cubins(void **state) {
  (void)state;
  static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
  Plan *plan = plan_of_twins();
  for (int i = 0; i < COUNT(archs); i++) {
    JitReport report;
    size_t size, bytes, own_bytes;
    compile_to(plan, archs[i], "shared", false, false, &report);
    assert_true(report.compiled == 2 && report.shared == 1 && report.kernels[2].shared);
    jit_report_free(&report);
    compile_to(plan, archs[i], "own", true, false, &report);
    assert_true(report.compiled == 3 && !report.shared);
    jit_report_free(&report);
    char *shared = read_bytes(temp_path("shared/small__relu.cubin"), &size);
    char *own = read_bytes(temp_path("own/small__relu.cubin"), &size);
    assert_true(has_symbol(shared, "small__relu") && !has_symbol(shared, "nn_kernel"));
    static const char *const names[] = {".text.small__relu", ".nv.info.small__relu",
                                        ".nv.constant0.small__relu"};
    for (int k = 0; k < COUNT(names); k++) {
      const uint8_t *a = section(shared, names[k], &bytes), *b = section(own, names[k], &own_bytes);
      if (!a || !b || bytes != own_bytes || memcmp(a, b, bytes))
        fail_msg("%s: section %s differs from a compilation under its own name", archs[i],
                 names[k]);
    }
    free(shared);
    free(own);
  }
  JitReport report;
  compile_to(plan, "sm_80", "lines", false, true, &report); // lines belong to one layer
  assert_true(report.compiled == 3 && !report.shared);
  jit_report_free(&report);
  plan_free(plan);
}

// Where the header tables of an image end: cuModuleLoadData may read no further.
static size_t headers_end(const char *image) {
  const Elf64_Ehdr *h = (const Elf64_Ehdr *)image;
  size_t sections = h->e_shoff + h->e_shnum * sizeof(Elf64_Shdr);
  size_t programs = h->e_phoff + h->e_phnum * sizeof(Elf64_Phdr);
  return h->e_phnum && programs > sections ? programs : sections;
}

// Of the image before only the ELF header's places of the tables and the names of symbols differ.
static void expect_kept(const char *before, size_t size, const char *after) {
  const Elf64_Ehdr *h = (const Elf64_Ehdr *)before;
  const Elf64_Shdr *s = (const Elf64_Shdr *)(before + h->e_shoff);
  for (size_t at = 0; at < size; at++) {
    bool name = at >= offsetof(Elf64_Ehdr, e_phoff) && at < offsetof(Elf64_Ehdr, e_flags);
    for (int i = 0; i < h->e_shnum; i++)
      if (s[i].sh_entsize == sizeof(Elf64_Sym) && at - s[i].sh_offset < s[i].sh_size)
        name |= (at - s[i].sh_offset) % sizeof(Elf64_Sym) < sizeof(Elf64_Word);
    if (!name && before[at] != after[at]) fail_msg("byte %zu of %zu has changed", at, size);
  }
}

// The renamed image ends with its header tables, the program headers last and in their segments.
static void layout(void **state) {
  (void)state;
  static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
  Plan *plan = plan_of_twins();
  for (int i = 0; i < COUNT(archs); i++) {
    JitReport report;
    size_t size, out_size;
    void *out;
    Error err = {0};
    compile_to(plan, archs[i], "layout", true, false, &report);
    jit_report_free(&report);
    char *image = read_bytes(temp_path("layout/small__add.cubin"), &size);
    assert_int_equal(headers_end(image), size); // what a compiler gives is so, too
    assert_int_equal(
        cubin_rename(image, size, "small__add", "stage1__block0__add", &out, &out_size, &err),
        ExitOk);
    assert_non_null(out);
    const Elf64_Ehdr *h = out;
    const Elf64_Shdr *s = (const Elf64_Shdr *)((char *)out + h->e_shoff);
    const Elf64_Phdr *p = (const Elf64_Phdr *)((char *)out + h->e_phoff);
    assert_int_equal(headers_end(out), out_size);
    assert_true(h->e_shoff >= size && h->e_shoff % 8 == 0 && h->e_phnum > 0);
    assert_int_equal(h->e_phoff, h->e_shoff + h->e_shnum * sizeof *s);
    for (int k = 0; k < h->e_shnum; k++)
      if (s[k].sh_type != SHT_NOBITS) assert_true(s[k].sh_offset + s[k].sh_size <= h->e_shoff);
    int loaded = 0;
    for (int k = 0; k < h->e_phnum; k++) {
      bool tables = p[k].p_offset == h->e_phoff && p[k].p_filesz == h->e_phnum * sizeof *p;
      assert_true(tables || p[k].p_type == PT_LOAD);
      assert_true(tables || p[k].p_offset + p[k].p_filesz <= size);
      loaded += tables && p[k].p_type == PT_LOAD;
    }
    assert_int_equal(loaded, 1);
    expect_kept(image, size, out);
    assert_true(has_symbol(out, "stage1__block0__add"));
    free(image);
    free(out);
  }
  plan_free(plan);
}

// Cut or damaged files are refused or renamed, never read past their end (run with a sanitizer).
static void damaged_cubin(void **state) {
  (void)state;
  Plan *plan = plan_of_twins();
  JitReport report;
  size_t size, out_size;
  Error err = {0};
  void *out;
  compile_to(plan, "sm_90a", "damaged", false, false, &report);
  jit_report_free(&report);
  char *image = read_bytes(temp_path("damaged/small__add.cubin"), &size);
  for (size_t cut = 0; cut < size; cut += cut < 64 ? 1 : 37) {
    assert_int_equal(cubin_rename(image, cut, "small__add", "x", &out, &out_size, &err), ExitOk);
    free(out);
  }
  random_seed("damaged_cubin");
  for (int i = 0; i < 2000; i++) {
    size_t at = i % 2 ? random_next() % 64 : random_next() % size;
    char kept = image[at];
    image[at] = (char)random_next();
    cubin_rename(image, size, "small__add", "x", &out, &out_size, &err);
    free(out);
    image[at] = kept;
  }
  assert_int_equal(cubin_rename(image, size, "other", "x", &out, &out_size, &err), ExitOk);
  assert_null(out); // no such kernel
  free(image);
  plan_free(plan);
}

// ---- on a device -------------------------------------------------------------------------------

static Loaded *load(Device *device, const Plan *plan) {
  Loaded *loaded;
  Error err = {0};
  JitOptions options = {.cache_dir = "", .log = {on_log, NULL}};
  if (load_plan(device, plan, &options, &loaded, &err)) fail_msg("%s", err.message);
  return loaded;
}

static void run_once(Loaded *loaded) {
  float x[SmallCount], t[SmallCount], y[SmallCount];
  Error err = {0};
  Params *params;
  for (int i = 0; i < SmallCount; i++) x[i] = (float)i;
  assert_int_equal(params_open(NULL, 1, &params, &err), ExitOk);
  assert_int_equal(params_fill(params, loaded, NULL, &err), ExitOk);
  params_close(params);
  assert_int_equal(tensor_write_floats(loaded, SmallX, x, SmallCount, &err), ExitOk);
  if (run_entry(loaded, "infer", &err)) fail_msg("%s", err.message);
  // add: t = 2 x + w; the twin: y = 2 t + t, from what is bound to its own arguments
  assert_int_equal(tensor_read_floats(loaded, SmallT, t, SmallCount, &err), ExitOk);
  assert_int_equal(tensor_read_floats(loaded, SmallY, y, SmallCount, &err), ExitOk);
  (void)t;
  for (int i = 0; i < SmallCount; i++) assert_true(isfinite(y[i]));
}

static void on_device(void **state) {
  (void)state;
  setenv("NNGEN_SIM_COUNT", "1", 1);
  Device *device = open_device();
  Plan *plan = plan_of_twins();
  Loaded *loaded = load(device, plan);
  Error err = {0};
  assert_true(load_report(loaded)->compiled == 2 && load_report(loaded)->shared == 1);
  run_once(loaded);
  if (count_available(device)) { // one program, but counted for each layer
    KernelCounts add, twin;
    assert_int_equal(count_kernel(loaded, 1, &add, &err), ExitOk);
    assert_int_equal(count_kernel(loaded, 2, &twin, &err), ExitOk);
    assert_int_equal(add.launches, 1);
    assert_int_equal(twin.launches, 1);
    assert_int_equal(add.bytes_read, 2 * 4 * SmallCount);
  }
  load_close(loaded);
  plan_free(plan);
  device_close(device);
}

// A driver that refuses renamed images: every kernel is compiled under its own name, with a word.
static void refused(void **state) {
  (void)state;
  Device *device = open_device();
  Plan *plan = plan_of_twins();
  warning[0] = 0;
  load_refuse_renamed(true);
  Loaded *loaded = load(device, plan);
  load_refuse_renamed(false);
  assert_non_null(strstr(warning, "kernels shared by layers are compiled once per layer: "));
  assert_true(load_report(loaded)->compiled == 3 && load_report(loaded)->shared == 0);
  run_once(loaded);
  load_close(loaded);
  plan_free(plan);
  device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rename_source), cmocka_unit_test(cubins),    cmocka_unit_test(layout),
      cmocka_unit_test(damaged_cubin), cmocka_unit_test(on_device), cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, temp_clean);
}
