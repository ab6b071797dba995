// attend_problem.c: the problem of attention, of its backward kernels and of sums of attention
// gradients: axes, operands, what is summed.
#include "attend.h"

#include <stdlib.h>
#include <string.h>

static int axis_of(const Maps *m, int tensor, int d) {
  int i = 0;
  while (i < m->naxes && !m->dim[tensor][d].by[i]) i++;
  return i;
}

static int axis_dim(const Maps *m, int axis) { // in the left operand
  int d = 0;
  while (!m->dim[MapA][d].by[axis]) d++;
  return d;
}

static void put_axis(Maps *to, const Maps *from, int j, AxisRole role) {
  int i = to->naxes++;
  to->axis[i] = from->axis[j];
  to->axis[i].role = role;
  for (int t = 0; t < 3; t++)
    for (int d = 0; d < from->rank[t]; d++) to->dim[t][d].by[i] = from->dim[t][d].by[j];
}

// Axes of scores in the order of those of the values: dimension d of the score product's result is
// dimension d of the values' left operand. turned: the score product's operands are exchanged.
static Maps aligned_axes(const Node *product, bool turned, const Maps *values) {
  Maps from = product_axes(product), to = from;
  to.naxes = 0;
  for (int role = 0; role < AxisRoles; role++) // columns of scores are the k of values
    for (int i = 0; i < values->naxes; i++) {
      if ((int)values->axis[i].role != role || role == AxisN) continue;
      int j = axis_of(&from, MapOut, axis_dim(values, i));
      put_axis(&to, &from, j, role == AxisK ? AxisN : (AxisRole)role);
    }
  for (int j = 0; j < from.naxes; j++)
    if (from.axis[j].role == AxisK) put_axis(&to, &from, j, AxisK);
  if (!turned) return to;
  Maps left = to;
  for (int t = MapA; t <= MapB; t++) {
    to.rank[t] = left.rank[MapB - t], to.type[t] = left.type[MapB - t];
    memcpy(to.dim[t], left.dim[MapB - t], sizeof to.dim[t]);
  }
  return to;
}

// Permutes the values' left operand to the order of the scores' dimensions.
static void turn_weights(Maps *m, const Attention *a) {
  IndexMap dim[MaxRank];
  memcpy(dim, m->dim[MapA], sizeof dim);
  for (int d = 0; d < m->rank[MapA]; d++) m->dim[MapA][d] = dim[a->place[d]];
}

// Do the values have the same memory rows as operand i (keys), in any order of dimensions?
static bool values_are_keys(const Attending *a, int i) {
  const Operand *keys = &a->operand[i], *rows = &a->operand[2 * a->nproducts];
  const Maps *scores = &a->scores[i / 2], *values = a->values.maps;
  if (keys->base != rows->base || keys->offset != rows->offset || a->depth[i / 2] != a->width)
    return false;
  int j = 0; // axes of both in the same order: batches, rows, keys
  for (int role = 0; role < AxisRoles; role++)
    for (int x = 0; x < values->naxes; x++) {
      if ((int)values->axis[x].role != role || role == AxisN) continue;
      if (axis_stride(scores, MapB, keys->stride, j) != axis_stride(values, MapB, rows->stride, x))
        return false;
      j++;
    }
  return true;
}

// Multiplications by constants and the first subtraction of an exponent that cost no instruction:
// with the factor log2(e) they are one multiply-add (emit_attend_backward.c, 16-bit operands).
static int joined_issue(const Group *g) {
  const Attention *a = g->attention;
  int count = 0;
  bool subtracted = false;
  if (dtype_size(prec_operand(a->product[0])) != 2 || !a->power) return 0;
  for (const Node *n = a->power->in[0]; n->group == g && n->op->cls == OpMap;) {
    bool where = n->op->typing == TypeWhere;
    bool joins = n->op->flags & FlagSub || (n->op->flags & FlagMul && node_is_literal(n->in[1]));
    if ((!where && !joins) || (subtracted && n->op->flags & FlagSub)) break;
    subtracted = subtracted || n->op->flags & FlagSub;
    count += joins;
    n = n->in[where ? 1 + node_is_literal(n->in[1]) : 0];
  }
  return count;
}

// Instructions of the score function, without its scale and the conditions that plain tiles omit.
static int expression_issue(const Group *g) {
  const Node *score = g->attention->score;
  const Type *t = &score->type;
  int64_t matrix = t->dim[t->rank - 2] * t->dim[t->rank - 1];
  int issue = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool each = n->op->cls == OpMap && n->id <= score->id && type_count(&n->type) >= matrix;
    bool scale = n->op->flags & FlagMul && node_is_literal(n->in[1]);
    if (each && !scale && n->type.dtype != DtBool && n->op->typing != TypeWhere &&
        n->op->typing != TypeDraw)
      issue += n->op->flops;
  }
  return issue;
}

