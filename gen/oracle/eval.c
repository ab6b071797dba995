// eval.c: the reference evaluator: a graph in double on the CPU, row-major, one op at a time. It
// shares nothing with passes and templates except `ref` of the rows in ops.lua. Large contractions
// use OpenBLAS.
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- maps -------------------------------------------------------------------------------------

// Offset in `in`, which broadcasts to `out`, of the row that begins at linear index `at` of `out`.
static int64_t row_offset(const Type *out, const Type *in, int64_t at) {
  int64_t offset = 0, step = 1;
  for (int d = out->rank - 1; d >= 0; d--) {
    int64_t i = at % out->dim[d];
    int of = d - (out->rank - in->rank);
    at /= out->dim[d];
    if (of < 0) continue;
    if (in->dim[of] > 1) offset += i * step;
    step *= in->dim[of];
  }
  return offset;
}

// Converts to n's dtype: bools to 0 or 1, integers modulo 2^32 (u8: 256); explicit conversions
// truncate toward zero, or round to 16 bits.
static void to_dtype(const Node *n, double *y, int count) {
  bool converts = n->op->typing == TypeConvert;
  Dtype dtype = converts ? (Dtype)n->attr.dtype : n->type.dtype;
  for (int i = 0; i < count; i++) {
    if (dtype == DtBool) y[i] = y[i] != 0;
    if (!dtype_is_float(dtype) && !isfinite(y[i]) && !converts) y[i] = 0; // division by 0
    if (converts && (dtype == DtI32 || dtype == DtI64 || dtype == DtU8))
      y[i] = isnan(y[i]) ? 0 : fmin(fmax(trunc(y[i]), INT32_MIN), INT32_MAX);
    y[i] = eval_held(dtype, y[i]);
    if (converts && dtype == DtF16) y[i] = half_to_float(half_from_float((float)y[i]));
    if (converts && dtype == DtBf16) y[i] = bf16_to_float(bf16_from_float((float)y[i]));
  }
}

// Is input i a 0-dimensional integer tensor, wider than a byte, that n converts to u8?
static bool cut_to_bytes(const Node *n, int i) {
  const Node *from = n->in[i];
  return !from->type.rank && !node_is_number(from) && !dtype_is_float(from->type.dtype) &&
         n->op->typing != TypeConvert && type_operand(n, i) == DtU8;
}

static void eval_map(Compiler *c, Node *n, double **value) {
  const Traced *k = program_of(c, n->op);
  const Type *t = &n->type;
  int64_t count = type_count(t), row = t->rank ? t->dim[t->rank - 1] : 1;
  bool whole = n->op->typing == TypeArith && !dtype_is_float(t->dtype);
  double spread[MaxInputs][kChunk];
  for (int64_t at = 0; at < count;) {
    int64_t in_row = at % row;
    int len = (int)(row - in_row < kChunk ? row - in_row : kChunk);
    const double *in[MaxInputs];
    for (int i = 0; i < n->nin; i++) {
      const Type *u = &n->in[i]->type;
      const double *from = value[n->in[i]->id] + row_offset(t, u, at);
      bool cut = cut_to_bytes(n, i);
      bool constant = cut || (row > 1 && (!u->rank || u->dim[u->rank - 1] == 1));
      double held = cut ? eval_held(DtU8, *from) : *from;
      for (int j = 0; constant && j < len; j++) spread[i][j] = held;
      in[i] = constant ? spread[i] : from;
    }
    if (k->ok)
      eval_program(&k->program, whole, in, value[n->id] + at, len);
    else
      eval_lua(c, n->op, in, value[n->id] + at, len);
    to_dtype(n, value[n->id] + at, len);
    at += len;
  }
}

// ---- reductions and windows --------------------------------------------------------------------

// Combines two values by the traced `ref` of the reduction; all of ops.lua's can be traced.
static double combine(const Traced *k, double a, double b) {
  const double *in[2] = {&a, &b};
  double y;
  eval_program(&k->program, false, in, &y, 1);
  return y;
}

static const Traced *combiner(Compiler *c, const Op *op) {
  const Traced *k = program_of(c, op);
  if (!k->ok) die("%s: its ref cannot be traced", op->name);
  return k;
}

// Row-major index of element `at` of `in` among the reduced elements (dimensions `axes`).
static int64_t reduced_place(const Type *in, int64_t axes, int64_t at) {
  int64_t place = 0, step = 1;
  for (int d = in->rank - 1; d >= 0; d--) {
    if (axes >> d & 1) place += at % in->dim[d] * step, step *= in->dim[d];
    at /= in->dim[d];
  }
  return place;
}

