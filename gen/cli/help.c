// help.c: the verb `help`: functions of the model language, from their comments (help.lua), and
// ops, from their rows (help_ops.lua).
#include "cli.h"

#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

// The first line of a file's comment, after its name: "maps by name".
static void push_title(lua_State *lua, const char *text) {
  const char *from = strstr(text, ".lua: "), *to = from ? strstr(from, ", of the module") : NULL;
  const char *colon = from ? strchr(from, '\n') : NULL;
  if (!to || (colon && colon < to)) to = colon;
  if (!from || !to) {
    lua_pushstring(lua, "the module");
    return;
  }
  lua_pushlstring(lua, from + 6, (size_t)(to - from - 6));
}

static void push_file(lua_State *lua, Arena *arena, const char *name, int at) {
  size_t length;
  const char *text = asset_text(arena, name, &length);
  if (!text) die("%s is missing", name);
  lua_newtable(lua);
  lua_pushlstring(lua, text, length);
  lua_setfield(lua, -2, "text");
  push_title(lua, text);
  lua_setfield(lua, -2, "title");
  lua_seti(lua, -2, at);
}

static void push_chunk(lua_State *lua, Arena *arena, const char *name) {
  size_t length;
  const char *text = asset_text(arena, name, &length);
  if (!text) die("%s is missing", name);
  if (luaL_loadbufferx(lua, text, length, name, "t")) die("%s", lua_tostring(lua, -1));
}

// Pushes the result of help_ops.lua.
static void read_ops(lua_State *lua, Arena *arena) {
  size_t length;
  const char *text = asset_text(arena, "gen/lang/ops.lua", &length);
  push_chunk(lua, arena, "gen/lang/help_ops.lua");
  lua_pushlstring(lua, text, length);
  if (lua_pcall(lua, 1, 1, 0)) die("%s", lua_tostring(lua, -1));
}

// Pushes the result of help.lua.
static void read_files(lua_State *lua, Arena *arena) {
  push_chunk(lua, arena, "gen/lang/help.lua");
  push_chunk(lua, arena, "gen/lang/signature.lua");
  if (lua_pcall(lua, 0, 1, 0)) die("%s", lua_tostring(lua, -1));
  lua_newtable(lua);
  push_file(lua, arena, "gen/lang/nn.lua", 1);
  for (int i = 0; front_layers[i]; i++) push_file(lua, arena, front_layers[i], i + 2);
  if (lua_pcall(lua, 2, 1, 0)) die("%s", lua_tostring(lua, -1));
}

// Prints the result of the table's function `name`; false if it returns nothing.
static bool print_text(lua_State *lua, const char *name, const char *argument) {
  lua_getfield(lua, -1, name);
  lua_pushstring(lua, argument);
  if (lua_pcall(lua, 1, 1, 0)) die("%s", lua_tostring(lua, -1));
  const char *text = lua_tostring(lua, -1);
  if (text) fputs(text, stdout);
  lua_pop(lua, 1);
  return text != NULL;
}

static int unknown(lua_State *lua, Arena *arena, const char *name, Error *err) {
  lua_getfield(lua, -1, "names");
  int count = (int)lua_rawlen(lua, -1);
  const char **names = arena_alloc(arena, sizeof *names * (size_t)(count + 1));
  for (int i = 0; i < count; i++) {
    lua_geti(lua, -1, i + 1);
    names[i] = lua_tostring(lua, -1);
    lua_pop(lua, 1); // the list keeps it alive
  }
  const char *near = text_nearest(name, names, count);
  if (near) return err_set(err, ExitUsage, "help: nn has no '%s'; did you mean '%s'?", name, near);
  return err_set(err, ExitUsage, "help: nn has no '%s'; nngen help lists the functions", name);
}

int verb_help(const Cli *cli, Error *err) {
  for (const Verb *v = cli->verbs; cli->model && v->name; v++)
    if (!strcmp(v->name, cli->model)) {
      cli_help(stdout, cli->verbs, v->name);
      return ExitOk;
    }
  lua_State *lua = luaL_newstate();
  Arena *arena = arena_new(NULL, NULL);
  if (!lua) die("out of memory");
  luaL_openlibs(lua);
  read_files(lua, arena);
  int code = ExitOk;
  bool of_ops = cli->model && (!strcmp(cli->model, "op") || !strncmp(cli->model, "op.", 3));
  if (cli->markdown) print_text(lua, "markdown", NULL);
  if (cli->markdown || of_ops) read_ops(lua, arena);
  if (cli->markdown)
    print_text(lua, "markdown", NULL);
  else if (!cli->model || !strcmp(cli->model, "nn"))
    print_text(lua, "list", NULL);
  else if (!print_text(lua, "entry", cli->model))
    code = unknown(lua, arena, cli->model, err);
  lua_close(lua);
  arena_free(arena);
  return code;
}
