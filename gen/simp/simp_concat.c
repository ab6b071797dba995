// simp_concat.c: rules about concats. Rotary embeddings are often written as x * cos + concat(-b,
// a) * sin, with a and b the halves of x. They are rewritten to the concat(f(slice), ...) form
// required by rotary.c; x then has two readers instead of three. The same for maps of a concat
// whose parts are all computed from slices of one value. Nested concats become one, up to the
// number of parts that a kernel takes. Slices of concatenated scores are computed from the scores
// of one part.
#include "simp.h"

#include <string.h>

enum { kMostSearched = 32, kMostParts = 8 }; // nodes visited per search; parts

typedef struct Split {
  Graph *to;
  const Node *top, *concat; // maps lead from the concat to the top
  int part;                 // the part being made
  bool whole;               // row reductions are over all parts, and stay as they are
} Split;

// The dimension of x that broadcasts along the concat's axis, or -1 if it has size 1 or is missing.
static int axis_in(const Split *s, const Node *x) {
  int d = (int)s->concat->attr.axis - (s->top->type.rank - x->type.rank);
  return d >= 0 && x->type.dim[d] > 1 ? d : -1;
}

// Where the current part begins along the concat's axis.
static int64_t part_begin(const Split *s) {
  int64_t begin = 0;
  for (int i = 0; i < s->part; i++) begin += s->concat->in[i]->type.dim[s->concat->attr.axis];
  return begin;
}

// Is n a map of the tree? Inputs of the tree's maps that are not are its leaves.
static bool is_inner(const Split *s, const Node *n) {
  return n == s->top || (simp_is_pure_map(n) && n->uses == 1);
}

// The concat that is x, or from which maps compute it, or NULL.
static const Node *find_concat(const Split *s, const Node *x, int *left) {
  bool concat = node_is_move(x, MoveConcat);
  if (concat) return x->uses == 1 && x->nin <= kMostParts ? x : NULL;
  if (--*left < 0 || !is_inner(s, x)) return NULL;
  for (int i = 0; i < x->nin; i++) {
    const Node *found =
        type_same_shape(&x->in[i]->type, &s->top->type) ? find_concat(s, x->in[i], left) : NULL;
    if (found) return found;
  }
  return NULL;
}

// The input of a chain of one-input maps that ends in n.
static const Node *origin(const Node *n) {
  while (simp_is_pure_map(n) && n->nin == 1) n = n->in[0];
  return n;
}

// If n is a slice along the concat's axis only: its input, else NULL.
static const Node *sliced(const Split *s, const Node *n) {
  if (!node_is_move(n, MoveSlice)) return NULL;
  const Node *x = n->in[0];
  for (int d = 0; d < n->type.rank; d++)
    if (d != s->concat->attr.axis && n->type.dim[d] != x->type.dim[d]) return NULL;
  return x;
}

// Is x, or a slice of it, a leaf of the tree?
static bool reads(const Split *s, const Node *n, const Node *x, int *left) {
  if (type_same_shape(&n->type, &s->top->type) && (n == x || sliced(s, n) == x)) return true;
  if (--*left < 0 || n == s->concat || !is_inner(s, n)) return false;
  for (int i = 0; i < n->nin; i++)
    if (reads(s, n->in[i], x, left)) return true;
  return false;
}

// Are all parts of the concat computed from slices of one leaf?
static bool is_of_leaf(const Split *s) {
  const Node *x = sliced(s, origin(s->concat->in[0]));
  int left = kMostSearched;
  if (!x || x->fixed) return false;
  for (int i = 0; i < s->concat->nin; i++)
    if (sliced(s, origin(s->concat->in[i])) != x) return false;
  return reads(s, s->top, x, &left);
}

// The value of which n is a slice, or from a slice of which maps compute n; NULL if there is none.
// Slices of constants are ignored.
static const Node *cut_from(const Split *s, const Node *n, int *left) {
  const Node *x = sliced(s, n);
  if (x || --*left < 0 || !simp_is_pure_map(n)) return x && !x->fixed ? x : NULL;
  for (int i = 0; i < n->nin && !x; i++)
    if (n->in[i]->type.rank == n->type.rank) x = cut_from(s, n->in[i], left);
  return x;
}

// Is the concat the only leaf below n that varies along its axis?
static bool is_alone(const Split *s, const Node *n) {
  if (n == s->concat || axis_in(s, n) < 0) return true;
  bool alone = is_inner(s, n);
  for (int i = 0; i < n->nin && alone; i++) alone = is_alone(s, n->in[i]);
  return alone;
}

