// test_tune.c: the tuning file, and `nngen tune` but for its clock: candidates are built, checked
// and stored as on a GPU, the times are made up here.
#include "support.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/cli/cli.h"
#include "plain_products.h"

static char dir[] = "/tmp/nngen-tune-XXXXXX";

static const char *in_dir(const char *name) { // valid until the eighth call later
  static char path[8][512];
  static int next;
  char *at = path[next++ % 8];
  snprintf(at, sizeof path[0], "%s/%s", dir, name);
  return at;
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

#define PRODUCT "fp16 matmul 8x4 by 4x2 transposed"
#define IMAGE "tf32 conv 1x4x8x8 by 4x2x3x3 stride 1x2 pad 0,1,2,3 dilation 1x2 groups 2"
#define TILE_A "64x64 warps 32x32 stages 2 parts 1"
#define TILE_B "128x64 warps 32x32 stages 2 parts 1"

// ---- the file ---------------------------------------------------------------------------------

static void refused_files(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      // text, message after the file's name
      {"{\n  \"schema_version\": 1,\n  oops\n}", ":3: no JSON: "},
      {"", ":1: no JSON: "},
      {"[]", ":1: a tuning file must be a JSON object"},
      {"{\"schema_version\": 1,\n \"device\": {}}",
       ":2: unknown key \"device\"; did you mean \"devices\"?"},
      {"{\n\"devices\": {},\n\"schema_version\": 9}", ":3: schema_version must be 1"},
      {"{\"schema_version\": 1,\n \"devices\": 3}", ":2: \"devices\" must be an object"},
      {"{\"schema_version\": 1, \"devices\": {\n\"X\": [] }}", ":2: a device must be an object"},
      {"{\"schema_version\": 1, \"devices\": {\"X\": {\n\n\"p\": 1}}}",
       ":3: expected an object"},
      {"{\"schema_version\": 1, \"devices\": {\"X\": {\n\"p\": {\n\"us\": 1}}}}",
       ":2: this entry has no \"tile\""},
      {"{\"schema_version\": 1, \"devices\": {\"X\": {\n\"p\": {\n\"tiel\": \"a\"}}}}",
       ":3: unknown key \"tiel\"; did you mean \"tile\"?"},
      {"{\"schema_version\": 1, \"devices\": {\"X\": {\"p\": {\n\"tile\": 4}}}}",
       ":2: \"tile\" must be a string"},
      {"{\"schema_version\": 1, \"devices\": {\"X\": {\"p\": {\n\"tile\": \"64x64 warp 32x32\"}}}}",
       ":2: expected a tile, such as \"64x32 warps 32x16 stages 4 parts 1\"; "
       "--explain KERNEL prints"},
      {"{\"schema_version\": 1, \"devices\": {\"X\": {\n"
       "\"fp16 konv 1x2\": {\"tile\": \"" TILE_A "\"}}}}",
       ":2: expected a problem, such as \"fp16 matmul "},
      {"{\"schema_version\": 1, \"devices\": {\"X\": {\"p\": "
       "{\"tile\": \"" TILE_A "\",\n\"us\": -1}}}}",
       ":2: a time must be a number of microseconds"},
      {"{\"schema_version\": 1, \"devices\": {}, \"devices\": {}}", ":1: no JSON: duplicate"},
  };
  const char *path = in_dir("bad.json");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Error err = {0};
    Tuning *t;
    write_text(path, rows[i][0]);
    assert_int_equal(tuning_read(path, false, &t, &err), ExitBadInput);
    assert_null(t);
    if (strncmp(err.message, path, strlen(path)) || !strstr(err.message, rows[i][1]))
      fail_msg("row %zu: '%s', want '...%s'", i, err.message, rows[i][1]);
  }
}