// Adds the element at index `place` to the accumulators; those of integers wrap to 32 bits.
static void accumulate(const Node *n, const Traced *k, double *acc, const double *x,
                       double place) {
  const Monoid *m = n->op->acc;
  bool whole = !dtype_is_float(n->type.dtype);
  double next[kMostAccumulators];
  const double *args[kMostOperands] = {acc, x, &place};
  for (int j = 0; j < m->count; j++) args[j] = acc + j;
  args[m->count] = x, args[m->count + 1] = &place;
  for (int j = 0; j < m->count; j++) {
    eval_program(&k->step[j], whole, args, &next[j], 1);
    next[j] = eval_held(n->type.dtype, next[j]);
  }
  memcpy(acc, next, sizeof *acc * (size_t)m->count);
}

// The reduction's result from its accumulators.
static double accumulated(const Traced *k, const Monoid *m, const double *acc) {
  const double *args[kMostOperands] = {0};
  for (int j = 0; j < m->count; j++) args[j] = acc + j;
  double y = acc[0];
  if (k->result.nsteps) eval_program(&k->result, false, args, &y, 1);
  return y;
}

static void eval_reduce(Compiler *c, Node *n, double **value) {
  const Traced *k = combiner(c, n->op);
  const Monoid *m = n->op->acc;
  const Type *in = &n->in[0]->type;
  int64_t count = type_count(in), outs = type_count(&n->type);
  double *acc = base_alloc((size_t)(outs * m->count), sizeof *acc);
  for (int64_t i = 0; i < outs * m->count; i++) acc[i] = m->part[i % m->count].ref_init;
  for (int64_t i = 0; i < count; i++) {
    double *now = acc + row_offset(in, &n->type, i) * m->count;
    accumulate(n, k, now, &value[n->in[0]->id][i], (double)reduced_place(in, n->attr.axes, i));
  }
  for (int64_t i = 0; i < outs; i++) value[n->id][i] = accumulated(k, m, acc + i * m->count);
  free(acc);
}

static void eval_scan(Compiler *c, Node *n, double **value) {
  const Traced *k = combiner(c, n->op);
  const Monoid *m = n->op->acc;
  int64_t length = n->type.dim[n->attr.axis], step = 1;
  for (int d = (int)n->attr.axis + 1; d < n->type.rank; d++) step *= n->type.dim[d];
  for (int64_t row = 0; row < type_count(&n->type) / length; row++) {
    int64_t first = row / step * step * length + row % step;
    double acc[kMostAccumulators];
    for (int j = 0; j < m->count; j++) acc[j] = m->part[j].ref_init;
    for (int64_t i = 0; i < length; i++) {
      accumulate(n, k, acc, &value[n->in[0]->id][first + i * step], (double)i);
      value[n->id][first + i * step] = accumulated(k, m, acc);
    }
  }
}

static void eval_scatter(Compiler *c, Node *n, double **value) {
  const Type *of = &n->in[0]->type;
  int64_t places = n->attr.count, each = of->dim[of->rank - 1]; // ids of a batch
  int64_t width = n->type.rank > of->rank ? n->type.dim[of->rank] : 1;
  const double *ids = value[n->in[0]->id], *rows = value[n->in[1]->id];
  (void)c;
  memset(value[n->id], 0, sizeof(double) * (size_t)type_count(&n->type));
  for (int64_t i = 0; i < type_count(&n->in[0]->type); i++) {
    double *table = value[n->id] + i / each * places * width;
    bool inside = ids[i] >= 0 && ids[i] < (double)places;
    for (int64_t j = 0; inside && j < width; j++)
      table[(int64_t)ids[i] * width + j] += rows[i * width + j];
  }
  if (dtype_is_float(n->type.dtype)) return;
  for (int64_t i = 0; i < type_count(&n->type); i++) // integers wrap
    value[n->id][i] = eval_held(n->type.dtype, value[n->id][i]);
}

// Order of select and sort: NaN is the largest.
static bool is_larger(double x, double y) {
  return isnan(y) ? false : isnan(x) || x > y;
}

static bool stands_before(const Node *n, double x, double y) {
  return n->attr.smallest ? is_larger(y, x) : is_larger(x, y);
}

static void eval_select(Compiler *c, Node *n, double **value) {
  (void)c;
  int64_t length = n->in[0]->type.dim[n->attr.axis], k = n->attr.count, step = 1;
  for (int d = (int)n->attr.axis + 1; d < n->type.rank; d++) step *= n->type.dim[d];
  for (int64_t row = 0; row < type_count(&n->type) / k; row++) {
    const double *x = &value[n->in[0]->id][row / step * step * length + row % step];
    double *y = &value[n->id][row / step * step * k + row % step];
    int64_t found = 0;
    for (int64_t i = 0; i < length; i++) { // insert after those that are not smaller
      int64_t at = found;
      for (; at > 0 && stands_before(n, x[i * step], x[(int64_t)y[(at - 1) * step] * step]); at--)
        if (at < k) y[at * step] = y[(at - 1) * step];
      if (at < k) y[at * step] = (double)i;
      if (found < k) found++;
    }
  }
}

