// in_place.c: which kernels write the new value of a state over the old one: possible if no later
// kernel reads the old value, and each thread reads only the elements of it that it writes. Other
// updates are separate values, copied to the state at the end of the entry.
#include "fuse.h"

#include <stdlib.h>

static bool reads(const Group *k, const Node *n) {
  for (int i = 0; i < k->ninputs; i++)
    if (k->inputs[i] == n) return true;
  return false;
}

// Does k also need `user` for elements other than the one of `made` being written? True if a value
// computed from it is moved or broadcast, or is written by another tail of a contraction, which may
// run before or after.
static bool also_elsewhere(const Group *k, const Node *user, const Node *made) {
  bool *made_of = base_alloc((size_t)k->graph->nnodes, sizeof *made_of), found = false;
  made_of[user->id] = true;
  for (int i = 0; i < k->nnodes; i++) {
    const Node *n = k->nodes[i];
    for (int j = 0; j < n->nin; j++) made_of[n->id] = made_of[n->id] || made_of[n->in[j]->id];
    bool moves = n->op->cls != OpMap && !(n->nin == 1 && view_same_memory(n));
    found = found || (made_of[n->id] && (moves || type_count(&n->type) != type_count(&made->type)));
  }
  for (int i = 0; i < k->noutputs; i++)
    found = found || (made_of[k->outputs[i]->id] && k->outputs[i]->tail != made->tail);
  free(made_of);
  return found;
}

// Is `user` computed after the moves of the tail that writes `made`?
static bool in_its_tail(const Group *k, const Node *user, const Node *made) {
  return user->tail == made->tail && made->tail >= 0 && user->id > tail_made(k, made->tail)->id;
}

// Is state n, in its order, read in k only by maps after the anchor that run over as many elements
// as `made`? They read the element they write. The final reduction of a contraction may write
// column values of a state that was read before, for the same columns.
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
    bool once = view || columns ||
                (!also_elsewhere(k, user, made) && (!k->ntails || in_its_tail(k, user, made)));
    if (!once) return false;
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
  if (!k) return false; // a concat written in place, by several kernels
  for (int i = 0; i < g->ngroups; i++) {
    const Group *other = g->groups[i];
    if (!reads(other, u->state) || (other->anchor->entry != u->entry && !other->fixed)) continue;
    if (other == k ? !element_wise(k, u) : other->id > k->id) return false;
  }
  for (int i = 0; i < g->nupdates; i++) // two updates share the value
    if (&g->updates[i] != u && g->updates[i].value == u->value) return false;
  return true;
}

// ---- updates of one position --------------------------------------------------------------------

// A state whose new value is where(index == place, new, old), such as a KV cache that gets one more
// row: its kernel writes only that position.

// The dimension of n along which the comparison `same` is true at most once, because it compares
// the index along it with a value constant along it (*compared); or -1.
static int true_once(const Node *n, const Node *same, Node **compared) {
  for (int i = 0; i < 2 && same->op->flags & FlagEqual; i++) {
    const Node *index = same->in[i], *place = same->in[1 - i];
    if (index->op->cls != OpSource || index->op->form != SourceIndex) continue;
    int axis = (int)index->attr.axis - index->type.rank, of_place = axis + place->type.rank;
    if (of_place >= 0 && place->type.dim[of_place] > 1) continue;
    if (compared) *compared = (Node *)place;
    return axis + n->type.rank;
  }
  return -1;
}

static bool varies(const Node *part, const Node *n, int d) { // along dimension d of n?
  int at = d + part->type.rank - n->type.rank;
  return at >= 0 && part->type.dim[at] > 1;
}

static int innermost(const Type *t) {
  for (int i = t->rank - 1; i > 0; i--)
    if (t->dim[t->order[i]] > 1) return t->order[i];
  return t->order[0];
}

