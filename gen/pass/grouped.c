// grouped.c: convolutions in groups of few channels. Several groups become one, whose filters are
// zero outside their own group: loading a few bytes of each pixel would cost a whole sector, and a
// few output columns a whole tile; multiplications by zero are cheaper.
//
// The filter gradient has a tile per group, of which it uses only a few rows and columns. Several
// groups together fill tiles; the gradients of the groups are on the diagonal of the result.
#include "pass.h"

#include <string.h>

// How many groups to merge: the number with the fewest multiplications among those that fill a
// sector per pixel, or come nearest. In the data gradient, channels are columns, and outputs are
// along k.
static int64_t groups_to_pack(const Node *n, Dtype dtype) {
  enum { kSector = 32, kColumns = 16, kMostPacked = 16 }; // bytes; narrowest tile
  const int64_t *w = n->in[1]->type.dim, groups = n->attr.groups;
  bool data = maps_gives(n) == PartImage;
  int64_t columns = data ? w[1] : w[0] / groups, along = data ? w[0] / groups : w[1];
  int64_t size = (int64_t)dtype_size(dtype), best = 1, least = 0;
  for (int64_t p = 1; p <= groups && p <= kMostPacked; p++) {
    if (groups % p) continue;
    int64_t k = round_up(p * along * w[2] * w[3], kMmaStep / size);
    int64_t multiplies = groups / p * round_up(p * columns, kColumns) * k;
    if (best * along * size >= kSector && multiplies > least) continue;
    best = p, least = multiplies;
  }
  return best;
}

// (O, C, R, S) as (O, packed * C, R, S): zero except for the channels of the filter's own group.
static Node *pack_filter(Graph *to, Node *w, int64_t groups, int64_t packed) {
  const int64_t *dim = w->type.dim, channels = dim[1], taps = dim[2] * dim[3];
  int64_t left = groups / packed, outputs = dim[0] / groups;
  Attr split = {.dims = {left, packed, outputs, channels, taps}};
  Node *all = graph_move(to, "reshape", w, 5, &split);
  Node **parts = arena_alloc(to->arena, sizeof *parts * (size_t)packed);
  for (int64_t i = 0; i < packed; i++) {
    Attr own = {.dims = {0, i}, .ends = {left, i + 1, outputs, channels, taps}};
    Attr zeros = {.dims = {0, 0, 0, i * channels}, .ends = {0, 0, 0, (packed - 1 - i) * channels}};
    parts[i] = graph_move(to, "pad", graph_move(to, "slice", all, 5, &own), 5, &zeros);
  }
  Node *joined = graph_add(to, op_need(to->c, "concat"), (int)packed, parts, &(Attr){.axis = 1}, w);
  shape_infer(to->c, joined);
  joined->uses = 1;
  Attr filter = {.dims = {dim[0], packed * channels, dim[2], dim[3]}};
  return graph_move(to, "reshape", joined, 4, &filter);
}

// ---- filter gradient ----------------------------------------------------------------------------

// Seconds of the gradient with `packed` groups merged: tiles have as many rows and columns as 128
// bytes hold, since operands are across k; copies of less than 16 bytes take proportionally longer.
static double gradient_seconds(const Graph *to, const Node *n, int64_t size, int64_t packed) {
  enum { kCopy = 16 };         // bytes
  const double reached = 0.25; // fraction of peak by such tiles, according to their model
  const Arch *arch = to->c->options.arch;
  const Type *g = &n->in[0]->type;
  int64_t side = kRowBytes / size, groups = n->attr.groups, outputs = n->type.dim[0] / groups;
  int64_t channels = n->type.dim[1], taps = n->type.dim[2] * n->type.dim[3], k = type_count(g);
  int64_t tiles = groups / packed * ceil_div(packed * outputs, side) *
                  ceil_div(packed * channels * taps, side);
  int64_t least = (channels < outputs ? channels : outputs) * packed * size;
  double rate = n->precision == PrecFp32 ? arch->fp32 : size == 4 ? arch->tf32 : arch->tensor16;
  double multiplies = (double)(tiles * side * side * (k / g->dim[1]));
  return 2 * multiplies / (reached * rate) * (least < kCopy ? (double)kCopy / (double)least : 1);
}

