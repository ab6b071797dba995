// emit.c: groups to CUDA text. For each group the template's parameters are set: names, constants
// of the schedule, and the fused expression (expr.c). The algorithms are ordinary CUDA C++ in
// templates/, rendered by render.lua.
#include "emit.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

// ---- template parameters ----------------------------------------------------------------------

void hole_text(Emitter *e, const char *name, const char *text) {
  lua_pushstring(e->c->lua, text);
  lua_setfield(e->c->lua, -2, name);
}

void hole_take(Emitter *e, const char *name, Buffer *text) {
  hole_text(e, name, text->text ? text->text : "");
  buffer_free(text);
}

const char *hole_get(Emitter *e, const char *name) {
  lua_getfield(e->c->lua, -1, name);
  const char *text = lua_tostring(e->c->lua, -1); // the table keeps the string alive
  lua_pop(e->c->lua, 1);
  return text;
}

void hole_int(Emitter *e, const char *name, int64_t value) {
  lua_pushinteger(e->c->lua, value);
  lua_setfield(e->c->lua, -2, name);
}

void hole_bool(Emitter *e, const char *name, bool value) {
  lua_pushboolean(e->c->lua, value);
  lua_setfield(e->c->lua, -2, name);
}

// ---- parts of every kernel --------------------------------------------------------------------

const char *const *emit_index_names(int rank) {
  static const char *const names[MaxRank + 1][MaxRank] = {
      {""},
      {"x"},
      {"m", "n"},
      {"b", "m", "n"},
      {"n", "c", "h", "w"},
      {"d0", "d1", "d2", "d3", "d4"},
      {"d0", "d1", "d2", "d3", "d4", "d5"},
      {"d0", "d1", "d2", "d3", "d4", "d5", "d6"},
      {"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"},
  };
  return names[rank];
}

// "__restrict__ " unless the parameter aliases another one, or is written by other blocks of this
// kernel.
static const char *alone(const Group *g, const Node *n) {
  return group_aliases(g, n) || (g->first && n->group == g->first) ? "" : "__restrict__ ";
}

// Adds the pointer to n to the parameters, and its type to the table on top of the Lua stack.
static void put_pointer(Emitter *e, Buffer *params, const Node *n, const char *constant) {
  const char *name = expr_pointer(e->g, n);
  const char *type = arena_printf(e->c->arena, "%s%s *", constant, expr_ctype(n->type.dtype));
  buffer_put(params, "%s%s%s%s", params->text ? ",\n" : "", type, alone(e->g, n), name);
  hole_text(e, name, type);
}

// Sets parameters `params`; and, for alike.lua, `pointers`, their types by name, and `taken`, all
// names of the text.
static void put_params(Emitter *e) {
  const Group *g = e->g;
  Buffer b = {0};
  int nreads, nwrites;
  Node *const *reads = group_reads(g, &nreads), *const *writes = group_writes(g, &nwrites);
  lua_newtable(e->c->lua);
  for (int i = 0; i < nreads; i++)
    if (expr_takes_pointer(g, i)) put_pointer(e, &b, reads[i], "const ");
  for (int i = 0; i < nwrites; i++) put_pointer(e, &b, writes[i], "");
  lua_setfield(e->c->lua, -2, "pointers");
  hole_text(e, "taken", names_taken(g->names));
  for (int i = 0; i < g->nscratch; i++)
    buffer_put(&b, ",\n%s *%s", expr_ctype(g->scratch[i].dtype),
               g->scratch[i].name); // shared by blocks
  for (int i = 0; i < g->nboxes; i++)
    buffer_put(&b, ",\nconst __grid_constant__ TensorMap %s", g->boxes[i].name);
  hole_take(e, "params", &b);
}

// ---- the fused expression ---------------------------------------------------------------------

// Does the epilogue output of this scope store n?
static bool ends_in(const Group *g, const Scope *s, const Node *n) {
  return n->tail == s->tail && !group_reduces(g, n) && !group_by_element(g, n);
}

