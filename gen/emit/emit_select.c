// emit_select.c: top-k along one dimension: an element's key, and maps of the indices found; the
// algorithm is in lib/select.cuh.
#include "emit.h"

typedef struct Select {
  Emitter *e;
  const Node *anchor;
  const Type *in; // of the elements
  int64_t axes;   // the selected dimension
  int kept[MaxRank], gone[MaxRank], nkept, ngone;
  Index full[MaxRank], rank[MaxRank]; // of an element; of a result
} Select;

static void put_element(Select *r, const char **loads, const char **body) {
  Arena *arena = r->e->c->arena;
  Scope s = {.group = r->e->g, .lanes = r->e->g->tile.lanes, .indent = "      "};
  const char *value = expr_value(&s, r->anchor->in[0], r->full);
  const char *place = domain_place(arena, r->in, r->axes, r->full);
  buffer_put(&s.body, "      one[j] = select_key<kSmallest>(%s, %s);\n", value, place);
  *loads = s.loads.text ? arena_dup(arena, s.loads.text) : "";
  *body = arena_dup(arena, s.body.text);
  hole_text(r->e, "element_loads", *loads);
  hole_text(r->e, "element_body", *body);
  scope_free(&s);
}

static void put_outputs(Select *r) {
  Scope s = {0};
  expr_bind(&s, r->anchor, r->rank, "found");
  int lanes = r->e->g->tile.lanes;
  r->e->g->tile.lanes = 1;
  emit_epilogue(r->e, &s, &r->anchor->type, r->rank, NULL);
  r->e->g->tile.lanes = lanes;
}

static void put_constants(Select *r) {
  const Tile *t = &r->e->g->tile;
  int64_t length = r->in->dim[r->anchor->attr.axis];
  hole_int(r->e, "columns", t->rows);
  hole_int(r->e, "vector", t->lanes);
  hole_bool(r->e, "together", t->together);
  hole_int(r->e, "items", t->items);
  hole_int(r->e, "best", r->anchor->attr.count);
  hole_bool(r->e, "smallest", r->anchor->attr.smallest);
  hole_int(r->e, "count", type_count(r->in) / length);
  hole_int(r->e, "length", length);
  hole_int(r->e, "parts", t->splits);
  hole_int(r->e, "part", t->part);
}

// Defines the mentioned indices: of a row from i, of the dimension from `e`.
static void put_decode(Select *r, const char *hole, const char *e, const char *const *texts,
                       int ntexts, bool row) {
  Buffer b = {0};
  if (row) domain_decode(&b, "i", r->in, r->kept, r->nkept, texts, ntexts);
  if (e) domain_decode(&b, e, r->in, r->gone, r->ngone, texts, ntexts);
  hole_take(r->e, hole, &b);
}

void emit_select(Emitter *e) {
  Group *g = e->g;
  Select r = {.e = e, .anchor = g->anchor, .in = &g->anchor->in[0]->type};
  int axis = (int)g->anchor->attr.axis;
  Index row[MaxRank];
  r.axes = (int64_t)1 << axis;
  r.nkept = domain_dims(r.in, r.axes, false, r.kept);
  r.ngone = domain_dims(r.in, r.axes, true, r.gone);
  domain_index(r.in, r.axes, r.full, row);
  domain_index(&g->anchor->type, r.axes, r.rank, row);
  if (r.ngone && g->tile.lanes > 1) r.full[axis].lane = true;
  const char *texts[5];
  put_element(&r, &texts[0], &texts[1]);
  put_outputs(&r);
  texts[2] = hole_get(e, "loads"), texts[3] = hole_get(e, "body"), texts[4] = hole_get(e, "stores");
  put_decode(&r, "decode_taken", "e", texts, 2, true);
  put_decode(&r, "decode", NULL, texts + 2, 3, true);
  put_decode(&r, "decode_rank", "rank", texts + 2, 3, false);
  put_constants(&r);
}
