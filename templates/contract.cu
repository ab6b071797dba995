//@ part("parts/head.cu")
#include "lib/$(k.unit).cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
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
//@ local shares = not k.own or k.columns and not k.walks
//@ if shares then
  union {
    Ring<kStages, kTileM, kTileN> ring;
//@ if not k.own then
    float out[$(values)];
//@ end
//@ if k.columns then
    Columns columns;
//@ end
  };
//@ else
  Ring<kStages, kTileM, kTileN> ring;
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

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) $(k.name)(
$(k.params)) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
//@ if k.begins then
  const int job = tid == 0 ? nn_atomic_add(own_first + kNextJob, 1) : 0;  // overlaps with setup
//@ end
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
//@ local phased = #k.phases > 1
//@ if phased then
  const Phase phase = place.phase;
//@ end
//@ part("parts/product_sources.cu")

//@ if k.walks then
  int tile = blockIdx.x;
  auto next_tile = [&] {  // is there another one to load, of this persistent block?
    tile += gridDim.x;
    if (tile >= kTiles * kBatch) return false;
    place = place_of(tile);
//@ if k.taps > 0 then
    if (kBlocks < Loop::kAhead) nn_sync();  // all have read the table; longer loops sync anyway
    smem.rows.write($(k.a.map){}, place.m0, place.batch);
    nn_sync();  // wait for the row table
//@ end
    a = $(k.a.source)($(k.a.given));
    b = $(k.b.source)($(k.b.given));
    return true;
  };
//@ else
  const NoNextTile next_tile;
//@ end
  Loop loop(place.first, place.end, place.blocks);
  const Product &product = loop.product;
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
  auto load = [&](int block, int stage) {
    a.load(block, smem.ring.a[stage]);
    b.load(block, smem.ring.b[stage]);
  };
//@ if k.begins then
//@ local begins = k.begins.early and "load_a" or "load"
//@ if k.begins.early then

  // The right operand is loaded while the prologue computes rows of the left one.
#pragma unroll
  for (int stage = 0; stage < Loop::kAhead; ++stage)
    if (loop.first + stage < loop.end) b.load(loop.first + stage, smem.ring.b[stage]);
  auto load_a = [&](int block, int stage) { a.load(block, smem.ring.a[stage]); };
//@ end
//@ part("parts/first.cu", k.begins)
  make_first<kJobs, kRuns>(own_first, job, smem.next_jobs, make_rows);
  loop.fill($(begins), next_tile);
  go_on(own_first);
//@ else
  loop.fill(load, next_tile);
//@ end
  auto multiply_tile = [&] { loop.multiply(smem.ring, warp_m, warp_n, load, next_tile); };
//@ if not k.walks then
  multiply_tile();
  nn_cp_async_wait<0>();
//@ end
//@ if not k.own then
//@ local along = k.transposed and "m" or "n"
  nn_sync();

  // Outputs are staged in shared memory so that neighbours along $(along) are stored together.
  product.stage($(staged){smem.out}, warp_m, warp_n);
  nn_sync();
//@ end
//@ if k.splits > 1 then

  // Split-K: each block stores its partial tile; the last one adds them and runs the epilogue.
  const int tile_id = batch * kTiles + place.tile;
  float *sums_of_parts = own_sums + tile_id * (kSplits * $(values));
  int *arrived = own_arrived + tile_id * kPartCounts;
  if (!sum_parts<kThreads, $(values), kSplits, kPartGroup>(
          smem.out, sums_of_parts, place.split, arrived, &smem.last))
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
  for (int now = blockIdx.x; now < kTiles * kBatch; now += gridDim.x) {
    multiply_tile();
    const Place stored = place_of(now);
    m0 = stored.m0, n0 = stored.n0, batch = stored.batch;
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
