// arrive.cuh: blocks that meet through global memory, without waiting: the last one does the rest.
#pragma once

// For all threads of a block: is it the last of `blocks` to call this with `count`? What the others
// have written before is then visible, and the count is back at 0. `last` is in shared memory.
__device__ inline bool last_to_arrive(int *count, int blocks, bool *last) {
  nn_fence_device();
  nn_sync();
  if (threadIdx.x == 0) *last = nn_atomic_add(count, 1) == blocks - 1;
  nn_sync();
  if (!*last) return false;
  nn_fence_device();
  if (threadIdx.x == 0) *count = 0;
  return true;
}

// Sums down the columns of a tile. Each thread brings its sums of kLanes neighbouring columns, thread
// t those from t * kLanes % kColumns on; thread t < kColumns receives the sum of one column, in a
// fixed order. `shared` has a place for each value.
template <int kLanes> constexpr int kColumnChunk = kLanes < 4 ? kLanes : 4;

// The column of thread t: the chunks of a vector are kept apart, so that neighbours write neighbours.
template <int kColumns, int kLanes> __device__ inline int owned_column(int t) {
  constexpr int kChunk = kColumnChunk<kLanes>, kPerRow = kColumns / kLanes;
  return t / kChunk % kPerRow * kLanes + t / kChunk / kPerRow * kChunk + t % kChunk;
}

template <int kThreads, int kColumns, int kLanes>
__device__ inline float sum_columns(float *shared, const Vec<float, kLanes> &part) {
  constexpr int kChunk = kColumnChunk<kLanes>, kPerRow = kColumns / kLanes, kHalves = kLanes / kChunk;
  const int t = threadIdx.x;
  // Rows shorter than the banks turn their halves, so that eight threads store to all banks.
  auto place = [](int row, int half, int column) {
    return row * kColumns + ((half + row * kColumns / 32) % kHalves * kPerRow + column) * kChunk;
  };
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    Vec<float, kChunk> chunk;
    for (int j = 0; j < kChunk; ++j) chunk[j] = part[h * kChunk + j];
    nn_store<kChunk>(shared + place(t / kPerRow, h, t % kPerRow), chunk);
  }
  nn_sync();
  float sum = 0.f;
  if (t < kColumns)
    for (int r = 0; r < kThreads / kPerRow; ++r)
      sum += shared[place(r, t / kChunk / kPerRow, t / kChunk % kPerRow) + t % kChunk];
  nn_sync();
  return sum;
}
