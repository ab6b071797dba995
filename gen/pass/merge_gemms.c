// merge_gemms.c: merges contractions with the same left operand into one, with concatenated right
// operands (which must be fixed, because init concatenates them): the operand is read once, and one
// launch fills the GPU better than several. Readers get slices of the result, which the kernel
// stores as separate outputs (tail.c). If each contraction has a bias, the biases are concatenated
// and added before slicing, so that only moves are between the result and its readers, as rotary.c
// requires.
#include "pass.h"

#include <stdlib.h>
#include <string.h>

enum { kMostBeside = 8, kAligned = 8 }; // columns of each are a multiple of the vector width

typedef struct Facts { // by node id
  Node *first;         // the first of the contractions to be merged with, or NULL
  Node *made_of;       // the contraction that it is, or from which maps of one shape compute it
  Node *meets;         // of a contraction: another one with which maps combine it
  Node *joined, *sum;  // of a first one: the merged contraction; its sum with the biases
  Node *reader;        // one of its readers
  Node *biases;        // of a sum with a bias, if all have one: the first contraction
  Node *next;          // the next contraction with the same left operand
  bool reduced;        // it, or its maps and reshapes, are reduced in the contraction's epilogue
  int level;           // number of nodes other than maps and moves on the path to it
} Facts;

typedef struct Beside {
  const Graph *from;
  Facts *of;
} Beside;

// Can p be merged with others?
static bool may_join(const Node *p) {
  if (p->op->cls != OpContract || !p->uses || p->fixed || !p->in[1]->fixed || node_depthwise(p))
    return false;
  Maps m = maps_of(p, 0);
  int out = maps_dim(&m, MapOut, AxisN), columns = maps_dim(&m, MapB, AxisN);
  int64_t count = maps_count(&m, AxisN);
  return maps_phases(p) == 1 && maps_count(&m, AxisBatch) == 1 && count % kAligned == 0 &&
         p->type.dim[out] == count && p->in[1]->type.dim[columns] == count;
}

static bool alike(const Node *p, const Node *q) {
  const Type *a = &p->in[1]->type, *b = &q->in[1]->type;
  if (p->op != q->op || p->again != q->again || p->in[0] != q->in[0] || p->entry != q->entry ||
      p->precision != q->precision || p->type.dtype != q->type.dtype || a->dtype != b->dtype ||
      a->rank != b->rank || p->type.rank != q->type.rank ||
      memcmp(&p->attr, &q->attr, sizeof p->attr))
    return false;
  Maps m = maps_of(p, 0);
  int columns = maps_dim(&m, MapB, AxisN);
  for (int d = 0; d < a->rank; d++)
    if (d != columns && a->dim[d] != b->dim[d]) return false;
  return true;
}

static void find_level(Beside *s, const Node *n) {
  bool own = n->op->cls != OpMap && n->op->cls != OpMove && n->op->cls != OpSource && !n->fixed;
  int level = 0;
  for (int i = 0; i < n->nin; i++)
    if (s->of[n->in[i]->id].level > level) level = s->of[n->in[i]->id].level;
  s->of[n->id].level = level + own;
}

static void note_meeting(Beside *s, Node *p, Node *q) {
  Facts *a = &s->of[p->id], *b = &s->of[q->id];
  if (!a->meets) a->meets = q;
  if (!b->meets) b->meets = p;
}

// If maps combine two contractions, one must be computed first, or both in the same thread, which
// needs equal widths. A map that also depends on other contractions belongs to a later kernel.
static void find_meeting(Beside *s, Node *n) {
  Node *of = NULL;
  for (int i = 0; n->op->cls == OpMap && i < n->nin; i++) {
    Node *other = s->of[n->in[i]->id].made_of;
    bool waits = other && s->of[n->id].level > s->of[other->id].level;
    if (!other || waits || !type_same_shape(&other->type, &n->type)) continue;
    if (of && other != of && alike(of, other)) note_meeting(s, of, other);
    if (!of) of = other;
  }
  s->of[n->id].made_of = of;
}

