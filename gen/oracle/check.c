// check.c: compares results with the oracle by two gates: the relative L2 error of a whole value
// and, for contractions whose epilogue does not amplify errors, a bound on every element: |error|
// <= c K u (|A||B|) + the rounding of the store. The bound finds single wrong elements that the
// norm hides. NaN never passes. Integers and bools must match exactly unless rounding explains the
// difference; downstream of 16-bit or TF32 values they are not checked end to end.
//
// Kernels are checked one by one: a group is evaluated in double on the inputs that it read, so
// that the first wrong kernel is named. Outputs are checked against the model as written.
// the first wrong kernel is named. The outputs are checked against the model as written.
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Unit roundoff of a stored dtype.
static double roundoff(Dtype dtype) {
  return dtype == DtF16 ? 0x1p-11 : dtype == DtBf16 ? 0x1p-8 : 0x1p-24;
}

static const double kTf32Roundoff = 0x1p-11;

// The largest number of a float dtype.
static double largest(Dtype dtype) {
  return dtype == DtF16 ? 65504 : dtype == DtBf16 ? 0x1.fep127 : FLT_MAX;
}

double check_model_gate(const char *dtype) {
  static const struct {
    const char *dtype;
    double gate;
  } gates[] = {{"fp32", 1e-5}, {"tf32", 1e-3}, {"fp16", 2e-3}, {"bf16", 1e-2}};
  for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++)
    if (!strcmp(gates[i].dtype, dtype)) return gates[i].gate;
  die("no gate for dtype %s", dtype);
}

// Equal, where NaN = NaN, and infinity equals values beyond `most`.
static bool same_number(double want, double got, double most) {
  if (want == got || (isnan(got) && isnan(want))) return true;
  return isinf(got) && (got > 0 ? want >= most : want <= -most);
}

// The root mean square of a value is taken as at least 0.003, so that sums that cancel to near 0
// are not compared relative to it.
double check_relative(double error, double norm, int64_t count) {
  return count ? sqrt(error / fmax(norm, 9e-6 * (double)count)) : 0;
}

static double unsigned_nan(double x) { // print nan without a sign
  return isnan(x) ? NAN : x;
}

CheckResult check_compare(const double *want, const double *got, const double *bound, int64_t count,
                          double gate, double most) {
  CheckResult r = {.gate = gate, .worst = -1};
  double error = 0, norm = 0;
  most *= 1 - fmin(gate, 0.01); // a value within the gate of `most` may be stored as infinity
  for (int64_t i = 0; i < count; i++) {
    double e = got[i] - want[i];
    bool same = same_number(want[i], got[i], most);
    if (same) e = 0;
    r.infinite += same && isinf(got[i]) && isfinite(want[i]);
    bool unlike = !same && isfinite(got[i]) != isfinite(want[i]);
    r.unlike += unlike;
    if (isfinite(e)) error += e * e;
    if (isfinite(want[i]) && isfinite(got[i])) norm += want[i] * want[i];
    bool over = bound && !same && !(fabs(e) <= bound[i]);
    if (over || unlike || (!same && !isfinite(got[i]))) {
      r.bad++;
      if (r.worst < 0) r.worst = i, r.want = unsigned_nan(want[i]), r.got = unsigned_nan(got[i]);
    }
    if (isfinite(e) && fabs(e) > r.max_error) r.max_error = fabs(e);
  }
  r.relative = check_relative(error, norm, count);
  r.passed = r.relative <= gate && !r.bad;
  return r;
}

CheckResult check_equal(const double *want, const double *got, int64_t count, double gate) {
  CheckResult r = {.gate = gate, .worst = -1};
  for (int64_t i = 0; i < count; i++) {
    if (want[i] == got[i]) continue;
    if (!r.differ++) r.worst = i, r.want = want[i], r.got = got[i];
    r.max_error = fmax(r.max_error, fabs(want[i] - got[i]));
  }
  if (count) r.relative = (double)r.differ / (double)count;
  r.passed = !r.differ || isinf(gate);
  return r;
}

// ---- one kernel -------------------------------------------------------------------------------

static double stored_roundoff(const Node *n) {
  return n->tf32 ? kTf32Roundoff : roundoff(n->type.dtype);
}

// Unit roundoff of n as stored, or as converted by the model (x:half()).
static double rounding_of(const Node *n) {
  double stored = stored_roundoff(n);
  return n->op->typing == TypeConvert ? fmax(stored, roundoff((Dtype)n->attr.dtype)) : stored;
}

