//@ -- product_columns.cu: sums of the columns of a product's outputs, and what maps make of them.
//@ if not k.own then
  nn_sync();  // the staged outputs have been read
  add_rows(tid % kApart * kLanes);
//@ end
  nn_sync();  // the sums of all warps are there
  const int sum_n = $(k.walks and "" or "n0 + ")tid;
  const bool owns = tid < kTileN && sum_n < kN;
  float sums[kColumnSums];
  for (int i = 0; i < kColumnSums; ++i) sums[i] = owns ? smem.columns.of_block(i, tid) : 0.f;
//@ if k.walks then
  float *kept = own_columns + sum_n;
  int *met = own_met;
//@ else
  float *kept = own_columns + batch * (Columns::kKept * kN) + sum_n;
  int *met = own_met + (batch * kTilesN + at.n) * Columns::kCounts;
//@ end
//@ local block = k.walks and "blockIdx.x" or "at.m"
  if (!sum_blocks<kMeeting, kGroup, kN>(sums, owns, kept, $(block), met, &smem.last)) return;
//@ for i, c in ipairs(k.columns) do
  if (owns) {
$(c.decode)
    $(c.pointer)[$(c.place)] = nn_cast<$(c.type)>(sums[$(i - 1)]);
  }
//@ end
//@ if k.foot then

  // What maps make of the sums: each thread of its column's.
  if (!owns) return;
$(k.foot.decode)
$(k.foot.loads)
$(k.foot.body)
$(k.foot.stores)
//@ end
