// front.c: the functions that a model file can call. Calls create nodes that record their file and
// line. The layers are written in Lua (nn.lua) on top of the few functions here.
#include "lang.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void front_begin(Compiler *c) {
  precision_parse(c->options.dtype, &c->precision);
  c->scope = "";
  c->call = 0;
}

// The compiler that a Lua state belongs to.
Compiler *front_compiler(lua_State *lua) {
  return *(Compiler **)lua_getextraspace(lua);
}

// ---- source locations -------------------------------------------------------------------------

// The innermost line of a model file on the Lua stack.
Loc front_here(lua_State *lua) {
  lua_Debug ar;
  for (int level = 0; lua_getstack(lua, level, &ar); level++) {
    lua_getinfo(lua, "Sl", &ar);
    if (ar.source[0] != '@') continue;
    Compiler *c = front_compiler(lua);
    const char **last = &c->source_path; // most nodes come from one file
    if (!*last || strcmp(*last, ar.source + 1)) *last = arena_dup(c->arena, ar.source + 1);
    return (Loc){*last, ar.currentline};
  }
  return (Loc){0};
}

// fail(message, f): reports at the first line of the function f, if it is given and in a model file
static int lua_fail(lua_State *lua) {
  lua_Debug ar = {0};
  Loc loc = front_here(lua);
  const char *message = luaL_checkstring(lua, 1);
  if (lua_isfunction(lua, 2)) {
    lua_pushvalue(lua, 2);
    lua_getinfo(lua, ">S", &ar);
    if (ar.source[0] == '@')
      loc = (Loc){arena_dup(front_compiler(lua)->arena, ar.source + 1), ar.linedefined};
  }
  err_at(front_compiler(lua), loc, "%s", message);
  return 0;
}

// ---- tensors ----------------------------------------------------------------------------------

int front_push_node(lua_State *lua, Node *n) {
  *(Node **)lua_newuserdatauv(lua, sizeof n, 0) = n;
  luaL_setmetatable(lua, kTensorType);
  return 1;
}

// A Lua number, integer or float.
static Node *add_const(Compiler *c, double value, bool whole) {
  Attr attr = {.value = value};
  Node *n = graph_add(c->graph, op_need(c, "const"), 0, NULL, &attr, NULL);
  n->type = type_make(whole ? DtI32 : DtF32, 0, NULL);
  n->precision = c->precision;
  n->call = c->call;
  n->name = "";
  return n;
}

static Node *to_node(lua_State *lua, int at, const Op *op) {
  if (lua_type(lua, at) == LUA_TNUMBER) {
    double value = lua_tonumber(lua, at);
    bool whole = lua_isinteger(lua, at) && value >= INT32_MIN && value <= INT32_MAX;
    return add_const(front_compiler(lua), value, whole);
  }
  Node **n = luaL_testudata(lua, at, kTensorType);
  if (!n)
    err_at(front_compiler(lua), front_here(lua), "%s: input %d is a %s, not a tensor", op->name, at,
           luaL_typename(lua, at));
  return *n;
}

// An integer beyond i32 with integers only: no dtype holds both.
static void check_literals(lua_State *lua, const Op *op, Node **in, int nin) {
  bool where = op->typing == TypeWhere;
  bool whole = op->typing == TypeDraw || op->typing == TypeWhole; // ops without floats
  bool floats = op->typing != TypeArith && op->typing != TypeCompare && !where && !whole;
  for (int i = where; i < nin; i++)
    floats = floats || (!node_is_number(in[i]) && dtype_is_float(in[i]->type.dtype));
  for (int i = where; i < nin && !floats; i++) {
    int64_t value = lua_isinteger(lua, i + 1) ? lua_tointeger(lua, i + 1) : 0;
    const char *hint = arena_printf(front_compiler(lua)->arena, "; %lld.0 makes floats of them",
                                    (long long)value);
    if (value < INT32_MIN || value > INT32_MAX)
      err_at(front_compiler(lua), front_here(lua),
             "%s: integers are of 32 bits, which %lld is over%s", op->name, (long long)value,
             whole ? "" : hint);
  }
}

static const char *node_name(const Compiler *c, const char *op) {
  if (c->call) return c->scope;
  return *c->scope ? arena_printf(c->arena, "%s.%s", c->scope, op) : op;
}

