#!/usr/bin/env bash
# Attention as it is written by hand in many ways (attend_forms.lua): each is one kernel, beside
# PyTorch in double (attend_forms.py).
. "$(dirname "$0")/../tap.sh"
model=tests/models/attend_forms.lua
python_with torch numpy
kernels() { # kernels COUNT FORM OPTIONS...
  build/nngen show $model --stage fuse --set form=$2 "${@:3}" >"$work/fuse" || return
  [ "$(grep -c '^# kernel' "$work/fuse")" = $1 ] || { grep '^# kernel' "$work/fuse"; return 1; }
}
forms=$(sed -n 's/^function forms\.\([a-z0-9_]*\)().*/\1/p' $model)
for form in $forms; do
  count=1
  case $form in
    two_*|differential|channels*|relative_*) count=2 ;;
    stored|differential_heads|decomposed) count=3 ;;
  esac
  ok "$form: $count kernels" kernels $count $form
done
one_query() { # whose sum of weights is one value for each matrix
  kernels 1 sum_behind queries=1 && build/nngen $model --quiet --check --set form=sum_behind queries=1
}
ok "weights divided behind the product, of one query" one_query
few_queries() { # for which one of the products costs less than keys side by side
  kernels 2 positions_beside queries=2 &&
    build/nngen $model --quiet --check --set form=positions_beside queries=2
}
ok "a product beside scores of few queries is kept" few_queries
ok "--no-flash keeps the scores of both in memory" kernels 4 two_values --no-flash
same() { # same FORM DTYPE GATE: the kernels against the oracle, the outputs against PyTorch
  build/nngen show $model --stage shape --set form=$1 >"$work/show.$1"
  build/nngen $model --quiet --check --dtype $2 --set form=$1 --output "$work/$1" \
    $(for file in "$work"/in/*.npy; do name=${file##*/} name=${name%.npy}
      grep -q "^%.* input() .*\"$name\"" "$work/show.$1" && echo --input $name=$file; done) &&
    [ "$(ls "$work/$1")" = "$(ls "$work/want/$1")" ] &&
    $python tests/models/compare_npy.py "$work/want/$1" "$work/$1" $3
}
[ "$python" ] && $python tests/models/attend_forms.py "$work" $forms
i=0
for form in $forms; do
  gates=(fp32:1e-5 fp16:3e-3) gate=${gates[i++ % 2]}
  few 13/3 || continue
  [ "$python" ] || { skip "$form" "PyTorch is not installed"; continue; }
  ok "$form is what it says, ${gate%:*}" same $form ${gate%:*} ${gate#*:}
done
differentiated() { # differentiated FORM ATTEND WEIGH PRODUCTS DTYPE: no more products of scores
  build/nngen $model --quiet --check --dtype $5 --set form=$1 gradients=true >"$work/log" &&
    [ "$(grep -c ' attend  ' "$work/log")" = $2 ] && [ "$(grep -c ' attend_backward ' "$work/log")" = $3 ] &&
    [ "$(grep -c ' contract  ' "$work/log")" = $4 ] || { cat "$work/log"; return 1; }
}
# Sums over parts of the weights, as derivatives of grid_bias, are products in 16 bits alone.
for one in two_masks:2:6 differential:2:6 where_nan:1:3 both_scaled:1:3 log_softmax:1:3 \
  turned_scores:1:3 heads_last:1:3 keys_outermost:1:3 rows:1:3 shared_q:1:3 shared_qv:1:3 \
  log_shared:1:3 sink:1:3 \
  positions_beside:1:5 einsum_groups:1:3 channels:1:3 \
  both_axes:1:3 both_axes_flat:1:4:0:bf16 grids:1:3 grid_bias:1:5:0:bf16 grid_bias:0:3:3 powers_masked:1:3 \
  powers_chosen:1:3 powers_filled:1:3 decomposed:1:5:6:bf16 relative_shift:1:3:3 \
  relative_gathered:1:3:3; do
  few 13/3 derived || continue
  IFS=: read -r form attend weigh products dtype <<<"$one"
  ok "derivatives of $form, ${dtype:=fp32}" differentiated $form $attend $weigh ${products:-0} $dtype
done
for case in heads position expanded chosen batches; do
  ok "seen in several shapes: $case" build/nngen tests/models/seen.lua --quiet --check \
    --set case=$case
done
tap_done
