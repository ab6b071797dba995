// channels.c: convolutions over few channels, or odd numbers of them.
//
// They would need many small copies to shared memory, or none (asynchronous copies take 4, 8 or 16
// bytes), and the number of copies determines a kernel's time, whatever their bytes. So a row of an
// image is viewed as a row of units of 1 to 16 bytes, each a column with that many channels. Zero
// channels may be appended to each pixel, and zeros inserted before each row of the filter, so that
// windows begin at units. The way with the lowest cost is taken, including multiplications by zeros
// and the copy of the image. Three channels in 16 bits, windows of 7 x 7, stride 2, an odd padding:
//
//   7 x 7 x 4    a zero channel, a pixel a unit: copies of 8 bytes
//   7 x 11 x 2   units of 2 out of rows of 3 a pixel, a zero in front: copies of 4 bytes
//   7 x 4 x 8    a zero channel, units of 2 pixels, one of zeros in front: copies of 16 bytes
//
// The filter gradient reads the same image; its copies are across k and take units of 16 bytes. The
// result is a gradient of the filter in units, from which the filter's is sliced.
#include "pass.h"

#include <math.h>
#include <string.h>

// ---- few channels ------------------------------------------------------------------------------

// A convolution, or its filter gradient.
typedef struct Windows {
  const Type *image;
  const int64_t *filter; // outputs, channels, height, width
  double positions;      // number of windows in all images
  int64_t across, size;  // windows per image row; bytes of an element
  bool gradient, turned; // turned: the image's memory order changes in any case
  bool copied;           // a copy is needed, which no other kernel would do
} Windows;

static Windows windows_of(const Node *n, Dtype dtype) {
  const Type *y = maps_type(n, PartPositions), *x = maps_type(n, PartImage);
  Windows v = {.image = x, .filter = maps_type(n, PartFilter)->dim, .across = y->dim[3]};
  v.gradient = maps_gives(n) == PartFilter;
  v.positions = (double)(y->dim[0] * y->dim[2] * y->dim[3]);
  v.size = (int64_t)dtype_size(dtype);
  v.turned = x->dim[1] > 1 && x->order[3] != 1;
  OpClass cls = n->in[maps_tensor(n, PartImage)]->op->cls;
  v.copied = (v.turned || x->dtype != dtype) && (cls == OpSource || cls == OpMove);
  return v;
}

// How the columns of a convolution become columns of units.
typedef struct Way {
  int64_t channels, unit;      // of a pixel, with zero channels; of a column
  int64_t lead;                // zeros before each row of the filter
  int64_t width, window;       // of the image and of the filter, in units
  int64_t stride, left, right; // padding
} Way;

static Way as_pixels(const Node *n, const Windows *v, int64_t channels) {
  const Attr *a = &n->attr;
  return (Way){.channels = channels,
               .unit = channels,
               .width = v->image->dim[3],
               .window = v->filter[3],
               .stride = a->stride[1],
               .left = a->pad[1],
               .right = a->pad[3]};
}

// Do windows begin at multiples of such units, after inserting w->lead zeros?
static bool as_units(const Node *n, const Windows *v, int64_t channels, int64_t unit, Way *w) {
  const Attr *a = &n->attr;
  int64_t left = a->pad[1] * channels;
  if (a->dilation[1] != 1 || a->stride[1] * channels % unit) return false;
  *w = (Way){.channels = channels, .unit = unit, .stride = a->stride[1] * channels / unit};
  w->left = ceil_div(left, unit);
  w->lead = w->left * unit - left;
  w->window = ceil_div(w->lead + v->filter[3] * channels, unit);
  int64_t reached = (v->across - 1) * w->stride + w->window - w->left;
  w->width = ceil_div(v->image->dim[3] * channels, unit);
  if (w->width > reached) w->width = reached; // no window reads the rest
  w->right = reached - w->width;
  return w->width > 0;
}

