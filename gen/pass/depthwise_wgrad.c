// depthwise_wgrad.c: the filter gradient of a depthwise convolution is not a matmul, since each
// channel has only a few taps. Each tap is the sum, over images and positions, of the output
// gradient times the shifted input; these are reductions of the same elements, several of which
// share a kernel (horizontal.c).
#include "pass.h"

#include <string.h>

enum { kMostSums = 225 }; // more kernels would take long to compile: 15 x 15

// Is n such a gradient, and are sums faster than a contraction?
static bool is_gradient(const Graph *g, const Node *n) {
  return maps_gives(n) == PartFilter && n->type.dim[1] == 1 && n->type.dim[0] == n->attr.groups &&
         n->type.dim[2] * n->type.dim[3] <= kMostSums && gain_taps(g->c->options.arch, n);
}

// A private move of the reader, marked late: the kernel of its input does not compute it
// (remat_late.c).
static Node *moved(Graph *to, const char *op, Node *x, const Attr *attr, Type type) {
  Node *n = graph_add(to, op_need(to->c, op), 1, &x, attr, x);
  n->type = type;
  n->late = true;
  return n;
}

// Window positions [first, end) along an axis at which the tap is inside the image, at `at`, at +
// stride, ...
typedef struct Span {
  int64_t first, end, at, stride;
} Span;

static Span span_of(const Node *n, int axis, int64_t tap) {
  int64_t size = n->in[1]->type.dim[2 + axis], positions = n->in[0]->type.dim[2 + axis],
          stride = n->attr.stride[axis], offset = tap * n->attr.dilation[axis] - n->attr.pad[axis];
  Span s = {.stride = stride};
  while (s.first < positions && s.first * stride + offset < 0) s.first++;
  s.end = s.first;
  while (s.end < positions && s.end * stride + offset < size) s.end++;
  s.at = s.first * stride + offset;
  return s;
}

// x from the span's beginning on, a whole number of strides long; padded with zeros beyond the
// image.
static Node *cut(Graph *to, Node *x, const Span span[2]) {
  Attr slice = {0}, pad = {0};
  Type cut = x->type, full = x->type;
  memcpy(slice.ends, x->type.dim, sizeof x->type.dim);
  for (int i = 0; i < 2; i++) {
    int64_t wanted = (span[i].end - span[i].first) * span[i].stride,
            end = span[i].at + wanted, size = x->type.dim[2 + i];
    slice.dims[2 + i] = span[i].at;
    slice.ends[2 + i] = end < size ? end : size;
    cut.dim[2 + i] = slice.ends[2 + i] - span[i].at;
    pad.ends[2 + i] = wanted - cut.dim[2 + i];
    full.dim[2 + i] = wanted;
  }
  if (memcmp(cut.dim, x->type.dim, sizeof cut.dim)) x = moved(to, "slice", x, &slice, cut);
  return memcmp(cut.dim, full.dim, sizeof cut.dim) ? moved(to, "pad", x, &pad, full) : x;
}

// Every `stride`-th element along both axes.
static Node *strided(Graph *to, Node *x, const Span span[2]) {
  if (span[0].stride == 1 && span[1].stride == 1) return x;
  Type apart = type_make(x->type.dtype, 6, x->type.dim), type = x->type;
  Attr attr = {0};
  for (int i = 0; i < 2; i++) {
    type.dim[2 + i] = apart.dim[2 + 2 * i] = span[i].end - span[i].first;
    apart.dim[3 + 2 * i] = span[i].stride;
  }
  for (int i = 0, at = 0; i < 4; i++) { // each axis followed by its strides, in the image's order
    int d = x->type.order[i];
    apart.order[at++] = (uint8_t)(d < 2 ? d : 2 * d - 2);
    if (d >= 2) apart.order[at++] = (uint8_t)(2 * d - 1);
  }
  memcpy(attr.dims, apart.dim, sizeof attr.dims);
  x = moved(to, "reshape", x, &attr, apart);
  memset(attr.dims, 0, sizeof attr.dims);
  memcpy(attr.ends, apart.dim, sizeof attr.ends);
  apart.dim[3] = attr.ends[3] = apart.dim[5] = attr.ends[5] = 1;
  x = moved(to, "slice", x, &attr, apart);
  memcpy(attr.dims, type.dim, sizeof attr.dims);
  return moved(to, "reshape", x, &attr, type);
}

