// scatter.cuh: scatter-add of rows by id. A block has a table of some output rows and columns in
// shared memory; it scans all ids of its part in order and adds the rows that belong to its table.
// Each element of the table belongs to one lane, so sums are the same in every run. If the ids are
// sorted, it finds its part by two binary searches, and each group of threads adds a share of it.
#pragma once
#include "lib/arrive.cuh"
#include "lib/search.cuh"

// A table of kPlaces x kColumns. kItems: ids that a thread tests at once; kHits: rows that are read
// at once.
template <class TableSum_, int kThreads_, int kPlaces_, int kColumns_, int kItems_, int kHits_>
struct ScatterTile {
  using TableSum = TableSum_;
  static constexpr int kThreads = kThreads_, kPlaces = kPlaces_, kColumns = kColumns_;
  static constexpr int kItems = kItems_, kHits = kHits_;
  static constexpr int kWarps = kThreads / kWarp, kChunk = kThreads * kItems;  // ids
  static constexpr int kAlong = kColumns > kWarp ? kColumns / kWarp : 1;  // warps along a row
  static constexpr int kClasses = kWarps / kAlong;  // place % kClasses selects the warps
  static_assert(kWarps % kAlong == 0, "all warps have places");
  static_assert(kChunk <= 1 << 16 && kPlaces <= 1 << 15, "an int has one of each");
  struct Shared {
    TableSum table[kPlaces * kColumns];
    TableSum values[kHits * kColumns];
    int found[kChunk];  // ids in the table: index in the chunk << 15 | place
    int counts[kItems * kWarps];
    bool last;
  };
};

// Lists the ids of a chunk from e0 on, below `end`, that are in the table, in order; returns their
// number. place_of(e): the id's row in the table.
template <class Tile, class Place>
__device__ inline int find_places(typename Tile::Shared &shared, int e0, int end, Place place_of) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  int place[Tile::kItems];
  unsigned hits[Tile::kItems];
#pragma unroll
  for (int i = 0; i < Tile::kItems; ++i) {
    const int e = e0 + i * Tile::kThreads + int(threadIdx.x);
    place[i] = e < end ? place_of(e) : -1;
  }
#pragma unroll
  for (int i = 0; i < Tile::kItems; ++i) {
    hits[i] = nn_ballot(unsigned(place[i]) < unsigned(Tile::kPlaces));
    if (lane == 0) shared.counts[i * Tile::kWarps + warp] = nn_popc(hits[i]);
  }
  nn_sync();
  int total = 0;
#pragma unroll
  for (int i = 0; i < Tile::kItems; ++i) {
    int before = total;
#pragma unroll
    for (int w = 0; w < Tile::kWarps; ++w) {
      const int count = shared.counts[i * Tile::kWarps + w];
      if (w < warp) before += count;
      total += count;
    }
    if (hits[i] >> lane & 1)
      shared.found[before + nn_popc(hits[i] & ((1u << lane) - 1))] =
          (i * Tile::kThreads + int(threadIdx.x)) << 15 | place[i];
  }
  nn_sync();
  return total;
}

// Adds staged rows to the table; each warp adds those of its places, one after the other.
template <class Tile>
__device__ inline void add_found(typename Tile::Shared &shared, const int *found, int count) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int column = warp % Tile::kAlong * kWarp + lane;
  for (int first = 0; first < count; first += kWarp) {
    const int own = first + lane < count ? found[first + lane] & 0x7fff : -1;
    unsigned hits = nn_ballot(own >= 0 && own % Tile::kClasses == warp / Tile::kAlong);
    for (; hits; hits &= hits - 1) {
      const int hit = nn_popc((hits & -hits) - 1), place = nn_shfl(own, hit);
      if (column < Tile::kColumns)
        add_to(shared.table[place * Tile::kColumns + column],
               shared.values[(first + hit) * Tile::kColumns + column]);
    }
  }
}

// Computes the table over rows `begin` to below `end`. value_of(e, column): an element of a row; 0
// past the last column.
template <class Tile, class Place, class Value>
__device__ inline void scatter_rows(typename Tile::Shared &shared, int begin, int end,
                                    Place place_of, Value value_of) {
  for (int at = threadIdx.x; at < Tile::kPlaces * Tile::kColumns; at += Tile::kThreads)
    shared.table[at] = 0;
  for (int e0 = begin; e0 < end; e0 += Tile::kChunk) {
    const int total = find_places<Tile>(shared, e0, end, place_of);
    for (int first = 0; first < total; first += Tile::kHits) {
      const int count = total - first < Tile::kHits ? total - first : Tile::kHits;
#pragma unroll 4
      for (int at = threadIdx.x; at < count * Tile::kColumns; at += Tile::kThreads)
        shared.values[at] =
            value_of(e0 + (shared.found[first + at / Tile::kColumns] >> 15), at % Tile::kColumns);
      nn_sync();  // the rows are staged
      add_found<Tile>(shared, shared.found + first, count);
      nn_sync();  // the rows are added
    }
  }
}

