//@ part("parts/head.cu")
#include "lib/attend_$(k.unit).cuh"
//@ if k.masking then
#include "lib/span.cuh"
//@ end
#include "lib/epilogue.cuh"
//@ local two = #k.products > 1
//@ local v = k.operands[#k.operands]
//@ local own = k.shared == 0  -- v is not one of the key operands
//@ local mapped = two and "scores of two products" or "scores"
//@ local function word(name, i) return i > 1 and name .. i or name end

// out[m] = sum over keys of weighed(m, key) * v[key]; `weighed`, computed from $(mapped),
// is recomputed for each tile and not stored.
constexpr int kM = $(k.m), kN = $(k.n);  // per batch: rows; elements of a value row
constexpr int kKeys = $(k.keys);
constexpr int kTileM = $(k.tile_m), kTileKeys = $(k.tile_keys);
constexpr int kWarpM = $(k.warp_m);  // rows per warp
constexpr int kTilesM = (kM + kTileM - 1) / kTileM,
              kTilesKeys = (kKeys + kTileKeys - 1) / kTileKeys;
constexpr int kThreads = $(k.threads);
constexpr int kBlocksPerSm = $(k.blocks);
constexpr float kLog2e = 1.4426950408889634f;
constexpr int kLanes = $(k.lanes);  // neighbouring outputs per thread in the epilogue
constexpr int kStaged = $(k.staged);
using T = $(k.operand);
using Unit = $(k.prefix)Unit<kTileM, kTileKeys>;
using Tile = Unit::ScoreTile<kWarpM, kTileKeys>;
using Sums = Unit::ValueSums<T, kN, kWarpM, kTileKeys>;
static_assert(kTileM / kWarpM * kWarp == kThreads, "a warp for every part");
//@ part("parts/operands.cu")
//@ for i = 1, #k.products do
using $(word("Rows", i)) =
    Unit::RowsReadAgain<T, $(word("MapQ", i))::kDepth, kWarpM, kTileKeys>;
//@ end

