//@ part("parts/head.cu")
#include "lib/attend_$(k.unit).cuh"
#include "lib/attend_softmax.cuh"
//@ if k.splits > 1 then
#include "lib/attend_join.cuh"
//@ end
//@ if k.masking then
#include "lib/span.cuh"
//@ end
#include "lib/epilogue.cuh"
//@ if k.states then
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"
//@ end
//@ local q, keys, v = k.operands[1], k.operands[2], k.operands[3]

// out[m] = factor[m] * sum over keys of exp(score(m, key)) * v[key]; scores are never in memory.
constexpr int kM = $(k.m), kN = $(k.n);  // rows of queries and elements of a value, of each batch
constexpr int kKeys = $(k.keys), kDepth = $(k.depth);
constexpr int kTileM = $(k.tile_m), kTileKeys = $(k.tile_keys);
constexpr int kWarpM = $(k.warp_m);  // rows of a warp
constexpr int kTilesM = (kM + kTileM - 1) / kTileM,
              kTilesKeys = (kKeys + kTileKeys - 1) / kTileKeys;
//@ if k.splits > 1 then
constexpr int kSplits = $(k.splits);  // parts of the keys, each a block's
//@ end
constexpr int kThreads = $(k.threads);
constexpr int kBlocksPerSm = $(k.blocks);
constexpr float kScale = $(k.scale), kLog2e = 1.4426950408889634f;  // of what `score` gives
constexpr int kSlack = $(k.weighing and 0 or 8);  // a power is at most 2 to this
constexpr int kLanes = $(k.lanes);  // neighbouring outputs per thread in the epilogue
constexpr int kStaged = $(k.staged);
using T = $(k.operand);
constexpr int kParts = $(k.parts), kPartKeys = kTileKeys / kParts;  // of a tile
using Unit = $(k.prefix)Unit<kTileM, kTileKeys>;
using Warp = SoftmaxWarp<Unit, T, kDepth, kN, kWarpM, kPartKeys>;
static_assert(kTileM / kWarpM * kWarp == kThreads, "a warp for every part");
//@ part("parts/operands.cu")
//@ if k.states then

$(k.states)
//@ end

