// gain_values.c: what a value costs on the target GPU, in seconds: to copy, to read, to recompute,
// to read from a table.
#include "pass.h"

#include <math.h>

enum { kSector = 32 }; // bytes of memory traffic for a single element

double gain_dram(const Arch *arch, double bytes) {
  return bytes / arch->dram;
}
double gain_l2(const Arch *arch, double bytes) {
  return bytes / arch->l2_rate;
}
double gain_compute(const Arch *arch, double operations) { // not all are multiply-adds
  return operations / (arch->fp32 / 2);
}

bool gain_small_read(const Arch *arch, const Type *t) {
  return gain_dram(arch, (double)type_bytes(t)) < arch->launch_gap;
}

double gain_of_copy(const Arch *arch, const Type *t) {
  return arch->launch_gap + gain_dram(arch, 2. * (double)type_bytes(t));
}

// Is storing elements singly, uncoalesced, cheaper than a separate copy?
bool gain_scatters(const Arch *arch, const Type *t) {
  double bytes = (double)type_count(t) * kSector;
  return gain_l2(arch, bytes) < gain_of_copy(arch, t);
}

bool gain_again_work(const Arch *arch, const Node *map, double work) {
  double size = (double)dtype_size(map->type.dtype);
  return gain_compute(arch, work) < gain_dram(arch, size);
}

bool gain_again(const Arch *arch, const Node *map) {
  return gain_again_work(arch, map, map->op->flops);
}

// How many neighbouring elements of `reader`, in one block, read the same element of t.
static double read_together(const Type *t, const Type *reader) {
  const double block = 2048;
  double run = 1, apart = 1;
  for (int d = 1; d <= reader->rank && run < block; d++) {
    int at = reader->order[reader->rank - d], own = at - (reader->rank - t->rank);
    run *= (double)reader->dim[at];
    if (own >= 0 && t->dim[own] > 1) apart *= (double)reader->dim[at];
  }
  return run > apart ? run / apart : 1;
}

bool gain_of_table(const Arch *arch, const Type *t, const Type *reader, double reads, double work) {
  const double load = 4; // operations that cost as much as loading an element: an estimate
  double bytes = (double)type_count(t) * 4, read = reads * 4 / read_together(t, reader);
  bool stays = bytes < (double)arch->l2 / 2;
  double seconds = gain_compute(arch, reads * load) + gain_dram(arch, bytes) +
                   (stays ? gain_l2(arch, read) : gain_dram(arch, read));
  return seconds < gain_compute(arch, reads * work);
}

// As a contraction, a filter gradient has a tile per channel, of which it uses only a few rows and
// columns.
bool gain_taps(const Arch *arch, const Node *filter) {
  // kProduct, kKernel: in launches
  enum { kRows = 16, kColumns = 64, kWords = 8, kProduct = 15, kKernel = 3 };
  const double reached = 0.33; // fraction of the fp32 rate by such tiles, according to their model
  const Type *g = &filter->in[0]->type;
  double taps = (double)(filter->type.dim[2] * filter->type.dim[3]);
  double columns = kColumns * ceil(taps / kColumns), kernels = ceil(taps / kWords);
  double bytes = (double)(type_bytes(g) + type_bytes(&filter->in[1]->type));
  double product = kProduct * arch->launch_gap +
                   2. * (double)type_count(g) * kRows * columns / (2 * reached * arch->fp32);
  return kernels * (kKernel * arch->launch_gap + gain_dram(arch, bytes)) < product;
}
