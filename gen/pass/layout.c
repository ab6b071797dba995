// layout.c: the memory order of each value. Images are N C H W at the border, as users have them,
// and channels last inside, so that a convolution reads runs of channels. If a value must change
// dtype or order, a `copy` is inserted, which fuse makes a prologue or an epilogue if possible.
// Convolutions over few or odd channels (channels.c) and matrix-vector products (gemv.c) are
// rewritten on the way.
#include "pass.h"

#include <string.h>

const uint8_t layout_channels_last[4] = {0, 2, 3, 1};

static bool is_fused(const Graph *g) {
  return options_fused(&g->c->options);
}

static void set_order(Type *t, const uint8_t *order) {
  memcpy(t->order, order, (size_t)t->rank);
}

// Is n a reshape of a reduction's result, with one reader?
static bool is_seen_reduced(const Node *n) {
  return node_is_move(n, MoveReshape) && n->uses == 1 && n->in[0]->op->cls == OpReduce &&
         view_same_memory(n);
}

// Reshape n of the copy that its input already has in type t's dtype, or NULL.
static Node *seen_copy(Graph *to, Node *n, const Type *t) {
  if (!node_is_move(n, MoveReshape) || !view_same_memory(n)) return NULL;
  Node *x = n->in[0], *copy = x->subst;
  if (!copy || !(copy->op->flags & FlagCopy) || copy->in[0] != x || copy->type.dtype != t->dtype ||
      !type_same_order(&copy->type, &x->type) || !type_same_order(t, &n->type))
    return NULL;
  Node *view = graph_add(to, n->op, 1, &copy, &n->attr, n);
  view->type = *t;
  return view;
}

Node *layout_as(Graph *to, Node *n, Dtype dtype, const uint8_t *order) {
  Type t = n->type;
  t.dtype = dtype;
  set_order(&t, order);
  if (dtype == n->type.dtype && type_same_order(&t, &n->type)) return n;
  if (n->op->cls == OpMap && n->uses <= 1) {
    n->type = t;
    return n;
  }
  // the reduction's kernel converts the result
  if (is_seen_reduced(n) && type_same_order(&t, &n->type)) {
    Node *in = layout_as(to, n->in[0], dtype, n->in[0]->type.order);
    Node *view = graph_add(to, n->op, 1, &in, &n->attr, n);
    view->type = t;
    view->uses = n->uses;
    n->uses = 0;
    return view;
  }
  Node *copy = n->subst;
  if (copy && copy->type.dtype == dtype && type_same_order(&t, &copy->type)) return copy;
  n->subst = seen_copy(to, n, &t);
  if (n->subst) return n->subst;
  copy = n->subst = graph_add(to, op_need(to->c, "copy"), 1, &n, NULL, n);
  copy->type = t;
  return copy;
}

static bool reorders(const Node *n) {
  return n->op->cls == OpMove && (n->op->form == MoveReshape || n->op->form == MovePermute);
}

// The stride of each dimension of a reshape or permutation in its input's memory. Size-1 dimensions
// take the stride of the next dimension.
static void strides_in_place(const Node *n, int64_t *stride) {
  const Type *from = &n->in[0]->type, *to = &n->type;
  int64_t in[MaxRank], below_to = 1, below = 1;
  type_strides(from, in);
  for (int i = to->rank - 1, d = from->rank - 1; i >= 0; below_to *= to->dim[i--]) {
    while (d > 0 && below * from->dim[d] <= below_to) below *= from->dim[d--];
    if (to->dim[i] == 1) // d is -1 if the input has no dimensions
      stride[i] = i + 1 < to->rank ? stride[i + 1] : 0;
    else
      stride[i] = n->op->form == MovePermute ? in[n->attr.dims[i]] : in[d] * (below_to / below);
  }
}

// The type of a reshape or permutation, in the order of its input's memory.
static Type in_place(const Node *n) {
  Type t = n->type;
  int64_t stride[MaxRank];
  strides_in_place(n, stride);
  for (int d = 0; d < t.rank; d++) { // the largest stride first
    int at = d;
    for (; at > 0 && stride[t.order[at - 1]] < stride[d]; at--) t.order[at] = t.order[at - 1];
    t.order[at] = (uint8_t)d;
  }
  return type_same_order(&t, &n->type) ? n->type : t;
}

