// mlp__fc1_init: copy
// from models/mlp.lua:6
//   in  g_weight: f32(256, 784), fc1.weight
//   out g_fc1: f16(784, 256) in memory order 1,0, fc1
// grid 196x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 802816 bytes read, 401408 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 200704;

extern "C" __global__ void __launch_bounds__(kThreads) mlp__fc1_init(
  const float *__restrict__ g_weight,
  f16 *__restrict__ g_fc1) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + i));
  Vec<float, 4> fc1_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    fc1_out[j] = weight[j];
  }
  nn_store<4>(g_fc1 + i, nn_cast<f16>(fc1_out));
}
// mlp__x: copy
// from models/mlp.lua:10
//   in  g_x: f32(8, 784), x
//   out g_x_2: f16(8, 784), x
// grid 7x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 25088 bytes read, 12544 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 6272;

extern "C" __global__ void __launch_bounds__(kThreads) mlp__x(
  const float *__restrict__ g_x,
  f16 *__restrict__ g_x_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const Vec<float, 4> x_1 = nn_float(nn_load<4>(g_x + i));
  Vec<float, 4> x_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    x_2_out[j] = x_1[j];
  }
  nn_store<4>(g_x_2 + i, nn_cast<f16>(x_2_out));
}
// mlp__fc1_relu: matmul+add+relu
// from models/mlp.lua:6
//   in  g_x: f16(8, 784), x
//   in  g_fc1: f16(784, 256) in memory order 1,0, fc1
//   in  g_bias: f32(256), fc1.bias
//   out g_relu: f16(8, 256), relu
// grid 12x1x1 of 128 threads, 46096 bytes of dynamic shared memory
// 3215360 FLOP, 439568 bytes read, 28688 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
#include "lib/epilogue.cuh"
#include "lib/arrive.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kN = 256;
constexpr int kTileM = 8, kTileN = 64;
constexpr int kWarpM = 8, kWarpN = 16;  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = 5;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 4;
constexpr int kLanes = 8;  // neighbouring outputs per thread in the epilogue
using T = f16;             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kM = 8, kK = 784, kTilesM = (kM + kTileM - 1) / kTileM;
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
constexpr int kSplits = 3, kBatch = 1;  // split-K blocks per tile; batch
constexpr int kPartGroup = 3;  // splits whose sums are added first
constexpr int kPartCounts = 1;  // counters per tile
using Product = MmaTile<T, kWarpM, kWarpN>;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;
static_assert(Product::kStepBytes == 32 && Product::kInFlight == 0,
  "the planner's figures");
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
constexpr bool kFull = true;    // every split has blocks of k
constexpr bool kWalks = false;  // blocks continue with other tiles
constexpr bool kHidden = kBlocks > 2;  // trip count
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
};
__device__ __forceinline__ Place place_of(unsigned block) {  // unsigned: cheaper to divide
  const int tile = kSplits * kBatch == 1 ? block : block % kTiles;
  const int part = kSplits * kBatch == 1 ? 0 : block / kTiles;
  const int batch = kBatch == 1 ? 0 : part / kSplits;
  const int split = kBatch == 1 ? part : part % kSplits;
  const TileOrder<kTilesM, kTilesN> at(tile);
  const int m0 = at.m * kTileM, n0 = at.n * kTileN, blocks = kBlocks;
  const int first = split * blocks / kSplits, end = (split + 1) * blocks / kSplits;
  return {at, tile, split, batch, m0, n0, blocks, first, end};
}

// Operand a: row addresses, and offsets along k.
struct MapA {
  static constexpr int kRows = kM, kDepth = kK;
  static constexpr int kPiece = 8;  // elements per cp.async
  static constexpr int kTapRun = 0;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = true, kBounded = false;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kM; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int m, int) {
    return m * 784;
  }
  __device__ static int at(int k) {
    return k;
  }
};

// Operand b: row addresses, and offsets along k.
struct MapB {
  static constexpr int kRows = kN, kDepth = kK;
  static constexpr int kPiece = 8;  // elements per cp.async
  static constexpr int kTapRun = 0;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = true, kBounded = false;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kN; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int n, int) {
    return n * 784;
  }
  __device__ static int at(int k) {
    return k;
  }
};