// Relative error of operand elements of contraction n in its kernel. TF32: rounding, in the kernel
// or (for MMA units that truncate) when stored; values not rounded before, such as inputs, lose up
// to twice as much.
static double operand_error(const Node *n, int operand) {
  const Group *g = n->group;
  if (n->precision != PrecTf32)
    return n->in[operand]->group == g ? 2 * roundoff(n->in[operand]->type.dtype) : 0;
  if (!unit_truncates(g)) return kTf32Roundoff;
  Product p = contract_product(g);
  const Operand *o = operand == MapA ? &p.a : &p.b;
  if (!o->piece) return kTf32Roundoff;
  return o->base->tf32 ? 0 : 2 * kTf32Roundoff;
}

double check_rounded_operands(const Node *n) {
  double error[2] = {0};
  for (int i = 0; i < 2; i++)
    if (n->group && n->in[i]->group == n->group) error[i] = roundoff(n->in[i]->type.dtype);
  return hypot(error[0], error[1]);
}

double check_contract_gate(const Group *g) {
  double gate = 0;
  if (g->anchor->precision == PrecTf32)
    gate = fmax(1e-3, operand_error(g->anchor, MapA) + operand_error(g->anchor, MapB));
  for (int i = 0; i < g->nnodes; i++) // operands computed in the kernel are rounded
    if (g->nodes[i]->id < g->anchor->id) gate = fmax(gate, 4 * rounding_of(g->nodes[i]));
  return gate;
}

static double group_gate(const Group *g, const Node *out) {
  double gate = 1e-5;
  if (!dtype_is_float(out->type.dtype)) return 0; // rounding may explain differences: rounding.c
  if (g->tm->gate) gate = fmax(gate, g->tm->gate(g));
  return fmax(gate, 2 * stored_roundoff(out));
}

// Does the anchor's element-wise bound carry over to the outputs?
bool check_contract_bounded(const Group *g) {
  if (g->pair[0] || g->ntails > 1) return false;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool grows = n->op->cls == OpMap && !(n->op->flags & FlagLipschitz);
    if (n->id > g->anchor->id && grows) return false;
  }
  return true;
}

int64_t check_terms(const Node *n) {
  int64_t most = 0;
  for (int phase = 0; phase < maps_phases(n); phase++) {
    Maps m = maps_of(n, phase);
    int64_t k = maps_count(&m, AxisK);
    if (k > most) most = k;
  }
  return most;
}

static double *absolute(const double *x, int64_t count) {
  double *y = malloc(sizeof *y * (size_t)count);
  if (!y) die("out of memory");
  for (int64_t i = 0; i < count; i++) y[i] = fabs(x[i]);
  return y;
}

// Error bound of each element of the anchor: c K u (|A||B|).
static double *anchor_bound(Node *n, double **value) {
  Node *a = n->in[0], *b = n->in[1];
  double *save_a = value[a->id], *save_b = value[b->id], *save = value[n->id];
  int64_t count = type_count(&n->type);
  value[a->id] = absolute(save_a, type_count(&a->type));
  value[b->id] = a == b ? value[a->id] : absolute(save_b, type_count(&b->type));
  value[n->id] = NULL;
  eval_node(n->group->graph->c, n, value);
  double *bound = value[n->id];
  free(value[a->id]);
  if (a != b) free(value[b->id]);
  value[a->id] = save_a, value[b->id] = save_b, value[n->id] = save;
  double operand = operand_error(n, MapA) + operand_error(n, MapB);
  for (int64_t i = 0; i < count; i++)
    bound[i] = (2 * (double)check_terms(n) * 0x1p-24 + operand) * bound[i];
  return bound;
}

// Applies the group's data movement to the bounds.
static double *moved_bound(const Group *g, double *bound, double **value) {
  for (int i = 0; i < g->tails[0].nmoves; i++) {
    Node *n = g->tails[0].moves[i], *from = n->in[0];
    double *save_from = value[from->id], *save = value[n->id];
    value[from->id] = bound, value[n->id] = NULL;
    eval_node(n->group->graph->c, n, value);
    free(bound);
    bound = value[n->id];
    value[from->id] = save_from, value[n->id] = save;
  }
  return bound;
}

