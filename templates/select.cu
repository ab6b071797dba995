//@ part("parts/head.cu")
#include "lib/arrive.cuh"
#include "lib/select.cuh"

constexpr int kThreads = $(k.threads);
constexpr int kColumns = $(k.columns);     // rows per block
constexpr int kLanes = $(k.vector);        // neighbouring elements per access
constexpr bool kTogether = $(k.together);  // rows are innermost in memory: a warp reads along them
constexpr int kItems = $(k.items);         // accesses in flight per thread
constexpr int kBest = $(k.best);           // elements to find in each row
constexpr bool kSmallest = $(k.smallest);  // the smallest elements, or the largest
constexpr int kCount = $(k.count);         // rows
constexpr int kLength = $(k.length);       // elements per row
constexpr int kParts = $(k.parts);         // blocks that share a row
constexpr int kPart = $(k.part);           // elements per part

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  using Tile = SelectTile<kThreads, kColumns, kItems, kLanes, kBest, kTogether>;
  __shared__ Tile::Shared shared;
  const int part = blockIdx.x % kParts, group = blockIdx.x / kParts;
  const int begin = part * kPart;
  const int end = kLength - begin < kPart ? kLength : begin + kPart;
  auto take = [&](int column, int e, Key (&one)[kLanes]) {
    const int row = group * kColumns + column;
    const int i = row < kCount ? row : kCount - 1;  // threads past the end repeat the last row
$(k.decode_taken)
$(k.element_loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(k.element_body)
    }
  };
  Tile::Best best;
  select_range<Tile>(best, shared, begin, end, take);
  const int row = group * kColumns + Tile::column();
  const int i = row < kCount ? row : kCount - 1;
//@ if k.parts > 1 then
  if (!select_parts<Tile, kParts>(best, shared, reinterpret_cast<Key *>(own_keys), kCount, part, i,
                                  row < kCount, own_arrived + group))
    return;
//@ end
  if (Tile::warp_of_row() != 0 || row >= kCount) return;
$(k.decode)
#pragma unroll
  for (int slot = 0; slot < Tile::kSlots; ++slot) {
    const int rank = slot * kWarp + threadIdx.x % kWarp;
    if (rank >= kBest) break;
    const int found = key_place(best.key[slot]);
$(k.decode_rank)
$(k.loads)
$(k.body)
$(k.stores)
  }
}