// Are all parts slices of one value (or maps of them), and is the concat the only operand along its
// axis?
static bool is_cut(const Split *s) {
  const Node *x = NULL;
  for (int i = 0; i < s->concat->nin; i++) {
    int left = kMostSearched;
    const Node *from = cut_from(s, s->concat->in[i], &left);
    if (!from || (x && from != x)) return false;
    x = from;
  }
  return is_alone(s, s->top);
}

// Are all parts results of contractions that only the concat reads? Then their kernels can compute
// the maps after it, and store where it is.
static bool is_of_products(const Split *s) {
  for (int i = 0; i < s->concat->nin; i++) {
    const Node *x = s->concat->in[i];
    while (x->uses == 1 && simp_is_pure_map(x) && type_same_shape(&x->in[0]->type, &x->type))
      x = x->in[0];
    if (x->op->cls != OpContract || x->uses > 1) return false;
  }
  return s->concat->uses == 1 && is_alone(s, s->top);
}

// Is x computed from positions? Then a slice of it is recomputed, even if others read it whole.
static bool is_placed(const Node *x, int *left) {
  if (!x->type.rank || (x->op->cls == OpSource && x->op->form == SourceIndex)) return true;
  bool placed = --*left >= 0 && simp_is_pure_map(x);
  for (int i = 0; i < x->nin && placed; i++) placed = is_placed(x->in[i], left);
  return placed;
}

static Node *slice_of(Graph *to, Node *x, int d, int64_t begin, int64_t end) {
  Attr cut = {0};
  memcpy(cut.ends, x->type.dim, sizeof x->type.dim);
  cut.dims[d] = begin, cut.ends[d] = end;
  return simp_make(to, op_need(to->c, "slice"), 1, &x, &cut, x);
}

static Node *part_of(const Split *s, Node *x) {
  int d = axis_in(s, x), left = kMostSearched;
  if (x == s->concat) return x->in[s->part];
  if (d < 0) return x;
  if (is_inner(s, x) || (simp_is_pure_map(x) && is_placed(x, &left))) {
    Node *in[MaxInputs];
    for (int i = 0; i < x->nin; i++) in[i] = part_of(s, x->in[i]);
    return simp_make(s->to, x->op, x->nin, in, &x->attr, x);
  }
  int64_t begin = part_begin(s), size = s->concat->in[s->part]->type.dim[s->concat->attr.axis];
  return slice_of(s->to, x, d, begin, begin + size);
}

static Node *concat_last(Graph *to, Node *n) {
  Split s = {.to = to, .top = n};
  int left = kMostSearched;
  if (!simp_is_pure_map(n) || !n->type.rank) return NULL;
  s.concat = find_concat(&s, n, &left);
  if (!s.concat || !(is_of_leaf(&s) || is_cut(&s) || is_of_products(&s))) return NULL;
  Node *parts[kMostParts];
  for (; s.part < s.concat->nin; s.part++) parts[s.part] = part_of(&s, n);
  Attr attr = {.axis = s.concat->attr.axis};
  return simp_make(to, s.concat->op, s.concat->nin, parts, &attr, n);
}

// concat(concat(a, b), c) = concat(a, b, c), if the inner concat has no other reader.
static Node *concat_of_concats(Graph *to, Node *n) {
  int count = 0, most = n->nin;
  if (!node_is_move(n, MoveConcat)) return NULL;
  for (int i = 0; i < n->nin; i++) most += n->in[i]->nin;
  Node **parts = arena_alloc(to->arena, sizeof *parts * (size_t)most);
  for (int i = 0; i < n->nin; i++) {
    Node *x = n->in[i];
    bool inner = x->op == n->op && x->attr.axis == n->attr.axis && x->uses == 1;
    for (int j = 0; inner && j < x->nin; j++) parts[count++] = x->in[j];
    if (!inner) parts[count++] = x;
  }
  bool simpler = count > n->nin && count <= kMostConcat;
  return simpler ? simp_make(to, n->op, count, parts, &n->attr, n) : NULL;
}

