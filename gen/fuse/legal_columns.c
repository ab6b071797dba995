// legal_columns.c: which reductions a contraction's epilogue computes (part of the rules of
// legal.c): column reductions, over all rows or per image, of single columns or of groups of
// neighbouring columns; and row statistics for a norm that follows. A rule returns the reason
// against it, or NULL.
#include "fuse.h"

enum { kMostColumnState = 5, kMostRowState = 4 }; // words: of moments, and of a sum next to them

// Statistics of whole rows of a contraction's result, which a norm that follows will read.
static const char *rows_join(const Group *k, const Node *n) {
  const Type *x = &n->in[0]->type, *y = &k->anchor->type;
  Maps maps = maps_of(k->anchor, 0);
  int columns = maps_dim(&maps, MapOut, AxisN);
  if (k->pair[0] || tail_of_inputs(k, n) || k->ntails > 1 || k->tails[0].nmoves ||
      !type_same_shape(x, y))
    return "its input is not the product's result in its original layout";
  if (maps_count(&maps, AxisBatch) > 1 || maps_phases(k->anchor) > 1 ||
      maps_count(&maps, AxisN) != y->dim[columns] || n->attr.axes != 1ll << columns)
    return "it does not reduce whole rows of the product";
  for (int i = 0; i < k->nnodes; i++) {
    const Node *other = k->nodes[i];
    if (other->op->cls != OpReduce) continue;
    if (!other->foot) return "the product already reduces its columns";
    if (other->in[0] != n->in[0] || !monoid_same(op_monoid(other), op_monoid(n)))
      return "the product already reduces its rows in a different way";
  }
  return op_monoid(n)->count <= kMostRowState ? NULL : "its accumulators are too large";
}

// Is the tail made of reshapes only, so that neighbouring columns are still neighbours?
static bool is_reshaped(const Tail *t) {
  bool reshaped = true;
  for (int i = 0; i < t->nmoves; i++) reshaped = reshaped && t->moves[i]->op->form == MoveReshape;
  return reshaped;
}

// Column reductions of one kernel must keep the same dimensions and need few words of state
// together.
static const char *column_states_join(const Group *k, const Node *n, unsigned kept,
                                      int64_t together) {
  int words = op_monoid(n)->count;
  for (int i = 0; i < k->nnodes; i++) {
    const Node *other = k->nodes[i];
    int64_t columns;
    if (other->op->cls != OpReduce) continue;
    if (group_dims_kept(k, other, &columns) != kept || columns != together)
      return "the product already reduces other rows";
    if (other->in[0] == n->in[0] && monoid_same(op_monoid(other), op_monoid(n))) words = 0;
  }
  return state_words(k) + words <= kMostColumnState ? NULL : "its accumulators are too large";
}

// Is m a map of elements that n reduces, with only nodes of `list` or n's contraction as inputs of
// that shape?
static bool maps_row(const Node *m, const Node *n, const Node *const *list, int count) {
  const Node *x = n->in[0];
  bool row = m->op->cls == OpMap && type_same_shape(&m->type, &x->type);
  for (int i = 0; i < m->nin && row; i++) {
    const Node *in = m->in[i];
    row = !type_same_shape(&in->type, &x->type) || in->group == x->group ||
          fuse_listed(list, count, in);
  }
  return row;
}

// Are the elements that n reduces reduced again along the same axes, together with n's result?
static bool is_reduced_again(const Node *n) {
  const Node *list[kMostNodes];
  int count = fuse_mapped(n, list), nreaders;
  for (int i = 0; i < count; i++) {
    Node **readers = fuse_readers(n->group->graph, list[i], &nreaders);
    for (int j = 0; j < nreaders; j++) {
      const Node *r = readers[j];
      bool elements = type_same_shape(&list[i]->type, &n->in[0]->type);
      if (elements && r->op->cls == OpReduce && r->attr.axes == n->attr.axes) return true;
      if (count < kMostNodes && !fuse_listed(list, count, r) && maps_row(r, n, list, count))
        list[count++] = r;
    }
  }
  return false;
}

