// resnet18__layer2_0_bn1_init: add+rsqrt+neg+mul+mul+add
// from models/resnet.lua:9
//   in  g_weight: f32(128), layer2.0.bn1.weight
//   in  g_bias: f32(128), layer2.0.bn1.bias
//   in  g_running_mean: f32(128), layer2.0.bn1.running_mean
//   in  g_running_var: f32(128), layer2.0.bn1.running_var
//   out g_bn1: f32(128, 1, 1, 1), layer2.0.bn1
//   out g_bn1_2: f32(1, 128, 1, 1), layer2.0.bn1
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 1152 FLOP, 2048 bytes read, 1024 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 128;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_bn1_init(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  const float *__restrict__ g_running_mean,
  const float *__restrict__ g_running_var,
  float *__restrict__ g_bn1,
  float *__restrict__ g_bn1_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int c = i % 128;
  const Vec<float, 4> running_var = nn_float(nn_load<4>(g_running_var + c));
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + c));
  const Vec<float, 4> running_mean = nn_float(nn_load<4>(g_running_mean + c));
  const Vec<float, 4> bias = nn_float(nn_load<4>(g_bias + c));
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
// from models/resnet.lua:9
//   in  g_weight: f32(128, 64, 3, 3), layer2.0.conv1.weight
//   in  g_bn1: f32(128, 1, 1, 1), layer2.0.bn1
//   out g_bn1_2: bf16(128, 64, 3, 3) in memory order 0,2,3,1, layer2.0.bn1
// grid 72x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 73728 FLOP, 295424 bytes read, 147456 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 73728;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_bn1_init_2(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bn1,
  bf16 *__restrict__ g_bn1_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
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
// from models/resnet.lua:9
//   in  g_relu: bf16(1, 64, 56, 56) in memory order 0,2,3,1, layer1.1.relu
//   in  g_bn1: bf16(128, 64, 3, 3) in memory order 0,2,3,1, layer2.0.bn1
//   in  g_bn1_2: f32(1, 128, 1, 1), layer2.0.bn1
//   out g_relu_2: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.relu
// grid 100x1x1 of 128 threads, 41048 bytes of dynamic shared memory
// 115806208 FLOP, 549376 bytes read, 200704 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = 784, kN = 128, kK = 576;
constexpr int kTileM = 32, kTileN = 32;
constexpr int kWarpM = 16, kWarpN = 16;  // outputs per warp
constexpr int kTilesM = 25, kTilesN = 4;
constexpr int kStages = 5;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 5;
constexpr int kLanes = 8;  // neighbouring outputs per thread in the epilogue
using T = bf16;             // on tensor cores float is TF32
constexpr int kPack = kChunkBytes / int(sizeof(T));  // elements in a chunk
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
constexpr int kRowsAtOnce = kThreads / kChunks;  // rows of an operand that are loaded at once
constexpr int kRowsA = (kTileM + kRowsAtOnce - 1) / kRowsAtOnce;
constexpr int kRowsB = (kTileN + kRowsAtOnce - 1) / kRowsAtOnce;
using Product = WarpTile<T, kWarpM, kWarpN>;
constexpr int kSteps = kRowBytes / Product::kStepBytes;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;  // it may be shorter
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
static_assert(kRowsAtOnce % kChunks == 0, "the rows that a thread loads turn their chunks alike");

