// test_text.c: the IR text of every model after every pass reads back as the same graph; random
// bytes into the reader are refused, never crash it.
#include "support.h"

static const char *const models[] = {"resnet18", "resnet34", "lenet", "mlp"};

static void strip_comments(char *text) { // groups are written as comments
  char *to = text;
  for (char *s = text; *s;) {
    size_t n = strcspn(s, "\n");
    size_t keep = n;
    for (size_t i = 0; i + 1 < n; i++)
      if (s[i] == '#' && (i == 0 || s[i - 1] == ' ')) {
        keep = i ? i - 1 : 0;
        break;
      }
    if (keep || *s != '#') {
      memmove(to, s, keep);
      to += keep;
      *to++ = '\n';
    }
    s += n + (s[n] == '\n');
  }
  *to = 0;
}

static void round_trips(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++)
    for (const Pass *p = compile_passes; p->name; p++) {
      Compiler c;
      char path[64];
      snprintf(path, sizeof path, "models/%s.lua", models[i]);
      compile_file(&c, path, "fused", "bf16", p->name);
      char *text = graph_text(c.graph);
      strip_comments(text);
      char *again = graph_text(text_read(&c, text));
      if (strcmp(text, again))
        fail_msg("%s after %s: the text changes when read back", path, p->name);
      free(text);
      free(again);
      compile_close(&c);
    }
}

static unsigned seed = 7;
static unsigned next(void) { return (seed = seed * 1664525u + 1013904223u) >> 8; }

static void survives_mutation(void **state) {
  (void)state;
  static Error err;
  static Compiler c;
  compile_file(&c, "models/lenet.lua", "fused", "fp32", "layout");
  static char *text;
  text = graph_text(c.graph);
  size_t size = strlen(text);
  static int refused, round;
  c.error = &err;
  for (round = 0; round < 3000; round++) {
    static char *broken;
    broken = strdup(text);
    for (unsigned k = 0; k <= next() % 4; k++) broken[next() % size] = (char)(next() % 96 + 32);
    if (next() % 4 == 0) broken[next() % size] = 0;
    err.code = 0;
    if (setjmp(c.recover)) refused++;
    else text_read(&c, broken);
    free(broken);
  }
  assert_true(refused > 500);
  free(text);
  compile_close(&c);
}

// A node of more inputs than a line usually has.
static void many_inputs(void **state) {
  (void)state;
  static Error err;
  Compiler c;
  enum { kInputs = 300 };
  Node *in[kInputs];
  open_compiler(&c, &err, "fused", "fp32");
  Node *x = graph_add(c.graph, op_need(&c, "input"), 0, NULL, NULL, NULL);
  x->type = type_make(DtF32, 1, (int64_t[]){2});
  for (int i = 0; i < kInputs; i++) in[i] = x;
  Node *all = graph_add(c.graph, op_need(&c, "concat"), kInputs, in, NULL, NULL);
  shape_infer(&c, all);
  graph_output(c.graph, graph_output_of("y", all, (Loc){0}, 0));
  char *text = graph_text(c.graph), *again = graph_text(text_read(&c, text));
  assert_string_equal(text, again);
  free(text);
  free(again);
  compile_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),
      cmocka_unit_test(survives_mutation),
      cmocka_unit_test(many_inputs),
  };
  return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
