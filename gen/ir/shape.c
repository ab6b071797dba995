// shape.c: type inference of one node from its inputs; all shapes are static. Runs when a node is
// created, so that errors name the line of the model.
#include "ir.h"

#include <string.h>

#define shape_of(n) (type_shape(&(n)->type).s)

// NumPy broadcasting: shapes aligned at the right; sizes are equal or 1.
static void infer_map(Compiler *c, Node *n) {
  Type t = {.dtype = DtF32};
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->type.rank > t.rank) t.rank = n->in[i]->type.rank;
  for (int d = 0; d < t.rank; d++) t.dim[d] = 1;
  for (int i = 0; i < n->nin; i++) {
    const Type *in = &n->in[i]->type;
    for (int d = 0; d < in->rank; d++) {
      int64_t *to = &t.dim[t.rank - in->rank + d];
      if (in->dim[d] == 1) continue;
      if (*to != 1 && *to != in->dim[d])
        err_at(c, n->loc, "%s: shapes do not broadcast: %s and %s", n->op->name, shape_of(n->in[0]),
               shape_of(n->in[i]));
      *to = in->dim[d];
    }
  }
  if ((n->op->flags & (FlagSub | FlagNeg)) && type_operand(n, 0) == DtBool)
    err_at(c, n->loc, "%s: not defined for bools; use logical_not or logical_xor", n->op->name);
  for (int i = 0; n->op->typing == TypeWhole && i < n->nin; i++)
    if (dtype_is_float(n->in[i]->type.dtype))
      err_at(c, n->loc, "%s: expected integers, got %s %s", n->op->name,
             dtype_name(n->in[i]->type.dtype), shape_of(n->in[i]));
  n->type = type_make(type_result(n), t.rank, t.dim);
}

// Contractions, windows and reductions without an integer form require floats.
static void want_float(Compiler *c, Node *n, int i) {
  Dtype dtype = n->in[i]->type.dtype;
  if (!dtype_is_float(dtype))
    err_at(c, n->loc, "%s: expected floats, got %s %s; x:to(\"f32\") makes them", n->op->name,
           dtype_name(dtype), shape_of(n->in[i]));
}

static void infer_reduce(Compiler *c, Node *n) {
  bool whole = n->op->whole && !dtype_is_float(n->in[0]->type.dtype);
  if (!whole) want_float(c, n, 0);
  Type t = n->in[0]->type;
  if (n->attr.axes >> t.rank)
    err_at(c, n->loc, "%s: an axis exceeds the rank of %s", n->op->name, shape_of(n->in[0]));
  for (int d = 0; d < t.rank; d++)
    if (n->attr.axes >> d & 1) t.dim[d] = 1;
  Dtype gives = whole ? DtI32 : dtype_is_float(n->op->gives) ? t.dtype : n->op->gives;
  n->type = type_make(gives, t.rank, t.dim);
}

// Checks the axis of a scan, select or sort; kernels index it with an int.
static void want_axis(Compiler *c, const Node *n) {
  const Type *t = &n->in[0]->type;
  int64_t axis = n->attr.axis;
  if (axis < 0 || axis >= t->rank)
    err_at(c, n->loc, "%s: %s has no axis %lld", n->op->name, shape_of(n->in[0]),
           (long long)axis + 1);
  if (t->dim[axis] > INT32_MAX)
    err_at(c, n->loc, "%s: axis %lld of %s is longer than 2^31 - 1: reshape it to shorter rows",
           n->op->name, (long long)axis + 1, shape_of(n->in[0]));
}

static void infer_scan(Compiler *c, Node *n) {
  bool whole = n->op->whole && !dtype_is_float(n->in[0]->type.dtype);
  if (!whole) want_float(c, n, 0);
  want_axis(c, n);
  const Type *t = &n->in[0]->type;
  n->type = type_make(whole ? DtI32 : t->dtype, t->rank, t->dim);
}