// The positions at[0..count - 1] in the order of x's elements, equal ones by position. `other` has
// as much room.
static void sort_positions(const Node *n, const double *x, int64_t step, double *at, double *other,
                           int64_t count) {
  if (count < 2) return;
  int64_t half = count / 2, a = 0, b = half;
  sort_positions(n, x, step, at, other, half);
  sort_positions(n, x, step, at + half, other, count - half);
  for (int64_t i = 0; i < count; i++) {
    double p = a < half ? at[a] : 0, q = b < count ? at[b] : 0;
    bool first = b == count;
    if (a < half && b < count) {
      double u = x[(int64_t)p * step], v = x[(int64_t)q * step];
      first = stands_before(n, u, v) || (!stands_before(n, v, u) && p < q);
    }
    other[i] = first ? at[a++] : at[b++];
  }
  memcpy(at, other, sizeof *at * (size_t)count);
}

// Positions out of range are a user error.
static void check_positions(Compiler *c, const Node *n, const Node *order, double **value,
                            int64_t length) {
  const double *at = value[order->id];
  for (int64_t i = 0; i < type_count(&order->type); i++)
    if (!(at[i] >= 0 && at[i] < (double)length))
      err_at(c, n->loc, "%s: position %.0f, at element %lld, is not 0 to %lld", n->op->name, at[i],
             (long long)i, (long long)length - 1);
}

// A merge sorts what its two runs have.
static void eval_sort(Compiler *c, Node *n, double **value) {
  int64_t length = n->in[0]->type.dim[n->attr.axis], run = n->attr.count * n->nin, step = 1;
  if (n->nin > 1) check_positions(c, n, n->in[1], value, length);
  double *row = base_alloc((size_t)length, 2 * sizeof *row), *other = row + length;
  for (int d = (int)n->attr.axis + 1; d < n->type.rank; d++) step *= n->type.dim[d];
  for (int64_t r = 0; r < type_count(&n->type) / length; r++) {
    int64_t first = r / step * step * length + r % step;
    for (int64_t i = 0; i < length; i++)
      row[i] = n->nin > 1 ? value[n->in[1]->id][first + i * step] : (double)i;
    for (int64_t i = 0; i < length; i += run)
      sort_positions(n, &value[n->in[0]->id][first], step, row + i, other,
                     length - i < run ? length - i : run);
    for (int64_t i = 0; i < length; i++) value[n->id][first + i * step] = row[i];
  }
  free(row);
}

static void eval_window(Compiler *c, Node *n, double **value) {
  const Traced *k = combiner(c, n->op);
  const Type *in = &n->in[0]->type, *out = &n->type;
  const Attr *a = &n->attr;
  int64_t H = in->dim[2], W = in->dim[3], P = out->dim[2], Q = out->dim[3];
  for (int64_t plane = 0; plane < in->dim[0] * in->dim[1]; plane++) {
    const double *x = value[n->in[0]->id] + plane * H * W;
    double *y = value[n->id] + plane * P * Q;
    for (int64_t p = 0; p < P; p++)
      for (int64_t q = 0; q < Q; q++) {
        double acc = n->op->ref_init;
        for (int64_t r = 0; r < a->kernel[0]; r++)
          for (int64_t s = 0; s < a->kernel[1]; s++) {
            int64_t h = p * a->stride[0] - a->pad[0] + r * a->dilation[0];
            int64_t w = q * a->stride[1] - a->pad[1] + s * a->dilation[1];
            if (h >= 0 && h < H && w >= 0 && w < W) acc = combine(k, acc, x[h * W + w]);
          }
        y[p * Q + q] = acc;
      }
  }
}

// ---- moves ------------------------------------------------------------------------------------

// Linear index in the source of element `at` of n, or -1 for padding.
static int64_t move_source(const Node *n, const Type *from, const int64_t *at, int64_t shift) {
  int64_t source = 0;
  for (int d = 0; d < from->rank; d++) {
    int64_t i = 0;
    if (n->op->form == MovePermute)
      for (int e = 0; e < n->type.rank; e++) i = n->attr.dims[e] == d ? at[e] : i;
    else if (n->op->form == MoveConcat)
      i = at[d] - (d == n->attr.axis ? shift : 0);
    else if (n->op->form == MoveRoll)
      i = (at[d] + from->dim[d] - n->attr.dims[d]) % from->dim[d];
    else
      i = at[d] + (n->op->form == MoveSlice ? n->attr.dims[d] : -n->attr.dims[d]);
    if (i < 0 || i >= from->dim[d]) return -1;
    source = source * from->dim[d] + i;
  }
  return source;
}

