// heads.c: prologues of attention: norms of heads, rotary embeddings and casts of q, k, v, computed
// as the operands are loaded. Kernels of maps, moves and row reductions that are read only by
// attention, directly or through each other, can be absorbed: attention's threads then compute the
// rows of a tile from the prologue's inputs instead of copying them. A tile of queries is loaded
// once, keys and values once per tile of queries; the cost model decides for each operand.
//
// What is not absorbed becomes one separate kernel if it would otherwise be several; it computes
// rows in the same way.
//
// Runs after epilogues, so that maps absorbed by a contraction stay there, and before
// concat_in_place.c, which would place concats such as those of the rotated halves of a head.
#include "fuse.h"

#include <math.h>
#include <stdlib.h>

typedef struct Heads { // an operand, and the groups that could compute it
  Group *reader;
  Node *head; // the operand, or the stored value it is a view of
  int along;  // dimension of head elements
  bool stored, reduced; // stored: others may read it; reduced: may rows be reduced in the kernel?
  Group *list[kMostNodes];
  int count, nnodes;
} Heads;

static bool is_listed(const Heads *h, const Group *k) {
  for (int i = 0; i < h->count; i++)
    if (h->list[i] == k) return true;
  return false;
}

// ---- which kernels ------------------------------------------------------------------------------

static bool reduces_one_axis(const Node *n) {
  return n->op->cls == OpReduce && n->attr.axes && !(n->attr.axes & (n->attr.axes - 1));
}

// Could a thread of the reader compute k, element by element and row by row?
static bool may_load(const Group *reader, const Group *k, bool reduced) {
  bool legal = !k->attention && !k->nparts && k->fixed == reader->fixed &&
               k->anchor->entry == reader->anchor->entry &&
               k->anchor->again == reader->anchor->again && fuse_same_call(k, reader);
  for (int i = 0; i < k->nnodes && legal; i++) {
    OpClass cls = k->nodes[i]->op->cls;
    legal = cls == OpMap || cls == OpMove || (reduced && reduces_one_axis(k->nodes[i]));
  }
  return legal;
}

// Are groups of the list the only readers of k's results, apart from attention, which reads the
// operand once?
static bool serves_alone(const Heads *h, const Group *k) {
  for (int i = 0; i < k->nnodes; i++) {
    const Node *n = k->nodes[i];
    int count;
    Node **readers = fuse_readers(k->graph, n, &count);
    if (n == h->head && h->stored) continue;
    if (count != n->uses) return false; // it is an output of the model
    for (int j = 0; j < count; j++) {
      bool loads = n == h->head && readers[j]->group == h->reader && count == 1;
      if (!loads && readers[j]->group != k && !is_listed(h, readers[j]->group)) return false;
    }
  }
  return true;
}

static bool add(Heads *h, Group *k) {
  if (!k || is_listed(h, k) || h->nnodes + k->nnodes + h->reader->nnodes > kMostNodes ||
      !may_load(h->reader, k, h->reduced) || !serves_alone(h, k))
    return false;
  h->nnodes += k->nnodes;
  h->list[h->count++] = k;
  return true;
}

static void find(Heads *h) {
  bool news = add(h, h->head->group);
  while (news) {
    news = false;
    for (int i = 0; i < h->count; i++)
      for (int j = 0; j < h->list[i]->nnodes; j++)
        for (int in = 0; in < h->list[i]->nodes[j]->nin; in++)
          news = add(h, h->list[i]->nodes[j]->in[in]->group) || news;
  }
}

// ---- dimensions of a head -----------------------------------------------------------------------

// Dimensions (bits) of a value along which the elements of a head vary.
typedef struct Along {
  const Node *node;
  unsigned dims;
  bool gathered; // read through a computed index
} Along;

static int last_first(const void *a, const void *b) {
  return ((const Along *)b)->node->id - ((const Along *)a)->node->id;
}

// Dimensions of `from` that are reshaped to the dimensions `dims` of `to`.
static unsigned before_reshape(const Type *to, const Type *from, unsigned dims) {
  unsigned before = 0;
  for (int i = 0, j = 0; i < to->rank || j < from->rank;) {
    int i0 = i, j0 = j;
    int64_t a = i < to->rank ? to->dim[i++] : 1, b = j < from->rank ? from->dim[j++] : 1;
    while (a != b)
      if (a < b)
        a *= to->dim[i++];
      else
        b *= from->dim[j++];
    bool along = false;
    for (int d = i0; d < i; d++) along = along || (dims >> d & 1 && to->dim[d] > 1);
    for (int d = j0; d < j && along; d++) before |= 1u << d;
  }
  return before;
}

