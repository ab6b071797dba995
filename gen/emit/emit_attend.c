// emit_attend.c: the holes of attention kernels: where rows of q, k and v are, the score of a query
// and a key, and what the softmax of a row comes to; of products that weigh rows by maps of scores,
// the weight of a row and a key.
#include "emit.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct AttendText {
  Emitter *e;
  Attending a;
  ProductText values, scores[kMostScores]; // the products, on the same rows and batches
  Index element[MaxRank];                  // of a score
  const char *product[kMostScores];        // names
  const char *decode;                      // defines it, of m, key and batch
  HeadStates heads;                        // of operands that are computed
  const char *of_key[kMostKeyValues];      // where a value of `key` is that stands in shared memory
  int nof_key;
  int nboxes; // rows come by tensor maps
} AttendText;

// ---- operands ----------------------------------------------------------------------------------

// Of rows that the copy engine brings, by the i-th box of the kernel: with which element of the map
// those of a tile begin.
static void put_box(AttendText *t, ProductText *h, AxisRole rows, int operand, int i) {
  Emitter *e = t->e;
  AttendBox box;
  attend_box(&t->a, &e->g->tile, operand, &box);
  Box *to = &e->g->boxes[i];
  const char *places = "", *places_of[PlanMaxRank] = {0};
  for (int d = 1; d < box.map.rank; d++) {
    places_of[d] = h->axis[box.axis[d]];
    places = arena_printf(h->arena, "%s, %s", places, places_of[d]);
  }
  hole_text(e, "box", to->name);
  hole_text(e, "places", places);
  hole_text(e, "decode", product_decoded(h, kRoleBatch | 1u << rows, "      ", box.map.rank, places_of));
}

static void put_operand(AttendText *t, int i) {
  static const char *const names[] = {"q", "k", "v", "q2", "k2"}, *const maps[] = {"MapQ", "MapK",
                                                                                   "MapV", "MapQ2",
                                                                                   "MapK2"};
  Emitter *e = t->e;
  const Operand *o = &t->a.operand[i];
  bool last = i == 2 * t->a.nproducts, left = i % 2 == 0 && !last;
  ProductText *h = last ? &t->values : &t->scores[i / 2];
  AxisRole rows = left ? AxisM : last ? AxisK : AxisN;
  const char *number = h->number[rows];
  int word = last ? 2 : i < 2 ? i : i + 1;
  lua_newtable(e->c->lua);
  hole_text(e, "name", names[word]);
  hole_int(e, "rows", left ? t->a.rows : t->a.keys);
  hole_int(e, "depth", last ? t->a.width : t->a.depth[i / 2]);
  if (!o->piece) {
    emit_head(e, &t->heads, h, i, left ? MapA : MapB, rows, last ? AxisN : AxisK);
    lua_rawseti(e->c->lua, -2, i + 1);
    return;
  }
  if (t->nboxes > 2 || (t->nboxes && i)) { // the last of them is that of the values
    put_box(t, h, rows, i, i + t->nboxes - 3);
    lua_rawseti(e->c->lua, -2, i + 1);
    return;
  }
  const char *row = product_offset_text(h, left ? MapA : MapB, o->stride, kRoleBatch | 1u << rows);
  const char *decode = product_decoded(h, kRoleBatch | 1u << rows, "    ", 1, &row);
  const char *both = arena_printf(h->arena, "%s %s", row, decode);
  hole_text(e, "map", maps[word]);
  hole_int(e, "piece", o->piece);
  hole_text(e, "args",
            arena_printf(h->arena, "int%s%s, int%s", expr_mentions(both, number) ? " " : "",
                         expr_mentions(both, number) ? number : "",
                         expr_mentions(both, "batch") ? " batch" : ""));
  hole_text(e, "decode", decode);
  hole_text(e, "row", row);
  const char *pointer = expr_pointer(e->g, o->base);
  hole_text(e, "pointer", product_joined(h, pointer, product_literal(h, o->offset), false));
  lua_rawseti(e->c->lua, -2, i + 1);
}

static bool is_masked(const Node *n) {
  return node_is_literal(n) && n->attr.value == -INFINITY;
}

