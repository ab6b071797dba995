$(k.header)
#include "lib/prim.cuh"
#include "lib/mma.cuh"

// out[m, n] = sum over k of a[m, k] * b[n, k] on tensor cores, then the epilogue.
constexpr int kM = $(k.m), kN = $(k.n), kK = $(k.k);
constexpr int kTileM = $(k.tile_m), kTileN = $(k.tile_n);
constexpr int kWarpM = $(k.thread_m), kWarpN = $(k.thread_n);  // outputs per warp
constexpr int kStages = $(k.stages);
constexpr int kThreads = $(k.threads);
constexpr int kLanes = $(k.lanes);  // neighbouring outputs per thread in the epilogue
using T = $(k.operand);             // float: TF32
constexpr int kPack = kChunkBytes / int(sizeof(T));  // elements in a chunk
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;
constexpr int kRowsAtOnce = kThreads / kChunks;
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
static_assert(kTileM % kRowsAtOnce == 0 && kTileN % kRowsAtOnce == 0, "every row is loaded");

struct Smem {
  union {
    struct {
      char a[kStages][kTileM * kRowBytes];
      char b[kStages][kTileN * kRowBytes];
    };
    float out[kTileM * kTileN];
  };
};
static_assert(sizeof(Smem) == $(k.smem), "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
  const int m0 = blockIdx.x * kTileM, n0 = blockIdx.y * kTileN;
//@ if k.batch > 1 then
  const int batch = blockIdx.z;
//@ end
//@ if k.decode_batch then
$(k.decode_batch)
//@ end
  const int load_row = tid / kChunks, load_chunk = tid % kChunks;

  // Starts loading block `block` of k into its stage.
  auto load = [&](int block) {
    char *a_rows = smem.a[block % kStages], *b_rows = smem.b[block % kStages];
    const int k0 = block * kTileK + load_chunk * kPack;
//@ if k.a_direct and k.conv then
    const int tap = k0 / $(k.C), c = k0 % $(k.C);
    const int r = tap / $(k.S), s = tap % $(k.S);
//@ end
//@ -- Copies overlap when unrolled; elements that are computed would only need more registers.
#pragma unroll $(k.a_direct and "" or "1")
    for (int i = 0; i < kTileM / kRowsAtOnce; ++i) {
      const int row = load_row + i * kRowsAtOnce, m = m0 + row;
//@ if k.conv then
      const int image = m / $(k.P * k.Q), pixel = m % $(k.P * k.Q);
      const int y0 = pixel / $(k.Q) * $(k.stride_h) - $(k.pad_h), x0 = pixel % $(k.Q) * $(k.stride_w) - $(k.pad_w);
//@ end
//@ if k.a_direct then
//@ if k.conv then
      const int y = y0 + r * $(k.dilation_h), x = x0 + s * $(k.dilation_w);
      const bool inside = m < kM && k0 < kK && unsigned(y) < $(k.H)u && unsigned(x) < $(k.W)u;
//@ else
      const int k = k0;
      const bool inside = m < kM && k0 < kK;
//@ end
//@ if k.grouped then
      const int group_c = batch * $(k.C) + c;
//@ end
      nn_cp_async<kChunkBytes>(a_rows + swizzled(row, load_chunk), $(k.a_pointer) + (inside ? $(k.a_offset) : 0), inside);
//@ else
      Vec<T, kPack> chunk;
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        const int k = k0 + e;
//@ if k.conv then
        const int c = k % $(k.C), tap = k / $(k.C);
        const int r = tap / $(k.S), s = tap % $(k.S);
        const int y = y0 + r * $(k.dilation_h), x = x0 + s * $(k.dilation_w);
        const bool a_inside = m < kM && k < kK && unsigned(y) < $(k.H)u && unsigned(x) < $(k.W)u;
//@ if k.grouped then
        const int group_c = batch * $(k.C) + c;
//@ end
//@ else
        const bool a_inside = m < kM && k < kK;
//@ end
$(k.a_body)
        chunk[e] = nn_cast<T>(a_inside ? $(k.a_value) : 0.f);
      }
      nn_store<kPack>((T *)(a_rows + swizzled(row, load_chunk)), chunk);
//@ end
    }
#pragma unroll $(k.b_direct and "" or "1")
    for (int i = 0; i < kTileN / kRowsAtOnce; ++i) {
      const int row = load_row + i * kRowsAtOnce, n = n0 + row;
//@ if k.grouped then
      const int group_n = batch * kN + n;
//@ end
//@ if k.b_direct then
      const bool inside = n < kN && k0 < kK;
      nn_cp_async<kChunkBytes>(b_rows + swizzled(row, load_chunk), $(k.b_pointer) + (inside ? $(k.b_offset) : 0), inside);
//@ else
      Vec<T, kPack> chunk;
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        const int k = k0 + e;
        const bool b_inside = n < kN && k < kK;
//@ if k.conv then
        const int c = k % $(k.C), tap = k / $(k.C);
        const int r = tap / $(k.S), s = tap % $(k.S);
//@ end
$(k.b_body)
        chunk[e] = nn_cast<T>(b_inside ? $(k.b_value) : 0.f);
      }
      nn_store<kPack>((T *)(b_rows + swizzled(row, load_chunk)), chunk);
//@ end
    }
  };

  // The ring: kStages - 1 blocks are on their way while one is multiplied.
  WarpTile<T, kWarpM, kWarpN> tile;
  tile.clear();
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
#pragma unroll
  for (int block = 0; block < kStages - 1; ++block) {
    if (block < kBlocks) load(block);
    nn_cp_async_commit();
  }
  for (int block = 0; block < kBlocks; ++block) {
    nn_cp_async_wait<kStages - 2>();
    nn_sync();  // this block has landed for all, and the stage loaded next has been read by all
    if (block + kStages - 1 < kBlocks) load(block + kStages - 1);
    nn_cp_async_commit();
    tile.multiply(smem.a[block % kStages], warp_m, smem.b[block % kStages], warp_n);
  }
  nn_cp_async_wait<0>();
  nn_sync();

  // Outputs pass through shared memory, so that each thread has neighbours along n.
  tile.stage(smem.out, kTileN, warp_m, warp_n);
  nn_sync();
  for (int at = tid; at < kTileM * kTileN / kLanes; at += kThreads) {
    const int row = at / (kTileN / kLanes), column = at % (kTileN / kLanes) * kLanes;
    const int m = m0 + row, n = n0 + column;
    if (m >= kM || n >= kN) continue;
//@ if k.conv then
    const int image = m / $(k.P * k.Q), p = m / $(k.Q) % $(k.P), q = m % $(k.Q);
//@ end
//@ if k.grouped then
    const int group_n = batch * kN + n;
//@ end
    const Vec<float, kLanes> acc = read_staged<kLanes>(smem.out, kTileN, row, column);
$(k.loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(k.body)
    }
$(k.stores)
  }
}
