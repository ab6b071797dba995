//@ part("parts/head.cu")
//@ local one = #k.parts == 1 and k.parts[1]
//@ if not one then alike(k) end
//@ if k.begins then
#include "lib/tensors.cuh"
//@ end

constexpr int kThreads = $(k.threads);
//@ if one then
constexpr int kLanes = $(one.lanes);  // neighbouring elements per thread
constexpr $(counter(one.count)) kCount = $(one.count);
//@ end
//@ if k.begins then part("parts/begins.cu") end

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
//@ if one then
//@ one.block, one.elements = "blockIdx.x", "kCount"
//@ part("parts/map_place.cu", one)
$(one.decode)
$(one.loads)
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
$(one.body)
  }
$(one.stores)
//@ end
//@ for _, one in ipairs(one and {} or k.classes) do
//@ if one.fields then part("parts/tensors.cu", one) end
  if (blockIdx.x < $(one.last)) {  // $(one.layer)$(one.more)
//@ part("parts/part.cu", one)
//@ part("parts/map_place.cu", one)
$(one.decode)
$(one.loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(one.body)
    }
$(one.stores)
    return;
  }
//@ end
}