struct Smem {
  union {
    struct {
//@ for i = 1, #k.products do
      char $(word("q", i))[kTileM * $(word("Rows", i))::Depth::kBytes];
      char $(word("k", i))[2][kTileKeys * $(word("Rows", i))::Depth::kBytes];
//@ end
//@ if own then
      char v[2][kTileKeys * Sums::Width::kBytes];
//@ end
    };
    float out[kTileM * kStaged];
  };
//@ if #k.of_key > 0 then
  float of_key[$(#k.of_key)][2 * kTileKeys];  // one value per key; double buffered
//@ end
//@ if k.masking then
  // One bit per tile of keys.
  unsigned live[(kTilesKeys + kWarp - 1) / kWarp], plain[(kTilesKeys + kWarp - 1) / kWarp];
//@ end
};
static_assert(sizeof(Smem) <= $(k.smem), "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) $(k.name)(
$(k.params)) {
  NN_SMEM(Smem, smem);
//@ local tile = "blockIdx.x % kTilesM"
//@ if k.descends then tile = "(kTilesM - 1 - " .. tile .. ")" end
  const int batch = blockIdx.x / kTilesM, m0 = $(tile) * kTileM;
  const int row0 = threadIdx.x / kWarp * kWarpM;  // first row of the warp in the tile
//@ if #k.of_key > 0 then
  int of_key = 0;  // index in smem.of_key minus key
//@ end
//@ local arguments = ""
//@ for _, name in ipairs(k.products) do arguments = arguments .. ", float " .. name end

  auto weighed = [&](int m, int key$(arguments)) {
$(k.weighing.decode)
$(k.weighing.body)
    return $(k.weighing.value);
  };
//@ if k.masking then
  auto plain_weighed = [&](int m, int key$(arguments)) {  // in tiles without masked keys
$(k.plain.decode)
$(k.plain.body)
    return $(k.plain.value);
  };
//@ end

  // Double buffering: one tile of keys and values is in flight while one is used.
  auto load = [&](int tile, int stage) {
//@ for i = 1, #k.products do
//@ local map, rows, base = word("MapK", i), word("k", i), k.operands[2 * i].pointer
    load_rows<$(map), kTileKeys, kThreads, Unit::kPanels$(k.few)>(
        smem.$(rows)[stage], $(base), tile * kTileKeys, batch);
//@ end
//@ if own then
    load_rows<MapV, kTileKeys, kThreads, Unit::kPanels$(k.few)>(
        smem.v[stage], $(v.pointer), tile * kTileKeys, batch);
//@ end
//@ for i, value in ipairs(k.of_key) do
    load_values<kKeys, kTileKeys, kThreads>(smem.of_key[$(i - 1)] + stage * kTileKeys, tile,
                                            [&](int key) {
$(value.decode)
      return $(value.where);
    });
//@ end
    nn_cp_async_commit();
  };
//@ for i = 1, #k.products do
//@ local map, rows, base = word("MapQ", i), word("q", i), k.operands[2 * i - 1].pointer
  load_rows<$(map), kTileM, kThreads, Unit::kPanels>(smem.$(rows), $(base), m0, batch);
//@ end
  nn_cp_async_commit();
//@ if k.masking then
//@ part("parts/masking.cu")
  auto next = [&](int tile) { return next_tile(smem.live, tile, kTilesKeys); };
//@ else
  auto next = [](int tile) { return tile; };
//@ end
//@ for i = 1, #k.products do
  const $(word("Rows", i)) $(word("rows_of_q", i))(smem.$(word("q", i)), row0);
//@ end
  Sums sums;
  sums.clear();
  int tile = next(0);
  if (tile < kTilesKeys) load(tile, 0);
#pragma unroll 1
  for (int stage = 0; tile < kTilesKeys; stage ^= 1) {
    nn_cp_async_wait<0>();
    Unit::publish();
    nn_sync();  // the tile is visible to all warps, and the buffer of the last one is free
    const int after = next(tile + 1);
    if (after < kTilesKeys) load(after, stage ^ 1);
//@ if #k.of_key > 0 then
    of_key = (stage - tile) * kTileKeys;
//@ end
//@ for i = 1, #k.products do
    Tile::Scores $(word("scores", i));
    $(word("rows_of_q", i)).multiply($(word("scores", i)), smem.$(word("k", i))[stage]);
//@ end
//@ for i = 1, #k.products do
    Unit::await<$(#k.products - i)>($(word("scores", i)));
//@ end
    const int m = m0 + row0, key = tile * kTileKeys;
//@ local others = two and ", scores2" or ""
//@ if k.masking then
    if (smem.plain[tile / kWarp] >> tile % kWarp & 1) {
      apply_scores<Tile, kM, kKeys, kTileKeys$(k.by_keys)>(scores, m, key, plain_weighed$(others));
    } else {
      apply_scores<Tile, kM, kKeys, kTileKeys$(k.by_keys)>(scores, m, key, weighed$(others));
    }
//@ else
    apply_scores<Tile, kM, kKeys, kTileKeys$(k.by_keys)>(scores, m, key, weighed$(others));
//@ end
    if (kKeys % kTileKeys && tile == kTilesKeys - 1) cut_scores<Tile>(
        scores, kKeys % kTileKeys, 0.f);
    sums.weigh(scores, smem.$(own and "v" or word("k", k.shared // 2))[stage]);
    Unit::await<0>(sums);
    tile = after;
  }

  // Outputs are staged in shared memory so that each thread stores neighbours along n.
  nn_cp_async_wait<0>();
  nn_sync();  // all warps have read the last tile
  sums.template stage<kStaged>(smem.out, row0);
  nn_sync();
//@ part("parts/tails.cu")
  each_output<kM, kN, kTileM, kStaged, kLanes, kThreads>(smem.out, m0, 0, kM, epilogue);
}
