// weigh.c: products whose left operand is a map of other products, as derivatives of attention are:
//
//   out[m, n] = sum over l of weight(m, l) v[l, n],   weight: any map of q k^T and of another such
//   product (or the same turned: rows for columns), of values of rows, of positions
//
// Weights are as many as scores, so they are never in memory: each such product has scores of its
// own (weigh_own), which its kernel computes again (weigh_find), with what the softmax of each row
// has come to, which the first kernel leaves. Sums of such weights, as the derivative of a bias
// that batches or rows share, are the same without v.
#include "pass.h"

#include <string.h>

enum { kMostAround = 16 }; // nodes of a kernel besides maps and products: the last one, its copies

typedef struct Weights {
  const Node *last; // the product, or the sum, that reads them
  Node *root;       // below its copies and permutations
  Node *scaled;     // and below its multiplication by a number; null: there is none
  Attention a;
  Node *seen[kMostNodes]; // maps of the scores' shape, from the root on, and the products
  int count, visits;      // visits: of the search for the exponential
} Weights;

// ---- what the weights are made of ---------------------------------------------------------------

// From the operand to the root: which dimension of the weights each of the root's is.
static bool find_root(Weights *w) {
  int at[MaxRank];
  Node *n = w->last->in[0];
  for (int d = 0; d < n->type.rank; d++) at[d] = d;
  for (;; n = n->in[0]) {
    bool turns = n->op->cls == OpMove && n->op->form == MovePermute && n->nin == 1;
    if (!turns && !(n->op->cls == OpMap && n->op->flags & FlagCopy)) break;
    for (int d = 0; turns && d < n->type.rank; d++) at[d] = (int)n->attr.dims[at[d]];
  }
  for (int d = 0; d < n->type.rank; d++) w->a.place[at[d]] = d;
  bool scales = n->op->cls == OpMap && n->op->flags & FlagMul && node_is_literal(n->in[1]);
  if (scales && type_same_shape(&n->in[0]->type, &n->type)) w->scaled = n, n = n->in[0];
  w->root = n;
  return n->op->cls == OpMap && dtype_is_float(n->type.dtype);
}

// A sum of the root, or a copy: then weights themselves are stored, a sum over nothing.
static bool is_sum(const Node *n) {
  bool copies = n->op->cls == OpMap && n->op->flags & FlagCopy && !n->inner;
  bool adds = n->op->cls == OpReduce && n->op->flags & FlagAdd;
  return (copies || adds) && dtype_is_float(n->type.dtype);
}

// A product in the root that has its shape.
static const Node *first_product(const Weights *w) {
  const Node *seen[kMostNodes] = {w->root};
  for (int i = 0, count = 1; i < count; i++) {
    if (seen[i]->op->cls == OpContract) return seen[i];
    for (int j = 0; seen[i]->op->cls == OpMap && j < seen[i]->nin; j++) {
      int known = 0;
      while (known < count && seen[known] != seen[i]->in[j]) known++;
      bool alike = type_same_shape(&seen[i]->in[j]->type, &w->root->type);
      if (alike && known == count && count < kMostNodes) seen[count++] = seen[i]->in[j];
    }
  }
  return NULL;
}

// Has n elements along rows and along what is summed over, as scores have?
static bool is_matrix(const Weights *w, const Maps *values, const Node *n) {
  int before = w->root->type.rank - n->type.rank;
  bool rows = false, sums = false;
  for (int d = 0; before >= 0 && d < n->type.rank; d++) {
    AxisRole role = n->type.dim[d] > 1 ? weigh_role(&w->a, values, d + before) : AxisRoles;
    rows = rows || role == AxisM, sums = sums || role == AxisK;
  }
  return rows && sums;
}

static bool see(Weights *w, Node *n) {
  for (int i = 0; i < w->count; i++)
    if (w->seen[i] == n) return true;
  if (w->count == kMostNodes - kMostAround) return false;
  w->seen[w->count++] = n;
  return true;
}

