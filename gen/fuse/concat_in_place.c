// concat_in_place.c: a concat needs no kernel if the kernels that compute its parts can write them
// in place. Its tensor then has several writers; each part is a range of it (Node.parent,
// Node.begin). A part may itself be a concat, may share the first parts of another concat, and may
// be a reshape of the stored value; readers of that value, such as the next step of a recurrent
// layer, then read it in place.
#include "fuse.h"

#include <stdlib.h>
#include <string.h>

static bool leaves_model(const Graph *g, const Node *n) {
  int count;
  fuse_readers(g, n, &count);
  return count != n->uses;
}

// Is n an operand of attention, whose rows must lie so that asynchronous copies can load them?
static bool is_head(const Graph *g, const Node *n) {
  int count;
  Node **readers = fuse_readers(g, n, &count);
  for (int i = 0; i < count; i++) {
    const Attention *a = readers[i]->group ? readers[i]->group->attention : NULL;
    for (int j = 0; a && j < a->noperands; j++)
      if (a->operand[j] == n) return true;
  }
  return false;
}

// Does another kernel read n, or is it an output of the model?
static bool is_read(const Node *n) {
  int count;
  Node **readers = fuse_readers(n->group->graph, n, &count);
  bool read = count != n->uses;
  for (int i = 0; i < count; i++) read = read || readers[i]->group != n->group;
  return read;
}

static bool same_order(const Node *a, const Node *b) {
  return !memcmp(a->type.order, b->type.order, sizeof a->type.order);
}

// Is a part of n, which is in place, stored in another shape than its own, as only a contiguous
// range can be?
static bool has_reshaped_part(const Node *n) {
  bool found = false;
  for (int i = 0; i < n->nin && !found; i++) {
    const Node *part = n->in[i];
    found = part->placed ? has_reshaped_part(part)
                         : part->group && group_stored(part->group, part) != part;
  }
  return found;
}

// Can n, a concat whose parts are in place, become a part of this concat?
static bool is_movable(const Graph *g, const Node *concat, const Node *n) {
  Node part = *n;
  part.parent = (Node *)concat;
  return n->type.dtype == concat->type.dtype && n->entry == concat->entry && !n->parent &&
         !leaves_model(g, n) && !is_head(g, n) &&
         (view_whole_part(&part) || !has_reshaped_part(n));
}

// Has n, of a kernel of reductions, the shape of its results or of a row group's elements?
static bool is_of_sweeps(const Group *k, const Node *n) {
  const Type *elements = k->tm->fusion->elements ? k->tm->fusion->elements(k) : NULL;
  return type_same_shape(&n->type, &k->anchor->type) ||
         (elements && type_same_shape(&n->type, elements));
}

// Can the kernel that computes n store it in the concat, in the shape `seen`, which then needs no
// store itself? A view that others read would have a different layout.
static bool is_storable(const Graph *g, const Node *concat, const Node *n, const Node *seen) {
  const Group *k = n->group;
  if (n->type.dtype != concat->type.dtype || n->entry != concat->entry) return false;
  if (!k || n->parent || leaves_model(g, n) || k->fixed != concat->fixed) return false;
  if (!k->tm->fusion->anywhere || group_reduces(k, n) || is_head(g, n)) return false;
  const Node *stored = group_stored(k, n);
  if (k->tm->fusion->sweeps && !is_of_sweeps(k, stored)) return false;
  for (int i = 0; i < k->nnodes; i++) {
    const Node *other = k->nodes[i];
    if (other != n && other != seen && group_stored(k, other) == stored &&
        (stored == n || is_read(other)))
      return false;
  }
  return true;
}

// Can n be written in place in the concat? A contiguous part may be a reshape of the stored value.
static bool is_placeable(const Graph *g, const Node *concat, const Node *n) {
  if (n->placed) return is_movable(g, concat, n) && same_order(n, concat);
  Node part = *n;
  part.parent = (Node *)concat;
  return is_storable(g, concat, n, n) && same_order(n, concat) &&
         (group_stored(n->group, n) == n || view_whole_part(&part));
}

// ---- parts that are reshapes --------------------------------------------------------------------

// Do the shapes differ only in size-1 dimensions? Then strides of one are strides of the other.
static bool same_sizes(const Type *a, const Type *b) {
  int i = 0, j = 0;
  for (; i < a->rank || j < b->rank;) {
    if (i < a->rank && a->dim[i] == 1)
      i++;
    else if (j < b->rank && b->dim[j] == 1)
      j++;
    else if (i < a->rank && j < b->rank && a->dim[i] == b->dim[j])
      i++, j++;
    else
      return false;
  }
  return true;
}

// Are neighbours in n also neighbours in the concat?
static bool keeps_neighbours(const Node *concat, const Node *n) {
  const Type *t = &concat->type;
  int d = t->rank - 1;
  while (d > 0 && t->dim[t->order[d]] == 1) d--;
  return n->type.dim[t->order[d]] > 1 || type_count(&n->type) == 1;
}

// Is n computed only for the concat, or is it a kernel by itself?
static bool is_for_concat(const Node *n) {
  const Group *k = n->group;
  if (!fuse_only_reader(n)) return false;
  return k != n->in[0]->group ? k->nnodes == 1 : !k->tm->fusion->product && k->anchor != n;
}