// Relative error of the maps after the anchor: 2 units each, the accuracy of device functions.
static double epilogue_roundoff(const Group *g) {
  double units = 0;
  for (int i = 0; i < g->nnodes; i++)
    units += g->nodes[i]->id > g->anchor->id && g->nodes[i]->op->cls == OpMap ? 2 : 0;
  return units * 0x1p-23;
}

CheckResult check_values(const Node *n, const double *want, const double *got, const double *bound,
                         double gate, Dtype held) {
  int64_t count = type_count(&n->type);
  return dtype_is_float(n->type.dtype) ? check_compare(want, got, bound, count, gate, largest(held))
                                       : check_equal(want, got, count, gate);
}

static CheckResult check_output(const Group *g, Node *out, double **value, const double *anchor,
                                CheckRead read, void *user) {
  int64_t count = type_count(&out->type);
  double *got = malloc(sizeof *got * (size_t)count), *bound = NULL;
  if (!got) die("out of memory");
  CheckResult r = {.failed_read = !read(user, out, got)};
  if (!r.failed_read) {
    if (g->tm->skips) hidden_allow(g->graph, g, value, out, got);
    if (anchor && type_count(&g->domain) == count) {
      bound = malloc(sizeof *bound * (size_t)count);
      if (!bound) die("out of memory");
      double relative = 2 * stored_roundoff(out) + epilogue_roundoff(g);
      for (int64_t i = 0; i < count; i++)
        bound[i] = anchor[i] * 1.01 + fabs(value[out->id][i]) * relative +
                   (out->type.dtype == DtF16 ? 0x1p-24 : 0) + 1e-30;
    }
    double gate = group_gate(g, out);
    r = check_values(out, value[out->id], got, bound, gate, out->type.dtype);
    if (!r.passed)
      r.rounding = rounding_explains(g->graph, g, value, out, 0x1p-24, got, bound, gate);
    r.passed = r.passed || r.rounding > 0;
  }
  r.node = out;
  free(got);
  free(bound);
  return r;
}

// Expected outputs of a group, and error bounds of their elements.
struct CheckWant {
  Compiler *compiler;
  const Group *group;
  double **value; // by node id
  double *bound;  // of the anchor, or NULL
};

CheckWant *check_want(Compiler *c, const Group *g, CheckRead read, void *user) {
  CheckWant *w = base_alloc(1, sizeof *w);
  *w = (CheckWant){c, g, base_alloc((size_t)c->graph->nnodes, sizeof(double *)), NULL};
  for (int i = 0; i < g->nnodes; i++) {
    for (int j = 0; j < g->nodes[i]->nin; j++) {
      Node *n = g->nodes[i]->in[j];
      if (w->value[n->id]) continue;
      if (node_is_computed(n)) {
        eval_node(c, n, w->value);
        continue;
      }
      w->value[n->id] = base_alloc((size_t)type_count(&n->type), sizeof(double));
      if (read(user, n, w->value[n->id])) continue;
      check_free(w);
      return NULL;
    }
    eval_node(c, g->nodes[i], w->value);
  }
  if (g->tm->bounded && g->tm->bounded(g))
    w->bound = moved_bound(g, anchor_bound(g->anchor, w->value), w->value);
  return w;
}

CheckResult check_against(const CheckWant *w, CheckRead read, void *user) {
  CheckResult r = {0};
  for (int i = 0; i < w->group->noutputs; i++) {
    CheckResult one = check_output(w->group, w->group->outputs[i], w->value, w->bound, read, user);
    if (i == 0 || !one.passed) r = one;
    if (!one.passed) break;
  }
  return r;
}

void check_free(CheckWant *w) {
  for (int i = 0; i < w->compiler->graph->nnodes; i++) free(w->value[i]);
  free(w->value);
  free(w->bound);
  free(w);
}

CheckResult check_group(Compiler *c, const Group *g, CheckRead read, void *user) {
  CheckWant *want = check_want(c, g, read, user);
  if (!want) return (CheckResult){.failed_read = true};
  CheckResult r = check_against(want, read, user);
  check_free(want);
  return r;
}

// ---- memory -----------------------------------------------------------------------------------

// Estimate of the oracle's peak memory: values live together in double, twice because of bounds,
// plus the im2col matrix of one image of the largest convolution.
int64_t check_bytes(const Graph *g) {
  int64_t fixed = 0, most = 0, columns = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    int64_t here = type_count(&n->type);
    if (n->op->cls == OpSource) fixed += here;
    for (int j = 0; j < n->nin; j++) here += type_count(&n->in[j]->type);
    if (here > most) most = here;
    if (n->op->cls == OpContract) columns = 3 * kEvalBlock;
  }
  return 8 * (2 * fixed + 3 * most + columns);
}

