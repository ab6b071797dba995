// remat.c: rematerialises cheap maps in each of their readers, so that their results need not be
// stored:
// - before a reduction whose row does not fit in registers, which reads its input more than once
//   anyway; only if the inputs of the chain are in memory: sources, values with a reader that is
//   not a map, maps (of gathers, for example) that another reduction needs and cannot compute
// - maps computed only from positions and small values, such as the condition of a mask
// - reshapes of sources, and of values that are expected to be in memory
// - maps that remat_late.c selects
#include "fuse.h"

enum { kMostEnds = 2, kMostChain = 48 };

typedef struct Ends { // the large values from which a chain is computed
  const Node *node[kMostEnds], *within[kMostChain]; // within: the maps of the chain
  int count, nwithin;
  bool maps, late; // may ends be cheap maps themselves? Node.late of the chain's maps
} Ends;

typedef enum Made { NotAsked, MadeFree, MadeOfLabels, MadeOfMemory } Made;

typedef struct Known { // about a node of the new graph
  Made made;           // result of made_of
  Node *copy;          // the last copy, made in generation `turn`
  int turn;
} Known;

typedef struct Chains {
  bool *stored; // by old id: has a reader that is not a map
  bool *whole;  // and is read as it is, not reshaped
  bool *read;   // and is read within the model
  // by old id: is compared with its own reduction, so that both must read it in memory
  bool *compared;
  const Late *late;
  // The last chain copied: of which value, for a reduction along which axes. Other reductions of
  // the same value and axes share it, and so accumulate in the same sweep.
  const Node *of;
  int64_t axes;
  Node *copy;
  Known *known; // by id in the new graph; the first nknown are valid
  int nknown, turn;
} Chains;

bool remat_is_large(const Node *n, const Node *beside) {
  return type_count(&n->type) * 2 > type_count(&beside->type);
}

// A comparison with, for example, the row maximum is not repeated: recomputed from a rounded stored
// value, an element might differ from what was reduced.
bool remat_may_copy(const Node *n) {
  return n->op->cls == OpMap && !n->fixed && n->op->typing != TypeDraw && !prec_compared(n);
}

bool remat_is_cheap(const Arch *arch, const Node *n) {
  return remat_may_copy(n) && gain_again(arch, n);
}

Node *remat_copy(Graph *to, Node *n, Node **in) {
  for (int i = 0; i < n->nin; i++) // an input used twice stays one node
    for (int j = 0; j < i; j++)
      if (n->in[j] == n->in[i]) in[i] = in[j];
  Node *copy = graph_add(to, n->op, n->nin, in, &n->attr, n);
  copy->type = n->type;
  copy->uses = 1;
  return copy;
}

// stored: by id; NULL in the new graph, where Node.subst is set for stored nodes.
static bool in_memory(const Node *n, const bool *stored) {
  return node_has_memory(n) || n->fixed || (stored ? stored[n->id] : n->subst != NULL);
}

static bool is_end(const Ends *ends, const Node *n) {
  return fuse_listed(ends->node, ends->count, n);
}

// Adds the large values from which n is computed, as far upstream as they are in memory; false if
// there are too many, or one is not in memory.
static bool find_ends(const Arch *arch, const Node *n, const bool *stored, Ends *ends) {
  if (fuse_listed(ends->within, ends->nwithin, n)) return true;
  if (ends->nwithin == kMostChain) return false;
  ends->within[ends->nwithin++] = n;
  for (int i = 0; i < n->nin; i++) {
    const Node *in = n->in[i];
    if (!remat_is_large(in, n) || is_end(ends, in) || node_is_computed(in)) continue;
    int count = ends->count, nwithin = ends->nwithin;
    bool cheap = remat_is_cheap(arch, in);
    if (cheap && find_ends(arch, in, stored, ends)) continue;
    ends->count = count, ends->nwithin = nwithin;
    if (count == kMostEnds || !in_memory(in, stored) || (cheap && !ends->maps)) return false;
    ends->node[ends->count++] = in;
  }
  return true;
}

