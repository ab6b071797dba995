// rounding.c: how far rounding alone may change a result: 1 - sigmoid(9) has few significant
// digits, and floor(x / s) jumps at an edge, however correct the kernel is. The amplification of
// errors is found by trials: the same inputs with each value rounded to fp32, then perturbed
// slightly up, down and at random, until the trials explain the result. Results with cancellation
// need several trials, since errors may cancel. A model output is also explained if a trial moves
// it as a whole as far (after steep softmaxes each trial selects other elements); its kernels are
// checked singly.
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { kUnits = 2 };                  // accuracy of device math functions, in units of roundoff
enum { kTries = 4, kMostTries = 24 }; // the further ones only if the first explain half the error

// Trial without perturbation: each value is rounded to fp32, as in a kernel. For example scores to
// which -1e9 is added all become equal.
static const int kInFp32 = -1;

// Perturbation of contraction results, in standard deviations, when searching for discontinuities.
static const double kFar = 4;

typedef struct Nudge {
  int how; // kInFp32, 0: up, 1: down, else at random
  double unit;
  double far; // for contraction results only
  const Graph *graph;
  double **value; // by node id, in this trial
} Nudge;

// Error of an element in this trial, in units. Random ones have variance 1; signs of equal size
// would cancel each other more often.
static double error_of(const Nudge *n, int node, int64_t i) {
  if (n->how < 2) return n->how ? -1 : 1;
  uint64_t z = ((uint64_t)node << 40) + (uint64_t)i * kMostTries + (uint64_t)n->how + 1;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (double)(int64_t)z * (0x1p-63 * 1.7320508);
}

static void nudge_all(const Nudge *by, int node, double *value, int64_t count) {
  for (int64_t i = 0; i < count; i++) // infinities stay, as masked scores
    if (isfinite(value[i])) value[i] += value[i] * kUnits * by->unit * error_of(by, node, i);
}

// Does n add or subtract a broadcast value, such as a mean?
static bool shifts(const Node *n) {
  bool adds = n->op->cls == OpMap && n->op->flags & (FlagAdd | FlagSub) && n->nin == 2;
  return adds && (type_count(&n->in[0]->type) < type_count(&n->type) ||
                  type_count(&n->in[1]->type) < type_count(&n->type));
}

// x - m for a fixed m is rounded alike for all x between two powers of two, so in a random trial
// too the errors of a node have one direction. NOTE: for 40001 normal numbers minus their mean they
// added up to 20 times what independent errors do.
static void nudge_shifted(const Nudge *by, int node, double *value, int64_t count) {
  double sign = error_of(&(Nudge){.how = by->how + 2}, node, 0) < 0 ? -1 : 1; // one sign per node
  for (int64_t i = 0; i < count; i++)
    if (isfinite(value[i])) value[i] += sign * fabs(value[i]) * by->unit;
}

// Perturbs a sum by the error of its terms, which may be large relative to the sum; for a scan,
// each element separately.
static void nudge_terms(const Nudge *by, Node *n, double *value) {
  const Node *x = n->in[n->nin - 1];
  int64_t count = type_count(&x->type), bytes = count * (int64_t)sizeof(double);
  double *exact = by->value[x->id];
  by->value[x->id] = memcpy(base_alloc((size_t)count + 1, sizeof *exact), exact, (size_t)bytes);
  by->value[n->id] = NULL;
  nudge_all(by, n->id, by->value[x->id], count);
  eval_node(by->graph->c, n, by->value);
  for (int64_t i = 0; i < type_count(&n->type); i++)
    if (isfinite(value[i]))
      value[i] += copysign(by->value[n->id][i] - value[i], error_of(by, n->id, i));
  free(by->value[n->id]);
  free(by->value[x->id]);
  by->value[x->id] = exact, by->value[n->id] = value;
}