// Dimensions of input i of n that correspond to dimensions `dims` of n.
static unsigned dims_before(const Node *n, int i, unsigned dims) {
  const Type *from = &n->in[i]->type;
  unsigned before = 0;
  if (n->op->cls == OpReduce) return (unsigned)n->attr.axes;
  if (node_is_move(n, MoveReshape)) return before_reshape(&n->type, from, dims);
  if (node_is_move(n, MovePermute)) {
    for (int d = 0; d < n->type.rank; d++)
      if (dims >> d & 1) before |= 1u << n->attr.dims[d];
    return before;
  }
  int ahead = n->op->cls == OpMap ? n->type.rank - from->rank : 0;
  for (int d = 0; d < from->rank; d++)
    if (dims >> (d + ahead) & 1 && from->dim[d] > 1) before |= 1u << d;
  return before;
}

// Is each reduction the same for all elements of a head, and is the code not too long?
static bool is_simple(const Heads *h) {
  Along list[kMostNodes];
  Node *nodes[kMostNodes];
  int count = 0;
  for (int i = 0; i < h->count; i++)
    for (int j = 0; j < h->list[i]->nnodes; j++)
      list[count++] = (Along){.node = h->list[i]->nodes[j]};
  qsort(list, (size_t)count, sizeof *list, last_first); // readers first
  for (int i = 0; i < count; i++) nodes[count - 1 - i] = (Node *)list[i].node;
  if (legal_values(nodes, count)) return false;
  for (int i = 0; i < count; i++) {
    const Node *n = list[i].node;
    if (n == h->head) list[i].dims |= 1u << h->along;
    unsigned others = n->op->cls == OpReduce ? list[i].dims & ~(unsigned)n->attr.axes : 0;
    if (others || (n->op->cls == OpReduce && list[i].gathered)) return false;
    for (int in = 0; in < n->nin; in++)
      for (int j = i + 1; j < count; j++) {
        if (list[j].node != n->in[in]) continue;
        list[j].gathered = list[j].gathered || list[i].gathered || node_is_gather(n);
        if (!node_is_gather(n)) list[j].dims |= dims_before(n, in, list[i].dims);
      }
  }
  return true;
}

// ---- the cost -----------------------------------------------------------------------------------

static bool computes(const Group *k) {
  for (int i = 0; i < k->nnodes; i++)
    if (k->nodes[i]->op->cls != OpMove && !(k->nodes[i]->op->flags & FlagCopy)) return true;
  return false;
}

static bool reduces(const Group *k) {
  for (int i = 0; i < k->nnodes; i++)
    if (k->nodes[i]->op->cls == OpReduce) return true;
  return false;
}

// Are reduced rows longer than a head? Then each head would recompute the whole row's reduction.
static bool reduces_more(const Heads *h) {
  int64_t most = 0;
  for (int i = 0; i < h->count; i++)
    for (int j = 0; j < h->list[i]->nnodes; j++) {
      const Node *n = h->list[i]->nodes[j];
      int64_t row = n->op->cls == OpReduce ? type_count(&n->in[0]->type) / type_count(&n->type) : 0;
      if (row > most) most = row;
    }
  return most > h->head->type.dim[h->along];
}

static double least_seconds(const Group *reader) {
  Tile best;
  int count = reader->tm->candidates(reader, reader->graph->c->options.arch, &best, 1);
  return count ? best.seconds : INFINITY;
}

static void give(const Heads *h, bool back) {
  for (int i = 0; i < h->count; i++)
    for (int j = 0; j < h->list[i]->nnodes; j++)
      h->list[i]->nodes[j]->group = back ? h->list[i] : h->reader;
}

static double seconds_inside(const Heads *h) {
  give(h, false);
  double seconds = least_seconds(h->reader);
  give(h, true);
  return seconds;
}

// Is an input of a concat operand only a move of a stored value? It would be copied separately.
static bool copies_part(const Heads *h) {
  bool found = false;
  for (int i = 0; i < h->head->nin && h->head->op->cls == OpMove && h->head->nin > 1; i++) {
    const Node *n = h->head->in[i];
    while (n->op->cls == OpMove && n->nin == 1 && is_listed(h, n->group)) n = n->in[0];
    found = found || !is_listed(h, n->group);
  }
  return found;
}

// Number of kernels if not absorbed: one per row reduction, one for all maps, one for a copied
// part.
static int kernels_apart(const Heads *h) {
  int rows = 0, maps = 0;
  for (int i = 0; i < h->count; i++) {
    rows += reduces(h->list[i]);
    maps += !reduces(h->list[i]) && computes(h->list[i]);
  }
  return rows + (maps > 0) + copies_part(h);
}

// Seconds if a separate kernel computes the operand. `shared`: that kernel runs anyway, for another
// operand.
static double seconds_apart(const Heads *h, bool shared) {
  enum { kFill = 1600 }; // clocks of a launch
  const Arch *arch = h->reader->graph->c->options.arch;
  double launch = arch->launch_gap + kFill / (arch->clock * 1e9);
  double bytes = gain_of_copy(arch, &h->head->type) - arch->launch_gap;
  return least_seconds(h->reader) + bytes + (shared ? 0 : launch);
}

