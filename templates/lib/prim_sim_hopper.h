// prim_sim_hopper.h: the bodies of prim_hopper.cuh on libcusim; included by prim_sim.h.
#ifndef NNGEN_PRIM_SIM_HOPPER_H
#define NNGEN_PRIM_SIM_HOPPER_H

// ---- clusters -----------------------------------------------------------------------------------

NN_DEV int nn_cluster_rank() { return int(cusim_self->cluster_rank); }
NN_DEV int nn_cluster_size() { return int(cusim_self->cluster_size); }
NN_DEV void nn_cluster_arrive() { cusim_cluster_arrive(); }
NN_DEV void nn_cluster_wait() { cusim_cluster_wait(); }
NN_DEV void nn_cluster_sync() {
  cusim_cluster_arrive();
  cusim_cluster_wait();
}
template <class T> NN_DEV T *nn_cluster_map(T *smem, int rank) {
  return reinterpret_cast<T *>(cusim::map_shared(size_t(smem), unsigned(rank)));
}
NN_DEV void nn_mbar_arrive_at(Mbar *bar, int rank) {
  cusim_mbar_arrive(&nn_cluster_map(bar, rank)->state, 0);
}
NN_DEV void nn_mbar_wait_cluster(Mbar *bar, int parity) { cusim_mbar_wait(&bar->state, parity); }
NN_DEV void nn_bulk_copy_to(void *smem, int rank, const void *from, int bytes, Mbar *bar) {
  cusim_bulk_load(nn_cluster_map(static_cast<char *>(smem), rank), from, unsigned(bytes),
                  &nn_cluster_map(bar, rank)->state);
}
NN_DEV void nn_bulk_load_many(void *smem, const void *gmem, int bytes, Mbar *bar, unsigned blocks) {
  for (int r = 0; blocks >> r; r++)
    if (blocks >> r & 1)
      cusim_bulk_load(nn_cluster_map(static_cast<char *>(smem), r), gmem, unsigned(bytes),
                      &nn_cluster_map(bar, r)->state);
}
NN_DEV void nn_tensor_load_many(void *smem, const TensorMap *map, int x, int y, Mbar *bar,
                                unsigned blocks) {
  const int at[] = {x, y};
  for (int r = 0; blocks >> r; r++)
    if (blocks >> r & 1)
      cusim_tensor_load(nn_cluster_map(static_cast<char *>(smem), r), map, at, 2,
                        &nn_cluster_map(bar, r)->state, 0);
}

// ---- bulk copies that reduce --------------------------------------------------------------------

enum CusimBulk { kBulkAdd = 1, kBulkMax = 3, kBulkInt = 3, kBulkF16 = 6, kBulkF32, kBulkBf16 = 10 };
NN_DEV void nn_bulk_add(float *gmem, const float *smem, int bytes) {
  cusim_bulk_store(gmem, smem, unsigned(bytes), kBulkAdd, kBulkF32);
}
NN_DEV void nn_bulk_add(int *gmem, const int *smem, int bytes) {
  cusim_bulk_store(gmem, smem, unsigned(bytes), kBulkAdd, kBulkInt);
}
NN_DEV void nn_bulk_add(f16 *gmem, const f16 *smem, int bytes) {
  cusim_bulk_store(gmem, smem, unsigned(bytes), kBulkAdd, kBulkF16);
}
NN_DEV void nn_bulk_add(bf16 *gmem, const bf16 *smem, int bytes) {
  cusim_bulk_store(gmem, smem, unsigned(bytes), kBulkAdd, kBulkBf16);
}
NN_DEV void nn_bulk_max(int *gmem, const int *smem, int bytes) {
  cusim_bulk_store(gmem, smem, unsigned(bytes), kBulkMax, kBulkInt);
}

// ---- warps and launches -------------------------------------------------------------------------

template <int N> NN_DEV void nn_registers_give() { cusim_set_registers(N); }
template <int N> NN_DEV void nn_registers_take() { cusim_set_registers(N); }
NN_DEV void nn_launch_dependents() { cusim_launch_dependents(); }
NN_DEV void nn_wait_before() { cusim_grid_wait(); }
NN_DEV bool nn_elect() {
  cusim_meet(kFullMask, 0, 0);
  return nn_lane() == 0;
}

// ---- stmatrix -----------------------------------------------------------------------------------

#define CUSIM_STMATRIX(count)                                                                      \
  NN_DEV void nn_stmatrix_x##count(void *row, const unsigned r[count]) {                           \
    cusim::stmatrix<count, false>(r, row);                                                         \
  }                                                                                                \
  NN_DEV void nn_stmatrix_x##count##_trans(void *row, const unsigned r[count]) {                   \
    cusim::stmatrix<count, true>(r, row);                                                          \
  }
CUSIM_STMATRIX(1)
CUSIM_STMATRIX(2)
CUSIM_STMATRIX(4)
#undef CUSIM_STMATRIX

// ---- products of a warp group -------------------------------------------------------------------

#define CUSIM_WGMMA(name, C, Form, ...)                                                            \
  template <int N>                                                                                 \
  NN_DEV void name(C(&d)[N / 2], unsigned long long a, unsigned long long b,                       \
                   bool accumulate __VA_ARGS__) {                                                  \
    cusim::wgmma_async<Form, Form, N>(reinterpret_cast<unsigned *>(d), a, b, cusim_shared_base(),  \
                                      accumulate, 0, 0);                                           \
  }
CUSIM_WGMMA(nn_wgmma_m64k8_tf32, float, cusim::Tf32)
CUSIM_WGMMA(nn_wgmma_m64k32, float, cusim::E4m3, , e4m3)
CUSIM_WGMMA(nn_wgmma_m64k32, float, cusim::E5m2, , e5m2)
CUSIM_WGMMA(nn_wgmma_m64k32, int, cusim::S8, , signed char)
CUSIM_WGMMA(nn_wgmma_m64k32, int, cusim::U8, , unsigned char)
#undef CUSIM_WGMMA
NN_DEV void nn_wgmma_hold(int &) {}

#endif
