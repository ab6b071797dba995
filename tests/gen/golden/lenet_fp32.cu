// lenet__conv1_relu: conv2d+reshape+add+relu
// from models/lenet.lua:6
//   in  g_image: f32(1, 1, 28, 28), image
//   in  g_weight: f32(6, 1, 5, 5), conv1.weight
//   in  g_bias: f32(6), conv1.bias
//   out g_relu: f32(1, 6, 28, 28) in memory order 0,2,3,1, relu
// grid 25x1x1 of 64 threads, 0 bytes of dynamic shared memory
// 244608 FLOP, 3760 bytes read, 18816 bytes written
#include "lib/prim.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = 784, kN = 6, kK = 25;
constexpr int kTileM = 32, kTileN = 32, kTileK = 16;
constexpr int kThreadM = 4, kThreadN = 4;  // outputs per thread
constexpr int kThreads = 64;
constexpr int kBlocksPerSm = 12;
constexpr int kLanes = 2;
constexpr int kStep = kThreads / kTileK;  // rows loaded at once
constexpr int kRowsA = kTileM / kStep, kRowsB = kTileN / kStep;
constexpr int kThreadsN = kTileN / kThreadN;  // threads along n
static_assert(kTileM * kTileN == kThreads * kThreadM * kThreadN, "every output has one thread");
static_assert(kThreadN % 2 == 0 && kLanes <= 2, "a thread's outputs are pairs");

// A thread's outputs along n are pairs, 2 * kThreadsN apart: half a warp then reads 32 neighbours of b.
__device__ inline int thread_column(int j) {
  return threadIdx.x % kThreadsN * 2 + j / 2 * (2 * kThreadsN) + j % 2;
}

// A warp stores 16 values of k of two rows at once: two more floats a row put them in 32 banks.
struct Smem {
  float a[kTileK][kTileM + 2];
  float b[kTileK][kTileN + 2];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) lenet__conv1_relu(
  const float *__restrict__ g_image,
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  float *__restrict__ g_relu) {
  __shared__ __align__(16) Smem smem;
  const int tid = threadIdx.x;
  const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;
  const int load_k = tid % kTileK, load_row = tid / kTileK;
  float acc[kThreadM][kThreadN] = {};

  for (int k0 = 0; k0 < kK; k0 += kTileK) {
    const int k = k0 + load_k;
    const int c = k % 1, tap = k / 1;
    const int r = tap / 5, s = tap % 5;
#pragma unroll 4
    for (int i = 0; i < kRowsA; ++i) {
      const int m = m0 + load_row + i * kStep;
      const int image = m / 784, pixel = m % 784;
      const int y = pixel / 28 * 1 - 2 + r * 1;
      const int x = pixel % 28 * 1 - 2 + s * 1;
      const bool a_inside = m < kM && k < kK && unsigned(y) < 28u && unsigned(x) < 28u;
      const float image_1 = a_inside ? nn_float(g_image[y * 28 + x]) : 0.f;
      smem.a[load_k][load_row + i * kStep] = a_inside ? image_1 : 0.f;
    }
#pragma unroll 4
    for (int i = 0; i < kRowsB; ++i) {
      const int n = n0 + load_row + i * kStep;
      const bool b_inside = n < kN && k < kK;
      const float weight_1 = b_inside ? nn_float(g_weight[n * 25 + r * 5 + s]) : 0.f;
      smem.b[load_k][load_row + i * kStep] = b_inside ? weight_1 : 0.f;
    }
    nn_sync();
    const int thread_m = tid / kThreadsN * kThreadM;
#pragma unroll 8
    for (int kk = 0; kk < kTileK; ++kk) {
      float a[kThreadM], b[kThreadN];
      for (int i = 0; i < kThreadM; ++i) a[i] = smem.a[kk][thread_m + i];
      for (int j = 0; j < kThreadN; j += 2) {
        const Vec<float, 2> pair = nn_load<2>(&smem.b[kk][thread_column(j)]);
        b[j] = pair[0], b[j + 1] = pair[1];
      }
      for (int i = 0; i < kThreadM; ++i)
      for (int j = 0; j < kThreadN; ++j) acc[i][j] = nn_fma(a[i], b[j], acc[i][j]);
    }
    nn_sync();
  }

#pragma unroll
  for (int i = 0; i < kThreadM; ++i) {
    const int m = m0 + tid / kThreadsN * kThreadM + i;
    if (m >= kM) break;
    const int image = m / 784, p = m / 28 % 28, q = m % 28;
#pragma unroll
    for (int v = 0; v < kThreadN; v += kLanes) {
      const int n = n0 + thread_column(v);
      if (n >= kN) break;
      const Vec<float, 2> bias_1 = nn_load<2>(g_bias + n);
      Vec<float, 2> relu_out;
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float conv1_add_2 = acc[i][v + j] + nn_float(bias_1[j]);
        const float relu_3 = nn_max(conv1_add_2, 0.f);
        relu_out[j] = nn_cast<float>(relu_3);
      }
      nn_store<2>(g_relu + p * 168 + q * 6 + n, relu_out);
    }
  }
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
      const Vec<float, 2> relu_1 = nn_load<2>(g_relu + y * 168 + x * 6 + c);
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {

        acc[j] = nn_max(acc[j], nn_float(relu_1[j]));
      }
    }
  }
  Vec<float, 2> max_pool2d_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    max_pool2d_out[j] = nn_cast<float>(acc[j]);
  }
  nn_store<2>(g_max_pool2d + i, max_pool2d_out);
}
// lenet__conv2_weight_init: copy
// from models/lenet.lua:7
//   in  g_weight: f32(16, 6, 5, 5), conv2.weight
//   out g_weight_2: f32(16, 6, 5, 5) in memory order 0,2,3,1, conv2.weight
// grid 5x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 9600 bytes read, 9600 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 2;  // neighbouring elements per thread
constexpr int kCount = 2400;

