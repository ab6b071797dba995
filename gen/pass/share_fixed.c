// share_fixed.c: fixed values computed alike for several entries, such as weights times a norm's
// scale, are computed once by `init` and stored once. Only whole expressions: equal parts of one
// expression may exist several times, each for a separate kernel. Slices, and other moves
// below them, stay with their readers, which read them in place.
#include "pass.h"

#include <string.h>
#include <uthash.h>

typedef struct Known { // a fixed value, keyed by what it computes
  Node *node;
  UT_hash_handle hh;
} Known;

// The first value equal to n, with inputs replaced by their first equals; or n itself.
static Node *first_like(Graph *g, Known **table, Node *const *first, Node *n) {
  Node **in = arena_alloc(g->arena, sizeof *in * (size_t)(n->nin + 1));
  for (int i = 0; i < n->nin; i++) in[i] = first[n->in[i]->id];
  size_t size;
  void *key = simp_key(g->arena, n, in, &size);
  Known *known;
  HASH_FIND(hh, *table, key, size, known);
  if (known) return known->node;
  known = arena_alloc(g->arena, sizeof *known);
  known->node = n;
  HASH_ADD_KEYPTR(hh, *table, key, size, known);
  return n;
}

// Needs: dtypes, and memory orders as far as they are known.
void share_fixed(Graph *g) {
  Node **first = arena_alloc(g->arena, sizeof *first * (size_t)(g->nnodes + 1));
  Known *table = NULL;
  for (int i = 0; i < g->nnodes; i++) {
    Node *n = g->nodes[i];
    first[i] = n->fixed && !node_has_memory(n) ? first_like(g, &table, first, n) : n;
    for (int j = 0; !n->fixed && j < n->nin; j++) {
      Node *in = n->in[j];
      bool slice = in->fixed && node_is_move(in, MoveSlice);
      while (slice && in->in[0]->op->cls == OpMove && in->in[0]->nin == 1) in = in->in[0];
      if (slice)
        in->in[0] = first[in->in[0]->id];
      else
        n->in[j] = first[in->id];
    }
  }
  HASH_CLEAR(hh, table);
  graph_count_uses(g);
}
