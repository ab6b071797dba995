// embed.c: a Plan as source files that other programs build: C that launches its kernels, one CUDA
// file with all of them (embed_cuda.c), and build files.
//
// Depends only on the Plan. The plan becomes a Lua table in which every tensor, kernel and entry
// has an identifier; embed.lua adds fields that several templates use; the text is in
// templates/embed/.
#include "emit.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

// ---- fields of the table on top of the Lua stack ------------------------------------------------

static void put_text(lua_State *lua, const char *name, const char *text) {
  lua_pushstring(lua, text ? text : "");
  lua_setfield(lua, -2, name);
}

static void put_int(lua_State *lua, const char *name, int64_t value) {
  lua_pushinteger(lua, value);
  lua_setfield(lua, -2, name);
}

static void put_bool(lua_State *lua, const char *name, bool value) {
  lua_pushboolean(lua, value);
  lua_setfield(lua, -2, name);
}

static void put_ints(lua_State *lua, const char *name, const int *values, int count) {
  lua_newtable(lua);
  for (int i = 0; i < count; i++) {
    lua_pushinteger(lua, values[i]);
    lua_rawseti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, name);
}

// Sets list `name` of `count` tables, each filled by put(e, i).
static void put_list(Embed *e, const char *name, int count, void (*put)(Embed *, int)) {
  lua_newtable(e->lua);
  for (int i = 0; i < count; i++) {
    lua_newtable(e->lua);
    put(e, i);
    lua_rawseti(e->lua, -2, i + 1);
  }
  lua_setfield(e->lua, -2, name);
}

// ---- the plan -----------------------------------------------------------------------------------

// Bit pattern of the value that initially fills a tensor.
static int64_t fill_bits(const PlanTensor *t) {
  float value = (float)t->init_a;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  switch (t->dtype) {
  case DtF32:
    return bits;
  case DtF16:
    return half_from_float(value);
  case DtBf16:
    return bf16_from_float(value);
  default:
    return (int64_t)(uint32_t)(int32_t)t->init_a;
  }
}

static const char *shape_text(Embed *e, const PlanTensor *t, const char *between) {
  const char *text = "";
  for (int d = 0; d < t->rank; d++)
    text = arena_printf(e->arena, "%s%s%lld", text, d ? between : "", (long long)t->shape[d]);
  return text;
}

static void put_tensor(Embed *e, int i) {
  static const char *const roles[] = {"input", "output", "param", "temp", "state"};
  static const char *const spaces[] = {"static", "arena", "init"};
  const PlanTensor *t = &e->plan->tensors[i];
  int64_t count = 1;
  for (int d = 0; d < t->rank; d++) count *= t->shape[d];
  put_text(e->lua, "name", t->name);
  put_text(e->lua, "ident", e->tensor[i] ? e->tensor[i] : t->name); // used by no entry
  put_text(e->lua, "role", roles[t->role]);
  put_text(e->lua, "space", spaces[t->space]);
  put_text(e->lua, "dtype", dtype_name(t->dtype));
  put_int(e->lua, "size", (int64_t)dtype_size(t->dtype));
  put_int(e->lua, "rank", t->rank);
  put_text(e->lua, "dims", shape_text(e, t, ", "));
  put_ints(e->lua, "order", t->order, t->rank);
  put_int(e->lua, "offset", t->offset);
  put_int(e->lua, "bytes", t->bytes);
  put_int(e->lua, "count", count);
  put_bool(e->lua, "constant", t->init == InitConstant);
  put_int(e->lua, "fill", fill_bits(t));
  put_text(e->lua, "loc", t->loc);
}

static void put_int64s(lua_State *lua, const char *name, const int64_t *values, int count) {
  lua_newtable(lua);
  for (int i = 0; i < count; i++) {
    lua_pushinteger(lua, values[i]);
    lua_rawseti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, name);
}

