// prologue.c: a group of maps and moves joins its only reader, if the reader's template can
// evaluate an expression at each element that it loads.
#include "fuse.h"

#include <math.h>

static bool is_view(const Node *n) {
  return n->op->cls == OpMove;
}
static bool is_light(const Node *n) {
  return n->op->cls == OpMap || is_view(n);
}

// The only group that reads results of k, or NULL.
static Group *only_reader(const Group *k) {
  Group *reader = NULL;
  for (int i = 0; i < k->nnodes; i++) {
    const Node *n = k->nodes[i];
    int count;
    Node **readers = fuse_readers(k->graph, n, &count);
    if (count != n->uses) return NULL; // it is an output of the model
    for (int j = 0; j < count; j++) {
      if (readers[j]->group == k) continue;
      if (readers[j]->placed) return NULL; // it is a part of a concat
      if (reader && reader != readers[j]->group) return NULL;
      reader = readers[j]->group;
    }
  }
  return reader;
}

// Moves that only change how their input is indexed, as bits.
enum { kViews = 1 << MovePermute | 1 << MoveSlice | 1 << MoveReshape };

// Are all nodes of k moves of these forms (bits)?
static bool only_moves(const Group *k, unsigned forms) {
  for (int i = 0; i < k->nnodes; i++)
    if (!is_view(k->nodes[i]) || !(forms >> k->nodes[i]->op->form & 1)) return false;
  return true;
}

// Does k only change the order of its input?
static bool only_reorders(const Group *k) {
  for (int i = 0; i < k->nnodes; i++) {
    const Node *n = k->nodes[i];
    if (!is_view(n) && (!(n->op->flags & FlagCopy) || n->in[0]->type.dtype != n->type.dtype))
      return false;
  }
  return true;
}

// The operand of the reader's contraction that reads `made`, directly or through moves, or NULL.
static const Node *operand_of(const Group *reader, const Node *made) {
  for (int i = 0; i < 2; i++) {
    const Node *n = reader->anchor->in[i];
    while (n != made && n->group == reader && n->nin == 1 &&
           (is_view(n) || n->op->flags & FlagCopy))
      n = n->in[0];
    if (n == made) return reader->anchor->in[i];
  }
  return NULL;
}

// Could strides address the operand if the moves of k were the reader's?
static bool lies_in_place(Group *reader, Group *k, const Node *operand) {
  int64_t stride[MaxRank], offset;
  for (int i = 0; i < k->nnodes; i++) k->nodes[i]->group = reader;
  bool found = view_of(reader, operand, stride, &offset);
  for (int i = 0; i < k->nnodes; i++) k->nodes[i]->group = k;
  return found;
}

// Are k's inputs in memory even without k? Otherwise maps before it would be fused with k.
static bool reads_memory(const Group *k) {
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++) {
      const Group *before = k->nodes[i]->in[j]->group;
      if (before && before != k && !before->fixed && before->tm->fusion->maps) return false;
    }
  return true;
}

// The group that reorders a value in memory and is read only by k, which also reorders it, or NULL.
static Group *reorders_before(const Group *k) {
  Group *before = k->nodes[0]->nin == 1 ? k->nodes[0]->in[0]->group : NULL;
  bool moves = before && before != k && before->nnodes && before->tm->fusion->maps &&
               only_reorders(before) && reads_memory(before);
  return moves && only_reader(before) == k ? before : NULL;
}

// Can k's input be copied in whole 4-byte words, in its memory order?
static bool lies_in_words(const Group *k) {
  const Type *t = &k->nodes[0]->in[0]->type;
  return !t->rank || t->dim[t->order[t->rank - 1]] * (int64_t)dtype_size(t->dtype) % 4 == 0;
}

// Seconds of the reader's best candidate tile, as it is.
static double least_seconds(const Group *reader) {
  Tile best;
  int count = reader->tm->candidates(reader, reader->graph->c->options.arch, &best, 1);
  return count ? best.seconds : INFINITY;
}

// Seconds of a contraction that reads k's input in place; and of k as a copy plus the contraction.
static double seconds_inside(Group *reader, Group *k) {
  for (int i = 0; i < k->nnodes; i++) k->nodes[i]->group = reader;
  double seconds = least_seconds(reader);
  for (int i = 0; i < k->nnodes; i++) k->nodes[i]->group = k;
  return seconds;
}
static double seconds_apart(const Group *reader, const Group *k) {
  const Arch *arch = reader->graph->c->options.arch;
  return least_seconds(reader) + gain_of_copy(arch, &k->nodes[k->nnodes - 1]->type);
}