// ---- sorted ids ---------------------------------------------------------------------------------

// kItems: rows of a thread that are read together.
template <class TableSum_, int kThreads_, int kPlaces_, int kColumns_, int kItems_>
struct SortedTile {
  using TableSum = TableSum_;
  static constexpr int kThreads = kThreads_, kPlaces = kPlaces_, kColumns = kColumns_;
  static constexpr int kItems = kItems_, kGroups = kThreads / kColumns;
  static_assert(kThreads % kColumns == 0 && kThreads >= 2 * kWarp, "whole groups, two searches");
  struct Shared {
    TableSum table[kPlaces * kColumns];
    TableSum edge[kThreads];  // the sum of a group's first place, which others may have, too
    int edge_place[kGroups];  // -1: none
    int range[2];
    bool last;
  };
};

// Adds sorted rows `begin` to below `end` to the table, for one column: the sum of each place in
// a register until the next place begins.
template <class Tile, class RowAt, class Place, class Value>
__device__ inline void add_share(typename Tile::Shared &shared, int begin, int end, int place0,
                                 RowAt row_at, Place place_of, Value value_of) {
  const int group = threadIdx.x / Tile::kColumns, column = threadIdx.x % Tile::kColumns;
  int now = -1;
  bool first = true;
  typename Tile::TableSum sum = 0;
  auto leave = [&] {  // the place `now` is complete, as far as this group has it
    if (first) {
      shared.edge[threadIdx.x] = sum;
      if (column == 0) shared.edge_place[group] = now;
    } else if (now < Tile::kPlaces) {  // always so if the ids are in order
      shared.table[now * Tile::kColumns + column] = sum;
    }
  };
  for (int p = begin; p < end; p += Tile::kItems) {
    int place[Tile::kItems];
    typename Tile::TableSum value[Tile::kItems];
#pragma unroll
    for (int i = 0; i < Tile::kItems; ++i) {
      place[i] = -1, value[i] = 0;
      if (p + i >= end) continue;
      const int row = row_at(p + i);
      place[i] = place_of(row) - place0, value[i] = value_of(row, column);
    }
#pragma unroll
    for (int i = 0; i < Tile::kItems; ++i) {
      if (p + i >= end) break;
      if (place[i] != now) {
        if (now >= 0) leave(), first = false;
        now = place[i], sum = 0;
      }
      add_to(sum, value[i]);
    }
  }
  if (now >= 0 || column == 0) leave();
}

// The table's sums of part `part` of `parts` of its rows. place0: its first place; place_of(e): the
// id of row e; row_at(p): which row has the p-th of
// `count` sorted ids.
template <class Tile, class RowAt, class Place, class Value>
__device__ inline void scatter_sorted(typename Tile::Shared &shared, int count, int part, int parts,
                                      int place0, RowAt row_at, Place place_of, Value value_of) {
  for (int at = threadIdx.x; at < Tile::kPlaces * Tile::kColumns; at += Tile::kThreads)
    shared.table[at] = 0;
  const int warp = threadIdx.x / kWarp;
  if (warp < 2) {
    const int place = place0 + warp * Tile::kPlaces;  // the rows below it precede the table's
    const int found = warp_search(0, count, [&](int p) { return place_of(row_at(p)) < place; });
    if (threadIdx.x % kWarp == 0) shared.range[warp] = found;
  }
  nn_sync();  // the table is empty, the range is there
  const int group = threadIdx.x / Tile::kColumns, all = shared.range[1] - shared.range[0];
  const int share = (all + parts * Tile::kGroups - 1) / (parts * Tile::kGroups);
  const int begin = shared.range[0] + (part * Tile::kGroups + group) * share;
  const int end = begin + share < shared.range[1] ? begin + share : shared.range[1];
  add_share<Tile>(shared, begin, end, place0, row_at, place_of, value_of);
  nn_sync();  // the groups' sums are there
  if (threadIdx.x >= Tile::kColumns) return;
  for (int g = 0; g < Tile::kGroups; ++g) {
    const int place = shared.edge_place[g];
    if (place >= 0 && place < Tile::kPlaces)
      add_to(shared.table[place * Tile::kColumns + threadIdx.x],
             shared.edge[g * Tile::kColumns + threadIdx.x]);
  }
}
