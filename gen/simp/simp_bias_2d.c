// simp_bias_2d.c: rules about scores reshaped to a grid: rows or keys as two or more dimensions, as
// for 2-D biases of images and softmax over two axes. Maps and reductions of the grid are computed
// in the matmul's shape, with rows and keys as one dimension each; values that vary along only a
// part of such a dimension are expanded along the rest. attend.c matches that shape.
#include "simp.h"

#include <string.h>

enum { kMostDeep = 64 }; // nodes visited per search

bool grid_run(const Type *a, const Type *b, GridRun *r) {
  r->i = r->i_end, r->j = r->j_end;
  if (r->i >= a->rank && r->j >= b->rank) return false;
  int64_t of_a = r->i < a->rank ? a->dim[r->i_end++] : 1;
  int64_t of_b = r->j < b->rank ? b->dim[r->j_end++] : 1;
  while (of_a != of_b) {
    if (of_a < of_b)
      of_a *= a->dim[r->i_end++];
    else
      of_b *= b->dim[r->j_end++];
  }
  return true;
}

// Along the dimensions of run r of `full`, to which x broadcasts: does x vary, is it constant?
static void along_run(const Type *x, const Type *full, const GridRun *r, bool *varies,
                      bool *stays) {
  int before = full->rank - x->rank;
  *varies = *stays = false;
  for (int d = r->i; d < r->i_end; d++) {
    if (full->dim[d] == 1) continue;
    bool one = d < before || x->dim[d - before] == 1;
    *varies = *varies || !one, *stays = *stays || one;
  }
}

bool grid_seen_as(const Type *x, const Type *full, const Type *as, int64_t *dims) {
  for (GridRun r = {0}; grid_run(full, as, &r);) {
    bool varies, stays;
    along_run(x, full, &r, &varies, &stays);
    if (varies && stays) return false;
    for (int d = r.j; d < r.j_end; d++) dims[d] = varies ? as->dim[d] : 1;
  }
  return true;
}

// ---- reshaped scores ----------------------------------------------------------------------------

// The scores, in the matmul's shape, from which n is computed by maps and reshapes, if it is
// reshaped at all; else NULL.
static const Node *scores_seen(const Node *n, int *left) {
  if (--*left < 0) return NULL;
  if (node_is_move(n, MoveReshape))
    return reshape_first_scores(n->in[0]) ? n->in[0] : scores_seen(n->in[0], left);
  const Node *found = NULL;
  for (int i = 0; n->op->cls == OpMap && i < n->nin && !found; i++)
    if (type_same_shape(&n->in[i]->type, &n->type)) found = scores_seen(n->in[i], left);
  return found;
}

// The shape of the scores whose row reduction is in x, which may be reshaped, or NULL.
static const Type *shape_reduced(const Node *x) {
  int left = kMostDeep;
  const Node *reduced = turned_reduced(node_is_move(x, MoveReshape) ? x->in[0] : x, &left);
  return reduced ? &reduced->in[0]->type : NULL;
}

// Is x a reshape of scores, or of values computed from their row reductions?
static bool is_seen(const Node *x) {
  int left = kMostDeep;
  return node_is_move(x, MoveReshape) && (shape_reduced(x) || scores_seen(x, &left));
}

// ---- in the shape of the product ----------------------------------------------------------------

typedef struct Seen { // `full`, the shape at hand, is to become `as`
  Graph *to;
  const Type *full, *as;
  int left; // nodes that may still be visited
  bool failed; // a matmul cannot have the new batches
} Seen;

// The linear index of an element within run r of `as`.
static Node *index_of_run(const Seen *s, const Node *like, const GridRun *r) {
  Node *sum = NULL;
  int64_t stride = 1;
  for (int d = r->j_end - 1; d >= r->j; stride *= s->as->dim[d--]) {
    if (s->as->dim[d] == 1) continue;
    Attr attr = {.axis = d, .fixed = like->attr.fixed};
    int64_t dims[MaxRank];
    for (int i = 0; i < s->as->rank; i++) dims[i] = i == d ? s->as->dim[d] : 1;
    Node *index = graph_add(s->to, like->op, 0, NULL, &attr, (Node *)like);
    index->type = type_make(like->type.dtype, s->as->rank, dims);
    Node *term = simp_with(s->to, "mul", simp_intern(s->to, index), (double)stride);
    Node *both[2] = {sum, term};
    sum = sum ? simp_make(s->to, op_need(s->to->c, "add"), 2, both, NULL, like) : term;
  }
  return sum;
}

