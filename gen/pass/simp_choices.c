// simp_choices.c: rules of simp.c about conditions that choose between two constants, as masks are
// written that are added or multiplied. What maps make of them is a choice again, so that the
// condition is seen by who asks where it holds (gen/sched/span.c).
#include "simp.h"

static bool is_choice(const Node *n) {
  return n->op->cls == OpMap && n->op->typing == TypeWhere && n->in[0]->type.dtype == DtBool;
}

static bool is_scalar(const Node *n) {
  return simp_is_const(n) && type_count(&n->type) == 1;
}

// Is n where(c, A, B) of the shape of c, A and B constants?
static bool of_constants(const Node *n) {
  return is_choice(n) && is_scalar(n->in[1]) && is_scalar(n->in[2]) && !is_scalar(n->in[0]) &&
         type_same_shape(&n->in[0]->type, &n->type);
}

// f(where(c, A, B)) = where(c, f(A), f(B)), of constants alone.
Node *choice_mapped(Graph *to, Node *n) {
  Node *chosen = NULL, *side[2];
  if (n->op->cls != OpMap || n->op->typing == TypeDraw || is_choice(n)) return NULL;
  for (int i = 0; i < n->nin; i++) {
    if (is_scalar(n->in[i])) continue;
    if (chosen || !of_constants(n->in[i])) return NULL;
    chosen = n->in[i];
  }
  if (!chosen || !type_same_shape(&chosen->type, &n->type)) return NULL;
  for (int s = 0; s < 2; s++) {
    Node *in[MaxInputs];
    for (int i = 0; i < n->nin; i++) in[i] = n->in[i] == chosen ? chosen->in[1 + s] : n->in[i];
    side[s] = simp_make(to, n->op, n->nin, in, &n->attr, n);
    if (!simp_is_const(side[s]) || side[s]->type.dtype != n->type.dtype) return NULL;
  }
  Node *in[3] = {chosen->in[0], side[0], side[1]};
  return simp_make(to, chosen->op, 3, in, NULL, n);
}

// where(c, true, false) = c; where(c, false, true) = not c; where(not c, a, b) = where(c, b, a); and
// not not c = c.
Node *choice_plain(Graph *to, Node *n) {
  const Op *negation = op_need(to->c, "logical_not");
  Node *c = n->nin ? n->in[0] : NULL;
  bool turned = c && c->op == negation && c->in[0]->type.dtype == DtBool;
  if (turned && n->op == negation) return c->in[0];
  if (!c || !is_choice(n)) return NULL;
  bool same = type_same_shape(&c->type, &n->type);
  if (same && n->type.dtype == DtBool && is_scalar(n->in[1]) && is_scalar(n->in[2])) {
    bool yes = n->in[1]->attr.value != 0, no = n->in[2]->attr.value != 0;
    if (yes && !no) return c;
    if (no && !yes) return simp_make(to, negation, 1, &c, NULL, n);
  }
  Node *in[3] = {turned ? c->in[0] : NULL, n->in[2], n->in[1]};
  return turned ? simp_make(to, n->op, 3, in, NULL, n) : NULL;
}