struct Smem {
  union {
    struct {
      char q[kTileM * Warp::Depth::kBytes];
      char k[2][kTileKeys * Warp::Depth::kBytes];
      char v[$(k.ahead and 3 or 2)][kTileKeys * Warp::Width::kBytes];
    };
    float out[kTileM * kStaged];
  };
//@ if k.splits > 1 then
  ScoreRow rows[kTileM];
  float share[kSplits * kTileM];
  bool last;
//@ end
//@ if k.masking then
  // A bit for each tile.
  unsigned live[(kTilesKeys + kWarp - 1) / kWarp], plain[(kTilesKeys + kWarp - 1) / kWarp];
//@ end
};
static_assert(sizeof(Smem) <= $(k.smem), "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) $(k.name)(
$(k.params)) {
  NN_SMEM(Smem, smem);
//@ local block = k.splits > 1 and "block" or "blockIdx.x"
//@ if k.splits > 1 then
  const int block = blockIdx.x / kSplits, split = blockIdx.x % kSplits;
  const int begin = split * kTilesKeys / kSplits, end = (split + 1) * kTilesKeys / kSplits;
//@ else
  constexpr int begin = 0, end = kTilesKeys;
//@ end
//@ local tile = block .. " % kTilesM"
//@ if k.descends then tile = "(kTilesM - 1 - " .. tile .. ")" end
  const int batch = $(block) / kTilesM, m0 = $(tile) * kTileM;
  const int row0 = threadIdx.x / kWarp * kWarpM;  // the warp's, in the tile

  auto score = [&](int m, int key, float $(k.product)) {
$(k.score.decode)
$(k.score.body)
    return $(k.score.value);
  };
//@ if k.masking then
  auto plain_score = [&](int m, int key, float $(k.product)) {  // where all conditions hold
$(k.plain.decode)
$(k.plain.body)
    return $(k.plain.value);
  };
//@ end
//@ if k.weighing then
  auto weighed = [&](int m, int key, float power) {
$(k.weighing.decode)
$(k.weighing.body)
    return $(k.weighing.value);
  };
//@ end

//@ part("parts/heads.cu")
  // The ring: one tile of keys and values is on its way while one is used.
  auto load = [&](int tile, char *to_keys, char *to_values) {
//@ if keys.computed then
    compute_rows<T, $(keys.depth), kKeys, kTileKeys, kThreads, $(keys.sharing), Unit::kPanels>(
        to_keys, tile * kTileKeys, k_row);
//@ else
    load_rows<MapK, kTileKeys, kThreads, Unit::kPanels>(
        to_keys, $(keys.pointer), tile * kTileKeys, batch);
//@ end
//@ if v.computed then
    compute_rows<T, $(v.depth), kKeys, kTileKeys, kThreads, $(v.sharing), Unit::kPanels>(
        to_values, tile * kTileKeys, v_row);
//@ else
    load_rows<MapV, kTileKeys, kThreads, Unit::kPanels>(
        to_values, $(v.pointer), tile * kTileKeys, batch);
//@ end
    nn_cp_async_commit();
  };
//@ if not q.computed then
  load_rows<MapQ, kTileM, kThreads, Unit::kPanels>(smem.q, $(q.pointer), m0, batch);
  nn_cp_async_commit();
//@ end
//@ if k.masking then
//@ part("parts/masking.cu")
  auto next = [&](int tile) { return next_tile(smem.live, tile, end); };
//@ else
  auto next = [](int tile) { return tile; };
//@ end
  int tile = next(begin);
  if (tile < end) load(tile, smem.k[0], smem.v[0]);
//@ if q.computed then
  compute_rows<T, kDepth, kM, kTileM, kThreads, $(q.sharing), Unit::kPanels>(
      smem.q, m0, q_row);  // meanwhile
//@ end
  nn_cp_async_wait<0>();
  Unit::publish();
  nn_sync();
//@ if k.ahead then
  const int second = tile < end ? next(tile + 1) : end;
  if (second < end) load(second, smem.k[1], smem.v[1]);
//@ end
  Warp warp(smem.q, row0);
  // Scores of a part of a tile, whose keys are there.
  auto multiply = [&](const char *keys, int part, Warp::Part &to) {
    warp.multiply(to.scores, keys + part * (kPartKeys * Warp::Depth::kPitch));
  };
  auto rebase = [&](int part, Warp::Part &of) {
    const int m = m0 + row0, key = tile * kTileKeys + part * kPartKeys;
//@ if k.masking then
    if (smem.plain[tile / kWarp] >> tile % kWarp & 1) {
      apply_scores<Warp::Tile, kM, kKeys, kTileKeys>(of.scores, m, key, plain_score);
    } else {
      apply_scores<Warp::Tile, kM, kKeys, kTileKeys>(of.scores, m, key, score);
    }
//@ else
    apply_scores<Warp::Tile, kM, kKeys, kTileKeys>(of.scores, m, key, score);
//@ end
    if (kKeys % kTileKeys && tile == kTilesKeys - 1) cut_scores<Warp::Tile>(
        of.scores, kKeys % kTileKeys - part * kPartKeys, -nn_inf());
    warp.rebase<kSlack>(of, kScale * kLog2e);
  };
  // Powers of a part, and the values that they weigh.
  auto weigh = [&](const char *values, int part, Warp::Part &of) {
    warp.power(of, kScale * kLog2e);
//@ if k.weighing then
    apply_scores<Warp::Tile, kM, kKeys, kTileKeys>(
        of.scores, m0 + row0, tile * kTileKeys + part * kPartKeys, weighed);
//@ end
    warp.weigh(of.scores, values + part * (kPartKeys * Warp::Width::kPitch));
  };
//@ if k.ahead then
  // While powers of a part are computed, the scores of the next one are multiplied: of the last
  // part of a tile the first one of the tile after it. So keys are there a tile ahead of values.
  if (tile < end) {
    Warp::Part parts[kParts];
    int turn = 0;  // keys have two places, values three
    multiply(smem.k[0], 0, parts[0]);
    Unit::await<0>(parts[0].scores);
#pragma unroll 1
    do {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        rebase(part, parts[part]);
        if (part + 1 < kParts) {
          multiply(smem.k[turn % 2], part + 1, parts[part + 1]);
        } else {
          nn_cp_async_wait<0>();
          Unit::publish();
          nn_sync();  // the tile after has landed for all; these keys, and values before, were read
          const int after = next(tile + 1), then = after < end ? next(after + 1) : end;
          if (then < end) load(then, smem.k[turn % 2], smem.v[(turn + 2) % 3]);
          multiply(smem.k[(turn + (after < end)) % 2], 0, parts[0]);  // or for nothing
        }
        weigh(smem.v[turn % 3], part, parts[part]);
        Unit::await<1>(parts[(part + 1) % kParts].scores);
      }
      tile = next(tile + 1), turn = turn < 5 ? turn + 1 : 0;
    } while (tile < end);
    Unit::await<0>(static_cast<Warp::Sums &>(warp));
  }
