// emit_row.c: row kernels: sweeps over a row, kept in registers, accumulate its reductions and
// compute the maps between and after them (softmax, layer norm). Each input is read once, or again
// by later sweeps if it was not kept. The loops are in rowwise.cu; here are the statements inside
// them.
#include "emit.h"

#include <string.h>

typedef struct Rows {
  Emitter *e;
  const Type *full; // the full domain, in memory order of the anchor's input
  int64_t axes;
  Index full_at[MaxRank], row_at[MaxRank];
  const char **row_names, **kept_names; // by node id, made on demand
  bool *kept;                           // by node id: kept by an earlier sweep
  const Node *values[kMostRowValues];   // candidates for keeping
  int nvalues;
  bool named[MaxRank]; // by dimension: its index is mentioned
  States *sweeps;
  int nsweeps;
  struct Bound *loads; // row values loaded or computed between sweeps
  int nloads;
} Rows;

static bool is_full(const Rows *r, const Node *n) {
  return type_same_shape(&n->type, r->full);
}
// One value per row. Values of a prologue may have other shapes and are computed by their readers.
static bool is_row(const Rows *r, const Node *n) {
  return !is_full(r, n) && type_same_shape(&n->type, &r->e->g->anchor->type);
}
static bool is_ours(const Rows *r, const Node *n) {
  return n->group == r->e->g;
}
static bool is_reduction(const Node *n) {
  return n->op->cls == OpReduce;
}

static const char *row_name(const Rows *r, const Node *n) { // one value per row
  const char **name = &r->row_names[n->id];
  if (!*name) *name = expr_name(r->e->g, arena_printf(r->e->c->arena, "row_%s", n->op->name));
  return *name;
}

static const char *kept_array(const Rows *r, const Node *n) { // a full value kept for later sweeps
  const char **name = &r->kept_names[n->id];
  if (!*name) *name = expr_name(r->e->g, arena_printf(r->e->c->arena, "kept_%s", n->op->name));
  return *name;
}

// Is n, a value needed by later sweeps, in `set`?
static bool has_place(const Rows *r, const Node *n, uint64_t set) {
  for (int i = 0; i < r->nvalues; i++)
    if (r->values[i] == n) return set >> i & 1;
  return false;
}

static bool in_shared(const Rows *r, const Node *n) {
  return has_place(r, n, r->e->g->tile.shared);
}

static const char *kept_name(const Rows *r, const Node *n) {
  const char *format =
      in_shared(r, n) ? "smem.%s[item * kLanes + j][threadIdx.x]" : "%s[item * kLanes + j]";
  return arena_printf(r->e->c->arena, format, kept_array(r, n));
}

static void note_names(Rows *r, const char *text) {
  for (int d = 0; text && d < r->full->rank; d++)
    r->named[d] = r->named[d] || expr_mentions(text, emit_index_names(r->full->rank)[d]);
}

// ---- one sweep over the row --------------------------------------------------------------------

// Binds results of earlier sweeps: row values, and kept full values.
static void bind_earlier(const Rows *r, Scope *s, int p) {
  const Group *g = r->e->g;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool before = n->sweep < p || (n->sweep == p && !is_reduction(n));
    if (is_row(r, n) && before && n->op->cls != OpMove) expr_bind(s, n, r->row_at, row_name(r, n));
  }
  for (int i = 0; i < r->e->c->graph->nnodes; i++) { // including inputs of the group
    const Node *n = r->e->c->graph->nodes[i];
    if (r->kept[i]) expr_bind(s, n, r->full_at, kept_name(r, n));
  }
}

// Values loaded or computed between earlier sweeps are available in this one.
static void bind_loads(const Rows *r, Scope *s) {
  for (int i = 0; i < r->nloads; i++) expr_bind_as(s, &r->loads[i]);
}

static void keep(Rows *r, Scope *s, const Node *n, int p) {
  if (r->kept[n->id] || !has_place(r, n, r->e->g->tile.kept) || !row_needed_later(r->e->g, n, p))
    return;
  const char *value = expr_value(s, n, r->full_at);
  buffer_put(&s->body, "%s = %s;\n", kept_name(r, n), value);
  r->kept[n->id] = true;
}

static bool in_sweep(const Rows *r, const Node *n, int p) {
  return n->sweep == p && (is_full(r, n) || is_reduction(n));
}

// The accumulator of a thread in sweep p.
static const char *so_far(const Rows *r, int p) {
  return arena_printf(r->e->c->arena, r->sweeps[p].run ? "run_%d" : "sums_%d", p);
}

// Computes the nodes of sweep p, keeps values for later sweeps, accumulates each element.
static bool put_elements(Rows *r, Scope *s, int p) {
  const Group *g = r->e->g;
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!in_sweep(r, n, p)) continue;
    any = true;
    for (int j = 0; j < n->nin; j++)
      if (!is_ours(r, n->in[j])) keep(r, s, n->in[j], p);
    if (!is_reduction(n)) keep(r, s, n, p);
  }
  const char *place = domain_place(r->e->c->arena, r->full, r->axes, r->full_at);
  for (int i = 0; i < r->sweeps[p].count; i++) {
    const Member *m = &r->sweeps[p].member[i];
    const char *value = expr_value(s, m->value, r->full_at);
    if (r->sweeps[p].run)
      states_add_element(&r->sweeps[p], m, so_far(r, p), value, &s->body);
    else
      states_element(&r->sweeps[p], m, "one", value, place, &s->body);
  }
  return any;
}