// ---- the model --------------------------------------------------------------------------------

// Does n depend on any float?
static bool from_floats(const Graph *g, const Node *n) {
  bool *found = base_alloc((size_t)n->id + 1, sizeof *found);
  for (int i = 0; i <= n->id; i++) {
    const Node *x = g->nodes[i];
    found[i] = dtype_is_float(x->type.dtype) && !node_is_literal(x);
    for (int j = 0; j < x->nin; j++) found[i] = found[i] || found[x->in[j]->id];
  }
  bool result = found[n->id];
  free(found);
  return result;
}

// Does n use, as a number, a truth value decided by floats (as the derivatives of relu and cummax
// do)? Such a value is discontinuous where rounding changes the truth, so no end-to-end gate
// applies.
static bool jumps(const Graph *g, const Node *n) {
  enum { Floats = 1, Jumps = 2 };
  unsigned char *found = base_alloc((size_t)n->id + 1, sizeof *found);
  for (int i = 0; i <= n->id; i++) {
    const Node *x = g->nodes[i], *from = x->nin ? x->in[0] : NULL;
    if (dtype_is_float(x->type.dtype) && !node_is_literal(x)) found[i] |= Floats;
    if (from && x->op->typing == TypeConvert && from->type.dtype == DtBool &&
        from->op->cls == OpMap && found[from->id] & Floats)
      found[i] |= Jumps;
    for (int j = 0; j < x->nin; j++) found[i] |= found[x->in[j]->id];
  }
  bool result = found[n->id] & Jumps;
  free(found);
  return result;
}

static Precision converted_to(const Node *n) {
  Dtype to = n->op->typing == TypeConvert ? (Dtype)n->attr.dtype : DtF32;
  return to == DtF16 ? PrecFp16 : to == DtBf16 ? PrecBf16 : PrecFp32;
}

// The coarsest precision n depends on: of --dtype, of nn.precision, or of conversions to 16 bits.
static Precision coarsest(const Graph *g, const Node *n, const char *dtype) {
  bool *used = base_alloc((size_t)n->id + 1, sizeof *used);
  Precision most = PrecFp32;
  precision_parse(dtype, &most);
  used[n->id] = true;
  for (int i = n->id; i >= 0; i--) {
    const Node *x = g->nodes[i];
    if (!used[i]) continue;
    if (x->op->cls != OpSource && x->precision > most) most = x->precision;
    if (converted_to(x) > most) most = converted_to(x);
    for (int j = 0; j < x->nin; j++) used[x->in[j]->id] = true;
  }
  free(used);
  return most;
}

CheckResult check_model_output(Graph *g, const Node *n, double **value, const double *got,
                               const char *dtype, Dtype stored) {
  Precision precision = coarsest(g, n, dtype);
  double gate = fmax(check_model_gate(precision_name(precision)), 2 * roundoff(stored));
  if (precision != PrecFp32 && jumps(g, n)) gate = INFINITY;
  bool rounds = from_floats(g, n);
  if (!dtype_is_float(n->type.dtype)) gate = rounds && precision != PrecFp32 ? INFINITY : 0;
  Dtype computed = precision_dtype(precision);
  Dtype held = largest(stored) < largest(computed) ? stored : computed;
  hidden_allow(g, NULL, value, n, got);
  CheckResult r = check_values(n, value[n->id], got, NULL, gate, held);
  if (r.passed || !rounds) return r;
  double unit = roundoff(computed);
  r.rounding = rounding_explains(g, NULL, value, n, unit, got, NULL, gate);
  r.passed = r.rounding > 0;
  return r;
}

bool check_reference(Compiler *c, CheckRead read, void *user, double ***result) {
  Graph *g = c->original;
  double **value = calloc((size_t)g->nnodes, sizeof *value);
  if (!value) die("out of memory");
  graph_count_uses(g);
  *result = value;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    if (!n->uses || !node_has_memory(n)) continue;
    value[i] = malloc(sizeof(double) * (size_t)type_count(&n->type));
    if (!value[i]) die("out of memory");
    if (!read(user, n, value[i])) return false;
  }
  eval_graph(g, value, NULL, NULL);
  return true;
}