// The input as the tap sees it from each output position, in the gradient's shape.
static Node *seen_by(Graph *to, Node *n, const Span span[2]) {
  const Type *g = &n->in[0]->type;
  Node *x = strided(to, cut(to, n->in[1], span), span);
  Attr pad = {0};
  Type type = x->type;
  for (int i = 0; i < 2; i++) {
    type.dim[2 + i] = g->dim[2 + i];
    pad.dims[2 + i] = span[i].first;
    pad.ends[2 + i] = g->dim[2 + i] - span[i].end;
  }
  return memcmp(type.dim, x->type.dim, sizeof type.dim) ? moved(to, "pad", x, &pad, type) : x;
}

static Node *tap(Graph *to, Node *n, int64_t r, int64_t s) {
  Span span[2] = {span_of(n, 0, r), span_of(n, 1, s)};
  int64_t channels = n->type.dim[0], dims[4] = {channels, 1, 1, 1}, sums[4] = {1, channels, 1, 1};
  Type type = type_make(DtF32, 4, dims);
  if (span[0].first == span[0].end || span[1].first == span[1].end) { // never inside the image
    Node *none = graph_add(to, op_need(to->c, "const"), 0, NULL, &(Attr){0}, n);
    none->type = type;
    return none;
  }
  Node *in[2] = {n->in[0], seen_by(to, n, span)};
  Node *product = graph_add(to, op_need(to->c, "mul"), 2, in, NULL, n);
  product->type = n->in[0]->type;
  product->type.dtype = DtF32;
  product->late = true;
  Attr attr = {.axes = 1 << 0 | 1 << 2 | 1 << 3};
  Node *sum = graph_add(to, op_need(to->c, "reduce_sum"), 1, &product, &attr, n);
  sum->type = type_make(DtF32, 4, sums);
  memcpy(attr.dims, dims, sizeof dims);
  Node *shaped = graph_add(to, op_need(to->c, "reshape"), 1, &sum, &attr, n);
  shaped->type = type;
  return shaped;
}

static Node *beside(Graph *to, Node **parts, int count, int axis, const Node *like) {
  if (count == 1) return parts[0];
  Attr attr = {.axis = axis};
  Node *n = graph_add(to, op_need(to->c, "concat"), count, parts, &attr, (Node *)like);
  n->type = parts[0]->type;
  n->type.dim[axis] = count;
  return n;
}

static Node *rewrite(Graph *to, Node *node, Node **in) {
  Node *n = graph_add(to, node->op, node->nin, in, &node->attr, node);
  n->type = node->type;
  if (!is_gradient(to, n)) return n;
  int rows = (int)n->type.dim[2], columns = (int)n->type.dim[3];
  Node **row = arena_alloc(to->arena, sizeof *row * (size_t)rows);
  Node **all = arena_alloc(to->arena, sizeof *all * (size_t)columns);
  for (int r = 0; r < rows; r++) {
    for (int s = 0; s < columns; s++) all[s] = tap(to, n, r, s);
    row[r] = beside(to, all, columns, 3, n);
  }
  Node *whole = beside(to, row, rows, 2, n);
  Node *copy = graph_add(to, op_need(to->c, "copy"), 1, &whole, NULL, n);
  copy->type = n->type;
  return copy;
}

// Needs: dtypes and memory orders. Produces a graph without filter gradients of depthwise
// convolutions.
Graph *depthwise_wgrad_make(Graph *g) {
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) any = any || is_gradient(g, g->nodes[i]);
  if (!any) return g;
  g = graph_copy(graph_rebuild(g, rewrite, NULL));
  graph_count_uses(g);
  return g;
}
