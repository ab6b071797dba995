// sources.c: the part of `core` (front.c) for inputs, parameters, states, positions, constants,
// outputs, updates, and the entries they belong to.
#include "lang.h"

#include <float.h>
#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static Type read_shape(lua_State *lua, int at, const char *what) {
  int64_t dim[MaxRank];
  if (!lua_istable(lua, at))
    err_at(front_compiler(lua), front_here(lua), "%s: expected a shape, as in {1, 3, 224}", what);
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

static const char *how_to_share(const Node *like) {
  return like->op->form == SourceParam ? "; to share a weight, create it once, by nn.param, and "
                                         "pass it to both: nn.functional.linear(x, weight); "
                                         "to share layers, use nn.shared"
                                       : "";
}

static lua_Integer registered(lua_State *lua, const char *name) {
  lua_getfield(lua, LUA_REGISTRYINDEX, name);
  lua_Integer value = lua_tointeger(lua, -1);
  lua_pop(lua, 1);
  return value;
}

// Sets registry.table[name] to `now`; returns the previous value, 0: none.
static lua_Integer replaced(lua_State *lua, const char *table, const char *name, lua_Integer now) {
  lua_getfield(lua, LUA_REGISTRYINDEX, table);
  lua_getfield(lua, -1, name);
  lua_Integer before = lua_tointeger(lua, -1);
  lua_pop(lua, 1);
  lua_pushinteger(lua, now);
  lua_setfield(lua, -2, name);
  lua_pop(lua, 1);
  return before;
}

// The current call of a shared function (nn.shared); 0: none.
static lua_Integer shared_call(lua_State *lua) {
  return registered(lua, "nngen.shared_call");
}

// Has this shared function declared the name in an earlier call, but not in this one?
static bool first_in_call(lua_State *lua, const char *name) {
  lua_Integer call = shared_call(lua), owner = registered(lua, "nngen.shared_owner");
  bool first = replaced(lua, "nngen.name_calls", name, call) != call;
  bool own = replaced(lua, "nngen.name_owners", name, owner) == owner;
  return call && first && own;
}

// A source of this name declared by another entry, or in an earlier call of a shared function, is
// the same one if it has the same properties; otherwise names must be unique. The registry holds
// the owner of each name and the entry that declared it last.
static Node *declared_before(lua_State *lua, const char *name, const Node *like) {
  Compiler *c = front_compiler(lua);
  lua_getfield(lua, LUA_REGISTRYINDEX, "nngen.names");
  lua_getfield(lua, LUA_REGISTRYINDEX, "nngen.name_entries");
  bool known = lua_getfield(lua, -2, name) != LUA_TNIL;
  Node *n = lua_touserdata(lua, -1);
  lua_getfield(lua, -2, name);
  bool first = first_in_call(lua, name);
  bool again = known && lua_tointeger(lua, -1) == c->entry && !first;
  if (again)
    err_at(c, front_here(lua), "'%s' is declared already, at %s:%d%s", name, n->loc.file,
           n->loc.line, how_to_share(like));
  const Attr *a = &like->attr, *b = n ? &n->attr : a;
  bool alike = n && n->op == like->op && type_same_shape(&n->type, &like->type) &&
               n->type.dtype == like->type.dtype && a->init == b->init && a->init_a == b->init_a &&
               a->init_b == b->init_b && a->below == b->below;
  if (known && !alike && first)
    err_at(c, front_here(lua), "'%s' is %s here, and was %s in the call before, at %s:%d", name,
           type_shape(&like->type).s, type_shape(&n->type).s, n->loc.file, n->loc.line);
  if (known && !alike)
    err_at(c, front_here(lua), "'%s' is another tensor in the entry that declares it at %s:%d",
           name, n->loc.file, n->loc.line);
  lua_pop(lua, 2);
  lua_pushinteger(lua, c->entry);
  lua_setfield(lua, -2, name);
  lua_pop(lua, 2);
  return n;
}

// Names of tensors are unique across entries: programs find tensors by name.
static void refuse_taken(lua_State *lua, const char *name, const Node *other) {
  Compiler *c = front_compiler(lua);
  static const char *const kKinds[] = {
      [SourceInput] = "an input", [SourceParam] = "a parameter", [SourceState] = "a state"};
  const char *kind = other->op->cls == OpSource ? kKinds[other->op->form] : NULL;
  Loc loc = other->loc;
  for (int i = 0; i < c->graph->noutputs; i++) {
    const Output *o = &c->graph->outputs[i];
    if (!strcmp(o->name, name)) kind = "an output", loc = o->loc;
  }
  err_at(c, front_here(lua),
         "'%s' is declared already, as %s, at %s:%d: outputs, inputs, parameters and states have "
         "each a name of its own, in all entries (train.loss, eval.loss)",
         name, kind ? kind : "a tensor", loc.file, loc.line);
}

