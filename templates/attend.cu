//@ part("parts/head.cu")
#include "lib/attend_$(k.unit).cuh"
#include "lib/attend_softmax.cuh"
//@ if k.splits > 1 then
#include "lib/attend_join.cuh"
//@ end
//@ if k.masking then
#include "lib/span.cuh"
//@ end
//@ if k.loaders then
#include "lib/boxes.cuh"
#include "lib/jobs.cuh"
#include "lib/ring.cuh"
//@ end
#include "lib/epilogue.cuh"
//@ if k.states then
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"
//@ end

// out[m] = factor[m] * sum over keys of exp(score(m, key)) * v[key]; scores are not stored.
constexpr int kM = $(k.m), kN = $(k.n);  // per batch: query rows; elements of a value row
constexpr int kKeys = $(k.keys), kDepth = $(k.depth);
constexpr int kTileM = $(k.tile_m), kTileKeys = $(k.tile_keys);
constexpr int kWarpM = $(k.warp_m);  // rows per warp
constexpr int kTilesM = (kM + kTileM - 1) / kTileM,
              kTilesKeys = (kKeys + kTileKeys - 1) / kTileKeys;
//@ if k.splits > 1 then
constexpr int kSplits = $(k.splits);  // split-KV: segments of the keys, one per block
constexpr int kPartGroup = $(k.part_group);  // segments that one block joins
constexpr int kRows = kM < kTileM ? kM : kTileM;  // rows of a tile that exist
//@ end
//@ if k.loaders then
constexpr int kThreads = $(k.threads - k.loaders);  // consumer threads
constexpr int kLoaders = $(k.loaders);  // producer threads, numbered after the consumers
constexpr int kJobs = $(k.jobs);  // tiles of query rows over all batches
constexpr int kPlaces = $(k.places);  // buffers for query rows: of this job and of the next
constexpr int kLoaderRegisters = $(k.loader_registers), kRegisters = $(k.registers);
//@ else
constexpr int kThreads = $(k.threads);
//@ end
constexpr int kBlocksPerSm = $(k.blocks);
constexpr float kScale = $(k.scale), kLog2e = 1.4426950408889634f;  // kScale: of `score`
// log2 of the largest exponential that is kept before the row is rescaled.
constexpr int kSlack = $((k.weighing or k.counted) and 0 or 8);
constexpr int kLanes = $(k.lanes);  // neighbouring outputs per thread in the epilogue
constexpr int kStaged = $(k.staged);
using T = $(k.operand);
constexpr int kParts = $(k.parts), kPartKeys = kTileKeys / kParts;  // per tile of keys
//@ if k.loaders then
using Unit = $(k.prefix)Unit<kTileM, kTileKeys, $(k.most_held)>;
//@ else
using Unit = $(k.prefix)Unit<kTileM, kTileKeys>;
//@ end
using Warp = SoftmaxWarp<Unit, T, kDepth, kN, kWarpM, kPartKeys>;
static_assert(kTileM / kWarpM * kWarp == kThreads, "a warp for every part");
//@ part("parts/operands.cu")
//@ if k.states then

$(k.states)
//@ end

struct Smem {
//@ if k.loaders then
  char q[kPlaces][kTileM * Warp::Depth::kBytes];
  char k[2][kTileKeys * Warp::Depth::kBytes];
  char v[2][kTileKeys * Warp::Width::kBytes];
  float out[kTileM * kStaged];
  Ring<kPlaces> jobs;
  Ring<2> keys, values;
  int job[kPlaces];
//@ if k.masking then
  int ahead[2];
  // One bit per tile of keys, for this job and the next.
  unsigned live[2][(kTilesKeys + kWarp - 1) / kWarp], plain[2][(kTilesKeys + kWarp - 1) / kWarp];
//@ end
//@ else
  union {
    struct {
      char q[kTileM * Warp::Depth::kBytes];
      char k[2][kTileKeys * Warp::Depth::kBytes];
      char v[2][kTileKeys * Warp::Width::kBytes];
    };
    float out[kTileM * kStaged];
  };
//@ if k.splits > 1 then
  ScoreRow rows[kTileM];
  float share[$(k.joined) * kRows];
  bool last;
//@ end
//@ if k.masking then
  // One bit per tile of keys.
  unsigned live[(kTilesKeys + kWarp - 1) / kWarp], plain[(kTilesKeys + kWarp - 1) / kWarp];
//@ end
//@ end
};
static_assert(sizeof(Smem) <= $(k.smem), "the planner's figure");

