// fold_norms.c: a contraction whose left operand is a norm of rows, (x - m) r g + b, of another
// contraction's result x. It multiplies x itself by weights into which g is folded, and the norm is
// applied afterwards:
//   ((x - m) r g + b) w = r (x w') + (b w summed over k),   w' = g w minus its mean over k
// Subtracting the mean of x is the same as subtracting the weights' mean over k. w' and the sum are
// fixed and computed by init. The kernel that computes x also reduces the statistics of its rows
// (Node.foot), so that the norm needs no kernel.
//
// If |m| is large relative to the deviation, the result suffers cancellation. But x has already
// been rounded to the dtype of the operand, and that error grows in the same way. With tf32, x
// would only be rounded here, so such contractions keep their norms.
#include "pass.h"

#include <math.h>
#include <string.h>

enum { kMostFactors = 4, kMostSummands = 4 };

typedef struct Factor {
  Node *node;
  bool below; // it divides
} Factor;

// x, or 1, times per-row and per-column factors.
typedef struct Term {
  bool has_x;
  double sign;
  Factor row[kMostFactors], column[kMostFactors];
  int nrows, ncolumns;
} Term;

typedef struct Norm { // of rows: a sum of terms
  Node *made, *x;
  Term term[kMostSummands];
  int count;
} Norm;

typedef enum Statistic { NoStatistic, RowSum, RowSquares, RowVariance } Statistic;

typedef struct Norms { // by node id
  Norm **of;           // of a contraction's left operand, or NULL
  Statistic *statistic;
  bool *reduced; // a row statistic of it is computed
} Norms;

// ---- matching norms -----------------------------------------------------------------------------

static int64_t last_axis(const Node *n) {
  return 1ll << (n->type.rank - 1);
}
static bool is_map(const Node *n, unsigned flags) {
  return n->op->cls == OpMap && n->op->flags & flags && dtype_is_float(n->type.dtype);
}
// If n is a statistic along the last dimension: its kind, and *x, the value that it is of.
static Statistic statistic_of(const Node *n, Node **x) {
  if (n->op->cls != OpReduce || !(n->op->flags & FlagAdd) || !n->in[0]->type.rank ||
      n->attr.axes != last_axis(n->in[0]) || !dtype_is_float(n->in[0]->type.dtype))
    return NoStatistic;
  Node *y = *x = n->in[0], *centred = sum_deviates(n);
  if (centred) return *x = centred, RowVariance;
  if (!is_map(y, FlagMul) || y->in[0] != y->in[1]) return RowSum;
  return *x = y->in[0], RowSquares;
}

// Has n one value per row of `like`: its shape, with one column?
static bool is_row(const Node *n, const Node *like) {
  const Type *t = &n->type, *all = &like->type;
  if (node_is_literal(n)) return true;
  if (t->rank != all->rank || t->dim[t->rank - 1] != 1) return false;
  return !memcmp(t->dim, all->dim, sizeof t->dim[0] * (size_t)(t->rank - 1));
}
static bool is_column(const Node *n, const Node *like) {
  const Type *t = &n->type;
  return n->fixed && t->rank && type_count(t) == t->dim[t->rank - 1] &&
         t->dim[t->rank - 1] == like->type.dim[like->type.rank - 1];
}

static bool scale_term(Term *t, Node *n, bool below, const Node *like) {
  bool row = is_row(n, like);
  int *count = row ? &t->nrows : &t->ncolumns;
  if (*count == kMostFactors) return false;
  (row ? t->row : t->column)[(*count)++] = (Factor){n, below};
  return true;
}

static bool add_terms(const Norms *s, Norm *norm, Node *n, double sign);

// Adds the terms of `of`, times or divided by n.
static bool add_scaled(const Norms *s, Norm *norm, Node *of, Node *n, bool below, double sign) {
  int first = norm->count;
  if (!is_row(n, norm->made) && !is_column(n, norm->made)) return false;
  if (!add_terms(s, norm, of, sign)) return false;
  for (int i = first; i < norm->count; i++)
    if (!scale_term(&norm->term[i], n, below, norm->made)) return false;
  return true;
}

static bool add_term(Norm *norm, const Term *t) {
  if (norm->count == kMostSummands) return false;
  norm->term[norm->count++] = *t;
  return true;
}

