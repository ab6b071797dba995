// beside.c: products of one left operand become one, their right operands side by side (by init,
// which is why these must be fixed): it is read once, and one launch fills the GPU better than
// several. What reads one of them reads a slice of all, which the product's kernel stores apart
// (tail.c).
#include "pass.h"

#include <stdlib.h>
#include <string.h>

enum { kMostBeside = 8, kAligned = 8 }; // columns of each come in whole vectors

typedef struct Facts { // of a node, by its id
  Node *first;         // of the products that it is one of; null: it stays alone
  Node *made_of;       // the product that it is, or that it is made of by maps of one shape
  Node *meets;         // of a product: one alike, where maps of one shape combine both
  Node *joined;        // of a first one: what took their place
  Node *next;          // another product of the same left operand, after it
  bool reduced;        // as a norm's statistics are, by the product itself
  int level;           // how many that are no maps or moves lead to it
} Facts;

typedef struct Beside {
  const Graph *from;
  Facts *of;
} Beside;

// Could the product be a part of a larger one?
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

// Where maps combine two products, one has to be there before the other, or both in one thread,
// which takes two of one width. What waits for more than the products is for a later kernel.
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

// The products that p is the first of: the one that it meets, or those that meet none.
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

static void find_readers(const Graph *g, Beside *s) {
  Node **last = base_alloc((size_t)g->nnodes, sizeof *last); // product of each left operand
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    for (int j = 0; n->uses && j < n->nin; j++) {
      Facts *in = &s->of[n->in[j]->id];
      in->reduced = in->reduced || n->op->cls == OpReduce;
    }
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

static bool mark(const Graph *g, Beside *s) {
  bool found = false;
  find_readers(g, s);
  for (int i = 0; i < g->nnodes; i++) {
    Node *list[kMostBeside];
    bool begins = s->of[i].next && !s->of[i].first;
    int count = begins ? find_joined(s, g->nodes[i], list) : 0;
    for (int j = 0; count > 1 && j < count; j++) s->of[list[j]->id].first = list[0];
    found = found || count > 1;
  }
  return found;
}

// What is fixed comes first: the right operands must be there before the first product.
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

static Node *join(Graph *to, const Beside *s, Node *first, Node *x) {
  Node *parts[kMostBeside];
  int count = 0;
  for (const Node *p = first; p; p = s->of[p->id].next)
    if (s->of[p->id].first == first) parts[count++] = p->in[1]->subst;
  Maps m = maps_of(first, 0);
  Attr along = {.axis = maps_dim(&m, MapB, AxisN)};
  Node *w = graph_add(to, op_need(to->c, "concat"), count, parts, &along, parts[0]);
  shape_infer(to->c, w);
  w->type.dtype = parts[0]->type.dtype;
  w->uses = 1;
  Node *all = graph_add(to, first->op, 2, (Node *[]){x, w}, &first->attr, first);
  shape_infer(to->c, all);
  all->type.dtype = first->type.dtype;
  all->written = NULL; // it is not in the model as written
  return all;
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  const Beside *s = to->scratch;
  Node *first = s->of[node->id].first;
  if (!first) {
    Node *same = graph_add(to, node->op, node->nin, in, &node->attr, node);
    same->type = node->type;
    return same;
  }
  Node **all = &s->of[first->id].joined;
  if (!*all) *all = join(to, s, first, in[0]);
  Maps m = maps_of(node, 0);
  int d = maps_dim(&m, MapOut, AxisN);
  Attr cut = {0};
  for (int i = 0; i < node->type.rank; i++) cut.ends[i] = node->type.dim[i];
  for (const Node *p = first; p != node; p = s->of[p->id].next)
    if (s->of[p->id].first == first) cut.dims[d] += p->type.dim[d];
  cut.ends[d] += cut.dims[d];
  Node *part = graph_add(to, op_need(to->c, "slice"), 1, all, &cut, node);
  part->type = node->type;
  return part;
}

Graph *beside_join(Graph *g) {
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
