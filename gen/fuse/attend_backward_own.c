// attend_backward_own.c: contractions and sums of attention backward (attend_backward.c) get
// private copies of their scores and operands' views, so that each kernel recomputes them.
#include "fuse.h"

// ---- private scores -----------------------------------------------------------------------------

enum { kMostAround = 16 }; // nodes of a broadcast expression

// By old id: fp32 versions of per-row values, their reciprocals, and what was copied for the
// current contraction.
typedef struct Copies {
  Node **wide, **reciprocal, **copy;
  const Weights *w;
  const Maps *values;
  bool scores;           // inside the softmax's argument?
  bool factors; // has the path from the root only factors? Literal factors are then dropped,
  double factor;         // and their product, by which the result is multiplied, is kept here
  bool *leaves, *rooted; // by id: do maps lead from it to a stored value? is it a W that has been
                         // tried, or computed from one?
} Copies;

static Node *copied(Graph *to, Node *n, Node **in) {
  Node *copy = remat_copy(to, n, in);
  copy->inner = true;
  copy->late = false;
  return copy;
}

// A per-row value in fp32, even if such values are stored in 16 bits; but inside the scores as it
// was for the softmax.
static Node *wide_row(Graph *to, Copies *c, Node *old) {
  bool narrow = dtype_is_float(old->type.dtype) && old->type.dtype != DtF32;
  if (c->scores || old->op->cls != OpMap || !narrow) return old->subst;
  if (c->wide[old->id]) return c->wide[old->id];
  Node *in[MaxInputs];
  for (int i = 0; i < old->nin; i++) in[i] = old->in[i]->subst;
  Node *copy = remat_copy(to, old, in);
  copy->type.dtype = DtF32;
  return c->wide[old->id] = copy;
}

static Node *reciprocal_of(Graph *to, Copies *c, Node *divisor, Node *quotient) {
  Node **known = &c->reciprocal[divisor->id];
  if (*known) return *known;
  Node *one = graph_add(to, op_need(to->c, "const"), 0, NULL, &(Attr){.value = 1}, divisor);
  one->type = type_make(DtF32, 0, NULL);
  Node *in[2] = {one, wide_row(to, c, divisor)};
  *known = graph_add(to, quotient->op, 2, in, &quotient->attr, divisor);
  (*known)->type = divisor->type;
  (*known)->type.dtype = DtF32;
  (*known)->late = false;
  (*known)->entry = quotient->entry;
  return *known;
}

// ---- private operands ---------------------------------------------------------------------------

static bool is_view(const Node *n) {
  return n->op->cls == OpMove && n->op->form <= MoveSlice && !n->fixed;
}

// Can strides address the elements of these moves?
static bool sees_memory(Node *n) {
  Group seeing = {0};
  int64_t stride[MaxRank], offset;
  for (Node *x = n; is_view(x); x = x->in[0]) x->group = &seeing;
  bool found = view_of(&seeing, n, stride, &offset);
  for (Node *x = n; is_view(x); x = x->in[0]) x->group = NULL;
  return found;
}

// The last value below n's moves that has several readers or is a concat, and so is in memory
// anyway; n itself if there is none.
static Node *shared_below(Node *n) {
  Node *found = n;
  for (Node *x = n; is_view(x); x = x->in[0]) {
    const Node *in = x->in[0];
    if (in->uses > 1 || node_is_move(in, MoveConcat)) found = x->in[0];
  }
  return found;
}

static Node *own_moves(Graph *to, Node *old, const Node *from) {
  if (old == from) return old->subst;
  Node *in = own_moves(to, old->in[0], from), *copy = remat_copy(to, old, &in);
  copy->late = true; // so that its producer does not store it moved
  return copy;
}

// A contraction reads its operands in place: moves shared with other readers are copied. `again`:
// the contraction itself is recomputed, so all its views have several readers.
static Node *own_view(Graph *to, Node *old, bool again) {
  if (!is_view(old) || !sees_memory(old)) return old->subst;
  Node *from = shared_below(old);
  while (again && from == old) from = from->in[0];
  return own_moves(to, old, from);
}

// Is n a map, or a reshape of a map, of smaller values or positions?
static bool is_spread(const Arch *arch, const Node *n, int *left) {
  bool spread = --*left > 0 && (remat_is_cheap(arch, n) || remat_is_shape(n));
  for (int i = 0; i < n->nin && spread; i++) {
    const Node *in = n->in[i];
    spread = node_is_computed(in) || !remat_is_large(in, n) || is_spread(arch, in, left);
  }
  return spread;
}