// A concat of many parts, each of which its kernel tests for, becomes a concat of concats (steps of
// a recurrence).
static Node *concat_of_many(Graph *to, Node *n) {
  if (!node_is_move(n, MoveConcat) || n->nin <= kMostConcat) return NULL;
  int count = 0, runs = (int)ceil_div(n->nin, kMostConcat), size = (int)ceil_div(n->nin, runs);
  Node **parts = arena_alloc(to->arena, sizeof *parts * (size_t)runs);
  for (int i = 0; i < n->nin; i += size) {
    int left = n->nin - i < size ? n->nin - i : size;
    parts[count++] = left > 1 ? simp_make(to, n->op, left, n->in + i, &n->attr, n) : n->in[i];
  }
  return simp_make(to, n->op, count, parts, &n->attr, n);
}

// A slice within one part of a concat is a slice of that part, if it is computed from positions:
// the halves of concat(cos, cos) are one table.
static Node *slice_of_part(Graph *to, Node *n) {
  Node *concat = n->op->cls == OpMove && n->nin == 1 ? n->in[0] : n;
  if (n->op->form != MoveSlice || !node_is_move(concat, MoveConcat)) return NULL;
  int64_t d = concat->attr.axis, from = 0;
  int i = 0, left = kMostSearched, last = concat->nin - 1;
  for (; i < last && from + concat->in[i]->type.dim[d] <= n->attr.dims[d]; i++)
    from += concat->in[i]->type.dim[d];
  Node *part = concat->in[i];
  if (n->attr.ends[d] > from + part->type.dim[d] || !is_placed(part, &left)) return NULL;
  Attr attr = n->attr;
  attr.dims[d] -= from, attr.ends[d] -= from;
  return simp_make(to, n->op, 1, &part, &attr, n);
}

// ---- concatenated scores ------------------------------------------------------------------------

// The concat with scores among its parts from which maps compute x, or NULL.
static const Node *concat_of_scores(const Node *x, int *left) {
  if (--*left < 0) return NULL;
  if (node_is_move(x, MoveConcat)) {
    for (int i = 0; i < x->nin; i++)
      if (reshape_scores(x->in[i])) return x;
    return NULL;
  }
  for (int i = 0; simp_is_pure_map(x) && i < x->nin; i++) {
    bool alike = type_same_shape(&x->in[i]->type, &x->type);
    const Node *found = alike ? concat_of_scores(x->in[i], left) : NULL;
    if (found) return found;
  }
  return NULL;
}

// Does n pad its input only along d?
static bool pads_along(const Node *n, int d) {
  if (!node_is_move(n, MovePad)) return false;
  for (int i = 0; i < n->type.rank; i++)
    if (i != d && (n->attr.dims[i] || n->attr.ends[i])) return false;
  return true;
}

// Is x computed by maps of its shape from the concat?
static bool is_made_of(const Node *x, const Node *concat, int *left) {
  bool made = x == concat;
  if (--*left < 0) return false;
  for (int i = 0; simp_is_pure_map(x) && i < x->nin && !made; i++)
    made = type_same_shape(&x->in[i]->type, &x->type) && is_made_of(x->in[i], concat, left);
  return made;
}

typedef Node *Piece(const Split *s, Node *x, int *left);
static Piece piece_of;

// The map x of pieces of its inputs, or NULL if one cannot be made.
static Node *map_of(const Split *s, Node *x, Piece *piece, int *left) {
  Node *in[MaxInputs];
  for (int i = 0; i < x->nin; i++)
    if (!(in[i] = piece(s, x->in[i], left))) return NULL;
  return simp_make(s->to, x->op, x->nin, in, &x->attr, x);
}

// x, a per-row value, with row reductions of the concat replaced by reductions of its parts,
// combined; NULL if impossible. Other row values stay as they are.
static Node *rows_by_parts(const Split *s, Node *x, int *left) {
  if (--*left < 0) return NULL;
  if (simp_is_pure_map(x)) return map_of(s, x, rows_by_parts, left);
  int searched = kMostSearched;
  if (x->op->cls != OpReduce || !is_made_of(x->in[0], s->concat, &searched)) return x;
  bool most = x->op->flags & FlagMax, sum = x->op->flags & FlagAdd;
  if (x->attr.axes != 1 << axis_in(s, x->in[0]) || (!most && !sum) ||
      x->op->flags & (FlagOnline | FlagOne))
    return NULL;
  Split at = *s;
  Node *all = NULL;
  for (at.part = 0; at.part < s->concat->nin; at.part++) {
    Node *piece = piece_of(&at, x->in[0], left);
    if (!piece) return NULL;
    Node *both[2] = {all, simp_make(s->to, x->op, 1, &piece, &x->attr, x)};
    const Op *joins = op_need(s->to->c, most ? "maximum" : "add");
    all = all ? simp_make(s->to, joins, 2, both, NULL, x) : both[1];
  }
  return all;
}

