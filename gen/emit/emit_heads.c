// emit_heads.c: computed rows of attention operands (norm, rotary; heads.c), evaluated while
// loading or in a separate kernel: sweeps for reductions along a row, then the elements of a head,
// split at concat borders such that each part reads one input.
#include "emit.h"

#include <string.h>

typedef struct Sweep { // a reduction along a row
  const Node *reduction;
  Index at[MaxRank]; // index of its result
  int states; // index in HeadStates.list
  const char *state, *name, *loads, *body;
  int64_t count;
  int lanes;
} Sweep;

struct Head {
  Emitter *e;
  HeadStates *states;
  Sweep **sweeps; // in execution order
  int nsweeps, pack;
};

static const char *taken(const struct Head *h, Buffer *text) {
  return text->text ? buffer_take(text, h->e->c->arena) : "";
}

// ---- reductions ---------------------------------------------------------------------------------

static bool is_sweep(const Sweep *w, const Node *n, const Index *at) {
  bool same = w->reduction == n;
  for (int d = 0; d < n->type.rank && same; d++) same = !strcmp(w->at[d].text, at[d].text);
  return same;
}

static int new_states(struct Head *h, const Node *n) {
  HeadStates *all = h->states;
  all->list = arena_grow(h->e->c->arena, all->list, all->count, sizeof *all->list);
  States *s = &all->list[all->count];
  *s = (States){.group = h->e->g, .type = expr_name(h->e->g, "Sums")};
  states_add(s, n);
  return all->count++;
}

// Adds a sweep that computes a reduction along the row, before its readers.
static const char *reduced(Scope *s, const Node *n, const Index *at) {
  struct Head *h = s->head;
  Arena *arena = h->e->c->arena;
  for (int i = 0; i < h->nsweeps; i++)
    if (is_sweep(h->sweeps[i], n, at)) return h->sweeps[i]->name;
  Sweep *w = arena_alloc(arena, sizeof *w);
  *w = (Sweep){.reduction = n};
  memcpy(w->at, at, sizeof *at * (size_t)n->type.rank);
  int axis = 0;
  while (!(n->attr.axes >> axis & 1)) axis++;
  w->count = n->in[0]->type.dim[axis];
  w->lanes = sched_divide_down(h->pack, w->count);
  Index full[MaxRank];
  memcpy(full, w->at, sizeof full);
  full[axis] = (Index){"e", w->lanes > 1};
  Scope inner = {.group = h->e->g, .lanes = w->lanes, .indent = "    ", .part = "e",
                 .part_end = w->count, .reduced = reduced, .head = h};
  const char *value = expr_value(&inner, n->in[0], full);
  w->states = new_states(h, n);
  w->state = expr_name(h->e->g, "sums");
  w->name = expr_name(h->e->g, arena_printf(arena, "row_%s", n->op->name));
  const States *states = &h->states->list[w->states];
  states_element(states, states->member, "one", value, index_whole(arena, full[axis]),
                 &inner.body);
  w->loads = taken(h, &inner.loads), w->body = taken(h, &inner.body);
  scope_free(&inner);
  h->sweeps = arena_grow(arena, h->sweeps, h->nsweeps, sizeof(Sweep *));
  h->sweeps[h->nsweeps++] = w;
  return w->name;
}

// ---- parts of a head ----------------------------------------------------------------------------

enum { kMostHead = 256, kMostVisits = 1000 };
typedef struct Cuts {
  const Group *group;
  int64_t size; // elements of a head
  bool at[kMostHead];
  int visits;
} Cuts;

// Finds concat borders within a head; element e of the head is element e + by along dimension d of
// n.
static void find_cuts(Cuts *c, const Node *n, int d, int64_t by) {
  if (n->group != c->group || d < 0 || ++c->visits > kMostVisits) return;
  bool move = n->op->cls == OpMove;
  if (n->op->cls == OpMap)
    for (int i = 0; i < n->nin; i++) {
      int of = d - (n->type.rank - n->in[i]->type.rank);
      if (of >= 0 && n->in[i]->type.dim[of] > 1) find_cuts(c, n->in[i], of, by);
    }
  if (move && n->op->form == MovePermute) find_cuts(c, n->in[0], (int)n->attr.dims[d], by);
  if (move && n->op->form == MoveSlice) find_cuts(c, n->in[0], d, by + n->attr.dims[d]);
  if (move && n->op->form == MoveReshape) {
    Index at[MaxRank], in[MaxRank];
    for (int i = 0; i < n->type.rank; i++) at[i] = (Index){i == d ? "e" : "x", false};
    index_reshape(n->group->graph->arena, &n->type, &n->in[0]->type, 1, at, in);
    for (int i = 0; i < n->in[0]->type.rank; i++)
      if (!strcmp(in[i].text, "e")) find_cuts(c, n->in[0], i, by);
  }
  if (!move || n->op->form != MoveConcat) return;
  for (int64_t i = 0, begin = 0; i < n->nin; begin += n->in[i++]->type.dim[n->attr.axis]) {
    bool along = n->attr.axis == d;
    if (along && begin > by && begin - by < c->size) c->at[begin - by] = true;
    find_cuts(c, n->in[i], d, along ? by - begin : by);
  }
}