// Notes the maps and products that the root is made of. `inner`: those marked so alone.
static bool find_products(Weights *w, const Maps *values, bool inner) {
  Attention *a = &w->a;
  w->count = a->nproducts = 0;
  see(w, w->root);
  for (int i = 0; i < w->count; i++)
    for (int j = 0; w->seen[i]->op->cls == OpMap && j < w->seen[i]->nin; j++) {
      Node *in = w->seen[i]->in[j];
      bool product = in->op->cls == OpContract && type_same_shape(&in->type, &w->root->type);
      bool map = in->op->cls == OpMap && is_matrix(w, values, in);
      if ((!product && !map) || (inner && !in->inner)) continue;
      int before = w->count;
      if (!see(w, in)) return false;
      if (!product || w->count == before) continue;
      if (a->nproducts == kMostScores) return false;
      a->product[a->nproducts++] = in;
    }
  return a->nproducts > 0;
}

// Is n its input i where a condition says so, and else 0?
static bool chosen_or_zero(const Node *n, int i) {
  if (n->op->typing != TypeWhere || i == 0) return false;
  const Node *other = n->in[3 - i];
  return node_is_literal(other) && other->attr.value == 0;
}

// The exponential that makes weights 0 where its score is -inf, on the way of factors alone.
static Node *find_power(Weights *w, Node *n) {
  if (n->op->cls != OpMap || w->visits++ > kMostNodes) return NULL;
  if (n->op->flags & FlagExp) return n;
  if (n->op->flags & (FlagAdd | FlagSub) && n->nin == 2) { // both are 0 there
    Node *found = find_power(w, n->in[0]);
    return found && found == find_power(w, n->in[1]) ? found : NULL;
  }
  bool copies = n->op->flags & (FlagCopy | FlagDiv | FlagNeg) || n->op->typing == TypeConvert;
  for (int i = 0; i < n->nin; i++) {
    bool factor = n->op->flags & FlagMul || (copies && i == 0) || chosen_or_zero(n, i);
    if (!factor || !type_same_shape(&n->in[i]->type, &w->root->type)) continue;
    Node *found = find_power(w, n->in[i]);
    if (found) return found;
  }
  return NULL;
}

static bool find_score(Weights *w, const Maps *values) {
  Node *x = NULL;
  w->a.power = find_power(w, w->root);
  if (!w->a.power) return false;
  for (x = w->a.power->in[0]; x->op->cls == OpMap && x->op->flags & FlagCopy;) x = x->in[0];
  bool shifted = x->op->cls == OpMap && x->op->flags & FlagSub && !is_matrix(w, values, x->in[1]);
  w->a.score = shifted ? x->in[0] : x;
  return type_same_shape(&w->a.score->type, &w->root->type);
}

// Is a product of the weights in their score? One that is not is what they are multiplied by.
static bool in_score(const Node *n, const Node *product, int *left) {
  if (n == product) return true;
  bool found = false;
  for (int i = 0; n->op->cls == OpMap && i < n->nin && --*left > 0 && !found; i++)
    found = type_same_shape(&n->in[i]->type, &n->type) && in_score(n->in[i], product, left);
  return found;
}

// Is it attention itself, which finds its rows' softmax first: all products are in the score, and
// none is turned?
static bool is_attention(const Weights *w) {
  for (int i = 0; i < w->a.nproducts; i++) {
    int left = kMostNodes;
    if (w->a.turned[i] || !in_score(w->a.score, w->a.product[i], &left)) return false;
  }
  return true;
}

// ---- operands -----------------------------------------------------------------------------------

// Are the rows of an inner product those of the last one, or, turned, what it sums over?
static bool find_turn(Weights *w, const Maps *values, int i) {
  Maps inner = maps_of(w->a.product[i], 0);
  bool plain = false, turned = false;
  for (int d = 0; d < inner.rank[MapOut]; d++) {
    AxisRole outer = weigh_role(&w->a, values, d);
    if (inner.type[MapOut]->dim[d] == 1) continue;
    bool left = maps_uses(&inner.dim[MapOut][d], &inner, AxisM),
         right = maps_uses(&inner.dim[MapOut][d], &inner, AxisN);
    if (outer == AxisBatch) continue;
    if (left == right) return false; // it is no axis of one operand
    if (outer == AxisK) plain = plain || right, turned = turned || left;
    if (outer == AxisM) plain = plain || left, turned = turned || right;
  }
  w->a.turned[i] = turned;
  return plain != turned;
}