// Adds the terms whose sum is n; false if n is not such a sum.
static bool add_terms(const Norms *s, Norm *norm, Node *n, double sign) {
  const Node *made = norm->made;
  if (is_row(n, made) || is_column(n, made)) {
    Term one = {.sign = sign};
    return scale_term(&one, n, false, made) && add_term(norm, &one);
  }
  if (!type_same_shape(&n->type, &made->type)) return false;
  if (s->reduced[n->id]) {
    Term x = {.has_x = true, .sign = sign};
    if (norm->x) return false;
    norm->x = n;
    return add_term(norm, &x);
  }
  if (is_map(n, FlagNeg)) return add_terms(s, norm, n->in[0], -sign);
  if (is_map(n, FlagAdd | FlagSub) && n->nin == 2)
    return add_terms(s, norm, n->in[0], sign) &&
           add_terms(s, norm, n->in[1], n->op->flags & FlagSub ? -sign : sign);
  if (is_map(n, FlagDiv) && n->nin == 2) return add_scaled(s, norm, n->in[0], n->in[1], true, sign);
  if (!is_map(n, FlagMul) || n->nin != 2) return false;
  int scale = is_row(n->in[1], made) || is_column(n->in[1], made);
  return add_scaled(s, norm, n->in[1 - scale], n->in[scale], false, sign);
}

// ---- where the norm can follow ------------------------------------------------------------------

// The contraction from which maps of x's shape compute x, and whose kernel can reduce its rows, or
// NULL.
static const Node *made_by(const Node *x) {
  const Node *latest = NULL;
  if (x->op->cls == OpContract) {
    Maps m = maps_of(x, 0);
    int last = x->type.rank - 1;
    bool rows = !node_depthwise(x) && maps_phases(x) == 1 && maps_count(&m, AxisBatch) == 1 &&
                maps_dim(&m, MapOut, AxisN) == last && x->type.dim[last] % 4 == 0 &&
                maps_count(&m, AxisN) == x->type.dim[last];
    return rows && !x->fixed ? x : NULL;
  }
  for (int i = 0; x->op->cls == OpMap && i < x->nin; i++) {
    const Node *p = type_same_shape(&x->in[i]->type, &x->type) ? made_by(x->in[i]) : NULL;
    if (p && (!latest || p->id > latest->id)) latest = p;
  }
  return latest;
}

// Is n a contraction of rows with a fixed matrix?
static bool takes_rows(const Node *n) {
  if (n->op->cls != OpContract || n->fixed || !n->in[1]->fixed || n->in[1]->type.rank != 2 ||
      n->precision == PrecTf32 || maps_phases(n) > 1)
    return false;
  Maps m = maps_of(n, 0);
  int last = n->in[0]->type.rank - 1;
  return maps_count(&m, AxisBatch) == 1 && maps_dim(&m, MapA, AxisK) == last &&
         maps_count(&m, AxisK) == n->in[0]->type.dim[last] &&
         maps_dim(&m, MapOut, AxisN) == n->type.rank - 1 && m.rank[MapB] == 2;
}

// Do all tiles of the contraction that computes x fit in one wave? With more, the longer epilogue
// delays the following blocks: the block's projection with the norm after it took 97 us at batch 8
// on an H200, 72 us unfused; at batch 1 both took the same time.
static bool has_room(const Node *x, const Arch *arch) {
  enum { kTile = 128 * 128, kBlocks = 2 }; // outputs, blocks of an SM
  return type_count(&x->type) <= (int64_t)arch->sms * kBlocks * kTile;
}

static Norm *norm_of(const Norms *s, const Graph *g, Node *made, Dtype dtype) {
  Arena *arena = g->arena;
  Norm *norm = arena_alloc(arena, sizeof *norm);
  norm->made = made;
  bool sum = add_terms(s, norm, made, 1) && norm->x && norm->x != made && norm->count;
  bool made_here = sum && norm->x->type.dtype == dtype && made_by(norm->x);
  return made_here && has_room(norm->x, g->c->options.arch) ? norm : NULL;
}