// x from `begin` to `end` along d; simplified for parts of a concat and for positions.
static Node *cut_along(Graph *to, Node *x, int d, int64_t begin, int64_t end) {
  int64_t at = 0;
  bool concat = node_is_move(x, MoveConcat) && x->attr.axis == d;
  for (int i = 0; concat && i < x->nin; at += x->in[i++]->type.dim[d])
    if (at == begin && at + x->in[i]->type.dim[d] == end) return x->in[i];
  if (x->op->cls != OpSource || x->op->form != SourceIndex) return slice_of(to, x, d, begin, end);
  Node *index = graph_add(to, x->op, 0, NULL, &x->attr, x);
  index->type = type_make(x->type.dtype, x->type.rank, x->type.dim);
  index->type.dim[d] = end - begin;
  Type scalar = type_make(x->type.dtype, 0, NULL);
  Node *in[2] = {simp_intern(to, index), simp_const(to, (double)begin, &scalar, x)};
  return x->attr.axis == d ? simp_make(to, op_need(to->c, "add"), 2, in, NULL, x) : in[0];
}

// Matmul x, with these columns of its right operand only.
static Node *product_cut(Graph *to, Node *x, int64_t begin, int64_t end) {
  Node *b = x->in[1], *rows = reshape_turns(b) ? b->in[0] : NULL;
  int last = b->type.rank - 1;
  Node *in[2] = {x->in[0], NULL};
  in[1] = rows ? reshape_turned(to, cut_along(to, rows, last - 1, begin, end))
               : cut_along(to, b, last, begin, end);
  return simp_make(to, x->op, 2, in, &x->attr, x);
}

// The piece of x that belongs to the current part of the concat.
static Node *piece_of(const Split *s, Node *x, int *left) {
  int d = axis_in(s, x);
  if (x == s->concat) return x->in[s->part];
  if (d < 0) return s->whole ? x : rows_by_parts(s, x, left);
  if (--*left < 0) return NULL;
  if (simp_is_pure_map(x) || (s->whole && x->op->cls == OpMap)) return map_of(s, x, piece_of, left);
  int64_t begin = part_begin(s), size = s->concat->in[s->part]->type.dim[s->concat->attr.axis];
  Type piece = x->type;
  if (s->whole && reshape_batched(x)) return product_cut(s->to, x, begin, begin + size);
  piece.dim[d] = size;
  if (pads_along(x, d)) {
    int64_t first = x->attr.dims[d], end = first + x->in[0]->type.dim[d];
    if (type_same_shape(&piece, &x->in[0]->type) && first == begin) return x->in[0];
    if (begin + size <= first || begin >= end) return simp_const(s->to, 0, &piece, x);
    bool inside = s->whole && begin >= first && begin + size <= end;
    if (inside && reshape_batched(x->in[0]))
      return product_cut(s->to, x->in[0], begin - first, begin - first + size);
  }
  return cut_along(s->to, x, d, begin, begin + size);
}

// A slice of maps of concatenated scores is computed from the scores of that part: for a softmax
// with an extra column (attention sink), max and sum of both are combined; for gradients of the
// scores of several segments (simp_segments.c), row values stay those of all.
static Node *scores_alone(Graph *to, Node *n) {
  int left = kMostSearched;
  if (!node_is_move(n, MoveSlice) || !simp_is_pure_map(n->in[0])) return NULL;
  Split s = {.to = to, .top = n->in[0], .concat = concat_of_scores(n->in[0], &left)};
  if (!s.concat || sliced(&s, n) != n->in[0]) return NULL;
  int64_t d = s.concat->attr.axis;
  s.whole = segments_beside(s.concat) && !to->c->options.no_flash;
  if (s.whole && segments_weigh(n->in[0])) return NULL;
  while (s.part < s.concat->nin && part_begin(&s) < n->attr.dims[d]) s.part++;
  if (s.part == s.concat->nin || part_begin(&s) != n->attr.dims[d] ||
      n->type.dim[d] != s.concat->in[s.part]->type.dim[d])
    return NULL;
  left = 8 * kMostSearched;
  return piece_of(&s, n->in[0], &left);
}

Node *concat_simpler(Graph *to, Node *n) {
  Node *better = concat_last(to, n);
  if (!better) better = concat_of_concats(to, n);
  if (!better) better = concat_of_many(to, n);
  if (!better) better = scores_alone(to, n);
  return better ? better : slice_of_part(to, n);
}
