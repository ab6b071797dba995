//@ part("parts/head.cu")
#include "lib/attend_$(k.unit).cuh"
#include "lib/attend_sums.cuh"
//@ if k.splits > 1 then
#include "lib/arrive.cuh"
//@ end
//@ if k.masking then
#include "lib/span.cuh"
//@ end
//@ local function word(name, i) return i > 1 and name .. i or name end

//@ local along = (k.sums_rows and ", rows" or "") .. (k.sums_keys and ", keys" or "")

// out = sum over batches$(along) of weighed(m, key), computed from the scores of two products:
// recomputed for each tile, not stored.
constexpr int kM = $(k.m), kKeys = $(k.keys);  // per batch
constexpr int kBatches = $(k.batches);  // neighbouring batches that are summed
constexpr bool kSumsRows = $(k.sums_rows), kSumsKeys = $(k.sums_keys);
constexpr int kTileM = $(k.tile_m), kTileKeys = $(k.tile_keys);
constexpr int kWarpM = $(k.warp_m);  // rows per warp
constexpr int kTilesM = (kM + kTileM - 1) / kTileM,
              kTilesKeys = (kKeys + kTileKeys - 1) / kTileKeys;
// Tiles that are summed, in the order batches, rows, keys (fastest).
constexpr int kStepsM = kSumsRows ? kTilesM : 1, kStepsKeys = kSumsKeys ? kTilesKeys : 1;
constexpr int kSteps = kBatches * kStepsM * kStepsKeys;
constexpr int kSplits = $(k.splits), kPart = (kSteps + kSplits - 1) / kSplits;  // steps per block
constexpr int kSumsM = kSumsRows ? 1 : kTileM, kSumsN = kSumsKeys ? 1 : kTileKeys;
constexpr int kValues = (kSumsM * kSumsN + 3) / 4 * 4;
constexpr int kThreads = $(k.threads);
constexpr int kBlocksPerSm = $(k.blocks);
constexpr float kLog2e = 1.4426950408889634f;
using T = $(k.operand);
using Unit = $(k.prefix)Unit<kTileM, kTileKeys>;
using Tile = Unit::ScoreTile<kWarpM, kTileKeys>;
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
      char $(word("q", i))[2][kTileM * $(word("Rows", i))::Depth::kBytes];
      char $(word("k", i))[2][kTileKeys * $(word("Rows", i))::Depth::kBytes];
//@ end
    };
    float out[kTileM * kTileKeys];
  };
  bool last;
//@ if k.masking then
  // One bit per step of the block.
  unsigned live[(kPart + kWarp - 1) / kWarp], plain[(kPart + kWarp - 1) / kWarp];