static void put_map(lua_State *lua, const PlanMap *map) {
  lua_newtable(lua);
  put_int(lua, "offset", map->offset);
  put_int(lua, "swizzle", map->swizzle);
  put_int64s(lua, "extents", map->extent, map->rank);
  put_int64s(lua, "strides", map->stride + 1, map->rank - 1); // the first stride is one element
  put_ints(lua, "box", map->box, map->rank);
  lua_setfield(lua, -2, "map");
}

static void put_args(lua_State *lua, const PlanKernel *kernel) {
  lua_newtable(lua);
  for (int i = 0; i < kernel->nargs; i++) {
    lua_newtable(lua);
    if (kernel->args[i].map) put_map(lua, kernel->args[i].map);
    put_text(lua, "name", kernel->args[i].name);
    put_int(lua, "tensor", kernel->args[i].tensor + 1);
    put_bool(lua, "written", kernel->args[i].written);
    lua_rawseti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, "args");
}

static void put_kernel(Embed *e, int i) {
  const PlanKernel *k = &e->plan->kernels[i];
  put_text(e->lua, "name", k->name);
  put_text(e->lua, "ident", e->kernel[i]);
  put_text(e->lua, "layer", k->layer);
  put_text(e->lua, "ops", k->ops);
  put_text(e->lua, "tile", k->tile);
  put_text(e->lua, "class", k->class_name);
  put_text(e->lua, "loc", k->loc);
  put_ints(e->lua, "grid", k->grid, 3);
  put_ints(e->lua, "block", k->block, 3);
  put_int(e->lua, "shared", k->smem);
  put_int(e->lua, "resident", k->resident);
  put_int(e->lua, "same", e->options->same[i] + 1);
  lua_pushnumber(e->lua, k->flops);
  lua_setfield(e->lua, -2, "flops");
  put_int(e->lua, "traffic", k->bytes_read + k->bytes_written);
  put_text(e->lua, "hash", embed_hash(e->arena, k->source));
  put_args(e->lua, k);
}

static void put_entry(Embed *e, int i) {
  static const char *const kinds[] = {"launch", "copy", "memset", "library", "host"};
  const PlanEntry *entry = &e->plan->entries[i];
  put_text(e->lua, "name", entry->name);
  put_text(e->lua, "ident", e->entry[i]);
  lua_newtable(e->lua);
  for (int s = 0; s < entry->nsteps; s++) {
    const PlanStep *step = &entry->steps[s];
    lua_newtable(e->lua);
    put_text(e->lua, "kind", kinds[step->kind]);
    put_int(e->lua, "kernel", step->kernel + 1);
    put_int(e->lua, "source", step->source + 1);
    put_int(e->lua, "target", step->target + 1);
    lua_rawseti(e->lua, -2, s + 1);
  }
  lua_setfield(e->lua, -2, "steps");
}

static void put_plan(Embed *e) {
  const Plan *p = e->plan;
  const EmbedOptions *o = e->options;
  lua_newtable(e->lua);
  put_text(e->lua, "name", o->name);
  put_text(e->lua, "model", p->model);
  put_text(e->lua, "file", o->file);
  put_text(e->lua, "dtype", p->dtype);
  put_text(e->lua, "lowering", p->lowering);
  put_text(e->lua, "arch", p->arch);
  put_text(e->lua, "ptx", o->ptx);
  put_text(e->lua, "settings", o->settings);
  put_bool(e->lua, "weights_in_code", o->weights_in_code);
  put_bool(e->lua, "runtime", o->runtime_api);
  put_bool(e->lua, "check", o->check);
  put_text(e->lua, "gate", arena_printf(e->arena, "%g", o->gate));
  put_int(e->lua, "arena_bytes", p->arena_bytes);
  put_int(e->lua, "init_bytes", p->init_bytes);
  lua_newtable(e->lua);
  for (int i = 0; i < o->narchs; i++) {
    lua_pushstring(e->lua, o->archs[i]);
    lua_rawseti(e->lua, -2, i + 1);
  }
  lua_setfield(e->lua, -2, "archs");
  put_list(e, "tensors", p->ntensors, put_tensor);
  put_list(e, "kernels", p->nkernels, put_kernel);
  put_list(e, "entries", p->nentries, put_entry);
}

