// lenet__conv1_relu: conv2d+add+relu
// from models/lenet.lua:6
//   in  g_image: f32(1, 1, 28, 28), image
//   in  g_weight: f32(6, 1, 5, 5), conv1.weight
//   in  g_bias: f32(6), conv1.bias
//   out g_relu: f32(1, 6, 28, 28) in memory order 0,2,3,1, relu
// grid 25x1x1 of 128 threads, 16912 bytes of dynamic shared memory
// 244608 FLOP, 3760 bytes read, 18816 bytes written
#include "lib/prim.cuh"
#include "lib/fma.cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
#include "lib/epilogue.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kN = 6;
constexpr int kTileM = 32, kTileN = 32;
constexpr int kWarpM = 16, kWarpN = 16;  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = 2;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 4;
constexpr int kLanes = 2;  // neighbouring outputs per thread in the epilogue
using T = float;             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kM = 784, kK = 25, kTilesM = (kM + kTileM - 1) / kTileM;
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
constexpr int kSplits = 1, kBatch = 1;  // split-K blocks per tile; batch
using Product = FmaTile<T, kWarpM, kWarpN>;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;
static_assert(Product::kStepBytes == 16 && Product::kInFlight == 0,
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
  static constexpr int kPiece = 1;  // elements per cp.async
  static constexpr int kTapRun = 1;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = false, kBounded = true;
  static constexpr bool kOverlaps = true;
  __device__ static int rows() { return kM; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int m, int) {
    return m;
  }
  __device__ static int at(int k) {
    const int r = k / 5;
    const int s = k % 5;
    return r * 28 + s;
  }
  __device__ static unsigned missing(int m) {
    const int p = m / 28;
    const int q = m % 28;
    return tap_misses<5, 1>(p - 2, 28) | tap_misses<5, 1>(q - 2, 28) << 5;
  }
  __device__ static unsigned tap(int k) {
    const int r = k / 5;
    const int s = k % 5;
    return 1u << r | 1u << (5 + s);
  }
};

// Operand b: row addresses, and offsets along k.
struct MapB {
  static constexpr int kRows = kN, kDepth = kK;
  static constexpr int kPiece = 1;  // elements per cp.async
  static constexpr int kTapRun = 0;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = true, kBounded = false;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kN; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int n, int) {
    return n * 25;
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
  Tap taps[32];
  RowTable<kTileM, kThreads> rows;  // of a
};
static_assert(sizeof(Smem) <= 16912, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) lenet__conv1_relu(
  const float *__restrict__ g_image,
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  float *__restrict__ g_relu) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
  smem.rows.write(MapA{}, place.m0, place.batch);
  write_taps<kThreads>(MapA{}, smem.taps, place.blocks * (kTileK / 1));
  nn_sync();  // wait for the tables of rows and taps
  using SourceA = AlongSource<MapA, T, kTileM, kThreads>;
  SourceA a(g_image - 56 - 2, place.m0, place.batch, smem.taps, &smem.rows);
  using SourceB = AlongSource<MapB, T, kTileN, kThreads>;
  SourceB b(g_weight, place.n0, place.batch);

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
    Vec<float, 2> relu_out;
    return [=, &smem](const Vec<float, kLanes> &acc) mutable {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float conv1_add = acc[j] + bias[j];
        const float relu = nn_max(conv1_add, 0.f);
        relu_out[j] = relu;
      }
      nn_store<2>(g_relu + m * 6 + n, nn_cast<float>(relu_out));
    };
  };
  each_output<kM, kN, kTileM, kTileN, kLanes, kThreads>(smem.out, m0, n0, kM, epilogue);
}
// lenet__max_pool2d: window_max
// from models/lenet.lua:6
//   in  g_relu: f32(1, 6, 28, 28) in memory order 0,2,3,1, relu
//   out g_max_pool2d: f32(1, 6, 14, 14) in memory order 0,2,3,1, max_pool2d
// grid 3x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 4704 FLOP, 18816 bytes read, 4704 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 2;  // neighbouring channels per thread
constexpr int kCount = 1176;

extern "C" __global__ void __launch_bounds__(kThreads) lenet__max_pool2d(
  const float *__restrict__ g_relu,
  float *__restrict__ g_max_pool2d) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int c = i % 6;
  const int w = i / 6 % 14;
  const int h = i / 84 % 14;
  float acc[kLanes];