extern "C" __global__ void __launch_bounds__(kThreads) lenet__conv2_weight_init(
  const float *__restrict__ g_weight,
  float *__restrict__ g_weight_2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int c = i % 6;
  const int w = i / 6 % 5;
  const int h = i / 30 % 5;
  const int n = i / 150;
  Vec<float, 2> weight_2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    const float weight_1 = nn_float(g_weight[n * 150 + c * 25 + h * 5 + w + j * 25]);
    weight_2_out[j] = nn_cast<float>(weight_1);
  }
  nn_store<2>(g_weight_2 + i, weight_2_out);
}
// lenet__conv2_relu: conv2d+reshape+add+relu
// from models/lenet.lua:7
//   in  g_max_pool2d: f32(1, 6, 14, 14) in memory order 0,2,3,1, max_pool2d
//   in  g_weight: f32(16, 6, 5, 5) in memory order 0,2,3,1, conv2.weight
//   in  g_bias: f32(16), conv2.bias
//   out g_relu: f32(1, 16, 10, 10) in memory order 0,2,3,1, relu
// grid 4x1x1 of 64 threads, 0 bytes of dynamic shared memory
// 483200 FLOP, 14368 bytes read, 6400 bytes written
#include "lib/prim.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = 100, kN = 16, kK = 150;
constexpr int kTileM = 32, kTileN = 32, kTileK = 16;
constexpr int kThreadM = 4, kThreadN = 4;  // outputs per thread
constexpr int kThreads = 64;
constexpr int kBlocksPerSm = 12;
constexpr int kLanes = 2;
constexpr int kStep = kThreads / kTileK;  // rows loaded at once
constexpr int kRowsA = kTileM / kStep, kRowsB = kTileN / kStep;
constexpr int kThreadsN = kTileN / kThreadN;  // threads along n
static_assert(kTileM * kTileN == kThreads * kThreadM * kThreadN, "every output has one thread");
static_assert(kThreadN % 2 == 0 && kLanes <= 2, "a thread's outputs are pairs");