// The group of maps before k whose only reader is k, or NULL.
static Group *maps_before(const Group *k) {
  Group *before = k->nodes[0]->nin == 1 ? k->nodes[0]->in[0]->group : NULL;
  bool maps = before && before != k && !before->fixed && before->nnodes && before->tm->fusion->maps;
  return maps && only_reader(before) == k ? before : NULL;
}

// Would it be faster to leave k, and moves before it, to the kernel of maps that computes their
// input? The contraction would not absorb that kernel.
static bool belongs_before(Group *reader, Group *k) {
  Group *chain[kMostNodes] = {k}, *maker = maps_before(k);
  int count = 1;
  for (; maker && only_moves(maker, kViews) && count < kMostNodes; maker = maps_before(maker))
    chain[count++] = maker;
  if (!maker || only_moves(maker, kViews)) return false;
  double apart = least_seconds(reader);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < chain[i]->nnodes; j++) chain[i]->nodes[j]->group = reader;
  double inside = least_seconds(reader);
  bool stays = legal_prologue(reader, maker) || prologue_of_product(reader, maker);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < chain[i]->nnodes; j++) chain[i]->nodes[j]->group = chain[i];
  return stays && inside > apart + reader->graph->c->options.arch->launch_gap;
}

// Does a contraction read k only in its final reduction, once per column?
static bool is_read_at_foot(const Group *reader, const Group *k) {
  bool foot = reader->tm->fusion->product;
  for (int i = 0; i < reader->nnodes && foot; i++)
    for (int j = 0; j < reader->nodes[i]->nin; j++)
      foot = foot && (reader->nodes[i]->in[j]->group != k || reader->nodes[i]->tail == kFootTail);
  return foot;
}

// An epilogue, and a row group's domain, read one element at a time, so any expression may be
// evaluated there if that is cheaper.
const char *prologue_of_elements(Group *reader, Group *k) {
  double reads = in_place_computed(reader->graph, reader->anchor);
  if (reader->tm->fusion->elements && !reader->tm->fusion->maps)
    reads = (double)type_count(reader->tm->fusion->elements(reader));
  if (is_read_at_foot(reader, k)) reads = (double)type_count(&k->nodes[k->nnodes - 1]->type);
  bool pays = gain_inside(reader->graph->c->options.arch, k, reads);
  return pays ? NULL : "its elements would be recomputed too often";
}

// A contraction reads views of its operands in place. Other prologues are computed in it only if it
// could not copy runs of the result anyway: moves of A that are not views, if A's runs (channels,
// or the inner dimension) are not a multiple of 4 bytes; or single floats that it copies one at a
// time.
const char *prologue_of_product(Group *reader, Group *k) {
  const Node *a = reader->anchor, *made = k->nodes[k->nnodes - 1];
  const Node *operand = operand_of(reader, made);
  bool moves = only_moves(k, kViews);
  if (!operand) return prologue_of_elements(reader, k);
  if (moves && lies_in_place(reader, k, operand)) return NULL;
  Group *before = reorders_before(k);
  if (only_reorders(k) && (before || reads_memory(k)) && lies_in_words(before ? before : k)) {
    for (int i = 0; before && i < before->nnodes; i++) before->nodes[i]->group = reader;
    double inside = seconds_inside(reader, k);
    for (int i = 0; before && i < before->nnodes; i++) before->nodes[i]->group = before;
    // The smallest kernel costs about two launches; gain_of_copy() counts one.
    double least = reader->graph->c->options.arch->launch_gap;
    return inside < seconds_apart(reader, k) + least
               ? NULL
               : "a separate copy and a product that reads it are faster";
  }
  if (moves && belongs_before(reader, k))
    return "its producer can store it in this order; the product itself would be slower";
  Maps maps = maps_of(a, 0);
  int64_t run = maps_run(&maps, MapA, a->op->last[MapA]);
  int64_t size = (int64_t)dtype_size(made->type.dtype), bytes = run * size;
  bool singly = size == 4 && bytes % 8 && only_reorders(k);
  double reads = (double)(maps_count(&maps, AxisM) * maps_count(&maps, AxisK));
  if (operand == a->in[0] && (moves || bytes % 4 || singly) &&
      gain_inside(reader->graph->c->options.arch, k, reads * (double)maps_count(&maps, AxisBatch)))
    return NULL;
  return "the product copies its operand in runs; computing each element there would cost more";
}

// Does k read only values smaller than its result? Attention uses such masks to classify tiles.
static bool is_made_of_less(const Group *k) {
  int64_t made = type_count(&k->nodes[k->nnodes - 1]->type);
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++) {
      const Node *in = k->nodes[i]->in[j];
      bool memory = in->op->cls != OpSource || node_has_memory(in);
      if (in->group != k && memory && type_count(&in->type) * 2 > made) return false;
    }
  return true;
}

