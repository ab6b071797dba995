//@ -- masking.cu: finds the tiles of keys that are not fully masked: attend.cu, attend_backward.cu.

  // Finds the tiles of keys that the block's rows see, by intervals of the mask's conditions.
$(k.masking.decode)
  const int last_m = m0 + kTileM < kM ? m0 + kTileM - 1 : kM - 1;
//@ if not k.masking.several then
  const Span rows = {double(m0), double(last_m)};
//@ end
$(k.masking.outer)
//@ local all, to = "kThreads", "smem.live, smem.plain"
//@ if k.loaders then all, to = "kLoaders", "live, plain" end
  find_tiles<kTilesKeys, $(all)>($(to), [&](int tile) {
    const int last_key = (tile + 1) * kTileKeys < kKeys ? (tile + 1) * kTileKeys - 1 : kKeys - 1;
    const Span keys = {double(tile * kTileKeys), double(last_key)};
$(k.masking.inner)
    return tile_kind($(k.masking.score), $(k.masking.plain)$(k.masking.masked));
  }$(k.loaders and ", thread" or ""));
//@ if not k.loaders then
  nn_sync();
//@ end
