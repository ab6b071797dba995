//@ -- heads.cu: operand rows that are computed (norm, rotary) instead of copied: by attend.cu as
//@ -- it loads them, by heads.cu as a kernel.
//@ for _, o in ipairs(k.operands) do
//@ if o.computed then
  // Computes a row of $(o.name): its reductions, by the lanes that share it, then its elements,
  // passed as to(first element, Vec).
  auto $(o.name)_row = [&](int $(o.number), int lane, const $(o.to) &to) {
$(o.decode)
//@ for _, s in ipairs(o.sweeps) do
    $(s.type) $(s.state);
    clear($(s.state));
#pragma unroll 4
    for (int e = lane * $(s.lanes); e < $(s.count); e += $(o.sharing * s.lanes)) {
$(s.loads)
#pragma unroll
      for (int j = 0; j < $(s.lanes); ++j) {
        $(s.type) one;
$(s.body)
        $(s.state) = combine($(s.state), one);
      }
    }
    $(s.state) = warp_join<$(o.sharing)>($(s.state));
    const $(s.kind) $(s.name) = $(s.result);
//@ end
//@ for _, s in ipairs(o.parts) do
#pragma unroll 2
//@ local first = (s.first > 0 and s.first .. " + " or "") .. "lane * " .. s.lanes
    for (int e = $(first); e < $(s.last); e += $(o.sharing * s.lanes)) {
$(s.loads)
      Vec<float, $(s.lanes)> some;
#pragma unroll
      for (int j = 0; j < $(s.lanes); ++j) {
$(s.body)
        some[j] = $(s.value);
      }
      to(e, some);
    }
//@ end
  };
//@ end
//@ end