// Result: indices of the `count` largest (or smallest) elements along the axis, in order.
static void infer_select(Compiler *c, Node *n) {
  Type t = n->in[0]->type;
  int64_t axis = n->attr.axis, count = n->attr.count;
  want_axis(c, n);
  if (count < 1 || count > kMostSelected)
    err_at(c, n->loc, "%s: count must be 1 to %d, got %lld", n->op->name, kMostSelected,
           (long long)count);
  if (count > t.dim[axis])
    err_at(c, n->loc, "%s: axis %lld of %s has fewer than %lld elements", n->op->name,
           (long long)axis + 1, shape_of(n->in[0]), (long long)count);
  t.dim[axis] = count;
  n->type = type_make(DtI32, t.rank, t.dim);
}

// Result: for each run of `count` elements along the axis (merge: two neighbouring runs, whose
// sorted positions are the second input), their positions in order.
static void infer_sort(Compiler *c, Node *n) {
  const Type *t = &n->in[0]->type;
  want_axis(c, n);
  if (n->attr.count < 1)
    err_at(c, n->loc, "%s: count must be at least 1, got %lld", n->op->name,
           (long long)n->attr.count);
  n->type = type_make(DtI32, t->rank, t->dim);
  if (n->nin < 2) return;
  const Type *order = &n->in[1]->type;
  if (order->dtype != DtI32 || !type_same_shape(order, t))
    err_at(c, n->loc, "%s: expected positions of the elements of %s as i32, got %s", n->op->name,
           shape_of(n->in[0]), shape_of(n->in[1]));
}

// Output size of a window of `kernel` over `size` elements along spatial dimension i.
static int64_t positions(Compiler *c, Node *n, int i, int64_t size, int64_t kernel) {
  const Attr *a = &n->attr;
  int64_t span = (kernel - 1) * a->dilation[i] + 1, padded = size + a->pad[i] + a->pad[i + 2];
  const char *what = n->op->cls == OpWindow && n->name ? n->name : n->op->name; // "max_pool2d"
  if (kernel < 1 || a->stride[i] < 1 || a->dilation[i] < 1 || a->pad[i] < 0 || a->pad[i + 2] < 0)
    err_at(c, n->loc, "%s: kernel, stride and dilation must be at least 1, pad at least 0", what);
  if (padded < span)
    err_at(c, n->loc, "%s: the window (%lld with dilation %lld) is larger than the padded input %s",
           what, (long long)kernel, (long long)a->dilation[i], shape_of(n->in[0]));
  return (padded - span) / a->stride[i] + 1;
}

static void want_rank(Compiler *c, Node *n, int i, int rank, const char *what) {
  if (n->in[i]->type.rank != rank)
    err_at(c, n->loc, "%s: expected %s, got %s", n->op->name, what, shape_of(n->in[i]));
}

static void infer_window(Compiler *c, Node *n) {
  want_float(c, n, 0);
  want_rank(c, n, 0, 4, "an input (N, C, H, W)");
  Type t = n->in[0]->type;
  for (int i = 0; i < 2; i++) t.dim[2 + i] = positions(c, n, i, t.dim[2 + i], n->attr.kernel[i]);
  n->type = type_make(t.dtype, 4, t.dim);
}

static void infer_conv(Compiler *c, Node *n) {
  want_rank(c, n, 0, 4, "an input (N, C, H, W)");
  want_rank(c, n, 1, 4, "a weight (out, in / groups, kernel height, kernel width)");
  const Type *x = &n->in[0]->type, *w = &n->in[1]->type;
  int64_t groups = n->attr.groups;
  if (groups < 1 || w->dim[0] % groups || x->dim[1] % groups)
    err_at(c, n->loc, "%s: groups = %lld does not divide the channels of input %s and weight %s",
           n->op->name, (long long)groups, shape_of(n->in[0]), shape_of(n->in[1]));
  if (x->dim[1] / groups != w->dim[1])
    err_at(c, n->loc,
           "%s: input channels differ: input %s has %lld in each of %lld groups, "
           "weight %s expects %lld",
           n->op->name, shape_of(n->in[0]), (long long)(x->dim[1] / groups), (long long)groups,
           shape_of(n->in[1]), (long long)w->dim[1]);
  int64_t dim[4] = {x->dim[0], w->dim[0]};
  for (int i = 0; i < 2; i++) dim[2 + i] = positions(c, n, i, x->dim[2 + i], w->dim[2 + i]);
  n->type = type_make(x->dtype, 4, dim);
}

