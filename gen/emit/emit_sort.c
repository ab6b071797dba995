// emit_sort.c: sorting by runs: the key of an element, and maps of the positions found; the
// algorithm is in lib/sort.cuh.
#include "emit.h"

typedef struct Sort {
  Emitter *e;
  const Node *anchor;
  const Type *in; // of the elements
  int axis;
  int kept[MaxRank], gone[MaxRank], nkept, ngone;
  Index full[MaxRank];
  const char *text[9]; // that mention indices
  int ntexts;
} Sort;

static void put_text(Sort *r, const char *hole, const Buffer *b) {
  const char *text = b->text ? arena_dup(r->e->c->arena, b->text) : "";
  hole_text(r->e, hole, text);
  r->text[r->ntexts++] = text;
}

// An element of input `i`, in parameters that begin with `name`: statements and the value.
static void put_read(Sort *r, const char *name, int i) {
  Arena *arena = r->e->c->arena;
  Scope s = {.group = r->e->g, .lanes = 1, .indent = "    "};
  const char *value = expr_value(&s, r->anchor->in[i], r->full);
  put_text(r, arena_printf(arena, "%s_loads", name), &s.loads);
  put_text(r, arena_printf(arena, "%s_body", name), &s.body);
  hole_text(r->e, name, value);
  r->text[r->ntexts++] = value;
  scope_free(&s);
}

// Defines the mentioned indices: of a row from i, of the sorted dimension from `e`.
static void put_decode(Sort *r, const char *hole, const char *e, bool row, const char *const *texts,
                       int ntexts) {
  Buffer b = {0};
  if (row) domain_decode(&b, "i", r->in, r->kept, r->nkept, texts, ntexts);
  if (e) domain_decode(&b, e, r->in, r->gone, r->ngone, texts, ntexts);
  hole_take(r->e, hole, &b);
}

static void put_constants(Sort *r) {
  const Node *n = r->anchor;
  const Tile *t = &r->e->g->tile;
  int64_t length = r->in->dim[r->axis];
  hole_bool(r->e, "merges", n->nin > 1);
  hole_int(r->e, "items", t->items);
  hole_bool(r->e, "smallest", n->attr.smallest);
  hole_int(r->e, "count", type_count(r->in) / length);
  hole_int(r->e, "length", length);
  hole_int(r->e, "run", t->part);
  hole_int(r->e, "slots", t->threads * t->items / t->rows);
}

void emit_sort(Emitter *e) {
  const Node *n = e->g->anchor;
  Sort r = {.e = e, .anchor = n, .in = &n->in[0]->type, .axis = (int)n->attr.axis};
  int64_t axes = (int64_t)1 << r.axis;
  Index row[MaxRank], rank[MaxRank];
  r.nkept = domain_dims(r.in, axes, false, r.kept);
  r.ngone = domain_dims(r.in, axes, true, r.gone);
  domain_index(r.in, axes, r.full, row);
  put_read(&r, "element", 0);
  if (n->nin > 1) put_read(&r, "order", 1);
  Scope s = {0};
  domain_index(&n->type, axes, rank, row);
  expr_bind(&s, n, rank, "found");
  emit_epilogue(e, &s, &n->type, rank, NULL);
  int outputs = r.ntexts;
  r.text[r.ntexts++] = hole_get(e, "loads");
  r.text[r.ntexts++] = hole_get(e, "body");
  r.text[r.ntexts++] = hole_get(e, "stores");
  put_decode(&r, "decode", NULL, true, r.text, n->nin > 1 ? r.ntexts : outputs);
  put_decode(&r, "decode_out", NULL, true, r.text + outputs, 3);
  put_decode(&r, "decode_taken", "place", false, r.text, 3);
  put_decode(&r, "decode_order", "e", false, r.text + 3, outputs - 3);
  put_decode(&r, "decode_rank", "rank", false, r.text + outputs, 3);
  put_constants(&r);
}
