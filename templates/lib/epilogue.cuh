// epilogue.cuh: the outputs of a tile, once they stand in shared memory, or from registers.
#pragma once
#include "lib/tile.cuh"

// each(row) for kCount rows, kStep apart, then what these calls gave.
template <int kCount, int kStep, class Each, class... Rest>
__device__ __forceinline__ void each_of(int row, Each each, Rest... rest) {
  if constexpr (sizeof...(Rest) < kCount)
    each_of<kCount, kStep>(row + kStep, each, rest..., each(row));
  else
    (rest(), ...);
}

// Calls each(row) for rows `first`, first + kStep, ... of a tile of kTileM, of which the product
// has `rows`; a multiple of kMultiple. It loads what the row needs and gives the rest as a function,
// which is called when some rows are under way, at most kMost.
template <int kTileM, int kStep, int kMultiple, int kMost, class Each>
__device__ __forceinline__ void each_row(int first, int rows, Each each) {
  constexpr int kTurns = kTileM / kStep;  // of all threads
  constexpr int kAtOnce = nn_at_once(kTurns, kMost);
  int row = first;
  if (kMultiple % kTileM == 0 || rows >= kTileM) {
    if constexpr (kTurns > 0) {  // ptxas keeps a loop without turns, and registers for it
#pragma unroll 1
      for (; row < kTurns * kStep; row += kAtOnce * kStep) each_of<kAtOnce, kStep>(row, each);
    }
    if (kTileM % kStep && row < kTileM) each(row)();
  } else {
#pragma unroll 1
    for (; row < kTileM && row < rows; row += kStep) each(row)();
  }
}

// Calls each(m, n)(outputs) for those of the `rows` x kN outputs that are in the tile from (m0, n0)
// on, kLanes neighbours along n at a time; `rows` is a multiple of kM. A thread keeps its columns,
// where there are threads for all of them. `thread`: of the kThreads that call it.
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

// The same where columns of a product stand beside those of its other half: calls
// each(m, n)(outputs, others), n a column of half of the product, `others` those of the second half.
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

// The same of outputs that lanes keep in their registers, as `product` has them: calls
// each(m, n)(outputs), kPair each(m, n)(outputs, others), for those of the tile from (m0, n0) on,
// of which the warp's begin at (row, column). By columns: all rows of a vector, then(column of the
// tile); by rows: all vectors of a row, then(row of the tile). Where there is no output, another one
// is loaded for; kOnly: nothing is, as another thread changes what it reads.
enum Order { kByColumns, kByRows };
struct Nothing {
  __device__ void operator()(int) const {}
};

// Loads when it is called.
template <class Each> struct Later {
  const Each &each;
  int m, n;
  template <class... Own> __device__ __forceinline__ void operator()(const Own &...own) {
    each(m, n)(own...);
  }
};

// each(m, n), later or at once, then with an output that is inside.
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
  const int thread = nn_opaque(threadIdx.x);  // found again, not kept while there are products
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
