// tile.cuh: layouts of a contraction's tiles in shared memory.
//
// An operand tile is rows of 128 bytes along k (64 16-bit elements, or 32 floats), cut into 8
// chunks of 16 bytes. Chunk c of row r is at position c ^ (r % 8), so the 8 rows that one ldmatrix
// phase reads, and the 8 chunks of a row that one copy writes, are in different banks.
#pragma once

constexpr int kRowBytes = 128;
constexpr int kChunkBytes = 16;
constexpr int kChunks = kRowBytes / kChunkBytes;

__device__ inline int swizzled(int row, int chunk) {
  return row * kRowBytes + ((chunk ^ (row % kChunks)) * kChunkBytes);
}

// For copies smaller than a chunk, of which eight lanes write 32 or 64 contiguous bytes of a row:
// spreads the rows that a warp writes at once over different banks.
__device__ inline int spread(int row) {
  return row / 8 * 8 + row % 2 * 4 + row / 2 % 2 * 2 + row / 4 % 2;
}

// Offset of a run of k in an image, relative to the first tap, with one bit for the row and one for
// the column of its tap; the highest bit is for k past the end.
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

// The row of b stored at `place` of its tile for epilogues from registers. A lane has two of each 8
// accumulator columns; with this order its 8 columns of 32 are neighbours: place 8 i + 2 q + e has
// row 8 q + 2 i + e.
__device__ constexpr int lane_row(int place) {
  return place / 32 * 32 + place / 2 % 4 * 8 + place / 8 % 4 * 2 + place % 2;
}

// An operand that is contiguous along m or n keeps that direction: for every 128 bytes of m or n a
// block of rows, one per k. Floats are read singly: by a warp, 8 neighbours in each of 4 rows.
template <class T> __device__ inline int across(int row, int chunk) {
  if (sizeof(T) == 2) return swizzled(row, chunk);
  return row * kRowBytes + ((chunk ^ (row % 4 * 2)) * kChunkBytes);
}
template <class T> __device__ inline int spread_across(int row) {
  return sizeof(T) == 2 ? spread(row) : row / 4 * 4 + row % 2 * 2 + row / 2 % 2;
}
// Byte offset of element (m, k) of such a tile.
template <class T> __device__ inline int across_at(int m, int k) {
  constexpr int kRow = kRowBytes / int(sizeof(T)), kPack = kChunkBytes / int(sizeof(T));
  return across<T>(m / kRow * kRow + k, m % kRow / kPack) + m % kPack * int(sizeof(T));
}

// Staged outputs: rows of `stride` floats, 16 or a multiple of 32, in chunks of 4; chunk c of row r
// is at c ^ (r % 4 * 2), so that a warp's fragments (8 neighbours in each of 4 rows) are written to
// different banks. Of 16 floats, two rows fill the banks.
__device__ inline int staged(int stride, int row, int column) {
  const int turn = stride == 16 ? row / 2 % 2 * 2 : row % 4 * 2;
  return row * stride + ((column / 4) ^ turn) * 4 + column % 4;
}

// Where an output of a tile is staged: in a row, to be stored with its neighbours along n ...
template <int kTileN> struct ByRows {
  float *out;
  __device__ void put(int row, int column, float value) const {
    out[staged(kTileN, row, column)] = value;
  }
  __device__ void put_pair(int row, int column, float first, float second) const {
    nn_store<2>(out + staged(kTileN, row, column), Vec<float, 2>{{first, second}});
  }
};

// ... or in a column, to be stored with its neighbours along m. Unused floats behind each column
// put the fragments of a warp (8 rows of 4 columns, or 4 of 8) into different banks.
template <int kTileM> struct ByColumns {
  static constexpr int kStride = kTileM + 4;
  float *out;
  __device__ static int at(int row, int column) { return column * kStride + row; }
  __device__ void put(int row, int column, float value) const { out[at(row, column)] = value; }
  __device__ void put_pair(int row, int column, float first, float second) const {
    put(row, column, first);
    put(row, column + 1, second);
  }
};

// Reads kLanes neighbouring outputs of a row. With 8, two chunks: every second group of four lanes
// reads the second one first, so that eight lanes reading at once use all banks.
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
