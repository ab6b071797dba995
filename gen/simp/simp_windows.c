// simp_windows.c: maps after moves of the result of a window or depthwise convolution, for example
// pixels reshaped to tokens: the maps move before the moves, into the window's kernel.
#include "simp.h"

#include <string.h>

enum { kMostMoves = 8, kMostMaps = 16, kMostAsked = 64 }; // kMostAsked: maps visited

static bool is_move(const Node *n) {
  return n->op->cls == OpMove && n->op->form <= MovePermute;
}

// Is n the result of a window, or a map of it?
static bool made_by_window(const Node *n, int *left) {
  if (n->fixed || --*left < 0) return false;
  if (n->op->cls == OpWindow || node_depthwise(n)) return true;
  bool found = false;
  for (int i = 0; i < n->nin && n->op->cls == OpMap && !found; i++)
    found = type_same_shape(&n->in[i]->type, &n->type) && made_by_window(n->in[i], left);
  return found;
}

typedef struct Cone { // maps of one shape between a moved value and the last map
  Graph *to;
  Node *moved, *moves[kMostMoves];          // moves: the last one first
  Node *maps[kMostMaps], *first[kMostMaps]; // first: each map before the moves, once made
  int nmoves, nmaps, left;
  int reads; // reads of the moved value by these maps
} Cone;

static bool is_map(const Node *n) {
  return n->op->cls == OpMap && n->op->typing != TypeDraw && !n->fixed;
}

// Finds the moves between x and a window's result, if there are any.
static bool find_moves(Cone *c, Node *x) {
  int left = kMostMaps, count = 0;
  c->moved = x;
  for (; is_move(x) && count < kMostMoves; x = x->in[0]) c->moves[count++] = x;
  if (count && made_by_window(x, &left)) c->nmoves = count;
  return c->nmoves > 0;
}

// Adds n if it, or a map of its shape before it, reads the moved value; false if there are too
// many.
static bool find_maps(Cone *c, Node *n, bool *reads) {
  *reads = false;
  if (--c->left < 0) return false;
  for (int i = 0; i < c->nmaps && !*reads; i++) *reads = c->maps[i] == n;
  if (*reads) return true;
  for (int i = 0; i < n->nin; i++) {
    Node *x = n->in[i];
    bool before = false, moved = false;
    if (!type_same_shape(&x->type, &n->type)) continue;
    if (is_map(x) && !find_maps(c, x, &before)) return false;
    if (!is_map(x)) moved = c->nmoves ? x == c->moved : find_moves(c, x);
    c->reads += moved;
    *reads = *reads || before || moved;
  }
  if (!*reads) return true;
  if (c->nmaps == kMostMaps) return false;
  c->maps[c->nmaps++] = n;
  return true;
}

// x, which broadcasts to the result of `move`, before the move, or NULL if impossible.
static Node *before(Graph *to, Node *x, const Node *move) {
  int64_t dims[MaxRank];
  const Type *full = &move->type, *as = &move->in[0]->type;
  int more = full->rank - x->type.rank;
  if (!x->type.rank) return x;
  if (move->op->form == MoveReshape)
    return grid_seen_as(&x->type, full, as, dims) ? reshape_as(to, x, as->rank, dims) : NULL;
  for (int d = 0; d < full->rank; d++) dims[d] = d < more ? 1 : x->type.dim[d - more];
  x = reshape_as(to, x, full->rank, dims);
  Attr back = {0};
  for (int d = 0; d < full->rank; d++) back.dims[move->attr.dims[d]] = d;
  return simp_make(to, move->op, 1, &x, &back, x);
}

