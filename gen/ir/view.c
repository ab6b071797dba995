// view.c: views: strides and offset of a moved value in the memory of its source.
#include "ir.h"

#include <string.h>

// Strides of a reshape's result from its input's strides. From the innermost dimension outwards,
// contiguous runs of input dimensions are split anew. False if strides cannot express the result.
static bool reshape_strides(const Type *to, const Type *from, const int64_t *in, int64_t *out) {
  int d = from->rank - 1, t = to->rank - 1;
  while (d >= 0 && from->dim[d] == 1) d--;
  while (d >= 0) {
    int64_t step = in[d], run = 1, cut = 1;
    do {
      run *= from->dim[d];
      for (d--; d >= 0 && from->dim[d] == 1;) d--;
    } while (d >= 0 && in[d] == step * run);
    for (; t >= 0 && (cut < run || to->dim[t] == 1); cut *= to->dim[t--])
      out[t] = to->dim[t] == 1 ? 0 : step * cut;
    if (cut != run) return false;
  }
  for (; t >= 0; t--) out[t] = 0; // of size 1
  return true;
}

static bool is_concat(const Node *n) {
  return n->op->form == MoveConcat;
}

void view_memory(const Node *n, int64_t stride[MaxRank], int64_t *first) {
  int64_t in[MaxRank];
  *first = 0;
  if (!n->parent) {
    type_strides(&n->type, stride);
    return;
  }
  view_memory(n->parent, in, first); // a parent may be a part of another concat
  if (is_concat(n->parent)) {
    *first += n->begin * in[n->parent->attr.axis];
    memcpy(stride, in, sizeof in);
  } else if (!reshape_strides(&n->type, &n->parent->type, in, stride)) {
    die("%%%d is not a part of %%%d in memory", n->id,
        n->parent->id); // checked in concat_in_place.c
  }
}

bool view_whole_part(const Node *n) {
  for (; n->parent; n = n->parent) {
    const Type *t = &n->parent->type;
    for (int d = 0; is_concat(n->parent) && t->order[d] != n->parent->attr.axis; d++)
      if (t->dim[t->order[d]] > 1) return false;
  }
  return true;
}

bool view_reorders(const Node *n) {
  return op_scatters(n->op) && n->op->form != MoveSlice;
}

bool view_same_memory(const Node *n) {
  if (!view_reorders(n) || n->op->form == MoveRoll) return false;
  const Node *x = n->in[0];
  int64_t in[MaxRank], out[MaxRank] = {0}, own[MaxRank];
  if (x->type.dtype != n->type.dtype) return false;
  type_strides(&x->type, in);
  type_strides(&n->type, own);
  for (int d = 0; d < n->type.rank && n->op->form == MovePermute; d++) out[d] = in[n->attr.dims[d]];
  if (n->op->form == MoveReshape && !reshape_strides(&n->type, &x->type, in, out)) return false;
  return !memcmp(out, own, sizeof out[0] * (size_t)n->type.rank);
}

const Node *view_of(const Group *g, const Node *n, int64_t stride[MaxRank], int64_t *offset) {
  *offset = 0;
  if (n->group != g) {
    view_memory(n, stride, offset);
    for (int d = 0; d < n->type.rank; d++)
      if (n->type.dim[d] == 1) stride[d] = 0;
    return node_is_computed(n) ? NULL : n;
  }
  if (n->op->flags & FlagCopy && n->in[0]->type.dtype == n->type.dtype)
    return view_of(g, n->in[0], stride, offset);
  if (n->op->cls != OpMove || n->op->form > MoveSlice) return NULL;
  int64_t in[MaxRank];
  const Node *base = view_of(g, n->in[0], in, offset);
  if (!base) return NULL;
  if (n->op->form == MoveReshape)
    return reshape_strides(&n->type, &n->in[0]->type, in, stride) ? base : NULL;
  for (int d = 0; d < n->type.rank; d++) {
    stride[d] = in[n->op->form == MovePermute ? n->attr.dims[d] : d];
    if (n->op->form == MoveSlice) *offset += n->attr.dims[d] * in[d];
  }
  return base;
}

// ---- neighbours, through moves -----------------------------------------------------------------

static int64_t common_divisor(int64_t a, int64_t b) {
  return b ? common_divisor(b, a % b) : a;
}

// The dimension of t whose row-major stride is `step` elements, or -1.
static int dim_of_step(const Type *t, int64_t step) {
  int64_t below = 1;
  for (int d = t->rank - 1; d >= 0; below *= t->dim[d--])
    if (below == step && t->dim[d] > 1) return d;
  return -1;
}

Lane lane_follow(Lane lane, const Node *move) {
  const Type *from = &move->in[0]->type, *to = &move->type;
  int dim = lane.dim;
  if (dim < 0) return lane;
  if (move->op->form == MovePermute)
    for (dim = 0; move->attr.dims[dim] != lane.dim;) dim++;
  if (move->op->form == MoveReshape) {
    int64_t step = 1;
    for (int d = dim + 1; d < from->rank; d++) step *= from->dim[d];
    dim = dim_of_step(to, step);
  }
  if (dim < 0) return (Lane){-1, 1};
  int64_t run = common_divisor(lane.run, to->dim[dim]);
  if (move->op->form == MoveSlice || move->op->form == MoveRoll)
    run = common_divisor(run, move->attr.dims[dim]);
  return (Lane){dim, run};
}
