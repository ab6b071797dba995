// test_plan.c: a Plan written, read back, and read from damaged text.
#include "runtime/support.h"

static char *plan_text(const Plan *plan, size_t *length) {
  char *text = NULL;
  Error err = {0};
  FILE *file = open_memstream(&text, length);
  assert_int_equal(plan_write(plan, file, &err), ExitOk);
  fclose(file);
  return text;
}

static void round_trip(void **state) {
  (void)state;
  size_t length, again_length;
  Error err = {0};
  Plan *plan = small_plan(), *again;
  char *text = plan_text(plan, &length);
  assert_int_equal(plan_read(&again, text, length, &err), ExitOk);
  char *again_text = plan_text(again, &again_length);
  assert_string_equal(text, again_text);
  assert_int_equal(again->kernels[1].args[2].tensor, SmallT);
  assert_true(again->kernels[1].args[2].written);
  assert_int_equal(again->tensors[SmallP].shape[1], 100);
  assert_true(again->tensors[SmallP].init_b == 0.5);
  assert_string_equal(again->kernels[2].source, plan->kernels[2].source);
  free(text), free(again_text);
  plan_free(plan), plan_free(again);
}

// Changes the small plan in one way; plan_check must name the field.
typedef struct Bad {
  void (*damage)(Plan *plan);
  const char *expected;
} Bad;

static void set_text(char **field, const char *text) {
  free(*field);
  *field = strdup(text);
}

static void bad_arg(Plan *p) {
  p->kernels[0].args[1].tensor = SmallTensors;
}
static void bad_order(Plan *p) {
  p->tensors[1].order[1] = 0;
}
static void bad_offset(Plan *p) {
  p->tensors[SmallW].offset = 8192 + 256;
}
static void bad_align(Plan *p) {
  p->tensors[SmallT].offset = 8;
}
static void bad_negative(Plan *p) {
  p->tensors[SmallT].offset = -256;
}
static void bad_shape(Plan *p) {
  p->tensors[0].shape[0] = INT64_MAX, p->tensors[0].shape[1] = 8;
}
static void bad_bytes(Plan *p) {
  p->tensors[0].bytes = 3996;
}
static void bad_name(Plan *p) {
  set_text(&p->tensors[0].name, "../x");
}
static void bad_twice(Plan *p) {
  set_text(&p->tensors[1].name, "x");
}
static void bad_symbol(Plan *p) {
  set_text(&p->kernels[0].name, "a b");
}
static void bad_file(Plan *p) {
  set_text(&p->kernels[0].file, "../k.cu");
}
static void bad_header(Plan *p) {
  set_text(&p->headers[0].name, "lib/../../etc");
}
static void bad_block(Plan *p) {
  p->kernels[2].block[1] = 64;
}
static void bad_kernel(Plan *p) {
  p->entries[1].steps[1].kernel = 3;
}
static void bad_target(Plan *p) {
  p->entries[1].steps[0].target = -1;
}
static void bad_init(Plan *p) {
  p->entries[1].steps[1].kernel = 0;
}
static void bad_model(Plan *p) {
  set_text(&p->model, "a/b");
}
static void bad_table(Plan *p) {
  p->tensors[SmallW].init = InitTable;
  p->tensors[SmallW].table = strdup("3f800000");
}
static void bad_space(Plan *p) {
  p->arena_bytes = -1;
}

static void checks(void **state) {
  (void)state;
  static const Bad bads[] = {
      {bad_arg, "plan: kernels[0]: args[1].tensor = 5 is not a tensor"},
      {bad_order, "plan: tensors[1]: order names a dimension twice"},
      {bad_offset, "plan: tensors[3]: offset 8448, bytes 4000 is not inside its space of 12288, or "
                   "not a multiple of 256"},
      {bad_align, "plan: tensors[4]: offset 8, bytes 4000 is not inside its space of 4096, or not "
                  "a multiple of 256"},
      {bad_negative, "plan: tensors[4]: offset -256, bytes 4000 is not inside its space of 4096, "
                     "or not a multiple of 256"},
      {bad_shape, "plan: tensors[0]: shape[0] = 9223372036854775807 is out of range"},
      {bad_bytes, "plan: tensors[0]: bytes is 3996, its shape and dtype make 4000"},
      {bad_name, "plan: tensors[0]: name '../x' has characters other than letters, digits and "
                 "_.:-"},
      {bad_twice, "plan: tensors[1]: a second input, output or parameter named 'x'"},
      {bad_symbol, "plan: kernels[0]: name is not an identifier"},
      {bad_file, "plan: kernels[0]: file is not a plain file name"},
      {bad_header, "plan: headers[0]: name is not a plain path"},
      {bad_block, "plan: kernels[2]: 8192 threads in a block, most is 1024"},
      {bad_kernel, "plan: entry infer: steps[1].kernel = 3 is not a kernel"},
      {bad_target, "plan: entry infer: steps[0].target = -1 is out of range"},
      {bad_init, "plan: entry infer: steps[1] uses a tensor that is freed after init"},
      {bad_model, "plan: model is not a plain name"},
      {bad_table, "plan: tensors[3]: table is not of 8 hexadecimal digits for each element"},
      {bad_space, "plan: a space of -1 bytes"},
  };
  for (int i = 0; i < COUNT(bads); i++) {
    Error err = {0};
    Plan *plan = small_plan();
    assert_int_equal(plan_check(plan, &err), ExitOk);
    bads[i].damage(plan);
    assert_int_equal(plan_check(plan, &err), ExitBadInput);
    assert_string_equal(err.message, bads[i].expected);
    plan_free(plan);
  }
}

