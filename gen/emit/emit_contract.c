// emit_contract.c: template parameters of contractions: operands, phases, column and row
// reductions. Epilogues: emit_tails.c.
#include "emit.h"

#include <string.h>

// ---- operands ----------------------------------------------------------------------------------

static bool leaves(const ProductText *h, int tensor, int d) { // in some phase
  bool found = false;
  for (int i = 0; i < h->p.phases; i++) found = found || maps_leave(&h->p.maps[i], tensor, d);
  return found;
}

static unsigned rows_of(int tensor) {
  return kRoleBatch | (tensor == MapA ? kRoleM : kRoleN);
}

// Appends " && unsigned(y) < 56u" for each dimension that has indices outside.
static const char *inside_text(ProductText *h, int tensor, const char *text) {
  unsigned all = rows_of(tensor) | kRoleK;
  for (int d = 0; d < h->maps->rank[tensor]; d++)
    if (leaves(h, tensor, d))
      text = arena_printf(h->arena, "%s%sunsigned(%s) < %lldu", text, *text ? " && " : "",
                          product_map_text(h, tensor, d, all, true),
                          (long long)h->maps->type[tensor]->dim[d]);
  return text;
}

// A computed operand's element: statements and the value.
static void put_computed(Emitter *o, ProductText *h, int tensor) {
  const Node *operand = o->g->anchor->in[tensor];
  unsigned all = rows_of(tensor) | kRoleK;
  Buffer decode = {0}, body = {0};
  Index at[MaxRank];
  product_index(h, tensor, all, "    ", &decode, at);
  Scope s = {.group = o->g, .lanes = 1, .indent = "    ", .pred = "inside"};
  s.flat_type = type_make(DtF32, operand->type.rank, operand->type.dim);
  s.flat = product_flat_text(h, tensor, &s.flat_type, all); // for values in the operand's layout
  memcpy(s.flat_at, at, sizeof *at * (size_t)operand->type.rank);
  const char *value = expr_value(&s, operand, at);
  bool phased = h->p.phases > 1;
  const char *limits = arena_printf(h->arena, "%s < %s && k < %s", tensor == MapA ? "m" : "n",
                                    tensor == MapB ? "kN" : phased ? "phase.m" : "kM",
                                    phased ? "phase.k" : "kK");
  const char *inside = inside_text(h, tensor, limits);
  buffer_put(&body, "%s%s", s.loads.text ? s.loads.text : "", s.body.text ? s.body.text : "");
  hole_take(o, "decode", &decode);
  hole_take(o, "body", &body);
  hole_text(o, "inside", inside);
  hole_text(o, "value", unit_truncates(o->g) ? expr_as_tf32(o->c->arena, value) : value);
  scope_free(&s);
}

// Bit mask, per row, of filter taps that fall into the padding.
static void put_missing(Emitter *o, ProductText *h, int tensor) {
  const Maps *m = h->maps;
  Buffer missing = {0}, tap = {0};
  int bit = 0;
  for (int d = 0; d < m->rank[tensor]; d++) {
    if (!leaves(h, tensor, d)) continue;
    const char *first = product_map_text(h, tensor, d, rows_of(tensor), true);
    int axis = 0;
    while (axis < m->naxes && !(m->axis[axis].role == AxisK && m->dim[tensor][d].by[axis])) axis++;
    const char *tap_axis = axis < m->naxes ? h->axis[axis] : "0";
    int64_t by = axis < m->naxes ? m->dim[tensor][d].by[axis] : 0, most = 1;
    for (int i = 0; i < h->p.phases && axis < m->naxes; i++)
      if (h->p.maps[i].axis[axis].size > most) most = h->p.maps[i].axis[axis].size;
    buffer_put(&missing, "%stap_misses<%lld, %lld>(%s, %lld)", bit ? " | " : "",
               (long long)most, (long long)by, first, (long long)m->type[tensor]->dim[d]);
    if (bit) {
      buffer_put(&missing, " << %d", bit);
      buffer_put(&tap, " | 1u << (%d + %s)", bit, tap_axis);
    } else {
      buffer_put(&tap, "1u << %s", tap_axis);
    }
    bit += (int)most;
  }
  hole_text(o, "missing_decode",
            product_decoded(h, rows_of(tensor), "    ", 1, (const char *[]){missing.text}));
  hole_take(o, "missing", &missing);
  hole_text(o, "tap_decode", product_decoded(h, kRoleK, "    ", 1, (const char *[]){tap.text}));
  hole_text(o, "tap_arg", "int k");
  hole_take(o, "tap", &tap);
}