struct Smem {
  union {
    Ring<kStages, kTileM, kTileN> ring;
    float out[kTileM * kTileN];
  };
  bool last;
};
static_assert(sizeof(Smem) <= 46096, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) mlp__fc1_relu(
  const f16 *__restrict__ g_x,
  const f16 *__restrict__ g_fc1,
  const float *__restrict__ g_bias,
  f16 *__restrict__ g_relu,
  float *own_sums,
  int *own_arrived) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
  using SourceA = AlongSource<MapA, T, kTileM, kThreads>;
  SourceA a(g_x, place.m0, place.batch);
  using SourceB = AlongSource<MapB, T, kTileN, kThreads>;
  SourceB b(g_fc1, place.n0, place.batch);

  const NoNextTile next_tile;
  Loop loop(place.first, place.end, place.blocks);
  const Product &product = loop.product;
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
  auto load = [&](int block, int stage) {
    a.load(block, smem.ring.a[stage]);
    b.load(block, smem.ring.b[stage]);
  };
  loop.fill(load, next_tile);
  auto multiply_tile = [&] { loop.multiply(smem.ring, warp_m, warp_n, load, next_tile); };
  multiply_tile();
  nn_cp_async_wait<0>();
  nn_sync();

  // Outputs are staged in shared memory so that neighbours along n are stored together.
  product.stage(ByRows<kTileN>{smem.out}, warp_m, warp_n);
  nn_sync();

  // Split-K: each block stores its partial tile; the last one adds them and runs the epilogue.
  const int tile_id = batch * kTiles + place.tile;
  float *sums_of_parts = own_sums + tile_id * (kSplits * kTileM * kTileN);
  int *arrived = own_arrived + tile_id * kPartCounts;
  if (!sum_parts<kThreads, kTileM * kTileN, kSplits, kPartGroup>(
    smem.out, sums_of_parts, place.split, arrived, &smem.last))
  return;

  // Starts the loads for outputs at (m, n); returns the function that computes and stores them.
  auto epilogue = [&](int m, int n) {
    const Vec<float, 8> bias = nn_float(nn_load<8>(g_bias + n));
    Vec<float, 8> relu_out;
    return [=, &smem](const Vec<float, kLanes> &acc) mutable {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float fc1_add = acc[j] + bias[j];
        const float relu = nn_max(fc1_add, 0.f);
        relu_out[j] = relu;
      }
      nn_store<8>(g_relu + m * 256 + n, nn_cast<f16>(relu_out));
    };
  };
  each_output<kM, kN, kTileM, kTileN, kLanes, kThreads>(smem.out, m0, n0, kM, epilogue);
}
// mlp__fc2_init: copy
// from models/mlp.lua:6
//   in  g_weight: f32(256, 256), fc2.weight
//   out g_fc2: f16(256, 256) in memory order 1,0, fc2
// grid 64x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 262144 bytes read, 131072 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 65536;

extern "C" __global__ void __launch_bounds__(kThreads) mlp__fc2_init(
  const float *__restrict__ g_weight,
  f16 *__restrict__ g_fc2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + i));
  Vec<float, 4> fc2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    fc2_out[j] = weight[j];
  }
  nn_store<4>(g_fc2 + i, nn_cast<f16>(fc2_out));
}
// mlp__fc2_relu: matmul+add+relu
// from models/mlp.lua:6
//   in  g_relu: f16(8, 256), relu
//   in  g_fc2: f16(256, 256) in memory order 1,0, fc2
//   in  g_bias: f32(256), fc2.bias
//   out g_relu_2: f16(8, 256), relu
// grid 4x1x1 of 128 threads, 36880 bytes of dynamic shared memory
// 1052672 FLOP, 136192 bytes read, 4096 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
#include "lib/epilogue.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kN = 256;
constexpr int kTileM = 8, kTileN = 64;
constexpr int kWarpM = 8, kWarpN = 16;  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = 4;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 6;
constexpr int kLanes = 8;  // neighbouring outputs per thread in the epilogue
using T = f16;             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kM = 8, kK = 256, kTilesM = (kM + kTileM - 1) / kTileM;
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
constexpr int kSplits = 1, kBatch = 1;  // split-K blocks per tile; batch
using Product = MmaTile<T, kWarpM, kWarpN>;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;
static_assert(Product::kStepBytes == 32 && Product::kInFlight == 0,
  "the planner's figures");
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
constexpr bool kFull = true;    // every split has blocks of k
constexpr bool kWalks = false;  // blocks continue with other tiles
constexpr bool kHidden = kBlocks > 2;  // trip count
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
};
__device__ __forceinline__ Place place_of(unsigned block) {  // unsigned: cheaper to divide
  const int tile = kSplits * kBatch == 1 ? block : block % kTiles;
  const int part = kSplits * kBatch == 1 ? 0 : block / kTiles;
  const int batch = kBatch == 1 ? 0 : part / kSplits;
  const int split = kBatch == 1 ? part : part % kSplits;
  const TileOrder<kTilesM, kTilesN> at(tile);
  const int m0 = at.m * kTileM, n0 = at.n * kTileN, blocks = kBlocks;
  const int first = split * blocks / kSplits, end = (split + 1) * blocks / kSplits;
  return {at, tile, split, batch, m0, n0, blocks, first, end};
}

