// prim_cuda_hopper.cuh: the bodies of prim_hopper.cuh on a GPU, for prim_cuda.cuh.
#ifndef NNGEN_PRIM_CUDA_HOPPER_CUH
#define NNGEN_PRIM_CUDA_HOPPER_CUH

// ---- clusters -----------------------------------------------------------------------------------

NN_DEV int nn_cluster_rank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
NN_DEV int nn_cluster_size() {
  int size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
NN_DEV void nn_cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
NN_DEV void nn_cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
NN_DEV void nn_cluster_sync() {
  nn_cluster_arrive();
  nn_cluster_wait();
}
template <class T> NN_DEV T *nn_cluster_map(T *smem, int rank) {
  T *there;
  asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(smem), "r"(rank));
  return there;
}
NN_DEV void nn_mbar_arrive_at(Mbar *bar, int rank) {
  asm volatile("{ .reg .b32 a; mapa.shared::cluster.u32 a, %0, %1; "
               "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a]; }" ::"r"(
                   nn_smem_address(bar)),
               "r"(rank)
               : "memory");
}
NN_DEV void nn_mbar_wait_cluster(Mbar *bar, int parity) {
  asm volatile("{ .reg .pred p; W: "
               "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; "
               "@!p bra W; }" ::"r"(nn_smem_address(bar)),
               "r"(parity)
               : "memory");
}
NN_DEV void nn_bulk_copy_to(void *smem, int rank, const void *from, int bytes, Mbar *bar) {
  asm volatile("{ .reg .b32 a, b; mapa.shared::cluster.u32 a, %0, %4; "
               "mapa.shared::cluster.u32 b, %3, %4; "
               "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
               "[a], [%1], %2, [b]; }" ::"r"(nn_smem_address(smem)),
               "r"(nn_smem_address(from)), "r"(bytes), "r"(nn_smem_address(bar)), "r"(rank)
               : "memory");
}
NN_DEV void nn_bulk_load_many(void *smem, const void *gmem, int bytes, Mbar *bar, unsigned blocks) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(nn_smem_address(smem)),
               "l"(gmem), "r"(bytes), "r"(nn_smem_address(bar)), "h"((unsigned short)blocks)
               : "memory");
}
NN_DEV void nn_tensor_load_many(void *smem, const TensorMap *map, int x, int y, Mbar *bar,
                                unsigned blocks) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(nn_smem_address(smem)),
               "l"(map), "r"(x), "r"(y), "r"(nn_smem_address(bar)), "h"((unsigned short)blocks)
               : "memory");
}

// ---- bulk copies that reduce --------------------------------------------------------------------

#define NN_BULK_REDUCE(name, T, how)                                                               \
  NN_DEV void name(T *gmem, const T *smem, int bytes) {                                            \
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group." how " [%0], [%1], %2;" ::   \
                     "l"(gmem),                                                                    \
                 "r"(nn_smem_address(smem)), "r"(bytes)                                            \
                 : "memory");                                                                      \
  }
NN_BULK_REDUCE(nn_bulk_add, float, "add.f32")
NN_BULK_REDUCE(nn_bulk_add, int, "add.s32")
NN_BULK_REDUCE(nn_bulk_add, f16, "add.noftz.f16")
NN_BULK_REDUCE(nn_bulk_add, bf16, "add.noftz.bf16")
NN_BULK_REDUCE(nn_bulk_max, int, "max.s32")

// ---- warps and launches -------------------------------------------------------------------------

template <int N> NN_DEV void nn_registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> NN_DEV void nn_registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
NN_DEV void nn_launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
NN_DEV void nn_wait_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
NN_DEV bool nn_elect() {
  int chosen;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.b32 %0, 1, 0, p; }"
               : "=r"(chosen)::"memory");
  return chosen != 0;
}

// ---- stmatrix -----------------------------------------------------------------------------------

#define NN_STMATRIX(tail, trans)                                                                   \
  NN_DEV void nn_stmatrix_x1##tail(void *row, const unsigned r[1]) {                               \
    asm volatile("stmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 [%0], {%1};" ::"r"(            \
                     nn_smem_address(row)),                                                        \
                 "r"(r[0])                                                                         \
                 : "memory");                                                                      \
  }                                                                                                \
  NN_DEV void nn_stmatrix_x2##tail(void *row, const unsigned r[2]) {                               \
    asm volatile("stmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 [%0], {%1, %2};" ::"r"(        \
                     nn_smem_address(row)),                                                        \
                 "r"(r[0]), "r"(r[1])                                                              \
                 : "memory");                                                                      \
  }                                                                                                \
  NN_DEV void nn_stmatrix_x4##tail(void *row, const unsigned r[4]) {                               \
    asm volatile("stmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 [%0], {%1, %2, %3, %4};" ::    \
                     "r"(nn_smem_address(row)),                                                    \
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])                                        \
                 : "memory");                                                                      \
  }
NN_STMATRIX(, "")
NN_STMATRIX(_trans, ".trans")

// ---- products of a warp group -------------------------------------------------------------------

#define NN_WGMMA_ANY(form, names, registers, a_name, b_name, flag, tail)                           \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " flag ", 0; wgmma.mma_async.sync.aligned." form    \
               " {" names "}, " a_name ", " b_name ", p" tail "; }"                                \
               : registers                                                                         \
               : "l"(a), "l"(b), "r"(int(accumulate)))
// wgmma of one type; C: its asm constraint letter, then the operands after the predicate.
#define NN_WGMMA(name, C, letter, types, tail, ...)                                                \
  template <int N>                                                                                 \
  NN_DEV void name(C(&d)[N / 2], unsigned long long a, unsigned long long b,                       \
                   bool accumulate __VA_ARGS__) {                                                  \
    static_assert(N == 64 || N == 128 || N == 192 || N == 256, "m64n64 to m64n256");               \
    if constexpr (N == 64)                                                                         \
      NN_WGMMA_ANY("m64n64" types, NN_NAMES_32, NN_D32(letter), "%32", "%33", "%34", tail);        \
    else if constexpr (N == 128)                                                                   \
      NN_WGMMA_ANY("m64n128" types, NN_NAMES_64, NN_D64(letter), "%64", "%65", "%66", tail);       \
    else if constexpr (N == 192)                                                                   \
      NN_WGMMA_ANY("m64n192" types, NN_NAMES_96, NN_D96(letter), "%96", "%97", "%98", tail);       \
    else                                                                                           \
      NN_WGMMA_ANY("m64n256" types, NN_NAMES_128, NN_D128(letter), "%128", "%129", "%130", tail);  \
  }
NN_WGMMA(nn_wgmma_m64k8_tf32, float, "f", "k8.f32.tf32.tf32", ", 1, 1")
NN_WGMMA(nn_wgmma_m64k32, float, "f", "k32.f32.e4m3.e4m3", ", 1, 1", , e4m3)
NN_WGMMA(nn_wgmma_m64k32, float, "f", "k32.f32.e5m2.e5m2", ", 1, 1", , e5m2)
NN_WGMMA(nn_wgmma_m64k32, int, "r", "k32.s32.s8.s8", "", , signed char)
NN_WGMMA(nn_wgmma_m64k32, int, "r", "k32.s32.u8.u8", "", , unsigned char)
NN_DEV void nn_wgmma_hold(int &x) { asm volatile("" : "+r"(x)::"memory"); }

#endif
