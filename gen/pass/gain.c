// gain.c: what fusing saves and costs on the GPU at hand, in seconds: a kernel's launch, bytes
// through DRAM and L2, and instructions for what is computed again.
#include "pass.h"

enum { kSector = 32 }; // bytes of memory that a single element moves

static double dram_seconds(const Arch *arch, double bytes) {
  return bytes / arch->dram;
}
static double l2_seconds(const Arch *arch, double bytes) {
  return bytes / arch->l2_rate;
}
static double compute_seconds(const Arch *arch, double operations) { // not all are multiply-adds
  return operations / (arch->fp32 / 2);
}

static int work(const Group *k) { // operations of an element
  int flops = 0;
  for (int i = 0; i < k->nnodes; i++) flops += k->nodes[i]->op->flops;
  return flops;
}

static int count_inputs(const Group *k) {
  int count = 0;
  for (int i = 0; i < k->nnodes; i++)
    for (int j = 0; j < k->nodes[i]->nin; j++)
      count += k->nodes[i]->in[j]->group != k && type_count(&k->nodes[i]->in[j]->type) > 1;
  return count;
}

double gain_of_copy(const Arch *arch, const Type *t) {
  return arch->launch_gap + dram_seconds(arch, 2. * (double)type_bytes(t));
}

bool gain_scatters(const Arch *arch, const Type *t) {
  double bytes = (double)type_count(t) * kSector;
  return l2_seconds(arch, bytes) < gain_of_copy(arch, t);
}

bool gain_again(const Arch *arch, const Node *map) {
  double size = (double)dtype_size(map->type.dtype);
  return compute_seconds(arch, map->op->flops) < dram_seconds(arch, size);
}

bool gain_inside(const Arch *arch, const Group *k, double reads) {
  const Type *made = &k->nodes[k->nnodes - 1]->type;
  double count = (double)type_count(made), size = (double)dtype_size(made->dtype);
  double inputs = count_inputs(k), again = reads > count ? reads - count : 0;
  double inside = dram_seconds(arch, count * inputs * size) +
                  l2_seconds(arch, reads * inputs * size) + compute_seconds(arch, again * work(k));
  double apart = arch->launch_gap + dram_seconds(arch, count * (inputs + 1) * size) +
                 l2_seconds(arch, reads * size);
  return inside < apart;
}