static bool is_innermost(const Type *t, int d) {
  int64_t stride[MaxRank];
  type_strides(t, stride);
  return d < 0 || stride[d] == 1;
}

static int last_dim(const Type *t) { // larger than 1; -1: there are no dimensions
  int d = t->rank - 1;
  while (d > 0 && t->dim[d] == 1) d--;
  return d;
}

// A moved value keeps its order, so that its producer can store it coalesced, if
// - it is a channels-last image, perhaps with pixels as one dimension,
// - its last dimension is innermost, or
// - it has more than 4 dimensions, and may yet become one of these.
// Otherwise it is row-major.
static void keep_order(Node *n) {
  static const uint8_t pixels[3] = {0, 2, 1};
  Type kept = in_place(n), image = n->type;
  bool four = n->type.rank == 4, flat = n->type.rank == 3 && n->in[0]->type.rank == 4;
  if (four || flat) set_order(&image, four ? layout_channels_last : pixels);
  if (n->type.rank > 4 || is_innermost(&kept, last_dim(&kept)) ||
      ((four || flat) && type_same_order(&kept, &image)))
    n->type = kept;
}

// A gather's result has the table's order, with the dimensions of the indices in the place of the
// axis.
static void order_of_table(Node *n) {
  const Type *table = &n->in[0]->type;
  int axis = (int)n->attr.axis, ids = n->in[1]->type.rank, at = 0;
  for (int i = 0; i < table->rank; i++) {
    int d = table->order[i];
    for (int e = 0; d == axis && e < ids; e++) n->type.order[at++] = (uint8_t)(axis + e);
    if (d != axis) n->type.order[at++] = (uint8_t)(d < axis ? d : d + ids - 1);
  }
}

// Dimension `last` innermost, the others in row-major order.
static void set_last(Type *t, int last) {
  for (int d = 0, at = 0; d < t->rank; d++)
    if (d != last) t->order[at++] = (uint8_t)d;
  t->order[t->rank - 1] = (uint8_t)last;
}

// Is it one number per channel of a picture?
static bool of_channels(const Type *t) {
  return t->rank == 4 && t->dim[1] > 1 && t->dim[2] * t->dim[3] == 1;
}

// Is n computed from smaller values and positions only? Then any order suits it.
static bool suits_any(const Node *n, const bool *any) {
  bool suits = n->op->cls == OpMap || node_is_computed(n);
  for (int i = 0; i < n->nin && suits; i++)
    suits = type_count(&n->in[i]->type) < type_count(&n->type) || any[n->in[i]->id];
  return suits;
}

// Chooses n's order from its inputs: that of the largest one of its rank, the first that prefers an
// order. any: by id of the old node's inputs, those that any order suits. CLASS
static void choose_order(Node *n, const Node *node, const bool *any) {
  Type *t = &n->type;
  if (n->op->cls == OpWindow) {
    set_order(t, layout_channels_last);
    return;
  }
  if (n->op->cls == OpContract && n->op->last[MapOut] >= 0) {
    set_last(t, n->op->last[MapOut]);
    return;
  }
  if (n->op->cls == OpSort) { // rows are written in order
    set_last(t, (int)n->attr.axis);
    return;
  }
  bool keeps = n->op->cls == OpMap || n->op->cls == OpReduce || n->op->cls == OpScan ||
               n->op->cls == OpSelect ||
               (n->op->cls == OpMove && n->op->form >= MoveSlice && n->op->form <= MoveRoll);
  // of the best input; preferred: one with an order of its own, then one that is not a move
  int64_t most = -1;
  for (int i = 0; keeps && i < n->nin; i++) {
    const Type *in = &n->in[i]->type;
    int64_t weight = 4 * type_count(in) + 2 * !any[node->in[i]->id] + !reorders(n->in[i]);
    if (in->rank != t->rank || weight <= most || simp_is_const(n->in[i])) continue;
    most = weight;
    set_order(t, in->order);
    if (of_channels(in) && !of_channels(t)) set_order(t, layout_channels_last);
  }
  if (reorders(n)) keep_order(n);
  if (node_is_move(n, MoveGather)) order_of_table(n);
}