static Known *known_of(Graph *to, const Node *n) {
  Chains *c = to->scratch;
  for (; c->nknown <= n->id; c->nknown++) {
    c->known = arena_grow(to->arena, c->known, c->nknown, sizeof *c->known);
    c->known[c->nknown] = (Known){0};
  }
  return &c->known[n->id];
}

static int64_t ends_bytes(const Ends *ends) {
  int64_t bytes = 0;
  for (int i = 0; i < ends->count; i++) bytes += type_bytes(&ends->node[i]->type);
  return bytes;
}

bool remat_is_shape(const Node *n) {
  return node_is_move(n, MoveReshape) && !n->fixed && view_same_memory(n) &&
         n->in[0]->op->cls == OpMap;
}

// Is n a reshape of a source or of a reduction's result, which each reader can read in place?
static bool is_view(const Node *n) {
  return n->op->cls == OpMove && n->nin == 1 && !n->fixed &&
         (node_has_memory(n->in[0]) || n->in[0]->op->cls == OpReduce) && view_same_memory(n);
}

// Is n an integer or bool value computed from `in`, small integer labels in memory?
static bool is_of_labels(const Arch *arch, const Node *n, const Node *in) {
  bool whole = !dtype_is_float(n->type.dtype) && !dtype_is_float(in->type.dtype);
  return whole && (node_has_memory(in) || is_view(in)) && gain_small_read(arch, &in->type);
}

// MadeFree if n depends on no value in memory as large as itself, MadeOfLabels if only on small
// integers. Memoised: chains of residual blocks are deep.
static Made made_of(Graph *to, const Node *n) {
  const Arch *arch = to->c->options.arch;
  Made made = known_of(to, n)->made;
  if (made) return made;
  made = remat_is_cheap(arch, n) || remat_is_shape(n) ? MadeFree : MadeOfMemory;
  for (int i = 0; made != MadeOfMemory && i < n->nin; i++) {
    const Node *in = n->in[i];
    if (node_is_computed(in) || !remat_is_large(in, n)) continue;
    Made other = is_of_labels(arch, n, in) ? MadeOfLabels : made_of(to, in);
    if (other > made) made = other;
  }
  return known_of(to, n)->made = made;
}
static bool is_free(Graph *to, const Node *n) {
  return made_of(to, n) != MadeOfMemory;
}

// n, or a private copy of it for one reader, with copies of its free producers. Memoised per
// reader: copied as a tree, a chain of n maps that each read their input twice would have 2^n
// nodes.
static Node *own_free(Graph *to, Node *n) {
  const Chains *c = to->scratch;
  if (!is_view(n) && !is_free(to, n)) return n;
  if (known_of(to, n)->turn == c->turn) {
    known_of(to, n)->copy->uses++;
    return known_of(to, n)->copy;
  }
  Node *in[MaxInputs];
  for (int i = 0; i < n->nin; i++) in[i] = is_view(n) ? n->in[i] : own_free(to, n->in[i]);
  Node *copy = remat_copy(to, n, in);
  *known_of(to, n) = (Known){known_of(to, n)->made, copy, c->turn};
  return copy;
}

// A small input of a chain: copied too if it is computed from labels.
static Node *own_beside(Graph *to, Node *n) {
  return type_count(&n->type) > 1 && is_free(to, n) ? own_free(to, n) : n;
}

