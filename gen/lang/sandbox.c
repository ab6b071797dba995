// sandbox.c: restricts model files to a whitelist of pure functions, to requiring files next to the
// model, and to a memory and instruction limit.
// A count hook does not stop everything (finalizers, C loops, pattern matching, pcall), so such
// functions are absent or bounded here.
#include "lang.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

enum { kHookStep = 100000, kMostSteps = 3000 }; // 300 million instructions: a few seconds
enum { kHard = 2 }; // hard memory limit, as a multiple of the limit

static void count(lua_State *lua, lua_Debug *ar) {
  (void)ar;
  Compiler *c = front_compiler(lua);
  if (++c->usage->steps > kMostSteps)
    err_at(c, front_here(lua),
           "the model file runs too long (%d million instructions); is there an endless loop?",
           kMostSteps / (1000000 / kHookStep));
}

// Runs before the next instruction, where the line is known and the collector may run: is live
// memory above the limit? Some room must remain, or every instruction would collect.
static void weigh(lua_State *lua, lua_Debug *ar) {
  (void)ar;
  Compiler *c = front_compiler(lua);
  lua_sethook(lua, count, LUA_MASKCOUNT, kHookStep);
  lua_gc(lua, LUA_GCCOLLECT);
  if (c->usage->used > c->usage->limit / 16 * 15)
    err_at(c, front_here(lua), "the model file needs more than %zu MB of memory",
           c->usage->limit >> 20);
}

// NOTE: Lua reports a refused allocation after leaving the function, and its line is lost. So
// allocations up to twice the limit succeed, and weigh() reports the excess one instruction later.
static void *allocate(void *ud, void *old, size_t old_size, size_t size) {
  Compiler *c = ud;
  Usage *u = c->usage;
  if (!old) old_size = 0; // old_size holds a type tag then
  if (!size) {
    free(old);
    u->used -= old_size;
    return NULL;
  }
  if (size > old_size && u->used + (size - old_size) > kHard * u->limit) return NULL;
  void *p = realloc(old, size);
  if (p) u->used += size - old_size;
  if (p && u->hooked && u->used > u->limit) lua_sethook(c->lua, weigh, LUA_MASKCOUNT, 1);
  return p;
}

lua_State *sandbox_state(Compiler *c, size_t memory_limit) {
  c->usage = arena_alloc(c->arena, sizeof *c->usage);
  c->usage->limit = memory_limit;
  lua_State *lua = lua_newstate(allocate, c);
  if (lua) *(Compiler **)lua_getextraspace(lua) = c; // new threads inherit it
  return lua;
}

void sandbox_limit(lua_State *lua, bool on) {
  Usage *u = front_compiler(lua)->usage;
  u->steps = 0;
  u->hooked = on;
  lua_sethook(lua, on ? count : NULL, on ? LUA_MASKCOUNT : 0, kHookStep);
}

// ---- bounded versions of library functions ----------------------------------------------------

enum { kMostItems = 1 << 24 };

static int bounded_move(lua_State *lua) { // table.move(a, first, last, to [, b])
  lua_Integer first = luaL_checkinteger(lua, 2), last = luaL_checkinteger(lua, 3);
  if (last >= first && (lua_Unsigned)last - (lua_Unsigned)first >= kMostItems)
    return luaL_error(lua, "table.move: too many elements");
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
  return lua_gettop(lua);
}

static int bounded_range(lua_State *lua) { // table.unpack(a, i, j), table.concat(a, sep, i, j)
  int at = (int)lua_tointeger(lua, lua_upvalueindex(2));
  lua_Integer first = luaL_optinteger(lua, at, 1);
  lua_Integer last = luaL_optinteger(lua, at + 1, 0);
  if (last >= first && (lua_Unsigned)last - (lua_Unsigned)first >= kMostItems)
    return luaL_error(lua, "table: too many elements");
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
  return lua_gettop(lua);
}

