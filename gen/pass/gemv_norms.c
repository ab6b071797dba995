// gemv_norms.c: a matrix-vector product that is scaled by a statistic of the vector itself, as
// after fold_norms.c: r (x w), r = rsqrt(mean of squares of x). The statistic needs a kernel of its
// own between the one that computes x and the product, which waits for it. Here each row of the
// product, which reads x anyway, reduces the statistic again, in one kernel with the product.
#include "pass.h"

#include <math.h>
#include <string.h>

enum { kMostSteps = 8 }; // maps between a reduction and the scale

typedef struct Scale {  // of a map: what it multiplies a product's rows by
  int input;            // of the map
  Node *statistic;      // the reduction of the vector
  const Node *products; // the elements that the product adds up
  Node *vector;         // as these read it
} Scale;

// The reduction from whose result maps and numbers compute n, a single number that nothing else
// needs; else NULL.
static Node *reduced_for(Node *n) {
  for (int step = 0; step < kMostSteps; step++) {
    if (type_count(&n->type) != 1 || !dtype_is_float(n->type.dtype)) return NULL;
    if (step > 0 && n->uses > 1) return NULL;
    if (n->op->cls == OpReduce) return n;
    Node *next = NULL;
    for (int i = 0; n->op->cls == OpMap && i < n->nin; i++) {
      if (node_is_literal(n->in[i])) continue;
      if (next && next != n->in[i]) return NULL;
      next = n->in[i];
    }
    if (!next) return NULL;
    n = next;
  }
  return NULL;
}

// The sum of products that n is, or of which maps of its shape compute it; else NULL.
static const Node *sum_for(const Node *n) {
  for (int step = 0; step < kMostSteps; step++) {
    const Node *next = NULL;
    if (n->op->cls == OpReduce) {
      const Node *in = n->in[0];
      bool pair = n->op->flags & FlagAdd && in->op->cls == OpMap && in->op->flags & FlagMul;
      return pair && in->nin == 2 && in->uses == 1 ? n : NULL;
    }
    for (int i = 0; n->op->cls == OpMap && i < n->nin && !next; i++)
      if (type_same_shape(&n->in[i]->type, &n->type)) next = n->in[i];
    if (!next) return NULL;
    n = next;
  }
  return NULL;
}

// Does `statistic` reduce the vector that `seen` is, or a map of it with itself such as its
// squares, whole?
static bool is_of(const Node *statistic, const Node *seen) {
  const Node *of = statistic->in[0], *x = node_is_move(seen, MovePermute) ? seen->in[0] : seen;
  bool squares = of->op->cls == OpMap && of->nin == 2 && of->in[0] == x && of->in[1] == x;
  return (of == x || squares) && type_count(&x->type) == type_count(&of->type);
}

// Does the vector have dimension d of the elements?
static bool runs_along(const Node *vector, const Type *elements, int d) {
  int at = d + vector->type.rank - elements->rank;
  return at >= 0 && vector->type.dim[at] > 1;
}

static int64_t axes_of(const Node *vector, const Type *elements) {
  int64_t axes = 0;
  for (int d = 0; d < elements->rank; d++)
    if (runs_along(vector, elements, d)) axes |= 1ll << d;
  return axes;
}

// Are the products summed along the vector, whose elements are neighbours, as in a row of a matrix?
static bool are_rows(const Node *sum, const Node *vector) {
  const Type *elements = &sum->in[0]->type;
  int64_t axes = axes_of(vector, elements);
  return sum->attr.axes == axes && type_axes_innermost(elements, axes);
}

// Are `work` more operations per element of the matrix, beside what gemv.c's kernel does with it
// and while memory is read, cheaper than a launch? Bounds overlap as in sched/sched_cost.c. (The
// kernel that is saved takes about two launches.)
static bool pays(const Arch *arch, const Node *matrix, double work) {
  enum { kIssue = 8 }; // operations per element of that kernel: an estimate
  double count = (double)type_count(&matrix->type);
  double read = gain_dram(arch, (double)type_bytes(&matrix->type)) / gain_compute(arch, count);
  double before = pow(pow(read, 4) + pow(kIssue, 4), 0.25);
  double after = pow(pow(read, 4) + pow(kIssue + work, 4), 0.25);
  return gain_compute(arch, count) * (after - before) < arch->launch_gap;
}

