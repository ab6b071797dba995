//@ -- factor.cu: attend.cu: the final factor of a row, from the state of its softmax.

  // The factor of outputs of row `at`; `first` in one of the threads that share the row.
  auto factor = [&](int at, const ScoreRow &state, bool first) {
    const int m = at < kM ? at : kM - 1;
$(k.row.decode)
$(k.row.body)
    return $(k.row.value);
  };
