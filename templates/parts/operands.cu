//@ -- operands.cu: where rows of operands are: attend.cu, weigh.cu, sum_weights.cu.
//@ for i, o in ipairs(k.operands) do
//@ if i < #k.operands or (k.shared or 0) == 0 then -- else its rows are those of keys

// Where rows of $(o.name) are.
struct $(o.map) {
  static constexpr int kRows = $(o.rows), kDepth = $(o.depth), kPiece = $(o.piece);
  __device__ static int row($(o.args)) {
$(o.decode)
    return $(o.row);
  }
};
//@ end
//@ end