// Parameter list "int m, int batch"; names that the text does not mention are omitted.
static const char *arguments(const ProductText *h, const char *one, const char *two,
                             const char *text) {
  const char *list = arena_printf(h->arena, "int%s%s", expr_mentions(text, one) ? " " : "",
                                  expr_mentions(text, one) ? one : "");
  if (!two) return list;
  bool used = expr_mentions(text, two);
  return arena_printf(h->arena, "%s, int%s%s", list, used ? " " : "", used ? two : "");
}

// A copied operand: row offsets plus offsets along k.
static void put_copied(Emitter *o, ProductText *h, int tensor) {
  const Operand *from = tensor == MapA ? &h->p.a : &h->p.b;
  const char *letter = product_letters[tensor == MapA ? AxisM : AxisN];
  int64_t step;
  bool linear = true;
  for (int i = 0; i < h->p.phases; i++)
    linear = linear && axes_linear(&h->p.maps[i], tensor, from->stride, AxisK, &step);
  const char *pointer = expr_pointer(o->g, from->base), *begin = "0";
  for (int d = 0; d < h->maps->rank[tensor]; d++) {
    const char *first = product_begin_text(h, tensor, d);
    bool minus = *first == '-';
    begin = product_joined(h, begin, index_scaled(h->arena, first + minus, from->stride[d]), minus);
  }
  begin = product_joined(h, begin, product_literal(h, from->offset), false);
  const char *row = product_offset_text(h, tensor, from->stride, rows_of(tensor));
  if (h->p.phases > 1)
    row = product_joined(h, row, begin, false);
  else
    pointer = product_joined(h, pointer, begin + (*begin == '-'), *begin == '-');
  const char *at = product_offset_text(h, tensor, from->stride, kRoleK);
  const char *decode = product_decoded(h, rows_of(tensor), "    ", 1, &row);
  hole_text(o, "pointer", pointer);
  hole_text(o, "row", row);
  hole_text(o, "row_decode", decode);
  hole_text(o, "row_args",
            arguments(h, letter, "batch",
                      arena_printf(h->arena, "%s %s%s", row, decode,
                                   h->p.pair && tensor == MapB ? " n" : "")));
  hole_text(o, "at", at);
  decode = product_decoded(h, kRoleK, "    ", 1, &at);
  hole_text(o, "k_decode", decode);
  hole_text(o, "k_arg", arguments(h, "k", NULL, arena_printf(h->arena, "%s %s", at, decode)));
  hole_bool(o, "copied", true);
  hole_bool(o, "across", from->across);
  hole_int(o, "piece", from->piece);
  hole_int(o, "tap_run", tensor == MapA ? h->p.tap_run : 0);
  int64_t block = kRowBytes / h->p.size, depth = h->p.longest < block ? h->p.longest : block;
  int row_axis = axes_innermost(h->maps, tensor == MapA ? AxisM : AxisN);
  int64_t apart = row_axis < 0 ? 0 : axis_stride(h->maps, tensor, from->stride, row_axis);
  hole_bool(o, "overlaps", !from->across && apart > 0 && apart < depth);
  hole_text(o, "linear", linear ? "true" : "false");
  hole_text(o, "bounded", from->bounded ? "true" : "false");
  if (from->bounded && !from->across) put_missing(o, h, tensor);
  if (from->bounded && from->across) {
    const char *inside = inside_text(h, tensor, "");
    hole_text(o, "inside", inside);
    hole_text(o, "inside_decode", product_decoded(h, rows_of(tensor) | kRoleK, "    ", 1, &inside));
  }
}

static void put_operand(ProductText *h, int tensor) {
  Emitter o = *h->e;
  bool halves = h->p.pair && tensor == MapB; // row n is at another column of the product
  if (halves) h->number[AxisN] = "column", product_name_axes(h);
  const Operand *from = tensor == MapA ? &h->p.a : &h->p.b;
  lua_newtable(o.c->lua);
  hole_text(&o, "name", tensor == MapA ? "a" : "b");
  hole_text(&o, "map", tensor == MapA ? "MapA" : "MapB");
  hole_text(&o, "index", tensor == MapA ? "m" : "n");
  hole_text(&o, "comment",
            arena_printf(h->arena, "Operand %s: row addresses, and offsets along k.",
                         tensor == MapA ? "a" : "b"));
  hole_bool(&o, "halves", halves);
  (from->piece ? put_copied : put_computed)(&o, h, tensor);
  if (halves) h->number[AxisN] = product_letters[AxisN], product_name_axes(h);
  lua_setfield(o.c->lua, -2, tensor == MapA ? "a" : "b");
}

// ---- the kernel ---------------------------------------------------------------------------------

static bool is_rounded(const Operand *o) { // rounded to TF32 when stored
  return o->piece && o->base->tf32;
}

