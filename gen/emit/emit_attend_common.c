// emit_attend_common.c: template parameters shared by attention forward and backward kernels: rows
// of q, k and v, tiles, products and conditions of scores.
#include "attend_text.h"

#include <string.h>

// ---- operands ----------------------------------------------------------------------------------

// Parameters of rows loaded by TMA: the coordinates in the kernel's i-th tensor map at which a tile
// begins.
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
  hole_text(e, "decode",
            product_decoded(h, kRoleBatch | 1u << rows, "      ", box.map.rank, places_of));
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
  if (t->nboxes > 2 || (t->nboxes && i)) { // the last map is that of the values
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

// ---- functions of a score -----------------------------------------------------------------------

// Sets parameters decode, body and value of a function.
void attend_put_function(AttendText *t, Scope *s, const char *value) {
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

Scope attend_scope(const AttendText *t) {
  return (Scope){.group = t->e->g, .lanes = 1, .indent = "    "};
}

void attend_bind_products(const AttendText *t, Scope *s) {
  const Attention *a = t->e->g->attention;
  for (int i = 0; i < a->nproducts; i++) expr_bind(s, a->product[i], t->element, t->product[i]);
}

void attend_bind_conditions(const AttendText *t, Scope *s, const Masking *holding) {
  for (int i = 0; i < holding->count; i++) {
    const Node *c = holding->condition[i].node;
    Index of[MaxRank];
    expr_broadcast(&t->e->g->attention->score->type, &c->type, t->element, of);
    expr_bind(s, c, of, holding->condition[i].holds ? "true" : "false");
  }
}

// Classification of tiles as masked or plain.
void attend_put_masking(AttendText *t, const Masking *masking) {
  Emitter *e = t->e;
  Buffer decode = {0};
  emit_masking(e, &t->values, masking, t->element);
  const char *texts[] = {hole_get(e, "outer"), hole_get(e, "inner")};
  buffer_put(&decode, "%s", t->decode);
  hole_text(e, "decode", text_mentioned(e->c->arena, &decode, LENGTH(texts), texts));
  lua_setfield(e->c->lua, -2, "masking");
}

// ---- the kernel --------------------------------------------------------------------------------

void attend_put_shape(AttendText *t) {
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
  hole_int(e, "part_group", tile_part_group(tile));
  hole_int(e, "part_counts", tile_part_counts(tile));
  hole_int(e, "joined", attend_joined(tile));
  hole_text(e, "by_keys", attend_by_keys(&t->a, tile) ? ", true" : "");
  hole_text(e, "few", attend_registers_are_few(&t->a, tile) ? ", true" : "");
  lua_newtable(e->c->lua);
  for (int i = 0; i < e->g->attention->noperands; i++) put_operand(t, i);
  lua_setfield(e->c->lua, -2, "operands");
  emit_head_states(e, &t->heads);
}

// Further parameters of kernels whose output is rows of values.
void attend_put_rows(AttendText *t) {
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

void attend_open(AttendText *t, Emitter *e) {
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
