// gradients.c: checks the gradient of user-defined ops against central differences of `ref`.
//
// Each row becomes a graph of its own: y and the gradient of each input, over a table of points
// that the oracle evaluates in double at once. For each point the table holds the point itself and
// four steps along each column. Points where the steps disagree on the slope (a kink, a jump,
// rounding), or leave the domain of `ref`, are ignored. A column is an input of a map, or an
// element of a reduced row.
#include "compile.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>

enum { kPoints = 48, kReduced = 4, kMoves = 4, kConfirmed = 2 };

static const double moves[kMoves] = {1e-6, -1e-6, 1e-4, -1e-4};

typedef struct Trial {
  Compiler *c;
  const Op *op;
  Graph *g;
  int width, columns, cases; // elements per input row; columns of all inputs; table rows per point
  Node *in[MaxInputs];       // shape (points * cases, width)
  Node *ones, *whole;        // of the shape of y, (points * cases, 1), and of an input
  Node *y, *grad[MaxInputs]; // grad: NULL if the row returns nil
  double **value;
} Trial;

static Node *add_input(Trial *t, int width) {
  Node *n = graph_add(t->g, op_need(t->c, "input"), 0, NULL, NULL, NULL);
  n->name = "";
  n->type = type_make(DtF32, 2, (int64_t[]){kPoints * t->cases, width});
  return n;
}

static Node *add_op(Trial *t, const Op *op, int nin, Node **in) {
  Attr attr = {.axes = op->cls == OpReduce ? 1 << 1 : 0};
  Node *n = graph_add(t->g, op, nin, in, &attr, NULL);
  n->name = "";
  n->loc = t->op->loc;
  shape_infer(t->c, n);
  return n;
}

// ---- reading the row -------------------------------------------------------------------------

// The gradient on top of the Lua stack, reshaped like input i; NULL for nil.
static Node *read_gradient(Trial *t, int i) {
  if (lua_isnil(t->c->lua, -1)) return NULL;
  Node **given = luaL_testudata(t->c->lua, -1, kTensorType);
  if (!given)
    err_at(t->c, t->op->loc, "op '%s': its grad returns a %s for input %d, expected a tensor",
           t->op->name, luaL_typename(t->c->lua, -1), i + 1);
  Node *n = add_op(t, op_need(t->c, "mul"), 2, (Node *[]){*given, t->whole});
  if (!type_same_shape(&n->type, &t->whole->type))
    err_at(t->c, t->op->loc, "op '%s': its grad returns %s for input %d of %s", t->op->name,
           type_shape(&(*given)->type).s, i + 1, type_shape(&t->whole->type).s);
  return n;
}

static void call_grad(Trial *t) {
  lua_State *lua = t->c->lua;
  int top = lua_gettop(lua), nin = t->op->cls == OpMap ? t->op->nin : 1;
  lua_rawgeti(lua, LUA_REGISTRYINDEX, t->op->grad);
  front_push_node(lua, t->ones);
  front_push_node(lua, t->y);
  for (int i = 0; i < nin; i++) front_push_node(lua, t->in[i]);
  if (front_call(lua, nin + 2, LUA_MULTRET))
    err_at(t->c, t->op->loc, "op '%s': its grad fails: %s", t->op->name, lua_tostring(lua, -1));
  if (lua_gettop(lua) - top < nin)
    err_at(t->c, t->op->loc,
           "op '%s': its grad returns %d of %d gradients; return nil for a constant",
           t->op->name, lua_gettop(lua) - top, nin);
  lua_settop(lua, top + nin);
  for (int i = nin - 1; i >= 0; i--) {
    t->grad[i] = read_gradient(t, i);
    lua_pop(lua, 1);
  }
}

static void build(Trial *t) {
  int nin = t->op->cls == OpMap ? t->op->nin : 1;
  t->width = t->op->cls == OpMap ? 1 : kReduced;
  t->columns = nin * t->width;
  t->cases = 1 + kMoves * t->columns;
  for (int i = 0; i < nin; i++) t->in[i] = add_input(t, t->width);
  t->ones = add_input(t, 1);
  t->whole = add_input(t, t->width);
  t->y = add_op(t, t->op, nin, t->in);
  call_grad(t);
}

// ---- points and evaluation --------------------------------------------------------------------

// Points of both signs, denser near 0, not on typical kinks, and different for each column:
// fractions of multiples of these numbers are evenly spread.
static double at_point(int point, int column) {
  static const double step[kReduced] = {0.856674883854503, 0.733891856627126, 0.628706721055154,
                                        0.538597222587134};
  double u = (point + 0.5) * step[column % kReduced];
  u = 2 * (u - floor(u)) - 1;
  return 4 * u * fabs(u);
}

static double at_row(const Trial *t, int row, int column) {
  int move = row % t->cases - 1;
  double x = at_point(row / t->cases, column);
  return move >= 0 && move / kMoves == column ? x + moves[move % kMoves] : x;
}

