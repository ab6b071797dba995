// test_ptxas.c: what NVIDIA's assembler takes, and what it refuses, libcusim's loader does too:
// every pair of types, rounding and modifiers of cvt, addresses of every kind, video instructions
// with registers of every kind, comparisons, roundings and orders of all types, copies. Skipped
// where there is no ptxas.
#include "tests/sim/device.h"
#include "tests/sim/ptxas_lines.h"

#include <unistd.h>

enum { kMostLines = 1 << 16, kWidth = 160 };

typedef CUresult (*TranslatePtx)(const char *, char *, size_t, size_t *);

static const char head[] =
    ".version %s\n.target %s\n.address_size 64\n.visible .entry k(.param .u64 x)\n{\n"
    ".reg .pred %%p<6>; .reg .b16 %%h<6>; .reg .b32 %%r<10>; .reg .b64 %%d<6>; .reg .f32 %%f<6>;\n"
    ".reg .f64 %%e<6>; .reg .u16 %%uh<4>; .reg .s32 %%sr<4>; .reg .u32 %%ur<4>; .reg .b8 %%b<4>; "
    "%s\n"
    ".shared .align 16 .b8 s[1024];\n";
enum { kHeadLines = 8 };

typedef struct Target {
  const char *arch, *version, *registers;
} Target;

static const char of_128[] = ".reg .b128 %q<6>;"; // since 8.3
static Target targets[] = {
    {"sm_90a", "8.8", of_128}, {"sm_80", "8.8", of_128}, {"sm_90a", "8.0", ""}};

static char lines[kMostLines][kWidth];
static bool refused[kMostLines];
static int count;

__attribute__((format(printf, 1, 2))) static void line(const char *format, ...) {
  va_list list;
  assert_true(count < kMostLines);
  va_start(list, format);
  vsnprintf(lines[count++], kWidth, format, list);
  va_end(list);
}

// ---- the lines ----------------------------------------------------------------------------------

static void conversions(void) {
  static const char *const types[][2] = {
      {"s8", "h"},  {"u8", "h"},  {"s16", "h"}, {"u16", "h"}, {"s32", "r"}, {"u32", "r"},
      {"s64", "d"}, {"u64", "d"}, {"f16", "h"}, {"bf16", "h"}, {"f32", "f"}, {"f64", "e"},
      {"tf32", "r"}, {"s8", "b"}, {"u8", "b"}};
  static const char *const packed[][2] = {
      {"f16x2", "%r1"}, {"bf16x2", "%r1"}, {"e4m3x2", "%h1"}, {"e5m2x2", "%h1"}, {"tf32", "%r1"}};
  static const char *const sources[] = {"f32 %r1, %f2", "f32 %f1, %f2", "f32 %f1", "f16x2 %r2",
                                        "bf16x2 %r2", "e4m3x2 %h2", "e5m2x2 %h2", "f16 %h2"};
  static const char *const roundings[] = {"",     ".rn",  ".rz",  ".rm",  ".rp",
                                          ".rna", ".rni", ".rzi", ".rmi", ".rpi"};
  static const char *const modifiers[] = {
      "",     ".ftz",           ".sat",     ".ftz.sat", ".relu", ".satfinite", ".relu.satfinite",
      ".satfinite.relu", ".ftz.relu", ".sat.relu"};
  enum { kTypes = 15, kRoundings = 10, kModifiers = 10 };
  for (int r = 0; r < kRoundings; r++)
    for (int m = 0; m < kModifiers; m++) {
      for (int d = 0; d < kTypes; d++)
        for (int s = 0; s < kTypes; s++)
          line("cvt%s%s.%s.%s %%%s1, %%%s2;", roundings[r], modifiers[m], types[d][0], types[s][0],
               types[d][1], types[s][1]);
      for (int d = 0; d < 5; d++)
        for (int s = 0; s < 8; s++) {
          const char *blank = strchr(sources[s], ' ');
          line("cvt%s%s.%s.%.*s %s,%s;", roundings[r], modifiers[m], packed[d][0],
               (int)(blank - sources[s]), sources[s], packed[d][1], blank);
        }
    }
}

