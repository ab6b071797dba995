// attend_own.c: attentions over the same queries and keys. Equal products are one (simp.c), so that
// several softmaxes may read its scores, or several products one softmax; and scores that several
// kernels read would be in memory. What lies between a product of queries and keys and the values
// belongs to the first attention that it is a part of; each other one gets a copy, and its kernel
// computes those scores again. Where one of them becomes no attention after all, scores are in
// memory in any case, and all of them read those.
#include "fuse.h"

typedef enum Inside { NotAsked, IsInside, IsOutside } Inside;

typedef struct Part { // an attention whose scores belong to another one
  Inside *inside;     // by id in the graph before: is it between its product and its values?
  Node **copy;        // its own
} Part;

// By id in the graph before:
typedef struct Apart {
  const Node **product; // that makes the scores; null: it weighs nothing by them
  Node **owner;         // the last product of the attention that a node belongs to
  Part **part;          // of a last product; null: all is its own
  int *made;            // what became of it
  bool again;           // has any got a copy?
} Apart;

// ---- who has what -------------------------------------------------------------------------------

// Is n made of the product by maps and reductions? All that was asked is noted.
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

// An operand, with moves of its own: a kernel reads it where it lies.
static Node *own_view(Graph *to, Node *n) {
  if (!is_view(n)) return n->subst;
  Node *in = own_view(to, n->in[0]);
  return chain_copy(to, n, &in);
}

// What attention `last` reads for n.
static Node *own(Graph *to, Apart *a, const Node *last, Node *n) {
  Part *p = a->part[last->id];
  if (p->inside[n->id] != IsInside || a->owner[n->id] == last) return n->subst;
  if (p->copy[n->id]) return p->copy[n->id];
  Node *in[MaxInputs];
  for (int i = 0; i < n->nin; i++)
    in[i] = n->op->cls == OpContract ? own_view(to, n->in[i]) : own(to, a, last, n->in[i]);
  return p->copy[n->id] = chain_copy(to, n, in);
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

// Products whose attentions are not all recognised are noted in `common`; false: there are none.
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