// The contractions to be merged with p: the one that it is combined with, or all those that are
// combined with none.
static int find_joined(const Beside *s, Node *p, Node **list) {
  const Node *other = s->of[p->id].meets;
  int count = 0;
  for (Node *q = p; q && count < kMostBeside; q = s->of[q->id].next) {
    const Facts *of = &s->of[q->id];
    bool fits = q == p || (q == other && of->meets == p) || (!other && !of->meets);
    if (fits && !of->first && !of->reduced && alike(p, q)) list[count++] = q;
  }
  return count;
}

// Does n reduce the pixels of images, which a separate contraction would do in its epilogue?
static bool reduces_pixels(const Node *n) {
  enum { kImage = 4 }; // dimensions
  int rank = n->op->cls == OpReduce ? n->in[0]->type.rank : 0;
  return rank >= kImage && n->attr.axes >> (rank - 1) & 1 && n->attr.axes >> (rank - 2) & 1;
}

static void find_readers(const Graph *g, Beside *s) {
  // the last contraction, by id of its left operand
  Node **last = base_alloc((size_t)g->nnodes, sizeof *last);
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    for (int j = 0; n->uses && j < n->nin; j++) {
      Facts *in = &s->of[n->in[j]->id];
      in->reduced = in->reduced || n->op->cls == OpReduce;
      in->reader = n;
      if (in->made_of && reduces_pixels(n)) s->of[in->made_of->id].reduced = true;
    }
    bool reshape = node_is_move(n, MoveReshape);
    if (reshape) s->of[n->id].made_of = s->of[n->in[0]->id].made_of;
    find_level(s, n);
    if (n->uses) find_meeting(s, n);
    if (!may_join(n)) continue;
    s->of[n->id].made_of = n;
    Node **before = &last[n->in[0]->id];
    if (*before) s->of[(*before)->id].next = n;
    *before = n;
  }
  free(last);
}

// The sum of contraction p and a fixed per-column bias, which is p's only reader, or NULL.
static Node *bias_sum(const Beside *s, const Node *p) {
  Node *sum = s->of[p->id].reader;
  if (p->uses != 1 || !sum || !(sum->op->flags & FlagAdd) || sum->nin != 2 || sum->in[0] != p)
    return NULL;
  Maps m = maps_of(p, 0);
  const Node *bias = sum->in[1];
  bool row = bias->type.rank == 1 && bias->type.dim[0] == maps_count(&m, AxisN);
  return bias->fixed && row && maps_dim(&m, MapOut, AxisN) == p->type.rank - 1 ? sum : NULL;
}

static void mark_biases(Beside *s, Node **products, int count) {
  for (int i = 0; i < count; i++) {
    const Node *sum = bias_sum(s, products[i]), *other = bias_sum(s, products[0]);
    if (!sum || sum->type.dtype != other->type.dtype || sum->precision != other->precision ||
        sum->in[1]->type.dtype != other->in[1]->type.dtype)
      return;
  }
  for (int i = 0; i < count; i++) s->of[s->of[products[i]->id].reader->id].biases = products[0];
}

static bool mark(const Graph *g, Beside *s) {
  bool found = false;
  find_readers(g, s);
  for (int i = 0; i < g->nnodes; i++) {
    Node *list[kMostBeside];
    bool begins = s->of[i].next && !s->of[i].first;
    int count = begins ? find_joined(s, g->nodes[i], list) : 0;
    for (int j = 0; count > 1 && j < count; j++) s->of[list[j]->id].first = list[0];
    if (count > 1) mark_biases(s, list, count);
    found = found || count > 1;
  }
  return found;
}

// Fixed nodes come first: right operands must precede the first contraction.
static void fixed_first(Graph *g, Beside *s) {
  Node **all = base_alloc((size_t)g->nnodes, sizeof *all);
  Facts *of = base_alloc((size_t)g->nnodes, sizeof *of);
  int count = 0;
  for (int fixed = 1; fixed >= 0; fixed--)
    for (int i = 0; i < g->nnodes; i++)
      if (g->nodes[i]->fixed == fixed) of[count] = s->of[i], all[count++] = g->nodes[i];
  for (int i = 0; i < count; i++) {
    g->nodes[i] = all[i];
    g->nodes[i]->id = i;
  }
  free(all);
  free(s->of);
  s->of = of;
}

