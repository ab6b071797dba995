#!/usr/bin/env bash
# Planted bugs: a copy of the Lua files and templates with one fault each (NNGEN_DIR overrides the
# embedded ones). The checks must find every one: a run that still passes is a failed test.
. "$(dirname "$0")/../tap.sh"
. tests/models/kept.sh
. tests/models/attend_groups.sh
plant() { # plant FILE SED-EXPRESSION: a fresh copy with the fault in it
  rm -rf "$work/tree" && mkdir -p "$work/tree" && cp --parents gen/*/*.lua "$work/tree/" &&
    cp -r templates "$work/tree/" &&
    sed -i "$2" "$work/tree/$1" && ! cmp -s "$1" "$work/tree/$1" ||
    { echo "the fault did not change $1"; return 1; }
}
found() { # found FILE SED-EXPRESSION COMMAND...: with the fault, the command fails
  plant "$1" "$2" || return 1
  shift 2
  local seed
  for seed in 1 2 3; do
    NNGEN_DIR=$work/tree NNGEN_SIM_SEED=$seed NNGEN_SIM_TIMEOUT=2 "$@"
    case $? in # a wrong result, or a fault of the device; not a mistake of the command line
      0) ;;
      1 | 3) return 0 ;;
      *) echo "ended, but not by the check"; return 1 ;;
    esac
  done
  echo "not found under three thread orders"
  return 1
}
misses= # faults whose expressions change nothing, as their files have changed: also those left out
fault() { # fault NAME FILE SED-EXPRESSION COMMAND...: in the short run, one of 40
  sed "$3" "$2" | cmp -s - "$2" && misses+="$1: $2"$'\n'
  few 40/8 || return 0
  ok "$1" found "${@:2}"
}
sound() { long && few 1/6 sound && ok "$@"; } # what a fault is planted in
run() { build/nngen "$@" --quiet --check; }
shapes() { run tests/models/contraction.lua --dtype $1 --set "shapes=$2"; }
reduces() { run tests/models/reduce.lua --set only=mean_square "$@"; }
sums() { shapes fp32 ";conv 2 8 9 9 8 1 1 1 1 0 0 1 1 1;conv 2 8 9 9 8 3 3 1 1 1 1 1 1 1"; }
ring() { shapes fp16 "conv 1 64 6 6 64 3 3 1 1 1 1 1 1 1"; } # many blocks of k
split() { shapes fp32 "matmul 1 33 40 4000 0 0"; }
groups() { shapes bf16 "filter 4 64 32 32 64 3 3 1 1 1 1 1 1 1"; } # of warps, 8 blocks of k
groups_checked() { NNGEN_SIM_CHECK=all groups; }
sound "no fault, no complaint" run models/lenet.lua --dtype fp16
sound "no fault, no complaint about sums of columns" sums
sound "no fault, no complaint about a ring" ring
sound "no fault, no complaint about parts of k" split
sound "no fault, no complaint about warp groups" groups_checked
sound "no fault, no complaint about reductions" reduces
norms() { NNGEN_SIM_CHECK=all run tests/models/norms.lua --set rows=70 width=300; }
sound "no fault, no complaint about norms" norms
fault "statistics of rows: the last tile is left out" templates/lib/rows.cuh \
  's/tile < kTiles; ++tile/tile < kTiles - 1; ++tile/' norms
fault "statistics of rows: some columns are left out" templates/lib/rows.cuh \
  's|i < count / kAtOnce;|i < count / kAtOnce - 1;|' norms
fault "statistics of rows: read before all threads have written them" templates/contract.cu \
  's/  nn_sync();  \/\/ wait for the states of all threads//' norms
first() { NNGEN_SIM_CHECK=all run tests/models/first.lua --set rows=150 width=320; }
crowd() { # no seed, which would let one block end before the next one begins
  env -u NNGEN_SIM_SEED NNGEN_SIM_THREADS=8 \
    build/nngen tests/models/first.lua --quiet --check --set rows=600 width=1024
}
changes() { run tests/models/first.lua --set case=changes rows=40; }
sound "no fault, no complaint about rows that blocks make together" first
sound "no fault, no complaint about them side by side" crowd
fault "rows made together: nobody waits" templates/lib/first.cuh \
  '/while (nn_atomic_add/,/}/d' crowd
fault "rows made together: the last job is left out" templates/contract.cu \
  's/make_first<kJobs, kRuns>/make_first<kJobs - 1, kRuns>/' first
fault "rows made together: the next job is read before it is written" templates/lib/first.cuh \
  's|nn_sync();  // next\[\] is visible.*||' first
fault "rows made together: counters stay as they are" templates/contract.cu \
  's/  go_on(own_first);//' changes
fault "epilogue: relu that cuts at 0.01" \
  gen/lang/ops.lua 's/nn_max(\$1, 0.f)/nn_max($1, 0.01f)/' run models/lenet.lua
fault "epilogue: the addition loses its second input" gen/lang/ops.lua \
  's/cuda = "\$1 + \$2", wraps/cuda = "$1 + 0.f * $2", wraps/' \
  run models/lenet.lua
fault "gradient: product rule with its inputs exchanged" gen/lang/ops.lua \
  's/return g \* b, g \* a end/return g * a, g * b end/' build/tests/gen/test_ops
fault "index maps: the gradient by the image is padded on the other side" \
  gen/lang/ops.lua 's/r\*dilation1 + pad1/r*dilation1 - pad1/' build/tests/gen/test_products
gradients() { # gradients [PROGRAM]; 1: they differ from central differences
  build/tests/gen/${1:-test_grad} >"$work/gradients" 2>&1 && return
  grep -q 'differences give' "$work/gradients" || return 2
  return 1
}
sound "no fault, no complaint about gradients" gradients
fault "gradient: of a value that is read twice, one reader counts" gen/lang/nn_grad.lua \
  's/grads\[input\] and grads\[input\] + given\[i\] or given\[i\]/given[i]/' gradients
fault "gradient: what is broadcast is not added up" gen/lang/nn_grad.lua \
  's/g = op.reduce_sum(g, {axes = axes})/g = op.reduce_max(g, {axes = axes})/' gradients
fault "gradient: softmax along one axis cancels what is the same along another" \
  gen/lang/nn_cancel.lua 's/ or (node.axes or 0) & ~axes ~= 0//' gradients
fault "gradient of random graphs: a row without its output's share" gen/lang/ops.lua \
  's/(g, y) return g \* (1 - y \* y) end/(g, y) return g * (1 - y) end/' gradients test_graphs
fault "gradient of random graphs: a sum of those behind leaves the element itself out" \
  gen/lang/nn_grad.lua 's/return nn.flip(op.scan_sum(nn.flip(g,.*/& - g/' \
  gradients test_graphs
fault "index maps: strides of the gradient by the image exchanged" gen/lang/ops.lua \
  '/conv2d_data/,/conv2d_filter/{s#)/stride1, (w#)/stride2, (w#; s#pad2)/stride2#pad2)/stride1#}' \
  build/tests/gen/test_products
. tests/models/by_formula.sh
sound "no fault, no complaint about running statistics" statistics train
fault "statistics: the running ones stay as they were" gen/lang/nn_norms.lua \
  's/narrow(old + (now - old) \* momentum)/narrow(old)/' statistics train
fault "statistics: a step normalises by those of the step before" gen/lang/nn_norms.lua \
  's/local y = (x - mean) \* scale$/local y = (x - old_mean) * scale/' statistics train
sound "no fault, no complaint about schedules" schedules
fault "schedule: a warm-up begins a step late" \
  gen/lang/nn_schedules.lua 's/op.min((at + 1.0) \*/op.min(at */' schedules
fault "schedule: half a cosine ends a step early" \
  gen/lang/nn_schedules.lua 's/clamped((at - o.warmup) /clamped((at - o.warmup + 1.0) /' schedules
fault "schedule: an optimizer counts its steps from 0" \
  gen/lang/nn_optim.lua 's/:to("f32") + 1.0$/:to("f32")/' optimizer adam 0
fault "source: an operand across k begins a chunk late" templates/lib/source.cuh \
  's/kTileK \* kTileK + chunk \* kPiece/kTileK * kTileK + (chunk ^ 1) * kPiece/' \
  shapes fp16 "filter 1 64 6 6 64 3 3 1 1 1 1 1 1 1"
fault "pairs: the second half of the columns is the first" templates/lib/order.cuh \
  's#? 0 : kN / 2#? 0 : 0#' run tests/models/fusion.lua --set case=gated
fault "pairs: both outputs are the first" templates/lib/epilogue.cuh \
  's#kHalf + column));#column));#' run tests/models/fusion.lua --set case=gated
fault "transposed outputs: a column begins where the one before ends" templates/lib/tile.cuh \
  's/column \* kStride + row/column * (kStride - 8) + row/' \
  run tests/models/fusion.lua --set case=transposed
fault "transposed outputs: rows behind the last are stored" templates/lib/epilogue.cuh \
  's/    if (kM % kTileM \&\& m0 + row >= rows) break;//' \
  run tests/models/fusion.lua --set case=transposed
fault "twins: the other half of a head is the first" templates/parts/tails.cu \
  's#n - n0 + [$](t.apart)#n - n0#' run tests/models/fusion.lua --set case=rotary
fault "reference: an oracle that is wrong itself" gen/lang/ops.lua \
  's/ref = function(x) return math.max(x, 0) end/ref = function(x) return math.max(x, 0.001) end/' \
  run models/mlp.lua
fault "fma: columns of b exchanged" templates/lib/fma.cuh \
  's/row_b + lane % kLanesN + kLanesN \* j/row_b + (lane ^ 1) % kLanesN + kLanesN * j/' \
  run models/lenet.lua
fault "wgmma: sums are read before their wait" \
  templates/lib/wgmma.cuh 's/    nn_wgmma_wait<0>();/    ;/' groups
fault "wgmma: a stage is loaded while it is multiplied" \
  templates/lib/pipeline.cuh 's/kStages - 1 - Product::kInFlight/kStages - 1/' groups
fault "wgmma: copies are not published" \
  templates/lib/pipeline.cuh 's/product.publish();//' groups_checked
along() { product "64x64 warps 16x64 stages 3 parts 1" 6 "bf16 matmul 70x96 by 96x136$1" bf16 \
  "matmul 1 70 136 96 0 $2"; }
walks() { NNGEN_SIM_TIMEOUT=60 product "128x128 warps 16x128 stages 5 parts 1" 132 \
  "bf16 matmul 1500x100 by 100x1480 transposed" bf16 "matmul 1 1500 1480 100 0 2"; }
fault "kept outputs: b's rows stand in their own order" templates/lib/tile.cuh \
  's#place / 2 % 4 \* 8 + place / 8 % 4 \* 2#place / 2 % 4 * 2 + place / 8 % 4 * 8#' \
  along " transposed" 2
fault "kept outputs: lanes exchange the wrong halves" \
  templates/lib/wgmma.cuh 's/odd ? all\[e\] : all\[2 + e\], 1/odd ? all[2 + e] : all[e], 1/' along "" 0
fault "kept outputs: sums of columns leave a warp out" \
  templates/lib/columns.cuh 's/int w = 1; w < kWarps; ++w/int w = 1; w < kWarps - 1; ++w/' \
  model "128x64 warps 32x64 stages 5 parts 1" 16 \
  "bf16 conv 4x64x15x15 by 72x64x3x3 stride 1x1 pad 1,1,1,1" bf16 sums
fault "kept outputs: statistics of a row lack a lane's columns" \
  templates/parts/product_rows.cu 's/warp_join<4>(row_state)/warp_join<2>(row_state)/' \
  model "64x128 warps 16x128 stages 3 parts 1" 6 "bf16 matmul 70x96 by 96x264 transposed" bf16 rows
fault "kept outputs: what another thread changes is read" \
  templates/lib/epilogue.cuh 's/load_for<kOnly \&\& !kWhole>/load_for<false>/' \
  model "64x64 warps 16x64 stages 3 parts 1" 6 "bf16 matmul 70x96 by 96x136" bf16 state
fault "kept outputs: the next tile is written in the place of the first" \
  templates/contract.cu 's/Place stored = place_of(now)/Place stored = place_of(blockIdx.x)/' walks
fault "kept outputs: the next tile is loaded from where the first one was" \
  templates/contract.cu 's/place = place_of(tile);/place = place_of(blockIdx.x);/' walks
walks_sums() { # sums of columns of all tiles of a block
  NNGEN_SIM_TIMEOUT=60 model "256x64 warps 32x64 stages 4 parts 1" 132 \
    "bf16 conv 152x8x15x15 by 24x8x3x3 stride 1x1 pad 1,1,1,1" bf16 \
    sums images=152 channels=8 out=24
}
sound "no fault, no complaint about sums of columns of several tiles" walks_sums
fault "kept outputs: sums of columns begin with what was there" \
  templates/contract.cu 's/  smem.columns.clear_all();//' walks_sums
fault "kept outputs: sums of columns of a tile take the place of those before" \
  templates/lib/columns.cuh 's/join_warp<State, kAdds, kApart>/join_warp<State, false, kApart>/' \
  walks_sums
fault "sums of columns: those of the last group of blocks are forgotten" templates/lib/columns.cuh \
  's/counts + kGroups, kGroups, kBlocks/counts + kGroups, kGroups - 1, kBlocks/' walks_sums
fault "wgmma: across k, a step begins 8 rows late" \
  templates/lib/wgmma.cuh 's/step \* 2 \* kGroupBytes/(step * 2 + 1) % 8 * kGroupBytes/' groups
fault "contract: rows begin a tap too late" \
  templates/lib/source.cuh 's/map.row(r, batch)/map.row(r + 1, batch)/' run models/lenet.lua
fault "contract: the wait is missing" \
  templates/lib/pipeline.cuh 's/nn_cp_async_wait<kAhead - 1>();//' ring
fault "contract: the wait is one group short" \
  templates/lib/pipeline.cuh 's/kAhead - 1>/kAhead>/' ring
fault "contract: the staged outputs have no barrier" \
  templates/contract.cu '/product.stage/{n;s/nn_sync();//}' ring
fault "contract: the ring's barrier is missing" \
  templates/lib/pipeline.cuh 's/nn_sync();  \/\/ the data is visible.*//' ring
fault "contract: columns of taps outside the image count as inside" \
  templates/parts/product_maps.cu 's/return $(o.missing);/return ($(o.missing)) \& 31;/' \
  run models/lenet.lua
fault "mma, swapped: columns are not the rows that are staged" templates/lib/mma.cuh \
  's#return kSwapped ? .*: j;#return j;#' shapes fp16 "matmul 1 8 256 64 0 1"
fault "mma: the halves of k of b exchanged" \
  templates/lib/mma.cuh 's#lane / 8 % 2#1 - lane / 8 % 2#' ring
fault "split k: a part is added twice" \
  templates/lib/arrive.cuh 's/int p = 1; p < count/int p = 0; p < count/' split
fault "split k: the parts are read before they have arrived" templates/lib/arrive.cuh \
  's/if (!last_to_arrive(counter, count, last)) return false;/if (to != first) return false;/' split
fault "split k: the count is not taken back" \
  templates/lib/arrive.cuh 's/\*count = 0;/*count = blocks;/' split
fault "sums of columns: the last row of blocks is forgotten" \
  templates/lib/columns.cuh 's/if (b + i < count)/if (b + i < count - 1)/' sums
fault "sums of columns: lanes exchange the wrong halves" templates/lib/columns.cuh \
  's/choose(upper, part\[j\], part\[kHalf + j\])/choose(upper, part[kHalf + j], part[j])/' sums
fault "sums of columns: the tiles of all images meet in one count" templates/parts/product_columns.cu \
  's/(batch \* kTilesN + place.at.n)/at.n/' run tests/models/fusion.lua --set case=images
channels() { NNGEN_SIM_CHECK=all run tests/models/fusion.lua --set case=channels; }
sound "no fault, no complaint about columns of groups" channels
fault "runs of elements: joined as if they had one first element" gen/lang/ops.lua \
  's/a.sum + b.sum + b.count \* " .. shift/a.sum + b.sum"/' channels
fault "columns of groups: lanes keep what they have joined" \
  templates/lib/columns.cuh 's/all = warp_join<kShare>(all);//' channels
fault "columns of groups: they are joined before all tiles have left theirs" \
  templates/lib/columns.cuh 's/if (!last_to_arrive(arrived, kTiles, last)) return;/nn_sync();/' \
  channels
fault "columns of groups: those of all images meet in one count" \
  templates/parts/product_columns.cu 's/own_whole_met + batch/own_whole_met/' channels
fault "reduce: one thread's part is forgotten" templates/lib/reduce.cuh \
  's/int half = kLeft .* 2; half > 0/int half = kLeft \/ 2; half > 1/' reduces
fault "reduce: the last element is forgotten" templates/lib/reduce.cuh \
  's/for (; left > 0; left -= step)/for (; left > step; left -= step)/' reduces
fault "reduce: a barrier is missing" templates/lib/reduce.cuh \
  '/shared\[(o \* kLeft + r) \* kColumns + column\] = /{n;s/nn_sync();//}' \
  reduces
fault "reduce: a run that is never added" templates/lib/reduce.cuh \
  's/acc\[o\] = append(acc\[o\], whole(run\[o\]));/;/' reduces rows=2 columns=30 depth=1000
heads() { run tests/models/attend.lua --dtype fp16 --set form=$1 N=150 M=150; }
sound "no fault, no complaint about attention" heads causal
sound "no fault, no complaint about attention with steep scores" heads unscaled
fault "attention: sums do not follow a larger score" templates/lib/attend_softmax.cuh \
  's/sum\[r\] \*= factor/sum[r] *= 1.f/' heads unscaled
fault "attention: outputs do not follow a larger score" templates/lib/attend_softmax.cuh \
  '/void follow/,/^  }/s/Sums::out(r, c) \*= factor/;/' heads unscaled
fault "attention: what is kept of a row has another base than its largest score" \
  templates/attend.cu 's/  warp.settle(.*//' heads causal
fault "attention: a base that follows no larger score" templates/lib/attend_softmax.cuh \
  's/<= kSlack ? base/<= 80 * kSlack ? base/' heads unscaled
fault "attention: products far from 0 are rounded" templates/lib/attend_softmax.cuh \
  's/nn_abs(product) > 1024.f/false/' heads far
fault "attention: a tile with a condition counts as plain" templates/lib/span.cuh \
  's/a.hi <= b.lo ? 1. : 0., a.lo <= b.hi/a.lo <= b.lo ? 1. : 0., a.lo <= b.hi/' heads causal
fault "attention: one masked tile too many" templates/lib/span.cuh \
  's/a.hi <= b.lo ? 1. : 0., a.lo <= b.hi ? 1. : 0./a.hi <= b.lo ? 1. : 0., a.hi <= b.hi ? 1. : 0./' \
  heads causal
fault "attention: keys past the last one count" templates/attend.cu \
  's/kKeys % kTileKeys - part \* kPartKeys/kTileKeys/' heads plain
wide() { run tests/models/attend.lua --dtype fp16 --set form=causal N=150 M=150 W=112; }
sound "no fault, no complaint about attention by single warps" wide # a group would meet by itself
fault "attention: a tile is overwritten while it is read" \
  templates/parts/attend_ring.cu 's/nn_sync();  \/\/ the tile is visible.*//' wide
steep="B=1 H=2 G=1 form=unscaled N=70 M=300 D=32 W=32"
sound "no fault, no complaint about attention by warp groups" attends 64x128 fp16 $steep
fault "attention by warp groups: outputs are multiplied before their sums are there" \
  templates/parts/attend_ring.cu '/auto settle/,/};/s/Unit::await.*//' attends 64x128 fp16 $steep
fault "attention by warp groups: scores are read before they are there" \
  templates/parts/attend_ring.cu 's/Unit::await<1>/Unit::await<2>/' attends 64x128 fp16 $steep
fault "attention by warp groups: a tile is overwritten while it is read" \
  templates/parts/attend_ring.cu 's/nn_sync();  \/\/ the tile is visible.*//' attends 128x64 fp16 $steep
apart="B=1 H=2 G=1 form=unscaled N=140 M=600 D=64 W=64"
sound "no fault, no complaint about attention of which some warps load" attends 128x128 fp16 $apart
fault "attention of which some warps load: keys are read before they are there" \
  templates/parts/attend_jobs.cu 's/keys.await_filled(smem.keys);//' attends 128x128 fp16 $apart
fault "attention of which some warps load: values are overwritten while they are read" \
  templates/parts/attend_jobs.cu 's/values.await_left(smem.values);//' \
  attends 128x128 fp16 $apart
fault "attention of which some warps load: a place is left by who still reads it" \
  templates/lib/ring.cuh '/void leave/,/}/s/nn_syncwarp();//' attends 128x128 fp16 $apart
fault "attention of which some warps load: outputs do not follow a larger score" \
  templates/lib/attend_softmax.cuh '/void move_outs/,/^  }/s/Sums::out(r, c) \*= .*/;/' \
  attends 128x128 fp16 $apart
fault "attention of which some warps load: the weights of a tile are its scores before" \
  templates/parts/attend_jobs.cu 's/warp.pack(part.scores, weights);//' \
  attends 128x128 fp16 $apart
many="B=34 H=2 G=2 form=unscaled N=130 M=200 D=64 W=64" # more tiles of queries than blocks
sound "no fault, no complaint about blocks that go on from job to job" attends 128x64 fp16 $many
fault "blocks that go on from job to job: queries are overwritten while they are read" \
  templates/parts/attend_jobs.cu 's/jobs.await_left(smem.jobs);//' \
  attends 128x64 fp16 B=34 H=2 G=2 form=unscaled N=130 M=64 D=64 W=64
fault "blocks that go on from job to job: outputs are read before they are there" \
  templates/parts/attend_jobs.cu 's/^    nn_syncwarp();//' attends 128x64 fp16 $many
fault "blocks that go on from job to job: the last values of a job are never left" \
  templates/parts/attend_jobs.cu '/^      Unit::await.*Sums/,/}/s/values.leave(smem.values);//' \
  attends 128x64 fp16 $many
fault "blocks that go on from job to job: the second launch finds no job" \
  templates/lib/jobs.cuh 's/if (before == kJobs - 1).*//' attends 128x64 fp16 $many
fault "blocks that go on from job to job: tiles of the job before are looked at" \
  templates/parts/attend_jobs.cu '/const unsigned/s/smem.live\[turn\]/smem.live[0]/' \
  attends 128x64 fp16 B=34 H=2 G=2 form=window N=130 M=200 D=64 W=64
fault "attention by warp groups: copies are not handed to products" templates/lib/attend_wgmma.cuh \
  's/nn_fence_proxy_async();//' attends 64x128 fp16 $steep
fault "attention by warp groups: a panel begins where another one is" templates/lib/attend.cuh \
  's/kPanels ? kPanelRows \* kPitch/kPanels ? kPanelRows * kPitch \/ 2/' \
  attends 64x64 fp16 B=1 H=1 G=1 form=plain N=64 M=70 D=80 W=80
derived() { run tests/models/attend_backward.lua --dtype fp16 --set case=$1; }
sound "no fault, no complaint about attention's derivatives" derived plain
fault "attention's derivatives: keys past the last one count" \
  templates/attend_backward.cu 's/scores, kKeys % kTileKeys, 0.f/scores, kTileKeys, 0.f/' derived low
fault "attention's derivatives: powers to the base of e" \
  templates/attend_backward.cu 's/kLog2e = 1.4426950408889634f/kLog2e = 1.f/' \
  run tests/models/attend_backward.lua --set case=plain # fp32; in 16 bits it is in the score's scale
fault "attention's derivatives: a tile is overwritten while it is read" \
  templates/attend_backward.cu 's/nn_sync();  \/\/ the tile is visible.*//' env NNGEN_SIM_CHECK=all build/nngen \
  tests/models/attend_backward.lua --quiet --check --dtype fp16 --set case=plain N=200 M=200
fault "attention's derivatives: rows begin a tile late" templates/attend_backward.cu \
  's/const int m = m0 + row0, key = tile \* kTileKeys;/const int m = m0 + row0, key = tile * kTileKeys + 1;/' \
  derived lengths
sound "no fault, no complaint about sums of weights" derived bias_keys
fault "sums of weights: rows past the last one count" templates/attend_bias.cu \
  's/kSumsRows ? kM - m0 : kTileM/kTileM/' derived bias_keys
fault "sums of weights: keys past the last one count" templates/attend_bias.cu \
  's/kSumsKeys ? kKeys - key0 : kTileKeys/kTileKeys/' derived scales
fault "sums of weights: a tile is overwritten while it is read" \
  templates/attend_bias.cu 's/nn_sync();  \/\/ the tile is visible.*//' derived bias
fault "sums of weights: the last step of a part is left out" \
  templates/attend_bias.cu 's/step < end; stage/step < end - 1; stage/' derived bias
fault "sums of weights: a row of each tile is left out" templates/lib/attend_sums.cuh \
  's/for (int row = 0; row < kRows/for (int row = 1; row < kRows/' derived bias_keys
norms() { run tests/models/fusion.lua --set case=norms; }
sound "no fault, no complaint about reductions of several tensors" norms
fault "reduce_many: a tensor's last block is forgotten" templates/reduce_many.cu \
  's/, \$(one.last), lane/, $(one.last - 1), lane/' norms
fault "reduce_many: a tensor's last elements are another's" templates/reduce_many.cu \
  's/rest < kPart ? \$(one.elements)/rest < kPart ? begin + kPart/' norms
fault "reduce_many: states are read before all have arrived" templates/reduce_many.cu \
  's/if (!last_to_arrive(own_arrived, kBlocks, &last)) return;/if (blockIdx.x) return;/' norms
updates() { run tests/models/fusion.lua --set case=updates; }
sound "no fault, no complaint about updates of several tensors" updates
fault "tensors: a part's first block is that of the one before" templates/lib/tensors.cuh \
  's/begins\[middle\] <= block/begins[middle] < block/' updates
fault "tensors: the search ends one step too early" templates/lib/tensors.cuh \
  's/first < final)/first < final - 1)/' updates
fault "reduce_many: a part of many is left out" templates/reduce_many.cu \
  's/part <= \$(one.final)/part < $(one.final)/' updates
fault "parts that share text have the same number of elements" gen/emit/alike.lua \
  's/class.elements = "of.count"/class.elements = tostring(class.count)/' updates
parts() { run tests/models/reduce.lua --set only=sum rows=2 columns=30 depth=1000; }
sound "no fault, no complaint about parts of a reduction" parts
fault "reduce: a part is forgotten" \
  templates/lib/reduce.cuh 's/int p = row; p < kParts/int p = row; p < kParts - 1/' parts
fault "reduce: the last part ends too early" templates/reduce.cu \
  's/kReduced - begin < kPart ? kReduced/kReduced - begin < kPart ? kReduced - kLanes/' parts
fault "reduce: parts are read before they have arrived" templates/lib/reduce.cuh \
  's/if (!last_to_arrive(arrived, kParts, last)) return false;/if (part) return false;/' parts
fault "rowwise: the butterfly stops early" templates/lib/reduce.cuh \
  's/offset = kLanes .* 2; offset > 0/offset = kLanes \/ 2; offset > 1/' run models/lenet.lua
scan() { run tests/models/scan.lua --set "$@"; }
in_parts() { scan outer=2 inner=1 length=40000; }
sound "no fault, no complaint about scans" scan case=every
sound "no fault, no complaint about scans in parts" in_parts
fault "scan: a lane adds itself in place of the one before" \
  templates/lib/scan.cuh 's/if (lane >= by)/if (lane > by)/' scan length=200 inner=1
long && ok "scan: the carry is dropped after 16 chunks" found templates/lib/scan.cuh \
  's/carry = combine(carry, level);/;/' scan length=33001 outer=350 inner=1
fault "scan: an owner adds its own total" templates/lib/scan.cuh \
  's/if (o == owner) others = total;/if (o == owner + 1) others = total;/' scan length=200
fault "scan: a barrier is missing" templates/lib/scan.cuh \
  '/shared\[owner \* Tile::kColumns + column\] = total/{n;s/nn_sync();//}' scan length=200
fault "scan: a part is forgotten" \
  templates/lib/scan.cuh 's/int p = row; p < part/int p = row + 1; p < part/' in_parts
fault "scan: nobody waits for the parts before" templates/lib/scan.cuh \
  's/nn_atomic_add(marks + p, 0) == 0/false/' env NNGEN_SIM_THREADS=16 build/nngen \
  tests/models/scan.lua --quiet --check --set outer=1 inner=1 length=100000
fault "scan: the marks are not taken back" \
  templates/lib/scan.cuh 's/counts\[b\] = 0/counts[b] += 0/' in_parts
topk() { run tests/models/topk.lua --set "$@"; }
sound "no fault, no complaint about topk" topk case=special k=40
fault "topk: the higher of two equal places wins" templates/lib/select.cuh \
  's/unsigned(~place); *$/unsigned(place);/; s/int(~unsigned(key))/int(unsigned(key))/' \
  topk case=special k=40
fault "topk: NaN is no number to find" templates/lib/select.cuh \
  's/nn_isnan(x) ? 0xffffffffu/nn_isnan(x) ? 0u/' topk case=special k=40
fault "topk: what did not fit is forgotten" templates/lib/select.cuh \
  's/if (lane < count) waiting\[lane\] = .*/;/' topk case=rising k=64 length=300 inner=1
fault "topk: the last that wait are forgotten" \
  templates/lib/select.cuh 's/if (count) take(count);/;/' topk length=40
fault "topk: a step of the network is left out" templates/lib/select.cuh \
  's/int by = kWarp \/ 2; by > 0; by \/= 2)$/int by = kWarp \/ 4; by > 0; by \/= 2)/' \
  topk k=30
fault "topk: a warp's list is not merged" templates/lib/select.cuh \
  's/if (warp < half) merge_list/if (warp < half \&\& warp) merge_list/' \
  topk k=20 outer=1 inner=1 length=2000
fault "topk: a part is forgotten" templates/lib/select.cuh \
  's/p < kParts; p +=/p < kParts - 1; p +=/' topk k=20 outer=1 inner=1 length=30000
sorts() { run tests/models/sort.lua --set "$@"; }
sound "no fault, no complaint about sort" sorts case=every length=200
fault "sort: the last comparison of a thread is left out" templates/lib/sort.cuh \
  's/round < kItems;/round < kItems - 1;/' sorts length=300
fault "sort: a barrier is missing" templates/lib/sort.cuh \
  's|nn_sync();  // the shorter runs have been read|;|' sorts length=300
fault "sort: the search ends too early" templates/lib/sort.cuh \
  's/low = middle + 1;/low = middle + 1, high = low;/' sorts length=300
fault "sort: a search in memory forgets its last part" templates/lib/search.cuh \
  's/if (beyond < high) high = beyond;/high = low;/' sorts length=5000 outer=1 inner=1
fault "sort: a run without a partner is dropped" templates/sort.cu \
  's/if (d >= na + nb) return;/if (d >= na + nb || nb == 0) return;/' \
  sorts case=runs length=500 run=100 merges=1
across() { run tests/models/across.lua --set channels=300 "$@"; }
sound "no fault, no complaint about rows across memory" across
fault "rows across memory: the result is read before it is there" \
  templates/lib/reduce.cuh '/part\[column\] = acc\[0\];/{n;s/nn_sync();//}' across
fault "rows across memory: a thread's part is forgotten" templates/lib/reduce.cuh \
  's/join_rows<kRows, kColumns, false>(acc, part, row, column);/;/' across
fault "window: one tap too few" templates/window.cu 's/r < \$(H.kernel)/r < $(H.kernel) - 1/' \
  run models/lenet.lua
fault "map: the last vector is dropped" templates/parts/map_place.cu \
  's/if (i >= \$(k.elements)) return/if (i + kLanes >= $(k.elements)) return/' run tests/models/fixed.lua
scatters() { run tests/models/scatter.lua --set case=rows n=5000 d=33 skewed=true; }
sorted_ids() { run tests/models/scatter.lua --set case=sorted d=33 skewed=true "$@"; }
long_place() { run tests/models/scatter.lua --set case=sorted_one n=6000 d=40 size=3; }
one_place() { run tests/models/scatter.lua --set case=one n=5000 d=33; } # more than kHits at once
sound "no fault, no complaint about rows added by their ids" scatters
fault "scatter: what warps before have found is not counted" templates/lib/scatter.cuh \
  's/if (w < warp) before += count;//' scatters
fault "scatter: rows are added before they are there" templates/lib/scatter.cuh \
  's/nn_sync();  \/\/ the rows are staged//' scatters
fault "scatter: rows take the place of those that are being added" templates/lib/scatter.cuh \
  's/nn_sync();  \/\/ the rows are added//' one_place
fault "scatter: two warps have a place" templates/lib/scatter.cuh \
  's/own % Tile::kClasses == warp/own % Tile::kClasses <= warp/' scatters
fault "scatter, sorted: a group's first place is taken for its own" templates/lib/scatter.cuh \
  's/bool first = true;/bool first = false;/' long_place
fault "scatter, sorted: groups' sums are joined before they are there" templates/lib/scatter.cuh \
  's|nn_sync();  // the groups. sums are there|;|' long_place
fault "scatter, sorted: the table's next place is counted" templates/lib/scatter.cuh \
  's/place_of(row_at(p)) < place;/place_of(row_at(p)) <= place;/' sorted_ids
fault "scatter, sorted: a part begins where the one before did" templates/lib/scatter.cuh \
  's/(part \* Tile::kGroups + group) \* share/group * share/' sorted_ids n=20000 d=7 size=40
fault "scatter: the last ids are left out" templates/lib/scatter.cuh \
  's/place\[i\] = e < end ?/place[i] = e < end - 1 ?/' scatters
no_misses() { [ ! "$misses" ] || { echo "these change nothing:"; echo -n "$misses"; return 1; }; }
ok "all faults, those left out, too, change their files" no_misses
tap_done
