// test_image.c OUT IMAGE...: the fat binary of images, each ARCH=FILE, into OUT, for
// test_emit_image.sh. Alone it tests what is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "nngen_image.h"

static int pack(int count, char **words, const char *path) {
  FatImage images[8] = {0};
  FileView views[8];
  void *bytes;
  size_t size;
  Error err = {0};
  for (int i = 0; i < count; i++) {
    char *equal = strchr(words[i], '=');
    *equal = 0;
    if (file_view("image", equal + 1, &views[i], &err)) return puts(err.message), 1;
    images[i] = (FatImage){words[i], views[i].bytes, views[i].size};
  }
  if (fatbin_make(images, count, &bytes, &size, &err)) return puts(err.message), 1;
  FILE *file = fopen(path, "wb");
  fwrite(bytes, 1, size, file);
  free(bytes);
  for (int i = 0; i < count; i++) file_unview(&views[i]);
  return fclose(file);
}

static void refuse(const char *arch, const char *bytes, size_t size) {
  void *out = NULL;
  size_t out_size;
  Error err = {0};
  FatImage image = {arch, bytes, size};
  assert_int_equal(fatbin_make(&image, 1, &out, &out_size, &err), ExitNoToolchain);
  assert_null(out);
  assert_non_null(strstr(err.message, arch));
}

static void test_refused(void **state) {
  (void)state;
  refuse("sm_80", "no machine code", 15);
  refuse("sm_80", "", 0);
  refuse("sm_80", "\177EL", 3);
  refuse("compute_80", "no version", 10);
  refuse("compute_", ".version 9.0", 12);
  refuse("sm_80x", "\177ELF", 4);
  refuse("gfx90", "\177ELF", 4);
}

// A cubin whose headers lie: nothing outside of it is read (the address sanitizer sees to that).
static void test_damaged(void **state) {
  (void)state;
  for (int i = 0; i < 64; i++) {
    char *cubin = calloc(64, 1);
    void *out = NULL;
    size_t size;
    Error err = {0};
    memcpy(cubin, "\177ELF", 4);
    cubin[58] = 64; // e_shentsize
    memset(cubin + i, 0xff, (size_t)(64 - i < 8 ? 64 - i : 8));
    FatImage image = {"sm_90a", cubin, 64};
    if (!fatbin_make(&image, 1, &out, &size, &err)) assert_true(size >= 64 + 64);
    free(out);
    free(cubin);
  }
}

static void test_twins(void **state) {
  (void)state;
  char *names[] = {"a", "b", "c"}, none[] = "";
  char *sources[] = {"void a() { x = 1; }\n", "// other\nvoid b() { x = 1; }\n",
                     "void c() { x = 2; }\n"};
  PlanKernel kernels[3] = {0};
  for (int i = 0; i < 3; i++)
    kernels[i] = (PlanKernel){
        .name = names[i], .source = sources[i], .names = none, .file = names[i], .loc = none};
  Plan plan = {.kernels = kernels, .nkernels = 3};
  Error err = {0};
  int same[3];
  assert_int_equal(image_twins(&plan, same, &err), ExitOk);
  assert_int_equal(same[0], 0);
  assert_int_equal(same[1], 0);
  assert_int_equal(same[2], 2);
}

int main(int argc, char **argv) {
  if (argc > 2) return pack(argc - 2, argv + 2, argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged),
                                     cmocka_unit_test(test_twins)};
  return cmocka_run_group_tests_name("test_image", tests, NULL, NULL);
}
