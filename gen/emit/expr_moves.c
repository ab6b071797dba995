// expr_moves.c: moves (reshape, permute, slice, concat, pad, gather) in fused expressions become
// index arithmetic; nothing is copied.
#include "emit.h"

#include <stdlib.h>
#include <string.h>

static const char *both(Arena *a, const char *x, const char *y) {
  return x ? arena_printf(a, "%s && %s", x, y) : y;
}

// Elements outside the source are 0 and not loaded.
static const char *pad_value(Scope *s, const Node *n, const Index *at) {
  const Type *from = &n->in[0]->type;
  Index in[MaxRank];
  const char *inside = NULL, *outer = s->pred;
  for (int d = 0; d < from->rank; d++) {
    in[d] = index_shifted(scope_arena(s), at[d], -n->attr.dims[d]);
    if (n->attr.dims[d] || n->attr.ends[d])
      inside = both(scope_arena(s), inside,
                    arena_printf(scope_arena(s), "unsigned(%s) < %lldu",
                                 index_whole(scope_arena(s), in[d]), (long long)from->dim[d]));
  }
  if (inside) s->pred = both(scope_arena(s), outer, inside);
  const char *value = expr_value(s, n->in[0], in);
  bool whole = scope_zero_elsewhere(s, value);
  s->pred = outer;
  if (!inside || whole) return value;
  const char *zero = expr_literal(scope_arena(s), 0, n->type.dtype);
  return arena_printf(scope_arena(s), "(%s ? %s : %s)", inside, value, zero);
}

// Are all indices of the scope's part, shifted as in `at`, below `size`?
static bool part_within(const Scope *s, Index at, int64_t size) {
  size_t length = s->part ? strlen(s->part) : 0;
  if (!s->part || strncmp(at.text, s->part, length)) return false;
  const char *rest = at.text + length;
  char *end = (char *)rest;
  bool shifted = *rest == ' ' && strchr("+-", rest[1]) && rest[2] == ' ';
  int64_t by = shifted ? strtoll(rest + 3, &end, 10) * (rest[1] == '-' ? -1 : 1) : 0;
  return !*end && s->part_begin + by >= 0 && s->part_end + by <= size;
}

// The value from the one input of a concat that contains the whole part, or NULL.
static const char *part_value(Scope *s, const Node *n, const Index *at) {
  int64_t axis = n->attr.axis, begin = 0;
  for (int i = 0; i < n->nin; i++) {
    Index in[MaxRank];
    memcpy(in, at, sizeof *at * (size_t)n->type.rank);
    in[axis] = index_shifted(scope_arena(s), at[axis], -begin);
    if (part_within(s, in[axis], n->in[i]->type.dim[axis]))
      return expr_value(s, n->in[i], in);
    begin += n->in[i]->type.dim[axis];
  }
  return NULL;
}

static const char *concat_value(Scope *s, const Node *n, const Index *at) {
  int64_t axis = n->attr.axis, begin = 0;
  const char *whole = part_value(s, n, at);
  if (whole) return whole;
  const char *outer = s->pred, *name = expr_local(s->group, n), *chain = "";
  for (int i = 0; i < n->nin; i++) {
    const Type *from = &n->in[i]->type;
    Index in[MaxRank];
    memcpy(in, at, sizeof *at * (size_t)from->rank);
    in[axis] = index_shifted(scope_arena(s), at[axis], -begin);
    const char *at_axis = index_whole(scope_arena(s), in[axis]);
    const char *mine = arena_printf(scope_arena(s), "unsigned(%s) < %lldu", at_axis,
                                    (long long)from->dim[axis]);
    s->pred = both(scope_arena(s), outer, mine);
    const char *value = expr_value(s, n->in[i], in);
    chain = i + 1 < n->nin ? arena_printf(scope_arena(s), "%s%s ? %s : ", chain, mine, value)
                           : arena_printf(scope_arena(s), "%s%s", chain, value);
    begin += from->dim[axis];
  }
  s->pred = outer;
  buffer_put(&s->body, "%sconst %s %s = %s;\n", s->indent, expr_compute_type(n), name, chain);
  return name;
}

// Index in the input of a reshape, permutation, slice or roll.
static void moved_from(const Scope *s, const Node *n, const Index *at, Index *in) {
  if (n->op->form == MoveReshape)
    index_reshape(scope_arena(s), &n->type, &n->in[0]->type, s->part ? s->lanes : 1, at, in);
  for (int d = 0; d < n->type.rank && n->op->form == MovePermute; d++) in[n->attr.dims[d]] = at[d];
  for (int d = 0; d < n->type.rank && n->op->form == MoveSlice; d++)
    in[d] = index_shifted(scope_arena(s), at[d], n->attr.dims[d]);
  for (int d = 0; d < n->type.rank && n->op->form == MoveRoll; d++) {
    int64_t by = n->attr.dims[d], size = n->type.dim[d];
    in[d] = index_rolled(scope_arena(s), at[d], by ? size - by : 0, size, s->lanes);
  }
}