// Trailing template arguments of the tile class (", kAcrossA, kAcrossB, kRoundA, kRoundB"),
// omitting defaults.
static const char *operand_flags(const ProductText *h) {
  const Operand *a = &h->p.a, *b = &h->p.b;
  bool mma = h->e->g->tile.unit == &unit_mma, told = mma && (is_rounded(a) || is_rounded(b));
  const bool flags[] = {a->across, b->across, !is_rounded(a), !is_rounded(b)};
  int count = told ? 4 : b->across ? 2 : a->across;
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(h->arena, "%s, %s", text, flags[i] ? "true" : "false");
  return text;
}

static void put_shape(ProductText *h) {
  Emitter *e = h->e;
  const Tile *t = &e->g->tile;
  const Product *p = &h->p;
  hole_text(e, "unit", t->unit->name);
  hole_text(e, "prefix", t->unit->prefix);
  hole_int(e, "step", t->unit->step);
  hole_int(e, "in_flight", t->unit->in_flight);
  hole_text(e, "operand", expr_ctype(prec_operand(e->g->anchor)));
  hole_text(e, "across", operand_flags(h));
  hole_int(e, "n", p->n);
  hole_int(e, "batch", p->batch);
  hole_int(e, "tile_m", t->m);
  hole_int(e, "tile_n", t->n);
  hole_int(e, "warp_m", t->tm);
  hole_int(e, "warp_n", t->tn);
  hole_int(e, "stages", t->stages);
  hole_int(e, "splits", t->splits);
  hole_int(e, "part_group", tile_part_group(t));
  hole_int(e, "part_counts", tile_part_counts(t));
  hole_int(e, "blocks", t->blocks);
  hole_int(e, "taps", tile_tap_bytes(p) / kTapBytes);
  hole_int(e, "smem", t->smem);
  hole_bool(e, "own", tile_keeps(t, p, e->g));
  hole_bool(e, "transposed", p->transposed);
  bool changes = false; // of memory that it also reads
  for (int i = 0; i < e->g->noutputs; i++)
    changes = changes || group_aliases(e->g, e->g->outputs[i]);
  hole_bool(e, "changes", changes);
  hole_bool(e, "walks", t->grid[0] < (int64_t)tile_count(t, p) * t->splits);
}

// k.phases: per phase the first tile along m and its members' values. k.m, k.k: common divisors of
// m and k of all phases.
static void put_phases(ProductText *h) {
  Emitter *e = h->e;
  lua_State *lua = e->c->lua;
  int64_t m = 0, k = 0, first = 0;
  bool full = true; // no split of any phase has an empty k
  lua_newtable(lua);
  for (int i = 0; i < h->p.phases; i++) {
    int64_t rows = maps_count(&h->p.maps[i], AxisM), depth = maps_count(&h->p.maps[i], AxisK);
    const char *more = h->values[i].text;
    lua_newtable(lua);
    Emitter inner = *e;
    hole_int(&inner, "first", first);
    hole_text(&inner, "values",
              arena_printf(h->arena, "%lld, %lld, %lld%s", (long long)first, (long long)rows,
                           (long long)depth, more ? more : ""));
    lua_rawseti(lua, -2, i + 1);
    buffer_free(&h->values[i]);
    full = full && ceil_div(depth, e->g->tile.k) >= e->g->tile.splits;
    m = gcd(m, rows), k = gcd(k, depth);
    first += ceil_div(rows, e->g->tile.m);
  }
  lua_setfield(lua, -2, "phases");
  hole_int(e, "m", m);
  hole_int(e, "k", k);
  hole_int(e, "tiles_m", first);
  hole_bool(e, "full", full);
  hole_take(e, "members", &h->members);
}

// Collects accumulators of row statistics and column reductions.
static void find_states(Emitter *e, States *rows, States *columns) {
  const Group *g = e->g;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (group_joins_rows(g, n)) states_add(rows, n);
    if (group_reduces_columns(g, n)) states_add(columns, n);
  }
  if (rows->count) e->rows = rows, rows->type = expr_name(g, "RowState");
  if (columns->count) e->columns = columns, columns->type = expr_name(g, "ColumnState");
  if (columns->count) columns->run = expr_name(g, "ColumnRun");
}

// Emits the final value of a row or column accumulator (variable `whole`), the maps applied to it,
// and the stores.
static void put_whole(ProductText *h, States *states, const Node *reduction, Scope *s,
                      const Index *at, Buffer *decode) {
  Emitter *e = h->e;
  Group *g = e->g;
  Buffer structs = {0}, stores = {0};
  int lanes = g->tile.lanes;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!group_reduces(g, n)) continue;
    const char *word = arena_printf(h->arena, "%s_%s", e->rows ? "row" : "column", n->op->name);
    const char *value = expr_name(g, word);
    buffer_put(&s->body, "    const %s %s = %s;\n", expr_compute_type(n), value,
               states_result(states, n, "whole"));
    expr_bind(s, n, at, value);
    for (int j = 0; j < g->noutputs; j++)
      if (g->outputs[j] == n) expr_store(s, &stores, n, at, value);
  }
  states_put(states, 1, &structs);
  hole_text(e, "type", states->type);
  g->tile.lanes = 1;
  emit_epilogue(e, s, &reduction->type, at, NULL);
  g->tile.lanes = lanes;
  const char *maps = hole_get(e, "stores");
  buffer_put(&stores, "%s", maps ? maps : "");
  const char *texts[] = {hole_get(e, "loads"), hole_get(e, "body"), stores.text};
  hole_text(e, "decode", text_mentioned(h->arena, decode, LENGTH(texts), texts));
  hole_take(e, "stores", &stores);
  hole_take(e, "states", &structs);
}

