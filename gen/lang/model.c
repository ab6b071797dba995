// model.c: runs a model file in a sandbox, and reports its errors with their line.
#include "lang.h"

#include <errno.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { kMemoryLimit = 1 << 30 };

// ---- files ------------------------------------------------------------------------------------

static void load_chunk(lua_State *lua, const char *path) {
  if (luaL_loadfilex(lua, path, "t") != LUA_OK) lua_error(lua);
  lua_getfield(lua, LUA_REGISTRYINDEX, "nngen.sandbox");
  lua_setupvalue(lua, -2, 1);
}

// require(name): "nn", or the model file name.lua next to the model.
static int lua_require(lua_State *lua) {
  const char *name = luaL_checkstring(lua, 1);
  lua_getfield(lua, LUA_REGISTRYINDEX, "nngen.loaded");
  int kind = lua_getfield(lua, -1, name);
  if (kind == LUA_TLIGHTUSERDATA)
    err_at(front_compiler(lua), front_here(lua), "require: '%s' requires itself", name);
  if (kind != LUA_TNIL) return 1;
  lua_pop(lua, 1);
  if (!*name || strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") !=
                    strlen(name))
    err_at(front_compiler(lua), front_here(lua),
           "require: '%s' is not the name of a model file (letters, digits, _ and -)", name);
  Compiler *c = front_compiler(lua);
  const char *model = c->options.model, *slash = strrchr(model, '/');
  int folder = slash ? (int)(slash - model) + 1 : 0;
  const char *path = arena_printf(c->arena, "%.*s%s.lua", folder, model, name);
  struct stat info;
  if (lstat(path, &info))
    err_at(front_compiler(lua), front_here(lua),
           "require: there is no %s (models require \"nn\" and files next to them)", path);
  if (!S_ISREG(info.st_mode))
    err_at(front_compiler(lua), front_here(lua), "require: %s is not a regular file", path);
  lua_pushlightuserdata(lua, c); // marks it as being loaded
  lua_setfield(lua, -2, name);
  load_chunk(lua, path);
  lua_call(lua, 0, 1);
  if (lua_isnil(lua, -1)) lua_pushboolean(lua, true), lua_replace(lua, -2);
  lua_pushvalue(lua, -1);
  lua_setfield(lua, -3, name);
  return 1;
}

// ---- the Lua state ------------------------------------------------------------------------------

void front_load(Compiler *c, const char *name) {
  bool built = !getenv("NNGEN_DIR");
  const char *file = built ? arena_printf(c->arena, "%sc", name) : name,
             *chunk = arena_printf(c->arena, "=%s", name);
  size_t length;
  const char *code = asset_text(c->arena, file, &length);
  if (!code) die("%s is missing", file);
  if (luaL_loadbufferx(c->lua, code, length, chunk, built ? "b" : "t"))
    die("%s", lua_tostring(c->lua, -1));
}

static void run_asset(lua_State *lua, const char *name, int nargs) {
  front_load(front_compiler(lua), name);
  lua_insert(lua, -1 - nargs);
  if (lua_pcall(lua, nargs, 1, 0)) die("%s", lua_tostring(lua, -1));
}

const char *const front_layers[] = {
    "gen/lang/nn_math.lua",
    "gen/lang/nn_special.lua",
    "gen/lang/nn_bessel.lua",
    "gen/lang/nn_activations.lua",
    "gen/lang/nn_shapes.lua",
    "gen/lang/nn_parts.lua",
    "gen/lang/nn_joins.lua",
    "gen/lang/nn_reduce.lua",
    "gen/lang/nn_moments.lua",
    "gen/lang/nn_distances.lua",
    "gen/lang/nn_sort.lua",
    "gen/lang/nn_select.lua",
    "gen/lang/nn_scatter.lua",
    "gen/lang/nn_make.lua",
    "gen/lang/nn_random.lua",
    "gen/lang/nn_signal.lua",
    "gen/lang/nn_windows.lua",
    "gen/lang/nn_pool.lua",
    "gen/lang/nn_resize.lua",
    "gen/lang/nn_sample.lua",
    "gen/lang/nn_products.lua",
    "gen/lang/nn_functional.lua",
    "gen/lang/nn_layers.lua",
    "gen/lang/nn_embeddings.lua",
    "gen/lang/nn_norms.lua",
    "gen/lang/nn_recurrent.lua",
    "gen/lang/nn_heads.lua",
    "gen/lang/nn_transformer.lua",
    "gen/lang/nn_attention.lua",
    "gen/lang/nn_cancel.lua",
    "gen/lang/nn_grad.lua",
    "gen/lang/nn_loss.lua",
    "gen/lang/nn_loss_classes.lua",
    "gen/lang/nn_schedules.lua",
    "gen/lang/nn_optimizers.lua",
    "gen/lang/nn_optim.lua",
    "gen/lang/nn_examples.lua",
    "gen/lang/nn_padding.lua",
    "gen/lang/nn_train.lua",
    NULL};