static void missing_file(void **state) {
  (void)state;
  Error err = {0};
  Tuning *t;
  assert_int_equal(tuning_read(in_dir("none.json"), false, &t, &err), ExitBadInput);
  assert_non_null(strstr(err.message, "No such file or directory; nngen tune MODEL --tuning "));
  assert_int_equal(tuning_read(in_dir("none.json"), true, &t, &err), ExitOk);
  TuningEntry e;
  assert_false(tuning_find(t, "X", "p", &e));
  tuning_free(t);
  t = tuning_new();
  assert_int_equal(tuning_write(t, in_dir("no/folder.json"), &err), ExitBadInput);
  tuning_free(t);
}

// What was stored is found again; other devices and problems stay when one is added.
static void write_and_merge(void **state) {
  (void)state;
  Error err = {0};
  TuningEntry e;
  Tuning *t = tuning_new();
  tuning_put(t, "NVIDIA H200", PRODUCT, &(TuningEntry){TILE_A, 1.5, 3, 2});
  tuning_put(t, "Other", PRODUCT, &(TuningEntry){.tile = TILE_B});
  assert_int_equal(tuning_write(t, in_dir("t.json"), &err), ExitOk);
  tuning_free(t);
  assert_int_equal(tuning_read(in_dir("t.json"), false, &t, &err), ExitOk);
  tuning_put(t, "NVIDIA H200", IMAGE, &(TuningEntry){.tile = TILE_A});
  tuning_put(t, "Other", PRODUCT, &(TuningEntry){.tile = TILE_A});
  assert_int_equal(tuning_write(t, in_dir("t.json"), &err), ExitOk);
  tuning_free(t);
  assert_int_equal(tuning_read(in_dir("t.json"), false, &t, &err), ExitOk);
  assert_true(tuning_find(t, "NVIDIA H200", PRODUCT, &e));
  assert_string_equal(e.tile, TILE_A);
  assert_true(e.us == 1.5 && e.us_cold == 3 && e.model_us == 2);
  assert_true(tuning_find(t, "H200", IMAGE, &e)); // the GPU an architecture is known by
  assert_true(tuning_find(t, "Other", PRODUCT, &e));
  assert_string_equal(e.tile, TILE_A);
  assert_false(tuning_find(t, "H20", PRODUCT, &e));
  assert_false(tuning_find(t, "H200", "r", &e));
  int own;
  const char *other;
  assert_int_equal(tuning_count(t, "H200", &own, &other), 1);
  assert_int_equal(own, 2);
  assert_string_equal(other, "Other");
  tuning_free(t);
}

