// test_ir.c: one pass at a time. Each file of tests/gen/ir holds the name of a pass, the IR before
// it, a line ---, and the IR after it. BLESS=1 writes what happens now.
#include "support.h"

#include <dirent.h>

static Error err;

static const Pass *find_pass(const char *name) {
  for (const Pass *p = compile_passes; p->name; p++)
    if (!strcmp(p->name, name)) return p;
  fail_msg("no pass '%s'", name);
  return NULL;
}

static void run_file(const char *path) {
  char *text = read_whole(path), pass[32], lowering[32], dtype[32];
  assert_int_equal(sscanf(text, "# pass %31s %31s %31s", pass, lowering, dtype), 3);
  char *before = strchr(text, '\n') + 1, *cut = strstr(before, "\n---\n");
  assert_non_null(cut);
  char *want = cut + 5;
  cut[1] = 0;
  Compiler c;
  open_compiler(&c, &err, lowering, dtype);
  if (setjmp(c.recover)) fail_msg("%s: %s", path, err.message);
  c.graph = text_read(&c, before);
  graph_verify(c.graph, false);
  find_pass(pass)->run(&c);
  graph_verify(c.graph, c.graph->ngroups > 0);
  char *got = graph_text(c.graph);
  if (getenv("BLESS")) {
    FILE *file = fopen(path, "w");
    fprintf(file, "# pass %s %s %s\n%s---\n%s", pass, lowering, dtype, before, got);
    fclose(file);
  } else if (strcmp(got, want)) {
    fail_msg("%s: the pass gave\n%s\nwant\n%s", path, got, want);
  }
  free(got);
  free(text);
  compile_close(&c);
}

static void one_test(void **state) { run_file(*state); }

int main(void) {
  static struct CMUnitTest tests[128];
  static char paths[128][512];
  int count = 0;
  DIR *dir = opendir("tests/gen/ir");
  for (struct dirent *e; dir && (e = readdir(dir)) && count < 128;) {
    if (!strstr(e->d_name, ".ir")) continue;
    snprintf(paths[count], sizeof paths[count], "tests/gen/ir/%s", e->d_name);
    tests[count] = (struct CMUnitTest){paths[count], one_test, NULL, NULL, paths[count]};
    count++;
  }
  if (dir) closedir(dir);
  return count ? _cmocka_run_group_tests("ir", tests, (size_t)count, NULL, NULL) : 1;
}