// Operand a: row addresses, and offsets along k.
struct MapA {
  static constexpr int kRows = kM, kDepth = kK;
  static constexpr int kPiece = 8;  // elements per cp.async
  static constexpr int kTapRun = 0;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = true, kBounded = false;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kM; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int m, int) {
    return m * 256;
  }
  __device__ static int at(int k) {
    return k;
  }
};

// Operand b: row addresses, and offsets along k.
struct MapB {
  static constexpr int kRows = kN, kDepth = kK;
  static constexpr int kPiece = 8;  // elements per cp.async
  static constexpr int kTapRun = 0;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = true, kBounded = false;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kN; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int n, int) {
    return n * 256;
  }
  __device__ static int at(int k) {
    return k;
  }
};

struct Smem {
  union {
    Ring<kStages, kTileM, kTileN> ring;
    float out[kTileM * kTileN];
  };
};
static_assert(sizeof(Smem) <= 36880, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) mlp__fc2_relu(
  const f16 *__restrict__ g_relu,
  const f16 *__restrict__ g_fc2,
  const float *__restrict__ g_bias,
  f16 *__restrict__ g_relu_2) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
  using SourceA = AlongSource<MapA, T, kTileM, kThreads>;
  SourceA a(g_relu, place.m0, place.batch);
  using SourceB = AlongSource<MapB, T, kTileN, kThreads>;
  SourceB b(g_fc2, place.n0, place.batch);

  const NoNextTile next_tile;
  Loop loop(place.first, place.end, place.blocks);
  const Product &product = loop.product;
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
  auto load = [&](int block, int stage) {
    a.load(block, smem.ring.a[stage]);
    b.load(block, smem.ring.b[stage]);
  };
  loop.fill(load, next_tile);
  auto multiply_tile = [&] { loop.multiply(smem.ring, warp_m, warp_n, load, next_tile); };
  multiply_tile();
  nn_cp_async_wait<0>();
  nn_sync();

  // Outputs are staged in shared memory so that neighbours along n are stored together.
  product.stage(ByRows<kTileN>{smem.out}, warp_m, warp_n);
  nn_sync();

  // Starts the loads for outputs at (m, n); returns the function that computes and stores them.
  auto epilogue = [&](int m, int n) {
    const Vec<float, 8> bias = nn_float(nn_load<8>(g_bias + n));
    Vec<float, 8> relu_2_out;
    return [=, &smem](const Vec<float, kLanes> &acc) mutable {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float fc2_add = acc[j] + bias[j];
        const float relu = nn_max(fc2_add, 0.f);
        relu_2_out[j] = relu;
      }
      nn_store<8>(g_relu_2 + m * 256 + n, nn_cast<f16>(relu_2_out));
    };
  };
  each_output<kM, kN, kTileM, kTileN, kLanes, kThreads>(smem.out, m0, n0, kM, epilogue);
}
// mlp__fc3_init: copy
// from models/mlp.lua:10
//   in  g_weight: f32(10, 256), fc3.weight
//   out g_fc3: f16(256, 10) in memory order 1,0, fc3
// grid 3x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 10240 bytes read, 5120 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 2560;