//@ local all = k.loaders and "kThreads + kLoaders" or "kThreads"
extern "C" __global__ void __launch_bounds__($(all), kBlocksPerSm) $(k.name)(
$(k.params)) {
  NN_SMEM(Smem, smem);
//@ if k.loaders then
  int batch = 0, m0 = 0;  // of the job
//@ else
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
//@ end
  const int row0 = threadIdx.x / kWarp * kWarpM;  // first row of the warp in the tile

  auto score = [&](int m, int key, float $(k.product)) {
$(k.score.decode)
$(k.score.body)
    return $(k.score.value);
  };
//@ if k.masking then
  auto plain_score = [&](int m, int key, float $(k.product)) {  // in tiles without masked keys
$(k.plain.decode)
$(k.plain.body)
    return $(k.plain.value);
  };
//@ end
//@ if k.counted then
  auto counted = [&](int m, int key, float power) {  // its term in the softmax's sum
$(k.counted.decode)
$(k.counted.body)
    return $(k.counted.value);
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
  // Applies the score function to one part of a tile and finds the new bases of its rows.
//@ local is_plain = k.loaders and k.masking and ", bool plain" or ""
  auto rebase = [&](Warp &warp, int tile, int part, Warp::Part &of$(is_plain)) {
    const int m = m0 + row0, key = tile * kTileKeys + part * kPartKeys;
//@ if k.masking then
    if ($(k.loaders and "plain" or "smem.plain[tile / kWarp] >> tile % kWarp & 1")) {
      apply_scores<Warp::Tile, kM, kKeys, kTileKeys$(k.by_keys)>(of.scores, m, key, plain_score);
    } else {
      apply_scores<Warp::Tile, kM, kKeys, kTileKeys$(k.by_keys)>(of.scores, m, key, score);
    }
//@ else
    apply_scores<Warp::Tile, kM, kKeys, kTileKeys$(k.by_keys)>(of.scores, m, key, score);
//@ end
    if (kKeys % kTileKeys && tile == kTilesKeys - 1) cut_scores<Warp::Tile>(
        of.scores, kKeys % kTileKeys - part * kPartKeys, -nn_inf());
    warp.rebase<kSlack>(of, kScale * kLog2e);
  };
  // Turns scores into unnormalised probabilities.
  auto power = [&](Warp &warp, int tile, int part, Warp::Part &of) {
//@ if k.counted then
    warp.template power<false>(of, kScale * kLog2e);
    apply_scores<Warp::Tile, kM, kKeys, kTileKeys>(
        of.scores, m0 + row0, tile * kTileKeys + part * kPartKeys, counted);
    warp.add_up(of);
//@ else
    warp.power(of, kScale * kLog2e);
//@ end
//@ if k.weighing then
    apply_scores<Warp::Tile, kM, kKeys, kTileKeys$(k.by_keys)>(
        of.scores, m0 + row0, tile * kTileKeys + part * kPartKeys, weighed);
//@ end
  };
//@ if k.loaders then
//@ part("parts/attend_jobs.cu")
//@ else
//@ if k.masking then
//@ part("parts/masking.cu")
  auto next = [&](int tile) { return next_tile(smem.live, tile, end); };
//@ else
  auto next = [](int tile) { return tile; };
//@ end
//@ part("parts/attend_ring.cu")
  Unit::keep(warp);
  warp.settle(kScale * kLog2e);
//@ part("parts/factor.cu")

  // Outputs are staged in shared memory so that each thread stores neighbours along n.
//@ if k.splits > 1 then
  warp.states(smem.rows + row0);
  nn_sync();  // the last tile has been read
  warp.template stage<kStaged>(smem.out, row0);
  nn_sync();
  if (!join_rows<kThreads, kRows, kStaged, kN, kSplits, kPartGroup>(
          smem.out, smem.rows, smem.share, own_parts + block * (kSplits * kRows * kStaged),
          own_states + block * (kSplits * kRows * 2), split,
          own_arrived + block * $(k.part_counts), &smem.last, kScale * kLog2e))
    return;
  scale_rows<kThreads, kRows, kStaged, kN>(smem.out, smem.share, [&](int r) {
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
//@ end
}
