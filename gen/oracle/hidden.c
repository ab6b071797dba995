// hidden.c: values at keys that no query sees. Attention kernels skip tiles whose scores are all
// -inf, while the definition gives NaN (0 * inf) if a value or derivative there is not finite. The
// accepted result is found by evaluating again with 0 * x = 0, and with the sum of any x and -inf
// being -inf.
#include "oracle.h"

#include <math.h>
#include <stdlib.h>

typedef double Change(double x);
static double finite_alone(double x) { return isfinite(x) ? x : 0; }
static double is_odd(double x) { return !isfinite(x); }
static double is_not_zero(double x) { return x != 0; }
static double is_lowest(double x) { return x == -INFINITY; }
static double nothing(double x) { return (void)x, 0; }

static double *changed(const double *x, int64_t count, Change *change) {
  double *y = base_alloc((size_t)count + 1, sizeof *y);
  for (int64_t i = 0; i < count; i++) y[i] = change(x[i]);
  return y;
}

// Evaluates n, of two inputs, with both inputs changed.
static double *eval_changed(Compiler *c, Node *n, double **value, Change *first, Change *second) {
  int id[2] = {n->in[0]->id, n->in[1]->id};
  double *save[2] = {value[id[0]], value[id[1]]}, *own = value[n->id];
  value[id[0]] = changed(save[0], type_count(&n->in[0]->type), first);
  value[id[1]] = changed(save[1], type_count(&n->in[1]->type), second);
  value[n->id] = NULL;
  eval_node(c, n, value);
  double *result = value[n->id];
  for (int i = 0; i < 2; i++) free(value[id[i]]), value[id[i]] = save[i];
  value[n->id] = own;
  return result;
}

// A sum that is not finite only through terms 0 * inf or 0 * NaN becomes the sum of finite terms.
static void leave_zeros_out(Compiler *c, Node *n, double **value) {
  double *y = value[n->id], *rest = eval_changed(c, n, value, finite_alone, finite_alone);
  double *right = eval_changed(c, n, value, is_not_zero, is_odd);
  double *left = eval_changed(c, n, value, is_odd, is_not_zero);
  for (int64_t i = 0; i < type_count(&n->type); i++)
    if (!isfinite(y[i]) && !right[i] && !left[i]) y[i] = rest[i];
  free(rest);
  free(right);
  free(left);
}

static bool any_odd(const double *x, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(x[i])) return true;
  return false;
}

static void mend(Compiler *c, Node *n, double **value) {
  int64_t count = type_count(&n->type);
  double *y = value[n->id];
  if (n->nin != 2 || n->in[0] == n->in[1] || !any_odd(y, count)) return;
  if (n->op->cls == OpContract) leave_zeros_out(c, n, value);
  if (n->op->cls != OpMap || !(n->op->flags & (FlagMul | FlagAdd | FlagSub))) return;
  bool times = n->op->flags & FlagMul;
  Change *change = times ? is_not_zero : is_lowest;
  double *flag = eval_changed(c, n, value, change, n->op->flags & FlagSub ? nothing : change);
  for (int64_t i = 0; i < count; i++) {
    if (times && !flag[i]) y[i] = 0;
    if (!times && flag[i]) y[i] = -INFINITY;
  }
  free(flag);
}

static double **alike(const Graph *g, double *const *value) {
  double **copy = base_alloc((size_t)g->nnodes + 1, sizeof *copy);
  for (int i = 0; i < g->nnodes; i++) copy[i] = value[i];
  return copy;
}

static double **mended_group(const Group *g, double *const *value) {
  double **again = alike(g->graph, value);
  for (int i = 0; i < g->nnodes; i++) again[g->nodes[i]->id] = NULL;
  for (int i = 0; i < g->nnodes; i++) {
    eval_node(g->graph->c, g->nodes[i], again);
    mend(g->graph->c, g->nodes[i], again);
  }
  return again;
}

typedef struct Mending {
  Graph *graph;
  double **value;
} Mending;

static void mend_after(void *user, const Node *n, double *value) {
  Mending *m = user;
  (void)value;
  mend(m->graph->c, m->graph->nodes[n->id], m->value);
}

static double **mended_graph(Graph *g, double *const *value) {
  double **again = alike(g, value);
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i]->op->cls != OpSource) again[i] = NULL;
  Mending m = {g, again};
  eval_graph(g, again, mend_after, &m);
  return again;
}

static void free_made(const Graph *g, double **again, double *const *value) {
  for (int i = 0; i < g->nnodes; i++)
    if (again[i] != value[i]) free(again[i]);
  free(again);
}

void hidden_allow(Graph *graph, const Group *g, double **value, const Node *n, const double *got) {
  int64_t count = type_count(&n->type), apart = 0;
  double *want = value[n->id];
  for (int64_t i = 0; i < count; i++) apart += isfinite(got[i]) && !isfinite(want[i]);
  if (!apart) return;
  double **again = g ? mended_group(g, value) : mended_graph(graph, value);
  for (int64_t i = 0; i < count; i++)
    if (isfinite(got[i]) && !isfinite(want[i])) want[i] = again[n->id][i];
  free_made(graph, again, value);
}
