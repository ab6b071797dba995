// rounding.c: how far rounding alone may change a result. 1 - sigmoid(9) has few significant
// digits, and floor(x / s) jumps at an edge, however correct the kernel is. How an op amplifies the
// errors of its inputs is found by trials: the same values, each rounded to fp32, then perturbed by
// a little, up, down and at random, until what they allow explains the result. Of a difference of
// two sums many elements want several: the errors of a trial are as likely to cancel as to add up.
// A model's output is explained, too, where a trial moves all of it as far: behind steep scores
// each trial chooses others. Its kernels are checked one by one.
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { kUnits = 2 };                  // what functions are good to
enum { kTries = 4, kMostTries = 24 }; // all of them where the first ones explain half the error

// A try that perturbs nothing: each value is rounded to fp32, as a kernel has it. Scores to which
// -1e9 is added are all alike then, whatever they were.
static const int kInFp32 = -1;

// A try to find steps takes sums of products so many deviations from their value.
static const double kFar = 4;

typedef struct Nudge {
  int how; // kInFp32, 0: up, 1: down, else at random
  double unit;
  double far; // of sums of products alone
  const Graph *graph;
  double **value; // of its nodes in this trial
} Nudge;

// By how many units an element is off in this trial: at random 1 on average, as equal ones would
// cancel each other more often.
static double error_of(const Nudge *n, int node, int64_t i) {
  if (n->how < 2) return n->how ? -1 : 1;
  uint64_t z = ((uint64_t)node << 40) + (uint64_t)i * kMostTries + (uint64_t)n->how + 1;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (double)(int64_t)z * (0x1p-63 * 1.7320508);
}

static void nudge_all(const Nudge *by, int node, double *value, int64_t count) {
  for (int64_t i = 0; i < count; i++) // an infinity stays one, as a masked score does
    if (isfinite(value[i])) value[i] += value[i] * kUnits * by->unit * error_of(by, node, i);
}

// Adds or subtracts n one value of another shape to many, as a mean?
static bool shifts(const Node *n) {
  bool adds = n->op->cls == OpMap && n->op->flags & (FlagAdd | FlagSub) && n->nin == 2;
  return adds && (type_count(&n->in[0]->type) < type_count(&n->type) ||
                  type_count(&n->in[1]->type) < type_count(&n->type));
}

// x - m, for one m, is rounded alike for all x between two powers of two, which lie on one grid:
// in a random trial, too, such errors are all up, or all down, whatever the sign of the values.
// NOTE: of 40001 normal numbers less their mean they added up to 20 times what random ones do.
static void nudge_shifted(const Nudge *by, int node, double *value, int64_t count) {
  double sign = error_of(&(Nudge){.how = by->how + 2}, node, 0) < 0 ? -1 : 1; // each node its own
  for (int64_t i = 0; i < count; i++)
    if (isfinite(value[i])) value[i] += sign * fabs(value[i]) * by->unit;
}

// A sum is off by the rounding of its parts, which may be much beside it: by as much as if its
// terms were off, and each element of a running sum by itself.
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

// What n would be, were it this comparison, and its first input larger by `more` of itself.
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

// In one trial, floats that are equal but for rounding are equal: a kernel that computes a value
// again, as the derivative of amax does, has the bits of the one that it is compared with.
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
  bool moves = n->op->cls == OpMove || n->op->flags & FlagCopy; // and may store in a smaller dtype
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

// What an element may be: within `may` of `nearest`, the one of the exact value and those behind a
// step that is nearest to what the device has.
typedef struct Allowed {
  const double *want, *got;
  double *nearest, *may;
  double *forgiven; // got, less what is allowed
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

// Integers may be those of a try alone: of two places whose values are close either. Of floats that
// were cut they may lie on the way there, where half the error takes them half as far.
static void widen_whole(Allowed *a, const double *full, const double *half) {
  for (int64_t i = 0; i < a->count; i++) {
    double want = a->want[i], got = a->got[i], change = full[i] - want, before = half[i] - want;
    bool smooth = fabs(change) > 2 && fabs(change - 2 * before) <= 2; // each is cut to an integer
    bool between = got >= fmin(want, full[i]) && got <= fmax(want, full[i]);
    if (got == full[i] || got == half[i] || (smooth && between)) a->nearest[i] = got;
  }
}

// From the values of a try, and of one that is off by half as much: where that changes an element
// half as far, the way there is smooth, and all on it is allowed; else there is a step, and what is
// behind it is allowed. `steps`: that alone.
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

// All of it, relative to the value; of integers the share.
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

// How far a trial moves all of it.
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

// What rounding the operands of a product to tf32, or to 16 bits, makes of its sums: each term is
// off by some `unit` of its size, one up, another down. Where terms cancel, that is much beside the
// sum.
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

// The error of a term, by->unit being fp32's: of tf32, or what operands are rounded to in the
// kernel. Where they are exact, each addition is off by a unit of what has been added up by then,
// as sums of random signs grow.
static double term_error(const Node *n, const Nudge *by) {
  if (n->precision == PrecTf32) return by->unit * 0x1p13;
  return by->unit * hypot(check_rounded_operands(n) * 0x1p24, sqrt((double)check_terms(n)));
}

static void run_group(const Group *g, double **value, Nudge *by) {
  Compiler *c = g->graph->c;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    for (int j = 0; j < n->nin; j++) // constants
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
  for (int i = 0; i < g->nnodes; i++) { // what the group makes is made again
    free(again[g->nodes[i]->id]);
    again[g->nodes[i]->id] = NULL;
  }
  run_group(g, again, &by);
  return again;
}

// A value of the model as written may be stored in 16 bits, or is a sum in TF32; else as above.
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

// One try, which widens what is allowed; gives how far it moves all of a whole graph's value.
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
  double error = first.unlike ? INFINITY : first.relative; // no distance explains what is NaN
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
