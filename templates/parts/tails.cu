//@ -- tails.cu: `epilogue`, which takes neighbouring results of a product (of a pair: of both) to
//@ -- the outputs; of each tail it is a function of its own.
//@ local outputs = "const Vec<float, kLanes> &acc"
//@ if k.pair then outputs = outputs .. ", const Vec<float, kLanes> &acc_2" end
//@ local given = "m, n, acc" .. (k.pair and ", acc_2" or "")
//@ for i, t in ipairs(k.tails) do
  auto epilogue$(#k.tails > 1 and i or "") = [&](int m, int n, $(outputs)) {
$(t.decode)
$(t.moves)
$(t.loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(t.body)
    }
$(t.stores)
  };
//@ end
//@ if #k.tails > 1 then
  auto epilogue = [&](int m, int n, $(outputs)) {
//@ for i in ipairs(k.tails) do
    epilogue$(i)($(given));
//@ end
  };
//@ end
