// place.c: a concat is no kernel where those that make its parts can write them where it lies. Its
// tensor has several writers; each part is a place in it (Node.parent, Node.begin), as may be a
// concat that is a part of another one, or the first parts of it.
#include "fuse.h"

#include <string.h>

static bool leaves_model(const Graph *g, const Node *n) {
  int count;
  fuse_readers(g, n, &count);
  return count != n->uses;
}

// Does attention read n as it is? Its rows are to lie in pieces that copies take.
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

// Is n read by another kernel, or does it leave the model?
static bool is_read(const Node *n) {
  int count;
  Node **readers = fuse_readers(n->group->graph, n, &count);
  bool read = count != n->uses;
  for (int i = 0; i < count; i++) read = read || readers[i]->group != n->group;
  return read;
}

// Can n be made in its place in the concat? A part in one piece may be another shape of what is
// computed.
static bool is_placeable(const Graph *g, const Node *concat, const Node *n) {
  const Group *k = n->group;
  bool alike = n->type.dtype == concat->type.dtype && n->entry == concat->entry;
  if (n->placed) // its parts are in their places there, and so are they in the concat then
    return alike && !n->parent && !leaves_model(g, n) && !is_head(g, n) &&
           !memcmp(n->type.order, concat->type.order, sizeof n->type.order);
  if (!k || n->parent || leaves_model(g, n) || k->fixed != concat->fixed) return false;
  const Node *stored = group_stored(k, n);
  Node part = *n;
  part.parent = (Node *)concat;
  if (!k->tm->fusion->anywhere || group_reduces(k, n)) return false;
  if (stored != n && !view_whole_part(&part)) return false;
  bool rows = k->tm->fusion->sweeps; // what is made of each, or of elements
  if (rows && (stored->op->cls == OpReduce ||
               !type_same_shape(&stored->type, k->tm->fusion->elements(k))))
    return false;
  if (!alike || is_head(g, n)) return false;
  for (int i = 0; i < k->nnodes; i++) { // a shape of it that another reads would lie elsewhere
    const Node *other = k->nodes[i];
    if (other != n && group_stored(k, other) == stored && (stored == n || is_read(other)))
      return false;
  }
  return !memcmp(n->type.order, concat->type.order, sizeof n->type.order);
}

// The concat, in its place, of the first parts of this one: all features that the layers of a
// DenseNet have made, and one more. It lies in this one with its parts. Null: there is none.
static Node *first_parts(const Graph *g, const Node *concat) {
  Node *first = concat->in[0]->parent;
  while (first && first->parent) first = first->parent; // the last one that has been placed
  bool found = first && first->nin < concat->nin && first->attr.axis == concat->attr.axis &&
               is_placeable(g, concat, first);
  for (int i = 0; found && i < first->nin; i++) found = first->in[i] == concat->in[i];
  return found ? first : NULL;
}

static bool all_placeable(const Graph *g, const Node *concat) {
  const Node *first = first_parts(g, concat);
  for (int i = first ? first->nin : 0; i < concat->nin; i++) {
    if (!is_placeable(g, concat, concat->in[i])) return false;
    for (int j = 0; j < i; j++)
      if (concat->in[j] == concat->in[i]) return false;
  }
  return true;
}

// Is the concat all that k makes, in whatever shapes it is seen?
static bool makes_alone(const Group *k, const Node *concat) {
  bool alone = k->nnodes <= kMostNodes;
  for (int i = 0; i < k->nnodes && alone; i++) {
    const Node *n = k->nodes[i];
    alone = n == concat || (n->op->cls == OpMove && n->nin == 1 && view_same_memory(n));
  }
  return alone;
}

// Others may compute the shapes that it is seen in.
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
    bool concat = n->op->cls == OpMove && n->op->form == MoveConcat;
    if (!concat || !k || n->fixed || !makes_alone(k, n) || !all_placeable(g, n)) continue;
    part_views(g, k);
    Node *first = first_parts(g, n);
    int64_t begin = first ? first->type.dim[n->attr.axis] : 0;
    if (first) first->parent = n, first->begin = 0;
    for (int j = first ? first->nin : 0; j < n->nin; j++) {
      n->in[j]->parent = n;
      n->in[j]->begin = begin;
      begin += n->in[j]->type.dim[n->attr.axis];
    }
    n->group = NULL;
    n->placed = true;
    k->nnodes = 0;
  }
}
