// merge.c: copies that have come to one kernel become one value again. chain.c and late.c give each
// reader its own, before it is known which readers one kernel computes.
#include "fuse.h"

#include <uthash.h>

typedef struct Made { // what a group computes, by what it is
  Node *node;
  UT_hash_handle hh;
} Made;

// Has n a part of its own in attention, which has others only as it loads what it multiplies?
static bool has_part(const Attention *a, const Node *n) {
  const Node *const *operands = a ? (const Node *const *)a->operand : NULL;
  return a && (n->tail != kLoadTail || fuse_listed(operands, a->noperands, n));
}

// Where the elements of a product's result go, each move has its place (tail.c).
static bool has_key(const Group *k, const Node *n) {
  bool view = n->op->cls == OpMove && n->nin == 1 && view_same_memory(n);
  return (n->op->cls == OpMap || (view && !k->tm->fusion->product)) && !has_part(k->attention, n);
}

// May n be one with what is like it? Not what is drawn, what leaves the model, what has a place in
// a concat, or what attention knows as an operand.
static bool may_merge(const Graph *g, const Node *n) {
  int count;
  Node **readers = fuse_readers(g, n, &count);
  bool may = n->op->typing != TypeDraw && !n->parent && count == n->uses;
  for (int i = 0; i < count && may; i++)
    may = readers[i]->group == n->group || !readers[i]->group || !readers[i]->group->attention;
  return may;
}

// A value that two sweeps over a row need would wait for the second one.
static bool are_together(const Node *a, const Node *b) {
  return a->sweep == b->sweep && a->tail == b->tail && a->again == b->again;
}

void merge_group(Graph *g, Group *k) {
  Made *table = NULL;
  int left = 0;
  if (k->tm->fusion->sweeps) row_sweeps(k);
  for (int i = 0; i < k->nnodes; i++) {
    Node *n = k->nodes[i];
    Made *made = NULL;
    size_t size;
    void *key = has_key(k, n) ? simp_key(g->arena, n, n->in, &size) : NULL;
    if (key) HASH_FIND(hh, table, key, size, made);
    if (made && may_merge(g, n) && are_together(made->node, n)) {
      fuse_replace(g, n, made->node);
      if (k->anchor == n) k->anchor = made->node;
      continue;
    }
    k->nodes[left++] = n;
    if (!key || made) continue;
    made = arena_alloc(g->arena, sizeof *made);
    made->node = n;
    HASH_ADD_KEYPTR(hh, table, key, size, made);
  }
  HASH_CLEAR(hh, table);
  k->nnodes = left;
}

void merge_copies(Graph *g) {
  for (int i = 0; i < g->nnodes; i++) { // each group at its first node
    Group *k = g->nodes[i]->group;
    if (k && k->nodes[0] == g->nodes[i]) merge_group(g, k);
  }
}
