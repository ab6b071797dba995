// emit_reduce.c: reductions. `reduce` combines along any dimensions, with a tree over threads in
// shared memory. `rowwise` keeps a row in registers and runs several reductions and the maps
// between and after them over it (softmax, layer normalisation): each input is read once.
#include "emit.h"

#include <stdlib.h>
#include <string.h>

// `a` combined with `b` by a reduction's rule.
static void put_combine(Emitter *e, const char *hole, const Op *op, const char *a, const char *b) {
  const char *args[2] = {a, b};
  hole_text(e, hole, expr_substitute(e->c->arena, op->cuda, args));
}

// The dimensions of t in memory order that are (or are not) in `axes`, larger than 1.
static int pick_dims(const Type *t, int64_t axes, bool in, int *dims) {
  int count = 0;
  for (int i = 0; i < t->rank; i++) {
    int d = t->order[i];
    if (t->dim[d] > 1 && (axes >> d & 1) == in) dims[count++] = d;
  }
  return count;
}

// Defines the indices of `dims` from the linear variable `from`.
static void decode_dims(Buffer *b, const char *indent, const char *from, const Type *t,
                        const int *dims, int count, const char *const *names) {
  int64_t size[MaxRank];
  const char *named[MaxRank];
  for (int i = 0; i < count; i++) size[i] = t->dim[dims[i]], named[i] = names[dims[i]];
  expr_decode(b, indent, from, count, size, named);
}

static void set_index(const Type *t, const char *const *names, int64_t axes, Index *full,
                      Index *out) {
  for (int d = 0; d < t->rank; d++) {
    full[d] = t->dim[d] == 1 ? (Index){"0", false} : (Index){names[d], false};
    out[d] = axes >> d & 1 ? (Index){"0", false} : full[d];
  }
}

// ---- reduce: any dimensions -------------------------------------------------------------------

void emit_reduce(Emitter *e) {
  Node *n = e->g->anchor;
  const Type *in = &n->in[0]->type;
  const char *const *names = emit_index_names(in->rank);
  int kept[MaxRank], gone[MaxRank];
  int nkept = pick_dims(in, n->attr.axes, false, kept),
      ngone = pick_dims(in, n->attr.axes, true, gone);
  Index full[MaxRank], out[MaxRank];
  set_index(in, names, n->attr.axes, full, out);
  if (e->g->tile.lanes > 1) full[kept[nkept - 1]].lane = out[kept[nkept - 1]].lane = true;

  Scope element = {.group = e->g, .lanes = e->g->tile.lanes, .indent = "      "};
  put_combine(e, "combine", n->op, "acc[j]", expr_value(&element, n->in[0], full));
  hole_take(e, "element_loads", &element.loads);
  hole_take(e, "element_body", &element.body);
  scope_free(&element);
  put_combine(e, "join", n->op, "acc[j]", "other[j]");
  hole_text(e, "init", n->op->init);
  hole_int(e, "columns", e->g->tile.rows);
  hole_int(e, "count", type_count(&n->type));
  hole_int(e, "reduced", type_count(in) / type_count(&n->type));

  Scope s = {0};
  expr_bind(&s, n, out, "acc[j]");
  emit_epilogue(e, &s, &n->type, out, NULL);
  Buffer decode = {0}, each = {0};
  decode_dims(&decode, "  ", "i", in, kept, nkept, names);
  decode_dims(&each, "    ", "e", in, gone, ngone, names);
  hole_take(e, "decode", &decode);
  hole_take(e, "decode_element", &each);
}

// ---- rowwise: several reductions over rows kept in registers ----------------------------------

typedef struct Rows {
  Emitter *e;
  const Type *full; // type of the full domain, in memory order of the anchor's input
  Index full_at[MaxRank], row_at[MaxRank];
  int *phase;  // by node id: the sweep over the row in which it is computed
  Buffer text; // all sweeps
  const char **row_names, **kept_names; // by node id, once asked for
} Rows;

static bool is_full(const Rows *r, const Node *n) {
  return type_same_shape(&n->type, r->full);
}
// One value per row. What a prologue makes may have other shapes: it is computed where it is read.
static bool is_row(const Rows *r, const Node *n) {
  return !is_full(r, n) && type_same_shape(&n->type, &r->e->g->anchor->type);
}
static bool is_ours(const Rows *r, const Node *n) {
  return n->group == r->e->g;
}

// A node's sweep is after those of the reductions it depends on.
static void find_phases(Rows *r) {
  const Group *g = r->e->g;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    for (int j = 0; j < n->nin; j++) {
      if (!is_ours(r, n->in[j])) continue;
      int after = r->phase[n->in[j]->id] + (n->in[j]->op->cls == OpReduce);
      if (after > r->phase[n->id]) r->phase[n->id] = after;
    }
  }
}

