// prim_sim_matrix.h: ldmatrix and matrix products of prim.cuh on libcusim; included by prim_sim.h.
// Their semantics are defined in libcusim (cusim_matrix.h).
#ifndef NNGEN_PRIM_SIM_MATRIX_H
#define NNGEN_PRIM_SIM_MATRIX_H

#define CUSIM_LDMATRIX(count)                                                                      \
  NN_DEV void nn_ldmatrix_x##count(unsigned r[count], const void *row) {                           \
    cusim::ldmatrix<count, false>(r, row);                                                         \
  }                                                                                                \
  NN_DEV void nn_ldmatrix_x##count##_trans(unsigned r[count], const void *row) {                   \
    cusim::ldmatrix<count, true>(r, row);                                                          \
  }
CUSIM_LDMATRIX(1)
CUSIM_LDMATRIX(2)
CUSIM_LDMATRIX(4)
#undef CUSIM_LDMATRIX

NN_DEV void nn_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], f16) {
  cusim::mma<cusim::F16, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k16(float d[4], const unsigned a[4], const unsigned b[2], bf16) {
  cusim::mma<cusim::Bf16, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k8_tf32(float d[4], const unsigned a[4], const unsigned b[2]) {
  cusim::mma<cusim::Tf32, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k32(int d[4], const unsigned a[4], const unsigned b[2], signed char) {
  cusim::mma<cusim::S8, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k32(int d[4], const unsigned a[4], const unsigned b[2], unsigned char) {
  cusim::mma<cusim::U8, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k32(float d[4], const unsigned a[4], const unsigned b[2], e4m3) {
  cusim::mma<cusim::E4m3, 1, 1>(d, a, b);
}
NN_DEV void nn_mma_m16n8k32(float d[4], const unsigned a[4], const unsigned b[2], e5m2) {
  cusim::mma<cusim::E5m2, 1, 1>(d, a, b);
}

template <class T> struct CusimFragment;
template <> struct CusimFragment<f16> { using type = cusim::F16; };
template <> struct CusimFragment<bf16> { using type = cusim::Bf16; };

template <int M, int N, class T>
NN_DEV void nn_mma_tile(float (&d)[M][N][4], const unsigned (&a)[M][4], const unsigned (&b)[N][2],
                        T) {
  cusim::mma<typename CusimFragment<T>::type, M, N>(&d[0][0][0], &a[0][0], &b[0][0]);
}
template <int M, int N>
NN_DEV void nn_mma_tile_tf32(float (&d)[M][N][4], const unsigned (&a)[M][4],
                             const unsigned (&b)[N][2]) {
  cusim::mma<cusim::Tf32, M, N>(&d[0][0][0], &a[0][0], &b[0][0]);
}

// ---- products of a warp group ------------------------------------------------------------------

// A descriptor's addresses count from 1024 bytes before the dynamic shared memory, as in PTX.
NN_DEV unsigned char *cusim_shared_base() { return cusim_self->smem - 1024; }
NN_DEV unsigned long long nn_wgmma_tile(const void *smem, int stride, int leading, NnSwizzle mode) {
  size_t start = size_t(static_cast<const unsigned char *>(smem) - cusim_shared_base());
  return (start & 0x3ffff) >> 4 | (unsigned long long)(leading >> 4) << 16 |
         (unsigned long long)(stride >> 4) << 32 | (unsigned long long)mode << 62;
}
NN_DEV void nn_wgmma_fence() {}
NN_DEV void nn_wgmma_commit() { cusim_product_commit(); }
NN_DEV void nn_wgmma_hold(float &) {}
NN_DEV void nn_wgmma_hold(unsigned &) {}
NN_DEV void nn_wgmma_keep(unsigned) {}
template <int N> NN_DEV void nn_wgmma_wait() { cusim_product_wait(N); }
template <int N, bool TRANS_A, bool TRANS_B, class T>
NN_DEV void nn_wgmma_m64k16(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                            bool accumulate, T) {
  using F = typename CusimFragment<T>::type;
  cusim::wgmma_async<F, F, N>(reinterpret_cast<unsigned *>(d), a, b, cusim_shared_base(),
                              accumulate, TRANS_A, TRANS_B);
}
template <int N, bool TRANS_B, class T>
NN_DEV void nn_wgmma_m64k16(float (&d)[N / 2], const unsigned (&a)[4], unsigned long long b,
                            bool accumulate, T) {
  using F = typename CusimFragment<T>::type;
  cusim::wgmma_async<F, F, N>(reinterpret_cast<unsigned *>(d), a, b, cusim_shared_base(),
                              accumulate, TRANS_B);
}

// NOTE: the columns are one vector because -O2 does not vectorize the loop over them.
template <int M, int N>
NN_DEV void nn_fma_tile(float (&d)[M][N], const Vec<float, 4> (&a)[M],
                        const Vec<float, 4> (&b)[N]) {
  constexpr int kBytes = N * int(sizeof(float));
  typedef float Wide __attribute__((vector_size(kBytes), may_alias));
  float columns[4][N];
  Wide wide[4], sum;
  for (int e = 0; e < 4; e++)
    for (int n = 0; n < N; n++) columns[e][n] = b[n][e];
  __builtin_memcpy(wide, columns, sizeof wide);
  for (int m = 0; m < M; m++) {
    __builtin_memcpy(&sum, d[m], sizeof sum);
    for (int e = 0; e < 4; e++) sum += a[m][e] * wide[e];
    __builtin_memcpy(d[m], &sum, sizeof sum);
  }
}
#endif
