// prim_hopper.cuh: primitives of sm_90 beyond prim.cuh's, which includes this: clusters of blocks,
// reductions by bulk copies, registers that warps give each other, launches that begin early,
// stmatrix, and products of warp groups of other types.
#ifndef NNGEN_PRIM_HOPPER_CUH
#define NNGEN_PRIM_HOPPER_CUH

// ---- clusters: blocks that run together, __cluster_dims__(x, y, z) or a launch's attribute ------

NN_DEV int nn_cluster_rank(); // of this block in its cluster
NN_DEV int nn_cluster_size();
// The barrier of all threads of the cluster: what each wrote before it arrives, all see behind the
// wait. A block's shared memory is there for the others from their first barrier to their last.
NN_DEV void nn_cluster_arrive();
NN_DEV void nn_cluster_wait();
NN_DEV void nn_cluster_sync(); // both
// The same place in another block's shared memory: for loads, stores and atomics.
template <class T> NN_DEV T *nn_cluster_map(T *smem, int rank);
// Arrives at that block's mbarrier; whoever waits there for another block's threads says so.
NN_DEV void nn_mbar_arrive_at(Mbar *bar, int rank);
NN_DEV void nn_mbar_wait_cluster(Mbar *bar, int parity);
// From this block's shared memory into that block's, which lands at its `bar`.
NN_DEV void nn_bulk_copy_to(void *smem, int rank, const void *from, int bytes, Mbar *bar);
// The copies of prim.cuh, into each block of the mask and at its own mbarrier, at the same places.
NN_DEV void nn_bulk_load_many(void *smem, const void *gmem, int bytes, Mbar *bar, unsigned blocks);
NN_DEV void nn_tensor_load_many(void *smem, const TensorMap *map, int x, int y, Mbar *bar,
                                unsigned blocks);

// ---- bulk copies that add or take the larger value: of groups, as nn_bulk_store -----------------

NN_DEV void nn_bulk_add(float *gmem, const float *smem, int bytes);
NN_DEV void nn_bulk_add(int *gmem, const int *smem, int bytes);
NN_DEV void nn_bulk_add(f16 *gmem, const f16 *smem, int bytes);
NN_DEV void nn_bulk_add(bf16 *gmem, const bf16 *smem, int bytes);
NN_DEV void nn_bulk_max(int *gmem, const int *smem, int bytes);

// ---- warps and launches -------------------------------------------------------------------------

// By all threads of a warp group: each has N registers from here on, of those its block was given.
template <int N> NN_DEV void nn_registers_give(); // fewer than before
template <int N> NN_DEV void nn_registers_take(); // more: waits until others have given them
// A launch with the attribute of programmatic serialisation may begin when all blocks of the one
// before have come here, or ended; it waits for that one's writes.
NN_DEV void nn_launch_dependents();
NN_DEV void nn_wait_before();
NN_DEV bool nn_elect(); // by all lanes of a warp: holds in one of them

// ---- stmatrix: the opposite of nn_ldmatrix, into the rows whose addresses the lanes give --------

NN_DEV void nn_stmatrix_x1(void *row, const unsigned r[1]);
NN_DEV void nn_stmatrix_x2(void *row, const unsigned r[2]);
NN_DEV void nn_stmatrix_x4(void *row, const unsigned r[4]);
NN_DEV void nn_stmatrix_x1_trans(void *row, const unsigned r[1]);
NN_DEV void nn_stmatrix_x2_trans(void *row, const unsigned r[2]);
NN_DEV void nn_stmatrix_x4_trans(void *row, const unsigned r[4]);

// ---- products of a warp group: as nn_wgmma_m64k16, both tiles K-major; N = 64, 128, 192, 256 ----

// Of floats the upper 19 bits count: they are cut to TF32, not rounded.
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
