// prec_facts.c: facts that the precision policy (prec.c) queries: what a value is computed from
// (walks from sources forward) and where it is used (walks from outputs backward).
#include "pass.h"

#include <math.h>

const Node *prec_unmoved(const Node *n) {
  while (n->op->cls == OpMove && n->nin == 1) n = n->in[0];
  return n;
}

const Node *prec_compared(const Node *n) {
  for (int i = 0; n->op->flags & FlagEqual && i < 2; i++) {
    const Node *x = prec_unmoved(n->in[i]), *most = prec_unmoved(n->in[1 - i]);
    if (most->op->cls == OpReduce && prec_unmoved(most->in[0]) == x) return x;
  }
  return NULL;
}

bool prec_adds_up(const Node *n) { // CLASS
  return n->op->cls == OpReduce || n->op->cls == OpScan || n->op->cls == OpScatter;
}

// Does n subtract the maximum of its input, as softmax does? The result is at most 0, and
// exponentials follow.
static bool takes_largest(const Node *n) {
  if (!(n->op->flags & FlagSub)) return false;
  const Node *x = prec_unmoved(n->in[0]), *most = prec_unmoved(n->in[1]);
  return most->op->cls == OpReduce && most->op->flags & (FlagMax | FlagOnline) &&
         prec_unmoved(most->in[0]) == x;
}

// Reductions turn large inputs into small results, and so do roots and multiplications by at most
// `most`.
bool prec_shrinks(const Node *n, double most) {
  bool less = prec_adds_up(n) || n->op->flags & FlagShrinks || takes_largest(n);
  for (int i = 0; n->op->cls == OpMap && i < n->nin; i++) {
    double number = node_is_literal(n->in[i]) ? fabs(n->in[i]->attr.value) : NAN;
    less = less || (n->op->flags & FlagMul && number <= most) ||
           (i == 1 && n->op->flags & FlagDiv && number >= 1 / most);
  }
  return less;
}

// ---- where a value is used ----------------------------------------------------------------------

// A multiplication by at most this makes large values small. NOTE: with 1/6, as in hard swish,
// MobileNetV3 moves 4 % more bytes.
static const double kSmall = 0.125;

// Effect of f16 overflow (inf instead of a large number) on a reader: Blind: none, its result is
// bounded or in 16 bits itself; Tells: a different finite result; Product: non-finite results
// either way.
typedef enum Reading { Blind, Tells, Product, Readings } Reading;

static Reading storing(Dtype dtype) {
  return dtype == DtF16 || dtype == DtBf16 ? Blind : Tells;
}

// n is an output or a state's new value. bf16 has the range of fp32: nothing to notice.
static Reading kept(const Node *n, Dtype dtype) {
  return n->precision == PrecFp16 ? storing(dtype) : Product;
}

static bool has_number(const Node *n) {
  bool any = false;
  for (int i = 0; i < n->nin; i++) any = any || node_is_literal(n->in[i]);
  return any;
}

// Does map n give the same for inf as for a large number? x * sigmoid(x), for example, is NaN for
// -inf instead of 0.
static bool keeps_infinity(const Node *n) {
  return has_number(n) || (n->nin == 1 && n->op->flags & FlagLipschitz);
}

// How n reads its inputs, if its result is read as `given`. NOTE: a product of two values may be
// small if one is large; if that counted as Tells, steps of ResNet-18 would take 8 to 14 % longer,
// as modelled.
static Reading reading(const Node *n, Reading given) {
  if (n->op->cls == OpContract) return Product;
  if (n->op->flags & FlagBounded) return Blind;
  if (n->op->typing == TypeCompare) return has_number(n) ? Blind : Tells;
  if (n->op->typing == TypeConvert && n->type.dtype != DtF32) return storing(n->type.dtype);
  if (prec_shrinks(n, kSmall) || op_ranks(n->op)) return Tells;
  bool ratio = n->op->flags & FlagDiv && !has_number(n);
  if (ratio && n->precision == PrecFp16) return Tells;
  return given == Blind && n->op->cls == OpMap && !keeps_infinity(n) ? Tells : given;
}

// By id: is it computed from a contraction of two activations, as attention scores are?
static bool *find_scores(const Graph *g) {
  bool *scores = arena_alloc(g->arena, sizeof *scores * (size_t)(g->nnodes + 1));
  // computed from parameters
  bool *given = arena_alloc(g->arena, sizeof *given * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool through = n->op->cls == OpMap || n->op->cls == OpMove;
    given[i] = n->op->cls == OpSource ? n->op->form != SourceInput : through;
    for (int j = 0; j < n->nin; j++) {
      given[i] = given[i] && given[n->in[j]->id];
      scores[i] = scores[i] || (through && scores[n->in[j]->id]);
    }
    scores[i] = scores[i] || (n->op->cls == OpContract && !given[n->in[1]->id]);
  }
  return scores;
}

// By entry: does it update parameters?
static bool *find_training(const Graph *g) {
  bool *trains = arena_alloc(g->arena, sizeof *trains * (size_t)(g->c->nentries + 1));
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].state->op->form == SourceParam) trains[g->updates[i].entry] = true;
  return trains;
}