static Node *own_spread(Graph *to, Node *old) {
  Node *in[MaxInputs];
  for (int i = 0; i < old->nin; i++) {
    Node *x = old->in[i];
    in[i] = node_is_computed(x) || !remat_is_large(x, old) ? x->subst : own_spread(to, x);
  }
  return remat_copy(to, old, in);
}

// A value with which scores are combined: its reshapes are copied, so that it is read in place; if
// it is broadcast from smaller values, that is recomputed in each kernel.
static Node *own_shape(Graph *to, Node *old) {
  int left = kMostAround;
  if (remat_is_shape(old) && is_spread(to->c->options.arch, old, &left)) return own_spread(to, old);
  const Node *from = old;
  while (is_view(from) && view_same_memory(from)) from = from->in[0];
  return own_moves(to, old, from);
}

static Node *own(Graph *to, Copies *c, Node *old);

// x / c = x * (1 / c) for a per-row c: the kernel reads the reciprocal.
static Node *own_quotient(Graph *to, Copies *c, Node *old) {
  Node *in[2] = {own(to, c, old->in[0]), reciprocal_of(to, c, old->in[1], old)};
  Node *made = graph_add(to, op_need(to->c, "mul"), 2, in, NULL, old);
  made->type = old->type;
  made->inner = true;
  return made;
}

static bool multiplies(const Node *n) {
  return n->op->cls == OpMap && n->op->flags & FlagMul && n->nin == 2;
}

static bool by_number(const Node *n) {
  return multiplies(n) && node_is_literal(n->in[1]) && type_same_shape(&n->in[0]->type, &n->type) &&
         n->in[0]->type.dtype == n->type.dtype;
}

static Node *own(Graph *to, Copies *c, Node *old) {
  bool product = false, factors = c->factors;
  for (int i = 0; i < c->w->a.nproducts; i++) product = product || c->w->a.product[i] == old;
  bool map = old->op->cls == OpMap && attend_backward_is_matrix(c->w, c->values, old);
  if (!product && !map)
    return attend_backward_is_matrix(c->w, c->values, old) ? own_shape(to, old)
                                                           : wide_row(to, c, old);
  if (factors && by_number(old)) {
    c->factor *= old->in[1]->attr.value;
    return own(to, c, old->in[0]);
  }
  if (c->copy[old->id]) return c->copy[old->id];
  Node *in[MaxInputs], *divisor = map && old->op->flags & FlagDiv ? old->in[1] : NULL;
  bool of_rows = divisor && divisor->op->cls != OpSource && dtype_is_float(divisor->type.dtype) &&
                 !attend_backward_is_matrix(c->w, c->values, divisor);
  bool scores = c->scores;
  c->scores = scores || old == c->w->a.power;
  for (int i = 0; i < old->nin && !of_rows; i++) {
    c->factors = factors && multiplies(old) && old->in[i]->uses == 1;
    in[i] = product ? own_view(to, old->in[i], true) : own(to, c, old->in[i]);
  }
  c->scores = scores, c->factors = false;
  if (of_rows) return c->copy[old->id] = own_quotient(to, c, old);
  return c->copy[old->id] = copied(to, old, in);
}

static Node *own_operand(Graph *to, Copies *c, Node *n) { // including its copies and permutations
  if (n == c->w->root) return own(to, c, n);
  if (n == c->w->scaled) {
    Node *made = own_operand(to, c, n->in[0]);
    // dtype that the contraction reads
    if (!attend_backward_is_sum(c->w->last)) made->type.dtype = n->type.dtype;
    return made;
  }
  Node *in = own_operand(to, c, n->in[0]);
  return copied(to, n, &in);
}

static Node *same_node(Graph *to, Node *n, Node **in) {
  Node *made = graph_add(to, n->op, n->nin, in, &n->attr, n);
  made->type = n->type;
  return made;
}

