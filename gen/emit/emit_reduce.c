// emit_reduce.c: reductions along any dimensions. One sweep over the elements accumulates all
// reductions of the group; then come the maps over their results.
#include "emit.h"

typedef struct Reduce {
  Emitter *e;
  const Node *anchor;
  const Type *in; // of the elements
  int64_t axes;
  int kept[MaxRank], gone[MaxRank], nkept, ngone; // dimensions
  Index full[MaxRank], out[MaxRank];
  States states;
} Reduce;

// Fills the holes of what one element, or kLanes neighbours, add to the states.
static void put_element(Reduce *r, const char **loads, const char **body) {
  Group *g = r->e->g;
  Scope s = {.group = g, .lanes = g->tile.lanes, .indent = "      "};
  domain_flat(&s, r->e->c->arena, r->in, r->axes, r->full, "i", "e");
  const char *place = domain_place(r->e->c->arena, r->in, r->axes, r->full);
  for (int i = 0; i < r->states.count; i++) {
    const Member *m = &r->states.member[i];
    const char *value = expr_value(&s, m->value, r->full);
    states_element(&r->states, m, "one[j]", value, place, &s.body);
  }
  *loads = s.loads.text ? arena_dup(r->e->c->arena, s.loads.text) : "";
  *body = arena_dup(r->e->c->arena, s.body.text);
  hole_text(r->e, "element_loads", *loads);
  hole_text(r->e, "element_body", *body);
  scope_free(&s);
}

// The results, and what maps make of them; each thread has an output, or one of each lane.
static void put_outputs(Reduce *r) {
  Group *g = r->e->g;
  Scope s = {0};
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (n->op->cls != OpReduce) continue;
    const char *name = expr_name(g, arena_printf(r->e->c->arena, "row_%s", n->op->name));
    buffer_put(&s.body, "    const %s %s = %s;\n", expr_compute_type(n), name,
               states_result(&r->states, n, "acc[j]"));
    expr_bind(&s, n, r->out, name);
  }
  int lanes = g->tile.lanes;
  if (g->tile.together) g->tile.lanes = 1;
  emit_epilogue(r->e, &s, &r->anchor->type, r->out, NULL);
  g->tile.lanes = lanes;
}

static void put_constants(Reduce *r) {
  const Tile *t = &r->e->g->tile;
  hole_int(r->e, "columns", t->rows);
  hole_int(r->e, "vector", t->lanes);
  hole_bool(r->e, "together", t->together);
  hole_int(r->e, "depth", t->depth);
  hole_int(r->e, "parts", t->splits);
  hole_int(r->e, "part", t->part);
  hole_int(r->e, "count", type_count(&r->anchor->type));
  hole_int(r->e, "reduced", type_count(r->in) / type_count(&r->anchor->type));
}

void emit_reduce(Emitter *e) {
  Group *g = e->g;
  Reduce r = {.e = e, .anchor = g->anchor, .in = &g->anchor->in[0]->type};
  r.axes = g->anchor->attr.axes;
  r.nkept = domain_dims(r.in, r.axes, false, r.kept);
  r.ngone = domain_dims(r.in, r.axes, true, r.gone);
  domain_index(r.in, r.axes, r.full, r.out);
  if (g->tile.lanes > 1 && g->tile.together) r.full[r.gone[r.ngone - 1]].lane = true;
  if (g->tile.lanes > 1 && !g->tile.together) {
    int d = r.kept[r.nkept - 1];
    r.full[d].lane = r.out[d].lane = true;
  }
  r.states = (States){.group = g, .type = "State"};
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->op->cls == OpReduce) states_add(&r.states, g->nodes[i]);
  Buffer structs = {0}, decode = {0}, each = {0};
  states_put(&r.states, 1, &structs);
  const char *texts[5];
  put_element(&r, &texts[0], &texts[1]);
  put_outputs(&r);
  texts[2] = hole_get(e, "loads"), texts[3] = hole_get(e, "body"), texts[4] = hole_get(e, "stores");
  domain_decode(&decode, "i", r.in, r.kept, r.nkept, texts, 5);
  domain_decode(&each, "e", r.in, r.gone, r.ngone, texts, 2);
  hole_take(e, "states", &structs);
  hole_take(e, "decode", &decode);
  hole_take(e, "decode_element", &each);
  put_constants(&r);
}