#pragma unroll
  for (int j = 0; j < kLanes; ++j) acc[j] = -nn_inf();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int y = h * 2 - 0 + r * 1;
    if (unsigned(y) >= 28u) continue;  // padding does not count
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int x = w * 2 - 0 + s * 1;
      if (unsigned(x) >= 28u) continue;
      const Vec<float, 2> relu = nn_float(nn_load<2>(g_relu + y * 168 + x * 6 + c));
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        acc[j] = nn_max(acc[j], relu[j]);
      }
    }
  }
  Vec<float, 2> max_pool2d_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    max_pool2d_out[j] = acc[j];
  }
  nn_store<2>(g_max_pool2d + i, nn_cast<float>(max_pool2d_out));
}
// lenet__conv2_weight_init: copy
// from models/lenet.lua:7
//   in  g_weight: f32(16, 6, 5, 5), conv2.weight
//   out g_weight_2: f32(16, 6, 5, 5) in memory order 0,2,3,1, conv2.weight
// grid 50x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 9600 bytes read, 9600 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 2;  // neighbouring elements per thread
constexpr int kCount = 2400;

extern "C" __global__ void __launch_bounds__(kThreads) lenet__conv2_weight_init(
  const float *__restrict__ g_weight,
  float *__restrict__ g_weight_2) {
  constexpr int kColumns = 6;
  constexpr int kRows = 8;           // of a block
  constexpr int kAcross = kThreads / kRows;  // threads of a row
  constexpr int kBlocksAcross = (kColumns - 1) / (kAcross * kLanes) + 1;
  const int row = blockIdx.x / kBlocksAcross * kRows + threadIdx.x / kAcross;
  const int column = (blockIdx.x % kBlocksAcross * kAcross + threadIdx.x % kAcross) * kLanes;
  if (row >= kCount / kColumns || column >= kColumns) return;
  const int i = row * kColumns + column;
  nn_assume(i >= 0);  // makes remainders cheaper
  const int c = i % 6;
  const int w = i / 6 % 5;
  const int h = i / 30 % 5;
  const int n = i / 150;
  Vec<float, 2> weight_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float weight = nn_float(g_weight[n * 150 + c * 25 + h * 5 + w + j * 25]);
    weight_2_out[j] = weight;
  }
  nn_store<2>(g_weight_2 + i, nn_cast<float>(weight_2_out));
}
// lenet__conv2_relu: conv2d+add+relu
// from models/lenet.lua:7
//   in  g_max_pool2d: f32(1, 6, 14, 14) in memory order 0,2,3,1, max_pool2d
//   in  g_weight: f32(16, 6, 5, 5) in memory order 0,2,3,1, conv2.weight
//   in  g_bias: f32(16), conv2.bias
//   out g_relu: f32(1, 16, 10, 10) in memory order 0,2,3,1, relu
// grid 4x1x1 of 128 threads, 41872 bytes of dynamic shared memory
// 483200 FLOP, 14368 bytes read, 6400 bytes written
#include "lib/prim.cuh"
#include "lib/fma.cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
#include "lib/epilogue.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kN = 16;
constexpr int kTileM = 32, kTileN = 32;
constexpr int kWarpM = 16, kWarpN = 16;  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = 5;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 4;
constexpr int kLanes = 4;  // neighbouring outputs per thread in the epilogue
using T = float;             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kM = 100, kK = 150, kTilesM = (kM + kTileM - 1) / kTileM;
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
constexpr int kSplits = 1, kBatch = 1;  // split-K blocks per tile; batch
using Product = FmaTile<T, kWarpM, kWarpN>;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;
static_assert(Product::kStepBytes == 16 && Product::kInFlight == 0,
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
  static constexpr int kPiece = 2;  // elements per cp.async
  static constexpr int kTapRun = 2;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = false, kBounded = false;
  static constexpr bool kOverlaps = true;
  __device__ static int rows() { return kM; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int m, int) {
    const int p = m / 10;
    const int q = m % 10;
    return p * 84 + q * 6;
  }
  __device__ static int at(int k) {
    const int r = k / 30;
    const int s = k / 6 % 5;
    const int c = k % 6;
    return r * 84 + s * 6 + c;
  }
};

