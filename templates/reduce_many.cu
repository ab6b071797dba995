//@ part("parts/head.cu")
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

constexpr int kThreads = $(k.threads);
constexpr int kWarps = kThreads / kWarp;
constexpr int kDepth = $(k.depth);    // accesses in flight
constexpr int kPart = $(k.part);      // elements per block
constexpr int kBlocks = $(k.blocks);

$(k.states)

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  __shared__ State shared[kWarps];
  __shared__ bool last;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  // Each block reduces a part of one tensor.
  State acc[1];
//@ for i, part in ipairs(k.parts) do
  $(i > 1 and "else " or "")if (blockIdx.x < $(part.last)) {  // $(part.layer)
    constexpr int kLanes = $(part.lanes);
    constexpr $(counter(part.count)) kCount = $(part.count);
    const int begin = $(part.begin > 0 and "(blockIdx.x - " .. part.begin .. ")" or "blockIdx.x") * kPart;
    const $(counter(part.count)) end = kCount - begin < kPart ? kCount : begin + kPart;
    auto take = [&](int e, State (&one)[kLanes]) {
$(part.decode_element)
$(part.element_loads)
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
$(part.element_body)
      }
    };
    accumulate<1, kLanes, kDepth, State>(acc, begin + threadIdx.x * kLanes, end,
                                         kThreads * kLanes, take);
  }
//@ end
  join_rows<kThreads, 1, true>(acc, shared, threadIdx.x, 0);
  // The last block joins the partial results, one warp per tensor.
  State *left = reinterpret_cast<State *>(own_states);
  if (threadIdx.x == 0) left[blockIdx.x] = acc[0];
  if (!last_to_arrive(own_arrived, kBlocks, &last)) return;
//@ for i, part in ipairs(k.parts) do
  if (warp == $((i - 1) % (k.threads // 32))) {  // $(part.layer)
    acc[0] = join_left(left, $(part.begin), $(part.last), lane);
    if (lane == 0) {
$(part.loads)
      for (int j = 0; j < 1; ++j) {
$(part.body)
      }
$(part.stores)
    }
  }
//@ end
}
