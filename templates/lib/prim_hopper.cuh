// prim_hopper.cuh: more primitives of sm_90, included by prim.cuh: clusters, reducing bulk copies,
// setmaxnreg, programmatic dependent launch, stmatrix, and wgmma of other types.
#ifndef NNGEN_PRIM_HOPPER_CUH
#define NNGEN_PRIM_HOPPER_CUH

// ---- clusters: set by __cluster_dims__(x, y, z) or a launch attribute ---------------------------

NN_DEV int nn_cluster_rank(); // of this block in its cluster
NN_DEV int nn_cluster_size();
// Barrier of all threads of the cluster: writes before the arrival are visible after the wait. A
// block's shared memory is accessible to the others between the first such barrier and the last.
NN_DEV void nn_cluster_arrive();
NN_DEV void nn_cluster_wait();
NN_DEV void nn_cluster_sync(); // both
// The address of `smem` in another block's shared memory, for loads, stores and atomics.
template <class T> NN_DEV T *nn_cluster_map(T *smem, int rank);
// Arrives at that block's mbarrier; a wait for arrivals from other blocks is nn_mbar_wait_cluster.
NN_DEV void nn_mbar_arrive_at(Mbar *bar, int rank);
NN_DEV void nn_mbar_wait_cluster(Mbar *bar, int parity);
// Copies from this block's shared memory to that block's; completes at that block's `bar`.
NN_DEV void nn_bulk_copy_to(void *smem, int rank, const void *from, int bytes, Mbar *bar);
// Multicast versions of prim.cuh's copies: to the same addresses in each block of the mask.
NN_DEV void nn_bulk_load_many(void *smem, const void *gmem, int bytes, Mbar *bar, unsigned blocks);
NN_DEV void nn_tensor_load_many(void *smem, const TensorMap *map, int x, int y, Mbar *bar,
                                unsigned blocks);

// ---- bulk copies that add or take the maximum; grouped as nn_bulk_store -------------------------

NN_DEV void nn_bulk_add(float *gmem, const float *smem, int bytes);
NN_DEV void nn_bulk_add(int *gmem, const int *smem, int bytes);
NN_DEV void nn_bulk_add(f16 *gmem, const f16 *smem, int bytes);
NN_DEV void nn_bulk_add(bf16 *gmem, const bf16 *smem, int bytes);
NN_DEV void nn_bulk_max(int *gmem, const int *smem, int bytes);

// ---- warps and launches -------------------------------------------------------------------------

// setmaxnreg, by all threads of a warp group: each has N registers from here on.
template <int N> NN_DEV void nn_registers_give(); // releases registers
template <int N> NN_DEV void nn_registers_take(); // requests more: waits until they are released
// Programmatic dependent launch: the next launch may begin when all blocks of this one have called
// nn_launch_dependents or ended; nn_wait_before waits for the writes of the launch before.
NN_DEV void nn_launch_dependents();
NN_DEV void nn_wait_before();
NN_DEV bool nn_elect(); // by all lanes of a warp: holds in one of them

// ---- stmatrix: the inverse of nn_ldmatrix; lanes pass the addresses of rows ---------------------

NN_DEV void nn_stmatrix_x1(void *row, const unsigned r[1]);
NN_DEV void nn_stmatrix_x2(void *row, const unsigned r[2]);
NN_DEV void nn_stmatrix_x4(void *row, const unsigned r[4]);
NN_DEV void nn_stmatrix_x1_trans(void *row, const unsigned r[1]);
NN_DEV void nn_stmatrix_x2_trans(void *row, const unsigned r[2]);
NN_DEV void nn_stmatrix_x4_trans(void *row, const unsigned r[4]);

// ---- wgmma of other types: as nn_wgmma_m64k16, both tiles K-major; N = 64, 128, 192, 256 --------

// Floats are truncated to TF32 (the upper 19 bits), not rounded.
template <int N>
NN_DEV void nn_wgmma_m64k8_tf32(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                                bool accumulate);
template <int N> // T: e4m3, e5m2
NN_DEV void nn_wgmma_m64k32(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                            bool accumulate, e4m3);
template <int N>
NN_DEV void nn_wgmma_m64k32(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                            bool accumulate, e5m2);
template <int N>
NN_DEV void nn_wgmma_m64k32(int (&d)[N / 2], unsigned long long a, unsigned long long b,
                            bool accumulate, signed char);
template <int N>
NN_DEV void nn_wgmma_m64k32(int (&d)[N / 2], unsigned long long a, unsigned long long b,
                            bool accumulate, unsigned char);
NN_DEV void nn_wgmma_hold(int &x);

#endif
