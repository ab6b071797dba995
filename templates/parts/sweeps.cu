//@ -- sweeps.cu: the sweeps over the row `row` that thread `tid` of its threads shares: rowwise.cu;
//@ -- parts/first.cu, whose rows have a warp or less each.
//@ local per_row = k.threads // k.rows
//@ local cut = per_row * k.items * k.lanes ~= k.columns   -- the last accesses lie past the end
$(k.decode)
$(k.declare)
$(k.first)
//@ for _, sweep in ipairs(k.sweeps) do
//@   if sweep.type then
  $(sweep.type) $(sweep.sums);
  clear($(sweep.sums));
//@   end
//@   if sweep.any then
#pragma unroll$(k.unroll)
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
//@     elseif k.inside then
  $(sweep.sums) = warp_join<kRowThreads>($(sweep.sums));
//@     else
  __shared__ $(sweep.type) part_$(sweep.sums)[kRowWarps];
  $(sweep.sums) = row_join<kRowThreads>($(sweep.sums), part_$(sweep.sums));
//@     end
//@   end
$(sweep.values)
//@ end