// Merging needs an extra kernel, of two launches' time, that extracts the diagonal.
static int64_t gradients_to_pack(const Graph *to, const Node *n, Dtype dtype) {
  int64_t size = (int64_t)dtype_size(dtype), groups = n->attr.groups, best = 1;
  double least = gradient_seconds(to, n, size, 1) - 2 * to->c->options.arch->launch_gap;
  for (int64_t p = 2; p <= groups; p++) {
    if (groups % p) continue;
    double seconds = gradient_seconds(to, n, size, p);
    if (seconds < least) best = p, least = seconds;
  }
  return best;
}

// Positions along dimension `dim`; the other dimensions have size 1.
static Node *places(Graph *to, int dim, int64_t size, Node *like) {
  Node *n = graph_add(to, op_need(to->c, "index"), 0, NULL, &(Attr){.axis = dim}, like);
  n->type = type_make(DtI32, 6, (int64_t[]){1, 1, 1, 1, 1, 1});
  n->type.dim[dim] = size;
  n->uses = 1;
  return n;
}

static Node *made(Graph *to, const char *op, int nin, Node **in, const Attr *attr, Node *like) {
  Node *n = graph_add(to, op_need(to->c, op), nin, in, attr, like);
  shape_infer(to->c, n);
  n->uses = 1;
  return n;
}

// (O, packed * C, R, S) as (groups, packed, O of a group, packed, C, R * S).
static Node *split_groups(Graph *to, Node *packed, const Node *n) {
  int64_t left = packed->attr.groups, count = n->attr.groups / left;
  int64_t outputs = n->type.dim[0] / n->attr.groups, taps = n->type.dim[2] * n->type.dim[3];
  if (packed->type.order[3] != 1)
    return graph_move(to, "reshape", packed, 6,
                      &(Attr){.dims = {left, count, outputs, count, n->type.dim[1], taps}});
  Node *last = graph_move(to, "permute", packed, 4, &(Attr){.dims = {0, 2, 3, 1}});
  Attr split = {.dims = {left, count, outputs, taps, count, n->type.dim[1]}};
  last = graph_move(to, "reshape", last, 6, &split);
  return graph_move(to, "permute", last, 6, &(Attr){.dims = {0, 1, 2, 4, 5, 3}});
}

// (O, packed * C, R, S) as (O, C, R, S): each group's own channels.
Node *groups_unpack(Graph *to, Node *packed, const Node *n) {
  enum { kOfOutputs = 1, kOfChannels = 3 }; // dimensions for the group within a merged one
  int64_t count = n->attr.groups / packed->attr.groups, uses = packed->uses;
  packed->uses = 1;
  Node *all = split_groups(to, packed, n), *of[2], *in[3] = {NULL, all};
  of[0] = places(to, kOfOutputs, count, all), of[1] = places(to, kOfChannels, count, all);
  in[0] = made(to, "eq", 2, of, NULL, all);
  in[2] = graph_add(to, op_need(to->c, "const"), 0, NULL, &(Attr){0}, all);
  in[2]->type = type_make(all->type.dtype, 0, NULL);
  in[2]->uses = 1;
  Node *diagonal = made(to, "where", 3, in, NULL, all);
  Node *sum = made(to, "reduce_sum", 1, &diagonal, &(Attr){.axes = 1 << kOfChannels}, all);
  sum->type.dtype = packed->type.dtype;
  Attr whole = {0};
  memcpy(whole.dims, n->type.dim, sizeof whole.dims);
  Node *result = graph_move(to, "reshape", sum, 4, &whole);
  result->uses = (int)uses;
  return result;
}

// ---- both ---------------------------------------------------------------------------------------

// Packs n, a convolution or a filter gradient; the latter then has another shape.
void groups_pack(Graph *to, Node *n, Dtype dtype) {
  bool gradient = maps_gives(n) == PartFilter;
  bool depthwise = gradient ? n->type.dim[1] == 1 && n->type.dim[0] == n->attr.groups
                            : node_depthwise(n); // depthwise_wgrad.c, or the window template
  if (depthwise || n->attr.groups == 1) return;
  int64_t packed = gradient ? gradients_to_pack(to, n, dtype) : groups_to_pack(n, dtype);
  if (packed == 1) return;
  if (gradient)
    n->type.dim[1] *= packed;
  else
    n->in[1] = pack_filter(to, n->in[1], n->attr.groups, packed);
  n->attr.groups /= packed;
}
