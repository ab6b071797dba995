// sort.cuh: keys (lib/select.cuh) of a block's tile, the largest first: each thread sorts
// neighbours in registers, then sorted runs are merged in pairs. A thread finds by binary search
// which elements of two runs its share of the result consists of (after Green, Odeh and Birk,
// "Merge Path", 2014), so that all threads merge equal numbers.
#pragma once
#include "lib/search.cuh"
#include "lib/select.cuh"

template <int kThreads_, int kItems_> struct SortTile {
  static constexpr int kThreads = kThreads_, kItems = kItems_;  // neighbouring keys of a thread
  static constexpr int kSize = kThreads * kItems;
  static constexpr int kBankRow = 16;  // keys in all banks; one more follows, against conflicts
  struct Shared {
    Key key[kSize + kSize / kBankRow];
    int split[2];
  };
  static __device__ int at(int i) { return i + i / kBankRow; }
};

// Odd-even transposition: compares neighbours, kItems times.
template <int kItems> __device__ inline void sort_thread(Key (&key)[kItems]) {
#pragma unroll
  for (int round = 0; round < kItems; ++round)
#pragma unroll
    for (int i = round % 2; i + 1 < kItems; i += 2)
      if (key[i + 1] > key[i]) {
        const Key larger = key[i + 1];
        key[i + 1] = key[i], key[i] = larger;
      }
}

// How many of the first `d` keys of two merged runs are of run a: its keys a0 to a0 + na - 1 of the
// tile; those of b follow b0.
template <class Tile>
__device__ inline int merged_from(const typename Tile::Shared &shared, int a0, int na, int b0,
                                  int nb, int d) {
  int low = d > nb ? d - nb : 0, high = d < na ? d : na;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (shared.key[Tile::at(a0 + middle)] > shared.key[Tile::at(b0 + d - 1 - middle)])
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The thread's keys: d to d + kItems - 1 of two merged runs; 0 after their end.
template <class Tile>
__device__ inline void merge_items(Key (&own)[Tile::kItems], const typename Tile::Shared &shared,
                                   int a0, int na, int b0, int nb, int d) {
  if (d > na + nb) d = na + nb;
  int a = merged_from<Tile>(shared, a0, na, b0, nb, d), b = d - a;
  Key of_a = a < na ? shared.key[Tile::at(a0 + a)] : 0;
  Key of_b = b < nb ? shared.key[Tile::at(b0 + b)] : 0;
#pragma unroll
  for (int j = 0; j < Tile::kItems; ++j) {
    const bool first = of_a > of_b;
    own[j] = first ? of_a : of_b;
    const int next = first ? ++a : ++b;
    const bool more = next < (first ? na : nb);
    const Key key = more ? shared.key[Tile::at((first ? a0 : b0) + next)] : 0;
    if (first) of_a = key;
    else of_b = key;
  }
}

template <class Tile>
__device__ inline void put_items(const Key (&own)[Tile::kItems], typename Tile::Shared &shared) {
#pragma unroll
  for (int j = 0; j < Tile::kItems; ++j)
    shared.key[Tile::at(int(threadIdx.x) * Tile::kItems + j)] = own[j];
  nn_sync();
}

// Sorts each kRun keys of the tile, a power of two; key_at(i): key i, 0 if there is none.
template <class Tile, int kRun, class KeyAt>
__device__ inline void sort_tile(typename Tile::Shared &shared, KeyAt key_at) {
  static_assert(kRun >= Tile::kItems && Tile::kSize % kRun == 0, "whole runs of whole threads");
  constexpr int kItems = Tile::kItems;
  const int first = int(threadIdx.x) * kItems;
  Key own[kItems];
#pragma unroll
  for (int j = 0; j < kItems; ++j) {
    const int i = j * Tile::kThreads + int(threadIdx.x);
    shared.key[Tile::at(i)] = key_at(i);
  }
  nn_sync();
#pragma unroll
  for (int j = 0; j < kItems; ++j) own[j] = shared.key[Tile::at(first + j)];
  sort_thread(own);
  nn_sync();  // the unsorted keys have been read
  put_items<Tile>(own, shared);
#pragma unroll 1
  for (int width = kItems; width < kRun; width *= 2) {
    const int a0 = first / (2 * width) * (2 * width);
    merge_items<Tile>(own, shared, a0, width, a0 + width, width, first - a0);
    nn_sync();  // the shorter runs have been read
    put_items<Tile>(own, shared);
  }
}

// merged_from() of runs in memory, for all lanes of a warp.
template <class KeyAt>
__device__ inline int merged_from_memory(int a0, int na, int b0, int nb, int d, KeyAt key_at) {
  const int low = d > nb ? d - nb : 0, high = d < na ? d : na;
  return warp_search(low, high, [&](int i) { return key_at(a0 + i) > key_at(b0 + d - 1 - i); });
}

// The tile's keys: those from `d` on of two merged runs in memory, 0 after their end: na from a0
// on, nb from b0 on. key_at(e): of element e.
template <class Tile, class KeyAt>
__device__ inline void merge_tile(typename Tile::Shared &shared, int a0, int na, int b0, int nb,
                                  int d, KeyAt key_at) {
  const int end = na + nb < d + Tile::kSize ? na + nb : d + Tile::kSize;
  const int warp = threadIdx.x / kWarp;
  for (int side = warp; side < 2; side += Tile::kThreads / kWarp) {
    const int split = merged_from_memory(a0, na, b0, nb, side ? end : d, key_at);
    if (threadIdx.x % kWarp == 0) shared.split[side] = split;
  }
  nn_sync();
  const int a = shared.split[0], of_a = shared.split[1] - a, count = end - d;
#pragma unroll
  for (int j = 0; j < Tile::kItems; ++j) {
    const int i = j * Tile::kThreads + int(threadIdx.x);
    if (i < count) shared.key[Tile::at(i)] = key_at(i < of_a ? a0 + a + i : b0 + d - a + i - of_a);
  }
  nn_sync();
  Key own[Tile::kItems];
  merge_items<Tile>(own, shared, 0, of_a, of_a, count - of_a, int(threadIdx.x) * Tile::kItems);
  nn_sync();  // both runs have been read
  put_items<Tile>(own, shared);
}
