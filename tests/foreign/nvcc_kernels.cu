// nvcc_kernels.cu: kernels over NVIDIA's device libraries, for nvcc -ptx: cooperative groups, CUB,
// pipelines and barriers of libcu++, virtual functions and recursion, SIMD intrinsics, clusters and
// bulk copies. check_nvcc.py runs them and knows what they give.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_merge_sort.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_scan.cuh>
#include <cuda/barrier>
#include <cuda/functional>
#include <cuda/latch>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

extern "C" __global__ void groups(int *out) { // 128 threads
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(warp);
  int t = threadIdx.x;
  __shared__ int s[128];
  out[t] = cg::reduce(eight, t, cg::plus<int>());
  out[128 + t] = cg::inclusive_scan(warp, t, cg::plus<int>());
  out[256 + t] = -1;
  if (t % 3 == 0) {
    auto some = cg::coalesced_threads();
    out[256 + t] = some.size() * 1000 + cg::reduce(some, t, cg::greater<int>());
  }
  auto alike = cg::labeled_partition(warp, t % 5);
  out[384 + t] = alike.size() * 1000 + alike.thread_rank();
  out[512 + t] = cg::binary_partition(warp, t % 7 < 3).shfl(t, 0);
  cg::memcpy_async(block, s, out, sizeof s);
  cg::wait(block);
  out[640 + t] = s[127 - t];
  out[768 + t] = warp.match_any(t / 6);
}

