// resnet18__layer2_0_bn1_init: add+rsqrt+neg+mul+mul+add
// from models/resnet.lua:10
//   in  g_running_mean: f32(128), layer2.0.bn1.running_mean
//   in  g_running_var: f32(128), layer2.0.bn1.running_var
//   in  g_weight: f32(128), layer2.0.bn1.weight
//   in  g_bias: f32(128), layer2.0.bn1.bias
//   out g_bn1: f32(128, 1, 1, 1), layer2.0.bn1
//   out g_bn1_2: f32(1, 128, 1, 1), layer2.0.bn1
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 1152 FLOP, 2048 bytes read, 1024 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 128;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_bn1_init(
  const float *__restrict__ g_running_mean,
  const float *__restrict__ g_running_var,
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  float *__restrict__ g_bn1,
  float *__restrict__ g_bn1_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const Vec<float, 4> running_var = nn_float(nn_load<4>(g_running_var + i));
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + i));
  const Vec<float, 4> running_mean = nn_float(nn_load<4>(g_running_mean + i));
  const Vec<float, 4> bias = nn_float(nn_load<4>(g_bias + i));
  Vec<float, 4> bn1_out;
  Vec<float, 4> bn1_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float bn1_add = running_var[j] + 1e-05f;
    const float bn1_rsqrt = nn_rsqrt(bn1_add);
    const float bn1_mul = bn1_rsqrt * weight[j];
    const float bn1_neg = -running_mean[j];
    const float bn1_mul_2 = bn1_neg * bn1_mul;
    const float bn1_add_2 = bn1_mul_2 + bias[j];
    bn1_out[j] = bn1_mul;
    bn1_2_out[j] = bn1_add_2;
  }
  nn_store<4>(g_bn1 + i, nn_cast<float>(bn1_out));
  nn_store<4>(g_bn1_2 + i, nn_cast<float>(bn1_2_out));
}
// resnet18__layer2_0_bn1_init_2: mul
// from models/resnet.lua:10
//   in  g_weight: f32(128, 64, 3, 3), layer2.0.conv1.weight
//   in  g_bn1: f32(128, 1, 1, 1), layer2.0.bn1
//   out g_bn1_2: bf16(128, 64, 3, 3) in memory order 0,2,3,1, layer2.0.bn1
// grid 144x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 73728 FLOP, 295424 bytes read, 147456 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 73728;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_bn1_init_2(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bn1,
  bf16 *__restrict__ g_bn1_2) {
  constexpr int kColumns = 64;
  constexpr int kRows = 8;           // of a block
  constexpr int kAcross = kThreads / kRows;  // threads of a row
  constexpr int kBlocksAcross = (kColumns - 1) / (kAcross * kLanes) + 1;
  const int row = blockIdx.x / kBlocksAcross * kRows + threadIdx.x / kAcross;
  const int column = (blockIdx.x % kBlocksAcross * kAcross + threadIdx.x % kAcross) * kLanes;
  if (row >= kCount / kColumns || column >= kColumns) return;
  const int i = row * kColumns + column;
  nn_assume(i >= 0);  // makes remainders cheaper
  const int c = i % 64;
  const int w = i / 64 % 3;
  const int h = i / 192 % 3;
  const int n = i / 576;
  const float bn1 = nn_float(g_bn1[n]);
  Vec<float, 4> bn1_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float weight = nn_float(g_weight[n * 576 + c * 9 + h * 3 + w + j * 9]);
    const float bn1_mul = weight * bn1;
    bn1_2_out[j] = bn1_mul;
  }
  nn_store<4>(g_bn1_2 + i, nn_cast<bf16>(bn1_2_out));
}
// resnet18__layer2_0_conv1_bn1_relu: conv2d+add+relu
// from models/resnet.lua:10
//   in  g_relu: bf16(1, 64, 56, 56) in memory order 0,2,3,1, layer1.1.relu
//   in  g_bn1: bf16(128, 64, 3, 3) in memory order 0,2,3,1, layer2.0.bn1
//   in  g_bn1_2: f32(1, 128, 1, 1), layer2.0.bn1
//   out g_relu_2: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.relu
// grid 100x1x1 of 128 threads, 41304 bytes of dynamic shared memory
// 115806208 FLOP, 549376 bytes read, 200704 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
#include "lib/epilogue.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kN = 128;
constexpr int kTileM = 32, kTileN = 32;
constexpr int kWarpM = 16, kWarpN = 16;  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = 5;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 5;
constexpr int kLanes = 8;  // neighbouring outputs per thread in the epilogue
using T = bf16;             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kM = 784, kK = 576, kTilesM = (kM + kTileM - 1) / kTileM;
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
  static constexpr int kTapRun = 64;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = false, kBounded = true;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kM; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int m, int) {
    const int p = m / 28;
    const int q = m % 28;
    return p * 7168 + q * 128;
  }
  __device__ static int at(int k) {
    const int r = k / 192;
    const int s = k / 64 % 3;
    const int c = k % 64;
    return r * 3584 + s * 64 + c;
  }
  __device__ static unsigned missing(int m) {
    const int p = m / 28;
    const int q = m % 28;
    return tap_misses<3, 1>(p * 2 - 1, 56) | tap_misses<3, 1>(q * 2 - 1, 56) << 3;
  }
  __device__ static unsigned tap(int k) {
    const int r = k / 192;
    const int s = k / 64 % 3;
    return 1u << r | 1u << (3 + s);
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
    return n * 576;
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
  Tap taps[9];
  RowTable<kTileM, kThreads> rows;  // of a
};
static_assert(sizeof(Smem) <= 41304, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) resnet18__layer2_0_conv1_bn1_relu(
  const bf16 *__restrict__ g_relu,
  const bf16 *__restrict__ g_bn1,
  const float *__restrict__ g_bn1_2,
  bf16 *__restrict__ g_relu_2) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
  smem.rows.write(MapA{}, place.m0, place.batch);
  write_taps<kThreads>(MapA{}, smem.taps, place.blocks * (kTileK / 64));
  nn_sync();  // wait for the tables of rows and taps
  using SourceA = AlongSource<MapA, T, kTileM, kThreads>;
  SourceA a(g_relu - 3584 - 64, place.m0, place.batch, smem.taps, &smem.rows);
  using SourceB = AlongSource<MapB, T, kTileN, kThreads>;
  SourceB b(g_bn1, place.n0, place.batch);

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
    const Vec<float, 8> bn1_add = nn_float(nn_load<8>(g_bn1_2 + n));
    Vec<float, 8> relu_2_out;
    return [=, &smem](const Vec<float, kLanes> &acc) mutable {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float bn1_add_2 = acc[j] + bn1_add[j];
        const float relu = nn_max(bn1_add_2, 0.f);
        relu_2_out[j] = relu;
      }
      nn_store<8>(g_relu_2 + m * 128 + n, nn_cast<bf16>(relu_2_out));
    };
  };
  each_output<kM, kN, kTileM, kTileN, kLanes, kThreads>(smem.out, m0, n0, kM, epilogue);
}
// resnet18__layer2_0_bn2_init: add+rsqrt+neg+mul+mul+add
// from models/resnet.lua:11
//   in  g_running_mean: f32(128), layer2.0.bn2.running_mean
//   in  g_running_var: f32(128), layer2.0.bn2.running_var
//   in  g_weight: f32(128), layer2.0.bn2.weight
//   in  g_bias: f32(128), layer2.0.bn2.bias
//   out g_bn2: f32(128, 1, 1, 1), layer2.0.bn2
//   out g_bn2_2: f32(1, 128, 1, 1), layer2.0.bn2
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 1152 FLOP, 2048 bytes read, 1024 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 128;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_bn2_init(
  const float *__restrict__ g_running_mean,
  const float *__restrict__ g_running_var,
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  float *__restrict__ g_bn2,
  float *__restrict__ g_bn2_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const Vec<float, 4> running_var = nn_float(nn_load<4>(g_running_var + i));
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + i));
  const Vec<float, 4> running_mean = nn_float(nn_load<4>(g_running_mean + i));
  const Vec<float, 4> bias = nn_float(nn_load<4>(g_bias + i));
  Vec<float, 4> bn2_out;
  Vec<float, 4> bn2_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float bn2_add = running_var[j] + 1e-05f;
    const float bn2_rsqrt = nn_rsqrt(bn2_add);
    const float bn2_mul = bn2_rsqrt * weight[j];
    const float bn2_neg = -running_mean[j];
    const float bn2_mul_2 = bn2_neg * bn2_mul;
    const float bn2_add_2 = bn2_mul_2 + bias[j];
    bn2_out[j] = bn2_mul;
    bn2_2_out[j] = bn2_add_2;
  }
  nn_store<4>(g_bn2 + i, nn_cast<float>(bn2_out));
  nn_store<4>(g_bn2_2 + i, nn_cast<float>(bn2_2_out));
}
// resnet18__layer2_0_bn2_init_2: mul
// from models/resnet.lua:11
//   in  g_weight: f32(128, 128, 3, 3), layer2.0.conv2.weight
//   in  g_bn2: f32(128, 1, 1, 1), layer2.0.bn2
//   out g_bn2_2: bf16(128, 128, 3, 3) in memory order 0,2,3,1, layer2.0.bn2
// grid 144x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 147456 FLOP, 590336 bytes read, 294912 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 147456;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_bn2_init_2(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bn2,
  bf16 *__restrict__ g_bn2_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const int c = i % 128;
  const int w = i / 128 % 3;
  const int h = i / 384 % 3;
  const int n = i / 1152;
  const float bn2 = nn_float(g_bn2[n]);
  Vec<float, 4> bn2_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float weight = nn_float(g_weight[n * 1152 + c * 9 + h * 3 + w + j * 9]);
    const float bn2_mul = weight * bn2;
    bn2_2_out[j] = bn2_mul;
  }
  nn_store<4>(g_bn2_2 + i, nn_cast<bf16>(bn2_2_out));
}
// resnet18__layer2_0_conv2_bn2: conv2d+add
// from models/resnet.lua:11
//   in  g_relu: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.relu
//   in  g_bn2: bf16(128, 128, 3, 3) in memory order 0,2,3,1, layer2.0.bn2
//   in  g_bn2_2: f32(1, 128, 1, 1), layer2.0.bn2
//   out g_bn2_3: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.bn2
// grid 100x1x1 of 128 threads, 41376 bytes of dynamic shared memory
// 231311360 FLOP, 496128 bytes read, 200704 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
#include "lib/epilogue.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kN = 128;
constexpr int kTileM = 32, kTileN = 32;
constexpr int kWarpM = 16, kWarpN = 16;  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = 5;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 5;
constexpr int kLanes = 8;  // neighbouring outputs per thread in the epilogue
using T = bf16;             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kM = 784, kK = 1152, kTilesM = (kM + kTileM - 1) / kTileM;
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
  static constexpr int kTapRun = 64;  // consecutive k with one tap, from a table
  static constexpr bool kLinear = false, kBounded = true;
  static constexpr bool kOverlaps = false;
  __device__ static int rows() { return kM; }
  __device__ static int depth() { return kK; }
  __device__ static int row(int m, int) {
    return m * 128;
  }
  __device__ static int at(int k) {
    const int r = k / 384;
    const int s = k / 128 % 3;
    const int c = k % 128;
    return r * 3584 + s * 128 + c;
  }
  __device__ static unsigned missing(int m) {
    const int p = m / 28;
    const int q = m % 28;
    return tap_misses<3, 1>(p - 1, 28) | tap_misses<3, 1>(q - 1, 28) << 3;
  }
  __device__ static unsigned tap(int k) {
    const int r = k / 384;
    const int s = k / 128 % 3;
    return 1u << r | 1u << (3 + s);
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
    return n * 1152;
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
  Tap taps[18];
  RowTable<kTileM, kThreads> rows;  // of a
};
static_assert(sizeof(Smem) <= 41376, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) resnet18__layer2_0_conv2_bn2(
  const bf16 *__restrict__ g_relu,
  const bf16 *__restrict__ g_bn2,
  const float *__restrict__ g_bn2_2,
  bf16 *__restrict__ g_bn2_3) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
  smem.rows.write(MapA{}, place.m0, place.batch);
  write_taps<kThreads>(MapA{}, smem.taps, place.blocks * (kTileK / 64));
  nn_sync();  // wait for the tables of rows and taps
  using SourceA = AlongSource<MapA, T, kTileM, kThreads>;
  SourceA a(g_relu - 3584 - 128, place.m0, place.batch, smem.taps, &smem.rows);
  using SourceB = AlongSource<MapB, T, kTileN, kThreads>;
  SourceB b(g_bn2, place.n0, place.batch);

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
    const Vec<float, 8> bn2_add = nn_float(nn_load<8>(g_bn2_2 + n));
    Vec<float, 8> bn2_3_out;
    return [=, &smem](const Vec<float, kLanes> &acc) mutable {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float bn2_add_2 = acc[j] + bn2_add[j];
        bn2_3_out[j] = bn2_add_2;
      }
      nn_store<8>(g_bn2_3 + m * 128 + n, nn_cast<bf16>(bn2_3_out));
    };
  };
  each_output<kM, kN, kTileM, kTileN, kLanes, kThreads>(smem.out, m0, n0, kM, epilogue);
}
// resnet18__layer2_0_downsample_1_init: add+rsqrt+neg+mul+mul+add
// from models/resnet.lua:13
//   in  g_running_mean: f32(128), layer2.0.downsample.1.running_mean
//   in  g_running_var: f32(128), layer2.0.downsample.1.running_var
//   in  g_weight: f32(128), layer2.0.downsample.1.weight
//   in  g_bias: f32(128), layer2.0.downsample.1.bias
//   out g_downsample_1: f32(128, 1, 1, 1), layer2.0.downsample.1
//   out g_downsample_1_2: f32(1, 128, 1, 1), layer2.0.downsample.1
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 1152 FLOP, 2048 bytes read, 1024 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 128;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_downsample_1_init(
  const float *__restrict__ g_running_mean,
  const float *__restrict__ g_running_var,
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  float *__restrict__ g_downsample_1,
  float *__restrict__ g_downsample_1_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const Vec<float, 4> running_var = nn_float(nn_load<4>(g_running_var + i));
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + i));
  const Vec<float, 4> running_mean = nn_float(nn_load<4>(g_running_mean + i));
  const Vec<float, 4> bias = nn_float(nn_load<4>(g_bias + i));
  Vec<float, 4> downsample_1_out;
  Vec<float, 4> downsample_1_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float downsample_1_add = running_var[j] + 1e-05f;
    const float downsample_1_rsqrt = nn_rsqrt(downsample_1_add);
    const float downsample_1_mul = downsample_1_rsqrt * weight[j];
    const float downsample_1_neg = -running_mean[j];
    const float downsample_1_mul_2 = downsample_1_neg * downsample_1_mul;
    const float downsample_1_add_2 = downsample_1_mul_2 + bias[j];
    downsample_1_out[j] = downsample_1_mul;
    downsample_1_2_out[j] = downsample_1_add_2;
  }
  nn_store<4>(g_downsample_1 + i, nn_cast<float>(downsample_1_out));
  nn_store<4>(g_downsample_1_2 + i, nn_cast<float>(downsample_1_2_out));
}
// resnet18__layer2_0_downsample_1_init_2: mul
// from models/resnet.lua:13
//   in  g_weight: f32(128, 64, 1, 1), layer2.0.downsample.0.weight
//   in  g_downsample_1: f32(128, 1, 1, 1), layer2.0.downsample.1
//   out g_downsample_1_2: bf16(128, 64, 1, 1) in memory order 0,2,3,1, layer2.0.downsample.1
// grid 8x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 8192 FLOP, 33280 bytes read, 16384 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 8192;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_downsample_1_init_2(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_downsample_1,
  bf16 *__restrict__ g_downsample_1_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
  const int n = i / 64;
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + i));
  const float downsample_1 = nn_float(g_downsample_1[n]);
  Vec<float, 4> downsample_1_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float downsample_1_mul = weight[j] * downsample_1;
    downsample_1_2_out[j] = downsample_1_mul;
  }
  nn_store<4>(g_downsample_1_2 + i, nn_cast<bf16>(downsample_1_2_out));
}
// resnet18__layer2_0_downsample_0_downsample_1_add_relu: conv2d+add+add+relu
// from models/resnet.lua:13, 16, 37
//   in  g_relu: bf16(1, 64, 56, 56) in memory order 0,2,3,1, layer1.1.relu
//   in  g_downsample_1: bf16(128, 64, 1, 1) in memory order 0,2,3,1, layer2.0.downsample.1
//   in  g_downsample_1_2: f32(1, 128, 1, 1), layer2.0.downsample.1
//   in  g_bn2: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.bn2
//   out g_relu_2: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.relu
// grid 196x1x1 of 128 threads, 18448 bytes of dynamic shared memory
// 13146112 FLOP, 317952 bytes read, 200704 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"
#include "lib/order.cuh"
#include "lib/source.cuh"
#include "lib/pipeline.cuh"
#include "lib/epilogue.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kN = 128;
constexpr int kTileM = 8, kTileN = 64;
constexpr int kWarpM = 8, kWarpN = 16;  // outputs per warp
constexpr int kTilesN = (kN + kTileN - 1) / kTileN;
constexpr int kStages = 2;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 7;
constexpr int kLanes = 8;  // neighbouring outputs per thread in the epilogue
using T = bf16;             // on tensor cores float is TF32
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kM = 784, kK = 64, kTilesM = (kM + kTileM - 1) / kTileM;
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
    const int p = m / 28;
    const int q = m % 28;
    return p * 7168 + q * 128;
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
    return n * 64;
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
static_assert(sizeof(Smem) <= 18448, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) resnet18__layer2_0_downsample_0_downsample_1_add_relu(
  const bf16 *__restrict__ g_relu,
  const bf16 *__restrict__ g_downsample_1,
  const float *__restrict__ g_downsample_1_2,
  const bf16 *__restrict__ g_bn2,
  bf16 *__restrict__ g_relu_2) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  Place place = place_of(blockIdx.x);  // of the tile that is loaded
  int m0 = place.m0, n0 = place.n0;  // of the tile that is stored
  [[maybe_unused]] int batch = place.batch;
  using SourceA = AlongSource<MapA, T, kTileM, kThreads>;
  SourceA a(g_relu, place.m0, place.batch);
  using SourceB = AlongSource<MapB, T, kTileN, kThreads>;
  SourceB b(g_downsample_1, place.n0, place.batch);

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
    const Vec<float, 8> bn2_add = nn_float(nn_load<8>(g_bn2 + m * 128 + n));
    const Vec<float, 8> downsample_1_add = nn_float(nn_load<8>(g_downsample_1_2 + n));
    Vec<float, 8> relu_2_out;
    return [=, &smem](const Vec<float, kLanes> &acc) mutable {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float downsample_1_add_2 = acc[j] + downsample_1_add[j];
        const float add = bn2_add[j] + downsample_1_add_2;
        const float relu = nn_max(add, 0.f);
        relu_2_out[j] = relu;
      }
      nn_store<8>(g_relu_2 + m * 128 + n, nn_cast<bf16>(relu_2_out));
    };
  };
  each_output<kM, kN, kTileM, kTileN, kLanes, kThreads>(smem.out, m0, n0, kM, epilogue);
}
