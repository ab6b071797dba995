// source.cuh: loads an operand's rows into shared memory, one block of k at a time. A kernel's map
// defines addresses, in elements:
//
//   rows(), depth()  number of rows, and length of k
//   kRows, kDepth    divisors of them that are known to the compiler
//   kPiece           elements per copy
//   kLinear          at(k) is a multiple of k
//   kBounded         some (r, k) are outside of the operand (padding) and read as 0
//   kOverlaps        along k: neighbouring rows share elements of a block of k
//   row(r, batch)    offset of row r
//   at(k)            offset of k within a row
//   missing(r)       along k, bounded: bit mask of the filter taps at which row r is in the padding
//   tap(k)           bit mask of the taps of k
//   inside(r, k)     across k, bounded: true if (r, k) is inside of the operand
#pragma once
#include "lib/tile.cuh"

// Base of all sources: the rows and chunks that a thread loads. kByLane: rows are stored in the
// order of lane_row().
template <class T, int kTile, int kThreads, bool kByLane = false> struct SourceShape {
  static constexpr int kPack = kChunkBytes / int(sizeof(T)), kTileK = kRowBytes / int(sizeof(T));
  static constexpr int kAtOnce = kThreads / kChunks;  // rows per round
  static constexpr int kCount = (kTile + kAtOnce - 1) / kAtOnce;
  static constexpr bool kTail = kTile % kAtOnce != 0;  // the last round is partial
  static_assert(kAtOnce % kChunks == 0, "the rows that a thread loads turn their chunks alike");
  static_assert(!kByLane || (kAtOnce & (kAtOnce - 1)) == 0, "lane_row() moves bits of a place");

  // The row stored at place first + i * kAtOnce.
  __device__ __forceinline__ static int row_at(int first, int i) {
    return kByLane ? lane_row(first) + lane_row(i * kAtOnce) : first + i * kAtOnce;
  }
};

// Bit i is set if tap i, at first + i * kStep, is outside of an axis of `size` elements.
template <int kTaps, int kStep>
__device__ __forceinline__ unsigned tap_misses(int first, int size) {
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < kTaps; ++i)
    bits |= unsigned(unsigned(first + i * kStep) >= unsigned(size)) << i;
  return bits;
}

// Copies kPiece elements; zero-fills, without reading, if !inside.
template <int kPiece, bool kAlways, bool kByL1 = false, class T>
__device__ __forceinline__ void copy_piece(char *to, const T *from, bool inside) {
  if constexpr (kAlways)
    nn_cp_async<kPiece * sizeof(T), kByL1>(to, from);
  else
    nn_cp_async<kPiece * sizeof(T), kByL1>(to, from, inside);
}

// The table entry of the run of kTapRun k that begins at k.
template <class Map> __device__ __forceinline__ Tap tap_of(const Map &map, int k) {
  unsigned bits = 0;
  if constexpr (Map::kBounded) bits = map.tap(k) | (k < map.depth() ? 0u : 1u << 31);
  return {map.at(k), bits};
}

template <int kThreads, class Map>
__device__ __forceinline__ void write_taps(const Map &map, Tap *taps, int count) {
  for (int i = threadIdx.x; i < count; i += kThreads)
    write_tap(taps + i, tap_of(map, i * Map::kTapRun));
}

// Offset of row r, and the taps at which it is in the padding; the highest bit is for k past the
// end.
template <int kTile, class Map>
__device__ __forceinline__ Tap row_of(const Map &map, int r, int batch) {
  unsigned bits = 0;
  if constexpr (Map::kBounded) bits = 1u << 31 | map.missing(r);
  if (Map::kRows % kTile != 0 && r >= map.rows()) bits = ~0u;
  return {map.row(r, batch), bits};
}

// Offsets and padding masks of a tile's rows, in shared memory: computed once per row instead of by
// each thread that copies a part of it.
template <int kTile, int kThreads> struct RowTable {
  using Shape = SourceShape<float, kTile, kThreads>;  // kCount and kAtOnce are those of any type
  static constexpr int kRows = Shape::kCount * Shape::kAtOnce;
  int place[kRows];
  unsigned missing[kRows];

  template <class Map> __device__ __forceinline__ void write(const Map &map, int row0, int batch) {
    for (int i = threadIdx.x; i < kRows; i += kThreads) {
      const Tap row = row_of<kTile>(map, row0 + i, batch);
      place[i] = row.offset, missing[i] = row.bits;
    }
  }
  __device__ __forceinline__ Tap read(int i) const { return {place[i], missing[i]}; }
};