static bool put_stores(Rows *r, Scope *s, Buffer *stores, int p) {
  const Group *g = r->e->g;
  bool any = false;
  for (int i = 0; i < g->noutputs; i++) {
    const Node *n = group_stored(g, g->outputs[i]);
    if (!is_full(r, n) || n->sweep != p || is_reduction(n)) continue;
    expr_store(s, stores, g->outputs[i], r->full_at, expr_value(s, n, r->full_at));
    any = true;
  }
  return any;
}

static void put_sweep(Rows *r, int p) {
  Buffer stores = {0}, decode = {0};
  Scope s = {.group = r->e->g, .lanes = r->e->g->tile.lanes, .indent = "      "};
  domain_flat(&s, r->e->c->arena, r->full, r->axes, r->full_at, "row", "i");
  bind_earlier(r, &s, p);
  bind_loads(r, &s);
  bool any = put_elements(r, &s, p);
  any = put_stores(r, &s, &stores, p) || any;
  int dims[MaxRank], count = domain_dims(r->full, r->axes, true, dims);
  const char *texts[] = {s.loads.text, s.body.text, stores.text};
  domain_decode(&decode, "i", r->full, dims, count, texts, 3);
  for (int i = 0; i < 3; i++) note_names(r, texts[i]);
  hole_bool(r->e, "any", any);
  hole_take(r->e, "decode", &decode);
  hole_take(r->e, "loads", &s.loads);
  hole_take(r->e, "body", &s.body);
  hole_take(r->e, "stores", &stores);
  scope_free(&s);
}

// ---- values of a row ---------------------------------------------------------------------------

static void put_results(Rows *r, Scope *s, int p) { // of sweep p's reductions
  const Group *g = r->e->g;
  for (int i = 0; p >= 0 && i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!is_reduction(n) || n->sweep != p) continue;
    buffer_put(&s->body, "const %s %s = %s;\n", expr_compute_type(n), row_name(r, n),
               states_result(&r->sweeps[p], n, arena_printf(r->e->c->arena, "sums_%d", p)));
  }
}

static void put_row_maps(Rows *r, Scope *s, int p) {
  const Group *g = r->e->g;
  for (int i = 0; i < g->nnodes; i++) { // reductions and row values known now
    const Node *n = g->nodes[i];
    bool known = is_reduction(n) || n->op->cls == OpMap;
    if (is_row(r, n) && known && n->sweep <= p) expr_bind(s, n, r->row_at, row_name(r, n));
  }
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!is_row(r, n) || n->op->cls != OpMap || n->sweep != p + 1) continue;
    const char *value = expr_value(s, n, r->row_at);
    buffer_put(&s->body, "const %s %s = %s;\n", expr_compute_type(n), row_name(r, n), value);
    expr_bind(s, n, r->row_at, row_name(r, n));
  }
}

// Does the last block have idle threads, which still take part in barriers?
static bool is_ragged(const Group *g) {
  const Tile *t = &g->tile;
  bool waits = !t->together || t->threads / t->rows < kWarp;
  return waits && type_count(&g->anchor->type) % t->rows;
}

static void put_row_stores(Rows *r, Scope *s, int p) {
  const Group *g = r->e->g;
  for (int i = 0; i < g->noutputs; i++) {
    const Node *n = group_stored(g, g->outputs[i]);
    int ready = n->sweep - !is_reduction(n);
    if (is_full(r, n) || ready != p) continue;
    const char *value = expr_value(s, n, r->row_at);
    const char *who = is_ragged(g) ? "tid == 0 && inside" : "tid == 0";
    buffer_put(&s->body, "if (%s) %s = %s<%s>(%s);\n", who,
               expr_element(s, g->outputs[i], r->row_at), expr_cast(n), expr_ctype(n->type.dtype),
               n->tf32 ? expr_as_tf32(r->e->c->arena, value) : value);
  }
}

static void keep_loads(Rows *r, const Scope *s) {
  Arena *arena = r->e->c->arena;
  for (int i = r->nloads; i < s->nbound; i++) {
    if (s->bound[i].pred || (is_ours(r, s->bound[i].node) && !s->bound[i].made)) continue;
    r->loads = arena_grow(arena, r->loads, r->nloads, sizeof *r->loads);
    r->loads[r->nloads++] = s->bound[i];
  }
}

// After sweep p: its results, then row values. p = -1: row values that depend on no reduction.
static void put_values(Rows *r, int p) {
  Scope s = {.group = r->e->g, .lanes = 1, .indent = "  "};
  bind_loads(r, &s);
  put_results(r, &s, p);
  put_row_maps(r, &s, p);
  put_row_stores(r, &s, p);
  keep_loads(r, &s);
  Buffer all = {0};
  buffer_put(&all, "%s%s", s.loads.text ? s.loads.text : "", s.body.text ? s.body.text : "");
  note_names(r, all.text);
  hole_take(r->e, p < 0 ? "first" : "values", &all);
  scope_free(&s);
}