// Pushes the parameters for elements first..last - 1 of operand n.
static void put_part(struct Head *h, const Node *n, int along, const Index *row, int64_t first,
                     int64_t last, Buffer *all) {
  Emitter *e = h->e;
  int lanes = sched_divide_down(sched_divide_down(h->pack, first ? first : last), last);
  Index at[MaxRank];
  memcpy(at, row, sizeof at);
  at[along] = (Index){"e", lanes > 1};
  Scope s = {.group = e->g, .lanes = lanes, .indent = "    ", .part = "e", .part_begin = first,
             .part_end = last, .reduced = reduced, .head = h};
  const char *value = expr_value(&s, n, at);
  buffer_put(all, "%s%s%s\n", s.loads.text ? s.loads.text : "", s.body.text ? s.body.text : "",
             value);
  lua_newtable(e->c->lua);
  hole_int(e, "first", first);
  hole_int(e, "last", last);
  hole_int(e, "lanes", lanes);
  hole_take(e, "loads", &s.loads);
  hole_take(e, "body", &s.body);
  hole_text(e, "value", value);
  scope_free(&s);
}

static void put_sweeps(struct Head *h, Buffer *all) {
  Emitter *e = h->e;
  lua_newtable(e->c->lua);
  for (int i = 0; i < h->nsweeps; i++) {
    const Sweep *w = h->sweeps[i];
    States *states = &h->states->list[w->states];
    lua_newtable(e->c->lua);
    hole_text(e, "type", states->type);
    hole_text(e, "state", w->state);
    hole_text(e, "name", w->name);
    hole_text(e, "kind", expr_compute_type(w->reduction));
    hole_text(e, "result", states_result(states, w->reduction, w->state));
    hole_int(e, "count", w->count);
    hole_int(e, "lanes", w->lanes);
    hole_text(e, "loads", w->loads);
    hole_text(e, "body", w->body);
    buffer_put(all, "%s%s", w->loads, w->body);
    lua_seti(e->c->lua, -2, i + 1);
  }
  lua_setfield(e->c->lua, -2, "sweeps");
}

// Sets the parameters of rows of n; `row` is a row's index, defined by `decode`, without dimension
// d.
static void put_head(Emitter *e, HeadStates *states, const Node *n, int d, const Index *row,
                     Buffer *decode) {
  enum { kChunk = 16 }; // bytes
  struct Head h = {.e = e, .states = states, .pack = kChunk / (int)dtype_size(n->type.dtype)};
  Buffer all = {0};
  Cuts cuts = {.group = e->g, .size = n->type.dim[d]};
  find_cuts(&cuts, n, d, 0);
  int count = 0;
  lua_newtable(e->c->lua);
  for (int64_t first = 0, last = 1; last <= cuts.size; last++) {
    if (last < cuts.size && !cuts.at[last]) continue;
    put_part(&h, n, d, row, first, last, &all);
    lua_seti(e->c->lua, -2, ++count);
    first = last;
  }
  lua_setfield(e->c->lua, -2, "parts");
  put_sweeps(&h, &all);
  const char *texts[] = {all.text};
  hole_text(e, "decode", text_mentioned(e->c->arena, decode, 1, texts));
  hole_bool(e, "computed", true);
  buffer_free(&all);
}

void emit_head_states(Emitter *e, HeadStates *states) {
  Buffer text = {0};
  if (!states->count) return;
  states_put(states->list, states->count, &text);
  hole_take(e, "states", &text);
}

void emit_head(Emitter *e, HeadStates *states, const ProductText *product, int i, int tensor,
               AxisRole rows, AxisRole along) {
  enum { kStep = 32, kFew = 4 }; // with kFew lanes per row each has several loads in flight
  const Attention *a = e->g->attention;
  const Type *t = &a->operand[i]->type;
  ProductText p = *product;
  Buffer decode = {0};
  Index row[MaxRank];
  p.number[along] = "e";
  product_name_axes(&p);
  product_index(&p, tensor, kRoleBatch | 1u << rows | 1u << along, "    ", &decode, row);
  put_head(e, states, a->operand[i], a->along[i], row, &decode);
  hole_text(e, "number", p.number[rows]);
  hole_text(e, "to", arena_printf(e->c->arena, "TileRow<T, %lld, Unit::kPanels ? %s : 0>",
                                  (long long)t->dim[a->along[i]],
                                  rows == AxisM ? "kTileM" : "kTileKeys"));
  int64_t steps = ceil_div(t->dim[a->along[i]] * (int64_t)dtype_size(t->dtype), kStep);
  hole_int(e, "sharing", steps % 2 ? kFew / 2 : kFew);
}

// ---- as a separate kernel ---------------------------------------------------------------------

void emit_heads(Emitter *e) {
  const Node *n = e->g->anchor;
  const Type *t = &n->type;
  int64_t size[MaxRank];
  const char *names[MaxRank];
  Index row[MaxRank];
  HeadStates states = {0};
  Buffer decode = {0};
  int d = t->order[t->rank - 1];
  for (int i = 0; i < t->rank; i++) {
    size[i] = t->dim[t->order[i]];
    names[i] = size[i] > 1 ? emit_index_names(t->rank)[t->order[i]] : NULL;
    row[t->order[i]] = (Index){names[i] ? names[i] : "0", false};
  }
  expr_decode(&decode, "    ", "row", t->rank - 1, size, names);
  lua_newtable(e->c->lua);
  lua_newtable(e->c->lua);
  hole_text(e, "name", "head");
  put_head(e, &states, n, d, row, &decode);
  hole_text(e, "number", "row");
  hole_text(e, "to", "MemoryRow");
  hole_int(e, "sharing", e->g->tile.tm);
  lua_seti(e->c->lua, -2, 1);
  lua_setfield(e->c->lua, -2, "operands");
  emit_head_states(e, &states);
  hole_int(e, "depth", t->dim[d]);
  hole_int(e, "row_count", type_count(t) / t->dim[d]);
  hole_text(e, "out", expr_pointer(e->g, n));
  hole_text(e, "stored", expr_ctype(t->dtype));
}
