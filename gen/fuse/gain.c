// gain.c: what fusing saves and costs on the target GPU (in bytes or seconds): merging two kernels
// or not, and extending a contraction, a row of scores or an epilogue.
#include "fuse.h"

#include <math.h>
#include <stdlib.h>

static int work(const Group *k) { // operations per element
  int flops = 0;
  for (int i = 0; i < k->nnodes; i++) flops += k->nodes[i]->op->flops;
  return flops;
}

// Does k read n before node `at`, or before that node's input `j`?
static bool read_before(const Group *k, const Node *n, int at, int j) {
  for (int i = 0; i <= at; i++)
    for (int l = 0; l < (i < at ? k->nodes[i]->nin : j); l++)
      if (k->nodes[i]->in[l] == n) return true;
  return false;
}

// Bytes that k reads to compute `count` elements: each input once, and at most `count` elements of
// it. Positions, constants and single numbers are free.
static double input_bytes(const Group *k, double count) {
  double bytes = 0;
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++) {
      const Node *in = k->nodes[i]->in[j];
      double elements = (double)type_count(&in->type);
      if (in->group == k || node_is_computed(in) || elements == 1) continue;
      if (read_before(k, in, i, j)) continue;
      bytes += (elements < count ? elements : count) * (double)dtype_size(in->type.dtype);
    }
  return bytes;
}

// Is the launch a large part of k's time? Under memory pressure (options.level) the limit is lower,
// because results of small kernels would be kept in memory longer.
bool gain_is_small(const Arch *arch, const Group *k) {
  // DRAM time, in launches, below which k is small
  double launches = k->graph->c->options.level ? 0.25 : 4;
  return gain_dram(arch, in_place_bytes(k)) < launches * arch->launch_gap;
}

// Is padding contraction k's tiles to end at every `rows` rows cheaper than a separate reduction?
bool gain_ends_tiles(const Arch *arch, const Group *k, int64_t rows) {
  enum { kTile = 64 };        // rows of a tile
  const double reached = 0.5; // fraction of peak for contractions of few rows: an estimate
  // fraction of the multiplications that is padding
  double outside = (double)round_up(rows, kTile) / (double)rows - 1;
  double more = outside * 2 * maps_multiplies(k->anchor) / (reached * k->tm->rate(k, arch));
  return more < arch->launch_gap + gain_dram(arch, (double)type_bytes(&k->anchor->type));
}

// Seconds to compute `count` scores tile by tile, with `depth` the sum of the contractions' inner
// sizes: tensor or FMA units, L2, and shared memory, from which each warp reads the keys; without
// tensor cores, plus the latency of a warp's first tile.
static double scores_seconds(const Arch *arch, bool tensor, double count, double depth) {
  enum { kMostTile = 64, kWarpRows = 16, kSmemRate = 128, kFirst = 16 };
  const double reached = tensor ? 0.5 : 0.6; // fraction of peak: an estimate
  double units = tensor ? arch->tensor16 * arch->mma_share : arch->fp32, clock = arch->clock * 1e9;
  double row = depth * (tensor ? 2 : 4), tile = kMostTile;
  while (4 * tile * row > arch->smem) tile /= 2; // two stages, of rows and keys
  double smem = count * row * (1. / kWarpRows + 3 / tile) / (kSmemRate * clock * arch->sms);
  double math = 2 * count * depth / (reached * units), l2 = gain_l2(arch, 2 * count * row / tile);
  double together = pow(pow(math, 4) + pow(smem, 4) + pow(l2, 4), 0.25); // as cost_together
  return together + (tensor ? 0 : kFirst * depth / clock);
}

// Is recomputing the scores for this sum cheaper than storing them? Stored, forward writes and
// reads scores and probabilities instead of being one fused kernel; backward then reads the
// probabilities, writes their gradients, and reads these to sum them.
bool gain_scores_again(const Arch *arch, const Node *sum, const Attention *a) {
  enum { kLeast = 32, kAccesses = 7, kLaunches = 3 }; // kLeast: rows, and keys, of a tile
  enum { kFill = 1600 };                              // clocks of a launch
  const double reached = 0.8;                         // fraction of peak for plain contractions
  const Node *product = a->product[0], *weights = sum->in[0];
  bool tensor = dtype_size(prec_operand(product)) == 2;
  double count = (double)type_count(&weights->type), depth = 0, padded = count, large = count;
  for (int i = 0; i < a->nproducts; i++)
    depth += (double)a->operand[2 * i]->type.dim[a->along[2 * i]];
  Maps m = maps_of(product, 0);
  for (int role = AxisM; role <= AxisN; role++) {
    int64_t along = maps_count(&m, (AxisRole)role);
    padded *= (double)round_up(along, kLeast) / (double)along;
    large *= (double)round_up(along, 2 * kLeast) / (double)along;
  }
  double bytes = (double)type_bytes(&weights->type);
  // written in either case, and not read again
  bool stored = type_same_shape(&sum->type, &weights->type);
  double seen = (stored ? kAccesses - 2 : kAccesses) * bytes;
  double moved = bytes < (double)arch->l2 / 4 ? gain_l2(arch, seen) : gain_dram(arch, seen);
  double share = arch->wgmma ? 1 : arch->mma_share;
  double units = tensor                           ? arch->tensor16 * share
                 : product->precision == PrecTf32 ? arch->tf32 * share
                                                  : arch->fp32;
  double launches = kLaunches * (arch->launch_gap + kFill / (arch->clock * 1e9));
  double products = 3 * large * depth / (reached * units); // each of half the depth
  return 2 * scores_seconds(arch, tensor, padded, depth) < launches + moved + products;
}