// Operand b: row addresses, and offsets along k.
struct MapB {
  static constexpr int kRows = kN, kDepth = kK;
  static constexpr int kPiece = 2;  // elements per cp.async
  static constexpr int kTapRun = 0;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = true, kBounded = false;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kN; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int n, int) {
    return n * 150;
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
  Tap taps[80];
  RowTable<kTileM, kThreads> rows;  // of a
};
static_assert(sizeof(Smem) <= 41872, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) lenet__conv2_relu(
  const float *__restrict__ g_max_pool2d,
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  float *__restrict__ g_relu) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
  smem.rows.write(MapA{}, place.m0, place.batch);
  write_taps<kThreads>(MapA{}, smem.taps, place.blocks * (kTileK / 2));
  nn_sync();  // wait for the tables of rows and taps
  using SourceA = AlongSource<MapA, T, kTileM, kThreads>;
  SourceA a(g_max_pool2d, place.m0, place.batch, smem.taps, &smem.rows);
  using SourceB = AlongSource<MapB, T, kTileN, kThreads>;
  SourceB b(g_weight, place.n0, place.batch);

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
    const Vec<float, 4> bias = nn_float(nn_load<4>(g_bias + n));
    Vec<float, 4> relu_out;
    return [=, &smem](const Vec<float, kLanes> &acc) mutable {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float conv2_add = acc[j] + bias[j];
        const float relu = nn_max(conv2_add, 0.f);
        relu_out[j] = relu;
      }
      nn_store<4>(g_relu + m * 16 + n, nn_cast<float>(relu_out));
    };
  };
  each_output<kM, kN, kTileM, kTileN, kLanes, kThreads>(smem.out, m0, n0, kM, epilogue);
}
// lenet__max_pool2d_2: window_max
// from models/lenet.lua:7
//   in  g_relu: f32(1, 16, 10, 10) in memory order 0,2,3,1, relu
//   out g_max_pool2d: f32(1, 16, 5, 5) in memory order 0,2,3,1, max_pool2d
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 1600 FLOP, 6400 bytes read, 1600 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring channels per thread
constexpr int kCount = 400;

extern "C" __global__ void __launch_bounds__(kThreads) lenet__max_pool2d_2(
  const float *__restrict__ g_relu,
  float *__restrict__ g_max_pool2d) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int c = i % 16;
  const int w = i / 16 % 5;
  const int h = i / 80 % 5;
  float acc[kLanes];
#pragma unroll
  for (int j = 0; j < kLanes; ++j) acc[j] = -nn_inf();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int y = h * 2 - 0 + r * 1;
    if (unsigned(y) >= 10u) continue;  // padding does not count
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int x = w * 2 - 0 + s * 1;
      if (unsigned(x) >= 10u) continue;
      const Vec<float, 4> relu = nn_float(nn_load<4>(g_relu + y * 160 + x * 16 + c));
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        acc[j] = nn_max(acc[j], relu[j]);
      }
    }
  }
  Vec<float, 4> max_pool2d_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    max_pool2d_out[j] = acc[j];
  }
  nn_store<4>(g_max_pool2d + i, nn_cast<float>(max_pool2d_out));
}
// lenet__fc1_relu: mul+reduce_sum+add+relu
// from models/lenet.lua:8
//   in  g_max_pool2d: f32(1, 16, 5, 5) in memory order 0,2,3,1, max_pool2d
//   in  g_weight: f32(120, 400), fc1.weight
//   in  g_bias: f32(120), fc1.bias
//   out g_relu: f32(120, 1), relu
// grid 15x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 96240 FLOP, 194080 bytes read, 480 bytes written
#include "lib/prim.cuh"
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

constexpr int kThreads = 32;  // per row
constexpr int kRowThreads = kThreads;
constexpr int kRowsPerBlock = 8;
constexpr int kRowWarps = 1;
constexpr int kLanes = 4;    // neighbouring elements per access
constexpr int kItems = 4;    // accesses per thread: the row stays in registers
constexpr int kColumns = 400;
constexpr int kRows = 120;

struct Sum {
  float value;
};
__device__ inline void clear(Sum &a) {
  a.value = 0.f;
}
__device__ inline Sum combine(const Sum &a, const Sum &b) {
  Sum both;
  both.value = a.value + b.value;
  return both;
}
using Sums0 = Sum;