// x, a map of the cone or another input, before the moves, or NULL if impossible.
static Node *made_first(Cone *c, Node *x) {
  int at = 0;
  if (x == c->moved) return c->moves[c->nmoves - 1]->in[0];
  while (at < c->nmaps && c->maps[at] != x) at++;
  if (at == c->nmaps) {
    for (int i = 0; i < c->nmoves && x; i++) x = before(c->to, x, c->moves[i]);
    return x;
  }
  Node *in[MaxInputs];
  for (int i = 0; i < x->nin && !c->first[at]; i++) {
    in[i] = made_first(c, x->in[i]);
    if (!in[i]) return NULL;
  }
  if (!c->first[at]) c->first[at] = simp_make(c->to, x->op, x->nin, in, &x->attr, x);
  return c->first[at];
}

// Maps that are the only readers of a moved value come before the moves.
Node *window_mapped(Graph *to, Node *n) {
  Cone c = {.to = to, .left = kMostAsked};
  bool reads;
  if (!is_map(n) || !find_maps(&c, n, &reads) || !c.nmoves || c.reads != c.moved->uses) return NULL;
  c.moves[c.nmoves - 1]->in[0]->uses += c.reads - 1; // each of them reads it now
  Node *y = made_first(&c, n);
  for (int i = c.nmoves - 1; i >= 0 && y; i--)
    y = simp_make(to, c.moves[i]->op, 1, &y, &c.moves[i]->attr, c.moves[i]);
  return y;
}

// ---- slices of convolutions ---------------------------------------------------------------------

// The convolution x of the pixels that `slice` takes: with less padding. NULL if it would read only
// a part of the image.
static Node *pixels_cut(Graph *to, Node *x, const Attr *slice) {
  Attr attr = x->attr;
  const Type *image = &x->in[0]->type, *filter = &x->in[1]->type;
  if (maps_gives(x) != PartPositions || x->uses > 1) return NULL;
  for (int i = 0; i < 2; i++) {
    int64_t begin = slice->dims[2 + i], count = slice->ends[2 + i] - begin;
    int64_t span = (filter->dim[2 + i] - 1) * attr.dilation[i] + 1;
    attr.pad[i] -= begin * attr.stride[i];
    int64_t before = attr.pad[i], reached = (count - 1) * attr.stride[i] + span - before;
    attr.pad[i + 2] = reached - image->dim[2 + i];
    if (attr.pad[i] < 0 || attr.pad[i + 2] < 0) return NULL;
  }
  return simp_make(to, x->op, 2, x->in, &attr, x);
}

// Maps of a convolution with only one reader, of these pixels; other inputs do not vary over them.
static Node *maps_cut(Graph *to, Node *x, const Attr *slice) {
  if (x->op->cls == OpContract) return pixels_cut(to, x, slice);
  bool image = false;
  Node *in[MaxInputs];
  if (!simp_is_pure_map(x) || x->uses > 1) return NULL;
  for (int i = 0; i < x->nin; i++) {
    in[i] = x->in[i];
    int rank = in[i]->type.rank;
    bool varies =
        (rank > 0 && in[i]->type.dim[rank - 1] > 1) || (rank > 1 && in[i]->type.dim[rank - 2] > 1);
    if (!varies) continue;
    if (image || !type_same_shape(&in[i]->type, &x->type)) return NULL;
    if (!(in[i] = maps_cut(to, in[i], slice))) return NULL;
    image = true;
  }
  return image ? simp_make(to, x->op, x->nin, in, &x->attr, x) : NULL;
}

Node *convolution_cut(Graph *to, Node *n) {
  if (!node_is_move(n, MoveSlice) || !type_count(&n->type)) return NULL;
  Attr slice = n->attr;
  bool viewed = units_slice_before(n, &slice);
  Node *x = viewed ? n->in[0]->in[0] : n->in[0];
  if (x->type.rank != 4 || (viewed && n->in[0]->uses > 1)) return NULL;
  for (int d = 0; d < 2; d++)
    if (slice.dims[d] || slice.ends[d] != x->type.dim[d]) return NULL;
  Node *made = maps_cut(to, x, &slice);
  return made && viewed ? reshape_as(to, made, n->type.rank, n->type.dim) : made;
}
