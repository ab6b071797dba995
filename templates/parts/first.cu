//@ -- first.cu: `make_rows`: one run of rows of a contraction's fused prologue (a norm), computed
//@ -- as in rowwise.cu; a run has as many rows as the block has threads for.
//@ local per_row = k.threads // k.rows
  auto make_rows = [&](int run) {
    constexpr int kRowThreads = $(per_row), kThreads = kRowThreads;  // per row
    constexpr int kLanes = $(k.lanes);  // neighbouring elements per access
    constexpr int kItems = $(k.items);  // accesses per thread
//@ if per_row * k.items * k.lanes ~= k.columns then
    constexpr int kColumns = $(k.columns);
//@ end
    const int tid = threadIdx.x % kRowThreads;
//@ local along = "run * " .. k.rows .. " + int(threadIdx.x) / kRowThreads"
//@ if k.ragged then  -- threads of rows past the end take part in warp reductions
    const bool inside = $(along) < $(k.row_count);
    const int row = inside ? $(along) : $(k.row_count - 1);
//@ else
    const int row = $(along);
//@ end
//@ if not k.ragged and k.row_count % (k.rows * k.runs) > 0 then
    if (row >= $(k.row_count)) return;
//@ end
//@ part("parts/sweeps.cu")
  };
