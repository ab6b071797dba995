//@ -- product_columns.cu: column reductions of a contraction's outputs, the maps applied to the
//@ -- results, and their stores.
//@ local c = k.columns
//@ if not k.own then
  nn_sync();  // all threads have read the staged outputs
  add_rows(tid % kApart * kLanes);
//@ end
  nn_sync();  // wait for the states of all warps
  const int column = $(k.walks and "" or "n0 + ")tid;
  const bool owns = tid < kTileN && column < kN;
  $(c.type) whole;
  clear(whole);
  if (owns) whole = smem.columns.of_block(tid);
//@ if k.walks then
  float *kept = own_columns + column;
  int *met = own_met;
//@ else
  float *kept = own_columns + batch * (Columns::kKept * kN) + column;
  int *met = own_met + (batch * kTilesN + place.at.n) * Columns::kCounts;
//@ end
//@ local block = k.walks and "blockIdx.x" or "place.at.m"
  if (!join_blocks<kMeeting, kGroup, kN>(whole, owns, kept, $(block), met, &smem.last)) return;
//@ if c.together > 1 then
  float *of_columns = own_whole + batch * (Columns::kWords * kN);
  each_group<kN, $(c.together), kTilesN, kThreads>(whole, owns, column, of_columns,
                                                   own_whole_met + batch, &smem.last,
                                                   [&](int group, const $(c.type) &whole) {
    const int sum_n = group * $(c.together);
$(c.decode)
$(c.loads)
$(c.body)
$(c.stores)
  });
//@ else
  if (!owns) return;
  const int sum_n = column;
$(c.decode)
$(c.loads)
$(c.body)
$(c.stores)
//@ end
