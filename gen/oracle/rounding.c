// rounding.c: how far rounding alone may change a result. 1 - sigmoid(9) has few significant
// digits, and floor(x / s) jumps at an edge, however correct the kernel is. How an op amplifies the
// errors of its inputs is found by trials: the same values, each perturbed by a little, up, down
// and at random.
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { kTries = 4, kUnits = 2 }; // functions are good to two units

typedef struct Nudge {
  int how; // 0: up, 1: down, else at random
  double unit;
} Nudge;

// A pseudorandom sign from the index of an element and the trial.
static double sign_of(const Nudge *n, int node, int64_t i) {
  if (n->how < 2) return n->how ? -1 : 1;
  uint64_t z = ((uint64_t)node << 40) + (uint64_t)i * 4 + (uint64_t)n->how + 1;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z >> 63 ? 1 : -1;
}

static void nudge(void *user, const Node *n, double *value) {
  const Nudge *by = user;
  bool exact = n->op->cls == OpMove || n->op->flags & (FlagCopy | FlagStep);
  if (!dtype_is_float(n->type.dtype) || n->op->cls == OpSource || exact) return;
  int64_t count = type_count(&n->type);
  for (int64_t i = 0; i < count; i++)
    value[i] += value[i] * kUnits * by->unit * sign_of(by, n->id, i);
}

// What an element may be: within `may` of `nearest`, the one of the exact value and those behind a
// step that is nearest to what the device has.
typedef struct Allowed {
  const double *want, *got;
  double *nearest, *may;
  int64_t count;
} Allowed;

static Allowed allow(const double *want, const double *got, int64_t count) {
  Allowed a = {want, got, base_alloc((size_t)count + 1, sizeof(double)),
               base_alloc((size_t)count + 1, sizeof(double)), count};
  memcpy(a.nearest, want, sizeof *want * (size_t)count);
  return a;
}

// From the values of a try, and of one that is off by half as much: where that changes an element
// half as far, the way there is smooth, and all on it is allowed; else there is a step, and what is
// behind it is allowed.
static void widen(Allowed *a, const double *full, const double *half) {
  for (int64_t i = 0; i < a->count; i++) {
    double change = full[i] - a->want[i], before = half[i] - a->want[i];
    if (!isfinite(change) || !isfinite(before)) continue;
    if (fabs(change - 2 * before) <= fabs(change) / 2)
      a->may[i] = fmax(a->may[i], 2 * fabs(change));
    else if (fabs(a->got[i] - full[i]) < fabs(a->got[i] - a->nearest[i]))
      a->nearest[i] = full[i];
  }
}

// Takes from the errors of got what is allowed.
static void forgive(Allowed *a, double *got) {
  for (int64_t i = 0; i < a->count; i++) {
    double error = got[i] - a->nearest[i], may = a->may[i];
    if (!isfinite(error)) continue;
    got[i] = a->want[i] + (fabs(error) <= may ? 0 : error > 0 ? error - may : error + may);
  }
  free(a->nearest);
  free(a->may);
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

// What rounding the operands of a product to tf32 makes of its sums: each term is off by some 2^-11
// of its size, one up, another down. Where terms cancel, that is much beside the sum.
static void nudge_product(Compiler *c, Node *n, double **value, const Nudge *by) {
  Node *a = n->in[0], *b = n->in[1];
  double *save_a = value[a->id], *save_b = value[b->id], *sums = value[n->id];
  value[a->id] = squares(save_a, type_count(&a->type));
  value[b->id] = a == b ? value[a->id] : squares(save_b, type_count(&b->type));
  value[n->id] = NULL;
  eval_node(c, n, value);
  double unit = by->unit * 0x1p13; // of tf32, where by->unit is fp32's
  int64_t count = type_count(&n->type);
  for (int64_t i = 0; i < count; i++)
    sums[i] += unit * sqrt(value[n->id][i]) * sign_of(by, n->id, i);
  free(value[n->id]);
  free(value[a->id]);
  if (a != b) free(value[b->id]);
  value[a->id] = save_a, value[b->id] = save_b, value[n->id] = sums;
}

static void run_group(const Group *g, double **value, Nudge *by) {
  Compiler *c = g->graph->c;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    for (int j = 0; j < n->nin; j++) // constants
      if (!value[n->in[j]->id]) eval_node(c, n->in[j], value);
    eval_node(c, n, value);
    nudge(by, n, value[n->id]);
    if (n->op->cls == OpContract && n->precision == PrecTf32) nudge_product(c, n, value, by);
  }
}

static double **try_group(const Group *g, double *const *value, int how, double unit) {
  Nudge by = {how, unit};
  double **again = copy_known(g->graph, value, false);
  for (int i = 0; i < g->nnodes; i++) { // what the group makes is made again
    free(again[g->nodes[i]->id]);
    again[g->nodes[i]->id] = NULL;
  }
  run_group(g, again, &by);
  return again;
}

static double **try_graph(Graph *g, double *const *value, int how, double unit) {
  Nudge by = {how, unit};
  double **again = copy_known(g, value, true);
  eval_graph(g, again, nudge, &by);
  return again;
}

void rounding_forgive(Graph *graph, const Group *g, double *const *value, const Node *n,
                      double unit, double *got) {
  Allowed a = allow(value[n->id], got, type_count(&n->type));
  for (int how = 0; how < kTries; how++) {
    double **full = g ? try_group(g, value, how, unit) : try_graph(graph, value, how, unit);
    double **half = g ? try_group(g, value, how, unit / 2) : try_graph(graph, value, how, unit / 2);
    widen(&a, full[n->id], half[n->id]);
    free_all(graph, full);
    free_all(graph, half);
  }
  forgive(&a, got);
}
