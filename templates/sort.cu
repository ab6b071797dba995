//@ part("parts/head.cu")
#include "lib/sort.cuh"

//@ if k.merges then
// Two neighbouring sorted runs of a row become one; each block has a tile of the result.
//@ else
// The positions that sort each run of a row.
//@ end
constexpr int kThreads = $(k.threads);
constexpr int kItems = $(k.items);         // keys of a thread
constexpr bool kSmallest = $(k.smallest);  // the smallest elements first, or the largest
constexpr int kCount = $(k.count);         // rows
constexpr int kLength = $(k.length);       // elements of a row
constexpr int kRun = $(k.run);             // elements of a run; the last one may have fewer
using Tile = SortTile<kThreads, kItems>;
//@ if k.merges then
constexpr int kTiles = (2 * kRun + Tile::kSize - 1) / Tile::kSize;  // of two runs
constexpr int kPairs = (kLength + 2 * kRun - 1) / (2 * kRun);       // of runs of a row
//@ else
constexpr int kSlots = $(k.slots);                      // keys of a run in a tile
constexpr int kRuns = (kLength + kRun - 1) / kRun;      // of a row
constexpr int kRunsOfTile = Tile::kSize / kSlots;
//@ end

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  __shared__ Tile::Shared shared;
//@ if k.merges then
  const int i = blockIdx.x / (kPairs * kTiles), tile = blockIdx.x % (kPairs * kTiles);
  const int a0 = tile / kTiles * (2 * kRun), b0 = a0 + kRun, d = tile % kTiles * Tile::kSize;
  const int na = kLength - a0 < kRun ? kLength - a0 : kRun;
  const int nb = kLength - b0 < kRun ? (kLength > b0 ? kLength - b0 : 0) : kRun;
  if (d >= na + nb) return;
$(k.decode)
  auto place_at = [&](int e) {
$(k.decode_order)
$(k.order_loads)
$(k.order_body)
    return nn_index(int($(k.order)), kLength);
  };
  auto key_at = [&](int e) {
    const int place = place_at(e);
$(k.decode_taken)
$(k.element_loads)
$(k.element_body)
    return select_key<kSmallest>($(k.element), place);
  };
  merge_tile<Tile>(shared, a0, na, b0, nb, d, key_at);
//@ else
  auto key_at = [&](int slot) -> Key {
    const int run = int(blockIdx.x) * kRunsOfTile + slot / kSlots;
    const int i = run / kRuns, place = run % kRuns * kRun + slot % kSlots;
    if (i >= kCount || place >= kLength || slot % kSlots >= kRun) return 0;
$(k.decode)
$(k.decode_taken)
$(k.element_loads)
$(k.element_body)
    return select_key<kSmallest>($(k.element), place);
  };
  sort_tile<Tile, kSlots>(shared, key_at);
//@ end
#pragma unroll 1
  for (int slot = threadIdx.x; slot < Tile::kSize; slot += kThreads) {
    const Key key = shared.key[Tile::at(slot)];
//@ if k.merges then
    if (slot + d >= na + nb) break;
    const int rank = a0 + d + slot;
//@ else
    if (!key) continue;
    const int run = int(blockIdx.x) * kRunsOfTile + slot / kSlots;
    const int i = run / kRuns, rank = run % kRuns * kRun + slot % kSlots;
$(k.decode_out)
//@ end
    const int found = key_place(key);
$(k.decode_rank)
$(k.loads)
$(k.body)
$(k.stores)
  }
}
