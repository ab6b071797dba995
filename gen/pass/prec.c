// prec.c: the policy of precision: the dtype each float is stored in between kernels, and what
// products read. Arithmetic is fp32 inside a kernel; integers and bools keep their dtypes.
//
// A dtype for each --dtype (precision_dtype), which nn.precision overrides for a part of a model
// (Node.precision). What needs it is stored in 32 bits whatever --dtype says: sources, all that is
// fixed, reductions and what maps make of them, of positions and of numbers alone (means, angles),
// ops that leave the range of 16 bits soon (FlagWide), and what is compared with its own largest
// element.
//
// Whether 16 bits overflow must not depend on what was fused, which keeps values in 32. So these
// are stored in 32 bits: what is made with a number beyond f16; values that grow, as the squares of
// a variance do, products and sums of windows, if they lead through maps to what makes them small
// alone: reductions, softmax, roots, an eighth of them; or to results that are bounded. And growing
// maps of sources, if one reader makes them small: kernels compute those again. A reader of another
// kind stores what it makes of an infinity: the model's results are not finite, fused or not.
//
// Statistics that only products read are stored as products read them. Outputs of the model are
// fp32, unless it converts them itself (Output.dtype). Moves of one value keep its dtype. Where
// states are updated, as in training, what only leads to their new values is stored in 32 bits, and
// what maps make of states, parameters and sums alone: moments, gradients in an optimizer.
#include "pass.h"

#include <math.h>

Dtype prec_operand(const Node *contract) {
  return precision_dtype(contract->precision);
}

// A number of the model that f16 does not hold, as a mask's -1e9.
static bool reads_large(const Node *n) {
  enum { kMostF16 = 65504 };
  bool large = false;
  for (int i = 0; i < n->nin; i++)
    large = large || (node_is_literal(n->in[i]) && isfinite(n->in[i]->attr.value) &&
                      fabs(n->in[i]->attr.value) > kMostF16);
  return large;
}

static const Node *unmoved(const Node *n) {
  while (n->op->cls == OpMove && n->nin == 1) n = n->in[0];
  return n;
}

static bool sums_up(const Node *n) {
  return n->op->cls == OpContract || n->op->cls == OpWindow;
}

// Does map n leave the range of its inputs, or has one of them left that of 16 bits?
static bool grows(const Node *n) {
  bool large = n->op->cls == OpMap && !(n->op->flags & FlagLipschitz);
  for (int i = 0; n->op->cls == OpMap && i < n->nin; i++) {
    const Node *x = unmoved(n->in[i]);
    large = large || ((x->op->cls == OpMap || sums_up(x)) && x->type.dtype == DtF32);
  }
  return large;
}

// What multiplies by at most this much makes small. NOTE: with 1/6, as in hard swish, MobileNetV3
// moves 4 % more bytes.
static const double kSmall = 0.125;

// Does n take the largest elements from what they are the largest of, as softmax does? What is left
// is no more than 0, and exponentials follow.
static bool takes_largest(const Node *n) {
  if (!(n->op->flags & FlagSub)) return false;
  const Node *x = unmoved(n->in[0]), *most = unmoved(n->in[1]);
  return most->op->cls == OpReduce && most->op->flags & (FlagMax | FlagOnline) &&
         unmoved(most->in[0]) == x;
}

static bool adds_up(const Node *n) { // CLASS
  return n->op->cls == OpReduce || n->op->cls == OpScan || n->op->cls == OpScatter;
}

// Does n make little of much? Reductions do, and maps that are roots or multiply by `most` or less.
static bool shrinks(const Node *n, double most) {
  bool less = adds_up(n) || n->op->flags & FlagShrinks || takes_largest(n);
  for (int i = 0; n->op->cls == OpMap && i < n->nin; i++) {
    double number = node_is_literal(n->in[i]) ? fabs(n->in[i]->attr.value) : NAN;
    less = less || (n->op->flags & FlagMul && number <= most) ||
           (i == 1 && n->op->flags & FlagDiv && number >= 1 / most);
  }
  return less;
}