static void claim_name(lua_State *lua, const char *name, Node *n) { // the name must be unused
  lua_getfield(lua, LUA_REGISTRYINDEX, "nngen.names");
  if (lua_getfield(lua, -1, name) != LUA_TNIL) refuse_taken(lua, name, lua_touserdata(lua, -1));
  lua_pop(lua, 1);
  lua_pushlightuserdata(lua, n);
  lua_setfield(lua, -2, name);
  lua_pop(lua, 1);
}

// Creates an input, parameter or state with the name and shape given as arguments 1 and 2.
static Node *add_source(lua_State *lua, const char *op, Dtype dtype, const Attr *attr) {
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1);
  front_check_name(lua, name);
  Node like = {.op = op_need(c, op), .type = read_shape(lua, 2, name), .attr = *attr};
  like.type.dtype = dtype;
  Node *before = declared_before(lua, name, &like);
  if (before) return before;
  Node *n = front_place_node(lua, graph_add(c->graph, like.op, 0, NULL, attr, NULL));
  n->name = arena_dup(c->arena, name);
  n->type = like.type;
  claim_name(lua, n->name, n);
  shape_infer(c, n);
  n->type.dtype = dtype;
  return n;
}

static Dtype read_dtype(lua_State *lua, int at) {
  Dtype dtype;
  const char *name = luaL_checkstring(lua, at);
  if (!dtype_parse(name, &dtype) || dtype == DtF64)
    err_at(front_compiler(lua), front_here(lua),
           "dtype: '%s' is not a dtype: f32, f16, bf16, i32, i64, u8 or bool", name);
  return dtype;
}

static void check_below(lua_State *lua, const Node *n) { // for integer inputs and states
  int64_t below = n->attr.below;
  if (below < 0 || (below && dtype_is_float(n->type.dtype)))
    err_at(front_compiler(lua), front_here(lua),
           "%s '%s': below is of integers, and at least 1", n->op->name, n->name);
}

static int lua_input(lua_State *lua) { // input(name, shape, dtype, below)
  Attr attr = {.below = luaL_checkinteger(lua, 4)};
  Node *n = add_source(lua, "input", read_dtype(lua, 3), &attr);
  check_below(lua, n);
  return front_push_node(lua, n);
}

static int lua_index(lua_State *lua) { // index(shape, axis), axis from 0
  Compiler *c = front_compiler(lua);
  Type t = read_shape(lua, 1, "index");
  Attr attr = {.axis = luaL_checkinteger(lua, 2)};
  Node *n = front_place_node(lua, graph_add(c->graph, op_need(c, "index"), 0, NULL, &attr, NULL));
  n->type = t;
  n->type.dtype = DtI32;
  shape_infer(c, n);
  return front_push_node(lua, n);
}

static int lua_dtype(lua_State *lua) { // dtype(tensor) -> its name
  Node *n = *(Node **)luaL_checkudata(lua, 1, kTensorType);
  lua_pushstring(lua, dtype_name(n->type.dtype));
  return 1;
}

static int lua_dtype_number(lua_State *lua) { // dtype_number(name): as an attribute
  lua_pushinteger(lua, read_dtype(lua, 1));
  return 1;
}

static int lua_precision(lua_State *lua) { // precision(name) -> the previous one; of new nodes
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1);
  const char *before = precision_name(c->precision);
  if (!precision_parse(name, &c->precision))
    err_at(c, front_here(lua), "precision: '%s' is not one of fp32, tf32, fp16, bf16", name);
  lua_pushstring(lua, before);
  return 1;
}

