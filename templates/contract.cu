//@ part("parts/head.cu")
#include "lib/$(k.unit).cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/epilogue.cuh"
//@ if k.row_states then
#include "lib/rows.cuh"
//@ elseif k.splits > 1 then
#include "lib/arrive.cuh"
//@ end
//@ if k.columns then
#include "lib/columns.cuh"
//@ end
//@ if k.begins then
#include "lib/first.cuh"
//@ end

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
//@ part("parts/product_shape.cu")
//@ part("parts/product_maps.cu")

struct Smem {
//@ local staged = k.transposed and "ByColumns<kTileM>" or "ByRows<kTileN>"
//@ local values = k.transposed and "ByColumns<kTileM>::kStride * kTileN" or "kTileM * kTileN"
//@ local out = not k.own and "out[" .. values .. "]"
//@ if out or k.columns and not k.walks then
  union {
    struct {
      char a[kStages][kTileM * kRowBytes];
      char b[kStages][kTileN * kRowBytes];
    };
//@ if out then
    float $(out);
//@ end
//@ if k.columns then
    Columns columns;
//@ end
  };
//@ else
  char a[kStages][kTileM * kRowBytes];
  char b[kStages][kTileN * kRowBytes];
//@ if k.columns then
  Columns columns;  // over all tiles of the block
//@ end
//@ end
//@ if k.taps > 0 then
  Tap taps[$(k.taps)];
  RowTable<kTileM, kThreads> rows;  // of a
//@ end
//@ if k.splits > 1 or k.columns or k.row_states then
  bool last;
//@ end
//@ if k.begins then
  int next_jobs[2];
//@ end
};
static_assert(sizeof(Smem) <= $(k.smem), "the planner's figure");

//@ local phased = #k.phases > 1
//@ local blocks = phased and "blocks" or "kBlocks"
extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) $(k.name)(
$(k.params)) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
//@ if k.begins then
  const int job = tid == 0 ? nn_atomic_add(own_first + kNextJob, 1) : 0;  // overlaps with setup
//@ end
//@ if k.walks then
  Place place = place_of(blockIdx.x);  // position of the tile being loaded
  constexpr int first = 0, end = kBlocks;
//@ else
  constexpr int kTiles = kTilesM * kTilesN;  // grid: tiles (fastest), splits, batch
  const int tile = kSplits * kBatch == 1 ? blockIdx.x : blockIdx.x % kTiles;
  const int part = kSplits * kBatch == 1 ? 0 : blockIdx.x / kTiles;
  const int batch = kBatch == 1 ? 0 : part / kSplits;
  const int split = kBatch == 1 ? part : part % kSplits;
  const TileOrder<kTilesM, kTilesN> at(tile);
//@ if phased then
  const Phase phase = phase_of(at.m);
  const int m0 = (at.m - phase.first) * kTileM, n0 = at.n * kTileN;
  const int blocks = (phase.k + kTileK - 1) / kTileK;  // of k
//@ else
  const int m0 = at.m * kTileM, n0 = at.n * kTileN;
//@ end
  const int first = split * $(blocks) / kSplits, end = (split + 1) * $(blocks) / kSplits;
//@ end

//@ part("parts/product_sources.cu")

//@ local early = k.begins and k.begins.early
  // The ring: kAhead blocks of k are in flight while one is multiplied.
  constexpr int kAhead = kStages - 1 - Product::kInFlight;
  Product product;
//@ if phased then
  constexpr int kLastSteps = kSteps;  // zeros fill the last block of a phase
//@ else
  // The last block may be shorter.
  constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
  constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;