Node *front_place_node(lua_State *lua, Node *n) {
  Compiler *c = front_compiler(lua);
  n->loc = front_here(lua);
  n->name = node_name(c, n->op->name);
  n->precision = c->precision;
  n->call = c->call ? c->call : ++c->ncalls;
  return n;
}

static int64_t to_integer(lua_State *lua, const Op *op, const char *what) {
  int ok;
  int64_t v = lua_tointegerx(lua, -1, &ok);
  if (!ok)
    err_at(front_compiler(lua), front_here(lua), "%s: %s must be whole numbers, not %s", op->name,
           what, luaL_tolstring(lua, -1, NULL));
  if (v > INT32_MAX || v < INT32_MIN)
    err_at(front_compiler(lua), front_here(lua), "%s: %s must be less than 2^31, not %s", op->name,
           what, luaL_tolstring(lua, -1, NULL));
  return v;
}

// Reads one attribute from the value on top: a number, or a list of as many as the field holds.
static int read_field(lua_State *lua, const Op *op, const AttrField *field, Attr *attr) {
  int most = field->count < 0 ? MaxRank : field->count, count = 1;
  bool list = lua_istable(lua, -1);
  if (list) count = (int)lua_rawlen(lua, -1);
  if (count > most)
    err_at(front_compiler(lua), front_here(lua), "%s: %s has %d elements, at most %d", op->name,
           field->name, count, most);
  for (int i = 0; i < count; i++) {
    if (list) lua_geti(lua, -1, i + 1);
    char *to = (char *)attr + field->offset;
    if (field->real)
      ((double *)to)[i] = luaL_checknumber(lua, -1);
    else
      ((int64_t *)to)[i] = to_integer(lua, op, field->name);
    if (list) lua_pop(lua, 1);
  }
  return count;
}

// Reads the attributes of `op` from the table at `at`; returns the length of the last list.
static int read_attrs(lua_State *lua, int at, const Op *op, Attr *attr) {
  int length = 0;
  for (int i = 0; i < attr_nfields; i++) {
    if (!(op->attrs >> i & 1)) continue;
    if (lua_getfield(lua, at, attr_fields[i].name) != LUA_TNIL)
      length = read_field(lua, op, &attr_fields[i], attr);
    lua_pop(lua, 1);
  }
  return length;
}

// The functions nn.op.NAME(input, ..., {attributes}); upvalue 1 is the row.
static int lua_op(lua_State *lua) {
  Compiler *c = front_compiler(lua);
  const Op *op = lua_touserdata(lua, lua_upvalueindex(1));
  int nin = lua_gettop(lua);
  Attr attr = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
  int length = 0;
  if (nin && lua_istable(lua, nin)) length = read_attrs(lua, nin--, op, &attr);
  if (op->nin >= 0 ? nin != op->nin : nin < 1)
    err_at(front_compiler(lua), front_here(lua), "%s: takes %d tensors, got %d", op->name,
           op->nin < 0 ? 1 : op->nin, nin);
  Node **in = arena_alloc(c->arena, sizeof *in * (size_t)nin);
  for (int i = 0; i < nin; i++) in[i] = to_node(lua, i + 1, op);
  check_literals(lua, op, in, nin);
  Node *n = front_place_node(lua, graph_add(c->graph, op, nin, in, &attr, NULL));
  n->type.rank = length; // reshape: the rank of the result
  shape_infer(c, n);
  return front_push_node(lua, empty_replaced(c, n));
}

static int lua_shape(lua_State *lua) { // shape(tensor) -> list
  Node *n = *(Node **)luaL_checkudata(lua, 1, kTensorType);
  lua_newtable(lua);
  for (int d = 0; d < n->type.rank; d++) {
    lua_pushinteger(lua, n->type.dim[d]);
    lua_seti(lua, -2, d + 1);
  }
  return 1;
}

static int lua_id(lua_State *lua) { // id(tensor): inputs of a node have smaller ids
  lua_pushinteger(lua, (*(Node **)luaL_checkudata(lua, 1, kTensorType))->id);
  return 1;
}

static int lua_name(lua_State *lua) { // name(tensor): a source's name, else its layer's
  lua_pushstring(lua, (*(Node **)luaL_checkudata(lua, 1, kTensorType))->name);
  return 1;
}

static int lua_trains(lua_State *lua) { // trains(): are the entries train and eval compiled?
  lua_pushboolean(lua, front_compiler(lua)->options.trains);
  return 1;
}