extern "C" __global__ void __launch_bounds__(256) lenet__fc1_relu(
  const float *__restrict__ g_max_pool2d,
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  float *__restrict__ g_relu) {
  const int tid = threadIdx.x % kRowThreads;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / kRowThreads;
  if (row >= kRows) return;
  const int n = row;
  Sums0 sums_0;
  clear(sums_0);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (i >= kColumns) continue;
    const int m = i;
    const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + row * 400 + i));
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      Sums0 one;
      const float max_pool2d = nn_float(g_max_pool2d[(((m + j)) / 5 % 5) * 80 + (((m + j)) % 5) * 16 + ((m + j)) / 25]);
      const float fc1_mul = weight[j] * max_pool2d;
      one.value = fc1_mul;
      sums_0 = combine(sums_0, one);
    }
  }
  __shared__ Sums0 part_sums_0[kRowWarps];
  sums_0 = row_join<kRowThreads>(sums_0, part_sums_0);
  const float bias = nn_float(g_bias[n]);
  const float row_reduce_sum = sums_0.value;
  const float fc1_add = row_reduce_sum + bias;
  const float row_add = fc1_add;
  const float relu = nn_max(row_add, 0.f);
  const float row_relu = relu;
  if (tid == 0) g_relu[n] = nn_cast<float>(row_relu);
}
// lenet__fc2_relu: mul+reduce_sum+add+relu
// from models/lenet.lua:8
//   in  g_weight: f32(84, 120), fc2.weight
//   in  g_relu: f32(120, 1), relu
//   in  g_bias: f32(84), fc2.bias
//   out g_relu_2: f32(84, 1), relu
// grid 11x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 20328 FLOP, 41136 bytes read, 336 bytes written
#include "lib/prim.cuh"
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

constexpr int kThreads = 32;  // per row
constexpr int kRowThreads = kThreads;
constexpr int kRowsPerBlock = 8;
constexpr int kRowWarps = 1;
constexpr int kLanes = 4;    // neighbouring elements per access
constexpr int kItems = 1;    // accesses per thread: the row stays in registers
constexpr int kColumns = 120;
constexpr int kRows = 84;

struct Sum {
  float value;
};
__device__ inline void clear(Sum &a) {
  a.value = 0.f;
}
__device__ inline Sum combine(const Sum &a, const Sum &b) {
  Sum both;
  both.value = a.value + b.value;
  return both;
}
using Sums0 = Sum;

extern "C" __global__ void __launch_bounds__(256) lenet__fc2_relu(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_relu,
  const float *__restrict__ g_bias,
  float *__restrict__ g_relu_2) {
  const int tid = threadIdx.x % kRowThreads;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / kRowThreads;
  if (row >= kRows) return;
  const int n = row;
  Sums0 sums_0;
  clear(sums_0);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (i >= kColumns) continue;
    const int m = i;
    const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + row * 120 + i));
    const Vec<float, 4> relu = nn_float(nn_load<4>(g_relu + m));
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      Sums0 one;
      const float fc2_mul = weight[j] * relu[j];
      one.value = fc2_mul;
      sums_0 = combine(sums_0, one);
    }
  }
  __shared__ Sums0 part_sums_0[kRowWarps];
  sums_0 = row_join<kRowThreads>(sums_0, part_sums_0);
  const float bias = nn_float(g_bias[n]);
  const float row_reduce_sum = sums_0.value;
  const float fc2_add = row_reduce_sum + bias;
  const float row_add = fc2_add;
  const float relu_2 = nn_max(row_add, 0.f);
  const float row_relu = relu_2;
  if (tid == 0) g_relu_2[n] = nn_cast<float>(row_relu);
}
// lenet__fc3: mul+reduce_sum+add
// from models/lenet.lua:12
//   in  g_weight: f32(10, 84), fc3.weight
//   in  g_relu: f32(84, 1), relu
//   in  g_bias: f32(10), fc3.bias
//   out g_fc3: f32(1, 10), fc3
// grid 2x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 1690 FLOP, 3736 bytes read, 40 bytes written
#include "lib/prim.cuh"
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

constexpr int kThreads = 32;  // per row
constexpr int kRowThreads = kThreads;
constexpr int kRowsPerBlock = 8;
constexpr int kRowWarps = 1;
constexpr int kLanes = 4;    // neighbouring elements per access
constexpr int kItems = 1;    // accesses per thread: the row stays in registers
constexpr int kColumns = 84;
constexpr int kRows = 10;

struct Sum {
  float value;
};
__device__ inline void clear(Sum &a) {
  a.value = 0.f;
}
__device__ inline Sum combine(const Sum &a, const Sum &b) {
  Sum both;
  both.value = a.value + b.value;
  return both;
}
using Sums0 = Sum;

