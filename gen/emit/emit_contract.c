// emit_contract.c: the holes of a contraction's kernel, seen as a matrix product (contract.c).
#include "emit.h"

#include <string.h>

typedef struct Holes { // the indices of both forms, as the template names them
  Product p;
  Index a[MaxRank], b[MaxRank], out[MaxRank];
} Holes;

static Index name(const char *text) {
  return (Index){text, false};
}
static Index unless_one(int64_t size, const char *text) {
  return name(size == 1 ? "0" : text);
}

// The row (i = 0) or column of the image under the first tap of an output.
static const char *first_text(const Compiler *c, const char *cut, const Node *n, int i) {
  const char *text = arena_printf(c->arena, "pixel %s %lld", cut, (long long)n->type.dim[3]);
  int64_t stride = n->attr.stride[i], pad = n->attr.pad[i];
  if (stride > 1) text = arena_printf(c->arena, "%s * %lld", text, (long long)stride);
  return pad ? arena_printf(c->arena, "%s - %lld", text, (long long)pad) : text;
}

// How far tap `index` is from the first one.
static const char *tap_text(const Compiler *c, const char *index, int64_t dilation) {
  return dilation == 1 ? index : arena_printf(c->arena, "%s * %lld", index, (long long)dilation);
}

static void conv_holes(Emitter *e, const Node *n, Holes *h) {
  const Type *x = &n->in[0]->type, *w = &n->in[1]->type, *y = &n->type;
  bool grouped = n->attr.groups > 1;
  Index a[4] = {unless_one(x->dim[0], "image"), name(grouped ? "group_c" : "c"), name("y"),
                name("x")};
  Index b[4] = {name(grouped ? "group_n" : "n"), name("c"), name("r"), name("s")};
  Index out[4] = {unless_one(y->dim[0], "image"), unless_one(y->dim[1], grouped ? "group_n" : "n"),
                  unless_one(y->dim[2], "p"), unless_one(y->dim[3], "q")};
  memcpy(h->a, a, sizeof a);
  memcpy(h->b, b, sizeof b);
  memcpy(h->out, out, sizeof out);
  hole_int(e, "P", y->dim[2]);
  hole_int(e, "Q", y->dim[3]);
  hole_int(e, "C", w->dim[1]);
  hole_int(e, "R", w->dim[2]);
  hole_int(e, "S", w->dim[3]);
  hole_int(e, "taps", w->dim[2] * w->dim[3]);
  hole_int(e, "H", x->dim[2]);
  hole_int(e, "W", x->dim[3]);
  hole_text(e, "first_y", first_text(e->c, "/", n, 0));
  hole_text(e, "first_x", first_text(e->c, "%", n, 1));
  hole_text(e, "tap_y", tap_text(e->c, "r", n->attr.dilation[0]));
  hole_text(e, "tap_x", tap_text(e->c, "s", n->attr.dilation[1]));
}

static const char *const batch_names[] = {"b0", "b1", "b2", "b3", "b4", "b5"};

// Batch dimensions are indices b0, b1, ... cut from the block's batch number, or from the row m
// where they are rows; the row of its own matrix is m_row then.
static void matmul_holes(Emitter *e, const Node *n, Holes *h) {
  const Type *x = &n->in[0]->type, *w = &n->in[1]->type, *y = &n->type;
  int rank = y->rank;
  for (int d = 0; d < rank - 2; d++) h->out[d] = unless_one(y->dim[d], batch_names[d]);
  h->out[rank - 2] = unless_one(y->dim[rank - 2], h->p.first_row < rank - 2 ? "m_row" : "m");
  h->out[rank - 1] = unless_one(h->p.n, "n");
  expr_broadcast(y, x, h->out, h->a);
  expr_broadcast(y, w, h->out, h->b);
  h->a[x->rank - 1] = name("k");
  h->b[w->rank - 2] = name("k");
  h->b[w->rank - 1] = name("n");
  Buffer decode = {0};
  const char *names[MaxRank];
  for (int d = 0; d < h->p.first_row; d++) names[d] = y->dim[d] == 1 ? NULL : batch_names[d];
  expr_decode(&decode, "  ", "batch", h->p.first_row, y->dim, names);
  hole_take(e, "decode_batch", &decode);
}

