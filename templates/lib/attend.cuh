// attend.cuh: rows of heads in shared memory, and operations on a warp's scores. The contractions
// belong to a unit: MmaUnit (attend_mma.cuh), WgmmaUnit (attend_wgmma.cuh) or FmaUnit
// (attend_fma.cuh), a template over the tile's rows and keys. A unit has these parts:
//   ScoreTile<rows, keys>  Scores: a lane has kRowsOfLane rows x kKeysOfLane keys; kSharing
//                          consecutive lanes share their rows. row(r), key(c): row in the warp and
//                          key in the tile; at(scores, r, c): the score
//   ScoreRows<T, depth, rows, keys>
//                          multiply(scores, keys): scores = the warp's rows times a tile of keys
//   RowsReadAgain          the same, but every multiply reads the rows from shared memory
//   ValueSums<T, width, rows, keys>
//                          weigh(scores, values): out(r, c) += scores times a tile of values;
//                          WgmmaUnit also in two steps: pack(scores, weights), then
//                          weigh(weights, values);
//                          stage(to, row): stores rows of kStaged floats (staged() of tile.cuh)
//                          from row `row` on
// and these functions: kPanels: rows in shared memory are HeadRows in panels; publish(): makes this
// thread's copies visible to MMAs; await<newer>(sums): waits until these scores or outputs are
// complete, with at most `newer` later MMAs still running; keep(rows): to be called after a loop
// that multiplies these ScoreRows.
#pragma once
#include "lib/tile.cuh"

// Base of the units with synchronous MMAs.
struct WarpUnit {
  static constexpr bool kPanels = false;
  __device__ static void publish() {}
  template <class Rows> __device__ __forceinline__ static void keep(const Rows &) {}
  template <int kNewer, class Sums> __device__ __forceinline__ static void await(Sums &) {}
};

// Layout of rows of kDepth elements in shared memory: zero-padded to a multiple of 32 bytes, in
// swizzled chunks of 16 bytes. The 8 rows of an ldmatrix phase, and the chunks of a row that one
// copy writes, are in different banks; rows 8 apart have the same swizzle. With kPanelRows, rows of
// more than kTurns chunks are cut into panels of kTurns chunks x all rows: the layout of wgmma's
// 32-, 64- and 128-byte swizzles.
template <class T, int kDepth, int kPanelRows = 0> struct HeadRows {
  static constexpr int kSteps = (kDepth * int(sizeof(T)) + 31) / 32, kRowChunks = 2 * kSteps;
  static constexpr int kBytes = kRowChunks * kChunkBytes;  // of a row
  static constexpr int kTurns = kRowChunks % 8 == 0 ? 8 : kRowChunks % 4 == 0 ? 4 : 2;
  static constexpr bool kPanels = kPanelRows > 0 && kRowChunks > kTurns;
  static constexpr int kPitch = kPanels ? kTurns * kChunkBytes : kBytes;  // from row to row
  static constexpr int kPanel = kPanels ? kPanelRows * kPitch : kTurns * kChunkBytes;
  __device__ static int at(int row, int chunk) {
    const int turn = row / (8 / kTurns) % kTurns;
    if constexpr (kPanels)
      return row * kPitch + chunk / kTurns * kPanel + (chunk % kTurns ^ turn) * kChunkBytes;
    else
      return (row * kRowChunks + (chunk ^ turn)) * kChunkBytes;
  }
  // at(row, chunk + more) from at(row, chunk), for chunk 0 or 1 and an even constant `more`.
  __device__ static int further(int at, int more) {
    return (at ^ (more % kTurns * kChunkBytes)) + more / kTurns * kPanel;
  }
};

// Starts copying kTile rows from row0 on; zeros past the last row. The map has:
//   kRows, kDepth    number of rows, and of elements per row
//   kPiece           elements per copy
//   row(r, batch)    element offset of row r
// kFew: registers are scarce: unrolls less, so that fewer addresses are kept between tiles.
template <class Map, int kTile, int kThreads, bool kPanels = false, bool kFew = false, class T>
__device__ __forceinline__ void load_rows(char *tile, const T *base, int row0, int batch) {
  using Rows = HeadRows<T, Map::kDepth, kPanels ? kTile : 0>;
  constexpr int kPack = kChunkBytes / int(sizeof(T)), kChunksOfTile = kTile * Rows::kRowChunks;
  constexpr bool kWhole = Map::kRows % kTile == 0 && Map::kDepth * sizeof(T) % 32 == 0;
  constexpr int kCopies = (kChunksOfTile + kThreads - 1) / kThreads;
  // Copies a multiple of 8 rows apart have a constant distance in shared memory.
  constexpr int kApart = kThreads / Rows::kRowChunks;
  constexpr bool kEven = kThreads % Rows::kRowChunks == 0 && kApart % 8 == 0;
  const int r0 = threadIdx.x / Rows::kRowChunks, chunk0 = threadIdx.x % Rows::kRowChunks;
#pragma unroll kCopies <= (kEven ? 16 : kFew ? 4 : 8) ? kCopies : 4
  for (int i = 0; i < kCopies; ++i) {
    const int at = i * kThreads + threadIdx.x;
    const int r = kEven ? r0 + i * kApart : at / Rows::kRowChunks;
    const int chunk = kEven ? chunk0 : at % Rows::kRowChunks;
    if (kChunksOfTile % kThreads && at >= kChunksOfTile) break;
    char *chunk_of_tile =
        tile + (kEven ? Rows::at(r0, chunk0) + i * kApart * Rows::kPitch : Rows::at(r, chunk));
    const bool inside = Map::kRows % kTile == 0 || row0 + r < Map::kRows;
    const int row = Map::row(inside ? row0 + r : 0, batch);
#pragma unroll
    for (int piece = 0; piece < kPack / Map::kPiece; ++piece) {
      const int e = chunk * kPack + piece * Map::kPiece;
      char *to = chunk_of_tile + piece * Map::kPiece * int(sizeof(T));
      if constexpr (kWhole)
        nn_cp_async<Map::kPiece * sizeof(T)>(to, base + (row + e));
      else
        nn_cp_async<Map::kPiece * sizeof(T)>(to, base + (row + e), inside && e < Map::kDepth);
    }
  }
}