// A thread's outputs along n are pairs, 2 * kThreadsN apart: half a warp then reads 32 neighbours of b.
__device__ inline int thread_column(int j) {
  return threadIdx.x % kThreadsN * 2 + j / 2 * (2 * kThreadsN) + j % 2;
}

// A warp stores 16 values of k of two rows at once: two more floats a row put them in 32 banks.
struct Smem {
  float a[kTileK][kTileM + 2];
  float b[kTileK][kTileN + 2];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) lenet__conv2_relu(
  const float *__restrict__ g_max_pool2d,
  const float *__restrict__ g_weight,
  const float *__restrict__ g_bias,
  float *__restrict__ g_relu) {
  __shared__ __align__(16) Smem smem;
  const int tid = threadIdx.x;
  const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;
  const int load_k = tid % kTileK, load_row = tid / kTileK;
  float acc[kThreadM][kThreadN] = {};

  for (int k0 = 0; k0 < kK; k0 += kTileK) {
    const int k = k0 + load_k;
    const int c = k % 6, tap = k / 6;
    const int r = tap / 5, s = tap % 5;
#pragma unroll 4
    for (int i = 0; i < kRowsA; ++i) {
      const int m = m0 + load_row + i * kStep;
      const int image = m / 100, pixel = m % 100;
      const int y = pixel / 10 * 1 - 0 + r * 1;
      const int x = pixel % 10 * 1 - 0 + s * 1;
      const bool a_inside = m < kM && k < kK && unsigned(y) < 14u && unsigned(x) < 14u;
      const float max_pool2d_1 = a_inside ? nn_float(g_max_pool2d[y * 84 + x * 6 + c]) : 0.f;
      smem.a[load_k][load_row + i * kStep] = a_inside ? max_pool2d_1 : 0.f;
    }
#pragma unroll 4
    for (int i = 0; i < kRowsB; ++i) {
      const int n = n0 + load_row + i * kStep;
      const bool b_inside = n < kN && k < kK;
      const float weight_copy_1 = b_inside ? nn_float(g_weight[n * 150 + r * 30 + s * 6 + c]) : 0.f;
      smem.b[load_k][load_row + i * kStep] = b_inside ? weight_copy_1 : 0.f;
    }
    nn_sync();
    const int thread_m = tid / kThreadsN * kThreadM;
#pragma unroll 8
    for (int kk = 0; kk < kTileK; ++kk) {
      float a[kThreadM], b[kThreadN];
      for (int i = 0; i < kThreadM; ++i) a[i] = smem.a[kk][thread_m + i];
      for (int j = 0; j < kThreadN; j += 2) {
        const Vec<float, 2> pair = nn_load<2>(&smem.b[kk][thread_column(j)]);
        b[j] = pair[0], b[j + 1] = pair[1];
      }
      for (int i = 0; i < kThreadM; ++i)
      for (int j = 0; j < kThreadN; ++j) acc[i][j] = nn_fma(a[i], b[j], acc[i][j]);
    }
    nn_sync();
  }

#pragma unroll
  for (int i = 0; i < kThreadM; ++i) {
    const int m = m0 + tid / kThreadsN * kThreadM + i;
    if (m >= kM) break;
    const int image = m / 100, p = m / 10 % 10, q = m % 10;
#pragma unroll
    for (int v = 0; v < kThreadN; v += kLanes) {
      const int n = n0 + thread_column(v);
      if (n >= kN) break;
      const Vec<float, 2> bias_1 = nn_load<2>(g_bias + n);
      Vec<float, 2> relu_out;
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float conv2_add_2 = acc[i][v + j] + nn_float(bias_1[j]);
        const float relu_3 = nn_max(conv2_add_2, 0.f);
        relu_out[j] = nn_cast<float>(relu_3);
      }
      nn_store<2>(g_relu + p * 160 + q * 16 + n, relu_out);
    }
  }
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
      const Vec<float, 4> relu_1 = nn_load<4>(g_relu + y * 160 + x * 16 + c);
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {

        acc[j] = nn_max(acc[j], nn_float(relu_1[j]));
      }
    }
  }
  Vec<float, 4> max_pool2d_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    max_pool2d_out[j] = nn_cast<float>(acc[j]);
  }
  nn_store<4>(g_max_pool2d + i, max_pool2d_out);
}
// lenet__fc1_init: permute+copy
// from models/lenet.lua:8
//   in  g_weight: f32(120, 400), fc1.weight
//   out g_fc1: f32(400, 120) in memory order 1,0, fc1
// grid 47x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 192000 bytes read, 192000 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 48000;

