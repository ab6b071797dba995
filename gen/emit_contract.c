// emit_contract.c: contractions, seen as one matrix product per batch: out[m, n] = sum over k of
// a[m, k] * b[n, k]. A convolution is the same product with m = (image, row, column), k = (tap row,
// tap column, channel), one batch per group of channels.
#include "emit.h"

#include <string.h>

typedef struct Problem { // both forms, as the template sees them
  int64_t m, n, k, batch;
  Index a[MaxRank], b[MaxRank], out[MaxRank];
} Problem;

static Index name(const char *text) { return (Index){text, false}; }
static Index unless_one(int64_t size, const char *text) { return name(size == 1 ? "0" : text); }

static void conv_holes(Emitter *e, const Node *n, Problem *p) {
  const Type *x = &n->in[0]->type, *w = &n->in[1]->type, *y = &n->type;
  p->batch = n->attr.groups;
  p->m = y->dim[0] * y->dim[2] * y->dim[3];
  p->n = w->dim[0] / n->attr.groups;
  p->k = w->dim[1] * w->dim[2] * w->dim[3];
  bool grouped = p->batch > 1;
  Index a[4] = {unless_one(x->dim[0], "image"), name(grouped ? "group_c" : "c"), name("y"), name("x")};
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

void emit_contract(Emitter *e) {
  Node *n = e->g->anchor;
  Problem p = {0};
  bool conv = n->op->form == FormConv;
  (conv ? conv_holes : matmul_holes)(e, n, &p);
  hole_bool(e, "conv", conv);
  hole_bool(e, "grouped", conv && p.batch > 1);
  hole_int(e, "m", p.m);
  hole_int(e, "n", p.n);
  hole_int(e, "k", p.k);
  hole_int(e, "batch", p.batch);
  hole_int(e, "tile_m", e->g->tile.m);
  hole_int(e, "tile_n", e->g->tile.n);
  hole_int(e, "tile_k", e->g->tile.k);
  hole_int(e, "thread_m", e->g->tile.tm);
  hole_int(e, "thread_n", e->g->tile.tn);
  put_operand(e, "a", n->in[0], p.a, "a_inside");
  put_operand(e, "b", n->in[1], p.b, "b_inside");
  Scope s = {0};
  int channel = conv ? 1 : n->type.rank - 1;
  p.out[channel].lane = e->g->tile.lanes > 1;
  expr_bind(&s, n, p.out, e->g->tile.lanes > 1 ? "acc[i][v + j]" : "acc[i][v]");
  emit_epilogue(e, &s, &n->type, p.out, NULL);
}