// Where element `at` of a view with these strides is; entries of `at` that are "0" add nothing.
static const char *offset_text(const Compiler *c, int rank, const int64_t *stride,
                               const Index *at) {
  Buffer b = {0};
  for (int d = 0; d < rank; d++) {
    if (!stride[d] || !strcmp(at[d].text, "0")) continue;
    if (b.size) buffer_put(&b, " + ");
    buffer_put(&b, stride[d] == 1 ? "%s" : "%s * %lld", at[d].text, (long long)stride[d]);
  }
  const char *text = arena_dup(c->arena, b.size ? b.text : "0");
  buffer_free(&b);
  return text;
}

// The indices that the texts mention, cut from the row m: of the output of a convolution, or of a
// matmul whose batches are rows.
static void decode_row(const Node *n, const Product *p, int count, const char *const *texts,
                       const char *indent, Buffer *decode) {
  bool conv = n->op->form == FormConv;
  const Type *y = &n->type;
  int rank = conv ? 3 : y->rank - 1 - p->first_row;
  const char *names[MaxRank] = {"image", "p", "q"};
  int64_t size[MaxRank] = {y->dim[0], y->dim[2], y->dim[3]};
  for (int i = 0; i < rank && !conv; i++) {
    names[i] = i + 1 < rank ? batch_names[p->first_row + i] : "m_row";
    size[i] = y->dim[p->first_row + i];
  }
  if (rank == 1) return; // m itself
  for (int i = 0; i < rank; i++) {
    bool used = false;
    for (int j = 0; j < count; j++) used = used || expr_mentions(texts[j], names[i]);
    if (!used) names[i] = NULL;
  }
  expr_decode(decode, indent, "m", rank, size, names);
}

// One operand's element: statements, then the value.
static void put_computed(Emitter *o, const Node *n, const Holes *h, bool is_a) {
  const Node *operand = n->in[is_a ? 0 : 1];
  const Index *at = is_a ? h->a : h->b;
  Scope s = {.group = o->g, .lanes = 1, .indent = "      ", .pred = "inside"};
  bool rows = is_a && n->op->form == FormMatmul;
  if (rows && h->p.batch == 1) { // where values are that lie as the operand would
    s.flat = arena_printf(o->c->arena, "m * %lld + k", (long long)h->p.k);
    s.flat_type = type_make(DtF32, operand->type.rank, operand->type.dim);
    memcpy(s.flat_at, at, sizeof *at * (size_t)operand->type.rank);
  }
  const char *value = expr_value(&s, operand, at);
  Buffer text = {0};
  if (rows) decode_row(n, &h->p, 2, (const char *[]){s.loads.text, s.body.text}, s.indent, &text);
  buffer_put(&text, "%s%s", s.loads.text ? s.loads.text : "", s.body.text ? s.body.text : "");
  hole_take(o, "body", &text);
  hole_text(o, "value", value);
  scope_free(&s);
}

// The bits of tap (r, s), as the kernel tells what is missing.
static const char *tap_bits(const Emitter *o, const Product *p) {
  const char *end = p->k % o->g->tile.k ? "k >= kK ? 1u << 31 : " : "";
  return arena_printf(o->c->arena, "%s1u << r | 1u << (%lld + s)", end,
                      (long long)node_window(o->g->anchor, 0));
}

// When element (row, k) of an operand exists; conditions that always hold are left out. Taps that
// may leave the image tell of rows and k past the end as well.
static void put_inside(Emitter *o, const Product *p, bool is_a) {
  const Tile *t = &o->g->tile;
  bool taps = is_a && p->taps_leave;
  bool across = is_a ? p->a.across : p->b.across, ragged = is_a ? p->m % t->m : p->n % t->n;
  const char *row = across ? (is_a ? "m < kM" : "n < kN")
                    : is_a ? "m0 + row < kM"
                           : "n0 + row < kN";
  const char *both = p->k % t->k && ragged ? " && " : "";
  hole_bool(o, "taps_leave", taps);
  hole_text(o, "tap", taps ? tap_bits(o, p) : "0");
  if (taps)
    hole_text(o, "inside", "!(a_missing[i] & tap.bits)");
  else if (p->k % t->k || ragged)
    hole_text(
        o, "inside",
        arena_printf(o->c->arena, "%s%s%s", p->k % t->k ? "k < kK" : "", both, ragged ? row : ""));
  else
    hole_text(o, "inside", "true");
}

