// prec.c: the policy of precision: the dtype each float is stored in between kernels, and what
// products read. Arithmetic is fp32 inside a kernel; integers and bools keep their dtypes.
//
// Two tables are the policy. `classes` has a row for each class of ops: in what it computes with
// its operands (which products alone ask; kernels of others compute so anyway) and stores its
// result. AsModel is the dtype of --dtype (precision_dtype), which nn.precision overrides for a
// part of a model (Node.precision). `exceptions` are the values that are stored otherwise; of those
// that hold for a value the first one decides. Outputs come last.
//
// Why there are so many: whether 16 bits overflow must not depend on what was fused, which keeps
// values in 32. A value that may be beyond f16 is stored in 32 bits if its readers tell a large
// number from an infinity: reductions, softmax, roots, an eighth of it, quotients, outputs. It is
// not if a product reads it, itself or what maps make of it: the product's result is not finite
// then, fused or not. NOTE: so such a value's other readers may differ by what was fused. bf16
// holds what fp32 does: of its values this is asked of scores of attention alone (prec_facts.c).
#include "pass.h"

#include <math.h>

typedef enum Storage {
  Wide,    // f32
  AsModel, // what --dtype or nn.precision says
  AsInput, // the dtype of its input
  AsSaid,  // the dtype it has: the model says it
  AsState  // that of the state whose new value it is
} Storage;

static const struct {
  Storage reads, stores;
} classes[OpClassCount] = { // CLASS
    [OpSource] = {AsSaid, AsSaid},     // parameters, inputs and states lie as the model declares
    [OpMap] = {Wide, AsModel},         // of any number of values, in fp32
    [OpReduce] = {Wide, Wide},         // sums of many values lie beyond those
    [OpScan] = {Wide, Wide},           // as reductions
    [OpSelect] = {Wide, AsModel},      // it gives places, which are integers
    [OpScatter] = {Wide, Wide},        // as reductions
    [OpWindow] = {Wide, AsModel},      // of few values: a pool
    [OpContract] = {AsModel, AsModel}, // tensor cores read 16 bits, and add up in fp32
    [OpMove] = {AsInput, AsModel},     // of several inputs; of one: see is_moved
};

// ---- exceptions ---------------------------------------------------------------------------------

typedef struct Asked { // about one value
  const Node *n;
  const PrecFacts *facts;
  bool trains; // states are updated
} Asked;

static bool is_map(const Node *n) {
  return n->op->cls == OpMap;
}

static bool sums_products(const Node *n) {
  return n->op->cls == OpContract || n->op->cls == OpWindow;
}

// Does map n leave the range of its inputs? Or has one of them, or a part that is joined, left that
// of 16 bits?
static bool grows(const Node *n) {
  bool large = is_map(n) && !(n->op->flags & FlagLipschitz);
  for (int i = 0; (is_map(n) || n->op->cls == OpMove) && i < n->nin; i++) {
    const Node *x = prec_unmoved(n->in[i]);
    large = large || (x->op->cls != OpSource && x->type.dtype == DtF32);
  }
  return large;
}

static bool is_said(const Asked *a) {
  return a->n->op->cls == OpSource || a->n->op->typing == TypeConvert;
}

static bool is_state(const Asked *a) {
  return is_map(a->n) && a->facts->to_states && a->facts->state;
}

static bool leads_to_states(const Asked *a) {
  return a->facts->to_states;
}

static bool is_compared(const Asked *a) {
  return a->facts->compared;
}

static bool is_statistic(const Asked *a) {
  return is_map(a->n) && a->facts->of_sums && (a->trains || !a->facts->multiplied);
}

static bool is_counted(const Asked *a) {
  return a->facts->of_integers && (a->trains || !a->facts->multiplied);
}

static bool is_ranked(const Asked *a) {
  return a->facts->ranked && grows(a->n);
}

static bool is_moved(const Asked *a) {
  return a->n->op->cls == OpMove && a->n->nin == 1;
}

static bool is_drawn(const Asked *a) {
  return a->n->op->typing == TypeDraw;
}

static bool is_fixed(const Asked *a) {
  return a->n->fixed;
}

static bool leaves_range(const Asked *a) {
  return a->n->op->flags & FlagWide;
}

static bool is_told(const Asked *a) {
  return a->facts->told && (grows(a->n) || sums_products(a->n));
}

static bool is_told_once(const Asked *a) {
  bool again = a->facts->again && !is_drawn(a) && !prec_shrinks(a->n, 1);
  return again && a->facts->told_once && grows(a->n);
}

static bool reads_large(const Asked *a) {
  enum { kMostF16 = 65504 };
  bool large = false;
  for (int i = 0; i < a->n->nin; i++) {
    const Node *x = a->n->in[i];
    large =
        large || (node_is_literal(x) && isfinite(x->attr.value) && fabs(x->attr.value) > kMostF16);
  }
  return large;
}