//@ end
//@ if k.walks then
  int tile = blockIdx.x, ahead = first;  // block `ahead` of k of this tile is loaded next
  auto load_next = [&](int stage$(early and ", bool begins = false" or "")) {
    if (ahead == end) {  // continue with the next tile of this persistent block
      ahead = 0, tile += gridDim.x;
      if (tile < kTiles) {
        place = place_of(tile);
//@ if k.taps > 0 then
        if (kBlocks < kAhead) nn_sync();  // all have read the table; longer loops sync anyway
        smem.rows.write($(k.a.map){}, place.m0, place.batch);
        nn_sync();  // wait for the row table
//@ end
        a = $(k.a.source)($(k.a.given));
        b = $(k.b.source)($(k.b.given));
      }
    }
    if (tile < kTiles) {
//@ else
  int ahead = first;  // the block of k that is loaded next
  auto load_next = [&](int stage$(early and ", bool begins = false" or "")) {
    if (ahead < end) {
//@ end
      a.load(ahead, smem.a[stage]);
      $(early and "if (!begins) " or "")b.load(ahead, smem.b[stage]);
    }
    ++ahead;
    nn_cp_async_commit();
  };
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
//@ if early then

  // The right operand is loaded while the prologue computes rows of the left one.
#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage)
    if (ahead + stage < end) b.load(ahead + stage, smem.b[stage]);
//@ end
//@ if k.begins then
//@ part("parts/first.cu", k.begins)
  make_first<kJobs, kRuns>(own_first, job, smem.next_jobs, make_rows);
//@ end
#pragma unroll
  for (int stage = 0; stage < kAhead; ++stage) load_next(stage$(early and ", true" or ""));
//@ if k.begins then
  go_on(own_first);
//@ end
//@ local opaque = k.walks and "nn_opaque(end)" or "kBlocks > 2 ? nn_opaque(end) : end"
  const int past = $(phased and "end;" or opaque .. ";  // hides the trip count: else unrolled")
  int stage = 0;
  // Accumulates a tile over k.
  auto multiply_tile = [&] {
    product.clear();
//@ if k.in_flight > 0 and (k.full or not phased and k.splits == 1) then
    nn_assume(first < past);  // without this, ptxas serialises the wgmma instructions
//@ end
//@ if k.in_flight == 0 and k.warp_m * k.warp_n >= 56 * 64 then
#pragma unroll 1  // else short loops are unrolled, and registers do not suffice
//@ end
    for (int block = first; block < past; ++block) {
      nn_cp_async_wait<kAhead - 1>();
      product.publish();
      nn_sync();  // the data is visible to all warps, and the stage loaded next is free
      load_next(stage + kAhead < kStages ? stage + kAhead : stage + kAhead - kStages);
      const char *rows = smem.a[stage], *columns = smem.b[stage];
      stage = stage + 1 < kStages ? stage + 1 : 0;
      if (kLastSteps == kSteps || block + 1 < $(blocks)) {
        product.template multiply<kSteps>(rows, warp_m, columns, warp_n);
      } else {
        product.template multiply<kLastSteps>(rows, warp_m, columns, warp_n);
      }
    }
    product.finish();
  };
//@ if not k.walks then
  multiply_tile();
  nn_cp_async_wait<0>();
//@ end
//@ if not k.own then
  nn_sync();

//@ if k.transposed then
  // Outputs are staged in shared memory so that neighbouring threads store neighbours along m.
//@ else
  // Outputs are staged in shared memory so that each thread stores neighbours along n.
//@ end
  product.stage($(staged){smem.out}, warp_m, warp_n);
  nn_sync();
//@ end
//@ if k.splits > 1 then

  // Split-K: each block stores its partial tile; the last one adds them and runs the epilogue.
  const int tile_id = batch * kTiles + tile;
  float *sums_of_parts = own_sums + tile_id * (kSplits * $(values));
  int *arrived = own_arrived + tile_id * kPartCounts;
  if (!sum_parts<kThreads, $(values), kSplits, kPartGroup>(
          smem.out, sums_of_parts, split, arrived, &smem.last))
    return;
//@ end

//@ if k.columns then
//@ local of = k.own and "rows, in the current columns" or "columns"
  $(k.columns.run) column_runs[kLanes];  // of this thread's $(of)
  clear_all(column_runs);
//@ end
//@ if k.own and k.row_states then
  $(k.row_states.type) row_state;  // of this lane's columns of the current row
  clear(row_state);
//@ end
//@ if k.walks then

  [[maybe_unused]] int batch = 0;  // of the tile being stored
//@ end
//@ part("parts/tails.cu")
//@ local rows, behind = phased and "phase.m" or "kM", ""
//@ local order = k.own and k.row_states and not k.walks and "kByRows" or "kByColumns"
//@ -- Random numbers cost registers, so fewer rows of outputs are in flight.
//@ local most = k.draws and ", 2" or ""
//@ local turn = (k.draws or order == "kByRows") and ", " .. order or ""
//@ if k.columns then
//@ behind = k.own and ", add_rows" or ""

  // Adds this thread's partial column states, from `column` on, to those of the block.
  auto add_rows = [&](int column) {
    smem.columns.template add_part<$(k.walks)>(column, column_runs);
    clear_all(column_runs);
  };
//@ end
//@ if k.row_states then
//@ behind = k.own and ", leave" or ""
//@ part("parts/product_rows.cu")
//@ end
//@ if k.walks then
//@ if k.columns then
  static_assert(kTilesN == 1 && kBatch == 1, "all tiles of a block have the same columns");
  smem.columns.clear_all();
//@ end

  // Persistent loop over tiles: the next tile's first blocks of k load during the epilogue.
  for (int now = blockIdx.x; now < kTiles; now += gridDim.x) {
    multiply_tile();
    const Place written = place_of(now);
    const int m0 = written.m0, n0 = written.n0;
    batch = written.batch;
    each_own<kM, kN, kTileM, kTileN, kLanes, $(k.pair), $(k.changes)$(turn)$(most)>(
        product, warp_m, warp_n, m0, n0, $(rows), epilogue$(behind));
  }
//@ elseif k.own then
//@ if k.columns then
  nn_sync();  // all warps have read the last block of k
//@ end
  each_own<kM, kN, kTileM, kTileN, kLanes, $(k.pair), $(k.changes)$(turn)$(most)>(
      product, warp_m, warp_n, m0, n0, $(rows), epilogue$(behind));
//@ else
//@ local each = k.pair and "each_pair" or k.transposed and "each_transposed" or "each_output"
  $(each)<kM, kN, kTileM, kTileN, kLanes, kThreads$(most)>(smem.out, m0, n0, $(rows), epilogue);
//@ end
//@ if k.row_states and k.own then
  if constexpr (kTilesN > 1)
    join_tiles<$(k.row_states.type), kM, kTilesN, kTileM, kThreads>(
        m0, $(k.row_states.kept), &smem.last, whole_row);
//@ elseif k.row_states then
  nn_sync();  // wait for the states of all threads
  each_row_state<$(k.row_states.type), kM, kN, kTileM, kTileN, kLanes, kThreads>(
      smem.out, m0, n0, $(k.row_states.kept), &smem.last, whole_row);
//@ end
//@ if k.columns then

  // Column reductions: over this block's rows, then over all blocks with the same columns.
//@ part("parts/product_columns.cu")
//@ end
}
