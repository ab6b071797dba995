// contract.c: a contraction as GEMMs, out[m, n] = sum over k of a[m, k] * b[n, k] per batch and
// phase, and how its operands reach shared memory. The index maps (ir/maps.c) locate elements; here
// axes are put in the order in which kernels count them, and strides decide which asynchronous
// copies are possible.
#include "sched.h"
#include <stdlib.h>

enum {
  kMostCopied = 16, // bytes of an asynchronous copy
  kLeastCopied = 4,
  kMostTapBytes = 4096 // of a tap table
};

// ---- axes --------------------------------------------------------------------------------------

int64_t axis_stride(const Maps *m, int tensor, const int64_t *stride, int axis) {
  int64_t step = 0;
  for (int d = 0; d < m->rank[tensor]; d++) step += stride[d] * m->dim[tensor][d].by[axis];
  return step;
}

static void swap_axes(Maps *m, int i, int j) {
  Axis axis = m->axis[i];
  m->axis[i] = m->axis[j], m->axis[j] = axis;
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < m->rank[t]; d++) {
      int64_t *by = m->dim[t][d].by, save = by[i];
      by[i] = by[j], by[j] = save;
    }
}

// Drops axes that have size 1 in all phases.
static void drop_axes(Maps *maps, int phases) {
  for (int i = maps[0].naxes - 1; i >= 0; i--) {
    bool one = true;
    for (int p = 0; p < phases; p++) one = one && maps[p].axis[i].size == 1;
    for (int p = 0; p < phases && one; p++) swap_axes(&maps[p], i, --maps[p].naxes);
  }
}

// Sorts the axes of each role by decreasing absolute stride: of the result, for k of a.
static void order_axes(Maps *m) {
  int64_t stride[3][MaxRank];
  for (int t = 0; t < 3; t++) type_strides(m->type[t], stride[t]);
  for (int i = 1; i < m->naxes; i++)
    for (int j = i; j > 0; j--) {
      const Axis *x = &m->axis[j - 1], *y = &m->axis[j];
      int t = y->role == AxisK ? MapA : MapOut;
      int64_t before = llabs(axis_stride(m, t, stride[t], j - 1)),
              after = llabs(axis_stride(m, t, stride[t], j));
      if (x->role > y->role || (x->role == y->role && before < after)) swap_axes(m, j - 1, j);
    }
}

int axes_innermost(const Maps *m, AxisRole role) {
  int last = -1;
  for (int i = 0; i < m->naxes; i++)
    if (m->axis[i].role == role) last = i;
  return last;
}

// Number of positions on the innermost axes of a role that are equally spaced in memory.
static int64_t run_of(const Maps *m, int tensor, const int64_t *stride, AxisRole role) {
  int i = axes_innermost(m, role);
  if (i < 0) return 1;
  int64_t run = 1, step = axis_stride(m, tensor, stride, i);
  for (; i >= 0 && m->axis[i].role == role; i--) {
    if (m->axis[i].size == 1) continue;
    if (axis_stride(m, tensor, stride, i) != step * run) break;
    run *= m->axis[i].size;
  }
  return run;
}

bool axes_linear(const Maps *m, int tensor, const int64_t *stride, AxisRole role, int64_t *step) {
  int i = axes_innermost(m, role);
  *step = i < 0 ? 0 : axis_stride(m, tensor, stride, i);
  return run_of(m, tensor, stride, role) == maps_count(m, role);
}

// ---- operands ----------------------------------------------------------------------------------

// The same for an operand, limited to axes whose indices are all inside it.
static int64_t whole_run(const Maps *m, int tensor, const int64_t *stride, AxisRole role) {
  int64_t run = run_of(m, tensor, stride, role), together = 1;
  for (int i = axes_innermost(m, role); i >= 0 && m->axis[i].role == role && together < run; i--) {
    if (maps_axis_leaves(m, tensor, i)) break;
    together *= m->axis[i].size;
  }
  return together < run ? together : run;
}

// The largest piece (elements) by which runs along the axes of a role can be copied: the run, its
// begin and all other strides must be multiples of it. 0: none.
static int piece_along(const Maps *m, int tensor, const Operand *o, AxisRole role, int64_t run,
                       int size) {
  int last = axes_innermost(m, role), inside = last;
  int64_t step = last < 0 ? 0 : axis_stride(m, tensor, o->stride, last), begin = o->offset,
          whole = 1;
  int piece = step > 1 ? 1 : kMostCopied / size;
  while (inside >= 0 && m->axis[inside].role == role && whole < run)
    whole *= m->axis[inside--].size;
  for (int d = 0; d < m->rank[tensor]; d++) begin += m->dim[tensor][d].begin * o->stride[d];
  while (piece > 1 && (begin % piece || (last >= 0 && run % piece))) piece /= 2;
  if (last < 0) piece = 1;
  for (int i = 0; i < m->naxes; i++)
    while (piece > 1 && (i <= inside || i > last) && axis_stride(m, tensor, o->stride, i) % piece)
      piece /= 2;
  return piece * size >= kLeastCopied ? piece : 0;
}

