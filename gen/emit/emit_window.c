// emit_window.c: windows over an image: pooling, depthwise convolutions, their data gradients.
#include "emit.h"

#include <string.h>

// The value under the window at (y, x), and for depthwise convolutions the filter tap.
static const char *seen_value(Scope *s, const Node *n, const Index *out) {
  Index at[4] = {out[0], out[1], {"y", false}, {"x", false}};
  return expr_value(s, n->in[0], at);
}
static const char *weight_value(Scope *s, const Node *n, const Index *out) {
  Index tap[4] = {out[1], {"0", false}, {"r", false}, {"s", false}};
  return expr_value(s, n->in[1], tap);
}

static bool is_weighted(const Node *n) {
  return n->op->cls == OpContract;
}
static const char *combining(const Node *n) {
  return is_weighted(n) ? "nn_fma($2, $3, $1)" : n->op->cuda;
}

// Combines the value under the window into acc[j]; depthwise convolutions multiply it by the tap.
static void emit_tap(Emitter *e, const Node *n, const Index *out) {
  Scope s = {.group = e->g, .lanes = e->g->tile.lanes, .indent = "        "};
  const char *args[3] = {"acc[j]", seen_value(&s, n, out)};
  if (is_weighted(n)) args[2] = weight_value(&s, n, out);
  hole_take(e, "tap_loads", &s.loads);
  hole_take(e, "tap_body", &s.body);
  hole_text(e, "combine", expr_substitute(e->c->arena, combining(n), args));
  scope_free(&s);
}

// The same for several pixels: a column of the image, if inside, and a row of taps.
static void emit_columns(Emitter *e, const Node *n, const Index *out, const char *init) {
  Scope s = {.group = e->g, .lanes = e->g->tile.lanes, .indent = "        ", .pred = "inside"};
  const char *seen = seen_value(&s, n, out), *args[3] = {"acc[p][j]", "seen[j]", "weights[s][j]"};
  bool zero = is_weighted(n) && scope_zero_elsewhere(&s, seen);
  hole_take(e, "tap_loads", &s.loads);
  hole_take(e, "tap_body", &s.body);
  hole_text(e, "value", zero ? seen : arena_printf(e->c->arena, "inside ? %s : %s", seen, init));
  hole_text(e, "combine", expr_substitute(e->c->arena, combining(n), args));
  scope_free(&s);
  if (!is_weighted(n)) return;
  Scope weights = {.group = e->g, .lanes = e->g->tile.lanes, .indent = "        "};
  const char *weight = weight_value(&weights, n, out);
  hole_take(e, "factor_loads", &weights.loads);
  hole_take(e, "factor_body", &weights.body);
  hole_text(e, "factor", weight);
  scope_free(&weights);
}

static void put_side(Emitter *e, const Node *n, int side) {
  static const char *const names[] = {"h", "w"};
  lua_State *lua = e->c->lua;
  lua_newtable(lua);
  Emitter inner = *e;
  hole_text(&inner, "name", n->type.dim[2 + side] == 1 ? "0" : names[side]);
  hole_int(&inner, "size", n->in[0]->type.dim[2 + side]);
  hole_int(&inner, "kernel", node_window(n, side));
  hole_int(&inner, "stride", n->attr.stride[side]);
  hole_int(&inner, "pad", n->attr.pad[side]);
  hole_int(&inner, "dilation", n->attr.dilation[side]);
  lua_setfield(lua, -2, side ? "width" : "height");
}

// Indices of a thread's outputs: `pixels` adjacent ones of a row, from linear index `index`.
static void put_window_decode(Emitter *e, const Type *t, const Index *at, const char *index) {
  enum { kAcross = 3 };
  Buffer decode = {0};
  int64_t size[4], pixels = e->g->tile.items;
  const char *names[4];
  for (int d = 0; d < 4; d++) {
    int from = t->order[d];
    bool tiles = from == kAcross && pixels > 1;
    size[d] = tiles ? ceil_div(t->dim[from], pixels) : t->dim[from];
    names[d] = tiles ? "tile" : at[from].text;
    if (!strcmp(names[d], "0")) names[d] = NULL;
  }
  expr_decode(&decode, "  ", index, 4, size, names);
  hole_take(e, "decode", &decode);
}

void emit_window(Emitter *e) {
  Node *n = e->g->anchor;
  const Type *t = &n->type;
  Index at[MaxRank];
  Scope s = {0};
  int pixels = e->g->tile.items;
  const char *init = is_weighted(n) ? "0.f" : n->op->init;
  emit_lane_index(t, emit_index_names(4), at);
  for (int d = 0; d < 4; d++) at[d].lane = d == 1 && e->g->tile.lanes > 1;
  for (int i = 0; i < 2; i++) put_side(e, n, i);
  hole_text(e, "init", init);
  // data gradient: from positions of the forward window to the image
  hole_bool(e, "back", maps_gives(n) == PartImage);
  hole_int(e, "pixels", pixels);
  hole_int(e, "across", t->dim[3]);
  hole_int(e, "channels", t->dim[1]);
  hole_int(e, "columns", window_columns(n, pixels));
  hole_bool(e, "ragged", t->dim[3] % pixels != 0);
  hole_int(e, "count", type_count(t) / t->dim[3] * ceil_div(t->dim[3], pixels));
  hole_int(e, "rows_at_once", window_rows_at_once(n, &e->g->tile));
  if (pixels > 1)
    emit_columns(e, n, at, init);
  else
    emit_tap(e, n, at);
  expr_bind(&s, n, at, pixels > 1 ? "acc[p][j]" : "acc[j]");
  emit_epilogue(e, &s, t, at, "i");
  // The taps use these indices even if the epilogue does not.
  put_window_decode(e, t, at, pixels > 1 ? "vector" : "i");
}
