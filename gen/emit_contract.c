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

// May the operand be copied in chunks of 16 bytes? Then its k runs must be neighbours in memory,
// whole chunks, and every other step a multiple of a chunk. `k_dim` is the dimension that is
// innermost in k.
static bool contract_direct(const Group *g, const Node *operand, Dtype dtype, int k_dim) {
  int64_t stride[MaxRank], pack = 16 / (int64_t)dtype_size(dtype);
  const Node *base = expr_view(g, operand, stride);
  const Type *t = &operand->type;
  if (!base || base->type.dtype != dtype) return false;
  if ((t->dim[k_dim] > 1 && stride[k_dim] != 1) || t->dim[k_dim] % pack) return false;
  for (int d = 0; d < t->rank; d++)
    if (d != k_dim && stride[d] % pack) return false;
  return true;
}

// The weights of a convolution: k runs over taps and channels, so they must follow each other.
static bool taps_follow(const Group *g, const Node *w) {
  int64_t stride[MaxRank];
  if (!expr_view(g, w, stride)) return false;
  int64_t row = w->type.dim[3] > 1 ? stride[3] : w->type.dim[1];
  int64_t plane = w->type.dim[2] > 1 ? stride[2] : w->type.dim[1] * w->type.dim[3];
  return row == w->type.dim[1] && plane == w->type.dim[1] * w->type.dim[3];
}

// Channels of one group are whole chunks, for both operands of a convolution.
static bool groups_align(const Node *n, Dtype dtype) {
  return n->op->form != FormConv || n->in[1]->type.dim[1] % (16 / (int64_t)dtype_size(dtype)) == 0;
}

// Pointer and offset of element `at` of a direct operand.
static void put_direct(Emitter *e, const char *which, const Node *operand, const Index *at) {
  int64_t stride[MaxRank];
  const Node *base = expr_view(e->g, operand, stride);
  Buffer b = {0};
  for (int d = 0; d < operand->type.rank; d++)
    if (stride[d] && strcmp(at[d].text, "0"))
      buffer_put(&b, stride[d] == 1 ? "%s%s" : "%s%s * %lld", b.size ? " + " : "", at[d].text,
                 (long long)stride[d]);
  if (!b.size) buffer_put(&b, "0");
  hole_take(e, arena_printf(e->c->arena, "%s_offset", which), &b);
  hole_text(e, arena_printf(e->c->arena, "%s_pointer", which), expr_pointer(e->g, base));
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

static void put_shape(Emitter *e, const Problem *p) {
  const Tile *t = &e->g->tile;
  hole_int(e, "m", p->m);
  hole_int(e, "n", p->n);
  hole_int(e, "k", p->k);
  hole_int(e, "batch", p->batch);
  hole_int(e, "tile_m", t->m);
  hole_int(e, "tile_n", t->n);
  hole_int(e, "tile_k", t->k);
  hole_int(e, "thread_m", t->tm);
  hole_int(e, "thread_n", t->tn);
  hole_int(e, "stages", t->stages);
  hole_int(e, "blocks", t->blocks);
  hole_int(e, "smem", t->smem);
}

// With tensor cores an operand is copied in chunks where it can be.
static void put_operand_mma(Emitter *e, const char *which, const Node *n, const Index *at,
                            int k_dim, const char *pred) {
  Dtype dtype = prec_storage(e->c->options.dtype);
  const Node *anchor = e->g->anchor;
  bool direct = contract_direct(e->g, n, dtype, k_dim) && groups_align(anchor, dtype);
  if (*which == 'b' && anchor->op->form == FormConv) direct = direct && taps_follow(e->g, n);
  hole_bool(e, arena_printf(e->c->arena, "%s_direct", which), direct);
  if (!direct) {
    put_operand(e, which, n, at, pred);
    return;
  }
  Index first[MaxRank]; // b's k is one run over taps and channels
  memcpy(first, at, sizeof *at * (size_t)n->type.rank);
  if (*which == 'b' && e->g->anchor->op->form == FormConv) {
    first[1] = name("k0");
    first[2] = first[3] = name("0");
  } else if (*which == 'b') {
    first[k_dim] = name("k0");
  }
  put_direct(e, which, n, first);
}

void emit_contract(Emitter *e) {
  Node *n = e->g->anchor;
  Problem p = {0};
  bool conv = n->op->form == FormConv, mma = e->g->tile.stages > 0;
  (conv ? conv_holes : matmul_holes)(e, n, &p);
  hole_bool(e, "conv", conv);
  hole_bool(e, "grouped", conv && p.batch > 1);
  hole_text(e, "operand", expr_ctype(prec_storage(e->c->options.dtype)));
  put_shape(e, &p);
  Node *a = n->in[0], *b = n->in[1];
  if (mma) {
    put_operand_mma(e, "a", a, p.a, conv ? 1 : a->type.rank - 1, "a_inside");
    put_operand_mma(e, "b", b, p.b, conv ? 1 : b->type.rank - 2, "b_inside");
  } else {
    put_operand(e, "a", a, p.a, "a_inside");
    put_operand(e, "b", b, p.b, "b_inside");
  }
  Scope s = {0};
  int channel = conv ? 1 : n->type.rank - 1;
  bool lanes = e->g->tile.lanes > 1;
  p.out[channel].lane = lanes;
  expr_bind(&s, n, p.out, mma ? "acc[j]" : lanes ? "acc[i][v + j]" : "acc[i][v]");
  emit_epilogue(e, &s, &n->type, p.out, NULL);
}