static const char *prologue_pays(const Group *k, double reads) {
  bool pays = gain_inside(k->graph->c->options.arch, k, reads);
  return pays ? NULL : "its elements would be recomputed too often";
}

// Does n, within the reader, depend on `made`? `loaded`: only through nodes of operand prologues.
static bool is_made_of(const Node *n, const Group *reader, const Node *made, bool loaded) {
  const Node *list[kMostNodes] = {n}; // nodes of the reader on which n depends
  for (int at = 0, count = 1; at < count; at++) {
    if (list[at] == made) return true;
    if (loaded && list[at]->tail != kLoadTail) continue;
    for (int i = 0; i < list[at]->nin; i++) {
      const Node *x = list[at]->in[i];
      int known = 0;
      while (known < count && list[known] != x) known++;
      if (known == count && count < kMostNodes && (x == made || x->group == reader))
        list[count++] = x;
    }
  }
  return false;
}

// Operands of attention must be loadable by copies; other inputs are recomputed for each score.
const char *prologue_of_attention(Group *reader, Group *k) {
  const Attention *a = reader->attention;
  const Node *made = k->nodes[k->nnodes - 1];
  for (int i = 0; i < a->noperands; i++) {
    const Node *n = a->operand[i], *base;
    while (n != made && n->group == reader && n->nin == 1) n = n->in[0];
    if (n != made) continue;
    int64_t stride[MaxRank], offset;
    for (int j = 0; j < k->nnodes; j++) k->nodes[j]->group = reader;
    bool found = attend_piece(reader, a, i, stride, &offset, &base);
    for (int j = 0; j < k->nnodes; j++) k->nodes[j]->group = k;
    if (!found) return "attention can load q, k and v only in contiguous runs from memory";
  }
  for (int i = 0; i < a->noperands; i++) // per computed element of a head
    if (is_made_of(a->operand[i], reader, made, true))
      return prologue_pays(k, (double)type_count(&a->operand[i]->type));
  double reads = (double)type_count(&a->score->type);
  bool pays = is_made_of_less(k) || gain_inside(reader->graph->c->options.arch, k, reads);
  return pays ? NULL : "its elements would be recomputed too often";
}

// Each element of a row is read once, indices once per table of sums.
const char *prologue_of_scatter(Group *reader, Group *k) {
  enum { kCells = 1 << 13 }; // cells of a table: sched_scatter.c
  const Node *a = reader->anchor, *made = k->nodes[k->nnodes - 1];
  double reads = (double)type_count(&made->type);
  const Type *ids = &a->in[0]->type;
  double sums = (double)(type_count(&a->type) / (ids->rank > 1 ? ids->dim[0] : 1)); // of a batch
  if (is_made_of(a->in[0], reader, made, false)) reads *= ceil(sums / kCells);
  return prologue_pays(k, reads);
}

const char *prologue_of_window(Group *reader, Group *k) {
  const Node *a = reader->anchor;
  double taps = (double)(node_window(a, 0) * node_window(a, 1));
  double reads = (double)type_count(&a->type) * taps;
  bool pays = gain_inside(reader->graph->c->options.arch, k, reads);
  return pays ? NULL : "each tap of the window would recompute it";
}

const char *legal_prologue(const Group *reader, const Group *k) {
  const char *large = legal_size(reader, k);
  if (large) return large;
  if (!fuse_same_call(k, reader)) return "lowering is unfused, and they belong to different layers";
  // A view of a parameter only changes how it is indexed. A slice is copied by init if nothing else
  // of the parameter is read, which then need not be kept.
  unsigned slices = prec_unmoved(k->nodes[0])->uses > 1 ? 1 << MoveSlice : 0;
  if (k->fixed != reader->fixed && !only_moves(k, 1 << MoveReshape | 1 << MovePermute | slices))
    return "one of them is computed once, by init";
  for (int i = 0; i < k->nnodes; i++)
    if (!is_light(k->nodes[i])) return "it is not a map or move";
  return fuse_makes_cycle(k, reader) ? "fusing would create a dependence cycle" : NULL;
}

void prologue_grow(Graph *g) {
  for (int i = g->nnodes - 1; i >= 0; i--) {
    Node *n = g->nodes[i];
    Group *k = n->group;
    if (!k || !k->nnodes || k->nodes[k->nnodes - 1] != n || !k->tm->fusion->maps) continue;
    Group *reader = only_reader(k);
    if (!reader) continue;
    const char *reason = legal_prologue(reader, k);
    if (!reason) reason = reader->tm->fusion->takes(reader, k);
    if (!reason) fuse_absorb(g, reader, k);
    if (!n->kept) n->kept = reason; // a reason that attention has set says more
  }
}
