// epilogue.cuh: loops over a tile's outputs, from shared memory or from accumulator registers.
#pragma once
#include "lib/tile.cuh"

// Calls each(row) for kCount rows, kStep apart, then the functions that these calls returned.
template <int kCount, int kStep, class Each, class... Rest>
__device__ __forceinline__ void each_of(int row, Each each, Rest... rest) {
  if constexpr (sizeof...(Rest) < kCount)
    each_of<kCount, kStep>(row + kStep, each, rest..., each(row));
  else
    (rest(), ...);
}

// Calls each(row) for rows first, first + kStep, ... of a tile of kTileM rows, below `rows`, a
// multiple of kMultiple. each(row) starts the row's loads and returns a function that finishes the
// row, called when up to kMost rows are in flight.
template <int kTileM, int kStep, int kMultiple, int kMost, class Each>
__device__ __forceinline__ void each_row(int first, int rows, Each each) {
  constexpr int kTurns = kTileM / kStep;  // full rounds of all threads
  constexpr int kAtOnce = nn_at_once(kTurns, kMost);
  int row = first;
  if (kMultiple % kTileM == 0 || rows >= kTileM) {
    if constexpr (kTurns > 0) {  // ptxas keeps an empty loop, and registers for it
#pragma unroll 1
      for (; row < kTurns * kStep; row += kAtOnce * kStep) each_of<kAtOnce, kStep>(row, each);
    }
    if (kTileM % kStep && row < kTileM) each(row)();
  } else {
#pragma unroll 1
    for (; row < kTileM && row < rows; row += kStep) each(row)();
  }
}

// Calls each(m, n)(outputs) for the outputs of the staged tile at (m0, n0) that are inside of
// `rows` x kN, kLanes neighbours along n at a time; `rows` is a multiple of kM. A thread keeps its
// columns if there are threads for all of them. thread: index among the kThreads callers.
template <int kM, int kN, int kTileM, int kTileN, int kLanes, int kThreads, int kMost = 7,
          class Each>
__device__ __forceinline__ void each_output(const float *staged, int m0, int n0, int rows,
                                            Each each, int thread = threadIdx.x) {
  constexpr int kAll = kTileN / kLanes, kAlongN = kAll < kThreads ? kAll : kThreads;  // threads
  static_assert(kThreads % kAlongN == 0 && kAll % kAlongN == 0, "a thread keeps its columns");
#pragma unroll
  for (int first = 0; first < kAll; first += kAlongN) {
    const int column = (first + thread % kAlongN) * kLanes, n = n0 + column;
    if (kN % kTileN && n >= kN) break;
    each_row<kTileM, kThreads / kAlongN, kM, kMost>(thread / kAlongN, rows - m0, [&](int row) {
      auto outputs = each(m0 + row, n);
      return [=]() mutable { outputs(read_staged<kLanes>(staged, kTileN, row, column)); };
    });
  }
}

// The same for an output whose rows are neighbours in memory: a thread keeps its row.
template <int kM, int kN, int kTileM, int kTileN, int kLanes, int kThreads, int kMost = 7,
          class Each>
__device__ __forceinline__ void each_transposed(const float *staged, int m0, int n0, int rows,
                                                Each each) {
  static_assert(kLanes == 1, "neighbours of a column are stored by neighbouring threads");
  constexpr int kAlongM = nn_gcd(kTileM, kThreads), kAlongN = kThreads / kAlongM;  // threads
  // Columns that a warp reads at once are that far apart, so that they are in different banks.
  constexpr int kApart = kAlongM < kWarp ? kAlongM / 4 : 1, kGroups = kAlongN / kApart;
  static_assert(kAlongN % kApart == 0 && kTileN % kAlongN == 0, "each column has one thread");
  const int thread = threadIdx.x / kAlongM;
  const int first_column = thread % kGroups * kApart + thread / kGroups;
#pragma unroll
  for (int first = 0; first < kTileM; first += kAlongM) {
    const int row = first + threadIdx.x % kAlongM;
    if (kM % kTileM && m0 + row >= rows) break;
    auto value = [=](int column) {
      return nn_load<1>(staged + ByColumns<kTileM>::at(row, column));
    };
    if (kN % kTileN == 0 || n0 + kTileN <= kN) {
      each_row<kTileN, kAlongN, kTileN, kMost>(first_column, kTileN, [&](int column) {
        auto outputs = each(m0 + row, n0 + column);
        return [=]() mutable { outputs(value(column)); };
      });
    } else {  // all threads take as many turns, so that a warp reads its columns together
#pragma unroll 1
      for (int column = first_column; column < kTileN; column += kAlongN) {
        const Vec<float, 1> output = value(column);
        if (n0 + column < kN) each(m0 + row, n0 + column)(output);
      }
    }
  }
}