extern "C" __global__ void __launch_bounds__(kThreads) lenet__fc1_init(
  const float *__restrict__ g_weight,
  float *__restrict__ g_fc1) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int m = i % 400;
  const int n = i / 400;
  const Vec<float, 4> weight_1 = nn_load<4>(g_weight + n * 400 + m);
  Vec<float, 4> fc1_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    fc1_out[j] = nn_cast<float>(nn_float(weight_1[j]));
  }
  nn_store<4>(g_fc1 + i, fc1_out);
}
// lenet__fc1_relu: reshape+matmul+add+relu
// from models/lenet.lua:8
//   in  g_max_pool2d: f32(1, 16, 5, 5) in memory order 0,2,3,1, max_pool2d
//   in  g_fc1: f32(400, 120) in memory order 1,0, fc1
//   in  g_bias: f32(120), fc1.bias
//   out g_relu: f32(1, 120), relu
// grid 1x4x1 of 64 threads, 0 bytes of dynamic shared memory
// 96240 FLOP, 194080 bytes read, 480 bytes written
#include "lib/prim.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = 1, kN = 120, kK = 400;
constexpr int kTileM = 32, kTileN = 32, kTileK = 16;
constexpr int kThreadM = 4, kThreadN = 4;  // outputs per thread
constexpr int kThreads = 64;
constexpr int kBlocksPerSm = 12;
constexpr int kLanes = 2;
constexpr int kStep = kThreads / kTileK;  // rows loaded at once
constexpr int kRowsA = kTileM / kStep, kRowsB = kTileN / kStep;
constexpr int kThreadsN = kTileN / kThreadN;  // threads along n
static_assert(kTileM * kTileN == kThreads * kThreadM * kThreadN, "every output has one thread");
static_assert(kThreadN % 2 == 0 && kLanes <= 2, "a thread's outputs are pairs");

// A thread's outputs along n are pairs, 2 * kThreadsN apart: half a warp then reads 32 neighbours of b.
__device__ inline int thread_column(int j) {
  return threadIdx.x % kThreadsN * 2 + j / 2 * (2 * kThreadsN) + j % 2;
}