// Bytes of a good file exchanged, cut, doubled: read, or refused by a message that names the file.
static void damaged_files(void **state) {
  (void)state;
  static const char good[] =
      "{\"schema_version\": 1, \"devices\": {\"NVIDIA H200\": {\"" PRODUCT "\": {\"tile\": "
      "\"" TILE_A "\", \"us\": 3.25, \"model_us\": 4}}}}\n";
  const char *given = getenv("NNGEN_SEED"), *path = in_dir("damaged.json");
  uint64_t x = given ? strtoull(given, NULL, 10) : (uint64_t)getpid() * 2654435761u + 1;
  fprintf(stderr, "damaged_files: NNGEN_SEED=%llu\n", (unsigned long long)x);
  int refused = 0;
  for (int i = 0; i < 2000; i++) {
    char text[2 * sizeof good];
    size_t size = sizeof good - 1;
    memcpy(text, good, sizeof good);
    for (int k = 0; k <= i % 3; k++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      size_t at = (size_t)(x >> 33) % size;
      if (x >> 20 & 1)
        text[at] = "{}[]\",:0-e\\\x80\0x"[(x >> 24) % 15];
      else if (size > 2)
        memmove(text + at, text + at + 1, size - at), size--;
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(text, 1, size, file);
    fclose(file);
    Error err = {0};
    Tuning *t;
    TuningEntry e;
    int code = tuning_read(path, false, &t, &err);
    if (code) assert_true(code == ExitBadInput && !strncmp(err.message, path, strlen(path)));
    if (!code) tuning_find(t, "H200", PRODUCT, &e);
    tuning_free(t);
    refused += code != 0;
  }
  assert_in_range(refused, 500, 1999);
}

// ---- measuring --------------------------------------------------------------------------------

static const char kModel[] =
    "local nn = require \"nn\"\n"
    "local x = nn.input(\"x\", {2, 8, 6, 6})\n"
    "local a = x:conv2d(\"a\", {out = 24, kernel = 3, pad = 1}):relu()\n"
    "local b = a:conv2d(\"b\", {out = 24, kernel = 3, pad = 1}):relu()\n"
    "b = b:conv2d(\"c\", {out = 24, kernel = 3, pad = 1})\n"
    "nn.output(\"y\", (a + b):global_avg_pool():flatten():linear(\"fc\", {out = 10}))\n";

static char warnings[4096];

static void on_log(void *user, LogLevel level, const char *message) {
  (void)user;
  if (level == LogWarning) snprintf(warnings, sizeof warnings, "%s", message);
}

// The last candidate is the fastest.
static int made_up(void *user, Loaded *loaded, const Variants *v, double *us, double *us_cold,
                   Error *err) {
  (void)loaded, (void)err;
  ++*(int *)user;
  for (int i = 0; i < v->count; i++) us[i] = 10. + v->count - i, us_cold[i] = 2 * us[i];
  return ExitOk;
}

static int stored_products(const char *path) { // problems in the file; 0: there is none
  json_error_t why;
  json_t *root = json_load_file(path, 0, &why);
  int count = 0;
  const char *device;
  json_t *problems;
  json_object_foreach(json_object_get(root, "devices"), device, problems)
    count += (int)json_object_size(problems);
  json_decref(root);
  return count;
}

// When it is asked for the times of a problem, all earlier ones are in the file.
static int each_is_stored(void *user, Loaded *loaded, const Variants *v, double *us,
                          double *us_cold, Error *err) {
  assert_int_equal(stored_products(in_dir("each.json")), *(int *)user);
  return made_up(user, loaded, v, us, us_cold, err);
}

static Device *open_device(void) {
  char path[600];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 40);
  assert_true(length > 0);
  path[length] = 0;
  strcpy(strstr(path, "/tests/gen/"), "/libcusim.so");
  setenv("NNGEN_SIM", path, 0);
  DeviceOptions options = {.kind = DeviceSim};
  const char *named = getenv("NNGEN_DEVICE");
  if (named && *named) assert_true(device_parse(named, &options.kind));
  Device *device;
  Error err = {0};
  if (device_open(&options, &device, &err)) fail_msg("%s", err.message);
  return device;
}

static void compile_tuned(Compiler *c, const char *dtype, const Tuning *tuning,
                          const char *device) {
  static Error err;
  Options o = {.model = in_dir("m.lua"), .lowering = "fused", .dtype = dtype,
               .arch = arch_default(), .tuning = tuning, .device = device};
  if (compile_model(c, &o, &err)) fail_msg("%s", err.message);
}

static int tune(Compiler *c, Device *device, Tuning *tuning, int *calls, TuneReport *report,
                Error *err) {
  TuneOptions options = {.timer = made_up, .user = calls, .most = 8, .launches = 2,
                         .flush_bytes = 4096,
                         .jit = {.cache_dir = in_dir("cache"), .log = {on_log, NULL}},
                         .log = {on_log, NULL}};
  return tune_model(c, device, &options, tuning, report, err);
}

static const Group *find_group(const Compiler *c, const char *layer) {
  for (int i = 0; i < c->graph->ngroups; i++)
    if (c->graph->groups[i]->tm->candidates && !c->graph->groups[i]->fixed &&
        strstr(c->graph->groups[i]->name, layer))
      return c->graph->groups[i];
  fail_msg("no contraction '%s'", layer);
  return NULL;
}

static char *explain(const Compiler *c, const Group *g) { // to be freed
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  sched_explain(g, c->options.arch, file);
  fclose(file);
  return text;
}