// Starts copying one float per key of a tile; from(key) is its address.
template <int kKeys, int kTileKeys, int kThreads, class From>
__device__ __forceinline__ void load_values(float *to, int tile, From from) {
#pragma unroll
  for (int at = threadIdx.x; at < kTileKeys; at += kThreads) {
    const int key = tile * kTileKeys + at;
    nn_cp_async<4>(to + at, from(kKeys % kTileKeys == 0 || key < kKeys ? key : kKeys - 1));
  }
}

// Destination of a computed row: row r of a tile in shared memory; zeros if past the last row.
template <class T, int kDepth, int kPanelRows = 0> struct TileRow {
  char *tile;
  int r;
  bool inside;
  __device__ T *place(int e) const {
    constexpr int kPack = kChunkBytes / int(sizeof(T));
    return (T *)(tile + HeadRows<T, kDepth, kPanelRows>::at(r, e / kPack)) + e % kPack;
  }
  template <int kSome>
  __device__ __forceinline__ void operator()(int e, Vec<float, kSome> some) const {
#pragma unroll
    for (int j = 0; j < kSome; ++j) some[j] = inside ? some[j] : 0.f;
    nn_store<kSome>(place(e), nn_cast<T>(some));
  }
};

// Computes kTile rows from row0 on, of kRows rows. row(r, lane, to) passes the elements of one row
// to the TileRow `to`; kSharing lanes share a row.
template <class T, int kDepth, int kRows, int kTile, int kThreads, int kSharing, bool kPanels,
          class Row>
__device__ __forceinline__ void compute_rows(char *tile, int row0, Row row) {
  constexpr int kPadded = HeadRows<T, kDepth>::kBytes / int(sizeof(T));
  const int lane = threadIdx.x % kSharing;
#pragma unroll 1
  for (int r = threadIdx.x / kSharing; r < kTile; r += kThreads / kSharing) {
    const bool inside = row0 + r < kRows;
    const TileRow<T, kDepth, kPanels ? kTile : 0> to = {tile, r, inside};
    row(inside ? row0 + r : 0, lane, to);
    for (int e = kDepth + lane; e < kPadded; e += kSharing) *to.place(e) = nn_cast<T>(0.f);
  }
}

// score = function(m, key, score, others...) for all scores of a tile from (m0, key0) on; m and key
// are clamped to the last of kM rows and kLast keys. The scores may be part of a tile of kTileKeys.
// Row by row, or with kByKeys key by key: then values per key live in registers for a few rows
// instead of values per row for all keys.
template <class Tile, int kM, int kLast, int kTileKeys, bool kByKeys = false, class Function,
          class... Others>
__device__ __forceinline__ void apply_scores(typename Tile::Scores &scores, int m0, int key0,
                                             Function function, Others &...others) {
  constexpr int kRows = Tile::kRowsOfLane, kKeys = Tile::kKeysOfLane;
#pragma unroll
  for (int i = 0; i < (kByKeys ? kKeys : kRows); ++i)
#pragma unroll
    for (int j = 0; j < (kByKeys ? kRows : kKeys); ++j) {
      const int r = kByKeys ? j : i, c = kByKeys ? i : j;
      const int m = m0 + Tile::row(r), key = key0 + Tile::key(c);
      const bool inside = kLast % kTileKeys == 0 || key < kLast;
      float &score = Tile::at(scores, r, c);
      score = function(m < kM ? m : kM - 1, inside ? key : kLast - 1, score,
                       Tile::at(others, r, c)...);
    }
}

// ValueSums::stage for units whose lanes have pairs of neighbouring outputs.
template <class Tile, int kStaged, int kOutsOfLane, class Sums>
__device__ __forceinline__ void stage_pairs(Sums &sums, float *to, int to_row) {
#pragma unroll
  for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < kOutsOfLane; c += 2)
      nn_store<2>(to + staged(kStaged, to_row + Tile::row(r), Tile::key(c)),
                  Vec<float, 2>{{sums.out(r, c), sums.out(r, c + 1)}});
}

// Sets the scores of keys `end` and later of the tile to `value`.
template <class Tile>
__device__ __forceinline__ void cut_scores(typename Tile::Scores &scores, int end, float value) {
#pragma unroll
  for (int r = 0; r < Tile::kRowsOfLane; ++r)
#pragma unroll
    for (int c = 0; c < Tile::kKeysOfLane; ++c)
      if (Tile::key(c) >= end) Tile::at(scores, r, c) = value;
}
