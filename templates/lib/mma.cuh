// mma.cuh: tiles of a matrix product on tensor cores.
//
// An operand tile in shared memory is rows of 128 bytes along k (64 16-bit elements, or 32 of TF32),
// cut into 8 chunks of 16 bytes. Chunk c of row r stands at position c ^ (r % 8): the 8 rows that one
// ldmatrix phase reads, and the 8 chunks of a row that one copy writes, are in different banks.
#pragma once

constexpr int kRowBytes = 128;
constexpr int kChunkBytes = 16;
constexpr int kChunks = kRowBytes / kChunkBytes;
constexpr int kStepBytes = 32;  // of k in one mma: 16 16-bit elements, or 8 of TF32

__device__ inline int swizzled(int row, int chunk) {
  return row * kRowBytes + ((chunk ^ (row % kChunks)) * kChunkBytes);
}

// Outputs are staged as rows of `stride` floats, a multiple of 32, in chunks of 4; chunk c of row r
// stands at c ^ (r % 4 * 2). The fragments of a warp, 8 neighbours in each of 4 rows at once, are then
// written to different banks.
__device__ inline int staged(int stride, int row, int column) {
  return row * stride + ((column / 4) ^ (row % 4 * 2)) * 4 + column % 4;
}

// kLanes neighbouring outputs. With 8, two chunks: each second group of four lanes reads the later
// one first, so that eight lanes reading at once meet all banks.
template <int kLanes> __device__ inline Vec<float, kLanes> read_staged(const float *out, int stride, int row, int column) {
  if constexpr (kLanes == 8) {
    const int flip = threadIdx.x / 4 % 2;
    const Vec<float, 4> first = nn_load<4>(out + staged(stride, row, column + flip * 4));
    const Vec<float, 4> second = nn_load<4>(out + staged(stride, row, column + 4 - flip * 4));
    Vec<float, 8> both;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      both[j] = flip ? second[j] : first[j];
      both[4 + j] = flip ? first[j] : second[j];
    }
    return both;
  } else {
    return nn_load<kLanes>(out + staged(stride, row, column));
  }
}

// The product of kM x kN outputs by one warp: kM rows of a, kN rows of b, as T (float: TF32).
template <class T, int kM, int kN> struct WarpTile {
  static constexpr int kMmaM = 16, kMmaN = 8;
  static constexpr int kTilesM = kM / kMmaM, kTilesN = kN / kMmaN;
  static_assert(kM % kMmaM == 0 && kN % (2 * kMmaN) == 0, "whole mma tiles, two along n at once");
  float acc[kTilesM][kTilesN][4];

  __device__ void clear() {
    for (int i = 0; i < kTilesM; ++i)
      for (int j = 0; j < kTilesN; ++j)
        for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.f;
  }

  // acc += a b^T over one row of k. `a` and `b` are operand tiles, the warp's rows begin at row_*.
  __device__ void multiply(const char *a, int row_a, const char *b, int row_b) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int step = 0; step < kRowBytes / kStepBytes; ++step) {
      unsigned fa[kTilesM][4], fb[kTilesN][2];
#pragma unroll
      for (int i = 0; i < kTilesM; ++i)
        nn_ldmatrix_x4(fa[i], a + swizzled(row_a + i * kMmaM + lane % 16, step * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < kTilesN; j += 2) {  // rows 0-7 of both halves of k, then rows 8-15
        unsigned both[4];
        const int row = row_b + j * kMmaN + lane % 8 + lane / 16 * 8;
        nn_ldmatrix_x4(both, b + swizzled(row, step * 2 + lane / 8 % 2));
        for (int e = 0; e < 4; ++e) fb[j + e / 2][e % 2] = both[e];
      }
      product(fa, fb, T());
    }
  }

  template <class Type>
  __device__ void product(unsigned (&fa)[kTilesM][4], unsigned (&fb)[kTilesN][2], Type type) {
    nn_mma_tile(acc, fa, fb, type);
  }
  // The tensor core would cut the operands to TF32; rounding halves the error.
  __device__ void product(unsigned (&fa)[kTilesM][4], unsigned (&fb)[kTilesN][2], float) {
    for (int i = 0; i < kTilesM; ++i)
      for (int e = 0; e < 4; ++e) fa[i][e] = nn_tf32(nn_from_bits(fa[i][e]));
    for (int j = 0; j < kTilesN; ++j)
      for (int e = 0; e < 2; ++e) fb[j][e] = nn_tf32(nn_from_bits(fb[j][e]));
    nn_mma_tile_tf32(acc, fa, fb);
  }

  // Writes the warp's outputs to `stage`, rows of `stride` floats, from (row, column) on.
  __device__ void stage(float *out, int stride, int row, int column) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < kTilesN; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int m = row + i * kMmaM + half * 8 + lane / 4, n = column + j * kMmaN + lane % 4 * 2;
          Vec<float, 2> pair;
          pair[0] = acc[i][j][half * 2], pair[1] = acc[i][j][half * 2 + 1];
          nn_store<2>(out + staged(stride, m, n), pair);
        }
  }
};
