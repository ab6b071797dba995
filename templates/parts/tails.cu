//@ -- tails.cu: `epilogue`, which takes neighbouring results of a product (of a pair: of both) to
//@ -- the outputs; of each tail it is a function of its own. A tail with a twin reads the tile
//@ -- where that is, `apart` columns on.
//@ local outputs = "const Vec<float, kLanes> &acc"
//@ if k.pair then outputs = outputs .. ", const Vec<float, kLanes> &acc_2" end
//@ local given = "m, n, acc" .. (k.pair and ", acc_2" or "")
//@ for i, t in ipairs(k.tails) do
  auto epilogue$(#k.tails > 1 and i or "") = [&](int m, int n, $(outputs)) {
$(t.decode)
$(t.moves)
//@ if t.apart then
    const auto acc_2 = read_staged<kLanes>(smem.out, kTileN, m - m0, n - n0 + $(t.apart));
//@ end
$(t.loads)
//@ if k.row_states then
    $(k.row_states.type) states;
    clear(states);
//@ end
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
//@ if k.row_states then
      $(k.row_states.type) one;
//@ end
$(t.body)
//@ if k.row_states then
      states = combine(states, one);
//@ end
    }
$(t.stores)
//@ if k.row_states then
    stage_state(smem.out, kTileN, m - m0, n - n0, states);
//@ end
  };
//@ end
//@ if #k.tails > 1 then
  auto epilogue = [&](int m, int n, $(outputs)) {
//@ for i in ipairs(k.tails) do
    epilogue$(i)($(given));
//@ end
  };
//@ end