static void reader_names_the_place(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"", "plan: line 1: not JSON: '[' or '{' expected near end of file"},
      {"{}", "plan: not a plan of this nngen (nngen_plan is not 1); make it again from the model"},
      {"{\"nngen_plan\":1}", "plan: model: expected a text"},
      {"{\"a\":1,\"a\":2}", "plan: line 1: not JSON: duplicate object key near '\"a\"'"},
      {"{\"nngen_plan\":1,\"model\":\"m\",\"lowering\":\"fused\",\"dtype\":\"fp32\",\"arch\":"
       "\"sm_80\",\"static_bytes\":0,\"arena_bytes\":0,\"init_bytes\":0,\"arena_bound\":0,"
       "\"nops\":0,\"tensors\":[{\"name\":\"x\",\"role\":\"inputs\"}]}",
       "plan: tensors[0].role: expected a known name"},
  };
  for (int i = 0; i < COUNT(texts); i++) {
    Error err = {0};
    Plan *plan;
    assert_int_equal(plan_read(&plan, texts[i][0], strlen(texts[i][0]), &err), ExitBadInput);
    assert_string_equal(err.message, texts[i][1]);
    assert_null(plan);
  }
}

static void fuzz_bytes(void **state) {
  (void)state;
  random_seed("plan fuzz_bytes");
  Plan *plan = small_plan();
  size_t length;
  char *text = plan_text(plan, &length), *mutant = malloc(length);
  int accepted = 0;
  for (int round = 0; round < 3000; round++) {
    Error err = {0};
    Plan *read;
    size_t size = round % 10 ? length : random_next() % length;
    memcpy(mutant, text, length);
    for (int i = 0; i < 1 + round % 4; i++)
      mutant[random_next() % length] =
          round % 3 ? (char)('0' + random_next() % 10) : (char)random_next();
    int rc = plan_read(&read, mutant, size, &err);
    assert_true(rc == ExitOk || (rc == ExitBadInput && err.message[0]));
    accepted += rc == ExitOk;
    plan_free(read);
  }
  assert_true(accepted < 3000); // most digits matter
  free(text), free(mutant), plan_free(plan);
}

static void fuzz_noise(void **state) {
  (void)state;
  random_seed("plan fuzz_noise");
  for (int round = 0; round < 2000; round++) {
    char noise[256];
    Error err = {0};
    Plan *plan;
    for (size_t i = 0; i < sizeof noise; i++)
      noise[i] = round % 2 ? "{}[]\":,0123e-+.tfn \\"[random_next() % 20] : (char)random_next();
    assert_int_equal(plan_read(&plan, noise, sizeof noise, &err), ExitBadInput);
  }
}

static void no_memory(void **state) {
  (void)state;
  size_t length;
  Plan *plan = small_plan(), *read = NULL;
  char *text = plan_text(plan, &length);
  int rc = ExitNoDevice, n = 0;
  for (; rc; n++) {
    Error err = {0};
    heap_fail_after(n);
    rc = plan_read(&read, text, length, &err);
    heap_fail_after(-1);
    assert_true(rc == ExitOk || (rc == ExitNoDevice && strstr(err.message, "out of host memory")));
  }
  assert_true(n > 50);
  free(text), plan_free(plan), plan_free(read);
}

static void dtypes(void **state) {
  (void)state;
  Dtype dtype;
  for (int i = 0; i < DtCount; i++) {
    assert_true(dtype_parse(dtype_name((Dtype)i), &dtype));
    assert_int_equal(dtype, i);
  }
  assert_true(dtype_parse("Float16", &dtype) && dtype == DtF16 && dtype_size(dtype) == 2);
  assert_false(dtype_parse("fp8", &dtype));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trip),
      cmocka_unit_test(checks),
      cmocka_unit_test(reader_names_the_place),
      cmocka_unit_test(fuzz_bytes),
      cmocka_unit_test(fuzz_noise),
      cmocka_unit_test(no_memory),
      cmocka_unit_test(dtypes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