// An index along a dimension of `full`, computed from the linear index within its run.
static Node *index_seen(const Seen *s, Node *x) {
  int at = x->attr.axis + s->full->rank - x->type.rank;
  int64_t after = 1, before = 1;
  GridRun r = {0};
  Type scalar = type_make(x->type.dtype, 0, NULL);
  if (x->type.dim[x->attr.axis] == 1) return simp_const(s->to, 0, &scalar, x);
  while (grid_run(s->full, s->as, &r) && at >= r.i_end) {}
  for (int d = r.i; d < r.i_end; d++)
    *(d < at ? &before : &after) *= d == at ? 1 : s->full->dim[d];
  Node *sum = index_of_run(s, x, &r);
  if (sum && after > 1) sum = simp_with(s->to, "floordiv", sum, (double)after);
  return sum && before > 1 ? simp_with(s->to, "mod", sum, (double)s->full->dim[at]) : sum;
}

// Any x, expanded along a run of which it varies only along a part, then reshaped.
static Node *repeated_seen(const Seen *s, Node *x) {
  int64_t dims[MaxRank];
  Type repeated = *s->full;
  int before = s->full->rank - x->type.rank;
  for (GridRun r = {0}; grid_run(s->full, s->as, &r);) {
    bool varies, stays;
    along_run(&x->type, s->full, &r, &varies, &stays);
    for (int d = r.j; d < r.j_end; d++) dims[d] = varies ? s->as->dim[d] : 1;
    for (int d = r.i; d < r.i_end; d++)
      if (!varies || !stays) repeated.dim[d] = d < before ? 1 : x->type.dim[d - before];
  }
  if (type_count(&repeated) > type_count(&x->type)) x = scores_expanded(s->to, x, &repeated);
  return reshape_as(s->to, x, s->as->rank, dims);
}

static Node *seen(Seen *s, Node *x);

// x, of which a value of shape `full` is a reshape.
static Node *below_reshape(Seen *s, Node *x) {
  const Type *full = s->full;
  if (type_same_shape(&x->type, s->as)) return x;
  s->full = &x->type;
  Node *y = seen(s, x);
  s->full = full;
  return y;
}

// A reduction of `full` along whole runs of dimensions, in the other shape, or NULL.
static Node *reduction_seen(Seen *s, Node *x) {
  Attr attr = x->attr;
  if (!type_same_shape(&x->in[0]->type, s->full)) return NULL;
  attr.axes = 0;
  for (GridRun r = {0}; grid_run(s->full, s->as, &r);) {
    bool some = false, all = true;
    for (int d = r.i; d < r.i_end; d++) {
      bool reduced = x->attr.axes >> d & 1;
      some = some || reduced, all = all && (reduced || s->full->dim[d] == 1);
    }
    if (some && !all) return NULL;
    for (int d = r.j; d < r.j_end && some; d++)
      if (s->as->dim[d] > 1) attr.axes |= 1 << d;
  }
  Node *of = attr.axes ? seen(s, x->in[0]) : NULL;
  bool whole = of && !s->failed && of != x->in[0] && type_same_shape(&of->type, s->as);
  return whole ? simp_make(s->to, x->op, 1, &of, &attr, x) : NULL;
}

// A matmul whose leading row dimensions share its right operand: they become rows of its matrices.
// NULL if they do not match.
static Node *rows_joined(const Seen *s, const Node *x) {
  Node *left = x->in[0], *right = x->in[1];
  bool turns = reshape_turns(right);
  int64_t dims[MaxRank], depth = left->type.dim[left->type.rank - 1];
  if (turns) right = right->in[0];
  Type full = type_make(s->as->dtype, x->type.rank - 1, x->type.dim),
       as = type_make(s->as->dtype, s->as->rank - 1, s->as->dim), of = right->type;
  if (left->type.rank != x->type.rank || of.rank != x->type.rank) return NULL;
  of.dim[--of.rank - 1] = 1; // shared by all rows
  for (int d = 0; d < left->type.rank - 1; d++)
    if (left->type.dim[d] != full.dim[d]) return NULL;
  if (!grid_seen_as(&of, &full, &as, dims) || dims[as.rank - 1] != 1) return NULL;
  for (int d = 0; d < 2; d++)
    dims[as.rank - 1 + d] = right->type.dim[right->type.rank - 2 + d];
  right = reshape_as(s->to, right, as.rank + 1, dims);
  memcpy(dims, as.dim, sizeof dims);
  dims[as.rank] = depth;
  Node *in[2] = {reshape_as(s->to, left, as.rank + 1, dims), right};
  if (turns) in[1] = reshape_turned(s->to, right);
  return simp_make(s->to, x->op, 2, in, &x->attr, x);
}