// Only norms whose other readers are maps: these compute the norm of the elements that they read.
static void mark(const Graph *g, Norms *s) {
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i], *x;
    s->statistic[i] = n->uses ? statistic_of(n, &x) : NoStatistic;
    if (s->statistic[i]) s->reduced[x->id] = true;
  }
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    if (n->uses && takes_rows(n) && !s->of[n->in[0]->id])
      s->of[n->in[0]->id] = norm_of(s, g, n->in[0], prec_operand(n));
  }
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++) {
      const Node *n = g->nodes[i];
      bool map = n->op->cls == OpMap && type_same_shape(&n->type, &n->in[j]->type);
      if (!(j == 0 && takes_rows(n)) && !map) s->of[n->in[j]->id] = NULL;
    }
  for (int i = 0; i < g->noutputs; i++) s->of[g->outputs[i].node->id] = NULL;
  for (int i = 0; i < g->nupdates; i++) s->of[g->updates[i].value->id] = NULL;
  memset(s->reduced, 0, sizeof *s->reduced * (size_t)g->nnodes); // from here on: x of such norms
  for (int i = 0; i < g->nnodes; i++)
    if (s->of[i]) s->reduced[s->of[i]->x->id] = true;
}

// ---- the new graph ------------------------------------------------------------------------------

static Node *make(Graph *to, const char *op, Node *a, Node *b, const Attr *attr, Node *like) {
  Node *in[2] = {a, b};
  Node *n = graph_add(to, op_need(to->c, op), b ? 2 : 1, in, attr, like);
  shape_infer(to->c, n);
  n->type.dtype = DtF32;
  n->written = NULL;
  return n;
}

// A separate node each time (graph_move would share it): a shared one would be a kernel of init.
static Node *reshaped(Graph *to, Node *n, int rank, const int64_t *dims) {
  Attr shape = {0};
  memcpy(shape.dims, dims, sizeof *dims * (size_t)rank);
  Node *r = graph_add(to, op_need(to->c, "reshape"), 1, &n, &shape, n);
  r->type.rank = rank;
  shape_infer(to->c, r);
  r->type.dtype = n->type.dtype;
  return r;
}

static Node *number(Graph *to, double value, Node *like) {
  Attr attr = {.value = value};
  Node *n = graph_add(to, op_need(to->c, "const"), 0, NULL, &attr, like);
  n->type = type_make(DtF32, 0, NULL);
  return n;
}

// `of` (or 1 if NULL) times the factors, taken from the new graph.
static Node *scaled(Graph *to, Node *of, const Factor *factors, int count, Node *like) {
  for (int i = 0; i < count; i++) {
    Node *f = factors[i].node->subst;
    if (!of && factors[i].below) of = number(to, 1, like);
    of = of ? make(to, factors[i].below ? "div" : "mul", of, f, NULL, like) : f;
  }
  return of;
}

typedef struct Weights { // of the contraction, in the new graph
  Node *w;
  int k; // the dimension that is summed over
} Weights;

// The weights of a term: times its per-column factors, along k.
static Node *weighed(Graph *to, const Weights *w, const Term *t, Node *like) {
  Node *columns = scaled(to, NULL, t->column, t->ncolumns, like);
  if (!columns) return w->w;
  int64_t dims[2] = {1, 1};
  dims[w->k] = w->w->type.dim[w->k];
  return make(to, "mul", w->w, reshaped(to, columns, 2, dims), NULL, like);
}

// Weights summed over k: one value per column of the result.
static Node *summed(Graph *to, const Weights *w, Node *weights, Node *like) {
  Attr along = {.axes = 1ll << w->k};
  return make(to, "reduce_sum", weights, NULL, &along, like);
}

static bool same_factors(const Factor *a, const Factor *b, int count) {
  for (int i = 0; i < count; i++)
    if (a[i].node != b[i].node || a[i].below != b[i].below) return false;
  return true;
}

// Does t subtract the mean of x from the term of x?
static bool takes_mean(const Norm *norm, const Term *x, const Term *t) {
  return !t->has_x && t->sign == -x->sign && t->nrows == x->nrows + 1 && !t->row[0].below &&
         sum_is_mean(t->row[0].node, norm->x, last_axis(norm->x)) &&
         same_factors(t->row + 1, x->row, x->nrows) && t->ncolumns == x->ncolumns &&
         same_factors(t->column, x->column, x->ncolumns);
}

// The term's weights, minus their mean over k.
static Node *centred(Graph *to, const Weights *w, const Term *x, Node *like) {
  Node *weights = weighed(to, w, x, like), *other = weighed(to, w, x, like); // fused, not stored
  Node *share = number(to, 1 / (double)w->w->type.dim[w->k], like);
  Node *mean = make(to, "mul", summed(to, w, other, like), share, NULL, like);
  return make(to, "sub", weights, mean, NULL, like);
}