void emit_epilogue(Emitter *e, Scope *s, const Type *t, const Index *at, const char *flat) {
  Buffer stores = {0}, decode = {0};
  s->group = e->g;
  s->lanes = e->g->tile.lanes;
  s->indent = "    ";
  s->flat = flat;
  s->flat_type = *t;
  memcpy(s->flat_at, at, sizeof *at * (size_t)t->rank);
  const char **values = arena_alloc(e->c->arena, sizeof *values * (size_t)e->g->noutputs);
  for (int i = 0; i < e->g->noutputs; i++) { // all loads precede the first store
    Node *n = e->g->outputs[i];
    if (!ends_in(e->g, s, n)) continue;
    values[i] = expr_value(s, group_stored(e->g, n), at);
  }
  for (int i = 0; i < e->g->noutputs; i++) {
    Node *n = e->g->outputs[i];
    if (ends_in(e->g, s, n)) expr_store(s, &stores, n, at, values[i]);
  }
  States *reduced = e->rows ? e->rows : e->columns; // accumulated here, stored at the end
  for (int i = 0; reduced && s->tail == 0 && i < reduced->count; i++) {
    const Member *m = &reduced->member[i];
    const char *value = expr_value(s, m->value, at);
    if (reduced->run)
      states_add_element(reduced, m, "column_runs[j]", value, &s->body);
    else
      states_element(reduced, m, "one", value, "0", &s->body);
  }
  int64_t size[MaxRank];
  const char *names[MaxRank];
  for (int d = 0; d < t->rank; d++) { // in memory order, only if mentioned
    size[d] = t->dim[t->order[d]];
    const char *name = at[t->order[d]].text;
    bool used = expr_mentions(s->loads.text, name) || expr_mentions(s->body.text, name) ||
                expr_mentions(stores.text, name);
    names[d] = used && size[d] != 1 ? name : NULL;
  }
  expr_decode(&decode, "  ", flat ? flat : "i", t->rank, size, names);
  hole_take(e, "decode", &decode);
  hole_take(e, "loads", &s->loads);
  hole_take(e, "body", &s->body);
  hole_take(e, "stores", &stores);
  scope_free(s);
}

void emit_lane_index(const Type *t, const char *const *names, Index *at) {
  for (int d = 0; d < t->rank; d++)
    at[d] = t->dim[d] == 1 ? (Index){"0", false} : (Index){names[d], false};
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = t->order[i];
    if (t->dim[d] == 1) continue;
    at[d].lane = true;
    return;
  }
}

// Restricts an in-place update to the elements that change. at[d], if the changing position along
// dimension d is known, becomes that position; else other elements exit early.
static void put_condition(const Group *k, Scope *s, Index *at) {
  Scope before = {.group = k, .lanes = 1, .indent = "  "};
  const Node *made = k->outputs[0];
  Index in[MaxRank];
  int d;
  const Node *position = in_place_position(k, &d);
  const Node *read = position ? position : k->changes;
  expr_broadcast(&made->type, &read->type, at, in);
  const char *text = expr_value(&before, read, in), *loads = before.loads.text,
             *body = before.body.text;
  buffer_put(&s->loads, "%s%s", loads ? loads : "", body ? body : "");
  if (position) {
    at[d] = (Index){emit_index_names(made->type.rank)[d], false};
    buffer_put(&s->loads, "  const int %s = %s;\n  if (unsigned(%s) >= %lldu) return;\n",
               at[d].text, text, at[d].text, (long long)made->type.dim[d]);
  } else {
    buffer_put(&s->loads, "  if (!%s) return;\n", text);
  }
  expr_broadcast(&made->type, &k->changes->type, at, in);
  for (int i = 0; i < k->noutputs; i++) expr_bind(s, k->outputs[i]->in[0], in, "true");
  scope_free(&before);
}