// Evaluates n as this comparison, with its first input increased by the fraction `more`.
static double *compare(const Nudge *by, const Node *n, const char *comparison, double more) {
  Node like = *n;
  const Node *x = n->in[0];
  int64_t count = type_count(&x->type);
  double *exact = by->value[x->id], *own = by->value[n->id];
  double *off = base_alloc((size_t)count + 1, sizeof *off);
  for (int64_t i = 0; i < count; i++) off[i] = exact[i] + more * fabs(exact[i]);
  like.op = op_need(by->graph->c, comparison);
  by->value[x->id] = off, by->value[n->id] = NULL;
  eval_node(by->graph->c, &like, by->value);
  double *result = by->value[n->id];
  by->value[x->id] = exact, by->value[n->id] = own;
  free(off);
  return result;
}

// In one trial, floats that are equal up to rounding compare as equal: a kernel that recomputes a
// value, as the derivative of amax does, gets the same bits.
static void find_equal(const Nudge *by, const Node *n, double *value) {
  enum { kNear = 16 }; // units
  const double near = kNear * kUnits * by->unit;
  if (by->how || near > 0x1p-16 || !dtype_is_float(n->in[0]->type.dtype) || n->nin != 2 ||
      !dtype_is_float(n->in[1]->type.dtype))
    return;
  double *least = compare(by, n, "le", -near), *most = compare(by, n, "ge", near);
  for (int64_t i = 0; i < type_count(&n->type); i++) value[i] = least[i] * most[i];
  free(least);
  free(most);
}

static void nudge(void *user, const Node *n, double *value) {
  const Nudge *by = user;
  bool moves = n->op->cls == OpMove || n->op->flags & FlagCopy; // moves may convert when storing
  bool exact = moves ? n->type.dtype == n->in[0]->type.dtype : n->op->flags & FlagExact;
  if (n->op->flags & FlagEqual) find_equal(by, n, value);
  if (!dtype_is_float(n->type.dtype) || n->op->cls == OpSource || exact) return;
  if (by->how == kInFp32) {
    for (int64_t i = 0; i < type_count(&n->type); i++) value[i] = (float)value[i];
    return;
  }
  if (n->op->cls == OpReduce || n->op->cls == OpScan || n->op->cls == OpScatter) // CLASS
    nudge_terms(by, by->graph->nodes[n->id], value);
  if (by->how >= 2 && shifts(n))
    nudge_shifted(by, n->id, value, type_count(&n->type));
  else
    nudge_all(by, n->id, value, type_count(&n->type));
}

// Accepted results: within `may` of `nearest`. `nearest` is the exact value, or the value beyond a
// discontinuity if that is closer to the device's.
typedef struct Allowed {
  const double *want, *got;
  double *nearest, *may;
  double *forgiven; // got, moved by the allowed error towards `nearest`
  int64_t count;
  bool whole; // integers, or bools
} Allowed;

static Allowed allow(const Node *n, const double *want, const double *got) {
  int64_t count = type_count(&n->type);
  Allowed a = {want,
               got,
               base_alloc((size_t)count + 1, sizeof(double)),
               base_alloc((size_t)count + 1, sizeof(double)),
               base_alloc((size_t)count + 1, sizeof(double)),
               count,
               !dtype_is_float(n->type.dtype)};
  memcpy(a.nearest, want, sizeof *want * (size_t)count);
  return a;
}

// Integers may equal the result of a trial (for example either of two indices with close values).
// Truncated floats may lie in between if half the perturbation has half the effect.
static void widen_whole(Allowed *a, const double *full, const double *half) {
  for (int64_t i = 0; i < a->count; i++) {
    double want = a->want[i], got = a->got[i], change = full[i] - want, before = half[i] - want;
    bool smooth = fabs(change) > 2 && fabs(change - 2 * before) <= 2; // both are truncated
    bool between = got >= fmin(want, full[i]) && got <= fmax(want, full[i]);
    if (got == full[i] || got == half[i] || (smooth && between)) a->nearest[i] = got;
  }
}

// Widens by a trial (`full`) and one with half the perturbation (`half`). If halving halves the
// change, the function is smooth there and the interval is allowed; otherwise it is a discontinuity
// and only the value beyond is allowed. steps: only discontinuities.
static void widen(Allowed *a, const double *full, const double *half, bool steps) {
  for (int64_t i = 0; i < a->count; i++) {
    double change = full[i] - a->want[i], before = half[i] - a->want[i];
    if (!isfinite(change) || !isfinite(before)) continue;
    bool smooth = fabs(change - 2 * before) <= fabs(change) / 2;
    if (smooth && !steps)
      a->may[i] = fmax(a->may[i], 2 * fabs(change));
    else if (!smooth && fabs(a->got[i] - full[i]) < fabs(a->got[i] - a->nearest[i]))
      a->nearest[i] = full[i];
  }
}

