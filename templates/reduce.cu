$(k.header)
#include "lib/prim.cuh"
//@ if k.values then
#include "lib/values.cuh"
//@ end
//@ if k.draws then
#include "lib/random.cuh"
//@ end

constexpr int kThreads = $(k.threads);
constexpr int kColumns = $(k.columns);     // threads over outputs; the others share the reduction
constexpr int kRows = kThreads / kColumns;
constexpr int kLanes = $(k.lanes);         // neighbouring outputs per thread
constexpr int kCount = $(k.count);         // outputs
constexpr int kReduced = $(k.reduced);     // elements combined into each

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  __shared__ __align__(16) float part[kRows][kColumns * kLanes];
  const int x = threadIdx.x % kColumns, row = threadIdx.x / kColumns;
  const int i = (blockIdx.x * kColumns + x) * kLanes;
$(k.decode)
  Vec<float, kLanes> acc;
#pragma unroll
  for (int j = 0; j < kLanes; ++j) acc[j] = $(k.init);
  for (int e = row; e < kReduced && i < kCount; e += kRows) {
$(k.decode_element)
$(k.element_loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(k.element_body)
      acc[j] = $(k.combine);
    }
  }
  nn_store<kLanes>(&part[row][x * kLanes], acc);
  nn_sync();
  if (row != 0 || i >= kCount) return;
#pragma unroll 4
  for (int y = 1; y < kRows; ++y) {
    const Vec<float, kLanes> other = nn_load<kLanes>(&part[y][x * kLanes]);
    for (int j = 0; j < kLanes; ++j) acc[j] = $(k.join);
  }
$(k.loads)
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
$(k.body)
  }
$(k.stores)
}