// ---- templates ----------------------------------------------------------------------------------

static void load(Embed *e, const char *file) { // pushes the value returned by a Lua file
  size_t length;
  const char *text = asset_text(e->arena, file, &length);
  if (!text) die("%s is missing", file);
  if (luaL_loadbufferx(e->lua, text, length, arena_printf(e->arena, "=%s", file), "t") ||
      lua_pcall(e->lua, 0, 1, 0))
    die("%s", lua_tostring(e->lua, -1));
}

Embed *embed_open(const Plan *plan, const EmbedOptions *options) {
  Embed *e = base_alloc(1, sizeof *e);
  *e = (Embed){
      .arena = arena_new(NULL, NULL), .lua = luaL_newstate(), .plan = plan, .options = options};
  if (!e->lua) die("out of memory");
  luaL_openlibs(e->lua);
  embed_name_all(e);
  load(e, "gen/emit/embed.lua");
  put_plan(e);
  if (lua_pcall(e->lua, 1, 1, 0)) die("gen/emit/embed.lua: %s", lua_tostring(e->lua, -1));
  lua_setglobal(e->lua, "plan");
  emit_push_render(e->lua, e->arena);
  lua_setglobal(e->lua, "render");
  load(e, "gen/emit/layout.lua");
  lua_setglobal(e->lua, "layout");
  load(e, "gen/emit/embed_runtime.lua");
  lua_setglobal(e->lua, "to_runtime_api");
  return e;
}

static bool is_c(const char *template) {
  const char *end = strrchr(template, '.');
  return end && (!strcmp(end, ".c") || !strcmp(end, ".h") || !strcmp(end, ".hpp"));
}

// applies a Lua function to the text on top of the stack
static int apply(lua_State *lua, const char *function) {
  lua_getglobal(lua, function);
  lua_insert(lua, -2);
  return lua_pcall(lua, 1, 1, 0);
}

static int finish_c(Embed *e) {
  int error = e->options->runtime_api ? apply(e->lua, "to_runtime_api") : 0;
  return error ? error : apply(e->lua, "layout");
}

const char *embed_text(Embed *e, const char *template) {
  const char *file = arena_printf(e->arena, "templates/embed/%s", template);
  lua_getglobal(e->lua, "render");
  lua_pushstring(e->lua, file);
  lua_getglobal(e->lua, "plan");
  lua_pushboolean(e->lua, true);
  if (lua_pcall(e->lua, 3, 1, 0) || (is_c(template) && finish_c(e)))
    die("%s: %s", file, lua_tostring(e->lua, -1));
  const char *out = arena_dup(e->arena, lua_tostring(e->lua, -1));
  lua_settop(e->lua, 0);
  return out;
}

int embed_border(Embed *e, int entry, const char *kind, int *tensors) {
  lua_getglobal(e->lua, "plan");
  lua_getfield(e->lua, -1, "entries");
  lua_rawgeti(e->lua, -1, entry + 1);
  lua_getfield(e->lua, -1, kind);
  int count = (int)lua_rawlen(e->lua, -1);
  for (int i = 0; i < count; i++) {
    lua_rawgeti(e->lua, -1, i + 1);
    lua_getfield(e->lua, -1, "index");
    tensors[i] = (int)lua_tointeger(e->lua, -1);
    lua_pop(e->lua, 2);
  }
  lua_settop(e->lua, 0);
  return count;
}

void embed_close(Embed *e) {
  if (!e) return;
  lua_close(e->lua);
  arena_free(e->arena);
  free(e);
}
