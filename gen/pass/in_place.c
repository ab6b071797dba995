// in_place.c: which kernels write the new value of a state where the old one is: where nobody needs
// that any more, and each thread reads of it the elements alone that it writes itself. Another
// update is a value of its own, copied when the entry has run.
#include "pass.h"

static bool reads(const Group *k, const Node *n) {
  for (int i = 0; i < k->ninputs; i++)
    if (k->inputs[i] == n) return true;
  return false;
}

// Is what k reads of n, which are elements of a state in their order, read by maps of as many
// elements as `made` has, behind the anchor of k? They have it where they write. What is written at
// the foot of a product, by its columns, was read before, of these columns.
static bool read_as_written(const Group *k, const Node *n, const Node *made) {
  for (int i = 0; i < k->nnodes; i++) {
    const Node *user = k->nodes[i];
    bool uses = false;
    for (int j = 0; j < user->nin; j++) uses = uses || user->in[j] == n;
    if (!uses) continue;
    if (k->nparts && user->tail != made->tail) return false; // other blocks read it
    bool view = user->op->cls == OpMove && user->nin == 1 && view_same_memory(user);
    bool behind = k->tm->fusion->maps || user->id > k->anchor->id;
    bool columns =
        made->tail == kFootTail && k->tm->fusion->product && type_same_shape(&made->type, &n->type);
    bool same = columns || type_same_shape(&user->type, &n->type);
    if (view ? !read_as_written(k, user, made) : user->op->cls != OpMap || !behind || !same)
      return false;
  }
  return true;
}

static bool element_wise(const Group *k, const Update *u) {
  const Node *made = u->value;
  while (made->op->cls == OpMove && made->nin == 1 && made->group == k && view_same_memory(made))
    made = made->in[0];
  return k->tm->fusion->in_place && made->group == k && made->op->cls == OpMap &&
         type_count(&made->type) == type_count(&u->state->type) &&
         read_as_written(k, u->state, made);
}

static bool writes_in_place(const Graph *g, const Update *u) {
  const Group *k = u->value->group;
  for (int i = 0; i < g->ngroups; i++) {
    const Group *other = g->groups[i];
    if (!reads(other, u->state) || (other->anchor->entry != u->entry && !other->fixed)) continue;
    if (other == k ? !element_wise(k, u) : other->id > k->id) return false;
  }
  for (int i = 0; i < g->nupdates; i++) // a value of its own entry alone
    if (&g->updates[i] != u && g->updates[i].value == u->value) return false;
  return true;
}

void in_place_find(Graph *g) {
  for (int i = 0; i < g->nupdates; i++) g->updates[i].in_place = writes_in_place(g, &g->updates[i]);
}

bool group_aliases(const Group *k, const Node *n) {
  const Graph *g = k->graph;
  for (int i = 0; i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    if (u->in_place && u->value->group == k && (u->state == n || u->value == n) &&
        reads(k, u->state))
      return true;
  }
  return false;
}
