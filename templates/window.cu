//@ part("parts/head.cu")

constexpr int kThreads = $(k.threads);
constexpr int kLanes = $(k.lanes);  // neighbouring channels per thread
constexpr $(counter(k.count)) kCount = $(k.count);
//@ if k.pixels > 1 then
constexpr int kWidth = $(k.across), kChannels = $(k.channels);  // of the outputs
//@ part("parts/window_pixels.cu")
//@ else

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  const int i = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (i >= kCount) return;
$(k.decode)
  float acc[kLanes];
#pragma unroll
  for (int j = 0; j < kLanes; ++j) acc[j] = $(k.init);
//@ local H, W = k.height, k.width
#pragma unroll
  for (int r = 0; r < $(H.kernel); ++r) {
//@ if not k.back then
    const int y = $(H.name) * $(H.stride) - $(H.pad) + r * $(H.dilation);
//@ elseif H.stride == 1 then
    const int y = $(H.name) + $(H.pad) - r * $(H.dilation);
//@ else
    const int step_y = $(H.name) + $(H.pad) - r * $(H.dilation), y = step_y / $(H.stride);
    if (step_y % $(H.stride)) continue;  // between strided positions
//@ end
    if (unsigned(y) >= $(H.size)u) continue;  // padding does not count
#pragma unroll
    for (int s = 0; s < $(W.kernel); ++s) {
//@ if not k.back then
      const int x = $(W.name) * $(W.stride) - $(W.pad) + s * $(W.dilation);
//@ elseif W.stride == 1 then
      const int x = $(W.name) + $(W.pad) - s * $(W.dilation);
//@ else
      const int step_x = $(W.name) + $(W.pad) - s * $(W.dilation), x = step_x / $(W.stride);
      if (step_x % $(W.stride)) continue;
//@ end
      if (unsigned(x) >= $(W.size)u) continue;
$(k.tap_loads)
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
$(k.tap_body)
        acc[j] = $(k.combine);
      }
    }
  }
$(k.loads)
#pragma unroll
  for (int j = 0; j < kLanes; ++j) {
$(k.body)
  }
$(k.stores)
}
//@ end