// n, or a private copy of it if it is cheap and not an end of the chain. shared: a node downstream
// has other readers. Memoised per reader.
static Node *own_chain(Graph *to, Node *n, const Ends *ends, bool shared) {
  const Chains *c = to->scratch;
  if (!remat_is_cheap(to->c->options.arch, n) || is_end(ends, n)) return n;
  if (known_of(to, n)->turn == c->turn) {
    known_of(to, n)->copy->uses++;
    return known_of(to, n)->copy;
  }
  Node *in[MaxInputs];
  shared = shared || n->uses > 1;
  bool same = !shared;
  for (int i = 0; i < n->nin; i++) {
    in[i] = remat_is_large(n->in[i], n) ? own_chain(to, n->in[i], ends, shared)
                                        : own_beside(to, n->in[i]);
    same = same && in[i] == n->in[i];
  }
  Node *own = same ? n : remat_copy(to, n, in);
  own->late = ends->late;
  if (same) return n;
  *known_of(to, n) = (Known){known_of(to, n)->made, own, c->turn};
  return own;
}

// Must n be in memory for `reader`? Not for a map, nor for a reduction that recomputes n.
static bool wants_memory(const Arch *arch, const Node *reader, const Node *n) {
  bool sums = reader->op->cls == OpReduce && !fuse_fits_row(reader) && remat_is_cheap(arch, n);
  return reader->op->cls != OpMap && !sums;
}

// Will a block probably hold the rows of reduction n, so that its elements are in registers?
// split_rows.c decides that later, from the graph built here.
static bool holds_across(const Node *n) {
  enum { kMostAcross = 2048 }; // elements of a strided row; a block has at least eight rows
  const Type *t = &n->in[0]->type;
  bool together = type_innermost_in(t, n->attr.axes);
  return fuse_fits_across(n) &&
         type_count(t) / type_count(&n->type) <= (together ? kSureRow : kMostAcross);
}

// ---- the pass ----------------------------------------------------------------------------------

// Is `map` free given inputs `in`, and read only by maps? Those copy it together with its inputs.
static bool is_copied(Graph *to, const Node *map, Node **in) {
  bool free = !((const Chains *)to->scratch)->stored[map->id];
  free = free && remat_is_cheap(to->c->options.arch, map);
  for (int i = 0; free && i < map->nin; i++) free = node_is_computed(in[i]) || is_free(to, in[i]);
  return free;
}

// Replaces inputs of a map that have other readers by private copies, as far as these are free.
static void own_inputs(Graph *to, const Node *map, Node **in) {
  Chains *c = to->scratch;
  bool copied = is_copied(to, map, in);
  if (prec_compared(map)) return;
  c->turn++;
  for (int i = 0; i < map->nin; i++) {
    bool read = in[i]->uses > 1 || in[i]->op->cls == OpMap;
    if (remat_late_wants(c->late, map, map->in[i]))
      in[i] = remat_late_copy(to, c->late, map->in[i]);
    else if (!copied && read && type_count(&in[i]->type) > 1)
      in[i] = own_free(to, in[i]);
  }
}

static Node *remat_for(Graph *to, const Node *reduction, Node *x, const Ends *ends) {
  Chains *c = to->scratch;
  if (c->of == x && c->axes == reduction->attr.axes) {
    c->copy->uses += c->copy != x;
    return c->copy;
  }
  c->of = x;
  c->axes = reduction->attr.axes;
  c->turn++;
  return c->copy = own_chain(to, x, ends, false);
}

// Does `node` gather or reduce a reshape of a value that is expected to be in memory?
static bool reads_view(const Chains *c, const Node *node) {
  const Node *x = node->nin ? node->in[0] : NULL;
  bool view = x && x->op->cls == OpMove && x->nin == 1 && !x->fixed && view_same_memory(x);
  return view && (op_gathers(node->op) || node->op->cls == OpReduce) && c->whole[x->in[0]->id];
}

