#!/usr/bin/env bash
# Every reduction along every kind of axes (reduce.lua), and of NaN, infinities, ties and large
# means (reduce_special.lua): against the oracle, in every dtype, under several thread orders.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen "$@" --quiet --check; }
all=tests/models/reduce.lua special=tests/models/reduce_special.lua
for dtype in $(long && echo bf16 fp32 fp16); do
  few 1/2 every && ok "every reduction, $dtype" run $all --dtype $dtype
done
long && few 1/2 every && ok "every reduction, unfused" run $all --lowering unfused
long && few 1/2 every && ok "every reduction, odd shape" run $all --set rows=3 columns=7 depth=5
ok "NaN, infinities, ties and large means" run $special
long && ok "the same of rows longer than registers hold" run $special --set columns=40000
for seed in 1 $(long && echo 2); do
  ok "under thread order $seed" env NNGEN_SIM_SEED=$seed build/nngen $special --quiet --check
done
kernels() { # kernels WANT ARGUMENTS...: so many kernels are made
  local want=$1 got; shift
  got=$(build/nngen show "$@" | grep -c '^# kernel.*reduce_')
  [ "$got" = "$want" ] || { echo "$got kernels, want $want"; return 1; }
}
cat >"$work/siblings.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {4, 30, 50})
nn.output("v", nn.var(x, 2) + nn.sum(x, 2) * nn.amax(x, 2))
nn.output("s", nn.softmax(x, 2))
LUA
ok "reductions of one value are one kernel" kernels 1 "$work/siblings.lua"
ok "which is right" run "$work/siblings.lua"
cat >"$work/many.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {20, 40000})
for i = 1, 20 do nn.output("y" .. i, x:slice(1, i, i):sum()) end
LUA
ok "20 of them are three, whose sums registers hold" kernels 3 "$work/many.lua"
cat >"$work/few.lua" <<'LUA'
local nn = require "nn"
local dims = {nn.config{rows = 8}.rows, 9, 4096}
local x, at, c = nn.floor(nn.input("x", dims) * 2), nn.index(dims, 2), nn.index(dims, 3)
x = nn.where((c % 5):eq(1), -1 / 0, x)
x = nn.where((c % 7):eq(3):logical_and(((at + c) % 3):eq(1)), 0 / 0, x)
nn.output("most", x:argmax(2))
nn.output("least", (-x):argmin(2))
local nan = nn.where(x:ne(x), at, 9):amin(2) -- the same by other formulas
local largest = nn.where(x:ne(x), -1 / 0, x):amax(2, true)
nn.output("first", nn.where(nan:lt(9), nan, nn.where(x:eq(largest), at, 9):amin(2)))
LUA
echo 'nn = require "nn"; nn.output("y", nn.input("x", {1024, 9, 4096}):argmax(2))' >"$work/own.lua"
own() { # no thread waits for others
  build/nngen show "$work/own.lua" --cuda >"$work/own" && grep -q 'kColumns = 256;' "$work/own"
}
ok "of few elements a thread combines all" own
together() { # what maps make of what each is a reduction of is not stored for them
  local got
  got=$(build/nngen show "$work/few.lua" --set rows=1024 --stage fuse | grep -c '^# kernel')
  [ "$got" = 1 ] || { echo "$got kernels, want 1"; return 1; }
}
ok "five reductions of what maps make of one input, and maps of these: one kernel" together
ordered() {
  run "$work/few.lua" --output "$work/ordered" &&
    cmp "$work/ordered/most.npy" "$work/ordered/first.npy" &&
    cmp "$work/ordered/least.npy" "$work/ordered/first.npy"
}
ok "in the order of their places, NaN first, infinities last" ordered
cat >"$work/places.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {1, 8, 160, 160}):conv2d("c", {out = 64, kernel = 1, bias = false})
local often = nn.where(nn.index({1, 64, 1, 1}, 2):eq(0), 0.85, 9) -- few 1 in the first channel
local y = nn.floor(x * often):clamp(0, 1)
nn.output("place", y:argmax{2, 3, 4})
local at = nn.index({64, 1, 1}, 1) * 25600 + nn.index({160, 1}, 1) * 160 + nn.index({160}, 1)
nn.output("first", nn.where(y:eq(1), at, 2147483647):amin{2, 3, 4})
LUA
places() { # channels are innermost in memory, and the outermost of a place
  run "$work/places.lua" --dtype bf16 --output "$work/places" &&
    cmp "$work/places/place.npy" "$work/places/first.npy"
}
ok "the first place, where places are in another order than memory" places
cat >"$work/both.lua" <<'LUA'
local nn = require "nn"
local c = nn.config{rows = 100}
local y = nn.floor(nn.input("x", {c.rows, 5, 40}) * 1.5):clamp(-9, 1) -- many are the largest
nn.output("place", y:argmax{1, 3})
local at = nn.index({c.rows, 1, 1}, 1) * 40 + nn.index({40}, 1)
nn.output("first", nn.where(y:eq(y:amax({1, 3}, true)), at, 2147483647):amin{1, 3})
nn.output("nan", nn.where(y:eq(1), 0 / 0, y):argmax{1, 3})
LUA
neighbours() { # lanes are reduced together; several of their vectors, by several blocks
  local rows
  for rows in 100 6000; do
    run "$work/both.lua" --output "$work/both" --set rows=$rows &&
      cmp "$work/both/place.npy" "$work/both/first.npy" &&
      cmp "$work/both/nan.npy" "$work/both/first.npy" || return
  done
}
ok "the first place, of neighbours in several vectors" neighbours
cat >"$work/runs.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {128, 64, 112, 112}):max_pool2d{kernel = 1}
nn.output("y", nn.exp(x):amax{1, 3, 4})
LUA
runs() { # of 2 bytes each: 32 neighbours or more are half a line of 128 bytes
  build/nngen show "$work/runs.lua" --dtype bf16 --cuda --kernel amax >"$work/log" &&
    awk '/ kColumns =/ {columns = $5} / kLanes =/ {lanes = $5}
      END {exit !(columns * lanes >= 32)}' "$work/log" || { grep kColumns "$work/log"; return 1; }
}
ok "blocks read long runs of memory" runs
cat >"$work/near.lua" <<'LUA'
local nn = require "nn"
nn.output("y", nn.input("x", {4, 100000}):layer_norm("n"))
LUA
ok "a mean far below its elements is as exact as they are many" run "$work/near.lua"
cat >"$work/most.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{count = 1}
nn.output("y", nn.index({cfg.count}, 1):gt(2147483640):sum())
LUA
cat >"$work/far.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{make = false}
local x = nn.input("x", {64, 1024})
nn.output("y", cfg.make and x + 1e4 or x:var(2))
LUA
far() { # multiplications and additions that the compiler joins round once
  build/nngen "$work/far.lua" --quiet --set make=true --output "$work/far" >"$work/log" &&
    NNGEN_SIM_OPTIMIZE=2 build/nngen "$work/far.lua" --quiet --check \
      --input x="$work/far/y.npy" >"$work/log" || return
  grep -q 'relative error [0-9.]*e-0[7-9]' "$work/log" || { grep '^output' "$work/log"; return 1; }
}
ok "a variance far below the mean's square, with multiply-adds" far
cat >"$work/norm.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{make = false, conv = false}
local x = nn.input("x", {8, 4, 16, 16})
if cfg.make then return nn.output("y", x + 1e3) end
if cfg.conv then x = x:conv2d("c", {out = 8, kernel = 1, bias = false, groups = 4}) end
nn.output("y", x:batch_norm2d("b", {training = true}))
LUA
far_norm() { # the first step, in which the running mean is 0; inputs' own rounding is 6e-5
  build/nngen "$work/norm.lua" --quiet --set make=true --output "$work/norm" >"$work/log" &&
    build/nngen "$work/norm.lua" --quiet --check --input x="$work/norm/y.npy" "$@" >"$work/log" ||
    return
  grep -q 'relative error [0-9.]*e-0[5-9]' "$work/log" || { grep '^output' "$work/log"; return 1; }
}
ok "batch norm of data far from 0" far_norm
ok "batch norm of a convolution's results far from 0" far_norm --set conv=true
cat >"$work/infinite.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {40, 3}) * 0
local y = nn.where(nn.index({40, 1}, 1):eq(2), x + 1 / 0, x)
for axis, z in ipairs{y, y:transpose()} do
  for name, s in pairs{softmax = z:softmax(axis), log_softmax = z:log_softmax(axis)} do
    nn.output(name .. axis, s:ne(s):sum())
  end
