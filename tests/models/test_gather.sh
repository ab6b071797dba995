#!/usr/bin/env bash
# Gathers and scatters (gather.lua) against the oracle; ids that a table has not.
. "$(dirname "$0")/../tap.sh"
run() { build/nngen tests/models/gather.lua --quiet --check "$@"; }
for case in rows along embedding scatter; do
  ok "$case" run --set case=$case
  few 4/2 && ok "$case, fp16, unfused" run --set case=$case --dtype fp16 --lowering unfused
done
kernels() { # the embeddings and the norm are one kernel, the product another
  run --set case=embedding >"$work/log" && grep -q '^layer\|gather+gather' "$work/log" &&
    [ "$(grep -c 'rowwise\|contract\|map ' "$work/log")" -le 3 ]
}
ok "embeddings are part of the norm" kernels
outside() { # outside FORM FROM OPTIONS...: one line of the model, before a kernel runs
  fails 2 "is not 0 to 4" build/nngen tests/models/gather.lua --quiet --set case=outside form=$1 \
    from=$2 "${@:3}" && grep -q '^nngen: tests/models/gather.lua:[0-9]*: .*: id -*[0-9]*, at' \
    "$work/fails" && ! grep -q 'libcusim\|assert' "$work/fails"
}
for form in gather take_along embedding loss rows scatter scatter_add index_add index_fill one_hot
do
  ok "an id too large, $form" outside $form 5
  ok "an id below 0, $form" outside $form -100 --no-check
done
cat >"$work/computed.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {16, 9, 64})
nn.output("rows", nn.gather(x, nn.index({32}, 1) // 4, 2) * 2)
nn.output("lanes", nn.gather(x, nn.index({64}, 1) % 7, 3) * 2) -- each lane has a place of its own
LUA
computed() { # rows are read as vectors, at places that are computed before the lanes
  build/nngen show "$work/computed.lua" --cuda >"$work/log" &&
    [ "$(grep -c 'nn_load<4>(g_x ' "$work/log")" = 1 ] && grep -q 'nn_float(g_x\[.*id' "$work/log" &&
    build/nngen "$work/computed.lua" --quiet --check
}
ok "a place that maps compute" computed
cat >"$work/nested.lua" <<'LUA'
local nn = require "nn"
local cfg = nn.config{case = "ids"}
local function nested(i) -- as a tree, 3^16 maps
  for _ = 1, 16 do i = (i * 3 + i // 2) % 7 + i end
  return i
end
local x, z = nn.input("x", {64, 32}), nn.input("z", {68, 34})
local rows = x:gather(nested(nn.index({64}, 1)) % 64, 1)
if cfg.case == "ids" then nn.output("y", rows)
elseif cfg.case == "read" then nn.output("y", nn.pad(rows, {1, 1, 2, 2}) * z) -- inside alone
else -- a condition over tiles
  local q = nn.input("q", {1, 2, 64, 32})
  nn.output("y", q:attention(q, q, {
    keep = function(at) return (nested(at.query) % 5):eq(nested(at.key) % 5) end}))
end
LUA
nested() { # nested CASE: what expressions of indices read several times is computed once
  build/nngen show "$work/nested.lua" --set case=$1 --cuda >"$work/log" &&
    [ "$(wc -c <"$work/log")" -lt 60000 ] &&
    build/nngen "$work/nested.lua" --quiet --check --set case=$1
}
for case in ids read mask; do ok "nested maps of indices, $case" nested $case; done
cat >"$work/unread.lua" <<'LUA'
local nn = require "nn"
local x = nn.input("x", {4, 8})
local unread = nn.gather(x, (nn.param("p", {4}):abs() * 100):to("i32"), 1)
nn.output("y", x * 2)
LUA
ok "what nobody reads is not looked at" build/nngen "$work/unread.lua" --quiet --check
ok "an id that a product makes is too large" outside product 5
[ $NNGEN_DEVICE = sim ] && ok "unchecked, libcusim finds it" fails 3 "id 5 is one of 0 to 4" \
  build/nngen tests/models/gather.lua --quiet --set case=outside form=product from=5 --no-check
steps() { # its fourth run reads beyond the table
  run --set case=counted --steps 2 &&
    fails 2 "gather: id 3, at element 0, is not 0 to 2" run --set case=counted --steps 4 "$@"
}
ok "an id that a state makes is too large" steps
ok "an id that a state makes is too large, replayed" steps --graph
tap_done