static void want_groups(Compiler *c, Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  int64_t groups = n->attr.groups;
  if (groups < 1 || a->dim[1] % groups ||
      (maps_gives(n) == PartFilter ? b->dim[1] : b->dim[0]) % groups)
    err_at(c, n->loc, "%s: groups = %lld does not divide the channels of %s and %s", n->op->name,
           (long long)groups, shape_of(n->in[0]), shape_of(n->in[1]));
}

// Checks that the gradient `g` has the output size of this window on this image. If the
// result is the image, it may be larger (transposed convolution with output padding); the excess
// gets no contribution.
static void want_positions(Compiler *c, Node *n, const Type *g, const int64_t *image,
                           const int64_t *window) {
  for (int i = 0; i < 2; i++) {
    int64_t wanted = positions(c, n, i, image[i], window[i]);
    bool room = maps_gives(n) == PartImage && wanted > g->dim[2 + i];
    if (wanted != g->dim[2 + i] && !room)
      err_at(c, n->loc,
             "%s: a window of %lld x %lld on an image of %lld x %lld has %lld positions along "
             "dimension %d, %s has %lld",
             n->op->name, (long long)window[0], (long long)window[1], (long long)image[0],
             (long long)image[1], (long long)wanted, 3 + i, type_shape(g).s,
             (long long)g->dim[2 + i]);
  }
}

// Data gradient of a convolution, from the gradient of its result and the filter.
static void infer_conv_data(Compiler *c, Node *n) {
  want_rank(c, n, 0, 4, "a gradient (N, C, H, W)");
  want_rank(c, n, 1, 4, "a weight (out, in / groups, kernel height, kernel width)");
  want_groups(c, n);
  const Type *g = &n->in[0]->type, *w = &n->in[1]->type;
  if (g->dim[1] != w->dim[0])
    err_at(c, n->loc, "%s: %s has %lld channels, weight %s expects %lld", n->op->name,
           shape_of(n->in[0]), (long long)g->dim[1], shape_of(n->in[1]), (long long)w->dim[0]);
  want_positions(c, n, g, n->attr.size, &w->dim[2]);
  int64_t dim[4] = {g->dim[0], w->dim[1] * n->attr.groups, n->attr.size[0], n->attr.size[1]};
  n->type = type_make(g->dtype, 4, dim);
}

// Filter gradient, from the gradient of the result and the image.
static void infer_conv_filter(Compiler *c, Node *n) {
  want_rank(c, n, 0, 4, "a gradient (N, C, H, W)");
  want_rank(c, n, 1, 4, "an image (N, C, H, W)");
  want_groups(c, n);
  const Type *g = &n->in[0]->type, *x = &n->in[1]->type;
  if (g->dim[0] != x->dim[0])
    err_at(c, n->loc, "%s: batch sizes differ: %s and %s", n->op->name, shape_of(n->in[0]),
           shape_of(n->in[1]));
  want_positions(c, n, g, &x->dim[2], n->attr.size);
  int64_t dim[4] = {g->dim[1], x->dim[1] / n->attr.groups, n->attr.size[0], n->attr.size[1]};
  n->type = type_make(g->dtype, 4, dim);
}

