//@ -- attend_ring.cu: attend.cu without producer warps: each warp loads ahead with cp.async.
//@ local q, keys, v = k.operands[1], k.operands[2], k.operands[3]

  // Double buffering: one tile of keys and values is in flight while one is used.
  auto load = [&](int tile, int stage) {
//@ if keys.computed then
    compute_rows<T, $(keys.depth), kKeys, kTileKeys, kThreads, $(keys.sharing), Unit::kPanels>(
        smem.k[stage], tile * kTileKeys, k_row);
//@ else
    load_rows<MapK, kTileKeys, kThreads, Unit::kPanels$(k.few)>(
        smem.k[stage], $(keys.pointer), tile * kTileKeys, batch);
//@ end
//@ if v.computed then
    compute_rows<T, $(v.depth), kKeys, kTileKeys, kThreads, $(v.sharing), Unit::kPanels>(
        smem.v[stage], tile * kTileKeys, v_row);
//@ else
    load_rows<MapV, kTileKeys, kThreads, Unit::kPanels$(k.few)>(
        smem.v[stage], $(v.pointer), tile * kTileKeys, batch);
//@ end
    nn_cp_async_commit();
  };
//@ if not q.computed then
  load_rows<MapQ, kTileM, kThreads, Unit::kPanels>(smem.q, $(q.pointer), m0, batch);
  nn_cp_async_commit();
//@ end
  int tile = next(begin);
  if (tile < end) load(tile, 0);
//@ if q.computed then
  compute_rows<T, kDepth, kM, kTileM, kThreads, $(q.sharing), Unit::kPanels>(
      smem.q, m0, q_row);  // overlaps with these loads
//@ end
  nn_cp_async_wait<0>();
  Unit::publish();
  nn_sync();
  Warp warp(smem.q, row0);
#pragma unroll 1
  for (int stage = 0; tile < end; stage ^= 1) {
    nn_cp_async_wait<0>();
    Unit::publish();
    nn_sync();  // the tile is visible to all warps, and the buffer of the last one is free
    const int after = next(tile + 1);
    if (after < end) load(after, stage ^ 1);
    // Q x K of a part overlaps with the exponentials of the part before it.
    Warp::Part parts[kParts];
    auto multiply = [&](int part) {
      warp.multiply(parts[part].scores, smem.k[stage] + part * (kPartKeys * Warp::Depth::kPitch));
    };
    auto settle = [&](int part) {
      rebase(warp, tile, part, parts[part]);
      Unit::await<0>(static_cast<Warp::Sums &>(warp));
      warp.follow(parts[part], kScale * kLog2e);
    };
    multiply(0);
    Unit::await<0>(parts[0].scores);
    settle(0);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part + 1 < kParts) multiply(part + 1);
      power(warp, tile, part, parts[part]);
      warp.weigh(parts[part].scores, smem.v[stage] + part * (kPartKeys * Warp::Width::kPitch));
      if (part + 1 < kParts) {
        Unit::await<1>(parts[part + 1].scores);
        settle(part + 1);
      }
    }
    Unit::await<0>(static_cast<Warp::Sums &>(warp));
    tile = after;
  }