end
LUA
infinite() { # all 120 are NaN, however rows lie
  build/nngen "$work/infinite.lua" --quiet --output "$work/infinite" "$@" >"$work/log" || return
  for name in softmax1 softmax2 log_softmax1 log_softmax2; do
    local got; got=$(tail -c 4 "$work/infinite/$name.npy" | od -An -td4)
    [ "$got" -eq 120 ] || { echo "$name: $got are NaN"; return 1; }
  done
}
ok "the softmax of a row with an infinity is NaN" infinite
long && ok "the softmax of a row with an infinity is NaN, unfused" infinite --lowering unfused
most() { # COUNT WANT: no thread goes past the largest int, to elements that there are not
  NNGEN_SIM_OPTIMIZE=2 build/nngen "$work/most.lua" --set count=$1 --quiet --no-check \
    --output "$work/most" >"$work/log" || return
  local got; got=$(tail -c 4 "$work/most/y.npy" | od -An -td4)
  [ "$got" -eq "$2" ] || { echo "$got, not $2"; return 1; }
}
long && ok "as many elements as an int can count" most 2147483647 6
long && ok "sums of 2^31 elements" most 2147483648 7
cat >"$work/short.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{columns = 8, rows = 37} -- more rows than whole warps have
local x = nn.input("x", {cfg.rows, cfg.columns})
nn.output("softmax", nn.softmax(x, 2))
nn.output("sum", x:sigmoid():sum(2))
nn.output("place", nn.floor(x * 2):argmax(2))
nn.output("norm", (x - x:mean(2, true)) * nn.rsqrt(x:var(2, true, 0) + 1))
LUA
short() { # COLUMNS THREADS OPTIONS...: a row has so many threads, and all is right
  local columns=$1 threads=$2; shift 2
  NNGEN_SIM_CHECK=all NNGEN_SIM_SEED=$columns build/nngen "$work/short.lua" --quiet --check \
    --set columns=$columns "$@" >"$work/log" &&
    build/nngen show "$work/short.lua" --set columns=$columns "$@" --cuda >"$work/cuda" &&
    grep -q "^constexpr int kThreads = $threads;" "$work/cuda" || { cat "$work/log"; return 1; }
}
for row in 2:1 3:4 4:1 5:8 8:2 13:16 16:4 36:16 100:32; do
  few 6/2 && ok "rows of ${row%:*}" short ${row%:*} ${row#*:}
  long && few 1/3 fp16 && ok "rows of ${row%:*}, fp16" short ${row%:*} ${row#*:} --dtype fp16 \
    --set rows=200
done
long=tests/models/long_rows.lua
ok "long rows, and rows across memory" run $long $(long || echo --set columns=33000 rows=2)
reads() { # reads NAME COUNT: kernels of infer, however long the rows are
  local got; got=$(build/nngen show $long --set only=$1 columns=100000 | grep -c '^# kernel.*infer')
  [ "$got" = $2 ] || { echo "$got kernels"; return 1; }
}
for name in softmax log_softmax layer_norm; do ok "$name reads them twice" reads $name 2; done
for name in norm_softmax softmax_grad norm_grad; do
  ok "$name, whose sums wait for others, three times" reads $name 3
done
# across SETTINGS...: rows across memory and what reads their results are one kernel, which is
# right.
across() {
  local got; got=$(build/nngen show tests/models/across.lua --set "$@" | grep -c '^# kernel.*infer')
  [ "$got" = 1 ] && run tests/models/across.lua --set "$@" || { echo "$got kernels"; return 1; }
}
for shape in "" "channels=300 height=5 width=3" "channels=1000 height=1 width=9" \
  "batch=1 channels=3 height=40 width=33"; do
  for case in softmax norm two; do
    few 5/2 || continue
    ok "$case across memory, ${shape:-as it is}" across case=$case $shape
  done
done
# A group norm behind a convolution is one kernel: reshapes there and back, a weight for each
# channel.
groups() {
  kernels 1 tests/models/across.lua --set case=groups "$@" &&
    run tests/models/across.lua --set case=groups "$@"
}
ok "group norm, behind a convolution" groups
long && ok "group norm of an odd image, behind a convolution" groups height=13 width=11
cat >"$work/behind.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{pool = false, batch = 32}
local x = nn.input("x", {cfg.batch, 64, 32, 32})
local y = x:conv2d("c", {out = 128, kernel = 3, pad = 1}):group_norm("n", {groups = 8}):relu()
nn.output("y", cfg.pool and y:mean{3, 4} or y)
LUA
of_product() { # of_product WANT SETTING...: is the norm's statistic the convolution's?
  build/nngen show "$work/behind.lua" --dtype bf16 --set "${@:2}" >"$work/log" || return
  [ "$(grep -c '^# kernel.*conv2d.*reduce_var' "$work/log")" = $1 ] ||
    { grep '^# kernel' "$work/log"; return 1; }
}
ok "norms of few rows have their statistics of the convolution" of_product 1 batch=4
ok "norms of many rows are kernels that read them once" of_product 0 batch=32
ok "norms that are only reduced further have them of the convolution" \
  of_product 1 batch=32 pool=true
cat >"$work/two.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {6, 40})
local y = x / (x:var(2, true) + 1) + nn.sum(x, 2, true)
nn.output("z", y * y:var(2, true) + nn.sum(y, 2, true))
LUA
ok "moments and sums, in two sweeps" run "$work/two.lua"
cat >"$work/chain.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {4, 32000})
for i = 1, 40 do x = x * 0.5 - x * x end -- as a tree, 2^40 maps
nn.output("y", x:softmax(2))
LUA
ok "a long chain that reads itself twice, behind a long row" \
  timeout 20 build/nngen show "$work/chain.lua"
cat >"$work/apart.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {8, 64, 32, 32})
local function conv(name) return x:conv2d(name, {out = 64, kernel = 3, pad = 1}) end
nn.output("v", conv("a"):relu():var{3, 4})
nn.output("most", conv("b"):reshape{8, 16, 4, 32, 32}:amax{3, 4, 5})
LUA
siblings() {
  build/nngen show "$work/apart.lua" --dtype bf16 >"$work/log" &&
    [ "$(grep -c '^# kernel.*conv2d.*reduce_' "$work/log")" = 2 ] ||
    { grep '^# kernel' "$work/log"; return 1; }
}
ok "convolutions of one input keep their reductions" siblings
ok "rows across memory, fp16" run tests/models/across.lua --set case=norm --dtype fp16
for seed in 1 $(long && echo 2); do
  ok "rows across memory, all checks, thread order $seed" \
    env NNGEN_SIM_CHECK=all NNGEN_SIM_SEED=$seed build/nngen tests/models/across.lua --quiet --check
done
# Dimensions of one element: what is left are maps, which follow moves.
cat >"$work/ones.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {1, 10}) * 2
for name, y in pairs{softmax = x:softmax(1), log_softmax = x:log_softmax(1), mean = x:mean(1, true),
                     logsumexp = x:logsumexp(1, true)} do
  nn.output(name, y:reshape{1, 5, 2}:permute{2, 3, 1}:reshape{10, 1}:transpose())
end
LUA
ones() {
  build/nngen "$work/ones.lua" --quiet --check "$@" &&
    ! build/nngen show "$work/ones.lua" --stage simp "$@" | grep reduce_
}
ok "reductions of one element are none" ones
wide() { # wide NAME COLUMNS: a row for each SM, as long as registers hold or longer: one kernel
  local got o="--set only=$1 columns=$2 rows=132"
  got=$(build/nngen show tests/models/wide_rows.lua $o | grep -c '^# kernel.*infer')
  [ "$got" = 1 ] && run tests/models/wide_rows.lua $o || { echo "$got kernels"; return 1; }
}
for columns in 700 20001 32000; do
  for name in residual softmax many; do
    few 5/2 || continue
    ok "$name over $columns columns is one kernel" wide $name $columns
  done
done
ok "states of several words, over 32000 columns" run tests/models/wide_rows.lua --set only=places \
  rows=132
# One block for each row, or parts of rows, by what both take: few long rows have parts, and as
# many as there are SMs a block each, which reads them twice where registers do not hold them.
chosen() { # chosen KERNELS WHAT MODEL ARGUMENTS...
  local got
  build/nngen show "${@:3}" >"$work/chosen" && grep -q ", $2 (template" "$work/chosen" &&
    got=$(grep -c '^# kernel.*infer' "$work/chosen") && [ "$got" = $1 ] ||
    { grep -E "^# kernel|us modelled" "$work/chosen"; return 1; }
}
for name in softmax layer_norm; do
  o="tests/models/long_rows.lua --set only=$name"
  for columns in 32000 50257; do
    ok "$name, 4096 rows of $columns: a block each" chosen 1 "one block per row" $o rows=4096 \
      columns=$columns
  done
  ok "which is right, of 132 rows" run $o rows=132 columns=50257
done
o="tests/models/long_rows.lua --set only=layer_norm"
ok "layer_norm, 8 rows of 65536: parts" chosen 2 "split reduction" $o rows=8 columns=65536
ok "which is right" run $o rows=8 columns=65536
long && ok "rows of several runs of moments a thread" run $o rows=140 columns=66001
o="tests/models/long_rows.lua --set only=norm_grad"
ok "the gradient of a norm, 8 rows of 32000: parts" chosen 3 "split reduction" $o rows=8 columns=32000
ok "or 1024 rows of 50257: a block each" chosen 1 "one block per row" $o rows=1024 columns=50257
# Across memory alike.
echo 'local nn = require "nn"
local cfg = nn.config{columns = 2049, rows = 1024}
nn.output("y", nn.input("x", {cfg.columns, cfg.rows}):softmax(1))' >"$work/down.lua"
ok "1024 columns of 2049: a block for a few" chosen 1 "one block per row" "$work/down.lua"
ok "which is right" run "$work/down.lua" --set rows=64
ok "7 columns of 2048: parts" chosen 2 "split reduction" "$work/down.lua" --set rows=7 columns=2048
ok "which is right" run "$work/down.lua" --set rows=7 columns=2048
# A dot product of any length uses more than one tile of a matrix product.
echo 'local nn = require "nn"
nn.output("y", nn.input("x", {1, 65536}):linear("dot", {out = 8}))' >"$work/dot.lua"
dot() {
  build/nngen show "$work/dot.lua" | grep -q "mul+reduce_sum" && run "$work/dot.lua"
}
ok "products of long vectors are sums" dot
by_hand() { # a softmax written out, over rows that registers do not hold: it reads them twice
  local got
  got=$(build/nngen show tests/models/wide_rows.lua --set only=softmax columns=$1 |
    grep -c '^# kernel.*infer')
  [ "$got" = 2 ] && run tests/models/wide_rows.lua --set only=softmax columns=$1 ||
    { echo "$got kernels"; return 1; }
}
ok "a softmax by hand over 100000 columns is two kernels" by_hand 100000
# A sum that leaves the model, and the statistics of it: one kernel for these, one for the rest.
sum_first() {
  local got
  got=$(build/nngen show tests/models/wide_rows.lua --set only=residual columns=100000 |
    grep -c '^# kernel.*infer')
  [ "$got" = 2 ] && run tests/models/wide_rows.lua --set only=residual columns=100000 ||
    { echo "$got kernels"; return 1; }
}
ok "a layer norm of a sum over 100000 columns is two kernels" sum_first
twice() { # the bytes that libcusim counts: two reads of x and one write, within 2 %
  build/nngen $long --quiet --no-check --count --json --set only=softmax rows=1 columns=40000 \
    >"$work/j" || return
  tr -d ' ,"' <"$work/j" | awk -F: '$1 == "distinct_bytes" {sum += $2}
    END {want = 3 * 40000 * 4; exit !(sum > want * 0.98 && sum < want * 1.02)}'
}
[ $NNGEN_DEVICE = sim ] && ok "as libcusim counts" twice
# Three sweeps and four values: each input of the row is read twice at most, the values that wait
# are in shared memory. (Of 32000 columns that holds one value alone.)
reads() { # reads COLUMNS TIMES: of the three inputs, counted
  build/nngen tests/models/wide_rows.lua --quiet --no-check --count --json \
    --set only=many columns=$1 >"$work/j" || return
  tr -d ' ,"' <"$work/j" | awk -F: -v most=$((3 * 2 * $1 * 4 * $2)) '
    $1 == "distinct_bytes" {counted = 1} counted && $1 == "bytes_read" {read = $2; counted = 0}
    END {print read " bytes read, at most " most; exit !(read && read <= most)}'
}
if [ $NNGEN_DEVICE = sim ]; then
  ok "three sweeps over 16384 columns read them once" reads 16384 1
  ok "three sweeps over 20001 columns read them twice" reads 20001 2
fi
# Of 10^7 elements that are all the same, so that every rounding goes the same way: as near as
# adding in pairs keeps it, log2(n) roundings.
near() {
  local i x=$work/tenths
  printf '\xcd\xcc\xcc\x3d' >"$x" # 0.1
  for ((i = 0; i < 24; i++)); do cat "$x" "$x" >"$x.2" && mv "$x.2" "$x"; done
  { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' \
    "{'descr': '<f4', 'fortran_order': False, 'shape': (10000000,), }"
    head -c 40000000 "$x"; } >"$work/x.npy"
  cat >"$work/near.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {10000000})
nn.output("all", nn.sum(x))
nn.output("columns", nn.sum(x:reshape(5000000, 2), 1))
LUA
  build/nngen "$work/near.lua" --quiet --no-check --input "$work/x.npy" --output "$work/near" \
    >"$work/log" || { tail -3 "$work/log"; return 1; }
  { tail -c 4 "$work/near/all.npy"; tail -c 8 "$work/near/columns.npy"; } | od -An -v -w4 -tf4 |
    awk '{want = 1000000.0149 / (NR > 1 ? 2 : 1); e = $1 / want - 1; if (e < 0) e = -e
      if (e > 24 * 2 ^ -24) {print $1, "want", want; bad = 1}} END {exit bad || NR != 3}'
}
ok "sums of 10 M elements are as near as pairwise ones" near
# The sum of many elements: blocks for the whole GPU, at 85 % of its DRAM's rate as modelled.
whole() {
  echo 'local nn = require "nn"; nn.output("y", nn.sum(nn.input("x", {205000000})))' \
    >"$work/many.lua"
  build/nngen show "$work/many.lua" --costs --json | tr -d ' ,"' | awk -F: \
    '$1 == "modelled_us" {us = $2} $1 == "bound" {exit !(us < 820e6 / (0.85 * 4.8e12) * 1e6)}' &&
    build/nngen show "$work/many.lua" --cuda | grep -qE '^// grid 1x([2-9][0-9]{2}|[0-9]{4})x1 '
}
ok "205 M elements use the whole GPU" whole
cat >"$work/drawn.lua" <<'LUA'
local nn = require "nn"
local x = nn.config{drawn = true}.drawn and nn.random({2048, 1024}, {kind = "normal"})
          or nn.input("x", {2048, 1024})
nn.output("y", x:softmax())
LUA
threads() { # threads N DRAWN: of each row
  build/nngen show "$work/drawn.lua" --cuda --set drawn=$2 >"$work/cu"
  local all rows
  all=$(sed -nE 's/.*__launch_bounds__.([0-9]+).*/\1/p' "$work/cu")
  rows=$(sed -nE 's/.*kRowsPerBlock = ([0-9]+).*/\1/p' "$work/cu")
  [ $((all / rows)) = $1 ] || { echo "$all threads for $rows rows"; return 1; }
}
ok "rows of which each element takes hundreds of instructions have more threads" threads 64 true
ok "others a warp" threads 32 false
tap_done
