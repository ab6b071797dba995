// attend_backward.c: attention backward: contractions out = W v whose left operand is a map of
// other contractions,
//
//   out[m, n] = sum over l of W(m, l) v[l, n],   W: any map of q k^T and of another contraction of
//   the same shape (or of both transposed), of per-row values and of positions; also attention
//   without a softmax
//
// W is as large as the scores and is recomputed tile by tile: each such contraction gets a private
// copy of the scores (attend_backward_own.c), which its kernel computes (attend_backward_find) with
// the softmax statistics of each row that the forward kernel has stored. Gradients of biases that
// batches or rows share are sums of W: the same without v.
#include "fuse.h"

enum { kMostAround = 16 }; // nodes of a kernel apart from maps and inner contractions
// ---- W and the values it depends on -------------------------------------------------------------

// Finds the root below copies and permutations of the operand; place: dimension of the operand for
// each of the root's.
static bool find_root(Weights *w) {
  int at[MaxRank];
  Node *n = w->last->in[0];
  for (int d = 0; d < n->type.rank; d++) at[d] = d;
  for (;; n = n->in[0]) {
    bool turns = node_is_move(n, MovePermute) && n->nin == 1;
    if (!turns && !(n->op->cls == OpMap && n->op->flags & FlagCopy)) break;
    for (int d = 0; turns && d < n->type.rank; d++) at[d] = (int)n->attr.dims[at[d]];
  }
  for (int d = 0; d < n->type.rank; d++) w->a.place[at[d]] = d;
  bool scales = n->op->cls == OpMap && n->op->flags & FlagMul && node_is_literal(n->in[1]);
  if (scales && type_same_shape(&n->in[0]->type, &n->type)) w->scaled = n, n = n->in[0];
  w->root = n;
  return n->op->cls == OpMap && dtype_is_float(n->type.dtype);
}

bool attend_backward_is_sum(const Node *n) {
  bool copies = n->op->cls == OpMap && n->op->flags & FlagCopy && !n->inner;
  bool adds = n->op->cls == OpReduce && n->op->flags & FlagAdd;
  return (copies || adds) && dtype_is_float(n->type.dtype);
}

// A contraction of the root's shape from which maps compute the root, or NULL.
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