// Is computing k inside its reader, `reads` elements in all, cheaper than as a separate kernel?
bool gain_inside(const Arch *arch, const Group *k, double reads) {
  const Type *made = &k->nodes[k->nnodes - 1]->type;
  double count = (double)type_count(made), size = (double)dtype_size(made->dtype);
  double inputs = input_bytes(k, count), again = reads > count ? reads - count : 0;
  double inside = gain_dram(arch, inputs) + gain_l2(arch, reads / count * inputs) +
                  gain_compute(arch, again * work(k));
  double apart =
      arch->launch_gap + gain_dram(arch, inputs + count * size) + gain_l2(arch, reads * size);
  return inside < apart;
}

// ---- epilogues ---------------------------------------------------------------------------------

// Bytes saved on n's inputs from k: one read less each, and no write if n is their only reader.
static int64_t input_gain(const Group *k, const Node *n) {
  int64_t gain = 0;
  for (int i = 0; i < n->nin; i++) {
    int again = 0;
    while (n->in[again] != n->in[i]) again++;
    if (again == i && n->in[i]->group == k)
      gain += type_bytes(&n->in[i]->type) * (n->in[i]->uses == 1 ? 2 : 1);
  }
  return gain;
}

// The only reduction that reads n, through maps, or NULL.
static const Node *reduced_by(const Node *n) {
  const Node *list[kMostNodes], *reduction = NULL;
  int nmaps = n->op->cls == OpMap ? fuse_mapped(n, list) : 0;
  for (int i = 0; i < nmaps; i++) {
    int count;
    Node **readers = fuse_readers(n->group->graph, list[i], &count);
    if (count != list[i]->uses) return NULL; // it is an output of the model
    for (int j = 0; j < count; j++) {
      bool map = readers[j]->op->cls == OpMap && type_same_shape(&readers[j]->type, &n->type);
      bool reduces = readers[j]->op->cls == OpReduce && (!reduction || reduction == readers[j]);
      if (reduces) reduction = readers[j];
      if (!map && !reduces) return NULL;
    }
  }
  return reduction;
}

// Does k store `made` whether or not it computes n? True if a reader of `made` cannot join k, for
// example because it depends on the reduction.
static bool written_anyway(const Group *k, const Node *made, const Node *n, const Node *reduction) {
  int count;
  Node **readers = fuse_readers(k->graph, made, &count);
  bool found = count != made->uses;
  for (int i = 0; i < count && !found; i++) {
    const Node *r = readers[i];
    bool refused = r->id < n->id && r->group != k;
    found =
        refused || !k->tm->fusion->joins[r->op->cls] || fuse_reaches(r->group, reduction->group);
  }
  return found;
}

// Could the reduction's kernel recompute n from values that k stores anyway, or that are smaller
// than n?
static bool computed_there(const Group *k, const Node *n, const Node *reduction) {
  FuseRule *rule = k->tm->fusion->joins[OpReduce];
  int64_t read = 0;
  bool written = true;
  if (rule && !rule(k, reduction)) return false;
  for (int i = 0; i < n->nin; i++) {
    if (n->in[i]->group != k) continue;
    written = written && written_anyway(k, n->in[i], n, reduction);
    read += type_bytes(&n->in[i]->type);
  }
  return written || read < type_bytes(&n->type);
}

static int last_first(const void *a, const void *b) {
  return (*(const Node *const *)b)->id - (*(const Node *const *)a)->id;
}

// Does every use of n, through maps of its shape, also wait for another kernel that depends on k
// (for example a sum over results of several such kernels)?
static bool waits_later(const Group *k, const Node *n) {
  const Node *list[kMostNodes];
  bool later[kMostNodes] = {false};
  int nmaps = fuse_mapped(n, list);
  qsort(list, (size_t)nmaps, sizeof *list, last_first); // readers first; n is the last
  for (int i = 0; i < nmaps; i++) {
    int count, known = 0;
    Node **readers = fuse_readers(k->graph, list[i], &count);
    for (int j = 0; j < count; j++)
      for (int m = 0; m < i; m++) known += list[m] == readers[j] && later[m];
    later[i] = count && known == list[i]->uses;
    for (int j = 0; j < list[i]->nin && !later[i]; j++) {
      const Node *in = list[i]->in[j];
      // a map of this shape: perhaps in the list
      bool made = in->op->cls == OpMap && type_same_shape(&in->type, &n->type);
      later[i] = !made && in->group && in->group != k && fuse_reaches(in->group, k);
    }
  }
  return later[nmaps - 1];
}

// Bytes that k would read for n, although the later kernels of n's readers could read them instead.
static int64_t read_early(const Group *k, const Node *n) {
  int64_t bytes = 0;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]->group != k && type_same_shape(&n->in[i]->type, &n->type))
      bytes += type_bytes(&n->in[i]->type);
  return bytes && waits_later(k, n) ? bytes : 0;
}

int64_t gain_behind(const Group *k, const Node *n) {
  const Node *reduction = k->tm->fusion->maps ? NULL : reduced_by(n);
  int64_t early = k->tm->fusion->product && n->op->cls == OpMap ? read_early(k, n) : 0;
  if (early) return -early;
  int64_t gain = input_gain(k, n);
  if (!reduction || !computed_there(k, n, reduction)) return gain;
  return gain - 2 * type_bytes(&reduction->in[0]->type); // written and read
}