// Operand rows stored along k. kTapRun: number of k that share an entry of the table of taps (0: no
// tables): kTileK, or a multiple of kPiece. With it, `rows` is the table of rows. A load may be
// split into kParts calls.
template <class Map, class T, int kTile, int kThreads, int kParts = 1, bool kByLane = false>
struct AlongSource : SourceShape<T, kTile, kThreads, kByLane> {
  using Shape = SourceShape<T, kTile, kThreads, kByLane>;
  static constexpr int kCount = Shape::kCount, kPack = Shape::kPack, kPiece = Map::kPiece;
  static constexpr bool kWhole = kPiece == kPack, kByBlock = Map::kTapRun == Shape::kTileK;
  static constexpr bool kRagged = Map::kRows % kTile != 0 || Map::kDepth % Shape::kTileK != 0;
  Map map;
  const T *row[kCount];
  unsigned missing[kCount];
  using Rows = RowTable<kTile, kThreads>;
  const Tap *taps;
  int row0, first, chunk, offset[kParts];

  __device__ __forceinline__ AlongSource(const T *base, int row0, int batch,
                                         const Tap *taps = nullptr, const Rows *rows = nullptr)
      : AlongSource(Map{}, base, row0, batch, taps, rows) {}
  __device__ __forceinline__ AlongSource(const Map &map, const T *base, int row0, int batch,
                                         const Tap *taps = nullptr, const Rows *rows = nullptr)
      : map(map), taps(taps), row0(row0), chunk(threadIdx.x % kChunks) {
    first = kWhole ? threadIdx.x / kChunks : spread(threadIdx.x / kChunks);
#pragma unroll
    for (int p = 0; p < kParts; ++p) offset[p] = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = Shape::row_at(first, i);
      const Tap at = Map::kTapRun ? rows->read(r) : row_of<kTile>(map, row0 + r, batch);
      row[i] = base + at.offset + (kByBlock ? chunk * kPack : 0);
      missing[i] = at.bits;
    }
  }

  // Starts loading part `part` of block `block` of k into `stage`.
  __device__ __forceinline__ void load(int block, char *stage, int part = 0) {
#pragma unroll
    for (int piece = 0; piece < kPack / kPiece; ++piece) {
      const int e = (piece * kChunks + chunk) * kPiece, k = block * Shape::kTileK + e;
      const int to = swizzled(first, e / kPack) + e % kPack * int(sizeof(T));
      Tap tap;
      if constexpr (Map::kTapRun == 0)
        tap = tap_of(map, k);
      else
        tap = read_tap(taps + block * (Shape::kTileK / Map::kTapRun) +
                       (kByBlock ? 0 : e / Map::kTapRun));
      const int step = tap.offset - offset[part];
      offset[part] += step;
#pragma unroll
      for (int i = kCount * part / kParts; i < kCount * (part + 1) / kParts; ++i) {
        row[i] += step;
        if (Shape::kTail && first + i * Shape::kAtOnce >= kTile) break;
        const int r = Shape::row_at(first, i);
        bool inside;
        if constexpr (Map::kBounded)
          inside = !(missing[i] & tap.bits);
        else
          inside = (Map::kDepth % Shape::kTileK == 0 || k < map.depth()) &&
                   (Map::kRows % kTile == 0 || row0 + r < map.rows());
        copy_piece<kPiece, !Map::kBounded && !kRagged, Map::kOverlaps>(
            stage + to + i * (Shape::kAtOnce * kRowBytes), row[i], inside);
      }
    }
  }
};

// Operand stored across k: for each kTileK rows of the operand, kTileK rows of k in shared memory.
template <class Map, class T, int kTile, int kThreads, int kParts = 1>
struct AcrossSource : SourceShape<T, kTile, kThreads> {
  using Shape = SourceShape<T, kTile, kThreads>;
  static constexpr int kCount = Shape::kCount, kPack = Shape::kPack, kPiece = Map::kPiece;
  static constexpr int kTileK = Shape::kTileK;
  static constexpr bool kWhole = kPiece == kPack;
  static constexpr bool kRagged = Map::kRows % kTile != 0 || Map::kDepth % kTileK != 0;
  Map map;
  const T *row[kCount];
  int row0, first, chunk, offset[kParts];

