// wgmma.cuh: a warp's part of a contraction that its warp group computes, on sm_90a. Operands are
// read from shared memory, in the layout of wgmma's 128-byte swizzle (lib/tile.cuh).
#pragma once
#include "lib/tile.cuh"

// kM x kN outputs of one warp, 4 kM x kN of its group, as T (float: TF32, whose operands are
// K-major only). One instruction multiplies 64 rows of a by kN rows of b; each warp holds 16 of
// these rows. The MMAs of a block of k still run while the next block is loaded.
template <class T, int kM, int kN, bool kAcrossA = false, bool kAcrossB = false> struct WgmmaTile {
  static constexpr int kStepBytes = 32;  // bytes of k per instruction
  static constexpr int kInFlight = 1;    // blocks of k whose MMAs may still run
  static constexpr int kGroup = 4 * kM;  // rows of the warp group
  static constexpr int kRows = kM / 16;  // instructions along m
  static_assert(kM % 16 == 0, "16 rows a warp");
  static_assert(sizeof(T) == 2 || !(kAcrossA || kAcrossB), "of 16 bits alone a tile is transposed");
  float acc[kRows][kN / 2];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int e = 0; e < kN / 2; ++e) acc[i][e] = 0.f;
  }

  // Makes this thread's writes to shared memory, also by cp.async, visible to wgmma after a
  // barrier.
  __device__ static void publish() { nn_fence_proxy_async(); }

  // The descriptor of an operand's tile from `row` on at a step of k. Along k: rows of 128 bytes in
  // groups of 8; across k: a block of 64 x 128 bytes for every 64 rows, with a row per k.
  template <bool kAcross>
  __device__ static unsigned long long tile(const char *operand, int row, int step) {
    constexpr int kGroupBytes = 8 * kRowBytes, kBlockBytes = 64 * kRowBytes;
    if constexpr (kAcross)
      return nn_wgmma_tile(operand + row / 64 * kBlockBytes + step * 2 * kGroupBytes, kGroupBytes,
                           kBlockBytes, kSwizzle128);
    else
      return nn_wgmma_tile(operand + row * kRowBytes + step * kStepBytes, kGroupBytes, 0,
                           kSwizzle128);
  }

  // acc += a b^T over kSteps steps of k. `a` and `b` are operand tiles; the group's rows of a
  // include the warp's row_a, the rows of b begin at row_b.
  template <int kSteps>
  __device__ void multiply(const char *a, int row_a, const char *b, int row_b) {
    const int first = row_a / kGroup * kGroup;
    hold();
    nn_wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSteps; ++step)
#pragma unroll
      for (int i = 0; i < kRows; ++i)
        product(acc[i], tile<kAcrossA>(a, first + i * 64, step), tile<kAcrossB>(b, row_b, step),
                T());
    nn_wgmma_commit();
    nn_wgmma_wait<kInFlight>();
    hold();
  }

  template <class Type>
  __device__ static void product(float (&d)[kN / 2], unsigned long long a, unsigned long long b,
                                 Type type) {
    nn_wgmma_m64k16<kN, kAcrossA, kAcrossB>(d, a, b, true, type);
  }
  // NOTE: tensor cores truncate operands to TF32. They are read from shared memory, so they cannot
  // be rounded here as in mma.cuh; the kernel that stored them rounds them (gen/sched/sched.c).
  // With neither operand rounded, a term is too small by 7.0e-4 on average, with a deviation of
  // 3.1e-4.
  __device__ static void product(float (&d)[kN / 2], unsigned long long a, unsigned long long b,
                                 float) {
    nn_wgmma_m64k8_tf32<kN>(d, a, b, true);
  }

  __device__ void finish() {
    nn_wgmma_wait<0>();
    hold();
  }

  // Keeps the compiler from touching accumulators of MMAs in flight.
  __device__ void hold() {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int e = 0; e < kN / 2; ++e) nn_wgmma_hold(acc[i][e]);
  }

  // A lane has kOwnVectors vectors of kOwnLanes neighbouring outputs in each of kOwnRows rows of
  // the tile, from (own_row(thread, row, i), column + own_column(thread, v)) on. If b is stored
  // along k, the order of its rows, lane_row(), ensures that. If across k, two lanes exchange
  // halves of two groups of 8 columns.
  static constexpr int kOwnLanes = kAcrossB ? 4 : 8;
  static constexpr int kOwnRows = 2 * kRows, kOwnVectors = kN / 4 / kOwnLanes;
  __device__ static int own_row(int thread, int row, int i) {
    const int lane = thread % kWarp, warp = thread / kWarp % 4;
    return row / kGroup * kGroup + i / 2 * 64 + warp * 16 + i % 2 * 8 + lane / 4;
  }
  __device__ static int own_column(int thread, int v) {
    return kAcrossB ? v * 16 + thread % 2 * 8 + thread / 2 % 2 * 4 : v * 32 + thread % 4 * 8;
  }
  // kLanes outputs of vector v of row i, from its element `first` on. Called by all lanes.
  template <int kLanes> __device__ Vec<float, kLanes> own(int i, int v, int first) const {
    float all[kOwnLanes];
#pragma unroll
    for (int j = 0; j < kOwnLanes; ++j)
      all[j] = acc[i / 2][(v * (kOwnLanes / 2) + j / 2) * 4 + i % 2 * 2 + j % 2];
    if constexpr (kAcrossB) {
      const bool odd = threadIdx.x % 2;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float other = nn_shfl_xor(odd ? all[e] : all[2 + e], 1);
        all[e] = odd ? other : all[e];
        all[2 + e] = odd ? all[2 + e] : other;
      }
    }
    Vec<float, kLanes> out;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) out[j] = all[first + j];
    return out;
  }

  // Writes the warp's outputs to `staged`, from (row, column) on.
  template <class Staged> __device__ void stage(Staged staged, int row, int column) const {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp % 4;
    const int first = row / kGroup * kGroup + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kN / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          staged.put_pair(first + i * 64 + half * 8, column + j * 8 + lane % 4 * 2,
                          acc[i][j * 4 + half * 2], acc[i][j * 4 + half * 2 + 1]);
  }
};
