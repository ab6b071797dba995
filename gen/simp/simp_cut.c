// simp_cut.c: rows that nobody reads are not computed. A slice of rows moves up through maps, row
// reductions and matmuls: if only the last token of a transformer is read, its last block computes
// norm, projections and residual for one row.
#include "simp.h"

enum { kMostInner = 96 };

typedef struct Inner { // a node that is recomputed from slices, or a leaf, which is sliced
  Node *node, *made;
  int reads; // by such nodes
  bool inner, done;
} Inner;

typedef struct Cut {
  Graph *to;
  const Node *slice;
  Inner list[kMostInner];
  int count;
} Cut;

// Dimension d of the slice as a dimension of x, which broadcasts to its input; below 0: none.
static int dim_of(const Cut *c, const Node *x, int d) {
  return d - (c->slice->type.rank - x->type.rank);
}

static bool cuts(const Cut *c, int d) {
  return c->slice->type.dim[d] != c->slice->in[0]->type.dim[d];
}

// Has x size 1 along all dimensions that the slice cuts?
static bool is_whole(const Cut *c, const Node *x) {
  for (int d = 0; d < c->slice->type.rank; d++) {
    int own = dim_of(c, x, d);
    if (cuts(c, d) && own >= 0 && x->type.dim[own] > 1) return false;
  }
  return true;
}

// Does each element of n that the slice takes depend only on the same rows of n's inputs?
static bool by_rows(const Cut *c, const Node *n) {
  bool map = n->op->cls == OpMap && n->op->typing != TypeDraw,
       product = n->op->cls == OpContract && maps_gives(n) == PartNone && n->in[1]->type.rank == 2,
       inner = !n->fixed && n->type.rank == c->slice->type.rank &&
               (map || product || n->op->cls == OpReduce);
  for (int d = 0; d < n->type.rank && inner; d++) {
    bool reduced = n->op->cls == OpReduce && n->attr.axes >> d & 1;
    bool column = n->op->cls == OpContract && d == n->type.rank - 1;
    inner = !(cuts(c, d) && (reduced || column));
  }
  return inner;
}

static Inner *entry_of(Cut *c, Node *n) {
  for (int i = 0; i < c->count; i++)
    if (c->list[i].node == n) return &c->list[i];
  if (c->count == kMostInner) return NULL;
  c->list[c->count] = (Inner){.node = n};
  return &c->list[c->count++];
}

static Inner *last_open(Cut *c) { // readers before what they read
  Inner *last = NULL;
  for (int i = 0; i < c->count; i++)
    if (!c->list[i].done && (!last || c->list[i].node->id > last->node->id)) last = &c->list[i];
  return last;
}

// Walks up from the slice; a node with other readers is a leaf. False if nothing would be saved.
static bool find_inner(Cut *c) {
  bool saves = false;
  for (Inner *x; (x = last_open(c));) {
    Node *n = x->node;
    x->done = true;
    if (is_whole(c, n) || !by_rows(c, n) || n->uses > x->reads ||
        c->count + n->nin > kMostInner)
      continue;
    x->inner = true;
    saves = saves || n->op->cls == OpReduce || n->op->cls == OpContract;
    for (int i = 0; i < (n->op->cls == OpContract ? 1 : n->nin); i++)
      entry_of(c, n->in[i])->reads++;
  }
  return saves;
}

static Node *make(Cut *c, Node *n) {
  Inner *x = entry_of(c, n);
  if (x->made) return x->made;
  if (!x->inner) {
    Attr attr = {0};
    for (int d = 0; d < c->slice->type.rank; d++) {
      int own = dim_of(c, n, d);
      if (own < 0) continue;
      bool some = cuts(c, d) && n->type.dim[own] > 1;
      attr.dims[own] = some ? c->slice->attr.dims[d] : 0;
      attr.ends[own] = some ? c->slice->attr.ends[d] : n->type.dim[own];
    }
    return x->made = is_whole(c, n) ? n : simp_make(c->to, c->slice->op, 1, &n, &attr, n);
  }
  Node *in[MaxInputs];
  for (int i = 0; i < n->nin; i++)
    in[i] = i && n->op->cls == OpContract ? n->in[i] : make(c, n->in[i]);
  x->made = simp_make(c->to, n->op, n->nin, in, &n->attr, n);
  simp_uses_of(x->made, n);
  x->made->written = NULL; // it has fewer rows than the node written
  return x->made;
}

static bool drops_half(const Node *n) {
  return node_is_move(n, MoveSlice) && n->in[0]->op->cls != OpSource &&
         2 * type_count(&n->type) <= type_count(&n->in[0]->type);
}

Node *rows_cut(Graph *to, Node *n) {
  if (!drops_half(n)) return NULL;
  Cut c = {.to = to, .slice = n};
  entry_of(&c, n->in[0])->reads = 1;
  return find_inner(&c) ? make(&c, n->in[0]) : NULL;
}

bool rows_may_be_cut(Graph *g) {
  int i = 0;
  while (i < g->nnodes && !drops_half(g->nodes[i])) i++;
  return i < g->nnodes;
}
