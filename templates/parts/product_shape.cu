//@ -- product_shape.cu: of a product, its size, its tiles, what its columns and rows are reduced to.
constexpr int kN = $(k.n);
constexpr int kTileM = $(k.tile_m), kTileN = $(k.tile_n);
constexpr int kWarpM = $(k.warp_m), kWarpN = $(k.warp_n);  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = $(k.stages);
constexpr int kThreads = $(k.threads);
constexpr int kBlocksPerSm = $(k.blocks);
constexpr int kLanes = $(k.lanes);  // neighbouring outputs per thread in the epilogue
using T = $(k.operand);             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
//@ local phased = #k.phases > 1
//@ if phased then
constexpr int kM = $(k.m), kK = $(k.k);  // each phase has a multiple of them
constexpr int kTilesM = $(k.tiles_m);  // of all phases

// The products of results at one distance from a multiple of the stride.
struct Phase {
  int first, m, k;  // its first tile along m, its rows, its k
//@ if k.members ~= "" then
  int $(k.members);
//@ end
};

// That of tile `tile` along m.
__device__ __forceinline__ Phase phase_of(int tile) {
//@ for i, phase in ipairs(k.phases) do
//@ local next = k.phases[i + 1]
  $(next and ("if (tile < %d) "):format(next.first) or "")return {$(phase.values)};
//@ end
}
//@ else
constexpr int kM = $(k.m), kK = $(k.k), kTilesM = (kM + kTileM - 1) / kTileM;
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
//@ end
constexpr int kSplits = $(k.splits), kBatch = $(k.batch);  // parts of k, each a block's; products
//@ if k.splits > 1 then
constexpr int kPartGroup = $(k.part_group);  // of parts, whose sums are added first
constexpr int kPartCounts = $(k.part_counts);  // counters of a tile
//@ end
//@ if k.columns then

// What the columns of the outputs are reduced to.
$(k.columns.states)
// Threads from one to the next one with the same columns.
constexpr int kApart = $(k.own and "4" or "kTileN / kLanes");
constexpr int kMeeting = $(k.columns.meeting);  // blocks, each with states of the same columns
constexpr int kGroup = $(k.columns.group);  // of these, whose states are joined first; all: at once
using Columns = ColumnStates<$(k.columns.type), kThreads, kTileN, kApart, kMeeting, kGroup>;
//@ end
//@ if k.row_states then

// Statistics of rows of the outputs.
$(k.row_states.states)
//@ end
//@ if k.begins then

// Rows of the left operand, which all blocks make before they multiply.
constexpr int kJobs = $(k.begins.jobs);
constexpr int kRuns = $(k.begins.runs);  // of a job, of $(k.begins.rows) rows each
$(k.begins.states)
//@ end
using Product = $(k.prefix)Tile<T, kWarpM, kWarpN$(k.across)>;
constexpr int kSteps = kRowBytes / Product::kStepBytes;
static_assert(Product::kStepBytes == $(k.step) && Product::kInFlight == $(k.in_flight),
              "the planner's figures");
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
//@ if k.walks then

// Where a tile begins; those of each product of the batch follow each other.
constexpr int kTiles = kTilesM * kTilesN * kBatch;
struct Place {
  int m0, n0, batch;
};
__device__ __forceinline__ Place place_of(int tile) {
  constexpr int kOfOne = kTilesM * kTilesN;
  const TileOrder<kTilesM, kTilesN> at(kBatch == 1 ? tile : tile % kOfOne);
  return {at.m * kTileM, at.n * kTileN, kBatch == 1 ? 0 : tile / kOfOne};
}
//@ end