static void find_told(const Graph *g, PrecFacts *facts) {
  const bool *training = find_training(g);
  bool *scores = find_scores(g);
  int(*readers)[Readings] = arena_alloc(g->arena, sizeof *readers * (size_t)(g->nnodes + 1));
  int *products = arena_alloc(g->arena, sizeof *products * (size_t)(g->nnodes + 1)); // that read it
  for (int i = 0; i < g->noutputs; i++)
    readers[g->outputs[i].node->id][kept(g->outputs[i].node, g->outputs[i].dtype)]++;
  for (int i = 0; i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    readers[u->value->id][kept(u->value, u->state->type.dtype)]++;
  }
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    const int *of = readers[i];
    // bf16 has the range of fp32; but 8 bits of a score are too few to select a key
    bool matters = n->precision == PrecFp16 || scores[i];
    facts[i].told_once = matters && of[Tells];
    bool trains = n->entry >= 0 && training[n->entry];
    bool spread = of[Product] > products[i]; // through maps
    facts[i].told = facts[i].told_once && !(of[Product] && (trains || spread));
    Reading own = reading(n, of[Product] ? Product : of[Tells] ? Tells : Blind);
    for (int j = 0; n->uses && j < n->nin; j++) {
      readers[n->in[j]->id][own]++;
      products[n->in[j]->id] += n->op->cls == OpContract;
    }
  }
}

static void find_ranked(const Graph *g, PrecFacts *facts) {
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    bool reads = op_ranks(n->op) || (facts[i].ranked && n->op->cls == OpMove);
    for (int j = 0; reads && j < (n->op->form == MoveConcat ? n->nin : 1); j++)
      facts[n->in[j]->id].ranked = true;
  }
}

// Of a value that is converted to integers, as ids may be, and of what it is computed from by
// moves, maps and maxima.
static void find_whole(const Graph *g, PrecFacts *facts) {
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    bool whole = !dtype_is_float(n->type.dtype) && n->type.dtype != DtBool;
    bool converts = n->op->typing == TypeConvert && whole;
    bool kept = n->op->cls == OpMove || n->op->cls == OpMap || n->op->flags & FlagExact;
    bool many = n->op->cls == OpMap || node_is_move(n, MoveConcat);
    for (int j = 0; (converts || (facts[i].whole && kept)) && j < (many ? n->nin : 1); j++)
      facts[n->in[j]->id].whole = true;
  }
}

static void find_multiplied(const Graph *g, PrecFacts *facts) {
  int *products = arena_alloc(g->arena, sizeof *products * (size_t)(g->nnodes + 1));
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    facts[i].multiplied = n->uses && products[i] == n->uses;
    bool reads = n->op->cls == OpContract || (n->op->cls == OpMove && facts[i].multiplied);
    for (int j = 0; reads && j < n->nin; j++) products[n->in[j]->id]++;
  }
}

static void find_to_states(const Graph *g, PrecFacts *facts) {
  int *leading = arena_alloc(g->arena, sizeof *leading * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nupdates; i++) leading[g->updates[i].value->id]++;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const Node *n = g->nodes[i];
    facts[i].to_states = n->uses && leading[i] == n->uses;
    bool through = n->op->cls == OpMap || n->op->cls == OpMove;
    for (int j = 0; facts[i].to_states && through && j < n->nin; j++) leading[n->in[j]->id]++;
  }
  for (int i = 0; i < g->nupdates; i++)
    if (g->updates[i].value->uses == 1) facts[g->updates[i].value->id].state = g->updates[i].state;
}

// ---- what a value is computed from --------------------------------------------------------------

static bool is_position(const Node *n) {
  return n->op->cls == OpSource && n->op->form == SourceIndex;
}

static void find_again(const Graph *g, PrecFacts *facts) {
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool made = n->op->cls == OpMap || node_is_move(n, MoveReshape);
    facts[i].again = made || n->op->cls == OpSource;
    for (int j = 0; made && j < n->nin; j++) made = facts[i].again = facts[n->in[j]->id].again;
  }
}

static void find_of_sums(const Graph *g, PrecFacts *facts) {
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool source = n->op->cls == OpSource, map = n->op->cls == OpMap && n->op->typing != TypeDraw;
    bool known = g->nupdates ? n->op->form != SourceInput : node_is_literal(n);
    bool move = n->op->cls == OpMove && (n->op->form == MoveReshape || n->op->form == MoveConcat);
    bool all = map || move;
    for (int j = 0; all && j < n->nin; j++) all = facts[n->in[j]->id].of_sums;
    facts[i].of_sums = all || n->op->cls == OpReduce || is_position(n) || (source && known);
  }
}

// A concat counts as computed from integers if one of its parts is.
static void find_of_integers(const Graph *g, PrecFacts *facts) {
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool join = node_is_move(n, MoveConcat), all = true, some = false;
    bool through = n->op->cls == OpMap || n->op->cls == OpWindow || n->op->cls == OpMove;
    for (int j = 0; j < n->nin && through; j++) {
      const Node *x = n->in[j];
      bool of = facts[x->id].of_integers;
      some = some || of;
      all = all && (of || node_is_literal(x) || !dtype_is_float(x->type.dtype));
      if (n->op->cls == OpMove && !join) break; // indices of a gather do not count
    }
    facts[i].of_integers =
        n->type.dtype == DtI32 || n->type.dtype == DtI64 || (some && (all || join));
  }
}

// For example in the gradient of amax.
static void find_compared(const Graph *g, PrecFacts *facts) {
  for (int i = 0; i < g->nnodes; i++) {
    const Node *x = prec_compared(g->nodes[i]);
    if (x) facts[x->id].compared = true;
  }
}

PrecFacts *prec_facts(const Graph *g) {
  PrecFacts *facts = arena_alloc(g->arena, sizeof *facts * (size_t)(g->nnodes + 1));
  find_told(g, facts), find_ranked(g, facts), find_whole(g, facts), find_multiplied(g, facts);
  if (g->nupdates) find_to_states(g, facts);
  find_again(g, facts), find_of_sums(g, facts), find_of_integers(g, facts);
  find_compared(g, facts);
  return facts;
}