// A warp stores 16 values of k of two rows at once: two more floats a row put them in 32 banks.
struct Smem {
  float a[kTileK][kTileM + 2];
  float b[kTileK][kTileN + 2];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) lenet__fc1_relu(
  const float *__restrict__ g_max_pool2d,
  const float *__restrict__ g_fc1,
  const float *__restrict__ g_bias,
  float *__restrict__ g_relu) {
  __shared__ __align__(16) Smem smem;
  const int tid = threadIdx.x;
  const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;

  const int load_k = tid % kTileK, load_row = tid / kTileK;
  float acc[kThreadM][kThreadN] = {};

  for (int k0 = 0; k0 < kK; k0 += kTileK) {
    const int k = k0 + load_k;
#pragma unroll 4
    for (int i = 0; i < kRowsA; ++i) {
      const int m = m0 + load_row + i * kStep;
      const bool a_inside = m < kM && k < kK;
      const float max_pool2d_1 = a_inside ? nn_float(g_max_pool2d[(((k) / 5 % 5)) * 80 + (((k) % 5)) * 16 + ((k) / 25)]) : 0.f;
      smem.a[load_k][load_row + i * kStep] = a_inside ? max_pool2d_1 : 0.f;
    }
#pragma unroll 4
    for (int i = 0; i < kRowsB; ++i) {
      const int n = n0 + load_row + i * kStep;
      const bool b_inside = n < kN && k < kK;
      const float fc1_copy_1 = b_inside ? nn_float(g_fc1[n * 400 + k]) : 0.f;
      smem.b[load_k][load_row + i * kStep] = b_inside ? fc1_copy_1 : 0.f;
    }
    nn_sync();
    const int thread_m = tid / kThreadsN * kThreadM;
#pragma unroll 8
    for (int kk = 0; kk < kTileK; ++kk) {
      float a[kThreadM], b[kThreadN];
      for (int i = 0; i < kThreadM; ++i) a[i] = smem.a[kk][thread_m + i];
      for (int j = 0; j < kThreadN; j += 2) {
        const Vec<float, 2> pair = nn_load<2>(&smem.b[kk][thread_column(j)]);
        b[j] = pair[0], b[j + 1] = pair[1];
      }
      for (int i = 0; i < kThreadM; ++i)
      for (int j = 0; j < kThreadN; ++j) acc[i][j] = nn_fma(a[i], b[j], acc[i][j]);
    }
    nn_sync();
  }

#pragma unroll
  for (int i = 0; i < kThreadM; ++i) {
    const int m = m0 + tid / kThreadsN * kThreadM + i;
    if (m >= kM) break;
#pragma unroll
    for (int v = 0; v < kThreadN; v += kLanes) {
      const int n = n0 + thread_column(v);
      if (n >= kN) break;
      const Vec<float, 2> bias_1 = nn_load<2>(g_bias + n);
      Vec<float, 2> relu_out;
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float fc1_add_2 = acc[i][v + j] + nn_float(bias_1[j]);
        const float relu_3 = nn_max(fc1_add_2, 0.f);
        relu_out[j] = nn_cast<float>(relu_3);
      }
      nn_store<2>(g_relu + n, relu_out);
    }
  }
}
// lenet__fc2_init: permute+copy
// from models/lenet.lua:8
//   in  g_weight: f32(84, 120), fc2.weight
//   out g_fc2: f32(120, 84) in memory order 1,0, fc2
// grid 10x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 40320 bytes read, 40320 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 10080;

extern "C" __global__ void __launch_bounds__(kThreads) lenet__fc2_init(
  const float *__restrict__ g_weight,
  float *__restrict__ g_fc2) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int m = i % 120;
  const int n = i / 120;
  const Vec<float, 4> weight_1 = nn_load<4>(g_weight + n * 120 + m);
  Vec<float, 4> fc2_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    fc2_out[j] = nn_cast<float>(nn_float(weight_1[j]));
  }
  nn_store<4>(g_fc2 + i, fc2_out);
}
// lenet__fc2_relu: matmul+add+relu
// from models/lenet.lua:8
//   in  g_relu: f32(1, 120), relu
//   in  g_fc2: f32(120, 84) in memory order 1,0, fc2
//   in  g_bias: f32(84), fc2.bias
//   out g_relu_2: f32(1, 84), relu
// grid 1x3x1 of 64 threads, 0 bytes of dynamic shared memory
// 20328 FLOP, 41136 bytes read, 336 bytes written
#include "lib/prim.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = 1, kN = 84, kK = 120;
constexpr int kTileM = 32, kTileN = 32, kTileK = 16;
constexpr int kThreadM = 4, kThreadN = 4;  // outputs per thread
constexpr int kThreads = 64;
constexpr int kBlocksPerSm = 12;
constexpr int kLanes = 2;
constexpr int kStep = kThreads / kTileK;  // rows loaded at once
constexpr int kRowsA = kTileM / kStep, kRowsB = kTileN / kStep;
constexpr int kThreadsN = kTileN / kThreadN;  // threads along n
static_assert(kTileM * kTileN == kThreads * kThreadM * kThreadN, "every output has one thread");
static_assert(kThreadN % 2 == 0 && kLanes <= 2, "a thread's outputs are pairs");