// ---- scores and weights ------------------------------------------------------------------------

// The holes decode, body and value of a function.
static void put_function(AttendText *t, Scope *s, const char *value) {
  Emitter *e = t->e;
  Buffer body = {0}, decode = {0};
  buffer_put(&body, "%s%s", s->loads.text ? s->loads.text : "", s->body.text ? s->body.text : "");
  const char *texts[] = {body.text, value};
  buffer_put(&decode, "%s", t->decode);
  hole_text(e, "decode", text_mentioned(e->c->arena, &decode, LENGTH(texts), texts));
  hole_take(e, "body", &body);
  hole_text(e, "value", value);
  scope_free(s);
}

static Scope open_scope(const AttendText *t) {
  return (Scope){.group = t->e->g, .lanes = 1, .indent = "    "};
}

// The roles, a bit each, whose numbers the text is made of; 0: of something else, too.
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

// A value of keys is brought with the tile of keys, once for all rows.
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

// The factor that all of a score has in common, which is applied with the exponential: that of its
// last multiplication by a positive number, maybe below conditions that mask (Node *scaled).
static double common_factor(const Node *score, const Group *g, const Node **scaled) {
  const Node *n = score;
  for (*scaled = NULL; n->group == g && n->op->cls == OpMap && (n == score || n->uses == 1);) {
    bool last = n->op->flags & FlagMul, masks = n->op->typing == TypeWhere;
    if (last && node_is_literal(n->in[1]) && n->in[1]->attr.value > 0 &&
        isfinite(n->in[1]->attr.value)) {
      *scaled = n;
      return n->in[1]->attr.value;
    }
    int masked = !masks ? -1 : is_masked(n->in[1]) ? 1 : is_masked(n->in[2]) ? 2 : -1;
    if (masked < 0) return 1;
    n = n->in[3 - masked];
  }
  return 1;
}

static void bind_products(const AttendText *t, Scope *s) {
  const Attention *a = t->e->g->attention;
  for (int i = 0; i < a->nproducts; i++) expr_bind(s, a->product[i], t->element, t->product[i]);
}

static void bind_conditions(const AttendText *t, Scope *s, const Masking *holding) {
  for (int i = 0; i < holding->count; i++) {
    const Node *c = holding->condition[i].node;
    Index of[MaxRank];
    expr_broadcast(&t->e->g->attention->score->type, &c->type, t->element, of);
    expr_bind(s, c, of, holding->condition[i].holds ? "true" : "false");
  }
}

// The score, where the conditions of `holding` hold.
static void put_score(AttendText *t, const char *name, const Masking *holding) {
  const Attention *a = t->e->g->attention;
  Scope s = open_scope(t);
  bind_products(t, &s);
  bind_conditions(t, &s, holding);
  const Node *scaled;
  common_factor(a->score, t->e->g, &scaled);
  if (scaled) expr_bind(&s, scaled, t->element, expr_value(&s, scaled->in[0], t->element));
  lua_newtable(t->e->c->lua);
  put_function(t, &s, expr_value(&s, a->score, t->element));
  lua_setfield(t->e->c->lua, -2, name);
}

// Which tiles are masked or plain.
static void put_masking(AttendText *t, const Masking *masking) {
  Emitter *e = t->e;
  Buffer decode = {0};
  emit_masking(e, &t->values, masking, t->element);
  const char *texts[] = {hole_get(e, "outer"), hole_get(e, "inner")};
  buffer_put(&decode, "%s", t->decode);
  hole_text(e, "decode", text_mentioned(e->c->arena, &decode, LENGTH(texts), texts));
  lua_setfield(e->c->lua, -2, "masking");
}

// Does this step apply to each element, not to rows?
static bool is_elementwise(const Attention *a, const Weighing *w) {
  for (int i = 0; i < w->node->nin; i++)
    if (i != w->heavy && !node_is_literal(w->node->in[i]) && !attend_is_row(a, w->node->in[i]))
      return true;
  return false;
}