//@ else
#pragma unroll 1
  for (int stage = 0; tile < end; stage ^= 1) {
    nn_cp_async_wait<0>();
    Unit::publish();
    nn_sync();  // this tile has landed for all, and the one before it has been read by all
    const int after = next(tile + 1);
    if (after < end) load(after, smem.k[stage ^ 1], smem.v[stage ^ 1]);
    // The scores of a part are multiplied while the powers of the one before it are computed.
    Warp::Part parts[kParts];
    multiply(smem.k[stage], 0, parts[0]);
    Unit::await<0>(parts[0].scores);
    rebase(0, parts[0]);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part + 1 < kParts) multiply(smem.k[stage], part + 1, parts[part + 1]);
      weigh(smem.v[stage], part, parts[part]);
      if (part + 1 < kParts) {
        Unit::await<1>(parts[part + 1].scores);
        rebase(part + 1, parts[part + 1]);
      }
    }
    Unit::await<0>(static_cast<Warp::Sums &>(warp));
    tile = after;
  }
//@ end
  Unit::keep(warp);
  warp.settle(kScale * kLog2e);

  // The factor of outputs of row `at`; of the threads that have it, one is the first.
  auto factor = [&](int at, const ScoreRow &state, bool first) {
    const int m = at < kM ? at : kM - 1;
$(k.row.decode)
$(k.row.body)
    return $(k.row.value);
  };

  // Outputs pass through shared memory, so that each thread has neighbours along n.
//@ if k.splits > 1 then
  warp.states(smem.rows + row0);
  nn_sync();  // the last tile has been read
  warp.template stage<kStaged>(smem.out, row0);
  nn_sync();
  if (!join_rows<kThreads, kTileM, kStaged, kN, kSplits>(
          smem.out, smem.rows, smem.share, own_parts + block * (kSplits * kTileM * kStaged),
          own_states + block * (kSplits * kTileM * 2), split, own_arrived + block, &smem.last,
          kScale * kLog2e))
    return;
  scale_rows<kThreads, kTileM, kStaged, kN>(smem.out, smem.share, [&](int r) {
    const ScoreRow state = smem.rows[r];
    return factor(m0 + r, ScoreRow{state.most * kScale, state.sum}, true);
  });
//@ else
  warp.finish(kScale, [&](int r, const ScoreRow &state, bool first) {
    return factor(m0 + row0 + r, state, first);
  });
  nn_sync();  // the last tile has been read
  warp.template stage<kStaged>(smem.out, row0);
  nn_sync();
//@ end
//@ part("parts/tails.cu")
  each_output<kM, kN, kTileM, kStaged, kLanes, kThreads>(smem.out, m0, 0, kM, epilogue);
}
