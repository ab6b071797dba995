$(k.header)
#include "lib/prim.cuh"
//@ if k.values then
#include "lib/values.cuh"
//@ end
//@ if k.draws then
#include "lib/random.cuh"
//@ end
#include "lib/$(k.unit).cuh"
//@ if k.splits > 1 or #k.columns > 0 then
#include "lib/arrive.cuh"
//@ end

// out[m, n] = sum over k of a[m, k] * b[n, k], then the epilogue.
constexpr int kM = $(k.m), kN = $(k.n), kK = $(k.k);
constexpr int kTileM = $(k.tile_m), kTileN = $(k.tile_n);
constexpr int kWarpM = $(k.warp_m), kWarpN = $(k.warp_n);  // outputs per warp
constexpr int kTilesM = $(k.tiles_m), kTilesN = $(k.tiles_n);
constexpr int kStages = $(k.stages);
constexpr int kThreads = $(k.threads);
constexpr int kBlocksPerSm = $(k.blocks);
constexpr int kLanes = $(k.lanes);  // neighbouring outputs per thread in the epilogue
using T = $(k.operand);             // on tensor cores float is TF32
constexpr int kPack = kChunkBytes / int(sizeof(T));  // elements in a chunk
constexpr int kTileK = kRowBytes / int(sizeof(T));
constexpr int kBlocks = (kK + kTileK - 1) / kTileK;  // of k
//@ if k.splits > 1 then
constexpr int kSplits = $(k.splits);  // parts of k, each a block's
//@ end
//@ if #k.columns > 0 then
constexpr int kGroup = $(k.group);  // of row blocks, whose sums of columns are added first
constexpr int kGroups = (kTilesM + kGroup - 1) / kGroup;
//@ end
constexpr int kRowsAtOnce = kThreads / kChunks;  // rows of an operand that are loaded at once
constexpr int kRowsA = (kTileM + kRowsAtOnce - 1) / kRowsAtOnce;
constexpr int kRowsB = (kTileN + kRowsAtOnce - 1) / kRowsAtOnce;
//@ local across = k.b.across and (", %s, true"):format(k.a.across and "true" or "false") or k.a.across and ", true" or ""
using Product = WarpTile<T, kWarpM, kWarpN$(across)>;
constexpr int kSteps = kRowBytes / Product::kStepBytes;
constexpr int kLastBytes = (kK - (kBlocks - 1) * kTileK) * int(sizeof(T));
constexpr int kLastSteps = (kLastBytes + Product::kStepBytes - 1) / Product::kStepBytes;  // it may be shorter
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kThreads, "a warp for every part");
static_assert(kRowsAtOnce % kChunks == 0, "the rows that a thread loads turn their chunks alike");

//@ local whole_taps = k.tap_run == k.tile_k -- a tap for each block of k, else for each piece of a chunk
//@ if k.tap_run then
constexpr int kTapRun = $(k.tap_run);  // elements of k that a tap is looked up for
//@ end
struct Smem {
  union {
    struct {
      char a[kStages][kTileM * kRowBytes];
      char b[kStages][kTileN * kRowBytes];
    };
    float out[kTileM * kTileN];
  };
//@ if k.tap_run then
  Tap taps[kBlocks * kTileK / kTapRun];
//@ end
//@ if k.splits > 1 or #k.columns > 0 then
  bool last;
//@ end
};
static_assert(sizeof(Smem) <= $(k.smem), "the planner's figure");

