// flatten.c: linear layers behind a flattened image. Images are channels last in memory, so that
// rows (N, C * H * W) are no view of them: each element would be copied, or read alone. Fixed
// weights that `init` copies in any case get their rows in the order of the image's memory instead.
#include "pass.h"

#include <string.h>

// The image that x flattens, stored channels last, or NULL.
static Node *flattened(const Node *x) {
  if (!node_is_move(x, MoveReshape) || x->fixed || x->type.rank != 2) return NULL;
  const Type *t = &x->in[0]->type;
  bool image = t->rank == 4 &&
               !memcmp(t->order, layout_channels_last, sizeof layout_channels_last) &&
               t->dim[0] == x->type.dim[0];
  return image && t->dim[1] > 1 && t->dim[2] * t->dim[3] > 1 ? x->in[0] : NULL;
}

// Reads matrix product n's left operand as it is in memory, if it is a flattened image.
void flatten_in_place(Graph *to, Node *n, Dtype dtype) {
  Node *x = n->in[MapA], *w = n->in[MapB], *image = flattened(x);
  if (maps_gives(n) != PartNone || !image || !w->fixed || w->type.rank != 2 ||
      w->type.dtype == dtype)
    return;
  const int64_t *dim = image->type.dim, *sizes = w->type.dim;
  Attr last = {.dims = {0, 2, 3, 1}}, flat = {.dims = {dim[0], sizes[0]}};
  Attr apart = {.dims = {dim[1], dim[2], dim[3], sizes[1]}}, turned = {.dims = {1, 2, 0, 3}};
  Attr joined = {.dims = {sizes[0], sizes[1]}};
  x->uses--;
  image->uses += x->uses > 0; // it has another reader
  n->in[MapA] = graph_move(to, "reshape", graph_move(to, "permute", image, 4, &last), 2, &flat);
  w = graph_move(to, "permute", graph_move(to, "reshape", w, 4, &apart), 4, &turned);
  n->in[MapB] = graph_move(to, "reshape", w, 2, &joined);
}