constexpr int kTapRun = 64;  // elements of k that a tap is looked up for
struct Smem {
  union {
    struct {
      char a[kStages][kTileM * kRowBytes];
      char b[kStages][kTileN * kRowBytes];
    };
    float out[kTileM * kTileN];
  };
  Tap taps[kBlocks * kTileK / kTapRun];
};
static_assert(sizeof(Smem) <= 41048, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) resnet18__layer2_0_conv1_bn1_relu(
  const bf16 *__restrict__ g_relu,
  const bf16 *__restrict__ g_bn1,
  const float *__restrict__ g_bn1_2,
  bf16 *__restrict__ g_relu_2) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  // A strip of some tiles along m goes through all tiles along n: what it reads stays in L2.
  constexpr int kStrip = kTilesM < 8 ? kTilesM : 8;
  const int strip = blockIdx.x / (kStrip * kTilesN) * kStrip, in_strip = blockIdx.x % (kStrip * kTilesN);
  const int strip_m = kTilesM - strip < kStrip ? kTilesM - strip : kStrip;
  const int tile_m = strip + in_strip % strip_m, tile_n = in_strip / strip_m;
  const int m0 = tile_m * kTileM, n0 = tile_n * kTileN;
  constexpr int first = 0, end = kBlocks;
  const int load_row = tid / kChunks, load_chunk = tid % kChunks;

  // Where the rows of a that this thread loads are, as blocks of k go by.
  const int a_first = load_row;
  const T *a_row[kRowsA];
  int a_offset = 0;  // how far from k = 0
  // Which rows and which columns of taps miss the image, a bit each; the highest stands for k past
  // the end.
  unsigned a_missing[kRowsA];
#pragma unroll
  for (int i = 0; i < kRowsA; ++i) {
    const int m = m0 + a_first + i * kRowsAtOnce;
    const int image = m / 784, pixel = m % 784;
    const int y = pixel / 28 * 2 - 1, x = pixel % 28 * 2 - 1;
    a_row[i] = g_relu + y * 3584 + x * 64 + load_chunk * kPack;
    unsigned missing = m < kM ? 1u << 31 : ~0u;
#pragma unroll
    for (int r = 0; r < 3; ++r) missing |= unsigned(unsigned(y + r) >= 56u) << r;
#pragma unroll
    for (int s = 0; s < 3; ++s) missing |= unsigned(unsigned(x + s) >= 56u) << (3 + s);
    a_missing[i] = missing;
  }

  // Where the rows of b that this thread loads are, as blocks of k go by.
  const int b_first = load_row;
  const T *b_row[kRowsB];
  int b_offset = 0;  // how far from k = 0
