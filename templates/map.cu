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
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
  nn_assume(i >= 0);  // makes remainders cheaper
$(one.decode)
$(one.loads)
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
$(one.body)
  }
$(one.stores)
//@ end
//@ for _, part in ipairs(one and {} or k.parts) do
  if (blockIdx.x < $(part.last)) {  // $(part.layer)
    constexpr int kLanes = $(part.lanes);
    const int i = ((blockIdx.x - $(part.begin)) * kThreads + threadIdx.x) * kLanes;
    if (i >= $(part.count)) return;
    nn_assume(i >= 0);
$(part.decode)
$(part.loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(part.body)
    }
$(part.stores)
    return;
  }
//@ end
}