// An operand's element is at its row's offset plus that of k: `row` and `offset`.
static void put_copied(Emitter *o, const Node *n, const Holes *h, bool is_a) {
  const Product *p = &h->p;
  const Operand *from = is_a ? &p->a : &p->b;
  const Node *operand = n->in[is_a ? 0 : 1];
  bool conv = n->op->form == FormConv;
  int rank = operand->type.rank, k_dim = conv ? 1 : is_a ? rank - 1 : rank - 2;
  Index row[MaxRank], k[MaxRank];
  for (int d = 0; d < rank; d++) {
    row[d] = d == k_dim ? name("0") : is_a ? h->a[d] : h->b[d];
    if (!conv && is_a && d == rank - 2) row[d] = name("m"); // of all that are rows
    k[d] = name(d != k_dim ? "0" : conv && is_a ? "c" : "k");
  }
  if (conv && is_a) {
    k[2] = name(tap_text(o->c, "r", n->attr.dilation[0]));
    k[3] = name(tap_text(o->c, "s", n->attr.dilation[1]));
    if (p->batch > 1)
      row[1] = name(arena_printf(o->c->arena, "batch * %lld", (long long)n->in[1]->type.dim[1]));
  }
  hole_text(o, from->across ? "across" : "along", "yes");
  hole_int(o, "piece", from->piece);
  const char *pointer = expr_pointer(o->g, from->base);
  if (from->offset)
    pointer = arena_printf(o->c->arena, "%s + %lld", pointer, (long long)from->offset);
  hole_text(o, "pointer", pointer);
  hole_text(o, "row", offset_text(o->c, rank, from->stride, row));
  hole_text(o, "offset", offset_text(o->c, rank, from->stride, k));
  if (from->across) {
    k[k_dim] = name("k0");
    hole_text(o, "block", offset_text(o->c, rank, from->stride, k));
  }
  put_inside(o, p, is_a);
}

// The table of one operand: k.a or k.b.
static void put_operand(Emitter *e, const Node *n, const Holes *h, bool is_a) {
  bool conv = n->op->form == FormConv;
  lua_newtable(e->c->lua);
  Emitter o = *e;
  hole_text(&o, "name", is_a ? "a" : "b");
  hole_text(&o, "index", is_a ? "m" : "n");
  hole_text(&o, "tile", is_a ? "kTileM" : "kTileN");
  hole_text(&o, "rows", is_a ? "kRowsA" : "kRowsB");
  hole_text(&o, "size", is_a ? "kM" : "kN");
  hole_bool(&o, "image", conv && is_a);
  hole_bool(&o, "filter", conv && !is_a);
  if (is_a ? h->p.a.piece : h->p.b.piece)
    put_copied(&o, n, h, is_a);
  else
    put_computed(&o, n, h, is_a);
  lua_setfield(e->c->lua, -2, is_a ? "a" : "b");
}

// ---- the kernel ---------------------------------------------------------------------------------

static void put_shape(Emitter *e, const Product *p) {
  const Tile *t = &e->g->tile;
  bool ragged_m = p->m % t->m, ragged_n = p->n % t->n;
  hole_text(e, "outside",
            ragged_m && ragged_n ? "m >= kM || n >= kN"
            : ragged_m           ? "m >= kM"
            : ragged_n           ? "n >= kN"
                                 : "");
  hole_text(e, "unit", t->mma ? "mma" : "fma");
  hole_text(e, "operand", expr_ctype(prec_operand(e->g->anchor)));
  hole_int(e, "pack", 16 / p->size);
  hole_int(e, "m", p->m);
  hole_int(e, "n", p->n);
  hole_int(e, "k", p->k);
  hole_int(e, "batch", p->batch);
  hole_int(e, "tile_m", t->m);
  hole_int(e, "tile_k", t->k);
  hole_int(e, "tile_n", t->n);
  hole_int(e, "tiles_m", ceil_div(p->m, t->m));
  hole_int(e, "tiles_n", ceil_div(p->n, t->n));
  hole_int(e, "warp_m", t->tm);
  hole_int(e, "warp_n", t->tn);
  hole_int(e, "stages", t->stages);
  hole_int(e, "splits", t->splits);
  hole_int(e, "blocks", t->blocks);
  if (p->tap_run) hole_int(e, "tap_run", p->tap_run);
  hole_int(e, "smem", t->smem);
}

