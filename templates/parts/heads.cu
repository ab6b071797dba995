//@ -- heads.cu: rows of operands that are computed where they are loaded: attend.cu.
//@ for i, o in ipairs(k.operands) do
//@ if o.computed then
  // Rows of $(o.name) from row0 on: what is reduced along one, by the lanes that share it, then its
  // elements.
  auto $(o.name)_rows = [&](char *tile, int row0) {
    using Rows = HeadRows<T, $(o.depth)>;
    constexpr int kPack = kChunkBytes / int(sizeof(T)), kAlong = Rows::kSharing;
    const int lane = threadIdx.x % kAlong;
#pragma unroll 1
    for (int r = threadIdx.x / kAlong; r < $(i == 1 and "kTileM" or "kTileKeys"); r += kThreads / kAlong) {
      const bool inside = row0 + r < $(o.rows);
      const int $(o.number) = inside ? row0 + r : 0;
$(o.decode)
//@ for _, s in ipairs(o.sweeps) do
      $(s.type) $(s.state);
      clear($(s.state));
#pragma unroll 4
      for (int e = lane * $(s.lanes); e < $(s.count); e += kAlong * $(s.lanes)) {
$(s.loads)
#pragma unroll
        for (int j = 0; j < $(s.lanes); ++j) {
          $(s.type) one;
$(s.body)
          $(s.state) = combine($(s.state), one);
        }
      }
      $(s.state) = warp_join<kAlong>($(s.state));
      const $(s.kind) $(s.name) = $(s.result);
//@ end
//@ for _, s in ipairs(o.parts) do
#pragma unroll 2
      for (int e = $(s.first > 0 and s.first .. " + " or "")lane * $(s.lanes); e < $(s.last); e += kAlong * $(s.lanes)) {
$(s.loads)
        Vec<float, $(s.lanes)> some;
#pragma unroll
        for (int j = 0; j < $(s.lanes); ++j) {
$(s.body)
          some[j] = inside ? $(s.value) : 0.f;
        }
        nn_store<$(s.lanes)>((T *)(tile + Rows::at(r, e / kPack)) + e % kPack, nn_cast<T>(some));
      }
//@ end
      for (int e = $(o.depth) + lane; e < Rows::kRowChunks * kPack; e += kAlong) {
        ((T *)(tile + Rows::at(r, e / kPack)))[e % kPack] = nn_cast<T>(0.f);
      }
    }
  };
//@ end
//@ end
