// emit_reduce.c: reductions along any dimensions. One pass over the elements updates all
// accumulators of the group and stores maps of elements; maps of the results follow. Also
// reductions of several whole tensors in one launch (reduce_many), each of which is such a group.
#include "emit.h"

#include <stdlib.h>

typedef struct Reduce {
  Emitter *e;
  const Group *part; // the group, or a part of it, to emit
  int tail;          // Node.tail of its nodes
  const Node *anchor;
  const Type *in; // of the elements
  int64_t axes;
  int kept[MaxRank], gone[MaxRank], nkept, ngone; // dimensions
  Index full[MaxRank], out[MaxRank];
  States states;
} Reduce;

// Stores maps of the elements; threads without an output leave it to another thread.
static void put_element_stores(Reduce *r, Scope *s) {
  const Group *g = r->e->g;
  Buffer stores = {0}, all = {0};
  const char **value = arena_alloc(r->e->c->arena, sizeof *value * (size_t)g->noutputs);
  for (int i = 0; i < g->noutputs; i++)
    if (group_by_element(g, g->outputs[i]))
      value[i] = expr_value(s, group_stored(g, g->outputs[i]), r->full);
  for (int i = 0; i < g->noutputs; i++) {
    Buffer body = s->body;
    size_t vectors = stores.size;
    if (!value[i]) continue;
    s->body = (Buffer){0};
    expr_store(s, &stores, g->outputs[i], r->full, value[i]);
    bool each = stores.size == vectors; // not one store after the loop
    buffer_put(&body, each ? "if (inside) {\n%s}\n" : "%s", s->body.text);
    free(s->body.text);
    s->body = body;
  }
  if (stores.text) buffer_put(&all, "if (inside) {\n%s}\n", stores.text);
  free(stores.text);
  hole_take(r->e, "element_stores", &all);
}

// Sets the parameters for accumulating one element, or kLanes adjacent ones.
static void put_element(Reduce *r, const char **texts) {
  Group *g = r->e->g;
  Scope s = {.group = g, .lanes = r->part->tile.lanes, .indent = "      ", .tail = r->tail};
  domain_flat(&s, r->e->c->arena, r->in, r->axes, r->full, "i", "e");
  const char *place = domain_place(r->e->c->arena, r->in, r->axes, r->full);
  for (int i = 0; i < r->states.count; i++) {
    const Member *m = &r->states.member[i];
    const char *value = expr_value(&s, m->value, r->full);
    if (r->states.run) {
      buffer_put(&s.body, "clear(%s);\n", states_path(&r->states, m, "one[j]"));
      states_add_element(&r->states, m, "one[j]", value, &s.body);
    } else {
      states_element(&r->states, m, "one[j]", value, place, &s.body);
    }
  }
  put_element_stores(r, &s);
  texts[0] = s.loads.text ? arena_dup(r->e->c->arena, s.loads.text) : "";
  texts[1] = arena_dup(r->e->c->arena, s.body.text);
  texts[2] = hole_get(r->e, "element_stores");
  hole_text(r->e, "element_loads", texts[0]);
  hole_text(r->e, "element_body", texts[1]);
  scope_free(&s);
}

// Results and their maps; each thread has one output, or one per lane.
static void put_outputs(Reduce *r) {
  Group *g = r->e->g;
  Scope s = {.tail = r->tail};
  for (int i = 0; i < r->part->nnodes; i++) {
    const Node *n = r->part->nodes[i];
    if (n->op->cls != OpReduce) continue;
    const char *name = expr_name(g, arena_printf(r->e->c->arena, "row_%s", n->op->name));
    buffer_put(&s.body, "    const %s %s = %s;\n", expr_compute_type(n), name,
               states_result(&r->states, n, "acc[j]"));
    expr_bind(&s, n, r->out, name);
  }
  int lanes = g->tile.lanes;
  if (r->part->tile.together) g->tile.lanes = 1;
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

// Element and result indices of a part, and its accumulators.
static Reduce begin_part(Emitter *e, const Group *part, int tail) {
  Reduce r = {.e = e, .part = part, .tail = tail, .anchor = part->anchor};
  r.in = &r.anchor->in[0]->type;
  r.axes = r.anchor->attr.axes;
  r.nkept = domain_dims(r.in, r.axes, false, r.kept);
  r.ngone = domain_dims(r.in, r.axes, true, r.gone);
  domain_index(r.in, r.axes, r.full, r.out);
  const Tile *t = &part->tile;
  if (t->lanes > 1 && t->together) r.full[r.gone[r.ngone - 1]].lane = true;
  if (t->lanes > 1 && !t->together) {
    int d = r.kept[r.nkept - 1];
    r.full[d].lane = r.out[d].lane = true;
  }
  r.states = (States){.group = e->g, .type = "State"};
  for (int i = 0; i < part->nnodes; i++)
    if (part->nodes[i]->op->cls == OpReduce) states_add(&r.states, part->nodes[i]);
  return r;
}

// Parameters of one pass over the elements, and of the results.
static void put_sweep(Reduce *r) {
  Emitter *e = r->e;
  Buffer decode = {0}, each = {0};
  const char *texts[6];
  put_element(r, texts); // three
  put_outputs(r);
  texts[3] = hole_get(e, "loads"), texts[4] = hole_get(e, "body"), texts[5] = hole_get(e, "stores");
  domain_decode(&decode, "i", r->in, r->kept, r->nkept, texts, 6);
  domain_decode(&each, "e", r->in, r->gone, r->ngone, texts, 3);
  hole_take(e, "decode", &decode);
  hole_take(e, "decode_element", &each);
}

// Are elements visited in index order?
static bool in_order(const Reduce *r) {
  for (int i = 1; i < r->ngone; i++)
    if (r->gone[i] < r->gone[i - 1]) return false;
  return true;
}

void emit_reduce(Emitter *e) {
  Reduce r = begin_part(e, e->g, 0);
  r.states.ordered = in_order(&r);
  Buffer structs = {0};
  if (states_have_runs(&r.states)) r.states.run = "Run";
  states_put(&r.states, 1, &structs);
  hole_text(e, "run", r.states.run ? r.states.run : r.states.type);
  put_sweep(&r);
  hole_take(e, "states", &structs);
  put_constants(&r);
}

// Pushes the parameters of one of several tensors.
static void put_tensor(Emitter *e, int i) {
  Group *part = e->g->parts[i];
  lua_newtable(e->c->lua);
  part->tile.together = true;
  Reduce r = begin_part(e, part, i);
  put_sweep(&r);
  hole_int(e, "lanes", part->tile.lanes);
  hole_int(e, "count", type_count(r.in));
  hole_int(e, "blocks", part->tile.grid[0]);
  hole_text(e, "layer", bundle_reduction(part)->in[0]->name);
}

void emit_reduce_many(Emitter *e) {
  Group *g = e->g;
  lua_State *lua = e->c->lua;
  Buffer structs = {0};
  Reduce first = begin_part(e, g->parts[0], 0); // all accumulate the same
  states_put(&first.states, 1, &structs);
  hole_take(e, "states", &structs);
  hole_int(e, "depth", g->tile.depth);
  hole_int(e, "part", g->tile.part);
  hole_int(e, "blocks", g->tile.grid[0]);
  lua_newtable(lua);
  for (int i = 0; i < g->nparts; i++) {
    put_tensor(e, i);
    lua_seti(lua, -2, i + 1);
  }
  lua_setfield(lua, -2, "parts");
}