// Where output (m, n) is, in a result that lies as the product does; null: indices must tell.
static const char *flat_text(const Emitter *e, const Node *y, const Product *p) {
  bool conv = y->op->form == FormConv;
  static const uint8_t channels_last[4] = {0, 2, 3, 1};
  for (int d = 0; d < y->type.rank; d++)
    if (y->type.order[d] != (conv ? channels_last[d] : d)) return NULL;
  if (!conv && p->batch > 1) return NULL;
  return arena_printf(e->c->arena, "m * %lld + %s",
                      (long long)y->type.dim[conv ? 1 : y->type.rank - 1],
                      p->batch > 1 ? "group_n" : "n");
}

// The indices of a row of the output that its epilogue mentions.
static void put_decode(Emitter *e, const Node *n, const Product *p) {
  const char *texts[] = {hole_get(e, "moves"), hole_get(e, "loads"), hole_get(e, "body"),
                         hole_get(e, "stores")};
  Buffer decode = {0};
  decode_row(n, p, LENGTH(texts), texts, "    ", &decode);
  hole_take(e, "decode", &decode);
}

// k.columns: the sums of columns.
static void put_columns(Emitter *e) {
  lua_State *lua = e->c->lua;
  int count = 0;
  lua_newtable(lua);
  for (int i = 0; i < e->g->noutputs; i++) {
    const Node *n = e->g->outputs[i];
    if (!group_sums_columns(e->g, n)) continue;
    lua_newtable(lua);
    Emitter inner = *e;
    hole_text(&inner, "pointer", expr_pointer(e->g, n));
    hole_text(&inner, "name", e->g->sums[i]);
    hole_text(&inner, "type", expr_ctype(n->type.dtype));
    lua_rawseti(lua, -2, ++count);
  }
  lua_setfield(lua, -2, "columns");
  hole_int(e, "group", e->g->tile.group);
}

// Gives each index of a moved value a name, unless it is one: it is computed once, and a vector
// wants a bare one.
static void name_indices(Emitter *e, Buffer *moves, int rank, Index *at) {
  for (int d = 0; d < rank; d++) {
    if (!strchr(at[d].text, ' ')) continue;
    const char *word = expr_name(e->g, emit_index_names(rank)[d]);
    buffer_put(moves, "    const int %s = %s;\n", word, at[d].text);
    at[d].text = word;
  }
}

// Nothing is stored where a slice drops the element.
static void put_dropped(Buffer *moves, const Node *slice, const Index *at) {
  for (int d = 0; d < slice->type.rank; d++)
    if (slice->type.dim[d] < slice->in[0]->type.dim[d])
      buffer_put(moves, "    if (unsigned(%s) >= %lldu) continue;\n", at[d].text,
                 (long long)slice->type.dim[d]);
}

// Follows the moves of the epilogue from `at`, an index of the product: the last moved value is
// bound where it goes to, and `at` is this index then.
static void follow_moves(Emitter *e, Scope *s, Index *at) {
  Buffer moves = {0};
  for (int i = 0; i < e->g->nmoves; i++) {
    const Node *n = e->g->moves[i];
    const char *value = expr_value(s, n->in[0], at);
    Index to[MaxRank];
    expr_follow(n, s->lanes, at, to);
    name_indices(e, &moves, n->type.rank, to);
    if (n->op->form == MoveSlice) put_dropped(&moves, n, to);
    for (int d = 0; d < n->type.rank; d++) at[d] = n->type.dim[d] == 1 ? name("0") : to[d];
    expr_bind(s, n, at, value);
  }
  if (expr_mentions(moves.text, "j")) die("%s: moves cut the lanes apart", e->g->name);
  hole_take(e, "moves", &moves);
}

void emit_contract(Emitter *e) {
  Node *n = e->g->anchor;
  Holes h = {.p = contract_product(e->g)};
  bool conv = n->op->form == FormConv;
  (conv ? conv_holes : matmul_holes)(e, n, &h);
  hole_bool(e, "conv", conv);
  hole_bool(e, "grouped", conv && h.p.batch > 1);
  put_shape(e, &h.p);
  put_operand(e, n, &h, true);
  put_operand(e, n, &h, false);
  put_columns(e);
  Scope s = {.group = e->g, .lanes = e->g->tile.lanes, .indent = "    "};
  int channel = conv ? 1 : n->type.rank - 1;
  h.out[channel].lane = e->g->tile.lanes > 1;
  expr_bind(&s, n, h.out, "acc[j]");
  follow_moves(e, &s, h.out);
  emit_epilogue(e, &s, &e->g->domain, h.out, e->g->nmoves ? NULL : flat_text(e, n, &h.p));
  put_decode(e, n, &h.p);
}