static void infer_matmul(Compiler *c, Node *n) {
  const Type *a = &n->in[0]->type, *b = &n->in[1]->type;
  if (a->rank < 2 || b->rank < 2)
    err_at(c, n->loc, "matmul: expected matrices, got %s and %s", shape_of(n->in[0]),
           shape_of(n->in[1]));
  if (a->dim[a->rank - 1] != b->dim[b->rank - 2])
    err_at(c, n->loc, "matmul: inner sizes differ: %s has %lld columns, %s has %lld rows",
           shape_of(n->in[0]), (long long)a->dim[a->rank - 1], shape_of(n->in[1]),
           (long long)b->dim[b->rank - 2]);
  int rank = a->rank > b->rank ? a->rank : b->rank;
  int64_t dim[MaxRank];
  for (int d = 0; d < rank - 2; d++) {
    int da = d - (rank - a->rank), db = d - (rank - b->rank);
    int64_t na = da < 0 ? 1 : a->dim[da], nb = db < 0 ? 1 : b->dim[db];
    if (na != nb && na != 1 && nb != 1)
      err_at(c, n->loc, "matmul: batch sizes do not broadcast: %s and %s", shape_of(n->in[0]),
             shape_of(n->in[1]));
    dim[d] = na == 1 ? nb : na;
  }
  dim[rank - 2] = a->dim[a->rank - 2];
  dim[rank - 1] = b->dim[b->rank - 1];
  n->type = type_make(a->dtype, rank, dim);
}

static void infer_reshape(Compiler *c, Node *n) {
  Type t = type_make(n->in[0]->type.dtype, n->type.rank, n->attr.dims);
  if (type_count(&t) != type_count(&n->in[0]->type))
    err_at(c, n->loc, "reshape: %s has %lld elements, %s has %lld", shape_of(n->in[0]),
           (long long)type_count(&n->in[0]->type), type_shape(&t).s, (long long)type_count(&t));
  n->type = t;
}

static void infer_permute(Compiler *c, Node *n) {
  const Type *x = &n->in[0]->type;
  int64_t dim[MaxRank];
  unsigned seen = 0;
  for (int d = 0; d < x->rank; d++) {
    int64_t from = n->attr.dims[d];
    if (from < 0 || from >= x->rank || seen >> from & 1)
      err_at(c, n->loc, "permute: the dimensions of %s must each be named once",
             shape_of(n->in[0]));
    seen |= 1u << from;
    dim[d] = x->dim[from];
  }
  n->type = type_make(x->dtype, x->rank, dim);
}

static void infer_slice(Compiler *c, Node *n) {
  Type t = n->in[0]->type;
  for (int d = 0; d < t.rank; d++) {
    int64_t begin = n->attr.dims[d], end = n->attr.ends[d];
    if (begin < 0 || end > t.dim[d] || begin > end)
      err_at(c, n->loc, "slice: %lld to %lld is not inside dimension %d of %s",
             (long long)begin + 1, (long long)end, d + 1, shape_of(n->in[0]));
    t.dim[d] = end - begin;
  }
  n->type = type_make(t.dtype, t.rank, t.dim);
}

static void infer_concat(Compiler *c, Node *n) {
  Type t = n->in[0]->type;
  int64_t axis = n->attr.axis, total = 0;
  if (axis < 0 || axis >= t.rank)
    err_at(c, n->loc, "concat: %s has no axis %lld", shape_of(n->in[0]), (long long)axis + 1);
  for (int i = 0; i < n->nin; i++) {
    Type u = n->in[i]->type;
    if (u.rank == t.rank) total += u.dim[axis], u.dim[axis] = t.dim[axis];
    if (type_compute(u.dtype) != type_compute(t.dtype))
      err_at(c, n->loc, "concat: dtypes differ: %s and %s", dtype_name(t.dtype),
             dtype_name(u.dtype));
    if (!type_same_shape(&t, &u))
      err_at(c, n->loc, "concat: shapes differ apart from axis %lld: %s and %s",
             (long long)axis + 1, shape_of(n->in[0]), shape_of(n->in[i]));
  }
  t.dim[axis] = total;
  n->type = type_make(t.dtype, t.rank, t.dim);
}