// Every candidate of every problem is right; the fastest is stored and then chosen.
static void tunes(void **state) {
  (void)state;
  static const char *const dtypes[] = {"fp32", "fp16"};
  Device *device = open_device();
  const char *name = device_info(device)->name;
  write_text(in_dir("m.lua"), kModel);
  Tuning *tuning = tuning_new();
  for (int d = getenv("NNGEN_TEST_LONG") ? 0 : 1; d < 2; d++) {
    Compiler c;
    Error err = {0};
    TuneReport report;
    int calls = 0;
    compile_tuned(&c, dtypes[d], NULL, NULL);
    warnings[0] = 0;
    if (tune(&c, device, tuning, &calls, &report, &err)) fail_msg("%s", err.message);
    assert_string_equal(warnings, ""); // every candidate was right
    assert_int_equal(report.nrows, 3); // a, b and c together, fc
    assert_int_equal(calls, 3);
    assert_int_equal(report.rows[1].layers, 2);
    assert_true(report.rows[0].candidates > 3 && report.rows[0].wrong == 0);
    assert_string_not_equal(report.rows[0].best.tile, report.rows[0].model.tile);
    assert_true(report.rows[0].best.us == 11 && report.rows[0].best.us_cold == 22);
    char best[64];
    snprintf(best, sizeof best, "%s", report.rows[1].best.tile);
    free(report.rows);
    compile_close(&c);

    compile_tuned(&c, dtypes[d], tuning, name);
    const Group *g = find_group(&c, "__b");
    assert_true(g->tile.tuned);
    assert_string_equal(tuning_tile(c.arena, &g->tile), best);
    assert_null(c.stale);
    char *text = explain(&c, g);
    assert_non_null(strstr(text, "tuned: measured as fastest on "));
    assert_non_null(strstr(text, ", 11.00 us (22.00 us with a cold L2); the model predicts "));
    free(text);
    compile_close(&c);

    compile_tuned(&c, dtypes[d], tuning, "another device");
    assert_false(find_group(&c, "__b")->tile.tuned);
    compile_close(&c);
  }
  tuning_free(tuning);
  device_close(device);
}

typedef struct Tuned { // a model in fp16, to be tuned
  Device *device;
  Tuning *tuning;
  Compiler compiler;
  TuneReport report;
  int calls; // of the timer
} Tuned;

static void tuned_open(Tuned *t, const char *text) {
  *t = (Tuned){.device = open_device(), .tuning = tuning_new()};
  write_text(in_dir("m.lua"), text);
  compile_tuned(&t->compiler, "fp16", NULL, NULL);
  warnings[0] = 0;
}

static void tuned_close(Tuned *t) {
  free(t->report.rows);
  compile_close(&t->compiler);
  tuning_free(t->tuning);
  device_close(t->device);
}

// A product that is written in a state's place is measured; one that also reads the state is not.
static void states(void **state) {
  (void)state;
  Tuned t;
  Error err = {0};
  tuned_open(&t, "local nn = require 'nn'\n"
                 "local function stored(name, n)\n"
                 "  return nn.state(name, {32, n}, {dtype = 'auto'})\n"
                 "end\n"
                 "local x, z = stored('x', 64), stored('z', 64)\n"
                 "local y, sum = stored('y', 32), stored('sum', 48)\n"
                 "nn.update(y, x:linear('a', {out = 32}))\n"
                 "nn.update(sum, sum + z:linear('b', {out = 48}))\n");
  if (tune(&t.compiler, t.device, t.tuning, &t.calls, &t.report, &err))
    fail_msg("%s", err.message);
  const TuneRow *row = t.report.rows;
  assert_string_equal(warnings, "");
  assert_int_equal(t.report.nrows, 1);
  assert_string_equal(row->layer, "a");
  for (int i = 0; i < row->candidates; i++) assert_true(row->right[i]);
  assert_string_equal(row->all[0].tile, row->model.tile);
  tuned_close(&t);
}