// Pushes the parameters of one part of a multi-tensor launch.
static void put_part(Emitter *e, int tail, const Group *part) {
  Type t = part->anchor->type;
  int d;
  bool cut = in_place_position(part, &d) != NULL;
  if (cut) t.dim[d] = 1;
  Index at[MaxRank];
  Scope s = {.tail = tail};
  int lanes = e->g->tile.lanes;
  lua_newtable(e->c->lua);
  emit_lane_index(&t, emit_index_names(t.rank), at);
  hole_int(e, "count", type_count(&t));
  hole_int(e, "lanes", part->tile.lanes);
  hole_int(e, "blocks", part->tile.grid[0]);
  if (part->tile.columns) {
    hole_int(e, "columns", part->tile.columns);
    hole_int(e, "rows", part->tile.rows);
  }
  hole_text(e, "layer", part->anchor->name);
  e->g->tile.lanes = part->tile.lanes;
  if (part->changes) put_condition(part, &s, at);
  emit_epilogue(e, &s, &t, at, cut ? NULL : "i");
  e->g->tile.lanes = lanes;
}

void emit_map(Emitter *e) {
  int count;
  Group *const *parts = group_parts(&e->g, &count);
  lua_State *lua = e->c->lua;
  lua_newtable(lua);
  for (int i = 0; i < count; i++) {
    put_part(e, i, parts[i]);
    lua_seti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, "parts");
}

// ---- the pass ---------------------------------------------------------------------------------

const char *emit_template_file(const Group *g) { // path of its template
  return arena_printf(g->graph->arena, "templates/%s.cu", g->tm->name);
}

// Re-indents generated code by brace depth; preprocessor lines stay at column 0, continuation lines
// are indented by two more.
static char *indented(Arena *arena, const char *text) {
  int lines = 1, deepest = 24, depth = 0;
  for (const char *s = text; *s; s++) lines += *s == '\n';
  char *out = arena_alloc(arena, strlen(text) + (size_t)(lines * deepest) + 1), *to = out;
  bool continues = false;
  for (const char *line = text; *line;) {
    line += strspn(line, " ");
    size_t n = strcspn(line, "\n");
    int spaces = 2 * (depth - (*line == '}') + continues);
    if (*line == '#' || n == 0) spaces = 0;
    if (spaces > deepest) spaces = deepest;
    memset(to, ' ', (size_t)(spaces > 0 ? spaces : 0));
    to += spaces > 0 ? spaces : 0;
    memcpy(to, line, n);
    to += n;
    *to++ = '\n';
    bool code = *line != '#' && strncmp(line, "//", 2);
    for (size_t i = 0; code && i < n; i++) depth += (line[i] == '{') - (line[i] == '}');
    continues = code && n && strchr(",=(?:+", line[n - 1]);
    line += n + (line[n] == '\n');
  }
  return out;
}

static int read_asset(lua_State *lua) {
  size_t length;
  const char *file = luaL_checkstring(lua, 1);
  const char *text = asset_text(lua_touserdata(lua, lua_upvalueindex(1)), file, &length);
  if (!text) return luaL_error(lua, "%s is missing", file);
  lua_pushlstring(lua, text, length);
  return 1;
}

void emit_push_render(lua_State *lua, Arena *arena) {
  size_t length;
  const char *text = asset_text(arena, "gen/emit/render.lua", &length);
  int bad = luaL_loadbufferx(lua, text, length, "=gen/emit/render.lua", "t");
  lua_pushlightuserdata(lua, arena);
  lua_pushcclosure(lua, read_asset, 1);
  if (bad || lua_pcall(lua, 1, 1, 0)) die("%s", lua_tostring(lua, bad ? -2 : -1));
}

// Renders the template with the parameters on top of the stack.
static const char *render(Emitter *e, const char *file) {
  lua_State *lua = e->c->lua;
  lua_getfield(lua, LUA_REGISTRYINDEX, "nngen.render");
  lua_pushstring(lua, file);
  lua_pushvalue(lua, -3);
  if (lua_pcall(lua, 2, 1, 0)) die("%s: %s", file, lua_tostring(lua, -1));
  const char *out = indented(e->c->arena, lua_tostring(lua, -1));
  lua_pop(lua, 1);
  return out;
}

