//@ -- tails.cu: `epilogue`, which computes outputs from neighbouring accumulators (of both halves
//@ -- of a GLU) and stores them; one function per epilogue output. A rotary output also reads
//@ -- the other element of its pair, `apart` columns on.
//@ local outputs = "const Vec<float, kLanes> &acc"
//@ if k.pair then outputs = outputs .. ", const Vec<float, kLanes> &acc_2" end
//@ local given = "acc" .. (k.pair and ", acc_2" or "")
//@ local kept = k.own and "=" or "=, &smem"
//@ if k.own and k.row_states then kept = kept .. ", &row_state" end
//@ if k.columns then kept = kept .. ", &column_runs" end
//@ for i, t in ipairs(k.tails) do
//@ local drops = (t.moves or ""):find("return")  -- skips some outputs, without their loads
  // Starts the loads for outputs at (m, n); returns the function that computes and stores them.
  auto epilogue$(#k.tails > 1 and i or "") = [&](int m, int n) {
$(t.decode)
//@ if not drops then
$(t.moves)
$(t.loads)
//@ end
    return [$(kept)]($(outputs)) mutable {
//@ if drops then
$(t.moves)
$(t.loads)
//@ end
//@ if t.apart and k.transposed then
      const auto acc_2 =
          nn_load<1>(smem.out + ByColumns<kTileM>::at(m - m0, n - n0 + $(t.apart)));
//@ elseif t.apart then
      const auto acc_2 = read_staged<kLanes>(smem.out, kTileN, m - m0, n - n0 + $(t.apart));
//@ end
//@ if k.row_states then
      $(k.row_states.type) states[kLanes];
//@ end
#pragma unroll
      for (int j = 0; j < kLanes; ++j) {
//@ if k.row_states then
        $(k.row_states.type) &one = states[j];
//@ end
$(t.body)
      }
$(t.stores)
//@ if k.row_states then
      fold<kLanes>(states);
//@ if k.own then
      row_state = combine(row_state, states[0]);
//@ else
      stage_state(smem.out, kTileN, m - m0, n - n0, states[0]);
//@ end
//@ end
    };
  };
//@ end
//@ if #k.tails > 1 then
  auto epilogue = [&](int m, int n) {
//@ local all = {}
//@ for i in ipairs(k.tails) do
//@ all[i] = ("outputs%d(%s);"):format(i, given)
    auto outputs$(i) = epilogue$(i)(m, n);
//@ end
    return [=]($(outputs)) mutable { $(table.concat(all, " ")) };
  };
//@ end