// The value of which part n is a reshape, if it can be stored in the concat and read there, or
// NULL.
static Node *seen_as(const Graph *g, const Node *concat, const Node *n) {
  bool shape = node_is_move(n, MoveReshape) && n->group && n->type.dtype == concat->type.dtype &&
               !n->parent && !is_head(g, n);
  if (!shape || !view_same_memory(n) || !is_for_concat(n)) return NULL;
  if (!same_order(n, concat) || !same_sizes(&n->type, &n->in[0]->type)) return NULL;
  Node *x = n->in[0];
  bool storable = x->placed ? is_movable(g, concat, x)
                            : is_storable(g, concat, x, n) && group_stored(x->group, x) == x;
  return storable && keeps_neighbours(concat, n) ? x : NULL;
}

// n is no longer computed: its input is stored in the concat.
static void place_seen(Node *n) {
  Group *k = n->group;
  int left = 0;
  for (int i = 0; i < k->nnodes; i++)
    if (k->nodes[i] != n) k->nodes[left++] = k->nodes[i];
  k->nnodes = left;
  n->group = NULL;
  n->placed = true;
  n->in[0]->parent = n;
}

// ---- concats ------------------------------------------------------------------------------------

// The concat, already placed, of the first parts of this one, or NULL: in a DenseNet, each layer's
// input is the concat of all features before, plus one. It becomes a part of this one.
static Node *first_parts(const Graph *g, const Node *concat) {
  Node *first = concat->in[0]->parent;
  while (first && first->parent) first = first->parent; // the last one placed
  bool found = first && first->nin < concat->nin && first->attr.axis == concat->attr.axis &&
               is_placeable(g, concat, first);
  for (int i = 0; found && i < first->nin; i++) found = first->in[i] == concat->in[i];
  return found ? first : NULL;
}

// Can all parts be placed, each only once?
static bool all_placeable(const Graph *g, const Node *concat) {
  const Node *first = first_parts(g, concat);
  for (int i = first ? first->nin : 0; i < concat->nin; i++) {
    const Node *n = concat->in[i], *seen = seen_as(g, concat, n);
    if (!seen && !is_placeable(g, concat, n)) return false;
    for (int j = 0; j < i; j++)
      if (concat->in[j] == n || (seen && concat->in[j]->nin && concat->in[j]->in[0] == seen))
        return false;
  }
  return true;
}

// Are several parts single numbers, each reduced by a separate kernel? One launch can compute them
// for a kernel that reads all (multi_launch.c).
static bool is_for_bundle(const Node *concat) {
  const Group *first = NULL;
  bool several = false;
  for (int i = 0; i < concat->nin; i++) {
    const Group *k = concat->in[i]->group;
    if (!k || !k->tm->fusion->sweeps || type_count(&k->anchor->type) > 1) continue;
    several = several || (first && first != k);
    first = k;
  }
  return several;
}

static bool depends_on(const Graph *g, const Node *n, const Node *source) {
  bool *made_of = base_alloc((size_t)g->nnodes, sizeof *made_of);
  made_of[source->id] = true;
  for (int i = source->id + 1; i <= n->id; i++)
    for (int j = 0; j < g->nodes[i]->nin; j++)
      made_of[i] = made_of[i] || made_of[g->nodes[i]->in[j]->id];
  bool found = made_of[n->id];
  free(made_of);
  return found;
}

// Is the concat one position of a state, of which the kernel that writes it can compute the parts?
static bool is_for_step(const Graph *g, const Node *concat) {
  int count;
  Node **readers = fuse_readers(g, concat, &count);
  bool found = count == 1 && concat->uses == 1 && in_place_steps(g, readers[0]);
  // A kernel that also reads other positions of the state could not write it in place.
  if (found && depends_on(g, concat, readers[0]->in[2])) return false;
  for (int i = 0; found && i < concat->nin; i++) {
    const Node *n = concat->in[i];
    found = n->uses == 1 && n->group && n->group->tm->fusion->maps && !n->fixed;
  }
  return found;
}

// Does k compute nothing except the concat and reshapes of it?
static bool makes_alone(const Group *k, const Node *concat) {
  bool alone = k->nnodes <= kMostNodes;
  for (int i = 0; i < k->nnodes && alone; i++) {
    const Node *n = k->nodes[i];
    alone = n == concat || (n->op->cls == OpMove && n->nin == 1 && view_same_memory(n));
  }
  return alone;
}

// Views of the concat become groups of their own, so that its readers can compute them.
static void part_views(Graph *g, Group *k) {
  while (k->nnodes > 1) {
    bool own[kMostNodes] = {false};
    own[k->nnodes - 1] = true;
    fuse_part(g, k, own);
  }
}

void place_concats(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    Group *k = n->group;
    bool concat = node_is_move(n, MoveConcat);
    if (!concat || !k || n->fixed || !makes_alone(k, n)) continue;
    if (is_for_bundle(n) || is_for_step(g, n) || !all_placeable(g, n)) continue;
    part_views(g, k);
    Node *first = first_parts(g, n);
    int64_t begin = first ? first->type.dim[n->attr.axis] : 0;
    if (first) first->parent = n, first->begin = 0;
    for (int j = first ? first->nin : 0; j < n->nin; j++) {
      if (seen_as(g, n, n->in[j])) place_seen(n->in[j]);
      n->in[j]->parent = n;
      n->in[j]->begin = begin;
      begin += n->in[j]->type.dim[n->attr.axis];
    }
    n->group = NULL;
    n->placed = true;
    k->nnodes = 0;
  }
}
