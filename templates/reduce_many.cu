//@ part("parts/head.cu")
//@ alike(k)
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"
//@ if k.begins then
#include "lib/tensors.cuh"
//@ end

constexpr int kThreads = $(k.threads);
constexpr int kWarps = kThreads / kWarp;
constexpr int kDepth = $(k.depth);    // accesses in flight
constexpr int kPart = $(k.part);      // elements per block
constexpr int kBlocks = $(k.blocks);

$(k.states)
//@ if k.begins then part("parts/begins.cu") end

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  __shared__ State shared[kWarps];
  __shared__ bool last;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
//@ for _, one in ipairs(k.classes) do
//@ if one.fields then part("parts/tensors.cu", one) end
//@ end
  // Each block reduces a part of one tensor.
  State acc[1];
//@ for i, one in ipairs(k.classes) do
  $(i > 1 and "else " or "")if (blockIdx.x < $(one.last)) {  // $(one.layer)$(one.more)
//@ part("parts/part.cu", one)
    const int begin = $(one.block) * kPart;
    const $(counter(one.count)) rest = $(one.elements) - begin;
    const $(counter(one.count)) end = rest < kPart ? $(one.elements) : begin + kPart;
    auto take = [&](int e, State (&one)[kLanes]) {
$(one.decode_element)
$(one.element_loads)
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
$(one.element_body)
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
//@ for _, one in ipairs(k.classes) do
//@ if one.fields then
  for (int part = $(one.first) + warp; part <= $(one.final); part += kWarps) {
    acc[0] = join_left(left, kBegins[part], kBegins[part + 1], lane);
    if (lane == 0) {
      const auto of = $(one.tensors)(part);
//@ else
  if (warp == $(one.first % (k.threads // 32))) {  // $(one.layer)
    acc[0] = join_left(left, $(one.begin), $(one.last), lane);
    if (lane == 0) {
//@ end
$(one.loads)
      for (int j = 0; j < 1; ++j) {
$(one.body)
      }
$(one.stores)
    }
  }
//@ end
}