// What the step makes of `value`, which the power has become.
static const char *weighed(Scope *s, const Weighing *w, const Index *at, const char *value) {
  expr_bind(s, w->node->in[w->heavy], at, value);
  return expr_value(s, w->node, at);
}

static void put_weight(AttendText *t) {
  const Attention *a = t->e->g->attention;
  Scope s = open_scope(t);
  const char *value = "power";
  int count = 0;
  for (int i = a->nsteps - 1; i >= 0; i--) {
    if (!is_elementwise(a, &a->step[i])) continue;
    value = weighed(&s, &a->step[i], t->element, value);
    count++;
  }
  if (!count) {
    scope_free(&s);
    return;
  }
  lua_newtable(t->e->c->lua);
  put_function(t, &s, value);
  lua_setfield(t->e->c->lua, -2, "weighing");
}

// ---- rows --------------------------------------------------------------------------------------

// The reductions, of the row's largest score and the sum of exp(score - largest).
static void bind_rows(AttendText *t, Scope *s, const Index *at, const char *scale) {
  const Group *g = t->e->g;
  Arena *arena = t->e->c->arena;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (n->op->cls != OpReduce || n->tail == kLoadTail) continue;
    const char *text = "state.most";
    if (n->op->flags & FlagOnline)
      text = arena_printf(arena, "(%s)", monoid_result(arena, n, "state"));
    else if (!(n->op->flags & FlagMax))
      text = arena_printf(arena, "(state.sum * %s)", scale);
    expr_bind(s, n, at, text);
  }
}

// Stores values of rows that leave the kernel.
static void put_row_outputs(AttendText *t, Scope *s, const Index *at) {
  const Group *g = t->e->g;
  for (int i = 0; i < g->noutputs; i++) {
    Node *n = g->outputs[i];
    if (n->tail != kRowTail) continue;
    Index of[MaxRank];
    expr_broadcast(&t->e->g->attention->score->type, &n->type, at, of);
    const char *value = expr_value(s, n, of);
    Buffer none = {0};
    buffer_put(&s->body, "    if (first && at < kM) {\n");
    expr_store(s, &none, n, of, value);
    buffer_put(&s->body, "    }\n");
    buffer_free(&none);
  }
}

// Do both compute the same? Conditions are copied for each that reads them (chain.c).
static bool is_alike(Arena *arena, const Node *a, const Node *b) {
  size_t size, other;
  if (a == b) return true;
  if (node_has_memory(a) || a->op != b->op || a->nin != b->nin) return false;
  const void *key = simp_key(arena, a, a->in, &size), *of_b = simp_key(arena, b, a->in, &other);
  if (size != other || memcmp(key, of_b, size)) return false;
  for (int i = 0; i < a->nin; i++)
    if (!is_alike(arena, a->in[i], b->in[i])) return false;
  return true;
}

// Is this step a condition that the scores have, too, so that what it leaves out is 0 already?
static bool masks_again(Arena *arena, const Attention *a, const Weighing *w) {
  if (w->node->op->typing != TypeWhere || w->heavy != 1) return false;
  for (const Node *n = a->score; n->op->cls == OpMap && n->op->typing == TypeWhere; n = n->in[1])
    if (is_masked(n->in[2]) && is_alike(arena, n->in[0], w->node->in[0])) return true;
  return false;
}

static void put_row(AttendText *t) {
  Emitter *e = t->e;
  const Attention *a = e->g->attention;
  Scope s = open_scope(t);
  Index at[MaxRank];
  memcpy(at, t->element, sizeof at);
  at[a->key] = (Index){"0", false};
  const char *shift = "0.f";
  bind_rows(t, &s, at, "1.f");
  if (a->shift) {
    Index of[MaxRank];
    expr_broadcast(&a->score->type, &a->shift->type, at, of);
    shift = expr_value(&s, a->shift, of);
  }
  const char *value = expr_name(e->g, "factor"); // between exp(score - largest) and the power
  buffer_put(&s.body, "    const float %s = nn_exp(state.most - %s);\n", value, shift);
  bind_rows(t, &s, at, value);
  for (int i = a->nsteps - 1; i >= 0; i--) {
    const Weighing *w = &a->step[i];
    bool converts = w->node->op->flags & FlagCopy || w->node->op->typing == TypeConvert;
    if (!converts && !is_elementwise(a, w)) value = weighed(&s, w, at, value);
  }
  put_row_outputs(t, &s, at);
  for (int i = 0; i < a->nsteps; i++)
    if (masks_again(e->c->arena, a, &a->step[i])) { // a row without a key has no NaN then
      value = arena_printf(e->c->arena, "(state.sum == 0.f ? 0.f : %s)", value);
      break;
    }
  lua_newtable(e->c->lua);
  put_function(t, &s, value);
  lua_setfield(e->c->lua, -2, "row");
}