static void addresses(void) {
  static const char *const spaces[] = {"", ".global", ".shared", ".local", ".shared::cta",
                                       ".const", ".param"};
  static const char *const places[] = {"%r2", "%ur1", "%sr1", "%d2", "%h2",  "%uh1", "%f2",
                                       "%e2", "%p1",  "s",    "s+4", "%r2+4", "4",   "0"};
  static const char *const others[] = {
      "atom.global.add.u32 %%r1, [%s], %%r3;", "atom.shared.add.u32 %%r1, [%s], %%r3;",
      "atom.add.u32 %%r1, [%s], %%r3;", "red.global.add.u32 [%s], %%r3;",
      "cp.async.ca.shared.global [%s], [%%d1], 4;", "cp.async.ca.shared.global [s], [%s], 4;",
      "mbarrier.init.shared.b64 [%s], 1;", "cvta.to.global.u64 %%d1, %s;",
      "cvta.to.shared.u32 %%r1, %s;", "cvta.shared.u64 %%d1, %s;", "cvta.global.u32 %%r1, %s;",
      "isspacep.global %%p1, %s;", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%%r1}, [%s];"};
  enum { kSpaces = 7, kPlaces = 14, kOthers = 13 };
  for (int p = 0; p < kPlaces; p++)
    for (int s = 0; s < kSpaces; s++) {
      line("ld%s.u32 %%r1, [%s];", spaces[s], places[p]);
      if (s < 5) line("st%s.u32 [%s], %%r1;", spaces[s], places[p]);
    }
  static const char *const bases[] = {"%r2", "%d2", "s"};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  for (int o = 0; o < kOthers; o++)
    for (int b = 0; b < 3; b++) line(others[o], bases[b]);
#pragma GCC diagnostic pop
}