// ---- the kernel --------------------------------------------------------------------------------

static void find_states(Rows *r) {
  Group *g = r->e->g;
  r->sweeps = arena_alloc(r->e->c->arena, sizeof *r->sweeps * (size_t)r->nsweeps);
  for (int p = 0; p < r->nsweeps; p++)
    r->sweeps[p] = (States){.group = g, .type = arena_printf(r->e->c->arena, "Sums%d", p)};
  for (int i = 0; i < g->nnodes; i++)
    if (is_reduction(g->nodes[i])) states_add(&r->sweeps[g->nodes[i]->sweep], g->nodes[i]);
  for (int p = 0; p < r->nsweeps; p++)
    if (states_have_runs(&r->sweeps[p]))
      r->sweeps[p].run = arena_printf(r->e->c->arena, "Run%d", p);
}

static void put_sweeps(Rows *r) { // k.sweeps[1..]
  lua_State *lua = r->e->c->lua;
  put_values(r, -1);
  lua_newtable(lua);
  for (int p = 0; p < r->nsweeps; p++) {
    lua_newtable(lua);
    if (r->sweeps[p].count) hole_text(r->e, "type", r->sweeps[p].type);
    if (r->sweeps[p].run) hole_text(r->e, "run", r->sweeps[p].run);
    hole_text(r->e, "so_far", so_far(r, p));
    hole_text(r->e, "sums", arena_printf(r->e->c->arena, "sums_%d", p)); // the row's accumulators
    put_sweep(r, p);
    put_values(r, p);
    lua_seti(lua, -2, p + 1);
  }
  lua_setfield(lua, -2, "sweeps");
}

static void put_constants(Rows *r) {
  Emitter *e = r->e;
  int64_t rows = type_count(&e->g->anchor->type);
  Buffer declare = {0}, shared = {0}, decode = {0};
  for (int i = 0; i < e->c->graph->nnodes; i++) {
    const Node *n = e->c->graph->nodes[i];
    const char *type = expr_compute_type(n);
    if (!r->kept[i]) continue;
    if (in_shared(r, n))
      buffer_put(&shared, "  %s %s[kItems * kLanes][kThreads * kRowsPerBlock];\n", type,
                 kept_array(r, n));
    else
      buffer_put(&declare, "  %s %s[kItems * kLanes];\n", type, kept_array(r, n));
  }
  const char *names[MaxRank];
  int64_t size[MaxRank];
  int dims[MaxRank], count = domain_dims(r->full, r->axes, false, dims);
  for (int i = 0; i < count; i++)
    size[i] = r->full->dim[dims[i]],
    names[i] = r->named[dims[i]] ? emit_index_names(r->full->rank)[dims[i]] : NULL;
  expr_decode(&decode, "  ", "row", count, size, names);
  bool again = row_reads(e->g, r->nsweeps, e->g->tile.kept).most > 1;
  hole_bool(e, "reads_again", again);
  hole_bool(e, "has_shared", shared.size > 0);
  int unrolled = row_unrolled(&e->g->tile, again);
  bool all = unrolled == e->g->tile.items;
  hole_text(e, "unroll", all ? "" : arena_printf(e->c->arena, " %d", unrolled));
  hole_take(e, "declare", &declare);
  hole_take(e, "shared", &shared);
  hole_take(e, "decode", &decode);
  hole_int(e, "columns", type_count(r->full) / rows);
  hole_int(e, "row_count", rows);
  hole_int(e, "items", e->g->tile.items);
  hole_int(e, "rows", e->g->tile.rows);
  hole_bool(e, "across", !e->g->tile.together);
  hole_bool(e, "ragged", is_ragged(e->g));
}

void emit_row(Emitter *e) {
  const Node *anchor = e->g->anchor;
  size_t nnodes = (size_t)e->c->graph->nnodes;
  Rows r = {.e = e, .full = &anchor->in[0]->type, .axes = anchor->attr.axes};
  r.kept = arena_alloc(e->c->arena, sizeof *r.kept * nnodes);
  r.row_names = arena_alloc(e->c->arena, sizeof *r.row_names * nnodes);
  r.kept_names = arena_alloc(e->c->arena, sizeof *r.kept_names * nnodes);
  domain_index(r.full, r.axes, r.full_at, r.row_at);
  int dims[MaxRank], count = domain_dims(r.full, r.axes, true, dims);
  if (count) r.full_at[dims[count - 1]].lane = e->g->tile.lanes > 1;
  r.nsweeps = row_sweeps(e->g);
  r.nvalues = row_values(e->g, r.nsweeps, r.values);
  find_states(&r);
  Buffer structs = {0};
  states_put(r.sweeps, r.nsweeps, &structs);
  hole_take(e, "states", &structs);
  put_sweeps(&r);
  put_constants(&r);
}