// A concat of what is stored in 32 bits, as of angles, or what is gathered of it: not of sources,
// which are in any dtype.
static bool joins_wide(const Node *n) {
  bool wide = n->op->cls == OpMove && n->nin > 0;
  for (int i = 0; i < (n->op->form == MoveConcat ? n->nin : 1); i++)
    wide = wide && n->in[i]->op->cls != OpSource && n->in[i]->type.dtype == DtF32;
  return wide;
}

// The policy: the dtype that float n is stored in. `shrunk`: it is read to be made small.
static Dtype stored(const Node *n, bool shrunk) {
  if (n->op->cls == OpSource || n->op->typing == TypeConvert) return n->type.dtype;
  if (n->op->cls == OpMove && n->nin == 1) return n->in[0]->type.dtype;
  bool wide = adds_up(n) || n->op->flags & FlagWide || n->op->typing == TypeDraw || n->fixed ||
              (shrunk && (grows(n) || sums_up(n))) || reads_large(n) || joins_wide(n);
  return wide ? DtF32 : precision_dtype(n->precision);
}

// By id: is the value read to be made small, through moves, maps and windows, by each reader that
// an infinity of it would reach? `whole`: by each, else by one at least.
typedef struct {
  bool *whole, *some;
} Shrunk;

static Shrunk find_shrunk(const Graph *g) {
  size_t count = (size_t)g->nnodes + 1;
  Shrunk found = {arena_alloc(g->arena, sizeof(bool) * count),
                  arena_alloc(g->arena, sizeof(bool) * count)};
  int *small = arena_alloc(g->arena, sizeof *small * count),
      *bounded = arena_alloc(g->arena, sizeof *bounded * count);
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    bool passes = n->op->cls == OpMove || n->op->cls == OpMap || n->op->cls == OpWindow;
    bool limits = n->op->flags & FlagBounded || n->op->typing == TypeCompare;
    found.some[i] = small[i];
    found.whole[i] = small[i] && small[i] + bounded[i] == n->uses;
    bool shrunk = n->uses && (shrinks(n, kSmall) || (passes && found.whole[i]));
    for (int j = 0; j < n->nin; j++) {
      small[n->in[j]->id] += shrunk;
      bounded[n->in[j]->id] += !shrunk && limits;
    }
  }
  return found;
}

// By id: does all that reads the value lead, through maps and moves, to new values of states?
static bool *find_leading(const Graph *g) {
  bool *leads = arena_alloc(g->arena, sizeof *leads * (size_t)(g->nnodes + 1));
  int *leading = arena_alloc(g->arena, sizeof *leading * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nupdates; i++) leading[g->updates[i].value->id]++;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    leads[i] = n->uses && leading[i] == n->uses;
    bool through = n->op->cls == OpMap || n->op->cls == OpMove;
    for (int j = 0; leads[i] && through && j < n->nin; j++) leading[n->in[j]->id]++;
  }
  return leads;
}

// By id: do maps make the value of sources alone? `sums`: maps and concats of sums, positions,
// numbers and, where states are updated, of states and parameters alone?
static bool *find_made(const Graph *g, bool sums) {
  bool *found = arena_alloc(g->arena, sizeof *found * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool source = n->op->cls == OpSource, index = source && n->op->form == SourceIndex;
    if (sums && !index)
      source = source && (g->nupdates ? n->op->form != SourceInput : node_is_literal(n));
    bool keeps = n->op->form == MoveReshape || (sums && n->op->form == MoveConcat);
    bool map = n->op->cls == OpMap && !(sums && n->op->typing == TypeDraw);
    bool made = map || (n->op->cls == OpMove && keeps);
    found[i] = source || (sums && n->op->cls == OpReduce) || made;
    for (int j = 0; made && j < n->nin; j++) found[i] = found[i] && found[n->in[j]->id];
  }
  return found;
}

// By id: do maps and windows make the value of integers of 32 bits and numbers alone? Ids are far
// beyond what 16 bits count. A concat is one if a part of it is.
static bool *find_counted(const Graph *g) {
  bool *found = arena_alloc(g->arena, sizeof *found * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool join = n->op->cls == OpMove && n->op->form == MoveConcat, all = true, some = false;
    bool through = n->op->cls == OpMap || n->op->cls == OpWindow || n->op->cls == OpMove;
    for (int j = 0; j < n->nin && through; j++) {
      const Node *x = n->in[j];
      some = some || found[x->id];
      all = all && (found[x->id] || node_is_literal(x) || !dtype_is_float(x->type.dtype));
      if (n->op->cls == OpMove && !join) break; // ids of a gather do not count
    }
    found[i] = n->type.dtype == DtI32 || n->type.dtype == DtI64 || (some && (all || join));
  }
  return found;
}