static void videos(void) {
  static const char *const names[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr"};
  static const char *const simd[] = {"vadd2", "vadd4", "vabsdiff2", "vavrg4", "vmin2", "vmax4"};
  static const char *const kinds[] = {"%r2", "%sr2", "%ur2", "%f2", "%uh2", "%d2", "7"};
  static const char *const tails[] = {"", ".sat", ".clamp", ".wrap", ".sat.wrap"};
  static const char *const types[] = {"u32.u32.u32", "s32.s32.s32", "u32.s32.u32", "u32.u32.s32"};
  for (int k = 0; k < 7; k++)
    for (int t = 0; t < 4; t++) {
      for (int n = 0; n < 7; n++)
        for (int m = 0; m < 5; m++) {
          line("%s.%s%s %%r1, %s, %%r3;", names[n], types[t], tails[m], kinds[k]);
          line("%s.%s%s %%r1, %%r3, %s;", names[n], types[t], tails[m], kinds[k]);
        }
      for (int n = 0; n < 6; n++) {
        line("%s.%s %%r1, %%r3, %s, %%r4;", simd[n], types[t], kinds[k]);
        line("%s.%s %%r1, %%r3, %%r4, %s;", simd[n], types[t], kinds[k]);
        line("%s.%s %%r1, %s, %%r3, %%r4;", simd[n], types[t], kinds[k]);
      }
      line("vmad.%s %%r1, %%r3, %%r4, %s;", types[t], kinds[k]);
    }
}

static void atomics(void) {
  static const char *const ops[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch"};
  static const char *const types[][2] = {{"u32", "r"}, {"s32", "r"}, {"b32", "r"},
                                         {"u64", "d"}, {"s64", "d"}, {"b64", "d"}};
  for (int o = 0; o < 9; o++)
    for (int t = 0; t < 6; t++)
      line("atom.global.%s.%s %%%s1, [%%d2], %%%s3;", ops[o], types[t][0], types[t][1],
           types[t][1]);
  for (int t = 0; t < 6; t++)
    line("atom.shared.cas.%s %%%s1, [%%r2], %%%s3, %%%s4;", types[t][0], types[t][1], types[t][1],
         types[t][1]);
}

static void comparisons(void) {
  static const char *const how[] = {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs",
                                    "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  static const char *const types[][2] = {
      {"b16", "h"}, {"b32", "r"}, {"b64", "d"}, {"u16", "h"}, {"s16", "h"}, {"u32", "r"},
      {"s32", "r"}, {"u64", "d"}, {"s64", "d"}, {"f16", "h"}, {"bf16", "h"}, {"f32", "f"},
      {"f64", "e"}, {"f16x2", "r"}, {"bf16x2", "r"}};
  static const char *const to[][2] = {{"u32", "r"}, {"s32", "r"}, {"f32", "f"}, {"f16", "h"}};
  enum { kHow = 18, kTypes = 15, kTo = 4 };
  for (int h = 0; h < kHow; h++)
    for (int t = 0; t < kTypes; t++) {
      const char *name = types[t][0], *reg = types[t][1];
      for (int ftz = 0; ftz < 2; ftz++) {
        line("setp.%s%s.%s %%p1, %%%s1, %%%s2;", how[h], ftz ? ".ftz" : "", name, reg, reg);
        line("setp.%s.and%s.%s %%p1|%%p2, %%%s1, %%%s2, !%%p3;", how[h], ftz ? ".ftz" : "", name,
             reg, reg);
      }
      for (int d = 0; d < kTo && t < kTypes - 2; d++)
        line("set.%s.%s.%s %%%s1, %%%s2, %%%s3;", how[h], to[d][0], name, to[d][1], reg, reg);
    }
}

static void floats(void) {
  static const char *const roundings[] = {"", ".rn", ".rz", ".rm", ".rp"};
  static const char *const tails[] = {"", ".ftz", ".sat", ".relu", ".ftz.sat", ".sat.relu"};
  static const char *const types[][2] = {{"f16", "h"}, {"bf16", "h"}, {"f32", "f"}, {"f64", "e"},
                                         {"f16x2", "r"}, {"bf16x2", "r"}, {"f32x2", "d"}};
  static const char *const two[] = {"add", "sub", "mul"};
  static const char *const one[] = {"sin", "cos", "ex2.approx"};
  enum { kRoundings = 5, kTails = 6, kTypes = 7 };
  for (int t = 0; t < kTypes; t++)
    for (int r = 0; r < kRoundings; r++)
      for (int m = 0; m < kTails; m++) {
        const char *round = roundings[r], *tail = tails[m], *type = types[t][0], *reg = types[t][1];
        line("fma%s%s.%s %%%s1, %%%s2, %%%s3, %%%s1;", round, tail, type, reg, reg, reg, reg);
        for (int o = 0; o < 3; o++) {
          line("%s%s%s.%s %%%s1, %%%s2, %%%s3;", two[o], round, tail, type, reg, reg, reg);
          line("%s%s%s.%s %%%s1, %%%s2;", one[o], round, tail, type, reg, reg);
        }
      }
}

static void orders(void) {
  static const char *const how[] = {"", ".weak", ".volatile", ".relaxed.gpu", ".acquire.sys",
                                    ".release.cta", ".mmio.relaxed.sys"};
  static const char *const spaces[] = {"", ".global", ".shared", ".local", ".const", ".param"};
  static const char *const types[] = {".u32 %r1", ".v2.u32 {%r1, %r3}", ".b64 %d1"};
  enum { kHow = 7, kSpaces = 6, kTypes = 3 };
  for (int h = 0; h < kHow; h++)
    for (int s = 0; s < kSpaces; s++)
      for (int t = 0; t < kTypes; t++) {
        const char *blank = strchr(types[t], ' ');
        int n = (int)(blank - types[t]);
        line("ld%s%s%.*s%s, [%%d2];", how[h], spaces[s], n, types[t], blank);
        if (s < 4) line("st%s%s%.*s [%%d2],%s;", how[h], spaces[s], n, types[t], blank);
      }
}

// Asynchronous copies and mbarriers; refused whole for sm_80 but for cp.async.
static void copies(void) {
  static const char *const ops[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  static const char *const types[] = {"u32", "s32", "u64", "s64", "b32", "b64", "f16", "bf16"};
  static const char *const hints[] = {"", ".L2::cache_hint"}, *const noftz[] = {"", ".noftz"};
  static const char *const sems[] = {"", ".relaxed", ".release", ".cta", ".relaxed.cluster",
                                     ".release.cta"};
  static const char *const arrives[] = {"", ".noComplete", ".expect_tx"};
  static const char *const spaces[] = {"", ".shared", ".shared::cta", ".shared::cluster"};
  static const int sizes[] = {4, 8, 12, 16};
  for (int o = 0; o < 8; o++)
    for (int t = 0; t < 8; t++) {
      for (int h = 0; h < 4; h++)
        line("cp.reduce.async.bulk.global.shared::cta.bulk_group%s.%s%s.%s [%%d1], [%%r2], %%r3%s;",
             hints[h & 1], ops[o], noftz[h / 2], types[t], h & 1 ? ", %d2" : "");
      line("cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.%s.%s "
           "[%%r1], [%%r2], %%r3, [%%r4];",
           ops[o], types[t]);
    }
  for (int s = 0; s < 4; s++)
    for (int source = 0; source < 5; source++) {
      char from[16] = "";
      if (source < 4) snprintf(from, sizeof from, ", %d", sizes[source]);
      line("cp.async.ca.shared.global [%%r1], [%%d1], %d%s;", sizes[s], from);
      line("cp.async.cg.shared::cta.global [%%r1], [%%d1], %d%s;", sizes[s], from);
      line("cp.async.cg.global [%%r1], [%%d1], %d%s;", sizes[s], from);
    }
  for (int a = 0; a < 3; a++)
    for (int s = 0; s < 6; s++)
      for (int p = 0; p < 4; p++)
        for (int k = 0; k < 4; k++)
          line("mbarrier.arrive%s%s%s.b64 %s, [%%r1]%s;", arrives[a], sems[s], spaces[p],
               k & 1 ? "_" : "%d1", k & 2 ? ", 4" : "");
}

// ---- patterns -----------------------------------------------------------------------------------

// The text with what is chosen so far, and the rest of the pattern.
static void expand(const char *text, const char *rest);

// Each of the words up to `end`, with blanks or `|` between them.
static void expand_each(const char *text, const char *words, const char *end, const char *rest) {
  char more[kWidth];
  for (const char *word = words; word <= end;) {
    size_t n = strcspn(word, "|>");
    snprintf(more, sizeof more, "%s%.*s", text, (int)n, word);
    if (strchr(more, '#')) { // within an alternative
      char whole[4 * kWidth], *at = strchr(more, '#');
      snprintf(whole, sizeof whole, "%s%s", at, rest);
      *at = 0;
      expand(more, whole);
    } else {
      expand(more, rest);
    }
    word += n + 1;
  }
}

// Of the type with which the opcode ends.
static char register_of(const char *opcode) {
  static const struct {
    const char *type, *name;
  } rows[] = {{".f32", "f"}, {".f64", "e"}, {"16", "h"},   {"64", "d"},   {".s8", "h"},
              {".u8", "h"},  {".b8", "h"},  {".pred", "p"}, {".b128", "q"}};
  size_t n = strcspn(opcode, " ");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t m = strlen(rows[i].type);
    if (n >= m && !strncmp(opcode + n - m, rows[i].type, m)) return rows[i].name[0];
  }
  return 'r';
}

static void finish(const char *text) {
  char whole[kWidth];
  size_t n = 0;
  for (const char *at = text; *at && n < sizeof whole - 3; at++) {
    if (*at == '@') whole[n++] = '%', whole[n++] = register_of(text);
    else whole[n++] = *at == '\xff' ? '|' : *at;
  }
  whole[n] = 0;
  line("%s", whole);
}

static void expand(const char *text, const char *rest) {
  static const char types[] = "s16|u16|s32|u32|s64|u64|b16|b32|b64|f16|f16x2|bf16|bf16x2|f32|f64|"
                              "s8|u8|b8|pred|b128|s16x2|u16x2|tf32";
  char more[kWidth];
  size_t n = strcspn(rest, "<#");
  snprintf(more, sizeof more, "%s%.*s", text, (int)n, rest);
  if (!rest[n])
    finish(more);
  else if (rest[n] == '#')
    expand_each(more, types, types + sizeof types - 2, rest + n + 1);
  else
    expand_each(more, rest + n + 1, strchr(rest + n, '>') - 1, strchr(rest + n, '>') + 1);
}

static void patterns(void) {
  for (size_t i = 0; i < sizeof ptxas_patterns / sizeof *ptxas_patterns; i++)
    expand("", ptxas_patterns[i]);
}

// ---- both ---------------------------------------------------------------------------------------

static char ptxas[512];

static bool find_ptxas(void) {
  const char *cuda = getenv("CUDA_PATH");
  snprintf(ptxas, sizeof ptxas, "%s/bin/ptxas", cuda && *cuda ? cuda : "/usr/local/cuda");
  return access(ptxas, X_OK) == 0;
}

// The number of the line that what it said is about; -1: of none. Addresses of 32 bits, of which it
// warns, end a module for sm_90 that has no others.
static int line_named(const char *said, const Target *t) {
  bool old = !strcmp(t->arch, "sm_80");
  const char *error = strstr(said, "line "), *warned = strstr(said, "32-bit address on line '");
  if (warned) return old ? -1 : atoi(strchr(warned, '\'') + 1) - kHeadLines - 1;
  return error ? atoi(error + 5) - kHeadLines - 1 : -1;
}

// Marks the lines that ptxas names, and asks again without them, until it takes what is left.
static bool ask(const Target *t, const char *folder) {
  char command[1400], path[256], said[512];
  snprintf(path, sizeof path, "%s/lines.ptx", folder);
  snprintf(command, sizeof command, "%s -O0 -arch %s %s -o %s/out 2>&1", ptxas, t->arch, path,
           folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  fprintf(file, head, t->version, t->arch, t->registers);
#pragma GCC diagnostic pop
  for (int i = 0; i < count; i++) fprintf(file, "%s\n", refused[i] ? "" : lines[i]);
  fputs("ret;\n}\n", file);
  fclose(file);
  FILE *from = popen(command, "r");
  assert_non_null(from);
  bool more = false;
  while (fgets(said, sizeof said, from)) {
    int number = line_named(said, t);
    if (number < 0 || number >= count) continue;
    more |= !refused[number];
    refused[number] = true;
  }
  int code = pclose(from);
  if (code && !more) fail_msg("ptxas: exit code %d", code);
  return code != 0;
}

static void compare(const Target *t) {
  TranslatePtx translate;
  *(void **)&translate = dlsym(sim_open(), "cusimTranslatePtx");
  assert_non_null(translate);
  char text[2048], log[512];
  int wrong = 0, taken = 0;
  for (int i = 0; i < count; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = snprintf(text, sizeof text, head, t->version, t->arch, t->registers);
#pragma GCC diagnostic pop
    snprintf(text + n, sizeof text - (size_t)n, "%s\nret;\n}\n", lines[i]);
    bool here = translate(text, log, sizeof log, NULL) != CUDA_SUCCESS;
    taken += !refused[i];
    if (here == refused[i]) continue;
    if (wrong++ < 20)
      printf("# %s, PTX %s: %s: %s\n", t->arch, t->version, lines[i], here ? log : "taken");
  }
  printf("# %s, PTX %s: of %d lines ptxas takes %d\n", t->arch, t->version, count, taken);
  assert_int_equal(wrong, 0);
}

static void test_target(void **state) {
  const Target *t = *state;
  char folder[] = "/tmp/ptxas-XXXXXX", command[64];
  assert_non_null(mkdtemp(folder));
  memset(refused, 0, sizeof refused);
  for (int turn = 0; turn < 20 && ask(t, folder); turn++) {
  }
  snprintf(command, sizeof command, "rm -rf %s", folder);
  assert_int_equal(system(command), 0);
  compare(t);
}

int main(void) {
  if (on_gpu()) return puts("1..0 # SKIP only on libcusim"), 0;
  if (!find_ptxas()) return puts("1..0 # SKIP NVIDIA's ptxas is not installed"), 0;
  conversions();
  addresses();
  videos();
  atomics();
  comparisons();
  floats();
  orders();
  copies();
  patterns();
  const struct CMUnitTest tests[] = {
      {"sm_90a", test_target, NULL, NULL, &targets[0]},
      {"sm_80", test_target, NULL, NULL, &targets[1]},
      {"sm_90a, an older PTX", test_target, NULL, NULL, &targets[2]}};
  size_t some = getenv("NNGEN_TEST_LONG") ? sizeof tests / sizeof *tests : 1;
  return _cmocka_run_group_tests("test_ptxas", tests, some, device_setup, NULL);
}