static void join(Graph *g, Heads *h) {
  for (int i = 0; i < h->count; i++) {
    for (int j = 0; j < h->list[i]->nnodes; j++) h->list[i]->nodes[j]->tail = kLoadTail;
    fuse_absorb(g, h->reader, h->list[i]);
  }
}

static bool find_simple(Heads *h) {
  bool any = false;
  find(h);
  for (int i = 0; i < h->count; i++) any = any || computes(h->list[i]);
  return any && is_simple(h);
}

// Finds the groups of an operand, with row reductions or without; false if there are none.
static bool open_heads(Heads *h, Group *reader, int operand, bool reduced) {
  const Attention *a = reader->attention;
  *h = (Heads){.reader = reader, .reduced = reduced};
  h->head = a->operand[operand], h->along = a->along[operand];
  return find_simple(h);
}

// Could one separate kernel compute both q and k, which have the same shape and operations?
static bool are_alike(Group *k) {
  const Attention *a = k->attention;
  Heads q, keys;
  return type_count(&a->operand[0]->type) == type_count(&a->operand[1]->type) &&
         open_heads(&q, k, 0, true) && open_heads(&keys, k, 1, true) && kernels_apart(&q) == 1 &&
         kernels_apart(&keys) == 1;
}

// Absorbs both if that is cheaper.
static bool join_both(Graph *g, Group *k) {
  Heads q, keys;
  open_heads(&q, k, 0, true), open_heads(&keys, k, 1, true);
  double apart = seconds_apart(&q, false) + seconds_apart(&keys, true) - least_seconds(k);
  give(&q, false);
  double inside = seconds_inside(&keys);
  give(&q, true);
  if (inside >= apart) return false;
  join(g, &q), join(g, &keys);
  return true;
}

static bool join_one(Graph *g, Group *k, int operand, bool shared) {
  Heads h;
  for (int reduced = 1; reduced >= 0; reduced--) {
    if (!open_heads(&h, k, operand, reduced)) continue;
    if (seconds_inside(&h) < seconds_apart(&h, shared)) {
      join(g, &h);
      return true;
    }
    h.head->kept = "each tile of queries would recompute its rows, which is slower";
    if (!reduces_more(&h)) return false; // one separate kernel can compute all of it
  }
  return false;
}

// ---- a separate kernel --------------------------------------------------------------------------

static const Template *heads_template(const Graph *g) {
  const Template *tm = g->c->templates;
  while (tm->fusion != &fusion_heads) tm++;
  return tm;
}

// The value that is stored for an operand, which may be a view of it.
static Node *stored_of(Node *n, const Group *reader) {
  while (n->op->cls == OpMove && n->nin == 1 && n->group != reader && view_same_memory(n) &&
         n->in[0]->group && n->in[0]->group != reader)
    n = n->in[0];
  return n;
}

// Seconds to write all of a state of which a single position changes: kernels of their own write
// only that.
static double rewrite_seconds(const Graph *g, const Node *state) {
  const Arch *arch = g->c->options.arch;
  return gain_of_copy(arch, &state->type) - arch->launch_gap;
}

// Seconds that one kernel saves, in place of several: the smallest costs about two launches.
static double joined_seconds(const Heads *h) {
  return 2 * (kernels_apart(h) - 1) * h->reader->graph->c->options.arch->launch_gap;
}

// Merges the kernels that compute a stored operand, if there are several.
static void make_kernel(Graph *g, Group *reader, int operand) {
  const Attention *a = reader->attention;
  Node *made = stored_of(a->operand[operand], reader);
  if (made->group == reader || !made->group || made->type.rank == 0) return;
  Heads h = {.reader = reader, .head = made, .stored = true, .reduced = true};
  h.along = made->type.order[made->type.rank - 1];
  if (made->type.dim[h.along] != a->operand[operand]->type.dim[a->along[operand]]) return;
  if (!find_simple(&h) || kernels_apart(&h) < 2 || reduces_more(&h)) return;
  if (in_place_steps(g, made) && rewrite_seconds(g, made) > joined_seconds(&h)) return;
  Group *k = h.list[0];
  for (int i = 1; i < h.count; i++) fuse_absorb(g, k, h.list[i]);
  k->anchor = made, k->tm = heads_template(g), k->ntails = 0;
}

void heads_find(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Group *k = g->nodes[i]->group;
    if (!k || k->anchor != g->nodes[i] || !k->attention || k->attention->nsteps < 0) continue;
    const Attention *a = k->attention;
    bool alike = are_alike(k);
    if (!alike || !join_both(g, k)) {
      alike = !join_one(g, k, 0, alike) && alike;
      join_one(g, k, 1, alike);
    }
    join_one(g, k, 2, false);
    for (int operand = 0; operand < a->noperands; operand++) make_kernel(g, k, operand);
  }
}
