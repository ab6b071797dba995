//@ -- attend_loaders.cu: attend.cu of which some warps load, and the others compute. Groups of
//@ -- these wait for tiles, not for each other: one's products run while another computes powers.
//@ local q, keys, v = k.operands[1], k.operands[2], k.operands[3]

  if (threadIdx.x == 0) {
    smem.keys.init(kLoaders, kThreads / kWarp);
    smem.values.init(kLoaders, kThreads / kWarp);
    nn_mbar_init_fence();
  }
  nn_sync();
  RingPlace<2> keys, values;
  int tile = next(begin);
  if (threadIdx.x >= kThreads) {
    nn_registers_give<kLoaderRegisters>();
    const int thread = threadIdx.x - kThreads;
    auto load_keys = [&](int tile) {
      keys.await_left(smem.keys);
      load_rows<MapK, kTileKeys, kLoaders, Unit::kPanels>(
          smem.k[keys.at], $(keys.pointer), tile * kTileKeys, batch, thread);
    };
    auto load_values = [&](int tile) {
      values.await_left(smem.values);
      load_rows<MapV, kTileKeys, kLoaders, Unit::kPanels>(
          smem.v[values.at], $(v.pointer), tile * kTileKeys, batch, thread);
    };
    // Keys are loaded a tile ahead of values. What has landed is announced before they wait for
    // anybody, so that one group may be ahead of another.
    RingPlace<2> landed;
    if (tile < end) load_keys(tile), keys.step();
    nn_cp_async_commit();
    for (bool first = true; tile < end; first = false) {
      const int after = next(tile + 1);
      nn_cp_async_wait<0>();
      Unit::publish();
      if (!first) values.fill(smem.values);
      landed.fill(smem.keys);
      if (after < end) load_keys(after), keys.step();
      load_values(tile);
      nn_cp_async_commit();
      tile = after;
    }
    nn_cp_async_wait<0>();
    Unit::publish();
    values.fill(smem.values);
    return;
  }
  nn_registers_take<kRegisters>();
//@ if q.computed then
  compute_rows<T, kDepth, kM, kTileM, kThreads, $(q.sharing), Unit::kPanels>(smem.q, m0, q_row);
//@ else
  load_rows<MapQ, kTileM, kThreads, Unit::kPanels>(smem.q, $(q.pointer), m0, batch);
  nn_cp_async_commit();
  nn_cp_async_wait<0>();
//@ end
  Unit::publish();
  nn_bar_sync(1, kThreads);
  Warp warp(smem.q, row0);
  if (tile < end) {
    // Values of a tile are weighed while the next one's scores become powers.
    Warp::Part part;
    Warp::Weights weights;
    auto multiply = [&] {
      keys.await_filled(smem.keys);
      warp.multiply(part.scores, smem.k[keys.at]);
    };
    auto weigh_tile = [&] {
      values.await_filled(smem.values);
      warp.weigh(weights, smem.v[values.at]);
    };
    auto compute = [&] {
      keys.leave(smem.keys);
      rebase(warp, tile, 0, part);
      warp.move_sums(part, kScale * kLog2e);
      power(warp, tile, 0, part);
      // NOTE: ptxas moves powers behind a wait, but not behind a branch that depends on them.
      if (warp.must_follow(part)) {
        Unit::await<0>(static_cast<Warp::Sums &>(warp));
        warp.move_outs(part);
      } else {
        Unit::await<0>(static_cast<Warp::Sums &>(warp));
      }
      warp.pack(part.scores, weights);
    };
    multiply();
    Unit::await<0>(part.scores);
    compute();
#pragma unroll 1
    while ((tile = next(tile + 1)) < end) {
      multiply();
      weigh_tile();
      Unit::await<1>(part.scores);
      compute();
      values.leave(smem.values);
    }
    weigh_tile();
    Unit::await<0>(static_cast<Warp::Sums &>(warp));
  }
