// attend_seek.c: finds candidates for attention: a contraction whose left operand is an exponential
// of a map of another contraction, times per-row or per-element factors. fuse/attend.c decides
// which of the nodes between join the kernel, and whether it is attention.
#include "pass.h"

#include <string.h>

bool attend_refuse(AttendSeek *s, const char *why) {
  s->refused = why;
  return false;
}

Node *attend_uncopied(Node *n) {
  while (n->op->cls == OpMap && n->op->flags & FlagCopy) n = n->in[0];
  return n;
}

bool attend_includes(const AttendSeek *s, const Node *n) {
  for (int i = 0; i < s->count; i++)
    if (s->node[i] == n) return true;
  return false;
}

bool attend_include(AttendSeek *s, Node *n) {
  if (attend_includes(s, n)) return true;
  if (s->count == kMostNodes)
    return attend_refuse(s, "it would exceed the node limit of a kernel");
  s->node[s->count++] = n;
  return true;
}

bool attend_is_row(const Attention *a, const Node *n) {
  const Type *t = &a->score->type;
  int key = a->key - (t->rank - n->type.rank);
  if (n->type.rank > t->rank || (key >= 0 && n->type.dim[key] > 1)) return false;
  for (int d = 0; d < n->type.rank; d++) {
    int64_t size = t->dim[d + t->rank - n->type.rank];
    if (n->type.dim[d] != 1 && n->type.dim[d] != size) return false;
  }
  return true;
}

bool attend_is_elementwise(const Attention *a, const Weighing *w) {
  for (int i = 0; i < w->node->nin; i++)
    if (i != w->heavy && !node_is_literal(w->node->in[i]) && !attend_is_row(a, w->node->in[i]))
      return true;
  return false;
}

bool attend_is_plain(const Maps *m) {
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < m->rank[t]; d++) {
      int axes = 0;
      for (int i = 0; i < m->naxes; i++) axes += m->dim[t][d].by[i] != 0 && m->axis[i].size > 1;
      if (axes > 1 || m->dim[t][d].begin) return false;
    }
  return true;
}

int attend_dim(const Maps *m, int tensor, AxisRole role) {
  int found = -1;
  for (int d = 0; d < m->rank[tensor]; d++)
    if (maps_uses(&m->dim[tensor][d], m, role)) found = found == -1 ? d : -2;
  return found < 0 ? -1 : found;
}

// ---- from the probabilities to the exponential --------------------------------------------------

static bool is_zero(const Node *n) {
  return node_is_literal(n) && n->attr.value == 0;
}

// May the exponential be in input i of n, one of the factors applied to it?
static bool is_heavy(const Node *n, int i) {
  if (n->op->typing == TypeWhere) return i > 0 && is_zero(n->in[3 - i]);
  if (n->op->flags & FlagMul) return true;
  bool converts = n->op->typing == TypeConvert && dtype_is_float((Dtype)n->attr.dtype);
  return i == 0 && (converts || n->op->flags & (FlagCopy | FlagDiv));
}

// Searches the exponential upwards from n; notes the steps to it, n's first.
static bool find_power(AttendSeek *s, Node *n, int steps) {
  if (n->op->cls != OpMap || steps == kMostWeighings ||
      !type_same_shape(&n->type, &s->last->in[0]->type))
    return false;
  if (n->op->flags & FlagExp) {
    s->a.power = n;
    s->a.nsteps = steps;
    return true;
  }
  for (int i = 0; i < n->nin; i++) {
    if (!is_heavy(n, i) || !find_power(s, n->in[i], steps + 1)) continue;
    s->a.step[steps] = (Weighing){n, i};
    return true;
  }
  return false;
}

// ---- from the exponential to the first contraction ----------------------------------------------

