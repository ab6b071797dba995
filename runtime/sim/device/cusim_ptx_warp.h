// cusim_ptx_warp.h: lanes, barriers and host functions of PTX.
#ifndef CUSIM_PTX_WARP_H
#define CUSIM_PTX_WARP_H

CUSIM_FN u32 x_lane() { return cusim_self->linear % 32; }
CUSIM_FN u32 x_warps() {
  const unsigned *dim = cusim_self->block_dim;
  return (dim[0] * dim[1] * dim[2] + 31) / 32;
}
CUSIM_FN u32 x_smid() {
  const unsigned *block = cusim_self->block;
  return (block[0] + block[1] * 7 + block[2] * 13) % u32(cusim_multiprocessors());
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

// wgmma groups, numbered from 1; those up to product_done are complete.
CUSIM_FN void x_wgmma_wait(u32 groups) {
  CusimThread *self = cusim_self;
  u32 done = self->product_groups > groups ? self->product_groups - groups : 0;
  if (done <= self->product_done) return;
  self->product_done = done;
  if (CUSIM_TRACE) cusim_product_waited();
}
CUSIM_FN void x_wgmma_read(u32 group) {
  if (__builtin_expect(group > cusim_self->product_done, 0)) cusim_early_read();
}
CUSIM_FN void x_wgmma_fenced(u32 fences) {
  if (__builtin_expect(fences >= cusim_self->product_fences, 0)) cusim_no_fence();
}
CUSIM_FN u32 x_newest(u32 a, u32 b) { return a > b ? a : b; }

// The parity of the phase of mbarrier.arrive's state word.
CUSIM_FN s32 x_mbar_phase(u64 state) { return cusim_mbar_phase(state); }

// ---- clusters -----------------------------------------------------------------------------------
// An address of shared::cluster: a distance from a block's window; above it the rank plus 1, or 0
// for the own block.

enum { kRankShift = 24 };
using cusim::kWindowBefore;

CUSIM_FN u8 *x_window(u32 rank) { return (u8 *)cusim::shared_window(rank); }
CUSIM_FN u32 x_check_rank(u32 rank) { return cusim::check_rank(rank); }
CUSIM_FN u8 *x_cluster_address(u32 address) {
  u32 rank = address >> kRankShift;
  u8 *window = rank ? x_window(x_check_rank(rank - 1)) : cusim_self->smem - kWindowBefore;
  return window + (address & ((1u << kRankShift) - 1));
}
CUSIM_FN u32 x_in_rank(u32 address, u32 rank) {
  return (address & ((1u << kRankShift) - 1)) | (x_check_rank(rank) + 1) << kRankShift;
}
CUSIM_FN u32 x_rank_of(u64 p) { return cusim::shared_rank(p); }
template <class T> CUSIM_FN T x_mapa(T address, u32 rank) { return x_in_rank(u32(address), rank); }
CUSIM_FN u64 x_mapa_generic(u64 p, u32 rank) { return cusim::map_shared(p, rank); }
CUSIM_FN u32 x_getctarank(u32 address) {
  u32 rank = address >> kRankShift;
  return rank ? rank - 1 : cusim_self->cluster_rank;
}
CUSIM_FN u32 x_getctarank_generic(u64 p) { return x_rank_of(p); }
CUSIM_FN u32 x_to_cluster(u64 p) {
  u32 rank = x_rank_of(p);
  if (rank == cusim_self->cluster_size) return u32(p - (u64)(cusim_self->smem - kWindowBefore));
  return rank == cusim_self->cluster_rank ? u32(p - u64(x_window(rank)))
                                          : x_in_rank(u32(p - u64(x_window(rank))), rank);
}
CUSIM_FN u32 x_cluster_ctaid(int i) { return cusim_self->block[i] % cusim_self->cluster_dim[i]; }
CUSIM_FN u32 x_cluster_nctaid(int i) { return cusim_self->cluster_dim[i]; }
CUSIM_FN u32 x_cluster_ctarank(int) { return cusim_self->cluster_rank; }
CUSIM_FN u32 x_cluster_nctarank(int) { return cusim_self->cluster_size; }
CUSIM_FN u32 x_clusterid(int i) { return cusim_self->block[i] / cusim_self->cluster_dim[i]; }
CUSIM_FN u32 x_nclusterid(int i) { return cusim_self->grid_dim[i] / cusim_self->cluster_dim[i]; }
CUSIM_FN bool x_is_explicit_cluster(int) { return cusim_self->cluster_size > 1; }
CUSIM_FN bool x_isspacep_cluster(const u8 *p) { return x_rank_of(u64(p)) < cusim_self->cluster_size; }

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

// Lanes are grouped by their place of call. NOTE: Clang would merge equal calls in two branches;
// different code before and after them keeps them separate.
template <int kPlace> CUSIM_FN u32 x_activemask() {
  asm volatile("" : : "i"(kPlace));
  u32 lanes = __activemask();
  asm volatile("" : "+r"(lanes) : "i"(kPlace));
  return lanes;
}

#endif