// Instructions per score, without products: of the softmax, or of the backward maps.
static int score_issue(const Group *g, bool softmax) {
  enum { kExponential = 2, kSoftmax = 5 }; // kSoftmax: scale, maximum, exp, sum, half a pack
  int issue = 1 - (softmax ? 0 : joined_issue(g)); // half a pack, half a load of a row value
  if (softmax) return kSoftmax + expression_issue(g);
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool map = n->op->cls == OpMap && type_same_shape(&n->type, &g->attention->score->type);
    if (map && n->id < g->anchor->id) issue += n->op->flags & FlagExp ? kExponential : n->op->flops;
  }
  return issue;
}

// Is the score a scaled product, masked by comparisons of shifted positions and constants only?
// Then the score function and its mask spans need almost no registers.
static bool is_simple(const Group *g, const Node *n) {
  const Attention *a = g->attention;
  for (int i = 0; i < a->nproducts; i++)
    if (n == a->product[i]) return true;
  bool computed = node_is_computed(n);
  if (node_is_literal(n) || computed) return true;
  bool scale = n->op->flags & FlagMul && node_is_literal(n->in[1]),
       apart = n->op->flags & (FlagAdd | FlagSub) && !dtype_is_float(n->type.dtype),
       condition = n->op->typing == TypeCompare || n->op->typing == TypeLogic ||
                   n->op->typing == TypeWhere;
  if (n->group != g || !(n->op->cls == OpMove || scale || apart || condition)) return false;
  for (int i = 0; i < n->nin; i++)
    if (!is_simple(g, n->in[i])) return false;
  return true;
}

// Counts values per row, per key and scalars that probabilities read, apart from heads; a thread
// keeps its own in registers.
static int count_numbers(const Group *g) {
  int count = 0;
  for (int i = 0; i < g->ninputs; i++) {
    const Node *n = g->inputs[i];
    int large = 0; // dimensions among the last two that are larger than 1
    for (int d = n->type.rank - 2; d < n->type.rank; d++) large += d >= 0 && n->type.dim[d] > 1;
    count += large < 2;
  }
  for (int i = 0; i < g->nnodes; i++)
    count += g->nodes[i]->op->cls == OpMove && type_count(&g->nodes[i]->type) == 1;
  return count;
}

// Counts conditions and expensive functions, apart from those of random numbers.
static int count_beside(const Group *g) {
  enum { kMany = 8 };
  int draws = 0, others = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const Op *op = g->nodes[i]->op;
    draws += op->typing == TypeDraw;
    others += op->typing == TypeCompare || (op->cls == OpMap && op->typing != TypeDraw &&
                                            op->flops >= kMany && !(op->flags & FlagExp));
  }
  return draws && others > draws ? others - draws : 0;
}

// Does n have a value per row and key?
static bool is_matrix(const Attending *a, const Node *n) {
  const Type *t = &n->type;
  int64_t last = t->dim[t->rank - 1], before = t->rank > 1 ? t->dim[t->rank - 2] : 1;
  return (last == a->keys && before == a->rows) || (last == a->rows && before == a->keys);
}

// Finds what probabilities read besides products and floats per row or key.
static void find_taken(const Group *g, Attending *a, const Node *n, bool *seen) {
  const Attention *of = g->attention;
  if (seen[n->id] || n == of->product[0] || (of->nproducts > 1 && n == of->product[1])) return;
  seen[n->id] = true;
  if (n->group != g && type_count(&n->type) > 1 && !node_is_computed(n)) {
    bool matrix = is_matrix(a, n);
    a->takes_matrix = a->takes_matrix || matrix;
    a->takes_in = a->takes_in || matrix || n->type.dtype != DtF32;
  }
  if (n->group != g) return;
  bool gathers = node_is_move(n, MoveGather);
  a->takes_in = a->takes_in || gathers || n->op->typing == TypeDraw;
  for (int i = 0; i < n->nin; i++) find_taken(g, a, n->in[i], seen);
}

// A sum of attention gradients, as a product without columns.
static Product sum_product(const Group *g) {
  const Attention *a = g->attention;
  Product p = {.phases = 1, .maps = arena_alloc(g->graph->arena, sizeof *p.maps)};
  *p.maps = attend_backward_sum_axes(g->anchor, a->product[0], a->place);
  p.size = (int)dtype_size(prec_operand(a->product[0]));
  p.m = maps_count(p.maps, AxisM), p.k = p.longest = maps_count(p.maps, AxisK);
  p.n = 0, p.batch = maps_count(p.maps, AxisBatch), p.whole = 1;
  return p;
}

