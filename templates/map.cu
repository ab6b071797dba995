$(k.header)
#include "lib/prim.cuh"
//@ if k.values then
#include "lib/values.cuh"
//@ end
//@ if k.draws then
#include "lib/random.cuh"
//@ end

constexpr int kThreads = $(k.threads);
constexpr int kLanes = $(k.lanes);  // neighbouring elements per thread
constexpr int kCount = $(k.count);

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
$(k.decode)
$(k.loads)
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
$(k.body)
  }
$(k.stores)
}
