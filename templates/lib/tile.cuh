// tile.cuh: tiles of a matrix product in shared memory.
//
// An operand tile is rows of 128 bytes along k (64 16-bit elements, or 32 floats), cut into 8
// chunks of 16 bytes. Chunk c of row r stands at position c ^ (r % 8): the 8 rows that one ldmatrix
// phase reads, and the 8 chunks of a row that one copy writes, are in different banks.
#pragma once

constexpr int kRowBytes = 128;
constexpr int kChunkBytes = 16;
constexpr int kChunks = kRowBytes / kChunkBytes;

__device__ inline int swizzled(int row, int chunk) {
  return row * kRowBytes + ((chunk ^ (row % kChunks)) * kChunkBytes);
}

// Copies of less than a chunk: eight lanes write 32 or 64 bytes of a row that follow each other.
// The rows that a warp writes at once are spread so that these are in different banks.
__device__ inline int spread(int row) {
  return row / 8 * 8 + row % 2 * 4 + row / 2 % 2 * 2 + row / 4 % 2;
}

// Where a run of k is in an image, from the first tap on, and a bit for the row and one for the
// column of its tap; the highest bit for k past the end.
struct alignas(8) Tap {
  int offset;
  unsigned bits;
};
__device__ inline void write_tap(Tap *to, Tap tap) {
  nn_store<2>(&to->offset, Vec<int, 2>{{tap.offset, int(tap.bits)}});
}
__device__ inline Tap read_tap(const Tap *from) {
  const Vec<int, 2> both = nn_load<2>(&from->offset);
  return {both[0], unsigned(both[1])};
}

// Which row of b stands at `place` of its tile where a lane keeps its outputs. In a row of outputs
// a lane has two of each 8; of 32 of b's rows, ordered so, these are 8 neighbours: place
// 8 i + 2 q + e has row 8 q + 2 i + e.
__device__ constexpr int lane_row(int place) {
  return place / 32 * 32 + place / 2 % 4 * 8 + place / 8 % 4 * 2 + place % 2;
}

// An operand whose memory runs across k (along m or n) keeps that direction: for every 128 bytes of
// m or n a block of rows, one for each k. Floats are read singly, by 8 neighbours in each
// of 4 rows.
template <class T> __device__ inline int across(int row, int chunk) {
  if (sizeof(T) == 2) return swizzled(row, chunk);
  return row * kRowBytes + ((chunk ^ (row % 4 * 2)) * kChunkBytes);
}
template <class T> __device__ inline int spread_across(int row) {
  return sizeof(T) == 2 ? spread(row) : row / 4 * 4 + row % 2 * 2 + row / 2 % 2;
}
// Where element (m, k) of such a tile stands.
template <class T> __device__ inline int across_at(int m, int k) {
  constexpr int kRow = kRowBytes / int(sizeof(T)), kPack = kChunkBytes / int(sizeof(T));
  return across<T>(m / kRow * kRow + k, m % kRow / kPack) + m % kPack * int(sizeof(T));
}

// Outputs are staged as rows of `stride` floats, 16 or a multiple of 32, in chunks of 4; chunk c of
// row r stands at c ^ (r % 4 * 2). The fragments of a warp, 8 neighbours in each of 4 rows at once,
// are then written to different banks. Two rows of 16 floats fill the banks already.
__device__ inline int staged(int stride, int row, int column) {
  const int turn = stride == 16 ? row / 2 % 2 * 2 : row % 4 * 2;
  return row * stride + ((column / 4) ^ turn) * 4 + column % 4;
}

// kLanes neighbouring outputs. With 8, two chunks: each second group of four lanes reads the later
// one first, so that eight lanes reading at once meet all banks.
template <int kLanes>
__device__ inline Vec<float, kLanes> read_staged(const float *out, int stride, int row,
                                                 int column) {
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