// Checks the axis and the dtype of `ids`. An input without a declared range gets the size of the
// axis as its range.
static void check_ids(Compiler *c, Node *n) {
  const Type *x = &n->in[0]->type;
  Node *ids = n->in[1];
  int64_t axis = n->attr.axis;
  if (axis < 0 || axis >= x->rank)
    err_at(c, n->loc, "%s: %s has no axis %lld", n->op->name, shape_of(n->in[0]),
           (long long)axis + 1);
  if (type_compute(ids->type.dtype) != DtI32 && ids->type.dtype != DtU8)
    err_at(c, n->loc, "%s: expected integer ids, got %s %s; x:to(\"i32\") makes them", n->op->name,
           dtype_name(ids->type.dtype), shape_of(ids));
  bool input = ids->op->cls == OpSource && ids->op->form == SourceInput;
  if (input && !ids->attr.below) ids->attr.below = x->dim[axis];
}

static void infer_gather(Compiler *c, Node *n) {
  check_ids(c, n);
  const Type *x = &n->in[0]->type, *ids = &n->in[1]->type;
  int64_t dim[2 * MaxRank];
  int rank = 0;
  for (int d = 0; d < x->rank; d++) {
    if (d != n->attr.axis) dim[rank++] = x->dim[d];
    for (int e = 0; d == n->attr.axis && e < ids->rank; e++) dim[rank++] = ids->dim[e];
  }
  if (rank > MaxRank) err_at(c, n->loc, "gather: %d dimensions, at most %d", rank, MaxRank);
  n->type = type_make(x->dtype, rank, dim);
}

static void infer_along(Compiler *c, Node *n) {
  check_ids(c, n);
  const Type *x = &n->in[0]->type, *ids = &n->in[1]->type;
  for (int d = 0; d < x->rank; d++)
    if (ids->rank != x->rank || (d != n->attr.axis && ids->dim[d] != x->dim[d]))
      err_at(c, n->loc, "take_along: shapes differ apart from axis %lld: %s and %s",
             (long long)n->attr.axis + 1, shape_of(n->in[0]), shape_of(n->in[1]));
  n->type = type_make(x->dtype, ids->rank, ids->dim);
}

static void infer_pad(Compiler *c, Node *n) {
  Type t = n->in[0]->type;
  for (int d = 0; d < t.rank; d++) {
    if (n->attr.dims[d] < 0 || n->attr.ends[d] < 0)
      err_at(c, n->loc, "pad: sizes must be at least 0 (use slice to remove elements)");
    t.dim[d] += n->attr.dims[d] + n->attr.ends[d];
  }
  n->type = type_make(t.dtype, t.rank, t.dim);
}

static void infer_roll(Compiler *c, Node *n) {
  const Type *t = &n->in[0]->type;
  for (int d = 0; d < t->rank; d++) {
    int64_t by = n->attr.dims[d], most = t->dim[d] > 0 ? t->dim[d] - 1 : 0;
    if (by < 0 || by > most)
      err_at(c, n->loc, "roll: by %lld is not 0 to %lld, dimension %d of %s", (long long)by,
             (long long)most, d + 1, shape_of(n->in[0]));
  }
  n->type = type_make(t->dtype, t->rank, t->dim);
}

static void (*const move_rules[])(Compiler *, Node *) = {
    [MoveReshape] = infer_reshape, [MovePermute] = infer_permute, [MoveSlice] = infer_slice,
    [MoveConcat] = infer_concat,   [MovePad] = infer_pad,         [MoveRoll] = infer_roll,
    [MoveGather] = infer_gather,   [MoveAlong] = infer_along,
};

