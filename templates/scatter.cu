//@ part("parts/head.cu")
#include "lib/scatter.cuh"

// out[b, place, column] = sum of rows[b, e, column] over all e with ids[b, e] = place, then the
// epilogue.
constexpr int kThreads = $(k.threads);
constexpr int kBlocksPerSm = 4;  // at least; without this, ptxas spills registers for more of them
constexpr int kPlaces = $(k.places);  // rows of a block's table
constexpr int kColumns = $(k.columns);  // and its columns
//@ if k.sorted then
constexpr int kItems = $(k.hits);  // rows that a thread reads at once
//@ else
constexpr int kItems = $(k.items);  // ids that a thread tests at once
constexpr int kHits = $(k.hits);  // rows that are read at once
//@ end
constexpr int kCount = $(k.count);  // ids, and their rows
constexpr int kSize = $(k.size);  // rows of the output
constexpr int kWidth = $(k.width);  // columns of the output
constexpr int kAcross = (kWidth + kColumns - 1) / kColumns;  // tables along a row
constexpr int kTables = (kSize + kPlaces - 1) / kPlaces * kAcross;  // per batch
//@ if k.parts > 1 then
constexpr int kParts = $(k.parts);  // blocks that share a table
//@ if not k.sorted then
constexpr int kPart = $(k.part);  // ids per block
//@ end
constexpr int kPartGroup = $(k.part_group);  // parts whose sums are added first
constexpr int kPartCounts = $(k.part_counts);  // counters per table
constexpr int kInFlight = 8;  // loads of partial sums; with 16, kernels bound by kBlocksPerSm spill
//@ end
//@ if k.sorted then
using Tile = SortedTile<$(k.sum), kThreads, kPlaces, kColumns, kItems>;
//@ else
using Tile = ScatterTile<$(k.sum), kThreads, kPlaces, kColumns, kItems, kHits>;
//@ end
static_assert(sizeof(Tile::Shared) <= $(k.smem), "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) $(k.name)(
$(k.params)) {
  NN_SMEM(Tile::Shared, smem);
//@ if k.parts > 1 then
  const int table = blockIdx.x / kParts, part = blockIdx.x % kParts;
//@ else
  const int table = blockIdx.x;
//@ end
//@ if not k.sorted then
//@ if k.parts > 1 then
  const int begin = part * kPart, end = kCount - begin < kPart ? kCount : begin + kPart;
//@ else
  const int begin = 0, end = kCount;
//@ end
//@ end
  [[maybe_unused]] const int b = table / kTables;
  const int place0 = table % kTables / kAcross * kPlaces, column0 = table % kAcross * kColumns;
//@ if k.sorted then
  auto row_at = [&](int p) {  // which row has the p-th of the sorted ids
$(k.order_loads)
$(k.order_body)
    return nn_index(int($(k.order)), kCount);
  };
//@ end
  auto place_of = [&](int e) {
$(k.place_loads)
$(k.place_body)
    return int($(k.place))$(k.sorted and "" or " - place0");
  };
  auto value_of = [&](int e, int from_first) -> Tile::TableSum {
    const int column = column0 + from_first;
    if (kWidth % kColumns && column >= kWidth) return 0;
$(k.value_loads)
$(k.value_body)
    return $(k.value);
  };
//@ if k.sorted then
  scatter_sorted<Tile>(smem, kCount, $(k.parts > 1 and "part, kParts" or "0, 1"), place0, row_at,
                       place_of, value_of);
//@ else
  scatter_rows<Tile>(smem, begin, end, place_of, value_of);
//@ end
//@ if k.parts > 1 then
  nn_sync();  // the table is complete
  Tile::TableSum *sums = reinterpret_cast<Tile::TableSum *>(own_sums);
  sums += table * (kParts * kPlaces * kColumns);
  int *arrived = own_arrived + table * kPartCounts;
  if (!sum_parts<kThreads, kPlaces * kColumns, kParts, kPartGroup, kInFlight>(
          smem.table, sums, part, arrived, &smem.last)) return;
//@ else
  nn_sync();  // the table is complete
//@ end
  for (int at = threadIdx.x; at < kPlaces * kColumns; at += kThreads) {
    const int row = place0 + at / kColumns, column = column0 + at % kColumns;
    if ((kSize % kPlaces && row >= kSize) || (kWidth % kColumns && column >= kWidth)) continue;
    const Tile::TableSum found = smem.table[at];
$(k.loads)
$(k.body)
$(k.stores)
  }
}
