// pipeline.cuh: the loop of a contraction over k: blocks of k are loaded into a ring of stages in
// shared memory, several of them in flight while one is multiplied.
#pragma once
#include "lib/tile.cuh"

// Operands: kStages blocks of k of a tile.
template <int kStages, int kTileM, int kTileN> struct Ring {
  char a[kStages][kTileM * kRowBytes];
  char b[kStages][kTileN * kRowBytes];
};

// For blocks with one tile each.
struct NoNextTile {
  __device__ bool operator()() const { return false; }
};

// The state of a block's loop over k. kLastSteps: steps in the last block of k of a tile; others
// have as many as fill a row. kFull: no tile is without blocks of k. kWalks: blocks of threads go
// on from tile to tile. kHidden: the compiler does not know the trip count, and does not unroll.
// kRolled: not even a short loop is unrolled.
template <class Product, int kStages, int kLastSteps, bool kFull, bool kWalks, bool kHidden,
          bool kRolled>
struct Pipeline {
  static constexpr int kSteps = kRowBytes / Product::kStepBytes;
  static constexpr int kAhead = kStages - 1 - Product::kInFlight;  // blocks of k in flight
  Product product;
  const int first, end;  // blocks of k: from `first` to before `end`,
  const int last;        // the last one of the whole tile
  int ahead;             // the block that is loaded next
  int stage = 0;         // of the block that is multiplied next

  // blocks: of k, in a tile.
  __device__ Pipeline(int first, int end, int blocks)
      : first(first), end(end), last(blocks - 1), ahead(first) {}

  // Starts the loads of one more block: load(block, to). After a tile's last block continues
  // with the first of another, if next_tile().
  template <class Load, class Next>
  __device__ __forceinline__ void load_next(int to, Load load, Next next_tile) {
    if (kWalks && ahead == end) ahead = next_tile() ? 0 : end + 1;
    if (ahead < end) load(ahead, to);
    ++ahead;
    nn_cp_async_commit();
  }

  // Starts the loads of the first blocks.
  template <class Load, class Next>
  __device__ __forceinline__ void fill(Load load, Next next_tile) {
#pragma unroll
    for (int to = 0; to < kAhead; ++to) load_next(to, load, next_tile);
  }

  // Multiplies the blocks of k of a tile. A warp has the outputs from (row, column) on.
  template <class Tiles, class Load, class Next>
  __device__ __forceinline__ void multiply(const Tiles &ring, int row, int column, Load load,
                                           Next next_tile) {
    const int past = kHidden ? nn_opaque(end) : end;
    auto multiply_block = [&](int block) {
      nn_cp_async_wait<kAhead - 1>();
      product.publish();
      nn_sync();  // the data is visible to all warps, and the stage loaded next is free
      load_next(stage + kAhead < kStages ? stage + kAhead : stage + kAhead - kStages, load,
                next_tile);
      const char *rows = ring.a[stage], *columns = ring.b[stage];
      stage = stage + 1 < kStages ? stage + 1 : 0;
      if (kLastSteps == kSteps || block < last)
        product.template multiply<kSteps>(rows, row, columns, column);
      else
        product.template multiply<kLastSteps>(rows, row, columns, column);
    };
    product.clear();
    // Without this, ptxas serialises the wgmma instructions.
    if constexpr (Product::kInFlight > 0 && kFull) nn_assume(first < past);
    if constexpr (kRolled) {
#pragma unroll 1
      for (int block = first; block < past; ++block) multiply_block(block);
    } else {
      for (int block = first; block < past; ++block) multiply_block(block);
    }
    product.finish();
  }
};
