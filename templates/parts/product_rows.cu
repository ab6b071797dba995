//@ -- product_rows.cu: `whole_row`, what maps make of the statistics of a row of a product's
//@ -- outputs, and, where lanes keep their outputs, `leave`, which joins those of a row.

  // What the rows are as a whole, and what maps make of it: each row in a thread.
  auto whole_row = [&](int m, const $(k.row_states.type) &whole) {
$(k.row_states.decode)
$(k.row_states.loads)
$(k.row_states.body)
$(k.row_states.stores)
  };
//@ if k.own then
//@ local kept = k.row_states.kept:find("own_rows") and "own_rows" or "nullptr"
  auto leave = [&](int row) {  // of four lanes that have a row, one leaves its state
    const $(k.row_states.type) all = warp_join<4>(row_state);
    clear(row_state);
    if (tid % 4 == 0 && (kM % kTileM == 0 || m0 + row < kM))
      leave_row<kM, kTilesN, kTileN>(m0 + row, n0, $(kept), all, whole_row);
  };
//@ end