static void infer_contract(Compiler *c, Node *n) {
  for (int i = 0; i < 2; i++) want_float(c, n, i);
  static void (*const gives[])(Compiler *, Node *) = {
      [PartNone] = infer_matmul,
      [PartPositions] = infer_conv,
      [PartImage] = infer_conv_data,
      [PartFilter] = infer_conv_filter,
  };
  gives[maps_gives(n)](c, n);
}

// Adds rows (n, d) or (n) into `count` places given by ids (n); batched: rows (batch, n, d) or
// (batch, n), ids (batch, n).
static void infer_scatter(Compiler *c, Node *n) {
  const Type *ids = &n->in[0]->type, *rows = &n->in[1]->type;
  bool floats = dtype_is_float(rows->dtype);
  if (dtype_is_float(ids->dtype) || ids->rank < 1 || ids->rank > 2)
    err_at(c, n->loc, "%s: expected integer ids (n) or (batch, n), got %s %s", n->op->name,
           dtype_name(ids->dtype), shape_of(n->in[0]));
  size_t bytes = sizeof *ids->dim * (size_t)ids->rank;
  if (rows->rank < ids->rank || rows->rank > ids->rank + 1 || memcmp(rows->dim, ids->dim, bytes))
    err_at(c, n->loc, "%s: expected one row per id %s, got %s", n->op->name,
           shape_of(n->in[0]), shape_of(n->in[1]));
  if (n->nin > 2 && (n->in[2]->type.dtype != DtI32 || !type_same_shape(&n->in[2]->type, ids)))
    err_at(c, n->loc, "%s: expected positions that sort the ids %s as i32, got %s", n->op->name,
           shape_of(n->in[0]), shape_of(n->in[2]));
  if (n->attr.count < 1 || n->attr.count > INT32_MAX)
    err_at(c, n->loc, "%s: size must be 1 to 2^31 - 1, got %lld", n->op->name,
           (long long)n->attr.count);
  n->type = type_make(floats ? rows->dtype : DtI32, rows->rank, rows->dim);
  n->type.dim[ids->rank - 1] = n->attr.count;
}

static void infer_move(Compiler *c, Node *n) {
  move_rules[n->op->form](c, n);
}

static void (*const rules[OpClassCount])(Compiler *, Node *) = {
    // CLASS
    [OpMap] = infer_map,           [OpReduce] = infer_reduce,   [OpWindow] = infer_window,
    [OpContract] = infer_contract, [OpMove] = infer_move,       [OpScan] = infer_scan,
    [OpSelect] = infer_select,     [OpScatter] = infer_scatter, [OpSort] = infer_sort,
};

// Sources have a type from the start; it is checked as well.
static void check_size(Compiler *c, Node *n) {
  if (n->op->cls == OpSource && n->op->form == SourceIndex &&
      (n->attr.axis < 0 || n->attr.axis >= n->type.rank))
    err_at(c, n->loc, "index: %s has no axis %lld", type_shape(&n->type).s,
           (long long)n->attr.axis + 1);
  for (int d = 0; d < n->type.rank; d++)
    if (n->type.dim[d] < 0)
      err_at(c, n->loc, "%s: dimension %d of %s is negative", n->op->name, d + 1,
             type_shape(&n->type).s);
  // Computed values may be larger if they are never stored (fuse/group.c).
  check_elements(c, n, node_has_memory(n));
}

void check_elements(Compiler *c, const Node *n, bool stored) {
  const double most = stored ? 0x1p31 : 0x1p50; // indices into memory are ints
  double count = 1;
  for (int d = 0; d < n->type.rank; d++) count *= (double)n->type.dim[d];
  if (count <= most) return;
  err_at(c, n->loc, "%s: %s has %.0f elements, over 2^31: make it of several parts",
         n->op->name, type_shape(&n->type).s, count);
}

void shape_infer(Compiler *c, Node *node) {
  if (rules[node->op->cls]) rules[node->op->cls](c, node);
  check_size(c, node);
}
