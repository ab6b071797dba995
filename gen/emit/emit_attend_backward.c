// emit_attend_backward.c: template parameters of attention backward, and of sums of attention
// gradients: the recomputed probability (or its gradient) of a row and a key.
#include "attend_text.h"

#include <ctype.h>
#include <string.h>

// ---- values per key ---------------------------------------------------------------------------

// The roles (bits) whose linear indices the text uses; 0 if it uses anything else.
static unsigned roles_of(const ProductText *h, const char *text) {
  unsigned roles = 0;
  while (*text) {
    size_t length = 0;
    unsigned of_word = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_') length++;
    const char *word = arena_printf(h->arena, "%.*s", (int)length, text);
    for (int role = 0; role < AxisRoles; role++)
      if (h->number[role] && !strcmp(word, h->number[role])) of_word |= 1u << role;
    for (int i = 0; i < h->maps->naxes; i++)
      if (!strcmp(word, h->axis[i])) of_word |= 1u << h->maps->axis[i].role;
    if (length && !isdigit((unsigned char)*word) && !of_word) return 0;
    roles |= of_word;
    text += length ? length : 1;
  }
  return roles;
}

// A value per key is loaded with the tile of keys, once for all rows.
static const char *value_of_key(Scope *s, const Node *n, const char *pointer, const char *offset) {
  AttendText *t = s->attend;
  Arena *arena = t->e->c->arena;
  const char *where = arena_printf(arena, "%s + %s", pointer, offset);
  int i = 0;
  unsigned roles = roles_of(&t->values, offset);
  bool of_keys = roles & kRoleK && !(roles & ~(kRoleK | kRoleBatch));
  if (!of_keys || !attend_is_of_keys(&t->a, n)) return NULL;
  while (i < t->nof_key && strcmp(t->of_key[i], where)) i++;
  if (i == t->a.key_values) return NULL;
  t->of_key[i] = where;
  if (i == t->nof_key) t->nof_key++;
  return arena_printf(arena, "smem.of_key[%d][of_key + key]", i);
}

static void put_values_of_keys(AttendText *t) {
  lua_State *lua = t->e->c->lua;
  lua_newtable(lua);
  for (int i = 0; i < t->nof_key; i++) {
    lua_newtable(lua);
    hole_text(t->e, "where", t->of_key[i]);
    hole_text(t->e, "decode", product_decoded(&t->values, kRoleBatch | kRoleK, "      ", 1,
                                              (const char *const *)&t->of_key[i]));
    lua_rawseti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, "of_key");
}

// ---- probabilities as a map of scores ---------------------------------------------------------

// n * factor - less (or NULL). Multiplications of n by constants absorb the factor, so that the
// exponent of a scaled score minus a row value is one multiply-add.
static const char *times(AttendText *t, Scope *s, const Node *n, const Index *at, double factor,
                         const char *less) {
  Arena *arena = t->e->c->arena;
  bool here = n->group == t->e->g && n->op->cls == OpMap;
  const char *number = expr_literal(arena, factor, DtF32), *side[2];
  Index of[3][MaxRank];
  for (int i = 0; here && i < n->nin && i < 3; i++)
    expr_broadcast(&n->type, &n->in[i]->type, at, of[i]);
  if (here && n->op->flags & FlagMul && node_is_literal(n->in[1]))
    return times(t, s, n->in[0], of[0], factor * n->in[1]->attr.value, less);
  if (here && n->op->flags & FlagSub && !less) {
    const char *right = times(t, s, n->in[1], of[1], factor, NULL);
    const char *name = expr_name(t->e->g, "less");
    buffer_put(&s->body, "%sconst float %s = %s;\n", s->indent, name, right);
    return times(t, s, n->in[0], of[0], factor, name);
  }
  if (here && n->op->typing == TypeWhere) {
    const char *condition = expr_value(s, n->in[0], of[0]);
    for (int i = 0; i < 2; i++) side[i] = times(t, s, n->in[i + 1], of[i + 1], factor, less);
    if (!strcmp(condition, "true") || !strcmp(condition, "false")) return side[*condition == 'f'];
    return arena_printf(arena, "%s ? %s : %s", condition, side[0], side[1]);
  }
  if (node_is_literal(n)) { // -inf of a mask
    number = expr_literal(arena, n->attr.value * factor, DtF32);
    return less ? arena_printf(arena, "%s - %s", number, less) : number;
  }
  const char *value = expr_value(s, n, at);
  return less ? arena_printf(arena, "nn_fma(%s, %s, -%s)", value, number, less)
              : arena_printf(arena, "%s * %s", value, number);
}

