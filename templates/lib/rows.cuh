// rows.cuh: row reductions of a contraction's outputs: over the tile's columns, then over all tiles
// of these rows, in order, by the last block to arrive.
#pragma once
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"
#include "lib/tile.cuh"

// Stores a state over the staged outputs from (row, column) on, which this thread has read.
template <class State>
__device__ inline void stage_state(float *staged_out, int stride, int row, int column,
                                   const State &state) {
  static_assert(sizeof(State) <= 16, "it fits the place of four outputs");
  keep_state(staged_out + staged(stride, row, column), 1, state);
}

// Joins the staged states of a row of the tile over its first `columns` columns. Neighbouring
// threads have neighbouring rows and start at different columns, in different banks. Four chains,
// because joining two states may have the latency of a division.
template <class State, int kTileN, int kLanes>
__device__ inline State tile_row_state(const float *staged_out, int row, int columns) {
  constexpr int kAtOnce = 4;
  State states[kAtOnce];
#pragma unroll
  for (int j = 0; j < kAtOnce; ++j) clear(states[j]);
  const int count = columns / kLanes;
  int at = row % count;
  auto join = [&](State &state) {
    state = combine(state, kept_state<State>(staged_out + staged(kTileN, row, at * kLanes), 1));
    at = at + 1 < count ? at + 1 : 0;
  };
#pragma unroll 1
  for (int i = 0; i < count / kAtOnce; ++i)
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) join(states[j]);
#pragma unroll 1
  for (int i = 0; i < count % kAtOnce; ++i) join(states[0]);
  return combine(combine(states[0], states[1]), combine(states[2], states[3]));
}

// Calls each(m, state) for the rows of a tile from m0 on, below kM, in the last of the kTiles
// blocks along n to arrive. `kept` has the states of all tiles: [tiles][words][rows].
template <class State, int kM, int kTiles, int kTileM, int kThreads, class Each>
__device__ inline void join_tiles(int m0, const float *kept, int *arrived, bool *last, Each each) {
  constexpr int kWords = int(sizeof(State) / 4);
  if (!last_to_arrive(arrived + m0 / kTileM, kTiles, last)) return;
  for (int row = threadIdx.x; row < kTileM; row += kThreads) {
    if (kM % kTileM && m0 + row >= kM) break;
    State state;
    clear(state);
#pragma unroll 4
    for (int tile = 0; tile < kTiles; ++tile)
      state = combine(state, kept_state<State>(kept + tile * (kWords * kM) + m0 + row, kM));
    each(m0 + row, state);
  }
}

// Stores the state of row m of the tile at column n0; if the tile has all columns, calls
// each(m, state) instead.
template <int kM, int kTiles, int kTileN, class State, class Each>
__device__ inline void leave_row(int m, int n0, float *kept, const State &state, Each each) {
  if constexpr (kTiles == 1)
    each(m, state);
  else
    keep_state(kept + n0 / kTileN * (int(sizeof(State) / 4) * kM) + m, kM, state);
}

// Calls each(m, state) for the rows of the staged tile from m0 on, below kM, with the states of
// whole rows; with several tiles along n only in the last block to arrive. `kept` has room for a
// state per tile and row.
template <class State, int kM, int kN, int kTileM, int kTileN, int kLanes, int kThreads, class Each>
__device__ inline void each_row_state(const float *staged_out, int m0, int n0, float *kept,
                                      int *arrived, bool *last, Each each) {
  constexpr int kTiles = (kN + kTileN - 1) / kTileN;
  const int columns = kN - n0 < kTileN ? kN - n0 : kTileN;
  for (int row = threadIdx.x; row < kTileM; row += kThreads) {
    if (kM % kTileM && m0 + row >= kM) break;
    leave_row<kM, kTiles, kTileN>(m0 + row, n0, kept,
                                  tile_row_state<State, kTileN, kLanes>(staged_out, row, columns),
                                  each);
  }
  if constexpr (kTiles > 1)
    join_tiles<State, kM, kTiles, kTileM, kThreads>(m0, kept, arrived, last, each);
}
