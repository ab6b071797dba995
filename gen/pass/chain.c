// chain.c: cheap maps before a reduction that cannot keep its row in registers are computed by it
// alone: it reads the row again in any case, and what it reduces need not be in memory for it. Only
// where what they are made of is: sources, and values that something other than maps reads.
#include "pass.h"

enum { kMostEnds = 2 }; // large values that a chain is made of

typedef struct Chains {
  bool *stored; // by id in the graph before: does something other than maps read it?
  // The copy made last, of which value, to be reduced along which dimensions: other reductions of
  // the kind accumulate in the same sweep over it.
  const Node *of;
  int64_t axes;
  Node *copy;
} Chains;

static bool is_large(const Node *n, const Node *beside) {
  return type_count(&n->type) * 2 > type_count(&beside->type);
}

static bool is_cheap(const Arch *arch, const Node *n) {
  return n->op->cls == OpMap && gain_again(arch, n) && !n->fixed &&
         n->op->typing != TypeDraw;
}

static bool in_memory(const Node *n) { // Node.subst: itself, where something else reads it
  return node_has_memory(n) || n->fixed || n->subst;
}

// Adds the large values that n is made of; false: too many, or one that is nowhere in memory.
static bool find_ends(const Arch *arch, const Node *n, const Node **ends, int *count) {
  for (int i = 0; i < n->nin; i++) {
    const Node *in = n->in[i];
    if (!is_large(in, n)) continue;
    if (is_cheap(arch, in)) {
      if (!find_ends(arch, in, ends, count)) return false;
      continue;
    }
    int known = 0;
    while (known < *count && ends[known] != in) known++;
    if (known < *count) continue;
    if (*count == kMostEnds || !in_memory(in)) return false;
    ends[(*count)++] = in;
  }
  return true;
}

// n, or a copy of it that nobody else reads, if it is cheap.
static Node *own_chain(Graph *to, Node *n) {
  if (!is_cheap(to->c->options.arch, n)) return n;
  Node *in[MaxInputs];
  for (int i = 0; i < n->nin; i++) {
    in[i] = is_large(n->in[i], n) ? own_chain(to, n->in[i]) : n->in[i];
    for (int j = 0; j < i; j++)
      if (n->in[j] == n->in[i]) in[i] = in[j];
  }
  bool same = n->uses <= 1;
  for (int i = 0; i < n->nin; i++) same = same && in[i] == n->in[i];
  if (same) return n;
  Node *copy = graph_add(to, n->op, n->nin, in, &n->attr, n);
  copy->type = n->type;
  copy->uses = 1;
  return copy;
}

static Node *chain_for(Graph *to, const Node *reduction, Node *x) {
  Chains *c = to->scratch;
  if (c->of == x && c->axes == reduction->attr.axes) {
    c->copy->uses += c->copy != x;
    return c->copy;
  }
  c->of = x;
  c->axes = reduction->attr.axes;
  return c->copy = own_chain(to, x);
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Chains *chains = to->scratch;
  const Node *ends[kMostEnds];
  int count = 0;
  bool reads = node->op->cls == OpReduce && !fuse_fits_row(node) && is_cheap(to->c->options.arch, in[0]) &&
               find_ends(to->c->options.arch, in[0], ends, &count);
  Node *own = reads ? chain_for(to, node, in[0]) : NULL;
  Node *n = graph_add(to, node->op, node->nin, reads ? &own : in, &node->attr, node);
  n->type = node->type;
  n->uses = node->uses;
  if (chains->stored[node->id]) n->subst = n;
  return n;
}

Graph *chain_own(Graph *g) {
  Chains chains = {.stored = arena_alloc(g->arena, sizeof(bool) * (size_t)(g->nnodes + 1))};
  for (int i = 0; i < g->nnodes; i++)
    for (int j = 0; g->nodes[i]->uses && j < g->nodes[i]->nin; j++)
      if (g->nodes[i]->op->cls != OpMap) chains.stored[g->nodes[i]->in[j]->id] = true;
  for (int i = 0; i < g->noutputs; i++) chains.stored[g->outputs[i].node->id] = true;
  return graph_copy(graph_rebuild(g, rewrite, &chains));
}