  // First operand row, and k in the block, of this thread's copy i.
  __device__ __forceinline__ int row_of(int i) const {
    return row0 + (first + i * Shape::kAtOnce) / kTileK * kTileK + chunk * kPiece;
  }
  __device__ __forceinline__ int k_of(int i) const { return (first + i * Shape::kAtOnce) % kTileK; }

  __device__ __forceinline__ AcrossSource(const T *base, int row0, int batch)
      : AcrossSource(Map{}, base, row0, batch) {}
  __device__ __forceinline__ AcrossSource(const Map &map, const T *base, int row0, int batch)
      : map(map), row0(row0), chunk(threadIdx.x % kChunks) {
    first = kWhole ? threadIdx.x / kChunks : spread_across<T>(threadIdx.x / kChunks);
#pragma unroll
    for (int p = 0; p < kParts; ++p) offset[p] = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      row[i] = base + map.row(row_of(i), batch);
      if constexpr (Map::kLinear) row[i] += map.at(k_of(i));
    }
  }

  __device__ __forceinline__ void load(int block, char *stage, int part = 0) {
    const int k0 = block * kTileK;
    int step = 0;
    if constexpr (Map::kLinear) {
      step = map.at(k0) - offset[part];
      offset[part] += step;
    }
#pragma unroll
    for (int i = kCount * part / kParts; i < kCount * (part + 1) / kParts; ++i) {
      row[i] += step;
      if (Shape::kTail && first + i * Shape::kAtOnce >= kTile) break;
      const int k = k0 + k_of(i);
      const T *from = row[i];
      if constexpr (!Map::kLinear) from += map.at(k);
#pragma unroll
      for (int piece = 0; piece < kPack / kPiece; ++piece) {
        const int e = (piece * kChunks + chunk) * kPiece, r = row_of(i) + piece * kChunks * kPiece;
        const int to = across<T>(first, e / kPack) + e % kPack * int(sizeof(T));
        bool inside = (Map::kDepth % kTileK == 0 || k < map.depth()) &&
                      (Map::kRows % kTile == 0 || r < map.rows());
        if constexpr (Map::kBounded) inside = inside && map.inside(r, k);
        copy_piece<kPiece, !Map::kBounded && !kRagged>(
            stage + to + i * (Shape::kAtOnce * kRowBytes), from + piece * kChunks * kPiece, inside);
      }
    }
  }
};

// Rows whose elements are computed: value(r, k), 0 outside. Not unrolled: it would only cost
// registers.
template <class T, int kTile, int kThreads, bool kByLane, class Value>
struct ComputedSource : SourceShape<T, kTile, kThreads, kByLane> {
  using Shape = SourceShape<T, kTile, kThreads, kByLane>;
  static constexpr int kPack = Shape::kPack;
  Value value;
  int row0;

  __device__ __forceinline__ ComputedSource(Value value, int row0) : value(value), row0(row0) {}

  __device__ __forceinline__ void load(int block, char *stage, int part = 0, int parts = 1) {
    const int chunk = threadIdx.x % kChunks;
#pragma unroll 1
    for (int i = Shape::kCount * part / parts; i < Shape::kCount * (part + 1) / parts; ++i) {
      const int place = threadIdx.x / kChunks + i * Shape::kAtOnce;
      if (Shape::kTail && place >= kTile) break;
      const int r = Shape::row_at(threadIdx.x / kChunks, i);
      Vec<float, kPack> values;
#pragma unroll
      for (int e = 0; e < kPack; ++e)
        values[e] = value(row0 + r, block * Shape::kTileK + chunk * kPack + e);
      nn_store<kPack>((T *)(stage + swizzled(place, chunk)), nn_cast<T>(values));
    }
  }
};

template <class T, int kTile, int kThreads, bool kByLane = false, class Value>
__device__ __forceinline__ ComputedSource<T, kTile, kThreads, kByLane, Value>
computed_source(Value value, int row0) {
  return {value, row0};
}