static void forgive(Allowed *a) {
  for (int64_t i = 0; i < a->count; i++) {
    double error = a->got[i] - a->nearest[i], may = a->may[i];
    double rest = fabs(error) <= may ? 0 : error > 0 ? error - may : error + may;
    a->forgiven[i] = isfinite(error) ? a->nearest[i] + rest : a->got[i];
  }
}

static double share_apart(const double *x, const double *y, int64_t count) {
  int64_t apart = 0;
  for (int64_t i = 0; i < count; i++) apart += x[i] != y[i];
  return count ? (double)apart / (double)count : 0;
}

// Total allowed error relative to the value; for integers the share of changed elements.
static double relative(const Allowed *a) {
  if (a->whole) return share_apart(a->nearest, a->want, a->count);
  double error = 0, norm = 0;
  for (int64_t i = 0; i < a->count; i++) {
    double e = fabs(a->nearest[i] - a->want[i]) + a->may[i];
    if (!isfinite(e) || !isfinite(a->want[i])) continue;
    error += e * e;
    norm += a->want[i] * a->want[i];
  }
  return check_relative(error, norm, a->count);
}

// How far a trial moves the whole value, relative to it.
static double distance(const Allowed *a, const double *value) {
  if (a->whole) return share_apart(value, a->want, a->count);
  double error = 0, norm = 0;
  for (int64_t i = 0; i < a->count; i++) {
    double e = value[i] - a->want[i];
    if (!isfinite(e)) continue;
    error += e * e;
    norm += a->want[i] * a->want[i];
  }
  return check_relative(error, norm, a->count);
}

static void free_allowed(Allowed *a) {
  free(a->nearest);
  free(a->may);
  free(a->forgiven);
}

static double **copy_known(const Graph *g, double *const *value, bool sources) {
  double **copy = base_alloc((size_t)g->nnodes + 1, sizeof *copy);
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    size_t bytes = sizeof(double) * (size_t)type_count(&n->type);
    if (!value[i] || (sources && n->op->cls != OpSource)) continue;
    copy[i] = memcpy(base_alloc(bytes / sizeof(double) + 1, sizeof(double)), value[i], bytes);
  }
  return copy;
}

static void free_all(const Graph *g, double **value) {
  for (int i = 0; i < g->nnodes; i++) free(value[i]);
  free(value);
}

static double *squares(const double *x, int64_t count) {
  double *y = base_alloc((size_t)count + 1, sizeof *y);
  for (int64_t i = 0; i < count; i++) y[i] = x[i] * x[i];
  return y;
}

// Perturbs a contraction for rounding its operands to TF32 or 16 bits: each term is off by about
// `unit` of its size with random sign, which is large relative to sums that cancel.
static void nudge_product(Compiler *c, Node *n, double **value, const Nudge *by, double unit) {
  Node *a = n->in[0], *b = n->in[1];
  double *save_a = value[a->id], *save_b = value[b->id], *sums = value[n->id];
  value[a->id] = squares(save_a, type_count(&a->type));
  value[b->id] = a == b ? value[a->id] : squares(save_b, type_count(&b->type));
  value[n->id] = NULL;
  eval_node(c, n, value);
  int64_t count = type_count(&n->type);
  for (int64_t i = 0; i < count; i++)
    sums[i] += by->far * unit * sqrt(value[n->id][i]) * error_of(by, n->id, i);
  free(value[n->id]);
  free(value[a->id]);
  if (a != b) free(value[b->id]);
  value[a->id] = save_a, value[b->id] = save_b, value[n->id] = sums;
}

