// gain.c: what fusing saves and costs on the GPU at hand: kernels that become one or are apart, and
// what a product, a row of scores or an epilogue takes on.
#include "fuse.h"

#include <math.h>
#include <stdlib.h>

static int work(const Group *k) { // operations of an element
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

// Bytes that k reads to make `count` elements: of each value once, and no more of it than that
// many. Positions and constants take none.
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

// A launch is a good part of what it costs: what it makes may wait a while in memory, but not
// where values are computed again because memory is short.
bool gain_is_small(const Arch *arch, const Group *k) {
  double launches = k->graph->c->options.level ? 0.25 : 4; // that its bytes take at most
  return gain_dram(arch, in_place_bytes(k)) < launches * arch->launch_gap;
}

// Is it cheaper that product k's tiles end with every `rows` rows, than to reduce these elsewhere?
bool gain_ends_tiles(const Arch *arch, const Group *k, int64_t rows) {
  enum { kTile = 64 };        // rows
  const double reached = 0.5; // of the peak, by products of few rows: an estimate
  double outside = (double)round_up(rows, kTile) / (double)rows - 1; // multiplied for nothing
  double more = outside * 2 * maps_multiplies(k->anchor) / (reached * k->tm->rate(k, arch));
  return more < arch->launch_gap + gain_dram(arch, (double)type_bytes(&k->anchor->type));
}

// Seconds for the scores of a tile after the other, `count` in all, of products of `depth` elements
// together: on the units, from L2 and in shared memory, where each warp reads the keys; and for a
// warp's first tile.
static double scores_seconds(const Arch *arch, bool tensor, double count, double depth) {
  enum { kMostTile = 64, kWarpRows = 16, kSmemRate = 128, kFirst = 16 };
  const double reached = tensor ? 0.5 : 0.6; // of the peak: an estimate
  double units = tensor ? arch->tensor16 * arch->mma_share : arch->fp32, clock = arch->clock * 1e9;
  double row = depth * (tensor ? 2 : 4), tile = kMostTile;
  while (4 * tile * row > arch->smem) tile /= 2; // two stages, of rows and keys
  double smem = count * row * (1. / kWarpRows + 3 / tile) / (kSmemRate * clock * arch->sms);
  double math = 2 * count * depth / (reached * units), l2 = gain_l2(arch, 2 * count * row / tile);
  double together = pow(pow(math, 4) + pow(smem, 4) + pow(l2, 4), 0.25); // as cost_together
  return together + (tensor ? 0 : kFirst * depth / clock);
}

// Kept, scores and what the softmax makes of them are written and read by the forward pass, which
// else is one kernel of two products; then the softmax is read, the weights are written, and read
// to be summed.
bool gain_scores_again(const Arch *arch, const Node *sum, const Attention *a) {
  enum { kLeast = 32, kAccesses = 7, kLaunches = 3 }; // kLeast: rows, and keys, of a tile
  enum { kFill = 1600 };                              // clocks of a launch
  const double reached = 0.8;                         // by products that are kernels alone
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
  bool stored = type_same_shape(&sum->type, &weights->type); // in any case, and not read again
  double seen = (stored ? kAccesses - 2 : kAccesses) * bytes;
  double moved = bytes < (double)arch->l2 / 4 ? gain_l2(arch, seen) : gain_dram(arch, seen);
  double share = arch->wgmma ? 1 : arch->mma_share;
  double units = tensor                           ? arch->tensor16 * share
                 : product->precision == PrecTf32 ? arch->tf32 * share
                                                  : arch->fp32;
  double launches = kLaunches * (arch->launch_gap + kFill / (arch->clock * 1e9));
  double products = 3 * large * depth / (reached * units); // of half the depth each
  return 2 * scores_seconds(arch, tensor, padded, depth) < launches + moved + products;
}

// Is it cheaper to compute what k makes where it is read, `reads` times in all, than in a kernel?
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

// Of what k makes for n: an input need not be read again, nor written when nobody else reads it.
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

// The reduction that n is made for, through maps alone; null: it is not made for one alone.
static const Node *reduced_by(const Node *n) {
  const Node *list[kMostNodes], *reduction = NULL;
  int nmaps = n->op->cls == OpMap ? fuse_mapped(n, list) : 0;
  for (int i = 0; i < nmaps; i++) {
    int count;
    Node **readers = fuse_readers(n->group->graph, list[i], &count);
    if (count != list[i]->uses) return NULL; // it leaves the model
    for (int j = 0; j < count; j++) {
      bool map = readers[j]->op->cls == OpMap && type_same_shape(&readers[j]->type, &n->type);
      bool reduces = readers[j]->op->cls == OpReduce && (!reduction || reduction == readers[j]);
      if (reduces) reduction = readers[j];
      if (!map && !reduces) return NULL;
    }
  }
  return reduction;
}

// Does k write `made` whether it computes n or not? Where others read it that cannot be in k: they
// wait for the reduction.
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

// Could the kernel of the reduction compute n from what k writes anyway, or from what is smaller
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

// Do only maps of n's shape come of n that wait for k by another way, too, as for a sum over all
// that kernels like it make?
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
      bool made = in->op->cls == OpMap && type_same_shape(&in->type, &n->type); // perhaps of n
      later[i] = !made && in->group && in->group != k && fuse_reaches(in->group, k);
    }
  }
  return later[nmaps - 1];
}

// Bytes that k would read for n alone, though who computes n's readers reads them, too.
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