// A move with its input's memory order: `move` itself, or a twin if it has other readers
// (Node.subst).
static Node *moved_in_place(Graph *to, Node *move) {
  Type type = in_place(move);
  if (move->uses <= 1 || type_same_order(&type, &move->type)) {
    move->type = type;
    return move;
  }
  Node *twin = move->subst;
  if (!twin || twin->op != move->op || !type_same_order(&type, &twin->type)) {
    twin = move->subst = graph_add(to, move->op, move->nin, move->in, &move->attr, move);
    twin->type = type;
    twin->uses = 0;
  }
  twin->uses++;
  return twin;
}

// The dimension of operand i along which attention copies head elements, or -1 if it copies none.
// `last`: n is the second contraction.
static int head_dim(const Node *n, int i, bool last) {
  int rank = n->in[i]->type.rank;
  if (last) return i == MapB ? rank - 1 : -1;
  return i == MapA ? rank - 1 : rank - 2;
}

// x in that order; below a permutation, the permuted value is copied, so that others can share it.
static Node *heads_as(Graph *to, Node *x, Dtype dtype, const uint8_t *order) {
  if (!node_is_move(x, MovePermute)) return layout_as(to, x, dtype, order);
  uint8_t below[MaxRank];
  for (int d = 0; d < x->type.rank; d++) below[d] = (uint8_t)x->attr.dims[order[d]];
  Node *in = layout_as(to, x->in[0], dtype, below);
  Node *moved = graph_add(to, x->op, 1, &in, &x->attr, x);
  moved->type = x->type;
  moved->type.dtype = dtype;
  set_order(&moved->type, order);
  moved->uses = 1;
  return moved;
}

// Would attention copy x, once reordered, in pieces of 4 bytes?
static bool lies_across(const Node *x, int along, Dtype dtype) {
  enum { kMostDepth = 256, kPiece = 4 };
  int64_t size = along < 0 ? 0 : x->type.dim[along];
  return size > 1 && size <= kMostDepth && size * (int64_t)dtype_size(dtype) % kPiece == 0 &&
         !is_innermost(&x->type, along);
}

// Copies heads of possible attention to an order with contiguous elements, if that costs less than
// storing scores. False if storing scores is cheaper.
static bool place_heads(Graph *to, Node *n, Dtype dtype, bool last) {
  const Arch *arch = to->c->options.arch;
  const Type *scores = last ? &n->in[0]->type : &n->type;
  int along[2];
  double seconds = arch->launch_gap; // of all copies
  for (int i = 0; i < 2; i++) {
    along[i] = head_dim(n, i, last);
    if (!lies_across(n->in[i], along[i], dtype)) along[i] = -1;
    if (along[i] >= 0) seconds += gain_of_copy(arch, &n->in[i]->type) - arch->launch_gap;
  }
  // once as scores, once as probabilities
  if (seconds > 2 * gain_of_copy(arch, scores)) return false;
  for (int i = 0; i < 2; i++) {
    if (along[i] < 0) continue;
    Type wanted = n->in[i]->type;
    for (int d = 0; d < wanted.rank; d++) wanted.order[d] = (uint8_t)d;
    set_last(&wanted, along[i]);
    n->in[i] = heads_as(to, n->in[i], dtype, wanted.order);
  }
  return true;
}

// Are trained parameters read and written only by nngen?
static bool owns_parameters(const Graph *g) {
  return g->c->options.trains && !g->c->options.embeds && is_fused(g);
}

// Is x a parameter that wgmma would read as TF32, and that can have a rounded copy?
static bool read_by_groups(const Graph *to, const Node *n, const Node *x) {
  const Node *of = reorders(x) && view_same_memory(x) ? x->in[0] : x;
  bool param = of->op->cls == OpSource && of->op->form == SourceParam;
  return param && (of->fixed || owns_parameters(to)) && n->precision == PrecTf32 &&
         to->c->options.arch->wgmma && is_fused(to);
}

static bool lies_along_k(const Maps *m, int tensor, const Type *t) {
  int d = t->rank - 1;
  while (d > 0 && t->dim[t->order[d]] == 1) d--;
  return maps_uses(&m->dim[tensor][t->order[d]], m, AxisK);
}

