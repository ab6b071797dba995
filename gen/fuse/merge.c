// merge.c: equal nodes of one kernel are merged. remat.c and remat_late.c copy values for each
// reader before it is known which readers end up in the same kernel.
#include "fuse.h"

#include <uthash.h>

typedef struct Made { // a node of the group, keyed by what it computes (simp_key)
  Node *node;
  UT_hash_handle hh;
} Made;

// Does n belong to a fixed part of attention? Only nodes of its operand prologues may be merged.
static bool has_part(const Attention *a, const Node *n) {
  const Node *const *operands = a ? (const Node *const *)a->operand : NULL;
  return a && (n->tail != kLoadTail || fuse_listed(operands, a->noperands, n));
}

// Moves of a contraction's epilogue have their place in a tail (tail.c) and are not merged.
static bool has_key(const Group *k, const Node *n) {
  bool view = n->op->cls == OpMove && n->nin == 1 && view_same_memory(n);
  return (n->op->cls == OpMap || (view && !k->tm->fusion->product)) && !has_part(k->attention, n);
}

// May n be merged with an equal node? Not random values, outputs, parts of concats, or operands of
// attention.
static bool may_merge(const Graph *g, const Node *n) {
  int count;
  Node **readers = fuse_readers(g, n, &count);
  bool may = n->op->typing != TypeDraw && !n->parent && count == n->uses;
  for (int i = 0; i < count && may; i++)
    may = readers[i]->group == n->group || !readers[i]->group || !readers[i]->group->attention;
  return may;
}

// Nodes of different sweeps stay separate: merged, the value would have to be kept between them.
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
  for (int i = 0; i < g->nnodes; i++) { // each group once, at its first node
    Group *k = g->nodes[i]->group;
    if (k && k->nodes[0] == g->nodes[i]) merge_group(g, k);
  }
}
