//@ -- product_sources.cu: `a` and `b`, which load a tile's operands, one block of k at a time.
//@ local phased = #k.phases > 1
//@ if k.taps > 0 then
//@ local map, run = k.a.map .. (phased and "{phase}" or "{}"), k.a.tap_run
  smem.rows.write($(map), place.m0, place.batch);
  write_taps<kThreads>($(map), smem.taps, place.blocks * (kTileK / $(run)));
  nn_sync();  // wait for the tables of rows and taps
//@ end
//@ for _, o in ipairs{k.a, k.b} do
//@ local tile, origin = o.name == "a" and "kTileM" or "kTileN", o.name == "a" and "m0" or "n0"
//@ if o.copied then
//@ local source = o.across and "AcrossSource" or "AlongSource"
//@ local turned = k.own and o.name == "b" and not o.across and ", 1, true" or ""
//@ local map = phased and o.map .. "{phase}, " or ""
//@ local taps = o.tap_run > 0 and ", smem.taps, &smem.rows" or ""
//@ o.source = "Source" .. o.name:upper()
//@ o.given = ("%s%s, place.%s, place.batch%s"):format(map, o.pointer, origin, taps)
  using $(o.source) = $(source)<$(o.map), T, $(tile), kThreads$(turned)>;
  $(o.source) $(o.name)($(o.given));
//@ else
//@ local turned = k.own and o.name == "b" and ", true" or ""
  auto $(o.name)_value = [&](int $(o.index), int k) {
//@ if o.halves then
    const int column = pair_column<kTileN, kN>(n);
//@ end
$(o.decode)
    const bool inside = $(o.inside);
$(o.body)
    return inside ? $(o.value) : 0.f;
  };
  auto $(o.name) = computed_source<T, $(tile), kThreads$(turned)>($(o.name)_value, place.$(origin));
//@ end
//@ end