// The update whose new value is n and that changes a single position, or NULL.
static const Update *step_of(const Graph *g, const Node *n) {
  bool chosen = n->op->cls == OpMap && n->op->typing == TypeWhere;
  for (int i = 0; chosen && i < g->nupdates; i++) {
    const Update *u = &g->updates[i];
    if (u->value == n && n->in[2] == u->state && type_same_shape(&n->type, &u->state->type) &&
        n->in[0]->op->cls == OpMap && true_once(n, n->in[0], NULL) >= 0 &&
        !varies(n->in[0], n, innermost(&n->type))) // all lanes take the same branch
      return u;
  }
  return NULL;
}

bool in_place_steps(const Graph *g, const Node *n) {
  return step_of(g, n) != NULL;
}

static double share_of(const Node *n, const Node *made, const Node *same) {
  int d = same ? true_once(made, same, NULL) : -1;
  return d >= 0 && varies(n, made, d) ? 1. / (double)made->type.dim[d] : 1;
}

double in_place_computed(const Graph *g, const Node *n) {
  double count = (double)type_count(&n->type);
  return step_of(g, n) ? count * share_of(n, n, n->in[0]) : count;
}

static bool same_condition(const Node *a, const Node *b) {
  return a->op == b->op && a->in[0] == b->in[0] && a->in[1] == b->in[1];
}

// The condition under which an element of this output of k is written, or NULL if always.
static Node *condition(const Group *k, const Node *output) {
  const Update *u = step_of(k->graph, output);
  return u && u->in_place && output->in[0]->group == k ? output->in[0] : NULL;
}

static Node *condition_of_all(const Group *k) {
  Node *first = k->nparts || !k->tm->fusion->maps ? NULL : condition(k, k->outputs[0]);
  for (int i = 1; first && i < k->noutputs; i++) {
    const Node *other = condition(k, k->outputs[i]);
    if (!other || !same_condition(first, other)) return NULL;
  }
  return first;
}

// Is state n read only as the old value of where()?
static bool only_kept(const Group *k, const Node *n) {
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++)
      if (k->nodes[i]->in[j] == n && (j != 2 || !condition(k, k->nodes[i]))) return false;
  return true;
}

static void find_changes(Group *k) {
  int count = 0;
  k->changes = k->noutputs ? condition_of_all(k) : NULL;
  for (int i = 0; k->changes && i < k->ninputs; i++)
    if (!only_kept(k, k->inputs[i])) k->inputs[count++] = k->inputs[i];
  if (k->changes) k->ninputs = count;
}

Node *in_place_position(const Group *k, int *d) {
  if (!k->changes) return NULL;
  const Type *made = &k->outputs[0]->type;
  Node *place = NULL;
  *d = true_once(k->outputs[0], k->changes, &place);
  bool whole = place->type.dtype == DtI32 || place->type.dtype == DtU8;
  return whole && varies(k->changes, k->outputs[0], *d) && type_same_shape(made, &k->anchor->type)
             ? place
             : NULL;
}

int64_t in_place_elements(const Group *k) {
  int d;
  int64_t all = type_count(&k->anchor->type);
  return in_place_position(k, &d) ? all / k->anchor->type.dim[d] : all;
}

double in_place_share(const Group *k, const Node *n) {
  return share_of(n, k->outputs[0], k->changes);
}

double in_place_bytes(const Group *k) {
  double bytes = 0;
  for (int i = 0; i < k->ninputs; i++) bytes += (double)type_bytes(&k->inputs[i]->type);
  for (int i = 0; i < k->noutputs; i++) {
    const Node *made = k->outputs[i];
    const Update *u = step_of(k->graph, made);
    double size = (double)type_bytes(&made->type);
    bytes += u ? size * share_of(made, made, made->in[0]) : size;
    if (u && reads(k, u->state)) bytes -= (double)type_bytes(&u->state->type);
  }
  return bytes;
}

void in_place_find(Graph *g) {
  for (int i = 0; i < g->nupdates; i++) g->updates[i].in_place = writes_in_place(g, &g->updates[i]);
  for (int i = 0; i < g->ngroups; i++) find_changes(g->groups[i]);
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