// The exponential's argument in base 2.
// NOTE: only for 16-bit operands: the factor is rounded together with the scale, an error of 2^-24
// of the score, which sums of 16-bit products have anyway.
static const char *exponent(AttendText *t, Scope *s, const Node *x) {
  if (t->a.size == 2) return times(t, s, x, t->element, 1.4426950408889634, NULL);
  return arena_printf(t->e->c->arena, "%s * kLog2e", expr_value(s, x, t->element));
}

// The left operand of the last product, given the conditions of `holding`.
static void put_mapped(AttendText *t, const char *name, const Masking *holding) {
  const Node *weights = t->e->g->anchor->in[0];
  Scope s = attend_scope(t);
  s.brought = value_of_key, s.attend = t;
  attend_bind_products(t, &s);
  attend_bind_conditions(t, &s, holding);
  const Node *power = t->e->g->attention->power;
  if (power) {
    const char *x = exponent(t, &s, power->in[0]), *word = expr_local(t->e->g, power);
    buffer_put(&s.body, "    const float %s = nn_exp2_fast(%s);\n", word, x);
    expr_bind(&s, power, t->element, word);
  }
  Index at[MaxRank];
  for (int d = 0; d < weights->type.rank; d++) at[t->e->g->attention->place[d]] = t->element[d];
  lua_newtable(t->e->c->lua);
  attend_put_function(t, &s, expr_value(&s, weights, at));
  lua_setfield(t->e->c->lua, -2, name);
}

static void put_products(AttendText *t) {
  lua_State *lua = t->e->c->lua;
  lua_newtable(lua);
  for (int i = 0; i < t->a.nproducts; i++) {
    lua_pushstring(lua, t->product[i]);
    lua_rawseti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, "products");
}

void emit_attend_backward(Emitter *e) {
  AttendText t;
  const Attention *a = e->g->attention;
  attend_open(&t, e);
  attend_put_shape(&t);
  attend_put_rows(&t);
  put_products(&t);
  hole_int(e, "shared", t.a.shared < 2 * a->nproducts ? t.a.shared + 1 : 0);
  Masking masking = attend_masking(e->g, &t.a);
  put_mapped(&t, "weighing", &(Masking){0});
  if (masking.count) attend_put_masking(&t, &masking), put_mapped(&t, "plain", &masking);
  put_values_of_keys(&t);
  tails_put(&t.values);
}

// ---- sums -------------------------------------------------------------------------------------

// Result and store of the sum over rows, keys and batches.
static void put_sum(AttendText *t) {
  Emitter *e = t->e;
  const Type *type = &e->g->anchor->type;
  Scope s = attend_scope(t);
  Buffer decode = {0};
  Index at[MaxRank];
  lua_newtable(e->c->lua);
  product_index(&t->values, MapOut, kRoleBatch | kRoleM | kRoleK, "    ", &decode, at);
  expr_bind(&s, e->g->anchor, at, "sum");
  emit_epilogue(e, &s, type, at, NULL);
  const char *texts[] = {hole_get(e, "loads"), hole_get(e, "body"), hole_get(e, "stores")};
  hole_text(e, "decode", text_mentioned(t->values.arena, &decode, LENGTH(texts), texts));
  lua_setfield(e->c->lua, -2, "sum");
}

void emit_attend_bias(Emitter *e) {
  AttendText t;
  attend_open(&t, e);
  attend_put_shape(&t);
  put_products(&t);
  hole_int(e, "batches", t.a.looped);
  hole_bool(e, "sums_rows", t.a.sums_rows);
  hole_bool(e, "sums_keys", t.a.sums_keys);
  hole_int(e, "part_group", tile_part_group(&e->g->tile));
  hole_int(e, "part_counts", tile_part_counts(&e->g->tile));
  Masking masking = attend_masking(e->g, &t.a);
  put_mapped(&t, "weighing", &(Masking){0});
  if (masking.count) attend_put_masking(&t, &masking), put_mapped(&t, "plain", &masking);
  put_sum(&t);
}