extern "C" __global__ void __launch_bounds__(kThreads) mlp__fc3_init(
  const float *__restrict__ g_weight,
  f16 *__restrict__ g_fc3) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + i));
  Vec<float, 4> fc3_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    fc3_out[j] = weight[j];
  }
  nn_store<4>(g_fc3 + i, nn_cast<f16>(fc3_out));
}
// mlp__fc3: matmul+add
// from models/mlp.lua:10
//   in  g_relu: f16(8, 256), relu
//   in  g_fc3: f16(256, 10) in memory order 1,0, fc3
//   in  g_bias: f32(10), fc3.bias
//   out g_fc3_2: f32(8, 10), fc3
// grid 1x1x1 of 128 threads, 36880 bytes of dynamic shared memory
// 41040 FLOP, 9256 bytes read, 320 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
#include "lib/epilogue.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kN = 10;
constexpr int kTileM = 8, kTileN = 64;
constexpr int kWarpM = 8, kWarpN = 16;  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = 4;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 6;
constexpr int kLanes = 2;  // neighbouring outputs per thread in the epilogue
using T = f16;             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kM = 8, kK = 256, kTilesM = (kM + kTileM - 1) / kTileM;
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
constexpr int kSplits = 1, kBatch = 1;  // split-K blocks per tile; batch
using Product = MmaTile<T, kWarpM, kWarpN>;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;
static_assert(Product::kStepBytes == 32 && Product::kInFlight == 0,
  "the planner's figures");
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
constexpr bool kFull = true;    // every split has blocks of k
constexpr bool kWalks = false;  // blocks continue with other tiles
constexpr bool kHidden = kBlocks > 2;  // trip count
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
};
__device__ __forceinline__ Place place_of(unsigned block) {  // unsigned: cheaper to divide
  const int tile = kSplits * kBatch == 1 ? block : block % kTiles;
  const int part = kSplits * kBatch == 1 ? 0 : block / kTiles;
  const int batch = kBatch == 1 ? 0 : part / kSplits;
  const int split = kBatch == 1 ? part : part % kSplits;
  const TileOrder<kTilesM, kTilesN> at(tile);
  const int m0 = at.m * kTileM, n0 = at.n * kTileN, blocks = kBlocks;
  const int first = split * blocks / kSplits, end = (split + 1) * blocks / kSplits;
  return {at, tile, split, batch, m0, n0, blocks, first, end};
}

// Operand a: row addresses, and offsets along k.
struct MapA {
  static constexpr int kRows = kM, kDepth = kK;
  static constexpr int kPiece = 8;  // elements per cp.async
  static constexpr int kTapRun = 0;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = true, kBounded = false;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kM; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int m, int) {
    return m * 256;
  }
  __device__ static int at(int k) {
    return k;
  }
};

// Operand b: row addresses, and offsets along k.
struct MapB {
  static constexpr int kRows = kN, kDepth = kK;
  static constexpr int kPiece = 8;  // elements per cp.async
  static constexpr int kTapRun = 0;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = true, kBounded = false;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kN; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int n, int) {
    return n * 256;
  }
  __device__ static int at(int k) {
    return k;
  }
};

struct Smem {
  union {
    Ring<kStages, kTileM, kTileN> ring;
    float out[kTileM * kTileN];
  };
};
static_assert(sizeof(Smem) <= 36880, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) mlp__fc3(
  const f16 *__restrict__ g_relu,
  const f16 *__restrict__ g_fc3,
  const float *__restrict__ g_bias,
  float *__restrict__ g_fc3_2) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
  using SourceA = AlongSource<MapA, T, kTileM, kThreads>;
  SourceA a(g_relu, place.m0, place.batch);
  using SourceB = AlongSource<MapB, T, kTileN, kThreads>;
  SourceB b(g_fc3, place.n0, place.batch);

  const NoNextTile next_tile;
  Loop loop(place.first, place.end, place.blocks);
  const Product &product = loop.product;
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
  auto load = [&](int block, int stage) {
    a.load(block, smem.ring.a[stage]);
    b.load(block, smem.ring.b[stage]);
  };
  loop.fill(load, next_tile);
  auto multiply_tile = [&] { loop.multiply(smem.ring, warp_m, warp_n, load, next_tile); };
  multiply_tile();
  nn_cp_async_wait<0>();
  nn_sync();

  // Outputs are staged in shared memory so that neighbours along n are stored together.
  product.stage(ByRows<kTileN>{smem.out}, warp_m, warp_n);
  nn_sync();

  // Starts the loads for outputs at (m, n); returns the function that computes and stores them.
  auto epilogue = [&](int m, int n) {
    const Vec<float, 2> bias = nn_float(nn_load<2>(g_bias + n));
    Vec<float, 2> fc3_2_out;
    return [=, &smem](const Vec<float, kLanes> &acc) mutable {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float fc3_add = acc[j] + bias[j];
        fc3_2_out[j] = fc3_add;
      }
      nn_store<2>(g_fc3_2 + m * 10 + n, nn_cast<float>(fc3_2_out));
    };
  };
  each_output<kM, kN, kTileM, kTileN, kLanes, kThreads>(smem.out, m0, n0, kM, epilogue);
}
