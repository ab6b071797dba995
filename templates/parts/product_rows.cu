//@ -- product_rows.cu: statistics of a contraction's output rows: `whole_row` applies maps to a
//@ -- row's final state and stores; `leave` joins the lanes of a row if outputs are in registers.

  // Applies the maps to the final state of a row and stores the results; one thread per row.
  auto whole_row = [&](int m, const $(k.row_states.type) &whole) {
$(k.row_states.decode)
$(k.row_states.loads)
$(k.row_states.body)
$(k.row_states.stores)
  };
//@ if k.own then
//@ local kept = k.row_states.kept:find("own_rows") and "own_rows" or "nullptr"
  auto leave = [&](int row) {  // four lanes share a row; the first stores its state
    const $(k.row_states.type) all = warp_join<4>(row_state);
    clear(row_state);
    if (tid % 4 == 0 && (kM % kTileM == 0 || m0 + row < kM))
      leave_row<kM, kTilesN, kTileN>(m0 + row, n0, $(kept), all, whole_row);
  };
//@ end