// kind, a, b: the initial value of a parameter or state, numbers representable in fp32. A plan
// cannot hold infinity: it holds a number that becomes infinity in fp32.
static Attr read_init(lua_State *lua, int at, const char *what) {
  static const char *const kinds[] = {"none", "constant", "normal", "uniform", NULL};
  Attr attr = {.init = luaL_checkoption(lua, at, "normal", kinds),
               .init_a = luaL_optnumber(lua, at + 1, 0),
               .init_b = luaL_optnumber(lua, at + 2, 1)};
  if (attr.init == InitConstant && isinf(attr.init_a))
    attr.init_a = copysign(DBL_MAX, attr.init_a);
  double bad = isfinite((float)attr.init_a) || fabs(attr.init_a) == DBL_MAX ? attr.init_b
                                                                           : attr.init_a;
  if (!isfinite((float)bad))
    err_at(front_compiler(lua), front_here(lua), "%s: init: %g: expected a finite fp32 number",
           what, isnan(bad) ? fabs(bad) : bad);
  return attr;
}

// The update of this entry that yields `value`, or that of `state`; NULL: none.
static Update *update_of(const Compiler *c, const Node *state, const Node *value) {
  for (int i = 0; i < c->graph->nupdates; i++) {
    Update *u = &c->graph->updates[i];
    if (u->entry == c->entry && (u->state == state || (value && u->value == value))) return u;
  }
  return NULL;
}

// Reads a state or buffer. A later call of a shared function reads the value that this entry has
// set so far, as a constant for derivatives.
static int push_state(lua_State *lua, Node *source) {
  Compiler *c = front_compiler(lua);
  Update *u = shared_call(lua) ? update_of(c, source, NULL) : NULL;
  if (!u) return front_push_node(lua, source);
  const Op *stop = op_need(c, "stop_gradient");
  if (u->value->op != stop) {
    u->value = front_place_node(lua, graph_add(c->graph, stop, 1, &u->value, NULL, NULL));
    shape_infer(c, u->value);
  }
  return front_push_node(lua, u->value);
}

static int lua_param(lua_State *lua) { // param(name, shape, kind, a, b)
  Attr attr = read_init(lua, 3, "param");
  return front_push_node(lua, add_source(lua, "param", DtF32, &attr));
}

static int lua_buffer(lua_State *lua) { // buffer(name, shape, kind, a) -> source, its current value
  Attr attr = read_init(lua, 3, "buffer");
  Node *n = add_source(lua, "param", DtF32, &attr);
  front_push_node(lua, n);
  return 1 + push_state(lua, n);
}

static int lua_table(lua_State *lua) { // table(name, shape, numbers): a param not in files
  Compiler *c = front_compiler(lua);
  Type t = read_shape(lua, 2, "tensor");
  size_t count = (size_t)type_count(&t);
  if (lua_rawlen(lua, 3) != count) die("table: %zu numbers", (size_t)lua_rawlen(lua, 3));
  char *text = arena_alloc(c->arena, 8 * count + 1);
  for (size_t i = 0; i < count; i++) {
    lua_rawgeti(lua, 3, (lua_Integer)i + 1);
    float value = (float)lua_tonumber(lua, -1);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    snprintf(text + 8 * i, 9, "%08x", bits);
    lua_pop(lua, 1);
  }
  c->tables = arena_grow(c->arena, c->tables, c->ntables, sizeof *c->tables);
  c->tables[c->ntables++] = text;
  Attr attr = {.init = InitTable, .table = c->ntables};
  return front_push_node(lua, add_source(lua, "param", DtF32, &attr));
}

// numbers(file) -> sizes, numbers in row-major order (integers if all are) of an .npy next to the
// model.
static int lua_numbers(lua_State *lua) {
  enum { kMostNumbers = 1 << 20 };
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1), *slash = strrchr(c->options.model, '/');
  size_t n = strlen(name);
  if (strchr(name, '/') || n < 5 || strcmp(name + n - 4, ".npy"))
    err_at(c, front_here(lua), "tensor: '%s' is not an .npy file next to the model", name);
  int folder = slash ? (int)(slash - c->options.model) + 1 : 0;
  Numbers numbers = {0};
  Error err = {0};
  const char *path = arena_printf(c->arena, "%.*s%s", folder, c->options.model, name);
  if (!c->options.read_numbers)
    err_at(c, front_here(lua), "tensor: '%s': this program reads no files for a model", name);
  if (c->options.read_numbers(path, &numbers, &err))
    err_at(c, front_here(lua), "tensor: %s", err.message);
  size_t count = 1;
  lua_createtable(lua, numbers.rank, 0);
  for (int d = 0; d < numbers.rank; d++) {
    count *= (size_t)numbers.shape[d];
    lua_pushinteger(lua, numbers.shape[d]);
    lua_rawseti(lua, -2, d + 1);
  }
  if (!count || count > kMostNumbers) {
    free(numbers.values);
    err_at(c, front_here(lua), "tensor: %s: %zu numbers: expected 1 to %d", path, count,
           kMostNumbers);
  }
  lua_newtable(lua);
  for (size_t i = 0; i < count; i++) {
    if (numbers.whole)
      lua_pushinteger(lua, (lua_Integer)numbers.values[i]);
    else
      lua_pushnumber(lua, numbers.values[i]);
    lua_rawseti(lua, -2, (lua_Integer)i + 1);
  }
  free(numbers.values);
  return 2;
}

