// emit_contract.c: contractions, seen as one matrix product per batch: out[m, n] = sum over k of
// a[m, k] * b[n, k]. A convolution is the same product with m = (image, row, column), k = (tap row,
// tap column, channel), one batch per group of channels.
#include "emit.h"

#include <string.h>

typedef struct Problem { // both forms, as the template sees them
  int64_t m, n, k, batch;
  Index a[MaxRank], b[MaxRank], out[MaxRank];
} Problem;

static Index name(const char *text) {
  return (Index){text, false};
}
static Index unless_one(int64_t size, const char *text) {
  return name(size == 1 ? "0" : text);
}

static void conv_holes(Emitter *e, const Node *n, Problem *p) {
  const Type *x = &n->in[0]->type, *w = &n->in[1]->type, *y = &n->type;
  p->batch = n->attr.groups;
  p->m = y->dim[0] * y->dim[2] * y->dim[3];
  p->n = w->dim[0] / n->attr.groups;
  p->k = w->dim[1] * w->dim[2] * w->dim[3];
  bool grouped = p->batch > 1;
  Index a[4] = {unless_one(x->dim[0], "image"), name(grouped ? "group_c" : "c"), name("y"),
                name("x")};
  Index b[4] = {name(grouped ? "group_n" : "n"), name("c"), name("r"), name("s")};
  Index out[4] = {unless_one(y->dim[0], "image"), unless_one(y->dim[1], grouped ? "group_n" : "n"),
                  unless_one(y->dim[2], "p"), unless_one(y->dim[3], "q")};
  memcpy(p->a, a, sizeof a);
  memcpy(p->b, b, sizeof b);
  memcpy(p->out, out, sizeof out);
  hole_int(e, "P", y->dim[2]);
  hole_int(e, "Q", y->dim[3]);
  hole_int(e, "C", w->dim[1]);
  hole_int(e, "S", w->dim[3]);
  hole_int(e, "taps", w->dim[2] * w->dim[3]);
  hole_int(e, "H", x->dim[2]);
  hole_int(e, "W", x->dim[3]);
  hole_int(e, "stride_h", n->attr.stride[0]);
  hole_int(e, "stride_w", n->attr.stride[1]);
  hole_int(e, "pad_h", n->attr.pad[0]);
  hole_int(e, "pad_w", n->attr.pad[1]);
  hole_int(e, "dilation_h", n->attr.dilation[0]);
  hole_int(e, "dilation_w", n->attr.dilation[1]);
}

// Batch dimensions are indices b0, b1, ... cut from the block's batch number.
static void matmul_holes(Emitter *e, const Node *n, Problem *p) {
  static const char *const batch_names[] = {"b0", "b1", "b2", "b3", "b4", "b5"};
  const Type *x = &n->in[0]->type, *w = &n->in[1]->type, *y = &n->type;
  int rank = y->rank;
  p->m = y->dim[rank - 2];
  p->n = y->dim[rank - 1];
  p->k = x->dim[x->rank - 1];
  p->batch = type_count(y) / (p->m * p->n);
  for (int d = 0; d < rank - 2; d++) p->out[d] = unless_one(y->dim[d], batch_names[d]);
  p->out[rank - 2] = unless_one(p->m, "m");
  p->out[rank - 1] = unless_one(p->n, "n");
  expr_broadcast(y, x, p->out, p->a);
  expr_broadcast(y, w, p->out, p->b);
  p->a[x->rank - 2] = unless_one(p->m, "m");
  p->a[x->rank - 1] = name("k");
  p->b[w->rank - 2] = name("k");
  p->b[w->rank - 1] = name("n");
  Buffer decode = {0};
  const char *names[MaxRank];
  for (int d = 0; d < rank - 2; d++) names[d] = y->dim[d] == 1 ? NULL : batch_names[d];
  expr_decode(&decode, "  ", "batch", rank - 2, y->dim, names);
  hole_take(e, "decode_batch", &decode);
}

