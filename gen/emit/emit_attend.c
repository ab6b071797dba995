// emit_attend.c: template parameters of attention forward: the score function, probabilities, and
// row statistics of the softmax.
#include "attend_text.h"

#include <math.h>
#include <string.h>

static bool is_masked(const Node *n) {
  return node_is_literal(n) && n->attr.value == -INFINITY;
}

// ---- scores and probabilities -----------------------------------------------------------------

// The positive constant by which the whole score is multiplied last, possibly below masks; it is
// applied in the exponential. *scaled: that multiplication, or NULL.
static double common_factor(const Node *score, const Group *g, const Node **scaled) {
  const Node *n = score;
  for (*scaled = NULL; n->group == g && n->op->cls == OpMap && (n == score || n->uses == 1);) {
    bool last = n->op->flags & FlagMul, masks = n->op->typing == TypeWhere;
    if (last && node_is_literal(n->in[1]) && n->in[1]->attr.value > 0 &&
        isfinite(n->in[1]->attr.value)) {
      *scaled = n;
      return n->in[1]->attr.value;
    }
    int masked = !masks ? -1 : is_masked(n->in[1]) ? 1 : is_masked(n->in[2]) ? 2 : -1;
    if (masked < 0) return 1;
    n = n->in[3 - masked];
  }
  return 1;
}

// The score function, given the conditions of `holding`.
static void put_score(AttendText *t, const char *name, const Masking *holding) {
  const Attention *a = t->e->g->attention;
  Scope s = attend_scope(t);
  attend_bind_products(t, &s);
  attend_bind_conditions(t, &s, holding);
  const Node *scaled;
  common_factor(a->score, t->e->g, &scaled);
  if (scaled) expr_bind(&s, scaled, t->element, expr_value(&s, scaled->in[0], t->element));
  lua_newtable(t->e->c->lua);
  attend_put_function(t, &s, expr_value(&s, a->score, t->element));
  lua_setfield(t->e->c->lua, -2, name);
}

// Applies a step (such as dropout or the division by the row sum) to `value`.
static const char *weighed(Scope *s, const Weighing *w, const Index *at, const char *value) {
  expr_bind(s, w->node->in[w->heavy], at, value);
  return expr_value(s, w->node, at);
}

// The elementwise steps from `first` down to `end`, as a function; nothing if there are none.
static void put_steps(AttendText *t, const char *name, int first, int end) {
  const Attention *a = t->e->g->attention;
  Scope s = attend_scope(t);
  const char *value = "power";
  int count = 0;
  for (int i = first; i >= end; i--) {
    if (!attend_is_elementwise(a, &a->step[i])) continue;
    value = weighed(&s, &a->step[i], t->element, value);
    count++;
  }
  if (!count) {
    scope_free(&s);
    return;
  }
  lua_newtable(t->e->c->lua);
  attend_put_function(t, &s, value);
  lua_setfield(t->e->c->lua, -2, name);
}

// Functions of the exponential: the term added to the row sum, and the factor of the values.
static void put_weight(AttendText *t) {
  const Attention *a = t->e->g->attention;
  int last = a->nsteps - 1;
  put_steps(t, "counted", last, a->nsteps - a->counted);
  put_steps(t, "weighing", last - a->counted, 0);
}

// ---- row statistics ---------------------------------------------------------------------------

// Binds the row reductions: the maximum and the sum of exp(score - maximum).
static void bind_rows(AttendText *t, Scope *s, const Index *at, const char *scale) {
  const Group *g = t->e->g;
  Arena *arena = t->e->c->arena;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (n->op->cls != OpReduce || n->tail == kLoadTail) continue;
    const char *text = "state.most";
    if (n->op->flags & FlagOnline)
      text = arena_printf(arena, "(%s)", monoid_result(arena, n, "state"));
    else if (!(n->op->flags & FlagMax))
      text = arena_printf(arena, "(state.sum * %s)", scale);
    expr_bind(s, n, at, text);
  }
}