// Does a row of a head lie in one piece?
static bool lies_along(const Node *operand, int along) {
  int64_t stride[MaxRank];
  type_strides(&operand->type, stride);
  int64_t size = operand->type.dim[along] * (int64_t)dtype_size(operand->type.dtype);
  return stride[along] == 1 && size % 4 == 0;
}

static bool find_operands(Weights *w, const Maps *values, const Arch *arch) {
  enum { kMostDepth = 256, kLeastRows = 16, kLeastKeys = 32, kSmemLeft = 4096 };
  Attention *a = &w->a;
  bool sum = is_sum(w->last);
  int count = 0;
  int64_t bytes = 0; // of shared memory, for the smallest tile
  for (int i = 0; i < a->nproducts; i++) {
    Node *p = a->product[i];
    Maps inner = maps_of(p, 0);
    const Node *like = sum ? a->product[0] : w->last;
    if (maps_phases(p) > 1 || p->precision != like->precision || !attend_is_plain(&inner) ||
        !find_turn(w, values, i))
      return false;
    for (int j = 0; j < 2; j++) {
      int side = a->turned[i] ? 1 - j : j;
      a->along[count] = attend_dim(&inner, side ? MapB : MapA, AxisK);
      a->operand[count++] = p->in[side];
    }
  }
  if (!sum) {
    a->along[count] = attend_dim(values, MapB, AxisN);
    a->operand[count++] = w->last->in[1];
  }
  a->noperands = count;
  for (int i = 0; i < count; i++) {
    int64_t depth = a->along[i] < 0 ? 0 : a->operand[i]->type.dim[a->along[i]];
    if (a->along[i] < 0 || depth > kMostDepth || !lies_along(a->operand[i], a->along[i]))
      return false;
    int64_t size = (int64_t)dtype_size(prec_operand(a->product[0]));
    int keys = sum && size == 2 ? 4 * kLeastKeys : 2 * kLeastKeys; // and the next tile's
    int rows = sum ? 2 * kLeastRows : kLeastRows;
    bytes += depth * size * (i % 2 || i == count - 1 ? keys : rows);
  }
  return bytes <= arch->smem - kSmemLeft;
}

// Is n a product that is weighed so, or a sum?
static bool find_weights(Weights *w, const Arch *arch, const Node *n, bool inner) {
  *w = (Weights){.last = n};
  bool product = n->op->cls == OpContract && maps_phases(n) == 1;
  if ((!product && !is_sum(n)) || n->fixed || !find_root(w)) return false;
  const Node *first = product ? n : first_product(w);
  if (!first) return false;
  Maps values = product ? maps_of(n, 0) : weigh_sum_axes(n, first, w->a.place);
  if (!attend_is_plain(&values) || !find_products(w, &values, inner)) return false;
  weigh_apart(&w->a, n, &values);
  if (w->a.apart && !find_products(w, &values, inner)) return false;
  if (!find_score(w, &values) || !find_operands(w, &values, arch)) return false;
  int sums = attend_dim(&values, MapA, AxisK);
  w->a.nsteps = -1;
  w->a.key = 0;
  while (w->a.key < w->root->type.rank && w->a.place[w->a.key] != sums) w->a.key++;
  bool alike = product || (w->a.product[0] == first && w->a.nproducts > 1);
  return sums >= 0 && alike && !is_attention(w);
}

// ---- scores of its own --------------------------------------------------------------------------

// By id in the graph before: rows' values in 32 bits, and one over them; what the product at hand
// has copied.
typedef struct Copies {
  Node **wide, **reciprocal, **copy;
  const Weights *w;
  const Maps *values;
  bool scores;           // is what makes scores copied?
  bool factors;          // or, up to the root, products alone? Numbers among these are left out:
  double factor;         // what all weights are then multiplied by
  bool *leaves, *rooted; // by id: do maps lead from it to what the model stores; is it weights that
                         // have been asked about, or made of such?
} Copies;

static Node *copied(Graph *to, Node *n, Node **in) {
  Node *copy = chain_copy(to, n, in);
  copy->inner = true;
  copy->late = false;
  return copy;
}

