// emit_scan.c: scans along one dimension, in any memory order: the element's contribution, and maps
// of the inclusive state; the algorithm is in lib/scan.cuh.
#include "emit.h"

typedef struct Scan {
  Emitter *e;
  const Node *anchor;
  const Type *in; // of the elements
  int64_t axes;   // the scanned dimension
  int kept[MaxRank], gone[MaxRank], nkept, ngone;
  Index full[MaxRank], out[MaxRank];
  States states;
} Scan;

// Sets the parameters for one element, or kLanes adjacent ones.
static void put_element(Scan *r, const char **loads, const char **body) {
  Arena *arena = r->e->c->arena;
  Scope s = {.group = r->e->g, .lanes = r->e->g->tile.lanes, .indent = "      "};
  const Member *m = &r->states.member[0];
  const char *value = expr_value(&s, m->value, r->full);
  const char *place = domain_place(arena, r->in, r->axes, r->full);
  states_element(&r->states, m, "one[j]", value, place, &s.body);
  *loads = s.loads.text ? arena_dup(arena, s.loads.text) : "";
  *body = arena_dup(arena, s.body.text);
  hole_text(r->e, "element_loads", *loads);
  hole_text(r->e, "element_body", *body);
  scope_free(&s);
}

// The scanned elements and their maps.
static void put_outputs(Scan *r) {
  Scope s = {0};
  const Node *n = r->anchor;
  const char *name = expr_name(r->e->g, arena_printf(r->e->c->arena, "row_%s", n->op->name));
  buffer_put(&s.body, "    const %s %s = %s;\n", expr_compute_type(n), name,
             states_result(&r->states, n, "acc[j]"));
  expr_bind(&s, n, r->full, name);
  emit_epilogue(r->e, &s, &n->type, r->full, NULL);
}

static void put_constants(Scan *r) {
  const Tile *t = &r->e->g->tile;
  int64_t length = r->in->dim[r->anchor->attr.axis];
  hole_int(r->e, "columns", t->rows);
  hole_int(r->e, "vector", t->lanes);
  hole_bool(r->e, "together", t->together);
  hole_int(r->e, "items", t->items);
  hole_int(r->e, "count", type_count(r->in) / length);
  hole_int(r->e, "length", length);
  hole_int(r->e, "parts", t->splits);
  hole_int(r->e, "part", t->part);
}

static void put_decode(Scan *r, const char *hole, const char *from, const int *dims, int count,
                       const char *const *texts, int ntexts) {
  Buffer b = {0};
  domain_decode(&b, from, r->in, dims, count, texts, ntexts);
  hole_take(r->e, hole, &b);
}

void emit_scan(Emitter *e) {
  Group *g = e->g;
  Scan r = {.e = e, .anchor = g->anchor, .in = &g->anchor->in[0]->type};
  r.axes = (int64_t)1 << g->anchor->attr.axis;
  r.nkept = domain_dims(r.in, r.axes, false, r.kept);
  r.ngone = domain_dims(r.in, r.axes, true, r.gone);
  domain_index(r.in, r.axes, r.full, r.out);
  if (r.ngone && g->tile.lanes > 1) r.full[r.gone[0]].lane = true;
  r.states = (States){.group = g, .type = "State"};
  states_add(&r.states, g->anchor);
  Buffer structs = {0};
  states_put(&r.states, 1, &structs);
  const char *texts[5];
  put_element(&r, &texts[0], &texts[1]);
  put_outputs(&r);
  texts[2] = hole_get(e, "loads"), texts[3] = hole_get(e, "body"), texts[4] = hole_get(e, "stores");
  put_decode(&r, "decode", "i", r.kept, r.nkept, texts, 5);
  put_decode(&r, "decode_taken", "e", r.gone, r.ngone, texts, 2);
  put_decode(&r, "decode_put", "e", r.gone, r.ngone, texts + 2, 3);
  hole_take(e, "states", &structs);
  put_constants(&r);
}
