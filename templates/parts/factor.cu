//@ -- factor.cu: what the softmax of a row comes to: attend.cu.

  // The factor of outputs of row `at`; of the threads that have it, one is the first.
  auto factor = [&](int at, const ScoreRow &state, bool first) {
    const int m = at < kM ? at : kM - 1;
$(k.row.decode)
$(k.row.body)
    return $(k.row.value);
  };