// Stores row statistics that leave the kernel.
static void put_row_outputs(AttendText *t, Scope *s, const Index *at) {
  const Group *g = t->e->g;
  for (int i = 0; i < g->noutputs; i++) {
    Node *n = g->outputs[i];
    if (n->tail != kRowTail) continue;
    Index of[MaxRank];
    expr_broadcast(&t->e->g->attention->score->type, &n->type, at, of);
    const char *value = expr_value(s, n, of);
    Buffer none = {0};
    buffer_put(&s->body, "    if (first && at < kM) {\n");
    expr_store(s, &none, n, of, value);
    buffer_put(&s->body, "    }\n");
    buffer_free(&none);
  }
}

// Do both compute the same? Conditions are copied for each reader (remat.c).
static bool is_alike(Arena *arena, const Node *a, const Node *b) {
  size_t size, other;
  if (a == b) return true;
  if (node_has_memory(a) || a->op != b->op || a->nin != b->nin) return false;
  const void *key = simp_key(arena, a, a->in, &size), *of_b = simp_key(arena, b, a->in, &other);
  if (size != other || memcmp(key, of_b, size)) return false;
  for (int i = 0; i < a->nin; i++)
    if (!is_alike(arena, a->in[i], b->in[i])) return false;
  return true;
}

// Does this step repeat a mask of the scores, so that masked elements are already 0?
static bool masks_again(Arena *arena, const Attention *a, const Weighing *w) {
  if (w->node->op->typing != TypeWhere || w->heavy != 1) return false;
  for (const Node *n = a->score; n->op->cls == OpMap && n->op->typing == TypeWhere; n = n->in[1])
    if (is_masked(n->in[2]) && is_alike(arena, n->in[0], w->node->in[0])) return true;
  return false;
}

static void put_row(AttendText *t) {
  Emitter *e = t->e;
  const Attention *a = e->g->attention;
  Scope s = attend_scope(t);
  Index at[MaxRank];
  memcpy(at, t->element, sizeof at);
  at[a->key] = (Index){"0", false};
  const char *shift = "0.f";
  bind_rows(t, &s, at, "1.f");
  if (a->shift) {
    Index of[MaxRank];
    expr_broadcast(&a->score->type, &a->shift->type, at, of);
    shift = expr_value(&s, a->shift, of);
  }
  // between exp(score - maximum) and exp(score - shift)
  const char *value = expr_name(e->g, "factor");
  buffer_put(&s.body, "    const float %s = nn_exp(state.most - %s);\n", value, shift);
  bind_rows(t, &s, at, value);
  for (int i = a->nsteps - 1; i >= 0; i--) {
    const Weighing *w = &a->step[i];
    bool converts = w->node->op->flags & FlagCopy || w->node->op->typing == TypeConvert;
    if (!converts && !attend_is_elementwise(a, w)) value = weighed(&s, w, at, value);
  }
  put_row_outputs(t, &s, at);
  for (int i = 0; i < a->nsteps; i++)
    if (masks_again(e->c->arena, a, &a->step[i])) { // avoids NaN in rows without keys
      value = arena_printf(e->c->arena, "(state.sum == 0.f ? 0.f : %s)", value);
      break;
    }
  lua_newtable(e->c->lua);
  attend_put_function(t, &s, value);
  lua_setfield(e->c->lua, -2, "row");
}

void emit_attend(Emitter *e) {
  AttendText t;
  attend_open(&t, e);
  attend_put_shape(&t);
  attend_put_rows(&t);
  const Node *scaled;
  double scale = common_factor(e->g->attention->score, e->g, &scaled);
  hole_text(e, "scale", expr_literal(e->c->arena, scale, DtF32));
  hole_int(e, "depth", t.a.depth[0]);
  Masking masking = attend_masking(e->g, &t.a);
  hole_text(e, "product", t.product[0]);
  put_score(&t, "score", &(Masking){0});
  if (masking.count) attend_put_masking(&t, &masking), put_score(&t, "plain", &masking);
  put_weight(&t);
  put_row(&t);
  tails_put(&t.values);
}
