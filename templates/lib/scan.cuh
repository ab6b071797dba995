// scan.cuh: inclusive prefix scans of rows. A block processes its rows in chunks; in a chunk each
// owner (a warp along the row, or a single thread) scans a run of neighbours in registers, then the
// owners' totals are scanned: an element takes at most a few dozen additions per 16 chunks. Split
// rows: each block reduces its part, stores the result, and joins the results of all parts before
// it in a fixed order (after Merrill and Garland, "Single-pass parallel prefix scan with decoupled
// look-back", 2016, except that each block reads all parts, so every run gives the same bits).
#pragma once

template <int kThreads, int kColumns_, int kItems_, int kLanes_, bool kTogether_> struct ScanTile {
  static constexpr int kColumns = kColumns_, kItems = kItems_, kLanes = kLanes_;
  static constexpr bool kTogether = kTogether_;
  static constexpr int kRows = kThreads / kColumns;                  // threads per row
  static constexpr int kOwners = kTogether ? kRows / kWarp : kRows;  // per row
  static constexpr int kStep = kTogether ? kWarp * kLanes : 1;       // elements per access
  static constexpr int kRun = kItems * kStep, kChunk = kOwners * kRun;
  static_assert(kTogether || kLanes == 1, "lanes lie along the row");
  static_assert(!kTogether || kRows % kWarp == 0, "a warp has one row");
  static __device__ int column() {
    return kTogether ? threadIdx.x / kRows : threadIdx.x % kColumns;
  }
  static __device__ int row() { return kTogether ? threadIdx.x % kRows : threadIdx.x / kColumns; }
  static __device__ int owner() { return kTogether ? row() / kWarp : row(); }
  static __device__ int lane() { return kTogether ? threadIdx.x % kWarp : 0; }
};

template <class State> __device__ inline State shuffle_up(const State &state, int by) {
  static_assert(sizeof(State) % 4 == 0, "fields of four bytes");
  State other;
  const unsigned *from = reinterpret_cast<const unsigned *>(&state);
  unsigned *to = reinterpret_cast<unsigned *>(&other);
#pragma unroll
  for (int w = 0; w < int(sizeof(State) / 4); ++w) to[w] = nn_shfl_up(from[w], by);
  return other;
}

template <class State> __device__ inline State last_of_warp(const State &state) {
  State other;
  const unsigned *from = reinterpret_cast<const unsigned *>(&state);
  unsigned *to = reinterpret_cast<unsigned *>(&other);
#pragma unroll
  for (int w = 0; w < int(sizeof(State) / 4); ++w) to[w] = nn_shfl(from[w], kWarp - 1);
  return other;
}

// Scans the states of a warp, kLanes neighbours per lane, starting from `before`; returns the last.
template <int kLanes, class State>
__device__ inline State scan_warp(State (&one)[kLanes], const State &before) {
#pragma unroll
  for (int j = 1; j < kLanes; ++j) one[j] = combine(one[j - 1], one[j]);
  const int lane = threadIdx.x % kWarp;
  State sum = one[kLanes - 1];
#pragma unroll
  for (int by = 1; by < kWarp; by *= 2) {
    const State other = shuffle_up(sum, by);
    if (lane >= by) sum = combine(other, sum);
  }
  const State others = shuffle_up(sum, 1);
  const State prefix = lane ? combine(before, others) : before;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) one[j] = combine(prefix, one[j]);
  return combine(before, last_of_warp(sum));
}