void front_open(Compiler *c) {
  c->lua = sandbox_state(c, kMemoryLimit);
  if (!c->lua) die("out of memory");
  lua_gc(c->lua, LUA_GCSTOP); // code loaded here is permanent
  luaL_openlibs(c->lua);
  run_asset(c->lua, "gen/lang/ref.lua", 0); // the functions that `ref` and `grad` of ops.lua use
  lua_pop(c->lua, 1);
  rows_load(c);
  lua_newtable(c->lua);
  lua_setfield(c->lua, LUA_REGISTRYINDEX, "nngen.names");
  lua_newtable(c->lua);
  lua_setfield(c->lua, LUA_REGISTRYINDEX, "nngen.name_entries");
  lua_newtable(c->lua);
  lua_setfield(c->lua, LUA_REGISTRYINDEX, "nngen.name_calls");
  lua_newtable(c->lua);
  lua_setfield(c->lua, LUA_REGISTRYINDEX, "nngen.name_owners");
  sandbox_open(c->lua);
  front_push_core(c);
  lua_pushvalue(c->lua, -1);
  run_asset(c->lua, "gen/lang/signature.lua", 0);
  lua_pushvalue(c->lua, -2);
  run_asset(c->lua, "gen/lang/kinds.lua", 1);  // core -> kinds
  run_asset(c->lua, "gen/lang/define.lua", 3); // core, signature, kinds -> tools
  lua_pushvalue(c->lua, -2);
  lua_insert(c->lua, -2);
  run_asset(c->lua, "gen/lang/nn.lua", 2); // core, tools -> nn
  lua_insert(c->lua, -2);
  for (int i = 0; front_layers[i]; i++) {
    lua_pushvalue(c->lua, -1);
    lua_pushvalue(c->lua, -3);
    run_asset(c->lua, front_layers[i], 2); // core, nn -> nothing
    lua_pop(c->lua, 1);
  }
  lua_pop(c->lua, 1);
  lua_newtable(c->lua); // loaded modules
  lua_insert(c->lua, -2);
  lua_setfield(c->lua, -2, "nn");
  lua_setfield(c->lua, LUA_REGISTRYINDEX, "nngen.loaded");
  lua_pushcfunction(c->lua, lua_require);
  lua_setfield(c->lua, -2, "require");
  lua_setfield(c->lua, LUA_REGISTRYINDEX, "nngen.sandbox");
  lua_gc(c->lua, LUA_GCRESTART);
}

// Calls the user's function below its arguments. An error set by err_at is passed on.
int front_call(lua_State *lua, int nargs, int nresults) {
  Compiler *c = front_compiler(lua);
  bool outer = c->in_lua;
  c->in_lua = true;
  sandbox_limit(lua, true);
  int status = lua_pcall(lua, nargs, nresults, 0);
  sandbox_limit(lua, false);
  c->in_lua = outer;
  if (status && c->error->code) longjmp(c->recover, 1);
  return status;
}

// ---- the model --------------------------------------------------------------------------------