// node(tensor) -> {op, class, form, inputs, stops, grad (of its row), value (of a number), its
// attributes}
static int lua_node(lua_State *lua) {
  Node *n = *(Node **)luaL_checkudata(lua, 1, kTensorType);
  lua_newtable(lua);
  lua_pushstring(lua, n->op->name);
  lua_setfield(lua, -2, "op");
  lua_pushstring(lua, op_class_name(n->op->cls));
  lua_setfield(lua, -2, "class");
  lua_pushstring(lua, rows_form(n->op));
  lua_setfield(lua, -2, "form");
  lua_pushboolean(lua, n->op->cls == OpSource || n->op->flags & FlagStop);
  lua_setfield(lua, -2, "stops");
  if (node_is_literal(n)) {
    lua_pushnumber(lua, n->attr.value);
    lua_setfield(lua, -2, "value");
  }
  if (n->op->grad != LUA_NOREF) {
    lua_rawgeti(lua, LUA_REGISTRYINDEX, n->op->grad);
    lua_setfield(lua, -2, "grad");
  }
  lua_newtable(lua);
  for (int i = 0; i < n->nin; i++) {
    front_push_node(lua, n->in[i]);
    lua_seti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, "inputs");
  for (int i = 0; i < attr_nfields; i++) {
    const AttrField *f = &attr_fields[i];
    const int64_t *value = (const int64_t *)(const void *)((const char *)&n->attr + f->offset);
    if (!(n->op->attrs >> i & 1) || f->real) continue;
    if (f->count == 1) {
      lua_pushinteger(lua, value[0]);
    } else {
      lua_newtable(lua);
      for (int j = 0; j < (f->count < 0 ? MaxRank : f->count); j++) {
        lua_pushinteger(lua, value[j]);
        lua_seti(lua, -2, j + 1);
      }
    }
    lua_setfield(lua, -2, f->name);
  }
  return 1;
}

static int lua_parameters(lua_State *lua) { // parameters() -> list
  const Graph *g = front_compiler(lua)->graph;
  int count = 0;
  lua_newtable(lua);
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i]->op->cls != OpSource || g->nodes[i]->op->form != SourceParam) continue;
    front_push_node(lua, g->nodes[i]);
    lua_seti(lua, -2, ++count);
  }
  return 1;
}

static int lua_is_tensor(lua_State *lua) {
  lua_pushboolean(lua, luaL_testudata(lua, 1, kTensorType) != NULL);
  return 1;
}

static int lua_to_text(lua_State *lua) {
  Node *n = *(Node **)luaL_checkudata(lua, 1, kTensorType);
  lua_pushfstring(lua, "tensor %s of %s", type_shape(&n->type).s, n->op->name);
  return 1;
}

// ---- settings and scopes ----------------------------------------------------------------------

// setting(name, default as text, whose) -> the text given and its option ("--lr 1", "--set lr=1"),
// or nil
static int lua_setting(lua_State *lua) {
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1), *given = NULL, *flag = NULL;
  for (int i = 0; i < c->options.nset; i++)
    if (!strcmp(c->options.set_name[i], name)) {
      given = c->options.set_value[i];
      flag = c->options.set_flag ? c->options.set_flag[i] : NULL;
    }
  c->settings = arena_grow(c->arena, c->settings, c->nsettings, sizeof *c->settings);
  static const char *const owners[] = {"of the model", "of the run", "of the verb", NULL};
  SettingOwner owner = (SettingOwner)luaL_checkoption(lua, 3, owners[0], owners);
  const char *fallback = arena_dup(c->arena, luaL_checkstring(lua, 2));
  c->settings[c->nsettings++] =
      (Setting){arena_dup(c->arena, name), given ? given : fallback, fallback, owner};
  lua_pushstring(lua, given);
  if (!given) return 1;
  if (flag && strcmp(flag, "sweep"))
    lua_pushfstring(lua, "--%s %s", flag, given);
  else
    lua_pushfstring(lua, "--%s %s=%s", flag ? flag : "set", name, given);
  return 2;
}

void front_check_name(lua_State *lua, const char *name) {
  enum { kMostName = 120 };
  if (!*name) err_at(front_compiler(lua), front_here(lua), "a name may not be empty");
  if (strlen(name) > kMostName)
    err_at(front_compiler(lua), front_here(lua), "name '%.20s...': more than %d characters", name,
           kMostName);
  for (const char *s = name; *s; s++)
    if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.", *s) ||
        (*s == '.' && (s == name || !s[1] || s[1] == '.')))
      err_at(front_compiler(lua), front_here(lua),
             "name '%s': words of letters, digits and _, with . between", name);
}