extern "C" __global__ void __launch_bounds__(256) lenet__fc3(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_relu,
  const float *__restrict__ g_bias,
  float *__restrict__ g_fc3) {
  const int tid = threadIdx.x % kRowThreads;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / kRowThreads;
  if (row >= kRows) return;
  const int n = row;
  Sums0 sums_0;
  clear(sums_0);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (i >= kColumns) continue;
    const int m = i;
    const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + row * 84 + i));
    const Vec<float, 4> relu = nn_float(nn_load<4>(g_relu + m));
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      Sums0 one;
      const float fc3_mul = weight[j] * relu[j];
      one.value = fc3_mul;
      sums_0 = combine(sums_0, one);
    }
  }
  __shared__ Sums0 part_sums_0[kRowWarps];
  sums_0 = row_join<kRowThreads>(sums_0, part_sums_0);
  const float bias = nn_float(g_bias[n]);
  const float row_reduce_sum = sums_0.value;
  const float fc3_add = row_reduce_sum + bias;
  const float row_add = fc3_add;
  if (tid == 0) g_fc3[n] = nn_cast<float>(row_add);
}
// lenet__softmax: reduce_max+sub+exp+reduce_sum+div
// from models/lenet.lua:12
//   in  g_fc3: f32(1, 10), fc3
//   out g_softmax: f32(1, 10), softmax
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 80 FLOP, 40 bytes read, 40 bytes written
#include "lib/prim.cuh"
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

constexpr int kThreads = 8;  // per row
constexpr int kRowThreads = kThreads;
constexpr int kRowsPerBlock = 32;
constexpr int kRowWarps = 1;
constexpr int kLanes = 2;    // neighbouring elements per access
constexpr int kItems = 1;    // accesses per thread: the row stays in registers
constexpr int kColumns = 10;
constexpr int kRows = 1;

struct Max {
  float value;
};
__device__ inline void clear(Max &a) {
  a.value = -nn_inf();
}
__device__ inline Max combine(const Max &a, const Max &b) {
  Max both;
  both.value = nn_max(a.value, b.value);
  return both;
}
struct Sum {
  float value;
};
__device__ inline void clear(Sum &a) {
  a.value = 0.f;
}
__device__ inline Sum combine(const Sum &a, const Sum &b) {
  Sum both;
  both.value = a.value + b.value;
  return both;
}
using Sums0 = Max;
using Sums1 = Sum;

extern "C" __global__ void __launch_bounds__(256) lenet__softmax(
  const float *__restrict__ g_fc3,
  float *__restrict__ g_softmax) {
  const int tid = threadIdx.x % kRowThreads;
  const bool inside = blockIdx.x * kRowsPerBlock + threadIdx.x / kRowThreads < kRows;
  const int row = inside ? blockIdx.x * kRowsPerBlock + threadIdx.x / kRowThreads : kRows - 1;
  float kept_add[kItems * kLanes];
  float kept_exp[kItems * kLanes];
  Sums0 sums_0;
  clear(sums_0);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (!inside || i >= kColumns) continue;
    const Vec<float, 2> fc3_add = nn_float(nn_load<2>(g_fc3 + i));
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      Sums0 one;
      kept_add[item * kLanes + j] = fc3_add[j];
      one.value = fc3_add[j];
      sums_0 = combine(sums_0, one);
    }
  }
  __shared__ Sums0 part_sums_0[kRowWarps];
  sums_0 = row_join<kRowThreads>(sums_0, part_sums_0);
  const float row_reduce_max = sums_0.value;
  Sums1 sums_1;
  clear(sums_1);
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (!inside || i >= kColumns) continue;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      Sums1 one;
      const float softmax_sub = kept_add[item * kLanes + j] - row_reduce_max;
      const float softmax_exp = nn_exp(softmax_sub);
      kept_exp[item * kLanes + j] = softmax_exp;
      one.value = softmax_exp;
      sums_1 = combine(sums_1, one);
    }
  }
  __shared__ Sums1 part_sums_1[kRowWarps];
  sums_1 = row_join<kRowThreads>(sums_1, part_sums_1);
  const float row_reduce_sum = sums_1.value;
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (!inside || i >= kColumns) continue;
    Vec<float, 2> softmax_out;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      const float softmax_div = kept_exp[item * kLanes + j] / row_reduce_sum;
      softmax_out[j] = softmax_div;
    }
    nn_store<2>(g_softmax + i, nn_cast<float>(softmax_out));
  }
}