static bool find_scale(const Arch *arch, const Node *n, Scale *s) {
  if (n->op->cls != OpMap || n->nin != 2 || !(n->op->flags & (FlagMul | FlagDiv))) return false;
  for (int i = 0; i < 2; i++) {
    Node *scaled = n->in[1 - i];
    if (!type_same_shape(&scaled->type, &n->type) || type_count(&n->type) == 1) continue;
    Node *statistic = reduced_for(n->in[i]);
    const Node *sum = sum_for(scaled), *products = sum ? sum->in[0] : NULL;
    if (!statistic || !products || statistic->fixed) continue;
    int vector = products->in[0]->fixed;
    Node *matrix = products->in[1 - vector], *seen = products->in[vector];
    bool whole = matrix->fixed && type_count(&matrix->type) == type_count(&products->type) &&
                 type_count(&seen->type) < type_count(&matrix->type);
    if (!whole || !are_rows(sum, seen)) continue;
    // A square is multiplied and added at once.
    if (!is_of(statistic, seen) || !pays(arch, matrix, statistic->op->flops)) continue;
    *s = (Scale){i, statistic, products, seen};
    return true;
  }
  return false;
}

// ---- the new graph ------------------------------------------------------------------------------

// The vector, once for each row of the product. (A choice between equal values is no instruction.)
static Node *repeated(Graph *to, Node *vector, const Type *elements, const Node *like) {
  Type once = *elements;
  for (int d = 0; d < once.rank; d++)
    if (runs_along(vector, elements, d)) once.dim[d] = 1;
  Node *each = graph_add(to, op_need(to->c, "const"), 0, NULL, &(Attr){.value = 1}, (Node *)like);
  each->type = type_make(DtBool, once.rank, once.dim);
  Node *in[3] = {each, vector, vector};
  return graph_derive(to, op_need(to->c, "where"), 3, in, NULL, like, elements);
}

// n, a node of the old graph computed from the statistic, from that of each row.
static Node *again(Graph *to, Node *n, const Scale *s, const Type *elements) {
  Node *in[MaxInputs];
  if (n == s->statistic) {
    in[0] = in[1] = repeated(to, s->vector->subst, elements, n);
    const Node *of = n->in[0];
    if (of->op->cls == OpMap && of->nin == 2 && of->in[0] == of->in[1] && of != s->vector)
      in[0] = graph_derive(to, of->op, 2, in, &of->attr, of, elements);
    Attr along = n->attr;
    along.axes = axes_of(s->vector, elements);
    return graph_derive(to, n->op, 1, in, &along, n, elements);
  }
  for (int i = 0; i < n->nin; i++)
    in[i] = node_is_literal(n->in[i]) ? n->in[i]->subst : again(to, n->in[i], s, elements);
  return graph_derive(to, n->op, n->nin, in, &n->attr, n, elements);
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Scale *scale = to->scratch, *s = &scale[node->id];
  if (s->statistic) in[s->input] = again(to, node->in[s->input], s, &s->products->type);
  return graph_same(to, node, in);
}

Graph *gemv_norms(Graph *g) {
  graph_count_uses(g);
  size_t count = (size_t)g->nnodes + 1;
  Scale *scale = arena_alloc(g->arena, sizeof *scale * count);
  int *scales = arena_alloc(g->arena, sizeof *scales * count); // products, by id of the number
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (n->uses && find_scale(g->c->options.arch, n, &scale[i]))
      scales[n->in[scale[i].input]->id]++;
  }
  bool found = false;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *number = scale[i].statistic ? g->nodes[i]->in[scale[i].input] : NULL;
    if (number && scales[number->id] < number->uses) scale[i] = (Scale){0}; // its kernel remains
    found = found || scale[i].statistic;
  }
  if (!found) return g;
  g = graph_rebuild(g, rewrite, scale);
  g->scratch = NULL;
  return g;
}