// `first`: its first column; -1: fill with ones
static void fill(const Trial *t, const Node *n, int first) {
  int width = (int)n->type.dim[1], count = kPoints * t->cases * width;
  double *x = t->value[n->id] = base_alloc((size_t)count, sizeof *x);
  for (int i = 0; i < count; i++) x[i] = first < 0 ? 1 : at_row(t, i / width, first + i % width);
}

// False if the row's grad reads values that exist only in a run.
static bool evaluate(Trial *t) {
  for (int i = 0; i * t->width < t->columns; i++) fill(t, t->in[i], i * t->width);
  fill(t, t->ones, -1);
  fill(t, t->whole, -1);
  for (int i = 0; i < t->g->nnodes; i++)
    if (node_has_memory(t->g->nodes[i]) && !t->value[i]) return false;
  graph_output(t->g, graph_output_of("y", t->y, t->op->loc, 0));
  for (int i = 0; i * t->width < t->columns; i++)
    if (t->grad[i]) graph_output(t->g, graph_output_of("grad", t->grad[i], t->op->loc, 0));
  eval_graph(t->g, t->value, NULL, NULL);
  return true;
}

// ---- the comparison ---------------------------------------------------------------------------

static bool is_near(double a, double b) {
  return fabs(a - b) <= 1e-5 + 1e-3 * fabs(b);
}

// Slope of y along a column at a point; false if it is not well defined.
static bool slope(const Trial *t, int point, int column, double *s) {
  const double *y = t->value[t->y->id] + point * t->cases, *moved = y + 1 + kMoves * column;
  double up = (moved[0] - *y) / moves[0], down = (moved[1] - *y) / moves[1];
  *s = (moved[0] - moved[1]) / (moves[0] - moves[1]);
  double wide = (moved[2] - moved[3]) / (moves[2] - moves[3]);
  return isfinite(*s) && is_near(up, down) && is_near(wide, *s); // false for NaN
}

static const char *point_text(const Trial *t, int point) {
  Buffer b = {0};
  for (int j = 0; j < t->columns; j++) buffer_put(&b, j ? ", %g" : "%g", at_point(point, j));
  return buffer_take(&b, t->c->arena);
}

static const char *of_input(const Trial *t, int column) {
  bool several = t->columns > 1;
  const char *what = t->width > 1 ? "element" : "input";
  return several ? arena_printf(t->c->arena, " by %s %d", what, column + 1) : "";
}

typedef struct Mismatch {
  int point, column;
  double want, got;
} Mismatch;

// Finds the first point where the gradient along a column is not the slope; true if several points
// differ.
static bool differs(const Trial *t, int column, Mismatch *m) {
  int wrong = 0;
  double want;
  const double *grad = t->value[t->grad[column / t->width]->id] + column % t->width;
  for (int p = 0; p < kPoints; p++) {
    if (!slope(t, p, column, &want)) continue;
    double got = grad[p * t->cases * t->width];
    if (is_near(got, want) || wrong++) continue;
    *m = (Mismatch){p, column, want, got};
  }
  return wrong >= kConfirmed;
}

static void report(const Trial *t, const Mismatch *m) {
  err_at(t->c, t->op->loc,
         "op '%s': at (%s) its grad returns %g%s, but differences of its ref give %g; for another "
         "gradient use nn.custom_gradient",
         t->op->name, point_text(t, m->point), m->got, of_input(t, m->column), m->want);
}

static void check_row(Compiler *c, const Op *op) {
  Trial t = {.c = c, .op = op, .g = graph_new(c, "grad")};
  c->graph = t.g;
  build(&t);
  bool evaluates = op->cls == OpMap || program_of(c, op)->ok, wrong = false;
  if (!evaluates || !dtype_is_float(t.y->type.dtype)) return;
  t.value = arena_alloc(c->arena, sizeof *t.value * (size_t)t.g->nnodes);
  Mismatch m;
  bool known = evaluate(&t);
  for (int j = 0; known && !wrong && j < t.columns; j++)
    wrong = t.grad[j / t.width] && differs(&t, j, &m);
  eval_free(t.g, t.value);
  if (wrong) report(&t, &m);
}

// Reductions must be traceable, because the oracle runs their functions elementwise.
static void check_reduction(Compiler *c, const Op *op) {
  if (program_of(c, op)->ok) return;
  err_at(c, op->loc,
         "op '%s': a reduction's ref and ref_result compute with + - * / ^, math.min, max, exp, "
         "log, sqrt, abs, sin, cos, with floor(x), tanh(x) and where(lt(a, b), x, y): without "
         "`if`, `and`, `or`, math.floor",
         op->name);
}

void gradients_check(Compiler *c) {
  Graph *model = c->graph;
  for (int i = 0; i < c->nops; i++) {
    if (c->ops[i]->user && c->ops[i]->cls == OpReduce) check_reduction(c, c->ops[i]);
    if (c->ops[i]->user && c->ops[i]->grad != LUA_NOREF) check_row(c, c->ops[i]);
  }
  c->graph = model;
}
