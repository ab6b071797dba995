//@ part("parts/head.cu")
//@ if k.states then
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"
//@ end

// QK norm and rotary embedding of rows of heads; kSharing lanes share a row.
constexpr int kThreads = $(k.threads);
constexpr int kSharing = $(k.operands[1].sharing);  // lanes
constexpr int kDepth = $(k.depth);                  // elements of a row
constexpr int kRows = $(k.row_count);
//@ if k.states then

$(k.states)
//@ end

struct MemoryRow {
  $(k.stored) *row;
  bool inside;
  template <int kSome>
  __device__ __forceinline__ void operator()(int e, Vec<float, kSome> some) const {
    if (inside) nn_store<kSome>(row + e, nn_cast<$(k.stored)>(some));
  }
};

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
//@ part("parts/heads.cu")
  const int row = (blockIdx.x * kThreads + threadIdx.x) / kSharing;
  const bool inside = row < kRows;  // lanes past the end take part in warp shuffles
  const int r = inside ? row : kRows - 1;
  head_row(r, threadIdx.x % kSharing, MemoryRow{$(k.out) + r * kDepth, inside});
}
