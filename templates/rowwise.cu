//@ local per_row = k.threads // k.rows
//@ local cut = per_row * k.items * k.lanes ~= k.columns   -- the last accesses lie past the end
//@ part("parts/head.cu")
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

//@ local lies = k.across and ", which lies across memory: neighbours have neighbouring rows" or ""
constexpr int kThreads = $(per_row);  // per row$(lies)
constexpr int kRowThreads = kThreads;
constexpr int kRowsPerBlock = $(k.rows);
//@ if not k.across then
constexpr int kRowWarps = $(math.max(per_row // 32, 1));
//@ end
constexpr int kLanes = $(k.lanes);    // neighbouring elements per access
//@ local stays = "the row stays in registers" .. (k.has_shared and " and shared memory" or "")
//@ if k.reads_again then stays = "sweeps read again what has not been kept" end
constexpr int kItems = $(k.items);    // accesses per thread: $(stays)
constexpr int kColumns = $(k.columns);
constexpr int kRows = $(k.row_count);

$(k.states)
//@ if k.has_shared then
struct Smem {  // what later sweeps need; each thread's own
$(k.shared)
};
//@ end

//@ local bounds = k.threads .. (k.threads > 256 and ", 1" or "")
extern "C" __global__ void __launch_bounds__($(bounds)) $(k.name)(
$(k.params)) {
//@ local along = "blockIdx.x * kRowsPerBlock + threadIdx.x " ..
//@   (k.across and "% kRowsPerBlock" or "/ kRowThreads")
//@ if k.across then
  const int tid = threadIdx.x / kRowsPerBlock;
//@ else
  const int tid = threadIdx.x % kRowThreads;
//@ end
//@ if k.ragged then  -- threads of rows past the last one take part in joins
  const bool inside = $(along) < kRows;
  const int row = inside ? $(along) : kRows - 1;
//@ else
  const int row = $(along);
//@ end
//@ if not k.across and not k.ragged then
  if (row >= kRows) return;
//@ end
//@ if k.has_shared then
  NN_SMEM(Smem, smem);
//@ end
$(k.decode)
$(k.declare)
$(k.first)
//@ for _, sweep in ipairs(k.sweeps) do
//@   if sweep.type then
  $(sweep.type) $(sweep.sums);
  clear($(sweep.sums));
//@   end
//@   if sweep.any then
#pragma unroll$(k.rolled and (k.items < 16 and " 1" or " 4") or "")
  for (int item = 0; item < kItems; ++item) {
    const int i = (item * kThreads + tid) * kLanes;
//@     if k.ragged or cut then
//@ local past = cut and "i >= kColumns" or nil
//@ local none = k.ragged and (past and "!inside || " .. past or "!inside") or past
    if ($(none)) continue;
//@     end
$(sweep.decode)
$(sweep.loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
//@     if sweep.type then
      $(sweep.type) one;
//@     end
$(sweep.body)
//@     if sweep.type then
      $(sweep.sums) = combine($(sweep.sums), one);
//@     end
    }
$(sweep.stores)
  }
//@   end
//@   if sweep.type then
//@     if k.across then
  __shared__ $(sweep.type) part_$(sweep.sums)[kRowThreads * kRowsPerBlock];
  $(sweep.sums) = column_join<kRowThreads, kRowsPerBlock>($(sweep.sums), part_$(sweep.sums));
//@     else
  __shared__ $(sweep.type) part_$(sweep.sums)[kRowWarps];
  $(sweep.sums) = row_join<kRowThreads>($(sweep.sums), part_$(sweep.sums));
//@     end
//@   end
$(sweep.values)
//@ end
}
