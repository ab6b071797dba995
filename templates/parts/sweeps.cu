//@ -- sweeps.cu: the sweeps over row `row` by the threads `tid` that share it: in rowwise.cu, and
//@ -- in parts/first.cu, where a row has at most a warp.
//@ local per_row = k.threads // k.rows
//@ local cut = per_row * k.items * k.lanes ~= k.columns   -- the last accesses are past the end
//@ local of_run = math.max(64 // k.lanes, 1)  -- accesses per run: about 64 elements
//@ local runs = k.items > of_run
$(k.decode)
$(k.declare)
$(k.first)
//@ for _, sweep in ipairs(k.sweeps) do
//@   if sweep.type then
  $(sweep.run or sweep.type) $(sweep.so_far);
  clear($(sweep.so_far));
//@     if sweep.run and runs then
  $(sweep.type) $(sweep.sums);
  clear($(sweep.sums));
//@     end
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
//@     if sweep.type and not sweep.run then
      $(sweep.type) one;
//@     end
$(sweep.body)
//@     if sweep.type and not sweep.run then
      $(sweep.sums) = combine($(sweep.sums), one);
//@     end
    }
$(sweep.stores)
//@     if sweep.run and runs then
    if (item % $(of_run) == $(of_run - 1)) {
      $(sweep.sums) = combine($(sweep.sums), whole($(sweep.so_far)));
      clear($(sweep.so_far));
    }
//@     end
  }
//@   end
//@   if sweep.type then
//@     if sweep.run and runs then
  $(sweep.sums) = combine($(sweep.sums), whole($(sweep.so_far)));
//@     elseif sweep.run then
  $(sweep.type) $(sweep.sums) = whole($(sweep.so_far));
//@     end
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
