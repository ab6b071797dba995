//@ part("parts/head.cu")
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

constexpr int kThreads = $(k.threads);
constexpr int kColumns = $(k.columns);     // threads along outputs; kRows threads share an output
constexpr int kRows = kThreads / kColumns;
constexpr int kLanes = $(k.vector);        // neighbouring elements per access
constexpr bool kTogether = $(k.together);  // these are reduced to one output, else to one each
constexpr int kOutputs = kTogether ? 1 : kLanes;
constexpr int kStep = kTogether ? kLanes : 1;
constexpr int kDepth = $(k.depth);         // accesses in flight
constexpr int kCount = $(k.count);         // outputs
constexpr $(counter(k.reduced)) kReduced = $(k.reduced);     // elements combined into each
constexpr int kParts = $(k.parts);         // blocks that share an output
constexpr int kPart = $(k.part);           // elements per part

$(k.states)

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  __shared__ State shared[kThreads * kOutputs];
  const int row = kTogether ? threadIdx.x % kRows : threadIdx.x / kColumns;
  const int column = kTogether ? threadIdx.x / kRows : threadIdx.x % kColumns;
  const int output = (blockIdx.x * kColumns + column) * kOutputs;
  const bool inside = output < kCount;
  const int i = inside ? output : kCount - kOutputs;  // threads past the end repeat the last
$(k.decode)
  auto take = [&](int e, $(k.run) (&one)[kLanes]) {
$(k.decode_element)
$(k.element_loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(k.element_body)
    }
$(k.element_stores)
  };
  State acc[kOutputs];
  const int begin = kParts == 1 ? 0 : blockIdx.y * kPart;
  const $(counter(k.reduced)) end = kReduced - begin < kPart ? kReduced : begin + kPart;
  accumulate<kOutputs, kLanes, kDepth, $(k.run)>(acc, begin + row * kStep, end, kRows * kStep,
                                                  take);
  join_rows<kRows, kColumns, kTogether>(acc, shared, row, column);
//@ if k.parts > 1 then
  __shared__ bool last;
  if (!join_parts<kParts, kRows, kColumns, kTogether>(acc, shared,
                                                      reinterpret_cast<State *>(own_states),
                                                      kCount, blockIdx.y, i, inside, row, column,
                                                      own_arrived + blockIdx.x, &last))
    return;
//@ end
  if (row != 0 || !inside) return;
$(k.loads)
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) {
$(k.body)
  }
$(k.stores)
}