// The private chain that a reduction of x recomputes, or NULL if x is stored or the row is held. If
// the contraction before x may do the reduction in its epilogue, stored maps do not end the chain.
// A value with other readers is not recomputed from more bytes than it has itself.
static Node *reduced_chain(Graph *to, const Node *reduction, Node *x) {
  const Arch *arch = to->c->options.arch;
  const Chains *c = to->scratch;
  const Node *old = reduction->in[0];
  if (fuse_fits_row(reduction) || !remat_is_cheap(arch, x) || c->compared[old->id]) return NULL;
  bool sums = remat_late_sums_columns(c->late, old);
  Ends ends = {.maps = !sums, .late = !sums};
  if (!find_ends(arch, x, NULL, &ends)) return NULL;
  if (c->read[old->id] && ends_bytes(&ends) > type_bytes(&x->type)) return NULL;
  return remat_for(to, reduction, x, &ends);
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Chains *chains = to->scratch;
  if (reads_view(chains, node)) {
    in[0] = remat_copy(to, in[0], in[0]->in);
    in[0]->late = true;
  }
  if (node_is_gather(node) && made_of(to, in[1]) == MadeOfLabels) { // indices computed from labels
    ((Chains *)to->scratch)->turn++;
    in[1] = own_free(to, in[1]);
  }
  // a contraction reads its operands in place
  for (int i = 0; i < node->nin && node->op->cls == OpContract; i++)
    if (in[i]->uses > 1 && is_view(in[i])) in[i] = remat_copy(to, in[i], in[i]->in);
  Node *own = node->op->cls == OpReduce ? reduced_chain(to, node, in[0]) : NULL;
  if (node->op->cls == OpMap) own_inputs(to, node, in);
  Node *n = graph_add(to, node->op, node->nin, own ? &own : in, &node->attr, node);
  n->type = node->type;
  n->uses = node->uses;
  if (chains->stored[node->id]) n->subst = n;
  return n;
}

// A cheap map that a reduction cannot recompute, nor a contraction reduce in its epilogue, is
// stored for it, and so can end the chains of other reductions.
static void store_reduced(const Graph *g, Chains *c, const Late *late) {
  const Arch *arch = g->c->options.arch;
  bool *reduced = arena_alloc(g->arena, sizeof *reduced * (size_t)(g->nnodes + 1));
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool sweeps = n->op->cls == OpReduce && !fuse_fits_row(n) && !holds_across(n);
    if (n->uses && sweeps) reduced[n->in[0]->id] = true;
  }
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    if (!reduced[n->id] || !remat_is_cheap(arch, n) || remat_late_sums_columns(late, n)) continue;
    if (!find_ends(arch, n, c->stored, &(Ends){.maps = true}))
      c->stored[n->id] = c->whole[n->id] = true;
  }
}

Graph *remat_own(Graph *g) {
  size_t count = (size_t)g->nnodes + 1;
  Chains chains = {.stored = arena_alloc(g->arena, sizeof(bool) * count),
                   .whole = arena_alloc(g->arena, sizeof(bool) * count),
                   .read = arena_alloc(g->arena, sizeof(bool) * count),
                   .compared = arena_alloc(g->arena, sizeof(bool) * count)};
  for (int i = 0; i < g->nnodes; i++) {
    const Node *n = g->nodes[i];
    bool view = n->op->cls == OpMove && n->nin == 1;
    const Node *compared = prec_compared(n);
    if (compared) chains.compared[compared->id] = true;
    for (int j = 0; n->uses && j < n->nin; j++) {
      if (!wants_memory(g->c->options.arch, n, n->in[j])) continue;
      chains.stored[n->in[j]->id] = chains.read[n->in[j]->id] = true;
      if (!view) chains.whole[n->in[j]->id] = true;
    }
  }
  for (int i = 0; i < g->noutputs; i++)
    chains.stored[g->outputs[i].node->id] = chains.whole[g->outputs[i].node->id] = true;
  for (int i = 0; i < g->nupdates; i++)
    chains.stored[g->updates[i].value->id] = chains.whole[g->updates[i].value->id] = true;
  Late *late = remat_late_begin(g, chains.stored);
  store_reduced(g, &chains, late);
  remat_late_find(late, g);
  chains.late = late;
  return graph_copy(graph_rebuild(g, rewrite, &chains));
}