// Scans elements `begin` to below `end` of a block's rows, starting from `carry`: take(e, one)
// loads the states of kLanes neighbours, put(e, all) stores the scanned ones. `shared` has room for
// a state per thread. Called by all threads of the block.
template <class Tile, class State, class Take, class Put>
__device__ inline void scan_range(State carry, State *shared, int begin, int end, Take take,
                                  Put put) {
  constexpr int kItems = Tile::kItems, kLanes = Tile::kLanes, kLevel = 16;
  const int column = Tile::column(), owner = Tile::owner();
  State level;  // chunks since the last join with the carry
  clear(level);
  int chunks = 0;
  for (int chunk = begin; chunk < end; chunk += Tile::kChunk) {
    const int first = chunk + owner * Tile::kRun + Tile::lane() * kLanes;
    State one[kItems][kLanes], total;
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) clear(one[item][j]);
      if (first + item * Tile::kStep < end) take(first + item * Tile::kStep, one[item]);
    }
    clear(total);
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
      if constexpr (Tile::kTogether)
        total = scan_warp(one[item], total);
      else
        one[item][0] = total = combine(total, one[item][0]);
    }
    State before = combine(carry, level);
    if constexpr (Tile::kOwners > 1) {
      if (chunk != begin) nn_sync();  // all have read the last chunk's totals
      if (Tile::lane() == 0) shared[owner * Tile::kColumns + column] = total;
      nn_sync();
      State others;
      clear(others), clear(total);
      for (int o = 0; o < Tile::kOwners; ++o) {
        if (o == owner) others = total;
        total = combine(total, shared[o * Tile::kColumns + column]);
      }
      before = combine(before, others);
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item) {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) one[item][j] = combine(before, one[item][j]);
      if (first + item * Tile::kStep < end) put(first + item * Tile::kStep, one[item]);
    }
    level = combine(level, total);
    if (++chunks % kLevel) continue;
    carry = combine(carry, level);
    clear(level);
  }
}

// ---- split rows: counts[0] assigns turns, counts[1] counts finished blocks, counts[2 + turn] is
// set when that block's part is reduced. All are 0 before and after a launch.

// The turn of this block. Blocks with earlier turns are running already, so waiting is safe.
__device__ inline int take_turn(int *counts, int *turn) {
  if (threadIdx.x == 0) *turn = nn_atomic_add(counts, 1);
  nn_sync();
  return *turn;
}

// Reduces this part, then joins the states of the parts before it and returns the result. `kept`
// has room for a state per row and part; `first` is the turn of the row's first part.
template <class Tile, class State, class Take>
__device__ inline State before_part(State *shared, State *kept, int *counts, int count, int i,
                                    bool inside, int part, int begin, int end, int first,
                                    Take take) {
  constexpr int kDepth = Tile::kItems, kLanes = Tile::kLanes;
  const int row = Tile::row(), column = Tile::column();
  int *marks = counts + 2 + first;
  State acc[1];
  accumulate<1, kLanes, kDepth, State>(acc, begin + row * kLanes, end, Tile::kRows * kLanes, take);
  join_rows<Tile::kRows, Tile::kColumns, Tile::kTogether>(acc, shared, row, column);
  if (row == 0 && inside) kept[part * count + i] = acc[0];
  nn_fence_device();
  nn_sync();
  if (threadIdx.x == 0) nn_atomic_add(marks + part, 1);
  for (int p = threadIdx.x; p < part; p += blockDim.x)
    while (nn_atomic_add(marks + p, 0) == 0) {
    }
  nn_fence_device();
  nn_sync();
  clear(acc[0]);
  for (int p = row; p < part; p += Tile::kRows) acc[0] = combine(acc[0], kept[p * count + i]);
  join_rows<Tile::kRows, Tile::kColumns, Tile::kTogether>(acc, shared, row, column);
  nn_sync();
  if (row == 0) shared[column] = acc[0];
  nn_sync();
  const State before = shared[column];
  nn_sync();
  return before;
}

// The last block to finish resets the counts.
__device__ inline void clear_turns(int *counts, int blocks, int *turn) {
  nn_sync();
  if (threadIdx.x == 0) *turn = nn_atomic_add(counts + 1, 1);
  nn_sync();
  if (*turn != blocks - 1) return;
  for (int b = threadIdx.x; b < blocks + 2; b += blockDim.x) counts[b] = 0;
}