#pragma unroll
  for (int i = 0; i < kRowsB; ++i) {
    const int n = n0 + b_first + i * kRowsAtOnce;
    b_row[i] = g_bn1 + n * 576;
  }

  for (int i = tid; i < kBlocks * kTileK / kTapRun; i += kThreads) {
    const int k = i * kTapRun;
    const int c = k % 64, r = k / 192, s = k / 64 % 3;
    write_tap(&smem.taps[i], Tap{c + r * 3584 + s * 64, 1u << r | 1u << (3 + s)});
  }

  // Starts loading block `block` of k: the rows move there from where they are.
  auto load = [&](int block, int stage) {
    char *a_rows = smem.a[stage], *b_rows = smem.b[stage];
    const int k0 = block * kTileK;
    {
      const int e = load_chunk * kPack, to = swizzled(a_first, load_chunk);
      const Tap tap = read_tap(&smem.taps[block * (kTileK / kTapRun)]);
      const int step = tap.offset - a_offset;
      a_offset += step;
#pragma unroll
      for (int i = 0; i < kRowsA; ++i) {
        a_row[i] += step;
        const bool inside = !(a_missing[i] & tap.bits);
        nn_cp_async<kChunkBytes>(a_rows + to + i * (kRowsAtOnce * kRowBytes), a_row[i], inside);
      }
    }
    {
      const int e = load_chunk * kPack, to = swizzled(b_first, load_chunk);
      const int k = k0 + e;
      const int step = k - b_offset;
      b_offset += step;
#pragma unroll
      for (int i = 0; i < kRowsB; ++i) {
        b_row[i] += step;
        nn_cp_async<kChunkBytes>(b_rows + to + i * (kRowsAtOnce * kRowBytes), b_row[i]);
      }
    }
  };

  // The ring: kStages - 1 blocks are on their way while one is multiplied.
  Product product;
  product.clear();
  nn_sync();  // the table of taps is there
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
#pragma unroll
  for (int ahead = 0; ahead < kStages - 1; ++ahead) {
    if (first + ahead < end) load(first + ahead, ahead);
    nn_cp_async_commit();
  }
  for (int block = first, stage = 0; block < end; ++block) {
    nn_cp_async_wait<kStages - 2>();
    nn_sync();  // this block has landed for all, and the stage before it has been read by all
    if (block + kStages - 1 < end) load(block + kStages - 1, (stage ? stage : kStages) - 1);
    nn_cp_async_commit();
    const char *a = smem.a[stage], *b = smem.b[stage];
    stage = stage + 1 < kStages ? stage + 1 : 0;
    if (kLastSteps == kSteps || block + 1 < kBlocks) {
      product.template multiply<kSteps>(a, warp_m, b, warp_n);
    } else {
      product.template multiply<kLastSteps>(a, warp_m, b, warp_n);
    }
  }
  nn_cp_async_wait<0>();
  nn_sync();

  // Outputs pass through shared memory, so that each thread has neighbours along n.
  product.stage(smem.out, kTileN, warp_m, warp_n);
  nn_sync();

  constexpr int kAlongN = kTileN / kLanes;  // threads
  static_assert(kThreads % kAlongN == 0, "a thread keeps its columns");
  const int column = tid % kAlongN * kLanes, n = n0 + column;
  for (int row = tid / kAlongN; row < kTileM; row += kThreads / kAlongN) {
    const int m = m0 + row;
    if (m >= kM) break;

    const Vec<float, kLanes> acc = read_staged<kLanes>(smem.out, kTileN, row, column);
    const Vec<float, 8> bn1_add = nn_float(nn_load<8>(g_bn1_2 + n));
    Vec<float, 8> relu_2_out;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      const float bn1_add_2 = acc[j] + bn1_add[j];
      const float relu = nn_max(bn1_add_2, 0.f);
      relu_2_out[j] = relu;
    }
    nn_store<8>(g_relu_2 + m * 128 + n, nn_cast<bf16>(relu_2_out));
  }
}
// resnet18__layer2_0_bn2_init: add+rsqrt+neg+mul+mul+add
// from models/resnet.lua:10
//   in  g_weight: f32(128), layer2.0.bn2.weight
//   in  g_bias: f32(128), layer2.0.bn2.bias
//   in  g_running_mean: f32(128), layer2.0.bn2.running_mean
//   in  g_running_var: f32(128), layer2.0.bn2.running_var
//   out g_bn2: f32(128, 1, 1, 1), layer2.0.bn2
//   out g_bn2_2: f32(1, 128, 1, 1), layer2.0.bn2
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 1152 FLOP, 2048 bytes read, 1024 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 128;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_bn2_init(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  const float *__restrict__ g_running_mean,
  const float *__restrict__ g_running_var,
  float *__restrict__ g_bn2,
  float *__restrict__ g_bn2_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int c = i % 128;
  const Vec<float, 4> running_var = nn_float(nn_load<4>(g_running_var + c));
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + c));
  const Vec<float, 4> running_mean = nn_float(nn_load<4>(g_running_mean + c));
  const Vec<float, 4> bias = nn_float(nn_load<4>(g_bias + c));
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
// from models/resnet.lua:10
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
// from models/resnet.lua:10
//   in  g_relu: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.relu
//   in  g_bn2: bf16(128, 128, 3, 3) in memory order 0,2,3,1, layer2.0.bn2
//   in  g_bn2_2: f32(1, 128, 1, 1), layer2.0.bn2
//   out g_bn2_3: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.bn2
// grid 100x1x1 of 128 threads, 41120 bytes of dynamic shared memory
// 231311360 FLOP, 496128 bytes read, 200704 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = 784, kN = 128, kK = 1152;
constexpr int kTileM = 32, kTileN = 32;
constexpr int kWarpM = 16, kWarpN = 16;  // outputs per warp
constexpr int kTilesM = 25, kTilesN = 4;
constexpr int kStages = 5;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 5;
constexpr int kLanes = 8;  // neighbouring outputs per thread in the epilogue
using T = bf16;             // on tensor cores float is TF32
constexpr int kPack = kChunkBytes / int(sizeof(T));  // elements in a chunk
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
constexpr int kRowsAtOnce = kThreads / kChunks;  // rows of an operand that are loaded at once
constexpr int kRowsA = (kTileM + kRowsAtOnce - 1) / kRowsAtOnce;
constexpr int kRowsB = (kTileN + kRowsAtOnce - 1) / kRowsAtOnce;
using Product = WarpTile<T, kWarpM, kWarpN>;
constexpr int kSteps = kRowBytes / Product::kStepBytes;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;  // it may be shorter
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
static_assert(kRowsAtOnce % kChunks == 0, "the rows that a thread loads turn their chunks alike");

