// attend_own.c: several attentions over the same queries and keys. simp.c merges equal
// contractions, so several softmaxes may read the same scores, or several contractions the same
// softmax; shared scores would have to be stored. Here, the nodes between q k^T and the values stay
// with the first attention that reads them; each other one gets a private copy and recomputes its
// scores. If one of them turns out not to be attention, the scores are stored anyway, and all read
// these.
#include "fuse.h"

typedef enum Inside { NotAsked, IsInside, IsOutside } Inside;

typedef struct Part { // an attention whose scores belong to another one
  Inside *inside;     // by old id: is the node between q k^T and the values?
  Node **copy;        // by old id: the private copy, or NULL
} Part;

// Arrays by id in the old graph.
typedef struct Apart {
  const Node **product; // q k^T of the attention that ends here, or NULL
  Node **owner;         // the second contraction of the attention that the node belongs to
  Part **part;          // of a second contraction; NULL: nothing is shared
  int *made;            // id of the node in the new graph
  bool again;           // was anything copied?
} Apart;

// ---- ownership ----------------------------------------------------------------------------------

// Does n depend on `product` through maps and reductions? Ids of visited nodes are added to
// `asked`.
static bool find_inside(const Node *n, const Node *product, Inside *inside, int *asked,
                        int *count) {
  if (inside[n->id]) return inside[n->id] == IsInside;
  asked[(*count)++] = n->id;
  bool found = n == product;
  for (int i = 0; i < n->nin && (n->op->cls == OpMap || n->op->cls == OpReduce); i++)
    if (find_inside(n->in[i], product, inside, asked, count)) found = true;
  inside[n->id] = found ? IsInside : IsOutside;
  return found;
}

static void find_owners(const Graph *g, Apart *a, const bool *common) {
  size_t count = (size_t)g->nnodes + 1;
  Inside *inside = arena_alloc(g->arena, sizeof *inside * count);
  int *asked = arena_alloc(g->arena, sizeof *asked * count);
  for (int i = 0; i < g->nnodes; i++) {
    Node *last = g->nodes[i];
    int nasked = 0;
    a->product[i] = last->uses && !last->fixed ? attend_product(last) : NULL;
    if (!a->product[i] || common[a->product[i]->id]) continue;
    bool shares = false;
    find_inside(last->in[0], a->product[i], inside, asked, &nasked);
    for (int j = 0; j < nasked; j++) {
      if (inside[asked[j]] == IsInside && !a->owner[asked[j]]) a->owner[asked[j]] = last;
      shares = shares || (inside[asked[j]] == IsInside && a->owner[asked[j]] != last);
    }
    if (shares) {
      Part *p = a->part[i] = arena_alloc(g->arena, sizeof *p);
      p->inside = arena_alloc(g->arena, sizeof *p->inside * count);
      p->copy = arena_alloc(g->arena, sizeof *p->copy * count);
      for (int j = 0; j < nasked; j++) p->inside[asked[j]] = inside[asked[j]];
      a->again = true;
    }
    while (nasked) inside[asked[--nasked]] = NotAsked;
  }
}

// ---- copies -------------------------------------------------------------------------------------

static bool is_view(const Node *n) {
  return n->op->cls == OpMove && n->op->form <= MoveSlice && !n->fixed;
}

// Moves of an operand are copied too, so that the kernel reads the operand in place.
static Node *own_view(Graph *to, Node *n) {
  if (!is_view(n)) return n->subst;
  Node *in = own_view(to, n->in[0]);
  return remat_copy(to, n, &in);
}

// The node that attention `last` reads for n: n itself or a private copy.
static Node *own(Graph *to, Apart *a, const Node *last, Node *n) {
  Part *p = a->part[last->id];
  if (p->inside[n->id] != IsInside || a->owner[n->id] == last) return n->subst;
  if (p->copy[n->id]) return p->copy[n->id];
  Node *in[MaxInputs];
  for (int i = 0; i < n->nin; i++)
    in[i] = n->op->cls == OpContract ? own_view(to, n->in[i]) : own(to, a, last, n->in[i]);
  return p->copy[n->id] = remat_copy(to, n, in);
}

static Node *own_inputs(Graph *to, Node *n, Node **in) {
  Apart *a = to->scratch;
  const Node *last = a->part[n->id] ? n : a->owner[n->id];
  if (last == n) {
    in[0] = own(to, a, last, n->in[0]), in[1] = own_view(to, n->in[1]);
  } else if (last && a->part[last->id]) {
    for (int i = 0; i < n->nin; i++) in[i] = own(to, a, last, n->in[i]);
  }
  Node *made = graph_add(to, n->op, n->nin, in, &n->attr, n);
  made->type = n->type;
  a->made[n->id] = made->id;
  return made;
}

// Adds to `common` the q k^T whose attentions were not all recognised; false if there are none.
static bool find_common(const Graph *g, const Apart *a, const bool *found, bool *common) {
  bool news = false;
  for (int i = 0; i < g->nnodes; i++) {
    const Node *product = a->product[i];
    if (!product || common[product->id] || found[a->made[i]]) continue;
    common[product->id] = news = true;
  }
  return news;
}

Graph *attend_own(Graph *g) {
  size_t count = (size_t)g->nnodes + 1;
  bool *common = arena_alloc(g->arena, sizeof *common * count);
  for (;;) {
    Apart a = {.product = arena_alloc(g->arena, sizeof *a.product * count),
               .owner = arena_alloc(g->arena, sizeof *a.owner * count),
               .part = arena_alloc(g->arena, sizeof *a.part * count),
               .made = arena_alloc(g->arena, sizeof *a.made * count)};
    find_owners(g, &a, common);
    if (!a.again) return g;
    Graph *to = graph_rebuild(g, own_inputs, &a);
    if (!find_common(g, &a, fuse_attentions(to), common)) return graph_copy(to);
  }
}