//@ end
};
static_assert(sizeof(Smem) <= $(k.smem), "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) $(k.name)(
$(k.params)) {
  NN_SMEM(Smem, smem);
  constexpr int kTilesOutM = kTilesM / kStepsM, kTilesOutN = kTilesKeys / kStepsKeys;
  const int block = blockIdx.x / kSplits, part = blockIdx.x % kSplits;
  const int tile_keys = block % kTilesOutN, tile_m = block / kTilesOutN % kTilesOutM;
  const int batch0 = block / (kTilesOutN * kTilesOutM) * kBatches;
  const int row0 = threadIdx.x / kWarp * kWarpM;  // first row of the warp in the tile
  const int begin = part * kPart, end = begin + kPart < kSteps ? begin + kPart : kSteps;
//@ local arguments = ""
//@ for _, name in ipairs(k.products) do arguments = arguments .. ", float " .. name end

  // First batch, row and key of the tile of a step.
  auto batch_of = [&](int step) { return batch0 + step / (kStepsM * kStepsKeys); };
  auto m_of = [&](int step) { return (tile_m + step / kStepsKeys % kStepsM) * kTileM; };
  auto key_of = [&](int step) { return (tile_keys + step % kStepsKeys) * kTileKeys; };

  // Double buffering: one tile of rows and keys is in flight while one is used.
  auto load = [&](int step, int stage) {
    const int batch = batch_of(step), m0 = m_of(step), key0 = key_of(step);
//@ for i = 1, #k.products do
    load_rows<$(word("MapQ", i)), kTileM, kThreads>(
        smem.$(word("q", i))[stage], $(k.operands[2 * i - 1].pointer), m0, batch);
    load_rows<$(word("MapK", i)), kTileKeys, kThreads>(
        smem.$(word("k", i))[stage], $(k.operands[2 * i].pointer), key0, batch);
//@ end
    nn_cp_async_commit();
  };
//@ if k.masking then

  // Finds the steps whose tile is not fully masked, by intervals of the mask's conditions.
  find_tiles<kPart, kThreads>(smem.live, smem.plain, [&](int of_block) {
    const int step = begin + of_block;
    if (step >= end) return kTileMasked;
    const int batch = batch_of(step), m0 = m_of(step), key0 = key_of(step);
$(k.masking.decode)
    const int last_m = m0 + kTileM < kM ? m0 + kTileM - 1 : kM - 1;
    const int last_key = key0 + kTileKeys < kKeys ? key0 + kTileKeys - 1 : kKeys - 1;
//@ if not k.masking.several then
    const Span rows = {double(m0), double(last_m)};
//@ end
    const Span keys = {double(key0), double(last_key)};
$(k.masking.outer)
$(k.masking.inner)
    return tile_kind($(k.masking.score), $(k.masking.plain));
  });
  nn_sync();
  auto next = [&](int step) { return begin + next_tile(smem.live, step - begin, end - begin); };
//@ else
  auto next = [](int step) { return step; };
//@ end
  Tile::Scores sums;
  clear_scores<Tile>(sums);
  int step = next(begin);
  if (step < end) load(step, 0);
#pragma unroll 1
  for (int stage = 0; step < end; stage ^= 1) {
    nn_cp_async_wait<0>();
    nn_sync();  // the tile is visible to all warps, and the buffer of the last one is free
    const int after = next(step + 1);
    if (after < end) load(after, stage ^ 1);
//@ for i = 1, #k.products do
    Tile::Scores $(word("scores", i));
    $(word("Rows", i))(smem.$(word("q", i))[stage], row0)
        .multiply($(word("scores", i)), smem.$(word("k", i))[stage]);
//@ end
    const int batch = batch_of(step), m0 = m_of(step), key0 = key_of(step);
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
    if (smem.plain[(step - begin) / kWarp] >> (step - begin) % kWarp & 1)
      apply_scores<Tile, kM, kKeys, kTileKeys$(k.by_keys)>(scores, m0 + row0, key0, plain_weighed,
                                                          scores2);
    else
//@ end
    apply_scores<Tile, kM, kKeys, kTileKeys$(k.by_keys)>(scores, m0 + row0, key0, weighed, scores2);
    add_scores<Tile>(sums, scores, row0, kSumsRows ? kM - m0 : kTileM,
                     kSumsKeys ? kKeys - key0 : kTileKeys);
    step = after;
  }
  nn_cp_async_wait<0>();
  nn_sync();  // all warps have read the last tile
  store_scores<Tile, kTileKeys>(smem.out, row0, sums);
  nn_sync();
  if constexpr (kSumsRows) sum_rows<kTileM, kTileKeys, kThreads>(smem.out);
  if constexpr (kSumsKeys) sum_keys<kSumsM, kTileKeys, kThreads>(smem.out);
//@ if k.splits > 1 then
  if (!sum_parts<kThreads, kValues, kSplits, $(k.part_group)>(
          smem.out, own_parts + block * (kSplits * kValues), part,
          own_arrived + block * $(k.part_counts), &smem.last))
    return;
//@ end
  for (int i = threadIdx.x; i < kSumsM * kSumsN; i += kThreads) {
    const int batch = batch0, m = tile_m * kTileM + i / kSumsN;
    const int key = tile_keys * kTileKeys + i % kSumsN;
    const float sum = smem.out[i];
    if ((!kSumsRows && m >= kM) || (!kSumsKeys && key >= kKeys)) continue;
$(k.sum.decode)
$(k.sum.loads)
$(k.sum.body)
$(k.sum.stores)
  }
}
