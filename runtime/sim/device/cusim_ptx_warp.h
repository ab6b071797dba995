// cusim_ptx_warp.h: lanes, barriers and host functions of PTX.
#ifndef CUSIM_PTX_WARP_H
#define CUSIM_PTX_WARP_H

CUSIM_FN u32 x_lane() { return cusim_self->linear % 32; }
CUSIM_FN u32 x_warps() {
  const unsigned *dim = cusim_self->block_dim;
  return (dim[0] * dim[1] * dim[2] + 31) / 32;
}
CUSIM_FN u32 x_smid() {
  return (cusim_self->block[0] + cusim_self->block[1] * 7 + cusim_self->block[2] * 13) % 132;
}
CUSIM_FN u32 x_envreg(int n) { // 1, 2: the address of the grid's workspace, its upper half first
  u64 at = u64(cusim_grid_workspace());
  return n == 1 ? u32(at >> 32) : n == 2 ? u32(at) : 0;
}

struct x_shuffled {
  u32 value;
  bool inside; // the source lane was in range
};

// c: the clamp in bits 0 to 4, the segment's mask in 8 to 12.
CUSIM_FN x_shuffled x_shfl(u32 mask, u32 a, int from, bool inside) {
  int source = inside ? from : int(x_lane());
  return {cusim::shuffle(mask, a, source), inside};
}
CUSIM_FN x_shuffled x_shfl_up(u32 a, u32 b, u32 c, u32 mask) {
  int lane = int(x_lane()), segment = int(c >> 8 & 31), least = (lane & segment) | (int(c & 31) & ~segment);
  int from = lane - int(b & 31);
  return x_shfl(mask, a, from, from >= least);
}
CUSIM_FN x_shuffled x_shfl_down(u32 a, u32 b, u32 c, u32 mask) {
  int lane = int(x_lane()), segment = int(c >> 8 & 31), most = (lane & segment) | (int(c & 31) & ~segment);
  int from = lane + int(b & 31);
  return x_shfl(mask, a, from, from <= most);
}
CUSIM_FN x_shuffled x_shfl_bfly(u32 a, u32 b, u32 c, u32 mask) {
  int lane = int(x_lane()), segment = int(c >> 8 & 31), most = (lane & segment) | (int(c & 31) & ~segment);
  int from = lane ^ int(b & 31);
  return x_shfl(mask, a, from, from <= most);
}
CUSIM_FN x_shuffled x_shfl_idx(u32 a, u32 b, u32 c, u32 mask) {
  int lane = int(x_lane()), segment = int(c >> 8 & 31), most = (lane & segment) | (int(c & 31) & ~segment);
  int from = (lane & segment) | (int(b & 31) & ~segment);
  return x_shfl(mask, a, from, from <= most);
}

CUSIM_FN u32 x_bar_red_popc(s32 id, s32 threads, bool p) { return u32(cusim_barrier_reduce(id, threads, p)); }
CUSIM_FN bool x_bar_red_or(s32 id, s32 threads, bool p) { return cusim_barrier_reduce(id, threads, p) != 0; }
CUSIM_FN bool x_bar_red_and(s32 id, s32 threads, bool p) { return cusim_barrier_reduce(id, threads, !p) == 0; }

// The parity of the phase that a state word of mbarrier.arrive is in.
CUSIM_FN s32 x_mbar_phase(u64 state) { return cusim_mbar_phase(state); }

// ---- clusters: here of one block ----------------------------------------------------------------

CUSIM_FN u8 *x_cluster_address(u32 address) { return cusim_self->smem - 1024 + (address & 0xffffff); }
template <class T> CUSIM_FN T x_mapa(T address, u32 rank) {
  if (rank) cusim_trap();
  return address;
}
CUSIM_FN u32 x_to_cluster(u64 p) { return u32(p - (u64)(cusim_self->smem - 1024)); }
CUSIM_FN u32 x_cluster_ctaid(int) { return 0; }
CUSIM_FN u32 x_cluster_nctaid(int) { return 1; }
CUSIM_FN u32 x_cluster_ctarank(int) { return 0; }
CUSIM_FN u32 x_cluster_nctarank(int) { return 1; }
CUSIM_FN u32 x_clusterid(int i) { return cusim_self->block[i]; }
CUSIM_FN u32 x_nclusterid(int i) { return cusim_self->grid_dim[i]; }
CUSIM_FN bool x_is_explicit_cluster(int) { return false; }

// ---- functions that the driver defines ----------------------------------------------------------
// A[0] is where the result goes, the parameters follow.

CUSIM_FN void ptx_vprintf(u8 *const *A) {
  const char *format;
  const u8 *values;
  __builtin_memcpy(&format, A[1], sizeof format);
  __builtin_memcpy(&values, A[2], sizeof values);
  s32 count = cusim_vprintf(format, values);
  __builtin_memcpy(A[0], &count, sizeof count);
}
CUSIM_FN void ptx___assertfail(u8 *const *A) {
  const char *condition, *file, *function;
  u32 line;
  __builtin_memcpy(&condition, A[0], sizeof condition);
  __builtin_memcpy(&file, A[1], sizeof file);
  __builtin_memcpy(&line, A[2], sizeof line);
  __builtin_memcpy(&function, A[3], sizeof function);
  cusim_assert_fail(condition, file, int(line), function);
}
CUSIM_FN void ptx_malloc(u8 *const *A) {
  u64 bytes;
  __builtin_memcpy(&bytes, A[1], sizeof bytes);
  void *p = cusim_malloc(bytes);
  __builtin_memcpy(A[0], &p, sizeof p);
}
CUSIM_FN void ptx_free(u8 *const *A) {
  void *p;
  __builtin_memcpy(&p, A[0], sizeof p);
  cusim_free(p);
}

#endif