// Elements per asynchronous copy, or 0 if copies take a single element or none. Along k, the bits
// of a mask tell which taps are outside the image.
static int64_t piece_of(const Node *n, const Windows *v, const Way *w) {
  enum { kMostCopied = 16 }; // bytes
  const int64_t *pad = n->attr.pad;
  int64_t piece = kMostCopied / v->size, least = v->gradient ? piece : 2;
  int64_t taps = (pad[0] || pad[2] ? v->filter[2] : 0) + (w->left || w->right ? w->window : 0);
  while (w->unit % piece) piece /= 2;
  return piece < least || (taps > kMostTaps && !v->gradient) ? 0 : piece;
}

// Instructions per element loaded to shared memory. A gradient may gather single elements, but each
// row then waits for memory. A convolution does not gather, even for the smallest image.
static double element_issue(const Node *n, const Windows *v, const Way *w) {
  // of a copy: 10 to 18 were measured; factor, estimated
  enum { kPieceIssue = 14, kGatherWait = 4 };
  int64_t piece = piece_of(n, v, w);
  if (piece) return (double)kPieceIssue / (double)piece;
  return v->gradient ? kGatherIssue * kGatherWait : INFINITY;
}

// Costs that differ between ways: loads to shared memory (along k in whole blocks),
// multiplications, and the image, if it is copied: a launch, the same again for latency, and its
// bytes.
static double way_seconds(const Graph *to, const Node *n, const Windows *v, const Way *w) {
  const Arch *arch = to->c->options.arch;
  int64_t depth = v->filter[2] * w->window * w->unit;
  int64_t loaded = v->gradient ? depth : round_up(depth, kRowBytes / v->size);
  double issue = v->positions * (double)loaded * element_issue(n, v, w);
  double rate = n->precision == PrecFp32 ? arch->fp32 : v->size == 4 ? arch->tf32 : arch->tensor16;
  double multiplies = v->positions * (double)(v->filter[0] * round_up(depth, kMmaStep / v->size));
  double bytes = 2. * (double)(v->image->dim[0] * v->image->dim[2] * w->width * w->unit * v->size);
  bool view = w->width * w->unit == v->image->dim[3] * v->filter[1];
  return issue / (arch->fp32 / 2) + 2 * multiplies / rate +
         (view && !v->copied ? 0 : 2 * arch->launch_gap + bytes / arch->dram);
}

static Way best_way(const Graph *to, const Node *n, const Windows *v) {
  enum { kMostUnit = 16 }; // bytes
  int64_t channels = v->filter[1], most = kMostUnit / v->size;
  Way best = as_pixels(n, v, channels);
  double least = INFINITY;
  for (int64_t c = channels; c <= round_up(channels, most); c++)
    for (int64_t unit = 1; unit <= most; unit *= 2) { // 1: one pixel
      Way w = as_pixels(n, v, c);
      if (unit > 1 && !as_units(n, v, c, unit, &w)) continue;
      double seconds = way_seconds(to, n, v, &w);
      if (seconds < least) least = seconds, best = w;
    }
  return best;
}

// Rows of x, channels last with zero channels, as `columns` units, after `lead` zeros.
static Node *in_units(Graph *to, Node *x, const Way *w, int64_t lead, int64_t columns) {
  int64_t zeros = w->channels - x->type.dim[1];
  if (zeros) x = graph_move(to, "pad", x, 4, &(Attr){.ends = {0, zeros}});
  if (w->unit == w->channels) return x;
  const int64_t *dim = x->type.dim;
  int64_t run = dim[3] * w->channels, behind = columns * w->unit - lead - run;
  Node *last = graph_move(to, "permute", x, 4, &(Attr){.dims = {0, 2, 3, 1}});
  if (lead || behind) {
    last = graph_move(to, "reshape", last, 3, &(Attr){.dims = {dim[0], dim[2], run}});
    Attr padded = {.dims = {0, 0, lead}, .ends = {0, 0, behind}};
    Attr cut = {.ends = {dim[0], dim[2], run + behind}};
    last = graph_move(to, behind < 0 ? "slice" : "pad", last, 3, behind < 0 ? &cut : &padded);
  }
  Attr units = {.dims = {dim[0], dim[2], columns, w->unit}};
  last = graph_move(to, "reshape", last, 4, &units);
  return graph_move(to, "permute", last, 4, &(Attr){.dims = {0, 3, 1, 2}});
}