// By id: does the order of its elements count?
static bool *find_ranked(const Graph *g) {
  bool *found = arena_alloc(g->arena, sizeof *found * (size_t)(g->nnodes + 1));
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    bool reads = n->op->cls == OpSelect || (found[i] && n->op->cls == OpMove);
    for (int j = 0; reads && j < (n->op->form == MoveConcat ? n->nin : 1); j++)
      found[n->in[j]->id] = true;
  }
  return found;
}

// By id: do products alone read the value, through moves? They read it in their own dtype.
static bool *find_multiplied(const Graph *g) {
  bool *found = arena_alloc(g->arena, sizeof *found * (size_t)(g->nnodes + 1));
  int *products = arena_alloc(g->arena, sizeof *products * (size_t)(g->nnodes + 1));
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    found[i] = n->uses && products[i] == n->uses;
    bool reads = n->op->cls == OpContract || (n->op->cls == OpMove && found[i]);
    for (int j = 0; reads && j < n->nin; j++) products[n->in[j]->id]++;
  }
  return found;
}

// By id: is the value compared with its own largest or smallest element, as the derivative of amax
// does? A kernel that makes both takes the element before it is rounded: no other kernel would find
// it again.
static bool *find_compared(const Graph *g) {
  bool *found = arena_alloc(g->arena, sizeof *found * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    for (int j = 0; n->op->flags & FlagEqual && j < 2; j++) {
      const Node *x = unmoved(n->in[j]), *most = unmoved(n->in[1 - j]);
      if (most->op->cls == OpReduce && unmoved(most->in[0]) == x) found[x->id] = true;
    }
  }
  return found;
}

static bool is_said(const Node *n) { // the model says which dtype it has
  return n->op->cls == OpSource || n->op->typing == TypeConvert;
}

// An output has its dtype, and so has what it is another shape of: one kernel stores it, with no
// rounding between. Where others read what is to be rounded, and for a source, layout.c copies.
static void set_output(Node *n, Dtype dtype) {
  if (n->op->cls == OpSource || (dtype != DtF32 && n->uses > 1)) return;
  n->type.dtype = dtype;
  bool shape = n->op->cls == OpMove && n->op->form == MoveReshape;
  if (shape && n->in[0]->uses == 1 && !is_said(n->in[0])) set_output(n->in[0], dtype);
}

// Needs: shapes. Gives: Type.dtype of every value.
void prec_pass(Compiler *c) {
  Graph *g = c->graph;
  graph_count_uses(g);
  bool *leads = g->nupdates ? find_leading(g) : NULL, *statistics = find_made(g, true),
       *compared = find_compared(g), *plain = find_made(g, false), *counted = find_counted(g),
       *ranked = find_ranked(g);
  bool *multiplied = find_multiplied(g);
  Shrunk shrunk = find_shrunk(g);
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    bool again = plain[i] && n->op->typing != TypeDraw && !shrinks(n, 1);
    if (!dtype_is_float(n->type.dtype)) continue;
    n->type.dtype = stored(n, shrunk.whole[i] || (again && shrunk.some[i]));
    bool statistic = statistics[i] && n->op->cls == OpMap && (g->nupdates || !multiplied[i]);
    bool large = counted[i] && (g->nupdates || !multiplied[i]);
    bool wide = compared[i] || statistic || large || (ranked[i] && grows(n)) || (leads && leads[i]);
    if (wide && !is_said(n)) n->type.dtype = DtF32;
  }
  for (int i = 0; i < g->nupdates; i++) { // rounded once, as the state is
    Node *n = g->updates[i].value;
    bool floats = dtype_is_float(n->type.dtype);
    if (floats && leads[n->id] && n->uses == 1 && n->op->cls == OpMap && !is_said(n))
      n->type.dtype = g->updates[i].state->type.dtype;
  }
  for (int i = 0; i < g->noutputs; i++)
    if (dtype_is_float(g->outputs[i].dtype)) set_output(g->outputs[i].node, g->outputs[i].dtype);
}
