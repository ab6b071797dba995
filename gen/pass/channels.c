// channels.c: convolutions over numbers of channels that tiles and copies do not like.
//
// Groups of few channels are packed: some of them become one, whose filters are zero outside their
// own group. Reading a few bytes of each pixel would cost a sector of memory, a few columns of
// outputs a tile of them; multiplies with zeros cost less.
//
// Runs of an odd number of 16-bit channels cannot be copied to shared memory, which takes 4 bytes
// at least, and to gather them takes longer than a copy of the smallest image: each row that a
// thread loads waits for memory. There are two ways out:
//
//   pairs  with an even stride, each window's rows begin at the same place of a pair: the image is
//          read as one of half as many pixels, C / 2 of them for each of its own, with 2 channels.
//          A filter of 7 x 7 x 3 becomes 7 x 11 x 2, a zero in front of each row
//   pad    a zero channel makes the number even, in a copy of the image
#include "pass.h"

// ---- groups of few channels ---------------------------------------------------------------------

// How many groups become one: what needs the fewest multiplies of those that fill a sector of each
// pixel, or else come nearest to it.
static int64_t groups_to_pack(const Node *n, Dtype dtype) {
  enum { kSector = 32, kColumns = 16, kMostPacked = 16 }; // bytes; the least that a tile has
  const int64_t *w = n->in[1]->type.dim, groups = n->attr.groups, outputs = w[0] / groups;
  int64_t size = (int64_t)dtype_size(dtype), best = 1, least = 0;
  for (int64_t p = 1; p <= groups && p <= kMostPacked; p++) {
    if (groups % p) continue;
    int64_t k = round_up(p * w[1] * w[2] * w[3], kMmaStep / size);
    int64_t multiplies = groups / p * round_up(p * outputs, kColumns) * k;
    if (best * w[1] * size >= kSector && multiplies > least) continue;
    best = p, least = multiplies;
  }
  return best;
}

// (O, C, R, S) as (O, packed * C, R, S): zero but for the channels of the own group.
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

void channels_pack_groups(Graph *to, Node *n, Dtype dtype) {
  if (node_depthwise(n)) return;
  int64_t packed = groups_to_pack(n, dtype);
  if (packed == 1) return;
  n->in[1] = pack_filter(to, n->in[1], n->attr.groups, packed);
  n->attr.groups /= packed;
}

// ---- odd numbers of channels --------------------------------------------------------------------

static Node *pad_channels(Graph *to, Node *n, int64_t count) {
  return graph_move(to, "pad", n, 4, &(Attr){.ends = {0, count - n->type.dim[1]}});
}

// How the columns of a convolution become columns of pairs.
typedef struct Pairs {
  int64_t lead;                // zeros in front of each row of the filter, 0 or 1
  int64_t width, window;       // of the image and of the filter
  int64_t stride, left, right; // padding
} Pairs;

// Are pairs possible, and do they need fewer multiplies than a zero channel?
static bool find_pairs(const Node *n, Pairs *p) {
  const Type *x = &n->in[0]->type, *w = &n->in[1]->type;
  const Attr *a = &n->attr;
  int64_t channels = x->dim[1], left = a->pad[1] * channels;
  if (a->stride[1] % 2 || x->dim[3] % 2 || a->dilation[1] != 1) return false;
  p->lead = left % 2;
  p->left = (left + p->lead) / 2;
  p->window = (p->lead + w->dim[3] * channels + 1) / 2;
  p->width = x->dim[3] * channels / 2;
  p->stride = a->stride[1] * channels / 2;
  p->right = (n->type.dim[3] - 1) * p->stride + p->window - p->width - p->left;
  if (p->right < 0) p->right = 0; // columns that no window reaches
  return p->window * 2 < w->dim[3] * (channels + 1);
}

// (N, C, H, W), read channels last, as (N, 2, H, width).
static Node *pair_image(Graph *to, Node *x, const Pairs *p) {
  const int64_t *dim = x->type.dim;
  Node *last = graph_move(to, "permute", x, 4, &(Attr){.dims = {0, 2, 3, 1}});
  Node *pairs = graph_move(to, "reshape", last, 4, &(Attr){.dims = {dim[0], dim[2], p->width, 2}});
  return graph_move(to, "permute", pairs, 4, &(Attr){.dims = {0, 3, 1, 2}});
}

// (O, C, R, S) as (O, 2, R, window), zeros in front of each row and behind it.
static Node *pair_filter(Graph *to, Node *w, const Pairs *p) {
  const int64_t *dim = w->type.dim, run = dim[3] * dim[1];
  Node *last = graph_move(to, "permute", w, 4, &(Attr){.dims = {0, 2, 3, 1}});
  Node *rows = graph_move(to, "reshape", last, 3, &(Attr){.dims = {dim[0], dim[2], run}});
  Attr zeros = {.dims = {0, 0, p->lead}, .ends = {0, 0, p->window * 2 - p->lead - run}};
  rows = graph_move(to, "pad", rows, 3, &zeros);
  Node *pairs = graph_move(to, "reshape", rows, 4, &(Attr){.dims = {dim[0], dim[2], p->window, 2}});
  return graph_move(to, "permute", pairs, 4, &(Attr){.dims = {0, 3, 1, 2}});
}

// Would a kernel that copies this convolution's input be cheaper than loading its floats singly, as
// often as outputs (of all channels) have taps?
static bool copy_pays(const Graph *to, const Node *n) {
  const Arch *arch = to->c->options.arch;
  const Type *w = &n->in[1]->type;
  double outputs = (double)w->dim[0];
  double loads = (double)type_count(&n->type) / outputs * ((double)type_count(w) / outputs);
  double bytes = 2. * (double)type_bytes(&n->in[0]->type);
  return loads * kGatherIssue / (arch->fp32 / 2) > arch->launch_gap + bytes / arch->dram;
}

// Floats can be copied singly, but gain where they change their order anyway. Groups stay odd: a
// zero channel each would have to stand between them.
void channels_make_even(Graph *to, Node *n, Dtype dtype) {
  const Type *x = &n->in[0]->type;
  int64_t channels = n->in[1]->type.dim[1];
  bool copied = x->dim[1] > 1 && x->order[3] != 1; // to change the order
  if (n->attr.groups > 1 || node_depthwise(n) || channels % 2 == 0) return;
  if (dtype_size(dtype) > 2 && !(copied && copy_pays(to, n))) return;
  Pairs pairs;
  if (find_pairs(n, &pairs)) {
    n->in[0] = pair_image(to, n->in[0], &pairs);
    n->in[1] = pair_filter(to, n->in[1], &pairs);
    n->attr.stride[1] = pairs.stride;
    n->attr.pad[1] = pairs.left, n->attr.pad[3] = pairs.right;
    return;
  }
  for (int i = 0; i < 2; i++) n->in[i] = pad_channels(to, n->in[i], channels + 1);
}