// A thread's outputs along n are pairs, 2 * kThreadsN apart: half a warp then reads 32 neighbours of b.
__device__ inline int thread_column(int j) {
  return threadIdx.x % kThreadsN * 2 + j / 2 * (2 * kThreadsN) + j % 2;
}

// A warp stores 16 values of k of two rows at once: two more floats a row put them in 32 banks.
struct Smem {
  float a[kTileK][kTileM + 2];
  float b[kTileK][kTileN + 2];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) lenet__fc2_relu(
  const float *__restrict__ g_relu,
  const float *__restrict__ g_fc2,
  const float *__restrict__ g_bias,
  float *__restrict__ g_relu_2) {
  __shared__ __align__(16) Smem smem;
  const int tid = threadIdx.x;
  const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;

  const int load_k = tid % kTileK, load_row = tid / kTileK;
  float acc[kThreadM][kThreadN] = {};

  for (int k0 = 0; k0 < kK; k0 += kTileK) {
    const int k = k0 + load_k;
#pragma unroll 4
    for (int i = 0; i < kRowsA; ++i) {
      const int m = m0 + load_row + i * kStep;
      const bool a_inside = m < kM && k < kK;
      const float relu_1 = a_inside ? nn_float(g_relu[k]) : 0.f;
      smem.a[load_k][load_row + i * kStep] = a_inside ? relu_1 : 0.f;
    }
#pragma unroll 4
    for (int i = 0; i < kRowsB; ++i) {
      const int n = n0 + load_row + i * kStep;
      const bool b_inside = n < kN && k < kK;
      const float fc2_copy_1 = b_inside ? nn_float(g_fc2[n * 120 + k]) : 0.f;
      smem.b[load_k][load_row + i * kStep] = b_inside ? fc2_copy_1 : 0.f;
    }
    nn_sync();
    const int thread_m = tid / kThreadsN * kThreadM;
#pragma unroll 8
    for (int kk = 0; kk < kTileK; ++kk) {
      float a[kThreadM], b[kThreadN];
      for (int i = 0; i < kThreadM; ++i) a[i] = smem.a[kk][thread_m + i];
      for (int j = 0; j < kThreadN; j += 2) {
        const Vec<float, 2> pair = nn_load<2>(&smem.b[kk][thread_column(j)]);
        b[j] = pair[0], b[j + 1] = pair[1];
      }
      for (int i = 0; i < kThreadM; ++i)
      for (int j = 0; j < kThreadN; ++j) acc[i][j] = nn_fma(a[i], b[j], acc[i][j]);
    }
    nn_sync();
  }

#pragma unroll
  for (int i = 0; i < kThreadM; ++i) {
    const int m = m0 + tid / kThreadsN * kThreadM + i;
    if (m >= kM) break;
#pragma unroll
    for (int v = 0; v < kThreadN; v += kLanes) {
      const int n = n0 + thread_column(v);
      if (n >= kN) break;
      const Vec<float, 2> bias_1 = nn_load<2>(g_bias + n);
      Vec<float, 2> relu_2_out;
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float fc2_add_2 = acc[i][v + j] + nn_float(bias_1[j]);
        const float relu_3 = nn_max(fc2_add_2, 0.f);
        relu_2_out[j] = nn_cast<float>(relu_3);
      }
      nn_store<2>(g_relu_2 + n, relu_2_out);
    }
  }
}
// lenet__fc3_init: permute+copy
// from models/lenet.lua:9
//   in  g_weight: f32(10, 84), fc3.weight
//   out g_fc3: f32(84, 10) in memory order 1,0, fc3
// grid 1x1x1 of 256 threads, 0 bytes of dynamic shared memory
// 0 FLOP, 3360 bytes read, 3360 bytes written
#include "lib/prim.cuh"