// ---- the kernel --------------------------------------------------------------------------------

static void put_shape(AttendText *t) {
  Emitter *e = t->e;
  const Tile *tile = &e->g->tile;
  static const char *const boxes[] = {"query_boxes", "key_boxes", "value_boxes"};
  t->nboxes = e->g->nboxes;
  for (int i = 0; i < t->nboxes; i++)
    e->g->boxes[i].name = expr_name(e->g, boxes[i + 3 - t->nboxes]);
  hole_text(e, "unit", tile->unit->name);
  hole_text(e, "prefix", tile->unit->prefix);
  hole_text(e, "operand", expr_ctype(prec_operand(e->g->anchor)));
  hole_int(e, "m", t->a.rows);
  hole_int(e, "keys", t->a.keys);
  hole_int(e, "tile_m", tile->m);
  hole_int(e, "tile_keys", tile->n);
  hole_int(e, "warp_m", tile->tm);
  hole_int(e, "blocks", tile->blocks);
  hole_int(e, "smem", tile->smem);
  hole_int(e, "splits", tile->splits);
  lua_newtable(e->c->lua);
  for (int i = 0; i < e->g->attention->noperands; i++) put_operand(t, i);
  lua_setfield(e->c->lua, -2, "operands");
  emit_head_states(e, &t->heads);
}

// What kernels that make rows of values have besides.
static void put_rows(AttendText *t) {
  Emitter *e = t->e;
  const Tile *tile = &e->g->tile;
  TileShares shares = attend_tiles(e->g, &t->a, tile);
  hole_int(e, "n", t->a.width);
  hole_int(e, "parts", attend_parts(&t->a, tile));
  Loaders loaders = attend_loaders(&t->a, tile);
  if (loaders.threads) {
    hole_int(e, "loaders", loaders.threads);
    hole_int(e, "loader_registers", loaders.registers);
    hole_int(e, "registers", loaders.of_others);
    hole_int(e, "most_held", loaders.most_held);
    hole_int(e, "jobs", attend_jobs(&t->a, tile));
    hole_int(e, "places", loaders.places);
  }
  hole_int(e, "staged", attend_staged(&t->a));
  hole_bool(e, "descends", shares.skipped_first > shares.skipped_last);
}

static void open_text(AttendText *t, Emitter *e) {
  *t = (AttendText){.e = e, .a = attend_problem(e->g)};
  product_open(&t->values, e, &t->a.values);
  t->values.number[AxisK] = "key";
  product_name_axes(&t->values);
  for (int i = 0; i < t->a.nproducts; i++) {
    ProductText *h = &t->scores[i];
    *h = t->values;
    h->p.maps = &t->a.scores[i];
    h->maps = &t->a.scores[i];
    t->product[i] = expr_local(e->g, e->g->attention->product[i]);
    h->number[AxisK] = "k", h->number[AxisN] = "key";
    product_name_axes(h);
  }
  Buffer decode = {0};
  product_index(&t->values, MapA, kRoleBatch | kRoleM | kRoleK, "    ", &decode, t->element);
  t->decode = decode.text ? buffer_take(&decode, e->c->arena) : "";
}