// Is n at this index the same for all lanes, and computable before their loop? Visits at most *left
// nodes.
static bool comes_first(const Scope *s, const Node *n, const Index *at, int *left) {
  for (int d = 0; d < n->type.rank; d++)
    if (at[d].lane || scope_is_inner(s, at[d].text)) return false;
  const char *bound = scope_find(s, n, at);
  if (bound) return expr_mentions(s->loads.text ? s->loads.text : "", bound);
  if (n->op->cls == OpSource || n->group != s->group) return true;
  bool moves = n->op->cls == OpMove && n->op->form <= MoveSlice;
  bool first = (n->op->cls == OpMap || moves) && (*left)-- > 0;
  for (int i = 0; first && i < n->nin; i++) {
    Index in[MaxRank];
    if (moves)
      moved_from(s, n, at, in);
    else
      expr_broadcast(&n->type, &n->in[i]->type, at, in);
    first = comes_first(s, n->in[i], in, left);
  }
  return first;
}

// The id of a gather, computed before the lane loop if possible, so that lanes load a vector.
static const char *id_value(Scope *s, const Node *ids, const Index *at) {
  int left = 32;
  bool outer = s->first;
  s->first = outer || (s->lanes > 1 && !s->pred && !s->brought && comes_first(s, ids, at, &left));
  const char *id = expr_value(s, ids, at);
  s->first = outer;
  return id;
}

// An element of a gather; its index along the axis is a named value. Where nothing is loaded
// (beyond the tile's edge, or in padding), a computed id may be out of range.
static const char *gathered_value(Scope *s, const Node *n, const Index *at) {
  const Node *x = n->in[0], *ids = n->in[1];
  int axis = (int)n->attr.axis, more = n->op->form == MoveGather ? ids->type.rank : 1;
  Index in[MaxRank], id_at[MaxRank];
  for (int d = 0; d < ids->type.rank; d++)
    id_at[d] =
        ids->type.dim[d] == 1 ? (Index){"0", false} : at[n->op->form == MoveGather ? axis + d : d];
  const char *id = id_value(s, ids, id_at), *name = expr_name(s->group, "id");
  bool inside = !s->pred && s->lanes > 1 && expr_mentions(id, "j");
  bool hoisted = !s->pred && !inside && expr_mentions(s->loads.text ? s->loads.text : "", id);
  const char *guard = s->pred ? arena_printf(scope_arena(s), "%s ? ", s->pred) : "";
  buffer_put(hoisted ? &s->loads : &s->body, "%sconst int %s = %snn_index(%s, %lld)%s;\n",
             hoisted ? "  " : s->indent, name, guard, id, (long long)x->type.dim[axis],
             s->pred ? " : 0" : "");
  if (!hoisted) scope_note_inner(s, name);
  for (int d = 0; d < x->type.rank; d++)
    in[d] = d == axis               ? (Index){name, false}
            : x->type.dim[d] == 1   ? (Index){"0", false}
            : d < axis || more == 1 ? at[d]
                                    : at[d + more - 1];
  return expr_value(s, x, in);
}

// Is element `at` of n, a move that leaves memory unchanged, at the scope's flat offset?
static bool stays_flat(const Scope *s, const Node *n, const Index *at) {
  int64_t stride[MaxRank];
  type_strides(&n->type, stride);
  return view_same_memory(n) && expr_is_flat(s, &n->type, stride, at);
}

static bool has_lane(const Type *t, const Index *at) {
  bool lane = false;
  for (int d = 0; d < t->rank; d++) lane = lane || at[d].lane;
  return lane;
}

// A value at the scope's flat offset, through a move that leaves memory unchanged: the offset of
// its input is the same. NULL if the lanes of a vector are apart there.
static const char *flat_value(Scope *s, const Node *n, const Index *at) {
  const Type *from = &n->in[0]->type, outer = s->flat_type;
  Index in[MaxRank], outer_at[MaxRank];
  memcpy(outer_at, s->flat_at, sizeof outer_at);
  if (n->op->form == MoveReshape)
    index_reshape(scope_arena(s), &n->type, from, s->lanes, at, in);
  else
    moved_from(s, n, at, in);
  if (has_lane(&n->type, at) != has_lane(from, in)) return NULL;
  s->flat_type = *from;
  memcpy(s->flat_at, in, sizeof *in * (size_t)from->rank);
  const char *value = expr_value(s, n->in[0], in);
  s->flat_type = outer;
  memcpy(s->flat_at, outer_at, sizeof s->flat_at);
  return value;
}

const char *expr_moved(Scope *s, const Node *n, const Index *at) {
  Index in[MaxRank];
  const char *flat = stays_flat(s, n, at) ? flat_value(s, n, at) : NULL;
  if (flat) return flat;
  switch (n->op->form) {
  case MovePad:
    return pad_value(s, n, at);
  case MoveConcat:
    return concat_value(s, n, at);
  case MoveGather:
  case MoveAlong:
    return gathered_value(s, n, at);
  default:
    moved_from(s, n, at, in);
    return expr_value(s, n->in[0], in);
  }
}