static void stored_each(void **state) {
  (void)state;
  Tuned t;
  Error err = {0};
  tuned_open(&t, kModel);
  TuneOptions options = {.timer = each_is_stored, .user = &t.calls, .most = 2, .launches = 2,
                         .path = in_dir("each.json"),
                         .jit = {.cache_dir = in_dir("cache"), .log = {on_log, NULL}},
                         .log = {on_log, NULL}};
  options.path = strdup(options.path);
  if (tune_model(&t.compiler, t.device, &options, t.tuning, &t.report, &err))
    fail_msg("%s", err.message);
  assert_int_equal(stored_products(options.path), 3);
  free((char *)options.path);
  tuned_close(&t);
}

static void stale(void **state) {
  (void)state;
  Compiler c;
  write_text(in_dir("m.lua"), kModel);
  compile_tuned(&c, "fp16", NULL, NULL);
  const char *kept = find_group(&c, "__b")->source;
  char *problem = strdup(tuning_problem(find_group(&c, "__b"))), *source = strdup(kept);
  compile_close(&c);
  Tuning *tuning = tuning_new();
  tuning_put(tuning, "X", problem, &(TuningEntry){.tile = "7x9 warps 3x3 stages 1 parts 1"});
  compile_tuned(&c, "fp16", tuning, "X");
  assert_non_null(c.stale);
  assert_non_null(strstr(c.stale, "7x9 warps"));
  assert_string_equal(find_group(&c, "__b")->source, source); // the model chose
  compile_close(&c);
  tuning_free(tuning);
  free(problem);
  free(source);
}

// A copy of the compiler's files in which contractions of one tile are wrong.
static void plant(const char *condition) {
  char command[2048];
  snprintf(command, sizeof command,
           "rm -rf %s/tree && mkdir -p %s/tree && cp --parents gen/*/*.lua %s/tree/ && "
           "cp -r templates %s/tree/ && for f in %s/tree/templates/contract*.cu; do "
           "sed -i '1i //@ for _, t in ipairs(%s and k.tails or {}) do "
           "t.body = string.gsub(t.body, \"acc%%[\", \"1.5f * acc[\") end' $f; done",
           dir, dir, dir, dir, dir, condition);
  assert_int_equal(system(command), 0);
  setenv("NNGEN_DIR", in_dir("tree"), 1);
}

static void wrong_candidates(void **state) {
  (void)state;
  Device *device = open_device();
  Compiler c;
  Error err = {0};
  TuneReport report;
  TuningEntry e;
  int calls = 0;
  write_text(in_dir("m.lua"), kModel);
  plant("k.tile_m == 32");
  compile_tuned(&c, "fp16", NULL, NULL);
  Tuning *tuning = tuning_new();
  if (tune(&c, device, tuning, &calls, &report, &err)) fail_msg("%s", err.message);
  assert_true(report.rows[0].wrong > 0 && report.rows[0].wrong < report.rows[0].candidates);
  assert_non_null(strstr(warnings, "gives wrong results on this device (relative error "));
  assert_true(tuning_find(tuning, device_info(device)->name, report.rows[0].problem, &e));
  assert_true(strncmp(e.tile, "32x", 3)); // however fast it is
  free(report.rows);
  compile_close(&c);
  plant("true");
  compile_tuned(&c, "fp16", NULL, NULL);
  assert_int_equal(tune(&c, device, tuning, &calls, &report, &err), ExitMismatch);
  assert_non_null(strstr(err.message, "candidates gives correct results"));
  free(report.rows);
  compile_close(&c);
  unsetenv("NNGEN_DIR");
  tuning_free(tuning);
  device_close(device);
}

static int prepare(void **state) {
  (void)state;
  return mkdtemp(dir) ? 0 : 1;
}

static int clean(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", dir);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refused_files), cmocka_unit_test(missing_file),
      cmocka_unit_test(damaged_files), cmocka_unit_test(write_and_merge), cmocka_unit_test(tunes),
      cmocka_unit_test(states), cmocka_unit_test(stored_each), cmocka_unit_test(stale),
      cmocka_unit_test(wrong_candidates),
  };
  return cmocka_run_group_tests(tests, prepare, clean);
}