// Should operand x be pre-rounded to TF32 (wgmma truncates)? Only for large products.
static bool wants_rounded(const Graph *to, const Node *n, int operand, const Node *x) {
  const int64_t least = 64;
  if (!read_by_groups(to, n, x)) return false;
  Maps m = maps_of(n, 0);
  return maps_count(&m, AxisM) >= least && maps_count(&m, AxisN) >= least &&
         lies_along_k(&m, operand, &x->type);
}

// wgmma reads TF32 operands only along k. The dimension of k, if transposing the parameter costs
// less than wgmma saves, else -1.
static int turned_to_k(const Graph *to, const Node *n, int operand, const Node *x) {
  const Arch *arch = to->c->options.arch;
  if (!read_by_groups(to, n, x)) return -1;
  Maps m = maps_of(n, 0);
  double multiplies = (double)type_count(&n->type) * (double)maps_count(&m, AxisK);
  double saved = 2 * multiplies / arch->tf32 * (1 / arch->mma_share - 1);
  bool along = lies_along_k(&m, operand, &x->type);
  return along || saved < gain_of_copy(arch, &x->type) ? -1 : maps_dim(&m, operand, AxisK);
}

// A copy in x's order: sched.c has it rounded, if wgmma reads it.
static Node *rounded(Graph *to, Node *x) {
  Node *copy = x->subst;
  if (copy && copy->type.dtype == x->type.dtype && type_same_order(&copy->type, &x->type))
    return copy;
  copy = x->subst = graph_add(to, op_need(to->c, "copy"), 1, &x, NULL, x);
  copy->type = x->type;
  return copy;
}

// Gives both operands of a contraction the same dtype, with the summed dimension innermost. Those
// of a convolution may be packed first.
static void place_operands(Graph *to, Node *n, Dtype dtype) {
  int64_t groups = n->attr.groups;
  if (maps_gives(n) != PartNone) groups_pack(to, n, dtype);
  bool packed = n->attr.groups != groups; // a gradient is unpacked in only one way
  if (maps_gives(n) == PartPositions || (maps_gives(n) == PartFilter && !packed))
    channels_pack(to, n, dtype);
  for (int i = 0; i < 2; i++) {
    Node *x = n->in[i];
    int last = i == MapB && node_depthwise(n) ? 0 : n->op->last[i];
    // Operands of a matmul may have any order.
    if (last < 0 && reorders(x)) x = moved_in_place(to, x);
    if (last < 0 && i == MapB && x->fixed) last = x->type.rank - 2; // k
    if (last < 0) last = turned_to_k(to, n, i, x);
    Type wanted = x->type;
    if (last >= 0) set_last(&wanted, last);
    Node *placed = layout_as(to, x, dtype, wanted.order);
    n->in[i] = placed == x && wants_rounded(to, n, i, x) ? rounded(to, x) : placed;
  }
}

bool layout_row_major(const Type *t) {
  Type plain = type_make(t->dtype, t->rank, t->dim);
  return !memcmp(plain.order, t->order, sizeof t->order[0] * (size_t)t->rank);
}

// If a reshape of a permutation of n joins dimensions that are not adjacent in n (heads back to
// channels): gives n the order in which both are views. A contraction without other readers stores
// the permuted value itself instead.
static void order_for_reshape(Node *reshape) {
  Node *permute = reshape->in[0], *n = permute->in[0], *stored[1 + kMostConcatParts] = {n};
  bool moves = node_is_move(permute, MovePermute);
  bool concat = moves && node_is_move(n, MoveConcat) && n->nin <= kMostConcatParts;
  bool several = reshape->uses > 1 || permute->uses > 1 || (moves && n->uses > 1);
  int rank = permute->type.rank, count = 1;
  if (!moves || !(concat || (n->op->cls == OpContract && several)) || n->fixed ||
      permute->attr.dims[rank - 1] != rank - 1 || reshape->type.rank >= rank)
    return;
  for (int i = 0; concat && i < n->nin; i++) { // to be written in place
    if (n->in[i]->op->cls == OpSource) return; // its order is given
    stored[count++] = n->in[i];
  }
  for (int i = 0; i < count; i++)
    for (int d = 0; d < rank; d++) stored[i]->type.order[d] = (uint8_t)permute->attr.dims[d];
}

