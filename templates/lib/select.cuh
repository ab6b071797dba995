// select.cuh: top-k: the kBest largest or smallest elements of a row, in order. An element is a
// 64-bit key: its value's order in the upper half, its index in the lower, so that keys differ and
// the result does not depend on the order of processing. Each warp keeps its best keys in
// registers, sorted across lanes; keys that beat the last of them are queued in shared memory, and
// sorted and merged by bitonic networks 32 at a time (WarpSelect of Johnson, Douze and Jegou,
// "Billion-scale similarity search with GPUs", 2017). Warps that share a row merge in pairs, blocks
// through global memory.
#pragma once

using Key = unsigned long long;  // 0: none

// Maps values to unsigned numbers of the same order; NaN is the largest, -0 equals 0.
NN_DEV unsigned select_order(float x) {
  const unsigned bits = nn_bits(x + 0.f);
  return nn_isnan(x) ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
}
NN_DEV unsigned select_order(int x) { return unsigned(x) ^ 0x80000000u; }
// Larger values (kSmallest: smaller ones) have larger keys; of equal values the lower index.
template <bool kSmallest, class T> __device__ inline Key select_key(T x, int place) {
  const unsigned order = select_order(x);
  return Key(kSmallest ? ~order : order) << 32 | unsigned(~place);
}
NN_DEV int key_place(Key key) { return int(~unsigned(key)); }

template <int kThreads_, int kColumns_, int kItems_, int kLanes_, int kBest_, bool kTogether_>
struct SelectTile {
  static constexpr int kThreads = kThreads_, kColumns = kColumns_, kItems = kItems_,
                       kLanes = kLanes_, kBest = kBest_;
  static constexpr bool kTogether = kTogether_;
  static constexpr int kWarps = kThreads / kWarp / kColumns;  // per row
  // Keys per lane; the rank of a key is slot * kWarp + lane.
  static constexpr int kSlots = (kBest + kWarp - 1) / kWarp;
  static constexpr int kStep = kWarp * kItems * kLanes;  // elements per warp and step
  static constexpr int kWaiting = 2 * kWarp;
  // Padding: the halves of a warp write to different banks.
  static constexpr int kPad = kColumns < 16 ? 16 / kColumns : 1;
  static_assert(kTogether || (kLanes == 1 && kWarps == 1),
                "rows across memory come through shared memory");
  struct Best { Key key[kSlots]; };  // largest first
  struct Shared {
    Key waiting[kThreads / kWarp][kWaiting];  // queues; at the end lists to be merged
    Key staged[kTogether ? 1 : kColumns][kTogether ? 1 : kStep + kPad];
    bool last;
  };
  static __device__ int warp() { return threadIdx.x / kWarp; }
  static __device__ int column() { return warp() / kWarps; }
  static __device__ int warp_of_row() { return warp() % kWarps; }
};

// Compare-exchange with the lane at distance `by`: returns the larger key, or the smaller one.
NN_DEV Key exchanged(Key key, int by, bool larger) {
  const Key other = nn_shfl_xor(key, by);
  return (other > key) == larger ? other : key;
}

// Sorts the keys of a warp, the smallest in lane 0.
NN_DEV Key sort_warp(Key key) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int size = 2; size <= kWarp; size *= 2)
#pragma unroll
    for (int by = size / 2; by > 0; by /= 2) {
      const bool rises = size == kWarp || (lane & size) == 0;
      key = exchanged(key, by, ((lane & by) == 0) != rises);
    }
  return key;
}

// Sorts a bitonic sequence of keys, the largest first.
template <int kSlots> __device__ inline void sort_bitonic(Key (&key)[kSlots]) {
  static_assert(kSlots <= 2, "64 keys");
  const int lane = threadIdx.x % kWarp;
  if constexpr (kSlots == 2)
    if (key[1] > key[0]) {
      const Key larger = key[1];
      key[1] = key[0], key[0] = larger;
    }
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot)
#pragma unroll
    for (int by = kWarp / 2; by > 0; by /= 2)
      key[slot] = exchanged(key[slot], by, (lane & by) == 0);
}

template <int kSlots> __device__ inline void clear_best(Key (&key)[kSlots]) {
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) key[slot] = 0;
}

// Merges a list in memory into `key`, both sorted largest first; keeps the best.
template <int kSlots> __device__ inline void merge_list(Key (&key)[kSlots], const Key *list) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int slot = 0; slot < kSlots; ++slot) {
    const Key other = list[kSlots * kWarp - 1 - (slot * kWarp + lane)];
    if (other > key[slot]) key[slot] = other;
  }
  sort_bitonic(key);
}