// Relative error of a term, by->unit being fp32's: TF32's, or that of operands rounded in the
// kernel. For exact operands each addition is off by a unit of the partial sum, which grows like a
// random walk.
static double term_error(const Node *n, const Nudge *by) {
  if (n->precision == PrecTf32) return by->unit * 0x1p13;
  return by->unit * hypot(check_rounded_operands(n) * 0x1p24, sqrt((double)check_terms(n)));
}

static void run_group(const Group *g, double **value, Nudge *by) {
  Compiler *c = g->graph->c;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    for (int j = 0; j < n->nin; j++) // constants and indices
      if (!value[n->in[j]->id]) eval_node(c, n->in[j], value);
    eval_node(c, n, value);
    nudge(by, n, value[n->id]);
    if (n->op->cls == OpContract && by->how != kInFp32)
      nudge_product(c, n, value, by, term_error(n, by));
  }
}

static double **try_group(const Group *g, double *const *value, const Nudge *like, double unit) {
  double **again = copy_known(g->graph, value, false);
  Nudge by = {like->how, unit, like->far, g->graph, again};
  for (int i = 0; i < g->nnodes; i++) { // recompute the group's nodes
    free(again[g->nodes[i]->id]);
    again[g->nodes[i]->id] = NULL;
  }
  run_group(g, again, &by);
  return again;
}

// Values of the model as written may be stored in 16 bits, or be TF32 sums; else as above.
static double stored_term_error(const Node *n, const Nudge *by) {
  if (n->precision == PrecFp32) return by->unit * sqrt((double)check_terms(n));
  return by->unit < 0x1p-20 ? by->unit * 0x1p13 : by->unit;
}

static void nudge_stored(void *user, const Node *n, double *value) {
  const Nudge *by = user;
  nudge(user, n, value);
  if (n->op->cls != OpContract || by->how == kInFp32) return;
  nudge_product(by->graph->c, by->graph->nodes[n->id], by->value, by, stored_term_error(n, by));
}

static double **try_graph(Graph *g, double *const *value, const Nudge *like, double unit) {
  double **again = copy_known(g, value, true);
  Nudge by = {like->how, unit, like->far, g, again};
  eval_graph(g, again, nudge_stored, &by);
  return again;
}

static bool multiplies(const Group *g) {
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) any = any || g->nodes[i]->op->cls == OpContract;
  return any;
}

// Runs one trial, which widens what is allowed. Returns how far it moves a whole graph's value.
static double try_once(Graph *graph, const Group *g, double *const *value, const Node *n,
                       const Nudge *by, Allowed *a) {
  double **full = g ? try_group(g, value, by, by->unit) : try_graph(graph, value, by, by->unit);
  double **half =
      g ? try_group(g, value, by, by->unit / 2) : try_graph(graph, value, by, by->unit / 2);
  if (a->whole)
    widen_whole(a, full[n->id], half[n->id]);
  else
    widen(a, full[n->id], half[n->id], by->far > 1);
  double moved = g ? 0 : distance(a, full[n->id]);
  free_all(graph, full);
  free_all(graph, half);
  return moved;
}

double rounding_explains(Graph *graph, const Group *g, double *const *value, const Node *n,
                         double unit, const double *got, const double *bound, double gate) {
  Allowed a = allow(n, value[n->id], got);
  CheckResult first = check_values(n, a.want, got, bound, gate, n->type.dtype), r = {0};
  double error = first.unlike ? INFINITY : first.relative; // no perturbation explains NaN
  double moved = 0;
  for (int how = kInFp32; how < kMostTries && !r.passed && !(moved >= error); how++) {
    if (how >= kTries && !a.whole && !(r.relative <= error / 2)) break;
    Nudge by = {.how = how, .unit = unit, .far = 1}, far = {.how = how, .unit = unit, .far = kFar};
    moved = fmax(moved, try_once(graph, g, value, n, &by, &a));
    if (how >= 0 && how < 2 && (g ? multiplies(g) : a.whole))
      try_once(graph, g, value, n, &far, &a);
    forgive(&a);
    r = check_values(n, a.nearest, a.forgiven, bound, gate, n->type.dtype);
  }
  double allowed = r.passed ? relative(&a) : moved >= error ? moved : 0;
  free_allowed(&a);
  return allowed;
}