// The name called by the innermost line of a model file, as in x:view(...), or NULL.
static const char *called_name(lua_State *lua) {
  lua_Debug ar;
  for (int level = 0; lua_getstack(lua, level, &ar); level++) {
    lua_getinfo(lua, "S", &ar);
    if (ar.source[0] != '@') continue;
    if (!level || !lua_getstack(lua, level - 1, &ar)) return NULL;
    lua_getinfo(lua, "n", &ar);
    bool named = !strcmp(ar.namewhat, "method") || !strcmp(ar.namewhat, "field");
    return named ? ar.name : NULL;
  }
  return NULL;
}

// The message "reshape: ..." for a line that calls x:view(...) becomes "view: ...": internal
// function names are unknown to the model file. Except for functions that run functions of the
// model file, where the error is in another call.
static void name_as_called(lua_State *lua) {
  static const char *const runs[] = {"entry", "grad", "precision", "scope", "sequential", "train"};
  Compiler *c = front_compiler(lua);
  const char *name = called_name(lua);
  Loc here = front_here(lua);
  if (!name || !here.file) return;
  for (size_t i = 0; i < LENGTH(runs); i++)
    if (!strcmp(name, runs[i])) return;
  char *message = c->error->message;
  const char *place = arena_printf(c->arena, "%s:%d: ", here.file, here.line);
  if (strncmp(message, place, strlen(place))) return;
  char *own = message + strlen(place);
  size_t length = strspn(own, "abcdefghijklmnopqrstuvwxyz0123456789_");
  if (!length || strncmp(own + length, ": ", 2)) return;
  const char *rest = arena_dup(c->arena, own + length);
  snprintf(own, sizeof c->error->message - strlen(place), "%s%s", name, rest);
}

static int note_place(lua_State *lua) { // message handler: runs before the stack is unwound
  Compiler *c = front_compiler(lua);
  c->error_loc = front_here(lua);
  if (c->error->code) name_as_called(lua);
  return 1;
}

static int run_model(lua_State *lua) {
  Compiler *c = front_compiler(lua);
  load_chunk(lua, c->options.model);
  lua_call(lua, 0, 1);
  Node **n = luaL_testudata(lua, -1, kTensorType); // `return y` is short for one output
  if (n && !c->graph->noutputs)
    graph_output(c->graph, graph_output_of("output", *n, (Loc){c->options.model, 1}, 0));
  return 0;
}

// Hints for users of other languages, where Lua's message does not help.
static const char *with_hint(Compiler *c, const char *text) {
  static const struct {
    const char *part, *hint;
  } hints[] = {
      {"near '!'", "not equal is ~= in Lua, and nn.ne(a, b) of tensors"},
      {"near '@'", "matrix products are a:matmul(b)"},
      {"near 'repeat'", "repeat is a word of Lua; x:tile{2, 1} repeats"},
      {"expected near '='", "named arguments go in a table, as in f{axis = 2}"},
  };
  for (size_t i = 0; i < LENGTH(hints); i++)
    if (strstr(text, hints[i].part)) return arena_printf(c->arena, "%s; %s", text, hints[i].hint);
  return text;
}

// Converts Lua's message "file:line: text" to nngen's form, with the line quoted.
static void report(Compiler *c, int status) {
  if (c->error->code) longjmp(c->recover, 1); // already reported by err_at
  const char *text = lua_tostring(c->lua, -1), *path = c->options.model;
  if (status == LUA_ERRMEM)
    err_code(c, ExitUsage, "%s: the model file needs more than %d MB of memory", path,
             kMemoryLimit >> 20);
  if (!text) text = "error";
  int line = 0, used = 0;
  if (!strncmp(text, "gen/lang/", 9) && c->error_loc.file &&
      strstr(text, ": ")) // a wrong call of a layer
    err_at(c, c->error_loc, "%s", strstr(text, ": ") + 2);
  size_t length = strlen(path); // a model file with another extension
  if (!strncmp(text, path, length) && sscanf(text + length, ":%d: %n", &line, &used) == 1 && used)
    err_at(c, (Loc){path, line}, "%s", with_hint(c, text + length + used));
  const char *colon = strstr(text, ".lua:");
  if (colon && sscanf(colon, ".lua:%d: %n", &line, &used) == 1 && used) {
    char *file = arena_printf(c->arena, "%.*s.lua", (int)(colon - text), text);
    err_at(c, (Loc){file, line}, "%s", with_hint(c, colon + used));
  }
  if (c->error_loc.file) err_at(c, c->error_loc, "%s", with_hint(c, text));
  err_code(c, ExitUsage, "%s: %s", path, text);
}

