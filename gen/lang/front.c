// front.c: what a model file can call. Calls become nodes that remember the file and line they come
// from. The layers a model uses are written in Lua (nn.lua) over the few functions here.
#include "lang.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { kMostName = 120 };

void front_begin(Compiler *c) {
  precision_parse(c->options.dtype, &c->precision);
  c->scope = "";
  c->call = 0;
}

// The compilation a Lua state belongs to.
Compiler *front_compiler(lua_State *lua) {
  return *(Compiler **)lua_getextraspace(lua);
}

// ---- where we are in the user's text ----------------------------------------------------------

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

static int lua_fail(lua_State *lua) { // fail(message)
  err_at(front_compiler(lua), front_here(lua), "%s", luaL_checkstring(lua, 1));
  return 0;
}

// ---- tensors ----------------------------------------------------------------------------------

static int push_node(lua_State *lua, Node *n) {
  *(Node **)lua_newuserdatauv(lua, sizeof n, 0) = n;
  luaL_setmetatable(lua, kTensorType);
  return 1;
}

// A number of the model file is an integer or a float, as Lua has it.
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
    bool whole = lua_isinteger(lua, at) && fabs(value) <= INT32_MAX;
    return add_const(front_compiler(lua), value, whole);
  }
  Node **n = luaL_testudata(lua, at, kTensorType);
  if (!n)
    err_at(front_compiler(lua), front_here(lua), "%s: input %d is a %s, not a tensor", op->name, at,
           luaL_typename(lua, at));
  return *n;
}

static const char *node_name(const Compiler *c, const char *op) {
  if (c->call) return c->scope;
  return *c->scope ? arena_printf(c->arena, "%s.%s", c->scope, op) : op;
}

