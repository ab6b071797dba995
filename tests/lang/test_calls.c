// Every function of the model language called with random arguments, right and wrong ones: a model
// compiles, or says in one message what is wrong, with its line. NNGEN_FUZZ_CALLS=100000 calls,
// from the seed NNGEN_FUZZ_FIRST.
#include "tests/gen/support.h"

#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdint.h>
#include <unistd.h>

enum { kMostFunctions = 600 };

static char *signatures[kMostFunctions]; // "slice(x: tensor, axis: axis, ...)"
static int nsignatures;

static int add_signature(lua_State *lua) {
  Arena *arena = lua_touserdata(lua, lua_upvalueindex(1));
  assert_true(nsignatures < kMostFunctions);
  signatures[nsignatures++] = arena_printf(arena, "%s", luaL_checkstring(lua, 1));
  return 0;
}

static const char reader[] = "local signature, text, add = ...\n"
                             "signature.declarations(text, function(what, d)\n"
                             "  if what ~= 'declared' then return end\n"
                             "  for _, variant in ipairs(signature.variants(d.text, d.torch)) do\n"
                             "    add((d.functional and 'functional.' or '') .. variant.text)\n"
                             "  end\n"
                             "end)\n";

// The signatures in the text of one file, as signature.lua, at the top of the stack, reads them.
static void read_signatures(lua_State *lua, Arena *arena, const char *name) {
  size_t length;
  const char *text = asset_text(arena, name, &length);
  assert_int_equal(luaL_loadstring(lua, reader), LUA_OK);
  lua_pushvalue(lua, -2);
  lua_pushlstring(lua, text, length);
  lua_pushlightuserdata(lua, arena);
  lua_pushcclosure(lua, add_signature, 1);
  if (lua_pcall(lua, 3, 0, 0)) fail_msg("%s", lua_tostring(lua, -1));
}

static void read_all_signatures(Arena *arena) {
  lua_State *lua = luaL_newstate();
  luaL_openlibs(lua);
  size_t length;
  const char *text = asset_text(arena, "gen/lang/signature.lua", &length);
  if (luaL_loadbuffer(lua, text, length, "signature.lua") || lua_pcall(lua, 0, 1, 0))
    fail_msg("%s", lua_tostring(lua, -1));
  read_signatures(lua, arena, "gen/lang/nn.lua");
  for (int i = 0; front_layers[i]; i++) read_signatures(lua, arena, front_layers[i]);
  lua_close(lua);
}

// ---- random text --------------------------------------------------------------------------------

static uint64_t state;
static unsigned below(unsigned n) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned)(state >> 32) % n;
}

static const char *any_of(const char *const *list) {
  unsigned n = 0;
  while (list[n]) n++;
  return list[below(n)];
}

static const char *const tensors[] = {"a",     "b",        "m",    "v",    "i",    "t",
                                      "s",     "l",        "d",    "big",  "none", "hole",
                                      "a + b", "m:relu()", "flat", NULL};
static const char *const wrong[] = {
    "nil", "true", "false", "3.7", "-1", "0", "1e9", "1 << 40", "math.mininteger", "'text'", "''",
    "{}", "{1, 2}", "{0}", "{-1, 3}", "{1, 2, 3, 4, 5, 6, 7, 8, 9}", "{x = 1}", "{a, b}",
    "{{1}, {2}}", "function() end", "function(x) return x end", "nn", "0 / 0", "math.huge", "a",
    "i", "{axis = 1}", "{kernel = 3, stride = 0}", "{1.5}", "{'a'}", "{nil, 2}", "print", NULL};
static const char *const whole[] = {"1", "2", "3", "-1", "4", "0", "5", "7", NULL};
static const char *const positive[] = {"1", "2", "3", "4", "6", NULL};
static const char *const numbers[] = {"0.5", "1", "2", "1e-5", "0", "-0.5", "3", NULL};
static const char *const lists[] = {
    "{1}", "{1, 2}", "{2, 3}", "{2, 3, 4, 4}", "{-1}", "{4, -1}", "{1, 1, 1, 1}", "{5}", NULL};

