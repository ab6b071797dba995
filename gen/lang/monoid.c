// monoid.c: parses the accumulators of a reduction from a row of ops.lua or of a model file.
//
//   acc = {name = "moments", {"count", init = "0.f", element = "1.f", combine = "a.count +
//   b.count",
//          ref_init = 0, ref = function(count, mean, m2, x, i) return count + 1 end}, ...}
//   result = "a.m2 / a.count", ref_result = function(count, mean, m2) return m2 / count end
//
// A row with `cuda` and `ref` of two values has one accumulator, `value`, instead.
#include "lang.h"

#include <ctype.h>
#include <lauxlib.h>
#include <string.h>

static void read_part(lua_State *lua, const Op *op, Accumulator *a) { // from the table on top
  int table = lua_gettop(lua);
  lua_geti(lua, table, 1);
  a->name =
      lua_tostring(lua, -1) ? arena_dup(front_compiler(lua)->arena, lua_tostring(lua, -1)) : NULL;
  lua_pop(lua, 1);
  a->type = rows_text(lua, table, "type");
  if (!a->type) a->type = "float";
  a->init = rows_text(lua, table, "init");
  a->element = rows_text(lua, table, "element");
  a->combine = rows_text(lua, table, "combine");
  a->append = rows_text(lua, table, "append");
  if (lua_getfield(lua, table, "run") == LUA_TTABLE) {
    lua_geti(lua, -1, 1);
    const char *run = lua_tostring(lua, -1);
    a->run = arena_dup(front_compiler(lua)->arena, run ? run : "");
    lua_pop(lua, 1);
    a->add = rows_text(lua, lua_gettop(lua), "add");
    a->join = rows_text(lua, lua_gettop(lua), "join");
    a->whole = rows_text(lua, lua_gettop(lua), "whole");
  }
  lua_pop(lua, 1);
  a->ref_init = rows_number(lua, table, "ref_init", 0);
  a->ref = rows_function(lua, table, "ref");
  bool named = a->name && *a->name &&
               strspn(a->name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(a->name);
  if (!named || !a->init || !a->element || !a->combine || a->ref == LUA_NOREF)
    err_at(front_compiler(lua), front_here(lua),
           "op '%s': each accumulator needs a name, init, element, combine and ref", op->name);
  if (strcmp(a->type, "float") && strcmp(a->type, "int"))
    err_at(front_compiler(lua), front_here(lua), "op '%s': an accumulator is float or int, not %s",
           op->name, a->type);
}

Monoid *monoid_read(lua_State *lua, const Op *op) {
  Compiler *c = front_compiler(lua);
  if (lua_getfield(lua, 1, "acc") != LUA_TTABLE) return lua_pop(lua, 1), NULL;
  Monoid *m = arena_alloc(c->arena, sizeof *m);
  m->name = rows_text(lua, lua_gettop(lua), "name");
  if (!m->name) m->name = op->name;
  m->count = (int)lua_rawlen(lua, -1);
  if (m->count < 1 || m->count > kMostAccumulators)
    err_at(c, front_here(lua), "op '%s': 1 to %d accumulators, not %d", op->name, kMostAccumulators,
           m->count);
  for (int i = 0; i < m->count; i++) {
    lua_geti(lua, -1, i + 1);
    if (!lua_istable(lua, -1))
      err_at(c, front_here(lua), "op '%s': acc is a list of tables", op->name);
    read_part(lua, op, &m->part[i]);
    lua_pop(lua, 1);
  }
  lua_pop(lua, 1);
  return m;
}

// ---- rows with `cuda` of two values -------------------------------------------------------------

// Rewrites `cuda` over $1 and $2 as a combination of a.value and b.value.
static const char *of_parts(Compiler *c, const char *cuda) {
  Buffer b = {0};
  for (const char *s = cuda; *s; s++) {
    if (*s == '$')
      buffer_put(&b, "%s.value", *++s == '1' ? "a" : "b");
    else
      buffer_put(&b, "%c", *s);
  }
  const char *text = arena_dup(c->arena, b.text);
  buffer_free(&b);
  return text;
}

void monoid_complete(Compiler *c, Op *op, const char *whole) {
  if (!op->result) op->result = "a.value";
  if (op->acc) return;
  Monoid *m = arena_alloc(c->arena, sizeof *m);
  m->name = strncmp(op->name, "reduce_", 7) ? op->name : op->name + 7;
  m->count = 1;
  m->part[0] = (Accumulator){.name = "value",
                             .type = "float",
                             .init = op->init,
                             .element = "$1",
                             .combine = of_parts(c, op->cuda),
                             .ref_init = op->ref_init,
                             .ref = op->ref};
  op->acc = m;
  if (!whole) return;
  Monoid *integers = arena_alloc(c->arena, sizeof *integers);
  *integers = *m;
  integers->part[0].type = "int";
  integers->part[0].init = whole;
  if (op->wraps) integers->part[0].combine = of_parts(c, op->wraps);
  op->whole = integers;
}

// ---- rows of a model file ----------------------------------------------------------------------

// The length of the accumulator name a.NAME or b.NAME at s, or 0.
static size_t accumulator_at(const Monoid *m, const char *text, const char *s) {
  bool begins = s == text || !(isalnum((unsigned char)s[-1]) || s[-1] == '_' || s[-1] == '.');
  if (!begins || (*s != 'a' && *s != 'b') || s[1] != '.') return 0;
  size_t n = strspn(s + 2, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  for (int i = 0; i < m->count; i++)
    if (strlen(m->part[i].name) == n && !strncmp(s + 2, m->part[i].name, n)) return n + 2;
  return 0;
}

// Checks an expression of accumulators, or of $1 and $i.
static bool is_expression(const Monoid *m, const char *text, bool of_element) {
  Buffer plain = {0};
  for (const char *s = text; *s;) {
    size_t n = of_element ? (s[0] == '$' && s[1] == 'i') * 2 : accumulator_at(m, text, s);
    if (!of_element && *s == '$') n = strlen(s), buffer_put(&plain, "$"); // not allowed
    buffer_put(&plain, n ? "1" : "%c", *s);
    s += n ? n : 1;
  }
  bool good = plain.text && rows_is_expression(plain.text);
  buffer_free(&plain);
  return good;
}

void monoid_check(lua_State *lua, const Op *op) {
  const Monoid *m = op->acc;
  for (int i = 0; i < m->count; i++)
    if (m->part[i].run)
      err_at(front_compiler(lua), front_here(lua),
             "op '%s': accumulators of a model's rows have no `run`", op->name);
  Names *taken = names_new(front_compiler(lua)->arena, NULL);
  names_reserve_cpp(taken);
  for (int i = 0; i < m->count; i++)
    if (strcmp(names_take(taken, m->part[i].name), m->part[i].name))
      err_at(front_compiler(lua), front_here(lua),
             "op '%s': an accumulator cannot be called '%s': it is another's, or a word of C++",
             op->name, m->part[i].name);
  const char *bad = op->result && !is_expression(m, op->result, false) ? op->result : NULL;
  for (int i = 0; i < m->count; i++) {
    const Accumulator *a = &m->part[i];
    if (!rows_is_expression(a->init)) bad = a->init;
    if (!is_expression(m, a->element, true)) bad = a->element;
    if (!is_expression(m, a->combine, false)) bad = a->combine;
    if (a->append && !is_expression(m, a->append, false)) bad = a->append;
  }
  if (bad)
    err_at(front_compiler(lua), front_here(lua),
           "op '%s': '%s' is not an expression of numbers, operators, nn_ functions and, in "
           "element, $1 and $i, in combine, append and result, accumulators as in a.%s",
           op->name, bad, m->part[0].name);
}