// One warp's search: its best keys so far, and its queue.
template <class Tile> struct Search {
  static constexpr int kLast = Tile::kSlots - 1;
  Key (&best)[Tile::kSlots];
  Key *waiting;  // in shared memory
  int count;
  Key least;  // the kBest-th key: smaller ones are skipped

  // Called by all lanes: queues the key if it is larger than `least`.
  __device__ void offer(Key key) {
    const bool passes = key > least;
    const unsigned passing = nn_ballot(passes);
    if (!passing) return;
    const int lane = threadIdx.x % kWarp;
    if (passes) waiting[count + nn_popc(passing & ((1u << lane) - 1))] = key;
    count += nn_popc(passing);
    if (count < kWarp) return;
    take(kWarp);
    count -= kWarp;
    if (lane < count) waiting[lane] = waiting[kWarp + lane];  // keys that remain
    nn_syncwarp();
  }
  // Merges the first `keys` queued keys.
  __device__ void take(int keys) {
    const int lane = threadIdx.x % kWarp;
    nn_syncwarp();
    const Key rising = sort_warp(lane < keys ? waiting[lane] : 0);  // all have read theirs
    if (rising > best[kLast]) best[kLast] = rising;
    sort_bitonic(best);
    least = nn_shfl(best[kLast], (Tile::kBest - 1) % kWarp);
  }
  __device__ void finish() {
    if (count) take(count);
    nn_syncwarp();
  }
};

// Merges the lists of the warps that share a row, in pairs; warp 0 of the row has the result.
template <class Tile>
__device__ inline void merge_warps(typename Tile::Best &best, typename Tile::Shared &shared) {
  const int warp = Tile::warp_of_row(), lane = threadIdx.x % kWarp;
#pragma unroll
  for (int half = Tile::kWarps / 2; half > 0; half /= 2) {
    if (warp >= half && warp < 2 * half)
#pragma unroll
      for (int slot = 0; slot < Tile::kSlots; ++slot)
        shared.waiting[Tile::warp()][slot * kWarp + lane] = best.key[slot];
    nn_sync();
    if (warp < half) merge_list(best.key, shared.waiting[Tile::warp() + half]);
  }
}

// The best of elements `begin` to below `end` of each row, in warp 0 of the row; take(column, e,
// one) loads the keys of kLanes neighbours of a row. Called by all threads of the block.
template <class Tile, class Take>
__device__ inline void select_range(typename Tile::Best &best, typename Tile::Shared &shared,
                                    int begin, int end, Take take) {
  constexpr int kItems = Tile::kItems, kLanes = Tile::kLanes;
  const int lane = threadIdx.x % kWarp;
  clear_best(best.key);
  Search<Tile> search = {best.key, shared.waiting[Tile::warp()], 0, 0};
  for (int chunk = begin; chunk < end; chunk += Tile::kStep * Tile::kWarps) {
    Key one[kItems][kLanes];
    if constexpr (Tile::kTogether) {
      const int first = chunk + Tile::warp_of_row() * Tile::kStep + lane * kLanes;
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        clear_best(one[item]);
        const int e = first + item * kWarp * kLanes;
        if (e < end) take(Tile::column(), e, one[item]);
      }
    } else {  // neighbours in memory are in different rows: transpose in shared memory
      const int column = threadIdx.x % Tile::kColumns, place = threadIdx.x / Tile::kColumns;
      Key read[kItems][1];
#pragma unroll
      for (int item = 0; item < kItems; ++item) {
        clear_best(read[item]);
        if (chunk + item * kWarp + place < end)
          take(column, chunk + item * kWarp + place, read[item]);
      }
      nn_sync();  // all have read the last chunk
#pragma unroll
      for (int item = 0; item < kItems; ++item)
        shared.staged[column][item * kWarp + place] = read[item][0];
      nn_sync();
#pragma unroll
      for (int item = 0; item < kItems; ++item)
        one[item][0] = shared.staged[Tile::column()][item * kWarp + lane];
    }
#pragma unroll
    for (int item = 0; item < kItems; ++item)
#pragma unroll
      for (int j = 0; j < kLanes; ++j) search.offer(one[item][j]);
  }
  search.finish();
  merge_warps<Tile>(best, shared);
}

// Merges the lists of kParts blocks, by the last block to arrive: true in that block. `kept` has
// room for a list per row and part.
template <class Tile, int kParts>
__device__ inline bool select_parts(typename Tile::Best &best, typename Tile::Shared &shared,
                                    Key *kept, int count, int part, int i, bool inside,
                                    int *arrived) {
  constexpr int kList = Tile::kSlots * kWarp;
  const int warp = Tile::warp_of_row(), lane = threadIdx.x % kWarp;
  if (warp == 0 && inside)
#pragma unroll
    for (int slot = 0; slot < Tile::kSlots; ++slot)
      kept[(part * count + i) * kList + slot * kWarp + lane] = best.key[slot];
  if (!last_to_arrive(arrived, kParts, &shared.last)) return false;
  clear_best(best.key);
  for (int p = warp; p < kParts; p += Tile::kWarps)
    merge_list(best.key, kept + (p * count + i) * kList);
  merge_warps<Tile>(best, shared);
  return true;
}