constexpr int kThreads = 256;
constexpr int kLanes = 4;  // neighbouring elements per thread
constexpr int kCount = 840;

extern "C" __global__ void __launch_bounds__(kThreads) lenet__fc3_init(
  const float *__restrict__ g_weight,
  float *__restrict__ g_fc3) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  const int m = i % 84;
  const int n = i / 84;
  const Vec<float, 4> weight_1 = nn_load<4>(g_weight + n * 84 + m);
  Vec<float, 4> fc3_out;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
    fc3_out[j] = nn_cast<float>(nn_float(weight_1[j]));
  }
  nn_store<4>(g_fc3 + i, fc3_out);
}
// lenet__fc3: matmul+add
// from models/lenet.lua:9
//   in  g_relu: f32(1, 84), relu
//   in  g_fc3: f32(84, 10) in memory order 1,0, fc3
//   in  g_bias: f32(10), fc3.bias
//   out g_fc3_2: f32(1, 10), fc3
// grid 1x1x1 of 64 threads, 0 bytes of dynamic shared memory
// 1690 FLOP, 3736 bytes read, 40 bytes written
#include "lib/prim.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = 1, kN = 10, kK = 84;
constexpr int kTileM = 32, kTileN = 32, kTileK = 16;
constexpr int kThreadM = 4, kThreadN = 4;  // outputs per thread
constexpr int kThreads = 64;
constexpr int kBlocksPerSm = 12;
constexpr int kLanes = 2;
constexpr int kStep = kThreads / kTileK;  // rows loaded at once
constexpr int kRowsA = kTileM / kStep, kRowsB = kTileN / kStep;
constexpr int kThreadsN = kTileN / kThreadN;  // threads along n
static_assert(kTileM * kTileN == kThreads * kThreadM * kThreadN, "every output has one thread");
static_assert(kThreadN % 2 == 0 && kLanes <= 2, "a thread's outputs are pairs");

// A thread's outputs along n are pairs, 2 * kThreadsN apart: half a warp then reads 32 neighbours of b.
__device__ inline int thread_column(int j) {
  return threadIdx.x % kThreadsN * 2 + j / 2 * (2 * kThreadsN) + j % 2;
}

// A warp stores 16 values of k of two rows at once: two more floats a row put them in 32 banks.
struct Smem {
  float a[kTileK][kTileM + 2];
  float b[kTileK][kTileN + 2];
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) lenet__fc3(
  const float *__restrict__ g_relu,
  const float *__restrict__ g_fc3,
  const float *__restrict__ g_bias,
  float *__restrict__ g_fc3_2) {
  __shared__ __align__(16) Smem smem;
  const int tid = threadIdx.x;
  const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;

  const int load_k = tid % kTileK, load_row = tid / kTileK;
  float acc[kThreadM][kThreadN] = {};

  for (int k0 = 0; k0 < kK; k0 += kTileK) {
    const int k = k0 + load_k;
#pragma unroll 4
    for (int i = 0; i < kRowsA; ++i) {
      const int m = m0 + load_row + i * kStep;
      const bool a_inside = m < kM && k < kK;
      const float relu_1 = a_inside ? nn_float(g_relu[k]) : 0.f;
      smem.a[load_k][load_row + i * kStep] = a_inside ? relu_1 : 0.f;
    }
#pragma unroll 4
    for (int i = 0; i < kRowsB; ++i) {
      const int n = n0 + load_row + i * kStep;
      const bool b_inside = n < kN && k < kK;
      const float fc3_copy_1 = b_inside ? nn_float(g_fc3[n * 84 + k]) : 0.f;
      smem.b[load_k][load_row + i * kStep] = b_inside ? fc3_copy_1 : 0.f;
    }
    nn_sync();
    const int thread_m = tid / kThreadsN * kThreadM;
#pragma unroll 8
    for (int kk = 0; kk < kTileK; ++kk) {
      float a[kThreadM], b[kThreadN];
      for (int i = 0; i < kThreadM; ++i) a[i] = smem.a[kk][thread_m + i];
      for (int j = 0; j < kThreadN; j += 2) {
        const Vec<float, 2> pair = nn_load<2>(&smem.b[kk][thread_column(j)]);
        b[j] = pair[0], b[j + 1] = pair[1];
      }
      for (int i = 0; i < kThreadM; ++i)
      for (int j = 0; j < kThreadN; ++j) acc[i][j] = nn_fma(a[i], b[j], acc[i][j]);
    }
    nn_sync();
  }

#pragma unroll
  for (int i = 0; i < kThreadM; ++i) {
    const int m = m0 + tid / kThreadsN * kThreadM + i;
    if (m >= kM) break;
#pragma unroll
    for (int v = 0; v < kThreadN; v += kLanes) {
      const int n = n0 + thread_column(v);
      if (n >= kN) break;
      const Vec<float, 2> bias_1 = nn_load<2>(g_bias + n);
      Vec<float, 2> fc3_2_out;
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float fc3_add_2 = acc[i][v + j] + nn_float(bias_1[j]);
        fc3_2_out[j] = nn_cast<float>(fc3_add_2);
      }
      nn_store<2>(g_fc3_2 + n, fc3_2_out);
    }
  }
}
// lenet__softmax: reduce_max+sub+exp+reduce_sum+div
// from models/lenet.lua:9
//   in  g_fc3: f32(1, 10), fc3
//   out g_softmax: f32(1, 10), softmax
// grid 1x1x1 of 32 threads, 0 bytes of dynamic shared memory
// 80 FLOP, 40 bytes read, 40 bytes written
#include "lib/prim.cuh"
#include "lib/row.cuh"