// Where element `at` of a view with these strides is; entries of `at` that are "0" add nothing.
static const char *offset_text(const Compiler *c, int rank, const int64_t *stride, const Index *at) {
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

// The elements of an operand that one copy takes, 16 bytes or fewer: its k must run in memory in
// whole pieces, `run` elements each, and every other step be a multiple of one. A piece of one
// element may stand anywhere. 0: no copy does, elements are computed.
static int copied_piece(const Emitter *e, const Node *base, int rank, const int64_t *stride,
                        int k_dim, int64_t run) {
  Dtype dtype = prec_storage(e->c->options.dtype);
  if (!base || base->type.dtype != dtype) return 0;
  int size = (int)dtype_size(dtype), piece = stride[k_dim] > 1 ? 1 : 16 / size;
  for (int d = 0; d < rank; d++)
    while (piece > 1 && (d == k_dim ? run : stride[d]) % piece) piece /= 2;
  return piece * size >= 4 ? piece : 0;
}

// One operand's element: statements, then the value.
static void put_operand(Emitter *e, const char *which, const Node *operand, const Index *at,
                        const char *pred) {
  Scope s = {.group = e->g, .lanes = 1, .indent = "      ", .pred = pred};
  const char *value = expr_value(&s, operand, at);
  Buffer text = {0};
  buffer_put(&text, "%s%s", s.loads.text ? s.loads.text : "", s.body.text ? s.body.text : "");
  hole_take(e, arena_printf(e->c->arena, "%s_body", which), &text);
  hole_text(e, arena_printf(e->c->arena, "%s_value", which), value);
  scope_free(&s);
}

// ---- a: activations -----------------------------------------------------------------------------

// Taps may fall outside the image along dimension 2 + i.
static bool taps_leave(const Node *n, int i) {
  const Attr *a = &n->attr;
  int64_t last = (n->type.dim[2 + i] - 1) * a->stride[i] - a->pad[i] +
                 (n->in[1]->type.dim[2 + i] - 1) * a->dilation[i];
  return a->pad[i] > 0 || last >= n->in[0]->type.dim[2 + i];
}

static const char *conditions(const Compiler *c, Buffer *b) { // each begins with " && "
  const char *text = arena_dup(c->arena, b->size ? b->text + 4 : "true");
  buffer_free(b);
  return text;
}

// When a tap of row i of a is inside the image, and the row inside the product.
static const char *a_inside(Emitter *e, const Node *n, const Problem *p) {
  bool conv = n->op->form == FormConv, rows = conv && taps_leave(n, 0);
  const Tile *t = &e->g->tile;
  Buffer b = {0};
  if (p->k % t->k) buffer_put(&b, " && k < kK");
  if (!rows && p->m % t->m) buffer_put(&b, " && m0 + row < kM");
  if (rows) buffer_put(&b, " && unsigned(a_y[i] + tap_y) < %lldu", (long long)n->in[0]->type.dim[2]);
  if (conv && taps_leave(n, 1))
    buffer_put(&b, " && unsigned(a_x[i] + tap_x) < %lldu", (long long)n->in[0]->type.dim[3]);
  return conditions(e->c, &b);
}

static const char *b_inside(Emitter *e, const Problem *p) {
  const Tile *t = &e->g->tile;
  Buffer b = {0};
  if (p->n % t->n) buffer_put(&b, " && n < kN");
  if (p->k % t->k) buffer_put(&b, " && k < kK");
  return conditions(e->c, &b);
}

static void put_a(Emitter *e, const Node *n, const Problem *p) {
  const Node *a = n->in[0], *base;
  bool conv = n->op->form == FormConv;
  int rank = a->type.rank, k_dim = conv ? 1 : rank - 1;
  int64_t stride[MaxRank], run = conv ? n->in[1]->type.dim[1] : p->k;
  base = expr_view(e->g, a, stride);
  int piece = copied_piece(e, base, rank, stride, k_dim, run);
  if (!piece) {
    put_operand(e, "a", a, p->a, "a_inside");
    return;
  }
  Index row[MaxRank], tap[MaxRank];
  for (int d = 0; d < rank; d++) {
    row[d] = d == k_dim ? name("0") : p->a[d];
    tap[d] = name(d == k_dim ? conv ? "c" : "k" : "0");
  }
  if (conv) {
    tap[2] = name("tap_y"), tap[3] = name("tap_x");
    if (p->batch > 1) row[1] = name(arena_printf(e->c->arena, "batch * %lld", (long long)run));
  }
  hole_int(e, "a_piece", piece);
  hole_text(e, "a_pointer", expr_pointer(e->g, base));
  hole_text(e, "a_row", offset_text(e->c, rank, stride, row));
  hole_text(e, "a_offset", offset_text(e->c, rank, stride, tap));
  hole_text(e, "a_inside", a_inside(e, n, p));
  hole_bool(e, "bounds_h", conv && taps_leave(n, 0));
  hole_bool(e, "bounds_w", conv && taps_leave(n, 1));
}

// ---- b: weights ---------------------------------------------------------------------------------

// The weights of a convolution: k runs over taps and channels, so they must follow each other.
static bool taps_follow(const Node *w, const int64_t *stride) {
  const int64_t *dim = w->type.dim;
  return (dim[1] == 1 || stride[1] == 1) && (dim[3] == 1 || stride[3] == dim[1]) &&
         (dim[2] == 1 || stride[2] == dim[1] * dim[3]);
}

static void put_b(Emitter *e, const Node *n, const Problem *p) {
  const Node *b = n->in[1];
  bool conv = n->op->form == FormConv;
  int rank = b->type.rank, k_dim = conv ? 1 : rank - 2;
  int64_t stride[MaxRank];
  const Node *base = expr_view(e->g, b, stride);
  if (conv && base && !taps_follow(b, stride)) base = NULL;
  if (conv) stride[1] = 1, stride[2] = stride[3] = 0; // k is one run
  int piece = copied_piece(e, base, rank, stride, k_dim, p->k);
  if (!piece) {
    put_operand(e, "b", b, p->b, "b_inside");
    return;
  }
  Index row[MaxRank], k[MaxRank];
  for (int d = 0; d < rank; d++) {
    row[d] = d == k_dim ? name("0") : p->b[d];
    k[d] = name(d == k_dim ? "k" : "0");
  }
  hole_int(e, "b_piece", piece);
  hole_text(e, "b_pointer", expr_pointer(e->g, base));
  hole_text(e, "b_inside", b_inside(e, p));
  hole_text(e, "b_row", offset_text(e->c, rank, stride, row));
  hole_text(e, "b_offset", offset_text(e->c, rank, stride, k));
}

// ---- the kernel ---------------------------------------------------------------------------------

static void put_shape(Emitter *e, const Problem *p) {
  const Tile *t = &e->g->tile;
  hole_text(e, "unit", t->mma ? "mma" : "fma");
  hole_text(e, "operand", expr_ctype(prec_storage(e->c->options.dtype)));
  hole_int(e, "pack", 16 / (int64_t)dtype_size(prec_storage(e->c->options.dtype)));
  hole_int(e, "m", p->m);
  hole_int(e, "n", p->n);
  hole_int(e, "k", p->k);
  hole_int(e, "batch", p->batch);
  hole_int(e, "tile_m", t->m);
  hole_int(e, "tile_n", t->n);
  hole_int(e, "warp_m", t->tm);
  hole_int(e, "warp_n", t->tn);
  hole_int(e, "stages", t->stages);
  hole_int(e, "splits", t->splits);
  hole_int(e, "blocks", t->blocks);
  hole_int(e, "smem", t->smem);
}

// Where output (m, n) is, in a result that lies as the product does; null: indices must tell.
static const char *flat_text(const Emitter *e, const Node *y, const Problem *p) {
  bool conv = y->op->form == FormConv;
  static const uint8_t channels_last[4] = {0, 2, 3, 1};
  for (int d = 0; d < y->type.rank; d++)
    if (y->type.order[d] != (conv ? channels_last[d] : d)) return NULL;
  if (!conv && p->batch > 1) return NULL;
  return arena_printf(e->c->arena, "m * %lld + %s", (long long)y->type.dim[conv ? 1 : y->type.rank - 1],
                      p->batch > 1 ? "group_n" : "n");
}

// The indices of a convolution's output that its epilogue mentions, cut from m.
static void put_decode(Emitter *e, const Node *y) {
  static const char *const holes[] = {"loads", "body", "stores"};
  const char *names[3] = {"image", "p", "q"};
  int64_t size[3] = {y->type.dim[0], y->type.dim[2], y->type.dim[3]};
  for (int i = 0; i < 3; i++) {
    bool used = false;
    for (int h = 0; h < 3; h++) used = used || expr_mentions(hole_get(e, holes[h]), names[i]);
    if (!used) names[i] = NULL;
  }
  Buffer decode = {0};
  expr_decode(&decode, "    ", "m", 3, size, names);
  hole_take(e, "decode", &decode);
}

void emit_contract(Emitter *e) {
  Node *n = e->g->anchor;
  Problem p = {0};
  bool conv = n->op->form == FormConv;
  (conv ? conv_holes : matmul_holes)(e, n, &p);
  hole_bool(e, "conv", conv);
  hole_bool(e, "grouped", conv && p.batch > 1);
  put_shape(e, &p);
  put_a(e, n, &p);
  put_b(e, n, &p);
  for (int i = 0; i < e->g->nscratch; i++) // own_sums -> sums
    hole_text(e, e->g->scratch[i].name + strlen("own_"), e->g->scratch[i].name);
  Scope s = {0};
  int channel = conv ? 1 : n->type.rank - 1;
  p.out[channel].lane = e->g->tile.lanes > 1;
  expr_bind(&s, n, p.out, "acc[j]");
  emit_epilogue(e, &s, &n->type, p.out, flat_text(e, n, &p));
  hole_text(e, "decode", "");
  if (conv) put_decode(e, n);
}