// An argument of this kind, or now and then of any.
static const char *argument(const char *kind, size_t n) {
  if (!below(5)) return any_of(wrong);
#define IS(word) (n == strlen(word) && !strncmp(kind, word, n))
  if (IS("tensor") || IS("value")) return any_of(tensors);
  if (IS("image1")) return "l";
  if (IS("image2")) return below(8) ? below(2) ? "a" : "b" : "flat";
  if (IS("image3")) return "d";
  if (IS("tensors")) return below(2) ? "{a, b}" : "{v, v, v}";
  if (IS("axis") || IS("whole")) return any_of(whole);
  if (IS("count")) return any_of(positive);
  if (IS("axes") || IS("sizes") || IS("each2") || IS("sides2"))
    return below(2) ? any_of(lists) : any_of(positive);
  if (IS("number")) return any_of(numbers);
  if (IS("boolean")) return below(2) ? "true" : "false";
  if (IS("name")) return "'n1'";
  const char *slash = memchr(kind, '/', n);
  static char word[64];
  if (slash) { // the first or the last of the words
    bool first = below(2);
    const char *last = slash;
    for (const char *s = slash; s < kind + n; s++) last = *s == '/' ? s : last;
    snprintf(word, sizeof word, "'%.*s'", first ? (int)(slash - kind) : (int)(kind + n - last - 1),
             first ? kind : last + 1);
    return word;
  }
  return below(3) ? any_of(positive) : below(2) ? any_of(lists) : any_of(tensors);
}

static const char head[] =
    "local nn = require \"nn\"\n"
    "local a, b = nn.input(\"a\", {2, 4, 6, 6}), nn.input(\"b\", {2, 4, 6, 6})\n"
    "local m, v, s = nn.input(\"m\", {4, 6}), nn.input(\"v\", {6}), nn.input(\"s\", {})\n"
    "local i = nn.input(\"i\", {3, 2}, {dtype = \"i32\", below = 4})\n"
    "local t, l = nn.input(\"t\", {4, 6}, {dtype = \"bool\"}), nn.input(\"l\", {2, 4, 9})\n"
    "local d, big = nn.input(\"d\", {1, 4, 3, 4, 5}), nn.input(\"big\", {1, 2, 1, 2, 1, 2, 1, "
    "2})\n"
    "local none, hole = nn.zeros{0, 6}, nn.input(\"hole\", {4, 0}) -- no elements\n"
    "local flat = nn.zeros{2, 4, 0, 6}\n";

// A call of one function in text of at most `room` bytes.
static void write_call(char *text, size_t room) {
  const char *sig = signatures[below((unsigned)nsignatures)];
  const char *open = strchr(sig, '(');
  size_t used =
      (size_t)snprintf(text, room, "%slocal r = nn.%.*s(", head, (int)strcspn(sig, "|("), sig);
  bool named = false, any = false;
  for (const char *at = open + 1; *at && *at != ')' && used < room - 200;) {
    size_t n = strcspn(at, ",)");
    if (memchr(at, '{', n) && !named) {
      used += (size_t)snprintf(text + used, room - used, "%s{", any ? ", " : "");
      named = true, any = false;
    }
    const char *name = at + strspn(at, " {"), *colon = strchr(name, ':'), *kind = colon + 2;
    bool optional = memchr(at, '=', n) != NULL, given = !optional || below(2);
    if (given || (!named && below(3))) {
      used += (size_t)snprintf(text + used, room - used, "%s", any ? ", " : "");
      if (named)
        used +=
            (size_t)snprintf(text + used, room - used, "%.*s = ", (int)strcspn(name, "|:"), name);
      used += (size_t)snprintf(text + used, room - used, "%s",
                               given ? argument(kind, strcspn(kind, " ,})")) : "nil");
      any = true;
    } else if (!named) {
      break; // the rest is left out, but for what has a name
    }
    at += n + (at[n] == ',');
  }
  if (named && !below(8))
    used += (size_t)snprintf(text + used, room - used, "%sunheard_of = 1", any ? ", " : "");
  snprintf(text + used, room - used,
           "%s%s)\nnn.output(\"y\", type(r) == \"userdata\" and r or a)\n", named ? "}" : "",
           !below(10) ? ", 7" : "");
}

// ---- what a compilation may say -----------------------------------------------------------------

static const char *const raw[] = {"attempt to",     "bad argument", "gen/lang/", "stack overflow",
                                  "internal error", "(null)",       NULL};

static bool says_why(const char *model, const Error *err, int code, const char *path) {
  if (code == ExitOk) return true;
  bool ours = code == ExitUsage && !strncmp(err->message, path, strlen(path)) &&
              strstr(err->message, ".lua:");
  for (int i = 0; raw[i]; i++) ours = ours && !strstr(err->message, raw[i]);
  const char *line = strchr(err->message, '\n'); // one line, then the model's
  ours = ours && line && strlen(err->message) < 1000;
  if (!ours)
    print_error("exit %d: %s\nof the model\n%s\n", code, err->message, model + strlen(head));
  return ours;
}