void emit_attend(Emitter *e) {
  AttendText t;
  open_text(&t, e);
  put_shape(&t);
  put_rows(&t);
  const Node *scaled;
  double scale = common_factor(e->g->attention->score, e->g, &scaled);
  hole_text(e, "scale", expr_literal(e->c->arena, scale, DtF32));
  hole_int(e, "depth", t.a.depth[0]);
  Masking masking = attend_masking(e->g, &t.a);
  hole_text(e, "product", t.product[0]);
  put_score(&t, "score", &(Masking){0});
  if (masking.count) put_masking(&t, &masking), put_score(&t, "plain", &masking);
  put_weight(&t);
  put_row(&t);
  tails_put(&t.values);
}

// ---- weights that are a map of scores -----------------------------------------------------------

// n times a factor, less what is subtracted (or null). Multiplications of n by numbers take the
// factor in, so that the exponent of a scaled score less a row's value is one multiply-add.
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
  if (node_is_literal(n)) { // -inf, of what is masked
    number = expr_literal(arena, n->attr.value * factor, DtF32);
    return less ? arena_printf(arena, "%s - %s", number, less) : number;
  }
  const char *value = expr_value(s, n, at);
  return less ? arena_printf(arena, "nn_fma(%s, %s, -%s)", value, number, less)
              : arena_printf(arena, "%s * %s", value, number);
}

// The power of 2 that the exponential is.
// NOTE: of operands in 16 bits alone: the factor is rounded once with the scale, so that a power is
// off by 2^-24 of its score, which sums of their products are in any case.
static const char *exponent(AttendText *t, Scope *s, const Node *x) {
  if (t->a.size == 2) return times(t, s, x, t->element, 1.4426950408889634, NULL);
  return arena_printf(t->e->c->arena, "%s * kLog2e", expr_value(s, x, t->element));
}

// The left operand of the last product, where the conditions of `holding` hold.
static void put_mapped(AttendText *t, const char *name, const Masking *holding) {
  const Node *weights = t->e->g->anchor->in[0];
  Scope s = open_scope(t);
  s.brought = value_of_key, s.attend = t;
  bind_products(t, &s);
  bind_conditions(t, &s, holding);
  const Node *power = t->e->g->attention->power;
  const char *x = exponent(t, &s, power->in[0]), *word = expr_local(t->e->g, power);
  buffer_put(&s.body, "    const float %s = nn_exp2_fast(%s);\n", word, x);
  expr_bind(&s, power, t->element, word);
  Index at[MaxRank];
  for (int d = 0; d < weights->type.rank; d++) at[t->e->g->attention->place[d]] = t->element[d];
  lua_newtable(t->e->c->lua);
  put_function(t, &s, expr_value(&s, weights, at));
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

void emit_weigh(Emitter *e) {
  AttendText t;
  const Attention *a = e->g->attention;
  open_text(&t, e);
  put_shape(&t);
  put_rows(&t);
  put_products(&t);
  hole_int(e, "shared", t.a.shared < 2 * a->nproducts ? t.a.shared + 1 : 0);
  Masking masking = attend_masking(e->g, &t.a);
  put_mapped(&t, "weighing", &(Masking){0});
  if (masking.count) put_masking(&t, &masking), put_mapped(&t, "plain", &masking);
  put_values_of_keys(&t);
  tails_put(&t.values);
}

// ---- sums of such weights -----------------------------------------------------------------------

// What the sum of these rows, keys and kept batches becomes, and where it is stored.
static void put_sum(AttendText *t) {
  Emitter *e = t->e;
  const Type *type = &e->g->anchor->type;
  Scope s = open_scope(t);
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

void emit_sum_weights(Emitter *e) {
  AttendText t;
  open_text(&t, e);
  put_shape(&t);
  put_products(&t);
  hole_int(e, "batches", t.a.looped);
  hole_bool(e, "sums_rows", t.a.sums_rows);
  hole_bool(e, "sums_keys", t.a.sums_keys);
  hole_int(e, "part_group", tile_part_group(&e->g->tile));
  hole_int(e, "part_counts", tile_part_counts(&e->g->tile));
  Masking masking = attend_masking(e->g, &t.a);
  put_mapped(&t, "weighing", &(Masking){0});
  if (masking.count) put_masking(&t, &masking), put_mapped(&t, "plain", &masking);
  put_sum(&t);
}