static int lua_full(lua_State *lua) { // full(shape, value): a constant
  Compiler *c = front_compiler(lua);
  Type t = read_shape(lua, 1, "full");
  Attr attr = {.value = luaL_checknumber(lua, 2), .tensor = !t.rank};
  Node *n = front_place_node(lua, graph_add(c->graph, op_need(c, "const"), 0, NULL, &attr, NULL));
  n->type = t;
  shape_infer(c, n);
  return front_push_node(lua, n);
}

static int lua_output(lua_State *lua) { // output(name, tensor)
  const char *name = luaL_checkstring(lua, 1);
  front_check_name(lua, name);
  Node **n = luaL_testudata(lua, 2, kTensorType);
  if (!n)
    err_at(front_compiler(lua), front_here(lua), "output '%s' is a %s, not a tensor%s", name,
           luaL_typename(lua, 2),
           lua_isboolean(lua, 2) ? "; nn.eq(a, b), nn.ne(a, b) and so on compare elements" : "");
  claim_name(lua, name, *n);
  Compiler *c = front_compiler(lua);
  graph_output(c->graph, graph_output_of(name, *n, front_here(lua), c->entry));
  return 0;
}

// The registry keeps each state's `beyond` text, by name.
static void keep_beyond(lua_State *lua, const char *name, const char *text) {
  luaL_getsubtable(lua, LUA_REGISTRYINDEX, "nngen.beyond");
  lua_pushstring(lua, text);
  lua_setfield(lua, -2, name);
  lua_pop(lua, 1);
}

const char *source_beyond(Compiler *c, const char *state) {
  luaL_getsubtable(c->lua, LUA_REGISTRYINDEX, "nngen.beyond");
  lua_getfield(c->lua, -1, state);
  const char *text = lua_isnil(c->lua, -1) ? NULL : arena_dup(c->arena, lua_tostring(c->lua, -1));
  lua_pop(c->lua, 2);
  return text;
}

// A state of integers is initialised to one integer of its dtype.
static void check_whole(lua_State *lua, Dtype dtype, const Attr *attr) {
  double least = dtype == DtU8 || dtype == DtBool || attr->below ? 0 : INT32_MIN, a = attr->init_a;
  double most = dtype == DtBool ? 1 : dtype == DtU8 ? UINT8_MAX : INT32_MAX;
  const char *name = luaL_checkstring(lua, 1);
  if (attr->below > 0 && attr->below <= most) most = (double)attr->below - 1;
  if (attr->init != InitConstant)
    err_at(front_compiler(lua), front_here(lua),
           "state '%s': init: %s begins with one whole number, not with random ones", name,
           dtype_name(dtype));
  if (a != floor(a) || a < least || a > most)
    err_at(front_compiler(lua), front_here(lua),
           "state '%s': init = %.10g: of %s it is a whole number from %.0f to %.0f", name,
           fabs(a) < DBL_MAX ? a : (double)(float)a, dtype_name(dtype), least, most);
}

