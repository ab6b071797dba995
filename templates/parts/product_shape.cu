//@ -- product_shape.cu: a contraction's size, its tiles, and its column and row reductions.
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
constexpr int kM = $(k.m), kK = $(k.k);  // phase.m and phase.k are multiples
constexpr int kTilesM = $(k.tiles_m);  // of all phases

// Outputs of a strided dgrad whose position has one remainder modulo the stride.
struct Phase {
  int first, m, k;  // first tile along m; rows; length of k
//@ if k.members ~= "" then
  int $(k.members);
//@ end
};

// The phase of tile `tile` along m.
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
constexpr int kSplits = $(k.splits), kBatch = $(k.batch);  // split-K blocks per tile; batch
//@ if k.splits > 1 then
constexpr int kPartGroup = $(k.part_group);  // splits whose sums are added first
constexpr int kPartCounts = $(k.part_counts);  // counters per tile
//@ end
//@ if k.columns then

// Column reductions of the outputs.
$(k.columns.states)
// Distance, in threads, between threads with the same columns.
constexpr int kApart = $(k.own and "4" or "kTileN / kLanes");
constexpr int kMeeting = $(k.columns.meeting);  // blocks with states of the same columns
constexpr int kGroup = $(k.columns.group);  // blocks joined first; kMeeting: all at once
using Columns = ColumnStates<$(k.columns.type), kThreads, kTileN, kApart, kMeeting, kGroup>;
//@ end
//@ if k.row_states then

// Statistics of rows of the outputs.
$(k.row_states.states)
//@ end
//@ if k.begins then

// Fused prologue: rows of the left operand, which all blocks compute before they multiply.
constexpr int kJobs = $(k.begins.jobs);
constexpr int kRuns = $(k.begins.runs);  // runs per job, of $(k.begins.rows) rows each
$(k.begins.states)
//@ end
using Product = $(k.prefix)Tile<T, kWarpM, kWarpN$(k.across)>;
//@ if phased then
constexpr int kLastSteps = kRowBytes / Product::kStepBytes;  // zeros fill a phase's last block
//@ else
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;
//@ end
static_assert(Product::kStepBytes == $(k.step) && Product::kInFlight == $(k.in_flight),
              "the planner's figures");
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
constexpr bool kFull = $(k.full);    // every split has blocks of k
constexpr bool kWalks = $(k.walks);  // blocks continue with other tiles
constexpr bool kHidden = $((phased or k.walks) and "true" or "kBlocks > 2");  // trip count
// Of accumulators this large, unrolled short loops do not leave enough registers.
constexpr bool kRolled = Product::kInFlight == 0 && kWarpM * kWarpN >= 56 * 64;
using Loop = Pipeline<Product, kStages, kLastSteps, kFull, kWalks, kHidden, kRolled>;

// Where a block works: its tile and split of k, with the tile's first row and column, and the
// blocks of k from `first` to before `end`, of the `blocks` that there are. Blocks are numbered by
// tile (fastest), split, batch.
constexpr int kTiles = kTilesM * kTilesN;  // of a batch
struct Place {
  TileOrder<kTilesM, kTilesN> at;
  int tile, split, batch, m0, n0, blocks, first, end;
//@ if phased then
  Phase phase;
//@ end
};
__device__ __forceinline__ Place place_of(unsigned block) {  // unsigned: cheaper to divide
  const int tile = kSplits * kBatch == 1 ? block : block % kTiles;
  const int part = kSplits * kBatch == 1 ? 0 : block / kTiles;
  const int batch = kBatch == 1 ? 0 : part / kSplits;
  const int split = kBatch == 1 ? part : part % kSplits;
  const TileOrder<kTilesM, kTilesN> at(tile);
//@ if phased then
  const Phase phase = phase_of(at.m);
  const int m0 = (at.m - phase.first) * kTileM, n0 = at.n * kTileN;
  const int blocks = (phase.k + kTileK - 1) / kTileK;  // of k
//@ else
  const int m0 = at.m * kTileM, n0 = at.n * kTileN, blocks = kBlocks;
//@ end
  const int first = split * blocks / kSplits, end = (split + 1) * blocks / kSplits;
  return {at, tile, split, batch, m0, n0, blocks, first, end$(phased and ", phase" or "")};
}
