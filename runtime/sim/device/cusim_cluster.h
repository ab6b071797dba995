// cusim_cluster.h: the shared memory of a cluster's blocks, for nngen's primitives
// (lib/prim_sim_hopper.h) and for PTX (cusim_ptx_warp.h).
#ifndef CUSIM_CLUSTER_H
#define CUSIM_CLUSTER_H

namespace cusim {

enum { kWindowBefore = 1024 }; // a block's window begins so far before its dynamic shared memory

CUSIM_FN size_t shared_window(unsigned rank) {
  return size_t(cusim_self->peers[rank]) - kWindowBefore;
}
CUSIM_FN unsigned check_rank(unsigned rank) {
  if (rank >= cusim_self->cluster_size) cusim_no_rank(rank);
  return rank;
}
// Rank of the block that owns the pointer; the cluster's size if not shared memory.
CUSIM_FN unsigned shared_rank(size_t p) {
  unsigned rank = 0;
  while (rank < cusim_self->cluster_size &&
         p - shared_window(rank) >= size_t(cusim_self->smem_bytes) + kWindowBefore)
    rank++;
  return rank;
}
// The same offset in that block's shared memory.
CUSIM_FN size_t map_shared(size_t p, unsigned rank) {
  unsigned from = shared_rank(p);
  if (from == cusim_self->cluster_size) cusim_trap();
  return p - shared_window(from) + shared_window(check_rank(rank));
}

} // namespace cusim

#endif