// Is copying the input cheaper than loading single floats, once per output pixel and tap?
static bool copy_pays(const Graph *to, const Windows *v) {
  const Arch *arch = to->c->options.arch;
  double loads = v->positions * (double)(v->filter[1] * v->filter[2] * v->filter[3]);
  double bytes = 2. * (double)type_bytes(v->image);
  return loads * kGatherIssue / (arch->fp32 / 2) > arch->launch_gap + bytes / arch->dram;
}

// Single floats can be copied; packing them pays only if the memory order changes anyway. Groups
// are not packed: each would need its own zero channels.
static bool may_pack(const Graph *to, const Node *n, const Windows *v) {
  enum { kFewBytes = 16 }; // of a pixel
  bool few = v->filter[1] * v->size < kFewBytes;
  if (n->attr.groups > 1 || node_depthwise(n) || !(few || v->filter[1] % 2)) return false;
  return v->size <= 2 || (v->filter[1] % 2 && v->turned && copy_pays(to, v));
}

// Packs n, a convolution or a filter gradient; the latter then has another shape.
void channels_pack(Graph *to, Node *n, Dtype dtype) {
  Windows v = windows_of(n, dtype);
  if (!may_pack(to, n, &v)) return;
  Way w = best_way(to, n, &v);
  int image = maps_tensor(n, PartImage);
  n->in[image] = in_units(to, n->in[image], &w, 0, w.width);
  if (v.gradient) {
    n->attr.size[1] = n->type.dim[3] = w.window;
    n->type.dim[1] = w.unit;
  } else {
    n->in[MapB] = in_units(to, n->in[MapB], &w, w.lead, w.window);
  }
  n->attr.stride[1] = w.stride;
  n->attr.pad[1] = w.left, n->attr.pad[3] = w.right;
}

// The gradient of node n's filter, sliced from the packed gradient.
Node *channels_unpack(Graph *to, Node *packed, const Node *n) {
  const int64_t *dim = n->type.dim, *units = packed->type.dim, run = units[1] * units[3];
  if (type_same_shape(&packed->type, &n->type)) return packed;
  int64_t channels = packed->attr.stride[1] * units[1] / n->attr.stride[1];
  int64_t lead = packed->attr.pad[1] * units[1] - n->attr.pad[1] * channels;
  Type type = n->type;
  memcpy(type.order, packed->type.order, sizeof type.order);
  Node *last = graph_move(to, "permute", packed, 4, &(Attr){.dims = {0, 2, 3, 1}});
  if (units[1] != channels) {
    last = graph_move(to, "reshape", last, 3, &(Attr){.dims = {dim[0], dim[2], run}});
    Attr own = {.dims = {0, 0, lead}, .ends = {dim[0], dim[2], lead + dim[3] * channels}};
    last = graph_move(to, "slice", last, 3, &own);
    Attr pixels = {.dims = {dim[0], dim[2], dim[3], channels}};
    last = graph_move(to, "reshape", last, 4, &pixels);
  }
  Attr real = {.ends = {dim[0], dim[2], dim[3], dim[1]}};
  if (channels > dim[1]) last = graph_move(to, "slice", last, 4, &real);
  last = graph_move(to, "permute", last, 4, &(Attr){.dims = {0, 3, 1, 2}});
  last->type = type;
  last->uses = packed->uses;
  packed->uses = 1;
  return last;
}