static bool joins_wide(const Asked *a) {
  const Node *n = a->n;
  bool wide = n->op->cls == OpMove;
  for (int i = 0; i < (n->op->form == MoveConcat ? n->nin : 1); i++)
    wide = wide && n->in[i]->op->cls != OpSource && n->in[i]->type.dtype == DtF32;
  return wide;
}

// In the order of precedence.
static const struct {
  bool (*holds)(const Asked *a);
  Storage stores;
  const char *why; // as `nngen show --stage prec` says it
} exceptions[] = {
    {is_said, AsSaid, NULL},
    {is_state, AsState, "a new value of a state is rounded once"},
    {leads_to_states, Wide, "all of it leads to new values of states"},
    // A kernel that makes both takes the element before it is rounded; no other would find it.
    {is_compared, Wide, "it is compared with its own largest or smallest element"},
    // Means, angles; in training moments, gradients in an optimizer. Products alone read f16.
    {is_statistic, Wide, "maps make it of sums, positions, numbers or states"},
    {is_counted, Wide, "it is made of integers, which may be beyond what 16 bits count"},
    {is_ranked, Wide, "the order of its elements counts"},
    {is_moved, AsInput, NULL},
    {is_drawn, Wide, "a draw is the same for all that read it"},
    {is_fixed, Wide, "init computes it once"},
    {leaves_range, Wide, "its op leaves the range of 16 bits soon"},
    {is_told, Wide, "it may be large, and its readers tell that from an infinity"},
    // Kernels compute maps of sources again: the one that tells must read no infinity.
    {is_told_once, Wide, "it may be large, and a reader that may compute it tells"},
    {reads_large, Wide, "a number of it is beyond f16"},
    {joins_wide, Wide, "all parts of it are in 32 bits"},
};

// ---- the policy ---------------------------------------------------------------------------------

static Dtype dtype_of(const Asked *a, Storage storage) {
  switch (storage) {
  case AsModel:
    return precision_dtype(a->n->precision);
  case AsInput:
    return a->n->in[0]->type.dtype;
  case AsSaid:
    return a->n->type.dtype;
  case AsState:
    return a->facts->state->type.dtype;
  default:
    return DtF32;
  }
}

static Dtype stored(const Asked *a, const char **why) {
  for (size_t i = 0; i < LENGTH(exceptions); i++) {
    *why = exceptions[i].why;
    if (exceptions[i].holds(a)) return dtype_of(a, exceptions[i].stores);
  }
  *why = NULL;
  return dtype_of(a, classes[a->n->op->cls].stores);
}

// Of a product, or of n that adds up what products give: its kernel multiplies, too.
Dtype prec_operand(const Node *n) {
  return dtype_of(&(Asked){.n = n}, classes[OpContract].reads);
}

// An output has its dtype, and so has what it is another shape of: one kernel stores it, with no
// rounding between. Where others read what is to be rounded, and for a source, layout.c copies.
static void set_output(Node *n, Dtype dtype) {
  if (n->op->cls == OpSource || (dtype != DtF32 && n->uses > 1)) return;
  n->type.dtype = dtype;
  bool shape = node_is_move(n, MoveReshape);
  if (shape && n->in[0]->uses == 1 && !is_said(&(Asked){.n = n->in[0]}))
    set_output(n->in[0], dtype);
}

// Needs: shapes. Gives: Type.dtype of every value.
void prec_pass(Compiler *c) {
  Graph *g = c->graph;
  graph_count_uses(g);
  const PrecFacts *facts = prec_facts(g);
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    Asked asked = {n, &facts[i], g->nupdates > 0};
    if (dtype_is_float(n->type.dtype)) n->type.dtype = stored(&asked, &n->wide);
  }
  for (int i = 0; i < g->noutputs; i++)
    if (dtype_is_float(g->outputs[i].dtype)) set_output(g->outputs[i].node, g->outputs[i].dtype);
}

// Which exception keeps which values in a dtype that is not the one of --dtype: comments.
void prec_explain(const Graph *g, FILE *file) {
  for (size_t i = 0; i < LENGTH(exceptions); i++) {
    bool any = false;
    for (int j = 0; j < g->nnodes; j++) {
      const Node *n = g->nodes[j];
      if (!n->wide || n->wide != exceptions[i].why) continue;
      if (n->type.dtype == precision_dtype(n->precision)) continue;
      if (!any) fprintf(file, "# %s, so in %s:", n->wide, dtype_name(n->type.dtype));
      fprintf(file, " %%%d", j);
      any = true;
    }
    if (any) fputs("\n", file);
  }
}