static Node *place_node(lua_State *lua, Node *n) {
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
  if (!ok || v > INT32_MAX || v < INT32_MIN)
    err_at(front_compiler(lua), front_here(lua), "%s: %s must be whole numbers, not %s", op->name,
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

// The attributes of `op` from the table at `at`; returns the length of the last list read.
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
  Node *n = place_node(lua, graph_add(c->graph, op, nin, in, &attr, NULL));
  n->type.rank = length; // reshape: the rank of its result
  shape_infer(c, n);
  return push_node(lua, n);
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

static int lua_id(lua_State *lua) { // id(tensor): inputs have smaller ones
  lua_pushinteger(lua, (*(Node **)luaL_checkudata(lua, 1, kTensorType))->id);
  return 1;
}

// node(tensor) -> {op, class, inputs, stops, grad (of its row), its attributes}
static int lua_node(lua_State *lua) {
  Node *n = *(Node **)luaL_checkudata(lua, 1, kTensorType);
  lua_newtable(lua);
  lua_pushstring(lua, n->op->name);
  lua_setfield(lua, -2, "op");
  lua_pushstring(lua, op_class_name(n->op->cls));
  lua_setfield(lua, -2, "class");
  lua_pushboolean(lua, n->op->cls == OpSource || n->op->flags & FlagStop);
  lua_setfield(lua, -2, "stops");
  if (n->op->grad != LUA_NOREF) {
    lua_rawgeti(lua, LUA_REGISTRYINDEX, n->op->grad);
    lua_setfield(lua, -2, "grad");
  }
  lua_newtable(lua);
  for (int i = 0; i < n->nin; i++) {
    push_node(lua, n->in[i]);
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
    push_node(lua, g->nodes[i]);
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

// ---- sources ----------------------------------------------------------------------------------

static Type read_shape(lua_State *lua, int at, const char *what) {
  int64_t dim[MaxRank];
  if (!lua_istable(lua, at))
    err_at(front_compiler(lua), front_here(lua), "%s: wants a shape, as in {1, 3, 224, 224}", what);
  int rank = (int)lua_rawlen(lua, at);
  if (rank > MaxRank)
    err_at(front_compiler(lua), front_here(lua), "%s: more than %d dimensions", what, MaxRank);
  for (int d = 0; d < rank; d++) {
    int ok;
    lua_geti(lua, at, d + 1);
    dim[d] = lua_tointegerx(lua, -1, &ok);
    if (!ok)
      err_at(front_compiler(lua), front_here(lua), "%s: dimension %d is %s, not a whole number",
             what, d + 1, luaL_tolstring(lua, -1, NULL));
    lua_pop(lua, 1);
  }
  return type_make(DtF32, rank, dim);
}

static void check_name(lua_State *lua, const char *name) {
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

// Every input and parameter has a name of its own: the registry keeps who has it.
static void claim_name(lua_State *lua, const char *name, Node *n) {
  lua_getfield(lua, LUA_REGISTRYINDEX, "nngen.names");
  if (lua_getfield(lua, -1, name) != LUA_TNIL) {
    Node *other = lua_touserdata(lua, -1);
    err_at(front_compiler(lua), front_here(lua), "'%s' is declared already, at %s:%d", name,
           other->loc.file, other->loc.line);
  }
  lua_pushlightuserdata(lua, n);
  lua_setfield(lua, -3, name);
  lua_pop(lua, 2);
}

static Node *add_source(lua_State *lua, const char *op, const Attr *attr) {
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1);
  check_name(lua, name);
  Type t = read_shape(lua, 2, name);
  Node *n = place_node(lua, graph_add(c->graph, op_need(c, op), 0, NULL, attr, NULL));
  n->name = arena_dup(c->arena, name);
  n->type = t;
  claim_name(lua, n->name, n);
  shape_infer(c, n);
  return n;
}

static Dtype read_dtype(lua_State *lua, int at) {
  Dtype dtype;
  const char *name = luaL_checkstring(lua, at);
  if (!dtype_parse(name, &dtype) || dtype == DtF64)
    err_at(front_compiler(lua), front_here(lua),
           "'%s' is no dtype: f32, f16, bf16, i32, i64, u8 or bool", name);
  return dtype;
}

static int lua_input(lua_State *lua) { // input(name, shape, dtype, below)
  Attr attr = {.below = luaL_checkinteger(lua, 4)};
  Dtype dtype = read_dtype(lua, 3);
  Node *n = add_source(lua, "input", &attr);
  n->type.dtype = dtype;
  if (attr.below < 0 || (attr.below && dtype_is_float(dtype)))
    err_at(front_compiler(lua), n->loc, "input '%s': below is of integers, and at least 1",
           n->name);
  return push_node(lua, n);
}

static int lua_index(lua_State *lua) { // index(shape, axis), axis from 0
  Compiler *c = front_compiler(lua);
  Type t = read_shape(lua, 1, "index");
  Attr attr = {.axis = luaL_checkinteger(lua, 2)};
  Node *n = place_node(lua, graph_add(c->graph, op_need(c, "index"), 0, NULL, &attr, NULL));
  n->type = t;
  n->type.dtype = DtI32;
  shape_infer(c, n);
  return push_node(lua, n);
}

static int lua_dtype(lua_State *lua) { // dtype(tensor) -> its name
  Node *n = *(Node **)luaL_checkudata(lua, 1, kTensorType);
  lua_pushstring(lua, dtype_name(n->type.dtype));
  return 1;
}

static int lua_dtype_number(lua_State *lua) { // dtype_number(name): for an attribute
  lua_pushinteger(lua, read_dtype(lua, 1));
  return 1;
}

static int lua_precision(lua_State *lua) { // precision(name) -> the one before; of nodes to come
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1);
  const char *before = precision_name(c->precision);
  if (!precision_parse(name, &c->precision))
    err_at(c, front_here(lua), "precision: '%s' is none of fp32, tf32, fp16, bf16", name);
  lua_pushstring(lua, before);
  return 1;
}

// kind, a, b: what a parameter or state holds at first.
static Attr read_init(lua_State *lua, int at) {
  static const char *const kinds[] = {"none", "constant", "normal", "uniform", NULL};
  return (Attr){.init = luaL_checkoption(lua, at, "normal", kinds),
                .init_a = luaL_optnumber(lua, at + 1, 0),
                .init_b = luaL_optnumber(lua, at + 2, 1)};
}

static int lua_param(lua_State *lua) { // param(name, shape, kind, a, b)
  Attr attr = read_init(lua, 3);
  return push_node(lua, add_source(lua, "param", &attr));
}

static int lua_full(lua_State *lua) { // full(shape, value): a constant
  Compiler *c = front_compiler(lua);
  Type t = read_shape(lua, 1, "full");
  Attr attr = {.value = luaL_checknumber(lua, 2)};
  Node *n = place_node(lua, graph_add(c->graph, op_need(c, "const"), 0, NULL, &attr, NULL));
  n->type = t;
  shape_infer(c, n);
  return push_node(lua, n);
}

static int lua_output(lua_State *lua) { // output(name, tensor)
  const char *name = luaL_checkstring(lua, 1);
  check_name(lua, name);
  Node **n = luaL_testudata(lua, 2, kTensorType);
  if (!n)
    err_at(front_compiler(lua), front_here(lua), "output '%s' is a %s, not a tensor", name,
           luaL_typename(lua, 2));
  claim_name(lua, name, *n);
  graph_output(front_compiler(lua)->graph, name, *n, front_here(lua), front_compiler(lua)->entry);
  return 0;
}

static int lua_state(lua_State *lua) { // state(name, shape, dtype, kind, a, b)
  Attr attr = read_init(lua, 4);
  Dtype dtype = read_dtype(lua, 3);
  Node *n = add_source(lua, "state", &attr);
  n->type.dtype = dtype;
  n->updated = true;
  n->fixed = false;
  return push_node(lua, n);
}

// An entry updates a state once: an error names the line of the first update.
static void check_once(lua_State *lua, const Node *state) {
  Compiler *c = front_compiler(lua);
  for (int i = 0; i < c->graph->nupdates; i++) {
    const Update *u = &c->graph->updates[i];
    if (u->state == state && u->entry == c->entry)
      err_at(c, front_here(lua), "update: '%s' is updated already, at %s:%d", state->name,
             u->loc.file, u->loc.line);
  }
}

static int lua_update(lua_State *lua) { // update(state, value)
  Compiler *c = front_compiler(lua);
  Node **state = luaL_testudata(lua, 1, kTensorType), **value = luaL_testudata(lua, 2, kTensorType);
  bool holds = state && (*state)->op->cls == OpSource &&
               ((*state)->op->form == SourceState || (*state)->op->form == SourceParam);
  if (!holds || !value)
    err_at(c, front_here(lua), "update: wants a state or a parameter, and a tensor");
  const Type *s = &(*state)->type, *v = &(*value)->type;
  if (!type_same_shape(s, v) || dtype_is_float(s->dtype) != dtype_is_float(v->dtype))
    err_at(c, front_here(lua), "update: '%s' is %s %s, the new value %s %s", (*state)->name,
           dtype_name(s->dtype), type_shape(s).s, dtype_name(v->dtype), type_shape(v).s);
  check_once(lua, *state);
  (*state)->updated = true;
  graph_update(c->graph, *state, *value, front_here(lua), c->entry);
  return 0;
}

static int lua_entry(lua_State *lua) { // entry(name) -> the one before; of outputs to come
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1), *before = c->entries[c->entry];
  check_name(lua, name);
  if (!strcmp(name, "init")) err_at(c, front_here(lua), "entry: 'init' is the compiler's own");
  for (c->entry = 0; c->entry < c->nentries && strcmp(c->entries[c->entry], name);) c->entry++;
  if (c->entry == c->nentries) {
    c->entries = arena_grow(c->arena, c->entries, c->nentries, sizeof *c->entries);
    c->entries[c->nentries++] = arena_dup(c->arena, name);
  }
  lua_pushstring(lua, before);
  return 1;
}

// ---- settings and places ----------------------------------------------------------------------

static int lua_setting(lua_State *lua) { // setting(name, default as text) -> text given, or nil
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1), *given = NULL;
  for (int i = 0; i < c->options.nset; i++)
    if (!strcmp(c->options.set_name[i], name)) given = c->options.set_value[i];
  c->settings = arena_grow(c->arena, c->settings, c->nsettings, sizeof *c->settings);
  const char *fallback = arena_dup(c->arena, luaL_checkstring(lua, 2));
  c->settings[c->nsettings++] =
      (Setting){arena_dup(c->arena, name), given ? given : fallback, fallback};
  lua_pushstring(lua, given);
  return 1;
}

// place(scope, in_call): in_call begins a call, false ends it
static int lua_place(lua_State *lua) {
  Compiler *c = front_compiler(lua);
  const char *scope = luaL_checkstring(lua, 1);
  if (*scope) check_name(lua, scope);
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
  enum { kMostNames = 512 };
  const char *names[kMostNames];
  int count = 0;
  luaL_checkstack(lua, kMostNames + 1, "too many names");
  for (int i = 1; count < kMostNames && lua_geti(lua, 2, i) == LUA_TSTRING; i++)
    names[count++] = lua_tostring(lua, -1); // kept on the stack, so alive
  lua_pushstring(lua, text_nearest(luaL_checkstring(lua, 1), names, count));
  return 1;
}

// nn.op_row{...} of a model file: a row of its own, callable as nn.op.NAME at once.
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
    {"input", lua_input},
    {"param", lua_param},
    {"output", lua_output},
    {"shape", lua_shape},
    {"is_tensor", lua_is_tensor},
    {"id", lua_id},
    {"node", lua_node},
    {"parameters", lua_parameters},
    {"setting", lua_setting},
    {"place", lua_place},
    {"full", lua_full},
    {"rows", lua_rows},
    {"nearest", lua_nearest},
    {"fail", lua_fail},
    {"index", lua_index},
    {"dtype", lua_dtype},
    {"dtype_number", lua_dtype_number},
    {"precision", lua_precision},
    {"state", lua_state},
    {"update", lua_update},
    {"entry", lua_entry},
    {NULL, NULL},
};

void front_push_core(Compiler *c) {
  lua_State *lua = c->lua;
  luaL_newlib(lua, functions);
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