constexpr int kTapRun = 64;  // elements of k that a tap is looked up for
struct Smem {
  union {
    struct {
      char a[kStages][kTileM * kRowBytes];
      char b[kStages][kTileN * kRowBytes];
    };
    float out[kTileM * kTileN];
  };
  Tap taps[kBlocks * kTileK / kTapRun];
};
static_assert(sizeof(Smem) <= 41120, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) resnet18__layer2_0_conv2_bn2(
  const bf16 *__restrict__ g_relu,
  const bf16 *__restrict__ g_bn2,
  const float *__restrict__ g_bn2_2,
  bf16 *__restrict__ g_bn2_3) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  // A strip of some tiles along m goes through all tiles along n: what it reads stays in L2.
  constexpr int kStrip = kTilesM < 8 ? kTilesM : 8;
  const int strip = blockIdx.x / (kStrip * kTilesN) * kStrip, in_strip = blockIdx.x % (kStrip * kTilesN);
  const int strip_m = kTilesM - strip < kStrip ? kTilesM - strip : kStrip;
  const int tile_m = strip + in_strip % strip_m, tile_n = in_strip / strip_m;
  const int m0 = tile_m * kTileM, n0 = tile_n * kTileN;
  constexpr int first = 0, end = kBlocks;
  const int load_row = tid / kChunks, load_chunk = tid % kChunks;

  // Where the rows of a that this thread loads are, as blocks of k go by.
  const int a_first = load_row;
  const T *a_row[kRowsA];
  int a_offset = 0;  // how far from k = 0
  // Which rows and which columns of taps miss the image, a bit each; the highest stands for k past
  // the end.
  unsigned a_missing[kRowsA];
#pragma unroll
  for (int i = 0; i < kRowsA; ++i) {
    const int m = m0 + a_first + i * kRowsAtOnce;
    const int image = m / 784, pixel = m % 784;
    const int y = pixel / 28 - 1, x = pixel % 28 - 1;
    a_row[i] = g_relu + y * 3584 + x * 128 + load_chunk * kPack;
    unsigned missing = m < kM ? 1u << 31 : ~0u;
#pragma unroll
    for (int r = 0; r < 3; ++r) missing |= unsigned(unsigned(y + r) >= 28u) << r;
#pragma unroll
    for (int s = 0; s < 3; ++s) missing |= unsigned(unsigned(x + s) >= 28u) << (3 + s);
    a_missing[i] = missing;
  }

  // Where the rows of b that this thread loads are, as blocks of k go by.
  const int b_first = load_row;
  const T *b_row[kRowsB];
  int b_offset = 0;  // how far from k = 0
