//@ -- map_place.cu: `i`: the first of the elements that a thread of map.cu computes. k.columns:
//@ -- they are a matrix; a block has several of its rows, to read whole sectors of transposed
//@ -- inputs.
//@ if k.columns then
  constexpr int kColumns = $(k.columns);
  constexpr int kRows = $(k.rows);           // of a block
  constexpr int kAcross = kThreads / kRows;  // threads of a row
  constexpr int kBlocksAcross = (kColumns - 1) / (kAcross * kLanes) + 1;
  const int row = $(k.block) / kBlocksAcross * kRows + threadIdx.x / kAcross;
  const int column = ($(k.block) % kBlocksAcross * kAcross + threadIdx.x % kAcross) * kLanes;
  if (row >= $(k.elements) / kColumns || column >= kColumns) return;
  const int i = row * kColumns + column;
//@ else
  const int i = ($(k.block) * kThreads + threadIdx.x) * kLanes;
  if (i >= $(k.elements)) return;
//@ end
  nn_assume(i >= 0);  // makes remainders cheaper