// k.columns: results of columns, or of groups of columns beginning at sum_n.
static void put_columns(ProductText *h) {
  Emitter *e = h->e;
  Group *g = e->g;
  Buffer decode = {0};
  Scope s = {.group = g, .lanes = 1, .indent = "    ", .tail = kFootTail};
  Index at[MaxRank], to[MaxRank];
  const Node *reduction = NULL;
  int64_t together;
  unsigned kept = group_dims_kept(g, NULL, &together);
  h->number[AxisN] = "sum_n", product_name_axes(h);
  product_index(h, MapOut, kRoleBatch | kRoleN, "    ", &decode, at);
  int columns = maps_dim(h->maps, MapOut, AxisN);
  for (int d = 0; d < g->anchor->type.rank; d++) // without the rows' begin in a phase
    if (d != columns && !(kept >> d & 1)) at[d] = (Index){"0", false};
  for (int i = 0; i < g->tails[0].nmoves; i++) {
    expr_follow(g->tails[0].moves[i], 1, at, to);
    memcpy(at, to, sizeof at);
  }
  for (int i = 0; i < g->nnodes; i++)
    if (group_reduces_columns(g, g->nodes[i])) reduction = g->nodes[i];
  for (int d = 0; d < reduction->type.rank; d++)
    if (reduction->type.dim[d] == 1) at[d] = (Index){"0", false};
  lua_newtable(e->c->lua);
  put_whole(h, e->columns, reduction, &s, at, &decode);
  hole_text(e, "run", e->columns->run);
  hole_int(e, "meeting", g->tile.meeting);
  hole_int(e, "group", g->tile.group);
  hole_int(e, "together", together);
  lua_setfield(e->c->lua, -2, "columns");
  h->number[AxisN] = product_letters[AxisN], product_name_axes(h);
}

// k.row_states: results of row statistics.
static void put_rows(ProductText *h) {
  Emitter *e = h->e;
  Group *g = e->g;
  Buffer decode = {0};
  Scope s = {.group = g, .lanes = 1, .indent = "    ", .tail = kFootTail};
  Index at[MaxRank];
  product_index(h, MapOut, kRoleBatch | kRoleM, "    ", &decode, at);
  for (int d = 0; d < g->anchor->type.rank; d++)
    if (g->anchor->type.dim[d] == 1) at[d].text = "0";
  at[g->anchor->type.rank - 1] = (Index){"0", false};
  lua_newtable(e->c->lua);
  put_whole(h, e->rows, group_statistic(g), &s, at, &decode);
  hole_text(e, "kept", ceil_div(h->p.n, g->tile.n) > 1 ? "own_rows, own_met" : "nullptr, nullptr");
  lua_setfield(e->c->lua, -2, "row_states");
}

// k.begins: the prologue's rows, as in rowwise.cu.
static void put_first(Emitter *e) {
  Group *rows = e->g->first;
  lua_State *lua = e->c->lua;
  if (!rows) return;
  Emitter inner = {.c = e->c, .g = rows};
  rows->names = e->g->names;
  lua_newtable(lua);
  hole_int(&inner, "lanes", rows->tile.lanes);
  hole_int(&inner, "threads", rows->tile.threads);
  hole_int(&inner, "jobs", ceil_div(rows->tile.grid[0], rows->tile.runs));
  hole_int(&inner, "runs", rows->tile.runs);
  hole_bool(&inner, "inside", true);
  hole_bool(&inner, "early", first_loads_early(e->g, e->c->options.arch));
  rows->tm->emit(&inner);
  lua_setfield(lua, -2, "begins");
}

void emit_contract(Emitter *e) {
  ProductText h;
  States rows = {.group = e->g}, columns = {.group = e->g};
  find_states(e, &rows, &columns);
  Product product = contract_product(e->g);
  product_open(&h, e, &product);
  if (e->rows) put_rows(&h);
  if (e->columns) put_columns(&h);
  put_first(e);
  put_shape(&h);
  put_operand(&h, MapA);
  put_operand(&h, MapB);
  tails_put(&h);
  put_phases(&h);
}
