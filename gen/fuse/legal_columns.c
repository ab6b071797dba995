// legal_columns.c: which reductions a product's epilogue computes, of the rule table in legal.c:
// those down its columns, over all rows or those of each image, of single columns or of groups of
// neighbours; and statistics along its rows, for a norm. A rule gives the reason against it, or
// null.
#include "fuse.h"

enum { kMostColumnState = 5, kMostRowState = 4 }; // words: of moments, and of a sum beside them

// Statistics along whole rows of a product, of what a norm behind it will want.
static const char *rows_join(const Group *k, const Node *n) {
  const Type *x = &n->in[0]->type, *y = &k->anchor->type;
  Maps maps = maps_of(k->anchor, 0);
  int columns = maps_dim(&maps, MapOut, AxisN);
  if (k->pair[0] || tail_of_inputs(k, n) || k->ntails > 1 || k->tails[0].nmoves ||
      !type_same_shape(x, y))
    return "the product's result has been moved";
  if (maps_count(&maps, AxisBatch) > 1 || maps_phases(k->anchor) > 1 ||
      maps_count(&maps, AxisN) != y->dim[columns] || n->attr.axes != 1ll << columns)
    return "its rows are not those of the product";
  for (int i = 0; i < k->nnodes; i++) {
    const Node *other = k->nodes[i];
    if (other->op->cls != OpReduce) continue;
    if (!other->foot) return "the product reduces its columns";
    if (other->in[0] != n->in[0] || !monoid_same(op_monoid(other), op_monoid(n)))
      return "the product's rows are reduced otherwise";
  }
  return op_monoid(n)->count <= kMostRowState ? NULL : "its states are large";
}

// Has it been reshaped alone, so that neighbouring columns are neighbours yet?
static bool is_reshaped(const Tail *t) {
  bool reshaped = true;
  for (int i = 0; i < t->nmoves; i++) reshaped = reshaped && t->moves[i]->op->form == MoveReshape;
  return reshaped;
}

// Why columns are not reduced beside others: in the same way, to states of few words together.
static const char *column_states_join(const Group *k, const Node *n, unsigned kept,
                                      int64_t together) {
  int words = op_monoid(n)->count;
  for (int i = 0; i < k->nnodes; i++) {
    const Node *other = k->nodes[i];
    int64_t columns;
    if (other->op->cls != OpReduce) continue;
    if (group_dims_kept(k, other, &columns) != kept || columns != together)
      return "the product reduces other rows";
    if (other->in[0] == n->in[0] && monoid_same(op_monoid(other), op_monoid(n))) words = 0;
  }
  return state_words(k) + words <= kMostColumnState ? NULL : "its states are large";
}

// Is m a map of the elements that n reduces, and of what is among `list` or n's product makes?
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

// Are the elements that n reduces reduced again along the same axes, with what is made of n?
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

// Does what maps, and reshapes of these, make of n go elsewhere than to reductions?
static bool is_stored(const Node *n) {
  const Node *list[kMostNodes];
  int count = fuse_mapped(n, list), nreaders;
  for (int i = 0; i < count; i++) {
    Node **readers = fuse_readers(n->group->graph, list[i], &nreaders);
    if (nreaders != list[i]->uses) return true; // it leaves the model
    for (int j = 0; j < nreaders; j++) {
      const Node *r = readers[j];
      bool reshape = node_is_move(r, MoveReshape);
      bool map = r->op->cls == OpMap && type_same_shape(&r->type, &n->type); // in the list
      if (reshape ? is_stored(r) : !map && r->op->cls != OpReduce) return true;
    }
  }
  return false;
}

// Do maps of the elements that n reduces, beside what is made of n, go to memory, as norms do?
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

// Does a block hold the rows that n reduces, and read them in any case: because norms store what is
// made of them, and rows that lie along memory are enough for all of the GPU; or because they are
// reduced again?
static bool is_of_held_rows(const Node *n) {
  int64_t count = type_count(&n->in[0]->type) / type_count(&n->type);
  bool held = count <= kSureRow && (fuse_fits_row(n) || fuse_fits_across(n));
  bool along = type_innermost_in(&n->in[0]->type, n->attr.axes); // else they are read in pieces
  bool fills = type_count(&n->type) >= n->group->graph->c->options.arch->sms;
  return held && ((along && fills && is_normed(n)) || is_reduced_again(n));
}

// Reductions down the columns of a product, over all of its rows or over those of each image: to
// one value for each channel of a convolution, or element of the last dimension of a matmul, or for
// groups of neighbouring ones.
const char *legal_columns(const Group *k, const Node *n) {
  const Node *y = k->anchor, *x = n->in[0];
  Maps maps = maps_of(y, 0);
  int64_t columns = y->type.dim[maps_dim(&maps, MapOut, AxisN)], together;
  if (n->foot) return rows_join(k, n);
  if (group_statistic(k)) return "the product reduces its rows";
  if (monoid_wants_places(op_monoid(n))) return "a product's epilogue knows no places of elements";
  if (k->pair[0] || tail_of_inputs(k, n) || !is_reshaped(&k->tails[0]) ||
      !type_same_shape(&x->type, &tail_made(k, 0)->type))
    return "the product's result has been moved";
  if (maps_count(&maps, AxisBatch) > 1 || maps_count(&maps, AxisN) != columns)
    return "a product of several batches or groups reduces no columns";
  unsigned kept = group_dims_kept(k, n, &together);
  if (!together || (kept && (maps_phases(y) > 1 || !maps_part_rows(&maps, kept))))
    return "the rows that it reduces are no axes of the product's";
  if (together == columns && !kept) return "it reduces all that the product makes to one value";
  if (maps_count(&maps, AxisM) == 1) return "a product's epilogue reduces columns, not rows";
  if (is_of_held_rows(n))
    return "a block holds its rows, and reads them once for that and for what is made of it";
  if (kept && !gain_ends_tiles(k->graph->c->options.arch, k, maps_count(&maps, AxisM)))
    return "it reduces fewer rows than a tile has";
  return column_states_join(k, n, kept, together);
}