// Does each kernel include the file of lib/ that it calls functions of?
static bool includes_all(const char *model, const Graph *g) {
  static const char *const functions[] = {"nn_mod(", "nn_floordiv(", "nn_to<", "nn_value(", NULL};
  for (int i = 0; i < g->ngroups; i++) {
    const char *source = g->groups[i]->source;
    if (!source || strstr(source, "lib/values.cuh") || strstr(source, "lib/random.cuh")) continue;
    for (int j = 0; functions[j]; j++) {
      if (!strstr(source, functions[j])) continue;
      print_error("%s without lib/values.cuh, of the model\n%s\n", functions[j], model);
      return false;
    }
  }
  return true;
}

static int compile_text(Compiler *c, const char *text, const char *stage) {
  char path[] = "/tmp/nngen_alone_XXXXXX.lua";
  int fd = mkstemps(path, 4);
  assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
  Error err = {0};
  Options o = {.model = path, .lowering = "fused", .dtype = "fp32", .arch = arch_default(),
               .stage = stage};
  int code = compile_model(c, &o, &err);
  unlink(path);
  return code;
}

// Each map as a kernel of its own, of floats and of integers.
static void each_map_alone(void **unused) {
  (void)unused;
  static const char begin[] = "local nn = require \"nn\"\n";
  Compiler all;
  int compiled = 0, bad = 0;
  assert_int_equal(compile_text(&all, "require \"nn\".output(\"y\", require \"nn\".zeros(1))\n",
                                "front"), ExitOk);
  for (int i = 0; i < all.nops; i++) {
    const Op *op = all.ops[i];
    for (int ints = 0; op->cls == OpMap && ints < 2; ints++) {
      char text[1024], args[64] = "";
      for (int j = 0; j < op->nin; j++) strcat(args, j ? ", x" : "x");
      snprintf(text, sizeof text,
               "%slocal x = nn.input(\"x\", {2, 3}, {dtype = \"%s\"})\n"
               "nn.output(\"y\", nn.op.%s(%s%s))\n",
               begin, ints ? "i32" : "f32", op->name, args,
               op->typing == TypeConvert ? ", {dtype = 0}" : "");
      Compiler c;
      bool made = compile_text(&c, text, "emit") == ExitOk;
      compiled += made;
      bad += made && !includes_all(text, c.graph);
      compile_close(&c);
    }
  }
  compile_close(&all);
  print_message("%d kernels\n", compiled);
  assert_true(compiled > 100);
  assert_int_equal(bad, 0);
}

static void all_functions_answer(void **unused) {
  (void)unused;
  Arena *arena = arena_new(NULL, NULL);
  read_all_signatures(arena);
  assert_true(nsignatures > 250);
  const char *count_text = getenv("NNGEN_FUZZ_CALLS"), *first = getenv("NNGEN_FUZZ_FIRST");
  int count = count_text ? atoi(count_text) : getenv("NNGEN_TEST_LONG") ? 1500 : 400;
  int good = 0, bad = 0;
  state = 0x9e3779b97f4a7c15u + (first ? strtoull(first, NULL, 10) : 0);
  char path[] = "/tmp/nngen_calls_XXXXXX.lua";
  int fd = mkstemps(path, 4);
  assert_true(fd >= 0);
  for (int i = 0; i < count; i++) {
    char model[4096];
    write_call(model, sizeof model);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_true(pwrite(fd, model, strlen(model), 0) == (ssize_t)strlen(model));
    Compiler c;
    Error err = {0};
    Options o = {.model = path,
                 .lowering = "fused",
                 .dtype = "fp32",
                 .arch = arch_default(),
                 .stage = i % 8 ? "fuse" : "emit"};
    int code = compile_model(&c, &o, &err);
    bad += !says_why(model, &err, code, path);
    bad += code == ExitOk && !includes_all(model + strlen(head), c.graph);
    good += code == ExitOk;
    compile_close(&c);
  }
  print_message("%d functions, %d calls, %d of them models\n", nsignatures, count, good);
  assert_true(good > count / 8);
  assert_int_equal(bad, 0);
  close(fd);
  unlink(path);
  arena_free(arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_functions_answer),
                                     cmocka_unit_test(each_map_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