#pragma unroll
  for (int i = 0; i < kRowsB; ++i) {
    const int n = n0 + b_first + i * kRowsAtOnce;
    b_row[i] = g_bn2 + n * 1152;
  }

  for (int i = tid; i < kBlocks * kTileK / kTapRun; i += kThreads) {
    const int k = i * kTapRun;
    const int c = k % 128, r = k / 384, s = k / 128 % 3;
    write_tap(&smem.taps[i], Tap{c + r * 3584 + s * 128, 1u << r | 1u << (3 + s)});
  }

  // Starts loading block `block` of k: the rows move there from where they are.
  auto load = [&](int block, int stage) {
    char *a_rows = smem.a[stage], *b_rows = smem.b[stage];
    const int k0 = block * kTileK;
    {
      const int e = load_chunk * kPack, to = swizzled(a_first, load_chunk);
      const Tap tap = read_tap(&smem.taps[block * (kTileK / kTapRun)]);
      const int step = tap.offset - a_offset;
      a_offset += step;
#pragma unroll
      for (int i = 0; i < kRowsA; ++i) {
        a_row[i] += step;
        const bool inside = !(a_missing[i] & tap.bits);
        nn_cp_async<kChunkBytes>(a_rows + to + i * (kRowsAtOnce * kRowBytes), a_row[i], inside);
      }
    }
    {
      const int e = load_chunk * kPack, to = swizzled(b_first, load_chunk);
      const int k = k0 + e;
      const int step = k - b_offset;
      b_offset += step;
#pragma unroll
      for (int i = 0; i < kRowsB; ++i) {
        b_row[i] += step;
        nn_cp_async<kChunkBytes>(b_rows + to + i * (kRowsAtOnce * kRowBytes), b_row[i]);
      }
    }
  };

  // The ring: kStages - 1 blocks are on their way while one is multiplied.
  Product product;
  product.clear();
  nn_sync();  // the table of taps is there
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
#pragma unroll
  for (int ahead = 0; ahead < kStages - 1; ++ahead) {
    if (first + ahead < end) load(first + ahead, ahead);
    nn_cp_async_commit();
  }
  for (int block = first, stage = 0; block < end; ++block) {
    nn_cp_async_wait<kStages - 2>();
    nn_sync();  // this block has landed for all, and the stage before it has been read by all
    if (block + kStages - 1 < end) load(block + kStages - 1, (stage ? stage : kStages) - 1);
    nn_cp_async_commit();
    const char *a = smem.a[stage], *b = smem.b[stage];
    stage = stage + 1 < kStages ? stage + 1 : 0;
    if (kLastSteps == kSteps || block + 1 < kBlocks) {
      product.template multiply<kSteps>(a, warp_m, b, warp_n);
    } else {
      product.template multiply<kLastSteps>(a, warp_m, b, warp_n);
    }
  }
  nn_cp_async_wait<0>();
  nn_sync();

  // Outputs pass through shared memory, so that each thread has neighbours along n.
  product.stage(smem.out, kTileN, warp_m, warp_n);
  nn_sync();

  constexpr int kAlongN = kTileN / kLanes;  // threads
  static_assert(kThreads % kAlongN == 0, "a thread keeps its columns");
  const int column = tid % kAlongN * kLanes, n = n0 + column;
  for (int row = tid / kAlongN; row < kTileM; row += kThreads / kAlongN) {
    const int m = m0 + row;
    if (m >= kM) break;

    const Vec<float, kLanes> acc = read_staged<kLanes>(smem.out, kTileN, row, column);
    const Vec<float, 8> bn2_add = nn_float(nn_load<8>(g_bn2_2 + n));
    Vec<float, 8> bn2_3_out;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      const float bn2_add_2 = acc[j] + bn2_add[j];
      bn2_3_out[j] = bn2_add_2;
    }
    nn_store<8>(g_bn2_3 + m * 128 + n, nn_cast<bf16>(bn2_3_out));
  }
}
// resnet18__layer2_0_downsample_1_init: add+rsqrt+neg+mul+mul+add
// from models/resnet.lua:12
//   in  g_weight: f32(128), layer2.0.downsample.1.weight
//   in  g_bias: f32(128), layer2.0.downsample.1.bias
//   in  g_running_mean: f32(128), layer2.0.downsample.1.running_mean
//   in  g_running_var: f32(128), layer2.0.downsample.1.running_var
//   out g_downsample_1: f32(128, 1, 1, 1), layer2.0.downsample.1
//   out g_downsample_1_2: f32(1, 128, 1, 1), layer2.0.downsample.1
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 1152 FLOP, 2048 bytes read, 1024 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 128;

