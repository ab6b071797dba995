#!/usr/bin/env bash
# Gradients of attentions whose queries, keys and values are parts of one projection, however these
# are packed and normalised: they are written where the projection's gradient reads them.
. "$(dirname "$0")/../tap.sh"
model=tests/models/packed.lua
right() { build/nngen $model --quiet --check --set "$@"; }
made() { build/nngen show $model --plan --set "$@" >/dev/null; }
for pack in heads channels inner chunks turned; do
  for norm in none l2 rms one softmax elu layer; do
    for form in softmax linear raw sigmoid; do
      few 20/10 && ok "$pack, $norm, $form" right pack=$pack norm=$norm form=$form
    done
  done
done
ok "q and k of channel attention, each normalised: both parts are written" \
  right pack=channels norm=rms form=softmax
ok "softmax of q and of k, linear attention" right pack=heads norm=softmax form=linear
tap_done
