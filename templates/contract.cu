$(k.header)
#include "lib/prim.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = $(k.m), kN = $(k.n), kK = $(k.k);
constexpr int kTileM = $(k.tile_m), kTileN = $(k.tile_n), kTileK = $(k.tile_k);
constexpr int kThreadM = $(k.thread_m), kThreadN = $(k.thread_n);  // outputs per thread
constexpr int kThreads = $(k.threads);
constexpr int kBlocksPerSm = $(k.blocks);
constexpr int kLanes = $(k.lanes);
constexpr int kStep = kThreads / kTileK;  // rows loaded at once
constexpr int kRowsA = kTileM / kStep, kRowsB = kTileN / kStep;
constexpr int kThreadsN = kTileN / kThreadN;  // threads along n
static_assert(kTileM * kTileN == kThreads * kThreadM * kThreadN, "every output has one thread");
static_assert(kThreadN % 2 == 0 && kLanes <= 2, "a thread's outputs are pairs");

// A thread's outputs along n are pairs, 2 * kThreadsN apart: half a warp then reads 32 neighbours of b.
__device__ inline int thread_column(int j) {
  return threadIdx.x % kThreadsN * 2 + j / 2 * (2 * kThreadsN) + j % 2;
}

// A warp stores 16 values of k of two rows at once: two more floats a row put them in 32 banks.
struct Smem {
  float a[kTileK][kTileM + 2];
  float b[kTileK][kTileN + 2];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) $(k.name)(
$(k.params)) {
  __shared__ __align__(16) Smem smem;
  const int tid = threadIdx.x;
  const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;
//@ if k.batch > 1 then
  const int batch = blockIdx.z;
//@ end
//@ if k.decode_batch then
$(k.decode_batch)
//@ end
  const int load_k = tid % kTileK, load_row = tid / kTileK;
  float acc[kThreadM][kThreadN] = {};

  for (int k0 = 0; k0 < kK; k0 += kTileK) {
    const int k = k0 + load_k;
//@ if k.conv then
    const int c = k % $(k.C), tap = k / $(k.C);
    const int r = tap / $(k.S), s = tap % $(k.S);
//@ if k.grouped then
    const int group_c = batch * $(k.C) + c;
//@ end
//@ end
#pragma unroll 4
    for (int i = 0; i < kRowsA; ++i) {
      const int m = m0 + load_row + i * kStep;
//@ if k.conv then
      const int image = m / $(k.P * k.Q), pixel = m % $(k.P * k.Q);
      const int y = pixel / $(k.Q) * $(k.stride_h) - $(k.pad_h) + r * $(k.dilation_h);
      const int x = pixel % $(k.Q) * $(k.stride_w) - $(k.pad_w) + s * $(k.dilation_w);
      const bool a_inside = m < kM && k < kK && unsigned(y) < $(k.H)u && unsigned(x) < $(k.W)u;
//@ else
      const bool a_inside = m < kM && k < kK;
//@ end
$(k.a_body)
      smem.a[load_k][load_row + i * kStep] = a_inside ? $(k.a_value) : 0.f;
    }
#pragma unroll 4
    for (int i = 0; i < kRowsB; ++i) {
      const int n = n0 + load_row + i * kStep;
      const bool b_inside = n < kN && k < kK;
//@ if k.grouped then
      const int group_n = batch * kN + n;
//@ end
$(k.b_body)
      smem.b[load_k][load_row + i * kStep] = b_inside ? $(k.b_value) : 0.f;
    }
    nn_sync();
    const int thread_m = tid / kThreadsN * kThreadM;
#pragma unroll 8
    for (int kk = 0; kk < kTileK; ++kk) {
      float a[kThreadM], b[kThreadN];
      for (int i = 0; i < kThreadM; ++i) a[i] = smem.a[kk][thread_m + i];
      for (int j = 0; j < kThreadN; j += 2) {
        const Vec<float, 2> pair = nn_load<2>(&smem.b[kk][thread_column(j)]);
        b[j] = pair[0], b[j + 1] = pair[1];
      }
      for (int i = 0; i < kThreadM; ++i)
        for (int j = 0; j < kThreadN; ++j) acc[i][j] = nn_fma(a[i], b[j], acc[i][j]);
    }
    nn_sync();
  }

#pragma unroll
  for (int i = 0; i < kThreadM; ++i) {
    const int m = m0 + tid / kThreadsN * kThreadM + i;
    if (m >= kM) break;
//@ if k.conv then
    const int image = m / $(k.P * k.Q), p = m / $(k.Q) % $(k.P), q = m % $(k.Q);
//@ end
#pragma unroll
    for (int v = 0; v < kThreadN; v += kLanes) {
      const int n = n0 + thread_column(v);
      if (n >= kN) break;
//@ if k.grouped then
      const int group_n = batch * kN + n;
//@ end
$(k.loads)
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
$(k.body)
      }
$(k.stores)
    }
  }
}