// Input 1 of each of the nodes, joined along dimension d.
static Node *join_second(Graph *to, Node **nodes, int count, int d) {
  Node *parts[kMostBeside];
  for (int i = 0; i < count; i++) parts[i] = nodes[i]->in[1]->subst;
  Attr along = {.axis = d};
  Node *w = graph_add(to, op_need(to->c, "concat"), count, parts, &along, parts[0]);
  shape_infer(to->c, w);
  w->type.dtype = parts[0]->type.dtype;
  w->uses = 1;
  return w;
}

// The merged node: like `first`, of x and the concatenated inputs.
static Node *all_of(Graph *to, const Node *first, Node *x, Node *joined) {
  Node *all = graph_add(to, first->op, 2, (Node *[]){x, joined}, &first->attr, (Node *)first);
  shape_infer(to->c, all);
  all->type.dtype = first->type.dtype;
  all->written = NULL; // it is not in the model as written
  return all;
}

static int products_of(const Beside *s, Node *first, Node **list) {
  int count = 0;
  for (Node *p = first; p; p = s->of[p->id].next)
    if (s->of[p->id].first == first) list[count++] = p;
  return count;
}

// The columns of contraction p in `all`, in the place of `node`.
static Node *part_of(Graph *to, const Beside *s, Node *all, const Node *p, Node *node) {
  Maps m = maps_of(p, 0);
  int d = maps_dim(&m, MapOut, AxisN);
  Attr cut = {0};
  const Node *first = s->of[p->id].first;
  for (int i = 0; i < node->type.rank; i++) cut.ends[i] = node->type.dim[i];
  for (const Node *q = first; q != p; q = s->of[q->id].next)
    if (s->of[q->id].first == first) cut.dims[d] += q->type.dim[d];
  cut.ends[d] += cut.dims[d];
  Node *part = graph_add(to, op_need(to->c, "slice"), 1, &all, &cut, node);
  part->type = node->type;
  return part;
}

// A slice of one part of the merged node is a slice of that node.
static Node *slice_of_part(Graph *to, const Beside *s, Node *node, Node **in) {
  const Facts *of = node->nin == 1 ? &s->of[node->in[0]->id] : NULL;
  if (!of || !(of->first || of->biases) || !node_is_move(node, MoveSlice) ||
      !node_is_move(in[0], MoveSlice))
    return NULL;
  Attr cut = node->attr;
  for (int d = 0; d < node->type.rank; d++)
    cut.dims[d] += in[0]->attr.dims[d], cut.ends[d] += in[0]->attr.dims[d];
  Node *part = graph_add(to, node->op, 1, in[0]->in, &cut, node);
  part->type = node->type;
  return part;
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Beside *s = to->scratch;
  Node *first = s->of[node->id].first, *biased = s->of[node->id].biases, *list[kMostBeside];
  if (!first && !biased) {
    Node *part = slice_of_part(to, s, node, in);
    return part ? part : graph_same(to, node, in);
  }
  int count = products_of(s, first ? first : biased, list);
  Facts *all = &s->of[(first ? first : biased)->id];
  if (first) {
    Maps m = maps_of(first, 0);
    if (!all->joined)
      all->joined =
          all_of(to, first, in[0], join_second(to, list, count, maps_dim(&m, MapB, AxisN)));
    const Node *reader = s->of[node->id].reader;
    bool summed = reader && s->of[reader->id].biases == first;
    return summed ? all->joined : part_of(to, s, all->joined, node, node);
  }
  if (!all->sum) {
    for (int i = 0; i < count; i++) list[i] = s->of[list[i]->id].reader;
    all->sum = all_of(to, list[0], all->joined, join_second(to, list, count, 0));
  }
  return part_of(to, s, all->sum, node->in[0], node);
}

Graph *merge_gemms_join(Graph *g) {
  graph_count_uses(g);
  Beside s = {g, base_alloc((size_t)g->nnodes, sizeof *s.of)};
  Graph *made = g;
  if (mark(g, &s)) {
    fixed_first(g, &s);
    made = graph_rebuild(g, rewrite, &s);
    made->scratch = NULL;
  }
  free(s.of);
  return made;
}