// Ids out of the table's range are a user error.
void eval_ids(Compiler *c, const Node *n, double **value) {
  const double *id = value[n->in[1]->id];
  int64_t size = n->in[0]->type.dim[n->attr.axis];
  for (int64_t i = 0; i < type_count(&n->in[1]->type); i++)
    if (!(id[i] >= 0 && id[i] < (double)size))
      err_at(c, n->loc, "%s: id %.0f, at element %lld, is not 0 to %lld",
             n->name ? n->name : n->op->name, id[i], (long long)i, (long long)size - 1);
}

// Linear index in the table of element `at` of a gather.
static int64_t gathered(const Node *n, double **value, const int64_t *at) {
  const Type *x = &n->in[0]->type, *ids = &n->in[1]->type;
  int axis = (int)n->attr.axis;
  bool rows = n->op->form == MoveGather;
  int64_t id_at = 0, source = 0;
  for (int d = 0; d < ids->rank; d++) id_at = id_at * ids->dim[d] + at[rows ? axis + d : d];
  for (int d = 0; d < x->rank; d++) {
    int64_t i = d == axis ? (int64_t)value[n->in[1]->id][id_at]
                          : at[rows && d > axis ? d + ids->rank - 1 : d];
    source = source * x->dim[d] + i;
  }
  return source;
}

static void eval_move(Compiler *c, Node *n, double **value) {
  int64_t count = type_count(&n->type);
  double *y = value[n->id];
  if (n->op->form == MoveReshape) {
    memcpy(y, value[n->in[0]->id], sizeof *y * (size_t)count);
    return;
  }
  if (n->op->form >= MoveGather) eval_ids(c, n, value);
  for (int64_t i = 0; i < count; i++) {
    int64_t at[MaxRank], rest = i, shift = 0, from = -1;
    for (int d = n->type.rank - 1; d >= 0; d--)
      at[d] = rest % n->type.dim[d], rest /= n->type.dim[d];
    if (n->op->form >= MoveGather) {
      y[i] = value[n->in[0]->id][gathered(n, value, at)];
      continue;
    }
    int j = 0;
    for (; j < n->nin && (from = move_source(n, &n->in[j]->type, at, shift)) < 0; j++)
      shift += n->in[j]->type.dim[n->attr.axis];
    y[i] = from < 0 ? 0 : value[n->in[j]->id][from];
  }
}

// ---- graphs -----------------------------------------------------------------------------------

static void (*const rules[OpClassCount])(Compiler *, Node *, double **) = {
    // CLASS
    [OpMap] = eval_map,           [OpReduce] = eval_reduce,   [OpWindow] = eval_window,
    [OpContract] = eval_contract, [OpMove] = eval_move,       [OpScan] = eval_scan,
    [OpSelect] = eval_select,     [OpScatter] = eval_scatter, [OpSort] = eval_sort,
};

static void eval_index(const Node *n, double *y) {
  int64_t below = 1, size = n->type.dim[n->attr.axis];
  for (int d = (int)n->attr.axis + 1; d < n->type.rank; d++) below *= n->type.dim[d];
  for (int64_t i = 0; i < type_count(&n->type); i++) y[i] = (double)(i / below % size);
}

// Literals are rounded to float, as in PyTorch: 1 // 0.1 is 9.
static double const_value(const Node *n) {
  return dtype_is_float(n->type.dtype) ? (float)n->attr.value : n->attr.value;
}

// Evaluates one node whose inputs have values. Constants and indices have no inputs.
void eval_node(Compiler *c, Node *n, double **value) {
  int64_t count = type_count(&n->type);
  if (!value[n->id]) value[n->id] = malloc(sizeof(double) * (size_t)count);
  if (!value[n->id]) die("out of memory");
  if (rules[n->op->cls])
    rules[n->op->cls](c, n, value);
  else if (n->op->form == SourceConst)
    for (int64_t i = 0; i < count; i++) value[n->id][i] = const_value(n);
  else
    eval_index(n, value[n->id]);
}

void eval_graph(Graph *g, double **value, EvalAfter *after, void *user) {
  graph_count_uses(g);
  int *left = calloc((size_t)g->nnodes + 1, sizeof *left); // readers not yet evaluated
  if (!left) die("out of memory");
  for (int i = 0; i < g->nnodes; i++) left[i] = g->nodes[i]->uses;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    if (!n->uses || value[i]) continue;
    eval_node(g->c, n, value);
    if (after) after(user, n, value[i]);
    for (int j = 0; j < n->nin; j++) { // free values after their last reader
      int id = n->in[j]->id;
      if (--left[id] || n->in[j]->op->cls == OpSource) continue;
      free(value[id]);
      value[id] = NULL;
    }
  }
  free(left);
}

void eval_free(Graph *g, double **value) {
  for (int i = 0; i < g->nnodes; i++) {
    free(value[i]);
    value[i] = NULL;
  }
}
