// emit_scatter.c: rows added up by ids: an id, an element of a row, and maps of the sums; the
// algorithm is in lib/scatter.cuh.
#include "emit.h"

// An element of an input, in parameters that begin with `name`: statements and the value.
static void put_read(Emitter *e, const char *name, const Node *in, const Index *at) {
  Arena *arena = e->c->arena;
  Scope s = {.group = e->g, .lanes = 1, .indent = "    "};
  const char *value = expr_value(&s, in, at);
  hole_text(e, arena_printf(arena, "%s_loads", name),
            s.loads.text ? arena_dup(arena, s.loads.text) : "");
  hole_text(e, arena_printf(arena, "%s_body", name),
            s.body.text ? arena_dup(arena, s.body.text) : "");
  hole_text(e, name, value);
  scope_free(&s);
}

static void put_constants(Emitter *e) {
  const Tile *t = &e->g->tile;
  const Node *n = e->g->anchor;
  hole_int(e, "places", t->m);
  hole_int(e, "columns", t->n);
  hole_int(e, "items", t->items);
  hole_int(e, "hits", t->rows);
  const Type *ids = &n->in[0]->type;
  hole_int(e, "count", ids->dim[ids->rank - 1]);
  hole_int(e, "size", n->attr.count);
  hole_int(e, "width", n->type.rank > ids->rank ? n->type.dim[ids->rank] : 1);
  hole_int(e, "parts", t->splits);
  hole_int(e, "part", t->part);
  hole_int(e, "part_group", tile_part_group(t));
  hole_int(e, "part_counts", tile_part_counts(t));
  hole_int(e, "smem", t->smem);
  hole_text(e, "sum", expr_compute_type(n));
}

static Index index_of(const Type *t, int d, const char *name) {
  return (Index){t->dim[d] == 1 ? "0" : name, false};
}

void emit_scatter(Emitter *e) {
  const Node *n = e->g->anchor;
  const Type *ids = &n->in[0]->type;
  bool wide = n->type.rank > ids->rank;
  Index at[3] = {index_of(ids, 0, "b"), index_of(ids, ids->rank - 1, "e"),
                 wide ? index_of(&n->type, ids->rank, "column") : (Index){"0", false}};
  Index *first = at + 2 - ids->rank; // of a batch, if any
  Scope s = {0};
  Index sorted[2] = {at[0], index_of(ids, ids->rank - 1, "p")};
  hole_bool(e, "sorted", n->nin > 2);
  if (n->nin > 2) put_read(e, "order", n->in[2], sorted + 2 - ids->rank);
  put_read(e, "place", n->in[0], first);
  put_read(e, "value", n->in[1], first);
  at[1] = index_of(&n->type, ids->rank - 1, "row");
  expr_bind(&s, n, first, "found");
  emit_epilogue(e, &s, &n->type, first, NULL);
  put_constants(e);
}