extern "C" __global__ void __launch_bounds__(kThreads, kBlocksPerSm) $(k.name)(
$(k.params)) {
  NN_SMEM(Smem, smem);
  const int tid = threadIdx.x, warp = tid / kWarp;
//@ local parts = k.splits > 1 or k.batch > 1
//@ local tile = parts and "tile" or "blockIdx.x"
//@ if parts then
  const int tile = blockIdx.x % (kTilesM * kTilesN), part = blockIdx.x / (kTilesM * kTilesN);
//@ end
//@ if k.tiles_n == 1 then
  const int tile_m = $(tile), tile_n = 0;
//@ elseif k.tiles_m == 1 then
  const int tile_m = 0, tile_n = $(tile);
//@ else
  // A strip of some tiles along m goes through all tiles along n: what it reads stays in L2.
  constexpr int kStrip = kTilesM < 8 ? kTilesM : 8;
  const int strip = $(tile) / (kStrip * kTilesN) * kStrip, in_strip = $(tile) % (kStrip * kTilesN);
  const int strip_m = kTilesM - strip < kStrip ? kTilesM - strip : kStrip;
  const int tile_m = strip + in_strip % strip_m, tile_n = in_strip / strip_m;
//@ end
  const int m0 = tile_m * kTileM, n0 = tile_n * kTileN;
//@ if k.splits > 1 and k.batch > 1 then
  const int batch = part / kSplits, split = part % kSplits;
//@ elseif k.splits > 1 then
  const int split = part;
//@ elseif k.batch > 1 then
  const int batch = part;
//@ end
//@ if k.splits > 1 then
  const int first = split * kBlocks / kSplits, end = (split + 1) * kBlocks / kSplits;
//@ else
  constexpr int first = 0, end = kBlocks;
//@ end
//@ if k.decode_batch then
$(k.decode_batch)
//@ end
  const int load_row = tid / kChunks, load_chunk = tid % kChunks;

//@ local function first(o) -- of the rows that a thread loads
//@   if o.piece == k.pack then return "load_row" end
//@   return o.across and "spread_across<T>(load_row)" or "spread(load_row)"
//@ end
//@ for _, o in ipairs{k.a, k.b} do
//@ if o.along then
  // Where the rows of $(o.name) that this thread loads are, as blocks of k go by.
  const int $(o.name)_first = $(first(o));
  const T *$(o.name)_row[$(o.rows)];
  int $(o.name)_offset = 0;  // how far from k = 0
//@ if o.taps_leave then
  // Which rows and which columns of taps miss the image, a bit each; the highest stands for k past
  // the end.
  unsigned a_missing[kRowsA];
//@ end
#pragma unroll
  for (int i = 0; i < $(o.rows); ++i) {
    const int $(o.index) = $(o.index)0 + $(o.name)_first + i * kRowsAtOnce;
//@ if o.image then
    const int image = m / $(k.P * k.Q), pixel = m % $(k.P * k.Q);
    const int y = $(k.first_y), x = $(k.first_x);
//@ end
//@ if o.filter and k.grouped then
    const int group_n = batch * kN + n;
//@ end
    $(o.name)_row[i] = $(o.pointer) + $(o.row)$(o.image and whole_taps and " + load_chunk * kPack" or "");
//@ if o.taps_leave then
    unsigned missing = m < kM ? 1u << 31 : ~0u;
#pragma unroll
    for (int r = 0; r < $(k.R); ++r) missing |= unsigned(unsigned(y + $(k.tap_y)) >= $(k.H)u) << r;
#pragma unroll
    for (int s = 0; s < $(k.S); ++s) missing |= unsigned(unsigned(x + $(k.tap_x)) >= $(k.W)u) << ($(k.R) + s);
    a_missing[i] = missing;
//@ end
  }

//@ elseif o.across then
  // Where the rows of $(o.name) that this thread loads are, as blocks of k go by: kTileK rows of k for
  // each kTileK of $(o.index).
  const int $(o.name)_first = $(first(o));
  const T *$(o.name)_row[$(o.rows)];
  int $(o.name)_offset = 0;  // how far from k = 0
#pragma unroll
  for (int i = 0; i < $(o.rows); ++i) {
    const int row = $(o.name)_first + i * kRowsAtOnce, k = row % kTileK;
    const int $(o.index) = $(o.index)0 + row / kTileK * kTileK + load_chunk * $(o.piece == k.pack and "kPack" or o.piece);
    $(o.name)_row[i] = $(o.pointer) + $(o.row) + $(o.offset);
  }

//@ end
//@ end
//@ if k.tap_run then
  for (int i = tid; i < kBlocks * kTileK / kTapRun; i += kThreads) {
    const int k = i * kTapRun;
    const int c = k % $(k.C), r = k / $(k.C * k.S), s = k / $(k.C) % $(k.S);
    write_tap(&smem.taps[i], Tap{$(k.a.offset), $(k.a.tap)});
  }
//@ end

  // Starts loading block `block` of k: the rows move there from where they are.
  auto load = [&](int block, int stage) {
    char *a_rows = smem.a[stage], *b_rows = smem.b[stage];
    const int k0 = block * kTileK;
//@ for _, o in ipairs{k.a, k.b} do
//@ local ragged = (o.name == "a" and k.tile_m or k.tile_n) % (k.threads // 8) ~= 0
//@ local whole, piece = o.piece == k.pack, o.piece
//@ local copy = whole and "nn_cp_async<kChunkBytes>" or ("nn_cp_async<%d * sizeof(T)>"):format(piece or 0)
//@ local if_inside = o.inside == "true" and "" or ", inside"
//@ local looked_up = o.image and k.tap_run
//@ local define_k = not looked_up or (o.inside or ""):find("k <")
//@ if o.along then
//@ if whole then
    {
      const int e = load_chunk * kPack, to = swizzled($(o.name)_first, load_chunk);
//@ else -- pieces of a chunk: those that are copied at once follow each other
#pragma unroll
    for (int piece = 0; piece < kPack / $(piece); ++piece) {
      const int e = (piece * kChunks + load_chunk) * $(piece);
      const int to = swizzled($(o.name)_first, e / kPack) + e % kPack * sizeof(T);
//@ end
//@ if define_k then
      const int k = k0 + e;
//@ end
//@ if looked_up then
      const Tap tap = read_tap(&smem.taps[block * (kTileK / kTapRun)$(whole_taps and "" or " + e / kTapRun")]);
//@ elseif o.image then
//@ if k.taps > 1 then
      const int c = k % $(k.C), r = k / $(k.C * k.S), s = k / $(k.C) % $(k.S);
//@ else
      const int c = k, r = 0, s = 0;
//@ end
      const Tap tap = {$(o.offset), $(o.tap)};
//@ end
      const int step = $(o.image and "tap.offset" or o.offset) - $(o.name)_offset;
      $(o.name)_offset += step;
#pragma unroll
      for (int i = 0; i < $(o.rows); ++i) {
        $(o.name)_row[i] += step;
//@ if ragged or o.inside:find "row" then
        const int row = $(o.name)_first + i * kRowsAtOnce;
//@ end
//@ if ragged then
        if (row >= $(o.tile)) break;
//@ end
//@ if if_inside ~= "" then
        const bool inside = $(o.inside);
//@ end
        $(copy)($(o.name)_rows + to + i * (kRowsAtOnce * kRowBytes), $(o.name)_row[i]$(if_inside));
      }
    }
//@ elseif o.across then
    const int $(o.name)_step = $(o.block) - $(o.name)_offset;
    $(o.name)_offset += $(o.name)_step;
#pragma unroll
    for (int i = 0; i < $(o.rows); ++i) {
      $(o.name)_row[i] += $(o.name)_step;
//@ if ragged or o.inside ~= "true" then
      const int row = $(o.name)_first + i * kRowsAtOnce;
//@ end
//@ if ragged then
      if (row >= $(o.tile)) break;
//@ end
//@ if whole then
      {
        const int e = load_chunk * kPack, to = across<T>($(o.name)_first, load_chunk);
//@ else
#pragma unroll
      for (int piece = 0; piece < kPack / $(piece); ++piece) {
        const int e = (piece * kChunks + load_chunk) * $(piece);
        const int to = across<T>($(o.name)_first, e / kPack) + e % kPack * sizeof(T);
//@ end
//@ if if_inside ~= "" then
        const int $(o.index) = $(o.index)0 + row / kTileK * kTileK + e, k = k0 + row % kTileK;
        const bool inside = $(o.inside);
//@ end
//@ local on = whole and "" or (" + piece * (kChunks * %d)"):format(piece)
        $(copy)($(o.name)_rows + to + i * (kRowsAtOnce * kRowBytes), $(o.name)_row[i]$(on)$(if_inside));
      }
    }
//@ else -- Unrolled, elements that are computed would only need more registers.
#pragma unroll 1
    for (int i = 0; i < $(o.rows); ++i) {
      const int row = load_row + i * kRowsAtOnce, $(o.index) = $(o.index)0 + row;
//@ if ragged then
      if (row >= $(o.tile)) break;
//@ end
//@ if o.image then
      const int image = m / $(k.P * k.Q), pixel = m % $(k.P * k.Q);
      const int y0 = $(k.first_y), x0 = $(k.first_x);
//@ end
//@ if o.filter and k.grouped then
      const int group_n = batch * kN + n;
//@ end
      Vec<float, kPack> chunk;
#pragma unroll
      for (int e = 0; e < kPack; ++e) {
        const int k = k0 + load_chunk * kPack + e;
//@ if k.conv then
        const int c = k % $(k.C), r = k / $(k.C * k.S), s = k / $(k.C) % $(k.S);
//@ end
//@ if o.image then
        const int y = y0 + $(k.tap_y), x = x0 + $(k.tap_x);
        const bool inside = m < kM && k < kK && unsigned(y) < $(k.H)u && unsigned(x) < $(k.W)u;
//@ if k.grouped then
        const int group_c = batch * $(k.C) + c;
//@ end
//@ else
        const bool inside = $(o.index) < $(o.size) && k < kK;
//@ end
$(o.body)
        chunk[e] = inside ? $(o.value) : 0.f;
      }
      nn_store<kPack>((T *)($(o.name)_rows + swizzled(row, load_chunk)), nn_cast<T>(chunk));
    }
//@ end
//@ end
  };

  // The ring: kStages - 1 blocks are on their way while one is multiplied.
  Product product;
  product.clear();
//@ if k.tap_run then
  nn_sync();  // the table of taps is there
//@ end
  const int warp_m = warp / (kTileN / kWarpN) * kWarpM, warp_n = warp % (kTileN / kWarpN) * kWarpN;
#pragma unroll
  for (int ahead = 0; ahead < kStages - 1; ++ahead) {
    if (first + ahead < end) load(first + ahead, ahead);
    nn_cp_async_commit();
  }
  for (int block = first, stage = 0; block < end; ++block) {
    nn_cp_async_wait<kStages - 2>();
    nn_sync();  // this block has landed for all, and the stage before it has been read by all
    if (block + kStages - 1 < end) load(block + kStages - 1, (stage ? stage : kStages) - 1);
    nn_cp_async_commit();
    const char *a = smem.a[stage], *b = smem.b[stage];
    stage = stage + 1 < kStages ? stage + 1 : 0;
    if (kLastSteps == kSteps || block + 1 < kBlocks) {
      product.template multiply<kSteps>(a, warp_m, b, warp_n);
    } else {
      product.template multiply<kLastSteps>(a, warp_m, b, warp_n);
    }
  }
  nn_cp_async_wait<0>();
  nn_sync();

  // Outputs pass through shared memory, so that each thread has neighbours along n.
  product.stage(smem.out, kTileN, warp_m, warp_n);
  nn_sync();
//@ if k.splits > 1 then

  // The blocks of one tile leave their sums in memory; the last to arrive adds them up and goes on.
  const int tile_id = $(k.batch > 1 and "batch * (kTilesM * kTilesN) + " or "")tile;
  float *parts = own_sums + tile_id * (kSplits * kTileM * kTileN);
  if (!sum_parts<kThreads, kTileM * kTileN, kSplits>(smem.out, parts, split, own_arrived + tile_id, &smem.last)) return;
//@ end

//@ for _, c in ipairs(k.columns) do
  Vec<float, kLanes> $(c.name) = {};  // of this thread's columns
//@ end
  constexpr int kAlongN = kTileN / kLanes;  // threads
  static_assert(kThreads % kAlongN == 0, "a thread keeps its columns");
  const int column = tid % kAlongN * kLanes, n = n0 + column;
  for (int row = tid / kAlongN; row < kTileM; row += kThreads / kAlongN) {
    const int m = m0 + row;
//@ if k.outside ~= "" then
    if ($(k.outside)) break;
//@ end
$(k.decode)
//@ if k.grouped then
    const int group_n = batch * kN + n;
//@ end
//@ if k.moves ~= "" then
$(k.moves)
//@ end
    const Vec<float, kLanes> acc = read_staged<kLanes>(smem.out, kTileN, row, column);
$(k.loads)
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
$(k.body)
    }
$(k.stores)
  }
//@ if #k.columns > 0 then

  // Sums of columns: over this block's rows, then over all blocks of these columns.
  static_assert(kTileN <= kThreads, "a thread for every column");
  nn_sync();  // the staged outputs have been read
  const int sum_n = n0 + owned_column<kTileN, kLanes>(tid);
  const bool owns = tid < kTileN && sum_n < kN;
  float sums[$(#k.columns)];
//@ for i, c in ipairs(k.columns) do
  sums[$(i - 1)] = sum_columns<kThreads, kTileN, kLanes>(smem.out, $(c.name));
//@ end
  float *place = own_columns + sum_n;
  if (!sum_blocks<kTilesM, kGroup, kN>(sums, owns, place, tile_m, own_met + tile_n * (kGroups + 1), &smem.last)) return;
//@ for i, c in ipairs(k.columns) do
  if (owns) $(c.pointer)[sum_n] = nn_cast<$(c.type)>(sums[$(i - 1)]);
//@ end
//@ end
}