// A value of rows, in 32 bits whatever rows of its size are stored in; but what scores are made of
// is as it was for the softmax.
static Node *wide_row(Graph *to, Copies *c, Node *old) {
  bool narrow = dtype_is_float(old->type.dtype) && old->type.dtype != DtF32;
  if (c->scores || old->op->cls != OpMap || !narrow) return old->subst;
  if (c->wide[old->id]) return c->wide[old->id];
  Node *in[MaxInputs];
  for (int i = 0; i < old->nin; i++) in[i] = old->in[i]->subst;
  Node *copy = chain_copy(to, old, in);
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

// ---- operands of its own ------------------------------------------------------------------------

static bool is_view(const Node *n) {
  return n->op->cls == OpMove && n->op->form <= MoveSlice && !n->fixed;
}

// Can strides tell where the elements of these moves are?
static bool sees_memory(Node *n) {
  Group seeing = {0};
  int64_t stride[MaxRank], offset;
  for (Node *x = n; is_view(x); x = x->in[0]) x->group = &seeing;
  bool found = view_of(&seeing, n, stride, &offset);
  for (Node *x = n; is_view(x); x = x->in[0]) x->group = NULL;
  return found;
}

// The last of the values that n sees which several read, or that joins parts: it is in memory in
// any case. n: there is none below it.
static Node *shared_below(Node *n) {
  Node *found = n;
  for (Node *x = n; is_view(x); x = x->in[0]) {
    const Node *in = x->in[0];
    if (in->uses > 1 || (in->op->cls == OpMove && in->op->form == MoveConcat)) found = x->in[0];
  }
  return found;
}

static Node *own_moves(Graph *to, Node *old, const Node *from) {
  if (old == from) return old->subst;
  Node *in = own_moves(to, old->in[0], from), *copy = chain_copy(to, old, &in);
  copy->late = true; // what makes it does not store it moved
  return copy;
}

// A product reads its operands where moves leave them that others read too: they are its own then.
// `again`: it is computed once more, so that all that it sees has several readers.
static Node *own_view(Graph *to, Node *old, bool again) {
  if (!is_view(old) || !sees_memory(old)) return old->subst;
  Node *from = shared_below(old);
  while (again && from == old) from = from->in[0];
  return own_moves(to, old, from);
}

// What scores are combined with, as another shape of what is in memory: no kernel copies it.
static Node *own_shape(Graph *to, Node *old) {
  const Node *from = old;
  while (is_view(from) && view_same_memory(from)) from = from->in[0];
  return own_moves(to, old, from);
}

static Node *own(Graph *to, Copies *c, Node *old);

// x / c = x (1 / c), where c is of rows: it is one over c that the kernel reads.
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
  bool map = old->op->cls == OpMap && is_matrix(c->w, c->values, old);
  if (!product && !map)
    return is_matrix(c->w, c->values, old) ? own_shape(to, old) : wide_row(to, c, old);
  if (factors && by_number(old)) {
    c->factor *= old->in[1]->attr.value;
    return own(to, c, old->in[0]);
  }
  if (c->copy[old->id]) return c->copy[old->id];
  Node *in[MaxInputs], *divisor = map && old->op->flags & FlagDiv ? old->in[1] : NULL;
  bool of_rows = divisor && divisor->op->cls != OpSource && dtype_is_float(divisor->type.dtype) &&
                 !is_matrix(c->w, c->values, divisor);
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

static Node *own_operand(Graph *to, Copies *c, Node *n) { // with its copies and permutations
  if (n == c->w->root) return own(to, c, n);
  if (n == c->w->scaled) {
    Node *made = own_operand(to, c, n->in[0]);
    if (!is_sum(c->w->last)) made->type.dtype = n->type.dtype; // as the product reads it
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

// What the last product, or the sum, reads instead. `factors`: may numbers be left out of it?
static Node *own_root(Graph *to, Copies *c, const Weights *w, bool factors) {
  const Node *n = w->last;
  Maps values = is_sum(n) ? weigh_sum_axes(n, w->a.product[0], w->a.place) : maps_of(n, 0);
  c->w = w, c->values = &values;
  c->factors = factors, c->factor = 1;
  Node *made = own_operand(to, c, n->in[0]);
  for (int i = 0; i < w->count; i++) c->copy[w->seen[i]->id] = NULL;
  return made;
}

// Weights that the model stores, as the derivative of a bias that nothing shares: those that read n
// read a copy, which has scores of its own. Null: n is none of these.
static Node *own_stored(Graph *to, Copies *c, Node *n) {
  Weights w;
  Node copy = {.op = op_need(to->c, "copy"), .nin = 1, .in = &n, .type = n->type};
  copy.fixed = n->fixed;
  for (int i = 0; i < n->nin; i++) c->rooted[n->id] |= c->rooted[n->in[i]->id];
  if (!c->leaves[n->id] || c->rooted[n->id]) return NULL;
  if (!find_weights(&w, to->c->options.arch, &copy, false) || w.root != n) return NULL;
  c->rooted[n->id] = true;
  if (!gain_scores_again(to->c->options.arch, &copy, &w.a)) return NULL;
  Node *in = own_root(to, c, &w, false), *made = graph_add(to, copy.op, 1, &in, NULL, n);
  made->type = n->type;
  made->inner = false;
  return made;
}

// n, with weights of its own; what all of them are multiplied by stands behind it.
static Node *own_weights(Graph *to, Node *n, Node **in) {
  Copies *c = to->scratch;
  Weights w;
  for (int i = 0; i < n->nin && n->op->cls == OpContract; i++)
    in[i] = own_view(to, n->in[i], false);
  const Arch *arch = to->c->options.arch;
  Node *stored = n->op->cls == OpMap ? own_stored(to, c, n) : NULL;
  if (stored) return stored;
  if (!find_weights(&w, arch, n, false)) return same_node(to, n, in);
  if (is_sum(n) && !gain_scores_again(arch, n, &w.a)) return same_node(to, n, in);
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

// From which values do maps and moves lead to outputs and to what is updated?
static void find_leaves(const Graph *g, bool *leaves) {
  for (int i = 0; i < g->noutputs; i++) leaves[g->outputs[i].node->id] = true;
  for (int i = 0; i < g->nupdates; i++) leaves[g->updates[i].value->id] = true;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    bool each = leaves[i] && n->uses && (n->op->cls == OpMap || n->op->cls == OpMove);
    for (int j = 0; j < n->nin && each; j++)
      if (type_count(&n->in[j]->type) == type_count(&n->type)) leaves[n->in[j]->id] = true;
  }
}

Graph *weigh_own(Graph *g) {
  size_t bytes = sizeof(Node *) * (size_t)(g->nnodes + 1);
  Copies c = {.wide = arena_alloc(g->arena, bytes),
              .reciprocal = arena_alloc(g->arena, bytes),
              .copy = arena_alloc(g->arena, bytes),
              .leaves = arena_alloc(g->arena, bytes),
              .rooted = arena_alloc(g->arena, bytes)};
  find_leaves(g, c.leaves);
  return graph_rebuild(g, own_weights, &c);
}

// ---- the group ----------------------------------------------------------------------------------

static void absorb_inner(Graph *g, Group *k, const Node *n) {
  for (int i = 0; i < n->nin; i++) {
    Node *in = n->in[i];
    if (!in->inner || in->group == k) continue;
    fuse_absorb(g, k, in->group);
    absorb_inner(g, k, in);
  }
}

static const Template *weigh_template(const Graph *g, bool sum) {
  const Template *tm = g->c->templates;
  while (tm->fusion != (sum ? &fusion_sums : &fusion_weigh)) tm++;
  return tm;
}

void weigh_find(Graph *g, Group *k) {
  Weights w;
  const Node *n = k->anchor;
  if (!n->nin || !n->in[0]->inner || !find_weights(&w, g->c->options.arch, n, true)) return;
  for (int i = 0; i < w.a.noperands; i++) {
    int64_t stride[MaxRank], offset;
    const Node *base;
    if (!attend_piece(k, &w.a, i, stride, &offset, &base)) return;
  }
  const Template *tm = k->tm;
  k->tm = weigh_template(g, is_sum(n));
  k->attention = arena_alloc(g->arena, sizeof w.a);
  *k->attention = w.a;
  Tile best;
  if (k->tm->candidates(k, g->c->options.arch, &best, 1) > 0) {
    absorb_inner(g, k, n);
    return;
  }
  k->tm = tm;
  k->attention = NULL;
}
