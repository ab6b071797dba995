// emit_tails.c: epilogues of contractions: moves, maps and stores of each output, as a function of
// the row, the column and adjacent results.
#include "emit.h"

#include <string.h>

// Skips elements that a slice drops.
static void put_dropped(Buffer *moves, const Node *slice, const Index *at) {
  for (int d = 0; d < slice->type.rank; d++)
    if (slice->type.dim[d] < slice->in[0]->type.dim[d])
      buffer_put(moves, "    if (unsigned(%s) >= %lldu) return;\n", at[d].text,
                 (long long)slice->type.dim[d]);
}

// Follows an output's moves from `at`, an index of the product; binds the last moved value and
// updates `at`. other: the index of the rotary twin.
static void follow_moves(Emitter *e, Scope *s, Index *at, const Index *other) {
  const Tail *tail = &e->g->tails[s->tail];
  Buffer moves = {0};
  const char *beside = tail->twin ? expr_value(s, tail->moves[0]->in[0], other) : NULL;
  for (int i = 0; i < tail->nmoves; i++) {
    const Node *n = tail->moves[i];
    const char *value = expr_value(s, n->in[0], at);
    Index to[MaxRank];
    expr_follow(n, s->lanes, at, to);
    index_name(e->g, &moves, "    ", n->type.rank, to);
    for (int d = 0; d < n->type.rank; d++)
      if (expr_mentions(to[d].text, "j")) die("%s: moves cut the lanes apart", e->g->name);
    if (n->op->form == MoveSlice) put_dropped(&moves, n, to);
    for (int d = 0; d < n->type.rank; d++)
      at[d] = n->type.dim[d] == 1 ? (Index){"0", false} : to[d];
    expr_bind(s, n, at, value);
    if (tail->twin && n->in[0] == tail->twin->in[0]) expr_bind(s, tail->twin, at, beside);
  }
  hole_take(e, "moves", &moves);
}

const char *text_mentioned(Arena *arena, Buffer *decode, int count, const char *const *texts) {
  const char *kept = "", *all = decode->text ? buffer_take(decode, arena) : "";
  for (const char *end = all + strlen(all); end > all;) {
    const char *line = end - 1;
    while (line > all && line[-1] != '\n') line--;
    const char *text = arena_printf(arena, "%.*s", (int)(end - line), line);
    const char *name = strstr(text, "const int ") + strlen("const int ");
    const char *word = arena_printf(arena, "%.*s", (int)strcspn(name, " "), name);
    bool used = expr_mentions(kept, word);
    for (int i = 0; i < count; i++) used = used || (texts[i] && expr_mentions(texts[i], word));
    if (used) kept = arena_printf(arena, "%s%s", text, kept);
    end = line;
  }
  return kept;
}

// The epilogue of one output, from the product's element (elements of a pair) to the stores.
static void put_tail(ProductText *h, int tail) {
  Emitter *e = h->e;
  const Group *g = e->g;
  const unsigned out = kRoleBatch | kRoleM | kRoleN;
  Scope s = {.group = g, .lanes = g->tile.lanes, .indent = "    ", .tail = tail};
  Buffer decode = {0};
  Index at[MaxRank];
  product_index(h, MapOut, out, "    ", &decode, at);
  at[tail_product_lane(g->anchor).dim].lane = g->tile.lanes > 1;
  expr_bind(&s, g->anchor, at, "acc[j]");
  int dim = tail_product_lane(g->anchor).dim, twin = g->tails[tail].twin ? g->tails[tail].apart : 0;
  int64_t apart = g->pair[0] ? g->pair[1]->attr.dims[dim] : twin;
  Index other[MaxRank];
  memcpy(other, at, sizeof other);
  if (apart) { // its columns, and those of the second half or twin
    other[dim] = index_shifted(h->arena, at[dim], apart);
    expr_bind(&s, g->anchor, other, "acc_2[j]");
  }
  if (twin) hole_int(e, "apart", twin);
  follow_moves(e, &s, at, other);
  bool plain = !g->pair[0] && !g->tails[tail].nmoves;
  emit_epilogue(e, &s, &tail_made(g, tail)->type, at,
                plain ? product_flat_text(h, MapOut, &g->anchor->type, out) : NULL);
  const char *texts[] = {hole_get(e, "moves"), hole_get(e, "loads"), hole_get(e, "body"),
                         hole_get(e, "stores")};
  hole_text(e, "decode", text_mentioned(h->arena, &decode, LENGTH(texts), texts));
}

// k.tails: outputs that are written.
void tails_put(ProductText *h) {
  lua_State *lua = h->e->c->lua;
  int count = 0;
  lua_newtable(lua);
  for (int i = 0; i < h->e->g->ntails; i++) {
    if (!tail_writes(h->e->g, i)) continue;
    lua_newtable(lua);
    put_tail(h, i);
    lua_rawseti(lua, -2, ++count);
  }
  lua_setfield(lua, -2, "tails");
  hole_bool(h->e, "pair", h->p.pair);
}
