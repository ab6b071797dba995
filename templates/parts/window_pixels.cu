//@ -- window_pixels.cu: window.cu with several neighbouring output pixels per thread, which share
//@ -- loads of the image's row and of the weights.
//@ local H, W = k.height, k.width
//@ local reach = (W.kernel - 1) * W.dilation -- from the first tap of a row to the last
constexpr int kPixels = $(k.pixels);  // neighbouring outputs of a row
constexpr int kTiles = (kWidth + kPixels - 1) / kPixels;  // groups of kPixels along a row
constexpr int kColumns = $(k.columns);  // image columns that kPixels outputs read

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  const int vector = (blockIdx.x * kThreads + threadIdx.x) * kLanes;
  if (vector >= kCount) return;
$(k.decode)
  const int first_w = tile * kPixels;
//@ if k.back then
  const int first_x = first_w + $(W.pad - reach);
//@ else
  const int first_x = first_w * $(W.stride) - $(W.pad);
//@ end
  float acc[kPixels][kLanes];
#pragma unroll
  for (int p = 0; p < kPixels; ++p)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) acc[p][j] = $(k.init);
#pragma unroll $(k.rows_at_once)
  for (int r = 0; r < $(H.kernel); ++r) {
//@ if k.back then
    const int y = $(H.name) + $(H.pad) - r * $(H.dilation);
//@ else
    const int y = $(H.name) * $(H.stride) - $(H.pad) + r * $(H.dilation);
//@ end
    if (unsigned(y) >= $(H.size)u) continue;  // padding does not count
//@ if k.factor then
    float weights[$(W.kernel)][kLanes];
#pragma unroll
    for (int s = 0; s < $(W.kernel); ++s) {
$(k.factor_loads)
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
$(k.factor_body)
        weights[s][j] = $(k.factor);
      }
    }
//@ end
#pragma unroll
    for (int u = 0; u < kColumns; ++u) {
      const int x = first_x + u;
      const bool inside = unsigned(x) < $(W.size)u;
$(k.tap_loads)
      float seen[kLanes];
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
$(k.tap_body)
        seen[j] = $(k.value);
      }
#pragma unroll
      for (int p = 0; p < kPixels; ++p) {
//@ local distance = k.back and ("p + %d - u"):format(reach) or
//@                  W.stride == 1 and "u - p" or ("u - p * %d"):format(W.stride)
//@ if W.dilation == 1 then
        const int s = $(distance);  // the tap of this pixel
        if (s < 0 || s >= $(W.kernel)) continue;
//@ else
        const int away = $(distance), s = away / $(W.dilation);  // the tap of this pixel
        if (away < 0 || away % $(W.dilation) || s >= $(W.kernel)) continue;
//@ end
#pragma unroll
        for (int j = 0; j < kLanes; ++j) acc[p][j] = $(k.combine);
      }
    }
  }
#pragma unroll
  for (int p = 0; p < kPixels; ++p) {
    const int w = first_w + p;
//@ if k.ragged then
    if (w >= kWidth) break;
//@ end
    const int i = (vector / (kChannels * kTiles) * kWidth + w) * kChannels + c;
$(k.loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(k.body)
    }
$(k.stores)
  }
}