// Is n a permutation that keeps the last dimension, or a reshape of one?
static bool keeps_last(const Node *n) {
  if (node_is_move(n, MoveReshape)) n = n->in[0];
  int last = n->type.rank - 1;
  return node_is_move(n, MovePermute) && n->attr.dims[last] == last;
}

// If a reshape of a concat of permuted parts joins dimensions that are not adjacent in the parts:
// the concat and its parts become row-major (`plain`, by id), so that the reshape is a view; their
// producers store them so.
static void plain_for_reshape(const Node *reshape, bool *plain) {
  const Node *n = reshape->in[0];
  bool concat = node_is_move(n, MoveConcat) && n->nin <= kMostConcatParts;
  bool parts = concat && !n->fixed && reshape->type.rank < n->type.rank;
  for (int i = 0; parts && i < n->nin; i++) parts = keeps_last(n->in[i]) && n->in[i]->uses == 1;
  for (int i = 0; parts && i < n->nin; i++) plain[n->id] = plain[n->in[i]->id] = true;
}

// Trained filters, and states of their shape (moments), have the order in which contractions read
// them.
static bool suits_products(const Graph *g, const Node *n) {
  return owns_parameters(g) && n->op->cls == OpSource && n->updated && n->type.rank == 4;
}

typedef struct Layout { // by old id
  HeadsUse *use;
  bool *plain; // must be row-major
  bool *any; // result of suits_any()
} Layout;

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Layout *layout = to->scratch;
  Node *n = graph_add(to, node->op, node->nin, in, &node->attr, node);
  n->type = node->type;
  n->uses = node->uses;
  bool chosen = n->op->cls == OpSource || layout->plain[node->id] || !layout_row_major(&n->type);
  if (!chosen) choose_order(n, node, layout->any);
  if (suits_products(to, n)) set_order(&n->type, layout_channels_last);
  if (n->op->cls == OpContract) {
    Node *filter = gemv_filter(to, n);
    if (filter != n) return filter;
    HeadsUse *use = layout->use, own = use[node->id];
    if (is_fused(to)) flatten_in_place(to, n, prec_operand(n));
    place_operands(to, n, prec_operand(n));
    const Node *scores = own == WeighsHeads ? attend_product(node) : NULL;
    if (own && scores && !use[scores->id]) use[node->id] = NoHeads; // the scores are stored
    if (use[node->id] && !place_heads(to, n, prec_operand(n), own == WeighsHeads))
      use[node->id] = NoHeads;
    if (n->in[0]->id > n->id || n->in[1]->id > n->id) { // its copies came after it: add it again
      Node *moved = graph_add(to, n->op, n->nin, n->in, &n->attr, n);
      moved->type = n->type;
      moved->uses = n->uses;
      n->uses = 0;
      n = moved;
    }
    if (maps_gives(n) == PartFilter) {
      bool grouped = n->attr.groups != node->attr.groups;
      return grouped ? groups_unpack(to, n, node) : channels_unpack(to, n, node);
    }
    return use[node->id] ? n : gemv_product(to, n);
  }
  return n;
}

// Needs: dtypes. Produces Type.order of every value, and copies if dtype or order must change.
void layout_pass(Compiler *c) {
  bool fused = is_fused(c->graph);
  if (fused) c->graph = fold_norms(merge_gemms_join(split_columns_order(c->graph)));
  size_t count = (size_t)c->graph->nnodes + 1;
  Layout layout = {.plain = arena_alloc(c->graph->arena, count),
                   .any = arena_alloc(c->graph->arena, count)};
  for (int i = 0; i < c->graph->nnodes; i++)
    layout.any[i] = suits_any(c->graph->nodes[i], layout.any);
  for (int i = 0; fused && i < c->graph->nnodes; i++) {
    Node *n = c->graph->nodes[i];
    if (!node_is_move(n, MoveReshape)) continue;
    order_for_reshape(n);
    plain_for_reshape(n, layout.plain);
  }
  layout.use = attend_products(c->graph);
  Graph *g = c->graph = graph_rebuild(c->graph, rewrite, &layout);
  border_place(g);
  g = c->nentries > 1 ? graph_split(g) : g; // copies made here are still shared by entries
  if (c->nentries > 1) share_fixed(g);
  if (fused) g = gemv_norms(gemv_halves(g));
  c->graph = graph_copy(owns_parameters(g) ? weight_copies_follow(g) : g);
}