static int lua_state(lua_State *lua) { // state(name, shape, dtype, kind, a, b, below, beyond)
  Attr attr = read_init(lua, 4, "state");
  attr.below = luaL_optinteger(lua, 7, 0);
  bool as_values = !strcmp(luaL_checkstring(lua, 3), "auto");
  Precision precision = front_compiler(lua)->precision;
  Dtype dtype = as_values ? precision_dtype(precision) : read_dtype(lua, 3);
  if (!dtype_is_float(dtype)) check_whole(lua, dtype, &attr);
  Node *n = add_source(lua, "state", dtype, &attr);
  n->updated = true;
  n->fixed = false;
  if (!lua_isnoneornil(lua, 8)) keep_beyond(lua, n->name, luaL_checkstring(lua, 8));
  check_below(lua, n);
  return push_state(lua, n);
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

static const char *said(Compiler *c, const Node *n) { // "input 'x'", "the result of add"
  return n->op->cls == OpSource ? arena_printf(c->arena, "%s '%s'", n->op->name, n->name)
                                : arena_printf(c->arena, "the result of %s", n->op->name);
}

static int lua_update(lua_State *lua) { // update(state, value)
  Compiler *c = front_compiler(lua);
  Node **state = luaL_testudata(lua, 1, kTensorType), **value = luaL_testudata(lua, 2, kTensorType);
  // In a later call of a shared function: the value after the previous call.
  bool made = state && (*state)->op->cls != OpSource && shared_call(lua);
  Update *before = made ? update_of(c, NULL, *state) : NULL;
  if (before) state = &before->state;
  bool holds = state && (*state)->op->cls == OpSource &&
               ((*state)->op->form == SourceState || (*state)->op->form == SourceParam);
  if (!holds)
    err_at(c, front_here(lua), "update: expected a state or a parameter first, got %s",
           state ? said(c, *state) : arena_printf(c->arena, "a %s", luaL_typename(lua, 1)));
  if (!value)
    err_at(c, front_here(lua), "update: the new value of '%s' is a %s, not a tensor",
           (*state)->name, luaL_typename(lua, 2));
  const Type *s = &(*state)->type, *v = &(*value)->type;
  if (!type_same_shape(s, v) || dtype_is_float(s->dtype) != dtype_is_float(v->dtype))
    err_at(c, front_here(lua), "update: '%s' is %s %s, the new value %s %s", (*state)->name,
           dtype_name(s->dtype), type_shape(s).s, dtype_name(v->dtype), type_shape(v).s);
  if (before) {
    before->value = *value;
    return 0;
  }
  check_once(lua, *state);
  (*state)->updated = true;
  graph_update(c->graph, *state, *value, front_here(lua), c->entry);
  return 0;
}

// shared(call, function) -> the previous ones; 0: none
static int lua_shared(lua_State *lua) {
  static const char *const kNames[] = {"nngen.shared_call", "nngen.shared_owner"};
  for (int i = 0; i < 2; i++) {
    lua_pushinteger(lua, registered(lua, kNames[i]));
    lua_pushinteger(lua, luaL_checkinteger(lua, i + 1));
    lua_setfield(lua, LUA_REGISTRYINDEX, kNames[i]);
  }
  return 2;
}

static int lua_entry(lua_State *lua) { // entry(name) -> the previous one; for outputs to come
  Compiler *c = front_compiler(lua);
  const char *name = luaL_checkstring(lua, 1), *before = c->entries[c->entry];
  front_check_name(lua, name);
  if (!strcmp(name, "init")) err_at(c, front_here(lua), "entry: 'init' is reserved");
  for (c->entry = 0; c->entry < c->nentries && strcmp(c->entries[c->entry], name);) c->entry++;
  if (c->entry == c->nentries) {
    c->entries = arena_grow(c->arena, c->entries, c->nentries, sizeof *c->entries);
    c->entries[c->nentries++] = arena_dup(c->arena, name);
  }
  lua_pushstring(lua, before);
  return 1;
}

static int lua_results(lua_State *lua) { // results() -> the number of outputs and updates
  const Graph *g = front_compiler(lua)->graph;
  lua_pushinteger(lua, g->noutputs + g->nupdates);
  return 1;
}

// instead(source, other): replaces source by other in everything that the entry computes.
static int lua_instead(lua_State *lua) {
  Compiler *c = front_compiler(lua);
  Node **source = luaL_checkudata(lua, 1, kTensorType);
  Node **other = luaL_checkudata(lua, 2, kTensorType);
  Graph *g = c->graph;
  g->instead = arena_grow(g->arena, g->instead, g->ninstead, sizeof *g->instead);
  g->instead[g->ninstead++] = (Instead){c->entry, *source, *other};
  return 0;
}

const luaL_Reg source_functions[] = {
    {"input", lua_input},
    {"param", lua_param},
    {"table", lua_table},
    {"numbers", lua_numbers},
    {"output", lua_output},
    {"full", lua_full},
    {"index", lua_index},
    {"dtype", lua_dtype},
    {"dtype_number", lua_dtype_number},
    {"precision", lua_precision},
    {"state", lua_state},
    {"update", lua_update},
    {"shared", lua_shared},
    {"buffer", lua_buffer},
    {"entry", lua_entry},
    {"results", lua_results},
    {"instead", lua_instead},
    {NULL, NULL},
};
