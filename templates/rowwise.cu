//@ local per_row = k.threads // k.rows
//@ part("parts/head.cu")
#include "lib/arrive.cuh"
#include "lib/reduce.cuh"

//@ local lies = k.across and "; strided rows: neighbouring threads have neighbouring rows" or ""
constexpr int kThreads = $(per_row);  // per row$(lies)
constexpr int kRowThreads = kThreads;
constexpr int kRowsPerBlock = $(k.rows);
//@ if not k.across then
constexpr int kRowWarps = $(math.max(per_row // 32, 1));
//@ end
constexpr int kLanes = $(k.lanes);    // neighbouring elements per access
//@ local stays = "the row stays in registers" .. (k.has_shared and " and shared memory" or "")
//@ if k.reads_again then stays = "sweeps read again what is not kept" end
constexpr int kItems = $(k.items);    // accesses per thread: $(stays)
constexpr int kColumns = $(k.columns);
constexpr int kRows = $(k.row_count);

$(k.states)
//@ if k.has_shared then
struct Smem {  // values for later sweeps, private to each thread
$(k.shared)
};
//@ end

//@ -- Random numbers cost registers: without a bound ptxas chooses too few and spills.
//@ local least = k.threads > 256 and 1 or k.draws and 1024 // k.threads
//@ local bounds = k.threads .. (least and ", " .. least or "")
extern "C" __global__ void __launch_bounds__($(bounds)) $(k.name)(
$(k.params)) {
//@ local along = "blockIdx.x * kRowsPerBlock + threadIdx.x " ..
//@   (k.across and "% kRowsPerBlock" or "/ kRowThreads")
//@ if k.across then
  const int tid = threadIdx.x / kRowsPerBlock;
//@ else
  const int tid = threadIdx.x % kRowThreads;
//@ end
//@ if k.ragged then  -- threads of rows past the end take part in reductions
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
//@ part("parts/sweeps.cu")
}