// Identifiers of the templates and of C++. For operands a and b of a contraction, contract.cu uses
// names like $(o.name)_row.
static Names *reserved_words(Compiler *c) {
  Names *names = names_new(c->arena, NULL);
  names_reserve_cpp(names);
  for (int rank = 0; rank <= MaxRank; rank++)
    for (int d = 0; d < rank; d++) {
      names_reserve(names, emit_index_names(rank)[d]);
      names_reserve(names, arena_printf(c->arena, "at_%s", emit_index_names(rank)[d]));
    }
  // axis names
  for (int d = 0; maps_leading_name(d); d++) names_reserve(names, maps_leading_name(d));
  for (int i = 0; i < c->nops; i++)
    for (int axis = 0; c->ops[i]->maps && axis < c->ops[i]->maps->naxes; axis++)
      names_reserve(names, c->ops[i]->maps->axis[axis]);
  for (int i = 0; asset_name(i); i++) {
    size_t length;
    if (strncmp(asset_name(i), "templates/", strlen("templates/"))) continue;
    if (!strncmp(asset_name(i), "templates/embed/", strlen("templates/embed/"))) continue;
    const char *text = asset_text(c->arena, asset_name(i), &length), *hole = "$(o.name)";
    names_reserve_words(names, text);
    for (const char *at = text; (at = strstr(at, hole)); at++)
      for (const char *operand = "ab"; *operand; operand++) {
        const char *rest = at + strlen(hole);
        int n = (int)strspn(rest, "_abcdefghijklmnopqrstuvwxyz");
        names_reserve(names, arena_printf(c->arena, "%c%.*s", *operand, n, rest));
      }
  }
  return names;
}

// Does its expression use lib/values.cuh: integers, conversions, Python's division?
static bool needs_values(const Node *n) {
  bool values = !dtype_is_float(n->type.dtype) || n->op->typing == TypeWhere;
  for (int j = 0; j < n->nin; j++)
    values = values || (!node_is_literal(n->in[j]) && !dtype_is_float(n->in[j]->type.dtype));
  const char *cuda = n->op->cuda;
  return values || (cuda && (strstr(cuda, "nn_mod(") || strstr(cuda, "nn_floordiv(")));
}

// Sets the files of lib/ that the group's expressions need besides prim.cuh.
static void put_includes(Emitter *e) {
  bool values = false, draws = false;
  for (const Group *g = e->g; g; g = g->first)
    for (int i = 0; i < g->nnodes; i++) {
      const Node *n = g->nodes[i];
      values = values || needs_values(n);
      draws = draws || n->op->typing == TypeDraw;
    }
  hole_bool(e, "values", values);
  hole_bool(e, "draws", draws);
}

void emit_group(Compiler *c, Group *g) {
  Emitter e = {.c = c, .g = g};
  if (!c->reserved) c->reserved = reserved_words(c);
  g->names = names_new(c->arena, c->reserved);
  expr_name_args(g);
  lua_newtable(c->lua);
  hole_text(&e, "name", g->name);
  put_includes(&e);
  hole_int(&e, "lanes", g->tile.lanes);
  hole_int(&e, "threads", g->tile.threads);
  g->tm->emit(&e);
  put_params(&e); // also sets which arguments are pointers
  emit_header(&e);
  g->source = render(&e, emit_template_file(g));
  lua_pop(c->lua, 1);
}

// Needs: tiles. Sets Group.source.
void emit_pass(Compiler *c) {
  emit_push_render(c->lua, c->arena);
  lua_setfield(c->lua, LUA_REGISTRYINDEX, "nngen.render");
  for (int i = 0; i < c->graph->ngroups; i++) emit_group(c, c->graph->groups[i]);
}
