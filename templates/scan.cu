//@ part("parts/head.cu")
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"
#include "lib/scan.cuh"

constexpr int kThreads = $(k.threads);
constexpr int kColumns = $(k.columns);     // rows per block; kThreads / kColumns threads share one
constexpr int kLanes = $(k.vector);        // neighbouring elements per access
constexpr bool kTogether = $(k.together);  // rows are innermost in memory: a warp reads along them
constexpr int kItems = $(k.items);         // accesses in flight per thread
constexpr int kCount = $(k.count);         // rows
constexpr int kLength = $(k.length);       // elements per row
constexpr int kParts = $(k.parts);         // blocks that share a row
constexpr int kPart = $(k.part);           // elements per part

$(k.states)

extern "C" __global__ void __launch_bounds__(kThreads) $(k.name)(
$(k.params)) {
  using Tile = ScanTile<kThreads, kColumns, kItems, kLanes, kTogether>;
  __shared__ State shared[kThreads];
//@ if k.parts > 1 then
  __shared__ int turn;
  const int block = take_turn(own_arrived, &turn);
//@ else
  const int block = blockIdx.x;
//@ end
  const int part = block % kParts;
  const int row = block / kParts * kColumns + Tile::column();
  const bool inside = row < kCount;
  const int i = inside ? row : kCount - 1;  // threads past the end repeat the last row
$(k.decode)
  auto take = [&](int e, State (&one)[kLanes]) {
$(k.decode_taken)
$(k.element_loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(k.element_body)
    }
  };
  auto put = [&](int e, const State (&acc)[kLanes]) {
    if (!inside) return;
$(k.decode_put)
$(k.loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(k.body)
    }
$(k.stores)
  };
  const int begin = part * kPart;
  const int end = kLength - begin < kPart ? kLength : begin + kPart;
  State carry;
  clear(carry);
//@ if k.parts > 1 then
  carry = before_part<Tile>(shared, reinterpret_cast<State *>(own_states), own_arrived, kCount, i,
                            inside, part, begin, end, block - part, take);
//@ end
  scan_range<Tile>(carry, shared, begin, end, take, put);
//@ if k.parts > 1 then
  clear_turns(own_arrived, gridDim.x, &turn);
//@ end
}
