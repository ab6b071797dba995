//@ -- product_maps.cu: addresses of a contraction's copied operands: of a row, and of k in it.
//@ local phased = #k.phases > 1
//@ for _, o in ipairs{k.a, k.b} do
//@ if o.copied then

// $(o.comment)
//@ local rows, depth = o.name == "a" and "kM" or "kN", phased and "phase.k" or "kK"
//@ local rows_now = phased and o.name == "a" and "phase.m" or rows
//@ local static, const = phased and "" or "static ", phased and " const" or ""
struct $(o.map) {
//@ if phased then
  Phase phase;
//@ end
  static constexpr int kRows = $(rows), kDepth = kK;
  static constexpr int kPiece = $(o.piece);  // elements per cp.async
  static constexpr int kTapRun = $(o.tap_run);  // consecutive k with one tap, from a table
  static constexpr bool kLinear = $(o.linear), kBounded = $(o.bounded);
  static constexpr bool kOverlaps = $(o.overlaps);
  __device__ $(static)int rows()$(const) { return $(rows_now); }
  __device__ $(static)int depth()$(const) { return $(depth); }
  __device__ $(static)int row($(o.row_args))$(const) {
//@ if o.halves then
    const int column = pair_column<kTileN, kN>(n);
//@ end
$(o.row_decode)
    return $(o.row);
  }
  __device__ $(static)int at($(o.k_arg))$(const) {
$(o.k_decode)
    return $(o.at);
  }
//@ if o.missing then -- bit masks of filter taps that fall into the padding
  __device__ $(static)unsigned missing(int $(o.index))$(const) {
$(o.missing_decode)
    return $(o.missing);
  }
  __device__ $(static)unsigned tap($(o.tap_arg))$(const) {
$(o.tap_decode)
    return $(o.tap);
  }
//@ end
//@ if o.inside then
  __device__ $(static)bool inside(int $(o.index), int k)$(const) {
$(o.inside_decode)
    return $(o.inside);
  }
//@ end
};
//@ end
//@ end