extern "C" __global__ void __launch_bounds__(kThreads) resnet18__layer2_0_downsample_1_init(
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  const float *__restrict__ g_running_mean,
  const float *__restrict__ g_running_var,
  float *__restrict__ g_downsample_1,
  float *__restrict__ g_downsample_1_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int c = i % 128;
  const Vec<float, 4> running_var = nn_float(nn_load<4>(g_running_var + c));
  const Vec<float, 4> weight = nn_float(nn_load<4>(g_weight + c));
  const Vec<float, 4> running_mean = nn_float(nn_load<4>(g_running_mean + c));
  const Vec<float, 4> bias = nn_float(nn_load<4>(g_bias + c));
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
// from models/resnet.lua:12
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
// from models/resnet.lua:12, models/resnet.lua:15, models/resnet.lua:35
//   in  g_relu: bf16(1, 64, 56, 56) in memory order 0,2,3,1, layer1.1.relu
//   in  g_downsample_1: bf16(128, 64, 1, 1) in memory order 0,2,3,1, layer2.0.downsample.1
//   in  g_downsample_1_2: f32(1, 128, 1, 1), layer2.0.downsample.1
//   in  g_bn2: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.bn2
//   out g_relu_2: bf16(1, 128, 28, 28) in memory order 0,2,3,1, layer2.0.relu
// grid 100x1x1 of 128 threads, 16400 bytes of dynamic shared memory
// 13146112 FLOP, 317952 bytes read, 200704 bytes written
#include "lib/prim.cuh"
#include "lib/mma.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = 784, kN = 128, kK = 64;
constexpr int kTileM = 32, kTileN = 32;
constexpr int kWarpM = 16, kWarpN = 16;  // outputs per warp
constexpr int kTilesM = 25, kTilesN = 4;
constexpr int kStages = 2;
constexpr int kThreads = 128;
constexpr int kBlocksPerSm = 6;
constexpr int kLanes = 8;  // neighbouring outputs per thread in the epilogue
using T = bf16;             // on tensor cores float is TF32
constexpr int kPack = kChunkBytes / int(sizeof(T));  // elements in a chunk
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
constexpr int kRowsAtOnce = kThreads / kChunks;  // rows of an operand that are loaded at once
constexpr int kRowsA = (kTileM + kRowsAtOnce - 1) / kRowsAtOnce;
constexpr int kRowsB = (kTileN + kRowsAtOnce - 1) / kRowsAtOnce;
using Product = WarpTile<T, kWarpM, kWarpN>;
constexpr int kSteps = kRowBytes / Product::kStepBytes;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;  // it may be shorter
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
static_assert(kRowsAtOnce % kChunks == 0, "the rows that a thread loads turn their chunks alike");

struct Smem {
  union {
    struct {
      char a[kStages][kTileM * kRowBytes];
      char b[kStages][kTileN * kRowBytes];
    };
    float out[kTileM * kTileN];
  };
};
static_assert(sizeof(Smem) <= 16400, "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) resnet18__layer2_0_downsample_0_downsample_1_add_relu(
  const bf16 *__restrict__ g_relu,
  const bf16 *__restrict__ g_downsample_1,
  const float *__restrict__ g_downsample_1_2,
  const bf16 *__restrict__ g_bn2,
  bf16 *__restrict__ g_relu_2) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  // A strip of some tiles along m goes through all tiles along n: what it reads stays in L2.
  constexpr int kStrip = kTilesM < 8 ? kTilesM : 8;
  const int strip = blockIdx.x / (kStrip * kTilesN) * kStrip, in_strip = blockIdx.x % (kStrip * kTilesN);
  const int strip_m = kTilesM - strip < kStrip ? kTilesM - strip : kStrip;
  const int tile_m = strip + in_strip % strip_m, tile_n = in_strip / strip_m;
  const int m0 = tile_m * kTileM, n0 = tile_n * kTileN;
  constexpr int first = 0, end = kBlocks;
  const int load_row = tid / kChunks, load_chunk = tid % kChunks;

  // Where the rows of a that this thread loads are, as blocks of k go by.
  const int a_first = load_row;
  const T *a_row[kRowsA];
  int a_offset = 0;  // how far from k = 0
#pragma unroll
  for (int i = 0; i < kRowsA; ++i) {
    const int m = m0 + a_first + i * kRowsAtOnce;
    const int image = m / 784, pixel = m % 784;
    const int y = pixel / 28 * 2, x = pixel % 28 * 2;
    a_row[i] = g_relu + y * 3584 + x * 64;
  }

  // Where the rows of b that this thread loads are, as blocks of k go by.
  const int b_first = load_row;
  const T *b_row[kRowsB];
  int b_offset = 0;  // how far from k = 0
#pragma unroll
  for (int i = 0; i < kRowsB; ++i) {
    const int n = n0 + b_first + i * kRowsAtOnce;
    b_row[i] = g_downsample_1 + n * 64;
  }

  // Starts loading block `block` of k: the rows move there from where they are.
  auto load = [&](int block, int stage) {
    char *a_rows = smem.a[stage], *b_rows = smem.b[stage];
    const int k0 = block * kTileK;
    {
      const int e = load_chunk * kPack, to = swizzled(a_first, load_chunk);
      const int k = k0 + e;
      const int c = k, r = 0, s = 0;
      const Tap tap = {c + r * 3584 + s * 64, 0};
      const int step = tap.offset - a_offset;
      a_offset += step;
#pragma unroll
      for (int i = 0; i < kRowsA; ++i) {
        a_row[i] += step;
        const int row = a_first + i * kRowsAtOnce;
        const bool inside = m0 + row < kM;
        nn_cp_async<kChunkBytes>(a_rows + to + i * (kRowsAtOnce * kRowBytes), a_row[i], inside);
      }
    }
    {
      const int e = load_chunk * kPack, to = swizzled(b_first, load_chunk);
      const int k = k0 + e;
      const int step = k - b_offset;
      b_offset += step;
#pragma unroll
      for (int i = 0; i < kRowsB; ++i) {
        b_row[i] += step;
        nn_cp_async<kChunkBytes>(b_rows + to + i * (kRowsAtOnce * kRowBytes), b_row[i]);
      }
    }
  };

  // The ring: kStages - 1 blocks are on their way while one is multiplied.
  Product product;
  product.clear();
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
#pragma unroll
  for (int ahead = 0; ahead < kStages - 1; ++ahead) {
    if (first + ahead < end) load(first + ahead, ahead);
    nn_cp_async_commit();
  }
  for (int block = first, stage = 0; block < end; ++block) {
    nn_cp_async_wait<kStages - 2>();
    nn_sync();  // this block has landed for all, and the stage before it has been read by all
    if (block + kStages - 1 < end) load(block + kStages - 1, (stage ? stage : kStages) - 1);
    nn_cp_async_commit();
    const char *a = smem.a[stage], *b = smem.b[stage];
    stage = stage + 1 < kStages ? stage + 1 : 0;
    if (kLastSteps == kSteps || block + 1 < kBlocks) {
      product.template multiply<kSteps>(a, warp_m, b, warp_n);
    } else {
      product.template multiply<kLastSteps>(a, warp_m, b, warp_n);
    }
  }
  nn_cp_async_wait<0>();
  nn_sync();

  // Outputs pass through shared memory, so that each thread has neighbours along n.
  product.stage(smem.out, kTileN, warp_m, warp_n);
  nn_sync();

  constexpr int kAlongN = kTileN / kLanes;  // threads
  static_assert(kThreads % kAlongN == 0, "a thread keeps its columns");
  const int column = tid % kAlongN * kLanes, n = n0 + column;
  for (int row = tid / kAlongN; row < kTileM; row += kThreads / kAlongN) {
    const int m = m0 + row;
    if (m >= kM) break;

    const Vec<float, kLanes> acc = read_staged<kLanes>(smem.out, kTileN, row, column);
    const Vec<float, 8> bn2_add = nn_float(nn_load<8>(g_bn2 + m * 128 + n));
    const Vec<float, 8> downsample_1_add = nn_float(nn_load<8>(g_downsample_1_2 + n));
    Vec<float, 8> relu_2_out;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      const float downsample_1_add_2 = acc[j] + downsample_1_add[j];
      const float add = bn2_add[j] + downsample_1_add_2;
      const float relu = nn_max(add, 0.f);
      relu_2_out[j] = relu;
    }
    nn_store<8>(g_relu_2 + m * 128 + n, nn_cast<bf16>(relu_2_out));
  }
}
