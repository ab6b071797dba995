$(k.header)
#include "lib/prim.cuh"
//@ if k.values then
#include "lib/values.cuh"
//@ end
//@ if k.draws then
#include "lib/random.cuh"
//@ end
#include "lib/row.cuh"

constexpr int kThreads = $(k.threads // k.rows);  // per row
constexpr int kRowThreads = kThreads;
constexpr int kRowsPerBlock = $(k.rows);
constexpr int kLanes = $(k.lanes);    // neighbouring elements per access
constexpr int kItems = $(k.items);    // accesses per thread: the row stays in registers
constexpr int kColumns = $(k.columns);
constexpr int kRows = $(k.row_count);

extern "C" __global__ void __launch_bounds__($(k.threads)) $(k.name)(
$(k.params)) {
  __shared__ float part[kRowsPerBlock][kRowThreads / kWarp];
  const int tid = threadIdx.x % kRowThreads;
  const int row = blockIdx.x * kRowsPerBlock + threadIdx.x / kRowThreads;
  if (row >= kRows) return;
$(k.decode)
$(k.declare)
$(k.sweeps)
}