// place(scope, in_call): in_call true begins a call, false ends it
static int lua_place(lua_State *lua) {
  Compiler *c = front_compiler(lua);
  const char *scope = luaL_checkstring(lua, 1);
  if (*scope) front_check_name(lua, scope);
  c->scope = arena_dup(c->arena, scope);
  if (!lua_toboolean(lua, 2))
    c->call = 0;
  else if (!c->call)
    c->call = ++c->ncalls;
  return 0;
}

static int
lua_rows(lua_State *lua) { // rows() -> list of {name, class, nin, type}: the table of ops
  const Compiler *c = front_compiler(lua);
  lua_newtable(lua);
  for (int i = 0; i < c->nops; i++) {
    lua_newtable(lua);
    lua_pushstring(lua, c->ops[i]->name);
    lua_setfield(lua, -2, "name");
    lua_pushstring(lua, op_class_name(c->ops[i]->cls));
    lua_setfield(lua, -2, "class");
    lua_pushinteger(lua, c->ops[i]->nin);
    lua_setfield(lua, -2, "nin");
    lua_pushstring(lua, rows_typing(c->ops[i]));
    lua_setfield(lua, -2, "type");
    lua_seti(lua, -2, i + 1);
  }
  return 1;
}

static int lua_nearest(lua_State *lua) { // nearest(word, list) -> the closest, or nil
  int count = (int)lua_rawlen(lua, 2);
  const char **names = arena_alloc(front_compiler(lua)->arena, sizeof *names * (size_t)(count + 1));
  for (int i = 0; i < count; i++) {
    lua_geti(lua, 2, i + 1);
    names[i] = luaL_checkstring(lua, -1); // the list keeps it alive
    lua_pop(lua, 1);
  }
  lua_pushstring(lua, text_nearest(luaL_checkstring(lua, 1), names, count));
  return 1;
}

static int lua_metatable_of_booleans(lua_State *lua) { // set_metatable_of_booleans(metatable)
  lua_pushboolean(lua, false);
  lua_pushvalue(lua, 1);
  lua_setmetatable(lua, -2);
  return 0;
}

// nn.op_row{...} of a model file: adds a row, callable as nn.op.NAME from then on.
static int lua_user_op(lua_State *lua) {
  luaL_checktype(lua, 1, LUA_TTABLE);
  lua_pushboolean(lua, true);
  lua_pushcclosure(lua, rows_declare, 1);
  lua_pushvalue(lua, 1);
  lua_call(lua, 1, 0);
  const Compiler *c = front_compiler(lua);
  const Op *op = c->ops[c->nops - 1];
  lua_pushstring(lua, op->name);
  lua_pushlightuserdata(lua, (void *)op);
  lua_pushcclosure(lua, lua_op, 1);
  return 2;
}

static const luaL_Reg functions[] = {
    {"shape", lua_shape},
    {"is_tensor", lua_is_tensor},
    {"id", lua_id},
    {"name", lua_name},
    {"trains", lua_trains},
    {"node", lua_node},
    {"follow", front_follow},
    {"parameters", lua_parameters},
    {"setting", lua_setting},
    {"place", lua_place},
    {"rows", lua_rows},
    {"nearest", lua_nearest},
    {"set_metatable_of_booleans", lua_metatable_of_booleans},
    {"fail", lua_fail},
    {NULL, NULL},
};

void front_push_core(Compiler *c) {
  lua_State *lua = c->lua;
  luaL_newlib(lua, functions);
  luaL_setfuncs(lua, source_functions, 0);
  lua_newtable(lua);
  for (int i = 0; i < c->nops; i++) {
    if (c->ops[i]->cls == OpSource) continue;
    lua_pushlightuserdata(lua, (void *)c->ops[i]);
    lua_pushcclosure(lua, lua_op, 1);
    lua_setfield(lua, -2, c->ops[i]->name);
  }
  lua_setfield(lua, -2, "op");
  luaL_newmetatable(lua, kTensorType);
  lua_pushcfunction(lua, lua_to_text);
  lua_setfield(lua, -2, "__tostring");
  lua_setfield(lua, -2, "meta");
  lua_pushcfunction(lua, lua_user_op);
  lua_setfield(lua, -2, "user_op");
}