static Node *product_of(Graph *to, Node *x, Node *weights, Node *like) {
  Node *n = graph_add(to, like->op, 2, (Node *[]){x, weights}, &like->attr, like);
  shape_infer(to->c, n);
  n->type.dtype = DtF32; // before the norm is applied, the range of 16 bits may be exceeded
  return n;
}

// `of` (or 0 if NULL) plus or minus the value times the row factors of t.
static Node *plus(Graph *to, Node *of, const Term *t, Node *value, Node *like) {
  Node *row = scaled(to, NULL, t->row, t->nrows, like);
  if (row) value = make(to, "mul", value, row, NULL, like);
  if (of) return make(to, t->sign < 0 ? "sub" : "add", of, value, NULL, like);
  return t->sign < 0 ? make(to, "neg", value, NULL, NULL, like) : value;
}

static Node *follow(Graph *to, const Norm *norm, Node *node, Node *right) {
  Maps maps = maps_of(node, 0);
  Weights w = {right, maps_dim(&maps, MapB, AxisK)};
  const Term *x = norm->term, *mean = NULL;
  while (!x->has_x) x++;
  for (int i = 0; i < norm->count; i++)
    if (takes_mean(norm, x, &norm->term[i])) mean = &norm->term[i];
  Node *weights = mean ? centred(to, &w, x, node) : weighed(to, &w, x, node);
  Node *all = plus(to, NULL, x, product_of(to, norm->x->subst, weights, node), node);
  for (const Term *t = norm->term; t < norm->term + norm->count; t++) {
    if (t == x || t == mean) continue;
    Node *sum = summed(to, &w, weighed(to, &w, t, node), node);
    all = plus(to, all, t, reshaped(to, sum, 1, &sum->type.dim[1 - w.k]), node);
  }
  all->type.dtype = node->type.dtype;
  all->written = node->written;
  return all;
}

// A row statistic reduced in the epilogue of the kernel that computes x.
static Node *at_foot(Graph *to, Statistic statistic, Node *node, Node *x) {
  double count = (double)x->type.dim[x->type.rank - 1];
  const char *op = statistic == RowSum        ? "reduce_mean"
                   : statistic == RowVariance ? "reduce_var"
                                              : node->op->name;
  Node *sum = make(to, op, x, NULL, &node->attr, node);
  sum->foot = true;
  return statistic == RowSquares ? sum : make(to, "mul", sum, number(to, count, node), NULL, node);
}

// Is the map the division of a row statistic by the row's length?
static bool divides(const Norms *s, const Node *map) {
  Node *x, *sum = map->nin ? map->in[0] : NULL;
  if (!is_map(map, FlagMul) || !node_is_literal(map->in[1])) return false;
  Statistic of = s->statistic[sum->id];
  return (of == RowSum || of == RowVariance) && statistic_of(sum, &x) && s->reduced[x->id] &&
         fabs(map->in[1]->attr.value * (double)x->type.dim[x->type.rank - 1] - 1) < 1e-6;
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Norms *s = to->scratch;
  Node *x;
  if (divides(s, node)) return in[0]->in[0]; // the kernel computes the mean itself
  if (node->op->cls == OpContract && s->of[node->in[0]->id] && takes_rows(node))
    return follow(to, s->of[node->in[0]->id], node, in[1]);
  if (s->statistic[node->id] && statistic_of(node, &x) && s->reduced[x->id])
    return at_foot(to, s->statistic[node->id], node,
                   s->statistic[node->id] == RowSquares ? in[0] : x->subst);
  return graph_same(to, node, in);
}

Graph *fold_norms(Graph *g) {
  graph_count_uses(g);
  size_t count = (size_t)g->nnodes + 1;
  Norms s = {arena_alloc(g->arena, sizeof *s.of * count),
             arena_alloc(g->arena, sizeof *s.statistic * count),
             arena_alloc(g->arena, sizeof *s.reduced * count)};
  mark(g, &s);
  bool found = false;
  for (int i = 0; i < g->nnodes; i++) found = found || s.of[i];
  if (!found) return g;
  g = graph_rebuild(g, rewrite, &s);
  g->scratch = NULL;
  return g;
}