// The new operand of the last contraction, or sum. `factors`: may literal factors be dropped from
// it?
static Node *own_root(Graph *to, Copies *c, const Weights *w, bool factors) {
  const Node *n = w->last;
  Maps values = attend_backward_is_sum(n) ? attend_backward_sum_axes(n, w->a.product[0], w->a.place)
                                          : maps_of(n, 0);
  c->w = w, c->values = &values;
  c->factors = factors, c->factor = 1;
  Node *made = own_operand(to, c, n->in[0]);
  for (int i = 0; i < w->count; i++) c->copy[w->seen[i]->id] = NULL;
  return made;
}

// A W that the model stores, such as the gradient of an unshared bias: readers of n read a copy
// that is computed from private scores. NULL if n is not such a W.
static Node *own_stored(Graph *to, Copies *c, Node *n) {
  Weights w;
  Node copy = {.op = op_need(to->c, "copy"), .nin = 1, .in = &n, .type = n->type};
  copy.fixed = n->fixed;
  for (int i = 0; i < n->nin; i++) c->rooted[n->id] |= c->rooted[n->in[i]->id];
  if (!c->leaves[n->id] || c->rooted[n->id]) return NULL;
  if (!attend_backward_seek(&w, to->c->options.arch, &copy, false) || w.root != n) return NULL;
  c->rooted[n->id] = true;
  if (!gain_scores_again(to->c->options.arch, &copy, &w.a)) return NULL;
  Node *in = own_root(to, c, &w, false), *made = graph_add(to, copy.op, 1, &in, NULL, n);
  made->type = n->type;
  made->inner = false;
  return made;
}

// n computed from a private W, then multiplied by the dropped factors.
static Node *own_weights(Graph *to, Node *n, Node **in) {
  Copies *c = to->scratch;
  Weights w;
  for (int i = 0; i < n->nin && n->op->cls == OpContract; i++)
    in[i] = own_view(to, n->in[i], false);
  const Arch *arch = to->c->options.arch;
  Node *stored = n->op->cls == OpMap ? own_stored(to, c, n) : NULL;
  if (stored) return stored;
  if (!attend_backward_seek(&w, arch, n, false)) return same_node(to, n, in);
  if (attend_backward_is_sum(n) && !gain_scores_again(arch, n, &w.a)) return same_node(to, n, in);
  in[0] = own_root(to, c, &w, true);
  Node *made = same_node(to, n, in);
  double factor = c->factor * (w.scaled ? w.scaled->in[1]->attr.value : 1);
  if (factor == 1) return made;
  Node *number = graph_add(to, op_need(to->c, "const"), 0, NULL, &(Attr){.value = factor}, n);
  number->type = type_make(DtF32, 0, NULL);
  Node *factors[2] = {made, number};
  Node *all = graph_add(to, op_need(to->c, "mul"), 2, factors, NULL, n);
  all->type = n->type;
  return all;
}

// Does n read its input in memory, because it scatters, gathers, slices or broadcasts it?
static bool reads_memory(const Node *n, const Node *in) {
  if (n->op->cls == OpScatter) return true;
  if (n->op->cls == OpMap) return type_count(&in->type) < type_count(&n->type);
  bool moves = node_is_gather(n) || (n->op->cls == OpMove && n->nin == 1);
  return moves && type_count(&in->type) != type_count(&n->type);
}

// Marks values from which maps and moves lead to outputs, to updates, and to values stored for
// other kernels.
static void find_leaves(const Graph *g, bool *leaves) {
  for (int i = 0; i < g->noutputs; i++) leaves[g->outputs[i].node->id] = true;
  for (int i = 0; i < g->nupdates; i++) leaves[g->updates[i].value->id] = true;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    bool each = leaves[i] && n->uses && (n->op->cls == OpMap || n->op->cls == OpMove);
    for (int j = 0; j < n->nin; j++) {
      bool leads = each && type_count(&n->in[j]->type) == type_count(&n->type);
      if (leads || (n->uses && reads_memory(n, n->in[j]))) leaves[n->in[j]->id] = true;
    }
  }
}

Graph *attend_backward_own(Graph *g) {
  size_t bytes = sizeof(Node *) * (size_t)(g->nnodes + 1);
  Copies c = {.wide = arena_alloc(g->arena, bytes),
              .reciprocal = arena_alloc(g->arena, bytes),
              .copy = arena_alloc(g->arena, bytes),
              .leaves = arena_alloc(g->arena, bytes),
              .rooted = arena_alloc(g->arena, bytes)};
  find_leaves(g, c.leaves);
  return graph_rebuild(g, own_weights, &c);
}