// Includes the maps of the scores' shape from which the score is computed, and finds their
// contraction.
static bool find_product(AttendSeek *s) {
  Node *seen[kMostNodes];
  int count = 0;
  seen[count++] = s->a.score;
  for (int i = 0; i < count; i++) {
    Node *n = seen[i];
    if (n->op->cls == OpContract && (!s->a.product[0] || n->id > s->a.product[0]->id))
      s->a.product[0] = n;
    for (int j = 0; n->op->cls == OpMap && j < n->nin; j++) {
      int known = 0;
      while (known < count && seen[known] != n->in[j]) known++;
      bool alike = type_same_shape(&n->in[j]->type, &s->a.score->type);
      if (known == count && alike && count < kMostNodes) seen[count++] = n->in[j];
    }
  }
  if (!s->a.product[0]) return attend_refuse(s, NULL);
  // The nodes that depend on that contraction, in the graph's order.
  for (bool news = true; news;) {
    news = false;
    for (int i = 0; i < count; i++)
      for (int j = 0; seen[i]->op->cls == OpMap && j < seen[i]->nin; j++) {
        bool on = seen[i]->in[j] == s->a.product[0] || attend_includes(s, seen[i]->in[j]);
        if (!on || attend_includes(s, seen[i])) continue;
        if (!attend_include(s, seen[i])) return false;
        news = true;
      }
  }
  return true;
}

// ---- both contractions -------------------------------------------------------------------------

// From the last contraction to the exponential, its score, and the first contraction.
bool attend_seek(AttendSeek *s) {
  if (!find_power(s, attend_uncopied(s->last->in[0]), 0)) return false;
  Node *x = attend_uncopied(s->a.power->in[0]);
  s->a.score = s->a.power->in[0];
  if (x->op->flags & FlagSub && x->in[0]->type.rank && type_same_shape(&x->in[0]->type, &x->type)) {
    s->a.score = x->in[0], s->a.shift = x->in[1];
    Maps values = maps_of(s->last, 0);
    s->a.key = attend_dim(&values, MapA, AxisK);
    if (s->a.key < 0 || !attend_is_row(&s->a, s->a.shift)) s->a.score = x, s->a.shift = NULL;
  }
  return type_same_shape(&s->a.score->type, &s->last->in[0]->type) && find_product(s);
}

const Node *attend_product(Node *last) {
  AttendSeek s = {.last = last};
  return last->op->cls == OpContract && attend_seek(&s) ? s.a.product[0] : NULL;
}

// If n's left operand is a map of known scores (attention backward), marks n as WeighsHeads and the
// other matmuls that the operand depends on as MakesScores.
static void mark_weights(const Node *n, HeadsUse *use) {
  const Node *left = n->in[0], *seen[kMostNodes] = {reshape_turns(left) ? left->in[0] : left};
  int count = 1;
  bool known = false;
  for (int i = 0; i < count; i++) {
    known = known || use[seen[i]->id] == MakesScores;
    for (int j = 0; seen[i]->op->cls == OpMap && j < seen[i]->nin; j++) {
      int at = 0;
      while (at < count && seen[at] != seen[i]->in[j]) at++;
      bool alike = type_same_shape(&seen[i]->in[j]->type, &seen[0]->type);
      if (at == count && alike && count < kMostNodes) seen[count++] = seen[i]->in[j];
    }
  }
  if (!known || seen[0]->op->cls != OpMap) return;
  use[n->id] = WeighsHeads;
  for (int i = 0; i < count; i++)
    if (reshape_batched(seen[i])) use[seen[i]->id] = MakesScores;
}

HeadsUse *attend_products(const Graph *g) {
  HeadsUse *use = arena_alloc(g->arena, sizeof *use * (size_t)(g->nnodes + 1));
  bool wanted = options_flash(&g->c->options);
  for (int i = 0; i < g->nnodes && wanted; i++) {
    const Node *product = attend_product(g->nodes[i]);
    if (product) use[i] = WeighsHeads, use[product->id] = MakesScores;
  }
  for (int i = 0; i < g->nnodes && wanted; i++)
    if (!use[i] && reshape_batched(g->nodes[i])) mark_weights(g->nodes[i], use);
  return use;
}