// Tiles of 64, two under way; then a barrier some of whose threads drop out.
extern "C" __global__ void pipelines(const int *in, int *out, int tiles) {
  __shared__ int stage[2][64], x[64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int t = threadIdx.x, sum = 0;
  for (int tile = 0, next = 0; tile < tiles; tile++) {
    for (; next < tiles && next < tile + 2; next++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, stage[next % 2], in + next * 64, cuda::aligned_size_t<16>(256),
                         pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += stage[tile % 2][63 - t] * (tile + 1);
    block.sync();
    pipe.consumer_release();
  }
  out[t] = sum;
  if (t == 0) init(&bar, 64);
  __syncthreads();
  x[t] = t;
  auto token = bar.arrive();
  bar.wait(std::move(token));
  out[64 + t] = x[(t + 7) % 64];
  if (t < 32)
    bar.arrive_and_drop();
  else
    bar.arrive_and_wait(), bar.arrive_and_wait();
}

extern "C" __global__ void cub_blocks(int *out) { // 128 threads
  using Reduce = cub::BlockReduce<int, 128>;
  using Scan = cub::BlockScan<int, 128>;
  using Sort = cub::BlockRadixSort<unsigned, 128, 4, int>;
  using Histogram = cub::BlockHistogram<unsigned char, 128, 4, 32>;
  using Merge = cub::BlockMergeSort<int, 128, 3>;
  using WarpScan = cub::WarpScan<int>;
  __shared__ union {
    Reduce::TempStorage reduce;
    Scan::TempStorage scan;
    Sort::TempStorage sort;
    Histogram::TempStorage histogram;
    Merge::TempStorage merge;
    WarpScan::TempStorage warp[4];
  } u;
  __shared__ unsigned counts[32];
  int t = threadIdx.x, before, all, merged[3], values[4], least;
  unsigned keys[4];
  unsigned char bytes[4];
  int most = Reduce(u.reduce).Reduce(t * 37 % 101, cuda::maximum<int>(), 100);
  __syncthreads();
  Scan(u.scan).ExclusiveSum(t % 11, before, all);
  __syncthreads();
  for (int i = 0; i < 4; i++) {
    values[i] = t * 4 + i;
    keys[i] = values[i] * 2654435761u >> 7;
    bytes[i] = values[i] * 7 % 32;
  }
  Sort(u.sort).SortDescending(keys, values);
  __syncthreads();
  Histogram(u.histogram).Histogram(bytes, counts);
  __syncthreads();
  for (int i = 0; i < 3; i++) merged[i] = (t * 3 + i) * 7919 % 1009;
  Merge(u.merge).Sort(merged, [](int a, int b) { return a < b; });
  __syncthreads();
  WarpScan(u.warp[t / 32]).InclusiveScan(t ^ 5, least, cuda::minimum<int>());
  if (t == 0) out[0] = most, out[1] = all;
  out[128 + t] = before;
  for (int i = 0; i < 4; i++) out[256 + t * 4 + i] = values[i];
  if (t < 32) out[768 + t] = counts[t];
  for (int i = 0; i < 3; i++) out[800 + t * 3 + i] = merged[i];
  out[1184 + t] = least;
}

struct Shape {
  __device__ virtual int area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  int side;
  __device__ Square(int side) : side(side) {}
  __device__ int area() const override { return side * side; }
};
struct Disc : Shape {
  int radius;
  __device__ Disc(int radius) : radius(radius) {}
  __device__ int area() const override { return 3 * radius * radius; }
};
__device__ __noinline__ int ackermann(int m, int n) {
  return m == 0 ? n + 1
         : n == 0 ? ackermann(m - 1, 1)
                  : ackermann(m - 1, ackermann(m, n - 1));
}
__device__ int plus(int a, int b) { return a + b; }
__device__ int times(int a, int b) { return a * b; }
__constant__ int (*operations[2])(int, int) = {plus, times};

extern "C" __global__ void calls(int *out) { // 64 threads
  int t = threadIdx.x, q = 0, *p = (int *)malloc(16 * (t + 1));
  Shape *shape = t & 1 ? (Shape *)new Square(t) : new Disc(t);
  out[t] = shape->area();
  delete shape;
  out[64 + t] = ackermann(2, t % 4);
  out[128 + t] = operations[t & 1](t, 3);
  for (int i = 0; i < 4 * (t + 1); i++) p[i] = i;
  for (int i = 0; i < 4 * (t + 1); i++) q += p[i];
  out[192 + t] = q;
  free(p);
}

extern "C" __global__ void simd(unsigned *out) { // 32 threads
  unsigned t = threadIdx.x, a = t * 2654435761u, b = ~t * 40503u + 77;
  out[t] = __vadd2(a, b);
  out[32 + t] = __vaddss4(a, b);
  out[64 + t] = __vabsdiffu4(a, b);
  out[96 + t] = __vmaxs2(a, b);
  out[128 + t] = __vsadu4(a, b);
  out[160 + t] = __vcmpgts2(a, b);
  out[192 + t] = __vavgu4(a, b);
  out[224 + t] = __vimax3_s16x2(a, b, a ^ b);
  out[256 + t] = __dp4a((int)a, (int)b, 5);
  out[288 + t] = __reduce_xor_sync(~0u, a);
}

#if __CUDA_ARCH__ >= 900
#include <cuda/ptx>
namespace ptx = cuda::ptx;

// 8 blocks of 64, in clusters of 4.
extern "C" __global__ void __cluster_dims__(4, 1, 1) clusters(int *out) {
  __shared__ int s[64], sum;
  auto cluster = cg::this_cluster();
  int t = threadIdx.x, rank = cluster.block_rank();
  s[t] = rank * 1000 + t;
  if (t == 0) sum = 0;
  cluster.sync();
  out[blockIdx.x * 64 + t] = cluster.map_shared_rank(s, (rank + 1) % 4)[63 - t];
  atomicAdd(cluster.map_shared_rank(&sum, 0), t);
  cluster.sync();
  if (t == 0 && rank == 0) out[512 + blockIdx.x / 4] = sum;
}

extern "C" __global__ void bulk(const int *in, int *out) { // 128 threads
  __shared__ alignas(128) int s[256];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  int t = threadIdx.x;
  if (t == 0) init(&bar, 128);
  __syncthreads();
  if (t == 0) cuda::memcpy_async(s, in, cuda::aligned_size_t<16>(1024), bar);
  bar.arrive_and_wait();
  for (int i = t; i < 256; i += 128) s[i] = s[i] * 2 + 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (t) return;
  ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, out, s, 1024);
  ptx::cp_async_bulk_commit_group();
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}
#endif