static int bounded_rep(lua_State *lua) { // string.rep
  size_t n;
  luaL_checklstring(lua, 1, &n);
  lua_Integer times = luaL_checkinteger(lua, 2);
  size_t gap = 0;
  luaL_optlstring(lua, 3, "", &gap);
  if (times > 0 && (double)(n + gap + 1) * (double)times > 16e6)
    return luaL_error(lua, "string.rep: longer than 16 MB");
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, lua_gettop(lua) - 1, 1);
  return 1;
}

static int plain_find(lua_State *lua) { // string.find without patterns
  size_t n, m;
  luaL_checklstring(lua, 1, &n);
  luaL_checklstring(lua, 2, &m);
  if ((double)n * (double)m > 1e8) return luaL_error(lua, "string.find: the strings are too long");
  lua_settop(lua, 3);
  if (lua_isnil(lua, 3)) lua_pushinteger(lua, 1), lua_replace(lua, 3);
  lua_pushboolean(lua, true);
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, 4, 2);
  return 2;
}

static int
plain_table(lua_State *lua) { // table.insert, table.remove: only for tables without metamethods
  luaL_checktype(lua, 1, LUA_TTABLE);
  if (lua_getmetatable(lua, 1))
    return luaL_error(lua, "table: not offered for tables with a metatable");
  lua_pushvalue(lua, lua_upvalueindex(1));
  lua_insert(lua, 1);
  lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
  return lua_gettop(lua);
}

static int safe_setmetatable(lua_State *lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  luaL_checktype(lua, 2, LUA_TTABLE);
  if (lua_getfield(lua, 2, "__gc") != LUA_TNIL)
    return luaL_error(lua, "setmetatable: __gc is not offered to model files");
  lua_pop(lua, 1);
  lua_settop(lua, 2);
  lua_setmetatable(lua, 1);
  return 1;
}

// pairs visits numbers, then strings, each in order: Lua's order differs between processes, and a
// model must yield the same graph each time.
static const char ordered_pairs[] =
    "local next, type, sort, rawget = next, type, table.sort, rawget\n"
    "local rank = {number = 1, string = 2}\n"
    "local function before(a, b)\n"
    "  local x, y = rank[type(a)] or 3, rank[type(b)] or 3\n"
    "  if x ~= y or x == 3 then return x < y end\n"
    "  return a < b\n"
    "end\n"
    "return function(t)\n"
    "  local keys, n, i = {}, 0, 0\n"
    "  for key in next, t do n = n + 1; keys[n] = key end\n"
    "  sort(keys, before)\n"
    "  return function()\n"
    "    repeat i = i + 1 until keys[i] == nil or rawget(t, keys[i]) ~= nil\n"
    "    if keys[i] ~= nil then return keys[i], rawget(t, keys[i]) end\n"
    "  end\n"
    "end\n";

static int say(lua_State *lua) { // print, to stderr: stdout is for results
  if (front_compiler(lua)->options.again) return 0;
  int n = lua_gettop(lua);
  for (int i = 1; i <= n; i++) {
    fprintf(stderr, i > 1 ? "\t%s" : "%s", luaL_tolstring(lua, i, NULL));
    lua_pop(lua, 1);
  }
  fputc('\n', stderr);
  return 0;
}

// ---- the environment --------------------------------------------------------------------------

// An undefined name is an error. nil would select an option's default: x:pad({1, 1}, reflect), keep
// = True.
static int no_variable(lua_State *lua) { // __index(environment, name)
  static const struct {
    const char *name, *hint;
  } known[] = {
      {"nn", "begin with: local nn = require \"nn\""},
      {"torch", "use nn"},
      {"F", "use nn"},
      {"True", "it is true in Lua"},
      {"False", "it is false in Lua"},
      {"None", "it is nil in Lua"},
      {"len", "it is #list in Lua, of a tensor x.shape[1]"},
      {"range", "Lua counts by for i = 1, n do, nn.arange(n) makes a tensor"},
  };
  const char *name = luaL_tolstring(lua, 2, NULL);
  const char *hint = "a model file has nn, and of Lua string, table, math and utf8; texts stand "
                     "in quotes";
  for (size_t i = 0; i < LENGTH(known); i++)
    if (!strcmp(name, known[i].name)) hint = known[i].hint;
  err_at(front_compiler(lua), front_here(lua), "there is no variable '%s'; %s", name, hint);
}