// A matmul as large as the scores, with other batches or rows.
static Node *product_seen(Seen *s, Node *x) {
  if (type_same_shape(&x->type, s->as)) return x;
  if (type_count(&x->type) != type_count(s->as)) return repeated_seen(s, x);
  Type batches = type_make(s->as->dtype, s->as->rank - 2, s->as->dim);
  bool same = reshape_same_matrices(&x->type, s->as);
  Node *y = same ? reshape_with_batches(s->to, x, &batches) : rows_joined(s, x);
  bool made = y && reshape_batched(y) && type_same_shape(&y->type, s->as);
  s->failed = s->failed || !made;
  return made ? y : x;
}

// x, which broadcasts to `full`, in the other shape.
static Node *seen(Seen *s, Node *x) {
  if (!x->type.rank) return x;
  if (type_same_shape(&x->type, s->full) && is_seen(x)) return below_reshape(s, x->in[0]);
  if (x->op->cls == OpSource && x->op->form == SourceIndex) {
    Node *index = index_seen(s, x);
    return index ? index : repeated_seen(s, x);
  }
  if (x->op->cls == OpReduce) {
    Node *reduced = reduction_seen(s, x);
    if (reduced) return reduced;
  }
  if (reshape_batched(x)) return product_seen(s, x);
  if (--s->left < 0 || x->op->cls != OpMap || x->op->typing == TypeDraw)
    return repeated_seen(s, x);
  Node *in[MaxInputs];
  for (int i = 0; i < x->nin; i++) {
    in[i] = seen(s, x->in[i]);
    if (s->failed) return x;
  }
  return simp_make(s->to, x->op, x->nin, in, &x->attr, x);
}

// ---- the rules ----------------------------------------------------------------------------------

// n computed in shape `as`, then reshaped back.
static Node *made_as(Graph *to, Node *n, const Type *full, const Type *as) {
  Seen s = {to, full, as, kMostDeep, false};
  Node *y = n->op->cls == OpReduce ? reduction_seen(&s, n) : seen(&s, n);
  if (!y || s.failed || type_count(&y->type) != type_count(&n->type)) return NULL;
  return reshape_as(to, y, n->type.rank, n->type.dim);
}

// The shape of scores t, with the batch dimensions separate that are separate in `full`.
static Type batches_apart_of(const Type *t, const Type *full) {
  Type as = {.dtype = t->dtype};
  for (GridRun r = {0}; grid_run(t, full, &r);) {
    bool apart = r.i_end <= t->rank - 2 && r.j_end - r.j > r.i_end - r.i;
    int count = apart ? r.j_end - r.j : r.i_end - r.i;
    const int64_t *dims = apart ? full->dim + r.j : t->dim + r.i;
    if (as.rank + count > MaxRank) return *t;
    for (int d = 0; d < count; d++) as.dim[as.rank++] = dims[d];
  }
  return type_make(t->dtype, as.rank, as.dim);
}

// A softmax reduction of reshaped scores.
static Node *softmax_seen(Graph *to, Node *n) {
  int left = kMostDeep;
  Node *x = n->in[0];
  bool adds = n->op->flags & FlagAdd && x->op->cls == OpMap && sum_power(x);
  if (!adds && !(n->op->flags & (FlagMax | FlagOnline))) return NULL;
  if (reshape_scores(x)) return NULL;
  const Node *scores = scores_seen(x, &left);
  if (!scores) return NULL;
  Type full = x->type, as = batches_apart_of(&scores->type, &full);
  return made_as(to, n, &full, &as);
}

// A map of such a reduction.
static Node *map_seen(Graph *to, Node *n) {
  const Type *as = NULL;
  bool otherwise = false;
  for (int i = 0; i < n->nin; i++) {
    if (!as) as = shape_reduced(n->in[i]);
    otherwise = otherwise || is_seen(n->in[i]);
  }
  if (!as || !otherwise || type_count(as) != type_count(&n->type)) return NULL;
  Type full = n->type, shape = *as;
  return made_as(to, n, &full, &shape);
}

Node *grids_last(Graph *to, Node *n) {
  if (n->op->cls == OpReduce) return softmax_seen(to, n);
  return n->op->cls == OpMap && n->op->typing != TypeDraw ? map_seen(to, n) : NULL;
}
