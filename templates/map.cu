//@ part("parts/head.cu")

constexpr int kThreads = $(k.threads);
//@ local one = #k.parts == 1 and k.parts[1]
//@ if one then
constexpr int kLanes = $(one.lanes);  // neighbouring elements per thread
constexpr $(counter(one.count)) kCount = $(one.count);
//@ end

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
//@ if one then
//@ one.block = "blockIdx.x"
//@ part("parts/map_place.cu", one)
$(one.decode)
$(one.loads)
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
$(one.body)
  }
$(one.stores)
//@ end
//@ for _, one in ipairs(one and {} or k.parts) do
  if (blockIdx.x < $(one.last)) {  // $(one.layer)
    constexpr int kLanes = $(one.lanes);
    constexpr $(counter(one.count)) kCount = $(one.count);
//@ one.block = "(blockIdx.x - " .. one.begin .. ")"
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