// Copies the named fields of the global table `from` (NULL: the globals) to the table on top.
static void offer(lua_State *lua, const char *from, const char *const *names) {
  if (from)
    lua_getglobal(lua, from);
  else
    lua_pushglobaltable(lua);
  for (; *names; names++) {
    lua_getfield(lua, -1, *names);
    lua_setfield(lua, -3, *names);
  }
  lua_pop(lua, 1);
}

// Wraps the function field `name` of library `from` in `wrapper`.
static void wrap(lua_State *lua, const char *from, const char *name, lua_CFunction wrapper,
                 int at) {
  lua_getglobal(lua, from);
  lua_getfield(lua, -1, name);
  lua_pushinteger(lua, at);
  lua_pushcclosure(lua, wrapper, 2);
  lua_setfield(lua, -3, name);
  lua_pop(lua, 1);
}

static void open_strings(lua_State *lua) {
  static const char *const names[] = {"byte",    "char", "format", "len", "lower",
                                      "reverse", "sub",  "upper",  NULL};
  lua_newtable(lua);
  offer(lua, "string", names);
  wrap(lua, "string", "rep", bounded_rep, 0);
  wrap(lua, "string", "find", plain_find, 0);
  lua_pushliteral(lua, "");
  lua_getmetatable(lua, -1); // s:method() uses the same functions
  lua_pushvalue(lua, -3);
  lua_setfield(lua, -2, "__index");
  lua_pushboolean(lua, false);
  lua_setfield(lua, -2, "__metatable");
  lua_pop(lua, 2);
  lua_setfield(lua, -2, "string");
}

void sandbox_open(lua_State *lua) {
  static const char *const base[] = {
      "assert", "error",    "ipairs",   "next", "rawequal", "rawget", "rawlen", "rawset",
      "select", "tonumber", "tostring", "type", "_VERSION", "lt",     "le",     "gt",
      "ge",     "eq",       "where",    "erf",  "tanh",     NULL};
  static const char *const maths[] = {"abs",       "ceil", "floor", "max",        "min",
                                      "sqrt",      "exp",  "log",   "sin",        "cos",
                                      "tan",       "pi",   "huge",  "maxinteger", "mininteger",
                                      "tointeger", "type", "fmod",  "modf",       NULL};
  static const char *const tables[] = {"pack", NULL};
  lua_newtable(lua);
  offer(lua, NULL, base);
  lua_pushcfunction(lua, safe_setmetatable);
  lua_setfield(lua, -2, "setmetatable");
  if (luaL_dostring(lua, ordered_pairs)) die("pairs: %s", lua_tostring(lua, -1));
  lua_setfield(lua, -2, "pairs");
  lua_pushcfunction(lua, say);
  lua_setfield(lua, -2, "print");
  lua_newtable(lua);
  offer(lua, "math", maths);
  lua_setfield(lua, -2, "math");
  lua_newtable(lua);
  offer(lua, "table", tables);
  wrap(lua, "table", "insert", plain_table, 0);
  wrap(lua, "table", "remove", plain_table, 0);
  wrap(lua, "table", "move", bounded_move, 0);
  wrap(lua, "table", "unpack", bounded_range, 2);
  wrap(lua, "table", "concat", bounded_range, 3);
  lua_setfield(lua, -2, "table");
  open_strings(lua);
  lua_pushvalue(lua, -1);
  lua_setfield(lua, -2, "_G");
  lua_createtable(lua, 0, 1);
  lua_pushcfunction(lua, no_variable);
  lua_setfield(lua, -2, "__index");
  lua_setmetatable(lua, -2);
}