// Is the axis summed, that is, absent from the result?
static bool is_summed(const Maps *m, int axis) {
  for (int d = 0; d < m->rank[MapOut]; d++)
    if (m->dim[MapOut][d].by[axis]) return false;
  return true;
}

static void find_sums(Attending *a) {
  const Maps *m = a->values.maps;
  a->sums = true, a->looped = 1;
  for (int i = 0; i < m->naxes; i++) {
    if (!is_summed(m, i)) continue;
    if (m->axis[i].role == AxisBatch) a->looped *= m->axis[i].size;
    if (m->axis[i].role == AxisM) a->sums_rows = true;
    if (m->axis[i].role == AxisK) a->sums_keys = true;
  }
}

// ---- operands with a prologue (norm, rotary) --------------------------------------------------

// Counts instructions per element of n, each node once; for reduced rows of `elements`, those of
// each element are added again. Returns the number of dependent loads.
static int count_issue(const Group *g, const Node *n, double elements, bool *seen, double *issue) {
  enum { kLoad = 4 }; // address, load, conversion
  if (n->group != g) {
    bool read = type_count(&n->type) > 1 && (n->op->cls != OpSource || node_has_memory(n));
    *issue += read ? kLoad : 1;
    return read;
  }
  if (seen[n->id]) return 0;
  seen[n->id] = true;
  double inside = n->op->cls == OpReduce ? kLoad : 0; // inputs of a reduction are read again
  int waits = 0;
  for (int i = 0; i < n->nin; i++) {
    double input = 0;
    int more = count_issue(g, n->in[i], elements, seen, &input);
    bool some = node_is_move(n, MoveConcat); // only a part of the elements
    inside += some ? input * (double)type_count(&n->in[i]->type) / (double)type_count(&n->type)
                   : input;
    if (more > waits) waits = more;
  }
  double row = n->op->cls == OpReduce
                   ? (double)(type_count(&n->in[0]->type) / type_count(&n->type)) / elements
                   : 1;
  *issue += (inside + n->op->flops) * row;
  return waits + (n->op->cls == OpReduce);
}

static void find_issue(const Group *g, const Attention *a, int i, Operand *o) {
  enum { kStore = 2 };
  double issue = kStore, elements = (double)a->operand[i]->type.dim[a->along[i]];
  bool *seen = base_alloc((size_t)g->graph->nnodes + 1, sizeof *seen);
  o->waits = count_issue(g, a->operand[i], elements, seen, &issue);
  o->issue = (int)issue;
  free(seen);
}

// Backward kernels may read f32 values per key; a value per row may have as many elements.
bool attend_is_of_keys(const Attending *a, const Node *n) {
  return !a->softmax && !a->sums && n->type.dtype == DtF32 &&
         type_count(&n->type) == a->batch * a->keys;
}

Attending attend_problem(const Group *g) {
  const Attention *attention = g->attention;
  int count = attention->nproducts;
  bool sums = attention->noperands == 2 * count;
  Attending a = {.values = sums ? sum_product(g) : contract_product(g),
                 .nproducts = count,
                 .shared = 2 * count};
  if (sums) find_sums(&a);
  turn_weights(a.values.maps, attention);
  a.softmax = attention->nsteps >= 0;
  a.rows = a.values.m, a.keys = a.values.k, a.width = a.values.n, a.batch = a.values.batch;
  for (int i = 0; i < count; i++) {
    a.scores[i] = aligned_axes(attention->product[i], attention->turned[i], a.values.maps);
    a.depth[i] = maps_count(&a.scores[i], AxisK);
  }
  a.size = a.values.size;
  a.score_issue = score_issue(g, a.softmax);
  a.simple = a.softmax && is_simple(g, attention->score);
  for (int i = 0; i < g->nnodes; i++) a.draws = a.draws || g->nodes[i]->op->typing == TypeDraw;
  a.beside = count_beside(g);
  a.numbers = count_numbers(g);
  bool *seen = base_alloc((size_t)g->graph->nnodes + 1, sizeof *seen);
  find_taken(g, &a, g->anchor->in[0], seen);
  free(seen);
  for (int i = 0; i < attention->noperands; i++) {
    Operand *o = &a.operand[i];
    o->piece = attend_piece(g, attention, i, o->stride, &o->offset, &o->base);
    if (!o->piece && !a.softmax)
      die("%s: an operand of attention is not contiguous", g->anchor->name);
    if (!o->piece) find_issue(g, attention, i, o);
  }
  for (int i = 0; i < g->ninputs; i++)
    if (attend_is_of_keys(&a, g->inputs[i]) && a.key_values < kMostKeyValues) a.key_values++;
  for (int i = 1; i < 2 * count && !a.softmax && !sums; i += 2)
    if (values_are_keys(&a, i)) a.shared = i;
  return a;
}