// The same for a GLU, whose tile has the columns of both halves: calls each(m, n)(outputs, others)
// with n a column of the first half and `others` the outputs of the second half.
template <int kM, int kN, int kTileM, int kTileN, int kLanes, int kThreads, int kMost = 7,
          class Each>
__device__ __forceinline__ void each_pair(const float *staged, int m0, int n0, int rows,
                                          Each each) {
  constexpr int kHalf = kTileN / 2, kAlongN = kHalf / kLanes;
  static_assert(kN % kTileN == 0, "whole tiles of columns");
  const int column = threadIdx.x % kAlongN * kLanes;
  each_row<kTileM, kThreads / kAlongN, kM, kMost>(threadIdx.x / kAlongN, rows - m0, [&](int row) {
    auto outputs = each(m0 + row, n0 / 2 + column);
    return [=]() mutable {
      outputs(read_staged<kLanes>(staged, kTileN, row, column),
              read_staged<kLanes>(staged, kTileN, row, kHalf + column));
    };
  });
}

// Epilogue directly from accumulator registers. Calls each(m, n)(outputs), or if kPair
// each(m, n)(outputs, others), for the tile at (m0, n0); the warp's part is at (row, column) in it.
// kByColumns: all rows of a vector of columns, then then(column of the tile); kByRows: all vectors
// of a row, then then(row of the tile). Lanes outside of the matrix load from clamped coordinates;
// kOnly: they load nothing, because another thread may be writing there.
enum Order { kByColumns, kByRows };
struct Nothing {
  __device__ void operator()(int) const {}
};

// Defers each(m, n), and so its loads, until the outputs are passed.
template <class Each> struct Later {
  const Each &each;
  int m, n;
  template <class... Own> __device__ __forceinline__ void operator()(const Own &...own) {
    each(m, n)(own...);
  }
};

// kLater: each(m, n), deferred; else each() now, at the clamped coordinates near_m, near_n.
template <bool kLater, class Each>
__device__ __forceinline__ auto load_for(const Each &each, int m, int n, int near_m, int near_n) {
  if constexpr (kLater)
    return Later<Each>{each, m, n};
  else
    return each(near_m, near_n);
}

template <int kM, int kN, int kTileM, int kTileN, int kLanes, bool kPair, bool kOnly,
          Order kOrder = kByColumns, int kMost = 7, class Product, class Each, class Then = Nothing>
__device__ __forceinline__ void each_own(const Product &product, int row, int column, int m0,
                                         int n0, int rows, Each each, Then then = {}) {
  constexpr int kVectors = Product::kOwnVectors / (kPair ? 2 : 1);
  constexpr int kParts = Product::kOwnLanes / kLanes, kColumns = kPair ? kN / 2 : kN;
  constexpr int kRows = Product::kOwnRows, kAlong = kVectors * kParts, kTurns = kRows * kAlong;
  constexpr int kAtOnce = nn_at_once(kTurns, kMost);
  constexpr bool kWhole = kM % kTileM == 0 && kN % kTileN == 0;
  const int thread = nn_opaque(threadIdx.x);  // recomputed here: frees a register during the MMAs
#pragma unroll
  for (int turn = 0; turn < kTurns; turn += kAtOnce) {
    each_of<kAtOnce, 1>(turn, [&](int at) {
      const int i = kOrder == kByRows ? at / kAlong : at % kRows;
      const int part = kOrder == kByRows ? at % kAlong : at / kRows;
      const int v = part / kParts, first = part % kParts * kLanes;
      const int tile_m = Product::own_row(thread, row, i);
      const int tile_n = column + Product::own_column(thread, v) + first;
      const int m = m0 + tile_m, n = (kPair ? n0 / 2 : n0) + tile_n;
      const bool inside = (kM % kTileM == 0 || m < rows) && (kN % kTileN == 0 || n < kN);
      auto outputs = load_for<kOnly && !kWhole>(each, m, n, m < rows ? m : rows - 1,
                                                n < kN ? n : kColumns - kLanes);
      return [=, &product, &then]() mutable {
        const auto own = product.template own<kLanes>(i, v, first);
        if constexpr (kPair) {
          const auto others = product.template own<kLanes>(i, v + kVectors, first);
          if (inside) outputs(own, others);
        } else {
          if (inside) outputs(own);
        }
        if (kOrder == kByColumns && i == kRows - 1) then(tile_n);
        if (kOrder == kByRows && part == kAlong - 1) then(tile_m);
      };
    });
  }
}