static const char *list_settings(Compiler *c, SettingOwner owner) { // "" if none
  Buffer list = {0};
  for (int i = 0; i < c->nsettings; i++)
    if (c->settings[i].owner == owner)
      buffer_put(&list, list.text ? ", %s" : "%s", c->settings[i].name);
  return list.text ? buffer_take(&list, c->arena) : "";
}

static void check_settings(Compiler *c) {
  for (int i = 0; i < c->options.nset; i++) {
    const char *names[64] = {0}, *name = c->options.set_name[i];
    int count = 0;
    bool known = false;
    for (int j = 0; j < c->nsettings && count < 64; j++) {
      names[count++] = c->settings[j].name;
      known = known || !strcmp(name, c->settings[j].name);
    }
    if (known) continue;
    const char *near = text_nearest(name, names, count);
    const char *flag = c->options.set_flag ? c->options.set_flag[i] : NULL;
    const char *given = flag ? arena_printf(c->arena, "--%s: %s has no setting '%s'", flag,
                                            c->options.model, name)
                             : arena_printf(c->arena, "--set %s: %s has no such setting", name,
                                            c->options.model);
    if (near) err_code(c, ExitUsage, "%s; did you mean '%s'?", given, near);
    const char *own = list_settings(c, SettingOfModel), *run = list_settings(c, SettingOfRun);
    bool run_too = *run && (!flag || !strcmp(flag, "sweep")); // other options set one setting each
    err_code(c, ExitUsage, "%s; it has: %s%s%s", given, *own ? own : "none",
             run_too ? "; a run has: " : "", run_too ? run : "");
  }
}

// A file that ends in .ir is a graph as `nngen show` prints it.
static bool is_ir(const char *path) {
  size_t n = strlen(path);
  return n > 3 && !strcmp(path + n - 3, ".ir");
}

static void run_file(Compiler *c) {
  front_begin(c);
  c->error->code = 0;
  lua_pushcfunction(c->lua, note_place);
  lua_pushcfunction(c->lua, run_model);
  sandbox_limit(c->lua, true);
  c->in_lua = true;
  int status = lua_pcall(c->lua, 0, 0, -2);
  c->in_lua = false;
  sandbox_limit(c->lua, false);
  if (status) report(c, status);
}

// Runs the model file for the op rows that IR text uses.
static void run_rows(Compiler *c) {
  const char *text = c->options.model;
  if (access(c->rows, R_OK))
    err_code(c, ExitBadInput, "%s: its ops are of %s, which cannot be read: %s", text, c->rows,
             strerror(errno));
  c->options.model = c->rows;
  run_file(c);
  c->options.model = text;
  c->nentries = 1;
}

static void read_ir(Compiler *c) {
  FILE *file = fopen(c->options.model, "r");
  Buffer text = {0};
  char line[4096];
  while (fgets(line, sizeof line, file)) buffer_put(&text, "%s", line);
  fclose(file);
  const char *ir = buffer_take(&text, c->arena);
  c->rows = text_rows(c, ir);
  if (c->rows) run_rows(c);
  c->graph = text_read(c, ir);
}

void front_run(Compiler *c) {
  struct stat info;
  const char *path = c->options.model;
  if (stat(path, &info) || access(path, R_OK))
    err_code(c, ExitUsage, "%s: %s", path, strerror(errno));
  if (!S_ISREG(info.st_mode))
    err_code(c, ExitUsage, "%s: is not a model file, but a %s", path,
             S_ISDIR(info.st_mode) ? "folder" : "device or pipe");
  if (!info.st_size) err_code(c, ExitUsage, "%s: empty model file", path);
  if (is_ir(c->options.model)) {
    read_ir(c);
    return;
  }
  run_file(c);
  check_settings(c);
  if (!c->graph->noutputs && !c->graph->nupdates)
    err_code(c, ExitUsage, "%s: the model has no output; end it with nn.output(\"name\", tensor)",
             c->options.model);
}