// Bits of a tap mask: one per position of the only reduced axis of each dimension with indices
// outside the operand. -1 if a dimension has not exactly one such axis.
int operand_taps(const Maps *m, int tensor) {
  int bits = 0;
  for (int d = 0; d < m->rank[tensor]; d++) {
    if (!maps_leave(m, tensor, d)) continue;
    int count = 0;
    for (int i = 0; i < m->naxes; i++)
      if (m->dim[tensor][d].by[i] && m->axis[i].role == AxisK)
        bits += (int)m->axis[i].size, count++;
    if (count > 1) return -1;
    bits += !count;
  }
  return bits;
}

// Copies along k, or across it if that moves more at once.
static void choose_access(const Maps *m, int tensor, Operand *o, int size) {
  AxisRole rows = tensor == MapA ? AxisM : AxisN;
  int last = axes_innermost(m, rows), deepest = axes_innermost(m, AxisK),
      taps = operand_taps(m, tensor);
  int64_t k = deepest < 0 ? 0 : axis_stride(m, tensor, o->stride, deepest), step;
  if (taps >= 0 && taps <= kMostTaps)
    o->piece = piece_along(m, tensor, o, AxisK, whole_run(m, tensor, o->stride, AxisK), size);
  if (last < 0 || axis_stride(m, tensor, o->stride, last) != 1 || k <= 1) return;
  int piece = piece_along(m, tensor, o, rows, whole_run(m, tensor, o->stride, rows), size);
  bool chunks = piece * size == kMostCopied || axes_linear(m, tensor, o->stride, rows, &step);
  if (piece > o->piece && chunks) o->piece = piece, o->across = true;
}

// Accesses valid for all phases: the smallest piece.
static Operand operand_of(const Group *g, const Product *p, int tensor) {
  const Node *n = g->anchor->in[tensor];
  Operand o = {0}, best;
  o.base = view_of(g, n, o.stride, &o.offset);
  for (int i = 0; i < p->phases; i++)
    for (int d = 0; d < n->type.rank; d++)
      o.bounded = o.bounded || maps_leave(&p->maps[i], tensor, d);
  if (!o.base || o.base->type.dtype != prec_operand(g->anchor)) return o;
  best = o;
  for (int i = 0; i < p->phases; i++) {
    Operand now = o;
    choose_access(&p->maps[i], tensor, &now, p->size);
    bool first = i == 0 || now.piece < best.piece;
    if (i && now.across != best.across) now = o, first = true; // mixed accesses: computed
    if (first) best = now;
    if (!best.piece) break;
  }
  return best;
}

// Elements of k per entry of a's tap table: a block of k, if it lies within one tap, else the piece
// of a copy. 0: no table, or it would be too large.
static int tap_run(const Product *p) {
  int block = kRowBytes / p->size, run = 0;
  const Operand *a = &p->a;
  if (!a->piece || a->across || !p->longest) return 0;
  for (int i = 0; i < p->phases; i++) {
    int64_t step, length = whole_run(&p->maps[i], MapA, a->stride, AxisK);
    if (!a->bounded && axes_linear(&p->maps[i], MapA, a->stride, AxisK, &step)) continue;
    bool whole = length % block == 0 && a->piece * p->size == kMostCopied;
    if (!run || !whole) run = whole ? block : a->piece;
  }
  Product looked = *p;
  looked.tap_run = run;
  return tile_tap_bytes(&looked) <= kMostTapBytes ? run : 0;
}

Maps product_axes(const Node *n) {
  Maps m = maps_of(n, 0);
  drop_axes(&m, 1);
  order_axes(&m);
  return m;
}

// The least common multiple of the column multiples that the tails require.
static int whole_columns(const Group *g) {
  int whole = 1;
  for (int i = 0; i < g->ntails; i++)
    for (int once = whole; g->tails[i].twin && whole % g->tails[i].whole;) whole += once;
  return whole;
}

Product contract_product(const Group *g) {
  const Node *n = g->anchor;
  Arena *arena = g->graph->arena;
  Product p = {.size = (int)dtype_size(prec_operand(n)),
               .pair = g->pair[0] != NULL,
               .transposed = tail_all_transposed(g)};
  int most = maps_phases(n);
  int64_t together;
  unsigned batches = group_dims_kept(g, NULL, &together) | (g->attention ? g->attention->apart : 0);
  double multiplies = 0;
  p.maps = arena_alloc(arena, sizeof *p.maps * (size_t)most);
  for (int i = 0; i < most; i++) {
    Maps *m = &p.maps[p.phases];
    *m = maps_of(n, i);
    maps_part_rows(m, batches);
    int64_t rows = maps_count(m, AxisM), k = maps_count(m, AxisK);
    if (!rows) continue;
    p.phases++;
    p.m += rows;
    p.n = maps_count(m, AxisN);
    p.batch = maps_count(m, AxisBatch);
    multiplies += (double)rows * (double)k;
    if (k > p.longest) p.longest = k;
  }
  drop_axes(p.maps, p.phases);
  for (int i = 0; i < p.phases; i++) order_axes(&p.maps[i]);
  p.k = (int64_t)(multiplies / (double)p.m + 0.5);
  p.whole = whole_columns(g);
  p.a = operand_of(g, &p, MapA);
  p.b = operand_of(g, &p, MapB);
  p.tap_run = tap_run(&p);
  return p;
}

int64_t product_row_tiles(const Product *p, int tile_m) {
  int64_t count = 0;
  for (int i = 0; i < p->phases; i++) count += ceil_div(maps_count(&p->maps[i], AxisM), tile_m);
  return count;
}