static const char *row_name(const Rows *r, const Node *n) { // one value per row
  const char **name = &r->row_names[n->id];
  if (!*name) *name = expr_name(r->e->g, arena_printf(r->e->c->arena, "row_%s", n->op->name));
  return *name;
}

static const char *kept_array(const Rows *r,
                              const Node *n) { // a full-domain value for later sweeps
  const char **name = &r->kept_names[n->id];
  if (!*name) *name = expr_name(r->e->g, arena_printf(r->e->c->arena, "kept_%s", n->op->name));
  return *name;
}

static const char *kept_name(const Rows *r, const Node *n) {
  return arena_printf(r->e->c->arena, "%s[item * kLanes + j]", kept_array(r, n));
}

// Must the full-domain value n of sweep p be kept for a later one? `reader` tells who reads it.
static bool needed_later(const Rows *r, const Node *n, int p) {
  const Group *g = r->e->g;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *user = g->nodes[i];
    for (int j = 0; j < user->nin; j++)
      if (user->in[j] == n && r->phase[user->id] > p &&
          (is_full(r, user) || user->op->cls == OpReduce))
        return true;
  }
  return false;
}

static void bind_rows(const Rows *r, Scope *s, int p) { // row values of earlier sweeps
  const Group *g = r->e->g;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool before = r->phase[n->id] < p || (r->phase[n->id] == p && n->op->cls != OpReduce);
    if (is_row(r, n) && before && n->op->cls != OpMove) expr_bind(s, n, r->row_at, row_name(r, n));
  }
}

// Binds the full-domain values kept by earlier sweeps, inputs of the group among them.
static void bind_kept(Rows *r, Scope *s, const bool *kept, int count) {
  for (int i = 0; i < count; i++)
    if (kept[i]) {
      const Node *n = r->e->c->graph->nodes[i];
      expr_bind(s, n, r->full_at, kept_name(r, n));
    }
}

static void keep(Rows *r, Scope *s, bool *kept, const Node *n, int p) {
  if (kept[n->id] || !is_full(r, n) || n->op->cls == OpReduce || !needed_later(r, n, p)) return;
  const char *value = expr_value(s, n, r->full_at);
  buffer_put(&s->body, "        %s = %s;\n", kept_name(r, n), value);
  kept[n->id] = true;
}

static const char *text_or_none(const Buffer *b) {
  return b->text ? b->text : "";
}

static bool reads_full(const Rows *r, const Node *n, int p) {
  return r->phase[n->id] == p && (is_full(r, n) || n->op->cls == OpReduce);
}

// One sweep over the row: computes what belongs to sweep p, keeps what later ones need, combines
// its reductions, stores its outputs.
static void put_sweep(Rows *r, bool *kept, int p) {
  const Group *g = r->e->g;
  Buffer stores = {0};
  Scope s = {.group = g, .lanes = g->tile.lanes, .indent = "        "};
  bind_rows(r, &s, p);
  bind_kept(r, &s, kept, r->e->c->graph->nnodes);
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!reads_full(r, n, p)) continue;
    any = true;
    for (int j = 0; j < n->nin; j++)
      if (!is_ours(r, n->in[j])) keep(r, &s, kept, n->in[j], p);
    if (n->op->cls != OpReduce) {
      keep(r, &s, kept, n, p);
      continue;
    }
    const char *args[2] = {row_name(r, n), expr_value(&s, n->in[0], r->full_at)};
    buffer_put(&s.body, "        %s = %s;\n", args[0],
               expr_substitute(r->e->c->arena, n->op->cuda, args));
  }
  for (int i = 0; i < g->noutputs; i++)
    if (is_full(r, g->outputs[i]) && r->phase[g->outputs[i]->id] == p &&
        g->outputs[i]->op->cls != OpReduce)
      expr_store(&s, &stores, g->outputs[i], r->full_at, expr_value(&s, g->outputs[i], r->full_at)),
          any = true;
  if (any) {
    buffer_put(&r->text,
               "#pragma unroll\n  for (int item = 0; item < kItems; ++item) {\n"
               "    const int i = (item * kThreads + tid) * kLanes;\n    if (i < kColumns) {\n");
    Buffer inner = {0}, cols = {0};
    buffer_put(&inner, "%s#pragma unroll\nfor (int j = 0; j < kLanes; ++j) {\n%s}\n%s}\n}\n",
               text_or_none(&s.loads), text_or_none(&s.body), text_or_none(&stores));
    const char *names[MaxRank];
    int dims[MaxRank], count = pick_dims(r->full, g->anchor->attr.axes, true, dims);
    for (int d = 0; d < r->full->rank; d++) {
      const char *name = emit_index_names(r->full->rank)[d];
      names[d] = expr_mentions(inner.text, name) ? name : NULL;
    }
    decode_dims(&cols, "", "i", r->full, dims, count, names);
    buffer_put(&r->text, "%s%s", text_or_none(&cols), inner.text);
    buffer_free(&inner);
    buffer_free(&cols);
  }
  buffer_free(&stores);
  scope_free(&s);
}