constexpr int kThreads = 32;  // per row
constexpr int kRowThreads = kThreads;
constexpr int kRowsPerBlock = 1;
constexpr int kLanes = 2;    // neighbouring elements per access
constexpr int kItems = 1;    // accesses per thread: the row stays in registers
constexpr int kColumns = 10;
constexpr int kRows = 1;

extern "C" __global__ void __launch_bounds__(32) lenet__softmax(
  const float *__restrict__ g_fc3,
  float *__restrict__ g_softmax) {
  __shared__ float part[kRowsPerBlock][kRowThreads / kWarp];
  const int tid = threadIdx.x % kRowThreads;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / kRowThreads;
  if (row >= kRows) return;

  float row_reduce_max_0 = -nn_inf();
  float row_reduce_sum_3 = 0.f;
  float kept_fc3[kItems * kLanes];
  float kept_exp_2[kItems * kLanes];
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (i < kColumns) {
      const int n = i;
      const Vec<float, 2> fc3_add_1 = nn_load<2>(g_fc3 + n);
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        kept_fc3[item * kLanes + j] = nn_float(fc3_add_1[j]);
        row_reduce_max_0 = nn_max(row_reduce_max_0, nn_float(fc3_add_1[j]));
      }
    }
  }
  row_reduce_max_0 = row_reduce<kRowThreads>(row_reduce_max_0, part, [](float a, float b) { return nn_max(a, b); });
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (i < kColumns) {
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float softmax_sub_1 = kept_fc3[item * kLanes + j] - row_reduce_max_0;
        const float softmax_exp_2 = nn_exp(softmax_sub_1);
        kept_exp_2[item * kLanes + j] = softmax_exp_2;
        row_reduce_sum_3 = row_reduce_sum_3 + softmax_exp_2;
      }
    }
  }
  row_reduce_sum_3 = row_reduce<kRowThreads>(row_reduce_sum_3, part, [](float a, float b) { return a + b; });
#pragma unroll
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
    if (i < kColumns) {
      const int n = i;
      Vec<float, 2> softmax_out;
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
        const float softmax_div_1 = kept_exp_2[item * kLanes + j] / row_reduce_sum_3;
        softmax_out[j] = nn_cast<float>(softmax_div_1);
      }
      nn_store<2>(g_softmax + n, softmax_out);
    }
  }
}