// Does n, directly or through maps and reshapes, have readers other than maps and reductions?
static bool is_stored(const Node *n) {
  const Node *list[kMostNodes];
  int count = fuse_mapped(n, list), nreaders;
  for (int i = 0; i < count; i++) {
    Node **readers = fuse_readers(n->group->graph, list[i], &nreaders);
    if (nreaders != list[i]->uses) return true; // it is an output of the model
    for (int j = 0; j < nreaders; j++) {
      const Node *r = readers[j];
      bool reshape = node_is_move(r, MoveReshape);
      bool map = r->op->cls == OpMap && type_same_shape(&r->type, &n->type); // already in the list
      if (reshape ? is_stored(r) : !map && r->op->cls != OpReduce) return true;
    }
  }
  return false;
}

// Are maps of n and of the elements it reduces stored, as a norm's are?
static bool is_normed(const Node *n) {
  const Node *list[kMostNodes];
  int count = fuse_mapped(n, list), nreaders;
  for (int i = 0; i < count; i++) {
    Node **readers = fuse_readers(n->group->graph, list[i], &nreaders);
    for (int j = 0; j < nreaders; j++)
      if (type_same_shape(&readers[j]->type, &n->in[0]->type) && is_stored(readers[j])) return true;
  }
  return false;
}

// Will one block hold the rows that n reduces and read them in any case? True if a norm stores maps
// of them and there are enough contiguous rows to fill the GPU, or if they are reduced again.
static bool is_of_held_rows(const Node *n) {
  int64_t count = type_count(&n->in[0]->type) / type_count(&n->type);
  bool held = count <= kSureRow && (fuse_fits_row(n) || fuse_fits_across(n));
  // otherwise rows are read in pieces
  bool along = type_innermost_in(&n->in[0]->type, n->attr.axes);
  bool fills = type_count(&n->type) >= n->group->graph->c->options.arch->sms;
  return held && ((along && fills && is_normed(n)) || is_reduced_again(n));
}

// Column reductions of a contraction, over all its rows or per image: to one value per channel of a
// convolution (per element of the last dimension of a matmul), or per group of neighbouring ones.
const char *legal_columns(const Group *k, const Node *n) {
  const Node *y = k->anchor, *x = n->in[0];
  Maps maps = maps_of(y, 0);
  int64_t columns = y->type.dim[maps_dim(&maps, MapOut, AxisN)], together;
  if (n->foot) return rows_join(k, n);
  if (group_statistic(k)) return "the product already reduces its rows";
  if (monoid_wants_places(op_monoid(n)))
    return "a product's epilogue does not know element positions";
  if (k->pair[0] || tail_of_inputs(k, n) || !is_reshaped(&k->tails[0]) ||
      !type_same_shape(&x->type, &tail_made(k, 0)->type))
    return "its input is not the product's result in its original layout";
  if (tail_transposed(k, tail_row_lane(k, 0), &x->type)) return "that kernel stores along rows";
  if (maps_count(&maps, AxisBatch) > 1 || maps_count(&maps, AxisN) != columns)
    return "a product with batches or groups cannot reduce columns";
  unsigned kept = group_dims_kept(k, n, &together);
  if (!together || (kept && (maps_phases(y) > 1 || !maps_part_rows(&maps, kept))))
    return "the reduced dimensions are not whole axes of the product";
  if (together == columns && !kept) return "it reduces the whole result to one value";
  if (maps_count(&maps, AxisM) == 1)
    return "a product's epilogue reduces columns, and rows for a norm if all its tiles run at once";
  if (is_of_held_rows(n))
    return "a row kernel reads its rows once, for the reduction and for its consumers";
  if (kept && !gain_ends_tiles(k->graph->c->options.arch, k, maps_count(&maps, AxisM)))
    return "it reduces fewer rows than a tile has, and padding would cost more";
  return column_states_join(k, n, kept, together);
}