// After sweep p: its reductions are joined over the threads of the row, then come the row's values.
// Those that depend on no reduction come before the first sweep, "after sweep -1".
static void put_row_values(Rows *r, int p) {
  const Group *g = r->e->g;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (n->op->cls != OpReduce || r->phase[n->id] != p) continue;
    static const char *const args[2] = {"a", "b"};
    buffer_put(&r->text,
               "  %s = row_reduce<kRowThreads>(%s, part, [](float a, float b) { return %s; });\n",
               row_name(r, n), row_name(r, n), expr_substitute(r->e->c->arena, n->op->cuda, args));
  }
  Scope s = {.group = g, .lanes = 1, .indent = "  "};
  for (int i = 0; i < g->nnodes; i++) { // reductions and row values known by now
    const Node *n = g->nodes[i];
    if (!is_row(r, n)) continue;
    if (n->op->cls == OpReduce ? r->phase[n->id] <= p : r->phase[n->id] <= p && n->op->cls == OpMap)
      expr_bind(&s, n, r->row_at, row_name(r, n));
  }
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!is_row(r, n) || n->op->cls != OpMap || r->phase[n->id] != p + 1) continue;
    const char *value = expr_value(&s, n, r->row_at);
    buffer_put(&s.body, "  const %s %s = %s;\n", expr_compute_type(n), row_name(r, n), value);
    expr_bind(&s, n, r->row_at, row_name(r, n));
  }
  for (int i = 0; i < g->noutputs; i++) {
    Node *n = g->outputs[i];
    int ready = r->phase[n->id] + (n->op->cls == OpReduce ? 0 : -1);
    if (is_full(r, n) || ready != p) continue;
    const char *value = expr_value(&s, n, r->row_at);
    int64_t step;
    buffer_put(&s.body, "  if (tid == 0) %s[%s] = %s<%s>(%s);\n", expr_pointer(g, n),
               expr_offset(&s, &n->type, r->row_at, &step), expr_cast(n), expr_ctype(n->type.dtype),
               value);
  }
  buffer_put(&r->text, "%s%s", s.loads.text ? s.loads.text : "", s.body.text ? s.body.text : "");
  scope_free(&s);
}

void emit_row(Emitter *e) {
  Group *g = e->g;
  Node *anchor = g->anchor;
  Rows r = {.e = e, .full = &anchor->in[0]->type};
  const char *const *names = emit_index_names(r.full->rank);
  int nnodes = e->c->graph->nnodes;
  r.phase = calloc((size_t)nnodes, sizeof *r.phase);
  bool *kept = calloc((size_t)nnodes, sizeof *kept);
  if (!r.phase || !kept) die("out of memory");
  r.row_names = arena_alloc(e->c->arena, sizeof *r.row_names * (size_t)nnodes);
  r.kept_names = arena_alloc(e->c->arena, sizeof *r.kept_names * (size_t)nnodes);
  set_index(r.full, names, anchor->attr.axes, r.full_at, r.row_at);
  int dims[MaxRank], count = pick_dims(r.full, anchor->attr.axes, true, dims);
  if (count) r.full_at[dims[count - 1]].lane = g->tile.lanes > 1;
  find_phases(&r);
  int last = 0;
  for (int i = 0; i < g->nnodes; i++)
    last = r.phase[g->nodes[i]->id] > last ? r.phase[g->nodes[i]->id] : last;
  Buffer declare = {0}, decode = {0};
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->op->cls == OpReduce)
      buffer_put(&declare, "  float %s = %s;\n", row_name(&r, g->nodes[i]), g->nodes[i]->op->init);
  put_row_values(&r, -1);
  for (int p = 0; p <= last; p++) {
    put_sweep(&r, kept, p);
    put_row_values(&r, p);
  }
  for (int i = 0; i < nnodes; i++)
    if (kept[i])
      buffer_put(&declare, "  float %s[kItems * kLanes];\n", kept_array(&r, e->c->graph->nodes[i]));
  count = pick_dims(r.full, anchor->attr.axes, false, dims);
  decode_dims(&decode, "  ", "row", r.full, dims, count, names);
  hole_take(e, "declare", &declare);
  hole_take(e, "decode", &decode);
  hole_take(e, "sweeps", &r.text);
  hole_int(e, "columns", type_count(r.full) / type_count(&anchor->type));
  hole_int(e, "row_count", type_count(&anchor->type));
  hole_int(e, "items", g->tile.items);
  hole_int(e, "rows", g->tile.rows);
  free(r.phase);
  free(kept);
}
