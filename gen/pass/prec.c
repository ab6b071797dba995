// prec.c: the precision policy: the dtype in which each float is stored between kernels, and which
// contractions read. Arithmetic is fp32 inside a kernel; integers and bools keep their dtypes.
//
// Two tables are the policy. `classes` has a row for each class of ops: the dtype of its operands
// (only contractions use it; other kernels compute in fp32 anyway) and of its stored result.
// AsModel is the dtype of --dtype (precision_dtype), which nn.precision overrides for a part of a
// model (Node.precision). `exceptions` are values stored otherwise; the first one that holds for a
// value decides. Outputs come last.
//
// Why there are so many: overflow of 16 bits must not depend on what was fused, because fusion
// keeps values in fp32. A value that may overflow f16 is stored in fp32 if a reader would produce a
// different finite result for inf than for a large number: reductions, softmax, roots,
// multiplication by 1/8 or less, quotients, outputs. NOTE: other readers may still differ with
// fusion in two cases, where a contraction's result is not finite either: in entries that update
// parameters, if a contraction reads the value, too (else a step of ResNet-18 took 10 % longer, as
// modelled; loss scaling repeats such a step with a smaller scale); and elsewhere if a contraction
// reads a map of it (else BERT took 3 % longer, and q and k with a norm were not one product with
// v). bf16 has the range of fp32: of bf16 values only attention scores are checked (prec_facts.c).
#include "pass.h"

#include <math.h>

typedef enum Storage {
  Wide,    // f32
  AsModel, // --dtype or nn.precision
  AsInput, // the dtype of its input
  AsSaid,  // the dtype that the model declares
  AsState  // that of the state it updates
} Storage;

static const struct {
  Storage reads, stores;
} classes[OpClassCount] = {
    // CLASS
    [OpSource] = {AsSaid, AsSaid}, // parameters, inputs and states are stored as the model declares
    [OpMap] = {Wide, AsModel},     // elementwise, in fp32
    [OpReduce] = {Wide, Wide},     // sums of many values exceed the range of 16 bits
    [OpScan] = {Wide, Wide},       // like reductions
    [OpSelect] = {Wide, AsModel},  // it returns positions, which are integers
    [OpSort] = {Wide, AsModel},    // as well
    [OpScatter] = {Wide, Wide},    // like reductions
    [OpWindow] = {Wide, AsModel},  // of few values: a pool
    [OpContract] = {AsModel, AsModel}, // tensor cores read 16 bits and accumulate in fp32
    [OpMove] = {AsInput, AsModel},     // of several inputs; with a single one: see is_moved
};

// ---- exceptions ---------------------------------------------------------------------------------

typedef struct Asked { // what an exception may query about a value
  const Node *n;
  const PrecFacts *facts;
  bool trains; // the graph updates states
} Asked;

static bool is_map(const Node *n) {
  return n->op->cls == OpMap;
}

static bool sums_products(const Node *n) {
  return n->op->cls == OpContract || n->op->cls == OpWindow;
}

// May map n exceed the range of its inputs, or does an input (or a part of a concat) already exceed
// 16 bits?
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

static bool is_whole(const Asked *a) {
  return a->facts->whole;
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

// In order of precedence.
static const struct {
  bool (*holds)(const Asked *a);
  Storage stores;
  const char *why; // printed by `nngen show --stage prec`
} exceptions[] = {
    {is_said, AsSaid, NULL},
    {is_state, AsState, "new values of states are rounded only once"},
    {leads_to_states, Wide, "it is used only to update states"},
    // A kernel that computes both compares before rounding; a separate one would find no match.
    {is_compared, Wide, "it is compared with its own largest or smallest element"},
    // Means, angles; in training also moments and gradients of an optimizer. In inference, not if
    // only contractions read it.
    {is_statistic, Wide,
     "it is computed element-wise from reductions, positions, literals or states"},
    {is_counted, Wide, "it is computed from integers that 16 bits may not represent"},
    {is_ranked, Wide, "the order of its elements matters"},
    {is_whole, Wide, "it becomes integers, which may be ids"},
    {is_moved, AsInput, NULL},
    {is_drawn, Wide, "random values must be identical for all readers"},
    {is_fixed, Wide, "init computes it once"},
    {leaves_range, Wide, "its op easily overflows 16 bits"},
    {is_told, Wide, "it may overflow 16 bits, and a reader would notice"},
    // Kernels may recompute maps of sources: the reader that would notice must not read inf.
    {is_told_once, Wide, "it may overflow 16 bits, and a reader that recomputes it would notice"},
    {reads_large, Wide, "an operand literal exceeds the range of f16"},
    {joins_wide, Wide, "all its parts are stored in 32 bits"},
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

// Dtype of the operands of contraction n, or of the contractions in the kernel of reduction n.
Dtype prec_operand(const Node *n) {
  return dtype_of(&(Asked){.n = n}, classes[OpContract].reads);
}

// An output has its declared dtype, and so has the value it is a reshape of, so that one kernel
// stores it directly. If that would be rounded and has other readers, or is a source, layout.c
// copies.
static void set_output(Node *n, Dtype dtype) {
  if (n->op->cls == OpSource || (dtype != DtF32 && n->uses > 1)) return;
  n->type.dtype = dtype;
  bool shape = node_is_move(n, MoveReshape);
  if (shape && n->in[0]->uses == 1 && !is_said(&(Asked){.n = n->in[0]}))
    set_output(n->in[0], dtype);
}

// Needs: shapes. Produces Type.dtype of every value.
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

// Prints, as comments, which exceptions keep which values in a dtype other than that of --dtype.
void prec_explain(const Graph *g, FILE *file) {
  for (size_t i = 0; i < LENGTH(exceptions); i++) {
    bool any = false;
    for (int j = 0; j < g->nnodes; j++) {
      const Node *n = g->nodes[j];
      if (!n->wide || n->wide != exceptions[i].why) continue;
      if (n->type.dtype == precision_dtype(n->precision)) continue;
      if (!any) fprintf(file, "# %s, so stored in %s:", n->wide, dtype_name(n->type.dtype));
      fprintf(file, " %%%d", j);
      any = true;
    }
    if (any) fputs("\n", file);
  }
}