bool attend_backward_is_matrix(const Weights *w, const Maps *values, const Node *n) {
  int before = w->root->type.rank - n->type.rank;
  bool rows = false, sums = false;
  for (int d = 0; before >= 0 && d < n->type.rank; d++) {
    AxisRole role =
        n->type.dim[d] > 1 ? attend_backward_role(&w->a, values, d + before) : AxisRoles;
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

// Collects the maps and contractions that compute the root. `inner`: only those marked inner.
static bool find_products(Weights *w, const Maps *values, bool inner) {
  Attention *a = &w->a;
  w->count = a->nproducts = 0;
  see(w, w->root);
  for (int i = 0; i < w->count; i++)
    for (int j = 0; w->seen[i]->op->cls == OpMap && j < w->seen[i]->nin; j++) {
      Node *in = w->seen[i]->in[j];
      bool product = in->op->cls == OpContract && type_same_shape(&in->type, &w->root->type);
      bool map = in->op->cls == OpMap && attend_backward_is_matrix(w, values, in);
      if ((!product && !map) || (inner && !in->inner)) continue;
      int before = w->count;
      if (!see(w, in)) return false;
      if (!product || w->count == before) continue;
      if (a->nproducts == kMostScores) return false;
      a->product[a->nproducts++] = in;
    }
  return a->nproducts > 0;
}

// Is n = where(condition, input i, 0) or where(condition, 0, input i)?
static bool chosen_or_zero(const Node *n, int i) {
  if (n->op->typing != TypeWhere || i == 0) return false;
  const Node *other = n->in[3 - i];
  return node_is_literal(other) && other->attr.value == 0;
}

// The exponential e such that W = e * (...): W is 0 where its score is -inf.
static Node *find_power(Weights *w, Node *n) {
  if (n->op->cls != OpMap || w->visits++ > kMostNodes) return NULL;
  if (n->op->flags & FlagExp) return n;
  if (n->op->flags & (FlagAdd | FlagSub) && n->nin == 2) { // both terms are 0 there
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

// Are the products of W, and what is computed from them, read only to compute W?
static bool is_private(const Weights *w) {
  for (const Node *n = w->last->in[0]; n != w->root; n = n->in[0])
    if (n->uses != 1) return false;
  for (int i = 0; i < w->count; i++) {
    int reads = 0;
    for (int j = 0; j < w->count; j++)
      for (int k = 0; w->seen[j]->op->cls == OpMap && k < w->seen[j]->nin; k++)
        reads += w->seen[j]->in[k] == w->seen[i];
    if (w->seen[i]->uses != (i ? reads : 1)) return false;
  }
  return true;
}

// Scores that are weights without a softmax (relu(q k^T) v): is it batched attention of so many
// that storing them costs more?
static bool find_plain(Weights *w, const Maps *values, const Arch *arch, bool inner) {
  const double kStays = 1. / 8; // share of L2
  w->a.score = w->root;
  bool many = (double)type_bytes(&w->root->type) > kStays * (double)arch->l2;
  return w->last->op->cls == OpContract && maps_count(values, AxisBatch) > 1 &&
         (inner || (many && is_private(w)));
}

static bool find_score(Weights *w, const Maps *values, const Arch *arch, bool inner) {
  Node *x = NULL;
  w->a.power = find_power(w, w->root);
  if (!w->a.power) return find_plain(w, values, arch, inner);
  for (x = w->a.power->in[0]; x->op->cls == OpMap && x->op->flags & FlagCopy;) x = x->in[0];
  bool subtracts = x->op->cls == OpMap && x->op->flags & FlagSub;
  bool shifted = subtracts && !attend_backward_is_matrix(w, values, x->in[1]);
  w->a.score = shifted ? x->in[0] : x;
  return type_same_shape(&w->a.score->type, &w->root->type);
}

// Does the score depend on this contraction? Otherwise W is multiplied by it (dO v^T).
static bool in_score(const Node *n, const Node *product, int *left) {
  if (n == product) return true;
  bool found = false;
  for (int i = 0; n->op->cls == OpMap && i < n->nin && --*left > 0 && !found; i++)
    found = type_same_shape(&n->in[i]->type, &n->type) && in_score(n->in[i], product, left);
  return found;
}

// Is it the forward pass, in which all inner contractions are in the score and none is transposed?
static bool is_attention(const Weights *w) {
  if (!w->a.power) return false;
  for (int i = 0; i < w->a.nproducts; i++) {
    int left = kMostNodes;
    if (w->a.turned[i] || !in_score(w->a.score, w->a.product[i], &left)) return false;
  }
  return true;
}

// ---- operands -----------------------------------------------------------------------------------

// Are the rows of inner contraction i rows of the last one or, transposed, what it sums over?
static bool find_turn(Weights *w, const Maps *values, int i) {
  Maps inner = maps_of(w->a.product[i], 0);
  bool plain = false, turned = false;
  for (int d = 0; d < inner.rank[MapOut]; d++) {
    AxisRole outer = attend_backward_role(&w->a, values, d);
    if (inner.type[MapOut]->dim[d] == 1) continue;
    bool left = maps_uses(&inner.dim[MapOut][d], &inner, AxisM),
         right = maps_uses(&inner.dim[MapOut][d], &inner, AxisN);
    if (outer == AxisBatch) continue;
    if (left == right) return false; // it is not an axis of one operand
    if (outer == AxisK) plain = plain || right, turned = turned || left;
    if (outer == AxisM) plain = plain || left, turned = turned || right;
  }
  w->a.turned[i] = turned;
  return plain != turned;
}

// Are the elements of a head contiguous, in units of 4 bytes?
static bool lies_along(const Node *operand, int along) {
  int64_t stride[MaxRank];
  type_strides(&operand->type, stride);
  int64_t size = operand->type.dim[along] * (int64_t)dtype_size(operand->type.dtype);
  return stride[along] == 1 && size % 4 == 0;
}

static bool find_operands(Weights *w, const Maps *values, const Arch *arch) {
  enum { kMostDepth = 256, kLeastRows = 16, kLeastKeys = 32, kSmemLeft = 4096 };
  Attention *a = &w->a;
  bool sum = attend_backward_is_sum(w->last);
  int count = 0;
  int64_t bytes = 0; // shared memory for the smallest tile
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
    int keys = sum && size == 2 ? 4 * kLeastKeys : 2 * kLeastKeys; // double-buffered
    int rows = sum ? 2 * kLeastRows : kLeastRows;
    bytes += depth * size * (i % 2 || i == count - 1 ? keys : rows);
  }
  return bytes <= arch->smem - kSmemLeft;
}

bool attend_backward_seek(Weights *w, const Arch *arch, const Node *n, bool inner) {
  *w = (Weights){.last = n};
  bool product = n->op->cls == OpContract && maps_phases(n) == 1;
  if ((!product && !attend_backward_is_sum(n)) || n->fixed || !find_root(w)) return false;
  const Node *first = product ? n : first_product(w);
  if (!first) return false;
  Maps values = product ? maps_of(n, 0) : attend_backward_sum_axes(n, first, w->a.place);
  if (!attend_is_plain(&values) || !find_products(w, &values, inner)) return false;
  attend_backward_apart(&w->a, n, &values);
  if (w->a.apart && !find_products(w, &values, inner)) return false;
  if (!find_score(w, &values, arch, inner) || !find_operands(w, &values, arch)) return false;
  int sums = attend_dim(&values, MapA, AxisK);
  w->a.nsteps = -1;
  w->a.key = 0;
  while (w->a.key < w->root->type.rank && w->a.place[w->a.key] != sums) w->a.key++;
  bool alike = product || (w->a.product[0] == first && w->a.nproducts > 1);
  return sums >= 0 && alike && !is_attention(w);
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

static const Template *attend_backward_template(const Graph *g, bool sum) {
  const Template *tm = g->c->templates;
  while (tm->fusion != (sum ? &fusion_sums : &fusion_attend_backward)) tm++;
  return tm;
}

void attend_backward_find(Graph *g, Group *k) {
  Weights w;
  const Node *n = k->anchor;
  if (!n->nin || !n->in[0]->inner || !attend_backward_seek(&w, g->c->options.arch, n, true)) return;
  for (int i = 0; i < w.a.noperands; i++) {
    int64_t stride[MaxRank], offset;
    const Node *base;
    if (!attend_piece(k, &w.a, i, stride, &offset, &base)) return;
  }
  const Template *tm = k->tm;
  k->tm = attend_backward_template(g, attend_backward_is_sum(n));
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
