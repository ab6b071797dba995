//@ -- operands.cu: addresses of operand rows: attend.cu, attend_backward.cu, attend_bias.cu.
//@ for i, o in ipairs(k.operands) do
//@ local own = i < #k.operands or (k.shared or 0) == 0  -- else v shares the key operand's rows
//@ if own and not o.computed and not o.box then

// Addresses of rows of $(o.name).
struct $(o.map) {
  static constexpr int kRows = $(o.rows), kDepth = $(o.depth), kPiece = $(o.piece);
  __device__ static int row($(o.args)) {
$(o.decode)
    return $(o.row);
  }
};
//@ end
//@ end
