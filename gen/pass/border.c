// border.c: the order and dtype of values that leave a run: outputs are row-major, updates lie as
// their states do. A copy, where a value has another order, unless its kernel can store it so.
#include "pass.h"

// The concat n, read by nothing else, of parts in that order, which their kernels then store in
// place; NULL if these are read elsewhere, too.
static Node *concat_as(Graph *g, Node *n, const Type *wanted) {
  if (!node_is_move(n, MoveConcat) || n->nin > kMostConcatParts || n->uses > 1) return NULL;
  Node *in[kMostConcatParts];
  for (int i = 0; i < n->nin; i++) {
    OpClass cls = n->in[i]->op->cls;
    if (n->in[i]->uses > 1 || (cls != OpMap && cls != OpContract)) return NULL;
  }
  for (int i = 0; i < n->nin; i++) in[i] = layout_as(g, n->in[i], wanted->dtype, wanted->order);
  Node *whole = graph_add(g, n->op, n->nin, in, &n->attr, n);
  whole->type = *wanted;
  return whole;
}

// The node to store as an output of type `wanted`, in memory of its own. taken: n is already the
// storage of another output. Sources are copied.
static Node *at_border(Graph *g, Node *n, const Type *wanted, bool taken) {
  bool reshape = node_is_move(n, MoveReshape);
  bool plain = layout_row_major(wanted);
  if (reshape && plain && !taken && !type_same_order(wanted, &n->type) &&
      n->in[0]->op->cls == OpMap) {
    const Type *from = &n->in[0]->type;
    Type type = type_make(wanted->dtype, from->rank, from->dim);
    // fused with other maps; a view of it follows
    Node *turned = at_border(g, n->in[0], &type, true);
    Node *view = graph_add(g, n->op, 1, &turned, &n->attr, n);
    view->type = *wanted;
    return view;
  }
  bool lies = wanted->dtype == n->type.dtype && type_same_order(wanted, &n->type);
  if (!taken && n->op->cls != OpSource && lies) return n;
  Node *whole = plain && !taken && options_fused(&g->c->options) ? concat_as(g, n, wanted) : NULL;
  if (whole) return whole;
  Node *copy = graph_add(g, op_need(g->c, "copy"), 1, &n, NULL, n);
  copy->type = *wanted;
  return copy;
}

static bool taken_before(const Graph *g, const Node *n, int noutputs, int nupdates) {
  for (int i = 0; i < noutputs; i++)
    if (g->outputs[i].node == n) return true;
  for (int i = 0; i < nupdates; i++)
    if (g->updates[i].value == n) return true;
  return false;
}

void border_place(Graph *g) {
  for (int i = 0; i < g->noutputs; i++) {
    Node *n = g->outputs[i].node;
    Dtype dtype = dtype_is_float(n->type.dtype) ? g->outputs[i].dtype : n->type.dtype;
    Type plain = type_make(dtype, n->type.rank, n->type.dim);
    g->outputs[i].node = at_border(g, n, &plain, taken_before(g, n, i, 0));
    g->outputs[i].node->entry = g->outputs[i].entry;
  }
  for (int i = 0; i < g->nupdates; i++) {
    Update *u = &g->updates[i];
    bool taken = u->value->fixed || u->value->type.dtype != u->state->type.dtype ||
                 taken_before(g, u->value, g->noutputs, i);
    u->value = at_border(g, u->value, &u->state->type, taken);
    u->value->entry = u->entry;
    u->value->updated = true;
  }
}
